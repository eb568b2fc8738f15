"""Elementwise primitives: rounding to whole numbers, neighbours, and what kind of float it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import dtype as dtypes
from .. import formulas as f
from ..dtype import DType
from ..prim import _FLOAT_OR_COMPLEX, _INEXACT, Binary, Sample, Unary
from ..uop import UOp
from .functions import Function


class _Step(Function):
    """A function that is constant between its jumps, so that its derivative is zero."""

    def partial(self, index: int, out: UOp, x: UOp) -> None:
        return None


class Floor(_Step):
    """The greatest whole number that is not above x.

    >>> lax.floor(tnp.array([-1.5, 1.5]))
    Array([-2.,  1.], dtype=float32)
    """

    reference = np.floor

    def scalar(self, x: UOp) -> UOp:
        whole = f.trunc(x)
        return f.add(whole, f.where(f.less(x, whole), -1.0, -0.0, x.dtype))  # -0.0 leaves the sign of a zero


class Ceil(_Step):
    """The least whole number that is not below x.

    >>> lax.ceil(tnp.array([-1.5, 1.5]))
    Array([-1.,  2.], dtype=float32)
    """

    reference = np.ceil

    def scalar(self, x: UOp) -> UOp:
        whole = f.trunc(x)
        return f.add(whole, f.where(f.less(whole, x), 1.0, -0.0, x.dtype))


class Round(_Step):
    """The nearest whole number, the even one of two that are equally near."""

    odd = True
    reference = np.rint

    def formula(self, a: UOp) -> UOp:
        step = 2.0 ** f.FORMATS[a.dtype].mantissa
        return f.where(f.less(a, step), f.add(f.add(a, step), -step), a)


class Trunc(_Step):
    """The whole number next to x towards zero."""

    reference = np.trunc

    def scalar(self, x: UOp) -> UOp:
        return f.trunc(x)


class ReducePrecision(Unary):
    """x rounded to what a format with so many bits of exponent and mantissa holds: beyond it infinite, below it zero."""

    kinds = _INEXACT
    params = ("exponent_bits", "mantissa_bits")

    def out(self, x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
        if exponent_bits < 1 or mantissa_bits < 0:
            given = f"exponent_bits={exponent_bits} and mantissa_bits={mantissa_bits}"
            raise ValueError(
                f"reduce_precision needs 1 or more bits of exponent and 0 or more of mantissa, not {given}"
            )
        return super().out(x)

    def _numbers(self, dtype: DType, exponent_bits: int, mantissa_bits: int) -> tuple[int, float, float]:
        """How many bits of the mantissa go, the least number that is kept and the least that is infinite."""
        layout = f.FORMATS[dtype]
        bias = min((1 << (exponent_bits - 1)) - 1, layout.bias)
        least = 2.0 ** (1 - bias) if bias < layout.bias else 0.0
        return (
            max(layout.mantissa - mantissa_bits, 0),
            least,
            2.0 ** (bias + 1) if bias < layout.bias else f.INF,
        )

    def reference(self, x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
        x = np.asarray(x)
        lost, least, limit = self._numbers(x.dtype, exponent_bits, mantissa_bits)
        rounded = x
        if lost:
            bits = x.view(np.dtype(f"u{x.itemsize}"))
            last = (bits >> bits.dtype.type(lost)) & bits.dtype.type(1)
            half = bits.dtype.type((1 << (lost - 1)) - 1)
            kept = bits.dtype.type((1 << 8 * x.itemsize) - (1 << lost))
            rounded = ((bits + half + last) & kept).view(x.dtype)
        size = np.abs(rounded).astype(np.float64)
        infinite, zero = (np.copysign(np.asarray(v, x.dtype), x) for v in (np.inf, 0))
        result = np.where(size >= limit, infinite, np.where(size < least, zero, rounded))
        return np.where(np.isnan(x), x, result).astype(x.dtype)

    def scalar(self, x: UOp, *, exponent_bits: int, mantissa_bits: int) -> UOp:
        lost, least, limit = self._numbers(x.dtype, exponent_bits, mantissa_bits)
        size = f.magnitude(x)
        if lost:
            bits = f.bits(size)
            last = f.and_(f.shift_right(bits, lost), 1)
            size = f.from_bits(f.and_(f.add(f.add(bits, (1 << (lost - 1)) - 1), last), -(1 << lost)), x.dtype)
        size = f.where(f.less(size, least), 0.0, size) if least else size
        size = size if limit == f.INF else f.where(f.less(size, limit), size, f.INF)
        return f.where(f.equal(x, x), f.flip_sign(size, f.sign_bit(x)), x)

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], **params: Any) -> UOp | None:
        return None if tangents[0] is None else reduce_precision(tangents[0], **params)

    def vjp(
        self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool], **params: Any
    ) -> list[UOp | None]:
        return [reduce_precision(ct, **params)]

    def sample_params(self) -> dict[str, Any]:
        return {"exponent_bits": 5, "mantissa_bits": 10}

    def samples(self) -> Iterator[Sample]:
        for format in ((8, 7), (5, 10), (5, 2), (4, 3), (2, 0), (11, 52), (8, 23)):
            params = dict(zip(self.params, format, strict=True))
            for sample in super().samples():
                # A step function: differences say nothing about its derivative.
                yield Sample(sample.args, params, differentiable=False)


class IsFinite(Unary):
    """Whether x is neither infinite nor NaN.

    >>> lax.is_finite(tnp.array([1.0, np.inf, np.nan]))
    Array([ True, False, False], dtype=bool)
    """

    kinds = _FLOAT_OR_COMPLEX
    result = dtypes.bool_
    reference: Callable[..., Any] = np.isfinite

    def scalar(self, x: UOp) -> UOp:
        return f.less(f.magnitude(x), f.INF)


class IsNan(IsFinite):
    """Whether x is NaN."""

    reference = np.isnan

    def scalar(self, x: UOp) -> UOp:
        return f.not_(f.equal(x, x))


class IsInf(IsFinite):
    """Whether x is infinite."""

    reference = np.isinf

    def scalar(self, x: UOp) -> UOp:
        return f.equal(f.magnitude(x), f.INF)


class Nextafter(Binary):
    """The float next to x towards y; y if they are equal.

    >>> lax.nextafter(1.0, 2.0) - 1.0 == tnp.finfo("float32").eps
    Array(True, dtype=bool)
    """

    kinds = _INEXACT

    def reference(self, x: Any, y: Any) -> Any:
        return np.where(x == y, y, np.nextafter(x, y))  # NumPy gives x for zeros of float16

    def scalar(self, x: UOp, y: UOp) -> UOp:
        bits = f.bits(x)
        away = f.add(bits, f.where(f.xor(f.less(x, y), f.less(bits, 0)), 1, -1, bits.dtype))
        smallest = f.or_(f.sign_bit(y), 1)
        moved = f.from_bits(f.where(f.equal(x, 0.0), smallest, away), x.dtype)
        ordered = f.and_(f.equal(x, x), f.equal(y, y))
        return f.where(ordered, f.where(f.equal(x, y), y, moved), f.add(x, y))

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> int | None:
        return None if index else 1


floor, ceil, round, trunc, nextafter = Floor(), Ceil(), Round(), Trunc(), Nextafter()
is_finite, is_nan, is_inf, reduce_precision = IsFinite(), IsNan(), IsInf(), ReducePrecision()
