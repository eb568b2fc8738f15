"""LU factors with partial pivoting, of matrices in the last two axes. Imported when one of its users is.

NumPy has no LU of its own, so that the factors are computed here, for all matrices of a batch: panels of columns one column at a
time, and what is right of a panel by products of matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..prim import Sample, full, full_like, zeros_like
from ..uop import UOp
from . import lapack
from .bits import bitwise_and
from .comparison import eq, ge, gt
from .lapack import Read, Write
from .matrices import (
    Decomposition,
    _columns,
    _matrices,
    _places,
    _rows,
    product,
    transposed,
)
from .movement import broadcast, iota, reshape
from .selection import convert, where
from .slicing import concatenate
from .systems import triangular_solve

_PANEL = 32  # columns


class Lu(Decomposition):
    """The factors of matrices (..., m, n) in one array (..., m, n + 2), with L U = the matrix with its rows in another order.

    L, below the diagonal, has a diagonal of ones; U is on and above it. In column n row i has the number of the row that row i
    was exchanged with in step i, as LAPACK counts (from 0), and in the last column the number of the row that is now row i."""

    square = False

    def out(self, a: Any) -> Any:
        m, n = self.matrix(a)
        return a.dtype, (*a.shape[:-2], m, n + 2)

    def by_numpy(self, a: Any) -> Any:
        a = np.asarray(a)
        m, n = a.shape[-2:]
        count = prod(a.shape[:-2])
        lu, lanes = np.array(a).reshape(count, m, n), np.arange(count)
        order = np.tile(np.arange(m), (count, 1))
        exchanged = order.copy()
        k = min(m, n)
        for begin in range(0, k, _PANEL):
            end = min(begin + _PANEL, k)
            for c in range(begin, end):
                pivot = c + np.argmax(np.abs(lu[:, c:, c]), 1)
                exchanged[:, c] = pivot
                for rows in (lu, order):
                    rows[lanes, c], rows[lanes, pivot] = rows[lanes, pivot], rows[lanes, c]
                with np.errstate(all="ignore"):
                    # A column of zeros has no pivot, and nothing to eliminate.
                    lu[:, c + 1 :, c] /= np.where(lu[:, c, c] == 0, 1, lu[:, c, c])[:, None]
                    lu[:, c + 1 :, c + 1 : end] -= lu[:, c + 1 :, c, None] * lu[:, c, None, c + 1 : end]
            with np.errstate(all="ignore"):
                for r in range(begin + 1, end):
                    lu[:, r, end:] -= (lu[:, r, None, begin:r] @ lu[:, begin:r, end:])[:, 0]
                lu[:, end:, end:] -= lu[:, end:, begin:end] @ lu[:, begin:end, end:]
        numbers = np.stack([exchanged, order], -1).astype(a.dtype)
        return np.concatenate([lu, numbers], -1).reshape(*a.shape[:-2], m, n + 2)

    def decomposition(self, a: UOp) -> UOp | None:
        if not lapack.has(a.dtype, "getrf", "laswp"):
            return None
        m, n = a.shape[-2:]
        k = min(m, n)
        factors, pivots, _ = lapack.factors_lu(transposed(a))
        rows = iota.node(dtype=dtypes.int32, shape=(*a.shape[:-1], 1), axis=a.ndim - 2)
        numbers = convert(rows, dtype=a.dtype)
        arguments = (1, Write(0, 0), m, 1, k, Read(1), 1)
        (order,) = lapack.call("laswp", [numbers, pivots], arguments, (m, 1))
        exchanged = convert(reshape(pivots, shape=(*a.shape[:-2], k, 1)), dtype=a.dtype) - 1
        if m > k:
            exchanged = concatenate(exchanged, _rows(numbers, k, m), axis=a.ndim - 2)
        return concatenate(transposed(factors), exchanged, order, axis=a.ndim - 1)

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> UOp | None:
        # With square L and U (L filled up with the identity), A = L J U and X = L^-1 dA U^-1 = (L^-1 dL) J + J (dU U^-1),
        # where the first term is X below the diagonal, and the second the rest.
        t = tangents[0]
        assert t is not None
        m, n = t.shape[-2:]
        lu, k = _columns(out, 0, n), min(m, n)
        lower, upper = _columns(lu, 0, k), _rows(lu, 0, k)
        if m > k:
            lower = concatenate(lower, full(0, t.dtype, (*t.shape[:-1], m - k)), axis=t.ndim - 1)
        if n > k:
            upper = concatenate(upper, full(0, t.dtype, (*t.shape[:-2], n - k, n)), axis=t.ndim - 2)
        row, column = _places(lower)
        lower = where(gt(row, column), lower, full_like(lower, 0)) + where(
            eq(row, column), full_like(lower, 1), full_like(lower, 0)
        )
        row, column = _places(upper)
        rest = full_like(row, k)
        upper = where(gt(row, column), full_like(upper, 0), upper) + where(
            bitwise_and(eq(row, column), ge(row, rest)), full_like(upper, 1), full_like(upper, 0)
        )
        order = convert(reshape(_columns(out, n + 1, n + 2), shape=t.shape[:-1]), dtype=dtypes.int32)
        square = (*t.shape[:-1], m)
        chosen = eq(broadcast(order, shape=square, axes=tuple(range(t.ndim - 1))), _places(lower)[1])
        exchange = where(chosen, full(1, t.dtype, square), full(0, t.dtype, square))
        inner = triangular_solve(lower, product(exchange, t), lower=True, turned=False, unit=True)
        inner = triangular_solve(upper, transposed(inner), lower=False, turned=True, unit=False)
        inner = transposed(inner)
        below = gt(*_places(inner))
        moved_lower = product(lower, where(below, inner, zeros_like(inner)))
        moved_upper = product(where(below, zeros_like(inner), inner), upper)
        none = full(0, t.dtype, (*t.shape[:-1], 2))
        return concatenate(moved_lower + moved_upper, none, axis=t.ndim - 1)

    def samples(self) -> Iterator[Sample]:
        for a in _matrices(((3, 3), (2, 4, 3), (3, 5), (1, 1), (0, 3, 2))):
            yield Sample((a,))
            yield Sample((a[..., ::-1, :].copy(),))
        yield Sample((np.zeros((2, 2), np.float32),), differentiable=False)


lu = Lu()
