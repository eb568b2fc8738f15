"""Group: which ops of a graph share a loop nest.

A kernel is a `Nest`: outer ranges, run in parallel, and for each point of them passes in order, each with inner ranges of its
own. A pass reduces and stores; a later pass reads a reduction's result as a scalar. An op joins the nest of what it reads if,
for a fixed point of the outer ranges, it reads only what that point produced. So softmax is one nest of three passes, and no
pattern for it exists. Ops that do not compile run between the nests, by their references.

The sinks, of which every nest has at least one, are the values that have to exist: outputs, operands of ops that do not
compile, reductions, and expensive elementwise values that are used more than once. All else is inlined into what uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..trace import dtype as dtypes
from ..trace import prims as p
from ..trace import scalar, sint
from ..trace.graph import Graph
from ..trace.uop import CONST, INPUT, UOp, input_node, make, rebuild, toposort
from .formulas import FORMULAS, cast
from .index import LOAD, RESULT, RULES, Elements, Index, as_node, load, position

# How the results of a reduction's elements are combined.
REDUCTIONS: dict[Any, scalar.ScalarOp] = {
    p.reduce_sum: scalar.ADD,
    p.reduce_prod: scalar.MUL,
    p.reduce_max: scalar.MAX,
    p.reduce_min: scalar.MIN,
    p.reduce_and: scalar.AND,
    p.reduce_or: scalar.OR,
}
_OF_BOOLS = {scalar.MAX: scalar.OR, scalar.MIN: scalar.AND}
# Elementwise values that take more than this many scalar ops are kept for their second use rather than computed again.
RECOMPUTE_LIMIT = 12
# A kernel with more scalar ops than this is cut: what it saves no longer pays for what LLVM takes to compile it.
LARGEST = 1000


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


class Pass(NamedTuple):
    """One loop over inner ranges (none: once for each point of the outer ones)."""

    inner: tuple[UOp, ...]
    reductions: tuple[Reduce, ...]
    stores: tuple[Store, ...]


class Nest(NamedTuple):
    """A kernel: for each point of the outer ranges, its passes in order. Local arrays live for one point."""

    outer: tuple[UOp, ...]
    passes: tuple[Pass, ...]
    local: frozenset[UOp]

    @property
    def stored(self) -> list[UOp]:
        """The arrays that the kernel writes to memory."""
        stores = [store.node for each in self.passes for store in each.stores]
        return [node for node in dict.fromkeys(stores) if node not in self.local]

    @property
    def loaded(self) -> list[UOp]:
        """The arrays that the kernel reads from memory, those that it writes and reads again included."""
        expressions = [r.value for each in self.passes for r in each.reductions]
        expressions += [e for each in self.passes for s in each.stores for e in (s.value, s.position)]
        arrays = [node.arg for node in toposort(expressions) if node.op is LOAD]
        return [node for node in dict.fromkeys(arrays) if node not in self.local]


class Host(NamedTuple):
    """An op that runs by its reference."""

    node: UOp


Step = Nest | Host


def compiles(node: UOp) -> bool:
    """Whether a node can be part of a nest: it has a rule, dtypes that are computed with, and elements."""
    if node.op is CONST:
        return True
    if node.op not in RULES and node.op not in REDUCTIONS:
        return False
    return all(
        not isinstance(n.dtype, tuple) and n.dtype in _COMPUTED and all(size != 0 for size in n.shape)
        for n in (node, *node.src)
    )


_COMPUTED = frozenset((dtypes.bool_, *dtypes.INTEGERS, *dtypes.FLOATS))


def sinks(graph: Graph) -> dict[UOp, int]:
    """The values that have to exist, in topological order, and about how many scalar ops each takes from the others on."""
    order = graph.nodes()
    wanted = set(graph.outputs)
    uses: dict[UOp, int] = {}
    for node in order:
        for source in dict.fromkeys(node.src):
            uses[source] = uses.get(source, 0) + 1
        if not compiles(node) and node.op is not INPUT:
            wanted.update(node.src)
            wanted.add(node)
    weight: dict[UOp, int] = {}
    for node in order:
        if node.op is INPUT or node.op is CONST or not compiles(node):
            weight[node] = 0
            continue
        weight[node] = _cost(node) + sum(weight[s] for s in dict.fromkeys(node.src) if s not in wanted)
        shared = uses.get(node, 0) > 1 and weight[node] > RECOMPUTE_LIMIT and node.op in FORMULAS
        if node.op in REDUCTIONS or shared or weight[node] > LARGEST // 2:
            wanted.add(node)
    return {node: weight[node] for node in order if node in wanted and node.op is not INPUT}


def _cost(node: UOp) -> int:
    """About how many scalar ops the formula of an elementwise op takes."""
    if node.op not in FORMULAS:
        return 0
    key = (node.op, node.arg, node.dtype, tuple([s.dtype for s in node.src]))
    if key not in _COSTS:
        elements = [input_node(s.dtype, ()) for s in node.src]
        _COSTS[key] = sum(n.op not in (CONST, INPUT) for n in toposort([FORMULAS[node.op](node, *elements)]))
    return _COSTS[key]


_COSTS: dict[Any, int] = {}


class _Group:
    """A nest that is being put together. While no reduction has joined, how many axes are outer is open."""

    def __init__(self, step: int):
        self.step = step
        self.cost = 0  # in scalar ops for an element
        self.members: list[UOp] = []
        self.shape: tuple[Any, ...] | None = None  # of the elementwise members, while the outer axes are open
        self.outer: tuple[Any, ...] | None = None

    def accepts(self, sink: UOp) -> tuple[Any, ...] | None:
        """The outer shape with which the sink fits, or None; () stands for itself, "open" for a choice to come."""
        if sink.op in REDUCTIONS:
            kept = sink.shape
            if self.outer is not None:
                return kept if kept == self.outer else None
            assert self.shape is not None
            source = sink.src[0].shape
            trailing = sorted(sink.params["axes"]) == list(range(len(kept), len(source)))
            fits = kept == self.shape or (trailing and source == self.shape)
            return kept if fits else None
        if self.outer is None:
            return ("open",) if sink.shape == self.shape else None
        return self.outer if sink.shape[: len(self.outer)] == self.outer else None


def group(graph: Graph) -> list[Step]:
    """The steps that compute the graph's outputs, in order."""
    chosen = sinks(graph)
    members = set(chosen)
    made_in: dict[UOp, int] = {}
    steps: list[_Group | Host] = []
    reads = _reads(graph, members)
    for sink, cost in chosen.items():
        if not compiles(sink):
            made_in[sink] = len(steps)
            steps.append(Host(sink))
            continue
        joined = None
        # A nest that makes what the sink reads, or the last one, with which it may share its loop.
        for at in sorted({made_in[r] for r in reads[sink]} | {len(steps) - 1}, reverse=True) if steps else ():
            candidate = steps[at]
            if isinstance(candidate, _Group) and candidate.cost + cost <= LARGEST:
                if _may_join(candidate, sink, reads[sink], made_in):
                    joined = candidate
                    break
        if joined is None:
            joined = _Group(len(steps))
            steps.append(joined)
            if sink.op in REDUCTIONS:
                joined.outer = sink.shape
            else:
                joined.shape = sink.shape
        joined.members.append(sink)
        joined.cost += cost
        made_in[sink] = joined.step
    outputs = set(graph.outputs)
    elsewhere = {r for sink in chosen for r in reads[sink] if made_in[r] != made_in[sink]}
    return [step if isinstance(step, Host) else _build(step, members, outputs | elsewhere) for step in steps]


def _reads(graph: Graph, members: set[UOp]) -> dict[UOp, set[UOp]]:
    """For each sink the sinks that it reads, directly or through what is inlined."""
    through: dict[UOp, set[UOp]] = {}
    result: dict[UOp, set[UOp]] = {}
    for node in graph.nodes():
        found: set[UOp] = set()
        for source in node.src:
            found |= {source} if source in members else through[source]
        if node in members:
            result[node] = found
        through[node] = found
    return result


def _may_join(candidate: _Group, sink: UOp, reads: set[UOp], made_in: dict[UOp, int]) -> bool:
    # What it reads must be there before the nest runs, or be made within it.
    if any(made_in[r] > candidate.step for r in reads):
        return False
    outer = candidate.accepts(sink)
    if outer is None:
        return False
    inside = {r for r in reads if made_in[r] == candidate.step}
    fixed = None if outer == ("open",) else outer
    if not _reads_its_own_point(sink, inside, candidate.shape if fixed is None else fixed, fixed is None):
        return False
    if fixed is not None and candidate.outer is None:
        candidate.outer = fixed
    return True


def _ranges(prefix: str, shape: Sequence[Any]) -> tuple[Any, ...]:
    """A range for each axis; axes of size 1 have only the index 0."""
    return tuple([0 if n == 1 else sint.Variable(f"{prefix}{i}", 0, n - 1) for i, n in enumerate(shape)])


def _spaces(sink: UOp, outer: Sequence[Any]) -> tuple[UOp, Index, Index]:
    """What is computed for each element of a sink, its index, and the inner part of that, under these outer axes."""
    o = _ranges("o", outer)
    if sink.op not in REDUCTIONS:
        inner = _ranges("i", sink.shape[len(outer) :])
        return sink, (*o, *inner), inner
    source, axes = sink.src[0], sorted(sink.params["axes"])
    inner = _ranges("i", [source.shape[a] for a in axes])
    kept, reduced = iter(o), iter(inner)
    return (
        source,
        tuple([next(reduced) if a in axes else next(kept) for a in range(len(source.shape))]),
        inner,
    )


def _reads_its_own_point(sink: UOp, inside: set[UOp], outer: Sequence[Any] | None, whole: bool) -> bool:
    """Whether all that a sink reads of `inside` was made at the same point of the outer ranges (`whole`: of all ranges)."""
    assert outer is not None
    node, index, _ = _spaces(sink, outer)
    point = index if whole else _ranges("o", outer)
    right = True

    def read(current: UOp, at: Index) -> UOp | None:
        nonlocal right
        if current in inside:
            right = right and at[: len(point)] == point
            return result(current)
        return None if current.op in RULES else result(current)

    if inside:
        Elements(read).at(node, index)
    return right


def result(node: UOp) -> UOp:
    """The scalar that stands for a reduction's result at the point of the outer ranges."""
    return make(RESULT, (), node, node.dtype, ())


class _Reader:
    """What a sink reads: elements in memory, results of reductions and rows of earlier passes of its own nest."""

    def __init__(
        self, sink: UOp, outer: Sequence[Any], group: set[UOp], materialized: set[UOp], memory: set[UOp]
    ):
        self.sink, self.outer = sink, outer
        self.group, self.materialized, self.memory = group, materialized, memory
        self.node, self.index, self.inner = _spaces(sink, outer)

    def level(self, levels: dict[UOp, int]) -> int:
        """The first pass in which everything that the sink reads of its own nest is there."""
        level = 0

        def read(current: UOp, at: Index) -> UOp | None:
            nonlocal level
            if current in self.group and current is not self.sink:
                same_element = current.op not in REDUCTIONS and at == _spaces(current, self.outer)[1]
                level = max(level, levels[current] + (0 if same_element else 1))
                return result(current)
            return self._outside(current, at)

        Elements(read).at(self.node, self.index)
        return level

    def value(self, levels: dict[UOp, int], local: set[UOp]) -> UOp:
        """The element of the sink, or of what it reduces; what has to be kept for it becomes local."""

        def read(current: UOp, at: Index) -> UOp | None:
            if current not in self.group or current is self.sink:
                return self._outside(current, at)
            if current.op in REDUCTIONS:
                return result(current)
            if levels[current] == levels[self.sink]:
                return None
            if current in self.memory:
                return load(current, at)
            local.add(current)
            return load_local(current, at, len(self.outer))

        return Elements(read).at(self.node, self.index)

    def _outside(self, current: UOp, at: Index) -> UOp | None:
        from_memory = current.op is INPUT or (current in self.materialized and current is not self.sink)
        return load(current, at) if from_memory else None


def load_local(array: UOp, at: Index, outer: int) -> UOp:
    """An element of an array that is kept for one point of the outer ranges: its position is within the row."""
    return make(LOAD, (as_node(position(array.shape[outer:], at[outer:])),), array, array.dtype, ())


def _build(group: _Group, materialized: set[UOp], needed: set[UOp]) -> Nest:
    """The nest of a group; `needed` are the values that others read."""
    outer = group.outer
    if outer is None:
        # Nothing but elementwise work: rows over the last axis.
        assert group.shape is not None
        outer = group.shape[:-1]
    members, memory = set(group.members), needed.intersection(group.members)
    levels: dict[UOp, int] = {}
    local: set[UOp] = set()
    values: dict[UOp, tuple[_Reader, UOp]] = {}
    for sink in group.members:
        reader = _Reader(sink, outer, members, materialized, memory)
        levels[sink] = reader.level(levels)
        values[sink] = reader, reader.value(levels, local)
    passes: dict[tuple[int, Index], tuple[list[Reduce], list[Store]]] = {}
    point = _ranges("o", outer)
    for sink, (reader, value) in values.items():
        reductions, stores = passes.setdefault((levels[sink], reader.inner), ([], []))
        if sink.op in REDUCTIONS:
            wide = sink.dtype if sink.dtype is dtypes.bool_ else dtypes.accumulator(sink.dtype)
            op = REDUCTIONS[sink.op]
            op = _OF_BOOLS.get(op, op) if sink.dtype is dtypes.bool_ else op
            reductions.append(Reduce(sink, op, cast(value, wide)))
            if sink in memory:
                row = passes.setdefault((levels[sink] + 1, ()), ([], []))
                row[1].append(Store(sink, as_node(position(sink.shape, point)), result(sink)))
        elif sink in local:
            stores.append(Store(sink, as_node(position(sink.shape[len(outer) :], reader.inner)), value))
        elif sink in memory:
            stores.append(Store(sink, as_node(position(sink.shape, reader.index)), value))
    ordered = sorted(passes.items(), key=lambda item: item[0][0])
    made = [
        Pass(_only_ranges(inner), tuple(reductions), tuple(stores))
        for (_, inner), (reductions, stores) in ordered
        if reductions or stores
    ]
    return merge_ranges(Nest(_only_ranges(point), tuple(made), frozenset(local)))


def _only_ranges(index: Index) -> tuple[UOp, ...]:
    """The ranges of an index, without the zeros of axes of size 1."""
    return tuple([i for i in index if isinstance(i, UOp)])


def merge_ranges(nest: Nest) -> Nest:
    """The nest with neighbouring ranges that every position steps through as through one made one.

    A nest without reductions becomes a single outer range over all elements, if its arrays are walked in order."""
    if all(not each.reductions for each in nest.passes) and len(nest.passes) == 1:
        # Nothing holds inner ranges apart from outer ones.
        (only,) = nest.passes
        nest = Nest((*nest.outer, *only.inner), (Pass((), (), only.stores),), nest.local)
    for group in ("outer", *range(len(nest.passes))):
        at = 0
        while at + 1 < len(ranges := nest.outer if group == "outer" else nest.passes[group].inner):
            merged = _merged(nest, ranges[at], ranges[at + 1])
            if merged is None:
                at += 1
            else:
                nest = merged
    return nest


def _merged(nest: Nest, a: UOp, b: UOp) -> Nest | None:
    """The nest with range b, the faster one, and a made one range, or None if some position does not allow it."""
    size = size_of(b)
    whole = sint.Variable(f"{b.arg[0]}", 0, size_of(a) * size - 1)
    mapping: dict[UOp, Any] = {a: 0, b: whole}

    def moved(position: UOp) -> UOp | None:
        slow, fast = step_along(position, a), step_along(position, b)
        if slow is None or fast is None or slow != size * fast:
            return None
        return as_node(sint.substitute(position, mapping))

    def rewritten(expression: UOp) -> UOp | None:
        new: dict[UOp, UOp] = {}
        for node in elements_of(expression):
            if node is a or node is b:
                return None  # an index that is computed with, as in iota
            if node.op is LOAD:
                at = moved(node.src[0])
                if at is None:
                    return None
                new[node] = make(LOAD, (at,), node.arg, node.dtype, ())
            else:
                new[node] = rebuild(node, tuple([new[s] for s in node.src]))
        return new[expression]

    passes = []
    for each in nest.passes:
        reductions = [
            Reduce(r.node, r.op, value) for r in each.reductions if (value := rewritten(r.value)) is not None
        ]
        stores = [
            Store(s.node, at, value)
            for s in each.stores
            if (at := moved(s.position)) is not None and (value := rewritten(s.value)) is not None
        ]
        if len(reductions) < len(each.reductions) or len(stores) < len(each.stores):
            return None
        passes.append(Pass(_with(each.inner, a, b, whole), tuple(reductions), tuple(stores)))
    return Nest(_with(nest.outer, a, b, whole), tuple(passes), nest.local)


def _with(ranges: tuple[UOp, ...], a: UOp, b: UOp, whole: UOp) -> tuple[UOp, ...]:
    return tuple([whole if r is b else r for r in ranges if r is not a])


def step_along(position: UOp, r: UOp) -> int | None:
    """By how much a position grows when a range does by one, or None if that is not the same everywhere."""
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
            pending += [n for n in node.src if n not in seen]
            seen.update(node.src)
    return [*loads, *toposort(expressions, stop=loads)]


def size_of(r: UOp) -> int:
    """The number of values of a range."""
    return sint.bounds(r)[1] + 1
