"""Quantiles, percentiles and medians. Imported when one of them is first used."""

from __future__ import annotations

from math import prod as size_of
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from ..trace.index import reshape
from ..trace.prims.movement import move_axis
from .arithmetic import add, divide, maximum, multiply, subtract
from .common import (
    ArrayLike,
    Axis,
    at_user,
    axes_of,
    bind,
    cast,
    described,
    full_of,
    inexact,
    no_out,
    permute,
    weights_of,
)
from .cumulative import cumsum
from .indexing import take_along_axis
from .logic import bitwise_and, bitwise_or, isnan, less, less_equal, logical_not, where
from .ordering import argsort, sort
from .reductions import sum

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The value below which a share q of the elements over axes lies, between two of them as `method` says; NaN if one is.

    The axes of q come first in the result. Methods: linear, lower, higher, midpoint, nearest, and inverted_cdf: the first
    element, in order, up to which the share is q. That one takes `weights`, of a's shape or of that of the axes. A q
    outside [0, 1] raises ValueError; where it is not known when the function is traced, the result is NaN.

    >>> tnp.quantile(tnp.array([1, 2, 3, 5]), 0.5)
    Array(2.5, dtype=float32)
    >>> tnp.quantile(tnp.array([1, 2, 3, 5]), tnp.array([0.0, 0.5, 1.0]), method="lower")
    Array([1., 2., 5.], dtype=float32)
    >>> tnp.quantile(tnp.ones((3, 4)), tnp.array([0.1, 0.9]), axis=1).shape
    (2, 3)
    >>> tnp.quantile(tnp.array([1, 2, 3]), 0.5, method="inverted_cdf", weights=tnp.array([1, 1, 8]))
    Array(3., dtype=float32)
    """
    no_out("quantile", out)
    return _quantile(inexact(a, "quantile"), q, axis, method, keepdims, False, weights)


def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """`quantile` of the elements that are not NaN; NaN if all are.

    >>> tnp.nanquantile(tnp.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]]), 0.5, axis=1)
    Array([ 2., nan], dtype=float32)
    """
    no_out("nanquantile", out)
    return _quantile(inexact(a, "nanquantile"), q, axis, method, keepdims, True, weights)


def _quantile(
    x: Array, q: Any, axis: Axis, method: str, keepdims: bool, skip: bool, weights: ArrayLike | None
) -> Array:
    if method not in _METHODS:
        raise ValueError(f"quantile: method must be one of {', '.join(_METHODS)}, not {method!r}{at_user()}")
    if weights is not None and method != "inverted_cdf":
        raise ValueError(f"quantile: weights need method='inverted_cdf', not {method!r}{at_user()}")
    known = q.value if type(q) is Array else q if isinstance(q, (int, float, np.generic, np.ndarray)) else 0
    if not np.all((np.asarray(known) >= 0) & (np.asarray(known) <= 1)):
        raise ValueError(f"quantile: q must be in [0, 1], or [0, 100] percent{at_user()}")
    axes = axes_of(axis, x.ndim, "quantile")
    kept = [i for i in range(x.ndim) if i not in axes]
    rest = tuple([x.shape[i] for i in kept])
    n = size_of([x.shape[i] for i in axes])
    if n == 0:
        raise ValueError(f"quantile of {described(x)}: there are no elements{at_user()}")

    def as_last(y: Array) -> Array:
        return reshape(permute(y, (*kept, *axes)), (*rest, n))

    wide = dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32
    q = cast(q, wide)
    shares = o.broadcast_to(reshape(q, (q.size,)), (*rest, q.size))
    elements = as_last(x)
    missing = sum(isnan(elements), -1, dtypes.int32, keepdims=True)
    count = subtract(n, missing) if skip else full_of(n, dtypes.int32, (*rest, 1))
    if method == "inverted_cdf":
        order = argsort(elements)
        ordered = take_along_axis(elements, order, -1, mode="clip")
        weight = (
            full_of(1, wide, x.shape)
            if weights is None
            else weights_of(x, cast(weights, wide), axis, "quantile")
        )
        weight = where(isnan(ordered), 0, take_along_axis(as_last(weight), order, -1, mode="clip"))
        result = take_along_axis(ordered, _reached(weight, shares), -1, mode="clip")
    else:
        place = multiply(shares, maximum(subtract(cast(count, wide), 1.0), 0.0))
        result = _at_place(sort(elements), place, method)
    nothing = less(count, 1) if skip else o.greater(missing, 0)
    outside = logical_not(bitwise_and(o.greater_equal(shares, 0), less_equal(shares, 1)))
    result = where(bitwise_or(nothing, outside), o.scalar(float("nan"), x.dtype), result)
    result = move_axis(result, len(rest), 0)
    shape = tuple([1 if i in axes else m for i, m in enumerate(x.shape)]) if keepdims else rest
    return cast(reshape(result, (*q.shape, *shape)), x.dtype)


def _at_place(ordered: Array, place: Array, method: str) -> Array:
    """The elements, along the last axis, at places that may be between two of them."""
    low, high = bind(prims.floor, (place,), {}), bind(prims.ceil, (place,), {})
    share = cast(subtract(place, low), ordered.dtype)
    if method == "nearest":
        low = high = bind(prims.round, (place,), {})
    elif method == "lower":
        high = low
    elif method == "higher":
        low = high
    below = take_along_axis(ordered, cast(low, dtypes.int32), -1, mode="clip")
    above = take_along_axis(ordered, cast(high, dtypes.int32), -1, mode="clip")
    if method == "linear":
        # Between equal elements, infinite ones too, there is nothing to interpolate.
        return add(below, multiply(where(o.equal(above, below), 0, subtract(above, below)), share))
    return multiply(add(below, above), 0.5) if method == "midpoint" else below


def _reached(weight: Array, shares: Array) -> Array:
    """The positions, of shape (..., shares), at which the sums of weights along the last axis reach shares of the whole."""
    sums = cumsum(weight, -1)
    sums = reshape(sums, (*sums.shape[:-1], 1, sums.shape[-1]))
    wanted = multiply(reshape(shares, (*shares.shape, 1)), sums[..., -1:])
    # Elements before the first one that weighs something are not reached by a share of 0 either.
    return sum(bitwise_or(less(sums, wanted), o.equal(sums, 0)), -1, dtypes.int32)


def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """`quantile` with q in percent.

    >>> tnp.percentile(tnp.array([1, 2, 3, 5]), tnp.array([0, 50, 100]))
    Array([1. , 2.5, 5. ], dtype=float32)
    """
    no_out("percentile", out)
    return quantile(a, _of_percent(q), axis, None, overwrite_input, method, keepdims, weights=weights)


def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """`nanquantile` with q in percent.

    >>> tnp.nanpercentile(tnp.array([1.0, np.nan, 3.0]), 50)
    Array(2., dtype=float32)
    """
    no_out("nanpercentile", out)
    return nanquantile(a, _of_percent(q), axis, None, overwrite_input, method, keepdims, weights=weights)


def _of_percent(q: ArrayLike) -> ArrayLike:
    return q / 100 if isinstance(q, (int, float)) else divide(q, 100)


def median(
    a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """The middle one of the elements over axes in order, or the mean of the middle two; NaN if one is.

    >>> tnp.median(tnp.array([[3, 1, 2], [5, 5, 0]]), axis=1)
    Array([2., 5.], dtype=float32)
    >>> tnp.median(tnp.array([1, 2, 10, 4]))
    Array(3., dtype=float32)
    """
    no_out("median", out)
    return quantile(a, 0.5, axis, None, overwrite_input, "midpoint", keepdims)


def nanmedian(
    a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """`median` of the elements that are not NaN; NaN if all are.

    >>> tnp.nanmedian(tnp.array([3.0, np.nan, 1.0]))
    Array(2., dtype=float32)
    """
    no_out("nanmedian", out)
    return nanquantile(a, 0.5, axis, None, overwrite_input, "midpoint", keepdims)


__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]
