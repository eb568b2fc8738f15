"""Reductions of segments against loops over their elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyfn
import tinyfn.numpy as tnp
from tests.against_numpy import check_derivatives, close, numbers
from tinyfn import lax, ops
from tinyfn.trace.errors import TracerError

COMBINE: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "segment_sum": (np.sum, lambda dtype: 0),
    "segment_prod": (np.prod, lambda dtype: 1),
    "segment_max": (np.max, lambda dtype: -np.inf if dtype.kind == "f" else np.iinfo(dtype).min),
    "segment_min": (np.min, lambda dtype: np.inf if dtype.kind == "f" else np.iinfo(dtype).max),
}


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.sampled_from(sorted(COMBINE)),
    st.sampled_from(["float32", "float64", "int32", "uint8"]),
    st.lists(st.integers(-1, 5), max_size=9),
    st.sampled_from([(), (2,)]),
)
def test_segments(name: str, dtype: str, ids: list[int], rest: tuple[int, ...]) -> None:
    x = numbers(np.random.default_rng(0), dtype, (len(ids), *rest))
    combine, neutral = COMBINE[name]
    where = np.array(ids, np.int32)
    wanted = np.empty((4, *rest), dtype)
    for i in range(4):
        chosen = x[where == i]
        wanted[i] = combine(chosen, 0).astype(dtype) if len(chosen) else neutral(np.dtype(dtype))
    function = getattr(ops, name)
    close(function(x, where, 4), wanted, 1e-6)
    close(tinyfn.jit(lambda x, i: function(x, i, 4))(x, where), wanted, 1e-6)
    assert function(x, where).shape == (max([*ids, -1]) + 1, *rest)


@pytest.mark.parametrize("name", sorted(COMBINE))
def test_derivatives_and_lanes(name: str) -> None:
    x, ids = numbers(np.random.default_rng(1), "float64", (2, 6)), np.array([0, 2, 0, 1, 2, 0])
    function = getattr(ops, name)
    check_derivatives(lambda v: function(v, ids, 3), x[0])
    lanes = tinyfn.vmap(lambda v: function(v, ids, 4))(x)
    close(lanes, np.stack([np.asarray(function(v, ids, 4)) for v in x]), 1e-12)


def test_arguments_of_jax() -> None:
    x, ids = np.array([1, 2, 3, 4]), np.array([-2, 0, 1, 7])
    for mode, wanted in ((None, [2, 3]), ("drop", [2, 3]), ("fill", [2, 3]), ("clip", [3, 7])):
        assert ops.segment_sum(x, ids, 2, mode=mode).tolist() == wanted
    assert ops.segment_sum(x, ids, 2, mode=lax.GatherScatterMode.CLIP).tolist() == [3, 7]
    assert ops.segment_max(x, ids, 2, False, False, None, "clip").tolist() == [2, 4]
    assert ops.segment_sum(x, np.arange(4), 4, True, True).tolist() == [1, 2, 3, 4]
    assert ops.segment_prod(x, np.array([0, 0, 1, 1]), indices_are_sorted=True, bucket_size=2).tolist() == [
        2,
        12,
    ]


def test_errors() -> None:
    with pytest.raises(TracerError, match="give `num_segments`"):
        tinyfn.jit(ops.segment_sum)(tnp.ones(3), tnp.array([0, 1, 1]))
    with pytest.raises(ValueError, match=r"must be integers for its first axes, not int32\[2\]"):
        ops.segment_sum(tnp.ones(3), tnp.array([0, 1]))
    with pytest.raises(ValueError, match="must be integers"):
        ops.segment_max(tnp.ones(3), tnp.ones(3))
