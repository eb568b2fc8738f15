"""The factors of contractions: their products, added up, are what the primitives' references give."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tinyfn
from tinyfn.lower.contraction import CONTRACTIONS, Factor, factors, summed
from tinyfn.lower.nest import only_ranges
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import prims as p
from tinyfn.trace import scalar, sint
from tinyfn.trace.prim import Sample
from tinyfn.trace.uop import UOp, input_node


def cases() -> list[tuple[Any, Sample]]:
    samples = [(op, sample) for op in CONTRACTIONS for sample in op.samples()]
    return [(op, sample) for op, sample in samples if np.asarray(sample.args[0]).dtype.kind != "c"]


def ranges(prefix: str, shape: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple([0 if n == 1 else sint.Variable(f"{prefix}{i}", 0, n - 1) for i, n in enumerate(shape)])


def elements(
    array: np.ndarray, factor: Factor, bindings: dict[UOp, Any], shape: tuple[int, ...]
) -> np.ndarray:
    """The factor at all points; out of the array only where the condition does not hold."""

    def value(expression: Any) -> np.ndarray:
        found = scalar.evaluate([expression], bindings)[0] if isinstance(expression, UOp) else expression
        return np.broadcast_to(found, shape)

    index = [value(i) for i in factor.at]
    inside = np.ones(shape, bool) if factor.condition is None else value(factor.condition)
    for i, n in zip(index, array.shape, strict=True):
        assert np.all(~inside | ((i >= 0) & (i < n)))
    safe = [np.clip(i, 0, n - 1) for i, n in zip(index, array.shape, strict=True)]
    return np.where(inside, array[tuple(safe)], 0)


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case[0].name}")
def test_products_of_the_factors_add_up_to_the_result(case: tuple[Any, Sample]) -> None:
    op, sample = case
    arrays = [np.asarray(a) for a in sample.args]
    node = op(*[input_node(a.dtype, a.shape) for a in arrays], **sample.params)
    reference = np.asarray(op.reference(*arrays, **sample.params))
    sizes = summed(node)
    if 0 in node.shape or 0 in sizes or any(a.size == 0 for a in arrays):
        assert not reference.any()
        return
    index, inner = ranges("o", node.shape), ranges("i", sizes)
    left, right = factors(node, index, inner)
    shape = (*node.shape, *sizes)
    grid = np.meshgrid(*[np.arange(n) for n in shape], indexing="ij", sparse=True)
    bindings = {r: g for r, g in zip((*index, *inner), grid, strict=True) if isinstance(r, UOp)}
    assert only_ranges((*index, *inner)) == tuple(bindings)
    wide = dtypes.accumulator(node.dtype)
    x, y = (elements(a, f, bindings, shape).astype(wide) for a, f in zip(arrays, (left, right), strict=True))
    with np.errstate(all="ignore"):
        total = np.sum(x * y, axis=tuple(range(node.ndim, len(shape))), dtype=wide).astype(node.dtype)
    with np.errstate(all="ignore"):
        scale = np.sum(np.abs((x * y).astype(np.float64)), axis=tuple(range(node.ndim, len(shape))))
    # Sums in any order, then rounded; integers exactly. An inf or NaN, of which the bound says nothing, is compared.
    eps = 0 if dtypes.is_integer(node.dtype) else float(ml_dtypes.finfo(node.dtype).eps)
    total, reference = total.astype(np.float64), reference.astype(np.float64)
    finite = np.isfinite(reference)
    np.testing.assert_array_equal(total[~finite], reference[~finite])
    assert np.all(np.abs(total[finite] - reference[finite]) <= (4 * eps * scale)[finite])


@pytest.mark.parametrize("stride, low, dilation", list(product((1, 2, 3), (-2, 0, 3), (1, 2, 4))))
def test_padding_and_dilation_on_one_axis(stride: int, low: int, dilation: int) -> None:
    generator = np.random.default_rng(0)
    x, w = generator.standard_normal((2, 3, 9)).astype(np.float32), np.ones((2, 3, 2), np.float32)
    params = {
        "strides": (stride,), "low": (low,), "high": (1,), "lhs_dilation": (dilation,), "rhs_dilation": (2,),
        "feature_groups": 1, "batch_groups": 1,
    }  # fmt: skip
    test_products_of_the_factors_add_up_to_the_result((p.conv_general, Sample((x, w), params)))


def test_conditions_that_always_hold_are_left_out() -> None:
    params = {
        "strides": (1,), "low": (0,), "high": (0,), "lhs_dilation": (1,), "rhs_dilation": (1,),
        "feature_groups": 1, "batch_groups": 1,
    }  # fmt: skip
    node = p.conv_general(
        input_node(dtypes.float32, (2, 3, 9)), input_node(dtypes.float32, (4, 3, 2)), **params
    )
    left, right = factors(node, ranges("o", node.shape), ranges("i", summed(node)))
    assert left.condition is None and right.condition is None
    padded = p.conv_general(*node.src, **{**params, "low": (1,)})
    left, right = factors(padded, ranges("o", padded.shape), ranges("i", summed(padded)))
    assert left.condition is not None and left.condition.dtype is dtypes.bool_ and right.condition is None


@pytest.mark.parametrize("rows", [16, 512])
def test_matrices_are_not_taken_for_windows(rows: int) -> None:
    """Their rows are a step apart too, but do not overlap: copying them as images unrolled the copy of the whole matrix."""
    x, w = np.ones((64, 256), np.float32), np.ones((256, rows), np.float32)
    lowered = tinyfn.jit(lambda x, w: x.astype("bfloat16") @ w.astype("bfloat16")).lower(x, w)
    assert all(len(kernel.src) < 60_000 for kernel in lowered.kernels)
