"""linearize of loops: the nonlinear part runs once, and the linear one has nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.transforms.flow import numbers, same_trees
from tinyfn import lax
from tinyfn.trace import prims
from tinyfn.trace.graph import Graph
from tinyfn.trace.uop import input_node
from tinyfn.transforms.loops import scan
from tinyfn.transforms.partial import separated


def recurrent(w: Any, h: Any, xs: Any) -> Any:
    return lax.scan(lambda h, x: (tnp.tanh(w @ h + x), (h * x, x.sum())), h, xs)


def backwards(w: Any, h: Any, xs: Any) -> Any:
    return lax.scan(lambda h, x: (tnp.sin(w @ h) * x, tnp.exp(h)), h, xs, reverse=True)


def constants_alone(w: Any, h: Any, xs: Any) -> Any:
    return lax.scan(lambda h, x: (h * tnp.exp(w @ w).sum() * 0.01 + x, None), h, xs)


def in_each_other(w: Any, h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        new, ys = recurrent(w, h, tnp.stack([x, -x]))
        return new, ys[0].sum()

    return lax.scan(step, h, xs)


def jitted(w: Any, h: Any, xs: Any) -> Any:
    return tinyfn.jit(recurrent)(tnp.sin(w), h, xs)


def jitted_body(w: Any, h: Any, xs: Any) -> Any:
    body = tinyfn.jit(lambda h, x: tnp.tanh(w @ h + x))
    return lax.scan(lambda h, x: (body(h, x), h), h, xs)


def checkpointed(w: Any, h: Any, xs: Any) -> Any:
    return lax.scan(tinyfn.checkpoint(lambda h, x: (tnp.tanh(w @ h + x), h)), h, xs)


def with_numbers(w: Any, h: Any, xs: Any) -> Any:
    """A carry without derivative, and one that has a tangent from the second step on."""

    def step(carry: Any, x: Any) -> Any:
        i, h, late = carry
        return (i + 1, tnp.tanh(w @ h) * i, h * late), (i, late)

    return lax.scan(step, (0, h, tnp.ones_like(h)), xs)


def lanes(w: Any, h: Any, xs: Any) -> Any:
    return tinyfn.vmap(lambda h: recurrent(w, h, xs))(tnp.stack([h, h * 2.0]))


def until(w: Any, h: Any, xs: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, tnp.tanh(w @ c[1])), (0, h))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        recurrent, backwards, constants_alone, in_each_other, jitted, jitted_body, checkpointed, with_numbers, lanes, until,
    )
}  # fmt: skip


def arguments(length: int) -> tuple[Any, ...]:
    return numbers(0, 3, 3), numbers(1, 3), numbers(2, length, 3)


@pytest.mark.parametrize("length", [0, 1, 4])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_linearize_is_jvp(name: str, length: int) -> None:
    f, args = FUNCTIONS[name], arguments(length)
    value, linear = tinyfn.linearize(f, *args)
    same_trees(value, f(*args))
    for seed in (5, 6):
        directions = tuple([numbers(seed + i, *a.shape) for i, a in enumerate(args)])
        wanted = tinyfn.jvp(f, args, directions)[1]
        same_trees(linear(*directions), wanted)
        same_trees(tinyfn.jit(linear)(*directions), wanted)


@pytest.mark.parametrize("name", ["recurrent", "with_numbers", "in_each_other", "jitted"])
def test_with_respect_to_some_arguments(name: str) -> None:
    w, h, xs = arguments(3)
    for which in range(3):
        args = [w, h, xs]

        def f(a: Any, which: int = which, args: list[Any] = args) -> Any:
            return FUNCTIONS[name](*args[:which], a, *args[which + 1 :])

        direction = numbers(9, *args[which].shape)
        value, linear = tinyfn.linearize(f, args[which])
        same_trees(value, f(args[which]))
        same_trees(linear(direction), tinyfn.jvp(f, (args[which],), (direction,))[1])


def _ops(graph: Graph) -> set[str]:
    """The names of all ops, within loops and calls too."""
    found = set()
    for node in graph.nodes():
        found.add(str(getattr(node.op, "name", node.op)))
        params = getattr(node, "params", {}) if getattr(node.op, "family", "") == "structured" else {}
        for value in params.values():
            if isinstance(value, Graph):
                found |= _ops(value)
    return found


@pytest.mark.parametrize(
    "name", ["recurrent", "in_each_other", "jitted", "jitted_body", "with_numbers", "lanes"]
)
def test_the_linear_part_computes_no_values(name: str) -> None:
    _, linear = tinyfn.linearize(FUNCTIONS[name], *arguments(4))
    ops = _ops(linear._graph)
    assert "scan" in ops and "tanh" not in ops


def test_a_scan_of_which_all_is_unknown_stays_whole() -> None:
    h = input_node(np.dtype(np.float64), (3,))
    body = Graph([h], [prims.tanh(h) * 2.0])
    first = input_node(h.dtype, (3,))
    results = scan.apply(first, graph=body, length=4, constants=0, carries=1, reverse=False)
    assert separated(results, [first]) == results
    assert separated(results, []) == results


def test_reverse_mode_of_the_linear_function() -> None:
    args = arguments(4)
    _, linear = tinyfn.linearize(lambda h: recurrent(args[0], h, args[2])[0], args[1])
    ct = numbers(8, 3)
    (found,) = tinyfn.linear_transpose(linear, args[1])(ct)
    _, back = tinyfn.vjp(lambda h: recurrent(args[0], h, args[2])[0], args[1])
    same_trees(found, back(ct)[0])
