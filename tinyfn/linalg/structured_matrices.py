"""Matrices of a form: Toeplitz, Hankel, block diagonal, and others that a few numbers determine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..numpy.arithmetic import divide
from ..numpy.common import ArrayLike, at_user, concatenate_arrays, described, inexact, iota, operand, promoted
from ..numpy.conversion import array
from ..numpy.creation import eye
from ..numpy.floats import conjugate
from ..numpy.indexing import take
from ..numpy.padding import pad
from ..numpy.shapes import atleast_2d
from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace.array import Array


def _vector(x: Any, what: str) -> Array:
    found = array(x) if isinstance(x, (list, tuple)) else operand(x, what)
    if found.ndim == 0:
        raise ValueError(f"{what} takes a vector, not {described(found)}{at_user()}")
    return found


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix with first column c and first row r (the conjugate of c; r[0] is not read) that is constant along diagonals.

    Of shape (..., len(c), len(r)); both may have leading axes, which are broadcast.

    >>> from tinyfn.scipy.linalg import toeplitz
    >>> toeplitz(tnp.array([1, 2, 3]), tnp.array([1, 8, 9]))
    Array([[1, 8, 9],
           [2, 1, 8],
           [3, 2, 1]], dtype=int32)
    """
    column = _vector(c, "toeplitz")
    row = conjugate(column) if r is None else _vector(r, "toeplitz")
    column, row = promoted(column, row)
    i, j = _places(column.shape[-1], row.shape[-1])
    return take(_joined(column[..., ::-1], row[..., 1:]), j - i + (column.shape[-1] - 1), -1, mode="clip")


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix with first column c and last row r (zeros; r[0] is not read) that is constant along antidiagonals.

    Of shape (..., len(c), len(r)); both may have leading axes, which are broadcast.

    >>> from tinyfn.scipy.linalg import hankel
    >>> hankel(tnp.array([1, 2, 3]), tnp.array([3, 8, 9]))
    Array([[1, 2, 3],
           [2, 3, 8],
           [3, 8, 9]], dtype=int32)
    """
    column = _vector(c, "hankel")
    row = column * 0 if r is None else _vector(r, "hankel")
    column, row = promoted(column, row)
    i, j = _places(column.shape[-1], row.shape[-1])
    return take(_joined(column, row[..., 1:]), i + j, -1, mode="clip")


def _joined(x: Array, y: Array) -> Array:
    """Vectors in the last axis, joined; other axes are broadcast."""
    lead = o.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    return concatenate_arrays([o.broadcast_to(v, (*lead, v.shape[-1])) for v in (x, y)], len(lead))


def _places(rows: int, columns: int) -> list[Array]:
    """The number of its row and of its column at each element."""
    return [iota(dtypes.int32, (rows, columns), axis) for axis in (0, 1)]


def circulant(c: ArrayLike) -> Array:
    """The matrix whose column i is c moved down by i places, those at the end coming first: of shape (..., n, n).

    >>> from tinyfn.scipy.linalg import circulant
    >>> circulant(tnp.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    column = _vector(c, "circulant")
    n = column.shape[-1]
    i, j = _places(n, n)
    return take(column, (i - j) % max(n, 1), -1, mode="clip")


def block_diag(*arrs: ArrayLike) -> Array:
    """Matrices one after another along the diagonal, and zeros elsewhere; vectors are matrices of one row.

    >>> from tinyfn.scipy.linalg import block_diag
    >>> block_diag(tnp.array([[1, 2], [3, 4]]), tnp.array([5]))
    Array([[1, 2, 0],
           [3, 4, 0],
           [0, 0, 5]], dtype=int32)
    """
    if not arrs:
        raise ValueError(f"block_diag takes a matrix or more{at_user()}")
    blocks = [
        atleast_2d(x) for x in promoted(*[array(a) if isinstance(a, (list, tuple)) else a for a in arrs])
    ]
    if any(b.ndim > 2 for b in blocks):
        raise ValueError(f"block_diag takes matrices, not {described(*blocks)}{at_user()}")
    width, rows, before = sum([b.shape[1] for b in blocks]), [], 0
    for block in blocks:
        rows.append(pad(block, ((0, 0), (before, width - before - block.shape[1]))))
        before += block.shape[1]
    return concatenate_arrays(rows, 0)


def companion(a: ArrayLike) -> Array:
    """The companion matrix of a polynomial, its highest power first, whose eigenvalues are the roots.

    Of shape (n - 1, n - 1) for n coefficients; raises ValueError if there are fewer than 2.

    >>> from tinyfn.scipy.linalg import companion
    >>> companion(tnp.array([1.0, -3.0, 2.0]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    p = _vector(a, "companion")
    n = p.shape[-1]
    if p.ndim != 1 or n < 2:
        raise ValueError(
            f"companion takes a vector of at least 2 coefficients, not {described(p)}{at_user()}"
        )
    first = inexact(-p[1:] / p[0], "companion")
    return concatenate_arrays([first[None, :], eye(n - 2, n - 1, dtype=first.dtype)], 0)


def hilbert(n: int) -> Array:
    """The Hilbert matrix: 1 / (i + j + 1) at row i and column j, of shape (n, n), float32.

    >>> from tinyfn.scipy.linalg import hilbert
    >>> hilbert(2)
    Array([[1.        , 0.5       ],
           [0.5       , 0.33333334]], dtype=float32)
    """
    i, j = _places(n, n)
    return divide(1, i + j + 1)


def dft(n: int, scale: str | None = None) -> Array:
    """The matrix (n, n) of the discrete Fourier transform, complex64; `scale` "sqrtn" divides it by the root of n, "n" by n.

    >>> from tinyfn.scipy.linalg import dft
    >>> dft(2).real
    Array([[ 1.,  1.],
           [ 1., -1.]], dtype=float32)
    """
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"dft: scale must be None, 'sqrtn' or 'n', not {scale!r}{at_user()}")
    turns = np.outer(np.arange(n), np.arange(n)) % max(n, 1)
    by = {None: 1.0, "sqrtn": math.sqrt(n), "n": float(n)}[scale]
    return array((np.exp(-2j * np.pi * turns / max(n, 1)) / by).astype(np.complex64))


def hadamard(n: int, dtype: Any = int) -> Array:
    """The Hadamard matrix of n rows, a power of 2: of ones and minus ones, with orthogonal rows (Sylvester's construction).

    int32 if no dtype is given; raises ValueError for another n.

    >>> from tinyfn.scipy.linalg import hadamard
    >>> hadamard(4)
    Array([[ 1,  1,  1,  1],
           [ 1, -1,  1, -1],
           [ 1,  1, -1, -1],
           [ 1, -1, -1,  1]], dtype=int32)
    """
    if n < 1 or n & (n - 1):
        raise ValueError(f"hadamard: n={n} must be a power of 2{at_user()}")
    both = np.bitwise_count(np.arange(n)[:, None] & np.arange(n)) & 1
    return array(1 - 2 * both.astype(np.int32), dtypes.canonical(dtype))


__all__ = ["block_diag", "circulant", "companion", "dft", "hadamard", "hankel", "hilbert", "toeplitz"]
