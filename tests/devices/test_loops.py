"""Loops as one native function, against the same loops step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.agreement import assert_jit_agrees, by_numpy
from tinyfn import lax
from tinyfn.devices import default_device, loops, set_default_device
from tinyfn.lower import unrolled
from tinyfn.trace import dtype as dtypes


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    before = default_device()
    set_default_device("cpu")
    yield
    set_default_device(before)


@pytest.fixture
def looped(monkeypatch: pytest.MonkeyPatch) -> list[loops.Loop]:
    """The loops round kernels that are made, which all loops are here."""
    monkeypatch.setattr(unrolled, "MOST_ELEMENTS", 0)
    return _recorded(monkeypatch, "_kernels_again")


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[loops.Loop]:
    """The loops that become native functions."""
    return _recorded(monkeypatch, "_function")


def _recorded(monkeypatch: pytest.MonkeyPatch, name: str) -> list[loops.Loop]:
    made: list[loops.Loop] = []
    original = getattr(loops, name)

    def make(form: loops.Loop, argument: Any) -> Any:
        flow = original(form, argument)
        if flow is not None:
            made.append(form)
        return flow

    monkeypatch.setattr(loops, name, make)
    return made


def numbers(*shape: int, seed: int = 0, dtype: Any = "float32") -> Any:
    values = np.random.default_rng(seed).normal(size=shape) * 2
    return tnp.array(values > 0 if dtype == "bool" else values, dtype)


@pytest.mark.parametrize(
    "dtype", [d.name for d in dtypes.ALL if d not in (*dtypes.NARROW_FLOATS, *dtypes.COMPLEX)]
)
@pytest.mark.parametrize("reverse", [False, True])
def test_every_dtype(called: list[Any], dtype: str, reverse: bool) -> None:
    """Carries, xs, ys and constants of every dtype, and what a step makes of them without rounding."""

    def f(c: Any, w: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            value, count = carry
            new = tnp.where(x == w, value, tnp.maximum(x, value))
            return (new, count + 1), {"x": x, "same": new == x, "new": new, "count": count}

        return lax.scan(step, (c, tnp.zeros((), "int32")), xs, reverse=reverse)

    args = (
        numbers(2, 3, dtype=dtype),
        numbers(2, 3, seed=1, dtype=dtype),
        numbers(5, 2, 3, seed=2, dtype=dtype),
    )
    assert_jit_agrees(f, *args)
    assert len(called) == 1


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "recurrent": (
        lambda w, h, xs: lax.scan(lambda h, x: (tnp.tanh(w @ h + x), h), h, xs),
        (numbers(3, 3), numbers(3, seed=1), numbers(7, 3, seed=2)),
    ),
    "reductions": (
        lambda h, xs: lax.scan(
            lambda h, x: (x.sum(0) + h.max(), (x.prod(1), x.max(0), x.min(), (x > 0).all(), (x > 1).any())), h, xs
        ),
        (numbers(3), numbers(4, 2, 3, seed=2)),
    ),
    "movement": (
        lambda h, xs: lax.scan(
            lambda h, x: (
                tnp.concatenate([h[1:], x[None, :2].sum(1)]), (h[::-1], tnp.pad(x, (1, 2)), tnp.tile(x, 2).reshape(2, -1).T, h[1])
            ), h, xs,
        ),
        (numbers(4), numbers(5, 3, seed=2)),
    ),
    "half precision": (
        lambda h, xs: lax.scan(lambda h, x: ((h @ h) * tnp.array(0.25, "bfloat16") + x, h.sum()), h, xs),
        (numbers(2, 2, dtype="bfloat16"), numbers(3, 2, 2, seed=1, dtype="bfloat16")),
    ),
    "without xs": (lambda h: lax.scan(lambda h, _: (tnp.cos(h), None), h, None, length=9), (numbers(3),)),
    "without carries": (lambda xs: lax.scan(lambda _, x: (None, x * 2), None, xs), (numbers(3, 2),)),
    "no steps": (lambda h, xs: lax.scan(lambda h, x: (h * x, h), h, xs), (numbers(3), numbers(0, 3))),
    "one step": (lambda h, xs: lax.scan(lambda h, x: (h * x, h), h, xs), (numbers(3), numbers(1, 3))),
    "empty arrays": (lambda h, xs: lax.scan(lambda h, x: (h * 2, x.sum()), h, xs), (numbers(0), numbers(3, 2, 0))),
    "swapped": (
        lambda a, b: lax.scan(lambda c, _: ((c[1], c[0]), c[0]), (a, b), None, length=5), (numbers(2), numbers(2, seed=1)),
    ),
    "handed on": (lambda a, xs: lax.scan(lambda c, x: (x, a), a, xs), (numbers(2), numbers(4, 2, seed=1))),
    "constant": (lambda a: lax.scan(lambda c, _: (tnp.ones(2, "float32"), tnp.array(3)), a, None, length=2), (numbers(2),)),
    "while": (
        lambda x: lax.while_loop(lambda c: (c[0] < 50.0).all(), lambda c: (c[0] * 1.5 + 1.0, c[1] + 1), (x, 0)),
        (abs(numbers(2)),),
    ),
    "while of no steps": (lambda x: lax.while_loop(lambda c: (c < -50.0).all(), lambda c: c - 1.0, x), (numbers(2),)),
    "bounded while": (
        lambda x: lax.while_loop(lambda c: c[0] < 50.0, lambda c: (c[0] + 1.0, c[1] + 1), (x, 0), max_steps=7), (numbers(),),
    ),
    "numbers of lanes": (
        lambda x: tinyfn.vmap(lambda x: lax.while_loop(lambda c: c[0] < 50.0, lambda c: (c[0] + 7.0, c[1] + 1), (x, 0)))(x),
        (numbers(4),),
    ),
    "fori": (lambda x: lax.fori_loop(3, 9, lambda i, c: c * 0.5 + i, x), (numbers(3),)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_loops(called: list[Any], name: str) -> None:
    f, args = CASES[name]
    assert_jit_agrees(f, *args)
    assert len(called) == 1


@pytest.mark.parametrize(
    "name", ["recurrent", "reductions", "movement", "without xs", "bounded while", "fori"]
)
def test_gradients(called: list[Any], name: str) -> None:
    f, args = CASES[name]

    def loss(*args: Any) -> Any:
        return sum((x.astype("float32") ** 2).sum() for x in tinyfn.tree.leaves(f(*args)))

    gradient = tinyfn.grad(loss, tuple(range(len(args))))
    for found, wanted in zip(tinyfn.jit(gradient)(*args), gradient(*args), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-5)
    assert name == "bounded while" or len(called) == 2


def test_what_is_no_straight_line_of_few_operations_runs_by_programs(called: list[Any]) -> None:
    rows = numbers(5, 2)

    def by_data(i: Any, xs: Any) -> Any:
        return lax.scan(lambda i, x: ((i + x) % 5, rows[i]), i, xs)

    def large(h: Any) -> Any:
        return lax.scan(lambda h, _: (h * 2.0, None), h, None, length=2)[0]

    def calls(h: Any) -> Any:
        return lax.scan(lambda h, _: (by_numpy(h * 2.0), h), h, None, length=2)

    def nested(h: Any) -> Any:
        def step(h: Any, _: Any) -> Any:
            return lax.cond(h.sum() > 0, lambda: by_numpy(-h), lambda: h), h

        return lax.scan(step, h, None, length=3)

    assert_jit_agrees(by_data, tnp.array(1), tnp.array([1, 3, 2]))
    assert_jit_agrees(large, numbers(100, 100))
    assert_jit_agrees(calls, numbers(5))
    assert_jit_agrees(nested, numbers(5))
    assert not called


def test_small_branches_are_part_of_the_loop(called: list[Any]) -> None:
    def f(h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            new = lax.switch(
                x,
                [
                    lambda: -h,
                    lambda: tnp.stack([h[1], h[0] / (h[0] - 1.0)]),
                    lambda: lax.cond(h[0] > 0, lambda: h * 2, lambda: h),
                ],
            )
            return new, h

        return lax.scan(step, h, xs)

    assert_jit_agrees(f, numbers(2), tnp.array([0, 1, 2, 5, -1, 2, 1]))
    assert len(called) == 1


def test_one_function_for_each_loop(called: list[Any]) -> None:
    f, args = CASES["recurrent"]
    jitted = tinyfn.jit(f)
    for _ in range(3):
        jitted(*args)
    assert len(called) == 1


def test_arrays_in_any_layout() -> None:
    """Transposed and strided arguments, and those that the caller holds, are read as they are, and never written."""
    f, _ = CASES["recurrent"]
    w, xs = numbers(3, 3), numbers(3, 14, seed=1)
    before = np.asarray(w).copy()
    h, ys = tinyfn.jit(lambda w, xs: f(w.T, w[0], xs.T[::2]))(w, xs)
    wanted_h, wanted_ys = f(w.T, w[0], xs.T[::2])
    np.testing.assert_allclose(h, wanted_h, rtol=1e-5)
    np.testing.assert_allclose(ys, wanted_ys, rtol=1e-5)
    np.testing.assert_array_equal(w, before)


# Larger bodies: a native loop round their kernels.


@pytest.mark.parametrize("name", CASES)
def test_loops_round_kernels(looped: list[Any], name: str) -> None:
    f, args = CASES[name]
    assert_jit_agrees(f, *args)
    # There are no kernels for arrays without elements.
    assert len(looped) == (name != "empty arrays")


@pytest.mark.parametrize("name", ["recurrent", "reductions", "movement", "without xs", "fori"])
def test_gradients_round_kernels(looped: list[Any], name: str) -> None:
    f, args = CASES[name]

    def loss(*args: Any) -> Any:
        return sum((x.astype("float32") ** 2).sum() for x in tinyfn.tree.leaves(f(*args)))

    gradient = tinyfn.grad(loss, tuple(range(len(args))))
    for found, wanted in zip(tinyfn.jit(gradient)(*args), gradient(*args), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-5)
    assert len(looped) == 2


CARRIES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "in several places": lambda a, b, x: ((a + x, a + x), (a + x, a, x)),
    "swapped and new": lambda a, b, x: ((b, a * 0.5 + x), a),
    "handed on": lambda a, b, x: ((a, b + a), (a, b)),
    "one of the xs": lambda a, b, x: ((x, a + b), b),
    "in place": lambda a, b, x: ((a + x, b * 2.0), None),
    "a constant": lambda a, b, x: ((tnp.ones_like(a), b + a), a),
    "turned": lambda a, b, x: ((a.T[::-1] + b, b.T), (a.T, x)),
    "the same twice": lambda a, b, x: ((b, b), (b, b)),
}


@pytest.mark.parametrize("name", CARRIES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_where_carries_come_from(looped: list[Any], name: str, reverse: bool, length: int) -> None:
    def f(a: Any, b: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: CARRIES[name](*c, x), (a, b), xs, reverse=reverse)

    args = numbers(3, 3), numbers(3, 3, seed=1), numbers(length, 3, 3, seed=2)
    before = [np.asarray(a).copy() for a in args]
    assert_jit_agrees(f, *args)
    jitted = tinyfn.jit(f)
    first = [np.asarray(x).copy() for x in tinyfn.tree.leaves(jitted(*args))]
    again = tinyfn.tree.leaves(jitted(*args))
    for x, y in zip(first, again, strict=True):
        np.testing.assert_array_equal(x, y)
    for array, value in zip(args, before, strict=True):
        np.testing.assert_array_equal(array, value)  # nothing was written over what was given


def test_results_are_memory_of_their_own(looped: list[Any]) -> None:
    """Last carries and ys of one call are not written by the next, nor is one in another's memory."""
    f = tinyfn.jit(lambda a, xs: lax.scan(lambda c, x: (c + x, c + x), a, xs))
    a, xs = numbers(4), numbers(6, 4, seed=1)
    kept = [f(a * i, xs) for i in range(4)]
    for i, (last, ys) in enumerate(kept):
        np.testing.assert_array_equal(last, ys[-1])
        np.testing.assert_allclose(last, a * i + xs.sum(0), rtol=1e-5, atol=1e-6)
        assert not np.shares_memory(np.asarray(last), np.asarray(ys))


def test_a_network_of_some_size() -> None:
    """An LSTM with threads, products and residuals, against float64."""

    def loss(p: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            h, c = carry
            i, f, g, o = tnp.split(x @ p["w"] + h @ p["u"] + p["b"], 4, axis=1)
            c = c / (1.0 + tnp.exp(-f)) + tnp.tanh(g) / (1.0 + tnp.exp(-i))
            h = tnp.tanh(c) / (1.0 + tnp.exp(-o))
            return (h, c), h

        zeros = tnp.zeros((xs.shape[1], 40), xs.dtype)
        return (lax.scan(step, (zeros, zeros), xs)[1] ** 2).mean()

    p = {"w": numbers(24, 160) * 0.2, "u": numbers(40, 160, seed=1) * 0.1, "b": numbers(160, seed=2) * 0.1}
    xs = numbers(30, 17, 24, seed=3)
    value, gradient = tinyfn.jit(tinyfn.value_and_grad(loss))(p, xs)
    wide = tinyfn.tree.map(lambda x: x.astype("float64"), (p, xs))
    wanted, wanted_gradient = tinyfn.value_and_grad(loss)(*wide)
    np.testing.assert_allclose(value, wanted, rtol=1e-5)
    for name in p:
        scale = float(abs(wanted_gradient[name]).max())
        np.testing.assert_allclose(gradient[name], wanted_gradient[name], rtol=1e-4, atol=1e-5 * scale)
