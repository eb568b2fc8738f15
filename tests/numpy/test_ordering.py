"""Elements by position and order: take, sort, search, count, and shapes that depend on values."""

from __future__ import annotations

import numpy as np
import pytest

import tinyfn.numpy as tnp
from tests.numpy.checks import agree, check_gradient, close, numbers
from tinyfn.trace.errors import TracerError
from tinyfn.transforms import grad, jit, vmap


def test_take() -> None:
    x = numbers("float32", (3, 4))
    index = np.array([[0, 2], [-1, 1]])
    agree(
        lambda m, x, i: (m.take(x, i, axis=0), m.take(x, i, axis=1), m.take(x, i), m.take(x, 1, axis=1)),
        x,
        index,
    )
    data = tnp.array([0, 5, -5])
    close(tnp.take(tnp.asarray(x), data, 1), np.stack([x[:, 0], [np.nan] * 3, [np.nan] * 3], 1))
    close(jit(lambda x, i: tnp.take(x, i, 1))(x, data), np.stack([x[:, 0], [np.nan] * 3, [np.nan] * 3], 1))
    assert tnp.take(tnp.arange(3), data).tolist() == [0, -(2**31), -(2**31)]
    close(tnp.take(tnp.asarray(x), data, 1, mode="clip"), x[:, [0, 3, 0]])
    close(tnp.take(tnp.asarray(x), data, 1, mode="wrap"), x[:, [0, 1, 3]])
    close(tnp.take(tnp.asarray(x), data, 1, fill_value=7.0), np.stack([x[:, 0], [7] * 3, [7] * 3], 1))
    with pytest.raises(IndexError, match="out of bounds"):
        tnp.take(x, 4, 1)
    agree(lambda m, x: m.take_along_axis(x, m.argsort(x, axis=1), axis=1), x)
    agree(
        lambda m, x, i: (m.take_along_axis(x, i, axis=0), m.take_along_axis(x[:1], i, axis=1)),
        x,
        np.zeros((2, 4), np.int32),
    )
    result = tnp.take_along_axis(tnp.asarray(x), tnp.array([[9], [0], [-9]]), 1)
    close(result, [[np.nan], [x[1, 0]], [np.nan]])
    check_gradient(lambda m, x: m.take_along_axis(x, m.array([[0, 0], [1, 3], [2, 2]]), 1), x)
    check_gradient(lambda m, x: m.take(x, m.array([0, 0, 2, 7]), 0, fill_value=0.0), x)
    expected = x.copy()
    np.put_along_axis(expected, np.array([[1], [0], [3]]), 9, 1)
    close(tnp.put_along_axis(tnp.asarray(x), tnp.array([[1], [0], [3]]), 9, 1, inplace=False), expected)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "uint32", "bool"])
def test_sort(dtype: str) -> None:
    x = numbers(dtype, (3, 5))
    for axis in (0, 1, -1, None):
        agree(lambda m, x: (m.sort(x, axis=axis), m.argsort(x, axis=axis, stable=True)), x)
    close(tnp.sort(tnp.asarray(x), descending=True), np.flip(np.sort(x), -1))
    assert tnp.sort(tnp.asarray(x)).dtype == x.dtype
    assert tnp.argsort(tnp.array([1, 2, 1, 2]), descending=True).tolist() == [1, 3, 0, 2]


def test_order() -> None:
    x = np.array([[3.0, np.nan, 1.0, -np.inf], [2.0, 2.0, np.inf, 0.0]], np.float32)
    agree(lambda m, x: (m.sort(x), m.argsort(x, stable=True)), x)
    check_gradient(
        lambda m, x: (m.sort(x, axis=0), m.top_k(x, 2)[0]) if m is tnp else x,
        np.random.default_rng(0).permutation(12).reshape(3, 4) * 0.7,
    )
    values, positions = tnp.top_k(tnp.array([1.0, 5.0, 3.0, 5.0]), 3)
    assert values.tolist() == [5, 5, 3] and positions.tolist() == [1, 3, 2]
    agree(lambda m, a, b: m.lexsort((a, b)), np.array([3, 1, 2, 1]), np.array([1, 0, 1, 0]))
    close(vmap(tnp.sort)(tnp.asarray(x)), np.sort(x))
    line = np.array([0.0, 1.0, 1.0, 2.5, np.inf], np.float32)
    for side in ("left", "right"):
        agree(
            lambda m, a, v: m.searchsorted(a, v, side=side),
            line,
            np.array([[-1, 0, 0.5], [1, 9, np.nan]], np.float32),
        )
        agree(lambda m, a, v: m.searchsorted(a, v, side=side), np.zeros(0, np.float32), line)
    for right in (False, True):
        agree(
            lambda m, x, b: (m.digitize(x, b, right), m.digitize(x, b[::-1], right)),
            line,
            np.array([0.0, 1.0, 2.0], np.float32),
        )
    points = np.array([-1.0, 0.0, 0.3, 1.7, 2.0, 5.0])
    agree(
        lambda m, x, xp, fp: (m.interp(x, xp, fp), m.interp(x, xp, fp, left=-7.0, right=7.0)),
        points,
        np.array([0.0, 1.0, 2.0]),
        np.array([1.0, 3.0, -1.0]),
    )


def test_counting() -> None:
    x = np.array([0, 1, 1, 3, 2, 1])
    agree(
        lambda m, x: (m.bincount(x), m.bincount(x, minlength=6), m.bincount(x, x * 0.5)), x, under_jit=False
    )
    close(jit(lambda x: tnp.bincount(x, length=3))(x), [1, 3, 1])
    y = numbers("float32", (50,))
    agree(
        lambda m, y: (
            list(m.histogram(y))
            + list(m.histogram(y, 4, (-1.0, 1.0)))
            + [m.histogram(y, m.asarray([-2.0, 0.0, 2.0]))[0]]
        ),
        y,
    )
    agree(lambda m, y: m.histogram(y, 5, density=True)[0], y)
    agree(lambda m, x: (m.isin(x, m.asarray([1, 3])), m.isin(x, m.asarray([1]), invert=True)), x)
    agree(lambda m, i: list(m.unravel_index(i, (3, 4))), np.array([0, 5, 11]))
    agree(
        lambda m, i, j: m.ravel_multi_index((i, j), (3, 4)),
        np.array([0, 2]),
        np.array([3, 1]),
        under_jit=False,
    )
    agree(
        lambda m, i, j: m.ravel_multi_index((i, j), (3, 4), mode="clip"), np.array([0, 2]), np.array([3, 9])
    )


def test_shapes_that_depend_on_values() -> None:
    x = np.array([[0, 3, 0], [5, 0, 3]])
    agree(
        lambda m, x: (list(m.nonzero(x)), m.argwhere(x), m.flatnonzero(x), list(m.where(x))),
        x,
        under_jit=False,
    )
    agree(
        lambda m, x: (
            m.unique(x),
            list(m.unique(x, return_counts=True, return_inverse=True, return_index=True)),
        ),
        x,
        under_jit=False,
    )
    agree(
        lambda m, x: (m.compress(m.array([True, False]), x, axis=0), m.extract(x > 2, x)), x, under_jit=False
    )
    agree(
        lambda m, x: (
            m.delete(x, 1, axis=1),
            m.delete(x, [0, 2]),
            m.insert(x, 1, 9, axis=1),
            m.insert(x, [0, 2], 7),
        ),
        x,
        under_jit=False,
    )
    agree(lambda m, x: list(m.ix_(m.array([0, 1]), m.array([True, False, True]))), x, under_jit=False)
    rows, columns = jit(lambda x: tnp.nonzero(x, size=4, fill_value=-1))(x)
    assert rows.tolist() == [0, 1, 1, -1] and columns.tolist() == [1, 0, 2, -1]
    assert tnp.flatnonzero(tnp.asarray(x), size=2).tolist() == [1, 3]
    with pytest.raises(TracerError, match="size"):
        jit(tnp.nonzero)(x)
    with pytest.raises(TracerError, match="result's size"):
        jit(tnp.unique)(x)
    result = grad(lambda v: tnp.sum(v[tnp.nonzero(v > 1.0)[0]]))(tnp.array([0.0, 2.0, 3.0]))
    assert result.tolist() == [0, 1, 1]
