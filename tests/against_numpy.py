"""What tests of functions on arrays share: agreement with NumPy, and derivatives against differences, also of complex numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tinyfn
import tinyfn.numpy as tnp

EPS = {
    "float16": 1e-3,
    "bfloat16": 1e-2,
    "float32": 1.2e-7,
    "complex64": 1.2e-7,
    "float64": 2.3e-16,
    "complex128": 2.3e-16,
}


def numbers(generator: np.random.Generator, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Normally distributed numbers, complex ones for a complex dtype, and small integers for an integer one."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return generator.integers(0, 6, shape).astype(dtype)
    x = np.asarray(generator.normal(size=shape))
    return (x + 1j * generator.normal(size=shape) if dtype.kind == "c" else x).astype(dtype)


def parts(x: Any) -> list[Any]:
    """The arrays of nested tuples and lists."""
    return [leaf for part in x for leaf in parts(part)] if isinstance(x, (tuple, list)) else [x]


def close(actual: Any, expected: Any, tolerance: float) -> None:
    """Equal dtypes and shapes, and elements that are close in relation to the greatest."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    finite = (
        np.abs(expected[np.isfinite(expected)]) if expected.dtype.kind in "fc" else np.abs(expected).ravel()
    )
    scale = max(1.0, float(finite.max(initial=0)))
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * scale)


def agree(function: Callable[..., Any], *arrays: np.ndarray, factor: float = 64.0) -> None:
    """The function of a namespace and arrays gives in ours, eagerly and under jit, what it gives in NumPy's.

    Dtypes are NumPy's too. `factor` times the dtype's eps is how far the elements may be off."""
    with np.errstate(all="ignore"):
        expected = parts(function(np, *arrays))
    ours = [tnp.asarray(a) for a in arrays]
    for found in (function(tnp, *ours), tinyfn.jit(lambda *xs: function(tnp, *xs))(*ours)):
        for actual, wanted in zip(parts(found), expected, strict=True):
            close(actual, wanted, factor * EPS.get(np.asarray(wanted).dtype.name, 0.0))


def random_like(generator: np.random.Generator, x: Any) -> np.ndarray:
    return numbers(generator, np.asarray(x).dtype, np.shape(x))


def check_derivatives(function: Callable[..., Any], *arrays: np.ndarray, tolerance: float = 1e-6) -> None:
    """In double precision: jvp is the limit of differences, vjp its transpose, and the vjp's jvp the limit of its differences.

    Of complex numbers the transpose is that for the pairing Re(cotangent * tangent)."""
    generator = np.random.default_rng(0)
    arrays = tuple(a.astype(np.complex128 if a.dtype.kind == "c" else np.float64) for a in arrays)
    tangents = tuple(random_like(generator, a) for a in arrays)

    def of_parts(*xs: Any) -> list[Any]:
        return parts(function(*xs))

    def differences(g: Callable[..., Any]) -> list[np.ndarray]:
        step = 1e-6
        above, below = (
            [
                np.asarray(r)
                for r in g(*[tnp.asarray(a + sign * step * t) for a, t in zip(arrays, tangents, strict=True)])
            ]
            for sign in (1, -1)
        )
        return [(high - low) / (2 * step) for high, low in zip(above, below, strict=True)]

    values, pushed = tinyfn.jvp(of_parts, arrays, tangents)
    for found, wanted in zip(pushed, differences(of_parts), strict=True):
        close(found, wanted, tolerance)
    cotangents = [random_like(generator, v) for v in values]

    def pulled(*xs: Any) -> list[Any]:
        return list(tinyfn.vjp(of_parts, *xs)[1](cotangents))

    gradients = pulled(*map(tnp.asarray, arrays))
    forward = sum(np.real(np.sum(ct * np.asarray(t))) for ct, t in zip(cotangents, pushed, strict=True))
    backward = sum(np.real(np.sum(np.asarray(g) * t)) for g, t in zip(gradients, tangents, strict=True))
    np.testing.assert_allclose(forward, backward, rtol=1e-8, atol=1e-8 * max(1.0, abs(forward)))
    _, second = tinyfn.jvp(pulled, arrays, tangents)
    for found, wanted in zip(second, differences(pulled), strict=True):
        close(found, wanted, 100 * tolerance)
