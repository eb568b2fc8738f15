"""Logistic functions, entropies and power transforms."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as tnp
from ...numpy.common import ArrayLike
from ...trace import prims
from ...trace.array import Array
from .calling import applied, composed, where


def expit(x: ArrayLike, /) -> Array:
    """1 / (1 + exp(-x)).

    >>> from tinyfn.scipy import special
    >>> special.expit(tnp.array([-tnp.inf, 0.0, 2.0])).round(4)
    Array([0.    , 0.5   , 0.8808], dtype=float32)
    """
    return applied(prims.logistic, x)


@composed
def logit(x: Any, /) -> Array:
    """log(x / (1 - x)); infinite at 0 and 1, NaN outside.

    >>> from tinyfn.scipy import special
    >>> special.logit(tnp.array([0.0, 0.5, 1.0, 2.0]))
    Array([-inf,   0.,  inf,  nan], dtype=float32)
    """
    return tnp.log(x / (1 - x))


@composed
def xlogy(x: Any, y: Any, /) -> Array:
    """x · log(y), and 0 where x is 0 unless y is NaN.

    >>> from tinyfn.scipy import special
    >>> special.xlogy(tnp.array([0.0, 2.0]), tnp.array([0.0, 1.0]))
    Array([0., 0.], dtype=float32)
    >>> tinyfn.grad(special.xlogy)(0.0, 0.0)
    Array(0., dtype=float32)
    """
    # Where the logarithm is no finite number, x = 0 must not multiply it.
    undefined = (x == 0) & ((y <= 0) | (y == math.inf))
    return where(undefined, 0, x * tnp.log(where(undefined, 1, y)))


@composed
def xlog1py(x: Any, y: Any, /) -> Array:
    """x · log(1 + y), and 0 where x is 0 unless y is NaN.

    >>> from tinyfn.scipy import special
    >>> special.xlog1py(tnp.array([0.0, 2.0]), tnp.array([-1.0, 0.0]))
    Array([0., 0.], dtype=float32)
    """
    undefined = (x == 0) & ((y <= -1) | (y == math.inf))
    return where(undefined, 0, x * tnp.log1p(where(undefined, 1, y)))


@composed
def entr(x: Any, /) -> Array:
    """-x · log(x), 0 at 0 and -infinity below.

    >>> from tinyfn.scipy import special
    >>> special.entr(tnp.array([-1.0, 0.0]))
    Array([-inf,   0.], dtype=float32)
    >>> (special.entr(tnp.array([0.5, 0.25, 0.25])).sum() / tnp.log(2)).round(2)  # of a distribution, in bits
    Array(1.5, dtype=float32)
    """
    inside = where(x < 0, 1, x)
    return where(x < 0, -math.inf, xlogy(tnp.negative(inside), inside))


@composed
def rel_entr(p: Any, q: Any, /) -> Array:
    """p · log(p / q); 0 where p = 0 <= q, infinite where it is not defined.

    >>> from tinyfn.scipy import special
    >>> special.rel_entr(tnp.array([0.5, 0.5, 0.0]), tnp.array([0.5, 0.0, 0.5]))
    Array([ 0., inf,  0.], dtype=float32)
    """
    both = (p > 0) & (q > 0)
    x, y = where(both, p, 1), where(both, q, 1)
    nan = tnp.isnan(p) | tnp.isnan(q)
    other = where(nan, math.nan, where((p == 0) & (q >= 0), 0.0, math.inf))
    return where(both, tnp.multiply(x, tnp.log(tnp.divide(x, y))), other)


@composed
def kl_div(p: Any, q: Any, /) -> Array:
    """p · log(p / q) - p + q; infinite where it is not defined.

    >>> from tinyfn.scipy import special
    >>> special.kl_div(tnp.array([0.5, 0.0, 0.5]), tnp.array([0.5, 0.25, 0.0]))
    Array([0.  , 0.25,  inf], dtype=float32)
    """
    entropy: Any = rel_entr(p, q)
    return where(entropy == math.inf, math.inf, entropy - p + q)


@composed
def boxcox(x: Any, lmbda: Any, /) -> Array:
    """(x^lmbda - 1) / lmbda, and log(x) for lmbda = 0.

    >>> from tinyfn.scipy import special
    >>> special.boxcox(4.0, tnp.array([0.0, 0.5, 1.0, 2.0])).round(4)
    Array([1.3863, 2.    , 3.    , 7.5   ], dtype=float32)
    """
    return _box_cox(tnp.log(x), lmbda)


@composed
def boxcox1p(x: Any, lmbda: Any, /) -> Array:
    """((1 + x)^lmbda - 1) / lmbda, and log(1 + x) for lmbda = 0.

    >>> from tinyfn.scipy import special
    >>> special.boxcox1p(3.0, tnp.array([0.0, 0.5, 1.0, 2.0])).round(4)
    Array([1.3863, 2.    , 3.    , 7.5   ], dtype=float32)
    """
    return _box_cox(tnp.log1p(x), lmbda)


def _box_cox(logarithm: Any, power: Any) -> Array:
    safe: Any = where(power == 0, 1, power)
    return where(power == 0, logarithm, tnp.expm1(safe * logarithm) / safe)
