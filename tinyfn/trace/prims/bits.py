"""Bits: their logic, shifts, counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtype as dtypes
from .. import formulas as f
from ..prim import (
    _BITS,
    _INTEGER,
    Binary,
    Unary,
)
from ..uop import UOp

# Bits


class BitwiseNot(Unary):
    """Every bit inverted; the logical not of a bool.

    >>> lax.bitwise_not(tnp.array([0, 5])), lax.bitwise_not(True)
    (Array([-1, -6], dtype=int32), Array(False, dtype=bool))
    """

    kinds = _BITS
    reference = np.invert

    def scalar(self, x: UOp) -> UOp:
        return f.xor(x, True if x.dtype is dtypes.bool_ else -1)


class BitwiseAnd(Binary):
    """Bits set in both; the logical and of bools.

    >>> lax.bitwise_and(tnp.array([0b1100, -1]), 0b1010), lax.bitwise_and(True, False)
    (Array([ 8, 10], dtype=int32), Array(False, dtype=bool))
    """

    kinds = _BITS
    reference = np.bitwise_and

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.and_(x, y)


class BitwiseOr(Binary):
    """Bits set in either; the logical or of bools.

    >>> lax.bitwise_or(tnp.array([0b1100, -1]), 0b1010)
    Array([14, -1], dtype=int32)
    """

    kinds = _BITS
    reference = np.bitwise_or

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.or_(x, y)


class BitwiseXor(Binary):
    """Bits set in one but not in both.

    >>> lax.bitwise_xor(tnp.array([0b1100, -1]), 0b1010)
    Array([  6, -11], dtype=int32)
    """

    kinds = _BITS
    reference = np.bitwise_xor

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.xor(x, y)


class ShiftLeft(Binary):
    """x with its bits moved up by y; 0 if y is not in 0 .. bits - 1.

    >>> lax.shift_left(tnp.array([1, 3]), tnp.array([4, 32]))
    Array([16,  0], dtype=int32)
    """

    kinds = _INTEGER
    domain = (0.0, 5.0)

    def reference(self, x: Any, y: Any) -> Any:
        return np.where(_shift_in_range(x, y), np.left_shift(x, _clamp_shift(x, y)), np.zeros_like(x))

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.shift_left(x, y)


class ShiftRightArithmetic(ShiftLeft):
    """x with its bits moved down by y, the highest one (of an unsigned x too) filling in; all of it if y is not in 0 .. bits - 1.

    >>> lax.shift_right_arithmetic(tnp.array([16, -16]), 2)
    Array([ 4, -4], dtype=int32)
    """

    def reference(self, x: Any, y: Any) -> Any:
        x = np.asarray(x)
        signed, greatest = np.dtype(f"i{x.itemsize}"), 8 * x.itemsize - 1
        shift = np.where(_shift_in_range(x, y), y, np.asarray(greatest).astype(np.asarray(y).dtype))
        return np.right_shift(x.view(signed), shift.astype(signed)).view(x.dtype)

    def scalar(self, x: UOp, y: UOp) -> UOp:
        signed = dtypes.canonical(f"int{8 * x.dtype.itemsize}")
        return f.as_type(f.shift_right(f.as_type(x, signed), f.as_type(y, signed)), x.dtype)


class ShiftRightLogical(ShiftLeft):
    """x with its bits moved down by y, zeros filling in; 0 if y is not in 0 .. bits - 1.

    >>> lax.shift_right_logical(tnp.array([16, -16], dtype="int8"), tnp.int8(2))
    Array([ 4, 60], dtype=int8)
    """

    def reference(self, x: Any, y: Any) -> Any:
        x = np.asarray(x)
        unsigned = np.dtype(f"u{x.itemsize}")
        shifted = np.right_shift(x.view(unsigned), _clamp_shift(x, y).astype(unsigned)).view(x.dtype)
        return np.where(_shift_in_range(x, y), shifted, np.zeros_like(x))

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.as_type(f.shift_right(f.as_unsigned(x), f.as_unsigned(y)), x.dtype)


def _shift_in_range(x: Any, y: Any) -> Any:
    return (y >= 0) & (y < 8 * np.asarray(x).itemsize)


def _clamp_shift(x: Any, y: Any) -> Any:
    return np.where(_shift_in_range(x, y), y, np.zeros_like(y))


class PopulationCount(Unary):
    """The number of bits that are set.

    >>> lax.population_count(tnp.array([0, 7, -1]))
    Array([ 0,  3, 32], dtype=int32)
    """

    kinds = _INTEGER

    def reference(self, x: Any) -> Any:
        x = np.asarray(x)
        return np.bitwise_count(x.view(np.dtype(f"u{x.itemsize}"))).astype(x.dtype)

    def scalar(self, x: UOp) -> UOp:
        # H. Warren, "Hacker's Delight" (2002), section 5-1: sums of neighbouring fields of 1, 2, 4, ... bits.
        count, width = f.as_unsigned(x), 8 * x.dtype.itemsize
        field = 1
        while field < width:
            mask = sum(((1 << field) - 1) << at for at in range(0, width, 2 * field))
            count = f.add(f.and_(count, mask), f.and_(f.shift_right(count, field), mask))
            field *= 2
        return f.as_type(count, x.dtype)


bitwise_not, bitwise_and, bitwise_or, bitwise_xor = BitwiseNot(), BitwiseAnd(), BitwiseOr(), BitwiseXor()
shift_left, shift_right_logical, shift_right_arithmetic = (
    ShiftLeft(),
    ShiftRightLogical(),
    ShiftRightArithmetic(),
)
population_count = PopulationCount()
