"""Probability distributions, with the names of `jax.scipy.stats`: `stats.norm.logpdf(x, loc=0, scale=1)`.

Arguments are promoted and broadcast as in `tinyfn.numpy`; integers become float32, and half precision is worked out in float32.
Densities are 0 (their logarithms -infinity) outside of a distribution's support, where derivatives are 0 too. Formulas are as in
N. L. Johnson, S. Kotz and N. Balakrishnan, "Continuous univariate distributions" (1994), in a form that is exact in tails."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import numpy as tnp
from ..nn.activations import log1mexp, log_sigmoid
from ..numpy.common import floats
from ..trace import dtype as dtypes
from ..trace import operators
from ..trace.array import Array
from ..trace.errors import user_line
from . import special

__all__ = [
    "bernoulli", "beta", "binom", "cauchy", "chi2", "expon", "gamma", "geom", "laplace", "logistic", "multivariate_normal",
    "norm", "poisson", "t", "uniform",
]  # fmt: skip

where: Callable[..., Any] = operators.elementwise_where
Formula = Callable[..., Any]
_LOCATION = {"loc": 0, "scale": 1}


def _logarithm(p: Any, rest: Any) -> Any:
    """log p of a probability, given also 1 - p."""
    near = p > 0.5
    return where(near, tnp.log1p(-where(near, rest, 0.5)), tnp.log(where(near, 0.5, p)))


class _Family:
    """What distributions share: their name, and the names of their parameters in order, some with default values."""

    def __init__(self, name: str, shapes: tuple[str, ...], defaults: dict[str, int]):
        self.name, self._names, self._defaults = name, (*shapes, *defaults), defaults

    def __repr__(self) -> str:
        return f"stats.{self.name}({', '.join(self._names)})"

    def _called(
        self, method: str, formula: Formula, x: Any, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Array:
        """A formula of (x, *parameters), all of one float dtype, float32 at least."""
        given = dict(zip(self._names, args, strict=False))
        what = f"stats.{self.name}.{method}"
        if len(args) > len(self._names) or not set(options) <= set(self._names) - set(given):
            raise TypeError(
                f"{what} takes {', '.join(('x', *self._names))}, not {len(args) + 1} arguments and {list(options)}; at "
                f"{user_line()}"
            )
        values = {**self._defaults, **given, **options}
        lacking = [name for name in self._names if name not in values]
        if lacking:
            raise TypeError(f"{what} needs {' and '.join(lacking)}; at {user_line()}")
        arrays = floats(what, x, *[values[name] for name in self._names])
        dtype = arrays[0].dtype
        wide = [operators.to_dtype(a, dtypes.accumulator(dtype)) for a in arrays]
        return operators.to_dtype(tnp.asarray(formula(*wide)), dtype)


class Continuous(_Family):
    """A distribution with a location and a scale: the methods take (x, *shapes, loc=0, scale=1)."""

    def __init__(
        self,
        name: str,
        shapes: tuple[str, ...],
        log_density: Formula,
        cdf: Formula,
        sf: Formula | None = None,
        logcdf: Formula | None = None,
        logsf: Formula | None = None,
        support: tuple[float, float] = (-math.inf, math.inf),
    ):
        super().__init__(name, shapes, _LOCATION)
        self._log_density, self._cdf, self._support = log_density, cdf, support
        # Of distributions that are symmetric about 0 those of the upper tail are those of the lower one.
        self._sf = sf or (lambda z, *shape: cdf(-z, *shape))
        self._logcdf = logcdf or (lambda z, *shape: _logarithm(self._cdf(z, *shape), self._sf(z, *shape)))
        if logsf is None and sf is None and logcdf is not None:
            logsf = lambda z, *shape: logcdf(-z, *shape)  # noqa: E731
        self._logsf = logsf or (lambda z, *shape: _logarithm(self._sf(z, *shape), self._cdf(z, *shape)))

    def _at(
        self, method: str, formula: Formula, ends: tuple[float, float], x: Any, args: Any, options: Any
    ) -> Array:
        """A formula of the standard distribution, which has the values `ends` below and above the support."""
        low, high = self._support

        def placed(x: Any, *parameters: Any) -> Any:
            *shape, loc, scale = parameters
            z = (x - loc) / scale
            inside = (z >= low) & (z <= high)
            middle = 0.0 if low == -math.inf else low + 0.5 if high == math.inf else (low + high) / 2
            value = formula(where(inside | tnp.isnan(z), z, middle), scale, *shape)
            return where(z < low, ends[0], where(z > high, ends[1], value))

        return self._called(method, placed, x, args, options)

    def logpdf(self, x: Any, *args: Any, **options: Any) -> Array:
        """The logarithm of the density at x."""
        density: Formula = lambda z, scale, *shape: self._log_density(z, *shape) - tnp.log(scale)  # noqa: E731
        return self._at("logpdf", density, (-math.inf, -math.inf), x, args, options)

    def pdf(self, x: Any, *args: Any, **options: Any) -> Array:
        """The density at x."""
        density: Formula = lambda z, scale, *shape: tnp.exp(self._log_density(z, *shape)) / scale  # noqa: E731
        return self._at("pdf", density, (0.0, 0.0), x, args, options)

    def cdf(self, x: Any, *args: Any, **options: Any) -> Array:
        """The probability of values up to x."""
        return self._at("cdf", lambda z, scale, *shape: self._cdf(z, *shape), (0.0, 1.0), x, args, options)

    def sf(self, x: Any, *args: Any, **options: Any) -> Array:
        """The probability of values above x."""
        return self._at("sf", lambda z, scale, *shape: self._sf(z, *shape), (1.0, 0.0), x, args, options)

    def logcdf(self, x: Any, *args: Any, **options: Any) -> Array:
        """The logarithm of the probability of values up to x."""
        return self._at(
            "logcdf", lambda z, scale, *shape: self._logcdf(z, *shape), (-math.inf, 0.0), x, args, options
        )

    def logsf(self, x: Any, *args: Any, **options: Any) -> Array:
        """The logarithm of the probability of values above x."""
        return self._at(
            "logsf", lambda z, scale, *shape: self._logsf(z, *shape), (0.0, -math.inf), x, args, options
        )


class Invertible(Continuous):
    """A continuous distribution with the inverses of `cdf` and `sf`, which take (q, loc=0, scale=1)."""

    def __init__(self, *args: Any, quantile: Formula, upper: Formula | None = None, **options: Any):
        super().__init__(*args, **options)
        self._quantile = quantile
        self._upper = upper or (lambda q: -quantile(q))

    def _inverse(self, method: str, formula: Formula, q: Any, args: Any, options: Any) -> Array:
        def placed(q: Any, loc: Any, scale: Any) -> Any:
            return loc + scale * where((q >= 0) & (q <= 1), formula(q), math.nan)

        return self._called(method, placed, q, args, options)

    def ppf(self, q: Any, *args: Any, **options: Any) -> Array:
        """The x at which `cdf` is q; NaN if q is not from 0 to 1."""
        return self._inverse("ppf", self._quantile, q, args, options)

    def isf(self, q: Any, *args: Any, **options: Any) -> Array:
        """The x at which `sf` is q; NaN if q is not from 0 to 1."""
        return self._inverse("isf", self._upper, q, args, options)


class Discrete(_Family):
    """A distribution of whole numbers from `least` on: the methods take (k, *shapes, loc=0)."""

    def __init__(
        self, name: str, shapes: tuple[str, ...], log_mass: Formula, greatest: Formula, least: int = 0
    ):
        super().__init__(name, shapes, {"loc": 0})
        self._log_mass, self._greatest, self._least = log_mass, greatest, least

    def _mass(self, k: Any, *parameters: Any) -> Any:
        *shape, loc = parameters
        k = k - loc
        possible = (k >= self._least) & (k <= self._greatest(*shape)) & (k == tnp.floor(k))
        value = self._log_mass(where(possible, k, self._least), *shape)
        return where(tnp.isnan(k), math.nan, where(possible, value, -math.inf))

    def logpmf(self, k: Any, *args: Any, **options: Any) -> Array:
        """The logarithm of the probability of k; -infinity for what is no whole number or out of range."""
        return self._called("logpmf", self._mass, k, args, options)

    def pmf(self, k: Any, *args: Any, **options: Any) -> Array:
        """The probability of k."""
        return self._called("pmf", lambda *given: tnp.exp(self._mass(*given)), k, args, options)


class Cumulated(Discrete):
    """A discrete distribution with its cumulative probabilities."""

    def __init__(self, *args: Any, cumulated: Formula, **options: Any):
        super().__init__(*args, **options)
        self._cumulated = cumulated

    def cdf(self, k: Any, *args: Any, **options: Any) -> Array:
        """The probability of values up to k."""

        def placed(k: Any, *parameters: Any) -> Any:
            *shape, loc = parameters
            below = tnp.floor(k - loc)
            known = where((below >= 0) | tnp.isnan(below), below, 0.0)
            return where(below < 0, 0.0, self._cumulated(known, *shape))

        return self._called("cdf", placed, k, args, options)


class MultivariateNormal:
    """Normal distributions of vectors."""

    def logpdf(self, x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Array:
        """The logarithm of the density of vectors [..., n] with a mean [..., n] and a covariance [..., n, n], or a scalar one.

        The covariance must be positive definite."""
        from .. import linalg
        from .linalg import solve_triangular

        if allow_singular is not None:
            raise NotImplementedError(
                f"stats.multivariate_normal of singular covariances is not implemented; at {user_line()}"
            )
        point, centre, spread = floats("stats.multivariate_normal.logpdf", x, mean, cov)
        if not spread.ndim:
            return (
                tnp.sum(norm.logpdf(point, centre, tnp.sqrt(spread)), -1)
                if point.ndim
                else norm.logpdf(point, centre, tnp.sqrt(spread))
            )
        n = spread.shape[-1]
        difference: Any = tnp.asarray(point) - centre
        if spread.ndim < 2 or difference.ndim < 1 or difference.shape[-1] != n or spread.shape[-2] != n:
            raise ValueError(
                f"stats.multivariate_normal needs vectors [..., n] and a covariance [..., n, n], not "
                f"{operators.described(point, centre, spread)}; at {user_line()}"
            )
        factor = linalg.cholesky(spread)
        batch = operators.broadcast_shapes(difference.shape[:-1], factor.shape[:-2])
        columns = operators.broadcast_to(difference, (*batch, n))[..., None]
        factor = operators.broadcast_to(factor, (*batch, n, n))
        scaled = solve_triangular(factor, columns, lower=True)[..., 0]
        diagonal = tnp.diagonal(factor, axis1=-2, axis2=-1)
        total: Any = -0.5 * tnp.sum(scaled * scaled, -1) - tnp.sum(tnp.log(diagonal), -1)
        result: Array = total - 0.5 * n * math.log(2 * math.pi)
        return result

    def pdf(self, x: Any, mean: Any, cov: Any) -> Array:
        """The density; see `logpdf`."""
        return tnp.exp(self.logpdf(x, mean, cov))


def _laplace_logcdf(z: Any) -> Any:
    return where(z < 0, z - math.log(2), tnp.log1p(-0.5 * tnp.exp(-tnp.abs(z))))


def _cauchy_quantile(q: Any) -> Any:
    # By the nearer end, at which the sine is exact.
    angle: Any = math.pi * tnp.minimum(q, 1 - q)
    return where(q < 0.5, -1.0, 1.0) * tnp.cos(angle) / tnp.sin(angle)


def _t_log_density(z: Any, df: Any) -> Any:
    constant = special.gammaln((df + 1) / 2) - special.gammaln(df / 2) - 0.5 * tnp.log(df * math.pi)
    return constant - (df + 1) / 2 * tnp.log1p(z * z / df)


def _t_cdf(z: Any, df: Any) -> Any:
    tail: Any = 0.5 * special.betainc(df / 2, 0.5, df / (df + z * z))
    return where(z > 0, 1 - tail, tail)


def _binomial(k: Any, n: Any, p: Any) -> Any:
    choices: Any = -special.betaln(1 + n - k, 1 + k) - tnp.log1p(n)
    return choices + special.xlogy(k, p) + special.xlog1py(n - k, -p)


def _log_gamma_density(z: Any, a: Any) -> Any:
    return special.xlogy(a - 1, z) - z - special.gammaln(a)


norm = Invertible(
    "norm",
    (),
    lambda z: -0.5 * (z * z + math.log(2 * math.pi)),
    special.ndtr,
    logcdf=special.log_ndtr,
    quantile=special.ndtri,
)
uniform = Invertible(
    "uniform",
    (),
    lambda z: 0 * z,
    lambda z: z,
    sf=lambda z: 1 - z,
    support=(0, 1),
    quantile=lambda q: q,
    upper=lambda q: 1 - q,
)
expon = Invertible(
    "expon", (), lambda z: -z, lambda z: -tnp.expm1(-z), sf=lambda z: tnp.exp(-z), logcdf=log1mexp, logsf=lambda z: -z,
    support=(0, math.inf), quantile=lambda q: -tnp.log1p(-q), upper=lambda q: -tnp.log(q),
)  # fmt: skip
laplace = Invertible(
    "laplace", (), lambda z: -tnp.abs(z) - math.log(2),
    lambda z: where(z < 0, 0.5 * tnp.exp(-tnp.abs(z)), 1 - 0.5 * tnp.exp(-tnp.abs(z))), logcdf=_laplace_logcdf,
    quantile=lambda q: where(q < 0.5, tnp.log(2 * q), -tnp.log(2 * (1 - q))),
)  # fmt: skip
logistic = Invertible(
    "logistic", (), lambda z: -tnp.abs(z) - 2 * tnp.log1p(tnp.exp(-tnp.abs(z))), special.expit, logcdf=log_sigmoid,
    quantile=special.logit,
)  # fmt: skip
cauchy = Invertible(
    "cauchy", (), lambda z: -math.log(math.pi) - tnp.log1p(z * z), lambda z: tnp.arctan2(1, -z) / math.pi,
    quantile=_cauchy_quantile,
)  # fmt: skip
gamma = Continuous(
    "gamma", ("a",), _log_gamma_density, lambda z, a: special.gammainc(a, z), sf=lambda z, a: special.gammaincc(a, z),
    support=(0, math.inf),
)  # fmt: skip
chi2 = Continuous(
    "chi2", ("df",), lambda z, df: _log_gamma_density(z / 2, df / 2) - math.log(2),
    lambda z, df: special.gammainc(df / 2, z / 2), sf=lambda z, df: special.gammaincc(df / 2, z / 2), support=(0, math.inf),
)  # fmt: skip
beta = Continuous(
    "beta", ("a", "b"),
    lambda z, a, b: special.xlogy(a - 1, z) + special.xlog1py(b - 1, -z) - special.betaln(a, b),
    lambda z, a, b: special.betainc(a, b, z), sf=lambda z, a, b: special.betainc(b, a, 1 - z), support=(0, 1),
)  # fmt: skip
t = Continuous("t", ("df",), _t_log_density, _t_cdf)
poisson = Cumulated(
    "poisson", ("mu",), lambda k, mu: special.xlogy(k, mu) - special.gammaln(k + 1) - mu, lambda mu: math.inf,
    cumulated=lambda k, mu: special.gammaincc(k + 1, mu),
)  # fmt: skip
bernoulli = Cumulated(
    "bernoulli", ("p",), lambda k, p: special.xlogy(k, p) + special.xlog1py(1 - k, -p), lambda p: 1,
    cumulated=lambda k, p: where(k < 1, 1 - p, 1.0),
)  # fmt: skip
binom = Discrete("binom", ("n", "p"), _binomial, lambda n, p: n)
geom = Discrete(
    "geom", ("p",), lambda k, p: special.xlog1py(k - 1, -p) + tnp.log(p), lambda p: math.inf, least=1
)
multivariate_normal = MultivariateNormal()
