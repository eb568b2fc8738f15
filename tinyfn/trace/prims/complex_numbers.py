"""Elementwise primitives: complex numbers taken apart and put together.

Derivatives are linear over the complex numbers: the tangent of f(z) is f'(z) t, and the cotangent of z is that of the result
times f'(z), without conjugation. The functions here are linear over the real numbers only; their cotangents are the transposes
for the pairing Re(cotangent * tangent). So the gradient of a real function of z = x + iy is df/dx - i df/dy, as in JAX.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..dtype import DType
from ..prim import Elementwise, Sample, Unary, instantiate, spell, zeros_like
from ..uop import UOp

_OF_PARTS: dict[DType, DType] = {
    dtypes.float32: dtypes.complex64,
    dtypes.float64: dtypes.complex128,
}
REAL_TYPE: dict[DType, DType] = {whole: part for part, whole in _OF_PARTS.items()}


class _Part(Unary):
    kinds = ("complex",)

    def out(self, x: Any) -> Any:
        dtype, shape = super().out(x)
        return REAL_TYPE[dtype], shape

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> UOp | None:
        return None if tangents[0] is None else self.node(tangents[0])


class Real(_Part):
    """The real part of a complex number.

    >>> lax.real(tnp.array([1.0 + 2.0j]))
    Array([1.], dtype=float32)
    """

    def reference(self, x: Any) -> Any:
        return np.ascontiguousarray(np.real(x)).reshape(np.shape(x))

    def vjp(self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool]) -> list[UOp | None]:
        return [complex_(ct, zeros_like(ct))]


class Imag(_Part):
    """The imaginary part of a complex number.

    >>> lax.imag(tnp.array([1.0 + 2.0j]))
    Array([2.], dtype=float32)
    """

    def reference(self, x: Any) -> Any:
        return np.ascontiguousarray(np.imag(x)).reshape(np.shape(x))

    def vjp(self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool]) -> list[UOp | None]:
        return [complex_(zeros_like(ct), -ct)]


class Complex(Elementwise):
    """The complex number with a real and an imaginary part."""

    arity = 2
    kinds = ("float",)

    def out(self, x: Any, y: Any) -> Any:
        dtype, shape = super().out(x, y)
        if dtype not in _OF_PARTS:
            raise TypeError(f"complex takes two arrays of float32 or of float64, not {spell([x, y])}")
        return _OF_PARTS[dtype], shape

    def reference(self, x: Any, y: Any) -> Any:
        x = np.asarray(x)
        result = np.empty(x.shape, _OF_PARTS[x.dtype])
        result.real, result.imag = x, y  # x + 1j * y would make NaN of infinite parts
        return result

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> UOp | None:
        return complex_(*[instantiate(t, a) for t, a in zip(tangents, args, strict=True)])

    def vjp(self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool]) -> list[UOp | None]:
        return [real(ct) if needs[0] else None, -imag(ct) if needs[1] else None]

    def samples(self) -> Iterator[Sample]:
        for dtype in _OF_PARTS:
            for shape in ((2, 3), (), (0,)):
                yield Sample(tuple(self.values(dtype, shape, seed) for seed in (0, 1)))
        special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
        yield Sample((special, np.roll(special, 2)), differentiable=False)


class Conj(Unary):
    """The complex conjugate."""

    kinds = ("complex",)
    reference = np.conjugate

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> UOp | None:
        return None if tangents[0] is None else conj(tangents[0])

    def vjp(self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool]) -> list[UOp | None]:
        return [conj(ct)]


real, imag, conj, complex_ = Real(), Imag(), Conj(), Complex()
