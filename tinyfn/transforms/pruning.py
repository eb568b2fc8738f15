"""Pruning loops: steps without what nobody reads, for when no more derivatives are taken.

A carry is needed if its last value is, or what is needed of a step is made of it. A carry that every step hands on as it is is a
constant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..trace.graph import Graph
from ..trace.uop import OUTPUT, UOp, rebuild, toposort
from .loop_bodies import Parts
from .loops import scan
from .while_loops import while_loop


def prune(graph: Graph) -> Graph:
    """The graph with its loops pruned."""
    if not any(node.op is scan or node.op is while_loop for node in graph.nodes()):
        return graph
    outputs, changed = list(graph.outputs), True
    while changed:  # what a loop no longer reads may be what another one no longer needs to make
        outputs, changed = _pruned(outputs)
    return Graph(graph.inputs, outputs, graph.captured, graph.name)


def _pruned(outputs: Sequence[UOp]) -> tuple[list[UOp], bool]:
    order = toposort(outputs)
    used: dict[UOp, set[int]] = {}
    for node in order:
        if node.op is OUTPUT:
            used.setdefault(node.src[0], set()).add(node.arg)
    new: dict[Any, UOp] = {}
    changed = False
    for node in order:
        args = tuple([new[s] for s in node.src])
        if (node.op is scan or node.op is while_loop) and not node.op.has_effects(node.params):
            results = _loop(node, args, used.get(node, set()))
            if results is not None:
                changed = True
                for i, result in results.items():
                    new[node, i] = result
                new[node] = node
                continue
        if node.op is OUTPUT and (node.src[0], node.arg) in new:
            new[node] = new[node.src[0], node.arg]
        else:
            new[node] = node if args == node.src else rebuild(node, args)
    return [new[node] for node in outputs], changed


def _loop(node: UOp, args: Sequence[UOp], used: set[int]) -> dict[int, UOp] | None:
    """The used results of a loop that computes nothing else, or None if it does not already."""
    params = node.params
    is_scan = node.op is scan
    body: Graph = params["graph"] if is_scan else params["body"]
    condition: Graph | None = None if is_scan else params["condition"]
    constants = params["constants"]
    parts = Parts(constants, params["carries"] if is_scan else len(body.outputs))
    _, carries, _ = parts.of(body.inputs)
    fixed = {i for i, carry in enumerate(carries) if body.outputs[i] is carry}
    tested = set(toposort(condition.outputs)) if condition is not None else set()
    tests = {i for i, n in enumerate(condition.inputs) if n in tested} if condition is not None else set()
    kept = {i - constants for i in tests if i >= constants} | {i for i in used if i < parts.carries}
    while True:
        needed = set(toposort([body.outputs[i] for i in {*kept, *used}]))
        more = kept | {i for i, carry in enumerate(carries) if carry in needed}
        if more == kept:
            break
        kept = more
    read = [i for i, n in enumerate(body.inputs) if n in needed or i in tests]
    held = [i for i in read if i < constants or i - constants in fixed]
    held = [i for i in held if i < parts.constants + parts.carries]
    moved = sorted(kept - fixed)
    xs = [i for i in read if i >= constants + parts.carries]
    ys = sorted(i for i in used if i >= parts.carries)
    if (
        len(held) == constants
        and len(moved) == parts.carries
        and len(xs) == len(body.inputs) - constants - parts.carries
    ):
        if len(ys) == len(body.outputs) - parts.carries:
            return None
    order = [*held, *[constants + i for i in moved], *xs]

    def make() -> tuple[Graph, Graph | None]:
        step = Graph(
            [body.inputs[i] for i in order], [body.outputs[i] for i in (*moved, *ys)], name=body.name
        )
        if condition is None:
            return step, None
        return step, Graph([condition.inputs[i] for i in order], condition.outputs, name=condition.name)

    step, test = body.derive(("pruned", condition, tuple(order), tuple(moved), tuple(ys)), make)
    given = [args[i] for i in order]
    results = {i: args[constants + i] for i in used if i in fixed}
    if is_scan:
        found = scan.apply(
            *given,
            graph=step,
            length=params["length"],
            constants=len(held),
            carries=len(moved),
            reverse=params["reverse"],
        )
    else:
        found = while_loop.apply(
            *given, condition=test, body=step, constants=len(held), max_steps=params["max_steps"]
        )
    return results | dict(zip([*moved, *ys], found, strict=True))
