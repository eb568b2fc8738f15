"""Elementwise functions as scalar operations: their errors in units in the last place, special values, sizes.

Everything is worked out by `scalar.evaluate`, whose bits every device has to give."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

import tinyfn  # noqa: F401  (registers the primitives)
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import scalar
from tinyfn.trace.algebra import SIMPLIFY
from tinyfn.trace.prim import REGISTRY, Elementwise
from tinyfn.trace.prims import gamma_functions, integrals  # noqa: F401  (registers them)
from tinyfn.trace.prims.special import erf_inv_reference, erf_reference, erfc_reference
from tinyfn.trace.rewrite import rewrite
from tinyfn.trace.uop import CONST, INPUT, input_node, toposort

float16, bfloat16, float32, float64 = dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64


def graph(name, *operand_dtypes, **params):
    """The inputs and the result of a primitive's scalar formula."""
    inputs = [input_node(dtype, ()) for dtype in operand_dtypes]
    return inputs, REGISTRY[name].scalar(*inputs, **params)


def run(name, *operands, **params):
    inputs, result = graph(name, *[dtypes.canonical(np.asarray(x).dtype) for x in operands], **params)
    return np.asarray(scalar.evaluate([result], dict(zip(inputs, operands, strict=True)))[0])


def stated_ulp(name, dtype):
    """By how many units in the last place the primitive says that it may be off, of which halves' last rounding is one half."""
    single, double = REGISTRY[name].ulp
    return {float32: single, float64: double}.get(dtype, 0.51)


# References, in the precision of their argument.


def logistic(x):
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, decay) / (1 + decay)


REFERENCES = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "cbrt": np.cbrt, "cos": np.cos, "cosh": np.cosh, "erf": erf_reference,
    "erf_inv": erf_inv_reference, "erfc": erfc_reference, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log1p": np.log1p, "log2": np.log2, "logistic": logistic,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "sinh": np.sinh, "tan": np.tan, "tanh": np.tanh,
}  # fmt: skip
LONG = np.longdouble
HALF_ROOT_PI = np.sqrt(LONG(np.arctan2(LONG(0), LONG(-1)))) / 2


def long_erf(x):
    """2/sqrt(pi) exp(-x²) times the sum of 2**n x**(2n + 1) / (2n + 1)!!, in which nothing cancels."""
    term = total = x
    for n in range(1, 260):
        term = term * (2 * x * x) / (2 * n + 1)
        total = total + term
    return np.exp(-x * x) * total / HALF_ROOT_PI


def long_erfc(x):
    """1 - erf(x), and above 2 the continued fraction (Abramowitz and Stegun, 7.1.14)."""
    x = np.minimum(x, LONG(40))
    outer = np.where(x > 2, x, LONG(2))
    fraction = outer
    for n in range(300, 0, -1):
        fraction = outer + LONG(n) / 2 / fraction
    # exp(-x²) with the rounding of x² put back: both factors of the second term are exact.
    head = outer.astype(np.float32).astype(LONG)
    tail = np.exp(-head * head) * np.exp((head - outer) * (head + outer)) / fraction / (2 * HALF_ROOT_PI)
    return np.where(x > 2, tail, 1 - long_erf(np.where(x > 2, LONG(0), np.maximum(x, LONG(-7)))))


def long_erf_inv(x):
    """The float64 reference, with more of Newton's steps (it is off where x is within 2**-44 of 1)."""
    a = np.abs(x)
    y = np.abs(erf_inv_reference(x.astype(float64))).astype(LONG)
    for _ in range(5):
        error = np.where(a < 0.5, long_erf(np.minimum(y, LONG(6))) - a, (1 - a) - long_erfc(y))
        y = np.where(a < 1, y - error * HALF_ROOT_PI * np.exp(y * y), y)
    return np.copysign(y, x)


LONG_REFERENCES = {**REFERENCES, "erf": lambda x: np.copysign(long_erf(np.minimum(np.abs(x), LONG(7))), x),
                   "erfc": long_erfc, "erf_inv": long_erf_inv}  # fmt: skip


def ulps(got, want, dtype):
    """How far the results are from the wider reference, in units in the last place of the reference.

    Beyond the largest number, infinity counts as the next power of two."""
    info = ml_dtypes.finfo(dtype)
    lowest, beyond = int(info.minexp), np.ldexp(want.dtype.type(1), int(info.maxexp))
    assert np.array_equal(np.isnan(got), np.isnan(want))
    got, want = (np.clip(np.nan_to_num(v.astype(want.dtype)), -beyond, beyond) for v in (got, want))
    exponent = np.maximum(np.frexp(np.where(want == 0, np.ldexp(beyond, -2000), want))[1] - 1, lowest)
    return np.abs(got - want) / np.ldexp(
        np.ones_like(want), np.minimum(exponent, info.maxexp - 1) - info.nmant
    )


def worst(name, got, want, dtype, *operands):
    """The largest error, and a message that says where."""
    error = ulps(got, want, dtype)
    at = int(np.argmax(error))
    return error[at], f"{name}({', '.join(repr(x[at]) for x in operands)}) = {got[at]!r}, not {want[at]!r}"


# Arguments.

# Where one formula gives way to another, or an argument is cut off.
BOUNDARIES = np.array(
    [0.5, 1, 2 / 3, 4 / 3, 0.5**0.5, 2**0.5, 2, 2.5, 3, 3.93, 4, 6, 6.25, 10, 10.06, 10.1, 16, 18, 20, 27.3,
     38, 88.722839, 88.8, 89, 89.41, 89.6, 104, 104.5, 128, 127.5, 129, 149, 150, 152, 709.78, 710, 710.47,
     745.2, 746, 1024, 1075, *[2.0**-n for n in (12, 13, 24, 25, 26, 27, 53, 54, 126, 149)],
     *[2.0**n for n in (22, 23, 24, 30, 50, 52, 53, 60, 77, 104)],
     *[n * math.log(2) / 2 for n in range(1, 40)], *[n * math.pi / 4 for n in range(1, 60)],
     *[n * math.pi / 2 * 2.0**22 for n in range(1, 30)], 0.99999994, 1 - 2.0**-53, 0.9999999, 0.9932, 0.99862]
)  # fmt: skip
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    np.inf,
    -np.inf,
    np.nan,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    2.5,
    -2.5,
    1e10,
    16777217.0,
    1e-30,
]


def near_boundaries(dtype):
    middle = BOUNDARIES.astype(dtype)
    bits = middle.view(f"i{dtype.itemsize}")[:, None] + np.arange(-20, 21)
    positive = bits.astype(f"i{dtype.itemsize}").view(dtype).ravel()
    return np.concatenate([positive, -positive])


def finite(x):
    return x[np.isfinite(x)]


def float32_points():
    """Every exponent, also that of the subnormals, with 200 mantissas and both signs, and the boundaries."""
    generator = np.random.default_rng(0)
    mantissas = generator.integers(0, 1 << 23, (512, 200), dtype=np.uint32)
    mantissas[:, :4] = 0, 1, (1 << 23) - 1, 1 << 22
    exponents = np.arange(512, dtype=np.uint32)[:, None] << np.uint32(23)
    dense = generator.uniform(-4, 4, 20000).astype(float32)
    return finite(
        np.concatenate([(exponents | mantissas).view(float32).ravel(), dense, near_boundaries(float32)])
    )


def float64_points():
    generator = np.random.default_rng(1)
    signs = generator.choice([-1.0, 1.0], 900)
    parts = [
        np.ldexp(generator.uniform(1, 2, 900), generator.integers(-1074, 1024, 900)) * signs,
        np.ldexp(generator.uniform(1, 2, 900), generator.integers(-30, 12, 900)) * signs,
        generator.uniform(-4, 4, 600),
        generator.uniform(-30, 30, 300),
        signs[:400] * (1 + np.ldexp(generator.uniform(-1, 1, 400), generator.integers(-50, 0, 400))),
        np.round(np.ldexp(generator.uniform(1, 2, 300), generator.integers(0, 52, 300))) * (np.pi / 2),
        near_boundaries(float64)[::13],
    ]
    return finite(np.concatenate(parts))


POINTS32, POINTS64 = float32_points(), float64_points()
# What works in float64 also for narrower types takes long to evaluate: a float64 fma is done in fractions.
WIDE = {"sin", "cos", "tan", "pow"}


@pytest.mark.parametrize("name", REFERENCES)
def test_float32_is_within_the_stated_ulp(name):
    x = POINTS32[:: 9 if name in WIDE else 1]
    with np.errstate(all="ignore"):
        want = REFERENCES[name](x.astype(float64))
    error, message = worst(name, run(name, x), want, float32, x)
    assert error <= stated_ulp(name, float32), message


@pytest.mark.skipif(np.finfo(LONG).nmant < 63, reason="long double is not wider than double here")
@pytest.mark.parametrize("name", REFERENCES)
def test_float64_is_within_the_stated_ulp(name):
    x = POINTS64[:: 3 if name in ("erf", "erfc", "erf_inv") else 1]
    with np.errstate(all="ignore"):
        want = LONG_REFERENCES[name](x.astype(LONG))
    error, message = worst(name, run(name, x), want, float64, x)
    assert error <= stated_ulp(name, float64), message


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
def test_every_half_is_rounded_once_more_and_no_more(dtype):
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    every = every[np.isfinite(every.astype(float32))]
    for name, reference in REFERENCES.items():
        x = every[:: 16 if name in WIDE else 1]
        with np.errstate(all="ignore"):
            want = reference(x.astype(float64))
        error, message = worst(name, run(name, x), want, dtype, x)
        assert error <= stated_ulp(name, dtype), message


def pairs(dtype):
    """Operands for pow and atan2: of all sizes, near 1 with large powers, and alike."""
    generator = np.random.default_rng(2)
    count, most = (4000, 80) if dtype is float32 else (600, 600)
    digits = np.finfo(dtype).nmant
    random = [np.exp(generator.uniform(-most, most, count)), generator.uniform(-1.5, 1.5, count)]
    distance = generator.uniform(-1, 1, count) * np.exp2(-generator.integers(0, digits, count).astype(float))
    near_one = [1 + distance, np.exp(generator.uniform(0, digits / 2, count))]
    tiny = [np.exp(generator.uniform(-most * 1.24, -most, count)), generator.uniform(-1, 1, count)]
    alike = [random[0], random[0] * generator.choice([1, 2, 0.5, 1e-6, 1e-30], count)]
    x, y = (np.concatenate(part).astype(dtype) for part in zip(random, near_one, tiny, alike, strict=True))
    return x, y


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_functions_of_two_are_within_the_stated_ulp(dtype):
    wider = float64 if dtype is float32 else LONG
    x, y = pairs(dtype)
    for name, reference, a, b in (
        ("pow", np.power, x, y),
        ("atan2", np.arctan2, x, y),
        ("atan2", np.arctan2, y, -x),
    ):
        with np.errstate(all="ignore"):
            want = reference(a.astype(wider), b.astype(wider))
        error, message = worst(name, run(name, a, b), want, dtype, a, b)
        assert error <= stated_ulp(name, dtype), message


@pytest.mark.parametrize("exponent", [-4, -3, -2, -1, 0, 1, 2, 3, 4, 13])
def test_integer_pow(exponent):
    x = POINTS32[np.abs(np.log2(np.abs(POINTS32) + 1e-40)) < 9]
    got = np.broadcast_to(run("integer_pow", x, exponent=exponent), x.shape)
    error, message = worst("integer_pow", got, x.astype(float64) ** exponent, float32, x)
    assert error <= stated_ulp("integer_pow", float32) * max(1, abs(exponent) / 4), message
    assert run("integer_pow", np.array([3, 250], np.uint8), exponent=5).tolist() == [243, 250**5 % 256]


def test_hardest_angles():
    # The float64 next to a multiple of pi/2 (J.-M. Muller, "Elementary Functions", 2006), and its cosine.
    x = np.array([math.ldexp(6381956970095103, 797)])
    assert run("cos", x)[0] == pytest.approx(-4.687165924254623e-19, rel=3e-16)
    assert run("sin", x)[0] == 1.0
    hard = np.array([16367173 * 2.0**72, 11184811.0, 3.0e38, 1.7e19, 2.0**50, 2.0**77, 2.0**104], float32)
    for name in ("sin", "cos", "tan"):
        want = REFERENCES[name](hard.astype(LONG)).astype(float64)
        assert worst(name, run(name, hard), want, float32, hard)[0] <= stated_ulp(name, float32)


# Special values and exact functions, compared bit by bit (but for the bits of a NaN).


def assert_same(name, got, want, *operands):
    assert got.dtype == want.dtype
    same = got == want
    if got.dtype.kind != "b" and dtypes.is_float(dtypes.canonical(got.dtype)):
        wide_got, wide_want = got.astype(float64), want.astype(float64)
        same = np.where(
            np.isnan(wide_want), np.isnan(wide_got), same & (np.signbit(wide_got) == np.signbit(wide_want))
        )
    assert same.all(), [(name, *[x[i] for x in operands], got[i], want[i]) for i in np.flatnonzero(~same)[:5]]


EXACT = {
    "abs": np.abs, "ceil": np.ceil, "floor": np.floor, "is_finite": np.isfinite, "is_inf": np.isinf,
    "is_nan": np.isnan, "neg": np.negative, "round": np.rint, "sign": np.sign, "sqrt": np.sqrt,
    "trunc": np.trunc,
}  # fmt: skip
EXACT_OF_TWO = {
    "add": np.add, "div": np.divide, "eq": np.equal, "ge": np.greater_equal, "gt": np.greater,
    "le": np.less_equal, "lt": np.less, "mul": np.multiply, "ne": np.not_equal, "nextafter": np.nextafter,
    "rem": np.fmod, "sub": np.subtract,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_exact_functions_have_numpys_bits(dtype):
    x = np.concatenate([POINTS32[::7] if dtype is float32 else POINTS64[::3], np.array(SPECIAL, dtype)])
    generator = np.random.default_rng(3)
    y = generator.permutation(x)
    whole = np.round(generator.uniform(-1e6, 1e6, len(x))).astype(dtype)
    with np.errstate(all="ignore"):
        for name, reference in EXACT.items():
            assert_same(name, run(name, x), reference(x), x)
        for name, reference in EXACT_OF_TWO.items():
            # Also of multiples, of equals, and of zeros.
            for a, b in (
                (x, y),
                (whole * y, y),
                (x, x),
                (x, x * dtype.type(-0.0)),
                (whole + dtype.type(0.5), np.sign(y)),
            ):
                assert_same(name, run(name, a, b), reference(a, b), a, b)


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_special_values_are_numpys(dtype):
    x = np.array(SPECIAL, dtype)
    with np.errstate(all="ignore"):
        for name, reference in REFERENCES.items():
            got, want = run(name, x), reference(x.astype(float64)).astype(dtype)
            assert_same(name, got[~np.isfinite(want)], want[~np.isfinite(want)], x[~np.isfinite(want)])
            assert np.array_equal(np.signbit(got) & ~np.isnan(got), np.signbit(want) & ~np.isnan(want)), name
            # At zero and infinity the value itself: 0, 1, ..., or a multiple of pi that is rounded right.
            limits = np.isin(x, [0, np.inf, -np.inf])
            assert_same(name, got[limits], want[limits], x[limits])
            assert np.allclose(got, want, rtol=1e-6, atol=0, equal_nan=True), name
        a, b = (
            np.array(v, dtype)
            for v in zip(*itertools.product([*SPECIAL, 1e38, 1e-45, -1e-45], repeat=2), strict=True)
        )
        for name, reference in (("pow", np.power), ("atan2", np.arctan2)):
            got, want = run(name, a, b), reference(a, b)
            assert np.allclose(got, want, rtol=1e-6, atol=0, equal_nan=True), name
            assert np.array_equal(np.signbit(got) & ~np.isnan(got), np.signbit(want) & ~np.isnan(want)), name
    zeros, wild = np.array([0, -0.0, 2], dtype), np.array([np.inf, np.nan, np.nan], dtype)
    assert_same("mul_zero", run("mul_zero", zeros, wild), np.array([0, -0.0, np.nan], dtype), zeros, wild)


def test_neighbours_of_halves():
    for dtype in (float16, bfloat16):
        x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
        for y in (np.roll(x, 12345), np.zeros_like(x), -x):
            with np.errstate(all="ignore"):
                # Of equal numbers the second, as in C; NumPy gives the first of two zeros here.
                want = np.where(x == y, y, np.nextafter(x, y))
            assert_same("nextafter", run("nextafter", x, y), want, x, y)


# Coverage.

ELEMENTWISE = {
    name: primitive
    for name, primitive in REGISTRY.items()
    if isinstance(primitive, Elementwise) and primitive.scalar is not None
}


def real_samples(primitive):
    for sample in primitive.samples():
        kinds = [np.asarray(a).dtype.kind for a in sample.args] + [
            sample.params.get("dtype", np.dtype(bool)).kind
        ]
        if "c" not in kinds:
            yield [np.asarray(a) for a in sample.args], sample.params


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_primitive_agrees_with_its_reference(name):
    for operands, params in real_samples(ELEMENTWISE[name]):
        got = run(name, *operands, **params)
        with np.errstate(all="ignore"):
            want = np.asarray(ELEMENTWISE[name].reference(*operands, **params))
        assert got.dtype == want.dtype and got.shape == want.shape
        if not dtypes.is_float(dtypes.canonical(want.dtype)):
            assert np.array_equal(got, want), (operands, params)
            continue
        epsilon = float(ml_dtypes.finfo(want.dtype).eps)
        # NumPy's own functions are within 4 units in the last place.
        tolerance = epsilon * (stated_ulp(name, want.dtype) + 4) if any(ELEMENTWISE[name].ulp) else 0
        assert np.allclose(
            got.astype(float64), want.astype(float64), rtol=tolerance, atol=0, equal_nan=True
        ), (operands, params)


def operations(name, *operand_dtypes, **params):
    """The number of machine operations; constants and bitcasts cost nothing."""
    _, result = graph(name, *operand_dtypes, **params)
    return sum(node.op not in (CONST, INPUT, scalar.BITCAST) for node in toposort([result]))


# float32 and float64. A larger number is a slower kernel: change it knowingly.
COUNTS = {
    "acos": (22, 29), "acosh": (32, 44), "asin": (17, 24), "asinh": (34, 46), "atan": (18, 29),
    "atan2": (26, 37), "atanh": (30, 42), "cbrt": (32, 34), "ceil": (4, 4), "cos": (34, 165),
    "cosh": (23, 30), "erf": (34, 58), "erf_inv": (49, 106), "erfc": (40, 58), "exp": (16, 22),
    "exp2": (15, 21), "expm1": (19, 25), "floor": (4, 4), "log": (27, 39), "log1p": (27, 39),
    "log2": (28, 40), "logistic": (20, 26), "nextafter": (16, 16), "pow": (65, 116), "rem": (44, 310),
    "round": (7, 7), "rsqrt": (2, 2), "sign": (5, 5), "sin": (35, 166), "sinh": (27, 34), "tan": (36, 167),
    "tanh": (20, 26),
    # Computed in float64 in any case.
    "bessel_i0e": (86, 84), "bessel_i1e": (93, 91), "digamma": (142, 140), "gamma": (276, 274), "lgamma": (167, 165),
    "ndtri": (174, 172), "cosine_integral": (345, 343), "dawsn": (96, 94), "erfcx": (112, 110), "exp1": (168, 166),
    "expi": (309, 307), "sine_integral": (308, 306), "spence": (133, 131),
}  # fmt: skip


def test_the_number_of_operations():
    arity = {name: ELEMENTWISE[name].arity for name in COUNTS}
    found = {
        name: tuple(operations(name, *[dtype] * arity[name]) for dtype in (float32, float64))
        for name in COUNTS
    }
    assert found == COUNTS
    stated = {name for name, primitive in ELEMENTWISE.items() if any(primitive.ulp)}
    assert set(COUNTS) == stated - {"integer_pow"} | {"ceil", "floor", "nextafter", "rem", "round", "sign"}
    assert operations("integer_pow", float32, exponent=13) == 5
    assert operations("exp", bfloat16) == COUNTS["exp"][0] + 2


def test_only_exact_operations_are_used():
    for name in COUNTS:
        for dtype in (float16, bfloat16, float32, float64):
            _, result = graph(name, *[dtype] * ELEMENTWISE[name].arity)
            for node in toposort([result]):
                assert node.op in (CONST, INPUT) or node.op.exact, (name, node.op)


def test_simplifying_keeps_the_bits():
    operands = {float32: POINTS32[::301], float64: POINTS64[::29]}
    for name in COUNTS:
        for dtype, x in operands.items():
            inputs, result = graph(name, *[dtype] * ELEMENTWISE[name].arity)
            simplified = rewrite([result], SIMPLIFY)[0]
            values = dict(zip(inputs, (x, x[::-1]), strict=False))
            assert_same(name, *map(np.asarray, scalar.evaluate([simplified, result], values)), x)
