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
    places = [
        Place(batch, tile_row, column + at, 1, lanes, mask, lanes)
        for tile_row in tile_rows
        for at, mask in zip(starts, masks, strict=True)
    ]
    count = b.binary("umin", b.binary("sub", g.rows(b), row), rows) if rest else Index(None, rows)

    def begin() -> list[Value]:
        return [b.constant(0, dtype, lanes)] * len(places)

    def partial_at(number: int) -> Value:
        i, v = divmod(number, len(starts))
        return b.address(partial, i * plan.column_block + v * lanes, dtype)

    def resume() -> list[Value]:
        if not g.partial:
            return [b.convert(b.read(c.c, place), c.c.dtype, dtype, lanes) for place in places]
        return [b.load(partial_at(i), dtype, lanes) for i in range(len(places))]

    def interrupt() -> None:
        for i, value in enumerate(sums):
            if g.partial:
                b.store(value, partial_at(i), dtype)
            else:
                b.write(c.c, places[i], value)

    sums = begin() if plan.k_blocks == 1 else b.choose(b.compare("eq", k_start, 0), begin, resume)
    if c.k:
        w, first = g.windows, [b.number(0)] * (0 if g.windows is None else 1 + len(g.windows.taps))
        depth = b.binary("sub", k_end, k_start)
        with b.loop(Index(None, 0), depth, 1, [*sums, *first], nonempty=True) as loop:
            k = b.add(k_start, loop.index)
            if w is not None:
                tap = [Index(value, 0) for value in loop.carried[len(sums) :]]
                pointers = [b.address(packed_b, at_column(b, w, column + at), dtype) for at in starts]
                b_row = [b.load(b.address(p, at_tap(b, w, tap), dtype), dtype, lanes) for p in pointers]
                loop.carried[len(sums) :] = map(b.number, following(b, tap, (w.channels, *w.taps)))
            elif plan.pack_b:
                at_k = b.scale(loop.index, plan.columns)
                b_row = [b.load(b.address(packed_b, at_k + at, dtype), dtype, lanes) for at in starts]
            else:
                b_row = [
                    g.produce(b, g.b, Place(batch, k, column + at, 1, lanes, mask, lanes))
                    for at, mask in zip(starts, masks, strict=True)
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
        sums = loop.carried[: len(places)]

    def finish() -> None:
        _finish(g, b, sums, places, count)

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
    places = [Place(batch, row + i, column, 1, columns) for i in range(rows)]
    reduced = [reduce_lanes(b, value, dtype, lanes) for value in sums]
    rows_of_sums = [b.keep(reduced[i * columns :][:columns], dtype, 1) for i in range(rows)]
    totals = [b.load(kept, dtype, columns) for kept in rows_of_sums]
    _finish(g, b, totals, places, Index(None, rows))


def _finish(g: Functions, b: Builder, sums: Sequence[Value], places: Sequence[Place], count: Index) -> None:
    """The epilogue and the store of the first rows of a tile, so many of them."""
    c, dtype = g.contraction, g.accumulator
    epilogue = c.epilogue
    if epilogue is None:
        for place, value in zip(places, sums, strict=True):
            b.write(c.c, place, b.convert(value, dtype, c.c.dtype, place.lanes))
        return

    def body(place: Place, value: Value) -> None:
        made = epilogue(b, place, value)
        if made is None:
            return
        if made.type == vector_type(dtype, place.lanes):
            made = b.convert(made, dtype, c.c.dtype, place.lanes)
        b.write(c.c, place, made)

    _each(g, b, sums, places, count, body)


def _each(
    g: Functions,
    b: Builder,
    sums: Sequence[Value],
    places: Sequence[Place],
    count: Index,
    body: Callable[[Place, Value], None],
) -> None:
    """What is to be done for each vector of a tile, in loops so that its code is short."""
    dtype, first, lanes = g.accumulator, places[0], places[0].lanes
    width = sum(place.row == first.row for place in places)
    kept = b.keep(sums, dtype, lanes)
    vectors = Index(None, width)
    if g.shares_columns:
        present = b.binary("sub", g.contraction.n, first.column) + (lanes - 1)
        vectors = b.binary("umin", b.binary("udiv", present, lanes), width)
    with b.loop(0, vectors, 1, nonempty=True) as across:
        column = b.add(first.column, b.scale(across.index, lanes))
        mask = places[width - 1].mask
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
