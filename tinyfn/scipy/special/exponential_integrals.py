"""Exponential integrals of any whole order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import lax
from ... import numpy as tnp
from ...trace.array import Array
from ...transforms import custom_jvp
from .calling import where, wide
from .gamma_functions import digamma, gammaln

# Up to here the power series converges in so many terms, and from here on the continued fraction in so many steps.
_NEAR = 2.0
_TERMS = 30
_STEPS = 50


@wide
def expn(n: Any, x: Any, /) -> Array:
    """The integral of exp(-x t) / t^n from 1 to infinity, of whole n >= 0 and x >= 0: NaN for others, infinite at 0 if n <= 1.

    By the power series (NIST Digital Library of Mathematical Functions, 8.19.8) and by Legendre's continued fraction (8.19.17,
    contracted). The derivative in x is -expn(n - 1, x); as a function of n it is constant.

    >>> from tinyfn.scipy import special
    >>> special.expn(tnp.array([0, 1, 2, 3]), 1.0).round(4)
    Array([0.3679, 0.2194, 0.1485, 0.1097], dtype=float32)
    >>> special.expn(3, 0.0)  # 1 / (n - 1)
    Array(0.5, dtype=float32)
    """
    return _expn(lax.stop_gradient(n), x)


def _value(n: Any, x: Any) -> Any:
    near = x <= _NEAR
    order = tnp.maximum(n, 1.0)
    middle = where(
        near,
        _series(order, where(near & (x > 0), x, 1.0)),
        _fraction(order, where(near, _NEAR, x)),
    )
    zeroth = tnp.exp(-x) / x
    at_zero = where(n > 1, 1 / (where(n > 1, n, 2.0) - 1), math.inf)
    value = where(n == 0, zeroth, where(x == 0, at_zero, middle))
    return where((n >= 0) & (n == tnp.floor(n)) & (x >= 0), value, math.nan)


def _series(n: Any, x: Any) -> Any:
    """(-x)^(n-1) / (n-1)! · (ψ(n) - log x), less the sum of (-x)^k / ((k - n + 1) k!) over the k >= 0 other than n - 1."""
    k = np.arange(float(_TERMS))
    signed = np.array([(-1) ** i / math.factorial(i) for i in range(_TERMS)])
    distance = k - (n[..., None] - 1)
    left_out = distance == 0
    terms = where(left_out, 0.0, signed * x[..., None] ** k / where(left_out, 1.0, distance))
    sign = where(tnp.remainder(n, 2) == 1, 1.0, -1.0)
    logarithm = tnp.log(x)
    first = sign * tnp.exp((n - 1) * logarithm - gammaln(n)) * (digamma(n) - logarithm)
    return first - tnp.sum(terms, -1)


def _fraction(n: Any, x: Any) -> Any:
    """exp(-x) / (x + n - n / (x + n + 2 - 2 (n + 1) / (x + n + 4 - ...))), from the end."""

    def step(k: Any, below: Any) -> Any:
        j = _STEPS - k
        return x + n + 2.0 * (j - 1) - j * (n + (j - 1)) / below

    start = x + n + 2.0 * _STEPS
    return tnp.exp(-x) / lax.fori_loop(0, _STEPS, step, start)


def _slope(n: Any, x: Any) -> Any:
    """-E(n - 1), which for n = 0 is -exp(-x) (1 + 1/x) / x."""
    zeroth = tnp.exp(-x) * (1 + 1 / x) / x
    return -where(n == 0, zeroth, _expn(where(n == 0, 1.0, n) - 1, x))


_expn = custom_jvp(_value)
_expn.defjvp(lambda primals, tangents: (_expn(*primals), _slope(*primals) * tangents[1]))
