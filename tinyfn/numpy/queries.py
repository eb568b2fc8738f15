"""Questions about arrays: their shapes, whether they are equal, and whether they are complex."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace.array import Array
from .common import ArrayLike, axes_of, converted, operands
from .floats import imag, isclose
from .logic import bitwise_and, equal, isnan
from .reductions import all as all_


def _listed(x: Any) -> Any:
    """A list as an array, and anything else as it is: a Python number takes the dtype of what it is compared with."""
    return converted(x) if isinstance(x, (list, tuple)) else x


def shape(a: ArrayLike) -> tuple[Any, ...]:
    """The sizes of an array's axes.

    >>> tnp.shape(tnp.zeros((2, 3))), tnp.shape(1.0)
    ((2, 3), ())
    """
    return converted(a).shape


def ndim(a: ArrayLike) -> int:
    """The number of an array's axes.

    >>> tnp.ndim(tnp.zeros((2, 3))), tnp.ndim(1.0)
    (2, 0)
    """
    return converted(a).ndim


def size(a: ArrayLike, axis: int | tuple[int, ...] | None = None) -> Any:
    """The number of elements, or the size along an axis or of several axes.

    >>> x = tnp.zeros((2, 3))
    >>> tnp.size(x), tnp.size(x, 1)
    (6, 3)
    """
    x = converted(a)
    return prod([x.shape[i] for i in axes_of(axis, x.ndim, "size")])


def allclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether all elements are close, |a - b| <= atol + rtol * |b|, as a bool array.

    >>> tnp.allclose(tnp.array([1.0, 2.0]), tnp.array([1.0, 2.00001]))
    Array(True, dtype=bool)
    >>> tnp.allclose(tnp.nan, tnp.nan), tnp.allclose(tnp.nan, tnp.nan, equal_nan=True)
    (Array(False, dtype=bool), Array(True, dtype=bool))
    """
    return all_(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether two arrays have one shape and equal elements (NaN equal to NaN, if `equal_nan`), as a bool array.

    >>> tnp.array_equal(tnp.array([1, 2]), tnp.array([1.0, 2.0]))
    Array(True, dtype=bool)
    >>> tnp.array_equal(tnp.ones((2, 1)), tnp.ones(2))
    Array(False, dtype=bool)
    """
    x, y = operands("array_equal", _listed(a1), _listed(a2))
    if x.shape != y.shape:
        return o.scalar(False, dtypes.bool_)
    same = equal(x, y)
    return all_(o.bitwise_or(same, bitwise_and(isnan(x), isnan(y))) if equal_nan else same)


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether two arrays broadcast to one shape and are equal there, as a bool array.

    >>> tnp.array_equiv(tnp.ones((2, 1)), tnp.ones(2))
    Array(True, dtype=bool)
    """
    try:
        return all_(equal(_listed(a1), _listed(a2)))
    except ValueError:
        return o.scalar(False, dtypes.bool_)


def isscalar(element: Any) -> bool:
    """Whether it is a number, a string, or an array without axes.

    >>> tnp.isscalar(1.0), tnp.isscalar(tnp.array(1.0)), tnp.isscalar(tnp.array([1.0]))
    (True, True, False)
    """
    return np.isscalar(element) or getattr(element, "ndim", None) == 0


def iterable(y: Any) -> bool:
    """Whether it can be iterated over.

    >>> tnp.iterable(tnp.zeros(2)), tnp.iterable(tnp.zeros(()))
    (True, False)
    """
    return getattr(y, "ndim", 1) != 0 and hasattr(y, "__iter__")


def iscomplexobj(x: Any) -> bool:
    """Whether its dtype is complex.

    >>> tnp.iscomplexobj(tnp.array([1 + 0j])), tnp.iscomplexobj(1.0)
    (True, False)
    """
    x = _listed(x)
    return isinstance(x, complex) or getattr(getattr(x, "dtype", None), "kind", None) == "c"


def isrealobj(x: Any) -> bool:
    """Whether its dtype is not complex.

    >>> tnp.isrealobj(tnp.array([1 + 0j])), tnp.isrealobj(1.0)
    (False, True)
    """
    return not iscomplexobj(x)


def iscomplex(x: ArrayLike) -> Array:
    """Whether each element has an imaginary part that is not 0.

    >>> tnp.iscomplex(tnp.array([1 + 1j, 1 + 0j]))
    Array([ True, False], dtype=bool)
    """
    return o.not_equal(imag(x), 0)


def isreal(x: ArrayLike) -> Array:
    """Whether each element has no imaginary part.

    >>> tnp.isreal(tnp.array([1 + 1j, 1 + 0j]))
    Array([False,  True], dtype=bool)
    """
    return o.invert(iscomplex(x))
