"""The discrete Fourier transform along the last axis, by NumPy's pocketfft. Imported when `tinyfn.fft` is first used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..dtype import DType
from ..prim import REGISTRY, Linear, Sample, full, spell
from ..uop import UOp
from .complex_numbers import REAL_TYPE, complex_, conj, real

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "fft": np.fft.fft,
    "ifft": np.fft.ifft,
    "rfft": np.fft.rfft,
    "irfft": np.fft.irfft,
}
_COMPLEX_TYPE: dict[DType, DType] = {part: whole for whole, part in REAL_TYPE.items()}


class Fourier(Linear):
    """The discrete Fourier transform along the last axis, whose result has `size` elements there.

    `kind` is "fft" or "ifft" (complex to complex), "rfft" (real to the first half of a spectrum) or "irfft" (from that half to
    the real signal of length `size`). The inverse ones divide by the length."""

    family = "fourier"
    params = ("kind", "size")

    def out(self, x: Any, *, kind: str, size: int) -> Any:
        if kind not in _FUNCTIONS:
            raise ValueError(f"there is no transform {kind!r}; choose one of {', '.join(_FUNCTIONS)}")
        needs = _COMPLEX_TYPE if kind == "rfft" else REAL_TYPE
        if x.dtype not in needs or x.ndim == 0:
            wanted = "float32 or float64" if kind == "rfft" else "complex64 or complex128"
            raise TypeError(f"{kind} takes an array of {wanted} with an axis, not {spell([x])}")
        length = x.shape[-1]
        expected = {"rfft": length // 2 + 1, "irfft": size}.get(kind, length)
        if expected != size or (kind == "irfft" and length != size // 2 + 1) or length == 0 or size < 1:
            raise ValueError(f"{kind} of {spell([x])} can't have {size} elements along the last axis")
        dtype = x.dtype if kind in ("fft", "ifft") else needs[x.dtype]
        return dtype, (*x.shape[:-1], size)

    def reference(self, x: Any, *, kind: str, size: int) -> Any:
        x = np.asarray(x)
        length = size if kind == "irfft" else x.shape[-1]
        return np.ascontiguousarray(_FUNCTIONS[kind](x, length))

    def transpose(self, ct: UOp, args: Sequence[UOp], index: int, *, kind: str, size: int) -> UOp:
        x = args[0]
        if kind in ("fft", "ifft"):
            return fourier(ct, kind=kind, size=size)  # the matrix is symmetric
        length = x.shape[-1]
        if kind == "rfft":
            zero = full(0, ct.dtype, ())
            none = (0,) * ct.ndim
            padded = REGISTRY["pad"].node(ct, zero, low=none, high=(*none[1:], length - size), interior=none)
            return real(fourier(padded, kind="fft", size=length))
        # All but the first element (and the last, of an even length) stand for a conjugate as well, so they count twice.
        weights = np.full(length, 2.0 / size)
        weights[0] = 1.0 / size
        if size % 2 == 0:
            weights[-1] = 1.0 / size
        spectrum = conj(fourier(ct, kind="rfft", size=length))
        return spectrum * _row(weights, ct.dtype, spectrum.shape)

    def batch(self, size_: Any, args: Sequence[UOp], batched: Sequence[bool], *, kind: str, size: int) -> UOp:
        return fourier(args[0], kind=kind, size=size)

    def samples(self) -> Iterator[Sample]:
        generator = np.random.default_rng(0)
        for shape in ((6,), (2, 5), (1,), (0, 3), (2, 3, 4)):
            n = shape[-1]
            signal = generator.normal(size=shape)
            spectrum = signal + 1j * generator.normal(size=shape)
            for wide in (False, True):
                x, z = (
                    signal.astype(dtypes.float64 if wide else dtypes.float32),
                    spectrum.astype(dtypes.complex128 if wide else dtypes.complex64),
                )
                yield Sample((z,), {"kind": "fft", "size": n})
                yield Sample((z,), {"kind": "ifft", "size": n})
                yield Sample((x,), {"kind": "rfft", "size": n // 2 + 1})
                for size in (2 * n - 2, 2 * n - 1):
                    if size:
                        yield Sample((z,), {"kind": "irfft", "size": size})


def _row(values: np.ndarray, dtype: DType, shape: tuple[Any, ...]) -> UOp:
    """Known numbers along the last axis, in an array of a complex type with parts of the dtype."""
    inner, ends = full(values[values.size // 2], dtype, shape), {0, values.size - 1}
    position = REGISTRY["iota"].node(dtype=dtypes.int32, shape=shape, axis=len(shape) - 1)
    for end in ends:
        at_end = REGISTRY["eq"].node(position, full(end, dtypes.int32, shape))
        inner = REGISTRY["where"].node(at_end, full(values[end], dtype, shape), inner)
    return complex_(inner, full(0, dtype, shape))


fourier = Fourier()
