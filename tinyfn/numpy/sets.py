"""The distinct elements of arrays, and arrays as sets. Imported when one of them is first used."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array, wrap
from ..trace.errors import ConcretizationError
from ..trace.index import reshape
from ..trace.indexing import AtIndex, getitem
from ..trace.prims.movement import move_axis
from ..trace.sint import is_symbolic
from .arithmetic import subtract
from .common import (
    ArrayLike,
    axis_of,
    bind,
    cast,
    concatenate_arrays,
    full_of,
    iota,
    number,
    operands,
    slice_axis,
)
from .cumulative import cumsum
from .indexing import take
from .logic import bitwise_and, equal, isnan, logical_not, not_equal, where
from .ordering import argsort, lexsort, searchsorted, sort
from .reductions import any as any_
from .shapes import matrix_transpose


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Whether each element is among the others, in the shape of the elements.

    >>> tnp.isin(tnp.array([[1, 2], [3, 4]]), tnp.array([2, 4]))
    Array([[False,  True],
           [False,  True]], dtype=bool)
    """
    x, others = operands("isin", element, test_elements)
    others = reshape(others, (others.size,))
    if dtypes.kind(x.dtype) == "complex" or is_symbolic(x.size * others.size) or x.size * others.size < 2**20:
        found = any_(equal(reshape(x, (*x.shape, 1)), others), -1)
    else:  # a table of all pairs would be large
        ordered = sort(others)
        found = equal(x, take(ordered, searchsorted(ordered, x), mode="clip"))
    return logical_not(found) if invert else found


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Any:
    """The distinct elements (or slices along an axis) in order, and as asked where each comes first, which of
    them each element is, and how often they occur, as int32.

    Under jit `size` is needed: more than that many are left out, and places left over get `fill_value` (the least
    element), the position of the first element and the count 0. NaNs are one, or each its own without `equal_nan`.

    >>> tnp.unique(tnp.array([3, 1, 3]), return_index=True, return_counts=True)
    (Array([1, 3], dtype=int32), Array([1, 0], dtype=int32), Array([1, 2], dtype=int32))
    >>> tnp.unique(tnp.array([[1, 2], [3, 4], [1, 2]]), axis=0)
    Array([[1, 2],
           [3, 4]], dtype=int32)
    >>> tnp.unique(tnp.array([3, 1, 3]), size=4, fill_value=-1)
    Array([ 1,  3, -1, -1], dtype=int32)
    >>> values, inverse = tnp.unique(tnp.array([3, 1, 3]), return_inverse=True)
    >>> values[inverse]
    Array([3, 1, 3], dtype=int32)
    """
    x = number(ar, "unique")
    if size is not None:
        found: Any = _unique_of_size(x, axis, equal_nan, size, fill_value)
        chosen = [found[0], *[f for f, asked in zip(found[1:], (return_index, return_inverse, return_counts), strict=True)
                              if asked]]  # fmt: skip
        return chosen[0] if len(chosen) == 1 else tuple(chosen)
    attempt = "take its distinct elements (the result's size would depend on its values: give `size`)"
    value = x._concrete(attempt, ConcretizationError)
    if type(x) is not Array:  # differentiated: elements are taken from it, so that derivatives pass
        first, *others = _positions(value, return_inverse, return_counts, axis, equal_nan)
        values = take(x, first, axis)
        chosen = [values, *([first] if return_index else []), *others]
        return chosen[0] if len(chosen) == 1 else tuple(chosen)
    found = np.unique(  # type: ignore[call-overload]
        value, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan
    )
    if not isinstance(found, tuple):
        return wrap(np.asarray(found))
    return tuple([wrap(np.asarray(found[0])), *[wrap(np.asarray(f).astype(np.int32)) for f in found[1:]]])


def _positions(value: Any, inverse: bool, counts: bool, axis: int | None, equal_nan: bool) -> list[Array]:
    """Where each distinct element comes first, and as asked which of them each element is, and how often they occur."""
    found = np.unique(value, True, inverse, counts, axis, equal_nan=equal_nan)  # type: ignore[call-overload]
    return [wrap(np.asarray(f).astype(np.int32)) for f in found[1:]]


def _unique_of_size(
    x: Array, axis: int | None, equal_nan: bool, size: int, fill_value: Any
) -> tuple[Array, Array, Array, Array]:
    """The first `size` distinct elements (slices along an axis), where each comes first, which each is, and the counts."""
    # A row for each element or slice; rows are put in order by their first column, then by the second, ...
    if axis is None:
        rows, shape = reshape(x, (x.size, 1)), ()
    else:
        moved = move_axis(x, axis_of(axis, x.ndim, "unique"), 0)
        shape = moved.shape[1:]
        rows = reshape(moved, (moved.shape[0], prod(shape)))
    n, columns = rows.shape

    def in_place(values: Array) -> Array:
        found = reshape(values, (size, *shape))
        return found if axis is None else move_axis(found, 0, axis_of(axis, x.ndim, "unique"))

    if n == 0:
        none = full_of(0, dtypes.int32, (size,))
        values = o.broadcast_to(cast(0 if fill_value is None else fill_value, x.dtype), (size, columns))
        return in_place(values), none, full_of(0, dtypes.int32, x.shape if axis is None else (0,)), none
    if columns == 1:
        order = argsort(reshape(rows, (n,)))
    elif columns:
        order = lexsort(bind(prims.flip, (matrix_transpose(rows),), {"axes": (0,)}))
    else:
        order = iota(dtypes.int32, (n,), 0)
    ordered = take(rows, order, 0, mode="clip")
    later, earlier = slice_axis(ordered, 0, 1, n), slice_axis(ordered, 0, 0, n - 1)
    differs = not_equal(later, earlier)
    if equal_nan and dtypes.is_inexact(x.dtype):
        differs = bitwise_and(differs, logical_not(bitwise_and(isnan(later), isnan(earlier))))
    first = concatenate_arrays([full_of(True, dtypes.bool_, (1,)), any_(differs, 1)], 0)
    group = subtract(cumsum(cast(first, dtypes.int32)), 1)
    place = where(first, group, size)
    fill = getitem(ordered, 0) if fill_value is None else cast(fill_value, x.dtype)
    values = AtIndex(o.broadcast_to(fill, (size, columns)), place).set(ordered, mode="drop")
    start = o.broadcast_to(getitem(order, 0), (size,))
    positions = AtIndex(start, place).set(order, mode="drop")
    counts = AtIndex(full_of(0, dtypes.int32, (size,)), group).add(1, mode="drop")
    inverse = AtIndex(full_of(0, dtypes.int32, (n,)), order).set(group)
    return in_place(values), positions, reshape(inverse, x.shape if axis is None else (n,)), counts


class UniqueAll(NamedTuple):
    """The results of `unique_all`.

    >>> tnp.unique_all(tnp.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """The results of `unique_counts`.

    >>> tnp.unique_counts(tnp.array([3, 1, 3])).values
    Array([1, 3], dtype=int32)
    """

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The results of `unique_inverse`.

    >>> tnp.unique_inverse(tnp.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int32)
    """

    values: Array
    inverse_indices: Array


def unique_all(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> UniqueAll:
    """The distinct elements in order (each NaN is one of its own), where each comes first, which of them each
    element of x is, and how often each occurs; `size` as for `unique`.

    >>> values, indices, inverse, counts = tnp.unique_all(tnp.array([3, 1, 3]))
    >>> values, indices
    (Array([1, 3], dtype=int32), Array([1, 0], dtype=int32))
    >>> inverse, counts
    (Array([1, 0, 1], dtype=int32), Array([1, 2], dtype=int32))
    """
    return UniqueAll(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


def unique_counts(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> UniqueCounts:
    """The distinct elements in order (each NaN is one of its own), and how often each occurs; `size` as for `unique`.

    >>> tnp.unique_counts(tnp.array([3, 1, 3]))
    UniqueCounts(values=Array([1, 3], dtype=int32), counts=Array([1, 2], dtype=int32))
    """
    return UniqueCounts(*unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_inverse(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> UniqueInverse:
    """The distinct elements in order (each NaN is one of its own), and which of them each element of x is, in x's shape;
    `size` as for `unique`.

    >>> tnp.unique_inverse(tnp.array([[3, 1], [1, 1]]))
    UniqueInverse(values=Array([1, 3], dtype=int32), inverse_indices=Array([[1, 0],
           [0, 0]], dtype=int32))
    """
    return UniqueInverse(*unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_values(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The distinct elements in order, each NaN being one of its own; `size` as for `unique`.

    >>> tnp.unique_values(tnp.array([2.0, np.nan, 2.0, np.nan]))
    Array([ 2., nan, nan], dtype=float32)
    """
    result: Array = unique(x, equal_nan=False, size=size, fill_value=fill_value)
    return result


def _raveled(what: str, *arrays: ArrayLike) -> list[Array]:
    return [reshape(x, (x.size,)) for x in operands(what, *arrays)]


def union1d(ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The distinct elements of both, in order; `size` as for `unique`.

    >>> tnp.union1d(tnp.array([3, 1]), tnp.array([[2, 3]]))
    Array([1, 2, 3], dtype=int32)
    """
    both = concatenate_arrays(_raveled("union1d", ar1, ar2), 0)
    result: Array = unique(both, size=size, fill_value=fill_value)
    return result


def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The distinct elements that are in both, in order, and with `return_indices` where each comes first in either.

    `size` as for `unique`; under jit it is needed. Places left over have the index after the last one.

    >>> tnp.intersect1d(tnp.array([3, 1, 4]), tnp.array([4, 3, 3]))
    Array([3, 4], dtype=int32)
    >>> tnp.intersect1d(tnp.array([3, 1, 4]), tnp.array([4, 3, 3]), return_indices=True, size=3, fill_value=-1)
    (Array([ 3,  4, -1], dtype=int32), Array([0, 2, 3], dtype=int32), Array([1, 0, 3], dtype=int32))
    """
    x, y = _raveled("intersect1d", ar1, ar2)
    if not return_indices:
        return _chosen(x, isin(x, y), size, fill_value)
    if size is not None:
        values, places = _first(x, isin(x, y), size, fill_value)
        order = argsort(y)
        other = take(order, searchsorted(take(y, order, mode="clip"), values), mode="clip")
        return values, places, where(equal(places, x.shape[0]), y.shape[0], other)
    attempt = "intersect it (the result's size would depend on its values)"
    known = [v._concrete(attempt, ConcretizationError) for v in (x, y)]
    found = np.intersect1d(known[0], known[1], assume_unique, return_indices=True)
    in_x, in_y = (wrap(places.astype(np.int32)) for places in found[1:])
    return take(x, in_x), in_x, in_y


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array:
    """The distinct elements of ar1 that are not in ar2, in order; `size` as for `unique`.

    >>> tnp.setdiff1d(tnp.array([3, 1, 4, 1]), tnp.array([4]))
    Array([1, 3], dtype=int32)
    >>> tnp.setdiff1d(tnp.array([3, 1, 4, 1]), tnp.array([4]), size=3)
    Array([1, 3, 1], dtype=int32)
    """
    x, y = _raveled("setdiff1d", ar1, ar2)
    return _chosen(x, isin(x, y, invert=True), size, fill_value)


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array:
    """The distinct elements that are in one of both alone, in order; `size` as for `unique`.

    >>> tnp.setxor1d(tnp.array([3, 1, 4]), tnp.array([4, 5]))
    Array([1, 3, 5], dtype=int32)
    """
    x, y = _raveled("setxor1d", ar1, ar2)
    both = concatenate_arrays([x, y], 0)
    alone = concatenate_arrays([isin(x, y, invert=True), isin(y, x, invert=True)], 0)
    return _chosen(both, alone, size, fill_value)


def _chosen(x: Array, mask: Array, size: int | None, fill_value: Any) -> Array:
    """The distinct elements where the mask holds."""
    if size is None:
        result: Array = unique(getitem(x, mask))
        return result
    return _first(x, mask, size, fill_value)[0]


def _first(x: Array, mask: Array, size: int, fill_value: Any) -> tuple[Array, Array]:
    """The distinct elements where the mask holds, and where each comes first (x's size for places left over)."""
    n = x.shape[0]
    places = full_of(n, dtypes.int32, (size,))
    if n == 0:
        return o.broadcast_to(cast(0 if fill_value is None else fill_value, x.dtype), (size,)), places
    order = argsort(x)
    ordered, counted = take(x, order, mode="clip"), take(mask, order, mode="clip")
    later, earlier = slice_axis(ordered, 0, 1, n), slice_axis(ordered, 0, 0, n - 1)
    differs = concatenate_arrays([full_of(True, dtypes.bool_, (1,)), not_equal(later, earlier)], 0)
    # Whether an element counts is the same for equal ones, so the first of each kind stands for all.
    first = bitwise_and(differs, counted)
    place = where(first, subtract(cumsum(cast(first, dtypes.int32)), 1), size)
    least = take(ordered, take(argsort(where(first, 0, 1)), 0))
    fill = least if fill_value is None else cast(fill_value, x.dtype)
    values = AtIndex(o.broadcast_to(fill, (size,)), place).set(ordered, mode="drop")
    return values, AtIndex(places, place).set(order, mode="drop")


__all__ = [
    "UniqueAll", "UniqueCounts", "UniqueInverse", "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique",
    "unique_all", "unique_counts", "unique_inverse", "unique_values",
]  # fmt: skip
