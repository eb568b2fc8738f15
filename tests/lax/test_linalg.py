"""tinyfn.lax.linalg: factors against NumPy's, and systems with three diagonals against dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.against_numpy import check_derivatives, numbers
from tests.lax.checks import everywhere, floats
from tinyfn.lax import linalg

GENERATOR = np.random.default_rng(5)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_eigh(dtype: str) -> None:
    a = numbers(GENERATOR, dtype, (2, 4, 4))
    h = a + np.conj(np.swapaxes(a, 1, 2))
    vectors, values = (np.asarray(x) for x in linalg.eigh(h))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(h), rtol=1e-12)
    np.testing.assert_allclose(h @ vectors, vectors * values[:, None], atol=1e-12)
    for lower, part in ((True, np.tril(h)), (False, np.triu(h))):
        found = linalg.eigh(part, lower=lower, symmetrize_input=False)[1]
        np.testing.assert_allclose(found, values, rtol=1e-12)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4)])
def test_qr_and_svd(shape: tuple[int, ...]) -> None:
    a = GENERATOR.normal(size=shape)
    m, n = shape[-2:]
    for full in (False, True):
        inner = m if full else min(m, n)
        q, r = (np.asarray(x) for x in linalg.qr(a, full_matrices=full))
        assert q.shape == (*shape[:-1], inner) and r.shape == (*shape[:-2], inner, n)
        np.testing.assert_allclose(q @ r, a, atol=1e-12)
        u, s, vh = (np.asarray(x) for x in linalg.svd(a, full_matrices=full))
        k = min(m, n)
        assert u.shape[-1] == inner and vh.shape[-2] == (n if full else k)
        np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, atol=1e-12)
        np.testing.assert_array_equal(linalg.svd(a, compute_uv=False), s)


def diagonals(dtype: str, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    lower, main, upper = (numbers(GENERATOR, dtype, shape) for _ in range(3))
    return lower, main + 8, upper


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (2, 3, 5)])
def test_tridiagonal_solve(dtype: str, shape: tuple[int, ...]) -> None:
    lower, main, upper = diagonals(dtype, shape)
    b = numbers(GENERATOR, dtype, (*shape, 2))
    dense = np.zeros((*shape, shape[-1]), dtype)
    for i in range(shape[-1]):
        dense[..., i, i] = main[..., i]
        if i:
            dense[..., i, i - 1], dense[..., i - 1, i] = lower[..., i], upper[..., i - 1]
    everywhere(linalg.tridiagonal_solve, np.linalg.solve(dense, b), lower, main, upper, b, rtol=1e-12)


def test_derivatives_of_tridiagonal_solve() -> None:
    given: list[Any] = [*diagonals("float64", (4,)), GENERATOR.normal(size=(4, 2))]
    for i, x in enumerate(given):
        check_derivatives(lambda v, i=i: linalg.tridiagonal_solve(*given[:i], v, *given[i + 1 :]), x)


def test_what_is_beyond_the_diagonals_does_not_matter() -> None:
    lower, main, upper = diagonals("float64", (3,))
    b = GENERATOR.normal(size=(3, 1))
    found = linalg.tridiagonal_solve(lower, main, upper, b)
    lower[0] = upper[-1] = np.nan
    np.testing.assert_array_equal(linalg.tridiagonal_solve(lower, main, upper, b), found)


def test_errors() -> None:
    x = floats(3)
    for arguments in ((x, x, x, x), (x, x, x, floats(4, 1)), (x[:2], x, x, floats(3, 1))):
        with pytest.raises(ValueError, match=r"three diagonals of floats \(\.\.\., n\) and b"):
            linalg.tridiagonal_solve(*arguments)
    with pytest.raises(TypeError, match="one dtype"):
        linalg.tridiagonal_solve(x, x, x, np.ones((3, 1)))
