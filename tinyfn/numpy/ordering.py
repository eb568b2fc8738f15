"""Sorting, searching in what is sorted, and counting."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array, wrap
from ..trace.errors import ConcretizationError
from ..trace.index import reshape
from ..trace.indexing import AtIndex, getitem
from ..trace.prims.movement import move_axis
from ..trace.tracing import current_trace
from .arithmetic import (
    add,
    divide,
    multiply,
    subtract,
)
from .common import (
    ArrayLike,
    at_user,
    axis_of,
    bind,
    cast,
    check_real,
    concatenate_arrays,
    described,
    floats,
    full_of,
    number,
    operand,
    operands,
    sequence,
)
from .floats import real
from .indexing import take, take_along_axis
from .logic import (
    bitwise_and,
    bitwise_or,
    equal,
    greater,
    isnan,
    less,
    less_equal,
    logical_not,
    where,
)

_NUMPY_FLOATS = (dtypes.float16, dtypes.float32, dtypes.float64)


def _no_fields(what: str, order: object) -> None:
    if order is not None:
        raise ValueError(f"{what}: `order` names fields, which these arrays do not have{at_user()}")


def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """The positions, as int32, that put the elements along an axis (of the raveled array, for None) in order; equal ones
    stay in theirs, also if `descending`. NaN goes last, or first if `descending`.

    >>> tnp.argsort(tnp.array([3, 1, 2]))
    Array([1, 2, 0], dtype=int32)
    >>> tnp.argsort(tnp.array([1.0, np.nan, 3.0, 1.0]), descending=True)
    Array([1, 2, 0, 3], dtype=int32)
    """
    _no_fields("argsort", order)
    x = operand(a, "argsort")
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    place = axis_of(axis, x.ndim, "argsort")
    rows = move_axis(x, place, x.ndim - 1)
    return move_axis(_first(rows, rows.shape[-1], descending), x.ndim - 1, place)


def _first(x: Array, count: Any, descending: bool) -> Array:
    """The positions of the first elements along the last axis in order."""
    return bind(prims.argsort, (x,), {"count": count, "descending": bool(descending)})


def _at(x: Array, positions: Array) -> Array:
    """The elements along the last axis at such positions."""
    last = x.ndim - 1
    if isinstance(x.shape[last], int) and x.shape[last] == 0:
        return x
    params = {"axes": (last,), "sizes": (1,), "batch_dims": last, "mode": "clip"}
    at = reshape(positions, (*positions.shape, 1))
    return reshape(bind(prims.gather, (x, at), params), positions.shape)


def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """The elements in order along an axis (all of them, for None), NaN last (first, if `descending`).

    >>> tnp.sort(tnp.array([[3, 1], [2, 5]]), axis=0)
    Array([[2, 1],
           [3, 5]], dtype=int32)
    >>> tnp.sort(tnp.array([1.0, np.nan, 3.0]), descending=True)
    Array([nan,  3.,  1.], dtype=float32)
    >>> tinyfn.grad(lambda x: tnp.sort(x)[0])(tnp.array([3.0, 1.0, 2.0]))
    Array([0., 1., 0.], dtype=float32)
    """
    _no_fields("sort", order)
    x = number(a, "sort")
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    if x.ndim == 0:
        raise ValueError(f"sort of {described(x)}: a scalar has no axis to sort{at_user()}")
    last, place = x.ndim - 1, axis_of(axis, x.ndim, "sort")
    # NumPy does not know that the NaNs of other floats go last.
    if (
        type(x) is Array
        and current_trace() is None
        and (not dtypes.is_float(x.dtype) or x.dtype in _NUMPY_FLOATS)
    ):
        if not descending:
            return wrap(np.sort(x.value, place, kind="stable"))
        return wrap(np.flip(np.sort(np.flip(x.value, place), place, kind="stable"), place))
    rows = move_axis(x, place, last)
    return move_axis(_at(rows, _first(rows, rows.shape[-1], descending)), last, place)


def sort_complex(a: ArrayLike) -> Array:
    """The elements in order along the last axis, as complex numbers: by their real parts, then by their imaginary parts.

    >>> tnp.sort_complex(tnp.array([2 + 1j, 1j, 2 - 1j]))
    Array([0.+1.j, 2.-1.j, 2.+1.j], dtype=complex64)
    """
    x = operand(a, "sort_complex")
    return sort(
        x if dtypes.kind(x.dtype) == "complex" else cast(x, dtypes.promote_types(x.dtype, dtypes.complex64))
    )


def lexsort(keys: Any, axis: int = -1) -> Array:
    """The positions, as int32, that put the last key in order, where that is equal the last but one, and so on.

    >>> tnp.lexsort((tnp.array([2, 1, 3]), tnp.array([0, 0, -1])))
    Array([2, 1, 0], dtype=int32)
    """
    arrays = sequence(keys, "lexsort")
    result = argsort(arrays[0], axis)
    for key in arrays[1:]:
        result = take_along_axis(result, argsort(take_along_axis(key, result, axis), axis), axis)
    return result


def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The elements so that the kth along an axis is where it is in order, with lesser ones before it: here all in order.

    >>> tnp.partition(tnp.array([3, 1, 2, 5]), 2)
    Array([1, 2, 3, 5], dtype=int32)
    """
    _check_place(a, kth, axis, "partition")
    return sort(a, axis)


def _check_place(a: ArrayLike, kth: int, axis: int, what: str) -> None:
    x = operand(a, what)
    n = x.shape[axis_of(axis, x.ndim, what)] if x.ndim else 0
    if not -n <= kth < n:
        raise ValueError(f"{what}: kth={kth} is not within axis {axis} of {described(x)}{at_user()}")


def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The positions, as int32, that `partition` takes its elements from.

    >>> tnp.argpartition(tnp.array([3, 1, 2, 5]), 2)
    Array([1, 2, 0, 3], dtype=int32)
    """
    _check_place(a, kth, axis, "argpartition")
    return argsort(a, axis)


def top_k(x: ArrayLike, k: int, axis: int = -1) -> tuple[Array, Array]:
    """The k greatest elements along an axis in falling order, and their positions, as int32; of equal ones the first.

    >>> tnp.top_k(tnp.array([1, 5, 3, 5]), 3)
    (Array([5, 5, 3], dtype=int32), Array([1, 3, 2], dtype=int32))
    """
    array = operand(x, "top_k")
    place = axis_of(axis, array.ndim, "top_k")
    if not 0 <= k <= array.shape[place]:
        raise ValueError(f"top_k: k={k} is not within axis {place} of {described(array)}{at_user()}")
    last = array.ndim - 1
    rows = move_axis(array, place, last)
    positions = _first(rows, k, descending=True)
    return move_axis(_at(rows, positions), last, place), move_axis(positions, last, place)


def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: str = "left",
    sorter: ArrayLike | None = None,
    *,
    method: str | None = None,
) -> Array:
    """The positions, as int32 in the shape of v, before which the elements of v go so that `a`, which is in order, stays in
    order: before equal elements with side "left", after them with "right".

    NaN is greater than all numbers. If `a` is not in order, `sorter` puts it so (`argsort(a)`).

    >>> tnp.searchsorted(tnp.array([1, 3, 5]), tnp.array([[0, 3], [4, 9]]))
    Array([[0, 1],
           [2, 3]], dtype=int32)
    >>> tnp.searchsorted(tnp.array([1, 3, 5]), 3, side="right")
    Array(2, dtype=int32)
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', not {side!r}{at_user()}")
    x, values = operands("searchsorted", a, v)
    if x.ndim != 1:
        raise ValueError(f"searchsorted takes a 1-d array, not {described(x)}{at_user()}")
    if sorter is not None:
        x = take(x, sorter)
    n = x.shape[0]
    low, high = full_of(0, dtypes.int32, values.shape), full_of(n, dtypes.int32, values.shape)
    for _ in range(int(n).bit_length()):
        middle = o.right_shift(add(low, high), 1)
        at_middle = take(x, middle, mode="clip")
        goes_after = _before(at_middle, values) if side == "left" else logical_not(_before(values, at_middle))
        goes_after = bitwise_and(goes_after, less(low, high))
        low, high = (
            where(goes_after, add(middle, 1), low),
            where(goes_after, high, o.elementwise(prims.min, middle, high)),
        )
    return low


def _before(x: Array, y: Array) -> Array:
    """x < y with NaN after all numbers."""
    if not dtypes.is_float(x.dtype):
        return less(x, y)
    return bitwise_or(less(x, y), bitwise_and(logical_not(isnan(x)), isnan(y)))


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None) -> Array:
    """The number, as int32, of the interval between the bins, which rise or fall, in which each element lies: 0 before the
    first, their number after the last.

    An element that is equal to a bin lies above it (below it, with `right`).

    >>> tnp.digitize(tnp.array([0.5, 1.0, 9.0]), tnp.array([1, 2, 3]))
    Array([0, 1, 3], dtype=int32)
    >>> tnp.digitize(tnp.array([0.5, 1.0, 9.0]), tnp.array([3, 2, 1]), right=True)
    Array([3, 3, 0], dtype=int32)
    """
    edges = operand(bins, "digitize")
    if edges.ndim != 1:
        raise ValueError(f"digitize takes 1-d bins, not {described(edges)}{at_user()}")
    side = "left" if right else "right"
    n = edges.shape[0]
    rising = searchsorted(edges, x, side)
    if n < 2:
        return rising
    falling = subtract(n, searchsorted(bind(prims.flip, (edges,), {"axes": (0,)}), x, side))
    return where(less_equal(getitem(edges, 0), getitem(edges, n - 1)), rising, falling)


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | None = None,
    right: ArrayLike | None = None,
    period: ArrayLike | None = None,
) -> Array:
    """The piecewise linear function through the points (xp, fp) at x, in x's shape; xp must rise. Outside: the ends, or
    `left`, `right`.

    With a period it repeats: xp need not rise then, and there is no outside.

    >>> tnp.interp(tnp.array([0.5, 1.5, 9.0]), tnp.array([0, 1, 2]), tnp.array([0, 10, 0]))
    Array([5., 5., 0.], dtype=float32)
    >>> tnp.interp(tnp.array([9.0]), tnp.array([0, 1, 2]), tnp.array([0, 10, 0]), right=-1)
    Array([-1.], dtype=float32)
    >>> tnp.interp(350, tnp.array([90, 180, 0]), tnp.array([9, 18, 0]), period=360)
    Array(1., dtype=float32)
    """
    at, xs, ys = floats("interp", x, xp, fp)
    if dtypes.kind(ys.dtype) == "complex":
        check_real("interp", operand(x, "interp"), operand(xp, "interp"))
        at, xs = real(at), real(xs)
    if xs.ndim != 1 or ys.shape != xs.shape:
        raise ValueError(
            f"interp takes points xp and fp as two 1-d arrays of one size, not {described(xs, ys)}{at_user()}"
        )
    if period is not None:
        length = o.elementwise(prims.abs, cast(period, xs.dtype))
        at, xs = o.remainder(at, length), o.remainder(xs, length)
        order = argsort(xs)
        xs, ys = take(xs, order, mode="clip"), take(ys, order, mode="clip")
        # A point of the period before, and one of the period after.
        xs = concatenate_arrays([subtract(xs[-1:], length), xs, add(xs[:1], length)], 0)
        ys = concatenate_arrays([ys[-1:], ys, ys[:1]], 0)
        left = right = None
    n = xs.shape[0]
    upper = o.elementwise(
        prims.clamp,
        o.scalar(1, dtypes.int32),
        searchsorted(xs, at, "right"),
        o.scalar(max(n - 1, 1), dtypes.int32),
    )
    lower = subtract(upper, 1)
    x0, x1, y0, y1 = (
        take(v, i, mode="clip") for v, i in ((xs, lower), (xs, upper), (ys, lower), (ys, upper))
    )
    width = subtract(x1, x0)
    share = divide(subtract(at, x0), where(equal(width, 0), 1, width))
    result = add(y0, multiply(where(equal(width, 0), 0, share), subtract(y1, y0)))
    result = where(less(at, getitem(xs, 0)), getitem(ys, 0) if left is None else left, result)
    return where(greater(at, getitem(xs, n - 1)), getitem(ys, n - 1) if right is None else right, result)


# Counting


def bincount(
    x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None
) -> Array:
    """How often each of 0, 1, 2, ... occurs (as int32), or the sum of its weights; up to the greatest, or for `minlength` of
    them at least.

    Under jit, `length` fixes the result's size; greater values are left out then.

    >>> tnp.bincount(tnp.array([0, 1, 1, 3]))
    Array([1, 2, 0, 1], dtype=int32)
    >>> tnp.bincount(tnp.array([0, 1, 1]), weights=tnp.array([0.5, 1.0, 2.0]), length=4)
    Array([0.5, 3. , 0. , 0. ], dtype=float32)
    """
    values = operand(x, "bincount")
    if values.dtype is dtypes.bool_:
        values = cast(values, dtypes.int32)
    if not dtypes.is_integer(values.dtype) or values.ndim != 1:
        raise TypeError(f"bincount takes a 1-d array of integers, not {described(values)}{at_user()}")
    if length is None:
        attempt = "count its values (the result's size would depend on them: give `length`)"
        known = values._concrete(attempt, ConcretizationError)
        length = max(int(known.max()) + 1 if known.size else 0, minlength)
    counts = full_of(1, dtypes.int32, values.shape) if weights is None else operand(weights, "bincount")
    # Negative values count as 0, as in JAX.
    places = o.elementwise(prims.max, values, o.scalar(0, values.dtype))
    return AtIndex(full_of(0, counts.dtype, (length,)), places).add(counts, mode="drop")
