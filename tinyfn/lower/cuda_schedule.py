"""How a nest is mapped onto a GPU: the threads that work on one point of the outer ranges, and where its local arrays are.

A schedule is a list of opts. GROUP: so many threads (a warp's or a block's) share the elements of an inner range; without it a
point belongs to one thread. LOCAL beside it: so many neighbouring points of the last outer range are side by side in a block,
whose threads they share, so that reductions over rows read whole sectors of memory. UPCAST: each thread does so many
neighbouring points of the last outer range, whose elements it loads and stores as one vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ..trace import sint
from ..trace.uop import UOp
from .cuda_function import SHARED_MAX, THREADS, VECTOR_BYTES, WARP
from .index import LOAD, as_node, position
from .linear import linear
from .nest import Nest, Pass, elements_of, size_of, step_along
from .opts import Opt, OptError, OptOps

# Rows up to this size belong to one thread, and up to the next to one warp; where there are many, also longer ones.
THREAD_ROW, WARP_ROW, WARP_ROW_OF_MANY = 4, 128, 1024
# A row that is kept in registers has at most this many elements for each thread.
REGISTERS = 32
# With fewer threads than this, points are not put together: they would leave processors idle.
ENOUGH_THREADS = 1 << 16
# Reductions over at least so many rows are divided among threads. 32 columns are side by side in a block, or only 8, which are
# a sector of memory still, where that would be too few blocks.
LONG_COLUMN, COLUMNS, FEW_COLUMNS, ENOUGH_BLOCKS = 64, 32, 8, 132


class Mapping(NamedTuple):
    """The number of threads that share a point (1, a warp's or a block's), and where each local array is kept.

    `side_by_side`: a point's threads are those at the same place of each run of `rows`, not neighbours. `upcast`: the points of a
    thread. `registers`: each thread keeps what it wrote; `offsets`: in the block's shared memory, in bytes, from the row of a
    point, with `row_bytes` from one point's row to the next; `in_workspace`: rows are in memory, since they are too large."""

    group: int
    registers: frozenset[UOp] = frozenset()
    offsets: tuple[tuple[UOp, int], ...] = ()
    row_bytes: int = 0
    in_workspace: bool = False
    upcast: int = 1
    side_by_side: bool = False

    @property
    def rows(self) -> int:
        """How many points a block works on at once."""
        return THREADS // self.group * self.upcast


def inner_size(each: Pass) -> int:
    """The number of points of a pass's inner ranges."""
    return prod(size_of(r) for r in each.inner)


def points_of(nest: Nest) -> int:
    """The number of points of the outer ranges."""
    return prod(size_of(o) for o in nest.outer)


def choose(nest: Nest) -> tuple[Opt, ...]:
    """A thread to a point where neighbouring points read neighbouring elements or rows are short; else a warp or a block."""
    group = _group(nest)
    if group == 1 and _are_long_columns(nest):
        columns = COLUMNS if points_of(nest) >= COLUMNS * ENOUGH_BLOCKS else FEW_COLUMNS
        last = len(nest.outer) - 1
        return (Opt(OptOps.LOCAL, last, columns), Opt(OptOps.GROUP, last + 1, THREADS // columns))
    # Rows that lie in one thread alone must be short, since they are to be registers.
    if group == 1 and max([_local_size(nest, array) for array in nest.local], default=0) > REGISTERS:
        group = WARP
    if group > 1:
        # The rows of all warps of a block have to fit into shared memory; where they do not, the block takes one.
        fits = THREADS // group * _shared(nest, group)[1] <= SHARED_MAX
        return (Opt(OptOps.GROUP, len(nest.outer), group if fits else THREADS),)
    width = _width(nest)
    if width > 1 and points_of(nest) // width >= ENOUGH_THREADS:
        return (Opt(OptOps.UPCAST, len(nest.outer) - 1, width),)
    return ()


def apply(nest: Nest, opts: Sequence[Opt]) -> Mapping:
    """What a list of opts means for a nest; raises OptError for one that does not fit."""
    group, upcast, columns = 1, 1, 0
    inner, last = sum(len(each.inner) for each in nest.every()), len(nest.outer) - 1
    for opt in opts:
        if opt.op is OptOps.GROUP:
            if opt.axis is None or not last < opt.axis <= last + inner:
                raise OptError(f"{opt}: threads share an inner range")
            group = opt.arg
        elif opt.op is OptOps.LOCAL:
            if opt.axis != last or opt.arg not in (COLUMNS, FEW_COLUMNS) or not _is_flat(nest):
                raise OptError(
                    f"{opt}: {FEW_COLUMNS} or {COLUMNS} points of the last outer range are side by side"
                )
            columns = opt.arg
        elif opt.op is OptOps.UPCAST:
            if opt.axis != last or not isinstance(opt.arg, int) or _width(nest) % opt.arg:
                raise OptError(f"{opt}: the last outer axis can be upcast by {_width(nest)}")
            upcast = opt.arg
        else:
            raise OptError(f"{opt} is not for loops on a GPU")
    sizes = (THREADS // columns,) if columns else (1, WARP, THREADS)
    if group > 1 and any(each.is_ordered or each.running for each in nest.every()):
        raise OptError("the points of an ordered pass are run one after another, by one thread")
    if group not in sizes:
        raise OptError(f"so many threads share an inner range: {sizes}, not {group}")
    if columns:
        return Mapping(group, side_by_side=True)
    if upcast > 1 and group > 1:
        raise OptError("a point is shared by threads, or several belong to one thread, but not both")
    if not nest.local:
        return Mapping(group, upcast=upcast)
    offsets, row_bytes = _shared(nest, group)
    registers = nest.local - offsets.keys()
    mapping = Mapping(group, registers, tuple(offsets.items()), row_bytes)
    if mapping.rows * row_bytes <= SHARED_MAX:
        return mapping
    if group < THREADS:
        raise OptError(
            f"rows of {row_bytes} bytes for each of {mapping.rows} points do not fit into shared memory"
        )
    return mapping._replace(in_workspace=True)


def _is_flat(nest: Nest) -> bool:
    """Whether a nest has neither local arrays nor passes within passes."""
    return (
        bool(nest.outer)
        and not nest.local
        and not any(e.passes or e.running or e.is_ordered for e in nest.passes)
    )


def _are_long_columns(nest: Nest) -> bool:
    """Whether reductions read memory along the last outer range, are long, and of few points."""
    longest = max((inner_size(each) for each in nest.every()), default=1)
    return (
        _is_flat(nest) and longest >= LONG_COLUMN and points_of(nest) < ENOUGH_THREADS and _across(nest) > 0
    )


def _shared(nest: Nest, group: int) -> tuple[dict[UOp, int], int]:
    """Where the local arrays that are not in registers are in a row of shared memory, and the bytes of that."""
    offsets: dict[UOp, int] = {}
    end = 0
    for array in sorted(nest.local, key=lambda a: -a.dtype.itemsize):
        if group > 1 and not _own_elements(nest, array, group):
            offsets[array] = end
            end += _local_size(nest, array) * array.dtype.itemsize
    return offsets, -(-end // 16) * 16


def _group(nest: Nest) -> int:
    longest = max((inner_size(each) for each in nest.every()), default=1)
    if any(each.is_ordered or each.running for each in nest.every()):
        return 1
    if longest <= THREAD_ROW or not any(each.inner for each in nest.every()):
        return 1
    if nest.outer and _across(nest) > 0:
        return 1
    many = points_of(nest) >= ENOUGH_BLOCKS * THREADS // WARP
    return WARP if longest <= (WARP_ROW_OF_MANY if many else WARP_ROW) else THREADS


def _width(nest: Nest) -> int:
    """How many neighbouring points one thread can do with vectors, 1 if there are none to load or store."""
    if not nest.outer or nest.local or set(nest.stored) & set(nest.loaded):
        return 1
    if any(each.inner or each.passes or each.reductions for each in nest.passes):
        return 1
    stores = [store for each in nest.passes for store in each.stores]
    accesses = [(store.node, store.position) for store in stores]
    for node in elements_of(*[store.value for store in stores]):
        if node.op is LOAD and len(node.src) == 1:
            accesses.append((node.arg, node.src[0]))
    widest = [VECTOR_BYTES // a.dtype.itemsize for a, where in accesses if is_vector(where, nest, 2)]
    width = min(widest, default=1)
    while width > 1 and size_of(nest.outer[-1]) % width:
        width //= 2
    while width > 1 and not any(is_vector(where, nest, width) for _, where in accesses):
        width //= 2
    return width


def is_vector(where: UOp, nest: Nest, width: int) -> bool:
    """Whether the elements at so many neighbouring points lie side by side, and begin where a vector may begin."""
    form, last = linear(where), nest.outer[-1]
    others = [step for r, step in form.steps.items() if r is not last]
    aligned = all(n % width == 0 for n in (form.constant, *others))
    return form.along(last) == 1 and form.is_all and aligned


def _across(nest: Nest) -> int:
    """How many more reads of reductions step along the last outer range than along the pass's own last range.

    What is read for all points of that range alike does not count: it is read once."""
    votes, last = 0, nest.outer[-1]
    for each in nest.every():
        for node in elements_of(*[r.value for r in each.reductions]):
            if node.op is LOAD and (outer := step_along(node.src[0], last)) != 0:
                inner = step_along(node.src[0], each.inner[-1]) if each.inner else 0
                votes += (outer == 1 and inner != 1) - (inner == 1)
    return votes


def _local_size(nest: Nest, array: UOp) -> int:
    """How many elements of a local array a point has."""
    return 1 + max(
        sint.bounds(s.position)[1] for each in nest.every() for s in each.stores if s.node is array
    )


def _own_elements(nest: Nest, array: UOp, group: int) -> bool:
    """Whether each thread of a group reads only those elements of a local array that it wrote, and they are few.

    So it is if all passes that touch the array have the same ranges, and touch at each point the element of that point."""
    spaces = set()
    for each in nest.every():
        positions = {s.position for s in each.stores if s.node is array}
        positions |= {load.src[0] for load in loads_of(each) if load.arg is array}
        if positions:
            point = as_node(position([size_of(r) for r in each.inner], each.inner))
            if positions != {point} or each.passes or not each.inner:
                return False
            spaces.add(each.inner)
    if len(spaces) != 1 or any(each.passes for each in nest.passes):
        return False
    (inner,) = spaces
    return -(-prod(size_of(r) for r in inner) // group) <= REGISTERS


def loads_of(each: Pass) -> list[UOp]:
    """The elements that a pass loads itself, those in positions and conditions of others included."""
    found: dict[UOp, None] = {}
    pending = [*each.values, *[store.position for store in each.stores]]
    while pending:
        loads = [n for n in elements_of(*pending) if n.op is LOAD and n not in found]
        found |= dict.fromkeys(loads)
        pending = [s for n in loads for s in n.src]
    return list(found)
