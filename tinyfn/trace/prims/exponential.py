"""Elementwise primitives: exponentials, logarithms and hyperbolic functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import formulas as f
from ..prim import _FLOAT_OR_COMPLEX
from ..uop import UOp
from .functions import Function, rsqrt


class Exp(Function):
    """e to the power x.

    >>> lax.exp(tnp.array([0.0, -np.inf, 1000.0]))
    Array([ 1.,  0., inf], dtype=float32)
    """

    kinds = _FLOAT_OR_COMPLEX
    ulp = (2.0, 1.5)
    reference = np.exp

    def formula(self, x: UOp) -> UOp:
        return f.scaled(*f.exp_parts(f.clipped(x, f.EXP_RANGE[x.dtype])))

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return out


class Exp2(Function):
    """2 to the power x.

    >>> lax.exp2(tnp.array([3.0, -1.0]))
    Array([8. , 0.5], dtype=float32)
    """

    kinds = _FLOAT_OR_COMPLEX
    ulp = (1.5, 1.5)
    reference = np.exp2

    def formula(self, x: UOp) -> UOp:
        return f.scaled(*f.exp2_parts(f.clipped(x, f.EXP2_RANGE[x.dtype])))

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return out * float(np.log(2))


class Expm1(Function):
    """exp(x) - 1, exact near 0.

    >>> lax.expm1(tnp.array([0.0, 1e-10, -np.inf]))
    Array([ 0.e+00,  1.e-10, -1.e+00], dtype=float32)
    """

    kinds = _FLOAT_OR_COMPLEX
    ulp = (2.0, 2.0)

    def reference(self, x: Any) -> Any:
        x = np.asarray(x)
        return _complex_expm1(x) if x.dtype.kind == "c" else np.expm1(x)

    def formula(self, x: UOp) -> UOp:
        dtype = x.dtype
        high, low = f.LN2[dtype]
        clipped = f.clipped(x, f.EXPM1_RANGE[dtype])
        k, half_power = f.rounded(clipped, f.LOG2_E[dtype], -1)
        r = f.fma(k, -low, f.fma(k, -high, clipped))
        half = f.fma(half_power, f.expm1_reduced(r), f.add(half_power, -0.5))
        return f.where(f.less(f.magnitude(x), f.TINY[dtype]), x, f.add(half, half))

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return exp(x)


def _complex_expm1(z: np.ndarray) -> np.ndarray:
    """exp(z) - 1 with a real part that is exact near 0, and with the infinities and NaNs of exp."""
    real, imaginary = np.real(z), np.imag(z)
    half = np.sin(0.5 * imaginary).astype(real.dtype)
    result = np.asarray(np.exp(z) - 1)
    exact = np.expm1(real) * np.cos(imaginary) - 2 * half * half
    finite = np.isfinite(real) & np.isfinite(imaginary)
    result.real = np.where(finite, exact + 0.0, result.real)
    return result


class Log(Function):
    """The natural logarithm; NaN below 0.

    >>> lax.log(tnp.array([1.0, 0.0, -1.0]))
    Array([  0., -inf,  nan], dtype=float32)
    """

    kinds = _FLOAT_OR_COMPLEX
    ulp = (1.5, 1.5)
    singular = True
    domain = (0.1, 4.0)
    reference: Callable[..., Any] = np.log

    def formula(self, x: UOp) -> UOp:
        exponent, fraction = f.exponent_fraction(x)
        reduced = f.log1p_reduced(fraction, f.LOG_POLYNOMIAL[x.dtype])
        return f.log_specials(f.fma(exponent, f.LN2[x.dtype][0], reduced), x, 0.0)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 1.0 / x


class Log2(Log):
    """The logarithm to base 2; NaN below 0."""

    ulp = (2.0, 1.5)
    reference = np.log2

    def formula(self, x: UOp) -> UOp:
        exponent, fraction = f.exponent_fraction(x)
        rest = f.mul(fraction, f.polynomial(fraction, f.LOG2_POLYNOMIAL[x.dtype]))
        return f.log_specials(f.add(exponent, f.fma(fraction, f.LOG2_E[x.dtype], rest)), x, 0.0)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return float(1 / np.log(2)) / x


class Log1p(Log):
    """log(1 + x), exact near 0.

    >>> lax.log1p(tnp.array([0.0, 1e-10, -1.0]))
    Array([0.e+00, 1.e-10,   -inf], dtype=float32)
    """

    ulp = (2.0, 1.5)
    domain = (-0.8, 3.0)
    reference = np.log1p

    def formula(self, x: UOp) -> UOp:
        return f.log_specials(f.where(f.equal(x, 0.0), x, f.log1p_finite(x)), x, -1.0)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 1.0 / (1.0 + x)


class Sinh(Function):
    """The hyperbolic sine.

    >>> lax.sinh(tnp.array([0.0, -np.inf]))
    Array([  0., -inf], dtype=float32)
    """

    kinds = _FLOAT_OR_COMPLEX
    ulp = (4.0, 3.0)
    odd = True
    reference = np.sinh

    def formula(self, a: UOp) -> UOp:
        cosh, sinh, total, difference = f.hyperbolic_parts(a)
        half = f.fma(total, sinh, f.mul(difference, cosh))
        return f.where(f.less(a, f.SINH_TINY[a.dtype]), a, f.add(half, half))

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return cosh(x)


class Cosh(Function):
    """The hyperbolic cosine.

    >>> lax.cosh(tnp.array([0.0, -np.inf]))
    Array([ 1., inf], dtype=float32)
    """

    kinds = _FLOAT_OR_COMPLEX
    ulp = (3.0, 2.5)
    reference = np.cosh

    def formula(self, x: UOp) -> UOp:
        cosh, sinh, total, difference = f.hyperbolic_parts(f.magnitude(x))
        half = f.fma(total, cosh, f.mul(difference, sinh))
        return f.add(half, half)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return sinh(x)


class Tanh(Function):
    """The hyperbolic tangent.

    >>> lax.tanh(tnp.array([0.0, -1000.0, 1000.0]))
    Array([ 0., -1.,  1.], dtype=float32)
    """

    kinds = _FLOAT_OR_COMPLEX
    ulp = (3.0, 2.0)
    odd = True

    def reference(self, x: Any) -> Any:
        result = np.asarray(np.tanh(x))
        if result.dtype.kind == "c":
            # At infinity the imaginary part is a zero, to which the array API standard gives the argument's sign.
            imaginary = np.imag(x)
            settled = np.isinf(np.real(x)) & np.isfinite(imaginary)
            result.imag = np.where(settled, np.copysign(0.0, imaginary), result.imag)
        return result

    def formula(self, a: UOp) -> UOp:
        # t/(t + 2) with t = exp(2a) - 1, where 2a = k ln 2 + 2r.
        dtype = a.dtype
        high, low = f.LN2[dtype]
        a = f.minimum(a, f.TANH_LAST[dtype])
        k, power = f.rounded(a, 2 * f.LOG2_E[dtype], 0)
        r = f.fma(k, -0.5 * low, f.fma(k, -0.5 * high, a))
        t = f.fma(power, f.expm1_reduced(f.add(r, r)), f.add(power, -1.0))
        return f.div(t, f.add(t, 2.0))

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 1.0 - out * out


class Asinh(Function):
    """The inverse hyperbolic sine.

    >>> lax.asinh(tnp.array([-np.inf, 0.0]))
    Array([-inf,   0.], dtype=float32)
    """

    kinds = _FLOAT_OR_COMPLEX
    ulp = (2.5, 2.5)
    odd = True
    reference = np.arcsinh

    def formula(self, a: UOp) -> UOp:
        # log(a + sqrt(a² + 1)) with the 1 taken out: a + a²/(1 + sqrt(a² + 1)).
        large = f.less(f.LARGE[a.dtype], a)
        square = f.mul(a, a)
        rest = f.div(square, f.add(f.sqrt(f.add(square, 1.0)), 1.0))
        logarithm = f.log1p_finite(f.where(large, a, f.add(a, rest)))
        result = f.add(logarithm, f.where(large, f.LN2[a.dtype][0], 0.0, a.dtype))
        return f.where(f.less(a, f.INF), result, a)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return rsqrt(x * x + 1.0)


class Acosh(Function):
    """The inverse hyperbolic cosine; NaN below 1.

    >>> lax.acosh(tnp.array([1.0, np.inf, 0.0]))
    Array([ 0., inf, nan], dtype=float32)
    """

    kinds = _FLOAT_OR_COMPLEX
    ulp = (2.5, 2.5)
    singular = True
    domain = (1.2, 4.0)
    reference = np.arccosh

    def formula(self, x: UOp) -> UOp:
        large = f.less(f.LARGE[x.dtype], x)
        t = f.add(x, -1.0)
        root = f.sqrt(f.fma(t, t, f.add(t, t)))
        logarithm = f.log1p_finite(f.where(large, x, f.add(t, root)))
        result = f.add(logarithm, f.where(large, f.LN2[x.dtype][0], 0.0, x.dtype))
        return f.where(f.less(x, f.INF), f.where(f.less(x, 1.0), f.NAN, result), x)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return rsqrt(x - 1.0) * rsqrt(
            x + 1.0
        )  # whose branches are those of acosh, as rsqrt(x² - 1)'s are not


class Atanh(Function):
    """The inverse hyperbolic tangent; infinite at -1 and 1, NaN outside.

    >>> lax.atanh(tnp.array([0.0, 1.0, 2.0]))
    Array([ 0., inf, nan], dtype=float32)
    """

    kinds = _FLOAT_OR_COMPLEX
    ulp = (3.0, 2.5)
    odd = True
    singular = True
    domain = (-0.9, 0.9)
    reference = np.arctanh

    def formula(self, a: UOp) -> UOp:
        half = f.mul(f.log1p_finite(f.div(f.add(a, a), f.fma(a, -1.0, 1.0))), 0.5)
        return f.where(f.less(a, 1.0), half, f.where(f.equal(a, 1.0), f.INF, f.NAN, a.dtype))

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 1.0 / ((1.0 - x) * (1.0 + x))


class Logistic(Function):
    """1 / (1 + exp(-x)), the sigmoid."""

    ulp = (3.5, 2.5)

    def reference(self, x: Any) -> Any:
        # Through exp(-|x|), which does not overflow.
        decay = np.exp(-np.abs(x))
        return np.where(x >= 0, 1 / (1 + decay), decay / (1 + decay)).astype(np.asarray(x).dtype)

    def formula(self, x: UOp) -> UOp:
        # Through exp(-|x|), which does not overflow.
        negative_magnitude = f.from_bits(f.or_(f.bits(x), f.sign_mask(x.dtype)), x.dtype)
        decay = f.scaled(*f.exp_parts(f.maximum(negative_magnitude, f.EXP_RANGE[x.dtype][0])))
        return f.div(f.where(f.less(x, 0.0), decay, 1.0), f.add(decay, 1.0))

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return out * (1.0 - out)


exp, exp2, expm1, log, log2, log1p = Exp(), Exp2(), Expm1(), Log(), Log2(), Log1p()
sinh, cosh, tanh, asinh, acosh, atanh, logistic = (
    Sinh(),
    Cosh(),
    Tanh(),
    Asinh(),
    Acosh(),
    Atanh(),
    Logistic(),
)
