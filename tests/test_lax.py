"""tinyfn.lax against NumPy; the numbers and rules were compared with jax.lax 0.10.2 when this was written."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.against_numpy import check_derivatives
from tests.agreement import assert_jit_agrees
from tinyfn import lax
from tinyfn.trace.array import Array
from tinyfn.transforms import grad, jit, vjp, vmap

GENERATOR = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return GENERATOR.normal(size=shape).astype(np.float32)


def same(found: Any, expected: Any, rtol: float = 0.0) -> None:
    expected = np.asarray(expected)
    assert isinstance(found, Array) and found.shape == expected.shape and found.dtype == expected.dtype
    if expected.dtype == ml_dtypes.bfloat16:
        found, expected = (np.asarray(a).astype(np.float32) for a in (found, expected))
    np.testing.assert_allclose(np.asarray(found), expected, rtol=rtol, atol=rtol)


def everywhere(function: Callable[..., Any], expected: Any, *args: Any, rtol: float = 0.0) -> None:
    """The function gives this step by step, under jit, and under vmap of two copies."""
    same(function(*args), expected, rtol)
    assert_jit_agrees(function, *args)
    same(vmap(function)(*[np.stack([a, a]) for a in args]), np.stack([expected, expected]), rtol)


# Dtypes and shapes of arguments


def test_arrays_need_one_dtype() -> None:
    x, i = floats(3), np.arange(3, dtype=np.int32)
    for call in (
        lambda: lax.add(x, i),
        lambda: lax.mul(i, 1.5),
        lambda: lax.add(x, x.astype(np.float16)),
        lambda: lax.add(1, 1.0),
        lambda: lax.concatenate([x, i], 0),
        lambda: lax.select(True, x, i),
        lambda: lax.clamp(0, i, 2.5),
        lambda: lax.dot(x, i),
        lambda: lax.pad(i, 1.5, [(0, 1, 0)]),
        lambda: lax.add(i, True),
        lambda: lax.dynamic_update_slice(x, i, (0,)),
        lambda: lax.add(x, np.float64(1)),
    ):
        with pytest.raises(TypeError, match=r"needs arguments of one dtype, not .*tinyfn\.numpy"):
            call()


def test_python_numbers_take_the_dtype_beside_them() -> None:
    for dtype in ("float16", "float32", "float64"):
        x = np.ones(3, dtype)
        for y in (1, 1.5):
            result = lax.add(x, y)
            assert result.dtype == dtype and not result.weak_type
    assert lax.max(np.arange(3, dtype=np.uint8), 1).dtype == np.uint8
    assert lax.add(1, 2).weak_type and lax.add(1, 2).dtype == np.int32
    weak = lax.mul(2.0, 3.0)
    assert lax.add(weak, np.ones(2, np.float16)).dtype == np.float16 and lax.add(weak, 1).tolist() == 7.0
    with pytest.raises(OverflowError):
        lax.add(np.zeros(2, np.uint8), 300)


def test_scalars_and_axes_of_size_1_broadcast() -> None:
    x = floats(2, 3)
    same(lax.add(x, np.float32(2)), x + 2)
    same(lax.mul(x, x[:1]), x * x[:1])
    same(lax.sub(x[:, :1], x), x[:, :1] - x)
    same(lax.select(x > 0, x, 0.0), np.where(x > 0, x, 0).astype(np.float32))
    same(lax.select(True, x, -x), x)
    with pytest.raises(TypeError, match="equally many axes"):
        lax.add(x, x[0])
    with pytest.raises(ValueError, match="do not broadcast"):
        lax.add(x, x[:, :2])


# Elementwise

UNARY: dict[str, tuple[Any, tuple[float, float]]] = {
    "neg": (np.negative, (-3, 3)),
    "abs": (np.abs, (-3, 3)),
    "sign": (np.sign, (-3, 3)),
    "exp": (np.exp, (-3, 3)),
    "exp2": (np.exp2, (-3, 3)),
    "expm1": (np.expm1, (-3, 3)),
    "log": (np.log, (0.1, 3)),
    "log1p": (np.log1p, (-0.9, 3)),
    "sin": (np.sin, (-3, 3)),
    "cos": (np.cos, (-3, 3)),
    "tan": (np.tan, (-1, 1)),
    "asin": (np.arcsin, (-1, 1)),
    "acos": (np.arccos, (-1, 1)),
    "atan": (np.arctan, (-3, 3)),
    "sinh": (np.sinh, (-3, 3)),
    "cosh": (np.cosh, (-3, 3)),
    "tanh": (np.tanh, (-3, 3)),
    "asinh": (np.arcsinh, (-3, 3)),
    "acosh": (np.arccosh, (1, 3)),
    "atanh": (np.arctanh, (-0.9, 0.9)),
    "sqrt": (np.sqrt, (0, 3)),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (0.1, 3)),
    "cbrt": (np.cbrt, (-3, 3)),
    "logistic": (lambda x: 1 / (1 + np.exp(-x)), (-3, 3)),
    "floor": (np.floor, (-3, 3)),
    "ceil": (np.ceil, (-3, 3)),
    "square": (np.square, (-3, 3)),
    "reciprocal": (np.reciprocal, (0.2, 3)),
    "erf": (np.vectorize(math.erf), (-3, 3)),
    "erfc": (np.vectorize(math.erfc), (-3, 3)),
    "is_finite": (np.isfinite, (-3, 3)),
}
BINARY: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rem": np.fmod,
    "max": np.maximum,
    "min": np.minimum,
    "atan2": np.arctan2,
    "nextafter": np.nextafter,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    reference, (low, high) = UNARY[name]
    x = GENERATOR.uniform(low, high, (4, 5))
    everywhere(getattr(lax, name), reference(x), x, rtol=1e-13)
    assert getattr(lax, name).__doc__
    if name not in ("neg", "abs", "sign", "square"):
        with pytest.raises(TypeError, match=r"int32|integers"):
            getattr(lax, name)(np.arange(3, dtype=np.int32))


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    x, y = GENERATOR.uniform(-3, 3, (4, 5)), GENERATOR.uniform(-3, 3, (4, 5))
    y[0] = x[0]
    everywhere(getattr(lax, name), BINARY[name](x, y), x, y)
    assert getattr(lax, name).__doc__


def test_erf_inv() -> None:
    x = np.linspace(-0.999, 0.999, 41)
    same(lax.erf(lax.erf_inv(x)), x, rtol=1e-14)


def test_integers() -> None:
    x = np.array([-7, 7, -128, 127, 0, 100], np.int8)
    y = np.array([2, -2, 3, 0, 5, 100], np.int8)
    same(lax.div(x, y), np.array([-3, -3, -42, 0, 0, 1], np.int8))
    same(lax.rem(x, y), np.array([-1, 1, -2, 0, 0, 0], np.int8))
    same(lax.add(x, y), x + y)
    same(lax.integer_pow(x, 2), x * x)
    same(lax.bitwise_and(x, y), x & y)
    same(lax.bitwise_or(x, y), x | y)
    same(lax.bitwise_xor(x, y), x ^ y)
    same(lax.bitwise_not(x), ~x)
    same(lax.shift_left(x, 3), x << np.int8(3))
    same(lax.shift_left(x, 8), np.zeros_like(x))
    same(lax.shift_right_arithmetic(x, 2), x >> np.int8(2))
    same(lax.shift_right_logical(x, 2), (x.view(np.uint8) >> np.uint8(2)).view(np.int8))
    same(lax.population_count(x), np.array([6, 3, 1, 7, 0, 3], np.int8))
    for dtype in (np.uint8, np.int16, np.uint32, np.int64):
        bits = 8 * np.dtype(dtype).itemsize
        values = np.array([0, 1, 2, 3, 100, np.iinfo(dtype).max], dtype)
        expected = [bits - int(v).bit_length() for v in values]
        same(lax.clz(values), np.array(expected, dtype))
    assert lax.clz(np.int8(-1)).tolist() == 0


def test_pow() -> None:
    x = GENERATOR.uniform(0.2, 3, (5,))
    same(lax.pow(x, x[::-1]), x ** x[::-1], rtol=1e-14)
    same(lax.pow(x, np.arange(5, dtype=np.int32)), x ** np.arange(5), rtol=1e-14)
    same(lax.pow(-x, 3), -(x**3), rtol=1e-14)
    same(lax.pow(2.0, x), 2.0**x, rtol=1e-14)
    same(lax.integer_pow(-x, -2), x**-2.0, rtol=1e-14)
    assert float(grad(lambda v: lax.pow(v, 3))(np.float64(-2))) == 12
    with pytest.raises(TypeError, match="negative power"):
        lax.integer_pow(np.arange(3), -1)


def test_round() -> None:
    x = np.array(
        [0.5, 1.5, -0.5, 2.5, -0.2, 0.49999997, -1.5, 8388609.0, 1e30, -math.inf, math.nan], np.float32
    )
    away = np.array([1, 2, -1, 3, 0, 0, -2, 8388609, 1e30, -math.inf, math.nan], np.float32)
    everywhere(lax.round, away, x)
    everywhere(lambda v: lax.round(v, lax.RoundingMethod.TO_NEAREST_EVEN), np.rint(x), x)
    assert float(grad(lax.round)(np.float32(1.3))) == 0


def test_selection() -> None:
    x, y, z = floats(6), floats(6), floats(6)
    which = np.array([0, 1, 2, 1, 9, -4], np.int32)
    everywhere(lax.select_n, np.choose(np.clip(which, 0, 2), [x, y, z]), which, x, y, z)
    same(lax.select_n(which > 1, x, y), np.where(which > 1, y, x))
    same(lax.select_n(np.int32(1), x, y, z), y)
    everywhere(lambda v: lax.clamp(-0.5, v, 0.5), np.clip(x, -0.5, 0.5).astype(np.float32), x)
    same(lax.clamp(x, y, z), np.minimum(np.maximum(y, x), z))
    for call in (
        lambda: lax.select(which, x, y),
        lambda: lax.select_n(x, x, y),
        lambda: lax.select_n(True, x, y, z),
    ):
        with pytest.raises(TypeError):
            call()


def test_casts() -> None:
    x = np.array([1.7, -1.7, 300, math.nan, math.inf], np.float32)
    same(lax.convert_element_type(x, np.int8), np.array([1, -1, 127, 0, 127], np.int8))
    same(lax.bitcast_convert_type(x, "int32"), x.view(np.int32))
    assert lax.convert_element_type(1.5, float).weak_type is False
    with pytest.raises(TypeError, match="widths differ"):
        lax.bitcast_convert_type(x, np.int64)


def test_stop_gradient_of_a_tree() -> None:
    def f(x: Any) -> Any:
        fixed = lax.stop_gradient({"a": x, "b": (3, None, "text", x)})
        assert fixed["b"][:3] == (3, None, "text")
        return lax.add(lax.mul(x, fixed["a"]), fixed["b"][3])

    assert float(grad(f)(np.float32(5))) == 5
    i = np.arange(3)
    assert lax.stop_gradient(i) is i


# Making and moving


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


def padded(x: np.ndarray, value: float, config: list[tuple[int, int, int]]) -> np.ndarray:
    """Axis by axis: spread, then extend or cut at both ends."""
    for axis, (low, high, interior) in enumerate(config):
        x = np.moveaxis(x, axis, 0)
        n = len(x)
        spread = np.full((n + max(n - 1, 0) * interior, *x.shape[1:]), value, x.dtype)
        spread[:: interior + 1] = x
        ends = [np.full((max(k, 0), *x.shape[1:]), value, x.dtype) for k in (low, high)]
        whole = np.concatenate([ends[0], spread, ends[1]])
        x = np.moveaxis(whole[max(-low, 0) : len(whole) - max(-high, 0)], 0, axis)
    return x


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


def test_pad_errors() -> None:
    with pytest.raises(ValueError, match="more elements away"):
        lax.pad(floats(3), 0.0, [(-2, -2, 0)])
    with pytest.raises(ValueError, match="each of its axes"):
        lax.pad(floats(3), 0.0, [])


# Positions that are data


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


def test_parts_of_complex_numbers() -> None:
    x, y = floats(3), floats(3)
    z = (x + 1j * y).astype(np.complex64)
    everywhere(lax.complex, z, x, y)
    everywhere(lax.real, x, z)
    everywhere(lax.imag, y, z)
    everywhere(lax.conj, z.conj(), z)
    same(lax.conj(x), x.astype(np.complex64))
    assert not np.signbit(np.asarray(lax.conj(x)).imag).any()
    same(grad(lambda x, y: lax.real(lax.conj(lax.complex(x, y)) * z).sum(), 1)(x, y), y)


def test_polygamma() -> None:
    # Of 1: -γ, π²/6, -2 ζ(3), π⁴/15
    known = [-np.euler_gamma, math.pi**2 / 6, -2 * 1.2020569031595942, math.pi**4 / 15]
    orders, ones = np.arange(4.0), np.ones(4)
    everywhere(lax.polygamma, np.array(known), orders, ones, rtol=1e-14)
    following = lax.polygamma(orders[1:], ones[1:])
    slope = jit(grad(lambda x: lax.polygamma(orders[:3], x).sum()))(ones[:3])
    np.testing.assert_allclose(slope, following, rtol=1e-13)
    assert not np.asarray(grad(lambda m: lax.polygamma(m, ones).sum())(orders)).any()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_mulhi(dtype: str) -> None:
    info = np.iinfo(dtype)
    ends = [info.min, info.max, 0, 1, info.max // 2 + 1, info.max // 3]
    x, y = (np.array(a, dtype) for a in zip(*itertools.product(ends, ends), strict=True))
    exact = [(int(a) * int(b)) >> (8 * info.dtype.itemsize) for a, b in zip(x, y, strict=True)]
    everywhere(lax.mulhi, np.array(exact, dtype), x, y)


@pytest.mark.parametrize("narrow", ["float16", "bfloat16"])
def test_reduce_precision_is_a_cast_there_and_back(narrow: str) -> None:
    x = np.concatenate([floats(50), 10.0 ** GENERATOR.uniform(-4, 4, 50)]).astype(np.float32)
    info = ml_dtypes.finfo(narrow)
    cast = x.astype(getattr(ml_dtypes, narrow, narrow)).astype(np.float32)
    # Where the narrow format has subnormal numbers it gives zeros.
    normal = np.abs(x) >= float(info.tiny)
    found = lax.reduce_precision(x, info.nexp, info.nmant)
    np.testing.assert_array_equal(found, np.where(normal, cast, np.copysign(0, x)))
    slope = vjp(lambda x: lax.reduce_precision(x, info.nexp, info.nmant), x)[1](x)[0]
    np.testing.assert_array_equal(slope, found)


def test_optimization_barrier_and_precision() -> None:
    x = floats(3, 3)
    first, second = lax.optimization_barrier((x, {"a": 2.0}))
    same(first, x)
    assert second["a"].weak_type
    for precision in (
        None, "highest", "BF16_BF16_F32", lax.Precision.HIGH, ("high", "default"), (lax.Precision.DEFAULT,) * 2,
        lax.DotAlgorithmPreset.TF32_TF32_F32, lax.DotAlgorithm("bfloat16", "bfloat16", "float32"),
    ):  # fmt: skip
        same(lax.dot(x, x, precision=precision), np.asarray(lax.dot(x, x)))
    same(lax.dot(x, x, dimension_numbers=(((0,), (0,)), ((), ()))), x.T @ x, rtol=1e-6)
    for wrong in ("medium", 3, ("high", "medium")):
        with pytest.raises(ValueError, match="no precision"):
            lax.dot(x, x, precision=wrong)  # type: ignore[arg-type]


def test_transforms_of_fourier() -> None:
    z = (floats(2, 4, 6) + 1j * floats(2, 4, 6)).astype(np.complex64)
    same(lax.fft(z, "FFT", (6,)), np.fft.fft(z).astype(np.complex64), rtol=1e-5)
    same(lax.fft(z, lax.FftType.IFFT, (4, 6)), np.fft.ifft2(z).astype(np.complex64), rtol=1e-5)
    x = floats(3, 4, 6)
    half = np.fft.rfft2(x).astype(np.complex64)
    same(lax.fft(x, lax.FftType.RFFT, (4, 6)), half, rtol=1e-5)
    same(lax.fft(half, "irfft", (4, 6)), x, rtol=1e-5)
    with pytest.raises(ValueError, match="last axes"):
        lax.fft(z, "FFT", (5,))
    with pytest.raises(ValueError, match="is none of"):
        lax.fft(z, "DCT", (6,))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_random_bits(dtype: str) -> None:
    key = np.array([1, 2, 2**32 - 1, 0], np.uint32)
    following, bits = lax.rng_bit_generator(key, (1000,), dtype)
    assert (
        bits.dtype == dtype
        and abs(float(np.mean(np.asarray(bits) / 2.0 ** (8 * bits.dtype.itemsize))) - 0.5) < 0.05
    )
    # The counter has gone on by as many as there were pairs, carrying into its upper word; the next bits are others.
    pairs = 1000 if dtype == "uint64" else 500
    assert np.asarray(following).tolist() == [1, 2, pairs - 1, 1]
    assert not np.intersect1d(
        *(np.asarray(lax.rng_bit_generator(k, (4,), "uint32")[1]) for k in (key, following))
    ).size
    assert_jit_agrees(lambda key: lax.rng_bit_generator(key, (3, 5), dtype), key)
    for call in (
        lambda: lax.rng_bit_generator(key[:2], (3,)),
        lambda: lax.rng_bit_generator(key, (3,), "int32"),
    ):
        with pytest.raises(TypeError, match="unsigned dtype"):
            call()


# Reductions and sorting


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


# Products


def test_products() -> None:
    x, y = GENERATOR.normal(size=(3, 4, 5)), GENERATOR.normal(size=(5, 4, 3))
    cases = (
        ((((2,), (0,)), ((), ())), "abc,cde->abde"),
        ((((2,), (0,)), ((0,), (2,))), "abc,cda->abd"),
        ((((2, 1), (0, 1)), ((), ())), "abc,cbd->ad"),
        ((((), ()), ((1,), (1,))), "abc,dbe->bacde"),
        ((((-1,), (-3,)), ((-3,), (-1,))), "abc,cda->abd"),
    )
    for numbers, formula in cases:
        everywhere(lambda a, b: lax.dot_general(a, b, numbers), np.einsum(formula, x, y), x, y, rtol=1e-13)
    same(lax.dot(x[0], y[:, :, 0]), x[0] @ y[:, :, 0], rtol=1e-13)
    same(lax.dot(x[0, 0], y[:, 0]), x[0, 0] @ y[:, 0], rtol=1e-13)
    same(lax.dot(x[0, 0], x[0, 0]), x[0, 0] @ x[0, 0], rtol=1e-13)
    same(lax.batch_matmul(x, x.transpose(0, 2, 1)), x @ x.transpose(0, 2, 1), rtol=1e-13)
    i = np.array([100, -100, 50], np.int8)
    same(lax.dot(i, i, preferred_element_type=np.int32), np.int32(22500))
    half = np.full(100, 30, np.float16)
    same(lax.dot(half, half, preferred_element_type=np.float32), np.float32(90000))
    assert math.isinf(float(lax.dot(half, half)))
    for call, kind in (
        (lambda: lax.dot(x, y), TypeError),
        (lambda: lax.batch_matmul(x, y[0]), ValueError),
        (lambda: lax.dot_general(x, y, (((1,), (0,)), ((), ()))), ValueError),
        (lambda: lax.dot_general(x, y, (((3,), (0,)), ((), ()))), ValueError),
    ):
        with pytest.raises(kind):
            call()


# Convolutions


def correlate(
    x: Any, w: Any, strides: Any, pads: Any, spread: Any, apart: Any, groups: int = 1
) -> np.ndarray:
    """[N, C, H, W] with [O, C/groups, h, w], one place and one tap at a time."""
    x = padded(x, 0, [(0, 0, 0)] * 2 + [(0, 0, n - 1) for n in spread])
    x = padded(x, 0, [(0, 0, 0)] * 2 + [(*pair, 0) for pair in pads])
    size = [
        max((n - (k - 1) * d - 1) // s + 1, 0)
        for n, k, d, s in zip(x.shape[2:], w.shape[2:], apart, strides, strict=True)
    ]
    result = np.zeros((x.shape[0], w.shape[0], *size))
    for place in itertools.product(*map(range, size)):
        for tap in itertools.product(*map(range, w.shape[2:])):
            at = [p * s + t * d for p, s, t, d in zip(place, strides, tap, apart, strict=True)]
            for o in range(w.shape[0]):
                group = o // (w.shape[0] // groups)
                channels = slice(group * w.shape[1], (group + 1) * w.shape[1])
                result[(slice(None), o, *place)] += (
                    x[(slice(None), channels, *at)] @ w[(o, slice(None), *tap)]
                )
    return result


@pytest.mark.parametrize(
    "specs",
    [
        ("NHWC", "HWIO", "NHWC"),
        ("NCHW", "OIHW", "NCHW"),
        ("CHWN", "IHWO", "NWHC"),
        ("NWHC", "WIOH", "CNHW"),
        None,
    ],
)
def test_convolution_dimension_numbers(specs: Any) -> None:
    x, w = GENERATOR.normal(size=(2, 4, 7, 6)), GENERATOR.normal(size=(6, 2, 3, 2))
    strides, pads, spread, apart = (2, 1), [(1, 2), (-1, 3)], (1, 2), (2, 1)
    expected = correlate(x, w, strides, pads, spread, apart, 2)
    names = specs or ("NCHW", "OIHW", "NCHW")
    # Strides, pads and dilations are in the order of the window's axes.
    if names[1].index("W") < names[1].index("H"):
        strides, pads, spread, apart = strides[::-1], pads[::-1], spread[::-1], apart[::-1]
    lhs = np.einsum(f"NCHW->{names[0]}", x)
    rhs = np.einsum(f"OIHW->{names[1]}", w)
    everywhere(
        lambda a, b: lax.conv_general_dilated(
            a, b, strides, pads, spread, apart, specs, feature_group_count=2
        ),
        np.einsum(f"NCHW->{names[2]}", expected),
        lhs,
        rhs,
        rtol=1e-12,
    )
    numbers = lax.conv_dimension_numbers(lhs.shape, rhs.shape, specs)
    assert isinstance(numbers, lax.ConvDimensionNumbers)
    same(
        lax.conv_general_dilated(lhs, rhs, strides, pads, spread, apart, numbers, feature_group_count=2),
        np.einsum(f"NCHW->{names[2]}", expected),
        rtol=1e-12,
    )


def test_convolution_padding_names() -> None:
    for size, window, stride, dilation in itertools.product((4, 7, 8), (1, 2, 3), (1, 2, 3), (1, 2)):
        x, w = GENERATOR.normal(size=(1, 1, size, 5)), GENERATOR.normal(size=(1, 1, window, 2))
        reach = (window - 1) * dilation + 1
        total = max((math.ceil(size / stride) - 1) * stride + reach - size, 0)
        for name, low in (("SAME", total // 2), ("SAME_LOWER", -(-total // 2)), ("same", total // 2)):
            pads = [(low, total - low), (0, 1) if name != "SAME_LOWER" else (1, 0)]
            found = lax.conv_general_dilated(x, w, (stride, 1), name, rhs_dilation=(dilation, 1))
            same(found, correlate(x, w, (stride, 1), pads, (1, 1), (dilation, 1)), rtol=1e-12)
            assert found.shape[2] == math.ceil(size / stride)
        if reach <= size:
            same(
                lax.conv(x, w, (stride, 1), "VALID"),
                correlate(x, w, (stride, 1), [(0, 0)] * 2, (1, 1), (1, 1)),
                rtol=1e-12,
            )
    x, w = GENERATOR.normal(size=(4, 2, 5, 5)), GENERATOR.normal(size=(4, 2, 2, 2))
    halves = [
        correlate(x[i * 2 : i * 2 + 2], w[i * 2 : i * 2 + 2], (1, 1), [(0, 0)] * 2, (1, 1), (1, 1))
        for i in (0, 1)
    ]
    same(
        lax.conv_general_dilated(x, w, (1, 1), "VALID", batch_group_count=2),
        np.concatenate(halves, 1),
        rtol=1e-12,
    )
    found = lax.conv_with_general_padding(x, w, (2, 1), [(0, 1), (2, 0)], (1, 2), (2, 1))
    same(found, correlate(x, w, (2, 1), [(0, 1), (2, 0)], (1, 2), (2, 1)), rtol=1e-12)


def test_convolution_element_type() -> None:
    x, w = np.full((1, 1, 300), 20, np.float16), np.full((1, 1, 300), 20, np.float16)
    assert lax.conv(x, w, (1,), "VALID", preferred_element_type=np.float32).tolist() == [[[120000.0]]]
    i = np.full((1, 1, 3), 100, np.int8)
    assert lax.conv(i, i, (1,), "VALID", preferred_element_type=np.int32).tolist() == [[[30000]]]


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_transposed_convolution_is_the_derivative(padding: str) -> None:
    specs = ("NHWC", "HWIO", "NHWC")
    for strides in ((1, 1), (2, 3), (3, 1)):
        for window in ((3, 2), (1, 1), (2, 4)):
            # 12 is a multiple of every stride, so that the sizes of "SAME" agree.
            image, w = np.zeros((2, 12, 12, 3)), GENERATOR.normal(size=(*window, 3, 5))
            forward = lambda v: lax.conv_general_dilated(v, w, strides, padding, dimension_numbers=specs)
            ct = GENERATOR.normal(size=forward(image).shape)
            expected = grad(lambda v: lax.reduce_sum(lax.mul(forward(v), ct), (0, 1, 2, 3)))(image)
            found = lax.conv_transpose(ct, w, strides, padding, transpose_kernel=True)
            # With "SAME" and a stride above the window the sizes agree, but the places may be others.
            if padding == "VALID":
                sizes = [
                    (m - 1) * s + max(k, s) for m, s, k in zip(ct.shape[1:3], strides, window, strict=True)
                ]
                assert found.shape == (2, *sizes, 3)
                rows, columns = (min(a, 12) for a in sizes)
                same(
                    lax.slice(found, (0, 0, 0, 0), (2, rows, columns, 3)),
                    np.asarray(expected)[:, :rows, :columns],
                    rtol=1e-12,
                )
            else:
                assert found.shape == image.shape
                if all(k >= s for k, s in zip(window, strides, strict=True)):
                    same(found, expected, rtol=1e-12)


def test_convolution_shapes_and_permutations() -> None:
    specs = ("NHWC", "HWIO", "NHWC")
    assert lax.conv_general_permutations(specs) == ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    assert lax.conv_general_shape_tuple((2, 9, 8, 3), (3, 2, 3, 4), (2, 1), "SAME", specs) == (2, 5, 8, 4)
    assert lax.conv_shape_tuple((4, 3, 9), (6, 3, 2), (2,), [(1, 0)], 2) == (2, 6, 5)
    assert lax.conv_transpose_shape_tuple((2, 5, 3), (4, 3, 6), (2,), "SAME", ("NWC", "WIO", "NWC")) == (
        2,
        10,
        6,
    )


def test_ragged_products() -> None:
    x, y, sizes = floats(7, 4), floats(3, 4, 5), np.array([2, 0, 4], np.int32)
    wanted = np.concatenate([x[:2] @ y[0], x[2:6] @ y[2], np.zeros((1, 5), np.float32)])
    everywhere(lambda x, y: lax.ragged_dot(x, y, sizes), wanted, x, y, rtol=1e-5)
    check_derivatives(lambda x, y: lax.ragged_dot(x, y, sizes), x.astype(np.float64), y.astype(np.float64))
    # Under vmap over the sizes too, which may be traced.
    several = vmap(lambda s: lax.ragged_dot(x, y, s))(np.stack([sizes, sizes[::-1]]))
    same(several[0], wanted, rtol=1e-5)
    # With an axis of a batch, where the groups are in what is summed.
    a, b = floats(2, 7, 3), floats(2, 7, 4)
    numbers = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((0,), (0,))), (1,), ())
    summed = lax.ragged_dot_general(a, b, sizes, numbers)
    parts = [np.einsum("bki,bkj->bij", a[:, i:j], b[:, i:j]) for i, j in ((0, 2), (2, 2), (2, 6))]
    same(summed, np.stack(parts), rtol=1e-5)
    for call in (
        lambda: lax.ragged_dot(x, y[:2], sizes),
        lambda: lax.ragged_dot(x, y, sizes, group_offset=np.array([1])),
        lambda: lax.ragged_dot_general(a, b, sizes, numbers._replace(rhs_group_dimensions=(0,))),
    ):
        with pytest.raises(ValueError, match="ragged_dot_general"):
            call()


def test_convolution_errors() -> None:
    x, w = floats(1, 2, 5), floats(3, 2, 2)
    for call in (
        lambda: lax.conv(x, w, (1,), "FULL"),
        lambda: lax.conv(x, w, (1, 1), "SAME"),
        lambda: lax.conv(x, w, (1,), [(0, 0)] * 2),
        lambda: lax.conv_general_dilated(x, w, (1,), "SAME", lhs_dilation=(2,)),
        lambda: lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NCH", "OIW", "NCH")),
        lambda: lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NC", "OI", "NC")),
        lambda: lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NCH", "OIH")),
        lambda: lax.conv(x, floats(3, 2, 2, 2), (1,), "SAME"),
        lambda: lax.conv(x, floats(3, 3, 2), (1,), "SAME"),
        lambda: lax.conv_transpose(x, w, (1,), "FULL"),
    ):
        with pytest.raises(ValueError):
            call()


def test_every_public_name_has_a_docstring() -> None:
    for name in lax.__all__:
        value = getattr(lax, name)
        assert name == "DotDimensionNumbers" or value.__doc__, name
