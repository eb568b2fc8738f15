"""Elementwise primitives: rounding to whole numbers, neighbours, and what kind of float it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtype as dtypes
from .. import formulas as f
from ..prim import _FLOAT_OR_COMPLEX, _INEXACT, Binary, Unary
from ..uop import UOp
from .functions import Function


class _Step(Function):
    """A function that is constant between its jumps, so that its derivative is zero."""

    def partial(self, index: int, out: UOp, x: UOp) -> None:
        return None


class Floor(_Step):
    """The greatest whole number that is not above x."""

    reference = np.floor

    def scalar(self, x: UOp) -> UOp:
        whole = f.trunc(x)
        return f.add(whole, f.where(f.less(x, whole), -1.0, -0.0, x.dtype))  # -0.0 leaves the sign of a zero


class Ceil(_Step):
    """The least whole number that is not below x."""

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


class IsFinite(Unary):
    """Whether x is neither infinite nor NaN."""

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
    """The float next to x towards y; y if they are equal."""

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
is_finite, is_nan, is_inf = IsFinite(), IsNan(), IsInf()
