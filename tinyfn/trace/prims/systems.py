"""Cholesky factors, linear systems, determinants: by LAPACK through NumPy, batched over all axes but the last two.

Imported when `tinyfn.linalg` is first used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..prim import (
    Sample,
    add_tangents,
    full_like,
    spell,
    zeros_like,
)
from ..uop import UOp
from . import lapack
from .arithmetic import abs
from .comparison import eq, ge, gt, lt, ne
from .complex_numbers import REAL_TYPE, complex_, imag
from .exponential import log
from .lapack import Read, Work, Write
from .matrices import (
    _SQUARE,
    Decomposition,
    _below_diagonal,
    _diagonal,
    _matrices,
    _only_diagonal,
    _or_nan,
    _places,
    _real_part,
    _symmetric,
    adjoint,
    product,
    transposed,
)
from .movement import iota, reshape, transpose
from .reduction import reduce_prod, reduce_sum
from .selection import convert, where
from .slicing import concatenate, slice_

_LOWER = {"lower": True, "turned": False, "unit": False}


class Cholesky(Decomposition):
    """The lower triangular L with L L^H = (a + a^H) / 2; NaN if that is not positive definite."""

    def out(self, a: Any) -> Any:
        self.matrix(a)
        return a.dtype, a.shape

    def by_numpy(self, a: Any) -> Any:
        a = _symmetric(np.asarray(a))
        return _or_nan(np.linalg.cholesky, a.shape[-2:], a)

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> UOp | None:
        t = tangents[0]
        assert t is not None
        symmetric = (t + adjoint(t)) * 0.5
        inner = triangular_solve(out, adjoint(triangular_solve(out, symmetric, **_LOWER)), **_LOWER)
        half = _below_diagonal(inner) + _only_diagonal(inner) * 0.5
        return product(out, half)

    def samples(self) -> Iterator[Sample]:
        for a in _matrices(_SQUARE, positive=True):
            yield Sample((a,))
        yield Sample((-np.ones((2, 2), np.float32),), differentiable=False)

    def decomposition(self, a: UOp) -> UOp | None:
        if not lapack.has(a.dtype, "potrf"):
            return None
        n = a.shape[-1]
        symmetric = (a + transposed(a)) * 0.5
        # Its columns are our rows: so the upper triangle there is the lower one here.
        arguments = ("U", n, Write(0, 0), n, Write(1))
        factor, info = lapack.call("potrf", [symmetric], arguments, (n, n), lapack.INFO)
        row, column = _places(factor)
        return lapack.where_found(info, where(gt(column, row), zeros_like(factor), factor))


class Solve(Decomposition):
    """The x with a x = b for square matrices a and matrices b; NaN where a is singular."""

    def out(self, a: Any, b: Any) -> Any:
        n, _ = self.matrix(a)
        if b.dtype is not a.dtype or b.ndim != a.ndim or b.shape[:-2] != a.shape[:-2] or b.shape[-2] != n:
            raise ValueError(
                f"solve takes square matrices and matrices with as many rows, not {spell([a, b])}"
            )
        return b.dtype, b.shape

    def by_numpy(self, a: Any, b: Any) -> Any:
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
        return _side_by_side(self, size, args, batched) or super().batch(size, args, batched)

    def decomposition(self, a: UOp, b: UOp) -> UOp | None:
        if not lapack.has(a.dtype, "gesv"):
            return None
        n, k = b.shape[-2:]
        arguments = (n, k, Write(0, 0), n, Work(n, integers=True), Write(1, 1), n, Write(2))
        columns = [transposed(a), transposed(b)]
        _, found, info = lapack.call("gesv", columns, arguments, (n, n), (k, n), lapack.INFO)
        return lapack.where_found(info, transposed(found))

    def samples(self) -> Iterator[Sample]:
        generator = np.random.default_rng(1)
        for a in _matrices(_SQUARE):
            b = generator.normal(size=(*a.shape[:-1], 2))
            yield Sample((a, b.astype(a.dtype)))
        yield Sample((np.ones((2, 2), np.float32), np.ones((2, 1), np.float32)), differentiable=False)


class TriangularSolve(Decomposition):
    """The x with t x = b for the upper or lower triangle t of matrices a, or for its transpose (`turned`), and matrices b.

    The other triangle is not read, nor is the diagonal with `unit`, which takes it as ones. NaN where t is singular."""

    params = ("lower", "turned", "unit")

    def out(self, a: Any, b: Any, *, lower: bool, turned: bool, unit: bool) -> Any:
        return solve.out(a, b)

    def by_numpy(self, a: Any, b: Any, *, lower: bool, turned: bool, unit: bool) -> Any:
        a = np.asarray(a)
        triangle = np.tril(a, -int(unit)) if lower else np.triu(a, int(unit))
        if unit:
            triangle = triangle + np.eye(a.shape[-1], dtype=a.dtype)
        return solve.by_numpy(np.swapaxes(triangle, -1, -2) if turned else triangle, b)

    def _triangle(self, x: UOp, lower: bool, unit: bool) -> UOp:
        """What is read of a matrix."""
        row, column = _places(x)
        outside = gt(column, row) if lower else gt(row, column)
        if unit:
            outside = ge(column, row) if lower else ge(row, column)
        return where(outside, zeros_like(x), x)

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], **params: Any) -> UOp | None:
        a, ta, tb = args[0], *tangents
        moved = None
        if ta is not None:
            ta = self._triangle(ta, params["lower"], params["unit"])
            moved = -product(transposed(ta) if params["turned"] else ta, out)
        right = add_tangents([tb, moved])
        return None if right is None else triangular_solve(a, right, **params)

    def vjp(
        self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool], **params: Any
    ) -> list[UOp | None]:
        lower, turned, unit = params["lower"], params["turned"], params["unit"]
        of_b = triangular_solve(args[0], ct, lower=lower, turned=not turned, unit=unit)
        of_a = None
        if needs[0]:
            of_a = -(product(out, transposed(of_b)) if turned else product(of_b, transposed(out)))
            of_a = self._triangle(of_a, lower, unit)
        return [of_a, of_b if needs[1] else None]

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any) -> UOp:
        return _side_by_side(self, size, args, batched, **params) or super().batch(
            size, args, batched, **params
        )

    def decomposition(self, a: UOp, b: UOp, *, lower: bool, turned: bool, unit: bool) -> UOp | None:
        if not lapack.has(a.dtype, "trsm"):
            return None
        # Seen by columns these are the transposes: x^T t^T = b^T.
        n, k = b.shape[-2:]
        kind = ("R", "U" if lower else "L", "T" if turned else "N", "U" if unit else "N")
        arguments = (*kind, k, n, 1.0, Read(0), n, Write(0, 1), k)
        (found,) = lapack.call("trsm", [a, b], arguments, (n, k))
        if unit:
            return found
        diagonal = _diagonal(a)
        zeros = reduce_sum(
            where(eq(diagonal, zeros_like(diagonal)), full_like(diagonal, 1), zeros_like(diagonal)),
            axes=(diagonal.ndim - 1,),
        )
        return lapack.where_found(zeros, found)

    def samples(self) -> Iterator[Sample]:
        for i, sample in enumerate(solve.samples()):
            for turned in (False, True) if i < 3 else (i % 2 == 0,):
                params = {"lower": i % 2 == 1, "turned": turned, "unit": i % 3 == 2}
                yield Sample(sample.args, params, sample.differentiable)
        yield Sample(
            (np.zeros((2, 2), np.float32), np.ones((2, 1), np.float32)), _LOWER, differentiable=False
        )


def _side_by_side(
    op: Decomposition, size: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any
) -> UOp | None:
    """One matrix and several right sides: these are further columns, and the matrix is factorised once."""
    a, b = args
    if batched[0] or a.ndim > 2:
        return None
    n, columns = b.shape[1:]
    side_by_side = reshape(transpose(b, permutation=(1, 0, 2)), shape=(n, size * columns))
    found = reshape(op.node(a, side_by_side, **params), shape=(n, size, columns))
    return transpose(found, permutation=(1, 0, 2))


class Slogdet(Decomposition):
    """The sign of the determinant (of modulus 1, for complex matrices) and the logarithm of its modulus, as a pair."""

    def out(self, a: Any) -> Any:
        self.matrix(a)
        return a.dtype, (*a.shape[:-2], 2)

    def by_numpy(self, a: Any) -> Any:
        a = np.asarray(a)
        sign, logarithm = np.linalg.slogdet(a)
        return np.stack([sign, logarithm], -1).astype(a.dtype)

    def decomposition(self, a: UOp) -> UOp | None:
        found = _by_lu(a)
        if found is None:
            return None
        diagonal, odd = found
        axes = (diagonal.ndim - 1,)
        zero = eq(diagonal, zeros_like(diagonal))
        minus = full_like(diagonal, -1)
        signs = where(lt(diagonal, zeros_like(diagonal)), minus, full_like(diagonal, 1))
        sign = reduce_prod(where(zero, zeros_like(diagonal), where(odd, -signs, signs)), axes=axes)
        return _pair(sign, reduce_sum(log(abs(diagonal)), axes=axes))

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


def _by_lu(a: UOp) -> tuple[UOp, UOp] | None:
    """The diagonal of U in P L U = a, and whether a row was exchanged at each step; None without a LAPACK."""
    if not lapack.has(a.dtype, "getrf"):
        return None
    factors, pivots, _ = lapack.factors_lu(transposed(a))
    steps = convert(
        iota.node(dtype=dtypes.int32, shape=pivots.shape, axis=pivots.ndim - 1), dtype=pivots.dtype
    )
    return _diagonal(factors), ne(pivots, steps + 1)


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

    def by_numpy(self, a: Any) -> Any:
        return np.asarray(np.linalg.det(np.asarray(a)))

    def decomposition(self, a: UOp) -> UOp | None:
        found = _by_lu(a)
        if found is None:
            return None
        diagonal, odd = found
        return reduce_prod(where(odd, -diagonal, diagonal), axes=(diagonal.ndim - 1,))

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> UOp | None:
        a, t = args[0], tangents[0]
        assert t is not None
        return out * reduce_sum(_diagonal(solve(a, t)), axes=(a.ndim - 2,))

    def samples(self) -> Iterator[Sample]:
        for a in _matrices(_SQUARE):
            yield Sample((a,))


cholesky, solve, triangular_solve = Cholesky(), Solve(), TriangularSolve()
slogdet, det = Slogdet(), Det()
