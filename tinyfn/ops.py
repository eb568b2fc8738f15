"""Reductions of segments: the elements with one number are combined, as in `jax.ops`. All are differentiable."""

from __future__ import annotations

from typing import Any

import numpy as np

from .numpy.common import ArrayLike, at_user, described, full_of, operand
from .numpy.logic import less, where
from .trace import dtype as dtypes
from .trace.array import Array
from .trace.errors import ConcretizationError, entry_points
from .trace.index_modes import Mode, mode_name
from .trace.indexing import AtIndex

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


def _segments(
    data: ArrayLike, segment_ids: ArrayLike, count: int | None, neutral: Any, mode: Mode, what: str
) -> tuple[Array, AtIndex]:
    x, ids = operand(data, what), operand(segment_ids, what)
    if not dtypes.is_integer(ids.dtype) or ids.ndim > x.ndim or ids.shape != x.shape[: ids.ndim]:
        raise ValueError(
            f"{what} of {described(x)}: the segments must be integers for its first axes, not {described(ids)}{at_user()}"
        )
    if count is None:
        attempt = "count the segments (the result's size would depend on them: give `num_segments`)"
        known = ids._concrete(attempt, ConcretizationError)
        count = int(known.max(initial=-1)) + 1
    start = full_of(neutral, x.dtype, (count, *x.shape[ids.ndim :]))
    # Negative numbers do not count from the end.
    beyond = 0 if mode_name(mode) in ("clip", "promise_in_bounds") else count
    return x, AtIndex(start, where(less(ids, 0), beyond, ids))


def _limit(data: ArrayLike, greatest: bool) -> Any:
    dtype = operand(data, "segment").dtype
    if dtypes.is_float(dtype):
        return float("inf") if greatest else -float("inf")
    if dtype is dtypes.bool_:
        return greatest
    info = np.iinfo(dtype)
    return int(info.max if greatest else info.min)


def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Mode = None,
) -> Array:
    """The sums of the elements of each segment, of shape (num_segments, ...); 0 for one without elements.

    `segment_ids` are integers for the first axis of `data` (or the first ones); those not in 0 .. num_segments - 1 are left
    out, or with the mode "clip" moved to the nearest of these. Under jit `num_segments` is needed; else it is the greatest
    number plus 1. What is promised of the indices, and `bucket_size`, change nothing.

    >>> ops.segment_sum(tnp.array([1, 2, 3, 4]), tnp.array([0, 2, 0, -1]))
    Array([4, 0, 2], dtype=int32)
    >>> ops.segment_sum(tnp.ones((4, 2)), tnp.array([0, 0, 1, 1]), num_segments=3).shape
    (3, 2)
    """
    x, segments = _segments(data, segment_ids, num_segments, 0, mode, "segment_sum")
    return segments.add(x, mode=mode)


def segment_prod(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Mode = None,
) -> Array:
    """The products of the elements of each segment; 1 for one without elements. Arguments as for `segment_sum`.

    >>> ops.segment_prod(tnp.array([1, 2, 3, 4]), tnp.array([0, 2, 0, 2]))
    Array([3, 1, 8], dtype=int32)
    """
    x, segments = _segments(data, segment_ids, num_segments, 1, mode, "segment_prod")
    return segments.multiply(x, mode=mode)


def segment_max(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Mode = None,
) -> Array:
    """The greatest element of each segment; the least number of the dtype (-inf) for one without elements.

    >>> ops.segment_max(tnp.array([1.0, 5.0, 3.0]), tnp.array([0, 2, 0]))
    Array([  3., -inf,   5.], dtype=float32)
    """
    x, segments = _segments(data, segment_ids, num_segments, _limit(data, False), mode, "segment_max")
    return segments.max(x, mode=mode)


def segment_min(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Mode = None,
) -> Array:
    """The least element of each segment; the greatest number of the dtype (inf) for one without elements.

    >>> ops.segment_min(tnp.array([1.0, 5.0, 3.0]), tnp.array([0, 2, 0]))
    Array([ 1., inf,  5.], dtype=float32)
    """
    x, segments = _segments(data, segment_ids, num_segments, _limit(data, True), mode, "segment_min")
    return segments.min(x, mode=mode)


entry_points(globals())
