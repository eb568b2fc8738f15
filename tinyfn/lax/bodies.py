"""Tracing what loops and branches hold: functions of the carry and others, as graphs, with checks of what they return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..trace import dtype as dtypes
from ..trace import operators, pytree
from ..trace.array import Array
from ..trace.dtype import DType
from ..trace.errors import user_line
from ..trace.graph import Graph
from ..trace.prim import Primitive
from ..trace.tracing import Traced, describe_function, identity, trace_function
from ..trace.uop import input_node
from ..transforms.arguments import Arguments, argument_names, positional_name


class Seen(NamedTuple):
    """What a body sees of an array: dtype, shape and weakness."""

    dtype: DType
    shape: tuple[Any, ...]
    weak_type: bool


def seen(x: Array) -> Seen:
    """What a body sees of an array that it is given whole."""
    return Seen(x.dtype, x.shape, x.weak_type)


class Carry:
    """The first carry of a loop: its leaves as arrays, its structure, and a name for each leaf."""

    def __init__(self, what: str, function: Callable[..., Any], value: Any, position: int = 0):
        given = Arguments(what, function, (value,), {}, (position,), operators.operand)
        self.arrays: list[Array] = list(given.arrays)
        self.tree = pytree.structure(value)
        self.names = given.names
        self._function, self._position = function, position

    def root(self) -> str:
        """The name of the whole."""
        return positional_name(self._function, self._position)


def trace_loop(
    what: str,
    function: Callable[..., Any],
    carry: Carry,
    others: Sequence[Seen],
    call: Callable[[Any, list[Any]], tuple[Any, Any]],
    names: Callable[[], list[str]] = list,
) -> tuple[Traced, Any]:
    """The graph of a loop's body, from the leaves of the carry and `others` to those of the next carry and what comes beside it.

    `call` calls the function on a carry and tracers for the others (named by `names`), and gives the next carry and what comes
    beside it, whose tree is given back too. Weak carries take the dtype that the body gives them. Raises TypeError if the body
    changes the structure, a dtype or a shape of the carry."""
    count = len(carry.arrays)

    def body(*leaves: Any) -> Any:
        return call(pytree.unflatten(carry.tree, leaves[:count]), list(leaves[count:]))

    body.__name__, body.__wrapped__ = describe_function(function), function  # type: ignore[attr-defined]

    def name(index: int) -> str:
        return [*carry.names(), *names()][index]

    while True:
        avals = [*[seen(a) for a in carry.arrays], *others]
        traced = trace_function(body, what, avals, lambda tracers: (tuple(tracers), {}), name)
        after, beside = pytree.unflatten(traced.out_tree, range(traced.out_tree.num_leaves))
        _check_structure(what, function, carry, after)
        wider = [
            _yielding(array, node.dtype, weak)
            for array, node, weak in zip(carry.arrays, traced.graph.outputs, traced.weak, strict=False)
        ]
        if all(a is b for a, b in zip(wider, carry.arrays, strict=True)):
            break
        carry.arrays = wider
    _check_types(what, function, carry, traced.graph)
    return traced, pytree.structure(beside)


def _yielding(array: Array, dtype: DType, weak: bool) -> Array:
    """A weak array in the dtype that it takes beside what the body gives for it."""
    if not array.weak_type or array.dtype is dtype:
        return array
    return operators.to_dtype(array, dtypes.promote_pair(array.dtype, True, dtype, weak)[0])


def _check_structure(what: str, function: Callable[..., Any], carry: Carry, after: Any) -> None:
    found = pytree.structure(after)
    if found == carry.tree:
        return
    raise TypeError(
        f"{what} of {describe_function(function)}: the body must return the carry with the structure that `{carry.root()}` has; "
        f"{pytree.difference(carry.tree, found, carry.root())}; at {user_line()}"
    )


def _check_types(what: str, function: Callable[..., Any], carry: Carry, graph: Graph) -> None:
    wrong = []
    fixes: list[str] = []
    for i, (before, after) in enumerate(zip(carry.arrays, graph.outputs, strict=False)):
        if (before.dtype, before.shape) == (after.dtype, after.shape):
            continue
        spelled = [dtypes.describe(a.dtype, a.shape) for a in (before, after)]
        wrong.append(f"`{carry.names()[i]}` is {spelled[0]} before and {spelled[1]} after a step")
        if before.dtype is not after.dtype:
            fixes.append(
                f"cast it in the body with .astype('{before.dtype.name}'), or start with {after.dtype.name}"
            )
        else:
            fixes.append("give it the same shape in the body, or start with an array of that shape")
    if wrong:
        raise TypeError(
            f"{what} of {describe_function(function)}: the body changes the carry: {'; '.join(wrong)}; at {user_line()}: "
            f"{'; '.join(dict.fromkeys(fixes))}"
        )


def trace_branch(
    what: str, function: Callable[..., Any], given: Arguments, operands: Sequence[Any]
) -> Traced:
    """The graph of a branch on these operands, which it has its own names for."""

    def name(index: int) -> str:
        return argument_names(function, operands, {})[index]

    return trace_function(function, what, [seen(a) for a in given.arrays], given.rebuild, name)


def joined(traces: Sequence[Traced]) -> tuple[list[Array], list[Graph]]:
    """What any of the functions closed over, and their graphs with all of it as first inputs."""
    arrays: dict[Any, Array] = {}
    for traced in traces:
        for array in traced.graph.captured:
            arrays.setdefault(identity(array), array)
    graphs = []
    for traced in traces:
        graph = traced.graph
        hidden = graph.inputs[len(graph.arguments) :]
        own = {identity(array): node for array, node in zip(graph.captured, hidden, strict=True)}
        first = [own.get(key) or input_node(array.dtype, array.shape) for key, array in arrays.items()]
        graphs.append(Graph([*first, *graph.arguments], graph.outputs, name=graph.name))
    return list(arrays.values()), graphs


def apply(op: Primitive, args: Sequence[Array], weak: Sequence[bool], **params: Any) -> list[Array]:
    """The results of an op that holds graphs, and which of them are weak."""
    results: list[Array] = op(*args, **params)
    for array, flag in zip(results, weak, strict=True):
        array.weak_type = flag
    return results
