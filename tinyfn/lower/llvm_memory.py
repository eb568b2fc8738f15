"""Memory as LLVM IR: what lies side by side is read and written at once, the rest lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..trace import dtype as dtypes
from ..trace.dtype import DType
from ..trace.uop import UOp, toposort
from .index import LOAD, RESULT
from .linear import Linear, linear
from .llvm_scalar import memory_suffix, memory_type
from .llvm_values import Values
from .nest import Pass, Store
from .schedule import Lanes


class Memory(Values):
    """Writes loads and stores. `arrays` are their addresses; `streamed` go to memory past the caches while `streaming`."""

    def __init__(self) -> None:
        super().__init__()
        self.arrays: dict[UOp, str] = {}
        self.addressed: Sequence[UOp] = ()  # the arrays whose addresses the kernel takes
        self.read: frozenset[UOp] = frozenset()  # those that it reads, if some are streamed
        self.streaming = False
        self.streamed: frozenset[UOp] = frozenset()
        self.streams: str | None = None  # whether they can be, once somebody has asked
        self._addresses: dict[tuple[UOp, UOp, int], str] = {}
        self._linear: dict[UOp, Linear] = {}

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
        return not self._linear[position].is_all and any(
            n.op in (LOAD, RESULT) and self.depends(n).varies for n in toposort([position])
        )

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

    def load(self, node: UOp, column: int, varies: bool) -> str:
        """The element in memory that a LOAD reads; `varies`: for each lane."""
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
        self.declared[f"declare {kinds} @{name}(ptr, {bools}, {kinds})"] = None
        return self.op(
            f"call {kinds} @{name}(ptr align {size} {address}, {bools} {mask}, {kinds} zeroinitializer)"
        )

    def _gather(self, kind: str, size: int, array: UOp, positions: str, mask: str | None) -> str:
        kinds, bools, pointers = self.vector(kind), self.vector("i1"), self.vector("ptr")
        places = self.op(f"getelementptr {kind}, ptr {self.arrays[array]}, {self.vector('i64')} {positions}")
        name = f"llvm.masked.gather.v{self.lanes}{memory_suffix(kind)}.v{self.lanes}p0"
        self.declared[f"declare {kinds} @{name}({pointers}, {bools}, {kinds})"] = None
        return self.op(
            f"call {kinds} @{name}({pointers} align {size} {places}, {bools} {mask or 'splat (i1 true)'}, "
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
        self.declared[f"declare void @{function}({kinds}, ptr, {bools})"] = None
        self.do(f"call void @{function}({kinds} {name}, ptr align {size} {address}, {bools} {mask})")

    def _scatter(self, kind: str, size: int, name: str, array: UOp, positions: str, mask: str | None) -> None:
        kinds, bools, pointers = self.vector(kind), self.vector("i1"), self.vector("ptr")
        places = self.op(f"getelementptr {kind}, ptr {self.arrays[array]}, {self.vector('i64')} {positions}")
        function = f"llvm.masked.scatter.v{self.lanes}{memory_suffix(kind)}.v{self.lanes}p0"
        self.declared[f"declare void @{function}({kinds}, {pointers}, {bools})"] = None
        self.do(
            f"call void @{function}({kinds} {name}, {pointers} align {size} {places}, "
            f"{bools} {mask or 'splat (i1 true)'})"
        )

    def past_caches(self, lanes: Lanes, passes: Sequence[Pass], loop: Callable[[], list[str]]) -> list[str]:
        """A loop of whole vectors that hands nothing on; what is large is written past the caches where that can be done."""
        stores = [store for each in passes for store in each.stores if store.node in self.streamed]
        vectors = [linear(store.position) for store in stores]
        if not stores or any(each.passes for each in passes):
            return loop()
        for form in vectors:
            rest = [form.constant, *[step for r, step in form.steps.items() if r is not lanes.along]]
            if not form.is_all or form.along(lanes.along) != 1 or any(step % lanes.lanes for step in rest):
                return loop()
        if self.streams is None:
            saved, self.out = self.out, self.scopes[0].out
            self.streams = self._can_stream()
            self.out = saved

        def past() -> None:
            self.streaming = True
            loop()
            self.streaming = False

        self.when(self.streams, past)
        self.when(self.op(f"xor i1 {self.streams}, true"), loop)
        return []

    def _can_stream(self) -> str:
        """Whether what is large is aligned, and not written over what was read: that is in the caches already."""
        large = {array: self.arrays[array] for array in self.addressed if array in self.streamed}
        read = [self.arrays[array] for array in self.addressed if array in self.read - self.streamed]
        bits = [self.op(f"ptrtoint ptr {address} to i64") for address in large.values()]
        while len(bits) > 1:
            bits = [*bits[2:], self.op(f"or i64 {bits[0]}, {bits[1]}")]
        result = self.op(f"icmp eq i64 {self.op(f'and i64 {bits[0]}, 63')}, 0")
        for address in large.values():
            for other in read:
                apart = self.op(f"icmp ne ptr {address}, {other}")
                result = self.op(f"and i1 {result}, {apart}")
        return result
