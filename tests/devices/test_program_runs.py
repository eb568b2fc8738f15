"""Programs at work: finishes, memory that stays flat, several threads, forks, interrupts, and errors of host ops."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.agreement import by_numpy
from tinyfn import jit
from tinyfn.devices import cpu, default_device, layout, runner, set_default_device
from tinyfn.devices.cpu import compile_ir
from tinyfn.devices.threads import num_threads, set_num_threads
from tinyfn.lower.target import host_target

LINUX = sys.platform.startswith("linux")


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    before = default_device(), num_threads()
    set_default_device("cpu")
    yield
    set_default_device(before[0])
    set_num_threads(before[1])


def numbers(*shape: int, seed: int = 0) -> Any:
    return tnp.asarray(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


# The native side.

PARTIAL = """
define void @kernel(ptr %arguments, i64 %begin, i64 %end) {
entry:
  %x = load ptr, ptr %arguments
  %partial.address = getelementptr ptr, ptr %arguments, i64 1
  %partial = load ptr, ptr %partial.address
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %from = getelementptr double, ptr %x, i64 %i
  %value = load double, ptr %from
  %square = fmul double %value, %value
  %to = getelementptr double, ptr %partial, i64 %i
  store double %square, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @finish(ptr %arguments) {
entry:
  %partial.address = getelementptr ptr, ptr %arguments, i64 1
  %partial = load ptr, ptr %partial.address
  %sum.address = getelementptr ptr, ptr %arguments, i64 2
  %sum = load ptr, ptr %sum.address
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %total = phi double [ 0.0, %entry ], [ %new, %loop ]
  %from = getelementptr double, ptr %partial, i64 %i
  %value = load double, ptr %from
  %new = fadd double %total, %value
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 1000
  br i1 %more, label %loop, label %done
done:
  store double %new, ptr %sum
  ret void
}
"""


@pytest.mark.parametrize("known", [True, False])
def test_a_finish_runs_after_all_points(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the layout of Python's objects is not known."""
    monkeypatch.setattr(layout, "is_known", lambda: known)
    functions = runner.runner.__wrapped__()
    assert (functions.matches is None) != known
    module = compile_ir(PARTIAL, host_target())
    x = np.random.default_rng(0).normal(size=1000)
    for threads in (1, 2, 3):
        set_num_threads(threads)
        for grain in (1, 7, 1000):
            kernels = runner.Kernels()
            # The partial sums are in the middle of another array.
            pairs = [(0, 0), (2, 64), (1, 0)]
            for _ in range(3):
                kernels.add(module.function("kernel"), module.function("finish"), 1000, grain, pairs)
            kernels.complete()
            total, partial = np.zeros(1), np.full(1016, 7.0)
            functions.run(kernels.address, [x, total, partial])
            np.testing.assert_array_equal(partial[8:1008], x * x)
            assert (partial[:8] == 7).all() and (partial[1008:] == 7).all()
            assert total[0] == np.add.accumulate(x * x)[-1]


def test_arrays_are_compared_with_what_is_expected() -> None:
    functions = runner.runner()
    assert functions.matches is not None
    a, b = np.zeros((3, 5), np.float32), np.zeros((), np.int8)
    expected = runner.expectation([a, b])

    def fits(*arrays: Any) -> bool:
        values = list(arrays)
        assert functions.matches is not None
        return bool(functions.matches(expected.buffer_info()[0], id(values)))

    class Sub(np.ndarray):
        pass

    assert fits(a, b) and fits(a.copy(), b.copy(), "more") and fits(a[:], b)
    assert not fits(b, a) and not fits(None, b) and not fits("text", b) and not fits(1, 2)
    assert not fits(a.reshape(5, 3), b) and not fits(a.reshape(1, 3, 5), b) and not fits(a.reshape(15), b)
    assert (
        not fits(a.astype(np.float64), b) and not fits(a.view(np.int32), b) and not fits(a.astype(">f4"), b)
    )
    assert not fits(np.zeros((5, 3), np.float32).T, b) and not fits(np.zeros((3, 10), np.float32)[:, ::2], b)
    assert not fits(a.view(Sub), b) and not fits(a, b.reshape(1))
    unaligned = np.zeros(61, np.uint8)[1:].view(np.float32).reshape(3, 5)
    assert not unaligned.flags.aligned and not fits(unaligned, b)
    nothing = runner.expectation([])
    assert functions.matches(nothing.buffer_info()[0], id([]))


# Memory.


def resident() -> float:
    """Megabytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.skipif(not LINUX, reason="reads /proc")
def test_memory_stays_flat_over_many_calls() -> None:
    f = jit(lambda x, y: (tnp.tanh(x) * y, (x + y).sum(), {"product": x @ y.T, "sorted": tnp.sort(x[0])}))
    update = jit(lambda x: x + 1.0, donate_argnums=0)
    x, y, state = numbers(40, 50), numbers(40, 50, seed=1), numbers(60, 60)

    def run(times: int) -> None:
        nonlocal state
        for _ in range(times):
            f(x, y)
            state = update(state)

    def run_quick(times: int) -> None:
        for _ in range(times):
            quick(x, y)

    quick = jit(lambda x, y: {"sum": x + y, "rows": x.sum(0)})
    run(1000)
    run_quick(1000)
    gc.collect()
    before, objects = resident(), len(gc.get_objects())
    run(10_000)
    run_quick(100_000)
    gc.collect()
    assert resident() - before < 2
    assert len(gc.get_objects()) - objects < 100


@pytest.mark.skipif(not LINUX, reason="reads /proc")
def test_memory_stays_flat_over_many_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TINYFN_VERIFY", raising=False)  # it would take longer than compiling
    f = jit(lambda x: tnp.tanh(x * 2.0) + x.sum(-1, keepdims=True), cache_size=8)
    # Small arrays: memory of large ones waits for reuse, by sizes, which is not what is asked here.
    shapes = [(rows, columns) for rows in (2, 3, 4, 5) for columns in range(2, 202)]

    def run(shapes: list[tuple[int, int]]) -> None:
        for shape in shapes:
            f(tnp.ones(shape))

    run([(7, n) for n in range(2, 302)])  # until the caches of what may come again are full
    gc.collect()
    before, modules, objects = resident(), len(cpu._modules), len(gc.get_objects())
    run(shapes + [(6, n) for n in range(2, 202)])
    gc.collect()
    assert len(cpu._modules) <= modules + 8
    assert len(gc.get_objects()) - objects < 1000
    assert resident() - before < 2


def test_temporaries_and_results_of_host_ops_are_freed_early() -> None:
    """A chain of host ops never holds more than a few of its values."""
    size = 1 << 18

    def chain(x: Any) -> Any:
        for _ in range(20):
            x = by_numpy(x * -1.0)
        return x.sum()

    import tracemalloc

    f, x = jit(chain), numbers(size)
    f(x)
    tracemalloc.start()
    f(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 4 * size  # of 20 times reversed values and products


# Several threads, forks, interrupts.


def loss(params: Any, x: Any) -> Any:
    for w in params:
        x = tnp.tanh(x @ w)
        x = x / (1.0 + tnp.abs(x).sum(-1, keepdims=True))
    return (tnp.sort(x, 0) ** 2).mean()


def test_several_python_threads_and_programs_at_once() -> None:
    """Among them programs with temporaries, host ops and donated inputs."""
    functions = [jit(tinyfn.value_and_grad(loss)), jit(loss), jit(lambda p, x: [w * 2.0 + 1.0 for w in p])]
    params = [numbers(48, 48, seed=i) for i in range(4)]
    inputs = [numbers(64, 48, seed=10 + i) for i in range(4)]
    wanted = [[tinyfn.tree.map(np.asarray, f(params, x)) for x in inputs] for f in functions]
    update = jit(lambda w, x: w + tnp.tanh(x), donate_argnums=0)
    wrong: list[Any] = []

    def work(seed: int) -> None:
        generator = np.random.default_rng(seed)
        state, expected = numbers(64, 48), np.asarray(numbers(64, 48))
        for _ in range(60):
            i, j = (int(n) for n in generator.integers(0, (3, 4)))
            got = functions[i](params, inputs[j])
            for a, b in zip(tinyfn.tree.leaves(got), tinyfn.tree.leaves(wanted[i][j]), strict=True):
                if np.asarray(a).tobytes() != b.tobytes():
                    wrong.append((i, j))
            expected = expected + np.asarray(jit(tnp.tanh)(inputs[j]))
            state = update(state, inputs[j])
            if not np.allclose(np.asarray(state), expected, atol=1e-4):
                wrong.append("update")

    workers = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_the_same_bits_on_any_number_of_threads() -> None:
    f = jit(tinyfn.value_and_grad(loss))
    params, x = [numbers(130, 130, seed=i) for i in range(3)], numbers(500, 130)
    found = set()
    for threads in (1, 2, 3):
        set_num_threads(threads)
        for _ in range(3):
            found.add(b"".join(np.asarray(a).tobytes() for a in tinyfn.tree.leaves(f(params, x))))
    assert len(found) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_runs_old_and_new_programs() -> None:
    script = textwrap.dedent(
        """
        import os, threading
        import numpy as np
        import tinyfn, tinyfn.numpy as tnp
        from tinyfn.devices import set_default_device
        set_default_device("cpu")
        f = tinyfn.jit(lambda x: tnp.tanh(x) @ x.T)
        x = tnp.asarray(np.random.default_rng(0).normal(size=(300, 300)).astype(np.float32))
        want = np.asarray(f(x))
        g = tinyfn.jit(lambda x: x + 1.0)
        small = [tnp.ones(n) for n in (1, 2, 3)]
        done = threading.Event()
        def busy():
            while not done.is_set():
                f(x)
                for s in small:  # on the general path, which takes a lock
                    g(s)
        workers = [threading.Thread(target=busy) for _ in range(2)]
        for worker in workers: worker.start()
        codes = []
        for i in range(5):
            child = os.fork()
            if not child:
                same = np.array_equal(np.asarray(f(x)), want)
                new = tinyfn.jit(lambda x: x * 2.0 + i)(x)
                same = same and float(g(small[2])[0]) == 2.0
                os._exit(0 if same and np.array_equal(np.asarray(new), np.asarray(x) * np.float32(2) + i) else 1)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        done.set()
        for worker in workers: worker.join()
        print(codes)
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[0, 0, 0, 0, 0]", done.stderr


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
# Where the signal comes while memory is given back, in a finalizer, Python reports what the handler raises, and goes on.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_leaves_everything_as_it_was() -> None:
    f = jit(tinyfn.value_and_grad(loss))
    update = jit(lambda w, x: (w + tnp.tanh(x), tnp.sort(x, 0)), donate_argnums=0)
    params, x = [numbers(64, 64, seed=i) for i in range(4)], numbers(256, 64)
    wanted = [np.array(a) for a in tinyfn.tree.leaves(f(params, x))]
    want_update = np.asarray(update(x + 0.0, x)[0])

    class Interrupt(Exception):
        pass

    def stop(*_: Any) -> None:
        raise Interrupt

    before, interrupted = signal.signal(signal.SIGALRM, stop), 0
    try:
        for i in range(40):
            state = x + 0.0
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002 * (1 + i % 20))
                for _ in range(200):
                    f(params, x)
                    update(x + 0.0, x)
            except Interrupt:
                interrupted += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            for a, b in zip(tinyfn.tree.leaves(f(params, x)), wanted, strict=True):
                np.testing.assert_array_equal(np.asarray(a), b)
            np.testing.assert_array_equal(np.asarray(update(state, x)[0]), want_update)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 20


def test_errors_of_host_ops_keep_their_messages_and_leave_the_program_usable() -> None:
    from tinyfn.devices.program import Program
    from tinyfn.trace.execute import step

    calls = [0]

    def failing(node: Any) -> Any:
        function = step(node)

        def run(*args: Any) -> Any:
            calls[0] += 1
            if calls[0] == 2:
                raise ValueError("the second one fails")
            return function(*args)

        return run

    x = numbers(50, 50)
    graph = jit(lambda x: tnp.sort(x * 2.0, 0) + x).graph(x)
    program = Program(graph, failing)
    calls[0] = 2
    wanted = [a.copy() for a in program([x.value])]
    for _ in range(3):
        calls[0] = 1
        with pytest.raises(ValueError, match="the second one fails"):
            program([x.value])
        for a, b in zip(program([x.value]), wanted, strict=True):
            np.testing.assert_array_equal(a, b)


def test_results_of_host_ops_with_several_outputs() -> None:
    parts = tinyfn.checkpoint(lambda x: (tnp.sin(x), tnp.sort(x, 0).T, x))

    def f(x: Any) -> Any:
        sines, ordered, same = parts(x + 1.0)
        return sines * 2.0, ordered, ordered @ same, parts(same)[1]

    x = numbers(12, 12)
    more = np.asarray(x) + np.float32(1)
    for _ in range(3):
        for got, want in zip(
            jit(f)(x),
            (2 * np.sin(more), np.sort(more, 0).T, np.sort(more, 0).T @ more, np.sort(more, 0).T),
            strict=True,
        ):
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-5)


def test_native_code_is_given_its_own_arguments() -> None:
    """The same kernel on many arrays, with places in one block."""
    module = compile_ir(PARTIAL, host_target())
    kernels = runner.Kernels()
    many = 20
    arrays = [np.random.default_rng(i).normal(size=1000) for i in range(many)]
    block, sums = np.zeros(1000 * many), np.zeros(many)
    for i in range(many):
        pairs = [(i, 0), (many, 8000 * i), (many + 1, 8 * i)]
        kernels.add(module.function("kernel"), module.function("finish"), 1000, 64, pairs)
    kernels.complete()
    runner.runner().run(kernels.address, [*arrays, block, sums])
    for i, a in enumerate(arrays):
        np.testing.assert_array_equal(block[1000 * i : 1000 * (i + 1)], a * a)
        assert sums[i] == np.add.accumulate(a * a)[-1]


def test_a_training_step_as_a_whole() -> None:
    """Contractions, rows and updates in the same kernels, with edges of all kinds, and everything donated in place."""

    def classify(params: Any, x: Any, y: Any) -> Any:
        for w, b in params[:-1]:
            x = tnp.tanh(x @ w + b)
        w, b = params[-1]
        return -(tinyfn.nn.log_softmax(x @ w + b) * y).sum(-1).mean()

    def step(state: Any, x: Any, y: Any) -> Any:
        params, first, second, count = state
        value, gradients = tinyfn.value_and_grad(classify)(params, x, y)
        count = count + 1.0
        first = tinyfn.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = tinyfn.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
        params = tinyfn.tree.map(
            lambda p, m, v: p - 1e-3 * (m / (1 - 0.9**count)) / (tnp.sqrt(v / (1 - 0.999**count)) + 1e-8),
            params, first, second,
        )  # fmt: skip
        return (params, first, second, count), value

    generator = np.random.default_rng(0)
    sizes = [70, 65, 33, 10]
    params = [(numbers(a, b, seed=a) * 0.1, numbers(b, seed=b)) for a, b in pairwise(sizes)]
    zeros = tinyfn.tree.map(lambda p: p * 0.0, params)
    x = numbers(32, 70)
    y = tnp.asarray(np.eye(10, dtype=np.float32)[generator.integers(0, 10, 32)])

    def copied() -> Any:
        return tinyfn.tree.map(lambda a: a + 0.0, (params, zeros, zeros, tnp.zeros(())))

    graph = jit(step).graph(copied(), x, y)
    donating, plain = jit(step, donate_argnums=0), jit(step)
    state, kept = copied(), copied()
    for _ in range(3):
        leaves = [np.asarray(a) for a in tinyfn.tree.leaves((kept, x, y))]
        wanted = graph.run([*leaves, *[a.value for a in graph.captured]])
        (state, value), (kept, same) = donating(state, x, y), plain(kept, x, y)
        for a, b, c in zip(
            tinyfn.tree.leaves((state, value)), tinyfn.tree.leaves((kept, same)), wanted, strict=True
        ):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
            np.testing.assert_allclose(np.asarray(b), c, rtol=2e-3, atol=2e-4)


def test_an_op_without_a_kernel_reads_a_view_that_is_also_a_result() -> None:
    @jit
    def f(x: Any) -> Any:
        row = (x * 2.0)[1:2].reshape(3)
        return row, tinyfn.checkpoint(lambda r: r + 1.0)(row)

    row, after = f(numbers(2, 3))
    np.testing.assert_array_equal(np.asarray(row) + np.float32(1.0), after)
