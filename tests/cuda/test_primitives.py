"""Every primitive through CUDA kernels on the CPU: its samples and special values of all dtypes, against the references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyfn
from tests.agreement import assert_within, error_bounds, wide
from tests.cuda.running import Programs
from tests.devices.test_samples import special_samples
from tests.test_primitives import CASES, outputs
from tinyfn.trace import dtype as dtypes
from tinyfn.trace.array import as_array

# Samples are compiled together, so many at a time: g++ takes longest to start.
TOGETHER = 160
SPECIAL = list(special_samples())


def run(cases: list[Any], signs: bool) -> None:
    """Compile all and run each; `signs`: zeros and infinities must have the reference's."""
    graphs = []
    for case in cases:
        primitive, sample = case.values
        args = [as_array(a) for a in sample.args]
        graph = tinyfn.jit(outputs(primitive, sample)).graph(*args)
        graphs.append((case, graph, [a.value for a in (*args, *graph.captured)]))
    programs = Programs([graph for _, graph, _ in graphs])
    for number, (case, graph, values) in enumerate(graphs):
        try:
            found = programs.run(number, graph, values, (0, 1))
            for got, (want, bound) in zip(found, error_bounds(graph, values), strict=True):
                assert_within(got, want, bound)
                if signs and dtypes.is_float(dtypes.canonical(want.dtype)):
                    a, b = wide(got), wide(want)
                    zero = (a == 0) & (b == 0)
                    if case.values[0].name not in ("max", "min", "clamp"):
                        np.testing.assert_array_equal(np.signbit(a[zero]), np.signbit(b[zero]))
                    np.testing.assert_array_equal(np.isinf(a), np.isinf(b))
        except AssertionError as error:
            raise AssertionError(f"{case.id}: {error}") from error


@pytest.mark.parametrize("first", range(0, len(CASES), TOGETHER))
def test_samples(first: int) -> None:
    run(CASES[first : first + TOGETHER], False)


@pytest.mark.parametrize("first", range(0, len(SPECIAL), TOGETHER))
def test_special_values(first: int) -> None:
    run(SPECIAL[first : first + TOGETHER], True)
