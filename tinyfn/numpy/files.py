"""Files, buffers and text read and written as NumPy does. Imported when one of them is first used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..trace import operators as o
from ..trace.array import Array
from ..trace.dtype import canonical
from .common import ArrayLike, DTypeLike, operand


def save(file: Any, arr: ArrayLike, allow_pickle: bool = True) -> None:
    """Write an array to a .npy file, as NumPy does.

    >>> from io import BytesIO
    >>> file = BytesIO()
    >>> tnp.save(file, tnp.array([1, 2]))
    >>> tnp.load(BytesIO(file.getvalue()))
    Array([1, 2], dtype=int32)
    """
    np.save(file, np.asarray(operand(arr, "save")))


def savez(file: Any, *args: ArrayLike, **kwds: ArrayLike) -> None:
    """Write arrays to a .npz file, as NumPy does: those without a name are `arr_0`, `arr_1`, ...

    >>> from io import BytesIO
    >>> file = BytesIO()
    >>> tnp.savez(file, tnp.zeros(2), bias=tnp.ones(3))
    >>> found = tnp.load(BytesIO(file.getvalue()))
    >>> sorted(found), found["bias"]
    (['arr_0', 'bias'], array([1., 1., 1.], dtype=float32))
    """
    np.savez(file, *[np.asarray(a) for a in args], **{name: np.asarray(a) for name, a in kwds.items()})  # type: ignore[arg-type]


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Read a .npy file as an array; an .npz file gives NumPy's mapping of its arrays.

    >>> from io import BytesIO
    >>> file = BytesIO()
    >>> np.save(file, np.array([1.5, 2.5]))
    >>> tnp.load(BytesIO(file.getvalue()))
    Array([1.5, 2.5], dtype=float64)
    """
    found = np.load(file, *args, **kwargs)
    return o.operand(found) if isinstance(found, np.ndarray) else found


def fromfile(file: Any, dtype: DTypeLike = float, count: int = -1, sep: str = "", offset: int = 0) -> Array:
    """An array of one axis from the bytes (or, with `sep`, the text) of a file; dtype, count and offset as for `frombuffer`.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     written = Path(folder, "numbers").write_text("1 2 3")
    ...     tnp.fromfile(Path(folder, "numbers"), int, sep=" ")
    Array([1, 2, 3], dtype=int32)
    """
    return o.operand(np.fromfile(file, canonical(dtype), count, sep, offset))


def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """An array of one axis with a copy of `count` (-1: all) elements of a buffer of bytes, after `offset` bytes.

    `float` and `int` are float32 and int32, the defaults here, not NumPy's 64 bits.

    >>> tnp.frombuffer(bytes([1, 2, 3]), tnp.uint8, offset=1)
    Array([2, 3], dtype=uint8)
    """
    return o.operand(np.frombuffer(buffer, canonical(dtype), count, offset).copy())


def fromiter(iterable: Iterable[Any], dtype: DTypeLike = float, count: int = -1) -> Array:
    """An array of one axis of what an iterable gives, at most `count` elements (-1: all).

    >>> tnp.fromiter((i * i for i in range(4)), int)
    Array([0, 1, 4, 9], dtype=int32)
    """
    return o.operand(np.fromiter(iterable, canonical(dtype), count))


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """An array of one axis of the numbers in a text, separated by `sep`.

    >>> tnp.fromstring("1, 2, 3", int, sep=",")
    Array([1, 2, 3], dtype=int32)
    """
    return o.operand(np.fromstring(string, canonical(dtype), count, sep=sep))


__all__ = ["frombuffer", "fromfile", "fromiter", "fromstring", "load", "save", "savez"]
