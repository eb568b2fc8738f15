"""Pruned loops compute what is read, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import lax
from tinyfn.transforms.pruning import prune


def loops(f: Callable[..., Any], *args: Any) -> list[Any]:
    """The loops of a pruned graph, which is checked against the one before."""
    graph = tinyfn.make_graph(f)(*args)
    pruned = prune(graph).check()
    values = [np.asarray(a) for a in (*tinyfn.tree.leaves(args), *graph.captured)]
    for found, wanted in zip(pruned.run(values), graph.run(values), strict=True):
        np.testing.assert_array_equal(found, wanted)
    return [n for n in pruned.nodes() if n.op.name in ("scan", "while_loop")]


X, XS = tnp.array([1.0, 2.0]), tnp.arange(8.0).reshape(4, 2)


def step(carry: Any, x: Any) -> Any:
    a, b, c, d = carry
    return (a + x, b + a, c * 2.0, d), (c, x * d, b)


@pytest.mark.parametrize(
    "pick, results, constants, carries, xs",
    [
        (lambda carry, ys: carry[2], 1, 0, 1, 0),
        (lambda carry, ys: carry[1], 2, 0, 2, 1),
        (lambda carry, ys: carry[3], 0, 0, 0, 0),  # handed on: no loop at all
        (lambda carry, ys: ys[0], 2, 0, 1, 0),
        (lambda carry, ys: ys[1], 1, 1, 0, 1),
        (lambda carry, ys: (carry[0], ys[1]), 2, 1, 1, 1),
        (lambda carry, ys: (carry, ys), 6, 1, 3, 1),
    ],
)
def test_scan(pick: Callable[..., Any], results: int, constants: int, carries: int, xs: int) -> None:
    found = loops(lambda x, xs: pick(*lax.scan(step, (x, x * 2, x * 3, x * 4), xs)), X, XS)
    if not results:
        assert not found
        return
    (loop,) = found
    assert (len(loop.dtype), loop.params["constants"], loop.params["carries"]) == (
        results,
        constants,
        carries,
    )
    assert len(loop.src) == constants + carries + xs


def test_what_a_loop_needs_of_another() -> None:
    """The second loop reads one of the ys of the first if something of it is read that needs it."""

    def f(x: Any, xs: Any) -> Any:
        _, (one, two) = lax.scan(lambda c, x: (c, (x + 1.0, tnp.sin(x))), x, xs)
        (total, _other), _ = lax.scan(lambda c, y: ((c[0] + y[0], c[1] * y[1]), None), (x, x), (one, two))
        return total

    first, second = loops(f, X, XS)
    assert len(first.dtype) == 1 and len(second.dtype) == 1 and len(second.src) == 2


def test_while_keeps_what_its_condition_reads() -> None:
    def f(x: Any, limit: Any) -> Any:
        def body(carry: Any) -> Any:
            a, n, unused, fixed = carry
            return a * 2.0, n + fixed, unused + a, fixed

        return lax.while_loop(lambda c: c[1] < limit, body, (x, 0, x, 2))[0]

    (loop,) = loops(f, X, 5)
    assert len(loop.dtype) == 2 and loop.params["constants"] == 2  # the limit, and by how much n grows


def test_gradients_are_pruned_within_programs() -> None:
    f = lambda x, xs: lax.scan(step, (x, x * 2, x * 3, x * 4), xs)[0][1].sum()
    graph = tinyfn.jit(tinyfn.grad(f)).graph(X, XS)
    (loop,) = [
        n for n in graph.nodes() if n.op.name == "scan"
    ]  # it is linear, so there is nothing to compute before
    assert loop.params["carries"] == 2 and len(loop.dtype) == 2  # the cotangents of a and b; others are zero
    np.testing.assert_allclose(tinyfn.jit(tinyfn.grad(f))(X, XS), tinyfn.grad(f)(X, XS))
