"""Bessel functions."""

from __future__ import annotations

import functools
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
from ...trace.errors import user_line
from ...trace.prims import gamma_functions
from ...transforms import custom_jvp
from .calling import applied, composed, where


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


# Bessel functions of the first kind.


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """The Bessel functions of the first kind J0, ..., Jv of floats, [v + 1, *z.shape]; `n_iter` is accepted, and does nothing.

    For |z| up to the greater of 25 and v by Miller's backward recurrence, beyond by Hankel's asymptotic series for J0 and J1 and
    forward recurrence: NIST Digital Library of Mathematical Functions, 3.6, 10.6.1, 10.12.4 and 10.17.3. Worked out in
    float64, within 1e-15 for |z| up to 1e5. Raises TypeError for a v that is not a whole number, ValueError if it is negative.

    >>> from tinyfn.scipy import special
    >>> special.bessel_jn(tnp.array([0.0, 1.0, 100.0]), v=2).round(4)
    Array([[ 1.    ,  0.7652,  0.02  ],
           [ 0.    ,  0.4401, -0.0771],
           [ 0.    ,  0.1149, -0.0215]], dtype=float32)
    """
    try:
        order = operator.index(v)
    except TypeError as error:
        raise TypeError(
            f"special.bessel_jn needs a whole number as v, not {v!r}; at {user_line()}"
        ) from error
    if order < 0:
        raise ValueError(f"special.bessel_jn needs v of 0 or more, not {order}; at {user_line()}")
    (x,) = floats("bessel_jn", z)
    check_real("special.bessel_jn", x)
    values: Array = _first_kind(order, operators.to_dtype(x, dtypes.float64))
    return operators.to_dtype(values, x.dtype)


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _first_kind(v: int, x: Any) -> Array:
    """J0, ..., Jv of float64 arrays."""
    size = tnp.abs(x)
    border = float(max(25, v))
    near = size <= border
    small, large = where(near, size, 0.0), where(near, border, size)
    finite = large < math.inf
    forward = where(finite, _forward(v, where(finite, large, border)), 0.0)
    values = where(near, _backward(v, border, small), where(tnp.isnan(x), math.nan, forward))
    odd = lax.broadcast_in_dim(np.arange(v + 1) % 2 == 1, values.shape, (0,))
    return where(odd & (x < 0), -values, values)


@_first_kind.defjvp
def _rule(v: int, primals: Any, tangents: Any) -> Any:
    """The derivative of Jk is the mean of J(k - 1) and -J(k + 1), where J(-1) is -J1."""
    more = _first_kind(v + 1, *primals)
    lower = tnp.concatenate([-more[1:2], more[:v]])
    return more[: v + 1], (lower - more[1:]) * 0.5 * tangents[0]


def _backward(v: int, border: float, x: Any) -> Array:
    """Of 0 <= x <= border, by the recurrence of Jk / ((x/2)^k / k!), which neither over- nor underflows.

    They are all multiplied such that J0 + 2 J2 + 2 J4 + ... is 1."""
    most = math.ceil(border + 10 * border ** (1 / 3) + 16)
    numbers = np.arange(1.0, most + 1)
    scale = lax.scan(lambda c, k: (c * (x / 2) / k, c * (x / 2) / k), x * 0 + 1, numbers)[1]
    square = x * x / 4

    def step(carry: Any, k: Any) -> Any:
        above, twice_above = carry
        value = above - square / ((k + 1) * (k + 2)) * twice_above
        return (value, above), value

    _, found = lax.scan(step, (x * 0 + 1, x * 0 + 1), np.arange(float(most)), reverse=True)
    values = found * tnp.concatenate([(x * 0 + 1)[None], scale[:-1]])
    total = values[0] + 2 * tnp.sum(values[2::2], 0)
    return values[: v + 1] / total


def _forward(v: int, x: Any) -> Array:
    """Of x >= 25 and x >= v."""
    c, s = tnp.cos(x), tnp.sin(x)
    scale = 1 / tnp.sqrt(math.pi * x)
    p, q = _hankel_sums(0, x)
    zeroth = scale * (p * (c + s) - q * (s - c))
    p, q = _hankel_sums(1, x)
    first = scale * (p * (s - c) + q * (s + c))
    if v < 2:
        return tnp.stack([zeroth, first][: v + 1])

    def step(carry: Any, k: Any) -> Any:
        value, below = carry
        following = 2 * k / x * value - below
        return (following, value), following

    _, rest = lax.scan(step, (first, zeroth), np.arange(1.0, v))
    return tnp.concatenate([zeroth[None], first[None], rest])


def _hankel_sums(order: int, x: Any) -> tuple[Any, Any]:
    """The sums P and Q of (-1)^k a(2k) / x^(2k) and of (-1)^k a(2k + 1) / x^(2k + 1)."""
    coefficients = [1.0]
    for k in range(1, 24):
        coefficients.append(coefficients[-1] * (4 * order * order - (2 * k - 1) ** 2) / (8 * k))
    square = -1 / (x * x)
    even: Any = 0.0
    odd: Any = 0.0
    for k in reversed(range(12)):
        even, odd = even * square + coefficients[2 * k], odd * square + coefficients[2 * k + 1]
    return even, odd / x
