"""Forward mode: a graph and the tangents of its inputs give the tangents of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..trace import dtype as dtypes
from ..trace import finite, switches
from ..trace.debug import stage
from ..trace.graph import Graph, split
from ..trace.uop import OUTPUT, UOp, depends_on, input_node, rebuild, substitute, toposort
from .structured import Structured, number_of_results


@stage("transform")
def push_forward(outputs: Sequence[UOp], tangents: dict[UOp, UOp]) -> tuple[list[UOp], list[UOp | None]]:
    """The outputs and their tangents, None where these are zero, for the tangents of some of the inputs.

    The outputs come back too, because an op that holds a graph may compute them together with their tangents."""
    order = toposort(outputs)
    dependent = depends_on(order, tangents)
    primal: dict[Any, UOp] = {}
    tangent: dict[Any, UOp | None] = dict(tangents)
    for node in order:
        if node not in dependent or node in tangents:
            primal[node] = node
            continue
        src, op = node.src, node.op
        if op is OUTPUT:
            primal[node], tangent[node] = primal[src[0], node.arg], tangent[src[0], node.arg]
            continue
        args = tuple([primal[s] for s in src])
        arg_tangents = [tangent.get(s) for s in src]
        if isinstance(op, Structured):
            if all(t is None for t in arg_tangents):
                new = node if args == src else rebuild(node, args)
                results: tuple[list[UOp], list[UOp | None]] = (
                    op.results(new),
                    [None] * number_of_results(node),
                )
            else:
                results = op.jvp_results(args, arg_tangents, **node.params)
            for i, (out, out_tangent) in enumerate(zip(*results, strict=True)):
                primal[node, i], tangent[node, i] = out, out_tangent
            primal[node] = node
            continue
        primal[node] = new = node if args == src else rebuild(node, args)
        if dtypes.is_inexact(node.dtype) and any(t is not None for t in arg_tangents):
            tangent[node] = op.jvp(new, args, arg_tangents, **node.params)
            if switches.general_path:
                finite.inherit_line(node, [new, tangent[node]])
    return [primal[node] for node in outputs], [tangent.get(node) for node in outputs]


def jvp_graph(graph: Graph, given: tuple[bool, ...]) -> tuple[Graph, tuple[bool, ...]]:
    """The graph from the inputs, and tangents of those that are `given`, to the outputs and their tangents that are not
    zero; and which those are."""

    def make() -> tuple[Graph, tuple[bool, ...]]:
        tangents = {
            node: input_node(node.dtype, node.shape)
            for node, is_given in zip(graph.inputs, given, strict=True)
            if is_given
        }
        outputs, out_tangents = push_forward(graph.outputs, tangents)
        nonzero = [t for t in out_tangents if t is not None]
        derived = Graph([*graph.inputs, *tangents.values()], [*outputs, *nonzero], name=f"jvp_{graph.name}")
        return derived, tuple([t is not None for t in out_tangents])

    return graph.derive(("jvp", given), make)


class Linearized(NamedTuple):
    """A graph's forward mode in two parts: `known` gives the outputs and residuals; `linear` takes the residuals and the
    tangents, and gives those tangents of the outputs that are not zero."""

    known: Graph
    linear: Graph
    nonzero: tuple[bool, ...]


def linearized(graph: Graph, given: tuple[bool, ...]) -> Linearized:
    """The graph's forward mode for tangents of the inputs that are `given`, all that does not depend on them apart."""

    from .effects import without_effects

    def make() -> Linearized:
        tangents = {
            node: input_node(node.dtype, node.shape)
            for node, is_given in zip(graph.inputs, given, strict=True)
            if is_given
        }
        _, out_tangents = push_forward(graph.outputs, tangents)
        nonzero = [t for t in out_tangents if t is not None]
        residuals = split(nonzero, list(tangents.values()))
        stand_ins = {node: input_node(node.dtype, node.shape) for node in residuals}
        linear = Graph(
            [*stand_ins.values(), *tangents.values()],
            without_effects(substitute(nonzero, stand_ins)),
            name=f"linear_{graph.name}",
        )
        known = Graph(graph.inputs, [*graph.outputs, *residuals], name=graph.name)
        return Linearized(known, linear, tuple([t is not None for t in out_tangents]))

    return graph.derive(("linearized", given), make)
