"""Nests: what a kernel computes, as loops over scalar expressions.

A `Kernel` is what one launch runs: `parts`, which are independent of each other, and then `finish`, which the thread that is done
last runs alone. A part is a `Nest`: outer ranges, whose points are run in parallel and in any order, and passes, run in order at
each point. A pass has inner ranges; at each point of them it first runs passes of its own, then reduces and stores. What comes
after a reduction reads its result as a scalar.

A contraction is a nest of one form: its only reduction adds up products, whose left factor depends on one part of the outer
ranges, and whose right factor on the rest.

Expressions are scalar ops (`trace.scalar`). Their leaves are constants, ranges, elements in memory (LOAD) and results of
reductions (RESULT). An index is an expression of the same kind, which may contain elements in memory, as in a gather.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..trace import dtype as dtypes
from ..trace import scalar, sint
from ..trace.elements import Index, as_node
from ..trace.uop import OUTPUT, UOp, make, rebuild, toposort
from .index import LOAD, RESULT
from .linear import linear


class Reduce(NamedTuple):
    """An accumulator of a pass: the reduction, how elements are combined, and an element (in the accumulator's dtype)."""

    node: UOp
    op: scalar.ScalarOp
    value: UOp


class Store(NamedTuple):
    """A value that a pass writes, at a row-major position of an array; of a local one, within the row only."""

    node: UOp
    position: UOp
    value: UOp


class Running(NamedTuple):
    """A value that goes along with an ordered pass: at each point what it was before, times `factor` if there is one, combined
    with an element. It begins as `op`'s identity, or with the first element if there are factors. Stores of the pass read it by
    `result(node)`."""

    node: UOp
    op: scalar.ScalarOp
    value: UOp
    factor: UOp | None = None

    @property
    def terms(self) -> tuple[UOp, ...]:
        """What it is made of at a point."""
        return (self.value,) if self.factor is None else (self.value, self.factor)

    def changed(self, change: Callable[[UOp], UOp]) -> Running:
        """The same of other expressions."""
        return Running(self.node, self.op, *map(change, self.terms))


class Pass(NamedTuple):
    """A loop over inner ranges (none: once). At each point, first `passes` in order, then `running`, the reductions and stores.

    A result of a reduction of `passes` belongs to one point; one of its own to the whole loop. A pass that reads what it stores
    is ordered: its points are run one after another, the last range the fastest, and each sees what those before it wrote. So is
    one with running values, of one range."""

    inner: tuple[UOp, ...]
    reductions: tuple[Reduce, ...]
    stores: tuple[Store, ...]
    passes: tuple[Pass, ...] = ()
    running: tuple[Running, ...] = ()

    @property
    def values(self) -> list[UOp]:
        """The expressions of what it reduces, keeps running and stores."""
        terms = [term for each in self.running for term in each.terms]
        return [*[r.value for r in self.reductions], *terms, *[store.value for store in self.stores]]

    @property
    def is_ordered(self) -> bool:
        """Whether what a point of its ranges reads in memory is what points before it wrote."""
        stored = {store.node for store in self.stores}
        nodes = (
            toposort([e for store in self.stores for e in (store.value, store.position)]) if stored else ()
        )
        return any(node.op is LOAD and node.arg in stored for node in nodes)

    def every(self) -> Iterator[Pass]:
        """The pass and those within it, in the order in which their work is done."""
        for each in self.passes:
            yield from each.every()
        yield self


class Nest(NamedTuple):
    """For each point of the outer ranges, passes in order. Local arrays live for one point."""

    outer: tuple[UOp, ...]
    passes: tuple[Pass, ...]
    local: frozenset[UOp]

    def every(self) -> Iterator[Pass]:
        """All passes, in the order in which their work is done."""
        for each in self.passes:
            yield from each.every()

    @property
    def stored(self) -> list[UOp]:
        """The arrays that the kernel writes to memory."""
        stores = [store.node for each in self.every() for store in each.stores]
        return [node for node in dict.fromkeys(stores) if node not in self.local]

    @property
    def loaded(self) -> list[UOp]:
        """The arrays that the kernel reads from memory, those that it writes and reads again included."""
        expressions = [value for each in self.every() for value in each.values]
        expressions += [s.position for each in self.every() for s in each.stores]
        arrays = [node.arg for node in toposort(expressions) if node.op is LOAD]
        return [node for node in dict.fromkeys(arrays) if node not in self.local]


class Kernel(NamedTuple):
    """One launch: independent parts, and what is run after all of them, in order and by one thread."""

    parts: tuple[Nest, ...]
    finish: tuple[Nest, ...] = ()


class Host(NamedTuple):
    """An op that runs by its reference."""

    node: UOp

    @property
    def is_result(self) -> bool:
        """Whether it only takes one of several results."""
        return self.node.op is OUTPUT


class View(NamedTuple):
    """A value that is another one's memory in another shape."""

    node: UOp
    source: UOp


class Flow(NamedTuple):
    """A loop or branch that runs natively: it reads `sources` in memory, writes `results`, and works in so many bytes.

    `over` names for some of the results the source in whose memory they may be, if nobody else needs that."""

    node: UOp
    sources: tuple[UOp, ...]
    results: tuple[UOp, ...]
    workspace: int
    over: dict[UOp, list[UOp]]


Step = Kernel | Host | View
ProgramStep = Step | Flow


def result(node: UOp) -> UOp:
    """The scalar that stands for a reduction's result at the point of the outer ranges."""
    return make(RESULT, (), node, node.dtype, ())


def only_ranges(index: Index) -> tuple[UOp, ...]:
    """The ranges of an index, without the zeros of axes of size 1."""
    return tuple([i for i in index if isinstance(i, UOp)])


def first_of(running: Running) -> Any:
    """What a running value is before the first point: of a sum -0.0, which keeps a first element of -0.0."""
    dtype = running.value.dtype
    if running.op is scalar.ADD and dtypes.is_float(dtype):
        return np.asarray(-0.0, dtype)[()]
    assert running.op.identity is not None
    return np.asarray(running.op.identity(dtype), dtype)[()]


# A last range of at most so many elements is made one with the one before, if memory is walked that way.
SHORT = 8


def merge_ranges(nest: Nest) -> Nest:
    """The nest with neighbouring ranges that every position steps through as through one made one.

    A nest without reductions becomes a single outer range over all elements, if its arrays are walked in order."""
    if len(nest.passes) == 1 and not (
        nest.passes[0].reductions or nest.passes[0].running or nest.passes[0].passes
    ):
        # Nothing holds inner ranges apart from outer ones.
        (only,) = nest.passes
        nest = Nest((*nest.outer, *only.inner), (Pass((), (), only.stores),), nest.local)
    at = 0
    while at < len(loops := [nest.outer, *[each.inner for each in nest.every()]]):
        ranges = loops[at]
        for a, b in pairwise(ranges):
            merged = _merged(nest, a, b)
            if merged is not None:
                nest = merged
                break
        else:
            at += 1
    return _with_long_rows(nest)


def _with_long_rows(nest: Nest) -> Nest:
    """The nest with a short last range and the one before made one, if that is how memory is walked.

    Of the two, what does not go through memory as through one depends on the short range alone, as a bias does: it then
    depends on a remainder, which repeats after few vectors."""
    if len(nest.passes) != 1 or len(nest.outer) < 2 or nest.passes[0].inner or nest.passes[0].reductions:
        return nest
    *rest, a, b = nest.outer
    size = size_of(b)
    if size > SHORT or size_of(a) < SHORT or is_symbolic(b):
        return nest
    (only,) = nest.passes
    nodes = elements_of(*[s.value for s in only.stores])
    loads = [node for node in nodes if node.op is LOAD]
    if a in nodes or b in nodes or any(len(load.src) > 1 for load in loads):
        return nest
    for position, may_repeat in [(s.position, False) for s in only.stores] + [
        (n.src[0], True) for n in loads
    ]:
        slow, fast = step_along(position, a), step_along(position, b)
        if slow is None or fast is None or not (slow == size * fast or (may_repeat and slow == 0)):
            return nest
    whole = sint.Range(b.arg[0], sint.mul(sint.extent(a), size))
    mapping: dict[UOp, Any] = {a: sint.floordiv(whole, size), b: sint.mod(whole, size)}
    new: dict[UOp, UOp] = {}
    for node in nodes:
        if node.op is LOAD:
            at = as_node(sint.substitute(node.src[0], mapping))
            new[node] = make(LOAD, (at,), node.arg, node.dtype, ())
        else:
            new[node] = rebuild(node, tuple([new[s] for s in node.src]))
    stores = [Store(s.node, as_node(sint.substitute(s.position, mapping)), new[s.value]) for s in only.stores]
    return Nest((*rest, whole), (Pass((), (), tuple(stores)),), nest.local)


def _merged(nest: Nest, a: UOp, b: UOp) -> Nest | None:
    """The nest with range b, the faster one, and a made one range, or None if some position does not allow it."""
    size = sint.extent(b)
    whole = sint.Range(b.arg[0], sint.mul(sint.extent(a), size))
    mapping: dict[UOp, Any] = {a: 0, b: whole}
    new: dict[UOp, UOp] = {}

    def moved(position: UOp) -> UOp:
        slow, fast = step_along(position, a), step_along(position, b)
        if slow is None or fast is None or slow != sint.mul(size, fast):
            raise _NotOne
        return as_node(sint.substitute(position, mapping))

    def rewritten(expression: UOp) -> UOp:
        for node in elements_of(expression):
            if node in new:
                continue
            if node is a or node is b:
                raise _NotOne  # an index that is computed with, as in iota or a condition
            if node.op is LOAD:
                at = moved(node.src[0])
                new[node] = make(LOAD, (at, *map(rewritten, node.src[1:])), node.arg, node.dtype, ())
            else:
                new[node] = rebuild(node, tuple([new[s] for s in node.src]))
        return new[expression]

    def changed(each: Pass) -> Pass:
        return Pass(
            _with(each.inner, a, b, whole),
            tuple([Reduce(r.node, r.op, rewritten(r.value)) for r in each.reductions]),
            tuple([Store(s.node, moved(s.position), rewritten(s.value)) for s in each.stores]),
            tuple(map(changed, each.passes)),
            tuple([running.changed(rewritten) for running in each.running]),
        )

    try:
        return Nest(_with(nest.outer, a, b, whole), tuple(map(changed, nest.passes)), nest.local)
    except _NotOne:
        return None


class _NotOne(Exception):
    """A position does not step through two ranges as through one."""


def _with(ranges: tuple[UOp, ...], a: UOp, b: UOp, whole: UOp) -> tuple[UOp, ...]:
    return tuple([whole if r is b else r for r in ranges if r is not a])


def step_along(position: UOp, r: UOp) -> int | None:
    """By how much a position grows when a range does by one, or None if that is not the same everywhere."""
    form = linear(position)
    if r not in form.other:
        return form.steps.get(r, 0)
    difference = sint.sub(sint.substitute(position, {r: sint.add(r, 1)}), position)
    return difference if isinstance(difference, int) else None


def elements_of(*expressions: UOp) -> list[UOp]:
    """The nodes of expressions, each after its sources, but none of the positions of loads."""
    loads: list[UOp] = []
    pending, seen = list(expressions), set(expressions)
    while pending:
        node = pending.pop()
        if node.op is LOAD:
            loads.append(node)
        else:
            for source in node.src:
                if source not in seen:
                    pending.append(source)
            seen.update(node.src)
    return [*loads, *toposort(expressions, stop=loads)]


def size_of(r: UOp) -> int:
    """The number of values of a range; of one of symbolic size (`sint.extent`) the most that there can be."""
    return sint.bounds(r)[1] + 1


def is_symbolic(r: UOp) -> bool:
    """Whether a range has a symbolic size."""
    return len(r.arg) > 3


def dimensions_of(nest: Nest, nodes: Iterable[UOp]) -> tuple[UOp, ...]:
    """The symbolic dimensions on which a nest depends, in its sizes or in the nodes of its expressions."""
    ranges = [*nest.outer, *[r for each in nest.every() for r in each.inner]]
    found = [node for node in nodes if node.op is sint.VARIABLE]
    found += sint.variables([r.arg[3] for r in ranges if is_symbolic(r)])
    return tuple([v for v in dict.fromkeys(found) if v not in ranges])
