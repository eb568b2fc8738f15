"""Other shapes and other orders of axes for the same elements, and broadcasting."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ..trace import operators as o
from ..trace.array import Array
from ..trace.errors import summary
from ..trace.index import reshape as reshaped
from ..trace.prims.movement import move_axis
from ..trace.sint import is_symbolic
from .common import (
    ArrayLike,
    Axis,
    Shape,
    at_user,
    axes_of,
    axis_of,
    described,
    operand,
    permute,
    shape_of,
)


def reshape(a: ArrayLike, shape: Shape, order: str = "C", *, copy: bool | None = None) -> Array:
    """The elements in row-major order (column-major, with order "F") in another shape; one size may be -1.

    Raises ValueError where the shape has another number of elements.

    >>> tnp.reshape(tnp.arange(6), (2, -1))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    >>> tnp.reshape(tnp.arange(6), (2, 3), order="F")
    Array([[0, 2, 4],
           [1, 3, 5]], dtype=int32)
    """
    x = operand(a, "reshape")
    sizes: list[Any] = list(shape) if isinstance(shape, (tuple, list)) else [shape]
    if wrong := [n for n in sizes if not is_symbolic(n) and not hasattr(n, "__index__")]:
        raise TypeError(f"a shape is made of integers, not {summary(wrong[0])}")
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
    """The elements as a 1-d array, in row-major order (column-major, with order "F").

    >>> x = tnp.array([[1, 2], [3, 4]])
    >>> tnp.ravel(x), tnp.ravel(x, order="F")
    (Array([1, 2, 3, 4], dtype=int32), Array([1, 3, 2, 4], dtype=int32))
    """
    return reshape(a, (-1,), order) if operand(a, "ravel").size != 0 else reshape(a, (0,))


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """The axes in another order, or in reverse.

    >>> x = tnp.zeros((2, 3, 4))
    >>> tnp.transpose(x).shape, tnp.transpose(x, (0, 2, 1)).shape
    ((4, 3, 2), (2, 4, 3))
    """
    x = operand(a, "transpose")
    if axes is None:
        return permute(x, range(x.ndim - 1, -1, -1))
    order = axes_of(tuple(axes), x.ndim, "transpose")
    if len(order) != x.ndim:
        raise ValueError(f"transpose: {tuple(axes)} does not name each axis of {described(x)}{at_user()}")
    return permute(x, order)


permute_dims = transpose


def matrix_transpose(x: ArrayLike, /) -> Array:
    """The last two axes exchanged; raises ValueError if there are fewer.

    >>> tnp.matrix_transpose(tnp.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    array = operand(x, "matrix_transpose")
    if array.ndim < 2:
        raise ValueError(f"matrix_transpose needs 2 axes or more, not {described(array)}{at_user()}")
    return swapaxes(array, -1, -2)


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Two axes exchanged.

    >>> tnp.swapaxes(tnp.zeros((2, 3, 4)), 0, -1).shape
    (4, 3, 2)
    """
    x = operand(a, "swapaxes")
    i, j = axis_of(axis1, x.ndim, "swapaxes"), axis_of(axis2, x.ndim, "swapaxes")
    order = list(range(x.ndim))
    order[i], order[j] = j, i
    return permute(x, order)


def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Axes moved to other places, and the others in their order.

    >>> x = tnp.zeros((2, 3, 4))
    >>> tnp.moveaxis(x, 0, -1).shape, tnp.moveaxis(x, (0, 1), (2, 0)).shape
    ((3, 4, 2), (3, 4, 2))
    """
    x = operand(a, "moveaxis")
    sources, targets = axes_of(source, x.ndim, "moveaxis"), axes_of(destination, x.ndim, "moveaxis")
    if len(sources) != len(targets):
        raise ValueError(f"moveaxis: {source} and {destination} must name as many axes{at_user()}")
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return permute(x, order)


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """One axis moved back until it lies before position `start`.

    >>> x = tnp.zeros((2, 3, 4))
    >>> tnp.rollaxis(x, 2).shape, tnp.rollaxis(x, 2, 1).shape
    ((4, 2, 3), (2, 4, 3))
    """
    x = operand(a, "rollaxis")
    place = axis_of(axis, x.ndim, "rollaxis")
    if not -x.ndim <= start <= x.ndim:
        raise ValueError(f"rollaxis: start={start} is no position among {x.ndim} axes{at_user()}")
    target = start + x.ndim if start < 0 else start
    return move_axis(x, place, target - 1 if target > place else target)


def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """New axes of size 1 at these positions of the result.

    >>> tnp.expand_dims(tnp.zeros((2, 3)), (0, -1)).shape
    (1, 2, 3, 1)
    """
    x = operand(a, "expand_dims")
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    axes = axes_of(axis, x.ndim + count, "expand_dims")
    rest = iter(x.shape)
    return reshaped(x, tuple([1 if i in axes else next(rest) for i in range(x.ndim + count)]))


def squeeze(a: ArrayLike, axis: Axis = None) -> Array:
    """Axes of size 1 taken away: all, or those given; raises ValueError if one of these has another size.

    >>> x = tnp.zeros((1, 2, 1))
    >>> tnp.squeeze(x).shape, tnp.squeeze(x, 0).shape
    ((2,), (2, 1))
    """
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
    """Scalars as arrays with one axis; one array, or a list of as many as the arguments.

    >>> tnp.atleast_1d(5.0, tnp.zeros((2, 3)))
    [Array([5.], dtype=float32), Array([[0., 0., 0.],
           [0., 0., 0.]], dtype=float32)]
    """
    return _atleast(arys, "atleast_1d", lambda s: s or (1,))


def atleast_2d(*arys: ArrayLike) -> Any:
    """Arrays of fewer axes with new ones in front, until there are 2.

    >>> tnp.atleast_2d(tnp.array([1, 2]))
    Array([[1, 2]], dtype=int32)
    """
    return _atleast(arys, "atleast_2d", lambda s: (1,) * (2 - len(s)) + s)


def atleast_3d(*arys: ArrayLike) -> Any:
    """Arrays of fewer axes with new ones, until there are 3: [n] becomes [1,n,1], and [m,n] becomes [m,n,1].

    >>> tnp.atleast_3d(tnp.zeros(2)).shape, tnp.atleast_3d(tnp.zeros((2, 3))).shape
    ((1, 2, 1), (2, 3, 1))
    """
    return _atleast(
        arys,
        "atleast_3d",
        lambda s: (1, *s, 1) if len(s) == 1 else (1, 1, 1) if not s else (*s, 1) if len(s) == 2 else s,
    )


def _atleast(arys: Sequence[Any], what: str, shape: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Any:
    arrays = [reshaped(x, shape(x.shape)) for x in (operand(a, what) for a in arys)]
    return arrays[0] if len(arrays) == 1 else arrays


def broadcast_to(array: ArrayLike, shape: Shape, *, out_sharding: None = None) -> Array:
    """The array repeated to a shape; raises ValueError where it does not broadcast to that.

    >>> tnp.broadcast_to(tnp.array([1, 2]), (2, 2))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    x, target = operand(array, "broadcast_to"), shape_of(shape, "broadcast_to")
    if x.ndim > len(target) or any(
        not (n is m or n == m or (not is_symbolic(n) and n == 1))
        for n, m in zip(x.shape, target[len(target) - x.ndim :], strict=True)
    ):
        raise ValueError(f"broadcast_to: {described(x)} does not broadcast to {list(target)}{at_user()}")
    return o.broadcast_to(x, target)


def broadcast_shapes(*shapes: Shape) -> tuple[Any, ...]:
    """The shape that arrays of these shapes broadcast to; raises ValueError if there is none.

    >>> tnp.broadcast_shapes((2, 1), (3,), ())
    (2, 3)
    """
    return o.broadcast_shapes(*[shape_of(s, "broadcast_shapes") for s in shapes]) if shapes else ()


def broadcast_arrays(*args: ArrayLike) -> tuple[Array, ...]:
    """The arrays repeated to one shape; raises ValueError if there is none.

    >>> x, y = tnp.broadcast_arrays(tnp.zeros((2, 1)), tnp.ones(3))
    >>> x.shape, y.shape
    ((2, 3), (2, 3))
    """
    arrays = [operand(a, "broadcast_arrays") for a in args]
    shape = o.broadcast_shapes(*[a.shape for a in arrays]) if arrays else ()
    return tuple([o.broadcast_to(a, shape) for a in arrays])
