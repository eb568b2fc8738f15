"""Spherical harmonics."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ... import lax
from ... import numpy as tnp
from ...numpy.common import ArrayLike, check_real, floats
from ...trace import dtype as dtypes
from ...trace import operators
from ...trace.array import Array
from ...trace.errors import TracerError, user_line
from .calling import where


def sph_harm_y(
    n: ArrayLike,
    m: ArrayLike,
    theta: ArrayLike,
    phi: ArrayLike,
    diff_n: None = None,
    n_max: int | None = None,
) -> Array:
    """The spherical harmonics of degree n and order m at the polar angle theta and the azimuth phi.

    n and m are integers; all arguments are broadcast. complex64, or complex128 for float64 angles; 0 where |m| > n. The sign is
    Condon's and Shortley's, as in SciPy. `n_max` bounds n, which is clipped to it; without it n must be known, and the greatest
    one counts. By the recurrence of the normalized Legendre functions in n, from n = |m| on: NIST Digital Library of Mathematical
    Functions, 14.10.3 and 14.30.1. Raises TypeError for an n or m that is not whole, or an n that is traced without `n_max`.

    >>> from tinyfn.scipy import special
    >>> special.sph_harm_y(1, 0, tnp.array([0.0, np.pi / 3]), 0.0).round(4)  # sqrt(3 / 4π) cos(theta)
    Array([0.4886+0.j, 0.2443+0.j], dtype=complex64)
    >>> tinyfn.jit(lambda n: special.sph_harm_y(n, 1, 1.0, 2.0, n_max=4))(tnp.array([1, 2, 4])).shape
    (3,)
    """
    if diff_n is not None:
        raise NotImplementedError(
            f"special.sph_harm_y has no diff_n; at {user_line()}: differentiate it with tinyfn.jacfwd"
        )
    degree, order = operators.operand(n), operators.operand(m)
    for name, number in (("n", degree), ("m", order)):
        if not dtypes.is_integer(number.dtype):
            found = dtypes.describe(number.dtype, number.shape)
            raise TypeError(f"special.sph_harm_y needs integers as {name}, not {found}; at {user_line()}")
    polar, azimuth = floats("sph_harm_y", theta, phi)
    check_real("special.sph_harm_y", polar, azimuth)
    narrow = polar.dtype if polar.dtype is dtypes.float64 else dtypes.float32
    shape = operators.broadcast_shapes(degree.shape, order.shape, polar.shape, azimuth.shape)
    most = _greatest(degree) if n_max is None else operator.index(n_max)
    degree, order, polar, azimuth = (
        operators.broadcast_to(operators.to_dtype(x, dtypes.float64), shape)
        for x in (degree, order, polar, azimuth)
    )
    legendre = _legendre(tnp.minimum(degree, most), tnp.abs(order), polar, most)
    # Y(n, -m) is (-1)^m times the conjugate of Y(n, m).
    legendre = where((order < 0) & (tnp.remainder(order, 2) == 1), -legendre, legendre)
    parts = (legendre * tnp.cos(order * azimuth), legendre * tnp.sin(order * azimuth))
    return lax.complex(*[operators.to_dtype(part, narrow) for part in parts])


def _greatest(degree: Array) -> int:
    try:
        values = np.asarray(degree)
    except TracerError as error:
        raise TypeError(
            f"special.sph_harm_y needs n_max where n is traced; at {user_line()}: give the greatest n as n_max"
        ) from error
    return int(values.max()) if values.size else 0


def _legendre(n: Any, m: Any, polar: Any, most: int) -> Any:
    """The Legendre function of cos(polar) of degree n and order m >= 0, normalized as in spherical harmonics."""
    c, s = tnp.cos(polar), tnp.sin(polar)

    def step(i: Any, carry: Any) -> Any:
        value, below = carry
        k = lax.convert_element_type(i, dtypes.float64)
        first = k <= m
        gap = where(first, 1.0, k * k - m * m)
        inner = where(first, 0.0, ((k - 1) * (k - 1) - m * m) / (4 * (k - 1) * (k - 1) - 1))
        raised = -tnp.sqrt((2 * k + 1) / (2 * k)) * s * value
        following = tnp.sqrt((4 * k * k - 1) / gap) * (c * value - tnp.sqrt(inner) * below)
        new = where(first, raised, following)
        return where(k <= n, new, value), where(k <= n, where(first, 0.0, value), below)

    start = c * 0 + 0.5 / math.sqrt(math.pi)
    value, _ = lax.fori_loop(1, most + 1, step, (start, c * 0))
    return where(m > n, 0.0, value)
