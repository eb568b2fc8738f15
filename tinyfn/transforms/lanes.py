"""What a traced array is outside of its trace: under vmap, its values in all lanes."""

from __future__ import annotations

from ..trace.array import Array
from ..trace.graph import Graph
from ..trace.prims.movement import move_axis
from ..trace.tracing import Tracer, apply, within_trace
from ..trace.uop import INPUT, toposort
from .structured import BatchAxis
from .vmap import Lane, batch_graph


def outside(x: Tracer) -> Array | None:
    """The array in the trace around x's own that x stands for, of a vmap with its axis first if x differs from lane to lane.

    None if there is none: if x depends on what is known only when the function runs, as in a loop's body."""
    trace = x.context
    if trace.closed:
        return None
    arguments = dict(zip(trace.inputs, trace.arguments, strict=False))
    inputs = [node for node in toposort([x.uop]) if node.op is INPUT]
    arrays: list[Array] = []
    flags: list[bool] = []
    axis: BatchAxis | None = None
    for node in inputs:
        argument = arguments.get(node)
        flags.append(isinstance(argument, Lane))
        if isinstance(argument, Lane):
            axis = argument.batch_axis
            with within_trace(trace.parent):
                arrays.append(move_axis(argument.argument, argument.axis, 0))
        elif node in trace.known:
            arrays.append(trace.known[node])
        else:
            return None
    graph = Graph(inputs, [x.uop])
    if axis is not None:
        graph, _ = batch_graph(graph, axis, tuple(flags))
    elif graph.axis_names:
        return None
    with within_trace(trace.parent):
        return apply(graph, arrays)[0]
