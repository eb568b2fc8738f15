"""Arrays of what there is: of numbers, lists, other arrays, other dtypes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array, as_array, buffer, is_scalar, own, wrap
from ..trace.index import reshape
from ..trace.tracing import Tracer, current_trace
from .common import (
    ArrayLike,
    DTypeLike,
    at_user,
    bind,
    cast,
    check_device,
    full_of,
    operand,
)


def array(
    object: Any,
    dtype: DTypeLike = None,
    copy: bool = True,
    order: str | None = None,
    ndmin: int = 0,
    *,
    device: Any = None,
) -> Array:
    """An array of a number, an array, a nested list of those, or an object with `__array__` or `__dlpack__`.

    Python's floats become float32 and its integers int32 unless `dtype` says otherwise; NumPy's types are kept.
    Unless `copy` is False it has memory of its own, so that donating the one array leaves the other.

    >>> tnp.array([[1, 2], [3, 4]])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    >>> tnp.array([1, 2.5]), tnp.array([1, 2], dtype=tnp.int8)
    (Array([1. , 2.5], dtype=float32), Array([1, 2], dtype=int8))
    >>> tnp.array(np.array([1.0, 2.0])).dtype
    dtype('float64')
    """
    check_device(device, "array")
    result = o.strong(convert(object, dtype))
    if copy:
        result = _apart(result, object)
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

    An array of that dtype is returned as it is, unless `copy` is True. With copy=False a ValueError is raised where the
    memory of a writeable NumPy array would have to be copied.

    >>> tnp.asarray([1, 2])
    Array([1, 2], dtype=int32)
    >>> half = tnp.zeros(2, tnp.float16)
    >>> (half + tnp.asarray(1.0)).dtype, (half + tnp.array(1.0)).dtype
    (dtype('float16'), dtype('float32'))
    """
    check_device(device, "asarray")
    if copy is False and not isinstance(a, Array):
        raise ValueError(f"asarray: a {type(a).__name__} can't become an array without a copy{at_user()}")
    return _apart(convert(a, dtype), a) if copy else convert(a, dtype)


def convert(x: Any, dtype: DTypeLike) -> Array:
    """What `array` takes as an array, of a dtype if one is given; a Python number stays weak, and memory may be shared."""
    if dtype is not None:
        dtype = dtypes.canonical(dtype)
    if isinstance(x, (list, tuple)):
        return _from_list(x, dtype)
    if is_scalar(x) and dtype is not None:
        return cast(x, dtype)
    if not isinstance(x, (Array, np.ndarray, np.generic)) and not is_scalar(x):
        if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
            x = from_dlpack(x)
        elif hasattr(x, "__array__") or hasattr(x, "__jax_array__") or not hasattr(x, "__len__"):
            x = as_array(x)
        elif isinstance(x, Sequence) and not isinstance(x, str) and not _is_buffer(x):
            return _from_list(list(x), dtype)  # a range, for example
        else:
            x = as_array(np.asarray(x))
    result = o.operand(x)
    return result if dtype is None else cast(result, dtype)


def _is_buffer(x: Any) -> bool:
    try:
        memoryview(x)
    except TypeError:
        return False
    return True


def _apart(result: Array, source: Any) -> Array:
    """The result of a conversion in memory that it does not share with its source; within a trace the result itself."""
    if type(result) is not Array or current_trace() is not None:
        return result
    if is_scalar(source) or isinstance(source, (list, tuple, np.generic)):
        return result  # always made anew
    memory = source.value if isinstance(source, Array) else source
    if (
        result is not source
        and isinstance(memory, np.ndarray)
        and not np.may_share_memory(memory, result.value)
    ):
        return result
    return wrap(buffer(result.value, copy=True), result.weak_type)


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
        ragged = (
            ": make its rows of one length, or keep a list of arrays" if "inhomogeneous" in str(error) else ""
        )
        raise ValueError(f"array: {str(error).rstrip('.')}{at_user()}{ragged}") from None


def _with_values(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [_with_values(element) for element in x]
    return x.value if isinstance(x, Array) else as_array(x).value if hasattr(x, "__jax_array__") else x


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

    Nothing is copied unless `copy` is True, so the memory must not be written to while the array is in use.

    >>> tnp.from_dlpack(np.arange(3, dtype=np.float32))
    Array([0., 1., 2.], dtype=float32)
    """
    check_device(device, "from_dlpack")
    return wrap(buffer(np.from_dlpack(x), copy=bool(copy)))


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """The same elements in memory of their own, so that donating the one array leaves the other; within a trace the array itself.

    >>> x = tnp.array([1, 2])
    >>> tnp.copy(x) is x
    False
    """
    return _apart(operand(a, "copy"), a)


def astype(x: ArrayLike, dtype: DTypeLike, /, *, copy: bool = False, device: Any = None) -> Array:
    """x cast to a dtype: floats to integers round towards zero and saturate, anything to bool is x != 0.

    An array that has the dtype is returned as it is, unless `copy` is True. NaN becomes the integer 0.

    >>> tnp.astype(tnp.array([-1.7, 1.7, 300.0]), tnp.int8)
    Array([ -1,   1, 127], dtype=int8)
    >>> tnp.astype(tnp.array([0.0, 0.5]), bool)
    Array([False,  True], dtype=bool)
    """
    check_device(device, "astype")
    result = cast(x if is_scalar(x) else operand(x, "astype"), dtype)
    return _apart(result, x) if copy else result
