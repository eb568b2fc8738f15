"""Discrete Fourier transforms, batched over all other axes and differentiable, with the names of `numpy.fft`.

Real input of half precision, integers and bools becomes float32. `n` (or `s`) crops an axis or pads it with zeros first.
"forward" and "backward" norms divide by the length in the forward or the inverse transform, "ortho" by its root in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

from .numpy.arithmetic import divide, multiply
from .numpy.common import (
    ArrayLike,
    DTypeLike,
    at_user,
    axes_of,
    axis_of,
    bind,
    cast,
    check_device,
    described,
    dtype_or,
    integer,
    iota,
    operand,
)
from .numpy.floats import conjugate
from .numpy.padding import pad
from .numpy.rearranging import roll
from .trace import dtype as dtypes
from .trace.array import Array
from .trace.errors import entry_points
from .trace.prims.complex_numbers import REAL_TYPE
from .trace.prims.fourier import fourier
from .trace.prims.movement import move_axis

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

Norm = str | None


def _real(a: ArrayLike, what: str) -> Array:
    x = operand(a, what)
    if dtypes.kind(x.dtype) == "complex":
        raise TypeError(f"{what} takes real numbers, not {described(x)}{at_user()}: use fft, or x.real")
    return x if x.dtype in (dtypes.float32, dtypes.float64) else cast(x, dtypes.float32)


def _complex(a: ArrayLike, what: str) -> Array:
    x = operand(a, what)
    if dtypes.kind(x.dtype) == "complex":
        return x
    return cast(x, dtypes.complex128 if x.dtype is dtypes.float64 else dtypes.complex64)


def _resized(x: Array, size: int, axis: int) -> Array:
    """x cropped or padded with zeros to a size along an axis."""
    have = x.shape[axis]
    if have > size:
        return x[(*[slice(None)] * axis, slice(size))]
    if have == size:
        return x
    return pad(x, [(0, size - have if i == axis else 0) for i in range(x.ndim)])


def _length(n: Any, default: int, what: str) -> int:
    length = default if n is None else integer(n, what, "a length")
    if length < 1:
        raise ValueError(f"{what}: the length n={length} must be 1 or more{at_user()}")
    return length


def _scale(norm: Norm, length: int, inverse: bool, what: str) -> float:
    """What the transform, whose inverse divides by the length, is to be multiplied with."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f"{what}: norm must be 'backward', 'ortho' or 'forward', not {norm!r}{at_user()}")
    if norm == "ortho":
        return sqrt(length) if inverse else 1 / sqrt(length)
    if norm == "forward":
        return float(length) if inverse else 1 / length
    return 1.0


def _along(x: Array, kind: str, size: int, axis: int, scale: float) -> Array:
    last = x.ndim - 1
    result: Array = bind(fourier, (move_axis(x, axis, last),), {"kind": kind, "size": size})
    result = move_axis(result, last, axis)
    return result if scale == 1.0 else multiply(result, scale)


def _one(a: ArrayLike, n: int | None, axis: int, norm: Norm, kind: str, what: str) -> Array:
    """A transform along one axis."""
    x = _real(a, what) if kind == "rfft" else _complex(a, what)
    place = axis_of(axis, x.ndim, what)
    if kind == "irfft":
        length = _length(n, 2 * (x.shape[place] - 1), what)
        x = _resized(x, length // 2 + 1, place)
    else:
        length = _length(n, x.shape[place], what)
        x = _resized(x, length, place)
    size = length // 2 + 1 if kind == "rfft" else length
    return _along(x, kind, size, place, _scale(norm, length, kind in ("ifft", "irfft"), what))


def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm = None) -> Array:
    """The transform along an axis, of length `n` (None: the axis' size): sum over j of a[j] exp(-2 pi i j k / n).

    Complex, of a's precision; of shape (..., n, ...).

    >>> fft.fft(tnp.array([1.0, 0.0, 0.0, 0.0]))
    Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    >>> fft.fft(tnp.array([1.0, 2.0, 3.0, 4.0]), norm="forward")[0]
    Array(2.5+0.j, dtype=complex64)
    """
    return _one(a, n, axis, norm, "fft", "fft")


def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm = None) -> Array:
    """The inverse of `fft`.

    >>> fft.ifft(tnp.array([4.0, 0.0, 0.0, 0.0]))
    Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _one(a, n, axis, norm, "ifft", "ifft")


def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm = None) -> Array:
    """The first n // 2 + 1 elements of `fft` of real numbers; the others are their conjugates. Complex input raises TypeError.

    >>> fft.rfft(tnp.array([1.0, 2.0, 3.0, 4.0]))
    Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    return _one(a, n, axis, norm, "rfft", "rfft")


def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm = None) -> Array:
    """The inverse of `rfft`: n real numbers (None: 2 * (size - 1)), where an odd n must be given.

    >>> fft.irfft(tnp.array([10.0, -2 + 2j, -2.0]))
    Array([1., 2., 3., 4.], dtype=float32)
    >>> fft.irfft(fft.rfft(tnp.zeros(5)), n=5).shape
    (5,)
    """
    return _one(a, n, axis, norm, "irfft", "irfft")


def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm = None) -> Array:
    """The real spectrum, of n elements (None: 2 * (size - 1)), of a signal with a[-j] = conj(a[j]), given by its first half.

    >>> fft.hfft(tnp.array([1.0, 2.0, 1.0]))
    Array([ 6.,  0., -2.,  0.], dtype=float32)
    """
    return _one(conjugate(_complex(a, "hfft")), n, axis, _swapped(norm, "hfft"), "irfft", "hfft")


def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm = None) -> Array:
    """The inverse of `hfft`: n // 2 + 1 elements.

    >>> fft.ihfft(tnp.array([6.0, 0.0, -2.0, 0.0])).real
    Array([1., 2., 1.], dtype=float32)
    """
    return conjugate(_one(a, n, axis, _swapped(norm, "ihfft"), "rfft", "ihfft"))


def _swapped(norm: Norm, what: str) -> Norm:
    _scale(norm, 1, False, what)
    return {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)


def _lengths(
    x: Array, s: Sequence[int] | None, axes: Sequence[int] | None, what: str
) -> tuple[tuple[int, ...], list[int | None]]:
    """The axes, and for each the length asked for, or None."""
    if axes is None:
        places = tuple(range(x.ndim)) if s is None else tuple(range(x.ndim - len(s), x.ndim))
    else:
        places = axes_of(tuple(axes), x.ndim, what)
    lengths: list[int | None] = [None] * len(places)
    if s is not None:
        lengths = [None if n == -1 else n for n in s]
    if len(lengths) != len(places):
        raise ValueError(f"{what}: {len(lengths)} lengths for {len(places)} axes{at_user()}")
    return places, lengths


def fftn(
    a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = None
) -> Array:
    """`fft` along several axes (None: all, or the last ones that `s` has lengths for).

    >>> fft.fftn(tnp.ones((2, 2))).real
    Array([[4., 0.],
           [0., 0.]], dtype=float32)
    >>> fft.fftn(tnp.ones((2, 2)), s=(4,), axes=(1,)).shape
    (2, 4)
    """
    return _several(a, s, axes, norm, "fft", "fftn")


def ifftn(
    a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = None
) -> Array:
    """The inverse of `fftn`.

    >>> fft.ifftn(fft.fftn(tnp.ones((2, 2)))).real
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _several(a, s, axes, norm, "ifft", "ifftn")


def _several(
    a: ArrayLike, s: Sequence[int] | None, axes: Sequence[int] | None, norm: Norm, kind: str, what: str
) -> Array:
    x = _complex(a, what)
    for axis, n in zip(*_lengths(x, s, axes, what), strict=True):
        x = _one(x, n, axis, norm, kind, what)
    return x


def rfftn(
    a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = None
) -> Array:
    """`rfft` along the last of several axes and `fft` along the others.

    >>> fft.rfftn(tnp.ones((2, 4))).shape
    (2, 3)
    """
    x = _real(a, "rfftn")
    places, lengths = _lengths(x, s, axes, "rfftn")
    if not places:
        raise ValueError(f"rfftn of {described(x)}: it needs an axis{at_user()}")
    x = _one(x, lengths[-1], places[-1], norm, "rfft", "rfftn")
    for axis, n in zip(places[:-1], lengths[:-1], strict=True):
        x = _one(x, n, axis, norm, "fft", "rfftn")
    return x


def irfftn(
    a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = None
) -> Array:
    """The inverse of `rfftn`; the last axis gets 2 * (size - 1) elements unless `s` says otherwise.

    >>> fft.irfftn(tnp.ones((2, 3))).shape, fft.irfftn(tnp.ones((2, 3)), s=(2, 5)).shape
    ((2, 4), (2, 5))
    """
    x = _complex(a, "irfftn")
    places, lengths = _lengths(x, s, axes, "irfftn")
    if not places:
        raise ValueError(f"irfftn of {described(x)}: it needs an axis{at_user()}")
    for axis, n in zip(places[:-1], lengths[:-1], strict=True):
        x = _one(x, n, axis, norm, "ifft", "irfftn")
    return _one(x, lengths[-1], places[-1], norm, "irfft", "irfftn")


def fft2(
    a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: Norm = None
) -> Array:
    """`fftn` along two axes.

    >>> fft.fft2(tnp.ones((5, 2, 2))).real[0]
    Array([[4., 0.],
           [0., 0.]], dtype=float32)
    """
    return fftn(a, s, axes, norm)


def ifft2(
    a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: Norm = None
) -> Array:
    """`ifftn` along two axes.

    >>> fft.ifft2(fft.fft2(tnp.ones((2, 2)))).real
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return ifftn(a, s, axes, norm)


def rfft2(
    a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: Norm = None
) -> Array:
    """`rfftn` along two axes.

    >>> fft.rfft2(tnp.ones((5, 2, 4))).shape
    (5, 2, 3)
    """
    return rfftn(a, s, axes, norm)


def irfft2(
    a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: Norm = None
) -> Array:
    """`irfftn` along two axes.

    >>> fft.irfft2(fft.rfft2(tnp.ones((5, 2, 4)))).shape
    (5, 2, 4)
    """
    return irfftn(a, s, axes, norm)


def _count(n: Any, what: str) -> int:
    count = integer(n, what, "n")
    if count < 0:
        raise ValueError(f"{what}: n={count} must be 0 or more{at_user()}")
    return count


def _frequencies(positions: Array, n: int, d: float, dtype: DTypeLike, device: Any, what: str) -> Array:
    check_device(device, what)
    target = dtype_or(dtype, dtypes.DEFAULT_FLOAT)
    if target in REAL_TYPE or not dtypes.is_float(target):
        raise TypeError(f"{what}: the frequencies can't be {target.name}{at_user()}: choose a real float")
    return divide(cast(positions, target), n * d)


def fftfreq(n: int, d: float = 1.0, *, dtype: DTypeLike = None, device: Any = None) -> Array:
    """The frequencies of the elements of `fft` of length n, samples being d apart: 0, 1, ..., -2, -1 over n * d.

    float32 if no dtype is given.

    >>> fft.fftfreq(4, d=0.5)
    Array([ 0. ,  0.5, -1. , -0.5], dtype=float32)
    """
    n = _count(n, "fftfreq")
    positions = iota(dtypes.DEFAULT_INT, (n,), 0)
    positions = positions - n * cast(positions > (n - 1) // 2, positions.dtype)
    return _frequencies(positions, n, d, dtype, device, "fftfreq")


def rfftfreq(n: int, d: float = 1.0, *, dtype: DTypeLike = None, device: Any = None) -> Array:
    """The frequencies of the elements of `rfft` of length n, samples being d apart: 0, 1, ..., n // 2 over n * d.

    float32 if no dtype is given.

    >>> fft.rfftfreq(4, d=0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    n = _count(n, "rfftfreq")
    return _frequencies(iota(dtypes.DEFAULT_INT, (n // 2 + 1,), 0), n, d, dtype, device, "rfftfreq")


def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """The elements of `fft` with that of frequency 0 in the middle of the axes (None: all).

    >>> fft.fftshift(fft.fftfreq(4, d=0.25))
    Array([-2., -1.,  0.,  1.], dtype=float32)
    """
    array = operand(x, "fftshift")
    places = axes_of(axes, array.ndim, "fftshift")
    return roll(array, tuple([array.shape[i] // 2 for i in places]), places)


def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """The inverse of `fftshift`.

    >>> fft.ifftshift(tnp.array([-2.0, -1.0, 0.0, 1.0]))
    Array([ 0.,  1., -2., -1.], dtype=float32)
    """
    array = operand(x, "ifftshift")
    places = axes_of(axes, array.ndim, "ifftshift")
    return roll(array, tuple([-(array.shape[i] // 2) for i in places]), places)


entry_points(globals())
