"""tinyfn.nn: initializers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinyfn
from tests.agreement import assert_jit_agrees
from tinyfn import nn, random
from tinyfn.nn import initializers


def test_initializers() -> None:
    key, shape = random.key(3), (3, 60, 40)
    inputs, outputs = 180, 120
    for name, variance, bound in (
        ("glorot_uniform", 2 / (inputs + outputs), math.sqrt(3)),
        ("glorot_normal", 2 / (inputs + outputs), 2 / 0.8796),
        ("lecun_uniform", 1 / inputs, math.sqrt(3)),
        ("lecun_normal", 1 / inputs, 2 / 0.8796),
        ("he_uniform", 2 / inputs, math.sqrt(3)),
        ("he_normal", 2 / inputs, 2 / 0.8796),
    ):
        values = getattr(initializers, name)()(key, shape)
        assert values.dtype == np.float32 and values.shape == shape
        array = np.asarray(values, np.float64)
        assert abs(array.mean()) < 4 * math.sqrt(variance / array.size)
        assert array.var() == pytest.approx(variance, rel=0.05)
        assert np.abs(array).max() <= bound * math.sqrt(variance) * 1.0001
        assert getattr(initializers, name)(dtype="bfloat16")(key, shape).dtype.name == "bfloat16"
        assert getattr(initializers, name)()(key, shape, "float16").dtype == np.float16
    values = np.asarray(
        initializers.variance_scaling(1.5, "fan_out", "normal", in_axis=0, out_axis=(1, 2))(key, shape)
    )
    assert values.var() == pytest.approx(1.5 / 2400, rel=0.05)
    values = np.asarray(
        initializers.variance_scaling(1.0, "fan_geo_avg", "uniform", batch_axis=0)(key, shape)
    )
    assert values.var() == pytest.approx(1 / math.sqrt(2400), rel=0.05)
    assert np.asarray(initializers.normal(0.5)(key, shape)).std() == pytest.approx(0.5, rel=0.05)
    cut = np.asarray(initializers.truncated_normal(0.5, lower=-1.0, upper=3.0)(key, shape))
    assert cut.min() >= -0.5 and cut.max() <= 1.5
    spread = np.asarray(initializers.uniform(2.0)(key, shape))
    assert spread.min() >= 0 and 1.9 < spread.max() < 2
    assert (
        not np.asarray(initializers.zeros(key, (2, 3))).any()
        and np.asarray(initializers.ones(key, (2, 3))).all()
    )
    assert initializers.constant(np.array([1, 2]))(key, (3, 2)).tolist() == [[1.0, 2.0]] * 3
    assert initializers.constant(7, "int8")(key, (2,)).dtype == np.int8
    assert initializers.he_normal()(key, (0, 3)).shape == (0, 3)
    assert initializers.kaiming_normal is initializers.he_normal
    assert_jit_agrees(lambda k: initializers.lecun_normal()(k, (3, 4)), key)
    with pytest.raises(ValueError, match="in_axis"):
        initializers.he_normal()(key, (3,))
    assert initializers.variance_scaling(1.0, "fan_in", "normal", in_axis=0, out_axis=())(
        key, (3,)
    ).shape == (3,)
    with pytest.raises(ValueError, match="mode"):
        initializers.variance_scaling(1.0, "fan", "normal")
    with pytest.raises(ValueError, match="distribution"):
        initializers.variance_scaling(1.0, "fan_in", "cauchy")


JAX_NUMBERS = {
    "glorot_uniform": [1.0420334, -0.48555, 0.18170823],
    "glorot_normal": [1.2113327, -0.40112194, 0.14362577],
    "lecun_normal": [1.3543111, -0.44846797, 0.16057849],
    "he_uniform": [1.6475993, -0.7677219, 0.28730592],
    "normal": [0.019707019, -0.005876674, 0.0020941563],
}


def test_initializers_have_jax_s_numbers() -> None:
    """From jax 0.10.2: jax.nn.initializers.<name>()(jax.random.PRNGKey(3), (2, 3), jax.numpy.float32)[1]."""
    for name, expected in JAX_NUMBERS.items():
        found = np.asarray(getattr(initializers, name)()(random.PRNGKey(3), (2, 3)))[1]
        np.testing.assert_allclose(found, expected, rtol=3e-6)


@pytest.mark.parametrize(
    "shape, axis", [((3, 5), -1), ((5, 3), -1), ((4, 4), 0), ((2, 3, 4), 1), ((1, 1), -1)]
)
def test_orthogonal_initializer(shape: tuple[int, ...], axis: int) -> None:
    key = tinyfn.random.key(0)
    values = np.asarray(initializers.orthogonal(2.0, axis)(key, shape, "float64"))
    assert values.shape == shape
    matrix = np.moveaxis(values, axis, -1).reshape(-1, shape[axis])
    product = matrix @ matrix.T if len(matrix) < shape[axis] else matrix.T @ matrix
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)
    assert initializers.orthogonal()(key, shape, "bfloat16").dtype.name == "bfloat16"
    np.testing.assert_allclose(
        tinyfn.jit(lambda k: initializers.orthogonal(2.0, axis)(k, shape, "float64"))(key), values, rtol=1e-12
    )
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        initializers.orthogonal()(key, (3,))


def test_initializers_without_a_dtype() -> None:
    key = random.PRNGKey(0)
    for make in (
        lambda **options: nn.initializers.lecun_normal(**options),
        lambda **options: nn.initializers.glorot_uniform(**options),
        lambda **options: nn.initializers.orthogonal(**options),
        lambda **options: nn.initializers.normal(0.1, **options),
        lambda **options: nn.initializers.uniform(0.1, **options),
        lambda **options: nn.initializers.truncated_normal(0.1, **options),
        lambda **options: nn.initializers.constant(2, **options),
    ):
        assert make(dtype=None)(key, (3, 4)).dtype == np.float32
        assert make(dtype="bfloat16")(key, (3, 4)).dtype == "bfloat16"
        assert make()(key, (3, 4), "float64").dtype == np.float64
    assert (
        nn.initializers.zeros(key, (2,), None).dtype
        == nn.initializers.ones(key, (2,), None).dtype
        == np.float32
    )


def test_axes_of_initializers() -> None:
    """The variance is by the product of all input axes, without those of a batch."""
    key = random.PRNGKey(1)
    for options, fan in (
        ({"in_axis": (0, 1), "out_axis": 2}, 8 * 16),
        ({"in_axis": 1, "out_axis": 2, "batch_axis": 0}, 16),
        ({"in_axis": 2, "out_axis": 1}, 64 * 8),
    ):
        weights = np.asarray(nn.initializers.lecun_normal(**options)(key, (8, 16, 64)))
        np.testing.assert_allclose(weights.std(), fan**-0.5, rtol=0.05)


def test_delta_orthogonal_initializer() -> None:
    weights = np.array(nn.initializers.delta_orthogonal(2.0)(random.PRNGKey(0), (3, 4, 5, 7)))
    centre = weights[1, 1].copy()
    np.testing.assert_allclose(centre @ centre.T, 4 * np.eye(5), atol=1e-5)
    weights[1, 1] = 0
    assert not weights.any()
    for shape in ((5, 7), (3, 7, 5), (1, 1, 1, 1, 2, 2)):
        with pytest.raises(ValueError, match="delta_orthogonal needs a shape"):
            nn.initializers.delta_orthogonal()(random.PRNGKey(0), shape)
