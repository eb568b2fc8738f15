"""Elementwise functions against NumPy's: eagerly, under jit, and their gradients by differences."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyfn.numpy as tnp
from tests.agreement import assert_jit_agrees
from tests.numpy.checks import FLOATS, TOLERANCE, agree, check_gradient, close, numbers
from tinyfn.transforms import grad, jit

UNARY = {
    "sin": (-3, 3),
    "cos": (-3, 3),
    "tan": (-1.3, 1.3),
    "arcsin": (-0.9, 0.9),
    "arccos": (-0.9, 0.9),
    "arctan": (-3, 3),
    "sinh": (-3, 3),
    "cosh": (-3, 3),
    "tanh": (-3, 3),
    "arcsinh": (-3, 3),
    "arccosh": (1.1, 4),
    "arctanh": (-0.9, 0.9),
    "exp": (-3, 3),
    "exp2": (-3, 3),
    "expm1": (-1, 1),
    "log": (0.2, 3),
    "log2": (0.2, 3),
    "log10": (0.2, 3),
    "log1p": (-0.5, 3),
    "sqrt": (0.1, 3),
    "cbrt": (0.1, 3),
    "deg2rad": (-3, 3),
    "rad2deg": (-1, 1),
    "sinc": (-3, 3),
    "reciprocal": (0.3, 3),
    "fabs": (-3, 3),
    "radians": (-3, 3),
    "degrees": (-1, 1),
    "rint": (-3, 3),
    "float_power": (0.3, 3),
}
SAME_DTYPE = (
    "negative",
    "positive",
    "absolute",
    "abs",
    "sign",
    "square",
    "floor",
    "ceil",
    "trunc",
    "fix",
    "real",
    "imag",
    "conj",
    "conjugate",
    "nan_to_num",
)
PREDICATES = (
    "isnan",
    "isinf",
    "isfinite",
    "signbit",
    "logical_not",
    "iscomplex",
    "isreal",
    "isposinf",
    "isneginf",
)


def reference(name: str) -> Callable[..., Any]:
    return (lambda x: np.float_power(x, 2.0)) if name == "float_power" else getattr(np, name)


def ours(name: str) -> Callable[..., Any]:
    return (lambda x: tnp.float_power(x, 2.0)) if name == "float_power" else getattr(tnp, name)


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_floats(name: str) -> None:
    low, high = UNARY[name]
    function, expected = ours(name), reference(name)
    for dtype in FLOATS:
        x = numbers(dtype, (2, 3), low, high)
        result = function(tnp.asarray(x))
        assert result.dtype == x.dtype
        close(result, expected(x.astype(np.float64)), TOLERANCE[dtype] * 4)
        assert_jit_agrees(function, x)
    for shape in ((), (1,), (0,), (2, 0, 3)):
        x = numbers("float32", shape, low, high)
        close(function(tnp.asarray(x)), expected(x.astype(np.float64)))
    if name != "reciprocal":
        x = (
            numbers("int32", (4,), max(low, 1), max(high, 1))
            if name not in ("arcsin", "arccos", "arctanh")
            else np.zeros(3, np.int32)
        )
        assert function(tnp.asarray(x)).dtype == np.float32
        close(function(tnp.asarray(x)), expected(x.astype(np.float64)))
    assert function(tnp.asarray(True)).dtype == np.float32
    assert function(float(low + high) / 2).weak_type
    with np.errstate(all="ignore"):
        special = np.array([np.nan, np.inf, -np.inf, 0.0, -1e30], np.float32)
        close(
            function(tnp.asarray(special)), expected(special) if name != "float_power" else special * special
        )
    if name not in ("fabs", "rint"):
        check_gradient(
            lambda m, x: (ours if m is tnp else reference)(name)(x), numbers("float64", (3,), low, high)
        )
    with pytest.raises(TypeError, match="list"):
        function([1.0])


@pytest.mark.parametrize("name", SAME_DTYPE)
def test_functions_that_keep_the_dtype(name: str) -> None:
    function, expected = getattr(tnp, name), getattr(np, name)
    for dtype in (*FLOATS, "int8", "int32", "uint8"):
        for shape in ((2, 3), (), (0,)):
            x = numbers(dtype, shape)
            result = function(tnp.asarray(x))
            assert result.dtype == x.dtype
            if dtype != "bfloat16" or name != "nan_to_num":
                close(
                    result,
                    expected(x.astype(np.float32) if dtype == "bfloat16" else x),
                    TOLERANCE.get(dtype, 0),
                )
            close(jit(function)(tnp.asarray(x)), result)


@pytest.mark.parametrize("name", PREDICATES)
def test_predicates(name: str) -> None:
    x = np.array([0.0, -0.0, 1.0, -2.0, np.nan, np.inf, -np.inf], np.float32)
    for dtype in ("float32", "float16", "float64"):
        agree(lambda m, x: getattr(m, name)(x), x.astype(dtype))
    agree(lambda m, x: getattr(m, name)(x), np.array([0, 1, -1], np.int32))
    assert getattr(tnp, name)(1.0).dtype == bool


BINARY = {
    "add": "bif",
    "subtract": "if",
    "multiply": "bif",
    "divide": "f",
    "true_divide": "f",
    "floor_divide": "if",
    "mod": "if",
    "remainder": "if",
    "fmod": "if",
    "maximum": "bif",
    "minimum": "bif",
    "fmax": "if",
    "fmin": "if",
    "power": "f",
    "arctan2": "f",
    "hypot": "f",
    "logaddexp": "f",
    "logaddexp2": "f",
    "copysign": "f",
    "nextafter": "f",
    "heaviside": "f",
    "equal": "bif",
    "not_equal": "bif",
    "less": "bif",
    "less_equal": "bif",
    "greater": "bif",
    "greater_equal": "bif",
    "logical_and": "bif",
    "logical_or": "bif",
    "logical_xor": "bif",
    "bitwise_and": "bi",
    "bitwise_or": "bi",
    "bitwise_xor": "bi",
    "left_shift": "i",
    "right_shift": "i",
    "gcd": "i",
    "lcm": "i",
}


@pytest.mark.parametrize("name", BINARY)
def test_binary_functions(name: str) -> None:
    low = 0.3 if name == "power" else -3.0
    for dtype in ("bool", "int32", "uint8", "float32", "float64", "float16"):
        kind = {"b": "b", "i": "i", "u": "i", "f": "f"}[np.dtype(dtype).kind]
        if kind not in BINARY[name]:
            continue
        for first, second in (((2, 3), (2, 3)), ((3,), (2, 1)), ((), (2,)), ((0, 2), (1,))):
            x, y = numbers(dtype, first, low), numbers(dtype, second, low, seed=1)
            if kind != "b" and name in ("divide", "true_divide", "floor_divide", "mod", "remainder", "fmod"):
                y = np.where(y == 0, 1, y).astype(dtype)
            if name.endswith("shift"):
                y = np.abs(y)
            agree(lambda m, x, y: getattr(m, name)(x, y), x, y, tolerance=4 * TOLERANCE.get(dtype, 1e-6))
        result = getattr(tnp, name)(tnp.asarray(x), tnp.asarray(y))
        assert result.dtype == (bool if getattr(np, name)(x, y).dtype == bool else dtype)
    if BINARY[name] in ("f", "if", "bif") and not name.startswith(
        ("log", "floor", "eq", "not", "less", "gr", "next", "heavi")
    ):
        x, y = numbers("float64", (3,), 0.5, 3), numbers("float64", (2, 1), 0.5, 3, seed=1)
        check_gradient(lambda m, x, y: getattr(m, name)(x, y), x, y)
    if "f" in BINARY[name] and name not in ("nextafter", "gcd"):
        special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0], np.float32)
        pairs = np.array(list(itertools.product(special, special)), np.float32)
        agree(lambda m, x, y: getattr(m, name)(x, y), pairs[:, 0], pairs[:, 1])


def test_gradients_of_logaddexp_are_finite_at_ties_and_infinities() -> None:
    def both(x: float, y: float) -> list[float]:
        return [float(g) for g in grad(tnp.logaddexp, argnums=(0, 1))(tnp.array(x), tnp.array(y))]

    assert both(1.0, 1.0) == [0.5, 0.5]
    assert both(1.0, -np.inf) == [1.0, 0.0]
    assert float(grad(lambda x: tnp.hypot(x, 0.0))(0.0)) in (0.0, 0.5, 1.0)


def test_true_division_and_power_of_integers() -> None:
    x, y = tnp.array([7, -7, 6]), tnp.array([2, 2, 3])
    assert (x / y).dtype == np.float32
    close(x / y, np.array([3.5, -3.5, 2]))
    agree(lambda m, x, y: (x // y, x % y, m.divmod(x, y)), np.array([7, -7, 6, 5]), np.array([2, 2, -4, -5]))
    agree(lambda m, x, y: m.power(x, y), np.array([2, 3, -2], np.int32), np.array([5, 0, 3], np.int32))
    assert (tnp.power(2, tnp.array([1.0, 2.0]))).dtype == np.float32
    close(tnp.power(tnp.array([2.0, -3.0]), 3), [8, -27])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_powers_of_integers_wrap_around(dtype: str) -> None:
    limits = np.iinfo(dtype)
    bases = np.array([0, 1, 2, 3, 6, limits.max, limits.min], dtype)
    exponents = np.array([0, 1, 2, 3, 31, 63, 64, 100, limits.max, limits.max // 2 + 1], dtype)
    agree(lambda m, x, y: m.power(x, y), bases[:, None], exponents)
    wide = np.int64 if limits.min else np.uint64
    for exponent in (200, 2**33):  # more than the narrow dtypes have
        expected = np.power(bases, wide(exponent)).astype(dtype)
        close(tnp.asarray(bases) ** exponent, expected)
        close(jit(lambda x: x**exponent)(tnp.asarray(bases)), expected)
    if limits.min:
        x, y = tnp.array([2, 1, -1, -1, limits.min, 0], dtype), tnp.array([-1, -5, -3, -2, -1, -1], dtype)
        close(tnp.power(x, y), [0, 1, -1, 1, 0, 0])
        close(jit(tnp.power)(x, y), [0, 1, -1, 1, 0, 0])


def test_arithmetic_of_bools_is_that_of_0_and_1() -> None:
    x, y = np.array([True, False]), np.array([True, True])
    for name in ("floor_divide", "remainder", "fmod", "power", "divmod", "left_shift", "right_shift"):
        agree(lambda m, x, y: getattr(m, name)(x, y), x, y)
    for name in ("square", "bitwise_count"):
        agree(lambda m, x: getattr(m, name)(x), x)
    assert tnp.square(tnp.asarray(x)).dtype == (tnp.asarray(x) // True).dtype == np.int32


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_ldexp_of_numbers_of_all_sizes(dtype: str) -> None:
    form = np.finfo(dtype)
    x = np.array([0, -0.0, -1.5, np.inf, np.nan, form.max, form.smallest_subnormal, form.tiny], dtype)
    n = np.array([0, 30, -30, 127, 149, 255, -149, -200, 300, 2098, -2200, 2**31 - 1, -(2**31)], np.int32)
    agree(lambda m, x, n: m.ldexp(x[:, None], n), x, n, tolerance=0.0)
    for integers in ("uint8", "uint32", "int64", "bool"):
        close(tnp.ldexp(tnp.ones(2), tnp.array([0, 1], integers)), [1, 2])
    with pytest.raises(TypeError, match=r"ldexp takes integers as n, not float32\[\]"):
        tnp.ldexp(1.0, 2.0)


def test_magnitudes_that_take_no_complex_numbers() -> None:
    for function in (tnp.fabs, lambda x: tnp.hypot(x, 1.0)):
        with pytest.raises(
            TypeError, match=r"(fabs|hypot) .* complex64\[2\]; at .*test_elementwise.py.*`absolute`"
        ):
            function(tnp.array([1j, 2j]))


def test_round() -> None:
    x = np.array([0.5, 1.5, -2.5, 1.2345, 1250.0, np.nan, np.inf], np.float64)
    for decimals in (0, 1, 2, -2):
        agree(lambda m, x: m.round(x, decimals), x)
    agree(lambda m, x: m.round(x, -1), np.array([5, 15, 25, -5, 149], np.int32))
    assert round(tnp.array(2.6)) == 3
    assert float(round(tnp.array(2.64), 1)) == pytest.approx(2.6)


def test_clip_where_and_choices() -> None:
    x = numbers("float32", (3, 4))
    agree(lambda m, x: m.clip(x, -1, 1), x)
    agree(lambda m, x: m.clip(x, None, 1), x)
    close(tnp.clip(tnp.asarray(x), min=0.5), np.clip(x, 0.5, None))
    agree(lambda m, x: m.where(x > 0, x, 0), x)
    agree(lambda m, x: m.where(x[:, :1] > 0, x, x[0]), x)
    assert tnp.where(True, tnp.array([1], "int8"), 3).dtype == np.int8
    agree(lambda m, x: m.select([x < -1, x < 1], [x, 2 * x], 7), x)
    agree(lambda m, x: m.choose(m.array([[0, 1, 2, 0]]), [x, x + 1, x * 2]), x, under_jit=False)
    close(
        tnp.piecewise(tnp.asarray(x), [x < 0, x > 1], [lambda v: -v, 1.0, lambda v: v * 2]),
        np.piecewise(x, [x < 0, x > 1], [lambda v: -v, 1.0, lambda v: v * 2]),
    )
    check_gradient(lambda m, x: m.where(x > 0, x * x, m.clip(x, -1, 1)), x)
    special = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    agree(lambda m, x: m.nan_to_num(x), special)
    agree(lambda m, x: m.nan_to_num(x, nan=5.0, posinf=6.0, neginf=7.0), special)


def test_comparisons_of_whole_arrays() -> None:
    x = numbers("float32", (3, 4))
    y = x + np.float32(1e-7)
    for function in ("allclose", "isclose", "array_equal", "array_equiv"):
        agree(lambda m, x, y: m.asarray(getattr(m, function)(x, y)), x, y)
        agree(lambda m, x, y: m.asarray(getattr(m, function)(x, y)), x, x.copy())
    special = np.array([np.nan, np.inf, 1.0], np.float32)
    agree(lambda m, x: m.asarray(m.isclose(x, x[::-1])), special)
    agree(lambda m, x: m.asarray(m.isclose(x, x, equal_nan=True)), special)
    agree(lambda m, x: m.asarray(m.array_equal(x, x, equal_nan=True)), special)
    assert not tnp.array_equal(tnp.ones(2), tnp.ones(3))
    assert bool(tnp.array_equiv(tnp.ones((2, 3)), 1.0))


def test_results_of_integers_beside_a_python_float_are_weak() -> None:
    x, half = tnp.arange(1, 4), tnp.ones(3, "float16")
    for function in (tnp.add, tnp.power, tnp.fmax, tnp.logaddexp, tnp.copysign, tnp.outer, tnp.dot):
        for result in (function(x, 2.5), jit(lambda x: function(x, 2.5))(x)):
            assert result.weak_type and (result * half[0]).dtype == np.float16
    assert not x.weak_type
