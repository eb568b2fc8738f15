"""tinyfn.lax: elementwise functions, casts and selection."""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.lax.checks import GENERATOR, everywhere, floats, same
from tinyfn import lax
from tinyfn.transforms import grad, jit, vjp, vmap


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
    u, by = np.array([255, 254, 127, 128], np.uint8), np.array([1, 200, 3, 8], np.uint8)
    everywhere(lax.shift_right_arithmetic, np.array([255, 255, 15, 255], np.uint8), u, by)
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
    z = np.array([1 + 2j, -0.5j, 3], np.complex64)
    everywhere(
        lax.pow, (z ** np.array([2, 3, 1])).astype(np.complex64), z, np.array([2, 3, 1], np.int32), rtol=1e-6
    )
    everywhere(lax.reciprocal, 1 / z, z, rtol=1e-6)
    with pytest.raises(TypeError, match=r"lax\.reciprocal works on floats"):
        lax.reciprocal(2)


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


@pytest.mark.parametrize(
    "narrow", ["int8", "uint8", "int16", "uint16", "float16", "bfloat16", "int32", "float32"]
)
@pytest.mark.parametrize("wide", ["int16", "float16", "bfloat16", "uint32", "float32", "int64", "float64"])
def test_casts_of_bits_to_other_widths(narrow: str, wide: str) -> None:
    small, large = (np.dtype(getattr(ml_dtypes, name, name)) for name in (narrow, wide))
    ratio = large.itemsize // small.itemsize
    if ratio < 2:
        return
    whole = np.arange(3 * large.itemsize, dtype=np.uint8).view(large)
    parts = whole.view(small).reshape(3, ratio)
    for function, x, wanted in (
        (lambda x: lax.bitcast_convert_type(x, small), whole, parts),
        (lambda x: lax.bitcast_convert_type(x, large), parts, whole),
    ):
        for found in (function(x), jit(function)(x), vmap(function)(x[None])[0]):
            assert found.dtype == wanted.dtype and found.shape == wanted.shape
            assert np.asarray(found).tobytes() == wanted.tobytes()


def test_errors_of_casts_of_bits() -> None:
    with pytest.raises(ValueError, match="needs a last axis of 2 elements"):
        lax.bitcast_convert_type(floats(3), np.int64)
    with pytest.raises(ValueError, match="needs a last axis of 4 elements"):
        lax.bitcast_convert_type(np.int8(1), np.int32)
    for x, dtype in (
        (floats(2), "complex64"),
        (np.ones(2, np.complex64), "uint32"),
        (np.ones(4, bool), "int32"),
    ):
        with pytest.raises(TypeError, match="of integers and floats alone"):
            lax.bitcast_convert_type(x, dtype)


def test_stop_gradient_of_a_tree() -> None:
    def f(x: Any) -> Any:
        fixed = lax.stop_gradient({"a": x, "b": (3, None, "text", x)})
        assert fixed["b"][:3] == (3, None, "text")
        return lax.add(lax.mul(x, fixed["a"]), fixed["b"][3])

    assert float(grad(f)(np.float32(5))) == 5
    i = np.arange(3)
    assert lax.stop_gradient(i) is i


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


def test_sigmoid_of_complex_numbers() -> None:
    z = GENERATOR.normal(size=5) + 1j * GENERATOR.normal(size=5)
    everywhere(lax.logistic, 1 / (1 + np.exp(-z)), z, rtol=1e-14)
    far = np.asarray(lax.logistic(np.array([-1000 + 1j, 1000 + 1j])))
    np.testing.assert_array_equal(far, [0, 1])
    slope = np.asarray(vmap(grad(lax.logistic, holomorphic=True))(z))
    value = 1 / (1 + np.exp(-z))
    np.testing.assert_allclose(slope, value * (1 - value), rtol=1e-12)


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
