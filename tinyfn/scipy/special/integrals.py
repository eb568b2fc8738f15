"""Exponential, sine and logarithmic integrals."""

from __future__ import annotations

from ...numpy.common import ArrayLike
from ...trace.array import Array
from ...trace.prims import integrals
from .calling import applied


def exp1(x: ArrayLike, /) -> Array:
    """The integral of exp(-t)/t from x > 0 to infinity; infinite at 0, NaN below.

    >>> from tinyfn.scipy import special
    >>> special.exp1(tnp.array([-1.0, 0.0, 1.0, tnp.inf])).round(4)
    Array([   nan,    inf, 0.2194, 0.    ], dtype=float32)
    """
    return applied(integrals.exp1, x)


def expi(x: ArrayLike, /) -> Array:
    """The integral of exp(t)/t from -infinity to x (its principal value); -infinity at 0.

    >>> from tinyfn.scipy import special
    >>> special.expi(tnp.array([-1.0, 0.0, 1.0])).round(4)
    Array([-0.2194,    -inf,  1.8951], dtype=float32)
    """
    return applied(integrals.expi, x)


def sici(x: ArrayLike, /) -> tuple[Array, Array]:
    """Si(x), the integral of sin(t)/t from 0 to x, and Ci(|x|), minus that of cos(t)/t from |x| to infinity.

    >>> from tinyfn.scipy import special
    >>> sine, cosine = special.sici(tnp.array([0.0, 1.0, tnp.inf]))
    >>> sine.round(4), cosine.round(4)
    (Array([0.    , 0.9461, 1.5708], dtype=float32), Array([  -inf, 0.3374, 0.    ], dtype=float32))
    """
    return applied(integrals.sine_integral, x), applied(integrals.cosine_integral, x)


def spence(x: ArrayLike, /) -> Array:
    """The integral of log(t)/(1 - t) from 1 to x >= 0, which is the dilogarithm of 1 - x; NaN below 0.

    >>> from tinyfn.scipy import special
    >>> (special.spence(tnp.array([0.0, 2.0])) * 12 / np.pi**2).round(4)
    Array([ 2., -1.], dtype=float32)
    """
    return applied(integrals.spence, x)
