"""Partial evaluation of scans: in two, for what does not depend on some of their arguments, and for what does.

`linearize` runs the first once, and the second for each tangent. The first stacks what the second reads of its steps, as the
forward pass of the reverse mode does. Forward mode alone leaves a scan whole, since it keeps nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..trace.graph import Graph, split
from ..trace.uop import OUTPUT, UOp, depends_on, input_node, rebuild, substitute, toposort
from .loop_bodies import Parts, chosen, closed_over_carries
from .loops import scan
from .structured import call


def separated(outputs: Sequence[UOp], unknown: Sequence[UOp]) -> list[UOp]:
    """The outputs, where each scan, or call of a graph, of which a part does not depend on `unknown` is in two."""
    order = toposort(outputs)
    if not any(node.op in _IN_TWO for node in order):
        return list(outputs)
    new: dict[Any, UOp] = {}
    dependent = set(unknown)
    for node in order:
        if node.op is OUTPUT and (node.src[0], node.arg) in new:
            new[node] = new[node.src[0], node.arg]
            continue
        args = tuple([new[s] for s in node.src])
        flags = tuple([a in dependent for a in args])
        make = _IN_TWO.get(node.op)
        if make is not None and any(flags) and not node.op.has_effects(node.params):
            results = make(args, flags, **node.params)
            if results is not None:
                for i, (result, is_unknown) in enumerate(results):
                    new[node, i] = result
                    if is_unknown:
                        dependent.add(result)
                new[node] = node
                continue
        new[node] = node if args == node.src else rebuild(node, args)
        if any(flags):
            dependent.add(new[node])
    return [new[node] for node in outputs]


Results = list[tuple[UOp, bool]]  # and which depend on what is unknown


class _Scan:
    """The two bodies of a scan whose arguments are unknown where `flags` says so: `known` gives known carries and ys, and stacks
    residuals; `linear` takes these. Residuals that constants alone determine are results of `invariant`, and those that are xs
    (by index) are there."""

    def __init__(self, body: Graph, flags: tuple[bool, ...], parts: Parts):
        def result_flags(given: tuple[bool, ...]) -> list[bool]:
            unknown = chosen(body.inputs, given)
            outputs = separated(body.outputs, unknown)
            found = depends_on(toposort(outputs), unknown)
            return [node in found for node in outputs]

        self.inputs = closed_over_carries(flags, parts, result_flags)
        unknown = chosen(body.inputs, self.inputs)
        outputs = separated(body.outputs, unknown)
        order = toposort(outputs)
        dependent = depends_on(order, unknown)
        carried = parts.of(self.inputs)[1]
        self.outputs = [*carried, *[node in dependent for node in outputs[parts.carries :]]]
        wanted = chosen(outputs, self.outputs)
        residuals = split(wanted, unknown)
        fixed, carries, xs = parts.of(body.inputs)
        varying = depends_on(order, [*carries, *xs])
        self.xs = [xs.index(node) for node in residuals if node in xs]
        invariant = [node for node in residuals if node not in varying]
        stacked = [node for node in residuals if node in varying and node not in xs]
        known = [not flag for flag in self.inputs]
        self.known = Graph(
            chosen(body.inputs, known),
            [*chosen(outputs, [not flag for flag in self.outputs]), *stacked],
            name=body.name,
        )
        self.invariant = Graph(fixed, invariant, name=f"invariant_{body.name}")
        stand_ins = {node: input_node(node.dtype, node.shape) for node in residuals}
        which = parts.of(self.inputs)
        its_fixed, its_carries, its_xs = (
            chosen(nodes, given) for nodes, given in zip((fixed, carries, xs), which, strict=True)
        )
        self.linear = Graph(
            [
                *its_fixed,
                *[stand_ins[node] for node in invariant],
                *its_carries,
                *its_xs,
                *[stand_ins[xs[i]] for i in self.xs],
                *[stand_ins[node] for node in stacked],
            ],
            substitute(wanted, {**{node: node for node in unknown}, **stand_ins}),
            name=f"linear_{body.name}",
        )
        self.is_whole = not stacked and all(self.outputs)


def _scan_in_two(
    args: Sequence[UOp],
    flags: tuple[bool, ...],
    *,
    graph: Graph,
    length: Any,
    constants: int,
    carries: int,
    reverse: bool,
) -> Results | None:
    parts = Parts(constants, carries)
    two = graph.derive(("in two", flags, parts), lambda: _Scan(graph, flags, parts))
    if two.is_whole:
        return None
    its_fixed, its_carries, its_xs = parts.of(two.inputs)
    known = [not flag for flag in two.inputs]
    count = carries - sum(its_carries)
    params = {"length": length, "reverse": reverse}
    results = scan.apply(
        *chosen(args, known), graph=two.known, constants=constants - sum(its_fixed), carries=count, **params
    )
    given = len(two.outputs) - sum(two.outputs)
    fixed, first, xs = parts.of(args)
    linear = scan.apply(
        *chosen(fixed, its_fixed),
        *two.invariant.inline(fixed),
        *chosen(first, its_carries),
        *chosen(xs, its_xs),
        *[xs[i] for i in two.xs],
        *results[given:],
        graph=two.linear,
        constants=sum(its_fixed) + len(two.invariant.outputs),
        carries=sum(its_carries),
        **params,
    )
    return _merged(two.outputs, results, linear)


class _Call:
    """The two graphs of a call, as of a scan."""

    def __init__(self, graph: Graph, flags: tuple[bool, ...]):
        unknown = chosen(graph.inputs, flags)
        outputs = separated(graph.outputs, unknown)
        dependent = depends_on(toposort(outputs), unknown)
        self.outputs = [node in dependent for node in outputs]
        wanted = chosen(outputs, self.outputs)
        residuals = split(wanted, unknown)
        self.inputs = [graph.inputs.index(node) for node in residuals if node in graph.inputs]
        computed = [node for node in residuals if node not in graph.inputs]
        known = [not flag for flag in flags]
        self.known = Graph(
            chosen(graph.inputs, known),
            [*chosen(outputs, [not flag for flag in self.outputs]), *computed],
            name=graph.name,
        )
        stand_ins = {node: input_node(node.dtype, node.shape) for node in residuals}
        kept = [*[graph.inputs[i] for i in self.inputs], *computed]
        self.linear = Graph(
            [*[stand_ins[node] for node in kept], *unknown],
            substitute(wanted, {**{node: node for node in unknown}, **stand_ins}),
            name=f"linear_{graph.name}",
        )
        self.is_whole = not computed and all(self.outputs)


def _call_in_two(args: Sequence[UOp], flags: tuple[bool, ...], *, graph: Graph) -> Results | None:
    two = graph.derive(("in two", flags), lambda: _Call(graph, flags))
    if two.is_whole:
        return None
    results = call.apply(*chosen(args, [not flag for flag in flags]), graph=two.known)
    given = len(two.outputs) - sum(two.outputs)
    linear = call.apply(
        *[args[i] for i in two.inputs], *results[given:], *chosen(args, flags), graph=two.linear
    )
    return _merged(two.outputs, results, linear)


def _merged(flags: Sequence[bool], known: Sequence[UOp], linear: Sequence[UOp]) -> Results:
    first, second = iter(known), iter(linear)
    return [(next(second), True) if flag else (next(first), False) for flag in flags]


_IN_TWO: dict[Any, Any] = {scan: _scan_in_two, call: _call_in_two}
