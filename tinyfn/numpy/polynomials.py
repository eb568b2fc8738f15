"""Polynomials given by their coefficients, the highest power first, as in NumPy. Imported when one of them is first used."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace.array import Array
from ..trace.errors import ConcretizationError
from .arithmetic import add, divide, multiply, negative, square, subtract
from .common import (
    ArrayLike,
    at_user,
    concatenate_arrays,
    described,
    full_of,
    inexact,
    integer,
    iota,
    operand,
    promoted,
)
from .contraction import convolve, matmul, vander
from .creation import eye
from .dtype_queries import finfo
from .elementary import sqrt
from .joining import concatenate
from .rearranging import trim_zeros
from .reductions import sum as sum_
from .shapes import matrix_transpose


def _vector(p: ArrayLike, what: str) -> Array:
    x = operand(p, what)
    if x.ndim > 1:
        raise ValueError(f"{what} takes 1-d coefficients, not {described(x)}{at_user()}")
    return x if x.ndim else x[None]


def _aligned(a1: ArrayLike, a2: ArrayLike, what: str) -> list[Array]:
    """Both with as many coefficients, zeros in front."""
    xs = promoted(_vector(a1, what), _vector(a2, what))
    n = max(x.shape[0] for x in xs)
    return [
        concatenate_arrays([full_of(0, x.dtype, (n - x.shape[0],)), x], 0) if x.shape[0] < n else x
        for x in xs
    ]


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum of two polynomials, with as many coefficients as the longer one.

    >>> tnp.polyadd(tnp.array([1, 2, 3]), tnp.array([10, 20]))
    Array([ 1, 12, 23], dtype=int32)
    """
    return add(*_aligned(a1, a2, "polyadd"))


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference of two polynomials, with as many coefficients as the longer one.

    >>> tnp.polysub(tnp.array([1, 2, 3]), tnp.array([10, 20]))
    Array([  1,  -8, -17], dtype=int32)
    """
    return subtract(*_aligned(a1, a2, "polysub"))


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials, with m + n - 1 coefficients.

    Leading zeros are kept, unless the factors' are to be trimmed, which must be known then.

    >>> tnp.polymul(tnp.array([1, 2]), tnp.array([1, -2]))
    Array([ 1,  0, -4], dtype=int32)
    """
    x, y = promoted(_vector(a1, "polymul"), _vector(a2, "polymul"))
    return convolve(_trimmed(x), _trimmed(y)) if trim_leading_zeros else convolve(x, y)


def _trimmed(x: Array) -> Array:
    """The known coefficients without leading zeros, but for the last one."""
    found = trim_zeros(x, "f")
    return found if found.shape[0] else x[-1:]


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """The quotient and the rest of u / v, whose first coefficient must not be 0.

    The rest has as many coefficients as u, or, with `trim_leading_zeros` and known values, no leading zeros.

    >>> quotient, rest = tnp.polydiv(tnp.array([1.0, 0.0, -3.0]), tnp.array([1.0, -1.0]))
    >>> quotient, rest
    (Array([1., 1.], dtype=float32), Array([ 0.,  0., -2.], dtype=float32))
    """
    rest, divisor = promoted(
        inexact(_vector(u, "polydiv"), "polydiv"), inexact(_vector(v, "polydiv"), "polydiv")
    )
    m, n = rest.shape[0], divisor.shape[0]
    if m < n:
        return full_of(0, rest.dtype, (1,)), _trimmed(rest) if trim_leading_zeros else rest
    quotient = []
    for k in range(m - n + 1):
        factor = divide(rest[k], divisor[0])
        quotient.append(factor[None])
        rest = rest.at[k : k + n].add(negative(multiply(factor, divisor)))
    return concatenate_arrays(quotient, 0), _trimmed(rest) if trim_leading_zeros else rest


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The m-th derivative of a polynomial, with m coefficients less.

    >>> tnp.polyder(tnp.array([1, 2, 3]))
    Array([2, 2], dtype=int32)
    >>> tnp.polyder(tnp.array([1, 2, 3]), 2)
    Array([2], dtype=int32)
    """
    x = _vector(p, "polyder")
    if m < 0:
        raise ValueError(f"polyder: m={m} must be 0 or more{at_user()}")
    for _ in range(m):
        n = x.shape[0]
        powers = n - 1 - iota(dtypes.DEFAULT_INT, (n,), 0)
        x = multiply(x, powers)[: n - 1]
    return x


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """The m-th integral of a polynomial with the constants k (0), the first being that of the first integration.

    It has m coefficients more. Integers become float32.

    >>> tnp.polyint(tnp.array([3, 2, 1]), k=7)
    Array([1., 1., 1., 7.], dtype=float32)
    """
    x = inexact(_vector(p, "polyint"), "polyint")
    if m < 0:
        raise ValueError(f"polyint: m={m} must be 0 or more{at_user()}")
    constants = full_of(0, x.dtype, (m,)) if k is None else o.broadcast_to(_vector(k, "polyint"), (m,))
    for i in range(m):
        n = x.shape[0]
        powers = n - iota(dtypes.DEFAULT_INT, (n,), 0)
        x = concatenate([divide(x, powers), constants[i][None]])
    return x


def poly(seq_of_zeros: ArrayLike) -> Array:
    """The polynomial with the first coefficient 1 that has these zeros, or the eigenvalues of a square matrix as zeros.

    >>> tnp.poly(tnp.array([1.0, -2.0]))
    Array([ 1.,  1., -2.], dtype=float32)
    """
    zeros = inexact(seq_of_zeros, "poly")
    zeros = zeros if zeros.ndim else zeros[None]
    if zeros.ndim == 2:
        from ..linalg import eigvals

        zeros = eigvals(zeros)
    result = full_of(1, zeros.dtype, (1,))
    for i in range(zeros.shape[0]):
        result = convolve(result, concatenate([full_of(1, zeros.dtype, (1,)), negative(zeros[i])[None]]))
    return result


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """The complex zeros of a polynomial: the eigenvalues of its companion matrix.

    Zeros in front and at the end are taken off first, so p must be known; without `strip_zeros` its first coefficient must
    not be 0, and p may be traced.

    >>> tnp.roots(tnp.array([1.0, -3.0, 2.0])).real.sort().round(3)
    Array([1., 2.], dtype=float32)
    """
    from ..linalg import eigvals

    x = inexact(_vector(p, "roots"), "roots")
    trailing = 0
    if strip_zeros:
        known = x._concrete("take off its leading zeros (or give strip_zeros=False)", ConcretizationError)
        nonzero = np.flatnonzero(known)
        if nonzero.size == 0:
            return full_of(0, dtypes.complex64, (0,))
        trailing = known.size - 1 - int(nonzero[-1])
        x = x[int(nonzero[0]) : int(nonzero[-1]) + 1]
    n = x.shape[0] - 1
    if n < 1:
        found = full_of(0, eigvals(eye(1, dtype=x.dtype)).dtype, (0,))
    else:
        companion = eye(n, k=-1, dtype=x.dtype).at[0].set(negative(divide(x[1:], x[0])))
        found = eigvals(companion)
    return concatenate([found, full_of(0, found.dtype, (trailing,))]) if trailing else found


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Any:
    """The coefficients of the polynomial of degree `deg` that fits the points (x, y) best in least squares, weighted by w.

    x has shape (n,), y (n,) or (n, k); the result (deg + 1,) or (deg + 1, k). Half precision is fitted in float32. With `full`
    also what `lstsq` says of the scaled system, and rcond; with `cov` also the coefficients' covariance, scaled by
    chi2 / (n - deg - 1), or ("unscaled") as it is for weights of 1 / sigma.

    >>> x = tnp.array([0.0, 1.0, 2.0, 3.0])
    >>> tnp.polyfit(x, 2.0 * x + 1.0, 1).round(3)
    Array([2., 1.], dtype=float32)
    >>> coefficients, covariance = tnp.polyfit(x, tnp.array([1.0, 3.0, 4.0, 8.0]), 1, cov=True)
    >>> covariance.shape
    (2, 2)
    """
    from ..linalg import inv, lstsq

    deg = integer(deg, "polyfit", "deg")
    at, values = promoted(inexact(x, "polyfit"), inexact(y, "polyfit"))
    if at.ndim != 1 or values.ndim not in (1, 2) or values.shape[0] != at.shape[0]:
        raise ValueError(
            f"polyfit takes points x (n,) and y (n,) or (n, k), not {described(at, values)}{at_user()}"
        )
    dtype = at.dtype
    if dtype.itemsize == 2:
        at, values = o.to_dtype(at, dtypes.float32), o.to_dtype(values, dtypes.float32)
    powers = vander(at, deg + 1)
    if w is not None:
        weights: Any = inexact(w, "polyfit")[:, None]
        powers = multiply(powers, weights)
        values = multiply(values, weights if values.ndim == 2 else weights[:, 0])
    scale = sqrt(sum_(square(powers), 0))
    share = float(finfo(at.dtype).eps) * at.shape[0] if rcond is None else rcond
    found, distances, rank, singular = lstsq(divide(powers, scale), values, share)
    found = divide(found, scale if values.ndim == 1 else scale[:, None])
    result = o.to_dtype(found, dtype)
    if full:
        return result, distances, rank, singular, share
    if not cov:
        return result
    scaled = divide(powers, scale)
    base = divide(inv(matmul(matrix_transpose(scaled), scaled)), multiply(scale[:, None], scale))
    if cov == "unscaled":
        factor: Any = 1
    else:
        free = at.shape[0] - deg - 1
        if free <= 0:
            raise ValueError(
                f"polyfit: {at.shape[0]} points leave nothing to scale the covariance by{at_user()}"
            )
        factor = divide(sum_(square(subtract(matmul(powers, found), values)), 0), free)
    return result, o.to_dtype(multiply(base if values.ndim == 1 else base[:, :, None], factor), dtype)


__all__ = ["poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "roots"]
