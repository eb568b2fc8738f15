"""Contractions: C[batch, m, n] = sum over k of A[batch, m, k] * B[batch, k, n], as LLVM IR in explicit vectors.

The method is that of K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication" (ACM TOMS 34, 2008), and
F. Van Zee and R. van de Geijn, "BLIS" (ACM TOMS 41, 2015): five loops round a tile of C that stays in registers, with blocks of
A and B copied ("packed") so that the tile reads them in order. Small and thin problems read the operands where they are, with
the same tiles. Shapes and strides are constants of the code, so edges are tiles of their own size.

Every element of C is one chain of fused multiply-adds in the order of k, whatever the blocks, the tiles, the packing and the
threads. Only the "dots" plan, for few rows times columns that are contiguous in k, sums in `lanes` interleaved chains; it is
chosen by shapes, strides and dtypes. So the bits are the same on all machines with fused multiply-add.

What precedes and follows the contraction fuses into it. A producer gives elements of an operand, in the packing or, where
nothing is packed, in the tile; an epilogue changes finished elements before their store. Both write into the `Builder`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ..trace import dtype as dtypes
from .gemm_functions import Functions
from .gemm_heuristic import choose
from .gemm_matrix import Builder, Contraction
from .gemm_pack import pack_a, pack_b
from .gemm_plan import Plan, apply, round_up
from .gemm_tiles import tile
from .gemm_windows import pack_images
from .gemm_writer import TYPES, Index, Value
from .opts import Opt
from .target import Target


class Kernel(NamedTuple):
    """`void name(ptr arguments, i64 begin, i64 end)` runs the chunks from begin to end; any split gives the same bits.

    A call packs for all its chunks together, so it should have `plan.grain` of them. Scratch comes from `malloc`."""

    name: str
    ir: str
    plan: Plan
    opts: tuple[Opt, ...]


def generate(
    name: str, contraction: Contraction, target: Target, opts: Sequence[Opt] | None = None
) -> Kernel:
    """The kernel of a contraction, by the heuristic's opts unless others are given.

    Raises ValueError unless the three dtypes are floats of 16 to 64 bits, or integers, and OptError for opts that do not fit."""
    named = {x.dtype for x in (contraction.a, contraction.b, contraction.c)}
    if not named <= TYPES.keys() or len({dtypes.is_float(x) for x in named}) > 1:
        raise ValueError(
            f"no kernel multiplies {contraction.a.dtype} by {contraction.b.dtype} into {contraction.c.dtype}"
        )
    chosen = choose(contraction, target) if opts is None else tuple(opts)
    contraction, plan = apply(contraction, chosen, target)
    g = Functions(name, contraction, target, plan)
    _entry(g)
    return Kernel(name, "\n".join(g.functions.values()), plan, chosen)


def _region(g: Functions, b: Builder, batch: Index, ends: Sequence[Index], buffers: Sequence[Value]) -> None:
    """Rows and columns of one matrix of the batch: the blocks, and the tiles of each."""
    plan, c, dtype = g.plan, g.contraction, g.accumulator
    row, row_end, column, column_end = ends
    to_a, to_b, partial = buffers
    depth = Index(None, 0), g.depth(b)

    def call(function: str, *operands: Index | Value) -> None:
        texts = [str(x if isinstance(x, Value) else b.number(x)) for x in operands]
        b.statement(f"call void @{function}({', '.join(['ptr %arguments', *texts])})")

    def one(i: Index, height: int, j: Index, width: int) -> None:
        across, down = b.binary("sub", j, j_start), b.binary("sub", i, i_start)
        panel_a, panel_b, sums = to_a, to_b, partial
        if plan.pack_a:
            panel_a = b.address(to_a, b.scale(down, g.a_stride), dtype)
        if g.windows is not None:
            before = b.scale(b.binary("udiv", j_start, prod(g.windows.places)), -g.windows.image)
            panel_b = b.address(to_b, before, dtype)
        elif plan.pack_b:
            panel_b = b.address(to_b, b.scale(across, plan.k_block), dtype)
        if g.partial:
            position = b.add(b.scale(b.binary("sub", i, row), plan.column_block), across)
            sums = b.address(partial, position, dtype)
        call(tile(g, height, width), batch, i, j, k, k_end, panel_a, panel_b, sums)

    def strip(j: Index, width: int) -> None:
        g.sweep(b, i_start, i_end, plan.rows, c.m, lambda i, height: one(i, height, j, width), g.shares_rows)

    with (
        g.blocks(b, column, column_end, plan.column_block, c.n) as (j_start, j_end),
        g.blocks(b, *depth, plan.k_block, c.k) as (k, k_end),
    ):
        if g.windows is not None:
            call(pack_images(g, g.windows), batch, j_start, j_end, k, k_end, to_b)
        elif plan.pack_b:
            call(pack_b(g), batch, j_start, j_end, k, k_end, to_b)
        with g.blocks(b, row, row_end, plan.row_block, c.m) as (i_start, i_end):
            if plan.pack_a:
                call(pack_a(g), batch, i_start, i_end, k, k_end, to_a)
            g.sweep(b, j_start, j_end, plan.columns, c.n, strip, g.shares_columns)


def _entry(g: Functions) -> None:
    """The kernel: scratch, and the chunks, those of neighbouring rows or columns as one region."""
    b, (begin, end), _ = g.function(g.name, "begin end", external=True)
    if g.plan.chunks:
        _chunks(g, b, begin, end)
    g.functions[g.name] = b.text()


def _chunks(g: Functions, b: Builder, begin: Index, end: Index) -> None:
    plan, c, size = g.plan, g.contraction, g.accumulator.itemsize
    slack = 64 // size + 2 * plan.lanes
    a_size = round_up(plan.row_block * g.a_stride + slack, 64) if plan.pack_a else 0
    block = min(plan.column_block, round_up(c.n, plan.columns))
    b_size = round_up(block * plan.k_block, 64) if plan.pack_b else 0
    if g.windows is not None:
        images = -(-block // prod(g.windows.places)) + 1
        b_size = round_up(images * g.windows.image + slack, 64)
    buffers = [Value("ptr", "null")] * 3
    scratch = None
    extent = g.rows(b) if plan.split_rows else Index(None, c.n)
    every = Index(None, plan.pieces)
    if extent.value is not None:
        every = b.binary("udiv", extent + (plan.piece - 1), plan.piece)
    if a_size or b_size or g.partial:
        total = Index(None, (a_size + b_size) * size + 64)
        if g.partial:
            pieces = b.binary("umin", b.binary("sub", end, begin), every)
            rows = b.scale(pieces, plan.piece) if plan.split_rows else Index(None, round_up(c.m, plan.rows))
            total = b.add(b.scale(rows, plan.column_block * size), total)
        scratch = b.instruction("ptr", f"call ptr @malloc({b.number(total)})")
        aligned = b.pure("ptr", f"getelementptr i8, {scratch}, i64 63")
        aligned = b.pure("ptr", f"call ptr @llvm.ptrmask.p0.i64({aligned}, i64 -64)")
        buffers = [b.address(aligned, at, g.accumulator) for at in (0, a_size, a_size + b_size)]
        g.functions["malloc"] = "declare ptr @malloc(i64)\ndeclare void @free(ptr)\n"
    with b.loop(begin, end, 1) as loop:
        batch, piece = Index(None, 0), loop.index
        if plan.chunks != plan.pieces:
            batch, piece = (b.binary(op, loop.index, every) for op in ("udiv", "urem"))
        count = b.binary("umin", b.binary("sub", end, loop.index), b.binary("sub", every, piece))
        loop.step = b.number(count)
        first = b.scale(piece, plan.piece)
        last = b.binary("umin", b.add(first, b.scale(count, plan.piece)), extent)
        ends = [first, last]
        whole = [Index(None, 0), Index(None, c.n if plan.split_rows else c.m)]
        ranges = ends + whole if plan.split_rows else whole + ends
        _region(g, b, batch, ranges, buffers)
    if scratch is not None:
        b.statement(f"call void @free({scratch})")
