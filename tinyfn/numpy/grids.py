"""Grids and positions by slices, blocks, and windows. Imported when one of them is first used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace.array import Array
from ..trace.index import reshape as reshaped
from .arithmetic import abs as abs_
from .arithmetic import multiply, subtract
from .common import (
    ArrayLike,
    DTypeLike,
    at_user,
    axis_of,
    described,
    dtype_or,
    integer,
    iota,
    operand,
    promoted,
)
from .conversion import array
from .creation import ones
from .elementary import cos, sqrt
from .joining import concatenate, stack
from .joining import split as split_
from .positions import nonzero
from .ranges import arange, linspace, meshgrid
from .shapes import atleast_1d, expand_dims
from .triangles import tril_indices, triu_indices

s_, index_exp = np.s_, np.index_exp


def _range(part: slice) -> Array:
    """The numbers of a slice; an imaginary step is how many, the end being one of them."""
    start = 0 if part.start is None else part.start
    if isinstance(part.step, complex):
        result: Array = linspace(start, part.stop, int(abs(part.step)))
        return result
    return arange(start, part.stop, 1 if part.step is None else part.step)


class _Grid:
    """`mgrid[0:3, 0:1:5j]`: the coordinates of a grid, stacked; `ogrid`: a tuple of arrays that broadcast to it.

    All have one dtype. An imaginary step is a number of points, of which the end is the last.

    >>> tnp.mgrid[0:2, 0:3].shape
    (2, 2, 3)
    >>> x, y = tnp.ogrid[0:2, 0:1:3j]
    >>> x
    Array([[0.],
           [1.]], dtype=float32)
    >>> y
    Array([[0. , 0.5, 1. ]], dtype=float32)
    """

    def __init__(self, sparse: bool):
        self._sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _range(key)
        ranges = promoted(*[_range(part) for part in key])
        axes = meshgrid(*ranges, indexing="ij", sparse=self._sparse)
        return axes if self._sparse else stack(axes)


mgrid, ogrid = _Grid(False), _Grid(True)


class _Joined:
    """`r_[0:3, 5, x]`: slices, numbers and arrays one after another; `c_` as the columns of a matrix.

    Text in front, "axis,axes,place", says which axis to join along, how many axes arrays have at least, and where their own go;
    "r" and "c" make a matrix of one row or column of what is 1-d.

    >>> tnp.r_[0:3, 9, tnp.array([1, 2])]
    Array([0, 1, 2, 9, 1, 2], dtype=int32)
    >>> tnp.c_[tnp.array([1, 2]), tnp.array([3, 4])]
    Array([[1, 3],
           [2, 4]], dtype=int32)
    >>> tnp.r_["0,2", tnp.array([1, 2]), tnp.array([3, 4])]
    Array([[1, 2],
           [3, 4]], dtype=int32)
    """

    def __init__(self, columns: bool):
        self._columns = columns

    def __getitem__(self, key: Any) -> Array:
        parts = key if isinstance(key, tuple) else (key,)
        axis, axes, place = (-1, 2, 0) if self._columns else (0, 1, -1)
        matrix = parts[0] if isinstance(parts[0], str) and parts[0] in ("r", "c") else None
        if matrix:
            parts = parts[1:]
        elif isinstance(parts[0], str):
            axis, axes, place = _directive(parts[0], axis, axes, place)
            parts = parts[1:]
        if any(isinstance(part, str) for part in parts):
            raise ValueError(f"r_ and c_: text may stand first alone{at_user()}")
        arrays = [atleast_1d(_range(part) if isinstance(part, slice) else array(part)) for part in parts]
        result = concatenate([_with_axes(a, axes, place) for a in arrays], axis)
        if matrix and result.ndim == 1:
            return expand_dims(result, 0 if matrix == "r" else 1)
        return result


def _directive(text: str, *defaults: int) -> tuple[int, ...]:
    """What "0,2,1" says: the axis to join along, the least number of axes, and where an array's own go among them."""
    try:
        given = [int(part) for part in text.split(",")]
    except ValueError:
        given = []
    if not 0 < len(given) <= 3:
        raise ValueError(f"r_ and c_: {text!r} is not one to three numbers, as '0,2,-1'{at_user()}")
    return (*given, *defaults[len(given) :])


def _with_axes(x: Array, axes: int, place: int) -> Array:
    """x with axes of size 1 until it has `axes`: before its own (place=-1), or with its own from `place` on."""
    missing = axes - x.ndim
    if missing <= 0:
        return x
    first = place + missing + 1 if place < 0 else place
    if not 0 <= first <= missing:
        raise ValueError(f"r_ and c_: there is no place {place} among {axes} axes{at_user()}")
    return reshaped(x, (*(1,) * first, *x.shape, *(1,) * (missing - first)))


r_, c_ = _Joined(False), _Joined(True)


def block(arrays: Any) -> Array:
    """Nested lists of blocks joined: the innermost along the last axis, the next along the one before, and so on.

    >>> tnp.block([[tnp.eye(2), tnp.zeros((2, 1))], [tnp.ones((1, 2)), 5.0]])
    Array([[1., 0., 0.],
           [0., 1., 0.],
           [1., 1., 5.]], dtype=float32)
    """

    def depth(x: Any) -> int:
        return 1 + max([depth(part) for part in x], default=0) if isinstance(x, list) else 0

    levels = depth(arrays)

    def joined(x: Any, level: int) -> Array:
        if level == 0:
            if isinstance(x, list):
                raise ValueError(f"block: the lists are not nested alike{at_user()}")
            made = operand(x, "block")
            while made.ndim < max(levels, 1):
                made = expand_dims(made, 0)
            return made
        if not isinstance(x, list) or not x:
            raise ValueError(f"block: the lists are not nested alike, or one is empty{at_user()}")
        return concatenate([joined(part, level - 1) for part in x], -level)

    result = joined(arrays, levels)
    return result if levels else operand(arrays, "block")


def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the third axis.

    >>> [part.shape for part in tnp.dsplit(tnp.zeros((2, 3, 4)), 2)]
    [(2, 3, 2), (2, 3, 2)]
    """
    return split_(ary, indices_or_sections, 2)


def _matrix(arr: ArrayLike, what: str) -> tuple[int, int]:
    x = operand(arr, what)
    if x.ndim != 2:
        raise ValueError(f"{what} takes a matrix, not {described(x)}{at_user()}")
    return x.shape[0], x.shape[1]


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """The positions on and below the k-th diagonal of a matrix.

    >>> tnp.tril_indices_from(tnp.zeros((2, 3)))
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    rows, columns = _matrix(arr, "tril_indices_from")
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """The positions on and above the k-th diagonal of a matrix.

    >>> tnp.triu_indices_from(tnp.zeros((2, 3)), k=1)
    (Array([0, 0, 1], dtype=int32), Array([1, 2, 2], dtype=int32))
    """
    rows, columns = _matrix(arr, "triu_indices_from")
    return triu_indices(rows, k, columns)


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """The positions of the diagonal of an array whose axes have one size.

    >>> x = tnp.zeros((2, 2))
    >>> x.at[tnp.diag_indices_from(x)].set(7.0)
    Array([[7., 0.],
           [0., 7.]], dtype=float32)
    """
    x = operand(arr, "diag_indices_from")
    if x.ndim < 2 or len(set(x.shape)) != 1:
        raise ValueError(
            f"diag_indices_from: the axes of {described(x)} differ in size, or there is one{at_user()}"
        )
    return (iota(dtypes.DEFAULT_INT, (x.shape[0],), 0),) * x.ndim


def mask_indices(
    n: int, mask_func: Callable[..., Any], k: Any = 0, *, size: int | None = None
) -> tuple[Array, ...]:
    """The positions where mask_func(ones((n, n)), k) is not 0; `size` as for `nonzero`.

    >>> tnp.mask_indices(3, tnp.triu, 1)
    (Array([0, 0, 1], dtype=int32), Array([1, 2, 2], dtype=int32))
    """
    return nonzero(mask_func(ones((n, n)), k), size=size)


def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: int | Sequence[int]) -> Array:
    """The function of the array and each axis in turn; axes that it takes away are put back with size 1.

    >>> tnp.apply_over_axes(tnp.sum, tnp.ones((2, 3, 4)), (0, 2))
    Array([[[8.],
            [8.],
            [8.]]], dtype=float32)
    """
    result = operand(a, "apply_over_axes")
    for axis in (axes,) if isinstance(axes, int) else axes:
        place = axis_of(axis, result.ndim, "apply_over_axes")
        found = operand(func(result, place), "apply_over_axes")
        result = found if found.ndim == result.ndim else expand_dims(found, place)
    return result


# Windows of m points


def _window(m: int, dtype: DTypeLike, values: Callable[[Array], Array]) -> Array:
    """The values at 0 ... 1; 1 for a single point."""
    m = integer(m, "a window", "its number of points")
    target = dtype_or(dtype, dtypes.DEFAULT_FLOAT)
    if m == 1:
        return linspace(1.0, 1.0, 1, dtype=target)  # type: ignore[no-any-return]
    return values(linspace(0.0, 1.0, max(m, 0), dtype=target))


def bartlett(M: int) -> Array:
    """The triangular window of M points, from 0 over 1 to 0.

    >>> tnp.bartlett(5)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _window(M, None, lambda t: subtract(1.0, abs_(subtract(multiply(t, 2.0), 1.0))))


def hanning(M: int) -> Array:
    """The Hann window of M points, 0.5 - 0.5 cos(2 pi t) for t from 0 to 1.

    >>> tnp.hanning(5).round(4)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _window(M, None, lambda t: 0.5 - 0.5 * cos(2 * np.pi * t))


def hamming(M: int) -> Array:
    """The Hamming window of M points, 0.54 - 0.46 cos(2 pi t) for t from 0 to 1.

    >>> tnp.hamming(5).round(4)
    Array([0.08, 0.54, 1.  , 0.54, 0.08], dtype=float32)
    """
    return _window(M, None, lambda t: 0.54 - 0.46 * cos(2 * np.pi * t))


def blackman(M: int) -> Array:
    """The Blackman window of M points, 0.42 - 0.5 cos(2 pi t) + 0.08 cos(4 pi t) for t from 0 to 1.

    >>> tnp.blackman(5)[1:4].round(4)
    Array([0.34, 1.  , 0.34], dtype=float32)
    """
    return _window(M, None, lambda t: 0.42 - 0.5 * cos(2 * np.pi * t) + 0.08 * cos(4 * np.pi * t))


def kaiser(M: int, beta: ArrayLike) -> Array:
    """The Kaiser window of M points, I0(beta sqrt(1 - (2 t - 1)^2)) / I0(beta) for t from 0 to 1; a greater beta has lower side
    lobes.

    >>> tnp.kaiser(5, 3.0).round(4)
    Array([0.2049, 0.7269, 1.    , 0.7269, 0.2049], dtype=float32)
    """
    from ..scipy.special import i0

    # 1 - (2 t - 1)^2 is 4 t (1 - t), which is 0 at both ends and never negative.
    return _window(M, None, lambda t: i0(beta * sqrt(4 * t * (1 - t))) / i0(beta))


__all__ = [
    "apply_over_axes", "bartlett", "blackman", "block", "c_", "diag_indices_from", "dsplit", "hamming", "hanning", "index_exp",
    "kaiser", "mask_indices", "mgrid", "ogrid", "r_", "s_", "tril_indices_from", "triu_indices_from",
]  # fmt: skip
