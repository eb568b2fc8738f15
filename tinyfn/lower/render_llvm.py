"""Rendering nests as LLVM IR with explicit vectors.

A kernel is `void kernel(ptr args, i64 begin, i64 end)`: args points to the addresses of the arrays that the nest loads and
stores, in the order in which the caller has them; begin and end say which points of the outer ranges to do, so that a kernel
can be run in pieces. One range of each pass, or the last outer range for all of them, runs along the lanes of a vector; a pass
whose size is no multiple of the vector's ends with one masked step.

Sums of a pass are kept in several vectors at once, and added up in a fixed order at the end: the result does not depend on how
the points are divided among threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..trace import dtype as dtypes
from ..trace import scalar as s
from ..trace import sint
from ..trace.dtype import DType
from ..trace.uop import CONST, UOp
from .index import LOAD, RESULT
from .llvm_scalar import ScalarCode, literal, memory_suffix, memory_type, register_type
from .nest import Nest, Pass, Reduce, Store, elements_of, result, size_of, step_along

UNROLL = 4  # vectors per accumulator, so that additions need not wait for each other
COLUMNS = 16  # vectors of columns that a reduction over rows works on side by side: a kilobyte of each row


class Schedule(NamedTuple):
    """How a nest is mapped onto vectors: the number of lanes, the outer range that runs along them, if one does, and how many
    vectors of that are worked on side by side."""

    lanes: int
    outer_lane: UOp | None
    copies: int = 1


def schedule(nest: Nest, arrays: Sequence[UOp], vector_bytes: int) -> Schedule:
    """Lanes along the last outer range if that is how the reductions read memory, else along each pass's last range."""
    widest = max([a.dtype.itemsize for a in arrays] + [4])
    lanes = max(1, vector_bytes // widest)
    votes = 0
    if nest.outer:
        last = nest.outer[-1]
        for each in nest.passes:
            loads = [n for n in elements_of(*[r.value for r in each.reductions]) if n.op is LOAD]
            for node in loads:
                along_outer, along_inner = (
                    step_along(node.src[0], last),
                    step_along(node.src[0], each.inner[-1]) if each.inner else 0,
                )
                votes += (along_outer == 1 and along_inner != 1) - (along_inner == 1)
        no_inner = all(not each.inner for each in nest.passes)
        if votes > 0 or no_inner:
            # Several vectors to a row of a reduction, so that whole cache lines and pages are read.
            reduces = any(each.reductions for each in nest.passes)
            return Schedule(lanes, last, COLUMNS if reduces and size_of(last) >= COLUMNS * lanes else 1)
    return Schedule(lanes, None)


Value = tuple[str, bool]  # the name of an SSA value, and whether it is a vector


class _Scope:
    """The values made so far that are visible at a place of the code, and what each range is there."""

    def __init__(self, parent: _Scope | None = None):
        self.parent = parent
        self.values: dict[UOp, Value] = {}
        self.scalars: dict[UOp, str] = {}

    def find(self, node: UOp, scalars: bool) -> Any:
        """The value of a node; `scalars`: as an index in a scalar register."""
        scope: _Scope | None = self
        while scope is not None:
            table: Any = scope.scalars if scalars else scope.values
            if node in table:
                return table[node]
            scope = scope.parent
        return None


class _Column(NamedTuple):
    """A vector of neighbouring points of the outer ranges: where it is, and which lanes are within the array."""

    scope: _Scope
    mask: str | None


class Renderer(ScalarCode):
    """Writes one kernel. See the module's docstring."""

    def __init__(self, nest: Nest, arrays: Sequence[UOp], name: str, plan: Schedule):
        super().__init__(plan.lanes)
        self.nest, self.memory, self.name, self.plan = nest, arrays, name, plan
        self.lines: list[str] = []
        self.count = 0
        self.block = "entry"
        self.arrays: dict[UOp, str] = {}
        self.lane: UOp | None = None
        self.mask: str | None = None
        self.base = ""

    # Writing

    def op(self, text: str) -> str:
        """Write an instruction and give its result a name."""
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Write an instruction without a result."""
        self.lines.append(f"  {text}")

    def start(self, label: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{label}:")
        self.block = label

    def loop(
        self,
        begin: str,
        end: str,
        step: int,
        carried: Sequence[tuple[str, str]],
        body: Callable[[str, list[str]], list[str]],
    ) -> list[str]:
        """A loop that runs at least once; `carried` are types and first values of what it hands on, which it returns."""
        self.count += 1
        header, done = f"loop{self.count}", f"done{self.count}"
        before = self.block
        self.do(f"br label %{header}")
        self.start(header)
        place = len(self.lines)
        self.lines.append("")
        self.count += 1
        index = f"%i{self.count}"
        names = [f"%c{self.count}_{i}" for i in range(len(carried))]
        results = body(index, list(names))
        following = self.op(f"add nuw nsw i64 {index}, {step}")
        more = self.op(f"icmp slt i64 {following}, {end}")
        latch = self.block
        self.do(f"br i1 {more}, label %{header}, label %{done}")
        phis = [f"  {index} = phi i64 [ {begin}, %{before} ], [ {following}, %{latch} ]"]
        for name, (kind, first), last in zip(names, carried, results, strict=True):
            phis.append(f"  {name} = phi {kind} [ {first}, %{before} ], [ {last}, %{latch} ]")
        self.lines[place] = "\n".join(phis)
        self.start(done)
        return results

    # The kernel

    def render(self) -> str:
        """The IR of a module with this kernel."""
        for i, array in enumerate(self.memory):
            slot = self.op(f"getelementptr inbounds ptr, ptr %args, i64 {i}")
            self.arrays[array] = self.op(f"load ptr, ptr {slot}, align 8")
        for array in sorted(self.nest.local, key=lambda a: self.count):
            size = _inner_size(self.nest, array)
            self.arrays[array] = self.op(f"alloca [{size} x {memory_type(array.dtype)}], align 64")
        lane = self.plan.outer_lane
        if lane is None:
            self.loop("%begin", "%end", 1, (), self._row)
        else:
            self._lanes_along(lane)
        self.do("ret void")
        body = "\n".join(self.lines)
        declarations = "\n".join(self.declared)
        return f"define void @{self.name}(ptr noalias %args, i64 %begin, i64 %end) {{\nentry:\n{body}\n}}\n\n{declarations}\n"

    def _outer_scope(self, point: str, ranges: Sequence[UOp]) -> _Scope:
        """The outer ranges at a point, which counts them in row-major order."""
        scope = _Scope()
        for i, o in reversed(list(enumerate(ranges))):
            size = size_of(o)
            if i:
                scope.scalars[o] = self.op(f"urem i64 {point}, {size}")
                point = self.op(f"udiv i64 {point}, {size}")
            else:
                scope.scalars[o] = point
        return scope

    def _row(self, point: str, _: list[str]) -> list[str]:
        scope = self._outer_scope(point, self.nest.outer)
        for each in self.nest.passes:
            self._pass(each, scope)
        return []

    def _lanes_along(self, lane: UOp) -> None:
        """Points are blocks of neighbouring vectors along one outer range, for each point of the others."""
        width, copies, size = self.lanes, self.plan.copies, size_of(lane)
        blocks = -(-size // (width * copies))
        self.lane = lane
        alone = len(self.nest.outer) == 1

        def body(masked: bool) -> Callable[[str, list[str]], list[str]]:
            def chunk(point: str, _: list[str]) -> list[str]:
                rest = "0" if alone else self.op(f"udiv i64 {point}, {blocks}")
                block = point if alone else self.op(f"urem i64 {point}, {blocks}")
                outer = self._outer_scope(rest, self.nest.outer[:-1])
                first = self.op(f"mul nuw nsw i64 {block}, {width * copies}")
                columns = [self._column(outer, lane, first, copy * width, masked) for copy in range(copies)]
                for each in self.nest.passes:
                    self._pass_across(each, columns)
                return []

            return chunk

        full = size % (width * copies) == 0
        if not alone or full:
            self.loop("%begin", "%end", 1, (), body(not full))
            return
        # Full blocks first; the last one, which is not full, needs masks.
        whole = size // (width * copies)
        stop = self.call("i64", "llvm.smin.i64", ("i64", "%end"), ("i64", str(whole)))
        self._if(
            self.op(f"icmp slt i64 %begin, {stop}"), lambda: self.loop("%begin", stop, 1, (), body(False))
        )
        self._if(self.op(f"icmp sgt i64 %end, {whole}"), lambda: body(True)(str(whole), []))

    def _column(self, outer: _Scope, lane: UOp, first: str, offset: int, masked: bool) -> _Column:
        """One vector of neighbouring points."""
        scope = _Scope(outer)
        base = scope.scalars[lane] = self.op(f"add nuw nsw i64 {first}, {offset}") if offset else first
        if not masked:
            return _Column(scope, None)
        limit = self.splat(self.op(f"sub nsw i64 {size_of(lane)}, {base}"), "i64")
        return _Column(scope, self.op(f"icmp slt {self.vector('i64')} {self.steps('i64')}, {limit}"))

    def _if(self, condition: str, then: Callable[[], Any]) -> None:
        """Code that runs only if a condition holds."""
        self.count += 1
        label, done = f"then{self.count}", f"endif{self.count}"
        self.do(f"br i1 {condition}, label %{label}, label %{done}")
        self.start(label)
        then()
        self.do(f"br label %{done}")
        self.start(done)

    def _pass_across(self, each: Pass, columns: Sequence[_Column]) -> None:
        """A pass whose lanes are points of the outer ranges: its own ranges are plain loops, which all columns share."""
        kinds = [self.vector(register_type(r.value.dtype)) for _ in columns for r in each.reductions]
        first = [self._identity(r, True) for _ in columns for r in each.reductions]

        def nested(ranges: Sequence[UOp], scopes: Sequence[_Scope], carried: list[str]) -> list[str]:
            if ranges:

                def body(index: str, values: list[str]) -> list[str]:
                    inside = [_Scope(scope) for scope in scopes]
                    for scope in inside:
                        scope.scalars[ranges[0]] = index
                    return nested(ranges[1:], inside, values)

                return self.loop(
                    "0", str(size_of(ranges[0])), 1, list(zip(kinds, carried, strict=True)), body
                )
            totals = iter(carried)
            results = []
            for column, scope in zip(columns, scopes, strict=True):
                self.mask = column.mask
                here = _Scope(scope)
                for store in each.stores:
                    self._store(store, here)
                results += [
                    self._combine(r, next(totals), self._as_vector(r.value, here), True)
                    for r in each.reductions
                ]
            return results

        totals = iter(nested(each.inner, [column.scope for column in columns], first))
        for column in columns:
            for reduction in each.reductions:
                self._keep(reduction, next(totals), True, column.scope)

    def _pass(self, each: Pass, scope: _Scope) -> None:
        """A pass whose lanes run along its last range."""
        if not each.inner:
            self.lane, self.mask = None, None
            for store in each.stores:
                self._store(store, scope)
            for reduction in each.reductions:
                name, _ = self.value(reduction.value, scope)
                self._keep(reduction, name, False, scope)
            return
        *loops, lane = each.inner
        width, size = self.lanes, size_of(lane)
        self.lane = lane
        self._hoist(each, scope)
        kinds = [self.vector(register_type(r.value.dtype)) for r in each.reductions]
        copies = UNROLL if each.reductions and size >= UNROLL * width else 1
        first = [self._identity(r, True) for r in each.reductions for _ in range(copies)]
        all_kinds = [kind for kind in kinds for _ in range(copies)]

        def steps(outside: _Scope, count: int, base: str, carried: list[str]) -> list[str]:
            """`count` vectors from `base` on, each into accumulators of its own."""
            results = list(carried)
            for copy in range(count):
                here = _Scope(outside)
                self.base = base if copy == 0 else self.op(f"add nuw nsw i64 {base}, {copy * width}")
                here.scalars[lane] = self.base
                for store in each.stores:
                    self._store(store, here)
                for i, reduction in enumerate(each.reductions):
                    at = i * copies + copy
                    results[at] = self._combine(
                        reduction, results[at], self._as_vector(reduction.value, here), True
                    )
            return results

        def nested(ranges: Sequence[UOp], outside: _Scope, carried: list[str]) -> list[str]:
            if ranges:

                def body(index: str, values: list[str]) -> list[str]:
                    here = _Scope(outside)
                    here.scalars[ranges[0]] = index
                    return nested(ranges[1:], here, values)

                return self.loop(
                    "0", str(size_of(ranges[0])), 1, list(zip(all_kinds, carried, strict=True)), body
                )
            done = 0
            self.mask = None
            for count in dict.fromkeys((copies, 1)):
                stop = done + (size - done) // (count * width) * count * width
                if stop > done:
                    pairs = list(zip(all_kinds, carried, strict=True))
                    body = partial(steps, outside, count)
                    carried = self.loop(str(done), str(stop), count * width, pairs, body)
                    done = stop
            if done < size:
                bits = ", ".join(f"i1 {'true' if done + i < size else 'false'}" for i in range(width))
                self.mask = f"<{bits}>"
                carried = steps(outside, 1, str(done), carried)
                self.mask = None
            return carried

        totals = nested(loops, scope, first)
        for i, reduction in enumerate(each.reductions):
            parts = totals[i * copies : (i + 1) * copies]
            while len(parts) > 1:
                parts = [
                    self._combine(reduction, a, b, True, False)
                    for a, b in zip(parts[::2], parts[1::2], strict=True)
                ]
            self._keep(reduction, self._across(reduction, parts[0]), False, scope)
        self.lane = None

    def _hoist(self, each: Pass, scope: _Scope) -> None:
        """Make what does not depend on the pass's ranges before its loops."""
        inner = set(each.inner)
        lane, self.lane = self.lane, None
        moving: dict[UOp, bool] = {}
        for node in elements_of(*[r.value for r in each.reductions], *[store.value for store in each.stores]):
            if node.op is LOAD:
                moving[node] = node.arg in self.nest.local or not inner.isdisjoint(
                    sint.variables([node.src[0]])
                )
            else:
                moving[node] = node in inner or any(moving[n] for n in node.src)
            if not moving[node] and node.op is not CONST:
                self.value(node, scope)
        self.lane = lane

    # Reductions

    def _identity(self, reduction: Reduce, vector: bool) -> str:
        assert reduction.op.identity is not None
        value = reduction.op.identity(reduction.value.dtype)
        constant = literal(np.asarray(value, reduction.value.dtype)[()], reduction.value.dtype)
        if not vector:
            return constant
        kind = register_type(reduction.value.dtype)
        return "<" + ", ".join([f"{kind} {constant}"] * self.lanes) + ">"

    def _combine(self, reduction: Reduce, total: str, element: str, vector: bool, masked: bool = True) -> str:
        dtype = reduction.value.dtype
        combined = self.binary(reduction.op, dtype, total, element, vector)
        if masked and vector and self.mask is not None and self.plan.outer_lane is None:
            kind = self.vector(register_type(dtype))
            return self.op(f"select {self.vector('i1')} {self.mask}, {kind} {combined}, {kind} {total}")
        return combined

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

    def _keep(self, reduction: Reduce, total: str, vector: bool, scope: _Scope) -> None:
        """A reduction's result, in the reduction's own dtype, for the passes after it."""
        cast = self.cast(total, reduction.value.dtype, reduction.node.dtype, vector)
        scope.values[result(reduction.node)] = cast, vector

    # Expressions

    def _as_vector(self, node: UOp, scope: _Scope) -> str:
        name, is_vector = self.value(node, scope)
        return name if is_vector else self.splat(name, register_type(node.dtype))

    def index(self, dimension: UOp | int, scope: _Scope) -> str:
        """An index in a scalar register (the lane's range is where the vector begins)."""
        if isinstance(dimension, int):
            return str(dimension)
        order = [n for n in elements_of(dimension) if n.op is not CONST and scope.find(n, True) is None]
        for node in order:
            names = [str(int(n.value)) if n.op is CONST else scope.find(n, True) for n in node.src]
            scope.scalars[node] = self.index_op(node, names, "i64")
        return str(int(dimension.value)) if dimension.op is CONST else scope.find(dimension, True)

    def index_op(self, node: UOp, names: Sequence[str], kind: str) -> str:
        """One operation on indices, none of which is negative and overflows."""
        a, b = names
        if node.op is s.ADD or node.op is s.MUL:
            return self.op(f"{'add' if node.op is s.ADD else 'mul'} nsw {kind} {a}, {b}")
        if node.op is s.IDIV or node.op is s.MOD:
            assert sint.bounds(node.src[0])[0] >= 0 and sint.bounds(node.src[1])[0] > 0
            return self.op(f"{'udiv' if node.op is s.IDIV else 'urem'} {kind} {a}, {b}")
        assert node.op is s.MAX or node.op is s.MIN
        suffix = "i64" if kind == "i64" else f"v{self.lanes}i64"
        return self.call(
            kind, f"llvm.{'smax' if node.op is s.MAX else 'smin'}.{suffix}", (kind, a), (kind, b)
        )

    def value(self, expression: UOp, scope: _Scope) -> Value:
        """The value of an expression: a vector if it differs between lanes."""
        for node in elements_of(expression):
            if node.op is CONST or scope.find(node, False) is not None:
                continue
            scope.values[node] = self._make(node, scope)
        return self._operand(expression, scope)

    def _operand(self, node: UOp, scope: _Scope) -> Value:
        if node.op is CONST:
            return literal(node.value, node.dtype), False
        return scope.find(node, False)

    def _make(self, node: UOp, scope: _Scope) -> Value:
        if node.op is LOAD:
            return self._load(node, scope)
        if node.op is sint.VARIABLE:
            if node is self.lane:
                base = self.splat(scope.find(node, True), "i64")
                return self.op(f"add nuw nsw {self.vector('i64')} {base}, {self.steps('i64')}"), True
            return scope.find(node, True), False
        assert node.op is not RESULT, "a result is kept by the pass that makes it"
        operands = [self._operand(n, scope) for n in node.src]
        is_vector = any(v for _, v in operands)
        names = [
            name if not is_vector or v else self.splat(name, register_type(n.dtype))
            for n, (name, v) in zip(node.src, operands, strict=True)
        ]
        return self.scalar_op(node, names, is_vector), is_vector

    # Memory

    def _address(self, array: UOp, position: str) -> str:
        return self.op(
            f"getelementptr inbounds {memory_type(array.dtype)}, ptr {self.arrays[array]}, i64 {position}"
        )

    def _load(self, node: UOp, scope: _Scope) -> Value:
        array, position = node.arg, node.src[0]
        kind, size = memory_type(array.dtype), array.dtype.itemsize
        along = 0 if self.lane is None else step_along(position, self.lane)
        if along == 0:
            address = self._address(array, self.index(position, scope))
            return self._loaded(
                self.op(f"load {kind}, ptr {address}, align {size}"), array.dtype, False
            ), False
        kinds, width = self.vector(kind), self.lanes
        if along == 1:
            address = self._address(array, self.index(position, scope))
            if self.mask is None:
                return self._loaded(
                    self.op(f"load {kinds}, ptr {address}, align {size}"), array.dtype, True
                ), True
            zero = self.vector(kind) + " zeroinitializer"
            name = f"llvm.masked.load.v{width}{memory_suffix(kind)}.p0"
            self.declared[f"declare {kinds} @{name}(ptr, i32 immarg, {self.vector('i1')}, {kinds})"] = None
            loaded = self.op(
                f"call {kinds} @{name}(ptr {address}, i32 {size}, {self.vector('i1')} {self.mask}, {zero})"
            )
            return self._loaded(loaded, array.dtype, True), True
        positions = self._positions(position, scope)
        pointers = self.op(
            f"getelementptr inbounds {kind}, ptr {self.arrays[array]}, {self.vector('i64')} {positions}"
        )
        mask = self.mask or self.splat("true", "i1")
        name = f"llvm.masked.gather.v{width}{memory_suffix(kind)}.v{width}p0"
        self.declared[
            f"declare {kinds} @{name}({self.vector('ptr')}, i32 immarg, {self.vector('i1')}, {kinds})"
        ] = None
        loaded = self.op(
            f"call {kinds} @{name}({self.vector('ptr')} {pointers}, i32 {size}, {self.vector('i1')} {mask}, "
            f"{kinds} zeroinitializer)"
        )
        return self._loaded(loaded, array.dtype, True), True

    def _positions(self, position: UOp, scope: _Scope) -> str:
        """A position in every lane."""
        made: dict[UOp, str] = {}
        for node in elements_of(position):
            if node is self.lane:
                base = self.splat(scope.find(node, True), "i64")
                made[node] = self.op(f"add nuw nsw {self.vector('i64')} {base}, {self.steps('i64')}")
            elif node.op is CONST:
                made[node] = self.splat(str(int(node.value)), "i64")
            elif scope.find(node, True) is not None and self.lane not in sint.variables([node]):
                made[node] = self.splat(scope.find(node, True), "i64")
            else:
                made[node] = self.index_op(node, [made[n] for n in node.src], self.vector("i64"))
        return made[position]

    def _loaded(self, name: str, dtype: DType, vector: bool) -> str:
        if dtype is not dtypes.bool_:
            return name
        kinds = self.vector("i8") if vector else "i8"
        return self.op(f"icmp ne {kinds} {name}, {'zeroinitializer' if vector else 0}")

    def _store(self, store: Store, scope: _Scope) -> None:
        array = store.node
        kind, size = memory_type(array.dtype), array.dtype.itemsize
        name, is_vector = self.value(store.value, scope)
        along = 0 if self.lane is None else step_along(store.position, self.lane)
        if array.dtype is dtypes.bool_:
            kinds = (self.vector("i1"), self.vector("i8")) if is_vector else ("i1", "i8")
            name = self.op(f"zext {kinds[0]} {name} to {kinds[1]}")
        if along == 0 and not is_vector:
            self.do(
                f"store {kind} {name}, ptr {self._address(array, self.index(store.position, scope))}, align {size}"
            )
            return
        if not is_vector:
            name = self.splat(name, kind)
        vectors, width = self.vector(kind), self.lanes
        if along == 1:
            address = self._address(array, self.index(store.position, scope))
            if self.mask is None:
                self.do(f"store {vectors} {name}, ptr {address}, align {size}")
                return
            function = f"llvm.masked.store.v{width}{memory_suffix(kind)}.p0"
            self.declared[f"declare void @{function}({vectors}, ptr, i32 immarg, {self.vector('i1')})"] = None
            self.do(
                f"call void @{function}({vectors} {name}, ptr {address}, i32 {size}, {self.vector('i1')} {self.mask})"
            )
            return
        positions = self._positions(store.position, scope)
        pointers = self.op(
            f"getelementptr inbounds {kind}, ptr {self.arrays[array]}, {self.vector('i64')} {positions}"
        )
        function = f"llvm.masked.scatter.v{width}{memory_suffix(kind)}.v{width}p0"
        self.declared[
            f"declare void @{function}({vectors}, {self.vector('ptr')}, i32 immarg, {self.vector('i1')})"
        ] = None
        mask = self.mask or self.splat("true", "i1")
        self.do(
            f"call void @{function}({vectors} {name}, {self.vector('ptr')} {pointers}, i32 {size}, {self.vector('i1')} {mask})"
        )


def chunks(nest: Nest, plan: Schedule) -> int:
    """How many points a kernel's begin and end count."""
    total = 1
    for o in nest.outer:
        total *= -(-size_of(o) // (plan.lanes * plan.copies)) if o is plan.outer_lane else size_of(o)
    return total


def _inner_size(nest: Nest, array: UOp) -> int:
    for each in nest.passes:
        for store in each.stores:
            if store.node is array:
                size = 1
                for r in each.inner:
                    size *= size_of(r)
                return size
    raise AssertionError("a local array is stored by a pass")


def render(
    nest: Nest, arrays: Sequence[UOp], name: str = "kernel", vector_bytes: int = 64
) -> tuple[str, Schedule]:
    """The IR of a module with one kernel for the nest, whose arguments are these arrays, and how it was scheduled."""
    plan = schedule(nest, arrays, vector_bytes)
    return Renderer(nest, arrays, name, plan).render(), plan
