"""Random vectors and matrices: correlated normal vectors, orthogonal matrices."""

from __future__ import annotations

import operator
from typing import Any

from .. import lax, linalg
from ..lax.arguments import ArrayLike, as_shape
from ..trace import dtype as dtypes
from ..trace import operators
from ..trace.array import Array
from ..trace.errors import user_line
from .distributions import fits, float_dtype, normal
from .keys import Shape
from .reuse import uses_key


@uses_key
def multivariate_normal(
    key: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: Shape | None = None,
    dtype: Any = None,
    method: str = "cholesky",
) -> Array:
    """Normal vectors [*shape, n] with means [..., n] and covariances [..., n, n], of the dtype of the means by default.

    mean + A z of a standard normal z, where A Aᵀ is the covariance: by Cholesky, or by "eigh" or "svd", which also take
    singular covariances. `shape` is that of the parameters' leading axes if it is None; raises ValueError where these do not
    broadcast to it.

    >>> mean, cov = tnp.array([1.0, -1.0]), tnp.array([[1.0, 0.5], [0.5, 2.0]])
    >>> drawn = random.multivariate_normal(random.key(0), mean, cov, (10000,))
    >>> drawn.shape, drawn.mean(0).round(1)
    ((10000, 2), Array([ 1., -1.], dtype=float32))
    >>> tnp.cov(drawn.T).round(1)
    Array([[1. , 0.5],
           [0.5, 2. ]], dtype=float32)
    """
    center, spread = operators.operand(mean), operators.operand(cov)
    working = next((a.dtype for a in (center, spread) if dtypes.is_float(a.dtype)), dtypes.float32)
    dtype = float_dtype("multivariate_normal", working if dtype is None else dtype)
    center, spread = (lax.convert_element_type(a, dtype) for a in (center, spread))
    n = center.shape[-1] if center.ndim else 0
    if not center.ndim or spread.shape[-2:] != (n, n):
        found = f"{dtypes.describe(dtype, center.shape)} and {dtypes.describe(dtype, spread.shape)}"
        raise ValueError(
            f"random.multivariate_normal needs means [..., n] and covariances [..., n, n], not {found}; at {user_line()}"
        )
    own = operators.broadcast_shapes(center.shape[:-1], spread.shape[:-2])
    shape = own if shape is None else as_shape(shape)
    if not fits(own, shape):
        raise ValueError(
            f"random.multivariate_normal: the parameters' axes {own} don't broadcast to the shape {shape}; at {user_line()}"
        )
    if method == "cholesky":
        factor = linalg.cholesky(spread)
    elif method == "eigh":
        values, vectors = linalg.eigh(spread)
        factor = vectors * lax.expand_dims(lax.sqrt(values), (values.ndim - 1,))
    elif method == "svd":
        vectors, values, _ = linalg.svd(spread)
        factor = vectors * lax.expand_dims(lax.sqrt(values), (values.ndim - 1,))
    else:
        raise ValueError(
            f'random.multivariate_normal has the methods "cholesky", "eigh" and "svd", not {method!r}; at {user_line()}'
        )
    drawn = normal(key, (*shape, n), dtype)
    return center + (factor @ lax.expand_dims(drawn, (drawn.ndim,)))[..., 0]


@uses_key
def orthogonal(
    key: ArrayLike, n: int, shape: Shape = (), dtype: Any = dtypes.float32, m: int | None = None
) -> Array:
    """Matrices [*shape, n, m] (m = n by default) with orthonormal columns or rows, uniform by Haar's measure.

    The Q of a normal matrix's QR decomposition, with R's diagonal made positive: Mezzadri, "How to generate random matrices
    from the classical compact groups", Notices of the AMS 54 (2007).

    >>> q = random.orthogonal(random.key(0), 3, (5,))
    >>> q.shape, bool(tnp.allclose(q @ q.mT, tnp.eye(3), atol=1e-5))
    ((5, 3, 3), True)
    >>> random.orthogonal(random.key(0), 4, m=2).shape
    (4, 2)
    """
    n, m = operator.index(n), operator.index(n if m is None else m)
    dtype, shape = float_dtype("orthogonal", dtype), as_shape(shape)
    q, r = linalg.qr(normal(key, (*shape, max(n, m), min(n, m)), dtype))
    signs = lax.sign(linalg.diagonal(r))
    q = q * lax.expand_dims(signs, (signs.ndim - 1,))
    return lax.transpose(q, (*range(q.ndim - 2), q.ndim - 1, q.ndim - 2)) if n < m else q
