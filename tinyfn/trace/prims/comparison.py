"""Comparisons: booleans of two arrays."""

from __future__ import annotations

import numpy as np

from .. import formulas as f
from ..prim import (
    _ANY_OR_COMPLEX,
    Comparison,
)
from ..uop import UOp

# Comparisons


class Eq(Comparison):
    """x == y"""

    kinds = _ANY_OR_COMPLEX
    reference = np.equal

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.equal(x, y)


class Ne(Comparison):
    """x != y"""

    kinds = _ANY_OR_COMPLEX
    reference = np.not_equal

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.not_(f.equal(x, y))


class Lt(Comparison):
    """x < y"""

    reference = np.less

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.less(x, y)


class Le(Comparison):
    """x <= y"""

    reference = np.less_equal

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.less_or_equal(x, y)


class Gt(Comparison):
    """x > y"""

    reference = np.greater

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.less(y, x)


class Ge(Comparison):
    """x >= y"""

    reference = np.greater_equal

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.less_or_equal(y, x)


eq, ne, lt, le, gt, ge = Eq(), Ne(), Lt(), Le(), Gt(), Ge()
