"""Elementwise primitives: arithmetic, comparisons and bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtype as dtypes
from .. import formulas as f
from ..dtype import DType
from ..prim import (
    _FLOAT_OR_COMPLEX,
    _NUMBER_OR_COMPLEX,
    Binary,
    Unary,
    add_tangents,
    zeros_like,
)
from ..uop import UOp
from .comparison import eq
from .complex_numbers import REAL_TYPE, complex_, conj, real
from .exponential import log
from .rounding import floor, trunc
from .selection import where


class Neg(Unary):
    """-x

    >>> lax.neg(tnp.array([1, -2])), lax.neg(tnp.uint8(1))
    (Array([-1,  2], dtype=int32), Array(255, dtype=uint8))
    """

    kinds = _NUMBER_OR_COMPLEX

    def reference(self, x: Any) -> Any:
        return np.negative(x)

    def scalar(self, x: UOp) -> UOp:
        return f.negative(x)

    def partial(self, index: int, out: UOp, x: UOp) -> int:
        return -1


class Add(Binary):
    """x + y

    >>> lax.add(tnp.array([1, 2]), 10)
    Array([11, 12], dtype=int32)
    """

    kinds = _NUMBER_OR_COMPLEX
    reference = np.add

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.add(x, y)

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> int:
        return 1


class Accumulate(Add):
    """x + y, where x is the sum of others like y, which may be added up in any order."""


class Sub(Binary):
    """x - y

    >>> lax.sub(tnp.array([1, 2]), 10)
    Array([-9, -8], dtype=int32)
    """

    kinds = _NUMBER_OR_COMPLEX
    reference = np.subtract

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.add(x, f.negative(y))

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> int:
        return -1 if index else 1


class Mul(Binary):
    """x * y

    >>> lax.mul(tnp.array([1, 2]), 10)
    Array([10, 20], dtype=int32)
    """

    kinds = _NUMBER_OR_COMPLEX
    reference = np.multiply

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.mul(x, y)

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> UOp:
        return x if index else y


class MulZero(Binary):
    """x * y, but 0 wherever x is 0, whatever y is.

    The product of a (co)tangent x and a derivative y that may be infinite or NaN where the function is not used."""

    kinds = _FLOAT_OR_COMPLEX

    def reference(self, x: Any, y: Any) -> Any:
        return np.where(x == 0, x, x * y)

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.where(f.equal(x, 0.0), x, f.mul(x, y))

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> UOp | None:
        (x, y), (tx, ty) = args, tangents
        return add_tangents(
            [None if tx is None else mul_zero(tx, y), None if ty is None else mul_zero(x, ty)]
        )

    def vjp(self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool]) -> list[UOp | None]:
        x, y = args
        return [mul_zero(ct, y) if needs[0] else None, mul_zero(x, ct) if needs[1] else None]


class Div(Binary):
    """x / y; integers round towards zero, and give 0 for a division by zero.

    >>> lax.div(tnp.array([7, -7, 7]), tnp.array([2, 2, 0])), lax.div(7.0, 2.0)
    (Array([ 3, -3,  0], dtype=int32), Array(3.5, dtype=float32))
    """

    kinds = _NUMBER_OR_COMPLEX
    singular = True

    def reference(self, x: Any, y: Any) -> Any:
        if np.asarray(x).dtype.kind in "iu":
            quotient = np.floor_divide(x, y)
            inexact = (quotient * y != x) & ((x < 0) != (y < 0)) & (y != 0)
            return quotient + inexact.astype(quotient.dtype)
        return np.divide(x, y)

    def scalar(self, x: UOp, y: UOp) -> UOp:
        if dtypes.is_float(x.dtype):
            return f.div(x, y)
        quotient = f.floor_divide(x, y)
        if x.dtype in f.UNSIGNED:
            return quotient
        inexact = f.not_(f.equal(f.mul(quotient, y), x))
        up = f.and_(f.and_(inexact, f.less(f.xor(x, y), 0)), f.not_(f.equal(y, 0)))
        return f.add(quotient, f.cast(up, x.dtype))

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> UOp:
        return -(out / y) if index else 1.0 / y

    def values(self, dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray:
        values = super().values(dtype, shape, seed)
        return np.where(np.abs(values) < 0.25, np.asarray(1, dtype), values) if seed else values


class Rem(Binary):
    """The remainder of x / y with the sign of x (C's fmod); 0 for an integer division by zero.

    >>> lax.rem(tnp.array([7, -7, 7]), tnp.array([3, 3, 0])), lax.rem(-7.5, 2.0)
    (Array([ 1, -1,  0], dtype=int32), Array(-1.5, dtype=float32))
    """

    domain = (1.0, 7.0)
    reference: Callable[..., Any] = np.fmod

    def scalar(self, x: UOp, y: UOp) -> UOp:
        if dtypes.is_float(x.dtype):
            return f.in_float32(f.remainder, x, y)
        rest = f.floor_remainder(x, y)
        if x.dtype in f.UNSIGNED:
            return rest
        differ = f.and_(f.not_(f.equal(rest, 0)), f.less(f.xor(rest, x), 0))
        return f.where(differ, f.add(rest, f.negative(y)), rest)

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> UOp | int:
        return -trunc(x / y) if index else 1

    def values(self, dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray:
        values = super().values(dtype, shape, seed)
        return values if seed == 0 or not dtypes.is_float(dtype) else np.full_like(values, 7.3)


class FloorRemainder(Rem):
    """x modulo y, with the sign of y, also of zeros; 0 for an integer division by zero."""

    reference = np.remainder

    def scalar(self, x: UOp, y: UOp) -> UOp:
        if not dtypes.is_float(x.dtype):
            return f.floor_remainder(x, y)
        return f.in_float32(self.formula, x, y)

    def formula(self, x: UOp, y: UOp) -> UOp:
        """The scalar formula for float32 and float64."""
        rest = f.remainder(x, y)
        zero = f.flip_sign(f.constant(0.0, x.dtype), f.sign_bit(y))
        moved = f.where(_signs_differ(rest, y), f.add(rest, y), rest)
        return f.where(f.equal(rest, 0.0), zero, moved)

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> UOp | int:
        return -floor(x / y) if index else 1


class FloorDivide(Rem):
    """The greatest whole number that is not above x / y, from their exact remainder; 0 for an integer division by zero."""

    reference = np.floor_divide

    def scalar(self, x: UOp, y: UOp) -> UOp:
        if not dtypes.is_float(x.dtype):
            return f.floor_divide(x, y)
        return f.in_float32(self.formula, x, y)

    def formula(self, x: UOp, y: UOp) -> UOp:
        """The scalar formula for float32 and float64, which is NumPy's."""
        rest = f.remainder(x, y)
        quotient = f.div(f.add(x, f.negative(rest)), y)
        above = f.and_(f.not_(f.equal(rest, 0.0)), _signs_differ(rest, y))
        quotient = f.where(above, f.add(quotient, -1.0), quotient)
        # The quotient is a whole number but for its rounding.
        whole = f.trunc(quotient)
        whole = f.add(whole, f.where(f.less(quotient, whole), -1.0, -0.0, x.dtype))
        over = f.less(0.5, f.add(quotient, f.negative(whole)))
        whole = f.add(whole, f.where(over, 1.0, -0.0, x.dtype))
        zero = f.flip_sign(f.constant(0.0, x.dtype), f.xor(f.sign_bit(x), f.sign_bit(y)))
        return f.where(f.equal(y, 0.0), f.div(x, y), f.where(f.equal(quotient, 0.0), zero, whole))

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> None:
        return None


def _signs_differ(rest: UOp, y: UOp) -> UOp:
    return f.xor(f.less(rest, 0.0), f.less(y, 0.0))


class Pow(Binary):
    """x to the power y, of floats; NaN for a negative x with a y that is not whole."""

    kinds = _FLOAT_OR_COMPLEX
    ulp = (1.0, 1.5)
    singular = True
    domain = (0.25, 3.0)
    reference = np.power

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.in_float32(self.formula, x, y)

    def formula(self, x: UOp, y: UOp) -> UOp:
        """The scalar formula for float32 and float64: 2**(y log2 |x|), and the sign."""
        result = f.power_of_magnitude(x, y)
        # 1**y and x**0 are 1, of NaN too; |x| = 1 has no other power.
        result = f.where(f.or_(f.equal(f.magnitude(x), 1.0), f.equal(y, 0.0)), 1.0, result)
        # Whether y is whole, and whether its half is. Of two bools, one is less if it alone is false.
        half = f.mul(y, 0.5)
        whole, even = f.equal(f.trunc(y), y), f.equal(f.trunc(half), half)
        negative = f.and_(f.less(x, 0.0), f.less(-f.INF, x))
        sign = f.where(f.less(even, whole), f.sign_bit(x), 0)
        undefined = f.and_(f.less(whole, negative), f.not_(f.equal(y, 0.0)))
        return f.where(undefined, f.NAN, f.flip_sign(result, sign))

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> UOp:
        if index == 0:
            return y * pow(x, y - 1.0)
        # 0 ** y is 0 for every y > 0, so its derivative in y is 0, and not 0 * log(0).
        return where(eq(x, zeros_like(x)), zeros_like(x), out * log(x))


class IntegerPow(Unary):
    """x to a power that is a fixed integer."""

    kinds = _NUMBER_OR_COMPLEX
    params = ("exponent",)
    ulp = (4.0, 4.0)  # for exponents up to 4; grows with the exponent
    domain = (0.5, 2.0)

    def is_singular(self, *, exponent: int) -> bool:
        return exponent < 0

    def reference(self, x: Any, *, exponent: int) -> Any:
        x = np.asarray(x)
        if x.dtype.kind in "iu":
            # Modulo 2**64, and so modulo the dtype's power of 2, if the dtype does not have the exponent.
            wide = (
                x
                if exponent <= np.iinfo(x.dtype).max
                else x.astype(np.int64 if x.dtype.kind == "i" else np.uint64)
            )
            return np.power(wide, wide.dtype.type(exponent)).astype(x.dtype, copy=False)
        return np.power(x, exponent) if exponent >= 0 else np.reciprocal(np.power(x, -exponent))

    def out(self, x: Any, *, exponent: int) -> Any:
        if exponent < 0 and not dtypes.is_inexact(x.dtype):
            raise TypeError(
                f"{x.dtype.name} to the negative power {exponent} is not an integer (take .astype('float32') first)"
            )
        return super().out(x)

    def scalar(self, x: UOp, *, exponent: int) -> UOp:
        return f.in_float32(lambda wide: f.integer_power(wide, exponent), x)

    def partial(self, index: int, out: UOp, x: UOp, *, exponent: int) -> UOp | int | None:
        if exponent == 0:
            return None
        return 1 if exponent == 1 else float(exponent) * integer_pow(x, exponent=exponent - 1)

    def sample_params(self) -> dict[str, Any]:
        return {"exponent": 3}


class Abs(Unary):
    """|x|; the derivative at 0 is 0.

    >>> lax.abs(tnp.array([-2, 3])), lax.abs(3.0 + 4.0j)
    (Array([2, 3], dtype=int32), Array(5., dtype=float32))
    """

    kinds = _NUMBER_OR_COMPLEX
    reference = np.abs

    def scalar(self, x: UOp) -> UOp:
        if x.dtype in f.UNSIGNED:
            return x
        return f.magnitude(x) if dtypes.is_float(x.dtype) else f.maximum(x, f.negative(x))

    def out(self, x: Any) -> Any:
        dtype, shape = super().out(x)
        return REAL_TYPE.get(dtype, dtype), shape

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return sign(x)

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> UOp | None:
        (x,), (tangent,) = args, tangents
        if tangent is None or x.dtype not in REAL_TYPE:
            return super().jvp(out, args, tangents)
        return real(tangent * conj(sign(x)))

    def vjp(self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool]) -> list[UOp | None]:
        (x,) = args
        if x.dtype not in REAL_TYPE:
            return super().vjp(ct, out, args, needs)
        return [complex_(ct, zeros_like(ct)) * conj(sign(x))]


class Sign(Unary):
    """-1, 0 or 1 as x is negative, zero or positive; NaN for NaN. Of a complex number x / |x|, and 0 for 0.

    >>> lax.sign(tnp.array([-2, 0, 5])), lax.sign(2.0j)
    (Array([-1,  0,  1], dtype=int32), Array(0.+1.j, dtype=complex64))
    """

    kinds = _NUMBER_OR_COMPLEX

    def reference(self, x: Any) -> Any:
        found = np.sign(x)
        return found + np.zeros((), found.dtype)  # 0.0 for -0.0, also of bfloat16

    def scalar(self, x: UOp) -> UOp:
        if x.dtype in f.UNSIGNED:
            return f.cast(f.less(0, x), x.dtype)
        rest = f.add(x, 0.0) if dtypes.is_float(x.dtype) else 0  # 0.0 for -0.0, and NaN
        return f.where(f.less(0, x), 1, f.where(f.less(x, 0), -1, rest, x.dtype))

    def partial(self, index: int, out: UOp, x: UOp) -> None:
        return None

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> UOp | None:
        (x,), (tangent,) = args, tangents
        if tangent is None or x.dtype not in REAL_TYPE:
            return None
        along = real(tangent * conj(out))
        return _over_magnitude(tangent - out * complex_(along, zeros_like(along)), x)

    def vjp(self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool]) -> list[UOp | None]:
        (x,) = args
        if x.dtype not in REAL_TYPE:
            return [None]
        along = real(ct * out)
        return [_over_magnitude(ct - conj(out) * complex_(along, zeros_like(along)), x)]


def _over_magnitude(y: UOp, x: UOp) -> UOp:
    """y / |x| of complex numbers, 0 where y is."""
    inverse = 1.0 / abs(x)
    return mul_zero(y, complex_(inverse, zeros_like(inverse)))


neg, add, sub, mul, mul_zero, div, rem = Neg(), Add(), Sub(), Mul(), MulZero(), Div(), Rem()
accumulate = Accumulate()
floor_divide, floor_remainder = FloorDivide(), FloorRemainder()
pow, integer_pow, abs, sign = Pow(), IntegerPow(), Abs(), Sign()
