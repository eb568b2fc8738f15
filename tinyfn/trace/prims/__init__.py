"""The array primitives: importing this package registers them all."""

from . import operators  # noqa: F401  (gives UOps their operators)
from .contraction import dot_general
from .convolution import conv_general
from .elementwise import (
    abs, acos, acosh, add, asin, asinh, atan, atan2, atanh, bitcast, bitwise_and, bitwise_not, bitwise_or, bitwise_xor,
    cbrt, ceil, clamp, convert, cos, cosh, div, eq, erf, erf_inv, erfc, exp, exp2, expm1, floor, ge, gt, integer_pow,
    is_finite, is_inf, is_nan, le, log, log1p, log2, logistic, lt, max, min, mul, mul_zero, ne, neg, nextafter,
    population_count, pow, rem, round, rsqrt, shift_left, shift_right_arithmetic, shift_right_logical, sign, sin, sinh,
    sqrt, stop_gradient, sub, tan, tanh, trunc, where,
)  # fmt: skip
from .extern import ARGSORT, HostFunction, extern
from .indexing import gather, scatter
from .movement import broadcast, concatenate, flip, iota, pad, reshape, slice_, transpose
from .random import threefry2x32
from .reduction import argmax, argmin, cumsum, reduce_and, reduce_max, reduce_min, reduce_or, reduce_prod, reduce_sum

__all__ = [name for name in dir() if not name.startswith("_")]
