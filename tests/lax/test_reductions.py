"""tinyfn.lax: reductions, cumulative functions and sorting."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.against_numpy import check_derivatives
from tests.lax.checks import GENERATOR, everywhere, floats, same
from tinyfn import lax
from tinyfn.transforms import grad, jit, vjp


def test_reductions() -> None:
    x = GENERATOR.normal(size=(2, 3, 4))
    for name, reference in (("sum", np.sum), ("prod", np.prod), ("max", np.max), ("min", np.min)):
        for axes in ((0,), (0, 2), (-1,), ()):
            everywhere(
                lambda v, name=name, axes=axes: getattr(lax, f"reduce_{name}")(v, axes),
                reference(x, axis=axes),
                x,
                rtol=1e-14,
            )
    same(lax.reduce_and(x > -1, (0, 1)), np.all(x > -1, (0, 1)))
    same(lax.reduce_or(x > 1, (0, 1)), np.any(x > 1, (0, 1)))
    everywhere(lambda v: lax.argmax(v, 1), np.argmax(x, 1).astype(np.int32), x)
    everywhere(lambda v: lax.argmin(v, -1, np.int64), np.argmin(x, -1), x)
    everywhere(lambda v: lax.cumsum(v, 1), np.cumsum(x, 1), x, rtol=1e-14)
    everywhere(
        lambda v: lax.cumsum(v, -1, reverse=True), np.cumsum(x[..., ::-1], -1)[..., ::-1], x, rtol=1e-14
    )
    with pytest.raises(ValueError, match="distinct"):
        lax.reduce_sum(x, (0, -3))
    with pytest.raises(ValueError, match="out of range"):
        lax.reduce_sum(x, (3,))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_reductions_of_bits(dtype: str) -> None:
    x = GENERATOR.integers(0, 100, (3, 4)).astype(dtype)
    for function, reference in (
        (lax.reduce_and, np.bitwise_and),
        (lax.reduce_or, np.bitwise_or),
        (lax.reduce_xor, np.bitwise_xor),
    ):
        everywhere(lambda x, f=function: f(x, (1,)), reference.reduce(x, 1), x)
        same(function(x[:0], (0,)), reference.reduce(x[:0], 0))
    with pytest.raises(TypeError, match=r"lax\.reduce_or works on bools and integers, not on float32\[2\]"):
        lax.reduce_or(floats(2), (0,))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "float32"])
def test_extremes_of_nothing(dtype: str) -> None:
    x = np.ones((3, 0, 2), dtype)
    least, greatest = (-math.inf, math.inf) if "float" in dtype else (False, True)
    if "int" in dtype:
        least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
    everywhere(lambda x: lax.reduce_max(x, (1,)), np.full((3, 2), least, dtype), x)
    everywhere(lambda x: lax.reduce_min(x, (1, 2)), np.full(3, greatest, dtype), x)
    same(lax.reduce_max(x, (0,)), np.ones((0, 2), dtype))


def test_positions_are_integers() -> None:
    for function in (lax.argmax, lax.argmin):
        with pytest.raises(TypeError, match="gives positions, which are integers and not float32"):
            function(floats(3), 0, np.float32)


def test_sort() -> None:
    x = floats(4, 5)
    for axis in (0, 1, -1):
        everywhere(lambda v, axis=axis: lax.sort(v, axis), np.sort(x, axis), x)
    same(
        lax.sort(np.array([3.0, math.nan, -0.0, 0.0, -math.inf])),
        np.array([-math.inf, -0.0, 0.0, 3.0, math.nan]),
    )
    keys = np.array([[3, 1, 2, 1, 3, 2], [0, 0, 0, 1, 1, 1]])
    seconds = np.array([[1, 5, 3, 2, 0, 4], [2, 1, 0, 2, 1, 0]])
    values = np.arange(12.0).reshape(2, 6)
    by_one = np.argsort(keys, 1, kind="stable")
    by_two = np.stack([np.lexsort((s, k)) for s, k in zip(seconds, keys, strict=True)])
    for count, order in ((1, by_one), (2, by_two)):
        for function in (lax.sort, jit(lambda *a: lax.sort(a, num_keys=count))):
            args = (keys, seconds, values)
            found = lax.sort(args, num_keys=count) if function is lax.sort else function(*args)
            for f, a in zip(found, args, strict=True):
                same(f, np.take_along_axis(a, order, 1))
    found_keys, found_values = lax.sort_key_val(keys, values, 0)
    order = np.argsort(keys, 0, kind="stable")
    same(found_keys, np.take_along_axis(keys, order, 0))
    same(found_values, np.take_along_axis(values, order, 0))
    half = np.array([3, math.nan, -1, math.inf, 0], ml_dtypes.bfloat16)
    same(lax.sort(half), half[[2, 4, 0, 3, 1]])
    weights = floats(4, 5)
    gradient = grad(lambda v: lax.reduce_sum(lax.mul(lax.sort(v, 0), weights), (0, 1)))(x)
    same(gradient, np.take_along_axis(weights, np.argsort(np.argsort(x, 0), 0), 0))
    assert lax.sort(np.zeros((0, 3))).shape == (0, 3) and lax.sort(np.zeros((3, 0))).shape == (3, 0)
    with pytest.raises(ValueError, match="at least one key"):
        lax.sort((x,), num_keys=2)
    with pytest.raises(ValueError, match="one shape"):
        lax.sort((x, x[0]))


CUMULATIVE: dict[str, tuple[Any, Any]] = {
    "cumsum": (np.add, lambda x: np.cumsum(x, 1)),
    "cumprod": (np.multiply, lambda x: np.cumprod(x, 1)),
    "cummax": (np.maximum, lambda x: np.stack([x[:, : i + 1].max(1) for i in range(x.shape[1])], 1)),
    "cummin": (np.minimum, lambda x: np.stack([x[:, : i + 1].min(1) for i in range(x.shape[1])], 1)),
    "cumlogsumexp": (np.logaddexp, lambda x: np.log(np.cumsum(np.exp(x), 1))),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", CUMULATIVE)
def test_cumulative(name: str, reverse: bool) -> None:
    x = GENERATOR.normal(size=(3, 70))
    flip = (lambda a: a[:, ::-1]) if reverse else (lambda a: a)
    function = getattr(lax, name)
    wanted = flip(CUMULATIVE[name][1](flip(x)))
    np.testing.assert_allclose(function(x, 1, reverse), wanted, rtol=1e-12)
    np.testing.assert_allclose(jit(lambda x: function(x, axis=-1, reverse=reverse))(x), wanted, rtol=1e-12)
    # Lanes by lanes and all at once, short and long ones, are the same; so are derivatives.
    check_derivatives(lambda x: function(x, 1, reverse), x[:, :5])
    slopes = [vjp(lambda x: function(x, axis, reverse), v)[1](v)[0] for v, axis in ((x, 1), (x.T.copy(), 0))]
    np.testing.assert_allclose(slopes[0], np.asarray(slopes[1]).T, rtol=1e-10)
    one = vjp(lambda x: function(x, 0, reverse), x[0])[1](x[0])[0]
    np.testing.assert_allclose(one, np.asarray(slopes[0])[0], rtol=1e-9, atol=1e-11)
    step = 1e-6 * GENERATOR.normal(size=x.shape)
    change = (np.asarray(function(x + step, 1, reverse)) - np.asarray(function(x - step, 1, reverse))) / 2
    np.testing.assert_allclose((np.asarray(slopes[0]) * step).sum(), (change * x).sum(), rtol=1e-6)


def test_cumulative_derivatives_at_zeros_and_ties() -> None:
    x = np.array([2.0, 0.0, 3.0, 0.0, 5.0])
    slope = vjp(lax.cumprod, x)[1](np.ones(5))[0]
    # d/dx[i] of 2 + 2a + 2a3 + 2a3b + 2a3b5 at a = b = 0
    np.testing.assert_array_equal(slope, [1, 2 + 6, 0, 0, 0])
    ties = np.array([1.0, 3.0, 3.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(vjp(lax.cummax, ties)[1](np.ones(6))[0], [1, 4, 0, 0, 0, 1])
    falling = vjp(lambda x: lax.cummin(x, reverse=True), ties)[1](np.ones(6))[0]
    np.testing.assert_array_equal(falling, [1, 0, 0, 3, 1, 1])
    low = np.array([-np.inf, -np.inf, 0.0, 1.0], np.float32)
    np.testing.assert_allclose(lax.cumlogsumexp(low), [-np.inf, -np.inf, 0, np.log1p(np.e)], rtol=1e-6)
    assert np.isfinite(np.asarray(vjp(lax.cumlogsumexp, low)[1](np.ones(4, np.float32))[0])).all()


def test_approximate_top_k_is_exact() -> None:
    x = floats(4, 30)
    values, positions = lax.approx_max_k(x, 3, recall_target=0.8)
    same(values, -np.sort(-x, 1)[:, :3])
    same(positions, np.argsort(-x, 1)[:, :3].astype(np.int32))
    values, positions = lax.approx_min_k(x, 2, reduction_dimension=0)
    same(values, np.sort(x, 0)[:2])
    same(positions, np.argsort(x, 0)[:2].astype(np.int32))
    with pytest.raises(TypeError, match="floats"):
        lax.approx_max_k(np.arange(4), 2)


def test_top_k() -> None:
    x = np.array([3.0, 1.0, 3.0, -2.0, 7.0, 3.0])
    values, at = lax.top_k(x, 4)
    same(values, np.array([7.0, 3.0, 3.0, 3.0]))
    same(at, np.array([4, 0, 2, 5], np.int32))
    assert lax.top_k(np.array([1.0, math.nan, math.inf]), 2)[1].tolist() == [1, 2]
    y = floats(4, 5)
    for axis in (0, 1):
        expected = np.flip(np.sort(y, axis), axis).take(range(2), axis)
        everywhere(lambda v: lax.top_k(v, 2, axis=axis)[0], expected, y)
    gradient = grad(lambda v: lax.reduce_sum(lax.top_k(v, 2)[0], (0,)))(x)
    same(gradient, np.array([1.0, 0, 0, 0, 1, 0]))
    assert lax.top_k(x, 0)[0].shape == (0,)
    with pytest.raises(ValueError, match="there are 6 elements"):
        lax.top_k(x, 7)
