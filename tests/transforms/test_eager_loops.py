"""Loops outside of jit are compiled where they are long, with the results, errors and effects of those that are not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import lax
from tinyfn.devices import default_device, set_default_device
from tinyfn.transforms import eager


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    before = default_device()
    set_default_device("cpu")
    eager._kept.clear()
    yield
    set_default_device(before)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ops that ran by a program."""
    runs: list[str] = []
    original = eager.run_compiled

    def run(op: Any, args: Any, params: Any) -> Any:
        runs.append(op.name)
        return original(op, args, params)

    monkeypatch.setattr(eager, "run_compiled", run)
    return runs


def numbers(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    return tnp.array(np.random.default_rng(seed).normal(size=shape), dtype)


LONG, SHORT = 1500, 4


def scan(n: int, w: Any, h: Any) -> Any:
    return lax.scan(lambda h, x: (tnp.sin(w * h + x), h.sum()), h, tnp.arange(n) * 1e-3)


def fori(n: int, w: Any, h: Any) -> Any:
    return lax.fori_loop(0, n, lambda i, h: tnp.sin(w * h + i * 1e-3), h)


def mapped(n: int, w: Any, h: Any) -> Any:
    return lax.map(lambda x: tnp.sin(w * h + x), tnp.arange(n) * 1e-3)


def until(n: int, w: Any, h: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, tnp.sin(w * c[1])), (0, h))


def bounded(n: int, w: Any, h: Any) -> Any:
    return lax.while_loop(lambda c: c[0] >= 0, lambda c: (c[0] + 1, tnp.sin(w * c[1])), (0, h), max_steps=n)


LOOPS = [scan, fori, mapped, until, bounded]


@pytest.mark.parametrize("f", LOOPS)
def test_long_loops_are_compiled(compiled: list[str], f: Any) -> None:
    w, h = numbers(3, dtype="float64"), numbers(3, seed=1, dtype="float64")
    f(SHORT, w, h)
    assert not compiled
    found = [f(LONG, w, h) for _ in range(2)]
    assert len(compiled) == 2
    assert len(eager._kept) == 1, "a body that is traced again has the same program"
    with tinyfn.disable_jit():
        wanted = f(LONG, w, h)
    assert len(compiled) == 2
    for result in found:
        for a, b in zip(tinyfn.tree.leaves(result), tinyfn.tree.leaves(wanted), strict=True):
            assert type(a) is type(b) and a.dtype == b.dtype and a.weak_type == b.weak_type
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_the_same_bits_at_each_call(compiled: list[str]) -> None:
    """Also of a loop of which nobody knows before that it is long."""
    w, h = numbers(3), numbers(3, seed=1)
    for f in LOOPS:
        for n in (SHORT, LONG):
            first = tinyfn.tree.leaves(f(n, w, h))
            for _ in range(3):
                for a, b in zip(tinyfn.tree.leaves(f(n, w, h)), first, strict=True):
                    np.testing.assert_array_equal(a, b)


def test_other_constants_and_shapes_are_other_programs(compiled: list[str]) -> None:
    for factor in (2.0, 3.0):
        for size in (2, 3):
            x = tnp.full((size,), 0.5, "float64")
            found = lax.fori_loop(0, LONG, lambda i, c, k=factor: tnp.sin(c) * k * 0.3, x)
            value = np.full(size, 0.5)
            for _ in range(LONG):
                value = np.sin(value) * factor * 0.3
            np.testing.assert_allclose(found, value, rtol=1e-9)
    assert len(compiled) == 4 and len(eager._kept) == 4


def test_gradients_are_compiled(compiled: list[str]) -> None:
    w, h = numbers(3, dtype="float64") * 0.3, numbers(3, seed=1, dtype="float64")
    found = tinyfn.grad(lambda w, h: scan(LONG, w, h)[0].sum(), (0, 1))(w, h)
    assert compiled == ["scan", "scan"]
    wanted = tinyfn.jit(tinyfn.grad(lambda w, h: scan(LONG, w, h)[0].sum(), (0, 1)))(w, h)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_a_body_with_an_op_that_is_no_kernel(compiled: list[str]) -> None:
    x = numbers(3, dtype="float64")
    found = lax.fori_loop(0, LONG, lambda i, c: tnp.sort(-c) * 0.999, x)
    value = np.asarray(x)
    for _ in range(LONG):
        value = np.sort(-value) * 0.999
    np.testing.assert_allclose(found, value, rtol=1e-9)
    assert compiled == ["scan"]


def test_debug_nans_names_the_operation_and_the_line(compiled: list[str]) -> None:
    def f(x: Any) -> Any:
        return lax.fori_loop(0, LONG, lambda i, c: c + tnp.log(700.0 - i), x)

    with tinyfn.debug_nans(), pytest.raises(FloatingPointError, match=r"test_eager_loops\.py:\d+.*: log of"):
        f(tnp.zeros(()))
    assert not compiled


def test_effects_happen_once_for_each_step(compiled: list[str]) -> None:
    seen: list[int] = []

    def step(carry: Any) -> Any:
        tinyfn.debug.callback(lambda i: seen.append(int(i)), carry[0])
        return carry[0] + 1, tnp.sin(carry[1])

    lax.while_loop(lambda c: c[0] < LONG, step, (0, numbers(2)))
    assert seen == list(range(LONG)) and not compiled


def test_other_devices_run_step_by_step(compiled: list[str]) -> None:
    w, h = numbers(3, dtype="float64"), numbers(3, seed=1, dtype="float64")
    wanted = scan(LONG, w, h)[0]
    for device in ("numpy", "null"):
        set_default_device(device)
        np.testing.assert_allclose(scan(LONG, w, h)[0], wanted, rtol=1e-10)
    assert compiled == ["scan"]


def test_programs_are_kept_for_the_last_loops_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "MOST_KEPT", 2)
    for size in (1, 2, 3, 2):
        lax.fori_loop(0, LONG, lambda i, c: tnp.sin(c) * 0.5, tnp.zeros(size))
    assert [key[2][0][1] for key in eager._kept] == [(3,), (2,)]


def test_several_threads() -> None:
    w, h = numbers(3), numbers(3, seed=1)
    wanted, wrong = np.asarray(scan(LONG, w, h)[0]), []

    def work() -> None:
        for _ in range(5):
            if (np.asarray(scan(LONG, w, h)[0]) != wanted).any():
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
