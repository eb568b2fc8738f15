"""Points of nests, and tiles of them: what is walked along one range here and along another one there.

A tile has some points along both ranges. What is read along the other range is read so, transposed in registers, and kept in a
buffer; then the tile's points are computed row by row, from the buffer and from the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..trace.uop import UOp
from .llvm_values import Values
from .nest import Nest, size_of
from .schedule import Plan

Run = Callable[[int | str, int | str], None]


class Tiles(Values):
    """Writes what visits the points of the outer ranges."""

    count = 1  # how many columns there are now

    def points(self, outer: Sequence[UOp], last: int, run: Run) -> None:
        """For each setting of the outer ranges the run of points, of `last` ones, that lies between begin and end."""
        if not outer:
            run("%begin", "%end") if last > 1 else run(0, 1)
            return

        def row(index: str, _: list[str]) -> list[str]:
            self._bind_all(outer, [size_of(o) for o in outer], index)
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
        if last > 1:
            first = self.op(f"udiv i64 %begin, {last}")
            before = self.op("sub nuw nsw i64 %end, 1")
            stop = self.op(f"add nuw nsw i64 {self.op(f'udiv i64 {before}, {last}')}, 1")
        self.loop(first, stop, 1, (), row)

    def _bind_all(self, ranges: Sequence[UOp], sizes: Sequence[int], point: str) -> None:
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
        raise NotImplementedError
