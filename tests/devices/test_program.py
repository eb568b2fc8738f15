"""Programs: whole functions compiled, on any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np

import tinyfn
import tinyfn.numpy as tnp
from tinyfn.devices.program import Program
from tinyfn.devices.threads import num_threads, set_num_threads
from tinyfn.trace.execute import step


def layer(params: Any, x: Any) -> Any:
    y = x @ params["w"] + params["b"]
    y = (y - y.mean(-1, keepdims=True)) / tnp.sqrt(y.var(-1, keepdims=True) + 1e-5)
    return tnp.maximum(y, 0.0)


def loss(params: Any, x: Any) -> Any:
    return (layer(params, x) ** 2).mean()


def test_a_gradient_compiles_and_does_not_depend_on_threads() -> None:
    generator = np.random.default_rng(0)
    params = {"w": tnp.asarray(generator.normal(size=(300, 257)).astype(np.float32)), "b": tnp.zeros(257)}
    x = tnp.asarray(generator.normal(size=(513, 300)).astype(np.float32))
    graph = tinyfn.jit(tinyfn.value_and_grad(loss)).graph(params, x)
    values = [params["b"].value, params["w"].value, x.value, *[a.value for a in graph.captured]]
    program = Program(graph, step)
    before = num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            set_num_threads(threads)
            results.append(program(values))
    finally:
        set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert a.tobytes() == b.tobytes()
    for a, b in zip(results[0], graph.run(values), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
