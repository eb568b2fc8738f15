"""Elementary functions of floats, elementwise: exponentials, logarithms, powers, trigonometry."""

from __future__ import annotations

import numpy as np

from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from .arithmetic import absolute, add, divide, maximum, minimum, multiply, negative, square, subtract
from .common import ArrayLike, floats, inexact, unary
from .logic import equal, isinf, isnan, less, where
from .ufunc import with_methods


def exp(x: ArrayLike, /) -> Array:
    """e to the power x."""
    return unary(prims.exp, x, "exp")


def exp2(x: ArrayLike, /) -> Array:
    """2 to the power x."""
    return unary(prims.exp2, x, "exp2")


def expm1(x: ArrayLike, /) -> Array:
    """exp(x) - 1, exact near 0."""
    return unary(prims.expm1, x, "expm1")


def log(x: ArrayLike, /) -> Array:
    """The natural logarithm; NaN below 0."""
    return unary(prims.log, x, "log")


def log2(x: ArrayLike, /) -> Array:
    """The logarithm to base 2; NaN below 0."""
    return unary(prims.log2, x, "log2")


def log10(x: ArrayLike, /) -> Array:
    """The logarithm to base 10; NaN below 0."""
    return divide(log(x), float(np.log(10.0)))


def log1p(x: ArrayLike, /) -> Array:
    """log(1 + x), exact near 0."""
    return unary(prims.log1p, x, "log1p")


def sqrt(x: ArrayLike, /) -> Array:
    """The square root; NaN below 0."""
    return unary(prims.sqrt, x, "sqrt")


def cbrt(x: ArrayLike, /) -> Array:
    """The cube root, negative for negative x."""
    return unary(prims.cbrt, x, "cbrt")


def sin(x: ArrayLike, /) -> Array:
    """The sine of x (radians)."""
    return unary(prims.sin, x, "sin")


def cos(x: ArrayLike, /) -> Array:
    """The cosine of x (radians)."""
    return unary(prims.cos, x, "cos")


def tan(x: ArrayLike, /) -> Array:
    """The tangent of x (radians)."""
    return unary(prims.tan, x, "tan")


def arcsin(x: ArrayLike, /) -> Array:
    """The arc sine, in [-pi/2, pi/2]; NaN outside [-1, 1]."""
    return unary(prims.asin, x, "arcsin")


def arccos(x: ArrayLike, /) -> Array:
    """The arc cosine, in [0, pi]; NaN outside [-1, 1]."""
    return unary(prims.acos, x, "arccos")


def arctan(x: ArrayLike, /) -> Array:
    """The arc tangent, in [-pi/2, pi/2]."""
    return unary(prims.atan, x, "arctan")


def arctan2(y: ArrayLike, x: ArrayLike, /) -> Array:
    """The angle in [-pi, pi] of the point (x, y); its arguments come as y, x."""
    return o.elementwise(prims.atan2, y, x, inexact=True)


def sinh(x: ArrayLike, /) -> Array:
    """The hyperbolic sine."""
    return unary(prims.sinh, x, "sinh")


def cosh(x: ArrayLike, /) -> Array:
    """The hyperbolic cosine."""
    return unary(prims.cosh, x, "cosh")


def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent."""
    return unary(prims.tanh, x, "tanh")


def arcsinh(x: ArrayLike, /) -> Array:
    """The inverse hyperbolic sine."""
    return unary(prims.asinh, x, "arcsinh")


def arccosh(x: ArrayLike, /) -> Array:
    """The inverse hyperbolic cosine; NaN below 1."""
    return unary(prims.acosh, x, "arccosh")


def arctanh(x: ArrayLike, /) -> Array:
    """The inverse hyperbolic tangent; infinite at -1 and 1, NaN outside."""
    return unary(prims.atanh, x, "arctanh")


asin, acos, atan, atan2 = arcsin, arccos, arctan, arctan2
asinh, acosh, atanh = arcsinh, arccosh, arctanh


def deg2rad(x: ArrayLike, /) -> Array:
    """Degrees as radians."""
    return multiply(inexact(x, "deg2rad"), float(np.pi / 180))


def rad2deg(x: ArrayLike, /) -> Array:
    """Radians as degrees."""
    return multiply(inexact(x, "rad2deg"), float(180 / np.pi))


radians, degrees = deg2rad, rad2deg


def sinc(x: ArrayLike, /) -> Array:
    """sin(pi x) / (pi x), and 1 at 0."""
    scaled = multiply(inexact(x, "sinc"), float(np.pi))
    # The square in the series near 0 keeps the derivatives there right; 0.03^4 / 120 is below half
    # precision's and float32's.
    small = less(absolute(scaled), 0.03)
    safe = where(small, 1, scaled)
    squared = square(where(small, scaled, 0))
    series = subtract(1, multiply(squared, subtract(1 / 6, multiply(squared, 1 / 120))))
    return where(small, series, divide(sin(safe), safe))


def hypot(x: ArrayLike, y: ArrayLike, /) -> Array:
    """sqrt(x² + y²), without overflow on the way; infinite if x or y is, even beside a NaN."""
    x, y = floats("hypot", x, y)
    x, y = absolute(x), absolute(y)
    infinite = o.bitwise_or(isinf(x), isinf(y))
    large, small = maximum(x, y), minimum(x, y)
    unsafe = o.bitwise_or(infinite, equal(large, 0))
    ratio = divide(where(unsafe, 0, small), where(unsafe, 1, large))
    result = where(unsafe, large, multiply(large, sqrt(add(1, multiply(ratio, ratio)))))
    return where(infinite, float("inf"), result)


@with_methods(identity=-np.inf)
def logaddexp(x: ArrayLike, y: ArrayLike, /) -> Array:
    """log(exp(x) + exp(y)), without overflow on the way."""
    x, y = floats("logaddexp", x, y)
    return _logaddexp(x, y, 1.0)


@with_methods(identity=-np.inf)
def logaddexp2(x: ArrayLike, y: ArrayLike, /) -> Array:
    """log2(2**x + 2**y), without overflow on the way."""
    x, y = floats("logaddexp2", x, y)
    return _logaddexp(x, y, float(np.log(2.0)))


def _logaddexp(x: Array, y: Array, log_base: float) -> Array:
    difference = subtract(x, y)
    # Two equal infinities, or a NaN: no difference to speak of, and the sum is the result.
    undefined = isnan(difference)
    decay = negative(absolute(where(undefined, 0, difference)))
    rest = log1p(exp(decay)) if log_base == 1.0 else divide(log1p(exp2(decay)), log_base)
    return where(undefined, add(x, y), add(maximum(x, y), rest))
