"""Index: the element of an array at an index, as an expression of scalar ops.

Movement ops disappear: each says which element of its source an element of its result is. Elementwise ops become their
scalar formula. What is read from memory, or was computed by another loop of the same kernel, is a leaf, which the caller
names. Indices are dimensions (`trace.sint`): ints, or expressions of ranges, which are Variables with bounds, so that the
divisions and remainders of a reshape are simplified by what is known of the ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from ..trace import dtype as dtypes
from ..trace import prims as p
from ..trace import scalar, sint
from ..trace.sint import Dimension
from ..trace.uop import CONST, StructuralOp, UOp, const, make
from .formulas import FORMULAS
from .random_bits import threefry

Index = tuple[Dimension, ...]
# An element that is asked for: of which array, where, and under which condition (None: always).
Request = tuple[UOp, Index, UOp | None]


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


# Which element of its source an element of a movement op's result is.


def _reshape(node: UOp, index: Index) -> Index:
    source = node.src[0]
    # Axes that both shapes end or begin with keep their index, so that no division enters.
    head = _common(node.shape, source.shape)
    tail = _common(node.shape[head:][::-1], source.shape[head:][::-1])
    middle = slice(head, len(node.shape) - tail)
    inner = source.shape[head : len(source.shape) - tail]
    moved = unravel(inner, position(node.shape[middle], index[middle]))
    return (*index[:head], *moved, *index[len(node.shape) - tail :])


def _common(a: Sequence[Dimension], b: Sequence[Dimension]) -> int:
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    return count


def _transpose(node: UOp, index: Index) -> Index:
    source_index: list[Dimension] = [0] * len(index)
    for i, axis in zip(index, node.params["permutation"], strict=True):
        source_index[axis] = i
    return tuple(source_index)


def _broadcast(node: UOp, index: Index) -> Index:
    source, axes = node.src[0], node.params["axes"]
    return tuple([0 if n == 1 else index[a] for n, a in zip(source.shape, axes, strict=True)])


def _slice(node: UOp, index: Index) -> Index:
    start, step = node.params["start"], node.params["step"]
    return tuple([sint.add(a, sint.mul(i, s)) for i, a, s in zip(index, start, step, strict=True)])


def _flip(node: UOp, index: Index) -> Index:
    axes, along = node.params["axes"], zip(index, node.shape, strict=True)
    return tuple([sint.sub(n - 1, i) if a in axes else i for a, (i, n) in enumerate(along)])


def _piece(node: UOp, index: Index) -> Index:
    return index


MOVES: dict[Any, Callable[[UOp, Index], Index]] = {
    p.reshape: _reshape,
    p.transpose: _transpose,
    p.broadcast: _broadcast,
    p.slice_: _slice,
    p.flip: _flip,
    PIECE: _piece,
}


# Arrays of one shape are moved at one index again and again: as many as a tree of parameters has leaves, for example.
_moves: dict[Any, Index] = {}
_MOST_MOVES = 1 << 14


def _moved(move: Callable[[UOp, Index], Index], node: UOp, index: Index) -> Index:
    """The index of the source's element, worked out once for all nodes that move alike."""
    key = (node.op, node.arg, node.shape, node.src[0].shape, index)
    found = _moves.get(key)
    if found is None:
        if len(_moves) >= _MOST_MOVES:
            _moves.clear()
        found = _moves[key] = move(node, index)
    return found


# Other ops: generators, which ask for elements of their sources, get them, and return the element of the result.

Rule = Generator[list[Request], list[UOp], UOp]


def _elementwise(node: UOp, index: Index, condition: UOp | None) -> Rule:
    values = yield [(source, index, condition) for source in node.src]
    return FORMULAS[node.op](node, *values)


def _iota(node: UOp, index: Index, condition: UOp | None) -> Rule:
    yield []
    return scalar.build(scalar.CAST, as_node(index[node.params["axis"]]), arg=node.dtype)


def _pad(node: UOp, index: Index, condition: UOp | None) -> Rule:
    source, fill = node.src
    moved: list[Dimension] = []
    conditions: list[UOp | bool] = []
    along = zip(index, source.shape, *(node.params[name] for name in ("low", "interior")), strict=True)
    for i, n, low, interior in along:
        at = sint.sub(i, low)
        conditions += [at_most(0, at), at_most(at, (n - 1) * (interior + 1))]
        if interior:
            at = sint.maximum(at, 0)
            conditions.append(equal(sint.mod(at, interior + 1), 0))
            at = sint.floordiv(at, interior + 1)
        moved.append(at)
    inside = conjunction(conditions)
    if inside is False:
        (value,) = yield [(fill, (), condition)]
        return value
    if inside is True:
        (value,) = yield [(source, tuple(moved), condition)]
        return value
    assert isinstance(inside, UOp)
    value, other = yield [(source, tuple(moved), both(condition, inside)), (fill, (), condition)]
    return scalar.build(scalar.WHERE, inside, value, other)


def _concatenate(node: UOp, index: Index, condition: UOp | None) -> Rule:
    axis = node.params["axis"]
    i = index[axis]
    begin: Dimension = 0
    requests: list[Request] = []
    inside: list[UOp | bool] = []
    for source in node.src:
        at = sint.sub(i, begin)
        begin = sint.add(begin, source.shape[axis])
        within = conjunction([at_most(0, at), at_most(at, sint.sub(source.shape[axis], 1))])
        if within is not False:
            needed = condition if within is True else both(condition, within)
            requests.append((source, (*index[:axis], at, *index[axis + 1 :]), needed))
            inside.append(within)
    values = yield requests
    result = values[-1]
    for value, within in reversed(list(zip(values[:-1], inside[:-1], strict=True))):
        assert isinstance(within, UOp)
        result = scalar.build(scalar.WHERE, within, value, result)
    return result


def _windows(node: UOp, window: Index, condition: UOp | None) -> Generator[list[Request], list[UOp], Any]:
    """Where the window of a gather or scatter begins along each axis that is not a batch axis, and whether it is within the
    operand; `window` is the window's index, batch axes included."""
    operand, indices = node.src[:2]
    axes, sizes, batch_dims = (node.params[name] for name in ("axes", "sizes", "batch_dims"))
    starts: list[Dimension] = [0] * len(sizes)
    inside: list[UOp | bool] = []
    values = yield [(indices, (*window, i), condition) for i in range(len(axes))]
    for axis, value in zip(axes, values, strict=True):
        if dtypes.kind(value.dtype) == "unsigned" and value.dtype.itemsize == 8:
            value = scalar.build(scalar.MIN, value, const(2**62, value.dtype))
        # A cast, even of an int64, makes it an atom of the index expression.
        start: Dimension = scalar.build(scalar.CAST, value, arg=dtypes.int64)
        room = operand.shape[axis] - sizes[axis - batch_dims]
        inside += [at_most(0, start), at_most(start, room)]
        starts[axis - batch_dims] = sint.minimum(sint.maximum(start, 0), room)
    return starts, conjunction(inside)


def _gather(node: UOp, index: Index, condition: UOp | None) -> Rule:
    count = node.src[1].ndim - 1
    starts, inside = yield from _windows(node, index[:count], condition)
    moved = tuple([sint.add(start, i) for start, i in zip(starts, index[count:], strict=True)])
    (value,) = yield [(node.src[0], (*index[: node.params["batch_dims"]], *moved), condition)]
    if node.params["mode"] == "clip" or inside is True:
        return value
    return scalar.build(scalar.WHERE, condition_node(inside), value, const(0, node.dtype))


def _scatter(node: UOp, index: Index, condition: UOp | None) -> Rule:
    """Of a single window: each element of the operand is within it or not."""
    operand, indices, updates = node.src
    batch_dims, sizes, kind = (node.params[name] for name in ("batch_dims", "sizes", "kind"))
    window = (*index[:batch_dims], *[0] * (indices.ndim - 1 - batch_dims))
    starts, inside = yield from _windows(node, window, condition)
    offsets = [sint.sub(i, start) for start, i in zip(starts, index[batch_dims:], strict=True)]
    conditions = [
        c for at, n in zip(offsets, sizes, strict=True) for c in (at_most(0, at), at_most(at, n - 1))
    ]
    within = conjunction(conditions if node.params["mode"] == "clip" else [*conditions, inside])
    if within is False:
        (value,) = yield [(operand, index, condition)]
        return value
    mask = condition_node(within)
    value, update = yield [
        (operand, index, condition),
        (updates, (*window, *offsets), condition if within is True else both(condition, mask)),
    ]
    combine = {"add": scalar.ADD, "mul": scalar.MUL, "min": scalar.MIN, "max": scalar.MAX}.get(kind)
    changed = update if combine is None else scalar.build(combine, value, update)
    return scalar.build(scalar.WHERE, mask, changed, value)


def _threefry(node: UOp, index: Index, condition: UOp | None) -> Rule:
    words = yield [(source, index[:-1], condition) for source in node.src]
    first, second = threefry(*words)
    last = index[-1]
    if isinstance(last, int):
        return second if last else first
    return scalar.build(scalar.WHERE, condition_node(equal(last, 0)), first, second)


RULES: dict[Any, Callable[[UOp, Index, UOp | None], Rule]] = {
    p.iota: _iota,
    p.pad: _pad,
    p.concatenate: _concatenate,
    p.gather: _gather,
    p.scatter: _scatter,
    p.threefry2x32: _threefry,
    **dict.fromkeys(FORMULAS, _elementwise),
}


def has_rule(node: UOp) -> bool:
    """Whether an element of the node is an expression of elements of its sources."""
    if node.op is p.scatter:
        indices, batch_dims = node.src[1], node.params["batch_dims"]
        return all(n == 1 for n in indices.shape[batch_dims:-1]) and node.dtype is not dtypes.bool_
    return node.op in MOVES or node.op in RULES


# Conditions


def at_most(a: Dimension, b: Dimension) -> UOp | bool:
    """Whether a <= b, if that is known, or the expression that tells."""
    known = sint.always_less_equal(a, b)
    return known if known is not None else scalar.build(scalar.LT, as_node(a), as_node(sint.add(b, 1)))


def equal(a: Dimension, b: Dimension) -> UOp | bool:
    """Whether a == b, if that is known, or the expression that tells."""
    known = sint.always_equal(a, b)
    return known if known is not None else scalar.build(scalar.EQ, as_node(a), as_node(b))


def both(a: UOp | None, b: UOp | bool) -> UOp | None:
    """The condition that both hold; None and True always do."""
    if b is True:
        return a
    b = condition_node(b)
    return b if a is None or a is b else scalar.build(scalar.AND, a, b)


def conjunction(conditions: Iterable[UOp | bool]) -> UOp | bool:
    """Whether all conditions hold."""
    result: UOp | bool = True
    for condition in conditions:
        if condition is False:
            return False
        if condition is not True:
            result = (
                condition if result is True else scalar.build(scalar.AND, condition_node(result), condition)
            )
    return result


def condition_node(condition: UOp | bool) -> UOp:
    """A condition as an expression."""
    return condition if isinstance(condition, UOp) else const(condition, dtypes.bool_)


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
                move = MOVES.get(current.op)
                if move is not None:
                    source = (current.src[0], _moved(move, current, at), under)
                    if source in made:
                        made[request] = made[source]
                    else:
                        stack.append((request, None, []))
                        stack.append((source, None, []))
                    continue
                rule = RULES[current.op](current, at, under)
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
