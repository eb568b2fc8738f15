"""Angles: |x| = n pi/2 + r with |r| <= 0.86; the low bits of n are the quadrant. And the inverse functions' series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .. import dtype as dtypes
from ..uop import UOp, const
from .basic import (
    FORMATS,
    INF,
    Table,
    add,
    and_,
    as_type,
    bits,
    cast,
    equal,
    fma,
    less,
    mul,
    negative,
    or_,
    polynomial,
    quick_two_sum,
    shift_left,
    shift_right,
    sqrt,
    two_product,
    two_sum,
    where,
)

PI = 3.141592653589793
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)  # float64
# floor(2/pi * 2**1280)
TWO_OVER_PI_BITS = 1280
TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921c"
    "fe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980f"
    "ef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d08"
    "56033046fc7b6babf0cfbc209af4361d",
    16,
)
SIN_POLYNOMIAL: Table = {  # (sin(r)/r - 1)/r² in r² on ±0.86
    dtypes.float32: (
        -0.16666646, 0.008331665, -0.00019452121
    ),
    dtypes.float64: (
        -0.16666666666666563, 0.008333333333306124, -0.0001984126981748092, 2.755730966072563e-06,
        -2.5050164080305392e-08, 1.5864411962063906e-10
    ),
}  # fmt: skip
COS_POLYNOMIAL: Table = {  # (cos(r) - 1 + r²/2)/r⁴ in r² on ±0.86
    dtypes.float32: (
        0.04166663, -0.0013886634, 2.4360568e-05
    ),
    dtypes.float64: (
        0.04166666666666644, -0.001388888888884895, 2.4801587274923948e-05, -2.7557310452272e-07,
        2.0875230878931703e-09, -1.1335926806419224e-11
    ),
}  # fmt: skip


def float_pair(numerator: int, denominator: int) -> tuple[float, float]:
    """A fraction as the sum of two float64."""
    high = numerator / denominator
    p, q = high.as_integer_ratio()
    return high, (numerator * q - p * denominator) / (denominator * q)


def quarter_turns(shift: int) -> tuple[float, float]:
    """2**shift * 2/pi without the multiples of 4, in [-2, 2), divided by 2**shift."""
    one = 1 << TWO_OVER_PI_BITS
    rest = ((TWO_OVER_PI << shift) + 2 * one) % (4 * one) - 2 * one
    return float_pair(rest, one << shift)


# In a band, x is a multiple of 2**shift, so that multiples of 4 * 2**-shift in 2/pi do not count. The product
# of x and the rest stays below 2**51 quarter turns: its whole part is exact in float64, and two constants do
# for the fraction.
BANDS = tuple(
    (limit, *quarter_turns(shift))
    for limit, shift in ((2.0**50, 0), (2.0**77, 27), (2.0**104, 54), (INF, 81))
)
RINT = FORMATS[dtypes.float64].rounding


class Angle(NamedTuple):
    """What is left of an angle."""

    r: UOp
    low: UOp | None  # what r's rounding leaves
    quadrant: UOp  # an integer of which two bits count


def reduce_float32(a: UOp) -> Angle:
    """Of a >= 0, in float64: right for every float32."""
    wide_dtype = dtypes.float64
    limit, first_high, first_low = BANDS[0]
    high, low = const(first_high, wide_dtype), const(first_low, wide_dtype)
    for next_limit, next_high, next_low in BANDS[1:]:
        below = less(a, limit)
        high, low = where(below, high, next_high), where(below, low, next_low)
        limit = next_limit
    wide = cast(a, wide_dtype)
    shifted = fma(wide, high, RINT)
    turns = fma(wide, low, fma(wide, high, fma(shifted, -1.0, RINT)))
    r = cast(mul(turns, HALF_PI[0]), dtypes.float32)
    return Angle(r, None, cast(bits(shifted), dtypes.int32))


PAYNE_HANEK_FROM = 2.0**50


def reduce_float64(a: UOp) -> Angle:
    """Of a >= 0, right for every float64: by three pieces of pi/2 below 2**50, above by Payne and Hanek."""
    shifted = fma(a, 1 / HALF_PI[0], RINT)
    minus = fma(shifted, -1.0, RINT)
    # The first difference is exact: a multiple of 2**-53 that is below 1.
    product, product_low = two_product(minus, HALF_PI[1])
    total, low = two_sum(fma(minus, HALF_PI[0], a), product)
    near, near_low = quick_two_sum(total, fma(minus, HALF_PI[2], add(low, product_low)))
    far = payne_hanek(a)
    assert far.low is not None
    is_near = less(a, PAYNE_HANEK_FROM)
    return Angle(
        fma(a, 0.0, where(is_near, near, far.r)),  # NaN for infinity
        where(is_near, near_low, far.low),
        where(is_near, bits(shifted), far.quadrant),
    )


def payne_hanek(a: UOp) -> Angle:
    """Of a float64 a >= 2**50: its mantissa times the 192 bits of 2/pi that matter, the first of weight 2."""
    word = dtypes.uint64
    bits = as_type(a, word)
    mantissa = or_(and_(bits, (1 << 52) - 1), 1 << 52)
    # Bit 0 of the table has the weight 2**3, so that the window of 2**50 begins there.
    table = TWO_OVER_PI >> (TWO_OVER_PI_BITS - 19 * 64 + 4)
    words = [const((table >> 64 * (18 - i)) & ((1 << 64) - 1), word) for i in range(19)]
    position = add(shift_right(bits, 52), -(1075 + 2 - 4))
    for span in (8, 4, 2, 1):  # moves the window to the word of its first bit
        move = equal(and_(position, 64 * span), 0)
        words = [where(move, words[i], words[i + span]) for i in range(3 + span)]
    shift = and_(position, 63)
    rest = add(negative(shift), 64)
    first, second, third = (
        or_(shift_left(words[i], shift), shift_right(words[i + 1], rest)) for i in range(3)
    )
    # The product modulo 4, as 128 bits of which the first has the weight 2.
    carried = high_product(mantissa, third)
    lower = add(mul(mantissa, second), carried)
    carry = cast(less(lower, carried), word)
    upper = add(add(mul(mantissa, first), high_product(mantissa, second)), carry)
    # The fraction next to 0, in -1/2 .. 1/2 of a quarter turn.
    fraction = as_type(or_(shift_left(upper, 2), shift_right(lower, 62)), dtypes.int64)
    quadrant = add(shift_right(upper, 62), and_(shift_right(upper, 61), 1))
    head = mul(cast(and_(fraction, -1 << 12), dtypes.float64), 2.0**-64)
    middle = mul(cast(and_(fraction, (1 << 12) - 1), dtypes.float64), 2.0**-64)
    tail = cast(as_type(shift_right(shift_left(lower, 2), 12), dtypes.int64), dtypes.float64)
    turns, turns_low = quick_two_sum(head, fma(tail, 2.0**-116, middle))
    product, product_low = two_product(turns, HALF_PI[0])
    r, low = quick_two_sum(product, fma(turns, HALF_PI[1], fma(turns_low, HALF_PI[0], product_low)))
    return Angle(r, low, as_type(quadrant, dtypes.int64))


def high_product(x: UOp, y: UOp) -> UOp:
    """The upper 64 bits of the product of two uint64, x being below 2**53."""
    mask = (1 << 32) - 1
    x0, x1, y0, y1 = and_(x, mask), shift_right(x, 32), and_(y, mask), shift_right(y, 32)
    cross = mul(x0, y1)
    middle = add(add(mul(x1, y0), and_(cross, mask)), shift_right(mul(x0, y0), 32))
    return add(add(mul(x1, y1), shift_right(cross, 32)), shift_right(middle, 32))


REDUCE = {dtypes.float32: reduce_float32, dtypes.float64: reduce_float64}


def sin_and_cos(angle: Angle) -> tuple[UOp, UOp]:
    """The sine and cosine of r."""
    r = angle.r
    z = mul(r, r)
    cubic = mul(z, polynomial(z, SIN_POLYNOMIAL[r.dtype]))
    quartic = fma(z, polynomial(z, COS_POLYNOMIAL[r.dtype]), -0.5)
    if angle.low is None:
        return fma(cubic, r, r), fma(z, quartic, 1.0)
    sine = add(fma(cubic, r, angle.low), r)
    return sine, add(fma(z, quartic, negative(mul(r, angle.low))), 1.0)


def second_bit_as_sign(quadrant: UOp) -> UOp:
    """The quadrant's second bit where a sign is."""
    return shift_left(and_(quadrant, 2), 8 * quadrant.dtype.itemsize - 2)


def is_odd(quadrant: UOp) -> UOp:
    """Whether sine and cosine change places."""
    return equal(and_(quadrant, 1), 1)


ASIN_POLYNOMIAL: Table = {  # (asin(x)/x - 1)/x² in x² on ±1/2
    dtypes.float32: (
        0.16666754, 0.07495252, 0.04547604, 0.024152093, 0.042211797
    ),
    dtypes.float64: (
        0.16666666666665383, 0.07500000000342917, 0.044642856823580324, 0.030381959327449307,
        0.022371753609074733, 0.017359769902883758, 0.01388460941805788, 0.012173213740702163,
        0.006511110613542692, 0.01957326889392995, -0.016293168607930304, 0.031958403507704125
    ),
}  # fmt: skip
ATAN_POLYNOMIAL: Table = {  # (atan(x)/x - 1)/x² in x² on ±1
    dtypes.float32: (
        -0.33333153, 0.19993767, -0.14211003, 0.106657855, -0.07551724, 0.043205857, -0.016364133,
        0.0029197228
    ),
    dtypes.float64: (
        -0.3333333333333186, 0.19999999999755189, -0.14285714271340869, 0.11111110678857453,
        -0.09090901236519677, 0.07692212937732952, -0.0666586039091523, 0.05877307820982589,
        -0.05239232910235886, 0.04673948687161603, -0.040926349886178534, 0.03406773904224689,
        -0.025826684689056526, 0.0169779095936166, -0.009184456453717493, 0.003855915809544371,
        -0.0011640489358433724, 0.00022301708367084298, -2.025798829713202e-05
    ),
}  # fmt: skip


def series(x: UOp, z: UOp, coefficients: Sequence[float]) -> UOp:
    """x + x*z*P(z)."""
    return fma(mul(x, z), polynomial(z, coefficients), x)


def asin_halves(a: UOp) -> tuple[UOp, UOp]:
    """Whether a > 1/2; asin(a), or else asin(sqrt((1 - a)/2)), which is (pi/2 - asin(a))/2."""
    outer = less(0.5, a)
    z = where(outer, fma(a, -0.5, 0.5), mul(a, a))
    return outer, series(where(outer, sqrt(z), a), z, ASIN_POLYNOMIAL[a.dtype])
