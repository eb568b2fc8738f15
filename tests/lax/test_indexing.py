"""tinyfn.lax: positions that are data."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lax.checks import everywhere, floats, same
from tinyfn import lax
from tinyfn.transforms import grad


def test_dynamic_slice() -> None:
    x = floats(5, 6)
    for at, start in (((1, 2), (1, 2)), ((-2, -6), (3, 0)), ((9, 9), (3, 3)), ((-50, 4), (0, 3))):
        expected = x[start[0] : start[0] + 2, start[1] : start[1] + 3]
        same(lax.dynamic_slice(x, at, (2, 3)), expected)
        for dtype in (np.int8, np.int32, np.int64):
            everywhere(
                lambda v, i, j: lax.dynamic_slice(v, (i, j), (2, 3)), expected, x, *np.array(at, dtype)
            )
            everywhere(lambda v, ij: lax.dynamic_slice(v, ij, (2, 3)), expected, x, np.array(at, dtype))
    same(lax.dynamic_slice(x, (np.uint8(4), np.uint64(2**63)), (2, 3)), x[3:5, 3:6])
    same(lax.dynamic_slice(np.arange(300), (np.int8(-1),), (2,)), np.arange(298, 300))
    same(lax.dynamic_slice(np.float32(3), (), ()), np.float32(3))
    everywhere(lambda v, i: lax.dynamic_slice_in_dim(v, i, 2, 1), x[:, 3:5], x, np.int32(3))
    everywhere(lambda v, i: lax.dynamic_index_in_dim(v, i, 1, False), x[:, 5], x, np.int32(-1))
    everywhere(lambda v, i: lax.dynamic_index_in_dim(v, i), x[2:3], x, np.int32(2))
    gradient = grad(lambda v: lax.reduce_sum(lax.dynamic_slice(v, (9, 1), (2, 3)), (0, 1)))(x)
    expected = np.zeros_like(x)
    expected[3:5, 1:4] = 1
    same(gradient, expected)
    for call, kind in (
        (lambda: lax.dynamic_slice(x, (1,), (2, 3)), ValueError),
        (lambda: lax.dynamic_slice(x, (1.0, 2), (2, 3)), TypeError),
        (lambda: lax.dynamic_slice(x, (1, 2), (6, 3)), ValueError),
        (lambda: lax.dynamic_slice(x, (x[0], 2), (2, 3)), TypeError),
    ):
        with pytest.raises(kind):
            call()


def test_dynamic_update_slice() -> None:
    x, y = floats(5, 6), floats(2, 3)
    for at, start in (((1, 2), (1, 2)), ((-2, -6), (3, 0)), ((9, 9), (3, 3))):
        expected = x.copy()
        expected[start[0] : start[0] + 2, start[1] : start[1] + 3] = y
        everywhere(
            lambda v, u, ij: lax.dynamic_update_slice(v, u, ij), expected, x, y, np.array(at, np.int32)
        )
    expected = x.copy()
    expected[:, 4] = 7
    everywhere(
        lambda v, i: lax.dynamic_update_slice_in_dim(v, np.full((5, 1), 7, np.float32), i, 1),
        expected,
        x,
        np.int32(4),
    )
    everywhere(
        lambda v, i: lax.dynamic_update_index_in_dim(v, np.full(5, 7, np.float32), i, 1),
        expected,
        x,
        np.int32(-2),
    )
    weights = floats(5, 6)
    loss = lambda v, u: lax.reduce_sum(lax.mul(lax.dynamic_update_slice(v, u, (1, 2)), weights), (0, 1))
    to_x, to_y = grad(loss, (0, 1))(x, y)
    same(to_y, weights[1:3, 2:5])
    kept = weights.copy()
    kept[1:3, 2:5] = 0
    same(to_x, kept)
    with pytest.raises(TypeError, match="does not fit"):
        lax.dynamic_update_slice(x, floats(6, 1), (0, 0))


def test_negative_positions_may_be_no_more_than_beyond_the_start() -> None:
    x, starts = np.arange(12).reshape(3, 4), [np.int32(-1), np.int32(-2)]
    same(lax.dynamic_slice(x, starts, (1, 2)), x[2:, 2:])
    same(lax.dynamic_slice(x, starts, (1, 2), allow_negative_indices=False), x[:1, :2])
    same(lax.dynamic_slice(x, starts, (1, 2), allow_negative_indices=(False, True)), x[:1, 2:])
    same(lax.dynamic_slice_in_dim(x, -1, 2, 1, allow_negative_indices=False), x[:, :2])
    same(lax.dynamic_index_in_dim(x, -1, allow_negative_indices=False), x[:1])
    zeros = np.zeros((2, 2), np.int32)
    ones = np.ones((1, 2), np.int32)
    first = np.array([[1, 1], [0, 0]], np.int32)
    same(lax.dynamic_update_slice(zeros, ones, (-1, 0), allow_negative_indices=False), first)
    same(lax.dynamic_update_slice_in_dim(zeros, ones, -1, 0, allow_negative_indices=False), first)
    same(lax.dynamic_update_index_in_dim(zeros, ones, -1, 0, allow_negative_indices=False), first)
    with pytest.raises(ValueError, match="needs a bool, or 2, not 1"):
        lax.dynamic_slice(x, starts, (1, 2), allow_negative_indices=[True])


def test_index_in_dim() -> None:
    x = floats(3, 4)
    same(lax.index_in_dim(x, -1, 1), x[:, 3:])
    same(lax.index_in_dim(x, 1, keepdims=False), x[1])
    for index in (3, -4):
        with pytest.raises(IndexError, match="out of bounds for axis 0"):
            lax.index_in_dim(x, index)


def test_gather_and_scatter() -> None:
    x = floats(5, 3)
    at = np.array([[4], [0], [7], [0]], np.int32)
    rows = lax.GatherDimensionNumbers((1,), (0,), (0,))
    same(lax.gather(x, at, rows, (1, 3)), x[[4, 0, 4, 0]])
    filled = x[[4, 0, 4, 0]].copy()
    filled[2] = np.nan
    same(lax.gather(x, at, rows, (1, 3), mode="fill"), filled)
    i = (10 * x).astype(np.int32)
    filled = i[[4, 0, 4, 0]].copy()
    filled[2] = np.iinfo(np.int32).min
    same(lax.gather(i, at, rows, (1, 3), mode=lax.GatherScatterMode.FILL_OR_DROP), filled)
    updates, into = floats(4, 3), lax.ScatterDimensionNumbers((1,), (0,), (0,))
    expected = x.copy()
    expected[4], expected[0] = updates[0], updates[3]
    same(lax.scatter(x, at, updates, into), expected)
    expected[4] = updates[2]
    same(lax.scatter(x, at, updates, into, mode="clip"), expected)
    expected = x.copy()
    np.add.at(expected, [4, 0, 0], updates[[0, 1, 3]])
    same(lax.scatter_add(x, at, updates, into), expected, rtol=1e-6)
    doubled = x.copy()
    doubled[[4, 0]] *= 2
    same(lax.scatter_apply(x, at, lambda e: 2 * e, into, update_shape=(4, 3)), doubled)
    for match, call in (
        ("a size for each axis", lambda: lax.gather(x, at, rows, (1,))),
        ("which is 1 along those", lambda: lax.gather(x, at, rows, (2, 3))),
        (
            "last axis of the indices",
            lambda: lax.gather(x, at, rows._replace(start_index_map=(0, 1)), (1, 3)),
        ),
        ("do not have the axes", lambda: lax.gather(x, at, rows._replace(offset_dims=(0, 1)), (1, 3))),
        ("have no axes for the windows", lambda: lax.scatter(x, at, updates[:3], into)),
        ("mode 'wrap'", lambda: lax.gather(x, at, rows, (1, 3), mode="wrap")),
    ):
        with pytest.raises(ValueError, match=match):
            call()


def test_index_take() -> None:
    x, i, j = floats(4, 5, 2), np.array([0, -1, 2]), np.array([4, 1, -5])
    same(lax.index_take(x, (i, j), (0, 1)), x[i, j])
    same(lax.index_take(x, (j,), (1,)), np.moveaxis(x[:, j], 1, 0))
    with pytest.raises(ValueError, match="vectors of one length"):
        lax.index_take(x, (i, j[:2]), (0, 1))
