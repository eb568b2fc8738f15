"""The functions of one contraction kernel: their parameters, and loops that all of them use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .gemm_matrix import Builder, Contraction, Matrix, Place, Producer, windows_of
from .gemm_plan import MANY_COLUMNS, SHARED_ROWS, Plan
from .gemm_writer import Index, Value
from .target import Target

_ATTRIBUTES = 'nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512"'


class Functions:
    """The functions of a kernel that are being written, and what all of them go by."""

    def __init__(self, name: str, contraction: Contraction, target: Target, plan: Plan) -> None:
        self.name, self.contraction, self.plan, self.fma = name, contraction, plan, target.has_fma
        self.functions: dict[str, str] = {}
        c = contraction
        self.accumulator = c.accumulator
        self.a, self.b = (c.a, c.producer_a), (c.b, c.producer_b)
        self.windows = windows_of(c.producer_b) if plan.windows else None
        # A is packed along the axis in which it is contiguous, so that packing never has to transpose it.
        self.a_by_rows = plan.dots or c.a.column == 1 or c.a.row != 1 or c.open_rows is not None
        self.a_stride = plan.k_block + (64 // c.accumulator.itemsize if self.a_by_rows else 0)
        # Whether partial tiles at the last row, or column, are done by the code of whole ones. Without an epilogue a smaller
        # tile of their own takes LLVM no longer than a choice of the rows to store.
        fits = plan.rows <= SHARED_ROWS or plan.pack_a
        partial_rows = c.m > plan.rows and c.m % plan.rows > 0
        self.shares_rows = not plan.dots and c.epilogue is not None and fits and partial_rows
        if c.open_rows is not None:
            self.shares_rows = True  # however many rows the last tile has
        # At the last column those whose last vector alone is partial, or, of packed ones, those that come after many whole ones.
        missing = -c.n % plan.columns
        many = plan.pack_b and plan.lanes > 1 and c.n > MANY_COLUMNS * plan.columns
        self.shares_columns = (
            not plan.dots and c.n > plan.columns and 0 < missing and (missing < plan.lanes or many)
        )
        self.partial = plan.k_blocks > 1 and (c.scratch or c.c.dtype != self.accumulator)

    def rows(self, b: Builder) -> Index:
        """The number of rows."""
        c = self.contraction
        return Index(None, c.m) if c.open_rows is None else c.open_rows(b)

    def depth(self, b: Builder) -> Index:
        """The number of elements of the sum."""
        c = self.contraction
        return Index(None, c.k) if c.open_sum is None else c.open_sum(b)

    def function(
        self, name: str, indices: str, pointers: str = "", external: bool = False
    ) -> tuple[Builder, list[Index], list[Value]]:
        """A new function of the arguments' pointer, some indices and some pointers."""
        numbers = [Value("i64", f"%{index}") for index in indices.split()]
        places = [Value("ptr", f"%{pointer}") for pointer in pointers.split()]
        parameters = ", ".join(["ptr %arguments", *map(str, numbers + places)])
        inside = "" if external else "internal "
        signature = f"{inside}void @{name}({parameters}) {'' if external else 'noinline '}{_ATTRIBUTES}"
        return Builder(signature, self.contraction.batch, self.fma), [Index(v, 0) for v in numbers], places

    def produce(self, b: Builder, operand: tuple[Matrix, Producer | None], place: Place) -> Value:
        """Elements of A or B, in the accumulator's dtype.

        Those that the mask excludes are zeros in dot products, which add up all lanes; elsewhere they are not used."""
        matrix, producer = operand
        if producer is None:
            return b.convert(b.read(matrix, place), matrix.dtype, self.accumulator, place.lanes)
        value = producer(b, place)
        if place.mask is None or not self.plan.dots:
            return value
        return b.pure(value.type, f"select {place.mask}, {value}, {value.type} zeroinitializer")

    def sweep(
        self,
        b: Builder,
        start: Index,
        stop: Index,
        step: int,
        extent: int,
        body: Callable[[Index, int], None],
        shares: bool = False,
    ) -> None:
        """Steps of a fixed size, and a smaller one at the end of the whole extent, unless that shares the code of the others."""
        if shares:
            with b.loop(start, stop, step) as loop:
                body(loop.index, step)
            return
        rest = extent % step
        if extent < step:
            body(start, rest)
            return
        with b.loop(start, b.binary("sub", stop, step - 1), step) as loop:
            body(loop.index, step)
        if rest:
            b.choose(b.compare("slt", loop.index, stop), lambda: body(loop.index, rest))

    @contextmanager
    def blocks(
        self, b: Builder, start: Index, stop: Index, size: int, extent: int
    ) -> Iterator[tuple[Index, Index]]:
        """The starts and ends of blocks of a size; no loop if the whole extent is one block."""
        if extent <= size:
            yield start, stop
        else:
            with b.loop(start, stop, size) as loop:
                yield loop.index, b.binary("umin", loop.index + size, stop)

    def mask(self, b: Builder, count: int) -> Value | None:
        """The mask of the first lanes, None if it is all of them."""
        return b.first_lanes(count, self.plan.lanes) if count < self.plan.lanes else None
