"""Loops and branches as steps of a program: what native code does for them (`flow_runner.py`), made of the graphs they hold.

A loop of little work at each step is one native function (`lower/unrolled.py`). Any other one runs the kernels of its body again
and again, on a table of addresses of which some move on from step to step, and some change places: those of a carry and of the
next one, unless the next one is written over it (as for donated inputs). What a kernel does not write to where it belongs, since
that is several places or no kernel makes it, is copied there. A branch is a loop of one step.

All memory that this takes is part of the program's: a workspace, which lives while the loop runs. A body may hold loops, which
are steps of its kernels, with their workspace within its own."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..lower.flow import Branch, Foreign, Form, Loop, Order, with_test
from ..lower.memory import ALIGNMENT, MemoryPlan, plan
from ..lower.nest import Flow, View
from ..lower.target import host_target
from ..lower.unrolled import LoopCode, loop_code
from .cpu import compile_ir
from .flow_runner import flow_runner
from .flow_text import BUDGET, FunctionNumbers, LoopNumbers
from .parts import ARENA, Parts
from .runner import LEAST, Kernels

PartsOf = Callable[[Any], Parts | None]

_EVER = (1 << 62) - 1  # steps of a loop without a known end


class NativeFlow(NamedTuple):
    """A loop or branch: the native function and the address of its numbers, the bytes that it works in, and which results
    (by number) may be written over which source. Its arguments are the sources, the results, and the workspace, if there is one.
    `code` are the bytes of its machine code; `held` keeps the numbers alive. It does about so much `work`, besides that of which
    it tells the call's context itself."""

    function: int
    numbers: int
    workspace: int
    over: tuple[tuple[int, int], ...]
    code: int
    held: Any
    work: int = 0


def native_flow(form: Form, parts_of: PartsOf) -> NativeFlow | None:
    """What runs a loop, a branch, a sort or a call natively; None if some graph that it holds has something that is no kernel.

    `parts_of` gives the parts of a graph's program, if they are kernels and loops alone."""
    if isinstance(form, Foreign):
        from .foreign import foreign_call

        return foreign_call(form)
    if isinstance(form, Order):
        from .sorting import sort_rows

        return sort_rows(form)
    if isinstance(form, Branch):
        return _branch(form, parts_of)
    code = loop_code(form.body, form.constants, form.carries, form.reverse, form.test)
    return _kernels_again(form, parts_of) if code is None else _function(form, code)


def _function(form: Loop, code: LoopCode) -> NativeFlow:
    module = compile_ir(code.text, host_target())
    work = 4 * code.work  # each waits for the one before
    numbers = FunctionNumbers(
        function=module.function("kernel"),
        length=_EVER if form.length is None else form.length,
        most=max(1, BUDGET // work),
        work=work,
        first=form.constants,
        last=len(form.body.inputs),
        carries=form.carries,
    )
    memory = array("q", numbers)
    over = tuple([(i, form.constants + i) for i in range(form.carries)])
    return NativeFlow(flow_runner().function, memory.buffer_info()[0], 0, over, module.size, (module, memory))


def _kernels_again(form: Loop, parts_of: PartsOf) -> NativeFlow | None:
    body = parts_of(with_test(form))
    test = None if form.test is None else parts_of(form.test)
    if body is None or (test is None and form.test is not None):
        return None
    loop = _Loop(form, body, test)
    over = tuple([(i, form.constants + i) for i in range(form.carries)])
    return NativeFlow(flow_runner().loop, loop.address, loop.workspace, over, loop.code, loop)


def _branch(form: Branch, parts_of: PartsOf) -> NativeFlow | None:
    loops = []
    for branch in form.branches:
        parts = parts_of(branch)
        if parts is None:
            return None
        once = Loop(branch, None, 1, len(branch.inputs), 0, reverse=False)
        loops.append(_Loop(once, parts, None, int(form.indexed)))
    memory = array("q", [len(loops), 0 if form.indexed else -1, *[loop.address for loop in loops]])
    workspace, code = max(loop.workspace for loop in loops), sum(loop.code for loop in loops)
    return NativeFlow(flow_runner().branch, memory.buffer_info()[0], workspace, (), code, (loops, memory))


class _Kernels:
    """The kernels and loops of a graph, on the table of a loop; `entry` is where an array is in the table."""

    def __init__(self, parts: Parts, memory: MemoryPlan, inputs: Sequence[int], new: Callable[[], int]):
        self.kernels = Kernels()
        self.entry: dict[Any, int] = dict(zip(parts.inputs, inputs, strict=True))
        self.written: dict[int, Any] = {}  # what is made by kernels, in memory of its own
        self.memory = memory
        for step, code in zip(parts.steps, parts.codes, strict=True):
            if isinstance(step, View):
                self.entry[step.node] = self.entry[step.source]
            elif isinstance(step, Flow):
                flow = parts.flows[step.node]
                arguments = [self._argument(node, new) for node in (*step.sources, *step.results)]
                if step.workspace:
                    arguments.append(self._argument(step.node, new))
                self.kernels.add_flow(flow, arguments)
            elif code is not None:
                module = parts.module(code.ir)
                arguments = [
                    self._argument(node, new, code.origin(i)) for i, node in enumerate(code.arguments)
                ]
                finish = module.function("finish") if code.finishes else 0
                assert isinstance(code.points, int) and isinstance(code.grain, int)
                self.kernels.add(module.function("kernel"), finish, code.points, code.grain, arguments)
        self.kernels.complete()
        self.outputs = [self.entry[node] for node in parts.outputs]

    def _argument(self, node: Any, new: Callable[[], int], origin: int = 0) -> tuple[int, int]:
        offset = self.memory.places.get(node)
        key: Any = node if offset is None else ARENA
        if key not in self.entry:
            self.entry[key] = new()
            if key is node:
                self.written[self.entry[key]] = node
        return self.entry[key], (offset or 0) + origin


class _Loop:
    """The numbers of a loop round kernels, at `address`, and the size of its workspace.

    Of its arguments, from `first` on, are the constants, first carries and xs, then the results, then the workspace."""

    def __init__(self, form: Loop, body: Parts, test: Parts | None, first: int = 0):
        constants, carries, length = form.constants, form.carries, form.length
        inputs = body.inputs
        self._first, self._count = first, len(inputs)
        self._inits: list[tuple[int, int]] = [(first + i, 0) for i in range(len(inputs))]
        step = _Kernels(body, _planned(body, constants, carries), range(len(inputs)), self._new)
        results = len(body.outputs) - (test is not None)
        self._workspace_argument = first + len(inputs) + results
        self.workspace = 0
        sizes = [_bytes(node) for node in body.outputs]
        starts, copies, swaps, moves, ends = [], [], [], [], []
        owned: set[int] = set()

        def begin(size: int) -> int:
            return size * (length - 1) if form.reverse and length is not None else 0

        def target(i: int) -> int:
            """The entry for an output's memory: that of what kernels write, or another one, to which that is copied."""
            entry = step.outputs[i]
            if entry in step.written and entry not in owned:
                owned.add(entry)
                return entry
            copy = self._new()
            copies.extend([copy, entry, sizes[i]])
            return copy

        over = {step.entry[node]: step.entry[donor] for node, donor in step.memory.in_place.items()}
        for i in range(carries):
            entry, result = constants + i, (first + len(inputs) + i, 0)
            starts += [entry, first + entry, sizes[i]]
            ends += [first + len(inputs) + i, entry, sizes[i]]
            now = step.outputs[i]
            if now == entry or (over.get(now) == entry and now not in owned):
                owned.add(now)
                self._inits[entry] = self._inits[now] = result
                continue
            following = target(i)
            # It ends where the result is, if it is known how often they change places.
            places = [result, (self._workspace_argument, self._room(sizes[i]))]
            if length is not None and length % 2:
                places.reverse()
            self._inits[entry], self._inits[following] = places
            swaps += [entry, following]
        for i, node in enumerate(inputs[constants + carries :], constants + carries):
            self._inits[i] = first + i, begin(_bytes(node))
            moves += [i, -_bytes(node) if form.reverse else _bytes(node)]
        for i in range(carries, results):
            entry = target(i)
            self._inits[entry] = first + len(inputs) + i, begin(sizes[i])
            moves += [entry, -sizes[i] if form.reverse else sizes[i]]
        flag = -1
        if test is not None:
            flag = target(results)
            self._inits[flag] = self._workspace_argument, self._room(1)
            owned.add(flag)
        for entry, node in step.written.items():
            if entry not in owned:
                self._inits[entry] = self._workspace_argument, self._room(_bytes(node))
        kernels = [step]
        if test is not None:
            before = _Kernels(test, _planned(test), range(constants + carries), self._new)
            kernels.append(before)
            (holds,) = before.outputs
            if holds in before.written:
                self._inits[holds] = self._inits[flag]
            else:  # one of the arguments
                starts += [flag, first + holds, 1]
            for entry, node in before.written.items():
                if entry != holds:
                    self._inits[entry] = self._workspace_argument, self._room(_bytes(node))
        arena = self._room(max(each.memory.arena for each in kernels))
        for each in kernels:
            if ARENA in each.entry:
                self._inits[each.entry[ARENA]] = self._workspace_argument, arena
        lists = [
            array("q", values)
            for values in ([n for pair in self._inits for n in pair], starts, copies, swaps, moves, ends)
        ]
        where = [each.buffer_info()[0] for each in lists]
        self._held = lists, kernels, body, test
        self.code = body.code + (0 if test is None else test.code)
        self._numbers = array(
            "q",
            LoopNumbers(
                entries=len(self._inits),
                inits=where[0],
                starts=where[1],
                starts_count=len(starts) // 3,
                test=kernels[1].kernels.address if test is not None else 0,
                body=step.kernels.address,
                length=_EVER if length is None else length,
                flag=flag,
                copies=where[2],
                copies_count=len(copies) // 3,
                swaps=where[3],
                swaps_count=len(swaps) // 2,
                moves=where[4],
                moves_count=len(moves) // 2,
                ends=where[5],
                ends_count=len(ends) // 3,
                work=step.kernels.work + LEAST,
            ),
        )
        self.address = self._numbers.buffer_info()[0]

    def _new(self) -> int:
        self._inits.append((-1, 0))
        return len(self._inits) - 1

    def _room(self, size: int) -> int:
        """The place of so many bytes in the workspace."""
        place = self.workspace
        self.workspace += -(-size // ALIGNMENT) * ALIGNMENT
        return place


def _planned(parts: Parts, constants: int = 0, carries: int = 0) -> MemoryPlan:
    """A memory plan in which a carry may be written over the one before it, and over nothing else."""
    inputs, outputs = parts.inputs, parts.outputs
    memory = plan(inputs, outputs, parts.steps, inputs[constants : constants + carries])
    own = dict(zip(outputs[:carries], inputs[constants:], strict=False))
    if any(own.get(node) is not donor for node, donor in memory.in_place.items()):
        memory = plan(inputs, outputs, parts.steps)
    return memory


def _bytes(node: Any) -> int:
    size: int = node.dtype.itemsize
    for n in node.shape:
        size *= n
    return size
