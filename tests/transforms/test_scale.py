"""Deep graphs, many calls and many threads: linear time, no recursion, no growth, no races."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import tinyfn
from tests.transforms.programs import array, close, same, total
from tinyfn.trace import prims
from tinyfn.trace.show import source
from tinyfn.trace.simplify import simplify
from tinyfn.trace.uop import _interned


def chain(length: int) -> Callable[[Any], Any]:
    """sin applied many times."""

    def f(x: Any) -> Any:
        for _ in range(length):
            x = prims.sin(x)
        return x

    return f


CHAINED: dict[str, Callable[[int], Any]] = {
    "trace, check, simplify and print": lambda n: source(
        simplify(tinyfn.make_graph(chain(n))(array(0.5)).check())
    ),
    "grad": lambda n: tinyfn.grad(chain(n))(array(0.5)),
    "jvp": lambda n: tinyfn.jvp(chain(n), (array(0.5),), (array(1.0),)),
    "vjp": lambda n: tinyfn.vjp(chain(n), array(0.5))[1](array(1.0)),
    "linearize": lambda n: tinyfn.linearize(chain(n), array(0.5))[1](array(1.0)),
    "jit": lambda n: tinyfn.jit(chain(n))(array(0.5)),
    "vmap": lambda n: tinyfn.vmap(chain(n))(array([0.5, 0.25])),
    "grad of remat of jit": lambda n: tinyfn.grad(tinyfn.remat(tinyfn.jit(chain(n))))(array(0.5)),
}


# LLVM takes long for the kernels of very deep graphs, so that these run step by step.
@pytest.mark.usefixtures("step_by_step")
@pytest.mark.parametrize("name", CHAINED)
def test_fifty_thousand_operations_in_linear_time(name: str) -> None:
    run = CHAINED[name]
    lengths = (3125, 12500, 50000)
    run(100)
    measured = []
    for _ in range(4):  # until one is not disturbed by what else the machine does
        seconds = []
        for length in lengths:
            gc.collect()
            begin = perf_counter()
            run(length)
            seconds.append(perf_counter() - begin)
        exponent = np.polyfit(np.log(lengths), np.log(seconds), 1)[0]
        measured.append(f"{seconds} seconds: n^{exponent:.2f}")
        if exponent < 1.4:
            return
    raise AssertionError(f"{name} of {lengths} operations took {measured}")


def test_the_gradient_of_a_deep_chain_is_right() -> None:
    x, expected = 0.5, 1.0
    for _ in range(5000):
        expected *= np.cos(x)
        x = np.sin(x)
    value, gradient = tinyfn.value_and_grad(chain(5000))(array(0.5))
    close(value, x)
    close(gradient, expected, 1e-10)


def test_a_graph_with_exponentially_many_paths() -> None:
    def f(x: Any) -> Any:
        for _ in range(200):
            x = (x + x) * 0.5
        return x

    close(tinyfn.grad(f)(array(3.0)), 1.0)
    close(tinyfn.jit(tinyfn.grad(f))(array(3.0)), 1.0)
    close(tinyfn.vmap(tinyfn.grad(f))(array([3.0])), [1.0])


def test_many_nested_transforms() -> None:
    f: Callable[[Any], Any] = lambda x: x * x
    for depth in range(30):
        f = (tinyfn.jit, tinyfn.remat)[depth % 2](f)
    close(tinyfn.grad(f)(array(3.0)), 6.0)
    close(tinyfn.vmap(tinyfn.grad(f))(array([3.0])), [6.0])


def test_freeing_a_deep_graph_needs_no_recursion() -> None:
    gc.collect()
    gc.collect()
    before = len(_interned)
    graph = tinyfn.make_graph(chain(200000))(array(0.5))
    assert len(_interned) >= before + 200000
    del graph
    gc.collect()
    assert len(_interned) == before


# Memory.


def loss(x: Any) -> Any:
    return total(prims.sin(x) * x)


@tinyfn.custom_jvp
def custom_tanh(x: Any) -> Any:
    """tanh, whose rule calls it."""
    return prims.tanh(x)


@custom_tanh.defjvp
def _rule(primals: Any, tangents: Any) -> Any:
    y = custom_tanh(*primals)
    return y, (1.0 - y * y) * tangents[0]


@tinyfn.custom_vjp
def reverse_tanh(x: Any) -> Any:
    """tanh, whose rules call it."""
    return prims.tanh(x)


reverse_tanh.defvjp(lambda x: (reverse_tanh(x), x), lambda x, ct: (ct * (1.0 - reverse_tanh(x) ** 2),))


def looking(x: Any) -> Any:
    """A loop on values."""
    while total(x) < 10.0:
        x = x * 2.0
    return total(custom_tanh(x))


def closing(x: Any) -> Any:
    """A custom function that closes over a tracer and looks at it."""
    scale = prims.stop_gradient(x) * 2.0

    @tinyfn.custom_jvp
    def f(z: Any) -> Any:
        return z * scale if total(scale) > 0 else z

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * scale))
    return total(f(x))


def failing(x: Any) -> None:
    """An exception in the middle of a trace."""
    try:
        tinyfn.grad(lambda x: loss(x) + 1 / 0)(x)
    except ZeroDivisionError:
        pass


jitted = tinyfn.jit(loss)
REPEATED: dict[str, Callable[[Any], Any]] = {
    "grad": tinyfn.grad(loss),
    "jit": jitted,
    "grad of jit": tinyfn.grad(jitted),
    "a new jit each time": lambda x: tinyfn.jit(lambda x: loss(x))(x),
    "grad of a new jit each time": lambda x: tinyfn.grad(tinyfn.jit(lambda x: loss(x)))(x),
    "vmap of grad": lambda x: tinyfn.vmap(tinyfn.grad(loss), in_axes=None, axis_size=2)(x),
    "vjp": lambda x: tinyfn.vjp(loss, x)[1](1.0),
    "hessian": tinyfn.hessian(loss),
    "remat": tinyfn.grad(tinyfn.remat(loss)),
    "custom_jvp": tinyfn.hessian(lambda x: total(custom_tanh(x))),
    "custom_vjp": lambda x: tinyfn.grad(lambda x: total(tinyfn.grad(lambda x: total(reverse_tanh(x)))(x)))(x),
    "values": tinyfn.hessian(looking),
    "closures": tinyfn.hessian(closing),
    "exceptions": failing,
}


@pytest.mark.parametrize("name", REPEATED)
def test_repeated_calls_leave_nothing_behind(name: str) -> None:
    run, x = REPEATED[name], array([1.0, 2.0])

    def left() -> tuple[int, int]:
        gc.collect()
        return len(_interned), len(gc.get_objects())

    for _ in range(3):
        run(x)
    nodes, objects = left()
    for _ in range(100):
        run(x)
    after = left()
    assert after[0] <= nodes
    assert after[1] <= objects + 20


def test_ten_thousand_calls_of_a_jitted_function_leave_nothing_behind() -> None:
    step = tinyfn.jit(lambda p, x: p - 0.1 * tinyfn.grad(lambda p: total(p * x))(p))
    p, x = array([1.0, 2.0]), array([1.0, 1.0])
    for _ in range(10):
        p = step(p, x)
    gc.collect()
    nodes, objects = len(_interned), len(gc.get_objects())
    for _ in range(10_000):
        p = step(p, x)
    gc.collect()
    assert len(_interned) == nodes
    assert len(gc.get_objects()) <= objects + 20


def test_graphs_of_dropped_functions_are_freed() -> None:
    gc.collect()
    gc.collect()
    before = len(_interned)
    functions = [tinyfn.jit(chain(length)) for length in (1, 2, 3, 10, 40)]
    for f in functions:
        f(array(0.5))
    assert len(_interned) > before
    del functions, f
    gc.collect()
    assert len(_interned) == before


# What tracing costs and keeps; a thousand compilations would take long.
@pytest.mark.usefixtures("step_by_step")
def test_many_shapes_and_batch_sizes_stay_bounded() -> None:
    bounded = tinyfn.jit(loss, cache_size=8)
    inner = tinyfn.jit(loss)
    for size in range(1, 301):
        x = array(np.ones(size))
        bounded(x)
        tinyfn.vmap(inner, in_axes=None, axis_size=size)(array([1.0]))
        tinyfn.vmap(inner)(array(np.ones((size, 2))))
        if size == 150:
            gc.collect()
            nodes = len(_interned)
    assert bounded.cache_info().size == 8
    gc.collect()
    assert len(_interned) <= nodes * 1.1


@pytest.mark.usefixtures("step_by_step")
def test_explaining_a_miss_costs_the_same_after_many() -> None:
    f = tinyfn.jit(lambda x: x + 1.0)

    def quickest_miss(first: int, last: int) -> float:
        seconds = []
        for size in range(first, last):
            x = array(np.zeros(size))
            begin = perf_counter()
            f(x)
            seconds.append(perf_counter() - begin)
        return float(np.percentile(seconds, 10))

    early = quickest_miss(0, 100)
    quickest_miss(100, 1900)
    assert quickest_miss(1900, 2000) < 2.5 * early


# Threads.


def test_eight_threads_at_once() -> None:
    shared = tinyfn.jit(lambda x, n: total(prims.sin(x) * n))
    failures: list[BaseException] = []
    start = threading.Barrier(8)

    def work(k: int) -> None:
        try:
            start.wait()
            for i in range(40):
                x = array(np.full(i % 7 + 1, 0.5))
                close(shared(x, float(k)), (i % 7 + 1) * np.sin(0.5) * k, 1e-6)
                close(tinyfn.grad(shared)(x, float(k)), np.full(i % 7 + 1, np.cos(0.5) * k), 1e-6)
                close(
                    tinyfn.vmap(tinyfn.grad(loss))(array([[float(k), 1.0]])),
                    [[np.sin(k) + k * np.cos(k), np.sin(1) + np.cos(1)]],
                )
                close(tinyfn.grad(lambda y, x=x: y if y > 0 else -y)(array(float(i + 1))), 1.0)
                close(
                    tinyfn.grad(lambda x: total(custom_tanh(x)))(x), 1 - np.tanh(0.5) ** 2 * np.ones(x.shape)
                )
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    info = shared.cache_info()
    assert info.hits + info.misses == 8 * 40 * 2 and info.size == 7


def test_threads_that_evict_each_others_traces() -> None:
    shared = tinyfn.jit(lambda x: x + 1.0, cache_size=3)
    failures: list[BaseException] = []

    def work(k: int) -> None:
        try:
            for i in range(150):
                size = (i * (k + 1)) % 11
                same(shared(array(np.zeros(size))), np.ones(size))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and shared.cache_info().size == 3


def test_a_trace_in_one_thread_is_not_seen_by_another() -> None:
    seen: list[Any] = []

    def outer(x: Any) -> Any:
        thread = threading.Thread(target=lambda: seen.append(type(array(1.0) + 1.0)))
        thread.start()
        thread.join()
        return x * x

    close(tinyfn.grad(outer)(array(2.0)), 4.0)
    assert seen == [tinyfn.Array]
