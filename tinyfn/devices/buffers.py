"""Memory for the results of compiled programs, kept for reuse once nobody sees it.

Memory that is fresh from the system costs a page fault for each 4 KB when it is first touched, which is more than most
kernels take to fill it. So what a dead array leaves goes to a list of its size, and the next array of that size
gets it.

**Who owns what.** An array that is handed out is an ordinary `np.ndarray`. Its base is a `_Lease`, which holds the block of
memory and gives it back when it dies. NumPy lets a view keep its base alive, and so does whatever else refers to the
memory (a memoryview, a DLPack capsule), so a block comes back when the last of them is gone, not before.

Everything here takes no lock: the lists are Python lists, whose `append` and `pop` are atomic, and `__del__` may run at any
place in any thread. The count of cached bytes may drift under threads; it only decides when to let go of memory."""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Callable
from functools import partial
from sys import getrefcount
from typing import Any, NamedTuple

import numpy as np

ALIGNMENT = 64  # bytes: a cache line, and the widest vector
SMALL = 4096  # bytes: up to here NumPy's own memory is had faster, and no page of it is fresh for long


class Block(NamedTuple):
    """A piece of aligned memory; `memory` keeps it alive."""

    memory: Any  # a ctypes array
    address: int


class _Lease(np.ndarray):
    """The right to a block, and the way in which NumPy gets at its memory.

    It is an array itself, since nothing else hands memory to `np.ndarray` as fast. It is a class of its own, and its base is
    no array, so that NumPy does not skip it when it looks for the base of a view."""

    __slots__ = ("block", "cache")
    block: Block
    cache: BufferCache

    def __del__(self) -> None:
        try:
            self.cache.give_back(self.block)
        except AttributeError:  # a view or copy of a lease, made by someone who looked at `array.base`
            pass


class BufferCache:
    """Blocks of memory by size; at most `limit` bytes wait here for reuse."""

    def __init__(self, limit: int):
        self.limit = limit
        self.cached = 0
        self._free: dict[int, list[Block]] = {}

    def maker(self, shape: tuple[int, ...], dtype: Any) -> Callable[[], np.ndarray]:
        """A function that makes an uninitialised array of a shape and dtype, aligned to 64 bytes."""
        dtype = np.dtype(dtype)
        if dtype.hasobject:
            raise TypeError(f"memory for arrays of {dtype} can't be reused")
        size = size_class(math.prod(shape) * dtype.itemsize)
        free = self._free.setdefault(size, [])
        byte, array, lease = np.dtype(np.uint8), np.ndarray, _Lease

        def make() -> np.ndarray:
            try:
                block = free.pop()
                self.cached -= size
            except IndexError:
                block = None
            if block is None:
                try:
                    block = _fresh(size)
                except MemoryError:
                    raise MemoryError(
                        f"there is no memory for {dtype.name}[{','.join(map(str, shape))}], which takes {size / 2**30:.3g} GiB: "
                        "work on a part at a time (tinyfn.lax.map with batch_size), or in a smaller dtype"
                    ) from None
            owner = lease(size, byte, block.memory)
            owner.block = block
            owner.cache = self
            return array(shape, dtype, owner)

        return make

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """An uninitialised array, aligned to 64 bytes."""
        return self.maker(shape, dtype)()

    def give_back(self, block: Block) -> None:
        """Take a block that nobody sees any more; let go of everything when that passes the limit."""
        size = len(block.memory)
        if size > self.limit:
            return
        if self.cached + size > self.limit:
            self.clear()
        self.cached += size
        self._free[size].append(block)

    def clear(self) -> None:
        """Let go of the memory that waits for reuse."""
        for blocks in list(self._free.values()):
            blocks.clear()
        self.cached = 0


def result_maker(shape: tuple[int, ...], dtype: Any) -> Callable[[], np.ndarray]:
    """A function that makes an uninitialised array: from the cache of this process unless it is small, when NumPy is faster."""
    if math.prod(shape) * dtype.itemsize <= SMALL:
        return partial(np.empty, shape, dtype)
    return BUFFERS.maker(shape, dtype)


def is_alone(arrays: list[Any], index: int) -> bool:
    """Whether nothing but this list sees the memory of one of its arrays."""
    value = arrays[index]
    if not _COUNTED or getrefcount(value) != _REFERENCES:
        return False
    while True:
        base = value.base
        if base is None:
            return bool(value.flags.owndata)
        if getrefcount(base) != _REFERENCES:
            return False
        if type(base) is _Lease:
            return True
        if type(base) is not np.ndarray:
            return False
        value = base


def _references(arrays: list[Any]) -> int:
    value = arrays[0]
    return getrefcount(value)


# Without a global lock the counts of references say nothing.
_COUNTED = getattr(sys, "_is_gil_enabled", lambda: True)()
# What `getrefcount` says of an object that one list or array and one variable refer to.
_REFERENCES = _references([object()])


def size_class(size: int) -> int:
    """The size that a block of at least `size` bytes gets: at most a fourth more, four classes for each doubling."""
    if size <= ALIGNMENT:
        return ALIGNMENT
    shift = max((size - 1).bit_length() - 3, 6)
    return -(-size >> shift) << shift


def _fresh(size: int) -> Block:
    raw: Any = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    # A ctypes array and not a memoryview: NumPy looks through the latter and would find `raw`.
    return Block((ctypes.c_char * size).from_buffer(raw, start), raw.ctypes.data + start)


def _default_limit() -> int:
    """A quarter of the machine's memory."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
    except (AttributeError, ValueError, OSError):  # Windows
        return 2 << 30


# The cache that all programs of this process share.
BUFFERS = BufferCache(_default_limit())
