"""Programs: a graph compiled for the CPU, whose kernels between two host ops run by one foreign call.

Kernels that are the same up to the names of their arrays have the same text, so they are compiled once. All else that a call
needs is made once as well: the numbers that native code reads (`runner.py`), and a memory plan (`lower/memory.py`). A call has a
list of its own of all arrays, in the order of their slots: the inputs, what is made for this call, and the results of host ops.
So calls from several threads have nothing in common but code.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..lower import codegen
from ..lower.group import group
from ..lower.memory import plan, reads_and_writes
from ..lower.nest import Host, Kernel, Step, View
from ..lower.sizes import NO_SIZES, Sizes
from ..lower.spec import verify
from ..lower.target import host_target, usable_cores
from ..lower.timing import measuring
from .buffers import BUFFERS, is_alone, result_maker
from .cpu import Module, compile_ir
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
        self._run(self.kernels.address, slots)
        for i in self.done:
            slots[i] = None


class _HostCall:
    """An op that runs by its reference. `row_major`: a kernel reads the result."""

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


class _Reshape:
    """A value in another shape."""

    def __init__(self, source: int, target: int, shape: tuple[int, ...]):
        self._source, self._target, self._shape = source, target, shape
        self.done: list[int] = []

    def run(self, slots: list[Any]) -> None:
        """Make it."""
        slots[self._target] = slots[self._source].reshape(self._shape)
        for i in self.done:
            slots[i] = None


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


class Parts:
    """What a program is made of, whatever the sizes of symbolic dimensions: a graph's steps, and the code of its kernels."""

    def __init__(self, graph: Any):
        self.target = host_target()
        steps = group(graph)
        if os.environ.get("TINYFN_VERIFY"):
            verify(graph, steps)
        self.inputs: tuple[Any, ...] = graph.inputs
        # A result that is only seen in another shape is made in that shape.
        made_as = _only_views(graph, steps)
        self.shapes = {source: node.shape for node, source in made_as.items()}
        self.steps = [step for step in steps if not (isinstance(step, View) and step.node in made_as)]
        self.outputs = [made_as.get(node, node) for node in graph.outputs]
        self.modules: dict[str, Module] = {}  # hold the kernels' code
        several = sum(isinstance(step, Kernel) for step in self.steps) > 1
        # LLVM works on some kernels while the next one is rendered, unless what each takes is being measured.
        self.codes = self._compiled() if several and not measuring() else [self._code(s) for s in self.steps]

    def _code(self, step: Step) -> codegen.Code | None:
        return codegen.generate(step, self.target) if isinstance(step, Kernel) else None

    def _compiled(self) -> list[codegen.Code | None]:
        """The codes of all steps, compiled by as many threads as there are cores meanwhile."""
        from concurrent.futures import ThreadPoolExecutor

        codes, made = [], {}
        with ThreadPoolExecutor(usable_cores(), "tinyfn-compile") as compiler:
            try:
                for step in self.steps:
                    code = self._code(step)
                    codes.append(code)
                    if code is not None and code.ir not in made:
                        made[code.ir] = compiler.submit(compile_ir, code.ir, self.target)
            except BaseException:  # an interrupt, for one: what waits is not wanted any more
                compiler.shutdown(wait=False, cancel_futures=True)
                raise
        self.modules = {text: module.result() for text, module in made.items()}
        return codes

    def module(self, text: str) -> Module:
        """The machine code of a text, compiled once."""
        module = self.modules.get(text)
        if module is None:
            module = self.modules[text] = compile_ir(text, self.target)
        return module


class Layout(NamedTuple):
    """The slots of a program: how many, which the outputs are in, what makes arrays for those that kernels write, and which
    outputs are written over a donated input (its slot)."""

    size: int
    outputs: tuple[int, ...]
    makes: dict[int, Callable[[], np.ndarray]]
    in_place: dict[int, int]


class MemoryUse(NamedTuple):
    """Bytes that a call takes: outputs over donated inputs, the most of temporaries at one time, and machine code."""

    alias: int
    temporary: int
    code: int


class Program:
    """A graph as native kernels and host ops in order. Call it with the values of the graph's inputs.

    `donated` are indices of inputs in whose memory outputs may be written, if nobody else sees that memory when it is called.
    Symbolic dimensions have these `sizes`."""

    def __init__(
        self,
        graph: Any,
        host_step: Callable[[Any], Callable[..., Any]],
        donated: Iterable[int] = (),
        sizes: Sizes = NO_SIZES,
    ):
        parts = graph if isinstance(graph, Parts) else Parts(graph)
        self._parts, self._sizes = parts, sizes
        steps, codes, outputs, inputs = parts.steps, parts.codes, parts.outputs, parts.inputs
        donors = dict.fromkeys(inputs[i] for i in donated)
        self.memory = plan(inputs, outputs, steps, donors, sizes)
        by_host = {step.node for step in steps if not isinstance(step, Kernel)}
        by_kernels = {node for code in codes if code is not None for node in code.arguments}
        # The slots of the list of a call: the inputs, the outputs that kernels write, the arena, and all else.
        self._slots: dict[Any, int] = {node: i for i, node in enumerate(inputs)}
        for node in outputs:
            if node not in by_host:
                self._slot(node)
        self._results = len(self._slots) - len(inputs)
        if self.memory.arena:
            self._slot(_ARENA)
        self._numbers = np.array(list(map(sizes.number, sizes.dimensions)), np.int64)
        self._segments: list[_Segment | _HostCall | _Reshape] = []
        there = {*inputs, *by_host}
        segment_of: list[int] = []
        for step, code in zip(steps, codes, strict=True):
            if code is not None:
                self._add_kernel(code, there)
            elif isinstance(step, View):
                source, target_slot = self._slot(step.source), self._slot(step.node)
                self._segments.append(_Reshape(source, target_slot, sizes.shape(step.node.shape)))
            elif isinstance(step, Host):
                node = step.node
                sources = [self._slot(source) for source in node.src]
                self._segments.append(
                    _HostCall(host_step(sizes.node(node)), sources, self._slot(node), node in by_kernels)
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
        return MemoryUse(alias, memory.arena + most, sum(m.size for m in parts.modules.values()))

    @property
    def overwrites(self) -> bool:
        """Whether a call may overwrite donated inputs."""
        return bool(self.memory.in_place)

    def kernels(self) -> Kernels | None:
        """The kernels, if the program is nothing else."""
        segment = self._segments[0] if len(self._segments) == 1 else None
        return segment.kernels if isinstance(segment, _Segment) else None

    def layout(self) -> Layout:
        """What `kernels` work on: how many slots there are, those of the outputs, and what all but inputs and outputs need."""
        needed = {
            slot: make for each in self._segments if isinstance(each, _Segment) for slot, make in each.makes
        }
        in_place = {
            each.output: each.donor for s in self._segments if isinstance(s, _Segment) for each in s.in_place
        }
        return Layout(self._size, tuple(self._outputs), needed, in_place)

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
        return Native(
            matches,
            self.run,
            partial(functions.run_matching, where, segment.kernels.address),
            [makes[i] for i in slots],
            self._results,
            self._outputs,
            False,
            held,
        )

    def _slot(self, node: Any) -> int:
        return self._slots.setdefault(node, len(self._slots))

    def _add_kernel(self, code: codegen.Code, there: set[Any]) -> None:
        """A kernel at the end of the program; `there` are the arrays that exist before it."""
        if not self._segments or not isinstance(self._segments[-1], _Segment):
            self._segments.append(_Segment())
        segment = self._segments[-1]
        assert isinstance(segment, _Segment)
        module = self._parts.module(code.ir)
        arguments = []
        for number, node in enumerate(code.arguments):
            if node in self._sizes.given:
                slot = self._slot(_SIZES)
                arguments.append((slot, 8 * self._sizes.dimensions.index(node)))
                if _SIZES not in there:
                    there.add(_SIZES)
                    segment.makes.append((slot, lambda: self._numbers))
                continue
            offset = self.memory.places.get(node)
            slot = self._slot(node if offset is None else _ARENA)
            arguments.append((slot, (offset or 0) + code.origin(number)))
            if offset is not None:
                if _ARENA not in there:
                    there.add(_ARENA)
                    segment.makes.append((slot, BUFFERS.maker((self.memory.arena,), np.uint8)))
            elif node not in there:
                there.add(node)
                shape = self._sizes.shape(self._parts.shapes.get(node, node.shape))
                make = result_maker(shape, node.dtype)
                donor = self.memory.in_place.get(node)
                if donor is None:
                    segment.makes.append((slot, make))
                else:
                    segment.in_place.append(_InPlace(slot, self._slots[donor], shape, node.dtype, make))
        finish = module.function("finish") if code.finishes else 0
        points, grain = map(self._sizes.number, (code.points, code.grain))
        segment.kernels.add(module.function("kernel"), finish, points, grain, arguments)


_ARENA = object()  # stands for the block of all temporaries among the arrays of a call
_SIZES = object()  # stands for the array of the sizes of symbolic dimensions


def _only_views(graph: Any, steps: Sequence[Step]) -> dict[Any, Any]:
    """The views through which alone the results of kernels are seen, and those results."""
    taken = {*graph.inputs, *graph.outputs}
    read: set[Any] = set()  # by host ops
    for step in steps:
        if isinstance(step, Host):
            read.update(step.node.src)
            taken.update((step.node, *step.node.src))
    made: dict[Any, Any] = {}
    for step in steps:
        if not isinstance(step, View) or step.node not in graph.outputs or step.node in read:
            continue
        if step.source not in taken:
            taken.add(step.source)
            made[step.node] = step.source
    return made
