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
from ..trace.uop import CONST, UOp, const
from .index import LOAD, RESULT
from .nest import Nest, Pass, Reduce, Store, elements_of, result, size_of, step_along

UNROLL = 4  # vectors per accumulator, so that additions need not wait for each other
COLUMNS = 16  # vectors of columns that a reduction over rows works on side by side: a kilobyte of each row

_REGISTER = {
    dtypes.bool_: "i1", dtypes.float16: "half", dtypes.bfloat16: "i16", dtypes.float32: "float", dtypes.float64: "double",
}  # fmt: skip
_MEMORY = {**_REGISTER, dtypes.bool_: "i8"}


def register_type(dtype: DType) -> str:
    """The type of a scalar while it is computed with (bfloat16 is never computed with: it is 16 bits)."""
    return _REGISTER.get(dtype) or f"i{8 * dtype.itemsize}"


def memory_type(dtype: DType) -> str:
    """The type of a scalar in memory."""
    return _MEMORY.get(dtype) or f"i{8 * dtype.itemsize}"


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


class Renderer:
    """Writes one kernel. See the module's docstring."""

    def __init__(self, nest: Nest, arrays: Sequence[UOp], name: str, plan: Schedule):
        self.nest, self.memory, self.name, self.plan = nest, arrays, name, plan
        self.lines: list[str] = []
        self.count = 0
        self.block = "entry"
        self.declared: dict[str, None] = {}
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

    def call(self, result: str, function: str, *arguments: tuple[str, str]) -> str:
        """Call an intrinsic, which is declared."""
        types = ", ".join(t for t, _ in arguments)
        self.declared[f"declare {result} @{function}({types})"] = None
        return self.op(f"call {result} @{function}({', '.join(f'{t} {v}' for t, v in arguments)})")

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
        width, copies, size = self.plan.lanes, self.plan.copies, size_of(lane)
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
        return _Column(scope, self.op(f"icmp slt {self.vector('i64')} {self._steps('i64')}, {limit}"))

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
        width, size = self.plan.lanes, size_of(lane)
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
        return "<" + ", ".join([f"{kind} {constant}"] * self.plan.lanes) + ">"

    def _combine(self, reduction: Reduce, total: str, element: str, vector: bool, masked: bool = True) -> str:
        dtype = reduction.value.dtype
        combined = self.binary(reduction.op, dtype, total, element, vector)
        if masked and vector and self.mask is not None and self.plan.outer_lane is None:
            kind = self.vector(register_type(dtype))
            return self.op(f"select {self.vector('i1')} {self.mask}, {kind} {combined}, {kind} {total}")
        return combined

    def _across(self, reduction: Reduce, total: str) -> str:
        """The lanes of an accumulator, combined by halves."""
        kind, width = register_type(reduction.value.dtype), self.plan.lanes
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

    def vector(self, kind: str, width: int | None = None) -> str:
        """The type of a vector of this kind of element."""
        return f"<{width or self.plan.lanes} x {kind}>"

    def splat(self, value: str, kind: str) -> str:
        """A vector with one value in all lanes."""
        if not value.startswith("%"):
            return "<" + ", ".join([f"{kind} {value}"] * self.plan.lanes) + ">"
        kinds = self.vector(kind)
        first = self.op(f"insertelement {kinds} poison, {kind} {value}, i64 0")
        return self.op(f"shufflevector {kinds} {first}, {kinds} poison, {self.vector('i32')} zeroinitializer")

    def _steps(self, kind: str) -> str:
        return "<" + ", ".join(f"{kind} {i}" for i in range(self.plan.lanes)) + ">"

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
        suffix = "i64" if kind == "i64" else f"v{self.plan.lanes}i64"
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
                return self.op(f"add nuw nsw {self.vector('i64')} {base}, {self._steps('i64')}"), True
            return scope.find(node, True), False
        assert node.op is not RESULT, "a result is kept by the pass that makes it"
        operands = [self._operand(n, scope) for n in node.src]
        is_vector = any(v for _, v in operands)
        names = [
            name if not is_vector or v else self.splat(name, register_type(n.dtype))
            for n, (name, v) in zip(node.src, operands, strict=True)
        ]
        return self.scalar_op(node, names, is_vector), is_vector

    def scalar_op(self, node: UOp, names: Sequence[str], vector: bool) -> str:
        """One scalar op on registers."""
        op, dtype = node.op, node.src[0].dtype
        if dtype is dtypes.bfloat16 and op not in (s.CAST, s.BITCAST, s.WHERE):
            # Not a type that is computed with: in float32, and rounded once.
            stand_in = s.build(op, *[const(0, dtypes.float32) for _ in names])
            result = self.scalar_op(stand_in, [self._from_bfloat16(n, vector) for n in names], vector)
            return self._to_bfloat16(result, vector) if stand_in.dtype is dtypes.float32 else result
        kind = register_type(dtype)
        kinds = self.vector(kind) if vector else kind
        suffix = (f"v{self.plan.lanes}" if vector else "") + _suffix(dtype)
        if op is s.WHERE:
            choice = register_type(node.dtype)
            choices = self.vector(choice) if vector else choice
            condition = self.vector("i1") if vector else "i1"
            return self.op(f"select {condition} {names[0]}, {choices} {names[1]}, {choices} {names[2]}")
        if op is s.CAST:
            return self.cast(names[0], dtype, node.dtype, vector)
        if op is s.BITCAST:
            target = register_type(node.dtype)
            return (
                names[0]
                if target == kind
                else self.op(f"bitcast {kinds} {names[0]} to {self.vector(target) if vector else target}")
            )
        if op is s.LT or op is s.EQ:
            if dtypes.is_float(dtype):
                return self.op(f"fcmp {'olt' if op is s.LT else 'oeq'} {kinds} {names[0]}, {names[1]}")
            signed = dtypes.kind(dtype) == "signed"
            return self.op(
                f"icmp {'eq' if op is s.EQ else 'slt' if signed else 'ult'} {kinds} {names[0]}, {names[1]}"
            )
        if op is s.FMA:
            return self.call(kinds, f"llvm.fma.{suffix}", *[(kinds, n) for n in names])
        if op is s.SQRT or op is s.TRUNC:
            return self.call(kinds, f"llvm.{op.name}.{suffix}", (kinds, names[0]))
        if op is s.RECIP:
            one = literal(np.asarray(1, dtype)[()], dtype)
            return self.op(f"fdiv {kinds} {self.splat(one, kind) if vector else one}, {names[0]}")
        return self.binary(op, dtype, names[0], names[1], vector)

    def binary(
        self, op: s.ScalarOp, dtype: DType, a: str, b: str, vector: bool, width: int | None = None
    ) -> str:
        """An op on two registers of one dtype."""
        kind = register_type(dtype)
        kinds = self.vector(kind, width) if vector else kind
        suffix = (f"v{width or self.plan.lanes}" if vector else "") + _suffix(dtype)
        if dtypes.is_float(dtype):
            names = {s.ADD: "fadd", s.MUL: "fmul", s.DIV: "fdiv"}
            if op in names:
                return self.op(f"{names[op]} {kinds} {a}, {b}")
            return self.call(
                kinds, f"llvm.{'maximum' if op is s.MAX else 'minimum'}.{suffix}", (kinds, a), (kinds, b)
            )
        names = {s.ADD: "add", s.MUL: "mul", s.AND: "and", s.OR: "or", s.XOR: "xor"}
        if op in names:
            return self.op(f"{names[op]} {kinds} {a}, {b}")
        sign = "s" if dtypes.kind(dtype) == "signed" else "u"
        if op is s.MAX or op is s.MIN:
            return self.call(kinds, f"llvm.{sign}{op.name}.{suffix}", (kinds, a), (kinds, b))
        return self._guarded(op, dtype, a, b, vector)

    def _guarded(self, op: s.ScalarOp, dtype: DType, a: str, b: str, vector: bool) -> str:
        """Divisions and shifts of integers, which the machine does not define for every operand."""
        kind = register_type(dtype)
        kinds, bools = (self.vector(kind), self.vector("i1")) if vector else (kind, "i1")
        signed = dtypes.kind(dtype) == "signed"

        def constant(value: int) -> str:
            return self.splat(str(value), kind) if vector else str(value)

        bits = 8 * dtype.itemsize
        if op is s.SHL or op is s.SHR:
            inside = self.op(f"icmp ult {kinds} {b}, {constant(bits)}")
            amount = self.op(f"select {bools} {inside}, {kinds} {b}, {kinds} {constant(bits - 1)}")
            name = "shl" if op is s.SHL else "ashr" if signed else "lshr"
            shifted = self.op(f"{name} {kinds} {a}, {amount}")
            if op is s.SHR and signed:
                return shifted
            return self.op(f"select {bools} {inside}, {kinds} {shifted}, {kinds} {constant(0)}")
        # Floor division; by zero it gives 0, and the least number by -1 wraps to itself.
        zero = self.op(f"icmp eq {kinds} {b}, {constant(0)}")
        if not signed:
            divisor = self.op(f"select {bools} {zero}, {kinds} {constant(1)}, {kinds} {b}")
            result = self.op(f"{'udiv' if op is s.IDIV else 'urem'} {kinds} {a}, {divisor}")
            return self.op(f"select {bools} {zero}, {kinds} {constant(0)}, {kinds} {result}")
        minus = self.op(f"icmp eq {kinds} {b}, {constant(-1)}")
        unsafe = self.op(f"or {bools} {zero}, {minus}")
        divisor = self.op(f"select {bools} {unsafe}, {kinds} {constant(1)}, {kinds} {b}")
        quotient = self.op(f"sdiv {kinds} {a}, {divisor}")
        rest = self.op(f"srem {kinds} {a}, {divisor}")
        differ = self.op(f"icmp slt {kinds} {self.op(f'xor {kinds} {a}, {divisor}')}, {constant(0)}")
        below = self.op(f"and {bools} {differ}, {self.op(f'icmp ne {kinds} {rest}, {constant(0)}')}")
        if op is s.IDIV:
            floor = self.op(f"add {kinds} {quotient}, {self.op(f'sext {bools} {below} to {kinds}')}")
            negated = self.op(f"sub {kinds} {constant(0)}, {a}")
            result = self.op(f"select {bools} {minus}, {kinds} {negated}, {kinds} {floor}")
        else:
            shifted = self.op(f"add {kinds} {rest}, {divisor}")
            result = self.op(f"select {bools} {below}, {kinds} {shifted}, {kinds} {rest}")
            result = self.op(f"select {bools} {minus}, {kinds} {constant(0)}, {kinds} {result}")
        return self.op(f"select {bools} {zero}, {kinds} {constant(0)}, {kinds} {result}")

    def cast(self, name: str, source: DType, target: DType, vector: bool) -> str:
        """A conversion of a register: floats to integers saturate, NaN gives 0."""
        if source is target:
            return name
        if target is dtypes.bfloat16:
            return self._to_bfloat16(self.cast(name, source, dtypes.float32, vector), vector)
        if source is dtypes.bfloat16:
            return self.cast(self._from_bfloat16(name, vector), dtypes.float32, target, vector)
        if source is dtypes.float64 and target is dtypes.float16:
            return self.cast(self._rounded_to_odd(name, vector), dtypes.float32, target, vector)
        kinds = [self.vector(register_type(d)) if vector else register_type(d) for d in (source, target)]
        from_float, to_float = dtypes.is_float(source), dtypes.is_float(target)
        if target is dtypes.bool_:
            zero = literal(np.asarray(0, source)[()], source)
            other = self.splat(zero, register_type(source)) if vector else zero
            return self.op(f"{'fcmp une' if from_float else 'icmp ne'} {kinds[0]} {name}, {other}")
        if from_float and to_float:
            name_of = "fpext" if source.itemsize < target.itemsize else "fptrunc"
        elif to_float:
            name_of = "sitofp" if dtypes.kind(source) == "signed" else "uitofp"
        elif from_float:
            width = f"v{self.plan.lanes}" if vector else ""
            sign = "s" if dtypes.kind(target) == "signed" else "u"
            function = f"llvm.fpto{sign}i.sat.{width}i{8 * target.itemsize}.{width}{_suffix(source)}"
            return self.call(kinds[1], function, (kinds[0], name))
        elif source.itemsize > target.itemsize and source is not dtypes.bool_:
            name_of = "trunc"
        elif source.itemsize == target.itemsize and source is not dtypes.bool_:
            return name
        else:
            name_of = "sext" if dtypes.kind(source) == "signed" else "zext"
        return self.op(f"{name_of} {kinds[0]} {name} to {kinds[1]}")

    def _integer(self, value: int, vector: bool) -> str:
        return self.splat(str(value), "i32") if vector else str(value)

    def _from_bfloat16(self, name: str, vector: bool) -> str:
        half, word, single = (self.vector(k) if vector else k for k in ("i16", "i32", "float"))
        wide = self.op(f"zext {half} {name} to {word}")
        return self.op(
            f"bitcast {word} {self.op(f'shl {word} {wide}, {self._integer(16, vector)}')} to {single}"
        )

    def _to_bfloat16(self, name: str, vector: bool) -> str:
        """Rounded to nearest even in integers: the machine's own conversion takes subnormals for zeros."""
        half, word, single, bools = (self.vector(k) if vector else k for k in ("i16", "i32", "float", "i1"))
        bits = self.op(f"bitcast {single} {name} to {word}")
        top = self.op(f"lshr {word} {bits}, {self._integer(16, vector)}")
        odd = self.op(f"and {word} {top}, {self._integer(1, vector)}")
        rounding = self.op(f"add {word} {odd}, {self._integer(0x7FFF, vector)}")
        rounded = self.op(
            f"lshr {word} {self.op(f'add {word} {bits}, {rounding}')}, {self._integer(16, vector)}"
        )
        quiet = self.op(f"or {word} {top}, {self._integer(0x40, vector)}")
        is_nan = self.op(f"fcmp uno {single} {name}, {name}")
        chosen = self.op(f"select {bools} {is_nan}, {word} {quiet}, {word} {rounded}")
        return self.op(f"trunc {word} {chosen} to {half}")

    def _rounded_to_odd(self, name: str, vector: bool) -> str:
        """A double as a float from which rounding to half gives what rounding the double would.

        Where the float is not exact its last bit is set, after rounding towards zero, so that no tie can arise."""
        double, word, single, bools = (
            self.vector(k) if vector else k for k in ("double", "i32", "float", "i1")
        )
        near = self.op(f"fptrunc {double} {name} to {single}")
        back = self.op(f"fpext {single} {near} to {double}")
        size, size_back = (
            self.call(double, f"llvm.fabs.{f'v{self.plan.lanes}' if vector else ''}f64", (double, v))
            for v in (name, back)
        )
        above = self.op(f"fcmp ogt {double} {size_back}, {size}")
        inexact = self.op(f"fcmp one {double} {back}, {name}")
        bits = self.op(f"bitcast {single} {near} to {word}")
        below = self.op(f"sub {word} {bits}, {self.op(f'zext {bools} {above} to {word}')}")
        odd = self.op(f"or {word} {below}, {self.op(f'zext {bools} {inexact} to {word}')}")
        return self.op(f"bitcast {word} {odd} to {single}")

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
        kinds, width = self.vector(kind), self.plan.lanes
        if along == 1:
            address = self._address(array, self.index(position, scope))
            if self.mask is None:
                return self._loaded(
                    self.op(f"load {kinds}, ptr {address}, align {size}"), array.dtype, True
                ), True
            zero = self.vector(kind) + " zeroinitializer"
            name = f"llvm.masked.load.v{width}{_memory_suffix(kind)}.p0"
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
        name = f"llvm.masked.gather.v{width}{_memory_suffix(kind)}.v{width}p0"
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
                made[node] = self.op(f"add nuw nsw {self.vector('i64')} {base}, {self._steps('i64')}")
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
        vectors, width = self.vector(kind), self.plan.lanes
        if along == 1:
            address = self._address(array, self.index(store.position, scope))
            if self.mask is None:
                self.do(f"store {vectors} {name}, ptr {address}, align {size}")
                return
            function = f"llvm.masked.store.v{width}{_memory_suffix(kind)}.p0"
            self.declared[f"declare void @{function}({vectors}, ptr, i32 immarg, {self.vector('i1')})"] = None
            self.do(
                f"call void @{function}({vectors} {name}, ptr {address}, i32 {size}, {self.vector('i1')} {self.mask})"
            )
            return
        positions = self._positions(store.position, scope)
        pointers = self.op(
            f"getelementptr inbounds {kind}, ptr {self.arrays[array]}, {self.vector('i64')} {positions}"
        )
        function = f"llvm.masked.scatter.v{width}{_memory_suffix(kind)}.v{width}p0"
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


def _suffix(dtype: DType) -> str:
    return {dtypes.float16: "f16", dtypes.float32: "f32", dtypes.float64: "f64"}.get(dtype) or register_type(
        dtype
    )


def _memory_suffix(kind: str) -> str:
    return {"half": "f16", "float": "f32", "double": "f64"}.get(kind, kind)


def literal(value: Any, dtype: DType) -> str:
    """A constant as LLVM writes it: floats by their bits, so that every value is exact."""
    if dtype is dtypes.bool_:
        return "true" if value else "false"
    if dtype is dtypes.float32 or dtype is dtypes.float64:
        return (
            f"0x{np.asarray(value, np.float64).view(np.uint64)[()]:016X}"
            if not np.isnan(value)
            else "0x7FF8000000000000"
        )
    if dtype is dtypes.float16:
        return f"0xH{np.asarray(value, np.float16).view(np.uint16)[()]:04X}"
    if dtype is dtypes.bfloat16:
        return str(int(np.asarray(value, dtype).view(np.uint16)[()]))
    return str(int(value))


def render(
    nest: Nest, arrays: Sequence[UOp], name: str = "kernel", vector_bytes: int = 64
) -> tuple[str, Schedule]:
    """The IR of a module with one kernel for the nest, whose arguments are these arrays, and how it was scheduled."""
    plan = schedule(nest, arrays, vector_bytes)
    return Renderer(nest, arrays, name, plan).render(), plan
