"""Linear algebra with the names, arguments and conventions of `jax.scipy.linalg`, on matrices in the last two axes.

What says how LAPACK is to use memory (`overwrite_a`, `check_finite`, ...) is accepted for what is ported, and does nothing."""

from __future__ import annotations

from typing import Any

from .. import linalg
from ..linalg import matrix_functions, triangular
from ..linalg.decompositions import hermitian, matrices
from ..linalg.matrix_functions import expm, expm_frechet, sqrtm
from ..linalg.structured_matrices import (
    block_diag,
    circulant,
    companion,
    dft,
    hadamard,
    hankel,
    hilbert,
    toeplitz,
)
from ..numpy.common import ArrayLike, at_user, cast
from ..numpy.floats import conjugate
from ..numpy.shapes import matrix_transpose
from ..trace import operators as o
from ..trace.array import Array
from ..trace.errors import entry_points


def cholesky(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """The upper triangular U with a = U^H U, or with `lower` the L with a = L L^H; NaN where `a` is not positive definite.

    >>> from tinyfn import scipy
    >>> a = tnp.array([[4.0, 2.0], [2.0, 5.0]])
    >>> scipy.linalg.cholesky(a)
    Array([[2., 1.],
           [0., 2.]], dtype=float32)
    >>> scipy.linalg.cholesky(a, lower=True)
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    return linalg.cholesky(a, upper=not lower)


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """The Cholesky factor of `a` for `cho_solve`: upper triangular, or lower, and which it is.

    >>> from tinyfn import scipy
    >>> scipy.linalg.cho_factor(tnp.array([[4.0, 2.0], [2.0, 5.0]]), lower=True)
    (Array([[2., 0.],
           [1., 2.]], dtype=float32), True)
    """
    return triangular.cho_factor(a, lower)


def cho_solve(
    c_and_lower: tuple[ArrayLike, bool], b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True
) -> Array:
    """The x with a x = b, given what `cho_factor` gave for `a`; b has shape (n,) or (..., n, k).

    >>> from tinyfn import scipy
    >>> factor = scipy.linalg.cho_factor(tnp.array([[4.0, 2.0], [2.0, 5.0]]))
    >>> scipy.linalg.cho_solve(factor, tnp.array([2.0, 5.0])).round(4)
    Array([0., 1.], dtype=float32)
    """
    return triangular.cho_solve(c_and_lower, b)


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinant of matrices of shape (..., n, n), of shape (...).

    >>> from tinyfn import scipy
    >>> scipy.linalg.det(tnp.array([[2.0, 1.0], [0.0, 3.0]]))
    Array(6., dtype=float32)
    """
    return linalg.det(a)


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The inverse of square matrices, of a's shape; NaN where one is singular.

    >>> from tinyfn import scipy
    >>> scipy.linalg.inv(tnp.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    return linalg.inv(a)


def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, ...]:
    """The matrices (P, L, U) with a = P L U, or with `permute_l` (P L, U): a permutation, unit lower and upper triangular.

    >>> from tinyfn import scipy
    >>> p, l, u = scipy.linalg.lu(tnp.array([[1.0, 2.0], [2.0, 2.0]]))
    >>> p, l, u
    (Array([[0., 1.],
           [1., 0.]], dtype=float32), Array([[1. , 0. ],
           [0.5, 1. ]], dtype=float32), Array([[2., 2.],
           [0., 1.]], dtype=float32))
    >>> p @ l @ u
    Array([[1., 2.],
           [2., 2.]], dtype=float32)
    """
    found: tuple[Array, ...] = triangular.lu(a, permute_l)
    return found


def lu_factor(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """The LU factors of `a` in one array of its shape, and the row that each row was exchanged with in turn, for `lu_solve`.

    >>> from tinyfn import scipy
    >>> scipy.linalg.lu_factor(tnp.array([[1.0, 2.0], [2.0, 2.0]]))
    (Array([[2. , 2. ],
           [0.5, 1. ]], dtype=float32), Array([1, 1], dtype=int32))
    """
    return triangular.lu_factor(a)


def lu_solve(
    lu_and_piv: tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """The x with a x = b (trans=1: a^T x = b; 2: a^H x = b), given what `lu_factor` gave for `a`.

    >>> from tinyfn import scipy
    >>> factors = scipy.linalg.lu_factor(tnp.array([[1.0, 2.0], [2.0, 2.0]]))
    >>> scipy.linalg.lu_solve(factors, tnp.array([3.0, 4.0]))
    Array([1., 1.], dtype=float32)
    """
    return triangular.lu_solve(lu_and_piv, b, trans)


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """The x with t x = b for the upper (or lower) triangle t of `a`; trans=1 ("T") transposes it, 2 ("C") also conjugates.

    `a` has shape (..., n, n), b and x (n,) or (..., n, k); `unit_diagonal` takes the diagonal as ones. NaN where
    the triangle is singular.

    >>> from tinyfn import scipy
    >>> a = tnp.array([[2.0, 9.0], [1.0, 4.0]])
    >>> scipy.linalg.solve_triangular(a, tnp.array([2.0, 5.0]), lower=True)  # the 9 is not read
    Array([1., 1.], dtype=float32)
    """
    return triangular.solve_triangular(a, b, trans, lower, unit_diagonal)


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """The x with a x = b; assume_a="pos" takes the upper (or lower) triangle of `a` as that of a positive definite matrix.

    "sym" and "her" read that triangle of a symmetric or Hermitian matrix, "gen" all of it. `a` has shape (..., n, n), b and x
    (n,) or (..., n, k). NaN where `a` is singular; raises ValueError for another assume_a.

    >>> from tinyfn import scipy
    >>> a = tnp.array([[4.0, 2.0], [0.0, 5.0]])
    >>> scipy.linalg.solve(a, tnp.array([6.0, 5.0]))
    Array([1., 1.], dtype=float32)
    >>> scipy.linalg.solve(a, tnp.array([6.0, 7.0]), assume_a="pos").round(4)  # of [[4, 2], [2, 5]]
    Array([1., 1.], dtype=float32)
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(f"solve: assume_a must be 'gen', 'sym', 'her' or 'pos', not {assume_a!r}{at_user()}")
    if assume_a == "gen":
        return linalg.solve(a, b)
    whole = hermitian(
        matrices(a, "solve", square=True)[0], "L" if lower else "U", conjugated=assume_a != "sym"
    )
    if assume_a == "pos":
        return triangular.cho_solve(triangular.cho_factor(whole), b)
    return linalg.solve(whole, b)


def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """The rising eigenvalues of Hermitian matrices and the eigenvectors as columns; of `a` one triangle is read.

    With a positive definite b: those of a v = w b v (type=1), a b v = w v (2) or b a v = w v (3), where v^H b v = 1 (for type 3
    v^H b^-1 v = 1).

    >>> from tinyfn import scipy
    >>> a = tnp.array([[2.0, 1.0], [1.0, 2.0]])
    >>> scipy.linalg.eigh(a, eigvals_only=True).round(4)
    Array([1., 3.], dtype=float32)
    >>> scipy.linalg.eigh(a, 2.0 * tnp.eye(2), eigvals_only=True).round(4)
    Array([0.5, 1.5], dtype=float32)
    """
    if eigvals is not None or type not in (1, 2, 3):
        raise NotImplementedError(f"eigh: only eigvals=None, and type 1, 2 or 3{at_user()}")
    triangle = "L" if lower else "U"
    if b is None:
        return linalg.eigvalsh(a, triangle) if eigvals_only else tuple(linalg.eigh(a, triangle))
    x = matrices(a, "eigh", square=True)[0]
    factor = linalg.cholesky(b)
    adjoint = conjugate(matrix_transpose(factor))
    whole = hermitian(x, triangle)
    if type == 1:  # L^-1 a L^-H has these eigenvalues, and the eigenvectors L^H v
        half = triangular.solve_triangular(factor, whole, lower=True)
        turned = triangular.solve_triangular(factor, conjugate(matrix_transpose(half)), lower=True)
    else:  # L^H a L
        turned = o.matmul(o.matmul(adjoint, whole), factor)
    if eigvals_only:
        return linalg.eigvalsh(turned)
    values, vectors = linalg.eigh(turned)
    if type == 3:
        return values, o.matmul(factor, vectors)
    return values, triangular.solve_triangular(factor, vectors, 2, lower=True)


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """(U, s, V^H) with a = U diag(s) V^H, or with compute_uv=False the falling singular values s alone.

    >>> from tinyfn import scipy
    >>> a = tnp.array([[3.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
    >>> u, s, vh = scipy.linalg.svd(a)
    >>> u.shape, vh.shape, s.round(4)
    ((2, 2), (3, 3), Array([4., 3.], dtype=float32))
    >>> scipy.linalg.svd(a, full_matrices=False)[2].shape
    (2, 3)
    """
    found = linalg.svd(a, full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """(Q, R) with a = Q R, Q square; mode="economic" has min(m, n) columns of Q, "r" gives (R,) alone.

    Raises NotImplementedError for other modes and for pivoting.

    >>> from tinyfn import scipy
    >>> q, r = scipy.linalg.qr(tnp.ones((4, 2)))
    >>> q.shape, r.shape
    ((4, 4), (4, 2))
    >>> q, r = scipy.linalg.qr(tnp.ones((4, 2)), mode="economic")
    >>> q.shape, r.shape
    ((4, 2), (2, 2))
    """
    modes = {"full": "complete", "economic": "reduced", "r": "r"}
    if mode not in modes or pivoting:
        raise NotImplementedError(
            f"qr: mode must be 'full', 'economic' or 'r', not {mode!r}, without pivoting{at_user()}"
        )
    found = linalg.qr(a, modes[mode])
    return (found,) if mode == "r" else tuple(found)


def polar(a: ArrayLike, side: str = "right", *, method: str = "svd") -> tuple[Array, Array]:
    """(U, P) with a = U P (side="right") or a = P U ("left"): U has orthonormal columns or rows, P is positive semidefinite.

    Of the singular value decomposition a = W S V^H: U = W V^H, P = V S V^H ("right") or W S W^H ("left").

    >>> from tinyfn import scipy
    >>> u, p = scipy.linalg.polar(tnp.array([[0.0, -2.0], [3.0, 0.0]]))
    >>> tnp.abs(u.round(4)), tnp.abs(p.round(4))
    (Array([[0., 1.],
           [1., 0.]], dtype=float32), Array([[3., 0.],
           [0., 2.]], dtype=float32))
    """
    return matrix_functions.polar(a, side)


def eigh_tridiagonal(d: ArrayLike, e: ArrayLike, *, eigvals_only: bool = False) -> Any:
    """The eigenvalues, rising, of the symmetric matrix with diagonal d (n,) and e (n - 1,) beside it, and the eigenvectors.

    By the method for all symmetric matrices.

    >>> from tinyfn import scipy
    >>> scipy.linalg.eigh_tridiagonal(tnp.array([2.0, 2.0]), tnp.array([1.0]), eigvals_only=True).round(4)
    Array([1., 3.], dtype=float32)
    """
    from ..numpy.triangles import diag

    whole = diag(d) + diag(cast(e, o.operand(d).dtype), -1)
    return eigh(whole, eigvals_only=eigvals_only)


__all__ = [
    "block_diag",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "circulant",
    "companion",
    "det",
    "dft",
    "eigh",
    "eigh_tridiagonal",
    "expm",
    "expm_frechet",
    "hadamard",
    "hankel",
    "hilbert",
    "inv",
    "lu",
    "lu_factor",
    "lu_solve",
    "polar",
    "qr",
    "solve",
    "solve_triangular",
    "sqrtm",
    "svd",
    "toeplitz",
]

entry_points(globals())
