"""Tensor cores: layouts against the formulas of the PTX manual, and products computed thread by thread."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from tinyfn.lower.tensor_cores import Layout, TensorCore, cuda_tensor_cores
from tinyfn.trace import dtype as dtypes

ALL = cuda_tensor_cores(90, allow_tf32=True)


def rows_and_columns(k: int, tf32: bool) -> tuple[Callable[..., tuple[int, int]], ...]:
    """The row and column that thread `lane` holds as its i-th element of A, B, C: the manual's formulas, as it writes them."""

    def a(lane: int, i: int) -> tuple[int, int]:
        group, thread = lane >> 2, lane % 4
        if tf32:
            return group + 8 * (i in (1, 3)), thread + 4 * (i >= 2)
        row = group if i < 2 or 4 <= i < 6 else group + 8
        return row, thread * 2 + (i & 1) + (8 if i >= 4 else 0)

    def b(lane: int, i: int) -> tuple[int, int]:
        group, thread = lane >> 2, lane % 4
        return (thread + 4 * i, group) if tf32 else (thread * 2 + (i & 1) + (8 if i >= 2 else 0), group)

    def c(lane: int, i: int) -> tuple[int, int]:
        group, thread = lane >> 2, lane % 4
        return (group if i < 2 else group + 8), thread * 2 + (i & 1)

    return a, b, c


@pytest.mark.parametrize("core", ALL, ids=str)
def test_layouts_are_those_of_the_manual(core: TensorCore) -> None:
    formulas = rows_and_columns(core.dims[2], core.dtype_in is dtypes.float32)
    operands = zip(
        (core.a, core.b, core.c), ("mk", "kn", "mn"), core.elements_per_thread, formulas, strict=True
    )
    for layout, axes, elements, formula in operands:
        for lane, i in itertools.product(range(32), range(elements)):
            index = layout.position(lane, i)
            assert (index[axes[0]], index[axes[1]]) == formula(lane, i)


@pytest.mark.parametrize("core", ALL, ids=str)
def test_a_product_computed_by_lanes_is_the_product(core: TensorCore) -> None:
    n, m, k = core.dims
    generator = np.random.default_rng(0)
    x, y = generator.integers(-4, 5, (m, k)), generator.integers(-4, 5, (k, n))
    gathered = []
    for layout, axes, matrix in ((core.a, "mk", x), (core.b, "kn", y)):
        back = np.full(matrix.shape, 99)
        for lane, i in itertools.product(range(core.threads), range(1 << len(layout.element))):
            index = layout.position(lane, i)
            back[index[axes[0]], index[axes[1]]] = matrix[index[axes[0]], index[axes[1]]]
        gathered.append(back)
    result = np.full((m, n), 99)
    for lane, i in itertools.product(range(core.threads), range(core.elements_per_thread[2])):
        index = core.c.position(lane, i)
        result[index["m"], index["n"]] = gathered[0][index["m"]] @ gathered[1][:, index["n"]]
    np.testing.assert_array_equal(result, x @ y)


def test_the_list_by_capability() -> None:
    assert [str(core) for core in cuda_tensor_cores(80)] == [
        "WMMA_8_16_16_float16_float32", "WMMA_8_16_16_bfloat16_float32", "WMMA_8_16_16_float16_float16",
        "WMMA_8_16_8_float16_float32", "WMMA_8_16_8_float16_float16",
    ]  # fmt: skip
    assert [core.dims for core in cuda_tensor_cores(75)] == [(8, 16, 8)] * 2
    assert cuda_tensor_cores(70) == ()
    assert str(ALL[-1]) == "WMMA_8_16_8_float32_float32" and ALL[-1] not in cuda_tensor_cores(90)


def test_what_follows_from_the_layout() -> None:
    core = cuda_tensor_cores(80)[0]
    assert core.elements_per_thread == (8, 4, 4)
    assert core.opts == ("u0", "l0", "l0", "l1", "l1", "l1", "u1")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"dims": (8, 16, 12)}, "12 is no power of two"),
        ({"threads": 16}, "for 32 threads, not 16"),
        ({"dims": (8, 16, 16)}, "the bits of A"),
        ({"c": Layout(("n1", "n2", "m0", "m1", "m2"), ("n0", "n0"))}, "the bits of C"),
        ({"b": Layout(("k1", "k2", "n0", "n1"), ("k0", "n2"))}, "the layout of B is for 16 threads"),
    ],
)
def test_layouts_that_do_not_fit_are_refused(change: dict, message: str) -> None:
    core = cuda_tensor_cores(75)[0]
    given = {
        name: getattr(core, name) for name in ("dims", "threads", "dtype_in", "dtype_out", "a", "b", "c")
    }
    with pytest.raises(ValueError, match=message):
        TensorCore(**{**given, **change})
