"""Schedules: how a nest is mapped onto vectors, as a list of opts, and what such a list means.

A nest runs along the lanes in one of two ways. Either one of its outer ranges does, and a vector holds neighbouring points; or
each of its innermost passes has a range of its own that does, and a vector holds neighbouring elements within a point. Which is
chosen follows from an estimate of the instructions: what lies side by side in memory is read at once, the rest lane by lane.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..trace import dtype as dtypes
from ..trace import scalar, sint
from ..trace.debug import stage
from ..trace.dtype import DType
from ..trace.sint import Dimension
from ..trace.uop import CONST, UOp, toposort
from .index import LOAD
from .linear import Linear, linear
from .nest import Nest, Pass, elements_of, is_symbolic, size_of
from .opts import Opt, OptError, OptOps
from .target import Target

ACCUMULATORS = 4  # vectors of a sum within a point, so that additions need not wait for each other
ORDERED = 4  # of an ordered pass, which waits for what it wrote
COLUMNS = 24  # vectors of columns that a reduction over rows works on side by side: long runs of each row
SQUARE = 16  # lanes at most of what is transposed in registers
PERIOD = 8  # vectors side by side at most, so that what repeats after them is made once
REGISTERS = 32  # for accumulators; more spill
# Tiles of what is walked along the one range here and along the other there: points of the other range, and of the lanes' one.
# Large ones read long runs of each row; there should be enough of them for the threads.
TILES = ((256, 512), (64, 64))
MANY = 16
# Instructions, about: of a vector in memory, of a lane that is read or written alone, of adding up the lanes of a sum.
VECTOR, LANE, ACROSS = 2, 2, 12
# And of a running value in the lanes of a vector, each of which takes in those before it.
SCANNED = 12
# What a point, or a vector of points, takes besides.
POINT = 4


class Lanes(NamedTuple):
    """A range that runs along the lanes: how many, and how many such vectors are worked on side by side."""

    along: UOp
    lanes: int
    columns: int = 1


class Plan(NamedTuple):
    """A schedule that was applied: the outer ranges in order, the slowest first, and what runs along the lanes.

    `points` is the last of the outer ranges; `passes` has an entry for each pass. `tile` is an outer range, and how many of its
    elements are read at once for `points`, where the one runs through memory faster and there the other."""

    outer: tuple[UOp, ...]
    points: Lanes | None
    passes: tuple[Lanes | None, ...]
    tile: tuple[UOp, int] | None = None

    @property
    def rows(self) -> tuple[UOp, ...]:
        """The outer ranges at each setting of which there is a run of points."""
        other = None if self.tile is None else self.tile[0]
        return tuple([o for o in self.outer[:-1] if o is not other])

    @property
    def run(self) -> Dimension:
        """How many points there are at each setting of those."""
        if not self.outer:
            return 1
        size = sint.extent(self.outer[-1])
        if self.points is not None:
            block = self.points.lanes * self.points.columns
            size = sint.floordiv(sint.add(size, block - 1), block)
        return size if self.tile is None else sint.mul(size, -(-size_of(self.tile[0]) // self.tile[1]))


def axes(nest: Nest) -> list[UOp]:
    """The ranges of a nest by the numbers that opts have for them."""
    return [*nest.outer, *[r for each in nest.every() for r in each.inner]]


def apply(nest: Nest, opts: Sequence[Opt]) -> Plan:
    """What a list of opts means for a nest; raises OptError for one that does not fit."""
    numbered, outer = axes(nest), list(nest.outer)
    count = len(outer)
    upcast: dict[int, int] = {}
    unrolled: dict[int, int] = {}
    tile: tuple[UOp, int] | None = None
    for opt in opts:
        if opt.axis is None or not 0 <= opt.axis < len(numbered):
            raise OptError(f"{opt} names no axis of the nest, which has {len(numbered)}")
        if opt.op is OptOps.SWAP:
            if not (opt.axis < count and isinstance(opt.arg, int) and 0 <= opt.arg < count):
                raise OptError(f"{opt} exchanges two outer axes, of which there are {count}")
            a, b = (outer.index(numbered[axis]) for axis in (opt.axis, opt.arg))
            outer[a], outer[b] = outer[b], outer[a]
        elif not isinstance(opt.arg, int) or opt.arg < 1:
            raise OptError(f"{opt} needs a positive number")
        elif opt.op is OptOps.UPCAST:
            if opt.arg & (opt.arg - 1) or opt.axis in upcast:
                raise OptError(f"{opt}: an axis is upcast once, by a power of two")
            upcast[opt.axis] = opt.arg
        elif opt.op is OptOps.UNROLL:
            unrolled[opt.axis] = opt.arg
        elif opt.op is OptOps.LOCAL:
            if opt.axis >= count or any(each.reductions or each.inner for each in nest.every()):
                raise OptError(f"{opt}: tiles are for outer axes of nests without inner ones")
            tile = numbered[opt.axis], opt.arg
            if any(is_symbolic(numbered[axis]) for axis in (opt.axis, *upcast)):
                raise OptError(f"{opt}: tiles are for axes of known sizes")
        else:
            raise OptError(f"{opt} is for GPUs")
    for axis in unrolled:
        if axis not in upcast:
            raise OptError(f"axis {axis} is unrolled and not upcast")
    return _plan(nest, outer, upcast, unrolled, tile)


def _plan(
    nest: Nest,
    outer: list[UOp],
    upcast: dict[int, int],
    unrolled: dict[int, int],
    tile: tuple[UOp, int] | None,
) -> Plan:
    numbered, count = axes(nest), len(outer)

    def lanes(axis: int) -> Lanes:
        return Lanes(numbered[axis], upcast[axis], unrolled.get(axis, 1))

    chosen = [axis for axis in upcast if axis < count]
    if chosen:
        points = lanes(chosen[0])
        if len(upcast) > 1 or points.along is not outer[-1]:
            raise OptError("an outer axis that is upcast is the last one, and no other is upcast")
        if tile is not None and (tile[0] is points.along or tile[1] % points.lanes):
            raise OptError(
                "a tile has another axis than the lanes', and a multiple of their number of elements"
            )
        return Plan(tuple(outer), points, tuple([None for _ in nest.every()]), tile)
    if tile is not None:
        raise OptError("a tile needs an outer axis that is upcast")
    passes, first = [], count
    for each in nest.every():
        here = [axis for axis in upcast if first <= axis < first + len(each.inner)]
        if len(here) > 1 or (here and each.passes):
            raise OptError("one axis of an innermost pass runs along the lanes")
        if each.running and any(axis in unrolled for axis in here):
            raise OptError("of a running value there is one vector at a time")
        if here and each.is_ordered:
            raise OptError("the points of an ordered pass are run one after another, not along the lanes")
        passes.append(lanes(here[0]) if here else None)
        first += len(each.inner)
    return Plan(tuple(outer), None, tuple(passes))


# The heuristic


@stage("schedule")
def choose(facts: Facts, arrays: Sequence[UOp], target: Target) -> list[Opt]:
    """Opts for a nest that reads and writes these arrays in memory."""
    widths = [a.dtype.itemsize for a in arrays if a.op is not sint.VARIABLE] + [
        each.widest for each in facts.passes.values()
    ]
    nest, lanes = facts.nest, target.lanes(max(widths))
    facts.lanes = lanes
    if lanes == 1:
        return []
    within, within_cost = facts.within()
    options = [(within_cost, len(nest.outer), within)]
    for axis, r in enumerate(nest.outer):
        options.append((facts.across(r), -axis, [Opt(OptOps.UPCAST, axis, facts.fitting(r))]))
    opts = min(options, key=lambda option: option[:2])[2]
    if not opts or opts[0].axis is None or opts[0].axis >= len(nest.outer):
        return opts
    axis, last = opts[0].axis, len(nest.outer) - 1
    other = facts.tiled(nest.outer[axis])
    if other is not None and lanes > SQUARE:
        facts.lanes = lanes = SQUARE
        opts = [Opt(OptOps.UPCAST, axis, lanes)]
    result = [Opt(OptOps.SWAP, axis, last)] if axis != last else []
    result += opts
    columns = facts.columns(nest.outer[axis])
    if other is not None:
        height, width = facts.tile(other, nest.outer[axis])
        result.append(Opt(OptOps.LOCAL, nest.outer.index(other), height))
        columns = width // lanes
    if columns > 1:
        result.append(Opt(OptOps.UNROLL, axis, columns))
    return result


class Facts:
    """What a heuristic asks of a nest."""

    def __init__(self, nest: Nest):
        self.nest, self.lanes = nest, 1
        self.passes = {id(each): _Work(each, nest.local) for each in nest.every()}

    @property
    def size(self) -> int:
        """How many scalar ops the passes are made of."""
        return sum(each.ops + len(each.loads) for each in self.passes.values())

    @property
    def work(self) -> Dimension:
        """About how many instructions on elements all points take."""

        def of(passes: Sequence[Pass]) -> Dimension:
            total: Dimension = 0
            for each in passes:
                own = self.passes[id(each)]
                one = own.ops + VECTOR * (len(own.loads) + len(own.stores))
                inside = sint.add(one, of(each.passes))
                total = sint.add(total, sint.mul(sint.prod(map(sint.extent, each.inner)), inside))
            return total

        outer = sint.prod(map(sint.extent, self.nest.outer))
        return sint.mul(outer, sint.maximum(1, of(self.nest.passes)))

    def fitting(self, r: UOp) -> int:
        """The lanes for a range: no more than it needs."""
        return min(self.lanes, 1 << (size_of(r) - 1).bit_length())

    def across(self, r: UOp) -> float:
        """The cost of all points if this outer range runs along the lanes."""
        total = sum(self._loop(each, r) for each in self.nest.passes) + POINT
        local = sum(self.passes[id(each)].local for each in self.nest.every())
        if local and local * self.lanes * sum(_size(each.inner) for each in self.nest.every()) > 1 << 16:
            return float("inf")  # rows of so many points do not stay close
        vectors = -(-size_of(r) // self.fitting(r))
        return total * _size(self.nest.outer) / size_of(r) * vectors

    def _loop(self, each: Pass, r: UOp) -> float:
        return _size(each.inner) * (
            self.passes[id(each)].vector(r, self.fitting(r))
            + sum(self._loop(inside, r) for inside in each.passes)
        )

    def within(self) -> tuple[list[Opt], float]:
        """Opts for lanes along a range of each innermost pass, and the cost of all points."""
        opts: list[Opt] = []
        first = [len(self.nest.outer)]

        def cost(each: Pass) -> float:
            total = sum(cost(inside) for inside in each.passes)
            work, begin = self.passes[id(each)], first[0]
            first[0] += len(each.inner)
            if each.passes or not each.inner or each.is_ordered:
                return _size(each.inner) * (total + work.scalar())
            ranges = list(enumerate(each.inner))
            best, at = min(
                (
                    _size(each.inner)
                    / size_of(r)
                    * -(-size_of(r) // self.lanes)
                    * work.vector(r, self.lanes),
                    -i,
                )
                for i, r in ranges
            )
            r = each.inner[-at]
            opts.append(Opt(OptOps.UPCAST, begin - at, self.fitting(r)))
            best += _size(each.inner) / self.lanes * SCANNED * len(each.running)
            if each.reductions and size_of(r) >= ACCUMULATORS * self.lanes:
                opts.append(Opt(OptOps.UNROLL, begin - at, ACCUMULATORS))
            return best + ACROSS * len(each.reductions)

        total = sum(cost(each) for each in self.nest.passes) + POINT
        return opts, total * _size(self.nest.outer)

    def columns(self, r: UOp) -> int:
        """How many vectors of points are worked on side by side."""
        reductions = max((len(each.reductions) + len(each.running) for each in self.nest.every()), default=0)
        if any(each.is_ordered for each in self.nest.every()):
            reductions = max(reductions, REGISTERS // ORDERED)
        if not reductions:
            return self._period(r)
        if any(each.passes for each in self.nest.every()):
            return 1
        vectors = -(-size_of(r) // self.lanes)
        blocks = -(-vectors // max(1, min(COLUMNS, REGISTERS // reductions)))
        return -(-vectors // (blocks + (blocks > 1 and blocks % 2)))  # an even number, for two threads

    def _period(self, r: UOp) -> int:
        """The vectors after which remainders of a range by a small number begin anew, if there are such; else 1."""
        period = 1
        for node in [node for each in self.passes.values() for node in each.nodes]:
            if r in linear(node.src[0]).other:
                for part in toposort([node.src[0]]):
                    if part.op is scalar.MOD and part.src[0] is r and part.src[1].op is CONST:
                        divisor = int(part.src[1].value)
                        period = math.lcm(period, divisor // math.gcd(divisor, self.lanes))
        return period if period <= PERIOD else 1

    def tiled(self, r: UOp) -> UOp | None:
        """Another outer range along which some loads go through memory, if r is that of all else."""
        if is_symbolic(r):
            return None
        least = min(self.lanes, SQUARE)
        if any(each.inner or each.reductions for each in self.nest.every()) or size_of(r) < least:
            return None
        loads = [node for work in self.passes.values() for node in work.nodes]
        others = [o for o in self.nest.outer if o is not r and size_of(o) >= least and not is_symbolic(o)]
        candidates = [o for o in others if any(runs_along(node, o, r) for node in loads)]
        return candidates[0] if candidates else None

    def tile(self, other: UOp, r: UOp) -> tuple[int, int]:
        """The points of a tile along the other range and along the lanes' one."""
        for height, width in TILES[:-1]:
            if -(-size_of(other) // height) * -(-size_of(r) // width) >= MANY:
                return height, width
        return TILES[-1]


class _Work:
    """What an element of a pass takes."""

    def __init__(self, each: Pass, local: frozenset[UOp]):
        nodes = elements_of(*each.values)
        loads = [node for node in nodes if node.op is LOAD]
        self.nodes = loads
        self.loads: list[Linear] = [linear(node.src[0]) for node in loads]
        self.stores: list[Linear] = [linear(s.position) for s in each.stores]
        self.ops = sum(node.op is not CONST and node.op is not LOAD for node in nodes) + len(each.reductions)
        self.ops += sum(len(running.terms) for running in each.running)
        # Floats of 16 bits are computed with as others; indices do not count.
        self.widest = max([_width(node.dtype) for node in nodes if node.op is not sint.VARIABLE], default=4)
        self.local = sum(s.node.dtype.itemsize for s in each.stores if s.node in local)

    def vector(self, r: UOp, lanes: int) -> float:
        """The instructions for a vector along a range."""
        total = self.ops + sum(_access(form.along(r), lanes) for form in (*self.loads, *self.stores))
        # Of two that are written or read alone, the lanes are along what is written.
        return total + sum(form.along(r) != 1 for form in self.stores)

    def scalar(self) -> float:
        """The instructions for one element."""
        return self.ops + len(self.loads) + len(self.stores)


def _width(dtype: DType) -> int:
    return max(4, dtype.itemsize) if dtypes.is_float(dtype) else dtype.itemsize


def _access(step: int | None, lanes: int) -> float:
    if step == 0:
        return 1
    return VECTOR if step in (1, -1) else LANE * lanes


def _size(ranges: Sequence[UOp]) -> int:
    total = 1
    for r in ranges:
        total *= size_of(r)
    return total


def chunks(plan: Plan) -> Dimension:
    """How many points a kernel's begin and end count."""
    return sint.mul(sint.prod(map(sint.extent, plan.rows)), plan.run)


def runs_along(load: UOp, other: UOp, lane: UOp) -> bool:
    """Whether a load goes through memory along another range, and along the lanes by a fixed step."""
    form = linear(load.src[0])
    return len(load.src) == 1 and form.along(other) == 1 and form.along(lane) not in (None, 0, 1)
