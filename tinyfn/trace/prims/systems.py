"""Cholesky factors, linear systems, determinants: by LAPACK through NumPy, batched over all axes but the last two.

Imported when `tinyfn.linalg` is first used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..prim import (
    Sample,
    add_tangents,
    spell,
    zeros_like,
)
from ..uop import UOp
from .complex_numbers import REAL_TYPE, complex_, imag
from .matrices import (
    _SQUARE,
    Decomposition,
    _below_diagonal,
    _diagonal,
    _matrices,
    _only_diagonal,
    _or_nan,
    _real_part,
    _symmetric,
    adjoint,
    product,
    transposed,
)
from .movement import reshape, transpose
from .reduction import reduce_sum
from .slicing import concatenate, slice_


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


cholesky, solve, slogdet, det = Cholesky(), Solve(), Slogdet(), Det()
