"""Elementwise primitives: functions of floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..prim import _INEXACT, Binary, Unary
from ..uop import UOp
from .special import erf_inv_reference, erf_reference, erfc_reference


class _Function(Unary):
    """A function of a float."""

    kinds = _INEXACT


class Exp(_Function):
    """e to the power x."""

    ulp = 2
    reference = np.exp

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return out


class Exp2(_Function):
    """2 to the power x."""

    ulp = 2
    reference = np.exp2

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return out * float(np.log(2))


class Expm1(_Function):
    """exp(x) - 1, exact near 0."""

    ulp = 2
    reference = np.expm1

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return exp(x)


class Log(_Function):
    """The natural logarithm; NaN below 0."""

    ulp = 2
    singular = True
    domain = (0.1, 4.0)
    reference: Callable[..., Any] = np.log

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 1.0 / x


class Log2(Log):
    """The logarithm to base 2; NaN below 0."""

    reference = np.log2

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return float(1 / np.log(2)) / x


class Log1p(Log):
    """log(1 + x), exact near 0."""

    domain = (-0.8, 3.0)
    reference = np.log1p

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 1.0 / (1.0 + x)


class Sin(_Function):
    """The sine of x (radians)."""

    ulp = 2
    reference = np.sin

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return cos(x)


class Cos(_Function):
    """The cosine of x (radians)."""

    ulp = 2
    reference = np.cos

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return -sin(x)


class Tan(_Function):
    """The tangent of x (radians)."""

    ulp = 4
    domain = (-1.3, 1.3)
    reference = np.tan

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 1.0 + out * out


class Asin(_Function):
    """The arc sine, in [-pi/2, pi/2]; NaN outside [-1, 1]."""

    ulp = 4
    singular = True
    domain = (-0.9, 0.9)
    reference: Callable[..., Any] = np.arcsin

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return rsqrt((1.0 - x) * (1.0 + x))


class Acos(Asin):
    """The arc cosine, in [0, pi]; NaN outside [-1, 1]."""

    reference = np.arccos

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return -rsqrt((1.0 - x) * (1.0 + x))


class Atan(_Function):
    """The arc tangent, in [-pi/2, pi/2]."""

    ulp = 4
    reference = np.arctan

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 1.0 / (1.0 + x * x)


class Atan2(Binary):
    """The angle in [-pi, pi] of the point (y, x); its arguments come in that order."""

    kinds = _INEXACT
    ulp = 4
    singular = True
    domain = (0.2, 3.0)
    reference = np.arctan2

    def partial(self, index: int, out: UOp, y: UOp, x: UOp) -> UOp:
        squared = x * x + y * y
        return -(y / squared) if index else x / squared


class Sinh(_Function):
    """The hyperbolic sine."""

    ulp = 4
    reference = np.sinh

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return cosh(x)


class Cosh(_Function):
    """The hyperbolic cosine."""

    ulp = 4
    reference = np.cosh

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return sinh(x)


class Tanh(_Function):
    """The hyperbolic tangent."""

    ulp = 4
    reference = np.tanh

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 1.0 - out * out


class Asinh(_Function):
    """The inverse hyperbolic sine."""

    ulp = 4
    reference = np.arcsinh

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return rsqrt(x * x + 1.0)


class Acosh(_Function):
    """The inverse hyperbolic cosine; NaN below 1."""

    ulp = 4
    singular = True
    domain = (1.2, 4.0)
    reference = np.arccosh

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return rsqrt((x - 1.0) * (x + 1.0))


class Atanh(_Function):
    """The inverse hyperbolic tangent; infinite at -1 and 1, NaN outside."""

    ulp = 4
    singular = True
    domain = (-0.9, 0.9)
    reference = np.arctanh

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 1.0 / ((1.0 - x) * (1.0 + x))


class Sqrt(_Function):
    """The square root; NaN below 0."""

    singular = True
    domain = (0.1, 4.0)
    reference = np.sqrt

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 0.5 / out


class Rsqrt(Sqrt):
    """1 / sqrt(x); infinite at 0, NaN below."""

    ulp = 2

    def reference(self, x: Any) -> Any:
        return np.reciprocal(np.sqrt(x))

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return -0.5 * (out / x)


class Cbrt(_Function):
    """The cube root, negative for negative x."""

    ulp = 4
    singular = True
    domain = (0.1, 4.0)
    reference = np.cbrt

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return (1.0 / 3.0) / (out * out)


class Logistic(_Function):
    """1 / (1 + exp(-x)), the sigmoid."""

    ulp = 4

    def reference(self, x: Any) -> Any:
        # Through exp(-|x|), which does not overflow.
        decay = np.exp(-np.abs(x))
        return np.where(x >= 0, 1 / (1 + decay), decay / (1 + decay)).astype(np.asarray(x).dtype)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return out * (1.0 - out)


class Erf(_Function):
    """The error function, 2/sqrt(pi) times the integral of exp(-t²) from 0 to x."""

    ulp = 4

    def reference(self, x: Any) -> Any:
        return erf_reference(x)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return float(2 / np.sqrt(np.pi)) * exp(-(x * x))


class Erfc(_Function):
    """1 - erf(x), exact for large x."""

    ulp = 8

    def reference(self, x: Any) -> Any:
        return erfc_reference(x)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return float(-2 / np.sqrt(np.pi)) * exp(-(x * x))


class ErfInv(_Function):
    """The inverse of the error function; infinite at -1 and 1, NaN outside."""

    ulp = 8
    singular = True
    domain = (-0.9, 0.9)

    def reference(self, x: Any) -> Any:
        return erf_inv_reference(x)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return float(np.sqrt(np.pi) / 2) * exp(out * out)


class _Step(_Function):
    """A function that is constant between its jumps, so that its derivative is zero."""

    def partial(self, index: int, out: UOp, x: UOp) -> None:
        return None


class Floor(_Step):
    """The greatest whole number that is not above x."""

    reference = np.floor


class Ceil(_Step):
    """The least whole number that is not below x."""

    reference = np.ceil


class Round(_Step):
    """The nearest whole number, the even one of two that are equally near."""

    reference = np.rint


class Trunc(_Step):
    """The whole number next to x towards zero."""

    reference = np.trunc


class IsFinite(Unary):
    """Whether x is neither infinite nor NaN."""

    kinds = _INEXACT
    result = dtypes.bool_
    reference: Callable[..., Any] = np.isfinite


class IsNan(IsFinite):
    """Whether x is NaN."""

    reference = np.isnan


class IsInf(IsFinite):
    """Whether x is infinite."""

    reference = np.isinf


class Nextafter(Binary):
    """The float next to x towards y; y if they are equal."""

    kinds = _INEXACT

    def reference(self, x: Any, y: Any) -> Any:
        return np.where(x == y, y, np.nextafter(x, y))  # NumPy gives x for zeros of float16

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> int | None:
        return None if index else 1


exp, exp2, expm1, log, log2, log1p = Exp(), Exp2(), Expm1(), Log(), Log2(), Log1p()
sin, cos, tan, asin, acos, atan, atan2 = Sin(), Cos(), Tan(), Asin(), Acos(), Atan(), Atan2()
sinh, cosh, tanh, asinh, acosh, atanh = Sinh(), Cosh(), Tanh(), Asinh(), Acosh(), Atanh()
sqrt, rsqrt, cbrt, logistic, erf, erfc, erf_inv = Sqrt(), Rsqrt(), Cbrt(), Logistic(), Erf(), Erfc(), ErfInv()
floor, ceil, round, trunc, nextafter = Floor(), Ceil(), Round(), Trunc(), Nextafter()
is_finite, is_nan, is_inf = IsFinite(), IsNan(), IsInf()
