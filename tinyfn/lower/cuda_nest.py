"""Nests as CUDA C loops: the points of the outer ranges divided among threads, warps or blocks.

The threads that share a point take the elements of a pass's inner ranges in turn, combine their reductions in a fixed order, and
wait for each other where one reads what another wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from ..trace import scalar, sint
from ..trace.uop import CONST, UOp
from .cuda_expressions import TYPES, Expressions, Scope, Writer, literal, type_of
from .cuda_function import THREADS, WARP, Function, device_function, pointers
from .cuda_schedule import Mapping, apply, choose, inner_size, is_vector, loads_of, points_of
from .index import LOAD
from .nest import Nest, Pass, Reduce, Running, elements_of, first_of, result, size_of
from .opts import Opt

# Rows that do not fit into shared memory are in scratch memory, of so many blocks.
WORKSPACE_BLOCKS = 512


def loops(nest: Nest, arrays: Sequence[UOp], name: str, opts: Sequence[Opt] | None = None) -> Function:
    """The device function of any nest, under a schedule."""
    chosen = tuple(choose(nest) if opts is None else opts)
    return _NestWriter(nest, arrays, apply(nest, chosen)).function(name)._replace(opts=chosen)


class _NestWriter:
    """Writes the device function of one nest."""

    def __init__(self, nest: Nest, arrays: Sequence[UOp], plan: Mapping):
        self.nest, self.arrays, self.plan = nest, arrays, plan
        self.writer = Writer()
        self.names = {array: f"a{i}" for i, array in enumerate(arrays)}
        self.expressions = Expressions(self.writer, self.names)
        # What passes since the last barrier wrote and read: whoever reads or writes it next has to wait.
        self.stored: set[UOp] = set()
        self.loaded: set[UOp] = set()

    def function(self, name: str) -> Function:
        """The text, and what a launch needs for it."""
        plan, total = self.plan, points_of(self.nest)
        self._arrays()
        blocks = -(-total // plan.rows)
        workspace = 0
        if plan.in_workspace:
            blocks = min(blocks, WORKSPACE_BLOCKS)
            workspace = blocks * plan.row_bytes
        # The last step passes the end by at most as much again.
        kind = "int" if 2 * total + THREADS * plan.upcast < 2**31 else "long long"
        if plan.group > 1:
            lane = f"/ {plan.rows}" if plan.side_by_side else f"% {plan.group}"
            self.writer.line(f"const int lane = threadIdx.x {lane};")
        # In the finish, one block does what others do in a launch; in a launch, each block has one turn.
        self.writer.line("#pragma unroll 1")
        start, step = _place(plan, kind), f"({kind})blocks * {plan.rows}"
        with self.writer.block(f"for ({kind} first = {start}; first < {total}; first += {step})"):
            if plan.side_by_side:
                # All threads of a block wait for each other, so that those beyond the end do what the last point does.
                point = self.writer.call(
                    "minimum", f"first + threadIdx.x % {plan.rows}", f"{total - 1}", types=f"<{kind}>"
                )
            else:
                point = "first"
            self.writer.line(f"const {kind} point = {point};")
            scope = Scope()
            self.expressions.ranges(self.nest.outer, "point", scope)
            if plan.upcast > 1:
                self._vectors(scope)
            for array in sorted(plan.registers, key=self.names.__getitem__):
                size = self._register_count(array)
                self.writer.line(f"{TYPES[array.dtype]} {self.names[array]}[{size}];")
            if plan.upcast == 1:
                self._passes(self.nest.passes, scope)
            if plan.offsets or self._is_read_again():
                self._barrier()
        shared = 0 if plan.in_workspace else plan.rows * plan.row_bytes
        return device_function(name, self.writer, blocks, shared, workspace)

    def _vectors(self, scope: Scope) -> None:
        """Neighbouring points of the last outer range: what they load, what they make of it, and what they store."""
        width, last = self.plan.upcast, self.nest.outer[-1]
        stores = [store for each in self.nest.passes for store in each.stores]
        loads = [
            n for n in elements_of(*[store.value for store in stores]) if n.op is LOAD and len(n.src) == 1
        ]
        vectors: dict[tuple[UOp, UOp], str] = {}
        for array, position in dict.fromkeys([(n.arg, n.src[0]) for n in loads]):
            if is_vector(position, self.nest, width):
                name = vectors[array, position] = self.writer.name("vector")
                self._vector(name, array, position, scope)
        written: dict[tuple[UOp, UOp], str] = {}
        for store in stores:
            if is_vector(store.position, self.nest, width):
                name = written[store.node, store.position] = self.writer.name("vector")
                self.writer.line(f"Vector<{TYPES[store.node.dtype]}, {width}> {name};")
        self.writer.used["Vector"] = None
        self.writer.line("#pragma unroll")
        with self.writer.block(f"for (int u = 0; u < {width}; u++)"):
            here = Scope()
            here.values = {o: scope.values[o] for o in self.nest.outer}
            here.values[last] = self.writer.name(str(last.arg[0]), numbered=False)
            self.writer.line(f"const {type_of(last)} {here.values[last]} = {scope.values[last]} + u;")
            self.expressions.at |= {key: f"{name}.at[u]" for key, name in (vectors | written).items()}
            for each in self.nest.passes:
                self._stores(each, here)
            self.expressions.at.clear()
        for (array, position), name in written.items():
            self._vector(name, array, position, scope)

    def _vector(self, name: str, array: UOp, position: UOp, scope: Scope) -> None:
        """Load a vector, or store the one of that name if the array is stored."""
        kind = f"Vector<{TYPES[array.dtype]}, {self.plan.upcast}>"
        at = self.expressions.value(position, scope)
        if array in self.nest.stored:
            self.writer.line(f"*({kind} *)({self.names[array]} + {at}) = {name};")
        else:
            self.writer.line(f"const {kind} {name} = *(const {kind} *)({self.names[array]} + {at});")

    def _arrays(self) -> None:
        pointers(self.writer, self.arrays, self.nest.stored)
        for i, array in enumerate(sorted(self.nest.local, key=lambda a: _order(self.nest, a))):
            self.names[array] = f"row{i}"
        if self.plan.row_bytes:
            base = (
                "workspace + (size_t)block"
                if self.plan.in_workspace
                else f"shared + threadIdx.x / {self.plan.group}"
            )
            self.writer.line(f"char *row = {base} * {self.plan.row_bytes};")
        for array, offset in self.plan.offsets:
            kind = TYPES[array.dtype]
            self.writer.line(f"{kind} *{self.names[array]} = ({kind} *)(row + {offset});")

    def _register_count(self, array: UOp) -> int:
        size = 1 + max(
            sint.bounds(s.position)[1] for each in self.nest.every() for s in each.stores if s.node is array
        )
        return -(-size // self.plan.group)

    def _is_read_again(self) -> bool:
        return self.plan.group > 1 and bool(set(self.nest.stored) & set(self.nest.loaded))

    def _passes(self, passes: Sequence[Pass], scope: Scope) -> None:
        for each in passes:
            if each.passes:
                self._pass_of_passes(each, scope)
            else:
                self._pass(each, scope)

    # Waiting

    def _barrier(self) -> None:
        if self.plan.group > 1:
            is_warp = self.plan.group == WARP and not self.plan.side_by_side
            self.writer.line("__syncwarp();" if is_warp else "__syncthreads();")
        self.stored, self.loaded = set(), set()

    def _wait_for(self, each: Pass) -> None:
        """A barrier if a pass touches what others have written, or writes what others have read."""
        loaded, stored = _touched(each)
        if (loaded | stored) & self.stored or stored & self.loaded:
            self._barrier()

    def _note(self, each: Pass) -> None:
        loaded, stored = _touched(each)
        self.stored |= stored - self.plan.registers
        self.loaded |= loaded - self.plan.registers

    # Passes

    def _pass_of_passes(self, each: Pass, scope: Scope) -> None:
        """All threads of the group walk through the pass's points together, and share the passes at each."""
        totals = self._totals(each)
        inside = Scope(scope)
        self._barrier()  # so that what was before the loop need not be waited for in its first turn alone
        with ExitStack() as loops:
            for r in each.inner:
                loops.enter_context(self._loop(r, inside))
            self._passes(each.passes, inside)
            own = each._replace(passes=())
            self._wait_for(own)
            self._stores_of_one(own, Scope(inside))
            here = Scope(inside)
            for reduction, total in zip(each.reductions, totals, strict=True):
                self._accumulate(reduction, total, here)
            self._note(own)
            self._barrier()
        for reduction, total in zip(each.reductions, totals, strict=True):
            self._keep(reduction, total, scope)

    def _loop(self, r: UOp, scope: Scope) -> Any:
        name = scope.values[r] = self.writer.name(str(r.arg[0]), numbered=False)
        return self.writer.block(f"for (int {name} = 0; {name} < {size_of(r)}; {name}++)")

    def _stores_of_one(self, each: Pass, scope: Scope) -> None:
        """Stores that belong to the point as a whole are done by one thread."""
        if not each.stores:
            return
        with ExitStack() as stack:
            if self.plan.group > 1:
                stack.enter_context(self.writer.block("if (lane == 0)"))
            self._stores(each, scope)

    def _stores(self, each: Pass, scope: Scope) -> None:
        for store in each.stores:
            value = self.expressions.value(store.value, scope)
            self.writer.line(f"{self.expressions.element(store.node, store.position, scope)} = {value};")

    def _pass(self, each: Pass, scope: Scope) -> None:
        self._wait_for(each)
        if not each.inner:
            for reduction in each.reductions:
                self._keep(reduction, self.expressions.value(reduction.value, Scope(scope)), scope)
            self._stores_of_one(each, Scope(scope))
            self._note(each)
            return
        self._hoist(each, scope)
        totals = self._totals(each)
        size = inner_size(each)
        here = Scope(scope)
        if self.plan.group == 1:
            with ExitStack() as loops:
                for r in each.inner:
                    loops.enter_context(self._loop(r, here))
                self._body(each, totals, here)
        elif _touches(each, self.plan.registers):
            self._in_registers(each, totals, here, size)
        else:
            e = self.writer.name("e")
            if size % self.plan.group == 0 or size > self.plan.group:
                self.writer.line("#pragma unroll 4")
            with self.writer.block(f"for (int {e} = lane; {e} < {size}; {e} += {self.plan.group})"):
                self.expressions.ranges(each.inner, e, here)
                self._body(each, totals, here)
        for reduction, total in zip(each.reductions, totals, strict=not each.running):
            if self.plan.group > 1:
                self._combine_threads(reduction, total)
            self._keep(reduction, total, scope)
        self._note(each)

    def _in_registers(self, each: Pass, totals: Sequence[str], here: Scope, size: int) -> None:
        """A pass over a row whose elements are kept by the threads that made them."""
        k, e = self.writer.name("k"), self.writer.name("e")
        group = self.plan.group
        for array in self.plan.registers:
            self.expressions.at[array, None] = f"{self.names[array]}[{k}]"
        self.writer.line("#pragma unroll")
        with ExitStack() as stack:
            stack.enter_context(self.writer.block(f"for (int {k} = 0; {k} < {-(-size // group)}; {k}++)"))
            self.writer.line(f"const int {e} = {k} * {group} + lane;")
            if size % group:
                stack.enter_context(self.writer.block(f"if ({e} < {size})"))
            self.expressions.ranges(each.inner, e, here)
            self._body(each, totals, here)

    def _body(self, each: Pass, totals: Sequence[str], scope: Scope) -> None:
        for running, total in zip(each.running, totals, strict=False):
            self._go_on(running, total, each.inner[0], scope)
        self._stores(each, scope)
        for reduction, total in zip(each.reductions, totals, strict=not each.running):
            self._accumulate(reduction, total, scope)

    def _hoist(self, each: Pass, scope: Scope) -> None:
        """Make what does not depend on the pass's ranges before its loops."""
        inner, changing = set(each.inner), set(self.nest.local) | set(self.nest.stored)
        moving: dict[UOp, bool] = {}
        own = {result(running.node) for running in each.running}
        for node in elements_of(*each.values):
            if node.op is LOAD:
                # Not one with a condition: it may be all that keeps a loop from reading at all.
                moving[node] = (
                    len(node.src) > 1 or node.arg in changing or not _is_fixed(node.src[0], inner, changing)
                )
            else:
                moving[node] = node in inner or node in own or any(moving[n] for n in node.src)
            if not moving[node] and node.op is not CONST:
                self.expressions.value(node, scope)

    # Reductions

    def _totals(self, each: Pass) -> list[str]:
        totals = []
        kept: list[Reduce | Running] = [*each.reductions, *each.running]
        for reduction in kept:
            dtype = reduction.value.dtype
            if isinstance(reduction, Running):
                first = first_of(reduction)
            else:
                assert reduction.op.identity is not None
                first = np.asarray(reduction.op.identity(dtype), dtype)[()]
            name = self.writer.name("total")
            self.writer.line(f"{TYPES[dtype]} {name} = {literal(first, dtype)};")
            totals.append(name)
        return totals

    def _go_on(self, running: Running, total: str, r: UOp, scope: Scope) -> None:
        """A running value at the next point, which stores of the pass may then read."""
        dtype, before = running.value.dtype, total
        terms = [self.expressions.value(term, scope) for term in running.terms]
        if len(terms) > 1:
            before = self.expressions.on_values(scalar.MUL, dtype, [terms[1], before])
        combined = self.expressions.on_values(running.op, dtype, [before, terms[0]])
        if len(terms) > 1:
            combined = f"{self.expressions.value(r, scope)} == 0 ? {terms[0]} : {combined}"
        self.writer.line(f"{total} = {combined};")
        value = self.expressions.cast(total, dtype, running.node.dtype)
        self.expressions.define(result(running.node), value, scope, TYPES[running.node.dtype])

    def _accumulate(self, reduction: Reduce, total: str, scope: Scope) -> None:
        value = self.expressions.value(reduction.value, scope)
        combined = self.expressions.on_values(reduction.op, reduction.value.dtype, [total, value])
        self.writer.line(f"{total} = {combined};")

    def _combine_threads(self, reduction: Reduce, total: str) -> None:
        kind = TYPES[reduction.value.dtype]
        combined = self.expressions.on_values(reduction.op, reduction.value.dtype, ["a", "b"])
        function = f"[]({kind} a, {kind} b) -> {kind} {{ return {combined}; }}"
        if self.plan.side_by_side:
            call = self.writer.call("column_reduce", total, function, types=f"<{self.plan.rows}>")
        else:
            call = self.writer.call(
                "warp_reduce" if self.plan.group == WARP else "block_reduce", total, function
            )
        self.writer.line(f"{total} = {call};")

    def _keep(self, reduction: Reduce, total: str, scope: Scope) -> None:
        """A reduction's result, in the reduction's own dtype, for the passes after it."""
        value = self.expressions.cast(total, reduction.value.dtype, reduction.node.dtype)
        self.expressions.define(result(reduction.node), value, scope, TYPES[reduction.node.dtype])


def _place(plan: Mapping, kind: str) -> str:
    """The first point of a thread."""
    if plan.rows == 1 or plan.side_by_side:
        return f"({kind})block * {plan.rows}"
    within = f"threadIdx.x / {plan.group}" if plan.group > 1 else "threadIdx.x"
    if plan.upcast > 1:
        within += f" * {plan.upcast}"
    return f"({kind})block * {plan.rows} + {within}"


def _order(nest: Nest, array: UOp) -> int:
    """The place of a local array among those that the nest stores."""
    stores = [store.node for each in nest.every() for store in each.stores]
    return stores.index(array)


def _touched(each: Pass) -> tuple[set[UOp], set[UOp]]:
    """The arrays that a pass loads and stores, with those of the passes within it."""
    loaded = {load.arg for part in each.every() for load in loads_of(part)}
    return loaded, {store.node for part in each.every() for store in part.stores}


def _touches(each: Pass, arrays: frozenset[UOp]) -> bool:
    loaded, stored = _touched(each)
    return not arrays.isdisjoint(loaded | stored)


def _is_fixed(position: UOp, inner: set[UOp], changing: set[UOp]) -> bool:
    """Whether a position is the same at all points of ranges, whatever is written to these arrays meanwhile."""
    for node in elements_of(position):
        if node in inner:
            return False
        if node.op is LOAD and (
            node.arg in changing or not all(_is_fixed(s, inner, changing) for s in node.src)
        ):
            return False
    return True
