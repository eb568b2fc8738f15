"""Reductions over axes, and arg-reductions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import dtype as dtypes
from .. import sint
from ..dtype import DType
from ..prim import (
    _BITS,
    _NUMBER_OR_COMPLEX,
    REGISTRY,
    Linear,
    Primitive,
    Reduction,
    Sample,
    _distinct,
    full_like,
    spell,
)
from ..scalar import ADD, AND, MAX, MIN, MUL, OR, ScalarOp
from ..uop import UOp, const
from .comparison import eq, ne
from .extremes import max
from .selection import convert, where


def _wide(x: Any, reduce: Any, axes: tuple[int, ...]) -> Any:
    """A NumPy reduction carried out in the accumulator's type and rounded once."""
    x = np.asarray(x)
    return np.asarray(reduce(x, axis=axes, dtype=dtypes.accumulator(x.dtype))).astype(x.dtype)


def spread(y: UOp, axes: tuple[int, ...], shape: tuple[Any, ...]) -> UOp:
    """A reduction's result repeated over the axes that were reduced."""
    kept = tuple([axis for axis in range(len(shape)) if axis not in axes])
    return REGISTRY["broadcast"].node(y, shape=shape, axes=kept)


class ReduceSum(Reduction, Linear):
    """The sum over axes; half precision and small integers are accumulated in 32 bits. The sum of nothing is 0.

    >>> lax.reduce_sum(tnp.ones((2, 3, 4)), (0, 2))
    Array([8., 8., 8.], dtype=float32)
    """

    kinds = _NUMBER_OR_COMPLEX

    def combine(self, dtype: DType) -> ScalarOp:
        return ADD

    def reference(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        return _wide(x, np.sum, axes)

    def transpose(self, ct: UOp, args: Sequence[UOp], index: int, *, axes: tuple[int, ...]) -> UOp:
        return spread(ct, axes, args[0].shape)


class ReduceProd(Reduction):
    """The product over axes. The product of nothing is 1.

    >>> lax.reduce_prod(tnp.array([[1, 2], [3, 4]]), (0, 1))
    Array(24, dtype=int32)
    """

    kinds = _NUMBER_OR_COMPLEX

    def combine(self, dtype: DType) -> ScalarOp:
        return MUL

    def reference(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        return _wide(x, np.prod, axes)

    def jvp(
        self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], *, axes: tuple[int, ...]
    ) -> UOp | None:
        tangent = tangents[0]
        if any(isinstance(args[0].shape[axis], int) and args[0].shape[axis] == 0 for axis in axes):
            return None
        assert tangent is not None
        return reduce_sum(tangent * _products_of_others(args[0], axes), axes=axes)

    def vjp(
        self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool], *, axes: tuple[int, ...]
    ) -> list[UOp]:
        return [spread(ct, axes, args[0].shape) * _products_of_others(args[0], axes)]


def _products_of_others(x: UOp, axes: tuple[int, ...]) -> UOp:
    """For each element the product of all others: of those before it and those after it, as one of them may be zero."""
    prims, kept = REGISTRY, [axis for axis in range(x.ndim) if axis not in axes]
    order, last = (*kept, *axes), len(kept)
    count = sint.prod([x.shape[axis] for axis in axes])
    if isinstance(count, int) and count <= 1:
        return full_like(x, 1)
    moved = prims["transpose"].node(x, permutation=order)
    rows = prims["reshape"].node(moved, shape=(*moved.shape[:last], count))
    zeros, one = (0,) * (last + 1), (*(0,) * last, 1)

    def others(reverse: bool) -> UOp:
        """The products of the elements before each, or after it."""
        products = prims["cumprod"].node(rows, axis=last, reverse=reverse)
        start, limit = (one, rows.shape) if reverse else (zeros, (*rows.shape[:last], count - 1))
        rest = prims["slice"].node(products, start=start, limit=limit, step=(1,) * (last + 1))
        low, high = (zeros, one) if reverse else (one, zeros)
        return prims["pad"].node(rest, const(1, x.dtype), low=low, high=high, interior=zeros)

    found = prims["reshape"].node(others(False) * others(True), shape=moved.shape)
    return prims["transpose"].node(found, permutation=tuple([order.index(i) for i in range(x.ndim)]))


class ReduceMax(Reduction):
    """The greatest element over axes, NaN if there is one; ties share the derivative equally."""

    kinds = (*_BITS, "float")
    needs_elements = True

    def combine(self, dtype: DType) -> ScalarOp:
        return OR if dtype is dtypes.bool_ else MAX

    def reference(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        return np.max(x, axis=axes)

    def _weights(self, out: UOp, x: UOp, axes: tuple[int, ...]) -> UOp:
        chosen = convert(eq(x, spread(out, axes, x.shape)), dtype=x.dtype)
        # At least one, so that a NaN, which equals nothing, gives the derivative 0 rather than 0 / 0.
        count = reduce_sum(chosen, axes=axes)
        return chosen / spread(max(count, full_like(count, 1)), axes, x.shape)

    def jvp(
        self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], *, axes: tuple[int, ...]
    ) -> UOp | None:
        tangent = tangents[0]
        assert tangent is not None
        return reduce_sum(tangent * self._weights(out, args[0], axes), axes=axes)

    def vjp(
        self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool], *, axes: tuple[int, ...]
    ) -> list[UOp]:
        return [spread(ct, axes, args[0].shape) * self._weights(out, args[0], axes)]


class ReduceMin(ReduceMax):
    """The least element over axes, NaN if there is one; ties share the derivative equally."""

    def combine(self, dtype: DType) -> ScalarOp:
        return AND if dtype is dtypes.bool_ else MIN

    def reference(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        return np.min(x, axis=axes)


class ReduceAnd(Reduction):
    """Whether all bools over axes hold. All of nothing hold."""

    kinds = ("bool",)

    def combine(self, dtype: DType) -> ScalarOp:
        return AND

    def reference(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        return np.all(x, axis=axes)


class ReduceOr(Reduction):
    """Whether any bool over axes holds. None of nothing holds."""

    kinds = ("bool",)

    def combine(self, dtype: DType) -> ScalarOp:
        return OR

    def reference(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        return np.any(x, axis=axes)


class Argmax(Primitive):
    """The position of the greatest element along `axis`, the first of equals, the first NaN if there is one."""

    family = "reduction"
    params = ("axis", "dtype")
    kinds = (*_BITS, "float")

    def out(self, x: Any, *, axis: int, dtype: DType) -> Any:
        if not 0 <= axis < x.ndim:
            raise ValueError(f"{self.name} along axis {axis} of {spell([x])}: there is no such axis")
        if dtypes.kind(x.dtype) not in self.kinds:
            raise TypeError(f"{self.name} does not accept {dtypes.name(x.dtype)}")
        if not dtypes.is_integer(dtype):
            raise TypeError(f"{self.name} gives positions, which are integers and not {dtypes.name(dtype)}")
        if isinstance(x.shape[axis], int) and x.shape[axis] == 0:
            raise ValueError(f"{self.name} along axis {axis} of {spell([x])}: there are no elements")
        return dtype, x.shape[:axis] + x.shape[axis + 1 :]

    def reference(self, x: Any, *, axis: int, dtype: DType) -> Any:
        return np.asarray(np.argmax(x, axis)).astype(dtype)

    def decomposition(self, x: UOp, *, axis: int, dtype: DType) -> UOp | None:
        """The least of the positions where the extreme is, or where a NaN is if there is one: that equals nothing."""
        if x.dtype in dtypes.NARROW_FLOATS:
            x = convert(x, dtype=dtypes.float32)
        found = eq(x, spread(self._extreme(x, axes=(axis,)), (axis,), x.shape))
        if dtypes.is_float(x.dtype):
            found = found | ne(x, x)
        few = isinstance(x.shape[axis], int) and x.shape[axis] < 2**31
        numbers = REGISTRY["iota"].node(dtype=dtypes.int32 if few else dtypes.int64, shape=x.shape, axis=axis)
        none = full_like(numbers, np.iinfo(numbers.dtype).max)
        return convert(reduce_min(where(found, numbers, none), axes=(axis,)), dtype=dtype)

    def _extreme(self, x: UOp, axes: tuple[int, ...]) -> UOp:
        return reduce_max(x, axes=axes)

    def batch(
        self, size: Any, args: Sequence[UOp], batched: Sequence[bool], *, axis: int, dtype: DType
    ) -> UOp:
        return self.node(args[0], axis=axis + 1, dtype=dtype)

    def samples(self) -> Iterator[Sample]:
        generator = np.random.default_rng(0)
        for dtype in dtypes.ALL:
            if dtypes.kind(dtype) in self.kinds and dtype not in dtypes.NARROW_FLOATS:
                yield Sample(
                    (_distinct(generator, dtype, (3, 4)),), {"axis": 1, "dtype": dtypes.int32}, False
                )
        ties = np.array([[1.0, 3.0, 3.0], [np.nan, 1.0, np.nan]], np.float32)
        yield Sample((ties,), {"axis": 1, "dtype": dtypes.int64}, False)
        yield Sample((np.ones((1, 0), np.float32),), {"axis": 0, "dtype": dtypes.int32}, False)


class Argmin(Argmax):
    """The position of the least element along `axis`, the first of equals, the first NaN if there is one."""

    def reference(self, x: Any, *, axis: int, dtype: DType) -> Any:
        return np.asarray(np.argmin(x, axis)).astype(dtype)

    def _extreme(self, x: UOp, axes: tuple[int, ...]) -> UOp:
        return reduce_min(x, axes=axes)


reduce_sum, reduce_prod, reduce_max, reduce_min = ReduceSum(), ReduceProd(), ReduceMax(), ReduceMin()
reduce_and, reduce_or, argmax, argmin = ReduceAnd(), ReduceOr(), Argmax(), Argmin()
