"""Decompositions and systems of linear equations, by LAPACK through NumPy, batched over all axes but the last two.

Imported when `tinyfn.linalg` is first used. A decomposition's factors come packed in one array, which `tinyfn.linalg` takes
apart. Matrices for which LAPACK finds no result (singular, not positive definite, no convergence) give NaN, as in JAX. The
derivatives are those of M. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation" (2008); for complex SVD and QR those of JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..prim import (
    Primitive,
    Sample,
    add_tangents,
    full_like,
    instantiate_batch,
    spell,
    zeros_like,
)
from ..uop import UOp
from .arithmetic import eq, gt, mul_zero
from .complex_numbers import REAL_TYPE, complex_, conj, imag, real
from .contraction import dot_general
from .movement import broadcast, concatenate, iota, reshape, slice_, transpose
from .reduction import reduce_sum
from .selection import where

_COMPLEX_TYPE = {part: whole for whole, part in REAL_TYPE.items()}
DTYPES = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)

# Matrices on UOps, in the last two axes


def product(x: UOp, y: UOp) -> UOp:
    """The matrix product of two arrays with the same leading axes."""
    lead = tuple(range(x.ndim - 2))
    return dot_general(x, y, contract=((x.ndim - 1,), (y.ndim - 2,)), batch_axes=(lead, lead))


def transposed(x: UOp) -> UOp:
    """The matrices with rows and columns exchanged."""
    n = x.ndim
    return transpose(x, permutation=(*range(n - 2), n - 1, n - 2))


def adjoint(x: UOp) -> UOp:
    """The conjugate transpose."""
    return conj(transposed(x)) if x.dtype in REAL_TYPE else transposed(x)


def _rows(x: UOp, begin: Any, end: Any) -> UOp:
    """Some of the matrices' rows."""
    start, limit = (*(0,) * (x.ndim - 2), begin, 0), (*x.shape[:-2], end, x.shape[-1])
    return slice_(x, start=start, limit=limit, step=(1,) * x.ndim)


def _columns(x: UOp, begin: Any, end: Any) -> UOp:
    return transposed(_rows(transposed(x), begin, end))


def _places(x: UOp) -> tuple[UOp, UOp]:
    """The number of its row and of its column at each element."""
    row, column = (iota.node(dtype=dtypes.int32, shape=x.shape, axis=x.ndim - i) for i in (2, 1))
    return row, column


def _only_diagonal(x: UOp) -> UOp:
    return where(eq(*_places(x)), x, zeros_like(x))


def _below_diagonal(x: UOp) -> UOp:
    return where(gt(*_places(x)), x, zeros_like(x))


def _diagonal(x: UOp) -> UOp:
    return reduce_sum(_only_diagonal(x), axes=(x.ndim - 2,))


def _each_column(v: UOp, like: UOp) -> UOp:
    """A vector's elements as factors of the matrices' columns."""
    return broadcast(v, shape=like.shape, axes=(*range(like.ndim - 2), like.ndim - 1))


def _each_row(v: UOp, like: UOp) -> UOp:
    return broadcast(v, shape=like.shape, axes=tuple(range(like.ndim - 1)))


def _real_part(x: UOp) -> UOp:
    """x without its imaginary part, in x's dtype."""
    if x.dtype not in REAL_TYPE:
        return x
    part = real(x)
    return complex_(part, zeros_like(part))


def _inverse_differences(v: UOp, like: UOp) -> UOp:
    """1 / (v[j] - v[i]) at row i and column j, and 0 on the diagonal."""
    difference = _each_column(v, like) - _each_row(v, like)
    diagonal = eq(*_places(like))
    return where(diagonal, zeros_like(like), 1.0 / where(diagonal, full_like(like, 1), difference))


# NumPy's functions, with NaN in the place of exceptions


def _or_nan(function: Callable[..., np.ndarray], shape: tuple[int, ...], *args: np.ndarray) -> np.ndarray:
    """The function of a batch of matrices; a matrix for which it raises LinAlgError gives NaN."""
    try:
        return function(*args)
    except np.linalg.LinAlgError:
        lead = args[0].shape[:-2]
        result = np.full((*lead, *shape), np.nan, args[0].dtype)
        if lead:
            for index in np.ndindex(*lead):
                result[index] = _or_nan(function, shape, *[a[index] for a in args])
        return result


def _symmetric(a: np.ndarray) -> np.ndarray:
    return (a + np.conj(np.swapaxes(a, -1, -2))) * a.dtype.type(0.5)


class Decomposition(Primitive):
    """A function of matrices in the last two axes."""

    family = "linear algebra"
    square = True

    def matrix(self, a: Any) -> tuple[int, int]:
        """The numbers of rows and columns; raises TypeError or ValueError if it is no matrix that this takes."""
        if a.dtype not in DTYPES:
            raise TypeError(
                f"{self.name} takes {', '.join(d.name for d in DTYPES)} arrays, not {spell([a])}: cast it first"
            )
        if a.ndim < 2 or (self.square and a.shape[-1] != a.shape[-2]):
            kind = "square matrices" if self.square else "matrices"
            raise ValueError(f"{self.name} takes {kind} in the last two axes, not {spell([a])}")
        return a.shape[-2], a.shape[-1]

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any) -> UOp:
        return self.node(*instantiate_batch(size, args, batched), **params)


def _matrices(shapes: Sequence[tuple[int, ...]], positive: bool = False) -> Iterator[np.ndarray]:
    """Well-conditioned matrices of all dtypes."""
    generator = np.random.default_rng(0)
    for dtype in DTYPES:
        for shape in shapes if dtype is dtypes.float32 else shapes[:2]:
            a = generator.normal(size=shape)
            if dtypes.kind(dtype) == "complex":
                a = a + 1j * generator.normal(size=shape)
            rows, columns = shape[-2:]
            if positive:
                a = a @ np.conj(np.swapaxes(a, -1, -2)) / max(columns, 1)
            # Apart from each other are the eigenvalues and the singular values.
            a = a * 0.3 + np.eye(rows, columns) * np.arange(1.0, columns + 1)
            yield a.astype(dtype)


_SQUARE = ((3, 3), (2, 4, 4), (1, 1), (0, 3, 3), (2, 2))


class Cholesky(Decomposition):
    """The lower triangular L with L L^H = (a + a^H) / 2; NaN if that is not positive definite."""

    def out(self, a: Any) -> Any:
        self.matrix(a)
        return a.dtype, a.shape

    def reference(self, a: Any) -> Any:
        a = _symmetric(np.asarray(a))
        return _or_nan(np.linalg.cholesky, a.shape[-2:], a)

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> UOp | None:
        t = tangents[0]
        assert t is not None
        symmetric = (t + adjoint(t)) * 0.5
        inner = solve(out, adjoint(solve(out, symmetric)))
        half = _below_diagonal(inner) + _only_diagonal(inner) * 0.5
        return product(out, half)

    def samples(self) -> Iterator[Sample]:
        for a in _matrices(_SQUARE, positive=True):
            yield Sample((a,))
        yield Sample((-np.ones((2, 2), np.float32),), differentiable=False)


class Solve(Decomposition):
    """The x with a x = b for square matrices a and matrices b; NaN where a is singular."""

    def out(self, a: Any, b: Any) -> Any:
        n, _ = self.matrix(a)
        if b.dtype is not a.dtype or b.ndim != a.ndim or b.shape[:-2] != a.shape[:-2] or b.shape[-2] != n:
            raise ValueError(
                f"solve takes square matrices and matrices with as many rows, not {spell([a, b])}"
            )
        return b.dtype, b.shape

    def reference(self, a: Any, b: Any) -> Any:
        a, b = np.asarray(a), np.asarray(b)
        return _or_nan(np.linalg.solve, b.shape[-2:], a, b)

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> UOp | None:
        a, ta, tb = args[0], *tangents
        right = add_tangents([tb, None if ta is None else -product(ta, out)])
        return None if right is None else solve(a, right)

    def vjp(self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool]) -> list[UOp | None]:
        of_b = solve(transposed(args[0]), ct)
        return [-product(of_b, transposed(out)) if needs[0] else None, of_b if needs[1] else None]

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool]) -> UOp:
        a, b = args
        if not batched[0] and a.ndim == 2:
            # One matrix and several right sides: these are further columns, and a is factorised once.
            n, columns = b.shape[1:]
            side_by_side = reshape(transpose(b, permutation=(1, 0, 2)), shape=(n, size * columns))
            found = reshape(solve(a, side_by_side), shape=(n, size, columns))
            return transpose(found, permutation=(1, 0, 2))
        return super().batch(size, args, batched)

    def samples(self) -> Iterator[Sample]:
        generator = np.random.default_rng(1)
        for a in _matrices(_SQUARE):
            b = generator.normal(size=(*a.shape[:-1], 2))
            yield Sample((a, b.astype(a.dtype)))
        yield Sample((np.ones((2, 2), np.float32), np.ones((2, 1), np.float32)), differentiable=False)


class Slogdet(Decomposition):
    """The sign of the determinant (of modulus 1, for complex matrices) and the logarithm of its modulus, as a pair."""

    def out(self, a: Any) -> Any:
        self.matrix(a)
        return a.dtype, (*a.shape[:-2], 2)

    def reference(self, a: Any) -> Any:
        a = np.asarray(a)
        sign, logarithm = np.linalg.slogdet(a)
        return np.stack([sign, logarithm], -1).astype(a.dtype)

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> UOp | None:
        a, t = args[0], tangents[0]
        assert t is not None
        relative = reduce_sum(_diagonal(solve(a, t)), axes=(a.ndim - 2,))  # d det / det
        if a.dtype not in REAL_TYPE:
            return _pair(zeros_like(relative), relative)
        sign = reshape(_rows_of_pairs(out, 0), shape=relative.shape)
        turn = imag(relative)
        return _pair(sign * complex_(zeros_like(turn), turn), _real_part(relative))

    def samples(self) -> Iterator[Sample]:
        for a in _matrices(_SQUARE):
            yield Sample((a,))
        yield Sample((np.ones((2, 2), np.float32),), differentiable=False)


def _pair(x: UOp, y: UOp) -> UOp:
    first, second = (reshape(v, shape=(*v.shape, 1)) for v in (x, y))
    return concatenate(first, second, axis=x.ndim)


def _rows_of_pairs(pairs: UOp, which: int) -> UOp:
    start, limit = (*(0,) * (pairs.ndim - 1), which), (*pairs.shape[:-1], which + 1)
    return slice_(pairs, start=start, limit=limit, step=(1,) * pairs.ndim)


class Det(Decomposition):
    """The determinant. Its derivatives are for matrices that are not singular."""

    def out(self, a: Any) -> Any:
        self.matrix(a)
        return a.dtype, a.shape[:-2]

    def reference(self, a: Any) -> Any:
        return np.asarray(np.linalg.det(np.asarray(a)))

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> UOp | None:
        a, t = args[0], tangents[0]
        assert t is not None
        return out * reduce_sum(_diagonal(solve(a, t)), axes=(a.ndim - 2,))

    def samples(self) -> Iterator[Sample]:
        for a in _matrices(_SQUARE):
            yield Sample((a,))


class Eigh(Decomposition):
    """The eigenvalues of (a + a^H) / 2 in rising order, as a row, and below it the eigenvectors as columns."""

    def out(self, a: Any) -> Any:
        n, _ = self.matrix(a)
        return a.dtype, (*a.shape[:-2], n + 1, n)

    def reference(self, a: Any) -> Any:
        a = _symmetric(np.asarray(a))
        n = a.shape[-1]
        return _or_nan(_packed_eigh, (n + 1, n), a)

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

    def reference(self, a: Any) -> Any:
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

    def reference(self, a: Any, *, full: bool) -> Any:
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

    def reference(self, a: Any, *, complete: bool) -> Any:
        a = np.asarray(a)
        m, n = a.shape[-2:]

        def packed(a: np.ndarray) -> np.ndarray:
            q, r = np.linalg.qr(a, mode="complete" if complete else "reduced")
            return np.concatenate([q, np.swapaxes(r, -1, -2)], -2)

        return _or_nan(packed, (m + n, self._length(m, n, complete)), a)

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


cholesky, solve, slogdet, det, eig, eigh, svd, qr = (
    Cholesky(), Solve(), Slogdet(), Det(), Eig(), Eigh(), Svd(), Qr(),
)  # fmt: skip

__all__ = ["cholesky", "det", "eig", "eigh", "qr", "slogdet", "solve", "svd"]
