"""Values of expressions as LLVM IR: for one vector, or for several side by side.

A `Frame` says what runs along the lanes. The vectors that are worked on side by side are its columns; what does not differ
between them is made once. Each value is made in the outermost scope that knows all that it depends on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..trace import dtype as dtypes
from ..trace import scalar as s
from ..trace import sint
from ..trace.uop import CONST, UOp, toposort
from .index import LOAD, RESULT
from .llvm_scalar import constant, register_type
from .llvm_writer import Writer
from .nest import elements_of

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
    """Writes values. `written` are the arrays that the nest itself stores, `local` those of them that live for a point."""

    def __init__(self) -> None:
        super().__init__()
        self.written: frozenset[UOp] = frozenset()
        self.local: frozenset[UOp] = frozenset()
        self.frame: Frame | None = None
        self.own_rows = 0  # how many points have local arrays of their own, which lie side by side: 0 for one point at a time
        self.masks: Sequence[str | None] = ()  # by column
        self._frame_depth = 0
        self._of_frame: list[
            tuple[dict[Any, Any], Any]
        ] = []  # what is known only while this runs along the lanes
        self._values: dict[tuple[UOp, int], Value] = {}
        self._indices: dict[tuple[UOp, int], str] = {}
        self._spreads: dict[tuple[UOp, int], str] = {}  # by node and lanes
        self._depends: dict[UOp, Dependence] = {}
        self._orders: dict[UOp, list[UOp]] = {}

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

    def extent(self, r: UOp) -> int | str:
        """The number of values of a range, which may be known only at run time."""
        size = sint.extent(r)
        return size if isinstance(size, int) else self.value(size)[0]

    # Expressions

    def value(self, expression: UOp, column: int = 0) -> Value:
        """The value of an expression: a vector if it differs between lanes."""
        values = self._values
        found = self._depends.get(expression)
        if found is not None:
            known = values.get((expression, column if found.varies else -1))
            if known is not None:
                return known
        known_depends = self._depends
        for node in self._order(expression):
            depth, varies = known_depends.get(node) or self.depends(node)
            key = (node, column if varies else -1)
            if key not in values:
                saved, self.out = self.out, self.scopes[depth].out
                self.know(values, key, (self._make(node, column, varies), varies), depth)
                self.out = saved
                if varies:
                    self._of_frame.append((values, key))
        return self._operand(expression, column)

    def _order(self, expression: UOp) -> list[UOp]:
        """What an expression is made of, but for constants, each after its operands."""
        order = self._orders.get(expression)
        if order is None:
            order = self._orders[expression] = []
            for node in elements_of(expression):
                if node.op is CONST:
                    self._depends[node] = Dependence(0, False)
                else:
                    order.append(node)
        return order

    def vector_of(self, expression: UOp, column: int = 0) -> str:
        """The value of an expression in every lane."""
        name, is_vector = self.value(expression, column)
        return name if is_vector else self._in_all_lanes(expression, name)

    def _in_all_lanes(self, node: UOp, name: str) -> str:
        """A value that is the same in all lanes as a vector, made where the value is."""
        kind = register_type(node.dtype)
        if node.op is CONST:
            return self.splat(name, kind)
        found = self._spreads.get((node, self.lanes))
        if found is None:
            depth = self._depends[node].depth
            saved, self.out = self.out, self.scopes[depth].out
            found = self.splat(name, kind)
            self.out = saved
            self.know(self._spreads, (node, self.lanes), found, depth)
        return found

    def _operand(self, node: UOp, column: int) -> Value:
        if node.op is CONST:
            return constant(node), False
        return self._values[node, column if self._depends[node].varies else -1]

    def _make(self, node: UOp, column: int, varies: bool) -> str:
        if node.op is LOAD:
            return self.load(node, column, varies)
        if node.op is sint.VARIABLE:
            base = self.splat(self._indices[node, column], "i64")
            return self.op(f"add nuw nsw {self.vector('i64')} {base}, {self.steps('i64')}")
        assert node.op is not RESULT, "a result is kept by the pass that makes it"
        if period := self._period(node):
            return self._divided_lane(node, period, column)
        names = []
        for source in node.src:
            name, is_vector = self._operand(source, column)
            names.append(name if is_vector or not varies else self._in_all_lanes(source, name))
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

    @abstractmethod
    def load(self, node: UOp, column: int, varies: bool) -> str:
        """The element in memory that a LOAD reads; `varies`: for each lane."""
