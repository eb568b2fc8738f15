"""Split: a long reduction of few points as many partial ones, and a nest that combines them.

Into how many parts depends on sizes alone, so that the bits do not depend on how many threads there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..trace import scalar, sint
from ..trace.elements import as_node
from ..trace.formulas import cast
from ..trace.uop import StructuralOp, UOp, make, rebuild, substitute, toposort
from .index import LOAD
from .nest import Kernel, Nest, Pass, Reduce, Store, is_symbolic, result, size_of

# An array of partial results, and the results of a part; src: (the reduction,), arg: which.
PARTIAL = StructuralOp("partial")

# A part of a reduction has about so many elements, there are at most so many parts, and with so many points there are enough.
GRAIN, MOST, ENOUGH = 1 << 15, 64, 8
# What comes after is run by one thread, and so must not be more than this many elements.
LITTLE = 1 << 12


class _Division(NamedTuple):
    """A range as `parts` times `size` values, and `rest` values after these."""

    parts: int
    size: int
    rest: int


def split(nest: Nest) -> Kernel:
    """The kernel of a nest: the nest itself, or partial reductions and what combines them."""
    first = nest.passes[0]
    points, work = _count(nest.outer), _elements(first)
    after = sum(_elements(each) for each in nest.passes[1:])
    division = None
    symbolic = any(is_symbolic(r) for r in (*nest.outer, *first.inner[:1]))
    if not symbolic and first.reductions and first.inner and points < ENOUGH and points * after <= LITTLE:
        division = _divide(size_of(first.inner[0]), points * work)
    if division is None:
        return Kernel((nest,))
    part, rest = first.inner[0], first.inner[1:]
    which, within = (
        sint.Variable("part", 0, division.parts - 1),
        sint.Variable(part.arg[0], 0, division.size - 1),
    )
    begin = sint.mul(which, division.size)
    partial = [_partial(r, "part", (division.parts, *_shape(nest.outer))) for r in first.reductions]
    moved = _moved(first, {part: sint.add(begin, within)}, partial)
    at = as_node(_position([which, *nest.outer], (division.parts, *_shape(nest.outer))))
    stores = tuple([Store(node, at, result(node)) for node in partial])
    parts = Nest(
        (which, *nest.outer), (moved._replace(inner=(within, *rest)), Pass((), (), stores)), nest.local
    )
    # What combines: the parts, the elements after them, and then whatever the nest did with the results.
    combined = [
        Reduce(
            _partial(r, "sum", _shape(nest.outer)) if division.rest else r.node,
            r.op,
            make(LOAD, (at,), node, node.dtype, ()),
        )
        for r, node in zip(first.reductions, partial, strict=True)
    ]
    passes = [Pass((which,), tuple(combined), ())]
    values: dict[UOp, UOp] = {}
    if division.rest:
        tail = sint.Variable(part.arg[0], 0, division.rest - 1)
        index = (
            sint.add(tail, division.parts * division.size)
            if division.rest > 1
            else division.parts * division.size
        )
        last = [_partial(r, "rest", _shape(nest.outer)) for r in first.reductions]
        moved = _moved(first, {part: index}, last)
        passes.append(moved._replace(inner=(tail, *rest) if division.rest > 1 else rest))
        for reduction, a, b in zip(first.reductions, combined, last, strict=True):
            whole = scalar.build(reduction.op, result(a.node), result(b))
            values[result(reduction.node)] = cast(whole, reduction.node.dtype)
    passes += [_with_values(each, values) for each in nest.passes[1:]]
    return Kernel((parts,), (Nest(nest.outer, tuple(passes), nest.local),))


def _divide(size: int, work: int) -> _Division | None:
    """How a range is divided, where each of its values takes its share of the work, in elements."""
    parts = min(MOST, work // GRAIN, size)
    if parts < 2:
        return None
    # Without a rest if possible.
    exact = [n for n in range(parts // 2 + 1, min(2 * parts, size) + 1) if size % n == 0]
    if exact:
        parts = min(exact, key=lambda n: abs(n - parts))
    return _Division(parts, size // parts, size % parts)


def _partial(reduction: Reduce, which: str, shape: tuple[int, ...]) -> UOp:
    """The node of an array of partial results, in the accumulator's dtype; also the name of one result."""
    return make(PARTIAL, (reduction.node,), which, reduction.value.dtype, shape)


def _moved(each: Pass, mapping: Mapping[UOp, sint.Dimension], nodes: list[UOp]) -> Pass:
    """A pass with ranges replaced, and its reductions' results named anew."""
    nodes_of = {r: as_node(d) for r, d in mapping.items()}

    def moved(expression: UOp) -> UOp:
        return _substituted(expression, mapping, nodes_of)

    return Pass(
        each.inner,
        tuple([Reduce(node, r.op, moved(r.value)) for r, node in zip(each.reductions, nodes, strict=True)]),
        tuple(
            [
                Store(s.node, as_node(sint.substitute(s.position, mapping)), moved(s.value))
                for s in each.stores
            ]
        ),
        tuple([_moved(inside, mapping, [r.node for r in inside.reductions]) for inside in each.passes]),
    )


def _substituted(expression: UOp, mapping: Mapping[UOp, sint.Dimension], nodes: Mapping[UOp, UOp]) -> UOp:
    """An expression with ranges replaced; positions of loads stay in canonical form."""
    new: dict[UOp, UOp] = dict(nodes)
    for node in toposort([expression], stop=nodes):
        if node.op is LOAD:
            at = as_node(sint.substitute(node.src[0], mapping))
            new[node] = make(LOAD, (at, *[new[s] for s in node.src[1:]]), node.arg, node.dtype, ())
        else:
            new[node] = rebuild(node, tuple([new[s] for s in node.src])) if node.src else node
    return new[expression]


def _with_values(each: Pass, values: Mapping[UOp, UOp]) -> Pass:
    """A pass in which results are replaced by other values."""
    if not values:
        return each
    return Pass(
        each.inner,
        tuple([Reduce(r.node, r.op, substitute([r.value], values)[0]) for r in each.reductions]),
        tuple([Store(s.node, s.position, substitute([s.value], values)[0]) for s in each.stores]),
        tuple([_with_values(inside, values) for inside in each.passes]),
    )


def _count(ranges: tuple[UOp, ...]) -> int:
    count = 1
    for r in ranges:
        count *= size_of(r)
    return count


def _shape(ranges: tuple[UOp, ...]) -> tuple[int, ...]:
    return tuple([size_of(r) for r in ranges])


def _position(ranges: list[UOp], shape: tuple[int, ...]) -> sint.Dimension:
    total: sint.Dimension = 0
    for r, n in zip(ranges, shape, strict=True):
        total = sint.add(sint.mul(total, n), r)
    return total


def _elements(each: Pass) -> int:
    """How many elements a pass visits at one point."""
    return _count(each.inner) * max(1, sum(_elements(inside) for inside in each.passes))
