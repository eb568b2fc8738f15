"""`x[index]` with NumPy's meaning, and `x.at[index]` for arrays with some elements replaced: arrays never
change.

Reading or writing a static index is a matter of slices and selection, and all arrays of positions in an index
are one gather or one scatter. See `index` for what is static, and what becomes of positions out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import dtype as dtypes
from . import operators as o
from . import prims
from .array import Array, as_array, is_scalar, own
from .errors import entry_methods, hand_on, is_entry_point, user_line
from .index import Index, NonConcreteBooleanIndexError
from .index_modes import Mode, mode_name
from .tracing import bind, current_trace

__all__ = ["At", "AtIndex", "NonConcreteBooleanIndexError", "fill_value_of", "getitem", "read"]

_SIMPLE = frozenset((int, slice, type(None), type(Ellipsis)))


def getitem(x: Array, index: Any) -> Array:
    """The elements of x at an index, as NumPy's; raises IndexError for a static index that is out of bounds.

    Positions in an Array of ours are moved within bounds."""
    try:
        if type(x) is Array and current_trace() is None:
            kind = type(index)
            if kind in _SIMPLE or (kind is tuple and _SIMPLE.issuperset(map(type, index))):
                try:
                    return own(x.value[index], x.weak_type)
                except IndexError:
                    pass  # to be raised again with a better message
        return read(x, index, None, None)
    except BaseException as error:
        hand_on(error, "getitem", (x, index), {})
        raise


is_entry_point(getitem)


def read(x: Array, index: Any, mode: Mode, fill_value: Any) -> Array:
    mode = mode_name(mode)
    parsed = Index(x, index, mode)
    if parsed.eager and parsed.known:
        return own(x.value[tuple(parsed.as_numpy)])
    window = parsed.read_window()
    if parsed.is_static:
        return parsed.arrange(window)
    fills = mode in ("fill", "drop")
    if parsed.is_empty():
        if parsed.strict and any(isinstance(a, np.ndarray) and a.size for a in parsed.arrays.values()):
            raise IndexError(f"an axis of size 0 has no elements to index; at {user_line()}")
        return o.broadcast_to(fill_value_of(x, fill_value) if fills else o.scalar(0, x.dtype), parsed.shape)
    positions, sizes = parsed.positions()
    params = parsed.windows()
    result = bind(prims.gather, (window, positions), {**params, "mode": "fill" if fills else "clip"})
    if fills:
        inside = o.bitwise_and(
            o.greater_equal(positions, 0), o.less(positions, as_array(sizes.astype(positions.dtype)))
        )
        inside = bind(prims.reduce_and, (inside,), {"axes": (inside.ndim - 1,)})
        inside = bind(prims.broadcast, (inside,), {"shape": result.shape, "axes": tuple(range(inside.ndim))})
        result = o.elementwise_where(inside, result, fill_value_of(x, fill_value))
    return parsed.arrange(result)


def fill_value_of(x: Array, value: Any) -> Array:
    """What reads out of bounds give if it is not given: NaN, the least signed integer, the greatest unsigned one, True, or a key
    of such words."""
    if value is not None:
        return cast(value, x)
    return o.constant(_FILLING[dtypes.kind(x.dtype)](x.dtype), x.dtype)


_FILLING: dict[str, Callable[[dtypes.DType], Any]] = {
    "bool": lambda _: True,
    "unsigned": lambda dtype: np.iinfo(dtype).max,
    "signed": lambda dtype: np.iinfo(dtype).min,
    "float": lambda _: np.nan,
    "complex": lambda _: np.nan,
    "key": lambda _: 2**64 - 1,  # words of all ones, as in JAX
}


def cast(value: Any, x: Array) -> Array:
    """A value to be written into x, with x's dtype."""
    if type(value) is int and (dtypes.is_integer(x.dtype) or dtypes.is_inexact(x.dtype)):
        return o.scalar(value, x.dtype)
    array = value if isinstance(value, Array) else o.operand(value)
    if array.dtype is x.dtype:
        return array
    if dtypes.key in (array.dtype, x.dtype):
        raise TypeError(
            f"can't write {dtypes.describe(array.dtype, array.shape)} into {dtypes.describe(x.dtype, x.shape)}; "
            f"at {user_line()}: {dtypes.KEY_ADVICE}"
        )
    rank = {"bool": 0, "unsigned": 0, "signed": 0, "float": 1, "complex": 2}
    if rank[dtypes.kind(array.dtype)] > rank[dtypes.kind(x.dtype)]:
        described = dtypes.describe(x.dtype, x.shape)
        raise TypeError(
            f"can't write {array.dtype.name} values into {described}: they would be rounded; "
            f"at {user_line()}: cast the value with .astype('{x.dtype.name}'), or the array to a float type"
        )
    return o.scalar(value, x.dtype) if is_scalar(value) else o.astype(array, x.dtype)


_COMBINE: dict[str, Callable[[Any, Any], Array] | None] = {
    "set": None,
    "add": o.add,
    "mul": o.multiply,
    "min": lambda x, y: o.elementwise(prims.min, x, y),
    "max": lambda x, y: o.elementwise(prims.max, x, y),
}
# The same on known arrays; half precision takes the scatter, which accumulates in float32.
_UFUNCS = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def _update(x: Array, index: Any, value: Any, kind: str, mode: Mode) -> Array:
    """x with the elements at the index set to a value or combined with it; of equal positions, in order, the
    last wins."""
    update, mode = cast(value, x), mode_name(mode)
    combine = _COMBINE[kind]
    if combine is not None and x.dtype is dtypes.key:
        raise TypeError(
            f"at[...].{kind} of {dtypes.describe(x.dtype, x.shape)}; at {user_line()}: {dtypes.KEY_ADVICE}"
        )
    try:
        parsed = Index(x, index, mode)
    except NonConcreteBooleanIndexError:
        if not isinstance(index, Array) or (update.ndim and update.ndim > x.ndim - index.ndim):
            raise
        # One value for all places needs no positions, so a mask may be traced.
        if index.shape != x.shape[: index.ndim]:
            raise IndexError(
                f"a mask of shape {list(index.shape)} does not fit {list(x.shape)}; at {user_line()}"
            ) from None
        mask = bind(prims.broadcast, (index,), {"shape": x.shape, "axes": tuple(range(index.ndim))})
        update = o.broadcast_to(update, x.shape)
        return bind(prims.where, (mask, update if combine is None else combine(x, update), x), {})
    if parsed.eager and parsed.known and (combine is None or x.dtype.itemsize >= 4):
        result = x.value.copy()
        try:
            if combine is None:
                result[tuple(parsed.as_numpy)] = update.value
            else:
                with np.errstate(all="ignore"):
                    _UFUNCS[kind].at(result, tuple(parsed.as_numpy), update.value)
        except ValueError:
            parsed.spread(update)  # raises a better message
            raise
        return own(result)
    if parsed.is_static:
        window = parsed.read_window()
        new = parsed.spread(update)
        return parsed.write_window(new if combine is None else combine(window, new))
    updates = parsed.spread(update)
    if parsed.is_empty():
        return x
    positions, _ = parsed.positions()
    placed = "clip" if mode in ("clip", "promise_in_bounds") else "fill"
    params = {**parsed.windows(), "mode": placed, "kind": kind}
    return parsed.write_window(bind(prims.scatter, (parsed.read_window(), positions, updates), params))


class At:
    """`x.at`: index it, as in `x.at[index].set(value)`, for an array with some elements replaced.

    >>> x = tnp.array([1.0, 2.0, 3.0])
    >>> x.at[0].set(9.0)
    Array([9., 2., 3.], dtype=float32)
    >>> x.at[1:].add(10.0)
    Array([ 1., 12., 13.], dtype=float32)
    >>> x.at[x > 1].multiply(0.0)
    Array([1., 0., 0.], dtype=float32)
    """

    __slots__ = ("_array",)

    def __init__(self, array: Array):
        self._array = array

    def __call__(self, *index: Any) -> Any:
        raise TypeError(f"x.at is indexed, not called; at {user_line()}: write x.at[index].set(value)")

    def __getitem__(self, index: Any) -> AtIndex:
        return AtIndex(self._array, index)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"x.at has no {name!r}; at {user_line()}: index it first, as in x.at[index].set(value)"
        )

    def __repr__(self) -> str:
        return f"At({self._array!r})"


class AtIndex:
    """`x.at[index]`: functions that give x with the elements at the index replaced; x itself stays as it is.

    Values are broadcast to the indexed shape and cast to x's dtype; a float into an array of integers raises
    TypeError. `mode` says what becomes of positions out of bounds: "drop" or "fill" (None, too): not written,
    and read as the fill value; "clip": moved within bounds (None for reads). Without a mode a static index
    out of bounds raises IndexError. Where positions repeat, the last `set` wins, and the others combine all
    values in order. The two other options are accepted for what is ported from JAX, and do nothing.

    >>> x = tnp.zeros(3)
    >>> x.at[tnp.array([0, 0, 2])].add(1.0)  # what repeats is added twice
    Array([2., 0., 1.], dtype=float32)
    >>> x.at[tnp.array([0, 7])].set(1.0)  # 7 is dropped
    Array([1., 0., 0.], dtype=float32)
    >>> x.at[tnp.array([0, 7])].set(1.0, mode="clip")
    Array([1., 0., 1.], dtype=float32)
    """

    __slots__ = ("_array", "_index")

    def __init__(self, array: Array, index: Any):
        self._array = array
        self._index = index

    def __repr__(self) -> str:
        return f"At({self._array!r})[{self._index!r}]"

    def get(
        self,
        *,
        mode: Mode = None,
        fill_value: Any = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x[index]; with mode "fill", `fill_value` (NaN, or for integers the least or greatest) for positions
        out of bounds.

        >>> x = tnp.array([1.0, 2.0, 3.0])
        >>> at = tnp.array([2, 7])
        >>> x[at], x.at[at].get(mode="fill", fill_value=0.0)
        (Array([3., 3.], dtype=float32), Array([3., 0.], dtype=float32))
        """
        return read(self._array, self._index, mode, fill_value)

    def set(
        self,
        values: Any,
        *,
        mode: Mode = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x with x[index] = values.

        >>> tnp.zeros((2, 2)).at[0].set(tnp.array([1.0, 2.0]))
        Array([[1., 2.],
               [0., 0.]], dtype=float32)
        """
        return _update(self._array, self._index, values, "set", mode)

    def add(
        self,
        values: Any,
        *,
        mode: Mode = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x with x[index] += values.

        >>> tnp.zeros(3).at[tnp.array([1, 1])].add(tnp.array([1.0, 2.0]))
        Array([0., 3., 0.], dtype=float32)
        """
        return _update(self._array, self._index, values, "add", mode)

    def subtract(
        self,
        values: Any,
        *,
        mode: Mode = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x with x[index] -= values.

        >>> tnp.ones(3).at[0].subtract(3.0)
        Array([-2.,  1.,  1.], dtype=float32)
        """
        return _update(self._array, self._index, o.negative(cast(values, self._array)), "add", mode)

    def multiply(
        self,
        values: Any,
        *,
        mode: Mode = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x with x[index] *= values.

        >>> tnp.array([1, 2, 3]).at[-1].multiply(10)
        Array([ 1,  2, 30], dtype=int32)
        """
        return _update(self._array, self._index, values, "mul", mode)

    def divide(
        self,
        values: Any,
        *,
        mode: Mode = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x with x[index] /= values; a float array, if x has integers.

        >>> tnp.array([1, 2, 3]).at[1].divide(4)
        Array([1. , 0.5, 3. ], dtype=float32)
        """
        return o.true_divide(self._array, _update(_ones(self._array), self._index, values, "mul", mode))

    def power(
        self,
        values: Any,
        *,
        mode: Mode = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x with x[index] **= values.

        >>> tnp.array([1.0, 2.0, 3.0]).at[1:].power(2)
        Array([1., 4., 9.], dtype=float32)
        """
        return o.power(self._array, _update(_ones(self._array), self._index, values, "mul", mode))

    def min(
        self,
        values: Any,
        *,
        mode: Mode = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x with x[index] = minimum(x[index], values).

        >>> tnp.array([1.0, 5.0]).at[tnp.array([1, 1])].min(tnp.array([4.0, 3.0]))
        Array([1., 3.], dtype=float32)
        """
        return _update(self._array, self._index, values, "min", mode)

    def max(
        self,
        values: Any,
        *,
        mode: Mode = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x with x[index] = maximum(x[index], values).

        >>> tnp.array([1.0, 5.0]).at[:].max(2.0)
        Array([2., 5.], dtype=float32)
        """
        return _update(self._array, self._index, values, "max", mode)

    def apply(
        self,
        function: Callable[[Array], Any],
        *,
        mode: Mode = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x with x[index] = function(x[index]), once also for positions that repeat.

        >>> tnp.array([1.0, 4.0, 9.0]).at[1:].apply(tnp.sqrt)
        Array([1., 2., 3.], dtype=float32)
        """
        current = read(self._array, self._index, "clip" if mode is not None else None, None)
        return _update(self._array, self._index, function(current), "set", mode)


entry_methods(At, "__call__", "__getattr__")
entry_methods(AtIndex)


def _ones(x: Array) -> Array:
    return o.broadcast_to(o.scalar(1, x.dtype), x.shape)
