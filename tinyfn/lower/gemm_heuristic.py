"""The heuristic's opts for a contraction, from its shape, its strides, and a model of the target: what `gemm_plan` applies."""

from __future__ import annotations

from functools import lru_cache
from math import gcd, lcm, prod
from typing import Any

from .gemm_matrix import Contraction, Windows, digits_of, unrolled, windows_of
from .gemm_plan import COLUMNS, ROWS, SHARED_ROWS, SUM, WINDOWS, round_up
from .opts import Opt, OptOps
from .target import Target

THIN = 4  # rows of A that do not repay a copy of B


def choose(contraction: Contraction, target: Target) -> tuple[Opt, ...]:
    """The opts for a contraction."""
    swapped = exchanges(contraction)
    c = contraction.transposed if swapped else contraction
    size = c.accumulator.itemsize
    opts: list[Opt] = []
    how: str | None = None

    def add(op: OptOps, axis: int, arg: Any = None) -> None:
        opts.append(Opt(op, 1 - axis if swapped and axis != SUM else axis, arg))

    if swapped:
        opts.append(Opt(OptOps.SWAP, ROWS, COLUMNS))
    plain_a = c.producer_a is None and c.a.dtype == c.accumulator
    plain_b = c.producer_b is None and c.b.dtype == c.accumulator
    along_k = c.b.row == 1 and (c.b.column != 1 or c.n == 1) and (c.m <= THIN or plain_b)
    is_open = c.open_rows is not None or c.open_sum is not None
    if along_k and not is_open and dots_pay(c.m, c.n, c.k, c.a.column == 1):
        # One chain a lane of 64 bytes, more where there are few results: of the shape alone, as it decides about the bits.
        lanes = 64 // size * max(1, 8 // max(1, c.m * c.n))
        registers = target.vector_registers * target.vector_bytes // 64
        tiles = -(-c.m // (5 if registers >= 32 else 2))
        rows = -(-c.m // tiles) if tiles else 1
        columns = vectors = max(1, min(c.n, 8, (registers - 1 - rows) // rows))
        add(OptOps.UPCAST, SUM, lanes)
        pack_a, pack_b = c.n > columns and not (plain_a and c.a.column == 1), False
        blocks: tuple[tuple[int, int, int], ...] = ()
    else:
        lanes = max(1, target.vector_bytes // size)
        height = c.m if c.open_rows is None else SHARED_ROWS
        rows, vectors = tile_shape(height, -(-c.n // lanes), target.vector_registers)
        columns = vectors * lanes
        add(OptOps.UPCAST, COLUMNS, lanes)
        # Copying B pays off when enough rows of A use it, and A then too; casts and other producers run once an element.
        large = c.k * c.n * size > target.l2_bytes // 2 and c.m > 192
        pack_b = c.b.column != 1 or (c.m > rows and (large or not plain_b))
        pack_a = not plain_a or (c.n > columns and large) or _rows_collide(c, rows)
        # A panel of B stays in the second cache while the rows pass by; less of it where it is made while it is in the first.
        panel = target.l2_bytes // (4 if c.producer_b is None else 8)
        k_block = round_up(panel // (columns * size), lanes)
        if not pack_b and c.m <= THIN:
            k_block = 16  # streams of whole rows of B, past sums of C that stay in the first cache
        unit = lcm(lanes, unrolled(digits_of(c.producer_b)) if c.producer_b else 1)
        k_block = even_blocks(c.k, k_block, unit)
        row_block = max(rows, target.l2_bytes // 2 // (k_block * size) // rows * rows)
        # Packed columns are used again by other blocks of rows, from the third cache, or by the tiles of the only one.
        cache = target.l3_bytes // 4 if c.m > row_block else target.l2_bytes // 2
        column_block = max(columns, min(4096, cache // (k_block * size)) // columns * columns)
        windows = windows_of(c.producer_b)
        if windows is not None and _copies_images(windows, c, lanes, target):
            pack_b, how = True, WINDOWS
            images = max(1, target.l2_bytes // 2 // (windows.image * size))
            column_block = max(columns, images * prod(windows.places) // columns * columns)
            k_block = c.k
        blocks = (ROWS, row_block, c.m), (COLUMNS, column_block, c.n), (SUM, k_block, c.k)
    for axis, count in ((ROWS, rows), (COLUMNS, vectors)):
        if count > 1:
            add(OptOps.UNROLL, axis, count)
    if pack_a:
        add(OptOps.LOCAL, ROWS)
    if pack_b:
        add(OptOps.LOCAL, COLUMNS, how)
    for axis, block, extent in blocks:
        if block < extent:
            add(OptOps.GROUP, axis, block)
    extent, unit, axis = (c.m, rows, ROWS) if c.m >= c.n else (c.n, columns, COLUMNS)
    wanted = 1 if prod(c.batch) >= 4 * target.cores else 64 * target.cores
    piece = round_up(max(1, -(-extent // wanted)), unit)
    if c.open_rows is not None:
        add(OptOps.GROUPTOP, ROWS, rows)  # neighbouring pieces are run as one
    elif piece < extent:
        add(OptOps.GROUPTOP, axis, piece)
    return tuple(opts)


def dots_pay(m: int, n: int, k: int, a_along_k: bool) -> bool:
    """Whether to compute m rows, times columns that are contiguous in k, as dot products."""
    return m <= THIN or (a_along_k and m <= n and ((m <= 16 and k >= 256) or (m <= 32 and k >= 1024)))


def exchanges(contraction: Contraction) -> bool:
    """Whether the transpose is computed: so that A is the thin operand of dot products, else so that rows of C are contiguous."""
    c = contraction
    if c.open_rows is not None:
        return False
    column_vector = c.n == 1 and c.m > 1
    plain_a, plain_b = (x.dtype == c.accumulator for x in (c.a, c.b))
    plain_a, plain_b = plain_a and c.producer_a is None, plain_b and c.producer_b is None
    thin = (
        c.open_sum is None
        and c.n < c.m
        and c.a.column == 1
        and (c.n <= THIN or plain_a)
        and dots_pay(c.n, c.m, c.k, c.b.row == 1)
    )
    flat = (
        c.open_sum is None
        and c.m <= c.n
        and c.b.row == 1
        and (c.m <= THIN or plain_b)
        and dots_pay(c.m, c.n, c.k, c.a.column == 1)
    )
    columns_contiguous = c.c.row == 1 and c.c.column != 1 and c.n > 1
    if c.a.column == 1 and c.b.row == 1 and not flat and windows_of(c.producer_a) is None:
        # Both are packed from rows along k, B by transposing squares. For long sums that should be the smaller one, although
        # then C may be stored element by element. Cycles for an element, about: 0.4 for transposing, 1.5 for storing.
        if 0.4 * abs(c.n - c.m) * c.k > 1.5 * c.m * c.n:
            columns_contiguous = c.m < c.n
    return column_vector or thin or columns_contiguous


def _copies_images(w: Windows, c: Contraction, lanes: int, target: Target) -> bool:
    """Whether images are copied and not their windows: if their rows are whole vectors, and they fit into the second cache."""
    size = c.accumulator.itemsize
    fits = w.image * size <= target.l2_bytes // 2 and c.k * lanes * size <= target.l2_bytes // 4
    return fits and w.places[-1] % lanes == 0 and prod(w.taps) > 2


def _rows_collide(c: Contraction, rows: int) -> bool:
    """Whether the rows of a tile of A, if they are read where they are, evict each other from the first cache.

    Rows a multiple of 4096 bytes apart are in one of its sets, of which 8 lines or more are kept at a time."""
    distance = abs(c.a.row) * c.a.dtype.itemsize
    return distance > 0 and rows > 8 * 4096 // gcd(distance, 4096)


def even_blocks(extent: int, block: int, unit: int) -> int:
    """A block size, a multiple of unit, near `block`, that leaves no small last block."""
    count = max(1, round(extent / block))
    return max(unit, round_up(-(-extent // count), unit))


@lru_cache(256)
def tile_shape(m: int, vectors: int, registers: int) -> tuple[int, int]:
    """Rows and vectors of the register tile that takes the fewest cycles for m rows of so many vectors.

    Model: two FMAs a cycle with four cycles of latency, a tenth of a cycle a load, and one for the loop (measured on a
    Zen 5). Registers hold the accumulators, a row of B and an element of A.
    """

    def cycles(r: int, v: int) -> float:
        return max(r * v / 2, 4) + (r + v) / 10 + 1 if r and v else 0

    def cost(shape: tuple[int, int]) -> tuple[float, int]:
        r, v = shape
        whole, rest = m // r, m % r
        total = 0.0
        for count, width in ((vectors // v, v), (1, vectors % v)):
            total += count * (whole * cycles(r, width) + cycles(rest, width))
        own = 0.02 * bool(rest) + 0.03 * bool(vectors % v)  # each costs a tile more of code
        return total * (1 + own), -r * v

    shapes = [
        (r, v)
        for v in range(1, max(1, min(vectors, registers // 2)) + 1)
        for r in range(1, max(v == 1, min(m, (registers - 1) // v - 1)) + 1)
    ]
    return min(shapes, key=cost)
