"""Functions of the bits of numbers."""

from __future__ import annotations

import builtins
from typing import Any

from ..trace import dtype as dtypes
from ..trace import operators, prims
from ..trace.array import Array
from ..trace.errors import user_line
from .arguments import ArrayLike, applied, described, of_one_dtype, of_one_shape
from .elementwise import (
    add,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    mul,
    population_count,
    shift_left,
    shift_right_arithmetic,
    shift_right_logical,
)
from .movement import iota, reshape


def bitcast_convert_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """The same bits read as another dtype, the lowest first.

    Of a narrower one the parts of each element are along a new last axis; of a wider one, a last axis that has as many elements
    as make one is gone. Raises ValueError if there is no such axis, TypeError for bools and complex numbers.

    >>> lax.bitcast_convert_type(tnp.array([1.0, -0.0]), "int32")
    Array([ 1065353216, -2147483648], dtype=int32)
    >>> parts = lax.bitcast_convert_type(tnp.array([1, 258], dtype="int16"), "uint8")
    >>> parts
    Array([[1, 0],
           [2, 1]], dtype=uint8)
    >>> lax.bitcast_convert_type(parts, "int16")
    Array([  1, 258], dtype=int16)
    """
    x, dtype = operators.operand(operand), dtypes.canonical(new_dtype)
    old, new = x.dtype.itemsize, dtype.itemsize
    if old == new:
        return applied(prims.bitcast, x, dtype=dtype)
    if dtypes.key in (x.dtype, dtype):
        raise TypeError(
            f"lax.bitcast_convert_type of {described([x])} to {dtypes.name(dtype)}; at {user_line()}: {dtypes.KEY_ADVICE}"
        )
    if builtins.any(dtypes.kind(t) not in ("signed", "unsigned", "float") for t in (x.dtype, dtype)):
        raise TypeError(
            f"lax.bitcast_convert_type of {described([x])} to {dtype.name}: bits of integers and floats alone are read as others "
            f"of another width; at {user_line()}"
        )
    given, wanted = (dtypes.canonical(f"uint{8 * width}") for width in (old, new))
    words = applied(prims.bitcast, x, dtype=given)
    if old > new:
        places = mul(iota(given, old // new), 8 * new)
        axes = (*(1,) * x.ndim, old // new)
        parts = shift_right_logical(reshape(words, (*x.shape, 1)), reshape(places, axes))
        return applied(prims.bitcast, operators.to_dtype(parts, wanted), dtype=dtype)
    if not x.ndim or x.shape[-1] != new // old:
        raise ValueError(
            f"lax.bitcast_convert_type of {described([x])} to {dtype.name} needs a last axis of {new // old} elements; at "
            f"{user_line()}"
        )
    places = mul(iota(wanted, new // old), 8 * old)
    moved = shift_left(operators.to_dtype(words, wanted), reshape(places, (*(1,) * (x.ndim - 1), new // old)))
    whole = applied(prims.reduce_sum, moved, axes=(x.ndim - 1,))  # of bits that no two of them have
    return applied(prims.bitcast, whole, dtype=dtype)


def clz(x: ArrayLike) -> Array:
    """The number of zero bits above the highest bit that is set; all of them for 0.

    >>> lax.clz(tnp.array([0, 1, 255], dtype="uint8"))
    Array([8, 7, 0], dtype=uint8)
    """
    x = operators.operand(x)
    width = 8 * x.dtype.itemsize
    shift = 1
    while shift < width:
        x = bitwise_or(x, shift_right_logical(x, shift))
        shift *= 2
    return population_count(bitwise_not(x))


def mulhi(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The upper half of the bits of the products of integers.

    >>> lax.mulhi(tnp.array([1 << 20, -1]), tnp.array([1 << 20, 1]))
    Array([256,  -1], dtype=int32)
    """
    a, b = of_one_shape("mulhi", of_one_dtype("mulhi", x, y))
    dtype = a.dtype
    if not dtypes.is_integer(dtype):
        raise TypeError(f"lax.mulhi works on integers, not on {described([a, b])}; at {user_line()}")
    width, signed = 8 * dtype.itemsize, dtypes.kind(dtype) == "signed"
    shift = shift_right_arithmetic if signed else shift_right_logical
    if width < 64:
        wide = dtypes.int64 if signed else dtypes.uint64
        product = mul(operators.to_dtype(a, wide), operators.to_dtype(b, wide))
        return operators.to_dtype(shift(product, width), dtype)
    # By halves of 32 bits, of which the lower ones are not negative: no sum of these exceeds 64 bits.
    low = (1 << 32) - 1
    (a1, a0), (b1, b0) = ((shift(v, 32), bitwise_and(v, low)) for v in (a, b))
    cross = add(mul(a1, b0), shift_right_logical(mul(a0, b0), 32))
    inner = add(mul(a0, b1), bitwise_and(cross, low))
    return add(add(mul(a1, b1), shift(cross, 32)), shift(inner, 32))
