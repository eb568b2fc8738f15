"""Loops of little work at each step, as one function of native code: the carry stays in registers.

Each element of each array of the body is a scalar expression, and a step is the straight line of all of them. So this is for
bodies of up to some thousand scalar operations. What no step changes is computed before the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from ..trace import dtype as dtypes
from ..trace import scalar
from ..trace.dtype import DType
from ..trace.elements import Index
from ..trace.formulas import cast
from ..trace.graph import Graph
from ..trace.uop import CONST, INPUT, UOp, const, toposort
from .contraction import CONTRACTIONS, factors, summed
from .decompose import decompose
from .index import LOAD, Elements, has_rule, is_ordered, load
from .llvm_scalar import ScalarCode, constant, memory_type, register_type
from .sinks import reduces

# Elements of all arrays in a step, products of contractions included, and scalar operations.
MOST_ELEMENTS = 2048
MOST_OPERATIONS = 6000


class _Unsuitable(Exception):
    """The body is no straight line of few scalar operations."""


def _every(shape: Sequence[int]) -> list[Index]:
    """All indices of an array of this shape, in row-major order."""
    return list(product(*[range(n) for n in shape]))


class _Expanded:
    """The elements of graphs' outputs as scalar expressions of elements of their inputs, which are the same for all of them."""

    def __init__(self, inputs: Sequence[UOp], outputs: Sequence[UOp]):
        self._totals: dict[tuple[UOp, Index], UOp] = {}
        self._elements = Elements(self._read)
        nodes = toposort([*inputs, *outputs])
        if any(isinstance(n.dtype, tuple) or dtypes.kind(n.dtype) == "complex" for n in nodes):
            raise _Unsuitable
        if any(not isinstance(d, int) for n in nodes for d in n.shape):
            raise _Unsuitable
        if (
            sum(prod(n.shape) * (prod(summed(n)) if n.op in CONTRACTIONS else 1) for n in nodes)
            > MOST_ELEMENTS
        ):
            raise _Unsuitable
        for node in nodes:
            if node.op is INPUT or node.op is CONST:
                continue
            if node.op in CONTRACTIONS or reduces(node):
                for at in _every(node.shape):
                    self._totals[node, at] = self._total(node, at)
            elif is_ordered(node) and node.op.running is not None:
                self._run(node)
            elif not has_rule(node):
                raise _Unsuitable
        self.outputs = [[self._elements.at(node, at) for at in _every(node.shape)] for node in outputs]
        order = toposort([value for values in self.outputs for value in values])
        if len(order) > MOST_OPERATIONS:
            raise _Unsuitable
        for node in order:
            if node.op is LOAD and (node.src[0].op is not CONST or len(node.src) > 1):
                raise _Unsuitable  # what is read depends on data

    def _read(self, node: UOp, at: Index, condition: UOp | None) -> UOp | None:
        if node.op is INPUT:
            return load(node, at, condition)
        return self._totals.get((node, at))

    def _total(self, node: UOp, at: Index) -> UOp:
        """An element of a reduction or contraction, its terms combined in order."""
        if node.op in CONTRACTIONS:
            return self._sum_of_products(node, at)
        wide = node.dtype if node.dtype is dtypes.bool_ else dtypes.accumulator(node.dtype)
        op, axes = node.op.combine(node.dtype), node.params["axes"]
        source, kept = node.src[0], iter(at)
        ranges = [range(n) if axis in axes else (next(kept),) for axis, n in enumerate(source.shape)]
        terms = [cast(self._elements.at(source, index), wide) for index in product(*ranges)]
        total = terms[0] if terms else const(op.identity(wide), wide)
        for term in terms[1:]:
            total = scalar.build(op, total, term)
        return cast(total, node.dtype)

    def _run(self, node: UOp) -> None:
        """The elements of an op that keeps a value running along an axis, one after another."""
        axis, reverse = node.params["axis"], node.params["reverse"]
        op, wide = node.op.running(node.dtype), dtypes.accumulator(node.dtype)
        n = node.shape[axis]
        for first in _every([1 if i == axis else size for i, size in enumerate(node.shape)]):
            total: UOp | None = None
            for i in reversed(range(n)) if reverse else range(n):
                at = (*first[:axis], i, *first[axis + 1 :])
                *factor, value = [cast(self._elements.at(s, at), wide) for s in node.src]
                if total is not None:
                    before = scalar.build(scalar.MUL, factor[0], total) if factor else total
                    value = scalar.build(op, before, value)
                total = value
                self._totals[node, at] = cast(total, node.dtype)

    def _sum_of_products(self, node: UOp, at: Index) -> UOp:
        """An element of a contraction."""
        wide = dtypes.accumulator(node.dtype)
        total: UOp | None = None
        for inner in product(*[range(n) for n in summed(node) if isinstance(n, int)]):
            left, right = factors(node, at, inner)
            if left.condition is not None or right.condition is not None:
                raise _Unsuitable
            a, b = [
                cast(self._elements.at(s, factor.at), wide)
                for s, factor in zip(node.src, (left, right), strict=True)
            ]
            if total is not None and dtypes.is_float(wide):
                total = scalar.build(scalar.FMA, a, b, total)
            else:
                term = scalar.build(scalar.MUL, a, b)
                total = term if total is None else scalar.build(scalar.ADD, total, term)
        return cast(const(0, wide) if total is None else total, node.dtype)


class LoopCode(NamedTuple):
    """The IR of a loop, and about how many instructions a step is."""

    text: str
    work: int


def loop_code(
    body: Graph, constants: int, carries: int, reverse: bool = False, condition: Graph | None = None
) -> LoopCode | None:
    """The IR of a scan over this body, or of a loop as long as a condition holds; None if the body is no straight line.

    It defines `i64 kernel(ptr arguments, i64 begin, i64 end, i64 length)`, which takes the steps from begin to end of a loop of
    `length` steps, and gives the number of the step that it did not take any more. The arguments are addresses of row-major
    arrays: constants, carries at the beginning, xs, carries at the end, ys. The last carries may be in the place of the first."""
    outputs = [*body.outputs]
    if condition is not None:
        outputs += condition.inline(body.inputs)
    try:
        expanded = _Expanded(body.inputs, decompose(Graph(body.inputs, outputs)).outputs)
        loop = _Loop(body, constants, carries, reverse)
        text = loop.text(expanded.outputs)
        return LoopCode(text, len(loop.head) + len(loop.inside))
    except _Unsuitable:
        return None


class _Loop(ScalarCode):
    """Writes a loop: what no step changes before it, then at the head the condition, then the step."""

    def __init__(self, body: Graph, constants: int, carries: int, reverse: bool):
        super().__init__(1)
        self.body, self.constants, self.carries, self.reverse = body, constants, carries, reverse
        self.before: list[str] = []
        self.head: list[str] = []
        self.inside: list[str] = []
        self.out = self.before
        self._count = 0
        self._names: dict[UOp, str] = {}
        self._varying: set[UOp] = set()
        self._number = {node: i for i, node in enumerate(body.inputs)}

    def op(self, text: str) -> str:
        """Write an instruction and give its result a name."""
        self._count += 1
        self.out.append(f"  %v{self._count} = {text}")
        return f"%v{self._count}"

    def text(self, elements: Sequence[Sequence[UOp]]) -> str:
        """The module, for the elements of the body's outputs and, if there is one, that of the condition."""
        inputs, outputs, constants, carries = (
            self.body.inputs,
            self.body.outputs,
            self.constants,
            self.carries,
        )
        slots = [
            self.op(f"getelementptr inbounds ptr, ptr %arguments, i64 {i}")
            for i in range(len(inputs) + len(outputs))
        ]
        self._addresses = [self.op(f"load ptr, ptr {slot}") for slot in slots]
        phis: list[str] = []
        first = [
            [self._read(node.dtype, self._addresses[constants + i], str(k)) for k in range(prod(node.shape))]
            for i, node in enumerate(inputs[constants : constants + carries])
        ]
        self.out = self.head
        more = self.op("icmp ult i64 %step, %end")
        for (goes_on,) in elements[len(outputs) :]:
            more = self.op(f"and i1 {more}, {self._values([goes_on], self.head)[0]}")
        self.out = self.inside
        self._at = "%step"
        if self.reverse:
            self._at = self.op(f"sub nsw i64 {self.op('sub nsw i64 %length, 1')}, %step")
        following = [self._values(values, self.inside) for values in elements[:carries]]
        for i, node in enumerate(outputs[carries:], carries):
            for k, name in enumerate(self._values(elements[i], self.inside)):
                self._write(node.dtype, name, self._addresses[len(inputs) + i], self._position(node, k))
        last: list[str] = []
        self.out = last
        for i, (before, after) in enumerate(zip(first, following, strict=True)):
            dtype = outputs[i].dtype
            for k, (a, b) in enumerate(zip(before, after, strict=True)):
                phis.append(f"  %c{i}_{k} = phi {register_type(dtype)} [ {a}, %entry ], [ {b}, %body ]")
                self._write(dtype, f"%c{i}_{k}", self._addresses[len(inputs) + i], str(k))
        lines = [
            "define i64 @kernel(ptr noalias %arguments, i64 %begin, i64 %end, i64 %length) {",
            "entry:",
            *self.before,
            "  br label %head",
            "head:",
            "  %step = phi i64 [ %begin, %entry ], [ %next, %body ]",
            *phis,
            *self.head,
            f"  br i1 {more}, label %body, label %done",
            "body:",
            *self.inside,
            "  %next = add nuw nsw i64 %step, 1",
            "  br label %head",
            "done:",
            *last,
            "  ret i64 %step",
            "}",
        ]
        return "\n".join([*lines, *self.declared, ""])

    def _values(self, expressions: Sequence[UOp], place: list[str]) -> list[str]:
        """The values of expressions, written at a place, or before the loop if no step changes them."""
        names, varying = self._names, self._varying
        for node in toposort(expressions, stop=names):
            if node.op is CONST:
                names[node] = constant(node)
            elif node.op is LOAD:
                names[node] = self._element(node, place)
            else:
                if not varying.isdisjoint(node.src):
                    varying.add(node)
                self.out = place if node in varying else self.before
                names[node] = self.scalar_op(node, [names[s] for s in node.src], False)
        self.out = place
        return [names[node] for node in expressions]

    def _element(self, node: UOp, place: list[str]) -> str:
        """An element of an input of the body."""
        which, k = self._number[node.arg], int(node.src[0].value)
        if which < self.constants:
            self.out = self.before
            return self._read(node.dtype, self._addresses[which], str(k))
        self._varying.add(node)
        if which < self.constants + self.carries:
            return f"%c{which - self.constants}_{k}"
        self.out = place
        return self._read(node.dtype, self._addresses[which], self._position(node.arg, k))

    def _position(self, array: UOp, k: int) -> str:
        """Where an element of a step is in a stacked array."""
        size = prod(array.shape)
        begin = self._at if size == 1 else self.op(f"mul nsw i64 {self._at}, {size}")
        return self.op(f"add nsw i64 {begin}, {k}") if k else begin

    def _read(self, dtype: DType, address: str, position: str) -> str:
        kind = memory_type(dtype)
        place = self.op(f"getelementptr inbounds {kind}, ptr {address}, i64 {position}")
        value = self.op(f"load {kind}, ptr {place}")
        return self.op(f"icmp ne i8 {value}, 0") if dtype is dtypes.bool_ else value

    def _write(self, dtype: DType, value: str, address: str, position: str) -> None:
        kind = memory_type(dtype)
        place = self.op(f"getelementptr inbounds {kind}, ptr {address}, i64 {position}")
        stored = self.op(f"zext i1 {value} to i8") if dtype is dtypes.bool_ else value
        self.out.append(f"  store {kind} {stored}, ptr {place}")
