"""Special functions with the names of `jax.scipy.special`.

Arguments are promoted and broadcast as in `tinyfn.numpy`; integers and bools become float32. Gamma, Bessel and normal
distribution functions of one argument compile into kernels, where they are computed in float64 and rounded once; `zeta`,
`polygamma`, `gammainc`, `gammaincc` and `betainc` iterate in NumPy, also within compiled programs."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from .. import numpy as tnp
from ..nn.normalization import log_softmax, logsumexp, softmax
from ..numpy.common import ArrayLike, floats
from ..trace import dtype as dtypes
from ..trace import operators, prims
from ..trace.array import Array
from ..trace.errors import user_line
from ..trace.prim import Primitive
from ..trace.prims import gamma_functions, incomplete, integrals

__all__ = [
    "bernoulli", "beta", "betainc", "betaln", "boxcox", "boxcox1p", "comb", "dawsn", "digamma", "entr", "erf",
    "erfc", "erfcx", "erfinv", "exp1", "expi", "expit", "factorial", "gamma", "gammainc", "gammaincc", "gammaln",
    "gammasgn", "i0", "i0e", "i1", "i1e", "kl_div", "log_ndtr", "log_softmax", "loggamma", "logit", "logsumexp",
    "multigammaln", "ndtr", "ndtri", "poch", "polygamma", "psi", "rel_entr", "sici", "softmax", "spence", "xlog1py",
    "xlogy", "zeta",
]  # fmt: skip

where = operators.elementwise_where


def _apply(primitive: Primitive, *args: ArrayLike) -> Array:
    return operators.elementwise(primitive, *args, inexact=True)


Composed = TypeVar("Composed", bound=Callable[..., Array])


def _composed(function: Composed) -> Composed:
    """The function of positional arguments promoted to one float dtype and broadcast; half precision is worked out in float32."""

    @functools.wraps(function)
    def apply(*args: ArrayLike, **options: Any) -> Array:
        arrays = floats(function.__name__, *args)
        dtype = arrays[0].dtype
        shape = operators.broadcast_shapes(*[a.shape for a in arrays])
        wide = [operators.to_dtype(a, dtypes.accumulator(dtype)) for a in arrays]
        return operators.to_dtype(
            function(*[operators.broadcast_to(a, shape) for a in wide], **options), dtype
        )

    return cast(Composed, apply)


# Gamma functions.


def gammaln(x: ArrayLike, /) -> Array:
    """log |Γ(x)|, infinite at 0, -1, -2, ..."""
    return _apply(gamma_functions.lgamma, x)


@_composed
def loggamma(x: Any, /) -> Array:
    """log Γ(x) of floats; NaN where Γ is negative."""
    return where(gammasgn(x) < 0, math.nan, gammaln(x))


def gamma(x: ArrayLike, /) -> Array:
    """Γ(x); infinite with the sign of x at 0, NaN at -1, -2, ..."""
    return _apply(gamma_functions.gamma, x)


@_composed
def gammasgn(x: Any, /) -> Array:
    """The sign of Γ(x), 1 or -1; NaN at -1, -2, ..., the sign of x at 0."""
    whole = tnp.floor(x)
    below = where(tnp.remainder(whole, 2) == 1, -1.0, 1.0)
    above = where(tnp.isnan(x), math.nan, tnp.copysign(tnp.ones_like(x), x))
    return where(x < 0, where(whole == x, math.nan, below), above)


def digamma(x: ArrayLike, /) -> Array:
    """The derivative of log Γ(x): infinite at 0, NaN at -1, -2, ..."""
    return _apply(gamma_functions.digamma, x)


psi = digamma


@_composed
def polygamma(n: Any, x: Any, /) -> Array:
    """The n-th derivative of digamma at x > 0, for a whole n >= 0, with respect to which it is constant."""
    n = prims.stop_gradient(n)
    order = where(n == 0, 1.0, n) + 1
    sign = where(tnp.remainder(n, 2) == 1, 1.0, -1.0)
    return where(n == 0, digamma(x), sign * gamma(order) * zeta(order, x))


def zeta(x: ArrayLike, q: ArrayLike | None = None, /) -> Array:
    """The sum of (q + k) to the power -x over k = 0, 1, ... (Hurwitz), with q = 1 Riemann's; NaN for x < 1.

    The derivative with respect to x is not implemented."""
    return _apply(incomplete.zeta, x, 1.0 if q is None else q)


@_composed
def factorial(n: Any, exact: bool = False) -> Array:
    """n! = Γ(n + 1), and 0 for n < 0; `exact=True` raises NotImplementedError."""
    if exact:
        raise NotImplementedError("factorial(exact=True) is not implemented")
    return where(n < 0, 0, gamma(where(n < 0, 0, n) + 1))


@_composed
def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Array:
    """The number of ways to choose k out of N; 0 unless 0 <= k <= N. `exact=True` raises NotImplementedError."""
    if exact:
        raise NotImplementedError("comb(exact=True) is not implemented")
    if repetition:
        N = N + k - 1
    inside = (k >= 0) & (k <= N)
    N, k = where(inside, N, 1.0), where(inside, k, 0.0)
    return where(inside, tnp.exp(-betaln(N - k + 1, k + 1)) / (N + 1), 0)


@_composed
def poch(z: Any, m: Any, /) -> Array:
    """Γ(z + m) / Γ(z), the rising factorial, of positive z and z + m."""
    return tnp.exp(gammaln(z + m) - gammaln(z))


def bernoulli(n: int) -> Array:
    """The Bernoulli numbers B0 to Bn, of which B1 is -1/2, as float32 [n + 1]: infinite where they are too large (R. P. Brent and
    D. Harvey, "Fast computation of Bernoulli, tangent and secant numbers", 2013)."""
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
    """log of the d-dimensional gamma function, for a > (d - 1)/2."""
    (x,) = floats("multigammaln", a)
    wide: Any = operators.to_dtype(x, dtypes.accumulator(x.dtype))
    constant = 0.25 * d * (d - 1) * math.log(math.pi)
    total = sum([gammaln(wide - 0.5 * i) for i in range(d)], start=wide * 0 + constant)
    return operators.to_dtype(total, x.dtype)


@_composed
def beta(a: Any, b: Any, /) -> Array:
    """Γ(a) Γ(b) / Γ(a + b)."""
    return gammasgn(a) * gammasgn(b) * gammasgn(a + b) * tnp.exp(betaln(a, b))


@_composed
def betaln(a: Any, b: Any, /) -> Array:
    """log |Γ(a) Γ(b) / Γ(a + b)|; of positive arguments also without cancellation where one is large."""
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

    Derivatives with respect to a and b are not implemented."""
    return _apply(incomplete.regularized_incomplete_beta, a, b, x)


def gammainc(a: ArrayLike, x: ArrayLike, /) -> Array:
    """The regularized lower incomplete gamma function P(a, x), for a >= 0 and x >= 0."""
    return _apply(incomplete.igamma, a, x)


def gammaincc(a: ArrayLike, x: ArrayLike, /) -> Array:
    """The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    return _apply(incomplete.igammac, a, x)


# Error and normal distribution functions.


def erf(x: ArrayLike, /) -> Array:
    """The error function."""
    return _apply(prims.erf, x)


def erfc(x: ArrayLike, /) -> Array:
    """1 - erf(x), exact for large x."""
    return _apply(prims.erfc, x)


def erfinv(x: ArrayLike, /) -> Array:
    """The inverse of the error function; infinite at -1 and 1, NaN outside."""
    return _apply(prims.erf_inv, x)


@_composed
def ndtr(x: Any, /) -> Array:
    """The standard normal distribution's cumulative function."""
    return 0.5 * erfc(x * -math.sqrt(0.5))


@_composed
def log_ndtr(x: Any, /) -> Array:
    """log(ndtr(x)), exact for large |x|: below -10 by the asymptotic series of erfc."""
    low, high = x < -10, x > 0
    far: Any = where(low & (x > -math.inf), x, -10.0)
    inverse = 1 / (far * far)
    series: Any = 1.0
    for k in reversed(range(15)):
        series = 1 - (2 * k + 1) * inverse * series
    tail = -0.5 * far * far - tnp.log(-far) - 0.5 * math.log(2 * math.pi) + tnp.log(series)
    middle = tnp.log(ndtr(where(low | high, 0.0, x)))
    upper = tnp.log1p(-ndtr(-where(high, x, 0.0)))
    return where(x == -math.inf, -math.inf, where(low, tail, where(high, upper, middle)))


def ndtri(p: ArrayLike, /) -> Array:
    """The inverse of `ndtr`; infinite at 0 and 1, NaN outside."""
    return _apply(gamma_functions.ndtri, p)


# Exponential, sine and logarithmic integrals.


def erfcx(x: ArrayLike, /) -> Array:
    """exp(x²) · erfc(x), exact for large x."""
    return _apply(integrals.erfcx, x)


def dawsn(x: ArrayLike, /) -> Array:
    """Dawson's integral, exp(-x²) times the integral of exp(t²) from 0 to x."""
    return _apply(integrals.dawsn, x)


def exp1(x: ArrayLike, /) -> Array:
    """The integral of exp(-t)/t from x > 0 to infinity; infinite at 0, NaN below."""
    return _apply(integrals.exp1, x)


def expi(x: ArrayLike, /) -> Array:
    """The integral of exp(t)/t from -infinity to x (its principal value); -infinity at 0."""
    return _apply(integrals.expi, x)


def sici(x: ArrayLike, /) -> tuple[Array, Array]:
    """Si(x), the integral of sin(t)/t from 0 to x, and Ci(|x|), minus that of cos(t)/t from |x| to infinity."""
    return _apply(integrals.sine_integral, x), _apply(integrals.cosine_integral, x)


def spence(x: ArrayLike, /) -> Array:
    """The integral of log(t)/(1 - t) from 1 to x >= 0, which is the dilogarithm of 1 - x; NaN below 0."""
    return _apply(integrals.spence, x)


# Logistic functions.


def expit(x: ArrayLike, /) -> Array:
    """1 / (1 + exp(-x))."""
    return _apply(prims.logistic, x)


@_composed
def logit(x: Any, /) -> Array:
    """log(x / (1 - x)); infinite at 0 and 1, NaN outside."""
    return tnp.log(x / (1 - x))


# Entropies.


@_composed
def xlogy(x: Any, y: Any, /) -> Array:
    """x · log(y), and 0 where x is 0 unless y is NaN."""
    # Where the logarithm is no finite number, x = 0 must not multiply it.
    undefined = (x == 0) & ((y <= 0) | (y == math.inf))
    return where(undefined, 0, x * tnp.log(where(undefined, 1, y)))


@_composed
def xlog1py(x: Any, y: Any, /) -> Array:
    """x · log(1 + y), and 0 where x is 0 unless y is NaN."""
    undefined = (x == 0) & ((y <= -1) | (y == math.inf))
    return where(undefined, 0, x * tnp.log1p(where(undefined, 1, y)))


@_composed
def entr(x: Any, /) -> Array:
    """-x · log(x), 0 at 0 and -infinity below."""
    inside = where(x < 0, 1, x)
    return where(x < 0, -math.inf, tnp.negative(xlogy(inside, inside)))


@_composed
def rel_entr(p: Any, q: Any, /) -> Array:
    """p · log(p / q); 0 where p = 0 <= q, infinite where it is not defined."""
    both = (p > 0) & (q > 0)
    x, y = where(both, p, 1), where(both, q, 1)
    nan = tnp.isnan(p) | tnp.isnan(q)
    other = where(nan, math.nan, where((p == 0) & (q >= 0), 0.0, math.inf))
    return where(both, tnp.multiply(x, tnp.log(tnp.divide(x, y))), other)


@_composed
def kl_div(p: Any, q: Any, /) -> Array:
    """p · log(p / q) - p + q; infinite where it is not defined."""
    entropy: Any = rel_entr(p, q)
    return where(entropy == math.inf, math.inf, entropy - p + q)


# Power transforms.


@_composed
def boxcox(x: Any, lmbda: Any, /) -> Array:
    """(x^lmbda - 1) / lmbda, and log(x) for lmbda = 0."""
    return _box_cox(tnp.log(x), lmbda)


@_composed
def boxcox1p(x: Any, lmbda: Any, /) -> Array:
    """((1 + x)^lmbda - 1) / lmbda, and log(1 + x) for lmbda = 0."""
    return _box_cox(tnp.log1p(x), lmbda)


def _box_cox(logarithm: Any, power: Any) -> Array:
    safe: Any = where(power == 0, 1, power)
    return where(power == 0, logarithm, tnp.expm1(safe * logarithm) / safe)


# Modified Bessel functions.


def i0e(x: ArrayLike, /) -> Array:
    """exp(-|x|) · i0(x)."""
    return _apply(gamma_functions.bessel_i0e, x)


def i1e(x: ArrayLike, /) -> Array:
    """exp(-|x|) · i1(x)."""
    return _apply(gamma_functions.bessel_i1e, x)


@_composed
def i0(x: Any, /) -> Array:
    """The modified Bessel function of the first kind of order 0."""
    return tnp.exp(tnp.abs(x)) * i0e(x)


@_composed
def i1(x: Any, /) -> Array:
    """The modified Bessel function of the first kind of order 1."""
    return tnp.exp(tnp.abs(x)) * i1e(x)
