"""Estimates of a kernel's work, counted from its nests: operations, bytes loaded and stored, bytes of distinct memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..trace import dtype as dtypes
from ..trace import scalar, sint
from ..trace.sint import Dimension
from ..trace.uop import CONST, UOp, toposort
from .index import LOAD, RESULT
from .nest import Host, Kernel, Nest, Pass, elements_of, step_along

# Operations per scalar op, where it is not one.
_WEIGHTS = {scalar.FMA: 2, scalar.CAST: 0, scalar.BITCAST: 0}


def weight(node: UOp) -> int:
    """How many operations a node is. A negation is none, so that a subtraction, x + y*-1, is one."""
    if node.op is scalar.MUL and node.src[1].op is CONST and node.src[1].value == -1:
        return 0
    return _WEIGHTS.get(node.op, 1)


class Estimates(NamedTuple):
    """What a kernel does, as its loops are written; numbers may depend on symbolic dimensions.

    `ops`: arithmetic, comparisons and selections (an FMA counts 2; casts, negations and index arithmetic 0). What does not
    depend on a loop's range, nor on those inside it, is counted once for that loop. The factors of a contraction are computed
    once for each index of their own.
    `lds`: bytes loaded and stored, each access counted, row arrays of one point included. What tiles and packed panels save
    is not known here.
    `mem`: bytes of distinct memory read, and of distinct memory written.

    >>> n = tinyfn.Variable("n", 1, 1000)
    >>> lowered = tinyfn.jit(lambda x: 3 * x + 1).lower(tinyfn.ShapeDtypeStruct((n,), "float32"))
    >>> lowered.estimates.simplify()
    Estimates(ops=2*n, lds=8*n, mem=8*n)
    >>> lowered.estimates.at({n: 10})
    Estimates(ops=20, lds=80, mem=80)
    """

    ops: Dimension = 0
    lds: Dimension = 0
    mem: Dimension = 0

    def __add__(self, other: Estimates) -> Estimates:  # type: ignore[override]
        return Estimates(*[sint.add(a, b) for a, b in zip(self, other, strict=True)])

    def simplify(self) -> Estimates:
        """The same with symbolic expressions in canonical form."""
        return Estimates(*[sint.substitute(value, {}) for value in self])

    def at(self, sizes: Mapping[UOp, int]) -> Estimates:
        """The numbers for given values of the symbolic dimensions."""
        return Estimates(*[sint.evaluate(value, sizes) for value in self])


Region = tuple[UOp, str]  # an array, and "read" or "written"


def estimate(kernel: Kernel) -> Estimates:
    """What a kernel does."""
    ops: Dimension = 0
    lds: Dimension = 0
    touched: dict[Region, dict[Any, Dimension]] = {}
    for nest in (*kernel.parts, *kernel.finish):
        ops = sint.add(ops, _operations(nest))
        for access in _accesses(nest):
            lds = sint.add(lds, sint.mul(access.times, access.array.dtype.itemsize))
            if access.array not in nest.local:
                touched.setdefault((access.array, access.direction), {})[access.key] = access.distinct
    mem: Dimension = 0
    for (array, _), regions in touched.items():
        elements = _least(_sum(regions.values()), sint.prod(array.shape))
        mem = sint.add(mem, sint.mul(elements, array.dtype.itemsize))
    return Estimates(ops, lds, mem)


def estimate_host(step: Host) -> Estimates:
    """The memory of an op that runs by its reference: all of its operands and results; its operations are not known."""
    node = step.node
    involved = [node, *[source for source in dict.fromkeys(node.src) if source.op is not CONST]]
    arrays = [
        array
        for each in involved
        for array in (
            zip(each.dtype, each.shape, strict=True)
            if isinstance(each.dtype, tuple)
            else [(each.dtype, each.shape)]
        )
    ]
    size = _sum(sint.mul(sint.prod(shape), dtype.itemsize) for dtype, shape in arrays)
    return Estimates(0, size, size)


def loops(nest: Nest) -> Iterator[tuple[tuple[UOp, ...], Pass]]:
    """Each pass with the ranges of the loops that it is in, from the outermost to its own."""

    def within(each: Pass, around: tuple[UOp, ...]) -> Iterator[tuple[tuple[UOp, ...], Pass]]:
        ranges = (*around, *each.inner)
        for inside in each.passes:
            yield from within(inside, ranges)
        yield ranges, each

    for each in nest.passes:
        yield from within(each, nest.outer)


def _sum(values: Iterable[Dimension]) -> Dimension:
    total: Dimension = 0
    for value in values:
        total = sint.add(total, value)
    return total


def _points(ranges: Iterable[UOp]) -> Dimension:
    return sint.prod([sint.extent(r) for r in ranges])


def _least(a: Dimension, b: Dimension) -> Dimension:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else sint.minimum(a, b)


# Operations


def _operations(nest: Nest) -> Dimension:
    total: Dimension = 0
    known: set[UOp] = set()  # what was computed before the loops of a pass
    depths = _result_depths(nest)
    for ranges, each in loops(nest):
        factors = _factors(nest, each)
        values = each.values
        combined = len(each.reductions) + sum(len(running.terms) for running in each.running)
        total = sint.add(total, sint.mul(combined, _points(ranges)))
        nodes = elements_of(*values)
        index = _index_arithmetic(nodes)
        depth: dict[UOp, int] = {}
        for node in nodes:
            depth[node] = _depth(node, ranges, nest, depths, depth)
            if not isinstance(node.op, scalar.ScalarOp) or node in index or node in known:
                continue
            if depth[node] <= len(nest.outer):
                known.add(node)
            around = factors[node] if node in factors else ranges[: depth[node]]
            total = sint.add(total, sint.mul(weight(node), _points(around)))
    return total


def _result_depths(nest: Nest) -> dict[UOp, int]:
    """For each reduction the number of loops round it, of which each point has a result of its own."""
    depths = {r.node: len(ranges) - len(each.inner) for ranges, each in loops(nest) for r in each.reductions}
    return depths | {r.node: len(ranges) for ranges, each in loops(nest) for r in each.running}


def _depth(
    node: UOp, ranges: Sequence[UOp], nest: Nest, results: Mapping[UOp, int], known: Mapping[UOp, int]
) -> int:
    """How many loops a value is in, if it is computed as far outside as it can be."""
    if node.op is RESULT:
        return results.get(node.arg, 0)
    if node.op is LOAD:
        # A local array belongs to one point of the outer ranges.
        return max(_innermost(node, ranges), len(nest.outer) if node.arg in nest.local else 0)
    if node in ranges:
        return list(ranges).index(node) + 1
    return max([known[s] for s in node.src], default=0)


def _innermost(node: UOp, ranges: Sequence[UOp]) -> int:
    """One more than the place of the innermost of the ranges that an expression depends on."""
    found = set(sint.variables([node]))
    return max([i + 1 for i, r in enumerate(ranges) if r in found], default=0)


def _index_arithmetic(nodes: Iterable[UOp]) -> set[UOp]:
    """Those of the nodes, given in topological order, that compute an index from ranges and constants alone."""
    found: set[UOp] = set()
    for node in nodes:
        if node.dtype is not dtypes.int64 or node.op in (LOAD, RESULT, CONST, scalar.CAST):
            continue
        if all(s in found or s.op is CONST for s in node.src):
            found.add(node)
    return found


def _factors(nest: Nest, each: Pass) -> dict[UOp, tuple[UOp, ...]]:
    """For the nodes of a contraction's factors the ranges that their factor depends on; nothing for another pass."""
    if len(each.reductions) != 1 or each.stores or each.reductions[0].op is not scalar.ADD:
        return {}
    product = each.reductions[0].value
    if product.op is not scalar.MUL:
        return {}
    ranges = (*nest.outer, *each.inner)
    found = [set(sint.variables([factor])) for factor in product.src]
    if not (found[0] - found[1] and found[1] - found[0]):
        return {}
    return {
        node: tuple([r for r in ranges if r in mine])
        for factor, mine in zip(product.src, found, strict=True)
        for node in elements_of(factor)
    }


# Memory


class _Access(NamedTuple):
    """Loads or stores of an array by one expression: how many there are, at how many distinct positions, and `key`, which is
    equal for two accesses that are known to have the same positions."""

    array: UOp
    direction: str
    times: Dimension
    distinct: Dimension
    key: Any


def _accesses(nest: Nest) -> Iterator[_Access]:
    known: set[UOp] = set()
    for ranges, each in loops(nest):
        values = each.values + [store.position for store in each.stores]
        for node in toposort(values):
            if node.op is not LOAD or node in known:
                continue
            depth = _innermost(node, ranges)
            if depth <= len(nest.outer) and node.arg not in nest.local:
                known.add(node)
            if node.arg in nest.local:
                depth = max(depth, len(nest.outer))
            yield _access(node.arg, "read", node.src[0], ranges[:depth], conditional=len(node.src) > 1)
        for store in each.stores:
            yield _access(store.node, "written", store.position, ranges, conditional=False)


def _access(array: UOp, direction: str, position: UOp, ranges: Sequence[UOp], conditional: bool) -> _Access:
    count, size = _points(ranges), sint.prod(array.shape)
    distinct, key = _positions(position, ranges)
    if not conditional:
        return _Access(array, direction, count, _least(distinct, size), key)
    # Where the condition does not hold nothing is read: the share of the positions that lie within the array.
    if isinstance(distinct, int) and isinstance(size, int) and isinstance(count, int) and distinct > size:
        count = count * size // distinct
    return _Access(array, direction, count, _least(distinct, size), (key, "conditional"))


def _positions(position: UOp, ranges: Sequence[UOp]) -> tuple[Dimension, Any]:
    """The number of distinct values of a position, or a bound of it, and what is equal for positions of equal values."""
    used = set(sint.variables([position]))
    moving = [r for r in ranges if r in used]
    most = _points(moving)
    low, high = sint.bounds(position)
    steps = [(step_along(position, r), sint.extent(r)) for r in moving]
    known = [(abs(step), size) for step, size in steps if isinstance(step, int) and isinstance(size, int)]
    if len(known) < len(steps):
        return (min(most, high - low + 1) if isinstance(most, int) else most), position
    return _combinations(known), (
        low,
        tuple(sorted(steps, key=repr)),
    )


def _combinations(steps: Iterable[tuple[int, int]]) -> int:
    """How many values a sum of terms has, each a step times 0, 1, ..., size - 1; a bound of it where terms overlap."""
    spans: dict[int, int] = {}
    for step, size in steps:
        if step:  # windows: ranges with the same step are one that is longer
            spans[step] = spans.get(step, 0) + size - 1
    total, reach = 1, 0
    for step in sorted(spans):
        if step > reach:
            total *= spans[step] + 1
        else:
            total = min(total * (spans[step] + 1), reach + step * spans[step] + 1)
        reach += step * spans[step]
    return total
