"""Owen's function, which gives the probabilities of pairs of normal numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import numpy as tnp
from ...trace.array import Array
from ...transforms import custom_jvp
from .calling import where, wide
from .normal import erf, erfc

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
# Where h t is larger, exp(-(h t)²/2) is nothing beside the integral.
_CUT = 8.7


@wide
def owens_t(h: Any, a: Any, /) -> Array:
    """The integral of exp(-h² (1 + t²) / 2) / (1 + t²) from 0 to a, over 2π.

    D. B. Owen, "Tables for computing bivariate normal probabilities" (Annals of Mathematical Statistics 27, 1956): by Gauss's
    rule for |a| <= 1, else from T(ah, 1/a) by his relation of the two.

    >>> from tinyfn.scipy import special
    >>> special.owens_t(0.0, tnp.array([0.0, 1.0, tnp.inf]))  # arctan(a) / 2π
    Array([0.   , 0.125, 0.25 ], dtype=float32)
    >>> special.owens_t(1.0, -2.0).round(4)
    Array(-0.0785, dtype=float32)
    """
    return _owens_t(h, a)


def _value(h: Any, a: Any) -> Any:
    h, size = tnp.abs(h), tnp.abs(a)
    steep = size > 1
    product = where(h == 0, 0.0, h * size)
    direct = _up_to_one(where(steep, product, h), where(steep, 1 / where(steep, size, 1.0), size))
    p, q = (0.5 * erfc(x * math.sqrt(0.5)) for x in (h, product))
    return where(a < 0, -1.0, 1.0) * where(steep, 0.5 * p + 0.5 * q - p * q - direct, direct)


def _up_to_one(h: Any, a: Any) -> Any:
    end = tnp.minimum(a, _CUT / where(h == 0, 1e-300, h))
    t = end[..., None] * _NODES
    square = 1 + t * t
    values = tnp.exp(-0.5 * (h * h)[..., None] * square) / square
    return end / (2 * math.pi) * tnp.sum(_WEIGHTS * values, -1)


def _slopes(h: Any, a: Any) -> tuple[Any, Any]:
    in_h = -tnp.exp(-0.5 * h * h) * erf(where(h == 0, 0.0, a * h) * math.sqrt(0.5)) / math.sqrt(8 * math.pi)
    square = 1 + a * a
    return in_h, tnp.exp(-0.5 * h * h * square) / (2 * math.pi * square)


def _rule(primals: Any, tangents: Any) -> Any:
    in_h, in_a = _slopes(*primals)
    return _owens_t(*primals), in_h * tangents[0] + in_a * tangents[1]


_owens_t = custom_jvp(_value)
_owens_t.defjvp(_rule)
