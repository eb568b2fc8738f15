"""vmap: a function of one example becomes a function of a batch of them, by each op's own batching rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import finite, pytree, switches
from ..trace.array import Array, as_array
from ..trace.debug import stage
from ..trace.errors import entry_point_of, kind_of, user_line
from ..trace.graph import Graph
from ..trace.prim import Aval, Primitive, broadcast_to_batch
from ..trace.prims.movement import move_axis
from ..trace.tracing import apply, describe_function, trace_function
from ..trace.uop import OUTPUT, UOp, depends_on, input_node, rebuild, substitute, toposort
from .arguments import Arguments, check_function, positional_name
from .structured import BatchAxis, Structured, number_of_results


@stage("transform")
def batch(outputs: Sequence[UOp], batched: dict[UOp, UOp], axis: BatchAxis) -> list[tuple[UOp, bool]]:
    """The outputs, and whether each has a leading batch axis, where the nodes of `batched` are replaced by ones that have.

    Collectives over the axis' name become operations along it, also of values that all lanes share."""
    order = toposort(outputs)
    size, name = axis
    collective = {node for node in order if _is_about(node, name)} if name is not None else set()
    dependent = depends_on(order, [*batched, *collective])
    new: dict[Any, UOp] = {}
    has_axis: dict[Any, bool] = {}
    for node in order:
        src, op = node.src, node.op
        if node in batched:
            new[node], has_axis[node] = batched[node], True
        elif node not in dependent:
            new[node], has_axis[node] = node, False
        elif op is OUTPUT:
            new[node], has_axis[node] = new[src[0], node.arg], has_axis[src[0], node.arg]
        else:
            args, flags = tuple([new[s] for s in src]), [has_axis[s] for s in src]
            if isinstance(op, Structured):
                if any(flags) or node in collective:
                    results, out_flags = op.batch_results(axis, args, flags, **node.params)
                else:
                    results, out_flags = op.results(rebuild(node, args)), [False] * number_of_results(node)
                for i, (result, flag) in enumerate(zip(results, out_flags, strict=True)):
                    new[node, i], has_axis[node, i] = result, flag
                new[node], has_axis[node] = node, False
            elif any(flags) or node in collective:
                new[node], has_axis[node] = (
                    op.resolve(size, name, args, flags, **node.params)
                    if node in collective
                    else (op.batch(size, args, flags, **node.params), True)
                )
                if switches.general_path:
                    finite.inherit_line(node, [new[node]])
            else:
                new[node], has_axis[node] = (node if args == src else rebuild(node, args)), False
    return [(new[node], has_axis[node]) for node in outputs]


def _is_about(node: UOp, name: Any) -> bool:
    op = node.op
    return (
        isinstance(op, Primitive)
        and op.family in ("collective", "structured")
        and name in op.axis_names(node.params)
    )


def batch_graph(graph: Graph, axis: BatchAxis, batched: tuple[bool, ...]) -> tuple[Graph, tuple[bool, ...]]:
    """The graph over a leading batch axis of the inputs marked in `batched`, and which outputs have it."""

    axis = axis.within(graph)

    def make() -> tuple[Graph, tuple[bool, ...]]:
        inputs = [
            input_node(node.dtype, (axis.size, *node.shape) if flag else node.shape)
            for node, flag in zip(graph.inputs, batched, strict=True)
        ]
        # Those without the axis are replaced too: the new graph's inputs are all its own.
        plain = {n: i for n, i, flag in zip(graph.inputs, inputs, batched, strict=True) if not flag}
        with_axis = {n: i for n, i, flag in zip(graph.inputs, inputs, batched, strict=True) if flag}
        results = batch(substitute(graph.outputs, plain), with_axis, axis)
        derived = Graph(inputs, [node for node, _ in results], name=f"vmap_{graph.name}")
        return derived, tuple([flag for _, flag in results])

    return graph.derive(("batch", axis, batched), make)


def _axis_leaf(x: Any) -> bool:
    return x is None or isinstance(x, int)


def vmap(
    function: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
) -> Callable[..., Any]:
    """The function mapped over an axis of its arguments: what it does to one slice, done to all of them at once.

    `in_axes` gives the axis of each positional argument (an int, or None for an argument that all lanes share, which need not be
    an array, or a pytree of those that is a prefix of the argument's); keyword arguments are mapped over axis 0. `out_axes` says
    where the axis goes in the results, None for what does not differ. `axis_size` is needed only if no argument is mapped. Raises
    ValueError if the sizes of the mapped axes differ.

    `axis_name`, any hashable value but an integer, is what the function calls the axis in collectives, with which its lanes
    compute together: `vmap(lambda x: x - lax.pmean(x, "i"), axis_name="i")(xs)` is `xs - xs.mean(0)`. `spmd_axis_name`, the name
    or names of a mesh's axes over which the lanes are spread, changes nothing on one device.

    >>> xs = tnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> tinyfn.vmap(tnp.dot, in_axes=(0, None))(xs, tnp.array([1.0, 10.0]))
    Array([21., 43., 65.], dtype=float32)
    >>> tinyfn.vmap(tnp.sum, in_axes=1)(xs)
    Array([ 9., 12.], dtype=float32)
    >>> tinyfn.vmap(lambda x: {"row": x, "sum": x.sum()}, out_axes={"row": 1, "sum": 0})(xs)["row"].shape
    (2, 3)

    The gradient of each example, for weights that all share:

    >>> loss = lambda w, x: tnp.sum(w * x) ** 2
    >>> tinyfn.vmap(tinyfn.grad(loss), in_axes=(None, 0))(tnp.array([1.0, 0.0]), xs).shape
    (3, 2)
    """
    check_function("vmap", function)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not _axis_leaf(in_axes) and not isinstance(in_axes, (tuple, dict)):
        raise TypeError(
            f"vmap of {describe_function(function)}: in_axes must be an int, None, or a tuple or tree of those, not "
            f"{type(in_axes).__name__}; at {user_line()}"
        )
    _check_axis_name(function, axis_name)
    _check_axis_size(function, axis_size)

    @entry_point_of("vmap", function)
    @wraps(function)
    def vmapped(*args: Any, **kwargs: Any) -> Any:
        given = _Mapped(function, in_axes, args, kwargs)
        axes = given.axes
        size = _batch_size(function, given, axis_size)
        batch_axis = BatchAxis(size, axis_name)
        lanes: list[Any] = []
        for i, (array, axis) in enumerate(zip(given.arrays, axes, strict=True)):
            if axis is None:
                lanes.append(array)
            else:
                axes[i] = axis = axis % array.ndim
                lanes.append(Lane(array, axis, batch_axis))
        known = [array if axis is None else None for array, axis in zip(given.arrays, axes, strict=True)]
        axes_in_it = None if axis_name is None else {axis_name: size}
        traced = trace_function(function, "vmap", lanes, given.rebuild, given.name, known, axes=axes_in_it)
        graph = traced.graph
        inputs, batched = [], {}
        arguments = iter(zip(given.arrays, axes, strict=True))
        for node in graph.inputs:
            array, axis = next(arguments, (None, None))  # type: ignore[assignment]
            if axis is None or array is None:
                inputs.append(node)
            else:
                whole = input_node(array.dtype, array.shape)
                inputs.append(whole)
                batched[node] = move_axis(whole, axis, 0)
        results = batch(graph.outputs, batched, batch_axis)
        target = _output_axes(function, out_axes, traced.out_tree)
        outputs = []
        for (node, has_axis), axis, lane in zip(results, target, graph.outputs, strict=True):
            outputs.append(_place(function, node, has_axis, axis, lane, size))
        arrays = apply(Graph(inputs, outputs, graph.captured, graph.name), given.arrays, weak=traced.weak)
        return pytree.unflatten(traced.out_tree, arrays)

    return vmapped


class _Other:
    """A leaf of the arguments that is not an array."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value


def _array_or_other(leaf: Any) -> Any:
    try:
        return as_array(leaf)
    except TypeError:
        return _Other(leaf)


class _Mapped:
    """A call's arguments: the arrays among their leaves, and the axis of each, None for one that all lanes share."""

    def __init__(self, function: Callable[..., Any], in_axes: Any, args: tuple[Any, ...], kwargs: Any):
        self._given = given = Arguments("vmap", function, args, kwargs, convert=_array_or_other)
        axes = _input_axes(function, in_axes, args, kwargs)
        for i, (leaf, axis) in enumerate(zip(given.arrays, axes, strict=True)):
            if axis is not None and not isinstance(axis, int):
                raise TypeError(
                    f"vmap of {describe_function(function)}: in_axes has {axis!r} for argument `{given.name(i)}`; an axis is "
                    f"an int, or None; at {user_line()}"
                )
            if axis is not None and isinstance(leaf, _Other):
                raise TypeError(
                    f"vmap of {describe_function(function)}: argument `{given.name(i)}` is {kind_of(leaf.value)}, not "
                    f"an array, a number or a container of those; at {user_line()}: do not map it (None in in_axes) if all "
                    "lanes share it"
                )
        self._places = [i for i, leaf in enumerate(given.arrays) if not isinstance(leaf, _Other)]
        self.arrays = [given.arrays[i] for i in self._places]
        self.axes = [axes[i] for i in self._places]

    def name(self, index: int) -> str:
        """The name of the index-th array."""
        return self._given.name(self._places[index])

    def rebuild(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments with other arrays."""
        leaves = [leaf.value if isinstance(leaf, _Other) else leaf for leaf in self._given.arrays]
        for i, array in zip(self._places, arrays, strict=True):
            leaves[i] = array
        return self._given.rebuild(leaves)


def _check_axis_size(function: Callable[..., Any], axis_size: Any) -> None:
    """Raise for what is not a size."""
    is_size = isinstance(axis_size, (int, np.integer, UOp)) and not isinstance(axis_size, bool)
    if axis_size is not None and not is_size:
        raise TypeError(
            f"vmap of {describe_function(function)}: axis_size must be an int, not {axis_size!r}; at {user_line()}"
        )
    if isinstance(axis_size, (int, np.integer)) and axis_size < 0:
        raise ValueError(
            f"vmap of {describe_function(function)}: axis_size {axis_size} is negative; at {user_line()}"
        )


def _check_axis_name(function: Callable[..., Any], axis_name: Any) -> None:
    """Raise TypeError for a name that collectives could not mean."""
    try:
        hash(axis_name)
        is_name = not isinstance(axis_name, (int, tuple))
    except TypeError:
        is_name = False
    if not is_name:
        raise TypeError(
            f"vmap of {describe_function(function)}: axis_name must be a string or another hashable value, "
            f"neither an integer nor a tuple, not {axis_name!r}; at {user_line()}"
        )


class Lane(Aval):
    """What one lane sees of a mapped argument, and what it is a lane of: the argument along an axis."""

    weak_type: bool
    argument: Array
    axis: int
    batch_axis: BatchAxis

    def __new__(cls, argument: Array, axis: int, batch_axis: BatchAxis) -> Lane:
        shape = argument.shape[:axis] + argument.shape[axis + 1 :]
        self = super().__new__(cls, argument.dtype, shape)
        self.weak_type, self.argument = argument.weak_type, argument
        self.axis, self.batch_axis = axis, batch_axis
        return self


def _place(
    function: Callable[..., Any], node: UOp, has_axis: bool, axis: int | None, lane: UOp, size: Any
) -> UOp:
    if axis is None:
        if has_axis:
            raise ValueError(
                f"vmap of {describe_function(function)} with out_axes None: the result {dtypes.describe(lane.dtype, lane.shape)} "
                f"differs from lane to lane, so it needs an axis; at {user_line()}"
            )
        return node
    if not -lane.ndim - 1 <= axis <= lane.ndim:
        raise ValueError(
            f"out_axes {axis} of vmap of {describe_function(function)} is out of range for a result "
            f"{dtypes.describe(lane.dtype, lane.shape)} of one lane; at {user_line()}"
        )
    return move_axis(node if has_axis else broadcast_to_batch(node, size), 0, axis % (lane.ndim + 1))


def _input_axes(
    function: Callable[..., Any], in_axes: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[int | None]:
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise ValueError(
            f"vmap of {describe_function(function)}: in_axes has {len(in_axes)} entries {in_axes}, but there are {len(args)} "
            f"positional arguments; at {user_line()}{': those passed by name are mapped over axis 0' if kwargs else ''}"
        )
    if isinstance(in_axes, dict):
        in_axes = (in_axes,)
    axes = []
    for i, arg in enumerate(args):
        prefix = in_axes[i] if isinstance(in_axes, tuple) else in_axes
        try:
            axes += pytree.broadcast_prefix(prefix, arg, is_leaf=_axis_leaf)
        except ValueError as error:
            detail = str(error).removeprefix("the tree does not match its prefix ")
            raise ValueError(
                f"vmap of {describe_function(function)}: in_axes does not fit the argument `{positional_name(function, i)}` "
                f"{detail}; at {user_line()}"
            ) from None
    return [*axes, *[0] * len(pytree.leaves(kwargs))]


def _output_axes(function: Callable[..., Any], out_axes: Any, out_tree: Any) -> list[int | None]:
    result = pytree.unflatten(out_tree, [0] * out_tree.num_leaves)
    if out_tree != pytree.structure(result):
        return [0]  # a token alone
    try:
        axes = list(pytree.broadcast_prefix(out_axes, result, is_leaf=_axis_leaf))
    except ValueError as error:
        raise ValueError(
            f"vmap of {describe_function(function)}: out_axes does not fit the result: {error}; at {user_line()}"
        ) from None
    wrong = [axis for axis in axes if not _axis_leaf(axis)]
    if wrong:
        raise TypeError(
            f"vmap of {describe_function(function)}: out_axes has {wrong[0]!r}; an axis is an int, or None; at {user_line()}"
        )
    return axes


def _sizes(given: _Mapped, sizes: Sequence[tuple[Any, int]]) -> str:
    """The sizes of the mapped axes, with a few arguments for each."""
    found = []
    counts: dict[Any, int] = {}
    for size, i in sizes:
        counts[size] = counts.get(size, 0) + 1
        if len(sizes) <= _ALL_SHOWN or counts[size] <= 2:
            described = dtypes.describe(given.arrays[i].dtype, given.arrays[i].shape)
            found.append(f"axis {given.axes[i]} of `{given.name(i)}` has size {size} ({described})")
    if len(sizes) > _ALL_SHOWN:
        found += [f"{count - 2} more have size {size}" for size, count in counts.items() if count > 2]
    return "; ".join(found)


_ALL_SHOWN = 6  # up to so many arguments are all named


def _batch_size(function: Callable[..., Any], given: _Mapped, axis_size: int | None) -> Any:
    name, axes = describe_function(function), given.axes
    sizes: list[tuple[Any, int]] = []
    for i, (array, axis) in enumerate(zip(given.arrays, axes, strict=True)):
        if axis is None:
            continue
        if not -array.ndim <= axis < array.ndim:
            described = dtypes.describe(array.dtype, array.shape)
            raise ValueError(
                f"vmap of {name}: argument `{given.name(i)}` is {described} and has no axis {axis}; at {user_line()}: do not "
                "map it (None in in_axes) if all lanes share it"
            )
        sizes.append((array.shape[axis], i))
    if not sizes:
        if axis_size is None:
            raise ValueError(
                f"vmap of {name}: no argument is mapped; map one through in_axes, or give axis_size; at {user_line()}"
            )
        return axis_size if isinstance(axis_size, UOp) else int(axis_size)
    first = sizes[0][0] if axis_size is None else axis_size
    if any(size != first for size, _ in sizes):
        found = _sizes(given, sizes)
        wanted = "" if axis_size is None else f" (axis_size is {axis_size})"
        raise ValueError(
            f"vmap of {name}: the mapped axes have different sizes{wanted}: {found}; at {user_line()}"
        )
    return first
