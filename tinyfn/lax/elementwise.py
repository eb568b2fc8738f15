"""Elementwise functions, casts and selection."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators, prims, pytree
from ..trace.array import Array, as_array
from ..trace.errors import user_line
from ..trace.prim import Primitive
from .arguments import ArrayLike, applied, described, of_one_dtype, of_one_shape


def _unary(primitive: Primitive) -> Callable[[ArrayLike], Array]:
    def apply(x: ArrayLike) -> Array:
        result: Array = primitive(operators.operand(x))
        return result

    apply.__name__ = apply.__qualname__ = primitive.name
    apply.__doc__ = primitive.__doc__
    return apply


def _binary(primitive: Primitive) -> Callable[[ArrayLike, ArrayLike], Array]:
    def apply(x: ArrayLike, y: ArrayLike) -> Array:
        result: Array = primitive(*of_one_shape(primitive.name, of_one_dtype(primitive.name, x, y)))
        return result

    apply.__name__ = apply.__qualname__ = primitive.name
    apply.__doc__ = primitive.__doc__
    return apply


neg, sign, is_finite, floor, ceil = (
    _unary(p) for p in (prims.neg, prims.sign, prims.is_finite, prims.floor, prims.ceil)
)
exp, exp2, expm1, log, log1p = (
    _unary(p) for p in (prims.exp, prims.exp2, prims.expm1, prims.log, prims.log1p)
)
sin, cos, tan, asin, acos, atan = (
    _unary(p) for p in (prims.sin, prims.cos, prims.tan, prims.asin, prims.acos, prims.atan)
)
sinh, cosh, tanh, asinh, acosh, atanh = (
    _unary(p) for p in (prims.sinh, prims.cosh, prims.tanh, prims.asinh, prims.acosh, prims.atanh)
)
sqrt, rsqrt, cbrt = (_unary(p) for p in (prims.sqrt, prims.rsqrt, prims.cbrt))
erf, erfc, erf_inv = (_unary(p) for p in (prims.erf, prims.erfc, prims.erf_inv))
bitwise_not, population_count = _unary(prims.bitwise_not), _unary(prims.population_count)
abs = _unary(prims.abs)

add, sub, mul, div, rem = (_binary(p) for p in (prims.add, prims.sub, prims.mul, prims.div, prims.rem))
max, min, atan2, nextafter = (_binary(p) for p in (prims.max, prims.min, prims.atan2, prims.nextafter))
eq, ne, lt, le, gt, ge = (_binary(p) for p in (prims.eq, prims.ne, prims.lt, prims.le, prims.gt, prims.ge))
bitwise_and, bitwise_or, bitwise_xor = (
    _binary(p) for p in (prims.bitwise_and, prims.bitwise_or, prims.bitwise_xor)
)
shift_left, shift_right_logical, shift_right_arithmetic = (
    _binary(p) for p in (prims.shift_left, prims.shift_right_logical, prims.shift_right_arithmetic)
)


real, imag = _unary(prims.real), _unary(prims.imag)


def logistic(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)), the sigmoid, of floats or complex numbers.

    >>> lax.logistic(tnp.array([-np.inf, 0.0, 1000.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    array = operators.operand(x)
    if array.dtype in dtypes.COMPLEX:
        return mul(0.5, add(1, tanh(mul(0.5, array))))
    return applied(prims.logistic, array)


def complex(x: ArrayLike, y: ArrayLike) -> Array:
    """The complex numbers with real parts x and imaginary parts y, of float32 or float64.

    >>> lax.complex(1.0, tnp.array([2.0, 3.0]))
    Array([1.+2.j, 1.+3.j], dtype=complex64)
    """
    return applied(prims.complex_, *of_one_shape("complex", of_one_dtype("complex", x, y)))


def conj(x: ArrayLike) -> Array:
    """The complex conjugate; of real numbers the complex ones that equal them, as in JAX.

    >>> lax.conj(1.0 + 2.0j), lax.conj(3.0)
    (Array(1.-2.j, dtype=complex64), Array(3.+0.j, dtype=complex64))
    """
    array = operators.operand(x)
    if array.dtype in dtypes.COMPLEX:
        return applied(prims.conj, array)
    return complex(array, operators.scalar(0, array.dtype))


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Floats rounded to what a format with so many bits of exponent and mantissa holds, in their own dtype.

    Too large ones become infinite, too small ones (where the format would have subnormal numbers) zero. The derivative
    is rounded in the same way, as in JAX.

    >>> x = tnp.array([1.001, 1e30, 1e-30])
    >>> lax.reduce_precision(x, exponent_bits=5, mantissa_bits=10)
    Array([1.0009766,       inf, 0.       ], dtype=float32)
    """
    exponent, mantissa = operator.index(exponent_bits), operator.index(mantissa_bits)
    x = operators.operand(operand)
    return applied(prims.reduce_precision, x, exponent_bits=exponent, mantissa_bits=mantissa)


def optimization_barrier(operand: Any, /) -> Any:
    """The pytree of arrays itself: no optimisation of ours changes values, so there is nothing to hold back.

    >>> lax.optimization_barrier({"x": 1.0})
    {'x': Array(1., dtype=float32)}
    """
    return pytree.map(operators.operand, operand)


class RoundingMethod(enum.IntEnum):
    """Where `round` takes numbers halfway between two whole ones."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """The nearest whole number of floats; one halfway between two goes away from zero unless told
    otherwise.

    >>> x = tnp.array([0.5, 1.5, 2.5, -2.5])
    >>> lax.round(x)
    Array([ 1.,  2.,  3., -3.], dtype=float32)
    >>> lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    Array([ 0.,  2.,  2., -2.], dtype=float32)
    """
    x = operators.operand(x)
    if rounding_method == RoundingMethod.TO_NEAREST_EVEN:
        return applied(prims.round, x)
    whole = applied(prims.trunc, x)
    return select(ge(abs(sub(x, whole)), 0.5), add(whole, sign(x)), whole)


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """Floats or complex numbers x to the power y, of x's dtype or integers; a Python integer y is exact, with an exact
    derivative.

    >>> lax.pow(tnp.array([2.0, 3.0]), 2), lax.pow(4.0, tnp.array([0.5, -1.0]))
    (Array([4., 9.], dtype=float32), Array([2.  , 0.25], dtype=float32))
    """
    if type(y) is int:
        return integer_pow(x, y)
    exponent = operators.operand(y)
    if dtypes.is_integer(exponent.dtype) and not exponent.weak_type:
        base = operators.operand(x)
        exponent = operators.to_dtype(exponent, base.dtype) if dtypes.is_inexact(base.dtype) else exponent
        x, y = base, exponent
    return applied(prims.pow, *of_one_shape("pow", of_one_dtype("pow", x, y)))


def integer_pow(x: ArrayLike, y: int) -> Array:
    """x to the power of a Python integer; integers x need it to be 0 or more.

    >>> lax.integer_pow(tnp.array([2, -3]), 3), lax.integer_pow(2.0, -1)
    (Array([  8, -27], dtype=int32), Array(0.5, dtype=float32))
    """
    return applied(prims.integer_pow, operators.operand(x), exponent=operator.index(y))


def square(x: ArrayLike) -> Array:
    """x * x

    >>> lax.square(tnp.array([2, -3]))
    Array([4, 9], dtype=int32)
    """
    return integer_pow(x, 2)


def reciprocal(x: ArrayLike) -> Array:
    """1 / x of floats or complex numbers.

    >>> lax.reciprocal(tnp.array([2.0, -4.0, 0.0]))
    Array([ 0.5 , -0.25,   inf], dtype=float32)
    """
    x = operators.operand(x)
    if not dtypes.is_inexact(x.dtype):
        raise TypeError(f"lax.reciprocal works on floats, not on {described([x])}; at {user_line()}")
    return div(1, x)


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Elements of `on_true` where `pred` (bool, a scalar or of their shape) holds, of `on_false`
    elsewhere.

    >>> lax.select(tnp.array([True, False]), tnp.array([1, 2]), tnp.array([10, 20]))
    Array([ 1, 20], dtype=int32)
    >>> lax.select(True, tnp.array([1, 2]), tnp.array([10, 20]))
    Array([1, 2], dtype=int32)
    """
    condition = operators.operand(pred)
    if condition.dtype is not dtypes.bool_:
        raise TypeError(f"lax.select needs a bool predicate, not {described([condition])}; at {user_line()}")
    cases = of_one_dtype("select", on_true, on_false)
    return applied(prims.where, *of_one_shape("select", [condition, *cases]))


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """Elements of `cases[which]`: of two by a bool, of any number by an int32 (clamped), a scalar or of their
    shape.

    >>> lax.select_n(tnp.array([True, False]), tnp.array([1, 2]), tnp.array([10, 20]))
    Array([10,  2], dtype=int32)
    >>> lax.select_n(tnp.array([2, 0, 7]), *(tnp.full(3, i) for i in (10, 20, 30)))
    Array([30, 10, 30], dtype=int32)
    """
    chosen = operators.operand(which)
    if not cases:
        raise TypeError(f"lax.select_n needs at least one case; at {user_line()}")
    if chosen.dtype is dtypes.bool_:
        if len(cases) > 2:
            raise TypeError(
                f"lax.select_n with a bool chooses from two cases, not {len(cases)}; at {user_line()}"
            )
        return select(chosen, cases[-1], cases[0])
    if not dtypes.is_integer(chosen.dtype):
        raise TypeError(
            f"lax.select_n chooses by a bool or an integer, not by {described([chosen])}; at {user_line()}"
        )
    arrays = of_one_shape("select_n", of_one_dtype("select_n", *cases))
    result = arrays[0]
    for i, case in enumerate(arrays[1:], 1):
        result = select(ge(chosen, i), case, result)
    return result


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """min(max(x, `min`), `max`), with bounds that are scalars or have x's shape; NaN stays NaN.

    >>> lax.clamp(0, tnp.array([-1, 3, 12]), 9)
    Array([0, 3, 9], dtype=int32)
    >>> lax.clamp(tnp.array([0.0, 5.0]), tnp.array([1.0, 1.0]), tnp.array([9.0, 9.0]))
    Array([1., 5.], dtype=float32)
    """
    return applied(prims.clamp, *of_one_shape("clamp", of_one_dtype("clamp", min, x, max)))


def convert_element_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """The elements cast to a dtype; floats to integers round towards zero and saturate, integers wrap.

    >>> lax.convert_element_type(tnp.array([1.9, -1.9, 1e20, np.nan]), "int32")
    Array([         1,         -1, 2147483647,          0], dtype=int32)
    >>> lax.convert_element_type(tnp.array([255, 256]), "uint8")
    Array([255,   0], dtype=uint8)
    """
    return operators.astype(operand, new_dtype)


def stop_gradient(x: Any) -> Any:
    """The pytree x with its arrays as constants for derivatives; leaves that are no arrays of floats stay as
    they are.

    >>> tinyfn.grad(lambda x: x * lax.stop_gradient(x))(3.0)
    Array(3., dtype=float32)
    """

    def stopped(leaf: Any) -> Any:
        if not isinstance(leaf, (Array, np.ndarray, np.generic)):
            return leaf
        array = as_array(leaf)
        return applied(prims.stop_gradient, array) if dtypes.is_inexact(array.dtype) else leaf

    return pytree.map(stopped, x)
