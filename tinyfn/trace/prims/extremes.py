"""The greater and the lesser of two, and limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtype as dtypes
from .. import formulas as f
from ..dtype import DType
from ..prim import (
    _ANY,
    Binary,
    Elementwise,
    full_like,
    zeros_like,
)
from ..uop import UOp
from .comparison import eq, gt, lt
from .selection import where


class Max(Binary):
    """The greater of x and y, NaN if either is; a tie shares the derivative equally. Of 0.0 and -0.0 it is either.

    >>> lax.max(tnp.array([1.0, np.nan]), tnp.array([2.0, 0.0])), tinyfn.grad(lax.max)(1.0, 1.0)
    (Array([ 2., nan], dtype=float32), Array(0.5, dtype=float32))
    """

    kinds = _ANY
    reference: Callable[..., Any] = np.maximum

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.or_(x, y) if x.dtype is dtypes.bool_ else f.maximum(x, y)

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> UOp:
        mine, other = (y, x) if index else (x, y)
        return where(
            eq(mine, other),
            full_like(x, 0.5),
            where(_wins(self, mine, other), full_like(x, 1), zeros_like(x)),
        )


class Min(Max):
    """The lesser of x and y, NaN if either is; a tie shares the derivative equally. Of 0.0 and -0.0 it is either.

    >>> lax.min(tnp.array([1.0, np.nan]), tnp.array([2.0, 0.0]))
    Array([ 1., nan], dtype=float32)
    """

    reference = np.minimum

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.and_(x, y) if x.dtype is dtypes.bool_ else f.minimum(x, y)


def _wins(primitive: Any, mine: UOp, other: UOp) -> UOp:
    return gt(mine, other) if primitive is max else lt(mine, other)


class Clamp(Elementwise):
    """min(max(x, low), high), with the arguments in the order low, x, high; NaN stays NaN."""

    arity = 3

    def reference(self, low: Any, x: Any, high: Any) -> Any:
        return np.minimum(np.maximum(x, low), high)

    def scalar(self, low: UOp, x: UOp, high: UOp) -> UOp:
        return f.minimum(f.maximum(x, low), high)

    def partial(self, index: int, out: UOp, low: UOp, x: UOp, high: UOp) -> UOp:
        one, zero = full_like(x, 1), zeros_like(x)
        if index == 0:
            return where((low > x) & (low < high), one, zero)
        if index == 1:
            return where((x > low) & (x < high), one, zero)
        return where(high < max(x, low), one, zero)

    def values(self, dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray:
        values = super().values(dtype, shape, seed)
        return values if seed == 1 else np.full_like(values, 1 if seed == 0 else 2)


max, min, clamp = Max(), Min(), Clamp()
