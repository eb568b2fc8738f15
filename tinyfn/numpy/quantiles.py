"""Quantiles, percentiles and medians. Imported when one of them is first used."""

from __future__ import annotations

from math import prod as size_of
from typing import Any

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
)
from .indexing import take_along_axis
from .logic import isnan, less, where
from .ordering import sort
from .reductions import sum

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """The value below which a share q of the elements over axes lies, between two of them as `method` says;
    NaN if one is.

    The axes of q come first in the result. Methods: linear, lower, higher, midpoint, nearest.

    >>> tnp.quantile(tnp.array([1, 2, 3, 5]), 0.5)
    Array(2.5, dtype=float32)
    >>> tnp.quantile(tnp.array([1, 2, 3, 5]), tnp.array([0.0, 0.5, 1.0]), method="lower")
    Array([1., 2., 5.], dtype=float32)
    >>> tnp.quantile(tnp.ones((3, 4)), tnp.array([0.1, 0.9]), axis=1).shape
    (2, 3)
    """
    no_out("quantile", out)
    return _quantile(inexact(a, "quantile"), q, axis, method, keepdims, False)


def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """`quantile` of the elements that are not NaN; NaN if all are.

    >>> tnp.nanquantile(tnp.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]]), 0.5, axis=1)
    Array([ 2., nan], dtype=float32)
    """
    no_out("nanquantile", out)
    return _quantile(inexact(a, "nanquantile"), q, axis, method, keepdims, True)


def _quantile(x: Array, share_below: Any, axis: Axis, method: str, keepdims: bool, skip: bool) -> Array:
    if method not in _METHODS:
        raise ValueError(f"quantile: method must be one of {', '.join(_METHODS)}, not {method!r}{at_user()}")
    axes = axes_of(axis, x.ndim, "quantile")
    kept = [i for i in range(x.ndim) if i not in axes]
    rest = tuple([x.shape[i] for i in kept])
    ordered = permute(x, (*kept, *axes))
    n = size_of([x.shape[i] for i in axes])
    if n == 0:
        raise ValueError(f"quantile of {described(x)}: there are no elements{at_user()}")
    ordered = sort(reshape(ordered, (*rest, n)), -1)
    missing = sum(isnan(ordered), -1, dtypes.int32, keepdims=True)
    count = subtract(n, missing) if skip else full_of(n, dtypes.int32, (*rest, 1))
    wide = dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32
    q = cast(share_below, wide)
    flat = reshape(q, (q.size,))
    last = maximum(subtract(cast(count, wide), 1.0), 0.0)
    place = multiply(o.broadcast_to(flat, (*rest, q.size)), last)
    low, high = bind(prims.floor, (place,), {}), bind(prims.ceil, (place,), {})
    share = subtract(place, low)
    if method == "nearest":
        low = high = bind(prims.round, (place,), {})
    elif method == "lower":
        high = low
    elif method == "higher":
        low = high
    below = take_along_axis(ordered, cast(low, dtypes.int32), -1)
    above = take_along_axis(ordered, cast(high, dtypes.int32), -1)
    if method == "linear":
        share = cast(share, x.dtype)
        # Between equal elements, infinite ones too, there is nothing to interpolate.
        gap = where(o.equal(above, below), 0, subtract(above, below))
        result = add(below, multiply(gap, share))
    else:
        result = multiply(add(below, above), 0.5) if method == "midpoint" else below
    nothing = less(count, 1) if skip else o.greater(missing, 0)
    result = where(nothing, o.scalar(float("nan"), x.dtype), result)
    result = move_axis(result, len(rest), 0)
    shape = tuple([1 if i in axes else m for i, m in enumerate(x.shape)]) if keepdims else rest
    return cast(reshape(result, (*q.shape, *shape)), x.dtype)


def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """`quantile` with q in percent.

    >>> tnp.percentile(tnp.array([1, 2, 3, 5]), tnp.array([0, 50, 100]))
    Array([1. , 2.5, 5. ], dtype=float32)
    """
    no_out("percentile", out)
    share = q / 100 if isinstance(q, (int, float)) else divide(q, 100)
    return quantile(a, share, axis, None, overwrite_input, method, keepdims)


def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """`nanquantile` with q in percent.

    >>> tnp.nanpercentile(tnp.array([1.0, np.nan, 3.0]), 50)
    Array(2., dtype=float32)
    """
    no_out("nanpercentile", out)
    share = q / 100 if isinstance(q, (int, float)) else divide(q, 100)
    return nanquantile(a, share, axis, None, overwrite_input, method, keepdims)


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
