"""What the tests of this folder share: inputs, agreement with NumPy eagerly and under jit, derivatives by differences."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

import tinyfn.numpy as tnp
from tests.against_numpy import check_derivatives, parts
from tinyfn.transforms import jit

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


def agree(
    function: Callable[..., Any], *arrays: np.ndarray, tolerance: float = 2e-5, under_jit: bool = True
) -> None:
    """The function of a namespace and arrays gives the same in both namespaces, and in ours under jit too.

    Dtypes are of one kind: where NumPy has 64 bits, ours may have 32."""
    with np.errstate(all="ignore"):
        expected = parts(function(np, *arrays))
    ours = [tnp.asarray(a) for a in arrays]
    results = [function(tnp, *ours)]
    if under_jit:
        results.append(jit(lambda *xs: function(tnp, *xs))(*ours))
    for result in results:
        found = parts(result)
        assert len(found) == len(expected)
        for actual, wanted in zip(found, expected, strict=True):
            assert isinstance(actual, (tnp.ndarray, int, float, bool, tuple))
            assert np.asarray(actual).dtype.kind == np.asarray(wanted).dtype.kind
            close(actual, wanted, tolerance)


def check_gradient(function: Callable[..., Any], *arrays: np.ndarray, tolerance: float = 1e-5) -> None:
    """The derivatives of a function of a namespace and arrays, in ours: see `check_derivatives`."""
    check_derivatives(partial(function, tnp), *arrays, tolerance=tolerance)
