"""Exponentials: x = k ln 2 + r with a whole k.

A number that is rounded by adding 1.5 * 2**mantissa is also found in the low bits of the sum, from where one shift makes it an
exponent."""

from __future__ import annotations

from .. import dtype as dtypes
from ..uop import UOp
from .basic import (
    FORMATS,
    Table,
    add,
    bits,
    fma,
    from_bits,
    maximum,
    minimum,
    mul,
    negative,
    polynomial,
    shift_left,
)

LN2 = {
    dtypes.float32: (0.6931472, -1.9046542e-09),
    dtypes.float64: (0.6931471805599453, 2.3190468138462996e-17),
}
LOG2_E = {dtypes.float32: 1.442695, dtypes.float64: 1.4426950408889634}
EXP_POLYNOMIAL: Table = {  # (exp(r) - 1 - r)/r² on ±ln 2
    dtypes.float32: (
        0.50000036, 0.16666614, 0.04166116, 0.008336098, 0.0014106552, 0.00019617408
    ),
    dtypes.float64: (
        0.4999999999999991, 0.16666666666667015, 0.04166666666670906, 0.008333333333274113,
        0.0013888888882617441, 0.0001984126987559856, 2.4801591351612675e-05, 2.75573112650264e-06,
        2.755603803073992e-07, 2.5052557536752593e-08, 2.1072140787549953e-09, 1.6135325091351342e-10
    ),
}  # fmt: skip
EXP2_POLYNOMIAL: Table = {  # (2**f - 1)/f on ±1
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
EXPM1_POLYNOMIAL: Table = {  # (exp(r) - 1 - r)/r² on ±(ln 2)/2
    dtypes.float32: (
        0.49999997, 0.16666545, 0.041667435, 0.008366474, 0.0013870983
    ),
    dtypes.float64: (
        0.5000000000000001, 0.1666666666666667, 0.0416666666666485, 0.008333333333326937,
        0.001388888889730926, 0.00019841269871753974, 2.480157136596447e-05, 2.755725889038953e-06,
        2.7570493702452613e-07, 2.5103963336870326e-08, 1.6934742798101556e-09
    ),
}  # fmt: skip
SINH_POLYNOMIAL: Table = {  # (sinh(r)/r - 1)/r² in r² on ±(ln 2)/2
    dtypes.float32: (
        0.16666667, 0.008333176, 0.0001997301
    ),
    dtypes.float64: (
        0.16666666666666666, 0.008333333333334417, 0.00019841269837143455, 2.7557326083566795e-06,
        2.504692175843718e-08, 1.7529504872011647e-10
    ),
}  # fmt: skip
COSH_POLYNOMIAL: Table = {  # (cosh(r) - 1 - r²/2)/r⁴ in r² on ±(ln 2)/2
    dtypes.float32: (
        0.041666456, 0.0013935842
    ),
    dtypes.float64: (
        0.041666666666666664, 0.0013888888888890832, 2.4801587295678827e-05, 2.755732756250253e-07,
        2.087119733827445e-09, 1.2893955586062216e-11
    ),
}  # fmt: skip
EXP_RANGE = {dtypes.float32: (-104.5, 89.0), dtypes.float64: (-746.0, 710.0)}  # beyond: 0 and infinity
EXP2_RANGE = {dtypes.float32: (-152.0, 129.0), dtypes.float64: (-1078.0, 1025.0)}
EXPM1_RANGE = {dtypes.float32: (-18.0, 89.0), dtypes.float64: (-38.0, 710.0)}
# Below, f(x) rounds to x for the functions whose series begins x + O(x²).
TINY = {dtypes.float32: 2.0**-25, dtypes.float64: 2.0**-54}


def rounded(x: UOp, factor: float, bias: int) -> tuple[UOp, UOp]:
    """The whole number k next to x*factor, and 2**(k + bias)."""
    form = FORMATS[x.dtype]
    shifted = fma(x, factor, form.rounding + form.bias + bias)
    power = from_bits(shift_left(bits(shifted), form.mantissa), x.dtype)
    return add(shifted, -(form.rounding + form.bias + bias)), power


def exp_parts(x: UOp) -> tuple[UOp, UOp]:
    """p and s with exp(x) = p*s*s, where x is not much outside of what has a finite result.

    With an even k two equal powers of two scale the result, so that it passes into subnormals and infinity
    in one rounding; a polynomial of twice the range costs less than two different powers."""
    dtype = x.dtype
    high, low = LN2[dtype]
    half, power = rounded(x, 0.5 * LOG2_E[dtype], 0)
    r = fma(half, -2 * low, fma(half, -2 * high, x))
    return fma(r, fma(r, polynomial(r, EXP_POLYNOMIAL[dtype]), 1.0), 1.0), power


def scaled(p: UOp, power: UOp) -> UOp:
    """p*s*s of such parts."""
    return mul(mul(p, power), power)


def exp2_parts(x: UOp, low: UOp | None = None) -> tuple[UOp, UOp]:
    """p and s with 2**(x + low) = p*s*s."""
    half, power = rounded(x, 0.5, 0)
    f = fma(half, -2.0, x)
    if low is not None:
        f = add(f, low)
    return fma(f, polynomial(f, EXP2_POLYNOMIAL[x.dtype]), 1.0), power


def expm1_reduced(r: UOp) -> UOp:
    """exp(r) - 1 for |r| <= (ln 2)/2."""
    return fma(mul(r, r), polynomial(r, EXPM1_POLYNOMIAL[r.dtype]), r)


# sinh x rounds to x below (and halves of subnormals would lose a bit), tanh x to 1 above.
SINH_TINY = {dtypes.float32: 2.0**-13, dtypes.float64: 2.0**-27}
TANH_LAST = {dtypes.float32: 10.0, dtypes.float64: 20.0}
# cosh and sinh of k ln 2 + r are made of those of r: no cancellation and no division.
HYPERBOLIC_RANGE = {dtypes.float32: 89.6, dtypes.float64: 710.6}


def hyperbolic_parts(a: UOp) -> tuple[UOp, UOp, UOp, UOp]:
    """For a >= 0: cosh r, sinh r, and a quarter of 2**k ± 2**-k."""
    dtype = a.dtype
    form = FORMATS[dtype]
    high, low = LN2[dtype]
    a = minimum(a, HYPERBOLIC_RANGE[dtype])
    k, up = rounded(a, LOG2_E[dtype], -2)
    r = fma(k, -low, fma(k, -high, a))
    # The exponents of 2**(k - 2) and 2**(-k - 2), with their biases, add up to 2*(bias - 2).
    down = from_bits(maximum(add(negative(bits(up)), 2 * (form.bias - 2) << form.mantissa), 0), dtype)
    z = mul(r, r)
    cosh = fma(z, fma(z, polynomial(z, COSH_POLYNOMIAL[dtype]), 0.5), 1.0)
    sinh = fma(mul(r, z), polynomial(z, SINH_POLYNOMIAL[dtype]), r)
    return cosh, sinh, add(up, down), fma(down, -1.0, up)
