"""What each stage's output may consist of, checked: the graph, the steps that it is grouped into, nests, and code.

A stage's spec is a table from ops to what a node of that op must satisfy; an op that is not in it is illegal. The checks cost
about half of what grouping does. With TINYFN_VERIFY=1 in the environment, as in the tests, every program is checked while it is
compiled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..trace import dtype as dtypes
from ..trace import prims as p
from ..trace import scalar, sint
from ..trace.graph import Graph
from ..trace.prim import Primitive
from ..trace.sint import Dimension
from ..trace.uop import CONST, INPUT, UOp, toposort
from .index import LOAD, RESULT
from .nest import Host, Kernel, Nest, Pass, Step, Store, is_symbolic, size_of

# Positions are compared one by one where a nest has at most so many; otherwise by their steps.
ENUMERATED = 1 << 12
# What combines the elements of a reduction: in any order, from an identity.
COMBINE = frozenset((scalar.ADD, scalar.MUL, scalar.MAX, scalar.MIN, scalar.AND, scalar.OR))
# What is computed with; other dtypes are only stored, cast and selected, by references.
COMPUTED = frozenset((dtypes.bool_, *dtypes.INTEGERS, *dtypes.FLOATS, dtypes.key))


class SpecError(Exception):
    """A stage made what the next one does not take: a bug of the compiler. The message says which stage, what, and where."""

    def __init__(self, stage: str, what: str):
        super().__init__(f"{stage}: {what}")


# The graph, after simplification


def verify_graph(graph: Graph) -> None:
    """Check a graph that is about to be grouped: primitives on inputs and scalar constants, with the dtypes and shapes of their
    rules, and no calls."""
    try:
        graph.check()
    except TypeError as error:
        raise SpecError("graph", str(error)) from None
    for node in graph.nodes():
        if node.op is CONST and node.shape != ():
            raise SpecError("graph", f"constant {node!r} is no scalar")
        if isinstance(node.op, Primitive) and node.op.name == "call":
            raise SpecError("graph", f"{node!r} is a call, which should have been inlined")


def verify(graph: Graph, steps: Sequence[Step]) -> None:
    """Check a graph and what it was grouped into; raises SpecError."""
    verify_graph(graph)
    verify_steps(graph, steps)


# Steps


def verify_steps(graph: Graph, steps: Sequence[Step]) -> None:
    """Check what a graph was grouped into: every array is made before it is read, once, and all outputs are made.

    The pieces of a concatenation may be made by several steps, all of which come before it is read."""
    made: dict[UOp, int] = dict.fromkeys(graph.inputs, -1)
    read: dict[UOp, int] = {}

    def reads(arrays: Iterable[UOp], number: int) -> None:
        for array in arrays:
            if array not in made and array.op is not CONST:
                raise SpecError("steps", f"step {number} reads {array!r}, which no step before it makes")
            read.setdefault(array, number)

    def makes(array: UOp, number: int) -> None:
        if array.op is p.concatenate and array in read:
            raise SpecError(
                "steps", f"step {number} makes a piece of {array!r}, which step {read[array]} has read"
            )
        if made.setdefault(array, number) != number and array.op is not p.concatenate:
            raise SpecError("steps", f"step {number} makes {array!r}, which step {made[array]} has made")

    for number, step in enumerate(steps):
        if isinstance(step, Kernel):
            verify_kernel(step)
            nests = (*step.parts, *step.finish)
            own = {array for nest in nests for array in nest.stored}
            reads([array for nest in nests for array in nest.loaded if array not in own], number)
            for array in own:
                makes(array, number)
        elif isinstance(step, Host):
            reads(step.node.src, number)
            makes(step.node, number)
        else:  # a value that is another one's memory in another shape
            reads((step.source,), number)
            makes(step.node, number)
    reads(graph.outputs, len(steps))


def verify_kernel(kernel: Kernel) -> None:
    """Check a kernel: its nests, and that parts are independent of each other."""
    if not kernel.parts:
        raise SpecError("kernel", "it has no parts")
    for nest in (*kernel.parts, *kernel.finish):
        verify_nest(nest)
    written: dict[UOp, list[int]] = {}
    for i, nest in enumerate(kernel.parts):
        for array in nest.stored:
            written.setdefault(array, []).append(i)
    for i, nest in enumerate(kernel.parts):
        for array in nest.loaded:
            if any(other != i for other in written.get(array, ())):
                raise SpecError("kernel", f"part {i} reads {array!r}, which another part writes")
    for array, numbers in written.items():
        if len(numbers) > 1:
            _disjoint(array, [(f"part {i}", kernel.parts[i]) for i in numbers])


def _disjoint(array: UOp, parts: Sequence[tuple[str, Nest]]) -> None:
    """Check that parts that write one array write different elements of it."""
    taken: list[tuple[int, int, str]] = []
    for name, nest in parts:
        bounds = [sint.bounds(s.position) for each in nest.every() for s in each.stores if s.node is array]
        low, high = min(b[0] for b in bounds), max(b[1] for b in bounds)
        for other_low, other_high, other in taken:
            if (
                low <= other_high
                and other_low <= high
                and not _interleaved(array, dict(parts)[name], dict(parts)[other])
            ):
                raise SpecError("kernel", f"{name} and {other} write the same elements of {array!r}")
        taken.append((low, high, name))


def _interleaved(array: UOp, a: Nest, b: Nest) -> bool:
    """Whether two nests that write the same stretch of an array are known to write different elements (or too many to see)."""
    first, second = _written(a, array), _written(b, array)
    return first is None or second is None or not np.intersect1d(first, second).size


# Nests


class _Scope(NamedTuple):
    """Where an expression of a nest stands."""

    nest: Nest
    ranges: tuple[UOp, ...]  # of the loops that it is in
    results: Mapping[UOp, Any]  # the reductions whose results are there
    written: Mapping[UOp, Dimension]  # the local arrays that are there, and their elements
    settings: Sequence[Mapping[UOp, int]]  # sizes of symbolic dimensions for which positions are checked

    def outside(self, position: UOp, size: Dimension) -> str | None:
        """Where a position may be if that is not within an array of a size."""
        for sizes in self.settings:
            elements = sint.evaluate(size, sizes)
            low, high = sint.bounds(_at_sizes(position, self.ranges, sizes) if sizes else position)
            if low < 0 or high >= elements:
                where = "".join(f", {n!r} being {value}" for n, value in sizes.items())
                return f"{position!r} in [{low}, {high}], which has {elements} elements{where}"
        return None

    def wrong(self, what: str) -> SpecError:
        loops = ", ".join(f"{r.arg[0]} < {sint.extent(r)}" for r in self.ranges)
        return SpecError("nest", f"{what} (in the loops {loops or 'of none'})")


def verify_nest(nest: Nest) -> None:
    """Check a nest: legal ops and dtypes, ranges and results that are there where they are used, positions within arrays, stores
    of different points at different positions, and local arrays written before they are read."""
    _verify_ranges(nest.outer, ())
    results: dict[UOp, int] = {}
    written: dict[UOp, Dimension] = {}
    settings = _settings(nest)
    for each in nest.passes:
        _verify_pass(each, nest, nest.outer, results, written, settings)
    for array in nest.stored:
        if array.op is INPUT:
            raise SpecError("nest", f"it writes the argument {array!r}")
        _verify_own_elements(nest, array)
    if not nest.stored:
        raise SpecError("nest", "it stores nothing")
    for array in nest.local:
        if array not in written:
            raise SpecError("nest", f"nothing writes its local array {array!r}")


def _settings(nest: Nest) -> list[dict[UOp, int]]:
    """Sizes for the symbolic dimensions of a nest: the least, the greatest and middle ones at which no loop is empty."""
    ranges = [*nest.outer, *[r for each in nest.every() for r in each.inner]]
    shapes = [n for array in (*nest.stored, *nest.loaded) for n in array.shape]
    symbolic = [n for n in (*map(sint.extent, ranges), *shapes) if isinstance(n, UOp)]
    if not symbolic:
        return [{}]
    found = [(n, *sint.bounds(n)) for n in sint.variables(symbolic)]
    every = [{n: low + (high - low) * share // 2 for n, low, high in found} for share in range(3)]
    return [sizes for sizes in every if all(sint.evaluate(n, sizes) > 0 for n in symbolic)]


def _at_sizes(position: UOp, ranges: Sequence[UOp], sizes: Mapping[UOp, int]) -> Dimension:
    """A position for sizes of symbolic dimensions, its ranges then having the bounds that they have."""
    new: dict[UOp, Dimension] = dict(sizes)
    for r in ranges:
        if is_symbolic(r):
            new[r] = sint.Range(r.arg[0], sint.evaluate(sint.extent(r), sizes))
    return sint.substitute(position, new)


def _verify_ranges(ranges: Sequence[UOp], around: Sequence[UOp]) -> None:
    for i, r in enumerate(ranges):
        if r.op is not sint.VARIABLE or sint.bounds(r)[0] != 0:
            raise SpecError("nest", f"{r!r} is no range from 0")
        if r in (*around, *ranges[:i]):
            raise SpecError("nest", f"the range {r!r} is that of two loops, one inside the other")


def _verify_pass(
    each: Pass,
    nest: Nest,
    around: tuple[UOp, ...],
    results: dict[UOp, int],
    written: dict[UOp, Dimension],
    settings: Sequence[Mapping[UOp, int]],
) -> None:
    _verify_ranges(each.inner, around)
    ranges = (*around, *each.inner)
    inside = dict(results)  # results of passes inside belong to one point
    for one in each.passes:
        _verify_pass(one, nest, ranges, inside, written, settings)
    before = _Scope(nest, ranges, dict(inside), written, settings)
    _verify_running(each, before)
    inside |= dict.fromkeys([r.node for r in each.running], 1)
    scope = _Scope(nest, ranges, inside, written, settings)
    own: dict[UOp, Dimension] = {}
    for store in each.stores:
        if store.node in nest.local and len(ranges) >= len(nest.outer):
            size = sint.prod(map(sint.extent, each.inner))
            if own.setdefault(store.node, size) != size or store.node in written:
                raise scope.wrong(f"two passes write the local array {store.node!r}")
    for store in each.stores:
        _verify_expression([store.position], scope, index=True)
        _verify_expression([store.value], scope)
        _verify_store(store, each, scope, own)
    for r in each.reductions:
        _verify_expression([r.value], scope)
        if r.op not in COMBINE:
            raise scope.wrong(f"{r.op!r} does not combine the elements of a reduction")
        wide = dtypes.bool_ if r.node.dtype is dtypes.bool_ else dtypes.accumulator(r.node.dtype)
        if r.value.dtype is not wide:
            raise scope.wrong(f"the sum of {r.node!r} is kept as {r.value.dtype}, not as {wide}")
        if r.node in inside:
            raise scope.wrong(f"{r.node!r} is reduced twice")
    written.update(own)
    for r in each.reductions:
        results[r.node] = 1


def _verify_running(each: Pass, scope: _Scope) -> None:
    if each.running and (len(each.inner) != 1 or each.passes or each.reductions):
        raise scope.wrong("running values go along one range of an innermost pass, which reduces nothing")
    for r in each.running:
        _verify_expression(r.terms, scope)
        if r.op not in COMBINE or (r.factor is not None and r.op is not scalar.ADD):
            raise scope.wrong(f"{r.op!r} does not combine the elements of a running value")
        wide = dtypes.accumulator(r.node.dtype)
        if any(term.dtype is not wide for term in r.terms):
            raise scope.wrong(f"the running value of {r.node!r} is kept as {r.value.dtype}, not as {wide}")
        if r.node in scope.results:
            raise scope.wrong(f"{r.node!r} is made twice")


def _size(ranges: Iterable[UOp]) -> int:
    size = 1
    for r in ranges:
        size *= size_of(r)
    return size


def _verify_store(store: Store, each: Pass, scope: _Scope, own: Mapping[UOp, Dimension]) -> None:
    local = store.node in scope.nest.local
    if store.value.dtype is not store.node.dtype:
        raise scope.wrong(f"a {store.value.dtype} is stored in {store.node!r}")
    outside = scope.outside(store.position, own[store.node] if local else sint.prod(store.node.shape))
    if outside is not None:
        raise scope.wrong(f"{store.node!r} is stored at {outside}")
    moving = each.inner if local else scope.ranges
    if each.is_ordered:  # of one point the last store wins
        moving = () if local else scope.ranges[: len(scope.ranges) - len(each.inner)]
    positions = _values(store.position, moving)
    if positions is None:
        used = set(sint.variables([store.position]))
        repeated = [r for r in moving if size_of(r) > 1 and r not in used]
        if repeated:
            raise scope.wrong(
                f"{store.node!r} is stored at the same position for all values of {repeated[0]!r}"
            )
    elif not np.all(
        np.diff(np.sort(positions, axis=None))
    ):  # np.unique imports on demand, which a fork may find half done
        raise scope.wrong(
            f"points of the loops store {store.node!r} at the same positions, {store.position!r}"
        )


def _values(position: UOp, ranges: Sequence[UOp]) -> np.ndarray | None:
    """All values of a position for the points of ranges, in order; None if there are too many, or it depends on data."""
    sizes = [size_of(r) for r in ranges]
    used = toposort([position])
    if _size(ranges) > ENUMERATED or any(node.op in (LOAD, RESULT) for node in used):
        return None
    grids = np.meshgrid(*[np.arange(n) for n in sizes], indexing="ij") if ranges else []
    bindings: dict[UOp, Any] = {r: grid.reshape(-1) for r, grid in zip(ranges, grids, strict=True)}
    if any(node.op is sint.VARIABLE and node not in bindings for node in used):
        return None
    (values,) = scalar.evaluate([position], bindings)
    return np.broadcast_to(values, (_size(ranges),))


def _written(nest: Nest, array: UOp) -> np.ndarray | None:
    """The positions of an array that a nest writes, or None if they are too many to see."""
    found = []
    for ranges, each in _loops(nest):
        for store in each.stores:
            if store.node is array:
                positions = _values(store.position, ranges)
                if positions is None:
                    return None
                found.append(positions)
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _loops(nest: Nest) -> list[tuple[tuple[UOp, ...], Pass]]:
    from .estimates import loops

    return list(loops(nest))


def _verify_own_elements(nest: Nest, array: UOp) -> None:
    """Check the positions of an array in memory that a nest writes: by different stores different ones, and it reads only what
    the same point of the outer ranges has written in a pass before, or in the same one if that is ordered, which may also write
    an element again."""
    writer: dict[int, int] = {}  # position: the point that wrote it
    points = _size(nest.outer)
    for ranges, each in _loops(nest):
        new: dict[int, int] = {}
        first: dict[int, int] = {}  # position: the first point of all ranges that writes it in this pass
        for store in each.stores:
            if store.node is array:
                positions = _values(store.position, ranges)
                if positions is None:
                    return
                for at, position in enumerate(positions.tolist()):
                    point = at * points // positions.size
                    before = new.get(position, writer.get(position))
                    if before is not None and not (each.is_ordered and before == point):
                        raise SpecError("nest", f"it writes element {position} of {array!r} twice")
                    new[position] = point
                    first[position] = min(at, first.get(position, at))
        for node in toposort(each.values):
            if node.op is LOAD and node.arg is array:
                positions = _values(node.src[0], ranges)
                if positions is None:
                    return
                held = np.ones(positions.shape, bool)
                if len(node.src) > 1:
                    condition = _values(node.src[1], ranges)
                    if condition is None:
                        return
                    held = condition.astype(bool)
                for at in np.flatnonzero(held).tolist():
                    position, point = int(positions[at]), at * points // positions.size
                    earlier = new.get(position) == point and first[position] < at
                    if writer.get(position) != point and not earlier:
                        raise SpecError(
                            "nest", f"it reads {array!r} at {node.src[0]!r}, which the point has not written"
                        )
        writer |= new


# Expressions


def _check_constant(node: UOp, scope: _Scope) -> str | None:
    return None if node.dtype in COMPUTED else f"a constant of {node.dtype}"


def _check_range(node: UOp, scope: _Scope) -> str | None:
    known = node in scope.ranges or any(node in sizes for sizes in scope.settings)
    return None if known else f"the range {node!r} of no loop that it is in"


def _check_load(node: UOp, scope: _Scope) -> str | None:
    array = node.arg
    if node.dtype is not array.dtype or array.dtype not in COMPUTED:
        return f"a load of {array!r} as {node.dtype}"
    if len(node.src) not in (1, 2) or node.src[0].dtype is not dtypes.int64:
        return f"a load of {array!r} at {node.src!r}, which is no position of int64"
    if len(node.src) == 2 and node.src[1].dtype is not dtypes.bool_:
        return f"a load of {array!r} on a condition of {node.src[1].dtype}"
    if array in scope.nest.local:
        if array not in scope.written:
            return f"the local array {array!r} before it is written"
        size: Dimension = scope.written[array]
    else:
        size = sint.prod(array.shape)
    outside = scope.outside(node.src[0], size) if len(node.src) == 1 else None
    return None if outside is None else f"an element of {array!r} at {outside}"


def _check_result(node: UOp, scope: _Scope) -> str | None:
    if node.src or node.dtype is not node.arg.dtype:
        return f"a result of {node.arg!r} as {node.dtype}"
    return None if node.arg in scope.results else f"the result of {node.arg!r}, which is not there yet"


def _check_scalar(node: UOp, scope: _Scope) -> str | None:
    try:
        dtype, shape = node.op.infer(node.src, node.arg)
    except TypeError as error:
        return f"{node!r}: {error}"
    if dtype is not node.dtype or shape != () or dtype not in COMPUTED:
        return f"{node!r} of {node.dtype}{list(node.shape)}"
    return None


# The legal ops of an expression in a nest, with what each must satisfy: a function that says what is wrong.
NEST: dict[Any, Callable[[UOp, _Scope], str | None]] = {
    CONST: _check_constant,
    sint.VARIABLE: _check_range,
    LOAD: _check_load,
    RESULT: _check_result,
    **dict.fromkeys(scalar.SCALAR_OPS.values(), _check_scalar),
}


def _verify_expression(roots: Sequence[UOp], scope: _Scope, index: bool = False) -> None:
    for node in toposort(roots):
        check = NEST.get(node.op)
        if check is None:
            raise scope.wrong(f"the op {node.op!r} is illegal in an expression")
        wrong = check(node, scope)
        if wrong is not None:
            raise scope.wrong(f"an expression has {wrong}")
    if index and roots[0].dtype is not dtypes.int64:
        raise scope.wrong(f"the position {roots[0]!r} is of {roots[0].dtype}")


# Code

_DEFINES = re.compile(r"^define (?!internal |private )[^@]*@([\w.$-]+)\(", re.MULTILINE)


def verify_code(kernel: Kernel, ir: str, arguments: Sequence[UOp], points: Dimension, finishes: bool) -> None:
    """Check LLVM IR that was made of a kernel: what it defines, its arguments and its points."""
    nests = (*kernel.parts, *kernel.finish)
    arrays = {array for nest in nests for array in (*nest.loaded, *nest.stored)}
    if {a for a in arguments if a.op is not sint.VARIABLE} != arrays:
        raise SpecError(
            "code", f"its arguments are {list(arguments)!r}, but the kernel's arrays are {list(arrays)!r}"
        )
    wanted = {"kernel", "finish"} if finishes else {"kernel"}
    if set(_DEFINES.findall(ir)) != wanted:
        raise SpecError("code", f"it defines {_DEFINES.findall(ir)}, not {sorted(wanted)}")
    if bool(kernel.finish) != finishes or sint.bounds(points)[1] < 1:
        raise SpecError("code", f"{points} points, and {'a' if finishes else 'no'} finish")
