"""The order of elements: what sorts, medians and the greatest elements are made of, with gathers for the elements themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..prim import Primitive, Sample, _distinct, spell
from ..uop import UOp, output


class Argsort(Primitive):
    """The positions (int32) of the first `count` elements along the last axis in rising order, or falling, if `descending`.

    Equal elements stay in their order, NaNs count as greatest."""

    family = "sorting"
    params = ("count", "descending")

    def out(self, x: Any, *, count: Any, descending: bool) -> Any:
        if x.dtype is dtypes.key:
            raise TypeError(f"{spell([x])} can't be sorted by")
        if not x.ndim:
            raise ValueError(f"{self.name} of {spell([x])}: a scalar has no axis to sort")
        size = x.shape[-1]
        if isinstance(count, int) and isinstance(size, int) and not 0 <= count <= size:
            raise ValueError(f"{self.name} of {spell([x])} for {count} elements: there are {size}")
        return dtypes.int32, (*x.shape[:-1], count)

    def reference(self, x: Any, *, count: int, descending: bool) -> Any:
        x = np.asarray(x)
        if x.dtype not in (np.float16, np.float32, np.float64) and dtypes.is_float(x.dtype):
            x = x.astype(np.float32)  # NumPy does not know that ml_dtypes' NaNs go last
        # The stable order of the reversed elements, in reverse, is descending and stable.
        order = np.argsort(x[..., ::-1] if descending else x, axis=-1, kind="stable")
        if descending:
            order = x.shape[-1] - 1 - order[..., ::-1]
        return order[..., :count].astype(np.int32)

    def batch(
        self, size: Any, args: Sequence[UOp], batched: Sequence[bool], *, count: Any, descending: bool
    ) -> UOp:
        return self.node(args[0], count=count, descending=descending)

    def decomposition(self, x: UOp, *, count: int, descending: bool) -> UOp | None:
        if not native_argsort.takes(x):
            return None
        return output(native_argsort.node(x, count=count, descending=descending), 0)

    def samples(self) -> Iterator[Sample]:
        generator = np.random.default_rng(0)
        for dtype in dtypes.ALL:
            if dtypes.kind(dtype) != "complex":
                x = np.array([[3, 1, 2, 1], [0, 1, 0, 1]]).astype(dtype)
                yield Sample((x,), {"count": 4, "descending": False}, False)
                yield Sample((x,), {"count": 2, "descending": True}, False)
        for shape, count in (((0,), 0), ((1,), 1), ((2, 0, 3), 2), ((3, 2), 0), ((2, 70), 67), ((2, 70), 3)):
            x = _distinct(generator, dtypes.float32, shape)
            for descending in (False, True):
                yield Sample((x,), {"count": count, "descending": descending}, False)
        special = np.array([0.0, np.nan, -0.0, np.inf, 1.0, -np.inf, -np.nan, 0.0, 1e-45, -1.0], np.float32)
        for dtype in (*dtypes.FLOATS, *dtypes.COMPLEX):
            for descending in (False, True):
                yield Sample((special.astype(dtype),), {"count": 10, "descending": descending}, False)


class NativeArgsort(Primitive):
    """`argsort` as programs for the CPU compute it; it comes into being when a graph is lowered, after all transforms."""

    family = "foreign"
    params = ("count", "descending")

    def takes(self, x: UOp) -> bool:
        """Whether there is native code for these elements."""
        return (
            dtypes.kind(x.dtype) != "complex"
            and x.dtype not in dtypes.NARROW_FLOATS
            and x.shape[-1] < 1 << 31
        )

    def out(self, x: Any, *, count: int, descending: bool) -> Any:
        return (dtypes.int32,), ((*x.shape[:-1], count),)

    def reference(self, x: Any, *, count: int, descending: bool) -> Any:
        return [argsort.reference(x, count=count, descending=descending)]

    def samples(self) -> Iterator[Sample]:
        return iter(())  # of `argsort` there are samples, which are run by it


argsort, native_argsort = Argsort(), NativeArgsort()
