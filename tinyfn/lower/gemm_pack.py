"""Packing: blocks of the operands copied to where a tile reads them in order, made by producers if they have one."""

from __future__ import annotations

from .gemm_functions import Functions
from .gemm_matrix import Builder, Place, Producer, digits, digits_of, following, unrolled
from .gemm_writer import Index, Value


def pack_a(g: Functions) -> str:
    """Rows of A: each in a row of its own, or, if A is contiguous down its columns, in panels of [k][rows of a tile]."""
    name, plan, dtype = f"{g.name}.pack_a", g.plan, g.accumulator
    b, (batch, first, last, k_start, k_end), (to,) = g.function(name, "batch first last k k_end", "to")

    def row_vector(row: Index, target: Value, k: Index, count: int) -> None:
        mask = g.mask(b, count)
        if g.contraction.open_sum is not None:
            mask = b.first_lanes(b.binary("sub", g.depth(b), k), plan.lanes)
        value = g.produce(b, g.a, Place(batch, row, k, 1, plan.lanes, mask, plan.lanes))
        b.store(value, b.address(target, b.binary("sub", k, k_start), dtype), dtype)

    def row(row: Index, _: int) -> None:
        target = b.address(to, b.scale(b.binary("sub", row, first), g.a_stride), dtype)
        shares = g.contraction.open_sum is not None
        g.sweep(
            b, k_start, k_end, plan.lanes, g.contraction.k, lambda k, n: row_vector(row, target, k, n), shares
        )

    def panel(row: Index, rows: int) -> None:
        target = b.address(to, b.scale(b.binary("sub", row, first), plan.k_block), dtype)
        with b.loop(k_start, k_end, 1) as loop:
            column = b.address(target, b.scale(b.binary("sub", loop.index, k_start), plan.rows), dtype)
            for at in range(0, rows, plan.lanes):
                place = Place(batch, row + at, loop.index, 0, plan.lanes, g.mask(b, rows - at))
                # The lanes past the tile's rows are overwritten by the next store.
                b.store(g.produce(b, g.a, place), b.address(column, at, dtype), dtype)

    if g.a_by_rows:
        g.sweep(b, first, last, 1, g.contraction.m, row)
    else:
        g.sweep(b, first, last, plan.rows, g.contraction.m, panel)
    g.functions[name] = b.text()
    return name


def pack_b(g: Functions) -> str:
    """Columns of B in panels of [k][columns of a tile]."""
    name, plan, c, dtype = f"{g.name}.pack_b", g.plan, g.contraction, g.accumulator
    b, (batch, first, last, k_start, k_end), (to,) = g.function(name, "batch first last k k_end", "to")
    lanes = plan.lanes

    def panel(column: Index, columns: int) -> None:
        target = b.address(to, b.scale(b.binary("sub", column, first), plan.k_block), dtype)
        with b.loop(k_start, k_end, 1) as loop:
            row = b.address(target, b.scale(b.binary("sub", loop.index, k_start), plan.columns), dtype)
            for at in range(0, columns, lanes):
                place = Place(batch, loop.index, column + at, 1, lanes, g.mask(b, columns - at), lanes)
                b.store(g.produce(b, g.b, place), b.address(row, at, dtype), dtype)

    # Squares of at most 8 by 8: shuffles of wider vectors take LLVM four times as long. A square at an edge reads its
    # last column again instead of the missing ones, and writes rows past the last k, which the panel has room for.
    side = min(lanes, 8)

    def square(column: Index, target: Value, k: Index) -> None:
        partial = c.k % side or c.open_sum is not None
        mask = b.first_lanes(b.binary("sub", g.depth(b), k), side) if partial else None
        vectors = []
        for i in range(side):
            at = b.binary("umin", column + i, c.n - 1) if c.n % side else column + i
            vectors.append(g.produce(b, g.b, Place(batch, k, at, 0, side, mask, side)))
        row = b.address(target, b.scale(b.binary("sub", k, k_start), plan.columns), dtype)
        for i, vector in enumerate(transpose(b, vectors)):
            b.store(vector, b.address(row, i * plan.columns, dtype), dtype)

    def squares() -> None:
        with b.loop(first, last, side) as columns:
            offset = b.binary("sub", columns.index, first)
            within = b.binary("urem", offset, plan.columns)
            target = b.address(to, b.scale(b.binary("sub", offset, within), plan.k_block), dtype)
            target = b.address(target, within, dtype)
            with b.loop(k_start, k_end, side) as loop:
                square(columns.index, target, loop.index)

    def vectors(producer: Producer) -> None:
        """Panels of a producer's values, a vector after the other, so that its code is there once."""
        sizes = digits_of(producer)
        with b.loop(first, last, lanes) as columns:
            offset = b.binary("sub", columns.index, first)
            within = b.binary("urem", offset, plan.columns)
            target = b.address(to, b.scale(b.binary("sub", offset, within), plan.k_block), dtype)
            target = b.address(target, within, dtype)
            mask = b.first_lanes(b.binary("sub", c.n, columns.index), lanes) if c.n % lanes else None
            place = Place(batch, k_start, columns.index, 1, lanes, mask, lanes)
            # The last digit is counted out where it is small, as in the window of a convolution: blocks of k are multiples of it.
            count = unrolled(sizes)
            counted = sizes[:-1] if count > 1 else sizes
            start = digits(b, b.binary("udiv", k_start, count), counted)
            with b.loop(k_start, k_end, count, [b.number(digit) for digit in start]) as loop:
                here = tuple([Index(value, 0) for value in loop.carried])
                row = b.address(target, b.scale(b.binary("sub", loop.index, k_start), plan.columns), dtype)
                for i in range(count):
                    last_digit = (Index(None, i),) if count > 1 else ()
                    at = place._replace(row=loop.index + i, digits=(*here, *last_digit))
                    b.store(g.produce(b, g.b, at), b.address(row, i * plan.columns, dtype), dtype)
                loop.carried = [b.number(digit) for digit in following(b, here, counted)]

    if c.b.row == 1 and c.b.column != 1:
        squares()
    elif c.producer_b is not None:
        vectors(c.producer_b)
    else:
        g.sweep(b, first, last, plan.columns, c.n, panel)
    g.functions[name] = b.text()
    return name


def transpose(b: Builder, vectors: list[Value]) -> list[Value]:
    """As many vectors as they have lanes, a power of two, transposed by swapping blocks of half the size in each round."""
    lanes, half = len(vectors), len(vectors) // 2
    while half:
        following = list(vectors)
        for i in range(lanes):
            if not i & half:
                low = [lane if not lane & half else lanes + lane - half for lane in range(lanes)]
                high = [lane + half if not lane & half else lanes + lane for lane in range(lanes)]
                pair = vectors[i], vectors[i + half]
                following[i], following[i + half] = b.shuffle(*pair, low), b.shuffle(*pair, high)
        vectors, half = following, half // 2
    return vectors
