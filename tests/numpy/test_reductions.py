"""Reductions, statistics, cumulative functions against NumPy's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tinyfn.numpy as tnp
from tests.numpy.checks import TOLERANCE, agree, check_gradient, close, numbers
from tinyfn.transforms import grad, jit

AXES: tuple[Any, ...] = (None, 0, -1, (0, 2), ())
REDUCTIONS = (
    "sum",
    "prod",
    "max",
    "min",
    "mean",
    "var",
    "std",
    "all",
    "any",
    "count_nonzero",
    "amax",
    "amin",
    "ptp",
    "median",
)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    for dtype in ("float32", "float64", "float16", "int32", "uint8", "bool"):
        if dtype == "bool" and name in ("ptp", "median"):
            continue
        x = numbers(dtype, (2, 3, 4), 0.5, 2)
        for axis, keepdims in itertools.product(AXES, (False, True)):
            if axis == () and name in ("median", "ptp", "count_nonzero"):
                continue
            agree(
                lambda m, x: getattr(m, name)(x, axis=axis, keepdims=keepdims),
                x,
                tolerance=4 * TOLERANCE.get(dtype, 1e-6),
                under_jit=keepdims,
            )
    agree(lambda m, x: getattr(m, name)(x), np.float32(3.0))
    agree(lambda m, x: getattr(m, name)(x), np.array([[1.0, np.nan], [np.inf, 2.0]], np.float32))
    if name in ("sum", "prod", "mean", "var", "std", "max", "min", "median", "ptp"):
        x = np.random.default_rng(0).permutation(12).reshape(3, 4) * 0.3 - 1.1
        for axis in (None, 0, (0, 1)):
            check_gradient(lambda m, x: getattr(m, name)(x, axis=axis), x)
    if name in ("sum", "prod", "all", "any", "count_nonzero"):
        agree(lambda m, x: getattr(m, name)(x, axis=0), np.zeros((0, 3), np.float32))
    elif name in ("max", "min"):
        with pytest.raises(ValueError, match="no elements"):
            getattr(tnp, name)(tnp.zeros((0, 3)))
        agree(lambda m, x: getattr(m, name)(x, axis=0, initial=2.0), np.zeros((0, 3), np.float32))
    with pytest.raises(ValueError, match="out of bounds"):
        getattr(tnp, name)(tnp.ones((2, 3)), axis=2)


def test_types_of_reductions() -> None:
    for dtype, total in (
        ("int8", "int32"),
        ("uint8", "uint32"),
        ("bool", "int32"),
        ("int64", "int64"),
        ("float16", "float16"),
    ):
        assert tnp.sum(tnp.ones(3, dtype)).dtype == total and tnp.prod(tnp.ones(3, dtype)).dtype == total
    assert tnp.sum(tnp.full(300, 100, "int8")) == 30000
    assert (
        tnp.mean(tnp.arange(4)).dtype == np.float32 and tnp.var(tnp.ones(3, "bfloat16")).dtype == tnp.bfloat16
    )
    assert tnp.mean(tnp.full(100_000, 1.0, "float16")) == 1.0
    assert tnp.var(tnp.full(1000, 300.0, "float16")) == 0.0
    assert (
        tnp.sum(tnp.ones(3), dtype="float64").dtype == np.float64
        and tnp.mean(tnp.arange(3), dtype="float64").dtype == np.float64
    )
    assert tnp.argmax(tnp.ones(3)).dtype == np.int32 and tnp.cumsum(tnp.ones(3, bool)).dtype == np.int32
    assert tnp.max(tnp.ones(3, "int8")).dtype == np.int8


@pytest.mark.filterwarnings("ignore:Degrees of freedom")
def test_masked_reductions() -> None:
    x, mask = numbers("float32", (3, 4)), numbers("bool", (3, 4), seed=1)
    mask[0] = True
    for name in ("sum", "prod", "mean", "var", "std"):
        agree(lambda m, x, w: getattr(m, name)(x, axis=0, where=w), x, mask)
        agree(lambda m, x, w: getattr(m, name)(x, where=w[:, :1]), x, mask)
    for name in ("max", "min"):
        agree(lambda m, x, w: getattr(m, name)(x, axis=0, where=w, initial=0.5), x, mask)
        with pytest.raises(ValueError, match="initial"):
            getattr(tnp, name)(x, where=mask)
    agree(lambda m, x, w: (m.all(x > 0, where=w), m.any(x > 2, axis=1, where=w)), x, mask)
    agree(lambda m, x: m.sum(x, axis=1, initial=5.0), x)
    agree(lambda m, x: (m.var(x, ddof=1), m.std(x, axis=0, ddof=2)), x)
    agree(lambda m, x, w: m.var(x, axis=0, ddof=2, where=w), x, mask)  # some columns have one or two elements
    assert tnp.nanvar(tnp.array([1.0, 5.0]), dtype="int32").tolist() == 4
    agree(lambda m, x, w: m.average(x, axis=1, weights=w), x, np.array([1.0, 2.0, 3.0, 4.0], np.float32))
    agree(lambda m, x: m.average(x, axis=0, weights=x * x, returned=True), x)
    agree(lambda m, x: m.average(x), x)
    y, w = numbers("float32", (2, 3, 4)), numbers("float32", (4, 2), 0.1, 2.0)
    agree(lambda m, y, w: m.average(y, axis=(2, 0), weights=w, returned=True), y, w)
    agree(lambda m, y, w: m.quantile(y, 0.4, axis=(2, 0), weights=w, method="inverted_cdf"), y, w)
    for axis in (None, 1, (0, 2)):
        with pytest.raises(
            ValueError, match=r"average: weights float32\[4,2\] fit neither float32\[2,3,4\] nor its axes"
        ):
            tnp.average(y, axis, w)


@pytest.mark.parametrize(
    "name",
    [
        "nansum",
        "nanprod",
        "nanmax",
        "nanmin",
        "nanmean",
        "nanvar",
        "nanstd",
        "nanmedian",
        "nanargmax",
        "nanargmin",
    ],
)
def test_reductions_without_nan(name: str) -> None:
    x = numbers("float32", (3, 4))
    x[0, 1] = x[2, 3] = np.nan
    for axis in (None, 0, 1):
        agree(lambda m, x: getattr(m, name)(x, axis=axis), x)
    agree(lambda m, x: getattr(m, name)(x, axis=0), np.arange(6, dtype=np.int32).reshape(2, 3))
    result = getattr(tnp, name)(tnp.array([[np.nan], [np.nan]]), axis=0)
    assert float(result[0]) == {"nansum": 0, "nanprod": 1}.get(name, -1) or np.isnan(float(result[0]))
    if "arg" not in name:
        gradient = grad(lambda x: tnp.sum(getattr(tnp, name)(x, axis=0)))(tnp.asarray(x[:, :3]))
        assert np.isfinite(np.asarray(gradient)).all()


def test_positions_of_extremes() -> None:
    for x in (numbers("float32", (3, 4)), numbers("int32", (3, 4)), np.array([[1, np.nan, 3.0], [2, 2, 1]])):
        for name, axis, keepdims in itertools.product(("argmax", "argmin"), (None, 0, -1), (False, True)):
            agree(lambda m, x: getattr(m, name)(x, axis=axis, keepdims=keepdims), x)
    with pytest.raises(ValueError, match="no elements"):
        tnp.argmax(tnp.zeros((0,)))


def test_cumulative_functions() -> None:
    for shape in ((3, 5), (1,), (0,), (2, 1, 7)):
        x = numbers("float32", shape)
        for name, axis in itertools.product(("cumsum", "cumprod"), (None, 0, -1)):
            agree(lambda m, x: getattr(m, name)(x, axis=axis), x)
    x = numbers("float64", (2, 5))
    x[0, 2] = 0.0
    check_gradient(lambda m, x: (m.cumsum(x, 1), m.cumprod(x, 1)), x)
    assert tnp.cumprod(tnp.full(5, 2, "int32")).tolist() == [2, 4, 8, 16, 32]
    x[1, 1] = np.nan
    agree(lambda m, x: (m.nancumsum(x, axis=1), m.nancumprod(x, axis=0)), x)
    agree(lambda m, x: m.cumulative_sum(x, axis=1, include_initial=True), x)
    y = numbers("float32", (3, 6))
    agree(
        lambda m, y: (m.diff(y), m.diff(y, 2, axis=0), m.diff(y, prepend=1.0, append=y[:, :1]), m.ediff1d(y)),
        y,
    )
    agree(lambda m, x, y: (m.diff(x, prepend=0.5), m.diff(x, append=y)), np.array([1, 2, 5], np.int32), y[0])
    agree(lambda m, y: list(m.gradient(y)) + [m.gradient(y, 0.5, axis=1)], y)
    agree(lambda m, y: (m.trapezoid(y), m.trapezoid(y, dx=0.5, axis=0), m.trapezoid(y, y[0])), y)
    agree(lambda m, y: (m.cov(y), m.cov(y, rowvar=False, ddof=0), m.corrcoef(y)), y)


def test_quantiles() -> None:
    x = numbers("float32", (3, 5))
    for method, axis in itertools.product(
        ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf"), (None, 0, 1, (0, 1))
    ):
        agree(lambda m, x: m.quantile(x, m.asarray([0.0, 0.3, 1.0]), axis=axis, method=method), x)
    agree(lambda m, x: m.percentile(x, 25, axis=1, keepdims=True), x)
    x[1, 2] = np.nan
    agree(lambda m, x: (m.quantile(x, 0.5, axis=1), m.nanquantile(x, 0.4, axis=1), m.nanmedian(x)), x)
    agree(lambda m, x: m.median(x), np.array([1.0, np.inf, np.inf], np.float32))
    check_gradient(
        lambda m, x: m.quantile(x, 0.3, axis=0), np.random.default_rng(0).permutation(12).reshape(4, 3) * 0.7
    )


def test_statistics_and_integrals_of_nothing() -> None:
    empty = np.zeros((3, 0), np.float32)
    agree(lambda m, x: (m.trapezoid(x), m.trapezoid(x, x[0]), m.unwrap(x), m.unwrap(x[0]), m.diff(x)), empty)
    for x, weights in ((empty, None), (empty[:, :1], None), (np.ones((2, 3), np.float32), np.ones(3))):
        found = tnp.cov(x, ddof=4, aweights=weights) if weights is not None else tnp.cov(x)
        assert found.shape == (len(x), len(x)) and np.isnan(found).all()


def test_weighted_quantiles() -> None:
    x, weights = numbers("float32", (3, 5)), numbers("float32", (3, 5), 0.0, 2.0, seed=1)
    weights[0, 1] = weights[1] = 0.0
    weights[1, 2] = 1.0
    shares = np.array([[0.0, 0.3], [0.5, 1.0]], np.float32)
    for name, scale in (("quantile", 1), ("nanquantile", 1), ("percentile", 100), ("nanpercentile", 100)):

        def weighted(m: Any, x: Any, w: Any, axis: Any, **more: Any) -> Any:
            return getattr(m, name)(
                x, m.asarray(scale * shares), axis, weights=w, method="inverted_cdf", **more
            )

        agree(lambda m, x, w: (weighted(m, x, w, 1), weighted(m, x, w, 0, keepdims=True)), x, weights)
        agree(lambda m, x, w: weighted(m, x, w, None), x, weights)
        if not name.startswith("nan"):  # NumPy's take no vector of weights
            agree(lambda m, x, w: weighted(m, x, w[2], 1), x, weights)
    y = x.copy()
    y[0, 1] = y[2, 3] = np.nan
    # NumPy wants the weights of elements that are NaN to be taken out.
    found = tnp.nanquantile(y, 0.5, 1, weights=weights, method="inverted_cdf")
    for row, values, w in zip(found, y, weights, strict=True):
        ordinary = ~np.isnan(values)
        close(row, np.quantile(values[ordinary], 0.5, weights=w[ordinary], method="inverted_cdf"))
    assert np.isnan(tnp.quantile(y, 0.5, 1, weights=weights, method="inverted_cdf")).tolist() == [
        True,
        False,
        True,
    ]
    with pytest.raises(ValueError, match="weights need method='inverted_cdf', not 'linear'"):
        tnp.quantile(x, 0.5, weights=weights)
    with pytest.raises(
        ValueError, match=r"weights float32\[3\] fit neither float32\[3,5\] nor its axes \(1,\)"
    ):
        tnp.quantile(x, 0.5, 1, weights=weights[:, 0], method="inverted_cdf")


def test_quantiles_have_shares_of_the_whole() -> None:
    x = numbers("float32", (5,))
    for function, q in ((tnp.quantile, 1.5), (tnp.quantile, tnp.array([0.5, -0.1])), (tnp.percentile, 101)):
        with pytest.raises(
            ValueError, match=r"q must be in \[0, 1\], or \[0, 100\] percent; at .*test_reductions"
        ):
            function(x, q)
    assert np.isnan(jit(lambda q: tnp.quantile(x, q))(np.array([-0.1, 0.5, 1.1]))).tolist() == [
        True,
        False,
        True,
    ]
