"""Goodness of fit of every sampler: Kolmogorov and Smirnov's test, or chi-squared, against the exact distribution.

The keys are fixed, so these don't fail by chance. Golden values are compared in test_random.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.test_random import ENTRIES, chi_squared
from tinyfn import random, vmap

COUNT = 20_000
SAMPLERS = """
    ball bernoulli beta binomial bits categorical cauchy chisquare choice dirichlet double_sided_maxwell exponential f gamma
    generalized_normal geometric gumbel laplace loggamma logistic lognormal maxwell multinomial multivariate_normal normal
    orthogonal pareto permutation poisson rademacher randint rayleigh t triangular truncated_normal uniform wald weibull_min
""".split()


def kolmogorov_smirnov(values: np.ndarray, distribution: Any) -> float:
    """sqrt(n) times the greatest distance between the empirical and the given distribution function: 1.95 at
    p = 0.001."""
    ordered = np.sort(values.astype(np.float64).ravel())
    expected = np.vectorize(distribution, otypes=[np.float64])(ordered)
    n = len(ordered)
    steps = np.arange(n + 1) / n
    return math.sqrt(n) * max(np.max(expected - steps[:-1]), np.max(steps[1:] - expected))


def normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def truncated_cdf(x: float) -> float:
    low, high = normal_cdf(-1.0), normal_cdf(2.5)
    return (normal_cdf(x) - low) / (high - low)


def from_density(log_density: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> Any:
    """The distribution function of a density that need not be normalized, by summing it up on a fine grid."""
    grid = np.linspace(low, high, 40_001)
    middle = (grid[1:] + grid[:-1]) / 2
    total = np.concatenate([[0.0], np.cumsum(np.exp(log_density(middle)))])
    return lambda x: float(np.interp(x, grid, total / total[-1]))


def gamma_cdf(a: float) -> Any:
    return from_density(lambda x: (a - 1) * np.log(x) - x, 0, a + 60)


def triangular_cdf(x: float) -> float:
    return (x + 1) ** 2 / 6 if x < 0.5 else 1 - (3 - x) ** 2 / 10


def maxwell_cdf(x: float) -> float:
    return math.erf(x / math.sqrt(2)) - math.sqrt(2 / math.pi) * x * math.exp(-x * x / 2)


def two_sided_maxwell_cdf(x: float) -> float:
    y = (x - 1) / 2
    return 0.5 + math.copysign(maxwell_cdf(abs(y)) / 2, y)


N = (COUNT,)
CONTINUOUS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "uniform": (lambda k: random.uniform(k, N), lambda x: x),
    "uniform of an interval": (
        lambda k: random.uniform(k, N, minval=-2.0, maxval=3.0),
        lambda x: (x + 2) / 5,
    ),
    "normal": (lambda k: random.normal(k, N), normal_cdf),
    "truncated_normal": (lambda k: random.truncated_normal(k, -1.0, 2.5, N), truncated_cdf),
    "exponential": (lambda k: random.exponential(k, N), lambda x: -math.expm1(-x)),
    "gumbel": (lambda k: random.gumbel(k, N), lambda x: math.exp(-math.exp(-x))),
    "gumbel high": (lambda k: random.gumbel(k, N, mode="high"), lambda x: math.exp(-math.exp(-x))),
    "laplace": (
        lambda k: random.laplace(k, N),
        lambda x: 0.5 * math.exp(x) if x < 0 else 1 - 0.5 * math.exp(-x),
    ),
    "logistic": (lambda k: random.logistic(k, N), lambda x: 1 / (1 + math.exp(-x))),
    "cauchy": (lambda k: random.cauchy(k, N), lambda x: 0.5 + math.atan(x) / math.pi),
    "gamma 0.5": (lambda k: random.gamma(k, 0.5, N), lambda x: math.erf(math.sqrt(x))),
    "gamma 1": (lambda k: random.gamma(k, 1.0, N), lambda x: -math.expm1(-x)),
    "gamma 2.5": (lambda k: random.gamma(k, 2.5, N), gamma_cdf(2.5)),
    "gamma 70": (lambda k: random.gamma(k, 70.0, N), gamma_cdf(70)),
    "loggamma 0.02": (
        lambda k: random.loggamma(k, 0.02, N),
        from_density(lambda x: 0.02 * x - np.exp(x), -1500, 5),
    ),
    "beta": (
        lambda k: random.beta(k, 1.5, 4.0, N),
        from_density(lambda x: 0.5 * np.log(x) + 3 * np.log1p(-x), 0, 1),
    ),
    "beta of small parameters": (
        lambda k: random.beta(k, 0.5, 0.5, N),
        lambda x: 2 / math.pi * math.asin(math.sqrt(x)),
    ),
    "dirichlet": (
        lambda k: random.dirichlet(k, np.array([1.5, 3.0, 1.0]), N)[:, 0],
        from_density(lambda x: 0.5 * np.log(x) + 3 * np.log1p(-x), 0, 1),
    ),
    "chisquare": (
        lambda k: random.chisquare(k, 5.0, N),
        from_density(lambda x: 1.5 * np.log(x) - x / 2, 0, 120),
    ),
    "f": (
        lambda k: random.f(k, 4.0, 30.0, N),
        from_density(lambda x: np.log(x) - 17 * np.log1p(4 / 30 * x), 0, 60),
    ),
    "t": (lambda k: random.t(k, 5.0, N), from_density(lambda x: -3 * np.log1p(x * x / 5), -60, 60)),
    "generalized_normal": (
        lambda k: random.generalized_normal(k, 1.5, N),
        from_density(lambda x: -(np.abs(x) ** 1.5), -20, 20),
    ),
    "ball: radius": (
        lambda k: (abs(random.ball(k, 3, 1.5, N)) ** 1.5).sum(-1) ** (1 / 1.5),
        lambda x: x**3,
    ),
    "ball: coordinate": (
        lambda k: random.ball(k, 3, 2, N)[:, 1],
        lambda x: 0.5 + (3 * x - x**3) / 4,
    ),
    "lognormal": (lambda k: random.lognormal(k, 0.7, N), lambda x: normal_cdf(math.log(x) / 0.7)),
    "pareto": (lambda k: random.pareto(k, 2.5, N), lambda x: 1 - x**-2.5),
    "rayleigh": (lambda k: random.rayleigh(k, 2.0, N), lambda x: -math.expm1(-x * x / 8)),
    "weibull_min": (
        lambda k: random.weibull_min(k, 2.0, 1.5, N),
        lambda x: -math.expm1(-((x / 2) ** 1.5)),
    ),
    "triangular": (lambda k: random.triangular(k, -1.0, 0.5, 3.0, N), triangular_cdf),
    "maxwell": (lambda k: random.maxwell(k, N), maxwell_cdf),
    "double_sided_maxwell": (lambda k: random.double_sided_maxwell(k, 1.0, 2.0, N), two_sided_maxwell_cdf),
    "wald": (
        lambda k: random.wald(k, 1.5, N),
        lambda x: (
            normal_cdf(math.sqrt(1 / x) * (x / 1.5 - 1))
            + math.exp(2 / 1.5) * normal_cdf(-math.sqrt(1 / x) * (x / 1.5 + 1))
        ),
    ),
    "multivariate_normal: one number": (
        lambda k: random.multivariate_normal(k, np.float32([1, -2]), np.float32([[4, 0.5], [0.5, 1]]), N)[
            :, 0
        ],
        lambda x: normal_cdf((x - 1) / 2),
    ),
    "multivariate_normal: a difference": (
        lambda k: (
            random.multivariate_normal(k, np.float32([1, -2]), np.float32([[4, 0.5], [0.5, 1]]), N)
            @ np.float32([1, -1])
        ),
        lambda x: normal_cdf((x - 3) / 2),
    ),
    "orthogonal: a corner": (lambda k: random.orthogonal(k, 3, N)[:, 2, 0], lambda x: (1 + x) / 2),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distribution(name: str) -> None:
    sampler, distribution = CONTINUOUS[name]
    values = np.asarray(sampler(random.key(2024)))
    assert kolmogorov_smirnov(values, distribution) < 1.95
    # Neighbours are not correlated.
    ranks = np.argsort(np.argsort(values)) / COUNT - 0.5
    assert abs(np.mean(ranks[1:] * ranks[:-1]) * 12) < 4 / math.sqrt(COUNT)


def poisson_pmf(rate: float) -> Callable[[int], float]:
    return lambda k: math.exp(k * math.log(rate) - rate - math.lgamma(k + 1))


def binomial_pmf(n: int, p: float) -> Callable[[int], float]:
    return lambda k: math.comb(n, k) * p**k * (1 - p) ** (n - k)


def equally(count: int) -> Callable[[int], float]:
    return lambda _: 1 / count


WEIGHTS = np.array([0.1, 0.25, 0.05, 0.4, 0.2])
DISCRETE: dict[str, tuple[Callable[[Any], Any], Callable[[int], float], range]] = {
    **{f"bits: the highest four of {8 * size}": (
        lambda k, size=size: np.asarray(random.bits(k, N, f"uint{8 * size}")) >> (8 * size - 4), equally(16), range(16)
    ) for size in (1, 2, 4, 8)},
    **{f"bits: the lowest four of {8 * size}": (
        lambda k, size=size: np.asarray(random.bits(k, N, f"uint{8 * size}")) & 15, equally(16), range(16)
    ) for size in (1, 2, 4, 8)},
    "randint": (lambda k: random.randint(k, N, -3, 10), equally(13), range(-3, 10)),
    "randint of a narrow dtype": (lambda k: random.randint(k, N, 0, 256, "uint8"), equally(256), range(256)),
    "bernoulli 0": (lambda k: random.bernoulli(k, 0.0, N), lambda x: 1.0 - x, range(2)),
    "bernoulli 0.02": (lambda k: random.bernoulli(k, 0.02, N), lambda x: 0.02 if x else 0.98, range(2)),
    "bernoulli 0.7": (lambda k: random.bernoulli(k, 0.7, N), lambda x: 0.7 if x else 0.3, range(2)),
    "bernoulli 1": (lambda k: random.bernoulli(k, 1.0, N), lambda x: float(x), range(2)),
    "rademacher": (lambda k: random.rademacher(k, N), lambda x: abs(x) / 2, range(-1, 2)),
    "choice": (lambda k: random.choice(k, 7, N), equally(7), range(7)),
    "choice by weights": (lambda k: random.choice(k, 5, N, p=WEIGHTS), lambda x: WEIGHTS[x], range(5)),
    "choice by weights of another sum": (
        lambda k: random.choice(k, 5, N, p=7 * WEIGHTS), lambda x: WEIGHTS[x], range(5)
    ),
    "choice without replacement": (
        lambda k: vmap(lambda own: random.choice(own, 6, (2,), replace=False))(random.split(k, COUNT))[:, 1],
        equally(6), range(6),
    ),
    "categorical": (
        lambda k: random.categorical(k, np.log(WEIGHTS), shape=N), lambda x: WEIGHTS[x], range(5)
    ),
    "permutation": (
        lambda k: vmap(lambda own: random.permutation(own, 5))(random.split(k, COUNT))[:, 3], equally(5), range(5)
    ),
    "poisson 0.4": (lambda k: random.poisson(k, 0.4, N), poisson_pmf(0.4), range(30)),
    "poisson 9": (lambda k: random.poisson(k, 9.0, N), poisson_pmf(9), range(60)),
    "poisson 10": (lambda k: random.poisson(k, 10.0, N), poisson_pmf(10), range(60)),
    "poisson 300": (lambda k: random.poisson(k, 300.0, N), poisson_pmf(300), range(100, 600)),
    "binomial of few": (lambda k: random.binomial(k, 12.0, 0.3, N), binomial_pmf(12, 0.3), range(13)),
    "binomial of many": (lambda k: random.binomial(k, 60.0, 0.4, N), binomial_pmf(60, 0.4), range(61)),
    "binomial of mostly successes": (
        lambda k: random.binomial(k, 200.0, 0.9, N),
        binomial_pmf(200, 0.9),
        range(201),
    ),
    "multinomial": (
        lambda k: random.multinomial(k, 40.0, np.float32([0.2, 0.3, 0.5]), shape=(COUNT, 3))[:, 1],
        binomial_pmf(40, 0.3),
        range(41),
    ),
    "geometric": (lambda k: random.geometric(k, 0.3, N), lambda k: 0.3 * 0.7 ** (k - 1), range(1, 80)),
}  # fmt: skip


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distribution(name: str) -> None:
    sampler, mass, values = DISCRETE[name]
    drawn = np.asarray(sampler(random.key(77))).astype(np.int64)
    assert drawn.min() >= values.start and drawn.max() < values.stop
    counts = np.bincount(drawn - values.start, minlength=len(values))
    expected = np.array([mass(k) for k in values]) * COUNT
    # Values that are expected less than ten times count as one.
    often = expected >= 10
    counts = np.append(counts[often], counts[~often].sum())
    expected = np.append(expected[often], max(expected[~often].sum(), 1e-9))
    if expected[-1] < 1:
        assert counts[-1] <= (5 if expected[-1] > 1e-9 else 0)
        counts, expected = counts[:-1], expected[:-1]
    assert counts.size == 1 or chi_squared(counts, expected) < 4


def test_moments() -> None:
    values = np.asarray(random.normal(random.key(8), (200, 500)), np.float64)
    n = values.size
    assert abs(values.mean()) < 4 / math.sqrt(n)
    assert abs(values.var() - 1) < 4 * math.sqrt(2 / n)
    assert abs((values**3).mean()) < 4 * math.sqrt(15 / n)
    assert abs((values**4).mean() - 3) < 4 * math.sqrt(96 / n)


def test_every_sampler_has_golden_values_and_a_test_of_its_distribution() -> None:
    assert len(SAMPLERS) == 38 and set(SAMPLERS) <= set(random.__all__)
    tested = {name.split()[0].rstrip(":,") for name in (*CONTINUOUS, *DISCRETE)}
    assert tested == set(SAMPLERS)
    assert set(SAMPLERS) <= {entry["function"] for entry in ENTRIES}
    no_samplers = {
        "KeyReuseError",
        "PRNGKey",
        "check_key_reuse",
        "clone",
        "fold_in",
        "key",
        "split",
        "wrap_key_data",
    }
    assert set(random.__all__) - set(SAMPLERS) - no_samplers == {"key_data", "key_dtype", "key_impl"}
