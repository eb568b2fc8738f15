"""Points of nests, and tiles of them: what is walked along one range here and along another one there.

A tile has some points along both ranges, and is made of squares with as many points on each side as a vector has lanes. What is
read along the other range is read so and transposed in registers; then the square's points are computed row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ..trace.uop import UOp
from .index import LOAD
from .linear import linear
from .llvm_memory import Memory
from .llvm_scalar import memory_type
from .llvm_values import Frame
from .nest import Nest, elements_of, size_of
from .schedule import Plan, runs_along

# How many squares further down lies what is fetched into the second cache, while a square is read.
AHEAD = 2

Run = Callable[[int | str, int | str], None]


class Tiles(Memory):
    """Writes what visits the points of the outer ranges."""

    count = 1  # how many columns there are now
    large = False  # whether code is written once, with masks, and not a second time without

    def points(self, outer: Sequence[UOp], last: int | str, run: Run) -> None:
        """For each setting of the outer ranges the run of points, of `last` ones, that lies between begin and end."""
        if not outer:
            run(0, 1) if last == 1 else run("%begin", "%end")
            return

        def row(index: str, _: list[str]) -> list[str]:
            self._bind_all(outer, [0, *map(self.extent, outer[1:])], index)
            if last == 1:
                run(0, 1)
                return []
            done = self.op(f"mul nuw nsw i64 {index}, {last}")
            low = self.op(f"sub nsw i64 %begin, {done}")
            high = self.op(f"sub nsw i64 %end, {done}")
            run(
                self.call("i64", "llvm.smax.i64", ("i64", low), ("i64", "0")),
                self.call("i64", "llvm.smin.i64", ("i64", high), ("i64", str(last))),
            )
            return []

        first, stop = "%begin", "%end"
        if last != 1:
            first = self.op(f"udiv i64 %begin, {last}")
            before = self.op("sub nuw nsw i64 %end, 1")
            stop = self.op(f"add nuw nsw i64 {self.op(f'udiv i64 {before}, {last}')}, 1")
        self.loop(first, stop, 1, (), row)

    def _bind_all(self, ranges: Sequence[UOp], sizes: Sequence[int | str], point: str) -> None:
        """The ranges at a point, which counts them in row-major order."""
        for i in reversed(range(len(ranges))):
            if i:
                self.bind(ranges[i], self.op(f"urem i64 {point}, {sizes[i]}"))
                point = self.op(f"udiv i64 {point}, {sizes[i]}")
            else:
                self.bind(ranges[i], point)

    def first_lanes(self, count: int, width: int) -> str:
        """A mask of some lanes."""
        return "<" + ", ".join(f"i1 {'true' if i < count else 'false'}" for i in range(width)) + ">"

    def tiles(self, nest: Nest, plan: Plan) -> None:
        """All tiles that belong to the points from begin to end."""
        assert plan.points is not None and plan.tile is not None
        points, (other, height) = plan.points, plan.tile
        lane, width = points.along, points.lanes * points.columns

        def one(index: str, _: list[str]) -> list[str]:
            across = -(-size_of(lane) // width)
            row = self.op(f"udiv i64 {index}, {across}")
            column = self.op(f"urem i64 {index}, {across}")
            self._tile(
                nest,
                plan,
                (other, self.op(f"mul nuw nsw i64 {row}, {height}"), height),
                (lane, self.op(f"mul nuw nsw i64 {column}, {width}"), width),
            )
            return []

        def run(low: int | str, high: int | str) -> None:
            self.loop(low, high, 1, (), one)

        self.points(plan.rows, self.run_of(plan), run)

    def run_of(self, plan: Plan) -> int | str:
        """How many points there are at each setting of a plan's other outer ranges."""
        run = plan.run
        return run if isinstance(run, int) else self.value(run)[0]

    def _tile(self, nest: Nest, plan: Plan, down: tuple[UOp, str, int], across: tuple[UOp, str, int]) -> None:
        """A tile as squares of as many points as there are lanes, row by row; `down` and `across`: range, first and most."""
        assert plan.points is not None
        lanes = plan.points.lanes
        values = [store.value for each in nest.passes for store in each.stores]
        turned = [n for n in elements_of(*values) if n.op is LOAD and runs_along(n, down[0], across[0])]
        edges = [size_of(r) % lanes != 0 for r, _, _ in (down, across)]

        def along(part: tuple[UOp, str, int], then: Callable[[str], None]) -> None:
            r, first, most = part
            end = self.op(f"add nuw nsw i64 {first}, {most}")
            if size_of(r) % most:
                end = self.call("i64", "llvm.smin.i64", ("i64", end), ("i64", str(size_of(r))))

            def each(index: str, _: list[str]) -> list[str]:
                then(index)
                return []

            self.loop(first, end, lanes, (), each)

        def square(row: str, column: str) -> None:
            if self.large or not any(edges):
                self._square(nest, plan, turned, row, column, edges)
                return
            inside = [
                self.op(f"icmp sle i64 {first}, {size_of(r) - lanes}")
                for first, (r, _, _) in ((row, down), (column, across))
            ]
            whole = self.op(f"and i1 {inside[0]}, {inside[1]}")
            self.when(whole, lambda: self._square(nest, plan, turned, row, column, [False, False]))
            part = self.op(f"xor i1 {whole}, true")
            self.when(part, lambda: self._square(nest, plan, turned, row, column, edges))

        def squares() -> list[str]:
            along(down, lambda row: along(across, lambda column: square(row, column)))
            return []

        if any(edges):
            squares()
        else:
            self.past_caches(plan.points, nest.passes, squares)

    def _square(
        self, nest: Nest, plan: Plan, turned: Sequence[UOp], row: str, column: str, edges: Sequence[bool]
    ) -> None:
        """A square of points, from a row and a column on; `edges`: whether some of its rows, or lanes, may be outside."""
        assert plan.points is not None and plan.tile is not None
        lane, lanes, other = plan.points.along, plan.points.lanes, plan.tile[0]
        with self.scope():
            self.bind(other, row)
            self.bind(lane, column)
            rows = [self._turned(node, plan, row, column, edges) for node in turned]

        def compute(index: str, own: Callable[[int, UOp], str]) -> None:
            self.bind(other, index)
            self.lanes = lanes
            mask = self.below(lane, column, lanes) if edges[1] else None
            self.enter(Frame(lane, lanes, 1), [column], [mask])
            for i, node in enumerate(turned):
                self.keep(node, self.from_memory(own(i, node), node.arg.dtype, True), True, 0)
            for each in nest.passes:
                self.stores(each)
            self.leave()

        def register(k: int, i: int, node: UOp) -> str:
            return rows[i][k]

        if not edges[0] and not self.large:
            for k in range(lanes):
                with self.scope():
                    index = self.op(f"add nuw nsw i64 {row}, {k}") if k else row
                    compute(index, partial(register, k))
            return
        # The rows are kept in memory, where a loop finds them.
        buffers = []
        for node, square in zip(turned, rows, strict=True):
            kind = memory_type(node.arg.dtype)
            saved, self.out = self.out, self.scopes[0].out
            buffer = self.op(f"alloca [{lanes * lanes} x {kind}], align 64")
            self.out = saved
            buffers.append(buffer)
            for k, name in enumerate(square):
                at = self.op(f"getelementptr inbounds {kind}, ptr {buffer}, i64 {k * lanes}") if k else buffer
                self.do(f"store <{lanes} x {kind}> {name}, ptr {at}, align {lanes * node.arg.dtype.itemsize}")
        end = self.op(f"add nuw nsw i64 {row}, {lanes}")
        if edges[0]:
            end = self.call("i64", "llvm.smin.i64", ("i64", end), ("i64", str(size_of(other))))

        def one(index: str, _: list[str]) -> list[str]:
            own = self.op(f"sub nuw nsw i64 {index}, {row}")
            own = self.op(f"mul nuw nsw i64 {own}, {lanes}")

            def load(i: int, node: UOp) -> str:
                kind = memory_type(node.arg.dtype)
                at = self.op(f"getelementptr inbounds {kind}, ptr {buffers[i]}, i64 {own}")
                return self.load_row(kind, node.arg.dtype.itemsize, at, None)

            compute(index, load)
            return []

        self.loop(row, end, 1, (), one)

    def _turned(self, node: UOp, plan: Plan, row: str, column: str, edges: Sequence[bool]) -> list[str]:
        """The rows of a square of an array that is read along the other range, transposed."""
        assert plan.points is not None and plan.tile is not None
        (lane, lanes, _), other = plan.points, plan.tile[0]
        array, position = node.arg, node.src[0]
        kind, size, step = memory_type(array.dtype), array.dtype.itemsize, linear(position).along(lane)
        assert step is not None
        self.lanes = lanes
        # At the edges: lanes that are outside are masked, rows that are outside are the last one again, and not used.
        mask = self.below(other, row, lanes) if edges[0] else None
        read, address = [], self.address(array, position, 0)
        if edges[1]:
            last = self.op(f"sub nsw i64 {size_of(lane) - 1}, {column}")
        for i in range(lanes):
            offset = str(i * step)
            if edges[1] and i:
                near = self.call("i64", "llvm.smin.i64", ("i64", last), ("i64", str(i)))
                offset = self.op(f"mul nsw i64 {near}, {step}")
            at = self.op(f"getelementptr {kind}, ptr {address}, i64 {offset}") if i else address
            read.append(self.load_row(kind, size, at, mask))
            if not any(edges):
                # A line from each of many rows far apart is not what hardware fetches ahead.
                ahead = self.op(f"getelementptr {kind}, ptr {at}, i64 {lanes * AHEAD}")
                self.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
                self.do(f"call void @llvm.prefetch.p0(ptr {ahead}, i32 0, i32 2, i32 1)")
        rows = self._transposed(read, kind)
        self.lanes = 1
        return rows

    def below(self, r: UOp, first: str, lanes: int) -> str:
        """Which lanes of a vector that begins here are within a range."""
        saved, self.lanes = self.lanes, lanes
        limit = self.splat(self.op(f"sub nsw i64 {self.extent(r)}, {first}"), "i64")
        mask = self.op(f"icmp slt {self.vector('i64')} {self.steps('i64')}, {limit}")
        self.lanes = saved
        return mask

    def _transposed(self, rows: Sequence[str], kind: str) -> list[str]:
        """The columns of a square of vectors: neighbours, then pairs, then fours exchange halves."""
        lanes, rows, distance = self.lanes, list(rows), 1
        kinds = self.vector(kind)
        while distance < lanes:
            low = [i if not i & distance else i - distance + lanes for i in range(lanes)]
            high = [i + distance if not i & distance else i + lanes for i in range(lanes)]
            new = list(rows)
            for i in range(lanes):
                if not i & distance:
                    for at, order in ((i, low), (i + distance, high)):
                        numbers = ", ".join(f"i32 {n}" for n in order)
                        new[at] = self.op(
                            f"shufflevector {kinds} {rows[i]}, {kinds} {rows[i + distance]}, "
                            f"{self.vector('i32')} <{numbers}>"
                        )
            rows, distance = new, 2 * distance
        return rows
