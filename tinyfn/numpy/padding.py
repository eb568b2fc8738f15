"""Arrays with elements added before and after them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from .arithmetic import add, multiply, negative
from .common import (
    ArrayLike,
    at_user,
    axis_of,
    bind,
    cast,
    concatenate_arrays,
    described,
    inexact,
    operand,
    slice_axis,
)
from .indexing import take
from .logic import where
from .quantiles import median
from .reductions import max as max_
from .reductions import min as min_
from .statistics import mean

# The modes, and what each takes.
_OPTIONS: dict[str, tuple[str, ...]] = {
    "constant": ("constant_values",),
    "empty": (),
    "edge": (),
    "linear_ramp": ("end_values",),
    "maximum": ("stat_length",),
    "mean": ("stat_length",),
    "median": ("stat_length",),
    "minimum": ("stat_length",),
    "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
    "wrap": (),
}
_STATISTICS: dict[str, Callable[..., Array]] = {
    "maximum": max_, "minimum": min_, "mean": mean, "median": median,
}  # fmt: skip


def pad(array: ArrayLike, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    """The array with elements before and after it: `pad_width` is n, (before, after), or one such pair for each axis.

    Modes: "constant" (with `constant_values`), "empty" (zeros), "edge", "wrap", "reflect" and "symmetric" (`reflect_type` "odd"
    takes what is reflected from twice the edge), "linear_ramp" (with `end_values`), and "maximum", "minimum", "mean" and
    "median" (of `stat_length` elements at that end). A function is called as mode(vector, (before, after), axis, kwargs) on
    vectors padded with zeros, and gives what is to take their place.

    >>> x = tnp.array([1, 2, 3])
    >>> tnp.pad(x, 2)
    Array([0, 0, 1, 2, 3, 0, 0], dtype=int32)
    >>> tnp.pad(x, (1, 2), constant_values=9)
    Array([9, 1, 2, 3, 9, 9], dtype=int32)
    >>> tnp.pad(x, 2, mode="reflect"), tnp.pad(x, 2, mode="symmetric")
    (Array([3, 2, 1, 2, 3, 2, 1], dtype=int32), Array([2, 1, 1, 2, 3, 3, 2], dtype=int32))
    >>> tnp.pad(tnp.zeros((2, 3)), ((0, 0), (1, 2))).shape
    (2, 6)
    """
    x = operand(array, "pad")
    pairs = _widths(pad_width, x)
    if callable(mode):
        from .functional import apply_along_axis

        x = _constant(x, pairs, 0)
        for axis, pair in enumerate(pairs):
            x = apply_along_axis(mode, axis, x, pair, axis, kwargs)
        return x
    if mode not in _OPTIONS:
        raise ValueError(f"pad: there is no mode {mode!r}; choose of {', '.join(_OPTIONS)}{at_user()}")
    unknown = sorted(set(kwargs).difference(_OPTIONS[mode]))
    if unknown:
        raise ValueError(f"pad: mode {mode!r} does not take {', '.join(unknown)}{at_user()}")
    if mode in ("constant", "empty"):
        return _constant(x, pairs, kwargs.get("constant_values", 0))
    if kwargs.get("reflect_type", "even") not in ("even", "odd"):
        raise ValueError(
            f"pad: reflect_type must be 'even' or 'odd', not {kwargs['reflect_type']!r}{at_user()}"
        )
    ends = _of_each_end(kwargs.get("end_values", 0), x.ndim)
    lengths = _of_each_end(kwargs.get("stat_length"), x.ndim)
    for axis, (before, after) in enumerate(pairs):
        if not before and not after:
            continue
        if x.shape[axis] == 0:
            raise ValueError(
                f"pad: axis {axis} of {described(x)} is empty: mode {mode!r} needs elements{at_user()}"
            )
        if mode in ("reflect", "symmetric", "wrap"):
            x = _repeated(x, axis, before, after, mode, kwargs.get("reflect_type") == "odd")
        elif mode == "linear_ramp":
            parts = _ramps(x, axis, (before, after), ends[axis])
            x = concatenate_arrays([parts[0], x, parts[1]], axis)
        else:
            found = _edges(x, axis) if mode == "edge" else _statistics(x, axis, mode, lengths[axis])
            first, last = (_spread(value, axis, n) for value, n in zip(found, (before, after), strict=True))
            x = concatenate_arrays([first, x, last], axis)
    return x


def _widths(pad_width: Any, x: Array) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        pairs = [(0, 0)] * x.ndim
        for axis, amount in pad_width.items():
            pairs[axis_of(axis, x.ndim, "pad")] = tuple(np.broadcast_to(np.asarray(amount), (2,)).tolist())
    else:
        try:
            pairs = [tuple(pair) for pair in np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()]
        except ValueError:
            raise ValueError(
                f"pad: {pad_width} is not n, (before, after), or such a pair for each axis of {described(x)}{at_user()}"
            ) from None
    if any(not isinstance(n, int) or n < 0 for pair in pairs for n in pair):
        raise ValueError(f"pad: widths must be integers that are 0 or more, not {pad_width}{at_user()}")
    return pairs


def _of_each_end(value: Any, ndim: int) -> list[tuple[Any, Any]]:
    """A value for both ends of all axes, or a pair, or a pair for each axis, as the latter."""
    return [tuple(pair) for pair in np.broadcast_to(np.asarray(value), (ndim, 2)).tolist()]


def _constant(x: Array, pairs: Sequence[tuple[int, int]], values: Any) -> Array:
    if isinstance(values, (tuple, list, np.ndarray)):
        each = _of_each_end(values, x.ndim)
        if len({v for pair in each for v in pair}) > 1:
            for axis, (pair, (first, last)) in enumerate(zip(pairs, each, strict=True)):
                for one, value in (((pair[0], 0), first), ((0, pair[1]), last)):
                    x = _constant(x, [one if i == axis else (0, 0) for i in range(x.ndim)], value)
            return x
        values = each[0][0] if each else 0
    amounts = {
        "low": tuple([p[0] for p in pairs]),
        "high": tuple([p[1] for p in pairs]),
        "interior": (0,) * x.ndim,
    }
    return bind(prims.pad, (x, cast(values, x.dtype)), amounts)


def _spread(value: Array, axis: int, n: int) -> Array:
    """What has size 1 along an axis repeated along it."""
    return o.broadcast_to(value, (*value.shape[:axis], n, *value.shape[axis + 1 :]))


def _edges(x: Array, axis: int) -> tuple[Array, Array]:
    n = x.shape[axis]
    return slice_axis(x, axis, 0, 1), slice_axis(x, axis, n - 1, n)


def _statistics(x: Array, axis: int, mode: str, lengths: tuple[Any, Any]) -> tuple[Array, Array]:
    """A statistic of the first and of the last elements along an axis, in x's dtype."""
    n = x.shape[axis]

    def of(part: Array) -> Array:
        value = _STATISTICS[mode](part, axis, keepdims=True)
        if dtypes.is_integer(x.dtype) and dtypes.is_inexact(value.dtype):
            value = bind(prims.round, (value,), {})
        return cast(value, x.dtype)

    if all(length is None or length >= n for length in lengths):
        return (of(x),) * 2
    if any(length is not None and length < 1 for length in lengths):
        raise ValueError(f"pad: stat_length must be 1 or more, not {lengths}{at_user()}")
    first, last = (n if length is None else min(length, n) for length in lengths)
    return of(slice_axis(x, axis, 0, first)), of(slice_axis(x, axis, n - last, n))


def _ramps(x: Array, axis: int, amounts: tuple[int, int], targets: tuple[Any, Any]) -> list[Array]:
    """For both ends, numbers at equal distances from a target to the element at that end."""
    parts = []
    for side, (amount, end) in enumerate(zip(amounts, _edges(x, axis), strict=True)):
        spread = _spread(end, axis, amount)
        if amount:
            numbers = np.arange(amount) if side == 0 else np.arange(amount - 1, -1, -1)
            share = (numbers / amount).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
            wide = inexact(spread, "pad")
            ramp = add(
                multiply(wide, o.operand(share.astype(wide.dtype))),
                o.operand(((1 - share) * targets[side]).astype(wide.dtype)),
            )
            spread = cast(bind(prims.floor, (ramp,), {}) if dtypes.is_integer(x.dtype) else ramp, x.dtype)
        parts.append(spread)
    return parts


def _repeated(x: Array, axis: int, before: int, after: int, mode: str, odd: bool) -> Array:
    """The elements over and over, forwards ("wrap") or forwards and backwards, the edges once ("reflect") or twice."""
    n = x.shape[axis]
    places = np.arange(-before, n + after)
    period = {"wrap": n, "symmetric": 2 * n, "reflect": max(2 * n - 2, 1)}[mode]
    turns, positions = np.divmod(places, period)
    backwards = positions >= n
    positions = np.where(backwards, period - (mode == "symmetric") - positions, positions)
    if before <= n - 1 and after <= n - 1:
        # Whole runs of neighbours, forwards or backwards: slices rather than a gather.
        parts = [_run(x, axis, positions[:before]), x, _run(x, axis, positions[before + n :])]
        result = concatenate_arrays(parts, axis)
    else:
        result = take(x, positions, axis)
    if not odd:
        return result
    # What is reflected at the end is twice the last element less that; a whole turn adds twice what last and first differ by.
    first, last = _edges(x, axis)
    result = where(_along(backwards, axis, x.ndim), negative(result), result)
    for edge, factors in ((first, -2 * turns), (last, 2 * turns + 2 * backwards)):
        used = _along(factors != 0, axis, x.ndim)
        factor = _along(factors.astype(x.dtype), axis, x.ndim)
        result = add(result, where(used, multiply(edge, factor), cast(0, x.dtype)))
    return result


def _along(values: np.ndarray[Any, Any], axis: int, ndim: int) -> Array:
    return o.operand(values.reshape([-1 if i == axis else 1 for i in range(ndim)]))


def _run(x: Array, axis: int, positions: np.ndarray[Any, Any]) -> Array:
    """The elements at neighbouring positions, in rising or falling order."""
    if positions.size == 0:
        return slice_axis(x, axis, 0, 0)
    low, high = int(positions.min()), int(positions.max()) + 1
    part = slice_axis(x, axis, low, high)
    return part if positions[0] <= positions[-1] else bind(prims.flip, (part,), {"axes": (axis,)})
