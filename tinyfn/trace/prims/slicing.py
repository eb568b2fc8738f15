"""Parts of arrays, and arrays as parts: slices, padding (each the other's transpose) and concatenation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from .. import dtype as dtypes
from .. import elements as e
from .. import scalar, sint
from ..prim import Linear, Primitive, Sample, broadcast_to_batch, full, instantiate_batch, spell, zeros_like
from ..sint import Dimension
from ..uop import UOp
from .movement import Movement, broadcast
from .reduction import reduce_sum
from .selection import where


class Pad(Primitive):
    """x with `value` before it (low), after it (high) and between its elements (interior), per axis."""

    family = "movement"
    params = ("low", "high", "interior")
    work = 4

    def out(
        self, x: Any, value: Any, *, low: tuple[int, ...], high: tuple[int, ...], interior: tuple[int, ...]
    ) -> Any:
        if value.dtype is not x.dtype or value.shape != ():
            raise TypeError(f"pad needs an array and a scalar of its dtype, not {spell([x, value])}")
        if not len(low) == len(high) == len(interior) == x.ndim or any(
            n < 0 for n in (*low, *high, *interior)
        ):
            raise ValueError(
                f"pad of {spell([x])} by {low}, {high}, {interior}: each needs {x.ndim} numbers that are >= 0"
            )
        shape = [
            before + after + n + (n - 1) * between if not isinstance(n, int) or n > 0 else before + after
            for n, before, after, between in zip(x.shape, low, high, interior, strict=True)
        ]
        return x.dtype, tuple(shape)

    def element(self, node: UOp, index: e.Index, condition: UOp | None) -> e.Rule:
        source, fill = node.src
        moved: list[Dimension] = []
        conditions: list[UOp | bool] = []
        along = zip(index, source.shape, *(node.params[name] for name in ("low", "interior")), strict=True)
        for i, n, low, interior in along:
            at = sint.sub(i, low)
            conditions += [e.at_most(0, at), e.at_most(at, (n - 1) * (interior + 1))]
            if interior:
                at = sint.maximum(at, 0)
                conditions.append(e.equal(sint.mod(at, interior + 1), 0))
                at = sint.floordiv(at, interior + 1)
            moved.append(at)
        inside = e.conjunction(conditions)
        if inside is False:
            (value,) = yield [(fill, (), condition)]
            return value
        if inside is True:
            (value,) = yield [(source, tuple(moved), condition)]
            return value
        assert isinstance(inside, UOp)
        value, other = yield [(source, tuple(moved), e.both(condition, inside)), (fill, (), condition)]
        return scalar.build(scalar.WHERE, inside, value, other)

    def reference(
        self, x: Any, value: Any, *, low: tuple[int, ...], high: tuple[int, ...], interior: tuple[int, ...]
    ) -> Any:
        x = np.asarray(x)
        _, shape = self.out(x, np.asarray(value), low=low, high=high, interior=interior)
        result = np.full(shape, value, x.dtype)
        where_x = [
            np.s_[before : before + n + max(n - 1, 0) * between : between + 1]
            for n, before, between in zip(x.shape, low, interior, strict=True)
        ]
        result[tuple(where_x)] = x
        return result

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], **params: Any) -> UOp | None:
        return pad(
            *[zeros_like(a) if t is None else t for a, t in zip(args, tangents, strict=True)], **params
        )

    def vjp(
        self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool], **params: Any
    ) -> list[UOp | None]:
        low, interior = params["low"], params["interior"]
        x = args[0]
        # One past the last element that came from x, so that the step takes each of them.
        limit = tuple(
            [
                a + (n - 1) * (s + 1) + 1 if n != 0 else a
                for n, a, s in zip(x.shape, low, interior, strict=True)
            ]
        )
        inner = slice_(ct, start=low, limit=limit, step=tuple([s + 1 for s in interior]))
        every = tuple(range(ct.ndim))
        return [
            inner if needs[0] else None,
            reduce_sum(ct, axes=every) - reduce_sum(inner, axes=every) if needs[1] else None,
        ]

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any) -> UOp:
        x, value = args
        params = {name: (0, *amounts) for name, amounts in params.items()}
        if not batched[1]:
            return pad(x, value, **params)
        x = x if batched[0] else broadcast_to_batch(x, size)
        inner = pad(full(True, dtypes.bool_, x.shape), full(False, dtypes.bool_, ()), **params)
        padded = pad(x, full(0, x.dtype, ()), **params)
        return where(inner, padded, broadcast(value, shape=padded.shape, axes=(0,)))

    def samples(self) -> Iterator[Sample]:
        cases = (
            ((2, 3), {"low": (1, 0), "high": (0, 2), "interior": (0, 0)}),
            ((3,), {"low": (1,), "high": (2,), "interior": (2,)}),
            ((), {"low": (), "high": (), "interior": ()}),
            ((0,), {"low": (2,), "high": (1,), "interior": (3,)}),
            ((1, 2), {"low": (0, 0), "high": (0, 0), "interior": (1, 1)}),
        )
        for shape, params in cases:
            yield Sample(
                (np.arange(prod(shape), dtype=np.float32).reshape(shape), np.float32(0.5).reshape(())), params
            )
        for dtype in dtypes.MOVED:
            yield Sample((np.ones((2, 3), dtype), np.zeros((), dtype)), cases[0][1])


class Slice(Movement):
    """The elements from start up to, not including, limit, every step-th, per axis; 0 <= start <= limit <= size."""

    params = ("start", "limit", "step")
    cases = (
        ((4, 5), {"start": (1, 0), "limit": (3, 5), "step": (1, 2)}),
        ((), {"start": (), "limit": (), "step": ()}),
        ((6,), {"start": (1,), "limit": (6,), "step": (3,)}),
        ((3,), {"start": (2,), "limit": (2,), "step": (1,)}),
        ((0,), {"start": (0,), "limit": (0,), "step": (1,)}),
    )

    def out(self, x: Any, *, start: tuple[int, ...], limit: tuple[Any, ...], step: tuple[int, ...]) -> Any:
        if not len(start) == len(limit) == len(step) == x.ndim or any(s < 1 for s in step):
            raise ValueError(
                f"slice of {spell([x])} by {start}, {limit}, {step}: each needs {x.ndim} numbers, and steps are >= 1"
            )
        if not all(0 <= a <= b and b <= n for n, a, b in zip(x.shape, start, limit, strict=True)):
            raise ValueError(f"slice of {spell([x])} from {start} to {limit} is not within the array")
        return x.dtype, tuple([(b - a + s - 1) // s for a, b, s in zip(start, limit, step, strict=True)])

    def source_index(self, node: UOp, index: e.Index) -> e.Index:
        start, step = node.params["start"], node.params["step"]
        return tuple([sint.add(a, sint.mul(i, s)) for i, a, s in zip(index, start, step, strict=True)])

    def reference(
        self, x: Any, *, start: tuple[int, ...], limit: tuple[int, ...], step: tuple[int, ...]
    ) -> Any:
        return x[tuple([slice(*bounds) for bounds in zip(start, limit, step, strict=True)])]

    def transpose(
        self, ct: UOp, args: Sequence[UOp], index: int, *, start: Any, limit: Any, step: Any
    ) -> UOp:
        used = [a + (n - 1) * s + 1 if n != 0 else a for a, n, s in zip(start, ct.shape, step, strict=True)]
        high = tuple([n - u for n, u in zip(args[0].shape, used, strict=True)])
        return pad(ct, full(0, ct.dtype, ()), low=start, high=high, interior=tuple([s - 1 for s in step]))

    def batch(
        self, size: Any, args: Sequence[UOp], batched: Sequence[bool], *, start: Any, limit: Any, step: Any
    ) -> UOp:
        return slice_(args[0], start=(0, *start), limit=(size, *limit), step=(1, *step))


class Concatenate(Linear):
    """The arguments one after another along `axis`."""

    family = "movement"
    params = ("axis",)
    work = 4

    def out(self, *args: Any, axis: int) -> Any:
        first = args[0]
        others = [a.shape[:axis] + a.shape[axis + 1 :] for a in args]
        if (
            any(a.dtype is not first.dtype or a.ndim != first.ndim for a in args)
            or not 0 <= axis < first.ndim
        ):
            raise TypeError(
                f"can't concatenate {spell(args)} along axis {axis}: they need one dtype and number of axes"
            )
        if any(other != others[0] for other in others):
            raise ValueError(f"can't concatenate {spell(args)} along axis {axis}: their other axes differ")
        total = sum([a.shape[axis] for a in args])
        return first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :])

    def element(self, node: UOp, index: e.Index, condition: UOp | None) -> e.Rule:
        axis = node.params["axis"]
        i = index[axis]
        begin: Dimension = 0
        requests: list[e.Request] = []
        inside: list[UOp | bool] = []
        for source in node.src:
            at = sint.sub(i, begin)
            begin = sint.add(begin, source.shape[axis])
            within = e.conjunction([e.at_most(0, at), e.at_most(at, sint.sub(source.shape[axis], 1))])
            if within is not False:
                needed = condition if within is True else e.both(condition, within)
                requests.append((source, (*index[:axis], at, *index[axis + 1 :]), needed))
                inside.append(within)
        values = yield requests
        result = values[-1]
        for value, within in reversed(list(zip(values[:-1], inside[:-1], strict=True))):
            assert isinstance(within, UOp)
            result = scalar.build(scalar.WHERE, within, value, result)
        return result

    def reference(self, *args: Any, axis: int) -> Any:
        return np.concatenate(args, axis)

    def vjp(
        self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool], *, axis: int
    ) -> list[UOp | None]:
        pieces: list[UOp | None] = []
        begin = 0
        for arg, need in zip(args, needs, strict=True):
            end = begin + arg.shape[axis]
            start = (*(0,) * axis, begin, *(0,) * (ct.ndim - axis - 1))
            limit = (*ct.shape[:axis], end, *ct.shape[axis + 1 :])
            pieces.append(slice_(ct, start=start, limit=limit, step=(1,) * ct.ndim) if need else None)
            begin = end
        return pieces

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], *, axis: int) -> UOp:
        return concatenate(*instantiate_batch(size, args, batched), axis=axis + 1)

    def samples(self) -> Iterator[Sample]:
        a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 2), np.float32)
        yield Sample((a, b), {"axis": 1})
        yield Sample((a,), {"axis": 0})
        yield Sample((a, np.zeros((0, 3), np.float32), a), {"axis": 0})
        for dtype in dtypes.MOVED:
            yield Sample((a.astype(dtype), b.astype(dtype)), {"axis": 1})


pad = Pad()
slice_, concatenate = Slice(), Concatenate()
