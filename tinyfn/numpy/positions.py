"""Positions as numbers of the raveled array or of each axis, and the functions whose result's shape depends on values."""

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
from ..trace.index import reshape
from ..trace.indexing import AtIndex
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
    cast,
    concatenate_arrays,
    described,
    full_of,
    integer,
    iota,
    no_out,
    number,
    operand,
)
from .cumulative import cumsum
from .indexing import take
from .logic import (
    less,
    not_equal,
    where,
)
from .reductions import sum as sum_


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
    multi_index: Sequence[ArrayLike],
    dims: Sequence[int],
    mode: str | Sequence[str] = "raise",
    order: str = "C",
) -> Array:
    """One array of positions for each axis as positions in the raveled array.

    Positions out of bounds raise ValueError in mode "raise", which must know their values; "clip" and "wrap" move them;
    a tuple has a mode for each axis.

    >>> tnp.ravel_multi_index((tnp.array([0, 1]), tnp.array([2, 1])), (2, 3))
    Array([2, 4], dtype=int32)
    >>> tnp.ravel_multi_index((tnp.array([0, 5]), tnp.array([2, 1])), (2, 3), mode="clip")
    Array([2, 4], dtype=int32)
    """
    arrays = [_positions(i, "ravel_multi_index") for i in multi_index]
    if len(arrays) != len(dims):
        raise ValueError(f"ravel_multi_index: {len(arrays)} positions for {len(dims)} axes{at_user()}")
    modes = (mode,) * len(arrays) if isinstance(mode, str) else tuple(mode)
    if len(modes) != len(arrays) or not {"raise", "clip", "wrap"}.issuperset(modes):
        raise ValueError(
            f"ravel_multi_index: mode must be 'raise', 'clip' or 'wrap', or one for each axis, not {mode!r}{at_user()}"
        )
    if order not in ("C", "F"):
        raise ValueError(f"ravel_multi_index: order must be 'C' or 'F', not {order!r}{at_user()}")
    for axis, (a, n, how) in enumerate(zip(arrays, dims, modes, strict=True)):
        if how == "raise":
            attempt = "check that positions exist (use mode='clip' or 'wrap')"
            known = a._concrete(attempt, ConcretizationError)
            if ((known < 0) | (known >= n)).any():
                raise ValueError(
                    f"ravel_multi_index: a position is out of bounds for axis {axis} of size {n}{at_user()}"
                )
    axes = list(zip(arrays, dims, modes, strict=True))
    flat: Any = 0
    for a, n, how in axes if order == "C" else reversed(axes):
        if how == "wrap":
            a = o.remainder(a, n)
        elif how == "clip":
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
        if a.ndim != 1:
            raise ValueError(f"ix_ takes 1-d arrays, not {described(a)}{at_user()}")
        if a.dtype is dtypes.bool_:
            (a,) = nonzero(a)
        elif a.size == 0:
            a = cast(a, dtypes.int32)  # as `array([])` is of floats
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
    holds = reshape(x if x.dtype is dtypes.bool_ else not_equal(x, 0), (x.size,))
    total = x.size
    size = integer(size, "nonzero", "size")
    if size < 0:
        raise ValueError(f"nonzero: size={size} must be 0 or more{at_user()}")
    count = sum_(holds, dtype=dtypes.int32)
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
    no_out("compress", out)
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
    return take(x, np.delete(np.arange(x.shape[place]), _places(obj, x.shape[place], "delete")), place)


def _places(obj: Any, n: int, what: str) -> Any:
    """A slice, or known positions among n elements (or a mask of them, or, to insert before, the end) as a NumPy array."""
    if isinstance(obj, slice):
        return obj
    places = np.asarray(obj)
    if places.size == 0:
        places = places.astype(np.int64)
    if places.dtype.kind == "b":
        if places.shape != (n,):
            raise ValueError(f"{what}: a mask of shape {places.shape} for {n} elements{at_user()}")
        places = np.flatnonzero(places)
    if places.dtype.kind not in "iu":
        raise TypeError(f"{what}: positions must be integers, not {places.dtype.name}{at_user()}")
    outside = (places < -n) | (places >= n + (what == "insert"))
    if outside.any():
        raise IndexError(
            f"{what}: position {places[outside][0]} is out of bounds for {n} elements{at_user()}"
        )
    return places


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
    at = np.arange(n)[obj] if isinstance(obj, slice) else _places(obj, n, "insert")
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
