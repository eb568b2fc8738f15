"""custom_vmap and sequential_vmap: which rule is called with what, values and derivatives in any order of transforms, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.lax
import tinyfn.numpy as tnp
from tests.transforms.flow import device  # noqa: F401  (a fixture)
from tests.transforms.programs import array, close, normal, same
from tinyfn import lax
from tinyfn.custom_batching import custom_vmap, sequential_vmap
from tinyfn.export import deserialize, export

vmap, grad, jit, jvp = tinyfn.vmap, tinyfn.grad, tinyfn.jit, tinyfn.jvp


def sine_times() -> tuple[Any, list[Any]]:
    """sin(x) * y, whose rule gives twice that, and what the rule was called with."""
    calls: list[Any] = []

    @custom_vmap
    def f(x: Any, y: Any) -> Any:
        return tnp.sin(x) * y

    @f.def_vmap
    def rule(axis_size: int, in_batched: Any, x: Any, y: Any) -> Any:
        calls.append((axis_size, in_batched, x.shape, y.shape))
        return 2 * tnp.sin(x) * y, any(in_batched)

    return f, calls


X, Y = normal(0, (3,), (3,))


def test_the_rule_is_called_in_the_place_of_the_function(device: str) -> None:  # noqa: F811
    f, calls = sine_times()
    close(f(array(X[0]), array(Y[0])), np.sin(X[0]) * Y[0])
    close(jit(f)(array(X[0]), array(Y[0])), np.sin(X[0]) * Y[0])
    assert not calls
    close(vmap(f)(X, Y), 2 * np.sin(X) * Y)
    close(jit(vmap(f))(X, Y), 2 * np.sin(X) * Y)
    close(vmap(jit(f))(X, Y), 2 * np.sin(X) * Y)
    assert calls[0] == (3, [True, True], (3,), (3,))
    close(vmap(f, (0, None))(X, Y[1]), 2 * np.sin(X) * Y[1])
    assert calls[-1] == (3, [True, False], (3,), ())
    close(vmap(lambda x: f(x, y=2.0))(X), 4 * np.sin(X))
    close(vmap(lambda y: f(1.0, 1.0) * y)(Y), np.sin(1.0) * Y, 1e-6)  # nothing that it is given is mapped


def test_nested_vmaps_call_it_for_the_inner_one() -> None:
    f, calls = sine_times()
    found = vmap(vmap(f, (None, 0)), (0, None))(X, Y)
    close(found, 2 * np.sin(X)[:, None] * Y)
    assert calls == [(3, [False, True], (), (3,))]
    # What the inner one leaves to the outer one is mapped by its own operations.
    close(vmap(lambda x: vmap(f, (None, 0))(x, array(Y)))(X), found)


def test_axes_are_moved_to_the_front_for_the_rule() -> None:
    f, calls = sine_times()
    (x,) = normal(1, (2, 4, 3))
    found = vmap(f, (1, None), -1)(x, 2.0)
    close(found, np.moveaxis(4 * np.sin(x), 1, -1))
    assert calls[0][2] == (4, 2, 3)


def test_trees_of_arguments_and_results() -> None:
    @custom_vmap
    def f(p: Any, x: Any) -> Any:
        return {"a": p["w"] * x, "b": [p["b"], x]}

    seen: list[Any] = []

    @f.def_vmap
    def rule(axis_size: int, in_batched: Any, p: Any, x: Any) -> Any:
        seen.append(in_batched)
        return {"a": p["w"] * x, "b": [p["b"], x]}, {"a": True, "b": [False, True]}

    p = {"w": array(2.0), "b": array(5.0)}
    found = vmap(f, (None, 0))(p, X)
    assert seen == [[{"b": False, "w": False}, True]]
    close(found["a"], 2 * X)
    close(found["b"][0], np.full(3, 5.0))
    close(found["b"][1], X)


def test_derivatives_come_from_the_rule(device: str) -> None:  # noqa: F811
    f, _ = sine_times()
    # The derivative outside of the vmap, and inside of it, forward and backward, is of twice the function.
    close(jit(grad(lambda x: vmap(f)(x, array(Y)).sum()))(array(X)), 2 * np.cos(X) * Y)
    gradients = jit(vmap(grad(f, (0, 1))))(array(X), array(Y))
    close(gradients[0], 2 * np.cos(X) * Y)
    close(gradients[1], 2 * np.sin(X))
    values, tangents = vmap(lambda x, y: jvp(f, (x, y), (y, x)))(X, Y)
    close(values, 2 * np.sin(X) * Y)
    close(tangents, 2 * (np.cos(X) * Y * Y + np.sin(X) * X))
    # Without a vmap they are of the function.
    close(jit(grad(f))(array(X[0]), array(Y[0])), np.cos(X[0]) * Y[0])
    close(jvp(f, (array(X[0]), array(Y[0])), (array(1.0), array(0.0)))[1], np.cos(X[0]) * Y[0])


def test_gradients_of_what_lanes_share_are_those_of_each_lane() -> None:
    f, calls = sine_times()
    of_x, of_y = vmap(grad(f, (0, 1)), (None, 0))(array(0.5), array(Y))
    close(of_x, 2 * np.cos(0.5) * Y)
    close(of_y, np.full(3, 2 * np.sin(0.5)))
    # To the rule for derivatives what is differentiated is different in each lane.
    assert calls[-1] == (3, [True, True], (3,), (3,))
    close(vmap(lambda t: jvp(f, (array(0.5), array(1.0)), (t, array(0.0)))[1])(array(X)), 2 * np.cos(0.5) * X)


def test_second_derivatives_and_linearize(device: str) -> None:  # noqa: F811
    f, _ = sine_times()
    close(jit(vmap(grad(grad(f))))(array(X), array(Y)), -2 * np.sin(X) * Y)
    close(vmap(tinyfn.hessian(f))(array(X), array(Y)), -2 * np.sin(X) * Y)
    close(grad(lambda x: vmap(grad(f))(x, array(Y)).sum())(array(X)), -2 * np.sin(X) * Y)
    close(
        vmap(lambda x, y: tinyfn.linearize(f, x, y)[1](y, x))(X, Y), 2 * (np.cos(X) * Y * Y + np.sin(X) * X)
    )


def test_within_loops_branches_and_checkpoints(device: str) -> None:  # noqa: F811
    f, _ = sine_times()

    def looped(x: Any) -> Any:
        return lax.scan(lambda c, _: (f(c, array(0.5)), None), x, None, length=3)[0]

    expected = X
    for _ in range(3):
        expected = np.sin(expected)
    close(jit(vmap(looped))(X), expected)
    close(
        vmap(lambda x: lax.cond(x > 0, lambda x: f(x, x), lambda x: x, x))(X),
        np.where(X > 0, 2 * np.sin(X) * X, X),
    )
    gradient = vmap(grad(lambda x: tinyfn.remat(lambda x: f(x, array(1.0)))(x)))(array(X))
    close(gradient, 2 * np.cos(X))


def test_functions_and_rules_that_close_over_the_same_tracer() -> None:
    def outer(w: Any, xs: Any) -> Any:
        @custom_vmap
        def f(x: Any) -> Any:
            return tnp.sin(x) @ w

        @f.def_vmap
        def rule(axis_size: int, in_batched: Any, xs: Any) -> Any:
            return tnp.sin(xs) @ w, True

        return vmap(f)(xs).sum()

    w, xs = normal(2, (4,), (3, 4))
    for found in (grad(outer)(array(w), array(xs)), jit(grad(outer))(array(w), array(xs))):
        close(found, np.sin(xs).sum(0))

    table = array(np.arange(3.0))

    @custom_vmap
    def g(x: Any) -> Any:
        return x * 2.0

    @g.def_vmap
    def g_rule(axis_size: int, in_batched: Any, xs: Any) -> Any:
        return xs + table, True  # an array that only the rule uses

    close(jit(vmap(g))(X), X + np.arange(3.0))


def test_jit_is_traced_once_and_the_rule_for_each_size() -> None:
    f, calls = sine_times()
    traces = []

    @jit
    def g(x: Any) -> Any:
        traces.append(None)
        return f(x, x)

    for size in (2, 3, 2, 4):
        vmap(g)(np.ones(size))
    assert len(traces) == 1 and [call[0] for call in calls] == [2, 3, 4]


def test_with_a_reverse_mode_of_its_own_around_it() -> None:
    inner, _ = sine_times()

    @tinyfn.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return inner(x, y)

    f.defvjp(lambda x, y: (inner(x, y), (x, y)), lambda kept, ct: (ct * kept[1], ct * 10.0))
    close(vmap(f)(X, Y), 2 * np.sin(X) * Y)
    close(vmap(grad(f))(array(X), array(Y)), Y)


def test_collectives_around_and_in_custom_functions() -> None:
    @custom_vmap
    def f(x: Any) -> Any:
        return x * lax.psum(1.0, "outer")

    @f.def_vmap
    def rule(axis_size: int, in_batched: Any, xs: Any) -> Any:
        return lax.psum(xs, "outer"), True

    (x,) = normal(3, (2, 3))
    for size in (2, 1):
        found = vmap(lambda xs: vmap(f)(xs), axis_name="outer")(x[:size])
        close(found, np.broadcast_to(x[:size].sum(0), (size, 3)))


def test_in_an_exported_function_it_is_mapped_by_its_operations() -> None:
    f, calls = sine_times()
    read = deserialize(export(jit(lambda x: f(x, x)))(array(1.0)).serialize(vjp_order=1))
    close(read.call(array(0.5)), np.sin(0.5) * 0.5)
    close(vmap(read.call)(array(X)), np.sin(X) * X)
    close(grad(read.call)(array(0.5)), np.sin(0.5) + 0.5 * np.cos(0.5))
    assert not calls


# sequential_vmap.


def test_sequential_vmap_is_a_loop_over_lanes(device: str, capfd: Any) -> None:  # noqa: F811
    @sequential_vmap
    def f(x: Any, y: Any) -> Any:
        tinyfn.debug.print("lane {}", x)
        return {"product": x * y, "pair": (x, y)}

    whole = np.array([3, 1, 2], np.int32)
    for mapped in (vmap(f, (0, None)), jit(vmap(f, (0, None)))):
        found = mapped(whole, 2)
        same(found["product"], 2 * whole)
        same(found["pair"][1], np.full(3, 2, np.int32))
        assert capfd.readouterr().out == "lane 3\nlane 1\nlane 2\n"


def test_sequential_vmap_of_trees_and_its_derivatives() -> None:
    @sequential_vmap
    def f(p: Any, x: Any) -> Any:
        return tnp.sin(x * p["w"]) + p["b"]

    p = {"w": array(0.5), "b": array(X)}
    axes = {"w": None, "b": 0}
    close(vmap(f, (axes, 0))(p, Y), np.sin(Y * 0.5) + X)
    per_lane = vmap(grad(f), (axes, 0))(p, array(Y))
    close(per_lane["w"], np.cos(Y * 0.5) * Y)
    close(per_lane["b"], np.ones(3))
    total = grad(lambda p: vmap(f, (axes, 0))(p, array(Y)).sum())(p)
    close(total["w"], (np.cos(Y * 0.5) * Y).sum())
    close(vmap(vmap(f, (None, 0)), (axes, None))(p, Y), np.sin(Y * 0.5) + X[:, None])


# Errors.


def wrong(rule: Any) -> str:
    @custom_vmap
    def scaled(x: Any) -> Any:
        return {"y": x * 2.0}

    scaled.def_vmap(rule)
    with pytest.raises(TypeError) as found:
        vmap(scaled)(X)
    message = str(found.value)
    assert "scaled" in message and "test_custom_vmap.py" in message
    return message


def test_rules_that_return_something_else() -> None:
    assert "must return a pair (results, which of them are batched)" in wrong(lambda n, b, x: {"y": x})
    assert "the function returns" in wrong(lambda n, b, x: (x, True))
    assert "result 0 is float64[3], but not batched it must be float64[]" in wrong(
        lambda n, b, x: ({"y": x}, False)
    )
    assert "result 0 is float64[], but batched it must be float64[3]" in wrong(
        lambda n, b, x: ({"y": x.sum()}, True)
    )
    assert "result 0 is float32[3]" in wrong(lambda n, b, x: ({"y": x.astype("float32")}, True))
    assert "by True or False" in wrong(lambda n, b, x: ({"y": x}, 0))
    assert "does not fit the results" in wrong(lambda n, b, x: ({"y": x}, {"z": True}))


def test_calls_that_are_not_possible() -> None:
    @custom_vmap
    def f(x: Any) -> Any:
        return x

    with pytest.raises(TypeError, match=r"f has no rule yet: give it one with f.def_vmap"):
        vmap(f)(X)

    def lanes(w: Any) -> Any:
        g = custom_vmap(lambda x: x * w)
        g.def_vmap(lambda n, b, x: (x * w, True))
        return g(w)

    with pytest.raises(TypeError, match="closes over an array that differs from lane to lane"):
        vmap(lanes)(X)

    def closes_over(w: Any) -> Any:
        g = custom_vmap(lambda x: x * 2.0)
        g.def_vmap(lambda n, b, x: (x * w, True))
        return vmap(g)(array(X)).sum()

    with pytest.raises(TypeError, match="closes over a traced array which the function itself does not use"):
        grad(closes_over)(array(1.0))
