"""x[index] and x.at[index] against NumPy: drawn indices, known and traced; modes, errors, and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tinyfn.numpy as tnp
from tinyfn.trace.indexing import NonConcreteBooleanIndexError
from tinyfn.transforms import grad, jit, make_graph, vmap

quick = settings(max_examples=120, deadline=None, derandomize=True, database=None)


@st.composite
def shapes_and_indices(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """A shape, and an index of any mixture that is within it."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    batch = draw(st.sampled_from([(), (1,), (2,), (3,), (2, 3), (0,)]))
    items: list[Any] = []
    axis = 0
    used_dots = False
    while axis < len(shape):
        n = shape[axis]
        kind = draw(
            st.sampled_from(
                [
                    "int",
                    "slice",
                    "slice",
                    "array",
                    "array",
                    "list",
                    "mask",
                    "none",
                    "dots",
                    "scalar",
                    "bool",
                    "stop",
                ]
            )
        )
        if kind == "int":
            items.append(draw(st.integers(-n, n - 1)))
        elif kind == "scalar":
            items.append(np.array(draw(st.integers(-n, n - 1)), np.int32))
        elif kind == "slice":
            ends = st.none() | st.integers(-n - 1, n + 1)
            items.append(slice(draw(ends), draw(ends), draw(st.sampled_from([None, 1, 2, -1, -2, 3]))))
        elif kind in ("array", "list"):
            own = draw(st.sampled_from([batch, batch[1:], tuple(1 for _ in batch)]))
            dtype = draw(st.sampled_from([np.int32, np.int64, np.int8, np.uint8, np.uint64]))
            low = 0 if np.dtype(dtype).kind == "u" else -n
            array = draw(hnp.arrays(dtype, own, elements=st.integers(low, n - 1)))
            items.append(array.tolist() if kind == "list" and array.ndim and dtype == np.int32 else array)
        elif kind == "mask" and batch in ((2,), (3,)) and batch[0] <= n:
            mask = np.zeros(n, bool)
            mask[draw(st.permutations(range(n)))[: batch[0]]] = True
            items.append(mask)
        elif kind == "bool" and batch in ((), (1,)) and draw(st.integers(0, 3)) == 0:
            items.append(True)
            continue
        elif kind == "none":
            items.append(None)
            continue
        elif kind == "dots" and not used_dots:
            used_dots = True
            items.append(Ellipsis)
            axis += draw(st.integers(0, 1))
            continue
        elif kind == "stop":
            break
        else:
            continue
        axis += 1
    index = tuple(items)
    try:
        np.empty(shape)[index]
    except IndexError:  # what follows an Ellipsis may have been drawn for another axis
        reject()
    return shape, index


def numbers(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    return (np.arange(int(np.prod(shape))).reshape(shape) * 0.5 + 1).astype(dtype)


def split_index(index: Any) -> tuple[list[np.ndarray], Any]:
    """The integer arrays of an index, and a function that puts others in their place."""
    items = index if isinstance(index, tuple) else (index,)
    arrays = [i for i in items if isinstance(i, np.ndarray) and i.dtype != bool]

    def rebuild(new: Any) -> tuple[Any, ...]:
        rest = iter(new)
        return tuple([next(rest) if isinstance(i, np.ndarray) and i.dtype != bool else i for i in items])

    return arrays, rebuild


def variants(index: Any) -> list[tuple[str, Any]]:
    """Ways to evaluate f(x, index): known, known with arrays of ours, under jit, and with traced index
    arrays."""
    arrays, rebuild = split_index(index)
    own = [tnp.asarray(a) for a in arrays]
    return [
        ("known", lambda f, *xs: f(*xs, index)),
        ("own arrays", lambda f, *xs: f(*xs, rebuild(own))),
        ("jit", lambda f, *xs: jit(lambda *ys: f(*ys, index))(*xs)),
        ("traced", lambda f, *xs: jit(lambda new, *ys: f(*ys, rebuild(new)))(own, *xs)),
    ]


@quick
@given(shapes_and_indices())
def test_reads_agree_with_numpy(case: Any) -> None:
    shape, index = case
    x = numbers(shape)
    expected = x[index]
    for name, run in variants(index):
        result = run(lambda x, i: x[i], tnp.asarray(x))
        assert result.shape == expected.shape, name
        np.testing.assert_array_equal(np.asarray(result), expected, name)


@quick
@given(
    shapes_and_indices(),
    st.sampled_from(["set", "add", "subtract", "multiply", "divide", "min", "max", "power"]),
    st.booleans(),
)
def test_writes_agree_with_numpy(case: Any, method: str, scalar: bool) -> None:
    shape, index = case
    x = numbers(shape, np.float64)
    picked = x[index]
    values = np.float64(1.5) if scalar else (np.arange(picked.size).reshape(picked.shape) % 5) * 0.25 + 0.5
    expected = x.copy()
    if method == "set":
        expected[index] = values
    elif method in ("divide", "power"):
        factors = np.ones_like(x)
        np.multiply.at(factors, index, values)
        expected = x / factors if method == "divide" else x**factors
    else:
        ufunc = {"min": np.minimum, "max": np.maximum}.get(method) or getattr(np, method)
        ufunc.at(expected, index, values)
    for name, run in variants(index):
        result = run(lambda x, v, i: getattr(x.at[i], method)(v), tnp.asarray(x), tnp.asarray(values))
        np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-12, err_msg=name)
    assert x.tolist() == numbers(shape, np.float64).tolist()


@settings(quick, max_examples=40)
@given(shapes_and_indices(), st.sampled_from(["get", "set", "add", "multiply", "min"]))
def test_gradients(case: Any, method: str) -> None:
    shape, index = case
    generator = np.random.default_rng(0)
    x = generator.permutation(int(np.prod(shape))).reshape(shape) * 0.37 + 1.0
    values = np.asarray(0.8 + 0.45 * generator.permutation(x[index].size).reshape(x[index].shape))
    weights = generator.normal(size=x[index].shape if method == "get" else shape)
    arrays, rebuild = split_index(index)

    def loss(x: Any, v: Any, new: Any) -> Any:
        at = x.at[rebuild(new)]
        return tnp.sum((at.get() if method == "get" else getattr(at, method)(v)) * weights)

    for new in (arrays, [tnp.asarray(a) for a in arrays]):
        gradients = grad(loss, argnums=(0, 1))(tnp.asarray(x), tnp.asarray(values), new)
        for i, a in enumerate((x, values)):
            expected = np.zeros(a.shape)
            for position in np.ndindex(a.shape):
                moved = [b.copy() for b in (x, values)]
                results = []
                for sign in (1, -1):
                    moved[i][position] = a[position] + sign * 1e-5
                    results.append(float(loss(*map(tnp.asarray, moved), arrays)))
                expected[position] = (results[0] - results[1]) / 2e-5
            np.testing.assert_allclose(np.asarray(gradients[i]), expected, rtol=1e-5, atol=1e-5)


def test_masks() -> None:
    x = numbers((3, 4))
    a = tnp.asarray(x)
    for mask in (
        x > 3,
        np.array([True, False, True]),
        np.zeros((3, 4), bool),
        np.array(True),
        np.array(False),
    ):
        for given_mask in (mask, tnp.asarray(mask)):
            np.testing.assert_array_equal(np.asarray(a[given_mask]), x[mask])
            expected = x.copy()
            expected[mask] = 7
            np.testing.assert_array_equal(np.asarray(a.at[given_mask].set(7)), expected)
    expected = x.copy()
    expected[x > 3] += 1
    np.testing.assert_array_equal(np.asarray(jit(lambda x: x.at[x > 3].add(1))(a)), expected)
    np.testing.assert_array_equal(
        np.asarray(jit(lambda x, m: x.at[m].set(x[0] * 2))(a, x[:, 0] > 2)),
        np.where((x[:, :1] > 2), x[0] * 2, x),
    )
    # Where the values are known, as in grad of a function that is not jitted, a mask is an index like any
    # other.
    assert grad(lambda x: tnp.sum(x[x > 4] ** 2))(a).tolist() == np.where(x > 4, 2 * x, 0).tolist()
    for attempt in (lambda x: x[x > 3], lambda x: x.at[x > 3].set(tnp.ones((5,)))):
        with pytest.raises(
            NonConcreteBooleanIndexError, match=r"test_indexing.*`x`(?s:.*)where\(mask.*size="
        ):
            jit(attempt)(a)
    with pytest.raises(IndexError, match="mask of shape"):
        a[np.array([True, False])]


def test_static_positions_out_of_bounds_raise() -> None:
    x = tnp.asarray(numbers((3, 4)))
    for index, axis, position in (
        (3, 0, 3),
        (-4, 0, -4),
        ((0, 9), 1, 9),
        ((slice(None), np.array([1, -5])), 1, -5),
        (([0, 7], 0), 0, 7),
        ((..., 4), 1, 4),
    ):
        where = rf"axis {axis} of float32\[3,4\], whose size is {3 + axis}; at .*test_indexing.py:"
        pattern = f"index {position} is out of bounds for {where}"
        for read in (lambda x: x[index], lambda x: x.at[index].set(0), lambda x: x.at[index].add(1.0)):
            with pytest.raises(IndexError, match=pattern):
                read(x)
            with pytest.raises(IndexError, match=pattern):
                jit(read)(x)
    assert len(list(x)) == 3


def test_errors() -> None:
    x = tnp.asarray(numbers((3, 4)))
    for index, error, pattern in (
        ([0, 1], TypeError, "list"),
        ((0, 0, 0), IndexError, "3 axes are indexed"),
        (1.5, TypeError, "float"),
        ("a", TypeError, "str"),
        ((..., ...), IndexError, "one Ellipsis"),
        (np.array([0.5]), IndexError, "integers or bools"),
        (tnp.ones(2), IndexError, "integers or bools"),
        ((np.array([0, 1]), np.array([0, 1, 2])), IndexError, "broadcast"),
    ):
        with pytest.raises(error, match=pattern):
            x[index]
    with pytest.raises(TypeError, match=r"x\.at\[index\]\.set"):
        x[0] = 1
    with pytest.raises(ValueError, match="does not fit"):
        x.at[0].set(tnp.ones(3))
    with pytest.raises(ValueError, match="does not fit"):
        jit(lambda x: x.at[0].set(tnp.ones(3)))(x)
    with pytest.raises(ValueError, match="mode"):
        x.at[0].set(1, mode="wrap")
    with pytest.raises(TypeError, match="Python index"):
        jit(lambda x, n: x[:n])(x, 2)


def test_last_wins() -> None:
    index = tnp.array([1, 0, 1, 1])
    for run in (lambda f, *xs: f(*xs), lambda f, *xs: jit(f)(*xs)):
        result = run(lambda x, i, v: x.at[i].set(v), tnp.zeros(3), index, tnp.array([1.0, 2.0, 3.0, 4.0]))
        assert result.tolist() == [2, 4, 0]


def test_types_of_values() -> None:
    x = tnp.zeros(3, "int8")
    assert x.at[0].set(5).dtype == np.int8 and x.at[0].set(tnp.array([7], "int32")).dtype == np.int8
    assert tnp.zeros(3, "float16").at[0].set(1.5).dtype == np.float16
    assert tnp.zeros(3, "float64").at[0].set(0.1).tolist()[0] == 0.1
    assert tnp.zeros(3).at[0].set(np.float64(2)).dtype == np.float32
    for value in (1.5, tnp.array(1.5), np.float32(1)):
        with pytest.raises(TypeError, match=r"rounded.*astype\('int8'\)"):
            x.at[0].set(value)
    with pytest.raises(OverflowError):
        x.at[0].set(300)
    assert tnp.ones(3, "int32").at[0].divide(2).tolist() == [0.5, 1, 1]
    assert tnp.zeros(2, bool).at[1].set(True).tolist() == [False, True]
    assert tnp.zeros(3, "uint8").at[1].subtract(1).tolist() == [0, 255, 0]


def test_apply_and_chains() -> None:
    x = tnp.asarray(numbers((3, 4)))
    assert x.at[1].apply(lambda row: row * 2).tolist() == x.at[1].multiply(2).tolist()
    assert x.at[0, 0].set(5.0).at[-1, -1].set(6.0)[tnp.array([0, 2]), tnp.array([0, 3])].tolist() == [5, 6]
    assert (
        x.at[:, 1:3].set(tnp.ones((2,))).tolist()
        == jit(lambda x: x.at[:, 1:3].set(tnp.ones((2,))))(x).tolist()
    )
    assert repr(x.at[0]).startswith("At(")


def test_static_writes_need_no_scatter() -> None:
    for index in (np.s_[0], np.s_[1:, ::-2], np.s_[..., None, 3], np.s_[:]):
        text = str(make_graph(lambda x: x.at[index].add(2.0))(tnp.ones((3, 4))))
        assert "scatter" not in text and "gather" not in text
    text = str(make_graph(lambda x, i: x[1:, i, 0, i])(tnp.ones((3, 4, 2, 4)), tnp.array([1, 2])))
    assert text.count("gather(") == 1


def test_empty_axes() -> None:
    x = tnp.zeros((0, 3))
    none = tnp.zeros((0,), "int32")
    assert x[none].shape == (0, 3) and jit(lambda x, i: x[i, :])(x, none).shape == (0, 3)
    assert x.at[none].set(1).shape == (0, 3)
    assert jit(lambda x, i: x.at[i].get(mode="fill", fill_value=2.0))(x, tnp.array([0])).tolist() == [
        [2, 2, 2]
    ]
    with pytest.raises(IndexError):
        x[0]
    with pytest.raises(IndexError):
        x[np.array([0])]


def test_vmap_of_indexing() -> None:
    x, index = numbers((5, 4)), np.array([0, 3, 1, 2, 2])
    np.testing.assert_array_equal(np.asarray(vmap(lambda row, i: row[i])(x, index)), x[np.arange(5), index])
    np.testing.assert_array_equal(np.asarray(vmap(lambda i: tnp.asarray(x)[i])(index)), x[index])
    expected = x.copy()
    expected[np.arange(5), index] = 9
    np.testing.assert_array_equal(np.asarray(vmap(lambda row, i: row.at[i].set(9.0))(x, index)), expected)
    np.testing.assert_array_equal(np.asarray(vmap(lambda row: row.at[1:3].set(0))(x))[:, 1:3], 0)


def test_weak_types_are_kept_by_static_indices() -> None:
    x = tnp.asarray(2.0)
    assert x[None].weak_type and jit(lambda x: x[None])(x).weak_type
