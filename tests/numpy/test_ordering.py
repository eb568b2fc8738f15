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
    agree(lambda m, x, fp: m.interp(x, x[::2], fp), points, np.array([1j, 2.0, 3 - 1j]))
    for function in (tnp.partition, tnp.argpartition):
        assert function(tnp.array([3, 1, 2]), -1).shape == (3,)
        for place in (3, -4):
            with pytest.raises(ValueError, match=rf"kth={place} is not within axis -1 of int32\[3\]"):
                function(tnp.array([3, 1, 2]), place)


def large_sets(dtype: str) -> list[np.ndarray]:
    """Two arrays of which a table of all pairs would be large, with what compares in its own way."""
    sets = [numbers("int32", (2000,), -3000, 3000, seed).astype(dtype) for seed in (0, 1)]
    if dtype == "float32":
        for x in sets:
            x[:5] = [np.nan, np.inf, -np.inf, 0.0, -0.0]
    return sets


def test_counting() -> None:
    for dtype in ("uint8", "int64", "bool"):
        agree(lambda m, x: m.bincount(x), np.array([1, 0, 1]).astype(dtype), under_jit=False)
    assert tnp.bincount(tnp.zeros(0, "uint8")).shape == (0,)
    x = np.array([0, 1, 1, 3, 2, 1])
    agree(
        lambda m, x: (m.bincount(x), m.bincount(x, minlength=6), m.bincount(x, x * 0.5)), x, under_jit=False
    )
    close(jit(lambda x: tnp.bincount(x, length=3))(x), [1, 3, 1])
    y = numbers("float32", (50,))
    for options in ((), (4, (-1.0, 1.0)), (np.array([-2.0, 0.0, 2.0], np.float32),)):
        # The counts are floats, as in JAX.
        agree(lambda m, y: [1.0 * found for found in m.histogram(y, *options)], y)
    agree(lambda m, y: m.histogram(y, 5, density=True)[0], y)
    agree(lambda m, x: (m.isin(x, m.asarray([1, 3])), m.isin(x, m.asarray([1]), invert=True)), x)
    agree(lambda m, x, y: m.isin(x, y), *large_sets("float32"))
    agree(lambda m, x, y: m.intersect1d(x, y), *large_sets("int32"), under_jit=False)
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


def test_put_and_place() -> None:
    x = numbers("float32", (3, 4))
    for mode in ("clip", "wrap"):
        for positions, values in (
            ([0, 5], [7.0, 8.0]),
            ([1, 2, 20, -3], [9.0]),
            ([[3, 3], [1, 0]], [1.0, 2.0, 3.0]),
        ):
            wanted = x.copy()
            np.put(wanted, positions, values, mode)
            # A negative position is counted from the end, where NumPy's "clip" makes it 0.
            if mode == "wrap" or min(np.ravel(positions)) >= 0:
                close(tnp.put(x, positions, values, mode, inplace=False), wanted)
                close(
                    jit(lambda x, v, p=positions, m=mode: tnp.put(x, np.array(p), v, m, inplace=False))(
                        x, np.array(values)
                    ),
                    wanted,
                )
    mask, values = numbers("bool", (3, 4)), np.array([1.0, 2.0, 3.0], np.float32)
    wanted = x.copy()
    np.place(wanted, mask, values)
    close(tnp.place(x, mask, values, inplace=False), wanted)
    close(jit(lambda x, m, v: tnp.place(x, m, v, inplace=False))(x, mask, values), wanted)
    for call in (lambda: tnp.put(x, 0, 1), lambda: tnp.place(x, mask, values)):
        with pytest.raises(ValueError, match=r"inplace=False: arrays do not change"):
            call()
    with pytest.raises(IndexError):
        tnp.put(x, np.array([12]), 1.0, inplace=False)


def test_sort_complex() -> None:
    x = (numbers("float32", (2, 5)).round() + 1j * numbers("float32", (2, 5), seed=1)).astype(np.complex64)
    close(tnp.real(tnp.sort_complex(x)), np.sort_complex(x).real)
    close(tnp.imag(tnp.sort_complex(x)), np.sort_complex(x).imag)
    assert tnp.sort_complex(tnp.array([3, 1, 2])).dtype == np.complex64
    assert tnp.sort_complex(np.array([3.0, 1.0])).dtype == np.complex128


@pytest.mark.parametrize(
    ("shape", "axis"), [((6, 2), 0), ((3, 5), 1), ((4, 2, 3), -2), ((4,), 0), ((3, 0), 0), ((5, 1), 0)]
)
def test_unique_slices_of_a_size(shape: tuple[int, ...], axis: int) -> None:
    x = np.random.default_rng(0).integers(0, 2, shape).astype(np.float32)
    wanted = np.unique(x, True, True, True, axis)
    count = wanted[0].shape[axis]
    for function in (tnp.unique, jit(tnp.unique, static_argnums=(1, 2, 3, 4), static_argnames="size")):
        for a, b in zip(function(x, True, True, True, axis, size=count), wanted, strict=True):
            close(a, b)
    padded = np.moveaxis(np.asarray(tnp.unique(x, axis=axis, size=count + 2, fill_value=-1)), axis, 0)
    close(padded[:count], np.moveaxis(wanted[0], axis, 0))
    assert (padded[count:] == -1).all() and len(padded) == count + 2


def test_compress_of_a_size() -> None:
    x, mask = np.arange(12.0).reshape(3, 4).astype("float32"), np.array([True, False, True, True])
    for size in (2, 3, 5):
        found = jit(lambda m, x, size=size: tnp.compress(m, x, 1, size=size, fill_value=-1))(mask, x)
        wanted = np.full((3, size), -1, "float32")
        wanted[:, : min(size, 3)] = np.compress(mask, x, 1)[:, :size]
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(tnp.compress(mask, x, -1), np.compress(mask, x, -1))
    assert jit(lambda x: tnp.extract(x > 8, x, size=4))(x).tolist() == [9, 10, 11, 0]
