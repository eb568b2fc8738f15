"""What goes wrong says where (the user's file and line), in which function, because of which argument, and what to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyfn
from tests.transforms.programs import array, total
from tinyfn.trace import prims

grad, jit, vmap, jvp, vjp = tinyfn.grad, tinyfn.jit, tinyfn.vmap, tinyfn.jvp, tinyfn.vjp


def line_of(function: Callable[..., Any], code: str) -> int:
    """The line of this file on which the function has the given code."""
    lines, start = inspect.getsourcelines(function)
    return start + next(i for i, line in enumerate(lines) if code in line)


def message(error: type[Exception], call: Callable[[], Any], *parts: str) -> str:
    """The message of the error that the call raises, which must contain all parts."""
    with pytest.raises(error) as raised:
        call()
    text = str(raised.value)
    for part in parts:
        assert part in text, f"{part!r} is not in {text!r}"
    return text


# Values that are not known.


def branch(x: Any, flag: Any) -> Any:
    y = flag * 2.0
    if y > 0:
        return x
    return -x


def branch_on_tree(options: Any) -> Any:
    if options["scale"][0] > options["limit"]:
        return options["limit"]
    return options["scale"][0]


def test_conditions_under_jit() -> None:
    here = f"{__file__}:{line_of(branch, 'if y > 0')} (in branch)"
    message(
        tinyfn.TracerBoolConversionError, lambda: jit(branch)(array(1.0), array(2.0)),
        here, "jit of branch", "`flag`", "bool[]", "tinyfn.numpy.where", "static_argnames",
    )  # fmt: skip
    text = message(
        tinyfn.TracerBoolConversionError,
        lambda: jit(branch_on_tree)({"scale": [array(1.0)], "limit": array(2.0)}),
    )
    assert "`options['limit']`" in text and "`options['scale'][0]`" in text


def test_conditions_under_vmap() -> None:
    here = f"{__file__}:{line_of(branch, 'if y > 0')} (in branch)"
    text = message(
        tinyfn.TracerBoolConversionError, lambda: vmap(branch)(array([1.0]), array([2.0])),
        here, "vmap of branch", "`flag`", "lane", "in_axes",
    )  # fmt: skip
    assert "jit" not in text


def test_conditions_of_an_inner_function_blame_the_outer_argument() -> None:
    def outer(data: Any) -> Any:
        return grad(lambda x: branch(x, data))(data)

    message(
        tinyfn.TracerBoolConversionError,
        lambda: jit(outer)(array(1.0)),
        "jit of outer",
        "`data`",
        "(in branch)",
    )
    message(
        tinyfn.TracerBoolConversionError,
        lambda: grad(jit(branch))(array(1.0), array(1.0)),
        "jit of branch",
        "`flag`",
    )
    message(
        tinyfn.TracerBoolConversionError, lambda: vmap(tinyfn.remat(branch))(array([1.0]), array([1.0])),
        "vmap of branch", "`flag`",
    )  # fmt: skip


@pytest.mark.parametrize(
    "use, error",
    [
        (lambda x: range(x), tinyfn.TracerIntegerConversionError),
        (lambda x: [1, 2][x], tinyfn.TracerIntegerConversionError),
        (lambda x: int(x), tinyfn.ConcretizationError),
        (lambda x: float(x), tinyfn.ConcretizationError),
        (lambda x: complex(x), tinyfn.ConcretizationError),
        (lambda x: x.item(), tinyfn.ConcretizationError),
        (lambda x: x.tolist(), tinyfn.ConcretizationError),
        (lambda x: np.asarray(x), tinyfn.TracerArrayConversionError),
        (lambda x: bool(x), tinyfn.TracerBoolConversionError),
        (lambda x: x and x, tinyfn.TracerBoolConversionError),
        (lambda x: f"{x:.3f}", tinyfn.ConcretizationError),
    ],
)
def test_every_way_to_ask_for_a_value(use: Callable[[Any], Any], error: type[Exception]) -> None:
    for transform in (jit, vmap, tinyfn.make_graph):
        argument = array([1], "int32") if transform is vmap else array(1, "int32")
        message(error, lambda t=transform, a=argument: t(use)(a), __file__, "`x`", "int32[]", "Instead: ")


def test_tracer_errors_are_type_errors_of_one_family() -> None:
    for error in (
        tinyfn.TracerBoolConversionError, tinyfn.TracerArrayConversionError, tinyfn.TracerIntegerConversionError,
        tinyfn.ConcretizationError, tinyfn.UnexpectedTracerError,
    ):  # fmt: skip
        assert issubclass(error, tinyfn.TracerError) and issubclass(error, TypeError)


# Leaks.


@pytest.mark.parametrize("transform", [jit, grad, lambda f: lambda x: vmap(f)(np.ones(2)), tinyfn.make_graph])
def test_tracers_that_outlive_their_function(transform: Callable[..., Any]) -> None:
    kept: list[Any] = []

    def leaky(x: Any) -> Any:
        kept.append(x * 2.0)
        return x

    transform(leaky)(1.0)
    for use in (
        lambda: kept[0] + 1.0, lambda: jit(lambda y: y + kept[0])(1.0), lambda: float(kept[0]),
        lambda: grad(lambda y: kept[0] * y)(1.0),
        lambda: jit(lambda y: y)(kept[0]), lambda: jit(lambda: kept[0])(), lambda: bool(kept[0]), lambda: np.asarray(kept[0]),
    ):  # fmt: skip
        message(
            tinyfn.UnexpectedTracerError, use, __file__, "of leaky", "return it from the function instead"
        )
    assert "Tracer(" in repr(kept[0])


def test_linear_functions_that_outlive_their_trace() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(vjp(prims.sin, x)[1])
        return kept[0](x)[0]

    grad(f)(array(1.0))
    message(tinyfn.UnexpectedTracerError, lambda: kept[0](array(1.0)), "after that function had ended")


# Results and arguments of derivatives.


def test_results_that_are_not_scalars() -> None:
    def vector(x: Any) -> Any:
        return x * 2.0

    for transform, name in ((grad, "grad"), (tinyfn.value_and_grad, "value_and_grad")):
        message(
            TypeError,
            lambda t=transform: t(vector)(array([1.0, 2.0])),
            f"{name} of vector",
            "float64[2]",
            ".sum()",
            "jacrev",
            __file__,
        )
    message(TypeError, lambda: grad(vector)(array([1.0])), "float64[1]", ".reshape(())")
    message(TypeError, lambda: grad(lambda x: (x, x))(array(1.0)), "must return one scalar", "has_aux=True")
    message(TypeError, lambda: grad(lambda x: None)(array(1.0)), "must return one scalar")
    message(TypeError, lambda: grad(lambda x: x > 0)(array(1.0)), "must return a float", "bool[]")
    message(TypeError, lambda: grad(lambda x: {"a": "text"})(array(1.0)), "returned a str at result['a']")


def test_integer_arguments() -> None:
    message(
        TypeError,
        lambda: grad(lambda x: x * 1.0)(3),
        "argument `x` is int32[]",
        "no derivative",
        "astype",
        "allow_int",
    )
    message(TypeError, lambda: grad(lambda p: p["a"])({"a": array(1, "int8")}), "argument `p['a']` is int8[]")
    message(TypeError, lambda: jvp(lambda n: n * 2.0, (3,), (1.0,)), "`n` is int32[]", "no derivative")
    for jacobian in (tinyfn.jacfwd, tinyfn.jacrev):
        message(
            TypeError,
            lambda j=jacobian: j(lambda x: {"n": x > 0, "y": x})(array(1.0)),
            "result['n'] is bool[]",
            "has_aux",
        )


def test_argnums() -> None:
    message(
        ValueError, lambda: grad(lambda x: x, 1)(array(1.0)), "argnums of <lambda> includes 1", "1 positional"
    )
    message(
        ValueError, lambda: grad(lambda x, y: x, (0, -2))(array(1.0), array(1.0)), "lists a position twice"
    )
    message(TypeError, lambda: grad(lambda x: x, "x")(array(1.0)), "must be integers")
    message(TypeError, lambda: grad(lambda x: x, True)(array(1.0)), "must be integers")
    message(TypeError, lambda: grad(3.0), "takes a function, not float")
    message(TypeError, lambda: jit(3.0), "takes a function, not float")


def test_arguments_that_are_not_arrays() -> None:
    message(
        TypeError, lambda: grad(lambda p: 1.0)({"name": "text"}), "argument `p['name']` is a str", __file__
    )
    message(
        TypeError, lambda: jit(lambda x, mode: x)(1.0, "fast"), "argument `mode` is a str", "static_argnames"
    )
    message(TypeError, lambda: jit(lambda *args: 1.0)(1.0, "fast"), "argument `args[1]` is a str")


def test_has_aux_without_aux() -> None:
    for transform in (grad, tinyfn.jacfwd, tinyfn.jacrev):
        message(
            TypeError, lambda t=transform: t(lambda x: x, has_aux=True)(array(1.0)), "has_aux=True", "a pair"
        )


def test_tangents_that_do_not_match() -> None:
    x = array([1.0, 2.0])

    def f(p: Any) -> Any:
        return p["x"]

    message(
        TypeError,
        lambda: jvp(f, ({"x": x},), ({"x": array([1.0])},)),
        "jvp of f",
        "`p['x']`",
        "float64[2]",
        "float64[1]",
        __file__,
    )
    message(TypeError, lambda: jvp(f, ({"x": x},), ({"x": array([1.0, 2.0], "float32")},)), "float32[2]")
    message(TypeError, lambda: jvp(f, ({"x": x},), ({"y": x},)), "the structure")
    message(TypeError, lambda: jvp(f, ({"x": x},), ({"x": x}, x)), "the structure")
    message(TypeError, lambda: jvp(f, {"x": x}, {"x": x}), "as tuples")
    _, linear = tinyfn.linearize(f, {"x": x})
    message(TypeError, lambda: linear({"x": array(1.0)}), "linear function of linearize", "`p['x']`")
    message(TypeError, lambda: linear(), "the structure")


def test_cotangents_that_do_not_match() -> None:
    _, pullback = vjp(lambda x: {"a": x, "b": [x]}, array([1.0, 2.0]))
    good = array([1.0, 2.0])
    message(TypeError, lambda: pullback(good), "the structure", "'a'")
    message(
        TypeError,
        lambda: pullback({"a": good, "b": [array([1.0])]}),
        "the cotangent['b'][0] must be float64[2]",
        "float64[1]",
    )
    message(TypeError, lambda: pullback({"a": good, "b": [array([1.0, 2.0], "float16")]}), "float16[2]")


# vmap.


def test_mapped_axes() -> None:
    def f(x: Any, y: Any, *, scale: Any = 1.0) -> Any:
        return x

    a, b = array(np.ones((2, 3))), array(np.ones(3))
    message(
        ValueError, lambda: vmap(f)(a, b),
        "vmap of f", "axis 0 of `x` has size 2", "axis 0 of `y` has size 3", __file__,
    )  # fmt: skip
    message(
        ValueError, lambda: vmap(f, in_axes=(1, 0))(a, b, scale=array([1.0])), "axis 0 of `scale` has size 1"
    )
    message(ValueError, lambda: vmap(f, in_axes=(0, 1))(a, b), "argument `y` is float64[3] and has no axis 1")
    message(ValueError, lambda: vmap(f, in_axes=(0, -2))(a, b), "no axis -2")
    message(ValueError, lambda: vmap(f)(1.0, b), "argument `x` is float32[] and has no axis 0")
    message(
        ValueError, lambda: vmap(f, in_axes=(0,))(a, b), "in_axes has 1 entries", "2 positional arguments"
    )
    message(ValueError, lambda: vmap(f, in_axes=(0, {"a": 0}))(a, {"b": b}), "in_axes does not fit", "'b'")
    message(ValueError, lambda: vmap(f, in_axes=None)(a, b), "no argument is mapped", "axis_size")
    message(
        ValueError, lambda: vmap(f, axis_size=5, in_axes=(0, None))(a, b), "axis_size is 5", "`x` has size 2"
    )
    message(TypeError, lambda: vmap(f, in_axes=1.5), "vmap of f: in_axes must be", "float")
    message(TypeError, lambda: vmap(f, in_axes=(0, "1"))(a, b), "in_axes has '1' for argument `y`", __file__)
    message(
        TypeError,
        lambda: vmap(f, out_axes="1")(a, a),
        "out_axes has '1'; an axis is an int, or None",
        __file__,
    )
    message(TypeError, lambda: vmap(f)(a, "text"), "argument `y` is a str", "None in in_axes", __file__)
    message(TypeError, lambda: vmap(3), "vmap takes a function, not int", __file__)
    message(TypeError, lambda: vmap(f, axis_size=2.0), "axis_size must be an int, not 2.0", __file__)
    message(ValueError, lambda: vmap(f, axis_size=-1), "axis_size -1 is negative", __file__)


def test_result_axes() -> None:
    x = array([1.0, 2.0])
    message(ValueError, lambda: vmap(lambda x: x, out_axes=None)(x), "differs from lane to lane", __file__)
    message(ValueError, lambda: vmap(lambda x: x, out_axes=1)(x), "out_axes 1", "float64[]", __file__)
    message(ValueError, lambda: vmap(lambda x: x, out_axes=(0, 0))(x), "out_axes does not fit the result")


# jit.


def test_static_and_donated_options() -> None:
    def f(x: Any, n: Any) -> Any:
        return x

    message(
        TypeError,
        lambda: jit(f, static_argnames="n")(1.0, [1]),
        "jit of f",
        "static argument `n` is a list",
        "tuple",
        __file__,
    )
    message(
        TypeError,
        lambda: jit(f, static_argnums=1)(1.0, np.ones(2)),
        "static argument `n` is float64[2]",
        "arrays are no settings",
    )
    message(TypeError, lambda: jit(f, static_argnums=1)(1.0, array(1.0)), "static argument `n`", "hash")
    message(ValueError, lambda: jit(f, static_argnums=2), "static_argnums has 2", "2 positional")
    message(ValueError, lambda: jit(f, static_argnames="m"), "static_argnames has 'm'", "x, n")
    message(ValueError, lambda: jit(f, donate_argnums=5), "donate_argnums has 5")
    message(ValueError, lambda: jit(f, static_argnums=1, donate_argnames="n"), "both static and donated")


def test_donated_arrays() -> None:
    f = jit(lambda x, y: x + y, donate_argnums=0)
    x, y = array([1.0]), array([2.0])
    message(ValueError, lambda: f(y, y), "donated is passed twice", __file__)
    f(x, y)
    for use in (
        lambda: x + 1.0,
        lambda: f(x, y),
        lambda: np.asarray(x),
        lambda: x.shape,
        lambda: grad(total)(x),
        lambda: str(x),
    ):
        message(tinyfn.DeletedArrayError, use, "donated", __file__)
    g = jit(lambda tree: tree[0] + tree[1], donate_argnums=0)
    message(ValueError, lambda: g((y, y)), "passed twice")
    assert not y.is_deleted()


# Custom rules.


def custom_jvp(rule: Callable[..., Any]) -> Callable[[], Any]:
    @tinyfn.custom_jvp
    def cube(x: Any) -> Any:
        return x * x * x

    cube.defjvp(rule)
    return lambda: grad(cube)(array(2.0))


def custom_vjp(forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[[], Any]:
    @tinyfn.custom_vjp
    def cube(x: Any) -> Any:
        return x * x * x

    cube.defvjp(forward, backward)
    return lambda: grad(cube)(array(2.0))


def test_jvp_rules_of_the_wrong_form() -> None:
    message(
        TypeError,
        custom_jvp(lambda p, t: t[0]),
        "the jvp rule of cube must return a pair (value, tangent), not Tracer",
    )
    message(
        TypeError,
        custom_jvp(lambda p, t: (p[0], [t[0]])),
        "the jvp rule of cube returned a tangent with the structure",
    )
    message(
        TypeError,
        custom_jvp(lambda p, t: (p[0], array([1.0]))),
        "the jvp rule of cube",
        "float64[1]",
        "float64[]",
    )
    f = tinyfn.custom_jvp(lambda x: x)
    message(TypeError, lambda: grad(f)(1.0), "has no rule yet", "defjvp", __file__)


def test_vjp_rules_of_the_wrong_form() -> None:
    good = lambda x: (x, x)
    message(
        TypeError, custom_vjp(lambda x: x, lambda r, g: (g,)), "the forward rule of cube must return a pair"
    )
    message(
        TypeError,
        custom_vjp(lambda x: ((x, x), x), lambda r, g: (g,)),
        "the forward rule of cube returned a value",
    )
    message(
        TypeError,
        custom_vjp(good, lambda r, g: g),
        "the backward rule of cube must return a tuple",
        "not Tracer",
    )
    message(
        TypeError,
        custom_vjp(good, lambda r, g: (g, g)),
        "each of its 1 differentiated arguments, not 2 results",
    )
    message(TypeError, custom_vjp(good, lambda r, g: ([g],)), "the cotangent of argument 0 has the structure")
    message(
        TypeError,
        custom_vjp(good, lambda r, g: (array([1.0]),)),
        "argument 0 is float64[1], but the argument is float64[]",
    )
    f = tinyfn.custom_vjp(lambda x: x)
    message(TypeError, lambda: grad(f)(1.0), "has no rules yet", "defvjp", __file__)


def test_forward_mode_of_a_custom_vjp_function() -> None:
    @tinyfn.custom_vjp
    def f(x: Any) -> Any:
        return x

    f.defvjp(lambda x: (x, None), lambda _, g: (g,))
    for use in (
        lambda: jvp(f, (1.0,), (1.0,)),
        lambda: tinyfn.jacfwd(f)(1.0),
        lambda: tinyfn.linearize(f, 1.0),
    ):
        message(TypeError, use, "forward mode", "custom_vjp function f", "custom_jvp")


def test_derivatives_by_what_a_custom_function_closes_over() -> None:
    def outer(w: Any) -> Any:
        f = tinyfn.custom_jvp(lambda x: x * w)
        f.defjvp(lambda p, t: (p[0] * w, t[0] * w))
        return f(array(1.0))

    message(
        TypeError,
        lambda: grad(outer)(array(2.0)),
        "an array that the function closes over",
        "pass the array as an argument",
    )


def test_errors_of_the_function_itself_come_through_unchanged() -> None:
    def broken(x: Any) -> Any:
        return {}["missing"]

    for transform in (
        jit,
        grad,
        tinyfn.remat,
        lambda f: jit(tinyfn.remat(f)),
        tinyfn.hessian,
        tinyfn.make_graph,
    ):
        with pytest.raises(KeyError, match="missing"):
            transform(broken)(array(1.0))
    with pytest.raises(KeyError, match="missing"):
        vmap(broken)(array([1.0]))
