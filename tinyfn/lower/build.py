"""Building the nest of a group: what its sinks compute, in passes that are in the order in which they need each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..trace import dtype as dtypes
from ..trace import scalar, sint
from ..trace.elements import Index
from ..trace.formulas import cast
from ..trace.uop import INPUT, UOp, const, make
from .contraction import CONTRACTIONS, factors
from .groups import Group
from .index import LOAD, PIECE, Elements, elements_read, load, place
from .nest import Nest, Pass, Reduce, Store, merge_ranges, only_ranges, result
from .ordered import nest as ordered_nest
from .sinks import reduces
from .spaces import along, ranges_of, space

Read = Callable[[UOp, Index, UOp | None], UOp | None]
Passes = dict[tuple[int, Index], tuple[list[Reduce], list[Store]]]


class _Made(NamedTuple):
    """A sink at a point: in which pass, over which inner ranges, at which index, and its element, or that of what it reduces."""

    level: int
    inner: Index
    at: Index
    value: UOp


class Builder:
    """Makes nests of groups. `materialized` are the values in memory, `needed` those of them that other groups read.

    `reads` has for each sink what it reads."""

    def __init__(self, materialized: set[UOp], needed: set[UOp], reads: Mapping[UOp, set[UOp]]):
        self.materialized, self.needed, self.reads = materialized, needed, reads

    def nest(self, group: Group) -> Nest:
        """The nest of a group."""
        if group.ordered:
            return merge_ranges(ordered_nest(self, group.members[0]))
        outer = group.outer
        if outer is None:
            # Nothing but elementwise work: rows over the last axis.
            assert group.shape is not None
            outer = group.shape[:-1]
        row = _Row(self, group.members, outer)
        point = only_ranges(ranges_of("o", outer))
        if group.after is None:
            return merge_ranges(Nest(point, row.passes(), frozenset(row.local)))
        # The points over which the totals run become a loop; those that are kept come first.
        totals = tuple([_reduce(total, row.read_last(total.src[0], point)) for total in group.totals])
        kept = sum(n != 1 for n in group.after.outer or ())
        loop = Pass(point[kept:], totals, (), row.passes())
        last = Pass((), (), tuple(self._after(group, point[:kept])))
        return merge_ranges(Nest(point[:kept], (loop, last), frozenset(row.local)))

    def _after(self, group: Group, point: Index) -> list[Store]:
        """What is stored after the totals."""
        assert group.after is not None
        inside = {*group.totals, *group.after.members}

        def read(current: UOp, at: Index, condition: UOp | None) -> UOp | None:
            if current in inside:
                return result(current) if reduces(current) else None
            return self.outside(current, at, condition)

        elements = Elements(read)
        stores = []
        for sink in (*group.totals, *group.after.members):
            if sink in self.needed:
                index = along(sink.shape, point)
                stores.append(Store(sink, place(sink.shape, index), elements.at(sink, index)))
        return stores

    def outside(self, current: UOp, at: Index, condition: UOp | None) -> UOp | None:
        """What a nest reads of what it does not make: an element in memory, or None."""
        return load(current, at, condition) if self.is_in_memory(current) else None

    def is_in_memory(self, current: UOp) -> bool:
        """Whether a nest that does not make a value may read it."""
        return current.op is INPUT or current in self.materialized


class _Row:
    """The sinks of a group at a point of the outer ranges; `local` are the arrays that are kept for it."""

    def __init__(self, builder: Builder, sinks: Sequence[UOp], outer: Sequence[int]):
        self.builder, self.outer, self.members = builder, outer, set(sinks)
        self.local: set[UOp] = set()
        self._spaces = {sink: space(sink, outer) for sink in sinks}
        self._levels: dict[UOp, int] = {}
        self._made: dict[UOp, _Made] = {}
        for sink in sinks:
            node, index, inner = self._spaces[sink]
            level = self._levels[sink] = self._level(sink, node, index, inner)
            self._made[sink] = _Made(
                level, inner, index, _element(sink, node, index, inner, self._reads(sink, level))
            )

    def read_last(self, node: UOp, point: Index) -> UOp:
        """The element, at this point, of a value that is made from what the passes made."""
        index = along(node.shape, point)
        return Elements(self._reads(None, 1 + max(self._levels.values()))).at(node, index)

    def _same_element(self, current: UOp, at: Index) -> bool:
        return not reduces(current) and at == self._spaces[current][1]

    def _level(self, sink: UOp, node: UOp, index: Index, inner: Index) -> int:
        """The first pass in which everything that the sink reads of its own group is there."""
        if self.members.isdisjoint(self.builder.reads[sink]):
            return 0

        def is_leaf(current: UOp) -> bool:
            return current is not sink and (current in self.members or self.builder.is_in_memory(current))

        begin = [(node, index)]
        if sink.op in CONTRACTIONS:
            begin = [
                (source, factor.at)
                for source, factor in zip(sink.src, factors(sink, index, inner), strict=True)
            ]
        return max(
            [
                self._levels[current] + (0 if self._same_element(current, at) else 1)
                for element in begin
                for current, at in elements_read(*element, is_leaf)
                if current in self.members
            ],
            default=0,
        )

    def _reads(self, sink: UOp | None, level: int) -> Read:
        """What is read in the pass of a sink; what has to be kept for that becomes local."""

        def read(current: UOp, at: Index, condition: UOp | None) -> UOp | None:
            if current is sink:
                return None
            if current not in self.members:
                return self.builder.outside(current, at, condition)
            if reduces(current):
                return result(current)
            _, _, inner = self._spaces[current]
            if self._levels[current] == level or not only_ranges(inner):
                return None  # the same element, or one number of a point: made again
            if current in self.builder.needed:
                return load(current, at, condition)
            self.local.add(current)
            return load_local(current, at, len(self.outer), condition)

        return read

    def passes(self) -> tuple[Pass, ...]:
        """The passes, in order."""
        passes: Passes = {}
        for sink, (level, inner, index, value) in self._made.items():
            reductions, stores = passes.setdefault((level, inner), ([], []))
            if reduces(sink):
                reductions.append(_reduce(sink, value))
                if sink in self.builder.needed:
                    point = ranges_of("o", self.outer)
                    after = passes.setdefault((level + 1, ()), ([], []))[1]
                    after.append(Store(sink, place(sink.shape, point), result(sink)))
                continue
            if sink in self.local:
                stores.append(Store(sink, place(sink.shape[len(self.outer) :], inner), value))
            if sink.op is PIECE:
                stores.append(_in_place(sink, index, value))
            elif sink in self.builder.needed:
                stores.append(Store(sink, place(sink.shape, index), value))
        ordered = sorted(passes.items(), key=lambda item: item[0][0])
        return tuple(
            [
                Pass(only_ranges(inner), tuple(reductions), tuple(stores))
                for (_, inner), (reductions, stores) in ordered
                if reductions or stores
            ]
        )


def _element(sink: UOp, node: UOp, index: Index, inner: Index, read: Read) -> UOp:
    """An element of what is computed for a sink; of a contraction, a product that it sums."""
    elements = Elements(read)
    if sink.op not in CONTRACTIONS:
        return elements.at(node, index)
    wide = dtypes.accumulator(sink.dtype)
    left, right = (
        _unless(factor.condition, cast(elements.at(operand, factor.at, factor.condition), wide))
        for operand, factor in zip(sink.src, factors(sink, index, inner), strict=True)
    )
    return scalar.build(scalar.MUL, left, right)


def _reduce(sink: UOp, value: UOp) -> Reduce:
    """The accumulator of a reduction or contraction."""
    if sink.op in CONTRACTIONS:
        return Reduce(sink, scalar.ADD, value)
    op = sink.op.combine(sink.dtype)
    return Reduce(
        sink, op, value if sink.dtype is dtypes.bool_ else cast(value, dtypes.accumulator(sink.dtype))
    )


def _in_place(piece: UOp, index: Index, value: UOp) -> Store:
    """The store of an element of a piece into the whole."""
    whole, begin = piece.arg
    axis = whole.params["axis"]
    at = (*index[:axis], sint.add(index[axis], begin), *index[axis + 1 :])
    return Store(whole, place(whole.shape, at), value)


def _unless(condition: UOp | None, value: UOp) -> UOp:
    """The value, or 0 where the condition does not hold."""
    if condition is None or (value.op is LOAD and value.src[1:] == (condition,)):
        return value
    return scalar.build(scalar.WHERE, condition, value, const(0, value.dtype))


def load_local(array: UOp, at: Index, outer: int, condition: UOp | None = None) -> UOp:
    """An element of an array that is kept for one point of the outer ranges: its position is within the row."""
    where = place(array.shape[outer:], at[outer:])
    return make(LOAD, (where,) if condition is None else (where, condition), array, array.dtype, ())
