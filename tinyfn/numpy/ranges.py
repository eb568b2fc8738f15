"""Ranges of numbers, and the coordinates of grids."""

from __future__ import annotations

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
    dtype_or,
    floats,
    full_of,
    integer,
    iota,
    operand,
    shape_of,
)
from .elementary import exp, log
from .logic import equal, where
from .shapes import moveaxis


def arange(
    start: Any, stop: Any = None, step: Any = None, dtype: DTypeLike = None, *, device: Any = None
) -> Array:
    """The numbers start, start + step, ... before stop, of shape (n,); from 0 with one argument.

    int32 if all arguments are integers, else float32, unless a dtype is given. The arguments are numbers known to Python: under
    jit the sizes of arrays are, and static arguments.

    >>> tnp.arange(4)
    Array([0, 1, 2, 3], dtype=int32)
    >>> tnp.arange(1.0, 2.0, 0.25)
    Array([1.  , 1.25, 1.5 , 1.75], dtype=float32)
    >>> tnp.arange(5, 0, -2, dtype=tnp.float16)
    Array([5., 3., 1.], dtype=float16)
    """
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
        return x._concrete(attempt, TracerIntegerConversionError).item()
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

    float32 for Python's numbers, unless a dtype is given; for integers they are rounded down. With `retstep` also their distance.

    >>> tnp.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    >>> tnp.linspace(0, 1, 4, endpoint=False)
    Array([0.  , 0.25, 0.5 , 0.75], dtype=float32)
    >>> tnp.linspace(tnp.array([0.0, 10.0]), tnp.array([2.0, 30.0]), 3)
    Array([[ 0., 10.],
           [ 1., 20.],
           [ 2., 30.]], dtype=float32)
    """
    check_device(device, "linspace")
    num = _count(num, "linspace")
    intervals = num - 1 if endpoint else num
    if is_scalar(start) and is_scalar(stop):
        axis_of(axis, 1, "linspace")  # to see that there is one
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


def _count(num: Any, what: str) -> int:
    count = integer(num, what, "num")
    if count < 0:
        raise ValueError(f"{what}: num must be 0 or more, not {count}{at_user()}")
    return count


def _rounded_once(numbers: np.ndarray[Any, Any], dtype: DTypeLike) -> Array:
    """Numbers in double precision, rounded to a dtype, or to the default one."""
    default = dtypes.DEFAULT_COMPLEX if numbers.dtype.kind == "c" else dtypes.DEFAULT_FLOAT
    return cast(wrap(numbers), dtype_or(dtype, default))


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike = None,
    axis: int = 0,
) -> Array:
    """`num` numbers from base**start to base**stop with equal quotients, along a new axis.

    >>> tnp.logspace(0, 3, 4, base=2)
    Array([1., 2., 4., 8.], dtype=float32)
    """
    if is_scalar(start) and is_scalar(stop) and is_scalar(base):
        axis_of(axis, 1, "logspace")
        with np.errstate(all="ignore"):
            return _rounded_once(np.logspace(start, stop, _count(num, "logspace"), endpoint, base), dtype)
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
    """`num` numbers from start to stop with equal quotients, along a new axis; both ends of one sign, or complex.

    Known numbers that are 0 raise ValueError.

    >>> tnp.geomspace(1, 1000, 4)
    Array([   1.,   10.,  100., 1000.], dtype=float32)
    """
    num = _count(num, "geomspace")
    if is_scalar(start) and is_scalar(stop):
        axis_of(axis, 1, "geomspace")
        if start == 0 or stop == 0:
            raise ValueError(f"geomspace from {start} to {stop}: 0 is no end of equal quotients{at_user()}")
        with np.errstate(all="ignore"):
            return _rounded_once(np.geomspace(start, stop, num, endpoint), dtype)
    first, last = floats("geomspace", start, stop)
    # Turned by the start's sign, or phase, so that the logarithms of real numbers are real.
    sign = bind(prims.sign, (first,), {})
    exponents = linspace(log(divide(first, sign)), log(divide(last, sign)), num, endpoint)
    numbers = multiply(sign, exp(exponents))
    # The ends are what was given, without the rounding of a logarithm.
    position = reshape(iota(dtypes.int32, (num,), 0), (num,) + (1,) * (numbers.ndim - 1))
    numbers = where(equal(position, 0), first, numbers)
    if endpoint and num > 1:
        numbers = where(equal(position, num - 1), last, numbers)
    return cast(moveaxis(numbers, 0, axis), dtype_or(dtype, numbers.dtype))


def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Array, ...]:
    """The coordinates of a grid, one array for each of the 1-d arguments; "xy" swaps the first two axes, "ij" does not.

    With `sparse` each array has size 1 along the axes of the others, to which it broadcasts.

    >>> x, y = tnp.meshgrid(tnp.arange(3), tnp.arange(2))
    >>> x
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    >>> y
    Array([[0, 0, 0],
           [1, 1, 1]], dtype=int32)
    >>> [a.shape for a in tnp.meshgrid(tnp.arange(3), tnp.arange(2), indexing="ij", sparse=True)]
    [(3, 1), (1, 2)]
    """
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
    """For each axis of a grid of these sizes the positions along it, stacked (a tuple of arrays that broadcast to the grid, if
    `sparse`); int32 if no dtype is given.

    >>> rows, columns = tnp.indices((2, 3))
    >>> rows
    Array([[0, 0, 0],
           [1, 1, 1]], dtype=int32)
    >>> columns
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
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
    """The function of the coordinates of a grid of this shape, called once on arrays of them.

    >>> tnp.fromfunction(lambda i, j: i + 10 * j, (2, 3), dtype=tnp.int32)
    Array([[ 0, 10, 20],
           [ 1, 11, 21]], dtype=int32)
    """
    sizes = shape_of(shape, "fromfunction")
    target = dtype_or(dtype, dtypes.DEFAULT_FLOAT)
    return function(*[iota(target, sizes, axis) for axis in range(len(sizes))], **kwargs)
