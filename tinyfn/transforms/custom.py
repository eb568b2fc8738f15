"""custom_jvp and custom_vjp: functions that bring their own derivative.

When such a function is called in a trace, the function and its rules are traced at once, so that whatever they close over
becomes an argument of the node (see `custom_ops`).

A rule may call the function itself (`y = f(x); return y, t * (1 - y * y)`). Tracing the rules of that call at once would
never end, so they are traced when a further derivative first asks for them. What they close over must be known before:
it is what the outer call closes over, found by tracing the rules a first time with the plain function in such calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from typing import Any, cast

from ..trace import dtype as dtypes
from ..trace import prims, pytree
from ..trace.array import Array, as_array
from ..trace.errors import user_line
from ..trace.graph import Graph
from ..trace.operators import full
from ..trace.prim import Aval
from ..trace.prims.extern import constant_function
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
from ..trace.uop import UOp, const, input_node, substitute
from .arguments import Arguments, as_tuple, normalize_positions, with_float0
from .custom_ops import Rules, custom_jvp_call, custom_vjp_call


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
                f"{self.kind} function {self.__name__} can't have keyword-only arguments: "
                f"{', '.join(bound.kwargs)}; at {user_line()}"
            )
        return bound.args, self._nondiff_positions(len(bound.args))

    def _nondiff_positions(self, count: int) -> tuple[int, ...]:
        """The positions among `count` arguments that are not differentiated, in the order in which they were listed."""
        import inspect

        parameters = list(inspect.signature(self.function).parameters)
        unknown = [name for name in self.nondiff_argnames if name not in parameters]
        if unknown:
            raise ValueError(
                f"nondiff_argnames of {self.__name__} has {', '.join(map(repr, unknown))}, but its parameters are "
                f"{', '.join(parameters)}; at {user_line()}"
            )
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

    def _has_derivative(self, given: Arguments, primal: Traced) -> bool:
        """Whether there are floats that the function depends on: else its rules, which may not fit integers, say nothing."""
        return any(dtypes.is_inexact(a.dtype) for a in (*given.arrays, *primal.graph.captured))

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
            return closure, Rules(lambda: tuple([_bind(traced, late) for traced in trace_rules(late)]), True)
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
    return prims.extern.node(function=constant_function(value))


def _results(traced: Traced, nodes: Sequence[UOp]) -> Any:
    """The function's result, made of the nodes that a node of the active trace gives in its place."""
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
            if len(rules) != len(primals):
                raise ValueError(
                    f"defjvps of {self.__name__} has {len(rules)} rules, but there are {len(primals)} differentiated "
                    f"arguments; at {user_line()}: give one for each, None for a derivative of zero"
                )
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
        if not self._has_derivative(given, primal):
            return self.function(*args)
        tangents = [Aval(a.dtype, a.shape) for a in given.arrays if dtypes.is_inexact(a.dtype)]

        def rule(primals: tuple[Any, ...], directions: tuple[Any, ...]) -> Any:
            assert self._rule is not None
            pair = self._rule(*nondiff.values(), primals, directions)
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(
                    f"the jvp rule of {self.__name__} must return a pair (value, tangent), not {type(pair).__name__}; "
                    f"at {user_line()}"
                )
            return self._checked_tangents(primal, pair[1])

        def rebuild(leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            count = len(given.arrays)
            directions = with_float0(leaves[count:], given.arrays)
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
                    f"the forward rule of {self.__name__} must return a pair (value, residuals), not "
                    f"{type(pair).__name__}; at {user_line()}"
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
        if not self._has_derivative(given, primal):
            return self.function(*args)
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
                cts = with_float0(leaves[len(residuals) :], primal.graph.outputs)
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
                f"{what} must return a tuple with one cotangent for each of its {len(args)} differentiated arguments, "
                f"not {found}; at {user_line()}"
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
                    f"argument has {pytree.structure(arg)}; at {user_line()}"
                )
            for leaf, found in zip(leaves, found_leaves, strict=True):
                if leaf is None or not dtypes.is_inexact(leaf.dtype):
                    continue
                if found is None:
                    result.append(full(0, leaf.dtype, leaf.shape))
                    continue
                array = as_array(found)
                if array.shape != leaf.shape:
                    given_as, expected = (dtypes.describe(a.dtype, a.shape) for a in (array, leaf))
                    raise TypeError(
                        f"{what}: the cotangent of argument {position} is {given_as}, but the argument is {expected}; "
                        f"at {user_line()}"
                    )
                result.append(array if array.dtype is leaf.dtype else prims.convert(array, dtype=leaf.dtype))
        return result


def _matching(what: str, tree: Any, nodes: Sequence[UOp], value: Any, every: bool = False) -> list[Any]:
    """The leaves of a rule's result, which must match the function's own; only the inexact ones unless `every`."""
    leaves, found_tree = pytree.flatten(value)
    if found_tree != tree:
        raise TypeError(
            f"{what} with the structure {found_tree}, but the function's value has {tree}; at {user_line()}"
        )
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
            raise TypeError(f"{what} {found}, but the function's value is {expected}; at {user_line()}")
        result.append(array if array.dtype is node.dtype else prims.convert(array, dtype=node.dtype))
    return result
