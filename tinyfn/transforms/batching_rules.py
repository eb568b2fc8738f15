"""The op of custom_vmap: it holds a function's graph, and a rule that makes the graph for all lanes of a vmap.

Derivatives of the op have rules too, made by differentiating what the rule computes: so `vmap` and `grad` may come in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace.graph import MOST_DERIVED, Graph
from ..trace.prim import Sample, broadcast_to_batch, instantiate
from ..trace.tracing import bound_axes
from ..trace.uop import UOp, input_node
from .jvp import jvp_graph
from .structured import BatchAxis, Structured, check_arguments, cotangents_or_zeros, inline_in_order
from .vjp import pulled_back
from .vmap import batch_graph

Flags = tuple[bool, ...]


class Rule:
    """How a graph is computed for all lanes of a vmap: graphs, made when they are first asked for.

    `closed` says which of the graph's inputs belong to what the function closed over."""

    def __init__(self, closed: Flags):
        self.closed = closed
        self._made: dict[Any, tuple[Graph, Flags]] = {}

    def __repr__(self) -> str:
        return "None"  # a printed graph is not mapped any more

    def graph(self, axis: BatchAxis, batched: Flags) -> tuple[Graph, Flags]:
        """The graph over a leading batch axis of the inputs marked in `batched`, and which of its outputs have that axis."""
        # What the rule computes may depend on the named axes around it.
        key = axis, batched, tuple([(name, bound.size) for name, bound in bound_axes().items()])
        found = self._made.get(key)
        if found is None:
            found = self._make(axis, batched)
            if len(self._made) >= MOST_DERIVED:
                self._made.pop(next(iter(self._made)))
            self._made[key] = found
        return found

    def _make(self, axis: BatchAxis, batched: Flags) -> tuple[Graph, Flags]:
        raise NotImplementedError


class JvpRule(Rule):
    """The rule of the tangents of a graph with a rule, for tangents of the inputs that are `given`."""

    def __init__(self, rule: Rule, graph: Graph, given: Flags):
        super().__init__((*rule.closed, *[c for c, flag in zip(rule.closed, given, strict=True) if flag]))
        self._rule, self._given = rule, given
        self.tangents = _tangents(graph, given)

    def _make(self, axis: BatchAxis, batched: Flags) -> tuple[Graph, Flags]:
        if any(c and flag for c, flag in zip(self.closed, batched, strict=True)):
            return batch_graph(self.tangents, axis, batched)
        count = len(self._given)
        found = iter(batched[count:])
        directions = [next(found) if flag else False for flag in self._given]
        both = tuple([a or b for a, b in zip(batched[:count], directions, strict=True)])
        graph, out_flags = self._rule.graph(axis, both)
        derived = _tangents(graph, self._given)
        inputs, args = _inputs(self.tangents, axis, batched)
        wanted = (*both, *[flag for flag, given in zip(both, self._given, strict=True) if given])
        outputs = derived.inline(_with_axis(args, batched, wanted, axis))
        inexact = [
            flag for flag, node in zip(out_flags, graph.outputs, strict=True) if dtypes.is_inexact(node.dtype)
        ]
        return Graph(inputs, outputs, name=derived.name), tuple(inexact)


class VjpRule(Rule):
    """The rule of the reverse pass of a graph with a rule, for cotangents of the inputs that are marked in `needs`.

    An argument that is differentiated has a cotangent in each lane, so the rule sees it as one that differs from lane to lane."""

    def __init__(self, rule: Rule, graph: Graph, needs: Flags):
        self.backward = _backward(graph, needs)
        cotangents = len(self.backward.inputs) - len(needs)
        super().__init__((*rule.closed, *(False,) * cotangents))
        self._rule, self._needs = rule, needs

    def _make(self, axis: BatchAxis, batched: Flags) -> tuple[Graph, Flags]:
        count = len(self._needs)
        args_batched = tuple([a or b for a, b in zip(batched[:count], self._needs, strict=True)])
        if any(c and flag for c, flag in zip(self.closed, args_batched, strict=False)):
            return batch_graph(self.backward, axis, batched)
        graph, out_flags = self._rule.graph(axis, args_batched)
        outputs = [
            node if flag else broadcast_to_batch(node, axis.size)
            for node, flag in zip(graph.outputs, out_flags, strict=True)
        ]
        derived = _backward(Graph(graph.inputs, outputs, name=graph.name), self._needs)
        inputs, args = _inputs(self.backward, axis, batched)
        wanted = (*args_batched, *(True,) * (len(args) - count))
        results = derived.inline(_with_axis(args, batched, wanted, axis))
        return Graph(inputs, results, name=derived.name), (True,) * len(results)


def _tangents(graph: Graph, given: Flags) -> Graph:
    """From a graph's inputs, and tangents of those that are `given`, to the tangents of its inexact outputs."""

    def make() -> Graph:
        derived, nonzero = jvp_graph(graph, given)
        count = len(graph.outputs)
        found = iter(derived.outputs[count:])
        tangents = [next(found) if flag else None for flag in nonzero]
        outputs = [
            instantiate(t, out)
            for t, out in zip(tangents, derived.outputs[:count], strict=True)
            if dtypes.is_inexact(out.dtype)
        ]
        return Graph(derived.inputs, outputs, name=derived.name)

    return graph.derive(("tangents alone", given), make)


def _backward(graph: Graph, needs: Flags) -> Graph:
    """From a graph's inputs, and cotangents of its inexact outputs, to those of the inexact inputs that are marked in `needs`."""

    from .effects import without_effects

    def make() -> Graph:
        _, given, cts = pulled_back(graph, needs)
        outputs = [
            instantiate(ct, node)
            for ct, node, need in zip(cts, graph.inputs, needs, strict=True)
            if need and dtypes.is_inexact(node.dtype)
        ]
        return Graph([*graph.inputs, *given], without_effects(outputs), name=f"backward_{graph.name}")

    return graph.derive(("backward of everything", needs), make)


def _inputs(graph: Graph, axis: BatchAxis, batched: Flags) -> tuple[list[UOp], list[UOp]]:
    """Input nodes like a graph's, with the batch axis where that is marked; twice, since they are also arguments."""
    nodes = [
        input_node(n.dtype, (axis.size, *n.shape) if flag else n.shape)
        for n, flag in zip(graph.inputs, batched, strict=True)
    ]
    return nodes, list(nodes)


def _with_axis(
    args: Sequence[UOp], batched: Sequence[bool], wanted: Sequence[bool], axis: BatchAxis
) -> list[UOp]:
    return [
        broadcast_to_batch(a, axis.size) if want and not has else a
        for a, has, want in zip(args, batched, wanted, strict=True)
    ]


class CustomVmap(Structured):
    """The results of `graph`, which `rule` computes where some of the arguments have a batch axis; None is the plain rule."""

    params = ("graph", "rule", "label")
    name = "custom_vmap"

    def out(self, *args: Any, graph: Graph, rule: Rule | None, label: str) -> Any:
        return check_arguments(label, graph, args)

    def jvp_results(
        self,
        args: Sequence[UOp],
        tangents: Sequence[UOp | None],
        *,
        graph: Graph,
        rule: Rule | None,
        label: str,
    ) -> Any:
        derived = JvpRule(rule or Plain(graph), graph, tuple([t is not None for t in tangents]))
        results = self.apply(*args, graph=graph, rule=rule, label=label)
        given = [t for t in tangents if t is not None]
        found = iter(self.apply(*args, *given, graph=derived.tangents, rule=derived, label=label))
        return results, [next(found) if dtypes.is_inexact(r.dtype) else None for r in results]

    def vjp_forward(
        self, args: Sequence[UOp], needs: Sequence[bool], *, graph: Graph, rule: Rule | None, label: str
    ) -> Any:
        return self.apply(*args, graph=graph, rule=rule, label=label), None

    def vjp_backward(
        self,
        args: Sequence[UOp],
        kept: Any,
        cts: Sequence[UOp | None],
        needs: Sequence[bool],
        *,
        graph: Graph,
        rule: Rule | None,
        label: str,
    ) -> Any:
        derived = VjpRule(rule or Plain(graph), graph, tuple(needs))
        dense = cotangents_or_zeros(cts, graph.outputs)
        found = iter(self.apply(*args, *dense, graph=derived.backward, rule=derived, label=label))
        return [
            next(found) if need and dtypes.is_inexact(a.dtype) else None
            for a, need in zip(args, needs, strict=True)
        ]

    def batch_results(
        self,
        axis: BatchAxis,
        args: Sequence[UOp],
        batched: Sequence[bool],
        *,
        graph: Graph,
        rule: Rule | None,
        label: str,
    ) -> Any:
        flags = tuple(batched)
        # Without a batched argument it is the name of the axis alone that the graph uses.
        derived, out_flags = (
            rule.graph(axis, flags) if rule and any(flags) else batch_graph(graph, axis, flags)
        )
        return inline_in_order(derived, args), list(out_flags)

    def samples(self) -> Iterator[Sample]:
        x, y = input_node(dtypes.float32, (3,)), input_node(dtypes.float32, ())
        graph = Graph([x, y], [x * x, y + 1.0])
        yield Sample(
            (np.array([0.5, -1.0, 2.0], np.float32), np.float32(0.25).reshape(())),
            {"graph": graph, "rule": None, "label": "square"},
        )


class Plain(Rule):
    """The rule by which a graph is mapped that has none of its own."""

    def __init__(self, graph: Graph):
        super().__init__((False,) * len(graph.inputs))
        self._graph = graph

    def _make(self, axis: BatchAxis, batched: Flags) -> tuple[Graph, Flags]:
        return batch_graph(self._graph, axis, batched)


custom_vmap_call = CustomVmap()
