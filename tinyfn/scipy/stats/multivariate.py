"""Distributions of vectors."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as tnp
from ...numpy.common import floats
from ...trace import operators
from ...trace.array import Array
from ...trace.errors import entry_methods, user_line
from .continuous import norm


class MultivariateNormal:
    """Normal distributions of vectors: the methods take (x, mean, cov), of the shapes [..., n], [..., n] and [..., n, n].

    >>> from tinyfn.scipy import stats
    >>> mean, cov = tnp.zeros(2), tnp.eye(2)
    >>> stats.multivariate_normal.pdf(tnp.zeros((5, 2)), mean, cov).shape
    (5,)
    >>> (stats.multivariate_normal.logpdf(tnp.zeros(2), mean, cov) / tnp.log(2 * np.pi)).round(4)
    Array(-1., dtype=float32)
    """

    def logpdf(self, x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Array:
        """The logarithm of the density of vectors [..., n] with a mean [..., n] and a covariance [..., n, n], or a scalar one.

        The covariance must be positive definite."""
        from ... import linalg
        from ..linalg import solve_triangular

        if allow_singular is not None:
            raise NotImplementedError(
                f"stats.multivariate_normal of singular covariances is not implemented; at {user_line()}"
            )
        point, centre, spread = floats("stats.multivariate_normal.logpdf", x, mean, cov)
        if not spread.ndim:
            return (
                tnp.sum(norm.logpdf(point, centre, tnp.sqrt(spread)), -1)
                if point.ndim
                else norm.logpdf(point, centre, tnp.sqrt(spread))
            )
        n = spread.shape[-1]
        difference: Any = tnp.asarray(point) - centre
        if spread.ndim < 2 or difference.ndim < 1 or difference.shape[-1] != n or spread.shape[-2] != n:
            raise ValueError(
                f"stats.multivariate_normal needs vectors [..., n] and a covariance [..., n, n], not "
                f"{operators.described(point, centre, spread)}; at {user_line()}"
            )
        factor = linalg.cholesky(spread)
        batch = operators.broadcast_shapes(difference.shape[:-1], factor.shape[:-2])
        columns = operators.broadcast_to(difference, (*batch, n))[..., None]
        factor = operators.broadcast_to(factor, (*batch, n, n))
        scaled = solve_triangular(factor, columns, lower=True)[..., 0]
        diagonal = tnp.diagonal(factor, axis1=-2, axis2=-1)
        total: Any = -0.5 * tnp.sum(scaled * scaled, -1) - tnp.sum(tnp.log(diagonal), -1)
        result: Array = total - 0.5 * n * math.log(2 * math.pi)
        return result

    def pdf(self, x: Any, mean: Any, cov: Any) -> Array:
        """The density; see `logpdf`."""
        return tnp.exp(self.logpdf(x, mean, cov))


entry_methods(MultivariateNormal)
multivariate_normal = MultivariateNormal()
