"""Branches that are little work: all are computed, and a choice is made among their results, as a part of kernels and loops."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..trace import dtype as dtypes
from ..trace import prims
from ..trace.graph import Graph
from ..trace.prim import full_like
from ..trace.uop import CONST, INPUT, OUTPUT, UOp, input_node
from .structured import replace_calls

# Elements that all branches may have together, for all of them to be computed.
MOST_SELECTED = 2048
_SELECTED = frozenset(("elementwise", "movement", "reduction", "contraction", "indexing"))


def selection(branches: Sequence[Graph]) -> Graph | None:
    """All branches of a cond and a choice among their results, from index and operands; None if they are too much work."""
    whole = [replace_calls(branch) for branch in branches]
    nodes = [
        node for branch in whole for node in branch.nodes() if node.op is not CONST and node.op is not INPUT
    ]
    if any(node.op is OUTPUT or node.op.family not in _SELECTED for node in nodes):
        return None
    sizes = [n for node in nodes for n in node.shape]
    if any(not isinstance(n, int) for n in sizes) or sum(_work(node) for node in nodes) > MOST_SELECTED:
        return None
    index = input_node(dtypes.int32, ())
    operands = [input_node(n.dtype, n.shape) for n in whole[0].inputs]
    within = prims.min(prims.max(index, full_like(index, 0)), full_like(index, len(whole) - 1))
    results = whole[0].inline(operands)
    for i, branch in enumerate(whole[1:], 1):
        here = prims.eq(within, full_like(index, i))
        results = [
            prims.where(prims.broadcast(here, shape=new.shape, axes=()), new, old)
            for new, old in zip(branch.inline(operands), results, strict=True)
        ]
    return Graph([index, *operands], results, name="selection")


def _work(node: UOp) -> int:
    """How many elements are computed for a node."""
    size = prod(node.shape)
    if node.op.family in ("reduction", "contraction"):
        size += prod(node.src[0].shape) * (prod(node.shape) if node.op.family == "contraction" else 1)
    return size
