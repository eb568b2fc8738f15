"""The null device: everything is compiled, nothing is run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import devices
from tinyfn.devices import cpu


@pytest.fixture(autouse=True)
def nothing_runs() -> Iterator[None]:
    before = devices.default_device()
    devices.set_default_device("null")
    yield
    devices.set_default_device(before)


def test_results_are_zeros_of_the_right_kind() -> None:
    result = tinyfn.jit(lambda x: {"a": x + 1, "b": (x > 0).sum(), "c": tnp.argsort(x)})(tnp.ones((3, 4)))
    assert {k: (v.dtype, v.shape) for k, v in result.items()} == {
        "a": (np.float32, (3, 4)), "b": (np.int32, ()), "c": (np.int32, (3, 4)),
    }  # fmt: skip
    assert not any(np.any(np.asarray(v)) for v in result.values())


def test_symbolic_sizes_are_those_of_the_arguments() -> None:
    n = tinyfn.Variable("n", 1, 8)
    run = tinyfn.jit(lambda x: x.T + 1).lower(tinyfn.ShapeDtypeStruct((n, 3), np.float32)).compile()
    assert run(tnp.ones((5, 3))).shape == (3, 5)


def test_kernels_are_compiled() -> None:
    before = sum(cpu.counts[name] for name in ("emit", "disk", "memory"))
    tinyfn.jit(lambda x: tnp.sin(x) * 1.0625 + 0.375)(tnp.ones(77))
    assert sum(cpu.counts[name] for name in ("emit", "disk", "memory")) > before


def test_inputs_are_not_touched_and_other_calls_work() -> None:
    x: Any = tnp.ones(5)
    f = tinyfn.jit(lambda x: x * 3)
    for _ in range(3):
        assert not np.any(f(x))
    np.testing.assert_array_equal(x, np.ones(5))
    with pytest.raises(ZeroDivisionError):
        tinyfn.jit(lambda x: x / (1 // 0))(x)
