"""Tiles: a few rows by a few vectors of sums, in registers from the first product to the last, then finished and stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..trace.dtype import DType
from .gemm_functions import Functions
from .gemm_matrix import Builder, Place, following
from .gemm_windows import at_column, at_tap
from .gemm_writer import TYPES, Index, Value, vector_type


def tile(g: Functions, rows: int, columns: int) -> str:
    """A tile of C, for a block of k: in registers from its first product to its last."""
    name = f"{g.name}.tile.{rows}x{columns}"
    if name in g.functions:
        return name
    b, indices, pointers = g.function(name, "batch row column k k_end", "a b partial")
    (_dots if g.plan.dots else _products)(g, b, indices, pointers, rows, columns)
    g.functions[name] = b.text()
    return name


def _products(
    g: Functions, b: Builder, indices: list[Index], pointers: list[Value], rows: int, columns: int
) -> None:
    """A tile whose vectors run along the rows of C: each element of A times a row of B, k after k.

    With an epilogue, whose code is long, a partial tile at the last row runs the code of a whole one, on its last row again and
    again, and stores less."""
    plan, c, dtype, lanes = g.plan, g.contraction, g.accumulator, g.plan.lanes
    batch, row, column, k_start, k_end = indices
    packed_a, packed_b, partial = pointers
    starts = range(0, columns, lanes)
    masks: list[Value | None] = [None] * len(starts)
    if columns % lanes:
        masks[-1] = g.mask(b, columns % lanes)
    elif g.shares_columns and (c.n % lanes or c.epilogue is None):
        for number in range(c.n % columns // lanes, len(starts)):
            left = b.binary("smax", b.binary("sub", c.n, column + starts[number]), 0)
            masks[number] = b.first_lanes(left, lanes)
    rest = c.m % rows if g.shares_rows and c.open_rows is None else int(g.shares_rows)
    last = g.rows(b) + -1
    tile_rows = [b.binary("umin", row + i, last) if rest and i >= rest else row + i for i in range(rows)]
    tile_columns = [column + at for at in starts]
    width = len(tile_columns)
    count = b.binary("umin", b.binary("sub", g.rows(b), row), rows) if rest else Index(None, rows)

    def place(number: int) -> Place:
        i, v = divmod(number, width)
        return Place(batch, tile_rows[i], tile_columns[v], 1, lanes, masks[v], lanes)

    def begin() -> list[Value]:
        return [b.constant(0, dtype, lanes)] * (rows * width)

    def partial_at(number: int) -> Value:
        i, v = divmod(number, width)
        return b.address(partial, i * plan.column_block + v * lanes, dtype)

    def resume() -> list[Value]:
        if not g.partial:
            return [b.convert(b.read(c.c, place(i)), c.c.dtype, dtype, lanes) for i in range(rows * width)]
        return [b.load(partial_at(i), dtype, lanes) for i in range(rows * width)]

    def interrupt() -> None:
        for i, value in enumerate(sums):
            if g.partial:
                b.store(value, partial_at(i), dtype)
            else:
                b.write(c.c, place(i), value)

    sums = begin() if plan.k_blocks == 1 else b.choose(b.compare("eq", k_start, 0), begin, resume)
    if c.k:
        w, first = g.windows, [b.number(0)] * (0 if g.windows is None else 1 + len(g.windows.taps))
        depth = b.binary("sub", k_end, k_start)
        with b.loop(Index(None, 0), depth, 1, [*sums, *first], nonempty=True) as loop:
            k = b.add(k_start, loop.index)
            if w is not None:
                tap = [Index(value, 0) for value in loop.carried[len(sums) :]]
                pointers = [b.address(packed_b, at_column(b, w, each), dtype) for each in tile_columns]
                b_row = [b.load(b.address(p, at_tap(b, w, tap), dtype), dtype, lanes) for p in pointers]
                loop.carried[len(sums) :] = map(b.number, following(b, tap, (w.channels, *w.taps)))
            elif plan.pack_b:
                at_k = b.scale(loop.index, plan.columns)
                b_row = [b.load(b.address(packed_b, at_k + at, dtype), dtype, lanes) for at in starts]
            else:
                b_row = [
                    g.produce(b, g.b, Place(batch, k, each, 1, lanes, mask, lanes))
                    for each, mask in zip(tile_columns, masks, strict=True)
                ]
            if plan.pack_a:
                steps = (1, g.a_stride) if g.a_by_rows else (plan.rows, 1)
                column_of_a = b.address(packed_a, b.scale(loop.index, steps[0]), dtype)
            for i in range(rows):
                if plan.pack_a:
                    element = b.load(b.address(column_of_a, i * steps[1], dtype), dtype)
                else:
                    element = g.produce(b, g.a, Place(batch, tile_rows[i], k))
                element = b.splat(element, lanes)
                for v, vector in enumerate(b_row):
                    number = i * len(b_row) + v
                    loop.carried[number] = b.multiply_add(element, vector, loop.carried[number], dtype)
        sums = loop.carried[: rows * width]

    def finish() -> None:
        _finish(g, b, sums, place, width, count)

    if plan.k_blocks == 1 or (c.epilogue is None and not g.partial):
        finish()
    else:
        b.choose(b.compare("eq", k_end, g.depth(b)), finish, interrupt)


def _dots(
    g: Functions, b: Builder, indices: list[Index], pointers: list[Value], rows: int, columns: int
) -> None:
    """A tile of dot products, whose vectors run along k."""
    c, dtype, lanes = g.contraction, g.accumulator, g.plan.lanes
    batch, row, column = indices[:3]
    sums = [b.constant(0, dtype, lanes)] * (rows * columns)

    def a_row(i: int, k: Index, mask: Value | None) -> Value:
        if g.plan.pack_a:
            return b.load(b.address(pointers[0], k + i * g.a_stride, dtype), dtype, lanes)
        return g.produce(b, g.a, Place(batch, row + i, k, 1, lanes, mask, lanes))

    def step(k: Index, count: int, sums: list[Value]) -> list[Value]:
        mask = g.mask(b, count)
        a_rows = [a_row(i, k, mask) for i in range(rows)]
        for j in range(columns):
            vector = g.produce(b, g.b, Place(batch, k, column + j, 0, lanes, mask, lanes))
            for i in range(rows):
                sums[i * columns + j] = b.multiply_add(a_rows[i], vector, sums[i * columns + j], dtype)
        return sums

    whole = c.k - c.k % lanes
    if whole:
        with b.loop(0, whole, lanes, sums, nonempty=True) as loop:
            loop.carried = step(loop.index, lanes, loop.carried)
        sums = loop.carried
    if c.k % lanes:
        sums = step(Index(None, whole), c.k % lanes, sums)
    # Each row of results becomes a vector, so that an epilogue computes with vectors here as well.
    reduced = [reduce_lanes(b, value, dtype, lanes) for value in sums]
    rows_of_sums = [b.keep(reduced[i * columns :][:columns], dtype, 1) for i in range(rows)]
    totals = [b.load(kept, dtype, columns) for kept in rows_of_sums]
    _finish(g, b, totals, lambda i: Place(batch, row + i, column, 1, columns), 1, Index(None, rows))


def _finish(
    g: Functions,
    b: Builder,
    sums: Sequence[Value],
    place: Callable[[int], Place],
    width: int,
    count: Index,
) -> None:
    """The epilogue and the store of the first rows of a tile, so many of them, of `width` vectors each."""
    c, dtype = g.contraction, g.accumulator
    epilogue = c.epilogue
    if epilogue is None:
        for i, value in enumerate(sums):
            b.write(c.c, at := place(i), b.convert(value, dtype, c.c.dtype, at.lanes))
        return

    def body(at: Place, value: Value) -> None:
        made = epilogue(b, at, value)
        if made is None:
            return
        if made.type == vector_type(dtype, at.lanes):
            made = b.convert(made, dtype, c.c.dtype, at.lanes)
        b.write(c.c, at, made)

    _each(g, b, sums, (place(0), place(width - 1)), width, count, body)


def _each(
    g: Functions,
    b: Builder,
    sums: Sequence[Value],
    row: tuple[Place, Place],
    width: int,
    count: Index,
    body: Callable[[Place, Value], None],
) -> None:
    """What is to be done for each vector of a tile, in loops so that its code is short; `row`: the first row's first and last."""
    dtype, (first, last), lanes = g.accumulator, row, row[0].lanes
    kept = b.keep(sums, dtype, lanes)
    vectors = Index(None, width)
    if g.shares_columns:
        present = b.binary("sub", g.contraction.n, first.column) + (lanes - 1)
        vectors = b.binary("umin", b.binary("udiv", present, lanes), width)
    with b.loop(0, vectors, 1, nonempty=True) as across:
        column = b.add(first.column, b.scale(across.index, lanes))
        mask = last.mask
        if mask is not None:
            mask = b.first_lanes(b.binary("sub", g.contraction.n, column), lanes)
        with b.loop(0, count, 1, nonempty=True) as down:
            at = b.add(b.scale(down.index, width * lanes), b.scale(across.index, lanes))
            value = b.load(b.address(kept, at, dtype), dtype, lanes)
            body(first._replace(row=b.add(first.row, down.index), column=column, mask=mask), value)


def reduce_lanes(b: Builder, value: Value, dtype: DType, lanes: int) -> Value:
    """The sum of a vector's lanes, halves first."""
    while lanes > 1:
        lanes //= 2
        halves = [b.shuffle(value, value, range(at, at + lanes)) for at in (0, lanes)]
        value = b.sum(halves[0], halves[1], dtype)
    return b.instruction(TYPES[dtype], f"extractelement {value}, i32 0")
