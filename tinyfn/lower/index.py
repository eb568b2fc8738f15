"""Index: the element of an array at an index, as an expression of scalar ops.

Movement ops disappear: each says which element of its source an element of its result is. Elementwise ops become their
scalar formula. What is read from memory, or was computed by another loop of the same kernel, is a leaf, which the caller
names. Indices are dimensions (`trace.sint`): ints, or expressions of ranges, which are Variables with bounds, so that the
divisions and remainders of a reshape are simplified by what is known of the ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..trace import dtype as dtypes
from ..trace.elements import Index, Request, Rule, as_node, position
from ..trace.sint import Dimension
from ..trace.uop import CONST, StructuralOp, UOp, make


class ScalarLeaf(StructuralOp):
    """A scalar that is no scalar op of others: an element in memory, or a reduction's result."""

    __slots__ = ()
    is_scalar = True

    def format(self, node: UOp) -> str:
        """How a printed expression shows it."""
        inner = ", ".join(map(repr, node.src))
        return f"{self.name} {node.arg!r}[{inner}]"


# src: (position,) or (position, condition), arg: the array's node. An element by its row-major position; where the condition
# does not hold nothing is read, the position may be outside of the array, and the value is 0.
LOAD = ScalarLeaf("load")
# A source of a concatenation, which is written into its place of the whole; src: (source,), arg: (the whole, where it begins).
PIECE = StructuralOp("piece")
RESULT = ScalarLeaf("result")  # arg: the reduction's node; its result where the kernel's outer ranges are


def load(array: UOp, index: Index, condition: UOp | None = None) -> UOp:
    """The element of an array in memory, if the condition holds."""
    at = place(array.shape, index)
    return make(LOAD, (at,) if condition is None else (at, condition), array, array.dtype, ())


# Arrays of one shape are moved and read at one index again and again: as many as a tree of parameters has leaves, for example.
# An index may be that of a gather, which holds the graph that it is from, so these are emptied when a graph is done.
_moves: dict[Any, Index] = {}
_places: dict[tuple[Sequence[Dimension], Index], UOp] = {}


def forget_moves() -> None:
    """Let go of what was worked out for the last graph."""
    _moves.clear()
    _places.clear()


def place(shape: Sequence[Dimension], index: Index) -> UOp:
    """The position of an index in an array of this shape, worked out once for all such arrays."""
    found = _places.get((shape, index))
    if found is None:
        found = _places[shape, index] = as_node(position(shape, index))
    return found


def _moved(node: UOp, index: Index) -> Index:
    """The index of the source's element, worked out once for all nodes that move alike."""
    if node.op is PIECE:
        return index
    key = (node.op, node.arg, node.shape, node.src[0].shape, index)
    found = _moves.get(key)
    if found is None:
        found = _moves[key] = node.op.source_index(node, index)
    return found


def is_elementwise(node: UOp) -> bool:
    """Whether the op has a scalar formula."""
    return getattr(node.op, "scalar", None) is not None


def is_movement(node: UOp) -> bool:
    """Whether an element of the node is an element of its source."""
    return node.op is PIECE or getattr(node.op, "source_index", None) is not None


def has_rule(node: UOp) -> bool:
    """Whether an element of the node is an expression of elements of its sources."""
    if is_elementwise(node) or is_movement(node):
        return True
    return getattr(node.op, "element", None) is not None and bool(node.op.has_element(node))


def elements_read(node: UOp, index: Index, is_leaf: Callable[[UOp], bool]) -> list[tuple[UOp, Index]]:
    """The elements of leaves that an element of a node is computed from; as far as can be, no expression is made of them."""
    found: dict[tuple[UOp, Index], None] = {}
    seen: set[tuple[UOp, Index]] = set()
    stack = [(node, index)]

    def read(current: UOp, at: Index, condition: UOp | None) -> UOp | None:
        if not is_leaf(current):
            return None
        found[current, at] = None
        return make(RESULT, (), current, current.dtype, ())

    made = Elements(read)
    while stack:
        request = stack.pop()
        if request in seen:
            continue
        seen.add(request)
        current, at = request
        if current.op is CONST:
            continue
        if is_leaf(current):
            found[request] = None
        elif is_movement(current):
            stack.append((current.src[0], _moved(current, at)))
        elif current.op.element is None:
            stack += [(source, at) for source in current.src]
        else:
            made.at(current, at)  # its rule asks for elements as it goes, and may compute with what it gets
    return list(found)


def is_ordered(node: UOp) -> bool:
    """Whether the op is done step after step, each on what those before it made (`Primitive.step`, `Primitive.running`)."""
    steps = getattr(node.op, "step", None) is not None or getattr(node.op, "running", None) is not None
    if not steps or has_rule(node) or node.dtype is dtypes.bool_:
        return False
    return all(isinstance(n, int) and n > 0 for array in (node, *node.src) for n in array.shape)


class Elements:
    """Scalar expressions of elements, each made once.

    `read(node, index, condition)` gives the expression of a leaf, or None for a node that is to be taken apart."""

    def __init__(self, read: Callable[[UOp, Index, UOp | None], UOp | None]):
        self._read = read
        self._made: dict[Request, UOp] = {}

    def at(self, node: UOp, index: Index, condition: UOp | None = None) -> UOp:
        """The element of a node at an index; the walk is iterative, so graphs may be deep."""
        made, read = self._made, self._read
        first = (node, index, condition)
        # What is being made: a request, its rule, and what that waits for.
        stack: list[tuple[Request, Rule | None, list[Request]]] = [(first, None, [])]
        while stack:
            request, rule, wanted = stack.pop()
            if rule is None:
                if request in made:
                    continue
                current, at, under = request
                if current.op is CONST:
                    made[request] = current
                    continue
                leaf = read(current, at, under)
                if leaf is not None:
                    made[request] = leaf
                    continue
                op = current.op
                if op is PIECE or op.source_index is not None:
                    source = (current.src[0], _moved(current, at), under)
                    if source in made:
                        made[request] = made[source]
                    else:
                        stack.append((request, None, []))
                        stack.append((source, None, []))
                    continue
                if op.element is None:
                    # Elementwise: what its formula makes of the same element of each source.
                    sources = [(s, at, under) for s in current.src]
                    lacking = [r for r in sources if r not in made]
                    if lacking:
                        stack.append((request, None, []))
                        stack += [(r, None, []) for r in reversed(lacking)]
                    else:
                        made[request] = op.scalar(*[made[r] for r in sources], **current.params)
                    continue
                rule = op.element(current, at, under)
                wanted = next(rule)
            missing = [r for r in wanted if r not in made]
            if missing:
                stack.append((request, rule, wanted))
                stack += [(r, None, []) for r in reversed(missing)]
                continue
            try:
                stack.append((request, rule, rule.send([made[r] for r in wanted])))
            except StopIteration as finished:
                made[request] = finished.value
        return made[first]
