"""Each function of tinyfn.numpy against NumPy's: eagerly, under jit, and its gradient by finite
differences."""

from __future__ import annotations

import itertools
import pickle
import zlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tinyfn.numpy as tnp
from tests.agreement import assert_jit_agrees
from tinyfn.trace.errors import TracerError
from tinyfn.transforms import grad, jit, vmap

TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-10}
FLOATS = ("float16", "bfloat16", "float32", "float64")


def numbers(
    dtype: str, shape: tuple[int, ...], low: float = -3.0, high: float = 3.0, seed: int = 0
) -> np.ndarray:
    generator = np.random.default_rng(zlib.crc32(repr((dtype, shape, seed)).encode()))
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype in FLOATS:
        return np.asarray(generator.uniform(low, high, shape)).astype(
            tnp.dtype(dtype) if dtype != "bfloat16" else ml_dtypes.bfloat16
        )
    low, high = (0 if dtype.startswith("u") else int(np.floor(low))), max(int(high), 1)
    return generator.integers(low, high + 1, shape).astype(dtype)


def close(actual: Any, expected: Any, tolerance: float = 2e-5) -> None:
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    if actual.dtype.kind not in "biu":
        actual = actual.astype(np.float64)
    if expected.dtype.kind not in "biu":
        expected = expected.astype(np.float64)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def leaves(x: Any) -> list[Any]:
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, (tuple, list)) else [x]


def agree(
    function: Callable[..., Any], *arrays: np.ndarray, tolerance: float = 2e-5, under_jit: bool = True
) -> None:
    """The function of a namespace and arrays gives the same in both namespaces, and in ours under jit too."""
    with np.errstate(all="ignore"):
        expected = leaves(function(np, *arrays))
    ours = [tnp.asarray(a) for a in arrays]
    results = [function(tnp, *ours)]
    if under_jit:
        results.append(jit(lambda *xs: function(tnp, *xs))(*ours))
    for result in results:
        parts = leaves(result)
        assert len(parts) == len(expected)
        for actual, wanted in zip(parts, expected, strict=True):
            assert isinstance(actual, (tnp.ndarray, int, float, bool, tuple))
            close(actual, wanted, tolerance)


def check_gradient(function: Callable[..., Any], *arrays: np.ndarray, tolerance: float = 1e-5) -> None:
    """The gradient of a weighted sum of the function's results, in float64, by central differences."""
    arrays = tuple(a.astype(np.float64) for a in arrays)
    weights = [
        np.random.default_rng(1).normal(size=np.shape(r))
        for r in leaves(function(tnp, *map(tnp.asarray, arrays)))
    ]

    def loss(*xs: Any) -> Any:
        parts = leaves(function(tnp, *xs))
        total: Any = 0.0
        for part, weight in zip(parts, weights, strict=True):
            total = total + tnp.sum(part * tnp.asarray(weight))
        return total

    argnums = tuple(range(len(arrays)))
    gradients = grad(loss, argnums=argnums)(*[tnp.asarray(a) for a in arrays])
    step = 1e-5
    for i, a in enumerate(arrays):
        expected = np.zeros(a.shape)
        for index in np.ndindex(a.shape):
            values = []
            for sign in (1, -1):
                moved = a.copy()
                moved[index] += sign * step
                values.append(
                    float(loss(*[tnp.asarray(moved if j == i else b) for j, b in enumerate(arrays)]))
                )
            expected[index] = (values[0] - values[1]) / (2 * step)
        close(gradients[i], expected, tolerance)


# Elementwise

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


# Types


def test_promotion() -> None:
    assert (tnp.ones(2, "float16") + 1.0).dtype == np.float16
    assert (tnp.ones(2, "int8") + 1).dtype == np.int8
    assert (tnp.ones(2, "int32") + 1.0).dtype == np.float32
    assert (tnp.ones(2, "float64") * tnp.ones(2)).dtype == np.float64
    assert (tnp.ones(2, "bfloat16") + tnp.ones(2, "float16")).dtype == np.float32
    assert tnp.result_type(tnp.int32, tnp.float16) == np.float16
    assert tnp.result_type(tnp.ones(2, "uint8"), 1.0) == np.float32
    assert tnp.promote_types("int8", "uint8") == np.int16
    assert tnp.promote_types("float64", "float32") == np.float64
    assert tnp.promote_types("int64", "int32") == np.int64
    assert tnp.promote_types("bfloat16", float) == tnp.bfloat16
    assert (1 + tnp.asarray(2.0)).weak_type and not (1 + tnp.array(2.0)).weak_type
    assert (True + tnp.array([True, False])).dtype == bool
    with pytest.raises(OverflowError):
        tnp.ones(2, "uint8") + 300


def test_python_numbers_keep_their_precision_beside_float64() -> None:
    x = numbers("float64", (4,), 0.5, 2.0)
    agree(
        lambda m, x: (
            x + 0.1,
            m.full_like(x, 0.1),
            m.where(x > 1, x, 0.1),
            m.clip(x, 0.7, 1.1),
            m.hypot(x, 0.1),
            m.logaddexp(0.1, x),
            m.quantile(x, 0.3),
            m.percentile(x, 30.0),
            m.trapezoid(x, dx=0.1),
            m.gradient(x, 0.1),
            m.pad(x, 1, constant_values=0.1),
            m.sum(x, initial=0.1),
            m.linspace(x, 0.1, 3),
            m.nan_to_num(m.log(x - x[0]), nan=0.1, neginf=0.3),
            m.array([0.1, 0.2], dtype="float64"),
            m.full((2,), 0.1, dtype="float64"),
            m.logspace(x, 0.3, 3, base=2.7),
            m.linalg.norm(x, 2.3),
            m.round(x, 2),
        ),
        x,
        tolerance=1e-13,
    )
    assert tnp.finfo("float64").max == tnp.nan_to_num(tnp.array(np.inf, "float64"))
    assert tnp.astype(0.1, "float64") == np.float64(0.1)


def test_questions_about_types() -> None:
    assert tnp.issubdtype(tnp.float32, tnp.floating) and tnp.issubdtype(tnp.bfloat16, tnp.floating)
    assert tnp.issubdtype("int8", tnp.integer) and not tnp.issubdtype("uint8", tnp.signedinteger)
    assert tnp.issubdtype(tnp.floating, tnp.inexact) and not tnp.issubdtype(bool, tnp.number)
    assert tnp.issubdtype(tnp.int64, tnp.int64) and not tnp.issubdtype(tnp.int64, tnp.int32)
    assert tnp.isdtype(tnp.bfloat16, "real floating") and tnp.isdtype("int8", ("bool", "integral"))
    assert float(tnp.finfo(tnp.bfloat16).eps) == 0.0078125 and tnp.iinfo("int16").max == 32767
    assert (
        tnp.can_cast("int8", "int16")
        and not tnp.can_cast("float64", "float32")
        and tnp.can_cast("bfloat16", "float32")
    )
    assert tnp.isscalar(1.0) and tnp.isscalar(tnp.array(1)) and not tnp.isscalar(tnp.ones(1))
    assert not tnp.iscomplexobj(tnp.ones(2)) and tnp.isrealobj(1.0)
    assert (
        tnp.ndim(tnp.ones((2, 3))),
        tnp.shape(1.0),
        tnp.size(tnp.ones((2, 3))),
        tnp.size(tnp.ones((2, 3)), 1),
    ) == (2, (), 6, 3)
    assert tnp.pi == np.pi and tnp.newaxis is None and np.isnan(tnp.nan)


# Creation


def test_array() -> None:
    assert tnp.array([1.0, 2]).dtype == np.float32 and tnp.array([1, True]).dtype == np.int32
    assert tnp.array([True]).dtype == bool and tnp.array([]).dtype == np.float32
    assert (
        tnp.array([1, 2], dtype="int64").dtype == np.int64 and tnp.array([1.5], "float64").dtype == np.float64
    )
    assert (
        not tnp.array(1.0).weak_type
        and tnp.asarray(1.0).weak_type
        and not tnp.asarray(1.0, "float32").weak_type
    )
    assert tnp.array(np.array([1.0])).dtype == np.float64
    assert tnp.array([np.float64(1.0), 2.0]).dtype == np.float64
    assert tnp.array([np.float16(1.0), 2.0]).dtype == np.float16
    assert tnp.array([[tnp.array(1), 2], [3, 4.5]]).dtype == np.float32
    close(tnp.array([tnp.ones(2), [3, 4]]), [[1, 1], [3, 4]])
    close(jit(lambda x: tnp.array([[x, 2], [3, x * 2]]))(5.0), [[5, 2], [3, 10]])
    assert jit(lambda x: tnp.array([x, 2.0]))(tnp.array(5, "int8")).dtype == np.float32
    close(grad(lambda x: tnp.sum(tnp.array([x, x * x])))(3.0), 7.0)
    close(tnp.array(range(3)), [0, 1, 2])
    assert tnp.array([1.7, -1.7], "int32").tolist() == [1, -1]
    assert tnp.array(1, ndmin=2).shape == (1, 1)
    mutable = np.zeros(3, np.float32)
    kept = tnp.asarray(mutable)
    mutable[0] = 1
    assert kept.tolist() == [0, 0, 0]
    close(tnp.from_dlpack(np.arange(3.0)), [0, 1, 2])
    assert tnp.copy(kept) is kept and tnp.astype(kept, "int8").dtype == np.int8
    with pytest.raises(ValueError, match="inhomogeneous"):
        tnp.array([[1], [1, 2]])
    with pytest.raises(OverflowError):
        tnp.array([2**40])
    with pytest.raises(TypeError):
        tnp.array(["a"])


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
def test_constant_arrays(name: str) -> None:
    function = getattr(tnp, name)
    for shape in (3, (), (2, 3), (0, 2)):
        x = function(shape)
        assert x.shape == np.zeros(shape).shape and x.dtype == np.float32
        if name != "empty":
            close(jit(lambda: function(shape, "int64"))(), getattr(np, name)(shape, "int64"))
    like = getattr(tnp, name + "_like")
    assert like(tnp.ones((2, 3), "int8")).dtype == np.int8
    assert like(np.ones((2, 3)), "float16", (4,)).shape == (4,)
    with pytest.raises(ValueError, match="negative"):
        function((-1,))
    with pytest.raises(TracerError):
        jit(lambda n: function(n))(3)


def test_full() -> None:
    assert tnp.full((2,), 7).dtype == np.int32 and tnp.full((2,), 7, "float16").dtype == np.float16
    close(tnp.full((2, 3), tnp.array([1, 2, 3])), np.full((2, 3), [1, 2, 3]))
    close(tnp.full_like(tnp.ones(3), 2.5), [2.5] * 3)


def test_ranges() -> None:
    for arguments in ((5,), (2, 5), (5, 2), (1, 10, 3), (10, 1, -4), (0,)):
        agree(lambda m: m.arange(*arguments))
        assert tnp.arange(*arguments).dtype == np.int32
    agree(lambda m: m.arange(0.5, 3, 0.5))
    assert jit(lambda x: tnp.arange(x.shape[0], dtype="int8"))(tnp.ones(3)).tolist() == [0, 1, 2]
    with pytest.raises(OverflowError):
        tnp.arange(2**31, 2**31 + 2)
    with pytest.raises(TracerError, match=r"test_numpy.*arange"):
        jit(tnp.arange)(3)
    assert tnp.arange(3.0).dtype == np.float32 and tnp.arange(3, dtype="int8").dtype == np.int8
    for num, endpoint in ((5, True), (5, False), (1, True), (0, True)):
        agree(lambda m: m.linspace(0.0, 2.0, num, endpoint))
        agree(
            lambda m, a, b: m.linspace(a, b, num, endpoint, axis=-1),
            np.array([0.0, 1.0]),
            np.array([3.0, -1.0]),
        )
    agree(lambda m: m.linspace(0.0, 1.0, 4, retstep=True))
    agree(lambda m: m.linspace(0, 10, 4, dtype="int32"))
    agree(lambda m: m.logspace(0.0, 2.0, 4))
    agree(lambda m: m.geomspace(1.0, 100.0, 4))
    check_gradient(lambda m, a, b: m.linspace(a, b, 4), np.array(1.0), np.array(3.0))


def test_grids() -> None:
    for n, m_, k in ((3, None, 0), (2, 4, 1), (4, 2, -1), (0, 2, 0)):
        agree(lambda m: m.eye(n, m_, k))
        agree(lambda m: m.tri(n, m_, k))
    agree(lambda m: m.identity(3))
    a, b, c = np.arange(2), np.arange(3.0), np.arange(4)
    for indexing in ("xy", "ij"):
        agree(lambda m, a, b, c: list(m.meshgrid(a, b, c, indexing=indexing)), a, b, c)
        agree(lambda m, a, b: list(m.meshgrid(a, b, indexing=indexing, sparse=True)), a, b)
    agree(lambda m: m.indices((2, 3)))
    agree(lambda m: m.fromfunction(lambda i, j: i * 10 + j, (2, 3)))


# Reductions

AXES: tuple[Any, ...] = (None, 0, -1, (0, 2), ())
REDUCTIONS = (
    "sum",
    "prod",
    "max",
    "min",
    "mean",
    "var",
    "std",
    "all",
    "any",
    "count_nonzero",
    "amax",
    "amin",
    "ptp",
    "median",
)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    for dtype in ("float32", "float64", "float16", "int32", "uint8", "bool"):
        if dtype == "bool" and name in ("ptp", "median"):
            continue
        x = numbers(dtype, (2, 3, 4), 0.5, 2)
        for axis, keepdims in itertools.product(AXES, (False, True)):
            if axis == () and name in ("median", "ptp", "count_nonzero"):
                continue
            agree(
                lambda m, x: getattr(m, name)(x, axis=axis, keepdims=keepdims),
                x,
                tolerance=4 * TOLERANCE.get(dtype, 1e-6),
                under_jit=keepdims,
            )
    agree(lambda m, x: getattr(m, name)(x), np.float32(3.0))
    agree(lambda m, x: getattr(m, name)(x), np.array([[1.0, np.nan], [np.inf, 2.0]], np.float32))
    if name in ("sum", "prod", "mean", "var", "std", "max", "min", "median", "ptp"):
        x = np.random.default_rng(0).permutation(12).reshape(3, 4) * 0.3 - 1.1
        for axis in (None, 0, (0, 1)):
            check_gradient(lambda m, x: getattr(m, name)(x, axis=axis), x)
    if name in ("sum", "prod", "all", "any", "count_nonzero"):
        agree(lambda m, x: getattr(m, name)(x, axis=0), np.zeros((0, 3), np.float32))
    elif name in ("max", "min"):
        with pytest.raises(ValueError, match="no elements"):
            getattr(tnp, name)(tnp.zeros((0, 3)))
        agree(lambda m, x: getattr(m, name)(x, axis=0, initial=2.0), np.zeros((0, 3), np.float32))
    with pytest.raises(ValueError, match="out of bounds"):
        getattr(tnp, name)(tnp.ones((2, 3)), axis=2)


def test_types_of_reductions() -> None:
    for dtype, total in (
        ("int8", "int32"),
        ("uint8", "uint32"),
        ("bool", "int32"),
        ("int64", "int64"),
        ("float16", "float16"),
    ):
        assert tnp.sum(tnp.ones(3, dtype)).dtype == total and tnp.prod(tnp.ones(3, dtype)).dtype == total
    assert tnp.sum(tnp.full(300, 100, "int8")) == 30000
    assert (
        tnp.mean(tnp.arange(4)).dtype == np.float32 and tnp.var(tnp.ones(3, "bfloat16")).dtype == tnp.bfloat16
    )
    assert tnp.mean(tnp.full(100_000, 1.0, "float16")) == 1.0
    assert tnp.var(tnp.full(1000, 300.0, "float16")) == 0.0
    assert (
        tnp.sum(tnp.ones(3), dtype="float64").dtype == np.float64
        and tnp.mean(tnp.arange(3), dtype="float64").dtype == np.float64
    )
    assert tnp.argmax(tnp.ones(3)).dtype == np.int32 and tnp.cumsum(tnp.ones(3, bool)).dtype == np.int32
    assert tnp.max(tnp.ones(3, "int8")).dtype == np.int8


def test_masked_reductions() -> None:
    x, mask = numbers("float32", (3, 4)), numbers("bool", (3, 4), seed=1)
    mask[0] = True
    for name in ("sum", "prod", "mean", "var", "std"):
        agree(lambda m, x, w: getattr(m, name)(x, axis=0, where=w), x, mask)
        agree(lambda m, x, w: getattr(m, name)(x, where=w[:, :1]), x, mask)
    for name in ("max", "min"):
        agree(lambda m, x, w: getattr(m, name)(x, axis=0, where=w, initial=0.5), x, mask)
        with pytest.raises(ValueError, match="initial"):
            getattr(tnp, name)(x, where=mask)
    agree(lambda m, x, w: (m.all(x > 0, where=w), m.any(x > 2, axis=1, where=w)), x, mask)
    agree(lambda m, x: m.sum(x, axis=1, initial=5.0), x)
    agree(lambda m, x: (m.var(x, ddof=1), m.std(x, axis=0, ddof=2)), x)
    agree(lambda m, x, w: m.average(x, axis=1, weights=w), x, np.array([1.0, 2.0, 3.0, 4.0], np.float32))
    agree(lambda m, x: m.average(x, axis=0, weights=x * x, returned=True), x)
    agree(lambda m, x: m.average(x), x)


@pytest.mark.parametrize(
    "name",
    [
        "nansum",
        "nanprod",
        "nanmax",
        "nanmin",
        "nanmean",
        "nanvar",
        "nanstd",
        "nanmedian",
        "nanargmax",
        "nanargmin",
    ],
)
def test_reductions_without_nan(name: str) -> None:
    x = numbers("float32", (3, 4))
    x[0, 1] = x[2, 3] = np.nan
    for axis in (None, 0, 1):
        agree(lambda m, x: getattr(m, name)(x, axis=axis), x)
    agree(lambda m, x: getattr(m, name)(x, axis=0), np.arange(6, dtype=np.int32).reshape(2, 3))
    result = getattr(tnp, name)(tnp.array([[np.nan], [np.nan]]), axis=0)
    assert float(result[0]) == {"nansum": 0, "nanprod": 1}.get(name, -1) or np.isnan(float(result[0]))
    if "arg" not in name:
        gradient = grad(lambda x: tnp.sum(getattr(tnp, name)(x, axis=0)))(tnp.asarray(x[:, :3]))
        assert np.isfinite(np.asarray(gradient)).all()


def test_positions_of_extremes() -> None:
    for x in (numbers("float32", (3, 4)), numbers("int32", (3, 4)), np.array([[1, np.nan, 3.0], [2, 2, 1]])):
        for name, axis, keepdims in itertools.product(("argmax", "argmin"), (None, 0, -1), (False, True)):
            agree(lambda m, x: getattr(m, name)(x, axis=axis, keepdims=keepdims), x)
    with pytest.raises(ValueError, match="no elements"):
        tnp.argmax(tnp.zeros((0,)))


def test_cumulative_functions() -> None:
    for shape in ((3, 5), (1,), (0,), (2, 1, 7)):
        x = numbers("float32", shape)
        for name, axis in itertools.product(("cumsum", "cumprod"), (None, 0, -1)):
            agree(lambda m, x: getattr(m, name)(x, axis=axis), x)
    x = numbers("float64", (2, 5))
    x[0, 2] = 0.0
    check_gradient(lambda m, x: (m.cumsum(x, 1), m.cumprod(x, 1)), x)
    assert tnp.cumprod(tnp.full(5, 2, "int32")).tolist() == [2, 4, 8, 16, 32]
    x[1, 1] = np.nan
    agree(lambda m, x: (m.nancumsum(x, axis=1), m.nancumprod(x, axis=0)), x)
    agree(lambda m, x: m.cumulative_sum(x, axis=1, include_initial=True), x)
    y = numbers("float32", (3, 6))
    agree(
        lambda m, y: (m.diff(y), m.diff(y, 2, axis=0), m.diff(y, prepend=1.0, append=y[:, :1]), m.ediff1d(y)),
        y,
    )
    agree(lambda m, y: list(m.gradient(y)) + [m.gradient(y, 0.5, axis=1)], y)
    agree(lambda m, y: (m.trapezoid(y), m.trapezoid(y, dx=0.5, axis=0), m.trapezoid(y, y[0])), y)
    agree(lambda m, y: (m.cov(y), m.cov(y, rowvar=False, ddof=0), m.corrcoef(y)), y)


def test_quantiles() -> None:
    x = numbers("float32", (3, 5))
    for method, axis in itertools.product(
        ("linear", "lower", "higher", "midpoint", "nearest"), (None, 0, 1, (0, 1))
    ):
        agree(lambda m, x: m.quantile(x, m.asarray([0.0, 0.3, 1.0]), axis=axis, method=method), x)
    agree(lambda m, x: m.percentile(x, 25, axis=1, keepdims=True), x)
    x[1, 2] = np.nan
    agree(lambda m, x: (m.quantile(x, 0.5, axis=1), m.nanquantile(x, 0.4, axis=1), m.nanmedian(x)), x)
    agree(lambda m, x: m.median(x), np.array([1.0, np.inf, np.inf], np.float32))
    check_gradient(
        lambda m, x: m.quantile(x, 0.3, axis=0), np.random.default_rng(0).permutation(12).reshape(4, 3) * 0.7
    )


# Movement


def test_shapes() -> None:
    x = numbers("float32", (2, 3, 4))
    agree(
        lambda m, x: (
            m.reshape(x, (4, -1)),
            m.reshape(x, -1),
            m.reshape(x, (6, 4), order="F"),
            m.ravel(x),
            m.ravel(x, order="F"),
        ),
        x,
    )
    agree(
        lambda m, x: (
            m.transpose(x),
            m.transpose(x, (1, 0, 2)),
            m.swapaxes(x, 0, -1),
            m.matrix_transpose(x),
            x.T,
            x.mT,
        ),
        x,
    )
    agree(
        lambda m, x: (
            m.moveaxis(x, 0, -1),
            m.moveaxis(x, (0, 1), (-1, 0)),
            m.rollaxis(x, 2),
            m.rollaxis(x, 0, 3),
        ),
        x,
    )
    agree(
        lambda m, x: (
            m.expand_dims(x, 0),
            m.expand_dims(x, (1, -1)),
            m.squeeze(m.expand_dims(x, (0, 2))),
            m.squeeze(x[:1], 0),
        ),
        x,
    )
    agree(lambda m, x: (m.broadcast_to(x, (5, 2, 3, 4)), list(m.broadcast_arrays(x, x[:, :1], 1.0))), x)
    agree(
        lambda m, x: [
            f(y) for f in (m.atleast_1d, m.atleast_2d, m.atleast_3d) for y in (x, x[0], x[0, 0], x[0, 0, 0])
        ],
        x,
    )
    assert tnp.broadcast_shapes((2, 1), (3,)) == (2, 3) and tnp.broadcast_shapes() == ()
    agree(lambda m, x: m.reshape(x, (0, 3)), np.zeros((0, 2)))
    check_gradient(lambda m, x: m.moveaxis(m.reshape(x, (3, 2, 2)), 0, 2), numbers("float64", (3, 4)))
    for attempt in (
        lambda: tnp.reshape(x, (5, 5)),
        lambda: tnp.reshape(x, (-1, 5)),
        lambda: tnp.reshape(x, (-1, -1)),
        lambda: tnp.transpose(x, (0, 1)),
        lambda: tnp.squeeze(x, 0),
        lambda: tnp.broadcast_to(x, (2, 3)),
        lambda: tnp.moveaxis(x, 0, 3),
        lambda: tnp.expand_dims(x, 5),
        lambda: tnp.transpose(x, (0, 0, 1)),
    ):
        with pytest.raises(ValueError, match="test_numpy"):
            attempt()


def test_joining_and_splitting() -> None:
    x, y = numbers("float32", (2, 3)), numbers("float32", (2, 3), seed=1)
    agree(
        lambda m, x, y: (
            m.concatenate([x, y]),
            m.concatenate((x, y), axis=-1),
            m.concatenate([x, y], axis=None),
            m.concat([x]),
        ),
        x,
        y,
    )
    agree(lambda m, x, y: (m.stack([x, y]), m.stack([x, y], axis=-1), m.stack([x, y], 1)), x, y)
    agree(
        lambda m, x, y: (m.vstack([x, y]), m.hstack([x, y]), m.dstack([x, y]), m.column_stack([x, y[:, 0]])),
        x,
        y,
    )
    agree(
        lambda m, x, y: (
            m.vstack([x[0], y[0]]),
            m.hstack([x[0], y[0]]),
            m.column_stack([x[0], y[0]]),
            m.append(x, y, 0),
            m.append(x, y),
        ),
        x,
        y,
    )
    agree(
        lambda m, x: (
            m.split(x, 3, 1),
            m.split(x, [1, 2], axis=1),
            m.array_split(x, 2, 1),
            m.hsplit(x, 3),
            m.vsplit(x, 2),
        ),
        x,
    )
    agree(lambda m, x: (m.array_split(x, 4, 1), m.split(x, [2, 1, 5], axis=1), list(m.unstack(x, axis=1))), x)
    assert tnp.concatenate([tnp.ones(1, "int8"), tnp.ones(1, "float16")]).dtype == np.float16
    assert tnp.concatenate(tnp.ones((2, 3))).shape == (6,)
    check_gradient(lambda m, x, y: (m.concatenate([x, y, x], 1), m.stack([x, y]), m.split(x, 3, 1)), x, y)
    with pytest.raises(ValueError, match="equal parts"):
        tnp.split(x, 2, 1)
    with pytest.raises(ValueError, match="differ"):
        tnp.concatenate([x, x[:, :1]], 0)
    with pytest.raises(ValueError, match="different shapes"):
        tnp.stack([x, x[:1]])
    with pytest.raises(ValueError, match="at least one"):
        tnp.concatenate([])


def test_repeating_and_rearranging() -> None:
    x = numbers("float32", (2, 3))
    agree(lambda m, x: [m.tile(x, reps) for reps in (2, (2, 1), (2, 1, 3), (0,), ())], x)
    agree(lambda m, x: (m.repeat(x, 2), m.repeat(x, 3, axis=0), m.repeat(x, 0, axis=1)), x)
    agree(lambda m, x: m.repeat(x, np.array([1, 0, 2]), axis=1), x)
    close(
        jit(lambda x, n: tnp.repeat(x, n, total_repeat_length=4))(tnp.arange(3), tnp.array([1, 0, 3])),
        [0, 2, 2, 2],
    )
    agree(lambda m, x: (m.flip(x), m.flip(x, 0), m.flip(x, (0, 1)), m.flipud(x), m.fliplr(x)), x)
    agree(lambda m, x: (m.roll(x, 2), m.roll(x, -1, 1), m.roll(x, (1, 2), (0, 1)), m.roll(x, 7, 1)), x)
    close(jit(lambda x, n: tnp.roll(x, n, 1))(tnp.asarray(x), -4), np.roll(x, -4, 1))
    agree(lambda m, x: [m.rot90(x, k) for k in range(-1, 5)], x)
    check_gradient(lambda m, x: (m.tile(x, (2, 2)), m.repeat(x, 2, 1), m.roll(x, 1, 1), m.rot90(x)), x)


@pytest.mark.parametrize(
    "mode", ["constant", "edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "mean", "linear_ramp"]
)
def test_pad(mode: str) -> None:
    x = numbers("float32", (3, 4))
    for width in (1, (1, 2), ((0, 3), (2, 0)), ((7, 5), (6, 9)), 0):
        agree(lambda m, x: m.pad(x, width, mode), x)
    agree(lambda m, x: m.pad(x, ((2, 3), (1, 1)), mode), np.arange(6, dtype=np.int32).reshape(1, 6))
    check_gradient(
        lambda m, x: m.pad(x, ((2, 3), (1, 1)), mode),
        np.random.default_rng(0).permutation(6).reshape(2, 3) * 0.5,
    )


def test_pad_with_values() -> None:
    x = numbers("float32", (2, 3))
    agree(lambda m, x: m.pad(x, 1, constant_values=5), x)
    agree(lambda m, x: m.pad(x, ((1, 2), (3, 4)), constant_values=((1, 2), (3, 4))), x)
    agree(lambda m, x: m.pad(x, 2, "linear_ramp", end_values=3), x)
    with pytest.raises(ValueError, match="no mode"):
        tnp.pad(x, 1, "mirror")


def test_triangles_and_diagonals() -> None:
    x = numbers("float32", (3, 4))
    for k in range(-4, 6):
        agree(
            lambda m, x: (
                m.tril(x, k),
                m.triu(x, k),
                m.diagonal(x, k),
                m.diag(x, k),
                m.diag(x[0], k),
                m.trace(x, k),
            ),
            x,
        )
    y = numbers("float32", (2, 3, 4))
    agree(lambda m, y: (m.diagonal(y), m.diagonal(y, 1, 2, 0), m.trace(y, axis1=1, axis2=2), m.tril(y)), y)
    agree(lambda m, x: m.diagflat(x, -1), x)
    agree(lambda m: (m.tril_indices(3, 1, 4), m.triu_indices(3, -1), m.diag_indices(3)))
    bad = np.full((2, 2), np.nan, np.float32)
    agree(lambda m, x: (m.tril(x), m.diagonal(x)), bad)
    close(tnp.fill_diagonal(tnp.ones((2, 3)), 5, inplace=False), [[5, 1, 1], [1, 5, 1]])
    check_gradient(lambda m, x: (m.tril(x), m.diagonal(x, 1), m.diag(x[0]), m.trace(x)), x)


# Positions and order


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


# Products


def test_products() -> None:
    x, y = numbers("float32", (2, 3)), numbers("float32", (3, 4), seed=1)
    u, v = x[0], y[:, 0]
    agree(
        lambda m, x, y: (
            x @ y,
            m.matmul(x, y),
            m.dot(x, y),
            m.inner(x, y.T),
            m.outer(x, y),
            m.tensordot(x, y, 1),
            m.kron(x, y),
        ),
        x,
        y,
    )
    agree(
        lambda m, u, v: (
            u @ v,
            m.dot(u, v),
            m.vdot(u, v),
            m.inner(u, v),
            m.outer(u, v),
            m.kron(u, v),
            m.vecdot(u, v),
            m.cross(u, v),
        ),
        u,
        v,
    )
    agree(
        lambda m, x, v: (
            x @ v,
            m.dot(x, v),
            m.dot(2.0, x),
            m.matvec(x, v),
            m.vecmat(v, x.T),
            m.cross(x, v),
            m.vecdot(x, v),
        ),
        x,
        v,
    )
    a, b = numbers("float32", (5, 1, 2, 3)), numbers("float32", (4, 3, 2), seed=2)
    agree(
        lambda m, a, b: (
            m.matmul(a, b),
            m.tensordot(a, b, ((2, 3), (2, 1))),
            m.tensordot(a, b, 0),
            m.dot(a, b),
            m.matmul(b, a),
        ),
        a,
        b,
    )
    check_gradient(lambda m, x, y: (m.matmul(x, y), m.outer(x, y), m.kron(x, y), m.tensordot(x, y, 1)), x, y)
    agree(lambda m, x: (x @ x.T, m.einsum("ij->j", x)), np.array([[True, False], [True, True]]))
    assert tnp.matmul(tnp.ones((2, 2), "bfloat16"), tnp.ones((2, 2), "bfloat16")).dtype == tnp.bfloat16
    assert (
        tnp.dot(tnp.ones(2, "bfloat16"), tnp.ones(2, "bfloat16"), preferred_element_type="float32").dtype
        == np.float32
    )
    with pytest.raises(ValueError, match="size"):
        tnp.dot(x, x)
    with pytest.raises(ValueError, match="sizes"):
        tnp.tensordot(x, x, 1)


SUBSCRIPTS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ij,kj->ik", (2, 3), (4, 3)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iij->j", (3, 3, 2)),
    ("iji->j", (3, 2, 3)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("ba", (2, 3)),
    ("...ij,...jk->...ik", (5, 2, 3), (3, 4)),
    ("i...,i...->...", (3, 2), (3, 2)),
    ("...i->...", (2, 3)),
    ("...ii->...i", (2, 3, 3)),
    ("i,j->ij", (2,), (3,)),
    ("i,i", (3,), (3,)),
    ("i,i->i", (3,), (3,)),
    (",ij->ij", (), (2, 3)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("a,ab,abc->abc", (2,), (2, 3), (2, 3, 4)),
    ("ea,fb,abcd,gc,hd->efgh", (2, 3), (2, 4), (3, 4, 2, 3), (3, 2), (2, 3)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("ij,ij->j", (2, 3), (1, 3)),
    ("ij,ik->jk", (2, 3), (2, 4)),
    ("ijk,ljm->ikm", (2, 3, 4), (2, 3, 5)),
    ("i,ij->", (1,), (2, 3)),
    ("ij,j->i", (2, 0), (0,)),
    (" i j , j k -> i k ", (2, 3), (3, 4)),
]


@pytest.mark.parametrize("case", SUBSCRIPTS, ids=lambda c: c[0])
def test_einsum(case: tuple[Any, ...]) -> None:
    subscripts, *shapes = case
    arrays = [numbers("float64", shape, seed=i) for i, shape in enumerate(shapes)]
    agree(lambda m, *xs: m.einsum(subscripts, *xs), *arrays, tolerance=1e-9)
    close(tnp.einsum(subscripts, *arrays, optimize=False), np.einsum(subscripts, *arrays))
    if all(a.size < 13 for a in arrays):
        check_gradient(lambda m, *xs: m.einsum(subscripts, *xs), *arrays)


def test_einsum_from_lists_and_errors() -> None:
    x, y = numbers("float32", (2, 3)), numbers("float32", (3, 4))
    agree(
        lambda m, x, y: (
            m.einsum(x, [0, 1], y, [1, 2], [0, 2]),
            m.einsum(x, [0, 1], [1, 0]),
            m.einsum(x, [Ellipsis, 1], [1, Ellipsis]),
        ),
        x,
        y,
    )
    for subscripts, arrays in (
        ("ij,jk->ik", (x,)),
        ("ij->k", (x,)),
        ("ijk->i", (x,)),
        ("ij,ij->i", (x, y)),
        ("ij->ii", (x,)),
        ("i+->i", (x,)),
    ):
        with pytest.raises(ValueError, match=r"einsum .*test_numpy"):
            tnp.einsum(subscripts, *arrays)


def test_sequences() -> None:
    x, y = numbers("float32", (7,)), numbers("float32", (3,), seed=1)
    for mode in ("full", "same", "valid"):
        agree(
            lambda m, x, y: (
                m.convolve(x, y, mode),
                m.convolve(y, x, mode),
                m.correlate(x, y, mode),
                m.correlate(y, x, mode),
            ),
            x,
            y,
        )
        agree(
            lambda m, x, y: (
                m.convolve(x, y[:2], mode),
                m.correlate(x, y[:2], mode),
                m.correlate(y[:2], x, mode),
            ),
            x,
            y,
        )
    check_gradient(lambda m, x, y: m.convolve(x, y), x[:4], y)
    agree(lambda m, p, x: (m.polyval(p, x), m.vander(x, 3), m.vander(x, increasing=True)), y, x)
    agree(lambda m, x: m.unwrap(x * 3), x)


# Functions of functions, methods, files


def test_vectorize_and_apply() -> None:
    x, y = numbers("float32", (3, 4)), numbers("float32", (4,), seed=1)
    close(tnp.vectorize(lambda a, b: a * b + 1)(x, y), x * y + 1)
    close(tnp.vectorize(lambda a, b: a * b)(x[:, :1], y), x[:, :1] * y)
    close(tnp.vectorize(lambda a, b: tnp.dot(a, b), signature="(n),(n)->()")(x, y), x @ y)
    close(tnp.vectorize(lambda a, k: a * k, excluded={1})(x, 3), x * 3)
    for axis in (0, 1):
        close(tnp.apply_along_axis(tnp.cumsum, axis, tnp.asarray(x)), np.cumsum(x, axis))
        close(tnp.apply_along_axis(tnp.max, axis, tnp.asarray(x)), np.max(x, axis))


def test_methods() -> None:
    x = numbers("float32", (2, 3))
    a = tnp.asarray(x)
    for name in (
        "sum",
        "mean",
        "prod",
        "max",
        "min",
        "argmax",
        "argmin",
        "std",
        "var",
        "cumsum",
        "ravel",
        "flatten",
        "squeeze",
        "round",
        "copy",
        "conj",
    ):
        close(getattr(a, name)(), getattr(x, name)())
        close(jit(lambda v: getattr(v, name)())(a), getattr(x, name)())
    close(a.reshape(3, 2), x.reshape(3, 2))
    close(a.reshape((3, -1)), x.reshape(3, 2))
    close(a.transpose(1, 0), x.T)
    close(a.transpose((1, 0)), x.T)
    close(a.T @ a, x.T @ x)
    close(a.clip(-1, 1), x.clip(-1, 1))
    close(a.take(tnp.array([0, 1]), 1), x[:, :2])
    close(a.sort(), np.sort(x))
    close(a.argsort(0), np.argsort(x, 0))
    close(a.swapaxes(0, 1), x.T)
    close(a.dot(a.T), x @ x.T)
    close(a.repeat(2, 0), x.repeat(2, 0))
    assert bool((a > 5).any()) is False and bool((a < 5).all())
    assert a.astype("int32").dtype == np.int32 and a.view("int32").dtype == np.int32
    assert a.real is a and a.imag.sum() == 0
    assert [p.tolist() for p in divmod(tnp.array([7, -7]), 2)] == [[3, -4], [1, 1]]
    assert [p.tolist() for p in divmod(7, tnp.array([2, 3]))] == [[3, 2], [1, 1]]
    assert x[0, 0] in a and len(a) == 2 and [row.shape for row in a] == [(3,), (3,)]
    close(np.ones(3, np.float32) * a, x)
    with pytest.raises(TypeError):
        a + "1"
    assert pickle.loads(pickle.dumps(a)).tolist() == a.tolist()


def test_files(tmp_path: Any) -> None:
    x = tnp.arange(6.0).reshape(2, 3)
    tnp.save(tmp_path / "x.npy", x)
    assert tnp.load(tmp_path / "x.npy").tolist() == x.tolist()
    tnp.savez(tmp_path / "x.npz", x, y=x)
    with tnp.load(tmp_path / "x.npz") as archive:
        assert archive["y"].tolist() == x.tolist()


@pytest.mark.parametrize("ord", [None, 1, 2, 3, np.inf, -np.inf, 0, "fro", -1])
def test_norm(ord: Any) -> None:
    x = numbers("float32", (3, 4))
    if ord != "fro":
        agree(
            lambda m, x: (
                m.linalg.norm(x, ord, axis=1),
                m.linalg.norm(x[0], ord),
                m.linalg.norm(x, ord, axis=0, keepdims=True),
            ),
            x,
        )
    if ord in (1, -1, np.inf, -np.inf, "fro", None):
        agree(lambda m, x: (m.linalg.norm(x, ord), m.linalg.norm(x, ord, (1, 0), keepdims=True)), x)
    if ord in (None, 2, 3, 1):
        gradient = grad(lambda v: tnp.linalg.norm(v, ord))(tnp.zeros(3))
        assert gradient.tolist() == [0, 0, 0]
        check_gradient(lambda m, x: m.linalg.norm(x, ord, axis=1), x)


def test_linalg() -> None:
    x = numbers("float32", (2, 3, 3))
    agree(
        lambda m, x: (
            m.linalg.matrix_norm(x),
            m.linalg.matrix_norm(x, ord=1),
            m.linalg.vector_norm(x, axis=1),
            m.linalg.vector_norm(x),
        ),
        x,
    )
    agree(
        lambda m, x: (
            m.linalg.matrix_power(x, 0),
            m.linalg.matrix_power(x, 5),
            m.linalg.trace(x),
            m.linalg.diagonal(x, offset=1),
        ),
        x,
    )
    agree(
        lambda m, x: (
            m.linalg.multi_dot([x[0], x[1], x[0, 0]]),
            m.linalg.cross(x[0], x[1]),
            m.linalg.outer(x[0, 0], x[0, 1]),
        ),
        x,
    )


def test_exported_names_exist_and_are_documented() -> None:
    for name in tnp.__all__:
        value = getattr(tnp, name)
        if (
            callable(value)
            and not isinstance(value, type)
            and getattr(value, "__module__", "").startswith("tinyfn")
        ):
            assert value.__doc__, name


def test_dlpack_shares_memory_both_ways() -> None:
    """Zero-copy on the CPU: out as a read-only view, in as an array over the other library's memory."""

    def address(a: np.ndarray[Any, Any]) -> int:
        return int(a.__array_interface__["data"][0])

    x = tnp.arange(6.0).reshape(2, 3)
    view = np.from_dlpack(x)
    assert address(view) == address(np.asarray(x)) and not view.flags.writeable
    ours = np.arange(6.0, dtype=np.float32)
    assert address(np.asarray(tnp.from_dlpack(ours))) == address(ours)
    assert address(np.asarray(tnp.from_dlpack(ours, copy=True))) != address(ours)
    assert x.__dlpack_device__() == (1, 0)
