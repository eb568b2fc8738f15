"""cond: one of several graphs, chosen by an index when it runs.

The op's arguments are the index and the operands, which every branch takes; the branches' results are of the same dtypes and
shapes. A transform is applied to each branch, and what it gives is made alike: zeros where a branch has no tangent or
cotangent; residuals share places, which branches fill as far as they have any of that dtype and shape.

Over a batch of indices all branches run, and each lane selects. What a branch sees of a lane that does not take it is replaced
by what a lane sees that does. So nothing overflows there, and no loop fails to end, that would not where the branch is taken;
and the zero cotangents of lanes that do not take it meet no infinity that would make NaNs of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..trace import dtype as dtypes
from ..trace import prims
from ..trace.graph import Graph
from ..trace.prim import Sample, broadcast_to_batch, full_like, hooks, instantiate, spell, zeros_like
from ..trace.uop import UOp, const, input_node
from .jvp import jvp_graph
from .selection import selection
from .structured import (
    BatchAxis,
    Prepare,
    Structured,
    check_arguments,
    cotangents_or_zeros,
    inline_in_order,
)
from .vjp import reverse
from .vmap import batch_graph

if TYPE_CHECKING:
    from .saving import Policy

Branches = tuple[Graph, ...]


class _Forward(NamedTuple):
    """Branches with tangents, and which of the results have one."""

    branches: Branches
    nonzero: tuple[bool, ...]


def _with_tangents(branches: Branches, given: tuple[bool, ...]) -> _Forward:
    def make() -> _Forward:
        derived = [jvp_graph(branch, given) for branch in branches]
        count = len(branches[0].outputs)
        nonzero = tuple([any(flags) for flags in zip(*[flags for _, flags in derived], strict=True)])
        made = []
        for graph, flags in derived:
            found = iter(graph.outputs[count:])
            tangents = [next(found) if flag else None for flag in flags]
            dense = [
                instantiate(t, out)
                for t, out, flag in zip(tangents, graph.outputs[:count], nonzero, strict=True)
                if flag
            ]
            made.append(Graph(graph.inputs, [*graph.outputs[:count], *dense], name=graph.name))
        return _Forward(tuple(made), nonzero)

    return branches[0].derive(("cond with tangents", branches, given), make)


class _Reverse(NamedTuple):
    """Branches of a forward and a backward pass. `forward` gives the results and residuals; `backward` takes those `operands` (by
    number) that a branch reads, the residuals and the cotangents of inexact results, and gives cotangents of the operands that
    are marked in `gives`."""

    forward: Branches
    backward: Branches
    operands: tuple[int, ...]
    gives: tuple[bool, ...]


def _shared_places(values: Sequence[Sequence[UOp]]) -> tuple[list[Any], list[dict[UOp, int]]]:
    """Places, by dtype and shape, that branches share for values of each; and where each branch has its own."""
    places: list[Any] = []
    where: list[dict[UOp, int]] = []
    for nodes in values:
        free = list(range(len(places)))
        mine: dict[UOp, int] = {}
        for node in nodes:
            kind = (node.dtype, node.shape)
            place = next((i for i in free if places[i] == kind), None)
            if place is None:
                place = len(places)
                places.append(kind)
            else:
                free.remove(place)
            mine[node] = place
        where.append(mine)
    return places, where


def _filled(places: Sequence[Any], mine: dict[UOp, int]) -> list[UOp]:
    """What a branch has in each place, zeros if nothing."""
    filled = {place: node for node, place in mine.items()}
    return [
        filled[i] if i in filled else prims.broadcast(const(0, dtype), shape=shape, axes=())
        for i, (dtype, shape) in enumerate(places)
    ]


class _Kept(NamedTuple):
    """Branches of a checkpoint's two passes: `before` gives the results and what is kept, in `places` that branches share;
    `again` takes the operands and those."""

    before: Branches
    again: Branches
    places: list[Any]


def _kept(branches: Branches, policy: Policy) -> _Kept:
    from .saving import keep

    def make() -> _Kept:
        kept = [keep(branch.outputs, branch.outputs, policy) for branch in branches]
        places, where = _shared_places([[value for value, _ in each.pairs] for each in kept])
        before, again = [], []
        for branch, each, mine in zip(branches, kept, where, strict=True):
            stand_ins = {mine[value]: stand_in for value, stand_in in each.pairs}
            taken = [stand_ins[i] if i in stand_ins else input_node(*kind) for i, kind in enumerate(places)]
            before.append(Graph(branch.inputs, [*each.before, *_filled(places, mine)], name=branch.name))
            again.append(Graph([*branch.inputs, *taken], each.again, name=f"{branch.name}_again"))
        return _Kept(tuple(before), tuple(again), places)

    return branches[0].derive(("cond kept", branches, policy), make)


def _reversed(branches: Branches, needs: tuple[bool, ...]) -> _Reverse:
    def make() -> _Reverse:
        derived = [reverse(branch, needs) for branch in branches]
        count = len(branches[0].outputs)
        gives = tuple([any(flags) for flags in zip(*[each.gives for each in derived], strict=True)])
        # Residuals that are operands are there already.
        places, where = _shared_places(
            [
                [node for node in each.forward.outputs[count:] if node not in each.forward.inputs]
                for each in derived
            ]
        )
        forward, backward = [], []
        read = [
            i
            for i in range(len(needs))
            if any(each.forward.inputs[i] in each.forward.outputs[count:] for each in derived)
        ]
        for each, mine in zip(derived, where, strict=True):
            inputs, outputs = each.forward.inputs, each.forward.outputs
            forward.append(Graph(inputs, [*outputs[:count], *_filled(places, mine)], name=each.forward.name))
            operands = [input_node(node.dtype, node.shape) for node in inputs]
            residuals = [input_node(dtype, shape) for dtype, shape in places]
            cts = [input_node(n.dtype, n.shape) for n in outputs[:count] if dtypes.is_inexact(n.dtype)]
            taken = [
                residuals[mine[node]] if node in mine else operands[inputs.index(node)]
                for node in outputs[count:]
            ]
            found = iter(each.backward.inline([*taken, *cts]))
            given = [next(found) if gives_it else None for gives_it in each.gives]
            results = [
                instantiate(ct, x)
                for ct, x, is_needed in zip(given, operands, gives, strict=True)
                if is_needed
            ]
            seen = [*[operands[i] for i in read], *residuals, *cts]
            backward.append(Graph(seen, results, name=each.backward.name))
        return _Reverse(tuple(forward), tuple(backward), tuple(read), gives)

    return branches[0].derive(("cond reversed", branches, needs), make)


class _Batched(NamedTuple):
    """Branches over a batch axis, and which of the results have it."""

    branches: Branches
    outputs: tuple[bool, ...]


def _batched(branches: Branches, axis: BatchAxis, batched: tuple[bool, ...], everything: bool) -> _Batched:
    """The branches over a batch axis. With `everything` all results have it, else those that have it in a branch."""

    def make() -> _Batched:
        derived = [batch_graph(branch, axis, batched) for branch in branches]
        needs = tuple(
            [everything or any(flags) for flags in zip(*[flags for _, flags in derived], strict=True)]
        )
        made = [
            Graph(
                graph.inputs,
                [
                    broadcast_to_batch(out, axis.size) if need and not has else out
                    for out, need, has in zip(graph.outputs, needs, flags, strict=True)
                ],
                name=graph.name,
            )
            for graph, flags in derived
        ]
        return _Batched(tuple(made), needs)

    return branches[0].derive(("cond batched", branches, axis, batched, everything), make)


def where_lanes(lanes: UOp, x: UOp, y: UOp) -> UOp:
    """x in those lanes that are marked, y in the others."""
    selected: UOp = prims.where(prims.broadcast(lanes, shape=x.shape, axes=(0,)), x, y)
    return selected


def as_seen_by(lanes: UOp, size: Any, args: Sequence[UOp], batched: Sequence[bool]) -> list[UOp]:
    """The arguments of a function that runs for all lanes, though it is meant for those that are marked alone.

    Of the others it sees what the first marked lane has, and no derivative comes from them. What all lanes share has a derivative
    if any lane is marked."""
    if size == 0:
        return list(args)
    # Not argmax, which is no part of a kernel.
    numbers = prims.iota.node(dtype=dtypes.int32, shape=(size,), axis=0)
    marked = prims.where(lanes, numbers, full_like(numbers, 2**31 - 1))  # clipped
    first = prims.reshape(prims.reduce_min(marked, axes=(0,)), shape=(1,))
    any_lane = prims.reduce_or(lanes, axes=(0,))
    seen = []
    for x, has_axis in zip(args, batched, strict=True):
        fixed = prims.stop_gradient(x)
        if has_axis:
            row = prims.gather(fixed, first, axes=(0,), sizes=(1, *x.shape[1:]), batch_dims=0, mode="clip")
            seen.append(where_lanes(lanes, x, prims.broadcast(row, shape=x.shape, axes=tuple(range(x.ndim)))))
        elif dtypes.is_inexact(x.dtype):
            seen.append(prims.where(prims.broadcast(any_lane, shape=x.shape, axes=()), x, fixed))
        else:
            seen.append(x)
    return seen


class Cond(Structured):
    """The results of the branch that an int32 index chooses on the operands; an index out of range is moved into it.

    If `any_lane`, there are two branches, of which the first leaves the operands as they are, and so does the second for an index
    of 0. Then a batch of indices need not make all branches run: all lanes take the second if any does."""

    params = ("branches", "any_lane")

    def contents(self, *, branches: Branches, any_lane: bool) -> Graph | None:
        """A selection, if all branches together are less work than it is to leave the kernel that they may be part of."""
        return branches[0].derive(("selection", branches), lambda: [selection(branches)])[0]

    def out(self, index: Any, *operands: Any, branches: Branches, any_lane: bool) -> Any:
        if index.dtype is not dtypes.int32 or index.shape != ():
            raise TypeError(f"cond needs an int32 scalar as its index, not {spell([index])}")
        found = [check_arguments("cond", branch, operands) for branch in branches]
        if any(results != found[0] for results in found):
            raise TypeError(f"cond needs branches with results of the same dtypes and shapes, not {branches}")
        return found[0]

    def execute(
        self, prepare: Prepare, args: Sequence[Any], *, branches: Branches, any_lane: bool
    ) -> list[Any]:
        index = min(max(int(args[0]), 0), len(branches) - 1)
        return prepare(branches[index])(list(args[1:]))

    def jvp_results(
        self, args: Sequence[UOp], tangents: Sequence[UOp | None], *, branches: Branches, any_lane: bool
    ) -> Any:
        derived = _with_tangents(branches, tuple([t is not None for t in tangents[1:]]))
        given = [t for t in tangents[1:] if t is not None]
        results = self.apply(*args, *given, branches=derived.branches, any_lane=any_lane)
        count = len(derived.nonzero)
        found = iter(results[count:])
        return results[:count], [next(found) if flag else None for flag in derived.nonzero]

    def vjp_forward(
        self, args: Sequence[UOp], needs: Sequence[bool], *, branches: Branches, any_lane: bool
    ) -> Any:
        results = self.apply(*args, branches=_reversed(branches, tuple(needs[1:])).forward, any_lane=any_lane)
        count = len(branches[0].outputs)
        return results[:count], results[count:]

    def vjp_backward(
        self,
        args: Sequence[UOp],
        kept: Any,
        cts: Sequence[UOp | None],
        needs: Sequence[bool],
        *,
        branches: Branches,
        any_lane: bool,
    ) -> list[UOp | None]:
        derived = _reversed(branches, tuple(needs[1:]))
        dense = cotangents_or_zeros(cts, branches[0].outputs)
        read = [args[1 + i] for i in derived.operands]
        found = iter(self.apply(args[0], *read, *kept, *dense, branches=derived.backward, any_lane=any_lane))
        return [None, *[next(found) if gives else None for gives in derived.gives]]

    def batch_results(
        self,
        axis: BatchAxis,
        args: Sequence[UOp],
        batched: Sequence[bool],
        *,
        branches: Branches,
        any_lane: bool,
    ) -> Any:
        index, operands, flags = args[0], args[1:], tuple(batched[1:])
        if not batched[0]:
            derived = _batched(branches, axis, flags, False)
            results = self.apply(*args, branches=derived.branches, any_lane=any_lane)
            return results, list(derived.outputs)
        derived = _batched(branches, axis, flags, True)
        if any_lane and axis.size != 0:
            chosen = prims.reduce_max(index, axes=(0,))
            return self.apply(chosen, *operands, branches=derived.branches, any_lane=True), list(
                derived.outputs
            )
        within = prims.min(prims.max(index, full_like(index, 0)), full_like(index, len(branches) - 1))
        results = []
        for i, branch in enumerate(derived.branches):
            here = prims.eq(within, full_like(index, i))
            token = hooks.join([index, *results]) if branch.has_effects else None
            # A collective sees what each lane itself has.
            is_alone = axis.within(branches[i]).name is None
            seen = as_seen_by(here, axis.size, operands, flags) if is_alone else operands
            mine = inline_in_order(branch, seen, token)
            results = (
                mine
                if i == 0
                else [where_lanes(here, new, old) for new, old in zip(mine, results, strict=True)]
            )
        return results, [True] * len(results)

    def keep(
        self, by: Policy, before: Sequence[UOp], again: Sequence[UOp], *, branches: Branches, any_lane: bool
    ) -> Any:
        derived = _kept(branches, by)
        results = self.apply(*before, branches=derived.before, any_lane=any_lane)
        count = len(branches[0].outputs)
        stand_ins = [input_node(*kind) for kind in derived.places]
        repeated = self.apply(*again, *stand_ins, branches=derived.again, any_lane=any_lane)
        return results[:count], repeated, list(zip(results[count:], stand_ins, strict=True))

    def samples(self) -> Iterator[Sample]:
        def branch(name: str, function: Any) -> Graph:
            x, y = input_node(dtypes.float32, (3,)), input_node(dtypes.float32, ())
            return Graph([x, y], function(x, y), name=name)

        def wide(y: UOp) -> UOp:
            spread: UOp = prims.broadcast(y, shape=(3,), axes=())
            return spread

        branches = (
            branch("first", lambda x, y: [prims.sin(x) * wide(y), y]),
            branch("second", lambda x, y: [x, y * y]),
            branch("third", lambda x, y: [prims.exp(x) + prims.tanh(wide(y)), zeros_like(y)]),
        )
        x, y = np.array([0.5, -1.0, 2.0], np.float32), np.float32(0.75).reshape(())
        for index in (0, 1, 2, -3, 5):
            yield Sample((np.int32(index).reshape(()), x, y), {"branches": branches, "any_lane": False})
        yield Sample((np.int32(1).reshape(()), x, y), {"branches": branches[:1], "any_lane": False})


cond = Cond()
