"""Arrays joined, and arrays split."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..trace.array import Array
from ..trace.errors import summary
from ..trace.index import reshape as reshaped
from .common import (
    ArrayLike,
    at_user,
    axis_of,
    cast,
    concatenate_arrays,
    described,
    integer,
    no_out,
    operand,
    operands,
    promoted,
    sequence,
    slice_axis,
)
from .shapes import atleast_1d, atleast_2d, atleast_3d, expand_dims, ravel, squeeze


def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Array:
    """The arrays one after another along an axis that they have (all raveled, for None), in the dtype that they promote to.

    Raises ValueError where their other axes differ.

    >>> x, y = tnp.array([[1, 2]]), tnp.array([[3.0, 4.0]])
    >>> tnp.concatenate([x, y])
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    >>> tnp.concatenate([x, y], axis=1, dtype=tnp.int32)
    Array([[1, 2, 3, 4]], dtype=int32)
    >>> tnp.concatenate([x, tnp.array(5)[None]], axis=None)
    Array([1, 2, 5], dtype=int32)
    """
    if axis is not None and not isinstance(axis, (int, np.integer)):
        raise TypeError(
            f"concatenate takes a list of arrays, and then an axis, which {summary(axis)} is not{at_user()}: write "
            "concatenate([x, y])"
        )
    xs = sequence(arrays, "concatenate")
    if not xs:
        raise ValueError(f"concatenate needs at least one array{at_user()}")
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    xs = [cast(x, dtype) for x in xs] if dtype is not None else promoted(*xs)
    if any(x.ndim != xs[0].ndim for x in xs):
        raise ValueError(f"concatenate: {_listed(xs)} must have as many axes as one another{at_user()}")
    if xs[0].ndim == 0:
        raise ValueError(f"concatenate: {_listed(xs)} have no axis to be joined along{at_user()}: stack them")
    place = axis_of(axis, xs[0].ndim, "concatenate")
    if any(
        x.shape[:place] + x.shape[place + 1 :] != xs[0].shape[:place] + xs[0].shape[place + 1 :] for x in xs
    ):
        raise ValueError(f"concatenate along axis {place}: the other axes of {_listed(xs)} differ{at_user()}")
    return concatenate_arrays(xs, place)


concat = concatenate


def _listed(xs: Sequence[Array]) -> str:
    return ", ".join(described(x) for x in xs)


def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Array:
    """Arrays of one shape one after another along a new axis; raises ValueError where their shapes differ.

    >>> x, y = tnp.array([1, 2]), tnp.array([3, 4])
    >>> tnp.stack([x, y])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    >>> tnp.stack([x, y], axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    no_out("stack", out)
    xs = sequence(arrays, "stack")
    if not xs:
        raise ValueError(f"stack needs at least one array{at_user()}")
    if any(x.shape != xs[0].shape for x in xs):
        raise ValueError(f"stack: {_listed(xs)} have different shapes{at_user()}")
    return concatenate([expand_dims(x, axis_of(axis, x.ndim + 1, "stack")) for x in xs], axis, dtype)


def vstack(tup: Any, dtype: Any = None) -> Array:
    """Arrays one after another along the first axis; 1-d arrays are rows.

    >>> tnp.vstack([tnp.array([1, 2]), tnp.array([[3, 4], [5, 6]])])
    Array([[1, 2],
           [3, 4],
           [5, 6]], dtype=int32)
    """
    return concatenate([atleast_2d(x) for x in sequence(tup, "vstack")], 0, dtype)


def hstack(tup: Any, dtype: Any = None) -> Array:
    """Arrays one after another along the second axis; 1-d arrays along their only one.

    >>> tnp.hstack([tnp.array([1, 2]), tnp.array([3])])
    Array([1, 2, 3], dtype=int32)
    >>> tnp.hstack([tnp.array([[1], [2]]), tnp.array([[3], [4]])])
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    xs = [atleast_1d(x) for x in sequence(tup, "hstack")]
    return concatenate(xs, 0 if xs and xs[0].ndim == 1 else 1, dtype)


def dstack(tup: Any, dtype: Any = None) -> Array:
    """Arrays one after another along the third axis.

    >>> tnp.dstack([tnp.array([1, 2]), tnp.array([3, 4])])
    Array([[[1, 3],
            [2, 4]]], dtype=int32)
    """
    return concatenate([atleast_3d(x) for x in sequence(tup, "dstack")], 2, dtype)


def column_stack(tup: Any) -> Array:
    """1-d arrays as the columns of a matrix, and matrices side by side.

    >>> tnp.column_stack([tnp.array([1, 2]), tnp.array([[3, 5], [4, 6]])])
    Array([[1, 3, 5],
           [2, 4, 6]], dtype=int32)
    """
    columns = [reshaped(x, (x.size, 1)) if x.ndim < 2 else x for x in sequence(tup, "column_stack")]
    return concatenate(columns, 1)


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """`values` after `arr` along an axis, or both raveled.

    >>> tnp.append(tnp.array([[1, 2]]), tnp.array([[3, 4]]), axis=0)
    Array([[1, 2],
           [3, 4]], dtype=int32)
    >>> tnp.append(tnp.array([[1, 2]]), 3)
    Array([1, 2, 3], dtype=int32)
    """
    return concatenate(operands("append", arr, values), axis)


def _pieces(x: Array, indices_or_sections: Any, axis: int, what: str, even: bool) -> list[Array]:
    place = axis_of(axis, x.ndim, what)
    size = x.shape[place]
    if (
        isinstance(indices_or_sections, (list, tuple, np.ndarray))
        or getattr(indices_or_sections, "ndim", 0) != 0
    ):
        cuts = [slice(None, integer(i, what, "a position")).indices(size)[1] for i in indices_or_sections]
    else:
        count = integer(indices_or_sections, what, "the number of parts")
        if count < 1 or (even and size % count):
            raise ValueError(
                f"{what}: {size} elements along axis {place} do not make {count} equal parts{at_user()}"
            )
        extra = size % count
        cuts = [i * (size // count) + builtins.min(i, extra) for i in range(1, count)]
    ends = [*cuts, size]
    return [
        slice_axis(x, place, begin, builtins.max(begin, end))
        for begin, end in zip([0, *cuts], ends, strict=True)
    ]


def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """The array cut along an axis into a number of equal parts, or before each of the positions given.

    Raises ValueError where the parts would not be equal.

    >>> tnp.split(tnp.arange(6), 3)
    [Array([0, 1], dtype=int32), Array([2, 3], dtype=int32), Array([4, 5], dtype=int32)]
    >>> tnp.split(tnp.arange(6), [1, 4])
    [Array([0], dtype=int32), Array([1, 2, 3], dtype=int32), Array([4, 5], dtype=int32)]
    """
    return _pieces(operand(ary, "split"), indices_or_sections, axis, "split", True)


def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Like `split`, but the first parts may be longer by one element than the others.

    >>> tnp.array_split(tnp.arange(5), 2)
    [Array([0, 1, 2], dtype=int32), Array([3, 4], dtype=int32)]
    """
    return _pieces(operand(ary, "array_split"), indices_or_sections, axis, "array_split", False)


def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the first axis.

    >>> [part.shape for part in tnp.vsplit(tnp.zeros((4, 3)), 2)]
    [(2, 3), (2, 3)]
    """
    return split(ary, indices_or_sections, 0)


def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the second axis, or the only one.

    >>> [part.shape for part in tnp.hsplit(tnp.zeros((2, 6)), [1, 3])]
    [(2, 1), (2, 2), (2, 3)]
    """
    return split(ary, indices_or_sections, 0 if operand(ary, "hsplit").ndim == 1 else 1)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis, without it.

    >>> tnp.unstack(tnp.array([[1, 2], [3, 4]]), axis=1)
    (Array([1, 3], dtype=int32), Array([2, 4], dtype=int32))
    """
    array = operand(x, "unstack")
    place = axis_of(axis, array.ndim, "unstack")
    return tuple([squeeze(slice_axis(array, place, i, i + 1), place) for i in range(array.shape[place])])
