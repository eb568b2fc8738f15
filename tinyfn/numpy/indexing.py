"""Elements by position or by value: take, choose, count, and the functions whose result's shape depends on
values."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array, wrap
from ..trace.errors import ConcretizationError
from ..trace.index import reshape, wrap_positions
from ..trace.indexing import AtIndex, fill_value_of
from ..trace.prims.movement import move_axis
from .arithmetic import (
    add,
    multiply,
    subtract,
)
from .common import (
    ArrayLike,
    at_user,
    axis_of,
    bind,
    cast,
    concatenate_arrays,
    described,
    full_of,
    iota,
    number,
    operand,
    promoted,
    sequence,
)
from .cumulative import cumsum
from .logic import (
    bitwise_and,
    less,
    less_equal,
    not_equal,
    where,
)
from .rearranging import resize


def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Array:
    """The elements at positions along an axis (of the raveled array, for None).

    Positions out of bounds that are data give `fill_value` (NaN, the least signed or greatest unsigned integer); modes "clip" and
    "wrap" move them. A position that is a Python or NumPy integer raises IndexError instead.

    >>> x = tnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> tnp.take(x, tnp.array([2, 0]), axis=1)
    Array([[3., 1.],
           [6., 4.]], dtype=float32)
    >>> tnp.take(x, tnp.array([0, 7]))
    Array([ 1., nan], dtype=float32)
    >>> tnp.take(x, tnp.array([0, 7]), mode="wrap")
    Array([1., 2.], dtype=float32)
    """
    x = operand(a, "take")
    if isinstance(indices, (list, tuple)):
        raise TypeError(
            f"take: indices must be an array or an integer, not a {type(indices).__name__}{at_user()}"
        )
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    place = axis_of(axis, x.ndim, "take")
    if mode == "wrap":
        indices, mode = o.remainder(indices, x.shape[place]), "clip"
    elif mode is None and isinstance(indices, Array):
        mode = "fill"
    index: Any = indices
    return AtIndex(x, (*[slice(None)] * place, index)).get(mode=mode, fill_value=fill_value)


def take_along_axis(
    arr: ArrayLike, indices: ArrayLike, axis: int | None = -1, mode: str | None = None, fill_value: Any = None
) -> Array:
    """For each slice of `indices` along an axis the elements of that slice of `arr`; other axes broadcast.

    Positions out of bounds give `fill_value` (NaN, the least signed or greatest unsigned integer), or are moved within bounds in
    mode "clip".

    >>> x = tnp.array([[3, 1, 2], [4, 6, 5]])
    >>> tnp.take_along_axis(x, tnp.argsort(x, axis=1)[:, :2], axis=1)
    Array([[1, 2],
           [4, 5]], dtype=int32)
    >>> tnp.take_along_axis(x, tnp.argmax(x, axis=1, keepdims=True), axis=1)
    Array([[3],
           [6]], dtype=int32)
    """
    x, positions = operand(arr, "take_along_axis"), operand(indices, "take_along_axis")
    if not dtypes.is_integer(positions.dtype):
        raise TypeError(f"take_along_axis: indices must be integers, not {described(positions)}{at_user()}")
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    if x.ndim != positions.ndim:
        raise ValueError(
            f"take_along_axis: {described(x, positions)} must have one number of axes{at_user()}"
        )
    place = axis_of(axis, x.ndim, "take_along_axis")
    last = x.ndim - 1
    x, positions = move_axis(x, place, last), move_axis(positions, place, last)
    n, m = x.shape[-1], positions.shape[-1]
    batch = o.broadcast_shapes(x.shape[:-1], positions.shape[:-1])
    x, positions = o.broadcast_to(x, (*batch, n)), o.broadcast_to(positions, (*batch, m))
    fills = mode in (None, "fill", "drop")

    positions = wrap_positions(positions, n)
    if isinstance(n, int) and n == 0:
        return move_axis(o.broadcast_to(fill_value_of(x, fill_value), (*batch, m)), last, place)
    params = {"axes": (last,), "sizes": (1,), "batch_dims": last, "mode": "fill" if fills else "clip"}
    result = reshape(bind(prims.gather, (x, reshape(positions, (*batch, m, 1))), params), (*batch, m))
    if fills:
        inside = bitwise_and(o.greater_equal(positions, 0), less(positions, n))
        result = where(inside, result, fill_value_of(x, fill_value))
    return move_axis(result, last, place)


def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Array:
    """`arr` with the elements that `take_along_axis` reads replaced; it needs inplace=False, since arrays do not change.

    >>> x = tnp.array([[3, 1, 2], [4, 6, 5]])
    >>> tnp.put_along_axis(x, tnp.array([[0], [1]]), 9, axis=1, inplace=False)
    Array([[9, 1, 2],
           [4, 9, 5]], dtype=int32)
    """
    _check_not_in_place(inplace, "put_along_axis")
    x, positions = operand(arr, "put_along_axis"), operand(indices, "put_along_axis")
    if axis is None:
        flat = put_along_axis(reshape(x, (x.size,)), positions, values, 0, False, mode=mode)
        return reshape(flat, x.shape)
    place = axis_of(axis, x.ndim, "put_along_axis")
    batch = o.broadcast_shapes(
        tuple([1 if i == place else n for i, n in enumerate(x.shape)]),
        tuple([1 if i == place else n for i, n in enumerate(positions.shape)]),
    )
    shape = tuple([positions.shape[place] if i == place else n for i, n in enumerate(batch)])
    positions = o.broadcast_to(positions, shape)
    index = tuple([positions if i == place else iota(dtypes.int32, shape, i) for i in range(x.ndim)])
    return AtIndex(x, index).set(values, mode=mode)


def _check_not_in_place(inplace: bool, what: str) -> None:
    if inplace:
        raise ValueError(
            f"{what} needs inplace=False: arrays do not change, the result is a new one{at_user()}"
        )


def put(
    a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True
) -> Array:
    """`a` with the elements at positions `ind` of its flat order replaced by the elements of v, which are repeated as needed.

    `mode` "clip" or "wrap" brings positions within bounds; else those out of bounds are an error where they are known, and
    left out where not. It needs inplace=False, since arrays do not change.

    >>> tnp.put(tnp.zeros((2, 3)), tnp.array([0, 4]), tnp.array([7.0, 8.0]), inplace=False)
    Array([[7., 0., 0.],
           [0., 8., 0.]], dtype=float32)
    """
    _check_not_in_place(inplace, "put")
    if mode not in (None, "clip", "wrap"):
        raise ValueError(f"put: mode must be None, 'clip' or 'wrap', not {mode!r}{at_user()}")
    x, values = operand(a, "put"), o.operand(np.asarray(v) if isinstance(v, (list, tuple)) else v)
    # Known positions stay with NumPy, so that one that is out of bounds is an error.
    positions: Any = ind if isinstance(ind, Array) else np.asarray(ind)
    positions = positions.reshape(positions.size)
    values = reshape(values, (values.size,))
    if not values.size and positions.size:
        raise ValueError(f"put: there are no values for {positions.size} positions{at_user()}")
    if mode == "wrap":
        positions, mode = positions % x.size, "clip"
    chosen = resize(values, (positions.size,))
    return reshape(AtIndex(reshape(x, (x.size,)), positions).set(chosen, mode=mode), x.shape)


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """`arr` with the elements where the mask holds replaced by those of `vals` in turn, which are repeated as needed.

    It needs inplace=False, since arrays do not change.

    >>> x = tnp.arange(5)
    >>> tnp.place(x, x > 1, tnp.array([10, 20]), inplace=False)
    Array([ 0,  1, 10, 20, 10], dtype=int32)
    """
    _check_not_in_place(inplace, "place")
    x, holds = operand(arr, "place"), cast(operand(mask, "place"), dtypes.bool_)
    values = operand(vals, "place") if not isinstance(vals, (list, tuple)) else o.operand(np.asarray(vals))
    if holds.size != x.size or not values.size:
        raise ValueError(
            f"place: {described(x, holds)} must be of one size, and there must be values{at_user()}"
        )
    number = subtract(cumsum(cast(reshape(holds, (x.size,)), dtypes.int32)), 1)
    turn = take(reshape(values, (values.size,)), o.remainder(number, values.size), mode="wrap")
    return where(reshape(holds, x.shape), cast(reshape(turn, x.shape), x.dtype), x)


def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """For each element of `a` the element there of that one of the choices, which broadcast.

    What is out of range raises ValueError in mode "raise", which must know its values; "clip" and "wrap" move it.

    >>> tnp.choose(tnp.array([0, 1, 0]), [tnp.array([1, 2, 3]), tnp.array([10, 20, 30])])
    Array([ 1, 20,  3], dtype=int32)
    >>> tnp.choose(tnp.array([-1, 5]), [tnp.array([1, 2]), tnp.array([10, 20])], mode="clip")
    Array([ 1, 20], dtype=int32)
    """
    options = promoted(*sequence(choices, "choose"))
    chosen = number(a, "choose")
    count = len(options)
    if mode == "wrap":
        chosen = o.remainder(chosen, count)
    elif mode == "raise":
        known = chosen._concrete("check that choices exist (use mode='clip' or 'wrap')", ConcretizationError)
        if ((known < 0) | (known >= count)).any():
            raise ValueError(f"choose: there are {count} choices, and an element is out of range{at_user()}")
    result = options[-1]
    for i in range(count - 2, -1, -1):
        result = where(less_equal(chosen, i), options[i], result)
    return result


def select(condlist: Any, choicelist: Any, default: ArrayLike = 0) -> Array:
    """For each element that of the first choice whose condition holds there, or the default.

    >>> x = tnp.arange(5)
    >>> tnp.select([x < 1, x < 3], [x + 10, -x], default=7)
    Array([10, -1, -2,  7,  7], dtype=int32)
    """
    conditions, choices = list(condlist), list(choicelist)
    if len(conditions) != len(choices) or not conditions:
        raise ValueError(f"select: {len(conditions)} conditions for {len(choices)} choices{at_user()}")
    *options, result = promoted(*choices, default)
    for condition, option in zip(reversed(conditions), reversed(options), strict=True):
        result = where(condition, option, result)
    return result


# Positions of all axes at once


def _positions(x: ArrayLike, what: str) -> Array:
    """Integers, in a signed dtype in which positions in any array can be worked out."""
    positions = operand(x, what)
    if positions.dtype.kind not in "iu":
        raise TypeError(f"{what} takes integers, not {described(positions)}{at_user()}")
    wide = positions.dtype.itemsize == 8 or positions.dtype == "uint32"
    return o.to_dtype(positions, dtypes.int64 if wide else dtypes.int32)


def unravel_index(indices: ArrayLike, shape: Any) -> tuple[Array, ...]:
    """Positions in the raveled array as one array of positions for each axis, int32 (int64 for 64-bit positions).

    Negative ones count from the end; those out of bounds are clipped.

    >>> tnp.unravel_index(tnp.array([0, 4, 5]), (2, 3))
    (Array([0, 1, 1], dtype=int32), Array([0, 1, 2], dtype=int32))
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    rest = _positions(indices, "unravel_index")
    total = prod(sizes)
    rest = o.elementwise(
        prims.clamp, o.scalar(-total, rest.dtype), rest, o.scalar(max(total - 1, 0), rest.dtype)
    )
    rest = where(less(rest, 0), add(rest, total), rest)
    results = []
    for n in reversed(sizes):
        results.append(o.remainder(rest, n))
        rest = o.floor_divide(rest, n)
    return tuple(reversed(results))


def ravel_multi_index(
    multi_index: Sequence[ArrayLike], dims: Sequence[int], mode: str = "raise", order: str = "C"
) -> Array:
    """One array of positions for each axis as positions in the raveled array.

    Positions out of bounds raise ValueError in mode "raise", which must know their values; "clip" and "wrap" move them.

    >>> tnp.ravel_multi_index((tnp.array([0, 1]), tnp.array([2, 1])), (2, 3))
    Array([2, 4], dtype=int32)
    >>> tnp.ravel_multi_index((tnp.array([0, 5]), tnp.array([2, 1])), (2, 3), mode="clip")
    Array([2, 4], dtype=int32)
    """
    arrays = [_positions(i, "ravel_multi_index") for i in multi_index]
    if len(arrays) != len(dims):
        raise ValueError(f"ravel_multi_index: {len(arrays)} positions for {len(dims)} axes{at_user()}")
    if mode == "raise":
        for axis, (a, n) in enumerate(zip(arrays, dims, strict=True)):
            attempt = "check that positions exist (use mode='clip' or 'wrap')"
            known = a._concrete(attempt, ConcretizationError)
            if ((known < 0) | (known >= n)).any():
                raise ValueError(
                    f"ravel_multi_index: a position is out of bounds for axis {axis} of size {n}{at_user()}"
                )
    pairs = list(zip(arrays, dims, strict=True))
    flat: Any = 0
    for a, n in pairs if order == "C" else reversed(pairs):
        if mode == "wrap":
            a = o.remainder(a, n)
        elif mode == "clip":
            a = o.elementwise(prims.clamp, o.scalar(0, a.dtype), a, o.scalar(n - 1, a.dtype))
        flat = add(multiply(flat, n), a)
    return o.operand(flat)


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """1-d arrays of positions (or masks), shaped so that indexing with them takes the whole grid.

    >>> x = tnp.arange(12).reshape(3, 4)
    >>> x[tnp.ix_(tnp.array([0, 2]), tnp.array([1, 3]))]
    Array([[ 1,  3],
           [ 9, 11]], dtype=int32)
    """
    arrays = [operand(a, "ix_") for a in args]
    results = []
    for i, a in enumerate(arrays):
        if a.dtype is dtypes.bool_:
            (a,) = nonzero(a)
        results.append(reshape(a, tuple([a.size if j == i else 1 for j in range(len(arrays))])))
    return tuple(results)


# Shapes that depend on values


def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """The positions of the elements that are not 0, one int32 array for each axis.

    Under jit `size` is needed: positions beyond it are left out, and places left over get `fill_value` (0).

    >>> tnp.nonzero(tnp.array([[0, 3], [4, 0]]))
    (Array([0, 1], dtype=int32), Array([1, 0], dtype=int32))
    >>> tnp.nonzero(tnp.array([0, 5, 0, 7]), size=3, fill_value=-1)
    (Array([ 1,  3, -1], dtype=int32),)
    """
    x = number(a, "nonzero")
    if x.ndim == 0:
        raise ValueError(f"nonzero of a scalar; use atleast_1d first{at_user()}")
    if size is None:
        attempt = "find its elements that are not 0 (the result's size would depend on them: give `size`)"
        known = x._concrete(attempt, ConcretizationError)
        return tuple([wrap(positions.astype(np.int32)) for positions in np.nonzero(known)])
    from .cumulative import cumsum
    from .reductions import sum

    holds = reshape(x if x.dtype is dtypes.bool_ else not_equal(x, 0), (x.size,))
    total = x.size
    count = sum(holds, dtype=dtypes.int32)
    place = where(holds, subtract(cumsum(cast(holds, dtypes.int32)), 1), size)
    flat = AtIndex(full_of(0, dtypes.int32, (size,)), place).set(iota(dtypes.int32, (total,), 0), mode="drop")
    filled = less(iota(dtypes.int32, (size,), 0), count)
    fills = (
        fill_value
        if isinstance(fill_value, (tuple, list))
        else (0 if fill_value is None else fill_value,) * x.ndim
    )
    axes = unravel_index(flat, x.shape)
    return tuple(
        [where(filled, positions, cast(f, dtypes.int32)) for positions, f in zip(axes, fills, strict=True)]
    )


def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The positions of the elements that are not 0, one row for each; `size` as for `nonzero`.

    >>> tnp.argwhere(tnp.array([[0, 3], [4, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    x = operand(a, "argwhere")
    if x.ndim == 0:
        count = nonzero(reshape(x, (1,)), size=size)[0].shape[0]
        return full_of(0, dtypes.int32, (count, 0))
    found = nonzero(x, size=size, fill_value=fill_value)
    return concatenate_arrays([reshape(positions, (positions.shape[0], 1)) for positions in found], 1)


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The positions in the raveled array of the elements that are not 0; `size` as for `nonzero`.

    >>> tnp.flatnonzero(tnp.array([[0, 3], [4, 0]]))
    Array([1, 2], dtype=int32)
    """
    x = operand(a, "flatnonzero")
    return nonzero(reshape(x, (x.size,)), size=size, fill_value=fill_value)[0]


def _known(x: Array, what: str) -> np.ndarray[Any, Any]:
    return x._concrete(
        f"{what} it (the result's size would depend on its values: give `size`)", ConcretizationError
    )


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:
    """The slices along an axis for which a 1-d condition holds.

    Under jit `size` is needed: slices beyond it are left out, and places left over get `fill_value`.

    >>> x = tnp.array([[1, 2], [3, 4], [5, 6]])
    >>> tnp.compress(tnp.array([True, False, True]), x, axis=0)
    Array([[1, 2],
           [5, 6]], dtype=int32)
    """
    holds, x = operand(condition, "compress"), operand(a, "compress")
    if holds.ndim != 1:
        raise ValueError(f"compress takes a 1-d condition, not {described(holds)}{at_user()}")
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    if size is None:
        return take(x, np.flatnonzero(_known(holds, "select by")), axis)
    n = x.shape[axis_of(axis, x.ndim, "compress")]
    positions = flatnonzero(holds[:n], size=size, fill_value=n)
    return take(x, positions, axis, mode="fill", fill_value=fill_value)


def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0
) -> Array:
    """The elements for which a condition holds, raveled; `size` as for `compress`.

    >>> x = tnp.array([[1, 2], [3, 4]])
    >>> tnp.extract(x % 2 == 0, x)
    Array([2, 4], dtype=int32)
    >>> tinyfn.jit(lambda x: tnp.extract(x > 1, x, size=4))(x)
    Array([2, 3, 4, 0], dtype=int32)
    """
    holds = operand(condition, "extract")
    return compress(reshape(holds, (holds.size,)), arr, size=size, fill_value=fill_value)


def delete(
    arr: ArrayLike, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False
) -> Array:
    """The array without the slices at positions along an axis, which must be known unless they are said to be unique.

    >>> tnp.delete(tnp.array([10, 11, 12, 13]), 1)
    Array([10, 12, 13], dtype=int32)
    >>> tnp.delete(tnp.array([[1, 2, 3], [4, 5, 6]]), slice(0, 2), axis=1)
    Array([[3],
           [6]], dtype=int32)
    """
    x = operand(arr, "delete")
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    place = axis_of(axis, x.ndim, "delete")
    if assume_unique_indices and isinstance(obj, Array):
        n, count = x.shape[place], obj.size
        gone = full_of(False, dtypes.bool_, (n,))
        gone = AtIndex(gone, reshape(obj, (count,))).set(True)
        kept = flatnonzero(o.invert(gone), size=max(n - count, 0))
        return take(x, kept, place, mode="clip")
    known = np.delete(np.arange(x.shape[place]), np.asarray(obj) if not isinstance(obj, slice) else obj)
    return take(x, known, place)


def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """The array with values put in before known positions along an axis.

    >>> tnp.insert(tnp.array([10, 11, 12]), 1, 99)
    Array([10, 99, 11, 12], dtype=int32)
    >>> tnp.insert(tnp.array([[1, 2], [3, 4]]), 1, tnp.array([8, 9]), axis=1)
    Array([[1, 8, 2],
           [3, 9, 4]], dtype=int32)
    """
    x = operand(arr, "insert")
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    place = axis_of(axis, x.ndim, "insert")
    n = x.shape[place]
    at = np.arange(n)[obj] if isinstance(obj, slice) else np.asarray(obj)
    count = at.size
    new = cast(values, x.dtype)
    if at.ndim == 0 and new.ndim:
        new = (
            move_axis(reshape(new, (1,) * (x.ndim - new.ndim) + new.shape), 0, place)
            if new.ndim <= x.ndim
            else new
        )
        count = new.shape[place]
    new = o.broadcast_to(new, (*x.shape[:place], count, *x.shape[place + 1 :]))
    where_new = np.where(at < 0, at + n, at).reshape(-1)
    order = np.insert(np.arange(n), where_new if at.ndim else int(where_new[0]), n + np.arange(count))
    return take(concatenate_arrays([x, new], place), order, place)
