"""eval_shape and make_graph: what a function would compute, without computing it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..trace import pytree
from ..trace.array import Array, as_array
from ..trace.errors import entry_point
from ..trace.graph import Graph
from ..trace.interface import ShapeDtypeStruct
from ..trace.tracing import Traced, trace_function
from .arguments import argument_names


def described(leaf: Any) -> Any:
    """An array, or what tells the shape and dtype of one; raises TypeError for anything else."""
    if isinstance(leaf, (Array, ShapeDtypeStruct)):
        return leaf
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype") and not hasattr(leaf, "__array__"):
        return ShapeDtypeStruct(leaf.shape, leaf.dtype)
    return as_array(leaf)


def traced_function(
    function: Callable[..., Any], transform: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Traced:
    """The function, traced on arguments of which only dtypes and shapes matter."""
    leaves, tree = pytree.flatten((args, kwargs))
    names = None

    def namer(index: int) -> str:
        nonlocal names
        names = names or argument_names(function, args, kwargs)
        return names[index]

    return trace_function(
        function,
        transform,
        [described(leaf) for leaf in leaves],
        lambda tracers: pytree.unflatten(tree, tracers),
        namer,
    )


@entry_point
def eval_shape(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of `function` with a ShapeDtypeStruct in the place of each array; nothing is computed.

    The arguments may be arrays or anything with a shape and a dtype."""
    traced = traced_function(function, "eval_shape", args, kwargs)
    leaves = [ShapeDtypeStruct(node.shape, node.dtype) for node in traced.graph.outputs]
    return pytree.unflatten(traced.out_tree, leaves)


def make_graph(function: Callable[..., Any]) -> Callable[..., Graph]:
    """A function that takes the arguments of `function` and returns its Graph, which prints as runnable Python.

    The arguments may be arrays or anything with a shape and a dtype."""

    @entry_point
    @wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Graph:
        graph: Graph = traced_function(function, "make_graph", args, kwargs).graph
        for node, name in zip(graph.arguments, argument_names(function, args, kwargs), strict=True):
            node.arg.name = name
        return graph

    return traced


__all__ = ["ShapeDtypeStruct", "described", "eval_shape", "make_graph", "traced_function"]
