"""Reverse mode: cotangents of a graph's outputs, pulled back to its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..trace import dtype as dtypes
from ..trace import finite, switches
from ..trace.debug import stage
from ..trace.graph import Graph, split
from ..trace.prim import add_tangents
from ..trace.prims import stop_gradient
from ..trace.uop import OUTPUT, UOp, depends_on, input_node, rebuild, substitute, toposort
from .structured import Structured, number_of_results

Pullback = Callable[[Sequence["UOp | None"]], "list[UOp | None]"]


@stage("transform")
def pull_back(outputs: Sequence[UOp], wrt: Sequence[UOp]) -> tuple[list[UOp], Pullback]:
    """The outputs, and the function from their cotangents (None for zero) to those of the nodes `wrt`.

    The outputs come back too, because an op that holds a graph keeps residuals when it is to be pulled back through."""
    order = toposort(outputs)
    dependent = depends_on(order, wrt)
    differentiated = differentiated_nodes(order, wrt)
    new: dict[Any, UOp] = {}
    kept: dict[UOp, Any] = {}
    for node in order:
        src = node.src
        if node not in dependent or not src:
            new[node] = node
            continue
        if node.op is OUTPUT:
            new[node] = new[src[0], node.arg]
            continue
        args = tuple([new[s] for s in src])
        if isinstance(node.op, Structured):
            if node in differentiated:
                needs = [s in differentiated for s in src]
                results, kept[node] = node.op.vjp_forward(args, needs, **node.params)
            else:
                results = node.op.results(node if args == src else rebuild(node, args))
            for i, result in enumerate(results):
                new[node, i] = result
            new[node] = node
        else:
            new[node] = node if args == src else rebuild(node, args)

    @stage("transform")
    def pullback(cotangents: Sequence[UOp | None]) -> list[UOp | None]:
        pending: dict[Any, list[UOp]] = {}
        for node, cotangent in zip(outputs, cotangents, strict=True):
            if cotangent is not None:
                pending.setdefault(node, []).append(cotangent)
        result: dict[UOp, UOp | None] = {}
        sinks = set(wrt)
        for node in reversed(order):
            if node not in differentiated:
                continue
            src = node.src
            needs = [s in differentiated for s in src]
            if isinstance(node.op, Structured):
                cts = [add_tangents(pending.pop((node, i), ())) for i in range(number_of_results(node))]
                if all(ct is None for ct in cts):
                    continue
                args = [new[s] for s in src]
                src_cts = node.op.vjp_backward(args, kept[node], cts, needs, **node.params)
            else:
                ct = add_tangents(pending.pop(node, ()))
                if node in sinks:
                    result[node] = ct
                if ct is None or not src:
                    continue
                if node.op is OUTPUT:
                    pending.setdefault((src[0], node.arg), []).append(ct)
                    continue
                src_cts = vjp_of_node(new[node], ct, [new[s] for s in src], needs)
                if switches.general_path:
                    finite.inherit_line(node, src_cts)
            for source, source_ct, need in zip(src, src_cts, needs, strict=True):
                if need and source_ct is not None:
                    pending.setdefault(source, []).append(source_ct)
        return [result.get(node) for node in wrt]

    return [new[node] for node in outputs], pullback


def differentiated_nodes(order: Sequence[UOp], wrt: Sequence[UOp]) -> set[UOp]:
    """The nodes that a derivative with respect to `wrt` passes through: not integers, and nothing behind stop_gradient."""
    found = {node for node in wrt if dtypes.is_inexact(node.dtype)}
    for node in order:
        if not found.isdisjoint(node.src) and node.op is not stop_gradient:
            if isinstance(node.op, Structured) or dtypes.is_inexact(node.dtype):
                found.add(node)
    return found


def vjp_of_node(node: UOp, ct: UOp, args: Sequence[UOp], needs: Sequence[bool]) -> list[UOp | None]:
    """The cotangents of one node's sources: by its own rule, or by transposing its tangent's formula."""
    if not any(needs):
        return [None] * len(args)
    if node.op.vjp is not None:
        return list(node.op.vjp(ct, node, args, needs, **node.params))
    tangents = [input_node(a.dtype, a.shape) if need else None for a, need in zip(args, needs, strict=True)]
    tangent = node.op.jvp(node, args, tangents, **node.params)
    if tangent is None:
        return [None] * len(args)
    wrt = [t for t in tangents if t is not None]
    _, pullback = pull_back([tangent], wrt)
    found = iter(pullback([ct]))
    return [None if t is None else next(found) for t in tangents]


class Reverse:
    """A graph's reverse mode: `forward` gives the outputs and residuals; `backward` takes residuals and cotangents.

    `takes` says which outputs have a cotangent, `gives` which of the inputs asked for get one that is not zero."""

    __slots__ = ("backward", "forward", "gives", "takes")

    def __init__(self, forward: Graph, backward: Graph, takes: tuple[bool, ...], gives: tuple[bool, ...]):
        self.forward, self.backward, self.takes, self.gives = forward, backward, takes, gives


def pulled_back(graph: Graph, needs: tuple[bool, ...]) -> tuple[list[UOp], list[UOp], list[UOp | None]]:
    """A graph's outputs, nodes for the cotangents of the inexact ones, and the cotangents of its inputs, for those marked in
    `needs` (None for zero)."""
    wrt = [node for node, need in zip(graph.inputs, needs, strict=True) if need]
    cts = [input_node(n.dtype, n.shape) if dtypes.is_inexact(n.dtype) else None for n in graph.outputs]
    outputs, pullback = pull_back(graph.outputs, wrt)
    found = dict(zip(wrt, pullback(cts), strict=True))
    return outputs, [ct for ct in cts if ct is not None], [found.get(node) for node in graph.inputs]


def reverse(graph: Graph, needs: tuple[bool, ...]) -> Reverse:
    """The graph's reverse mode with respect to the inputs marked in `needs`."""

    from .effects import without_effects

    def make() -> Reverse:
        outputs, given, in_cts = pulled_back(graph, needs)
        nonzero = [ct for ct in in_cts if ct is not None]
        residuals = split(nonzero, given)
        forward = Graph(graph.inputs, [*outputs, *residuals], name=f"forward_{graph.name}")
        stand_ins = {node: input_node(node.dtype, node.shape) for node in residuals}
        again = without_effects(substitute(nonzero, stand_ins))
        backward = Graph([*stand_ins.values(), *given], again, name=f"backward_{graph.name}")
        takes = tuple([dtypes.is_inexact(node.dtype) for node in graph.outputs])
        return Reverse(forward, backward, takes, tuple([ct is not None for ct in in_cts]))

    return graph.derive(("vjp", needs), make)
