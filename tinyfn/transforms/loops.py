"""scan: a loop with a fixed number of steps, as one op that holds the graph of its body.

The body is a graph from (constants, carry, x) to (carry, y). The op's arguments are the constants, the first carry and the
stacked xs; its results are the last carry and the stacked ys. Each transform makes a scan of a transformed body
(`loop_bodies.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import prims
from ..trace.graph import Graph
from ..trace.prim import Aval, Sample, broadcast_to_batch, instantiate, spell, zeros_like
from ..trace.prims.movement import move_axis
from ..trace.uop import UOp, input_node
from . import eager
from .loop_bodies import (
    Parts,
    batched_body,
    body_with_tangents,
    chosen,
    reversal,
    those_given,
    with_tangents_apart,
)
from .structured import BatchAxis, Prepare, Structured, check_arguments, step_by_step

if TYPE_CHECKING:
    from .saving import Policy


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
        derived = reversal(graph, tuple(needs), Parts(constants, carries))
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
        derived = reversal(graph, tuple(needs), parts)
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


scan = Scan()
