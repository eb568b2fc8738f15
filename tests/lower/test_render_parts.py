"""Kernels of several nests: each part computes what it would alone, whatever the pieces in which the points are run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.lower.compiled import run_kernel
from tinyfn.lower import interpret
from tinyfn.lower.codegen import generate
from tinyfn.lower.group import group
from tinyfn.lower.index import load
from tinyfn.lower.nest import Kernel, Nest, Pass, Reduce, Store, result
from tinyfn.lower.structure import structure
from tinyfn.lower.target import host_target
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import prims as p
from tinyfn.trace import scalar, sint
from tinyfn.trace.uop import UOp, input_node


def one_kernel(
    function: Callable[..., Any], *shapes: tuple[int, ...]
) -> tuple[Kernel, dict[UOp, np.ndarray]]:
    """All nests of a function as the parts of one kernel, and random values of its inputs."""
    rng = np.random.default_rng(0)
    values = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    graph = tinyfn.jit(function).graph(*map(tnp.asarray, values))
    parts = [
        part for step in group(graph) if isinstance(step, Kernel) for part in (*step.parts, *step.finish)
    ]
    return Kernel(tuple(parts)), dict(zip(graph.inputs, values, strict=True))


def agree(kernel: Kernel, arrays: dict[UOp, np.ndarray], **options: Any) -> str:
    """Run a kernel compiled and interpreted, compare all that it stores, and give its code."""
    want, got = dict(arrays), dict(arrays)
    for part in (*kernel.parts, *kernel.finish):
        interpret.run_nest(part, want)
    code = run_kernel(kernel, got, **options)
    for part in (*kernel.parts, *kernel.finish):
        for node in part.stored:
            np.testing.assert_allclose(got[node], want[node], rtol=2e-6, atol=1e-6)
    return code.ir


LEAVES = [(5,), (3, 7), (5,), (1,), (40, 129), (5,), (2, 3, 4), (3, 7), (1000,), (70_000,), (3,)]


@pytest.mark.parametrize("pieces", [1, 2, 3, 17])
def test_each_part_computes_what_it_would_alone(pieces: int) -> None:
    kernel, arrays = one_kernel(lambda *xs: [x * 2 + 1 for x in xs], *LEAVES)
    assert len(kernel.parts) == len(LEAVES)
    agree(kernel, arrays, pieces=pieces)


@pytest.mark.parametrize("pieces", [1, 5])
def test_parts_of_different_kinds(pieces: int) -> None:
    def function(x: Any, y: Any, z: Any) -> Any:
        shifted = x - x.max(-1, keepdims=True)
        return shifted / shifted.sum(-1, keepdims=True), y.sum(0), z * 2, (x.T + 1)

    kernel, arrays = one_kernel(function, (33, 17), (65, 40), (3, 5))
    assert len(kernel.parts) > 2
    agree(kernel, arrays, pieces=pieces)


def test_equal_parts_share_their_code() -> None:
    kernel, arrays = one_kernel(lambda *xs: [tnp.exp(x) + x for x in xs], *[(4, 9), (30,)] * 100)
    ir = agree(kernel, arrays, pieces=7)
    assert ir.count("define internal void @part") == 2
    assert structure(kernel.parts[0]).key == structure(kernel.parts[2]).key != structure(kernel.parts[1]).key


def test_parts_that_differ_in_which_arrays_are_the_same_do_not_share() -> None:
    kernel, arrays = one_kernel(lambda x, y, z, w: [x * y, z * z, w * w], (4,), (4,), (5,), (4,))
    agree(kernel, arrays)
    x_y, _, w_w = kernel.parts
    assert structure(x_y).key != structure(w_w).key


def test_a_large_part_beside_small_ones_is_divided() -> None:
    kernel, arrays = one_kernel(
        lambda x, y: [x * 2, (y - y.max(-1, keepdims=True))], (300_000,), (20, 20_000)
    )
    code = generate(kernel, host_target())
    assert code.points >= 3
    agree(kernel, arrays, pieces=code.points)


@pytest.mark.parametrize("parts", [1, 2])
def test_finish_runs_after_all_parts(parts: int) -> None:
    kernel, arrays = partial_sums(parts)
    ir = agree(kernel, arrays, pieces=3)
    assert "define void @finish(ptr %arguments)" in ir
    total = kernel.finish[-1].stored[0]
    after = dict(arrays)
    run_kernel(kernel, after)
    np.testing.assert_allclose(
        after[total], sum(a.astype(np.float64).sum() for a in arrays.values()), rtol=1e-5
    )


def partial_sums(parts: int) -> tuple[Kernel, dict[UOp, np.ndarray]]:
    """The sum of so many vectors: rows of them first, then the sums of their rows, then all of those."""
    rng = np.random.default_rng(0)
    arrays, nests, rows = {}, [], []
    for i in range(parts):
        x = input_node(dtypes.float32, (6, 50 + i))
        arrays[x] = rng.normal(size=x.shape).astype(np.float32)
        o, k = sint.Variable("o0", 0, 5), sint.Variable("i0", 0, 49 + i)
        row = p.reduce_sum(x, axes=(1,))
        rows.append(row)
        sums = Pass((k,), (Reduce(row, scalar.ADD, load(x, (o, k))),), ())
        nests.append(Nest((o,), (sums, Pass((), (), (Store(row, o, result(row)),))), frozenset()))
    finish, totals = [], []
    r = sint.Variable("i0", 0, 5)
    for row in rows:
        total = p.reduce_sum(row, axes=(0,))
        totals.append(total)
        each = Pass((r,), (Reduce(total, scalar.ADD, load(row, (r,))),), ())
        finish.append(
            Nest((), (each, Pass((), (), (Store(total, sint_zero(), result(total)),))), frozenset())
        )
    whole = totals[0]
    for total in totals[1:]:
        whole = whole + total
    value = load(totals[0], ())
    for total in totals[1:]:
        value = scalar.build(scalar.ADD, value, load(total, ()))
    if len(totals) > 1:
        finish.append(Nest((), (Pass((), (), (Store(whole, sint_zero(), value),)),), frozenset()))
    return Kernel(tuple(nests), tuple(finish)), arrays


def sint_zero() -> UOp:
    from tinyfn.trace.elements import as_node

    return as_node(0)


@pytest.mark.parametrize("size", [17, 65, 561])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "int16"])
def test_a_last_vector_of_one_element_writes_that_element_alone(size: int, dtype: str) -> None:
    x = np.arange(size, dtype=np.float32) % 50
    graph = tinyfn.jit(lambda x: (x + 1).astype(dtype)).graph(tnp.asarray(x))
    (kernel,) = group(graph)
    assert isinstance(kernel, Kernel)
    memory = np.full(size + 8, 99, graph.outputs[0].dtype)
    run_kernel(kernel, {graph.inputs[0]: x, graph.outputs[0]: memory[:size]})
    np.testing.assert_array_equal(memory[:size].astype(np.float32), x + 1)
    np.testing.assert_array_equal(memory[size:].astype(np.float32), 99)
