"""scan: a loop with a fixed number of steps, as one op that holds the graph of its body.

The body is a graph from (constants, carry, x) to (carry, y). The op's arguments are the constants, the first carry and the
stacked xs; its results are the last carry and the stacked ys. Each transform makes a scan of a transformed body. What it has to
find out first is which carries take part: one that does not at first does so if the body makes it of one that does, and that
is repeated until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ..trace import dtype as dtypes
from ..trace import prims
from ..trace.graph import Graph
from ..trace.prim import Aval, Sample, broadcast_to_batch, instantiate, spell, zeros_like
from ..trace.prims.movement import move_axis
from ..trace.uop import UOp, depends_on, input_node, toposort
from . import eager
from .jvp import jvp_graph
from .structured import BatchAxis, Prepare, Structured, check_arguments, step_by_step
from .vjp import Reverse, differentiated_nodes, reverse
from .vmap import batch_graph

if TYPE_CHECKING:
    from .saving import Policy

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


class _Reversal:
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


def _reversal(graph: Graph, needs: tuple[bool, ...], parts: Parts) -> _Reversal:
    return graph.derive(("scan reversed", needs, parts), lambda: _Reversal(graph, needs, parts))


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


class Scan(Structured):
    """The last carry and the stacked ys of a loop of `length` steps over the xs, from the last one on if `reverse`.

    The arguments are `constants` arrays that every step sees, `carries` first carries, and xs with a leading axis for the steps;
    `graph` is the body, from (constants, carry, x) to (carry, y)."""

    params = ("graph", "length", "constants", "carries", "reverse")
    is_inlined = False

    def out(self, *args: Any, graph: Graph, length: Any, constants: int, carries: int, reverse: bool) -> Any:
        if constants < 0 or carries < 0:
            raise ValueError(f"scan has {constants} constants and {carries} carries")
        xs = args[constants + carries :]
        if any(not x.shape or x.shape[0] != length for x in xs):
            raise TypeError(
                f"scan of {length} steps is given xs {spell(xs)}, which need a leading axis of that size"
            )
        seen = [*args[: constants + carries], *[Aval(x.dtype, x.shape[1:]) for x in xs]]
        found, shapes = check_arguments("scan", graph, seen)
        before = [(a.dtype, a.shape) for a in args[constants : constants + carries]]
        if list(zip(found, shapes, strict=True))[:carries] != before:
            raise TypeError(f"scan: the body {graph!r} gives another carry than the one that it is given")
        return found, (*shapes[:carries], *[(length, *shape) for shape in shapes[carries:]])

    def reference(self, *args: Any, **params: Any) -> list[Any]:
        is_much = params["length"] * eager.work(params["graph"]) >= eager.WORTH_IT
        if is_much and eager.is_compiled(self, params):
            return eager.run_compiled(self, args, params)
        return self.execute(step_by_step, args, **params)

    def execute(
        self,
        prepare: Prepare,
        args: Sequence[Any],
        *,
        graph: Graph,
        length: int,
        constants: int,
        carries: int,
        reverse: bool,
    ) -> list[Any]:
        body = prepare(graph)
        fixed, carry, xs = Parts(constants, carries).of(args)
        ys = [np.empty((length, *node.shape), node.dtype) for node in graph.outputs[carries:]]
        for i in range(length - 1, -1, -1) if reverse else range(length):
            results = body([*fixed, *carry, *[x[i] for x in xs]])
            carry = results[:carries]
            for stack, y in zip(ys, results[carries:], strict=True):
                stack[i] = y
        return [*carry, *ys]

    def jvp_results(
        self,
        args: Sequence[UOp],
        tangents: Sequence[UOp | None],
        *,
        graph: Graph,
        constants: int,
        carries: int,
        **params: Any,
    ) -> Any:
        parts = Parts(constants, carries)
        loop = body_with_tangents(graph, tuple([t is not None for t in tangents]), parts)
        dense = [
            instantiate(t, a) if flag else None for t, a, flag in zip(tangents, args, loop.given, strict=True)
        ]
        pairs = zip(parts.of(args), [those_given(p) for p in parts.of(dense)], strict=True)
        results = self.apply(
            *[node for pair in pairs for group in pair for node in group],
            graph=loop.body,
            constants=loop.parts.constants,
            carries=loop.parts.carries,
            **params,
        )
        return with_tangents_apart(results, loop.nonzero, carries)

    def vjp_forward(
        self,
        args: Sequence[UOp],
        needs: Sequence[bool],
        *,
        graph: Graph,
        constants: int,
        carries: int,
        **params: Any,
    ) -> Any:
        derived = _reversal(graph, tuple(needs), Parts(constants, carries))
        results = self.apply(*args, graph=derived.forward, constants=constants, carries=carries, **params)
        count = len(graph.outputs)
        xs, ys = args[constants + carries :], results[carries:count]
        residuals = [
            *derived.invariant.inline(args[:constants]),
            *[xs[i] for i in derived.xs],
            *[ys[i] for i in derived.ys],
        ]
        return results[:count], [*residuals, *results[count:]]

    def vjp_backward(
        self,
        args: Sequence[UOp],
        kept: Any,
        cts: Sequence[UOp | None],
        needs: Sequence[bool],
        *,
        graph: Graph,
        length: Any,
        constants: int,
        carries: int,
        reverse: bool,
    ) -> list[UOp | None]:
        parts = Parts(constants, carries)
        derived = _reversal(graph, tuple(needs), parts)
        y_cts = [
            ct if dtypes.is_inexact(node.dtype) else None
            for ct, node in zip(cts[carries:], graph.outputs[carries:], strict=True)
        ]
        needed = parts.of(derived.needs)[1]
        of_last = [ct is not None and need for ct, need in zip(cts[:carries], needed, strict=True)]
        given = (*of_last, *[ct is not None for ct in y_cts])
        loop = graph.derive(("scan backward", tuple(needs), parts, given), lambda: derived.backward(given))
        of_constants, of_carries, of_xs = parts.of(loop.gives)
        invariant = len(derived.invariant.outputs)
        results = iter(
            self.apply(
                *kept[:invariant],
                *[
                    instantiate(ct, node)
                    for ct, node, gives in zip(
                        cts[:carries], graph.outputs[:carries], of_carries, strict=True
                    )
                    if gives
                ],
                *[zeros_like(a) for a in chosen(args[:constants], of_constants)],
                *kept[invariant:],
                *those_given(y_cts),
                graph=loop.body,
                length=length,
                constants=loop.parts.constants,
                carries=loop.parts.carries,
                reverse=not reverse,
            )
        )
        carry_cts = [next(results) if gives else None for gives in of_carries]
        constant_cts = [next(results) if gives else None for gives in of_constants]
        return [*constant_cts, *carry_cts, *[next(results) if gives else None for gives in of_xs]]

    def batch_results(
        self,
        axis: BatchAxis,
        args: Sequence[UOp],
        batched: Sequence[bool],
        *,
        graph: Graph,
        constants: int,
        carries: int,
        **params: Any,
    ) -> Any:
        parts = Parts(constants, carries)
        loop = batched_body(graph, axis, tuple(batched), parts)
        fixed, first, xs = parts.of(args)
        _, carried, by_step = parts.of(loop.inputs)
        first = [
            broadcast_to_batch(a, axis.size) if need and not has else a
            for a, need, has in zip(first, carried, batched[constants : constants + carries], strict=True)
        ]
        xs = [move_axis(x, 0, 1) if flag else x for x, flag in zip(xs, by_step, strict=True)]
        results = self.apply(
            *fixed, *first, *xs, graph=loop.body, constants=constants, carries=carries, **params
        )
        ys = [
            move_axis(y, 1, 0) if flag else y
            for y, flag in zip(results[carries:], loop.outputs[carries:], strict=True)
        ]
        return [*results[:carries], *ys], list(loop.outputs)

    def keep(
        self, by: Policy, before: Sequence[UOp], again: Sequence[UOp], *, graph: Graph, **params: Any
    ) -> Any:
        from .saving import keep_within, kept_graph

        # What a step keeps is stacked; what all steps would keep alike is computed again.
        kept = kept_graph(graph, by, params["carries"], params["constants"])
        return keep_within(self, kept, before, again, params)

    def samples(self) -> Iterator[Sample]:
        def like(*shape: int, seed: int, dtype: Any = np.float32) -> np.ndarray:
            return np.random.default_rng(seed).normal(size=shape).astype(dtype)

        w, h = input_node(dtypes.float32, (2, 2)), input_node(dtypes.float32, (2,))
        x, n = input_node(dtypes.float32, (2,)), input_node(dtypes.int32, ())
        column = prims.reshape(h, shape=(2, 1))
        product = prims.dot_general(w, column, contract=((1,), (0,)), batch_axes=((), ()))
        new = prims.tanh(prims.reshape(product, shape=(2,)) + x)
        body = Graph([w, h, n, x], [new, n + 1, new * h, n], name="body")
        args = (like(2, 2, seed=0), like(2, seed=1), np.int32(3).reshape(()))
        for length, backwards in ((3, False), (2, True), (0, False), (1, False)):
            params = {"graph": body, "length": length, "constants": 1, "carries": 2, "reverse": backwards}
            yield Sample((*args, like(length, 2, seed=2)), params)
        # Neither carries nor constants; and nothing but carries.
        alone = Graph([x], [prims.sin(x)], name="map")
        params = {"graph": alone, "length": 3, "constants": 0, "carries": 0, "reverse": False}
        yield Sample((like(3, 2, seed=3),), params)
        params = {
            "graph": Graph([h], [prims.sin(h) * h], name="step"),
            "length": 3,
            "constants": 0,
            "carries": 1,
        }
        yield Sample((like(2, seed=4),), params | {"reverse": False})


def with_tangents_apart(
    results: Sequence[UOp], nonzero: Sequence[bool], carries: int
) -> tuple[list[UOp], list[UOp | None]]:
    """The results of a loop and their tangents, of those of a loop with tangents: carries, their tangents, ys, their tangents."""
    count = len(nonzero)
    moved = sum(nonzero[:carries])
    values = [*results[:carries], *results[carries + moved : moved + count]]
    found = iter([*results[carries : carries + moved], *results[moved + count :]])
    return values, [next(found) if flag else None for flag in nonzero]


scan = Scan()
