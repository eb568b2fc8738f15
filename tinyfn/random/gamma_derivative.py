"""The derivative of a gamma distributed number in the distribution's shape parameter.

A sample z = F⁻¹(u; a) has the implicit derivative dz/da = -(∂F/∂a) / (∂F/∂z): Figurnov, Mohamed and Mnih, "Implicit
reparameterization gradients" (NeurIPS 2018). With the density p(t) = t^(a-1) exp(-t) / Γ(a) that is

    d log z / da = -∫ p(t) (log t - ψ(a)) dt / (z p(z))   over [0, z], or the same integral over [z, inf) with the sign +,

since the integral over everything is 0. With t = z exp(∓v) the weight p(t) t / (z p(z)) is exp(h(v)), and h is 0 at 0,
concave and falling if the side is chosen that does not contain the peak. Gauss's rule is used up to where h is -40."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import lax
from ..trace import dtype as dtypes
from ..trace import operators
from ..trace.array import Array
from ..transforms import custom_jvp

NODES = 32
NEWTON_STEPS = 6
DEPTH = (
    -40.0
)  # exp of it is far below the accuracy of float32, and below float64's for all practical purposes


def _log_minus_digamma(a: Array) -> Array:
    """log(a) - ψ(a + 1), by ψ(a + 1) = ψ(a + 8) - Σ 1/(a + i), and the asymptotic series there (Abramowitz, Stegun 6.3.18)."""
    total = lax.full(a.shape, 0, a.dtype)
    for i in range(1, 8):
        total = total + 1.0 / (a + float(i))
    large = a + 8.0
    s = 1.0 / (large * large)
    series = 0.5 / large + s * (
        1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132 - s * (691 / 32760)))))
    )
    far = (1 / 12) / (a * a) - 0.5 / a
    return lax.select(a > 1e4, far, total + series - lax.log1p(8.0 / a))


def log_derivative(a: Array, log_z: Array) -> Array:
    """d log(z) / da of a gamma distributed z; elementwise, of the dtype of the arguments (float32 or float64)."""
    z = lax.exp(log_z)
    below = z <= a
    side = lax.select(below, lax.full(a.shape, -1, a.dtype), lax.full(a.shape, 1, a.dtype))

    def exponent(v: Array, side: Array, a: Array, z: Array) -> Array:
        return side * (a * v) - z * lax.expm1(side * v)

    # Newton's method, from bounds on the right (of v - 1 + exp(-v) = q and exp(v) - 1 - v = q): it comes closer from there.
    q = -DEPTH / lax.select(below, a, z)
    left = lax.select(3.0 * q < 1.0, lax.sqrt(3.0 * q), q + 1.0)
    v = lax.select(below, left, lax.log1p(q + lax.sqrt(2.0 * q)))
    for _ in range(NEWTON_STEPS):
        slope = side * (a - z * lax.exp(side * v))
        v = v - (exponent(v, side, a, z) - DEPTH) / slope
    split = below & (a < 1.0)
    v = lax.select(split, lax.full(a.shape, -DEPTH, a.dtype), v)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    last = (a.ndim,)

    def spread(x: Array) -> Array:
        return operators.broadcast_to(lax.expand_dims(x, last), (*a.shape, NODES))

    half = operators.broadcast_to(lax.convert_element_type((nodes + 1) / 2, a.dtype), (*a.shape, NODES))
    weight = operators.broadcast_to(lax.convert_element_type(weights / 2, a.dtype), (*a.shape, NODES))
    at = spread(v) * half
    sides = spread(side)
    near = lax.log1p((z - a) / a)
    ratio = lax.select(lax.abs(z - a) < 0.5 * a, near, log_z - lax.log(a))
    rest = ratio + _log_minus_digamma(a)
    kernel = lax.exp(exponent(at, sides, spread(a), spread(z)))
    # For a small a the tail exp(z - a v) is long, and integrated exactly; what differs from it ends at v = 40.
    kernel = lax.select(
        spread(split), lax.exp(spread(z) - spread(a) * at) * lax.expm1(-spread(z) * lax.exp(-at)), kernel
    )
    tail = lax.select(split, lax.exp(z) * rest / a, lax.full(a.shape, 0, a.dtype))
    terms = weight * kernel * (spread(rest + 1.0 / a) + sides * at)
    return side * (v * lax.reduce_sum(terms, last) + tail)


def _attached(a: Array, drawn: Array) -> Array:
    return drawn


def _wide(x: Array) -> Array:
    return x if x.dtype is dtypes.float64 else lax.convert_element_type(x, dtypes.float32)


def _log_rule(primals: Any, tangents: Any) -> Any:
    a, drawn = primals
    slope = lax.convert_element_type(log_derivative(_wide(a), _wide(drawn)), drawn.dtype)
    return drawn, tangents[0] * slope + tangents[1]


def _rule(primals: Any, tangents: Any) -> Any:
    a, drawn = primals
    some = drawn > 0.0  # z is 0 where it is too small for the dtype, and so is its derivative
    safe = _wide(lax.select(some, drawn, lax.full(drawn.shape, 1, drawn.dtype)))
    slope = lax.convert_element_type(safe * log_derivative(_wide(a), lax.log(safe)), drawn.dtype)
    return drawn, tangents[0] * lax.select(some, slope, drawn) + tangents[1]


_of_number, _of_logarithm = custom_jvp(_attached), custom_jvp(_attached)
_of_number.defjvp(_rule)
_of_logarithm.defjvp(_log_rule)


def with_derivative(a: Array, drawn: Array, logarithm: bool) -> Array:
    """The drawn numbers (or their logarithms), with their derivative in a, which they are drawn for."""
    result: Array = (_of_logarithm if logarithm else _of_number)(a, drawn)
    return result
