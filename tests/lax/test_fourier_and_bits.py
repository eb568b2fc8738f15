"""tinyfn.lax: Fourier transforms and random bits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.agreement import assert_jit_agrees
from tests.lax.checks import floats, same
from tinyfn import lax


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
