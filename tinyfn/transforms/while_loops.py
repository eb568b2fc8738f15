"""while: a loop that runs as long as a condition on its carry holds, as one op that holds the graphs of condition and body.

Reverse mode needs what each step computed, and so a bound on the steps. With `max_steps` it is taken of nested scans: the steps
are the leaves of a tree in which each node runs up to `BASE` nodes below it, one after another, if the condition still holds. Of
all but the lowest nodes only the carry at which they begin is kept, and they run again in the reverse pass. So the memory is
`BASE` carries for each level and the residuals of `BASE` steps, and a loop of few steps costs little more than these.
(Patrick Kidger's equinox has loops of this form, with this base.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..trace import dtype as dtypes
from ..trace import prims
from ..trace.errors import user_line
from ..trace.graph import Graph
from ..trace.prim import Sample, broadcast_to_batch, instantiate
from ..trace.uop import UOp, const, input_node
from . import eager
from .branches import as_seen_by, cond, where_lanes
from .loop_bodies import Parts, batched_body, body_with_tangents, closed_over_carries, with_tangents_apart
from .loops import scan
from .structured import (
    BatchAxis,
    Prepare,
    Structured,
    check_arguments,
    checkpoint_call,
    cotangents_or_zeros,
    step_by_step,
)
from .vjp import reverse
from .vmap import batch_graph

BASE = 16


class _Bounded:
    """A loop of at most `max_steps` steps as nested scans. Its graphs are from constants, carry and count of steps to carry and
    count."""

    def __init__(self, condition: Graph, body: Graph, constants: int, max_steps: int):
        self._condition, self._body, self._constants, self._max_steps = condition, body, constants, max_steps

    def graph(self) -> Graph:
        """The loop: a graph from constants and carry to the carry after the last step."""
        one, below = self._one_step(), 1
        step = one
        while below < self._max_steps:
            count = min(BASE, -(-self._max_steps // below))
            step = self._repeated(step, count, is_kept=step is one)
            below *= count
        inputs = [input_node(n.dtype, n.shape) for n in self._body.inputs]
        return Graph(inputs, step.inline([*inputs, const(0, dtypes.int32)])[:-1], name=self._body.name)

    def _inputs(self) -> list[UOp]:
        return [*[input_node(n.dtype, n.shape) for n in self._body.inputs], input_node(dtypes.int32, ())]

    def _one_step(self) -> Graph:
        inputs = self._inputs()
        body = Graph(inputs, [*self._body.inline(inputs[:-1]), inputs[-1] + 1], name=self._body.name)
        return self._while_it_goes_on(body, any_lane=False)

    def _repeated(self, step: Graph, count: int, is_kept: bool) -> Graph:
        inputs = self._inputs()
        if not is_kept:
            inner = self._inputs()
            step = Graph(
                inner,
                checkpoint_call.apply(*inner, graph=step, policy=None, prevent_cse=True),
                name=step.name,
            )
        carries = len(inputs) - self._constants
        results = scan.apply(
            *inputs, graph=step, length=count, constants=self._constants, carries=carries, reverse=False
        )
        return self._while_it_goes_on(Graph(inputs, results, name=step.name), any_lane=True)

    def _while_it_goes_on(self, branch: Graph, any_lane: bool) -> Graph:
        """The branch if there are steps left and the condition holds, else nothing."""
        inputs = self._inputs()
        goes_on = self._condition.inline(inputs[:-1])[0] & (inputs[-1] < self._max_steps)
        stop = self._inputs()
        branches = (Graph(stop, stop[self._constants :], name="stop"), branch)
        index = prims.convert(goes_on, dtype=dtypes.int32)
        return Graph(
            inputs, cond.apply(index, *inputs, branches=branches, any_lane=any_lane), name=branch.name
        )


class _Batched(NamedTuple):
    """Condition and body over a batch axis, and which inputs of the body have it."""

    condition: Graph
    body: Graph
    inputs: tuple[bool, ...]


def _batched(
    condition: Graph, body: Graph, axis: BatchAxis, batched: tuple[bool, ...], parts: Parts
) -> _Batched:
    """The loop over a batch axis. A condition that differs from lane to lane becomes that of any lane, and the body leaves the
    carries of the lanes that are done as they are."""

    def is_by_lane(flags: tuple[bool, ...]) -> bool:
        return batch_graph(condition, axis, flags)[1][0]

    def out_flags(flags: tuple[bool, ...]) -> list[bool]:
        by_lane = is_by_lane(flags)
        carries = body.inputs[parts.constants :]
        found = batch_graph(body, axis, flags)[1]
        return [
            has or (by_lane and new is not old)
            for has, new, old in zip(found, body.outputs, carries, strict=True)
        ]

    def make() -> _Batched:
        flags = closed_over_carries(batched, parts, out_flags)
        test = batch_graph(condition, axis, flags)[0]
        if not is_by_lane(flags):
            return _Batched(test, batched_body(body, axis, flags, parts).body, flags)
        step, has_axis = batch_graph(body, axis, flags)
        inputs = [input_node(n.dtype, n.shape) for n in step.inputs]
        (lanes,) = test.inline(inputs)
        # A loop in the body may not end on what lanes that are done have. A collective sees what each lane itself has.
        is_alone = axis.within(body).name is None
        seen = as_seen_by(lanes, axis.size, inputs, flags) if is_alone and _holds_loop(body) else inputs
        outputs = [
            where_lanes(lanes, new if has else broadcast_to_batch(new, axis.size), old) if flag else old
            for new, has, old, flag in zip(
                step.inline(seen), has_axis, inputs[parts.constants :], flags[parts.constants :], strict=True
            )
        ]
        any_lane = Graph(test.inputs, [prims.reduce_or(test.outputs[0], axes=(0,))], name=test.name)
        return _Batched(any_lane, Graph(inputs, outputs, name=step.name), flags)

    return body.derive(("while batched", condition, axis, batched, parts), make)


def _holds_loop(graph: Graph) -> bool:
    """Whether the graph, or one that it holds, has a while loop."""
    for node in graph.nodes():
        if isinstance(node.op, Structured):
            for value in node.params.values():
                held = value if isinstance(value, tuple) else (value,)
                if node.op is while_loop or any(isinstance(g, Graph) and _holds_loop(g) for g in held):
                    return True
    return False


class While(Structured):
    """The carry after the last step of a loop that runs `body` as long as `condition` holds, and no more than `max_steps` steps.

    The arguments are `constants` arrays that every step sees and the first carry; condition and body are graphs of these, the
    condition to a bool, the body to the next carry. `max_steps` is None for any number; then there is no reverse mode."""

    name = "while_loop"
    params = ("condition", "body", "constants", "max_steps")
    is_inlined = False

    def out(self, *args: Any, condition: Graph, body: Graph, constants: int, max_steps: int | None) -> Any:
        if constants < 0:
            raise ValueError(f"while_loop has {constants} constants")
        found = check_arguments("while_loop", body, args)
        if check_arguments("while_loop", condition, args) != ((dtypes.bool_,), ((),)):
            raise TypeError(f"while_loop: the condition {condition!r} does not give one bool")
        carries = args[constants:]
        if found != (tuple([a.dtype for a in carries]), tuple([a.shape for a in carries])):
            raise TypeError(
                f"while_loop: the body {body!r} gives another carry than the one that it is given"
            )
        return found

    def reference(self, *args: Any, **params: Any) -> list[Any]:
        most, body = params["max_steps"], params["body"]
        few = eager.WORTH_IT // (1 + eager.work(body, params["condition"]))
        if (most is None or most > few) and eager.is_compiled(self, params):
            carry, steps = self._run(step_by_step, args, **params | {"max_steps": few + 1})
            # What has been done so far is done again, so that the result does not depend on where that was.
            return eager.run_compiled(self, args, params) if steps > few else carry
        return self.execute(step_by_step, args, **params)

    def execute(self, prepare: Prepare, args: Sequence[Any], **params: Any) -> list[Any]:
        return self._run(prepare, args, **params)[0]

    def _run(
        self,
        prepare: Prepare,
        args: Sequence[Any],
        *,
        condition: Graph,
        body: Graph,
        constants: int,
        max_steps: int | None,
    ) -> tuple[list[Any], int]:
        """The last carry, and the number of steps."""
        goes_on, step = prepare(condition), prepare(body)
        fixed, carry, steps = list(args[:constants]), list(args[constants:]), 0
        while steps != max_steps and goes_on([*fixed, *carry])[0]:
            carry = step([*fixed, *carry])
            steps += 1
        return carry, steps

    def jvp_results(
        self,
        args: Sequence[UOp],
        tangents: Sequence[UOp | None],
        *,
        condition: Graph,
        body: Graph,
        constants: int,
        max_steps: int | None,
    ) -> Any:
        parts = Parts(constants, len(args) - constants)
        loop = body_with_tangents(body, tuple([t is not None for t in tangents]), parts)

        def make() -> Graph:
            inputs = [input_node(n.dtype, n.shape) for n in loop.body.inputs]
            start = loop.parts.constants
            seen = [*inputs[:constants], *inputs[start : start + parts.carries]]
            return Graph(inputs, condition.inline(seen), name=condition.name)

        dense = [
            instantiate(t, a) if flag else None for t, a, flag in zip(tangents, args, loop.given, strict=True)
        ]
        results = self.apply(
            *args[:constants],
            *[t for t in dense[:constants] if t is not None],
            *args[constants:],
            *[t for t in dense[constants:] if t is not None],
            condition=condition.derive(("beside tangents", loop.body), make),
            body=loop.body,
            constants=loop.parts.constants,
            max_steps=max_steps,
        )
        return with_tangents_apart(results, loop.nonzero, parts.carries)

    def _nested(self, condition: Graph, body: Graph, constants: int, max_steps: int) -> Graph:
        return body.derive(
            ("bounded", condition, max_steps), lambda: _Bounded(condition, body, constants, max_steps).graph()
        )

    def vjp_forward(
        self,
        args: Sequence[UOp],
        needs: Sequence[bool],
        *,
        condition: Graph,
        body: Graph,
        constants: int,
        max_steps: int | None,
    ) -> Any:
        if max_steps is None:  # an error only if it is really to be pulled back through
            params = {"condition": condition, "body": body, "constants": constants, "max_steps": None}
            return self.apply(*args, **params), None
        derived = reverse(self._nested(condition, body, constants, max_steps), tuple(needs))
        results, count = derived.forward.inline(args), len(body.outputs)
        return results[:count], results[count:]

    def vjp_backward(
        self,
        args: Sequence[UOp],
        kept: Any,
        cts: Sequence[UOp | None],
        needs: Sequence[bool],
        *,
        condition: Graph,
        body: Graph,
        constants: int,
        max_steps: int | None,
    ) -> list[UOp | None]:
        if max_steps is None:
            raise TypeError(
                f"reverse mode (grad, vjp, jacrev) of a while_loop (which a fori_loop with traced bounds is) over {body.name}: "
                "how many steps it takes is not known, so "
                f"there is no place to keep what they compute; at {user_line()}: give it a bound, while_loop(..., max_steps=n), "
                "or use lax.scan, or lax.fori_loop with Python numbers as bounds. Forward mode (jvp, jacfwd) works as it is"
            )
        derived = reverse(self._nested(condition, body, constants, max_steps), tuple(needs))
        found = iter(derived.backward.inline([*kept, *cotangents_or_zeros(cts, body.outputs)]))
        return [next(found) if gives else None for gives in derived.gives]

    def batch_results(
        self,
        axis: BatchAxis,
        args: Sequence[UOp],
        batched: Sequence[bool],
        *,
        condition: Graph,
        body: Graph,
        constants: int,
        max_steps: int | None,
    ) -> Any:
        parts = Parts(constants, len(args) - constants)
        loop = _batched(condition, body, axis, tuple(batched), parts)
        first = [
            broadcast_to_batch(a, axis.size) if need and not has else a
            for a, need, has in zip(args, loop.inputs, batched, strict=True)
        ]
        results = self.apply(
            *first, condition=loop.condition, body=loop.body, constants=constants, max_steps=max_steps
        )
        return results, list(loop.inputs[constants:])

    def samples(self) -> Iterator[Sample]:
        limit, n, x = (
            input_node(dtypes.float32, ()),
            input_node(dtypes.int32, ()),
            input_node(dtypes.float32, (2,)),
        )
        total = prims.reduce_sum(x * x, axes=(0,))
        condition = Graph([limit, n, x], [total < limit], name="goes_on")
        body = Graph([limit, n, x], [n + 1, x * 1.5 + prims.sin(x)], name="step")
        # The number of steps does not change near these.
        args = (np.float32(9.0).reshape(()), np.int32(0).reshape(()), np.array([0.5, -0.25], np.float32))
        params = {"condition": condition, "body": body, "constants": 1}
        yield Sample(args, params | {"max_steps": None}, differentiable=False)
        for most in (0, 1, 3, 20, 40):
            yield Sample(args, params | {"max_steps": most})


while_loop = While()
