"""Along an axis: cumulative sums and products, differences, the trapezoidal rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from ..trace.index import reshape
from ..trace.prims.movement import move_axis
from .arithmetic import (
    add,
    divide,
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
    concatenate_arrays,
    described,
    full_of,
    inexact,
    no_out,
    operand,
    promoted,
    slice_axis,
)
from .logic import (
    not_equal,
)
from .reductions import sum


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
    """The sums of the elements up to and including each along an axis (of the raveled array, for None), in a's dtype.

    Bools become int32. `cumulative_sum` sums narrow integers in 32 bits.

    >>> tnp.cumsum(tnp.array([[1, 2], [3, 4]]))
    Array([ 1,  3,  6, 10], dtype=int32)
    >>> tnp.cumsum(tnp.array([[1, 2], [3, 4]]), axis=0)
    Array([[1, 2],
           [4, 6]], dtype=int32)
    """
    no_out("cumsum", out)
    x, place = _cumulative(a, axis, dtype, "cumsum")
    return bind(prims.cumsum, (x,), {"axis": place, "reverse": False})


def cumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """The products of the elements up to and including each along an axis (of the raveled array, for None), in a's dtype.

    Bools become int32.

    >>> tnp.cumprod(tnp.array([[1, 2], [3, 4]]), axis=1)
    Array([[ 1,  2],
           [ 3, 12]], dtype=int32)
    """
    no_out("cumprod", out)
    x, place = _cumulative(a, axis, dtype, "cumprod")
    return bind(prims.cumprod, (x,), {"axis": place, "reverse": False})


def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike = None, include_initial: bool = False
) -> Array:
    """`cumprod`, with a 1 in front if `include_initial`; an array of more than one axis needs `axis`.

    Integers have at least 32 bits.

    >>> tnp.cumulative_prod(tnp.array([2, 3, 4]), include_initial=True)
    Array([ 1,  2,  6, 24], dtype=int32)
    """
    return _with_initial(cumprod, 1, x, axis, dtype, include_initial, "cumulative_prod")


def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike = None, include_initial: bool = False
) -> Array:
    """`cumsum`, with a 0 in front if `include_initial`; an array of more than one axis needs `axis`.

    Integers have at least 32 bits.

    >>> tnp.cumulative_sum(tnp.array([100, 100], "int8"), include_initial=True)
    Array([  0, 100, 200], dtype=int32)
    """
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
    """The differences of neighbours along an axis, taken n times, each time with one element less; of bools whether
    neighbours differ.

    `prepend` and `append` are put at the ends before: arrays, or one number for all.

    >>> tnp.diff(tnp.array([1, 4, 9, 16]))
    Array([3, 5, 7], dtype=int32)
    >>> tnp.diff(tnp.array([1, 4, 9, 16]), n=2)
    Array([2, 2], dtype=int32)
    >>> tnp.diff(tnp.array([[1, 4], [9, 16]]), prepend=0)
    Array([[1, 3],
           [9, 7]], dtype=int32)
    """
    x = operand(a, "diff")
    place = axis_of(axis, x.ndim, "diff")
    if x.ndim == 0 or n < 0:
        raise ValueError(
            f"diff of {described(x)} with n={n}: it needs an axis, and n must be 0 or more{at_user()}"
        )

    parts = promoted(*[part for part in (prepend, x, append) if part is not None])
    one = tuple([1 if i == place else m for i, m in enumerate(x.shape)])
    x = concatenate_arrays([part if part.ndim else o.broadcast_to(part, one) for part in parts], place)
    for _ in range(n):
        size = x.shape[place]
        if size == 0:
            break
        later, earlier = slice_axis(x, place, 1, size), slice_axis(x, place, 0, size - 1)
        x = not_equal(later, earlier) if x.dtype is dtypes.bool_ else subtract(later, earlier)
    return x


def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Array:
    """The differences of neighbours in the raveled array, with other elements in front and at the end.

    >>> tnp.ediff1d(tnp.array([[1, 4], [9, 16]]), to_begin=0)
    Array([0, 3, 5, 7], dtype=int32)
    """
    x = operand(ary, "ediff1d")
    parts = [diff(reshape(x, (x.size,)))]
    if to_begin is not None:
        begin = cast(to_begin, x.dtype)
        parts.insert(0, reshape(begin, (begin.size,)))
    if to_end is not None:
        end = cast(to_end, x.dtype)
        parts.append(reshape(end, (end.size,)))
    return concatenate_arrays(parts, 0)


def gradient(f: ArrayLike, *varargs: ArrayLike, axis: Axis = None, edge_order: int | None = None) -> Any:
    """Central differences along axes, one-sided at the ends, over a distance of 1 or the distances given: an array for each
    axis, of f's shape.

    In the place of a distance may stand the coordinates along an axis, which need not be evenly spaced. An axis needs 2 elements.

    >>> tnp.gradient(tnp.array([0.0, 1.0, 4.0, 9.0]))
    Array([1., 2., 4., 5.], dtype=float32)
    >>> tnp.gradient(tnp.array([0.0, 1.0, 4.0, 9.0]), 0.5)
    Array([ 2.,  4.,  8., 10.], dtype=float32)
    >>> rows, columns = tnp.gradient(tnp.array([[0.0, 1.0], [2.0, 3.0]]))
    >>> rows, columns
    (Array([[2., 2.],
           [2., 2.]], dtype=float32), Array([[1., 1.],
           [1., 1.]], dtype=float32))
    """
    x = inexact(f, "gradient")
    if edge_order not in (None, 1):
        raise NotImplementedError(f"gradient: only edge_order=1, not {edge_order!r}{at_user()}")
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
        if getattr(h, "ndim", 0) != 0 or isinstance(h, (list, tuple)):
            results.append(_gradient_at(x, place, h))
            continue
        first = divide(subtract(slice_axis(x, place, 1, 2), slice_axis(x, place, 0, 1)), h)
        last = divide(subtract(slice_axis(x, place, n - 1, n), slice_axis(x, place, n - 2, n - 1)), h)
        inner = divide(divide(subtract(slice_axis(x, place, 2, n), slice_axis(x, place, 0, n - 2)), 2), h)
        results.append(concatenate_arrays([first, inner, last], place))
    return results[0] if len(results) == 1 else results


def _gradient_at(x: Array, place: int, coordinates: Any) -> Array:
    """The derivative along an axis of the parabola through each element and its neighbours, one-sided at the ends."""
    n = x.shape[place]
    at = cast(np.asarray(coordinates) if isinstance(coordinates, (list, tuple)) else coordinates, x.dtype)
    if at.shape != (n,):
        raise ValueError(
            f"gradient: axis {place} of {described(x)} needs {n} coordinates, not {described(at)}{at_user()}"
        )
    # The quotients of differences; inside, the mean of both, each weighted by the other's distance.
    step = reshape(
        subtract(slice_axis(at, 0, 1, n), slice_axis(at, 0, 0, n - 1)), (n - 1, *(1,) * (x.ndim - 1 - place))
    )
    slope = divide(subtract(slice_axis(x, place, 1, n), slice_axis(x, place, 0, n - 1)), step)
    before, after = slice_axis(step, 0, 0, n - 2), slice_axis(step, 0, 1, n - 1)
    left, right = slice_axis(slope, place, 0, n - 2), slice_axis(slope, place, 1, n - 1)
    inner = divide(add(multiply(left, after), multiply(right, before)), add(before, after))
    ends = slice_axis(slope, place, 0, 1), slice_axis(slope, place, n - 2, n - 1)
    return concatenate_arrays([ends[0], inner, ends[1]], place)


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """The integral of y along an axis by the trapezoidal rule, over positions x or a fixed distance.

    >>> tnp.trapezoid(tnp.array([1.0, 2.0, 3.0]))
    Array(4., dtype=float32)
    >>> tnp.trapezoid(tnp.array([1.0, 2.0, 3.0]), x=tnp.array([0, 1, 4]))
    Array(9., dtype=float32)
    """
    heights = inexact(y, "trapezoid")
    place = axis_of(axis, heights.ndim, "trapezoid")
    heights = move_axis(heights, place, heights.ndim - 1)
    n, last = heights.shape[-1], heights.ndim - 1
    between = heights
    if n != 0:
        between = add(slice_axis(heights, last, 1, n), slice_axis(heights, last, 0, n - 1))
    if x is None:
        return multiply(multiply(sum(between, -1), 0.5), dx)
    positions = inexact(x, "trapezoid")
    if positions.ndim > 1:
        positions = move_axis(positions, place, positions.ndim - 1)
    return multiply(0.5, sum(multiply(diff(positions), between), -1))
