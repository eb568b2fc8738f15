"""NumPy's rarer names: sets, polynomials, grids, windows, digits and bits, against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyfn
import tinyfn.numpy as tnp
from tests.against_numpy import agree, check_derivatives, close, numbers, parts

SETS = ("union1d", "intersect1d", "setdiff1d", "setxor1d")
drawn = settings(max_examples=25, deadline=None, derandomize=True)
small = st.lists(st.integers(0, 5), max_size=6)


@drawn
@given(st.sampled_from(SETS), small, small)
def test_sets(name: str, first: list[int], second: list[int]) -> None:
    x, y = np.array(first, np.int32), np.array(second, np.int32)
    wanted = getattr(np, name)(x, y)
    close(getattr(tnp, name)(x, y), wanted, 0)
    padded = tinyfn.jit(lambda x, y: getattr(tnp, name)(x, y, size=13, fill_value=-1))(x, y)
    assert padded.tolist() == [*wanted.tolist(), *[-1] * (13 - len(wanted))]
    if len(wanted):
        assert getattr(tnp, name)(x, y, size=8).tolist() == [
            *wanted.tolist()[:8],
            *[wanted[0]] * (8 - len(wanted)),
        ]
    values, at_x, at_y = tnp.intersect1d(x, y, return_indices=True)
    assert x[np.asarray(at_x)].tolist() == y[np.asarray(at_y)].tolist() == values.tolist()


def test_polynomials() -> None:
    generator = np.random.default_rng(0)
    p, q = numbers(generator, "float64", (5,)), numbers(generator, "float64", (3,))
    agree(lambda m, p, q: (m.polyadd(p, q), m.polysub(q, p), m.polymul(p, q)), p, q)
    constants = np.array([1.0, 2.0])
    agree(lambda m, p, k: (m.polyder(p), m.polyder(p, 3), m.polyint(p), m.polyint(p, 2, k)), p, constants)
    quotient, rest = tinyfn.jit(tnp.polydiv)(p, q)
    close(tnp.polyadd(tnp.polymul(quotient, q), rest), p, 1e-12)
    np.testing.assert_allclose(quotient, np.polydiv(p, q)[0], rtol=1e-10)
    agree(lambda m, z: m.poly(z), q)
    np.testing.assert_allclose(np.poly(np.asarray(tnp.roots(p))) * p[0], p, atol=1e-10)
    assert tnp.roots(tnp.array([0.0, 0.0, 1.0, -1.0, 0.0])).tolist() == [1, 0]
    assert tnp.roots(tnp.zeros(2)).shape == (0,)
    x, y = np.linspace(-1, 1, 9), numbers(generator, "float64", (9, 2))
    agree(lambda m, x, y: m.polyfit(x, y, 3), x, y, factor=1e4)
    agree(lambda m, x, y: m.polyfit(x, y[:, 0], 2, w=m.abs(x) + 1), x, y, factor=1e4)
    check_derivatives(lambda y: tnp.polyfit(x, y, 3), y)
    check_derivatives(lambda p, q: tnp.polydiv(p, q)[0], p, q)
    check_derivatives(lambda p: tnp.sum(tnp.abs(tnp.roots(p, strip_zeros=False)) ** 2), p)
    with pytest.raises(ValueError, match="takes 1-d coefficients"):
        tnp.polyadd(tnp.ones((2, 2)), p)


def test_grids() -> None:
    for make in (lambda m: m.mgrid[0:3, 1:2:4j], lambda m: m.ogrid[0:3, 1:2:4j], lambda m: m.mgrid[2:5],
                 lambda m: m.r_[0:3, 7, m.array([8, 9])], lambda m: m.c_[m.array([1, 2]), m.array([3, 4])]):  # fmt: skip
        ours, wanted = make(tnp), make(np)
        for a, b in zip(parts(ours), parts(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    assert [a.dtype.name for a in tnp.ogrid[0:3, 1:2:4j]] == ["float32", "float32"]  # one for all
    a, b = np.ones((2, 2)), np.arange(4.0).reshape(2, 2)
    agree(lambda m, a, b: (m.block([[a, b], [b, a]]), m.block([a, b]), m.block(a)), a, b)
    cube = np.arange(8.0).reshape(2, 2, 2)
    agree(lambda m, c: (m.dsplit(c, 2), m.apply_over_axes(m.sum, c, (0, 2))), cube)
    for name in ("tril_indices_from", "triu_indices_from", "diag_indices_from"):
        for ours, wanted in zip(getattr(tnp, name)(b), getattr(np, name)(b), strict=True):
            np.testing.assert_array_equal(ours, wanted)
    for ours, wanted in zip(tnp.mask_indices(3, tnp.triu, 1), np.mask_indices(3, np.triu, 1), strict=True):
        np.testing.assert_array_equal(ours, wanted)
    with pytest.raises(ValueError, match="not nested alike"):
        tnp.block([[a], b])
    with pytest.raises(ValueError, match="takes a matrix"):
        tnp.tril_indices_from(tnp.ones(3))


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning", "kaiser"])
def test_windows(name: str) -> None:
    for m in (0, 1, 2, 7, 8):
        more = (8.6,) if name == "kaiser" else ()
        np.testing.assert_allclose(getattr(tnp, name)(m, *more), getattr(np, name)(m, *more), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_digits(dtype: Any) -> None:
    info = np.finfo(dtype)
    x = np.array(
        [0.0, -0.0, 1, -1, 0.3, 7.999, 8, 1e-3, -123.25, info.max, info.tiny, np.inf, -np.inf, np.nan], dtype
    )
    agree(lambda m, x: (m.modf(x), m.frexp(x)), x, factor=0)
    x[x == info.max] = 1
    with np.errstate(invalid="ignore"):  # of negative halves NumPy's has no sign
        wanted = np.where(x < 0, -1, 1).astype(dtype) * np.spacing(np.abs(x))
    close(tnp.spacing(x), wanted, 0)


@drawn
@given(
    st.lists(st.integers(0, 255), min_size=1, max_size=19),
    st.sampled_from(["big", "little"]),
    st.sampled_from([None, 0, 1]),
)
def test_bits(values: list[int], order: str, axis: Any) -> None:
    x = np.array([values, values[::-1]], np.uint8)
    agree(lambda m, x: (m.packbits(x > 99, axis, order), m.unpackbits(x, axis, None, order)), x)
    agree(lambda m, x: (m.unpackbits(x, axis, 5, order), m.unpackbits(x, axis, -3, order)), x)


def test_text_and_percentiles() -> None:
    x = np.array([1.5, np.nan, 2.0, 4.0], np.float32)
    assert tnp.array_repr(tnp.asarray(x)) == np.array_repr(x) and tnp.array_str(
        tnp.asarray(x)
    ) == np.array_str(x)
    for q in (0, 30.0, 100):
        np.testing.assert_allclose(tnp.nanpercentile(x, q), np.nanpercentile(x, q), rtol=1e-6)


def test_intersections_of_a_size_with_indices() -> None:
    intersect = tinyfn.jit(lambda x, y: tnp.intersect1d(x, y, return_indices=True, size=8, fill_value=-1))
    for seed in range(10):
        generator = np.random.default_rng(seed)
        x, y = generator.integers(0, 6, 8), generator.integers(0, 6, 7)
        wanted = np.intersect1d(x, y, return_indices=True)
        for found, known, rest in zip(intersect(x, y), wanted, (-1, 8, 7), strict=True):
            assert found.tolist() == [*known.tolist(), *[rest] * (8 - len(known))]
    assert [a.tolist() for a in tnp.intersect1d(x[:0], y, return_indices=True, size=1)] == [[0], [0], [7]]


def test_gradients_at_coordinates() -> None:
    generator = np.random.default_rng(0)
    f = generator.normal(size=(4, 5))
    rows, columns = np.cumsum(generator.uniform(0.1, 1, 4)), np.cumsum(generator.uniform(0.1, 1, 5))
    agree(lambda m, f, a, b: tuple(m.gradient(f, a, b)), f, rows, columns, factor=1000)
    agree(lambda m, f, a: (m.gradient(f, a, axis=0), *m.gradient(f, a, 2.0)), f, rows, factor=1000)
    agree(lambda m, f, a: m.gradient(f[:2], a[:2], axis=0), f, rows, factor=1000)
    check_derivatives(lambda f, a: tnp.gradient(f, a, axis=1), f, columns)
    np.testing.assert_allclose(
        tnp.gradient(f[0], [0, 1, 2, 4, 8]), np.gradient(f[0], [0, 1, 2, 4, 8]), rtol=1e-12
    )
    with pytest.raises(ValueError, match=r"axis 0 of float64\[4,5\] needs 4 coordinates"):
        tnp.gradient(f, columns, axis=0)


def test_interpolation_with_a_period() -> None:
    xp, fp = np.array([190.0, -190.0, 350.0, -350.0]), np.array([5.0, 10.0, 3.0, 4.0])
    x = np.array([-180.0, -170.0, -185.0, 185.0, -10.0, -5.0, 0.0, 365.0])
    for period in (360, -360, 100.0):
        agree(lambda m, x, xp, fp, p=period: m.interp(x, xp, fp, period=p), x, xp, fp)
    check_derivatives(lambda x, fp: tnp.interp(x, xp, fp, period=360), x + 1.5, fp)


def test_joining_by_a_directive() -> None:
    ones = np.ones((2, 2))
    for key in (
        ("0,2", [1, 2], [3, 4]), ("1,2", [1, 2], [3, 4]), ("0,2,0", [1, 2], [3, 4]), ("0,3,1", [1, 2], [3, 4]), ("-1", [1, 2], 3),
        ("0,2", slice(0, 3), [7, 8, 9]), ("1,3,1", ones, ones), ("0,3,-1", ones, ones), ("0,3,0", ones, ones),
    ):  # fmt: skip
        ours = tnp.r_[tuple([tnp.array(part) if isinstance(part, list) else part for part in key])]
        np.testing.assert_array_equal(ours, np.r_[key])
    np.testing.assert_array_equal(tnp.c_[ones, ones[:, :1]], np.c_[ones, ones[:, :1]])
    assert tnp.r_["r", tnp.array([1, 2])].tolist() == [[1, 2]]
    assert tnp.r_["c", tnp.array([1, 2])].tolist() == [[1], [2]]
    assert tnp.r_["c", ones].tolist() == ones.tolist()
    for key in (("x", ones), ("0,2,0,1", ones), ("1,3,2", ones, ones), (ones, "0,2")):
        with pytest.raises(ValueError, match="r_ and c_"):
            tnp.r_[key]
