"""vmap: against loops, on every placement of axes, and in trees."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest

import tinyfn
from tests.transforms.programs import array, close, normal, same, total
from tinyfn.trace import prims
from tinyfn.trace.array import as_array

vmap = tinyfn.vmap


def dot(x: Any, y: Any) -> Any:
    return prims.dot_general(x, y, contract=((x.ndim - 1,), (0,)), batch_axes=((), ()))


def test_a_matrix_product_from_vector_products() -> None:
    a, b = normal(0, (3, 4), (4, 5))
    inner = vmap(dot, in_axes=(None, 1))  # a vector with each column
    close(vmap(inner, in_axes=(0, None))(a, b), a @ b)
    close(vmap(vmap(dot, (0, None)), (None, 1), out_axes=1)(a, b), a @ b)


@pytest.mark.parametrize("in_axis, out_axis", list(itertools.product(range(-3, 3), repeat=2)))
def test_every_axis_in_and_out(in_axis: int, out_axis: int) -> None:
    (x,) = normal(1, (2, 3, 4))

    def f(lane: Any) -> Any:
        return prims.sin(lane) * 2.0

    found = vmap(f, in_axes=in_axis, out_axes=out_axis)(x)
    expected = np.stack([2 * np.sin(np.take(x, i, in_axis)) for i in range(x.shape[in_axis])], out_axis)
    close(found, expected)


class Pair(NamedTuple):
    left: Any
    right: Any


def test_trees_of_axes() -> None:
    p = {
        "w": array(np.arange(6.0).reshape(2, 3)),
        "pair": Pair(array([1.0, 2.0, 3.0]), None),
        "shared": array(10.0),
    }
    axes = {"w": 1, "pair": 0, "shared": None}

    def f(p: Any, scale: Any) -> Any:
        assert p["w"].shape == (2,) and p["pair"].right is None
        return {"sum": total(p["w"]) * p["pair"].left + p["shared"], "list": [p["w"], scale]}

    found = vmap(f, in_axes=(axes, None), out_axes={"sum": 0, "list": [1, None]})(p, array(5.0))
    w = np.arange(6.0).reshape(2, 3)
    close(found["sum"], w.sum(0) * [1.0, 2.0, 3.0] + 10.0)
    close(found["list"][0], w)
    close(found["list"][1], 5.0)


def test_axes_of_trees_in_tuples_and_out_of_them() -> None:
    (x,) = normal(20, (2, 3))
    given = {"p": 10.0, "q": [x.T, (x, None)]}
    axes = (1, {"p": None, "q": [0, -1]})
    found = vmap(
        lambda a, d: (a * d["p"], {"r": d["q"][0] + a, "s": d["q"][1][0]}), axes, (0, {"r": -1, "s": 1})
    )(x, given)
    close(found[0], 10 * x.T)
    close(found[1]["r"], 2 * x)
    close(found[1]["s"], x)
    # One axis for a whole tree, and a list for a list.
    close(vmap(lambda a: [a, {"k": (a,)}], out_axes=[0, 1])(x)[1]["k"][0], x.T)
    close(vmap(lambda d: d["a"] - d["b"], {"a": 0, "b": 1})({"a": x, "b": x.T}), np.zeros((2, 3)))
    close(vmap(lambda a, b: a if b is None else b)(x, None), x)


def test_what_lanes_share_need_not_be_an_array() -> None:
    class Settings:
        scale = 3.0

    def f(x: Any, kind: str, function: Any, settings: Settings) -> Any:
        assert kind == "plain"
        return function(x) * settings.scale

    (x,) = normal(21, (4,))
    axes = (0, None, None, None)
    close(vmap(f, axes)(x, "plain", prims.sin, Settings()), 3 * np.sin(x))
    close(tinyfn.jit(lambda x: vmap(f, axes)(x, "plain", prims.cos, Settings()))(x), 3 * np.cos(x))
    tree = {"x": array(x), "label": "plain"}
    close(vmap(lambda t: t["x"] * len(t["label"]), ({"x": 0, "label": None},))(tree), 5 * x)


def test_default_arguments_and_keywords_of_any_kind() -> None:
    x, y = normal(22, (2, 3), (2,))
    close(vmap(lambda a, b=2.0: a * b)(x), 2 * x)
    close(
        vmap(lambda *args, **named: args[1] * named["k"]["v"], (None, 0))(1.0, x, k={"v": y}), x * y[:, None]
    )


def test_one_axis_for_a_whole_tree_and_lists_as_in_axes() -> None:
    tree = {"a": array([[1.0, 2.0]]), "b": [array([[3.0, 4.0]])]}
    close(vmap(lambda t: t["a"] + t["b"][0], in_axes=1)(tree), [[4.0], [6.0]])
    close(vmap(lambda x, y: x + y, in_axes=[0, None])(array([1.0, 2.0]), array(1.0)), [2.0, 3.0])


def test_keyword_arguments_are_mapped_over_their_first_axis() -> None:
    close(vmap(lambda x, *, y: x * y, in_axes=None)(array(2.0), y=array([1.0, 3.0])), [2.0, 6.0])


def test_results_that_do_not_depend_on_the_lane_are_repeated() -> None:
    found = vmap(lambda x: (1.5, array([1.0, 2.0]), x))(array([7.0, 8.0, 9.0]))
    same(found[0], np.full(3, 1.5, np.float32))
    same(found[1], np.tile([1.0, 2.0], (3, 1)))
    same(found[2], np.array([7.0, 8.0, 9.0]))
    same(vmap(lambda x: array(2.0), out_axes=None)(array([1.0, 2.0])), np.array(2.0))


def test_axis_size_without_mapped_arguments() -> None:
    same(vmap(lambda: array(2.0), axis_size=3)(), np.full(3, 2.0))
    same(vmap(lambda x: x, in_axes=None, axis_size=2)(array(1.0)), np.ones(2))


def test_no_lanes_and_empty_lanes() -> None:
    assert vmap(lambda x: prims.sin(x))(array(np.zeros((0, 3)))).shape == (0, 3)
    assert vmap(total)(array(np.zeros((0, 3)))).shape == (0,)
    same(vmap(total)(array(np.zeros((2, 0)))), np.zeros(2))


def test_the_same_array_as_two_arguments_on_two_axes() -> None:
    (x,) = normal(3, (3, 3))
    shared = array(x)
    close(vmap(lambda row, column: row * column, in_axes=(0, 1))(shared, shared), x * x.T)


def test_closures_over_outer_lanes() -> None:
    x, y = normal(4, (3,), (4,))
    found = vmap(lambda a: vmap(lambda b: a * prims.sin(b) + a)(array(y)))(x)
    close(found, x[:, None] * np.sin(y) + x[:, None])


def test_shared_arguments_have_values_for_python_control_flow() -> None:
    def f(x: Any, power: Any) -> Any:
        return x * x if power == 2 else x

    close(vmap(f, in_axes=(0, None))(array([2.0, 3.0]), 2), [4.0, 9.0])
    close(vmap(f, in_axes=(0, None))(array([2.0, 3.0]), 1), [2.0, 3.0])


def test_integer_arguments_and_gathers_by_lane() -> None:
    (table,) = normal(5, (6, 2))
    index = as_array(np.array([[0], [5], [2]], np.int32))

    def look_up(i: Any) -> Any:
        return prims.gather(array(table), i, axes=(0,), sizes=(1, 2), batch_dims=0, mode="clip")

    close(vmap(look_up)(index), table[[0, 5, 2]][:, None])


def test_python_and_numpy_inputs_and_weak_results() -> None:
    assert vmap(lambda x: x + 1)(np.ones(2, np.float16)).dtype == np.float16
    result = vmap(lambda x: x * 2.0, in_axes=None, axis_size=2)(3.0)
    assert result.weak_type and (result * array([1.0, 1.0], "float16")).dtype == np.float16


def test_per_example_gradients_against_a_loop() -> None:
    w, xs, ys = normal(6, (3,), (5, 3), (5,))

    def loss(w: Any, x: Any, y: Any) -> Any:
        return (prims.tanh(dot(w, x)) - y) ** 2

    found = vmap(tinyfn.grad(loss), in_axes=(None, 0, 0))(w, xs, ys)
    expected = [tinyfn.grad(loss)(array(w), array(x), array(y)) for x, y in zip(xs, ys, strict=True)]
    close(found, np.stack([np.asarray(g) for g in expected]))


def test_grad_through_vmap_of_shared_and_mapped_arguments() -> None:
    w, xs = normal(7, (3,), (5, 3))
    gw, gx = tinyfn.grad(lambda w, xs: total(vmap(lambda x: prims.sin(dot(w, x)))(xs)), (0, 1))(w, xs)
    close(gw, (np.cos(xs @ w)[:, None] * xs).sum(0))
    close(gx, np.cos(xs @ w)[:, None] * w)


def test_vmap_of_jit_makes_one_trace_for_any_batch_size() -> None:
    traces = []

    @tinyfn.jit
    def f(x: Any) -> Any:
        traces.append(x.shape)
        return prims.sin(x)

    for size in range(1, 20):
        same(vmap(f)(array(np.ones(size))), np.sin(np.ones(size)))
    assert traces == [()]


def test_vmap_of_methods_partials_and_decorated_functions() -> None:
    class Scale:
        def __init__(self, factor: float):
            self.factor = factor

        def __call__(self, x: Any) -> Any:
            return x * self.factor

    close(vmap(Scale(2.0))(array([1.0, 2.0])), [2.0, 4.0])

    @vmap
    def decorated(x: Any) -> Any:
        """Doubles."""
        return x + x

    close(decorated(array([1.0])), [2.0])
    assert decorated.__name__ == "decorated" and decorated.__doc__ == "Doubles."
