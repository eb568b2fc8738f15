"""The samplers that are made of others: transforms, derivatives, edges. Their golden values are compared in test_random.py, their
distributions in test_random_distributions.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinyfn import grad, jit, jvp, lax, random, vmap
from tinyfn.random.gamma_derivative import log_derivative

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
