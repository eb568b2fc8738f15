"""What tests of tinyfn.lax share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tests.agreement import assert_jit_agrees
from tinyfn.trace.array import Array
from tinyfn.transforms import vmap

GENERATOR = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return GENERATOR.normal(size=shape).astype(np.float32)


def same(found: Any, expected: Any, rtol: float = 0.0) -> None:
    expected = np.asarray(expected)
    assert isinstance(found, Array) and found.shape == expected.shape and found.dtype == expected.dtype
    if expected.dtype == ml_dtypes.bfloat16:
        found, expected = (np.asarray(a).astype(np.float32) for a in (found, expected))
    np.testing.assert_allclose(np.asarray(found), expected, rtol=rtol, atol=rtol)


def everywhere(function: Callable[..., Any], expected: Any, *args: Any, rtol: float = 0.0) -> None:
    """The function gives this step by step, under jit, and under vmap of two copies."""
    same(function(*args), expected, rtol)
    assert_jit_agrees(function, *args)
    same(vmap(function)(*[np.stack([a, a]) for a in args]), np.stack([expected, expected]), rtol)


def padded(x: np.ndarray, value: float, config: list[tuple[int, int, int]]) -> np.ndarray:
    """Axis by axis: spread, then extend or cut at both ends."""
    for axis, (low, high, interior) in enumerate(config):
        x = np.moveaxis(x, axis, 0)
        n = len(x)
        spread = np.full((n + max(n - 1, 0) * interior, *x.shape[1:]), value, x.dtype)
        spread[:: interior + 1] = x
        ends = [np.full((max(k, 0), *x.shape[1:]), value, x.dtype) for k in (low, high)]
        whole = np.concatenate([ends[0], spread, ends[1]])
        x = np.moveaxis(whole[max(-low, 0) : len(whole) - max(-high, 0)], 0, axis)
    return x
