"""Distributions of numbers that have a density."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as tnp
from ...nn.activations import log1mexp, log_sigmoid
from .. import special
from .families import Continuous, Invertible, where


def _laplace_logcdf(z: Any) -> Any:
    return where(z < 0, z - math.log(2), tnp.log1p(-0.5 * tnp.exp(-tnp.abs(z))))


def _cauchy_quantile(q: Any) -> Any:
    # By the nearer end, at which the sine is exact.
    angle: Any = math.pi * tnp.minimum(q, 1 - q)
    return where(q < 0.5, -1.0, 1.0) * tnp.cos(angle) / tnp.sin(angle)


def _t_log_density(z: Any, df: Any) -> Any:
    # As a beta function, which has no cancellation; with infinitely many degrees of freedom it is the normal distribution.
    finite = where(df == math.inf, 1.0, df)
    constant = -special.betaln(0.5, finite / 2) - 0.5 * tnp.log(finite)
    value = constant - (finite + 1) / 2 * tnp.log1p(z * z / finite)
    return where(df == math.inf, -0.5 * (z * z + math.log(2 * math.pi)), value)


def _t_cdf(z: Any, df: Any) -> Any:
    finite = where(df == math.inf, 1.0, df)
    tail: Any = 0.5 * special.betainc(finite / 2, 0.5, finite / (finite + z * z))
    return where(df == math.inf, special.ndtr(z), where(z > 0, 1 - tail, tail))


def _log_gamma_density(z: Any, a: Any) -> Any:
    return special.xlogy(a - 1, z) - z - special.gammaln(a)


norm = Invertible(
    "norm",
    (),
    lambda z: -0.5 * (z * z + math.log(2 * math.pi)),
    special.ndtr,
    logcdf=special.log_ndtr,
    quantile=special.ndtri,
    text="""The normal distribution with the mean `loc` and the standard deviation `scale`: exp(-x²/2) / sqrt(2π).

>>> from tinyfn.scipy import stats
>>> stats.norm.cdf(tnp.array([-tnp.inf, 0.0, 1.96])).round(3)
Array([0.   , 0.5  , 0.975], dtype=float32)
>>> stats.norm.logsf(100.0).round(1)  # exact in the tails
Array(-5005.5, dtype=float32)
""",
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
    text="""The uniform distribution on [loc, loc + scale]: 1.

>>> from tinyfn.scipy import stats
>>> stats.uniform.pdf(tnp.array([1.0, 2.0, 4.0, 4.5]), loc=2, scale=2)
Array([0. , 0.5, 0.5, 0. ], dtype=float32)
""",
)
expon = Invertible(
    "expon", (), lambda z: -z, lambda z: -tnp.expm1(-z), sf=lambda z: tnp.exp(-z), logcdf=log1mexp, logsf=lambda z: -z,
    support=(0, math.inf), quantile=lambda q: -tnp.log1p(-q), upper=lambda q: -tnp.log(q),
    text="""The exponential distribution of mean `scale`: exp(-x), x >= 0.

>>> from tinyfn.scipy import stats
>>> stats.expon.sf(tnp.array([-1.0, 0.0, 3.0]), scale=3).round(4)
Array([1.    , 1.    , 0.3679], dtype=float32)
""",
)  # fmt: skip
laplace = Invertible(
    "laplace", (), lambda z: -tnp.abs(z) - math.log(2),
    lambda z: where(z < 0, 0.5 * tnp.exp(-tnp.abs(z)), 1 - 0.5 * tnp.exp(-tnp.abs(z))), logcdf=_laplace_logcdf,
    quantile=lambda q: where(q < 0.5, tnp.log(2 * q), -tnp.log(2 * (1 - q))),
    text="""The Laplace distribution: exp(-|x|) / 2.

>>> from tinyfn.scipy import stats
>>> stats.laplace.cdf(tnp.array([-1.0, 0.0])).round(4)
Array([0.1839, 0.5   ], dtype=float32)
""",
)  # fmt: skip
logistic = Invertible(
    "logistic", (), lambda z: -tnp.abs(z) - 2 * tnp.log1p(tnp.exp(-tnp.abs(z))), special.expit, logcdf=log_sigmoid,
    quantile=special.logit,
    text="""The logistic distribution: 1 / (2 cosh(x/2))²; its `cdf` is the sigmoid function.

>>> from tinyfn.scipy import stats
>>> stats.logistic.pdf(0.0).round(4), stats.logistic.ppf(0.5)
(Array(0.25, dtype=float32), Array(0., dtype=float32))
""",
)  # fmt: skip
cauchy = Invertible(
    "cauchy", (), lambda z: -math.log(math.pi) - tnp.log1p(z * z), lambda z: tnp.arctan2(1, -z) / math.pi,
    quantile=_cauchy_quantile,
    text="""The Cauchy distribution: 1 / (π (1 + x²)).

>>> from tinyfn.scipy import stats
>>> stats.cauchy.ppf(tnp.array([0.0, 0.25, 0.75])).round(4)
Array([-inf,  -1.,   1.], dtype=float32)
""",
)  # fmt: skip
gamma = Continuous(
    "gamma", ("a",), _log_gamma_density, lambda z, a: special.gammainc(a, z), sf=lambda z, a: special.gammaincc(a, z),
    support=(0, math.inf),
    wide=True,
    text="""The gamma distribution of the shape parameter `a` > 0: x^(a-1) exp(-x) / Γ(a), x >= 0.

>>> from tinyfn.scipy import stats
>>> stats.gamma.pdf(2.0, 1.0, scale=2.0).round(4)  # a = 1: exponential
Array(0.1839, dtype=float32)
""",
)  # fmt: skip
chi2 = Continuous(
    "chi2", ("df",), lambda z, df: _log_gamma_density(z / 2, df / 2) - math.log(2),
    lambda z, df: special.gammainc(df / 2, z / 2), sf=lambda z, df: special.gammaincc(df / 2, z / 2), support=(0, math.inf),
    wide=True,
    text="""The chi-squared distribution of `df` > 0 degrees of freedom: that of 2 y, with y gamma distributed for a = df/2.

>>> from tinyfn.scipy import stats
>>> stats.chi2.sf(3.841, 1).round(3)
Array(0.05, dtype=float32)
""",
)  # fmt: skip
beta = Continuous(
    "beta", ("a", "b"),
    lambda z, a, b: special.xlogy(a - 1, z) + special.xlog1py(b - 1, -z) - special.betaln(a, b),
    lambda z, a, b: special.betainc(a, b, z), sf=lambda z, a, b: special.betainc(b, a, 1 - z), support=(0, 1),
    wide=True,
    text="""The beta distribution: x^(a-1) (1-x)^(b-1) / B(a, b), 0 <= x <= 1.

>>> from tinyfn.scipy import stats
>>> stats.beta.pdf(tnp.array([-0.5, 0.5, 1.0]), 2, 1).round(4)
Array([0., 1., 2.], dtype=float32)
""",
)  # fmt: skip
t = Continuous(
    "t",
    ("df",),
    _t_log_density,
    _t_cdf,
    wide=True,
    text="""Student's distribution of `df` > 0 degrees of freedom: proportional to (1 + x²/df) to the power -(df + 1)/2.

>>> from tinyfn.scipy import stats
>>> stats.t.cdf(tnp.array([0.0, 1.0]), 1).round(4)  # df = 1: Cauchy
Array([0.5 , 0.75], dtype=float32)
""",
)
