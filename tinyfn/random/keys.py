"""Keys, and the random bits that they stand for: threefry2x32."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from .. import lax
from ..lax.arguments import ArrayLike, as_shape
from ..trace import dtype as dtypes
from ..trace import operators, prims
from ..trace.array import Array, as_array
from ..trace.errors import user_line
from .reuse import forget, uses_key

Shape: TypeAlias = Sequence[Any]

UNSIGNED = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}
IMPLEMENTATION = "threefry2x32"
WORD = 1 << 32  # how many values 32 bits have


def _check_impl(impl: Any) -> None:
    if impl not in (None, IMPLEMENTATION):
        raise ValueError(f"keys are of the implementation {IMPLEMENTATION!r}, not {impl!r}; at {user_line()}")


def PRNGKey(seed: ArrayLike, *, impl: str | None = None) -> Array:
    """The key uint32[2] of an integer: its high and its low 32 bits, of which the high ones are 0 for 32-bit
    arrays.

    A Python integer is one of 64 bits, in two's complement. Raises OverflowError if it needs more, TypeError
    for anything but an integer scalar, ValueError for an `impl` other than "threefry2x32"."""
    _check_impl(impl)
    if isinstance(seed, int) and not isinstance(seed, bool):
        if not -(1 << 63) <= seed < 1 << 64:
            raise OverflowError(f"the seed {seed} does not fit into 64 bits; at {user_line()}")
        words = np.array([seed >> 32 & WORD - 1, seed & WORD - 1], np.uint32)
        return lax.concatenate([lax.full((1,), int(word), dtypes.uint32) for word in words], 0)
    array = operators.operand(seed)
    if not dtypes.is_integer(array.dtype) or array.shape:
        found = dtypes.describe(array.dtype, array.shape)
        raise TypeError(
            f"a seed is an integer scalar, not {found}; at {user_line()}: use vmap for several seeds"
        )
    if array.dtype.itemsize == 8:
        high = lax.convert_element_type(lax.shift_right_logical(array, 32), dtypes.uint32)
        low = lax.convert_element_type(
            lax.bitwise_and(array, operators.scalar(WORD - 1, array.dtype)), dtypes.uint32
        )
    else:
        high, low = lax.full((), 0, dtypes.uint32), lax.convert_element_type(array, dtypes.uint32)
    return lax.concatenate([lax.reshape(high, (1,)), lax.reshape(low, (1,))], 0)


def key(seed: ArrayLike, *, impl: str | None = None) -> Array:
    """The same as `PRNGKey`: the raw key uint32[2] of a seed."""
    return PRNGKey(seed, impl=impl)


def key_data(keys: ArrayLike) -> Array:
    """The words of keys, uint32[..., 2]: keys are their words, so this is the argument itself."""
    array = as_array(keys)
    if array.dtype is not dtypes.uint32 or array.shape[-1:] != (2,):
        raise TypeError(
            f"keys are uint32[..., 2], not {dtypes.describe(array.dtype, array.shape)}; at {user_line()}"
        )
    return array


def wrap_key_data(key_bits_array: ArrayLike, *, impl: str | None = None) -> Array:
    """Keys from their words, uint32[..., 2]; raises ValueError for an `impl` other than "threefry2x32"."""
    _check_impl(impl)
    return key_data(key_bits_array)


def key_impl(keys: ArrayLike) -> str:
    """The name of the generator that keys are for: "threefry2x32"."""
    key_data(keys)
    return IMPLEMENTATION


def clone(key: ArrayLike) -> Array:
    """The same keys, which `check_key_reuse` lets be used once more."""
    keys = key_data(key)
    forget(keys)
    return keys


def words_of(name: str, key: ArrayLike) -> tuple[Array, Array]:
    """The two words of one key."""
    array = key if isinstance(key, Array) else as_array(key)
    if array.dtype is not dtypes.uint32 or array.shape != (2,):
        found = dtypes.describe(array.dtype, array.shape)
        advice = (
            "use vmap for several keys"
            if array.shape[-1:] == (2,)
            else "make one with tinyfn.random.key(seed)"
        )
        raise TypeError(f"random.{name} takes one key, uint32[2], not {found}; at {user_line()}: {advice}")
    return lax.index_in_dim(array, 0, keepdims=False), lax.index_in_dim(array, 1, keepdims=False)


def hashed(name: str, key: ArrayLike, shape: tuple[Any, ...]) -> Array:
    """Two random words for each element of a shape, [*shape, 2]: the hash of the element's number under the
    key."""
    first, second = words_of(name, key)
    size = prod(shape)
    if shape and size:
        if size > WORD:
            numbers = lax.iota(dtypes.uint64, size)
            high = lax.convert_element_type(lax.shift_right_logical(numbers, 32), dtypes.uint32)
            low = lax.convert_element_type(numbers, dtypes.uint32)
        else:
            high, low = lax.full((size,), 0, dtypes.uint32), lax.iota(dtypes.uint32, size)
        high, low = lax.reshape(high, shape), lax.reshape(low, shape)
    else:
        high = low = lax.full(shape, 0, dtypes.uint32)
    words: Array = prims.threefry2x32(
        operators.broadcast_to(first, shape), operators.broadcast_to(second, shape), high, low
    )
    return words


@uses_key
def split(key: ArrayLike, num: int | Shape = 2) -> Array:
    """New keys made of one: uint32[num, 2], or uint32[*num, 2] if `num` is a shape."""
    return hashed("split", key, as_shape(num))


def key_pair(key: ArrayLike) -> tuple[Array, Array]:
    """Two new keys made of one."""
    keys = split(key)
    return lax.index_in_dim(keys, 0, keepdims=False), lax.index_in_dim(keys, 1, keepdims=False)


def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """A new key made of a key and an integer, of which the low 32 bits count."""
    first, second = words_of("fold_in", key)
    if isinstance(data, int):
        number = operators.scalar(data, dtypes.uint32)
    else:
        number = operators.operand(data)
        if number.shape or not dtypes.is_integer(number.dtype):
            found = dtypes.describe(number.dtype, number.shape)
            raise TypeError(
                f"random.fold_in takes an integer scalar, not {found}; at {user_line()}: use vmap for several"
            )
        number = lax.convert_element_type(number, dtypes.uint32)
    folded: Array = prims.threefry2x32(first, second, lax.full((), 0, dtypes.uint32), number)
    return folded


def bits_of_width(name: str, key: ArrayLike, width: int, shape: tuple[Any, ...]) -> Array:
    """Random unsigned integers of 8, 16, 32 or 64 bits; `name` is the function to blame for a bad key."""
    words = hashed(name, key, shape)
    last = len(shape)
    high = lax.index_in_dim(words, 0, last, keepdims=False)
    low = lax.index_in_dim(words, 1, last, keepdims=False)
    if width == 64:
        high, low = (
            lax.convert_element_type(high, dtypes.uint64),
            lax.convert_element_type(low, dtypes.uint64),
        )
        return lax.bitwise_or(lax.shift_left(high, 32), low)
    return lax.convert_element_type(lax.bitwise_xor(high, low), UNSIGNED[width])


@uses_key
def bits(key: ArrayLike, shape: Shape = (), dtype: Any = dtypes.uint32) -> Array:
    """Random bits as unsigned integers of a dtype."""
    dtype = dtypes.canonical(dtype)
    if dtypes.kind(dtype) != "unsigned":
        raise TypeError(f"random.bits gives unsigned integers, not {dtype.name}; at {user_line()}")
    return bits_of_width("bits", key, 8 * dtype.itemsize, as_shape(shape))
