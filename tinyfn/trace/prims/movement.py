"""Primitives that move elements without computing on them; each is linear, and the transpose of another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np

from .. import dtype as dtypes
from .. import elements as e
from .. import scalar, sint
from ..dtype import DType
from ..prim import Linear, Primitive, Sample, broadcast_to_batch, full, instantiate_batch, spell, zeros_like
from ..sint import Dimension
from ..uop import UOp
from .reduction import reduce_sum
from .selection import where

T = TypeVar("T")


class Movement(Linear):
    """One array in, the same elements out in other places."""

    family = "movement"
    cases: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = ()

    def samples(self) -> Iterator[Sample]:
        for shape, params in self.cases:
            yield Sample((np.arange(prod(shape), dtype=np.float32).reshape(shape),), params)
        shape, params = self.cases[0]
        for dtype in dtypes.ALL:
            yield Sample((np.arange(prod(shape)).reshape(shape).astype(dtype),), params)


class Reshape(Movement):
    """The same elements in row-major order, in another shape of the same size."""

    params = ("shape",)
    cases = (
        ((2, 6), {"shape": (3, 4)}),
        ((), {"shape": (1, 1)}),
        ((0, 3), {"shape": (0,)}),
        ((4,), {"shape": (4,)}),
    )

    def out(self, x: Any, *, shape: tuple[Any, ...]) -> tuple[DType, tuple[Any, ...]]:
        if _size(shape) != _size(x.shape):
            raise ValueError(
                f"can't reshape {spell([x])} into {_shape(shape)}: {_size(x.shape)} elements are not {_size(shape)}"
            )
        return x.dtype, shape

    def source_index(self, node: UOp, index: e.Index) -> e.Index:
        source = node.src[0]
        # Axes that both shapes end or begin with keep their index, so that no division enters.
        head = _equal_sizes(node.shape, source.shape)
        tail = _equal_sizes(node.shape[head:][::-1], source.shape[head:][::-1])
        middle = slice(head, len(node.shape) - tail)
        inner = source.shape[head : len(source.shape) - tail]
        moved = e.unravel(inner, e.position(node.shape[middle], index[middle]))
        return (*index[:head], *moved, *index[len(node.shape) - tail :])

    def reference(self, x: Any, *, shape: tuple[int, ...]) -> Any:
        return np.reshape(x, shape)

    def transpose(self, ct: UOp, args: Sequence[UOp], index: int, *, shape: tuple[Any, ...]) -> UOp:
        return reshape(ct, shape=args[0].shape)

    def batch(
        self, size: Any, args: Sequence[UOp], batched: Sequence[bool], *, shape: tuple[Any, ...]
    ) -> UOp:
        return reshape(args[0], shape=(size, *shape))


class Transpose(Movement):
    """Axis i of the result is axis permutation[i] of the argument."""

    params = ("permutation",)
    cases = (
        ((2, 3, 4), {"permutation": (2, 0, 1)}),
        ((), {"permutation": ()}),
        ((3, 0), {"permutation": (1, 0)}),
        ((3,), {"permutation": (0,)}),
    )

    def out(self, x: Any, *, permutation: tuple[int, ...]) -> tuple[DType, tuple[Any, ...]]:
        if sorted(permutation) != list(range(x.ndim)):
            raise ValueError(
                f"can't transpose {spell([x])} by {permutation}: it is not a permutation of its {x.ndim} axes"
            )
        return x.dtype, tuple([x.shape[axis] for axis in permutation])

    def source_index(self, node: UOp, index: e.Index) -> e.Index:
        source_index: list[Dimension] = [0] * len(index)
        for i, axis in zip(index, node.params["permutation"], strict=True):
            source_index[axis] = i
        return tuple(source_index)

    def reference(self, x: Any, *, permutation: tuple[int, ...]) -> Any:
        return np.transpose(x, permutation)

    def transpose(self, ct: UOp, args: Sequence[UOp], index: int, *, permutation: tuple[int, ...]) -> UOp:
        return transpose(ct, permutation=_inverse(permutation))

    def batch(
        self, size: Any, args: Sequence[UOp], batched: Sequence[bool], *, permutation: tuple[int, ...]
    ) -> UOp:
        return transpose(args[0], permutation=(0, *[axis + 1 for axis in permutation]))


class Broadcast(Movement):
    """Axis i of the argument becomes axis axes[i] of the result, repeated if its size is 1; other axes are new."""

    params = ("shape", "axes")
    cases = (
        ((3,), {"shape": (2, 3), "axes": (1,)}),
        ((), {"shape": (2, 2), "axes": ()}),
        ((2, 1), {"shape": (2, 4, 3), "axes": (0, 2)}),
        ((1,), {"shape": (0,), "axes": (0,)}),
        ((2,), {"shape": (2,), "axes": (0,)}),
        ((3,), {"shape": (0, 3), "axes": (1,)}),
    )

    def out(self, x: Any, *, shape: tuple[Any, ...], axes: tuple[int, ...]) -> tuple[DType, tuple[Any, ...]]:
        fits = len(axes) == x.ndim and list(axes) == sorted(set(axes))
        if not fits or any(
            axis >= len(shape) or n not in (1, shape[axis]) for n, axis in zip(x.shape, axes, strict=True)
        ):
            raise ValueError(f"can't broadcast {spell([x])} into shape {_shape(shape)} along axes {axes}")
        return x.dtype, shape

    def source_index(self, node: UOp, index: e.Index) -> e.Index:
        source, axes = node.src[0], node.params["axes"]
        return tuple([0 if n == 1 else index[a] for n, a in zip(source.shape, axes, strict=True)])

    def reference(self, x: Any, *, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
        x = np.ascontiguousarray(x) if axes else np.asarray(x)
        if not x.size:
            return np.empty(shape, x.dtype)
        # The constructor makes the same view as np.broadcast_to in an eighth of the time.
        strides = [0] * len(shape)
        for n, stride, axis in zip(x.shape, x.strides, axes, strict=True):
            strides[axis] = 0 if n == 1 else stride
        return np.ndarray(shape, x.dtype, x, 0, tuple(strides))

    def transpose(
        self, ct: UOp, args: Sequence[UOp], index: int, *, shape: tuple[Any, ...], axes: tuple[int, ...]
    ) -> UOp:
        x = args[0]
        kept = [axis for axis, n in zip(axes, x.shape, strict=True) if n is shape[axis] or n == shape[axis]]
        summed = reduce_sum(ct, axes=tuple([axis for axis in range(len(shape)) if axis not in kept]))
        return reshape(summed, shape=x.shape) if summed.shape != x.shape else summed

    def batch(
        self,
        size: Any,
        args: Sequence[UOp],
        batched: Sequence[bool],
        *,
        shape: tuple[Any, ...],
        axes: tuple[int, ...],
    ) -> UOp:
        return broadcast(args[0], shape=(size, *shape), axes=(0, *[axis + 1 for axis in axes]))


class Pad(Primitive):
    """x with `value` before it (low), after it (high) and between its elements (interior), per axis."""

    family = "movement"
    params = ("low", "high", "interior")

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
        for dtype in dtypes.ALL:
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


class Flip(Movement):
    """The elements in reverse order along `axes`."""

    params = ("axes",)
    cases = (((2, 3), {"axes": (1,)}), ((2, 3), {"axes": (0, 1)}), ((), {"axes": ()}), ((0,), {"axes": (0,)}))

    def out(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        if len(set(axes)) != len(axes) or any(not 0 <= axis < x.ndim for axis in axes):
            raise ValueError(f"can't flip {spell([x])} along axes {axes}")
        return x.dtype, x.shape

    def source_index(self, node: UOp, index: e.Index) -> e.Index:
        axes, along = node.params["axes"], zip(index, node.shape, strict=True)
        return tuple([sint.sub(n - 1, i) if a in axes else i for a, (i, n) in enumerate(along)])

    def reference(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        return np.flip(x, axes)

    def transpose(self, ct: UOp, args: Sequence[UOp], index: int, *, axes: tuple[int, ...]) -> UOp:
        return flip(ct, axes=axes)

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], *, axes: tuple[int, ...]) -> UOp:
        return flip(args[0], axes=tuple([axis + 1 for axis in axes]))


class Concatenate(Linear):
    """The arguments one after another along `axis`."""

    family = "movement"
    params = ("axis",)

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
        for dtype in dtypes.ALL:
            yield Sample((a.astype(dtype), b.astype(dtype)), {"axis": 1})


class Iota(Primitive):
    """Along `axis` the numbers 0, 1, 2, ..., the same along the other axes."""

    family = "movement"
    params = ("dtype", "shape", "axis")

    def out(self, *, dtype: DType, shape: tuple[Any, ...], axis: int) -> Any:
        if not 0 <= axis < len(shape):
            raise ValueError(f"iota along axis {axis} of shape {_shape(shape)}: there is no such axis")
        if dtypes.kind(dtype) not in ("unsigned", "signed", "float"):
            raise TypeError(f"iota of {dtype.name}: choose an integer or a float dtype")
        return dtype, shape

    def element(self, node: UOp, index: e.Index, condition: UOp | None) -> e.Rule:
        yield []
        return scalar.build(scalar.CAST, e.as_node(index[node.params["axis"]]), arg=node.dtype)

    def reference(self, *, dtype: DType, shape: tuple[int, ...], axis: int) -> Any:
        numbers = np.arange(shape[axis]).astype(dtype)
        return np.broadcast_to(numbers.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any) -> UOp:
        raise AssertionError("an op without arguments is never batched")

    def samples(self) -> Iterator[Sample]:
        for dtype in (dtypes.int32, dtypes.float32, dtypes.uint8, dtypes.bfloat16):
            yield Sample((), {"dtype": dtype, "shape": (2, 3), "axis": 1}, differentiable=False)
        yield Sample((), {"dtype": dtypes.int32, "shape": (0,), "axis": 0}, differentiable=False)


class DimensionSize(Primitive):
    """The value of a dimension, which may be symbolic, as a single number."""

    family = "movement"
    params = ("size", "dtype")

    def out(self, *, size: Dimension, dtype: DType) -> Any:
        if dtypes.kind(dtype) not in ("unsigned", "signed", "float"):
            raise TypeError(f"the size of a dimension as {dtype.name}: choose an integer or a float dtype")
        return dtype, ()

    def element(self, node: UOp, index: e.Index, condition: UOp | None) -> e.Rule:
        yield []
        return scalar.build(scalar.CAST, e.as_node(node.params["size"]), arg=node.dtype)

    def reference(self, *, size: int, dtype: DType) -> Any:
        return np.asarray(size).astype(dtype)

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any) -> UOp:
        raise AssertionError("an op without arguments is never batched")

    def samples(self) -> Iterator[Sample]:
        for dtype in (dtypes.int32, dtypes.float32, dtypes.uint8):
            yield Sample((), {"size": 7, "dtype": dtype}, differentiable=False)


def _equal_sizes(a: Sequence[Dimension], b: Sequence[Dimension]) -> int:
    """With how many equal sizes two shapes begin."""
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    return count


def _size(shape: tuple[Any, ...]) -> Any:
    size: Any = 1
    for n in shape:
        size = size * n
    return size


def _shape(shape: tuple[Any, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _inverse(permutation: tuple[int, ...]) -> tuple[int, ...]:
    inverse = [0] * len(permutation)
    for i, axis in enumerate(permutation):
        inverse[axis] = i
    return tuple(inverse)


reshape, transpose, broadcast, pad, flip = Reshape(), Transpose(), Broadcast(), Pad(), Flip()
slice_, concatenate, iota, dimension_size = Slice(), Concatenate(), Iota(), DimensionSize()


def move_axis(x: T, source: int, target: int) -> T:
    """An array or a UOp with one axis moved and the others in their order; both counted from the front."""
    if source == target:
        return x
    value: Any = x
    order = [axis for axis in range(value.ndim) if axis != source]
    order.insert(target, source)
    return transpose(value, permutation=tuple(order))
