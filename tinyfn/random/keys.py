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
from ..trace.array import Array, as_array, own
from ..trace.errors import summary, user_line
from ..trace.tracing import current_trace
from .reuse import forget, uses_key

Shape: TypeAlias = Sequence[Any]

UNSIGNED = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}
IMPLEMENTATION = "threefry2x32"
WORD = 1 << 32  # how many values 32 bits have


def _check_impl(impl: Any) -> None:
    if impl not in (None, IMPLEMENTATION):
        raise ValueError(f"keys are of the implementation {IMPLEMENTATION!r}, not {impl!r}; at {user_line()}")


def PRNGKey(seed: ArrayLike, *, impl: str | None = None) -> Array:
    """The raw key uint32[2] of an integer: its high and its low 32 bits, of which the high ones are 0 for 32-bit arrays.

    A Python integer is one of 64 bits, in two's complement. Raises OverflowError if it needs more, TypeError for anything but
    an integer scalar, ValueError for an `impl` other than "threefry2x32".

    >>> random.PRNGKey(7)
    Array([0, 7], dtype=uint32)
    >>> random.PRNGKey(2**32 + 7)  # all 64 bits of a seed count
    Array([1, 7], dtype=uint32)
    """
    return _stacked(*_words_of_seed(seed, impl))


def _words_of_seed(seed: ArrayLike, impl: str | None) -> tuple[Array, Array]:
    _check_impl(impl)
    if isinstance(seed, int) and not isinstance(seed, bool):
        if not -(1 << 63) <= seed < 1 << 64:
            raise OverflowError(f"the seed {seed} does not fit into 64 bits; at {user_line()}")
        high, low = (lax.full((), word, dtypes.uint32) for word in (seed >> 32 & WORD - 1, seed & WORD - 1))
        return high, low
    if isinstance(seed, (str, list, tuple)) or seed is None:
        raise TypeError(f"a seed is an integer, not {summary(seed)}; at {user_line()}")
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
    return high, low


def key(seed: ArrayLike, *, impl: str | None = None) -> Array:
    """The key of an integer, an array of shape () and dtype key<threefry2x32>, with the words and the errors of `PRNGKey`.

    >>> key = random.key(7)
    >>> key
    Array(shape=(), dtype=key<threefry2x32>, words=
    [0, 7])
    >>> random.normal(key, (2, 3)).shape
    (2, 3)
    >>> bool((random.uniform(key, (3,)) == random.uniform(key, (3,))).all())  # the same key, the same numbers
    True
    """
    return _of_words(*_words_of_seed(seed, impl))


def _of_words(first: Array, second: Array) -> Array:
    """The keys of two uint32 arrays of one shape, their first and their second words."""
    low, high = (lax.convert_element_type(word, dtypes.uint64) for word in (first, second))
    packed = lax.bitwise_or(lax.shift_left(high, 32), low)
    keys: Array = prims.bitcast(packed, dtype=dtypes.key)
    return keys


def _words(keys: Array) -> tuple[Array, Array]:
    """The first and the second words of keys of either kind: uint32 arrays."""
    if keys.dtype is dtypes.key and current_trace() is None:
        keys = own(
            keys.value.reshape((*keys.shape, 1)).view(np.uint32)
        )  # no operation: they lie so in memory
    if keys.dtype is dtypes.key:
        packed = prims.bitcast(keys, dtype=dtypes.uint64)
        first, second = packed, lax.shift_right_logical(packed, 32)
        return lax.convert_element_type(first, dtypes.uint32), lax.convert_element_type(second, dtypes.uint32)
    last = keys.ndim - 1
    return lax.index_in_dim(keys, 0, last, keepdims=False), lax.index_in_dim(keys, 1, last, keepdims=False)


def _stacked(first: Array, second: Array) -> Array:
    """Words [..., 2] of their first and second ones."""
    axis = (first.ndim,)
    return lax.concatenate([lax.expand_dims(first, axis), lax.expand_dims(second, axis)], first.ndim)


def _of_the_kind_of(key: Array, words: Array) -> Array:
    """Words [..., 2] as keys of the kind that a key is of."""
    if key.dtype is dtypes.key and current_trace() is None:
        return own(np.ascontiguousarray(words.value).view(dtypes.key)[..., 0])
    return _of_words(*_words(words)) if key.dtype is dtypes.key else words


def _check_words(name: str, array: Array) -> None:
    if array.dtype is not dtypes.uint32 or array.shape[-1:] != (2,):
        found = dtypes.describe(array.dtype, array.shape)
        raise TypeError(f"random.{name}: keys' words are uint32[..., 2], not {found}; at {user_line()}")


def _as_keys(name: str, keys: ArrayLike) -> Array:
    array = as_array(keys)
    if array.dtype is not dtypes.key:
        _check_words(name, array)
    return array


def key_data(keys: ArrayLike) -> Array:
    """The words of keys, uint32[..., 2] with the keys' axes first; raw keys are their words already.

    >>> random.key_data(random.split(random.key(0), 3))
    Array([[1797259609, 2579123966],
           [ 928981903, 3453687069],
           [4146024105, 2718843009]], dtype=uint32)
    """
    array = _as_keys("key_data", keys)
    return _stacked(*_words(array)) if array.dtype is dtypes.key else array


def wrap_key_data(key_bits_array: ArrayLike, *, impl: str | None = None) -> Array:
    """The keys key<threefry2x32>[...] of their words uint32[..., 2]: the inverse of `key_data`.

    Raises ValueError for an `impl` other than "threefry2x32", TypeError for another dtype or last axis.

    >>> random.wrap_key_data(tnp.array([0, 7], tnp.uint32)) == random.key(7)
    Array(True, dtype=bool)
    """
    _check_impl(impl)
    array = as_array(key_bits_array)
    _check_words("wrap_key_data", array)
    return _of_words(*_words(array))


def key_impl(keys: ArrayLike) -> str:
    """The name of the generator that keys are for: "threefry2x32".

    >>> random.key_impl(random.key(0))
    'threefry2x32'
    """
    _as_keys("key_impl", keys)
    return IMPLEMENTATION


def key_dtype(impl: str | None = None) -> dtypes.DType:
    """The dtype of keys: key<threefry2x32>; raises ValueError for an `impl` other than "threefry2x32".

    >>> random.key(0).dtype == random.key_dtype()
    True
    """
    _check_impl(impl)
    return dtypes.key


def clone(key: ArrayLike) -> Array:
    """The same keys, which `check_key_reuse` lets be used once more.

    >>> key = random.key(0)
    >>> with random.check_key_reuse():
    ...     same = random.uniform(key) == random.uniform(random.clone(key))
    >>> same
    Array(True, dtype=bool)
    """
    keys = _as_keys("clone", key)
    forget(keys)
    return keys


def words_of(name: str, key: ArrayLike) -> tuple[Array, Array]:
    """The two words of one key; raises TypeError, in the name of a function, for anything else."""
    if isinstance(key, (tuple, list, str)) or key is None:
        raise TypeError(
            f"random.{name} takes a key first, not {summary(key)}; at {user_line()}: make one with tinyfn.random.key(seed)"
        )
    array = key if isinstance(key, Array) else as_array(key)
    typed = array.dtype is dtypes.key
    if not (typed and array.shape == ()) and not (array.dtype is dtypes.uint32 and array.shape == (2,)):
        found = dtypes.describe(array.dtype, array.shape)
        several = typed or (array.dtype is dtypes.uint32 and array.shape[-1:] == (2,))
        advice = "use vmap for several keys" if several else "make one with tinyfn.random.key(seed)"
        raise TypeError(f"random.{name} takes one key, not {found}; at {user_line()}: {advice}")
    return _words(array)


def typed(key: ArrayLike) -> Array:
    """A key of either kind as a typed one: in a loop it is one number, where a raw one is an array."""
    key = as_array(key)
    return key if key.dtype is dtypes.key else wrap_key_data(key)


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
    """New keys made of one, and of its kind: key<threefry2x32>[num], or uint32[num, 2] of a raw key; `num` may be a shape.

    Raises TypeError for anything but one key: `vmap` splits several.

    >>> key, own = random.split(random.key(0))
    >>> own
    Array(shape=(), dtype=key<threefry2x32>, words=
    [ 928981903, 3453687069])
    >>> keys = random.split(key, 4)
    >>> tinyfn.vmap(lambda key: random.normal(key, (3,)))(keys).shape
    (4, 3)
    """
    key = as_array(key)
    return _of_the_kind_of(key, hashed("split", key, as_shape(num)))


def key_pair(key: ArrayLike) -> tuple[Array, Array]:
    """Two new keys made of one."""
    keys = split(key)
    return lax.index_in_dim(keys, 0, keepdims=False), lax.index_in_dim(keys, 1, keepdims=False)


def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """A new key, of the same kind, made of a key and an integer, of which the low 32 bits count.

    So each step of a loop has a key of its own, without keys to hand on. Raises TypeError for anything but one key and an integer
    scalar.

    >>> key = random.key(0)
    >>> random.fold_in(key, 3)
    Array(shape=(), dtype=key<threefry2x32>, words=
    [2467461003, 3840466878])
    >>> lax.map(lambda step: random.randint(random.fold_in(key, step), (), 0, 100), tnp.arange(3))
    Array([91, 22, 59], dtype=int32)
    """
    key = as_array(key)
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
    return _of_the_kind_of(key, folded)


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
    """Random bits of a shape, as integers of an unsigned dtype: all its values are equally likely.

    Raises TypeError for another dtype.

    >>> random.bits(random.key(0), (3,))
    Array([4070199207, 4202968722, 1427181096], dtype=uint32)
    >>> random.bits(random.key(0), (2,), tnp.uint8)
    Array([167, 146], dtype=uint8)
    """
    dtype = dtypes.canonical(dtype)
    if dtypes.kind(dtype) != "unsigned":
        raise TypeError(f"random.bits gives unsigned integers, not {dtype.name}; at {user_line()}")
    return bits_of_width("bits", key, 8 * dtype.itemsize, as_shape(shape))
