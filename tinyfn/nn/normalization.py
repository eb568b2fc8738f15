"""Functions over axes: softmax, its logarithm, logsumexp and standardize.

Half precision is computed with in float32 and rounded once. `where` is a mask that broadcasts: only elements
where it holds take part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from .. import lax
from ..lax.arguments import ArrayLike, described, distinct_axes
from ..trace import dtype as dtypes
from ..trace import operators, prims
from ..trace.array import Array
from ..trace.dtype import DType
from ..trace.errors import user_line
from ..trace.operators import elementwise_where as choose
from .activations import as_float

Axis: TypeAlias = int | Sequence[int] | None


def _prepared(
    name: str, x: ArrayLike, axis: Axis, where: ArrayLike | None
) -> tuple[Any, DType, tuple[int, ...], Any]:
    """The array in at least float32, its own dtype, the axes and the mask of the array's shape."""
    array: Any = as_float(x)
    dtype = array.dtype
    mask = None
    if where is not None:
        mask = operators.operand(where)
        if mask.dtype is not dtypes.bool_:
            raise TypeError(f"nn.{name}: where must be bool, not {described([mask])}; at {user_line()}")
        shape = operators.broadcast_shapes(array.shape, mask.shape)
        array, mask = operators.broadcast_to(array, shape), operators.broadcast_to(mask, shape)
    axes = tuple(range(array.ndim)) if axis is None else distinct_axes(name, axis, array.ndim)
    return operators.to_dtype(array, dtypes.accumulator(dtype)), dtype, axes, mask


def _kept(reduced: Array, shape: tuple[Any, ...], axes: tuple[int, ...]) -> Any:
    """A reduction's result with axes of size 1 where it was reduced."""
    return lax.reshape(reduced, [1 if axis in axes else n for axis, n in enumerate(shape)])


def _sum(x: Any, axes: tuple[int, ...]) -> Any:
    return _kept(lax.reduce_sum(x, axes), x.shape, axes)


def _top(x: Any, axes: tuple[int, ...]) -> Any:
    """The greatest element, as a constant for derivatives: subtracting it changes no result."""
    return _kept(lax.reduce_max(lax.stop_gradient(x), axes), x.shape, axes)


def _masked(x: Any, mask: Any) -> Any:
    """-infinity where the mask does not hold: exp gives 0 there, and so does its derivative."""
    return choose(mask, x, -math.inf)


def _empty(x: Any, axes: tuple[int, ...]) -> bool:
    return any(isinstance(x.shape[axis], int) and x.shape[axis] == 0 for axis in axes)


def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """exp(x) / sum(exp(x)) over axes (None: all); 0 where `where` does not hold.

    NaN where the greatest element is infinite, unless a mask leaves none: then all are 0.

    >>> nn.softmax(tnp.array([[1.0, 1.0], [0.0, 1000.0]]))
    Array([[0.5, 0.5],
           [0. , 1. ]], dtype=float32)
    >>> nn.softmax(tnp.array([1.0, 1.0, 5.0]), where=tnp.array([True, True, False]))
    Array([0.5, 0.5, 0. ], dtype=float32)
    """
    array, dtype, axes, mask = _prepared("softmax", x, axis, where)
    if _empty(array, axes):
        return operators.to_dtype(array, dtype)
    if mask is None:
        powers = lax.exp(array - _top(array, axes))
        return operators.to_dtype(lax.div(powers, _sum(powers, axes)), dtype)
    array = _masked(array, mask)
    top = _top(array, axes)
    powers = lax.exp(array - choose(top == -math.inf, 0, top))
    total = _sum(powers, axes)
    return operators.to_dtype(lax.div(powers, choose(total == 0, 1, total)), dtype)


def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """log(softmax(x)) = x - logsumexp(x) over axes (None: all); -infinity where `where` does not hold.

    >>> nn.log_softmax(tnp.array([[1.0, 1.0], [0.0, 100.0]])).round(3)
    Array([[  -0.693,   -0.693],
           [-100.   ,    0.   ]], dtype=float32)
    """
    array, dtype, axes, mask = _prepared("log_softmax", x, axis, where)
    if _empty(array, axes):
        return operators.to_dtype(array, dtype)
    if mask is None:
        shifted = array - _top(array, axes)
        return operators.to_dtype(lax.sub(shifted, lax.log(_sum(lax.exp(shifted), axes))), dtype)
    array = _masked(array, mask)
    top = _top(array, axes)
    shifted = array - choose(top == -math.inf, 0, top)
    total = _sum(lax.exp(shifted), axes)
    return operators.to_dtype(lax.sub(shifted, lax.log(choose(total == 0, 1, total))), dtype)


def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """log(sum(b · exp(a))) over axes (None: all), with weights b that broadcast (None: 1); -infinity for no
    elements.

    NaN where the sum is negative; with `return_sign` the result is (log of its magnitude, its sign) instead.
    The derivative is 0, and not NaN, where the result is infinite.

    >>> nn.logsumexp(tnp.array([[1000.0, 1000.0], [0.0, -np.inf]]), axis=1).round(3)
    Array([1000.693,    0.   ], dtype=float32)
    >>> size, sign = nn.logsumexp(tnp.array([0.0, 0.0]), b=tnp.array([1.0, -3.0]), return_sign=True)
    >>> size.round(3), sign  # log |1 - 3|
    (Array(0.693, dtype=float32), Array(-1., dtype=float32))
    """
    if b is not None:
        a, b = operators.promote(as_float(a), b)[0]
        shape = operators.broadcast_shapes(a.shape, b.shape)
        a, b = operators.broadcast_to(a, shape), operators.broadcast_to(b, shape)
        present = lax.ne(b, 0)
        where = present if where is None else operators.bitwise_and(present, where)
    array, dtype, axes, mask = _prepared("logsumexp", a, axis, where)
    if mask is not None:
        array = _masked(array, mask)
    if _empty(array, axes):
        total = _sum(array, axes)
        shift: Any = lax.full_like(total, 0)
    else:
        top = _top(array, axes)
        shift = choose(top == -math.inf, 0, top)
        # Where the greatest element is infinity, infinities alone count, each as 1.
        endless = top == math.inf
        inside = choose(array == math.inf, 0, -math.inf)
        powers = lax.exp(
            choose(endless, inside, lax.sub(choose(endless, 0, array), choose(endless, 0, shift)))
        )
        if b is not None:
            weights = operators.broadcast_to(
                operators.to_dtype(operators.operand(b), array.dtype), array.shape
            )
            powers = lax.mul(powers, choose(mask, weights, 0))
        total = _sum(powers, axes)
    nothing = total == 0
    size = choose(nothing, 1, total)
    result = choose(nothing, -math.inf, lax.log(lax.abs(size) if return_sign else size) + shift)
    results = [operators.to_dtype(result, dtype), operators.to_dtype(lax.sign(total), dtype)]
    if not keepdims:
        results = [lax.squeeze(r, axes) for r in results]
    return (results[0], results[1]) if return_sign else results[0]


def logmeanexp(
    x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False
) -> Array:
    """log(mean(exp(x))) over axes (None: all) of the elements where `where` holds; NaN if there are none.

    >>> nn.logmeanexp(tnp.array([[1000.0, 1000.0], [2.0, 2.0]]), axis=1)
    Array([1000.,    2.], dtype=float32)
    """
    total = logsumexp(x, axis, where=where, keepdims=True)
    array, _, axes, mask = _prepared("logmeanexp", x, axis, where)
    if mask is None:
        count = lax.full_like(total, math.prod([array.shape[a] for a in axes]))
    else:
        count = operators.to_dtype(_sum(lax.convert_element_type(mask, array.dtype), axes), total.dtype)
    result = lax.sub(total, lax.log(count))
    return result if keepdims else lax.squeeze(result, axes)


def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "stable",
) -> Array:
    """(x - mean) / sqrt(variance + epsilon), with the mean and variance over axes (None: all) where none are
    given.

    The variance is the mean square of the differences from the mean, also for the `algorithm` "fast".

    >>> nn.standardize(tnp.array([[1.0, 3.0], [10.0, 30.0]]), epsilon=0.0)
    Array([[-1.,  1.],
           [-1.,  1.]], dtype=float32)
    >>> nn.standardize(tnp.array([1.0, 3.0, 1000.0]), epsilon=0.0, where=tnp.array([True, True, False]))
    Array([ -1.,   1., 998.], dtype=float32)
    """
    if algorithm not in ("fast", "stable"):
        raise ValueError(
            f"nn.standardize has no algorithm {algorithm!r}: choose fast or stable; at {user_line()}"
        )
    array, dtype, axes, mask = _prepared("standardize", x, axis, where)
    if mask is None:
        count: Any = math.prod([array.shape[a] for a in axes])
    else:
        count = _sum(lax.convert_element_type(mask, array.dtype), axes)

    def average(values: Any) -> Any:
        return _sum(values if mask is None else choose(mask, values, 0), axes) / count

    centred: Any = array - (average(array) if mean is None else operators.operand(mean))
    spread: Any = average(centred * centred) if variance is None else operators.operand(variance)
    result: Array = centred * prims.rsqrt(spread + epsilon)
    return operators.astype(result, dtype)
