"""Reductions by a function of two elements: of whole axes, and of windows that move along axes."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators, prims, pytree
from ..trace.array import Array
from ..trace.dtype import DType
from ..trace.errors import entry_point, user_line
from ..trace.prim import Elementwise, Primitive
from ..trace.prims.sliding import places, window_max, window_min
from ..trace.tracing import Tracer, describe_function
from ..trace.uop import CONST
from ..transforms.inspection import ShapeDtypeStruct, make_graph
from ..transforms.vmap import vmap
from .arguments import ArrayLike, Sizes, applied, as_shape, described, distinct_axes, of_one_dtype
from .elementwise import bitwise_and, bitwise_or, bitwise_xor
from .movement import broadcast_in_dim, concatenate, pad, reshape, slice_in_dim, transpose
from .reductions import greatest_of, least_of
from .sliding import padtype_to_pads, windowed

Pair = tuple[int, int]


# What combines two elements, if it is one of these: the reductions of axes and of windows, and the neutral element.
_KNOWN: dict[Primitive, tuple[Primitive, Primitive, Callable[[DType], Any]]] = {
    prims.add: (prims.reduce_sum, prims.reduce_sum, lambda dtype: 0),
    prims.mul: (prims.reduce_prod, prims.reduce_prod, lambda dtype: 1),
    prims.max: (prims.reduce_max, window_max, least_of),
    prims.min: (prims.reduce_min, window_min, greatest_of),
    prims.bitwise_and: (prims.reduce_and, prims.reduce_and, lambda dtype: True),
    prims.bitwise_or: (prims.reduce_or, prims.reduce_or, lambda dtype: False),
}


class _Fold:
    """The operands, their initial values and the computation of `reduce` and `reduce_window`, checked."""

    def __init__(self, name: str, operands: Any, init_values: Any, computation: Callable[[Any, Any], Any]):
        leaves, self.tree = pytree.flatten(operands)
        inits, init_tree = pytree.flatten(init_values)
        if not leaves or init_tree != self.tree:
            raise TypeError(
                f"lax.{name}: the initial values {init_tree} must have the structure of the operands, {self.tree}; "
                f"at {user_line()}"
            )
        pairs = [of_one_dtype(name, x, init) for x, init in zip(leaves, inits, strict=True)]
        self.arrays, self.inits = [x for x, _ in pairs], [init for _, init in pairs]
        self.shape = self.arrays[0].shape
        self.name, self.computation = name, computation
        if builtins.any(init.shape for init in self.inits) or builtins.any(
            x.shape != self.shape for x in self.arrays
        ):
            raise TypeError(
                f"lax.{name} needs operands of one shape and scalars as initial values, not "
                f"{described(self.arrays)} and {described(self.inits)}; at {user_line()}"
            )
        self.single = self._single() if len(self.arrays) == 1 else None
        self.known = self.single if self._is_known(self.single) else None

    def _single(self) -> Primitive | None:
        """The elementwise primitive that the computation is, if it is one."""
        x = ShapeDtypeStruct((), self.arrays[0].dtype)
        graph = make_graph(self._called)(x, x)
        node = graph.outputs[0]
        swapped = node.op in _KNOWN and node.src == (graph.inputs[1], graph.inputs[0])
        if graph.captured or not (swapped or node.src == tuple(graph.inputs)):
            return None
        return node.op if isinstance(node.op, Elementwise) and not node.op.params else None

    def _is_known(self, op: Primitive | None) -> bool:
        if op not in _KNOWN:
            return False
        # `reduce_and` and `reduce_or` are of bools, as are no sums and products.
        is_bool = self.arrays[0].dtype is dtypes.bool_
        logical = op in (prims.bitwise_and, prims.bitwise_or)
        return is_bool if logical else not is_bool or op in (prims.max, prims.min)

    def _called(self, *leaves: Array) -> tuple[Array, ...]:
        """The computation on scalars, as many as there are operands of the first and then of the second argument."""
        count = len(self.arrays)
        left, right = (pytree.unflatten(self.tree, part) for part in (leaves[:count], leaves[count:]))
        result, tree = pytree.flatten(self.computation(left, right))
        arrays = [operators.operand(x) for x in result]
        arrays = [
            operators.to_dtype(a, x.dtype) if a.weak_type and not x.weak_type else a
            for a, x in zip(arrays, leaves, strict=False)
        ]
        wanted = [(x.dtype, ()) for x in leaves[:count]]
        if tree != self.tree or [(a.dtype, a.shape) for a in arrays] != wanted:
            raise TypeError(
                f"lax.{self.name}: {describe_function(self.computation)} must give scalars like those that it is "
                f"given, {', '.join(dtypes.describe(*w) for w in wanted)}, not {described(arrays)}; at {user_line()}"
            )
        return tuple(arrays)

    def combined(self, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        """The computation on arrays of one shape, element by element."""
        if self.single is not None:
            return [applied(self.single, left[0], right[0])]
        shape = left[0].shape
        flat = [reshape(x, (x.size,)) for x in (*left, *right)]
        if not isinstance(flat[0].size, int) or flat[0].size == 0:
            return list(left)
        return [reshape(x, shape) for x in vmap(self._called)(*flat)]

    def along_last(self, arrays: Sequence[Array]) -> list[Array]:
        """What the computation makes of the elements along the last axis: of neighbours, then of those, and so on."""
        parts, axis = list(arrays), arrays[0].ndim - 1
        shape, n = arrays[0].shape[:-1], arrays[0].shape[axis]
        initial = [broadcast_in_dim(init, shape, ()) for init in self.inits]
        if n == 0:
            return initial
        while n > 1:
            even = n - n % 2
            left, right = ([slice_in_dim(x, i, even, 2, axis) for x in parts] for i in (0, 1))
            halved = self.combined(left, right)
            if n % 2:
                last = [slice_in_dim(x, n - 1, n, 1, axis) for x in parts]
                halved = [concatenate(pair, axis) for pair in zip(halved, last, strict=True)]
            parts, n = halved, n // 2 + n % 2
        return self.combined(initial, [reshape(x, shape) for x in parts])

    def reduced(self, arrays: Sequence[Array], axes: tuple[int, ...], of_windows: bool = False) -> Any:
        """The arrays reduced over axes, as a tree like the operands."""
        x = arrays[0]
        if self.known is not None and builtins.all(x.shape[a] != 0 for a in axes):
            of_axes, of_window, neutral = _KNOWN[self.known]
            result, (init,) = applied(of_window if of_windows else of_axes, x, axes=axes), self.inits
            if not _is(init, neutral(x.dtype)):
                result = applied(self.known, broadcast_in_dim(init, result.shape, ()), result)
            return pytree.unflatten(self.tree, [result])
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        shape = [x.shape[axis] for axis in kept]
        count = np.prod([x.shape[axis] for axis in axes], dtype=int)
        rows = [reshape(transpose(a, (*kept, *axes)), (*shape, count)) for a in arrays]
        return pytree.unflatten(self.tree, self.along_last(rows))


def _is(x: Array, value: Any) -> bool:
    """Whether a scalar is known to be this number."""
    if isinstance(x, Tracer):
        return x.uop.op is CONST and bool(x.uop.value == value)
    return bool(x.value == value)


@entry_point
def reduce(
    operands: Any, init_values: Any, computation: Callable[[Any, Any], Any], dimensions: Sequence[int]
) -> Any:
    """The elements along the axes `dimensions` combined by a function of two scalars, beginning with the initial value.

    The function is associative; it gets and gives trees like `operands` (arrays of one shape) and `init_values`
    (scalars). Where it is one of lax.add, mul, max, min, and of bools bitwise_and and bitwise_or (in any way of writing
    it), this is `reduce_sum` and so on; any other function is applied to neighbours, then to these results, and so on:
    log2(n) times, to whole arrays.

    >>> x = tnp.array([[1, 2, 3], [4, 5, 6]])
    >>> lax.reduce(x, 0, lax.add, (1,))
    Array([ 6, 15], dtype=int32)

    Of pairs, the one with the greatest first element, or the first of several:

    >>> def greatest(a, b):
    ...     first = a[0] >= b[0]
    ...     return tnp.where(first, a[0], b[0]), tnp.where(first, a[1], b[1])
    >>> positions = lax.iota("int32", 4)
    >>> lax.reduce((tnp.array([1.0, 7.0, 3.0, 7.0]), positions), (-np.inf, -1), greatest, (0,))
    (Array(7., dtype=float32), Array(1, dtype=int32))
    """
    fold = _Fold("reduce", operands, init_values, computation)
    return fold.reduced(fold.arrays, distinct_axes("reduce", dimensions, len(fold.shape)))


def _reduced_bits(
    name: str, operand: ArrayLike, axes: Sequence[int] | int, combine: Callable[[Any, Any], Array], ones: bool
) -> Array:
    """A reduction of bools or of the bits of integers, of nothing to bits that are all set or none."""
    x = operators.operand(operand)
    if x.dtype is not dtypes.bool_ and not dtypes.is_integer(x.dtype):
        raise TypeError(f"lax.{name} works on bools and integers, not on {described([x])}; at {user_line()}")
    none_set: Any = False if x.dtype is dtypes.bool_ else 0
    all_set = -1 if dtypes.kind(x.dtype) == "signed" else greatest_of(x.dtype)
    start = operators.scalar(all_set if ones else none_set, x.dtype)
    result: Array = reduce(x, start, combine, distinct_axes(name, axes, x.ndim))
    return result


def reduce_and(operand: ArrayLike, axes: Sequence[int] | int) -> Array:
    """Whether all bools over axes hold, or the bits that all integers have; all of nothing hold.

    >>> lax.reduce_and(tnp.array([[True, True], [True, False]]), (1,)), lax.reduce_and(tnp.array([6, 3]), (0,))
    (Array([ True, False], dtype=bool), Array(2, dtype=int32))
    """
    x = operators.operand(operand)
    if x.dtype is dtypes.bool_:
        return applied(prims.reduce_and, x, axes=distinct_axes("reduce_and", axes, x.ndim))
    return _reduced_bits("reduce_and", x, axes, bitwise_and, True)


def reduce_or(operand: ArrayLike, axes: Sequence[int] | int) -> Array:
    """Whether any bool over axes holds, or the bits that any of the integers has; none of nothing holds.

    >>> lax.reduce_or(tnp.array([[False, False], [True, False]]), (1,)), lax.reduce_or(tnp.array([6, 3]), (0,))
    (Array([False,  True], dtype=bool), Array(7, dtype=int32))
    """
    x = operators.operand(operand)
    if x.dtype is dtypes.bool_:
        return applied(prims.reduce_or, x, axes=distinct_axes("reduce_or", axes, x.ndim))
    return _reduced_bits("reduce_or", x, axes, bitwise_or, False)


def reduce_xor(operand: ArrayLike, axes: Sequence[int] | int) -> Array:
    """The exclusive or over axes of bools or of the bits of integers.

    >>> lax.reduce_xor(tnp.array([[True, True], [True, False]]), (1,)), lax.reduce_xor(tnp.array([5, 3]), (0,))
    (Array([False,  True], dtype=bool), Array(6, dtype=int32))
    """
    return _reduced_bits("reduce_xor", operand, axes, bitwise_xor, False)


@entry_point
def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[Pair] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """The elements of each window combined by a function of two scalars, beginning with the initial value.

    Windows of `window_dimensions` (one number per axis, as for all that follow) begin every `window_strides` elements;
    their elements are `window_dilation` apart. The operand is first padded with the initial value: between its elements
    (`base_dilation - 1` times) and at its ends, by pairs (low, high), where negative numbers take elements away, or by
    name (see `padtype_to_pads`). The computation is as for `reduce`. Derivatives of a greatest or least element go to
    the first that is it.

    >>> x = tnp.array([1, 5, 2, 3, 4])
    >>> lax.reduce_window(x, 0, lax.add, (2,))
    Array([6, 7, 5, 7], dtype=int32)
    >>> lax.reduce_window(x, 0, lax.max, (2,), window_strides=(2,), padding="SAME")
    Array([5, 3, 4], dtype=int32)
    >>> lax.reduce_window(x, 0, lax.add, (2,), padding=[(1, 0)], window_dilation=(2,))
    Array([5, 3, 8, 6], dtype=int32)
    >>> images = tnp.ones((8, 28, 28, 3))
    >>> lax.reduce_window(images, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1)).shape
    (8, 14, 14, 3)
    """
    fold = _Fold("reduce_window", operand, init_value, computation)
    sizes = _per_axis("window_dimensions", window_dimensions, fold.shape)
    strides = _per_axis("window_strides", window_strides, fold.shape)
    spread = _per_axis("base_dilation", base_dilation, fold.shape)
    apart = _per_axis("window_dilation", window_dilation, fold.shape)
    if isinstance(padding, str):
        extents = [(k - 1) * d + 1 for k, d in zip(sizes, apart, strict=True)]
        padding = padtype_to_pads(fold.shape, extents, strides, padding)
    pairs = [tuple([operator.index(n) for n in pair]) for pair in padding]
    if len(pairs) != len(sizes) or builtins.any(len(pair) != 2 for pair in pairs):
        raise ValueError(
            f"lax.reduce_window of {described(fold.arrays)}: padding {padding} needs a pair (low, high) per axis; at "
            f"{user_line()}"
        )
    padded = [
        pad(x, init, [(low, high, n - 1) for (low, high), n in zip(pairs, spread, strict=True)])
        for x, init in zip(fold.arrays, fold.inits, strict=True)
    ]
    made = [windowed(x, sizes, strides, apart) for x in padded]
    return fold.reduced(made, tuple(range(len(sizes), made[0].ndim)), of_windows=True)


def _per_axis(name: str, numbers: Sequence[int] | None, shape: Sequence[Any]) -> tuple[int, ...]:
    values = (1,) * len(shape) if numbers is None else as_shape(numbers)
    if len(values) != len(shape) or builtins.any(n < 1 for n in values):
        raise ValueError(
            f"lax.reduce_window: {name} {values} needs a number of 1 or more for each axis of {tuple(shape)}; at "
            f"{user_line()}"
        )
    return values


def reduce_window_shape_tuple(
    operand_shape: Sizes,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[Pair],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[Any, ...]:
    """The shape of `reduce_window`'s result.

    >>> lax.reduce_window_shape_tuple((8, 28), (1, 3), (1, 2), [(0, 0), (1, 1)])
    (8, 14)
    """
    spread = base_dilation or (1,) * len(operand_shape)
    apart = window_dilation or (1,) * len(operand_shape)
    along = zip(operand_shape, window_dimensions, window_strides, padding, spread, apart, strict=True)
    return tuple(
        [
            places((0 if n == 0 else (n - 1) * wide + 1) + low + high, k, stride, dilation)
            for n, k, stride, (low, high), wide, dilation in along
        ]
    )
