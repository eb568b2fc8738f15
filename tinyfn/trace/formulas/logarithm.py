"""Logarithms: x = 2**e * (1 + f) with 1 + f in [lowest, 2*lowest), lowest <= 1, so that no digits cancel near x = 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import dtype as dtypes
from ..dtype import DType
from ..uop import UOp
from .basic import (
    FORMATS,
    INF,
    NAN,
    Table,
    add,
    and_,
    bits,
    cast,
    equal,
    fma,
    from_bits,
    less,
    mul,
    negative,
    polynomial,
    where,
)
from .exponential import LN2

LOG_POLYNOMIAL: Table = {  # (log(1 + f) - f)/f² on ±1/3
    dtypes.float32: (
        -0.49999937, 0.333332, -0.2500775, 0.20011072, -0.1641703, 0.13997169, -0.15383598, 0.14020392
    ),
    dtypes.float64: (
        -0.4999999999999995, 0.33333333333333304, -0.25000000000031875, 0.20000000000024964,
        -0.16666666660653712, 0.1428571428010449, -0.1250000052359452, 0.11111111646990303,
        -0.09999974813038498, 0.09090882326471421, -0.08334062429116128, 0.07693087723306026,
        -0.07129669025800991, 0.06652694607361095, -0.06399349878899556, 0.06037668347130182,
        -0.04538285166304868, 0.04229593533978333, -0.08687418764765995, 0.0841081873176626
    ),
}  # fmt: skip
LOG2_POLYNOMIAL: Table = {  # log2(1 + f)/f - LOG2_E on ±1/3
    dtypes.float32: (
        2.4402674e-08, -0.72134656, 0.480896, -0.36078873, 0.2887102, -0.23679921, 0.20181489, -0.2221626,
        0.20271797
    ),
    dtypes.float64: (
        2.2053922405578282e-17, -0.721347520444481, 0.4808983469629841, -0.36067376022268427,
        0.28853900817911304, -0.2404491733958971, 0.2060992913709796, -0.18033688767474365,
        0.1602994622096377, -0.14426913762027668, 0.131153543446797, -0.12023522123710449,
        0.11099081009884151, -0.10285733020241189, 0.09594391718876306, -0.09234264896882037,
        0.08734028688692175, -0.06537685256589795, 0.0601201993745216, -0.12552869872439218,
        0.12281301066031051
    ),
}  # fmt: skip
TWO_THIRDS, SQRT_HALF = 2.0 / 3.0, 0.7071067811865476


def float_bits(value: float, dtype: DType) -> int:
    """The bits of a Python number as a float of this type."""
    return int(np.asarray(value, dtype).view(FORMATS[dtype].integer))


def whole_exponent(x: UOp, lowest: float) -> tuple[UOp, UOp]:
    """For a normal x > 0: e in the exponent's place (e * 2**mantissa, an integer), and 1 + f."""
    form = FORMATS[x.dtype]
    start = float_bits(lowest, x.dtype)
    offset = add(bits(x), -start)
    fraction = add(and_(offset, (1 << form.mantissa) - 1), start)
    return and_(offset, -1 << form.mantissa), from_bits(fraction, x.dtype)


def exponent_fraction(x: UOp, lowest: float = TWO_THIRDS) -> tuple[UOp, UOp]:
    """For a finite x > 0: e as a float, and f."""
    form = FORMATS[x.dtype]
    subnormal = less(x, 2.0 ** (1 - form.bias))
    scale = where(subnormal, 2.0**form.mantissa, 1.0, x.dtype)
    exponent, fraction = whole_exponent(mul(x, scale), lowest)
    lifted = where(subnormal, -float(form.mantissa), 0.0, x.dtype)
    return fma(cast(exponent, x.dtype), 2.0**-form.mantissa, lifted), add(fraction, -1.0)


def log1p_reduced(f: UOp, coefficients: Sequence[float]) -> UOp:
    """log(1 + f) for |f| <= 1/3."""
    return fma(mul(f, f), polynomial(f, coefficients), f)


def log_specials(result: UOp, x: UOp, pole: float) -> UOp:
    """The result of a logarithm where x is finite and above the pole, and otherwise what belongs there."""
    finite = where(less(x, INF), result, x)
    return where(less(pole, x), finite, where(equal(x, pole), -INF, NAN, x.dtype))


def log1p_positive(x: UOp) -> tuple[UOp, UOp]:
    """For a finite x > -1: e (as a float, times 2**mantissa) and log((1 + x) / 2**e)."""
    form = FORMATS[x.dtype]
    exponent, _ = whole_exponent(add(x, 1.0), TWO_THIRDS)
    minus = negative(exponent)
    # f = x*2**-e + (2**-e - 1): from x itself, since 1 + x is rounded.
    scaled = from_bits(add(bits(x), minus), x.dtype)
    # 4 * 2**-e, which is always normal.
    power = from_bits(add(minus, (form.bias + 2) << form.mantissa), x.dtype)
    f = add(scaled, fma(power, 0.25, -1.0))
    return cast(exponent, x.dtype), log1p_reduced(f, LOG_POLYNOMIAL[x.dtype])


def log1p_finite(x: UOp) -> UOp:
    """log(1 + x) for a finite x > -1."""
    exponent, reduced = log1p_positive(x)
    return fma(exponent, LN2[x.dtype][0] * 2.0 ** -FORMATS[x.dtype].mantissa, reduced)


# Above, the 1 in sqrt(x² ± 1) does not count, and x² might be infinite.
LARGE = {dtypes.float32: 2.0**30, dtypes.float64: 2.0**60}
