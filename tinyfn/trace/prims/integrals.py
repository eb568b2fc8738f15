"""Elementwise primitives: integrals of exponentials, sines and logarithms, of one argument."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

from .. import formulas as f
from ..prim import full_like
from ..uop import UOp
from .arithmetic import abs as absolute
from .arithmetic import integer_pow
from .comparison import eq, gt
from .exponential import exp, log1p
from .selection import where
from .trigonometric import cos, sin
from .wide import WideFunction

# From here on derivatives that are differences of near numbers are asymptotic series.
_FAR = 10.0


def _fit(m: Any, fit: Any, x: Any) -> Any:
    centre, polynomial = fit
    return m.polynomial(m.add(x, -centre), polynomial)


def _series(z: UOp) -> UOp:
    """z + 3 z² + 3·5 z³ + ... for |z| <= 1/200"""
    total = full_like(z, 1.0)
    for k in range(12, 0, -1):
        total = 1.0 + (2 * k + 1) * z * total
    return z * total


class Erfcx(WideFunction):
    """exp(x²) erfc(x), the error function's complement, scaled; infinite below about -26.6, where exp(x²) is."""

    ulp = (1.0, 32.0)

    def algorithm(self, m: Any, x: Any) -> Any:
        a = m.magnitude(x)
        u = m.div(1.0, a)
        first, second, third = (_fit(m, fit, a) for fit in f.ERFCX)
        tail = m.mul(u, _fit(m, f.ERFCX_TAIL, m.mul(u, u)))
        value = m.where(
            m.less(a, 1.0), first, m.where(m.less(a, 3.0), second, m.where(m.less(a, 8.0), third, tail))
        )
        reflected = m.fma(m.exp(m.mul(x, x)), 2.0, m.mul(value, -1.0))
        return m.where(m.less(x, 0.0), reflected, value)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        far = gt(x, full_like(x, _FAR))
        safe = where(far, x, full_like(x, _FAR))
        tail = 2 / sqrt(pi) * _series(-0.5 / (safe * safe))
        return where(far, tail, 2.0 * x * out - 2 / sqrt(pi))


class Dawsn(WideFunction):
    """Dawson's integral, exp(-x²) times the integral of exp(t²) from 0 to x."""

    ulp = (1.0, 8.0)

    def algorithm(self, m: Any, x: Any) -> Any:
        a = m.magnitude(x)
        u = m.div(1.0, a)
        near = m.mul(x, _fit(m, f.DAWSON_NEAR, m.mul(a, a)))
        first, second = (_fit(m, fit, a) for fit in f.DAWSON)
        tail = m.mul(u, _fit(m, f.DAWSON_TAIL, m.mul(u, u)))
        outer = m.where(m.less(a, 2.5), first, m.where(m.less(a, 5.0), second, tail))
        return m.where(m.less(a, 1.0), near, m.mul(outer, m.where(m.less(x, 0.0), -1.0, 1.0)))

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        far = gt(absolute(x), full_like(x, _FAR))
        safe = where(far, x, full_like(x, _FAR))
        return where(far, -_series(0.5 / (safe * safe)), 1.0 - 2.0 * x * out)


def _exp1(m: Any, x: Any) -> Any:
    """E1(x) for x >= 0."""
    u = m.div(1.0, x)
    near = m.add(_fit(m, f.EXP1_NEAR, x), m.mul(m.log(x), -1.0))
    first, second = (_fit(m, fit, x) for fit in f.EXP1)
    tail = m.mul(u, _fit(m, f.EXP1_TAIL, u))
    outer = m.where(m.less(x, 3.0), first, m.where(m.less(x, 8.0), second, tail))
    return m.where(m.less(x, 1.0), near, m.mul(m.exp(m.mul(x, -1.0)), outer))


class Exp1(WideFunction):
    """The exponential integral E1(x), of exp(-t)/t from x to infinity; infinite at 0, NaN below."""

    ulp = (1.0, 8.0)
    domain = (0.1, 6.0)
    singular = True

    def algorithm(self, m: Any, x: Any) -> Any:
        return m.where(m.less(x, 0.0), f.NAN, m.where(m.equal(x, 0.0), f.INF, _exp1(m, x)))

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return -exp(-x) / x


class Expi(WideFunction):
    """The exponential integral Ei(x), of exp(t)/t from -infinity to x; near its root, 0.3725, its absolute error is small."""

    ulp = (1.0, 64.0)
    domain = (0.5, 6.0)
    singular = True

    def algorithm(self, m: Any, x: Any) -> Any:
        a = m.magnitude(x)
        u = m.div(1.0, a)
        first, second = (_fit(m, fit, a) for fit in f.EXPI_NEAR)
        near = m.fma(a, m.where(m.less(a, 3.0), first, second), m.add(m.log(a), f.EULER_GAMMA))
        third, fourth = (_fit(m, fit, a) for fit in f.EXPI)
        tail = m.mul(u, _fit(m, f.EXPI_TAIL, u))
        outer = m.where(m.less(a, 12.0), third, m.where(m.less(a, 25.0), fourth, tail))
        # By halves, as the exponential overflows before the integral does.
        root = m.exp(m.mul(a, 0.5))
        positive = m.where(m.less(a, 6.0), near, m.mul(m.mul(root, outer), root))
        positive = m.where(m.equal(a, f.INF), f.INF, positive)
        value = m.where(m.less(x, 0.0), m.mul(_exp1(m, a), -1.0), positive)
        return m.where(m.equal(x, 0.0), -f.INF, value)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return exp(x) / x


class Spence(WideFunction):
    """Spence's function, the integral of log(t)/(1 - t) from 1 to x, which is Li2(1 - x); NaN below 0."""

    ulp = (1.0, 16.0)
    domain = (0.1, 4.0)
    singular = True

    def algorithm(self, m: Any, x: Any) -> Any:
        large = m.less(2.0, x)
        y = m.where(large, m.div(1.0, x), x)
        low, high = m.less(y, 0.5), m.less(1.5, y)
        # Li2(-w) for w from -1/2 to 1/2; and the sum of the functions at y and at 1 - y, or at y and at 1/y.
        w = m.where(low, m.mul(y, -1.0), m.add(m.where(high, m.div(1.0, y), y), -1.0))
        value = m.mul(w, _fit(m, f.SPENCE, w))
        logarithm = m.log(y)
        product = m.mul(logarithm, m.log(m.where(low, m.add(m.mul(y, -1.0), 1.0), y)))
        mirrored = m.add(pi * pi / 6, m.mul(m.add(product, value), -1.0))
        mirrored = m.where(m.equal(y, 0.0), pi * pi / 6, mirrored)
        inverted = m.fma(product, -0.5, m.mul(value, -1.0))
        value = m.where(low, mirrored, m.where(high, inverted, value))
        value = m.where(large, m.fma(m.mul(logarithm, logarithm), -0.5, m.mul(value, -1.0)), value)
        return m.where(m.less(x, 0.0), f.NAN, value)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        difference = x - 1.0
        none = eq(difference, full_like(x, 0))
        safe = where(none, full_like(x, 1), difference)
        # Next to 1 the derivative is that of its power series, so that it has derivatives too.
        near = gt(full_like(x, 1e-3), absolute(difference))
        series = -1.0 + difference * (
            1 / 2 - difference * (1 / 3 - difference * (1 / 4 - difference * (1 / 5 - difference / 6)))
        )
        return where(near, series, -log1p(safe) / safe)


def _auxiliary(m: Any, a: Any) -> tuple[Any, Any]:
    """f(a) and g(a) for a >= 4."""
    u = m.div(1.0, a)
    v = m.mul(u, u)
    near = m.less(a, 8.0)
    first, second = (
        m.where(near, _fit(m, inner, v), _fit(m, outer, v))
        for inner, outer in ((f.SICI_F, f.SICI_F_TAIL), (f.SICI_G, f.SICI_G_TAIL))
    )
    return m.mul(u, first), m.mul(v, second)


class SineIntegral(WideFunction):
    """Si(x), the integral of sin(t)/t from 0 to x."""

    ulp = (1.0, 8.0)

    def algorithm(self, m: Any, x: Any) -> Any:
        a = m.magnitude(x)
        inner = m.mul(x, _fit(m, f.SI_NEAR, m.mul(a, a)))
        endless = m.equal(a, f.INF)
        angle = m.where(endless, 0.0, a)
        first, second = _auxiliary(m, a)
        wave = m.add(m.mul(first, m.cos(angle)), m.mul(second, m.sin(angle)))
        outer = m.mul(m.fma(wave, -1.0, pi / 2), m.where(m.less(x, 0.0), -1.0, 1.0))
        return m.where(m.less(a, 4.0), inner, outer)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        near = gt(full_like(x, 1e-2), absolute(x))
        square = integer_pow(where(near, x, full_like(x, 0)), exponent=2)
        series = 1.0 - square * (1 / 6 - square * (1 / 120 - square / 5040))
        return where(near, series, sin(x) / where(near, full_like(x, 1), x))


class CosineIntegral(WideFunction):
    """Ci(|x|), minus the integral of cos(t)/t from |x| to infinity; near its roots it has a small absolute error only."""

    ulp = (1.0, 64.0)
    domain = (0.7, 3.0)
    singular = True

    def algorithm(self, m: Any, x: Any) -> Any:
        a = m.magnitude(x)
        square = m.mul(a, a)
        inner = m.fma(square, _fit(m, f.CI_NEAR, square), m.add(m.log(a), f.EULER_GAMMA))
        angle = m.where(m.equal(a, f.INF), 0.0, a)
        first, second = _auxiliary(m, a)
        outer = m.add(m.mul(first, m.sin(angle)), m.mul(m.mul(second, m.cos(angle)), -1.0))
        return m.where(m.less(a, 4.0), m.where(m.equal(a, 0.0), -f.INF, inner), outer)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return cos(x) / x


erfcx, dawsn, exp1, expi, spence = Erfcx(), Dawsn(), Exp1(), Expi(), Spence()
sine_integral, cosine_integral = SineIntegral(), CosineIntegral()
