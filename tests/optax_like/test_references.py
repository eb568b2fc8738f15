"""Optimizers against float64 references over random shapes and options, and Newton-Schulz."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.optax_like.running import run, same_bits, values
from tinyfn import optax_like as ox
from tinyfn.trace.array import as_array
from tinyfn.transforms import make_graph

# A float64 reference, written from the description of each step in tinygrad


def reference_lars(
    t: np.ndarray, gradients: list[np.ndarray], *, lr: float, momentum: float, weight_decay: float,
    nesterov: bool, classic: bool, pre_wd: bool, tcoef: float, ns_steps: int = 0,
    ns_params: tuple[float, ...] = (),
) -> np.ndarray:  # fmt: skip
    b = np.zeros_like(t)
    for g in gradients:
        r = 1.0
        if tcoef != 0:
            r1, r2 = np.sqrt((t * t).sum()), np.sqrt((g * g).sum())
            r = tcoef * r1 / (r2 + weight_decay * r1) if r1 > 0 and r2 > 0 else 1.0
        if pre_wd and weight_decay > 0:
            g = g + weight_decay * t
        if classic:
            g = g * r * lr
        if momentum:
            b = momentum * b + g
            g = g + momentum * b if nesterov else b
        if ns_params:
            g = reference_newton_schulz(g.reshape(g.shape[0], -1), ns_steps, ns_params).reshape(g.shape)
        if not pre_wd and weight_decay > 0:
            t = t * (1 - weight_decay * lr)
        if not classic:
            g = g * r * lr
        t = t - g
    return t


def reference_newton_schulz(
    g: np.ndarray, steps: int, params: tuple[float, ...], eps: float = 1e-7
) -> np.ndarray:
    g = g / (np.sqrt((g * g).sum()) + eps)
    tall = g.shape[0] > g.shape[1]
    g = g.T if tall else g
    for _ in range(steps):
        g = sum(p * np.linalg.matrix_power(g @ g.T, i) @ g for i, p in enumerate(params))
    return g.T if tall else g


def reference_lamb(
    t: np.ndarray, gradients: list[np.ndarray], *, lr: float, b1: float, b2: float, eps: float,
    weight_decay: float, adam: bool,
) -> np.ndarray:  # fmt: skip
    m, v, b1_t, b2_t = np.zeros_like(t), np.zeros_like(t), 1.0, 1.0
    for g in gradients:
        b1_t, b2_t = b1_t * b1, b2_t * b2
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        up = (m / (1 - b1_t)) / (np.sqrt(v / (1 - b2_t)) + eps) + weight_decay * t
        r1, r2 = np.sqrt((t * t).sum()), np.sqrt((up * up).sum())
        r = 1.0 if adam or r1 == 0 or r2 == 0 else r1 / r2
        t = t - lr * r * up
    return t


rates = st.sampled_from([0.0, 1e-3, 0.05, 0.5])
decays = st.sampled_from([-0.1, 0.0, 1e-4, 0.3])
shapes = st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple)
any_shape = st.one_of(shapes, st.just(()))


def drawn(
    shape: tuple[int, ...], seed: int, zeros: bool, steps: int = 3
) -> tuple[np.ndarray, list[np.ndarray]]:
    arrays = [np.asarray(x, np.float64) for x in values(seed, *[shape] * (steps + 1), dtype=np.float64)]
    return (arrays[0] * 0 if zeros else arrays[0]), arrays[1:]


def check_reference(
    optimizer: ox.Optimizer, t: np.ndarray, gradients: list[np.ndarray], expected: Any, loose: float
) -> None:
    exact, _ = run(optimizer, as_array(t), gradients)
    assert exact.dtype == np.float64 and exact.shape == t.shape
    np.testing.assert_allclose(np.asarray(exact), expected, rtol=1e-9, atol=1e-9)
    narrow, _ = run(optimizer, as_array(t.astype(np.float32)), [g.astype(np.float32) for g in gradients])
    assert narrow.dtype == np.float32
    if loose < math.inf:
        np.testing.assert_allclose(np.asarray(narrow), expected, rtol=loose, atol=loose)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    any_shape, st.integers(0, 9), st.booleans(), rates, st.sampled_from([0.0, 0.5, 0.95]), decays,
    st.booleans(), st.booleans(), st.booleans(), st.sampled_from([0.0, 1e-3, 0.5]),
)  # fmt: skip
def test_lars_reference(
    shape: Any, seed: int, zeros: bool, lr: float, momentum: float, weight_decay: float, nesterov: bool,
    classic: bool, pre_wd: bool, tcoef: float,
) -> None:  # fmt: skip
    t, gradients = drawn(shape, seed, zeros)
    options: dict[str, Any] = {
        "lr": lr,
        "momentum": momentum,
        "weight_decay": weight_decay,
        "nesterov": nesterov,
    }
    options |= {"classic": classic, "pre_wd": pre_wd, "tcoef": tcoef}
    expected = reference_lars(t, gradients, **options)
    # A negative decay may make the ratio's denominator cancel to any extent: float32 then tells nothing.
    loose = math.inf if tcoef and weight_decay < 0 else 5e-6
    check_reference(ox.lars(**options), t, gradients, expected, loose)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    shapes.filter(lambda s: 0 not in s), st.integers(0, 9), rates, st.sampled_from([0.0, 0.95]), decays,
    st.booleans(), st.integers(0, 3),
    st.sampled_from([(3.4445, -4.775, 2.0315), (1.5, -0.5), (1.0,), (2, -1.5, 0.5, 0)]),
)  # fmt: skip
def test_muon_reference(
    shape: Any,
    seed: int,
    lr: float,
    momentum: float,
    weight_decay: float,
    nesterov: bool,
    steps: int,
    params: Any,
) -> None:
    t, gradients = drawn(shape, seed, False)
    options: dict[str, Any] = {
        "lr": lr,
        "momentum": momentum,
        "weight_decay": weight_decay,
        "nesterov": nesterov,
    }
    options |= {"ns_steps": steps, "ns_params": params}
    expected = reference_lars(t, gradients, classic=False, pre_wd=False, tcoef=0.0, **options)
    check_reference(ox.muon(**options), t, gradients, expected, 2e-5)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    any_shape, st.integers(0, 9), st.booleans(), rates, st.sampled_from([0.0, 0.8, 0.9]),
    st.sampled_from([0.0, 0.9, 0.999]), st.sampled_from([1e-8, 1e-3]), decays, st.booleans(),
)  # fmt: skip
def test_lamb_reference(
    shape: Any,
    seed: int,
    zeros: bool,
    lr: float,
    b1: float,
    b2: float,
    eps: float,
    weight_decay: float,
    adam: bool,
) -> None:
    t, gradients = drawn(shape, seed, zeros)
    options: dict[str, Any] = {
        "lr": lr,
        "b1": b1,
        "b2": b2,
        "eps": eps,
        "weight_decay": weight_decay,
        "adam": adam,
    }
    expected = reference_lamb(t, gradients, **options)
    check_reference(ox.lamb(**options), t, gradients, expected, 1e-4)


def test_families_share_a_rule() -> None:
    (t, g) = values(0, (3, 4), (3, 4))
    pairs = [
        (ox.sgd(0.1, 0.9, 0.1, True), ox.lars(0.1, 0.9, 0.1, nesterov=True, classic=False, tcoef=0)),
        (ox.adam(0.1), ox.lamb(0.1, eps=1e-8, adam=True)),
        (ox.adamw(0.1), ox.lamb(0.1, eps=1e-8, weight_decay=0.01, adam=True)),
        (
            ox.muon(0.1, weight_decay=0.1),
            ox.lars(0.1, 0.95, 0.1, 5, (3.4445, -4.775, 2.0315), True, False, False, 0),
        ),
    ]
    for one, other in pairs:
        assert same_bits(run(one, t, [g, g]), run(other, t, [g, g]))


# Newton-Schulz


def test_newton_schulz_makes_singular_values_one() -> None:
    for shape in ((6, 9), (9, 6), (5, 5)):
        (g,) = values(1, shape)
        singular = np.linalg.svd(np.asarray(ox.newton_schulz(g)), compute_uv=False)
        assert singular.min() > 0.3 and singular.max() < 1.3
        cubic = np.linalg.svd(np.asarray(ox.newton_schulz(g, 30, (1.5, -0.5))), compute_uv=False)
        np.testing.assert_allclose(cubic, 1, atol=1e-5)


@pytest.mark.parametrize(
    "params", [(2.0,), (1.5, -0.5), (3.4445, -4.775, 2.0315), (2.1875, -2.1875, 1.3125, -0.3125)]
)
def test_newton_schulz_any_number_of_coefficients(params: tuple[float, ...]) -> None:
    (batch,) = values(2, (2, 3, 4, 6), dtype=np.float64)
    found = np.asarray(ox.newton_schulz(batch, 3, params, 1e-3))
    for i, j in np.ndindex(2, 3):
        expected = reference_newton_schulz(np.asarray(batch)[i, j], 3, params, 1e-3)
        np.testing.assert_allclose(found[i, j], expected, rtol=1e-12, atol=1e-14)


def test_newton_schulz_works_on_the_smaller_square() -> None:
    for shape in ((50, 2), (2, 50)):
        graph = make_graph(ox.newton_schulz)(np.ones(shape, np.float32))
        assert all(node.shape != (50, 50) for node in graph.nodes())


def test_newton_schulz_shapes_and_dtypes() -> None:
    (vector,) = values(3, (5,))
    column = np.asarray(ox.newton_schulz(np.asarray(vector).reshape(5, 1)))
    assert np.array_equal(np.asarray(ox.newton_schulz(vector)), column.ravel())
    half = ox.newton_schulz(
        np.full((40, 40), 300, np.float16)
    )  # its norm is 12,000, the sum of squares 1.4e8
    assert half.dtype == np.float16 and np.isfinite(np.asarray(half)).all()
    for shape in ((0, 3), (3, 0), (2, 0, 3), (0,)):
        assert ox.newton_schulz(np.zeros(shape, np.float32)).shape == shape
    assert not np.asarray(ox.newton_schulz(np.zeros((3, 2), np.float32))).any()
    with pytest.raises(ValueError, match="needs a matrix or a vector, not a scalar"):
        ox.newton_schulz(np.float32(1))
    with pytest.raises(TypeError, match=r"needs a matrix of floats, not int32\[2,2\]"):
        ox.newton_schulz(np.ones((2, 2), np.int32))
    with pytest.raises(ValueError, match="at least one coefficient"):
        ox.newton_schulz(vector, params=())
    with pytest.raises(TypeError, match="ns_steps must be an int"):
        ox.newton_schulz(vector, steps=2.0)  # type: ignore[arg-type]


def test_muon_takes_convolutions_vectors_and_aspect_ratios() -> None:
    t, g = values(4, (6, 2, 1, 2), (6, 2, 1, 2))
    plain, _ = run(ox.muon(0.1, ns_steps=2), t, [g])
    matrix, _ = run(ox.muon(0.1, ns_steps=2), np.asarray(t).reshape(6, 4), [np.asarray(g).reshape(6, 4)])
    assert np.array_equal(np.asarray(plain).reshape(6, 4), np.asarray(matrix))
    scaled, _ = run(ox.muon(0.1, ns_steps=2, aspect_ratio_scale=True), t, [g])
    ratio = (np.asarray(scaled) - np.asarray(t)) / (np.asarray(plain) - np.asarray(t))
    np.testing.assert_allclose(ratio, math.sqrt(1.5), rtol=1e-4)
    wide, g = np.ones((2, 3), np.float32), values(5, (2, 3))[0]
    assert same_bits(run(ox.muon(aspect_ratio_scale=True), wide, [g]), run(ox.muon(), wide, [g]))
