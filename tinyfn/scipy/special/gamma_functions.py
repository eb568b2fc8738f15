"""Gamma and beta functions, their incomplete ones, and what counts with them."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ... import numpy as tnp
from ...numpy.common import ArrayLike, floats
from ...trace import dtype as dtypes
from ...trace import operators, prims
from ...trace.array import Array
from ...trace.errors import user_line
from ...trace.prims import gamma_functions, incomplete
from .calling import applied, composed, where


def gammaln(x: ArrayLike, /) -> Array:
    """log |Γ(x)|, infinite at 0, -1, -2, ...

    >>> from tinyfn.scipy import special
    >>> special.gammaln(tnp.array([1.0, 2.0, 0.0, -1.0]))
    Array([ 0.,  0., inf, inf], dtype=float32)
    """
    return applied(gamma_functions.lgamma, x)


@composed
def loggamma(x: Any, /) -> Array:
    """log Γ(x) of floats; NaN for x < 0, where it is complex: `gammaln` is its real part.

    >>> from tinyfn.scipy import special
    >>> special.loggamma(tnp.array([1.0, 0.0, -0.5]))
    Array([ 0., inf, nan], dtype=float32)
    """
    return where(x < 0, math.nan, gammaln(x))


def gamma(x: ArrayLike, /) -> Array:
    """Γ(x); infinite with the sign of x at 0, NaN at -1, -2, ...

    >>> from tinyfn.scipy import special
    >>> special.gamma(tnp.array([5.0, 0.0, -0.0, -1.0]))
    Array([ 24.,  inf, -inf,  nan], dtype=float32)
    """
    return applied(gamma_functions.gamma, x)


@composed
def gammasgn(x: Any, /) -> Array:
    """The sign of Γ(x), 1 or -1; NaN at -1, -2, ..., the sign of x at 0.

    >>> from tinyfn.scipy import special
    >>> special.gammasgn(tnp.array([2.5, -0.5, -1.5, -2.0]))
    Array([ 1., -1.,  1., nan], dtype=float32)
    """
    whole = tnp.floor(x)
    below = where(tnp.remainder(whole, 2) == 1, -1.0, 1.0)
    above = where(tnp.isnan(x), math.nan, tnp.copysign(tnp.ones_like(x), x))
    return where(x < 0, where(whole == x, math.nan, below), above)


def digamma(x: ArrayLike, /) -> Array:
    """The derivative of log Γ(x): infinite at 0, NaN at -1, -2, ...

    >>> from tinyfn.scipy import special
    >>> special.digamma(tnp.array([1.0, 0.0, -1.0])).round(4)
    Array([-0.5772,    -inf,     nan], dtype=float32)
    >>> (special.digamma(7.0) - special.digamma(6.0)).round(4)  # 1/6
    Array(0.1667, dtype=float32)
    """
    return applied(gamma_functions.digamma, x)


psi = digamma


@composed
def polygamma(n: Any, x: Any, /) -> Array:
    """The n-th derivative of digamma at x for a whole n >= 0, with respect to which it is constant.

    Infinite at 0, -1, ... for n > 0.

    >>> from tinyfn.scipy import special
    >>> special.polygamma(tnp.array([0, 1, 2]), 1.0).round(3)
    Array([-0.577,  1.645, -2.404], dtype=float32)
    """
    n = prims.stop_gradient(n)
    order = where(n == 0, 1.0, n) + 1
    sign = where(tnp.remainder(n, 2) == 1, 1.0, -1.0)
    return where(n == 0, digamma(x), sign * gamma(order) * zeta(order, x))


def zeta(x: ArrayLike, q: ArrayLike | None = None, /) -> Array:
    """The sum of (q + k) to the power -x over k = 0, 1, ... (Hurwitz), with q = 1 Riemann's; NaN for x < 1.

    Infinite for q = 0, -1, ...; of other q < 0 for a whole x alone.

    The derivative with respect to x is not implemented.

    >>> from tinyfn.scipy import special
    >>> (special.zeta(2.0) * 6 / np.pi**2).round(4)
    Array(1., dtype=float32)
    >>> special.zeta(2.0) - special.zeta(2.0, 2.0)  # the first term
    Array(1., dtype=float32)
    """
    return applied(incomplete.zeta, x, 1.0 if q is None else q)


@composed
def factorial(n: Any, exact: bool = False) -> Array:
    """n! = Γ(n + 1), and 0 for n < 0; `exact=True` raises NotImplementedError.

    >>> from tinyfn.scipy import special
    >>> special.factorial(tnp.array([0, 5, -1]))
    Array([  1., 120.,   0.], dtype=float32)
    """
    if exact:
        raise NotImplementedError("factorial(exact=True) is not implemented")
    return where(n < 0, 0, gamma(where(n < 0, 0, n) + 1))


@composed
def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Array:
    """The number of ways to choose k out of N; 0 unless 0 <= k <= N. `exact=True` raises NotImplementedError.

    >>> from tinyfn.scipy import special
    >>> special.comb(5, tnp.arange(-1, 7)).round()
    Array([ 0.,  1.,  5., 10., 10.,  5.,  1.,  0.], dtype=float32)
    >>> special.comb(5, 2, repetition=True).round()
    Array(15., dtype=float32)
    """
    if exact:
        raise NotImplementedError("comb(exact=True) is not implemented")
    if repetition:
        N = N + k - 1
    inside = (k >= 0) & (k <= N)
    N, k = where(inside, N, 1.0), where(inside, k, 0.0)
    return where(inside, tnp.exp(-betaln(N - k + 1, k + 1)) / (N + 1), 0)


@composed
def poch(z: Any, m: Any, /) -> Array:
    """Γ(z + m) / Γ(z), the rising factorial, which for a whole m > 0 is z (z + 1) ... (z + m - 1).

    >>> from tinyfn.scipy import special
    >>> special.poch(tnp.array([1.0, 3.0, -2.5]), tnp.array([4.0, 2.0, 1.0])).round(3)
    Array([24. , 12. , -2.5], dtype=float32)
    """
    end = z + m
    # At 0, -1, -2, ... Γ is infinite; the quotient of two such values is by reflection that of finite ones.
    start_infinite, end_infinite = ((x <= 0) & (x == tnp.floor(x)) for x in (z, end))
    reflected = start_infinite & end_infinite
    above, below = where(reflected, 1 - z, end), where(reflected, 1 - end, z)
    sign = where(start_infinite | end_infinite, 1.0, gammasgn(end) * gammasgn(z))
    sign = where(reflected & (tnp.remainder(m, 2) == 1), -1.0, sign)
    # By the beta function there is no cancellation, of which Γ's logarithms have much for large z.
    rising = (z > 0) & (m > 0)
    p, q = where(rising, z, 1.0), where(rising, m, 1.0)
    plain = gammaln(where(rising, 1.0, above)) - gammaln(where(rising, 1.0, below))
    return sign * tnp.exp(where(rising, gammaln(q) - betaln(p, q), plain))


def bernoulli(n: int) -> Array:
    """The Bernoulli numbers B0 to Bn, of which B1 is -1/2, as float32 [n + 1]: infinite where they are too large.

    R. P. Brent and D. Harvey, "Fast computation of Bernoulli, tangent and secant numbers" (2013). Raises ValueError for n < 0.

    >>> from tinyfn.scipy import special
    >>> special.bernoulli(4).round(4)
    Array([ 1.    , -0.5   ,  0.1667,  0.    , -0.0333], dtype=float32)
    """
    count = operator.index(n)
    if count < 0:
        raise ValueError(f"special.bernoulli needs n of 0 or more, not {count}; at {user_line()}")
    # The tangent numbers T1, T2, ...; beyond some 70 of them all are too large for any float.
    size = min(count // 2, 200)
    tangents = [math.factorial(k) for k in range(size)]
    for k in range(1, size):
        for j in range(k, size):
            tangents[j] = (j - k) * tangents[j - 1] + (j - k + 2) * tangents[j]
    values = [1.0, -0.5] + [0.0] * (count - 1)
    for k in range(1, count // 2 + 1):
        sign = 1.0 if k % 2 else -1.0
        known = k <= size and 2 * k < 260
        values[2 * k] = sign * (2 * k * tangents[k - 1] / (4**k * (4**k - 1)) if known else math.inf)
    with np.errstate(over="ignore"):
        return tnp.asarray(np.array(values[: count + 1], np.float32))


def multigammaln(a: ArrayLike, d: int) -> Array:
    """log of the d-dimensional gamma function, for a > (d - 1)/2, of a's shape.

    The sum of gammaln(a - i/2) over i = 0, ..., d - 1, and d (d - 1)/4 log π: T. W. Anderson, "An introduction to multivariate
    statistical analysis" (2003), section 7.2.

    >>> from tinyfn.scipy import special
    >>> special.multigammaln(5.0, 1), special.gammaln(5.0)
    (Array(3.1780539, dtype=float32), Array(3.1780539, dtype=float32))
    """
    (x,) = floats("multigammaln", a)
    wide: Any = operators.to_dtype(x, dtypes.accumulator(x.dtype))
    constant = 0.25 * d * (d - 1) * math.log(math.pi)
    total = sum([gammaln(wide - 0.5 * i) for i in range(d)], start=wide * 0 + constant)
    return operators.to_dtype(total, x.dtype)


@composed
def beta(a: Any, b: Any, /) -> Array:
    """Γ(a) Γ(b) / Γ(a + b).

    >>> from tinyfn.scipy import special
    >>> special.beta(2.0, 3.0).round(4)  # 1! 2! / 4!
    Array(0.0833, dtype=float32)
    """
    return gammasgn(a) * gammasgn(b) * gammasgn(a + b) * tnp.exp(betaln(a, b))


@composed
def betaln(a: Any, b: Any, /) -> Array:
    """log |Γ(a) Γ(b) / Γ(a + b)|; of positive arguments also without cancellation where one is large.

    >>> from tinyfn.scipy import special
    >>> special.betaln(1.0, 1e30).round(2), -tnp.log(1e30).round(2)
    (Array(-69.08, dtype=float32), Array(-69.08, dtype=float32))
    """
    low, high = tnp.minimum(a, b), tnp.maximum(a, b)
    stirling = (low > 0) & (high > 10)
    p: Any = where(stirling, low, 1.0)
    q: Any = where(stirling, high, 20.0)
    # log Γ(q) - log Γ(p + q): their leading terms cancel.
    difference = (
        _stirling_rest(q) - _stirling_rest(p + q) + p - p * tnp.log(p + q) - (q - 0.5) * tnp.log1p(p / q)
    )
    plain = where(stirling, 1.0, high)
    ratio = where(stirling, difference, gammaln(plain) - gammaln(where(stirling, 1.0, low) + plain))
    return gammaln(low) + ratio


def _stirling_rest(x: Any) -> Any:
    """log Γ(x) - (x - 1/2) log x + x - log(2π)/2 of x >= 10."""
    inverse = 1 / x
    square = inverse * inverse
    total: Any = 0.0
    for coefficient in (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        total = total * square + coefficient
    return total * inverse


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike, /) -> Array:
    """The regularized incomplete beta function, from 0 at x = 0 to 1 at x = 1, for positive a and b.

    Derivatives with respect to a and b are not implemented.

    >>> from tinyfn.scipy import special
    >>> special.betainc(2.0, 1.0, tnp.array([0.0, 0.5, 1.0]))  # x²
    Array([0.  , 0.25, 1.  ], dtype=float32)
    """
    return applied(incomplete.regularized_incomplete_beta, a, b, x)


def gammainc(a: ArrayLike, x: ArrayLike, /) -> Array:
    """The regularized lower incomplete gamma function P(a, x), for a >= 0 and x >= 0.

    >>> from tinyfn.scipy import special
    >>> special.gammainc(1.0, tnp.array([0.0, 1.0, 100.0])).round(4)  # 1 - exp(-x)
    Array([0.    , 0.6321, 1.    ], dtype=float32)
    """
    return applied(incomplete.igamma, a, x)


def gammaincc(a: ArrayLike, x: ArrayLike, /) -> Array:
    """The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), exact where it is small.

    >>> from tinyfn.scipy import special
    >>> (special.gammaincc(1.0, 50.0) * tnp.exp(50.0)).round(3), 1.0 - special.gammainc(1.0, 50.0)
    (Array(1., dtype=float32), Array(0., dtype=float32))
    """
    return applied(incomplete.igammac, a, x)
