"""Gamma, beta and Bessel functions of floats."""

from __future__ import annotations

from ..trace.array import Array
from ..trace.prim import Primitive
from ..trace.prims import gamma_functions, incomplete
from .arguments import ArrayLike, applied, of_one_dtype, of_one_shape
from .elementwise import _unary, add, eq, exp, log, mul, neg, rem, select, stop_gradient, sub

lgamma, digamma = _unary(gamma_functions.lgamma), _unary(gamma_functions.digamma)
bessel_i0e, bessel_i1e = _unary(gamma_functions.bessel_i0e), _unary(gamma_functions.bessel_i1e)


def _two(primitive: Primitive, x: ArrayLike, y: ArrayLike) -> Array:
    return applied(primitive, *of_one_shape(primitive.name, of_one_dtype(primitive.name, x, y)))


def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """The lower incomplete gamma function P(a, x), regularized: from 0 at x = 0 to 1; NaN for negative a or x.

    >>> lax.igamma(1.0, tnp.array([0.0, 1.0, np.inf])).round(3)
    Array([0.   , 0.632, 1.   ], dtype=float32)
    """
    return _two(incomplete.igamma, a, x)


def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """The upper incomplete gamma function Q(a, x) = 1 - P(a, x), regularized.

    >>> lax.igammac(1.0, tnp.array([0.0, 1.0, np.inf])).round(3)
    Array([1.   , 0.368, 0.   ], dtype=float32)
    """
    return _two(incomplete.igammac, a, x)


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """The derivative of igamma with respect to a, to an absolute error of a few 1e-15; NaN for a above 200,000.

    >>> lax.igamma_grad_a(1.0, tnp.array([0.0, 1.0])).round(3)
    Array([ 0.   , -0.432], dtype=float32)
    """
    return _two(incomplete.igamma_grad_a, a, x)


def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """Hurwitz's zeta function, the sum of (q + k) to the power -x over k = 0, 1, ...; NaN for x < 1, infinite for x = 1, and for
    q = 0, -1, ..., NaN for other q < 0.

    >>> lax.zeta(tnp.array([2.0, 1.0]), 1.0).round(3)
    Array([1.645,   inf], dtype=float32)
    """
    return _two(incomplete.zeta, x, q)


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """The m-th derivative of digamma at x > 0, for floats m that are whole and not negative (M. Abramowitz and I. A. Stegun,
    Handbook, 6.4.10); with respect to m it is constant.

    >>> lax.polygamma(0.0, 1.0).round(3), lax.polygamma(1.0, 1.0).round(3)
    (Array(-0.577, dtype=float32), Array(1.645, dtype=float32))
    """
    order, at = of_one_shape("polygamma", of_one_dtype("polygamma", m, x))
    order = stop_gradient(order)
    none = eq(order, 0)
    following = add(select(none, 1.0, order), 1)
    size = mul(exp(lgamma(following)), zeta(following, at))
    value = select(eq(rem(order, 2), 1), size, neg(size))
    return select(none, digamma(at), value)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularized incomplete beta function I(a, b, x), from 0 at x = 0 to 1 at x = 1, for positive a and b.

    Derivatives with respect to a and b are not implemented.

    >>> lax.betainc(1.0, 1.0, tnp.array([0.0, 0.25, 1.0]))
    Array([0.  , 0.25, 1.  ], dtype=float32)
    """
    arrays = of_one_shape("betainc", of_one_dtype("betainc", a, b, x))
    return applied(incomplete.regularized_incomplete_beta, *arrays)


def random_gamma_grad(a: ArrayLike, sample: ArrayLike) -> Array:
    """The derivative with respect to a of a sample of the gamma distribution with shape a, at a fixed quantile; 0 for 0.

    That is -(dP/da) / (dP/dx) of igamma P(a, x) (M. Figurnov et al., "Implicit reparameterization gradients", 2018).

    >>> lax.random_gamma_grad(1.0, tnp.array([0.5, 1.0])).round(3)
    Array([0.807, 1.174], dtype=float32)
    """
    shape, x = of_one_shape("random_gamma_grad", of_one_dtype("random_gamma_grad", a, sample))
    nothing = eq(x, 0)
    x = select(nothing, 1.0, x)
    log_density = sub(sub(mul(sub(shape, 1), log(x)), x), lgamma(shape))
    return select(nothing, 0.0, neg(mul(igamma_grad_a(shape, x), exp(neg(log_density)))))
