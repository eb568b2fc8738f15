"""What the tests of this folder share: inputs, agreement with NumPy eagerly and under jit, gradients by differences."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import tinyfn.numpy as tnp
from tinyfn.transforms import grad, jit

TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-10}
FLOATS = ("float16", "bfloat16", "float32", "float64")


def numbers(
    dtype: str, shape: tuple[int, ...], low: float = -3.0, high: float = 3.0, seed: int = 0
) -> np.ndarray:
    generator = np.random.default_rng(zlib.crc32(repr((dtype, shape, seed)).encode()))
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype in FLOATS:
        return np.asarray(generator.uniform(low, high, shape)).astype(
            tnp.dtype(dtype) if dtype != "bfloat16" else ml_dtypes.bfloat16
        )
    low, high = (0 if dtype.startswith("u") else int(np.floor(low))), max(int(high), 1)
    return generator.integers(low, high + 1, shape).astype(dtype)


def close(actual: Any, expected: Any, tolerance: float = 2e-5) -> None:
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    if actual.dtype.kind not in "biuc":
        actual = actual.astype(np.float64)
    if expected.dtype.kind not in "biuc":
        expected = expected.astype(np.float64)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def leaves(x: Any) -> list[Any]:
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, (tuple, list)) else [x]


def agree(
    function: Callable[..., Any], *arrays: np.ndarray, tolerance: float = 2e-5, under_jit: bool = True
) -> None:
    """The function of a namespace and arrays gives the same in both namespaces, and in ours under jit too."""
    with np.errstate(all="ignore"):
        expected = leaves(function(np, *arrays))
    ours = [tnp.asarray(a) for a in arrays]
    results = [function(tnp, *ours)]
    if under_jit:
        results.append(jit(lambda *xs: function(tnp, *xs))(*ours))
    for result in results:
        parts = leaves(result)
        assert len(parts) == len(expected)
        for actual, wanted in zip(parts, expected, strict=True):
            assert isinstance(actual, (tnp.ndarray, int, float, bool, tuple))
            close(actual, wanted, tolerance)


def check_gradient(function: Callable[..., Any], *arrays: np.ndarray, tolerance: float = 1e-5) -> None:
    """The gradient of a weighted sum of the function's results, in float64, by central differences."""
    arrays = tuple(a.astype(np.float64) for a in arrays)
    weights = [
        np.random.default_rng(1).normal(size=np.shape(r))
        for r in leaves(function(tnp, *map(tnp.asarray, arrays)))
    ]

    def loss(*xs: Any) -> Any:
        parts = leaves(function(tnp, *xs))
        total: Any = 0.0
        for part, weight in zip(parts, weights, strict=True):
            total = total + tnp.sum(part * tnp.asarray(weight))
        return total

    argnums = tuple(range(len(arrays)))
    gradients = grad(loss, argnums=argnums)(*[tnp.asarray(a) for a in arrays])
    step = 1e-5
    for i, a in enumerate(arrays):
        expected = np.zeros(a.shape)
        for index in np.ndindex(a.shape):
            values = []
            for sign in (1, -1):
                moved = a.copy()
                moved[index] += sign * step
                values.append(
                    float(loss(*[tnp.asarray(moved if j == i else b) for j, b in enumerate(arrays)]))
                )
            expected[index] = (values[0] - values[1]) / (2 * step)
        close(gradients[i], expected, tolerance)
