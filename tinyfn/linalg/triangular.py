"""Triangular systems, LU factors, and systems solved by factors, in the last two axes, batched and differentiable."""

from __future__ import annotations

from typing import Any

from ..lax.loops import scan
from ..numpy.common import ArrayLike, at_user, bind, cast, described, inexact, iota
from ..numpy.creation import eye
from ..numpy.floats import conjugate, real
from ..numpy.indexing import take_along_axis
from ..numpy.logic import equal, where
from ..numpy.shapes import expand_dims, matrix_transpose, moveaxis
from ..numpy.triangles import tril, triu
from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace.array import Array
from ..trace.indexing import getitem
from ..trace.prims import lu as lu_primitive
from ..trace.prims import systems
from .decompositions import cholesky, matrices
from .systems import solved

# How a matrix is turned before it is used: SciPy's `trans`.
_TURNS = {0: "N", 1: "T", 2: "C", "N": "N", "T": "T", "C": "C"}


def solve_triangular(
    a: ArrayLike, b: ArrayLike, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False
) -> Array:
    """The x with t x = b, where t is the upper (or lower) triangle of `a`, or its transpose (trans=1), or adjoint (trans=2).

    `a` has shape (..., n, n), b and the result (n,) or (..., n, k). The other triangle is not read, nor is the diagonal with
    `unit_diagonal`, which takes it as ones. NaN where the triangle is singular."""
    if trans not in _TURNS:
        raise ValueError(
            f"solve_triangular: trans must be 0 or 'N', 1 or 'T', 2 or 'C', not {trans!r}{at_user()}"
        )
    turn = _TURNS[trans]
    matrix = conjugate(a) if turn == "C" else a
    params = {"lower": bool(lower), "turned": turn != "N", "unit": bool(unit_diagonal)}
    return solved(matrix, b, "solve_triangular", systems.triangular_solve, params)


def cho_factor(a: ArrayLike, lower: bool = False) -> tuple[Array, bool]:
    """The Cholesky factor of (a + a^H) / 2 for `cho_solve`: upper triangular, or lower, and which it is."""
    return cholesky(a, upper=not lower), lower


def cho_solve(c_and_lower: tuple[ArrayLike, bool], b: ArrayLike) -> Array:
    """The x with a x = b, given what `cho_factor` gave for `a`."""
    factor, lower = c_and_lower
    first, second = (0, 2) if lower else (2, 0)
    return solve_triangular(factor, solve_triangular(factor, b, first, lower), second, lower)


def packed_lu(a: ArrayLike, what: str) -> tuple[Array, Array, Array]:
    """The factors in one array, the exchanges of rows, and the rows' new order."""
    x, dtype = matrices(a, what)
    packed = bind(lu_primitive.lu, (x,), {})
    n = x.shape[-1]
    exchanges, order = (_whole(packed[..., i]) for i in (n, n + 1))
    return o.to_dtype(packed[..., :n], dtype), exchanges[..., : min(x.shape[-2:])], order


def _whole(x: Array) -> Array:
    return cast(real(x), dtypes.int32)


def lu(a: ArrayLike, permute_l: bool = False) -> Any:
    """The matrices (P, L, U) with a = P L U, for matrices of shape (..., m, n): a permutation, unit lower and upper triangular.

    Their shapes are (..., m, m), (..., m, k) and (..., k, n), with k = min(m, n). With `permute_l`: the pair (P L, U)."""
    factors, _, order = packed_lu(a, "lu")
    m, n = factors.shape[-2:]
    k = min(m, n)
    lower = tril(factors, -1)[..., :k] + eye(m, k, dtype=factors.dtype)
    upper = triu(factors)[..., :k, :]
    # Column i has its one in the row that became row i.
    chosen = equal(iota(dtypes.int32, (*order.shape[:-1], m, m), order.ndim - 1), expand_dims(order, -2))
    permutation = cast(chosen, factors.dtype)
    return (o.matmul(permutation, lower), upper) if permute_l else (permutation, lower, upper)


def lu_factor(a: ArrayLike) -> tuple[Array, Array]:
    """The LU factors of `a` in one array of its shape, and the row that each row was exchanged with in turn, for `lu_solve`."""
    factors, exchanges, _ = packed_lu(a, "lu_factor")
    return factors, exchanges


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """The order of rows that exchanging row i with row pivots[..., i] gives, for i = 0, 1, ...: of shape (..., size), int32.

    >>> lax.linalg.lu_pivots_to_permutation(tnp.array([2, 2, 2]), 3)
    Array([2, 0, 1], dtype=int32)
    """
    exchanges = o.operand(pivots)
    shape = (*exchanges.shape[:-1], permutation_size)
    places = iota(dtypes.int32, shape, len(shape) - 1)

    def step(order: Array, given: Any) -> tuple[Array, None]:
        row, other = given
        other = expand_dims(other, -1)
        first = getitem(order, (..., row))
        second = take_along_axis(order, other, -1, mode="clip")
        order = where(equal(places, other), expand_dims(first, -1), order)
        return where(equal(places, row), second, order), None

    rows = iota(dtypes.int32, (exchanges.shape[-1],), 0)
    exchanges = cast(moveaxis(exchanges, -1, 0), dtypes.int32)
    result: Array = scan(step, places, (rows, exchanges))[0]
    return result


def lu_solve(lu_and_piv: tuple[ArrayLike, ArrayLike], b: ArrayLike, trans: int = 0) -> Array:
    """The x with a x = b (trans=1: a^T x = b; 2: a^H x = b), given what `lu_factor` gave for square matrices `a`."""
    factors, pivots = matrices(lu_and_piv[0], "lu_solve", square=True)[0], lu_and_piv[1]
    right = inexact(b, "lu_solve")
    vector = right.ndim == 1
    n = factors.shape[-1]
    if right.shape[-1 if vector else -2] != n:
        raise ValueError(
            f"lu_solve: {described(factors)} and {described(right)} differ in their number of rows{at_user()}"
        )
    if vector:
        right = expand_dims(right, -1)
    order = lu_pivots_to_permutation(pivots, n)
    batch = o.broadcast_shapes(factors.shape[:-2], right.shape[:-2])
    right = o.broadcast_to(right, (*batch, *right.shape[-2:]))
    order = expand_dims(o.broadcast_to(order, (*batch, n)), -1)
    if _TURNS.get(trans) == "N":
        right = take_along_axis(right, order, -2, mode="clip")
        found = solve_triangular(factors, right, 0, lower=True, unit_diagonal=True)
        found = solve_triangular(factors, found)
    else:
        found = solve_triangular(factors, right, trans)
        found = solve_triangular(factors, found, trans, lower=True, unit_diagonal=True)
        # The inverse of the order: row order[i] of the result is row i.
        back = iota(dtypes.int32, (*batch, n, n), len(batch) + 1)
        chosen = cast(equal(expand_dims(order[..., 0], -2), matrix_transpose(back)), found.dtype)
        found = o.matmul(chosen, found)
    return found[..., 0] if vector else found


__all__ = [
    "cho_factor",
    "cho_solve",
    "lu",
    "lu_factor",
    "lu_pivots_to_permutation",
    "lu_solve",
    "solve_triangular",
]
