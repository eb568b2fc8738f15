"""Where CPython and NumPy keep what native code reads of lists and arrays.

A call hands one list of arrays to native code, which reads each array's address, shape and type from the array itself: asking
Python for an address takes as long as a small kernel. The layout of an array is part of NumPy's C interface (its macros compile
to these offsets), that of a list belongs to a version of CPython, so it is looked at before it is relied on."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np

TYPE = 8  # of every object; the offsets are in bytes
ITEMS = 24  # of a list: the address of its items
DATA, NDIM, SHAPE, DTYPE, FLAGS = (
    16,
    24,
    32,
    56,
    64,
)  # of an array; NDIM and FLAGS are of 32 bits, all else of 64
CONTIGUOUS_AND_ALIGNED = 0x1 | 0x100
WRITEABLE = 0x400


def _word(owner: object, offset: int) -> int:
    return ctypes.c_int64.from_address(id(owner) + offset).value


@cache
def is_known() -> bool:
    """Whether lists and arrays look like this in the Python that runs."""
    if (
        ctypes.sizeof(ctypes.c_void_p) != 8
        or np.ndarray.__basicsize__ < FLAGS + 8
        or list.__basicsize__ < ITEMS + 8
    ):
        return False
    for shape, dtype in (((5, 3, 2), np.dtype(np.float32)), ((7,), np.dtype(np.int8))):
        array = np.zeros(shape, dtype)
        pair = [dtype, array]
        sizes = _word(array, SHAPE)
        flags = _word(array, FLAGS)
        if (
            _word(array, TYPE) != id(np.ndarray)
            or _word(array, DATA) != array.ctypes.data
            or _word(array, NDIM) & 0xFFFFFFFF != len(shape)
            or _word(array, DTYPE) != id(array.dtype)
            or not flags & WRITEABLE
            or flags & CONTIGUOUS_AND_ALIGNED != CONTIGUOUS_AND_ALIGNED
            or tuple((ctypes.c_int64 * len(shape)).from_address(sizes)) != shape
            or tuple((ctypes.c_int64 * 2).from_address(_word(pair, ITEMS))) != (id(dtype), id(array))
        ):
            return False
        array.flags.writeable = False
        if _word(array, FLAGS) & 0xFFFFFFFF != flags & 0xFFFFFFFF & ~WRITEABLE:
            return False
        if _word(array[::2], FLAGS) & 1:
            return False
    return True
