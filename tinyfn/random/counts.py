"""Distributions of counts: Poisson, binomial and multinomial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import lax
from ..lax.arguments import ArrayLike, as_shape
from ..trace import dtype as dtypes
from ..trace import operators
from ..trace.array import Array
from ..trace.dtype import DType
from ..trace.errors import user_line
from .distributions import float_dtype, parameter, unit_uniform
from .keys import Shape, key_pair, split, typed
from .reuse import uses_key
from .transformed import result_shape

# log(k!) - log(sqrt(2 pi)) - (k + 1/2) log(k + 1) + (k + 1) for k = 0, ..., 9.
_TAILS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
    0.0138761288230707, 0.0118967099458917, 0.010411265261972, 0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _stirling_tail(k: Array) -> Array:
    """What Stirling's formula for log(k!) in terms of k + 1 leaves over, for whole k >= 0."""
    small = lax.clamp(0.0, k, 9.0)
    table = lax.full(k.shape, _TAILS[0], k.dtype)
    for i in range(1, 10):
        table = lax.select(small >= float(i), lax.full(k.shape, _TAILS[i], k.dtype), table)
    s = (k + 1.0) * (k + 1.0)
    return lax.select(k <= 9.0, table, (1 / 12 - (1 / 360 - 1 / 1260 / s) / s) / (k + 1.0))


def _any(mask: Array) -> Array:
    return lax.reduce_or(mask, tuple(range(mask.ndim)))


def _accepted(
    key: Array, shape: tuple[Any, ...], dtype: DType, propose: Callable[[Array, Array], Any]
) -> Array:
    """For each element a proposal that is accepted: of as many as it takes until each element has one, the last, as in JAX.

    `propose(u, v)` gives proposals and which of them are accepted, for u in [-1/2, 1/2) and v in [0, 1)."""

    def step(state: Any) -> Any:
        own, found, done = state
        keys = split(own, 3)
        u, v = (unit_uniform("poisson", keys[i], shape, dtype) for i in (1, 2))
        proposed, accept = propose(u - 0.5, v)
        return keys[0], lax.select(accept, proposed, found), done | accept

    start = (key, lax.full(shape, -1, dtype), lax.full(shape, False, dtypes.bool_))
    found: Array = lax.while_loop(lambda state: _any(~state[2]), step, start)[1]
    return found


def _few_events(key: Array, rate: Array) -> Array:
    """Poisson numbers of small rates: how many exponential waiting times fit into 1.

    Knuth, The Art of Computer Programming 2, section 3.4.1, with logarithms of uniform numbers added up."""

    def step(state: Any) -> Any:
        own, count, total = state
        following, this = key_pair(own)
        count = lax.select(total > -rate, count + 1.0, count)
        return following, count, total + lax.log(unit_uniform("poisson", this, rate.shape, rate.dtype))

    zero = lax.full(rate.shape, 0, rate.dtype)
    found: Array = lax.while_loop(lambda state: _any(state[2] > -rate), step, (key, zero, zero))[1]
    return found - 1.0


def _many_events(key: Array, rate: Array) -> Array:
    """Poisson numbers of rates from 10 on.

    Hörmann, "The transformed rejection method for generating Poisson random variables" (algorithm PTRS), Insurance:
    Mathematics and Economics 12 (1993)."""
    log_rate = lax.log(rate)
    b = 0.931 + 2.53 * lax.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    most = 0.9277 - 3.6224 / (b - 2.0)

    def propose(u: Array, v: Array) -> Any:
        us = 0.5 - lax.abs(u)
        k = lax.floor((2.0 * a / us + b) * u + rate + 0.43)
        impossible = (k < 0.0) | ((us < 0.013) & (v > us))
        left = lax.log(v * inverse_alpha / (a / (us * us) + b))
        whole = lax.max(k, lax.full(k.shape, 0, k.dtype))
        log_factorial = (
            (whole + 0.5) * lax.log(whole + 1.0)
            - (whole + 1.0)
            + (_stirling_tail(whole) + 0.9189385332046727)
        )
        fits = left <= k * log_rate - rate - log_factorial
        return k, ((us >= 0.07) & (v <= most)) | (~impossible & fits)

    return _accepted(key, rate.shape, rate.dtype, propose)


@uses_key
def poisson(key: ArrayLike, lam: ArrayLike, shape: Shape | None = None, dtype: Any = dtypes.int32) -> Array:
    """Integers from the Poisson distribution of rate lam >= 0, of a shape (lam's if it is None); worked out in float32.

    -1 where the rate is NaN or negative. Knuth's method for rates below 10, Hörmann's rejection from there on. Raises
    TypeError for a dtype that is not an integer's.

    >>> random.poisson(random.key(0), tnp.array([0.0, 3.0, 1e6, -1.0]))
    Array([     0,      0, 998713,     -1], dtype=int32)
    """
    dtype, shape = dtypes.canonical(dtype), result_shape(shape, lam)
    if not dtypes.is_integer(dtype):
        raise TypeError(f"random.poisson gives integers, not {dtype.name}; at {user_line()}")
    rate = lax.stop_gradient(parameter("poisson", lam, np.dtype(dtypes.float32), shape))
    small = ~(rate >= 10.0)
    own = typed(key)
    few = _few_events(own, lax.select(small, rate, lax.full(shape, 0, rate.dtype)))
    many = _many_events(own, lax.select(small, lax.full(shape, 1e5, rate.dtype), rate))
    drawn = lax.select(rate == 0.0, lax.full(shape, 0, rate.dtype), lax.select(small, few, many))
    return lax.convert_element_type(drawn, dtype)


def _few_successes(key: Array, count: Array, p: Array) -> Array:
    """Binomial numbers of a small mean: how many geometric waiting times fit into the trials.

    Devroye, Non-Uniform Random Variate Generation (1986), section X.4.3, the first waiting time method."""
    log_q = lax.log1p(-p)

    def step(state: Any) -> Any:
        own, number, total = state
        this, following = key_pair(own)
        number = lax.select(total <= count, number + 1.0, number)
        waited = lax.ceil(lax.log(unit_uniform("binomial", this, p.shape, p.dtype)) / log_q)
        return following, number, total + waited

    zero = lax.full(p.shape, 0, p.dtype)
    found: Array = lax.while_loop(lambda state: _any(state[2] <= count), step, (key, zero, zero))[1]
    return found - 1.0


def _many_successes(key: Array, count: Array, p: Array) -> Array:
    """Binomial numbers of a mean from 10 on and p <= 1/2.

    Hörmann, "The generation of binomial random variates" (algorithm BTRS), Journal of Statistical Computation and Simulation 46
    (1993)."""
    deviation = lax.sqrt(count * p * (1.0 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    center = count * p + 0.5
    most = 0.92 - 4.2 / b
    odds = p / (1.0 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = lax.floor((count + 1.0) * p)

    def propose(u: Array, v: Array) -> Any:
        us = 0.5 - lax.abs(u)
        k = lax.floor((2.0 * a / us + b) * u + center)
        impossible = (k < 0.0) | (k > count)
        left = lax.log(v * alpha / (a / (us * us) + b))
        right = (
            (mode + 0.5) * lax.log((mode + 1.0) / (odds * (count - mode + 1.0)))
            + (count + 1.0) * lax.log((count - mode + 1.0) / (count - k + 1.0))
            + (k + 0.5) * lax.log(odds * (count - k + 1.0) / (k + 1.0))
            + (_stirling_tail(mode) + _stirling_tail(count - mode))
            - (_stirling_tail(k) + _stirling_tail(count - k))
        )
        return k, ((us >= 0.07) & (v <= most)) | (~impossible & (left <= right))

    return _accepted(key, p.shape, p.dtype, propose)


@uses_key
def binomial(
    key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: Shape | None = None, dtype: Any = dtypes.float32
) -> Array:
    """How many of n trials of success probability p succeed, as whole floats of a shape (None: n's and p's).

    NaN where n or p is NaN or negative or p is above 1, inf where n is. The derivative in n and p is 0.

    >>> random.binomial(random.key(0), 10, 0.5, (6,))
    Array([6., 7., 5., 6., 7., 3.], dtype=float32)
    >>> random.binomial(random.key(0), tnp.array([10, 100, 1000]), 0.5).shape
    (3,)
    """
    dtype, shape = float_dtype("binomial", dtype), result_shape(shape, n, p)
    given = operators.operand(p).dtype
    working = given if given in dtypes.FLOATS else np.dtype(dtypes.float32)
    trials = lax.stop_gradient(parameter("binomial", n, working, shape))
    chance = lax.stop_gradient(parameter("binomial", p, working, shape))

    def everywhere(value: Any) -> Array:
        return lax.full(shape, value, working)

    usual = chance < 0.5
    q = lax.select(usual, chance, 1.0 - chance)
    wrong = ~(q >= 0.0) | ~(trials >= 0.0)
    endless = trials == float("inf")
    q = lax.select(q >= 0.0, q, everywhere(0.01))
    whole = lax.floor(trials)
    few = ~(trials >= 0.0) | (trials * q <= 10.0)
    own = typed(key)
    skip = few | endless
    small = _few_successes(own, lax.select(few & ~wrong, whole, everywhere(0.0)), q)
    large = _many_successes(
        own, lax.select(skip, everywhere(1e4), whole), lax.select(skip, everywhere(0.5), q)
    )
    drawn = lax.select(few, small, large)
    drawn = lax.select(usual, drawn, whole - drawn)
    drawn = lax.select(endless, everywhere(float("inf")), drawn)
    return lax.convert_element_type(lax.select(wrong, everywhere(float("nan")), drawn), dtype)


@uses_key
def multinomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: Shape | None = None,
    dtype: Any = dtypes.float32,
) -> Array:
    """How many of n draws have each of the outcomes 0, ..., k - 1 with the probabilities p[..., k], as whole floats [..., k].

    `shape` (None: p's) includes the axis of outcomes. One binomial number per outcome, of the draws that are left.

    >>> p = tnp.array([0.5, 0.25, 0.25])
    >>> random.multinomial(random.key(0), 100, p)
    Array([57., 22., 21.], dtype=float32)
    >>> random.multinomial(random.key(0), 100, p, shape=(2, 3)).sum(-1)
    Array([100., 100.], dtype=float32)
    """
    chances = operators.operand(p)
    working = chances.dtype if chances.dtype in dtypes.FLOATS else np.dtype(dtypes.float32)
    if not chances.ndim:
        raise ValueError(f"random.multinomial needs a vector p, not one number; at {user_line()}")
    sizes = chances.shape if shape is None else as_shape(shape)
    chances = parameter("multinomial", chances, working, sizes)
    left = parameter("multinomial", n, working, sizes[:-1])
    last = len(sizes) - 1
    outcomes = sizes[-1]
    rest = lax.cumsum(chances, last, reverse=True)
    ratios = chances / lax.select(rest == 0.0, lax.full(sizes, 1, working), rest)
    keys = split(typed(key), outcomes)
    ratios = lax.transpose(ratios, (last, *range(last)))

    def step(remaining: Array, this: Any) -> Any:
        ratio, own = this
        drawn = binomial(own, remaining, lax.clamp(0.0, ratio, 1.0), dtype=working)
        return remaining - drawn, drawn

    _, counts = lax.scan(step, left, (ratios, keys))
    return lax.convert_element_type(
        lax.transpose(counts, (*range(1, last + 1), 0)), float_dtype("multinomial", dtype)
    )
