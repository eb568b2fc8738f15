"""Random bits from a key and a counter."""

from __future__ import annotations

import enum
from math import prod
from typing import Any

from ..trace import dtype as dtypes
from ..trace import operators, prims
from ..trace.array import Array
from ..trace.errors import user_line
from .arguments import ArrayLike, Sizes, applied, as_shape, described
from .elementwise import add, bitwise_or, convert_element_type, lt, shift_left
from .indexing import index_in_dim
from .movement import broadcast_in_dim, iota, reshape, slice_in_dim, stack, transpose


class RandomAlgorithm(enum.IntEnum):
    """How `rng_bit_generator` makes bits; the default is Threefry."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1


def rng_bit_generator(
    key: ArrayLike,
    shape: Sizes,
    dtype: Any = dtypes.uint32,
    algorithm: RandomAlgorithm | int = RandomAlgorithm.RNG_DEFAULT,
) -> tuple[Array, Array]:
    """The next key, and random bits as unsigned integers of a shape and dtype.

    The key is uint32[4]: two words of a Threefry key and two of a 64-bit counter, the lower one first, which goes on by one for
    each 64 bits (each pair of smaller integers). The bits are those of XLA's Threefry. `tinyfn.random` is easier to use.

    >>> key = tnp.array([0, 7, 0, 0], dtype="uint32")  # the words of a key, and a counter
    >>> key, bits = lax.rng_bit_generator(key, (4,))
    >>> bits
    Array([3625411723, 1954958720, 1830345032, 3888369200], dtype=uint32)
    >>> key
    Array([0, 7, 2, 0], dtype=uint32)
    >>> key, bits = lax.rng_bit_generator(key, (2, 3), dtype="uint8")
    >>> bits.shape, bits.dtype
    ((2, 3), dtype('uint8'))
    """
    words, dtype, sizes = operators.operand(key), dtypes.canonical(dtype), as_shape(shape)
    if words.dtype is not dtypes.uint32 or words.shape != (4,) or dtypes.kind(dtype) != "unsigned":
        raise TypeError(
            f"lax.rng_bit_generator needs a key uint32[4] and an unsigned dtype, not {described([words])} and {dtype.name}; "
            f"at {user_line()}"
        )
    if algorithm not in RandomAlgorithm.__members__.values():
        raise ValueError(
            f"lax.rng_bit_generator: algorithm {algorithm!r} is not there; at {user_line()}: use Threefry"
        )
    # Words of a pair are neighbours along the first axis of even size, or else the last one, which then ends with half a pair.
    shape, axis = sizes or (1,), 0
    even = [i for i, n in enumerate(shape) if n % 2 == 0]
    wide = dtype.itemsize == 8
    axis = even[0] if even else len(shape) - 1
    halved = shape if wide else (*shape[:axis], (shape[axis] + 1) // 2, *shape[axis + 1 :])
    count = prod(halved)
    first, second, low, high = (index_in_dim(words, i, keepdims=False) for i in range(4))

    def counted(by: Array) -> tuple[Array, Array]:
        below = add(broadcast_in_dim(low, by.shape, ()), by)
        carry = convert_element_type(lt(below, broadcast_in_dim(low, by.shape, ())), dtypes.uint32)
        return below, add(broadcast_in_dim(high, by.shape, ()), carry)

    following = stack([first, second, *counted(operators.scalar(count, dtypes.uint32))])
    counters = counted(iota(dtypes.uint32, count))
    keys = [broadcast_in_dim(word, (count,), ()) for word in (first, second)]
    bits = reshape(applied(prims.threefry2x32, *keys, *counters), (*halved, 2))
    if wide:
        lower, upper = (
            convert_element_type(index_in_dim(bits, i, bits.ndim - 1, keepdims=False), dtype) for i in (0, 1)
        )
        return following, reshape(bitwise_or(lower, shift_left(upper, 32)), sizes)
    order = (*range(axis + 1), bits.ndim - 1, *range(axis + 1, bits.ndim - 1))
    pairs = reshape(transpose(bits, order), (*halved[:axis], 2 * halved[axis], *halved[axis + 1 :]))
    cut = slice_in_dim(pairs, 0, shape[axis], axis=axis)
    return following, convert_element_type(reshape(cut, sizes), dtype)
