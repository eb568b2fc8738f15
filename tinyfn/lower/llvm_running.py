"""What loops carry, as LLVM IR: accumulators, and values that go along with an ordered pass."""

from __future__ import annotations

from ..trace import scalar
from ..trace.dtype import DType
from ..trace.uop import UOp
from .llvm_scalar import literal, register_type
from .llvm_tiles import Tiles
from .nest import Reduce, Running, first_of, result


class Runs(Tiles):
    """Writes what a pass carries from point to point."""

    def _kind(self, reduction: Reduce | Running, vector: bool) -> str:
        kind = register_type(reduction.value.dtype)
        return self.vector(kind) if vector else kind

    def _identity(self, reduction: Reduce | Running, vector: bool) -> str:
        dtype = reduction.value.dtype
        if isinstance(reduction, Running):
            constant = literal(first_of(reduction), dtype)
        else:
            assert reduction.op.identity is not None
            constant = literal(reduction.op.identity(dtype), dtype)
        return self.splat(constant, register_type(dtype)) if vector else constant

    def _keep(self, reduction: Reduce | Running, total: str, vector: bool, column: int) -> None:
        """A reduction's result, in the reduction's own dtype, for the passes after it."""
        name = self.cast(total, reduction.value.dtype, reduction.node.dtype, vector)
        self.keep(result(reduction.node), name, vector, column)

    # Running values

    def _next(self, running: Running, r: UOp, before: str, wide: bool, column: int) -> str:
        """A running value at the next point, by what it was before; stores of the pass may then read it."""
        terms = [self.vector_of(e, column) if wide else self.value(e)[0] for e in running.terms]
        dtype = running.value.dtype
        if len(terms) > 1:
            before = self.binary(scalar.MUL, dtype, terms[1], before, wide)
        total = self.binary(running.op, dtype, before, terms[0], wide)
        if len(terms) > 1:
            total = self._unless_first(self.value(r)[0], terms[0], total, self._kind(running, wide))
        self._keep(running, total, wide, column)
        return total

    def _unless_first(self, index: str, first: str, other: str, kind: str) -> str:
        """One value where an index is 0, and else another one."""
        if index.isdigit():
            return first if index == "0" else other
        return self.op(f"select i1 {self.op(f'icmp eq i64 {index}, 0')}, {kind} {first}, {kind} {other}")

    def _along_lanes(self, running: Running, base: str, before: str) -> str:
        """A running value in each lane of a vector, by what it was before the vector; what it is after it, in all lanes.

        Each lane takes in twice as many of those before it at each step."""
        terms, dtype, width = list(map(self.vector_of, running.terms)), running.value.dtype, self.lanes
        distance = 1
        while distance < width:
            moved = [self._from_before(term, dtype, distance) for term in terms]
            if len(terms) > 1:
                moved[0] = self.binary(scalar.MUL, dtype, terms[1], moved[0], True)
            combined = [self.binary(running.op, dtype, moved[0], terms[0], True)]
            if len(terms) > 1:
                combined.append(self.binary(scalar.MUL, dtype, terms[1], moved[1], True))
            terms = [
                self._but_first(new, old, dtype, distance) for new, old in zip(combined, terms, strict=True)
            ]
            distance *= 2
        if len(terms) > 1:
            before = self.binary(scalar.MUL, dtype, terms[1], before, True)
        total = self.binary(running.op, dtype, before, terms[0], True)
        if len(terms) > 1:
            total = self._unless_first(base, terms[0], total, self._kind(running, True))
        self._keep(running, total, True, 0)
        kinds, last = self.vector(register_type(dtype)), ", ".join([f"i32 {width - 1}"] * width)
        return self.op(f"shufflevector {kinds} {total}, {kinds} poison, {self.vector('i32')} <{last}>")

    def _from_before(self, name: str, dtype: DType, distance: int) -> str:
        """The lanes of a vector moved on by a distance; the first ones stay."""
        order = [lane - distance if lane >= distance else lane for lane in range(self.lanes)]
        kinds, numbers = self.vector(register_type(dtype)), ", ".join(f"i32 {n}" for n in order)
        return self.op(f"shufflevector {kinds} {name}, {kinds} poison, {self.vector('i32')} <{numbers}>")

    def _but_first(self, new: str, old: str, dtype: DType, distance: int) -> str:
        """New lanes, but the first ones, which have nothing before them, as they were."""
        order = [lane + (self.lanes if lane >= distance else 0) for lane in range(self.lanes)]
        kinds, numbers = self.vector(register_type(dtype)), ", ".join(f"i32 {n}" for n in order)
        return self.op(f"shufflevector {kinds} {old}, {kinds} {new}, {self.vector('i32')} <{numbers}>")
