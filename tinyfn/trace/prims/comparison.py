"""Comparisons: booleans of two arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import dtype as dtypes
from .. import formulas as f
from ..prim import (
    _ANY_OR_COMPLEX,
    Comparison,
    Sample,
)
from ..uop import UOp

# Comparisons


def _comparable(*xs: Any) -> Sequence[Any]:
    """The arrays; of keys, which NumPy's ufuncs don't take, their bits."""
    if np.asarray(xs[0]).dtype != dtypes.key:
        return xs
    return [np.ascontiguousarray(x).view(np.uint64).reshape(np.shape(x)) for x in xs]


class _OfKeysToo(Comparison):
    kinds = (*_ANY_OR_COMPLEX, "key")

    def samples(self) -> Iterator[Sample]:
        yield from super().samples()
        keys = np.array([[3, 1, 4], [1, 5, 9]]).astype(dtypes.key)
        yield Sample((keys, np.roll(keys, 2)))


class Eq(_OfKeysToo):
    """x == y

    >>> lax.eq(tnp.array([1.0, np.nan]), tnp.array([1.0, np.nan]))
    Array([ True, False], dtype=bool)
    """

    def reference(self, x: Any, y: Any) -> Any:
        return np.equal(*_comparable(x, y))

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.equal(x, y)


class Ne(_OfKeysToo):
    """x != y

    >>> lax.ne(tnp.array([1.0, np.nan]), tnp.array([1.0, np.nan]))
    Array([False,  True], dtype=bool)
    """

    def reference(self, x: Any, y: Any) -> Any:
        return np.not_equal(*_comparable(x, y))

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.not_(f.equal(x, y))


class Lt(Comparison):
    """x < y

    >>> lax.lt(tnp.array([1, 2, 3]), 2)
    Array([ True, False, False], dtype=bool)
    """

    reference = np.less

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.less(x, y)


class Le(Comparison):
    """x <= y

    >>> lax.le(tnp.array([1, 2, 3]), 2)
    Array([ True,  True, False], dtype=bool)
    """

    reference = np.less_equal

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.less_or_equal(x, y)


class Gt(Comparison):
    """x > y

    >>> lax.gt(tnp.array([1, 2, 3]), 2)
    Array([False, False,  True], dtype=bool)
    """

    reference = np.greater

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.less(y, x)


class Ge(Comparison):
    """x >= y

    >>> lax.ge(tnp.array([1, 2, 3]), 2)
    Array([False,  True,  True], dtype=bool)
    """

    reference = np.greater_equal

    def scalar(self, x: UOp, y: UOp) -> UOp:
        return f.less_or_equal(y, x)


eq, ne, lt, le, gt, ge = Eq(), Ne(), Lt(), Le(), Gt(), Ge()
