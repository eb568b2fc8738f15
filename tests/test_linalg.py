"""tinyfn.linalg against NumPy's: values, what factors must satisfy, derivatives, batches, and errors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyfn
import tinyfn.numpy as tnp
from tests.against_numpy import EPS, agree, check_derivatives, close, numbers

DTYPES = st.sampled_from(["float32", "float64", "complex64", "complex128"])
BATCHES = st.sampled_from([(), (3,), (2, 1), (0,)])
SIZES = st.integers(1, 5)
SEEDS = st.integers(0, 10**6)
drawn = settings(max_examples=25, deadline=None, derandomize=True)


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def regular(generator: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Matrices whose condition numbers are small."""
    u, _, vh = np.linalg.svd(numbers(generator, dtype, shape), full_matrices=False)
    s = 1.0 + np.arange(min(shape[-2:]))[::-1] * 0.5
    return np.asarray((u * s) @ vh).astype(dtype)


def positive(generator: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    a = regular(generator, dtype, shape)
    return np.asarray(a @ adjoint(a)).astype(dtype)


@drawn
@given(DTYPES, BATCHES, SIZES, SEEDS)
def test_functions_of_square_matrices(dtype: str, batch: tuple[int, ...], n: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    a = regular(generator, dtype, (*batch, n, n))
    agree(lambda m, a: (m.linalg.inv(a), m.linalg.det(a), tuple(m.linalg.slogdet(a))), a, factor=500)
    agree(lambda m, a: (m.linalg.matrix_power(a, 3), m.linalg.matrix_power(a, -2)), a, factor=1000)
    agree(lambda m, a: (m.linalg.cond(a), m.linalg.cond(a, 1), m.linalg.cond(a, "fro")), a, factor=1000)
    h = positive(generator, dtype, (*batch, n, n))
    agree(lambda m, h: (m.linalg.cholesky(h), m.linalg.eigvalsh(h)), h, factor=500)
    agree(lambda m, h: m.linalg.eigvalsh(h, UPLO="U"), a, factor=500)
    values, vectors = tinyfn.linalg.eigh(h)
    close((vectors * values[..., None, :]) @ adjoint(np.asarray(vectors)), h, 500 * EPS[dtype])
    u, s, vh = tinyfn.linalg.svd(h, hermitian=True)
    close((u * s[..., None, :]) @ vh, h, 500 * EPS[dtype])
    values, vectors = tinyfn.linalg.eig(a)
    assert values.dtype == vectors.dtype == np.result_type(dtype, np.complex64)
    close(a @ np.asarray(vectors), np.asarray(vectors) * np.asarray(values)[..., None, :], 2000 * EPS[dtype])


@drawn
@given(DTYPES, BATCHES, SIZES, SIZES, SEEDS)
def test_functions_of_matrices(dtype: str, batch: tuple[int, ...], m: int, n: int, seed: int) -> None:
    a = regular(np.random.default_rng(seed), dtype, (*batch, m, n))
    agree(lambda xp, a: (xp.linalg.pinv(a), xp.linalg.svdvals(a)), a, factor=500)
    agree(lambda xp, a: xp.linalg.matrix_norm(a, ord=2), a, factor=500)
    agree(lambda xp, a: xp.linalg.norm(a, "nuc", axis=(-1, -2), keepdims=True), a, factor=500)
    assert np.all(np.asarray(tinyfn.linalg.matrix_rank(a)) == min(m, n))
    for mode in ("reduced", "complete"):
        q, r = tinyfn.linalg.qr(a, mode)
        close(q @ r, a, 200 * EPS[dtype])
        close(adjoint(np.asarray(q)) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*batch, *[q.shape[-1]] * 2)).astype(dtype),
              200 * EPS[dtype])  # fmt: skip
        assert np.all(np.tril(np.asarray(r), -1) == 0)
    for full in (True, False):
        u, s, vh = tinyfn.jit(lambda x, full=full: tinyfn.linalg.svd(x, full))(a)
        wanted = np.linalg.svd(a, full)
        assert [f.shape for f in (u, s, vh)] == [f.shape for f in wanted]
        k = min(m, n)
        close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, 200 * EPS[dtype])


@drawn
@given(DTYPES, BATCHES, SIZES, st.integers(0, 3), SEEDS)
def test_solve_broadcasts(dtype: str, batch: tuple[int, ...], n: int, columns: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    a = regular(generator, dtype, (*batch, n, n))
    b = numbers(generator, dtype, (n, columns) if columns else (n,))
    agree(lambda m, a, b: m.linalg.solve(a, b), a, b, factor=500)
    several = numbers(generator, dtype, (2, *(1,) * len(batch), n, 2))
    agree(lambda m, a, b: m.linalg.solve(a, b), a, several, factor=500)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_derivatives(dtype: str) -> None:
    generator = np.random.default_rng(7)
    L = tinyfn.linalg
    a, b = regular(generator, dtype, (2, 3, 3)), numbers(generator, dtype, (2, 3, 2))
    h = positive(generator, dtype, (2, 3, 3))
    tall, wide = regular(generator, dtype, (4, 2)), regular(generator, dtype, (2, 4))
    for function in (L.inv, L.det, L.slogdet, L.cond, lambda x: L.matrix_power(x, -2), L.svdvals):
        check_derivatives(function, a)
    check_derivatives(L.solve, a, b)
    for function in (
        L.cholesky,
        L.eigvalsh,
        lambda x: L.eigvalsh(x, "L"),
        lambda x: L.svd(x, compute_uv=False, hermitian=True),
    ):
        check_derivatives(function, h)
    for x in (a, tall, wide):
        for function in (
            L.qr,
            L.pinv,
            L.svdvals,
            lambda v: L.matrix_norm(v, ord=2),
            lambda v: L.norm(v, "nuc", axis=(-2, -1)),
        ):
            check_derivatives(function, x)
        # Factors are determined up to phases; these products are not.
        check_derivatives(
            lambda v: (lambda f: (f.U * f.S[..., None, :]) @ f.Vh)(L.svd(v, full_matrices=False)), x
        )
        check_derivatives(
            lambda v: (lambda u: u @ tnp.conj(u.mT))(L.svd(v, full_matrices=False).U[..., :1]), x
        )
    check_derivatives(lambda v: (lambda f: f[1][..., :1] @ tnp.conj(f[1][..., :1].mT))(L.eigh(v)), h)
    check_derivatives(lambda v: tnp.sum(tnp.abs(L.eigvals(v)) ** 2, -1), a)
    # A projector onto the eigenvector of the greatest eigenvalue, of a matrix whose eigenvalues are real and apart.
    apart = numbers(generator, dtype, (3, 3)) * 0.1 + np.diag([1.0, 2.0, 4.0])
    check_derivatives(lambda v: (lambda u: u @ tnp.conj(u.T))(L.eig(v)[1][:, 2:]), apart)
    check_derivatives(lambda x, y: L.lstsq(x, y)[0], tall, numbers(generator, dtype, (4,)))


def test_least_squares_and_tensors() -> None:
    generator = np.random.default_rng(3)
    for shape in ((5, 3), (3, 5), (3, 3)):
        a, b = numbers(generator, "float64", shape), numbers(generator, "float64", (shape[0], 2))
        for right in (b, b[:, 0]):
            for found, wanted in zip(
                tinyfn.linalg.lstsq(a, right), np.linalg.lstsq(a, right, rcond=None), strict=True
            ):
                if right.ndim == 2 or np.ndim(wanted) != 1 or np.size(wanted) != 1:
                    close(found, np.asarray(wanted, np.asarray(found).dtype), 1e-10)
    deficient = a[:, [0, 0, 1]]
    solution, distances, rank, _ = tinyfn.linalg.lstsq(deficient, b)
    close(solution, np.linalg.lstsq(deficient, b, rcond=None)[0], 1e-10)
    assert int(rank) == 2 and distances.shape == (0,)
    t = numbers(generator, "float64", (2, 3, 6))
    agree(lambda m, t: m.linalg.tensorinv(t), t, factor=1000)
    agree(lambda m, t, b: m.linalg.tensorsolve(t, b), t, numbers(generator, "float64", (2, 3)), factor=1000)


def test_one_matrix_is_factorised_once_for_many_right_sides() -> None:
    generator = np.random.default_rng(4)
    a, b = regular(generator, "float64", (3, 3)), numbers(generator, "float64", (5, 3))
    mapped = tinyfn.vmap(tinyfn.linalg.solve, in_axes=(None, 0))
    close(mapped(a, b), np.linalg.solve(a, b.T).T, 1e-12)
    text = str(tinyfn.make_graph(mapped)(a, b))
    assert "solve(x0, " in text.replace("a, ", "x0, ") and "float64[3,5]" in text


def test_what_lapack_does_not_know() -> None:
    """Half precision is computed in float32, integers become float32."""
    generator = np.random.default_rng(5)
    a = regular(generator, "float32", (3, 3))
    for dtype in (np.float16, ml_dtypes.bfloat16):
        x = a.astype(dtype)
        for function in (tinyfn.linalg.inv, tinyfn.linalg.det, tinyfn.linalg.svdvals, tinyfn.linalg.pinv):
            found = function(x)
            assert found.dtype == dtype
            np.testing.assert_array_equal(
                np.asarray(found), np.asarray(function(x.astype(np.float32))).astype(dtype)
            )
    whole = np.array([[2, 1], [1, 3]])
    assert tinyfn.linalg.inv(whole).dtype == np.float32
    np.testing.assert_allclose(tinyfn.linalg.cholesky(whole), np.linalg.cholesky(whole), rtol=1e-6)


def test_without_a_result_there_is_nan() -> None:
    good, singular = np.eye(2), np.ones((2, 2))
    both = np.stack([good, singular])
    inverse = np.asarray(tinyfn.linalg.inv(both))
    assert np.array_equal(inverse[0], good) and np.isnan(inverse[1]).all()
    factor = np.asarray(tinyfn.linalg.cholesky(np.stack([good, -good])))
    assert np.array_equal(factor[0], good) and np.isnan(factor[1]).all()
    assert np.isnan(np.asarray(tinyfn.linalg.eigvalsh(np.full((2, 2), np.nan)))).all()
    assert float(tinyfn.linalg.det(singular)) == 0.0 and float(tinyfn.linalg.slogdet(singular)[1]) == -np.inf


def test_without_elements() -> None:
    for shape in ((0,), (0, 2), (2, 0), (3, 0, 0)):
        x = np.zeros(shape, np.float32)
        np.testing.assert_allclose(
            tnp.linalg.vector_norm(x, ord=np.inf), np.linalg.vector_norm(x, ord=np.inf)
        )
        if x.ndim > 1:
            for order in (1, 2, np.inf, "nuc", "fro"):
                np.testing.assert_allclose(
                    tnp.linalg.matrix_norm(x, ord=order), np.linalg.matrix_norm(x, ord=order)
                )
    found = tnp.linalg.lstsq(np.zeros((0, 2)), np.zeros(0))
    for ours, wanted in zip(found, np.linalg.lstsq(np.zeros((0, 2)), np.zeros(0)), strict=True):
        np.testing.assert_allclose(ours, wanted)


def test_matrices_without_full_rank() -> None:
    for x in (np.zeros((2, 2)), np.diag([1.0, 0.0]), np.array([[np.nan, 1], [1, 1]]), np.eye(2) * 3):
        for order in (None, 2, 1, np.inf, "fro"):
            if not np.isnan(x).any():  # NumPy raises an error where there are no singular values
                np.testing.assert_allclose(tnp.linalg.cond(x, order), np.linalg.cond(x, order))
            else:
                assert np.isnan(tnp.linalg.cond(x, order))
    both = np.stack([np.zeros((2, 2)), np.diag([1.0, 4.0])])
    assert tnp.linalg.cond(both).tolist() == [np.inf, 4]
    assert [int(tnp.linalg.matrix_rank(x)) for x in (np.zeros(3), np.array([0, 2]), 5.0, 0)] == [0, 1, 1, 0]


def test_errors() -> None:
    L, x = tinyfn.linalg, tnp.zeros((2, 3))
    for function in (L.inv, L.det, L.cholesky, L.eigh, L.eig, L.slogdet):
        with pytest.raises(ValueError, match=r"square matrices .*float32\[2,3\].*test_linalg.py"):
            function(x)
    with pytest.raises(ValueError, match=r"matrices in the last two axes, not float32\[3\]"):
        L.svd(tnp.zeros(3))
    with pytest.raises(ValueError, match="same number of rows"):
        L.solve(tnp.eye(2), tnp.zeros(3))
    with pytest.raises(ValueError, match="mode must be 'reduced', 'complete' or 'r'"):
        L.qr(x, "full")
    with pytest.raises(ValueError, match="UPLO must be"):
        L.eigh(tnp.eye(2), "X")
    for function in (lambda v: L.svd(v)[0].sum(), lambda v: L.qr(v, "complete")[0].sum()):
        with pytest.raises(NotImplementedError, match=r"full_matrices=False|mode='reduced'"):
            tinyfn.grad(function)(tnp.asarray(np.random.default_rng(0).normal(size=(3, 2)), dtype="float32"))
    with pytest.raises(ValueError, match="must have 3 elements"):
        L.cross(tnp.zeros(2), tnp.zeros(2))
