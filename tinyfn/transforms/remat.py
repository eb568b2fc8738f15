"""checkpoint (remat): trade computation for memory in the reverse pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from ..trace import dtype as dtypes
from ..trace import finite, prims, pytree, switches
from ..trace.array import Array, as_array
from ..trace.errors import entry_point_of, user_line
from ..trace.graph import Graph, split
from ..trace.tracing import bind, current_trace, trace_function
from ..trace.uop import INPUT, OUTPUT, UOp, input_node
from .arguments import Arguments, argument_names, check_function, marked_arguments
from .inspection import ShapeDtypeStruct, traced_function
from .structured import Call, checkpoint_call
from .vjp import pull_back


def remat(
    function: Callable[..., Any],
    *,
    prevent_cse: bool = True,
    policy: Callable[..., bool] | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> Callable[..., Any]:
    """The same function, of which the reverse pass keeps little and computes everything else again.

    Values and derivatives do not change. What is kept are the arguments, and what `policy` says: one of
    `tinyfn.checkpoint_policies`, or a function of a primitive, its arguments' dtypes and shapes, and its parameters that
    returns True for what is to be kept. Static arguments are Python values, not arrays. With `prevent_cse=False` a compiled
    function may merge what is computed again with what was computed before: that is quicker in a loop's body, where the two
    are apart anyway. Also available as `checkpoint`.

    >>> layer = tinyfn.remat(lambda w, x: tnp.tanh(w @ x), policy=tinyfn.checkpoint_policies.dots_saveable)
    >>> tinyfn.grad(lambda w, x: tnp.sum(layer(w, x)))(tnp.zeros((2, 3)), tnp.ones(3))
    Array([[1., 1., 1.],
           [1., 1., 1.]], dtype=float32)
    """
    check_function("checkpoint", function)
    if not isinstance(prevent_cse, bool):
        raise TypeError(
            f"checkpoint's prevent_cse must be True or False, not {prevent_cse!r}; at {user_line()}"
        )
    if policy is not None and not callable(policy):
        raise TypeError(
            f"checkpoint's policy must be a function, such as tinyfn.checkpoint_policies.dots_saveable, not {policy!r}; "
            f"at {user_line()}"
        )
    keeps = None
    if policy is not None:
        from .saving import Policy  # here, so that the package is imported quickly

        keeps = Policy(policy)
    static, names = marked_arguments("checkpoint", "static", function, static_argnums, static_argnames)

    @entry_point_of("checkpoint", function)
    @wraps(function)
    def rematerialized(*args: Any, **kwargs: Any) -> Any:
        if current_trace() is None:
            return function(*args, **kwargs)
        traced_args = [arg for i, arg in enumerate(args) if i not in static]
        traced_kwargs = {name: arg for name, arg in kwargs.items() if name not in names}
        positions = [i for i in range(len(args)) if i not in static]
        given = Arguments("checkpoint", function, traced_args, traced_kwargs, positions)

        def rebuild(tracers: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            dynamic, named = given.rebuild(tracers)
            rest = iter(dynamic)
            return tuple([arg if i in static else next(rest) for i, arg in enumerate(args)]), {
                **kwargs,
                **named,
            }

        traced = trace_function(function, "checkpoint", given.arrays, rebuild, given.name, given.arrays)
        graph = traced.graph
        opened = Graph(graph.inputs, graph.outputs, name=graph.name)
        params = {"graph": opened, "policy": keeps, "prevent_cse": prevent_cse}
        found = bind(checkpoint_call, (*given.arrays, *graph.captured), params)
        for array, weak in zip(found, traced.weak, strict=True):
            array.weak_type = weak
        return pytree.unflatten(traced.out_tree, found)

    return rematerialized


def checkpoint_name(x: Any, name: str) -> Any:
    """x, a pytree of arrays, under a name by which a policy of `checkpoint` can choose it.

    hidden = checkpoint_name(x @ w, "hidden")  # with policy=save_only_these_names("hidden")

    >>> from tinyfn.ad_checkpoint import checkpoint, checkpoint_name, saved_residuals
    >>> policy = tinyfn.checkpoint_policies.save_only_these_names("hidden")
    >>> f = checkpoint(lambda x: tnp.sum(tnp.sin(checkpoint_name(tnp.exp(x), "hidden"))), policy=policy)
    >>> for aval, origin in saved_residuals(f, tnp.ones(3)):
    ...     print(aval, origin.split(" at ")[0])
    ShapeDtypeStruct(shape=(3,), dtype=float32) from 'hidden', the result of exp
    """
    if not isinstance(name, str):
        raise TypeError(f"checkpoint_name takes a str as the name, not {name!r}; at {user_line()}")

    def named(leaf: Any) -> Any:
        array = as_array(leaf)
        result: Array = bind(prims.checkpoint_name, (array,), {"name": name})
        return result

    return pytree.map(named, x)


def saved_residuals(function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[Any, str]]:
    """What the reverse pass of `function` at these arguments keeps: for each array its dtype and shape, and where it is from.

    Nothing is computed. The arguments may be arrays or anything with a shape and a dtype.

    >>> from tinyfn.ad_checkpoint import saved_residuals
    >>> for aval, origin in saved_residuals(lambda x, y: x * y, tnp.ones(3), tnp.ones(3)):
    ...     print(aval, origin)
    ShapeDtypeStruct(shape=(3,), dtype=float32) from the argument y
    ShapeDtypeStruct(shape=(3,), dtype=float32) from the argument x
    """
    with switches.keep_lines():
        graph = traced_function(function, "saved_residuals", args, kwargs).graph
        wrt = [node for node in graph.arguments if dtypes.is_inexact(node.dtype)]
        outputs, pullback = pull_back(graph.outputs, wrt)
        seeds = [input_node(o.dtype, o.shape) if dtypes.is_inexact(o.dtype) else None for o in outputs]
        found = [ct for ct in pullback(seeds) if ct is not None]
        residuals = split(found, [seed for seed in seeds if seed is not None])
        names = argument_names(function, args, kwargs)
        known = {node: f"the argument {name}" for node, name in zip(graph.arguments, names, strict=True)}
        whole = Graph(graph.inputs, [*outputs, *found])
        return [(ShapeDtypeStruct(n.shape, n.dtype), f"from {_origin(n, whole, known)}") for n in residuals]


def _origin(node: UOp, graph: Graph, arguments: dict[UOp, str]) -> str:
    """Where a value of the graph that is kept comes from, in words."""
    if node.op is INPUT:
        return arguments.get(node, "an array that is closed over")
    if node.op is OUTPUT and isinstance(node.src[0].op, Call):
        held = node.src[0].params["graph"]
        return _origin(
            held.outputs[node.arg], held, dict.fromkeys(held.inputs, f"an argument of {held.name}")
        )
    names = [
        n.params["name"] for n in graph.nodes() if n.op is prims.checkpoint_name and node in (n, n.src[0])
    ]
    op = node.src[0].op if node.op is OUTPUT else node.op
    line = finite.line_of(node)
    return f"{f'{names[0]!r}, ' if names else ''}the result of {op.name}{f' at {line}' if line else ''}"


def print_saved_residuals(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print `saved_residuals`, one a line: `float32[8,3] from the result of dot_general at model.py:12 (in layer)`.

    >>> from tinyfn.ad_checkpoint import print_saved_residuals
    >>> print_saved_residuals(lambda x, y: x * y, tnp.ones(3), tnp.ones(3))
    float32[3] from the argument y
    float32[3] from the argument x
    """
    for struct, origin in saved_residuals(function, *args, **kwargs):
        print(dtypes.describe(struct.dtype, struct.shape), origin)
