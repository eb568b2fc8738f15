"""tinyfn.fft against numpy.fft: values, dtypes, derivatives, batches, and errors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyfn
import tinyfn.numpy as tnp
from tests.against_numpy import agree, check_derivatives, numbers

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2")
OF_REAL = ("rfft", "ihfft", "rfftn", "rfft2")
NORMS = st.sampled_from([None, "backward", "ortho", "forward"])
drawn = settings(max_examples=60, deadline=None, derandomize=True)


def signal(name: str, double: bool, shape: tuple[int, ...], seed: int) -> np.ndarray:
    single = "float32" if name in OF_REAL else "complex64"
    wide = {"float32": "float64", "complex64": "complex128"}[single]
    return numbers(np.random.default_rng(seed), wide if double else single, shape)


@drawn
@given(st.sampled_from(ONE), st.booleans(), st.lists(st.integers(2, 5), min_size=1, max_size=3), st.integers(-1, 0),
       st.none() | st.integers(1, 8), NORMS, st.integers(0, 10**6))  # fmt: skip
def test_along_one_axis(
    name: str, double: bool, shape: list[int], axis: int, n: int | None, norm: Any, seed: int
) -> None:
    x = signal(name, double, tuple(shape), seed)
    agree(lambda m, x: getattr(m.fft, name)(x, n, axis, norm), x)


@drawn
@given(st.sampled_from(SEVERAL), st.booleans(), st.lists(st.integers(2, 4), min_size=2, max_size=3), NORMS, st.booleans(),
       st.integers(0, 10**6))  # fmt: skip
def test_along_several_axes(
    name: str, double: bool, shape: list[int], norm: Any, sized: bool, seed: int
) -> None:
    x = signal(name, double, tuple(shape), seed)
    s, axes = ((3, 4), (-1, 0)) if sized else (None, (0, 1))
    agree(lambda m, x: getattr(m.fft, name)(x, s=s, axes=axes, norm=norm), x)


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("length, n", [(4, None), (5, None), (4, 3), (4, 7)])
def test_derivatives(name: str, length: int, n: int | None) -> None:
    check_derivatives(lambda x: getattr(tinyfn.fft, name)(x, n), signal(name, True, (2, length), 0))


@pytest.mark.parametrize("name", SEVERAL)
def test_derivatives_of_several_axes(name: str) -> None:
    x = signal(name, True, (2, 3, 4), 0)
    check_derivatives(lambda x: getattr(tinyfn.fft, name)(x, axes=(1, 2)), x)


def test_the_energy_of_a_spectrum_has_the_gradient_of_the_signals() -> None:
    x = numbers(np.random.default_rng(0), "float64", (6,))
    gradient = tinyfn.grad(lambda x: tnp.sum(tnp.abs(tinyfn.fft.fft(x, norm="ortho")) ** 2))(x)
    np.testing.assert_allclose(gradient, 2 * x, rtol=1e-12)


def test_mapped_over_an_axis() -> None:
    x = signal("fft", True, (3, 4, 2), 0)
    np.testing.assert_allclose(
        tinyfn.vmap(tinyfn.fft.fft, in_axes=1, out_axes=1)(x), np.fft.fft(x, axis=2), rtol=1e-12
    )
    np.testing.assert_allclose(
        tinyfn.vmap(lambda v: tinyfn.fft.rfftn(v.real))(x), np.stack([np.fft.rfftn(v.real) for v in x])
    )


def test_other_types_are_made_floats() -> None:
    for dtype in (np.int32, np.bool_, np.float16, ml_dtypes.bfloat16):
        x = np.array([1, 0, 1, 1]).astype(dtype)
        wanted = np.fft.fft(x.astype(np.float32))
        for found in (tinyfn.fft.fft(x), tinyfn.fft.fftn(x)):
            assert found.dtype == np.complex64
            np.testing.assert_allclose(found, wanted, atol=1e-6)
        assert tinyfn.fft.rfft(x).dtype == np.complex64


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_frequencies_and_shifts(n: int) -> None:
    agree(
        lambda m, x: (m.fft.fftshift(x), m.fft.ifftshift(x), m.fft.fftshift(x, 0)),
        np.arange(2.0 * n).reshape(2, n),
    )
    for name in ("fftfreq", "rfftfreq"):
        found = getattr(tinyfn.fft, name)(n, 0.5, dtype="float64")
        np.testing.assert_allclose(found, getattr(np.fft, name)(n, 0.5), rtol=1e-15)
        assert getattr(tinyfn.fft, name)(n).dtype == np.float32


def test_errors() -> None:
    x = tnp.ones(4)
    with pytest.raises(TypeError, match=r"rfft takes real numbers, not complex64\[4\].*test_fft.py.*use fft"):
        tinyfn.fft.rfft(x + 1j)
    with pytest.raises(ValueError, match="norm must be 'backward', 'ortho' or 'forward'"):
        tinyfn.fft.fft(x, norm="unitary")
    with pytest.raises(ValueError, match="n=0 must be 1 or more"):
        tinyfn.fft.fft(x, 0)
    with pytest.raises(ValueError, match="2 lengths for 1 axes"):
        tinyfn.fft.fftn(x, (2, 3), (0,))
    with pytest.raises(ValueError, match="names an axis twice"):
        tinyfn.fft.fftn(tnp.ones((2, 3)), axes=(0, 0))
    with pytest.raises(ValueError, match="axis 3 is out of bounds"):
        tinyfn.fft.ifft(x, axis=3)
    with pytest.raises(TypeError, match="choose a real float"):
        tinyfn.fft.fftfreq(4, dtype="int32")
