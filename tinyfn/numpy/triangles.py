"""Triangles and diagonals of matrices."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from ..trace.index import reshape as reshaped
from ..trace.indexing import AtIndex
from .common import (
    ArrayLike,
    at_user,
    axes_of,
    bind,
    check_not_in_place,
    described,
    integer,
    iota,
    no_out,
    operand,
    permute,
    slice_axis,
)
from .creation import on_or_below
from .logic import where
from .rearranging import resize
from .reductions import sum as sum_
from .shapes import ravel


def _triangle(m: Any, k: int, what: str) -> tuple[Array, Array]:
    x = operand(m, what)
    if x.ndim < 2:
        raise ValueError(f"{what} needs 2 axes or more, not {described(x)}{at_user()}")
    return x, o.broadcast_to(on_or_below(x.shape[-2:], k), x.shape)


def tril(m: ArrayLike, k: int = 0) -> Array:
    """The matrices with zeros above the k-th diagonal.

    >>> tnp.tril(tnp.ones((3, 3)), k=-1)
    Array([[0., 0., 0.],
           [1., 0., 0.],
           [1., 1., 0.]], dtype=float32)
    """
    x, below = _triangle(m, k, "tril")
    return where(below, x, o.scalar(0, x.dtype))


def triu(m: ArrayLike, k: int = 0) -> Array:
    """The matrices with zeros below the k-th diagonal.

    >>> tnp.triu(tnp.array([[1, 2], [3, 4]]))
    Array([[1, 2],
           [0, 4]], dtype=int32)
    """
    x, below = _triangle(m, k - 1, "triu")
    return where(below, o.scalar(0, x.dtype), x)


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The elements whose position on axis2 is that on axis1 plus `offset`, as a new last axis.

    >>> tnp.diagonal(tnp.array([[1, 2, 3], [4, 5, 6]]), 1)
    Array([2, 6], dtype=int32)
    >>> tnp.diagonal(tnp.zeros((3, 3, 5))).shape
    (5, 3)
    """
    x = operand(a, "diagonal")
    if x.ndim < 2:
        raise ValueError(f"diagonal needs 2 axes or more, not {described(x)}{at_user()}")
    first, second = axes_of((axis1, axis2), x.ndim, "diagonal")
    x = permute(x, [*[i for i in range(x.ndim) if i not in (first, second)], first, second])
    rows, columns = x.shape[-2:]
    count = builtins.max(
        builtins.min(rows, columns - offset) if offset >= 0 else builtins.min(rows + offset, columns), 0
    )
    if offset >= 0:
        block = slice_axis(
            slice_axis(x, x.ndim - 2, 0, count),
            x.ndim - 1,
            builtins.min(offset, columns),
            builtins.min(offset, columns) + count,
        )
    else:
        start = builtins.min(-offset, rows)
        block = slice_axis(slice_axis(x, x.ndim - 2, start, start + count), x.ndim - 1, 0, count)
    # The diagonal of a square, in row-major order, is every (count + 1)-th element.
    flat = reshaped(block, (*block.shape[:-2], count * count))
    return slice_axis(flat, flat.ndim - 1, 0, count * count, count + 1) if count else flat


def diag(v: ArrayLike, k: int = 0) -> Array:
    """The k-th diagonal of a matrix, or a matrix with a 1-d array there and zeros elsewhere.

    >>> tnp.diag(tnp.array([1, 2]), k=1)
    Array([[0, 1, 0],
           [0, 0, 2],
           [0, 0, 0]], dtype=int32)
    >>> tnp.diag(tnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    x = operand(v, "diag")
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError(f"diag takes 1 or 2 axes, not {described(x)}{at_user()}")
    k = integer(k, "diag", "k")
    n, gap = x.shape[0], abs(k)
    # The reverse of `diagonal`: the elements lie n + 1 apart in a square, with zeros between them.
    zero = o.scalar(0, x.dtype)
    if n == 0:
        return o.broadcast_to(zero, (gap, gap))
    flat = bind(prims.pad, (x, zero), {"low": (0,), "high": (0,), "interior": (n,)})
    square = reshaped(flat, (n, n))
    below, above = builtins.max(-k, 0), builtins.max(k, 0)
    return bind(
        prims.pad, (square, zero), {"low": (below, above), "high": (above, below), "interior": (0, 0)}
    )


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """A matrix with the raveled elements on its k-th diagonal and zeros elsewhere.

    >>> tnp.diagflat(tnp.array([[1], [2]]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    return diag(ravel(v), k)


def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True) -> Array:
    """The array with its main diagonal replaced by `val`, repeated as needed; it needs inplace=False, since arrays do not change.

    With `wrap` a tall matrix has another diagonal after each one, a row between them.

    >>> tnp.fill_diagonal(tnp.zeros((2, 3)), 5, inplace=False)
    Array([[5., 0., 0.],
           [0., 5., 0.]], dtype=float32)
    """
    check_not_in_place(inplace, "fill_diagonal")
    x = operand(a, "fill_diagonal")
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ValueError(
            f"fill_diagonal takes a matrix, or an array whose axes have one size, not {described(x)}{at_user()}"
        )
    # The diagonal is every so many elements of the flat array; a tall matrix has columns + 1 rows for each turn.
    step = 1 + sum([int(np.prod(x.shape[i + 1 :])) for i in range(x.ndim - 1)])
    end = x.size if wrap or x.ndim > 2 else builtins.min(x.size, x.shape[1] * x.shape[1])
    positions = np.arange(0, end, step)
    flat, values = reshaped(x, (x.size,)), operand(val, "fill_diagonal")
    return reshaped(AtIndex(flat, positions).set(resize(values, (len(positions),))), x.shape)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Row and column positions of the elements on and below the k-th diagonal of an n x m matrix.

    >>> tnp.tril_indices(2)
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    rows, columns = np.tril_indices(n, k, m)
    return o.operand(rows.astype(np.int32)), o.operand(columns.astype(np.int32))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Row and column positions of the elements on and above the k-th diagonal of an n x m matrix.

    >>> tnp.triu_indices(2, k=1, m=3)
    (Array([0, 0, 1], dtype=int32), Array([1, 2, 2], dtype=int32))
    """
    rows, columns = np.triu_indices(n, k, m)
    return o.operand(rows.astype(np.int32)), o.operand(columns.astype(np.int32))


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The positions of the main diagonal of an array with `ndim` axes of size n.

    >>> tnp.diag_indices(3)
    (Array([0, 1, 2], dtype=int32), Array([0, 1, 2], dtype=int32))
    """
    return (iota(dtypes.int32, (n,), 0),) * ndim


def trace(
    a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
) -> Array:
    """The sum along a diagonal, over the two axes: of shape () for a matrix; bools and small integers are added up in int32.

    >>> tnp.trace(tnp.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    >>> tnp.trace(tnp.ones((2, 2, 5))).shape
    (5,)
    """
    no_out("trace", out)
    return sum_(diagonal(a, offset, axis1, axis2), -1, dtype)
