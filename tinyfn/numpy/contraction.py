"""Products of arrays: matrix and tensor products, outer products, convolution of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from ..trace.index import reshape
from ..trace.prims.movement import move_axis
from .arithmetic import absolute, multiply, subtract
from .common import (
    ArrayLike,
    DTypeLike,
    at_user,
    axes_of,
    axis_of,
    bind,
    cast,
    concatenate_arrays,
    described,
    inexact,
    no_out,
    operand,
    operands,
    slice_axis,
)
from .cumulative import cumsum, diff
from .floats import conjugate
from .logic import less, where
from .sums_of_products import contracted, einsum, factors


def matmul(
    a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    """The matrix product over the last two axes, broadcasting the others; 1-d arguments are vectors, of which the result
    has no axis. Scalars, and axes of different sizes, raise ValueError.

    Half precision is accumulated in float32; `preferred_element_type` is the dtype of the product and the result;
    `precision` changes nothing, as products are never of less than the dtype's.

    >>> tnp.matmul(tnp.array([[1, 2], [3, 4]]), tnp.array([[0, 1], [1, 0]]))
    Array([[2, 1],
           [4, 3]], dtype=int32)
    >>> tnp.matmul(tnp.ones((5, 2, 3)), tnp.ones((3, 4))).shape
    (5, 2, 4)
    >>> tnp.matmul(tnp.array([[1, 2], [3, 4]]), tnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    x, y = factors("matmul", preferred_element_type, a, b)
    return o.matmul(x, y)


def dot(
    a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    """The sums of products over the last axis of a and the last but one (or only one) of b; scalars are multiplied.

    The other axes do not broadcast as those of `matmul`: all of a's come first, then all of b's.

    >>> tnp.dot(tnp.array([1, 2, 3]), tnp.array([4, 5, 6]))
    Array(32, dtype=int32)
    >>> tnp.dot(tnp.ones((5, 2, 3)), tnp.ones((6, 3, 4))).shape
    (5, 2, 6, 4)
    """
    x, y = factors("dot", preferred_element_type, a, b)
    if x.ndim == 0 or y.ndim == 0:
        return multiply(x, y)
    axis = max(y.ndim - 2, 0)
    if x.shape[-1] != y.shape[axis]:
        raise ValueError(
            f"dot of {described(x, y)}: axes {x.ndim - 1} and {axis} have different sizes{at_user()}"
        )
    return contracted(x, y, ((x.ndim - 1,), (axis,)))


def vdot(
    a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    """The sum of the products of all elements, those of `a` conjugated.

    >>> tnp.vdot(tnp.array([[1j, 2]]), tnp.array([[1j, 1]]))
    Array(3.+0.j, dtype=complex64)
    """
    x, y = factors("vdot", preferred_element_type, a, b)
    x = conjugate(x)
    return dot(reshape(x, (x.size,)), reshape(y, (y.size,)))


def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """The sums of products along an axis of both, the elements of x1 conjugated; other axes broadcast.

    >>> tnp.vecdot(tnp.array([[1, 2], [3, 4]]), tnp.array([1, 10]))
    Array([21, 43], dtype=int32)
    >>> tnp.vecdot(tnp.array([1j, 2]), tnp.array([1j, 1]))
    Array(3.+0.j, dtype=complex64)
    """
    x, y = factors("vecdot", preferred_element_type, x1, x2)
    x = conjugate(x)
    x = move_axis(x, axis_of(axis, x.ndim, "vecdot"), x.ndim - 1)
    y = move_axis(y, axis_of(axis, y.ndim, "vecdot"), y.ndim - 1)
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"vecdot of {described(x, y)}: the axes have different sizes{at_user()}")
    return einsum("...i,...i->...", x, y)


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of matrices (the last two axes of x1) with vectors (the last axis of x2); other axes broadcast.

    >>> tnp.matvec(tnp.array([[1, 2], [3, 4]]), tnp.array([[1, 0], [1, 1]]))
    Array([[1, 3],
           [3, 7]], dtype=int32)
    """
    return einsum("...ij,...j->...i", x1, x2)


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of vectors (the last axis of x1, conjugated) with matrices (the last two axes of x2); other axes broadcast.

    >>> tnp.vecmat(tnp.array([1, 10]), tnp.array([[1, 2], [3, 4]]))
    Array([31, 42], dtype=int32)
    """
    return einsum("...i,...ij->...j", conjugate(x1), x2)


def inner(
    a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    """The sums of products over the last axes of both, a's other axes before b's; scalars are multiplied.

    >>> tnp.inner(tnp.array([[1, 2], [3, 4]]), tnp.array([[1, 1], [0, 1]]))
    Array([[3, 2],
           [7, 4]], dtype=int32)
    """
    x, y = factors("inner", preferred_element_type, a, b)
    if x.ndim == 0 or y.ndim == 0:
        return multiply(x, y)
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"inner of {described(x, y)}: the last axes have different sizes{at_user()}")
    return contracted(x, y, ((x.ndim - 1,), (y.ndim - 1,)))


def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """The products of each element of a with each of b, both raveled: of shape (a.size, b.size).

    >>> tnp.outer(tnp.array([1, 2]), tnp.array([1, 10, 100]))
    Array([[  1,  10, 100],
           [  2,  20, 200]], dtype=int32)
    """
    no_out("outer", out)
    x, y = operands("outer", a, b)
    return multiply(reshape(x, (x.size, 1)), reshape(y, (1, y.size)))


def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """The sums of products over pairs of axes: a number (the last of a, the first of b), or the axes of a and
    those of b. The axes that are left of a come before those of b.

    >>> tnp.tensordot(tnp.ones((2, 3, 4)), tnp.ones((3, 4, 5))).shape
    (2, 5)
    >>> tnp.tensordot(tnp.ones((2, 3, 4)), tnp.ones((5, 3)), axes=(1, 1)).shape
    (2, 4, 5)
    >>> tnp.tensordot(tnp.array([1, 2]), tnp.array([3, 4]), axes=0)
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    x, y = factors("tensordot", preferred_element_type, a, b)
    if isinstance(axes, (int, np.integer)):
        count = int(axes)
        if not 0 <= count <= min(x.ndim, y.ndim):
            raise ValueError(
                f"tensordot of {described(x, y)} over {count} axes: there are not as many{at_user()}"
            )
        first, second = tuple(range(x.ndim - count, x.ndim)), tuple(range(count))
    else:
        left, right = axes
        first, second = axes_of(left, x.ndim, "tensordot"), axes_of(right, y.ndim, "tensordot")
    if [x.shape[i] for i in first] != [y.shape[i] for i in second]:
        raise ValueError(
            f"tensordot of {described(x, y)}: axes {first} and {second} have different sizes{at_user()}"
        )
    return contracted(x, y, (first, second))


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: b multiplied by each element of a, in blocks.

    >>> tnp.kron(tnp.array([[1, 2]]), tnp.array([[1, 1], [0, 1]]))
    Array([[1, 1, 2, 2],
           [0, 1, 0, 2]], dtype=int32)
    """
    x, y = operands("kron", a, b)
    ndim = max(x.ndim, y.ndim)
    x_shape, y_shape = (1,) * (ndim - x.ndim) + x.shape, (1,) * (ndim - y.ndim) + y.shape
    spread = [
        reshape(x, tuple([n for s in x_shape for n in (s, 1)])),
        reshape(y, tuple([n for s in y_shape for n in (1, s)])),
    ]
    return reshape(multiply(*spread), tuple([n * m for n, m in zip(x_shape, y_shape, strict=True)]))


def cross(
    a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    """The cross product of vectors with 3 elements along an axis (or 2, which are taken to lie in the plane).

    Of two vectors in the plane it is the one element that is not 0, without the axis.

    >>> tnp.cross(tnp.array([1, 0, 0]), tnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    >>> tnp.cross(tnp.array([1, 0]), tnp.array([0, 1]))
    Array(1, dtype=int32)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = operands("cross", a, b)
    x = move_axis(x, axis_of(axisa, x.ndim, "cross"), x.ndim - 1)
    y = move_axis(y, axis_of(axisb, y.ndim, "cross"), y.ndim - 1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ValueError(f"cross of {described(x, y)}: vectors must have 2 or 3 elements{at_user()}")
    flat = x.shape[-1] == y.shape[-1] == 2

    def components(v: Array) -> list[Array]:
        parts = [reshape(slice_axis(v, v.ndim - 1, i, i + 1), v.shape[:-1]) for i in range(v.shape[-1])]
        return parts if len(parts) == 3 else [*parts, o.broadcast_to(o.scalar(0, v.dtype), v.shape[:-1])]

    (x0, x1, x2), (y0, y1, y2) = components(x), components(y)
    last = subtract(multiply(x0, y1), multiply(x1, y0))
    if flat:
        return last
    parts = [subtract(multiply(x1, y2), multiply(x2, y1)), subtract(multiply(x2, y0), multiply(x0, y2)), last]
    result = concatenate_arrays([reshape(p, (*p.shape, 1)) for p in parts], last.ndim)
    return move_axis(result, result.ndim - 1, axis_of(axisc, result.ndim, "cross"))


# Sequences


def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """The convolution of two 1-d arrays: every overlap ("full"), as many as the longer has ("same"), or complete ones ("valid").

    >>> tnp.convolve(tnp.array([1, 2, 3]), tnp.array([1, 10]))
    Array([ 1, 12, 23, 30], dtype=int32)
    >>> tnp.convolve(tnp.array([1, 2, 3]), tnp.array([1, 10]), mode="valid")
    Array([12, 23], dtype=int32)
    """
    return _convolution(a, v, mode, True, preferred_element_type)


def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """The correlation of two 1-d arrays: `convolve` with the second reversed and conjugated; the mode is "valid" here.

    >>> tnp.correlate(tnp.array([1, 2, 3]), tnp.array([1, 10]))
    Array([21, 32], dtype=int32)
    >>> tnp.correlate(tnp.array([1, 2, 3]), tnp.array([1, 10]), mode="full")
    Array([10, 21, 32,  3], dtype=int32)
    """
    return _convolution(a, v, mode, False, preferred_element_type)


def _convolution(a: Any, v: Any, mode: str, reverse: bool, preferred: DTypeLike) -> Array:
    what = "convolve" if reverse else "correlate"
    x, y = factors(what, preferred, a, v)
    if x.dtype is dtypes.bool_:
        return o.not_equal(_convolution(cast(x, dtypes.int32), cast(y, dtypes.int32), mode, reverse, None), 0)
    if not reverse:
        y = conjugate(y)
    if x.ndim != 1 or y.ndim != 1 or x.size == 0 or y.size == 0:
        raise ValueError(f"{what} takes two 1-d arrays that are not empty, not {described(x, y)}{at_user()}")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"{what}: mode must be 'full', 'same' or 'valid', not {mode!r}{at_user()}")
    flipped = False
    if x.shape[0] < y.shape[0]:
        x, y, flipped = y, x, not reverse
    n = y.shape[0]
    if reverse:
        y = bind(prims.flip, (y,), {"axes": (0,)})
    low, high = {"full": (n - 1, n - 1), "valid": (0, 0), "same": (n // 2, n - n // 2 - 1)}[mode]
    params = {
        "strides": (1,), "low": (low,), "high": (high,), "lhs_dilation": (1,), "rhs_dilation": (1,),
        "feature_groups": 1, "batch_groups": 1,
    }  # fmt: skip
    result = bind(prims.conv_general, (reshape(x, (1, 1, x.shape[0])), reshape(y, (1, 1, n))), params)
    result = reshape(result, (result.shape[2],))
    return bind(prims.flip, (result,), {"axes": (0,)}) if flipped else result


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """The polynomial with coefficients p, the highest power first, at each element of x.

    >>> tnp.polyval(tnp.array([1, 0, -2]), tnp.array([2, 3]))
    Array([2, 7], dtype=int32)
    """
    coefficients, at = operands("polyval", p, x)
    result = o.broadcast_to(o.scalar(0, at.dtype), at.shape)
    for i in range(coefficients.shape[0]):
        coefficient = reshape(slice_axis(coefficients, 0, i, i + 1), coefficients.shape[1:])
        result = o.add(multiply(result, at), coefficient)
    return result


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """The matrix whose columns are powers of x, the highest first (last, if `increasing`): N of them, or as many as x has
    elements.

    >>> tnp.vander(tnp.array([1, 2, 3]))
    Array([[1, 1, 1],
           [4, 2, 1],
           [9, 3, 1]], dtype=int32)
    >>> tnp.vander(tnp.array([2, 3]), 4, increasing=True)
    Array([[ 1,  2,  4,  8],
           [ 1,  3,  9, 27]], dtype=int32)
    """
    values = operand(x, "vander")
    count = values.shape[0] if N is None else N
    powers = range(count) if increasing else range(count - 1, -1, -1)
    columns = [reshape(o.power(values, int(k)), (values.shape[0], 1)) for k in powers]
    if not columns:
        return o.broadcast_to(o.scalar(0, values.dtype), (values.shape[0], 0))
    return concatenate_arrays(columns, 1)


def unwrap(
    p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: float = 2 * np.pi
) -> Array:
    """Angles along an axis with jumps of more than half a period taken out by adding periods; `discont` is what counts as a
    jump, if it is more.

    >>> tnp.unwrap(tnp.array([0, 170, 350, 10, 20]), period=360)
    Array([  0, 170, 350, 370, 380], dtype=int32)
    """
    x = operand(p, "unwrap")
    whole = isinstance(period, int) and dtypes.is_integer(x.dtype)
    x = x if whole else inexact(x, "unwrap")
    place = axis_of(axis, x.ndim, "unwrap")
    if x.shape[place] == 0:
        return x
    steps = diff(x, axis=place)
    half = period // 2 if whole else period / 2
    inside = subtract(o.remainder(o.add(steps, half), period), half)
    if 2 * half == period:  # a jump of half a period upwards stays one
        inside = where(o.bitwise_and(o.equal(inside, -half), o.greater(steps, 0)), half, inside)
    correction = subtract(inside, steps)
    correction = where(less(absolute(steps), half if discont is None else discont), 0, correction)
    first = slice_axis(x, place, 0, 1)
    rest = o.add(slice_axis(x, place, 1, x.shape[place]), cumsum(correction, place))
    return concatenate_arrays([first, rest], place)
