"""Rendering kernels as CUDA C.

A kernel is `kernel(Arguments)`, whose argument is a table of the addresses of its arrays. Each part has a range of blocks, and is
a function of its own (`cuda_nest`, `cuda_contraction`), which parts that are the same up to their arrays share. The block that is
done last runs the nests of `finish`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..trace import sint
from ..trace.uop import UOp
from .cuda_contraction import contraction
from .cuda_expressions import SUPPORTED
from .cuda_function import SHARED_MAX, THREADS, Function
from .cuda_nest import loops
from .cuda_prelude import prelude
from .nest import Kernel, Nest
from .opts import Opt
from .program import ProgramSpec, specify
from .renderer import Renderer
from .structure import structure
from .tensor_cores import cuda_tensor_cores

# Memory that the finish of a kernel needs for its count of blocks, at the start of the scratch memory.
COUNTER_BYTES = 16
# So many addresses can be handed over with a launch; more have to be in memory.
MOST_ARGUMENTS = 4000


Opts = tuple[tuple[Opt, ...], ...]


class Code(NamedTuple):
    """A kernel in CUDA C: `extern "C" __global__ void kernel(Arguments)`, where Arguments are addresses, those of the `arguments`
    first, and then, if `scratch` is not 0, of so many bytes of the kernel's own, which are 0 before the first launch.

    It is launched with `grid` blocks of `block` threads, each with `shared` bytes of shared memory. If it is `indirect`, the
    addresses are a table in memory, whose address Arguments has. `opts` are the schedules of the nests, the parts' first."""

    source: str
    arguments: tuple[UOp, ...]
    grid: int
    block: int
    shared: int = 0
    scratch: int = 0
    indirect: bool = False
    opts: Opts = ()


class CudaRenderer(Renderer):
    """Writes kernels in CUDA C, for GPUs of compute capability 8.0 or newer."""

    device = "cuda"
    language = "CUDA C"
    global_max = (2**31 - 1, 65535, 65535)
    local_max = (1024, 1024, 64)
    shared_max = SHARED_MAX
    tensor_cores = cuda_tensor_cores(80)
    code_for_op = SUPPORTED

    def render(self, kernel: Kernel) -> Code:
        """The code of a kernel, and how it is launched."""
        return render(kernel)

    def program(self, kernel: Kernel) -> ProgramSpec:
        """The code of a kernel, and what there is to know of it."""
        code = self.render(kernel)
        return specify(
            kernel, self.device, code.source, code.arguments, (code.grid, 1, 1), (code.block, 1, 1), code.opts
        )


# What makes a device function of a nest, in the order in which they are asked; None means that it is a nest for the next.
Generator = Callable[[Nest, Sequence[UOp], str, Sequence[Opt] | None], Function | None]
GENERATORS: tuple[Generator, ...] = (contraction, loops)


class _Part(NamedTuple):
    """A nest of a kernel: the number of its function, the function, and where its arguments and its workspace begin."""

    number: int
    function: Function
    arguments: int
    workspace: int

    def call(self, block: str, blocks: int) -> str:
        """The call for one block."""
        arguments = f"given.address + {self.arguments}, shared, scratch + {self.workspace}"
        return f"part{self.number}({block}, {blocks}, {arguments});"


def render(kernel: Kernel, opts: Opts | None = None) -> Code:
    """The CUDA C of a kernel, and how it is launched.

    `opts`, if given, are the schedules of its nests, as another Code has them; raises OptError for one that does not fit."""
    schedules = [None] * (len(kernel.parts) + len(kernel.finish)) if opts is None else opts
    functions: dict[Any, tuple[int, Function]] = {}
    arguments: list[UOp] = []
    scratch = COUNTER_BYTES if kernel.finish else 0

    def part(nest: Nest, chosen: tuple[Opt, ...] | None) -> _Part:
        nonlocal scratch
        structural, arrays = structure(nest)
        if arrays and arrays[-1].op is sint.VARIABLE:
            raise NotImplementedError(
                f"kernels for cuda have fixed sizes as yet, and this one depends on {arrays[-1]!r}: give numbers for symbolic "
                "dimensions"
            )
        key = structural, chosen
        if key not in functions:
            candidates = (make(nest, arrays, f"part{len(functions)}", chosen) for make in GENERATORS)
            functions[key] = len(functions), next(made for made in candidates if made is not None)
        made = _Part(*functions[key], len(arguments), scratch)
        arguments.extend(arrays)
        scratch += made.function.workspace  # parts run at the same time, so that each has its own
        return made

    every = [part(*each) for each in zip((*kernel.parts, *kernel.finish), schedules, strict=True)]
    parts, finish = every[: len(kernel.parts)], every[len(kernel.parts) :]
    texts = [function for _, function in functions.values()]
    shared = max(function.shared for function in texts)
    grid = sum(each.function.blocks for each in parts)
    used = [helper for function in texts for helper in function.helpers]
    used += ["is_last_block"] * bool(finish) + ["shared_memory"] * bool(shared)
    count = len(arguments) + (scratch > 0)
    indirect = count > MOST_ARGUMENTS
    table = "void *const *address" if indirect else f"void *address[{max(1, count)}]"
    body = [
        f"char *shared = {'shared_memory()' if shared else 'nullptr'};",
        f"char *scratch = {f'(char *)given.address[{len(arguments)}]' if scratch else 'nullptr'};",
        *([parts[0].call("blockIdx.x", grid)] if len(parts) == 1 else _dispatch(parts)),
    ]
    if finish:
        body.append("if (!is_last_block((unsigned *)scratch)) return;")
        for each in finish:
            body += [each.call("0", 1), "__syncthreads();"]
    source = [
        prelude(used, THREADS),
        *[function.text for function in texts],
        f"struct Arguments {{ {table}; }};\n",
        *([_table(parts)] if len(parts) > 1 else []),
        f'extern "C" __global__ void __launch_bounds__({THREADS}) kernel(const __grid_constant__ Arguments given) {{',
        *[f"  {line}" for line in body],
        "}\n",
    ]
    applied = tuple([each.function.opts for each in every])
    return Code("\n".join(source), tuple(arguments), grid, THREADS, shared, scratch, indirect, applied)


def _table(parts: Sequence[_Part]) -> str:
    """For each part the number of its function, its blocks, and where its arguments and its workspace begin."""
    first, rows = 0, []
    for number, function, arguments, workspace in parts:
        rows.append(f"  {{{number}, {first}, {function.blocks}, {arguments}, {workspace}}},")
        first += function.blocks
    row = "struct { int function, first, blocks, arguments; long long workspace; }"
    return "\n".join([f"static __constant__ const {row} parts[] = {{", *rows, "};", ""])


def _dispatch(parts: Sequence[_Part]) -> list[str]:
    """The search for the part of a block, and the call of its function."""
    lines = [
        "const int block = blockIdx.x;",
        f"int low = 0, high = {len(parts) - 1};",
        "while (low < high) {",
        "  const int middle = (low + high + 1) / 2;",
        "  if (parts[middle].first <= block) low = middle; else high = middle - 1;",
        "}",
        "const auto part = parts[low];",
        "void *const *arguments = given.address + part.arguments;",
        "switch (part.function) {",
    ]
    for number in sorted({part.number for part in parts}):
        given = "block - part.first, part.blocks, arguments, shared, scratch + part.workspace"
        lines.append(f"  case {number}: part{number}({given}); break;")
    return [*lines, "}"]
