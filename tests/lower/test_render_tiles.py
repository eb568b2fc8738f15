"""What is walked along one range here and along another there: tiles of all edges, dtypes and orders of axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.lower.compiled import run_kernel
from tinyfn.lower.group import group
from tinyfn.lower.nest import Kernel
from tinyfn.lower.opts import OptOps
from tinyfn.trace.uop import UOp


def check(function: Any, *values: np.ndarray, tiled: bool = True, pieces: int = 1, **facts: int) -> None:
    graph = tinyfn.jit(function).graph(*map(tnp.asarray, values))
    (step,) = group(graph)
    assert isinstance(step, Kernel)
    arrays: dict[UOp, np.ndarray] = dict(zip(graph.inputs, values, strict=True))
    code = run_kernel(step, arrays, pieces, **facts)
    assert tiled == any(opt.op is OptOps.LOCAL for opts in code.opts for opt in opts)
    for node, want in zip(graph.outputs, graph.run(list(values)), strict=True):
        np.testing.assert_array_equal(arrays[node], np.asarray(want))


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 50, shape).astype(dtype)


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize(
    "shape", [(16, 16), (64, 64), (128, 64), (17, 33), (70, 131), (200, 16), (16, 100), (65, 63)], ids=str
)
def test_tiles_with_edges(shape: tuple[int, int], pieces: int) -> None:
    n, m = shape
    check(lambda x, y: x.T + y, numbers(n, m), numbers(m, n), pieces=pieces)


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int8", "int64", "bool"])
def test_tiles_of_every_dtype(dtype: str, vector_bytes: int) -> None:
    from tinyfn.trace.dtype import canonical

    x, y = (numbers(n, m, dtype=canonical(dtype)) for n, m in ((41, 75), (75, 41)))
    function = (lambda x, y: x.T & y) if dtype == "bool" else (lambda x, y: x.T + y)
    check(function, x, y, vector_bytes=vector_bytes)


def test_other_orders_of_axes() -> None:
    x = numbers(5, 40, 33)
    for order in [(0, 2, 1), (2, 0, 1), (2, 1, 0), (1, 2, 0)]:
        check(lambda x: x.transpose(order) * 2, x, tiled=order[-1] != 0)  # the first axis is a short one
    check(lambda x: x.transpose((1, 0, 2)) * 2, x, tiled=False)


def test_several_arrays_and_outputs() -> None:
    check(lambda x, y, z: (x.T + y * z.T, x.T * 2, y + 1), numbers(50, 40), numbers(40, 50), numbers(50, 40))


def test_short_axes_are_not_tiled() -> None:
    check(lambda x: x.T + 1, numbers(300, 5), tiled=False)
    check(lambda x: x.T + 1, numbers(5, 300), tiled=False)


@pytest.mark.parametrize("shape", [(128, 256), (200, 256), (100, 250)], ids=str)
def test_tiles_of_what_is_large(shape: tuple[int, int]) -> None:
    n, m = shape
    check(lambda x, y: x.T + y, numbers(n, m), numbers(m, n), l3_bytes=0)


@pytest.mark.parametrize("shape", [(64, 48), (70, 131)], ids=str)
def test_tiles_of_much_work_are_loops_over_rows(shape: tuple[int, int]) -> None:
    n, m = shape

    def much(x: Any, y: Any) -> Any:
        z = x.T * y
        for k in range(40):
            z = z * y + k
        return z

    check(much, numbers(n, m), numbers(m, n) % 2)
