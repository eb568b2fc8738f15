"""custom_jvp and custom_vjp: functions that bring their own derivative.

When such a function is called in a trace, the function and its rules are traced at once, so that whatever they close over
becomes an argument of the node; the rules are then graphs like any other, and every transform passes through them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, update_wrapper
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import prims, pytree
from ..trace.array import Array, as_array
from ..trace.errors import user_line
from ..trace.graph import Graph
from ..trace.prim import Aval, Sample, broadcast_to_batch, instantiate_batch, zeros_like
from ..trace.tracing import Traced, Tracer, current_trace, describe_function, trace_function, tracer
from ..trace.uop import UOp, input_node
from .arguments import Arguments, normalize_positions
from .structured import Structured, check_arguments, cotangents_or_zeros
from .vjp import pull_back
from .vmap import batch_graph


def _forbid(name: str, what: Sequence[Any], count: int) -> None:
    if any(what[count:]):
        raise TypeError(
            f"{name} can't be differentiated with respect to an array that the function closes over, because its rule gives "
            "no derivative for it; pass the array as an argument of the function, or wrap it in stop_gradient"
        )


class CustomJvp(Structured):
    """The results of `graph`, whose tangents `rule` computes from the first `count` arguments and their tangents.

    The arguments after those are what function and rule closed over. The rule's inputs are: the arguments, the tangents
    of the inexact ones, what was closed over; its results: the tangents of the inexact results."""

    params = ("graph", "rule", "count", "label")
    name = "custom_jvp"

    def out(self, *args: Any, graph: Graph, rule: Graph, count: int, label: str) -> Any:  # type: ignore[override]
        return check_arguments(label, graph, args)

    def reference(self, *args: Any, graph: Graph, rule: Graph, count: int, label: str) -> Any:
        return graph.run(args)

    def jvp_results(self, args: Sequence[UOp], tangents: Sequence[UOp | None], *, graph: Graph, rule: Graph, count: int, label: str) -> Any:  # type: ignore[override]
        _forbid(f"custom_jvp function {label}", [t is not None for t in tangents], count)
        dense = [
            zeros_like(a) if t is None else t for a, t in zip(args[:count], tangents[:count], strict=True) if dtypes.is_inexact(a.dtype)
        ]
        found = iter(rule.inline([*args[:count], *dense, *args[count:]]))
        results = self.apply(*args, graph=graph, rule=rule, count=count, label=label)
        return results, [next(found) if dtypes.is_inexact(r.dtype) else None for r in results]

    def _tangents(self, rule: Graph, count: int, avals: Sequence[Any]) -> Graph:
        """The rule with its inputs in the order: arguments, closed over, tangents."""
        inexact = sum(dtypes.is_inexact(a.dtype) for a in avals[:count])
        inputs = rule.inputs
        order = [*inputs[:count], *inputs[count + inexact :], *inputs[count : count + inexact]]
        key = "tangents last"
        if key not in rule.derived:
            rule.derived[key] = Graph(order, rule.outputs, name=rule.name)
        return rule.derived[key]

    def vjp_forward(self, args: Sequence[UOp], needs: Sequence[bool], *, graph: Graph, rule: Graph, count: int, label: str) -> Any:  # type: ignore[override]
        _forbid(f"custom_jvp function {label}", needs, count)
        return self.apply(*args, graph=graph, rule=rule, count=count, label=label), None

    def vjp_backward(self, args: Sequence[UOp], kept: Any, cts: Sequence[UOp | None], needs: Sequence[bool], *, graph: Graph, rule: Graph, count: int, label: str) -> Any:  # type: ignore[override]
        linear = self._tangents(rule, count, args)
        tangents = linear.inputs[len(args) :]
        seeds = [input_node(t.dtype, t.shape) for t in tangents]
        # The rule at these arguments, linear in fresh tangents, which is then transposed.
        outputs, pullback = pull_back(linear.inline([*args, *seeds]), seeds)
        inexact = [ct for ct, out in zip(cts, graph.outputs, strict=True) if dtypes.is_inexact(out.dtype)]
        found = iter(pullback(inexact))
        per_argument = [next(found) if dtypes.is_inexact(a.dtype) else None for a in args[:count]]
        return [*per_argument, *[None] * (len(args) - count)]

    def batch_results(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], *, graph: Graph, rule: Graph, count: int, label: str) -> Any:  # type: ignore[override]
        args = _all_batched(size, args, batched)
        derived, flags = batch_graph(graph, size, (True,) * len(args))
        derived = _all_outputs_batched(graph, derived, flags, size)
        batched_rule, rule_flags = batch_graph(rule, size, (True,) * len(rule.inputs))
        batched_rule = _all_outputs_batched(rule, batched_rule, rule_flags, size)
        results = self.apply(*args, graph=derived, rule=batched_rule, count=count, label=label)
        return results, [True] * len(results)

    def samples(self) -> Iterator[Sample]:
        # x sin(x), with its derivative.
        x, t = input_node(dtypes.float32, (3,)), input_node(dtypes.float32, (3,))
        graph = Graph([x], [x * prims.sin(x)])
        rule = Graph([x, t], [t * (prims.sin(x) + x * prims.cos(x))])
        params = {"graph": graph, "rule": rule, "count": 1, "label": "x_sin_x"}
        yield Sample((np.array([0.5, -1.0, 2.0], np.float32),), params)


class CustomVjp(Structured):
    """The results of `graph`, whose reverse mode is `forward` (results and residuals) and `backward`.

    The arguments after the first `count` are what function and rules closed over. The inputs of graph and forward are
    the arguments; those of backward: residuals, cotangents of the inexact results, what was closed over; its results:
    cotangents of the inexact ones among the first `count` arguments."""

    params = ("graph", "forward", "backward", "count", "label")
    name = "custom_vjp"

    def out(self, *args: Any, graph: Graph, forward: Graph, backward: Graph, count: int, label: str) -> Any:  # type: ignore[override]
        return check_arguments(label, graph, args)

    def reference(self, *args: Any, graph: Graph, forward: Graph, backward: Graph, count: int, label: str) -> Any:
        return graph.run(args)

    def jvp_results(self, args: Sequence[UOp], tangents: Sequence[UOp | None], **params: Any) -> Any:
        raise TypeError(
            f"forward mode (jvp, jacfwd, hessian, linearize) of the custom_vjp function {params['label']}: it defines reverse mode "
            "only; define it with custom_jvp, from which reverse mode follows"
        )

    def vjp_forward(self, args: Sequence[UOp], needs: Sequence[bool], *, graph: Graph, forward: Graph, backward: Graph, count: int, label: str) -> Any:  # type: ignore[override]
        _forbid(f"custom_vjp function {label}", needs, count)
        results = forward.inline(args)
        return results[: len(graph.outputs)], results[len(graph.outputs) :]

    def vjp_backward(self, args: Sequence[UOp], kept: Any, cts: Sequence[UOp | None], needs: Sequence[bool], *, graph: Graph, forward: Graph, backward: Graph, count: int, label: str) -> Any:  # type: ignore[override]
        found = iter(backward.inline([*kept, *cotangents_or_zeros(cts, graph.outputs), *args[count:]]))
        per_argument = [next(found) if dtypes.is_inexact(a.dtype) else None for a in args[:count]]
        return [*per_argument, *[None] * (len(args) - count)]

    def batch_results(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], *, graph: Graph, forward: Graph, backward: Graph, count: int, label: str) -> Any:  # type: ignore[override]
        args = _all_batched(size, args, batched)
        graphs = []
        for each in (graph, forward, backward):
            derived, flags = batch_graph(each, size, (True,) * len(each.inputs))
            graphs.append(_all_outputs_batched(each, derived, flags, size))
        results = self.apply(*args, graph=graphs[0], forward=graphs[1], backward=graphs[2], count=count, label=label)
        return results, [True] * len(results)

    def samples(self) -> Iterator[Sample]:
        x, ct = input_node(dtypes.float32, (3,)), input_node(dtypes.float32, (3,))
        value, derivative = x * prims.sin(x), prims.sin(x) + x * prims.cos(x)
        graphs = {"graph": Graph([x], [value]), "forward": Graph([x], [value, derivative])}
        backward = Graph([derivative_in := input_node(dtypes.float32, (3,)), ct], [ct * derivative_in])
        params = {**graphs, "backward": backward, "count": 1, "label": "x_sin_x"}
        # It has no forward mode, which the tests of derivatives would ask for.
        yield Sample((np.array([0.5, -1.0, 2.0], np.float32),), params, differentiable=False)


def _all_batched(size: Any, args: Sequence[UOp], batched: Sequence[bool]) -> list[UOp]:
    return instantiate_batch(size, args, batched)


def _all_outputs_batched(graph: Graph, derived: Graph, flags: Sequence[bool], size: Any) -> Graph:
    """The batched graph with the batch axis on every output, so that all rules of a function agree on it."""
    if all(flags):
        return derived
    key = ("all outputs batched", size)
    if key not in graph.derived:
        outputs = [out if flag else broadcast_to_batch(out, size) for out, flag in zip(derived.outputs, flags, strict=True)]
        graph.derived[key] = Graph(derived.inputs, outputs, name=derived.name)
    return graph.derived[key]


custom_jvp_call, custom_vjp_call = CustomJvp(), CustomVjp()


class _Custom:
    """What custom_jvp and custom_vjp share: arguments, and those that are not differentiated."""

    kind = ""

    def __init__(self, function: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()):
        update_wrapper(self, function)
        self.function = function
        self.nondiff_argnums = tuple(nondiff_argnums)
        self.nondiff_argnames = tuple(nondiff_argnames)
        self.__name__ = describe_function(function)

    def _resolve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """All arguments by position, with defaults filled in, and the positions that are not differentiated."""
        import inspect  # here, because it takes as long to import as half of this package

        signature = inspect.signature(self.function)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(f"{self.kind} function {self.__name__} can't have keyword-only arguments: {', '.join(bound.kwargs)}")
        args = bound.args
        parameters = list(signature.parameters)
        named = tuple([parameters.index(name) for name in self.nondiff_argnames])
        return args, normalize_positions("nondiff_argnums", self.function, (*self.nondiff_argnums, *named), len(args))

    def _merge(self, nondiff: dict[int, Any], diff: Sequence[Any]) -> list[Any]:
        rest = iter(diff)
        return [nondiff[i] if i in nondiff else next(rest) for i in range(len(nondiff) + len(diff))]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return partial(self, instance)


def _results(traced: Traced, nodes: Sequence[UOp]) -> Any:
    trace = current_trace()
    assert trace is not None
    return pytree.unflatten(traced.out_tree, [tracer(trace, node, weak) for node, weak in zip(nodes, traced.weak, strict=True)])


def _close(graphs: Sequence[Traced]) -> tuple[list[Array], list[list[UOp]]]:
    """The arrays that any of the graphs captured, once each, and for each graph its hidden inputs in that order."""
    arrays: list[Array] = []
    index: dict[Any, int] = {}
    for traced in graphs:
        for array in traced.graph.captured:
            key = array.uop if isinstance(array, Tracer) else id(array)
            if key not in index:
                index[key] = len(arrays)
                arrays.append(array)
    hidden = []
    for traced in graphs:
        inputs: list[UOp | None] = [None] * len(arrays)
        own = traced.graph.inputs[len(traced.graph.arguments) :]
        for node, array in zip(own, traced.graph.captured, strict=True):
            inputs[index[array.uop if isinstance(array, Tracer) else id(array)]] = node
        hidden.append([input_node(a.dtype, a.shape) if n is None else n for n, a in zip(inputs, arrays, strict=True)])
    return arrays, hidden


class custom_jvp(_Custom):
    """A function with a derivative of its own: decorate it, then give the rule with `defjvp`.

    The rule takes (primals, tangents), preceded by the arguments listed in `nondiff_argnums`, and returns (value,
    tangent of the value). It must be linear in the tangents; reverse mode follows from it. Rules of single arguments
    can be given with `defjvps`."""

    kind = "custom_jvp"
    _rule: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule; can be used as a decorator."""
        self._rule = rule
        return rule

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """Set one rule for each argument: rule(tangent, value, *primals) -> tangent, or None for zero."""

        def rule(*args: Any) -> Any:
            *nondiff, primals, tangents = args
            value = self(*self._merge(dict(zip(self.nondiff_argnums, nondiff, strict=True)), primals))
            terms = [r(t, value, *primals) for r, t in zip(rules, tangents, strict=True) if r is not None]
            if not terms:
                return value, value * 0
            total = terms[0]
            for term in terms[1:]:
                total = pytree.map(lambda a, b: a + b, total, term)
            return value, total

        self._rule = rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        trace = current_trace()
        if trace is None:
            return self.function(*args, **kwargs)
        if self._rule is None:
            raise TypeError(f"custom_jvp function {self.__name__} has no rule yet: give it one with {self.__name__}.defjvp; at {user_line()}")
        args, positions = self._resolve(args, kwargs)
        nondiff = {i: args[i] for i in positions}
        given = Arguments("custom_jvp", self.function, [a for i, a in enumerate(args) if i not in nondiff], {})

        def call(*diff: Any) -> Any:
            return self.function(*self._merge(nondiff, diff))

        call.__name__ = self.__name__
        primal = trace_function(call, "custom_jvp", given.arrays, given.rebuild, given.name, given.arrays)
        tangents = [Aval(a.dtype, a.shape) for a in given.arrays if dtypes.is_inexact(a.dtype)]

        def rule(primals: tuple[Any, ...], directions: tuple[Any, ...]) -> Any:
            assert self._rule is not None
            pair = self._rule(*[nondiff[i] for i in sorted(nondiff)], primals, directions)
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(f"the jvp rule of {self.__name__} must return a pair (value, tangent), not {type(pair).__name__}")
            return self._checked_tangents(primal, pair[1])

        def rebuild(leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            from .derivatives import float0_zeros

            count = len(given.arrays)
            found = iter(leaves[count:])
            directions = [next(found) if dtypes.is_inexact(a.dtype) else float0_zeros(a.shape) for a in given.arrays]
            return (given.rebuild(leaves[:count])[0], given.rebuild(directions)[0]), {}

        rule.__name__ = f"the jvp rule of {self.__name__}"
        traced = trace_function(rule, "custom_jvp", [*given.arrays, *tangents], rebuild, None, [*given.arrays, *[None] * len(tangents)])
        arrays, hidden = _close([primal, traced])
        count = len(given.arrays)
        nodes = custom_jvp_call.apply(
            *[trace.lift(a) for a in (*given.arrays, *arrays)],
            graph=Graph([*primal.graph.arguments, *hidden[0]], primal.graph.outputs, name=self.__name__),
            rule=Graph([*traced.graph.arguments, *hidden[1]], traced.graph.outputs, name=f"jvp_rule_{self.__name__}"),
            count=count,
            label=self.__name__,
        )
        return _results(primal, nodes)

    def _checked_tangents(self, primal: Traced, tangent: Any) -> list[Any]:
        return _matching(f"the jvp rule of {self.__name__} returned a tangent", primal.out_tree, primal.graph.outputs, tangent)


class custom_vjp(_Custom):
    """A function with a reverse mode of its own: decorate it, then give the rules with `defvjp(forward, backward)`.

    forward(*args) returns (value, residuals); backward(residuals, cotangent), preceded by the arguments listed in
    `nondiff_argnums`, returns a tuple with the cotangent of each differentiated argument (None for zero)."""

    kind = "custom_vjp"
    _rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Set the rules."""
        self._rules = forward, backward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        trace = current_trace()
        if trace is None:
            return self.function(*args, **kwargs)
        if self._rules is None:
            raise TypeError(f"custom_vjp function {self.__name__} has no rules yet: give them with {self.__name__}.defvjp; at {user_line()}")
        forward, backward = self._rules
        args, positions = self._resolve(args, kwargs)
        nondiff = {i: args[i] for i in positions}
        given = Arguments("custom_vjp", self.function, [a for i, a in enumerate(args) if i not in nondiff], {})

        def call(*diff: Any) -> Any:
            return self.function(*self._merge(nondiff, diff))

        def call_forward(*diff: Any) -> Any:
            pair = forward(*self._merge(nondiff, diff))
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(f"the forward rule of {self.__name__} must return a pair (value, residuals), not {type(pair).__name__}")
            value = _matching(f"the forward rule of {self.__name__} returned a value", primal.out_tree, primal.graph.outputs, pair[0], every=True)
            leaves, tree[0] = pytree.flatten(pair[1])
            return value, leaves

        tree: list[Any] = [None]
        call.__name__, call_forward.__name__ = self.__name__, f"the forward rule of {self.__name__}"
        primal = trace_function(call, "custom_vjp", given.arrays, given.rebuild, given.name, given.arrays)
        traced_forward = trace_function(call_forward, "custom_vjp", given.arrays, given.rebuild, given.name, given.arrays)
        residuals = traced_forward.graph.outputs[len(primal.graph.outputs) :]
        inexact = [node for node in primal.graph.outputs if dtypes.is_inexact(node.dtype)]

        def call_backward(residual: Any, cotangent: Any) -> Any:
            cts = backward(*[nondiff[i] for i in sorted(nondiff)], residual, cotangent)
            if isinstance(cts, list):
                cts = tuple(cts)
            return self._checked_cotangents(given, cts)

        def rebuild(leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            from .derivatives import float0_zeros

            found = iter(leaves[len(residuals) :])
            cts = [next(found) if dtypes.is_inexact(n.dtype) else float0_zeros(n.shape) for n in primal.graph.outputs]
            return (pytree.unflatten(tree[0], leaves[: len(residuals)]), pytree.unflatten(primal.out_tree, cts)), {}

        call_backward.__name__ = f"the backward rule of {self.__name__}"
        avals = [Aval(node.dtype, node.shape) for node in (*residuals, *inexact)]
        traced_backward = trace_function(call_backward, "custom_vjp", avals, rebuild)
        arrays, hidden = _close([primal, traced_forward, traced_backward])
        graphs = [
            Graph([*traced.graph.arguments, *inputs], traced.graph.outputs, name=prefix + self.__name__)
            for traced, inputs, prefix in zip((primal, traced_forward, traced_backward), hidden, ("", "forward_", "backward_"), strict=True)
        ]
        nodes = custom_vjp_call.apply(
            *[trace.lift(a) for a in (*given.arrays, *arrays)],
            graph=graphs[0], forward=graphs[1], backward=graphs[2], count=len(given.arrays), label=self.__name__,
        )  # fmt: skip
        return _results(primal, nodes)

    def _checked_cotangents(self, given: Arguments, cts: Any) -> list[Any]:
        """One cotangent for each inexact leaf of the arguments; None stands for zeros of a whole argument."""
        what = f"the backward rule of {self.__name__}"
        args, _ = given.rebuild(list(given.arrays))
        if not isinstance(cts, tuple) or len(cts) != len(args):
            found = f"{len(cts)} results" if isinstance(cts, tuple) else type(cts).__name__
            raise TypeError(f"{what} must return a tuple with one cotangent for each of its {len(args)} differentiated arguments, not {found}")
        result = []
        for position, (arg, ct) in enumerate(zip(args, cts, strict=True)):
            leaves, tree = pytree.flatten(arg)
            found_leaves = [None] * len(leaves) if ct is None else pytree.flatten(ct, is_leaf=lambda x: x is None)[0]
            if len(found_leaves) != len(leaves):
                raise TypeError(f"{what}: the cotangent of argument {position} has the structure {pytree.structure(ct)}, but the argument has {tree}")
            for leaf, found in zip(leaves, found_leaves, strict=True):
                if not dtypes.is_inexact(leaf.dtype):
                    continue
                if found is None:
                    result.append(_zeros(leaf))
                    continue
                array = as_array(found)
                if array.shape != leaf.shape:
                    raise TypeError(f"{what}: the cotangent of argument {position} is {dtypes.describe(array.dtype, array.shape)}, but the argument is {dtypes.describe(leaf.dtype, leaf.shape)}")
                result.append(array if array.dtype is leaf.dtype else prims.convert(array, dtype=leaf.dtype))
        return result


def _zeros(like: Any) -> Any:
    trace = current_trace()
    assert trace is not None
    return tracer(trace, zeros_like(Aval(like.dtype, like.shape)))


def _matching(what: str, tree: Any, nodes: Sequence[UOp], value: Any, every: bool = False) -> list[Any]:
    """The leaves of a rule's result, which must match the function's own; only the inexact ones unless `every`."""
    leaves, found_tree = pytree.flatten(value)
    if found_tree != tree:
        raise TypeError(f"{what} with the structure {found_tree}, but the function's value has {tree}")
    result = []
    for leaf, node in zip(leaves, nodes, strict=True):
        if not every and not dtypes.is_inexact(node.dtype):
            continue
        array = as_array(leaf)
        if array.shape != node.shape:
            found, expected = dtypes.describe(array.dtype, array.shape), dtypes.describe(node.dtype, node.shape)
            raise TypeError(f"{what} {found}, but the function's value is {expected}")
        result.append(array if array.dtype is node.dtype else prims.convert(array, dtype=node.dtype))
    return result
