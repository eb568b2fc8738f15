"""Complex numbers: functions against NumPy's, derivatives, conversions, and what does not take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyfn
import tinyfn.numpy as tnp
from tests.against_numpy import agree, check_derivatives, close, numbers

COMPLEX = ("complex64", "complex128")
# Functions of one argument, and where it is multiplied to before, so that it is away from cuts and poles.
HOLOMORPHIC: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("exp", "exp2", "expm1", "sin", "cos", "sinh", "cosh", "square", "negative", "positive"), lambda z: z),
    **dict.fromkeys(("tan", "tanh", "arctan", "arctanh", "arcsin", "arcsinh"), lambda z: z * 0.2),
    **dict.fromkeys(("log", "log2", "log10", "log1p", "sqrt", "reciprocal", "arccosh", "arccos"), lambda z: z * 0.2 + (2 + 1j)),
}  # fmt: skip
OTHER = ("abs", "angle", "conj", "imag", "real", "sign")
EXACT = ("isnan", "isinf", "isfinite", "iscomplex", "isreal", "logical_not", "round", "rint")
BINARY = ("add", "subtract", "multiply", "divide", "power", "equal", "not_equal", "logical_and")
REDUCTIONS = ("sum", "prod", "mean", "var", "std", "any", "all", "count_nonzero", "cumsum", "cumprod")
PRODUCTS = ("matmul", "dot", "inner", "outer", "vdot", "vecdot", "kron", "tensordot", "cross")


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("name", [*HOLOMORPHIC, *OTHER, *EXACT])
@settings(max_examples=8, deadline=None, derandomize=True)
@given(shape=st.lists(st.integers(0, 3), max_size=3), seed=st.integers(0, 10**6))
def test_elementwise(name: str, dtype: str, shape: list[int], seed: int) -> None:
    move = HOLOMORPHIC.get(name, lambda z: z)
    z = np.asarray(move(numbers(np.random.default_rng(seed), dtype, tuple(shape)))).astype(dtype)
    agree(lambda m, z: getattr(m, name)(z), z)


@pytest.mark.parametrize("name", ["log", "log2", "log10"])
def test_logarithms_of_zero(name: str) -> None:
    agree(lambda m, z: getattr(m, name)(z), np.array([0j, 1j], np.complex64))


@pytest.mark.parametrize("name", [*HOLOMORPHIC, *OTHER])
def test_derivatives(name: str) -> None:
    move = HOLOMORPHIC.get(name, lambda z: z)
    z = move(numbers(np.random.default_rng(3), "complex128", (2, 3)))
    check_derivatives(lambda z: getattr(tnp, name)(z), z)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("other", ["float32", "float64", "int32", "complex64", "complex128"])
def test_promotion(name: str, other: str) -> None:
    generator = np.random.default_rng(0)
    z, x = numbers(generator, "complex64", (2, 3)), numbers(generator, other, (3,))
    if other != "int32":  # NumPy promotes integers of 32 bits to complex128, this library to complex64
        agree(lambda m, z, x: (getattr(m, name)(z, x), getattr(m, name)(x, z)), z, x, factor=500)
    else:
        assert tnp.multiply(z, x).dtype == tnp.multiply(x, z).dtype == np.complex64
    agree(lambda m, z: (m.add(z, 1), m.multiply(2.5, z), m.subtract(z, 1j)), z)
    assert (tnp.asarray(x) * 1j).dtype == (
        np.complex128 if other in ("float64", "complex128") else np.complex64
    )


@pytest.mark.parametrize("name", REDUCTIONS)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    dtype=st.sampled_from(COMPLEX),
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    axis=st.sampled_from([None, 0, -1]),
)
def test_reductions(name: str, dtype: str, shape: list[int], axis: Any) -> None:
    z = numbers(np.random.default_rng(0), dtype, tuple(shape))
    if name == "count_nonzero":
        assert np.array_equal(tnp.count_nonzero(z, axis), np.count_nonzero(z, axis))
        return
    agree(lambda m, z: getattr(m, name)(z, axis=axis), z, factor=500)
    if (
        name in ("sum", "prod", "mean", "var", "std", "cumsum", "cumprod")
        and z.size > 1
        and shape[axis or 0] > 1
    ):
        check_derivatives(lambda z: getattr(tnp, name)(z, axis=axis), z, tolerance=1e-5)


@pytest.mark.parametrize(
    "name", ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nancumsum", "nancumprod"]
)
def test_reductions_without_nan(name: str) -> None:
    z = numbers(np.random.default_rng(0), "complex64", (3, 4))
    z[0, 1] = np.nan
    z[2, 3] = 1j * np.nan
    agree(lambda m, z: (getattr(m, name)(z), getattr(m, name)(z, axis=1)), z)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    generator = np.random.default_rng(1)
    for dtype in COMPLEX:
        x, y = numbers(generator, dtype, (3, 3)), numbers(generator, dtype, (3, 3))
        agree(lambda m, x, y: getattr(m, name)(x, y), x, y)
    check_derivatives(lambda x, y: getattr(tnp, name)(x, y), x, y)
    agree(lambda m, x, y: m.einsum("ij,kj,k->i", x, y, x[0]), x, y)


def test_moving_and_indexing() -> None:
    z = numbers(np.random.default_rng(2), "complex128", (3, 4))
    agree(lambda m, z: (z.T, z[::-1, 1:], m.concatenate([z, z.conj()]), m.where(m.abs(z) > 1, z, 0)), z)
    agree(
        lambda m, z: (m.pad(z, 1), m.roll(z, 1, 0), m.take(z, m.array([2, 0]), axis=0), z.mT.real, z.imag), z
    )
    found = tnp.asarray(z).at[1, 2].add(1j).at[0].set(0)
    wanted = z.copy()
    wanted[1, 2] += 1j
    wanted[0] = 0
    assert np.array_equal(found, wanted)
    check_derivatives(lambda z: tnp.sum(z[tnp.array([0, 0, 2])] * z.T[0, 0]), z)


def test_gradients_are_those_of_jax() -> None:
    """The gradient of a real function of z = x + iy is df/dx - i df/dy."""
    z = numbers(np.random.default_rng(4), "complex64", (3,))
    gradient = tinyfn.grad(lambda z: tnp.sum(tnp.abs(z) ** 2))
    np.testing.assert_allclose(gradient(z), 2 * np.conj(z), rtol=1e-6)
    np.testing.assert_allclose(tinyfn.jit(gradient)(z), 2 * np.conj(z), rtol=1e-6)
    np.testing.assert_allclose(tinyfn.grad(lambda z: tnp.real(z) * 3 + tnp.imag(z) * 5)(1j), 3 - 5j)
    jacobian = tinyfn.jacrev(lambda z: tnp.real(z * z))(z)
    np.testing.assert_allclose(jacobian, np.diag(2 * z), rtol=1e-6)
    # At 0 the modulus has the derivative 0.
    assert complex(tinyfn.grad(tnp.abs)(0j)) == 0
    _, tangent = tinyfn.jvp(tnp.exp, (z,), (1j * z,))
    np.testing.assert_allclose(tangent, np.exp(z) * 1j * z, rtol=1e-5)


def test_vmap_and_jit_of_real_and_complex_together() -> None:
    def rotated(angle: Any, points: Any) -> Any:
        return tnp.real(tnp.exp(1j * angle) * points) + tnp.tanh(angle)

    angles, points = (
        numbers(np.random.default_rng(5), "float32", (4,)),
        numbers(np.random.default_rng(6), "complex64", (3,)),
    )
    found = tinyfn.jit(tinyfn.vmap(rotated, in_axes=(0, None)))(angles, points)
    close(
        found,
        (np.real(np.exp(1j * angles)[:, None] * points) + np.tanh(angles)[:, None]).astype(np.float32),
        1e-6,
    )
    check_derivatives(tinyfn.vmap(rotated, in_axes=(0, None)), angles, points)


def test_conversions() -> None:
    z = tnp.asarray(np.array([1.5 - 2j, 0j, 3j]))
    assert z.astype("float32").tolist() == [1.5, 0, 0] and z.astype("bool").tolist() == [True, False, True]
    assert tnp.asarray([1, 2j]).dtype == np.complex64 and complex(tnp.asarray(2 - 1j)) == 2 - 1j
    assert tnp.isdtype(z.dtype, "complex floating") and tnp.finfo(z.dtype).dtype == np.float64
    assert tnp.linspace(0j, 1 + 1j, 3).tolist() == [0, 0.5 + 0.5j, 1 + 1j]
    assert tnp.nan_to_num(tnp.asarray(complex("nan") * 1j)).tolist() == 0


def test_errors() -> None:
    z = tnp.asarray(1 + 1j)
    for function in (tnp.floor, tnp.arctan2, tnp.less, tnp.maximum, tnp.cbrt, tnp.remainder):
        with pytest.raises(TypeError, match="does not accept complex64"):
            function(*[z] * (1 if function in (tnp.floor, tnp.cbrt) else 2))
    with pytest.raises(TypeError, match="the function must return a float, but it returned complex64"):
        tinyfn.grad(lambda z: z * z)(z)
    with pytest.raises(
        TypeError, match=r"jacfwd of .*`z` is complex64\[\], and takes real ones only; .*jacrev"
    ):
        tinyfn.jacfwd(lambda z: tnp.abs(z))(z)
