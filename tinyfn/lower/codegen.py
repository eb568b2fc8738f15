"""Code of kernels: LLVM IR of all parts of a kernel, and how its work is counted."""

from __future__ import annotations

from typing import NamedTuple

from ..trace.uop import UOp
from .nest import Kernel, Nest, size_of
from .render_llvm import arguments, chunks, render
from .target import Target

# Elements that a thread should have at least, for it to be worth waking.
GRAIN = 1 << 15


class Code(NamedTuple):
    """A kernel for one target.

    The IR defines `void kernel(ptr arguments, i64 begin, i64 end)`, which runs the points from begin to end, and, if `finishes`,
    `void finish(ptr arguments)`. Their first argument is a table of the addresses of `arguments`, in this order. A call should
    have `grain` points."""

    ir: str
    arguments: tuple[UOp, ...]
    points: int
    grain: int
    finishes: bool = False


def generate(kernel: Kernel, target: Target) -> Code:
    """The code of a kernel."""
    (nest,) = kernel.parts
    text, plan = render(nest, "kernel", target.vector_bytes)
    points = chunks(nest, plan)
    grain = max(1, -(-GRAIN * points // max(1, _work(nest))))
    return Code(text, tuple(arguments(nest)), points, grain)


def _work(nest: Nest) -> int:
    """About how many elements a nest visits."""
    outer = 1
    for o in nest.outer:
        outer *= size_of(o)
    inner = 0
    for each in nest.passes:
        size = 1
        for i in each.inner:
            size *= size_of(i)
        inner += size
    return outer * inner
