"""Linear algebra with the names of `jax.lax.linalg`: triangular systems and factors."""

from __future__ import annotations

from .. import linalg
from ..linalg import triangular
from ..linalg.triangular import lu_pivots_to_permutation
from ..numpy.common import ArrayLike, operand
from ..numpy.floats import conjugate
from ..numpy.shapes import matrix_transpose
from ..trace.array import Array


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


__all__ = ["cholesky", "lu", "lu_pivots_to_permutation", "triangular_solve"]
