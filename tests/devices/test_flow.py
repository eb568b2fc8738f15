"""Loops and branches as steps of one program: in each other, in any number, from several threads, and stopped by signals."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyfn
import tinyfn.numpy as tnp
from tests.agreement import assert_jit_agrees, by_numpy
from tests.devices.test_loops import numbers, on_the_cpu
from tinyfn import lax
from tinyfn.devices import loops, program
from tinyfn.lower import unrolled

__all__ = ["on_the_cpu"]  # a fixture that every test here uses


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[program.Program]:
    """The programs that are made."""
    made: list[program.Program] = []
    original = program.Program.__init__

    def counted(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(program.Program, "__init__", counted)
    return made


@pytest.fixture(params=["straight lines", "kernels"])
def kind(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Loops of little work as native functions, and all of them round kernels."""
    if request.param == "kernels":
        monkeypatch.setattr(unrolled, "MOST_ELEMENTS", 0)
    return str(request.param)


def power(w: Any, h: Any, n: int) -> Any:
    return lax.scan(lambda h, _: (tnp.tanh(w @ h), h.sum()), h, None, length=n)


def scan_in_scan(w: Any, h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h, sums = power(w, h + x, 3)
        return h * 0.5, sums

    return lax.scan(step, h, xs)


def scan_in_while(w: Any, h: Any, xs: Any) -> Any:
    def step(carry: Any) -> Any:
        i, h, total = carry
        h, sums = power(w, h + xs[0], 2)
        return i + 1, h, total + sums.sum()

    return lax.while_loop(lambda c: c[0] < 4, step, (0, h, tnp.zeros((), h.dtype)))


def while_in_scan(w: Any, h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        n, h = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, tnp.tanh(w @ c[1] + x)), (0, h))
        return h, n

    return lax.scan(step, h, xs, reverse=True)


def while_in_while(w: Any, h: Any, xs: Any) -> Any:
    def step(carry: Any) -> Any:
        i, h = carry
        _, h = lax.while_loop(lambda c: c[0] < i, lambda c: (c[0] + 1, tnp.tanh(w @ c[1])), (0, h))
        return i + 1, h

    return lax.while_loop(lambda c: c[0] < 4, step, (0, h))


def cond_in_scan(w: Any, h: Any, xs: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        i, h = carry
        h, y = lax.switch(
            i % 3,
            [
                lambda h: (tnp.tanh(w @ h), h.sum()),
                lambda h: (h, x.sum()),
                lambda h: (power(w, h, 2)[0], tnp.zeros((), h.dtype)),
            ],
            h,
        )
        return (i + 1, h), y

    return lax.scan(step, (0, h), xs)


def scan_in_cond(w: Any, h: Any, xs: Any) -> Any:
    return lax.cond(
        xs[0, 0] > 0, lambda: scan_in_scan(w, h, xs), lambda: (h, tnp.zeros((xs.shape[0], 3), h.dtype))
    )


def checkpoint_in_scan(w: Any, h: Any, xs: Any) -> Any:
    return lax.scan(tinyfn.checkpoint(lambda h, x: (tnp.tanh(w @ h + x), h)), h, xs)


def three_deep(w: Any, h: Any, xs: Any) -> Any:
    return lax.fori_loop(0, 2, lambda i, h: scan_in_scan(w, h, xs)[0], h)


NESTED: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        scan_in_scan, scan_in_while, while_in_scan, while_in_while, cond_in_scan, scan_in_cond, checkpoint_in_scan, three_deep,
    )
}  # fmt: skip


READ_THE_FIRST = ("scan_in_while", "scan_in_cond")


@pytest.mark.parametrize(
    "name, length", [(name, n) for name in NESTED for n in (0, 1, 2, 5) if n or name not in READ_THE_FIRST]
)
def test_one_program(programs: list[Any], kind: str, name: str, length: int) -> None:
    f, args = NESTED[name], (numbers(3, 3) * 0.4, numbers(3, seed=1), numbers(length, 3, seed=2))
    assert_jit_agrees(f, *args)
    programs.clear()
    jitted = tinyfn.jit(f)
    first, second = jitted(*args), jitted(*args)
    for a, b in zip(tinyfn.tree.leaves(first), tinyfn.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(programs) == 1 and (not programs[0]._has_hosts or not length)


@pytest.mark.parametrize("name", [n for n in NESTED if "while" not in n])
def test_gradients_are_one_program(programs: list[Any], kind: str, name: str) -> None:
    args = numbers(3, 3) * 0.4, numbers(3, seed=1), numbers(4, 3, seed=2)

    def loss(*args: Any) -> Any:
        parts = [x for x in tinyfn.tree.leaves(NESTED[name](*args)) if x.dtype == "float32"]
        return sum(((x**2).sum() for x in parts[1:]), (parts[0] ** 2).sum())

    gradient = tinyfn.value_and_grad(loss, (0, 1, 2))
    wide = tinyfn.tree.map(lambda x: x.astype("float64"), args)
    found, wanted = tinyfn.jit(gradient)(*args), _in_float64(name, wide)
    assert len(programs) == 1 and not programs[0]._has_hosts
    for a, b in zip(found[1], wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


def _in_float64(name: str, args: Any) -> Any:
    def loss(*args: Any) -> Any:
        parts = [x for x in tinyfn.tree.leaves(NESTED[name](*args)) if x.dtype == "float64"]
        return sum(((x**2).sum() for x in parts[1:]), (parts[0] ** 2).sum())

    with tinyfn.disable_jit():
        return tinyfn.grad(loss, (0, 1, 2))(*args)


def test_a_training_step_with_loops_is_one_call(programs: list[Any]) -> None:
    def loss(p: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = tnp.tanh(x @ p["w"] + h @ p["u"])
            return h, h

        return (lax.scan(step, tnp.zeros((4, 20), "float32"), xs)[1] ** 2).mean()

    @tinyfn.jit(donate_argnums=0)
    def train(p: Any, xs: Any) -> Any:
        value, gradient = tinyfn.value_and_grad(loss)(p, xs)
        return tinyfn.tree.map(lambda p, g: p - 0.1 * g, p, gradient), value

    p = {"w": numbers(16, 20) * 0.1, "u": numbers(20, 20, seed=1) * 0.1}
    xs = numbers(6, 4, 16, seed=2)
    values = []
    for _ in range(5):
        p, value = train(p, xs)
        values.append(float(value))
    assert values == sorted(values, reverse=True)
    (made,) = programs
    assert len(made._segments) == 1 and not made._has_hosts


def test_what_is_no_kernel_in_a_body_runs_step_by_step(programs: list[Any]) -> None:
    def f(w: Any, h: Any) -> Any:
        def step(h: Any, _: Any) -> Any:
            h = power(w, by_numpy(h), 4)[0]
            return lax.cond(h.sum() > 0, lambda: by_numpy(-h), lambda: h), h

        return lax.scan(step, h, None, length=3)

    assert_jit_agrees(f, numbers(3, 3), numbers(3, seed=1))
    assert any(made._has_hosts for made in programs)


def test_only_the_branch_that_is_taken_runs() -> None:
    """The other one would not end."""

    def forever(h: Any) -> Any:
        return lax.while_loop(lambda h: (h == h).all(), lambda h: h * 0.5, h)

    f = tinyfn.jit(lambda i, h: lax.switch(i, [lambda h: h * 2.0, forever, lambda h: h + 1.0], h))
    h = numbers(64, 64)
    np.testing.assert_array_equal(f(0, h), h * 2.0)
    for i in (2, 3, 100):
        np.testing.assert_array_equal(f(i, h), h + 1.0)
    np.testing.assert_array_equal(f(-1, h), h * 2.0)


def test_carries_that_are_donated_are_written_over(kind: str) -> None:
    @tinyfn.jit(donate_argnums=1)
    def f(w: Any, h: Any) -> Any:
        return lax.scan(lambda h, _: (tnp.tanh(w @ h), None), h, None, length=5)[0]

    w, h = numbers(40, 40) * 0.05, numbers(40, 40, seed=1)
    wanted = power(w, h, 5)[0]
    where = np.asarray(h).__array_interface__["data"][0]
    result = f(w, h)
    np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=1e-5)
    assert np.asarray(result).__array_interface__["data"][0] == where
    with pytest.raises(RuntimeError, match="donated"):
        h + 1


def test_several_threads_at_once(kind: str) -> None:
    f = tinyfn.jit(scan_in_scan)
    every = [(numbers(3, 3, seed=i) * 0.5, numbers(3, seed=i + 9), numbers(50, 3, seed=i)) for i in range(4)]
    wanted = [[np.asarray(x) for x in tinyfn.tree.leaves(f(*args))] for args in every]
    wrong: list[Any] = []

    def work(i: int) -> None:
        for _ in range(30):
            found = tinyfn.tree.leaves(f(*every[i]))
            if any((np.asarray(a) != b).any() for a, b in zip(found, wanted[i], strict=True)):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def counting(size: int) -> Callable[[Any, Any], Any]:
    """Counts up to n by a loop of native code, which for `size` above 1 is one round kernels."""

    def f(n: Any, x: Any) -> Any:
        return lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 0.5 + 1.0), (tnp.zeros((), "int64"), x)
        )

    return f


def nested_counting(n: Any, x: Any) -> Any:
    """Inner loops too short to ask for signals themselves."""

    def step(c: Any) -> Any:
        return c[0] + 1, lax.fori_loop(0, 3, lambda i, x: x * 0.5 + 1.0, c[1])

    return lax.while_loop(lambda c: c[0] < n, step, (tnp.zeros((), "int64"), x))


STOPPED: dict[str, Any] = {
    "a function": (counting(1), numbers(2)),
    "kernels": (counting(5000), numbers(5000)),
    "nested": (nested_counting, numbers(2)),
    "nested kernels": (nested_counting, numbers(5000)),
}


class Enough(Exception):
    """What a handler raises."""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
@pytest.mark.parametrize("name", STOPPED)
def test_signals_stop_a_loop(name: str) -> None:
    """What the handler raises comes out of the call, within tenths of a second, and the next call works."""
    f, x = STOPPED[name]
    jitted = tinyfn.jit(f)
    n = tnp.array(3, "int64")
    wanted = [np.asarray(r) for r in jitted(n, x)]

    def stop(number: int, frame: Any) -> None:
        raise Enough(name)

    before = signal.signal(signal.SIGALRM, stop)
    try:
        for _ in range(2):
            begin = time.perf_counter()
            with pytest.raises(Enough, match=name):
                signal.setitimer(signal.ITIMER_REAL, 0.02)
                jitted(tnp.array(1 << 60, "int64"), x)
            assert time.perf_counter() - begin < 10
    finally:
        signal.signal(signal.SIGALRM, before)
    for found, expected in zip(jitted(n, x), wanted, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
def test_a_handler_that_raises_nothing_changes_nothing() -> None:
    """It is called while the loop runs."""
    seen: list[float] = []
    f = tinyfn.jit(lambda n: lax.fori_loop(0, n, lambda i, c: c * 7 + i, tnp.zeros((), "int64")))
    n = tnp.array(300_000_000, "int64")
    before = signal.signal(signal.SIGALRM, lambda number, frame: seen.append(time.perf_counter()))
    try:
        wanted = int(f(n))
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        found = int(f(n))
        end = time.perf_counter()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert found == wanted and len(seen) == 1 and end - seen[0] > 0.02


def test_a_keyboard_interrupt_stops_a_loop() -> None:
    import _thread

    f = tinyfn.jit(counting(1))
    f(tnp.array(3, "int64"), numbers(2))
    timer = threading.Timer(0.05, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        f(tnp.array(1 << 60, "int64"), numbers(2))
    timer.join()


def test_a_loop_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Native functions are called for some steps at a time."""
    monkeypatch.setattr(loops, "BUDGET", 1)
    count = tinyfn.jit(
        lambda n: lax.while_loop(lambda c: c[1] < n, lambda c: (c[0] + c[1], c[1] + 1), (0, 0))
    )
    for n in (0, 1, 6, 70):
        assert [int(x) for x in count(n)] == [n * (n - 1) // 2, n]
    args = numbers(3, 3), numbers(3, seed=1), numbers(7, 3, seed=2)
    for reverse in (False, True):
        assert_jit_agrees(
            lambda w, h, xs: lax.scan(lambda h, x: (tnp.tanh(w @ h + x), h), h, xs, reverse=reverse), *args
        )


# Programs of loops and branches at random


def _random_step(random: Random, depth: int) -> Callable[[Any, Any, Any], Any]:
    """A function of a matrix, a carry and a vector to the next carry."""
    kinds = ["tanh", "affine", "rotate"]
    if depth:
        kinds += ["scan", "while", "cond", "checkpoint", "fori"]
    which, n = random.choice(kinds), random.choice((0, 1, 2, 3))
    if which == "tanh":
        return lambda w, h, x: tnp.tanh(w @ h + x)
    if which == "affine":
        return lambda w, h, x: h * 0.5 + x
    if which == "rotate":
        return lambda w, h, x: tnp.concatenate([h[1:], h[:1] + x[:1]])
    first, second = _random_step(random, depth - 1), _random_step(random, depth - 1)
    if which == "scan":
        return lambda w, h, x: lax.scan(
            lambda h, i: (first(w, second(w, h, x), x * i), None), h, tnp.arange(n) * 0.5
        )[0]
    if which == "fori":
        return lambda w, h, x: lax.fori_loop(0, n, lambda i, h: first(w, h, x), second(w, h, x))
    if which == "while":
        return lambda w, h, x: lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, second(w, c[2], x), first(w, c[1], x)), (0, h, x)
        )[2]
    if which == "checkpoint":
        return lambda w, h, x: tinyfn.checkpoint(lambda h: first(w, h, x))(second(w, h, x))
    return lambda w, h, x: lax.cond(n % 2 == 0, lambda: first(w, h, x), lambda: second(w, h, x))


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), small=st.booleans(), reverse=st.booleans(), length=st.integers(0, 4))
def test_random_loops(seed: int, small: bool, reverse: bool, length: int) -> None:
    """Native code and steps by NumPy agree, as far as they must, and two programs of the same steps to the bit."""
    random = Random(seed)
    step = _random_step(random, 3)
    w, h, xs = numbers(4, 4) * 0.4, numbers(4, seed=1), numbers(length, 4, seed=2)

    def f(w: Any, h: Any, xs: Any) -> Any:
        return lax.scan(lambda h, x: (step(w, h, x), (h, x.sum())), h, xs, reverse=reverse)

    most = unrolled.MOST_ELEMENTS
    if not small:
        unrolled.MOST_ELEMENTS = 0
    try:
        assert_jit_agrees(f, w, h, xs)
    finally:
        unrolled.MOST_ELEMENTS = most


@pytest.fixture(autouse=True)
def _no_timer() -> Iterator[None]:
    yield
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)
