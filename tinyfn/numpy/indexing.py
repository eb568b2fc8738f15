"""Elements read, written and chosen by position."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from ..trace.errors import ConcretizationError
from ..trace.index import reshape, wrap_positions
from ..trace.indexing import AtIndex, fill_value_of
from ..trace.prims.movement import move_axis
from .arithmetic import (
    maximum,
    subtract,
)
from .common import (
    ArrayLike,
    at_user,
    axis_of,
    bind,
    cast,
    check_not_in_place,
    converted,
    described,
    iota,
    no_out,
    operand,
    promoted,
    sequence,
)
from .cumulative import cumsum
from .logic import (
    bitwise_and,
    less,
    less_equal,
    where,
)
from .rearranging import resize


def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Array:
    """The elements at positions along an axis (of the raveled array, for None).

    Positions out of bounds that are data give `fill_value` (NaN, the least signed or greatest unsigned integer); modes "clip" and
    "wrap" move them. A position that is a Python or NumPy integer raises IndexError instead.

    >>> x = tnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> tnp.take(x, tnp.array([2, 0]), axis=1)
    Array([[3., 1.],
           [6., 4.]], dtype=float32)
    >>> tnp.take(x, tnp.array([0, 7]))
    Array([ 1., nan], dtype=float32)
    >>> tnp.take(x, tnp.array([0, 7]), mode="wrap")
    Array([1., 2.], dtype=float32)
    """
    no_out("take", out)
    x = operand(a, "take")
    if isinstance(indices, (list, tuple)):
        raise TypeError(
            f"take: indices must be an array or an integer, not a {type(indices).__name__}{at_user()}"
        )
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    place = axis_of(axis, x.ndim, "take")
    if getattr(indices, "dtype", type(indices)) in (bool, dtypes.bool_):
        indices = cast(indices, dtypes.int32)  # numbers here, and no mask
    if mode == "wrap":
        indices, mode = o.remainder(indices, x.shape[place]), "clip"
    elif mode == "clip":
        indices = _not_negative(indices)
    elif mode is None and isinstance(indices, Array):
        mode = "fill"
    index: Any = indices
    return AtIndex(x, (*[slice(None)] * place, index)).get(mode=mode, fill_value=fill_value)


def _not_negative(positions: Any) -> Any:
    """In mode "clip" negative positions are moved to the first, not counted from the end."""
    if isinstance(positions, Array):
        return positions if positions.dtype.kind == "u" else maximum(positions, 0)
    return np.maximum(positions, 0)


def take_along_axis(
    arr: ArrayLike, indices: ArrayLike, axis: int | None = -1, mode: str | None = None, fill_value: Any = None
) -> Array:
    """For each slice of `indices` along an axis the elements of that slice of `arr`; other axes broadcast.

    Positions out of bounds give `fill_value` (NaN, the least signed or greatest unsigned integer), or are moved within bounds in
    mode "clip".

    >>> x = tnp.array([[3, 1, 2], [4, 6, 5]])
    >>> tnp.take_along_axis(x, tnp.argsort(x, axis=1)[:, :2], axis=1)
    Array([[1, 2],
           [4, 5]], dtype=int32)
    >>> tnp.take_along_axis(x, tnp.argmax(x, axis=1, keepdims=True), axis=1)
    Array([[3],
           [6]], dtype=int32)
    """
    x, positions = operand(arr, "take_along_axis"), operand(indices, "take_along_axis")
    if not dtypes.is_integer(positions.dtype):
        raise TypeError(f"take_along_axis: indices must be integers, not {described(positions)}{at_user()}")
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    if x.ndim != positions.ndim:
        raise ValueError(
            f"take_along_axis: {described(x, positions)} must have one number of axes{at_user()}"
        )
    place = axis_of(axis, x.ndim, "take_along_axis")
    last = x.ndim - 1
    x, positions = move_axis(x, place, last), move_axis(positions, place, last)
    n, m = x.shape[-1], positions.shape[-1]
    batch = o.broadcast_shapes(x.shape[:-1], positions.shape[:-1])
    x, positions = o.broadcast_to(x, (*batch, n)), o.broadcast_to(positions, (*batch, m))
    fills = mode in (None, "fill", "drop")

    positions = wrap_positions(positions, n)
    if isinstance(n, int) and n == 0:
        return move_axis(o.broadcast_to(fill_value_of(x, fill_value), (*batch, m)), last, place)
    params = {"axes": (last,), "sizes": (1,), "batch_dims": last, "mode": "fill" if fills else "clip"}
    result = reshape(bind(prims.gather, (x, reshape(positions, (*batch, m, 1))), params), (*batch, m))
    if fills:
        inside = bitwise_and(o.greater_equal(positions, 0), less(positions, n))
        result = where(inside, result, fill_value_of(x, fill_value))
    return move_axis(result, last, place)


def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Array:
    """`arr` with the elements that `take_along_axis` reads replaced; it needs inplace=False, since arrays do not change.

    >>> x = tnp.array([[3, 1, 2], [4, 6, 5]])
    >>> tnp.put_along_axis(x, tnp.array([[0], [1]]), 9, axis=1, inplace=False)
    Array([[9, 1, 2],
           [4, 9, 5]], dtype=int32)
    """
    check_not_in_place(inplace, "put_along_axis")
    x, positions = operand(arr, "put_along_axis"), operand(indices, "put_along_axis")
    if axis is None:
        flat = put_along_axis(reshape(x, (x.size,)), positions, values, 0, False, mode=mode)
        return reshape(flat, x.shape)
    place = axis_of(axis, x.ndim, "put_along_axis")
    batch = o.broadcast_shapes(
        tuple([1 if i == place else n for i, n in enumerate(x.shape)]),
        tuple([1 if i == place else n for i, n in enumerate(positions.shape)]),
    )
    shape = tuple([positions.shape[place] if i == place else n for i, n in enumerate(batch)])
    positions = o.broadcast_to(positions, shape)
    index = tuple([positions if i == place else iota(dtypes.int32, shape, i) for i in range(x.ndim)])
    return AtIndex(x, index).set(values, mode=mode)


def put(
    a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True
) -> Array:
    """`a` with the elements at positions `ind` of its flat order replaced by the elements of v, which are repeated as needed.

    `mode` "clip" or "wrap" brings positions within bounds; else those out of bounds are an error where they are known, and
    left out where not. It needs inplace=False, since arrays do not change.

    >>> tnp.put(tnp.zeros((2, 3)), tnp.array([0, 4]), tnp.array([7.0, 8.0]), inplace=False)
    Array([[7., 0., 0.],
           [0., 8., 0.]], dtype=float32)
    """
    check_not_in_place(inplace, "put")
    if mode not in (None, "clip", "wrap"):
        raise ValueError(f"put: mode must be None, 'clip' or 'wrap', not {mode!r}{at_user()}")
    x, values = operand(a, "put"), converted(v)
    # Known positions stay with NumPy, so that one that is out of bounds is an error.
    positions: Any = ind if isinstance(ind, Array) else np.asarray(ind)
    positions = positions.reshape(positions.size)
    values = reshape(values, (values.size,))
    if not values.size and positions.size:
        raise ValueError(f"put: there are no values for {positions.size} positions{at_user()}")
    if mode == "wrap":
        positions, mode = positions % x.size, "clip"
    elif mode == "clip":
        positions = _not_negative(positions)
    chosen = resize(values, (positions.size,))
    return reshape(AtIndex(reshape(x, (x.size,)), positions).set(chosen, mode=mode), x.shape)


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """`arr` with the elements where the mask holds replaced by those of `vals` in turn, which are repeated as needed.

    It needs inplace=False, since arrays do not change.

    >>> x = tnp.arange(5)
    >>> tnp.place(x, x > 1, tnp.array([10, 20]), inplace=False)
    Array([ 0,  1, 10, 20, 10], dtype=int32)
    """
    check_not_in_place(inplace, "place")
    x, holds = operand(arr, "place"), cast(operand(mask, "place"), dtypes.bool_)
    values = converted(vals)
    if holds.size != x.size or not values.size:
        raise ValueError(
            f"place: {described(x, holds)} must be of one size, and there must be values{at_user()}"
        )
    number = subtract(cumsum(cast(reshape(holds, (x.size,)), dtypes.int32)), 1)
    turn = take(reshape(values, (values.size,)), o.remainder(number, values.size), mode="wrap")
    return where(reshape(holds, x.shape), cast(reshape(turn, x.shape), x.dtype), x)


def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """For each element of `a` the element there of that one of the choices, which broadcast.

    What is out of range raises ValueError in mode "raise", which must know its values; "clip" and "wrap" move it.

    >>> tnp.choose(tnp.array([0, 1, 0]), [tnp.array([1, 2, 3]), tnp.array([10, 20, 30])])
    Array([ 1, 20,  3], dtype=int32)
    >>> tnp.choose(tnp.array([-1, 5]), [tnp.array([1, 2]), tnp.array([10, 20])], mode="clip")
    Array([ 1, 20], dtype=int32)
    """
    no_out("choose", out)
    options = promoted(*sequence(choices, "choose"))
    chosen = operand(a, "choose")
    if chosen.dtype.kind not in "biu":
        raise TypeError(f"choose takes integers, not {described(chosen)}{at_user()}")
    chosen = cast(chosen, dtypes.int32) if chosen.dtype is dtypes.bool_ else chosen
    count = len(options)
    if mode not in ("raise", "clip", "wrap"):
        raise ValueError(f"choose: mode must be 'raise', 'clip' or 'wrap', not {mode!r}{at_user()}")
    if mode == "wrap":
        chosen = o.remainder(chosen, count)
    elif mode == "raise":
        known = chosen._concrete("check that choices exist (use mode='clip' or 'wrap')", ConcretizationError)
        if ((known < 0) | (known >= count)).any():
            raise ValueError(f"choose: there are {count} choices, and an element is out of range{at_user()}")
    result = options[-1]
    for i in range(count - 2, -1, -1):
        result = where(less_equal(chosen, i), options[i], result)
    return result


def select(condlist: Any, choicelist: Any, default: ArrayLike = 0) -> Array:
    """For each element that of the first choice whose condition holds there, or the default.

    >>> x = tnp.arange(5)
    >>> tnp.select([x < 1, x < 3], [x + 10, -x], default=7)
    Array([10, -1, -2,  7,  7], dtype=int32)
    """
    conditions, choices = list(condlist), list(choicelist)
    if len(conditions) != len(choices) or not conditions:
        raise ValueError(f"select: {len(conditions)} conditions for {len(choices)} choices{at_user()}")
    *options, result = promoted(*choices, default)
    for condition, option in zip(reversed(conditions), reversed(options), strict=True):
        result = where(condition, option, result)
    return result
