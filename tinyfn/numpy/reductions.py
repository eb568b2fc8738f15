"""Reductions over axes, statistics, cumulative functions, and those that skip NaN.

Sums and products of small integers have at least 32 bits; half precision is accumulated in float32. `where`
is a mask of the elements that take part; `initial` is combined with the result, and is the result where there
are no elements.
"""

from __future__ import annotations

from math import prod as size_of
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from ..trace.index import reshape
from ..trace.prim import Primitive
from ..trace.prims.movement import move_axis
from .common import (
    ArrayLike,
    Axis,
    DTypeLike,
    at_user,
    axes_of,
    axis_of,
    bind,
    cast,
    concatenate_arrays,
    described,
    full_of,
    inexact,
    keep_axes,
    operand,
    slice_axis,
)
from .elementwise import (
    absolute,
    add,
    divide,
    isnan,
    less,
    logical_and,
    logical_not,
    maximum,
    minimum,
    multiply,
    not_equal,
    real,
    sqrt,
    square,
    subtract,
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


# Statistics


def _computed_in(x: Array, dtype: Any) -> tuple[Array, dtypes.DType]:
    """x in the float type for its statistics, at least float32, and the result's type."""
    target = (
        dtypes.canonical(dtype)
        if dtype is not None
        else x.dtype
        if dtypes.is_inexact(x.dtype)
        else dtypes.float32
    )
    if not dtypes.is_inexact(target):
        return o.to_dtype(x, dtypes.float32), target
    return (
        (o.to_dtype(x, dtypes.accumulator(target)), target)
        if target.itemsize < 4
        else (cast(x, target), target)
    )


def _count(x: Array, axes: tuple[int, ...], mask: Any, keepdims: bool) -> Any:
    if mask is None:
        count: Any = 1
        for axis in axes:
            count = count * x.shape[axis]
        return count
    full_mask = o.broadcast_to(_truth(mask, "where"), x.shape)
    return sum(full_mask, axes, x.dtype, keepdims=keepdims)


def _spread(x: Array, mask: Any) -> Array:
    return x if mask is None else o.broadcast_to(x, o.broadcast_shapes(x.shape, o.operand(mask).shape))


def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """The mean over axes (all, for None); integers become float32, and half precision is summed in
    float32."""
    x = operand(a, "mean")
    weak = x.weak_type and dtype is None and dtypes.is_inexact(x.dtype)
    x, target = _computed_in(x, dtype)
    x = _spread(x, where)
    axes = axes_of(axis, x.ndim, "mean")
    count = _count(x, axes, where, keepdims)
    result = divide(
        sum(x, axes, keepdims=keepdims, where=where),
        o.scalar(float(count), x.dtype) if isinstance(count, int) else count,
    )
    return result if weak else cast(result, target)


def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """The mean over axes, weighted if weights are given (1-d along one axis, or of a's shape); also their
    sum, if `returned`."""
    x = inexact(a, "average")
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        axes = axes_of(axis, x.ndim, "average")
        total = full_of(float(size_of([x.shape[i] for i in axes])), result.dtype, result.shape)
        return (result, total) if returned else result
    w = inexact(weights, "average")
    if w.shape != x.shape:
        if w.ndim != 1 or axis is None or isinstance(axis, (tuple, list)):
            raise ValueError(
                f"average: weights {described(w)} fit neither {described(x)} nor one axis of it{at_user()}"
            )
        place = axis_of(axis, x.ndim, "average")
        if w.shape[0] != x.shape[place]:
            raise ValueError(f"average: {w.shape[0]} weights for axis {place} of {described(x)}{at_user()}")
        w = reshape(w, tuple([n if i == place else 1 for i, n in enumerate(x.shape)]))
    x, w = o.promote(x, w)[0]
    w = o.broadcast_to(w, x.shape)
    total = sum(w, axis, keepdims=keepdims)
    result = divide(sum(multiply(x, w), axis, keepdims=keepdims), total)
    return (result, total) if returned else result


def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """The mean squared distance from the mean over axes; the divisor is the number of elements less
    `ddof`."""
    x, target = _computed_in(operand(a, "var"), dtype)
    x = _spread(x, where)
    axes = axes_of(axis, x.ndim, "var")
    less_by = ddof if correction is None else correction
    center = _mean(x, axes, keepdims=True, where=where) if mean is None else cast(mean, x.dtype)
    count = _count(x, axes, where, keepdims)
    divisor: Any = (
        o.scalar(float(np.maximum(count - less_by, 0)), x.dtype)
        if isinstance(count, int)
        else subtract(count, less_by)
    )
    distance = subtract(x, center)
    if dtypes.kind(x.dtype) == "complex":
        distance, divisor = absolute(distance), real(divisor)
        target = distance.dtype
    return cast(divide(sum(square(distance), axes, keepdims=keepdims, where=where), divisor), target)


_mean = mean


def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """The square root of the variance."""
    x, target = _computed_in(operand(a, "std"), dtype)
    variance = var(x, axis, None, ddof=ddof, keepdims=keepdims, where=where, mean=mean, correction=correction)
    return sqrt(variance) if dtypes.kind(target) == "complex" else cast(sqrt(variance), target)


def cov(
    m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None
) -> Array:
    """The covariance matrix of variables that are the rows (columns, without `rowvar`) of m, and of y."""
    from .contraction import matmul

    x = _variables(m, rowvar)
    if y is not None:
        first, second = o.promote(x, _variables(y, rowvar))[0]
        x = concatenate_arrays([first, second], 0)
    count = x.shape[1]
    centered = subtract(x, mean(x, 1, keepdims=True))
    divisor = count - ((0 if bias else 1) if ddof is None else ddof)
    result = divide(matmul(centered, o.operand(_transposed(centered))), float(divisor))
    return reshape(result, ()) if result.shape == (1, 1) else result


def _variables(m: Any, rowvar: bool) -> Array:
    x = inexact(m, "cov")
    x = reshape(x, (1, x.size)) if x.ndim < 2 else x
    return x if rowvar or x.shape[0] == 1 else _transposed(x)


def _transposed(x: Array) -> Array:
    return bind(prims.transpose, (x,), {"permutation": (1, 0)})


def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True) -> Array:
    """The correlation matrix of variables that are the rows (columns, without `rowvar`) of x, and of y."""
    c = cov(x, y, rowvar)
    if c.ndim == 0:
        return divide(c, c)
    from .manipulation import diagonal

    deviation = sqrt(diagonal(c))
    n = c.shape[0]
    return divide(divide(c, reshape(deviation, (n, 1))), reshape(deviation, (1, n)))


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


# Cumulative functions


def _cumulative(a: Any, axis: int | None, dtype: Any, what: str) -> tuple[Array, int]:
    x = operand(a, what)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    if dtype is not None:
        x = cast(x, dtype)
    elif x.dtype is dtypes.bool_:
        x = o.to_dtype(x, dtypes.DEFAULT_INT)
    return x, axis_of(axis, x.ndim, what)


def cumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """The sums of the elements up to and including each along an axis (of the raveled array, for None), in
    a's dtype."""
    x, place = _cumulative(a, axis, dtype, "cumsum")
    return bind(prims.cumsum, (x,), {"axis": place, "reverse": False})


def cumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """The products of the elements up to and including each along an axis (of the raveled array, for None),
    in a's dtype."""
    x, place = _cumulative(a, axis, dtype, "cumprod")
    wide = o.to_dtype(x, dtypes.accumulator(x.dtype)) if dtypes.is_float(x.dtype) else x
    n = x.shape[place]
    distance = 1
    # Each step doubles how many elements a product has taken in.
    while distance < n:
        shifted = slice_axis(wide, place, 0, n - distance)
        low = tuple([distance if i == place else 0 for i in range(x.ndim)])
        zeros = (0,) * x.ndim
        one = o.scalar(1, wide.dtype)
        wide = multiply(wide, bind(prims.pad, (shifted, one), {"low": low, "high": zeros, "interior": zeros}))
        distance *= 2
    return o.to_dtype(wide, x.dtype)


def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike = None, include_initial: bool = False
) -> Array:
    """`cumprod`, with a 1 in front if `include_initial`; an array of more than one axis needs `axis`.

    Integers have at least 32 bits."""
    return _with_initial(cumprod, 1, x, axis, dtype, include_initial, "cumulative_prod")


def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike = None, include_initial: bool = False
) -> Array:
    """`cumsum`, with a 0 in front if `include_initial`; an array of more than one axis needs `axis`.

    Integers have at least 32 bits."""
    return _with_initial(cumsum, 0, x, axis, dtype, include_initial, "cumulative_sum")


def _with_initial(
    function: Any, initial: int, x: ArrayLike, axis: Any, dtype: Any, include_initial: bool, what: str
) -> Array:
    array = operand(x, what)
    if array.ndim == 0 or (axis is None and array.ndim > 1):
        raise ValueError(f"{what} of {described(array)} needs an axis{at_user()}")
    if dtype is None and not dtypes.is_inexact(array.dtype):
        dtype = dtypes.accumulator(array.dtype)
    total: Array = function(array, axis, dtype)
    if not include_initial:
        return total
    place = axis_of(axis or 0, total.ndim, what)
    first = full_of(initial, total.dtype, tuple([1 if i == place else n for i, n in enumerate(total.shape)]))
    return concatenate_arrays([first, total], place)


def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """The differences of neighbours along an axis, taken n times."""
    x = operand(a, "diff")
    place = axis_of(axis, x.ndim, "diff")
    if x.ndim == 0 or n < 0:
        raise ValueError(
            f"diff of {described(x)} with n={n}: it needs an axis, and n must be 0 or more{at_user()}"
        )

    def edge(extra: Any) -> list[Array]:
        if extra is None:
            return []
        e = cast(extra, x.dtype)
        return [
            e if e.ndim else o.broadcast_to(e, tuple([1 if i == place else m for i, m in enumerate(x.shape)]))
        ]

    x = concatenate_arrays([*edge(prepend), x, *edge(append)], place)
    for _ in range(n):
        size = x.shape[place]
        if size == 0:
            break
        later, earlier = slice_axis(x, place, 1, size), slice_axis(x, place, 0, size - 1)
        x = not_equal(later, earlier) if x.dtype is dtypes.bool_ else subtract(later, earlier)
    return x


def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Array:
    """The differences of neighbours in the raveled array, with other elements in front and at the end."""
    x = operand(ary, "ediff1d")
    parts = [diff(reshape(x, (x.size,)))]
    if to_begin is not None:
        begin = cast(to_begin, x.dtype)
        parts.insert(0, reshape(begin, (begin.size,)))
    if to_end is not None:
        end = cast(to_end, x.dtype)
        parts.append(reshape(end, (end.size,)))
    return concatenate_arrays(parts, 0)


def gradient(f: ArrayLike, *varargs: ArrayLike, axis: Axis = None) -> Any:
    """Central differences along axes, one-sided at the ends, over a distance of 1 or the distances given."""
    x = inexact(f, "gradient")
    axes = axes_of(axis, x.ndim, "gradient")
    spacings = list(varargs) or [1.0]
    spacings = spacings * len(axes) if len(spacings) == 1 else spacings
    if len(spacings) != len(axes):
        raise ValueError(f"gradient: {len(spacings)} distances for {len(axes)} axes{at_user()}")
    results = []
    for place, spacing in zip(axes, spacings, strict=True):
        n = x.shape[place]
        if n < 2:
            raise ValueError(f"gradient: axis {place} of {described(x)} needs 2 elements or more{at_user()}")
        h: Any = spacing
        if getattr(h, "ndim", 0) != 0:
            raise NotImplementedError(
                f"gradient takes one distance for each axis, not coordinates{at_user()}"
            )
        first = divide(subtract(slice_axis(x, place, 1, 2), slice_axis(x, place, 0, 1)), h)
        last = divide(subtract(slice_axis(x, place, n - 1, n), slice_axis(x, place, n - 2, n - 1)), h)
        inner = divide(divide(subtract(slice_axis(x, place, 2, n), slice_axis(x, place, 0, n - 2)), 2), h)
        results.append(concatenate_arrays([first, inner, last], place))
    return results[0] if len(results) == 1 else results


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """The integral of y along an axis by the trapezoidal rule, over positions x or a fixed distance."""
    heights = inexact(y, "trapezoid")
    place = axis_of(axis, heights.ndim, "trapezoid")
    heights = move_axis(heights, place, heights.ndim - 1)
    n, last = heights.shape[-1], heights.ndim - 1
    between = add(slice_axis(heights, last, 1, n), slice_axis(heights, last, 0, n - 1))
    if x is None:
        return multiply(multiply(sum(between, -1), 0.5), dx)
    positions = inexact(x, "trapezoid")
    if positions.ndim > 1:
        positions = move_axis(positions, place, positions.ndim - 1)
    return multiply(0.5, sum(multiply(diff(positions), between), -1))


# Reductions that skip NaN


def _without_nan(a: Any, otherwise: Any, what: str) -> Array:
    x = operand(a, what)
    return _where(isnan(x), o.scalar(otherwise, x.dtype), x) if dtypes.is_float(x.dtype) else x


def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The sum over axes of the elements that are not NaN."""
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
    """The product over axes of the elements that are not NaN."""
    return prod(_without_nan(a, 1, "nanprod"), axis, dtype, None, keepdims, initial, where)


def _nan_extreme(a: Any, axis: Axis, keepdims: bool, initial: Any, mask: Any, greatest: bool) -> Array:
    what = "nanmax" if greatest else "nanmin"
    x = operand(a, what)
    reduce = max if greatest else min
    if not dtypes.is_float(x.dtype):
        return reduce(x, axis, None, keepdims, initial, mask)
    result = reduce(_without_nan(x, _limit(x.dtype, not greatest), what), axis, None, keepdims, initial, mask)
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
    """The greatest of the elements over axes that are not NaN; NaN if all are."""
    return _nan_extreme(a, axis, keepdims, initial, where, True)


def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The least of the elements over axes that are not NaN; NaN if all are."""
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
    """The mean over axes of the elements that are not NaN; NaN if all are."""
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
) -> Array:
    """The variance over axes of the elements that are not NaN; NaN if they are no more than `ddof`."""
    x = operand(a, "nanvar")
    present = _present(x, where)
    result = var(_without_nan(x, 0, "nanvar"), axis, dtype, None, ddof, keepdims, where=present)
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
) -> Array:
    """The standard deviation over axes of the elements that are not NaN."""
    return sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, where))


def _nan_position(a: Any, axis: int | None, keepdims: bool | None, greatest: bool) -> Array:
    what = "nanargmax" if greatest else "nanargmin"
    x = operand(a, what)
    position = argmax if greatest else argmin
    if not dtypes.is_float(x.dtype):
        return position(x, axis, None, keepdims)
    result = position(_without_nan(x, _limit(x.dtype, not greatest), what), axis, None, keepdims)
    empty = all(isnan(x), axis, keepdims=bool(keepdims))
    return _where(empty, -1, result)


def nanargmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The position of the greatest element that is not NaN; -1 if all are."""
    return _nan_position(a, axis, keepdims, True)


def nanargmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The position of the least element that is not NaN; -1 if all are."""
    return _nan_position(a, axis, keepdims, False)


def nancumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """`cumsum` with NaN counted as 0."""
    return cumsum(_without_nan(a, 0, "nancumsum"), axis, dtype)


def nancumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """`cumprod` with NaN counted as 1."""
    return cumprod(_without_nan(a, 1, "nancumprod"), axis, dtype)


# Quantiles

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

    The axes of q come first in the result. Methods: linear, lower, higher, midpoint, nearest."""
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
    """`quantile` of the elements that are not NaN; NaN if all are."""
    return _quantile(inexact(a, "nanquantile"), q, axis, method, keepdims, True)


def _quantile(x: Array, share_below: Any, axis: Axis, method: str, keepdims: bool, skip: bool) -> Array:
    from .indexing import sort, take_along_axis

    if method not in _METHODS:
        raise ValueError(f"quantile: method must be one of {', '.join(_METHODS)}, not {method!r}{at_user()}")
    axes = axes_of(axis, x.ndim, "quantile")
    kept = [i for i in range(x.ndim) if i not in axes]
    rest = tuple([x.shape[i] for i in kept])
    ordered = bind(prims.transpose, (x,), {"permutation": (*kept, *axes)})
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
        gap = _where(o.equal(above, below), 0, subtract(above, below))
        result = add(below, multiply(gap, share))
    else:
        result = multiply(add(below, above), 0.5) if method == "midpoint" else below
    nothing = less(count, 1) if skip else o.greater(missing, 0)
    result = _where(nothing, o.scalar(float("nan"), x.dtype), result)
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
    """`quantile` with q in percent."""
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
    """`nanquantile` with q in percent."""
    share = q / 100 if isinstance(q, (int, float)) else divide(q, 100)
    return nanquantile(a, share, axis, None, overwrite_input, method, keepdims)


def median(
    a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """The middle one of the elements over axes in order, or the mean of the middle two; NaN if one is."""
    return quantile(a, 0.5, axis, None, overwrite_input, "midpoint", keepdims)


def nanmedian(
    a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """`median` of the elements that are not NaN; NaN if all are."""
    return nanquantile(a, 0.5, axis, None, overwrite_input, "midpoint", keepdims)
