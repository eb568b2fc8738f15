"""Powers and remainders."""

from __future__ import annotations

from collections.abc import Callable

from .. import dtype as dtypes
from ..dtype import DType
from ..uop import UOp, const
from .basic import (
    FORMATS,
    INF,
    add,
    cast,
    clipped,
    constant,
    div,
    equal,
    flip_sign,
    fma,
    less,
    magnitude,
    mul,
    negative,
    polynomial,
    quick_two_sum,
    reciprocal,
    sign_bit,
    trunc,
    two_product,
    where,
)
from .exponential import LOG2_E, exp2_parts, rounded, scaled
from .logarithm import SQRT_HALF, TWO_THIRDS, exponent_fraction, log1p_reduced, whole_exponent

THIRD = (0.3333333333333333, 1.850371707708594e-17)  # float64
TWO_LOG2_E = (2.8853900817779268, 4.0710547481862066e-17)  # float64
POW_LOG_POLYNOMIAL = (  # as LOG_POLYNOMIAL, to 2**-35
    -0.49999999886630875, 0.33333333276774996, -0.2500002846743779, 0.20000014128533156,
    -0.16664629091860894, 0.14284710010427165, -0.12562274886979433, 0.11141501593402735,
    -0.09081075689105625, 0.08649763316804462, -0.14735920189967128, 0.106648938806278, 0.08932223942447322
)  # fmt: skip
POW_EXP2_POLYNOMIAL = (  # as EXP2_POLYNOMIAL on ±1/2, to 2**-31
    0.6931471838957304, 0.24022650924575065, 0.055504001908321866, 0.009618055967024457,
    0.001334203578245101, 0.0001546177155697029, 1.3355455184341311e-05
)  # fmt: skip
POW_TAIL_POLYNOMIAL = (  # (atanh(s)/s - 1 - s²/3)/s⁴ in s² on ±0.172
    0.19999999999999987, 0.14285714285723522, 0.11111111108535057, 0.09090909463567, 0.07692276510238533,
    0.06668232305540645, 0.058359245693114445, 0.06006796502487575
)  # fmt: skip


def log2_float32(a: UOp) -> tuple[UOp, None]:
    """log2 of a > 0, in float64 for a float32."""
    wide = cast(a, dtypes.float64)
    exponent, fraction = whole_exponent(wide, TWO_THIRDS)
    reduced = mul(log1p_reduced(add(fraction, -1.0), POW_LOG_POLYNOMIAL), LOG2_E[dtypes.float64])
    return fma(cast(exponent, dtypes.float64), 2.0**-52, reduced), None


def log2_float64(a: UOp) -> tuple[UOp, UOp]:
    """log2 of a > 0 as a sum of two, to 2**-64: 2/(ln 2) atanh(s), with s = f/(2 + f)."""
    exponent, f = exponent_fraction(a, SQRT_HALF)
    sum_high, sum_low = quick_two_sum(const(2.0, dtypes.float64), f)
    inverse = reciprocal(sum_high)
    s = mul(f, inverse)
    minus = negative(s)
    s_low = mul(fma(minus, sum_low, fma(minus, sum_high, f)), inverse)
    z, z_low = two_product(s, s)
    z_low = fma(add(s, s), s_low, z_low)
    # atanh(s) = s + s*w, with w = z/3 + z² T(z).
    third, third_low = two_product(z, THIRD[0])
    third_low = fma(z_low, THIRD[0], fma(z, THIRD[1], third_low))
    w, w_low = quick_two_sum(third, mul(mul(z, z), polynomial(z, POW_TAIL_POLYNOMIAL)))
    part, part_low = two_product(s, w)
    part_low = fma(s_low, w, fma(s, add(w_low, third_low), part_low))
    total, total_low = quick_two_sum(s, part)
    total_low = add(total_low, add(part_low, s_low))
    high, low = two_product(total, TWO_LOG2_E[0])
    low = fma(total, TWO_LOG2_E[1], fma(total_low, TWO_LOG2_E[0], low))
    result, result_low = quick_two_sum(exponent, high)
    return result, add(result_low, low)


LOG2_PARTS: dict[DType, Callable[[UOp], tuple[UOp, UOp | None]]] = {
    dtypes.float32: log2_float32,
    dtypes.float64: log2_float64,
}
POW_RANGE = {dtypes.float32: 200.0, dtypes.float64: 1100.0}


def power_of_magnitude(x: UOp, y: UOp) -> UOp:
    """|x| to the power y, where neither is NaN."""
    dtype = x.dtype
    a = magnitude(x)
    log, log_low = LOG2_PARTS[dtype](a)
    base, exponent = cast(a, log.dtype), cast(y, log.dtype)
    limit = POW_RANGE[dtype]
    log = where(less(base, INF), where(equal(base, 0.0), -INF, log), base)
    product = mul(exponent, log)
    clipped_product = clipped(product, (-limit, limit))
    if log_low is None:
        k, power = rounded(clipped_product, 1.0, 0)
        f = fma(k, -1.0, clipped_product)
        return cast(mul(fma(f, polynomial(f, POW_EXP2_POLYNOMIAL), 1.0), power), dtype)
    low = fma(exponent, log_low, fma(exponent, log, negative(product)))
    return scaled(*exp2_parts(clipped_product, where(less(magnitude(product), limit), low, 0.0)))


def integer_power(x: UOp, exponent: int) -> UOp:
    """By squaring; a negative power is the reciprocal of the positive one."""
    result: UOp | None = None
    square, rest = x, abs(exponent)
    while rest:
        if rest & 1:
            result = square if result is None else mul(result, square)
        rest >>= 1
        if rest:
            square = mul(square, square)
    if result is None:
        return constant(1, x.dtype)
    return reciprocal(result) if exponent < 0 else result


# A quotient is right in its first 51 bits, so that one step of a remainder takes that much off the exponent.
REMAINDER_BITS = 51


def remainder(x: UOp, y: UOp) -> UOp:
    """The remainder of floats with the sign of x, which is exact."""
    dtype = x.dtype
    a, b = magnitude(x), magnitude(y)
    # In float64, multiples of a float32 can be formed and their reciprocals too; those of a float64 stop in time.
    rest, divisor = cast(a, dtypes.float64), cast(b, dtypes.float64)
    multiples = [divisor]
    exponents = 2 * (FORMATS[dtype].bias + FORMATS[dtype].mantissa)
    for _ in range(exponents // REMAINDER_BITS):
        last = multiples[-1]
        larger = mul(last, 2.0**REMAINDER_BITS)
        multiples.append(larger if dtype is dtypes.float32 else where(less(last, 2.0**972), larger, last))
    for multiple in reversed(multiples):
        rest = fma(trunc(div(rest, multiple)), negative(multiple), rest)
    # A quotient that was rounded up, or down, leaves one divisor too little, or too much.
    rest = where(less(rest, 0.0), add(rest, divisor), rest)
    rest = where(less(rest, divisor), rest, fma(divisor, -1.0, rest))
    return flip_sign(where(less(a, b), a, cast(rest, dtype)), sign_bit(x))
