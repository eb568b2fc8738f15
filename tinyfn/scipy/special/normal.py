"""Error and normal distribution functions."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as tnp
from ...numpy.common import ArrayLike
from ...trace import prims
from ...trace.array import Array
from ...trace.prims import gamma_functions, integrals
from .calling import applied, composed, where


def erf(x: ArrayLike, /) -> Array:
    """The error function, 2/√π times the integral of exp(-t²) from 0 to x.

    >>> from tinyfn.scipy import special
    >>> special.erf(tnp.array([-tnp.inf, 0.0, 0.5])).round(4)
    Array([-1.    ,  0.    ,  0.5205], dtype=float32)
    """
    return applied(prims.erf, x)


def erfc(x: ArrayLike, /) -> Array:
    """1 - erf(x), exact for large x.

    >>> from tinyfn.scipy import special
    >>> special.erfc(tnp.array([0.0, 5.0])), 1.0 - special.erf(5.0)
    (Array([1.0000000e+00, 1.5374598e-12], dtype=float32), Array(0., dtype=float32))
    """
    return applied(prims.erfc, x)


def erfinv(x: ArrayLike, /) -> Array:
    """The inverse of the error function; infinite at -1 and 1, NaN outside.

    >>> from tinyfn.scipy import special
    >>> special.erfinv(tnp.array([0.0, 1.0, -1.0, 1.5]))
    Array([  0.,  inf, -inf,  nan], dtype=float32)
    >>> special.erf(special.erfinv(0.5)).round(4)
    Array(0.5, dtype=float32)
    """
    return applied(prims.erf_inv, x)


@composed
def ndtr(x: Any, /) -> Array:
    """The standard normal distribution's cumulative function, exact also where it is small.

    >>> from tinyfn.scipy import special
    >>> special.ndtr(tnp.array([-tnp.inf, 0.0, 1.0])).round(4)
    Array([0.    , 0.5   , 0.8413], dtype=float32)
    """
    return 0.5 * erfc(x * -math.sqrt(0.5))


@composed
def log_ndtr(x: Any, /) -> Array:
    """log(ndtr(x)), exact for large |x|: below -10 by the asymptotic series of erfc.

    >>> from tinyfn.scipy import special
    >>> special.log_ndtr(-100.0).round(1), tnp.log(special.ndtr(-100.0))
    (Array(-5005.5, dtype=float32), Array(-inf, dtype=float32))
    """
    low, high = x < -10, x > 0
    far: Any = where(low & (x > -math.inf), x, -10.0)
    inverse = 1 / (far * far)
    series: Any = 1.0
    for k in reversed(range(15)):
        series = 1 - (2 * k + 1) * inverse * series
    tail = -0.5 * far * far - tnp.log(-far) - 0.5 * math.log(2 * math.pi) + tnp.log(series)
    middle = tnp.log(ndtr(where(low | high, 0.0, x)))
    upper = tnp.log1p(-ndtr(-where(high, x, 0.0)))
    return where(x == -math.inf, -math.inf, where(low, tail, where(high, upper, middle)))


def ndtri(p: ArrayLike, /) -> Array:
    """The inverse of `ndtr`; infinite at 0 and 1, NaN outside.

    >>> from tinyfn.scipy import special
    >>> special.ndtri(tnp.array([0.0, 0.5, 0.975])).round(2)
    Array([-inf, 0.  , 1.96], dtype=float32)
    """
    return applied(gamma_functions.ndtri, p)


def erfcx(x: ArrayLike, /) -> Array:
    """exp(x²) · erfc(x), exact for large x.

    >>> from tinyfn.scipy import special
    >>> (special.erfcx(100.0) * 100).round(3)  # tends to 1/√π, where erfc is 0
    Array(0.564, dtype=float32)
    """
    return applied(integrals.erfcx, x)


def dawsn(x: ArrayLike, /) -> Array:
    """Dawson's integral, exp(-x²) times the integral of exp(t²) from 0 to x.

    >>> from tinyfn.scipy import special
    >>> special.dawsn(tnp.array([0.0, 1.0, tnp.inf])).round(4)
    Array([0.    , 0.5381, 0.    ], dtype=float32)
    """
    return applied(integrals.dawsn, x)
