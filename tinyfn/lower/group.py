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
from typing import Any

from ..trace import dtype as dtypes
from ..trace import prims as p
from ..trace import scalar, sint
from ..trace.debug import stage
from ..trace.graph import Graph
from ..trace.uop import CONST, INPUT, UOp, input_node, make, toposort
from .formulas import FORMULAS, cast
from .index import LOAD, RULES, Elements, Index, as_node, load, position
from .nest import Host, Kernel, Nest, Pass, Reduce, Step, Store, merge_ranges, only_ranges, result

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


@stage("group")
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
    return [
        step if isinstance(step, Host) else Kernel((_build(step, members, outputs | elsewhere),))
        for step in steps
    ]


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
        Pass(only_ranges(inner), tuple(reductions), tuple(stores))
        for (_, inner), (reductions, stores) in ordered
        if reductions or stores
    ]
    return merge_ranges(Nest(only_ranges(point), tuple(made), frozenset(local)))
