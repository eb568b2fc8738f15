"""Sorts and searches for the greatest elements within programs: the one stable order, by native code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import lax, random
from tinyfn.devices import default_device, set_default_device
from tinyfn.devices.threads import num_threads, set_num_threads
from tinyfn.trace import dtype as dtypes

DTYPES = [dtypes.bool_, *dtypes.INTEGERS, *dtypes.FLOATS]


def elements(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Elements with many ties, and of all kinds that there are."""
    generator = np.random.default_rng(len(shape))
    if dtypes.is_float(dtype):
        special = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-7, -1e-7]
        x = np.where(
            generator.random(shape) < 0.3, generator.choice(special, shape), generator.normal(size=shape)
        )
        return x.astype(dtype)
    if dtype is dtypes.bool_:
        return generator.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    return generator.choice(np.array([info.min, info.max, 0, 1, info.max // 3, info.max // 2], dtype), shape)


def order(x: np.ndarray, descending: bool) -> np.ndarray:
    """The stable order along the last axis, by Python's sort, which is stable in both directions."""
    if not x.shape[-1]:
        return np.zeros(x.shape, np.int32)

    def key(row: np.ndarray) -> Any:
        return lambda i: (bool(np.isnan(row[i])), 0 if np.isnan(row[i]) else row[i])

    rows = x.astype(np.float64) if dtypes.is_float(dtypes.canonical(x.dtype)) else x
    found = [
        sorted(range(x.shape[-1]), key=key(row), reverse=descending) for row in rows.reshape(-1, x.shape[-1])
    ]
    return np.array(found, np.int32).reshape(x.shape)


def bits(x: Any) -> bytes:
    return np.asarray(x).tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=dtypes.name)
def test_the_order_of_every_dtype_is_the_stable_one(dtype: Any) -> None:
    for n in (1, 2, 33, 65, 300):
        x = elements(dtype, (3, n))
        for descending in (False, True):
            expected = order(x, descending)
            found = tinyfn.jit(lambda x, d=descending: tnp.argsort(x, descending=d))(x)
            assert found.dtype == np.int32
            np.testing.assert_array_equal(found, expected)
            values = tinyfn.jit(lambda x, d=descending: tnp.sort(x, descending=d))(x)
            assert bits(values) == bits(np.take_along_axis(x, expected, -1))
            assert bits(tnp.sort(tnp.array(x), descending=descending)) == bits(values)
        for k in sorted({1, min(n, 8), min(n, 64), min(n, 100)}):
            values, found = tinyfn.jit(lambda x, k=k: lax.top_k(x, k))(x)
            np.testing.assert_array_equal(found, expected[:, :k])
            assert bits(values) == bits(np.take_along_axis(x, expected[:, :k], -1))


@pytest.mark.parametrize("n", [5, 300])
def test_rising_falling_and_equal_elements(n: int) -> None:
    for row in (np.arange(n), np.arange(n)[::-1], np.zeros(n)):
        x = row.astype(np.float32)
        np.testing.assert_array_equal(tinyfn.jit(tnp.argsort)(x), np.argsort(x, kind="stable"))
        np.testing.assert_array_equal(tinyfn.jit(lambda x: lax.top_k(x, 4))(x)[1], order(x, True)[:4])


@pytest.mark.parametrize("axis", [0, 1, 2, -1, None])
def test_axes(axis: int | None) -> None:
    x = elements(dtypes.float32, (4, 70, 3))
    for function in (tnp.sort, tnp.argsort):
        for descending in (False, True):
            sorts = lambda x, f=function, d=descending: f(x, axis, descending=d)
            assert bits(tinyfn.jit(sorts)(x)) == bits(sorts(tnp.array(x)))
    if axis is not None:
        found = tinyfn.jit(lambda x: tnp.top_k(x, 2, axis=axis))(x)
        expected = np.moveaxis(order(np.moveaxis(x, axis, -1), True)[..., :2], -1, axis)
        np.testing.assert_array_equal(found[1], expected)
        assert bits(found[0]) == bits(np.take_along_axis(x, expected, axis))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (1,), (1, 1)])
def test_empty_and_single(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    assert tinyfn.jit(tnp.sort)(x).shape == shape
    np.testing.assert_array_equal(tinyfn.jit(tnp.argsort)(x), np.zeros(shape, np.int32))
    assert tinyfn.jit(lambda x: lax.top_k(x, 0))(x)[1].shape == (*shape[:-1], 0)


@pytest.mark.parametrize("k", [5, 300])
def test_bits_do_not_depend_on_threads(k: int) -> None:
    x = elements(dtypes.float32, (700, 300))
    before = num_threads()
    try:
        found = []
        for threads in (1, 2, 3):
            set_num_threads(threads)
            found.append(bits(tinyfn.jit(lambda x: lax.top_k(x, k))(x)[1]))
    finally:
        set_num_threads(before)
    assert found[0] == found[1] == found[2] == order(x, True)[:, :k].tobytes()


def test_one_long_row() -> None:
    x = np.random.default_rng(0).integers(-(10**9), 10**9, 200_001)
    for y in (x.astype(np.int32), x.astype(np.float32), x, x.astype(np.float64) / 7):
        np.testing.assert_array_equal(tinyfn.jit(tnp.argsort)(y), np.argsort(y, kind="stable"))


def test_no_python_within_loops() -> None:
    def beam(table: Any, tokens: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            scores, tokens = carry
            best, at = lax.top_k((scores[:, None] + table[tokens]).ravel(), 4)
            return (best, at % table.shape[1]), (tnp.sort(table[0] + best[0]), tnp.median(best))

        return lax.scan(step, (tnp.zeros(4), tokens), None, length=6)

    table = tnp.asarray(np.random.default_rng(0).normal(size=(90, 90)).astype(np.float32))
    tokens = tnp.arange(4)
    lowered = tinyfn.jit(beam).lower(table, tokens)
    assert lowered.summary == "1 kernel, 1 loop or branch"
    for found, expected in zip(
        tinyfn.tree.leaves(tinyfn.jit(beam)(table, tokens)),
        tinyfn.tree.leaves(beam(table, tokens)),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)


def test_what_a_program_shows() -> None:
    x = np.zeros((7, 500), np.float32)
    lowered = tinyfn.jit(lambda x: lax.top_k(x, 3)[1]).lower(x)
    assert lowered.summary == "0 kernels, 1 sort" and "sort: 3 of 500" in str(lowered)
    assert tinyfn.jit(lambda x: tnp.sort(x)).lower(x).summary == "1 kernel, 1 sort"
    assert "call of NumPy" in tinyfn.jit(lambda x: tnp.argsort(x)).lower(x.astype(np.complex64)).summary


def test_derivatives_and_lanes() -> None:
    x = np.random.default_rng(0).permutation(140).reshape(2, 70).astype(np.float32)
    weights = np.arange(70, dtype=np.float32)
    gradient = tinyfn.jit(tinyfn.grad(lambda x: (tnp.sort(x, -1) * weights).sum()))(x)
    np.testing.assert_array_equal(gradient, np.argsort(np.argsort(x, -1), -1))
    chosen = tinyfn.jit(tinyfn.grad(lambda x: lax.top_k(x, 3)[0].sum()))(x)
    np.testing.assert_array_equal(chosen, x >= np.sort(x, -1)[:, -3:-2])
    primal, tangent = tinyfn.jit(lambda x: tinyfn.jvp(lambda y: lax.top_k(y, 3), (x,), (2 * x,)))(x)
    np.testing.assert_array_equal(tangent[0], 2 * primal[0])
    lanes = tinyfn.jit(tinyfn.vmap(lambda row: lax.top_k(row, 5)))(x)
    np.testing.assert_array_equal(lanes[1], order(x, True)[:, :5])
    columns = tinyfn.jit(tinyfn.vmap(tnp.argsort, in_axes=1, out_axes=1))(x)
    np.testing.assert_array_equal(columns, np.argsort(x, 0, kind="stable"))


def test_symbolic_sizes() -> None:
    (n,) = tinyfn.export.symbolic_shape("n")
    sorts = tinyfn.jit(lambda x: (tnp.sort(x), tnp.argsort(x, descending=True)))
    compiled = sorts.lower(tinyfn.ShapeDtypeStruct((n,), "float32")).compile()
    for size in (1, 9, 100):
        x = elements(dtypes.float32, (size,))
        values, positions = compiled(x)
        assert bits(values) == bits(np.take_along_axis(x, order(x, False), -1))
        np.testing.assert_array_equal(positions, order(x, True))


def test_step_by_step() -> None:
    x = elements(dtypes.float32, (3, 80))
    before = default_device()
    try:
        set_default_device("numpy")
        values, positions = tinyfn.jit(lambda x: lax.top_k(x, 7))(x)
    finally:
        set_default_device(before)
    np.testing.assert_array_equal(positions, order(x, True)[:, :7])
    assert bits(values) == bits(np.take_along_axis(x, order(x, True)[:, :7], -1))


def test_permutations_are_native() -> None:
    shuffled = tinyfn.jit(lambda key: random.permutation(key, 1000))
    assert "NumPy" not in shuffled.lower(random.key(0)).summary
    np.testing.assert_array_equal(np.sort(shuffled(random.key(0))), np.arange(1000))


def test_a_scalar_has_no_order() -> None:
    with pytest.raises(ValueError, match="axis"):
        tnp.argsort(tnp.array(1.0), axis=-1)
