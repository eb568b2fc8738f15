"""Bessel functions."""

from __future__ import annotations

from typing import Any

from ... import numpy as tnp
from ...numpy.common import ArrayLike
from ...trace.array import Array
from ...trace.prims import gamma_functions
from .calling import applied, composed


def i0e(x: ArrayLike, /) -> Array:
    """exp(-|x|) · i0(x), which is finite everywhere.

    >>> from tinyfn.scipy import special
    >>> special.i0e(tnp.array([0.0, 1000.0])).round(4), special.i0(1000.0)
    (Array([1.    , 0.0126], dtype=float32), Array(inf, dtype=float32))
    """
    return applied(gamma_functions.bessel_i0e, x)


def i1e(x: ArrayLike, /) -> Array:
    """exp(-|x|) · i1(x), which is finite everywhere.

    >>> from tinyfn.scipy import special
    >>> special.i1e(tnp.array([0.0, -1000.0])).round(4)
    Array([ 0.    , -0.0126], dtype=float32)
    """
    return applied(gamma_functions.bessel_i1e, x)


@composed
def i0(x: Any, /) -> Array:
    """The modified Bessel function of the first kind of order 0.

    >>> from tinyfn.scipy import special
    >>> special.i0(tnp.array([0.0, 1.0, -1.0])).round(4)
    Array([1.    , 1.2661, 1.2661], dtype=float32)
    """
    return tnp.exp(tnp.abs(x)) * i0e(x)


@composed
def i1(x: Any, /) -> Array:
    """The modified Bessel function of the first kind of order 1.

    >>> from tinyfn.scipy import special
    >>> special.i1(tnp.array([0.0, 1.0, -1.0])).round(4)
    Array([ 0.    ,  0.5652, -0.5652], dtype=float32)
    """
    return tnp.exp(tnp.abs(x)) * i1e(x)
