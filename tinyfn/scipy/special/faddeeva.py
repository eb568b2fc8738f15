"""Faddeeva's function and the Fresnel integrals, which it gives for large arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import lax
from ... import numpy as tnp
from ...numpy.common import ArrayLike
from ...trace import dtype as dtypes
from ...trace import operators
from ...trace.array import Array
from .calling import where, wide

# The rules' step, and the numbers of their nodes on either side.
_STEP = math.sqrt(math.pi / 12)
_NODES = np.arange(-12, 12)


def wofz(z: ArrayLike, /) -> Array:
    """exp(-z²) erfc(-i z), Faddeeva's function of complex numbers: complex64 of single precision and less, else complex128.

    M. Al Azah and S. N. Chandler-Wilde, "Computation of the complex error function using modified trapezoidal rules" (SIAM
    Journal on Numerical Analysis 59, 2021). In the lower half-plane it is 2 exp(-z²) - w(-z).

    >>> from tinyfn.scipy import special
    >>> special.wofz(tnp.array([0.0, 1j])).round(4)
    Array([1.    +0.j, 0.4276+0.j], dtype=complex64)
    >>> special.erfcx(1.0).round(4)
    Array(0.4276, dtype=float32)
    """
    array = operators.operand(z)
    dtype = array.dtype
    is_wide = dtype in (dtypes.float64, dtypes.complex128)
    x, y = (operators.to_dtype(part, dtypes.float64) for part in (tnp.real(array), tnp.imag(array)))
    real, imaginary = _faddeeva(x, y)
    narrow = dtypes.float64 if is_wide else dtypes.float32
    return lax.complex(operators.to_dtype(real, narrow), operators.to_dtype(imaginary, narrow))


def _faddeeva(x: Any, y: Any) -> tuple[Any, Any]:
    """Real and imaginary part of w(x + iy)."""
    # Not abs, of which the derivative at 0 is 0.
    side, half = where(x < 0, -1.0, 1.0), where(y < 0, -1.0, 1.0)
    real, imaginary = _in_first_quadrant(side * x, half * y)
    below = (y < 0) & ~tnp.isnan(x)
    p, q = where(below, x, 0.0), where(below, y, 0.0)
    size, angle = 2 * tnp.exp((q - p) * (q + p)), 2 * p * q
    sine = tnp.sin(angle)
    reflected_real = size * tnp.cos(angle) - real
    reflected_imaginary = side * imaginary - where(sine == 0, 0.0, size * sine)
    return where(below, reflected_real, real), where(below, reflected_imaginary, side * imaginary)


def _in_first_quadrant(x: Any, y: Any) -> tuple[Any, Any]:
    """Real and imaginary part of w(x + iy) of x, y >= 0.

    w(z) is i/π times the integral of exp(-t²) / (z - t) over all t, by the midpoint or the trapezoidal rule: whichever has its
    nodes far from z. What both lack by the pole at z is 2 exp(-z²) / (1 ± exp(-2πi z / h)), unless z is far above the nodes."""
    far = tnp.maximum(x, y) > 1e8
    large_real, large_imaginary = _far_out(where(far, x, 1.0), where(far, y, 1.0))
    x, y = where(far, 1.0, x), where(far, 1.0, y)
    part = x / _STEP - tnp.floor(x / _STEP)
    trapezoidal = (y < x) & (part >= 0.25) & (part <= 0.75)
    nodes = where(trapezoidal[..., None], _STEP * _NODES, _STEP * (_NODES + 0.5))
    weight = where(trapezoidal[..., None], *[np.exp(-((_STEP * (_NODES + o)) ** 2)) for o in (0.0, 0.5)])
    across, up = x[..., None] - nodes, y[..., None]
    weight = weight / (across * across + up * up)
    real = _STEP / math.pi * tnp.sum(weight * up, -1)
    imaginary = _STEP / math.pi * tnp.sum(weight * across, -1)

    near = y < tnp.maximum(x, math.pi / _STEP)
    p, q = where(near, x, 1.0), where(near, y, 1.0)
    decay, turn = tnp.exp(-2 * math.pi / _STEP * q), 2 * math.pi / _STEP * p
    sign = where(trapezoidal, -1.0, 1.0)
    c, s = decay + sign * tnp.cos(turn), sign * tnp.sin(turn)
    size = 2 * tnp.exp((q - p) * (q + p)) * decay / (c * c + s * s)
    cosine, sine = tnp.cos(2 * p * q), tnp.sin(2 * p * q)
    real = real + where(near, size * (c * cosine + s * sine), 0.0)
    imaginary = imaginary + where(near, size * (s * cosine - c * sine), 0.0)
    return where(far, large_real, real), where(far, large_imaginary, imaginary)


def _far_out(x: Any, y: Any) -> tuple[Any, Any]:
    """i / (√π z), of numbers whose squares may be infinite."""
    size = tnp.maximum(x, y)
    finite = size < math.inf
    size = where(finite, size, 1.0)
    p, q = where(finite, x, 1.0) / size, where(finite, y, 1.0) / size
    factor = math.sqrt(math.pi) * size * (p * p + q * q)
    return where(finite, q / factor, 0.0), where(finite, p / factor, 0.0)


@wide
def fresnel(x: Any, /) -> tuple[Array, Array]:
    """The integrals S and C of sin(π t²/2) and of cos(π t²/2) from 0 to x.

    By their power series up to 1.6, then as Faddeeva's function: Abramowitz and Stegun, "Handbook of mathematical functions",
    7.3.11, 7.3.13 and 7.3.22.

    >>> from tinyfn.scipy import special
    >>> sine, cosine = special.fresnel(tnp.array([0.0, 1.0, tnp.inf]))
    >>> sine.round(4), cosine.round(4)
    (Array([0.    , 0.4383, 0.5   ], dtype=float32), Array([0.    , 0.7799, 0.5   ], dtype=float32))
    """
    sign = where(x < 0, -1.0, 1.0)
    size = sign * x
    near = size < 1.6
    near_sine, near_cosine = _fresnel_series(where(near, size, 0.0))
    finite = size < math.inf
    far = where(near | ~finite, 1.6, size)
    c, s = _cosine_and_sine(far)
    # C + iS = (1 + i)/2 · (1 - exp(iπx²/2) w((1 + i) √π/2 x))
    real, imaginary = _in_first_quadrant(math.sqrt(math.pi) / 2 * far, math.sqrt(math.pi) / 2 * far)
    p, q = c * real - s * imaginary, c * imaginary + s * real
    far_sine, far_cosine = (where(finite, 0.5 * (1 - p + o * q), 0.5) for o in (-1, 1))
    nan = where(tnp.isnan(x), math.nan, 0.0)
    return (
        sign * where(near, near_sine, far_sine) + nan,
        sign * where(near, near_cosine, far_cosine) + nan,
    )


def _fresnel_series(x: Any) -> tuple[Any, Any]:
    """S and C of x up to 1.6."""
    phase = math.pi / 2 * x * x
    square = -phase * phase
    sine: Any = 0.0
    cosine: Any = 0.0
    for k in reversed(range(19)):
        sine = sine * square + 1 / (math.factorial(2 * k + 1) * (4 * k + 3))
        cosine = cosine * square + 1 / (math.factorial(2 * k) * (4 * k + 1))
    return sine * phase * x, cosine * x


def _cosine_and_sine(x: Any) -> tuple[Any, Any]:
    """cos and sin of πx²/2, also of large x: with x = n + r, x² is n² + 2nr + r², of which the products are exact."""
    whole = tnp.round(x)
    rest = x - whole
    turns = tnp.remainder(whole, 2) + tnp.remainder(2 * whole * rest, 4) + rest * rest
    angle = math.pi / 2 * turns
    return tnp.cos(angle), tnp.sin(angle)
