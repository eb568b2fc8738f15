"""What decompositions share: matrices on UOps, and NumPy's functions with NaN for exceptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..execute import Plan
from ..prim import (
    Primitive,
    full_like,
    instantiate_batch,
    spell,
    zeros_like,
)
from ..uop import UOp, input_node
from .comparison import eq, gt
from .complex_numbers import REAL_TYPE, complex_, conj, real
from .contraction import dot_general
from .movement import broadcast, iota, transpose
from .reduction import reduce_sum
from .selection import where
from .slicing import slice_

_COMPLEX_TYPE = {part: whole for whole, part in REAL_TYPE.items()}
DTYPES = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)

# Matrices on UOps, in the last two axes


def product(x: UOp, y: UOp) -> UOp:
    """The matrix product of two arrays with the same leading axes."""
    lead = tuple(range(x.ndim - 2))
    return dot_general(x, y, contract=((x.ndim - 1,), (y.ndim - 2,)), batch_axes=(lead, lead))


def transposed(x: UOp) -> UOp:
    """The matrices with rows and columns exchanged."""
    n = x.ndim
    return transpose(x, permutation=(*range(n - 2), n - 1, n - 2))


def adjoint(x: UOp) -> UOp:
    """The conjugate transpose."""
    return conj(transposed(x)) if x.dtype in REAL_TYPE else transposed(x)


def _rows(x: UOp, begin: Any, end: Any) -> UOp:
    """Some of the matrices' rows."""
    start, limit = (*(0,) * (x.ndim - 2), begin, 0), (*x.shape[:-2], end, x.shape[-1])
    return slice_(x, start=start, limit=limit, step=(1,) * x.ndim)


def _columns(x: UOp, begin: Any, end: Any) -> UOp:
    return transposed(_rows(transposed(x), begin, end))


def _places(x: UOp) -> tuple[UOp, UOp]:
    """The number of its row and of its column at each element."""
    row, column = (iota.node(dtype=dtypes.int32, shape=x.shape, axis=x.ndim - i) for i in (2, 1))
    return row, column


def _only_diagonal(x: UOp) -> UOp:
    return where(eq(*_places(x)), x, zeros_like(x))


def _below_diagonal(x: UOp) -> UOp:
    return where(gt(*_places(x)), x, zeros_like(x))


def _diagonal(x: UOp) -> UOp:
    return reduce_sum(_only_diagonal(x), axes=(x.ndim - 2,))


def _each_column(v: UOp, like: UOp) -> UOp:
    """A vector's elements as factors of the matrices' columns."""
    return broadcast(v, shape=like.shape, axes=(*range(like.ndim - 2), like.ndim - 1))


def _each_row(v: UOp, like: UOp) -> UOp:
    return broadcast(v, shape=like.shape, axes=tuple(range(like.ndim - 1)))


def _real_part(x: UOp) -> UOp:
    """x without its imaginary part, in x's dtype."""
    if x.dtype not in REAL_TYPE:
        return x
    part = real(x)
    return complex_(part, zeros_like(part))


def _inverse_differences(v: UOp, like: UOp) -> UOp:
    """1 / (v[j] - v[i]) at row i and column j, and 0 on the diagonal."""
    difference = _each_column(v, like) - _each_row(v, like)
    diagonal = eq(*_places(like))
    return where(diagonal, zeros_like(like), 1.0 / where(diagonal, full_like(like, 1), difference))


# NumPy's functions, with NaN in the place of exceptions


def _or_nan(function: Callable[..., np.ndarray], shape: tuple[int, ...], *args: np.ndarray) -> np.ndarray:
    """The function of a batch of matrices; a matrix for which it raises LinAlgError gives NaN."""
    try:
        return function(*args)
    except np.linalg.LinAlgError:
        lead = args[0].shape[:-2]
        result = np.full((*lead, *shape), np.nan, args[0].dtype)
        if lead:
            for index in np.ndindex(*lead):
                result[index] = _or_nan(function, shape, *[a[index] for a in args])
        return result


def _symmetric(a: np.ndarray) -> np.ndarray:
    return (a + np.conj(np.swapaxes(a, -1, -2))) * a.dtype.type(0.5)


class Decomposition(Primitive):
    """A function of matrices in the last two axes.

    It is computed by LAPACK: by the routines that `decomposition` calls, for the matrices' own dtype, or `by_numpy`."""

    family = "linear algebra"
    square = True

    def by_numpy(self, *args: Any, **params: Any) -> Any:
        """The result by a function of NumPy, which works in float64 whatever the dtype: where there are no routines to call."""
        raise NotImplementedError

    def reference(self, *args: Any, **params: Any) -> Any:
        args = tuple(map(np.asarray, args))
        steps = _steps(self, tuple([(a.dtype, a.shape) for a in args]), tuple(params.items()))
        return self.by_numpy(*args, **params) if steps is None else steps(args)[0]

    def matrix(self, a: Any) -> tuple[int, int]:
        """The numbers of rows and columns; raises TypeError or ValueError if it is no matrix that this takes."""
        if a.dtype not in DTYPES:
            raise TypeError(
                f"{self.name} takes {', '.join(d.name for d in DTYPES)} arrays, not {spell([a])}: cast it first"
            )
        if a.ndim < 2 or (self.square and a.shape[-1] != a.shape[-2]):
            kind = "square matrices" if self.square else "matrices"
            raise ValueError(f"{self.name} takes {kind} in the last two axes, not {spell([a])}")
        return a.shape[-2], a.shape[-1]

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any) -> UOp:
        return self.node(*instantiate_batch(size, args, batched), **params)


@lru_cache(maxsize=256)
def _steps(op: Decomposition, types: Any, params: Any) -> Plan | None:
    """What runs the decomposition of an op step by step on arguments of these dtypes and shapes; None if it has none."""
    if op.decomposition is None or any(0 in shape for _, shape in types):
        return None
    inputs = [input_node(dtype, shape) for dtype, shape in types]
    result = op.decomposition(*inputs, **dict(params))
    return None if result is None else Plan(inputs, [result])


def _matrices(shapes: Sequence[tuple[int, ...]], positive: bool = False) -> Iterator[np.ndarray]:
    """Well-conditioned matrices of all dtypes."""
    generator = np.random.default_rng(0)
    for dtype in DTYPES:
        for shape in shapes if dtype is dtypes.float32 else shapes[:2]:
            a = generator.normal(size=shape)
            if dtypes.kind(dtype) == "complex":
                a = a + 1j * generator.normal(size=shape)
            rows, columns = shape[-2:]
            if positive:
                a = a @ np.conj(np.swapaxes(a, -1, -2)) / max(columns, 1)
            # Apart from each other are the eigenvalues and the singular values.
            a = a * 0.3 + np.eye(rows, columns) * np.arange(1.0, columns + 1)
            yield a.astype(dtype)


_SQUARE = ((3, 3), (2, 4, 4), (1, 1), (0, 3, 3), (2, 2))
