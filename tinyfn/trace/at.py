"""`x.at[index]`: arrays with some elements replaced, since arrays themselves never change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import operators as o
from . import prims
from .array import Array, own
from .errors import user_line
from .indexing import Index, NonConcreteBooleanIndexError, cast, read
from .tracing import bind

_COMBINE: dict[str, Callable[[Any, Any], Array] | None] = {
    "set": None,
    "add": o.add,
    "mul": o.multiply,
    "min": lambda x, y: o.elementwise(prims.min, x, y),
    "max": lambda x, y: o.elementwise(prims.max, x, y),
}


def _update(x: Array, index: Any, value: Any, kind: str, mode: str | None) -> Array:
    """x with the elements at the index set to a value or combined with it; of equal positions, in order, the last wins."""
    update = cast(value, x)
    combine = _COMBINE[kind]
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
    if parsed.eager and parsed.known and combine is None:
        result = x.value.copy()
        try:
            result[tuple(parsed.as_numpy)] = update.value
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
    """`x.at`: index it, as in `x.at[index].set(value)`, for an array with some elements replaced."""

    __slots__ = ("_array",)

    def __init__(self, array: Array):
        self._array = array

    def __getitem__(self, index: Any) -> AtIndex:
        return AtIndex(self._array, index)

    def __repr__(self) -> str:
        return f"At({self._array!r})"


class AtIndex:
    """`x.at[index]`: functions that give x with the elements at the index replaced; x itself stays as it is.

    Values are broadcast to the indexed shape and cast to x's dtype; a float into an array of integers raises TypeError.
    `mode` says what becomes of positions out of bounds: "drop" or "fill" (None, too): not written, and read as the
    fill value; "clip": moved within bounds (None for reads). Without a mode a static index out of bounds raises IndexError.
    Where positions repeat, the last `set` wins, and the others combine all values in order. The two other options are
    accepted for what is ported from JAX, and do nothing."""

    __slots__ = ("_array", "_index")

    def __init__(self, array: Array, index: Any):
        self._array = array
        self._index = index

    def __repr__(self) -> str:
        return f"At({self._array!r})[{self._index!r}]"

    def get(
        self,
        *,
        mode: str | None = None,
        fill_value: Any = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x[index]; with mode "fill", `fill_value` (NaN, or for integers the least or greatest) for positions out of bounds."""
        return read(self._array, self._index, mode, fill_value)

    def set(
        self,
        values: Any,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x with x[index] = values."""
        return _update(self._array, self._index, values, "set", mode)

    def add(
        self,
        values: Any,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x with x[index] += values."""
        return _update(self._array, self._index, values, "add", mode)

    def subtract(
        self,
        values: Any,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x with x[index] -= values."""
        return _update(self._array, self._index, o.negative(cast(values, self._array)), "add", mode)

    def multiply(
        self,
        values: Any,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x with x[index] *= values."""
        return _update(self._array, self._index, values, "mul", mode)

    def divide(
        self,
        values: Any,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x with x[index] /= values; a float array, if x has integers."""
        return o.true_divide(self._array, _update(_ones(self._array), self._index, values, "mul", mode))

    def power(
        self,
        values: Any,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x with x[index] **= values."""
        return o.power(self._array, _update(_ones(self._array), self._index, values, "mul", mode))

    def min(
        self,
        values: Any,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x with x[index] = minimum(x[index], values)."""
        return _update(self._array, self._index, values, "min", mode)

    def max(
        self,
        values: Any,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x with x[index] = maximum(x[index], values)."""
        return _update(self._array, self._index, values, "max", mode)

    def apply(
        self,
        function: Callable[[Array], Any],
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Array:
        """x with x[index] = function(x[index]), once also for positions that repeat."""
        current = read(self._array, self._index, "clip" if mode is not None else None, None)
        return _update(self._array, self._index, function(current), "set", mode)


def _ones(x: Array) -> Array:
    return o.broadcast_to(o.scalar(1, x.dtype), x.shape)
