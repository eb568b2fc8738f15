"""Bodies of loops under transforms: with tangents, reversed, and over a batch axis.

A body is a graph from (constants, carry, x) to (carry, y). What each transform has to find out first is which carries take part:
one that does not at first does so if the body makes it of one that does, and that is repeated until nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from ..trace import dtype as dtypes
from ..trace import prims
from ..trace.graph import Graph
from ..trace.prim import broadcast_to_batch, instantiate
from ..trace.uop import UOp, depends_on, input_node, toposort
from .jvp import jvp_graph
from .structured import BatchAxis, Structured
from .vjp import Reverse, differentiated_nodes, reverse
from .vmap import batch_graph

T = TypeVar("T")


class Parts(NamedTuple):
    """How many of a body's inputs are constants, and how many after those are carries."""

    constants: int
    carries: int

    def of(self, values: Sequence[T]) -> tuple[list[T], list[T], list[T]]:
        """What belongs to the constants, the carries and the xs."""
        end = self.constants + self.carries
        return list(values[: self.constants]), list(values[self.constants : end]), list(values[end:])


def chosen(values: Sequence[T], flags: Sequence[bool]) -> list[T]:
    """Those of the values that are marked."""
    return [value for value, flag in zip(values, flags, strict=True) if flag]


def those_given(values: Sequence[T | None]) -> list[T]:
    """Those of the values that are not None."""
    return [value for value in values if value is not None]


def closed_over_carries(
    flags: Sequence[bool], parts: Parts, result_flags: Callable[[tuple[bool, ...]], Sequence[bool]]
) -> tuple[bool, ...]:
    """The flags of a body's inputs, where those carries are marked too that the body gives marked if its inputs are.

    `result_flags` tells which of the body's results are marked, given which of its inputs are."""
    while True:
        constants, carries, xs = parts.of(flags)
        given = (*constants, *carries, *xs)
        more = [a or b for a, b in zip(carries, result_flags(given)[: parts.carries], strict=True)]
        if more == carries:
            return given
        flags = (*constants, *more, *xs)


class _Forward(NamedTuple):
    """A body with tangents, the counts of its inputs, and which of the scan's results have a tangent."""

    body: Graph
    parts: Parts
    given: tuple[bool, ...]
    nonzero: tuple[bool, ...]


def body_with_tangents(graph: Graph, given: tuple[bool, ...], parts: Parts) -> _Forward:
    """The body of the forward mode of a loop: tangents come after the values among constants, carries, xs and ys alike."""

    def make() -> _Forward:
        flags = closed_over_carries(given, parts, lambda flags: jvp_graph(graph, flags)[1])
        derived, nonzero = jvp_graph(graph, flags)
        count, results = len(graph.inputs), len(graph.outputs)
        tangents = iter(derived.inputs[count:])
        placed = [next(tangents) if flag else None for flag in flags]
        values, directions = parts.of(derived.inputs[:count]), [those_given(p) for p in parts.of(placed)]
        inputs = [node for pair in zip(values, directions, strict=True) for group in pair for node in group]
        found = iter(derived.outputs[results:])
        out_tangents = [next(found) if flag else None for flag in nonzero]
        carry, ys = derived.outputs[: parts.carries], derived.outputs[parts.carries : results]
        with_tangent = parts.of(flags)[1]
        outputs = [
            *carry,
            *[
                instantiate(t, c)
                for t, c, flag in zip(out_tangents[: parts.carries], carry, with_tangent, strict=True)
                if flag
            ],
            *ys,
            *those_given(out_tangents[parts.carries :]),
        ]
        return _Forward(
            Graph(inputs, outputs, name=derived.name),
            Parts(parts.constants + len(directions[0]), parts.carries + len(directions[1])),
            flags,
            (*with_tangent, *nonzero[parts.carries :]),
        )

    return graph.derive(("loop with tangents", given, parts), make)


class _Backward(NamedTuple):
    """The body of a reverse pass, the counts of its inputs, and which of the scan's arguments get a cotangent."""

    body: Graph
    parts: Parts
    gives: tuple[bool, ...]


class Reversal:
    """The reverse mode of a scan with respect to those inputs of its body that are `wanted`, and all carries made of them.

    `forward` is the body with residuals as further ys. Those residuals that depend on constants alone are results of `invariant`;
    those that are `xs` or `ys` (by index) are there already."""

    __slots__ = ("_derived", "_graph", "_parts", "_residuals", "forward", "invariant", "needs", "xs", "ys")

    def __init__(self, graph: Graph, wanted: tuple[bool, ...], parts: Parts):
        def made_of(flags: tuple[bool, ...]) -> list[bool]:
            found = differentiated_nodes(graph.nodes(), chosen(graph.inputs, flags))
            return [node in found for node in graph.outputs]

        self._graph, self._parts = graph, parts
        self.needs = closed_over_carries(wanted, parts, made_of)
        self._derived: Reverse = reverse(graph, self.needs)
        forward, results = self._derived.forward, len(graph.outputs)
        constants, carries, xs = parts.of(forward.inputs)
        ys = list(forward.outputs[parts.carries : results])
        order = toposort(forward.outputs)
        effects = [n for n in order if isinstance(n.op, Structured) and n.op.has_effects(n.params)]
        varying = depends_on(order, [*carries, *xs, *effects])
        residuals = forward.outputs[results:]
        self.xs = [xs.index(node) for node in residuals if node in xs]
        self.ys = [ys.index(node) for node in residuals if node in varying and node in ys and node not in xs]
        taken = {*[xs[i] for i in self.xs], *[ys[i] for i in self.ys]}
        invariant = [node for node in residuals if node not in varying]
        stacked = [node for node in residuals if node in varying and node not in taken]
        # In the order in which the reverse pass takes them.
        self._residuals = [*invariant, *[xs[i] for i in self.xs], *[ys[i] for i in self.ys], *stacked]
        self.forward = Graph(forward.inputs, [*forward.outputs[:results], *stacked], name=forward.name)
        self.invariant = Graph(constants, invariant, name=f"invariant_{graph.name}")

    def _reached(self, given: tuple[bool, ...]) -> tuple[list[bool], list[bool]]:
        """Which cotangents of the body's outputs are not zero at some step, for those of the scan's that are given; and which of
        the body's inputs get one from those."""
        derived, parts = self._derived, self._parts
        inexact = [i for i, node in enumerate(self._graph.outputs) if dtypes.is_inexact(node.dtype)]
        inputs = dict(zip(inexact, derived.backward.inputs[len(self._residuals) :], strict=True))
        found = iter(derived.backward.outputs)
        in_cts = [next(found) if gives else None for gives in derived.gives]
        order = derived.backward.nodes()
        flags = list(given)
        while True:
            dependent = depends_on(order, [inputs[i] for i, flag in enumerate(flags) if flag])
            reached = [ct is not None and ct in dependent for ct in in_cts]
            carries = parts.of(reached)[1]
            more = [a or b for a, b in zip(flags, carries, strict=False)] + flags[len(carries) :]
            if more == flags:
                return flags, reached
            flags = more

    def backward(self, given: tuple[bool, ...]) -> _Backward:
        """The reverse pass, for cotangents of those last carries and ys that are `given`.

        Its constants are the invariant residuals; its carries the cotangents of carries, and sums of those of constants; its xs
        the other residuals and the cotangents of ys; its ys the cotangents of xs."""
        graph, parts, derived = self._graph, self._parts, self._derived
        results = len(graph.outputs)
        _, carries, _ = parts.of(graph.inputs)
        flags, reached = self._reached(given)
        moving = flags[: parts.carries]
        stand_ins = {node: input_node(node.dtype, node.shape) for node in self._residuals}
        cts = [
            input_node(n.dtype, n.shape) if flag else None
            for n, flag in zip(graph.outputs, flags, strict=True)
        ]
        dense = [
            instantiate(ct, n) for ct, n in zip(cts, graph.outputs, strict=True) if dtypes.is_inexact(n.dtype)
        ]
        residuals = [stand_ins[node] for node in derived.forward.outputs[results:]]
        found = iter(derived.backward.inline([*residuals, *dense]))
        in_cts = [next(found) if gives else None for gives in derived.gives]
        of_constants, of_carries, of_xs = parts.of(
            [ct if flag else None for ct, flag in zip(in_cts, reached, strict=True)]
        )
        sums = [(input_node(ct.dtype, ct.shape), ct) for ct in of_constants if ct is not None]
        invariant = len(self.invariant.outputs)
        per_step = list(stand_ins.values())[invariant:]
        carried = [*those_given(cts[: parts.carries]), *[total for total, _ in sums]]
        body = Graph(
            [*list(stand_ins.values())[:invariant], *carried, *per_step, *those_given(cts[parts.carries :])],
            [
                *[
                    instantiate(ct, c)
                    for ct, c, moves in zip(of_carries, carries, moving, strict=True)
                    if moves
                ],
                *[prims.accumulate(total, ct) for total, ct in sums],
                *those_given(of_xs),
            ],
            name=derived.backward.name,
        )
        gives = (*[ct is not None for ct in of_constants], *moving, *[ct is not None for ct in of_xs])
        return _Backward(body, Parts(invariant, len(carried)), gives)


def reversal(graph: Graph, needs: tuple[bool, ...], parts: Parts) -> Reversal:
    """The reverse mode of a scan over this body for inputs that need a cotangent, made once."""
    return graph.derive(("scan reversed", needs, parts), lambda: Reversal(graph, needs, parts))


class _Batched(NamedTuple):
    """A body over a batch axis, and which of its inputs and outputs have it."""

    body: Graph
    inputs: tuple[bool, ...]
    outputs: tuple[bool, ...]


def batched_body(graph: Graph, axis: BatchAxis, batched: tuple[bool, ...], parts: Parts) -> _Batched:
    """The body of a loop over a batch axis: carries that the body gives with the axis have it from the start."""

    def make() -> _Batched:
        flags = closed_over_carries(batched, parts, lambda flags: batch_graph(graph, axis, flags)[1])
        derived, out_flags = batch_graph(graph, axis, flags)
        _, carries, _ = parts.of(flags)
        needs = [*carries, *out_flags[parts.carries :]]
        outputs = [
            broadcast_to_batch(out, axis.size) if need and not has else out
            for out, need, has in zip(derived.outputs, needs, out_flags, strict=True)
        ]
        return _Batched(Graph(derived.inputs, outputs, name=derived.name), flags, tuple(needs))

    return graph.derive(("loop batched", axis, batched, parts), make)


def with_tangents_apart(
    results: Sequence[UOp], nonzero: Sequence[bool], carries: int
) -> tuple[list[UOp], list[UOp | None]]:
    """The results of a loop and their tangents, of those of a loop with tangents: carries, their tangents, ys, their tangents."""
    count = len(nonzero)
    moved = sum(nonzero[:carries])
    values = [*results[:carries], *results[carries + moved : moved + count]]
    found = iter([*results[carries : carries + moved], *results[moved + count :]])
    return values, [next(found) if flag else None for flag in nonzero]
