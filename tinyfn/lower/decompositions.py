"""Elementwise functions as compositions of the scalar machine operations, one formula for every device.

`DECOMPOSITIONS` maps the name of an elementwise primitive (and so of the machine operations `exp2`, `log2`
and `sin`) to a function that takes its operands, and its parameters by name, and gives the result. What it
builds is exact arithmetic, `fma`, `div`, `sqrt`, bit operations and selections: a renderer that implements
these as `trace/scalar.py` says gives the bits that `scalar.evaluate` gives. A renderer must not contract
`mul` and `add` into `fma` or reorder sums here: rounding errors are recovered by formulas that would break.

There are no branches: every range of an argument is computed and `where` picks. Subnormals are treated as
numbers, and zeros' signs, infinities and NaN come out as in NumPy. float16 and bfloat16 go through float32
and are rounded once more at the end. `ULP` states how far a result may be from the exact one.

Methods: arguments are reduced as in Cody and Waite, "Software Manual for the Elementary Functions" (1980),
with the fused multiply-add in place of short constants, and large angles as in Payne and Hanek, "Radian
Reduction for Trigonometric Functions" (1983); sums of two floats follow Dekker (1971) and Knuth. All
polynomials are our own minimax fits (Remez exchange in 60 digits for float64; Lawson's weighted least squares
for float32, rounding one coefficient after the other and fitting the rest anew), weighted for the relative
error of the function's value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..trace import dtype as dtypes
from ..trace.dtype import DType
from ..trace.scalar import (
    ADD,
    AND,
    BITCAST,
    CAST,
    DIV,
    EQ,
    FMA,
    IDIV,
    LT,
    MAX,
    MIN,
    MOD,
    MUL,
    OR,
    RECIP,
    SHL,
    SHR,
    SQRT,
    TRUNC,
    WHERE,
    XOR,
    ScalarOp,
    build,
)
from ..trace.uop import UOp, const

Decomposition = Callable[..., UOp]
_Number = UOp | float  # a node, or a Python number that takes the dtype of the nodes beside it
_Table = dict[DType, tuple[float, ...]]


class _Format(NamedTuple):
    """How a float is laid out in bits."""

    integer: DType
    mantissa: int  # bits that are stored
    bias: int  # of the exponent
    rounding: float  # 1.5 * 2**mantissa: a sum with it is rounded to a whole number, which its low bits hold


_FORMATS = {
    dtypes.float16: _Format(dtypes.int16, 10, 15, 1.5 * 2**10),
    dtypes.bfloat16: _Format(dtypes.int16, 7, 127, 1.5 * 2**7),
    dtypes.float32: _Format(dtypes.int32, 23, 127, 1.5 * 2**23),
    dtypes.float64: _Format(dtypes.int64, 52, 1023, 1.5 * 2**52),
}
_HALVES = (dtypes.float16, dtypes.bfloat16)
_INTEGERS = frozenset(dtypes.INTEGERS)
_UNSIGNED = frozenset(dtypes.UNSIGNED)
_INF, _NAN = float("inf"), float("nan")

# Constants of each format; of a pair, the second is what the first leaves.

_LN2 = {
    dtypes.float32: (0.6931472, -1.9046542e-09),
    dtypes.float64: (0.6931471805599453, 2.3190468138462996e-17),
}
_LOG2_E = {dtypes.float32: 1.442695, dtypes.float64: 1.4426950408889634}
_PI = 3.141592653589793
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)  # float64
_THIRD = (0.3333333333333333, 1.850371707708594e-17)  # float64
_TWO_LOG2_E = (2.8853900817779268, 4.0710547481862066e-17)  # float64
# floor(2/pi * 2**1280)
_TWO_OVER_PI_BITS = 1280
_TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921c"
    "fe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980f"
    "ef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d08"
    "56033046fc7b6babf0cfbc209af4361d",
    16,
)

# Polynomials, lowest coefficient first.

_EXP: _Table = {  # (exp(r) - 1 - r)/r² on ±ln 2
    dtypes.float32: (
        0.50000036, 0.16666614, 0.04166116, 0.008336098, 0.0014106552, 0.00019617408
    ),
    dtypes.float64: (
        0.4999999999999991, 0.16666666666667015, 0.04166666666670906, 0.008333333333274113,
        0.0013888888882617441, 0.0001984126987559856, 2.4801591351612675e-05, 2.75573112650264e-06,
        2.755603803073992e-07, 2.5052557536752593e-08, 2.1072140787549953e-09, 1.6135325091351342e-10
    ),
}  # fmt: skip
_EXP2: _Table = {  # (2**f - 1)/f on ±1
    dtypes.float32: (
        0.69314724, 0.24022669, 0.055503666, 0.009616832, 0.0013341522, 0.00015646816, 1.4930843e-05
    ),
    dtypes.float64: (
        0.693147180559945, 0.24022650695910047, 0.05550410866483151, 0.009618129107634835,
        0.0013333558145637245, 0.0001540353038847566, 1.525273407487833e-05, 1.3215488451832927e-06,
        1.0178041094036057e-07, 7.054635430647837e-09, 4.4490758677454314e-10, 2.58993148267779e-11,
        1.2663909865473535e-12
    ),
}  # fmt: skip
_EXPM1: _Table = {  # (exp(r) - 1 - r)/r² on ±(ln 2)/2
    dtypes.float32: (
        0.49999997, 0.16666545, 0.041667435, 0.008366474, 0.0013870983
    ),
    dtypes.float64: (
        0.5000000000000001, 0.1666666666666667, 0.0416666666666485, 0.008333333333326937,
        0.001388888889730926, 0.00019841269871753974, 2.480157136596447e-05, 2.755725889038953e-06,
        2.7570493702452613e-07, 2.5103963336870326e-08, 1.6934742798101556e-09
    ),
}  # fmt: skip
_SINH: _Table = {  # (sinh(r)/r - 1)/r² in r² on ±(ln 2)/2
    dtypes.float32: (
        0.16666667, 0.008333176, 0.0001997301
    ),
    dtypes.float64: (
        0.16666666666666666, 0.008333333333334417, 0.00019841269837143455, 2.7557326083566795e-06,
        2.504692175843718e-08, 1.7529504872011647e-10
    ),
}  # fmt: skip
_COSH: _Table = {  # (cosh(r) - 1 - r²/2)/r⁴ in r² on ±(ln 2)/2
    dtypes.float32: (
        0.041666456, 0.0013935842
    ),
    dtypes.float64: (
        0.041666666666666664, 0.0013888888888890832, 2.4801587295678827e-05, 2.755732756250253e-07,
        2.087119733827445e-09, 1.2893955586062216e-11
    ),
}  # fmt: skip
_LOG: _Table = {  # (log(1 + f) - f)/f² on ±1/3
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
_LOG2: _Table = {  # log2(1 + f)/f - _LOG2_E on ±1/3
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
_SIN: _Table = {  # (sin(r)/r - 1)/r² in r² on ±0.86
    dtypes.float32: (
        -0.16666646, 0.008331665, -0.00019452121
    ),
    dtypes.float64: (
        -0.16666666666666563, 0.008333333333306124, -0.0001984126981748092, 2.755730966072563e-06,
        -2.5050164080305392e-08, 1.5864411962063906e-10
    ),
}  # fmt: skip
_COS: _Table = {  # (cos(r) - 1 + r²/2)/r⁴ in r² on ±0.86
    dtypes.float32: (
        0.04166663, -0.0013886634, 2.4360568e-05
    ),
    dtypes.float64: (
        0.04166666666666644, -0.001388888888884895, 2.4801587274923948e-05, -2.7557310452272e-07,
        2.0875230878931703e-09, -1.1335926806419224e-11
    ),
}  # fmt: skip
_ASIN: _Table = {  # (asin(x)/x - 1)/x² in x² on ±1/2
    dtypes.float32: (
        0.16666754, 0.07495252, 0.04547604, 0.024152093, 0.042211797
    ),
    dtypes.float64: (
        0.16666666666665383, 0.07500000000342917, 0.044642856823580324, 0.030381959327449307,
        0.022371753609074733, 0.017359769902883758, 0.01388460941805788, 0.012173213740702163,
        0.006511110613542692, 0.01957326889392995, -0.016293168607930304, 0.031958403507704125
    ),
}  # fmt: skip
_ATAN: _Table = {  # (atan(x)/x - 1)/x² in x² on ±1
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
_ERF: _Table = {  # erf(x)/x - 1 in x² on ±1
    dtypes.float32: (
        0.12837912, -0.37612322, 0.112801515, -0.026710577, 0.0049167555, -0.00056283426
    ),
    dtypes.float64: (
        0.12837916709551256, -0.3761263890318387, 0.11283791670960971, -0.026866170645793067,
        0.00522397762736777, -0.0008548326902289413, 0.00012055321281554916, -1.4925218916737963e-05,
        1.6453088265759758e-06, -1.6249858382057778e-07, 1.38911103440562e-08, -8.101663890349345e-10
    ),
}  # fmt: skip
_ERF_TAIL: _Table = {  # log(erfc(1.5 + t)) for 1 .. 4 and 1 .. 6
    dtypes.float32: (
        -3.3844917, -3.5088015, -0.89266485, -0.02584975, 0.00615003, -0.0011507309
    ),
    dtypes.float64: (
        -3.3844920895515527, -3.508800801779522, -0.8926403306150276, -0.025824140634002245,
        0.006006746385876938, -0.0012572166808076236, 0.00021596331139475545, -2.2473733938764937e-05,
        -2.6468515363658936e-06, 2.371021579987122e-06, -8.188296941166749e-07, 1.9226187755825145e-07,
        -2.7480124405174046e-08, -1.0030797781759194e-09, 1.9562026223141126e-09, -5.878490908367977e-10,
        8.861475272856557e-11, -5.6691216579619334e-12
    ),
}  # fmt: skip
_ERFC: _Table = {  # (1 + 2x) exp(x²) erfc(x) in (x - centre)/(x + centre) on 0 .. 10.1 and 0 .. 27.3
    dtypes.float32: (
        1.253008, -0.1356211, -0.047558002, 0.12964687, -0.119331405, 0.0682566, -0.023529932, 0.0028720293,
        0.0016882619, -0.0013835933, -0.0005060949
    ),
    dtypes.float64: (
        1.2329951186255526, -0.13962111684056322, 0.015379652102604889, 0.0680970542547682,
        -0.10103906603549294, 0.09373283499606876, -0.06633036582970651, 0.03716751556746652,
        -0.016197733862861507, 0.005031969777785982, -0.0007577745602020652, -0.00019925600538333934,
        0.00015062682805557642, -2.4400138153632093e-05, -1.1235264336255092e-05, 5.7083991393847e-06,
        3.1507582090971314e-07, -8.185925577767748e-07, 5.4447140843739295e-08, 1.0000277829607157e-07,
        -8.100231809375779e-09, -7.784542945260962e-09, 2.1046259355772036e-10
    ),
}  # fmt: skip
# erf_inv(x)/x in w or √w, with w = -log(1 - x²), for each of _ERF_INV_PIECES.
_ERF_INV: dict[DType, tuple[tuple[float, ...], ...]] = {
    dtypes.float32: (
        (
            1.5014094, 0.24664071, -0.0041776937, -0.001253694, 0.00021859669, -4.4005164e-06,
            -3.528052e-06, 3.4403797e-07, 2.8496311e-08
        ),
        (
            2.8329768, 1.0016752, 0.009445335, -0.007641018, 0.0056849243, -0.0035824894, 0.0014920457,
            -8.053798e-05, -0.0003157079, 0.00012918434
        ),
    ),
    dtypes.float64: (
        (
            1.6536545626831027, 0.24015818242558767, -0.006033670871427581, -0.0007407025341525634,
            0.00018673420802500567, -1.3882523394113008e-05, -1.3654691874662737e-06,
            4.2347881282963384e-07, -2.907037914250954e-08, -4.112655689915479e-09, 1.051216232833337e-09,
            -5.414565224506113e-11, -1.2976210311896639e-11, 2.631364457389146e-12, -8.132934248076548e-14,
            -4.018669097159127e-14, 6.6159334346429075e-15, -1.843869181012796e-17, -1.3176715722339215e-16,
            1.3887980320697543e-17, 1.2229339362801993e-18, -2.7672980975207437e-19, -2.536177216964577e-21,
            1.8713615220940247e-21
        ),
        (
            3.0838856104922203, 1.0052589676941586, 0.00537091455366302, -0.0037512085075006316,
            0.0024914420925588768, -0.0016882755579474679, 0.000953289446011136, -0.00035503749662700774,
            2.4030491919677463e-05, 6.828469850504002e-05, -4.73149935251433e-05, 1.247585711630463e-05,
            2.913519497018305e-06, -4.0149942175230795e-06, 1.5204589263884294e-06, 1.9449365896801802e-08,
            -2.922085509701458e-07, 9.022501214911874e-08, 9.029468174660824e-09
        ),
        (
            4.849906401408584, 1.0103004648645455, -0.00013871931839309776, -0.00021503011983568866,
            7.599527843993628e-05, -1.968177058263689e-05, 4.52604902887389e-06, -9.930301829666912e-07,
            2.2907066005190966e-07, -6.755331115769923e-08, 2.8967539753555103e-08, -1.526097765531854e-08,
            7.907396515659293e-09, -3.4644695126961834e-09, 1.2317716875928464e-09, -4.41757840715375e-10,
            1.1404417515640459e-10, 4.3917746352799446e-11, -3.0172891247179855e-11
        ),
    ),
}  # fmt: skip
_POW_LOG = (  # as _LOG, to 2**-35
    -0.49999999886630875, 0.33333333276774996, -0.2500002846743779, 0.20000014128533156,
    -0.16664629091860894, 0.14284710010427165, -0.12562274886979433, 0.11141501593402735,
    -0.09081075689105625, 0.08649763316804462, -0.14735920189967128, 0.106648938806278, 0.08932223942447322
)  # fmt: skip
_POW_EXP2 = (  # as _EXP2 on ±1/2, to 2**-31
    0.6931471838957304, 0.24022650924575065, 0.055504001908321866, 0.009618055967024457,
    0.001334203578245101, 0.0001546177155697029, 1.3355455184341311e-05
)  # fmt: skip
_POW_TAIL = (  # (atanh(s)/s - 1 - s²/3)/s⁴ in s² on ±0.172
    0.19999999999999987, 0.14285714285723522, 0.11111111108535057, 0.09090909463567, 0.07692276510238533,
    0.06668232305540645, 0.058359245693114445, 0.06006796502487575
)  # fmt: skip

# Building nodes. A Python number beside a node is a constant of its dtype; integers wrap around.


def _constant(value: float, dtype: DType) -> UOp:
    if dtype in _INTEGERS:
        value = int(value) & ((1 << 8 * dtype.itemsize) - 1)
        if dtype not in _UNSIGNED and value >> (8 * dtype.itemsize - 1):
            value -= 1 << 8 * dtype.itemsize
    return const(value, dtype)


def _operation(op: ScalarOp) -> Callable[..., UOp]:
    def operation(*operands: _Number) -> UOp:
        dtype = next(o.dtype for o in operands if isinstance(o, UOp))
        return build(op, *[o if isinstance(o, UOp) else _constant(o, dtype) for o in operands])

    return operation


_add, _mul, _fma, _div, _max, _min = (_operation(op) for op in (ADD, MUL, FMA, DIV, MAX, MIN))
_shl, _shr, _and, _or, _xor, _lt, _eq = (_operation(op) for op in (SHL, SHR, AND, OR, XOR, LT, EQ))
_idiv, _mod = _operation(IDIV), _operation(MOD)


def _where(condition: UOp, x: _Number, y: _Number, dtype: DType | None = None) -> UOp:
    if dtype is None:
        dtype = next(o.dtype for o in (x, y) if isinstance(o, UOp))
    return build(WHERE, condition, *[o if isinstance(o, UOp) else _constant(o, dtype) for o in (x, y)])


def _cast(x: UOp, dtype: DType) -> UOp:
    return x if x.dtype is dtype else build(CAST, x, arg=dtype)


def _bits(x: UOp) -> UOp:
    return build(BITCAST, x, arg=_FORMATS[x.dtype].integer)


def _float(bits: UOp, dtype: DType) -> UOp:
    return build(BITCAST, bits, arg=dtype)


def _negative(x: UOp) -> UOp:
    return _mul(x, -1)


def _not(x: UOp) -> UOp:
    return _xor(x, True)


def _sign_mask(dtype: DType) -> int:
    return 1 << (8 * dtype.itemsize - 1)


def _magnitude(x: UOp) -> UOp:
    """|x|, of NaN too."""
    return _float(_and(_bits(x), _sign_mask(x.dtype) - 1), x.dtype)


def _sign_bit(x: UOp) -> UOp:
    return _and(_bits(x), _sign_mask(x.dtype))


def _flip_sign(x: UOp, sign: UOp) -> UOp:
    """x, with its sign changed where the sign bit is set."""
    return _float(_xor(_bits(x), sign), x.dtype)


def _odd(function: Callable[[UOp], UOp]) -> Callable[[UOp], UOp]:
    """The odd function that is `function` on what is not negative."""

    @functools.wraps(function)
    def odd(x: UOp) -> UOp:
        return _flip_sign(function(_magnitude(x)), _sign_bit(x))

    return odd


def _polynomial(x: UOp, coefficients: Sequence[float]) -> UOp:
    """By Horner's rule, which takes the fewest operations; elements beside each other hide its latency."""
    *rest, last = coefficients
    result: Any = last
    for coefficient in reversed(rest):
        result = _fma(x, result, coefficient)
    return result


def _two_sum(x: UOp, y: UOp) -> tuple[UOp, UOp]:
    """x + y, and what its rounding leaves (Knuth)."""
    total = _add(x, y)
    virtual = _fma(x, -1.0, total)
    return total, _add(_fma(_fma(virtual, -1.0, total), -1.0, x), _fma(virtual, -1.0, y))


def _quick_two_sum(x: UOp, y: UOp) -> tuple[UOp, UOp]:
    """x + y, and what its rounding leaves, where |x| >= |y| or x is 0 (Dekker)."""
    total = _add(x, y)
    return total, _add(_fma(total, -1.0, x), y)


def _two_product(x: UOp, y: _Number) -> tuple[UOp, UOp]:
    """x * y, and what its rounding leaves."""
    product = _mul(x, y)
    return product, _fma(x, y, _negative(product))


# Exponentials. x = k ln 2 + r with a whole k. A number that is rounded by adding 1.5 * 2**mantissa is also
# found in the low bits of the sum, from where one shift makes it an exponent.


def _rounded(x: UOp, factor: float, bias: int) -> tuple[UOp, UOp]:
    """The whole number k next to x*factor, and 2**(k + bias)."""
    form = _FORMATS[x.dtype]
    shifted = _fma(x, factor, form.rounding + form.bias + bias)
    power = _float(_shl(_bits(shifted), form.mantissa), x.dtype)
    return _add(shifted, -(form.rounding + form.bias + bias)), power


def _exp_parts(x: UOp) -> tuple[UOp, UOp]:
    """p and s with exp(x) = p*s*s, where x is not much outside of what has a finite result.

    With an even k two equal powers of two scale the result, so that it passes into subnormals and infinity
    in one rounding; a polynomial of twice the range costs less than two different powers."""
    dtype = x.dtype
    high, low = _LN2[dtype]
    half, power = _rounded(x, 0.5 * _LOG2_E[dtype], 0)
    r = _fma(half, -2 * low, _fma(half, -2 * high, x))
    return _fma(r, _fma(r, _polynomial(r, _EXP[dtype]), 1.0), 1.0), power


def _scaled(p: UOp, power: UOp) -> UOp:
    return _mul(_mul(p, power), power)


_EXP_RANGE = {dtypes.float32: (-104.5, 89.0), dtypes.float64: (-746.0, 710.0)}  # beyond: 0 and infinity
_EXP2_RANGE = {dtypes.float32: (-152.0, 129.0), dtypes.float64: (-1078.0, 1025.0)}
_EXPM1_RANGE = {dtypes.float32: (-18.0, 89.0), dtypes.float64: (-38.0, 710.0)}
# Below, f(x) rounds to x for the functions whose series begins x + O(x²).
_TINY = {dtypes.float32: 2.0**-25, dtypes.float64: 2.0**-54}


def _clipped(x: UOp, bounds: tuple[float, float]) -> UOp:
    return _min(_max(x, bounds[0]), bounds[1])


def _exp(x: UOp) -> UOp:
    return _scaled(*_exp_parts(_clipped(x, _EXP_RANGE[x.dtype])))


def _exp2_parts(x: UOp, low: UOp | None = None) -> tuple[UOp, UOp]:
    """p and s with 2**(x + low) = p*s*s."""
    half, power = _rounded(x, 0.5, 0)
    f = _fma(half, -2.0, x)
    if low is not None:
        f = _add(f, low)
    return _fma(f, _polynomial(f, _EXP2[x.dtype]), 1.0), power


def _exp2(x: UOp) -> UOp:
    return _scaled(*_exp2_parts(_clipped(x, _EXP2_RANGE[x.dtype])))


def _expm1_reduced(r: UOp) -> UOp:
    """exp(r) - 1 for |r| <= (ln 2)/2."""
    return _fma(_mul(r, r), _polynomial(r, _EXPM1[r.dtype]), r)


def _expm1(x: UOp) -> UOp:
    dtype = x.dtype
    high, low = _LN2[dtype]
    clipped = _clipped(x, _EXPM1_RANGE[dtype])
    k, half_power = _rounded(clipped, _LOG2_E[dtype], -1)
    r = _fma(k, -low, _fma(k, -high, clipped))
    half = _fma(half_power, _expm1_reduced(r), _add(half_power, -0.5))
    return _where(_lt(_magnitude(x), _TINY[dtype]), x, _add(half, half))


# cosh and sinh of k ln 2 + r, from those of r: no cancellation and no division.

_HYPERBOLIC_RANGE = {dtypes.float32: 89.6, dtypes.float64: 710.6}


def _hyperbolic_parts(a: UOp) -> tuple[UOp, UOp, UOp, UOp]:
    """For a >= 0: cosh r, sinh r, and a quarter of 2**k ± 2**-k."""
    dtype = a.dtype
    form = _FORMATS[dtype]
    high, low = _LN2[dtype]
    a = _min(a, _HYPERBOLIC_RANGE[dtype])
    k, up = _rounded(a, _LOG2_E[dtype], -2)
    r = _fma(k, -low, _fma(k, -high, a))
    # The exponents of 2**(k - 2) and 2**(-k - 2), with their biases, add up to 2*(bias - 2).
    down = _float(_max(_add(_negative(_bits(up)), 2 * (form.bias - 2) << form.mantissa), 0), dtype)
    z = _mul(r, r)
    cosh = _fma(z, _fma(z, _polynomial(z, _COSH[dtype]), 0.5), 1.0)
    sinh = _fma(_mul(r, z), _polynomial(z, _SINH[dtype]), r)
    return cosh, sinh, _add(up, down), _fma(down, -1.0, up)


@_odd
def _sinh(a: UOp) -> UOp:
    cosh, sinh, total, difference = _hyperbolic_parts(a)
    half = _fma(total, sinh, _mul(difference, cosh))
    # Halves of subnormals lose a bit.
    return _where(_lt(a, {dtypes.float32: 2.0**-13, dtypes.float64: 2.0**-27}[a.dtype]), a, _add(half, half))


def _cosh(x: UOp) -> UOp:
    cosh, sinh, total, difference = _hyperbolic_parts(_magnitude(x))
    half = _fma(total, cosh, _mul(difference, sinh))
    return _add(half, half)


@_odd
def _tanh(a: UOp) -> UOp:
    # t/(t + 2) with t = exp(2a) - 1, where 2a = k ln 2 + 2r.
    dtype = a.dtype
    high, low = _LN2[dtype]
    a = _min(a, {dtypes.float32: 10.0, dtypes.float64: 20.0}[dtype])
    k, power = _rounded(a, 2 * _LOG2_E[dtype], 0)
    r = _fma(k, -0.5 * low, _fma(k, -0.5 * high, a))
    t = _fma(power, _expm1_reduced(_add(r, r)), _add(power, -1.0))
    return _div(t, _add(t, 2.0))


def _logistic(x: UOp) -> UOp:
    # Through exp(-|x|), which does not overflow.
    negative_magnitude = _float(_or(_bits(x), _sign_mask(x.dtype)), x.dtype)
    decay = _scaled(*_exp_parts(_max(negative_magnitude, _EXP_RANGE[x.dtype][0])))
    return _div(_where(_lt(x, 0.0), decay, 1.0), _add(decay, 1.0))


# Logarithms. x = 2**e * (1 + f) with 1 + f in [lowest, 2*lowest), lowest <= 1, so that no digits cancel near
# x = 1.

_TWO_THIRDS, _SQRT_HALF = 2.0 / 3.0, 0.7071067811865476


def _float_bits(value: float, dtype: DType) -> int:
    return int(np.asarray(value, dtype).view(_FORMATS[dtype].integer))


def _whole_exponent(x: UOp, lowest: float) -> tuple[UOp, UOp]:
    """For a normal x > 0: e in the exponent's place (e * 2**mantissa, an integer), and 1 + f."""
    form = _FORMATS[x.dtype]
    start = _float_bits(lowest, x.dtype)
    offset = _add(_bits(x), -start)
    fraction = _add(_and(offset, (1 << form.mantissa) - 1), start)
    return _and(offset, -1 << form.mantissa), _float(fraction, x.dtype)


def _exponent_fraction(x: UOp, lowest: float = _TWO_THIRDS) -> tuple[UOp, UOp]:
    """For a finite x > 0: e as a float, and f."""
    form = _FORMATS[x.dtype]
    subnormal = _lt(x, 2.0 ** (1 - form.bias))
    scale = _where(subnormal, 2.0**form.mantissa, 1.0, x.dtype)
    exponent, fraction = _whole_exponent(_mul(x, scale), lowest)
    lifted = _where(subnormal, -float(form.mantissa), 0.0, x.dtype)
    return _fma(_cast(exponent, x.dtype), 2.0**-form.mantissa, lifted), _add(fraction, -1.0)


def _log1p_reduced(f: UOp, coefficients: Sequence[float]) -> UOp:
    """log(1 + f) for |f| <= 1/3."""
    return _fma(_mul(f, f), _polynomial(f, coefficients), f)


def _log_specials(result: UOp, x: UOp, pole: float) -> UOp:
    """The result of a logarithm where x is finite and above the pole, and otherwise what belongs there."""
    finite = _where(_lt(x, _INF), result, x)
    return _where(_lt(pole, x), finite, _where(_eq(x, pole), -_INF, _NAN, x.dtype))


def _log(x: UOp) -> UOp:
    exponent, f = _exponent_fraction(x)
    return _log_specials(_fma(exponent, _LN2[x.dtype][0], _log1p_reduced(f, _LOG[x.dtype])), x, 0.0)


def _log2(x: UOp) -> UOp:
    exponent, f = _exponent_fraction(x)
    reduced = _fma(f, _LOG2_E[x.dtype], _mul(f, _polynomial(f, _LOG2[x.dtype])))
    return _log_specials(_add(exponent, reduced), x, 0.0)


def _log1p_positive(x: UOp) -> tuple[UOp, UOp]:
    """For a finite x > -1: e (as a float, times 2**mantissa) and log((1 + x) / 2**e)."""
    form = _FORMATS[x.dtype]
    exponent, _ = _whole_exponent(_add(x, 1.0), _TWO_THIRDS)
    minus = _negative(exponent)
    # f = x*2**-e + (2**-e - 1): from x itself, since 1 + x is rounded.
    scaled = _float(_add(_bits(x), minus), x.dtype)
    # 4 * 2**-e, which is always normal.
    power = _float(_add(minus, (form.bias + 2) << form.mantissa), x.dtype)
    f = _add(scaled, _fma(power, 0.25, -1.0))
    return _cast(exponent, x.dtype), _log1p_reduced(f, _LOG[x.dtype])


def _log1p_finite(x: UOp) -> UOp:
    exponent, reduced = _log1p_positive(x)
    return _fma(exponent, _LN2[x.dtype][0] * 2.0 ** -_FORMATS[x.dtype].mantissa, reduced)


def _log1p(x: UOp) -> UOp:
    return _log_specials(_where(_eq(x, 0.0), x, _log1p_finite(x)), x, -1.0)


# Above, the 1 in sqrt(x² ± 1) does not count, and x² might be infinite.
_LARGE = {dtypes.float32: 2.0**30, dtypes.float64: 2.0**60}


@_odd
def _asinh(a: UOp) -> UOp:
    # log(a + sqrt(a² + 1)) with the 1 taken out: a + a²/(1 + sqrt(a² + 1)).
    large = _lt(_LARGE[a.dtype], a)
    square = _mul(a, a)
    rest = _div(square, _add(build(SQRT, _add(square, 1.0)), 1.0))
    logarithm = _log1p_finite(_where(large, a, _add(a, rest)))
    result = _add(logarithm, _where(large, _LN2[a.dtype][0], 0.0, a.dtype))
    return _where(_lt(a, _INF), result, a)


def _acosh(x: UOp) -> UOp:
    large = _lt(_LARGE[x.dtype], x)
    t = _add(x, -1.0)
    root = build(SQRT, _fma(t, t, _add(t, t)))
    logarithm = _log1p_finite(_where(large, x, _add(t, root)))
    result = _add(logarithm, _where(large, _LN2[x.dtype][0], 0.0, x.dtype))
    return _where(_lt(x, _INF), _where(_lt(x, 1.0), _NAN, result), x)


@_odd
def _atanh(a: UOp) -> UOp:
    half = _mul(_log1p_finite(_div(_add(a, a), _fma(a, -1.0, 1.0))), 0.5)
    return _where(_lt(a, 1.0), half, _where(_eq(a, 1.0), _INF, _NAN, a.dtype))


# Angles. |x| = n pi/2 + r with |r| <= 0.86; the low bits of n are the quadrant.


def _float_pair(numerator: int, denominator: int) -> tuple[float, float]:
    """A fraction as the sum of two float64."""
    high = numerator / denominator
    p, q = high.as_integer_ratio()
    return high, (numerator * q - p * denominator) / (denominator * q)


def _quarter_turns(shift: int) -> tuple[float, float]:
    """2**shift * 2/pi without the multiples of 4, in [-2, 2), divided by 2**shift."""
    one = 1 << _TWO_OVER_PI_BITS
    rest = ((_TWO_OVER_PI << shift) + 2 * one) % (4 * one) - 2 * one
    return _float_pair(rest, one << shift)


# In a band, x is a multiple of 2**shift, so that multiples of 4 * 2**-shift in 2/pi do not count. The product
# of x and the rest stays below 2**51 quarter turns: its whole part is exact in float64, and two constants do
# for the fraction.
_BANDS = tuple(
    (limit, *_quarter_turns(shift))
    for limit, shift in ((2.0**50, 0), (2.0**77, 27), (2.0**104, 54), (_INF, 81))
)
_RINT = _FORMATS[dtypes.float64].rounding


class _Angle(NamedTuple):
    """What is left of an angle."""

    r: UOp
    low: UOp | None  # what r's rounding leaves
    quadrant: UOp  # an integer of which two bits count


def _reduce_float32(a: UOp) -> _Angle:
    """Of a >= 0, in float64: right for every float32."""
    wide_dtype = dtypes.float64
    limit, first_high, first_low = _BANDS[0]
    high, low = const(first_high, wide_dtype), const(first_low, wide_dtype)
    for next_limit, next_high, next_low in _BANDS[1:]:
        below = _lt(a, limit)
        high, low = _where(below, high, next_high), _where(below, low, next_low)
        limit = next_limit
    wide = _cast(a, wide_dtype)
    shifted = _fma(wide, high, _RINT)
    turns = _fma(wide, low, _fma(wide, high, _fma(shifted, -1.0, _RINT)))
    r = _cast(_mul(turns, _HALF_PI[0]), dtypes.float32)
    return _Angle(r, None, _cast(_bits(shifted), dtypes.int32))


_PAYNE_HANEK_FROM = 2.0**50


def _reduce_float64(a: UOp) -> _Angle:
    """Of a >= 0, right for every float64: by three pieces of pi/2 below 2**50, above by Payne and Hanek."""
    shifted = _fma(a, 1 / _HALF_PI[0], _RINT)
    minus = _fma(shifted, -1.0, _RINT)
    # The first difference is exact: a multiple of 2**-53 that is below 1.
    product, product_low = _two_product(minus, _HALF_PI[1])
    total, low = _two_sum(_fma(minus, _HALF_PI[0], a), product)
    near, near_low = _quick_two_sum(total, _fma(minus, _HALF_PI[2], _add(low, product_low)))
    far = _payne_hanek(a)
    is_near = _lt(a, _PAYNE_HANEK_FROM)
    return _Angle(
        _fma(a, 0.0, _where(is_near, near, far.r)),  # NaN for infinity
        _where(is_near, near_low, _some(far.low)),
        _where(is_near, _bits(shifted), far.quadrant),
    )


def _some(x: UOp | None) -> UOp:
    assert x is not None
    return x


def _payne_hanek(a: UOp) -> _Angle:
    """Of a float64 a >= 2**50: its mantissa times the 192 bits of 2/pi that matter, the first of weight 2."""
    word = dtypes.uint64
    bits = build(BITCAST, a, arg=word)
    mantissa = _or(_and(bits, (1 << 52) - 1), 1 << 52)
    # Bit 0 of the table has the weight 2**3, so that the window of 2**50 begins there.
    table = _TWO_OVER_PI >> (_TWO_OVER_PI_BITS - 19 * 64 + 4)
    words = [const((table >> 64 * (18 - i)) & ((1 << 64) - 1), word) for i in range(19)]
    position = _add(_shr(bits, 52), -(1075 + 2 - 4))
    for span in (8, 4, 2, 1):  # moves the window to the word of its first bit
        move = _eq(_and(position, 64 * span), 0)
        words = [_where(move, words[i], words[i + span]) for i in range(3 + span)]
    shift = _and(position, 63)
    rest = _add(_negative(shift), 64)
    first, second, third = (_or(_shl(words[i], shift), _shr(words[i + 1], rest)) for i in range(3))
    # The product modulo 4, as 128 bits of which the first has the weight 2.
    carried = _high_product(mantissa, third)
    lower = _add(_mul(mantissa, second), carried)
    carry = _cast(_lt(lower, carried), word)
    upper = _add(_add(_mul(mantissa, first), _high_product(mantissa, second)), carry)
    # The fraction next to 0, in -1/2 .. 1/2 of a quarter turn.
    fraction = build(BITCAST, _or(_shl(upper, 2), _shr(lower, 62)), arg=dtypes.int64)
    quadrant = _add(_shr(upper, 62), _and(_shr(upper, 61), 1))
    head = _mul(_cast(_and(fraction, -1 << 12), dtypes.float64), 2.0**-64)
    middle = _mul(_cast(_and(fraction, (1 << 12) - 1), dtypes.float64), 2.0**-64)
    tail = _cast(build(BITCAST, _shr(_shl(lower, 2), 12), arg=dtypes.int64), dtypes.float64)
    turns, turns_low = _quick_two_sum(head, _fma(tail, 2.0**-116, middle))
    product, product_low = _two_product(turns, _HALF_PI[0])
    r, low = _quick_two_sum(product, _fma(turns, _HALF_PI[1], _fma(turns_low, _HALF_PI[0], product_low)))
    return _Angle(r, low, build(BITCAST, quadrant, arg=dtypes.int64))


def _high_product(x: UOp, y: UOp) -> UOp:
    """The upper 64 bits of the product of two uint64, x being below 2**53."""
    mask = (1 << 32) - 1
    x0, x1, y0, y1 = _and(x, mask), _shr(x, 32), _and(y, mask), _shr(y, 32)
    cross = _mul(x0, y1)
    middle = _add(_add(_mul(x1, y0), _and(cross, mask)), _shr(_mul(x0, y0), 32))
    return _add(_add(_mul(x1, y1), _shr(cross, 32)), _shr(middle, 32))


_REDUCE = {dtypes.float32: _reduce_float32, dtypes.float64: _reduce_float64}


def _sin_and_cos(angle: _Angle) -> tuple[UOp, UOp]:
    """The sine and cosine of r."""
    r = angle.r
    z = _mul(r, r)
    cubic = _mul(z, _polynomial(z, _SIN[r.dtype]))
    quartic = _fma(z, _polynomial(z, _COS[r.dtype]), -0.5)
    if angle.low is None:
        return _fma(cubic, r, r), _fma(z, quartic, 1.0)
    sine = _add(_fma(cubic, r, angle.low), r)
    return sine, _add(_fma(z, quartic, _negative(_mul(r, angle.low))), 1.0)


def _second_bit_as_sign(quadrant: UOp) -> UOp:
    return _shl(_and(quadrant, 2), 8 * quadrant.dtype.itemsize - 2)


def _is_odd(quadrant: UOp) -> UOp:
    return _eq(_and(quadrant, 1), 1)


@_odd
def _sin(a: UOp) -> UOp:
    angle = _REDUCE[a.dtype](a)
    sine, cosine = _sin_and_cos(angle)
    return _flip_sign(_where(_is_odd(angle.quadrant), cosine, sine), _second_bit_as_sign(angle.quadrant))


def _cos(x: UOp) -> UOp:
    angle = _REDUCE[x.dtype](_magnitude(x))
    sine, cosine = _sin_and_cos(angle)
    sign = _second_bit_as_sign(_add(angle.quadrant, 1))
    return _flip_sign(_where(_is_odd(angle.quadrant), sine, cosine), sign)


@_odd
def _tan(a: UOp) -> UOp:
    angle = _REDUCE[a.dtype](a)
    sine, cosine = _sin_and_cos(angle)
    odd = _is_odd(angle.quadrant)
    ratio = _div(_where(odd, cosine, sine), _where(odd, sine, cosine))
    return _flip_sign(ratio, _where(odd, _sign_mask(a.dtype), 0, angle.quadrant.dtype))


# Inverse trigonometric functions.


def _series(x: UOp, z: UOp, coefficients: Sequence[float]) -> UOp:
    """x + x*z*P(z)."""
    return _fma(_mul(x, z), _polynomial(z, coefficients), x)


def _asin_halves(a: UOp) -> tuple[UOp, UOp]:
    """Whether a > 1/2; asin(a), or else asin(sqrt((1 - a)/2)), which is (pi/2 - asin(a))/2."""
    outer = _lt(0.5, a)
    z = _where(outer, _fma(a, -0.5, 0.5), _mul(a, a))
    return outer, _series(_where(outer, build(SQRT, z), a), z, _ASIN[a.dtype])


@_odd
def _asin(a: UOp) -> UOp:
    outer, angle = _asin_halves(a)
    return _where(outer, _fma(angle, -2.0, 0.5 * _PI), angle)


def _acos(x: UOp) -> UOp:
    outer, angle = _asin_halves(_magnitude(x))
    negative = _lt(x, 0.0)
    inner = _add(_flip_sign(angle, _xor(_sign_bit(x), _sign_mask(x.dtype))), 0.5 * _PI)
    double = _add(angle, angle)
    return _where(outer, _where(negative, _fma(double, -1.0, _PI), double), inner)


@_odd
def _atan(a: UOp) -> UOp:
    outer = _lt(1.0, a)
    t = _where(outer, build(RECIP, a), a)
    angle = _series(t, _mul(t, t), _ATAN[a.dtype])
    return _where(outer, _fma(angle, -1.0, 0.5 * _PI), angle)


def _atan2(y: UOp, x: UOp) -> UOp:
    a, b = _magnitude(y), _magnitude(x)
    steep = _lt(b, a)
    larger, smaller = _max(a, b), _min(a, b)
    # 0/0 is an angle of 0, and infinity/infinity one of pi/4.
    smallest = _float(_constant(1, _FORMATS[x.dtype].integer), x.dtype)
    t = _where(_eq(smaller, _INF), 1.0, _div(smaller, _max(larger, smallest)))
    angle = _series(t, _mul(t, t), _ATAN[x.dtype])
    angle = _where(steep, _fma(angle, -1.0, 0.5 * _PI), angle)
    angle = _where(_lt(_bits(x), 0), _fma(angle, -1.0, _PI), angle)
    return _flip_sign(angle, _sign_bit(y))


# Roots.


def _rsqrt(x: UOp) -> UOp:
    return build(RECIP, build(SQRT, x))


# The bits of a**(-1/3) are near to this minus a third of the bits of a: 4/3 of the bits of 1.0, less 0.066 of
# an exponent, which makes the greatest error (0.035) least.
_CBRT_START = {
    d: (4 / 3 * _FORMATS[d].bias - 0.066) * 2.0 ** _FORMATS[d].mantissa
    for d in (dtypes.float32, dtypes.float64)
}
# (1 + h)**(-1/3) = 1 - h/3 + 2h²/9 - 14h³/81 + ..., for the first step and the second.
_CBRT_STEPS = {
    dtypes.float32: ((-1 / 3, 2 / 9, -14 / 81), (-1 / 3,)),
    dtypes.float64: ((-1 / 3, 2 / 9, -14 / 81), (-1 / 3, 2 / 9, -14 / 81)),
}


@_odd
def _cbrt(a: UOp) -> UOp:
    dtype = a.dtype
    form = _FORMATS[dtype]
    subnormal = _lt(a, 2.0 ** (1 - form.bias))
    lift = form.mantissa // 3 + 1
    scaled = _mul(a, _where(subnormal, 8.0**lift, 1.0, dtype))
    third = _fma(_cast(_bits(scaled), dtype), -1 / 3, _CBRT_START[dtype])
    inverse = _float(_cast(third, form.integer), dtype)
    for coefficients in _CBRT_STEPS[dtype]:
        h = _fma(_mul(scaled, inverse), _mul(inverse, inverse), -1.0)
        inverse = _fma(_mul(inverse, h), _polynomial(h, coefficients), inverse)
    square = _mul(inverse, inverse)
    root = _mul(scaled, square)
    # Newton's step for root³ = scaled, with 1/root² = square.
    root = _fma(_fma(_mul(root, root), root, _negative(scaled)), _mul(square, -1 / 3), root)
    return _where(_lt(a, _INF), _mul(root, _where(subnormal, 2.0**-lift, 1.0, dtype)), a)


# The error function. W. Shepherd and J. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x²) erfc x in
# 0 <= x < inf" (Math. Comp. 36, 1981) is the form for erfc; the logarithm of erfc, from which erf is made, is
# smooth too.

_ERF_TAIL_CENTRE = 1.5
_ERF_LAST = {dtypes.float32: 4.0, dtypes.float64: 6.0}  # beyond, erf rounds to 1
_ERFC_CENTRE = {dtypes.float32: 3.0, dtypes.float64: 4.0}
_ERFC_RANGE = {dtypes.float32: 10.1, dtypes.float64: 27.3}  # beyond, erfc is 0


@_odd
def _erf(a: UOp) -> UOp:
    inner = _fma(a, _polynomial(_mul(a, a), _ERF[a.dtype]), a)
    logarithm = _polynomial(_add(_min(a, _ERF_LAST[a.dtype]), -_ERF_TAIL_CENTRE), _ERF_TAIL[a.dtype])
    p, power = _exp_parts(logarithm)
    outer = _fma(_mul(p, power), _negative(power), 1.0)
    return _where(_lt(a, 1.0), inner, outer)


def _erfc(x: UOp) -> UOp:
    dtype = x.dtype
    centre = _ERFC_CENTRE[dtype]
    a = _min(_magnitude(x), _ERFC_RANGE[dtype])
    t = _div(_add(a, -centre), _add(a, centre))
    factor = _div(_polynomial(t, _ERFC[dtype]), _fma(a, 2.0, 1.0))
    square, square_low = _two_product(a, a)
    p, power = _exp_parts(_negative(square))
    tail = _scaled(_mul(_fma(p, _negative(square_low), p), factor), power)
    return _where(_lt(x, 0.0), _fma(tail, -1.0, 2.0), tail)


# M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011) has the form: polynomials in w =
# -log(1 - x²) and its root. A piece is whether the root is taken, the centre, and where the next piece
# begins.
_ERF_INV_PIECES: dict[DType, tuple[tuple[bool, float, float], ...]] = {
    dtypes.float32: ((False, 2.5, 5.0), (True, 3.0, _INF)),
    dtypes.float64: ((False, 3.125, 6.25), (True, 3.25, 16.0), (True, 5.0, _INF)),
}


def _erf_inv(x: UOp) -> UOp:
    dtype = x.dtype
    a = _magnitude(x)
    exponent, fraction = _whole_exponent(_fma(a, _negative(a), 1.0), _TWO_THIRDS)
    reduced = _log1p_reduced(_add(fraction, -1.0), _LOG[dtype])
    w = _negative(_fma(_cast(exponent, dtype), _LN2[dtype][0] * 2.0 ** -_FORMATS[dtype].mantissa, reduced))
    root = build(SQRT, w)
    factor: UOp | None = None
    pieces = list(zip(_ERF_INV_PIECES[dtype], _ERF_INV[dtype], strict=True))
    for (takes_root, centre, limit), coefficients in reversed(pieces):
        piece = _polynomial(_add(root if takes_root else w, -centre), coefficients)
        factor = piece if factor is None else _where(_lt(w, limit), piece, factor)
    outside = _where(_eq(a, 1.0), _INF, _NAN, dtype)
    return _where(_lt(a, 1.0), _mul(x, _some(factor)), _flip_sign(outside, _sign_bit(x)))


# Powers.


def _log2_float32(a: UOp) -> tuple[UOp, None]:
    """log2 of a > 0, in float64 for a float32."""
    wide = _cast(a, dtypes.float64)
    exponent, fraction = _whole_exponent(wide, _TWO_THIRDS)
    reduced = _mul(_log1p_reduced(_add(fraction, -1.0), _POW_LOG), _LOG2_E[dtypes.float64])
    return _fma(_cast(exponent, dtypes.float64), 2.0**-52, reduced), None


def _log2_float64(a: UOp) -> tuple[UOp, UOp]:
    """log2 of a > 0 as a sum of two, to 2**-64: 2/(ln 2) atanh(s), with s = f/(2 + f)."""
    exponent, f = _exponent_fraction(a, _SQRT_HALF)
    sum_high, sum_low = _quick_two_sum(const(2.0, dtypes.float64), f)
    inverse = build(RECIP, sum_high)
    s = _mul(f, inverse)
    minus = _negative(s)
    s_low = _mul(_fma(minus, sum_low, _fma(minus, sum_high, f)), inverse)
    z, z_low = _two_product(s, s)
    z_low = _fma(_add(s, s), s_low, z_low)
    # atanh(s) = s + s*w, with w = z/3 + z² T(z).
    third, third_low = _two_product(z, _THIRD[0])
    third_low = _fma(z_low, _THIRD[0], _fma(z, _THIRD[1], third_low))
    w, w_low = _quick_two_sum(third, _mul(_mul(z, z), _polynomial(z, _POW_TAIL)))
    part, part_low = _two_product(s, w)
    part_low = _fma(s_low, w, _fma(s, _add(w_low, third_low), part_low))
    total, total_low = _quick_two_sum(s, part)
    total_low = _add(total_low, _add(part_low, s_low))
    high, low = _two_product(total, _TWO_LOG2_E[0])
    low = _fma(total, _TWO_LOG2_E[1], _fma(total_low, _TWO_LOG2_E[0], low))
    result, result_low = _quick_two_sum(exponent, high)
    return result, _add(result_low, low)


_POW_RANGE = {dtypes.float32: 200.0, dtypes.float64: 1100.0}


def _pow(x: UOp, y: UOp) -> UOp:
    dtype = x.dtype
    a = _magnitude(x)
    log, log_low = (_log2_float32 if dtype is dtypes.float32 else _log2_float64)(a)
    base, exponent = _cast(a, log.dtype), _cast(y, log.dtype)
    limit = _POW_RANGE[dtype]
    log = _where(_lt(base, _INF), _where(_eq(base, 0.0), -_INF, log), base)
    product = _mul(exponent, log)
    clipped = _clipped(product, (-limit, limit))
    if log_low is None:
        k, power = _rounded(clipped, 1.0, 0)
        f = _fma(k, -1.0, clipped)
        result = _cast(_mul(_fma(f, _polynomial(f, _POW_EXP2), 1.0), power), dtype)
    else:
        low = _fma(exponent, log_low, _fma(exponent, log, _negative(product)))
        result = _scaled(*_exp2_parts(clipped, _where(_lt(_magnitude(product), limit), low, 0.0)))
    # 1**y and x**0 are 1, of NaN too; |x| = 1 has no other power.
    result = _where(_or(_eq(a, 1.0), _eq(y, 0.0)), 1.0, result)
    # Whether y is whole, and whether its half is. Of two bools, one is less if it alone is false.
    half = _mul(y, 0.5)
    whole, even = _eq(build(TRUNC, y), y), _eq(build(TRUNC, half), half)
    negative = _and(_lt(x, 0.0), _lt(-_INF, x))
    sign = _where(_lt(even, whole), _sign_bit(x), 0)
    return _where(_and(_lt(whole, negative), _not(_eq(y, 0.0))), _NAN, _flip_sign(result, sign))


def _integer_pow(x: UOp, *, exponent: int) -> UOp:
    """By squaring; a negative power is the reciprocal of the positive one."""
    result: UOp | None = None
    square, rest = x, abs(exponent)
    while rest:
        if rest & 1:
            result = square if result is None else _mul(result, square)
        rest >>= 1
        if rest:
            square = _mul(square, square)
    if result is None:
        return _constant(1, x.dtype)
    return build(RECIP, result) if exponent < 0 else result


# Rounding to whole numbers, remainders, neighbours.


def _floor(x: UOp) -> UOp:
    whole = build(TRUNC, x)
    return _add(whole, _where(_lt(x, whole), -1.0, -0.0, x.dtype))  # -0.0 leaves the sign of a zero


def _ceil(x: UOp) -> UOp:
    whole = build(TRUNC, x)
    return _add(whole, _where(_lt(whole, x), 1.0, -0.0, x.dtype))


@_odd
def _round(a: UOp) -> UOp:
    step = 2.0 ** _FORMATS[a.dtype].mantissa
    return _where(_lt(a, step), _add(_add(a, step), -step), a)


# A quotient is right in its first 51 bits, so that one step of a remainder takes that much off the exponent.
_REM_BITS = 51


def _rem(x: UOp, y: UOp) -> UOp:
    dtype = x.dtype
    if dtype in _INTEGERS:
        rest = _mod(x, y)
        if dtype in _UNSIGNED:
            return rest
        differ = _and(_not(_eq(rest, 0)), _lt(_xor(rest, x), 0))
        return _where(differ, _add(rest, _negative(y)), rest)
    a, b = _magnitude(x), _magnitude(y)
    # In float64, multiples of a float32 can be formed and their reciprocals too; those of a float64 stop in
    # time.
    rest, divisor = _cast(a, dtypes.float64), _cast(b, dtypes.float64)
    multiples = [divisor]
    exponents = 2 * (_FORMATS[dtype].bias + _FORMATS[dtype].mantissa)
    for _ in range(exponents // _REM_BITS):
        last = multiples[-1]
        larger = _mul(last, 2.0**_REM_BITS)
        multiples.append(larger if dtype is dtypes.float32 else _where(_lt(last, 2.0**972), larger, last))
    for multiple in reversed(multiples):
        rest = _fma(build(TRUNC, _div(rest, multiple)), _negative(multiple), rest)
    # A quotient that was rounded up, or down, leaves one divisor too little, or too much.
    rest = _where(_lt(rest, 0.0), _add(rest, divisor), rest)
    rest = _where(_lt(rest, divisor), rest, _fma(divisor, -1.0, rest))
    return _flip_sign(_where(_lt(a, b), a, _cast(rest, dtype)), _sign_bit(x))


def _nextafter(x: UOp, y: UOp) -> UOp:
    bits = _bits(x)
    away = _add(bits, _where(_xor(_lt(x, y), _lt(bits, 0)), 1, -1, bits.dtype))
    smallest = _or(_sign_bit(y), 1)
    moved = _float(_where(_eq(x, 0.0), smallest, away), x.dtype)
    ordered = _and(_eq(x, x), _eq(y, y))
    return _where(ordered, _where(_eq(x, y), y, moved), _add(x, y))


# Arithmetic of all types.


def _sub(x: UOp, y: UOp) -> UOp:
    return _add(x, _negative(y))


def _mul_zero(x: UOp, y: UOp) -> UOp:
    return _where(_eq(x, 0.0), x, _mul(x, y))


def _divide(x: UOp, y: UOp) -> UOp:
    if x.dtype not in _INTEGERS:
        return _div(x, y)
    quotient = _idiv(x, y)
    if x.dtype in _UNSIGNED:
        return quotient
    inexact = _not(_eq(_mul(quotient, y), x))
    up = _and(_and(inexact, _lt(_xor(x, y), 0)), _not(_eq(y, 0)))
    return _add(quotient, _cast(up, x.dtype))


def _abs(x: UOp) -> UOp:
    if x.dtype in _UNSIGNED:
        return x
    return _max(x, _negative(x)) if x.dtype in _INTEGERS else _magnitude(x)


def _sign(x: UOp) -> UOp:
    if x.dtype in _UNSIGNED:
        return _cast(_lt(0, x), x.dtype)
    rest: _Number = 0 if x.dtype in _INTEGERS else _add(x, 0.0)  # 0.0 for -0.0, and NaN
    return _where(_lt(0, x), 1, _where(_lt(x, 0), -1, rest, x.dtype))


def _maximum(x: UOp, y: UOp) -> UOp:
    return (_or if x.dtype is dtypes.bool_ else _max)(x, y)


def _minimum(x: UOp, y: UOp) -> UOp:
    return (_and if x.dtype is dtypes.bool_ else _min)(x, y)


def _clamp(low: UOp, x: UOp, high: UOp) -> UOp:
    return _min(_max(x, low), high)


def _less_equal(x: UOp, y: UOp) -> UOp:
    if dtypes.is_float(x.dtype):
        return _or(_lt(x, y), _eq(x, y))
    return _not(_lt(y, x))


def _greater(x: UOp, y: UOp) -> UOp:
    return _lt(y, x)


def _greater_equal(x: UOp, y: UOp) -> UOp:
    return _less_equal(y, x)


def _not_equal(x: UOp, y: UOp) -> UOp:
    return _not(_eq(x, y))


def _bitwise_not(x: UOp) -> UOp:
    return _xor(x, True if x.dtype is dtypes.bool_ else -1)


# Bits.


def _as_unsigned(x: UOp) -> UOp:
    return x if x.dtype in _UNSIGNED else build(BITCAST, x, arg=np.dtype(f"u{x.dtype.itemsize}"))


def _as(x: UOp, dtype: DType) -> UOp:
    return x if x.dtype is dtype else build(BITCAST, x, arg=dtype)


def _shift_right_logical(x: UOp, y: UOp) -> UOp:
    return _as(_shr(_as_unsigned(x), _as_unsigned(y)), x.dtype)


def _shift_right_arithmetic(x: UOp, y: UOp) -> UOp:
    if x.dtype in _UNSIGNED:
        return _shr(x, _min(y, 8 * x.dtype.itemsize - 1))
    return _shr(x, y)


def _population_count(x: UOp) -> UOp:
    # H. Warren, "Hacker's Delight" (2002), section 5-1: sums of neighbouring fields of 1, 2, 4, ... bits.
    count, width = _as_unsigned(x), 8 * x.dtype.itemsize
    field = 1
    while field < width:
        mask = sum(((1 << field) - 1) << at for at in range(0, width, 2 * field))
        count = _add(_and(count, mask), _and(_shr(count, field), mask))
        field *= 2
    return _as(count, x.dtype)


def _is_nan(x: UOp) -> UOp:
    return _not(_eq(x, x))


def _is_inf(x: UOp) -> UOp:
    return _eq(_magnitude(x), _INF)


def _is_finite(x: UOp) -> UOp:
    return _lt(_magnitude(x), _INF)


def _convert(x: UOp, *, dtype: DType) -> UOp:
    if x.dtype in dtypes.NARROW_FLOATS and dtype in dtypes.NARROW_FLOATS:
        x = _cast(x, dtypes.float32)  # exact, and few devices have casts between them
    return _cast(x, dtype)


def _bitcast(x: UOp, *, dtype: DType) -> UOp:
    return _as(x, dtype)


def _through_float32(function: Decomposition) -> Decomposition:
    """The function, which for float16 and bfloat16 works in float32."""

    @functools.wraps(function)
    def widened(*operands: UOp, **params: Any) -> UOp:
        dtype = operands[0].dtype
        if dtype not in _HALVES:
            return function(*operands, **params)
        return _cast(function(*[_cast(x, dtypes.float32) for x in operands], **params), dtype)

    return widened


_FUNCTIONS: dict[str, Decomposition] = {
    "acos": _acos, "acosh": _acosh, "asin": _asin, "asinh": _asinh, "atan": _atan, "atan2": _atan2,
    "atanh": _atanh, "cbrt": _cbrt, "cos": _cos, "cosh": _cosh, "erf": _erf, "erf_inv": _erf_inv,
    "erfc": _erfc, "exp": _exp, "exp2": _exp2, "expm1": _expm1, "integer_pow": _integer_pow, "log": _log,
    "log1p": _log1p, "log2": _log2, "logistic": _logistic, "pow": _pow, "rem": _rem, "round": _round,
    "rsqrt": _rsqrt, "sin": _sin, "sinh": _sinh, "tan": _tan, "tanh": _tanh,
}  # fmt: skip

DECOMPOSITIONS: dict[str, Decomposition] = {
    **{name: _through_float32(function) for name, function in _FUNCTIONS.items()},
    "abs": _abs, "add": _add, "bitcast": _bitcast, "bitwise_and": _and, "bitwise_not": _bitwise_not,
    "bitwise_or": _or, "bitwise_xor": _xor, "ceil": _ceil, "clamp": _clamp, "convert": _convert,
    "div": _divide, "eq": _eq, "floor": _floor, "ge": _greater_equal, "gt": _greater,
    "is_finite": _is_finite, "is_inf": _is_inf, "is_nan": _is_nan, "le": _less_equal, "lt": _lt,
    "max": _maximum, "min": _minimum, "mul": _mul, "mul_zero": _mul_zero, "ne": _not_equal, "neg": _negative,
    "nextafter": _nextafter, "population_count": _population_count, "shift_left": _shl,
    "shift_right_arithmetic": _shift_right_arithmetic, "shift_right_logical": _shift_right_logical,
    "sign": _sign, "sqrt": lambda x: build(SQRT, x), "stop_gradient": lambda x: x, "sub": _sub,
    "trunc": lambda x: build(TRUNC, x), "where": _where,
}  # fmt: skip

# The largest errors in units in the last place of the exact result: float32, float64. Measured on every 31st
# float32 (erf_inv: 101st; functions of two: millions of pairs) and on thousands of float64 against 160 bits,
# and rounded up. What is not listed is rounded correctly.
_BOUNDS = {
    "acos": (1.5, 1.5), "acosh": (2.5, 2.5), "asin": (2.5, 2.5), "asinh": (2.5, 2.5), "atan": (2.0, 2.0),
    "atan2": (2.5, 2.0), "atanh": (3.0, 2.5), "cbrt": (1.0, 1.0), "cos": (2.0, 1.5), "cosh": (3.0, 2.5),
    "erf": (1.5, 1.5), "erf_inv": (3.5, 2.5), "erfc": (6.5, 5.0), "exp": (2.0, 1.5), "exp2": (1.5, 1.5),
    "expm1": (2.0, 2.0), "integer_pow": (4.0, 4.0), "log": (1.5, 1.5), "log1p": (2.0, 1.5),
    "log2": (2.0, 1.5), "logistic": (3.5, 2.5), "pow": (1.0, 1.5), "rsqrt": (1.5, 1.5), "sin": (2.0, 1.5),
    "sinh": (4.0, 3.0), "tan": (3.5, 3.0), "tanh": (3.0, 2.0),
}  # fmt: skip

# `integer_pow` is for exponents up to 4, and grows with the exponent.
ULP: dict[str, dict[DType, float]] = {
    name: {dtypes.float32: single, dtypes.float64: double, dtypes.float16: 0.51, dtypes.bfloat16: 0.51}
    for name, (single, double) in _BOUNDS.items()
}
