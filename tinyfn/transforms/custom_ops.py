"""The ops of custom_jvp and custom_vjp: they hold a function's graph, and the graphs of its own derivative rules.

Since the rules are graphs like any other, every transform passes through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import prims
from ..trace.errors import user_line
from ..trace.graph import Graph
from ..trace.prim import Sample, broadcast_to_batch, instantiate, instantiate_batch, zeros_like
from ..trace.uop import UOp, depends_on, input_node, substitute, toposort
from .structured import BatchAxis, Structured, check_arguments, cotangents_or_zeros, with_contents
from .vjp import pull_back
from .vmap import batch_graph


def _forbid_closure(name: str, differentiated: Sequence[bool], count: int) -> None:
    """Raise TypeError if something is differentiated that the function closed over: what comes after `count` arguments."""
    if any(differentiated[count:]):
        raise TypeError(
            f"{name} can't be differentiated with respect to an array that the function closes over, because its rule gives "
            f"no derivative for it; at {user_line()}: pass the array as an argument of the function, or wrap it in stop_gradient"
        )


# In place of a tuple that says of each (co)tangent whether it is not zero.
NO_ZEROS = "no zeros"


class Rules:
    """The derivative rules of one call of a custom function: graphs, made when they are first asked for.

    They are late if the call is one in the function's own rules: there is no end to what making all of these would give.
    `axis_names` are the named axes that they may be about."""

    __slots__ = ("_batched", "_graphs", "_make", "axis_names", "is_late")

    def __init__(
        self,
        make: Callable[..., tuple[Graph, ...]],
        is_late: bool = False,
        axis_names: frozenset[Any] = frozenset(),
    ):
        self._make, self.is_late, self.axis_names = make, is_late, axis_names
        self._graphs: dict[Any, tuple[Graph, ...]] = {}
        self._batched: tuple[BatchAxis, Rules] | None = None

    def __repr__(self) -> str:
        return "None"  # a printed graph computes values; its derivatives were taken before it was printed

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The rules themselves, which take all (co)tangents."""
        if NO_ZEROS not in self._graphs:
            self._graphs[NO_ZEROS] = self._make()
        return self._graphs[NO_ZEROS]

    def given(self, zeros: Any) -> tuple[Graph, ...]:
        """The rules for (co)tangents that are zero where `zeros` has False."""
        return self.graphs

    def batched(self, axis: BatchAxis) -> Rules:
        """The rules over a leading batch axis of everything that they take and give."""
        last = self._batched
        if last is None or last[0] != axis:
            self._batched = last = (axis, self._over_batch(axis))
        return last[1]

    def _over_batch(self, axis: BatchAxis) -> Rules:
        return Rules(
            lambda: tuple([_batch_everything(graph, axis) for graph in self.graphs]),
            self.is_late,
            self.axis_names - {axis.name},
        )


class RulesByZeros(Rules):
    """Rules that are told which (co)tangents are zero: graphs for each choice of these that is asked for."""

    __slots__ = ()

    @property
    def graphs(self) -> tuple[Graph, ...]:
        return self.given(NO_ZEROS)

    def given(self, zeros: Any) -> tuple[Graph, ...]:
        if zeros not in self._graphs:
            self._graphs[zeros] = self._make(zeros)
        return self._graphs[zeros]

    def _over_batch(self, axis: BatchAxis) -> Rules:
        return RulesByZeros(
            lambda zeros: tuple([_batch_everything(graph, axis) for graph in self.given(zeros)]),
            self.is_late,
            self.axis_names - {axis.name},
        )


class _CustomCall(Structured):
    """A call of a custom function: the results of `graph`, whose derivatives are `rules`.

    The first `count` arguments are the function's; those after them are what function and rules closed over."""

    params = ("graph", "rules", "count", "label")

    def out(self, *args: Any, graph: Graph, rules: Rules, count: int, label: str) -> Any:
        return check_arguments(label, graph, args)

    def batch_results(
        self,
        axis: BatchAxis,
        args: Sequence[UOp],
        batched: Sequence[bool],
        *,
        graph: Graph,
        rules: Rules,
        count: int,
        label: str,
    ) -> Any:
        args = instantiate_batch(axis.size, args, batched)
        derived = _batch_everything(graph, axis)
        results = self.apply(*args, graph=derived, rules=rules.batched(axis), count=count, label=label)
        if axis.within(graph).name is None or axis.size == 0:
            return results, [True] * len(results)
        # What a collective makes alike in all lanes is what the first lane has.
        flags = batch_graph(graph, axis, tuple(batched))[1]
        return [r if flag else _first_lane(r) for r, flag in zip(results, flags, strict=True)], list(flags)


class CustomJvp(_CustomCall):
    """The results of `graph`, whose tangents a rule computes from the first `count` arguments and their tangents.

    The arguments after those are what function and rule closed over. The rule's inputs are: the arguments, the tangents
    of the inexact ones, what was closed over; its results: the tangents of the inexact results."""

    name = "custom_jvp"

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
        _forbid_closure(f"custom_jvp function {label}", [t is not None for t in tangents], count)
        dense = [
            instantiate(t, a)
            for a, t in zip(args[:count], tangents[:count], strict=True)
            if dtypes.is_inexact(a.dtype)
        ]
        (rule,) = rules.given(tuple([t is not None for t in tangents[:count]]))
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
        _forbid_closure(f"custom_jvp function {label}", needs, count)
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
        (rule,) = rules.given(tuple(needs[:count]))
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

    def samples(self) -> Iterator[Sample]:
        # x sin(x), with its derivative.
        x, t = input_node(dtypes.float32, (3,)), input_node(dtypes.float32, (3,))
        graph = Graph([x], [x * prims.sin(x)])
        rule = Graph([x, t], [t * (prims.sin(x) + x * prims.cos(x))])
        params = {"graph": graph, "rules": Rules(lambda: (rule,)), "count": 1, "label": "x_sin_x"}
        yield Sample((np.array([0.5, -1.0, 2.0], np.float32),), params)


class CustomVjp(_CustomCall):
    """The results of `graph`, whose reverse mode is two rules, forward (results and residuals) and backward.

    The arguments after the first `count` are what function and rules closed over. The inputs of graph and forward are
    the arguments; those of backward: residuals, cotangents of the inexact results, what was closed over; its results:
    cotangents of the inexact ones among the first `count` arguments."""

    name = "custom_vjp"

    def jvp_results(self, args: Sequence[UOp], tangents: Sequence[UOp | None], **params: Any) -> Any:
        raise TypeError(
            f"forward mode (jvp, jacfwd, hessian, linearize) of the custom_vjp function {params['label']}: it defines "
            f"reverse mode only; at {user_line()}: define it with custom_jvp, from which reverse mode follows"
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
        _forbid_closure(f"custom_vjp function {label}", needs, count)
        forward, _ = rules.given((tuple(needs[:count]), (True,) * len(graph.outputs)))
        results = forward.inline(args)
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
        _, backward = rules.given((tuple(needs[:count]), tuple([ct is not None for ct in cts])))
        found = iter(backward.inline([*kept, *cotangents_or_zeros(cts, graph.outputs), *args[count:]]))
        per_argument = [next(found) if dtypes.is_inexact(a.dtype) else None for a in args[:count]]
        return [*per_argument, *[None] * (len(args) - count)]

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


def _first_lane(x: UOp) -> UOp:
    rest = x.shape[1:]
    lane = prims.slice_(x, start=(0,) * x.ndim, limit=(1, *rest), step=(1,) * x.ndim)
    first: UOp = prims.reshape(lane, shape=rest)
    return first


def _batch_everything(graph: Graph, axis: BatchAxis) -> Graph:
    """The graph with a leading batch axis on every input and output, so that all rules of a function agree on it."""
    derived, flags = batch_graph(graph, axis, (True,) * len(graph.inputs))
    if all(flags):
        return derived

    def make() -> Graph:
        outputs = [
            out if flag else broadcast_to_batch(out, axis.size)
            for out, flag in zip(derived.outputs, flags, strict=True)
        ]
        return Graph(derived.inputs, outputs, name=derived.name)

    return graph.derive(("all outputs batched", axis), make)


custom_jvp_call, custom_vjp_call = CustomJvp(), CustomVjp()
