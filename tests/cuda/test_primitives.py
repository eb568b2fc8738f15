"""Every primitive's samples through CUDA kernels on the CPU, against the NumPy references."""

from __future__ import annotations

import pytest

import tinyfn
from tests.agreement import assert_within, error_bounds
from tests.cuda.running import Programs
from tests.test_primitives import CASES, outputs
from tinyfn.trace.array import as_array

# Samples are compiled together, so many at a time: g++ takes longest to start.
TOGETHER = 160


@pytest.mark.parametrize("first", range(0, len(CASES), TOGETHER))
def test_kernels_give_the_reference(first: int) -> None:
    graphs = []
    for case in CASES[first : first + TOGETHER]:
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
        except AssertionError as error:
            raise AssertionError(f"{case.id}: {error}") from error
