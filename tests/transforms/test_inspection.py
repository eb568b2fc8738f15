"""eval_shape, make_graph and printed graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyfn
from tests.transforms.programs import array, close, same, total
from tinyfn.trace import prims
from tinyfn.trace.prims.extern import HostFunction
from tinyfn.trace.show import run_source

ShapeDtypeStruct = tinyfn.ShapeDtypeStruct


def run_printed(graph: tinyfn.Graph, *args: Any) -> Any:
    """Print the graph, make a function of what was printed, and call it."""
    text = str(graph)
    name = text.rstrip().rsplit("\ndef ", 1)[-1].removeprefix("def ").split("(", 1)[0]
    return run_source(text, name)(*args, *graph.captured)


def test_eval_shape_gives_shapes_and_dtypes_and_computes_nothing() -> None:
    def never(x: np.ndarray) -> np.ndarray:
        raise AssertionError("computed")

    host = HostFunction("never", never, lambda x: (x.dtype, (*x.shape, 2)))

    def f(p: Any, n: Any) -> Any:
        return {"host": prims.extern(p["x"], function=host), "sum": total(p["x"]) * n, "none": None}

    result = tinyfn.eval_shape(f, {"x": ShapeDtypeStruct((3,), "float16")}, 2)
    assert result == {
        "host": ShapeDtypeStruct((3, 2), "float16"),
        "sum": ShapeDtypeStruct((), "float16"),
        "none": None,
    }


def test_eval_shape_takes_anything_with_a_shape_and_a_dtype() -> None:
    for argument in (array([1.0]), np.ones(1), ShapeDtypeStruct((1,), np.float64)):
        assert tinyfn.eval_shape(prims.sin, argument).dtype == np.float64
    assert tinyfn.eval_shape(lambda x: x, 1.0) == ShapeDtypeStruct((), "float32")


def test_shape_dtype_structs() -> None:
    s = ShapeDtypeStruct([2, 3], "bfloat16")
    assert (s.shape, s.ndim, s.size, s.dtype.name) == ((2, 3), 2, 6, "bfloat16")
    assert repr(s) == "ShapeDtypeStruct(shape=(2, 3), dtype=bfloat16)"
    assert s == ShapeDtypeStruct((2, 3), "bfloat16") and hash(s) == hash(ShapeDtypeStruct((2, 3), "bfloat16"))
    assert s != ShapeDtypeStruct((2, 3), "float32") and s != (2, 3)


def test_eval_shape_of_transformed_functions() -> None:
    x = ShapeDtypeStruct((3,), "float64")
    assert tinyfn.eval_shape(tinyfn.hessian(lambda x: total(x**3)), x).shape == (3, 3)
    assert tinyfn.eval_shape(tinyfn.vmap(prims.sin, out_axes=0), x).shape == (3,)
    assert tinyfn.eval_shape(tinyfn.jit(tinyfn.grad(lambda x: total(x))), x) == x


def test_make_graph_names_its_inputs_after_the_arguments() -> None:
    def loss(params: Any, x: Any, *rest: Any, scale: Any) -> Any:
        return total(params["w"] * x * scale + rest[0])

    graph = tinyfn.make_graph(loss)({"w": np.ones(2)}, np.ones(2), np.ones(2), scale=2.0)
    assert [node.arg.name for node in graph.arguments] == ["params['w']", "x", "rest[0]", "scale"]
    assert "def loss(" in str(graph) and "params" in str(graph)


def test_printed_graphs_of_constants_of_every_kind_run() -> None:
    def f(x: Any) -> Any:
        yes = prims.where(x > 0, x, -x)
        return (
            yes * 0.1 + float("inf"),
            x * float("nan"),
            (x.astype("int64") + 2**40),
            x.astype("bfloat16") * 3.0,
            True,
        )

    x = array([-1.5, 2.0])
    for found, expected in zip(run_printed(tinyfn.make_graph(f)(x), x), f(x), strict=True):
        same(found, expected)


@pytest.mark.parametrize("value", [0.1, -0.0, 1e-45, float("inf"), float("-inf"), float("nan"), 1 / 3])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_printed_constants_keep_their_bits(value: float, dtype: str) -> None:
    def f(x: Any) -> Any:
        return x * value

    x = array(1.0, dtype)
    (found,) = run_printed(tinyfn.make_graph(f)(x), x)
    same(found, f(x))


def test_printed_graphs_with_graphs_inside_run() -> None:
    @tinyfn.jit
    def inner(x: Any) -> Any:
        return prims.sin(x), x + 1.0

    @tinyfn.custom_jvp
    def custom(x: Any) -> Any:
        return x * x

    custom.defjvp(lambda primals, tangents: (custom(*primals), 2.0 * primals[0] * tangents[0]))

    def f(x: Any) -> Any:
        a, b = inner(x)
        return tinyfn.remat(lambda y: y * a)(b) + custom(inner(a)[1])

    x = array(0.5)
    for function in (f, tinyfn.grad(f), tinyfn.vmap(f, in_axes=None, axis_size=2)):
        (found,) = run_printed(tinyfn.make_graph(function)(x).check(), x)
        close(found, function(x))


def test_printed_names_do_not_collide() -> None:
    def sin(x: Any, v1: Any, const: Any, lambda_: Any) -> Any:
        return prims.sin(x) + prims.sin(v1) + const * 2.0 + lambda_

    args = [array(float(i)) for i in range(4)]
    (found,) = run_printed(tinyfn.make_graph(sin)(*args), *args)
    same(found, sin(*args))


def test_the_graph_of_a_jitted_function_is_simplified() -> None:
    f = tinyfn.jit(lambda x, n: x * 1.0 + 0.0 * n, static_argnums=1)
    graph = f.graph(array([1.0, 2.0]), 3)
    assert isinstance(graph, tinyfn.Graph)
    (value,) = graph.run([np.array([1.0, 2.0])])
    close(value, [1.0, 2.0])


def test_graphs_describe_themselves() -> None:
    graph = tinyfn.make_graph(lambda x: total(x))(np.ones((2, 3), np.float32))
    assert repr(graph) == "<Graph <lambda>(float32[2,3]) -> (float32[])>"


def test_check_finds_what_is_wrong_with_a_graph() -> None:
    graph = tinyfn.make_graph(lambda x, y: x * y)(array(1.0), array(2.0))
    x, y = graph.inputs
    with pytest.raises(TypeError, match="is used but is not one of the graph's inputs"):
        tinyfn.Graph([x], graph.outputs).check()
    with pytest.raises(TypeError, match="distinct input nodes"):
        tinyfn.Graph([x, x, y], graph.outputs).check()
    with pytest.raises(TypeError, match="captured more arrays"):
        tinyfn.Graph([x, y], graph.outputs, [array(1.0)] * 3).check()
