"""gather and scatter with XLA's description of which axis is which.

Both are about windows of an operand, each of which begins at a position that is data. An array of positions has a last axis that
lists one index for each axis of the operand in a map of axes; its other axes enumerate windows. What is read, or
written, has these axes and those of the windows; the dimension numbers say at which places.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..trace import dtype as dtypes
from ..trace import operators, prims
from ..trace.array import Array
from ..trace.errors import user_line
from ..trace.index_modes import GatherScatterMode, Mode
from ..trace.indexing import fill_value_of
from ..transforms.vmap import vmap
from .arguments import ArrayLike, Sizes, applied, as_shape, described, distinct_axes, of_one_dtype
from .elementwise import neg, select
from .movement import full, reshape, transpose


class GatherDimensionNumbers(NamedTuple):
    """Which axes are which in `gather`.

    `offset_dims`: the axes of the result that are axes of the windows; the others enumerate windows.
    `collapsed_slice_dims`: the axes of the operand along which windows have the size 1, which the result lacks.
    `start_index_map`: the axes of the operand along which the indices are positions, in the order of the last axis.
    `operand_batching_dims`, `start_indices_batching_dims`: pairs of axes of both along which they go together.

    >>> x = tnp.arange(6).reshape(2, 3)
    >>> rows = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> lax.gather(x, tnp.array([[1], [1]]), rows, slice_sizes=(1, 3))
    Array([[3, 4, 5],
           [3, 4, 5]], dtype=int32)
    >>> points = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0, 1), start_index_map=(0, 1))
    >>> lax.gather(x, tnp.array([[0, 2], [1, 0]]), points, slice_sizes=(1, 1))
    Array([2, 3], dtype=int32)
    >>> of_each_row = lax.GatherDimensionNumbers(
    ...     (), (1,), (1,), operand_batching_dims=(0,), start_indices_batching_dims=(0,)
    ... )
    >>> lax.gather(x, tnp.array([[2], [0]]), of_each_row, slice_sizes=(1, 1))
    Array([2, 3], dtype=int32)
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which axes are which in `scatter`.

    `update_window_dims`: the axes of the updates that are axes of the windows; the others enumerate windows.
    `inserted_window_dims`: the axes of the operand along which windows have the size 1, which the updates lack.
    `scatter_dims_to_operand_dims`: the axes of the operand along which the indices are positions, in the order of the last axis.
    `operand_batching_dims`, `scatter_indices_batching_dims`: pairs of axes of both along which they go together.

    >>> rows = lax.ScatterDimensionNumbers(
    ...     update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
    ... )
    >>> lax.scatter(tnp.zeros((3, 2)), tnp.array([[2], [0]]), tnp.array([[1.0, 2.0], [3.0, 4.0]]), rows)
    Array([[3., 4.],
           [0., 0.],
           [1., 2.]], dtype=float32)
    >>> points = lax.ScatterDimensionNumbers((), (0, 1), (0, 1))
    >>> lax.scatter_add(tnp.zeros((2, 2)), tnp.array([[0, 1], [0, 1]]), tnp.array([1.0, 2.0]), points)
    Array([[0., 3.],
           [0., 0.]], dtype=float32)
    """

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


class _Layout:
    """How the arrays of a gather or scatter are made those of the primitive, in which axes that go together come first."""

    def __init__(
        self,
        name: str,
        operand: Array,
        indices: Array,
        removed: Any,
        mapped: Any,
        together: Any,
        indices_together: Any,
    ):
        self.name, self.operand, self.indices = name, operand, indices
        if indices.ndim < 1 or not dtypes.is_integer(indices.dtype):
            raise TypeError(
                f"lax.{name} needs integers with a last axis of positions, not {described([indices])}; at {user_line()}"
            )
        self.removed, self.mapped, self.together = (
            distinct_axes(name, axes, operand.ndim) for axes in (removed, mapped, together)
        )
        self.indices_together = distinct_axes(name, indices_together, indices.ndim - 1)
        sizes = [
            [a.shape[i] for i in axes]
            for a, axes in ((operand, self.together), (indices, self.indices_together))
        ]
        clash = {*self.removed, *self.mapped} & {*self.together} or sizes[0] != sizes[1]
        if clash or indices.shape[-1] != len(self.mapped):
            raise ValueError(
                f"lax.{name} of {described([operand, indices])}: positions along axes {self.mapped} need a last axis of "
                f"the indices of that size, and axes {self.together} and {self.indices_together} must be others, and as "
                f"long; at {user_line()}"
            )
        self.others = [axis for axis in range(operand.ndim) if axis not in self.together]
        self.enumerating = [i for i in range(indices.ndim - 1) if i not in self.indices_together]
        self.kept = [axis for axis in self.others if axis not in self.removed]
        self.batch = len(self.together)

    def places(self, window: Any, ndim: int) -> list[int]:
        """Of an array with the axes of `window` for the windows and one for each axis of the indices but the last, in their
        orders, the axes in the primitive's order: those that go together, those that enumerate, those of the window."""
        window = distinct_axes(self.name, window, ndim)
        rest = [axis for axis in range(ndim) if axis not in window]
        if len(window) != len(self.kept) or len(rest) != self.indices.ndim - 1:
            raise ValueError(
                f"lax.{self.name} of {described([self.operand, self.indices])}: windows with {len(self.kept)} axes, "
                f"enumerated by {self.indices.ndim - 1}, do not have the axes {window} of {ndim}; at {user_line()}"
            )
        return [*[rest[i] for i in (*self.indices_together, *self.enumerating)], *window]

    def arguments(self) -> tuple[Array, Array]:
        """The operand and the indices for the primitive."""
        return (
            transpose(self.operand, (*self.together, *self.others)),
            transpose(self.indices, (*self.indices_together, *self.enumerating, self.indices.ndim - 1)),
        )

    def params(self, sizes: Sequence[Any], mode: GatherScatterMode) -> dict[str, Any]:
        """Its parameters, for windows of sizes along all axes of the operand."""
        return {
            "axes": tuple([self.batch + self.others.index(axis) for axis in self.mapped]),
            "sizes": tuple([sizes[axis] for axis in self.others]),
            "batch_dims": self.batch,
            "mode": "fill" if mode is GatherScatterMode.FILL_OR_DROP else "clip",
        }


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sizes,
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Mode = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The windows of the operand, of `slice_sizes` along each of its axes, that begin at the positions `start_indices`.

    A window that is not within the operand is moved within it; in the mode "fill" all of it is `fill_value` (NaN, the least
    signed or the greatest unsigned integer). What is promised of the indices changes nothing.

    >>> x, i = tnp.array([[1, 2], [3, 4], [5, 6]]), tnp.array([2, 0, 3])
    >>> rows = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> lax.gather(x, i[:, None], rows, slice_sizes=(1, 2))
    Array([[5, 6],
           [1, 2],
           [5, 6]], dtype=int32)
    >>> lax.gather(x, i[:, None], rows, (1, 2), mode="fill", fill_value=-1)
    Array([[ 5,  6],
           [ 1,  2],
           [-1, -1]], dtype=int32)
    >>> windows = lax.GatherDimensionNumbers((1, 2), (), (0,))
    >>> lax.gather(x, tnp.array([[0], [1]]), windows, slice_sizes=(2, 2)).shape
    (2, 2, 2)
    """
    x, at, numbers = operators.operand(operand), operators.operand(start_indices), dimension_numbers
    layout = _Layout(
        "gather", x, at, numbers.collapsed_slice_dims, numbers.start_index_map, numbers.operand_batching_dims,
        numbers.start_indices_batching_dims,
    )  # fmt: skip
    sizes = as_shape(slice_sizes)
    how = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    if len(sizes) != x.ndim or builtins.any(sizes[axis] != 1 for axis in (*layout.removed, *layout.together)):
        raise ValueError(
            f"lax.gather of {described([x])} in windows {sizes}: it needs a size for each axis, which is 1 along those "
            f"that are collapsed or go together; at {user_line()}"
        )
    params = layout.params(sizes, how)
    windows = applied(prims.gather, *layout.arguments(), **params)
    if how is GatherScatterMode.FILL_OR_DROP:
        everywhere = full([x.shape[axis] for axis in (*layout.together, *layout.others)], True)
        inside = applied(prims.gather, everywhere, layout.arguments()[1], **params)
        windows = select(inside, windows, operators.broadcast_to(fill_value_of(x, fill_value), windows.shape))
    count = at.ndim - 1
    windows = reshape(windows, (*windows.shape[:count], *[sizes[axis] for axis in layout.kept]))
    places = layout.places(numbers.offset_dims, windows.ndim)
    return transpose(windows, [places.index(axis) for axis in range(windows.ndim)])


def _scattered(
    name: str,
    kind: str,
    operand: Any,
    indices: Any,
    updates: Any,
    numbers: ScatterDimensionNumbers,
    mode: Any,
) -> Array:
    x, values = of_one_dtype(name, operand, updates)
    if kind == "sub":
        kind, values = "add", neg(values)
    at = operators.operand(indices)
    layout = _Layout(
        name, x, at, numbers.inserted_window_dims, numbers.scatter_dims_to_operand_dims, numbers.operand_batching_dims,
        numbers.scatter_indices_batching_dims,
    )  # fmt: skip
    values = transpose(values, layout.places(numbers.update_window_dims, values.ndim))
    count = at.ndim - 1
    sizes = [1] * x.ndim
    for axis, n in zip(layout.kept, values.shape[count:], strict=True):
        sizes[axis] = n
    params = layout.params(sizes, GatherScatterMode.from_any(mode))
    moved, positions = layout.arguments()
    shape = (*positions.shape[:-1], *params["sizes"])
    if values.shape[:count] != positions.shape[:-1]:
        raise ValueError(
            f"lax.{name}: updates {described([updates])} have no axes for the windows at {described([at])}; at "
            f"{user_line()}"
        )
    result = applied(prims.scatter, moved, positions, reshape(values, shape), kind=kind, **params)
    order = (*layout.together, *layout.others)
    return transpose(result, [order.index(axis) for axis in range(x.ndim)])


def _scatter(name: str, kind: str, doc: str) -> Callable[..., Array]:
    def apply(
        operand: ArrayLike,
        scatter_indices: ArrayLike,
        updates: ArrayLike,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
    ) -> Array:
        return _scattered(name, kind, operand, scatter_indices, updates, dimension_numbers, mode)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = doc
    return apply


scatter = _scatter(
    "scatter",
    "set",
    """The operand with windows replaced by the updates, at positions that are data; of several at one place the last one wins.

    A window that is not within the operand is left out, unless the mode says otherwise. What is promised of the indices changes
    nothing. See `ScatterDimensionNumbers`.

    >>> points = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> x, at, updates = tnp.array([10, 20, 30]), tnp.array([[0], [0], [3]]), tnp.array([1, 2, 3])
    >>> lax.scatter(x, at, updates, points)
    Array([ 2, 20, 30], dtype=int32)
    >>> lax.scatter(x, at, updates, points, mode="clip")
    Array([ 2, 20,  3], dtype=int32)
    >>> windows = lax.ScatterDimensionNumbers((0,), (), (0,))
    >>> lax.scatter(x, tnp.array([1]), tnp.array([7, 8]), windows)
    Array([10,  7,  8], dtype=int32)
    """,
)
scatter_add = _scatter(
    "scatter_add",
    "add",
    """The operand with windows to which the updates are added, at positions that are data; see `scatter`.

    >>> points = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_add(tnp.array([10, 20, 30]), tnp.array([[0], [2], [0]]), tnp.array([1, 2, 3]), points)
    Array([14, 20, 32], dtype=int32)
    >>> rows = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    >>> lax.scatter_add(tnp.zeros((2, 2)), tnp.array([[1], [1]]), tnp.array([[1.0, 2.0], [3.0, 4.0]]), rows)
    Array([[0., 0.],
           [4., 6.]], dtype=float32)
    """,
)
scatter_mul = _scatter(
    "scatter_mul",
    "mul",
    """The operand with windows multiplied by the updates, at positions that are data; see `scatter`.

    >>> points = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_mul(tnp.array([10, 20, 30]), tnp.array([[0], [2], [0]]), tnp.array([2, 3, 4]), points)
    Array([80, 20, 90], dtype=int32)
    """,
)
scatter_min = _scatter(
    "scatter_min",
    "min",
    """The operand with windows replaced by the updates where these are less, at positions that are data; see `scatter`.

    >>> points = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_min(tnp.array([10, 20, 30]), tnp.array([[0], [2]]), tnp.array([5, 50]), points)
    Array([ 5, 20, 30], dtype=int32)
    """,
)
scatter_max = _scatter(
    "scatter_max",
    "max",
    """The operand with windows replaced by the updates where these are greater, at positions that are data; see `scatter`.

    >>> points = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_max(tnp.array([10, 20, 30]), tnp.array([[0], [2]]), tnp.array([5, 50]), points)
    Array([10, 20, 50], dtype=int32)
    """,
)


scatter_sub = _scatter(
    "scatter_sub",
    "sub",
    """The operand with windows from which the updates are subtracted, at positions that are data; see `scatter`.

    >>> points = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_sub(tnp.array([10, 20, 30]), tnp.array([[0], [2], [0]]), tnp.array([1, 2, 3]), points)
    Array([ 6, 20, 28], dtype=int32)
    """,
)


def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable[[Array], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sizes = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Mode = None,
) -> Array:
    """The operand with func(element) for the elements of windows at positions that are data, once also where windows overlap.

    `update_shape` is the shape that updates would have; see `scatter`.

    >>> points = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> at = tnp.array([[0], [2], [0]])
    >>> lax.scatter_apply(tnp.array([10, 20, 30]), at, lambda x: x + 1, points, update_shape=(3,))
    Array([11, 20, 31], dtype=int32)
    """
    x = operators.operand(operand)
    changed = vmap(func)(reshape(x, (x.size,)))
    if changed.dtype is not x.dtype or changed.shape != (x.size,):
        found = dtypes.describe(changed.dtype, changed.shape[1:])
        raise TypeError(
            f"lax.scatter_apply: the function must give a {x.dtype.name} scalar, not {found}; at {user_line()}"
        )
    chosen = _scattered(
        "scatter_apply", "set", full(x.shape, False), scatter_indices, full(as_shape(update_shape), True), dimension_numbers,
        mode,
    )  # fmt: skip
    return select(chosen, reshape(changed, x.shape), x)
