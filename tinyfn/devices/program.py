"""Programs: a graph compiled for the CPU, whose kernels between two host ops run by one foreign call.

Kernels that are the same up to the names of their arrays have the same text, so they are compiled once. All else that a call
needs is made once as well: the numbers that native code reads (`runner.py`), and a memory plan (`lower/memory.py`). A call has a
list of its own of all arrays, in the order of their slots: the inputs, what is made for this call, and the results of host ops.
So calls from several threads have nothing in common but code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..lower import codegen
from ..lower.flow import FormOf, no_form
from ..lower.memory import plan, reads_and_writes
from ..lower.nest import Flow, Host, View
from ..lower.sizes import NO_SIZES, Sizes
from .buffers import BUFFERS, is_alone, result_maker
from .parts import ARENA, Parts
from .runner import Kernels, expectation, runner


class _InPlace(NamedTuple):
    """An output that takes the memory of a donated input, if nobody else sees that."""

    output: int
    donor: int
    shape: tuple[int, ...]
    dtype: Any
    make: Callable[[], np.ndarray]  # for when somebody does


class _Segment:
    """Kernels without a host op between them: what is made before them, and what nobody needs after them."""

    is_work = True  # and not another view of what is there

    def __init__(self) -> None:
        self.kernels = Kernels()
        self.makes: list[tuple[int, Callable[[], np.ndarray]]] = []
        self.in_place: list[_InPlace] = []
        self.done: list[int] = []
        self._run = runner().run

    def run(self, slots: list[Any]) -> None:
        """Run them."""
        for i, make in self.makes:
            slots[i] = make()
        for output, donor, shape, dtype, make in self.in_place:
            if is_alone(slots, donor):
                value = slots[donor]
                slots[output] = (
                    value
                    if value.dtype is dtype and value.shape == shape
                    else value.view(dtype).reshape(shape)
                )
            else:
                slots[output] = make()
        if self._run(self.kernels.address, slots):
            _stopped()
        for i in self.done:
            slots[i] = None


class _HostCall:
    """An op that runs by its reference. `row_major`: a kernel reads the result."""

    is_work = True

    def __init__(self, function: Callable[..., Any], sources: Sequence[int], target: int, row_major: bool):
        self._function, self._sources, self._target, self._row_major = function, sources, target, row_major
        self.done: list[int] = []

    def run(self, slots: list[Any]) -> None:
        """Run it."""
        result = self._function(*[slots[i] for i in self._sources])
        if not isinstance(result, (list, tuple)):
            result = np.asarray(result, order="C" if self._row_major else None)
        slots[self._target] = result
        for i in self.done:
            slots[i] = None


class _Result(_HostCall):
    """One of several results."""

    is_work = False


class _Reshape:
    """A value in another shape."""

    is_work = False

    def __init__(self, source: int, target: int, shape: tuple[int, ...]):
        self._source, self._target, self._shape = source, target, shape
        self.done: list[int] = []

    def run(self, slots: list[Any]) -> None:
        """Make it."""
        slots[self._target] = slots[self._source].reshape(self._shape)
        for i in self.done:
            slots[i] = None


def _stopped() -> None:
    """Raise what stopped a loop."""
    from .flow_runner import raise_stopped

    raise_stopped()


def _stoppable(run_matching: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def run(slots: int, results: int) -> int:
        found = run_matching(slots, results)
        if found > 1:
            _stopped()
        return found

    return run


class Native(NamedTuple):
    """What a call path of its own needs of a program.

    `matches(address of a list)` tells whether the list's arrays are what the program takes, and `run(list)` gives its outputs. A
    program that is one run of kernels has `run_matching(address of a list, results)`, which does both: the list then has the
    inputs' arrays and what `makes` make, of which the first `results` are outputs; `outputs` are the indices of all outputs in
    it. `overwrites`: an input may be written to. `held` is what native code reads."""

    matches: Callable[[int], int]
    run: Callable[[list[Any]], list[Any]]
    run_matching: Callable[[int, int], int] | None
    makes: Sequence[Callable[[], np.ndarray]]
    results: int
    outputs: Sequence[int]
    overwrites: bool
    held: Any


class MemoryUse(NamedTuple):
    """Bytes that a call takes: outputs over donated inputs, the most of temporaries at one time, and machine code."""

    alias: int
    temporary: int
    code: int


class Program:
    """A graph as native kernels and host ops in order. Call it with the values of the graph's inputs.

    `donated` are indices of inputs in whose memory outputs may be written, if nobody else sees that memory when it is called.
    Symbolic dimensions have these `sizes`. `form_of` says of an op what loop or branch it is, if it may run natively."""

    def __init__(
        self,
        graph: Any,
        host_step: Callable[[Any], Callable[..., Any]],
        donated: Iterable[int] = (),
        sizes: Sizes = NO_SIZES,
        form_of: FormOf = no_form,
    ):
        parts = graph if isinstance(graph, Parts) else Parts(graph, form_of)
        self._parts, self._sizes = parts, sizes
        steps, codes, outputs, inputs = parts.steps, parts.codes, parts.outputs, parts.inputs
        donors = dict.fromkeys(inputs[i] for i in donated)
        self.memory = plan(inputs, outputs, steps, donors, sizes)
        by_host = {step.node for step in steps if isinstance(step, (Host, View))}
        by_kernels = {node for code in codes if code is not None for node in code.arguments}
        by_kernels |= {node for step in steps if isinstance(step, Flow) for node in step.sources}
        # The slots of the list of a call: the inputs, the outputs that kernels write, the arena, and all else.
        self._slots: dict[Any, int] = {node: i for i, node in enumerate(inputs)}
        for node in outputs:
            if node not in by_host:
                self._slot(node)
        self._results = len(self._slots) - len(inputs)
        if self.memory.arena:
            self._slot(ARENA)
        self._numbers = np.array(list(map(sizes.number, sizes.dimensions)), np.int64)
        self._segments: list[_Segment | _HostCall | _Reshape] = []
        there = {*inputs, *by_host}
        segment_of: list[int] = []
        for step, code in zip(steps, codes, strict=True):
            if code is not None:
                self._add_kernel(code, there)
            elif isinstance(step, Flow):
                self._add_flow(step, there)
            elif isinstance(step, View):
                source, target_slot = self._slot(step.source), self._slot(step.node)
                self._segments.append(_Reshape(source, target_slot, sizes.shape(step.node.shape)))
            elif isinstance(step, Host):
                node = step.node
                sources = [self._slot(source) for source in node.src]
                call = _Result if step.is_result else _HostCall
                self._segments.append(
                    call(host_step(sizes.node(node)), sources, self._slot(node), node in by_kernels)
                )
            segment_of.append(len(self._segments) - 1)
        held = set(inputs).difference(donors)  # by the caller, so that there is nothing to free
        for node, last in self.memory.last.items():
            if last >= 0 and node in self._slots and node not in held:
                self._segments[segment_of[last]].done.append(self._slots[node])
        for segment in self._segments:
            if isinstance(segment, _Segment):
                segment.kernels.complete()
        self._outputs = [self._slots[node] for node in outputs]
        self._size = len(self._slots)
        self._has_hosts = bool(by_host)

    @property
    def texts(self) -> list[str]:
        """The LLVM IR of the kernels, each text once."""
        return list(self._parts.modules)

    def __call__(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs' values."""
        return self.run([np.asarray(value, order="C") for value in values])

    def run(self, slots: list[Any]) -> list[np.ndarray]:
        """The outputs' values, given a list of the inputs' contiguous arrays, which is the program's from now on.

        A donated array to which that list has the only reference may be overwritten."""
        slots += [None] * (self._size - len(slots))
        if self._has_hosts:
            with np.errstate(all="ignore"):
                for segment in self._segments:
                    segment.run(slots)
        else:
            for segment in self._segments:
                segment.run(slots)
        return [slots[i] for i in self._outputs]

    def memory_use(self, _: Any = None) -> MemoryUse:
        """How much memory a call takes."""
        memory, sizes = self.memory, self._sizes

        def bytes_of(node: Any) -> int:
            pairs = (
                zip(node.dtype, node.shape, strict=True)
                if isinstance(node.dtype, tuple)
                else [(node.dtype, node.shape)]
            )
            return sum(math.prod(sizes.shape(shape)) * dtype.itemsize for dtype, shape in pairs)

        # Temporaries that are not in the block: those that host ops read and write. Views have no memory of their own.
        parts, views = self._parts, {step.node for step in self._parts.steps if isinstance(step, View)}
        elsewhere = {*parts.inputs, *parts.outputs, *views}
        alive: dict[Any, int] = {}
        most = 0
        for i, step in enumerate(parts.steps):
            written = reads_and_writes(step)[1]
            alive.update(
                (node, bytes_of(node))
                for node in written
                if node not in elsewhere and node not in memory.places
            )
            most = max(most, sum(alive.values()))
            alive = {node: size for node, size in alive.items() if memory.last.get(node, i) > i}
        alias = sum(bytes_of(node) for node in memory.in_place)
        return MemoryUse(alias, memory.arena + most, parts.code)

    @property
    def overwrites(self) -> bool:
        """Whether a call may overwrite donated inputs."""
        return bool(self.memory.in_place)

    def native(self) -> Native | None:
        """What a call path of its own needs of the program; None if Python's objects are not as native code knows them."""
        functions = runner()
        if functions.matches is None or functions.run_matching is None:
            return None
        avals = self._parts.inputs
        expected = expectation(avals)
        where = expected.buffer_info()[0]
        matches = partial(functions.matches, where)
        segment = self._segments[0] if len(self._segments) == 1 else None
        slots = range(len(avals), self._size)
        held = (self, expected)
        if (
            not isinstance(segment, _Segment)
            or segment.in_place
            or segment.done
            or len(segment.makes) != len(slots)
        ):
            return Native(matches, self.run, None, (), 0, (), self.overwrites, held)
        makes = dict(segment.makes)
        run_matching: Callable[[int, int], int] = partial(
            functions.run_matching, where, segment.kernels.address
        )
        return Native(
            matches,
            self.run,
            _stoppable(run_matching) if segment.kernels.flows else run_matching,
            [makes[i] for i in slots],
            self._results,
            self._outputs,
            False,
            held,
        )

    def _slot(self, node: Any) -> int:
        return self._slots.setdefault(node, len(self._slots))

    def _last_segment(self) -> _Segment:
        """The kernels at the end of the program."""
        last = self._segments[-1] if self._segments else None
        if not isinstance(last, _Segment):
            last = _Segment()
            self._segments.append(last)
        return last

    def _add_kernel(self, code: codegen.Code, there: set[Any]) -> None:
        """A kernel at the end of the program; `there` are the arrays that exist before it."""
        segment = self._last_segment()
        module = self._parts.module(code.ir)
        arguments = [
            self._argument(segment, node, code.origin(number), there)
            for number, node in enumerate(code.arguments)
        ]
        finish = module.function("finish") if code.finishes else 0
        points, grain = map(self._sizes.number, (code.points, code.grain))
        segment.kernels.add(module.function("kernel"), finish, points, grain, arguments)

    def _add_flow(self, step: Flow, there: set[Any]) -> None:
        """A loop or branch at the end of the program."""
        segment, flow = self._last_segment(), self._parts.flows[step.node]
        arrays = [*step.sources, *step.results, *([step.node] if step.workspace else [])]
        arguments = [self._argument(segment, node, 0, there) for node in arrays]
        segment.kernels.add_flow(flow, arguments)

    def _argument(self, segment: _Segment, node: Any, origin: int, there: set[Any]) -> tuple[int, int]:
        """The slot of an array, and how many bytes after its beginning what is meant is."""
        if node in self._sizes.given:
            slot = self._slot(_SIZES)
            if _SIZES not in there:
                there.add(_SIZES)
                segment.makes.append((slot, lambda: self._numbers))
            return slot, 8 * self._sizes.dimensions.index(node)
        offset = self.memory.places.get(node)
        if offset is not None:
            slot = self._slot(ARENA)
            if ARENA not in there:
                there.add(ARENA)
                segment.makes.append((slot, BUFFERS.maker((self.memory.arena,), np.uint8)))
            return slot, offset + origin
        slot = self._slot(node)
        if node not in there:
            there.add(node)
            shape = self._sizes.shape(self._parts.shapes.get(node, node.shape))
            make = result_maker(shape, node.dtype)
            donor = self.memory.in_place.get(node)
            if donor is None:
                segment.makes.append((slot, make))
            else:
                segment.in_place.append(_InPlace(slot, self._slots[donor], shape, node.dtype, make))
        return slot, origin


_SIZES = object()  # stands for the array of the sizes of symbolic dimensions
