"""Nests for tests of contractions."""

from __future__ import annotations

from collections.abc import Sequence

from tinyfn.lower.nest import Nest, Pass, Reduce, Store
from tinyfn.trace import scalar as s
from tinyfn.trace.uop import UOp


def contraction_nest(
    outer: Sequence[UOp], summed: Sequence[UOp], node: UOp, left: UOp, right: UOp, stores: Sequence[Store]
) -> Nest:
    """The nest of a contraction of two factors, which are cast to the accumulator's dtype."""
    value = s.build(s.MUL, left, right)
    return Nest(
        tuple(outer),
        (Pass(tuple(summed), (Reduce(node, s.ADD, value),), ()), Pass((), (), tuple(stores))),
        frozenset(),
    )
