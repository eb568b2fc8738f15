"""The workloads: for each library, a function that sets one up and returns what is to be timed.

A library is the triple (module of transforms, module of NumPy's names, function that waits for a result)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Library(NamedTuple):
    """What a workload is written with, so that it is the same code for each library."""

    transforms: Any
    numpy: Any
    wait: Callable[[Any], Any]


def load(name: str) -> Library:
    """Import a library."""
    if name == "jax":
        import jax
        import jax.numpy

        return Library(jax, jax.numpy, jax.block_until_ready)
    import tinyfn
    import tinyfn.numpy

    return Library(tinyfn, tinyfn.numpy, lambda result: result)


def eager_grad(library: Library) -> Callable[[], Any]:
    """The gradient of a function of three operations on 10 elements, not jitted."""
    np = library.numpy
    x = np.arange(10, dtype="float32")

    def f(x: Any) -> Any:
        return np.sum(np.sin(x) * x)

    return lambda: library.wait(library.transforms.grad(f)(x))


def eager_add(library: Library) -> Callable[[], Any]:
    """One addition of 10 elements."""
    x = library.numpy.arange(10, dtype="float32")
    return lambda: library.wait(x + x)


def eager_index(library: Library) -> Callable[[], Any]:
    """One slice of 10 elements."""
    x = library.numpy.arange(10, dtype="float32")
    return lambda: library.wait(x[2:7])


WORKLOADS = {"eager_grad": eager_grad, "eager_add": eager_add, "eager_index": eager_index}
