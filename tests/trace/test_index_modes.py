"""Modes of reads and writes for positions out of bounds: all methods, hints, dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tinyfn.numpy as tnp
from tests.trace.test_indexing import numbers, quick
from tinyfn import lax
from tinyfn.transforms import grad, jit


def test_positions_that_are_data_follow_the_mode() -> None:
    x = tnp.asarray(numbers((4,)))
    index = tnp.array([0, 4, -5, -1, 2**31 - 1])
    for run in (lambda f, *xs: f(*xs), lambda f, *xs: jit(f)(*xs)):
        assert run(lambda x, i: x[i], x, index).tolist() == [1, 2.5, 1, 2.5, 2.5]
        assert run(lambda x, i: x.at[i].get(mode="clip"), x, index).tolist() == [1, 2.5, 1, 2.5, 2.5]
        filled = run(lambda x, i: x.at[i].get(mode="fill"), x, index).tolist()
        assert np.isnan(filled).tolist() == [False, True, True, False, True]
        assert run(lambda x, i: x.at[i].get(mode="fill", fill_value=9), x, index).tolist() == [
            1,
            9,
            9,
            2.5,
            9,
        ]
        integers = run(lambda x, i: x.astype("int8").at[i].get(mode="fill"), x, index).tolist()
        assert integers == [1, -128, -128, 2, -128]
        assert run(lambda x, i: x.astype("uint8").at[i].get(mode="drop"), x, index).tolist() == [
            1,
            255,
            255,
            2,
            255,
        ]
        for mode in (None, "drop", "fill"):
            assert run(lambda x, i: x.at[i].set(0, mode=mode), x, index).tolist() == [0, 1.5, 2, 0]
            assert run(lambda x, i: x.at[i].add(1, mode=mode), x, index).tolist() == [2, 1.5, 2, 3.5]
        assert run(lambda x, i: x.at[i].add(1, mode="clip"), x, index).tolist() == [3, 1.5, 2, 5.5]
    for dtype in ("uint8", "uint32", "uint64", "int8", "int64"):
        assert jit(lambda x, i: x[i])(x, tnp.array([3, 100], dtype)).tolist() == [2.5, 2.5]
    assert jit(lambda x, i: x[i])(x, -9).tolist() == 1 and x[tnp.array(7)].tolist() == 2.5
    assert (
        x.at[9].get(mode="fill", fill_value=-1.0).tolist() == -1
        and x.at[9].set(5, mode="drop").tolist() == x.tolist()
    )
    assert x.at[9].set(5, mode="clip").tolist() == [1, 1.5, 2, 5]


def test_modes_may_be_those_of_lax() -> None:
    x, index = tnp.array([1, 2, 3]), tnp.array([1, 7])
    for mode, read, added in (
        (lax.GatherScatterMode.CLIP, [2, 3], [1, 12, 13]),
        (lax.GatherScatterMode.FILL_OR_DROP, [2, -(2**31)], [1, 12, 3]),
    ):
        assert x.at[index].get(mode=mode).tolist() == read
        assert jit(lambda x, i, mode=mode: x.at[i].add(10, mode=mode))(x, index).tolist() == added
    assert x.at[1].get(mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS) == 2


def test_gradients_follow_the_mode() -> None:
    x, index = tnp.asarray(numbers((4,))), tnp.array([1, 4, -6, 1])
    assert grad(lambda x: tnp.sum(x[index]))(x).tolist() == [1, 2, 0, 1]
    assert grad(lambda x: tnp.sum(x.at[index].get(mode="fill", fill_value=0)))(x).tolist() == [0, 2, 0, 0]
    values = tnp.array([1.0, 2.0, 3.0, 4.0])
    of_x, of_values = grad(lambda x, v: tnp.sum(x.at[index].set(v) * tnp.arange(1.0, 5.0)), argnums=(0, 1))(
        x, values
    )
    assert of_x.tolist() == [1, 0, 3, 4] and of_values.tolist() == [0, 0, 0, 2]
    assert grad(lambda v: tnp.sum(x.at[index].add(v, mode="clip")))(values).tolist() == [1, 1, 1, 1]


METHODS = ("get", "set", "add", "subtract", "multiply", "divide", "power", "min", "max", "apply")


@st.composite
def positions_beyond(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """A shape, and an index with arrays of positions of which some are out of bounds, among slices and new axes."""
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    batch = draw(st.sampled_from([(), (3,), (2, 2)]))
    items: list[Any] = []
    for n in shape:
        if draw(st.booleans()):
            items.append(draw(hnp.arrays(np.int32, batch, elements=st.integers(-2 * n - 1, 2 * n))))
        else:
            items.append(draw(st.sampled_from([slice(None), slice(None, None, -1), slice(0, 1)])))
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), None)
    return shape, tuple(items)


@settings(quick, max_examples=30)
@given(
    positions_beyond(),
    st.sampled_from(METHODS),
    st.sampled_from([None, "clip", "drop", "fill", "promise_in_bounds"]),
    st.sampled_from([np.float32, np.int32, np.complex64]),
)
def test_modes_of_all_methods(case: Any, method: str, mode: str | None, dtype: Any) -> None:
    """Against NumPy on an array with one more place along each axis, for what is out of bounds."""
    shape, index = case
    if method in ("min", "max", "divide", "power") and dtype is not np.float32:
        dtype = np.float32
    x = numbers(shape, dtype)
    beyond = np.pad(x, [(0, 1)] * len(shape), constant_values=0)
    clips = mode in ("clip", "promise_in_bounds") or (method == "get" and mode is None)
    sizes, moved = iter(shape), []
    for item in index:
        if item is None:
            moved.append(item)
            continue
        n = next(sizes)
        if isinstance(item, slice):
            moved.append(slice(n - 1, None, -1) if item.step == -1 else slice(*item.indices(n)))
            continue
        places = np.where(item < 0, item + n, item)
        moved.append(
            np.clip(places, 0, n - 1) if clips else np.where((places < 0) | (places >= n), n, places)
        )
    within = tuple([slice(0, n) for n in shape])
    marks = np.zeros(beyond.shape, bool)
    marks[within] = True
    picked = beyond[tuple(moved)]
    values = ((np.arange(picked.size).reshape(picked.shape) % 3) + 1).astype(dtype)
    if method == "get":
        expected = np.where(marks[tuple(moved)], picked, np.asarray(7, dtype))
    else:
        changed = beyond.copy()
        if method in ("divide", "power"):
            changed = np.ones_like(beyond)
            np.multiply.at(changed, tuple(moved), values)
            changed = beyond / changed if method == "divide" else beyond**changed
        elif method == "set":
            changed[tuple(moved)] = values
        elif method == "apply":
            changed[tuple(moved)] = picked * 3
        else:
            ufunc = {"min": np.minimum, "max": np.maximum}.get(method) or getattr(np, method)
            ufunc.at(changed, tuple(moved), values)
        expected = changed[within]

    def run(x: Any, values: Any, places: Any) -> Any:
        rest = iter(places)
        at = x.at[tuple([next(rest) if isinstance(i, np.ndarray) else i for i in index])]
        hints = {"mode": mode, "unique_indices": False, "indices_are_sorted": False}
        if method == "get":
            return at.get(fill_value=7, **hints)
        return (
            at.apply(lambda v: v * 3, **hints) if method == "apply" else getattr(at, method)(values, **hints)
        )

    places = [tnp.asarray(i) for i in index if isinstance(i, np.ndarray)]
    for function in (run, jit(run)):
        np.testing.assert_allclose(function(tnp.asarray(x), tnp.asarray(values), places), expected, rtol=1e-6)


def test_hints_about_the_positions_change_nothing() -> None:
    x, index = tnp.asarray(numbers((4,))), tnp.array([0, 2])
    hints = {"unique_indices": True, "indices_are_sorted": True}
    assert x.at[index].get(**hints).tolist() == x[index].tolist()
    for method in METHODS[1:-1]:
        np.testing.assert_array_equal(
            getattr(x.at[index], method)(2.0, **hints), getattr(x.at[index], method)(2.0)
        )


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "bfloat16", "float64", "complex128"])
def test_every_dtype_is_read_and_written(dtype: str) -> None:
    x = tnp.asarray(np.arange(6).reshape(2, 3) % 2).astype(dtype)

    def real(a: Any) -> Any:
        return np.asarray(tnp.real(a)).astype(int)

    index = (tnp.array([0, 1, 1]), tnp.array([2, 0, 0]))
    for run in (lambda f, *xs: f(*xs), lambda f, *xs: jit(f)(*xs)):
        found = run(lambda x, i: x[i], x, index)
        assert found.dtype == x.dtype and real(found).tolist() == [0, 1, 1]
        written = run(lambda x, i: x.at[i].set(1), x, index)
        assert written.dtype == x.dtype and real(written).tolist() == [[0, 1, 1], [1, 0, 1]]
        if dtype != "bool":
            added = run(lambda x, i: x.at[i].add(1), x, index)
            assert real(added).tolist() == [[0, 1, 1], [3, 0, 1]]
