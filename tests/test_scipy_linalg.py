"""tinyfn.scipy.linalg: what factors and solutions must satisfy, exponentials against eigenvalues, derivatives, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyfn
import tinyfn.numpy as tnp
from tests.against_numpy import EPS, check_derivatives, close, numbers
from tests.test_linalg import adjoint, positive, regular
from tinyfn.lax import linalg as lax_linalg
from tinyfn.linalg.triangular import lu_pivots_to_permutation
from tinyfn.scipy import linalg

DTYPES = st.sampled_from(["float32", "float64", "complex64", "complex128"])
BATCHES = st.sampled_from([(), (3,), (2, 1), (0,)])
SIZES = st.integers(0, 5)
SEEDS = st.integers(0, 10**6)
drawn = settings(max_examples=15, deadline=None, derandomize=True)


def turned(a: np.ndarray, trans: Any) -> np.ndarray:
    return {0: a, 1: np.swapaxes(a, -1, -2), 2: adjoint(a)}[trans]


@drawn
@given(DTYPES, BATCHES, SIZES, SIZES, SEEDS)
def test_lu(dtype: str, batch: tuple[int, ...], m: int, n: int, seed: int) -> None:
    a = numbers(np.random.default_rng(seed), dtype, (*batch, m, n))
    for function in (linalg.lu, tinyfn.jit(linalg.lu)):
        p, lower, upper = map(np.asarray, function(a))
        close(p @ lower @ upper, a, 100 * EPS[dtype])
        np.testing.assert_array_equal(np.triu(lower), np.broadcast_to(np.eye(*lower.shape[-2:]), lower.shape))
        np.testing.assert_array_equal(np.tril(upper, -1), 0)
        assert (np.abs(lower) <= 1 + 100 * EPS[dtype]).all()  # by pivoting
        np.testing.assert_array_equal(np.sort(p, -1)[..., :-1], 0)
    np.testing.assert_array_equal(linalg.lu(a, permute_l=True)[0], p @ lower)
    factors, pivots = linalg.lu_factor(a)
    assert factors.shape == a.shape and pivots.shape == (*batch, min(m, n)) and pivots.dtype == np.int32
    order = np.asarray(lu_pivots_to_permutation(pivots, m))
    close(np.take_along_axis(a, order[..., None].astype(int), -2), lower @ upper, 100 * EPS[dtype])


@pytest.mark.parametrize("shape", [(70, 70), (2, 40, 90), (90, 33), (32, 64)])
def test_lu_of_several_panels(shape: tuple[int, ...]) -> None:
    a = numbers(np.random.default_rng(0), "float64", shape)
    p, lower, upper = map(np.asarray, linalg.lu(a))
    close(p @ lower @ upper, a, 1e-12)
    assert (np.abs(lower) <= 1).all() and not np.tril(upper, -1).any() and not np.triu(lower, 1).any()
    if shape[-1] == shape[-2]:
        x = np.asarray(linalg.lu_solve(linalg.lu_factor(a), a[0]))
        close(a @ x, a[0], 1e-10)


def test_lu_of_singular_matrices() -> None:
    close(linalg.lu(tnp.zeros((2, 2)))[2], np.zeros((2, 2), np.float32), 0)
    a = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, 1.0]])
    p, lower, upper = linalg.lu(a)
    close(p @ lower @ upper, a, 1e-15)
    assert np.isnan(linalg.lu(np.array([[np.nan, 1.0], [1.0, 2.0]]))[2]).any()


@drawn
@given(DTYPES, BATCHES, st.integers(1, 5), SEEDS, st.sampled_from([0, 1, 2]))
def test_systems(dtype: str, batch: tuple[int, ...], n: int, seed: int, trans: int) -> None:
    generator = np.random.default_rng(seed)
    a, b = regular(generator, dtype, (*batch, n, n)), numbers(generator, dtype, (*batch, n, 2))
    tolerance = 1000 * EPS[dtype]
    close(turned(a, trans) @ np.asarray(linalg.lu_solve(linalg.lu_factor(a), b, trans)), b, tolerance)
    for lower in (False, True):
        triangle = np.tril(a) if lower else np.triu(a)
        dominant = triangle + 3 * np.eye(n, dtype=dtype)
        mixed = dominant + (a - triangle)  # the other triangle is not read
        x = linalg.solve_triangular(mixed, b, trans, lower)
        close(turned(dominant, trans) @ np.asarray(x), b, tolerance)
        unit = triangle * 0.3
        unit[..., range(n), range(n)] = 1
        x = linalg.solve_triangular(a * np.asarray(0.3, dtype), b, trans, lower, unit_diagonal=True)
        close(turned(unit.astype(dtype), trans) @ np.asarray(x), b, tolerance)
        h = positive(generator, dtype, (*batch, n, n))
        close(h @ np.asarray(linalg.cho_solve(linalg.cho_factor(h, lower), b)), b, tolerance)
        factor = np.asarray(linalg.cholesky(h, lower))
        close(factor @ adjoint(factor) if lower else adjoint(factor) @ factor, h, tolerance)
        half = np.tril(h) if lower else np.triu(h)
        for kind in ("pos", "her"):
            close(h @ np.asarray(linalg.solve(half, b, lower, assume_a=kind)), b, tolerance)
        symmetric = h + np.swapaxes(h, -1, -2)
        half = np.tril(symmetric) if lower else np.triu(symmetric)
        close(symmetric @ np.asarray(linalg.solve(half, b, lower, assume_a="sym")), b, 10 * tolerance)
    close(a @ np.asarray(linalg.solve(a, b)), b, tolerance)


def test_systems_of_vectors_and_their_batches() -> None:
    generator = np.random.default_rng(0)
    a, v = regular(generator, "float64", (4, 3, 3)), numbers(generator, "float64", (3,))
    for trans in (0, 1, 2):
        x = np.asarray(linalg.lu_solve(linalg.lu_factor(a), v, trans))
        close(np.einsum("bij,bj->bi", turned(a, trans), x), np.broadcast_to(v, (4, 3)), 1e-12)
    lanes = tinyfn.vmap(lambda a: linalg.lu_solve(linalg.lu_factor(a), v))(a)
    close(lanes, np.linalg.solve(a, np.broadcast_to(v, (4, 3))[..., None])[..., 0], 1e-12)
    close(linalg.cho_solve(linalg.cho_factor(np.eye(3) * 2), v), v / 2, 1e-15)
    half = linalg.solve_triangular(np.eye(2, dtype=np.float16) * 2, np.ones(2, np.float16))
    assert half.dtype == np.float16 and half.tolist() == [0.5, 0.5]


@drawn
@given(DTYPES, BATCHES, st.integers(1, 4), SEEDS, st.sampled_from([0.01, 1.0, 20.0]))
def test_exponentials(dtype: str, batch: tuple[int, ...], n: int, seed: int, size: float) -> None:
    """Of matrices with known eigenvectors, by the exponentials of the eigenvalues."""
    generator = np.random.default_rng(seed)
    wide = "complex128" if dtype.startswith("complex") else "float64"
    vectors = np.linalg.qr(numbers(generator, wide, (*batch, n, n)))[0]
    values = generator.uniform(-size, size / 4, (*batch, 1, n))
    a = ((vectors * values) @ adjoint(vectors)).astype(dtype)
    wanted = (vectors * np.exp(values)) @ adjoint(vectors)
    found = linalg.expm(a)
    assert found.dtype == dtype
    # Its condition number grows with the norm.
    close(np.asarray(found).astype(wide), wanted, 200 * (1 + size) * EPS[dtype])
    close(tinyfn.jit(linalg.expm)(a), found, 200 * (1 + size) * EPS[dtype])
    root = np.asarray(linalg.sqrtm(adjoint(a) @ a + np.eye(n, dtype=dtype)))
    close(root @ root, (adjoint(a) @ a + np.eye(n)).astype(root.dtype), 5000 * EPS[dtype])


def test_exponentials_at_the_edges() -> None:
    close(linalg.expm(tnp.zeros((2, 2))), np.eye(2, dtype=np.float32), 0)
    nilpotent = np.array([[0.0, 1e3], [0.0, 0.0]])
    close(linalg.expm(nilpotent), np.array([[1, 1e3], [0, 1]]), 1e-15)
    rotation = np.array([[0.0, -10.0], [10.0, 0.0]])
    close(linalg.expm(rotation), np.array([[np.cos(10), -np.sin(10)], [np.sin(10), np.cos(10)]]), 1e-13)
    below = np.array([[1.0, 2.0], [9.0, 3.0]])
    close(linalg.expm(below, upper_triangular=True), linalg.expm(np.triu(below)), 0)
    assert (
        np.isnan(linalg.expm(np.eye(2) * 1e6)).all() and np.isnan(linalg.expm(np.full((2, 2), np.nan))).all()
    )
    assert np.isnan(linalg.expm(np.full((2, 2), np.inf))).all()
    both = np.asarray(linalg.expm(np.stack([np.eye(2), np.eye(2) * 1e6])))
    close(both[0], np.eye(2) * np.e, 1e-14)
    assert np.isnan(both[1]).all() and linalg.expm(tnp.zeros((0, 3, 3))).shape == (0, 3, 3)
    assert np.isnan(linalg.expm(np.eye(2) * 100, max_squarings=2)).all()


def test_derivatives() -> None:
    generator = np.random.default_rng(0)
    a, b = regular(generator, "float64", (2, 3, 3)), numbers(generator, "float64", (2, 3, 2))
    check_derivatives(lambda a: linalg.lu(a)[1:], a)
    check_derivatives(lambda a: linalg.lu(a)[1:], a[:, :2])
    check_derivatives(lambda a: linalg.lu(a)[1:], a[:, :, :2])
    check_derivatives(lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b, 1), a, b)
    check_derivatives(lambda a, b: linalg.solve_triangular(a, b, 2, lower=True), a, b)
    check_derivatives(lambda a, b: linalg.cho_solve(linalg.cho_factor(a @ tnp.matrix_transpose(a)), b), a, b)
    check_derivatives(lambda a: linalg.expm(a), a)
    check_derivatives(lambda a: linalg.polar(a)[0], a)
    check_derivatives(lambda a: tnp.real(linalg.sqrtm(a @ tnp.matrix_transpose(a))), a)
    check_derivatives(lambda c, r: linalg.toeplitz(c, r), a[0, 0], a[0, 1])
    complex_ = regular(generator, "complex128", (3, 3))
    check_derivatives(lambda a: linalg.lu(a)[1:], complex_)
    check_derivatives(lambda a: linalg.expm(a), complex_ * 0.5)


def test_the_derivative_of_the_exponential_in_a_direction() -> None:
    generator = np.random.default_rng(1)
    a, e = numbers(generator, "float64", (3, 3)), numbers(generator, "float64", (3, 3))
    value, tangent = linalg.expm_frechet(a, e)
    # The upper right block of the exponential of [[A, E], [0, A]] is the derivative (N. Higham, "Functions of Matrices").
    whole = np.asarray(linalg.expm(np.block([[a, e], [np.zeros((3, 3)), a]])))
    close(value, whole[:3, :3], 1e-12)
    close(tangent, whole[:3, 3:], 1e-12)
    close(linalg.expm_frechet(a, e, compute_expm=False), tangent, 0)


@drawn
@given(DTYPES, BATCHES, st.integers(1, 4), st.integers(1, 4), SEEDS)
def test_polar_svd_and_qr(dtype: str, batch: tuple[int, ...], m: int, n: int, seed: int) -> None:
    a = numbers(np.random.default_rng(seed), dtype, (*batch, m, n))
    tolerance = 300 * EPS[dtype]
    for side in ("right", "left"):
        u, p = map(np.asarray, linalg.polar(a, side))
        close(u @ p if side == "right" else p @ u, a, tolerance)
        close(p, adjoint(p), tolerance)
        small = adjoint(u) @ u if m >= n else u @ adjoint(u)
        close(small, np.broadcast_to(np.eye(min(m, n), dtype=dtype), small.shape), tolerance)
        assert (np.linalg.eigvalsh(p) > -tolerance).all()
    for mode, columns in (("full", m), ("economic", min(m, n))):
        q, r = map(np.asarray, linalg.qr(a, mode=mode))
        assert q.shape[-1] == columns
        close(q @ r, a, tolerance)
    close(linalg.qr(a, mode="r")[0], r if m <= n else np.asarray(linalg.qr(a, mode="economic")[1]), tolerance)
    u, s, vh = map(np.asarray, linalg.svd(a, full_matrices=False))
    close((u * s[..., None, :]) @ vh, a, tolerance)
    close(linalg.svd(a, compute_uv=False), s, tolerance)


@drawn
@given(DTYPES, st.integers(1, 4), SEEDS)
def test_generalized_eigenvalues(dtype: str, n: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    a, b = positive(generator, dtype, (n, n)), positive(generator, dtype, (n, n))
    tolerance = 5000 * EPS[dtype]
    for kind, matrix in ((1, np.linalg.solve(b, a)), (2, a @ b), (3, b @ a)):
        w, v = map(np.asarray, linalg.eigh(a, b, type=kind))
        close(matrix @ v, v * w.astype(dtype), tolerance * max(1.0, float(np.abs(w).max())))
        close(linalg.eigh(a, b, type=kind, eigvals_only=True), w, tolerance * max(1.0, float(w[-1])))
        unit = np.linalg.inv(b) if kind == 3 else b
        close((adjoint(v) @ unit @ v).astype(dtype), np.eye(n, dtype=dtype), tolerance)
    w, v = map(np.asarray, linalg.eigh(np.triu(a), lower=False))
    close(a @ v, v * w.astype(dtype), tolerance)


def test_matrices_of_a_form() -> None:
    assert linalg.toeplitz(tnp.array([1, 2, 3]), tnp.array([9, 4])).tolist() == [[1, 4], [2, 1], [3, 2]]
    assert linalg.toeplitz(tnp.array([1, 2j])).tolist() == [[1, -2j], [2j, 1]]
    assert linalg.toeplitz(tnp.ones((2, 1, 3)), tnp.ones((4, 2))).shape == (2, 4, 3, 2)
    assert linalg.hankel(tnp.array([1, 2]), tnp.array([9, 3, 4])).tolist() == [[1, 2, 3], [2, 3, 4]]
    assert linalg.hankel(tnp.array([1, 2])).tolist() == [[1, 2], [2, 0]]
    c = np.array([1.0, 2.0, 4.0])
    spectrum = np.sort_complex(np.linalg.eigvals(np.asarray(linalg.circulant(c))))
    close(spectrum, np.sort_complex(np.fft.fft(c)), 1e-14)
    blocks = linalg.block_diag(tnp.ones((1, 2)), 3.0, tnp.zeros((0, 1)), tnp.array([[4.0], [5.0]]))
    assert blocks.tolist() == [[1, 1, 0, 0, 0], [0, 0, 3, 0, 0], [0, 0, 0, 0, 4], [0, 0, 0, 0, 5]]
    roots = np.sort(np.linalg.eigvals(np.asarray(linalg.companion(np.poly([1.0, 2.0, 4.0])))))
    close(roots, np.array([1.0, 2.0, 4.0]), 1e-12)
    close(linalg.hilbert(3), (1 / np.array([[1, 2, 3], [2, 3, 4], [3, 4, 5]])).astype(np.float32), 1e-7)
    for scale, by in ((None, 1), ("sqrtn", 2), ("n", 4)):
        close(linalg.dft(4, scale), (np.fft.fft(np.eye(4)) / by).astype(np.complex64), 1e-7)
    hadamard = np.asarray(linalg.hadamard(8))
    np.testing.assert_array_equal(hadamard @ hadamard.T, 8 * np.eye(8))
    close(
        linalg.eigh_tridiagonal(np.array([2.0, 2.0]), np.array([1.0]), eigvals_only=True),
        np.array([1.0, 3.0]),
        1e-15,
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linalg.solve_triangular(tnp.eye(2), tnp.ones(2), 3), r"trans must be 0 or 'N'"),
        (lambda: linalg.lu(tnp.ones(3)), r"lu takes matrices in the last two axes, not float32\[3\]"),
        (
            lambda: linalg.lu_solve(linalg.lu_factor(tnp.eye(2)), tnp.ones(3)),
            r"differ in their number of rows",
        ),
        (lambda: linalg.polar(tnp.eye(2), "up"), r"side must be 'right' or 'left'"),
        (lambda: linalg.solve(tnp.eye(2), tnp.ones(2), assume_a="banded"), r"assume_a must be"),
        (lambda: linalg.expm(tnp.ones((2, 3))), r"expm takes square matrices"),
        (lambda: linalg.expm_frechet(tnp.eye(2), tnp.eye(3)), r"shapes \(2, 2\) and \(3, 3\)"),
        (lambda: linalg.toeplitz(1.0), r"toeplitz takes a vector"),
        (lambda: linalg.block_diag(tnp.ones((1, 1, 1))), r"block_diag takes matrices"),
        (lambda: linalg.companion(tnp.ones(1)), r"at least 2 coefficients"),
        (lambda: linalg.dft(2, "m"), r"scale must be"),
        (lambda: linalg.hadamard(3), r"power of 2"),
    ],
)
def test_errors(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message + r".*test_scipy_linalg"):
        call()


def test_the_names_of_lax() -> None:
    generator = np.random.default_rng(0)
    a, b = regular(generator, "complex128", (2, 3, 3)), numbers(generator, "complex128", (2, 3, 3))
    for lower in (False, True):
        triangle = np.tril(a) if lower else np.triu(a)
        for transpose in (False, True):
            for conjugated in (False, True):
                t = np.conj(triangle) if conjugated else triangle
                t = np.swapaxes(t, -1, -2) if transpose else t
                options = {"lower": lower, "transpose_a": transpose, "conjugate_a": conjugated}
                close(t @ np.asarray(lax_linalg.triangular_solve(a, b, left_side=True, **options)), b, 1e-12)
                close(np.asarray(lax_linalg.triangular_solve(a, b, **options)) @ t, b, 1e-12)
    factors, pivots, order = lax_linalg.lu(a)
    close(lax_linalg.lu_pivots_to_permutation(pivots, 3), order, 0)
    close(factors, linalg.lu_factor(a)[0], 0)
    h = positive(generator, "complex128", (3, 3))
    close(lax_linalg.cholesky(np.tril(h), symmetrize_input=False), np.linalg.cholesky(h), 1e-12)
