"""Elements repeated, reversed and rotated."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array, wrap
from ..trace.errors import ConcretizationError
from ..trace.index import reshape as reshaped
from .common import (
    ArrayLike,
    Axis,
    at_user,
    axes_of,
    axis_of,
    bind,
    cast,
    concatenate_arrays,
    converted,
    described,
    full_of,
    integer,
    iota,
    number,
    operand,
    sequence,
    shape_of,
    slice_axis,
)
from .shapes import ravel, swapaxes


def tile(A: ArrayLike, reps: Any) -> Array:
    """The whole array repeated along each axis.

    >>> tnp.tile(tnp.array([1, 2]), 3)
    Array([1, 2, 1, 2, 1, 2], dtype=int32)
    >>> tnp.tile(tnp.array([1, 2]), (2, 2))
    Array([[1, 2, 1, 2],
           [1, 2, 1, 2]], dtype=int32)
    """
    x = operand(A, "tile")
    counts = shape_of(reps, "tile")
    counts = (1,) * (x.ndim - len(counts)) + counts
    shape = (1,) * (len(counts) - x.ndim) + x.shape
    pairs = tuple([n for pair in zip(counts, shape, strict=True) for n in pair])
    spread = bind(
        prims.broadcast, (reshaped(x, shape),), {"shape": pairs, "axes": tuple(range(1, len(pairs), 2))}
    )
    return reshaped(spread, tuple([c * n for c, n in zip(counts, shape, strict=True)]))


def resize(a: ArrayLike, new_shape: Any) -> Array:
    """The elements in order, repeated as often as it takes to fill another shape; zeros if there are none.

    >>> tnp.resize(tnp.array([1, 2, 3]), (2, 4))
    Array([[1, 2, 3, 1],
           [2, 3, 1, 2]], dtype=int32)
    """
    x, shape = operand(a, "resize"), shape_of(new_shape, "resize")
    flat, size = ravel(x), prod(shape)
    if x.size == 0:
        return full_of(0, x.dtype, shape)
    if size > x.size:
        flat = tile(flat, -(-size // x.size))
    return reshaped(slice_axis(flat, 0, 0, size), shape)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Axis = None) -> Array:
    """The array without the zeros before (with "f" in `trim`) and after ("b") all others, along `axis` (None: all axes).

    Its values must be known, since the result's shape depends on them.

    >>> tnp.trim_zeros(tnp.array([0, 0, 1, 0, 2, 0]))
    Array([1, 0, 2], dtype=int32)
    >>> tnp.trim_zeros(tnp.array([0, 0, 1, 0, 2, 0]), "f")
    Array([1, 0, 2, 0], dtype=int32)
    """
    x = number(filt, "trim_zeros")
    if not trim or set(trim.lower()) - set("fb"):
        raise ValueError(f"trim_zeros: trim must be 'f', 'b' or 'fb', not {trim!r}{at_user()}")
    attempt = "trim its zeros (the result's shape would depend on its values)"
    places = np.argwhere(x._concrete(attempt, ConcretizationError))
    for i in axes_of(axis, x.ndim, "trim_zeros"):
        # Without any other element, all of them are before the first.
        first, last = (
            (places[:, i].min(), places[:, i].max() + 1) if len(places) else (x.shape[i], x.shape[i])
        )
        begin, end = (
            (int(first) if "f" in trim.lower() else 0),
            (int(last) if "b" in trim.lower() else x.shape[i]),
        )
        if not len(places):
            begin, end = 0, 0
        x = slice_axis(x, i, begin, end)
    return x


def repeat(
    a: ArrayLike, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None
) -> Array:
    """Each element repeated along an axis (of the raveled array, for None): as often as a number, or numbers, say.

    The numbers must be known, or `total_repeat_length` given, to which the result is cut or filled with the last element.

    >>> tnp.repeat(tnp.array([1, 2]), 3)
    Array([1, 1, 1, 2, 2, 2], dtype=int32)
    >>> tnp.repeat(tnp.array([[1, 2], [3, 4]]), tnp.array([2, 1]), axis=0)
    Array([[1, 2],
           [1, 2],
           [3, 4]], dtype=int32)
    >>> tinyfn.jit(lambda x, n: tnp.repeat(x, n, total_repeat_length=5))(tnp.array([7, 8]), tnp.array([1, 3]))
    Array([7, 8, 8, 8, 8], dtype=int32)
    """
    x = operand(a, "repeat")
    if axis is None:
        x, axis = ravel(x), 0
    place = axis_of(axis, x.ndim, "repeat")
    n = x.shape[place]
    if isinstance(repeats, (int, np.integer)) and repeats >= 0 and total_repeat_length is None:
        count = int(repeats)
        shape = (*x.shape[: place + 1], count, *x.shape[place + 1 :])
        axes = tuple([i for i in range(len(shape)) if i != place + 1])
        spread = bind(prims.broadcast, (x,), {"shape": shape, "axes": axes})
        return reshaped(spread, (*x.shape[:place], n * count, *x.shape[place + 1 :]))
    from .cumulative import cumsum
    from .indexing import take
    from .ordering import searchsorted

    if total_repeat_length is not None:
        counts = o.broadcast_to(ravel(converted(repeats)), (n,))
        ends = cumsum(cast(counts, dtypes.int32))
        places = searchsorted(ends, iota(dtypes.int32, (total_repeat_length,), 0), side="right")
        return take(x, places, place, mode="clip")
    if isinstance(repeats, Array):
        repeats = repeats._concrete(
            "repeat elements by it (the result's size would depend on it: give `total_repeat_length`)",
            ConcretizationError,
        )
    known = np.asarray(repeats).reshape(-1)
    if known.dtype.kind not in "biu" or known.size not in (1, n) or (known < 0).any():
        raise ValueError(
            f"repeat of {described(x)}: it takes one number, or one for each of {n} elements along axis {place}, of 0 or more, "
            f"and is given {described(wrap(known)) if known.size > 1 else known.tolist()}{at_user()}"
        )
    known = np.broadcast_to(known, (n,))
    return take(x, np.repeat(np.arange(n), known), place)


def flip(m: ArrayLike, axis: Axis = None) -> Array:
    """The elements in reverse order along axes, or along all.

    >>> tnp.flip(tnp.array([[1, 2], [3, 4]]))
    Array([[4, 3],
           [2, 1]], dtype=int32)
    >>> tnp.flip(tnp.array([[1, 2], [3, 4]]), axis=1)
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    x = operand(m, "flip")
    axes = axes_of(axis, x.ndim, "flip")
    return bind(prims.flip, (x,), {"axes": axes}) if axes else x


def flipud(m: ArrayLike) -> Array:
    """The elements in reverse order along the first axis.

    >>> tnp.flipud(tnp.array([[1, 2], [3, 4]]))
    Array([[3, 4],
           [1, 2]], dtype=int32)
    """
    return flip(m, 0)


def fliplr(m: ArrayLike) -> Array:
    """The elements in reverse order along the second axis.

    >>> tnp.fliplr(tnp.array([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    return flip(m, 1)


def roll(a: ArrayLike, shift: Any, axis: Axis = None) -> Array:
    """The elements moved on by `shift` places along axes, those beyond the end coming in at the front.

    >>> tnp.roll(tnp.arange(5), 2)
    Array([3, 4, 0, 1, 2], dtype=int32)
    >>> tnp.roll(tnp.array([[1, 2, 3], [4, 5, 6]]), (1, -1), axis=(0, 1))
    Array([[5, 6, 4],
           [2, 3, 1]], dtype=int32)
    """
    x = operand(a, "roll")
    if axis is None:
        return reshaped(roll(ravel(x), shift, 0), x.shape)
    axes = (axis,) if not isinstance(axis, (tuple, list)) else tuple(axis)
    if getattr(shift, "ndim", 0) == 1:
        shift = sequence(shift, "roll")
    shifts = list(shift) if isinstance(shift, (tuple, list)) else [shift] * len(axes)
    axes = axes * len(shifts) if len(axes) == 1 else axes
    if len(shifts) != len(axes):
        raise ValueError(f"roll: {shift} and {axis} must have one length{at_user()}")
    for by, name in zip(shifts, axes, strict=True):
        place = axis_of(name, x.ndim, "roll")
        n = x.shape[place]
        if n == 0:
            continue
        if isinstance(by, Array):
            from .indexing import take

            positions = o.remainder(o.subtract(iota(dtypes.int32, (n,), 0), o.remainder(by, n)), n)
            x = take(x, positions, place, mode="clip")
        elif places := integer(by, "roll", "a shift") % n:
            cut = n - places
            x = concatenate_arrays([slice_axis(x, place, cut, n), slice_axis(x, place, 0, cut)], place)
    return x


def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """The plane of two axes turned by k times 90 degrees, from the first axis towards the second.

    >>> tnp.rot90(tnp.array([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]], dtype=int32)
    """
    x = operand(m, "rot90")
    if len(axes) != 2:
        raise ValueError(f"rot90: axes={axes} are not two{at_user()}")
    first, second = axes_of(axes, x.ndim, "rot90")
    turns = integer(k, "rot90", "k") % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(x, (first, second))
    if turns == 1:
        return swapaxes(flip(x, second), first, second)
    return flip(swapaxes(x, first, second), second)
