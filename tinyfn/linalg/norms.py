"""Norms and products of vectors and matrices."""

from __future__ import annotations

from string import ascii_letters
from typing import Any

import numpy as np

from ..numpy import contraction, reductions, sums_of_products, triangles
from ..numpy.arithmetic import absolute, power, square
from ..numpy.common import (
    ArrayLike,
    Axis,
    at_user,
    axes_of,
    axis_of,
    cast,
    described,
    inexact,
    keep_axes,
    operand,
    permute,
)
from ..numpy.contraction import matmul, tensordot, vecdot
from ..numpy.creation import eye
from ..numpy.elementary import sqrt
from ..numpy.logic import bitwise_and, equal, isnan, logical_not, where
from ..numpy.shapes import matrix_transpose
from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace.array import Array
from ..trace.index import reshape
from ..trace.sint import is_symbolic
from .decompositions import matrices, svdvals
from .systems import inv

__all__ = [
    "cond",
    "cross",
    "diagonal",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


def norm(x: ArrayLike, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Array:
    """The norm of vectors (one axis) or matrices (two); without `ord` and `axis`, of all elements: sqrt(sum(x²)).

    Its derivative at 0 is 0. Raises ValueError for an `ord` that there is not. Integers become float32, and complex numbers count
    by their modulus.

    >>> x = tnp.array([[3.0, 4.0], [6.0, 8.0]])
    >>> linalg.norm(x, axis=1)
    Array([ 5., 10.], dtype=float32)
    >>> linalg.norm(x, ord=1), linalg.norm(x[0], ord=tnp.inf)
    (Array(12., dtype=float32), Array(4., dtype=float32))
    """
    array = inexact(x, "norm")
    if ord is None:
        return _euclidean(array, axes_of(axis, array.ndim, "norm"), keepdims)
    if axis is None:
        if array.ndim not in (1, 2):
            raise ValueError(f"norm of {described(array)} with ord={ord!r} needs `axis`{at_user()}")
        axes: tuple[int, ...] = tuple(range(array.ndim))
    else:
        axes = axes_of(axis, array.ndim, "norm")
    if len(axes) == 1:
        return vector_norm(array, axis=axes, keepdims=keepdims, ord=ord)
    if len(axes) == 2:
        return _matrix_norm(array, ord, axes, keepdims)
    raise ValueError(f"norm over axes {axes}: with `ord` it takes one axis or two{at_user()}")


def _euclidean(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    if dtypes.kind(x.dtype) == "complex":
        x = absolute(x)
    squares = reductions.sum(square(x), axes, keepdims=keepdims)
    # The root's derivative at 0 is infinite: there the root of 1 stands in, whose derivative is not used.
    zero = equal(squares, 0)
    return where(zero, 0, sqrt(where(zero, 1, squares)))


def vector_norm(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: Any = 2) -> Array:
    """The norm of order `ord` (a number, inf, -inf, or 0: how many are not 0) over axes as one vector.

    >>> linalg.vector_norm(tnp.array([[3.0, 4.0], [6.0, 8.0]]), axis=1, keepdims=True)
    Array([[ 5.],
           [10.]], dtype=float32)
    >>> linalg.vector_norm(tnp.array([3.0, 0.0, -4.0]), ord=0)
    Array(2., dtype=float32)
    """
    array = inexact(x, "vector_norm")
    axes = axes_of(axis, array.ndim, "vector_norm")
    if ord is None or ord == 2:
        return _euclidean(array, axes, keepdims)
    if isinstance(ord, str):
        raise ValueError(f"vector_norm: there is no ord={ord!r} for vectors{at_user()}")
    if ord == float("inf"):
        return _greatest(absolute(array), axes, keepdims)
    if ord == -float("inf"):
        return reductions.min(absolute(array), axes, keepdims=keepdims)
    if ord == 0:
        return cast(reductions.count_nonzero(array, axes, keepdims), absolute(array).dtype)
    if ord == 1:
        return reductions.sum(absolute(array), axes, keepdims=keepdims)
    total = reductions.sum(power(absolute(array), float(ord)), axes, keepdims=keepdims)
    zero = equal(total, 0)
    return where(zero, 0 if ord > 0 else total, power(where(zero, 1, total), 1.0 / float(ord)))


def _greatest(sizes: Array, axes: int | tuple[int, ...], keepdims: bool = False) -> Array:
    """The greatest of numbers that are 0 or more, and 0 if there are none."""
    among = [sizes.shape[i] for i in ((axes,) if isinstance(axes, int) else axes)]
    empty = any(not is_symbolic(n) and n == 0 for n in among)
    return reductions.max(sizes, axes, keepdims=keepdims, initial=0 if empty else None)


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """The norm of the matrices in the last two axes, of shape (...): "fro", 1, -1, inf, -inf, or by singular values 2 (the
    greatest), -2 (the least) and "nuc" (their sum).

    >>> linalg.matrix_norm(tnp.array([[1.0, 2.0], [3.0, 4.0]]), ord=1)
    Array(6., dtype=float32)
    >>> linalg.matrix_norm(tnp.ones((5, 2, 2)))
    Array([2., 2., 2., 2., 2.], dtype=float32)
    """
    array = inexact(x, "matrix_norm")
    if array.ndim < 2:
        raise ValueError(f"matrix_norm needs 2 axes or more, not {described(array)}{at_user()}")
    return _matrix_norm(array, ord, (array.ndim - 2, array.ndim - 1), keepdims)


def _matrix_norm(x: Array, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Array:
    rows, columns = axes
    if ord in ("fro", None):
        return _euclidean(x, axes, keepdims)
    if ord in (2, -2, "nuc"):
        last = permute(x, [*[i for i in range(x.ndim) if i not in axes], rows, columns])
        values = svdvals(last)
        if ord == "nuc":
            total = reductions.sum(values, -1)
        else:
            total = _greatest(values, -1) if ord == 2 else reductions.min(values, -1)
        return keep_axes(total, x.shape, axes, keepdims)
    if ord not in (1, -1, float("inf"), -float("inf")):
        raise ValueError(f"norm: there is no ord={ord!r} for matrices{at_user()}")
    summed, chosen = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = reductions.sum(absolute(x), summed, keepdims=True)
    result = _greatest(sums, chosen, True) if ord > 0 else reductions.min(sums, chosen, keepdims=True)
    return result if keepdims else reshape(result, tuple([n for i, n in enumerate(x.shape) if i not in axes]))


def cond(x: ArrayLike, p: Any = None) -> Array:
    """The condition number of matrices in the norm `p` (None or 2: the greatest singular value by the least), of shape (...).

    Matrices have shape (..., m, n); norms but 2 and -2 take the inverse, of square matrices. That of a singular one is inf.

    >>> linalg.cond(tnp.diag(tnp.array([4.0, 2.0])))
    Array(2., dtype=float32)
    >>> linalg.cond(tnp.diag(tnp.array([4.0, 2.0])), "fro")
    Array(2.5, dtype=float32)
    """
    a, dtype = matrices(x, "cond")
    if p in (None, 2, -2):
        values = svdvals(a)
        result = values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    else:
        result = matrix_norm(a, ord=p) * matrix_norm(inv(a), ord=p)
    # 0 / 0, and the norm of no inverse; NaN if the matrix has NaN.
    unknown = bitwise_and(isnan(result), logical_not(reductions.any(isnan(a), (-2, -1))))
    result = where(unknown, float("inf"), result)
    return o.to_dtype(result, dtype) if dtypes.is_float(dtype) else result


def matrix_power(a: ArrayLike, n: int) -> Array:
    """Square matrices to the power n, by squaring; a negative one through the inverse.

    >>> linalg.matrix_power(tnp.array([[1, 1], [0, 1]]), 5)
    Array([[1, 5],
           [0, 1]], dtype=int32)
    >>> linalg.matrix_power(tnp.array([[2.0, 0.0], [0.0, 4.0]]), -1)
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    x = operand(a, "matrix_power")
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"matrix_power takes square matrices, not {described(x)}{at_user()}")
    if not isinstance(n, (int, np.integer)):
        raise TypeError(f"matrix_power: n must be a known integer, not {n!r}{at_user()}")
    if n < 0:
        x, n = inv(x), -n
    result = None if n else o.broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape)
    while n:
        if n & 1:
            result = x if result is None else matmul(result, x)
        n >>= 1
        if n:
            x = matmul(x, x)
    assert result is not None
    return result


def multi_dot(arrays: Any, *, precision: Any = None) -> Array:
    """The matrix product of several arrays, the cheapest pair first; the first and the last may be vectors.

    >>> linalg.multi_dot([tnp.ones((2, 30)), tnp.ones((30, 4)), tnp.ones(4)])
    Array([120., 120.], dtype=float32)
    """
    xs = [operand(a, "multi_dot") for a in arrays]
    if not xs:
        raise ValueError(f"multi_dot takes one array or more{at_user()}")
    names = ascii_letters[: len(xs) + 1]
    terms = [names[i] + names[i + 1] for i in range(len(xs))]
    if xs[0].ndim == 1:
        terms[0] = terms[0][1:]
    if xs[-1].ndim == 1:
        terms[-1] = terms[-1][:1]
    result = (names[0] if xs[0].ndim > 1 else "") + (names[-1] if xs[-1].ndim > 1 else "")
    return sums_of_products.einsum(",".join(terms) + "->" + result, *xs)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The cross product of vectors with 3 elements along an axis; raises ValueError for another size.

    >>> linalg.cross(tnp.array([1.0, 0.0, 0.0]), tnp.array([0.0, 1.0, 0.0]))
    Array([0., 0., 1.], dtype=float32)
    """
    for x in (operand(x1, "cross"), operand(x2, "cross")):
        if x.shape[axis_of(axis, x.ndim, "cross")] != 3:
            raise ValueError(f"cross of {described(x)}: axis {axis} must have 3 elements{at_user()}")
    return contraction.cross(x1, x2, axis=axis)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of each element of a vector (m,) with each of another (n,), as a matrix (m, n).

    >>> linalg.outer(tnp.array([1, 2]), tnp.array([3, 4, 5]))
    Array([[ 3,  4,  5],
           [ 6,  8, 10]], dtype=int32)
    """
    for x in (operand(x1, "outer"), operand(x2, "outer")):
        if x.ndim != 1:
            raise ValueError(f"outer takes vectors, not {described(x)}{at_user()}")
    return contraction.outer(x1, x2)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """A diagonal of the matrices in the last two axes.

    >>> linalg.diagonal(tnp.array([[1, 2], [3, 4]]), offset=1)
    Array([2], dtype=int32)
    >>> linalg.diagonal(tnp.zeros((5, 2, 3))).shape
    (5, 2)
    """
    return triangles.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sum of a diagonal of the matrices in the last two axes.

    >>> linalg.trace(tnp.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    >>> linalg.trace(tnp.zeros((5, 2, 2))).shape
    (5,)
    """
    return triangles.trace(x, offset, -2, -1, dtype)
