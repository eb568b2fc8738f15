"""Pooling: what windows of images come to, with the names and arguments of `flax.linen`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import lax
from ..lax.arguments import ArrayLike, described
from ..lax.reductions import greatest_of, least_of
from ..trace import dtype as dtypes
from ..trace import operators
from ..trace.array import Array
from ..trace.errors import user_line

Padding = str | Sequence[tuple[int, int]]


def pool(
    inputs: ArrayLike,
    init: ArrayLike,
    reduce_fn: Callable[[Any, Any], Any],
    window_shape: Sequence[int],
    strides: Sequence[int] | None,
    padding: Padding,
) -> Array:
    """`lax.reduce_window` over the axes before the last: of [..., *spatial, C] with a number of `window_shape`, of
    `strides` (1 if None) and a pair of `padding`, if that is no name, for each spatial axis.

    >>> x = tnp.array([1.0, 2.0, 3.0, 4.0]).reshape(1, 4, 1)
    >>> nn.pool(x, 0.0, lax.add, window_shape=(2,), strides=(2,), padding="VALID").ravel()
    Array([3., 7.], dtype=float32)
    """
    x = operators.operand(inputs)
    window, count = tuple(window_shape), len(window_shape)
    steps = (1,) * count if strides is None else tuple(strides)
    before = x.ndim - count - 1
    pairs = padding if isinstance(padding, str) else [(0, 0)] * before + list(padding) + [(0, 0)]
    if before < 0 or len(steps) != count or (not isinstance(pairs, str) and len(pairs) != x.ndim):
        raise ValueError(
            f"nn.pool of {described([x])} needs an axis of the array, before its last, a stride and a pair of padding "
            f"for each number of window_shape {window}, not strides {steps} and padding {padding}; at {user_line()}"
        )
    dims, moves = ((*(1,) * before, *numbers, 1) for numbers in (window, steps))
    result: Array = lax.reduce_window(x, init, reduce_fn, dims, moves, pairs)
    return result


def max_pool(
    inputs: ArrayLike,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
) -> Array:
    """The greatest element of each window of [..., *spatial, C], which begin every `strides` (1 if None) elements.

    Padding is never the greatest. The derivative goes to the first element that is it.

    >>> nn.max_pool(tnp.ones((8, 28, 28, 3)), (2, 2), strides=(2, 2)).shape
    (8, 14, 14, 3)
    >>> x = tnp.array([1, 5, 2, 4, 3]).reshape(1, 5, 1)
    >>> nn.max_pool(x, (2,)).ravel(), nn.max_pool(x, (2,), (2,), "SAME").ravel()
    (Array([5, 5, 4, 4], dtype=int32), Array([5, 4, 3], dtype=int32))
    """
    x = operators.operand(inputs)
    return pool(x, least_of(x.dtype), lax.max, window_shape, strides, padding)


def min_pool(
    inputs: ArrayLike,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
) -> Array:
    """The least element of each window; see `max_pool`.

    >>> x = tnp.array([1, 5, 2, 4, 3]).reshape(1, 5, 1)
    >>> nn.min_pool(x, (2,), strides=(2,), padding=[(0, 1)]).ravel()
    Array([1, 2, 3], dtype=int32)
    """
    x = operators.operand(inputs)
    return pool(x, greatest_of(x.dtype), lax.min, window_shape, strides, padding)


def avg_pool(
    inputs: ArrayLike,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    count_include_pad: bool = True,
) -> Array:
    """The mean of each window of [..., *spatial, C] (floats); padding counts as zeros, or not at all without
    `count_include_pad`. See `max_pool`.

    >>> x = tnp.array([1.0, 5.0, 2.0]).reshape(1, 3, 1)
    >>> nn.avg_pool(x, (2,), strides=(2,), padding="SAME").ravel()
    Array([3., 1.], dtype=float32)
    >>> nn.avg_pool(x, (2,), strides=(2,), padding="SAME", count_include_pad=False).ravel()
    Array([3., 2.], dtype=float32)
    """
    x = operators.operand(inputs)
    if not dtypes.is_float(x.dtype):
        raise TypeError(f"nn.avg_pool works on floats, not on {described([x])}; at {user_line()}")
    total = pool(x, 0.0, lax.add, window_shape, strides, padding)
    if count_include_pad:
        return lax.div(total, float(np.prod(tuple(window_shape), dtype=int)))
    ones = lax.full((*x.shape[x.ndim - len(window_shape) - 1 : -1], 1), 1, x.dtype)
    counts = pool(ones, 0.0, lax.add, window_shape, strides, padding)
    return lax.div(
        total, lax.broadcast_in_dim(counts, total.shape, range(total.ndim - counts.ndim, total.ndim))
    )
