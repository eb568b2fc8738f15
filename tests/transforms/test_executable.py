"""Jitted functions within eager transforms run compiled, by programs that are made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import grad, jit, value_and_grad, vmap
from tinyfn.devices import default_device, program, set_default_device


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The programs that are made, on the cpu."""
    made: list[Any] = []
    original = program.Program.__init__

    def counted(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(program.Program, "__init__", counted)
    before = default_device()
    set_default_device("cpu")
    yield made
    set_default_device(before)


def loss(w: Any, x: Any) -> Any:
    return (tnp.tanh(x @ w) ** 2).mean()


def numbers(*shape: int, seed: int = 0) -> Any:
    return tnp.asarray(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


TRANSFORMS: list[tuple[str, Callable[[Any], Any], int]] = [
    ("grad", grad, 2),
    ("value_and_grad", value_and_grad, 2),
    ("vmap", lambda f: vmap(f, in_axes=(None, 0)), 1),
    ("jvp", lambda f: lambda w, x: tinyfn.jvp(f, (w, x), (w, x)), 2),
    ("vjp", lambda f: lambda w, x: tinyfn.vjp(f, w, x)[1](tnp.ones(())), 2),
    ("grad of vmap", lambda f: grad(lambda w, x: vmap(f, in_axes=(None, 0))(w, x).sum()), 2),
]


@pytest.mark.parametrize("name, transform, programs", TRANSFORMS, ids=[t[0] for t in TRANSFORMS])
def test_within_a_transform_one_program_for_each_graph(
    built: list[Any], name: str, transform: Callable[[Any], Any], programs: int
) -> None:
    w = numbers(5, 4)
    x = numbers(2, 3, 5) if "vmap" in name else numbers(3, 5)
    wanted = transform(loss)(w, x)
    f = jit(loss)
    for _ in range(3):
        got = transform(f)(w, x)
        for a, b in zip(tinyfn.tree.leaves(got), tinyfn.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=1e-6)
    assert 1 <= len(built) <= programs


def test_a_jitted_function_in_a_jitted_one_is_part_of_its_program(built: list[Any]) -> None:
    f = jit(loss)
    outer = jit(lambda w, x: grad(f)(w, x) * 2.0)
    for _ in range(3):
        outer(numbers(5, 4), numbers(3, 5))
    assert len(built) == 1


def test_checkpoints_in_a_jitted_function_are_compiled(built: list[Any]) -> None:
    f = jit(grad(lambda w, x: tinyfn.checkpoint(loss)(w, x) * 2.0))
    w, x = numbers(5, 4), numbers(3, 5)
    for _ in range(3):
        np.testing.assert_allclose(
            np.asarray(f(w, x)), 2.0 * np.asarray(grad(loss)(w, x)), rtol=2e-5, atol=1e-6
        )
    assert len(built) == 1 and not built[0]._has_hosts


def test_custom_functions_are_parts_of_the_program(built: list[Any]) -> None:
    @tinyfn.custom_jvp
    def f(x: Any) -> Any:
        return tnp.sin(x) * 2.0

    f.defjvp(lambda primals, tangents: (f(primals[0]), tangents[0] * 2.0 * tnp.cos(primals[0])))
    g = jit(lambda x: f(x) + 1.0)
    x = numbers(7)
    np.testing.assert_allclose(np.asarray(g(x)), 2.0 * np.sin(np.asarray(x)) + 1.0, rtol=1e-5, atol=1e-6)
    assert not built[0]._has_hosts
    np.testing.assert_allclose(
        np.asarray(grad(lambda x: g(x).sum())(x)), 2.0 * np.cos(np.asarray(x)), rtol=1e-6
    )
