"""Checkpoints in programs: which need to be programs of their own, and which may be part of what is around them."""

from __future__ import annotations

from typing import Any

from ..trace.graph import Graph
from ..trace.prim import Primitive
from ..trace.uop import OUTPUT, UOp, rebuild, toposort
from .structured import checkpoint_call, replace_calls


def inline_checkpoints(graph: Graph) -> Graph:
    """The graph with the contents of checkpoints in their place, except of those that compute something which is computed
    elsewhere in the graph too: as equal nodes are one node, that would be kept for them instead of being computed again.

    So a checkpoint is part of the kernels and native loops around it where there is nothing to merge it with: in a function
    that is not differentiated, or in the body of a scan, whose forward and backward passes are two loops."""
    order = graph.nodes()
    if not any(node.op is checkpoint_call for node in order):
        return graph
    new: dict[Any, UOp] = {}
    computed: set[UOp] = set()
    for node in order:
        args = tuple([new[s] for s in node.src])
        if node.op is checkpoint_call and not node.params["graph"].has_effects:
            contents = inline_checkpoints(replace_calls(node.params["graph"]))
            results = contents.inline(args)
            own = {n for n in toposort(results, stop=set(args)) if _is_computed(n)}
            if own.isdisjoint(computed):
                computed |= own
                for i, result in enumerate(results):
                    new[node, i] = result
                new[node] = node
                continue
        if node.op is OUTPUT and (node.src[0], node.arg) in new:
            new[node] = new[node.src[0], node.arg]
            continue
        new[node] = node if args == node.src else rebuild(node, args)
        if _is_computed(new[node]):
            computed.add(new[node])
    return Graph(graph.inputs, [new[node] for node in graph.outputs], graph.captured, graph.name)


def _is_computed(node: UOp) -> bool:
    """Whether it costs something to have: not what moves elements, which is a part of what reads it."""
    return isinstance(node.op, Primitive) and node.op.family != "movement"
