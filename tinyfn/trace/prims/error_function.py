"""Elementwise primitives: the error function, its complement and its inverse."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import formulas as f
from ..uop import UOp
from .exponential import exp
from .functions import Function
from .special import erf_inv_reference, erf_reference, erfc_reference


class Erf(Function):
    """The error function, 2/sqrt(pi) times the integral of exp(-t²) from 0 to x.

    >>> lax.erf(tnp.array([0.0, 1.0, np.inf])).round(4)
    Array([0.    , 0.8427, 1.    ], dtype=float32)
    """

    ulp = (1.5, 1.5)
    odd = True

    def reference(self, x: Any) -> Any:
        return erf_reference(x)

    def formula(self, a: UOp) -> UOp:
        inner = f.fma(a, f.polynomial(f.mul(a, a), f.ERF_POLYNOMIAL[a.dtype]), a)
        offset = f.add(f.minimum(a, f.ERF_LAST[a.dtype]), -f.ERF_TAIL_CENTRE)
        p, power = f.exp_parts(f.polynomial(offset, f.ERF_TAIL_POLYNOMIAL[a.dtype]))
        outer = f.fma(f.mul(p, power), f.negative(power), 1.0)
        return f.where(f.less(a, 1.0), inner, outer)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return float(2 / np.sqrt(np.pi)) * exp(-(x * x))


class Erfc(Function):
    """1 - erf(x), exact for large x.

    >>> lax.erfc(tnp.array([0.0, 1.0, np.inf])).round(4)
    Array([1.    , 0.1573, 0.    ], dtype=float32)
    """

    ulp = (6.5, 5.0)

    def reference(self, x: Any) -> Any:
        return erfc_reference(x)

    def formula(self, x: UOp) -> UOp:
        dtype = x.dtype
        centre = f.ERFC_CENTRE[dtype]
        a = f.minimum(f.magnitude(x), f.ERFC_RANGE[dtype])
        t = f.div(f.add(a, -centre), f.add(a, centre))
        factor = f.div(f.polynomial(t, f.ERFC_POLYNOMIAL[dtype]), f.fma(a, 2.0, 1.0))
        square, square_low = f.two_product(a, a)
        p, power = f.exp_parts(f.negative(square))
        tail = f.scaled(f.mul(f.fma(p, f.negative(square_low), p), factor), power)
        return f.where(f.less(x, 0.0), f.fma(tail, -1.0, 2.0), tail)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return float(-2 / np.sqrt(np.pi)) * exp(-(x * x))


class ErfInv(Function):
    """The inverse of the error function; infinite at -1 and 1, NaN outside.

    >>> lax.erf_inv(tnp.array([0.0, 1.0, 2.0]))
    Array([ 0., inf, nan], dtype=float32)
    """

    ulp = (3.5, 2.5)
    singular = True
    domain = (-0.9, 0.9)

    def reference(self, x: Any) -> Any:
        return erf_inv_reference(x)

    def formula(self, x: UOp) -> UOp:
        dtype = x.dtype
        a = f.magnitude(x)
        exponent, fraction = f.whole_exponent(f.fma(a, f.negative(a), 1.0), f.TWO_THIRDS)
        reduced = f.log1p_reduced(f.add(fraction, -1.0), f.LOG_POLYNOMIAL[dtype])
        unit = f.LN2[dtype][0] * 2.0 ** -f.FORMATS[dtype].mantissa
        w = f.negative(f.fma(f.cast(exponent, dtype), unit, reduced))
        root = f.sqrt(w)
        pieces = [
            (limit, f.polynomial(f.add(root if takes_root else w, -centre), coefficients))
            for (takes_root, centre, limit), coefficients in f.ERF_INV_PIECES[dtype]
        ]
        _, factor = pieces.pop()
        for limit, piece in reversed(pieces):
            factor = f.where(f.less(w, limit), piece, factor)
        outside = f.where(f.equal(a, 1.0), f.INF, f.NAN, dtype)
        return f.where(f.less(a, 1.0), f.mul(x, factor), f.flip_sign(outside, f.sign_bit(x)))

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return float(np.sqrt(np.pi) / 2) * exp(out * out)


erf, erfc, erf_inv = Erf(), Erfc(), ErfInv()
