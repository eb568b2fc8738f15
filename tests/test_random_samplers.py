"""The samplers that are made of others: goodness of fit, transforms, derivatives, edges. Their golden values are compared in
test_random.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.test_random import chi_squared, kolmogorov_smirnov
from tinyfn import grad, jit, jvp, lax, random, vmap
from tinyfn.random.gamma_derivative import log_derivative

COUNT = 20_000


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


def normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def maxwell_cdf(x: float) -> float:
    return math.erf(x / math.sqrt(2)) - math.sqrt(2 / math.pi) * x * math.exp(-x * x / 2)


def two_sided_maxwell_cdf(x: float) -> float:
    y = (x - 1) / 2
    return 0.5 + math.copysign(maxwell_cdf(abs(y)) / 2, y)


N = (COUNT,)
CONTINUOUS: dict[str, tuple[Callable[[Any], Any], Any]] = {
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
    "radius in a ball": (
        lambda k: (abs(random.ball(k, 3, 1.5, N)) ** 1.5).sum(-1) ** (1 / 1.5),
        lambda x: x**3,
    ),
    "coordinate in a ball": (
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
    "one of correlated normal numbers": (
        lambda k: random.multivariate_normal(k, np.float32([1, -2]), np.float32([[4, 0.5], [0.5, 1]]), N)[
            :, 0
        ],
        lambda x: normal_cdf((x - 1) / 2),
    ),
    "their difference": (
        lambda k: (
            random.multivariate_normal(k, np.float32([1, -2]), np.float32([[4, 0.5], [0.5, 1]]), N)
            @ np.float32([1, -1])
        ),
        lambda x: normal_cdf((x - 3) / 2),
    ),
    "corner of an orthogonal matrix": (lambda k: random.orthogonal(k, 3, N)[:, 2, 0], lambda x: (1 + x) / 2),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distribution(name: str) -> None:
    sampler, distribution = CONTINUOUS[name]
    assert kolmogorov_smirnov(np.asarray(sampler(random.key(2024))), distribution) < 1.95


def poisson_pmf(rate: float) -> Callable[[int], float]:
    return lambda k: math.exp(k * math.log(rate) - rate - math.lgamma(k + 1))


def binomial_pmf(n: int, p: float) -> Callable[[int], float]:
    return lambda k: math.comb(n, k) * p**k * (1 - p) ** (n - k)


DISCRETE: dict[str, tuple[Callable[[Any], Any], Callable[[int], float], range]] = {
    "poisson 0.4": (lambda k: random.poisson(k, 0.4, N), poisson_pmf(0.4), range(30)),
    "poisson 9": (lambda k: random.poisson(k, 9.0, N), poisson_pmf(9), range(60)),
    "poisson 10": (lambda k: random.poisson(k, 10.0, N), poisson_pmf(10), range(60)),
    "poisson 300": (lambda k: random.poisson(k, 300.0, N), poisson_pmf(300), range(100, 600)),
    "binomial of few": (lambda k: random.binomial(k, 12.0, 0.3, N), binomial_pmf(12, 0.3), range(13)),
    "binomial of many": (lambda k: random.binomial(k, 60.0, 0.4, N), binomial_pmf(60, 0.4), range(61)),
    "binomial, mostly successes": (
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
}


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
        assert counts[-1] <= 5
        counts, expected = counts[:-1], expected[:-1]
    assert chi_squared(counts, expected) < 4


# Transforms

P = np.array([0.3, 1.0, 20.0], np.float32)
SAMPLERS: dict[str, Callable[[Any], Any]] = {
    "gamma": lambda k: random.gamma(k, P),
    "loggamma": lambda k: random.loggamma(k, P, (2, 3)),
    "beta": lambda k: random.beta(k, P, 2.0),
    "dirichlet": lambda k: random.dirichlet(k, P, (2,)),
    "chisquare": lambda k: random.chisquare(k, P),
    "f": lambda k: random.f(k, P, 3.0),
    "t": lambda k: random.t(k, P),
    "generalized_normal": lambda k: random.generalized_normal(k, 1.5, (3,)),
    "ball": lambda k: random.ball(k, 3, 1.5, (2,)),
    "poisson": lambda k: random.poisson(k, P),
    "binomial": lambda k: random.binomial(k, np.float32([5, 50, 500]), 0.3),
    "multinomial": lambda k: random.multinomial(k, 50.0, np.float32([0.2, 0.3, 0.5])),
    "geometric": lambda k: random.geometric(k, 0.3, (4,)),
    "lognormal": lambda k: random.lognormal(k, P),
    "pareto": lambda k: random.pareto(k, P),
    "rayleigh": lambda k: random.rayleigh(k, P),
    "weibull_min": lambda k: random.weibull_min(k, P, 2.0),
    "triangular": lambda k: random.triangular(k, 0.0, P, 21.0),
    "maxwell": lambda k: random.maxwell(k, (2,)),
    "double_sided_maxwell": lambda k: random.double_sided_maxwell(k, P, 2.0),
    "wald": lambda k: random.wald(k, P),
    "multivariate_normal": lambda k: random.multivariate_normal(k, P, np.diag(P), (2,)),
    "orthogonal": lambda k: random.orthogonal(k, 2, (2,), m=3),
}
LOOPS = ("gamma", "poisson", "binomial")


@pytest.mark.parametrize("name", SAMPLERS)
def test_jit_and_vmap_give_the_same(name: str) -> None:
    sampler = SAMPLERS[name]
    keys = random.split(random.key(17), 3)
    each = np.stack([np.asarray(sampler(lax.index_in_dim(keys, i, keepdims=False))) for i in range(3)])
    compiled = jit(sampler)(lax.index_in_dim(keys, 1, keepdims=False))
    np.testing.assert_allclose(np.asarray(compiled), each[1], rtol=3e-5, atol=1e-6)
    np.testing.assert_allclose(np.asarray(vmap(sampler)(keys)), each, rtol=1e-5, atol=1e-6)
    if name in LOOPS:
        np.testing.assert_allclose(np.asarray(jit(vmap(sampler))(keys)), each, rtol=3e-5, atol=1e-6)


# Derivatives


def test_derivative_of_gamma_is_that_of_its_quantiles() -> None:
    """F(z(a), a) stays the same: the derivative of F in a by differences of the summed-up density, over the density."""
    for a in (0.3, 1.0, 2.5, 30.0):
        for share in (0.05, 0.5, 0.9, 1.0, 1.3, 2.0):
            z, step = a * share, 3e-3 * min(a, 1.0)

            def lower(b: float, z: float = z) -> float:
                term = total = 1 / b
                for n in range(1, 400):
                    term *= z / (b + n)
                    total += term
                return total * math.exp(b * math.log(z) - z - math.lgamma(b))

            density = math.exp((a - 1) * math.log(z) - z - math.lgamma(a))
            once, twice = (lower(a + n * step) - lower(a - n * step) for n in (1, 2))
            expected = -(8 * once - twice) / (12 * step) / density
            found = z * np.asarray(log_derivative(*[lax.full((), x, "float64") for x in (a, math.log(z))]))
            assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)
            single = z * np.asarray(log_derivative(*[lax.full((), x, "float32") for x in (a, math.log(z))]))
            assert single == pytest.approx(found, rel=1e-5)


def test_derivatives_of_samplers_in_their_parameters() -> None:
    """The mean of the derivatives is the derivative of the mean, which is known."""
    key, many = random.key(3), 20_000
    slope = np.asarray(grad(lambda a: random.gamma(key, a, (many,)).mean())(np.float32(1.7)))
    assert slope == pytest.approx(1.0, abs=0.03)
    # d E[log z] / da = ψ'(a), which is π²/2 for a = 1/2.
    compiled = jit(grad(lambda a: random.loggamma(key, a, (many,)).mean()))(np.float32(0.5))
    assert np.asarray(compiled) == pytest.approx(math.pi**2 / 2, rel=0.05)
    # d E[z] / da = b / (a + b)² for the beta distribution.
    slope = np.asarray(grad(lambda a: random.beta(key, a, 3.0, (many,)).mean())(np.float32(2.0)))
    assert slope == pytest.approx(3 / 25, abs=0.01)
    _, tangent = jvp(
        lambda a: random.dirichlet(key, a, (many,)).mean(0),
        (np.float32([1, 2, 3]),),
        (np.float32([1, 0, 0]),),
    )
    np.testing.assert_allclose(tangent, [5 / 36, -2 / 36, -3 / 36], atol=0.01)
    slopes = vmap(grad(lambda a: random.gamma(key, a)))(np.float32([0.5, 5.0]))
    singles = [np.asarray(grad(lambda a: random.gamma(key, a))(np.float32(a))) for a in (0.5, 5.0)]
    np.testing.assert_allclose(slopes, singles, rtol=1e-5)
    assert float(grad(lambda s: random.rayleigh(key, s))(np.float32(2.0))) == pytest.approx(
        float(random.rayleigh(key, 1.0))
    )
    assert float(grad(lambda n: random.binomial(key, n, 0.5))(np.float32(30.0))) == 0.0


# Edges


def test_shapes_dtypes_and_parameters_at_the_edge() -> None:
    key = random.key(0)
    for shape in ((), (0,), (1,), (2, 0)):
        for drawn in (
            random.gamma(key, 2.0, shape), random.beta(key, 2.0, 1.0, shape), random.t(key, 2.0, shape),
            random.poisson(key, 2.0, shape), random.binomial(key, 9.0, 0.5, shape), random.wald(key, 2.0, shape),
            random.geometric(key, 0.5, shape), random.maxwell(key, shape), random.lognormal(key, 1.0, shape),
        ):  # fmt: skip
            assert drawn.shape == shape
        assert random.ball(key, 2, 2, shape).shape == (*shape, 2)
        assert random.dirichlet(key, P, shape).shape == (*shape, 3)
    for dtype in ("float16", "bfloat16", "float64"):
        for drawn in (random.gamma(key, 2.0, (50,), dtype), random.loggamma(key, 0.5, (50,), dtype),
                      random.t(key, 4.0, (50,), dtype), random.wald(key, 2.0, (50,), dtype)):  # fmt: skip
            assert drawn.dtype == dtype and np.isfinite(np.asarray(drawn).astype(np.float64)).all()
    assert random.poisson(key, np.float32([0.0, np.nan, -1.0])).tolist() == [0, -1, -1]
    assert random.poisson(key, 3.0, (), "int64").dtype == np.int64
    n, p = np.float32([0, 9, 9, -1, 9, np.nan, 9, np.inf]), np.float32([0.5, 0, 1, 0.5, 1.5, 0.5, -0.1, 0.5])
    drawn = np.asarray(random.binomial(key, n, p))
    np.testing.assert_array_equal(drawn, [0, 0, 9, np.nan, np.nan, np.nan, np.nan, np.inf])
    assert np.asarray(random.multinomial(key, 30.0, np.float32([0, 0.5, 0, 0.5, 0])))[[0, 2, 4]].tolist() == [
        0,
        0,
        0,
    ]
    assert np.asarray(random.multinomial(key, np.float32([3, 8]), np.full((2, 4), 0.25))).sum(
        -1
    ).tolist() == [3, 8]
    vectors = np.asarray(random.dirichlet(key, np.full(3, 1e-3, np.float32), (100,)))
    np.testing.assert_allclose(vectors.sum(-1), 1, rtol=1e-5)
    assert random.geometric(key, 1.0, (5,)).tolist() == [1] * 5
    matrices = np.asarray(random.orthogonal(key, 3, (4,), m=5))
    np.testing.assert_allclose(
        matrices @ matrices.swapaxes(-1, -2), np.broadcast_to(np.eye(3), (4, 3, 3)), atol=1e-5
    )
    singular = np.float32([[1, 1], [1, 1]])
    for method in ("eigh", "svd"):
        drawn = np.asarray(
            random.multivariate_normal(key, np.zeros(2, np.float32), singular, (9,), method=method)
        )
        np.testing.assert_allclose(drawn[:, 0], drawn[:, 1], atol=2e-3)


def test_errors() -> None:
    key = random.key(0)
    square = np.eye(2, dtype=np.float32)
    for call, kind, match in (
        (lambda: random.gamma(key, 1.0, (2,), "int32"), TypeError, r"random\.gamma gives floats"),
        (lambda: random.gamma(key, P, (2,)), ValueError, r"random\.gamma.*broadcast"),
        (lambda: random.poisson(key, 1.0, (2,), "float32"), TypeError, "integers"),
        (lambda: random.geometric(key, 0.5, (2,), "float32"), TypeError, "integers"),
        (lambda: random.dirichlet(key, 1.0), ValueError, "vector"),
        (lambda: random.multinomial(key, 1.0, 0.5), ValueError, "vector"),
        (lambda: random.multivariate_normal(key, P, square), ValueError, "covariances"),
        (lambda: random.multivariate_normal(key, np.zeros(2), square, method="lu"), ValueError, "methods"),
        (lambda: random.gamma(np.int32(3), 1.0), TypeError, r"random\.gamma takes one key"),
    ):
        with pytest.raises(kind, match=match):
            call()
