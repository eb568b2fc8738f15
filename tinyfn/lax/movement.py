"""Making arrays, and moving elements without computing on them."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from math import prod
from typing import Any

from ..trace import dtype as dtypes
from ..trace import operators, prims
from ..trace.array import Array, is_scalar
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
from .elementwise import convert_element_type


def full(shape: Sizes | int, fill_value: ArrayLike, dtype: Any = None) -> Array:
    """An array of one value everywhere, of a dtype (that of the value if it is None).

    >>> lax.full((2, 3), 7)
    Array([[7, 7, 7],
           [7, 7, 7]], dtype=int32)
    >>> lax.full((2,), 0.0, dtype="bfloat16").dtype
    dtype(bfloat16)
    """
    shape = as_shape(shape)
    if is_scalar(fill_value) and dtype is not None:
        if isinstance(fill_value, float) and not dtypes.is_inexact(dtypes.canonical(dtype)):
            value = convert_element_type(fill_value, dtype)
        else:
            value = operators.scalar(fill_value, dtypes.canonical(dtype))
    else:
        value = operators.operand(fill_value)
        value = value if dtype is None else convert_element_type(value, dtype)
    if value.shape:
        raise TypeError(
            f"lax.full needs a scalar, not {described([value])}; at {user_line()}: use broadcast_in_dim"
        )
    return operators.broadcast_to(value, shape)


def full_like(x: ArrayLike, fill_value: ArrayLike, dtype: Any = None, shape: Sizes | None = None) -> Array:
    """An array of one value everywhere, of x's shape and dtype where none are given.

    >>> lax.full_like(tnp.array([1, 2, 3]), 2.7)
    Array([2, 2, 2], dtype=int32)
    >>> lax.full_like(tnp.array([1, 2, 3]), 1, dtype=bool, shape=(2,))
    Array([ True,  True], dtype=bool)
    """
    x = operators.operand(x)
    return full(x.shape if shape is None else shape, fill_value, x.dtype if dtype is None else dtype)


def iota(dtype: Any, size: int) -> Array:
    """The numbers 0, 1, ..., size - 1.

    >>> lax.iota("float32", 3)
    Array([0., 1., 2.], dtype=float32)
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: Any, shape: Sizes, dimension: int) -> Array:
    """The numbers 0, 1, 2, ... along an axis, the same along the other axes.

    >>> lax.broadcasted_iota("int32", (2, 3), 0)
    Array([[0, 0, 0],
           [1, 1, 1]], dtype=int32)
    """
    shape = as_shape(shape)
    axis = one_axis("broadcasted_iota", dimension, len(shape))
    return applied(prims.iota, dtype=dtypes.canonical(dtype), shape=shape, axis=axis)


def reshape(operand: ArrayLike, new_sizes: Sizes | int, dimensions: Sequence[int] | None = None) -> Array:
    """The same elements in another shape, read in row-major order, or in that of the axes `dimensions`; -1
    fits one size.

    >>> x = tnp.array([[1, 2, 3], [4, 5, 6]])
    >>> lax.reshape(x, (3, 2))
    Array([[1, 2],
           [3, 4],
           [5, 6]], dtype=int32)
    >>> lax.reshape(x, (3, 2), dimensions=(1, 0))
    Array([[1, 4],
           [2, 5],
           [3, 6]], dtype=int32)
    """
    x = operators.operand(operand)
    if dimensions is not None:
        x = transpose(x, dimensions)
    shape = as_shape(new_sizes)
    if builtins.any(isinstance(n, int) and n == -1 for n in shape):
        known = prod([n for n in shape if not (isinstance(n, int) and n == -1)])
        if shape.count(-1) > 1 or not known or x.size % known:
            raise ValueError(
                f"lax.reshape of {described([x])} to {shape}: the -1 fits no one size; at {user_line()}"
            )
        shape = tuple([x.size // known if isinstance(n, int) and n == -1 else n for n in shape])
    return x if shape == x.shape else applied(prims.reshape, x, shape=shape)


def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """Axis i of the result is axis permutation[i] of the operand.

    >>> lax.transpose(tnp.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    x = operators.operand(operand)
    order = distinct_axes("transpose", permutation, x.ndim)
    return x if order == all_axes(x) else applied(prims.transpose, x, permutation=order)


def broadcast(operand: ArrayLike, sizes: Sizes) -> Array:
    """The operand repeated along new leading axes.

    >>> lax.broadcast(tnp.array([1, 2]), (3,))
    Array([[1, 2],
           [1, 2],
           [1, 2]], dtype=int32)
    """
    x = operators.operand(operand)
    return operators.broadcast_to(x, (*as_shape(sizes), *x.shape))


def broadcast_in_dim(operand: ArrayLike, shape: Sizes, broadcast_dimensions: Sequence[int]) -> Array:
    """Axis i of the operand becomes axis broadcast_dimensions[i] (in rising order), repeated if its size is
    1.

    >>> lax.broadcast_in_dim(tnp.array([1, 2]), (2, 3), (0,))
    Array([[1, 1, 1],
           [2, 2, 2]], dtype=int32)
    >>> lax.broadcast_in_dim(tnp.ones((1, 4)), (2, 5, 4), (0, 2)).shape
    (2, 5, 4)
    """
    shape = as_shape(shape)
    axes = distinct_axes("broadcast_in_dim", broadcast_dimensions, len(shape))
    return applied(prims.broadcast, operators.operand(operand), shape=shape, axes=axes)


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """x with leading axes of size 1, so that it has `rank` axes.

    >>> lax.broadcast_to_rank(tnp.ones((2, 3)), 4).shape
    (1, 1, 2, 3)
    """
    x = operators.operand(x)
    return reshape(x, (1,) * (rank - x.ndim) + x.shape)


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """The array with axes of size 1 at the given places of the result.

    >>> lax.expand_dims(tnp.ones((2, 3)), (0, 2)).shape, lax.expand_dims(tnp.ones((2, 3)), (-1,)).shape
    ((1, 2, 1, 3), (2, 3, 1))
    """
    x = operators.operand(array)
    new = distinct_axes("expand_dims", dimensions, x.ndim + len(dimensions))
    old = iter(x.shape)
    return reshape(x, [1 if axis in new else next(old) for axis in range(x.ndim + len(new))])


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """The array without the given axes, which must have size 1.

    >>> lax.squeeze(tnp.ones((1, 2, 1)), (0,)).shape
    (2, 1)
    """
    x = operators.operand(array)
    axes = distinct_axes("squeeze", dimensions, x.ndim)
    if builtins.any(x.shape[axis] != 1 for axis in axes):
        raise ValueError(f"lax.squeeze of {described([x])}: axes {axes} must have size 1; at {user_line()}")
    return reshape(x, [n for axis, n in enumerate(x.shape) if axis not in axes])


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """The operand with the axes from start up to, not including, stop made one, of size 1 if there are none.

    >>> lax.collapse(tnp.ones((2, 3, 4, 5)), 1, 3).shape, lax.collapse(tnp.ones((2, 3, 4, 5)), -2).shape
    ((2, 12, 5), (2, 3, 20))
    """
    x = operators.operand(operand)
    start, stop, _ = builtins.slice(start_dimension, stop_dimension).indices(x.ndim)
    if stop < start:
        raise ValueError(
            f"lax.collapse of {described([x])}: there are no axes from {start} to {stop}; at {user_line()}"
        )
    return reshape(x, (*x.shape[:start], prod(x.shape[start:stop]), *x.shape[stop:]))


def concatenate(operands: Sequence[ArrayLike], dimension: int) -> Array:
    """The operands one after another along an axis.

    >>> lax.concatenate([tnp.ones((2, 3)), tnp.zeros((2, 1))], 1)
    Array([[1., 1., 1., 0.],
           [1., 1., 1., 0.]], dtype=float32)
    """
    if not operands:
        raise ValueError(f"lax.concatenate needs at least one operand; at {user_line()}")
    arrays = of_one_dtype("concatenate", *operands)
    return applied(prims.concatenate, *arrays, axis=one_axis("concatenate", dimension, arrays[0].ndim))


def split(operand: ArrayLike, sizes: Sizes, axis: int = 0) -> list[Array]:
    """The operand cut into pieces of the given sizes along an axis, which they must add up to.

    >>> lax.split(tnp.arange(5), (2, 3))
    [Array([0, 1], dtype=int32), Array([2, 3, 4], dtype=int32)]
    """
    x = operators.operand(operand)
    axis = one_axis("split", axis, x.ndim)
    if builtins.sum(sizes) != x.shape[axis]:
        raise ValueError(
            f"lax.split of {described([x])}: sizes {tuple(sizes)} don't add up to axis {axis}; at "
            f"{user_line()}"
        )
    pieces, begin = [], 0
    for size in sizes:
        pieces.append(slice_in_dim(x, begin, begin + size, axis=axis))
        begin += size
    return pieces


def pad(
    operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]
) -> Array:
    """The operand with the value before it (low), after it (high) and between its elements (interior), per
    axis.

    Negative low or high take elements away, counted after the interior has been put in.

    >>> lax.pad(tnp.array([1, 2, 3]), 0, [(2, 1, 0)])
    Array([0, 0, 1, 2, 3, 0], dtype=int32)
    >>> lax.pad(tnp.array([1, 2, 3]), 0, [(-1, 1, 1)])
    Array([0, 2, 0, 3, 0], dtype=int32)
    """
    x, value = of_one_dtype("pad", operand, padding_value)
    if len(padding_config) != x.ndim or builtins.any(len(entry) != 3 for entry in padding_config):
        raise ValueError(
            f"lax.pad of {described([x])} needs (low, high, interior) for each of its axes; at {user_line()}"
        )
    amounts = [tuple([operator.index(n) for n in entry]) for entry in padding_config]
    low, high, interior = ([entry[i] for entry in amounts] for i in range(3))
    result = x
    if builtins.any(
        n != 0 for entry in amounts for n in (builtins.max(entry[0], 0), builtins.max(entry[1], 0), entry[2])
    ):
        positive = (tuple([builtins.max(n, 0) for n in numbers]) for numbers in (low, high))
        before, after = positive
        result = applied(prims.pad, x, value, low=before, high=after, interior=tuple(interior))
    if builtins.any(n < 0 for n in (*low, *high)):
        start = [builtins.max(-n, 0) for n in low]
        limit = [n - builtins.max(-after, 0) for n, after in zip(result.shape, high, strict=True)]
        if builtins.any(b < a for a, b in zip(start, limit, strict=True)):
            raise ValueError(
                f"lax.pad of {described([x])} by {amounts} takes more elements away than there are; at "
                f"{user_line()}"
            )
        result = slice(result, start, limit)
    return result


def slice(
    operand: ArrayLike,
    start_indices: Sequence[int],
    limit_indices: Sizes,
    strides: Sequence[int] | None = None,
) -> Array:
    """The elements from start up to, not including, limit, every stride-th, per axis; 0 <= start <= limit <=
    size.

    >>> x = tnp.arange(12).reshape(3, 4)
    >>> lax.slice(x, (1, 0), (3, 4), (1, 2))
    Array([[ 4,  6],
           [ 8, 10]], dtype=int32)
    """
    x = operators.operand(operand)
    start, limit = as_shape(start_indices), as_shape(limit_indices)
    step = (1,) * x.ndim if strides is None else as_shape(strides)
    return applied(prims.slice_, x, start=start, limit=limit, step=step)


def slice_in_dim(
    operand: ArrayLike, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Array:
    """`slice` along one axis: as Python's x[start:limit:stride], but beyond the ends it raises ValueError.

    >>> x = tnp.arange(6)
    >>> lax.slice_in_dim(x, 1, -1), lax.slice_in_dim(x, None, None, 2)
    (Array([1, 2, 3, 4], dtype=int32), Array([0, 2, 4], dtype=int32))
    """
    x = operators.operand(operand)
    axis = one_axis("slice_in_dim", axis, x.ndim)
    size = x.shape[axis]
    start = 0 if start_index is None else start_index + size if start_index < 0 else start_index
    limit = size if limit_index is None else limit_index + size if limit_index < 0 else limit_index
    starts, limits, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[axis], limits[axis], strides[axis] = start, limit, stride
    return slice(x, starts, limits, strides)


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """The elements in reverse order along axes.

    >>> lax.rev(tnp.arange(6).reshape(2, 3), (1,))
    Array([[2, 1, 0],
           [5, 4, 3]], dtype=int32)
    """
    x = operators.operand(operand)
    axes = distinct_axes("rev", dimensions, x.ndim)
    return applied(prims.flip, x, axes=axes) if axes else x


def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """The operand repeated as a whole along its axes, reps[i] times along axis i.

    >>> lax.tile(tnp.array([[1, 2]]), (2, 2))
    Array([[1, 2, 1, 2],
           [1, 2, 1, 2]], dtype=int32)
    """
    x = operators.operand(operand)
    times = as_shape(reps)
    if len(times) != x.ndim or builtins.any(n < 0 for n in times):
        raise ValueError(
            f"lax.tile of {described([x])} by {times} needs a number of 0 or more for each axis; at {user_line()}"
        )
    both = [n for pair in zip(times, x.shape, strict=True) for n in pair]
    repeated = broadcast_in_dim(x, both, range(1, 2 * x.ndim, 2))
    return reshape(repeated, [n * size for n, size in zip(times, x.shape, strict=True)])


def stack(operands: Sequence[ArrayLike], axis: int = 0) -> Array:
    """Arrays of one shape along a new axis, which is `axis` of the result.

    >>> lax.stack([tnp.array([1, 2]), tnp.array([3, 4])], axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    if not operands:
        raise ValueError(f"lax.stack needs at least one operand; at {user_line()}")
    arrays = of_one_dtype("stack", *operands)
    place = one_axis("stack", axis, arrays[0].ndim + 1)
    return concatenate([expand_dims(a, (place,)) for a in arrays], place)


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis, which they lack.

    >>> lax.unstack(tnp.array([[1, 2], [3, 4]]), axis=1)
    (Array([1, 3], dtype=int32), Array([2, 4], dtype=int32))
    """
    array = operators.operand(x)
    place = one_axis("unstack", axis, array.ndim)
    return tuple(
        [squeeze(slice_in_dim(array, i, i + 1, axis=place), (place,)) for i in range(array.shape[place])]
    )


def empty(shape: Sizes | int, dtype: Any) -> Array:
    """An array whose values nobody should count on; they are zeros.

    >>> lax.empty((2,), "int32").shape
    (2,)
    """
    return full(shape, 0, dtype)


def dtype(x: Any) -> dtypes.DType:
    """The dtype of an array, or the default one of a Python number.

    >>> lax.dtype(1.0), lax.dtype(np.int64(1))
    (dtype('float32'), dtype('int64'))
    """
    return operators.operand(x).dtype


def shape_as_value(shape: Sizes) -> Array:
    """A shape, which may have symbolic dimensions, as an array of int32.

    >>> lax.shape_as_value((2, 3))
    Array([2, 3], dtype=int32)
    """
    sizes = [reshape(convert_element_type(operators.operand(n), dtypes.int32), (1,)) for n in as_shape(shape)]
    return concatenate(sizes, 0) if sizes else full((0,), 0, dtypes.int32)
