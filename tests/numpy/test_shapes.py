"""Shapes, joining, rearranging, triangles against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyfn.numpy as tnp
from tests.numpy.checks import agree, check_gradient, close, numbers
from tinyfn.trace.errors import TracerError
from tinyfn.transforms import jit


def test_shapes() -> None:
    x = numbers("float32", (2, 3, 4))
    agree(
        lambda m, x: (
            m.reshape(x, (4, -1)),
            m.reshape(x, -1),
            m.reshape(x, (6, 4), order="F"),
            m.ravel(x),
            m.ravel(x, order="F"),
        ),
        x,
    )
    agree(
        lambda m, x: (
            m.transpose(x),
            m.transpose(x, (1, 0, 2)),
            m.swapaxes(x, 0, -1),
            m.matrix_transpose(x),
            x.T,
            x.mT,
        ),
        x,
    )
    agree(
        lambda m, x: (
            m.moveaxis(x, 0, -1),
            m.moveaxis(x, (0, 1), (-1, 0)),
            m.rollaxis(x, 2),
            m.rollaxis(x, 0, 3),
        ),
        x,
    )
    agree(
        lambda m, x: (
            m.expand_dims(x, 0),
            m.expand_dims(x, (1, -1)),
            m.squeeze(m.expand_dims(x, (0, 2))),
            m.squeeze(x[:1], 0),
        ),
        x,
    )
    agree(lambda m, x: (m.broadcast_to(x, (5, 2, 3, 4)), list(m.broadcast_arrays(x, x[:, :1], 1.0))), x)
    agree(
        lambda m, x: [
            f(y) for f in (m.atleast_1d, m.atleast_2d, m.atleast_3d) for y in (x, x[0], x[0, 0], x[0, 0, 0])
        ],
        x,
    )
    assert tnp.broadcast_shapes((2, 1), (3,)) == (2, 3) and tnp.broadcast_shapes() == ()
    agree(lambda m, x: m.reshape(x, (0, 3)), np.zeros((0, 2)))
    check_gradient(lambda m, x: m.moveaxis(m.reshape(x, (3, 2, 2)), 0, 2), numbers("float64", (3, 4)))
    for attempt in (
        lambda: tnp.reshape(x, (5, 5)),
        lambda: tnp.reshape(x, (-1, 5)),
        lambda: tnp.reshape(x, (-1, -1)),
        lambda: tnp.transpose(x, (0, 1)),
        lambda: tnp.squeeze(x, 0),
        lambda: tnp.broadcast_to(x, (2, 3)),
        lambda: tnp.moveaxis(x, 0, 3),
        lambda: tnp.expand_dims(x, 5),
        lambda: tnp.transpose(x, (0, 0, 1)),
    ):
        with pytest.raises(ValueError, match="test_shapes"):
            attempt()


def test_joining_and_splitting() -> None:
    x, y = numbers("float32", (2, 3)), numbers("float32", (2, 3), seed=1)
    agree(
        lambda m, x, y: (
            m.concatenate([x, y]),
            m.concatenate((x, y), axis=-1),
            m.concatenate([x, y], axis=None),
            m.concat([x]),
        ),
        x,
        y,
    )
    agree(lambda m, x, y: (m.stack([x, y]), m.stack([x, y], axis=-1), m.stack([x, y], 1)), x, y)
    agree(
        lambda m, x, y: (m.vstack([x, y]), m.hstack([x, y]), m.dstack([x, y]), m.column_stack([x, y[:, 0]])),
        x,
        y,
    )
    agree(
        lambda m, x, y: (
            m.vstack([x[0], y[0]]),
            m.hstack([x[0], y[0]]),
            m.column_stack([x[0], y[0]]),
            m.append(x, y, 0),
            m.append(x, y),
        ),
        x,
        y,
    )
    agree(
        lambda m, x: (
            m.split(x, 3, 1),
            m.split(x, [1, 2], axis=1),
            m.array_split(x, 2, 1),
            m.hsplit(x, 3),
            m.vsplit(x, 2),
        ),
        x,
    )
    agree(lambda m, x: (m.array_split(x, 4, 1), m.split(x, [2, 1, 5], axis=1), list(m.unstack(x, axis=1))), x)
    assert tnp.concatenate([tnp.ones(1, "int8"), tnp.ones(1, "float16")]).dtype == np.float16
    assert tnp.concatenate(tnp.ones((2, 3))).shape == (6,)
    check_gradient(lambda m, x, y: (m.concatenate([x, y, x], 1), m.stack([x, y]), m.split(x, 3, 1)), x, y)
    with pytest.raises(ValueError, match="equal parts"):
        tnp.split(x, 2, 1)
    with pytest.raises(ValueError, match="differ"):
        tnp.concatenate([x, x[:, :1]], 0)
    with pytest.raises(ValueError, match="different shapes"):
        tnp.stack([x, x[:1]])
    with pytest.raises(ValueError, match="at least one"):
        tnp.concatenate([])


def test_repeating_and_rearranging() -> None:
    x = numbers("float32", (2, 3))
    agree(lambda m, x: [m.tile(x, reps) for reps in (2, (2, 1), (2, 1, 3), (0,), ())], x)
    agree(lambda m, x: (m.repeat(x, 2), m.repeat(x, 3, axis=0), m.repeat(x, 0, axis=1)), x)
    agree(lambda m, x: m.repeat(x, np.array([1, 0, 2]), axis=1), x)
    close(
        jit(lambda x, n: tnp.repeat(x, n, total_repeat_length=4))(tnp.arange(3), tnp.array([1, 0, 3])),
        [0, 2, 2, 2],
    )
    agree(lambda m, x: (m.flip(x), m.flip(x, 0), m.flip(x, (0, 1)), m.flipud(x), m.fliplr(x)), x)
    agree(lambda m, x: (m.roll(x, 2), m.roll(x, -1, 1), m.roll(x, (1, 2), (0, 1)), m.roll(x, 7, 1)), x)
    close(jit(lambda x, n: tnp.roll(x, n, 1))(tnp.asarray(x), -4), np.roll(x, -4, 1))
    for shifts in ((1, 2), (-1, 5)):
        for given in (np.array(shifts), tnp.array(shifts)):
            close(tnp.roll(x, given, (0, 1)), np.roll(x, shifts, (0, 1)))
        close(jit(lambda x, n: tnp.roll(x, n, (0, 1)))(x, np.array(shifts)), np.roll(x, shifts, (0, 1)))
    agree(lambda m, x: [m.rot90(x, k) for k in range(-1, 5)], x)
    check_gradient(lambda m, x: (m.tile(x, (2, 2)), m.repeat(x, 2, 1), m.roll(x, 1, 1), m.rot90(x)), x)


@pytest.mark.parametrize(
    "mode",
    [
        "constant",
        "edge",
        "reflect",
        "symmetric",
        "wrap",
        "maximum",
        "minimum",
        "mean",
        "median",
        "linear_ramp",
    ],
)
def test_pad(mode: str) -> None:
    x = numbers("float32", (3, 4))
    for width in (1, (1, 2), ((0, 3), (2, 0)), ((7, 5), (6, 9)), 0):
        agree(lambda m, x: m.pad(x, width, mode), x)
    agree(lambda m, x: m.pad(x, ((2, 3), (1, 1)), mode), np.arange(6, dtype=np.int32).reshape(1, 6))
    check_gradient(
        lambda m, x: m.pad(x, ((2, 3), (1, 1)), mode),
        np.random.default_rng(0).permutation(6).reshape(2, 3) * 0.5,
    )


def test_pad_with_values() -> None:
    x = numbers("float32", (2, 3))
    agree(lambda m, x: m.pad(x, 1, constant_values=5), x)
    agree(lambda m, x: m.pad(x, ((1, 2), (3, 4)), constant_values=((1, 2), (3, 4))), x)
    agree(lambda m, x: m.pad(x, 2, "linear_ramp", end_values=3), x)
    agree(lambda m, x: m.pad(x, ((1, 2), (0, 1)), "linear_ramp", end_values=((1, 2), (3, 4))), x)
    agree(lambda m, x: m.pad(x, ((1, 2), (0, 1)), "linear_ramp", end_values=1j), x + 1j * x)
    agree(lambda m, x: m.pad(x, 3, "linear_ramp"), np.array([True, False]))
    with pytest.raises(ValueError, match="no mode"):
        tnp.pad(x, 1, "mirror")
    with pytest.raises(ValueError, match=r"mode 'edge' does not take stat_length.*test_shapes"):
        tnp.pad(x, 1, "edge", stat_length=2)
    with pytest.raises(
        ValueError, match=r"not n, \(before, after\), or such a pair for each axis of float32\[2,3\]"
    ):
        tnp.pad(x, ((1, 1), (1, 1), (1, 1)))


@pytest.mark.parametrize("mode", ["maximum", "minimum", "mean", "median"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_pad_with_statistics_of_the_ends(mode: str, dtype: str) -> None:
    x = numbers(dtype, (4, 5), 0, 100)
    for length in (1, 2, 9, (2, 3), ((1, 2), (3, 4))):
        agree(lambda m, x: m.pad(x, ((2, 1), (0, 3)), mode, stat_length=length), x)
    with pytest.raises(ValueError, match="stat_length must be 1 or more"):
        tnp.pad(x, 1, mode, stat_length=0)


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "complex64"])
def test_odd_reflections(mode: str, dtype: str) -> None:
    for shape in ((3, 4), (2, 1), (5, 3)):
        x = numbers(dtype, shape, 0, 100)
        for width in (1, ((0, 2), (3, 0)), ((7, 5), (6, 11))):
            agree(lambda m, x: m.pad(x, width, mode, reflect_type="odd"), x)
    x = np.array([1.0, np.inf, 3.0], np.float32)
    agree(lambda m, x: m.pad(x, 1, mode, reflect_type="odd"), x)
    check_gradient(
        lambda m, x: m.pad(x, ((5, 3), (1, 1)), mode, reflect_type="odd"), np.arange(6.0).reshape(2, 3)
    )
    with pytest.raises(ValueError, match="reflect_type must be 'even' or 'odd'"):
        tnp.pad(x, 1, mode, reflect_type="both")


def test_pad_by_a_function() -> None:
    def ends(vector: Any, widths: Any, axis: int, options: Any) -> Any:
        return vector.at[: widths[0]].set(options["value"] + axis).at[vector.shape[0] - widths[1] :].set(-1)

    def in_place(vector: Any, widths: Any, axis: int, options: Any) -> None:
        vector[: widths[0]] = options["value"] + axis
        vector[vector.shape[0] - widths[1] :] = -1

    x, widths = numbers("float32", (2, 3)), ((1, 2), (2, 1))
    close(tnp.pad(x, widths, ends, value=5), np.pad(x, widths, in_place, value=5))


def test_triangles_and_diagonals() -> None:
    x = numbers("float32", (3, 4))
    for k in range(-4, 6):
        agree(
            lambda m, x: (
                m.tril(x, k),
                m.triu(x, k),
                m.diagonal(x, k),
                m.diag(x, k),
                m.diag(x[0], k),
                m.trace(x, k),
            ),
            x,
        )
    y = numbers("float32", (2, 3, 4))
    agree(lambda m, y: (m.diagonal(y), m.diagonal(y, 1, 2, 0), m.trace(y, axis1=1, axis2=2), m.tril(y)), y)
    agree(lambda m, x: m.diagflat(x, -1), x)
    agree(lambda m: (m.tril_indices(3, 1, 4), m.triu_indices(3, -1), m.diag_indices(3)))
    bad = np.full((2, 2), np.nan, np.float32)
    agree(lambda m, x: (m.tril(x), m.diagonal(x)), bad)
    close(tnp.fill_diagonal(tnp.ones((2, 3)), 5, inplace=False), [[5, 1, 1], [1, 5, 1]])
    check_gradient(lambda m, x: (m.tril(x), m.diagonal(x, 1), m.diag(x[0]), m.trace(x)), x)


def test_resize_and_trim_zeros() -> None:
    x = numbers("float32", (2, 3))
    for shape in ((3, 3), (4,), 2, (0, 2), (2, 3)):
        close(tnp.resize(x, shape), np.resize(x, shape))
        close(jit(lambda x, shape=shape: tnp.resize(x, shape))(x), np.resize(x, shape))
    close(tnp.resize(x[:0], (2, 2)), np.zeros((2, 2)))
    for values in ([0, 0, 1, 0, 2, 0], [1, 2], [0, 0], []):
        for trim in ("f", "b", "fb"):
            close(tnp.trim_zeros(np.array(values), trim), np.trim_zeros(np.array(values), trim))
    square = np.zeros((4, 5), np.float32)
    square[1:3, 2] = 1
    assert tnp.trim_zeros(square).shape == (2, 1) and tnp.trim_zeros(square, axis=0).shape == (2, 5)
    assert tnp.trim_zeros(square, "f", axis=-1).shape == (4, 3)
    with pytest.raises(ValueError, match=r"trim must be"):
        tnp.trim_zeros(square, "x")
    with pytest.raises(TracerError, match=r"trim its zeros"):
        jit(tnp.trim_zeros)(square)


def test_fill_diagonal() -> None:
    for shape in ((3, 3), (5, 2), (2, 5), (3, 3, 3), (7, 2)):
        for wrap in (False, True):
            wanted = np.zeros(shape)
            np.fill_diagonal(wanted, [1, 2], wrap=wrap)
            close(tnp.fill_diagonal(tnp.zeros(shape), np.array([1.0, 2.0]), wrap, inplace=False), wanted)
    with pytest.raises(ValueError, match=r"axes have one size"):
        tnp.fill_diagonal(tnp.zeros((2, 3, 4)), 1, inplace=False)
    with pytest.raises(ValueError, match="fill_diagonal needs inplace=False"):
        tnp.fill_diagonal(tnp.zeros((2, 2)), 1)
