"""Every primitive on every device: its samples, and elementwise ops at special values and in all dtypes.

A device adds itself to `DEVICES`, and is tested with no other edit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import tinyfn
from tests.agreement import assert_within, error_bounds, wide
from tests.test_primitives import CASES, outputs
from tinyfn.devices.program import Program
from tinyfn.trace import dtype as dtypes
from tinyfn.trace.array import as_array
from tinyfn.trace.execute import step
from tinyfn.trace.graph import Graph
from tinyfn.trace.prim import REGISTRY, Elementwise, Primitive, Sample

Run = Callable[[Sequence[Any]], Sequence[Any]]
DEVICES: dict[str, Callable[[Graph], Run]] = {
    "numpy": lambda graph: graph.run,
    "cpu": lambda graph: Program(graph, step),
}


def check(device: str, primitive: Primitive, sample: Sample) -> None:
    """The device's results against the reference's, within the stated bounds."""
    args = [as_array(a) for a in sample.args]
    graph = tinyfn.jit(outputs(primitive, sample)).graph(*args)
    values = [a.value for a in (*args, *graph.captured)]
    found = DEVICES[device](graph)(values)
    for got, (want, bound) in zip(found, error_bounds(graph, values), strict=True):
        assert_within(got, want, np.zeros(()) if device == "numpy" else bound)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("primitive, sample", CASES)
def test_samples(device: str, primitive: Primitive, sample: Sample) -> None:
    check(device, primitive, sample)


def special(dtype: Any) -> np.ndarray:
    """Zeros, ones, the ends of the range, subnormals, halves, infinities and NaN, of a dtype."""
    if dtype is dtypes.bool_:
        return np.array([False, True])
    if not dtypes.is_float(dtype):
        ends = np.iinfo(dtype)
        near = [0, 1, 2, 7, 8 * dtype.itemsize - 1, 8 * dtype.itemsize, ends.max // 2, ends.max - 1, ends.max]
        if ends.min:
            near += [-1, -2, -7, ends.min // 2, ends.min + 1, ends.min]
        return np.array(near, dtype)
    info = tinyfn.numpy.finfo(dtype)
    least = float(info.smallest_subnormal)
    positive = [0.0, least, 3 * least, float(info.tiny) - least, float(info.tiny), 0.25, 0.5, 1.0, 1.0 + float(info.eps),
                1.5, 2.0, 2.5, 3.0, 100.0, 1 / float(info.eps), float(info.max) / 2, float(info.max), np.inf]  # fmt: skip
    return np.array([*positive, *[-x for x in positive], np.nan], np.float64).astype(dtype)


def special_samples() -> Iterator[Any]:
    """For each elementwise op and dtype it takes, all combinations of special values."""
    for name, primitive in sorted(REGISTRY.items()):
        if not isinstance(primitive, Elementwise) or name in ("convert", "bitcast", "complex"):
            continue
        for dtype in dtypes.ALL:
            if dtype in (*dtypes.NARROW_FLOATS, *dtypes.COMPLEX) or dtypes.kind(dtype) not in primitive.kinds:
                continue  # complex numbers are not compiled
            operand_dtypes = [dtypes.bool_, dtype, dtype] if name == "where" else [dtype] * primitive.arity
            grids = np.meshgrid(*[special(d) for d in operand_dtypes], indexing="ij")
            for params in (
                [{"exponent": e} for e in (0, 1, 2, 3, 5)]
                if name == "integer_pow"
                else [primitive.sample_params()]
            ):
                yield pytest.param(
                    primitive, Sample(tuple(g.ravel() for g in grids), params), id=f"{name}-{dtype.name}"
                )
    for name in ("convert", "bitcast"):
        for source in dtypes.ALL:
            for target in dtypes.ALL:
                plain = not {source, target} & {*dtypes.NARROW_FLOATS, *dtypes.COMPLEX}
                fits = source.itemsize == target.itemsize and (source is dtypes.bool_) == (
                    target is dtypes.bool_
                )
                if plain and (name == "convert" or fits):
                    sample = Sample((special(source),), {"dtype": target})
                    yield pytest.param(REGISTRY[name], sample, id=f"{name}-{source.name}-{target.name}")


@pytest.mark.parametrize("device", [d for d in DEVICES if d != "numpy"])
@pytest.mark.parametrize("primitive, sample", list(special_samples()))
def test_special_values(device: str, primitive: Primitive, sample: Sample) -> None:
    """NaNs, infinities and zeros with their signs are the reference's, also where the op is not exact."""
    args = [as_array(a) for a in sample.args]
    graph = tinyfn.jit(outputs(primitive, sample)).graph(*args)
    values = [a.value for a in (*args, *graph.captured)]
    (found,), ((want, bound),) = DEVICES[device](graph)(values), error_bounds(graph, values)
    assert_within(found, want, bound)
    if dtypes.is_float(dtypes.canonical(want.dtype)):
        a, b = wide(found), wide(want)
        zero = (a == 0) & (b == 0)
        if primitive.name not in ("max", "min", "clamp"):
            np.testing.assert_array_equal(np.signbit(a[zero]), np.signbit(b[zero]))
        np.testing.assert_array_equal(np.isinf(a), np.isinf(b))
