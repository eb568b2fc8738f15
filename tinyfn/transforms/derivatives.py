"""grad, jvp, vjp and linearize: functions that differentiate functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from ..trace import dtype as dtypes
from ..trace import pytree
from ..trace.errors import entry_point_of, user_line
from ..trace.graph import Graph
from ..trace.prim import full_like, instantiate
from ..trace.tracing import Traced, apply, describe_function, trace_function
from ..trace.uop import UOp
from .arguments import (
    Arguments,
    as_tuple,
    check_differentiable,
    check_function,
    float0_zeros,
    normalize_positions,
    restore_aux,
    with_aux,
)
from .vjp import pull_back


def value_and_grad(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns the scalar value of `function` and its gradient with respect to the arguments `argnums`.

    The gradient has the structure, dtypes and shapes of the argument (a tuple of gradients if `argnums` is a sequence).
    With `has_aux` the function returns (value, auxiliary data), and the result is ((value, auxiliary data), gradient).
    Integer arguments have zeros of float0 for a gradient with `allow_int`, and are an error without. A real function of a complex
    argument x + iy has the gradient df/dx - i df/dy; with `holomorphic`, argument and value are complex, and the gradient is the
    complex derivative. Raises TypeError if the value is not a scalar float or an argument is not of floats.

    >>> def loss(w, x):
    ...     return tnp.sum((x @ w) ** 2)
    >>> w, x = {"w": tnp.array([1.0, 2.0])}, tnp.eye(2)
    >>> tinyfn.value_and_grad(lambda p: loss(p["w"], x))(w)
    (Array(5., dtype=float32), {'w': Array([2., 4.], dtype=float32)})
    >>> tinyfn.value_and_grad(loss, argnums=(0, 1))(w["w"], x)[1][1].shape
    (2, 2)
    """
    return _gradient(
        function,
        argnums,
        has_aux,
        holomorphic,
        allow_int,
        "value_and_grad",
        lambda value, gradient: (value, gradient),
    )


def grad(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns the gradient of a scalar `function` with respect to the arguments `argnums`.

    As `value_and_grad`, without the value: with `has_aux` the result is (gradient, auxiliary data).

    >>> tinyfn.grad(lambda x: x**3)(1.0)
    Array(3., dtype=float32)
    >>> tinyfn.grad(tinyfn.grad(lambda x: x**3))(1.0)
    Array(6., dtype=float32)
    >>> tinyfn.grad(lambda w, b: tnp.sum(w * b), argnums=(0, 1))(tnp.array([1.0, 2.0]), 3.0)
    (Array([3., 3.], dtype=float32), Array(3., dtype=float32))

    With auxiliary data, which is not differentiated:

    >>> tinyfn.grad(lambda x: (x**2, {"x": x}), has_aux=True)(3.0)
    (Array(6., dtype=float32), {'x': Array(3., dtype=float32)})
    """
    return _gradient(
        function,
        argnums,
        has_aux,
        holomorphic,
        allow_int,
        "grad",
        lambda value, gradient: (gradient, value[1]) if has_aux else gradient,
    )


def _gradient(
    function: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    transform: str,
    give: Callable[[Any, Any], Any],
) -> Callable[..., Any]:
    check_function(transform, function)

    @entry_point_of(transform, function)
    @wraps(function)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        single = not isinstance(argnums, (tuple, list))
        positions = normalize_positions("argnums", function, as_tuple(argnums), len(args))
        given = Arguments(transform, function, [args[i] for i in positions], {}, positions)
        check_differentiable(transform, function, given, allow_int, holomorphic=holomorphic)
        called, memory = with_aux(function, transform) if has_aux else (function, [])

        def rebuild(tracers: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            chosen, _ = given.rebuild(tracers)
            everything = list(args)
            for position, arg in zip(positions, chosen, strict=True):
                everything[position] = arg
            return tuple(everything), kwargs

        traced = trace_function(called, transform, given.arrays, rebuild, given.name, given.arrays)
        graph = traced.graph
        value = _scalar_output(transform, function, traced, has_aux, holomorphic)
        wrt = [node for node in graph.arguments if dtypes.is_inexact(node.dtype)]
        outputs, pullback = pull_back(graph.outputs, wrt)
        found = dict(zip(wrt, pullback([full_like(value, 1), *[None] * (len(outputs) - 1)]), strict=True))
        gradients = [instantiate(found[n], n) if n in found else None for n in graph.arguments]
        everything = [*outputs, *[g for g in gradients if g is not None]]
        weak = [
            *traced.weak,
            *[a.weak_type for a, g in zip(given.arrays, gradients, strict=True) if g is not None],
        ]
        arrays = apply(
            Graph(graph.inputs, everything, graph.captured, graph.name), given.arrays, traced.memo, weak
        )
        results, computed = arrays[: len(outputs)], iter(arrays[len(outputs) :])
        leaves = [
            float0_zeros(n.shape) if g is None else next(computed)
            for n, g in zip(graph.arguments, gradients, strict=True)
        ]
        gradient, _ = given.rebuild(leaves)
        first = (results[0], restore_aux(memory, results[1:])) if has_aux else results[0]
        return give(first, gradient[0] if single else gradient)

    return differentiated


def _scalar_output(
    transform: str, function: Callable[..., Any], traced: Traced, has_aux: bool, holomorphic: bool
) -> UOp:
    name = describe_function(function)
    graph = traced.graph
    leaves = traced.out_tree.num_leaves
    if not has_aux and leaves != 1:
        hint = "is a `return` missing?" if not leaves else "return auxiliary data through has_aux=True"
        raise TypeError(
            f"{transform} of {name}: the function must return one scalar, but it returned {pytree.spelled(traced.out_tree)}; "
            f"at {user_line()}: {hint}"
        )
    value = graph.outputs[0]
    described = dtypes.describe(value.dtype, value.shape)
    if value.shape != ():
        hint = (
            "return .reshape(())"
            if all(n == 1 for n in value.shape)
            else "reduce it, for example with .sum() or .mean(), or use jacrev"
        )
        raise TypeError(
            f"{transform} of {name}: the function must return a scalar, but it returned {described}; at {user_line()}: {hint}"
        )
    if dtypes.kind(value.dtype) != ("complex" if holomorphic else "float"):
        wanted = "a complex number, as holomorphic=True says" if holomorphic else "a float"
        hint = (
            ": return its real part or magnitude, or set holomorphic=True if it is complex differentiable"
            if dtypes.kind(value.dtype) == "complex"
            else ": leave holomorphic out"
            if holomorphic
            else ": integers have no derivative, so compute it in floats, from .astype('float32')"
        )
        raise TypeError(
            f"{transform} of {name}: the function must return {wanted}, but it returned {described}; at {user_line()}{hint}"
        )
    return value
