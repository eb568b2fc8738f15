"""Reductions that skip NaN. Imported when one of them is first used."""

from __future__ import annotations

from typing import Any

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace.array import Array
from .common import (
    ArrayLike,
    Axis,
    DTypeLike,
    no_out,
    operand,
)
from .cumulative import cumprod, cumsum
from .elementary import sqrt
from .logic import isnan, logical_and, logical_not
from .logic import where as _where
from .reductions import all, argmax, argmin, limit_of, max, min, prod, sum
from .statistics import mean, var


def _without_nan(a: Any, otherwise: Any, what: str) -> Array:
    x = operand(a, what)
    return _where(isnan(x), o.scalar(otherwise, x.dtype), x) if dtypes.is_inexact(x.dtype) else x


def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The sum over axes of the elements that are not NaN, 0 if all are.

    >>> tnp.nansum(tnp.array([[1.0, np.nan], [3.0, np.nan]]), axis=0)
    Array([4., 0.], dtype=float32)
    """
    no_out("nansum", out)
    return sum(_without_nan(a, 0, "nansum"), axis, dtype, None, keepdims, initial, where)


def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The product over axes of the elements that are not NaN, 1 if all are.

    >>> tnp.nanprod(tnp.array([[1.0, np.nan], [3.0, np.nan]]), axis=0)
    Array([3., 1.], dtype=float32)
    """
    no_out("nanprod", out)
    return prod(_without_nan(a, 1, "nanprod"), axis, dtype, None, keepdims, initial, where)


def _nan_extreme(a: Any, axis: Axis, keepdims: bool, initial: Any, mask: Any, greatest: bool) -> Array:
    what = "nanmax" if greatest else "nanmin"
    x = operand(a, what)
    reduce = max if greatest else min
    if not dtypes.is_float(x.dtype):
        return reduce(x, axis, None, keepdims, initial, mask)
    result = reduce(
        _without_nan(x, limit_of(x.dtype, not greatest), what), axis, None, keepdims, initial, mask
    )
    if initial is not None:
        return result
    return _where(all(isnan(x), axis, keepdims=keepdims), o.scalar(float("nan"), x.dtype), result)


def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The greatest of the elements over axes that are not NaN; NaN if all are.

    >>> tnp.nanmax(tnp.array([[1.0, np.nan], [3.0, np.nan]]), axis=0)
    Array([ 3., nan], dtype=float32)
    """
    no_out("nanmax", out)
    return _nan_extreme(a, axis, keepdims, initial, where, True)


def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The least of the elements over axes that are not NaN; NaN if all are.

    >>> tnp.nanmin(tnp.array([[1.0, np.nan], [3.0, np.nan]]), axis=0)
    Array([ 1., nan], dtype=float32)
    """
    no_out("nanmin", out)
    return _nan_extreme(a, axis, keepdims, initial, where, False)


def _present(x: Array, mask: Any) -> Array:
    present = logical_not(isnan(x))
    return present if mask is None else logical_and(present, mask)


def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """The mean over axes of the elements that are not NaN; NaN if all are.

    >>> tnp.nanmean(tnp.array([[1.0, np.nan], [3.0, np.nan]]), axis=0)
    Array([ 2., nan], dtype=float32)
    """
    no_out("nanmean", out)
    x = operand(a, "nanmean")
    return mean(_without_nan(x, 0, "nanmean"), axis, dtype, None, keepdims, where=_present(x, where))


def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """The variance over axes of the elements that are not NaN; NaN if they are no more than `ddof`.

    >>> tnp.nanvar(tnp.array([1.0, 3.0, np.nan]))
    Array(1., dtype=float32)
    >>> tnp.nanvar(tnp.array([1.0, 3.0, np.nan]), ddof=1)
    Array(2., dtype=float32)
    """
    no_out("nanvar", out)
    x = operand(a, "nanvar")
    present = _present(x, where)
    result = var(_without_nan(x, 0, "nanvar"), axis, dtype, None, ddof, keepdims, where=present, mean=mean)
    if not dtypes.is_inexact(result.dtype):  # as `dtype` asks for; it has no NaN
        return result
    few = o.less_equal(sum(present, axis, dtypes.float32, keepdims=keepdims), ddof)
    return _where(few, o.scalar(float("nan"), result.dtype), result)


def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """The standard deviation over axes of the elements that are not NaN; NaN if they are no more than `ddof`.

    >>> tnp.nanstd(tnp.array([1.0, 3.0, np.nan]))
    Array(1., dtype=float32)
    """
    no_out("nanstd", out)
    return sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, where, mean))


def _nan_position(a: Any, axis: int | None, keepdims: bool | None, greatest: bool) -> Array:
    what = "nanargmax" if greatest else "nanargmin"
    x = operand(a, what)
    position = argmax if greatest else argmin
    if not dtypes.is_float(x.dtype):
        return position(x, axis, None, keepdims)
    result = position(_without_nan(x, limit_of(x.dtype, not greatest), what), axis, None, keepdims)
    empty = all(isnan(x), axis, keepdims=bool(keepdims))
    return _where(empty, -1, result)


def nanargmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The position, as int32, of the greatest element that is not NaN; -1 if all are.

    >>> tnp.nanargmax(tnp.array([[1.0, np.nan], [3.0, np.nan]]), axis=0)
    Array([ 1, -1], dtype=int32)
    """
    no_out("nanargmax", out)
    return _nan_position(a, axis, keepdims, True)


def nanargmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The position, as int32, of the least element that is not NaN; -1 if all are.

    >>> tnp.nanargmin(tnp.array([[1.0, np.nan], [3.0, np.nan]]), axis=0)
    Array([ 0, -1], dtype=int32)
    """
    no_out("nanargmin", out)
    return _nan_position(a, axis, keepdims, False)


def nancumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """`cumsum` with NaN counted as 0.

    >>> tnp.nancumsum(tnp.array([1.0, np.nan, 2.0]))
    Array([1., 1., 3.], dtype=float32)
    """
    no_out("nancumsum", out)
    return cumsum(_without_nan(a, 0, "nancumsum"), axis, dtype)


def nancumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """`cumprod` with NaN counted as 1.

    >>> tnp.nancumprod(tnp.array([2.0, np.nan, 3.0]))
    Array([2., 2., 6.], dtype=float32)
    """
    no_out("nancumprod", out)
    return cumprod(_without_nan(a, 1, "nancumprod"), axis, dtype)
