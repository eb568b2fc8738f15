"""Graphs that run on the default device: where the transforms meet the compiler and the devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..devices import default_device as default_device
from ..trace import events
from ..trace.debug import StageTimes, debug_level, level, measured, stage
from ..trace.execute import step
from ..trace.graph import Graph, fixed
from ..trace.prims.sorting import native_argsort
from ..trace.uop import UOp, input_node, rebuild
from .structured import Structured, checkpoint_call, replace_calls

if TYPE_CHECKING:
    from ..devices.program import MemoryUse


def platform() -> str:
    """What programs run on now: "cuda", or "cpu" for all else."""
    return "cuda" if default_device() == "cuda" else "cpu"


def is_compiled_for_cpu() -> bool:
    """Whether programs are code for the CPU, and run."""
    return default_device() == "cpu"


class Executable:
    """A graph, simplified, and the program that is made of it when it is first run.

    `donated` are indices of inputs whose memory the program may use for its results."""

    __slots__ = (
        "_made",
        "_run",
        "_runs",
        "_timed",
        "compiled",
        "donated",
        "native",
        "overwrites",
        "times",
    )

    def __init__(self, graph: Graph, donated: Sequence[int] = ()):
        self.compiled = simplified(graph)
        self.donated = tuple(donated)
        self.native: Any = None  # a devices.program.Native, where there is one
        self.overwrites = False  # whether the program may write to donated inputs
        self.times: StageTimes | None = None  # of what was measured before the program is made
        self._made: Any = None  # the program for the CPU, where there is one
        self._run: Callable[[list[Any]], list[Any]] | None = None
        self._runs = False  # whether that runs kernels
        self._timed: Callable[[list[Any]], list[Any]] | None = None

    @property
    def is_prepared(self) -> bool:
        """Whether the program has been made."""
        return self._run is not None

    def prepare(self) -> None:
        """Make the program, unless that has been done."""
        if self._run is not None:
            return
        device = default_device()
        if device == "numpy":
            self._run = self.compiled.run
            return
        with measured() as times, events.timed(f"compile {self.compiled.name}", "compile"), stage("other"):
            self._make(device)
        if times is not None:
            from ..lower import report
            from .ahead import lowered

            if self.times is not None:
                self.times.update(times)
            report.compiled(lowered(self.compiled), self.times or times, level())

    def _make(self, device: str) -> None:
        if device == "cuda":
            from ..devices.cuda import CudaProgram

            self._run = CudaProgram(self.compiled, _host_step)
            return
        from ..devices.program import Program  # loads the compiler

        if self.compiled.is_symbolic:
            from ..devices.symbolic import SymbolicProgram

            self._made = symbolic = SymbolicProgram(self.compiled, _host_step, self.donated, form_of)
            self.overwrites = symbolic.overwrites and device != "null"
            self._run = self._zeros if device == "null" else symbolic.run
            return
        self._made = program = Program(self.compiled, _host_step, self.donated, form_of=form_of)
        if device == "null":
            self._run = self._zeros
            return
        self.native, self.overwrites, self._runs = program.native(), program.overwrites, True
        self._run = program.run

    def run(self, values: list[Any]) -> list[Any]:
        """The outputs' values, once the program is made, given a list of the inputs' values, which is its own from then on."""
        if events.recording is None and level() < 2:
            return self.run_whole(values)
        with events.timed(self.compiled.name, "program"):
            return self._run_timed(values) if self._runs else self.run_whole(values)

    def run_whole(self, values: list[Any]) -> list[Any]:
        """The same, whether or not kernels are timed one by one."""
        assert self._run is not None
        values[:] = [np.asarray(value, order="C") for value in values]
        return self._run(values)

    def memory_use(self, sizes: Mapping[UOp, int]) -> MemoryUse:
        """How much memory the prepared program takes, for these sizes of symbolic dimensions; NotImplementedError if it is not
        one for the CPU."""
        if self._made is None:
            raise NotImplementedError(
                f"what {self.compiled.name} takes of memory is known where it is compiled for the cpu, not for "
                f"{default_device()}"
            )
        use: MemoryUse = self._made.memory_use(dict(sizes))
        return use

    def _zeros(self, values: list[Any]) -> list[Any]:
        sizes = self.compiled.sizes(values)
        return [np.zeros(fixed(node.shape, sizes), node.dtype) for node in self.compiled.outputs]

    def _run_timed(self, values: list[Any]) -> list[Any]:
        """The outputs' values, by kernels that run one by one and are reported."""
        if self._timed is None:
            from ..devices.timed import TimedProgram
            from ..lower import report
            from .ahead import lowered

            shown = lowered(self.compiled)

            def tell(spans: Sequence[tuple[float, float]]) -> None:
                if level() >= 2:
                    report.emit(report.run(shown, [seconds for _, seconds in spans]))
                if events.recording is not None:
                    report.record(shown, spans)

            self._timed = TimedProgram(self.compiled, _whole_step, self.donated, tell).run
        values[:] = [np.asarray(value, order="C") for value in values]
        return self._timed(values)


def _host_step(node: UOp) -> Callable[..., Any]:
    """What computes a node that is no part of a kernel: by programs of their own for the graphs it holds, or its reference."""
    if not isinstance(node.op, Structured):
        return step(node)
    op, params = node.op, node.params
    return lambda *args: op.execute(compiled, args, **params)


def _whole_step(node: UOp) -> Callable[..., Any]:
    """The same for a program without loops and branches of its own: each is a program."""
    if form_of(node) is None:
        return _host_step(node)
    executable = Executable(alone(node))
    with debug_level(
        level() if isinstance(node.op, Structured) else 0
    ):  # what holds no graph is not compiled for it
        executable.prepare()
    return lambda *args: executable.run_whole(list(args))


def alone(node: UOp) -> Graph:
    """A graph of one op that has several results."""
    inputs = [input_node(s.dtype, s.shape) for s in node.src]
    return Graph(inputs, Structured.results(rebuild(node, tuple(inputs))), name=node.op.name)


def form_of(node: UOp) -> Any:
    """What loop, branch, sort or call (`lower.flow`) an op is; None if it is none, or one that can't run natively."""
    if node.op is native_argsort:
        return _order_form(node)
    if getattr(node.op, "family", None) == "foreign":
        return _foreign_form(node)
    make = _forms().get(node.op) if isinstance(node.op, Structured) else None
    if make is None or node.op.has_effects(node.params):
        return None
    if any(not isinstance(n, int) for source in node.src for n in source.shape):
        return None
    return make(node.params)


def runs_natively(node: UOp) -> bool:
    """Whether an op that holds graphs is a step of a program on the CPU, of which nothing runs in Python."""
    from ..devices.parts import Parts

    return form_of(node) is not None and Parts(alone(node), form_of, natively=True).is_native


def _scan_form(params: Any) -> Any:
    from ..lower.flow import Loop

    return Loop(
        simplified(params["graph"]),
        None,
        params["length"],
        params["constants"],
        params["carries"],
        params["reverse"],
    )


def _while_form(params: Any) -> Any:
    from ..lower.flow import Loop

    body, test = simplified(params["body"]), simplified(params["condition"])
    return Loop(body, test, params["max_steps"], params["constants"], len(body.outputs), reverse=False)


def _cond_form(params: Any) -> Any:
    from ..lower.flow import Branch

    return Branch(tuple(map(simplified, params["branches"])), indexed=True)


def _call_form(params: Any) -> Any:
    from ..lower.flow import Branch

    return Branch((simplified(params["graph"]),), indexed=False)


def _foreign_form(node: UOp) -> Any:
    from ..lower.flow import Foreign

    made = node.op.call(node.src, **node.params)
    sources = len(node.src)
    sizes = [stride * made.times for stride in made.strides]
    copies = tuple([(result, source, sizes[source]) for result, source in made.copies])
    # About the cube of the size, for the largest matrix.
    work = int(2 * max(prod(s.shape[-2:]) for s in node.src) ** 1.5)
    return Foreign(
        "LAPACK",
        made.routine,
        made.address,
        made.arguments,
        made.strides,
        copies,
        sources,
        made.times,
        made.workspace,
        work,
    )


def _order_form(node: UOp) -> Any:
    from ..lower.flow import Order

    (x,) = node.src
    return Order(x.dtype, prod(x.shape[:-1]), x.shape[-1], node.params["count"], node.params["descending"])


@cache
def _forms() -> dict[Any, Callable[[Any], Any]]:
    from .branches import cond
    from .loops import scan
    from .while_loops import while_loop

    return {scan: _scan_form, while_loop: _while_form, cond: _cond_form, checkpoint_call: _call_form}


def simplified(graph: Graph) -> Graph:
    """The graph for when no more derivatives are taken: with what it calls in its place, loops pruned, and simplified."""

    def make() -> Graph:
        from ..trace.simplify import simplify  # the rewrite engine, which eager use does without

        if not any(isinstance(node.op, Structured) for node in graph.nodes()):
            return simplify(graph)
        from .hoisting import hoist
        from .inlining import inline_checkpoints
        from .pruning import prune

        simple = simplify(prune(inline_checkpoints(replace_calls(graph))))
        hoisted = hoist(simple, simplified)
        return simple if hoisted is simple else simplify(hoisted)

    return graph.derive("simplified", make)


def compiled(graph: Graph) -> Callable[[list[Any]], list[Any]]:
    """What runs a graph by its program, which is kept with the graph; step by step where graphs are not compiled.

    The list of values that it is given is its own from then on."""
    if default_device() == "numpy" or graph.is_symbolic:
        return graph.run
    executable = graph.derive(("executable", default_device()), lambda: Executable(graph))
    executable.prepare()
    return executable.run
