"""Elementwise activations, and one_hot. Integers are computed with as float32, except where said
otherwise."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes

from .. import lax
from ..lax.arguments import ArrayLike, described, one_axis
from ..trace import dtype as dtypes
from ..trace import operators, prims
from ..trace.array import Array
from ..trace.errors import user_line
from ..trace.operators import add, multiply, true_divide
from ..trace.operators import elementwise_where as where


def as_float(x: ArrayLike) -> Array:
    """The argument as an array of floats: integers and bools become float32."""
    array = operators.operand(x)
    return array if dtypes.is_inexact(array.dtype) else operators.to_dtype(array, dtypes.DEFAULT_FLOAT)


def _greatest(dtype: Any) -> float:
    """The greatest finite number of a float dtype."""
    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]


def _gated(x: Array, gate: Callable[[Array], Array]) -> Array:
    """x · gate(x) for a gate that goes to 0 below and to 1 above.

    Far out, where it has got there in every dtype, the product and its derivatives might be inf · 0."""
    far = lax.gt(lax.abs(x), _greatest(x.dtype) ** (1 / 3))
    inside = where(far, 0, x)
    return where(far, relu(x), lax.mul(inside, gate(inside)))


def identity(x: ArrayLike) -> Array:
    """x itself, as an array.

    >>> nn.identity(2)
    Array(2, dtype=int32)
    """
    return operators.operand(x)


def _number(x: ArrayLike) -> Array:
    """The argument as an array of numbers: bools become int32."""
    array = operators.operand(x)
    return operators.to_dtype(array, dtypes.int32) if array.dtype is dtypes.bool_ else array


def relu(x: ArrayLike) -> Array:
    """max(x, 0), also of integers; the derivative at 0 is 0.

    >>> nn.relu(tnp.array([-1.0, 0.0, 2.0])), nn.relu(tnp.array([-1, 2]))
    (Array([0., 0., 2.], dtype=float32), Array([0, 2], dtype=int32))
    >>> tinyfn.vmap(tinyfn.grad(nn.relu))(tnp.array([-1.0, 0.0, 2.0]))
    Array([0., 0., 1.], dtype=float32)
    """
    x = _number(x)
    return where(lax.le(x, 0), 0, x)


def relu6(x: ArrayLike) -> Array:
    """min(max(x, 0), 6), also of integers; the derivative is 0 at 0 and at 6.

    >>> nn.relu6(tnp.array([-1.0, 3.0, 8.0]))
    Array([0., 3., 6.], dtype=float32)
    """
    x = _number(x)
    return where(lax.le(x, 0), 0, where(lax.ge(x, 6), 6, x))


def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)).

    >>> nn.sigmoid(tnp.array([-1000.0, 0.0, 1000.0])), nn.sigmoid(0)
    (Array([0. , 0.5, 1. ], dtype=float32), Array(0.5, dtype=float32))
    """
    return lax.logistic(as_float(x))


def tanh(x: ArrayLike) -> Array:
    """The hyperbolic tangent.

    >>> nn.tanh(tnp.array([-1000.0, 0.0, 1000.0]))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    return lax.tanh(as_float(x))


def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x)).

    >>> nn.softplus(tnp.array([-100.0, 0.0, 100.0])).round(3)
    Array([  0.   ,   0.693, 100.   ], dtype=float32)
    """
    x = as_float(x)
    # From here on it is x, rounded; and exp does not overflow before.
    limit = min(36.0, math.log(_greatest(x.dtype)) - 0.1)
    large = lax.gt(x, limit)
    return where(large, x, lax.log1p(lax.exp(where(large, limit, x))))


def log_sigmoid(x: ArrayLike) -> Array:
    """log(sigmoid(x)) = -softplus(-x).

    >>> nn.log_sigmoid(tnp.array([-100.0, 0.0])).round(3)
    Array([-100.   ,   -0.693], dtype=float32)
    """
    return lax.neg(softplus(lax.neg(as_float(x))))


def log1mexp(x: ArrayLike) -> Array:
    """log(1 - exp(-x)) of positive x, exact for small and for large x (M. Mächler, "Accurately computing",
    2012).

    >>> nn.log1mexp(tnp.array([0.0, 1.0])).round(3)
    Array([  -inf, -0.459], dtype=float32)
    """
    x = as_float(x)
    small = lax.lt(x, math.log(2))
    near, far = where(small, x, 1.0), where(small, 1.0, x)
    return where(small, lax.log(lax.neg(lax.expm1(lax.neg(near)))), lax.log1p(lax.neg(lax.exp(lax.neg(far)))))


def sparse_plus(x: ArrayLike) -> Array:
    """0 below -1, (x + 1)² / 4 up to 1, x from there on: a softplus that reaches 0 (M. Blondel et al., "Learning with
    Fenchel-Young losses", 2020).

    >>> nn.sparse_plus(tnp.array([-2.0, 0.0, 1.0, 3.0]))
    Array([0.  , 0.25, 1.  , 3.  ], dtype=float32)
    """
    x = as_float(x)
    inside = lax.clamp(-1.0, x, 1.0)
    bent = lax.div(lax.square(lax.add(inside, 1)), 4)
    return where(lax.le(x, -1), 0, where(lax.ge(x, 1), x, bent))


def sparse_sigmoid(x: ArrayLike) -> Array:
    """(x + 1) / 2 between -1 and 1, 0 below and 1 above: the derivative of `sparse_plus`.

    >>> nn.sparse_sigmoid(tnp.array([-2.0, 0.0, 0.5, 3.0]))
    Array([0.  , 0.5 , 0.75, 1.  ], dtype=float32)
    """
    return lax.mul(0.5, lax.clamp(0.0, lax.add(as_float(x), 1), 2.0))


def soft_sign(x: ArrayLike) -> Array:
    """x / (1 + |x|).

    >>> nn.soft_sign(tnp.array([-3.0, 0.0, 1.0, np.inf]))
    Array([-0.75,  0.  ,  0.5 ,  1.  ], dtype=float32)
    """
    x = as_float(x)
    bounded = where(prims.is_inf(x), lax.sign(x), x)
    return where(prims.is_inf(x), lax.sign(x), lax.div(bounded, lax.add(1, lax.abs(bounded))))


def silu(x: ArrayLike) -> Array:
    """x · sigmoid(x), also known as swish.

    >>> nn.silu(tnp.array([-1.0, 0.0, 1.0])).round(3)
    Array([-0.269,  0.   ,  0.731], dtype=float32)
    """
    return _gated(as_float(x), lax.logistic)


swish = silu


def mish(x: ArrayLike) -> Array:
    """x · tanh(softplus(x)).

    >>> nn.mish(tnp.array([-1.0, 0.0, 1.0])).round(3)
    Array([-0.303,  0.   ,  0.865], dtype=float32)
    """
    return _gated(as_float(x), lambda inside: lax.tanh(softplus(inside)))


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """x · P(X <= x) for a standard normal X, by its tanh approximation or exactly (Hendrycks and Gimpel,
    2016).

    >>> nn.gelu(1.0).round(4), nn.gelu(1.0, approximate=False).round(4)
    (Array(0.8412, dtype=float32), Array(0.8413, dtype=float32))
    """
    x = as_float(x)
    if not approximate:
        return _gated(x, lambda inside: lax.mul(0.5, lax.erfc(lax.mul(inside, -math.sqrt(0.5)))))

    def gate(inside: Array) -> Array:
        # Beyond 10 the gate is 0 or 1 in every dtype, while the cube might overflow.
        inside = lax.clamp(-10.0, inside, 10.0)
        bent = lax.add(inside, lax.mul(0.044715, lax.integer_pow(inside, 3)))
        return lax.mul(0.5, lax.add(1, lax.tanh(lax.mul(math.sqrt(2 / math.pi), bent))))

    return _gated(x, gate)


def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x above 0, alpha · (exp(x) - 1) below.

    >>> nn.elu(tnp.array([-1000.0, 0.0, 2.0]), alpha=0.5)
    Array([-0.5,  0. ,  2. ], dtype=float32)
    """
    x = as_float(x)
    positive = lax.gt(x, 0)
    return where(positive, x, multiply(alpha, lax.expm1(where(positive, 0, x))))


def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x above 0, alpha · (exp(x / alpha) - 1) below.

    >>> nn.celu(tnp.array([-1000.0, 0.0, 2.0]), alpha=2.0)
    Array([-2.,  0.,  2.], dtype=float32)
    """
    x = as_float(x)
    positive = lax.gt(x, 0)
    below = true_divide(where(positive, 0, x), alpha)
    return where(positive, x, multiply(alpha, lax.expm1(below)))


def selu(x: ArrayLike) -> Array:
    """The scaled elu that keeps mean 0 and variance 1 (Klambauer et al., "Self-normalizing networks",
    2017).

    >>> nn.selu(tnp.array([-1000.0, 0.0, 1.0])).round(3)
    Array([-1.758,  0.   ,  1.051], dtype=float32)
    """
    return lax.mul(1.0507009873554804934193349852946, elu(x, 1.6732632423543772848170429916717))


def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Array:
    """x from 0 on, negative_slope · x below.

    >>> nn.leaky_relu(tnp.array([-4.0, 0.0, 2.0]), negative_slope=0.25)
    Array([-1.,  0.,  2.], dtype=float32)
    """
    x = as_float(x)
    return where(lax.ge(x, 0), x, multiply(negative_slope, x))


def hard_tanh(x: ArrayLike) -> Array:
    """x between -1 and 1, the nearer of those elsewhere; also of integers.

    >>> nn.hard_tanh(tnp.array([-2.0, 0.5, 3.0])), nn.hard_tanh(tnp.array([-2, 3]))
    (Array([-1. ,  0.5,  1. ], dtype=float32), Array([-1,  1], dtype=int32))
    """
    x = _number(x)
    above = x if dtypes.kind(x.dtype) == "unsigned" else where(lax.lt(x, -1), -1, x)
    return where(lax.gt(x, 1), 1, above)


def hard_sigmoid(x: ArrayLike) -> Array:
    """relu6(x + 3) / 6.

    >>> nn.hard_sigmoid(tnp.array([-4.0, 0.0, 1.5, 4.0]))
    Array([0.  , 0.5 , 0.75, 1.  ], dtype=float32)
    """
    x = as_float(x)
    return lax.div(relu6(lax.add(x, 3)), 6)


def hard_silu(x: ArrayLike) -> Array:
    """x · hard_sigmoid(x), also known as hard swish.

    >>> nn.hard_silu(tnp.array([-1.5, 0.0, 1.5, 4.0]))
    Array([-0.375,  0.   ,  1.125,  4.   ], dtype=float32)
    """
    return _gated(as_float(x), hard_sigmoid)


hard_swish = hard_silu


def squareplus(x: ArrayLike, b: ArrayLike = 4.0) -> Array:
    """(x + sqrt(x² + b)) / 2, without cancellation for negative and overflow for large x (b > 0; J. T.
    Barron, 2021).

    >>> nn.squareplus(tnp.array([-1.5, 0.0, 1.5]), b=4.0)
    Array([0.5, 1. , 2. ], dtype=float32)
    """
    x = as_float(x)
    size = lax.abs(x)
    # From here on x² + b, rounded, is x² unless b is huge.
    large = math.sqrt(_greatest(x.dtype)) / 2
    root = where(lax.gt(size, large), size, lax.sqrt(add(lax.square(lax.clamp(-large, x, large)), b)))
    half = multiply(0.5, b)
    return where(
        lax.ge(x, 0), lax.add(lax.mul(0.5, x), lax.mul(0.5, root)), true_divide(half, lax.add(root, size))
    )


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half along an axis times the sigmoid of the second; raises ValueError if the size is odd.

    >>> nn.glu(tnp.array([[1.0, 2.0, 0.0, 1000.0]]))
    Array([[0.5, 2. ]], dtype=float32)
    """
    x = as_float(x)
    axis = one_axis("glu", axis, x.ndim)
    size = x.shape[axis]
    if size % 2:
        raise ValueError(f"nn.glu of {described([x])}: axis {axis} has an odd size; at {user_line()}")
    first, second = lax.split(x, (size // 2, size // 2), axis)
    return lax.mul(first, lax.logistic(second))


def one_hot(x: ArrayLike, num_classes: int, *, dtype: Any = dtypes.DEFAULT_FLOAT, axis: int = -1) -> Array:
    """For each integer a vector along a new axis that is 1 at that position and 0 elsewhere (everywhere, if
    it is beyond).

    >>> nn.one_hot(tnp.array([2, 0, 5]), 3)
    Array([[0., 0., 1.],
           [1., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    >>> nn.one_hot(tnp.array([2, 0]), 3, dtype=bool, axis=0)
    Array([[False,  True],
           [False, False],
           [ True, False]], dtype=bool)
    """
    x = operators.operand(x)
    if not dtypes.is_integer(x.dtype):
        raise TypeError(f"nn.one_hot works on integers, not on {described([x])}; at {user_line()}")
    axis = one_axis("one_hot", axis, x.ndim + 1)
    shape = (*x.shape[:axis], operator.index(num_classes), *x.shape[axis:])
    # Narrow integers could not hold all the positions.
    wide = dtypes.int32 if x.dtype.itemsize < 4 else x.dtype
    positions = lax.broadcasted_iota(wide, shape, axis)
    numbers = lax.convert_element_type(lax.expand_dims(x, (axis,)), wide)
    return lax.convert_element_type(lax.eq(numbers, positions), dtype)
