"""What traced arrays are outside of their traces: under vmap, their values in all lanes."""

from __future__ import annotations

from math import prod
from typing import Any

from ..trace.array import Array
from ..trace.graph import Graph
from ..trace.prims.movement import move_axis
from ..trace.tracing import Trace, Tracer, apply, within_trace
from ..trace.uop import INPUT, UOp, input_node, substitute, toposort
from .structured import BatchAxis
from .vmap import Lane, batch_graph

# Larger values are not kept, and worked out again for what depends on them.
_MOST_ELEMENTS = 4096


class _Found:
    """Of one trace: the arrays around it that its nodes stand for, each with whether it has the axis of the lanes first."""

    def __init__(self, trace: Trace):
        self.arguments = dict(zip(trace.inputs, trace.arguments, strict=False))
        self.arrays: dict[UOp, tuple[Array, bool]] = {}
        self.axis: BatchAxis | None = None


class Outside:
    """Looks traced arrays up outside of their traces; each node is worked out once, so that this is linear in what is traced."""

    def __init__(self) -> None:
        self._found: dict[Trace, _Found] = {}

    def outermost(self, x: Array) -> Array:
        """What x stands for outside of all traces, of vmaps with the axes first in which it differs from lane to lane.

        A tracer if that is not known: if x depends on what is known only when the function runs, as in a compiled loop's body."""
        while isinstance(x, Tracer):
            around = self._around(x)
            if around is None:
                break
            x = around
        return x

    def _around(self, x: Tracer) -> Array | None:
        """The array in the trace around x's own that x stands for."""
        trace = x.context
        if trace.closed:
            return None
        found = self._found.get(trace)
        if found is None:
            found = self._found[trace] = _Found(trace)
        if x.uop not in found.arrays:
            order = toposort([x.uop], stop=found.arrays)
            if not all([self._find_input(trace, found, node) for node in order if node.op is INPUT]):
                return None
            if x.uop not in found.arrays and not self._work_out(trace, found, x.uop, order):
                return None
        return found.arrays[x.uop][0]

    def _find_input(self, trace: Trace, found: _Found, node: UOp) -> bool:
        argument: Any = found.arguments.get(node)
        if isinstance(argument, Lane):
            found.axis = argument.batch_axis
            with within_trace(trace.parent):
                found.arrays[node] = move_axis(argument.argument, argument.axis, 0), True
        elif node in trace.known:
            found.arrays[node] = trace.known[node], False
        return node in found.arrays

    def _work_out(self, trace: Trace, found: _Found, wanted: UOp, order: list[UOp]) -> bool:
        known = {source: None for node in order for source in node.src if source in found.arrays}
        inputs = [input_node(node.dtype, node.shape) for node in known]
        kept = [
            node
            for node in order
            if node is wanted
            or (node not in found.arrays and not isinstance(node.dtype, tuple) and _is_small(node))
        ]
        graph = Graph(inputs, substitute(kept, dict(zip(known, inputs, strict=True))))
        flags = tuple([found.arrays[node][1] for node in known])
        mapped: tuple[bool, ...] = (False,) * len(kept)
        if found.axis is not None:
            graph, mapped = batch_graph(graph, found.axis, flags)
        elif graph.axis_names:
            return False
        with within_trace(trace.parent):
            results = apply(graph, [found.arrays[node][0] for node in known])
        found.arrays.update(zip(kept, zip(results, mapped, strict=True), strict=True))
        return True


def _is_small(node: UOp) -> bool:
    return all(type(n) is int for n in node.shape) and prod(node.shape) <= _MOST_ELEMENTS
