"""Elementary functions of floats, elementwise: exponentials, logarithms, powers, trigonometry."""

from __future__ import annotations

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from .arithmetic import absolute, add, divide, maximum, minimum, multiply, negative, square, subtract
from .common import ArrayLike, bind, check_real, floats, inexact, unary
from .logic import equal, isinf, isnan, less, where
from .ufunc import with_methods


def exp(x: ArrayLike, /) -> Array:
    """e to the power x; integers and bools become float32, here and in the other functions of floats.

    >>> tnp.exp(tnp.array([0, -1000, 1000]))
    Array([ 1.,  0., inf], dtype=float32)
    """
    return unary(prims.exp, x, "exp")


def exp2(x: ArrayLike, /) -> Array:
    """2 to the power x.

    >>> tnp.exp2(tnp.array([-1, 0, 3, 1000]))
    Array([0.5, 1. , 8. , inf], dtype=float32)
    """
    return unary(prims.exp2, x, "exp2")


def expm1(x: ArrayLike, /) -> Array:
    """exp(x) - 1, exact near 0, where the difference itself would be 0.

    >>> tnp.expm1(tnp.array([0.0, 1e-10]))
    Array([0.e+00, 1.e-10], dtype=float32)
    """
    return unary(prims.expm1, x, "expm1")


def log(x: ArrayLike, /) -> Array:
    """The natural logarithm; -inf at 0 and NaN below it (a complex x has a logarithm everywhere but at 0).

    >>> tnp.log(tnp.array([1.0, 0.0, -1.0]))
    Array([  0., -inf,  nan], dtype=float32)
    >>> tnp.log(tnp.array(-1 + 0j)).round(3)
    Array(0.+3.142j, dtype=complex64)
    """
    return unary(prims.log, x, "log")


def log2(x: ArrayLike, /) -> Array:
    """The logarithm to base 2; -inf at 0, NaN below it.

    >>> tnp.log2(tnp.array([8.0, 0.25, 0.0]))
    Array([  3.,  -2., -inf], dtype=float32)
    """
    return unary(prims.log2, x, "log2")


def log10(x: ArrayLike, /) -> Array:
    """The logarithm to base 10; -inf at 0, NaN below it.

    >>> tnp.log10(tnp.array([100, 1, 0]))
    Array([  2.,   0., -inf], dtype=float32)
    """
    result, scale = log(x), float(np.log(10.0))
    if dtypes.kind(result.dtype) != "complex":
        return divide(result, scale)
    # Each part alone: -inf + 0j divided by a complex number is NaN.
    parts = [divide(bind(part, (result,), {}), scale) for part in (prims.real, prims.imag)]
    return bind(prims.complex_, tuple(parts), {})


def log1p(x: ArrayLike, /) -> Array:
    """log(1 + x), exact near 0; -inf at -1, NaN below it.

    >>> tnp.log1p(tnp.array([0.0, 1e-10, -1.0]))
    Array([0.e+00, 1.e-10,   -inf], dtype=float32)
    """
    return unary(prims.log1p, x, "log1p")


def sqrt(x: ArrayLike, /) -> Array:
    """The square root; NaN below 0.

    >>> tnp.sqrt(tnp.array([4, 0, -1]))
    Array([ 2.,  0., nan], dtype=float32)
    >>> tnp.sqrt(tnp.array([-1 + 0j]))
    Array([0.+1.j], dtype=complex64)
    """
    return unary(prims.sqrt, x, "sqrt")


def cbrt(x: ArrayLike, /) -> Array:
    """The cube root, negative for negative x.

    >>> tnp.cbrt(tnp.array([8.0, -8.0]))
    Array([ 2., -2.], dtype=float32)
    """
    return unary(prims.cbrt, x, "cbrt")


def sin(x: ArrayLike, /) -> Array:
    """The sine of x (radians).

    >>> tnp.sin(tnp.array([0.0, np.pi / 6, np.pi / 2])).round(3)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return unary(prims.sin, x, "sin")


def cos(x: ArrayLike, /) -> Array:
    """The cosine of x (radians).

    >>> tnp.cos(tnp.array([0.0, np.pi / 3, np.pi])).round(3)
    Array([ 1. ,  0.5, -1. ], dtype=float32)
    """
    return unary(prims.cos, x, "cos")


def tan(x: ArrayLike, /) -> Array:
    """The tangent of x (radians).

    >>> tnp.tan(tnp.array([0.0, np.pi / 4])).round(3)
    Array([0., 1.], dtype=float32)
    """
    return unary(prims.tan, x, "tan")


def arcsin(x: ArrayLike, /) -> Array:
    """The arc sine, in [-pi/2, pi/2]; NaN outside [-1, 1].

    >>> tnp.arcsin(tnp.array([0.0, 1.0, 2.0])).round(3)
    Array([0.   , 1.571,   nan], dtype=float32)
    """
    return unary(prims.asin, x, "arcsin")


def arccos(x: ArrayLike, /) -> Array:
    """The arc cosine, in [0, pi]; NaN outside [-1, 1].

    >>> tnp.arccos(tnp.array([1.0, -1.0, 2.0])).round(3)
    Array([0.   , 3.142,   nan], dtype=float32)
    """
    return unary(prims.acos, x, "arccos")


def arctan(x: ArrayLike, /) -> Array:
    """The arc tangent, in [-pi/2, pi/2].

    >>> tnp.arctan(tnp.array([0.0, 1.0, np.inf])).round(3)
    Array([0.   , 0.785, 1.571], dtype=float32)
    """
    return unary(prims.atan, x, "arctan")


def arctan2(y: ArrayLike, x: ArrayLike, /) -> Array:
    """The angle in [-pi, pi] of the point (x, y); its arguments come as y, x.

    >>> tnp.degrees(tnp.arctan2(tnp.array([1.0, 1.0, -1.0]), tnp.array([1.0, -1.0, -1.0]))).round(3)
    Array([  45.,  135., -135.], dtype=float32)
    """
    return o.elementwise(prims.atan2, y, x, inexact=True)


def sinh(x: ArrayLike, /) -> Array:
    """The hyperbolic sine, (exp(x) - exp(-x)) / 2.

    >>> tnp.sinh(tnp.array([0.0, 1.0, -1000.0])).round(3)
    Array([0.   , 1.175,  -inf], dtype=float32)
    """
    return unary(prims.sinh, x, "sinh")


def cosh(x: ArrayLike, /) -> Array:
    """The hyperbolic cosine, (exp(x) + exp(-x)) / 2.

    >>> tnp.cosh(tnp.array([0.0, 1.0, -1000.0])).round(3)
    Array([1.   , 1.543,   inf], dtype=float32)
    """
    return unary(prims.cosh, x, "cosh")


def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent, in [-1, 1].

    >>> tnp.tanh(tnp.array([0.0, 1.0, -1000.0])).round(3)
    Array([ 0.   ,  0.762, -1.   ], dtype=float32)
    """
    return unary(prims.tanh, x, "tanh")


def arcsinh(x: ArrayLike, /) -> Array:
    """The inverse hyperbolic sine.

    >>> tnp.arcsinh(tnp.array([0.0, 1.0, -np.inf])).round(3)
    Array([0.   , 0.881,  -inf], dtype=float32)
    """
    return unary(prims.asinh, x, "arcsinh")


def arccosh(x: ArrayLike, /) -> Array:
    """The inverse hyperbolic cosine; NaN below 1.

    >>> tnp.arccosh(tnp.array([1.0, 2.0, 0.5])).round(3)
    Array([0.   , 1.317,   nan], dtype=float32)
    """
    return unary(prims.acosh, x, "arccosh")


def arctanh(x: ArrayLike, /) -> Array:
    """The inverse hyperbolic tangent; infinite at -1 and 1, NaN outside.

    >>> tnp.arctanh(tnp.array([0.0, 0.5, 1.0, 2.0])).round(3)
    Array([0.   , 0.549,   inf,   nan], dtype=float32)
    """
    return unary(prims.atanh, x, "arctanh")


asin, acos, atan, atan2 = arcsin, arccos, arctan, arctan2
asinh, acosh, atanh = arcsinh, arccosh, arctanh


def deg2rad(x: ArrayLike, /) -> Array:
    """Degrees as radians.

    >>> tnp.deg2rad(tnp.array([0, 90, 180])).round(3)
    Array([0.   , 1.571, 3.142], dtype=float32)
    """
    return multiply(inexact(x, "deg2rad"), float(np.pi / 180))


def rad2deg(x: ArrayLike, /) -> Array:
    """Radians as degrees.

    >>> tnp.rad2deg(tnp.array([0.0, np.pi / 2, np.pi])).round(3)
    Array([  0.,  90., 180.], dtype=float32)
    """
    return multiply(inexact(x, "rad2deg"), float(180 / np.pi))


radians, degrees = deg2rad, rad2deg


def sinc(x: ArrayLike, /) -> Array:
    """sin(pi x) / (pi x), and 1 at 0.

    >>> tnp.sinc(tnp.array([0.0, 0.5, 1.5])).round(3)
    Array([ 1.   ,  0.637, -0.212], dtype=float32)
    """
    scaled = multiply(inexact(x, "sinc"), float(np.pi))
    # The square in the series near 0 keeps the derivatives there right; 0.03^4 / 120 is below half
    # precision's and float32's.
    small = less(absolute(scaled), 0.03)
    safe = where(small, 1, scaled)
    squared = square(where(small, scaled, 0))
    series = subtract(1, multiply(squared, subtract(1 / 6, multiply(squared, 1 / 120))))
    return where(small, series, divide(sin(safe), safe))


def hypot(x: ArrayLike, y: ArrayLike, /) -> Array:
    """sqrt(x² + y²), without overflow on the way; infinite if x or y is, even beside a NaN.

    >>> tnp.hypot(tnp.array([3.0, 3e30, np.inf]), tnp.array([4.0, 4e30, np.nan]))
    Array([5.e+00, 5.e+30,    inf], dtype=float32)
    """
    x, y = floats("hypot", x, y)
    check_real("hypot", x, y)
    x, y = absolute(x), absolute(y)
    infinite = o.bitwise_or(isinf(x), isinf(y))
    large, small = maximum(x, y), minimum(x, y)
    unsafe = o.bitwise_or(infinite, equal(large, 0))
    ratio = divide(where(unsafe, 0, small), where(unsafe, 1, large))
    result = where(unsafe, large, multiply(large, sqrt(add(1, multiply(ratio, ratio)))))
    return where(infinite, float("inf"), result)


@with_methods(identity=-np.inf)
def logaddexp(x: ArrayLike, y: ArrayLike, /) -> Array:
    """log(exp(x) + exp(y)), without overflow on the way; -inf stands for a probability of 0.

    >>> tnp.logaddexp(tnp.array([1000.0, 0.0]), tnp.array([-np.inf, 0.0])).round(3)
    Array([1.00e+03, 6.93e-01], dtype=float32)
    """
    x, y = floats("logaddexp", x, y)
    return _logaddexp(x, y, 1.0)


@with_methods(identity=-np.inf)
def logaddexp2(x: ArrayLike, y: ArrayLike, /) -> Array:
    """log2(2**x + 2**y), without overflow on the way; -inf stands for a probability of 0.

    >>> tnp.logaddexp2(tnp.array([1000.0, 3.0]), tnp.array([1000.0, -np.inf]))
    Array([1001.,    3.], dtype=float32)
    """
    x, y = floats("logaddexp2", x, y)
    return _logaddexp(x, y, float(np.log(2.0)))


def _logaddexp(x: Array, y: Array, log_base: float) -> Array:
    difference = subtract(x, y)
    # Two equal infinities, or a NaN: no difference to speak of, and the sum is the result.
    undefined = isnan(difference)
    decay = negative(absolute(where(undefined, 0, difference)))
    rest = log1p(exp(decay)) if log_base == 1.0 else divide(log1p(exp2(decay)), log_base)
    return where(undefined, add(x, y), add(maximum(x, y), rest))
