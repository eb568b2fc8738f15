"""Probability distributions, with the names of `jax.scipy.stats`: `stats.norm.logpdf(x, loc=0, scale=1)`.

Arguments are promoted and broadcast as in `tinyfn.numpy`; integers become float32. Half precision is worked out in float32,
and what has gamma functions in float64. Densities are 0 (their logarithms -infinity) outside of a distribution's support, where
derivatives are 0 too. Formulas are as in N. L. Johnson, S. Kotz and N. Balakrishnan, "Continuous
univariate distributions" (1994), in a form that is exact in tails."""

from __future__ import annotations

from .continuous import beta, cauchy, chi2, expon, gamma, laplace, logistic, norm, t, uniform
from .discrete import bernoulli, binom, geom, poisson
from .multivariate import multivariate_normal

__all__ = [
    "bernoulli", "beta", "binom", "cauchy", "chi2", "expon", "gamma", "geom", "laplace", "logistic", "multivariate_normal",
    "norm", "poisson", "t", "uniform",
]  # fmt: skip
