"""tinyfn.nn against formulas in float64, its derivatives against differences, and what it does at extreme
values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tinyfn
from tests.agreement import assert_jit_agrees
from tinyfn import lax, nn, random
from tinyfn.nn import initializers
from tinyfn.transforms import grad, jit, jvp, vmap

erfc = np.vectorize(math.erfc, otypes=[np.float64])


def reference_sigmoid(x: np.ndarray) -> np.ndarray:
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def reference_softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(x, 0)


def reference_elu(x: np.ndarray, alpha: float = 1.0) -> np.ndarray:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


# name: function, reference, limits at -inf and inf, derivatives there, points without a derivative
ACTIVATIONS: dict[
    str,
    tuple[
        Callable[..., Any], Callable[..., Any], tuple[float, float], tuple[float, float], tuple[float, ...]
    ],
] = {
    "relu": (nn.relu, lambda x: np.maximum(x, 0), (0, math.inf), (0, 1), (0,)),
    "relu6": (nn.relu6, lambda x: np.clip(x, 0, 6), (0, 6), (0, 0), (0, 6)),
    "sigmoid": (nn.sigmoid, reference_sigmoid, (0, 1), (0, 0), ()),
    "tanh": (nn.tanh, np.tanh, (-1, 1), (0, 0), ()),
    "softplus": (nn.softplus, reference_softplus, (0, math.inf), (0, 1), ()),
    "log_sigmoid": (nn.log_sigmoid, lambda x: -reference_softplus(-x), (-math.inf, 0), (1, 0), ()),
    "soft_sign": (nn.soft_sign, lambda x: x / (1 + np.abs(x)), (-1, 1), (0, 0), (0,)),
    "silu": (nn.silu, lambda x: x * reference_sigmoid(x), (0, math.inf), (0, 1), ()),
    "mish": (nn.mish, lambda x: x * np.tanh(reference_softplus(x)), (0, math.inf), (0, 1), ()),
    "gelu": (
        nn.gelu,
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        (0, math.inf),
        (0, 1),
        (),
    ),
    "gelu exact": (
        lambda x: nn.gelu(x, approximate=False),
        lambda x: 0.5 * x * erfc(-x / math.sqrt(2)),
        (0, math.inf),
        (0, 1),
        (),
    ),
    "elu": (nn.elu, reference_elu, (-1, math.inf), (0, 1), (0,)),
    "elu 0.5": (lambda x: nn.elu(x, 0.5), lambda x: reference_elu(x, 0.5), (-0.5, math.inf), (0, 1), (0,)),
    "celu": (
        lambda x: nn.celu(x, 2.0),
        lambda x: np.maximum(x, 0) + 2 * np.expm1(np.minimum(x, 0) / 2),
        (-2, math.inf),
        (0, 1),
        (0,),
    ),
    "selu": (
        nn.selu,
        lambda x: 1.0507009873554805 * reference_elu(x, 1.6732632423543772),
        (-1.7580993408473766, math.inf),
        (0, 1.0507009873554805),
        (0,),
    ),
    "leaky_relu": (
        nn.leaky_relu,
        lambda x: np.where(x >= 0, x, 0.01 * x),
        (-math.inf, math.inf),
        (0.01, 1),
        (0,),
    ),
    "hard_tanh": (nn.hard_tanh, lambda x: np.clip(x, -1, 1), (-1, 1), (0, 0), (-1, 1)),
    "hard_sigmoid": (nn.hard_sigmoid, lambda x: np.clip(x + 3, 0, 6) / 6, (0, 1), (0, 0), (-3, 3)),
    "hard_silu": (nn.hard_silu, lambda x: x * np.clip(x + 3, 0, 6) / 6, (0, math.inf), (0, 1), (-3, 3)),
    "squareplus": (nn.squareplus, lambda x: (x + np.sqrt(x * x + 4)) / 2, (0, math.inf), (0, 1), ()),
}

GRID = np.concatenate([np.linspace(-9, 9, 73), np.array([0.3, -1e-3, 1e-5, 20.0, -20.0])])


def differences(f: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """The derivative in float64, by a central difference of fourth order."""
    h = 1e-3
    return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name: str) -> None:
    function, reference, *_, kinks = ACTIVATIONS[name]
    for dtype, tolerance in (("float64", 1e-13), ("float32", 2e-6), ("float16", 4e-3), ("bfloat16", 3e-2)):
        x = GRID.astype(np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else dtype)
        found = function(x)
        assert found.dtype.name == dtype and not found.weak_type
        rounded = reference(x.astype(np.float64))
        np.testing.assert_allclose(
            np.asarray(found).astype(np.float64), rounded, rtol=tolerance, atol=tolerance
        )
        assert_jit_agrees(function, x)
    smooth = np.array([x for x in GRID if all(abs(x - kink) > 0.01 for kink in kinks)])
    slope = vmap(grad(function))(smooth)
    np.testing.assert_allclose(slope, differences(reference, smooth), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(
        jvp(function, (smooth,), (np.ones_like(smooth),))[1], slope, rtol=1e-12, atol=1e-14
    )
    if not kinks:
        slope2 = vmap(grad(grad(function)))(smooth)
        first = lambda at: np.asarray(vmap(grad(function))(at))
        np.testing.assert_allclose(slope2, differences(first, smooth), rtol=1e-6, atol=1e-8)
    # The tail keeps its digits where the value is small.
    if name in ("softplus", "silu", "gelu exact", "squareplus", "sigmoid", "mish"):
        tail = np.array([-8.0, -6.0, -4.0], np.float32)
        exact = {"squareplus": 2 / (np.sqrt(tail.astype(np.float64) ** 2 + 4) - tail)}.get(
            name, reference(tail.astype(np.float64))
        )
        np.testing.assert_allclose(function(tail), exact, rtol=5e-6)
    np.testing.assert_allclose(
        function(np.arange(-2, 3)), reference(np.arange(-2.0, 3)), rtol=2e-6, atol=1e-6
    )


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_activation_at_extreme_values(name: str, dtype: str) -> None:
    function, _, limits, slopes, _ = ACTIVATIONS[name]
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    x = np.array([-math.inf, math.inf, math.nan], np.float64).astype(kind)
    tolerance = 3 * float(ml_dtypes.finfo(kind).eps)
    value = np.asarray(function(x)).astype(np.float64)
    np.testing.assert_allclose(value[:2], limits, rtol=tolerance, atol=tolerance)
    assert math.isnan(value[2])
    slope = np.asarray(vmap(grad(function))(x[:2])).astype(np.float64)
    np.testing.assert_allclose(slope, slopes, rtol=tolerance, atol=tolerance)
    greatest = float(ml_dtypes.finfo(kind).max) / 1.1  # selu multiplies by 1.05
    magnitudes = np.array(
        [greatest, greatest / 2, greatest**0.75, greatest**0.5, greatest**0.3, 89.0, 50.0, 15.0]
    )
    large = np.concatenate([magnitudes, -magnitudes, [0.0, -0.0, float(ml_dtypes.finfo(kind).tiny)]]).astype(
        kind
    )
    assert np.isfinite(np.asarray(function(large)).astype(np.float64)).all()
    slope = np.asarray(vmap(grad(function))(large)).astype(np.float64)
    assert np.isfinite(slope).all()
    # From far out on (e^-11 is lost in every dtype) the derivative is that at infinity.
    far = np.abs(large.astype(np.float64)) > (300 if dtype == "float64" else 80)
    if name not in ("squareplus", "soft_sign"):
        expected = np.where(large.astype(np.float64) > 0, slopes[1], slopes[0])
        np.testing.assert_allclose(slope[far], expected[far], rtol=tolerance, atol=tolerance)
    assert np.isfinite(np.asarray(vmap(grad(grad(function)))(large)).astype(np.float64)).all()


def test_derivatives_at_kinks() -> None:
    for function, x, expected in (
        (nn.relu, 0.0, 0.0),
        (nn.relu6, 0.0, 0.0),
        (nn.relu6, 6.0, 0.0),
        (nn.elu, 0.0, 1.0),
        (nn.celu, 0.0, 1.0),
        (nn.leaky_relu, 0.0, 1.0),
        (nn.hard_tanh, 1.0, 1.0),
        (nn.hard_tanh, -1.0, 1.0),
        (nn.softplus, 0.0, 0.5),
        (nn.soft_sign, 0.0, 1.0),
        (nn.squareplus, 0.0, 0.5),
    ):
        assert float(grad(function)(np.float32(x))) == expected, function
    assert np.asarray(nn.relu(np.float32(-0.0))).tobytes() == np.float32(0).tobytes()


def test_integers_and_python_numbers() -> None:
    for function in (nn.relu, nn.relu6, nn.hard_tanh):
        assert function(np.arange(-2, 9, dtype=np.int8)).dtype == np.int8
    assert nn.relu(np.array([-3, 4])).tolist() == [0, 4] and nn.relu6(np.array([-3, 4, 9])).tolist() == [
        0,
        4,
        6,
    ]
    assert nn.gelu(3).dtype == np.float32 and nn.gelu(3).weak_type
    assert nn.identity(np.arange(2)).tolist() == [0, 1]
    assert nn.swish is nn.silu and nn.hard_swish is nn.hard_silu


def test_log1mexp() -> None:
    x = np.array([1e-30, 1e-8, 0.1, math.log(2), 1.0, 10.0, 40.0, 700.0])
    with np.errstate(divide="ignore"):
        expected = np.where(x < 0.69, np.log(-np.expm1(-x)), np.log1p(-np.exp(-x)))
    np.testing.assert_allclose(nn.log1mexp(x), expected, rtol=1e-14)
    np.testing.assert_allclose(vmap(grad(nn.log1mexp))(x), 1 / np.expm1(x), rtol=1e-12)
    assert float(nn.log1mexp(np.float32(math.inf))) == 0 and float(nn.log1mexp(np.float32(0))) == -math.inf
    assert float(grad(nn.log1mexp)(np.float32(math.inf))) == 0


def test_glu() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    np.testing.assert_allclose(nn.glu(x, 1), x[:, :2] * reference_sigmoid(x[:, 2:]), rtol=1e-14)
    with pytest.raises(ValueError, match="odd"):
        nn.glu(x)


def test_one_hot() -> None:
    x = np.array([[0, 2], [3, -1]], np.int8)
    expected = (x[..., None] == np.arange(3)).astype(np.float32)
    found = nn.one_hot(x, 3)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.float32 and nn.one_hot(x, 3, dtype="bfloat16").dtype.name == "bfloat16"
    for axis in (0, 1, 2, -1, -2, -3):
        np.testing.assert_array_equal(nn.one_hot(x, 3, axis=axis), np.moveaxis(expected, -1, axis))
    np.testing.assert_array_equal(nn.one_hot(np.int8(100), 300), np.eye(300)[100])
    np.testing.assert_array_equal(jit(lambda i: nn.one_hot(i, 4))(2), np.eye(4)[2])
    np.testing.assert_array_equal(vmap(lambda i: nn.one_hot(i, 4))(np.arange(4)), np.eye(4))
    assert nn.one_hot(np.zeros((0, 2), np.int32), 3).shape == (0, 2, 3) and nn.one_hot(
        np.arange(2), 0
    ).shape == (2, 0)
    with pytest.raises(TypeError, match="integers"):
        nn.one_hot(np.ones(2), 3)


# Functions over axes


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


def check_gradient(loss: Callable[[Any], Any], x: np.ndarray) -> None:
    """The gradient along random directions against central differences, in float64."""
    gradient = np.asarray(grad(loss)(x))
    assert np.isfinite(gradient).all()
    generator = np.random.default_rng(7)
    for _ in range(3):
        direction = generator.normal(size=x.shape)
        h = 1e-4
        slope = (
            8 * (float(loss(x + h * direction)) - float(loss(x - h * direction)))
            - (float(loss(x + 2 * h * direction)) - float(loss(x - 2 * h * direction)))
        ) / (12 * h)
        np.testing.assert_allclose(np.sum(gradient * direction), slope, rtol=1e-7, atol=1e-8)


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


# Attention


def reference_attention(
    q: Any, k: Any, v: Any, bias: Any = 0.0, mask: Any = True, scale: float | None = None
) -> np.ndarray:
    heads = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, heads, axis=2), np.repeat(v, heads, axis=2)
    logits = (
        np.einsum("btnh,bsnh->bnts", q, k) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale) + bias
    )
    mask = np.broadcast_to(mask, logits.shape)
    powers = np.where(mask, np.exp(logits - logits.max(-1, keepdims=True)), 0)
    total = powers.sum(-1, keepdims=True)
    chances = powers / np.where(total == 0, 1, total)
    return np.einsum("bnts,bsnh->btnh", chances, v)


def test_attention() -> None:
    generator = np.random.default_rng(1)
    q, k, v = (
        generator.normal(size=(2, 5, 4, 3)),
        generator.normal(size=(2, 6, 2, 3)),
        generator.normal(size=(2, 6, 2, 3)),
    )
    bias, mask = generator.normal(size=(2, 1, 5, 6)), generator.random((1, 4, 5, 6)) > 0.2
    t, s = np.arange(5)[:, None], np.arange(6)
    causal = s <= t
    attention = nn.dot_product_attention

    def check(found: Any, expected: np.ndarray) -> None:
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)

    check(attention(q, k, v), reference_attention(q, k, v))
    check(attention(q, k, v, bias, mask), reference_attention(q, k, v, bias, mask))
    check(attention(q, k, v, bias[:1, :, :, :1]), reference_attention(q, k, v, bias[:1, :, :, :1]))
    check(attention(q, k, v, is_causal=True, scale=0.3), reference_attention(q, k, v, 0, causal, 0.3))
    check(attention(q, k, v, mask=mask, is_causal=True), reference_attention(q, k, v, 0, causal & mask))
    window = (s >= t - 1) & (s <= t + 2)
    check(attention(q, k, v, local_window_size=(1, 2)), reference_attention(q, k, v, 0, window))
    check(
        attention(q, k, v, local_window_size=1), reference_attention(q, k, v, 0, (s >= t - 1) & (s <= t + 1))
    )
    lengths = np.array([3, 5]), np.array([2, 6])
    inside = (t < lengths[0][:, None, None]) & (s < lengths[1][:, None, None])
    found = attention(q, k, v, query_seq_lengths=lengths[0], key_value_seq_lengths=lengths[1])
    check(found, reference_attention(q, k, v, 0, inside[:, None]))
    assert not np.asarray(found)[0, 3:].any()
    check(attention(q[0], k[0], v[0], is_causal=True), reference_attention(q, k, v, 0, causal)[0])
    check(vmap(attention)(q, k, v), reference_attention(q, k, v))
    check(jit(attention)(q, k, v, bias, mask), reference_attention(q, k, v, bias, mask))
    # A position that sees nothing gives 0, and no NaN to anything.
    check(attention(q, k, v, mask=np.zeros((1, 1, 5, 6), bool)), np.zeros_like(q))
    nothing = grad(
        lambda x: lax.reduce_sum(attention(x, k, v, mask=np.zeros((1, 1, 5, 6), bool)), (0, 1, 2, 3))
    )(q)
    assert not np.asarray(nothing).any()
    weights = generator.normal(size=q.shape)

    def loss(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return lax.reduce_sum(lax.mul(attention(q, k, v, bias, mask, is_causal=True), weights), (0, 1, 2, 3))

    arguments = [q, k, v, bias]
    for i in range(4):
        check_gradient(lambda x, i=i: loss(*arguments[:i], x, *arguments[i + 1 :]), arguments[i])
    for dtype, tolerance in (("float32", 2e-6), ("float16", 4e-3), (ml_dtypes.bfloat16, 3e-2)):
        narrow = [a.astype(dtype) for a in (q, k, v)]
        found = attention(*narrow, is_causal=True)
        assert found.dtype == narrow[0].dtype
        expected = reference_attention(*[a.astype(np.float64) for a in narrow], 0, causal)
        np.testing.assert_allclose(
            np.asarray(found).astype(np.float64), expected, rtol=tolerance, atol=tolerance
        )


def test_attention_errors() -> None:
    q, k = np.ones((2, 5, 4, 3)), np.ones((2, 6, 3, 3))
    for call, kind, match in (
        (lambda: nn.dot_product_attention(q, k, k), ValueError, "K dividing N"),
        (lambda: nn.dot_product_attention(q, q, q[:, :4]), ValueError, "query"),
        (lambda: nn.dot_product_attention(q[0, 0], q, q), ValueError, "3 or 4 axes"),
        (lambda: nn.dot_product_attention(q, q, q.astype(np.float32)), TypeError, "one dtype"),
        (lambda: nn.dot_product_attention(q, q, q, mask=np.ones((1, 1, 5, 5))), TypeError, "bool"),
        (lambda: nn.dot_product_attention(q, q, q, bias=np.ones((1, 3, 5, 5))), ValueError, "broadcast"),
        (lambda: nn.dot_product_attention(q, q, q, query_seq_lengths=np.arange(3)), ValueError, "lengths"),
    ):
        with pytest.raises(kind, match=match):
            call()


# Initializers


def test_initializers() -> None:
    key, shape = random.key(3), (3, 60, 40)
    inputs, outputs = 180, 120
    for name, variance, bound in (
        ("glorot_uniform", 2 / (inputs + outputs), math.sqrt(3)),
        ("glorot_normal", 2 / (inputs + outputs), 2 / 0.8796),
        ("lecun_uniform", 1 / inputs, math.sqrt(3)),
        ("lecun_normal", 1 / inputs, 2 / 0.8796),
        ("he_uniform", 2 / inputs, math.sqrt(3)),
        ("he_normal", 2 / inputs, 2 / 0.8796),
    ):
        values = getattr(initializers, name)()(key, shape)
        assert values.dtype == np.float32 and values.shape == shape
        array = np.asarray(values, np.float64)
        assert abs(array.mean()) < 4 * math.sqrt(variance / array.size)
        assert array.var() == pytest.approx(variance, rel=0.05)
        assert np.abs(array).max() <= bound * math.sqrt(variance) * 1.0001
        assert getattr(initializers, name)(dtype="bfloat16")(key, shape).dtype.name == "bfloat16"
        assert getattr(initializers, name)()(key, shape, "float16").dtype == np.float16
    values = np.asarray(
        initializers.variance_scaling(1.5, "fan_out", "normal", in_axis=0, out_axis=(1, 2))(key, shape)
    )
    assert values.var() == pytest.approx(1.5 / 2400, rel=0.05)
    values = np.asarray(
        initializers.variance_scaling(1.0, "fan_geo_avg", "uniform", batch_axis=0)(key, shape)
    )
    assert values.var() == pytest.approx(1 / math.sqrt(2400), rel=0.05)
    assert np.asarray(initializers.normal(0.5)(key, shape)).std() == pytest.approx(0.5, rel=0.05)
    cut = np.asarray(initializers.truncated_normal(0.5, lower=-1.0, upper=3.0)(key, shape))
    assert cut.min() >= -0.5 and cut.max() <= 1.5
    spread = np.asarray(initializers.uniform(2.0)(key, shape))
    assert spread.min() >= 0 and 1.9 < spread.max() < 2
    assert (
        not np.asarray(initializers.zeros(key, (2, 3))).any()
        and np.asarray(initializers.ones(key, (2, 3))).all()
    )
    assert initializers.constant(np.array([1, 2]))(key, (3, 2)).tolist() == [[1.0, 2.0]] * 3
    assert initializers.constant(7, "int8")(key, (2,)).dtype == np.int8
    assert initializers.he_normal()(key, (0, 3)).shape == (0, 3)
    assert initializers.kaiming_normal is initializers.he_normal
    assert_jit_agrees(lambda k: initializers.lecun_normal()(k, (3, 4)), key)
    with pytest.raises(ValueError, match="in_axis"):
        initializers.he_normal()(key, (3,))
    assert initializers.variance_scaling(1.0, "fan_in", "normal", in_axis=0, out_axis=())(
        key, (3,)
    ).shape == (3,)
    with pytest.raises(ValueError, match="mode"):
        initializers.variance_scaling(1.0, "fan", "normal")
    with pytest.raises(ValueError, match="distribution"):
        initializers.variance_scaling(1.0, "fan_in", "cauchy")


JAX_NUMBERS = {
    "glorot_uniform": [1.0420334, -0.48555, 0.18170823],
    "glorot_normal": [1.2113327, -0.40112194, 0.14362577],
    "lecun_normal": [1.3543111, -0.44846797, 0.16057849],
    "he_uniform": [1.6475993, -0.7677219, 0.28730592],
    "normal": [0.019707019, -0.005876674, 0.0020941563],
}


def test_initializers_have_jax_s_numbers() -> None:
    """From jax 0.10.2: jax.nn.initializers.<name>()(jax.random.PRNGKey(3), (2, 3), jax.numpy.float32)[1]."""
    for name, expected in JAX_NUMBERS.items():
        found = np.asarray(getattr(initializers, name)()(random.PRNGKey(3), (2, 3)))[1]
        np.testing.assert_allclose(found, expected, rtol=3e-6)


@pytest.mark.parametrize(
    "shape, axis", [((3, 5), -1), ((5, 3), -1), ((4, 4), 0), ((2, 3, 4), 1), ((1, 1), -1)]
)
def test_orthogonal_initializer(shape: tuple[int, ...], axis: int) -> None:
    key = tinyfn.random.key(0)
    values = np.asarray(initializers.orthogonal(2.0, axis)(key, shape, "float64"))
    assert values.shape == shape
    matrix = np.moveaxis(values, axis, -1).reshape(-1, shape[axis])
    product = matrix @ matrix.T if len(matrix) < shape[axis] else matrix.T @ matrix
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)
    assert initializers.orthogonal()(key, shape, "bfloat16").dtype.name == "bfloat16"
    np.testing.assert_allclose(
        tinyfn.jit(lambda k: initializers.orthogonal(2.0, axis)(k, shape, "float64"))(key), values, rtol=1e-12
    )
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        initializers.orthogonal()(key, (3,))


def test_initializers_without_a_dtype() -> None:
    key = random.PRNGKey(0)
    for make in (
        lambda **options: nn.initializers.lecun_normal(**options),
        lambda **options: nn.initializers.glorot_uniform(**options),
        lambda **options: nn.initializers.orthogonal(**options),
        lambda **options: nn.initializers.normal(0.1, **options),
        lambda **options: nn.initializers.uniform(0.1, **options),
        lambda **options: nn.initializers.truncated_normal(0.1, **options),
        lambda **options: nn.initializers.constant(2, **options),
    ):
        assert make(dtype=None)(key, (3, 4)).dtype == np.float32
        assert make(dtype="bfloat16")(key, (3, 4)).dtype == "bfloat16"
        assert make()(key, (3, 4), "float64").dtype == np.float64
    assert (
        nn.initializers.zeros(key, (2,), None).dtype
        == nn.initializers.ones(key, (2,), None).dtype
        == np.float32
    )


def test_axes_of_initializers() -> None:
    """The variance is by the product of all input axes, without those of a batch."""
    key = random.PRNGKey(1)
    for options, fan in (
        ({"in_axis": (0, 1), "out_axis": 2}, 8 * 16),
        ({"in_axis": 1, "out_axis": 2, "batch_axis": 0}, 16),
        ({"in_axis": 2, "out_axis": 1}, 64 * 8),
    ):
        weights = np.asarray(nn.initializers.lecun_normal(**options)(key, (8, 16, 64)))
        np.testing.assert_allclose(weights.std(), fan**-0.5, rtol=0.05)


def test_delta_orthogonal_initializer() -> None:
    weights = np.array(nn.initializers.delta_orthogonal(2.0)(random.PRNGKey(0), (3, 4, 5, 7)))
    centre = weights[1, 1].copy()
    np.testing.assert_allclose(centre @ centre.T, 4 * np.eye(5), atol=1e-5)
    weights[1, 1] = 0
    assert not weights.any()
    for shape in ((5, 7), (3, 7, 5), (1, 1, 1, 1, 2, 2)):
        with pytest.raises(ValueError, match="delta_orthogonal needs a shape"):
            nn.initializers.delta_orthogonal()(random.PRNGKey(0), shape)
