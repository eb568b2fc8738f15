"""extern: a call of a host library's function (a sort, a decomposition, ...) as an operation of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import dtype as dtypes
from ..dtype import DType
from ..prim import Primitive, Sample, instantiate_batch, spell
from ..uop import UOp


class HostFunction(NamedTuple):
    """A pure function of NumPy arrays: `call(*arrays) -> array`, and `result(*arguments) -> (dtype, shape)`.

    With `batches` it also accepts leading batch axes that all its arguments have in common."""

    name: str
    call: Callable[..., Any]
    result: Callable[..., tuple[DType, tuple[Any, ...]]]
    batches: bool = True

    def __repr__(self) -> str:
        return self.name


class Extern(Primitive):
    """The result of a HostFunction on the arguments; it has no derivative of its own."""

    family = "extern"
    params = ("function",)

    def out(self, *args: Any, function: HostFunction) -> tuple[DType, tuple[Any, ...]]:
        return function.result(*args)

    def reference(self, *args: Any, function: HostFunction) -> Any:
        return np.asarray(function.call(*[np.asarray(a) for a in args]))

    def jvp(
        self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], *, function: HostFunction
    ) -> UOp | None:
        raise TypeError(
            f"{function.name} has no derivative; give it one with custom_jvp, or use stop_gradient on its arguments"
        )

    def batch(
        self, size: Any, args: Sequence[UOp], batched: Sequence[bool], *, function: HostFunction
    ) -> UOp:
        if function.batches:
            return self.node(*instantiate_batch(size, args, batched), function=function)
        return super().batch(size, args, batched, function=function)

    def samples(self) -> Iterator[Sample]:
        for dtype in (*dtypes.INTEGERS, *dtypes.FLOATS, dtypes.bool_):
            x = np.array([[3, 1, 2], [0, 1, 0]]).astype(dtype)
            yield Sample((x,), {"function": ARGSORT}, differentiable=False)
        yield Sample(
            (np.array([np.nan, 1.0, -np.inf], np.float32),), {"function": ARGSORT}, differentiable=False
        )


def _argsort(x: np.ndarray) -> np.ndarray:
    """By a sort of numbers of 64 bits: those of the elements' order, and behind them, so that no two are equal, their positions.

    NumPy sorts numbers several times as fast as it finds an order that keeps equal elements in theirs."""
    if x.dtype not in (np.float16, np.float32, np.float64) and dtypes.is_float(x.dtype):
        x = x.astype(np.float32)  # NumPy does not know that ml_dtypes' NaNs go last
    n = x.shape[-1]
    if x.dtype.itemsize > 4 or not 16 <= n < 2**31:
        return np.argsort(x, axis=-1, kind="stable").astype(np.int32)
    both = _rising(x).astype(np.uint64) << np.uint64(32)
    both |= np.arange(n, dtype=np.uint64)
    both.sort(axis=-1)
    return both.astype(np.uint32).view(np.int32)  # the low halves


def _rising(x: np.ndarray) -> np.ndarray:
    """Unsigned numbers of 32 bits in the order of elements that are no wider; zeros of both signs are equal, NaN is last."""
    high = np.uint32(1 << 31)
    if x.dtype.kind != "f":
        return x.astype(np.uint32) if x.dtype.kind in "bu" else x.astype(np.int32).view(np.uint32) ^ high
    bits = np.add(x, np.float32(0), dtype=np.float32).view(np.uint32)
    # The order of negative numbers is the other way round.
    bits ^= (bits.view(np.int32) >> 31).view(np.uint32) | high
    bits[np.isnan(x)] = np.iinfo(np.uint32).max
    return bits


def _order(x: Any) -> tuple[DType, tuple[Any, ...]]:
    if x.dtype is dtypes.key:
        raise TypeError(f"{spell([x])} can't be sorted by")
    return dtypes.int32, x.shape


# The order of the elements along the last axis, equal ones staying in their order, NaNs last: in files that were written before
# this was an operation (`argsort`).
ARGSORT = HostFunction("argsort", _argsort, _order)

# The functions that a file may name.
HOST_FUNCTIONS = {function.name: function for function in (ARGSORT,)}


def constant_function(value: np.ndarray) -> HostFunction:
    """The function of no arguments that gives an array."""
    return HostFunction("captured", lambda: value, lambda: (value.dtype, value.shape))


extern = Extern()
