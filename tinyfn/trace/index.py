"""An index taken apart, as `indexing` reads and writes with it: what is static, and what are arrays of
positions.

An index is static where it consists of Python integers, slices, None, Ellipsis, NumPy arrays and lists: it is
checked against the shape, and lowers to slices, flips and reshapes; all index arrays together are one gather
or scatter. Arrays of ours are data, which jit may not know: reads move them within bounds, writes drop what
is out of bounds, unless a mode says otherwise, and they do the same when their values are known. Negative
positions count from the end in any case.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from . import dtype as dtypes
from . import operators as o
from . import prims
from .array import Array, as_array
from .errors import ConcretizationError, TracerError, kind_of, user_line
from .index_modes import MODES
from .sint import is_symbolic
from .tracing import bind, current_trace


class NonConcreteBooleanIndexError(TracerError):
    """A boolean mask whose values are not known was used as an index, so that the result's shape is not
    known."""


class Index:
    """An index taken apart for an array of a shape: a static window of it, and integer arrays that index the
    window.

    The window has all axes of the array; those indexed by an integer or an array are dropped from the result.
    `layout` lists the result's axes apart from those of the index arrays: a number is the window's axis, None
    a new one."""

    def __init__(self, x: Array, index: Any, mode: str | None):
        if mode is not None and mode not in MODES:
            raise ValueError(
                f"mode must be None or one of {', '.join(map(repr, MODES))}, not {mode!r}; at {user_line()}"
            )
        self.x = x
        self.strict = mode in (None, "promise_in_bounds")
        self.eager = current_trace() is None
        self.start: list[Any] = [0] * x.ndim
        self.limit: list[Any] = list(x.shape)
        self.step = [1] * x.ndim
        self.flips: list[int] = []
        self.layout: list[int | None] = []
        # By axis: a NumPy array of positions, or an Array of ours that is still to be wrapped.
        self.arrays: dict[int, Any] = {}
        self.extra: list[tuple[int, ...]] = []  # shapes that scalar masks broadcast with the arrays'
        self.as_numpy: list[Any] = []  # the index for NumPy, if all is known and within bounds
        self.known = True
        self._parse(self._expand(index))
        self.window = tuple(
            [
                (b - a + s - 1) // s if s > 1 else b - a
                for a, b, s in zip(self.start, self.limit, self.step, strict=True)
            ]
        )
        shapes = [a.shape for a in self.arrays.values()] + self.extra
        try:
            self.batch: tuple[Any, ...] = o.broadcast_shapes(*shapes) if shapes else ()
        except ValueError:
            spelled = ", ".join(str(list(s)) for s in shapes)
            raise IndexError(f"index arrays of shapes {spelled} do not broadcast; at {user_line()}") from None

    @property
    def is_static(self) -> bool:
        """Whether the index selects a window of the array, with no arrays of positions."""
        return not self.arrays and not self.extra

    # Taking the index apart

    def _expand(self, index: Any) -> list[Any]:
        """The items with masks and lists made arrays, and with an Ellipsis for the axes that are not
        mentioned."""
        if isinstance(index, list):
            raise TypeError(
                f"a list is not an index; at {user_line()}: use a tuple for several axes, or array(...)"
            )
        items = [_item(item) for item in (index if isinstance(index, tuple) else (index,))]
        used = sum(_axes_used(item) for item in items)
        if used > self.x.ndim:
            described = dtypes.describe(self.x.dtype, self.x.shape)
            raise IndexError(f"{used} axes are indexed, but {described} has {self.x.ndim}; at {user_line()}")
        dots = [i for i, item in enumerate(items) if item is Ellipsis]
        if len(dots) > 1:
            raise IndexError(f"an index can have only one Ellipsis ('...'); at {user_line()}")
        return items if dots else [*items, Ellipsis]

    def _parse(self, items: list[Any]) -> None:
        axis, ndim = 0, self.x.ndim
        first: int | None = None  # where in the layout the first integer or array stood
        last = -1
        split = False
        for number, item in enumerate(items):
            if item is None:
                self.layout.append(None)
                self.as_numpy.append(None)
            elif item is Ellipsis:
                count = ndim - sum(_axes_used(other) for other in items)
                self.layout.extend(range(axis, axis + count))
                self.as_numpy.append(Ellipsis)
                axis += count
            elif isinstance(item, slice):
                self._slice(axis, item)
                self.layout.append(axis)
                self.as_numpy.append(item)
                axis += 1
            else:
                if first is None:
                    first = len(self.layout)
                elif last != number - 1:
                    split = True
                last = number
                axis += self._advanced(axis, item)
        # NumPy's rule: the axes of index arrays take their place, or go first if something stands between the
        # arrays.
        self.position = 0 if split or first is None else first

    def _slice(self, axis: int, item: slice) -> None:
        n = self.x.shape[axis]
        if is_symbolic(n):
            if item != slice(None):
                raise TypeError(f"can't slice axis {axis}, whose size {n} is symbolic; at {user_line()}")
            return
        start, stop, step = item.indices(n)
        count = len(range(start, stop, step))
        if count == 0:
            start = stop = 0
            step = 1
        elif step < 0:
            start, stop, step = start + (count - 1) * step, start + 1, -step
            self.flips.append(axis)
        else:
            stop = start + (count - 1) * step + 1
        self.start[axis], self.limit[axis], self.step[axis] = start, stop, step

    def _advanced(self, axis: int, item: Any) -> int:
        """Take in an integer, an array of positions or a mask, and return how many axes it uses."""
        n = self.x.shape[axis] if axis < self.x.ndim else 1
        if isinstance(item, int):
            if is_symbolic(n) or -n <= item < n:
                self.start[axis] = item + n if item < 0 else item
                self.limit[axis] = self.start[axis] + 1
                self.as_numpy.append(item)
                return 1
            if self.strict:
                self._out_of_bounds(axis, n, item)
            item = np.asarray(item)
        if item.dtype == np.bool_:
            mask = np.asarray(item)
            self.as_numpy.append(mask)
            if mask.ndim == 0:
                self.extra.append((int(mask),))
                return 0
            for i, positions in enumerate(np.nonzero(mask)):
                # As in NumPy, an axis of a mask without elements fits any: nothing is taken.
                if mask.shape[i] not in (self.x.shape[axis + i], 0):
                    raise IndexError(
                        f"a mask of shape {list(mask.shape)} does not fit axis {axis + i} of "
                        f"{dtypes.describe(self.x.dtype, self.x.shape)}; at {user_line()}"
                    )
                self.arrays[axis + i] = positions
            return mask.ndim
        if isinstance(item, Array) and not self.eager:
            self.arrays[axis] = item
            self.known = False
            return 1
        positions = item.value if isinstance(item, Array) else item
        if positions.size and 0 <= positions.min() and positions.max() < n:
            # All within, none from the end: two passes instead of six.
            self.arrays[axis] = within = positions.astype(np.int64)
            self.as_numpy.append(within)
            return 1
        wrapped = np.minimum(positions, n) if positions.dtype == np.uint64 else positions
        wrapped = wrapped.astype(np.int64)
        wrapped = np.where(wrapped < 0, wrapped + n, wrapped)
        outside = (wrapped < 0) | (wrapped >= n)
        if outside.any():
            if self.strict and not isinstance(item, Array):
                self._out_of_bounds(axis, n, positions[outside][0])
            self.known = False
            # One place before or after the end is as much out of bounds as any other, and fits any integer
            # type.
            wrapped = np.clip(wrapped, -1, n)
        self.arrays[axis] = wrapped
        self.as_numpy.append(wrapped)
        return 1

    def _out_of_bounds(self, axis: int, n: int, index: Any) -> None:
        described = dtypes.describe(self.x.dtype, self.x.shape)
        raise IndexError(
            f"index {index} is out of bounds for axis {axis} of {described}, whose size is {n}; "
            f"at {user_line()}: use one that is within, or x.at[index] with mode='clip', 'fill' or 'drop'"
        )

    # Reading

    def read_window(self) -> Array:
        """The window, with all axes of the array."""
        x = self.x
        if self.window != x.shape or any(s > 1 for s in self.step):
            x = bind(
                prims.slice_,
                (x,),
                {"start": tuple(self.start), "limit": tuple(self.limit), "step": tuple(self.step)},
            )
        return bind(prims.flip, (x,), {"axes": tuple(self.flips)}) if self.flips else x

    def positions(self) -> tuple[Array, np.ndarray]:
        """The index arrays as one of shape batch + (number of axes,), and the sizes of the axes."""
        sizes = np.array([self.x.shape[axis] for axis in self.arrays], np.int64)
        wide = any(n >= 2**31 for n in sizes.tolist())
        if all(isinstance(a, np.ndarray) for a in self.arrays.values()):
            stacked = [np.broadcast_to(a, self.batch) for a in self.arrays.values()]
            joined = np.stack(stacked, -1) if stacked else np.zeros((*self.batch, 0))
            return as_array(joined.astype(np.int64 if wide else np.int32)), sizes
        columns = [
            wrap_positions(a, n)
            if isinstance(a, Array)
            else as_array(a.astype(np.int32 if n < 2**31 else np.int64))
            for a, n in zip(self.arrays.values(), sizes.tolist(), strict=True)
        ]
        dtype = dtypes.int64 if any(c.dtype is dtypes.int64 for c in columns) else dtypes.int32
        columns = [
            reshape(o.broadcast_to(o.to_dtype(c, dtype), self.batch), (*self.batch, 1)) for c in columns
        ]
        return columns[0] if len(columns) == 1 else bind(
            prims.concatenate, tuple(columns), {"axis": len(self.batch)}
        ), sizes

    def windows(self) -> dict[str, Any]:
        """The parameters of the gather or scatter in the window."""
        sizes = tuple([1 if axis in self.arrays else n for axis, n in enumerate(self.window)])
        return {"axes": tuple(self.arrays), "sizes": sizes, "batch_dims": 0}

    def is_empty(self) -> bool:
        """Whether an axis of size 0 is indexed by an array, so that there is no element to read or write."""
        return any(isinstance(self.x.shape[axis], int) and self.x.shape[axis] == 0 for axis in self.arrays)

    # The result's axes

    def _order(self) -> tuple[tuple[Any, ...], tuple[int, ...], tuple[Any, ...]]:
        """Sizes of batch + kept axes, the permutation that puts the batch in its place, and the result's
        shape."""
        kept = [axis for axis in self.layout if axis is not None]
        before = len([axis for axis in self.layout[: self.position] if axis is not None])
        count = len(self.batch)
        permutation = (
            *range(count, count + before),
            *range(count),
            *range(count + before, count + len(kept)),
        )
        shape = [1 if axis is None else self.window[axis] for axis in self.layout]
        shape[self.position : self.position] = self.batch
        return (*self.batch, *[self.window[axis] for axis in kept]), permutation, tuple(shape)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The result's shape."""
        return self._order()[2]

    def arrange(self, y: Array) -> Array:
        """The result, from batch axes and the window's axes."""
        sizes, permutation, shape = self._order()
        if permutation != tuple(range(len(permutation))):
            y = bind(prims.transpose, (reshape(y, sizes),), {"permutation": permutation})
        return reshape(y, shape)

    def spread(self, value: Array) -> Array:
        """A value that broadcasts to the result, as batch axes and the window's axes: the inverse of
        `arrange`."""
        sizes, permutation, shape = self._order()
        extra = value.ndim - len(shape)
        if extra > 0 and all(n == 1 for n in value.shape[:extra]):  # NumPy drops these
            value = reshape(value, value.shape[extra:])
        fits = zip(value.shape, shape[len(shape) - value.ndim :], strict=False)
        if value.ndim > len(shape) or any(n is not m and n != m and n != 1 for n, m in fits):
            what = f"a value of shape {list(value.shape)} does not fit the indexed shape {list(shape)}"
            raise ValueError(f"{what}; at {user_line()}")
        value = o.broadcast_to(value, shape)
        if permutation != tuple(range(len(permutation))):
            value = reshape(value, tuple([sizes[axis] for axis in permutation]))
            inverse = tuple([permutation.index(axis) for axis in range(len(permutation))])
            value = bind(prims.transpose, (value,), {"permutation": inverse})
        return reshape(value, (*self.batch, *self.windows()["sizes"]))

    # Writing

    def write_window(self, new: Array) -> Array:
        """The array with its window replaced."""
        if self.flips:
            new = bind(prims.flip, (new,), {"axes": tuple(self.flips)})
        x = self.x
        if self.window == x.shape:
            return new
        if any(isinstance(n, int) and n == 0 for n in self.window):
            return x
        amounts = {
            "low": tuple(self.start),
            "high": tuple([n - b for n, b in zip(x.shape, self.limit, strict=True)]),
            "interior": tuple([s - 1 for s in self.step]),
        }
        padded = bind(prims.pad, (new, o.scalar(0, x.dtype)), amounts)
        inside = o.broadcast_to(o.scalar(True, dtypes.bool_), self.window)
        mask = bind(prims.pad, (inside, o.scalar(False, dtypes.bool_)), amounts)
        return bind(prims.where, (mask, padded, x), {})


def _item(item: Any) -> Any:
    """An item of an index as None, Ellipsis, a slice, a Python int, a NumPy array, or an Array of ours of
    integers."""
    kind = type(item)
    if item is None or item is Ellipsis or kind is slice or kind is int:
        return item
    if isinstance(item, Array):
        if item.dtype is dtypes.bool_:
            return _known_mask(item)
        if not dtypes.is_integer(item.dtype):
            raise IndexError(_no_index(item))
        return item
    if not isinstance(item, (bool, np.bool_, np.ndarray, list, tuple)):
        try:
            return operator.index(item)
        except TypeError:
            raise TypeError(
                f"{kind_of(item)} is not an index; at {user_line()}: use integers, slices or arrays"
            ) from None
    array = np.asarray(item)
    if array.size == 0 and isinstance(item, (list, tuple)):
        array = array.astype(np.int32)
    if array.dtype.kind not in "biu":
        raise IndexError(_no_index(array))
    return int(array) if array.ndim == 0 and array.dtype.kind != "b" else array


def _no_index(array: Any) -> str:
    cast = ": cast it with .astype('int32')" if dtypes.is_inexact(array.dtype) else ""
    found = dtypes.describe(array.dtype, array.shape)
    return f"an array of indices must be of integers or bools, not {found}; at {user_line()}{cast}"


def _known_mask(mask: Array) -> np.ndarray:
    try:
        return mask._concrete("use it as a boolean index", ConcretizationError)
    except ConcretizationError as error:
        raise NonConcreteBooleanIndexError(
            f"{str(error).partition('Instead: ')[0].rstrip()} The result's shape would depend on it.\nInstead: choose "
            "with tinyfn.numpy.where(mask, x, other), or take a fixed number: nonzero(mask, size=...)."
        ) from None


def _axes_used(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, np.ndarray) and item.dtype == np.bool_ else 1


def wrap_positions(index: Array, n: int) -> Array:
    """Traced positions along an axis of size n as int32 or int64, negative ones counted from the end."""
    dtype = index.dtype
    if dtypes.kind(dtype) == "unsigned":
        if dtype is dtypes.uint64:
            index = o.elementwise(prims.min, index, o.scalar(n, dtype))
        return o.to_dtype(index, dtypes.int64 if dtype.itemsize >= 4 else dtypes.int32)
    index = o.to_dtype(index, dtypes.int64 if dtype.itemsize == 8 or n >= 2**31 else dtypes.int32)
    return o.elementwise_where(o.less(index, 0), o.add(index, n), index)


def reshape(x: Array, shape: tuple[Any, ...]) -> Array:
    """x in another shape of the same size."""
    return x if x.shape == shape else bind(prims.reshape, (x,), {"shape": shape})
