"""grad, jvp, vjp and linearize: functions that differentiate functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from ..trace import dtype as dtypes
from ..trace import pytree
from ..trace.array import Array, as_array
from ..trace.errors import user_line
from ..trace.graph import Graph, split
from ..trace.prim import full_like, instantiate
from ..trace.tracing import Traced, apply, describe_function, trace_function
from ..trace.uop import UOp, depends_on, input_node, substitute, toposort
from .arguments import (
    Arguments,
    as_tuple,
    check_differentiable,
    float0_zeros,
    normalize_positions,
    with_float0,
)
from .effects import without_effects
from .jvp import push_forward
from .vjp import pull_back


def _with_aux(function: Callable[..., Any], transform: str) -> tuple[Callable[..., Any], list[Any]]:
    """The function with its second result's arrays put beside the first, and a list that receives how to undo that."""
    memory: list[Any] = []

    @wraps(function)
    def flat(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(
                f"{transform} of {describe_function(function)} with has_aux=True: the function must return a pair "
                f"(value, auxiliary data), not {type(result).__name__}; at {user_line()}"
            )
        value, aux = result
        leaves, tree = pytree.flatten(aux)
        arrays = []
        template: list[Any] = []
        for leaf in leaves:
            try:
                arrays.append(as_array(leaf))
                template.append(None)
            except TypeError:
                template.append([leaf])  # not an array: handed through as it is
        memory[:] = [tree, template]
        return value, arrays

    return flat, memory


def _restore_aux(memory: list[Any], arrays: Sequence[Any]) -> Any:
    tree, template = memory
    found = iter(arrays)
    return pytree.unflatten(tree, [next(found) if entry is None else entry[0] for entry in template])


def value_and_grad(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns the scalar value of `function` and its gradient with respect to the arguments `argnums`.

    The gradient has the structure, dtypes and shapes of the argument (a tuple of gradients if `argnums` is a sequence).
    With `has_aux` the function returns (value, auxiliary data), and the result is ((value, auxiliary data), gradient).
    Raises TypeError if the value is not a scalar float or an argument is not of floats."""
    return _gradient(
        function, argnums, has_aux, allow_int, "value_and_grad", lambda value, gradient: (value, gradient)
    )


def grad(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns the gradient of a scalar `function` with respect to the arguments `argnums`.

    As `value_and_grad`, without the value: with `has_aux` the result is (gradient, auxiliary data)."""
    return _gradient(
        function,
        argnums,
        has_aux,
        allow_int,
        "grad",
        lambda value, gradient: (gradient, value[1]) if has_aux else gradient,
    )


def _gradient(
    function: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    allow_int: bool,
    transform: str,
    give: Callable[[Any, Any], Any],
) -> Callable[..., Any]:
    if not callable(function):
        raise TypeError(f"{transform} takes a function, not {type(function).__name__}; at {user_line()}")

    @wraps(function)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        positions = normalize_positions("argnums", function, as_tuple(argnums), len(args))
        given = Arguments(transform, function, [args[i] for i in positions], {}, positions)
        check_differentiable(transform, function, given, allow_int)
        called, memory = _with_aux(function, transform) if has_aux else (function, [])

        def rebuild(tracers: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            chosen, _ = given.rebuild(tracers)
            everything = list(args)
            for position, arg in zip(positions, chosen, strict=True):
                everything[position] = arg
            return tuple(everything), kwargs

        traced = trace_function(called, transform, given.arrays, rebuild, given.name, given.arrays)
        graph = traced.graph
        value = _scalar_output(transform, function, traced, has_aux)
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
        first = (results[0], _restore_aux(memory, results[1:])) if has_aux else results[0]
        return give(first, gradient[0] if isinstance(argnums, int) else gradient)

    return differentiated


def _scalar_output(transform: str, function: Callable[..., Any], traced: Traced, has_aux: bool) -> UOp:
    name = describe_function(function)
    graph = traced.graph
    leaves = traced.out_tree.num_leaves
    if not has_aux and leaves != 1:
        raise TypeError(
            f"{transform} of {name}: the function must return one scalar, but it returned {traced.out_tree}; at {user_line()}: "
            "return auxiliary data through has_aux=True"
        )
    value = graph.outputs[0]
    described = dtypes.describe(value.dtype, value.shape)
    if value.shape != ():
        hint = (
            "return .reshape(())"
            if value.shape == (1,)
            else "reduce it, for example with .sum() or .mean(), or use jacrev"
        )
        raise TypeError(
            f"{transform} of {name}: the function must return a scalar, but it returned {described}; at {user_line()}: {hint}"
        )
    if not dtypes.is_float(value.dtype):
        raise TypeError(
            f"{transform} of {name}: the function must return a float, but it returned {described}; at {user_line()}"
        )
    return value


def jvp(
    function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """The value of `function` at `primals` and its directional derivative along `tangents`.

    `tangents` has the structure, shapes and dtypes of `primals`. Returns (value, tangent), or (value, tangent,
    auxiliary data) with `has_aux`. Raises TypeError if primals and tangents do not match."""
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            f"jvp takes primals and tangents as tuples with one entry for each argument, jvp(f, (x,), (t,)); at {user_line()}"
        )
    given = Arguments("jvp", function, primals, {})
    directions = _matching_tangents("jvp", function, given, tangents)
    called, memory = _with_aux(function, "jvp") if has_aux else (function, [])
    traced = trace_function(called, "jvp", given.arrays, given.rebuild, given.name, given.arrays)
    graph = traced.graph
    seeds = {
        node: input_node(node.dtype, node.shape) for node in graph.arguments if dtypes.is_inexact(node.dtype)
    }
    outputs, out_tangents = push_forward(graph.outputs, seeds)
    count = traced.out_tree.num_leaves if not has_aux else _value_leaves(traced)
    everything = [
        *outputs,
        *[
            instantiate(t, o) if dtypes.is_inexact(o.dtype) else t
            for o, t in zip(outputs[:count], out_tangents[:count], strict=True)
        ],
    ]
    present = [node for node in everything if node is not None]
    weak = [
        flag
        for flag, node in zip([*traced.weak, *traced.weak[:count]], everything, strict=True)
        if node is not None
    ]
    inputs = [*graph.arguments, *seeds.values(), *graph.inputs[len(graph.arguments) :]]
    chosen = [d for node, d in zip(graph.arguments, directions, strict=True) if node in seeds]
    arrays = iter(
        apply(Graph(inputs, present, graph.captured, graph.name), [*given.arrays, *chosen], traced.memo, weak)
    )
    values: list[Any] = [None if node is None else next(arrays) for node in everything]
    values = [float0_zeros(outputs[i - len(outputs)].shape) if v is None else v for i, v in enumerate(values)]
    primal_leaves, tangent_leaves = values[: len(outputs)], values[len(outputs) :]
    if has_aux:
        value_tree = traced.out_tree
        value, aux = pytree.unflatten(value_tree, primal_leaves)
        tangent, _ = pytree.unflatten(value_tree, tangent_leaves + [0] * (len(outputs) - count))
        return value, tangent, _restore_aux(memory, aux)
    return pytree.unflatten(traced.out_tree, primal_leaves), pytree.unflatten(traced.out_tree, tangent_leaves)


def _value_leaves(traced: Traced) -> int:
    """How many leaves the first of a pair of results has."""
    value, _ = pytree.unflatten(traced.out_tree, list(range(traced.out_tree.num_leaves)))
    return len(pytree.leaves(value))


def _matching_tangents(
    transform: str, function: Callable[..., Any], given: Arguments, tangents: Sequence[Any]
) -> list[Array]:
    leaves, tree = pytree.flatten((tuple(tangents), {}))
    name = describe_function(function)
    if tree != given.tree:
        raise TypeError(
            f"{transform} of {name}: the tangents have the structure {tree}, but the primals have {given.tree}; at {user_line()}"
        )
    result: list[Array] = []
    for i, (primal, leaf) in enumerate(zip(given.arrays, leaves, strict=True)):
        if not dtypes.is_inexact(primal.dtype):
            if getattr(leaf, "dtype", None) != dtypes.float0 and dtypes.is_inexact(as_array(leaf).dtype):
                described = dtypes.describe(primal.dtype, primal.shape)
                raise TypeError(
                    f"{transform} of {name}: `{given.name(i)}` is {described}, which has no derivative, but it is given a "
                    f"tangent; at {user_line()}: pass a float (for example x.astype('float32')), or an integer as its tangent"
                )
            result.append(primal)
            continue
        tangent = as_array(leaf)
        if tangent.weak_type and tangent.shape == ():
            tangent = tangent.astype(primal.dtype)
        if tangent.shape != primal.shape or tangent.dtype is not primal.dtype:
            expected, found = (dtypes.describe(a.dtype, a.shape) for a in (primal, tangent))
            raise TypeError(
                f"{transform} of {name}: the tangent of `{given.name(i)}` must be {expected} as the primal is, not {found}; "
                f"at {user_line()}"
            )
        result.append(tangent)
    return result


class _Linear:
    """A linear function that was split from a graph: call it with what it is linear in."""

    def __init__(
        self,
        graph: Graph,
        weak: Sequence[bool],
        arguments: Callable[..., list[Array]],
        result: Callable[[list[Array]], Any],
    ):
        self._graph, self._weak, self._arguments, self._result = graph, weak, arguments, result

    def __call__(self, *args: Any) -> Any:
        return self._result(apply(self._graph, self._arguments(*args), weak=self._weak))


def _split(
    traced: Traced,
    primal_outputs: Sequence[UOp],
    linear_outputs: Sequence[UOp],
    unknown: Sequence[UOp],
    arrays: Sequence[Array],
    name: str,
) -> tuple[list[Array], Graph]:
    """The primal outputs' values, and the graph from `unknown` to the linear outputs that has captured the residuals."""
    graph = traced.graph
    residuals = split(linear_outputs, unknown)
    known = Graph(graph.inputs, [*primal_outputs, *residuals], graph.captured, graph.name)
    values = apply(known, arrays, traced.memo, [*traced.weak, *[False] * len(residuals)])
    stand_ins = {node: input_node(node.dtype, node.shape) for node in residuals}
    outputs = without_effects(substitute(linear_outputs, {**stand_ins, **{node: node for node in unknown}}))
    count = len(primal_outputs)
    return values[:count], Graph([*unknown, *stand_ins.values()], outputs, values[count:], name)


def linearize(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of `function` at `primals`, and its derivative there as a linear function of tangents.

    The returned function takes one tangent for each primal and can be called many times; the nonlinear part is
    computed once. Returns (value, linear function), or (value, linear function, auxiliary data) with `has_aux`."""
    given = Arguments("linearize", function, primals, {})
    check_differentiable("linearize", function, given, allow_int=True)
    called, memory = _with_aux(function, "linearize") if has_aux else (function, [])
    traced = trace_function(called, "linearize", given.arrays, given.rebuild, given.name, given.arrays)
    graph = traced.graph
    seeds = {
        node: input_node(node.dtype, node.shape) for node in graph.arguments if dtypes.is_inexact(node.dtype)
    }
    pushed, out_tangents = push_forward(graph.outputs, seeds)
    # Those computed together with tangents (by an op that holds a graph) are taken as they were, free of them.
    with_tangents = depends_on(toposort(pushed), seeds.values())
    outputs = [
        before if after in with_tangents else after
        for before, after in zip(graph.outputs, pushed, strict=True)
    ]
    count = _value_leaves(traced) if has_aux else len(outputs)
    dense = [
        instantiate(t, o)
        for o, t in zip(outputs[:count], out_tangents[:count], strict=True)
        if dtypes.is_inexact(o.dtype)
    ]
    values, linear = _split(
        traced, outputs, dense, list(seeds.values()), given.arrays, f"linear_{graph.name}"
    )

    def arguments(*tangents: Any) -> list[Array]:
        matched = _matching_tangents("the linear function of linearize", function, given, tangents)
        return [d for node, d in zip(graph.arguments, matched, strict=True) if node in seeds]

    def result(arrays: list[Array]) -> Any:
        leaves = with_float0(arrays, outputs[:count])
        if has_aux:
            return pytree.unflatten(traced.out_tree, leaves + [0] * (len(outputs) - count))[0]
        return pytree.unflatten(traced.out_tree, leaves)

    value = pytree.unflatten(traced.out_tree, values)
    weak = [
        flag
        for flag, o in zip(traced.weak[:count], outputs[:count], strict=True)
        if dtypes.is_inexact(o.dtype)
    ]
    if has_aux:
        return value[0], _Linear(linear, weak, arguments, result), _restore_aux(memory, value[1])
    return value, _Linear(linear, weak, arguments, result)


def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of `function` at `primals`, and the function from a cotangent of the value to those of the primals.

    The returned function can be called many times; it gives a tuple with one cotangent for each primal. Returns
    (value, function), or (value, function, auxiliary data) with `has_aux`."""
    given = Arguments("vjp", function, primals, {})
    check_differentiable("vjp", function, given, allow_int=True)
    called, memory = _with_aux(function, "vjp") if has_aux else (function, [])
    traced = trace_function(called, "vjp", given.arrays, given.rebuild, given.name, given.arrays)
    graph = traced.graph
    wrt = [node for node in graph.arguments if dtypes.is_inexact(node.dtype)]
    outputs, pullback = pull_back(graph.outputs, wrt)
    count = _value_leaves(traced) if has_aux else len(outputs)
    seeds = [input_node(o.dtype, o.shape) if dtypes.is_inexact(o.dtype) else None for o in outputs[:count]]
    in_cts = pullback([*seeds, *[None] * (len(outputs) - count)])
    dense = [instantiate(ct, node) for node, ct in zip(wrt, in_cts, strict=True)]
    values, linear = _split(
        traced, outputs, dense, [s for s in seeds if s is not None], given.arrays, f"vjp_{graph.name}"
    )
    value = pytree.unflatten(traced.out_tree, values)
    aux: Any = None
    if has_aux:
        value, aux = value
    value_tree = pytree.structure(value)

    def arguments(cotangent: Any) -> list[Array]:
        return _matching_cotangents(function, value_tree, outputs[:count], cotangent)

    def result(arrays: list[Array]) -> Any:
        return given.rebuild(with_float0(arrays, graph.arguments))[0]

    weak = [a.weak_type for a in given.arrays if dtypes.is_inexact(a.dtype)]
    pulled = _Linear(linear, weak, arguments, result)
    return (value, pulled, _restore_aux(memory, aux)) if has_aux else (value, pulled)


def _matching_cotangents(
    function: Callable[..., Any], tree: Any, outputs: Sequence[UOp], cotangent: Any
) -> list[Array]:
    found, found_tree = pytree.flatten_with_path(cotangent)
    name = describe_function(function)
    if found_tree != tree:
        raise TypeError(
            f"the vjp of {name}: the cotangent has the structure {found_tree}, but the value has {tree}; at {user_line()}"
        )
    result = []
    for node, (path, leaf) in zip(outputs, found, strict=True):
        if not dtypes.is_inexact(node.dtype):
            continue
        array = as_array(leaf)
        if array.weak_type and array.shape == ():
            array = array.astype(node.dtype)
        if array.shape != node.shape or array.dtype is not node.dtype:
            expected, given = (
                dtypes.describe(node.dtype, node.shape),
                dtypes.describe(array.dtype, array.shape),
            )
            raise TypeError(
                f"the vjp of {name}: the cotangent{pytree.keystr(path)} must be {expected} as the value is, not {given}; "
                f"at {user_line()}"
            )
        result.append(array)
    return result
