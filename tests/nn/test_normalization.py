"""tinyfn.nn: functions over axes: softmax and its relatives."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.agreement import assert_jit_agrees
from tests.nn.checks import check_gradient
from tinyfn import lax, nn
from tinyfn.transforms import grad


def reference_logsumexp(x: np.ndarray, axis: Any, mask: Any = True, b: Any = 1.0) -> np.ndarray:
    top = np.max(x, axis=axis, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(np.sum(np.where(mask, b * np.exp(x - top), 0), axis=axis, keepdims=True)) + top


X = np.random.default_rng(3).normal(size=(3, 4, 5)) * 3
MASK = np.random.default_rng(4).random((3, 4, 5)) > 0.4


@pytest.mark.parametrize("axis", [-1, 0, 1, (0, 2), (-1, 1), None, ()])
@pytest.mark.parametrize("mask", [None, MASK, MASK[0], MASK[:, :1]], ids=["all", "mask", "rows", "broadcast"])
def test_softmax_family(axis: Any, mask: Any) -> None:
    axes = tuple(range(3)) if axis is None else axis
    full = np.broadcast_to(True if mask is None else mask, X.shape)
    log_total = reference_logsumexp(X, axes, full) if axes != () else np.where(full, X, -np.inf)
    with np.errstate(invalid="ignore"):
        logs = np.where(full, X - log_total, -np.inf)
    np.testing.assert_allclose(nn.softmax(X, axis, where=mask), np.exp(logs), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(nn.log_softmax(X, axis, where=mask), logs, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(nn.logsumexp(X, axis, keepdims=True, where=mask), log_total, rtol=1e-12)
    squeezed = log_total if axes == () else log_total.squeeze(axes)
    np.testing.assert_allclose(nn.logsumexp(X, axis, where=mask), squeezed, rtol=1e-12)
    if axes == ():
        return
    for dtype, tolerance in (("float32", 2e-6), ("float16", 2e-3)):
        narrow = X.astype(dtype)
        for function in (nn.softmax, nn.log_softmax, nn.logsumexp):
            wide = np.asarray(function(narrow.astype(np.float64), axis, where=mask))
            found = function(narrow, axis, where=mask)
            assert found.dtype == dtype
            np.testing.assert_allclose(np.asarray(found, np.float64), wide, rtol=tolerance, atol=tolerance)
            assert_jit_agrees(lambda v, f=function: f(v, axis, where=mask), narrow)
    # The gradient of a weighted sum, where the weights don't meet -infinity.
    weights = np.where(full, np.random.default_rng(5).normal(size=X.shape), 0)
    for function in (nn.softmax, nn.log_softmax):

        def loss(x: Any) -> Any:
            values = function(x, axis, where=mask)
            return lax.reduce_sum(
                lax.mul(lax.select(full, values, lax.full_like(values, 0)), weights), (0, 1, 2)
            )

        check_gradient(loss, X)
    check_gradient(
        lambda x: lax.reduce_sum(nn.softmax(nn.logsumexp(x, axis, keepdims=True), None), (0, 1, 2)), X
    )
    finite = np.isfinite(log_total)
    check_gradient(
        lambda x: lax.reduce_sum(
            lax.select(finite, nn.logsumexp(x, axis, keepdims=True, where=mask), np.zeros(finite.shape)),
            (0, 1, 2),
        ),
        X,
    )


def test_logsumexp_with_weights() -> None:
    b = np.random.default_rng(8).normal(size=(4, 5))
    total = np.sum(b * np.exp(X), axis=(0, 2))
    value, sign = nn.logsumexp(X, (0, 2), b=b, return_sign=True)
    np.testing.assert_allclose(value, np.log(np.abs(total)), rtol=1e-12)
    np.testing.assert_array_equal(sign, np.sign(total))
    assert np.isnan(np.asarray(nn.logsumexp(X, (0, 2), b=b))).tolist() == (total < 0).tolist()
    np.testing.assert_allclose(
        nn.logsumexp(X, 1, b=2), reference_logsumexp(X, 1).squeeze(1) + math.log(2), rtol=1e-12
    )
    np.testing.assert_allclose(nn.logsumexp(np.array([1.0, np.inf]), b=np.array([1.0, 0.0])), 1.0)
    check_gradient(lambda x: lax.reduce_sum(nn.logsumexp(x, 2, b=b, return_sign=True)[0], (0, 1)), X)
    check_gradient(lambda w: lax.reduce_sum(nn.logsumexp(X, 2, b=w, return_sign=True)[0], (0, 1)), b)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_softmax_family_at_extreme_values(dtype: str) -> None:
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    inf, big = math.inf, float(ml_dtypes.finfo(kind).max)
    for row, soft in (
        ([1.0, -inf, 1.0], [0.5, 0, 0.5]),
        ([big, 0.0, -big], [1, 0, 0]),
        ([big, big, -inf], [0.5, 0.5, 0]),
        ([-big, -big, -inf], [0.5, 0.5, 0]),
        ([-inf, -inf, 3.0], [0, 0, 1]),
    ):
        x = np.array(row).astype(kind)
        np.testing.assert_array_equal(np.asarray(nn.softmax(x)).astype(np.float64), soft)
        total = float(np.asarray(nn.logsumexp(x)).astype(np.float64))
        count = 1 / max(soft)
        np.testing.assert_allclose(
            total, float(x.astype(np.float64).max()) + math.log(count), rtol=float(ml_dtypes.finfo(kind).eps)
        )
        for function in (nn.softmax, nn.logsumexp, nn.log_softmax):
            slope = grad(lambda v: lax.reduce_sum(_first(function(v)), (0,)))(x)
            assert np.isfinite(np.asarray(slope).astype(np.float64)).all()
    # No elements, and only -infinity: the sum is 0. Infinity stays infinity. No gradient is NaN.
    for row, expected in (([-inf, -inf], -inf), ([inf, 1.0], inf), ([inf, -inf], inf), ([inf, inf], inf)):
        x = np.array(row).astype(kind)
        assert float(np.asarray(nn.logsumexp(x)).astype(np.float64)) == expected
        assert not np.isnan(np.asarray(grad(nn.logsumexp)(x)).astype(np.float64)).any()
    assert np.isnan(np.asarray(nn.logsumexp(np.array([math.nan, inf]).astype(kind))).astype(np.float64))
    # A mask that leaves nothing.
    none = np.zeros(3, bool)
    x = np.array([1.0, inf, math.nan]).astype(kind)
    assert np.asarray(nn.softmax(x, where=none)).astype(np.float64).tolist() == [0, 0, 0]
    assert np.asarray(nn.log_softmax(x, where=none)).astype(np.float64).tolist() == [-inf] * 3
    assert float(np.asarray(nn.logsumexp(x, where=none)).astype(np.float64)) == -inf
    for function in (nn.softmax, nn.logsumexp):
        slope = grad(lambda v: lax.reduce_sum(_first(function(v, -1, where=none)), (0,)))(x)
        assert np.asarray(slope).astype(np.float64).tolist() == [0, 0, 0]


def _first(x: Any) -> Any:
    return lax.slice_in_dim(lax.reshape(x, (x.size,)), 0, 1)


def test_softmax_of_nothing() -> None:
    x = np.zeros((2, 0), np.float32)
    assert nn.softmax(x).shape == nn.log_softmax(x).shape == (2, 0)
    assert nn.logsumexp(x, -1).tolist() == [-math.inf] * 2
    assert nn.softmax(x, 0).shape == (2, 0)
    assert nn.softmax(np.float32(3), axis=()).tolist() == 1.0
    with pytest.raises(ValueError, match="out of range"):
        nn.softmax(np.float32(3))
    with pytest.raises(TypeError, match="bool"):
        nn.softmax(np.ones(3), where=np.ones(3))


def test_standardize() -> None:
    for axis in (-1, (0, 2), None):
        centred = X - X.mean(axis=axis, keepdims=True)
        expected = centred / np.sqrt((centred**2).mean(axis=axis, keepdims=True) + 1e-5)
        np.testing.assert_allclose(nn.standardize(X, axis), expected, rtol=1e-12)
        # Far from 0 the mean square minus the squared mean would be rounding errors.
        np.testing.assert_allclose(nn.standardize((X + 3000).astype(np.float32), axis), expected, atol=2e-3)
    found = np.asarray(nn.standardize(X, -1, where=MASK))
    for i in np.ndindex(3, 4):
        kept = X[i][MASK[i]]
        np.testing.assert_allclose(found[i], (X[i] - kept.mean()) / np.sqrt(kept.var() + 1e-5), rtol=1e-12)
    np.testing.assert_allclose(
        nn.standardize(X, mean=1.0, variance=4.0, epsilon=0.0), (X - 1) / 2, rtol=1e-14
    )
    large = np.full((4, 1000), 100, np.float16)
    large[:, ::2] = 200
    np.testing.assert_allclose(np.abs(np.asarray(nn.standardize(large), np.float64)), 1, rtol=1e-3)
    weights = np.random.default_rng(5).normal(size=X.shape)
    check_gradient(lambda x: lax.reduce_sum(lax.mul(nn.standardize(x, (1, 2)), weights), (0, 1, 2)), X)
