"""Values, dtypes and first derivatives of more than 250 functions, over drawn arguments, against NumPy's in double precision; of
special functions, which NumPy lacks, against those of SciPy and JAX on a grid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tinyfn
from tests.cross_check import of_numpy, of_others
from tests.cross_check.oracle import INTEGERS, KINDS, RULES, compare, dtype_of, exact, leaves, promoted
from tests.cross_check.table import FUNCTIONS, Function
from tinyfn import lax
from tinyfn.scipy import special

assert of_numpy and of_others  # which fill FUNCTIONS
GOLDENS = json.loads((Path(__file__).parents[1] / "goldens" / "derivatives.json").read_text())
# Under jit these need a size, with which tests/numpy has them.
OF_ANY_SIZE = {"numpy.unique", "numpy.nonzero", "numpy.argwhere", "numpy.flatnonzero"}
few = settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
many = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))


def _elements(dtype: str, low: float, high: float, with_special: bool) -> Any:
    """Numbers of a domain as the dtype has them; some special ones."""
    if dtype == "bool":
        return st.booleans()
    if dtype in INTEGERS:
        return st.integers(0 if dtype.startswith("u") else int(np.ceil(low)), int(np.floor(high)))
    numbers = st.floats(low, high)
    extra = [np.nan, np.inf, -np.inf, -0.0, 0.0] if with_special else []
    real = numbers | st.sampled_from(extra) if extra else numbers
    return st.builds(complex, numbers, numbers) if dtype.startswith("complex") else real


@st.composite
def smooth_arguments(draw: Any, function: Function) -> list[np.ndarray]:
    """Arrays in double precision whose elements are distinct, and not 0, so that maxima and magnitudes have derivatives."""
    arrays = []
    for i, shape in enumerate(draw(st.sampled_from(function.shapes))):
        low, high = function.domains[min(i, len(function.domains) - 1)]
        places = st.integers(0, 59).map(lambda k, low=low, high=high: low + (high - low) * (k + 0.5) / 60)
        arrays.append(draw(hnp.arrays("float64", shape, elements=places, unique=True)))
    return arrays


@st.composite
def arguments(draw: Any, function: Function, strict: bool) -> list[np.ndarray]:
    """Arrays of shapes and dtypes that the function takes, all of one dtype if it is strict."""
    shapes = draw(st.sampled_from(function.shapes))
    kinds = [name for kind in function.kinds for name in KINDS[kind]]
    first = draw(st.sampled_from(kinds))
    arrays = []
    for i, shape in enumerate(shapes):
        name = first if strict or i == 0 else draw(st.sampled_from([first, *kinds]))
        low, high = function.domains[min(i, len(function.domains) - 1)]
        elements = _elements(name, low, high, function.special)
        wide = {"b": "bool", "i": name, "u": name, "c": "complex128"}.get(dtype_of(name).kind, "float64")
        with np.errstate(all="ignore"):
            arrays.append(draw(hnp.arrays(wide, shape, elements=elements)).astype(dtype_of(name)))
    return arrays


def check_values(function: Function, arrays: list[np.ndarray], compiled: bool) -> None:
    dtype = RULES[function.rule](promoted([a.dtype.name for a in arrays]))
    floats = function.rule in ("float", "real float")
    common = promoted([a.dtype.name for a in arrays])
    cast = [a.astype(common) if np.dtype(dtype_of(common)).kind in "iu" and not floats else a for a in arrays]
    with np.errstate(all="ignore"):
        wanted = leaves(function.numpys(*[exact(a, floats) for a in cast]))
    calls = [function.ours, tinyfn.jit(function.ours)] if compiled else [function.ours]
    for call in calls:
        found = leaves(call(*map(tinyfn.numpy.asarray, arrays)))
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            compare(one, other, dtype, function.factor)


def check_slopes(function: Function, arrays: list[np.ndarray], seed: int) -> None:
    """The derivative along a direction is the limit of differences of NumPy's function."""
    generator = np.random.default_rng(seed)
    directions = [generator.normal(size=a.shape) for a in arrays]
    _, slopes = tinyfn.jvp(lambda *xs: leaves(function.ours(*xs)), tuple(arrays), tuple(directions))
    step = 1e-6
    ahead, behind = (
        leaves(function.numpys(*[a + sign * step * d for a, d in zip(arrays, directions, strict=True)]))
        for sign in (1, -1)
    )
    for slope, high, low in zip(slopes, ahead, behind, strict=True):
        wanted = (np.asarray(high) - np.asarray(low)) / (2 * step)
        scale = max(
            1.0,
            float(np.abs(wanted).max(initial=0)),
            float(np.abs(high).max(initial=0)) if np.size(high) else 0.0,
        )
        np.testing.assert_allclose(slope, wanted, rtol=1e-5, atol=1e-7 * scale)


def _check(name: str, options: Any, compiled: bool) -> None:
    function = FUNCTIONS[name]

    @options
    @given(arguments(function, function.one_dtype or not name.startswith(("numpy", "linalg", "fft"))))
    def values(arrays: list[np.ndarray]) -> None:
        check_values(function, arrays, compiled)

    values()
    if function.slope and "f" in function.kinds:

        @options
        @given(smooth_arguments(function), st.integers(0, 999))
        def slopes(arrays: list[np.ndarray], seed: int) -> None:
            check_slopes(function, arrays, seed)

        slopes()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    _check(name, few, compiled=False)


@pytest.mark.sweep
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_over_many_arguments_and_compiled(name: str) -> None:
    _check(name, many, compiled=name not in OF_ANY_SIZE)


@pytest.mark.parametrize("name", GOLDENS["functions"])
def test_special_functions_and_their_derivatives(name: str) -> None:
    golden = GOLDENS["functions"][name]
    module = lax if name.startswith("lax.") else special
    function = getattr(module, name.split(".")[-1])
    fixed, points = golden["fixed"], [np.array(p) for p in golden["points"]]

    def call(*xs: Any) -> Any:
        return function(*fixed, *xs)

    value = call(*points)
    assert value.dtype == np.float64 and call(*[p.astype("float32") for p in points]).dtype == np.float32
    np.testing.assert_allclose(value, golden["values"], rtol=1e-9, atol=1e-12)
    for i, wanted in golden["slopes"].items():
        before, after = points[: int(i)], points[int(i) + 1 :]
        _, slope = tinyfn.jvp(
            lambda x, before=before, after=after: call(*before, x, *after), (points[int(i)],), (np.ones(12),)
        )
        np.testing.assert_allclose(slope, wanted, rtol=1e-8, atol=1e-10)


def test_there_are_enough() -> None:
    assert len({*FUNCTIONS, *GOLDENS["functions"]}) >= 400
    assert sum(f.slope and "f" in f.kinds for f in FUNCTIONS.values()) + len(GOLDENS["functions"]) >= 250
