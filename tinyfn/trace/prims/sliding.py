"""Windows that move along axes of an array, and the greatest and least element of each.

Element k of the window at place p is element p·stride + k·dilation of an axis. `windows` reads it there, and `from_windows`, the
transpose of `windows`, puts it there: so an array that is repeated along axes for the windows' elements, `windows` of it and a
reduction over these axes are a sliding sum or pooling, and the derivative of this is the same the other way round. Both are
movement: in a compiled program they are index expressions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from .. import dtype as dtypes
from .. import elements as e
from .. import scalar, sint
from ..prim import Linear, Sample, full_like, spell
from ..sint import Dimension
from ..uop import UOp, const
from .comparison import eq
from .movement import broadcast, iota, reshape
from .reduction import ReduceMax, reduce_min, reduce_sum, spread
from .selection import where

Sizes = tuple[int, ...]


def places(n: Any, size: int, stride: int, dilation: int) -> Any:
    """In how many places along an axis of n elements a window of `size` elements fits."""
    return sint.maximum((n - (size - 1) * dilation - 1) // stride + 1, 0)


class _Sliding(Linear):
    """What both share: `axes[i]` is the axis of elements or places, `inner[i]` that of the elements of a window."""

    family = "movement"

    def _check(self, x: Any, axes: Sizes, inner: Sizes, strides: Sizes, dilations: Sizes) -> None:
        attempt = f"{self.name} of {spell([x])} along axes {axes} with windows along {inner}"
        if not len(axes) == len(inner) == len(strides) == len(dilations):
            raise ValueError(f"{attempt}: strides {strides} and dilations {dilations} must be as many")
        if len({*axes, *inner}) != 2 * len(axes) or any(not 0 <= a < x.ndim for a in (*axes, *inner)):
            raise ValueError(f"{attempt}: the axes must be distinct and in 0..{x.ndim - 1}")
        if any(n < 1 for n in (*strides, *dilations)):
            raise ValueError(f"{attempt}: strides {strides} and dilations {dilations} must be 1 or more")

    def _view(self, x: np.ndarray, shape: Sequence[int], params: dict[str, Any]) -> np.ndarray:
        """Of an array of elements the windows, of this shape, in the same memory."""
        steps = list(x.strides)
        along = zip(*(params[name] for name in ("axes", "inner", "strides", "dilations")), strict=True)
        for axis, k, stride, dilation in along:
            steps[k] += dilation * x.strides[axis]
            steps[axis] *= stride
        plain = x.view(np.dtype((np.void, x.itemsize)))  # as_strided does not know the types of ml_dtypes
        return np.lib.stride_tricks.as_strided(plain, tuple(shape), tuple(steps)).view(x.dtype)


class Windows(_Sliding):
    """Element (p, k) of the result is element (p·stride + k·dilation, k) of x, along each pair of axes."""

    params = ("axes", "inner", "strides", "dilations")

    def out(self, x: Any, *, axes: Sizes, inner: Sizes, strides: Sizes, dilations: Sizes) -> Any:
        self._check(x, axes, inner, strides, dilations)
        shape = list(x.shape)
        for axis, k, stride, dilation in zip(axes, inner, strides, dilations, strict=True):
            shape[axis] = places(x.shape[axis], x.shape[k], stride, dilation)
        return x.dtype, tuple(shape)

    def source_index(self, node: UOp, index: e.Index) -> e.Index:
        moved = list(index)
        along = zip(*(node.params[name] for name in self.params), strict=True)
        for axis, k, stride, dilation in along:
            moved[axis] = sint.add(sint.mul(index[axis], stride), sint.mul(index[k], dilation))
        return tuple(moved)

    def reference(self, x: Any, **params: Any) -> Any:
        x = np.asarray(x)
        _, shape = self.out(x, **params)
        return self._view(x, shape, params) if x.size else np.zeros(shape, x.dtype)

    def transpose(self, ct: UOp, args: Sequence[UOp], index: int, **params: Any) -> UOp:
        return from_windows(ct, sizes=tuple([args[0].shape[axis] for axis in params["axes"]]), **params)

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any) -> UOp:
        return windows(args[0], **_after_batch(params))

    def samples(self) -> Iterator[Sample]:
        for shape, params in _cases():
            yield Sample((_numbers(shape, np.float32),), params)
        shape, params = next(iter(_cases()))
        for dtype in dtypes.ALL:
            yield Sample((_numbers(shape, dtype),), params)


class FromWindows(_Sliding):
    """Element (i, k) of the result is the element (p, k) of x with i = p·stride + k·dilation, or 0 if there is none.

    `sizes` are those of the axes of elements."""

    params = ("axes", "inner", "strides", "dilations", "sizes")

    def out(
        self, x: Any, *, axes: Sizes, inner: Sizes, strides: Sizes, dilations: Sizes, sizes: tuple[Any, ...]
    ) -> Any:
        self._check(x, axes, inner, strides, dilations)
        shape = list(x.shape)
        for axis, k, stride, dilation, n in zip(axes, inner, strides, dilations, sizes, strict=True):
            if places(n, x.shape[k], stride, dilation) != x.shape[axis]:
                raise ValueError(
                    f"{self.name} of {spell([x])}: axis {axis} is not that of the windows in {n} elements"
                )
            shape[axis] = n
        return x.dtype, tuple(shape)

    def element(self, node: UOp, index: e.Index, condition: UOp | None) -> e.Rule:
        (source,) = node.src
        moved = list(index)
        conditions: list[UOp | bool] = []
        for axis, k, stride, dilation, _ in zip(*(node.params[name] for name in self.params), strict=True):
            offset: Dimension = sint.sub(index[axis], sint.mul(index[k], dilation))
            last = (source.shape[axis] - 1) * stride
            conditions += [e.at_most(0, offset), e.at_most(offset, last)]
            if stride > 1:
                offset = sint.maximum(offset, 0)
                conditions.append(e.equal(sint.mod(offset, stride), 0))
                offset = sint.floordiv(offset, stride)
            moved[axis] = offset
        inside = e.conjunction(conditions)
        if inside is False:
            yield []
            return const(0, node.dtype)
        (value,) = yield [(source, tuple(moved), e.both(condition, inside))]
        return value if inside is True else scalar.build(scalar.WHERE, inside, value, const(0, node.dtype))

    def reference(self, x: Any, *, sizes: Sizes, **params: Any) -> Any:
        x = np.asarray(x)
        _, shape = self.out(x, sizes=sizes, **params)
        result = np.zeros(shape, x.dtype)
        if x.size:
            self._view(result, x.shape, params)[...] = x
        return result

    def transpose(self, ct: UOp, args: Sequence[UOp], index: int, *, sizes: Sizes, **params: Any) -> UOp:
        return windows(ct, **params)

    def batch(
        self, size: Any, args: Sequence[UOp], batched: Sequence[bool], *, sizes: Sizes, **params: Any
    ) -> UOp:
        return from_windows(args[0], sizes=sizes, **_after_batch(params))

    def samples(self) -> Iterator[Sample]:
        for shape, params in _cases():
            sizes = tuple([shape[axis] for axis in params["axes"]])
            _, taken = windows.out(_numbers(shape, np.float32), **params)
            yield Sample((_numbers(taken, np.float32),), {**params, "sizes": sizes})
        for dtype in dtypes.ALL:
            yield Sample((_numbers((3, 2), dtype),), {**_along((0,), (1,), (2,), (1,)), "sizes": (7,)})


def _after_batch(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters where all axes have moved by one."""
    return {**params, **{name: tuple([a + 1 for a in params[name]]) for name in ("axes", "inner")}}


class WindowMax(ReduceMax):
    """The greatest element over axes, NaN if there is one; of ties the first has the derivative."""

    def _is_first(self, out: UOp, x: UOp, axes: Sizes) -> UOp:
        """Where the first elements are that equal the result."""
        count = sint.prod([x.shape[axis] for axis in axes])
        along = tuple([n if axis in axes else 1 for axis, n in enumerate(x.shape)])
        numbers = reshape(iota.node(dtype=dtypes.int32, shape=(count,), axis=0), shape=along)
        numbers = broadcast(numbers, shape=x.shape, axes=tuple(range(x.ndim)))
        chosen = where(eq(x, spread(out, axes, x.shape)), numbers, full_like(numbers, 2**31 - 1))
        return eq(numbers, spread(reduce_min(chosen, axes=axes), axes, x.shape))

    def jvp(
        self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], *, axes: Sizes
    ) -> UOp | None:
        tangent = tangents[0]
        assert tangent is not None
        chosen = self._is_first(out, args[0], axes)
        return reduce_sum(where(chosen, tangent, full_like(tangent, 0)), axes=axes)

    def vjp(self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool], *, axes: Sizes) -> list[UOp]:
        x = args[0]
        return [where(self._is_first(out, x, axes), spread(ct, axes, x.shape), full_like(x, 0))]


class WindowMin(WindowMax):
    """The least element over axes, NaN if there is one; of ties the first has the derivative."""

    def combine(self, dtype: Any) -> Any:
        return scalar.AND if dtype is dtypes.bool_ else scalar.MIN

    def reference(self, x: Any, *, axes: Sizes) -> Any:
        return np.min(x, axis=axes)


def _numbers(shape: Sizes, dtype: Any) -> np.ndarray:
    return (np.arange(prod(shape)) % 50).reshape(shape).astype(dtype)


def _along(axes: Sizes, inner: Sizes, strides: Sizes, dilations: Sizes) -> dict[str, Any]:
    return {"axes": axes, "inner": inner, "strides": strides, "dilations": dilations}


def _cases() -> Iterator[tuple[Sizes, dict[str, Any]]]:
    yield (7, 3), _along((0,), (1,), (1,), (1,))
    yield (8, 3), _along((0,), (1,), (2,), (1,))
    yield (9, 2), _along((0,), (1,), (2,), (3,))
    yield (2, 6, 7, 3, 2), _along((1, 2), (4, 3), (2, 1), (1, 2))
    yield (3, 2, 5), _along((2,), (1,), (4,), (1,))
    yield (2, 3), _along((0,), (1,), (1,), (1,))
    yield (5, 1, 0), _along((0,), (1,), (1,), (1,))
    yield (4,), _along((), (), (), ())


windows, from_windows = Windows(), FromWindows()
window_max, window_min = WindowMax(), WindowMin()
