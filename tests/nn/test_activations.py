"""tinyfn.nn: activations and one_hot."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.agreement import assert_jit_agrees
from tinyfn import nn
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
        assert function(np.array([True, False])).tolist() == [1, 0] and function(True).dtype == np.int32
        unsigned = function(np.array([0, 1], np.uint8))
        assert unsigned.tolist() == [0, 1] and unsigned.dtype == np.uint8
    assert nn.relu(np.array([-3, 4])).tolist() == [0, 4] and nn.relu6(np.array([-3, 4, 9])).tolist() == [
        0,
        4,
        6,
    ]
    assert nn.hard_tanh(np.array([0, 7], np.uint32)).tolist() == [0, 1]
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
