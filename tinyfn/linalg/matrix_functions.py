"""Functions of square matrices in the last two axes (exponential, square root), and the polar decomposition."""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np

from ..lax.branches import cond
from ..lax.loops import fori_loop
from ..numpy.arithmetic import absolute, maximum
from ..numpy.common import ArrayLike, at_user, cast, operand
from ..numpy.creation import eye
from ..numpy.elementary import log2, sqrt
from ..numpy.floats import ceil, conjugate
from ..numpy.logic import greater, less, where
from ..numpy.reductions import max as max_
from ..numpy.reductions import sum as sum_
from ..numpy.shapes import expand_dims, matrix_transpose
from ..numpy.triangles import triu
from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace.array import Array
from ..transforms import jvp
from .decompositions import eig, matrices, svd
from .systems import solve

# N. Higham, "The scaling and squaring method for the matrix exponential revisited" (2005), tables 2.3 and 3.1: the degree of the
# Padé approximant, and the norm up to which its backward error is below the unit roundoff.
_PADE = {np.dtype(np.float32): (7, 3.925724783138660), np.dtype(np.float64): (13, 5.371920351148152)}


def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """The exponential of square matrices, of A's shape (..., n, n).

    By scaling, a Padé approximant, and squaring (N. Higham, 2005): NaN for a matrix that would take more than `max_squarings`.
    With `upper_triangular` what is below the diagonal is not read.

    >>> from tinyfn.scipy.linalg import expm
    >>> expm(tnp.array([[0.0, 2.0], [0.0, 0.0]]))
    Array([[1., 2.],
           [0., 1.]], dtype=float32)
    """
    x, dtype = matrices(A, "expm", square=True)
    if upper_triangular:
        x = triu(x)
    size = absolute(x)
    degree, limit = _PADE[size.dtype]
    norm = max_(sum_(size, -2), -1, initial=0)
    # The number of halvings after which the norm is within the limit; of infinite and NaN norms, none.
    ratio = maximum(norm / limit, 1.0)
    finite = less(ratio, float("inf"))
    squarings = cast(ceil(log2(where(finite, ratio, 1.0))), dtypes.int32)
    scale = o.power(cast(2, size.dtype), cast(-o.elementwise_where(finite, squarings, 0), size.dtype))
    result = _pade(x * cast(expand_dims(scale, (-2, -1)), x.dtype), degree)
    most = max_(squarings, initial=0)

    def square(i: Any, value: Array) -> Array:
        # Once no matrix of the batch needs it, nothing is done.
        def one(value: Array) -> Array:
            return where(expand_dims(greater(squarings, i), (-2, -1)), o.matmul(value, value), value)

        squared: Array = cond(less(i, most), one, lambda value: value, value)
        return squared

    result = fori_loop(0, max_squarings, square, result)
    within = less(squarings, max_squarings + 1)
    result = where(expand_dims(o.bitwise_and(within, finite), (-2, -1)), result, float("nan"))
    return o.to_dtype(result, dtype)


def _pade(x: Array, degree: int) -> Array:
    """The diagonal Padé approximant of the exponential: the even terms and the odd ones give numerator and denominator."""
    terms = [
        factorial(2 * degree - i)
        * factorial(degree)
        / (factorial(2 * degree) * factorial(i) * factorial(degree - i))
        for i in range(degree + 1)
    ]
    unit = o.broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape)
    square = o.matmul(x, x)
    # By powers of x^2, as in section 2 of the paper: x^2, x^4, x^6, and their products with x^6.
    powers = [unit, square]
    while len(powers) < min(degree // 2, 3) + 1:
        powers.append(o.matmul(powers[-1], square))

    def polynomial(coefficients: list[float]) -> Array:
        low = sum([powers[i] * c for i, c in enumerate(coefficients[:4])][1:], powers[0] * coefficients[0])
        rest = coefficients[4:]
        if not rest:
            return low
        high = sum([powers[i + 1] * c for i, c in enumerate(rest)][1:], powers[1] * rest[0])
        return low + o.matmul(powers[3], high)

    even, odd = polynomial(terms[0::2]), o.matmul(x, polynomial(terms[1::2]))
    return solve(even - odd, even + odd)


def expm_frechet(A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """The exponential of A and its derivative in the direction E, or (without `compute_expm`) the derivative alone.

    >>> from tinyfn.scipy.linalg import expm_frechet
    >>> value, derivative = expm_frechet(tnp.zeros((2, 2)), tnp.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> value
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    >>> derivative
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    x, direction = (matrices(m, "expm_frechet", square=True)[0] for m in (A, E))
    if x.shape != direction.shape:
        raise ValueError(f"expm_frechet: A and E have shapes {x.shape} and {direction.shape}{at_user()}")
    value, tangent = jvp(expm, (x,), (cast(direction, x.dtype),))
    return (value, tangent) if compute_expm else tangent


def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """The principal square root of square matrices, complex, of A's shape.

    By eigenvectors, so that the matrix must have n of them: a defective one gives inaccurate results or NaN.

    >>> from tinyfn.scipy.linalg import sqrtm
    >>> sqrtm(tnp.array([[4.0, 0.0], [0.0, -9.0]]))
    Array([[2.+0.j, 0.+0.j],
           [0.+0.j, 0.+3.j]], dtype=complex64)
    """
    values, vectors = eig(A)
    return o.matmul(vectors * expand_dims(sqrt(values), -2), _inverse(vectors))


def _inverse(x: Array) -> Array:
    return solve(x, o.broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape))


def polar(a: ArrayLike, side: str = "right") -> tuple[Array, Array]:
    """(U, P) with a = U P (side="right") or a = P U ("left"): U has orthonormal columns or rows, P is positive semidefinite.

    >>> from tinyfn.scipy.linalg import polar
    >>> u, p = polar(tnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    >>> u.shape, p.shape
    ((3, 2), (2, 2))
    >>> (u @ p).round(3)
    Array([[1., 2.],
           [3., 4.],
           [5., 6.]], dtype=float32)
    """
    if side not in ("right", "left"):
        raise ValueError(f"polar: side must be 'right' or 'left', not {side!r}{at_user()}")
    u, s, vh = svd(operand(a, "polar"), full_matrices=False)
    basis = matrix_transpose(conjugate(vh)) if side == "right" else u
    positive = o.matmul(basis * cast(expand_dims(s, -2), basis.dtype), matrix_transpose(conjugate(basis)))
    return o.matmul(u, vh), positive


__all__ = ["expm", "expm_frechet", "polar", "sqrtm"]
