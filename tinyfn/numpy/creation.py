"""Arrays made by a rule: one value everywhere, ranges, grids."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array, is_scalar, wrap
from ..trace.errors import TracerIntegerConversionError, entry_point
from ..trace.index import reshape
from ..trace.tracing import current_trace
from .arithmetic import add, divide, multiply, subtract
from .common import (
    ArrayLike,
    DTypeLike,
    Shape,
    at_user,
    axis_of,
    bind,
    cast,
    check_device,
    diagonal_number,
    dtype_or,
    floats,
    full_of,
    inexact,
    iota,
    operand,
    shape_of,
)
from .conversion import _convert
from .logic import equal, greater_equal, where

# One value everywhere


def zeros(shape: Shape, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Zeros; float32 if no dtype is given."""
    check_device(device, "zeros")
    return full_of(0, dtype_or(dtype, dtypes.DEFAULT_FLOAT), shape_of(shape, "zeros"))


def ones(shape: Shape, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Ones; float32 if no dtype is given."""
    check_device(device, "ones")
    return full_of(1, dtype_or(dtype, dtypes.DEFAULT_FLOAT), shape_of(shape, "ones"))


def empty(shape: Shape, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Zeros: arrays can't be filled in later."""
    check_device(device, "empty")
    return full_of(0, dtype_or(dtype, dtypes.DEFAULT_FLOAT), shape_of(shape, "empty"))


def full(shape: Shape, fill_value: ArrayLike, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """One value (or an array that broadcasts to the shape) everywhere, by default in the value's dtype."""
    check_device(device, "full")
    sizes = shape_of(shape, "full")
    value = o.strong(_convert(fill_value, dtype))
    try:
        return o.broadcast_to(value, sizes)
    except ValueError:
        raise ValueError(
            f"full: a value of shape {list(value.shape)} does not fit {list(sizes)}{at_user()}"
        ) from None


def zeros_like(
    a: ArrayLike, dtype: DTypeLike = None, shape: Shape | None = None, *, device: Any = None
) -> Array:
    """Zeros of a's dtype and shape, or of those given."""
    return full_like(a, 0, dtype, shape, device=device)


def ones_like(
    a: ArrayLike, dtype: DTypeLike = None, shape: Shape | None = None, *, device: Any = None
) -> Array:
    """Ones of a's dtype and shape, or of those given."""
    return full_like(a, 1, dtype, shape, device=device)


def empty_like(
    prototype: ArrayLike, dtype: DTypeLike = None, shape: Shape | None = None, *, device: Any = None
) -> Array:
    """Zeros of the prototype's dtype and shape, or of those given."""
    return full_like(prototype, 0, dtype, shape, device=device)


def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike = None,
    shape: Shape | None = None,
    *,
    device: Any = None,
) -> Array:
    """One value everywhere, in a's dtype and shape or in those given."""
    if hasattr(a, "dtype") and hasattr(a, "shape"):
        own_dtype, own_shape = dtypes.canonical(a.dtype), a.shape
    else:
        like = operand(a, "full_like")
        own_dtype, own_shape = like.dtype, like.shape
    return full(own_shape if shape is None else shape, fill_value, dtype_or(dtype, own_dtype), device=device)


# Ranges and grids


def arange(
    start: Any, stop: Any = None, step: Any = None, dtype: DTypeLike = None, *, device: Any = None
) -> Array:
    """start, start + step, ... before stop; from 0 with one argument. The arguments are numbers known to
    Python."""
    check_device(device, "arange")
    first, last, by = (
        (0, start, 1 if step is None else step)
        if stop is None
        else (start, stop, 1 if step is None else step)
    )
    bounds = [_known_number(a) for a in (first, last, by)]
    first, last, by = bounds
    if by == 0:
        raise ValueError(f"arange: the step must not be 0{at_user()}")
    if all(isinstance(a, int) for a in bounds):
        target, count = dtype_or(dtype, dtypes.DEFAULT_INT), len(range(*bounds))
        if dtypes.is_integer(target) and current_trace() is not None:
            numbers = iota(target, (count,), 0)
            numbers = numbers if by == 1 else multiply(numbers, by)
            return numbers if first == 0 else add(numbers, first)
        if dtypes.is_integer(target) and count:
            o.scalar(first, target), o.scalar(first + (count - 1) * by, target)  # to see that they fit
        return wrap(np.arange(*bounds).astype(target))
    return wrap(np.arange(*bounds).astype(dtype_or(dtype, dtypes.DEFAULT_FLOAT)))


def _known_number(x: Any) -> Any:
    if isinstance(x, Array):
        attempt = "use it as a bound of arange (the result's size would depend on it)"
        return x.concrete(attempt, TracerIntegerConversionError).item()
    return x.item() if isinstance(x, (np.generic, np.ndarray)) else x


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """`num` numbers at equal distances from start to stop (before it, without `endpoint`), along a new axis.

    With `retstep` also their distance."""
    check_device(device, "linspace")
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"linspace: num must be 0 or more, not {num}{at_user()}")
    intervals = num - 1 if endpoint else num
    if is_scalar(start) and is_scalar(stop):
        numbers: Array = wrap(np.linspace(start, stop, num, endpoint))
        has_parts = isinstance(start, complex) or isinstance(stop, complex)
        target = dtype_or(dtype, dtypes.DEFAULT_COMPLEX if has_parts else dtypes.DEFAULT_FLOAT)
        if dtypes.is_integer(target):
            numbers = wrap(np.floor(numbers.value))
        step = (stop - start) / intervals if intervals else float("nan")  # type: ignore[operator]
        result = cast(numbers, target)
        return (result, wrap(np.asarray(step, dtypes.DEFAULT_FLOAT))) if retstep else result
    first, last = floats("linspace", start, stop)
    target = dtype_or(dtype, first.dtype)
    shape = o.broadcast_shapes(first.shape, last.shape)
    first, last = o.broadcast_to(first, shape), o.broadcast_to(last, shape)
    first, last = reshape(first, (1, *shape)), reshape(last, (1, *shape))
    position = (
        reshape(o.to_dtype(iota(dtypes.DEFAULT_INT, (num,), 0), first.dtype), (num,) + (1,) * len(shape))
        if num
        else full_of(0, first.dtype, (0,) + (1,) * len(shape))
    )
    share = divide(position, max(intervals, 1))
    numbers = add(multiply(first, subtract(1, share)), multiply(last, share))
    if endpoint and num > 1:
        numbers = where(equal(position, num - 1), last, numbers)
    if dtypes.is_integer(target):
        numbers = bind(prims.floor, (numbers,), {})
    place = axis_of(axis, len(shape) + 1, "linspace")
    if place:
        order = [*range(1, place + 1), 0, *range(place + 1, len(shape) + 1)]
        numbers = bind(prims.transpose, (numbers,), {"permutation": tuple(order)})
    numbers = cast(numbers, target)
    if not retstep:
        return numbers
    distance = reshape(subtract(last, first), shape)
    return numbers, divide(distance, intervals) if intervals else multiply(distance, float("nan"))


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike = None,
    axis: int = 0,
) -> Array:
    """base to the powers linspace(start, stop, num)."""
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    return cast(o.power(base, exponents), dtype_or(dtype, exponents.dtype))


def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike = None,
    axis: int = 0,
) -> Array:
    """`num` numbers from start to stop with equal quotients; both of the same sign."""
    first, last = inexact(start, "geomspace"), inexact(stop, "geomspace")
    sign = bind(prims.sign, (first,), {})
    from .arithmetic import absolute
    from .elementary import exp, log

    exponents = linspace(log(absolute(first)), log(absolute(last)), num, endpoint, axis=axis)
    return cast(multiply(sign, exp(exponents)), dtype_or(dtype, exponents.dtype))


def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """An N x M matrix with ones on the k-th diagonal and zeros elsewhere."""
    check_device(device, "eye")
    shape = shape_of((N, N if M is None else M), "eye")
    return cast(
        equal(add(iota(dtypes.int32, shape, 0), diagonal_number(k)), iota(dtypes.int32, shape, 1)),
        dtype_or(dtype, dtypes.DEFAULT_FLOAT),
    )


def identity(n: int, dtype: DTypeLike = None) -> Array:
    """The n x n matrix with ones on the diagonal and zeros elsewhere."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = None) -> Array:
    """An N x M matrix with ones on and below the k-th diagonal and zeros above."""
    shape = shape_of((N, N if M is None else M), "tri")
    below = greater_equal(add(iota(dtypes.int32, shape, 0), diagonal_number(k)), iota(dtypes.int32, shape, 1))
    return cast(below, dtype_or(dtype, dtypes.DEFAULT_FLOAT))


def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Array, ...]:
    """The coordinates of a grid, one array for each of the 1-d arguments; "xy" swaps the first two axes, "ij"
    does not."""
    arrays = [reshape(a, (a.size,)) for a in (operand(x, "meshgrid") for x in xi)]
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', not {indexing!r}{at_user()}")
    places = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        places[0], places[1] = 1, 0
    shape = [0] * len(arrays)
    for place, a in zip(places, arrays, strict=True):
        shape[place] = a.shape[0]
    grids = []
    for place, a in zip(places, arrays, strict=True):
        spread = reshape(a, tuple([n if i == place else 1 for i, n in enumerate(shape)]))
        grids.append(spread if sparse else o.broadcast_to(spread, tuple(shape)))
    return tuple(grids)


def indices(dimensions: Sequence[int], dtype: DTypeLike = None, sparse: bool = False) -> Any:
    """For each axis of a grid of these sizes the positions along it, stacked (a tuple of 1-d grids, if
    `sparse`)."""
    shape = shape_of(dimensions, "indices")
    target = dtype_or(dtype, dtypes.DEFAULT_INT)
    grids = []
    for axis, n in enumerate(shape):
        sizes = tuple([n if i == axis else 1 for i in range(len(shape))]) if sparse else shape
        grids.append(iota(target, sizes, axis))
    if sparse:
        return tuple(grids)
    if not grids:
        return full_of(0, target, (0,))
    return bind(prims.concatenate, tuple([reshape(g, (1, *shape)) for g in grids]), {"axis": 0})


@entry_point
def fromfunction(
    function: Callable[..., Any], shape: Shape, *, dtype: DTypeLike = None, **kwargs: Any
) -> Any:
    """The function of the coordinates of a grid of this shape, called once on arrays of them."""
    sizes = shape_of(shape, "fromfunction")
    target = dtype_or(dtype, dtypes.DEFAULT_FLOAT)
    return function(*[iota(target, sizes, axis) for axis in range(len(sizes))], **kwargs)
