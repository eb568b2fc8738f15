"""Elementwise primitives: selection, casts, and two that give what they are given: stop_gradient and checkpoint_name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import dtype as dtypes
from .. import formulas as f
from ..dtype import DType
from ..prim import _ANY, _ANY_OR_COMPLEX, Elementwise, Linear, Sample, spell, zeros_like
from ..uop import UOp


class Where(Elementwise):
    """x where the condition holds, y elsewhere."""

    arity = 3
    kinds = (*_ANY_OR_COMPLEX, "key")

    def out(self, condition: Any, x: Any, y: Any) -> Any:
        if (
            condition.dtype is not dtypes.bool_
            or x.dtype is not y.dtype
            or not condition.shape == x.shape == y.shape
        ):
            described = ", ".join(dtypes.describe(a.dtype, a.shape) for a in (condition, x, y))
            raise TypeError(
                f"where needs a bool condition and two arrays of one dtype, all of one shape, not {described}"
            )
        return x.dtype, x.shape

    reference = staticmethod(np.where)

    def scalar(self, condition: UOp, x: UOp, y: UOp) -> UOp:
        return f.where(condition, x, y)

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> UOp | None:
        condition, x, y = args
        _, tx, ty = tangents
        return where(condition, zeros_like(x) if tx is None else tx, zeros_like(y) if ty is None else ty)

    def vjp(self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool]) -> list[UOp | None]:
        condition, zero = args[0], zeros_like(ct)
        return [
            None,
            where(condition, ct, zero) if needs[1] else None,
            where(condition, zero, ct) if needs[2] else None,
        ]

    def samples(self) -> Iterator[Sample]:
        generator = np.random.default_rng(0)
        for dtype in dtypes.MOVED:
            if dtypes.kind(dtype) in self.kinds and dtype not in dtypes.NARROW_FLOATS:
                for shape in ((2, 3), (), (0,)) if dtype is dtypes.float32 else ((2, 3),):
                    yield Sample(
                        (
                            generator.integers(0, 2, shape).astype(bool),
                            *(self.values(dtype, shape, s) for s in (0, 1)),
                        )
                    )
        yield Sample(
            (
                np.array([True, False]),
                np.array([1.0, np.nan], np.float32),
                np.array([np.inf, 2.0], np.float32),
            ),
            differentiable=False,
        )


class Convert(Elementwise):
    """A cast. Floats to integers round towards zero and saturate, NaN gives 0; integers wrap; anything to bool is x != 0.

    A complex number that becomes a real one loses its imaginary part."""

    params = ("dtype",)
    kinds = _ANY_OR_COMPLEX

    def out(self, x: Any, *, dtype: DType) -> Any:
        if dtypes.key in (dtype, x.dtype):
            raise TypeError(
                f"can't cast {spell([x])} to {dtypes.name(dtype)}; make keys with tinyfn.random.wrap_key_data"
            )
        return dtype, x.shape

    def reference(self, x: Any, *, dtype: DType) -> Any:
        x = np.asarray(x)
        if x.dtype.kind == "c" and dtype.kind not in "bc":
            x = x.real
        if dtype.kind in "iu" and dtypes.is_float(x.dtype):
            return _saturating_cast(x, dtype)
        if dtype.kind == "b":
            return x != 0
        if dtype in dtypes.NARROW_FLOATS and x.dtype in dtypes.NARROW_FLOATS:
            x = x.astype(np.float32)  # exact; ml_dtypes lacks some casts between them
        return x.astype(dtype)

    def scalar(self, x: UOp, *, dtype: DType) -> UOp:
        if x.dtype in dtypes.NARROW_FLOATS and dtype in dtypes.NARROW_FLOATS:
            x = f.cast(x, dtypes.float32)  # exact, and few devices have casts between them
        return f.cast(x, dtype)

    def jvp(
        self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], *, dtype: DType
    ) -> UOp | None:
        tangent = tangents[0]
        return None if tangent is None or not dtypes.is_inexact(dtype) else convert(tangent, dtype=dtype)

    def vjp(
        self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool], *, dtype: DType
    ) -> list[UOp | None]:
        return [convert(ct, dtype=args[0].dtype)]

    def samples(self) -> Iterator[Sample]:
        plain = [d for d in dtypes.ALL if dtypes.kind(d) != "complex"]
        exact = (dtypes.float64, dtypes.complex128)
        for source, target in ((dtypes.float32, dtypes.complex64), (dtypes.float32, dtypes.complex128),
                               (dtypes.complex64, dtypes.float64), (dtypes.complex64, dtypes.complex128),
                               (dtypes.complex64, dtypes.int32), (dtypes.complex64, dtypes.bool_),
                               (dtypes.int32, dtypes.complex64), (dtypes.bool_, dtypes.complex128)):  # fmt: skip
            yield Sample((self.values(source, (2, 3), 0),), {"dtype": target}, target in exact)
        for source in plain:
            for target in plain:
                # Differences of rounded values say nothing about the derivative.
                yield Sample(
                    (self.values(source, (2, 3), 0),),
                    {"dtype": target},
                    differentiable=target is dtypes.float64,
                )
        wild = np.array(
            [np.nan, np.inf, -np.inf, 1e30, -1e30, 3.99, -3.99, 255.5, -0.0, 2.0**31, -(2.0**63)], np.float32
        )
        for target in (*dtypes.INTEGERS, dtypes.bool_, dtypes.float64):
            yield Sample((wild,), {"dtype": target}, differentiable=False)
        for shape in ((), (0,), (1,)):
            yield Sample((np.ones(shape, np.float32),), {"dtype": dtypes.float64})


def _saturating_cast(x: np.ndarray, dtype: DType) -> np.ndarray:
    info = np.iinfo(dtype)
    wide = x.astype(np.float64)
    result = np.where(np.isfinite(wide) & (np.abs(wide) < 2.0**62), wide, 0.0).astype(np.int64)
    if dtype is dtypes.uint64:
        large = (wide >= 2.0**62) & (wide < 2.0**64)
        unsigned = np.where(large, wide, 0.0).astype(np.uint64) + np.clip(result, 0, None).astype(np.uint64)
        return np.where(wide >= 2.0**64, np.uint64(info.max), unsigned)
    if dtype is dtypes.int64:
        large = (np.abs(wide) >= 2.0**62) & (np.abs(wide) < 2.0**63)
        result = np.where(large, np.where(large, wide, 0.0).astype(np.int64), result)
    result = np.where(wide > info.max if dtype.itemsize < 8 else wide >= 2.0**63, info.max, result)
    result = np.where(wide <= info.min, info.min, result)
    return result.astype(dtype)


class Bitcast(Elementwise):
    """The same bits read as another type of the same width."""

    params = ("dtype",)
    kinds = _ANY

    def out(self, x: Any, *, dtype: DType) -> Any:
        if dtype.itemsize != x.dtype.itemsize or (dtype is dtypes.bool_) != (x.dtype is dtypes.bool_):
            raise TypeError(
                f"bitcast of {dtypes.name(x.dtype)} to {dtypes.name(dtype)}: their widths differ; use astype to convert values"
            )
        return dtype, x.shape

    def reference(self, x: Any, *, dtype: DType) -> Any:
        return np.asarray(x).view(dtype)

    def scalar(self, x: UOp, *, dtype: DType) -> UOp:
        return f.as_type(x, dtype)

    def partial(self, index: int, out: UOp, x: UOp, *, dtype: DType) -> None:
        return None

    def samples(self) -> Iterator[Sample]:
        for source, target in ((dtypes.KEY_NAME, "uint64"), ("uint64", dtypes.KEY_NAME),
                               ("float32", "int32"), ("int32", "float32"), ("float16", "uint16"), ("bfloat16", "int16"),
                               ("float64", "uint64"), ("int8", "uint8"), ("uint64", "float64")):  # fmt: skip
            values = self.values(dtypes.canonical(source), (2, 3), 0)
            yield Sample((values,), {"dtype": dtypes.canonical(target)}, differentiable=False)


class StopGradient(Linear):
    """x, as something that does not depend on what is differentiated."""

    family = "elementwise"

    def out(self, x: Any) -> Any:
        return x.dtype, x.shape

    def reference(self, x: Any) -> Any:
        return x

    def scalar(self, x: UOp) -> UOp:
        return x

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> None:
        return None

    def vjp(self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool]) -> list[None]:
        return [None]

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool]) -> UOp:
        return self.node(args[0])

    def samples(self) -> Iterator[Sample]:
        for dtype in (dtypes.float32, dtypes.int32, dtypes.bool_):
            yield Sample((np.ones((2, 3), dtype),), differentiable=False)


class CheckpointName(Linear):
    """x, under a name by which the policy of a checkpoint can choose it to be kept for the reverse pass."""

    family = "elementwise"
    params = ("name",)

    def out(self, x: Any, *, name: str) -> Any:
        return x.dtype, x.shape

    def reference(self, x: Any, *, name: str) -> Any:
        return x

    def scalar(self, x: UOp, *, name: str) -> UOp:
        return x

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], *, name: str) -> UOp | None:
        return tangents[0]

    def transpose(self, ct: UOp, args: Sequence[UOp], index: int, *, name: str) -> UOp:
        return ct

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], *, name: str) -> UOp:
        return self.node(args[0], name=name)

    def samples(self) -> Iterator[Sample]:
        for dtype in (dtypes.float32, dtypes.int32, dtypes.bool_):
            yield Sample((np.ones((2, 3), dtype),), {"name": "h"})


where, convert, bitcast = Where(), Convert(), Bitcast()
stop_gradient, checkpoint_name = StopGradient(), CheckpointName()
