"""Every primitive's samples through CUDA kernels on the CPU, against the NumPy references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyfn
from tests.cuda.running import Programs
from tests.test_primitives import CASES, outputs, within
from tinyfn.trace.array import as_array

# Samples are compiled together, so many at a time: g++ takes longest to start.
TOGETHER = 160


def scale_of(family: str, args: Any) -> float:
    """A sum may come out near zero; its error is one of its terms' last place."""
    if family not in ("reduction", "contraction"):
        return 0.0
    terms = [np.asarray(a, np.float64) for a in args if np.asarray(a).dtype.kind == "f" and np.size(a)]
    return max([float(np.max(np.abs(t[np.isfinite(t)]), initial=0.0)) for t in terms], default=0.0)


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
        primitive, sample = case.values
        scale = scale_of(primitive.family, sample.args)
        try:
            for got, want in zip(programs.run(number, graph, values, (0, 1)), graph.run(values), strict=True):
                within(primitive.ulp, np.asarray(want), got, scale)
        except AssertionError as error:
            raise AssertionError(f"{case.id}: {error}") from error
