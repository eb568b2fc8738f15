"""Graphs with symbolic dimensions: traced once, run at any size within bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyfn
from tinyfn.trace import prims
from tinyfn.trace.array import as_array
from tinyfn.trace.graph import Graph

n = tinyfn.Variable("n", 1, 64)


def struct(*shape: Any) -> tinyfn.ShapeDtypeStruct:
    return tinyfn.ShapeDtypeStruct(shape, np.float32)


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def softmax(x: Any) -> Any:
    spread = {"shape": x.shape, "axes": (0,)}
    e = prims.exp(x - prims.broadcast(prims.reduce_max(x, axes=(1,)), **spread))
    return e / prims.broadcast(prims.reduce_sum(e, axes=(1,)), **spread)


def loss(w: Any, x: Any) -> Any:
    y = softmax(prims.dot_general(x, w, contract=((1,), (0,)), batch_axes=((), ())))
    return prims.reduce_sum(prims.log(y) * 0.5, axes=(0, 1))


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_one_trace_runs_at_every_size(size: int) -> None:
    graph = tinyfn.make_graph(tinyfn.grad(loss))(struct(3, 5), struct(n, 3)).check()
    w, x = values(3, 5), values(size, 3)
    (got,) = graph.run([w, x])
    np.testing.assert_array_equal(got, np.asarray(tinyfn.grad(loss)(as_array(w), as_array(x))))


def test_shapes_are_computed_symbolically() -> None:
    def f(x: Any) -> Any:
        doubled = prims.concatenate(x, x, axis=0)
        return prims.reshape(doubled, shape=(doubled.shape[0] * 3,)), prims.transpose(x, permutation=(1, 0))

    flat, swapped = tinyfn.eval_shape(f, struct(n, 3))
    assert flat.shape == (6 * n,) and swapped.shape == (3, n)
    assert "float32[6*n]" in str(tinyfn.make_graph(f)(struct(n, 3)))


def test_vmap_and_jvp_of_a_symbolic_graph() -> None:
    graph = tinyfn.make_graph(tinyfn.vmap(softmax))(struct(n, 2, 3)).check()
    x = values(4, 2, 3)
    np.testing.assert_array_equal(
        graph.run([x])[0], np.stack([np.asarray(softmax(as_array(lane))) for lane in x])
    )
    assert isinstance(
        tinyfn.make_graph(lambda x, t: tinyfn.jvp(softmax, (x,), (t,)))(struct(n, 3), struct(n, 3)), Graph
    )


def test_sizes_must_agree_and_be_within_bounds() -> None:
    graph = tinyfn.make_graph(lambda x, y: x + y)(struct(n), struct(n))
    with pytest.raises(ValueError, match="n is 3 in y, but it is 2 elsewhere"):
        graph.run([values(2), values(3)])
    with pytest.raises(ValueError, match=r"must be in \[1, 64\]"):
        graph.run([values(65), values(65)])
    with pytest.raises(ValueError, match="size 5 where the graph has"):
        tinyfn.make_graph(lambda x, y: (x, y))(struct(n), struct(n + 1)).run([values(5), values(5)])


def test_different_dimensions_do_not_combine() -> None:
    m = tinyfn.Variable("m", 1, 64)
    with pytest.raises(ValueError, match="n and m"):
        tinyfn.make_graph(lambda x, y: x + y)(struct(n), struct(m))
