"""Systems of linear equations, inverses and determinants of matrices in the last two axes, batched and differentiable."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from ..numpy.arithmetic import absolute
from ..numpy.common import ArrayLike, at_user, axes_of, bind, described, inexact, permute, promoted
from ..numpy.creation import eye
from ..numpy.dtype_queries import finfo
from ..numpy.logic import where
from ..numpy.reductions import max as max_
from ..numpy.reductions import sum as sum_
from ..numpy.shapes import expand_dims
from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from ..trace.index import reshape
from ..trace.prims import systems
from .decompositions import matrices, svd


class SlogdetResult(NamedTuple):
    """The results of `slogdet`: `sign` and `logabsdet`.

    >>> linalg.slogdet(-tnp.eye(3)).sign
    Array(-1., dtype=float32)
    """

    sign: Array
    logabsdet: Array


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The x with a x = b: for `a` of shape (..., n, n) and b a vector (n,) or matrices (..., n, k), of b's shape, broadcast.

    NaN where a matrix is singular; raises ValueError where b has another number of rows.

    >>> linalg.solve(tnp.array([[2.0, 0.0], [1.0, 4.0]]), tnp.array([2.0, 9.0]))
    Array([1., 2.], dtype=float32)
    >>> linalg.solve(tnp.broadcast_to(tnp.eye(3), (7, 3, 3)), tnp.ones((3, 2))).shape
    (7, 3, 2)
    """
    return solved(a, b, "solve", systems.solve, {})


def solved(a: ArrayLike, b: ArrayLike, what: str, primitive: Any, params: dict[str, Any]) -> Array:
    """What a primitive that solves systems gives for matrices `a` and vectors or matrices b, in the dtype both promote to."""
    x, y = promoted(inexact(a, what), inexact(b, what))
    x, dtype = matrices(x, what, square=True)
    y = o.to_dtype(y, x.dtype)
    vector = y.ndim == 1
    if vector:
        y = expand_dims(y, -1)
    if y.ndim < 2 or y.shape[-2] != x.shape[-1]:
        raise ValueError(
            f"{what}: {described(x)} and {described(y)} don't have the same number of rows{at_user()}"
        )
    batch = o.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x = o.broadcast_to(x, (*batch, *x.shape[-2:]))
    y = o.broadcast_to(y, (*batch, *y.shape[-2:]))
    found = o.to_dtype(bind(primitive, (x, y), params), dtype)
    return reshape(found, found.shape[:-1]) if vector else found


def inv(a: ArrayLike) -> Array:
    """The inverse of square matrices, of a's shape; NaN where one is singular.

    >>> linalg.inv(tnp.array([[1.0, 2.0], [0.0, 4.0]]))
    Array([[ 1.  , -0.5 ],
           [ 0.  ,  0.25]], dtype=float32)
    """
    x, _ = matrices(a, "inv", square=True)
    unit = o.broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape)
    return o.to_dtype(bind(systems.solve, (x, unit), {}), inexact(a, "inv").dtype)


def det(a: ArrayLike) -> Array:
    """The determinant of matrices of shape (..., n, n), of shape (...). Its derivatives need matrices that are not singular.

    >>> linalg.det(tnp.array([[1.0, 2.0], [0.0, 4.0]]))
    Array(4., dtype=float32)
    """
    x, dtype = matrices(a, "det", square=True)
    return o.to_dtype(bind(systems.det, (x,), {}), dtype)


def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """The determinant's sign (of modulus 1, for complex matrices) and the logarithm of its modulus, each of shape (...).

    >>> linalg.slogdet(tnp.array([[0.0, 1.0], [1.0, 0.0]]))
    SlogdetResult(sign=Array(-1., dtype=float32), logabsdet=Array(0., dtype=float32))
    >>> linalg.slogdet(tnp.zeros((2, 2)))
    SlogdetResult(sign=Array(0., dtype=float32), logabsdet=Array(-inf, dtype=float32))
    """
    x, dtype = matrices(a, "slogdet", square=True)
    pair = bind(systems.slogdet, (x,), {})
    logarithm = pair[..., 1]
    if dtypes.kind(x.dtype) == "complex":
        return SlogdetResult(pair[..., 0], bind(prims.real, (logarithm,), {}))
    return SlogdetResult(o.to_dtype(pair[..., 0], dtype), o.to_dtype(logarithm, dtype))


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """The x, of least norm, for which |a x - b| is least; the squares of that distance; a's rank; its singular values.

    `a` is a matrix (m, n), b a vector (m,) or a matrix (m, k). Singular values that are not above rcond (max(m, n) times eps)
    times the greatest count as 0. The distances are empty if a's rank is less than n or m is not above n; where the rank is not
    known, as under jit, they are left out by m and n alone (`numpy_resid` asks for the rank, and raises).

    >>> a = tnp.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    >>> x, distances, rank, singular = linalg.lstsq(a, tnp.array([3.0, 4.0, 5.0]))
    >>> x.round(3), distances.round(3)
    (Array([3., 2.], dtype=float32), Array([25.], dtype=float32))
    >>> rank, singular.round(3)
    (Array(2, dtype=int32), Array([2., 1.], dtype=float32))
    """
    x, y = promoted(inexact(a, "lstsq"), inexact(b, "lstsq"))
    if x.ndim != 2 or y.ndim not in (1, 2) or x.shape[0] != y.shape[0]:
        raise ValueError(
            f"lstsq takes a matrix, and a vector or matrix with as many rows, not {described(x, y)}{at_user()}"
        )
    right = expand_dims(y, -1) if y.ndim == 1 else y
    m, n = x.shape
    share = float(finfo(x.dtype).eps) * max(m, n) if rcond is None else rcond
    u, s, vh = svd(x, full_matrices=False)
    counts = s > max_(s, initial=0) * share
    inverse = o.to_dtype(where(counts, 1 / where(counts, s, 1), 0), x.dtype)
    coordinates = o.matmul(u.T.conj(), right) * expand_dims(inverse, -1)
    found = o.matmul(vh.T.conj(), coordinates)
    rank = sum_(counts, dtype=dtypes.int32)
    distances = sum_(absolute(o.matmul(x, found) - right) ** 2, 0)
    # NumPy leaves them out; under jit the shape can't depend on the rank.
    if m <= n or ((numpy_resid or _is_known(rank)) and int(rank) < n):
        distances = distances[:0]
    return (found[:, 0] if y.ndim == 1 else found), distances, rank, s


def _is_known(x: Array) -> bool:
    return type(x) is Array


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse for `tensordot` over `ind` axes: a's first `ind` axes have as many elements as the others.

    >>> a = tnp.eye(6).reshape(2, 3, 6)
    >>> linalg.tensorinv(a).shape
    (6, 2, 3)
    >>> tnp.tensordot(linalg.tensorinv(a), tnp.ones((2, 3)), 2)
    Array([1., 1., 1., 1., 1., 1.], dtype=float32)
    """
    x = inexact(a, "tensorinv")
    if ind <= 0:
        raise ValueError(f"tensorinv: ind={ind} must be 1 or more{at_user()}")
    first, rest = x.shape[:ind], x.shape[ind:]
    if prod(first) != prod(rest):
        raise ValueError(
            f"tensorinv of {described(x)} with ind={ind}: {first} and {rest} differ in size{at_user()}"
        )
    return reshape(inv(reshape(x, (prod(first), prod(rest)))), (*rest, *first))


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Any = None) -> Array:
    """The x with tensordot(a, x, x.ndim) = b; `axes` of `a` are moved to the end first.

    >>> linalg.tensorsolve(tnp.eye(6).reshape(2, 3, 6), tnp.arange(6.0).reshape(2, 3))
    Array([0., 1., 2., 3., 4., 5.], dtype=float32)
    """
    x, y = inexact(a, "tensorsolve"), inexact(b, "tensorsolve")
    if axes is not None:
        moved = axes_of(tuple(axes), x.ndim, "tensorsolve")
        x = permute(x, [*[i for i in range(x.ndim) if i not in moved], *moved])
    shape = x.shape[y.ndim :]
    if prod(x.shape[: y.ndim]) != y.size or prod(shape) != y.size:
        raise ValueError(f"tensorsolve of {described(x, y)}: the sizes do not fit{at_user()}")
    return reshape(solve(reshape(x, (y.size, y.size)), reshape(y, (y.size,))), shape)


__all__ = ["SlogdetResult", "det", "inv", "lstsq", "slogdet", "solve", "tensorinv", "tensorsolve"]
