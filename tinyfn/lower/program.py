"""ProgramSpec: what there is to know of a kernel: its name, code, arguments, loops and estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..trace import dtype as dtypes
from ..trace import sint
from ..trace.prim import Primitive
from ..trace.sint import Dimension
from ..trace.uop import UOp, toposort
from .contraction import CONTRACTIONS
from .estimates import Estimates, estimate
from .nest import Kernel, Nest, Pass
from .opts import Opt

# A name has at most so many ops, and those that are in most kernels only where there are no others.
_MOST_OPS = 5
_COMMON = frozenset(
    (
        "add",
        "sub",
        "mul",
        "mul_zero",
        "neg",
        "convert",
        "where",
        "stop_gradient",
        "checkpoint_name",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
    )
)
_SILENT = frozenset(("reshape", "broadcast", "slice", "iota", "transpose", "flip"))


class ProgramSpec(NamedTuple):
    """A kernel as it is compiled for a device.

    `arguments` are the arrays whose addresses the code takes, in this order; `ins` and `outs` are those that are read and those
    that are written, by number. `global_size` counts the points that are run in parallel (on a GPU the groups along x, y and z),
    `local_size` the threads in a group, None where there are no groups. Sizes may depend on `variables`. `applied_opts` are the
    schedules of its nests, the parts' first; None where nests are not scheduled by opts."""

    name: str
    src: str
    device: str
    ast: Kernel
    global_size: tuple[Dimension, ...]
    local_size: tuple[Dimension, ...] | None
    arguments: tuple[UOp, ...]
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    variables: tuple[UOp, ...]
    estimates: Estimates
    applied_opts: tuple[tuple[Opt, ...], ...] | None = None

    @property
    def function_name(self) -> str:
        """The name with what may not be in an identifier as hexadecimal numbers."""
        return identifier(self.name)

    @property
    def mem_estimate(self) -> Dimension:
        """Bytes of distinct memory that the kernel touches."""
        return self.estimates.mem

    def launch_dims(self, values: Mapping[UOp, int]) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
        """`global_size` and `local_size` for given values of the variables."""
        sizes = tuple([sint.evaluate(n, values) for n in self.global_size])
        if self.local_size is None:
            return sizes, None
        return sizes, tuple([sint.evaluate(n, values) for n in self.local_size])


def specify(
    kernel: Kernel,
    device: str,
    src: str,
    arguments: Sequence[UOp],
    global_size: Sequence[Dimension],
    local_size: Sequence[Dimension] | None = None,
    applied_opts: Sequence[tuple[Opt, ...]] | None = None,
) -> ProgramSpec:
    """What there is to know of a kernel, given the code that was made of it."""
    nests = (*kernel.parts, *kernel.finish)
    loaded = {array for nest in nests for array in nest.loaded}
    stored = {array for nest in nests for array in nest.stored}
    estimates = estimate(kernel)
    sizes = [*global_size, *(local_size or ()), *estimates]
    arguments = tuple(arguments)
    return ProgramSpec(
        kernel_name(kernel),
        src,
        device,
        kernel,
        tuple(global_size),
        None if local_size is None else tuple(local_size),
        arguments,
        tuple([i for i, array in enumerate(arguments) if array in loaded]),
        tuple([i for i, array in enumerate(arguments) if array in stored]),
        tuple(sint.variables(sizes)),
        estimates,
        None if applied_opts is None else tuple(applied_opts),
    )


def kernel_name(kernel: Kernel) -> str:
    """A name that says what a kernel computes: its ops in order, and the shape of its largest array; for a contraction the sizes
    of its loops, the sum's last.

    Kernels that differ in their arrays only have one name: `max_exp_sum_div_4096x4096`, `dot_tanh_128x512x784`."""
    nests = (*kernel.parts, *kernel.finish)
    stored = [array for nest in nests for array in nest.stored]
    loaded = [array for nest in nests for array in nest.loaded if array not in set(stored)]
    found = [node.op.name for node in toposort(stored, stop=loaded) if isinstance(node.op, Primitive)]
    every = list(dict.fromkeys(_short(name) for name in found))
    telling = [name for name in every if name not in _SILENT and name not in _COMMON]
    ops = telling or [name for name in every if name not in _SILENT] or every or ["copy"]
    if len(ops) > _MOST_OPS:
        ops = [*ops[: _MOST_OPS - 1], "etc", ops[-1]]
    shape = _of_contraction(nests)
    if shape is None:
        arrays = dict.fromkeys([*stored, *loaded])
        shape = max((node.shape for node in arrays), key=_elements, default=())
    sizes = "x".join(str(n) if isinstance(n, int) else "n" for n in shape) or "scalar"
    parts = f"_{len(kernel.parts)}parts" if len(kernel.parts) > 1 else ""
    return f"{'_'.join(ops)}_{sizes}{parts}"


def _of_contraction(nests: Sequence[Nest]) -> tuple[Dimension, ...] | None:
    """The sizes of the outer ranges of the first contraction, and of all that it sums over; None if there is none."""
    for nest in nests:
        for each in nest.passes:
            if any(r.node.op in CONTRACTIONS for r in each.reductions):
                return (*map(sint.extent, nest.outer), sint.prod(map(sint.extent, each.inner)))
    return None


def loops_of(kernel: Kernel) -> str:
    """The sizes of a kernel's loops: those of the outer ranges, then in brackets those of each pass, `64 [128, 128, 1]`."""

    def sizes(ranges: Sequence[UOp]) -> str:
        return "×".join(str(sint.extent(r)) for r in ranges) or "1"

    def around(ranges: Sequence[UOp], passes: Sequence[Pass]) -> str:
        inside = [around(each.inner, each.passes) for each in passes]
        return (
            f"{sizes(ranges)} [{', '.join(inside)}]" if any(text != "1" for text in inside) else sizes(ranges)
        )

    def of(nest: Nest) -> str:
        return around(nest.outer, nest.passes)

    texts: dict[str, int] = {}
    for nest in kernel.parts:
        texts[of(nest)] = texts.get(of(nest), 0) + 1
    parts = " + ".join(f"{count}·({text})" if count > 1 else text for text, count in texts.items())
    return " then ".join([parts, *map(of, kernel.finish)])


def _short(name: str) -> str:
    return {"dot_general": "dot", "conv_general": "conv"}.get(name) or name.removeprefix("reduce_").strip("_")


def _elements(shape: Sequence[Dimension]) -> int:
    return sint.bounds(sint.prod(shape))[1]


def identifier(name: str) -> str:
    """A name with what may not be in an identifier as hexadecimal numbers."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"{ord(c):02X}" for c in name)


def described(node: UOp) -> str:
    """An array's dtype and shape: `float32[8,16]`."""
    return dtypes.describe(node.dtype, node.shape)
