"""Ops that no kernel computes, as others that run natively: what primitives say by their `decomposition`."""

from __future__ import annotations

from ..trace import finite
from ..trace.graph import Graph
from ..trace.prim import Primitive
from ..trace.uop import UOp, rebuild


def decompose(graph: Graph) -> Graph:
    """The graph with decompositions in the place of the nodes that have one, unless arrays are empty or of symbolic sizes."""
    order = graph.nodes()
    if not any(_may_be(node) for node in order):
        return graph
    new: dict[UOp, UOp] = {}
    for node in order:
        args = tuple([new[s] for s in node.src])
        made = None
        if _may_be(node):
            assert isinstance(node.op, Primitive) and node.op.decomposition is not None
            made = node.op.decomposition(*args, **node.params)
            finite.inherit_line(node, [made])
        new[node] = made if made is not None else node if args == node.src else rebuild(node, args)
    return Graph(graph.inputs, [new[node] for node in graph.outputs], graph.captured, graph.name)


def _may_be(node: UOp) -> bool:
    if getattr(node.op, "decomposition", None) is None:
        return False
    return all(type(size) is int and size > 0 for each in (node, *node.src) for size in each.shape)
