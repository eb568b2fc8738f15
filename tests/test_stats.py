"""tinyfn.scipy.stats: values against SciPy's, derivatives, dtypes, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyfn
from tests.against_numpy import check_derivatives
from tinyfn import numpy as tnp
from tinyfn.scipy import stats

GOLDENS = json.loads((Path(__file__).parent / "goldens" / "stats.json").read_text())


@pytest.mark.parametrize("name, method, points, options, values", GOLDENS)
def test_values(name: str, method: str, points: Any, options: Any, values: Any) -> None:
    function = getattr(getattr(stats, name), method)
    x, wanted = np.array(points), np.array(values)
    with np.errstate(all="ignore"):
        for found in (function(x, **options), tinyfn.jit(lambda x: function(x, **options))(x)):
            assert found.dtype == np.float64
            np.testing.assert_allclose(
                found, wanted, rtol=3e-12, atol=1e-14 if method in ("ppf", "isf") else 1e-300
            )
        narrow = function(x.astype(np.float32), **options)
        assert narrow.dtype == np.float32
        half = function(x.astype(np.float16), **options)
    assert half.dtype == np.float16
    # Between the ends float32 is right but for the rounding of (x - loc) / scale.
    middle = np.isfinite(wanted) & (np.abs(wanted) > 1e-3) & (np.abs(x) < 10)
    np.testing.assert_allclose(np.asarray(narrow)[middle], wanted[middle], rtol=2e-4)


@pytest.mark.parametrize(
    "name", ["norm", "expon", "laplace", "logistic", "cauchy", "gamma", "chi2", "beta", "t"]
)
def test_derivatives(name: str) -> None:
    shapes = {"gamma": (2.5,), "chi2": (3.0,), "beta": (2.0, 3.0), "t": (4.0,)}.get(name, ())
    x, loc, scale = np.array([0.61, 0.35]), np.array([0.1, -0.2]), np.array([1.3, 0.9])
    family = getattr(stats, name)
    check_derivatives(lambda x, loc, scale: family.logpdf(x, *shapes, loc, scale), x, loc, scale)
    check_derivatives(lambda x: family.cdf(x, *shapes), x)
    for i in range(len(shapes)):
        check_derivatives(
            lambda a, i=i: family.logpdf(x, *shapes[:i], a, *shapes[i + 1 :]), np.array(shapes[i])
        )
    # Outside of the support there is none, and not NaN.
    if name in ("expon", "gamma", "chi2", "beta"):
        slopes = tinyfn.grad(lambda x: tnp.sum(family.pdf(x, *shapes)))(np.array([-1.0, 0.5]))
        assert slopes[0] == 0 and slopes[1] != 0


@pytest.mark.parametrize(
    "name, method, x, shapes, wanted",
    [
        ("t", "logpdf", 0.5, (1e4,), -1.0439744705723495), ("t", "logpdf", 0.5, (1e7,), -1.0439385691421732),
        ("gamma", "logpdf", 1e4, (1e4,), -5.5241170525114285), ("chi2", "logpdf", 2e4, (2e4,), -6.217264233091555),
        ("beta", "logpdf", 0.5, (1e4, 1e4), 4.725939923624537), ("poisson", "logpmf", 1e4, (1e4,), -5.52411705252598),
        ("binom", "logpmf", 5e3, (1e4, 0.5), -4.830986538632715),
    ],
)  # fmt: skip
def test_large_parameters_keep_float32s_digits(
    name: str, method: str, x: float, shapes: tuple[float, ...], wanted: float
) -> None:
    """Values of SciPy 1.17."""
    found = getattr(getattr(stats, name), method)(np.float32(x), *map(np.float32, shapes))
    np.testing.assert_allclose(found, wanted, rtol=2e-7)


def test_edges() -> None:
    x = np.array([-np.inf, -1.0, 0.5, np.inf])
    for method in ("logpdf", "cdf"):
        np.testing.assert_allclose(
            getattr(stats.t, method)(x, np.inf), getattr(stats.norm, method)(x), rtol=1e-15
        )
    assert np.isnan(stats.bernoulli.cdf(np.nan, 0.3)) and np.isnan(stats.poisson.cdf(np.nan, 0.3))


def test_promotion_and_batching() -> None:
    assert stats.norm.logpdf(1).dtype == np.float32
    table = stats.norm.logpdf(np.zeros((3, 1), np.float32), np.arange(2), scale=np.ones(2, np.float32))
    assert table.shape == (3, 2) and table.dtype == np.float32
    lanes = tinyfn.vmap(stats.gamma.logpdf)(np.ones(4), np.arange(1.0, 5.0))
    np.testing.assert_allclose(lanes, stats.gamma.logpdf(np.ones(4), np.arange(1.0, 5.0)), rtol=1e-14)
    assert (
        np.isnan(stats.norm.cdf(np.nan))
        and np.isnan(stats.poisson.pmf(np.nan, 2.0))
        and np.isnan(stats.norm.ppf(1.5))
    )


def test_multivariate_normal() -> None:
    generator = np.random.default_rng(0)
    x, mean, root = generator.normal(size=(5, 3)), generator.normal(size=3), generator.normal(size=(3, 3))
    cov = root @ root.T + np.eye(3)
    difference = x - mean
    wanted = -0.5 * np.einsum("bi,ij,bj->b", difference, np.linalg.inv(cov), difference)
    wanted -= 0.5 * np.linalg.slogdet(2 * np.pi * cov)[1]
    function = stats.multivariate_normal.logpdf
    np.testing.assert_allclose(function(x, mean, cov), wanted, rtol=1e-12)
    np.testing.assert_allclose(
        tinyfn.jit(tinyfn.vmap(function, (0, None, None)))(x, mean, cov), wanted, rtol=1e-12
    )
    np.testing.assert_allclose(stats.multivariate_normal.pdf(x[0], mean, cov), np.exp(wanted[0]), rtol=1e-12)
    check_derivatives(lambda x, mean: function(x, mean, cov), x, mean)
    diagonal = stats.norm.logpdf(x, mean, 2.0).sum(1)
    np.testing.assert_allclose(function(x, mean, 4.0), diagonal, rtol=1e-12)
    np.testing.assert_allclose(function(x, mean, 4.0 * np.eye(3)), diagonal, rtol=1e-12)
    with pytest.raises(ValueError, match="covariance"):
        function(x, mean, np.ones(3))
    with pytest.raises(NotImplementedError, match="singular"):
        function(x, mean, cov, True)  # type: ignore[arg-type]


def test_errors_name_the_parameters() -> None:
    for call, match in (
        (lambda: stats.gamma.logpdf(1.0), "stats.gamma.logpdf needs a"),
        (lambda: stats.norm.pdf(1.0, 0.0, 1.0, 2.0), "takes x, loc, scale"),
        (lambda: stats.norm.pdf(1.0, 0.0, loc=1.0), "takes x, loc, scale"),
        (lambda: stats.poisson.pmf(1, 2.0, scale=1.0), "takes x, mu, loc"),
    ):
        with pytest.raises(TypeError, match=match):
            call()
