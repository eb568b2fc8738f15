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
from ..trace import prims as p
from ..trace import scalar, sint
from ..trace.sint import Dimension
from ..trace.uop import CONST, StructuralOp, UOp, const, make
from .formulas import FORMULAS

Index = tuple[Dimension, ...]
Request = tuple[UOp, Index]


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
RESULT = ScalarLeaf("result")  # arg: the reduction's node; its result where the kernel's outer ranges are


def load(array: UOp, index: Index, condition: UOp | None = None) -> UOp:
    """The element of an array in memory, if the condition holds."""
    at = as_node(position(array.shape, index))
    return make(LOAD, (at,) if condition is None else (at, condition), array, array.dtype, ())


def as_node(dimension: Dimension) -> UOp:
    """A dimension as a scalar node of int64."""
    return dimension if isinstance(dimension, UOp) else const(dimension, dtypes.int64)


def position(shape: Sequence[Dimension], index: Index) -> Dimension:
    """The row-major position of an index in an array of this shape."""
    total: Dimension = 0
    for n, i in zip(shape, index, strict=True):
        total = sint.add(sint.mul(total, n), i)
    return total


def unravel(shape: Sequence[Dimension], flat: Dimension) -> Index:
    """The index of a row-major position in an array of this shape."""
    index: list[Dimension] = []
    for axis, n in reversed(list(enumerate(shape))):
        # The first axis needs no remainder: the position is within the array.
        index.append(sint.mod(flat, n) if axis and n != 1 else 0 if n == 1 else flat)
        flat = sint.floordiv(flat, n)
    return tuple(reversed(index))


# For each movement op: which elements of its sources an element of the result needs, and what it is made of them.

Sources = Callable[[UOp, Index], list[Request]]
Combine = Callable[[UOp, Index, list[UOp]], UOp]


def _only(node: UOp, index: Index, values: list[UOp]) -> UOp:
    return values[0]


def _reshape(node: UOp, index: Index) -> list[Request]:
    source = node.src[0]
    # Axes that both shapes end or begin with keep their index, so that no division enters.
    head = _common(node.shape, source.shape)
    tail = _common(node.shape[head:][::-1], source.shape[head:][::-1])
    middle = slice(head, len(node.shape) - tail)
    inner = source.shape[head : len(source.shape) - tail]
    moved = unravel(inner, position(node.shape[middle], index[middle]))
    return [(source, (*index[:head], *moved, *index[len(node.shape) - tail :]))]


def _common(a: Sequence[Dimension], b: Sequence[Dimension]) -> int:
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    return count


def _transpose(node: UOp, index: Index) -> list[Request]:
    source_index: list[Dimension] = [0] * len(index)
    for i, axis in zip(index, node.params["permutation"], strict=True):
        source_index[axis] = i
    return [(node.src[0], tuple(source_index))]


def _broadcast(node: UOp, index: Index) -> list[Request]:
    source = node.src[0]
    axes = node.params["axes"]
    return [
        (source, tuple([0 if n == 1 else index[axis] for n, axis in zip(source.shape, axes, strict=True)]))
    ]


def _slice(node: UOp, index: Index) -> list[Request]:
    start, step = node.params["start"], node.params["step"]
    return [
        (
            node.src[0],
            tuple([sint.add(a, sint.mul(i, s)) for i, a, s in zip(index, start, step, strict=True)]),
        )
    ]


def _flip(node: UOp, index: Index) -> list[Request]:
    axes = node.params["axes"]
    flipped = [
        sint.sub(n - 1, i) if a in axes else i for a, (i, n) in enumerate(zip(index, node.shape, strict=True))
    ]
    return [(node.src[0], tuple(flipped))]


def _iota(node: UOp, index: Index, values: list[UOp]) -> UOp:
    return scalar.build(scalar.CAST, as_node(index[node.params["axis"]]), arg=node.dtype)


def _elementwise(node: UOp, index: Index) -> list[Request]:
    return [(source, index) for source in node.src]


def _formula(node: UOp, index: Index, values: list[UOp]) -> UOp:
    return FORMULAS[node.op](node, *values)


RULES: dict[Any, tuple[Sources, Combine]] = {
    p.reshape: (_reshape, _only),
    p.transpose: (_transpose, _only),
    p.broadcast: (_broadcast, _only),
    p.slice_: (_slice, _only),
    p.flip: (_flip, _only),
    p.iota: (lambda node, index: [], _iota),
    **{op: (_elementwise, _formula) for op in FORMULAS},
}


class Elements:
    """Scalar expressions of elements, each made once.

    `read(node, index)` gives the expression of a leaf, or None for a node that is to be taken apart."""

    def __init__(self, read: Callable[[UOp, Index], UOp | None]):
        self._read = read
        self._made: dict[Request, UOp] = {}

    def at(self, node: UOp, index: Index) -> UOp:
        """The element of a node at an index; the walk is iterative, so graphs may be deep."""
        made = self._made
        stack: list[Request] = [(node, index)]
        while stack:
            request = stack[-1]
            if request in made:
                stack.pop()
                continue
            current, at = request
            if current.op is CONST:
                made[request] = current
                continue
            leaf = self._read(current, at)
            if leaf is not None:
                made[request] = leaf
                continue
            sources, combine = RULES[current.op]
            needed = sources(current, at)
            missing = [r for r in needed if r not in made]
            if missing:
                stack.extend(reversed(missing))
            else:
                made[request] = combine(current, at, [made[r] for r in needed])
        return made[node, index]
