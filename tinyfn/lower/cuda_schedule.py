"""How a nest is mapped onto a GPU: the threads that work on one point of the outer ranges, and where its local arrays are."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from ..trace import sint
from ..trace.uop import UOp
from .cuda_function import SHARED_MAX, THREADS, WARP
from .index import LOAD
from .nest import Nest, Pass, elements_of, size_of, step_along

# Rows up to this size belong to one thread, and up to the next to one warp.
THREAD_ROW, WARP_ROW = 4, 1024
# A row that is kept in registers has at most this many elements for each thread.
REGISTERS = 32


class Mapping(NamedTuple):
    """The number of threads that share a point (1, a warp's or a block's), and where each local array is kept.

    `registers`: each thread keeps what it wrote; `shared`: offsets in the block's shared memory, in bytes, of the first row, with
    `row_bytes` from one point's row to the next; `workspace`: as shared, but in memory, since it is too large."""

    group: int
    registers: frozenset[UOp] = frozenset()
    offsets: tuple[tuple[UOp, int], ...] = ()
    row_bytes: int = 0
    in_workspace: bool = False

    @property
    def rows(self) -> int:
        """How many points a block works on at once."""
        return THREADS // self.group


def inner_size(each: Pass) -> int:
    """The number of points of a pass's inner ranges."""
    return prod(size_of(r) for r in each.inner)


def points_of(nest: Nest) -> int:
    """The number of points of the outer ranges."""
    return prod(size_of(o) for o in nest.outer)


def schedule(nest: Nest) -> Mapping:
    """A thread to a point where neighbouring points read neighbouring elements or rows are short; else a warp or a block."""
    group = _group(nest)
    if not nest.local:
        return Mapping(group)
    sizes = {array: _local_size(nest, array) for array in nest.local}
    # Rows that lie in one thread alone must be short, since they are to be registers.
    if group == 1 and max(sizes.values()) > REGISTERS:
        group = WARP
    while True:
        registers = frozenset(a for a in nest.local if group == 1 or _own_elements(nest, a, group))
        offsets, end = {}, 0
        for array in sorted(set(nest.local) - registers, key=lambda a: -a.dtype.itemsize):
            offsets[array] = end
            end += sizes[array] * array.dtype.itemsize
        row_bytes = -(-end // 16) * 16
        mapping = Mapping(group, registers, tuple(offsets.items()), row_bytes)
        if mapping.rows * row_bytes <= SHARED_MAX:
            return mapping
        if group == THREADS:
            return mapping._replace(in_workspace=True)
        group = THREADS


def _group(nest: Nest) -> int:
    longest = max((inner_size(each) for each in nest.every()), default=1)
    if longest <= THREAD_ROW or not any(each.inner for each in nest.every()):
        return 1
    if nest.outer and _across(nest) > 0:
        return 1
    return WARP if longest <= WARP_ROW else THREADS


def _across(nest: Nest) -> int:
    """How many more reads of reductions step along the last outer range than along the pass's own last range."""
    votes, last = 0, nest.outer[-1]
    for each in nest.every():
        for node in elements_of(*[r.value for r in each.reductions]):
            if node.op is LOAD:
                inner = step_along(node.src[0], each.inner[-1]) if each.inner else 0
                votes += (step_along(node.src[0], last) == 1 and inner != 1) - (inner == 1)
    return votes


def _local_size(nest: Nest, array: UOp) -> int:
    """How many elements of a local array a point has."""
    return 1 + max(
        sint.bounds(s.position)[1] for each in nest.every() for s in each.stores if s.node is array
    )


def _own_elements(nest: Nest, array: UOp, group: int) -> bool:
    """Whether each thread of a group reads only those elements of a local array that it wrote, and they are few."""
    spaces = set()
    for each in nest.every():
        touched = {s.position for s in each.stores if s.node is array}
        for expression in (*(r.value for r in each.reductions), *(s.value for s in each.stores)):
            touched |= {n.src[0] for n in elements_of(expression) if n.op is LOAD and n.arg is array}
        if any(n.op is LOAD and n.arg is array for s in each.stores for n in elements_of(s.position)):
            return False
        for position in touched:
            spaces.add((each.inner, position))
        if touched and (each.passes or not each.inner):
            return False
    if len(spaces) != 1 or any(each.passes for each in nest.passes):
        return False
    ((inner, _),) = spaces
    return -(-prod(size_of(r) for r in inner) // group) <= REGISTERS
