"""Running graphs step by step: one primitive at a time, through the primitives' NumPy references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from . import finite, switches
from .uop import CONST, INPUT, OUTPUT, UOp, toposort


def step(node: UOp) -> Callable[..., Any]:
    """The NumPy function that computes a node from its sources."""
    if node.op is OUTPUT:
        return itemgetter(node.arg)
    if node.op is CONST:
        value = np.asarray(node.value)
        return lambda: value
    return node.op.executor(node.arg)


def evaluate(outputs: Sequence[UOp], memo: dict[UOp, Any]) -> list[Any]:
    """The outputs' values; every node's value on the way is taken from and left in `memo`, which has the inputs'."""
    with np.errstate(all="ignore"):
        for node in toposort(outputs, stop=memo):
            op = node.op
            if op is CONST:
                memo[node] = np.asarray(node.value)
            else:
                memo[node] = step(node)(*[memo[s] for s in node.src])
    return [memo[node] for node in outputs]


def run_once(outputs: Sequence[UOp], memo: dict[UOp, Any]) -> list[Any]:
    """The outputs' values, given the inputs' (and maybe more) in `memo`; intermediate values are dropped when last used."""
    if switches.checks_values() and not finite.is_quiet():
        return _watched(outputs, memo)
    order = toposort(outputs, stop=memo)
    uses: dict[UOp, int] = {}
    for node in order:
        for source in node.src:
            uses[source] = uses.get(source, 0) + 1
    for node in outputs:
        uses[node] = uses.get(node, 0) + 1
    values = dict(memo)
    with np.errstate(all="ignore"):
        for node in order:
            src = node.src
            if node.op is CONST:
                values[node] = np.asarray(node.value)
                continue
            values[node] = step(node)(*[values[s] for s in src])
            for source in src:
                left = uses[source] - 1
                uses[source] = left
                if not left and source not in memo:
                    del values[source]
    return [values[node] for node in outputs]


def _watched(outputs: Sequence[UOp], memo: dict[UOp, Any]) -> list[Any]:
    """The same; raises FloatingPointError if an output has a NaN (or infinity) that is asked for, naming the node that made it.

    That is found from the output back, along values that have one: so what a mask hides is not blamed."""
    values = dict(memo)
    with finite.quietly():
        results = evaluate(outputs, values)

    def is_given(node: UOp) -> bool:
        return node in memo or node.op is CONST or (len(node.src) == 1 and node.src[0].op is CONST)

    for node in outputs:
        if finite.found_in(values[node]) is None:
            continue
        while True:
            made = node.src[0] if node.op is OUTPUT else node
            source = next((s for s in made.src if not is_given(s) and finite.found_in(values[s])), None)
            if source is None:
                break
            node = source
        if made not in memo and made.op is not CONST:
            arguments = [values[s] for s in made.src]
            if made.op.holds_graphs(made.params):
                step(made)(*arguments)  # which raises for the node within that made it
            finite.check(made.op.name, arguments, values[made], made)
    return results


class Plan:
    """A graph's steps in order with their values in numbered slots, made once and run many times."""

    __slots__ = ("constants", "outputs", "size", "steps")

    def __init__(self, inputs: Sequence[UOp], outputs: Sequence[UOp]):
        order = toposort(outputs, stop=inputs)
        slot = {node: i for i, node in enumerate([*inputs, *order])}
        last: dict[UOp, int] = {}
        for i, node in enumerate(order):
            for source in node.src:
                last[source] = i
        kept = set(outputs)
        self.size = len(slot)
        self.outputs = [slot[node] for node in outputs]
        self.constants = [(slot[node], np.asarray(node.value)) for node in order if node.op is CONST]
        self.steps = []
        for i, node in enumerate(order):
            if node.op is CONST:
                continue
            assert node.op is not INPUT, f"{node} is not an input of this graph"
            release = [
                slot[s]
                for s in dict.fromkeys(node.src)
                if last[s] == i and s not in kept and s.op is not CONST
            ]
            self.steps.append((step(node), [slot[s] for s in node.src], slot[node], release))

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        values: list[Any] = [None] * self.size
        values[: len(arguments)] = arguments
        for index, constant in self.constants:
            values[index] = constant
        with np.errstate(all="ignore"):
            for function, sources, target, release in self.steps:
                values[target] = function(*[values[i] for i in sources])
                for i in release:
                    values[i] = None
        return [values[i] for i in self.outputs]
