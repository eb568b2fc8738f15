"""tinyfn.lax: arrays that are made, and elements that move."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lax.checks import everywhere, floats, padded, same
from tinyfn import lax
from tinyfn.transforms import grad, jit


def test_making() -> None:
    same(lax.full((2, 3), 7), np.full((2, 3), 7, np.int32))
    same(lax.full((2,), 3.7, np.int32), np.array([3, 3], np.int32))
    same(lax.full((), True), np.array(True))
    same(lax.full_like(floats(2, 3), 4), np.full((2, 3), 4, np.float32))
    same(lax.full_like(floats(2, 3), 4, "int8", (5,)), np.full(5, 4, np.int8))
    same(lax.iota("float32", 4), np.arange(4, dtype=np.float32))
    same(lax.broadcasted_iota(np.int32, (2, 3), 0), np.array([[0, 0, 0], [1, 1, 1]], np.int32))
    same(jit(lambda v: lax.full((2,), v))(np.float32(3)), np.full(2, 3, np.float32))
    with pytest.raises(TypeError, match="scalar"):
        lax.full((2,), np.ones(2))


def test_moving() -> None:
    x = floats(2, 3, 4)
    everywhere(lambda v: lax.reshape(v, (4, -1)), x.reshape(4, 6), x)
    everywhere(lambda v: lax.reshape(v, 24, (2, 0, 1)), x.transpose(2, 0, 1).reshape(24), x)
    everywhere(lambda v: lax.transpose(v, (2, 0, -2)), x.transpose(2, 0, 1), x)
    everywhere(lambda v: lax.broadcast(v, (5, 1)), np.broadcast_to(x, (5, 1, 2, 3, 4)), x)
    everywhere(
        lambda v: lax.broadcast_in_dim(v, (2, 5, 3, 4), (0, 2, 3)),
        np.broadcast_to(x[:, None], (2, 5, 3, 4)),
        x,
    )
    everywhere(lambda v: lax.expand_dims(v, (0, -2)), x[None, :, :, None], x)
    everywhere(lambda v: lax.squeeze(lax.slice_in_dim(v, 1, 2, axis=1), (1,)), x[:, 1], x)
    everywhere(lambda v: lax.collapse(v, 1), x.reshape(2, 12), x)
    everywhere(lambda v: lax.collapse(v, 0, 2), x.reshape(6, 4), x)
    everywhere(lambda v: lax.collapse(v, 1, 1), x[:, None], x)
    everywhere(lambda v: lax.broadcast_to_rank(v, 5), x[None, None], x)
    everywhere(lambda v: lax.rev(v, (0, -1)), x[::-1, :, ::-1], x)
    everywhere(lambda v: lax.concatenate([v, v, v], -2), np.concatenate([x, x, x], 1), x)
    everywhere(lambda v: lax.split(v, (1, 0, 3), 2)[2], x[:, :, 1:], x)
    everywhere(lambda v: lax.slice(v, (0, 1, 0), (2, 3, 4), (1, 2, 3)), x[:, 1:3:2, ::3], x)
    everywhere(lambda v: lax.slice_in_dim(v, -3, None, 2, 2), x[:, :, -3::2], x)
    for call in (
        lambda: lax.reshape(x, (5, -1)),
        lambda: lax.reshape(x, (5, 5)),
        lambda: lax.transpose(x, (0, 1)),
        lambda: lax.transpose(x, (0, 1, 1)),
        lambda: lax.squeeze(x, (0,)),
        lambda: lax.slice_in_dim(x, 1, 9, axis=1),
        lambda: lax.split(x, (1, 1), 2),
        lambda: lax.concatenate([], 0),
        lambda: lax.rev(x, (3,)),
        lambda: lax.expand_dims(x, (0, 0)),
        lambda: lax.collapse(x, 2, 1),
        lambda: lax.broadcast_in_dim(x, (2, 2), (0, 1)),
    ):
        with pytest.raises(ValueError):
            call()


def test_tiles_and_stacks() -> None:
    x, y = floats(2, 3), floats(2, 3)
    everywhere(lambda x: lax.tile(x, (2, 3)), np.tile(x, (2, 3)), x)
    same(lax.tile(x, (0, 1)), np.tile(x, (0, 1)))
    for axis in (0, 1, -1):
        everywhere(lambda x, y, axis=axis: lax.stack([x, y], axis), np.stack([x, y], axis), x, y)
        for piece, wanted in zip(lax.unstack(x, axis), np.moveaxis(x, axis, 0), strict=True):
            same(piece, wanted)
    same(lax.empty((2, 0), "int8"), np.zeros((2, 0), np.int8))
    same(lax.shape_as_value((2, 5)), np.array([2, 5], np.int32))
    same(lax.shape_as_value(()), np.zeros(0, np.int32))
    assert lax.dtype(x) == np.float32 and lax.dtype(1) == np.int32 and lax.dtype(2.0) == np.float32
    for call in (lambda: lax.tile(x, (2,)), lambda: lax.stack([])):
        with pytest.raises(ValueError, match="needs"):
            call()


@pytest.mark.parametrize(
    "config",
    [
        [(1, 2, 0), (0, 0, 0)],
        [(0, 0, 2), (3, 0, 1)],
        [(-1, 2, 1), (2, -3, 0)],
        [(-2, -2, 3), (0, -1, 0)],
        [(-4, 3, 0), (-5, 6, 0)],
        [(0, 0, 0), (0, 0, 0)],
        [(-1, 0, 0), (0, -1, 2)],
    ],
)
def test_pad(config: list[tuple[int, int, int]]) -> None:
    for shape in ((3, 4), (1, 4), (5, 6)):
        if shape == (1, 4) and config[0][0] < -1:
            continue
        x = floats(*shape)
        everywhere(lambda v: lax.pad(v, 7.5, config), padded(x, 7.5, config), x)
    weights = floats(*padded(floats(3, 4), 0, config).shape)
    loss = lambda v: lax.reduce_sum(lax.mul(lax.pad(v, 0.0, config), weights), (0, 1))
    ones = np.eye(12).reshape(12, 3, 4).astype(np.float32)
    expected = [np.sum(padded(one, 0.0, config) * weights) for one in ones]
    np.testing.assert_allclose(np.asarray(grad(loss)(floats(3, 4))).ravel(), expected, rtol=1e-6)


def test_sizes_that_are_none() -> None:
    for call, sizes in (
        (lambda: lax.full((2, -1), 1), "[2,-1]"),
        (lambda: jit(lambda: lax.full((-1,), 1.0))(), "[-1]"),
        (lambda: lax.broadcast(1.0, (-1,)), "[-1]"),
        (lambda: lax.broadcast_in_dim(floats(3), (-2, 3), (1,)), "[-2,3]"),
        (lambda: lax.reshape(floats(4), (-2, -2)), "[-2,-2]"),
        (lambda: lax.iota("int32", -3), "[-3]"),
    ):
        with pytest.raises(ValueError, match="has a negative size") as raised:
            call()
        assert sizes in str(raised.value)
    for shape in (2.5, (2.5,), "ab"):
        with pytest.raises(TypeError, match="shapes and sizes are made of integers"):
            lax.full(shape, 1)  # type: ignore[arg-type]
    assert lax.broadcast_shapes() == ()


def test_pad_errors() -> None:
    with pytest.raises(ValueError, match="more elements away"):
        lax.pad(floats(3), 0.0, [(-2, -2, 0)])
    with pytest.raises(ValueError, match="each of its axes"):
        lax.pad(floats(3), 0.0, [])
