"""Elementwise primitives: gamma, Bessel and normal distribution functions of one argument."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

from .. import formulas as f
from ..prim import REGISTRY, full_like
from ..uop import UOp
from .arithmetic import abs as absolute
from .arithmetic import sign
from .comparison import lt
from .exponential import exp
from .selection import where
from .trigonometric import sin
from .wide import WideFunction


def _from_whole(m: Any, a: Any) -> tuple[Any, Any]:
    """a >= 0 minus the nearest whole number, and that number; of large a, which are whole, 0 and some even number."""
    fits = m.less(a, 2.0**51)
    whole = m.trunc(m.add(m.where(fits, a, 0.0), 0.5))
    return m.where(fits, m.fma(whole, -1.0, a), 0.0), whole


def _sine_of_pi(m: Any, r: Any) -> Any:
    """sin(πr) for |r| <= 1/2."""
    return m.mul(r, m.polynomial(m.mul(r, r), f.SINE_OF_PI_SERIES))


def _shifted(m: Any, x: Any) -> tuple[Any, Any]:
    """y and p with Γ(x) = Γ(2 + y)/p, where y is from -1/2 to 2, for x from 0 to 4."""
    tiny, low = m.less(x, 0.5), m.less(x, 1.5)
    y = m.where(tiny, x, m.add(x, m.where(low, -1.0, -2.0)))
    p = m.where(tiny, m.mul(x, m.add(x, 1.0)), m.where(low, x, 1.0))
    return y, p


def _log_gamma(m: Any, x: Any) -> Any:
    """log Γ(x) for x >= 0: from 4 on by Stirling's series."""
    near = m.less(x, 4.0)
    y, p = _shifted(m, x)
    logarithm = m.log(m.where(near, p, x))
    inner = m.fma(y, m.polynomial(m.add(y, -0.75), f.LGAMMA_POLYNOMIAL), m.mul(logarithm, -1.0))
    u = m.div(1.0, x)
    outer = m.fma(m.add(x, -0.5), m.add(logarithm, -1.0), f.HALF_LOG_TWO_PI - 0.5)
    return m.where(near, inner, m.fma(u, m.polynomial(m.mul(u, u), f.BINET_POLYNOMIAL), outer))


class Lgamma(WideFunction):
    """log |Γ(x)|, infinite at 0, -1, -2, ...; near its other roots below 0 it has a small absolute error only.

    >>> lax.lgamma(tnp.array([1.0, 5.0, 0.0])).round(3)  # log 0!, log 4!
    Array([0.   , 3.178,   inf], dtype=float32)
    """

    ulp = (1.0, 64.0)
    domain = (0.1, 6.0)
    singular = True

    def algorithm(self, m: Any, x: Any) -> Any:
        a, negative = m.magnitude(x), m.less(x, 0.0)
        # Γ(-a) = -π / (sin(πa) Γ(1 + a))
        r, _ = _from_whole(m, a)
        whole = m.equal(r, 0.0)
        sine = m.magnitude(_sine_of_pi(m, m.where(whole, 0.5, r)))
        positive = _log_gamma(m, m.where(negative, m.add(a, 1.0), x))
        reflected = m.where(whole, f.INF, m.fma(positive, -1.0, m.log(m.div(pi, sine))))
        return m.where(negative, reflected, positive)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return digamma(x)


class Gamma(WideFunction):
    """Γ(x); infinite with the sign of x at 0, NaN at -1, -2, ..."""

    ulp = (1.0, 16.0)
    domain = (0.1, 5.0)
    singular = True

    def algorithm(self, m: Any, x: Any) -> Any:
        a, negative = m.magnitude(x), m.less(x, 0.0)
        r, whole = _from_whole(m, a)
        z = m.where(negative, m.add(a, 1.0), x)
        y, p = _shifted(m, z)
        inner = m.div(m.exp(m.mul(y, m.polynomial(m.add(y, -0.75), f.LGAMMA_POLYNOMIAL))), p)
        # Stirling's series, the power as a square so that it is infinite no earlier than Γ is.
        large = m.minimum(z, 200.0)
        u = m.div(1.0, large)
        power = m.pow(large, m.fma(large, 0.5, -0.25))
        correction = m.fma(u, m.polynomial(m.mul(u, u), f.BINET_POLYNOMIAL), f.HALF_LOG_TWO_PI)
        outer = m.mul(m.mul(m.mul(power, m.exp(m.mul(large, -1.0))), m.exp(correction)), power)
        positive = m.where(m.less(z, 4.0), inner, outer)
        half = m.mul(whole, 0.5)
        # sin(πa), with the sign of Γ(-a)
        sine = m.mul(_sine_of_pi(m, r), m.where(m.equal(m.trunc(half), half), -1.0, 1.0))
        reflected = m.div(m.div(pi, sine), positive)
        reflected = m.where(m.equal(r, 0.0), f.NAN, reflected)
        return m.where(negative, reflected, positive)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return out * digamma(x)


class Digamma(WideFunction):
    """The derivative of log Γ(x): infinite at 0, NaN at -1, -2, ...; near its roots below 0 it has a small
    absolute error only.

    >>> lax.digamma(tnp.array([1.0, 0.0])).round(3)
    Array([-0.577,   -inf], dtype=float32)
    """

    ulp = (1.0, 64.0)
    domain = (0.1, 5.0)
    singular = True

    def algorithm(self, m: Any, x: Any) -> Any:
        a, negative = m.magnitude(x), m.less(x, 0.0)
        r, _ = _from_whole(m, a)
        z = m.where(negative, m.add(a, 1.0), x)
        low = m.less(z, 1.0)
        t = m.add(z, m.where(low, -1.0, -2.0))
        u = m.div(1.0, z)
        high, rest = f.DIGAMMA_ROOT
        inner = m.mul(m.add(m.add(t, 2.0 - high), -rest), m.polynomial(t, f.DIGAMMA_POLYNOMIAL))
        inner = m.fma(m.where(low, u, 0.0), -1.0, inner)
        square = m.mul(u, u)
        outer = m.fma(u, -0.5, m.log(z))
        outer = m.fma(square, m.mul(m.polynomial(square, f.DIGAMMA_TAIL_POLYNOMIAL), -1.0), outer)
        positive = m.where(m.less(z, 3.0), inner, outer)
        # digamma(-a) = digamma(1 + a) + π / tan(πa)
        cosine = _sine_of_pi(m, m.fma(m.magnitude(r), -1.0, 0.5))
        cotangent = m.div(cosine, _sine_of_pi(m, r))
        reflected = m.where(m.equal(r, 0.0), f.NAN, m.fma(cotangent, pi, positive))
        return m.where(negative, reflected, positive)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        zeta = REGISTRY["zeta"].node
        below = lt(x, full_like(x, 0))
        z = zeta(full_like(x, 2), where(below, 1.0 - x, x))
        sine = sin(pi * where(below, x, full_like(x, 0.5)))
        return where(below, (pi / sine) * (pi / sine) - z, z)


class BesselI0e(WideFunction):
    """exp(-|x|) I0(x), the modified Bessel function of order 0, scaled.

    >>> lax.bessel_i0e(tnp.array([0.0, 1.0])).round(3)
    Array([1.   , 0.466], dtype=float32)
    """

    name = "bessel_i0e"
    ulp = (1.0, 8.0)

    def algorithm(self, m: Any, x: Any) -> Any:
        a = m.magnitude(x)
        near = m.mul(m.exp(m.mul(a, -1.0)), m.polynomial(m.mul(m.mul(a, a), 0.25), f.BESSEL_I0_SERIES))
        return _bessel(m, a, near, f.BESSEL_I0_TAIL_POLYNOMIAL)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return bessel_i1e(x) - sign(x) * out


class BesselI1e(WideFunction):
    """exp(-|x|) I1(x), the modified Bessel function of order 1, scaled.

    >>> lax.bessel_i1e(tnp.array([0.0, 1.0])).round(3)
    Array([0.   , 0.208], dtype=float32)
    """

    name = "bessel_i1e"
    ulp = (1.0, 8.0)

    def algorithm(self, m: Any, x: Any) -> Any:
        a = m.magnitude(x)
        near = m.mul(m.exp(m.mul(a, -1.0)), m.polynomial(m.mul(m.mul(a, a), 0.25), f.BESSEL_I1_SERIES))
        value = _bessel(m, a, m.mul(m.mul(a, 0.5), near), f.BESSEL_I1_TAIL_POLYNOMIAL)
        return m.where(m.equal(x, 0.0), x, m.mul(value, m.where(m.less(x, 0.0), -1.0, 1.0)))

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        # I1(x)/x is 1/2 at 0.
        small = lt(absolute(x), full_like(x, 1e-12))
        ratio = where(small, full_like(x, 0.5), out / where(small, full_like(x, 1), x))
        return bessel_i0e(x) - sign(x) * out - ratio


def _bessel(m: Any, a: Any, near: Any, tail: tuple[float, ...]) -> Any:
    is_near = m.less(a, 8.0)
    u = m.div(1.0, m.where(is_near, 8.0, a))
    return m.where(is_near, near, m.mul(m.sqrt(u), m.polynomial(m.add(u, -1 / 16), tail)))


class Ndtri(WideFunction):
    """The inverse of the standard normal distribution's cumulative function; infinite at 0 and 1, NaN outside."""

    ulp = (1.0, 8.0)
    singular = True
    domain = (0.05, 0.95)

    def algorithm(self, m: Any, x: Any) -> Any:
        upper = m.less(0.5, x)
        p = m.where(upper, m.fma(x, -1.0, 1.0), x)
        d = m.add(p, -0.5)
        centre = m.mul(d, m.polynomial(m.fma(d, d, -0.08), f.NDTRI_CENTRE_POLYNOMIAL))
        y = m.sqrt(m.mul(m.log(p), -2.0))
        u = m.div(1.0, y)
        near = m.polynomial(m.add(u, -0.3), f.NDTRI_NEAR_POLYNOMIAL)
        far = m.polynomial(m.add(u, -0.1), f.NDTRI_FAR_POLYNOMIAL)
        series = m.add(m.where(m.less(y, 5.0), near, far), m.log(y))
        tail = m.fma(u, series, m.mul(y, -1.0))
        value = m.where(m.less(0.1, p), centre, tail)
        value = m.where(m.equal(p, 0.0), -f.INF, m.where(m.less(p, 0.0), f.NAN, value))
        return m.where(upper, m.mul(value, -1.0), value)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return sqrt(2 * pi) * exp(0.5 * (out * out))


lgamma, gamma, digamma = Lgamma(), Gamma(), Digamma()
bessel_i0e, bessel_i1e, ndtri = BesselI0e(), BesselI1e(), Ndtri()
