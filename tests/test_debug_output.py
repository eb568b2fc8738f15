"""What DEBUG prints, and that it changes nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import debug_level, devices, stage_times


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    before = devices.default_device()
    devices.set_default_device("cpu")
    yield
    devices.set_default_device(before)


def softmax(x: Any) -> Any:
    e = tnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def ranked(x: Any) -> Any:
    return tnp.argsort(softmax(x), axis=-1) + 1


def printed(function: Any, level: int, capfd: pytest.CaptureFixture[str], calls: int = 1) -> str:
    x = tnp.asarray(np.random.default_rng(0).normal(size=(16, 32)).astype(np.float32))
    with debug_level(0):
        expected = tinyfn.jit(function)(x)
    capfd.readouterr()
    jitted = tinyfn.jit(function)
    with debug_level(level):
        for _ in range(calls):
            np.testing.assert_array_equal(jitted(x), expected)
    output, errors = capfd.readouterr()
    assert output == ""
    return errors


def test_nothing_at_level_0(capfd: pytest.CaptureFixture[str]) -> None:
    assert printed(softmax, 0, capfd) == ""


def test_a_line_for_each_compilation_at_level_1(capfd: pytest.CaptureFixture[str]) -> None:
    (line,) = printed(softmax, 1, capfd, calls=3).splitlines()
    assert re.match(r"compiled softmax on cpu: 1 kernel in [\d.]+ ms \(", line)
    for stage in ("trace", "simplify", "group", "memory plan"):
        assert re.search(rf"\b{stage} [\d.]+", line), stage


def test_a_table_for_each_run_at_level_2(capfd: pytest.CaptureFixture[str]) -> None:
    lines = printed(ranked, 2, capfd, calls=2).splitlines()
    assert [line for line in lines if line.startswith("compiled")] == lines[:1]
    assert lines.count("ran ranked on cpu") == 2
    run = lines[1:7]
    assert run[1].split() == ["kernel", "loops", "flops", "memory", "time", "GFLOP/s", "GB/s"]
    assert re.match(r"0  max_exp_sum_div_16x32 +16 \[32, 32, 32\] .* [\d.]+ [µm]s +[\d.]+ +[\d.]+$", run[2])
    assert "sort: 32 of 32" in run[3] and run[4].startswith("2  add_")
    assert run[5].split()[0] == "all"


def test_functions_compiled_before_are_timed_too(capfd: pytest.CaptureFixture[str]) -> None:
    jitted, x = tinyfn.jit(softmax), tnp.ones((16, 32))
    for _ in range(3):  # the generated call path is in place
        jitted(x)
    with debug_level(2):
        jitted(x)
    jitted(x)
    assert capfd.readouterr()[1].count("ran softmax on cpu") == 1


def test_values_in_another_shape_are_no_steps(capfd: pytest.CaptureFixture[str]) -> None:
    lines = printed(lambda x: tnp.argsort((x * 2).reshape(-1)), 2, capfd).splitlines()
    assert [line.split()[0] for line in lines[3:]] == ["0", "1", "all"]


def test_each_level_adds_to_the_one_before(capfd: pytest.CaptureFixture[str]) -> None:
    marks = {
        3: (
            "opts of 0: max_exp_sum_div_16x32: UPCAST",
            "parallel for o0 in 16:\n",
            "reduce_max = max(reduce_max, x[",
        ),
        4: ("define void @kernel(",),
        5: ("t0: float32 = ",),
        6: ("\nkernel:",),
    }
    for level in (2, 3, 4, 5, 6):
        text = printed(softmax, level, capfd)
        for least, needed in marks.items():
            for mark in needed:
                assert (mark in text) == (level >= least), (level, mark)


def test_donation_works_at_level_2(capfd: pytest.CaptureFixture[str]) -> None:
    step = tinyfn.jit(lambda state, x: state * 0.5 + x, donate_argnums=0)
    state = tnp.ones(1000)
    with debug_level(2):
        for _ in range(3):
            old, state = state, step(state, tnp.ones(1000))
            with pytest.raises(tinyfn.trace.errors.DeletedArrayError):
                old + 1
    np.testing.assert_array_equal(state, np.full(1000, 1.875))


def test_stage_times_of_a_compilation() -> None:
    with stage_times() as times:
        tinyfn.jit(tinyfn.grad(lambda x: (softmax(x) ** 2).sum()))(tnp.ones((7, 33)))
    assert {"trace", "transform", "simplify", "group", "render"} <= set(times.seconds)
    with stage_times() as again:
        pass
    assert not again.seconds


def test_the_environment_is_read() -> None:
    script = (
        "import tinyfn, tinyfn.numpy as tnp; f = tinyfn.jit(lambda x: x + 1); f(tnp.ones(3)); f(tnp.ones(3))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "DEBUG": "2", "TINYFN_DEVICE": "cpu", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (
        run.stdout == ""
        and run.stderr.count("compiled <lambda>") == 1
        and run.stderr.count("ran <lambda>") == 2
    )


def test_a_loop_is_a_step_at_level_2(capfd: pytest.CaptureFixture[str]) -> None:
    def summed(x: Any) -> Any:
        return tinyfn.lax.scan(lambda c, row: (c + row.sum(), c), tnp.zeros(()), x)[1] * 2

    text = printed(summed, 2, capfd)
    assert re.search(r"\bscan\b", text) and "ran summed on cpu" in text
