"""jvp, vjp, linearize and linear_transpose: derivatives as linear functions, and their transposes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from ..trace import dtype as dtypes
from ..trace import pytree
from ..trace.array import Array, as_array
from ..trace.errors import entry_point, user_line
from ..trace.graph import Graph, split
from ..trace.prim import instantiate
from ..trace.tracing import Traced, apply, describe_function, trace_function
from ..trace.uop import UOp, depends_on, input_node, substitute, toposort
from .arguments import (
    Arguments,
    argument_names,
    as_tuple,
    check_differentiable,
    float0_zeros,
    normalize_positions,
    restore_aux,
    with_aux,
    with_float0,
)
from .effects import without_effects
from .inspection import traced_function
from .jvp import push_forward
from .vjp import pull_back


@entry_point
def jvp(
    function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """The value of `function` at `primals` and its directional derivative along `tangents`.

    `tangents` has the structure, shapes and dtypes of `primals`. Returns (value, tangent), or (value, tangent,
    auxiliary data) with `has_aux`. Raises TypeError if primals and tangents do not match.

    >>> tinyfn.jvp(lambda x, y: x * y, (2.0, 3.0), (1.0, 0.0))
    (Array(6., dtype=float32), Array(3., dtype=float32))
    >>> value, tangent = tinyfn.jvp(lambda p: p["a"] ** 2, ({"a": 3.0},), ({"a": 1.0},))
    >>> tangent
    Array(6., dtype=float32)
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            f"jvp takes primals and tangents as tuples with one entry for each argument, jvp(f, (x,), (t,)); at {user_line()}"
        )
    given = Arguments("jvp", function, primals, {})
    directions = _matching_tangents("jvp", function, given, tangents)
    called, memory = with_aux(function, "jvp") if has_aux else (function, [])
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
        return value, tangent, restore_aux(memory, aux)
    return pytree.unflatten(traced.out_tree, primal_leaves), pytree.unflatten(traced.out_tree, tangent_leaves)


def _value_leaves(traced: Traced) -> int:
    """How many leaves the first of a pair of results has."""
    value, _ = pytree.unflatten(traced.out_tree, list(range(traced.out_tree.num_leaves)))
    return len(pytree.leaves(value))


def _in_arguments(expected: Any, found: Any) -> str:
    """Where positional arguments of another structure differ from those that were expected."""
    before, after = [
        pytree.structure(pytree.unflatten(tree, range(tree.num_leaves))[0]) for tree in (expected, found)
    ]
    return pytree.difference(before, after)


def _matching_tangents(
    transform: str, function: Callable[..., Any], given: Arguments, tangents: Sequence[Any]
) -> list[Array]:
    leaves, tree = pytree.flatten((tuple(tangents), {}))
    name = describe_function(function)
    if tree != given.tree:
        raise TypeError(
            f"{transform} of {name}: the tangents do not have the structure of the primals; {_in_arguments(given.tree, tree)}; "
            f"at {user_line()}"
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


class LinearFunction:
    """A linear function that was split from a graph: call it, any number of times, with what it is linear in.

    It is a pytree of the values that it has kept, so that a jitted function can return it, and be given it.

    >>> value, tangent = tinyfn.linearize(tnp.sin, tnp.zeros(3))
    >>> tangent
    <linear function linear_sin, which keeps 1 array>
    >>> tangent(tnp.ones(3))
    Array([1., 1., 1.], dtype=float32)
    """

    def __init__(
        self,
        graph: Graph,
        weak: Sequence[bool],
        arguments: Callable[..., list[Array]],
        result: Callable[[list[Array]], Any],
    ):
        self._graph, self._weak, self._arguments, self._result = graph, weak, arguments, result
        self._form = self

    @entry_point
    def __call__(self, *args: Any) -> Any:
        return self._result(apply(self._graph, self._arguments(*args), weak=self._weak))

    def __repr__(self) -> str:
        count = len(self._graph.captured)
        return f"<linear function {self._graph.name}, which keeps {count} array{'' if count == 1 else 's'}>"

    @classmethod
    def _with_kept(cls, form: LinearFunction, kept: Sequence[Any]) -> LinearFunction:
        graph = Graph(form._graph.inputs, form._graph.outputs, kept, form._graph.name)
        new = cls(graph, form._weak, form._arguments, form._result)
        new._form = form
        return new


# All that differ in what they have kept alone are of one form, the first of them.
pytree.register_pytree_node(
    LinearFunction, lambda linear: (linear._graph.captured, linear._form), LinearFunction._with_kept
)


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


@entry_point
def linearize(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of `function` at `primals`, and its derivative there as a linear function of tangents.

    The returned function takes one tangent for each primal, like it in shape and dtype (else it raises TypeError), and can be
    called many times; the nonlinear part is computed once. Returns (value, linear function), or (value,
    linear function, auxiliary data) with `has_aux`.

    >>> value, tangent = tinyfn.linearize(lambda x: x**2, 3.0)
    >>> tangent(1.0), tangent(10.0)
    (Array(6., dtype=float32), Array(60., dtype=float32))
    """
    given = Arguments("linearize", function, primals, {})
    check_differentiable("linearize", function, given, allow_int=True)
    called, memory = with_aux(function, "linearize") if has_aux else (function, [])
    traced = trace_function(called, "linearize", given.arrays, given.rebuild, given.name, given.arrays)
    graph = traced.graph
    seeds = {
        node: input_node(node.dtype, node.shape) for node in graph.arguments if dtypes.is_inexact(node.dtype)
    }
    pushed, out_tangents = push_forward(graph.outputs, seeds)
    # Of a loop, what does not depend on tangents is apart.
    from .partial import separated

    given_tangents = [t for t in out_tangents if t is not None]
    found = separated([*pushed, *given_tangents], list(seeds.values()))
    pushed, moved = found[: len(pushed)], iter(found[len(pushed) :])
    out_tangents = [None if t is None else next(moved) for t in out_tangents]
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
        return value[0], LinearFunction(linear, weak, arguments, result), restore_aux(memory, value[1])
    return value, LinearFunction(linear, weak, arguments, result)


@entry_point
def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of `function` at `primals`, and the function from a cotangent of the value to those of the primals.

    The returned function can be called many times; it gives a tuple with one cotangent for each primal, and raises TypeError for
    a cotangent that is not like the value. Returns (value, function), or (value, function, auxiliary data) with `has_aux`.

    >>> value, pull_back = tinyfn.vjp(lambda w, x: w @ x, tnp.ones((2, 3)), tnp.ones(3))
    >>> value
    Array([3., 3.], dtype=float32)
    >>> ct_w, ct_x = pull_back(tnp.array([1.0, 2.0]))
    >>> ct_w.shape, ct_x
    ((2, 3), Array([3., 3., 3.], dtype=float32))
    """
    given = Arguments("vjp", function, primals, {})
    check_differentiable("vjp", function, given, allow_int=True)
    called, memory = with_aux(function, "vjp") if has_aux else (function, [])
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

    def arguments(*cotangents: Any) -> list[Array]:
        return _matching_cotangents("vjp", function, value_tree, outputs[:count], cotangents)

    def result(arrays: list[Array]) -> Any:
        return given.rebuild(with_float0(arrays, graph.arguments))[0]

    weak = [a.weak_type for a in given.arrays if dtypes.is_inexact(a.dtype)]
    pulled = LinearFunction(linear, weak, arguments, result)
    return (value, pulled, restore_aux(memory, aux)) if has_aux else (value, pulled)


def _matching_cotangents(
    what: str, function: Callable[..., Any], tree: Any, outputs: Sequence[UOp], cotangents: tuple[Any, ...]
) -> list[Array]:
    """The cotangents of inexact outputs, which must be like them, from the one argument of a linear function."""
    name = describe_function(function)
    if len(cotangents) != 1:
        raise TypeError(
            f"the {what} of {name} takes one cotangent, of the structure of the value, and not {len(cotangents)}; at "
            f"{user_line()}: for a function that returns a tuple it is a tuple"
        )
    found, found_tree = pytree.flatten_with_path(cotangents[0])
    if found_tree != tree:
        raise TypeError(
            f"the {what} of {name}: the cotangent does not have the structure of the value; "
            f"{pytree.difference(tree, found_tree)}; at {user_line()}"
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
                f"the {what} of {name}: the cotangent{pytree.keystr(path)} must be {expected} as the value is, not {given}; "
                f"at {user_line()}"
            )
        result.append(array)
    return result


@entry_point
def linear_transpose(function: Callable[..., Any], *primals: Any) -> Callable[..., tuple[Any, ...]]:
    """The transpose of a linear function: from a cotangent of its value to a tuple with one cotangent for each argument.

    `primals` are arrays, or anything with a shape and a dtype, like the function's arguments; nothing is computed with them.
    Raises TypeError if an argument or result is not of floats, or if the function is not linear. (What is added to a linear
    function is the same for all arguments, and has no part in the transpose.)

    >>> a = tnp.array([[1.0, 2.0], [3.0, 4.0]])
    >>> transpose = tinyfn.linear_transpose(lambda v: a @ v, tnp.zeros(2))
    >>> transpose(tnp.array([1.0, 0.0]))  # a.T @ w
    (Array([1., 2.], dtype=float32),)
    """
    leaves, tree = pytree.flatten(primals)
    graph = (traced := traced_function(function, "linear_transpose", primals, {})).graph
    for is_argument, nodes in ((True, graph.arguments), (False, graph.outputs)):
        for i, node in enumerate(nodes):
            if not dtypes.is_inexact(node.dtype):
                what = f"argument `{argument_names(function, primals, {})[i]}`" if is_argument else "a result"
                raise TypeError(
                    f"linear_transpose of {describe_function(function)}: {what} is {dtypes.describe(node.dtype, node.shape)}, "
                    f"but it is for functions of floats; at {user_line()}: cast it with .astype('float32')"
                )
    outputs, pullback = pull_back(graph.outputs, graph.arguments)
    seeds = [input_node(o.dtype, o.shape) for o in outputs]
    in_cts = [instantiate(ct, n) for ct, n in zip(pullback(seeds), graph.arguments, strict=True)]
    order = toposort(in_cts)
    dependent = depends_on(order, graph.arguments)
    if not dependent.isdisjoint(in_cts):
        culprit = next(n for n in order if n in dependent and not set(n.src) <= dependent)
        raise TypeError(
            f"linear_transpose of {describe_function(function)}: it is not linear, since its derivative depends on the arguments "
            f"(through {culprit.op.name}); at {user_line()}: use vjp, which transposes the derivative at given arguments"
        )
    hidden = graph.inputs[len(graph.arguments) :]
    transposed = Graph([*seeds, *hidden], in_cts, graph.captured, f"transpose_{graph.name}")
    weak = [bool(getattr(leaf, "weak_type", False)) for leaf in leaves]

    def arguments(*cotangents: Any) -> list[Array]:
        return _matching_cotangents("linear_transpose", function, traced.out_tree, outputs, cotangents)

    def result(arrays: list[Array]) -> Any:
        return pytree.unflatten(tree, arrays)

    return LinearFunction(transposed, weak, arguments, result)


@entry_point
def fwd_and_bwd(
    function: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool = False, jitted: bool = True
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The two passes of reverse mode as functions of their own, each traced once.

    `forward(*args)` returns (value, kept), or (value, kept, auxiliary data) with `has_aux`; `backward(kept, cotangent)`
    returns the cotangent of the argument `argnums`, or a tuple of them if it is a sequence.

    >>> forward, backward = tinyfn.fwd_and_bwd(lambda w, x: tnp.sum(w * x), argnums=(0, 1))
    >>> value, kept = forward(tnp.array([1.0, 2.0]), tnp.array([3.0, 4.0]))
    >>> value
    Array(11., dtype=float32)
    >>> backward(kept, 1.0)
    (Array([3., 4.], dtype=float32), Array([1., 2.], dtype=float32))
    """
    positions = as_tuple(argnums)

    def forward(*args: Any) -> Any:
        chosen = normalize_positions("argnums", function, positions, len(args))

        @wraps(function)
        def of_chosen(*some: Any) -> Any:
            everything = list(args)
            for position, arg in zip(chosen, some, strict=True):
                everything[position] = arg
            return function(*everything)

        return vjp(of_chosen, *[args[i] for i in chosen], has_aux=has_aux)

    def backward(kept: Any, cotangent: Any) -> Any:
        found = kept(cotangent)
        return found[0] if isinstance(argnums, int) else found

    if not jitted:
        return forward, backward
    from .jit import jit

    return jit(forward), jit(backward)
