"""What functions close over: found by tracing them, and made arguments."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ..trace import dtype as dtypes
from ..trace import prims, pytree
from ..trace.array import Array
from ..trace.errors import entry_point, user_line
from ..trace.graph import Graph
from ..trace.prim import Aval
from ..trace.prims.extern import constant_function
from ..trace.tracing import Closed, Traced, Tracer, apply, describe_function, identity
from ..trace.uop import UOp, const, input_node, substitute
from .arguments import Arguments
from .inspection import traced_function


def union(closure: Sequence[Closed], *captured: Sequence[Array]) -> list[Closed]:
    """What is closed over, with more arrays added, each once."""
    result = {c.key: c for c in closure}
    for array in itertools.chain(*captured):
        key = identity(array)
        if key not in result:
            result[key] = Closed(key, Aval(array.dtype, array.shape), array)
    return list(result.values())


def with_closure(traced: Traced, closure: Sequence[Closed], first: bool = False) -> Graph:
    """The graph with an input for each thing that is closed over, in that order; other arrays become constants.

    These inputs come after the arguments, or `first`."""
    captured = traced.trace.captured
    hidden = [captured[c.key][0] if c.key in captured else input_node(*c.aval) for c in closure]
    keys = {c.key for c in closure}
    constants = {node: _constant(array) for key, (node, array) in captured.items() if key not in keys}
    outputs = substitute(traced.graph.outputs, constants) if constants else traced.graph.outputs
    arguments = traced.graph.arguments
    return Graph([*hidden, *arguments] if first else [*arguments, *hidden], outputs, name=traced.graph.name)


def _constant(array: Any) -> UOp:
    """An array that a function made of numbers when it was traced after what it is a part of."""
    value = array.value
    return prims.extern.node(function=constant_function(value)) if value.ndim else const(value, value.dtype)


def converted(
    function: Callable[..., Any], args: Sequence[Any], hoisted: Callable[[Tracer], bool]
) -> tuple[Callable[..., Any], list[Tracer], Traced]:
    """The function with those of the tracers that it closes over as further arguments for which `hoisted` is true; those tracers;
    and what it was traced to, on arguments like `args`."""
    args = tuple(args)
    traced = traced_function(function, "closure_convert", args, {})
    graph, tree = traced.graph, pytree.structure((args, {}))
    hidden = list(zip(graph.inputs[len(graph.arguments) :], graph.captured, strict=True))
    constants = [(node, a) for node, a in hidden if isinstance(a, Tracer) and hoisted(a)]
    others = [(node, a) for node, a in hidden if not (isinstance(a, Tracer) and hoisted(a))]
    inputs = [*graph.arguments, *[node for node, _ in constants], *[node for node, _ in others]]
    closed = Graph(inputs, graph.outputs, [a for _, a in others], graph.name)
    name = describe_function(function)

    def call(*args: Any) -> Any:
        count = len(args) - len(constants)
        given = Arguments("closure_convert", function, args[: max(count, 0)], {})
        found = [(a.dtype, a.shape) for a in given.arrays]
        if given.tree != tree or found != [(n.dtype, n.shape) for n in graph.arguments]:
            raise TypeError(
                f"{name}, made by closure_convert, takes arguments like those that it was converted for, and then its "
                f"{len(constants)} constants; at {user_line()}"
            )
        more = Arguments("closure_convert", function, args[count:], {})
        return pytree.unflatten(
            traced.out_tree, apply(closed, [*given.arrays, *more.arrays], weak=traced.weak)
        )

    call.__name__ = name
    return call, [a for _, a in constants], traced


@entry_point
def closure_convert(function: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """The function without what it closes over, and a list of that: `converted(*args, *constants)` is `function(*args)`.

    It is for functions given to `custom_vjp` and the like, which can't have a derivative by what a function closes over. The
    function is traced on the example arguments, of which dtypes and shapes matter; it is a `converted` for arguments like
    these. The constants are traced floats alone, since nothing else that is closed over can have a derivative.

    >>> def scaled_sum(w, x):
    ...     converted, constants = tinyfn.closure_convert(lambda v: tnp.sum(w * v), x)
    ...     print(f"{len(constants)} constant")
    ...     return converted(x, *constants)
    >>> tinyfn.grad(scaled_sum)(tnp.array([1.0, 2.0]), tnp.ones(2))
    1 constant
    Array([1., 1.], dtype=float32)
    """
    call, constants, _ = converted(function, example_args, lambda a: dtypes.is_inexact(a.dtype))
    return call, list(constants)
