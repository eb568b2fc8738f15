"""The benchmarks: what they run is right, what they print follows from what was measured, and failures are told."""

from __future__ import annotations

import ast
import json
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import __main__, report, runner, workloads
from benchmarks.libraries import LIBRARIES, jax_style
from benchmarks.runner import Options, Outcome, Peer, disagreement
from benchmarks.worker import leaves, memory
from benchmarks.workloads import WORKLOADS, Goal, normal
from tinyfn import devices

ROOT = Path(__file__).parents[1]
QUICK = Options(threads=1, rounds=2, starts=1)
OURS = Peer("tinyfn", sys.executable)


@pytest.fixture
def default_device() -> Iterator[None]:
    before = devices.default_device()
    yield
    devices.set_default_device(before)


# The workloads


def small_inputs(kind: str, patch: pytest.MonkeyPatch) -> Any:
    """Inputs of a kind of workload with odd and small sizes."""
    for name, size in (("BLOCKS", 2), ("WIDTH", 24), ("LENGTH", 7), ("SEQUENCES", 3), ("VOCABULARY", 11)):
        patch.setattr(workloads, name, size)
    params = [normal(1, 3, 5), normal(2, 7)]
    special = {
        "layer_norm": {"x": normal(0, 5, 17), "scale": normal(1, 17), "bias": normal(2, 17)},
        "transpose_add": {"x": normal(0, 5, 17), "y": normal(1, 17, 5)},
        "matmul": {"x": normal(0, 5, 17), "y": normal(1, 17, 3)},
        "conv": {"x": normal(0, 2, 3, 7, 6), "w": normal(1, 4, 3, 3, 3)},
        "adam": {
            "params": params,
            "state": workloads.adam_state(params),
            "grads": [normal(3, 3, 5), normal(4, 7)],
        },
        "add_one": {"x": {"b": normal(0, 3), "a": [normal(1, 2)]}},
    }
    if kind == "mlp_step":
        return workloads._mlp((5, 7, 3), 4)()
    if kind.startswith("lstm"):
        for name, size in (("LSTM_STEPS", 5), ("LSTM_ROWS", 3), ("LSTM_WIDTH", 6)):
            patch.setattr(workloads, name, size)
        return workloads._lstm()
    if kind.startswith("scan"):
        patch.setattr(workloads, "STEPS", 20)
        return workloads._recurrence()
    if kind.startswith("transformer"):
        return workloads._transformer()
    return special.get(kind, {"x": normal(0, 9, 17)})


def result_of(name: str, device: str, kind: str, inputs: Any) -> list[np.ndarray]:
    devices.set_default_device(device)
    run = getattr(jax_style.load(name), kind)(inputs)
    run()
    run.reset()
    return leaves(run.shown(run()))


@pytest.mark.parametrize("kind", sorted({workload.kind for workload in WORKLOADS.values()}))
def test_a_workload_compiled_is_what_it_is_step_by_step_in_float64(
    kind: str, monkeypatch: pytest.MonkeyPatch, default_device: None
) -> None:
    inputs = small_inputs(kind, monkeypatch)
    compiled = result_of("tinyfn", "cpu", kind, inputs)
    reference = result_of("reference", "numpy", kind, inputs)
    assert all(array.dtype == np.float32 for array in compiled)
    assert all(array.dtype == np.float64 for array in reference)
    difference, wrong = disagreement(compiled, reference, 1e-4)
    assert not wrong and difference < 1e-4


def test_every_library_has_every_kind() -> None:
    kinds = {workload.kind for workload in WORKLOADS.values()}
    for source in LIBRARIES.values():
        text = (ROOT / "benchmarks" / "libraries" / f"{source.module}.py").read_text()
        (library,) = (n for n in ast.parse(text).body if isinstance(n, ast.ClassDef) and n.name == "Library")
        assert kinds <= {n.name for n in library.body if isinstance(n, ast.FunctionDef)}


def test_inputs_are_the_same_each_time() -> None:
    for name in ("dispatch_dict_40", "matmul_128", "mlp_small_step", "transformer_grad"):
        a, b = leaves(WORKLOADS[name].inputs()), leaves(WORKLOADS[name].inputs())
        assert len(a) == len(b) > 0 and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_selecting() -> None:
    assert list(workloads.selected([])) == list(WORKLOADS)
    assert list(workloads.selected(["softmax", "matmul_1024"])) == ["softmax", "matmul_1024"]
    assert list(workloads.selected(["mlp"])) == ["mlp_small_step", "mlp_large_step"]
    with pytest.raises(KeyError, match="matmul_10"):
        workloads.selected(["matmul_10"])


# Measuring


def test_a_run_prints_a_table_and_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.json"
    command = ["matmul_128", "mlp_small", "--peers", "", "--threads", "1", "--rounds", "2", "--starts", "1"]
    assert __main__.main([*command, "--json", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "GB/s" in printed and "GFLOP/s" in printed
    assert [line.split()[:2] for line in printed.splitlines() if "tinyfn" in line] == [
        ["matmul_128", "tinyfn"],
        ["mlp_small_step", "tinyfn"],
    ]
    written = json.loads(path.read_text())
    assert written["limits"]["bytes"] > 1e8 and written["limits"]["flops"] > 1e8
    assert written["options"] == {"threads": 1, "rounds": 2, "starts": 1}
    assert set(written["workloads"]) == {"matmul_128", "mlp_small_step"}
    for libraries in written["workloads"].values():
        ours = libraries["tinyfn"]
        assert ours["error"] == "" and 0 <= ours["difference"] < 1e-4
        assert [len(ours[key]) for key in ("imports", "cold", "warm", "rounds")] == [2, 1, 1, 2]
        assert all(len(times) >= 5 and min(times) > 0 for times in ours["rounds"])
        assert ours["peak"] >= ours["before"] > 1e7
    # The same run compared with itself.
    lines = list(report.comparison({"matmul_128": {}}, written))
    assert len(lines) == 1
    outcome = {"tinyfn": Outcome(**written["workloads"]["matmul_128"]["tinyfn"])}
    assert " 1.00 " in list(report.comparison({"matmul_128": outcome}, written))[1]


def test_kernels_are_printed(capsys: pytest.CaptureFixture[str], default_device: None) -> None:
    assert __main__.main(["softmax", "eager_add", "mlp_small", "--kernels"]) == 0
    printed = capsys.readouterr().out
    assert "softmax: " in printed and "on cpu: 1 kernel\n" in printed and "4096x4096" in printed
    assert "eager_add: not jitted" in printed and "dot" in printed.split("mlp_small_step: ")[1]


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_library_that_fails_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    absent = Peer("jax", str(tmp_path / "absent"))
    silent = Peer("torch", script(tmp_path / "silent", "exit 3"))
    loud = Peer("torch.compile", script(tmp_path / "loud", "echo no such module >&2; exit 1"))
    found = runner.measure("eager_add", WORKLOADS["eager_add"], [absent, silent, OURS, loud], QUICK)
    assert list(found) == ["jax", "torch", "tinyfn", "torch.compile"]
    assert "absent" in found["jax"].error
    assert "code 3" in found["torch"].error and found["torch.compile"].error == "no such module"
    assert found["tinyfn"].error == "" and len(found["tinyfn"].rounds) == 2
    printed = list(report.lines("eager_add", found, {}))
    assert sum("failed: " in line for line in printed) == 3


def test_a_library_that_dies_in_the_midst_is_reported(tmp_path: Path) -> None:
    start = json.dumps({"import": 1.0, "setup": 1.0, "first": 1.0, "versions": {}})
    dying = Peer("jax", script(tmp_path / "dying", f"echo '{start}'; read line; echo gone >&2"))
    found = runner.measure("eager_add", WORKLOADS["eager_add"], [dying, OURS], QUICK)
    assert found["jax"].error == "gone" and found["tinyfn"].error == ""


def test_a_result_that_disagrees_is_an_error_and_no_number() -> None:
    strict = WORKLOADS["dispatch_one"]._replace(tolerance=-1.0)
    found = runner.measure("dispatch_one", strict, [OURS], QUICK)
    assert "differs by" in found["tinyfn"].error and not found["tinyfn"].rounds


def test_disagreements() -> None:
    reference = [np.array([1.0, 100.0]), np.array(3.0)]
    assert disagreement([np.array([1.001, 100.0]), np.array(3.0)], reference, 1e-4)[1] == ""
    assert "array 0" in disagreement([np.array([2.0, 100.0]), np.array(3.0)], reference, 1e-4)[1]
    assert "array 1" in disagreement([np.array([1.0, 100.0]), np.array(np.nan)], reference, 1e-4)[1]
    assert "shape" in disagreement([np.array([[1.0, 100.0]]), np.array(3.0)], reference, 1e-4)[1]
    assert "1 arrays" in disagreement(reference[:1], reference, 1e-4)[1]
    assert disagreement([np.zeros((0, 2))], [np.zeros((0, 2))], 1e-4) == (0.0, "")


# Peers and threads


def test_finding_peers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import argparse

    def peers(given: list[str], chosen: str | None) -> list[Peer]:
        return __main__.find_peers(given, chosen, argparse.ArgumentParser())

    monkeypatch.setenv("TINYFN_BENCH_PEERS", f"jax=/j/python,torch={tmp_path}")
    torch = str(tmp_path / "bin" / "python")
    assert peers([], None) == [OURS, Peer("jax", "/j/python"), Peer("torch", torch)]
    assert peers(["jax=/other"], "jax") == [OURS, Peer("jax", "/other")]
    assert peers([], "torch.compile,torch") == [OURS, Peer("torch.compile", torch), Peer("torch", torch)]
    assert peers([], "") == [OURS]
    monkeypatch.delenv("TINYFN_BENCH_PEERS")
    for given, chosen, message in (
        ([], "jax", "no environment"),
        (["mlx=x"], None, "NAME=PYTHON"),
        (["jax"], None, "jax"),
    ):
        with pytest.raises(SystemExit):
            peers(given, chosen)
        assert message in capsys.readouterr().err


def test_all_libraries_get_the_same_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("OPENBLAS_CORETYPE", "XLA_FLAGS", "TINYFN_CACHE", "TORCH_LOGS"):
        monkeypatch.setenv(name, "what the user has set")
    for library in LIBRARIES:
        for threads in (1, 2):
            variables = runner.environment(library, threads, tmp_path)
            assert "what the user has set" not in variables.values()
            assert {variables[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS", "TINYFN")} == {
                str(threads)
            }
            assert ("XLA_FLAGS" in variables) == (library == "jax" and threads == 1)
            assert variables.get("TINYFN_DEVICE") == {"tinyfn": "cpu", "reference": "numpy"}.get(library)


def test_memory_is_what_the_process_has() -> None:
    if not Path("/proc/self/status").exists():
        assert memory("VmRSS") == 0
        return
    before = memory("VmRSS")
    held = np.ones(100_000_000, np.uint8)  # more than malloc ever takes from memory that it has already
    assert 90e6 < memory("VmRSS") - before < 130e6 and memory("VmHWM") >= memory("VmRSS") - 5e6
    del held


# What is printed


def outcome(*rounds: float, cold: float = 1.0, warm: float = 1.0) -> Outcome:
    return Outcome(
        imports=(0.1,), cold=(cold,), warm=(warm,), rounds=tuple([(r, r, r) for r in rounds]), peak=10**8
    )


def test_ratios_goals_and_limits() -> None:
    pair = {
        "tinyfn": outcome(1.0, 2.0, 4.0, cold=0.9, warm=0.25),
        "jax": outcome(2.0, 2.5, 4.0, cold=1.0, warm=0.1),
    }
    assert report.ratios(pair["tinyfn"], pair["jax"]) == [0.5, 0.8, 1.0]
    values = {goal.what: value for goal, value in report.judged("mlp_large_step", pair)}
    assert values == {"cached": 0.8, "cold": 0.9, "warm": 0.25}
    line = list(report.lines("mlp_large_step", pair, {}))[1]
    assert "0.80  0.50 - 1.00    0.50  cached" in line
    assert (
        "cached <= 1.0 jax: met (0.80), cold <= 0.8 jax: NOT met (0.90), warm <= 0.3 jax: met (0.25)" in line
    )
    assert (
        report.summary({"mlp_large_step": pair})
        == "goals met: 2 of 3; not met: mlp_large_step cold <= 0.8 jax (0.90)"
    )
    # 2 * 1024^3 operations in 2 s where the machine does 2^31 in a second.
    share = report.of_limit("matmul_1024", outcome(2.0), {"flops": 2.0**31, "bytes": 1.0})
    assert share == 0.5
    assert report.of_limit("eager_add", outcome(2.0), {"flops": 1.0, "bytes": 1.0}) is None


def test_a_goal_is_not_judged_by_a_failure() -> None:
    pair = {"tinyfn": Outcome("it broke"), "jax": outcome(1.0)}
    assert list(report.judged("exp", pair)) == [] and report.summary({"exp": pair}) == ""
    assert [line.split()[:3] for line in report.lines("exp", pair, {})] == [
        ["exp", "tinyfn", "failed:"],
        ["exp", "jax", "1"],
    ]


def test_durations() -> None:
    given = [4321.0, 1.5, 0.99996, 0.0125, 3.21e-4, 4.5e-7]
    shown = ["4321 s", "1.5 s", "1 s", "12.5 ms", "321 us", "450 ns"]
    assert [report.duration(seconds) for seconds in given] == shown


def test_goals_name_what_is_compared() -> None:
    for workload in WORKLOADS.values():
        for goal in workload.goals:
            assert goal.peer in LIBRARIES and goal.what in ("cached", "cold", "warm") and goal.ratio > 0
    assert str(Goal("jax", "warm", 0.3)) == "warm <= 0.3 jax"
