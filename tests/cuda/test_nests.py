"""Nests as CUDA kernels, run on the CPU: they give what the graph gives, in any order of the threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cuda.running import Programs
from tests.lower.test_nests import FUNCTIONS, agree, lowered

SHAPES = [(1, 1), (4, 5), (33, 65), (3, 200), (128, 40), (2, 1500)]
CASES = [(name, shape) for name in FUNCTIONS for shape in SHAPES]


@pytest.fixture(scope="module")
def programs() -> Any:
    graphs = []
    for name, shape in CASES:
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        graphs.append(lowered(FUNCTIONS[name], x))
    return graphs, Programs([graph for graph, _ in graphs])


def test_nests_give_what_the_graph_gives(programs: Any) -> None:
    graphs, compiled = programs
    for number, ((name, shape), (graph, values)) in enumerate(zip(CASES, graphs, strict=True)):
        try:
            agree(compiled.run(number, graph, values), graph.run(values))
        except AssertionError as error:
            raise AssertionError(f"{name} of {shape}: {error}") from error
