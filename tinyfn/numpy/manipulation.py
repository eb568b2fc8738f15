"""Functions that move elements: reshaping, joining, splitting, repeating, padding, triangles and
diagonals."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from ..trace.index import reshape as reshaped
from ..trace.indexing import AtIndex
from ..trace.prims.movement import move_axis
from ..trace.sint import is_symbolic
from .common import (
    ArrayLike,
    Axis,
    Shape,
    at_user,
    axes_of,
    axis_of,
    bind,
    cast,
    concatenate_arrays,
    described,
    diagonal_number,
    iota,
    operand,
    permute,
    promoted,
    sequence,
    shape_of,
    slice_axis,
)
from .elementwise import add, greater_equal, multiply, where

# Shape


def reshape(a: ArrayLike, shape: Shape, order: str = "C", *, copy: bool | None = None) -> Array:
    """The elements in row-major order (column-major, with order "F") in another shape; one size may be -1."""
    x = operand(a, "reshape")
    sizes: list[Any] = list(shape) if isinstance(shape, (tuple, list)) else [shape]
    sizes = [n if is_symbolic(n) else operator.index(n) for n in sizes]
    unknown = [i for i, n in enumerate(sizes) if not is_symbolic(n) and n == -1]
    if len(unknown) > 1 or any(not is_symbolic(n) and n < -1 for n in sizes):
        raise ValueError(f"reshape: {tuple(sizes)} is not a shape; at most one size can be -1{at_user()}")
    if unknown:
        known = 1
        for n in sizes:
            known = known if not is_symbolic(n) and n == -1 else known * n
        total = x.size
        if not is_symbolic(known) and (known == 0 or (not is_symbolic(total) and total % known)):
            raise ValueError(
                f"can't reshape {described(x)} into {tuple(sizes)}: {total} % {known} is not 0{at_user()}"
            )
        sizes[unknown[0]] = total // known
    if order == "F":
        return transpose(reshaped(transpose(x), tuple(sizes[::-1])))
    if order not in ("C", "A", "K"):
        raise ValueError(f"reshape: order must be 'C' or 'F', not {order!r}{at_user()}")
    target = tuple(sizes)
    if not any(is_symbolic(n) for n in (*target, *x.shape)) and prod(target) != prod(x.shape):
        raise ValueError(
            f"can't reshape {described(x)} into {target}: {x.size} elements are not {prod(target)}{at_user()}"
        )
    return reshaped(x, target)


def ravel(a: ArrayLike, order: str = "C") -> Array:
    """The elements as a 1-d array."""
    return reshape(a, (-1,), order) if operand(a, "ravel").size != 0 else reshape(a, (0,))


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """The axes in another order, or in reverse."""
    x = operand(a, "transpose")
    if axes is None:
        return permute(x, range(x.ndim - 1, -1, -1))
    order = axes_of(tuple(axes), x.ndim, "transpose")
    if len(order) != x.ndim:
        raise ValueError(f"transpose: {tuple(axes)} does not name each axis of {described(x)}{at_user()}")
    return permute(x, order)


permute_dims = transpose


def matrix_transpose(x: ArrayLike, /) -> Array:
    """The last two axes exchanged."""
    array = operand(x, "matrix_transpose")
    if array.ndim < 2:
        raise ValueError(f"matrix_transpose needs 2 axes or more, not {described(array)}{at_user()}")
    return swapaxes(array, -1, -2)


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Two axes exchanged."""
    x = operand(a, "swapaxes")
    i, j = axis_of(axis1, x.ndim, "swapaxes"), axis_of(axis2, x.ndim, "swapaxes")
    order = list(range(x.ndim))
    order[i], order[j] = j, i
    return permute(x, order)


def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Axes moved to other places, and the others in their order."""
    x = operand(a, "moveaxis")
    sources, targets = axes_of(source, x.ndim, "moveaxis"), axes_of(destination, x.ndim, "moveaxis")
    if len(sources) != len(targets):
        raise ValueError(f"moveaxis: {source} and {destination} must name as many axes{at_user()}")
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return permute(x, order)


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """One axis moved back until it lies before position `start`."""
    x = operand(a, "rollaxis")
    place = axis_of(axis, x.ndim, "rollaxis")
    target = start + x.ndim if start < 0 else start
    return move_axis(x, place, target - 1 if target > place else target)


def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """New axes of size 1 at these positions of the result."""
    x = operand(a, "expand_dims")
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    axes = axes_of(axis, x.ndim + count, "expand_dims")
    rest = iter(x.shape)
    return reshaped(x, tuple([1 if i in axes else next(rest) for i in range(x.ndim + count)]))


def squeeze(a: ArrayLike, axis: Axis = None) -> Array:
    """Axes of size 1 taken away: all, or those given."""
    x = operand(a, "squeeze")
    if axis is None:
        axes = tuple([i for i, n in enumerate(x.shape) if not is_symbolic(n) and n == 1])
    else:
        axes = axes_of(axis, x.ndim, "squeeze")
    for i in axes:
        if is_symbolic(x.shape[i]) or x.shape[i] != 1:
            raise ValueError(f"squeeze: axis {i} of {described(x)} does not have size 1{at_user()}")
    return reshaped(x, tuple([n for i, n in enumerate(x.shape) if i not in axes]))


def atleast_1d(*arys: ArrayLike) -> Any:
    """Scalars as arrays with one axis; one array, or a list of as many as the arguments."""
    return _atleast(arys, "atleast_1d", lambda s: s or (1,))


def atleast_2d(*arys: ArrayLike) -> Any:
    """Arrays of fewer axes with new ones in front, until there are 2."""
    return _atleast(arys, "atleast_2d", lambda s: (1,) * (2 - len(s)) + s)


def atleast_3d(*arys: ArrayLike) -> Any:
    """Arrays of fewer axes with new ones, until there are 3: [n] becomes [1,n,1], and [m,n] becomes
    [m,n,1]."""
    return _atleast(
        arys,
        "atleast_3d",
        lambda s: (1, *s, 1) if len(s) == 1 else (1, 1, 1) if not s else (*s, 1) if len(s) == 2 else s,
    )


def _atleast(arys: Sequence[Any], what: str, shape: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Any:
    arrays = [reshaped(x, shape(x.shape)) for x in (operand(a, what) for a in arys)]
    return arrays[0] if len(arrays) == 1 else arrays


def broadcast_to(array: ArrayLike, shape: Shape, *, out_sharding: None = None) -> Array:
    """The array repeated to a shape; raises ValueError where it does not broadcast to that."""
    x, target = operand(array, "broadcast_to"), shape_of(shape, "broadcast_to")
    if x.ndim > len(target) or any(
        not (n is m or n == m or (not is_symbolic(n) and n == 1))
        for n, m in zip(x.shape, target[len(target) - x.ndim :], strict=True)
    ):
        raise ValueError(f"broadcast_to: {described(x)} does not broadcast to {list(target)}{at_user()}")
    return o.broadcast_to(x, target)


def broadcast_shapes(*shapes: Shape) -> tuple[Any, ...]:
    """The shape that arrays of these shapes broadcast to; raises ValueError if there is none."""
    return o.broadcast_shapes(*[shape_of(s, "broadcast_shapes") for s in shapes]) if shapes else ()


def broadcast_arrays(*args: ArrayLike) -> tuple[Array, ...]:
    """The arrays repeated to one shape."""
    arrays = [operand(a, "broadcast_arrays") for a in args]
    shape = o.broadcast_shapes(*[a.shape for a in arrays]) if arrays else ()
    return tuple([o.broadcast_to(a, shape) for a in arrays])


# Joining and splitting


def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Array:
    """The arrays one after another along an axis that they have (all raveled, for None)."""
    xs = sequence(arrays, "concatenate")
    if not xs:
        raise ValueError(f"concatenate needs at least one array{at_user()}")
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    xs = [cast(x, dtype) for x in xs] if dtype is not None else promoted(*xs)
    if any(x.ndim != xs[0].ndim for x in xs) or xs[0].ndim == 0:
        raise ValueError(f"concatenate: {_listed(xs)} do not have one number of axes, above 0{at_user()}")
    place = axis_of(axis, xs[0].ndim, "concatenate")
    if any(
        x.shape[:place] + x.shape[place + 1 :] != xs[0].shape[:place] + xs[0].shape[place + 1 :] for x in xs
    ):
        raise ValueError(f"concatenate along axis {place}: the other axes of {_listed(xs)} differ{at_user()}")
    return concatenate_arrays(xs, place)


concat = concatenate


def _listed(xs: Sequence[Array]) -> str:
    return ", ".join(described(x) for x in xs)


def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Array:
    """Arrays of one shape one after another along a new axis."""
    xs = sequence(arrays, "stack")
    if not xs:
        raise ValueError(f"stack needs at least one array{at_user()}")
    if any(x.shape != xs[0].shape for x in xs):
        raise ValueError(f"stack: {_listed(xs)} have different shapes{at_user()}")
    return concatenate([expand_dims(x, axis_of(axis, x.ndim + 1, "stack")) for x in xs], axis, dtype)


def vstack(tup: Any, dtype: Any = None) -> Array:
    """Arrays one after another along the first axis; 1-d arrays are rows."""
    return concatenate([atleast_2d(x) for x in sequence(tup, "vstack")], 0, dtype)


def hstack(tup: Any, dtype: Any = None) -> Array:
    """Arrays one after another along the second axis; 1-d arrays along their only one."""
    xs = [atleast_1d(x) for x in sequence(tup, "hstack")]
    return concatenate(xs, 0 if xs and xs[0].ndim == 1 else 1, dtype)


def dstack(tup: Any, dtype: Any = None) -> Array:
    """Arrays one after another along the third axis."""
    return concatenate([atleast_3d(x) for x in sequence(tup, "dstack")], 2, dtype)


def column_stack(tup: Any) -> Array:
    """1-d arrays as the columns of a matrix, and matrices side by side."""
    columns = [reshaped(x, (x.size, 1)) if x.ndim < 2 else x for x in sequence(tup, "column_stack")]
    return concatenate(columns, 1)


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """`values` after `arr` along an axis, or both raveled."""
    return concatenate([operand(arr, "append"), operand(values, "append")], axis)


def _pieces(x: Array, indices_or_sections: Any, axis: int, what: str, even: bool) -> list[Array]:
    place = axis_of(axis, x.ndim, what)
    size = x.shape[place]
    if (
        isinstance(indices_or_sections, (list, tuple, np.ndarray))
        or getattr(indices_or_sections, "ndim", 0) != 0
    ):
        cuts = [slice(None, operator.index(i)).indices(size)[1] for i in indices_or_sections]
    else:
        count = operator.index(indices_or_sections)
        if count < 1 or (even and size % count):
            raise ValueError(
                f"{what}: {size} elements along axis {place} do not make {count} equal parts{at_user()}"
            )
        extra = size % count
        cuts = [i * (size // count) + builtins.min(i, extra) for i in range(1, count)]
    ends = [*cuts, size]
    return [
        slice_axis(x, place, begin, builtins.max(begin, end))
        for begin, end in zip([0, *cuts], ends, strict=True)
    ]


def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """The array cut along an axis into a number of equal parts, or before each of the positions given."""
    return _pieces(operand(ary, "split"), indices_or_sections, axis, "split", True)


def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Like `split`, but the first parts may be longer by one element than the others."""
    return _pieces(operand(ary, "array_split"), indices_or_sections, axis, "array_split", False)


def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the first axis."""
    return split(ary, indices_or_sections, 0)


def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the second axis, or the only one."""
    return split(ary, indices_or_sections, 0 if operand(ary, "hsplit").ndim == 1 else 1)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis, without it."""
    array = operand(x, "unstack")
    place = axis_of(axis, array.ndim, "unstack")
    return tuple([squeeze(slice_axis(array, place, i, i + 1), place) for i in range(array.shape[place])])


# Repeating and rearranging


def tile(A: ArrayLike, reps: Any) -> Array:
    """The whole array repeated along each axis."""
    x = operand(A, "tile")
    counts = shape_of(reps, "tile")
    counts = (1,) * (x.ndim - len(counts)) + counts
    shape = (1,) * (len(counts) - x.ndim) + x.shape
    pairs = tuple([n for pair in zip(counts, shape, strict=True) for n in pair])
    spread = bind(
        prims.broadcast, (reshaped(x, shape),), {"shape": pairs, "axes": tuple(range(1, len(pairs), 2))}
    )
    return reshaped(spread, tuple([c * n for c, n in zip(counts, shape, strict=True)]))


def repeat(
    a: ArrayLike, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None
) -> Array:
    """Each element repeated along an axis (of the raveled array, for None): as often as a number, or numbers,
    say.

    The numbers must be known, or `total_repeat_length` given, to which the result is cut or filled with the
    last element."""
    x = operand(a, "repeat")
    if axis is None:
        x, axis = ravel(x), 0
    place = axis_of(axis, x.ndim, "repeat")
    n = x.shape[place]
    if isinstance(repeats, (int, np.integer)) and total_repeat_length is None:
        count = int(repeats)
        shape = (*x.shape[: place + 1], count, *x.shape[place + 1 :])
        axes = tuple([i for i in range(len(shape)) if i != place + 1])
        spread = bind(prims.broadcast, (x,), {"shape": shape, "axes": axes})
        return reshaped(spread, (*x.shape[:place], n * count, *x.shape[place + 1 :]))
    from .indexing import searchsorted, take
    from .reductions import cumsum

    if total_repeat_length is not None:
        counts = o.broadcast_to(
            ravel(o.operand(np.asarray(repeats) if isinstance(repeats, (list, tuple)) else repeats)), (n,)
        )
        ends = cumsum(cast(counts, dtypes.int32))
        places = searchsorted(ends, iota(dtypes.int32, (total_repeat_length,), 0), side="right")
        return take(x, places, place, mode="clip")
    if isinstance(repeats, Array):
        from ..trace.errors import ConcretizationError

        repeats = repeats.concrete(
            "repeat elements by it (the result's size would depend on it: give `total_repeat_length`)",
            ConcretizationError,
        )
    known = np.broadcast_to(np.asarray(repeats).reshape(-1), (n,))
    return take(x, np.repeat(np.arange(n), known), place)


def flip(m: ArrayLike, axis: Axis = None) -> Array:
    """The elements in reverse order along axes, or along all."""
    x = operand(m, "flip")
    axes = axes_of(axis, x.ndim, "flip")
    return bind(prims.flip, (x,), {"axes": axes}) if axes else x


def flipud(m: ArrayLike) -> Array:
    """The elements in reverse order along the first axis."""
    return flip(m, 0)


def fliplr(m: ArrayLike) -> Array:
    """The elements in reverse order along the second axis."""
    return flip(m, 1)


def roll(a: ArrayLike, shift: Any, axis: Axis = None) -> Array:
    """The elements moved on by `shift` places along axes, those beyond the end coming in at the front."""
    x = operand(a, "roll")
    if axis is None:
        return reshaped(roll(ravel(x), shift, 0), x.shape)
    axes = (axis,) if not isinstance(axis, (tuple, list)) else tuple(axis)
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
        elif int(by) % n:
            cut = n - int(by) % n
            x = concatenate_arrays([slice_axis(x, place, cut, n), slice_axis(x, place, 0, cut)], place)
    return x


def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """The plane of two axes turned by k times 90 degrees, from the first axis towards the second."""
    x = operand(m, "rot90")
    first, second = axes_of(axes, x.ndim, "rot90")
    turns = k % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(x, (first, second))
    if turns == 1:
        return swapaxes(flip(x, second), first, second)
    return flip(swapaxes(x, first, second), second)


def pad(array: ArrayLike, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    """The array with elements before and after it: `pad_width` is n, (before, after), or one such pair for
    each axis.

    Modes: "constant" (with `constant_values`), "edge", "reflect" and "symmetric", "wrap", "empty" (zeros),
    "linear_ramp" (with `end_values`), "maximum", "minimum" and "mean"."""
    x = operand(array, "pad")
    if isinstance(pad_width, dict):
        pairs = [(0, 0)] * x.ndim
        for axis, amount in pad_width.items():
            pairs[axis_of(axis, x.ndim, "pad")] = tuple(np.broadcast_to(np.asarray(amount), (2,)).tolist())
    else:
        pairs = [tuple(pair) for pair in np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()]
    if any(not isinstance(n, int) or n < 0 for pair in pairs for n in pair):
        raise ValueError(f"pad: widths must be integers that are 0 or more, not {pad_width}{at_user()}")
    allowed = {"constant": {"constant_values"}, "linear_ramp": {"end_values"}}.get(mode, set())
    if set(kwargs) - allowed:
        raise ValueError(
            f"pad: mode {mode!r} does not take {', '.join(sorted(set(kwargs) - allowed))}{at_user()}"
        )
    if mode in ("constant", "empty"):
        return _pad_constant(x, pairs, kwargs.get("constant_values", 0))
    if mode not in ("edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum", "minimum", "mean"):
        raise ValueError(f"pad: there is no mode {mode!r}{at_user()}")
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            x = _pad_axis(x, axis, before, after, mode, kwargs.get("end_values", 0))
    return x


def _pad_constant(x: Array, pairs: Sequence[tuple[int, ...]], values: Any) -> Array:
    if isinstance(values, (tuple, list, np.ndarray)):
        per_axis: Any = np.broadcast_to(np.asarray(values), (x.ndim, 2))
        if len({v.item() for v in per_axis.reshape(-1)}) > 1:
            for axis, (before, after) in enumerate(pairs):
                for side, amount in ((0, before), (1, after)):
                    one = [(0, 0)] * x.ndim
                    one[axis] = (amount, 0) if side == 0 else (0, amount)
                    x = _pad_constant(x, one, per_axis[axis, side].item())
            return x
        values = per_axis.reshape(-1)[0].item() if per_axis.size else 0
    value = cast(values, x.dtype)
    amounts = {
        "low": tuple([p[0] for p in pairs]),
        "high": tuple([p[1] for p in pairs]),
        "interior": (0,) * x.ndim,
    }
    return bind(prims.pad, (x, value), amounts)


def _pad_axis(x: Array, axis: int, before: int, after: int, mode: str, end_values: Any) -> Array:
    n = x.shape[axis]
    if n == 0:
        raise ValueError(
            f"pad: axis {axis} of {described(x)} is empty: mode {mode!r} needs elements{at_user()}"
        )
    if mode in ("edge", "linear_ramp", "maximum", "minimum", "mean"):
        ends = [slice_axis(x, axis, 0, 1), slice_axis(x, axis, n - 1, n)]
        if mode in ("maximum", "minimum", "mean"):
            from . import reductions

            functions: dict[str, Any] = {
                "maximum": reductions.max,
                "minimum": reductions.min,
                "mean": reductions.mean,
            }
            value = functions[mode](x, axis, keepdims=True)
            if dtypes.is_integer(x.dtype):
                value = cast(bind(prims.round, (value,), {}) if mode == "mean" else value, x.dtype)
            ends = [value, value]
        parts = []
        for side, (amount, end) in enumerate(zip((before, after), ends, strict=True)):
            spread = o.broadcast_to(end, (*x.shape[:axis], amount, *x.shape[axis + 1 :]))
            if mode == "linear_ramp" and amount:
                target = np.broadcast_to(np.asarray(end_values), (x.ndim, 2))[axis, side].item()
                numbers = np.arange(amount) if side == 0 else np.arange(amount - 1, -1, -1)
                share = (numbers / amount).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
                wide = o.to_dtype(spread, dtypes.float32) if not dtypes.is_float(x.dtype) else spread
                ramp = add(
                    multiply(wide, o.operand(share.astype(wide.dtype))),
                    o.operand(((1 - share) * target).astype(wide.dtype)),
                )
                spread = cast(
                    bind(prims.floor, (ramp,), {}) if not dtypes.is_float(x.dtype) else ramp, x.dtype
                )
            parts.append(spread)
        return concatenate_arrays([parts[0], x, parts[1]], axis)
    positions = np.arange(-before, n + after)
    if mode == "wrap":
        positions = positions % n
    elif mode == "symmetric":
        positions = positions % (2 * n)
        positions = np.minimum(positions, 2 * n - 1 - positions)
    elif n == 1:
        positions = np.zeros_like(positions)
    else:
        positions = positions % (2 * n - 2)
        positions = np.minimum(positions, 2 * n - 2 - positions)
    from .indexing import take

    if before <= n - 1 and after <= n - 1:
        # Whole runs of neighbours, forwards or backwards: slices rather than a gather.
        parts = [_run(x, axis, positions[:before]), x, _run(x, axis, positions[before + n :])]
        return concatenate_arrays(parts, axis)
    return take(x, positions, axis)


def _run(x: Array, axis: int, positions: np.ndarray[Any, Any]) -> Array:
    """The elements at neighbouring positions, in rising or falling order."""
    if positions.size == 0:
        return slice_axis(x, axis, 0, 0)
    low, high = int(positions.min()), int(positions.max()) + 1
    part = slice_axis(x, axis, low, high)
    return part if positions[0] <= positions[-1] else bind(prims.flip, (part,), {"axes": (axis,)})


# Triangles and diagonals


def _below(shape: tuple[Any, ...], k: int) -> Array:
    return greater_equal(add(iota(dtypes.int32, shape, 0), diagonal_number(k)), iota(dtypes.int32, shape, 1))


def _triangle(m: Any, k: int, what: str) -> tuple[Array, Array]:
    x = operand(m, what)
    if x.ndim < 2:
        raise ValueError(f"{what} needs 2 axes or more, not {described(x)}{at_user()}")
    return x, o.broadcast_to(_below(x.shape[-2:], k), x.shape)


def tril(m: ArrayLike, k: int = 0) -> Array:
    """The matrices with zeros above the k-th diagonal."""
    x, below = _triangle(m, k, "tril")
    return where(below, x, o.scalar(0, x.dtype))


def triu(m: ArrayLike, k: int = 0) -> Array:
    """The matrices with zeros below the k-th diagonal."""
    x, below = _triangle(m, k - 1, "triu")
    return where(below, o.scalar(0, x.dtype), x)


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The elements whose position on axis2 is that on axis1 plus `offset`, as a new last axis."""
    x = operand(a, "diagonal")
    if x.ndim < 2:
        raise ValueError(f"diagonal needs 2 axes or more, not {described(x)}{at_user()}")
    first, second = axes_of((axis1, axis2), x.ndim, "diagonal")
    x = permute(x, [*[i for i in range(x.ndim) if i not in (first, second)], first, second])
    rows, columns = x.shape[-2:]
    count = builtins.max(
        builtins.min(rows, columns - offset) if offset >= 0 else builtins.min(rows + offset, columns), 0
    )
    if offset >= 0:
        block = slice_axis(
            slice_axis(x, x.ndim - 2, 0, count),
            x.ndim - 1,
            builtins.min(offset, columns),
            builtins.min(offset, columns) + count,
        )
    else:
        start = builtins.min(-offset, rows)
        block = slice_axis(slice_axis(x, x.ndim - 2, start, start + count), x.ndim - 1, 0, count)
    # The diagonal of a square, in row-major order, is every (count + 1)-th element.
    flat = reshaped(block, (*block.shape[:-2], count * count))
    return slice_axis(flat, flat.ndim - 1, 0, count * count, count + 1) if count else flat


def diag(v: ArrayLike, k: int = 0) -> Array:
    """The k-th diagonal of a matrix, or a matrix with a 1-d array there and zeros elsewhere."""
    x = operand(v, "diag")
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError(f"diag takes 1 or 2 axes, not {described(x)}{at_user()}")
    n, gap = x.shape[0], abs(k)
    # The reverse of `diagonal`: the elements lie n + 1 apart in a square, with zeros between them.
    zero = o.scalar(0, x.dtype)
    if n == 0:
        return o.broadcast_to(zero, (gap, gap))
    flat = bind(prims.pad, (x, zero), {"low": (0,), "high": (0,), "interior": (n,)})
    square = reshaped(flat, (n, n))
    below, above = builtins.max(-k, 0), builtins.max(k, 0)
    return bind(
        prims.pad, (square, zero), {"low": (below, above), "high": (above, below), "interior": (0, 0)}
    )


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """A matrix with the raveled elements on its k-th diagonal and zeros elsewhere."""
    return diag(ravel(v), k)


def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = False) -> Array:
    """The array with its main diagonal replaced; it needs inplace=False, since arrays do not change."""
    if inplace or wrap:
        raise NotImplementedError(f"fill_diagonal: only inplace=False and wrap=False{at_user()}")
    x = operand(a, "fill_diagonal")
    n = builtins.min(x.shape)
    positions = np.arange(n)
    return AtIndex(x, (positions,) * x.ndim).set(val)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Row and column positions of the elements on and below the k-th diagonal of an n x m matrix."""
    rows, columns = np.tril_indices(n, k, m)
    return o.operand(rows.astype(np.int32)), o.operand(columns.astype(np.int32))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Row and column positions of the elements on and above the k-th diagonal of an n x m matrix."""
    rows, columns = np.triu_indices(n, k, m)
    return o.operand(rows.astype(np.int32)), o.operand(columns.astype(np.int32))


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The positions of the main diagonal of an array with `ndim` axes of size n."""
    return (iota(dtypes.int32, (n,), 0),) * ndim


def trace(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Array:
    """The sum along a diagonal."""
    from .reductions import sum as sum_

    return sum_(diagonal(a, offset, axis1, axis2), -1, dtype)
