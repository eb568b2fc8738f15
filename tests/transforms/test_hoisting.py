"""Work taken out of the steps of scans: the same values and gradients, made in larger products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import lax
from tinyfn.devices import default_device, set_default_device
from tinyfn.trace import prims
from tinyfn.trace.graph import Graph
from tinyfn.transforms import hoisting
from tinyfn.transforms.executable import simplified
from tinyfn.transforms.loops import scan


@pytest.fixture(autouse=True)
def small_products_too(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = default_device()
    set_default_device("cpu")
    for name, value in (("LEAST", 1), ("ROWS", 16), ("TERMS", 16)):
        monkeypatch.setattr(hoisting, name, value)
    yield
    set_default_device(before)


def numbers(*shape: int, seed: int = 0) -> Any:
    return tnp.array(np.random.default_rng(seed).normal(size=shape) * 0.5, "float32")


WIDTH, INPUTS, ROWS = 5, 3, 4


def arguments(length: int) -> tuple[Any, ...]:
    return (
        numbers(INPUTS, WIDTH),
        numbers(WIDTH, WIDTH, seed=1),
        numbers(ROWS, WIDTH, seed=2),
        numbers(length, ROWS, INPUTS, seed=3),
    )


def recurrent(w: Any, u: Any, h: Any, xs: Any) -> Any:
    return lax.scan(lambda h, x: (tnp.tanh(x @ w + h @ u), h), h, xs)


def backwards(w: Any, u: Any, h: Any, xs: Any) -> Any:
    return lax.scan(lambda h, x: (tnp.tanh(x @ w + h @ u), x.sum()), h, xs, reverse=True)


def transposed(w: Any, u: Any, h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        new = tnp.tanh((w.T @ (x * 2.0).T).T + tnp.einsum("ij,rj->ri", u, h))
        return new, (new @ u, x)

    return lax.scan(step, h, xs)


def constant_products(w: Any, u: Any, h: Any, xs: Any) -> Any:
    """Products of constants, one of which is also stacked and one handed on."""

    def step(carry: Any, x: Any) -> Any:
        h, _ = carry
        return (tnp.tanh(x @ (w @ u) + h @ (u @ u)), w @ u), (u @ u).sum(0)

    return lax.scan(step, (h, w), xs)


def outputs_that_are_products(w: Any, u: Any, h: Any, xs: Any) -> Any:
    """Products that are stacked as they are, or used twice."""

    def step(h: Any, x: Any) -> Any:
        y = x @ w
        return tnp.tanh(y * h), (y, y + h)

    return lax.scan(step, h, xs)


def two_weights(w: Any, u: Any, h: Any, xs: Any) -> Any:
    """One weight used twice in a step, and products of products."""
    return lax.scan(lambda h, x: (tnp.tanh(tnp.sin(x @ w) @ u + (h @ u) @ u), None), h, xs)


def nested(w: Any, u: Any, h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        return recurrent(w, u, h, tnp.stack([x, x * 0.5, -x, x + 1.0]))[0], h.sum()

    return lax.scan(step, h, xs)


def checkpointed(w: Any, u: Any, h: Any, xs: Any) -> Any:
    return lax.scan(tinyfn.checkpoint(lambda h, x: (tnp.tanh(x @ w + h @ u), h)), h, xs)


def lanes(w: Any, u: Any, h: Any, xs: Any) -> Any:
    return tinyfn.vmap(lambda h, x: lax.scan(lambda h, x: (tnp.tanh(x @ w + h @ u), None), h, x), (0, 1))(
        h, xs
    )


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        recurrent, backwards, transposed, constant_products, outputs_that_are_products, two_weights, nested, checkpointed, lanes,
    )
}  # fmt: skip


def loss_of(f: Callable[..., Any]) -> Callable[..., Any]:
    def loss(*args: Any) -> Any:
        parts = tinyfn.tree.leaves(f(*args))
        return sum(
            ((x * x * (1.0 + 0.5 * i)).sum() + x.sum() for i, x in enumerate(parts)),
            tnp.zeros((), parts[0].dtype),
        )

    return loss


def wide(args: Any) -> Any:
    return tinyfn.tree.map(lambda x: x.astype("float64"), args)


@pytest.mark.parametrize("length", [0, 1, 7, 12, 16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name: str, length: int) -> None:
    f, args = FUNCTIONS[name], arguments(length)
    with tinyfn.disable_jit():
        wanted = f(*wide(args))
        wanted_gradient = tinyfn.grad(loss_of(f), (0, 1, 2, 3))(*wide(args))
    for a, b in zip(tinyfn.tree.leaves(tinyfn.jit(f)(*args)), tinyfn.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    gradient = tinyfn.jit(tinyfn.grad(loss_of(f), (0, 1, 2, 3)))(*args)
    for a, b in zip(gradient, wanted_gradient, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5 * max(1.0, float(abs(b).max(initial=0.0))))


def test_second_derivatives() -> None:
    args = arguments(8)
    loss = loss_of(recurrent)

    def directional(*args: Any) -> Any:
        return sum((g * g).sum() for g in tinyfn.grad(loss, (0, 1))(*args))

    found = tinyfn.jit(tinyfn.grad(directional, (0, 1)))(*args)
    with tinyfn.disable_jit():
        wanted = tinyfn.grad(directional, (0, 1))(*wide(args))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * float(abs(b).max()))


def compiled(f: Callable[..., Any], *args: Any) -> Graph:
    return simplified(tinyfn.jit(f).graph(*args))


def scans(graph: Graph) -> list[Any]:
    return [node for node in graph.nodes() if node.op is scan]


def products(graph: Graph) -> list[Any]:
    return [node for node in graph.nodes() if node.op is prims.dot_general]


def test_products_of_xs_are_made_for_a_block_of_steps() -> None:
    (outer,) = scans(compiled(recurrent, *arguments(12)))
    assert outer.params["length"] == 3
    block = outer.params["graph"]
    (inner,) = scans(block)
    assert inner.params["length"] == 4
    assert [node.shape for node in products(block)] == [(4, ROWS, WIDTH)]
    assert [node.shape for node in products(inner.params["graph"])] == [(ROWS, WIDTH)]


def test_gradients_of_weights_are_one_product_for_a_block() -> None:
    graph = compiled(tinyfn.grad(loss_of(recurrent), (0, 1)), *arguments(12))
    backward = [node for node in scans(graph) if node.params["reverse"]]
    (block,) = [node.params["graph"] for node in backward]
    (inner,) = scans(block)
    assert sorted(node.shape for node in products(block)) == [(INPUTS, WIDTH), (WIDTH, WIDTH)]
    for node in products(block):
        assert len(node.params["contract"][0]) == 2  # over steps and rows
    assert [node.shape for node in products(inner.params["graph"])] == [(ROWS, WIDTH)]


def test_what_constants_determine_is_computed_once() -> None:
    graph = compiled(constant_products, *arguments(13))
    (loop,) = scans(graph)
    assert [node.shape for node in products(graph)] == [(INPUTS, WIDTH), (WIDTH, WIDTH)]
    assert len(products(loop.params["graph"])) == 2


def test_a_sum_that_the_user_wrote_keeps_its_order() -> None:
    def f(total: Any, xs: Any) -> Any:
        return lax.scan(lambda total, x: (total + x.T @ x, None), total, xs)[0]

    (loop,) = scans(compiled(f, numbers(3, 3), numbers(12, 4, 3)))
    assert loop.params["length"] == 12 and not scans(loop.params["graph"])


def test_enough_rows_are_left_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hoisting, "ROWS", ROWS)
    (loop,) = scans(compiled(recurrent, *arguments(12)))
    assert loop.params["length"] == 12


def test_lengths_without_a_divisor_are_left_as_they_are() -> None:
    (loop,) = scans(compiled(recurrent, *arguments(13)))
    assert loop.params["length"] == 13


@pytest.mark.parametrize(
    "length, wanted, found",
    [(12, 4, 4), (12, 5, 6), (13, 4, 1), (13, 7, 13), (10, 64, 10), (14, 4, 7), (22, 4, 2)],
)
def test_the_steps_of_a_block(length: int, wanted: int, found: int) -> None:
    assert hoisting._divisor(length, wanted) == found
