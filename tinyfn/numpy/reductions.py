"""Reductions over axes: sums, products, extremes and their positions, truth.

Sums and products of small integers have at least 32 bits; half precision is accumulated in float32. `where`
is a mask of the elements that take part; `initial` is combined with the result, and is the result where there
are no elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from ..trace.index import reshape
from ..trace.prim import Primitive
from .arithmetic import (
    add,
    maximum,
    minimum,
    multiply,
    subtract,
)
from .common import (
    ArrayLike,
    Axis,
    DTypeLike,
    at_user,
    axes_of,
    axis_of,
    bind,
    cast,
    described,
    keep_axes,
    operand,
)
from .logic import (
    not_equal,
    where,
)

_where = where  # the functions below have an argument of that name


def _masked(x: Array, mask: Any, otherwise: Any) -> Array:
    """x with a number where the mask does not hold; the mask may have axes that x lacks."""
    return x if mask is None else _where(mask, x, o.scalar(otherwise, x.dtype))


def _reduce(primitive: Primitive, x: Array, axis: Axis, keepdims: bool, what: str) -> Array:
    axes = axes_of(axis, x.ndim, what)
    return keep_axes(bind(primitive, (x,), {"axes": axes}), x.shape, axes, keepdims)


def _total(
    primitive: Primitive,
    a: Any,
    axis: Axis,
    dtype: Any,
    keepdims: bool,
    initial: Any,
    mask: Any,
    promote: bool,
) -> Array:
    what = "sum" if primitive is prims.reduce_sum else "prod"
    x = operand(a, what)
    if dtype is not None:
        x = cast(x, dtype)
    elif not dtypes.is_inexact(x.dtype) and (promote or x.dtype is dtypes.bool_):
        x = o.to_dtype(x, dtypes.accumulator(x.dtype))
    neutral = 0 if primitive is prims.reduce_sum else 1
    if x.dtype is dtypes.bool_:  # dtype=bool: the sum is their logical or
        x = _masked(x, mask, bool(neutral))
        logical = prims.reduce_or if primitive is prims.reduce_sum else prims.reduce_and
        return _reduce(logical, x, axis, keepdims, what)
    result = _reduce(primitive, _masked(x, mask, neutral), axis, keepdims, what)
    if initial is None:
        return result
    combine = add if primitive is prims.reduce_sum else multiply
    return combine(result, cast(initial, result.dtype))


def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The sum over axes (all, for None); integers are summed in 32 bits or more, half precision in
    float32."""
    return _total(prims.reduce_sum, a, axis, dtype, keepdims, initial, where, promote_integers)


def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The product over axes (all, for None); of integers with 32 bits or more."""
    return _total(prims.reduce_prod, a, axis, dtype, keepdims, initial, where, promote_integers)


def _limit(dtype: dtypes.DType, greatest: bool) -> Any:
    if dtype is dtypes.bool_:
        return greatest
    if dtypes.is_float(dtype):
        return float("inf") if greatest else -float("inf")
    info = np.iinfo(dtype)
    return int(info.max if greatest else info.min)


def _extreme(primitive: Primitive, a: Any, axis: Axis, keepdims: bool, initial: Any, mask: Any) -> Array:
    greatest = primitive is prims.reduce_max
    what = "max" if greatest else "min"
    x = operand(a, what)
    axes = axes_of(axis, x.ndim, what)
    if mask is not None:
        if initial is None:
            raise ValueError(
                f"{what} with `where` needs `initial`, the result where no element takes part{at_user()}"
            )
        x = _masked(x, mask, _limit(x.dtype, not greatest))
        axes = axes_of(axis, x.ndim, what)
    if 0 in [x.shape[i] for i in axes if isinstance(x.shape[i], int)]:
        if initial is None:
            raise ValueError(
                f"{what} of {described(x)} over axes {axes}: there are no elements; give `initial`{at_user()}"
            )
        rest = tuple([n for i, n in enumerate(x.shape) if i not in axes])
        return keep_axes(o.broadcast_to(cast(initial, x.dtype), rest), x.shape, axes, keepdims)
    result = keep_axes(bind(primitive, (x,), {"axes": axes}), x.shape, axes, keepdims)
    if initial is None:
        return result
    return (maximum if greatest else minimum)(result, cast(initial, x.dtype))


def max(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The greatest element over axes, NaN if there is one; ties share the derivative equally."""
    return _extreme(prims.reduce_max, a, axis, keepdims, initial, where)


def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The least element over axes, NaN if there is one; ties share the derivative equally."""
    return _extreme(prims.reduce_min, a, axis, keepdims, initial, where)


amax, amin = max, min


def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """The greatest element minus the least over axes."""
    return subtract(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


def all(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether all elements over axes are true (not 0)."""
    return _reduce(prims.reduce_and, _masked(_truth(a, "all"), where, True), axis, keepdims, "all")


def any(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether any element over axes is true (not 0)."""
    return _reduce(prims.reduce_or, _masked(_truth(a, "any"), where, False), axis, keepdims, "any")


def _truth(a: Any, what: str) -> Array:
    x = operand(a, what)
    return x if x.dtype is dtypes.bool_ else not_equal(x, 0)


def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """The number of elements over axes that are not 0, as int32."""
    return sum(_truth(a, "count_nonzero"), axis, dtypes.int32, keepdims=keepdims)


# Positions of extremes


def _position(primitive: Primitive, a: Any, axis: int | None, keepdims: bool | None, what: str) -> Array:
    x = operand(a, what)
    if axis is None:
        flat = reshape(x, (x.size,))
        if flat.shape[0] == 0:
            raise ValueError(f"{what} of {described(x)}: there are no elements{at_user()}")
        result = bind(primitive, (flat,), {"axis": 0, "dtype": dtypes.DEFAULT_INT})
        return reshape(result, (1,) * x.ndim) if keepdims else result
    place = axis_of(axis, x.ndim, what)
    if x.shape[place] == 0:
        raise ValueError(f"{what} of {described(x)} along axis {place}: there are no elements{at_user()}")
    result = bind(primitive, (x,), {"axis": place, "dtype": dtypes.DEFAULT_INT})
    return keep_axes(result, x.shape, (place,), bool(keepdims))


def argmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The position of the greatest element along an axis (in the raveled array, for None), the first NaN if
    there is one."""
    return _position(prims.argmax, a, axis, keepdims, "argmax")


def argmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The position of the least element along an axis (in the raveled array, for None), the first NaN if
    there is one."""
    return _position(prims.argmin, a, axis, keepdims, "argmin")
