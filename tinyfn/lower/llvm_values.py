"""Values of expressions, and memory, as LLVM IR: for one vector, or for several side by side.

A `Frame` says what runs along the lanes. The vectors that are worked on side by side are its columns; what does not differ
between them is made once. Each value is made in the outermost scope that knows all that it depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..trace import dtype as dtypes
from ..trace import scalar as s
from ..trace import sint
from ..trace.dtype import DType
from ..trace.uop import CONST, UOp, toposort
from .index import LOAD, RESULT
from .linear import Linear, linear
from .llvm_scalar import constant, memory_suffix, memory_type, register_type
from .llvm_writer import Writer
from .nest import Pass, Store, elements_of

Value = tuple[str, bool]  # the name of an SSA value, and whether it is a vector


class Frame(NamedTuple):
    """What runs along the lanes: a range, how many lanes there are, and how many columns.

    Where a block of all columns begins is a multiple of their size."""

    lane: UOp
    lanes: int
    columns: int


class Dependence(NamedTuple):
    """What a value depends on: the depth of the innermost scope, and whether it differs between lanes."""

    depth: int
    varies: bool


class Values(Writer):
    """Writes values and stores. `base` of the arrays are their addresses, `written` the arrays that the nest itself stores."""

    def __init__(self) -> None:
        super().__init__()
        self.arrays: dict[UOp, str] = {}
        self.written: frozenset[UOp] = frozenset()
        self.local: frozenset[UOp] = frozenset()
        self.frame: Frame | None = None
        self.own_rows = 0  # how many points have local arrays of their own, which lie side by side: 0 for one point at a time
        self.masks: Sequence[str | None] = ()  # by column
        self.streaming = False  # whether what is large goes to memory past the caches
        self.streamed: frozenset[UOp] = frozenset()  # what is large
        self._frame_depth = 0
        self._of_frame: list[
            tuple[dict[Any, Any], Any]
        ] = []  # what is known only while this runs along the lanes
        self._values: dict[tuple[UOp, int], Value] = {}
        self._indices: dict[tuple[UOp, int], str] = {}
        self._addresses: dict[tuple[UOp, UOp, int], str] = {}
        self._depends: dict[UOp, Dependence] = {}
        self._orders: dict[UOp, list[UOp]] = {}
        self._linear: dict[UOp, Linear] = {}

    # What is known

    def bind(self, r: UOp, name: str) -> None:
        """A range has this value in the innermost scope."""
        self.know(self._depends, r, Dependence(self.depth, False), self.depth)
        self.know(self._values, (r, -1), (name, False), self.depth)

    def enter(self, frame: Frame, bases: Sequence[str], masks: Sequence[str | None]) -> None:
        """In the innermost scope a range runs along the lanes, from these bases on, by column."""
        self.frame, self.lanes, self.masks = frame, frame.lanes, masks
        self._frame_depth = self.depth
        self.know(self._depends, frame.lane, Dependence(self.depth, True), self.depth)
        for column, base in enumerate(bases):
            self.know(self._indices, (frame.lane, column), base, self.depth)

    def leave(self) -> None:
        """Nothing runs along lanes any more."""
        self.frame, self.lanes, self.masks = None, 1, ()
        for table, key in self._of_frame:
            table.pop(key, None)
        self._of_frame.clear()

    def keep(self, node: UOp, name: str, vector: bool, column: int, depth: int | None = None) -> None:
        """A node has this value in the innermost scope, or in that of a depth."""
        depth = self.depth if depth is None else depth
        self.know(self._depends, node, Dependence(depth, vector), depth)
        self.know(self._values, (node, column if vector else -1), (name, vector), depth)
        if vector:
            self._of_frame += [(self._depends, node), (self._values, (node, column))]

    def depends(self, node: UOp) -> Dependence:
        """What a node's value depends on."""
        found = self._depends.get(node)
        if found is None:
            # Who asks in topological order needs no walk.
            ready = all([source in self._depends for source in node.src])
            for each in (node,) if ready else toposort([node], stop=self._depends):
                depth, varies = 0, False
                for source in each.src:
                    below = self._depends[source]
                    depth, varies = max(depth, below.depth), varies or below.varies
                if each.op is LOAD:
                    if each.arg in self.written:
                        depth = self.depth  # not before it was stored
                    varies = varies or (self.own_rows > 0 and each.arg in self.local)
                elif each.op is s.MOD and self._period(each):
                    depth = 0
                found = Dependence(depth, varies)
                self.know(self._depends, each, found, depth)
                if varies:
                    self._of_frame.append((self._depends, each))
        assert found is not None
        return found

    def _period(self, node: UOp) -> int:
        """The divisor of a division of the lane's range that divides the size of a block, or 0."""
        frame = self.frame
        if frame is None or node.op not in (s.IDIV, s.MOD) or node.src[0] is not frame.lane:
            return 0
        divisor = node.src[1]
        if divisor.op is not CONST or int(divisor.value) <= 0:
            return 0
        return int(divisor.value) if frame.lanes * frame.columns % int(divisor.value) == 0 else 0

    # Expressions

    def value(self, expression: UOp, column: int = 0) -> Value:
        """The value of an expression: a vector if it differs between lanes."""
        order = self._orders.get(expression)
        if order is None:
            order = self._orders[expression] = [n for n in elements_of(expression) if n.op is not CONST]
        values = self._values
        for node in order:
            depth, varies = self.depends(node)
            key = (node, column if varies else -1)
            if key not in values:
                saved, self.out = self.out, self.scopes[depth].out
                self.know(values, key, (self._make(node, column, varies), varies), depth)
                self.out = saved
                if varies:
                    self._of_frame.append((values, key))
        return self._operand(expression, column)

    def vector_of(self, expression: UOp, column: int = 0) -> str:
        """The value of an expression in every lane."""
        name, is_vector = self.value(expression, column)
        return name if is_vector else self.splat(name, register_type(expression.dtype))

    def _operand(self, node: UOp, column: int) -> Value:
        if node.op is CONST:
            return constant(node), False
        return self._values[node, column if self._depends[node].varies else -1]

    def _make(self, node: UOp, column: int, varies: bool) -> str:
        if node.op is LOAD:
            return self._load(node, column, varies)
        if node.op is sint.VARIABLE:
            base = self.splat(self._indices[node, column], "i64")
            return self.op(f"add nuw nsw {self.vector('i64')} {base}, {self.steps('i64')}")
        assert node.op is not RESULT, "a result is kept by the pass that makes it"
        if period := self._period(node):
            return self._divided_lane(node, period, column)
        operands = [self._operand(n, column) for n in node.src]
        names = [
            name if not varies or v else self.splat(name, register_type(n.dtype))
            for n, (name, v) in zip(node.src, operands, strict=True)
        ]
        if (node.op is s.IDIV or node.op is s.MOD) and node.dtype is dtypes.int64:
            if sint.bounds(node.src[0])[0] >= 0 and sint.bounds(node.src[1])[0] > 0:
                kind = self.vector("i64") if varies else "i64"
                return self.op(f"{'udiv' if node.op is s.IDIV else 'urem'} {kind} {names[0]}, {names[1]}")
        return self.scalar_op(node, names, varies)

    def _divided_lane(self, node: UOp, divisor: int, column: int) -> str:
        """The lane's range divided by what divides a block: the lanes' part of it is constant."""
        frame = self.frame
        assert frame is not None
        numbers = [column * frame.lanes + lane for lane in range(frame.lanes)]
        if node.op is s.MOD:
            return "<" + ", ".join(f"i64 {n % divisor}" for n in numbers) + ">"
        first = self.op(f"udiv exact i64 {self._indices[frame.lane, 0]}, {divisor}")
        steps = "<" + ", ".join(f"i64 {n // divisor}" for n in numbers) + ">"
        return self.op(f"add nuw nsw {self.vector('i64')} {self.splat(first, 'i64')}, {steps}")

    def index(self, position: UOp, column: int = 0) -> str:
        """An index in a scalar register (where it differs between lanes: in the first one)."""
        if position.op is CONST:
            return str(int(position.value))
        if not self.depends(position).varies:
            return self.value(position, column)[0]
        indices = self._indices
        if (position, column) in indices:
            return indices[position, column]
        steady = {n for n in toposort([position], stop=self._indices) if not self.depends(n).varies}
        for node in toposort([position], stop=steady):
            if (node, column) in indices:
                continue
            names = [indices[n, column] if n not in steady else self.index(n, column) for n in node.src]
            depth = self._depends[node].depth
            saved, self.out = self.out, self.scopes[depth].out
            if node.op is s.IDIV or node.op is s.MOD:
                # The range's own block may begin anywhere; positions are not negative.
                name = self.op(f"{'udiv' if node.op is s.IDIV else 'urem'} i64 {names[0]}, {names[1]}")
            else:
                name = self.scalar_op(node, names, False)
            self.out = saved
            self.know(indices, (node, column), name, depth)
            self._of_frame.append((indices, (node, column)))
        return indices[position, column]

    # Memory

    def step(self, position: UOp) -> int | None:
        """By how much a position grows from lane to lane, or None if not evenly."""
        if self.frame is None or not self.depends(position).varies:
            return 0
        form = self._linear.get(position)
        if form is None:
            form = self._linear[position] = linear(position)
        return form.along(self.frame.lane) if not self._carries_vectors(position) else None

    def _carries_vectors(self, position: UOp) -> bool:
        """Whether data that differs between lanes is part of a position."""
        form = self._linear[position]
        if not form.other and all(n.op is not LOAD for n in toposort([position])):
            return False
        return any(n.op in (LOAD, RESULT) and self.depends(n).varies for n in toposort([position]))

    def address(self, array: UOp, position: UOp, column: int, offset: int = 0, inside: bool = True) -> str:
        """Where the element at a position is, in the first lane; `offset` moves it, `inside`: it is in the array."""
        key = (array, position, column if self.depends(position).varies else -1)
        kind = memory_type(array.dtype)
        found = self._addresses.get(key)
        if found is None:
            depth = self.depends(position).depth
            frame = self.frame
            if key[2] > 0 and frame is not None and self.step(position) == 1:
                first, index = self.address(array, position, 0, 0, inside), str(column * frame.lanes)
            else:
                first, index = self.arrays[array], self.index(position, column)
            saved, self.out = self.out, self.scopes[depth].out
            found = self.op(f"getelementptr {'inbounds ' if inside else ''}{kind}, ptr {first}, i64 {index}")
            self.out = saved
            self.know(self._addresses, key, found, depth)
            if key[2] >= 0:
                self._of_frame.append((self._addresses, key))
        return self.op(f"getelementptr {kind}, ptr {found}, i64 {offset}") if offset else found

    def _mine(self, array: UOp, position: UOp, column: int) -> str | None:
        """Where the lanes' own elements of a local array are, if each lane has one."""
        if not (self.own_rows and array in self.local):
            return None
        kind, width = memory_type(array.dtype), self.lanes
        index = self.index(position, column)
        row = self.op(f"mul nuw nsw i64 {index}, {self.own_rows}")
        place = self.op(f"add nuw nsw i64 {row}, {column * width}") if column else row
        return self.op(f"getelementptr inbounds {kind}, ptr {self.arrays[array]}, i64 {place}")

    def _load(self, node: UOp, column: int, varies: bool) -> str:
        array, (position, *condition) = node.arg, node.src
        kind, size = memory_type(array.dtype), array.dtype.itemsize
        if not varies:
            index = self.index(position, column)
            if condition:
                # Somewhere within the array, where the position may not be.
                holds = self.value(condition[0], column)[0]
                index = self.op(f"select i1 {holds}, i64 {index}, i64 0")
                address = self.op(f"getelementptr inbounds {kind}, ptr {self.arrays[array]}, i64 {index}")
                loaded = self.op(f"load {kind}, ptr {address}, align {size}")
                zero = "0.0" if kind in ("half", "float", "double") else "0"
                loaded = self.op(f"select i1 {holds}, {kind} {loaded}, {kind} {zero}")
            else:
                loaded = self.op(f"load {kind}, ptr {self.address(array, position, column)}, align {size}")
            return self.from_memory(loaded, array.dtype, False)
        kinds = self.vector(kind)
        mine = self._mine(array, position, column)
        if mine is not None:
            return self.from_memory(self.op(f"load {kinds}, ptr {mine}, align {size}"), array.dtype, True)
        # What does not depend on where the block is, is within the array in all lanes.
        mask = self.masks[column] if self._depends[node].depth >= self._frame_depth else None
        if condition:
            holds = self.vector_of(condition[0], column)
            mask = holds if mask is None else self.op(f"and {self.vector('i1')} {mask}, {holds}")
        step = self.step(position)
        inside = not condition
        if step == 1:
            loaded = self.load_row(kind, size, self.address(array, position, column, 0, inside), mask)
        elif step == -1:
            first = self.address(array, position, column, 1 - self.lanes, False)
            loaded = self._reversed(
                self.load_row(kind, size, first, mask and self._reversed(mask, "i1")), kind
            )
        else:
            loaded = self._gather(kind, size, array, self.vector_of(position, column), mask)
        return self.from_memory(loaded, array.dtype, True)

    def load_row(self, kind: str, size: int, address: str, mask: str | None) -> str:
        """A vector of neighbours in memory."""
        kinds, bools = self.vector(kind), self.vector("i1")
        if mask is None:
            return self.op(f"load {kinds}, ptr {address}, align {size}")
        name = f"llvm.masked.load.v{self.lanes}{memory_suffix(kind)}.p0"
        self.declared[f"declare {kinds} @{name}(ptr, i32 immarg, {bools}, {kinds})"] = None
        return self.op(
            f"call {kinds} @{name}(ptr {address}, i32 {size}, {bools} {mask}, {kinds} zeroinitializer)"
        )

    def _gather(self, kind: str, size: int, array: UOp, positions: str, mask: str | None) -> str:
        kinds, bools, pointers = self.vector(kind), self.vector("i1"), self.vector("ptr")
        places = self.op(f"getelementptr {kind}, ptr {self.arrays[array]}, {self.vector('i64')} {positions}")
        name = f"llvm.masked.gather.v{self.lanes}{memory_suffix(kind)}.v{self.lanes}p0"
        self.declared[f"declare {kinds} @{name}({pointers}, i32 immarg, {bools}, {kinds})"] = None
        return self.op(
            f"call {kinds} @{name}({pointers} {places}, i32 {size}, {bools} {mask or 'splat (i1 true)'}, "
            f"{kinds} zeroinitializer)"
        )

    def _reversed(self, name: str, kind: str) -> str:
        kinds = self.vector(kind)
        order = ", ".join(f"i32 {i}" for i in reversed(range(self.lanes)))
        return self.op(f"shufflevector {kinds} {name}, {kinds} poison, {self.vector('i32')} <{order}>")

    def from_memory(self, name: str, dtype: DType, vector: bool) -> str:
        """What was loaded, as it is computed with."""
        if dtype is not dtypes.bool_:
            return name
        return self.op(
            f"icmp ne {self.vector('i8') if vector else 'i8'} {name}, {'zeroinitializer' if vector else 0}"
        )

    def stores(self, each: Pass, column: int = 0) -> None:
        """Make all values of a pass at a point, and then store: that may be over what another value reads (`memory.py`)."""
        for expression in (*[store.value for store in each.stores], *[r.value for r in each.reductions]):
            self.value(expression, column)
        for store in each.stores:
            self.store(store, column)

    def store(self, store: Store, column: int = 0) -> None:
        """Write a value to memory; in a frame, its lanes."""
        array, position = store.node, store.position
        kind, size = memory_type(array.dtype), array.dtype.itemsize
        name, is_vector = self.value(store.value, column)
        if array.dtype is dtypes.bool_:
            kinds = (self.vector("i1"), self.vector("i8")) if is_vector else ("i1", "i8")
            name = self.op(f"zext {kinds[0]} {name} to {kinds[1]}")
        mine = self._mine(array, position, column)
        step = self.step(position)
        if step == 0 and not is_vector and mine is None:
            self.do(f"store {kind} {name}, ptr {self.address(array, position, column)}, align {size}")
            return
        if not is_vector:
            name = self.splat(name, kind)
        mask = self.masks[column]
        if mine is not None:
            self.do(f"store {self.vector(kind)} {name}, ptr {mine}, align {size}")
        elif mask is not None and mask.startswith("<i1 true") and mask.count("true") == 1:
            # A scalar store: of a truncated vector LLVM (20 to 22) would write 32 bits for the only lane.
            first = self.op(f"extractelement {self.vector(kind)} {name}, i64 0")
            self.do(f"store {kind} {first}, ptr {self.address(array, position, column)}, align {size}")
        elif step == 1:
            past = self.streaming and array in self.streamed
            self._store_row(kind, size, name, self.address(array, position, column), self.masks[column], past)
        elif step == -1:
            first, mask = self.address(array, position, column, 1 - self.lanes, False), self.masks[column]
            self._store_row(
                kind, size, self._reversed(name, kind), first, mask and self._reversed(mask, "i1")
            )
        else:
            self._scatter(kind, size, name, array, self.vector_of(position, column), self.masks[column])

    def _store_row(
        self, kind: str, size: int, name: str, address: str, mask: str | None, past: bool = False
    ) -> None:
        kinds, bools = self.vector(kind), self.vector("i1")
        if mask is None:
            where = f"align {size * self.lanes}, !nontemporal !0" if past else f"align {size}"
            self.do(f"store {kinds} {name}, ptr {address}, {where}")
            return
        function = f"llvm.masked.store.v{self.lanes}{memory_suffix(kind)}.p0"
        self.declared[f"declare void @{function}({kinds}, ptr, i32 immarg, {bools})"] = None
        self.do(f"call void @{function}({kinds} {name}, ptr {address}, i32 {size}, {bools} {mask})")

    def _scatter(self, kind: str, size: int, name: str, array: UOp, positions: str, mask: str | None) -> None:
        kinds, bools, pointers = self.vector(kind), self.vector("i1"), self.vector("ptr")
        places = self.op(f"getelementptr {kind}, ptr {self.arrays[array]}, {self.vector('i64')} {positions}")
        function = f"llvm.masked.scatter.v{self.lanes}{memory_suffix(kind)}.v{self.lanes}p0"
        self.declared[f"declare void @{function}({kinds}, {pointers}, i32 immarg, {bools})"] = None
        self.do(
            f"call void @{function}({kinds} {name}, {pointers} {places}, i32 {size}, "
            f"{bools} {mask or 'splat (i1 true)'})"
        )
