"""Grouping into loop nests, and what nests mean: interpreted and compiled, they give what the graph gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.lower.compiled import run_kernel
from tinyfn.lower import interpret, nest
from tinyfn.lower.group import group
from tinyfn.trace.graph import Graph
from tinyfn.trace.uop import UOp


def center(x: Any) -> Any:
    return x - x.mean(-1, keepdims=True)


def layer_norm(x: Any) -> Any:
    y = center(x)
    return y / tnp.sqrt((y * y).mean(-1, keepdims=True) + 1e-5)


def normalize(x: Any) -> Any:
    shifted = x - x.max(-1, keepdims=True) + 1
    return shifted / (shifted * shifted).sum(-1, keepdims=True)


def casts(x: Any) -> Any:
    return (
        (x * 10).astype("int8"), x > 0, x.astype("bfloat16") * 2, x.astype("float16") + 1, (x * 3).astype("int32") // 4,
        x.astype("float64") * 2, (x * 10).astype("int16") % 7, (x > 0) & (x < 1), (x * 4).astype("uint8") >> 1,
    )  # fmt: skip


def picked_loss(x: Any) -> Any:
    """The mean negative log-likelihood of the class 0 or 1 in each row."""
    shifted = x - x.max(-1, keepdims=True)
    logs = shifted - tnp.log(tnp.exp(shifted).sum(-1, keepdims=True))
    labels = (tnp.arange(x.shape[0]) % min(2, x.shape[1]))[:, None]
    return -tnp.take_along_axis(logs, labels, -1).mean()


def concatenate_cut(x: Any) -> Any:
    flat = tnp.concatenate([x.reshape(-1), (x * 2).reshape(-1)])
    new = tnp.sqrt(flat * flat + 1) * 3
    return new, new[: x.size].reshape(x.shape), new[x.size :].reshape(x.shape)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "layer_norm": layer_norm,
    "normalize": normalize,
    "casts": casts,
    "columns": lambda x: (x.sum(0), x * 2, x.max(0) + 1),
    "transpose_add": lambda x: x.T + 1,
    "sum_all": lambda x: (x * x).sum(),
    "where": lambda x: tnp.where(x > 0, x, 0.5).min(-1),
    "reverse": lambda x: x[::-1, ::2] + 1,
    "flat": lambda x: x.reshape(-1) * 2,
    "flat_reverse": lambda x: x.reshape(-1)[::-1].reshape(x.shape[::-1])[::-1] * 2,
    "regroup": lambda x: x.reshape(-1)[: x.size // 2 * 2].reshape(-1, 2).sum(-1),
    "iota": lambda x: x * tnp.arange(x.shape[1]) + tnp.arange(x.shape[0])[:, None],
    "outer": lambda x: x[0][:, None] * x[0][None, :] + x[0],
    "bools": lambda x: ((x > 0).all(-1), (x > 0).any(0), (x > 0).max(-1), (x > 0).min(0)),
    "integers": lambda x: (x * 5).astype("int32").sum(-1),
    "half": lambda x: x.astype("float16").sum(-1),
    "bfloat": lambda x: x.astype("bfloat16").max(-1),
    "unsorted_axes": lambda x: (x[:, None, :] * x[:, :, None]).sum((2, 0)),
    "pad": lambda x: tnp.pad(x, ((1, 2), (0, 3)), constant_values=2.0) * 2,
    "pad_then_sum": lambda x: tnp.pad(x * x + 1, ((1, 2), (0, 3))).sum(-1),
    "concatenate": lambda x: tnp.concatenate([x, x * 2, x[:, :1]], axis=1) + 1,
    "concatenate_rows": lambda x: tnp.concatenate([x + 1, x * 2], axis=0).sum(-1),
    "concatenate_cut": lambda x: concatenate_cut(x),
    "gather_rows": lambda x: x[tnp.arange(5) % x.shape[0]] * 2,
    "gather_elements": lambda x: tnp.take_along_axis(x, tnp.argsort(x, -1)[:, :1], -1) + 1,
    "picked_loss": lambda x: picked_loss(x),
    "update": lambda x: x.at[0].set(x[-1] + 1),
    "matmul": lambda x: x @ x.T,
    "matmul_fused": lambda x: tnp.maximum(tnp.tanh(x) @ (x.T * 2) + x[:, 0], 0),
    "both_means": lambda x: (x - x.mean()) * 2,
    "random": lambda x: tinyfn.random.uniform(tinyfn.random.key(0), x.shape) + x,
    "product": lambda x: tnp.clip(x, 0.5, 1.5).prod(-1),
}
SHAPES = [(1, 1), (4, 5), (7, 16), (33, 65), (3, 200), (2, 1), (1, 64), (128, 40)]


def lowered(function: Callable[[Any], Any], x: np.ndarray) -> tuple[Graph, list[np.ndarray]]:
    """The simplified graph of a function of one array, and the values of its inputs."""
    graph = tinyfn.jit(function).graph(tnp.asarray(x))
    return graph, [x, *[array.value for array in graph.captured]]


def agree(got: list[Any], want: list[Any]) -> None:
    for a, b in zip(got, want, strict=True):
        b = np.asarray(b)
        assert a.dtype == b.dtype and a.shape == b.shape
        tolerance = {2: 1e-2, 4: 3e-5, 8: 1e-12}.get(b.dtype.itemsize, 0) if b.dtype.kind not in "iub" else 0
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_nests_mean_what_the_graph_means(name: str, shape: tuple[int, int]) -> None:
    graph, values = lowered(FUNCTIONS[name], np.random.default_rng(0).normal(size=shape).astype(np.float32))
    agree(interpret.run(graph, values), graph.run(values))


def compiled(
    graph: Graph, values: list[np.ndarray], vector_bytes: int = 64, pieces: int = 1
) -> list[np.ndarray]:
    """The graph's outputs by compiled kernels, each run in so many pieces."""
    arrays: dict[UOp, Any] = {n: np.ascontiguousarray(v) for n, v in zip(graph.inputs, values, strict=True)}
    for step in group(graph):
        if isinstance(step, nest.Host):
            result = interpret.step(step.node)(*[arrays[s] for s in step.node.src])
            arrays[step.node] = np.ascontiguousarray(result)
        elif isinstance(step, nest.View):
            arrays[step.node] = arrays[step.source].reshape(step.node.shape)
        else:
            run_kernel(step, arrays, pieces, vector_bytes=vector_bytes)
    return [arrays[node] for node in graph.outputs]


@pytest.mark.parametrize("shape", [(1, 1), (4, 5), (33, 65), (3, 200), (128, 40)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_nests_give_what_the_graph_gives(name: str, shape: tuple[int, int]) -> None:
    graph, values = lowered(FUNCTIONS[name], np.random.default_rng(0).normal(size=shape).astype(np.float32))
    agree(compiled(graph, values), graph.run(values))


@pytest.mark.parametrize("vector_bytes", [8, 16, 32])
def test_vectors_of_other_widths_agree(vector_bytes: int) -> None:
    for name in ("layer_norm", "casts", "columns", "transpose_add"):
        graph, values = lowered(
            FUNCTIONS[name], np.random.default_rng(0).normal(size=(5, 23)).astype(np.float32)
        )
        agree(compiled(graph, values, vector_bytes), graph.run(values))


@pytest.mark.parametrize("name", ["layer_norm", "columns", "flat", "sum_all", "transpose_add"])
def test_the_bits_do_not_depend_on_the_division_into_pieces(name: str) -> None:
    graph, values = lowered(
        FUNCTIONS[name], np.random.default_rng(0).normal(size=(37, 130)).astype(np.float32)
    )
    whole = compiled(graph, values)
    for pieces in (2, 3, 7):
        for a, b in zip(whole, compiled(graph, values, pieces=pieces), strict=True):
            assert a.tobytes() == b.tobytes()


def test_special_values_survive() -> None:
    x = np.array([[np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3e38, -3e38] * 3], np.float32)
    functions = [
        lambda x: x * 0, lambda x: x - x, lambda x: x + 0.0, lambda x: -x, lambda x: x.max(-1), lambda x: x == x,
        lambda x: x.astype("int32"), lambda x: x.astype("bfloat16"), lambda x: tnp.maximum(x, 1.0),
    ]  # fmt: skip
    for f in functions:
        graph, values = lowered(f, x)
        for a, b in zip(compiled(graph, values), graph.run(values), strict=True):
            a, b = a.astype(np.float64), np.asarray(b).astype(np.float64)
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(np.signbit(a[~np.isnan(a)]), np.signbit(b[~np.isnan(b)]))


@pytest.mark.parametrize(
    "function, kernels, passes",
    [
        (layer_norm, 1, [3]),
        (normalize, 1, [3]),
        (center, 1, [2]),
        (lambda x: x * 2 + 1, 1, [1]),
        (lambda x: (x.T + x) * 2, 1, [1]),
    ],
)
def test_rows_are_one_kernel(function: Callable[[Any], Any], kernels: int, passes: list[int]) -> None:
    graph, _ = lowered(function, np.ones((8, 8), np.float32))
    made = group(graph)
    assert len(made) == kernels
    assert [
        len(part.passes) for step in made if isinstance(step, nest.Kernel) for part in step.parts
    ] == passes


def test_elementwise_work_is_one_flat_range() -> None:
    graph, _ = lowered(lambda x: x * 2 + 1, np.ones((1000, 10), np.float32))
    (step,) = group(graph)
    assert isinstance(step, nest.Kernel) and [nest.size_of(r) for r in step.parts[0].outer] == [10_000]
