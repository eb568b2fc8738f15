"""Elementwise primitives: trigonometric functions and their inverses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import formulas as f
from ..prim import _FLOAT_OR_COMPLEX, _INEXACT, Binary
from ..uop import UOp
from .functions import Function, rsqrt


class Sin(Function):
    """The sine of x (radians).

    >>> lax.sin(tnp.array([0.0, np.pi / 2]))
    Array([0., 1.], dtype=float32)
    """

    kinds = _FLOAT_OR_COMPLEX
    ulp = (2.0, 1.5)
    odd = True
    reference = np.sin

    def formula(self, a: UOp) -> UOp:
        angle = f.REDUCE[a.dtype](a)
        sine, cosine = f.sin_and_cos(angle)
        return f.flip_sign(
            f.where(f.is_odd(angle.quadrant), cosine, sine), f.second_bit_as_sign(angle.quadrant)
        )

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return cos(x)


class Cos(Function):
    """The cosine of x (radians).

    >>> lax.cos(tnp.array([0.0, np.pi]))
    Array([ 1., -1.], dtype=float32)
    """

    kinds = _FLOAT_OR_COMPLEX
    ulp = (2.0, 1.5)
    reference = np.cos

    def formula(self, x: UOp) -> UOp:
        angle = f.REDUCE[x.dtype](f.magnitude(x))
        sine, cosine = f.sin_and_cos(angle)
        sign = f.second_bit_as_sign(f.add(angle.quadrant, 1))
        return f.flip_sign(f.where(f.is_odd(angle.quadrant), sine, cosine), sign)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return -sin(x)


class Tan(Function):
    """The tangent of x (radians).

    >>> lax.tan(tnp.array([0.0, np.pi / 4])).round(4)
    Array([0., 1.], dtype=float32)
    """

    kinds = _FLOAT_OR_COMPLEX
    ulp = (3.5, 3.0)
    odd = True
    domain = (-1.3, 1.3)
    reference = np.tan

    def formula(self, a: UOp) -> UOp:
        angle = f.REDUCE[a.dtype](a)
        sine, cosine = f.sin_and_cos(angle)
        odd = f.is_odd(angle.quadrant)
        ratio = f.div(f.where(odd, cosine, sine), f.where(odd, sine, cosine))
        return f.flip_sign(ratio, f.where(odd, f.sign_mask(a.dtype), 0, angle.quadrant.dtype))

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 1.0 + out * out


class Asin(Function):
    """The arc sine, in [-pi/2, pi/2]; NaN outside [-1, 1].

    >>> lax.asin(tnp.array([0.0, 1.0, 2.0])).round(4)
    Array([0.    , 1.5708,    nan], dtype=float32)
    """

    kinds = _FLOAT_OR_COMPLEX
    ulp = (2.5, 2.5)
    odd = True
    singular = True
    domain = (-0.9, 0.9)
    reference: Callable[..., Any] = np.arcsin

    def formula(self, a: UOp) -> UOp:
        outer, angle = f.asin_halves(a)
        return f.where(outer, f.fma(angle, -2.0, 0.5 * f.PI), angle)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return rsqrt((1.0 - x) * (1.0 + x))


class Acos(Asin):
    """The arc cosine, in [0, pi]; NaN outside [-1, 1].

    >>> lax.acos(tnp.array([1.0, -1.0, 2.0])).round(4)
    Array([0.    , 3.1416,    nan], dtype=float32)
    """

    ulp = (1.5, 1.5)
    odd = False
    reference = np.arccos

    def formula(self, x: UOp) -> UOp:
        outer, angle = f.asin_halves(f.magnitude(x))
        negative = f.less(x, 0.0)
        inner = f.add(f.flip_sign(angle, f.xor(f.sign_bit(x), f.sign_mask(x.dtype))), 0.5 * f.PI)
        double = f.add(angle, angle)
        return f.where(outer, f.where(negative, f.fma(double, -1.0, f.PI), double), inner)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return -rsqrt((1.0 - x) * (1.0 + x))


class Atan(Function):
    """The arc tangent, in [-pi/2, pi/2].

    >>> lax.atan(tnp.array([0.0, 1.0, np.inf])).round(4)
    Array([0.    , 0.7854, 1.5708], dtype=float32)
    """

    kinds = _FLOAT_OR_COMPLEX
    ulp = (2.0, 2.0)
    odd = True
    reference = np.arctan

    def formula(self, a: UOp) -> UOp:
        outer = f.less(1.0, a)
        t = f.where(outer, f.reciprocal(a), a)
        angle = f.series(t, f.mul(t, t), f.ATAN_POLYNOMIAL[a.dtype])
        return f.where(outer, f.fma(angle, -1.0, 0.5 * f.PI), angle)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 1.0 / (1.0 + x * x)


class Atan2(Binary):
    """The angle in [-pi, pi] of the point (y, x); its arguments come in that order.

    >>> lax.atan2(tnp.array([0.0, 1.0, 0.0]), tnp.array([1.0, 0.0, -1.0])).round(4)
    Array([0.    , 1.5708, 3.1416], dtype=float32)
    """

    ulp = (2.5, 2.0)
    kinds = _INEXACT
    singular = True
    domain = (0.2, 3.0)
    reference = np.arctan2

    def scalar(self, y: UOp, x: UOp) -> UOp:
        return f.in_float32(self.formula, y, x)

    def formula(self, y: UOp, x: UOp) -> UOp:
        """The scalar formula for float32 and float64."""
        a, b = f.magnitude(y), f.magnitude(x)
        steep = f.less(b, a)
        larger, smaller = f.maximum(a, b), f.minimum(a, b)
        # 0/0 is an angle of 0, and infinity/infinity one of pi/4.
        smallest = f.from_bits(f.constant(1, f.FORMATS[x.dtype].integer), x.dtype)
        t = f.where(f.equal(smaller, f.INF), 1.0, f.div(smaller, f.maximum(larger, smallest)))
        angle = f.series(t, f.mul(t, t), f.ATAN_POLYNOMIAL[x.dtype])
        angle = f.where(steep, f.fma(angle, -1.0, 0.5 * f.PI), angle)
        angle = f.where(f.less(f.bits(x), 0), f.fma(angle, -1.0, f.PI), angle)
        return f.flip_sign(angle, f.sign_bit(y))

    def partial(self, index: int, out: UOp, y: UOp, x: UOp) -> UOp:
        squared = x * x + y * y
        return -(y / squared) if index else x / squared


sin, cos, tan, asin, acos, atan, atan2 = Sin(), Cos(), Tan(), Asin(), Acos(), Atan(), Atan2()
