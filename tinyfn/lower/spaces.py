"""Spaces: over which ranges a sink is computed, and whether it reads only what the same point produced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..trace import dtype as dtypes
from ..trace import sint
from ..trace.elements import Index
from ..trace.uop import UOp
from .contraction import CONTRACTIONS, summed
from .index import PIECE, elements_read, has_rule
from .sinks import is_reduction


def ranges_of(prefix: str, shape: Sequence[Any]) -> tuple[Any, ...]:
    """A range for each axis; axes of size 1 have only the index 0."""
    return tuple([0 if n == 1 else sint.Range(f"{prefix}{i}", n) for i, n in enumerate(shape)])


def space(sink: UOp, outer: Sequence[Any]) -> tuple[UOp, Index, Index]:
    """What is computed for each element of a sink, its index, and the inner part of that, under these outer axes.

    Of a contraction it is the contraction itself, and its inner ranges are those of its sum."""
    o = ranges_of("o", outer)
    if sink.op in CONTRACTIONS:
        return sink, o, ranges_of("k", summed(sink))
    if not is_reduction(sink):
        inner = ranges_of("i", sink.shape[len(outer) :])
        return sink, (*o, *inner), inner
    source, axes = sink.src[0], sorted(sink.params["axes"])
    inner = ranges_of("i", [source.shape[a] for a in axes])
    kept, reduced = iter(o), iter(inner)
    return (
        source,
        tuple([next(reduced) if a in axes else next(kept) for a in range(len(source.shape))]),
        inner,
    )


def reads_its_own_point(
    sink: UOp, reads: set[UOp], inside: set[UOp], outer: Sequence[Any] | None, whole: bool
) -> bool:
    """Whether all that a sink reads of `inside` was made at the same point of the outer ranges (`whole`: of all ranges).

    `reads` are all arrays that it reads, of which those `inside` are some."""
    assert outer is not None
    node, index, _ = space(sink, outer)
    return reads_point(node, index, reads, inside, index if whole else ranges_of("o", outer))


def _is_complex(node: UOp) -> bool:
    """Whether an op gives or takes complex numbers, which have no scalar formulas."""
    return node.dtype in dtypes.COMPLEX or (bool(node.src) and node.src[0].dtype in dtypes.COMPLEX)


def reads_point(node: UOp, index: Index, reads: set[UOp], inside: set[UOp], point: Index) -> bool:
    """Whether an element of a node reads of `inside` only what is at a point, in the first axes."""
    if not inside:
        return True

    def is_leaf(current: UOp) -> bool:
        return current in reads or not (
            current.op is PIECE or (has_rule(current) and not _is_complex(current))
        )

    return all(
        at[: len(point)] == point for current, at in elements_read(node, index, is_leaf) if current in inside
    )


def along(shape: Sequence[Any], ranges: Sequence[Any]) -> Index:
    """The index whose axes are in order those of the ranges; axes of size 1 have the index 0."""
    moving = (r for r in ranges if isinstance(r, UOp))
    return tuple([0 if n == 1 else next(moving) for n in shape])
