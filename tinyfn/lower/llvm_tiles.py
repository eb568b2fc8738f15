"""Points of nests, and tiles of them: what is walked along one range here and along another one there.

A tile has some points along both ranges. What is read along the other range is read so, transposed in registers, and kept in a
buffer; then the tile's points are computed row by row, from the buffer and from the rest.
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
        loads = [
            n for n in elements_of(*[s.value for each in nest.passes for s in each.stores]) if n.op is LOAD
        ]
        turned = {n: self._buffer(n, height * width) for n in loads if runs_along(n, other, lane)}

        def one(index: str, _: list[str]) -> list[str]:
            across = -(-size_of(lane) // width)
            row = self.op(f"udiv i64 {index}, {across}")
            column = self.op(f"urem i64 {index}, {across}")
            first = self.op(f"mul nuw nsw i64 {row}, {height}"), self.op(f"mul nuw nsw i64 {column}, {width}")
            for node, buffer in turned.items():
                self._turn(node, buffer, plan, first)
            self._rows_of_tile(nest, plan, first, turned)
            return []

        def run(low: int | str, high: int | str) -> None:
            self.loop(low, high, 1, (), one)

        self.points(plan.rows, self.run_of(plan), run)

    def run_of(self, plan: Plan) -> int | str:
        """How many points there are at each setting of a plan's other outer ranges."""
        run = plan.run
        return run if isinstance(run, int) else self.value(run)[0]

    def _buffer(self, node: UOp, size: int) -> str:
        return self.op(f"alloca [{size} x {memory_type(node.arg.dtype)}], align 64")

    def _turn(self, node: UOp, buffer: str, plan: Plan, first: tuple[str, str]) -> None:
        """Read a tile of an array along the other range, and keep it along the lanes' one."""
        assert plan.points is not None and plan.tile is not None
        points, (other, height) = plan.points, plan.tile
        lane, lanes, columns = points
        array, position = node.arg, node.src[0]
        kind, size, step = memory_type(array.dtype), array.dtype.itemsize, linear(position).along(lane)
        assert step is not None
        self.lanes = lanes

        def block() -> None:
            # At the edges: lanes that are outside are masked, rows that are outside are the last one again, and not used.
            mask = self._below(other, self.value(other)[0]) if size_of(other) % lanes else None
            rows, address, begin = [], self.address(array, position, 0), self.value(lane)[0]
            if edge := size_of(lane) % lanes:
                last = self.op(f"sub nsw i64 {size_of(lane) - 1}, {begin}")
            for i in range(lanes):
                offset = str(i * step)
                if edge and i:
                    near = self.call("i64", "llvm.smin.i64", ("i64", last), ("i64", str(i)))
                    offset = self.op(f"mul nsw i64 {near}, {step}")
                at = self.op(f"getelementptr {kind}, ptr {address}, i64 {offset}") if i else address
                rows.append(self.load_row(kind, size, at, mask))
                # What the next tile reads; it is too far away for the machine to see it coming.
                ahead = self.op(f"getelementptr {kind}, ptr {at}, i64 {lanes * columns * step}")
                self.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
                self.do(f"call void @llvm.prefetch.p0(ptr {ahead}, i32 0, i32 3, i32 1)")
            row = self.op(f"sub nuw nsw i64 {self.value(other)[0]}, {first[0]}")
            column = self.op(f"sub nuw nsw i64 {self.value(lane)[0]}, {first[1]}")
            corner = self.op(f"mul nuw nsw i64 {row}, {lanes * columns}")
            corner = self.op(f"add nuw nsw i64 {corner}, {column}")
            place = self.op(f"getelementptr inbounds {kind}, ptr {buffer}, i64 {corner}")
            for i, turned in enumerate(self._transposed(rows, kind)):
                at = (
                    self.op(f"getelementptr inbounds {kind}, ptr {place}, i64 {i * lanes * columns}")
                    if i
                    else place
                )
                self.do(f"store {self.vector(kind)} {turned}, ptr {at}, align {size}")

        def along(r: UOp, begin: str, most: int, then: Callable[[], None]) -> None:
            end = self.op(f"add nuw nsw i64 {begin}, {most}")
            if size_of(r) % most:
                end = self.call("i64", "llvm.smin.i64", ("i64", end), ("i64", str(size_of(r))))

            def each(index: str, _: list[str]) -> list[str]:
                self.bind(r, index)
                then()
                return []

            self.loop(begin, end, lanes, (), each)

        along(lane, first[1], lanes * columns, lambda: along(other, first[0], height, block))
        self.lanes = 1

    def _below(self, r: UOp, first: str) -> str:
        """Which lanes of a vector that begins here are within a range."""
        limit = self.splat(self.op(f"sub nsw i64 {size_of(r)}, {first}"), "i64")
        return self.op(f"icmp slt {self.vector('i64')} {self.steps('i64')}, {limit}")

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

    def _rows_of_tile(self, nest: Nest, plan: Plan, first: tuple[str, str], turned: dict[UOp, str]) -> None:
        """Compute a tile row by row; what was turned comes from its buffer."""
        assert plan.points is not None and plan.tile is not None
        points, (other, height) = plan.points, plan.tile
        lane, lanes, columns = points
        width, size = lanes * columns, size_of(lane)

        def rows(masks: Sequence[str | None]) -> None:
            end = self.op(f"add nuw nsw i64 {first[0]}, {height}")
            if size_of(other) % height:
                end = self.call("i64", "llvm.smin.i64", ("i64", end), ("i64", str(size_of(other))))

            def row(index: str, _: list[str]) -> list[str]:
                self.bind(other, index)
                bases = [first[1]]
                bases += [self.op(f"add nuw nsw i64 {first[1]}, {c * lanes}") for c in range(1, columns)]
                self.enter(Frame(lane, lanes, columns), bases, masks)
                own = self.op(f"sub nuw nsw i64 {index}, {first[0]}")
                own = self.op(f"mul nuw nsw i64 {own}, {width}")
                for node, buffer in turned.items():
                    kind = memory_type(node.arg.dtype)
                    place = self.op(f"getelementptr inbounds {kind}, ptr {buffer}, i64 {own}")
                    for c in range(columns):
                        at = (
                            self.op(f"getelementptr inbounds {kind}, ptr {place}, i64 {c * lanes}")
                            if c
                            else place
                        )
                        loaded = self.load_row(kind, node.arg.dtype.itemsize, at, None)
                        self.keep(node, self.from_memory(loaded, node.arg.dtype, True), True, c)
                for c in range(columns):
                    for each in nest.passes:
                        self.stores(each, c)
                self.leave()
                return []

            loop = partial(self.loop, first[0], end, 1, (), row)
            self.past_caches(points, nest.passes, loop) if masks[0] is None else loop()

        if not size % width:
            rows([None] * columns)
            return
        full = self.op(f"icmp sle i64 {first[1]}, {size - width}")
        if size >= width and not self.large:
            self.when(full, lambda: rows([None] * columns))

        def end() -> None:
            self.lanes = lanes
            starts = [first[1]] + [
                self.op(f"add nuw nsw i64 {first[1]}, {c * lanes}") for c in range(1, columns)
            ]
            masks = [self._below(lane, start) for start in starts]
            self.lanes = 1
            rows(masks)

        if self.large or size < width:
            with self.scope():
                end()
        else:
            self.when(self.op(f"xor i1 {full}, true"), end)
