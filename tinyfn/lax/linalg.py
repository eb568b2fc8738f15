"""Linear algebra with the names of `jax.lax.linalg`: factors of matrices, and systems with a triangle or three diagonals."""

from __future__ import annotations

from typing import Any

from .. import linalg
from ..linalg import triangular
from ..linalg.triangular import lu_pivots_to_permutation
from ..numpy.common import ArrayLike, operand
from ..numpy.floats import conjugate
from ..numpy.shapes import matrix_transpose
from ..trace.array import Array
from ..trace.dtype import is_inexact
from ..trace.errors import entry_points, user_line
from ..trace.prims.movement import move_axis
from .arguments import described, of_one_dtype
from .elementwise import select
from .loops import scan
from .movement import broadcasted_iota, expand_dims, full_like


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with (x + x^H) / 2 = L L^H; without `symmetrize_input` the lower triangle of x alone is read.

    >>> lax.linalg.cholesky(tnp.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    >>> lax.linalg.cholesky(tnp.array([[4.0, 9.0], [2.0, 5.0]]), symmetrize_input=False)
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    return linalg.cholesky(x, symmetrize_input=symmetrize_input)


def eigh(x: ArrayLike, *, lower: bool = True, symmetrize_input: bool = True) -> tuple[Array, Array]:
    """The eigenvectors, as columns, and the real eigenvalues in rising order of Hermitian matrices (..., n, n): in this order.

    Without `symmetrize_input` the lower (or upper) triangle alone is read. See `tinyfn.linalg.eigh`.

    >>> vectors, values = lax.linalg.eigh(tnp.array([[2.0, 0.0], [0.0, 1.0]]))
    >>> values, abs(vectors)
    (Array([1., 2.], dtype=float32), Array([[0., 1.],
           [1., 0.]], dtype=float32))
    """
    values, vectors = linalg.eigh(x, "L" if lower else "U", symmetrize_input)
    return vectors, values


def qr(x: ArrayLike, *, full_matrices: bool = True) -> tuple[Array, Array]:
    """Q with orthonormal columns and the upper triangle R of x = Q R, (..., m, n): Q is (..., m, m) and R (..., m, n).

    With `full_matrices=False` they are (..., m, k) and (..., k, n), k being the least of m and n. See `tinyfn.linalg.qr`.

    >>> q, r = lax.linalg.qr(tnp.ones((5, 3)), full_matrices=False)
    >>> q.shape, r.shape
    ((5, 3), (3, 3))
    """
    q, r = linalg.qr(x, "complete" if full_matrices else "reduced")
    return q, r


def svd(x: ArrayLike, *, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """U, the singular values in falling order, and V^H of x = U S V^H, (..., m, n); without `compute_uv` the values alone.

    With `full_matrices=False` U is (..., m, k) and V^H (..., k, n), k being the least of m and n. See `tinyfn.linalg.svd`.

    >>> u, s, vh = lax.linalg.svd(tnp.diag(tnp.array([1.0, 3.0, 2.0]))[:, :2], full_matrices=False)
    >>> u.shape, s, vh.shape
    ((3, 2), Array([3., 1.], dtype=float32), (2, 2))
    """
    result = linalg.svd(x, full_matrices, compute_uv)
    return tuple(result) if compute_uv else result


def tridiagonal_solve(dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike) -> Array:
    """The x with A x = b, (..., n, k), for matrices A with the diagonals dl[..., 1:], d and du[..., :-1], all three (..., n).

    By elimination without pivoting, as is stable where each of d outweighs its neighbours (S. D. Conte and C. de Boor,
    "Elementary numerical analysis", 1972), in n steps. Raises TypeError or ValueError for dtypes or shapes that do not fit.

    >>> dl, d, du = tnp.array([0.0, 1.0, 1.0]), tnp.array([4.0, 4.0, 4.0]), tnp.array([1.0, 1.0, 0.0])
    >>> lax.linalg.tridiagonal_solve(dl, d, du, tnp.array([[5.0], [6.0], [5.0]])).ravel()
    Array([1., 1., 1.], dtype=float32)
    """
    *diagonals, right = of_one_dtype("linalg.tridiagonal_solve", dl, d, du, b)
    shape = diagonals[0].shape
    if right.ndim < 2 or any(x.shape != right.shape[:-1] for x in diagonals) or not is_inexact(right.dtype):
        raise ValueError(
            "lax.linalg.tridiagonal_solve needs three diagonals of floats (..., n) and b (..., n, k), not "
            f"{described([*diagonals, right])}; at {user_line()}"
        )
    n, axis = shape[-1], len(shape) - 1
    # There is nothing before the first row, and nothing after the last one.
    places = broadcasted_iota("int32", shape, axis)
    zero = full_like(diagonals[0], 0)
    below, above = select(places > 0, diagonals[0], zero), select(places < n - 1, diagonals[2], zero)
    rows = [move_axis(expand_dims(v, (axis + 1,)), axis, 0) for v in (below, diagonals[1], above)]

    def eliminate(before: Any, row: Any) -> Any:
        (low, mid, up, value), (ratio, reduced) = row, before
        pivot = mid - low * ratio
        after = up / pivot, (value - low * reduced) / pivot
        return after, after

    def substitute(after: Array, row: Any) -> Any:
        ratio, reduced = row
        x = reduced - ratio * after
        return x, x

    values = move_axis(right, axis, 0)
    nothing = full_like(values, 0, shape=values.shape[1:])
    start = full_like(rows[0], 0, shape=rows[0].shape[1:]), nothing
    _, eliminated = scan(eliminate, start, (*rows, values))
    _, result = scan(substitute, nothing, eliminated, reverse=True)
    solution: Array = move_axis(result, 0, axis)
    return solution


def lu(x: ArrayLike) -> tuple[Array, Array, Array]:
    """The LU factors in one array of x's shape (..., m, n), the row that each row was exchanged with, and the rows' new order.

    >>> lax.linalg.lu(tnp.array([[1.0, 2.0], [2.0, 8.0]]))
    (Array([[ 2. ,  8. ],
           [ 0.5, -2. ]], dtype=float32), Array([1, 1], dtype=int32), Array([1, 0], dtype=int32))
    """
    return triangular.packed_lu(x, "lu")


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """The x with op(t) x = b (`left_side`) or x op(t) = b, for the upper (or lower) triangle t of `a`.

    op transposes, conjugates, or leaves t as it is. `a` has shape (..., n, n), b and the result (..., n, k) or (..., k, n).

    >>> a, b = tnp.array([[2.0, 1.0], [0.0, 4.0]]), tnp.array([[4.0], [8.0]])
    >>> lax.linalg.triangular_solve(a, b, left_side=True)
    Array([[1.],
           [2.]], dtype=float32)
    >>> lax.linalg.triangular_solve(a, b.T)
    Array([[2. , 1.5]], dtype=float32)
    >>> lax.linalg.triangular_solve(a, b, left_side=True, transpose_a=True)
    Array([[2. ],
           [1.5]], dtype=float32)
    """
    matrix, right = operand(a, "triangular_solve"), operand(b, "triangular_solve")
    if conjugate_a:
        matrix = conjugate(matrix)
    if left_side:
        return triangular.solve_triangular(matrix, right, int(transpose_a), lower, unit_diagonal)
    # x op(t) = b is op(t)^T x^T = b^T.
    turned = matrix_transpose(right)
    return matrix_transpose(
        triangular.solve_triangular(matrix, turned, int(not transpose_a), lower, unit_diagonal)
    )


__all__ = [
    "cholesky",
    "eigh",
    "lu",
    "lu_pivots_to_permutation",
    "qr",
    "svd",
    "triangular_solve",
    "tridiagonal_solve",
]

entry_points(globals())
