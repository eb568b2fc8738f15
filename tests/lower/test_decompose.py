"""Ops that programs compute by other ops: the same results, in one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.lower.test_kernel_counts import kernels, numbers
from tinyfn import lax, nn, random
from tinyfn.trace import dtype as dtypes

PLAIN = [d for d in (dtypes.bool_, *dtypes.INTEGERS, *dtypes.FLOATS) if d not in dtypes.NARROW_FLOATS]


def extremes(dtype: Any, shape: tuple[int, ...], seed: int) -> list[np.ndarray]:
    """Arrays with many ties, of the dtype's limits; of floats also zeros of both signs, infinities and NaNs."""
    generator = np.random.default_rng(seed)
    if dtype is dtypes.bool_:
        return [generator.integers(0, 2, shape).astype(bool), np.zeros(shape, bool)]
    if dtypes.is_integer(dtype):
        info = np.iinfo(dtype)
        values = np.array([info.min, info.min + 1, 0, info.max - 1, info.max], dtype)
        return [generator.choice(values, shape), np.full(shape, info.min), np.full(shape, info.max)]
    found = [
        generator.choice(np.array(values), shape).astype(dtype)
        for values in (
            [np.inf, -np.inf, 0.0, -0.0, 1.0],
            [0.0, -0.0],
            [np.nan],
            [-np.inf],
            [np.nan, np.inf, 2.0],
        )
    ]
    few = generator.standard_normal(shape).astype(dtype)
    few.reshape(-1)[few.size // 2] = np.nan
    return [*found, few]


@pytest.mark.parametrize("dtype", PLAIN, ids=dtypes.name)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_of_extremes_are_numpys(name: str, dtype: Any) -> None:
    for shape, axis in (((5, 33), 1), ((33, 5), 0), ((2, 40, 3), 1), ((1, 1), 0), ((70_000,), 0)):
        compiled = tinyfn.jit(lambda x, axis=axis: getattr(tnp, name)(x, axis=axis))
        for x in extremes(dtype, shape, len(shape)):
            np.testing.assert_array_equal(compiled(tnp.asarray(x)), getattr(np, name)(x, axis))


def test_the_position_of_an_extreme_is_part_of_its_rows_kernel() -> None:
    x, labels = numbers(128, 100), tnp.arange(128) % 100
    assert len(kernels(lambda x: tnp.argmax(x, -1), x)) == 1
    assert len(kernels(lambda x: tnp.argmin(x, 0), x)) == 1
    assert len(kernels(lambda x, y: (tnp.argmax(nn.relu(x), -1) == y).mean(), x, labels)) == 1
    assert len(kernels(lambda key, x: random.categorical(key, x), random.key(0), x)) == 1


def test_positions_in_loops_and_of_eight_bit_floats() -> None:
    x = numbers(4, 3)
    steps = tinyfn.jit(lambda x: lax.scan(lambda c, row: (c + tnp.argmax(row), tnp.argmin(row)), 0, x))
    total, each = steps(x)
    assert int(total) == np.argmax(x, 1).sum() and each.tolist() == np.argmin(x, 1).tolist()
    narrow = x.astype("float8_e4m3fn")
    # What has no order by itself is ordered as float32.
    found = tinyfn.jit(lambda x: lax.argmax(x, 1, "int32"))(narrow)
    assert found.tolist() == np.argmax(np.asarray(narrow).astype(np.float32), 1).tolist()


def test_positions_for_symbolic_sizes() -> None:
    n = tinyfn.export.symbolic_shape("n")[0]
    made = tinyfn.jit(lambda x: tnp.argmax(x, 0)).lower(tinyfn.ShapeDtypeStruct((n, 5), "float32")).compile()
    for rows in (1, 9, 40):
        x = numbers(rows, 5)
        assert made(x).tolist() == np.argmax(x, 0).tolist()
