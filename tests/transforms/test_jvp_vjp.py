"""jvp, vjp, linearize and the Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tinyfn
from tests.transforms.programs import array, close, normal, same, total
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import prims
from tinyfn.trace.array import as_array

jvp, vjp, linearize = tinyfn.jvp, tinyfn.vjp, tinyfn.linearize


class Point(NamedTuple):
    x: Any
    y: Any


def polar(p: Point) -> dict[str, Any]:
    """Radius and angle."""
    return {"radius": prims.sqrt(p.x * p.x + p.y * p.y), "angle": prims.atan2(p.y, p.x)}


def test_jvp_of_trees_in_closed_form() -> None:
    point, tangent = Point(array(3.0), array(4.0)), Point(array(0.1), array(-0.2))
    value, direction = jvp(polar, (point,), (tangent,))
    close(value["radius"], 5.0)
    close(direction["radius"], (3 * 0.1 + 4 * -0.2) / 5)
    close(direction["angle"], (3 * -0.2 - 4 * 0.1) / 25)


def test_vjp_of_trees_in_closed_form() -> None:
    _, pullback = vjp(polar, Point(array(3.0), array(4.0)))
    (ct,) = pullback({"radius": array(2.0), "angle": array(0.5)})
    assert isinstance(ct, Point)
    close(ct.x, 2 * 3 / 5 + 0.5 * -4 / 25)
    close(ct.y, 2 * 4 / 5 + 0.5 * 3 / 25)


def test_linear_functions_and_pullbacks_can_be_called_many_times() -> None:
    (x, u, v) = normal(0, (4,), (4,), (4,))
    value, linear = linearize(prims.sin, array(x))
    _, pullback = vjp(prims.sin, array(x))
    same(value, np.sin(x))
    for t in (u, v, u + v):
        close(linear(array(t)), np.cos(x) * t)
        close(pullback(array(t))[0], np.cos(x) * t)
    close(linear(array(u + 2 * v)), np.asarray(linear(array(u))) + 2 * np.asarray(linear(array(v))))


def test_the_nonlinear_part_is_computed_once() -> None:
    from tinyfn.trace.prims.extern import HostFunction

    count = [0]

    def compute(x: np.ndarray) -> np.ndarray:
        count[0] += 1
        return np.exp(x)

    host = HostFunction("counted_exp", compute, lambda x: (x.dtype, x.shape))

    def f(x: Any) -> Any:
        return x * prims.extern(prims.stop_gradient(x), function=host)

    for function in (f, tinyfn.jit(f)):
        count[0] = 0
        _, linear = linearize(function, array(1.0))
        _, pullback = vjp(function, array(1.0))
        assert count == [2]
        for _ in range(3):
            close(linear(array(2.0)), 2 * np.e)
            close(pullback(array(2.0))[0], 2 * np.e)
        assert count == [2]


@pytest.mark.parametrize(
    "wrap", [lambda f: f, tinyfn.jit, tinyfn.remat, lambda f: tinyfn.jit(tinyfn.remat(tinyfn.jit(f)))]
)
def test_linearize_of_functions_that_hold_graphs(wrap: Callable[..., Any]) -> None:
    f = wrap(
        lambda x, y: {"product": prims.sin(x) * y, "x": x, "integer": prims.convert(y, dtype=dtypes.int32)}
    )
    value, linear = linearize(f, array(0.5), array(2.0))
    close(value["product"], np.sin(0.5) * 2)
    assert int(value["integer"]) == 2
    tangent = linear(array(1.0), array(3.0))
    close(tangent["product"], np.cos(0.5) * 2 + np.sin(0.5) * 3)
    close(tangent["x"], 1.0)
    assert tangent["integer"].dtype == dtypes.float0


def test_linear_functions_work_within_other_traces() -> None:
    def f(x: Any) -> Any:
        _, linear = linearize(prims.sin, x)
        _, pullback = vjp(lambda y: y * y * y, x)
        return linear(x) * pullback(array(1.0))[0]  # x cos x · 3x²

    def expected(x: float) -> float:
        return 9 * x**2 * np.cos(x) - 3 * x**3 * np.sin(x)

    close(tinyfn.grad(f)(array(0.7)), expected(0.7))
    close(tinyfn.jit(tinyfn.grad(f))(array(0.7)), expected(0.7))
    close(tinyfn.vmap(tinyfn.grad(f))(array([0.7, 0.2])), [expected(0.7), expected(0.2)])


def test_a_pullback_from_outside_is_used_within_a_trace() -> None:
    _, pullback = vjp(lambda x: x * x, array(3.0))
    close(tinyfn.grad(lambda ct: pullback(ct)[0] * ct)(array(2.0)), 2 * 6 * 2)
    close(tinyfn.vmap(lambda ct: pullback(ct)[0])(array([1.0, 2.0])), [6.0, 12.0])
    close(tinyfn.jit(lambda ct: pullback(ct)[0])(array(2.0)), 12.0)


def test_has_aux() -> None:
    def f(x: Any) -> Any:
        return {"y": x * x}, ("text", x + 1.0)

    value, tangent, aux = jvp(f, (array(3.0),), (array(1.0),), has_aux=True)
    assert (float(value["y"]), float(tangent["y"]), aux[0], float(aux[1])) == (9.0, 6.0, "text", 4.0)
    value, pullback, aux = vjp(f, array(3.0), has_aux=True)
    assert (float(value["y"]), float(pullback({"y": array(2.0)})[0]), aux[0]) == (9.0, 12.0, "text")
    value, linear, aux = linearize(f, array(3.0), has_aux=True)
    assert (float(value["y"]), float(linear(array(2.0))["y"]), float(aux[1])) == (9.0, 12.0, 4.0)


def test_integer_primals_and_results_have_tangents_of_float0() -> None:
    def f(x: Any, n: Any) -> Any:
        return x * n.astype("float64"), n + 1

    n = as_array(np.array(3, np.int32))
    (value, count), (tangent, zero) = jvp(f, (array(2.0), n), (array(1.0), np.zeros((), dtypes.float0)))
    assert (float(value), int(count), float(tangent)) == (6.0, 4, 3.0)
    assert zero.dtype == dtypes.float0
    _, pullback = vjp(f, array(2.0), n)
    ct_x, ct_n = pullback((array(1.0), np.zeros((), dtypes.float0)))
    assert float(ct_x) == 3.0 and ct_n.dtype == dtypes.float0 and ct_n.shape == ()


def test_outputs_that_are_inputs_constants_or_repeated() -> None:
    value, tangent = jvp(lambda x: [x, x, 1.5, x * 0.0], (array(2.0),), (array(3.0),))
    assert [float(v) for v in value] == [2.0, 2.0, 1.5, 0.0]
    assert [float(t) for t in tangent] == [3.0, 3.0, 0.0, 0.0]
    _, pullback = vjp(lambda x: [x, x, 1.5], array(2.0))
    assert float(pullback([array(1.0), array(2.0), np.float32(9.0)])[0]) == 3.0
    _, linear = linearize(lambda x, y: [y, array(1.0)], array(2.0), array(5.0))
    assert [float(t) for t in linear(array(1.0), array(7.0))] == [7.0, 0.0]


def test_nothing_at_all() -> None:
    assert jvp(lambda: (), (), ()) == ((), ())
    value, pullback = vjp(lambda x: (), array(2.0))
    assert value == () and float(pullback(())[0]) == 0.0


def test_python_numbers_as_tangents_and_cotangents() -> None:
    value, tangent = jvp(lambda x: x * x, (3.0,), (1.0,))
    assert (float(value), float(tangent), tangent.dtype) == (9.0, 6.0, np.float32)
    assert tangent.weak_type and value.weak_type
    _, pullback = vjp(lambda x: x * x, array(3.0, "float16"))
    assert pullback(2)[0].dtype == np.float16


# Jacobians.


def test_jacobians_of_a_linear_map_are_its_matrix() -> None:
    matrix, x = normal(0, (3, 4), (4,))

    def f(x: Any) -> Any:
        return prims.dot_general(array(matrix), x, contract=((1,), (0,)), batch_axes=((), ()))

    close(tinyfn.jacfwd(f)(array(x)), matrix)
    close(tinyfn.jacrev(f)(array(x)), matrix)


@pytest.mark.parametrize("jacobian", [tinyfn.jacfwd, tinyfn.jacrev])
def test_jacobians_of_trees(jacobian: Callable[..., Any]) -> None:
    def f(p: Any, scale: Any) -> Any:
        return {
            "outer": scale * prims.dot_general(p["a"], p["b"], contract=((), ()), batch_axes=((), ())),
            "a": p["a"] * 2.0,
        }

    a, b = normal(1, (2,), (3,))
    args = {"a": array(a), "b": array(b)}, array(2.0)
    by_p = jacobian(f)(*args)
    close(by_p["outer"]["a"], 2 * np.einsum("ik,j->ijk", np.eye(2), b))
    close(by_p["outer"]["b"], 2 * np.einsum("i,jk->ijk", a, np.eye(3)))
    close(by_p["a"]["a"], 2 * np.eye(2))
    close(by_p["a"]["b"], np.zeros((2, 3)))
    both = jacobian(f, (1, 0))(*args)
    close(both["outer"][0], np.outer(a, b))
    close(both["outer"][1]["a"], by_p["outer"]["a"])


@pytest.mark.parametrize("jacobian", [tinyfn.jacfwd, tinyfn.jacrev])
def test_jacobians_with_aux_keywords_and_odd_shapes(jacobian: Callable[..., Any]) -> None:
    result, aux = jacobian(lambda x, *, n: (x**n, "note"), has_aux=True)(array([1.0, 2.0]), n=3)
    close(result, np.diag([3.0, 12.0]))
    assert aux == "note"
    assert jacobian(lambda x: x * x)(array(np.zeros((0, 2)))).shape == (0, 2, 0, 2)
    assert jacobian(lambda x: total(x))(array(np.zeros((2, 3)))).shape == (2, 3)
    assert float(jacobian(lambda x: x * x)(array(3.0))) == 6.0
    half = jacobian(lambda x: x * x)(array([1.0, 2.0], "float16"))
    assert half.dtype == np.float16
    close(half, [[2.0, 0.0], [0.0, 4.0]])


def test_hessian_of_a_quadratic_form() -> None:
    matrix, x = normal(0, (3, 3), (3,))

    def f(x: Any) -> Any:
        product = prims.dot_general(array(matrix), x, contract=((1,), (0,)), batch_axes=((), ()))
        return 0.5 * total(x * product)

    close(tinyfn.hessian(f)(array(x)), (matrix + matrix.T) / 2)


def test_hessian_by_several_arguments_is_symmetric_and_in_closed_form() -> None:
    def f(x: Any, y: Any) -> Any:
        return total(prims.sin(x) * y * y)

    x, y = normal(3, (2,), (2,))
    (xx, xy), (yx, yy) = tinyfn.hessian(f, (0, 1))(array(x), array(y))
    close(xx, np.diag(-np.sin(x) * y * y))
    close(xy, np.diag(2 * np.cos(x) * y))
    close(yx, np.asarray(xy).T)
    close(yy, np.diag(2 * np.sin(x)))


def test_hessian_with_aux() -> None:
    result, aux = tinyfn.hessian(lambda x: (total(x**3), {"sum": total(x)}), has_aux=True)(array([1.0, 2.0]))
    close(result, np.diag([6.0, 12.0]))
    close(aux["sum"], 3.0)


def test_hessian_of_rosenbrock_at_its_minimum() -> None:
    # The published value: [[802, -400], [-400, 200]].
    def f(p: Any) -> Any:
        return (1.0 - p["x"]) ** 2 + 100.0 * (p["y"] - p["x"] ** 2) ** 2

    h = tinyfn.hessian(f)({"x": array(1.0), "y": array(1.0)})
    found = [[h[i][j] for j in "xy"] for i in "xy"]
    close(found, [[802.0, -400.0], [-400.0, 200.0]])


def test_hessian_vector_products_agree() -> None:
    (x, v) = normal(5, (4,), (4,))
    f: Callable[..., Any] = lambda x: total(prims.exp(prims.sin(x)) * x)
    full = np.asarray(tinyfn.hessian(f)(array(x))) @ v
    forward_over_reverse = jvp(tinyfn.grad(f), (array(x),), (array(v),))[1]
    reverse_over_forward = tinyfn.grad(lambda x: jvp(f, (x,), (array(v),))[1])(array(x))
    reverse_over_reverse = tinyfn.grad(lambda x: total(tinyfn.grad(f)(x) * array(v)))(array(x))
    for product in (forward_over_reverse, reverse_over_forward, reverse_over_reverse):
        close(product, full)
