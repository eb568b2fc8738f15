"""How many kernels programs are: what falls out of the general rules of grouping, with no pattern for any of these."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from time import process_time
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import nn, optax_like
from tinyfn.devices.cpu import counts
from tinyfn.devices.program import Program
from tinyfn.lower.group import group
from tinyfn.lower.nest import Host, Kernel
from tinyfn.trace.execute import step


def kernels(function: Callable[..., Any], *args: Any) -> list[Kernel]:
    """The kernels of a jitted function, which must not call NumPy."""
    steps = group(tinyfn.jit(function).graph(*args))
    assert not any(isinstance(step, Host) for step in steps)
    return [step for step in steps if isinstance(step, Kernel)]


def numbers(*shape: int) -> Any:
    return tnp.asarray(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    centered = x - x.mean(-1, keepdims=True)
    return centered / tnp.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * scale + shift


def picked_loss(x: Any, labels: Any) -> Any:
    return -tnp.take_along_axis(nn.log_softmax(x, -1), labels[:, None], -1).mean()


def one_hot_loss(x: Any, labels: Any) -> Any:
    return -(nn.log_softmax(x, -1) * nn.one_hot(labels, x.shape[-1])).sum(-1).mean()


@pytest.mark.parametrize("rows, columns", [(8, 5), (128, 10), (4096, 1000), (3, 40_000)])
def test_rows_are_one_kernel(rows: int, columns: int) -> None:
    x, labels = numbers(rows, columns), tnp.arange(rows) % columns
    assert len(kernels(lambda x: nn.softmax(x, -1), x)) == 1
    assert len(kernels(layer_norm, x, numbers(columns), numbers(columns))) == 1
    for loss in (picked_loss, one_hot_loss):
        assert len(kernels(loss, x, labels)) == 1
        assert len(kernels(tinyfn.grad(loss), x, labels)) == 1


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("shapes", [[(3,)], [(5, 7), (7,), (7, 2), (2,), ()], [(4, 4)] * 40])
def test_an_adam_update_of_any_tree_is_one_kernel(fused: bool, shapes: list[tuple[int, ...]]) -> None:
    params = {f"p{i}": numbers(*shape) for i, shape in enumerate(shapes)}
    for optimizer in (optax_like.adam(1e-3, fused=fused), optax_like.sgd(1e-3, momentum=0.9, fused=fused)):
        state = optimizer.init(params)
        assert len(kernels(optimizer.step, params, params, state)) == 1


def test_trust_ratios_take_one_kernel_more() -> None:
    params = [numbers(5, 7), numbers(7), numbers(7, 2)]
    for fused in (False, True):
        optimizer = optax_like.lamb(1e-3, fused=fused)
        assert len(kernels(optimizer.step, params, params, optimizer.init(params))) <= 3


@pytest.mark.parametrize("fused", [False, True])
def test_a_training_step_of_a_perceptron(fused: bool) -> None:
    sizes = [784, 512, 512, 10]
    params = [{"w": numbers(a, b), "b": numbers(b)} for a, b in pairwise(sizes)]
    optimizer = optax_like.adam(1e-3, fused=fused)

    def loss(params: Any, x: Any, labels: Any) -> Any:
        for layer in params[:-1]:
            x = nn.relu(x @ layer["w"] + layer["b"])
        return one_hot_loss(x @ params[-1]["w"] + params[-1]["b"], labels)

    def step(params: Any, state: Any, x: Any, labels: Any) -> Any:
        value, gradients = tinyfn.value_and_grad(loss)(params, x, labels)
        return *optimizer.step(params, gradients, state), value

    made = kernels(step, params, optimizer.init(params), numbers(128, 784), tnp.arange(128) % 10)
    assert len(made) <= 15
    # Eight of them are the products: three forward, three for the weights and two for the layers below.
    products = [
        k
        for k in made
        if any(
            r.node.op.name == "dot_general"
            for part in k.parts
            for each in part.every()
            for r in each.reductions
        )
    ]
    assert len(products) == 8 and len(made) <= 11


def test_what_surrounds_a_product_is_in_its_kernel() -> None:
    def layer(x: Any, w: Any, b: Any) -> Any:
        return x + nn.gelu((x * 2) @ w + b)

    assert len(kernels(layer, numbers(33, 20), numbers(20, 20), numbers(20))) == 1


def test_a_long_reduction_is_cut_by_its_size_and_finished_in_the_same_kernel() -> None:
    (kernel,) = kernels(lambda x: (x * x).sum(), numbers(1000, 1000))
    (part,), (finish,) = kernel.parts, kernel.finish
    assert len(part.stored) == len(finish.stored) == 1
    (kernel,) = kernels(lambda x: (x * x).sum(), numbers(10, 10))
    assert not kernel.finish


def test_a_long_chain_is_compiled_in_linear_time() -> None:
    def chain(length: int) -> Callable[[Any], Any]:
        def f(x: Any) -> Any:
            y = x
            for i in range(length // 2):
                y = tnp.sin(y) if i % 5 == 0 else y * 1.0001 + x
            return y

        return f

    counted, seconds = [], []
    x = numbers(100)
    for length in (100, 1000, 10_000):
        graph = tinyfn.jit(chain(length)).graph(x)
        before, begin = counts["emit"], process_time()
        program = Program(graph, step)
        seconds.append(process_time() - begin)
        counted.append(counts["emit"] - before)
        (found,), (wanted,) = program([x.value]), graph.run([x.value])
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
    # Its kernels are alike, so that few of them are compiled, and 100 times the length takes 100**1.1 times as long, or less.
    assert max(counted) <= 12
    assert seconds[2] <= 100**1.1 * seconds[0]
