"""tinyfn.random against JAX's numbers (tests/goldens/random.json), under transforms, and at edges."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.agreement import assert_jit_agrees
from tinyfn import lax, random
from tinyfn.trace import dtype as dtypes
from tinyfn.transforms import grad, jit, vmap

ENTRIES = json.loads((Path(__file__).parent / "goldens" / "random.json").read_text())["entries"]
EXACT = {
    "key_data",
    "split",
    "fold_in",
    "bits",
    "randint",
    "bernoulli",
    "permutation",
    "choice",
    "categorical",
    "rademacher",
    "uniform",
    "poisson",
    "binomial",
    "multinomial",
    "geometric",
}
# XLA's approximations of log1p and erf_inv in float64 and of erf in float32 are some ulp off the true values; and where
# numbers are added up or subtracted after that, the results are off by more.
ULPS = {
    "truncated_normal": 16, "normal": 12, "laplace": 12, "gamma": 16, "loggamma": 16, "beta": 8, "f": 8, "t": 8, "ball": 8,
    "lognormal": 8, "double_sided_maxwell": 64, "wald": 128, "multivariate_normal": 128, "orthogonal": 256,
}  # fmt: skip


def identify(entry: dict[str, Any]) -> str:
    arguments = ",".join(f"{k}={v}" for k, v in entry["arguments"].items())
    return f"{entry['function']}-{entry['seed']}-{'x64' if entry['x64'] else 'x32'}-{arguments}"[:120]


def decode(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return np.array(value["array"]).astype(value["dtype"])
    if name == "data":
        return np.uint32(value)
    return tuple(value) if isinstance(value, list) else value


def golden(entry: dict[str, Any]) -> np.ndarray:
    dtype = np.dtype(ml_dtypes.bfloat16) if entry["dtype"] == "bfloat16" else np.dtype(entry["dtype"])
    values = entry["values"]
    if dtype.kind in "fV":
        return np.array([float.fromhex(v) for v in values]).astype(dtype).reshape(entry["shape"])
    return np.array(values, dtype).reshape(entry["shape"])


def sample(entry: dict[str, Any]) -> np.ndarray:
    seed, function = entry["seed"], entry["function"]
    # Without x64 JAX drops the high word of a seed, which tinyfn never does.
    key = (
        random.key(seed)
        if entry["x64"]
        else random.wrap_key_data(np.array([0, seed & 0xFFFFFFFF], np.uint32))
    )
    keywords = {name: decode(name, value) for name, value in entry["arguments"].items()}
    if function == "bernoulli" and entry["x64"] and isinstance(keywords.get("p"), float):
        keywords["p"] = np.float64(keywords["p"])  # a Python float is float32 here, float64 there
    drawn = getattr(random, function)(key, **keywords)
    return np.asarray(random.key_data(drawn) if drawn.dtype == dtypes.key else drawn)


# With x64 an index without a dtype is drawn as int64 in JAX, and as int32 here: other bits.
COMPARABLE = [
    e for e in ENTRIES if not (e["x64"] and e["function"] == "choice" and "p" not in e["arguments"])
]


def test_almost_all_goldens_are_compared() -> None:
    assert len(ENTRIES) == 476 and len(COMPARABLE) == 473


@pytest.mark.parametrize("entry", COMPARABLE, ids=identify)
def test_golden(entry: dict[str, Any]) -> None:
    found, expected = sample(entry), golden(entry)
    function = entry["function"]
    assert found.shape == expected.shape
    if function not in ("permutation", "choice", "categorical"):
        assert found.dtype == expected.dtype
    interval = [entry["arguments"].get(name, default) for name, default in (("minval", 0.0), ("maxval", 1.0))]
    if function == "uniform" and interval == [-2.5, 7.0]:
        # XLA fuses the multiplication and the addition: one rounding of the larger of the terms.
        step = float(ml_dtypes.finfo(found.dtype).eps) * 8
        np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=0, atol=step)
    elif function in EXACT:
        np.testing.assert_array_equal(found, expected)
    else:
        info = ml_dtypes.finfo(expected.dtype)
        wide, tiny = expected.astype(np.float64), float(info.tiny)
        ulp = np.maximum(np.abs(wide), tiny) * float(info.eps)
        near = np.abs(found.astype(np.float64) - wide) <= ULPS.get(function, 4) * ulp
        # XLA takes numbers below the least normal one for 0.
        assert np.all(near | ((wide == 0) & (np.abs(found.astype(np.float64)) < tiny)))


def test_choice_with_64_bit_positions_has_the_bits_of_randint() -> None:
    for entry in ENTRIES:
        if entry["x64"] and entry["function"] == "choice" and "p" not in entry["arguments"]:
            found = random.randint(random.key(entry["seed"]), (5,), 0, 10, "int64")
            np.testing.assert_array_equal(found, entry["values"])


# Transforms

SAMPLERS = {
    "bits": lambda key: random.bits(key, (3, 5), "uint64"),
    "uniform": lambda key: random.uniform(key, (4,), minval=-1.0, maxval=3.0),
    "normal": lambda key: random.normal(key, (4, 2)),
    "randint": lambda key: random.randint(key, (6,), -3, 9),
    "bernoulli": lambda key: random.bernoulli(key, 0.3, (7,), mode="high"),
    "permutation": lambda key: random.permutation(key, 11),
    "permutation of rows": lambda key: random.permutation(key, np.arange(12.0).reshape(3, 4), axis=1),
    "permutation of each row": lambda key: random.permutation(
        key, np.arange(12).reshape(3, 4), 1, independent=True
    ),
    "choice": lambda key: random.choice(key, 9, (4,), replace=False),
    "weighted choice": lambda key: random.choice(
        key, np.arange(4.0), (2, 3), p=np.array([0.1, 0.2, 0.3, 0.4])
    ),
    "weighted choice without": lambda key: random.choice(
        key, 4, (3,), False, np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    ),
    "categorical": lambda key: random.categorical(key, np.array([[0.0, 1.0], [2.0, 3.0]]), shape=(5, 2)),
    "truncated": lambda key: random.truncated_normal(key, -1.0, np.arange(1.0, 4.0, dtype=np.float32)),
    "gumbel": lambda key: random.gumbel(key, (3,), mode="high"),
    "cauchy": lambda key: random.cauchy(key, (3,)),
    "rademacher": lambda key: random.rademacher(key, (8,)),
    "split": lambda key: random.split(key, 3),
    "fold_in": lambda key: random.fold_in(key, 12),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_jit_and_vmap_give_the_same(name: str) -> None:
    sampler = SAMPLERS[name]
    keys = random.split(random.PRNGKey(17), 4)
    each = [np.asarray(sampler(lax.index_in_dim(keys, i, keepdims=False))) for i in range(4)]
    for i in range(4):
        assert_jit_agrees(sampler, lax.index_in_dim(keys, i, keepdims=False))
    np.testing.assert_array_equal(vmap(sampler)(keys), np.stack(each))
    assert_jit_agrees(vmap(sampler), keys)


def test_traced_parameters_give_the_same() -> None:
    key = random.key(3)
    for low, high in ((0, 10), (-5, -5), (-(2**31), 2**31 - 1)):
        fixed = random.randint(key, (50,), low, high)
        given = jit(lambda a, b: random.randint(key, (50,), a, b))(np.int32(low), np.int32(high))
        np.testing.assert_array_equal(given, fixed)
        np.testing.assert_array_equal(random.randint(key, (50,), np.int64(low), np.int64(high)), fixed)
    fixed = random.uniform(key, (50,), minval=2.0, maxval=5.0)
    np.testing.assert_array_equal(
        jit(lambda a: random.uniform(key, (50,), minval=a, maxval=5.0))(np.float32(2)), fixed
    )
    np.testing.assert_array_equal(
        jit(lambda p: random.bernoulli(key, p, (50,)))(np.float32(0.3)), random.bernoulli(key, 0.3, (50,))
    )


def test_derivatives_go_through_parameters() -> None:
    key = random.key(3)
    slope = grad(lambda high: lax.reduce_sum(random.uniform(key, (6,), "float64", 0.0, high), (0,)))(
        np.float64(2.0)
    )
    assert float(slope) == pytest.approx(np.asarray(random.uniform(key, (6,), "float64")).sum())
    slope = grad(lambda mean: lax.reduce_sum(lax.add(mean, random.normal(key, (6,))), (0,)))(np.float32(2.0))
    assert float(slope) == 6.0


def test_an_element_depends_on_the_key_and_its_number_alone() -> None:
    key = random.key(9)
    np.testing.assert_array_equal(np.asarray(random.bits(key, (100,)))[:7], random.bits(key, (7,)))
    np.testing.assert_array_equal(np.asarray(random.bits(key, (4, 5))).ravel(), random.bits(key, (20,)))
    assert random.bits(key).shape == () and random.normal(key, (0, 3)).shape == (0, 3)


# Edges


def test_shapes_without_elements_and_of_one() -> None:
    key = random.key(0)
    for shape in ((), (0,), (1,), (0, 3), (1, 1, 1), (2, 0)):
        for sampler in (
            random.uniform,
            random.normal,
            random.gumbel,
            random.exponential,
            random.laplace,
            random.cauchy,
            random.logistic,
            random.bits,
            random.rademacher,
        ):
            assert sampler(key, shape).shape == shape
        assert random.randint(key, shape, 0, 5).shape == shape
        assert random.bernoulli(key, 0.5, shape).shape == shape
        assert random.truncated_normal(key, -1.0, 1.0, shape).shape == shape
        assert random.choice(key, 5, shape).shape == shape
        assert random.choice(key, 5, shape, replace=False).shape == shape
        assert random.choice(key, 5, shape, p=np.full(5, 0.2)).shape == shape
        assert random.split(key, shape).shape == shape
        assert random.permutation(key, np.zeros((*shape, 2)), axis=-1).shape == (*shape, 2)
        assert random.categorical(key, np.zeros((*shape, 3))).shape == shape
    assert random.permutation(key, 0).shape == (0,) and random.permutation(key, 1).tolist() == [0]
    assert random.choice(key, np.zeros((2, 0, 3)), (0,), axis=1).shape == (2, 0, 3)


def test_dtypes() -> None:
    key = random.key(0)
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        for sampler in (
            random.uniform,
            random.normal,
            random.gumbel,
            random.exponential,
            random.laplace,
            random.cauchy,
            random.logistic,
        ):
            drawn = sampler(key, (1000,), dtype)
            assert drawn.dtype.name == dtype and not drawn.weak_type
            assert np.isfinite(np.asarray(drawn).astype(np.float64)).all(), (sampler, dtype)
        drawn = np.asarray(random.uniform(key, (4000,), dtype)).astype(np.float64)
        assert drawn.min() >= 0 and drawn.max() < 1
        bounded = np.asarray(random.truncated_normal(key, 0.5, 1.0, (2000,), dtype)).astype(np.float64)
        assert bounded.min() > 0.5 and bounded.max() < 1
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
        info = np.iinfo(dtype)
        drawn = np.asarray(random.randint(key, (3000,), int(info.min), int(info.max) + 1, dtype))
        assert drawn.dtype == dtype
        quarter = int(info.max) // 4 * 3
        assert drawn.max() > quarter and drawn.min() < int(info.min) // 4 * 3 + int(info.max) // 4
        assert random.rademacher(key, (3,), "int8").dtype == np.int8


def test_randint_of_everything_is_the_bits() -> None:
    key = random.key(4)
    drawn = random.randint(key, (9,), np.int64(0), np.int64(2**32), "uint32")
    lower = random.bits(lax.index_in_dim(random.split(key), 1, keepdims=False), (9,))
    np.testing.assert_array_equal(drawn, lower)


def test_uniform_never_goes_below_or_reaches_its_bounds() -> None:
    key = random.key(1)
    for low, high in ((1.0, 1.0000001), (-1e-30, 1e-30), (1e8, 1e8 + 8), (-3.0, -2.0)):
        drawn = np.asarray(random.uniform(key, (2000,), minval=low, maxval=high))
        assert drawn.min() >= np.float32(low) and drawn.max() <= np.float32(high)


def test_errors() -> None:
    key = random.key(0)
    for call, kind, match in (
        (lambda: random.bits(key, (2,), "int32"), TypeError, "unsigned"),
        (lambda: random.uniform(key, (2,), "int32"), TypeError, "floats"),
        (lambda: random.uniform(key, (2,), minval=np.zeros(3, np.float32)), ValueError, "broadcast"),
        (lambda: random.randint(key, (2,), 0, np.zeros((3, 2), np.int32)), ValueError, "broadcast"),
        (lambda: random.randint(key, (2,), 0, 3, "float32"), TypeError, "integers"),
        (lambda: random.bernoulli(key, 1), TypeError, "float p"),
        (lambda: random.bernoulli(key, 0.5, mode="middle"), ValueError, "modes"),
        (lambda: random.choice(key, 3, (4,), replace=False), ValueError, "without replacement"),
        (lambda: random.choice(key, 0, (4,)), ValueError, "0 elements"),
        (lambda: random.choice(key, 3, (4,), p=np.ones(4)), ValueError, "one weight"),
        (lambda: random.permutation(key, 1.5), TypeError, "integer or an array"),
        (lambda: random.permutation(key, np.zeros(3), axis=1), ValueError, "no axis 1"),
        (lambda: random.categorical(key, np.zeros((2, 3)), shape=(3,)), ValueError, "does not end"),
        (
            lambda: random.categorical(key, np.zeros(3), shape=(4,), replace=False),
            ValueError,
            "without replacement",
        ),
        (lambda: random.gumbel(key, mode="highest"), ValueError, "modes"),
    ):
        with pytest.raises(kind, match=match):
            call()
    with pytest.raises(TypeError, match="static_argnames"):
        jit(lambda n: random.permutation(key, n))(3)


# Choices


def chi_squared(counts: np.ndarray, expected: np.ndarray) -> float:
    """The statistic as a number of standard deviations from its mean."""
    statistic = np.sum((counts - expected) ** 2 / expected)
    freedom = counts.size - 1
    return float((statistic - freedom) / math.sqrt(2 * freedom))


def test_weighted_choice_never_takes_what_has_no_weight() -> None:
    p = np.array([0.0, 0.5, 0.0, 0.5, 0.0], np.float32)
    drawn = np.asarray(random.choice(random.key(1), 5, (5000,), p=p))
    assert set(np.unique(drawn)) == {1, 3}
    drawn = np.asarray(random.choice(random.key(1), 5, (2,), replace=False, p=p))
    assert set(drawn.tolist()) == {1, 3}


def test_permutations_are_all_equally_likely() -> None:
    drawn = np.asarray(vmap(lambda key: random.permutation(key, 4))(random.split(random.key(6), 5000)))
    assert (np.sort(drawn, axis=1) == np.arange(4)).all()
    codes = drawn @ np.array([64, 16, 4, 1])
    counts = np.unique(codes, return_counts=True)[1]
    assert len(counts) == 24 and chi_squared(counts, np.full(24, 5000 / 24)) < 4


def test_permutation_keeps_lines_together_unless_independent() -> None:
    x = np.arange(40).reshape(8, 5)
    together = np.asarray(random.permutation(random.key(1), x, axis=0))
    assert sorted(map(tuple, together.tolist())) == sorted(map(tuple, x.tolist())) and (together != x).any()
    apart = np.asarray(random.permutation(random.key(1), x, axis=0, independent=True))
    assert (np.sort(apart, axis=0) == x).all() and len({tuple(np.argsort(c)) for c in apart.T}) > 1


def test_choice_along_an_axis() -> None:
    x = np.arange(24).reshape(2, 4, 3)
    drawn = np.asarray(random.choice(random.key(1), x, (5, 2), axis=1))
    assert drawn.shape == (2, 5, 2, 3)
    at = np.asarray(random.choice(random.key(1), 4, (5, 2)))
    np.testing.assert_array_equal(drawn, np.take(x, at, axis=1))
