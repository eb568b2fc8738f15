"""Gamma, beta and Bessel functions of floats."""

from __future__ import annotations

from ..trace.array import Array
from ..trace.prims import gamma_functions, incomplete
from .arguments import ArrayLike, applied, of_one_dtype, of_one_shape
from .elementwise import _binary, _unary, add, eq, exp, log, mul, neg, rem, select, stop_gradient, sub

lgamma, digamma = _unary(gamma_functions.lgamma), _unary(gamma_functions.digamma)
bessel_i0e, bessel_i1e = _unary(gamma_functions.bessel_i0e), _unary(gamma_functions.bessel_i1e)
igamma, igammac = _binary(incomplete.igamma), _binary(incomplete.igammac)
igamma_grad_a, zeta = _binary(incomplete.igamma_grad_a), _binary(incomplete.zeta)


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
    """The derivative with respect to a of a sample of the gamma distribution with shape a, at a fixed quantile.

    That is -(dP/da) / (dP/dx) of igamma P(a, x) (M. Figurnov et al., "Implicit reparameterization gradients", 2018).

    >>> lax.random_gamma_grad(1.0, tnp.array([0.5, 1.0])).round(3)
    Array([0.807, 1.174], dtype=float32)
    """
    shape, x = of_one_shape("random_gamma_grad", of_one_dtype("random_gamma_grad", a, sample))
    log_density = sub(sub(mul(sub(shape, 1), log(x)), x), lgamma(shape))
    return neg(mul(igamma_grad_a(shape, x), exp(neg(log_density))))
