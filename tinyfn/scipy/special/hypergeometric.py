"""Gauss's and Kummer's hypergeometric functions of real numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import lax
from ... import numpy as tnp
from ...trace import dtype as dtypes
from ...trace.array import Array
from ...transforms import custom_jvp, jvp
from ...transforms.custom import SymbolicZero
from .calling import where, wide
from .gamma_functions import gammaln, gammasgn

# A term that is as small beside the sum is nothing; the derivatives in the parameters converge a little later than the sum.
_NOTHING = 1e-19
_MOST_TERMS = 5000
_GREATEST = 1.7e308
_ASYMPTOTIC_TERMS = 60
# Of a Taylor series at no more than half of its radius of convergence.
_TAYLOR_TERMS = 80


def _is_pole(x: Any) -> Any:
    """Where Γ is infinite: 0, -1, -2, ..."""
    return (x <= 0) & (x == tnp.floor(x))


def _with_derivatives(value: Callable[..., Any]) -> Any:
    """A function of parameters and x, with the derivative in x by its parameters plus 1, and those in parameters of its loops."""
    function = custom_jvp(value)

    def rule(primals: Any, tangents: Any) -> Any:
        *parameters, x = primals
        found = function(*primals)
        total = found * 0
        for i, tangent in enumerate(tangents):
            if isinstance(tangent, SymbolicZero):
                continue
            if i == len(parameters):
                *above, below = parameters
                slope = (
                    math.prod(above[1:], start=above[0]) / below * function(*[p + 1 for p in parameters], x)
                )
            else:
                directions = [p * 0 + (1 if i == j else 0) for j, p in enumerate(primals)]
                slope = jvp(value, tuple(primals), tuple(directions))[1]
            total = total + slope * tangent
        return found, total

    function.defjvp(rule, symbolic_zeros=True)
    return function


# Kummer's function.


@wide
def hyp1f1(a: Any, b: Any, x: Any, /) -> Array:
    """Kummer's confluent hypergeometric function, the sum of (a)k / (b)k · x^k / k! over k = 0, 1, ...

    Infinite if b is 0, -1, ... and the sum does not end before. By that series, or where x is large beside a and b by the
    asymptotic one; of x < 0 by Kummer's transformation: NIST Digital Library of Mathematical Functions, 13.2.2, 13.7.1 and
    13.2.39. Where
    terms of both signs cancel (a < 0 < x, x < 0 and b < a, or b < 0), the error is relative to the largest of them. Second
    derivatives in reverse mode are those in x alone.

    >>> from tinyfn.scipy import special
    >>> special.hyp1f1(1.0, 1.0, tnp.array([-1.0, 0.0, 1.0])).round(4)  # exp(x)
    Array([0.3679, 1.    , 2.7183], dtype=float32)
    >>> special.hyp1f1(-2.0, 1.0, 3.0)  # 1 - 2 x + x² / 2
    Array(-0.5, dtype=float32)
    """
    return _hyp1f1(a, b, x)


def _kummer(a: Any, b: Any, x: Any) -> Any:
    polynomial = _is_pole(a)
    turned = (x < 0) & ~polynomial
    start = where(turned, b - a, a)
    size = tnp.minimum(where(turned, -x, x), _GREATEST)
    below_range = where(turned, -size, 0.0)
    p, q = tnp.abs(1 - start), tnp.abs(b - start)
    far = (size > (30 + p) * (30 + q) / 15) & ~_is_pole(start)
    undefined = _is_pole(b) & ~(polynomial & (a >= b))
    unknown = tnp.isnan(a) | tnp.isnan(b) | tnp.isnan(x)
    sum_ = _kummer_series(
        where(unknown, 1.0, start), where(undefined | unknown, 1.0, b), where(far | unknown, 0.0, size)
    )
    near = tnp.exp(where(far, 0.0, below_range)) * sum_
    value = where(far, _kummer_far(start, b, where(far, size, 100.0), below_range), near)
    return where(unknown, math.nan, where(undefined, math.inf, value))


def _kummer_series(a: Any, b: Any, x: Any) -> Any:
    def unfinished(state: Any) -> Any:
        k, term, total = state
        # The next terms may be larger ones, while their quotient is.
        grows = tnp.abs((a + k) * x) > 0.9 * tnp.abs((b + k) * (k + 1))
        open_ = (tnp.abs(term) > _NOTHING * tnp.abs(total)) | (grows & (term != 0))
        return (k < _MOST_TERMS) & (open_ & (tnp.abs(total) < math.inf)).any()

    def step(state: Any) -> Any:
        k, term, total = state
        # Where b + k is 0 the term is 0 already.
        term = term * ((a + k) / where(b + k == 0, 1.0, b + k)) * (x / (k + 1))
        return k + 1, term, total + term

    return lax.while_loop(unfinished, step, (tnp.float64(0), x * 0 + 1, x * 0 + 1))[2]


def _kummer_far(a: Any, b: Any, x: Any, exponent: Any) -> Any:
    """The function of a large x > 0, times exp(exponent), which is 0 or -x."""
    total = x * 0 + 1
    term = total
    for s in range(_ASYMPTOTIC_TERMS):
        term = term * (1 - a + s) * (b - a + s) / ((s + 1) * x)
        total = total + term
    logarithm = gammaln(b) - gammaln(a) + (a - b) * tnp.log(x) + where(exponent < 0, 0.0, x)
    return gammasgn(b) * gammasgn(a) * tnp.exp(logarithm) * total


_hyp1f1 = _with_derivatives(_kummer)


# Gauss's function.


@wide
def hyp2f1(a: Any, b: Any, c: Any, x: Any, /) -> Array:
    """Gauss's hypergeometric function, the sum of (a)k (b)k / (c)k · x^k / k! over k = 0, 1, ..., of x <= 1; NaN beyond.

    Infinite if c is 0, -1, ... and the sum does not end before, and where it diverges at 1. The series up to 1/2; from there its
    differential equation, by a Taylor series on each half of what is left to 1, so that no parameters are special; of x < 0 by
    Pfaff's transformation, at 1 by Gauss's formula: NIST Digital Library of Mathematical Functions, 15.2.1, 15.10.1, 15.8.1 and
    15.4.20. Where terms of both signs cancel, the error is relative to the largest of them. Second derivatives in reverse mode
    are those in x alone.

    >>> from tinyfn.scipy import special
    >>> special.hyp2f1(1.0, 1.0, 2.0, tnp.array([-1.0, 0.0, 0.5])).round(4)  # -log(1 - x) / x
    Array([0.6931, 1.    , 1.3863], dtype=float32)
    >>> special.hyp2f1(0.5, 0.5, 1.5, 1.0).round(4), special.hyp2f1(1.0, 1.0, 2.0, 1.0)
    (Array(1.5708, dtype=float32), Array(inf, dtype=float32))
    """
    return _hyp2f1(a, b, c, x)


def _gauss(a: Any, b: Any, c: Any, x: Any) -> Any:
    below = x < 0
    # (1 - x)^-a F(a, c - b; c; x / (x - 1)), or with a and b exchanged where that has less cancellation.
    exchanged = ~_is_pole(a) & ((c - b < 0) & (c - a >= 0) | _is_pole(b))
    p, q = where(below & exchanged, b, a), where(below & exchanged, a, b)
    q = where(below, c - q, q)
    polynomial = _is_pole(a) | _is_pole(b)
    least = tnp.maximum(where(_is_pole(a), a, -math.inf), where(_is_pole(b), b, -math.inf))
    undefined = _is_pole(c) & ~(polynomial & (least >= c))
    unknown = tnp.isnan(a) | tnp.isnan(b) | tnp.isnan(c) | tnp.isnan(x) | (x > 1)
    safe = where(undefined | unknown, 1.0, c)
    inside = ~unknown & (x < 1) & (x > -math.inf)
    negative = where(below & inside, x, 0.0)
    target = where(inside, where(below, negative / (negative - 1), x), 0.0)
    value = _continued(where(inside, p, 1.0), where(inside, q, 1.0), safe, target)
    value = where(below, (1 - negative) ** -p * value, value)
    value = where(x == 1, _at_one(a, b, safe), value)
    value = where(x == -math.inf, math.nan, value)
    return where(unknown, math.nan, where(undefined, math.inf, value))


def _at_one(a: Any, b: Any, c: Any) -> Any:
    """Γ(c) Γ(c - a - b) / (Γ(c - a) Γ(c - b)) if that converges."""
    rest = c - a - b
    zero = _is_pole(c - a) | _is_pole(c - b)
    p, q, r = where(zero, 1.0, c - a), where(zero, 1.0, c - b), where(rest > 0, rest, 1.0)
    sign = gammasgn(c) * gammasgn(r) * gammasgn(p) * gammasgn(q)
    finite = sign * tnp.exp(gammaln(c) + gammaln(r) - gammaln(p) - gammaln(q))
    return where(rest > 0, where(zero, 0.0, finite), math.inf)


def _continued(a: Any, b: Any, c: Any, x: Any) -> Any:
    """The function of 0 <= x < 1."""
    first = tnp.minimum(x, 0.5)
    value, slope = _series(a, b, c, first)

    def step(state: Any) -> Any:
        at, value, slope = state
        to = tnp.minimum(x, at + (1 - at) / 2)
        return to, *_moved(a, b, c, at, to, value, slope)

    return lax.while_loop(lambda state: (state[0] < x).any(), step, (first, value, slope))[1]


def _series(a: Any, b: Any, c: Any, x: Any) -> tuple[Any, Any]:
    """The function and its derivative for 0 <= x <= 1/2."""

    def step(i: Any, state: Any) -> Any:
        term, power, value, slope = state
        k = lax.convert_element_type(i, dtypes.float64)
        term = term * (a + k) * (b + k) / (where(c + k == 0, 1.0, c + k) * (k + 1))
        slope = slope + (k + 1) * term * power
        power = power * x
        return term, power, value + term * power, slope

    one = x * 0 + 1
    return lax.fori_loop(0, _TAYLOR_TERMS, step, (one, one, one, x * 0))[2:]


def _moved(a: Any, b: Any, c: Any, at: Any, to: Any, value: Any, slope: Any) -> tuple[Any, Any]:
    """The solution of the differential equation and its derivative at `to`, from those at `at`.

    The coefficients of its Taylor series are those of powers of (x - at) / unit."""
    unit = where(to > at, to - at, 1.0)
    head = at * (1 - at)
    turn, lead = 1 - 2 * at, c - (a + b + 1) * at

    def step(i: Any, state: Any) -> Any:
        this, following, total, rate = state
        k = lax.convert_element_type(i, dtypes.float64)
        last = (k + a) * (k + b) * unit * unit * this
        new = (last - (k + 1) * (turn * k + lead) * unit * following) / (head * (k + 2) * (k + 1))
        return following, new, total + new, rate + (k + 2) * new

    first = slope * unit
    _, _, total, rate = lax.fori_loop(0, _TAYLOR_TERMS, step, (value, first, value + first, first))
    moves = to > at
    return where(moves, total, value), where(moves, rate / unit, slope)


_hyp2f1 = _with_derivatives(_gauss)
