"""Buffers are reused, and never while anybody sees them."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyfn.devices.buffers import ALIGNMENT, BUFFERS, BufferCache, size_class


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, bool, np.complex64, "V3"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 5), (17,), (33, 65), (2, 3, 4, 5)])
def test_an_array_is_an_ordinary_one(shape: tuple[int, ...], dtype: Any) -> None:
    make = BufferCache(1 << 20).maker(shape, dtype)
    array = make()
    assert type(array) is np.ndarray and array.shape == shape and array.dtype == np.dtype(dtype)
    assert address(array) % ALIGNMENT == 0 or array.size == 0
    assert array.flags.c_contiguous and array.flags.writeable and array.flags.aligned
    array[...] = np.ones((), dtype)
    assert type(array.copy()) is np.ndarray and type(array[...]) is np.ndarray


def test_memory_comes_back_when_the_array_is_gone() -> None:
    cache = BufferCache(1 << 20)
    make = cache.maker((1000,), np.float32)
    array = make()
    where = address(array)
    assert cache.cached == 0
    del array
    assert cache.cached == size_class(4000)
    again = make()
    assert address(again) == where and cache.cached == 0
    assert address(make()) != where
    # Another shape and dtype of about the same size shares the memory.
    del again
    assert address(cache.empty((10, 49), np.float64)) == where


@pytest.mark.parametrize(
    "see",
    [
        lambda array: array[3:7],
        lambda array: array[::-2][1:],
        lambda array: array.reshape(10, 10).T,
        lambda array: array.view(np.uint8),
        lambda array: memoryview(array),
        lambda array: memoryview(array)[2:4],
        lambda array: np.frombuffer(array, np.int32),
        lambda array: np.asarray(memoryview(array)),
        lambda array: np.from_dlpack(array),
        lambda array: array.__dlpack__(),
        lambda array: np.broadcast_to(array, (5, 100)),
        lambda array: np.lib.stride_tricks.as_strided(array, (3,), (4,)),
        lambda array: array.base,
        lambda array: array.base.block.memory and array.base[5:],
        lambda array: array.flat,
        lambda array: array.ctypes,
        lambda array: [array],
    ],
)
def test_whoever_sees_the_memory_keeps_it(see: Any) -> None:
    cache = BufferCache(1 << 20)
    make = cache.maker((100,), np.float32)
    array = make()
    where = address(array)
    seen = see(array)
    del array
    assert cache.cached == 0 and address(make()) != where
    del seen
    gc.collect()
    assert cache.cached == 2 * size_class(400)


def test_copies_and_views_of_a_lease_give_nothing_back() -> None:
    cache = BufferCache(1 << 20)
    array = cache.empty((100,), np.uint8)
    owner: Any = array.base
    for other in (owner.copy(), owner[3:], owner + owner, owner.view()):
        del other
    assert cache.cached == 0
    del owner, array
    assert cache.cached == size_class(100)


def test_a_cycle_is_collected() -> None:
    cache = BufferCache(1 << 20)
    loop: list[Any] = [cache.empty((100,), np.uint8)]
    loop.append(loop)
    del loop
    gc.collect()
    assert cache.cached == size_class(100)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("make"), st.integers(0, 700)),
            st.tuples(st.just("drop"), st.integers(0, 50)),
            st.tuples(st.just("view"), st.integers(0, 50)),
            st.tuples(st.just("clear"), st.just(0)),
        ),
        max_size=60,
    )
)
def test_nobody_shares_memory(steps: list[tuple[str, int]]) -> None:
    """Every array that is held keeps what was written to it, whatever is made and dropped."""
    cache = BufferCache(4000)
    held: list[tuple[np.ndarray, int]] = []
    for number, (what, value) in enumerate(steps):
        if what == "make":
            array = cache.empty((value,), np.uint8)
            array[...] = number % 251
            held.append((array, number % 251))
        elif what == "clear":
            cache.clear()
        elif held:
            array, mark = held.pop(value % len(held))
            if what == "view":
                held.append((array[len(array) // 3 :], mark))
            del array
        assert 0 <= cache.cached <= cache.limit
        assert cache.cached == sum(size * len(blocks) for size, blocks in cache._free.items())
        assert all((array == mark).all() for array, mark in held)


def test_threads_share_a_cache() -> None:
    cache = BufferCache(1 << 20)
    wrong: list[int] = []

    def work(mark: int) -> None:
        make = cache.maker((64 + mark,), np.int64)
        kept: list[np.ndarray] = []
        for i in range(2000):
            array = make()
            array[...] = mark
            kept.append(array)
            if len(kept) > 5:
                if not all((other == mark).all() for other in kept):
                    wrong.append(mark)
                del kept[i % 5]

    workers = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    waiting = sum(size * len(blocks) for size, blocks in cache._free.items())
    assert waiting <= cache.limit


def test_memory_stays_flat() -> None:
    cache = BufferCache(1 << 26)
    make = cache.maker((250_000,), np.float32)
    blocks = set()
    for _ in range(500):
        one, two = make(), make()
        blocks |= {address(one), address(two)}
        del one, two
    assert len(blocks) == 2 and cache.cached == 2 * size_class(1_000_000)


def test_what_waits_is_bounded() -> None:
    cache = BufferCache(10_000)
    many = [cache.empty((1000,), np.uint8) for _ in range(50)]
    del many
    assert 0 < cache.cached <= 10_000
    cache.empty((20_000,), np.uint8)  # larger than all that may wait: not kept
    assert not cache._free[size_class(20_000)]
    cache.clear()
    assert cache.cached == 0 and not any(cache._free.values())


def test_sizes_have_few_classes() -> None:
    classes = sorted({size_class(size) for size in range(1, 1 << 16)})
    assert all(size_class(size) >= size for size in range(1, 1 << 16))
    assert all(size_class(size) <= max(64, size + 63, size * 1.25) for size in range(1, 1 << 16))
    assert len(classes) < 50 and all(size % ALIGNMENT == 0 for size in classes)
    assert all(size_class(size) == size for size in classes)
    assert size_class((1 << 40) + 1) <= 1.25 * (1 << 40)


def test_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="memory for arrays of object can't be reused"):
        BUFFERS.maker((3,), object)


def test_reuse_is_faster_than_fresh_memory() -> None:
    """64 MB, two steps' results alive at a time: fresh memory is faulted in page by page."""
    shape = (1 << 24,)
    make = BufferCache(1 << 30).maker(shape, np.float32)

    def seconds(make_one: Any) -> float:
        alive, least = make_one(), 1.0
        for _ in range(5):
            begin = time.perf_counter()
            alive = [alive, make_one()][1]
            alive.fill(1)
            least = min(least, time.perf_counter() - begin)
        return least

    seconds(make)
    assert seconds(make) < 0.8 * seconds(lambda: np.empty(shape, np.float32))


def test_a_buffer_costs_a_microsecond() -> None:
    make = BufferCache(1 << 20).maker((256,), np.float32)
    least = 1.0
    for _ in range(10):
        begin = time.perf_counter()
        for _ in range(1000):
            make()
        least = min(least, (time.perf_counter() - begin) / 1000)
    assert least < 5e-6  # about 0.7, on a machine with nothing else to do
