"""Making arrays: from Python's and NumPy's data, and from a rule (zeros, ranges, grids)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array, as_array, buffer, is_scalar, own, wrap
from ..trace.errors import TracerIntegerConversionError
from ..trace.index import reshape
from ..trace.tracing import Tracer, current_trace
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
from .elementwise import add, divide, equal, greater_equal, multiply, subtract, where


def array(
    object: Any, dtype: DTypeLike = None, copy: bool = True, order: str | None = None, ndmin: int = 0
) -> Array:
    """An array of a number, an array, a nested list of those, or an object with `__array__` or `__dlpack__`.

    Python's floats become float32 and its integers int32 unless `dtype` says otherwise; NumPy's types are
    kept."""
    result = o.strong(_convert(object, dtype))
    if result.ndim < ndmin:
        result = reshape(result, ((1,) * (ndmin - result.ndim)) + result.shape)
    return result


def asarray(
    a: Any,
    dtype: DTypeLike = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
) -> Array:
    """Like `array`, but a bare Python number stays weak: it takes the dtype of what it is combined with.

    With copy=False a ValueError is raised where the memory of a writeable NumPy array would have to be copied."""
    check_device(device, "asarray")
    if copy is False and not isinstance(a, Array):
        raise ValueError(f"asarray: a {type(a).__name__} can't become an array without a copy{at_user()}")
    return _convert(a, dtype)


def _convert(x: Any, dtype: DTypeLike) -> Array:
    if dtype is not None:
        dtype = dtypes.canonical(dtype)
    if isinstance(x, (list, tuple)):
        return _from_list(x, dtype)
    if is_scalar(x) and dtype is not None:
        return cast(x, dtype)
    if not isinstance(x, (Array, np.ndarray, np.generic)) and not is_scalar(x):
        if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
            x = from_dlpack(x)
        elif hasattr(x, "__array__") or hasattr(x, "__tinyfn_array__") or not hasattr(x, "__len__"):
            x = as_array(x)
        else:
            x = as_array(np.asarray(x))  # a range, a buffer, ...
    result = o.operand(x)
    return result if dtype is None else cast(result, dtype)


def _leaf_types(x: Any, found: set[type]) -> None:
    """The types of the innermost elements of nested lists."""
    kinds = set(map(type, x))
    if list in kinds or tuple in kinds:
        for element in x:
            if type(element) is list or type(element) is tuple:
                _leaf_types(element, found)
        kinds -= {list, tuple}
    found |= kinds


def _leaves(x: Any) -> Iterator[Any]:
    for element in x:
        if isinstance(element, (list, tuple)):
            yield from _leaves(element)
        else:
            yield element


_PYTHON: dict[type, int] = {bool: 0, int: 1, float: 2, complex: 3}
_DEFAULTS = (dtypes.bool_, dtypes.DEFAULT_INT, dtypes.DEFAULT_FLOAT, dtypes.DEFAULT_COMPLEX)


def _from_list(x: Any, dtype: dtypes.DType | None) -> Array:
    found: set[type] = set()
    _leaf_types(x, found)
    if found <= _PYTHON.keys():
        target = dtype or (_DEFAULTS[max(_PYTHON[t] for t in found)] if found else dtypes.DEFAULT_FLOAT)
        return _from_numbers(x, target, float in found)
    elements = [as_array(leaf) for leaf in _leaves(x)]
    if dtype is None:
        target, weak = elements[0].dtype, elements[0].weak_type
        for element in elements[1:]:
            target, weak = dtypes.promote_pair(target, weak, element.dtype, element.weak_type)
    else:
        target = dtype
    if current_trace() is None and not any(isinstance(e, Tracer) for e in elements):
        return own(_checked(_with_values(x), target))
    return _stacked(x, target)


def _from_numbers(x: Any, dtype: dtypes.DType, has_floats: bool) -> Array:
    if dtypes.is_integer(dtype) and has_floats:
        return cast(wrap(_checked(x, dtypes.float64)), dtype)
    return wrap(_checked(x, dtype))


def _checked(x: Any, dtype: dtypes.DType) -> np.ndarray[Any, Any]:
    try:
        return np.array(x, dtype)
    except OverflowError as error:
        raise OverflowError(
            f"array: {error}{at_user()}: give it a wider dtype, for example dtype='int64'"
        ) from None
    except ValueError as error:
        raise ValueError(f"array: {error}{at_user()}") from None


def _with_values(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [_with_values(element) for element in x]
    return x.value if isinstance(x, Array) else x


def _stacked(x: Any, dtype: dtypes.DType) -> Array:
    if not isinstance(x, (list, tuple)):
        return cast(x, dtype)
    elements = [_stacked(element, dtype) for element in x]
    if not elements:
        return full_of(0, dtype, (0,))
    shape = elements[0].shape
    if any(e.shape != shape for e in elements):
        shapes = ", ".join(str(list(e.shape)) for e in elements)
        raise ValueError(f"array: the elements of a list have the different shapes {shapes}{at_user()}")
    return bind(prims.concatenate, tuple([reshape(e, (1, *shape)) for e in elements]), {"axis": 0})


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array over the memory of an object that exports it with `__dlpack__`, as another library's arrays do.

    Nothing is copied unless `copy` is True, so the memory must not be written to while the array is in use."""
    check_device(device, "from_dlpack")
    return wrap(buffer(np.from_dlpack(x), copy=bool(copy)))


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """The array itself: arrays do not change, so there is nothing that a copy would be for."""
    return operand(a, "copy")


def astype(x: ArrayLike, dtype: DTypeLike, /, *, copy: bool = False, device: Any = None) -> Array:
    """x cast to a dtype: floats to integers round towards zero and saturate, anything to bool is x != 0."""
    check_device(device, "astype")
    return cast(x if is_scalar(x) else operand(x, "astype"), dtype)


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
    from .elementwise import absolute, exp, log

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


def fromfunction(
    function: Callable[..., Any], shape: Shape, *, dtype: DTypeLike = None, **kwargs: Any
) -> Any:
    """The function of the coordinates of a grid of this shape, called once on arrays of them."""
    sizes = shape_of(shape, "fromfunction")
    target = dtype_or(dtype, dtypes.DEFAULT_FLOAT)
    return function(*[iota(target, sizes, axis) for axis in range(len(sizes))], **kwargs)
