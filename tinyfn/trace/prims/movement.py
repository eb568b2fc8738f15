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
from ..prim import Linear, Primitive, Sample, spell
from ..sint import Dimension
from ..uop import UOp
from .reduction import reduce_sum

T = TypeVar("T")


class Movement(Linear):
    """One array in, the same elements out in other places."""

    family = "movement"
    cases: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = ()

    def samples(self) -> Iterator[Sample]:
        for shape, params in self.cases:
            yield Sample((np.arange(prod(shape), dtype=np.float32).reshape(shape),), params)
        shape, params = self.cases[0]
        for dtype in dtypes.MOVED:
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
        _check_sizes("reshape", shape)
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
        fits = len(axes) == x.ndim and list(axes) == sorted(set(axes)) and all(axis >= 0 for axis in axes)
        if not fits or any(
            axis >= len(shape) or n not in (1, shape[axis]) for n, axis in zip(x.shape, axes, strict=True)
        ):
            raise ValueError(f"can't broadcast {spell([x])} into shape {_shape(shape)} along axes {axes}")
        _check_sizes("broadcast", shape)
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


class Iota(Primitive):
    """Along `axis` the numbers 0, 1, 2, ..., the same along the other axes."""

    family = "movement"
    params = ("dtype", "shape", "axis")

    def out(self, *, dtype: DType, shape: tuple[Any, ...], axis: int) -> Any:
        if not 0 <= axis < len(shape):
            raise ValueError(f"iota along axis {axis} of shape {_shape(shape)}: there is no such axis")
        if dtypes.kind(dtype) not in ("unsigned", "signed", "float"):
            raise TypeError(f"iota of {dtype.name}: choose an integer or a float dtype")
        _check_sizes("iota", shape)
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


def _check_sizes(what: str, shape: tuple[Any, ...]) -> None:
    if any(isinstance(n, int) and n < 0 for n in shape):
        raise ValueError(f"{what}: the shape {_shape(shape)} has a negative size")


def _shape(shape: tuple[Any, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _inverse(permutation: tuple[int, ...]) -> tuple[int, ...]:
    inverse = [0] * len(permutation)
    for i, axis in enumerate(permutation):
        inverse[axis] = i
    return tuple(inverse)


reshape, transpose, broadcast, flip = Reshape(), Transpose(), Broadcast(), Flip()
iota, dimension_size = Iota(), DimensionSize()


def move_axis(x: T, source: int, target: int) -> T:
    """An array or a UOp with one axis moved and the others in their order; both counted from the front."""
    if source == target:
        return x
    value: Any = x
    order = [axis for axis in range(value.ndim) if axis != source]
    order.insert(target, source)
    return transpose(value, permutation=tuple(order))
