"""Eigenvalues, singular values and QR, by LAPACK through NumPy, batched over all axes but the last two.

Imported when `tinyfn.linalg` is first used. A decomposition's factors come packed in one array, which `tinyfn.linalg` takes
apart. Matrices for which LAPACK finds no result (singular, not positive definite, no convergence) give NaN, as in JAX. The
derivatives are those of M. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation" (2008); for complex SVD and QR those of JAX.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..prim import (
    Sample,
    full,
    full_like,
    zeros_like,
)
from ..uop import UOp
from . import lapack
from .arithmetic import mul_zero
from .comparison import eq, gt
from .complex_numbers import REAL_TYPE, complex_, conj
from .lapack import Read, Work, Write
from .matrices import (
    _COMPLEX_TYPE,
    _SQUARE,
    Decomposition,
    _below_diagonal,
    _columns,
    _diagonal,
    _each_column,
    _each_row,
    _inverse_differences,
    _matrices,
    _only_diagonal,
    _or_nan,
    _places,
    _real_part,
    _rows,
    _symmetric,
    adjoint,
    product,
    transposed,
)
from .movement import reshape
from .reduction import reduce_sum
from .selection import where
from .slicing import concatenate
from .systems import solve


class Eigh(Decomposition):
    """The eigenvalues of (a + a^H) / 2 in rising order, as a row, and below it the eigenvectors as columns."""

    def out(self, a: Any) -> Any:
        n, _ = self.matrix(a)
        return a.dtype, (*a.shape[:-2], n + 1, n)

    def by_numpy(self, a: Any) -> Any:
        a = _symmetric(np.asarray(a))
        n = a.shape[-1]
        return _or_nan(_packed_eigh, (n + 1, n), a)

    def decomposition(self, a: UOp) -> UOp | None:
        if not lapack.has(a.dtype, "syevd"):
            return None
        n = a.shape[-1]
        symmetric = (a + transposed(a)) * 0.5
        # The lengths of the arrays to work in that LAPACK's documentation gives.
        long, whole = 1 + 6 * n + 2 * n * n, 3 + 5 * n
        arguments = (
            "V",
            "L",
            n,
            Write(0, 0),
            n,
            Write(1),
            Work(long),
            long,
            Work(whole, integers=True),
            whole,
        )
        vectors, values, info = lapack.call(
            "syevd", [symmetric], (*arguments, Write(2)), (n, n), (n,), lapack.INFO
        )
        return lapack.where_found(info, _stacked(values, transposed(vectors)))

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> UOp | None:
        t = tangents[0]
        assert t is not None
        n = out.shape[-1]
        values, vectors = _only_row(out, 0), _rows(out, 1, n + 1)
        turned = product(product(adjoint(vectors), (t + adjoint(t)) * 0.5), vectors)
        by = _inverse_differences(values, turned)
        return _stacked(_real_part(_diagonal(turned)), product(vectors, mul_zero(turned, by)))

    def samples(self) -> Iterator[Sample]:
        for a in _matrices(_SQUARE, positive=True):
            # The eigenvectors of complex matrices are determined up to a phase, which differences of them show.
            yield Sample((a,), differentiable=a.dtype.kind == "f")


class Eig(Decomposition):
    """The complex eigenvalues of a, as a row, and below it the eigenvectors, of norm 1, as columns."""

    def out(self, a: Any) -> Any:
        n, _ = self.matrix(a)
        return _COMPLEX_TYPE.get(a.dtype, a.dtype), (*a.shape[:-2], n + 1, n)

    def by_numpy(self, a: Any) -> Any:
        a = np.asarray(a)
        n = a.shape[-1]
        return _or_nan(_packed_eig, (n + 1, n), a.astype(_COMPLEX_TYPE.get(a.dtype, a.dtype)))

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> UOp | None:
        t = tangents[0]
        assert t is not None
        n = out.shape[-1]
        if t.dtype is not out.dtype:
            t = complex_(t, zeros_like(t))
        values, vectors = _only_row(out, 0), _rows(out, 1, n + 1)
        turned = solve(vectors, product(t, vectors))
        moved = product(vectors, mul_zero(turned, _inverse_differences(values, turned)))
        # What would lengthen an eigenvector is taken off, since they have the norm 1.
        along = _real_part(reduce_sum(conj(vectors) * moved, axes=(vectors.ndim - 2,)))
        return _stacked(_diagonal(turned), moved - vectors * _each_column(along, vectors))

    def samples(self) -> Iterator[Sample]:
        for a in _matrices(_SQUARE):
            yield Sample((a,), differentiable=False)  # the phases of eigenvectors jump


def _packed_eig(a: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eig(a)
    return np.concatenate([values[..., None, :], vectors], -2).astype(a.dtype)


def _packed_eigh(a: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(a)
    return np.concatenate([values[..., None, :].astype(a.dtype), vectors], -2)


def _only_row(x: UOp, row: int) -> UOp:
    return reshape(_rows(x, row, row + 1), shape=(*x.shape[:-2], x.shape[-1]))


def _widened(x: UOp, columns: int) -> UOp:
    """The matrices with zeros as further columns."""
    missing = columns - x.shape[-1]
    return concatenate(x, full(0, x.dtype, (*x.shape[:-1], missing)), axis=x.ndim - 1) if missing else x


def _stacked(row: UOp, *matrices: UOp) -> UOp:
    return concatenate(reshape(row, shape=(*row.shape[:-1], 1, row.shape[-1])), *matrices, axis=row.ndim - 1)


class Svd(Decomposition):
    """The singular values in falling order, as a row, below it those rows of U, and below these those of V, with
    a = U diag(s) V^H. With `full`, U and V are square and rows are padded with zeros to the length of the longer."""

    params = ("full",)
    square = False

    def _length(self, rows: int, columns: int, full: bool) -> int:
        return max(rows, columns) if full else min(rows, columns)

    def out(self, a: Any, *, full: bool) -> Any:
        m, n = self.matrix(a)
        return a.dtype, (*a.shape[:-2], 1 + m + n, self._length(m, n, full))

    def by_numpy(self, a: Any, *, full: bool) -> Any:
        a = np.asarray(a)
        m, n = a.shape[-2:]
        length = self._length(m, n, full)

        def packed(a: np.ndarray) -> np.ndarray:
            u, s, vh = np.linalg.svd(a, full_matrices=full)
            result = np.zeros((*a.shape[:-2], 1 + m + n, length), a.dtype)
            result[..., 0, : s.shape[-1]] = s
            result[..., 1 : m + 1, : u.shape[-1]] = u
            result[..., m + 1 :, : vh.shape[-2]] = np.conj(np.swapaxes(vh, -1, -2))
            return result

        return _or_nan(packed, (1 + m + n, length), a)

    def decomposition(self, a: UOp, *, full: bool) -> UOp | None:
        if not lapack.has(a.dtype, "gesdd"):
            return None
        m, n = a.shape[-2:]
        k, length = min(m, n), self._length(m, n, full)
        rows = n if full else k  # of V^H
        head = ("A" if full else "S", m, n, Write(0, 0), m, Write(1), Write(2), m, Write(3), rows)
        work = Work(8 * k, integers=True)
        most = lapack.best_work("gesdd", a.dtype, (*head, Work(1), -1, work, Write(4)))
        shapes = (n, m), (k,), (m if full else k, m), (n, rows)
        arguments = (*head, Work(most), most, work, Write(4))
        _, s, u, v, info = lapack.call("gesdd", [transposed(a)], arguments, *shapes, lapack.INFO)
        s = reshape(s, shape=(*s.shape[:-1], 1, k))
        packed = [_widened(each, length) for each in (s, transposed(u), v)]
        return lapack.where_found(info, concatenate(*packed, axis=a.ndim - 2))

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], *, full: bool) -> UOp | None:
        a, t = args[0], tangents[0]
        assert t is not None
        m, n = a.shape[-2:]
        if full and m != n:
            raise NotImplementedError(
                "svd with full_matrices=True has no derivative, since the further columns are not determined; "
                "use full_matrices=False"
            )
        s, u, v = _only_row(out, 0), _rows(out, 1, m + 1), _rows(out, m + 1, m + n + 1)
        turned = product(product(adjoint(u), t), v)
        by = _inverse_differences(s * s, turned)
        right, left = turned * _each_column(s, turned), turned * _each_row(s, turned)
        zero = eq(s, zeros_like(s))
        inverse = where(zero, zeros_like(s), 1.0 / where(zero, full_like(s, 1), s))
        of_u = mul_zero(right + adjoint(right), by)
        if a.dtype in REAL_TYPE:
            phase = _only_diagonal(turned - adjoint(turned)) * 0.5
            of_u = of_u + phase * _each_column(inverse, phase)
        du = product(u, of_u)
        dv = product(v, mul_zero(left + adjoint(left), by))
        if m > n:
            outside = product(t, v)
            outside = outside - product(u, product(adjoint(u), outside))
            du = du + outside * _each_column(inverse, outside)
        if n > m:
            outside = product(adjoint(t), u)
            outside = outside - product(v, product(adjoint(v), outside))
            dv = dv + outside * _each_column(inverse, outside)
        return _stacked(_real_part(_diagonal(turned)), du, dv)

    def samples(self) -> Iterator[Sample]:
        for a in _matrices(((3, 3), (2, 4, 3), (3, 5), (1, 1), (0, 3, 2))):
            yield Sample((a,), {"full": False}, differentiable=a.dtype.kind == "f")
            yield Sample((a,), {"full": True}, differentiable=False)


class Qr(Decomposition):
    """The rows of Q with orthonormal columns, and below them those of R^T, with a = Q R and R upper triangular.

    With `complete`, Q is square."""

    params = ("complete",)
    square = False

    def _length(self, rows: int, columns: int, complete: bool) -> int:
        return rows if complete else min(rows, columns)

    def out(self, a: Any, *, complete: bool) -> Any:
        m, n = self.matrix(a)
        return a.dtype, (*a.shape[:-2], m + n, self._length(m, n, complete))

    def by_numpy(self, a: Any, *, complete: bool) -> Any:
        a = np.asarray(a)
        m, n = a.shape[-2:]

        def packed(a: np.ndarray) -> np.ndarray:
            q, r = np.linalg.qr(a, mode="complete" if complete else "reduced")
            return np.concatenate([q, np.swapaxes(r, -1, -2)], -2)

        return _or_nan(packed, (m + n, self._length(m, n, complete)), a)

    def decomposition(self, a: UOp, *, complete: bool) -> UOp | None:
        if not lapack.has(a.dtype, "geqrf", "orgqr"):
            return None
        m, n = a.shape[-2:]
        k, columns = min(m, n), self._length(m, n, complete)
        shape = m, n, Write(0, 0), m
        most = lapack.best_work("geqrf", a.dtype, (*shape, Write(1), Work(1), -1, Write(2)))
        arguments = (*shape, Write(1), Work(most), most, Write(2))
        made, scales, _ = lapack.call("geqrf", [transposed(a)], arguments, (n, m), (k,), lapack.INFO)
        # The reflections are below the diagonal, by columns: in the first rows here. R^T is what is left of it.
        r = _columns(made, 0, k)
        r = where(gt(*reversed(_places(r))), zeros_like(r), r)
        reflections = _rows(made, 0, k)
        if columns > k:
            none = full(0, a.dtype, (*a.shape[:-2], columns - k, m))
            reflections = concatenate(reflections, none, axis=a.ndim - 2)
        to_q = m, columns, k, Write(0, 0), m, Read(1)
        most = lapack.best_work("orgqr", a.dtype, (*to_q, Work(1), -1, Write(1)))
        last = (*to_q, Work(most), most, Write(1))
        q, _ = lapack.call("orgqr", [reflections, scales], last, (columns, m), lapack.INFO)
        return concatenate(transposed(q), _widened(r, columns), axis=a.ndim - 2)

    def jvp(
        self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], *, complete: bool
    ) -> UOp | None:
        a, t = args[0], tangents[0]
        assert t is not None
        m, n = a.shape[-2:]
        if complete and m > n:
            raise NotImplementedError(
                "qr with mode='complete' has no derivative, since the further columns of Q are not determined; "
                "use mode='reduced'"
            )
        q, r_transposed = _rows(out, 0, m), _rows(out, m, m + n)
        k = min(m, n)
        # The first columns determine Q.
        square, moved = _rows(r_transposed, 0, k), _columns(t, 0, k)
        scaled = transposed(solve(square, transposed(moved)))
        turned = product(adjoint(q), scaled)
        below = _below_diagonal(turned)
        turn = below - adjoint(below)
        if a.dtype in REAL_TYPE:
            turn = turn + _only_diagonal(turned - _real_part(turned))
        dq = product(q, turn - turned) + scaled
        if m < n:
            dr = product(adjoint(dq), a) + product(adjoint(q), t)
        else:
            dr = product(turned - turn, transposed(r_transposed))
        return concatenate(dq, transposed(dr), axis=a.ndim - 2)

    def samples(self) -> Iterator[Sample]:
        for a in _matrices(((3, 3), (2, 4, 3), (3, 5), (1, 1), (0, 3, 2))):
            yield Sample((a,), {"complete": False})
            yield Sample((a,), {"complete": True}, differentiable=False)


eig, eigh, svd, qr = Eig(), Eigh(), Svd(), Qr()
