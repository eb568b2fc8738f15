"""Calls of lax and nn with all their options give what JAX 0.10.2 gives, eagerly and compiled, and so do their derivatives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.goldens.lax_cases import CASES
from tinyfn import jit, lax, nn, vjp
from tinyfn.trace import pytree

GOLDENS = json.loads((Path(__file__).parent / "goldens" / "lax.json").read_text())
# By how much more than a few units of float32 results may be off: products of many numbers, and their derivatives.
TOLERANCE = {"cumprod": 1e-5, "attention": 1e-5, "standardize": 1e-5, "polygamma": 1e-5, "conv": 1e-5}


def close(found: Any, wanted: list[Any], shape: Any, name: str) -> None:
    found, expected = np.asarray(found), np.array(wanted)
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found.reshape(-1), expected)
        return
    expected = expected.astype(found.dtype)
    assert found.size == expected.size and (shape is None or list(found.shape) == shape)
    tolerance = TOLERANCE.get(name.split("_")[0], 3e-6)
    scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0)))
    if name.startswith(("reduce_precision", "gather")):
        tolerance = scale = 0.0
    np.testing.assert_allclose(found.reshape(-1), expected, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives_are_jax_s(name: str) -> None:
    case, golden = CASES[name], GOLDENS[name]

    def function(*arrays: Any) -> Any:
        return case.function(lax, nn, *arrays)

    results: list[Any] = pytree.leaves(function(*case.arrays))
    assert [r.dtype.name for r in results] == golden["dtypes"]
    for found in (results, pytree.leaves(jit(function)(*case.arrays))):
        for each, values, shape in zip(found, golden["values"], golden["shapes"], strict=True):
            close(each, values, shape, name)
    if case.differentiable:
        (result,) = results
        weights = np.cos(np.arange(result.size, dtype=np.float32)).reshape(result.shape)
        slopes = jit(lambda *arrays: vjp(function, *arrays)[1](weights))(*case.arrays)
        for each, values in zip(slopes, golden["slopes"], strict=True):
            close(each, values, None, name)
