"""The pool: the same bits for any number of threads, from any thread, after a fork."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tinyfn.devices import cpu, threads
from tinyfn.lower.target import host_target

ROOT = Path(__file__).parents[2]
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

# One partial sum for each chunk: partial[begin / grain] = sum of x[begin:end], in order; the arguments are x, partial, grain.
# `program` sums in parallel, `count` times; `nested` has a kernel that does so.
SUMS = f"""
define void @sum(ptr %arguments, i64 %begin, i64 %end) {{
entry:
  %x = load ptr, ptr %arguments
  %where.partial = getelementptr i8, ptr %arguments, i64 8
  %partial = load ptr, ptr %where.partial
  %where.grain = getelementptr i8, ptr %arguments, i64 16
  %grain = load i64, ptr %where.grain
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %total = phi float [ 0.0, %entry ], [ %more, %loop ]
  %where = getelementptr float, ptr %x, i64 %i
  %value = load float, ptr %where
  %more = fadd float %total, %value
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %end
  br i1 %again, label %loop, label %exit
exit:
  %chunk = udiv i64 %begin, %grain
  %to = getelementptr float, ptr %partial, i64 %chunk
  store float %more, ptr %to
  ret void
}}
define void @program(ptr %arguments, i64 %n, i64 %count) {{
entry:
  %where.grain = getelementptr i8, ptr %arguments, i64 16
  %grain = load i64, ptr %where.grain
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @{threads.SYMBOL}(ptr @sum, ptr %arguments, i64 %n, i64 %grain)
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %count
  br i1 %again, label %loop, label %exit
exit:
  ret void
}}
define void @inner(ptr %arguments, i64 %begin, i64 %end) {{
  %where.n = getelementptr i8, ptr %arguments, i64 24
  %n = load i64, ptr %where.n
  call void @program(ptr %arguments, i64 %n, i64 1)
  ret void
}}
define void @nested(ptr %arguments, i64 %n, i64 %count) {{
  call void @{threads.SYMBOL}(ptr @inner, ptr %arguments, i64 %count, i64 1)
  ret void
}}
{threads.DECLARATION}
"""


class Arguments(ctypes.Structure):
    _fields_ = (
        ("x", ctypes.c_void_p),
        ("partial", ctypes.c_void_p),
        ("grain", ctypes.c_int64),
        ("n", ctypes.c_int64),
    )


def sums(x: np.ndarray, grain: int, count: int = 1, entry: str = "program") -> np.ndarray:
    module = cpu.compile_ir(SUMS, host_target(), symbols=threads.symbols())
    partial = np.full(-(-len(x) // grain), np.nan, np.float32)
    arguments = Arguments(x.ctypes.data, partial.ctypes.data, grain, len(x))
    KERNEL(module.function(entry))(ctypes.addressof(arguments), len(x), count)
    return partial


def expected(x: np.ndarray, grain: int) -> np.ndarray:
    """The same sums by NumPy; cumsum adds in order."""
    return np.array([x[i : i + grain].cumsum(dtype=np.float32)[-1] for i in range(0, len(x), grain)])


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TINYFN_CACHE_DIR", str(tmp_path / "cache"))
    cpu.disk_cache.cache_clear()
    before = threads.num_threads()
    yield
    threads.set_num_threads(before)
    cpu.disk_cache.cache_clear()


def data(n: int) -> np.ndarray:
    return np.random.default_rng(n).normal(size=n).astype(np.float32)


@pytest.mark.parametrize(
    "n,grain", [(1, 1), (7, 3), (64, 64), (100, 7), (1000, 1), (4099, 100), (200_000, 4096)]
)
def test_the_same_bits_for_any_number_of_threads(n: int, grain: int) -> None:
    x = data(n)
    results = []
    for number in (1, 2, 3, 8, 2, 1):
        threads.set_num_threads(number)
        results.append(sums(x, grain, count=5))
    np.testing.assert_array_equal(results[0], expected(x, grain))
    assert len({result.tobytes() for result in results}) == 1


def test_every_chunk_is_run_once_by_several_threads() -> None:
    threads.set_num_threads(4)
    chunks: list[tuple[int, int]] = []
    who: set[int] = set()
    first_two = iter(range(2))
    meet = threading.Barrier(2)

    def record(arguments: int, begin: int, end: int) -> None:
        if next(first_two, None) is not None:
            meet.wait(30)  # only another thread can come
        who.add(threading.get_ident())
        chunks.append((begin, end))

    kernel = KERNEL(record)
    address = ctypes.cast(kernel, ctypes.c_void_p).value
    assert address is not None
    threads.parallel_for(address, 0, 1003, 10)
    assert len(who) >= 2
    assert sorted(chunks) == [(begin, min(begin + 10, 1003)) for begin in range(0, 1003, 10)]


def test_one_thread_runs_the_chunks_in_order() -> None:
    threads.set_num_threads(1)
    chunks: list[tuple[int, int]] = []
    kernel = KERNEL(lambda arguments, begin, end: chunks.append((begin, end)))
    address = ctypes.cast(kernel, ctypes.c_void_p).value
    assert address is not None
    threads.parallel_for(address, 0, 7, 3)
    assert chunks == [(0, 3), (3, 6), (6, 7)]
    threads.parallel_for(address, 0, 0, 3)
    threads.parallel_for(address, 0, -5, 3)
    assert len(chunks) == 3
    with pytest.raises(ValueError, match="at least one item, not 0"):
        threads.parallel_for(address, 0, 7, 0)


def test_a_kernel_may_call_parallel_for() -> None:
    threads.set_num_threads(3)
    x = data(500)
    np.testing.assert_array_equal(sums(x, 9, count=6, entry="nested"), expected(x, 9))


def test_eight_python_threads_at_once() -> None:
    threads.set_num_threads(2)
    inputs = [data(3000 + 17 * i) for i in range(8)]
    wanted = [expected(x, 50).tobytes() for x in inputs]
    wrong: list[int] = []
    start = threading.Barrier(8)

    def work(i: int) -> None:
        start.wait()
        for _ in range(200):
            if sums(inputs[i], 50, count=3).tobytes() != wanted[i]:
                wrong.append(i)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()
    assert not wrong


def test_the_number_of_threads_may_change_at_any_time() -> None:
    x = data(5000)
    wanted = expected(x, 25).tobytes()
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            threads.set_num_threads(1 + number % 5)

    changer = threading.Thread(target=change)
    changer.start()
    try:
        assert all(sums(x, 25, count=10).tobytes() == wanted for _ in range(300))
    finally:
        stop.set()
        changer.join()


def test_sleeping_threads_are_woken() -> None:
    """Longer pauses than the pool's threads stay awake."""
    threads.set_num_threads(2)
    x = data(1000)
    wanted = expected(x, 100).tobytes()
    for pause in (0.0, 0.001, 0.005, 0.02) * 3:
        threading.Event().wait(pause)
        assert sums(x, 100).tobytes() == wanted


@pytest.mark.parametrize("number", [0, -1, 1.5, "2", None, True, 10**6])
def test_a_wrong_number_is_refused(number: object) -> None:
    with pytest.raises(ValueError, match="should be an int from 1 to"):
        threads.set_num_threads(number)  # type: ignore[arg-type]


def test_the_environment_gives_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TINYFN_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert threads._default_threads() == 3
    monkeypatch.setenv("TINYFN_NUM_THREADS", "5")
    assert threads._default_threads() == 5
    for text in ("zero", "0", "-2"):
        monkeypatch.setenv("TINYFN_NUM_THREADS", text)
        with pytest.raises(
            ValueError, match=f"TINYFN_NUM_THREADS should be a number from 1 to 1024, not '{text}'"
        ):
            threads._default_threads()
    monkeypatch.delenv("TINYFN_NUM_THREADS")
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert 1 <= threads._default_threads() <= (os.cpu_count() or 1)


def run(script: str, *command: str) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "ignore", *command, "-c", script],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TINYFN_NUM_THREADS": "3"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


PREPARE = """
import importlib.util, os, sys, threading
spec = importlib.util.spec_from_file_location("helpers", "tests/devices/test_threads.py")
helpers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(helpers)
from tinyfn.devices import threads
def native_threads():
    return len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else None
x = helpers.data(20_000)
wanted = helpers.expected(x, 100).tobytes()
assert threads.num_threads() == 3
"""


def test_no_thread_starts_before_the_first_parallel_call() -> None:
    output = run(
        PREPARE
        + """
import tinyfn
before = native_threads()
threads.symbols()
helpers.sums(x, len(x))
assert native_threads() == before
helpers.sums(x, 100)
assert before is None or native_threads() == before + 2
print("done")
"""
    )
    assert output == "done\n"


def test_a_child_has_a_pool_of_its_own() -> None:
    output = run(
        PREPARE
        + """
assert helpers.sums(x, 100).tobytes() == wanted
for _ in range(10):
    child = os.fork()
    if not child:
        alone = native_threads()
        good = all(helpers.sums(x, 100, count=20).tobytes() == wanted for _ in range(20))
        os._exit(0 if good and alone in (1, None) and native_threads() in (3, None) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert helpers.sums(x, 100).tobytes() == wanted
print("done")
"""
    )
    assert output == "done\n"


def test_a_fork_in_the_middle_of_other_threads_work() -> None:
    output = run(
        PREPARE
        + """
stop = False
wrong = []
def work():
    while not stop:
        if helpers.sums(x, 100, count=20).tobytes() != wanted:
            wrong.append(1)
workers = [threading.Thread(target=work) for _ in range(2)]
for worker in workers:
    worker.start()
for _ in range(30):
    child = os.fork()
    if not child:
        good = helpers.sums(x, 100, count=20).tobytes() == wanted
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
stop = True
for worker in workers:
    worker.join()
assert not wrong
print("done")
"""
    )
    assert output == "done\n"


def test_the_process_ends_while_threads_work() -> None:
    output = run(
        PREPARE
        + """
def work():
    while True:
        helpers.sums(x, 100, count=1000)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
helpers.sums(x, 100)
print("done")
"""
    )
    assert output == "done\n"


def test_an_error_in_one_thread_leaves_the_pool_usable() -> None:
    threads.set_num_threads(2)
    x = data(2000)

    def fail() -> None:
        sums(x, 20)
        with pytest.raises(cpu.CompileError):
            cpu.compile_ir("no module", host_target(), symbols=threads.symbols())
        with pytest.raises(ValueError):
            threads.set_num_threads(0)

    worker = threading.Thread(target=fail)
    worker.start()
    worker.join()
    np.testing.assert_array_equal(sums(x, 20), expected(x, 20))
