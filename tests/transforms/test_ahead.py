"""Compiling ahead of time: what each stage tells, and that compiled functions take what they were compiled for and no more."""

from __future__ import annotations

import subprocess
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.agreement import by_numpy
from tinyfn.devices import cpu
from tinyfn.transforms.ahead import MemoryAnalysis

SHAPE = tinyfn.ShapeDtypeStruct
F32 = "float32"


def affine(params: Any, x: Any, *, scale: Any = 1.0) -> Any:
    return {"y": tnp.tanh(x @ params["w"] + params["b"]) * scale, "n": x.shape[0] + tnp.sum(x) * 0}


PARAMS = {"w": SHAPE((8, 3), F32), "b": SHAPE((3,), F32)}
REAL = {"w": tnp.ones((8, 3)) * 0.1, "b": tnp.arange(3.0)}
X = tnp.arange(32.0).reshape(4, 8)


def test_each_stage_tells_trees_and_types() -> None:
    traced = tinyfn.jit(affine).trace(PARAMS, SHAPE((4, 8), F32), scale=SHAPE((), F32))
    lowered = traced.lower()
    compiled = lowered.compile()
    for stage in (traced, lowered, compiled):
        assert stage.in_tree == tinyfn.tree.structure(((PARAMS, 0), {"scale": 0}))
        assert stage.in_avals == (SHAPE((3,), F32), SHAPE((8, 3), F32), SHAPE((4, 8), F32), SHAPE((), F32))
        assert stage.args_info == ((PARAMS, SHAPE((4, 8), F32)), {"scale": SHAPE((), F32)})
        assert stage.out_info == {"y": SHAPE((4, 3), F32), "n": SHAPE((), F32)}
        assert stage.out_tree == tinyfn.tree.structure({"n": 0, "y": 0})
        assert stage.out_avals == (SHAPE((), F32), SHAPE((4, 3), F32))
    assert tinyfn.jit(affine).eval_shape(PARAMS, SHAPE((4, 8), F32)) == {
        "y": SHAPE((4, 3), F32),
        "n": SHAPE((), F32),
    }
    assert traced.jaxpr is traced.graph
    assert traced.graph.check() is traced.graph and traced.fun_name == "affine"
    assert lowered.on("cuda").out_info == lowered.out_info
    result = compiled(REAL, X, scale=tnp.asarray(2.0))
    np.testing.assert_array_equal(result["y"], tinyfn.jit(affine)(REAL, X, scale=tnp.asarray(2.0))["y"])


def test_a_compiled_function_has_text_and_costs() -> None:
    lowered = tinyfn.jit(lambda x: by_numpy(tnp.exp(x)) + 1).trace(SHAPE((16,), F32)).lower()
    compiled = lowered.compile()
    for stage in ("graph", "nests", "ops", "source", "assembly"):
        assert compiled.as_text(stage) == lowered.as_text(stage) != ""
    assert str(compiled) == str(lowered)
    costs = compiled.cost_analysis()
    assert costs == lowered.cost_analysis() and costs["flops"] > 0 and costs["host calls"] >= 1
    assert costs["bytes accessed"] == sum(step.estimates.mem for step in lowered.steps)


@pytest.mark.parametrize(
    "call, words",
    [
        (
            lambda f: f(REAL, X[:3]),
            r"argument `x` is float32\[3,8\], but it was compiled for float32\[4,8\]\. It is not traced again",
        ),
        (
            lambda f: f(REAL, X.astype("int32")),
            r"argument `x` is int32\[4,8\], but it was compiled for float32",
        ),
        (lambda f: f({"w": REAL["w"]}, X), r"arguments of another structure at .*test_ahead\.py:\d+ \(in"),
        (lambda f: f(REAL, X, scale=2.0), "arguments of another structure"),
        (lambda f: f(REAL, "x"), "argument `x` is a str, not an array"),
        (lambda f: f(REAL, X[0]), r"argument `x` is float32\[8\]"),
        (lambda f: f({"w": REAL["w"], "b": X}, X), r"argument `params\['b'\]` is float32\[4,8\]"),
    ],
)
def test_other_arguments_are_errors_and_never_compiled(call: Any, words: str) -> None:
    jitted = tinyfn.jit(affine)
    compiled = jitted.lower(PARAMS, SHAPE((4, 8), F32)).compile()
    before, info = dict(cpu.counts), jitted.cache_info()
    with tinyfn.no_tracing(), pytest.raises(TypeError, match=words):
        call(compiled)
    compiled(REAL, X)
    assert (dict(cpu.counts), jitted.cache_info().misses) == (before, info.misses)


def test_pythons_numbers_stand_for_arrays_of_their_dtype() -> None:
    compiled = tinyfn.jit(lambda x, y: x * y).lower(SHAPE((), F32), 2.0).compile()
    assert compiled(3.0, tnp.asarray(2.0)) == 6.0 and compiled(np.float32(3), 2.0) == 6.0


def test_compiled_functions_within_transforms() -> None:
    def loss(x: Any) -> Any:
        return tnp.sum(tnp.sin(x) ** 2)

    x = tnp.arange(5.0)
    compiled = tinyfn.jit(loss).lower(x).compile()
    with tinyfn.no_tracing():
        np.testing.assert_allclose(tinyfn.grad(compiled)(x), np.sin(2 * np.arange(5.0)), rtol=1e-6, atol=1e-6)
        tinyfn.vmap(compiled)(tnp.stack([x, x]))
    gradient = tinyfn.jit(tinyfn.grad(loss)).lower(x).compile()
    np.testing.assert_allclose(gradient(x), tinyfn.grad(loss)(x), rtol=1e-6, atol=1e-6)
    mapped = tinyfn.jit(tinyfn.vmap(loss)).lower(SHAPE((2, 5), F32)).compile()
    assert mapped.out_info == SHAPE((2,), F32)
    with pytest.raises(TypeError, match="argument `x` is float32"), tinyfn.no_tracing():
        tinyfn.grad(compiled)(tnp.arange(6.0))


def test_symbolic_sizes_are_bound_within_a_trace_without_tracing_again() -> None:
    n = tinyfn.Variable("n", 1, 16)
    jitted = tinyfn.jit(lambda x: tnp.sum(x * x) / x.shape[0])
    compiled = jitted.lower(SHAPE((n,), F32)).compile()
    assert compiled.in_avals[0].shape == (n,)
    with tinyfn.no_tracing():
        for size in (1, 5, 16):
            x = tnp.arange(float(size))
            np.testing.assert_allclose(compiled(x), np.mean(np.arange(size) ** 2), rtol=1e-6)
            np.testing.assert_allclose(tinyfn.grad(compiled)(x), 2 * np.arange(size) / size, rtol=1e-6)
        with pytest.raises(ValueError, match=r"must be in \[1, 16\]"):
            compiled(tnp.zeros(17))
    use = compiled.memory_analysis(n=7)
    assert (use.argument_size_in_bytes, use.output_size_in_bytes) == (28, 4)
    for wrong in ({}, {"m": 3}, {"n": 3, "m": 3}):
        with pytest.raises(ValueError, match=r"the sizes of its symbolic dimensions, n in \[1, 16\]"):
            compiled.memory_analysis(**wrong)
    with pytest.raises(ValueError, match=r"n is in \[1, 16\], got 17"):
        compiled.memory_analysis(n=17)


def test_memory_of_arguments_results_and_captured_arrays() -> None:
    table = tnp.ones((100, 7))
    compiled = tinyfn.jit(lambda x: (x + 1, x[0] * table)).lower(SHAPE((4, 7), F32)).compile()
    use = compiled.memory_analysis()
    assert isinstance(use, MemoryAnalysis)
    assert use.argument_size_in_bytes == 4 * 7 * 4 and use.captured_size_in_bytes == 100 * 7 * 4
    assert use.output_size_in_bytes == 4 * (4 * 7 + 100 * 7)
    assert use.temp_size_in_bytes == use.alias_size_in_bytes == 0
    assert use.peak_memory_in_bytes == 4 * (4 * 7 + 100 * 7) * 2


def test_memory_of_temporaries_is_that_of_the_plan() -> None:
    def two_layers(w: Any, x: Any) -> Any:
        return tnp.sum(tnp.tanh(x @ w) @ w)

    w, x = SHAPE((64, 64), F32), SHAPE((32, 64), F32)
    compiled = tinyfn.jit(two_layers).lower(w, x).compile()
    # The first product is a temporary; the second one may be summed as it is made.
    assert compiled.memory_analysis().temp_size_in_bytes in range(32 * 64 * 4, 2 * 32 * 64 * 4 + 65)
    # What an op by NumPy reads and writes has memory of its own.
    by_host = tinyfn.jit(lambda x: by_numpy(x * 2) + 1).lower(SHAPE((1000,), F32)).compile()
    assert by_host.memory_analysis().temp_size_in_bytes == 4000 + 4000


def test_memory_of_donated_arguments() -> None:
    step = tinyfn.jit(lambda x, y: (x + y, y.sum()), donate_argnums=0)
    compiled = step.lower(SHAPE((256,), F32), SHAPE((256,), F32)).compile()
    use = compiled.memory_analysis()
    assert use.alias_size_in_bytes == 1024 and use.output_size_in_bytes == 1028
    assert use.peak_memory_in_bytes == 2 * 1024 + 4 + use.temp_size_in_bytes
    x = tnp.ones(256)
    compiled(x, tnp.ones(256))
    with pytest.raises(tinyfn.trace.errors.DeletedArrayError):  # type: ignore[attr-defined]
        x + 1


def test_the_size_of_the_code_is_that_of_the_object(tmp_path: Any) -> None:
    compiled = tinyfn.jit(lambda x: tnp.exp(x) * tnp.sin(x)).lower(SHAPE((1000,), F32)).compile()
    size = compiled.memory_analysis().generated_code_size_in_bytes
    assembled = tmp_path / "kernel.o"
    source = tmp_path / "kernel.s"
    source.write_text(compiled.as_text("assembly"))
    if subprocess.run(["which", "as", "size"], capture_output=True).returncode == 0:
        subprocess.run(["as", str(source), "-o", str(assembled)], check=True)
        text = int(
            subprocess.run(["size", str(assembled)], capture_output=True, check=True).stdout.split()[6]
        )
        assert 0.8 * text <= size <= text  # which counts unwinding tables as well
    larger = tinyfn.jit(lambda x: tnp.exp(tnp.tan(x)) * tnp.sin(x)).lower(SHAPE((1000,), F32)).compile()
    assert 0 < size < larger.memory_analysis().generated_code_size_in_bytes


def test_closures_over_arrays_and_static_arguments() -> None:
    w = tnp.arange(3.0)
    jitted = tinyfn.jit(lambda x, kind: x * w if kind == "times" else x + w, static_argnames="kind")
    times, plus = (jitted.trace(SHAPE((3,), F32), kind=kind).lower().compile() for kind in ("times", "plus"))
    np.testing.assert_array_equal(times(tnp.full(3, 2.0)), [0, 2, 4])
    np.testing.assert_array_equal(plus(tnp.full(3, 2.0)), [2, 3, 4])
    assert times.in_tree == tinyfn.tree.structure(((0,), {}))
    with pytest.raises(TypeError):
        times(tnp.full(3, 2.0), "plus", 1)


def test_loops_and_branches_are_in_the_costs() -> None:
    def step(h: Any, x: Any) -> Any:
        return tnp.tanh(h * x), h.sum()

    h, xs = SHAPE((16,), F32), SHAPE((10, 16), F32)
    one = tinyfn.jit(step).lower(h, h).cost_analysis()
    loop = tinyfn.jit(lambda h, xs: tinyfn.lax.scan(step, h, xs)).lower(h, xs)
    costs = loop.cost_analysis()
    assert costs["flops"] == 10 * one["flops"] > 0 == costs["host calls"] and "10 steps" in str(loop)
    assert loop.summary == "0 kernels, 1 loop or branch"
    unknown = tinyfn.jit(
        lambda h: tinyfn.lax.while_loop(lambda h: h.sum() < 9, lambda h: h * 2 + 1, h)
    ).lower(h)
    assert unknown.cost_analysis()["flops"] == 16 * 2 + 16 + 1 and "any number of steps" in str(unknown)

    def heavy(h: Any) -> Any:
        return tnp.sort(h) * (h @ h)

    branch = tinyfn.jit(lambda i, h: tinyfn.lax.cond(i > 0, heavy, lambda h: h, h)).lower(
        SHAPE((), "int32"), h
    )
    assert branch.cost_analysis()["flops"] >= tinyfn.jit(heavy).lower(h).cost_analysis()["flops"]
    assert "2 branches" in str(branch)
