"""How a contraction is computed: what a list of opts means for it.

Its axes are 0, the rows (the ranges that the left factor alone depends on), 1, the columns, and 2, the sum; each may be several
ranges of the nest. SWAP:0:1 computes the transpose: all that is said below of rows is then true of columns, and the reverse.

    UPCAST:1:n    a vector has n columns; UPCAST:2:n: n elements of the sum, for dot products. Without: one element
    UNROLL:0:n    a tile, whose sums are in registers, has n rows; UNROLL:1:n: n vectors (for dot products, n columns)
    LOCAL:0       rows are packed: copied, a block at a time, to where tiles read them in order; LOCAL:1: columns are
    LOCAL:1:windows  columns are windows of images, and the images that a block has are copied (`gemm_windows`)
    GROUP:0:n     blocks for the caches have n rows; GROUP:1:n: n columns; GROUP:2:n: n elements of the sum
    GROUPTOP:0:n  threads take runs of n rows; GROUPTOP:1:n: of n columns. Without: whole matrices

Bits depend on one of these alone: on UPCAST of the sum, which makes an element as many interleaved chains as a vector has lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm, prod
from typing import NamedTuple

from .gemm_matrix import Contraction, digits_of, unrolled, windows_of
from .opts import Opt, OptError, OptOps
from .target import Target

ROWS, COLUMNS, SUM = 0, 1, 2
WINDOWS = "windows"
# A partial tile at the last row can be done as a whole one if that has so few rows that a pointer to each fits the registers.
SHARED_ROWS = 8
# And one at the last column where it is one of so many that sums of columns that are not there cost little.
MANY_COLUMNS = 8
CALL_PRODUCTS = 1 << 17  # multiplications that are worth a call on another thread
_SIZED = (OptOps.UPCAST, OptOps.UNROLL, OptOps.GROUP, OptOps.GROUPTOP)


class Plan(NamedTuple):
    """Opts that were applied. Sizes are in elements; chunks are pieces of the rows or columns of one matrix of the batch."""

    dots: bool  # vectors along k rather than along n
    lanes: int  # of a vector
    rows: int  # of a tile, MR
    columns: int  # of a tile, NR
    row_block: int  # MC
    k_block: int  # KC
    column_block: int  # NC
    pack_a: bool
    pack_b: bool
    windows: bool  # pack_b: the images, and not their windows
    split_rows: bool
    piece: int  # rows or columns of a chunk
    pieces: int
    k_blocks: int
    chunks: int
    grain: int  # chunks that a call should have
    calls: int  # that there should be at most


def apply(contraction: Contraction, opts: Sequence[Opt], target: Target) -> tuple[Contraction, Plan]:
    """The contraction, or its transpose, and what a list of opts means for it; raises OptError for one that does not fit.

    The target decides only about the number of chunks that a call should have."""
    sizes: dict[tuple[OptOps, int], int] = {}
    local: dict[int, str | None] = {}
    swapped = any(opt.op is OptOps.SWAP for opt in opts)
    if swapped and contraction.open_rows is not None:
        raise OptError("rows of a symbolic number stay rows")
    order = (COLUMNS, ROWS, SUM) if swapped else (ROWS, COLUMNS, SUM)
    for opt in opts:
        if opt.axis not in order:
            raise OptError(
                f"{opt}: the axes of a contraction are 0, its rows, 1, its columns, and 2, its sum"
            )
        axis = order[opt.axis]
        if opt.op is OptOps.SWAP:
            if {opt.axis, opt.arg} != {ROWS, COLUMNS}:
                raise OptError(f"{opt}: rows and columns can be exchanged")
        elif opt.op is OptOps.LOCAL:
            if axis == SUM or opt.arg not in (None, WINDOWS):
                raise OptError(f"{opt}: rows or columns are packed, in the blocks of GROUP")
            local[axis] = opt.arg
        elif opt.op not in _SIZED:
            raise OptError(f"{opt} is for GPUs")
        elif not isinstance(opt.arg, int) or opt.arg < 1 or (opt.op, axis) in sizes:
            raise OptError(f"{opt} needs a positive number, and to be there once")
        else:
            sizes[opt.op, axis] = opt.arg
    return _plan(contraction.transposed if swapped else contraction, sizes, local, target)


def _plan(
    c: Contraction, sizes: dict[tuple[OptOps, int], int], local: dict[int, str | None], target: Target
) -> tuple[Contraction, Plan]:
    dots = (OptOps.UPCAST, SUM) in sizes
    if c.open_rows is not None and (OptOps.GROUPTOP, ROWS) not in sizes:
        raise OptError("threads take so many rows, where their number is symbolic: it needs GROUPTOP")
    if dots and (c.open_rows is not None or c.open_sum is not None):
        raise OptError("dot products are of known sizes")
    lanes = sizes.get((OptOps.UPCAST, SUM if dots else COLUMNS), 1)
    if sum(op is OptOps.UPCAST for op, _ in sizes) > (lanes > 1 or dots) or lanes & (lanes - 1):
        raise OptError(
            "vectors run along the columns (the rows, with SWAP) or the sum, and have a power of two of lanes"
        )
    if (OptOps.UNROLL, SUM) in sizes or (OptOps.GROUPTOP, SUM) in sizes:
        raise OptError("the sum is not unrolled, and not divided among threads")
    if dots and (COLUMNS in local or (OptOps.GROUP, SUM) in sizes):
        raise OptError("dot products read the columns where they are, and the sum in one block")
    windows = windows_of(c.producer_b) if local.get(COLUMNS) == WINDOWS else None
    if WINDOWS in local.values() and (
        windows is None or windows.places[-1] % lanes or (OptOps.GROUP, SUM) in sizes
    ):
        raise OptError(
            "images are packed where columns are their windows, each vector in one row, and the sum is one block"
        )
    rows, columns = (sizes.get((OptOps.UNROLL, axis), 1) for axis in (ROWS, COLUMNS))
    columns *= 1 if dots else lanes
    depth = lcm(lanes, unrolled(digits_of(c.producer_b)) if c.producer_b is not None and not dots else 1)

    def block(op: OptOps, axis: int, extent: int, unit: int) -> int:
        size = sizes.get((op, axis))
        if size is not None and size % unit:
            raise OptError(f"{op.name}:{axis}:{size}: not a multiple of {unit}")
        return round_up(max(1, extent), unit) if size is None else size

    row_block = block(OptOps.GROUP, ROWS, c.m, rows)
    column_block = block(OptOps.GROUP, COLUMNS, c.n, columns)
    k_block = block(OptOps.GROUP, SUM, c.k, depth)
    split_rows = (OptOps.GROUPTOP, COLUMNS) not in sizes
    if not split_rows and (OptOps.GROUPTOP, ROWS) in sizes:
        raise OptError("threads take rows or columns")
    axis, extent, unit = (ROWS, c.m, rows) if split_rows else (COLUMNS, c.n, columns)
    piece = block(OptOps.GROUPTOP, axis, extent, unit)
    pieces, batch = -(-extent // piece), prod(c.batch)
    chunks = batch * pieces if c.m and c.n else 0
    # A call a core, as each copies B for itself, or two where nothing is copied; none of less than about a microsecond.
    most = target.cores if COLUMNS in local else 2 * target.cores
    calls = min(most, batch * c.m * c.n * c.k // CALL_PRODUCTS)
    grain = max(1, -(-chunks // max(1, calls)))
    return c, Plan(
        dots, lanes, rows, columns, row_block, k_block, column_block, ROWS in local, COLUMNS in local,
        windows is not None, split_rows, piece, pieces, max(1, -(-c.k // k_block)), chunks, grain, most,
    )  # fmt: skip


def round_up(size: int, unit: int) -> int:
    """The next multiple of unit."""
    return -(-size // unit) * unit
