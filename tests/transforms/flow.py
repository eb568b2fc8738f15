"""What the tests of loops and branches share: oracles in Python, and all the ways in which a function is transformed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.transforms.programs import array, close
from tinyfn.devices import default_device, set_default_device

Function = Callable[..., Any]


@pytest.fixture(params=["numpy", "cpu"])
def device(request: Any) -> Iterator[str]:
    """Both ways of running a jitted function."""
    before = default_device()
    set_default_device(request.param)
    yield request.param
    set_default_device(before)


def numbers(seed: int, *shape: int) -> Any:
    """Normally distributed float64 values."""
    return array(np.random.default_rng(seed).normal(size=shape))


def leaves(tree: Any) -> list[Any]:
    return tinyfn.tree.leaves(tree)


def same_trees(found: Any, expected: Any, tolerance: float = 1e-10) -> None:
    assert tinyfn.tree.structure(found) == tinyfn.tree.structure(expected)
    for a, b in zip(leaves(found), leaves(expected), strict=True):
        assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype
        if np.asarray(a).dtype != tnp.float0:
            close(a, b, tolerance)


def scalar_of(f: Function) -> Function:
    """The sum of the squares of all float results, with weights."""

    def loss(*args: Any) -> Any:
        parts = [x for x in leaves(f(*args)) if x.dtype.kind == "f"]
        weighted = [(x * x * (1.0 + 0.25 * i)).sum() + x.sum() for i, x in enumerate(parts)]
        total: Any = 0.0
        for part in weighted:
            total = total + part
        return total

    return loss


def random_like(args: Sequence[Any], seed: int) -> tuple[Any, ...]:
    return tuple([numbers(seed + i, *np.shape(a)) for i, a in enumerate(args)])


def jvp_of_floats(f: Function, args: Sequence[Any], directions: Sequence[Any]) -> Any:
    """The float results and their tangents."""

    def floats(*xs: Any) -> list[Any]:
        return [x for x in leaves(f(*xs)) if x.dtype.kind == "f"]

    return tinyfn.jvp(floats, tuple(args), tuple(directions))


def transforms(args: Sequence[Any], reverse: bool = True) -> dict[str, Callable[[Function], Any]]:
    """Ways of transforming a function of these float arrays, each giving a tree of results."""
    args = tuple(args)
    directions = random_like(args, 100)
    every = tuple(range(len(args)))
    lanes = [tnp.stack([a, a * 1.5 + 0.25, 0.5 - a]) for a in args]
    ways: dict[str, Callable[[Function], Any]] = {
        "value": lambda f: f(*args),
        "jit": lambda f: tinyfn.jit(f)(*args),
        "jvp": lambda f: tinyfn.jvp(f, args, directions),
        "jvp of one": lambda f: tinyfn.jvp(lambda x: f(x, *args[1:]), args[:1], directions[:1]),
        "linearize": lambda f: tinyfn.linearize(f, *args)[1](*directions),
        "vmap": lambda f: tinyfn.vmap(f)(*lanes),
        "vmap of one": lambda f: tinyfn.vmap(f, in_axes=(0, *[None] * (len(args) - 1)))(lanes[0], *args[1:]),
        "jit of vmap": lambda f: tinyfn.jit(tinyfn.vmap(f))(*lanes),
        "vmap of jvp": lambda f: tinyfn.vmap(lambda *xs: jvp_of_floats(f, xs, directions))(*lanes),
        "jvp of jvp": lambda f: tinyfn.jvp(lambda *xs: jvp_of_floats(f, xs, directions), args, directions),
    }
    if reverse:
        ways |= {
            "grad": lambda f: tinyfn.grad(scalar_of(f), every)(*args),
            "grad of one": lambda f: tinyfn.grad(scalar_of(f), len(args) - 1)(*args),
            "jit of grad": lambda f: tinyfn.jit(tinyfn.grad(scalar_of(f), every))(*args),
            "grad of jit": lambda f: tinyfn.grad(scalar_of(tinyfn.jit(f)), every)(*args),
            "vmap of grad": lambda f: tinyfn.vmap(tinyfn.grad(scalar_of(f), every))(*lanes),
            "grad of vmap": lambda f: tinyfn.grad(scalar_of(tinyfn.vmap(f)), every)(*lanes),
            "jit of vmap of grad": lambda f: tinyfn.jit(tinyfn.vmap(tinyfn.grad(scalar_of(f), every)))(
                *lanes
            ),
            "jvp of grad": lambda f: tinyfn.jvp(tinyfn.grad(scalar_of(f), every), args, directions),
            "grad of grad": lambda f: tinyfn.grad(
                lambda *xs: sum(
                    (g * d).sum()
                    for g, d in zip(tinyfn.grad(scalar_of(f), every)(*xs), directions, strict=True)
                ),
                every,
            )(*args),
            "grad of jvp": lambda f: tinyfn.grad(
                scalar_of(lambda *xs: tinyfn.jvp(f, xs, directions)[1]), every
            )(*args),
            "checkpoint": lambda f: tinyfn.grad(scalar_of(tinyfn.remat(f)), every)(*args),
        }
    return ways


WAYS = list(transforms([np.zeros(())]))
FORWARD_WAYS = list(transforms([np.zeros(())], reverse=False))
