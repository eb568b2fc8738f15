"""tinyfn.lax: products of arrays, and of groups of rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.against_numpy import check_derivatives
from tests.lax.checks import GENERATOR, everywhere, floats, same
from tinyfn import lax
from tinyfn.transforms import vmap


def test_products() -> None:
    x, y = GENERATOR.normal(size=(3, 4, 5)), GENERATOR.normal(size=(5, 4, 3))
    cases = (
        ((((2,), (0,)), ((), ())), "abc,cde->abde"),
        ((((2,), (0,)), ((0,), (2,))), "abc,cda->abd"),
        ((((2, 1), (0, 1)), ((), ())), "abc,cbd->ad"),
        ((((), ()), ((1,), (1,))), "abc,dbe->bacde"),
        ((((-1,), (-3,)), ((-3,), (-1,))), "abc,cda->abd"),
    )
    for numbers, formula in cases:
        everywhere(lambda a, b: lax.dot_general(a, b, numbers), np.einsum(formula, x, y), x, y, rtol=1e-13)
    same(lax.dot(x[0], y[:, :, 0]), x[0] @ y[:, :, 0], rtol=1e-13)
    same(lax.dot(x[0, 0], y[:, 0]), x[0, 0] @ y[:, 0], rtol=1e-13)
    same(lax.dot(x[0, 0], x[0, 0]), x[0, 0] @ x[0, 0], rtol=1e-13)
    same(lax.batch_matmul(x, x.transpose(0, 2, 1)), x @ x.transpose(0, 2, 1), rtol=1e-13)
    i = np.array([100, -100, 50], np.int8)
    same(lax.dot(i, i, preferred_element_type=np.int32), np.int32(22500))
    half = np.full(100, 30, np.float16)
    same(lax.dot(half, half, preferred_element_type=np.float32), np.float32(90000))
    assert math.isinf(float(lax.dot(half, half)))
    for call, kind in (
        (lambda: lax.dot(x, y), TypeError),
        (lambda: lax.batch_matmul(x, y[0]), ValueError),
        (lambda: lax.dot_general(x, y, (((1,), (0,)), ((), ()))), ValueError),
        (lambda: lax.dot_general(x, y, (((3,), (0,)), ((), ()))), ValueError),
    ):
        with pytest.raises(kind):
            call()


def test_products_of_bools() -> None:
    x, y = GENERATOR.random((3, 4)) < 0.4, GENERATOR.random((4, 5)) < 0.4
    everywhere(lax.dot, x @ y, x, y)
    same(lax.dot(x, y, preferred_element_type="int32"), x.astype(np.int32) @ y.astype(np.int32))
    found = lax.conv(x[:, None], y[:1, None, :2], (1,), "VALID")
    same(found, ((x[:, :-1] & y[0, 0]) | (x[:, 1:] & y[0, 1]))[:, None])


def test_ragged_products() -> None:
    x, y, sizes = floats(7, 4), floats(3, 4, 5), np.array([2, 0, 4], np.int32)
    wanted = np.concatenate([x[:2] @ y[0], x[2:6] @ y[2], np.zeros((1, 5), np.float32)])
    everywhere(lambda x, y: lax.ragged_dot(x, y, sizes), wanted, x, y, rtol=1e-5)
    check_derivatives(lambda x, y: lax.ragged_dot(x, y, sizes), x.astype(np.float64), y.astype(np.float64))
    # Under vmap over the sizes too, which may be traced.
    several = vmap(lambda s: lax.ragged_dot(x, y, s))(np.stack([sizes, sizes[::-1]]))
    same(several[0], wanted, rtol=1e-5)
    # With an axis of a batch, where the groups are in what is summed.
    a, b = floats(2, 7, 3), floats(2, 7, 4)
    numbers = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((0,), (0,))), (1,), ())
    summed = lax.ragged_dot_general(a, b, sizes, numbers)
    parts = [np.einsum("bki,bkj->bij", a[:, i:j], b[:, i:j]) for i, j in ((0, 2), (2, 2), (2, 6))]
    same(summed, np.stack(parts), rtol=1e-5)
    for call in (
        lambda: lax.ragged_dot(x, y[:2], sizes),
        lambda: lax.ragged_dot(x, y, sizes, group_offset=np.array([1])),
        lambda: lax.ragged_dot_general(a, b, sizes, numbers._replace(rhs_group_dimensions=(0,))),
    ):
        with pytest.raises(ValueError, match="ragged_dot_general"):
            call()


def test_optimization_barrier_and_precision() -> None:
    x = floats(3, 3)
    first, second = lax.optimization_barrier((x, {"a": 2.0}))
    same(first, x)
    assert second["a"].weak_type
    for precision in (
        None, "highest", "BF16_BF16_F32", lax.Precision.HIGH, ("high", "default"), (lax.Precision.DEFAULT,) * 2,
        lax.DotAlgorithmPreset.TF32_TF32_F32, lax.DotAlgorithm("bfloat16", "bfloat16", "float32"),
    ):  # fmt: skip
        same(lax.dot(x, x, precision=precision), np.asarray(lax.dot(x, x)))
    same(lax.dot(x, x, dimension_numbers=(((0,), (0,)), ((), ()))), x.T @ x, rtol=1e-6)
    for wrong in ("medium", 3, ("high", "medium")):
        with pytest.raises(ValueError, match="no precision"):
            lax.dot(x, x, precision=wrong)  # type: ignore[arg-type]
