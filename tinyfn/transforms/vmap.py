"""vmap: a function of one example becomes a function of a batch of them, by each op's own batching rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from ..trace import dtype as dtypes
from ..trace import finite, pytree, switches
from ..trace.debug import stage
from ..trace.errors import user_line
from ..trace.graph import Graph
from ..trace.prim import Aval, broadcast_to_batch
from ..trace.prims.movement import move_axis
from ..trace.tracing import apply, describe_function, trace_function
from ..trace.uop import OUTPUT, UOp, depends_on, input_node, rebuild, substitute, toposort
from .arguments import Arguments
from .structured import Structured, number_of_results


@stage("transform")
def batch(outputs: Sequence[UOp], batched: dict[UOp, UOp], size: Any) -> list[tuple[UOp, bool]]:
    """The outputs, and whether each has a leading batch axis, where the nodes of `batched` are replaced by ones that have."""
    order = toposort(outputs)
    dependent = depends_on(order, batched)
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
                if any(flags):
                    results, out_flags = op.batch_results(size, args, flags, **node.params)
                else:
                    results, out_flags = op.results(rebuild(node, args)), [False] * number_of_results(node)
                for i, (result, flag) in enumerate(zip(results, out_flags, strict=True)):
                    new[node, i], has_axis[node, i] = result, flag
                new[node], has_axis[node] = node, False
            elif any(flags):
                new[node], has_axis[node] = op.batch(size, args, flags, **node.params), True
                if switches.general_path:
                    finite.inherit_line(node, [new[node]])
            else:
                new[node], has_axis[node] = (node if args == src else rebuild(node, args)), False
    return [(new[node], has_axis[node]) for node in outputs]


def batch_graph(graph: Graph, size: Any, batched: tuple[bool, ...]) -> tuple[Graph, tuple[bool, ...]]:
    """The graph over a leading batch axis of the inputs marked in `batched`, and which outputs have it."""

    def make() -> tuple[Graph, tuple[bool, ...]]:
        inputs = [
            input_node(node.dtype, (size, *node.shape) if flag else node.shape)
            for node, flag in zip(graph.inputs, batched, strict=True)
        ]
        # Those without the axis are replaced too: the new graph's inputs are all its own.
        plain = {n: i for n, i, flag in zip(graph.inputs, inputs, batched, strict=True) if not flag}
        with_axis = {n: i for n, i, flag in zip(graph.inputs, inputs, batched, strict=True) if flag}
        results = batch(substitute(graph.outputs, plain), with_axis, size)
        derived = Graph(inputs, [node for node, _ in results], name=f"vmap_{graph.name}")
        return derived, tuple([flag for _, flag in results])

    return graph.derive(("batch", size, batched), make)


def _axis_leaf(x: Any) -> bool:
    return x is None or isinstance(x, int)


def vmap(
    function: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, *, axis_size: int | None = None
) -> Callable[..., Any]:
    """The function mapped over an axis of its arguments: what it does to one slice, done to all of them at once.

    `in_axes` gives the axis of each positional argument (an int, or None for an argument that all lanes share, or a
    pytree of those that is a prefix of the argument's); keyword arguments are mapped over axis 0. `out_axes` says where
    the axis goes in the results. `axis_size` is needed only if no argument is mapped. Raises ValueError if the sizes
    of the mapped axes differ."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not _axis_leaf(in_axes) and not isinstance(in_axes, (tuple, dict)):
        raise TypeError(
            f"vmap of {describe_function(function)}: in_axes must be an int, None, or a tuple or tree of those, not "
            f"{type(in_axes).__name__}; at {user_line()}"
        )

    @wraps(function)
    def vmapped(*args: Any, **kwargs: Any) -> Any:
        given = Arguments("vmap", function, args, kwargs)
        axes = _input_axes(function, in_axes, args, kwargs)
        size = _batch_size(function, given, axes, axis_size)
        lanes: list[Any] = []
        for i, (array, axis) in enumerate(zip(given.arrays, axes, strict=True)):
            if axis is None:
                lanes.append(array)
            else:
                axes[i] = axis = axis % array.ndim
                lanes.append(
                    _Lane(array.dtype, array.shape[:axis] + array.shape[axis + 1 :], array.weak_type)
                )
        known = [array if axis is None else None for array, axis in zip(given.arrays, axes, strict=True)]
        traced = trace_function(function, "vmap", lanes, given.rebuild, given.name, known)
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
        results = batch(graph.outputs, batched, size)
        target = _output_axes(function, out_axes, traced.out_tree)
        outputs = []
        for (node, has_axis), axis, lane in zip(results, target, graph.outputs, strict=True):
            outputs.append(_place(function, node, has_axis, axis, lane, size))
        arrays = apply(Graph(inputs, outputs, graph.captured, graph.name), given.arrays, weak=traced.weak)
        return pytree.unflatten(traced.out_tree, arrays)

    return vmapped


class _Lane(Aval):
    """What one lane sees of a mapped argument."""

    weak_type: bool

    def __new__(cls, dtype: Any, shape: tuple[Any, ...], weak_type: bool) -> _Lane:
        self = super().__new__(cls, dtype, shape)
        self.weak_type = weak_type
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
            f"positional arguments; at {user_line()}"
        )
    prefix = (in_axes, 0) if not isinstance(in_axes, dict) else ((in_axes,), 0)
    try:
        return list(pytree.broadcast_prefix(prefix, (args, kwargs), is_leaf=_axis_leaf))
    except ValueError as error:
        raise ValueError(
            f"vmap of {describe_function(function)}: in_axes does not fit the arguments: {error}; at {user_line()}"
        ) from None


def _output_axes(function: Callable[..., Any], out_axes: Any, out_tree: Any) -> list[int | None]:
    result = pytree.unflatten(out_tree, [0] * out_tree.num_leaves)
    if out_tree != pytree.structure(result):
        return [0]  # a token alone
    try:
        return list(pytree.broadcast_prefix(out_axes, result, is_leaf=_axis_leaf))
    except ValueError as error:
        raise ValueError(
            f"vmap of {describe_function(function)}: out_axes does not fit the result: {error}; at {user_line()}"
        ) from None


def _batch_size(
    function: Callable[..., Any], given: Arguments, axes: Sequence[int | None], axis_size: int | None
) -> Any:
    name = describe_function(function)
    sizes: list[tuple[Any, int]] = []
    for i, (array, axis) in enumerate(zip(given.arrays, axes, strict=True)):
        if axis is None:
            continue
        if not isinstance(axis, int) or not -array.ndim <= axis < array.ndim:
            described = dtypes.describe(array.dtype, array.shape)
            raise ValueError(
                f"vmap of {name}: argument `{given.name(i)}` is {described} and has no axis {axis}; at {user_line()}"
            )
        sizes.append((array.shape[axis], i))
    if not sizes:
        if axis_size is None:
            raise ValueError(
                f"vmap of {name}: no argument is mapped; map one through in_axes, or give axis_size; at {user_line()}"
            )
        return axis_size
    first = sizes[0][0] if axis_size is None else axis_size
    if any(size != first for size, _ in sizes):
        found = "; ".join(f"axis {axes[i]} of `{given.name(i)}` has size {size}" for size, i in sizes)
        wanted = "" if axis_size is None else f" (axis_size is {axis_size})"
        raise ValueError(
            f"vmap of {name}: the mapped axes have different sizes{wanted}: {found}; at {user_line()}"
        )
    return first
