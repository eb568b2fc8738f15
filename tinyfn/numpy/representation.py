"""Numbers and arrays taken apart into digits, bits and text. Imported when one of them is first used."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace.array import Array
from ..trace.index import reshape
from ..trace.prims.movement import move_axis
from .arithmetic import (
    abs as abs_,
)
from .arithmetic import (
    multiply,
    subtract,
)
from .common import (
    ArrayLike,
    at_user,
    axis_of,
    cast,
    concatenate_arrays,
    described,
    full_of,
    inexact,
    iota,
    operand,
)
from .elementary import (
    log2,
)
from .floats import (
    copysign,
    floor,
    ldexp,
    nextafter,
    trunc,
)
from .logic import (
    bitwise_and,
    isfinite,
    isinf,
    not_equal,
    right_shift,
    where,
)
from .reductions import sum as sum_


def modf(x: ArrayLike, /) -> tuple[Array, Array]:
    """The fractional and the whole part of floats, both with their sign.

    >>> tnp.modf(tnp.array([-1.5, 2.25]))
    (Array([-0.5 ,  0.25], dtype=float32), Array([-1.,  2.], dtype=float32))
    """
    a = inexact(x, "modf")
    whole = trunc(a)
    fraction = where(isinf(a), 0, subtract(a, whole))
    return copysign(fraction, a), whole


def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """The m with 0.5 <= |m| < 1, and the int32 e, with x = m * 2**e; 0, infinities and NaN have e = 0.

    >>> tnp.frexp(tnp.array([8.0, -0.75, 0.0]))
    (Array([ 0.5 , -0.75,  0.  ], dtype=float32), Array([4, 0, 0], dtype=int32))
    """
    a = inexact(x, "frexp")
    if not dtypes.is_float(a.dtype):
        raise TypeError(f"frexp takes real numbers, not {described(a)}{at_user()}")
    ordinary = bitwise_and(isfinite(a), not_equal(a, 0))
    size = where(ordinary, abs_(a), 1)
    exponent = cast(floor(log2(size)), dtypes.int32)
    # The logarithm may be rounded to the next whole number: the quotient says which way.
    quotient = ldexp(size, -exponent)
    exponent = exponent + where(quotient >= 2, 1, 0) - where(quotient < 1, 1, 0) + 1
    exponent = where(ordinary, exponent, 0)
    return where(ordinary, ldexp(a, -exponent), a), exponent


def spacing(x: ArrayLike, /) -> Array:
    """The distance to the next float away from 0, with the sign of x; NaN for infinities and NaN.

    >>> tnp.spacing(tnp.array([1.0, -2.0])) * 2**23
    Array([ 1., -2.], dtype=float32)
    """
    a = inexact(x, "spacing")
    away = where(a < 0, -float("inf"), float("inf"))
    return where(isfinite(a), subtract(nextafter(a, away), a), float("nan"))


def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Every 8 elements along an axis (of the raveled array, for None) as the bits of a uint8, zeros filling up at the end.

    >>> tnp.packbits(tnp.array([1, 0, 0, 0, 0, 0, 1, 1, 1]))
    Array([131, 128], dtype=uint8)
    >>> tnp.packbits(tnp.array([1, 0, 1]), bitorder="little")
    Array([5], dtype=uint8)
    """
    x, place = _axis(a, axis, bitorder, "packbits")
    bits = cast(move_axis(not_equal(x, 0), place, x.ndim - 1), dtypes.uint8)
    n = bits.shape[-1]
    missing = -n % 8
    if missing:
        bits = concatenate_arrays(
            [bits, full_of(0, dtypes.uint8, (*bits.shape[:-1], missing))], bits.ndim - 1
        )
    bits = reshape(bits, (*bits.shape[:-1], (n + missing) // 8, 8))
    packed = sum_(multiply(bits, _powers(bitorder)), -1, dtypes.uint8)
    return move_axis(packed, packed.ndim - 1, place)


def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """The bits of uint8 numbers, as 0 and 1, along an axis (of the raveled array, for None); `count` crops them or fills up.

    >>> tnp.unpackbits(tnp.array([5], tnp.uint8))
    Array([0, 0, 0, 0, 0, 1, 0, 1], dtype=uint8)
    >>> tnp.unpackbits(tnp.array([5], tnp.uint8), count=3, bitorder="little")
    Array([1, 0, 1], dtype=uint8)
    """
    x, place = _axis(a, axis, bitorder, "unpackbits")
    if x.dtype is not dtypes.uint8:
        raise TypeError(f"unpackbits takes uint8, not {described(x)}{at_user()}")
    x = move_axis(x, place, x.ndim - 1)
    shifts = iota(dtypes.uint8, (8,), 0)
    shifts = subtract(7, shifts) if bitorder == "big" else shifts
    bits = bitwise_and(right_shift(reshape(x, (*x.shape, 1)), shifts), 1)
    bits = reshape(bits, (*x.shape[:-1], 8 * x.shape[-1]))
    if count is not None:
        have = bits.shape[-1]
        stop = count if count >= 0 else have + count
        if stop > have:
            more = full_of(0, dtypes.uint8, (*bits.shape[:-1], stop - have))
            bits = concatenate_arrays([bits, more], bits.ndim - 1)
        bits = bits[..., :stop]
    return move_axis(bits, bits.ndim - 1, place)


def _axis(a: ArrayLike, axis: int | None, bitorder: str, what: str) -> tuple[Array, int]:
    if bitorder not in ("big", "little"):
        raise ValueError(f"{what}: bitorder must be 'big' or 'little', not {bitorder!r}{at_user()}")
    x = operand(a, what)
    if x.dtype.kind not in "biu":
        raise TypeError(f"{what} takes integers or bools, not {described(x)}{at_user()}")
    return (reshape(x, (x.size,)), 0) if axis is None else (x, axis_of(axis, x.ndim, what))


def _powers(bitorder: str) -> Array:
    powers = np.array([1, 2, 4, 8, 16, 32, 64, 128], np.uint8)
    return o.operand(powers[::-1].copy() if bitorder == "big" else powers)


def array_repr(arr: ArrayLike, *args: Any, **options: Any) -> str:
    """NumPy's text of an array as an expression.

    >>> tnp.array_repr(tnp.array([1.0, 2.0]))
    'array([1., 2.], dtype=float32)'
    """
    return np.array_repr(np.asarray(arr), *args, **options)


def array_str(a: ArrayLike, *args: Any, **options: Any) -> str:
    """NumPy's text of an array's elements.

    >>> tnp.array_str(tnp.array([1.0, 2.0]))
    '[1. 2.]'
    """
    return np.array_str(np.asarray(a), *args, **options)


__all__ = ["array_repr", "array_str", "frexp", "modf", "packbits", "spacing", "unpackbits"]
