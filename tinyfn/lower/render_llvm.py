"""Rendering nests as LLVM IR with explicit vectors, as a schedule says.

A kernel is `void kernel(ptr arguments, i64 begin, i64 end)`: arguments points to the addresses of the arrays that the nest loads
and stores, in the order in which the caller has them; begin and end say which points to do, so that a kernel can be run in
pieces. What is no multiple of a vector ends with masked ones.

Sums of a pass are kept in several vectors at once, and added up in a fixed order at the end: the result does not depend on how
the points are divided among threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ..trace import sint
from ..trace.sint import Dimension
from ..trace.uop import UOp
from .index import RESULT
from .llvm_running import Runs
from .llvm_scalar import memory_type, register_type
from .llvm_values import Frame
from .nest import Nest, Pass, Reduce, Running, elements_of
from .schedule import Lanes, Plan

# Code of more instructions than this has masks throughout, rather than a copy without.
LARGE = 400
# What is computed of sums, for all columns of a block together, is written in a loop over them if it is longer than this.
LONG = 64


class Renderer(Runs):
    """Writes one kernel. See the module's docstring."""

    def __init__(
        self, nest: Nest, arrays: Sequence[UOp], name: str, plan: Plan, size: int, streamed: frozenset[UOp]
    ):
        super().__init__()
        self.nest, self.name, self.plan = nest, name, plan
        self.lanes_of = {id(each): lanes for each, lanes in zip(nest.every(), plan.passes, strict=True)}
        self.written = frozenset(s.node for each in nest.every() for s in each.stores)
        self.local = nest.local
        copies = 1
        if plan.points is not None:
            copies = plan.points.columns if plan.tile is None else plan.points.lanes
        self.after, once = self._after_sums(copies)
        self.large = (size - once) * copies + once > LARGE
        self.streamed = streamed
        self.addressed = tuple(arrays)
        self.read = frozenset(nest.loaded if streamed else ())

    def render(self) -> str:
        """The IR of a module with this kernel."""
        for i, array in enumerate(self.addressed):
            slot = self.op(f"getelementptr inbounds ptr, ptr %arguments, i64 {i}")
            address = self.op(f"load ptr, ptr {slot}, align 8")
            if array.op is sint.VARIABLE:
                self.bind(array, self.op(f"load i64, ptr {address}, align 8"))
            else:
                self.arrays[array] = address
        points = self.plan.points
        if points is not None:
            self.own_rows = points.lanes * points.columns
        for array, size in self._local_sizes().items():
            size, kind = sint.mul(size, max(1, self.own_rows)), memory_type(array.dtype)
            count = f"[{size} x {kind}]" if isinstance(size, int) else f"{kind}, i64 {self.value(size)[0]}"
            self.arrays[array] = self.op(f"alloca {count}, align 64")
        if points is None:
            self._rows()
        elif self.plan.tile is None:
            self.points(self.plan.rows, self.run_of(self.plan), partial(self._blocks, points))
        else:
            self.tiles(self.nest, self.plan)
        if self.streams is not None:
            # What went past the caches is there before anybody is told so.
            self.do("fence seq_cst")
            self.declared["!0 = !{i32 1}"] = None
        self.do("ret void")
        declarations = "\n".join(self.declared)
        signature = f"void @{self.name}(ptr noalias %arguments, i64 %begin, i64 %end)"
        return f"define {signature} {{\nentry:\n{self.text()}\n}}\n\n{declarations}\n"

    def _local_sizes(self) -> dict[UOp, Dimension]:
        sizes: dict[UOp, Dimension] = {}
        for each in self.nest.every():
            for store in each.stores:
                if store.node in self.local:
                    sizes[store.node] = sint.prod(map(sint.extent, each.inner))
        return sizes

    # Points

    def _rows(self) -> None:
        """Points one by one."""
        if not self.plan.outer:
            for each in self.nest.passes:
                self._pass(each)
            return

        def rows(low: int | str, high: int | str) -> None:
            self.loop(low, high, 1, (), row)

        def row(index: str, _: list[str]) -> list[str]:
            self.bind(self.plan.outer[-1], index)
            for each in self.nest.passes:
                self._pass(each)
            return []

        self.points(self.plan.rows, self.run_of(self.plan), rows)

    def _blocks(self, points: Lanes, low: int | str, high: int | str) -> None:
        """Blocks of neighbouring vectors of points along the last outer range, from one to another."""
        lane, width, columns = points
        block, size = width * columns, self.extent(lane)
        full: int | str
        full, rest = (
            divmod(size, block) if isinstance(size, int) else (self.op(f"udiv i64 {size}, {block}"), -1)
        )

        def run(
            count: int, masks: Callable[[str], Sequence[str | None]], index: str, _: list[str]
        ) -> list[str]:
            first = (
                str(int(index) * block) if index.isdigit() else self.op(f"mul nuw nsw i64 {index}, {block}")
            )
            self._enter(points, first, count, masks(first))
            for each in self.nest.passes:
                if each is self.after and count > 1:
                    self._by_columns(each, points, first)
                else:
                    self._pass(each)
            return []

        def unmasked(first: str) -> Sequence[str | None]:
            return [None] * columns

        def masked(first: str) -> Sequence[str | None]:
            bases = [first, *[self.op(f"add nuw nsw i64 {first}, {c * width}") for c in range(1, columns)]]
            return [self.below(lane, base, width) for base in bases]

        if not rest:
            whole = partial(self.loop, low, high, 1, (), partial(run, columns, unmasked))
            self.past_caches(points, self.nest.passes, whole)
        elif self.large and full:
            self.loop(low, high, 1, (), partial(run, columns, masked))
        else:
            if full:
                stop = self.call("i64", "llvm.smin.i64", ("i64", str(high)), ("i64", str(full)))
                some = self.op(f"icmp slt i64 {low}, {stop}")
                whole = partial(self.loop, low, stop, 1, (), partial(run, columns, unmasked))
                self.when(some, lambda: self.past_caches(points, self.nest.passes, whole))
            vectors = -(-rest // width)
            ends: list[str | None] = [None] * vectors
            if vectors:
                ends[-1] = self.first_lanes(rest - (vectors - 1) * width, width)

            def end() -> None:
                if rest < 0:
                    run(columns, masked, str(full), [])
                else:
                    run(vectors, lambda first: ends, str(full), [])

            if full:
                self.when(self.op(f"icmp sgt i64 {high}, {full}"), end)
            else:
                with self.scope():
                    end()
        self.leave()

    def _after_sums(self, columns: int) -> tuple[Pass | None, int]:
        """The last pass, if it computes so much of the sums of the others that it is not to be there for each column, and how
        many instructions for a vector it is, about."""
        *before, last = self.nest.passes
        plain = not (last.inner or last.reductions or last.passes or self.local)
        if plain and columns > 1 and any(each.reductions for each in before):
            length = len(elements_of(*[store.value for store in last.stores]))
            if length * columns > LONG:
                return last, length
        return None, 0

    def _by_columns(self, each: Pass, points: Lanes, first: str) -> None:
        """A pass at the points of a block, a vector after the other: what was summed up for them is kept in memory meanwhile."""
        lane, width, count = points.along, points.lanes, self.count
        sums: dict[UOp, str] = {}
        for node in elements_of(*[store.value for store in each.stores]):
            if node.op is RESULT:
                kinds = self.vector(register_type(node.dtype))
                saved, self.out = self.out, self.scopes[0].out
                sums[node] = self.op(f"alloca {kinds}, i64 {count}, align 64")
                self.out = saved
                for column in range(count):
                    at = self.op(f"getelementptr {kinds}, ptr {sums[node]}, i64 {column}")
                    self.do(f"store {kinds} {self.vector_of(node, column)}, ptr {at}")
        masked = any(self.masks)
        self.leave()

        def one(index: str, _: list[str]) -> list[str]:
            offset = self.op(f"mul nuw nsw i64 {index}, {width}")
            base = self.op(f"add nuw nsw i64 {first}, {offset}")
            masks = [self.below(lane, base, width) if masked else None]
            self.enter(Frame(lane, width, 1), [base], masks)
            self.count = 1
            for node, kept in sums.items():
                kinds = self.vector(register_type(node.dtype))
                at = self.op(f"getelementptr {kinds}, ptr {kept}, i64 {index}")
                self.keep(node, self.op(f"load {kinds}, ptr {at}"), True, 0)
            self._pass(each)
            return []

        self.loop(0, count, 1, (), one)

    def _enter(self, points: Lanes, first: str, count: int, masks: Sequence[str | None]) -> None:
        bases = [first]
        for column in range(1, count):
            offset = column * points.lanes
            bases.append(
                str(int(first) + offset) if first.isdigit() else self.op(f"add nuw nsw i64 {first}, {offset}")
            )
        self.enter(Frame(points.along, points.lanes, points.columns), bases, masks)
        self.count = count

    # Passes

    def _pass(self, each: Pass) -> None:
        lanes = self.lanes_of[id(each)]
        if lanes is None:
            self._plain(each)
        else:
            self._vectors(each, lanes)

    def _plain(self, each: Pass) -> None:
        """A pass whose ranges are plain loops. If points are along the lanes, each column has accumulators of its own."""
        wide = self.frame is not None
        columns = range(self.count if wide else 1)
        kept: Sequence[Reduce | Running] = [*each.reductions, *each.running]
        kinds = [self._kind(r, wide) for _ in columns for r in kept]
        first = [self._identity(r, wide) for _ in columns for r in kept]

        def nested(ranges: Sequence[UOp], carried: list[str]) -> list[str]:
            if ranges:

                def body(index: str, values: list[str]) -> list[str]:
                    self.bind(ranges[0], index)
                    return nested(ranges[1:], values)

                pairs = list(zip(kinds, carried, strict=True))
                return self.loop(0, self.extent(ranges[0]), 1, pairs, body)
            for inside in each.passes:
                self._pass(inside)
            totals, results = iter(carried), []
            for column in columns:
                for running in each.running:
                    results.append(self._next(running, each.inner[0], next(totals), wide, column))
                self.stores(each, column)
                for r in each.reductions:
                    element = self.vector_of(r.value, column) if wide else self.value(r.value)[0]
                    results.append(self.binary(r.op, r.value.dtype, next(totals), element, wide))
            return results

        totals = iter(nested(each.inner, first))
        for column in columns:
            for r in each.reductions:
                self._keep(r, next(totals), wide, column)

    def _vectors(self, each: Pass, lanes: Lanes) -> None:
        """A pass with a range of its own along the lanes."""
        lane, width, copies = lanes
        size, loops = self.extent(lane), [r for r in each.inner if r is not lane]
        self.lanes = width
        kept: Sequence[Reduce | Running] = [*each.reductions, *each.running]
        kinds = [self._kind(r, True) for r in kept for _ in range(copies)]
        first = [self._identity(r, True) for r in kept for _ in range(copies)]

        def steps(count: int, mask: str | None, base: str, carried: list[str]) -> list[str]:
            """`count` vectors from `base` on, each into accumulators of its own."""
            results = list(carried)
            bases = [base]
            for column in range(1, count):
                bases.append(self.op(f"add nuw nsw i64 {base}, {column * width}"))
            self.enter(Frame(lane, width, 1), bases, [mask] * count)
            for column in range(count):
                for i, running in enumerate(each.running):
                    results[i] = self._along_lanes(running, base, results[i])
                self.stores(each, column)
                for i, r in enumerate(each.reductions):
                    at = i * copies + column
                    element = self.vector_of(r.value, column)
                    combined = self.binary(r.op, r.value.dtype, results[at], element, True)
                    if mask is not None:
                        kind = self._kind(r, True)
                        combined = self.op(
                            f"select {self.vector('i1')} {mask}, {kind} {combined}, {kind} {results[at]}"
                        )
                    results[at] = combined
            self.leave()
            self.lanes = width
            return results

        def nested(ranges: Sequence[UOp], carried: list[str]) -> list[str]:
            if ranges:

                def body(index: str, values: list[str]) -> list[str]:
                    self.bind(ranges[0], index)
                    return nested(ranges[1:], values)

                pairs = list(zip(kinds, carried, strict=True))
                return self.loop(0, self.extent(ranges[0]), 1, pairs, body)
            if not isinstance(size, int):
                return self._unknown_many(lanes, size, kinds, carried, steps)
            done = 0
            for count in dict.fromkeys((copies, 1)):
                stop = done + (size - done) // (count * width) * count * width
                if stop > done:
                    pairs = list(zip(kinds, carried, strict=True))
                    loop = partial(self.loop, done, stop, count * width, pairs, partial(steps, count, None))
                    carried = loop() if kept else self.past_caches(lanes, (each,), loop)
                    done = stop
            if done < size:
                with self.scope():
                    carried = steps(1, self.first_lanes(size - done, width), str(done), carried)
            return carried

        totals = nested(loops, first)
        for i, r in enumerate(each.reductions):
            parts = totals[i * copies : (i + 1) * copies]
            while len(parts) > 1:
                pairs = list(zip(parts[::2], parts[1::2], strict=False))
                combined = [self.binary(r.op, r.value.dtype, a, b, True) for a, b in pairs]
                parts = combined + (parts[-1:] if len(parts) % 2 else [])
            self._keep(r, self._across(r, parts[0]), False, 0)
        self.lanes = 1

    def _unknown_many(
        self,
        lanes: Lanes,
        size: str,
        kinds: Sequence[str],
        carried: list[str],
        steps: Callable[[int, str | None, str, list[str]], list[str]],
    ) -> list[str]:
        """Vectors along a range whose size is known at run time: as many as possible side by side, single ones, a masked one."""
        _, width, copies = lanes
        done = "0"
        for count in dict.fromkeys((copies, 1)):
            rest = self.op(f"urem i64 {size}, {count * width}")
            stop = self.op(f"sub nuw nsw i64 {size}, {rest}")
            body, pairs = partial(steps, count, None), list(zip(kinds, carried, strict=True))
            carried = self.loop(done, stop, count * width, pairs, body, may_be_empty=True)
            done = stop

        def last(base: str, values: list[str]) -> list[str]:
            return steps(1, self.below(lanes.along, base, width), base, values)

        return self.loop(done, size, width, list(zip(kinds, carried, strict=True)), last, may_be_empty=True)

    # Reductions

    def _across(self, reduction: Reduce, total: str) -> str:
        """The lanes of an accumulator, combined by halves."""
        kind, width = register_type(reduction.value.dtype), self.lanes
        while width > 1:
            half = width // 2
            low, high = (
                self.op(
                    f"shufflevector <{width} x {kind}> {total}, <{width} x {kind}> poison, <{half} x i32> <"
                    + ", ".join(f"i32 {begin + i}" for i in range(half)) + ">"
                )
                for begin in (0, half)
            )  # fmt: skip
            total, width = self.binary(reduction.op, reduction.value.dtype, low, high, True, half), half
        return self.op(f"extractelement <1 x {kind}> {total}, i64 0")


def render(
    nest: Nest,
    arrays: Sequence[UOp],
    name: str,
    plan: Plan,
    size: int,
    streamed: frozenset[UOp] = frozenset(),
) -> str:
    """The IR of a module with one kernel for the nest, of `size` scalar ops, whose arguments are these arrays.

    Those of `streamed` are written past the caches, where that can be done."""
    return Renderer(nest, arrays, name, plan, size, streamed).render()
