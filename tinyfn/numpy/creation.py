"""Arrays made by a rule: one value everywhere, and ones on and below diagonals."""

from __future__ import annotations

from typing import Any

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace.array import Array
from .arithmetic import add
from .common import (
    ArrayLike,
    DTypeLike,
    Shape,
    at_user,
    cast,
    check_device,
    diagonal_number,
    dtype_or,
    full_of,
    iota,
    operand,
    shape_of,
)
from .conversion import convert
from .logic import equal, greater_equal


def zeros(shape: Shape, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Zeros; float32 if no dtype is given.

    >>> tnp.zeros((2, 3))
    Array([[0., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    >>> tnp.zeros(2, tnp.int8)
    Array([0, 0], dtype=int8)
    """
    check_device(device, "zeros")
    return full_of(0, dtype_or(dtype, dtypes.DEFAULT_FLOAT), shape_of(shape, "zeros"))


def ones(shape: Shape, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Ones; float32 if no dtype is given.

    >>> tnp.ones(2), tnp.ones((), bool)
    (Array([1., 1.], dtype=float32), Array(True, dtype=bool))
    """
    check_device(device, "ones")
    return full_of(1, dtype_or(dtype, dtypes.DEFAULT_FLOAT), shape_of(shape, "ones"))


def empty(shape: Shape, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Zeros: arrays can't be filled in later.

    >>> tnp.empty(2)
    Array([0., 0.], dtype=float32)
    """
    check_device(device, "empty")
    return full_of(0, dtype_or(dtype, dtypes.DEFAULT_FLOAT), shape_of(shape, "empty"))


def full(shape: Shape, fill_value: ArrayLike, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """One value (or an array that broadcasts to the shape) everywhere, by default in the value's dtype.

    Raises ValueError where it does not broadcast to the shape.

    >>> tnp.full((2, 2), 7)
    Array([[7, 7],
           [7, 7]], dtype=int32)
    >>> tnp.full((2, 2), tnp.array([1.0, 2.0]))
    Array([[1., 2.],
           [1., 2.]], dtype=float32)
    """
    check_device(device, "full")
    sizes = shape_of(shape, "full")
    value = o.strong(convert(fill_value, dtype))
    try:
        return o.broadcast_to(value, sizes)
    except ValueError:
        raise ValueError(
            f"full: a value of shape {list(value.shape)} does not fit {list(sizes)}{at_user()}"
        ) from None


def zeros_like(
    a: ArrayLike, dtype: DTypeLike = None, shape: Shape | None = None, *, device: Any = None
) -> Array:
    """Zeros of a's dtype and shape, or of those given.

    >>> tnp.zeros_like(tnp.array([1, 2]))
    Array([0, 0], dtype=int32)
    >>> tnp.zeros_like(tnp.array([1, 2]), tnp.float32, shape=(1, 3))
    Array([[0., 0., 0.]], dtype=float32)
    """
    return full_like(a, 0, dtype, shape, device=device)


def ones_like(
    a: ArrayLike, dtype: DTypeLike = None, shape: Shape | None = None, *, device: Any = None
) -> Array:
    """Ones of a's dtype and shape, or of those given.

    >>> tnp.ones_like(tnp.array([[1.0, 2.0]]))
    Array([[1., 1.]], dtype=float32)
    """
    return full_like(a, 1, dtype, shape, device=device)


def empty_like(
    prototype: ArrayLike, dtype: DTypeLike = None, shape: Shape | None = None, *, device: Any = None
) -> Array:
    """Zeros of the prototype's dtype and shape, or of those given.

    >>> tnp.empty_like(tnp.array([1, 2]))
    Array([0, 0], dtype=int32)
    """
    return full_like(prototype, 0, dtype, shape, device=device)


def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike = None,
    shape: Shape | None = None,
    *,
    device: Any = None,
) -> Array:
    """One value everywhere, in a's dtype and shape or in those given.

    >>> tnp.full_like(tnp.array([1.0, 2.0]), 3)
    Array([3., 3.], dtype=float32)
    >>> tnp.full_like(tnp.array([1, 2]), 2.5)
    Array([2, 2], dtype=int32)
    """
    if hasattr(a, "dtype") and hasattr(a, "shape"):
        own_dtype, own_shape = dtypes.canonical(a.dtype), a.shape
    else:
        like = operand(a, "full_like")
        own_dtype, own_shape = like.dtype, like.shape
    return full(own_shape if shape is None else shape, fill_value, dtype_or(dtype, own_dtype), device=device)


def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """An N x M matrix with ones on the k-th diagonal and zeros elsewhere.

    >>> tnp.eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    >>> tnp.eye(2, 3, k=1, dtype=tnp.int32)
    Array([[0, 1, 0],
           [0, 0, 1]], dtype=int32)
    """
    check_device(device, "eye")
    shape = shape_of((N, N if M is None else M), "eye")
    return cast(
        equal(add(iota(dtypes.int32, shape, 0), diagonal_number(k)), iota(dtypes.int32, shape, 1)),
        dtype_or(dtype, dtypes.DEFAULT_FLOAT),
    )


def identity(n: int, dtype: DTypeLike = None) -> Array:
    """The n x n matrix with ones on the diagonal and zeros elsewhere.

    >>> tnp.identity(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = None) -> Array:
    """An N x M matrix with ones on and below the k-th diagonal and zeros above.

    >>> tnp.tri(2, 3)
    Array([[1., 0., 0.],
           [1., 1., 0.]], dtype=float32)
    """
    shape = shape_of((N, N if M is None else M), "tri")
    return cast(on_or_below(shape, k), dtype_or(dtype, dtypes.DEFAULT_FLOAT))


def on_or_below(shape: tuple[Any, ...], k: int) -> Array:
    """Whether each element of a matrix is on or below its k-th diagonal."""
    rows, columns = iota(dtypes.int32, shape, 0), iota(dtypes.int32, shape, 1)
    return greater_equal(add(rows, diagonal_number(k)), columns)
