"""Statistics: means, variances, correlation."""

from __future__ import annotations

from math import prod as size_of
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace.array import Array
from ..trace.index import reshape
from .arithmetic import absolute, divide, maximum, multiply, square, subtract
from .common import (
    ArrayLike,
    Axis,
    DTypeLike,
    at_user,
    axes_of,
    cast,
    concatenate_arrays,
    described,
    full_of,
    inexact,
    no_out,
    operand,
    permute,
    truth,
    weights_of,
)
from .contraction import matmul
from .elementary import sqrt
from .floats import conjugate, real
from .reductions import sum
from .triangles import diagonal


def _computed_in(x: Array, dtype: Any) -> tuple[Array, dtypes.DType]:
    """x in the float type for its statistics, at least float32, and the result's type."""
    target = (
        dtypes.canonical(dtype)
        if dtype is not None
        else x.dtype
        if dtypes.is_inexact(x.dtype)
        else dtypes.float32
    )
    if not dtypes.is_inexact(target):
        return o.to_dtype(x, dtypes.float32), target
    return (
        (o.to_dtype(x, dtypes.accumulator(target)), target)
        if target.itemsize < 4
        else (cast(x, target), target)
    )


def _count(x: Array, axes: tuple[int, ...], mask: Any, keepdims: bool) -> Any:
    if mask is None:
        count: Any = 1
        for axis in axes:
            count = count * x.shape[axis]
        return count
    full_mask = o.broadcast_to(truth(mask, "where"), x.shape)
    return sum(full_mask, axes, x.dtype, keepdims=keepdims)


def _spread(x: Array, mask: Any) -> Array:
    return x if mask is None else o.broadcast_to(x, o.broadcast_shapes(x.shape, o.operand(mask).shape))


def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """The mean over axes (all, for None), which leave the shape, or stay as 1 with `keepdims`; NaN of no elements.

    Integers become float32, and half precision is summed in float32.

    >>> tnp.mean(tnp.array([[1, 2], [3, 6]]), axis=0)
    Array([2., 4.], dtype=float32)
    >>> tnp.mean(tnp.array([1.0, 3.0, np.nan]), where=tnp.array([True, True, False]))
    Array(2., dtype=float32)
    """
    no_out("mean", out)
    x = operand(a, "mean")
    weak = x.weak_type and dtype is None and dtypes.is_inexact(x.dtype)
    x, target = _computed_in(x, dtype)
    x = _spread(x, where)
    axes = axes_of(axis, x.ndim, "mean")
    count = _count(x, axes, where, keepdims)
    result = divide(
        sum(x, axes, keepdims=keepdims, where=where),
        o.scalar(float(count), x.dtype) if isinstance(count, int) else count,
    )
    return result if weak else cast(result, target)


def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """The mean over axes, weighted if weights are given (of a's shape, or of that of the axes); with `returned` also the
    sum of the weights.

    >>> tnp.average(tnp.array([1.0, 2.0, 6.0]), weights=tnp.array([2, 1, 1]))
    Array(2.5, dtype=float32)
    >>> tnp.average(tnp.array([[1, 2], [3, 6]]), axis=1, weights=tnp.array([3, 1]), returned=True)
    (Array([1.25, 3.75], dtype=float32), Array([4., 4.], dtype=float32))
    """
    x = inexact(a, "average")
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        axes = axes_of(axis, x.ndim, "average")
        total = full_of(float(size_of([x.shape[i] for i in axes])), result.dtype, result.shape)
        return (result, total) if returned else result
    x, w = o.promote(x, weights_of(x, inexact(weights, "average"), axis, "average"))[0]
    total = sum(w, axis, keepdims=keepdims)
    result = divide(sum(multiply(x, w), axis, keepdims=keepdims), total)
    return (result, total) if returned else result


def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """The mean squared distance from the mean over axes; the divisor is the number of elements less `ddof` (`correction` is
    the array API's name for it).

    Integers become float32; of complex numbers it is real. Where there are no more elements than `ddof` it is infinite, or NaN.

    >>> tnp.var(tnp.array([1, 2, 3, 6]))
    Array(3.5, dtype=float32)
    >>> tnp.var(tnp.array([[1.0, 3.0], [2.0, 2.0]]), axis=1, ddof=1)
    Array([2., 0.], dtype=float32)
    """
    no_out("var", out)
    x, target = _computed_in(operand(a, "var"), dtype)
    x = _spread(x, where)
    axes = axes_of(axis, x.ndim, "var")
    less_by = ddof if correction is None else correction
    center = _mean(x, axes, keepdims=True, where=where) if mean is None else cast(mean, x.dtype)
    count = _count(x, axes, where, keepdims)
    divisor: Any = (
        o.scalar(float(np.maximum(count - less_by, 0)), x.dtype)
        if isinstance(count, int)
        else maximum(subtract(real(count), less_by), 0)
    )
    distance = subtract(x, center)
    if dtypes.kind(x.dtype) == "complex":
        distance, divisor = absolute(distance), real(divisor)
        target = distance.dtype
    return cast(divide(sum(square(distance), axes, keepdims=keepdims, where=where), divisor), target)


_mean = mean


def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """The square root of the variance: see `var`.

    >>> tnp.std(tnp.array([1, 3]))
    Array(1., dtype=float32)
    >>> tnp.std(tnp.array([[1.0, 5.0], [2.0, 2.0]]), axis=1, keepdims=True)
    Array([[2.],
           [0.]], dtype=float32)
    """
    no_out("std", out)
    x, target = _computed_in(operand(a, "std"), dtype)
    variance = var(x, axis, None, ddof=ddof, keepdims=keepdims, where=where, mean=mean, correction=correction)
    return sqrt(variance) if dtypes.kind(target) == "complex" else cast(sqrt(variance), target)


def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    *,
    dtype: DTypeLike = None,
) -> Array:
    """The covariance matrix of variables that are the rows (columns, without `rowvar`) of m, and of y.

    `fweights` say how often each observation counts, `aweights` how much; both have an element for each. The divisor is the
    number of observations less 1, or with `bias` less 0, or less `ddof`. Of one variable the result has no axes.

    >>> tnp.cov(tnp.array([[1, 2, 3], [3, 2, 1]]))
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    >>> tnp.cov(tnp.array([1.0, 2.0, 3.0]), bias=True).round(3)
    Array(0.667, dtype=float32)
    """
    x = _variables(m if dtype is None else cast(m, dtype), rowvar)
    if y is not None:
        first, second = o.promote(x, _variables(y, rowvar))[0]
        x = concatenate_arrays([first, second], 0)
    less_by = (0 if bias else 1) if ddof is None else ddof
    if fweights is None and aweights is None:
        centered = subtract(x, mean(x, 1, keepdims=True))
        divisor: Any = float(max(x.shape[1] - less_by, 0))
        weighted = centered
    else:
        weights = [
            _observations(w, x, what)
            for w, what in ((fweights, "fweights"), (aweights, "aweights"))
            if w is not None
        ]
        weight = weights[0] if len(weights) == 1 else multiply(*weights)
        total = sum(weight)
        centered = subtract(x, divide(sum(multiply(x, weight), 1, keepdims=True), total))
        # What `aweights` weigh less than one observation each takes as much less of a degree of freedom.
        share = 1 if aweights is None else divide(sum(multiply(weight, weights[-1])), total)
        divisor = maximum(real(subtract(total, multiply(less_by, share))), 0)
        weighted = multiply(centered, weight)
    result = divide(matmul(weighted, conjugate(permute(centered, (1, 0)))), divisor)
    return reshape(result, ()) if result.shape == (1, 1) else result


def _observations(w: ArrayLike, x: Array, what: str) -> Array:
    weights = cast(w, real(x).dtype)
    if weights.shape != x.shape[1:]:
        raise ValueError(
            f"cov: {what} {described(weights)} is not one for each of {x.shape[1]} observations{at_user()}"
        )
    return weights


def _variables(m: Any, rowvar: bool) -> Array:
    x = inexact(m, "cov")
    x = reshape(x, (1, x.size)) if x.ndim < 2 else x
    return x if rowvar or x.shape[0] == 1 else permute(x, (1, 0))


def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, *, dtype: DTypeLike = None
) -> Array:
    """The correlation matrix of variables that are the rows (columns, without `rowvar`) of x, and of y.

    >>> tnp.corrcoef(tnp.array([[1, 2, 3], [3, 2, 1]])).round(3)
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    >>> tnp.corrcoef(tnp.array([1, 2, 3]), tnp.array([1, 0, 5])).shape
    (2, 2)
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return divide(c, c)
    deviation = sqrt(real(diagonal(c)))
    n = c.shape[0]
    return divide(divide(c, reshape(deviation, (n, 1))), reshape(deviation, (1, n)))
