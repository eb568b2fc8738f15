"""Rounding, floats taken apart, real and imaginary parts."""

from __future__ import annotations

from typing import Any

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from .arithmetic import (
    absolute,
    add,
    divide,
    floor_divide,
    maximum,
    minimum,
    multiply,
    negative,
    remainder,
    subtract,
)
from .common import (
    ArrayLike,
    at_user,
    bind,
    cast,
    described,
    floats,
    inexact,
    no_out,
    number,
    operand,
    promoted,
    unary,
)
from .elementary import arctan2, exp2, rad2deg
from .logic import (
    bitwise_and,
    bitwise_or,
    equal,
    isfinite,
    isnan,
    isneginf,
    isposinf,
    less,
    less_equal,
    not_equal,
    where,
)

# Rounding


def _step(primitive: Any, x: Any, what: str) -> Array:
    array = number(x, what)
    return bind(primitive, (array,), {}) if dtypes.is_inexact(array.dtype) else array


def floor(x: ArrayLike, /) -> Array:
    """The greatest whole number that is not above x, in x's dtype.

    >>> tnp.floor(tnp.array([1.5, -1.5]))
    Array([ 1., -2.], dtype=float32)
    >>> tnp.floor(tnp.array([3, 4]))
    Array([3, 4], dtype=int32)
    """
    return _step(prims.floor, x, "floor")


def ceil(x: ArrayLike, /) -> Array:
    """The least whole number that is not below x, in x's dtype.

    >>> tnp.ceil(tnp.array([1.5, -1.5]))
    Array([ 2., -1.], dtype=float32)
    """
    return _step(prims.ceil, x, "ceil")


def trunc(x: ArrayLike, /) -> Array:
    """The whole number next to x towards zero, in x's dtype.

    >>> tnp.trunc(tnp.array([1.5, -1.5]))
    Array([ 1., -1.], dtype=float32)
    """
    return _step(prims.trunc, x, "trunc")


fix = trunc


def rint(x: ArrayLike, /) -> Array:
    """The nearest whole number, the even one of two that are equally near; integers become float32.

    >>> tnp.rint(tnp.array([0.5, 1.5, 2.6]))
    Array([0., 2., 3.], dtype=float32)
    >>> tnp.rint(3)
    Array(3., dtype=float32)
    """
    array = inexact(x, "rint")
    return _by_parts(rint, array) if dtypes.kind(array.dtype) == "complex" else unary(prims.round, x, "rint")


def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """a rounded to a number of decimals, halves to even; for a negative number to tens, hundreds, ... Dtypes stay.

    >>> tnp.round(tnp.array([0.5, 1.5, 2.6]))
    Array([0., 2., 3.], dtype=float32)
    >>> tnp.round(tnp.array([1.25, 3.14159]), 1)
    Array([1.2, 3.1], dtype=float32)
    >>> tnp.round(tnp.array([15, 25, 149]), -1)
    Array([ 20,  20, 150], dtype=int32)
    """
    no_out("round", out)
    x = number(a, "round")
    if dtypes.kind(x.dtype) == "complex":
        return _by_parts(lambda part: round(part, decimals), x)
    if not dtypes.is_float(x.dtype):
        if decimals >= 0 or x.dtype is dtypes.bool_:
            return x
        factor = 10**-decimals
        quotient = floor_divide(add(x, factor // 2), factor)
        tie = equal(remainder(add(x, factor // 2), factor), 0)
        odd = not_equal(bitwise_and(quotient, 1), 0)
        return multiply(subtract(quotient, cast(bitwise_and(tie, odd), x.dtype)), factor)
    if decimals == 0:
        return bind(prims.round, (x,), {})
    wide = o.to_dtype(x, dtypes.float32) if x.dtype.itemsize < 4 else x
    scale = float(10.0 ** (decimals if decimals > 0 else -decimals))
    if decimals > 0:
        scaled = multiply(wide, scale)
        result = where(isfinite(scaled), divide(bind(prims.round, (scaled,), {}), scale), wide)
    else:
        result = multiply(bind(prims.round, (divide(wide, scale),), {}), scale)
    return o.to_dtype(result, x.dtype)


around = round


def signbit(x: ArrayLike, /) -> Array:
    """Whether the sign bit is set: for negative numbers, -0.0 among them.

    >>> tnp.signbit(tnp.array([-1.0, -0.0, 0.0]))
    Array([ True,  True, False], dtype=bool)
    """
    array = operand(x, "signbit")
    if dtypes.is_float(array.dtype):
        array = bind(prims.bitcast, (array,), {"dtype": dtypes.canonical(f"int{8 * array.dtype.itemsize}")})
    return less(array, 0)


def copysign(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x with the sign of y; integers become float32.

    >>> tnp.copysign(tnp.array([1, -2, 3]), tnp.array([-1.0, 1.0, -0.0]))
    Array([-1.,  2., -3.], dtype=float32)
    """
    x, y = floats("copysign", x, y)
    return where(not_equal(signbit(x), signbit(y)), negative(x), x)


def nextafter(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The float next to x towards y.

    >>> tnp.nextafter(tnp.array([1.0]), 2) - 1 == tnp.finfo("float32").eps
    Array([ True], dtype=bool)
    """
    return o.elementwise(prims.nextafter, x, y, inexact=True)


def ldexp(x: ArrayLike, n: ArrayLike, /) -> Array:
    """x * 2**n for integers n, without overflow on the way.

    >>> tnp.ldexp(tnp.array([0.75, 2.0**-149]), tnp.array([2, 149]))
    Array([3., 1.], dtype=float32)
    """
    x = inexact(x, "ldexp")
    exponent = operand(n, "ldexp")
    if not (dtypes.is_integer(exponent.dtype) or exponent.dtype is dtypes.bool_):
        raise TypeError(f"ldexp takes integers as n, not {described(exponent)}{at_user()}")
    if exponent.dtype.itemsize < 4:
        exponent = cast(exponent, dtypes.int32)
    form = _finfo(x.dtype)
    most = form.maxexp - form.minexp + form.nmant + 2  # takes the least number beyond the greatest one
    exponent = minimum(exponent, most)
    if dtypes.kind(exponent.dtype) == "signed":
        exponent = maximum(exponent, -most)
    exponent = cast(exponent, dtypes.int32)
    # In four steps, each of which is in range where the whole may not be.
    quarter = o.right_shift(exponent, 2)
    step = exp2(cast(quarter, x.dtype))
    last = exp2(cast(subtract(exponent, multiply(3, quarter)), x.dtype))
    return multiply(multiply(multiply(multiply(x, step), step), step), last)


def heaviside(x: ArrayLike, y: ArrayLike, /) -> Array:
    """0 where x is negative, 1 where it is positive, y where it is 0, NaN where it is NaN.

    >>> tnp.heaviside(tnp.array([-2.0, 0.0, 3.0]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x, y = floats("heaviside", x, y)
    step = where(less(x, 0), 0, where(equal(x, 0), y, 1))
    return where(isnan(x), x, step)


def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """x with NaN replaced by a number and infinities by the greatest and least floats, or by the numbers
    given.

    >>> tnp.nan_to_num(tnp.array([np.nan, np.inf, 2.0]), nan=-1.0, posinf=9.0)
    Array([-1.,  9.,  2.], dtype=float32)
    >>> tnp.nan_to_num(tnp.array(-np.inf)) == tnp.finfo("float32").min
    Array(True, dtype=bool)
    """
    array = number(x, "nan_to_num")
    if dtypes.kind(array.dtype) == "complex":
        return _by_parts(lambda part: nan_to_num(part, copy, nan, posinf, neginf), array)
    if not dtypes.is_float(array.dtype):
        return array
    limit = float(_finfo(array.dtype).max)
    high, low = limit if posinf is None else posinf, -limit if neginf is None else neginf
    array = where(isnan(array), cast(nan, array.dtype), array)
    array = where(isposinf(array), cast(high, array.dtype), array)
    return where(isneginf(array), cast(low, array.dtype), array)


def _finfo(dtype: dtypes.DType) -> Any:
    from ml_dtypes import finfo

    return finfo(dtype)  # type: ignore[no-untyped-call]


def real(val: ArrayLike, /) -> Array:
    """The real part, in the dtype of the parts; of what is not complex, the argument itself.

    >>> tnp.real(tnp.array([1 + 2j, 3j]))
    Array([1., 0.], dtype=float32)
    """
    array = number(val, "real")
    return bind(prims.real, (array,), {}) if dtypes.kind(array.dtype) == "complex" else array


def imag(val: ArrayLike, /) -> Array:
    """The imaginary part, in the dtype of the parts; 0 for what is not complex.

    >>> tnp.imag(tnp.array([1 + 2j, 3j]))
    Array([2., 3.], dtype=float32)
    >>> tnp.imag(tnp.array([1, 2]))
    Array([0, 0], dtype=int32)
    """
    array = number(val, "imag")
    if dtypes.kind(array.dtype) == "complex":
        return bind(prims.imag, (array,), {})
    return o.broadcast_to(o.scalar(0, array.dtype), array.shape)


def conjugate(x: ArrayLike, /) -> Array:
    """The complex conjugate; of what is not complex, the argument itself.

    >>> tnp.conjugate(tnp.array([1 + 2j, 3j]))
    Array([1.-2.j, 0.-3.j], dtype=complex64)
    """
    array = number(x, "conjugate")
    return bind(prims.conj, (array,), {}) if dtypes.kind(array.dtype) == "complex" else array


conj = conjugate


def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The angle of complex numbers in the plane, in (-pi, pi] or, with `deg`, in degrees; pi for negative real ones.

    >>> tnp.angle(tnp.array([1j, -1 + 0j, 1 - 1j]), deg=True).round(3)
    Array([ 90., 180., -45.], dtype=float32)
    """
    x = inexact(z, "angle")
    result = arctan2(imag(x), real(x))
    return rad2deg(result) if deg else result


def _by_parts(function: Any, x: Array) -> Array:
    """The function of the real and of the imaginary part."""
    return bind(prims.complex_, (function(real(x)), function(imag(x))), {})


def isclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether |a - b| <= atol + rtol * |b|, for each element; equal infinities are close.

    With `equal_nan` two NaNs are close as well.

    >>> tnp.isclose(tnp.array([1.0, 1.1, np.inf, np.nan]), tnp.array([1.000001, 1.0, np.inf, np.nan]))
    Array([ True, False,  True, False], dtype=bool)
    >>> tnp.isclose(1.0, 1.1, rtol=0.2)
    Array(True, dtype=bool)
    """
    x, y = promoted(a, b)
    if not dtypes.is_inexact(x.dtype):
        x, y = o.to_dtype(x, dtypes.float32), o.to_dtype(y, dtypes.float32)
    near = less_equal(absolute(subtract(x, y)), add(atol, multiply(rtol, absolute(y))))
    near = bitwise_or(bitwise_and(near, isfinite(y)), equal(x, y))
    return bitwise_or(near, bitwise_and(isnan(x), isnan(y))) if equal_nan else near
