"""Programs: every primitive compiled gives what its reference gives, and whole functions do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.test_primitives import CASES, outputs, within
from tinyfn.devices.program import Program
from tinyfn.devices.threads import num_threads, set_num_threads
from tinyfn.trace.array import as_array
from tinyfn.trace.execute import step
from tinyfn.trace.prim import Primitive, Sample


@pytest.mark.parametrize("primitive, sample", CASES)
def test_compiled_gives_the_reference(primitive: Primitive, sample: Sample) -> None:
    args = [as_array(a) for a in sample.args]
    graph = tinyfn.jit(outputs(primitive, sample)).graph(*args)
    values = [a.value for a in (*args, *graph.captured)]
    # A sum may come out near zero; its error is one of its terms' last place.
    terms = [np.asarray(a, np.float64) for a in sample.args if np.asarray(a).dtype.kind == "f" and np.size(a)]
    sums = primitive.family in ("reduction", "contraction")
    scale = (
        max([float(np.max(np.abs(t[np.isfinite(t)]), initial=0.0)) for t in terms], default=0.0)
        if sums
        else 0.0
    )
    for got, want in zip(Program(graph, step)(values), graph.run(values), strict=True):
        within(primitive.ulp, np.asarray(want), got, scale)


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
