"""custom_jvp and custom_vjp: rules of every form, under every transform, closing over whatever they like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyfn
from tests.transforms.programs import array, close, normal, same, total
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import prims
from tinyfn.trace.array import as_array

grad, vmap, jit = tinyfn.grad, tinyfn.vmap, tinyfn.jit


def power_jvp() -> Any:
    """x³ with ten times its derivative, so that it shows whether the rule was used."""

    @tinyfn.custom_jvp
    def f(x: Any) -> Any:
        """The cube."""
        return x * x * x

    f.defjvp(lambda primals, tangents: (f(*primals), 30.0 * primals[0] * primals[0] * tangents[0]))
    return f


def power_vjp() -> Any:
    """x³ with ten times its derivative, in reverse mode."""

    @tinyfn.custom_vjp
    def f(x: Any) -> Any:
        """The cube."""
        return x * x * x

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (30.0 * x * x * ct,))
    return f


both = pytest.mark.parametrize("make", [power_jvp, power_vjp])


@both
def test_the_rule_takes_the_place_of_the_derivative(make: Callable[[], Any]) -> None:
    f = make()
    assert float(f(array(2.0))) == 8.0
    close(grad(f)(array(2.0)), 120.0)
    close(grad(lambda x: prims.sin(f(x)))(array(2.0)), np.cos(8.0) * 120.0)
    assert f.__name__ == "f" and f.__doc__ == "The cube."


@both
def test_under_every_other_transform(make: Callable[[], Any]) -> None:
    f, xs = make(), array([1.0, 2.0])
    close(vmap(f)(xs), [1.0, 8.0])
    close(jit(f)(xs), [1.0, 8.0])
    close(vmap(grad(f))(xs), [30.0, 120.0])
    close(grad(lambda xs: total(vmap(f)(xs)))(xs), [30.0, 120.0])
    close(jit(grad(f))(array(2.0)), 120.0)
    close(grad(jit(f))(array(2.0)), 120.0)
    close(grad(tinyfn.remat(f))(array(2.0)), 120.0)
    close(jit(vmap(grad(jit(f))))(xs), [30.0, 120.0])
    close(vmap(vmap(grad(f)))(array([[1.0, 2.0]])), [[30.0, 120.0]])
    close(tinyfn.vjp(f, xs)[1](xs)[0], [30.0, 240.0])
    close(tinyfn.jacrev(f)(xs), np.diag([30.0, 120.0]))


def test_forward_modes_of_custom_jvp() -> None:
    f, x = power_jvp(), array(2.0)
    close(tinyfn.jvp(f, (x,), (array(0.5),))[1], 60.0)
    close(tinyfn.linearize(f, x)[1](array(0.5)), 60.0)
    close(tinyfn.jacfwd(f)(array([1.0, 2.0])), np.diag([30.0, 120.0]))
    close(
        vmap(lambda x, t: tinyfn.jvp(f, (x,), (t,))[1], in_axes=(None, 0))(x, array([1.0, 2.0])),
        [120.0, 240.0],
    )


@both
def test_rules_that_call_their_function_have_further_derivatives(make: Callable[[], Any]) -> None:
    # Each derivative passes through the rule, not through the function: 30x², then 60x, then 60.
    f = make()
    close(grad(grad(f))(array(2.0)), 120.0)
    close(grad(grad(grad(f)))(array(2.0)), 60.0)

    @tinyfn.custom_jvp
    def sigmoid(x: Any) -> Any:
        return 1.0 / (1.0 + prims.exp(-x))

    @sigmoid.defjvp
    def _rule(primals: Any, tangents: Any) -> Any:
        y = sigmoid(*primals)
        return y, y * (1.0 - y) * tangents[0]

    y = 1 / (1 + np.exp(-0.3))
    first = y * (1 - y)
    expected = [first, first * (1 - 2 * y), first * (1 - 6 * y + 6 * y * y)]
    derivative: Callable[..., Any] = sigmoid
    for order in range(3):
        derivative = grad(derivative)
        close(derivative(array(0.3)), expected[order])
        close(jit(derivative)(array(0.3)), expected[order])
        close(vmap(derivative)(array([0.3, 0.3])), [expected[order]] * 2)
    close(tinyfn.hessian(sigmoid)(array(0.3)), expected[1])


def test_a_call_from_the_rule_uses_the_rule_again() -> None:
    # The second derivative must not be that of the plain function: the rule says that f' = 2 f.
    @tinyfn.custom_jvp
    def f(x: Any) -> Any:
        return prims.exp(x)

    f.defjvp(lambda primals, tangents: (f(*primals), 2.0 * f(*primals) * tangents[0]))
    derivative: Callable[..., Any] = f
    for order in range(1, 6):
        derivative = grad(derivative)
        close(derivative(array(0.5)), 2**order * np.exp(0.5))

    @tinyfn.custom_vjp
    def g(x: Any) -> Any:
        return prims.exp(x)

    g.defvjp(lambda x: (g(x), x), lambda x, ct: (2.0 * g(x) * ct,))
    derivative = g
    for order in range(1, 6):
        derivative = grad(derivative)
        close(derivative(array(0.5)), 2**order * np.exp(0.5))


def test_a_call_from_the_rule_through_jit_is_not_cached_for_others() -> None:
    @tinyfn.custom_jvp
    def f(x: Any) -> Any:
        return prims.exp(x)

    jitted = jit(f)
    f.defjvp(lambda primals, tangents: (jitted(*primals), 3.0 * jitted(*primals) * tangents[0]))
    for _ in range(2):
        close(grad(f)(array(0.5)), 3 * np.exp(0.5))
        close(grad(jitted)(array(0.5)), 3 * np.exp(0.5))
        close(grad(grad(jitted))(array(0.5)), 9 * np.exp(0.5))


def test_functions_whose_rules_call_each_other() -> None:
    @tinyfn.custom_jvp
    def sine(x: Any) -> Any:
        return prims.sin(x)

    @tinyfn.custom_jvp
    def cosine(x: Any) -> Any:
        return prims.cos(x)

    sine.defjvp(lambda primals, tangents: (sine(*primals), cosine(*primals) * tangents[0]))
    cosine.defjvp(lambda primals, tangents: (cosine(*primals), -sine(*primals) * tangents[0]))
    derivative: Callable[..., Any] = sine
    for expected in (np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin):
        derivative = grad(derivative)
        close(derivative(array(0.4)), expected(0.4))


def test_a_rule_may_raise_a_setting_without_end() -> None:
    # As polygamma(n, x), whose derivative is polygamma(n + 1, x).
    def make(n: int, x: Any) -> Any:
        return prims.sin(x + n * np.pi / 2)

    f = tinyfn.custom_jvp(make, nondiff_argnums=(0,))
    f.defjvp(lambda n, primals, tangents: (f(n, *primals), f(n + 1, *primals) * tangents[0]))
    close(grad(lambda x: f(0, x))(array(0.3)), np.cos(0.3))
    close(grad(grad(grad(lambda x: f(0, x))))(array(0.3)), -np.cos(0.3))


def test_rules_of_single_arguments() -> None:
    @tinyfn.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y * y

    f.defjvps(lambda t, value, x, y: 10.0 * t * y * y, None)
    gx, gy = grad(f, (0, 1))(array(2.0), array(3.0))
    assert (float(gx), float(gy)) == (90.0, 0.0)
    f.defjvps(None, None)
    assert [float(g) for g in grad(f, (0, 1))(array(2.0), array(3.0))] == [0.0, 0.0]


def test_trees_of_arguments_and_results() -> None:
    @tinyfn.custom_vjp
    def f(p: Any, unused: Any) -> Any:
        return {"sum": p["x"] + p["y"][0], "product": p["x"] * p["y"][0]}

    def forward(p: Any, unused: Any) -> Any:
        return f(p, unused), (p, {"nothing": None})

    def backward(residuals: Any, ct: Any) -> Any:
        p, _ = residuals
        return {"x": ct["sum"] + ct["product"] * p["y"][0], "y": (None, None)}, None

    f.defvjp(forward, backward)
    p = {"x": array(2.0), "y": (array(3.0), None)}
    gradient, unused = grad(lambda p, u: prims.sin(f(p, u)["product"]) + f(p, u)["sum"], (0, 1))(
        p, [array([1.0])]
    )
    close(gradient["x"], np.cos(6.0) * 3 + 1)
    close(gradient["y"][0], 0.0)
    assert gradient["y"][1] is None
    close(unused[0], [0.0])


def test_integer_arguments_and_results() -> None:
    def call(x: Any, n: Any) -> Any:
        return x * n.astype("float64"), n + 1

    def jvp_rule(primals: Any, tangents: Any) -> Any:
        (x, n), (t, zero) = primals, tangents
        assert zero.dtype == dtypes.float0 and zero.shape == n.shape
        return call(x, n), (t * 7.0, zero)

    def backward(n: Any, cts: Any) -> Any:
        assert cts[1].dtype == dtypes.float0
        return cts[0] * 7.0, None

    f, g = tinyfn.custom_jvp(call), tinyfn.custom_vjp(call)
    f.defjvp(jvp_rule)
    g.defvjp(lambda x, n: (call(x, n), n), backward)
    n = as_array(np.array(3, np.int32))
    for function in (f, g):
        close(grad(lambda x, h=function: h(x, n)[0])(array(2.0)), 7.0)
        close(
            vmap(grad(lambda x, n, h=function: h(x, n)[0]))(
                array([2.0, 3.0]), as_array(np.array([1, 2], np.int32))
            ),
            [7.0, 7.0],
        )


def test_keyword_and_default_arguments() -> None:
    @tinyfn.custom_jvp
    def f(x: Any, y: Any = 3.0) -> Any:
        return x * y

    f.defjvp(lambda primals, tangents: (f(*primals), 10.0 * tangents[0] * primals[1]))
    close(grad(lambda x: f(x))(array(2.0)), 30.0)
    close(grad(lambda x: f(y=x, x=x))(array(2.0)), 20.0)


# What is not differentiated, and what is closed over.


def test_nondiff_argnums_are_passed_first_in_the_order_listed() -> None:
    def power(x: Any, n: int, mode: str) -> Any:
        assert mode == "exact"
        return x**n

    f = tinyfn.custom_jvp(power, nondiff_argnums=(2, 1))
    f.defjvp(
        lambda mode, n, primals, tangents: (
            f(primals[0], n, mode),
            tangents[0] * (10.0 if mode == "exact" else 0.0) * n,
        )
    )
    close(grad(f)(array(2.0), 3, "exact"), 30.0)

    g = tinyfn.custom_vjp(power, nondiff_argnums=(-1,), nondiff_argnames=("n",))
    g.defvjp(lambda x, n, mode: (g(x, n, mode), x), lambda mode, n, x, ct: (ct * 100.0 * n,))
    close(grad(g)(array(2.0), 3, "exact"), 300.0)
    close(grad(lambda x: g(x, mode="exact", n=4))(array(2.0)), 400.0)

    h = tinyfn.custom_jvp(lambda function, x: function(x), nondiff_argnums=0)
    h.defjvp(lambda function, primals, tangents: (function(*primals), tangents[0] * 5.0))
    close(grad(lambda x: h(prims.sin, x))(array(2.0)), 5.0)


def test_arrays_and_tracers_as_nondiff_arguments() -> None:
    # JAX issues 20889 and 9374: these end in leaked-tracer messages there.
    f = tinyfn.custom_vjp(lambda mask, x: x * mask, nondiff_argnums=(0,))
    f.defvjp(lambda mask, x: (f(mask, x), None), lambda mask, _, ct: (ct * mask * 2.0,))
    mask = array([1.0, 0.0])
    close(grad(lambda x: total(f(mask, x)))(array([3.0, 4.0])), [2.0, 0.0])
    close(vmap(grad(lambda m, x: f(m, x), 1))(mask, array([3.0, 4.0])), [2.0, 0.0])
    close(jit(grad(lambda x, m: total(f(m, x))))(array([3.0, 4.0]), mask), [2.0, 0.0])
    close(grad(lambda x: total(f((x > 3.5).astype("float64"), x)))(array([3.0, 4.0])), [0.0, 2.0])


@pytest.mark.parametrize("calls_itself", [False, True])
def test_rules_close_over_traced_values(calls_itself: bool) -> None:
    def model(mask: Any, x: Any) -> Any:
        @tinyfn.custom_vjp
        def masked(x: Any) -> Any:
            return x * mask

        inner = masked if calls_itself else (lambda x: x * mask)
        masked.defvjp(lambda x: (inner(x), ()), lambda _, ct: (ct * mask * 2.0,))

        @tinyfn.custom_jvp
        def shifted(x: Any) -> Any:
            return x + mask

        again = shifted if calls_itself else (lambda x: x + mask)
        shifted.defjvp(lambda primals, tangents: (again(*primals), tangents[0] * (again(*primals) + mask)))
        return total(shifted(masked(x)))

    mask, x = array([1.0, 0.0, 1.0]), array([3.0, 4.0, 5.0])
    expected = 2 * np.array([1.0, 0.0, 1.0]) * (x.value * mask.value + 2 * mask.value)
    close(grad(model, 1)(mask, x), expected)
    close(jit(grad(model, 1))(mask, x), expected)
    close(
        vmap(grad(model, 1), in_axes=(0, None))(array([mask.value, 0 * mask.value]), x),
        [expected, 0 * expected],
    )
    close(vmap(jit(grad(model, 1)), in_axes=(None, 0))(mask, array([x.value, x.value])), [expected, expected])
    # The second derivative, of 2 m (s(y(x)) + m), passes through the rules again if these call their functions.
    dy, ds = (2 * mask.value, x.value * mask.value + 2 * mask.value) if calls_itself else (mask.value, 1.0)
    second = tinyfn.jacrev(grad(model, 1), 1)(mask, x)
    close(np.diag(np.asarray(second)), 2 * mask.value * ds * dy)


def test_rules_that_make_arrays_of_numbers_and_call_themselves() -> None:
    weights = np.array([1.0, 2.0])

    @tinyfn.custom_jvp
    def f(x: Any) -> Any:
        return x * weights * np.float64(2.0)

    f.defjvp(lambda primals, tangents: (f(*primals), f(tangents[0]) * np.array([1.0, 10.0]) * f(*primals)))
    x = array([0.5, 0.25])
    # f' = 2w · [1, 10] · f with f = 2 w x, and so f'' = (2 w [1, 10])² · f.
    factor = 2 * weights * [1.0, 10.0]
    value = 2 * weights * x.value
    close(np.diag(np.asarray(tinyfn.jacrev(f)(x))), factor * value)
    second = tinyfn.jvp(lambda x: tinyfn.jvp(f, (x,), (np.ones(2),))[1], (x,), (np.ones(2),))[1]
    close(second, factor**2 * value)
    close(
        jit(lambda x: tinyfn.jvp(lambda x: tinyfn.jvp(f, (x,), (np.ones(2),))[1], (x,), (np.ones(2),))[1])(x),
        factor**2 * value,
    )


def test_the_rule_of_a_linear_function_may_call_it_on_the_tangent() -> None:
    @tinyfn.custom_jvp
    def double(x: Any) -> Any:
        return x + x

    double.defjvp(lambda primals, tangents: (double(*primals), double(*tangents)))
    close(grad(lambda x: double(x) ** 2)(array(3.0)), 24.0)
    close(grad(grad(lambda x: double(x) ** 2))(array(3.0)), 8.0)
    close(tinyfn.jvp(tinyfn.jit(grad(lambda x: double(x) ** 2)), (array(3.0),), (array(1.0),))[1], 8.0)
    close(vmap(grad(lambda x: double(x) ** 2))(array([3.0, 1.0])), [24.0, 8.0])


def test_closed_over_arrays_are_not_copied() -> None:
    big = array(np.arange(1000.0))

    @tinyfn.custom_jvp
    def f(x: Any) -> Any:
        return x * big

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * big))
    graph = tinyfn.make_graph(grad(lambda x: total(f(x))))(array(np.ones(1000)))
    assert sum(captured is big for captured in graph.captured) == 1 and len(graph.captured) == 1


def test_rules_look_at_values_where_these_are_known() -> None:
    @tinyfn.custom_jvp
    def f(x: Any) -> Any:
        return x if x > 0 else -x

    @f.defjvp
    def _rule(primals: Any, tangents: Any) -> Any:
        return f(*primals), tangents[0] * (10.0 if primals[0] > 0 else -20.0)

    close(grad(f)(array(2.0)), 10.0)
    close(grad(f)(array(-2.0)), -20.0)


def test_straight_through_and_clipped_gradients() -> None:
    @tinyfn.custom_vjp
    def clipped(x: Any) -> Any:
        return x

    clipped.defvjp(lambda x: (x, None), lambda _, ct: (prims.min(prims.max(ct, array(-1.0)), array(1.0)),))
    close(grad(lambda x: clipped(x) * 100.0)(array(2.0)), 1.0)
    close(
        vmap(grad(lambda x, s: clipped(x) * s), in_axes=(None, 0))(array(2.0), array([0.5, -3.0])),
        [0.5, -1.0],
    )

    @tinyfn.custom_jvp
    def rounded(x: Any) -> Any:
        return prims.round(x)

    rounded.defjvp(lambda primals, tangents: (rounded(*primals), tangents[0]))
    value, gradient = tinyfn.value_and_grad(lambda x: rounded(x) ** 2)(array(1.6))
    assert (float(value), float(gradient)) == (4.0, 4.0)


def test_log1pexp_as_documented_by_jax() -> None:
    @tinyfn.custom_jvp
    def log1pexp(x: Any) -> Any:
        return prims.log(1.0 + prims.exp(x))

    @log1pexp.defjvp
    def _rule(primals: Any, tangents: Any) -> Any:
        return log1pexp(*primals), (1.0 - 1.0 / (1.0 + prims.exp(primals[0]))) * tangents[0]

    close(grad(log1pexp)(array(100.0)), 1.0)
    close(grad(grad(log1pexp))(array(0.0)), 0.25)
    close(jit(vmap(grad(log1pexp)))(array([0.0, 100.0])), [0.5, 1.0])


def test_in_a_python_loop_under_jit() -> None:
    (x,) = normal(0, (3,))
    f = power_vjp()

    def looped(x: Any) -> Any:
        for _ in range(3):
            x = f(prims.sin(x))
        return total(x)

    def expected(v: float) -> float:
        derivative = 1.0
        for _ in range(3):
            derivative *= 30 * np.sin(v) ** 2 * np.cos(v)
            v = np.sin(v) ** 3
        return derivative

    close(jit(grad(looped))(array(x)), [expected(v) for v in x])


def test_as_methods() -> None:
    class Model:
        def __init__(self) -> None:
            self.factor = 3.0

        @tinyfn.custom_jvp
        def plain(x: Any) -> Any:
            return x

        def __call__(self, x: Any) -> Any:
            f = tinyfn.custom_jvp(lambda x: x * self.factor)
            f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * 100.0 * self.factor))
            return f(x)

    close(grad(Model())(array(2.0)), 300.0)
    assert Model.plain.__name__ == "plain"


def test_results_keep_their_dtypes_and_weak_types() -> None:
    f = power_jvp()
    assert jit(f)(2.0).weak_type
    half = array([1.0, 2.0], "float16")
    assert vmap(grad(f))(half).dtype == np.float16
    same(grad(lambda x: total(f(x)))(half), np.array([30.0, 120.0], np.float16))


def test_rules_are_not_run_for_integers() -> None:
    f = tinyfn.custom_jvp(lambda x: x**2)
    f.defjvp(lambda p, t: (p[0] ** 2, 2 * p[0] * t[0]))
    g = tinyfn.custom_vjp(lambda x: x**2)
    g.defvjp(lambda x: (x**2, x), lambda x, ct: (2 * x * ct,))
    for function in (f, g):
        assert int(tinyfn.jit(function)(3)) == 9
        assert tinyfn.vmap(function)(np.arange(3)).tolist() == [0, 1, 4]
