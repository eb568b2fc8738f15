"""Reductions, cumulative sums and sorting."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators, prims
from ..trace.array import Array
from ..trace.dtype import DType
from ..trace.errors import user_line
from ..trace.prim import Primitive
from ..trace.prims.movement import move_axis
from .arguments import ArrayLike, applied, described, distinct_axes, one_axis
from .elementwise import neg
from .movement import expand_dims, full, squeeze


def _reduction(primitive: Primitive) -> Callable[[ArrayLike, Sequence[int] | int], Array]:
    def apply(operand: ArrayLike, axes: Sequence[int] | int) -> Array:
        x = operators.operand(operand)
        return applied(primitive, x, axes=distinct_axes(primitive.name, axes, x.ndim))

    apply.__name__ = apply.__qualname__ = primitive.name
    apply.__doc__ = primitive.__doc__
    return apply


reduce_sum, reduce_prod = _reduction(prims.reduce_sum), _reduction(prims.reduce_prod)


def least_of(dtype: DType) -> Any:
    """The neutral element of the maximum."""
    return False if dtype is dtypes.bool_ else -inf if dtypes.is_float(dtype) else np.iinfo(dtype).min


def greatest_of(dtype: DType) -> Any:
    """The neutral element of the minimum."""
    return True if dtype is dtypes.bool_ else inf if dtypes.is_float(dtype) else np.iinfo(dtype).max


def _extreme(
    primitive: Primitive, neutral: Callable[[DType], Any], operand: ArrayLike, axes: Sequence[int] | int
) -> Array:
    x = operators.operand(operand)
    over = distinct_axes(primitive.name, axes, x.ndim)
    if builtins.any(isinstance(x.shape[axis], int) and x.shape[axis] == 0 for axis in over):
        kept = [n for axis, n in enumerate(x.shape) if axis not in over]
        return full(kept, neutral(x.dtype), x.dtype)
    return applied(primitive, x, axes=over)


def reduce_max(operand: ArrayLike, axes: Sequence[int] | int) -> Array:
    """The greatest element over axes, NaN if there is one, and of nothing the least number of the dtype; ties share the
    derivative equally.

    >>> lax.reduce_max(tnp.array([[1, 5], [4, 2]]), (0,)), lax.reduce_max(tnp.zeros((2, 0)), (1,))
    (Array([4, 5], dtype=int32), Array([-inf, -inf], dtype=float32))
    """
    return _extreme(prims.reduce_max, least_of, operand, axes)


def reduce_min(operand: ArrayLike, axes: Sequence[int] | int) -> Array:
    """The least element over axes, NaN if there is one, and of nothing the greatest number of the dtype; ties share the
    derivative equally.

    >>> lax.reduce_min(tnp.array([[1, 5], [4, 2]]), (0,)), lax.reduce_min(tnp.zeros((0,), "uint8"), (0,))
    (Array([1, 2], dtype=int32), Array(255, dtype=uint8))
    """
    return _extreme(prims.reduce_min, greatest_of, operand, axes)


def argmax(operand: ArrayLike, axis: int, index_dtype: Any = dtypes.int32) -> Array:
    """The position of the greatest element along an axis, the first of equals, the first NaN if there is
    one.

    >>> lax.argmax(tnp.array([[1, 3, 3], [2, 0, 1]]), 1, "int32")
    Array([1, 0], dtype=int32)
    >>> lax.argmax(tnp.array([1.0, np.nan, 3.0]), 0, "uint8")
    Array(1, dtype=uint8)
    """
    x = operators.operand(operand)
    return applied(
        prims.argmax, x, axis=one_axis("argmax", axis, x.ndim), dtype=dtypes.canonical(index_dtype)
    )


def argmin(operand: ArrayLike, axis: int, index_dtype: Any = dtypes.int32) -> Array:
    """The position of the least element along an axis, the first of equals, the first NaN if there is one.

    >>> lax.argmin(tnp.array([[1, 3, 0], [2, 0, 0]]), axis=1, index_dtype="int32")
    Array([2, 1], dtype=int32)
    """
    x = operators.operand(operand)
    return applied(
        prims.argmin, x, axis=one_axis("argmin", axis, x.ndim), dtype=dtypes.canonical(index_dtype)
    )


def _cumulative(primitive: Primitive) -> Callable[..., Array]:
    def apply(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
        x = operators.operand(operand)
        return applied(primitive, x, axis=one_axis(primitive.name, axis, x.ndim), reverse=bool(reverse))

    apply.__name__ = apply.__qualname__ = primitive.name
    apply.__doc__ = primitive.__doc__
    return apply


cumsum, cumprod, cummax = _cumulative(prims.cumsum), _cumulative(prims.cumprod), _cumulative(prims.cummax)
cummin, cumlogsumexp = _cumulative(prims.cummin), _cumulative(prims.cumlogsumexp)


def _order(x: Array) -> Array:
    """The stable order of the elements along the last axis, NaNs last."""
    return applied(prims.argsort, x, count=x.shape[-1], descending=False)


def _taken(x: Array, order: Array) -> Array:
    """Along the last axis the elements at the positions in `order`, which has x's other axes."""
    axis = x.ndim - 1
    if isinstance(x.shape[axis], int) and x.shape[axis] == 0:
        return x
    at = expand_dims(order, (order.ndim,))
    result = applied(prims.gather, x, at, axes=(axis,), sizes=(1,), batch_dims=axis, mode="clip")
    return squeeze(result, (result.ndim - 1,))


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """The elements in rising order along an axis, NaNs last; the sort is stable.

    Of a tuple of arrays of one shape all are put into the order of the first `num_keys`, which compare one
    after another. Derivatives go to the elements where they came from.

    >>> lax.sort(tnp.array([3.0, np.nan, 1.0, 2.0]))
    Array([ 1.,  2.,  3., nan], dtype=float32)
    >>> keys, values = tnp.array([1, 0, 1, 0]), tnp.array([4, 3, 2, 1])
    >>> lax.sort((keys, values))
    (Array([0, 0, 1, 1], dtype=int32), Array([3, 1, 4, 2], dtype=int32))
    >>> lax.sort((keys, values), num_keys=2)
    (Array([0, 0, 1, 1], dtype=int32), Array([1, 3, 2, 4], dtype=int32))
    """
    several = isinstance(operand, (tuple, list))
    arrays = [operators.operand(x) for x in (operand if several else (operand,))]
    if (
        not arrays
        or not 1 <= num_keys <= len(arrays)
        or builtins.any(a.shape != arrays[0].shape for a in arrays)
    ):
        raise ValueError(
            f"lax.sort of {described(arrays)} by {num_keys} keys needs arrays of one shape and at least one "
            f"key; at {user_line()}"
        )
    axis = one_axis("sort", dimension, arrays[0].ndim)
    last = arrays[0].ndim - 1
    rows = [move_axis(a, axis, last) for a in arrays]
    order: Array | None = None
    for key in reversed(rows[:num_keys]):
        order = _order(key) if order is None else _taken(order, _order(_taken(key, order)))
    assert order is not None
    results = [move_axis(_taken(a, order), last, axis) for a in rows]
    return tuple(results) if several else results[0]


def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """The keys in rising order along an axis, and the values in the order of their keys.

    >>> lax.sort_key_val(tnp.array([3, 1, 2]), tnp.array([10, 20, 30]))
    (Array([1, 2, 3], dtype=int32), Array([20, 30, 10], dtype=int32))
    """
    sorted_keys, sorted_values = sort((keys, values), dimension, is_stable)
    return sorted_keys, sorted_values


def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> tuple[Array, Array]:
    """The k greatest elements along an axis in falling order (NaNs count as greatest), and their positions
    (int32).

    >>> lax.top_k(tnp.array([1, 5, 3, 5]), 3)
    (Array([5, 5, 3], dtype=int32), Array([1, 3, 2], dtype=int32))
    """
    x = operators.operand(operand)
    axis = one_axis("top_k", axis, x.ndim)
    k, size, last = operator.index(k), x.shape[axis], x.ndim - 1
    if not 0 <= k <= size:
        raise ValueError(
            f"lax.top_k of {described([x])} along axis {axis}: k is {k}, but there are {size} elements; at "
            f"{user_line()}"
        )
    rows = move_axis(x, axis, last)
    order = applied(prims.argsort, rows, count=k, descending=True)
    return move_axis(_taken(rows, order), last, axis), move_axis(order, last, axis)


def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """`top_k` of floats along `reduction_dimension`: here it is exact, whatever recall would do.

    >>> lax.approx_max_k(tnp.array([1.0, 5.0, 3.0]), 2)
    (Array([5., 3.], dtype=float32), Array([1, 2], dtype=int32))
    """
    return top_k(_floats("approx_max_k", operand), k, axis=reduction_dimension)


def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """The k least elements along `reduction_dimension` in rising order, and their positions (int32); exact.

    >>> lax.approx_min_k(tnp.array([1.0, 5.0, 3.0]), 2)
    (Array([1., 3.], dtype=float32), Array([0, 2], dtype=int32))
    """
    values, positions = top_k(neg(_floats("approx_min_k", operand)), k, axis=reduction_dimension)
    return neg(values), positions


def _floats(name: str, operand: ArrayLike) -> Array:
    x = operators.operand(operand)
    if not dtypes.is_float(x.dtype):
        raise TypeError(f"lax.{name} works on floats, not on {described([x])}; at {user_line()}")
    return x
