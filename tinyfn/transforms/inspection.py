"""eval_shape and make_graph: what a function would compute, without computing it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from ..trace import pytree
from ..trace.array import Array, as_array
from ..trace.errors import entry_point, entry_point_of
from ..trace.graph import Graph
from ..trace.interface import ShapeDtypeStruct
from ..trace.tracing import Traced, bind, current_trace, describe_function, trace_function
from .arguments import Arguments, argument_names, check_function, marked_arguments
from .structured import call


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

    The arguments may be arrays or anything with a shape and a dtype.

    >>> w, x = tinyfn.ShapeDtypeStruct((1000000, 3), "float32"), tinyfn.ShapeDtypeStruct((3,), "float32")
    >>> tinyfn.eval_shape(lambda w, x: {"y": w @ x}, w, x)
    {'y': ShapeDtypeStruct(shape=(1000000,), dtype=float32)}
    """
    traced = traced_function(function, "eval_shape", args, kwargs)
    leaves = [ShapeDtypeStruct(node.shape, node.dtype) for node in traced.graph.outputs]
    return pytree.unflatten(traced.out_tree, leaves)


def make_graph(function: Callable[..., Any]) -> Callable[..., Graph]:
    """A function that takes the arguments of `function` and returns its Graph, which prints as runnable Python.

    The arguments may be arrays or anything with a shape and a dtype.

    >>> graph = tinyfn.make_graph(lambda x: tnp.sum(x**2))(tnp.ones(3))
    >>> print(graph)
    def _lambda(x: "float32[3]"):
        v1 = integer_pow(x, exponent=2)  # float32[3]
        v2 = reduce_sum(v1, axes=(0,))  # float32[]
        return (v2,)
    >>> print(tinyfn.make_graph(tinyfn.grad(lambda x: tnp.sin(x)))(1.0))
    def _lambda(x: "float32[]"):
        v2 = cos(x)  # float32[]
        v3 = mul(const("1.0", "float32"), v2)  # float32[]
        return (v3,)
    """

    check_function("make_graph", function)

    @entry_point_of("make_graph", function)
    @wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Graph:
        graph: Graph = traced_function(function, "make_graph", args, kwargs).graph
        for node, name in zip(graph.arguments, argument_names(function, args, kwargs), strict=True):
            node.arg.name = name
        return graph

    return traced


def make_jaxpr(
    function: Callable[..., Any], static_argnums: int | Sequence[int] = (), return_shape: bool = False
) -> Callable[..., Any]:
    """`make_graph` under the name that users of JAX know: what is returned and printed is a Graph.

    Arguments in `static_argnums` are Python values. With `return_shape` the result is a pair of the graph and what `eval_shape`
    gives.

    >>> print(tinyfn.make_jaxpr(lambda x: 2 * x)(tnp.ones(3)))
    def _lambda(x: "float32[3]"):
        v2 = broadcast(const("2.0", "float32"), shape=(3,), axes=())  # float32[3]
        v3 = mul(v2, x)  # float32[3]
        return (v3,)
    >>> graph, shape = tinyfn.make_jaxpr(lambda x, n: x[:n], static_argnums=1, return_shape=True)(tnp.ones(3), 2)
    >>> shape
    ShapeDtypeStruct(shape=(2,), dtype=float32)
    """
    check_function("make_jaxpr", function)
    positions, names = marked_arguments("make_jaxpr", "static", function, static_argnums, ())

    @entry_point_of("make_jaxpr", function)
    @wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Any:
        def dynamic(*some: Any, **named: Any) -> Any:
            rest = iter(some)
            everything = [arg if i in positions else next(rest) for i, arg in enumerate(args)]
            return function(*everything, **{k: v for k, v in kwargs.items() if k in names}, **named)

        dynamic.__name__ = describe_function(function)
        some = [arg for i, arg in enumerate(args) if i not in positions]
        named = {k: v for k, v in kwargs.items() if k not in names}
        found = traced_function(dynamic, "make_jaxpr", tuple(some), named)
        argument_indices = [i for i in range(len(args)) if i not in positions]
        leaves = argument_names(function, some, named, argument_indices)
        for node, name in zip(found.graph.arguments, leaves, strict=True):
            node.arg.name = name
        if not return_shape:
            return found.graph
        shapes = [ShapeDtypeStruct(node.shape, node.dtype) for node in found.graph.outputs]
        return found.graph, pytree.unflatten(found.out_tree, shapes)

    return traced


def named_call(function: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """The function, whose operations are a function of that name (its own, if none is given) in printed graphs.

    block = tinyfn.named_call(block, name="encoder")  # a line `encoder = call(x, w, graph=encoder)`

    >>> layer = tinyfn.named_call(lambda x: tnp.tanh(x), name="layer")
    >>> print(tinyfn.make_graph(layer)(tnp.ones(2)))
    @graph
    def layer(x0: "float32[2]"):
        v1 = tanh(x0)  # float32[2]
        return (v1,)
    <BLANKLINE>
    def _lambda(x: "float32[2]"):
        v1 = call(x, graph=layer)
        return (v1[0],)
    """
    check_function("named_call", function)
    label = name or describe_function(function)

    @entry_point_of("named_call", function)
    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if current_trace() is None:
            return function(*args, **kwargs)
        given = Arguments("named_call", function, args, kwargs)
        traced = trace_function(function, "named_call", given.arrays, given.rebuild, given.name, given.arrays)
        graph = Graph(traced.graph.inputs, traced.graph.outputs, name=label)
        found = bind(call, (*given.arrays, *traced.graph.captured), {"graph": graph})
        for array, weak in zip(found, traced.weak, strict=True):
            array.weak_type = weak
        return pytree.unflatten(traced.out_tree, found)

    return called


__all__ = [
    "ShapeDtypeStruct",
    "described",
    "eval_shape",
    "make_graph",
    "make_jaxpr",
    "named_call",
    "traced_function",
]
