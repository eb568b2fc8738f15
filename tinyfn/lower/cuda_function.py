"""Device functions: the work of one nest, for one block of a kernel at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ..trace.uop import UOp
from .cuda_expressions import TYPES, Writer
from .opts import Opt

THREADS = 256  # of a block, in every kernel: parts of one kernel share their blocks' size
WARP = 32
VECTOR_BYTES = 16  # of the widest load
SHARED_MAX = 48 << 10  # bytes of memory that a block may have without asking for more


class Function(NamedTuple):
    """A device function for one nest, `void NAME(int block, int blocks, void *const *arguments, char *shared, char *workspace)`.

    The nest's work is done when it has run for each block in range(blocks). It needs `shared` bytes of shared memory, and
    `workspace` bytes of memory for all blocks together."""

    text: str
    blocks: int
    shared: int
    workspace: int
    helpers: tuple[str, ...]
    opts: tuple[Opt, ...] = ()  # the schedule


def device_function(name: str, writer: Writer, blocks: int, shared: int, workspace: int = 0) -> Function:
    """A function of the lines that were written."""
    parameters = "const int block, const int blocks, void *const *arguments, char *shared, char *workspace"
    head = f"static __device__ __forceinline__ void {name}({parameters}) {{"
    text = "\n".join([head, *writer.lines, "}", ""])
    return Function(text, blocks, shared, workspace, tuple(writer.used))


def pointers(writer: Writer, arrays: Sequence[UOp], stored: Collection[UOp]) -> None:
    """Typed pointers a0, a1, ... to the arrays that are a function's arguments."""
    written = set(stored)
    for i, array in enumerate(arrays):
        kind = f"{'' if array in written else 'const '}{TYPES[array.dtype]} *"
        writer.line(f"{kind}a{i} = ({kind})arguments[{i}];")
