"""remat: the same values and derivatives, with fewer residuals kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyfn
from tests.transforms.programs import array, close, normal, same, total
from tinyfn.trace import prims
from tinyfn.trace.prims.extern import HostFunction

remat = tinyfn.remat


def counted(count: list[int]) -> Callable[[Any], Any]:
    """x times a number that is computed by a function which counts its calls."""

    def compute(x: np.ndarray) -> np.ndarray:
        count[0] += 1
        return np.cos(x)

    host = HostFunction("counted_cos", compute, lambda x: (x.dtype, x.shape))
    return lambda x: x * prims.extern(prims.stop_gradient(x), function=host)


def test_the_reverse_pass_computes_the_function_again() -> None:
    for transform, calls in ((lambda f: f, 1), (remat, 2)):
        count = [0]
        close(tinyfn.grad(transform(counted(count)))(array(0.5)), np.cos(0.5))
        assert count == [calls]


def test_nothing_but_the_arguments_is_kept() -> None:
    def chain(x: Any) -> Any:
        for _ in range(10):
            x = prims.sin(x)
        return x

    def kept(f: Callable[..., Any]) -> int:
        _, pullback = tinyfn.vjp(f, array(np.ones(4)))
        return len(pullback._graph.captured)

    assert kept(chain) == 10
    assert kept(remat(chain)) == 1


def test_values_and_derivatives_do_not_change() -> None:
    w, x = normal(0, (3, 3), (3,))

    def f(w: Any, x: Any) -> Any:
        return total(prims.tanh(prims.dot_general(w, x, contract=((1,), (0,)), batch_axes=((), ()))) ** 2)

    args = array(w), array(x)
    same(remat(f)(*args), f(*args))
    for derivative in (
        tinyfn.grad,
        tinyfn.jacfwd,
        tinyfn.hessian,
        lambda f, n: tinyfn.jit(tinyfn.grad(f, n)),
    ):
        for a, b in zip(derivative(f, (0, 1))(*args), derivative(remat(f), (0, 1))(*args), strict=True):
            for found, expected in zip(tinyfn.tree.leaves(b), tinyfn.tree.leaves(a), strict=True):
                close(found, expected)


def test_nested_remat() -> None:
    f = remat(lambda x: remat(lambda y: prims.sin(remat(prims.exp)(y)))(x) * x)
    x = 0.3
    expected = np.cos(np.exp(x)) * np.exp(x) * x + np.sin(np.exp(x))
    close(tinyfn.grad(f)(array(x)), expected)
    close(
        tinyfn.grad(tinyfn.grad(f))(array(x)),
        tinyfn.grad(tinyfn.grad(lambda x: prims.sin(prims.exp(x)) * x))(array(x)),
    )


def test_closed_over_tracers_and_arrays_have_gradients() -> None:
    scale = array(3.0)

    def f(w: Any) -> Any:
        return remat(lambda x: prims.sin(x) * w * scale)(w)

    close(tinyfn.grad(f)(array(0.5)), 3 * (np.cos(0.5) * 0.5 + np.sin(0.5)))


def test_trees_keywords_and_integers() -> None:
    @remat
    def f(p: Any, *, n: int) -> Any:
        return {"power": p["x"] ** 3 * n, "integer": p["i"], "none": None}

    result, pullback = tinyfn.vjp(lambda x: f({"x": x, "i": array(2, "int32")}, n=array(4.0)), array(2.0))
    assert (float(result["power"]), int(result["integer"]), result["none"]) == (32.0, 2, None)
    (ct,) = pullback({"power": array(1.0), "integer": array(0, "int32"), "none": None})
    close(ct, 48.0)


def test_values_are_known_within_remat() -> None:
    @remat
    def f(x: Any) -> Any:
        return prims.sin(x) if x > 0 else -x

    close(tinyfn.grad(f)(array(0.5)), np.cos(0.5))
    close(tinyfn.grad(f)(array(-0.5)), -1.0)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_vmap_of_remat(axes: Any) -> None:
    x, y = normal(1, (3,), (3,))
    args = [a if axis == 0 else a[0] for a, axis in zip((x, y), axes, strict=True)]
    found = tinyfn.vmap(tinyfn.grad(remat(lambda x, y: prims.sin(x) * y), (0, 1)), in_axes=axes)(*args)
    close(found[0], np.cos(args[0]) * args[1] * np.ones(3))
    close(found[1], np.sin(args[0]) * np.ones(3))
