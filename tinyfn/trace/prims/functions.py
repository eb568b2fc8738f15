"""Elementwise primitives: what functions of floats have in common, and roots."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import formulas as f
from ..prim import _FLOAT_OR_COMPLEX, _INEXACT, Unary
from ..uop import UOp


class Function(Unary):
    """A function of a float. Its `formula` is for float32 and float64; half precision is computed in float32."""

    kinds: tuple[str, ...] = _INEXACT
    odd = False  # True: the formula is for |x|, and the result has the sign of x

    def formula(self, x: UOp) -> UOp:
        """The scalar formula for float32 and float64."""
        raise NotImplementedError

    def scalar(self, x: UOp) -> UOp:
        return f.in_float32(f.odd(self.formula) if self.odd else self.formula, x)


class Sqrt(Function):
    """The square root; NaN below 0.

    >>> lax.sqrt(tnp.array([9.0, -1.0])), lax.sqrt(-4.0 + 0.0j)
    (Array([ 3., nan], dtype=float32), Array(0.+2.j, dtype=complex64))
    """

    kinds = _FLOAT_OR_COMPLEX
    singular = True
    domain = (0.1, 4.0)
    reference = np.sqrt

    def scalar(self, x: UOp) -> UOp:
        return f.sqrt(x)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 0.5 / out


class Rsqrt(Sqrt):
    """1 / sqrt(x); infinite at 0, NaN below.

    >>> lax.rsqrt(tnp.array([4.0, 0.0, -1.0]))
    Array([0.5, inf, nan], dtype=float32)
    """

    ulp = (1.5, 1.5)

    def reference(self, x: Any) -> Any:
        return np.reciprocal(np.sqrt(x))

    def scalar(self, x: UOp) -> UOp:
        return f.in_float32(lambda wide: f.reciprocal(f.sqrt(wide)), x)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return -0.5 * (out / x)


class Cbrt(Function):
    """The cube root, negative for negative x.

    >>> lax.cbrt(tnp.array([-8.0, 27.0])).round(3)
    Array([-2.,  3.], dtype=float32)
    """

    ulp = (1.0, 1.0)
    odd = True
    singular = True
    domain = (0.1, 4.0)
    reference = np.cbrt

    def formula(self, a: UOp) -> UOp:
        dtype = a.dtype
        form = f.FORMATS[dtype]
        subnormal = f.less(a, 2.0 ** (1 - form.bias))
        lift = form.mantissa // 3 + 1
        scaled = f.mul(a, f.where(subnormal, 8.0**lift, 1.0, dtype))
        third = f.fma(f.cast(f.bits(scaled), dtype), -1 / 3, f.CBRT_START[dtype])
        inverse = f.from_bits(f.cast(third, form.integer), dtype)
        for coefficients in f.CBRT_STEPS[dtype]:
            h = f.fma(f.mul(scaled, inverse), f.mul(inverse, inverse), -1.0)
            inverse = f.fma(f.mul(inverse, h), f.polynomial(h, coefficients), inverse)
        square = f.mul(inverse, inverse)
        root = f.mul(scaled, square)
        # Newton's step for root³ = scaled, with 1/root² = square.
        rest = f.fma(f.mul(root, root), root, f.negative(scaled))
        root = f.fma(rest, f.mul(square, -1 / 3), root)
        return f.where(f.less(a, f.INF), f.mul(root, f.where(subnormal, 2.0**-lift, 1.0, dtype)), a)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return (1.0 / 3.0) / (out * out)


sqrt, rsqrt, cbrt = Sqrt(), Rsqrt(), Cbrt()
