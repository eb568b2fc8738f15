"""Reading and writing at positions that are themselves data."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators, prims
from ..trace.array import Array
from ..trace.errors import user_line
from .arguments import (
    ArrayLike,
    Sizes,
    all_axes,
    applied,
    as_shape,
    described,
    distinct_axes,
    of_one_dtype,
    one_axis,
)
from .elementwise import add, lt, min, select
from .movement import concatenate, expand_dims, full, reshape, slice_in_dim, squeeze

Flags: TypeAlias = bool | Sequence[bool]


def _positions(
    name: str, x: Array, starts: Sequence[ArrayLike] | Array, axes: Sequence[int], from_end: Flags
) -> Array:
    """The starts as one array of integers, with negative ones counted from the end of their axes where `from_end` says so."""
    if isinstance(starts, (Array, np.ndarray)) and starts.ndim == 1:
        given = [reshape(slice_in_dim(starts, i, i + 1), ()) for i in range(starts.shape[0])]
    else:
        given = [operators.operand(start) for start in starts]
    if len(given) != len(axes):
        raise ValueError(
            f"lax.{name} of {described([x])} needs {len(axes)} start indices, not {len(given)}; at "
            f"{user_line()}"
        )
    if builtins.any(start.shape or not dtypes.is_integer(start.dtype) for start in given):
        raise TypeError(
            f"lax.{name} needs integer scalars as start indices, not {described(given)}; at {user_line()}"
        )
    if not given:
        return full((0,), 0, dtypes.int32)
    # Wide enough for the size to be added.
    wide = (
        dtypes.int32
        if builtins.all(start.dtype.itemsize < 4 or start.dtype is dtypes.int32 for start in given)
        else dtypes.int64
    )
    wraps = [from_end] * len(given) if isinstance(from_end, bool) else list(from_end)
    if len(wraps) != len(given):
        raise ValueError(
            f"lax.{name} of {described([x])}: allow_negative_indices needs a bool, or {len(given)}, not {len(wraps)}; at "
            f"{user_line()}"
        )
    wrapped = []
    for start, axis, wrap in zip(given, axes, wraps, strict=True):
        # What int64 can't hold is beyond the end all the same.
        at = min(start, operators.scalar(1 << 62, start.dtype)) if start.dtype is dtypes.uint64 else start
        at = operators.to_dtype(at, wide)
        if wrap and dtypes.kind(start.dtype) == "signed":
            at = select(lt(at, 0), add(at, operators.scalar(x.shape[axis], wide)), at)
        wrapped.append(reshape(at, (1,)))
    return concatenate(wrapped, 0)


def _read(
    name: str,
    x: Array,
    starts: Sequence[ArrayLike] | Array,
    axes: tuple[int, ...],
    sizes: Sequence[Any],
    from_end: Flags,
) -> Array:
    at = _positions(name, x, starts, axes, from_end)
    if len(sizes) != x.ndim or builtins.any(
        isinstance(n, int) and isinstance(m, int) and not 0 <= n <= m
        for n, m in zip(sizes, x.shape, strict=True)
    ):
        raise ValueError(
            f"lax.{name} of {described([x])}: a window of the sizes {tuple(sizes)} does not fit into it; at {user_line()}"
        )
    return applied(prims.gather, x, at, axes=axes, sizes=tuple(sizes), batch_dims=0, mode="clip")


def _write(
    name: str, operand: ArrayLike, update: ArrayLike, starts: Any, axes: Sequence[int] | None, from_end: Flags
) -> Array:
    x, values = of_one_dtype(name, operand, update)
    if values.ndim != x.ndim or not builtins.all(n <= m for n, m in zip(values.shape, x.shape, strict=True)):
        raise TypeError(
            f"lax.{name}: the update {described([values])} does not fit into {described([x])}; at "
            f"{user_line()}"
        )
    axes = all_axes(x) if axes is None else distinct_axes(name, axes, x.ndim)
    at = _positions(name, x, starts, axes, from_end)
    params = {"axes": axes, "sizes": values.shape, "batch_dims": 0, "mode": "clip", "kind": "set"}
    return applied(prims.scatter, x, at, values, **params)


def dynamic_slice(
    operand: ArrayLike,
    start_indices: Sequence[ArrayLike] | Array,
    slice_sizes: Sizes,
    *,
    allow_negative_indices: Flags = True,
) -> Array:
    """The window of fixed sizes that begins at integers that may be traced; it is moved so that it is within
    the operand.

    Negative starts count from the end of their axes, unless `allow_negative_indices` (a bool, or one per axis) is false.

    >>> x = tnp.arange(12).reshape(3, 4)
    >>> lax.dynamic_slice(x, (1, 0), (2, 3))
    Array([[ 4,  5,  6],
           [ 8,  9, 10]], dtype=int32)
    >>> lax.dynamic_slice(x, (2, 3), (2, 3))
    Array([[ 5,  6,  7],
           [ 9, 10, 11]], dtype=int32)
    >>> lax.dynamic_slice(x, (0, -2), (1, 2))
    Array([[2, 3]], dtype=int32)
    """
    x = operators.operand(operand)
    return _read(
        "dynamic_slice", x, start_indices, all_axes(x), as_shape(slice_sizes), allow_negative_indices
    )


def dynamic_slice_in_dim(
    operand: ArrayLike,
    start_index: ArrayLike,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """`dynamic_slice` along one axis.

    >>> lax.dynamic_slice_in_dim(tnp.arange(6).reshape(2, 3), 1, 2, axis=1)
    Array([[1, 2],
           [4, 5]], dtype=int32)
    """
    x = operators.operand(operand)
    axis = one_axis("dynamic_slice_in_dim", axis, x.ndim)
    sizes = [*x.shape[:axis], slice_size, *x.shape[axis + 1 :]]
    return _read("dynamic_slice_in_dim", x, [start_index], (axis,), sizes, allow_negative_indices)


def dynamic_index_in_dim(
    operand: ArrayLike,
    index: ArrayLike,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The slice at an index, which may be traced, along an axis, which keeps the size 1 unless `keepdims` is
    false.

    >>> x = tnp.arange(6).reshape(2, 3)
    >>> lax.dynamic_index_in_dim(x, 2, axis=1)
    Array([[2],
           [5]], dtype=int32)
    >>> lax.dynamic_index_in_dim(x, -1, keepdims=False)
    Array([3, 4, 5], dtype=int32)
    """
    result = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return result if keepdims else squeeze(result, (axis,))


def dynamic_update_slice(
    operand: ArrayLike,
    update: ArrayLike,
    start_indices: Sequence[ArrayLike] | Array,
    *,
    allow_negative_indices: Flags = True,
) -> Array:
    """The operand with a window replaced by the update (as many axes); the window lies as in
    `dynamic_slice`.

    >>> lax.dynamic_update_slice(tnp.zeros((2, 4)), tnp.array([[1.0, 2.0]]), (1, 1))
    Array([[0., 0., 0., 0.],
           [0., 1., 2., 0.]], dtype=float32)
    >>> lax.dynamic_update_slice(tnp.zeros(4), tnp.array([1.0, 2.0]), (3,))
    Array([0., 0., 1., 2.], dtype=float32)
    """
    return _write("dynamic_update_slice", operand, update, start_indices, None, allow_negative_indices)


def dynamic_update_slice_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """`dynamic_update_slice` along one axis.

    >>> lax.dynamic_update_slice_in_dim(tnp.zeros((2, 3)), tnp.ones((2, 1)), 1, axis=1)
    Array([[0., 1., 0.],
           [0., 1., 0.]], dtype=float32)
    """
    name = "dynamic_update_slice_in_dim"
    return _write(name, operand, update, [start_index], [axis], allow_negative_indices)


def dynamic_update_index_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The operand with the slice at an index replaced by the update, which may lack that axis.

    >>> lax.dynamic_update_index_in_dim(tnp.zeros((2, 3)), tnp.array([1.0, 2.0]), 1, axis=1)
    Array([[0., 1., 0.],
           [0., 2., 0.]], dtype=float32)
    >>> lax.dynamic_update_index_in_dim(tnp.zeros(3), 5.0, -1, axis=0)
    Array([0., 0., 5.], dtype=float32)
    """
    x, values = operators.operand(operand), operators.operand(update)
    axis = one_axis("dynamic_update_index_in_dim", axis, x.ndim)
    if values.ndim == x.ndim - 1:
        values = expand_dims(values, (axis,))
    return _write("dynamic_update_index_in_dim", x, values, [index], [axis], allow_negative_indices)


def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """The slice at a Python integer along an axis; raises IndexError beyond the ends.

    >>> x = tnp.arange(6).reshape(2, 3)
    >>> lax.index_in_dim(x, -1, axis=1)
    Array([[2],
           [5]], dtype=int32)
    >>> lax.index_in_dim(x, 1, keepdims=False)
    Array([3, 4, 5], dtype=int32)
    """
    x = operators.operand(operand)
    axis = one_axis("index_in_dim", axis, x.ndim)
    index, size = operator.index(index), x.shape[axis]
    if not -size <= index < size:
        raise IndexError(
            f"index {index} is out of bounds for axis {axis} of {described([x])}; at {user_line()}"
        )
    result = slice_in_dim(x, index % size, index % size + 1, axis=axis)
    return result if keepdims else squeeze(result, (axis,))


def index_take(src: ArrayLike, idxs: Sequence[ArrayLike], axes: Sequence[int]) -> Array:
    """The slices of size 1 of `src`, without these axes, at positions idxs[i] along axes[i]; the first axis enumerates them.

    The idxs are integers [n], and negative ones count from the end; what is beyond is moved within `src`.

    >>> lax.index_take(tnp.arange(6).reshape(2, 3), [tnp.array([0, 1]), tnp.array([2, -1])], axes=(0, 1))
    Array([2, 5], dtype=int32)
    """
    x = operators.operand(src)
    places = distinct_axes("index_take", axes, x.ndim)
    given = of_one_dtype("index_take", *idxs)
    if len(given) != len(places) or builtins.any(i.ndim != 1 or i.shape != given[0].shape for i in given):
        raise ValueError(
            f"lax.index_take of {described([x])} along axes {places} needs as many integer vectors of one length, not "
            f"{described(given)}; at {user_line()}"
        )
    wrapped = [select(lt(i, 0), add(i, x.shape[axis]), i) for i, axis in zip(given, places, strict=True)]
    at = concatenate([expand_dims(i, (1,)) for i in wrapped], 1)
    sizes = tuple([1 if axis in places else n for axis, n in enumerate(x.shape)])
    rows = applied(prims.gather, x, at, axes=places, sizes=sizes, batch_dims=0, mode="clip")
    return squeeze(rows, [axis + 1 for axis in places])
