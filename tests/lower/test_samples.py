"""Every primitive's samples through its nests, interpreted: what grouping makes of them means what the references do."""

from __future__ import annotations

from typing import Any

import pytest

import tinyfn
from tests.agreement import assert_within, error_bounds
from tests.test_primitives import CASES, outputs
from tinyfn.lower import interpret
from tinyfn.trace.array import as_array
from tinyfn.trace.prim import Primitive, Sample

# The formulas of elementwise ops have tests of their own; here it is about where elements are.
MOVING = [case for case in CASES if case.values[0].family != "elementwise"]


@pytest.mark.parametrize("primitive, sample", MOVING)
def test_nests_give_the_reference(primitive: Primitive, sample: Sample) -> None:
    args = [as_array(a) for a in sample.args]
    graph = tinyfn.jit(outputs(primitive, sample)).graph(*args)
    values: list[Any] = [a.value for a in (*args, *graph.captured)]
    for got, (want, bound) in zip(interpret.run(graph, values), error_bounds(graph, values), strict=True):
        assert_within(got, want, bound)
