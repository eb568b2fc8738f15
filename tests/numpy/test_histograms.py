"""Histograms of one and of several coordinates against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyfn.numpy as tnp
from tests.numpy.checks import close, numbers
from tinyfn.transforms import grad, jit

EDGES = np.array([-2.0, -0.5, 0.0, 0.25, 3.0])


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 20),
    bins=st.lists(st.sampled_from([1, 2, 4, "edges"]), min_size=1, max_size=3),
    ranged=st.booleans(),
    weighted=st.booleans(),
    density=st.booleans(),
)
def test_histogramdd(n: int, bins: list[Any], ranged: bool, weighted: bool, density: bool) -> None:
    # Sixteenths and bins by powers of two, so that points on edges are exactly there in either precision.
    points = np.round(numbers("float64", (n, len(bins)), seed=n) * 16) / 16
    weights = numbers("float64", (n,), 0.5, 2.0) if weighted else None
    chosen = [EDGES if b == "edges" else b for b in bins]
    limits = [(-2.0, 2.0)] * len(bins) if ranged else None
    density = density and bool(((points >= -2) & (points <= 2)).all(1).any())
    wanted, edges = np.histogramdd(points, chosen, limits, density, weights)
    found, ours = tnp.histogramdd(tnp.asarray(points), chosen, limits, weights, density)
    close(found, wanted, 1e-6)
    for a, b in zip(ours, edges, strict=True):
        close(a, b, 1e-6)
    alone, edge = tnp.histogram(
        points[:, 0], chosen[0], limits and limits[0], weights=weights, density=density
    )
    close(edge, np.histogram(points[:, 0], chosen[0], limits and limits[0])[1])
    close(alone, np.histogram(points[:, 0], chosen[0], limits and limits[0], density, weights)[0])


def test_histogram2d() -> None:
    x, y = numbers("float32", (50,)), numbers("float32", (50,), seed=1)
    for bins in (4, [3, 5], [EDGES.astype(np.float32), 4], EDGES.astype(np.float32)):
        for a, b in zip(tnp.histogram2d(x, y, bins), np.histogram2d(x, y, bins), strict=True):
            close(a, b, 1e-5)
    counts = jit(lambda x, y: tnp.histogram2d(x, y, 4, [(-3, 3), (-3, 3)])[0])(x, y)
    close(counts, np.histogram2d(x, y, 4, [(-3, 3), (-3, 3)])[0])
    weight = grad(lambda w: tnp.histogram2d(x, y, 2, weights=w)[0][0, 1])(tnp.ones(50))
    assert float(weight.sum()) == float(np.histogram2d(x, y, 2)[0][0, 1])
    with pytest.raises(ValueError, match=r"two vectors of one length"):
        tnp.histogram2d(x, y[:3])
    with pytest.raises(ValueError, match=r"one for each of 2 coordinates"):
        tnp.histogramdd([x, y], [1, 2, 3])


def test_nothing_to_count() -> None:
    for a, b in zip(tnp.histogram(tnp.zeros((0,)), 3), np.histogram(np.zeros(0), 3), strict=True):
        close(a, b)
