"""Random choices among the elements of an array: permutations, choices with and without replacement."""

from __future__ import annotations

import builtins
import operator
from math import ceil, log, prod
from typing import Any

import numpy as np

from .. import lax
from ..lax.arguments import ArrayLike, as_shape
from ..trace import dtype as dtypes
from ..trace import operators, prims
from ..trace.array import Array
from ..trace.errors import user_line
from .distributions import fits, float_dtype, gumbel, randint, unit_uniform
from .keys import WORD, Shape, bits_of_width, split, words_of
from .reuse import uses_key


def _take(x: Array, at: Array, axis: int) -> Array:
    """x at the positions `at` along an axis, in whose place the axes of `at` come; positions are within x."""
    sizes = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    at_last: Any = lax.expand_dims(at, (at.ndim,))
    picked: Array = prims.gather(x, at_last, axes=(axis,), sizes=sizes, batch_dims=0, mode="clip")
    order = [*range(at.ndim, at.ndim + axis), *range(at.ndim), *range(at.ndim + axis, picked.ndim)]
    shape = (*x.shape[:axis], *at.shape, *x.shape[axis + 1 :])
    return lax.reshape(lax.transpose(picked, order), shape)


def _shuffle(key: ArrayLike, x: Array, axis: int) -> Array:
    """x with its elements shuffled along an axis: sorted by random words, again and again if there may be
    ties."""
    rounds = ceil(3 * log(builtins.max(1, x.size)) / log(WORD - 1))
    words_of("permutation", key)
    for _ in range(rounds):
        keys = split(key)
        key, own = (lax.index_in_dim(keys, i, keepdims=False) for i in (0, 1))
        _, x = lax.sort_key_val(bits_of_width("permutation", own, 32, x.shape), x, axis)
    return x


def _count(name: str, x: Any) -> int | None:
    """The integer that stands for that many positions, or None for an array."""
    if isinstance(x, (Array, np.ndarray)) and x.ndim:
        return None
    try:
        return operator.index(x)
    except TypeError as error:
        if isinstance(x, Array) and dtypes.is_integer(x.dtype):
            raise
        raise TypeError(f"random.{name} takes an integer or an array, not {x!r}; at {user_line()}") from error


def _one_axis(name: str, axis: int, x: Array) -> int:
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(
            f"random.{name}: {dtypes.describe(x.dtype, x.shape)} has no axis {axis}; at {user_line()}"
        )
    return axis % x.ndim


@uses_key
def permutation(key: ArrayLike, x: ArrayLike, axis: int = 0, independent: bool = False) -> Array:
    """The slices of an array along an axis (or 0, 1, ..., x - 1) in random order.

    With `independent`, each line of elements along the axis is shuffled on its own.

    >>> random.permutation(random.key(1), 5)
    Array([3, 2, 0, 1, 4], dtype=int32)
    >>> x = tnp.array([[0, 1, 2], [3, 4, 5]])
    >>> random.permutation(random.key(1), x, axis=1)
    Array([[2, 0, 1],
           [5, 3, 4]], dtype=int32)
    >>> random.permutation(random.key(1), x, axis=1, independent=True)
    Array([[2, 0, 1],
           [3, 5, 4]], dtype=int32)
    """
    count = _count("permutation", x)
    if count is not None:
        return _shuffle(key, lax.iota(dtypes.int32, count), 0)
    array = operators.operand(x)
    axis = _one_axis("permutation", axis, array)
    if independent or array.ndim == 1:
        return _shuffle(key, array, axis)
    return _take(array, _shuffle(key, lax.iota(dtypes.int32, array.shape[axis]), 0), axis)


def _first_at_least(rising: Array, values: Array) -> Array:
    """For each value the first position in a rising vector that is not below it: a binary search,
    unrolled."""
    size = rising.shape[0]
    low, high = lax.full(values.shape, 0, dtypes.int32), lax.full(values.shape, size, dtypes.int32)
    for _ in range(int(size).bit_length()):
        middle = lax.shift_right_logical(lax.add(low, high), 1)
        below = lax.bitwise_and(lax.lt(_take(rising, middle, 0), values), lax.lt(low, high))
        open_ = lax.lt(low, high)
        low = lax.select(below, lax.add(middle, 1), low)
        high = lax.select(lax.bitwise_and(open_, lax.bitwise_not(below)), middle, high)
    return low


@uses_key
def choice(
    key: ArrayLike,
    a: ArrayLike,
    shape: Shape = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Slices of an array along an axis (or of 0, 1, ..., a - 1), chosen with the probabilities p (None: all equal).

    The axes of `shape` come in place of the axis. Without `replace` no slice is chosen twice; raises
    ValueError if there are too few. The weights p, one per slice, need not add up to 1.

    >>> random.choice(random.key(0), 10, (3,), replace=False)
    Array([0, 1, 8], dtype=int32)
    >>> letters = tnp.array([10, 20, 30])
    >>> random.choice(random.key(0), letters, (6,), p=tnp.array([0.0, 1.0, 3.0]))
    Array([20, 20, 30, 30, 30, 30], dtype=int32)
    >>> random.choice(random.key(0), tnp.zeros((5, 7)), (2, 3), axis=1).shape
    (5, 2, 3)
    """
    count, shape = _count("choice", a), as_shape(shape)
    array = None if count is not None else operators.operand(a)
    if array is not None:
        axis = _one_axis("choice", axis, array)
        inputs = array.shape[axis]
        result_shape = (*array.shape[:axis], *shape, *array.shape[axis + 1 :])
    else:
        assert count is not None
        inputs, result_shape = count, shape
    draws = prod(shape)
    if draws == 0:
        return lax.full(result_shape, 0, dtypes.int32 if array is None else array.dtype)
    if inputs <= 0:
        raise ValueError(f"random.choice can't choose among {inputs} elements; at {user_line()}")
    if not replace and draws > inputs:
        raise ValueError(
            f"random.choice can't choose {draws} of {inputs} without replacement; at {user_line()}"
        )
    if p is None:
        if replace:
            at = randint(key, shape, 0, inputs)
        else:
            at = lax.slice_in_dim(_shuffle(key, lax.iota(dtypes.int32, inputs), 0), 0, draws)
    else:
        weights = operators.operand(p)
        if not dtypes.is_float(weights.dtype):
            weights = lax.convert_element_type(weights, dtypes.float32)
        if weights.shape != (inputs,):
            found = dtypes.describe(weights.dtype, weights.shape)
            raise ValueError(
                f"random.choice needs one weight for each of {inputs} elements, not {found}; at {user_line()}"
            )
        if replace:
            total = lax.cumsum(weights)
            whole = lax.index_in_dim(total, -1, keepdims=False)
            drawn = lax.mul(whole, lax.sub(1.0, unit_uniform("choice", key, shape, weights.dtype)))
            at = _first_at_least(total, drawn)
        else:
            drawn = lax.add(gumbel(key, (inputs,), weights.dtype, mode), lax.log(weights))
            at = lax.top_k(drawn, draws)[1]
    at = lax.reshape(at, shape)
    return at if array is None else _take(array, at, axis)


@uses_key
def categorical(
    key: ArrayLike,
    logits: ArrayLike,
    axis: int = -1,
    shape: Shape | None = None,
    replace: bool = True,
    mode: str | None = None,
) -> Array:
    """Positions (int32) along an axis of the logits, chosen with the probabilities softmax(logits) by the Gumbel trick.

    `shape` must end with the logits' other axes, and is those if it is None. Without `replace` no position is
    chosen twice along the leading axes of `shape`; raises ValueError if there are too few.

    >>> logits = tnp.log(tnp.array([0.5, 0.25, 0.25]))
    >>> random.categorical(random.key(0), logits, shape=(8,))
    Array([1, 0, 2, 1, 2, 0, 0, 0], dtype=int32)
    >>> random.categorical(random.key(0), tnp.zeros((2, 5)))  # one for each row
    Array([1, 3], dtype=int32)
    >>> random.categorical(random.key(0), tnp.zeros(4), shape=(4,), replace=False)
    Array([1, 0, 3, 2], dtype=int32)
    """
    array = operators.operand(logits)
    dtype = float_dtype("categorical with logits of this dtype", array.dtype)
    axis = _one_axis("categorical", axis, array)
    others = (*array.shape[:axis], *array.shape[axis + 1 :])
    shape = others if shape is None else as_shape(shape)
    lead = len(shape) - len(others)
    if not fits(others, shape):
        raise ValueError(
            f"random.categorical: the shape {shape} does not end with the axes {others}; at {user_line()}"
        )
    prefix = shape[:lead]
    if replace:
        rest = shape[lead:]
        drawn_shape = (*prefix, *rest[:axis], array.shape[axis], *rest[axis:])
        noise = gumbel(key, drawn_shape, dtype, mode)
        return lax.argmax(lax.add(noise, operators.broadcast_to(array, drawn_shape)), lead + axis)
    draws = prod(prefix)
    if draws > array.shape[axis]:
        raise ValueError(
            f"random.categorical can't choose {draws} of {array.shape[axis]} without replacement; at "
            f"{user_line()}"
        )
    _, at = lax.top_k(lax.add(array, gumbel(key, array.shape, dtype, mode)), draws, axis=axis)
    order = [axis, *[i for i in range(at.ndim) if i != axis]]
    return lax.reshape(lax.transpose(at, order), shape)
