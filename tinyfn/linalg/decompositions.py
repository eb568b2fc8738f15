"""Decompositions of matrices in the last two axes, batched over the others and differentiable.

LAPACK works in float32, float64, complex64 and complex128; other floats are decomposed in float32 and rounded once, integers
and bools become float32. Where LAPACK finds no result the elements are NaN."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..numpy.arithmetic import absolute, multiply
from ..numpy.common import ArrayLike, at_user, bind, cast, described, inexact
from ..numpy.dtype_queries import finfo
from ..numpy.floats import conjugate
from ..numpy.indexing import take_along_axis
from ..numpy.logic import not_equal, where
from ..numpy.ordering import argsort, sort
from ..numpy.reductions import any as any_
from ..numpy.reductions import max as max_
from ..numpy.reductions import sum as sum_
from ..numpy.shapes import expand_dims, matrix_transpose
from ..numpy.triangles import tril, triu
from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from ..trace.prims import factorizations, systems
from ..trace.prims.matrices import DTYPES


class QRResult(NamedTuple):
    """The factors of `qr`: `Q` and `R`.

    >>> linalg.qr(tnp.zeros((3, 2))).R.shape
    (2, 2)
    """

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """The factors of `svd`: `U`, `S` and `Vh`.

    >>> linalg.svd(tnp.eye(2)).S
    Array([1., 1.], dtype=float32)
    """

    U: Array
    S: Array
    Vh: Array


class EighResult(NamedTuple):
    """The results of `eigh`: `eigenvalues` and `eigenvectors`.

    >>> linalg.eigh(tnp.eye(2)).eigenvalues
    Array([1., 1.], dtype=float32)
    """

    eigenvalues: Array
    eigenvectors: Array


def matrices(a: ArrayLike, what: str, square: bool = False) -> tuple[Array, dtypes.DType]:
    """The argument in a dtype that LAPACK knows, and the dtype for the result; raises ValueError if it is no matrix."""
    x = inexact(a, what)
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        kind = "square matrices" if square else "matrices"
        raise ValueError(f"{what} takes {kind} in the last two axes, not {described(x)}{at_user()}")
    return (x if x.dtype in DTYPES else o.to_dtype(x, dtypes.float32)), x.dtype


def _real(x: Array, dtype: dtypes.DType) -> Array:
    """The real part of what is stored as complex, or x rounded to the dtype."""
    if dtypes.kind(x.dtype) == "complex":
        return bind(prims.real, (x,), {})
    return o.to_dtype(x, dtype)


class EigResult(NamedTuple):
    """The results of `eig`: `eigenvalues` and `eigenvectors`.

    >>> linalg.eig(tnp.eye(2)).eigenvalues
    Array([1.+0.j, 1.+0.j], dtype=complex64)
    """

    eigenvalues: Array
    eigenvectors: Array


def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with a = L L^H, or with `upper` L^H; NaN where (a + a^H) / 2 is not positive definite.

    `a` has shape (..., n, n), and so has the result. Without `symmetrize_input` only its lower triangle is read.

    >>> linalg.cholesky(tnp.array([[4.0, 2.0], [2.0, 10.0]]))
    Array([[2., 0.],
           [1., 3.]], dtype=float32)
    >>> linalg.cholesky(tnp.array([[1.0, 2.0], [2.0, 1.0]]))
    Array([[nan, nan],
           [nan, nan]], dtype=float32)
    """
    x, dtype = matrices(a, "cholesky", square=True)
    if not symmetrize_input:
        x = hermitian(x, "L")
    factor = o.to_dtype(bind(systems.cholesky, (x,), {}), dtype)
    return conjugate(matrix_transpose(factor)) if upper else factor


def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """The pair (Q, R) with a = Q R, of shapes (..., m, k) and (..., k, n) for matrices of shape (..., m, n).

    k is min(m, n), or m in mode "complete", which has no derivative for m > n. Mode "r" gives R alone.

    >>> q, r = linalg.qr(tnp.array([[3.0, 1.0], [4.0, 2.0], [0.0, 5.0]]))
    >>> q.shape, r.shape
    ((3, 2), (2, 2))
    >>> (q @ r).round(3)
    Array([[3., 1.],
           [4., 2.],
           [0., 5.]], dtype=float32)
    >>> linalg.qr(tnp.zeros((3, 2)), mode="complete").Q.shape
    (3, 3)
    """
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode must be 'reduced', 'complete' or 'r', not {mode!r}{at_user()}")
    x, dtype = matrices(a, "qr")
    rows = x.shape[-2]
    packed = o.to_dtype(bind(factorizations.qr, (x,), {"complete": mode == "complete"}), dtype)
    r = matrix_transpose(packed[..., rows:, :])
    return r if mode == "r" else QRResult(packed[..., :rows, :], r)


def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """The triple (U, S, Vh) with a = U diag(S) Vh, the singular values S falling; S alone without `compute_uv`.

    For matrices of shape (..., m, n): U is (..., m, m) and Vh (..., n, n); without `full_matrices` they have min(m, n) columns
    and rows, and only then have they derivatives where m and n differ. `hermitian` goes through `eigh`.

    >>> u, s, vh = linalg.svd(tnp.array([[3.0, 0.0, 0.0], [0.0, 4.0, 0.0]]), full_matrices=False)
    >>> u.shape, s, vh.shape
    ((2, 2), Array([4., 3.], dtype=float32), (2, 3))
    >>> (u * s @ vh).round(3)
    Array([[3., 0., 0.],
           [0., 4., 0.]], dtype=float32)
    """
    x, dtype = matrices(a, "svd", square=hermitian)
    if hermitian:
        return _hermitian_svd(x, dtype, compute_uv)
    if not compute_uv:
        return svdvals(x if x.dtype is dtype else o.to_dtype(x, dtype))
    rows, columns = x.shape[-2:]
    packed = bind(factorizations.svd, (x,), {"full": full_matrices})
    count = min(rows, columns)
    values, u, v = packed[..., 0, :count], packed[..., 1 : rows + 1, :], packed[..., rows + 1 :, :]
    if full_matrices:
        u, v = u[..., :rows], v[..., :columns]
    vh = conjugate(matrix_transpose(v))
    return SVDResult(o.to_dtype(u, dtype), _real(values, dtype), o.to_dtype(vh, dtype))


def _hermitian_svd(x: Array, dtype: dtypes.DType, compute_uv: bool) -> Any:
    values, vectors = eigh(x)
    # The singular values are the eigenvalues' moduli, which fall from both ends of the rising order.
    sizes = absolute(values)
    if not compute_uv:
        return (
            o.to_dtype(sort(sizes, descending=True), dtype)
            if dtypes.is_float(dtype)
            else sort(sizes, descending=True)
        )
    order = argsort(sizes, descending=True)
    values, sizes = take_along_axis(values, order), take_along_axis(sizes, order)
    vectors = take_along_axis(vectors, expand_dims(order, -2))
    signs = cast(where(values < 0, -1, 1), vectors.dtype)
    left = multiply(vectors, expand_dims(signs, -2))
    vh = conjugate(matrix_transpose(vectors))
    real = sizes if dtypes.kind(dtype) == "complex" else o.to_dtype(sizes, dtype)
    return SVDResult(o.to_dtype(left, dtype), real, o.to_dtype(vh, dtype))


def svdvals(x: ArrayLike, /) -> Array:
    """The singular values of matrices of shape (..., m, n), falling: real numbers of shape (..., min(m, n)).

    >>> linalg.svdvals(tnp.array([[3.0, 0.0], [0.0, -4.0]]))
    Array([4., 3.], dtype=float32)
    """
    a, dtype = matrices(x, "svdvals")
    return _real(bind(factorizations.svd, (a,), {"full": False})[..., 0, :], dtype)


def eig(a: ArrayLike) -> EigResult:
    """The complex eigenvalues of square matrices, of shape (..., n), and the eigenvectors of norm 1, as columns: (..., n, n).

    Derivatives need distinct eigenvalues; those of eigenvectors hold up to their phase.

    >>> values, vectors = linalg.eig(tnp.array([[2.0, 0.0], [0.0, 3.0]]))
    >>> values
    Array([2.+0.j, 3.+0.j], dtype=complex64)
    >>> vectors.shape
    (2, 2)
    """
    packed = bind(factorizations.eig, (matrices(a, "eig", square=True)[0],), {})
    return EigResult(packed[..., 0, :], packed[..., 1:, :])


def eigvals(a: ArrayLike) -> Array:
    """The complex eigenvalues of square matrices, of shape (..., n).

    >>> linalg.eigvals(tnp.array([[0.0, -1.0], [1.0, 0.0]])).imag.sort()
    Array([-1.,  1.], dtype=float32)
    """
    result: Array = bind(factorizations.eig, (matrices(a, "eigvals", square=True)[0],), {})[..., 0, :]
    return result


def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """The eigenvalues of (a + a^H) / 2, rising, of shape (..., n), and the eigenvectors as columns, of shape (..., n, n).

    UPLO="L" or "U" reads the lower or the upper triangle only. Derivatives of the eigenvectors need distinct eigenvalues.

    >>> values, vectors = linalg.eigh(tnp.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> values.round(3)
    Array([1., 3.], dtype=float32)
    >>> (vectors * values @ vectors.T).round(3)
    Array([[2., 1.],
           [1., 2.]], dtype=float32)
    """
    x, dtype = matrices(a, "eigh", square=True)
    packed = bind(factorizations.eigh, (hermitian(x, UPLO),), {})
    return EighResult(_real(packed[..., 0, :], dtype), o.to_dtype(packed[..., 1:, :], dtype))


def eigvalsh(a: ArrayLike, UPLO: str | None = None, *, symmetrize_input: bool = True) -> Array:
    """The eigenvalues of (a + a^H) / 2, rising, of shape (..., n); UPLO as for `eigh`.

    >>> linalg.eigvalsh(tnp.array([[3.0, 0.0], [0.0, -1.0]]))
    Array([-1.,  3.], dtype=float32)
    """
    x, dtype = matrices(a, "eigvalsh", square=True)
    return _real(bind(factorizations.eigh, (hermitian(x, UPLO),), {})[..., 0, :], dtype)


def hermitian(x: Array, which: str | None, conjugated: bool = True) -> Array:
    """The Hermitian matrix (symmetric, without `conjugated`) whose lower ("L") or upper ("U") triangle is that of x."""
    if which is None:
        return x
    if which not in ("L", "U"):
        raise ValueError(f"eigh: UPLO must be 'L' or 'U', not {which!r}{at_user()}")
    half, rest = (tril(x), tril(x, -1)) if which == "L" else (triu(x), triu(x, 1))
    return half + matrix_transpose(conjugate(rest) if conjugated else rest)


def matrix_rank(
    x: ArrayLike, tol: ArrayLike | None = None, hermitian: bool = False, *, rtol: ArrayLike | None = None
) -> Array:
    """The number of singular values above `tol`, or above `rtol` times the greatest, as int32, of shape (...).

    rtol is max(m, n) times the dtype's eps, if neither is given. The rank of a vector is 1, or 0 if all its elements are 0.

    >>> linalg.matrix_rank(tnp.array([[1.0, 2.0], [2.0, 4.0]]))
    Array(1, dtype=int32)
    >>> linalg.matrix_rank(tnp.diag(tnp.array([1.0, 0.01])), tol=0.1)
    Array(1, dtype=int32)
    """
    if inexact(x, "matrix_rank").ndim < 2:
        return cast(any_(not_equal(x, 0)), dtypes.int32)
    a, dtype = matrices(x, "matrix_rank")
    values = svd(a, compute_uv=False, hermitian=hermitian)
    limit: Any
    if tol is not None:
        limit = expand_dims(o.operand(tol), -1)
    else:
        limit = multiply(_greatest(values), _share(a, rtol, dtype))
    return sum_(values > limit, -1, dtypes.int32)


def _greatest(values: Array) -> Array:
    return max_(values, -1, keepdims=True, initial=0)


def _share(a: Array, rtol: ArrayLike | None, dtype: dtypes.DType) -> Any:
    """rtol with an axis for the singular values, or its default."""
    if rtol is not None:
        return expand_dims(o.operand(rtol), -1)
    return float(finfo(dtype).eps) * max(a.shape[-2:])


def pinv(
    a: ArrayLike, rtol: ArrayLike | None = None, hermitian: bool = False, *, rcond: ArrayLike | None = None
) -> Array:
    """The pseudo-inverse (Moore-Penrose) of matrices of shape (..., m, n), of shape (..., n, m).

    Singular values that are not above `rtol` (max(m, n) times eps) times the greatest count as 0.

    >>> linalg.pinv(tnp.array([[2.0, 0.0], [0.0, 0.0], [0.0, 4.0]])).round(3)
    Array([[0.5 , 0.  , 0.  ],
           [0.  , 0.  , 0.25]], dtype=float32)
    """
    x, dtype = matrices(a, "pinv")
    u, s, vh = svd(x, full_matrices=False, hermitian=hermitian)
    counts = s > multiply(_greatest(s), _share(x, rcond if rtol is None else rtol, dtype))
    inverse = where(counts, 1 / where(counts, s, 1), 0)
    left = multiply(conjugate(matrix_transpose(vh)), expand_dims(cast(inverse, vh.dtype), -2))
    return o.to_dtype(o.matmul(left, conjugate(matrix_transpose(u))), dtype)


__all__ = [
    "EigResult", "EighResult", "QRResult", "SVDResult", "cholesky", "eig", "eigh", "eigvals", "eigvalsh",
    "matrices", "matrix_rank", "pinv", "qr", "svd", "svdvals",
]  # fmt: skip
