"""How many elements lie in each of the bins, along one axis or several. Imported when one of them is first used."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace.array import Array
from ..trace.index import reshape
from ..trace.indexing import AtIndex, getitem
from .arithmetic import add, divide, multiply, subtract
from .common import ArrayLike, at_user, cast, described, full_of, inexact, operand, promoted
from .cumulative import diff
from .joining import stack, unstack
from .logic import bitwise_and, equal, less_equal, where
from .ordering import searchsorted
from .ranges import linspace
from .reductions import max as max_
from .reductions import min as min_
from .reductions import sum as sum_


def histogram_bin_edges(
    a: ArrayLike, bins: ArrayLike = 10, range: Sequence[Any] | None = None, weights: None = None
) -> Array:
    """The edges of the bins of `histogram`: those given, or those of a number of equal ones, from the least to the greatest
    element or over a `range`.

    >>> tnp.histogram_bin_edges(tnp.array([0, 3, 4]), bins=4)
    Array([0., 1., 2., 3., 4.], dtype=float32)
    """
    x = inexact(a, "histogram")
    if getattr(bins, "ndim", 0) or isinstance(bins, (list, tuple)):
        return inexact(np.asarray(bins, np.float32) if isinstance(bins, (list, tuple)) else bins, "histogram")
    count = operator.index(bins)  # type: ignore[arg-type]
    if range is not None:
        low, high = cast(range[0], x.dtype), cast(range[1], x.dtype)
    elif x.size == 0:
        low, high = cast(0, x.dtype), cast(1, x.dtype)
    else:
        low, high = min_(x), max_(x)
    same = equal(low, high)
    edges: Array = linspace(
        where(same, subtract(low, 0.5), low), where(same, add(high, 0.5), high), count + 1
    )
    return edges


def histogram(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    density: bool = False,
) -> tuple[Array, Array]:
    """How many elements lie in each of the bins (a number of equal ones, or their edges), as float32 or in the dtype of
    weights, and the edges, one more.

    A bin has its lower edge, the last one both; elements outside do not count. As a `density`, the integral is 1.

    >>> tnp.histogram(tnp.array([0, 1, 1, 4]), bins=2)
    (Array([3., 1.], dtype=float32), Array([0., 2., 4.], dtype=float32))
    >>> tnp.histogram(tnp.array([0.5, 1.5, 7.0]), bins=tnp.array([0, 1, 3]), density=True)
    (Array([0.5 , 0.25], dtype=float32), Array([0., 1., 3.], dtype=float32))
    """
    x = operand(a, "histogram")
    weight = None if weights is None else reshape(operand(weights, "histogram"), (x.size,))
    counts, edges = _counted([reshape(x, (x.size,))], [bins], [range], weight, density)
    return counts, edges[0]


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Any = 10,
    range: Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    density: bool = False,
) -> tuple[Array, Array, Array]:
    """How many of the points (x, y) lie in each of the bins, and the edges along x and along y.

    `bins` is a number, the edges for both (an array with one axis), or a pair of one of these for x and for y.

    >>> counts, x_edges, y_edges = tnp.histogram2d(tnp.array([0, 0, 2]), tnp.array([0, 1, 3]), bins=(2, 3))
    >>> counts
    Array([[1., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    >>> y_edges
    Array([0., 1., 2., 3.], dtype=float32)
    """
    pair = list(bins) if isinstance(bins, (list, tuple)) and len(bins) == 2 else [bins, bins]
    first, second = operand(x, "histogram2d"), operand(y, "histogram2d")
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(
            f"histogram2d takes two vectors of one length, not {described(first, second)}{at_user()}"
        )
    counts, edges = histogramdd([first, second], pair, range, weights, density)
    return counts, edges[0], edges[1]


def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    density: bool = False,
) -> tuple[Array, list[Array]]:
    """How many of n points lie in each of the bins, and the edges along each coordinate.

    `sample` has shape (n, d), or is a list of the d coordinates. `bins` is a number, or for each coordinate a number or
    edges; `range` gives for each coordinate (low, high) or None; `weights` has shape (n,).

    >>> counts, edges = tnp.histogramdd(tnp.ones((5, 3)), bins=(2, 3, 4))
    >>> counts.shape, [e.shape for e in edges]
    ((2, 3, 4), [(3,), (4,), (5,)])
    """
    if isinstance(sample, (list, tuple)):
        points = stack(promoted(*sample), -1)
    else:
        points = operand(sample, "histogramdd")
    if points.ndim != 2:
        raise ValueError(f"histogramdd takes points of shape (n, d), not {described(points)}{at_user()}")
    d = points.shape[1]
    each = list(bins) if isinstance(bins, (list, tuple)) else [bins] * d
    limits = [None] * d if range is None else list(range)
    if len(each) != d or len(limits) != d:
        raise ValueError(
            f"histogramdd of {described(points)}: `bins` or `range` is not one for each of {d} coordinates{at_user()}"
        )
    weight = None if weights is None else operand(weights, "histogramdd")
    return _counted(unstack(points, axis=1), each, limits, weight, density)


def _counted(
    coordinates: Sequence[Array],
    bins: Sequence[Any],
    limits: Sequence[Any],
    weights: Array | None,
    density: bool,
) -> tuple[Array, list[Array]]:
    """The points in each of the bins that coordinates make, and the edges; as a density, its integral is 1."""
    inside: Array | None = None
    place: Any = 0
    every: list[Array] = []
    for x, asked, limit in zip(coordinates, bins, limits, strict=True):
        x, edges = promoted(x, histogram_bin_edges(x, asked, limit))
        count = edges.shape[0] - 1
        last = getitem(edges, count)
        # The last bin has both of its edges.
        here = where(equal(x, last), count - 1, subtract(searchsorted(edges, x, "right"), 1))
        within = bitwise_and(o.greater_equal(x, getitem(edges, 0)), less_equal(x, last))
        inside = within if inside is None else bitwise_and(inside, within)
        place = add(multiply(place, count), here)
        every.append(edges)
    shape = tuple([edges.shape[0] - 1 for edges in every])
    counts = prod(shape)
    added = full_of(1, dtypes.float32, coordinates[0].shape) if weights is None else weights
    assert inside is not None
    flat = AtIndex(full_of(0, added.dtype, (counts,)), where(inside, place, counts)).add(added, mode="drop")
    result = reshape(flat, shape)
    if density:
        result = divide(result, sum_(result))
        for i, edges in enumerate(every):
            result = divide(result, reshape(diff(edges), (edges.shape[0] - 1, *(1,) * (len(every) - 1 - i))))
    return result, every


__all__ = ["histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]
