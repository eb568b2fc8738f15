"""Cumulative sums, products, extremes and log-sums of exponentials, each along one axis, from either end.

Their derivatives are a cumulative sum, a gather (of extremes), and a linear recurrence, which is an op of its own: y[i] = a[i]
y[i-1] + b[i]. So products need no division, which would fail at zeros, and exponentials stay below 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from .. import dtype as dtypes
from ..prim import (
    _BITS,
    _NUMBER_OR_COMPLEX,
    Linear,
    Primitive,
    Sample,
    _distinct,
    full,
    full_like,
    instantiate_batch,
    spell,
)
from ..scalar import ADD, MAX, MIN, MUL, ScalarOp
from ..uop import UOp
from .comparison import eq, gt, lt, ne
from .exponential import exp, log
from .indexing import gather
from .movement import iota, move_axis, reshape
from .selection import convert, where
from .slicing import concatenate, slice_

# Sequences with no more elements, or with as many lanes, are gone through step by step.
_SHORT = 32


class _Cumulative(Primitive):
    """What they share: one array, an axis, and whether it begins at the end."""

    family = "reduction"
    params = ("axis", "reverse")
    kinds: tuple[str, ...] = _NUMBER_OR_COMPLEX
    ufunc: ClassVar[Any]

    def out(self, x: Any, *, axis: int, reverse: bool) -> Any:
        if dtypes.kind(x.dtype) not in self.kinds or x.dtype in dtypes.NARROW_FLOATS:
            raise TypeError(
                f"{self.name} does not accept {spell([x])}: it works on {'/'.join(self.kinds)} arrays"
            )
        if not 0 <= axis < x.ndim:
            raise ValueError(f"{self.name} along axis {axis} of {spell([x])}: there is no such axis")
        return x.dtype, x.shape

    def reference(self, x: Any, *, axis: int, reverse: bool) -> Any:
        x = np.asarray(x)
        forward = np.flip(x, axis) if reverse else x
        wide = dtypes.accumulator(x.dtype) if dtypes.is_inexact(x.dtype) else x.dtype
        with np.errstate(invalid="ignore", over="ignore"):
            result = self.ufunc.accumulate(forward.astype(wide, copy=False), axis, dtype=wide)
            result = result.astype(x.dtype, copy=False)
        return np.flip(result, axis) if reverse else result

    def batch(
        self, size: Any, args: Sequence[UOp], batched: Sequence[bool], *, axis: int, reverse: bool
    ) -> UOp:
        return self.node(args[0], axis=axis + 1, reverse=reverse)

    def samples(self) -> Iterator[Sample]:
        generator = np.random.default_rng(0)
        for dtype in dtypes.ALL:
            if dtypes.kind(dtype) in self.kinds and dtype not in dtypes.NARROW_FLOATS:
                yield Sample((_distinct(generator, dtype, (3, 4)),), {"axis": 1, "reverse": False})
        for shape, axis in (((3, 4), 0), ((0,), 0), ((1,), 0), ((2, 0, 3), 1)):
            yield Sample((_distinct(generator, dtypes.float32, shape),), {"axis": axis, "reverse": True})
        special = np.array([[0.5, np.inf, 1.0, 2.0], [np.nan, 1.0, 3.0, 2.0], [-np.inf, -np.inf, 0.0, 1.0]])
        yield Sample((special.astype(np.float32),), {"axis": 1, "reverse": False}, differentiable=False)


class _Running(_Cumulative):
    """One that combines the elements by a scalar operation."""

    combines: ClassVar[ScalarOp]

    def running(self, dtype: Any) -> ScalarOp:
        return self.combines

    def decomposition(self, x: UOp, **params: Any) -> UOp | None:
        """Bools as bytes."""
        if x.dtype is not dtypes.bool_:
            return None
        return convert(self.node(convert(x, dtype=dtypes.uint8), **params), dtype=dtypes.bool_)


class Cumsum(_Running, Linear):
    """The sums of the elements up to and including each along `axis`, from the end if `reverse`.

    >>> lax.cumsum(tnp.array([1, 2, 3])), lax.cumsum(tnp.array([1, 2, 3]), reverse=True)
    (Array([1, 3, 6], dtype=int32), Array([6, 5, 3], dtype=int32))
    """

    ufunc = np.add
    combines = ADD

    def transpose(self, ct: UOp, args: Sequence[UOp], index: int, *, axis: int, reverse: bool) -> UOp:
        return cumsum(ct, axis=axis, reverse=not reverse)


class Cumprod(_Running):
    """The products of the elements up to and including each along `axis`, from the end if `reverse`.

    >>> lax.cumprod(tnp.array([[1, 2, 3], [4, 5, 6]]), axis=1)
    Array([[  1,   2,   6],
           [  4,  20, 120]], dtype=int32)
    """

    ufunc = np.multiply
    combines = MUL

    def jvp(
        self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], *, axis: int, reverse: bool
    ) -> UOp | None:
        x, t = args[0], tangents[0]
        assert t is not None
        # p[i] = x[i] p[i-1]
        return recurrence(x, before(out, 1, axis, reverse) * t, axis=axis, reverse=reverse)


class Cummax(_Running):
    """The greatest element up to and including each along `axis`, from the end if `reverse`; NaN after one.

    Of equals the one that comes first has the derivative.

    >>> lax.cummax(tnp.array([1, 3, 2])), lax.cummax(tnp.array([1, 3, 2]), reverse=True)
    (Array([1, 3, 3], dtype=int32), Array([3, 3, 2], dtype=int32))
    """

    kinds = (*_BITS, "float")
    ufunc: ClassVar[Any] = np.maximum
    combines: ClassVar[ScalarOp] = MAX
    beats: ClassVar[Any] = gt

    def jvp(
        self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], *, axis: int, reverse: bool
    ) -> UOp | None:
        x, t = args[0], tangents[0]
        assert t is not None
        n, last = x.shape[axis], x.ndim - 1
        if isinstance(n, int) and n == 0:
            return t
        # Where an element is the greatest for the first time; from then on it is where the greatest element is.
        numbers = iota.node(dtype=dtypes.int32, shape=x.shape, axis=axis)
        leads = type(self).beats(x, before(out, 0, axis, reverse)) | ne(x, x)
        first = full_like(numbers, n - 1 if reverse else 0)
        latest = cummin if reverse else cummax
        at = latest(where(leads, numbers, first), axis=axis, reverse=reverse)
        rows, at = move_axis(t, axis, last), move_axis(at, axis, last)
        at = reshape(at, shape=(*at.shape, 1))
        result = gather(rows, at, axes=(last,), sizes=(1,), batch_dims=last, mode="clip")
        return move_axis(reshape(result, shape=rows.shape), last, axis)


class Cummin(Cummax):
    """The least element up to and including each along `axis`, from the end if `reverse`; NaN after one.

    Of equals the one that comes first has the derivative.

    >>> lax.cummin(tnp.array([3.0, 1.0, np.nan, 2.0]))
    Array([ 3.,  1., nan, nan], dtype=float32)
    """

    ufunc = np.minimum
    combines = MIN
    beats: ClassVar[Any] = lt


class Cumlogsumexp(_Cumulative):
    """log of the sums of exp of the elements up to and including each along `axis`, from the end if `reverse`.

    >>> lax.cumlogsumexp(tnp.log(tnp.array([1.0, 2.0, 5.0]))).round(3)  # log of 1, 3 and 8
    Array([0.   , 1.099, 2.079], dtype=float32)
    """

    kinds = ("float",)
    ulp = (4, 4)

    def reference(self, x: Any, *, axis: int, reverse: bool) -> Any:
        """As programs do it."""
        x = np.asarray(x)
        if x.shape[axis] < 2:
            return x
        wide = x.astype(dtypes.accumulator(x.dtype), copy=False)
        most = cummax.reference(wide, axis=axis, reverse=reverse)
        previous = np.roll(most, -1 if reverse else 1, axis)
        first = [slice(None)] * x.ndim
        first[axis] = slice(-1, None) if reverse else slice(1)
        previous[tuple(first)] = -np.inf
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            shrunk, added = (
                np.exp(np.where(v == most, 0, v - most).astype(most.dtype)) for v in (previous, wide)
            )
            total = most + np.log(recurrence.reference(shrunk, added, axis=axis, reverse=reverse))
        return total.astype(x.dtype, copy=False)

    def decomposition(self, x: UOp, *, axis: int, reverse: bool) -> UOp | None:
        """The greatest so far, and the log of the sum so far of exponentials below it: each greater one shrinks those before."""
        if x.shape[axis] == 1:
            return x
        dtype = x.dtype
        x = convert(x, dtype=dtypes.accumulator(dtype))
        most = cummax(x, axis=axis, reverse=reverse)
        previous = before(most, -np.inf, axis, reverse)
        # Equal ones may be infinite.
        shrunk, added = (exp(where(eq(v, most), full_like(v, 0), v - most)) for v in (previous, x))
        total = most + log(recurrence(shrunk, added, axis=axis, reverse=reverse))
        return convert(total, dtype=dtype)

    def jvp(
        self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], *, axis: int, reverse: bool
    ) -> UOp | None:
        x, t = args[0], tangents[0]
        assert t is not None
        # The weights exp(previous - out) of what came before and exp(x - out) of the element add up to 1.
        previous = before(out, -np.inf, axis, reverse)
        # Equal ones may be infinite.
        here, there = (exp(where(eq(v, out), full_like(v, 0), v - out)) for v in (x, previous))
        return recurrence(there, here * t, axis=axis, reverse=reverse)


class Recurrence(Primitive):
    """y[i] = a[i] y[i-1] + b[i] along `axis`, where y before the first is 0; from the end if `reverse`."""

    family = "reduction"
    params = ("axis", "reverse")

    def running(self, dtype: Any) -> ScalarOp:
        return ADD

    def decomposition(self, a: UOp, b: UOp, *, axis: int, reverse: bool) -> UOp | None:
        """Of one element it is that."""
        return b if b.shape[axis] == 1 else None

    def out(self, a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
        if a.dtype is not b.dtype or a.shape != b.shape or not dtypes.is_inexact(a.dtype):
            raise TypeError(
                f"{self.name} needs two arrays of floats of one dtype and shape, not {spell([a, b])}"
            )
        if not 0 <= axis < a.ndim:
            raise ValueError(f"{self.name} along axis {axis} of {spell([a, b])}: there is no such axis")
        return a.dtype, a.shape

    def reference(self, a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
        a, b = np.asarray(a), np.asarray(b)
        dtype, wide = a.dtype, dtypes.accumulator(a.dtype)
        a, y = (np.moveaxis(v.astype(wide), axis, 0) for v in (a, b))
        if reverse:
            a, y = a[::-1], y[::-1]
        n = len(y)
        if n <= _SHORT or prod(y.shape[1:]) >= _SHORT:
            for i in range(1, n):
                y[i] += a[i] * y[i - 1]
        else:
            # Each element takes in twice as many of those before it at each step.
            distance = 1
            while distance < n:
                y[distance:] += a[distance:] * y[:-distance]
                a[distance:] *= a[:-distance].copy()
                distance *= 2
        return np.moveaxis(y[::-1] if reverse else y, 0, axis).astype(dtype, copy=False)

    def jvp(
        self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], *, axis: int, reverse: bool
    ) -> UOp | None:
        ta, tb = tangents
        given = tb
        if ta is not None:
            term = ta * before(out, 0, axis, reverse)
            given = term if tb is None else tb + term
        return None if given is None else recurrence(args[0], given, axis=axis, reverse=reverse)

    def vjp(
        self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool], *, axis: int, reverse: bool
    ) -> list[UOp | None]:
        following = before(args[0], 0, axis, not reverse)
        total = recurrence(following, ct, axis=axis, reverse=not reverse)
        return [total * before(out, 0, axis, reverse) if needs[0] else None, total if needs[1] else None]

    def batch(
        self, size: Any, args: Sequence[UOp], batched: Sequence[bool], *, axis: int, reverse: bool
    ) -> UOp:
        return recurrence(*instantiate_batch(size, args, batched), axis=axis + 1, reverse=reverse)

    def samples(self) -> Iterator[Sample]:
        generator = np.random.default_rng(0)
        for dtype in (*dtypes.FLOATS, *dtypes.COMPLEX):
            a, b = (_distinct(generator, dtype, (3, 4)) for _ in range(2))
            yield Sample((a, b), {"axis": 1, "reverse": False})
        for shape, axis in (((3, 4), 0), ((0,), 0), ((1,), 0), ((2, 0, 3), 1), ((2, 40), 1)):
            a, b = (0.1 * _distinct(generator, dtypes.float32, shape) for _ in range(2))
            for reverse in (False, True):
                yield Sample((a.astype(np.float32), b.astype(np.float32)), {"axis": axis, "reverse": reverse})


def before(x: UOp, first: float, axis: int, reverse: bool) -> UOp:
    """For each element the one before it along an axis, or the one after it, and a number at the end where there is none."""
    n = x.shape[axis]
    if isinstance(n, int) and n == 0:
        return x
    end = full(first, x.dtype, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    start, limit = [0] * x.ndim, list(x.shape)
    if reverse:
        start[axis] = 1
    else:
        limit[axis] = n - 1
    rest = slice_(x, start=tuple(start), limit=tuple(limit), step=(1,) * x.ndim)
    return concatenate(*((rest, end) if reverse else (end, rest)), axis=axis)


cumsum, cumprod, cummax, cummin = Cumsum(), Cumprod(), Cummax(), Cummin()
cumlogsumexp, recurrence = Cumlogsumexp(), Recurrence()
