"""Profiles: what is recorded, the table, and the file for Perfetto."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.transforms.test_errors import line_of
from tinyfn import lax, profiler
from tinyfn.trace import events, switches
from tinyfn.trace.events import Event

X = tnp.asarray(np.random.default_rng(0).normal(size=(16, 32)).astype(np.float32))


def softmax(x: Any) -> Any:
    e = tnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def ranked(x: Any) -> Any:
    with profiler.annotate("probabilities"):
        p = softmax(x)
    return tnp.argsort(p, axis=-1) + 1


def names(profile: profiler.Profile, category: str) -> list[str]:
    return [event.name for event in profile.events if event.category == category]


def test_kernels_host_calls_traces_and_compilations() -> None:
    expected = ranked(X)
    jitted = tinyfn.jit(ranked)
    with profiler.trace() as profile:
        for _ in range(2):
            np.testing.assert_array_equal(jitted(X), expected)
    assert names(profile, "kernel") == ["max_exp_sum_div_16x32", "add_16x32"] * 2
    assert names(profile, "host call") == ["argsort"] * 2
    assert names(profile, "program") == ["ranked"] * 2 and names(profile, "trace") == ["trace ranked"]
    assert names(profile, "annotation") == ["probabilities"]
    stages = names(profile, "compile")
    assert "compile ranked" in stages and {"simplify", "group", "memory plan"} < set(stages)
    traced = next(e for e in profile.events if e.category == "trace")
    assert (
        traced.details["reason"] == "ranked: the first call" and "test_profiler.py" in traced.details["line"]
    )
    kernel = next(e for e in profile.events if e.category == "kernel")
    estimates = jitted.lower(X).steps[0].estimates
    assert kernel.details["flops"] == estimates.ops and kernel.details["bytes"] == estimates.mem
    assert kernel.details["program"] == "ranked" and kernel.seconds > 0
    before = len(profile.events)
    jitted(X)
    assert len(profile.events) == before and events.recording is None and not switches.general_path


def test_kernels_know_the_users_lines_and_scopes() -> None:
    with profiler.trace() as profile:
        tinyfn.jit(tinyfn.grad(lambda x: (ranked(x) * softmax(x)).sum()))(X)
    lines = {line for e in profile.events if e.category == "kernel" for line in e.details.get("lines", [])}
    exponential = line_of(softmax, "tnp.exp")
    assert any(f"test_profiler.py:{exponential} (in softmax)" in line for line in lines)
    with profiler.trace() as profile:
        tinyfn.jit(ranked)(X)
    (first, *_) = [e for e in profile.events if e.category == "kernel"]
    assert f"test_profiler.py:{exponential} (in softmax), in probabilities" in " ".join(
        first.details["lines"]
    )


def test_operations_that_are_not_jitted() -> None:
    with profiler.trace() as profile:
        tnp.sin(X) * 2
    assert names(profile, "eager")[0] == "sin" and "mul" in names(profile, "eager")
    assert "NumPy, eager" in str(profile)


def test_the_table() -> None:
    def event(name: str, category: str, begin: float, seconds: float, **details: Any) -> Event:
        return Event(name, category, begin, seconds, 1, details)

    profile = profiler.Profile([
        event("scan", "host call", 0.0, 1.0, bytes=4000),
        event("dot_8x8", "kernel", 0.1, 0.2, flops=1024, bytes=768),
        event("dot_8x8", "kernel", 0.4, 0.2, flops=1024, bytes=768),
        event("compile body", "compile", 0.7, 0.1),
        event("emit", "compile", 0.72, 0.05),
        event("trace f", "trace", 1.0, 0.0123, reason="f: argument `x`: float32[2] → float32[3]"),
        event("f", "program", 0.0, 2.0),
    ])  # fmt: skip
    assert str(profile).split("\n") == [
        "name     by      calls    time  share    each   flops    bytes  GFLOP/s  GB/s",
        "scan     NumPy       1  500 ms  55.6%  500 ms       -  4.00 kB        -  0.00",
        "dot_8x8  kernel      2  400 ms  44.4%  200 ms  1.02 k    768 B     0.00  0.00",
        "all                  3  900 ms",
        "traced f in 12.3 ms: argument `x`: float32[2] → float32[3]",
        "compiled body in 100 ms",
    ]
    assert str(profiler.Profile([])).split("\n")[1].split() == ["all", "0", "0", "µs"]


def test_the_file_is_one_that_perfetto_reads(tmp_path: Path) -> None:
    jitted = tinyfn.jit(ranked)
    with profiler.trace(tmp_path / "profile.json"), profiler.StepTraceAnnotation("step", step_num=3):
        jitted(X)
    data = json.loads((tmp_path / "profile.json").read_text())
    assert data["displayTimeUnit"] == "ns"
    for each in data["traceEvents"]:
        assert each["ph"] == "X" and each["ts"] >= 0 and each["dur"] >= 0
        assert isinstance(each["name"], str) and isinstance(each["args"], dict)
        assert type(each["pid"]) is int and each["tid"] == threading.get_native_id()
    step = next(e for e in data["traceEvents"] if e["name"] == "step")
    assert step["args"] == {"step_num": 3}
    for each in data["traceEvents"]:  # all of it was in the step
        assert step["ts"] - 0.01 <= each["ts"] and each["ts"] + each["dur"] <= step["ts"] + step["dur"] + 0.01
    kernel = next(e for e in data["traceEvents"] if e["cat"] == "kernel")
    assert kernel["args"]["GFLOP/s"] == pytest.approx(kernel["args"]["flops"] / kernel["dur"] / 1e3, rel=0.1)
    with profiler.trace(tmp_path / "log"):
        jitted(X)
    assert json.loads((tmp_path / "log" / "tinyfn.trace.json").read_text())["traceEvents"]
    with profiler.trace(tmp_path / "p.json.gz"):
        jitted(X)
    assert json.loads(gzip.decompress((tmp_path / "p.json.gz").read_bytes()))["traceEvents"]


def test_beginning_and_ending_by_calls(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="call start_trace first"):
        profiler.stop_trace()
    profiler.start_trace(tmp_path / "p.json")
    with pytest.raises(RuntimeError, match="is being recorded already"):
        profiler.start_trace(tmp_path / "q.json")
    tnp.sin(X)
    assert names(profiler.stop_trace(), "eager") == ["sin"] and (tmp_path / "p.json").exists()
    with pytest.raises(KeyError), profiler.trace(tmp_path / "r.json"):
        raise KeyError
    assert (tmp_path / "r.json").exists() and events.recording is None


def test_loops_donation_symbolic_sizes_and_what_is_compiled_ahead() -> None:
    n = tinyfn.Variable("n", 1, 64)
    symbolic = tinyfn.jit(softmax).lower(tinyfn.ShapeDtypeStruct((n, 32), "float32")).compile()
    donating = tinyfn.jit(lambda x: x * 2, donate_argnums=0)
    loop = tinyfn.jit(lambda x: lax.scan(lambda c, r: (tnp.sort(c + r), c.sum()), x[0], x))
    expected = loop(X)
    with profiler.trace() as profile:
        np.testing.assert_allclose(symbolic(X), softmax(X), rtol=1e-6)
        np.testing.assert_array_equal(donating(X + 0), X * 2)
        for found, wanted in zip(loop(X), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
        tinyfn.export.export(softmax)(X).call(X)
    assert {"softmax", "<lambda>"} <= set(names(profile, "program"))
    assert "scan" in names(profile, "host call") and names(profile, "program").count("softmax") == 2


def test_annotations_of_functions() -> None:
    @profiler.annotate("named")
    def one(x: Any) -> Any:
        return tnp.sin(x)

    two = profiler.annotate_function(softmax)
    with profiler.trace() as profile:
        one(X)
        two(X)
        with profiler.TraceAnnotation("block", size=3):
            pass
    assert names(profile, "annotation") == ["named", "softmax", "block"] and profile.events[-1].details == {
        "size": 3
    }


def test_other_threads_are_recorded() -> None:
    jitted = tinyfn.jit(softmax)
    jitted(X)
    with profiler.trace() as profile:
        thread = threading.Thread(target=lambda: jitted(X))
        thread.start()
        thread.join()
    (kernel,) = [e for e in profile.events if e.category == "kernel"]
    assert kernel.thread != threading.get_native_id()
