"""Groups: which sinks of a graph share a loop nest.

A group is a nest in the making: outer ranges, run in parallel, and for each point of them passes in order, each with inner
ranges of its own. A pass reduces and stores; a later pass reads a reduction's result as a scalar. An op joins the group of what
it reads if, for a fixed point of the outer ranges, it reads only what that point produced. So softmax is one nest of three
passes, and no pattern for it exists. A reduction over the points of a group joins it as well: the points then become a loop
within the nest. A contraction's points are the elements of its result, and elementwise ops on these join it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..trace import dtype as dtypes
from ..trace import sint
from ..trace.uop import UOp
from .contraction import CONTRACTIONS
from .index import PIECE, is_ordered
from .sinks import Sinks, is_reduction, reduces
from .spaces import along, ranges_of, reads_its_own_point, reads_point

# A nest with more scalar ops than this is cut: what it saves no longer pays for what LLVM takes to compile it.
LARGEST = 1000
# An elementwise value that takes more than this is not computed in the tiles of the contraction that it reads.
CONSUMER_LIMIT = 100
# Fewer points than this, each with more work than that, are too little to do at once.
FEW_POINTS, MUCH_WORK = 16, 1 << 17


class Group:
    """A nest that is being put together. While no reduction has joined, how many axes are outer is open.

    `after` is a group of what comes after reductions over this group's points; its own points are `totals_kept`."""

    def __init__(self, sink: UOp, order: int):
        self.order = order
        self.cost = 0  # in scalar ops for an element
        self.members: list[UOp] = []
        self.contraction = sink.op in CONTRACTIONS
        self.ordered = is_ordered(sink)  # then it has no other members
        # The shape of the elementwise members while the outer axes are open, and the outer shape once they are not.
        self.shape: tuple[Any, ...] | None = None if reduces(sink) else sink.shape
        self.outer: tuple[Any, ...] | None = sink.shape if reduces(sink) else None
        self.totals: list[UOp] = []
        self.after: Group | None = None

    def add(self, sink: UOp, cost: int) -> None:
        """Take a sink in, whose reads are known to fit."""
        self.members.append(sink)
        self.cost += cost

    def every(self) -> list[UOp]:
        """All sinks of the group, with those that come after its totals."""
        return [*self.members, *self.totals, *(self.after.every() if self.after else ())]

    @property
    def is_symbolic(self) -> bool:
        """Whether a loop of the nest has a symbolic size."""
        return any(
            not isinstance(n, int) for sink in self.every() for node in (sink, *sink.src) for n in node.shape
        )

    def take(self, sink: UOp, cost: int, reads: set[UOp], inside: set[UOp]) -> bool:
        """Take a sink in if it fits; of the arrays that it reads, those `inside` are sinks of the group."""
        if (
            self.ordered
            or is_ordered(sink)
            or self.cost + cost > LARGEST
            or any(r.op is PIECE for r in inside)
        ):
            return False
        if self.contraction:
            fits = not reduces(sink) and sink.shape == self.outer and cost <= CONSUMER_LIMIT and bool(inside)
            # A tile is of integers or of floats, from the sums to the stores.
            fits = fits and dtypes.kind(sink.dtype) == dtypes.kind(self.members[0].dtype)
            if fits and reads_its_own_point(sink, reads, inside, self.outer, False):
                self.add(sink, cost)
                return True
            return False
        if self.after is not None and not inside.isdisjoint((*self.totals, *self.after.members)):
            return inside <= {*self.totals, *self.after.members} and self._take_after(
                sink, cost, reads, inside
            )
        outer = self._outer_with(sink)
        if outer is not None:
            points, whole = (self.shape, True) if outer == "open" else (outer, False)
            if reads_its_own_point(sink, reads, inside, points, whole):
                if outer != "open" and self.outer is None:
                    self.outer = outer
                self.add(sink, cost)
                return True
        return self._take_total(sink, cost, reads, inside)

    def _outer_with(self, sink: UOp) -> Any:
        """The outer shape with which the sink fits, or None; "open" for a choice to come."""
        if sink.op in CONTRACTIONS:
            return None
        if is_reduction(sink):
            kept = sink.shape
            if self.outer is not None:
                return kept if kept == self.outer and not self._too_little_at_once(sink) else None
            assert self.shape is not None
            source = sink.src[0].shape
            trailing = sorted(sink.params["axes"]) == list(range(len(kept), len(source)))
            fits = kept == self.shape or (trailing and source == self.shape)
            return kept if fits else None
        if self.outer is None:
            return "open" if sink.shape == self.shape else None
        if sink.shape[: len(self.outer)] != self.outer or (
            sink.shape != self.outer and self._too_little_at_once(sink)
        ):
            return None
        return self.outer

    def _too_little_at_once(self, sink: UOp) -> bool:
        """Whether a further loop at each point would be long, and the points are few: then it is better run on its own."""
        assert self.outer is not None
        shape = sink.src[0].shape if is_reduction(sink) else sink.shape
        points, work = _count(self.outer), _count(shape)
        return points < FEW_POINTS and work // points > MUCH_WORK

    def _take_total(self, sink: UOp, cost: int, reads: set[UOp], inside: set[UOp]) -> bool:
        """Take in a reduction over the last of the group's points."""
        outer = self.outer
        if not is_reduction(sink) or outer is None or self.contraction or not inside:
            return False
        source, axes = sink.src[0], sorted(sink.params["axes"])
        if _squeezed(source.shape) != _squeezed(outer) or axes != list(range(len(sink.shape), source.ndim)):
            return False
        if self.after is not None and self.after.outer != sink.shape:
            return False
        node, index = source, along(source.shape, ranges_of("o", outer))
        if not reads_point(node, index, reads, inside, ranges_of("o", outer)):
            return False
        if self.after is None:
            self.after = Group(sink, self.order)
        self.totals.append(sink)
        self.cost += cost
        return True

    def _take_after(self, sink: UOp, cost: int, reads: set[UOp], inside: set[UOp]) -> bool:
        """Take in an elementwise sink that reads totals at its own point."""
        assert self.after is not None
        if reduces(sink) or sink.shape != self.after.outer:
            return False
        if not reads_its_own_point(sink, reads, inside, sink.shape, False):
            return False
        self.after.add(sink, cost)
        self.cost += cost
        return True


def _count(shape: Sequence[Any]) -> int:
    """The number of elements of a shape, at most."""
    return prod(sint.bounds(n)[1] for n in shape)


def _squeezed(shape: Sequence[Any]) -> list[Any]:
    return [n for n in shape if n != 1]


def groups(sinks: Sinks) -> list[Group | UOp]:
    """The groups, and the nodes that run by their references, each after what it reads."""
    made_in: dict[UOp, Any] = {}
    order: dict[UOp, int] = {}
    steps: list[Group | UOp] = []
    reads = sinks.reads
    last_reader: dict[Any, Group] = {}
    for sink, cost in sinks.cost.items():
        if not sinks.compiles(sink):
            made_in[sink] = sink
            order[sink] = len(steps)
            steps.append(sink)
            continue
        needed = reads[sink]
        after = max([order[r] for r in needed if r in order], default=-1)
        size = sint.prod((sink.src[0] if is_reduction(sink) else sink).shape)
        arrays = {r for r in needed if size != 1 and sint.prod(r.shape) == size}
        # Groups that make what the sink reads, and the last one that reads the same elements, so that they are loaded once.
        # Reductions of rows go together with others of such rows: what reads both is then in one group.
        rows = (sink.shape, sink.src[0].shape) if is_reduction(sink) and _count(sink.shape) > 1 else None
        candidates = [made_in.get(r) for r in needed] + [last_reader.get(r) for r in (*arrays, rows)]
        joined = None
        for candidate in sorted({c for c in candidates if isinstance(c, Group)}, key=lambda c: -c.order):
            # What it reads must be there before the group runs, or be made within it.
            if candidate.order >= after:
                inside = {r for r in needed if made_in.get(r) is candidate}
                if candidate.take(sink, cost, needed, inside):
                    joined = candidate
                    break
        if joined is None:
            joined = Group(sink, len(steps))
            joined.add(sink, cost)
            steps.append(joined)
        made_in[sink], order[sink] = joined, joined.order
        last_reader |= dict.fromkeys((*arrays, rows), joined)
        last_reader.pop(None, None)
    return steps
