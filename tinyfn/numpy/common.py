"""What the functions of this namespace share: the types of their arguments, axes, shapes and dtypes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims, switches, tracing
from ..trace.array import Array, is_scalar, wrap
from ..trace.dtype import DType
from ..trace.errors import AxisError, TracerError, summary, user_line
from ..trace.index import reshape
from ..trace.indexing import getitem
from ..trace.prim import Primitive
from ..trace.sint import is_symbolic
from ..trace.tracing import current_trace

ArrayLike: TypeAlias = Array | np.ndarray[Any, Any] | np.number[Any] | np.bool_ | complex
DTypeLike: TypeAlias = Any
Axis: TypeAlias = int | Sequence[int] | None
Shape: TypeAlias = int | Sequence[Any]

# Its primitives all have one result.
bind: Callable[..., Array] = tracing.bind
cast = o.astype


def at_user() -> str:
    """`; at file.py:12 (in loss)`, the end of a message."""
    return f"; at {user_line()}"


described = o.described


def check_device(device: Any, what: str) -> None:
    """Raise ValueError unless the device is None or the one where arrays are: "cpu"."""
    if device is not None and device != "cpu":
        raise ValueError(f"{what}: there is no device {device!r}; arrays are on 'cpu'{at_user()}")


def no_out(what: str, out: object) -> None:
    """Raise TypeError if a function that has NumPy's argument `out` is given one."""
    if out is not None:
        raise TypeError(
            f"{what}: `out` must be None{at_user()}: arrays do not change, so take the result that is returned"
        )


def check_not_in_place(inplace: bool, what: str) -> None:
    """Raise ValueError for what NumPy changes in place unless the caller says inplace=False."""
    if inplace:
        raise ValueError(
            f"{what} needs inplace=False: arrays do not change, the result is a new one{at_user()}"
        )


def operand(x: Any, what: str) -> Array:
    """An argument as an array; lists raise a TypeError that names the function."""
    if isinstance(x, (list, tuple)):
        raise TypeError(
            f"{what} takes arrays or numbers, not a {type(x).__name__}{at_user()}: use array(...) on it first"
        )
    return o.operand(x)


def number(x: Any, what: str) -> Array:
    """An argument as an array of numbers or bools; random keys raise TypeError."""
    array = operand(x, what)
    if array.dtype is dtypes.key:
        raise TypeError(f"{what} does not accept {described(array)}{at_user()}: {dtypes.KEY_ADVICE}")
    return array


def truth(x: Any, what: str) -> Array:
    """An argument as an array of bools: whether its elements are not 0."""
    array = operand(x, what)
    return array if array.dtype is dtypes.bool_ else o.not_equal(array, 0)


def integer(x: Any, what: str, name: str) -> int:
    """A known integer; raises TypeError that says what must be one, as "split: the number of parts must be ..."."""
    try:
        return operator.index(x)
    except TracerError:
        raise
    except TypeError:
        raise TypeError(f"{what}: {name} must be an integer, not {summary(x)}{at_user()}") from None


def axis_of(axis: Any, ndim: int, what: str) -> int:
    """An axis counted from the front; raises AxisError (a ValueError and an IndexError) if there is no such axis."""
    position = axis if type(axis) is int else integer(axis, what, "an axis")
    if not -ndim <= position < ndim:
        within = f"it has {-ndim} to {ndim - 1}" if ndim else "a scalar has none"
        raise AxisError(f"axis {position} is out of bounds for an array with {ndim} axes: {within}")
    return position % ndim if ndim else 0


def axes_of(axis: Axis, ndim: int, what: str) -> tuple[int, ...]:
    """Axes (None: all) counted from the front; raises ValueError if one is missing or repeated."""
    if axis is None:
        return tuple(range(ndim))
    if not isinstance(axis, (tuple, list)):
        return (axis_of(axis, ndim, what),)
    axes = tuple([axis_of(a, ndim, what) for a in axis])
    if len(set(axes)) != len(axes):
        raise ValueError(f"{what}: axis={axis} names an axis twice{at_user()}")
    return axes


def shape_of(shape: Any, what: str) -> tuple[Any, ...]:
    """A shape as a tuple of sizes; an int is the size of the only axis."""
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for n in sizes:
        if isinstance(n, (float, str)) or n is None:
            raise TypeError(f"{what}: a shape is made of integers, not {n!r}{at_user()}")
    result = tuple([n if is_symbolic(n) else operator.index(n) for n in sizes])
    if any(not is_symbolic(n) and n < 0 for n in result):
        raise ValueError(f"{what}: shape {result} has a negative size{at_user()}")
    return result


def dtype_or(dtype: DTypeLike, default: DType) -> DType:
    """The dtype that is named, or the default for None."""
    return default if dtype is None else dtypes.canonical(dtype)


def inexact(x: Any, what: str) -> Array:
    """An argument as an array of floats; integers and bools become float32."""
    array = operand(x, what)
    return array if dtypes.is_inexact(array.dtype) else o.to_dtype(array, dtypes.DEFAULT_FLOAT)


def operands(what: str, *xs: Any) -> list[Array]:
    """The arguments as arrays of one dtype; lists raise a TypeError that names the function.

    Python's numbers take the dtype of the arrays beside them, of which they may have all values."""
    for x in xs:
        if isinstance(x, (list, tuple)):
            operand(x, what)
    return promoted(*xs)


def floats(what: str, *xs: Any) -> list[Array]:
    """The arguments as arrays of one float dtype; integers and bools become float32."""
    arrays = operands(what, *xs)
    return [a if dtypes.is_inexact(a.dtype) else o.to_dtype(a, dtypes.DEFAULT_FLOAT) for a in arrays]


def check_real(what: str, *arrays: Array) -> None:
    """Raise TypeError if one of the arrays is complex."""
    for array in arrays:
        if dtypes.kind(array.dtype) == "complex":
            raise TypeError(
                f"{what} takes real numbers, not {described(array)}{at_user()}: take .real, or `absolute` of it"
            )


def converted(x: Any) -> Array:
    """A list of numbers and arrays as `array` takes it, and anything else as an argument."""
    if isinstance(x, (list, tuple)):
        from .conversion import array

        return array(x)
    return o.operand(x)


def sequence(xs: Any, what: str) -> list[Array]:
    """A sequence of arrays, or the slices of one array along its first axis."""
    if isinstance(xs, (Array, np.ndarray)):
        if not xs.shape:
            raise ValueError(f"{what} takes a sequence of arrays, not a scalar{at_user()}")
        whole = o.operand(xs)
        return [getitem(whole, i) for i in range(whole.shape[0])]
    if is_scalar(xs) or not hasattr(xs, "__iter__"):
        raise TypeError(f"{what} takes a sequence of arrays, not a {type(xs).__name__}{at_user()}")
    return [converted(x) for x in xs]


def promoted(*xs: Any) -> list[Array]:
    """The arguments as arrays of one dtype."""
    return o.promote(*xs)[0]


def permute(x: Array, order: Sequence[int]) -> Array:
    """x with its axes in another order."""
    permutation = tuple(order)
    return (
        x
        if permutation == tuple(range(x.ndim))
        else bind(prims.transpose, (x,), {"permutation": permutation})
    )


def slice_axis(x: Array, axis: int, start: Any, limit: Any, step: int = 1) -> Array:
    """The elements of x from start to limit along one axis."""
    n = x.ndim
    starts, limits, steps = [0] * n, list(x.shape), [1] * n
    starts[axis], limits[axis], steps[axis] = start, limit, step
    return bind(prims.slice_, (x,), {"start": tuple(starts), "limit": tuple(limits), "step": tuple(steps)})


def concatenate_arrays(xs: Sequence[Array], axis: int) -> Array:
    """The arrays, of one dtype, one after another."""
    return xs[0] if len(xs) == 1 else bind(prims.concatenate, tuple(xs), {"axis": axis})


def full_of(value: Any, dtype: DType, shape: tuple[Any, ...]) -> Array:
    """An array of one Python number everywhere."""
    if current_trace() is None:
        return wrap(np.full(shape, value, dtype))
    return o.broadcast_to(o.scalar(value, dtype), shape)


def diagonal_number(k: int) -> int:
    """A diagonal's number, brought within what may be added to a row's number without an overflow."""
    return max(-(2**30), min(integer(k, "a diagonal", "its number"), 2**30))


def iota(dtype: DType, shape: tuple[Any, ...], axis: int) -> Array:
    """Along `axis` the numbers 0, 1, 2, ..."""
    return bind(prims.iota, (), {"dtype": dtype, "shape": shape, "axis": axis})


def keep_axes(y: Array, shape: tuple[Any, ...], axes: tuple[int, ...], keepdims: bool) -> Array:
    """A reduction's result with the reduced axes kept at size 1, if asked for."""
    return reshape(y, tuple([1 if i in axes else n for i, n in enumerate(shape)])) if keepdims else y


def weights_of(x: Array, weights: Array, axis: Axis, what: str) -> Array:
    """The weights of x's elements, in its shape; they are given so, or in the shape of the axes."""
    if weights.shape == x.shape:
        return weights
    axes = axes_of(axis, x.ndim, what)
    if weights.shape != tuple([x.shape[i] for i in axes]):
        raise ValueError(
            f"{what}: weights {described(weights)} fit neither {described(x)} nor its axes {axes}{at_user()}"
        )
    turned = permute(weights, sorted(range(len(axes)), key=axes.__getitem__))
    shape = tuple([n if i in axes else 1 for i, n in enumerate(x.shape)])
    return o.broadcast_to(reshape(turned, shape), x.shape)


def unary(primitive: Primitive, x: Any, what: str) -> Array:
    """A primitive on floats; integers and bools become float32."""
    if type(x) is Array and current_trace() is None and not switches.general_path:
        value = x.value
        if value.dtype.kind == "f" and value.dtype.itemsize > 1:  # nothing is computed in 8-bit floats
            with np.errstate(all="ignore"):
                result = np.asarray(primitive.reference(value))
            return wrap(result, x.weak_type)
    return bind(primitive, (inexact(x, what),), {})
