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
from .arithmetic import add, maximum, minimum, multiply, subtract
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
    no_out,
    operand,
    truth,
)
from .logic import where as _where  # the functions below have an argument of that name


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
    """The sum over axes (all, for None), which leave the shape, or stay as 1 with `keepdims`.

    Integers are summed in 32 bits or more (in their own dtype without `promote_integers`), half precision in float32. Of
    nothing the sum is 0.

    >>> tnp.sum(tnp.array([[1, 2], [3, 4]]), axis=0)
    Array([4, 6], dtype=int32)
    >>> tnp.sum(tnp.array([[1.0, 2.0], [3.0, 4.0]]), axis=1, keepdims=True)
    Array([[3.],
           [7.]], dtype=float32)
    >>> tnp.sum(tnp.array([200, 100], "uint8"))
    Array(300, dtype=uint32)
    >>> tnp.sum(tnp.array([1.0, 2.0, np.nan]), where=tnp.array([True, True, False]), initial=10.0)
    Array(13., dtype=float32)
    """
    no_out("sum", out)
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
    """The product over axes (all, for None), which leave the shape, or stay as 1 with `keepdims`.

    Integers are multiplied in 32 bits or more. Of nothing the product is 1.

    >>> tnp.prod(tnp.array([[1, 2], [3, 4]]), axis=0)
    Array([3, 8], dtype=int32)
    >>> tnp.prod(tnp.zeros((2, 0)), axis=1)
    Array([1., 1.], dtype=float32)
    """
    no_out("prod", out)
    return _total(prims.reduce_prod, a, axis, dtype, keepdims, initial, where, promote_integers)


def limit_of(dtype: dtypes.DType, greatest: bool) -> Any:
    """The greatest or least value of a dtype."""
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
        x = _masked(x, mask, limit_of(x.dtype, not greatest))
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
    """The greatest element over axes, NaN if there is one; ties share the derivative equally.

    No elements, or a mask `where`, need `initial`; without it they raise ValueError.

    >>> tnp.max(tnp.array([[1, 5], [4, 2]]), axis=0)
    Array([4, 5], dtype=int32)
    >>> tnp.max(tnp.array([1.0, np.nan]))
    Array(nan, dtype=float32)
    >>> tnp.max(tnp.array([-3, -1, 7]), where=tnp.array([True, True, False]), initial=-100)
    Array(-1, dtype=int32)
    >>> tinyfn.grad(tnp.max)(tnp.array([2.0, 1.0, 2.0]))
    Array([0.5, 0. , 0.5], dtype=float32)
    """
    no_out("max", out)
    return _extreme(prims.reduce_max, a, axis, keepdims, initial, where)


def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The least element over axes, NaN if there is one; ties share the derivative equally.

    No elements, or a mask `where`, need `initial`; without it they raise ValueError.

    >>> tnp.min(tnp.array([[1, 5], [4, 2]]), axis=1, keepdims=True)
    Array([[1],
           [2]], dtype=int32)
    >>> tnp.min(tnp.array([]), initial=np.inf)
    Array(inf, dtype=float32)
    """
    no_out("min", out)
    return _extreme(prims.reduce_min, a, axis, keepdims, initial, where)


amax, amin = max, min


def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """The greatest element minus the least over axes.

    >>> tnp.ptp(tnp.array([[1, 5], [4, 2]]), axis=1)
    Array([4, 2], dtype=int32)
    """
    no_out("ptp", out)
    return subtract(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


def all(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether all elements over axes are true (not 0), as bools; of nothing, True.

    >>> tnp.all(tnp.array([[1, 0], [2, 3]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    no_out("all", out)
    return _reduce(prims.reduce_and, _masked(truth(a, "all"), where, True), axis, keepdims, "all")


def any(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether any element over axes is true (not 0), as bools; of nothing, False.

    >>> tnp.any(tnp.array([[0, 0], [2, 3]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    no_out("any", out)
    return _reduce(prims.reduce_or, _masked(truth(a, "any"), where, False), axis, keepdims, "any")


def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """The number of elements over axes that are not 0, as int32.

    >>> tnp.count_nonzero(tnp.array([[1, 0], [2, 3]]), axis=0)
    Array([2, 1], dtype=int32)
    """
    return sum(truth(a, "count_nonzero"), axis, dtypes.int32, keepdims=keepdims)


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
    """The position, as int32, of the greatest element along an axis (in the raveled array, for None), the first of equal
    ones; of the first NaN if there is one.

    >>> tnp.argmax(tnp.array([[1, 5], [4, 2]]))
    Array(1, dtype=int32)
    >>> tnp.argmax(tnp.array([[1, 5], [4, 2]]), axis=1)
    Array([1, 0], dtype=int32)
    >>> tnp.argmax(tnp.array([1.0, np.nan, 3.0]))
    Array(1, dtype=int32)
    """
    no_out("argmax", out)
    return _position(prims.argmax, a, axis, keepdims, "argmax")


def argmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The position, as int32, of the least element along an axis (in the raveled array, for None), the first of equal
    ones; of the first NaN if there is one.

    >>> tnp.argmin(tnp.array([[1, 5], [4, 2]]), axis=0)
    Array([0, 1], dtype=int32)
    >>> tnp.argmin(tnp.array([3, 1, 1]))
    Array(1, dtype=int32)
    """
    no_out("argmin", out)
    return _position(prims.argmin, a, axis, keepdims, "argmin")
