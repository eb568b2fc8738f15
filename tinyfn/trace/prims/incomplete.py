"""Elementwise primitives: the zeta function and incomplete gamma and beta functions.

Their values take iterations whose number depends on the arguments, so they run by their references, on arrays in float64
from which elements that have converged are taken out. Within compiled programs too they run so, on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import pi
from typing import Any

import numpy as np

from .. import formulas as f
from ..prim import _INEXACT, Elementwise, Sample
from ..uop import UOp
from .exponential import exp, log, log1p
from .gamma_functions import digamma, lgamma
from .wide import Numpy

_MOST_TERMS = 5000
_LEAST_ARGUMENT = -1e4
# Above this `a`, Temme's expansion takes the place of iterations, whose number grows with the root of a.
_LARGE = 2e5


class Special(Elementwise):
    """A function of floats that is worked out in float64; not differentiable in all its arguments."""

    kinds = _INEXACT
    singular = True

    def value(self, *args: Any) -> Any:
        """The value of float64 vectors."""
        raise NotImplementedError

    def reference(self, *args: Any) -> Any:
        first = np.asarray(args[0])
        wide = [np.asarray(a).astype(np.float64).ravel() for a in args]
        with np.errstate(all="ignore"):
            return np.asarray(self.value(*wide)).astype(first.dtype).reshape(first.shape)

    def samples(self) -> Iterator[Sample]:
        return (sample._replace(differentiable=False) for sample in super().samples())

    def unknown(self, argument: str) -> NotImplementedError:
        """The error for a derivative that is not known."""
        return NotImplementedError(
            f"the derivative of {self.name} with respect to {argument} is not implemented"
        )


class Zeta(Special):
    """Hurwitz's zeta function, the sum of (q + k) to the power -x over k = 0, 1, ...; NaN for x < 1, infinite for x = 1, and for
    q = 0, -1, ...; of other q < 0 for whole x, and NaN for others and below -10,000. By Euler and Maclaurin's formula."""

    arity = 2
    domain = (1.2, 5.0)

    def value(self, x: Any, q: Any) -> Any:
        # The powers of negative numbers, which are real for a whole x.
        shifted = (q < 0) & (q >= _LEAST_ARGUMENT) & (q != np.floor(q)) & (x == np.floor(x))
        steps = np.where(shifted, np.ceil(-q), 0.0)
        before = np.zeros(q.shape)
        for k in range(int(steps.max(initial=0))):
            before = before + np.where(k < steps, np.where(shifted, q + k, 1.0) ** -x, 0.0)
        return before + self._of_positive(x, q + steps)

    def _of_positive(self, x: Any, q: Any) -> Any:
        total = sum([(q + k) ** -x for k in range(10)])
        far = q + 10
        power = far**-x
        total = total + power * (far / (x - 1) + 0.5)
        factor = x / far
        for k, coefficient in enumerate(_EULER_MACLAURIN, 1):
            total = total + coefficient * factor * power
            factor = factor * ((x + 2 * k - 1) / far) * ((x + 2 * k) / far)
        total = np.where(np.isfinite(total), total, q**-x)
        total = np.where(np.isposinf(x) & (q > 0), np.where(q > 1, 0.0, np.where(q == 1, 1.0, np.inf)), total)
        total = np.where(np.isposinf(q) & np.isfinite(x), 0.0, total)
        total = np.where(q <= 0, np.where((q == np.floor(q)) & np.isfinite(q), np.inf, np.nan), total)
        total = np.where(x <= 1, np.where(x == 1, np.inf, np.nan), total)
        return np.where(np.isnan(x) | np.isnan(q), np.nan, total)

    def partial(self, index: int, out: UOp, x: UOp, q: UOp) -> UOp:
        if index == 0:
            raise self.unknown("its exponent x")
        return -x * zeta(x + 1.0, q)


# B(2k) / (2k)!
_EULER_MACLAURIN = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000,
)  # fmt: skip


def _log_ratio_minus(x: Any, a: Any) -> Any:
    """log(x/a) - (x/a - 1) of positive numbers, without cancellation where they are close: by the series of artanh."""
    mu = (x - a) / a
    near = np.abs(mu) < 0.4
    s = np.where(near, mu / (2 + mu), 0.0)
    square = s * s
    # log(1 + mu) = 2 artanh(s), and mu = 2s/(1 - s)
    series = Numpy.polynomial(square, [2 / (2 * k + 3) for k in range(14)])
    return np.where(near, s * (square * series - mu), np.log(x / a) - mu)


def _stirling_rest(a: Any) -> Any:
    """log Γ(a) - (a - 1/2) log a + a - log(2π)/2 of a >= 4."""
    return Numpy.polynomial(1 / (a * a), f.BINET_POLYNOMIAL) / a


def _poisson(a: Any, x: Any) -> Any:
    """x^a exp(-x) / Γ(a + 1), with all digits also where a and x are large and close to each other."""
    large = np.maximum(a, 10.0)
    near = np.exp(large * _log_ratio_minus(x, large) - _stirling_rest(large)) / np.sqrt(2 * pi * large)
    return np.where(a >= 10, near, np.exp(a * np.log(x) - x - lgamma.reference(a + 1)))


def _iterate(step: Callable[..., tuple[Any, ...]], *state: Any) -> Any:
    """Repeat (n, *state) -> (done, result, *state) on vectors until every element is done; the last results."""
    result = np.zeros(state[0].shape)
    active = np.arange(result.size)
    for n in range(1, _MOST_TERMS):
        if not active.size:
            break
        done, value, *rest = step(n, *state)
        if done.any() or n == _MOST_TERMS - 1:
            result[active] = value
            active, state = active[~done], tuple([s[~done] for s in rest])
        else:
            state = tuple(rest)
    return result


_EPS = float(np.finfo(np.float64).eps) / 4


def _lower_sum(a: Any, x: Any) -> Any:
    """The sum of x^n / ((a + 1) ... (a + n)) over n = 0, 1, ...; P(a, x) is x^a exp(-x)/Γ(a + 1) times it."""

    def step(n: int, a: Any, x: Any, term: Any, total: Any) -> tuple[Any, ...]:
        term = term * (x / (a + n))
        total = total + term
        return ~(term > _EPS * total), total, a, x, term, total

    return _iterate(step, a, x, np.ones(a.shape), np.ones(a.shape))


def _lentz(step: Callable[[int, Any, Any], tuple[Any, Any]], a: Any, b: Any, start: Any) -> Any:
    """The continued fraction start + n1/(d1 + n2/(d2 + ...)) whose (n, d) are step(i, a, b), by Lentz's method as Thompson and
    Barnett changed it."""
    tiny = 1e-300

    def next(n: int, a: Any, b: Any, value: Any, c: Any, d: Any) -> tuple[Any, ...]:
        numerator, denominator = step(n, a, b)
        d = denominator + numerator * d
        d = 1 / np.where(d == 0, tiny, d)
        c = denominator + numerator / c
        c = np.where(c == 0, tiny, c)
        value = value * (c * d)
        return ~(np.abs(c * d - 1) > 4 * _EPS), value, a, b, value, c, d

    start = np.where(start == 0, tiny, start)
    return _iterate(next, a, b, start, start, np.zeros(a.shape))


def _gamma_ratios(a: Any, x: Any) -> tuple[Any, Any]:
    """P(a, x) and Q(a, x) = 1 - P, each without cancellation."""
    lower, upper = np.full(a.shape, np.nan), np.full(a.shape, np.nan)
    by_series = (a > 0) & (a < _LARGE) & (x > 0) & ((x <= 1) | (x <= a)) & np.isfinite(x)
    by_fraction = (a > 0) & (a < _LARGE) & (x > 1) & (x > a) & np.isfinite(x)
    by_expansion = (a >= _LARGE) & np.isfinite(a) & (x > 0) & np.isfinite(x)
    if by_series.any():
        s, t = a[by_series], x[by_series]
        lower[by_series] = _poisson(s, t) * _lower_sum(s, t)
        upper[by_series] = 1 - lower[by_series]
        # Where P is near 1, a is near 0: Q = 1 - x^a/Γ(a + 1) - x^a/Γ(a) times the sum of (-x)^n / (n! (a + n)).
        small = by_series & (a < 1) & (lower > 0.5)
        if small.any():
            s, t = a[small], x[small]
            total, term = np.zeros(s.shape), np.ones(s.shape)
            for n in range(1, 25):
                term = term * (-t / n)
                total = total + term / (s + n)
            # log Γ(1 + s) = log Γ(2 + s) - log(1 + s)
            log_gamma = s * Numpy.polynomial(s - 0.75, f.LGAMMA_POLYNOMIAL) - np.log1p(s)
            exponent = s * np.log(t) - log_gamma
            upper[small] = -np.expm1(exponent) - np.exp(exponent) * s * total
    if by_fraction.any():
        s, t = a[by_fraction], x[by_fraction]
        fraction = _lentz(lambda n, s, t: (n * (s - n), t - s + 2 * n + 1), s, t, t - s + 1)
        upper[by_fraction] = _poisson(s, t) * s / fraction
        lower[by_fraction] = 1 - upper[by_fraction]
    if by_expansion.any():
        s, t = a[by_expansion], x[by_expansion]
        lower[by_expansion], upper[by_expansion] = _temme(s, t)
    defined = (a >= 0) & (x >= 0)
    none = defined & ((x == 0) | (np.isinf(a) & np.isfinite(x)))
    all_ = defined & ((np.isinf(x) & np.isfinite(a)) | ((a == 0) & (x > 0)))
    lower, upper = np.where(none, 0.0, lower), np.where(none, 1.0, upper)
    lower, upper = np.where(all_, 1.0, lower), np.where(all_, 0.0, upper)
    undefined = (a == 0) & (x == 0)
    return np.where(undefined, np.nan, lower), np.where(undefined, np.nan, upper)


def _temme(a: Any, x: Any) -> tuple[Any, Any]:
    """P and Q for large a by the first term of N. Temme's uniform expansion (DLMF 8.12), to about 1/a² near x = a."""
    from .error_function import erfc

    mu = (x - a) / a
    half_square = -_log_ratio_minus(x, a)
    eta = np.sqrt(2 * half_square) * np.where(mu < 0, -1.0, 1.0)
    small = np.abs(mu) < 1e-3
    series = -1 / 3 + eta / 12 - eta * eta * (2 / 135)
    c0 = np.where(small, series, 1 / np.where(small, 1.0, mu) - 1 / np.where(small, 1.0, eta))
    rest = np.exp(-a * half_square) / np.sqrt(2 * pi * a) * c0
    upper = 0.5 * erfc.reference(eta * np.sqrt(a / 2)) + rest
    lower = 0.5 * erfc.reference(-eta * np.sqrt(a / 2)) - rest
    return lower, upper


def _density(a: UOp, x: UOp) -> UOp:
    """x^(a - 1) exp(-x) / Γ(a)."""
    return exp((a - 1.0) * log(x) - x - lgamma(a))


class Igamma(Special):
    """The lower incomplete gamma function P(a, x), regularized: from 0 at x = 0 to 1; NaN for negative a or x."""

    arity = 2
    domain = (0.1, 6.0)

    def value(self, a: Any, x: Any) -> Any:
        return _gamma_ratios(a, x)[0]

    def partial(self, index: int, out: UOp, a: UOp, x: UOp) -> UOp:
        return _density(a, x) if index else igamma_grad_a(a, x)


class Igammac(Special):
    """The upper incomplete gamma function Q(a, x) = 1 - P(a, x), regularized."""

    arity = 2
    domain = (0.1, 6.0)

    def value(self, a: Any, x: Any) -> Any:
        return _gamma_ratios(a, x)[1]

    def partial(self, index: int, out: UOp, a: UOp, x: UOp) -> UOp:
        return -(_density(a, x) if index else igamma_grad_a(a, x))


class IgammaGradA(Special):
    """The derivative of igamma with respect to a, to an absolute error of a few 1e-15; NaN for a above 200,000."""

    arity = 2
    domain = (0.1, 6.0)

    def value(self, a: Any, x: Any) -> Any:
        result = np.where((a > 0) & (x >= 0) & (a < _LARGE), 0.0, np.nan)
        # Beyond, what remains is below 1e-16.
        counts = (a > 0) & (a < _LARGE) & (x > 0) & (x < a + 60 + 12 * np.sqrt(np.maximum(a, 0)))
        s, t = a[counts], x[counts]

        def step(n: int, s: Any, t: Any, term: Any, psi: Any, total: Any) -> tuple[Any, ...]:
            added = term * psi
            total = total + added
            done = ~((np.abs(added) > _EPS * np.abs(total)) | (s + n < t + 1))
            return done, total, s, t, term * (t / (s + n)), psi - 1 / (s + n), total

        psi = np.log(t) - digamma.reference(s + 1)
        result[counts] = _poisson(s, t) * _iterate(step, s, t, np.ones(s.shape), psi, np.zeros(s.shape))
        return result

    def partial(self, index: int, out: UOp, a: UOp, x: UOp) -> UOp:
        if index == 0:
            raise self.unknown("a")
        return _density(a, x) * (log(x) - digamma(a))


class RegularizedIncompleteBeta(Special):
    """The incomplete beta function I(a, b, x), regularized: from 0 at x = 0 to 1 at x = 1; NaN for a or b < 0, and for x
    outside; a step where one of a and b is 0 or infinite. By the continued fraction DLMF 8.17.22."""

    arity = 3
    domain = (0.1, 0.9)

    def value(self, a: Any, b: Any, x: Any) -> Any:
        inside = (a > 0) & (b > 0) & (x > 0) & (x < 1) & np.isfinite(a) & np.isfinite(b)
        # All of the weight is at 0 or at 1 where only one of a and b is 0 or infinite.
        at_zero, at_one = (a == 0) | np.isposinf(b), (b == 0) | np.isposinf(a)
        between = np.where(at_zero == at_one, np.nan, np.where(at_zero, 1.0, 0.0))
        known = (a >= 0) & (b >= 0) & (x >= 0) & (x <= 1) & ~(at_zero & at_one)
        result = np.where(known, np.where(x == 0, 0.0, np.where(x == 1, 1.0, between)), np.nan)
        p, q, t = a[inside], b[inside], x[inside]
        swapped = t > (p + 1) / (p + q + 2)
        p, q = np.where(swapped, q, p), np.where(swapped, p, q)
        rest = np.where(swapped, t, 1 - t)
        t = np.where(swapped, 1 - t, t)
        factor = np.exp(p * np.log(t) + q * np.log(rest) - _log_beta(p, q)) / p

        def step(n: int, pq: Any, t: Any) -> tuple[Any, Any]:
            p, q = pq[..., 0], pq[..., 1]
            m, odd = divmod(n - 1, 2)
            if odd:
                m += 1
                return m * (q - m) * t / ((p + 2 * m - 1) * (p + 2 * m)), np.ones(t.shape)
            return -(p + m) * (p + q + m) * t / ((p + 2 * m) * (p + 2 * m + 1)), np.ones(t.shape)

        fraction = _lentz_pairs(step, np.stack([p, q], -1), t)
        part = factor / fraction
        result[inside] = np.where(swapped, 1 - part, part)
        return result

    def partial(self, index: int, out: UOp, a: UOp, b: UOp, x: UOp) -> UOp:
        if index < 2:
            raise self.unknown("ab"[index])
        log_beta = lgamma(a) + lgamma(b) - lgamma(a + b)
        return exp((a - 1.0) * log(x) + (b - 1.0) * log1p(-x) - log_beta)


def _lentz_pairs(step: Callable[[int, Any, Any], tuple[Any, Any]], pairs: Any, t: Any) -> Any:
    """Lentz's method from 1, two steps at a time: every other step alone may change little."""
    tiny = 1e-300

    def once(n: int, pairs: Any, t: Any, value: Any, c: Any, d: Any) -> tuple[Any, Any, Any]:
        numerator, denominator = step(n, pairs, t)
        d = denominator + numerator * d
        d = 1 / np.where(d == 0, tiny, d)
        c = denominator + numerator / c
        c = np.where(c == 0, tiny, c)
        return value * (c * d), c, d

    def next(n: int, t: Any, pairs: Any, value: Any, c: Any, d: Any) -> tuple[Any, ...]:
        before = value
        for k in (2 * n - 1, 2 * n):
            value, c, d = once(k, pairs, t, value, c, d)
        return ~(np.abs(value - before) > 4 * _EPS * np.abs(value)), value, t, pairs, value, c, d

    ones = np.ones(t.shape)
    return _iterate(next, t, pairs, ones, ones, np.zeros(t.shape))


def _log_beta(a: Any, b: Any) -> Any:
    """log of Γ(a) Γ(b) / Γ(a + b) for positive arguments, by Stirling's series where one is large."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    large, total = np.maximum(high, 10.0), low + np.maximum(high, 10.0)
    # log Γ(large) - log Γ(total), without the cancellation of their leading terms
    difference = (
        _stirling_rest(large)
        - _stirling_rest(total)
        + low
        - low * np.log(total)
        - (large - 0.5) * np.log1p(low / large)
    )
    near = lgamma.reference(high) - lgamma.reference(low + high)
    return lgamma.reference(low) + np.where(high > 10, difference, near)


zeta, igamma, igammac, igamma_grad_a = Zeta(), Igamma(), Igammac(), IgammaGradA()
regularized_incomplete_beta = RegularizedIncompleteBeta()
