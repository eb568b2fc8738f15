"""custom_jvp and custom_vjp: functions that bring their own derivative.

When such a function is called in a trace, the function and its rules are traced at once, so that whatever they close over
becomes an argument of the node; the rules are then graphs like any other, and every transform passes through them.

A rule may call the function itself (`y = f(x); return y, t * (1 - y * y)`). Tracing the rules of that call at once would
never end, so they are traced when a further derivative first asks for them. What they close over must be known before:
it is what the outer call closes over, found by tracing the rules a first time with the plain function in such calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial, update_wrapper
from typing import Any, cast

import numpy as np

from ..trace import dtype as dtypes
from ..trace import prims, pytree
from ..trace.array import Array, as_array
from ..trace.errors import user_line
from ..trace.graph import Graph
from ..trace.prim import Aval, Sample, broadcast_to_batch, instantiate_batch, zeros_like
from ..trace.prims.extern import HostFunction
from ..trace.tracing import (
    Closed,
    Traced,
    Tracer,
    current_trace,
    describe_function,
    identity,
    trace_function,
    traced_rules,
    tracer,
    tracing_rules,
)
from ..trace.uop import UOp, const, depends_on, input_node, substitute, toposort
from .arguments import Arguments, as_tuple, normalize_positions
from .structured import Structured, check_arguments, cotangents_or_zeros, with_contents
from .vjp import pull_back
from .vmap import batch_graph


def _forbid(name: str, what: Sequence[Any], count: int) -> None:
    if any(what[count:]):
        raise TypeError(
            f"{name} can't be differentiated with respect to an array that the function closes over, because its rule gives "
            "no derivative for it; pass the array as an argument of the function, or wrap it in stop_gradient"
        )


class Rules:
    """The derivative rules of one call of a custom function: graphs, made when they are first asked for."""

    __slots__ = ("_batched", "_graphs", "_make")

    def __init__(self, make: Callable[[], tuple[Graph, ...]]):
        self._make = make
        self._graphs: tuple[Graph, ...] | None = None
        self._batched: tuple[Any, Rules] | None = None

    def __repr__(self) -> str:
        return "None"  # a printed graph computes values; its derivatives were taken before it was printed

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The rules themselves."""
        graphs = self._graphs
        if graphs is None:
            self._graphs = graphs = self._make()
        return graphs

    def batched(self, size: Any) -> Rules:
        """The rules over a leading batch axis of everything that they take and give."""
        last = self._batched
        if last is None or last[0] != size:
            self._batched = last = (
                size,
                Rules(lambda: tuple([_batch_everything(graph, size) for graph in self.graphs])),
            )
        return last[1]


class CustomJvp(Structured):
    """The results of `graph`, whose tangents a rule computes from the first `count` arguments and their tangents.

    The arguments after those are what function and rule closed over. The rule's inputs are: the arguments, the tangents
    of the inexact ones, what was closed over; its results: the tangents of the inexact results."""

    params = ("graph", "rules", "count", "label")
    name = "custom_jvp"

    def out(self, *args: Any, graph: Graph, rules: Rules, count: int, label: str) -> Any:
        return check_arguments(label, graph, args)

    def reference(self, *args: Any, graph: Graph, rules: Rules, count: int, label: str) -> Any:
        return graph.run(args)

    def jvp_results(
        self,
        args: Sequence[UOp],
        tangents: Sequence[UOp | None],
        *,
        graph: Graph,
        rules: Rules,
        count: int,
        label: str,
    ) -> Any:
        _forbid(f"custom_jvp function {label}", [t is not None for t in tangents], count)
        dense = [
            zeros_like(a) if t is None else t
            for a, t in zip(args[:count], tangents[:count], strict=True)
            if dtypes.is_inexact(a.dtype)
        ]
        (rule,) = rules.graphs
        found = iter(rule.inline([*args[:count], *dense, *args[count:]]))
        results = self.apply(*args, graph=graph, rules=rules, count=count, label=label)
        return results, [next(found) if dtypes.is_inexact(r.dtype) else None for r in results]

    def _tangents(self, rule: Graph, count: int, avals: Sequence[Any]) -> Graph:
        """The rule with its inputs in the order: arguments, closed over, tangents."""
        inexact = sum(dtypes.is_inexact(a.dtype) for a in avals[:count])
        inputs = rule.inputs
        order = [*inputs[:count], *inputs[count + inexact :], *inputs[count : count + inexact]]
        return rule.derive("tangents last", lambda: Graph(order, rule.outputs, name=rule.name))

    def vjp_forward(
        self,
        args: Sequence[UOp],
        needs: Sequence[bool],
        *,
        graph: Graph,
        rules: Rules,
        count: int,
        label: str,
    ) -> Any:
        _forbid(f"custom_jvp function {label}", needs, count)
        return self.apply(*args, graph=graph, rules=rules, count=count, label=label), None

    def vjp_backward(
        self,
        args: Sequence[UOp],
        kept: Any,
        cts: Sequence[UOp | None],
        needs: Sequence[bool],
        *,
        graph: Graph,
        rules: Rules,
        count: int,
        label: str,
    ) -> Any:
        (rule,) = rules.graphs
        linear = self._tangents(rule, count, args)
        tangents = linear.inputs[len(args) :]
        seeds = [input_node(t.dtype, t.shape) for t in tangents]
        # The rule at these arguments, linear in fresh tangents, which is then transposed.
        _, pullback = pull_back(_plain(linear.inline([*args, *seeds]), seeds), seeds)
        inexact = [ct for ct, out in zip(cts, graph.outputs, strict=True) if dtypes.is_inexact(out.dtype)]
        # The result does not depend on the values of the seeds; an op in the rule that holds a graph may still take them.
        zeros = {seed: zeros_like(seed) for seed in seeds}
        cotangents = pullback(inexact)
        free = iter(substitute([ct for ct in cotangents if ct is not None], zeros))
        found = iter([None if ct is None else next(free) for ct in cotangents])
        per_argument = [next(found) if dtypes.is_inexact(a.dtype) else None for a in args[:count]]
        return [*per_argument, *[None] * (len(args) - count)]

    def batch_results(
        self,
        size: Any,
        args: Sequence[UOp],
        batched: Sequence[bool],
        *,
        graph: Graph,
        rules: Rules,
        count: int,
        label: str,
    ) -> Any:
        args = instantiate_batch(size, args, batched)
        derived = _batch_everything(graph, size)
        results = self.apply(*args, graph=derived, rules=rules.batched(size), count=count, label=label)
        return results, [True] * len(results)

    def samples(self) -> Iterator[Sample]:
        # x sin(x), with its derivative.
        x, t = input_node(dtypes.float32, (3,)), input_node(dtypes.float32, (3,))
        graph = Graph([x], [x * prims.sin(x)])
        rule = Graph([x, t], [t * (prims.sin(x) + x * prims.cos(x))])
        params = {"graph": graph, "rules": Rules(lambda: (rule,)), "count": 1, "label": "x_sin_x"}
        yield Sample((np.array([0.5, -1.0, 2.0], np.float32),), params)


class CustomVjp(Structured):
    """The results of `graph`, whose reverse mode is two rules, forward (results and residuals) and backward.

    The arguments after the first `count` are what function and rules closed over. The inputs of graph and forward are
    the arguments; those of backward: residuals, cotangents of the inexact results, what was closed over; its results:
    cotangents of the inexact ones among the first `count` arguments."""

    params = ("graph", "rules", "count", "label")
    name = "custom_vjp"

    def out(self, *args: Any, graph: Graph, rules: Rules, count: int, label: str) -> Any:
        return check_arguments(label, graph, args)

    def reference(self, *args: Any, graph: Graph, rules: Rules, count: int, label: str) -> Any:
        return graph.run(args)

    def jvp_results(self, args: Sequence[UOp], tangents: Sequence[UOp | None], **params: Any) -> Any:
        raise TypeError(
            f"forward mode (jvp, jacfwd, hessian, linearize) of the custom_vjp function {params['label']}: it defines "
            "reverse mode only; define it with custom_jvp, from which reverse mode follows"
        )

    def vjp_forward(
        self,
        args: Sequence[UOp],
        needs: Sequence[bool],
        *,
        graph: Graph,
        rules: Rules,
        count: int,
        label: str,
    ) -> Any:
        _forbid(f"custom_vjp function {label}", needs, count)
        results = rules.graphs[0].inline(args)
        return results[: len(graph.outputs)], results[len(graph.outputs) :]

    def vjp_backward(
        self,
        args: Sequence[UOp],
        kept: Any,
        cts: Sequence[UOp | None],
        needs: Sequence[bool],
        *,
        graph: Graph,
        rules: Rules,
        count: int,
        label: str,
    ) -> Any:
        found = iter(rules.graphs[1].inline([*kept, *cotangents_or_zeros(cts, graph.outputs), *args[count:]]))
        per_argument = [next(found) if dtypes.is_inexact(a.dtype) else None for a in args[:count]]
        return [*per_argument, *[None] * (len(args) - count)]

    def batch_results(
        self,
        size: Any,
        args: Sequence[UOp],
        batched: Sequence[bool],
        *,
        graph: Graph,
        rules: Rules,
        count: int,
        label: str,
    ) -> Any:
        args = instantiate_batch(size, args, batched)
        derived = _batch_everything(graph, size)
        results = self.apply(*args, graph=derived, rules=rules.batched(size), count=count, label=label)
        return results, [True] * len(results)

    def samples(self) -> Iterator[Sample]:
        x, ct = input_node(dtypes.float32, (3,)), input_node(dtypes.float32, (3,))
        value, derivative = x * prims.sin(x), prims.sin(x) + x * prims.cos(x)
        forward = Graph([x], [value, derivative])
        backward = Graph([derivative_in := input_node(dtypes.float32, (3,)), ct], [ct * derivative_in])
        params = {
            "graph": Graph([x], [value]),
            "rules": Rules(lambda: (forward, backward)),
            "count": 1,
            "label": "x_sin_x",
        }
        # It has no forward mode, which the tests of derivatives would ask for.
        yield Sample((np.array([0.5, -1.0, 2.0], np.float32),), params, differentiable=False)


def _plain(outputs: Sequence[UOp], seeds: Sequence[UOp]) -> list[UOp]:
    """The outputs, with the plain function in the place of custom_jvp functions of the seeds.

    In these they are linear, so that the function can be transposed as it is; its rule, such as t -> f(t), may call it."""
    order = toposort(outputs)
    dependent = depends_on(order, seeds)
    if not any(node.op is custom_jvp_call and node in dependent for node in order):
        return list(outputs)
    found = with_contents(
        outputs,
        lambda node: node.params["graph"] if node.op is custom_jvp_call and node in dependent else None,
    )
    return _plain(found, seeds)  # which may call others


def _batch_everything(graph: Graph, size: Any) -> Graph:
    """The graph with a leading batch axis on every input and output, so that all rules of a function agree on it."""
    derived, flags = batch_graph(graph, size, (True,) * len(graph.inputs))
    if all(flags):
        return derived

    def make() -> Graph:
        outputs = [
            out if flag else broadcast_to_batch(out, size)
            for out, flag in zip(derived.outputs, flags, strict=True)
        ]
        return Graph(derived.inputs, outputs, name=derived.name)

    return graph.derive(("all outputs batched", size), make)


custom_jvp_call, custom_vjp_call = CustomJvp(), CustomVjp()


class _Custom:
    """What custom_jvp and custom_vjp share: arguments, and those that are not differentiated."""

    kind = ""

    def __init__(
        self,
        function: Callable[..., Any],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ):
        update_wrapper(cast("Callable[..., Any]", self), function)
        self.function = function
        self.nondiff_argnums = as_tuple(nondiff_argnums)
        self.nondiff_argnames = as_tuple(nondiff_argnames)
        self.__name__ = describe_function(function)

    def _resolve(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """All arguments by position, with defaults filled in, and the positions that are not differentiated."""
        import inspect  # here, because it takes as long to import as half of this package

        signature = inspect.signature(self.function)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                f"{self.kind} function {self.__name__} can't have keyword-only arguments: {', '.join(bound.kwargs)}"
            )
        return bound.args, self._nondiff_positions(len(bound.args))

    def _nondiff_positions(self, count: int) -> tuple[int, ...]:
        """The positions among `count` arguments that are not differentiated, in the order in which they were listed."""
        import inspect

        parameters = list(inspect.signature(self.function).parameters)
        named = tuple([parameters.index(name) for name in self.nondiff_argnames])
        return normalize_positions("nondiff_argnums", self.function, (*self.nondiff_argnums, *named), count)

    def _merge(self, nondiff: dict[int, Any], diff: Sequence[Any]) -> list[Any]:
        rest = iter(diff)
        return [nondiff[i] if i in nondiff else next(rest) for i in range(len(nondiff) + len(diff))]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return partial(cast("Callable[..., Any]", self), instance)

    def _stays_plain(self) -> bool:
        """Whether this is a call from the function's own rules in their first run."""
        found = traced_rules().get(self)
        if isinstance(found, _FirstRun):
            found.called = True
        return isinstance(found, _FirstRun)

    def _trace_rule(
        self, rule: Callable[..., Any], arguments: Sequence[Any], rebuild: Any, calls: Any, known: Any = None
    ) -> Traced:
        """The graph of a rule, in which calls of the function itself are treated as `calls` says.

        That is a _FirstRun, or what such calls close over; with _Late it is traced after the function that called it."""
        late = isinstance(calls, _Late)

        def run(*args: Any) -> Any:
            trace = current_trace()
            assert trace is not None
            own = (
                [
                    c._replace(array=tracer(trace, trace.captured[c.key][0])) if c.array is None else c
                    for c in calls
                ]
                if late
                else calls
            )
            with tracing_rules({**({} if late else traced_rules()), self: own}):
                return rule(*args)

        run.__name__ = rule.__name__
        return trace_function(
            run, self.kind, arguments, rebuild, None, None if late else known, calls if late else ()
        )

    def _close(
        self, primal: Traced, nondiff: Sequence[Any], trace_rules: Callable[[Any], Sequence[Traced]]
    ) -> tuple[list[Closed], Rules]:
        """What function and rules close over, and the rules, which take that after their other inputs."""
        own = traced_rules().get(self)
        if own is not None:  # a call from the function's own rules
            closure = _union(
                own, primal.graph.captured, [x for x in pytree.leaves(list(nondiff)) if isinstance(x, Array)]
            )
            # Without the tracers: these hold their traces, and with them all that was computed there.
            late = _Late([c._replace(array=None) if isinstance(c.array, Tracer) else c for c in closure])
            return closure, Rules(lambda: tuple([_bind(traced, late) for traced in trace_rules(late)]))
        first = _FirstRun()
        traced = trace_rules(first)
        if first.called:
            traced = trace_rules(_union([], primal.graph.captured, *[t.graph.captured for t in traced]))
        closure = _union([], primal.graph.captured, *[t.graph.captured for t in traced])
        graphs = tuple([_bind(t, closure) for t in traced])
        return closure, Rules(lambda: graphs)


class _FirstRun:
    """The first run of a function's rules, in which calls of the function itself are the plain function's."""

    called = False


class _Late(list[Closed]):
    """What rules close over that are traced when the function which called them has ended."""


def _union(closure: Sequence[Closed], *captured: Sequence[Array]) -> list[Closed]:
    """What is closed over, with more arrays added, each once."""
    result = {c.key: c for c in closure}
    for array in itertools.chain(*captured):
        key = identity(array)
        if key not in result:
            result[key] = Closed(key, Aval(array.dtype, array.shape), array)
    return list(result.values())


def _bind(traced: Traced, closure: Sequence[Closed]) -> Graph:
    """The graph with an input for each thing that is closed over, in that order; other arrays become constants."""
    captured = traced.trace.captured
    hidden = [captured[c.key][0] if c.key in captured else input_node(*c.aval) for c in closure]
    keys = {c.key for c in closure}
    constants = {node: _constant(array) for key, (node, array) in captured.items() if key not in keys}
    outputs = substitute(traced.graph.outputs, constants) if constants else traced.graph.outputs
    return Graph([*traced.graph.arguments, *hidden], outputs, name=traced.graph.name)


def _constant(array: Any) -> UOp:
    """An array that the rules made of numbers when they were traced late."""
    value = array.value
    if not value.ndim:
        return const(value, value.dtype)
    return prims.extern.node(
        function=HostFunction("captured", lambda: value, lambda: (value.dtype, value.shape))
    )


def _results(traced: Traced, nodes: Sequence[UOp]) -> Any:
    trace = current_trace()
    assert trace is not None
    return pytree.unflatten(
        traced.out_tree, [tracer(trace, node, weak) for node, weak in zip(nodes, traced.weak, strict=True)]
    )


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
            positions = self._nondiff_positions(len(nondiff) + len(primals))
            value = self(*self._merge(dict(zip(positions, nondiff, strict=True)), primals))
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
        if trace is None or self._stays_plain():
            return self.function(*args, **kwargs)
        if self._rule is None:
            raise TypeError(
                f"custom_jvp function {self.__name__} has no rule yet: give it one with {self.__name__}.defjvp; at {user_line()}"
            )
        args, positions = self._resolve(args, kwargs)
        nondiff = {i: args[i] for i in positions}
        given = Arguments(
            "custom_jvp", self.function, [a for i, a in enumerate(args) if i not in nondiff], {}
        )

        def call(*diff: Any) -> Any:
            return self.function(*self._merge(nondiff, diff))

        call.__name__ = self.__name__
        primal = trace_function(call, "custom_jvp", given.arrays, given.rebuild, given.name, given.arrays)
        tangents = [Aval(a.dtype, a.shape) for a in given.arrays if dtypes.is_inexact(a.dtype)]

        def rule(primals: tuple[Any, ...], directions: tuple[Any, ...]) -> Any:
            assert self._rule is not None
            pair = self._rule(*nondiff.values(), primals, directions)
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(
                    f"the jvp rule of {self.__name__} must return a pair (value, tangent), not {type(pair).__name__}"
                )
            return self._checked_tangents(primal, pair[1])

        def rebuild(leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            from .derivatives import float0_zeros

            count = len(given.arrays)
            found = iter(leaves[count:])
            directions = [
                next(found) if dtypes.is_inexact(a.dtype) else float0_zeros(a.shape) for a in given.arrays
            ]
            return (given.rebuild(leaves[:count])[0], given.rebuild(directions)[0]), {}

        rule.__name__ = f"jvp_rule_{self.__name__}"
        known = [*given.arrays, *[None] * len(tangents)]

        def trace_rules(calls: Any) -> list[Traced]:
            return [self._trace_rule(rule, [*given.arrays, *tangents], rebuild, calls, known)]

        closure, rules = self._close(primal, list(nondiff.values()), trace_rules)
        nodes = custom_jvp_call.apply(
            *[trace.lift(a) for a in (*given.arrays, *[c.array for c in closure if c.array is not None])],
            graph=_bind(primal, closure), rules=rules, count=len(given.arrays), label=self.__name__,
        )  # fmt: skip
        return _results(primal, nodes)

    def _checked_tangents(self, primal: Traced, tangent: Any) -> list[Any]:
        return _matching(
            f"the jvp rule of {self.__name__} returned a tangent",
            primal.out_tree,
            primal.graph.outputs,
            tangent,
        )


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
        if trace is None or self._stays_plain():
            return self.function(*args, **kwargs)
        if self._rules is None:
            raise TypeError(
                f"custom_vjp function {self.__name__} has no rules yet: give them with {self.__name__}.defvjp; at {user_line()}"
            )
        forward, backward = self._rules
        args, positions = self._resolve(args, kwargs)
        nondiff = {i: args[i] for i in positions}
        given = Arguments(
            "custom_vjp", self.function, [a for i, a in enumerate(args) if i not in nondiff], {}
        )

        def call(*diff: Any) -> Any:
            return self.function(*self._merge(nondiff, diff))

        def call_forward(*diff: Any) -> Any:
            pair = forward(*self._merge(nondiff, diff))
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(
                    f"the forward rule of {self.__name__} must return a pair (value, residuals), not {type(pair).__name__}"
                )
            value = _matching(
                f"the forward rule of {self.__name__} returned a value",
                primal.out_tree,
                primal.graph.outputs,
                pair[0],
                every=True,
            )
            leaves, tree[0] = pytree.flatten(pair[1])
            return value, leaves

        tree: list[Any] = [None]
        call.__name__, call_forward.__name__ = self.__name__, f"forward_{self.__name__}"
        primal = trace_function(call, "custom_vjp", given.arrays, given.rebuild, given.name, given.arrays)
        inexact = [node for node in primal.graph.outputs if dtypes.is_inexact(node.dtype)]

        def call_backward(residual: Any, cotangent: Any) -> Any:
            cts = backward(*nondiff.values(), residual, cotangent)
            if isinstance(cts, list):
                cts = tuple(cts)
            return self._checked_cotangents(given, cts)

        call_backward.__name__ = f"backward_{self.__name__}"

        def trace_rules(calls: Any) -> list[Traced]:
            traced_forward = self._trace_rule(call_forward, given.arrays, given.rebuild, calls, given.arrays)
            residuals = traced_forward.graph.outputs[len(primal.graph.outputs) :]

            def rebuild(leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
                from .derivatives import float0_zeros

                found = iter(leaves[len(residuals) :])
                cts = [
                    next(found) if dtypes.is_inexact(n.dtype) else float0_zeros(n.shape)
                    for n in primal.graph.outputs
                ]
                return (
                    pytree.unflatten(tree[0], leaves[: len(residuals)]),
                    pytree.unflatten(primal.out_tree, cts),
                ), {}

            avals = [Aval(node.dtype, node.shape) for node in (*residuals, *inexact)]
            return [traced_forward, self._trace_rule(call_backward, avals, rebuild, calls)]

        closure, rules = self._close(primal, list(nondiff.values()), trace_rules)
        nodes = custom_vjp_call.apply(
            *[trace.lift(a) for a in (*given.arrays, *[c.array for c in closure if c.array is not None])],
            graph=_bind(primal, closure), rules=rules, count=len(given.arrays), label=self.__name__,
        )  # fmt: skip
        return _results(primal, nodes)

    def _checked_cotangents(self, given: Arguments, cts: Any) -> list[Any]:
        """One cotangent for each inexact leaf of the arguments; None stands for zeros of a whole argument."""
        what = f"the backward rule of {self.__name__}"
        args, _ = given.rebuild(list(given.arrays))
        if not isinstance(cts, tuple) or len(cts) != len(args):
            found = f"{len(cts)} results" if isinstance(cts, tuple) else type(cts).__name__
            raise TypeError(
                f"{what} must return a tuple with one cotangent for each of its {len(args)} differentiated arguments, not {found}"
            )
        result = []
        for position, (arg, ct) in enumerate(zip(args, cts, strict=True)):
            leaves, tree = pytree.flatten(arg, is_leaf=lambda x: x is None)
            found_leaves, found_tree = pytree.flatten(ct, is_leaf=lambda x: x is None)
            if ct is None:
                found_leaves, found_tree = [None] * len(leaves), tree
            if found_tree != tree:
                raise TypeError(
                    f"{what}: the cotangent of argument {position} has the structure {pytree.structure(ct)}, but the "
                    f"argument has {pytree.structure(arg)}"
                )
            for leaf, found in zip(leaves, found_leaves, strict=True):
                if leaf is None or not dtypes.is_inexact(leaf.dtype):
                    continue
                if found is None:
                    result.append(_zeros(leaf))
                    continue
                array = as_array(found)
                if array.shape != leaf.shape:
                    given_as, expected = (dtypes.describe(a.dtype, a.shape) for a in (array, leaf))
                    raise TypeError(
                        f"{what}: the cotangent of argument {position} is {given_as}, but the argument is {expected}"
                    )
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
            found, expected = (
                dtypes.describe(array.dtype, array.shape),
                dtypes.describe(node.dtype, node.shape),
            )
            raise TypeError(f"{what} {found}, but the function's value is {expected}")
        result.append(array if array.dtype is node.dtype else prims.convert(array, dtype=node.dtype))
    return result
