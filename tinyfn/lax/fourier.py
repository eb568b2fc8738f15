"""The discrete Fourier transform as one function of its kind."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from ..trace import operators
from ..trace.array import Array
from ..trace.errors import user_line
from .arguments import ArrayLike, as_shape, described


class FftType(enum.IntEnum):
    """From complex to complex numbers, and back; from real ones to the first half of their spectrum, and back."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def fft(x: ArrayLike, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """The Fourier transform over the last axes, for each of which `fft_lengths` has the length of the signal.

    The type may be a string. Inverse transforms divide by the product of the lengths. Raises ValueError if the axes do not have
    these lengths (the last one of IRFFT: half of it, and 1). See `tinyfn.fft`.

    >>> lax.fft(tnp.array([1.0, 0.0, 0.0, 0.0]), "rfft", (4,))
    Array([1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    >>> lax.fft(tnp.ones((2, 3, 4), "complex64"), "FFT", (3, 4)).shape
    (2, 3, 4)
    >>> lax.fft(tnp.array([1.0 + 0j, 1.0, 1.0]), "IRFFT", (4,))
    Array([1., 0., 0., 0.], dtype=float32)
    """
    from .. import fft as transforms

    array, lengths = operators.operand(x), as_shape(fft_lengths)
    known = FftType.__members__.get(fft_type.upper()) if isinstance(fft_type, str) else FftType(fft_type)
    if known is None:
        raise ValueError(f"lax.fft: {fft_type!r} is none of {list(FftType.__members__)}; at {user_line()}")
    count = len(lengths)
    expected = lengths if known is not FftType.IRFFT else (*lengths[:-1], lengths[-1] // 2 + 1)
    if not 1 <= count <= array.ndim or array.shape[array.ndim - count :] != expected:
        raise ValueError(
            f"lax.fft: {known.name} over lengths {lengths} needs {expected} as the last axes, not {described([array])}; at "
            f"{user_line()}"
        )
    function = {FftType.FFT: transforms.fftn, FftType.IFFT: transforms.ifftn, FftType.RFFT: transforms.rfftn}
    axes = tuple(range(array.ndim - count, array.ndim))
    return function.get(known, transforms.irfftn)(array, lengths, axes)
