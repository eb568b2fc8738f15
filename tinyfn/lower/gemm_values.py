"""Scalar expressions for the lanes of a vector: what a producer of a contraction computes, and what an epilogue stores.

A range may move along the lanes; then the positions of elements do so in even steps, and loads are contiguous, of neighbours a
few apart, or gathers. Or ranges have a value of their own in each lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..trace import dtype as dtypes
from ..trace import scalar as s
from ..trace import sint
from ..trace.uop import CONST, UOp, toposort
from .gemm_matrix import Builder
from .gemm_writer import Index, Value, suffix
from .index import LOAD, RESULT
from .linear import is_index, linear
from .llvm_scalar import constant, memory_type, register_type
from .nest import Store

# Elements at most so far apart are taken from vectors of all that lies between; a gather costs as much as a load for each lane.
APART = 4
_NARROW = 1 << 31


def loads(expression: UOp) -> list[UOp]:
    """The positions of all loads of an expression."""
    return [node.src[0] for node in toposort([expression]) if node.op is LOAD]


class Evaluation:
    """The values of expressions for the lanes of one vector, each made once.

    `scalars` are the ranges' values, that of `lane` in the first lane, from which it grows by one a lane; `vectors` are those
    that have a value of their own in each lane. `known` are values of nodes."""

    def __init__(
        self,
        b: Builder,
        arrays: Mapping[UOp, int],
        lanes: int,
        mask: Value | None,
        scalars: dict[UOp, Index],
        lane: UOp | None = None,
        vectors: Mapping[UOp, Value] | None = None,
        known: Mapping[UOp, Value] | None = None,
    ) -> None:
        self.b, self.arrays, self.lanes, self.mask = b, arrays, lanes, mask
        self.scalars, self.lane, self.vectors = scalars, lane, vectors or {}
        self._values: dict[UOp, Value] = dict(known or {})
        self._is_pure: dict[UOp, bool] = {}
        self._moving = {lane, *self.vectors} if lane is not None else set(self.vectors)

    # Values

    def value(self, expression: UOp) -> Value:
        """An expression's value: a vector if it differs between lanes."""
        values = self._values
        stack = [expression]
        while stack:
            node = stack[-1]
            if node in values:
                stack.pop()
                continue
            made = self._leaf(node)
            if made is not None:
                values[node] = made
                continue
            missing = [source for source in node.src if source not in values]
            if missing:
                stack += missing
            else:
                values[node] = self._make(node)
        return values[expression]

    def vector(self, expression: UOp) -> Value:
        """An expression's value in every lane."""
        value = self.value(expression)
        return value if value.type.startswith("<") else self.b.splat(value, self.lanes)

    def _leaf(self, node: UOp) -> Value | None:
        """The value of a node that is not made of those of its sources, else None."""
        op = node.op
        if op is LOAD:
            return self._load(node)
        if op is CONST:
            return Value(register_type(node.dtype), constant(node))
        compares = (op is s.LT or op is s.EQ) and is_index(node.src[0]) and is_index(node.src[1])
        if not (compares or is_index(node)) or not all(map(self._pure, node.src)):
            return None  # data that is computed with, though it may be of int64
        if compares:
            return self._comparison(node)
        return self._each(node) if self.step(node) != 0 else self.b.number(self.index(node))

    def _make(self, node: UOp) -> Value:
        assert node.op is not RESULT, "a result is known where it is used"
        operands = [self._values[source] for source in node.src]
        wide = "<" in [operand.type[0] for operand in operands]
        lanes, kind = self.lanes if wide else 1, register_type(node.dtype)
        if wide:
            operands = [o if o.type[0] == "<" else self.b.splat(o, lanes) for o in operands]
        name = self.b.ops(lanes).scalar_op(node, [operand.name for operand in operands], wide)
        return Value(f"<{lanes} x {kind}>" if wide else kind, name)

    # Indices

    def _pure(self, node: UOp) -> bool:
        """Whether a node is made of ranges and integers alone."""
        if node not in self._is_pure:
            self._is_pure[node] = is_index(node) and all(map(self._pure, node.src))
        return self._is_pure[node]

    def step(self, index: UOp) -> int | None:
        """By how much an index grows from lane to lane; None if not evenly."""
        if not self._moving:
            return 0
        form = linear(index)
        if not self._moving.isdisjoint(form.other) or any(v in form.steps for v in self.vectors):
            return None
        return form.steps.get(self.lane, 0) if self.lane is not None else 0

    def index(self, dimension: UOp) -> Index:
        """An index in the first lane."""
        b = self.b
        total = Index(None, 0)
        for monomial, factor in sorted(sint.terms(dimension).items(), key=lambda item: len(item[0])):
            term = Index(None, factor)
            for atom in monomial:
                of = self._atom(atom)
                if of.value is None or term.value is None:
                    fixed, other = (of, term) if of.value is None else (term, of)
                    term = b.scale(other, fixed.constant)
                else:
                    term = b.binary("mul", term, of)
            total = b.add(total, term)
        return total

    def _atom(self, atom: UOp) -> Index:
        if atom in self.scalars:
            return self.scalars[atom]
        b = self.b
        if atom.op in (s.IDIV, s.MOD) and is_index(atom) and sint.bounds(atom.src[0])[0] >= 0:
            x, y = self.index(atom.src[0]), self.index(atom.src[1])
            if y.value is None:
                return b.binary("udiv" if atom.op is s.IDIV else "urem", x, y.constant)
        if atom.op in (s.MAX, s.MIN) and is_index(atom):
            x, y = self.index(atom.src[0]), self.index(atom.src[1])
            return b.binary("smax" if atom.op is s.MAX else "smin", x, y)
        return Index(self.value(atom), 0)

    def _each(self, index: UOp) -> Value:
        """An index in every lane."""
        b, lanes = self.b, self.lanes
        step = self.step(index)
        if step is not None:
            base = b.splat(b.number(self.index(index)), lanes)
            steps = ", ".join(f"i64 {lane * step}" for lane in range(lanes))
            return b.pure(base.type, f"add {base}, <{steps}>") if step else base
        # What is the same in all lanes is added up before it is spread.
        fixed, parts = Index(None, 0), []
        for monomial, factor in sint.terms(index).items():
            whole = sint.from_terms({monomial: factor})
            if isinstance(whole, int):
                fixed = b.add(fixed, Index(None, whole))
            elif self._moving.isdisjoint(sint.variables([whole])):
                fixed = b.add(fixed, self.index(whole))
            else:
                parts.append(self._term(monomial, factor))
        total = parts[0]
        for part in parts[1:]:
            total = b.pure(total.type, f"add {total}, {part.name}")
        if fixed.value is None and not fixed.constant:
            return total
        return b.pure(total.type, f"add {total}, {b.splat(b.number(fixed), lanes).name}")

    def _term(self, monomial: Sequence[UOp], factor: int) -> Value:
        b = self.b
        product: Value | None = None
        for atom in monomial:
            if atom in self.vectors:
                value = self.vectors[atom]
            elif atom is self.lane:
                value = self._each(atom)
            elif atom.op in sint.INDEX_OPS and atom.op is not sint.VARIABLE:
                # Of index ops only divisions, remainders and extremes are atoms.
                operands = [b.splat(v, self.lanes) if not v.type.startswith("<") else v
                            for v in (self._each_or_scalar(source) for source in atom.src)]  # fmt: skip
                name = b.ops(self.lanes).scalar_op(atom, [o.name for o in operands], True)
                value = Value(operands[0].type, name)
            else:
                value = self.vector(atom)
            product = value if product is None else b.pure(value.type, f"mul {product}, {value.name}")
        assert product is not None
        if factor == 1:
            return product
        return b.pure(product.type, f"mul {product}, splat (i64 {factor})")

    def _each_or_scalar(self, index: UOp) -> Value:
        if index.op is CONST:
            return Value("i64", str(int(index.value)))
        return self.b.number(self.index(index)) if self.step(index) == 0 else self._each(index)

    def _comparison(self, node: UOp) -> Value:
        """A comparison of indices: of their difference with 0, in 32 bits if it fits."""
        b, lanes = self.b, self.lanes
        difference = sint.sub(node.src[0], node.src[1])
        predicate = "slt" if node.op is s.LT else "eq"
        if isinstance(difference, int):
            return Value(
                "i1", "true" if (difference < 0 if node.op is s.LT else difference == 0) else "false"
            )
        step = self.step(difference)
        if step == 0:
            return b.compare(predicate, self.index(difference), 0)
        type = f"<{lanes} x i1>"
        low, high = sint.bounds(difference)
        if step is None or not -_NARROW < low - lanes * abs(step) <= high + lanes * abs(step) < _NARROW:
            return b.pure(type, f"icmp {predicate} {self._each(difference)}, zeroinitializer")
        first = b.pure("i32", f"trunc {b.number(self.index(difference))} to i32")
        steps = ", ".join(f"i32 {-lane * step}" for lane in range(lanes))
        return b.pure(type, f"icmp {predicate} {b.splat(first, lanes)}, <{steps}>")

    # Memory

    def _load(self, node: UOp) -> Value:
        b, array = self.b, node.arg
        condition = self.value(node.src[1]) if len(node.src) > 1 else None
        if condition is not None and condition.name == "true":
            condition = None
        kind, size = memory_type(array.dtype), array.dtype.itemsize
        step = self.step(node.src[0])
        if step == 0 and (condition is None or condition.type == "i1"):
            pointer = self._pointer(array, self.index(node.src[0]))
            if condition is not None:
                pointer = b.instruction("ptr", f"select {condition}, {pointer}, ptr {b.zero()}")
            return self._loaded(b.instruction(kind, f"load {kind}, {pointer}, align {size}"), node)
        mask, kinds = self._masked(condition), f"<{self.lanes} x {kind}>"
        if step == 1:
            pointer = self._pointer(array, self.index(node.src[0]))
            if mask is None:
                return self._loaded(b.instruction(kinds, f"load {kinds}, {pointer}, align {size}"), node)
            operands = f"ptr align {size} {pointer.name}, {mask}, {kinds} zeroinitializer"
            return self._loaded(
                b.instruction(kinds, f"call {kinds} @llvm.masked.load.{suffix(kinds)}.p0({operands})"), node
            )
        if step is not None and 1 < step <= APART:
            return self._loaded(self._load_apart(node, step, mask), node)
        pointers = self._pointers(array, node.src[0], kind)
        chosen = mask or Value(f"<{self.lanes} x i1>", "splat (i1 true)")
        operands = f"<{self.lanes} x ptr> align {size} {pointers.name}, {chosen}, {kinds} zeroinitializer"
        name = f"@llvm.masked.gather.{suffix(kinds)}.v{self.lanes}p0"
        return self._loaded(b.instruction(kinds, f"call {kinds} {name}({operands})"), node)

    def _load_apart(self, node: UOp, step: int, mask: Value | None) -> Value:
        """Elements a few apart: all that lie between them are loaded as one vector, but only theirs are read."""
        b, lanes, array = self.b, self.lanes, node.arg
        kind, size, all_lanes = memory_type(array.dtype), array.dtype.itemsize, self.lanes * step
        many, bools = f"<{all_lanes} x {kind}>", f"<{lanes} x i1>"
        given = mask or Value(bools, "splat (i1 true)")
        spread = ", ".join(f"i32 {lane // step if lane % step == 0 else lanes}" for lane in range(all_lanes))
        wide = f"<{all_lanes} x i1>"
        read = b.pure(wide, f"shufflevector {given}, {bools} zeroinitializer, <{all_lanes} x i32> <{spread}>")
        pointer = self._pointer(array, self.index(node.src[0]))
        operands = f"ptr align {size} {pointer.name}, {read}, {many} zeroinitializer"
        loaded = b.instruction(many, f"call {many} @llvm.masked.load.{suffix(many)}.p0({operands})")
        return b.shuffle(loaded, Value(many, "poison"), range(0, all_lanes, step))

    def _masked(self, condition: Value | None) -> Value | None:
        """The place's mask and the condition."""
        if condition is None:
            return self.mask
        condition = condition if condition.type != "i1" else self.b.splat(condition, self.lanes)
        if self.mask is None:
            return condition
        return self.b.pure(condition.type, f"and {condition}, {self.mask.name}")

    def _pointer(self, array: UOp, position: Index) -> Value:
        return self.b.elements(self.b.argument(self.arrays[array]), position, memory_type(array.dtype))

    def _pointers(self, array: UOp, position: UOp, kind: str) -> Value:
        b = self.b
        step = self.step(position)
        if step is None:
            base, offsets = b.argument(self.arrays[array]), self._each(position)
        else:
            base = self._pointer(array, self.index(position))
            steps = ", ".join(f"i64 {lane * step}" for lane in range(self.lanes))
            offsets = Value(f"<{self.lanes} x i64>", f"<{steps}>")
        return b.pure(f"<{self.lanes} x ptr>", f"getelementptr {kind}, {base}, {offsets}")

    def _loaded(self, value: Value, node: UOp) -> Value:
        if node.dtype is not dtypes.bool_:
            return value
        wide = value.type.startswith("<")
        zero = "zeroinitializer" if wide else "0"
        return self.b.pure(f"<{self.lanes} x i1>" if wide else "i1", f"icmp ne {value}, {zero}")

    def store(self, stores: Sequence[Store]) -> None:
        """Store values where they belong. All that is read is read before the first is stored: they may be stored over it."""
        for store in stores:
            self.value(store.value)
            for node in toposort([store.position]):
                if node.op is LOAD:
                    self.value(node)
        for store in stores:
            self._store(store)

    def _store(self, store: Store) -> None:
        b, array, lanes = self.b, store.node, self.lanes
        value = self.value(store.value) if lanes == 1 else self.vector(store.value)
        kind, size = memory_type(array.dtype), array.dtype.itemsize
        kinds = kind if lanes == 1 else f"<{lanes} x {kind}>"
        if array.dtype is dtypes.bool_:
            value = b.pure(kinds, f"zext {value} to {kinds}")
        step = self.step(store.position)
        if lanes == 1 or step == 1:
            pointer = self._pointer(array, self.index(store.position))
            b.store(value, pointer, array.dtype, self.mask)
            return
        pointers = self._pointers(array, store.position, kind)
        mask = self.mask or Value(f"<{lanes} x i1>", "splat (i1 true)")
        operands = f"{value}, <{lanes} x ptr> align {size} {pointers.name}, {mask}"
        b.statement(f"call void @llvm.masked.scatter.{suffix(value.type)}.v{lanes}p0({operands})")
