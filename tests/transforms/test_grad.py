"""grad and value_and_grad: against differences and closed forms, on every kind of argument, and with Python control flow."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import tinyfn
from tests.transforms.programs import array, close, gradient_by_differences, normal, same, total
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import prims, pytree
from tinyfn.trace.array import Array, as_array

grad, value_and_grad = tinyfn.grad, tinyfn.value_and_grad


def dot(x: Any, y: Any) -> Any:
    return prims.dot_general(x, y, contract=((x.ndim - 1,), (0,)), batch_axes=((), ()))


# Values against oracles that are not ours.


def test_rosenbrock_in_closed_form() -> None:
    def rosenbrock(x: Any, y: Any) -> Any:
        return (1.0 - x) ** 2 + 100.0 * (y - x**2) ** 2

    x, y = 1.3, -0.7
    gx, gy = grad(rosenbrock, (0, 1))(array(x), array(y))
    close(gx, -2 * (1 - x) - 400 * x * (y - x**2))
    close(gy, 200 * (y - x**2))
    close(grad(rosenbrock, (0, 1))(array(1.0), array(1.0)), (0.0, 0.0))


def test_least_squares_in_closed_form() -> None:
    a, x, b = normal(0, (5, 3), (3,), (5,))

    def loss(x: Any) -> Any:
        residual = dot(array(a), x) - b
        return 0.5 * total(residual * residual)

    close(grad(loss)(array(x)), a.T @ (a @ x - b))


def test_log_sum_exp_has_the_softmax_as_its_gradient() -> None:
    (x,) = normal(1, (6,))
    gradient = grad(lambda x: prims.log(total(prims.exp(x))))(array(x))
    close(gradient, np.exp(x) / np.exp(x).sum())


def test_a_small_network_against_differences() -> None:
    w1, w2, x = normal(2, (3, 4), (4, 2), (5, 3))

    def loss(w: Any) -> Any:
        return total(prims.tanh(dot(prims.tanh(dot(array(x), w)), array(w2))) ** 2)

    close(grad(loss)(array(w1)), gradient_by_differences(loss, w1), 1e-8)


def test_the_gradient_of_a_sum_does_not_depend_on_how_often_an_input_is_used() -> None:
    close(grad(lambda x: x + x + x)(array(2.0)), 3.0)
    close(grad(lambda x: x * x * x)(array(2.0)), 12.0)


def test_value_and_grad_gives_both() -> None:
    value, gradient = value_and_grad(lambda x: x**3)(array(2.0))
    close(value, 8.0)
    close(gradient, 12.0)


# Arguments.


def test_argnums() -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        return x * y + z * z

    args = array(2.0), array(3.0), array(5.0)
    close(grad(f)(*args), 3.0)
    close(grad(f, 1)(*args), 2.0)
    close(grad(f, -1)(*args), 10.0)
    assert [float(g) for g in grad(f, (2, 0))(*args)] == [10.0, 3.0]
    assert [float(g) for g in grad(f, [-1])(*args)] == [10.0]
    assert isinstance(grad(f, (0,))(*args), tuple)
    assert grad(f, ())(*args) == ()


class Pair(NamedTuple):
    first: Any
    second: Any


@pytree.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any
    name: str = pytree.static(default="layer")


def test_the_gradient_has_the_structure_of_the_argument() -> None:
    params = {
        "list": [array(1.0), array(2.0)],
        "tuple": (array(3.0),),
        "pair": Pair(array(4.0), None),
        "layer": Layer(array(5.0), array(6.0), "first"),
        "none": None,
        "empty": (),
    }

    def f(p: Any) -> Any:
        layer = p["layer"]
        assert p["none"] is None and layer.name == "first"
        return p["list"][0] * p["list"][1] + p["tuple"][0] ** 2 + p["pair"].first * layer.weight

    gradient = grad(f)(params)
    assert tinyfn.tree.structure(gradient) == tinyfn.tree.structure(params)
    assert [float(g) for g in tinyfn.tree.leaves(gradient["list"])] == [2.0, 1.0]
    assert float(gradient["tuple"][0]) == 6.0
    assert gradient["pair"] == Pair(gradient["pair"].first, None) and float(gradient["pair"].first) == 5.0
    assert float(gradient["layer"].weight) == 4.0 and float(gradient["layer"].bias) == 0.0
    assert gradient["layer"].name == "first"


def test_keyword_arguments_are_passed_on_and_are_not_differentiated() -> None:
    def f(x: Any, *, scale: Any = 1.0, options: Any = None) -> Any:
        assert options == {"mode": "on"}
        return x * scale

    close(grad(f)(array(2.0), scale=array(7.0), options={"mode": "on"}), 7.0)


def test_arguments_that_are_not_differentiated_may_be_anything() -> None:
    def f(x: Any, mode: str, callback: Callable[[Any], Any], data: np.ndarray) -> Any:
        return callback(x) * data.sum() if mode == "sum" else x

    close(grad(f)(array(2.0), "sum", prims.sin, np.array([1.0, 2.0])), 3 * np.cos(2.0))


def test_unused_arguments_have_zero_gradients_of_their_shape_and_dtype() -> None:
    x, y = array([1.0, 2.0]), array([[3.0]], "float32")
    gx, gy = grad(lambda x, y: total(x), (0, 1))(x, y)
    same(gx, np.ones(2))
    same(gy, np.zeros((1, 1), np.float32))


def test_a_constant_result_has_a_zero_gradient() -> None:
    same(grad(lambda x: 1.5)(array([1.0, 2.0])), np.zeros(2))
    same(grad(lambda x: array(1.5))(array([1.0, 2.0])), np.zeros(2))


def test_a_result_that_is_the_input() -> None:
    close(grad(lambda x: x)(array(3.0)), 1.0)
    value, gradient = value_and_grad(lambda x: x)(array(3.0))
    assert (float(value), float(gradient)) == (3.0, 1.0)


def test_the_same_array_passed_twice_is_two_inputs() -> None:
    x = array(3.0)
    gx, gy = grad(lambda a, b: a * a * b, (0, 1))(x, x)
    assert (float(gx), float(gy)) == (18.0, 9.0)
    leaves = grad(lambda p: p[0] * p[1] + p[1])([x, x])
    assert [float(g) for g in leaves] == [3.0, 4.0]


def test_equal_constants_are_not_merged_into_inputs() -> None:
    # tinygrad issue 9597: x + constant with the constant equal to x got twice the gradient.
    close(grad(lambda x: x + 2.0)(2.0), 1.0)
    close(grad(lambda x: x * array(2.0))(array(2.0)), 2.0)
    ones = np.ones(3)
    close(grad(lambda x: total(x * array(ones)))(array(ones)), ones)
    gx, gy = grad(lambda x, y: total(x * y + x), (0, 1))(np.zeros(2), np.zeros(2))
    close(gx, [1.0, 1.0])
    close(gy, [0.0, 0.0])


def test_zero_size_and_zero_dimensional_arrays() -> None:
    assert grad(lambda x: total(x * x))(array(np.zeros((0, 3)))).shape == (0, 3)
    assert grad(lambda x: total(x))(array(5.0)).shape == ()
    assert float(value_and_grad(lambda x: total(x))(array(np.zeros(0)))[0]) == 0.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_the_gradient_has_the_dtype_of_the_argument(dtype: Any) -> None:
    x = array([0.5, 1.0, 2.0], dtype)
    value, gradient = value_and_grad(lambda x: total(x * x + 1.0))(x)
    assert value.dtype == gradient.dtype == np.dtype(dtype)
    close(np.asarray(gradient).astype(np.float64), [1.0, 2.0, 4.0])


def test_gradients_pass_through_casts() -> None:
    x, y = array([1.0, 2.0], "float32"), array([3.0, 4.0], "float64")
    gx, gy = grad(lambda x, y: total(x.astype("float64") * y), (0, 1))(x, y)
    same(gx, np.array([3.0, 4.0], np.float32))
    same(gy, np.array([1.0, 2.0], np.float64))


def test_no_gradient_passes_through_integers() -> None:
    same(grad(lambda x: total(x.astype("int32").astype("float64") + x))(array([1.5, 2.5])), np.ones(2))


def test_integer_arguments() -> None:
    index = as_array(np.array([[1]], np.int32))
    x = array([1.0, 2.0, 3.0])

    def f(x: Any, index: Any) -> Any:
        return total(prims.gather(x, index, axes=(0,), sizes=(1,), batch_dims=0, mode="clip"))

    same(grad(f)(x, index), np.array([0.0, 1.0, 0.0]))
    gx, g_index = grad(f, (0, 1), allow_int=True)(x, index)
    same(gx, np.array([0.0, 1.0, 0.0]))
    assert g_index.dtype == dtypes.float0 and g_index.shape == index.shape


def test_python_and_numpy_numbers_as_arguments() -> None:
    assert grad(lambda x: x * x)(3.0).dtype == np.float32
    assert grad(lambda x: x * x)(np.float64(3.0)).dtype == np.float64
    assert grad(lambda x: total(x * x))(np.ones(2, np.float16)).dtype == np.float16


def test_gradients_of_weak_numbers_are_weak() -> None:
    half = array([1.0, 2.0], "float16")
    assert grad(lambda x: x * x)(3.0).weak_type
    assert (grad(lambda x: x * x)(3.0) * half).dtype == np.float16
    assert (grad(grad(lambda x: x * x))(3.0) * half).dtype == np.float16
    value, _ = value_and_grad(lambda x: x * x)(3.0)
    assert (value * half).dtype == np.float16
    assert not grad(lambda x: x * x)(array(3.0, "float32")).weak_type


def test_has_aux() -> None:
    def f(x: Any) -> Any:
        aux = {"double": 2.0 * x, "text": "anything", "none": None, "list": [x, object], "number": 3}
        return x * x, aux

    (value, aux), gradient = value_and_grad(f, has_aux=True)(array(3.0))
    assert (float(value), float(gradient), float(aux["double"])) == (9.0, 6.0, 6.0)
    assert (aux["text"], aux["none"], aux["list"][1], int(aux["number"])) == ("anything", None, object, 3)
    gradient, aux = grad(f, has_aux=True)(array(3.0))
    assert (float(gradient), float(aux["list"][0])) == (6.0, 3.0)


def test_aux_carries_outer_gradients() -> None:
    def outer(x: Any) -> Any:
        gradient, aux = grad(lambda y: (y * y, y * x), has_aux=True)(x)
        return gradient + aux  # 2x + x * x

    close(grad(outer)(array(3.0)), 8.0)


# Closures and nesting.


def test_no_perturbation_confusion() -> None:
    # Siskind and Pearlmutter: d/dx (x * d/dy (x + y)) = 1, not 2.
    close(grad(lambda x: x * grad(lambda y: x + y)(array(1.0)))(array(1.0)), 1.0)
    close(grad(lambda x: x * grad(lambda y: x * y)(x))(array(3.0)), 6.0)
    close(grad(lambda x: grad(lambda y: x * y * y)(x))(array(3.0)), 4 * 3.0)


def test_higher_derivatives_of_a_power() -> None:
    f: Callable[..., Any] = lambda x: x**5
    for expected in (5 * 2.0**4, 20 * 2.0**3, 60 * 2.0**2, 120 * 2.0, 120.0, 0.0):
        f = grad(f)
        close(f(array(2.0)), expected)


def test_closed_over_tracers_of_every_level_have_gradients() -> None:
    def outer(x: Any) -> Any:
        def middle(y: Any) -> Any:
            def inner(z: Any) -> Any:
                return x * x * y * y * z * z

            return grad(inner)(x + y)  # 2 x² y² (x + y)

        return grad(middle)(x)  # at y = x: 8x⁴ + 2x⁴

    close(outer(array(2.0)), 10 * 2.0**4)
    close(grad(outer)(array(2.0)), 40 * 2.0**3)


def test_closed_over_arrays_are_captured_and_neither_baked_in_nor_copied() -> None:
    big = array(np.arange(1000.0))
    graph = tinyfn.make_graph(grad(lambda x: total(x * big)))(array(np.ones(1000)))
    assert any(captured is big for captured in graph.captured)
    assert all(captured.value is big.value for captured in graph.captured if captured.shape == (1000,))
    assert all(node.op.name != "const" or node.shape == () for node in graph.nodes())


# Python control flow.


def counting() -> tuple[Callable[[Any], Any], list[int]]:
    """A sine that counts how often it is computed."""
    from tinyfn.trace.prims.extern import HostFunction

    count = [0]

    def compute(x: np.ndarray) -> np.ndarray:
        count[0] += 1
        return np.sin(x)

    host = HostFunction("counted_sin", compute, lambda x: (x.dtype, x.shape))
    return lambda x: prims.extern(prims.stop_gradient(x), function=host) + (x - prims.stop_gradient(x)), count


def branching(sine: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        y = sine(x)
        if y > 0.5:
            return y * y
        return -y * x

    return f


def test_branches_on_values() -> None:
    f = branching(prims.sin)
    close(grad(f)(array(1.0)), 2 * np.sin(1.0) * np.cos(1.0))
    close(grad(f)(array(0.1)), -np.cos(0.1) * 0.1 - np.sin(0.1))


def test_loops_on_values() -> None:
    def newton_square_root(a: Any) -> Any:
        x = a
        while abs(x * x - a) > 1e-14:
            x = 0.5 * (x + a / x)
        return x

    close(value_and_grad(newton_square_root)(array(2.0)), (2**0.5, 0.5 / 2**0.5), 1e-10)
    close(grad(grad(newton_square_root))(array(2.0)), -0.25 * 2**-1.5, 1e-6)


def test_values_as_python_numbers_indices_and_numpy_arrays() -> None:
    def f(x: Any) -> Any:
        times = int(x)
        for _ in range(times):
            x = x * float(x)  # float(x) is a number: no derivative
        return x * np.asarray(x).sum() * [1.0, 10.0][times - 1]

    # times = 1: x * 2.5, then times the number 6.25
    close(grad(f)(array(1.5)), 1.5 * (1.5 * 1.5))


@pytest.mark.parametrize(
    "transform",
    [
        grad,
        value_and_grad,
        lambda f: lambda x: tinyfn.jvp(f, (x,), (array(1.0),)),
        lambda f: lambda x: tinyfn.vjp(f, x)[1](array(1.0)),
        lambda f: lambda x: tinyfn.linearize(f, x)[1](array(1.0)),
        lambda f: grad(grad(f)),
        lambda f: grad(lambda x: tinyfn.jvp(f, (x,), (array(1.0),))[1]),
        tinyfn.hessian,
    ],
)
def test_a_value_that_is_looked_at_is_computed_once(transform: Callable[..., Any]) -> None:
    sine, count = counting()
    f = branching(sine)
    for point in (1.0, 0.1):
        count[0] = 0
        transform(f)(array(point))
        assert count == [1]


def test_a_long_loop_on_values_takes_linear_time() -> None:
    from time import perf_counter

    def rounds(n: int) -> float:
        def f(x: Any) -> Any:
            done = 0
            while x < 1e9 and done < n:
                x, done = x * 1.0001, done + 1
            return x

        begin = perf_counter()
        close(grad(f)(array(1.0)), 1.0001**n, 1e-9)
        return perf_counter() - begin

    rounds(100)
    short, long = min(rounds(1000) for _ in range(3)), min(rounds(8000) for _ in range(2))
    assert long < 8 * short * 3


def test_an_exception_in_the_function_leaves_no_trace_behind() -> None:
    def broken(x: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        grad(broken)(array(1.0))
    assert type(array(1.0) + 1.0) is Array
    close(grad(lambda x: x * x)(array(1.0)), 2.0)


def test_nan_and_infinity_survive() -> None:
    same(grad(lambda x: total(x * 0.0))(array([np.inf, np.nan])), np.zeros(2))
    assert np.isnan(np.asarray(grad(lambda x: total(x * array([np.nan, 1.0])))(array([1.0, 2.0])))[0])


def test_a_branch_that_where_does_not_take_gives_no_nan() -> None:
    f = grad(lambda x: prims.where(x > 0, prims.sqrt(x), x * 0.0))
    close(f(array(0.0)), 0.0)
    close(f(array(4.0)), 0.25)
