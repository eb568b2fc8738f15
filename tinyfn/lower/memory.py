"""Memory plans: where each array of a program lives, and which of them may take over another's memory.

A temporary, which only kernels read, has a place in one block of memory (the arena), shared with others that are not alive at the
same time. Outputs, and what host ops read, have memory of their own. An output may be written into a donated input.

**In place.** A kernel may write an array over another one that it reads if every element is read, for the last time, by the
very point that then writes it. That is so if (1) stores write the array, once for each element and at a position that is made
of ranges alone: there is one store, or each is in a part of its own, and what follows holds in each of these; (2) the other
array is read in that store's nest only, always at that same position (the same expression), in the store's pass or in passes
before it; (3) the kernel does not write the other array. Renderers keep to their side of this: they promise the machine nothing
about which arrays overlap, run no point twice, and at a point (or a vector of points) make all values of a pass before they
store one. Nests in `finish` run after all parts, so what only parts read is free for them. A contraction reads its factors at any
time, also after other elements are stored; what it stores it visits once, so (2) is about what it reads there.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..trace import sint
from ..trace.debug import stage
from ..trace.sint import Dimension
from ..trace.uop import UOp, toposort
from .gemm_form import match
from .index import LOAD
from .nest import Flow, Host, Kernel, Nest, Pass, ProgramStep, View
from .sizes import NO_SIZES, Sizes

ALIGNMENT = 64  # bytes, of places in the arena


class MemoryPlan(NamedTuple):
    """Where the arrays that a program's kernels write are.

    `places` are offsets of temporaries in the arena, of `arena` bytes. `in_place` names for an output the donated input whose
    memory it takes. `last` is the index of the last step that uses an array; outputs are not in it."""

    places: dict[UOp, int]
    arena: int
    in_place: dict[UOp, UOp]
    last: dict[UOp, int]


def reads_and_writes(step: ProgramStep) -> tuple[list[UOp], list[UOp]]:
    """The arrays that a step reads and those that it writes; what a kernel writes and reads again is written only."""
    if isinstance(step, Host):
        return list(step.node.src), [step.node]
    if isinstance(step, View):
        return [step.source], [step.node]
    if isinstance(step, Flow):
        return list(dict.fromkeys(step.sources)), list(step.results)
    nests = (*step.parts, *step.finish)
    written = dict.fromkeys(node for nest in nests for node in nest.stored)
    read = dict.fromkeys(node for nest in nests for node in nest.loaded)
    return [node for node in read if node not in written], list(written)


@stage("memory plan")
def plan(
    inputs: Sequence[UOp],
    outputs: Iterable[UOp],
    steps: Sequence[ProgramStep],
    donated: Iterable[UOp] = (),
    sizes: Sizes = NO_SIZES,
) -> MemoryPlan:
    """The memory plan of steps that compute outputs from inputs, of which some are donated, for these sizes of symbolic
    dimensions."""
    kept = set(outputs)
    uses = [reads_and_writes(step) for step in steps]
    by_host: set[UOp] = set()
    last = {node: -1 for node in inputs}
    for i, (read, written) in enumerate(uses):
        last.update(dict.fromkeys((*read, *written), i))
        if isinstance(steps[i], (Host, View)):
            by_host.update(read, written)
    for step in reversed(steps):  # a view may be one of a view
        if isinstance(step, View):
            last[step.source] = max(last[step.source], last[step.node])
            if step.node in kept:
                kept.add(step.source)
    arena = _Arena()
    places: dict[UOp, int] = {}
    in_place: dict[UOp, UOp] = {}
    begun: set[UOp] = set()  # what has its memory: pieces of a concatenation may be written by several steps

    def bytes_of(node: UOp) -> int:
        return sizes.elements(node) * node.dtype.itemsize

    spare = _Spare((node for node in donated if node not in kept), sizes.elements)
    for node in spare.waiting(last, -1):
        spare.add(node)
    for i, (step, (_, written)) in enumerate(zip(steps, uses, strict=True)):
        if isinstance(step, (Kernel, Flow)):
            over = _replaceable(step) if isinstance(step, Kernel) else step.over
            taken: set[UOp] = set()
            for node in written:
                if node in begun:
                    continue
                begun.add(node)
                candidates = [n for n in over.get(node, ()) if n not in taken and last[n] == i]
                if node in kept:
                    donor = next((n for n in candidates if spare.takes(n, node)), None) or spare.pop(node)
                    if donor is not None:
                        spare.use(donor)
                        in_place[node] = donor
                        taken.add(donor)
                elif node not in by_host:
                    size = bytes_of(node)
                    giver = next((n for n in candidates if n in places and bytes_of(n) == size), None)
                    if giver is not None:
                        taken.add(giver)
                    places[node] = arena.take(size) if giver is None else places[giver]
            if isinstance(step, Flow) and step.workspace:
                places[step.node] = arena.take(step.workspace)
                arena.give_back(places[step.node], step.workspace)
            for node in (*uses[i][0], *written):
                if node in places and node not in taken and last[node] == i:
                    arena.give_back(places[node], bytes_of(node))
        for node in spare.waiting(last, i):
            spare.add(node)
    return MemoryPlan(places, arena.size, in_place, {n: i for n, i in last.items() if n not in kept})


class _Spare:
    """Donated inputs whose memory an output may get: those that a kernel reads for the last time, and those that nobody needs."""

    def __init__(self, donated: Iterable[UOp], elements: Callable[[UOp], int]):
        self._donated = dict.fromkeys(donated)
        self._elements = elements
        self._free: dict[tuple[int, int], list[UOp]] = {}
        self._by_last: dict[int, list[UOp]] | None = None

    def waiting(self, last: dict[UOp, int], step: int) -> list[UOp]:
        """The donated inputs that are used for the last time by a step."""
        if self._by_last is None:
            self._by_last = {}
            for node in self._donated:
                self._by_last.setdefault(last[node], []).append(node)
        return [node for node in self._by_last.get(step, ()) if node in self._donated]

    def add(self, node: UOp) -> None:
        """Nobody needs this one any more."""
        self._free.setdefault(self._kind(node), []).append(node)

    def pop(self, output: UOp) -> UOp | None:
        """One that nobody needs, for an output of its size."""
        free = self._free.get(self._kind(output))
        return free.pop() if free else None

    def takes(self, node: UOp, output: UOp) -> bool:
        """Whether a node is a donated input that is still to be had, of the size of an output."""
        return node in self._donated and self._kind(node) == self._kind(output)

    def use(self, node: UOp) -> None:
        """This one is taken."""
        del self._donated[node]

    def _kind(self, node: UOp) -> tuple[int, int]:
        return self._elements(node), node.dtype.itemsize


class _Arena:
    """Offsets in a block of memory that grows as needed: the smallest gap that fits."""

    def __init__(self) -> None:
        self.size = 0
        self._by_size: list[tuple[int, int]] = []  # gaps: size, offset
        self._begins: dict[int, int] = {}  # offset: size
        self._ends: dict[int, int] = {}  # end: offset

    def take(self, size: int) -> int:
        """The offset of free memory."""
        size = _rounded(size)
        at = bisect_left(self._by_size, (size, 0))
        if at < len(self._by_size):
            gap, offset = self._by_size[at]
            self._remove(offset, gap)
            if gap > size:
                self._insert(offset + size, gap - size)
            return offset
        last = self._ends.get(self.size)
        offset = self.size if last is None else last
        if last is not None:
            self._remove(last, self.size - last)
        self.size = offset + size
        return offset

    def give_back(self, offset: int, size: int) -> None:
        """This memory is free again."""
        size = _rounded(size)
        after = self._begins.get(offset + size)
        if after is not None:
            self._remove(offset + size, after)
            size += after
        before = self._ends.get(offset)
        if before is not None:
            self._remove(before, offset - before)
            offset, size = before, size + offset - before
        self._insert(offset, size)

    def _insert(self, offset: int, size: int) -> None:
        insort(self._by_size, (size, offset))
        self._begins[offset] = size
        self._ends[offset + size] = offset

    def _remove(self, offset: int, size: int) -> None:
        del self._by_size[bisect_left(self._by_size, (size, offset))]
        del self._begins[offset], self._ends[offset + size]


def _rounded(size: int) -> int:
    return max(1, -(-size // ALIGNMENT)) * ALIGNMENT


# Which arrays may be written over which


_LATE = 1 << 30  # after every pass


class _Read(NamedTuple):
    """An element that a kernel reads, in which nest and pass."""

    nest: int
    each: int
    position: UOp


class _Write(NamedTuple):
    """Where a kernel stores an array, and how many points do so."""

    nest: int
    each: int
    position: UOp
    points: Dimension


def _replaceable(kernel: Kernel) -> dict[UOp, list[UOp]]:
    """For each array that a kernel stores those over which it may be written, though the kernel reads them."""
    parts = len(kernel.parts)
    nests = (*kernel.parts, *kernel.finish)
    reads: dict[UOp, list[_Read]] = {}
    writes: dict[UOp, list[_Write]] = {}
    contractions = {i for i, nest in enumerate(nests) if match(nest) is not None}
    for i, nest in enumerate(nests):
        for j, (each, points) in enumerate(_with_points(nest)):
            # The factors of a contraction are read as late as its last pass is done.
            at = _LATE if i in contractions and each.reductions else j
            for node in toposort(_expressions(each)):
                if node.op is LOAD and node.arg not in nest.local:
                    reads.setdefault(node.arg, []).append(_Read(i, at, node.src[0]))
            for store in each.stores:
                if store.node not in nest.local:
                    writes.setdefault(store.node, []).append(_Write(i, j, store.position, points))
    # The arrays that one nest reads, or parts alone: the others can't be replaced.
    where = {
        array: {read.nest for read in found if read.nest >= parts} or {read.nest for read in found}
        for array, found in reads.items()
        if array not in writes
    }
    read_in: dict[int, list[UOp]] = {}
    for array, found in where.items():
        read_in.setdefault(max(found), []).append(array)
    result: dict[UOp, list[UOp]] = {}
    for array, stores in writes.items():
        if not _once_each(array, stores):
            continue
        if len(stores) > 1:
            by_part = {write.nest: write for write in stores if write.nest < parts}
            if len(by_part) == len(stores):
                candidates = dict.fromkeys(read_in.get(max(by_part), ()))
                result[array] = [n for n in candidates if _free_for_pieces(by_part, reads[n])]
            continue
        (write,) = stores
        candidates = dict.fromkeys(read_in.get(write.nest, ()))
        if write.nest >= parts:
            # Nests of `finish` run one after another, after all parts.
            candidates |= dict.fromkeys(a for i, found in read_in.items() if i < write.nest for a in found)
        result[array] = [other for other in candidates if _free_for(write, reads[other], parts)]
    return result


def _once_each(array: UOp, writes: Sequence[_Write]) -> bool:
    ranges_alone = all(node.op is not LOAD for node in toposort([write.position for write in writes]))
    points: Dimension = 0
    for write in writes:
        points = sint.add(points, write.points)
    return ranges_alone and points == sint.prod(array.shape)


def _free_for_pieces(writes: Mapping[int, _Write], reads: Sequence[_Read]) -> bool:
    """Whether each part that writes a piece reads of an array just that piece, before that, and no other part reads it."""
    return all(
        (write := writes.get(read.nest)) is not None
        and read.each <= write.each
        and read.position is write.position
        for read in reads
    )


def _free_for(write: _Write, reads: Sequence[_Read], parts: int) -> bool:
    """Whether each read is done before the element that it reads is written."""
    for read in reads:
        if read.nest != write.nest:
            if write.nest < parts or read.nest > write.nest:
                return False
        elif read.each > write.each or read.position is not write.position:
            return False
    return True


def _with_points(nest: Nest) -> Iterator[tuple[Pass, Dimension]]:
    """The passes in the order of their work, each with how often its innermost statements run in all."""

    def walk(each: Pass, points: Dimension) -> Iterator[tuple[Pass, Dimension]]:
        points = sint.mul(points, sint.prod(map(sint.extent, each.inner)))
        for inside in each.passes:
            yield from walk(inside, points)
        yield each, points

    for each in nest.passes:
        yield from walk(each, sint.prod(map(sint.extent, nest.outer)))


def _expressions(each: Pass) -> list[UOp]:
    stored = [store.position for store in each.stores]
    return [*stored, *each.values]
