"""Lowered: what a jitted function becomes for given arguments, to look at and to compile ahead of time.

`jit(f).lower(x)` makes one. Printed, it is a table of kernels:

    softmax on cpu: 1 kernel
    kernel                        loops                 flops   bytes  memory  flops/byte
    max_exp_sum_div_64x128        64 [128, 128, 128]  245.8 k  163 kB  65.5 kB       3.75
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from ..trace.graph import Graph
from ..trace.interface import Described, Interface
from ..trace.sint import Dimension
from ..trace.text import aligned, number
from ..trace.uop import UOp
from .estimates import Estimates
from .flow import Foreign, FormOf, estimate_flow, how_it_runs, no_form
from .group import group
from .listing import Names, listing
from .nest import Host, Kernel
from .program import ProgramSpec, described, loops_of
from .renderer import CpuRenderer, Renderer

BY_NUMPY = "by NumPy"
_PLURALS = {
    "kernel": "kernels",
    "loop or branch": "loops or branches",
    "sort": "sorts",
    "call of LAPACK": "calls of LAPACK",
    "call of NumPy": "calls of NumPy",
}
STAGES = ("graph", "nests", "ops", "source", "assembly")


class HostCall(NamedTuple):
    """An op that runs by its NumPy reference, between kernels, a loop or branch, or a call of a library: `how` says which."""

    name: str
    ast: Host
    estimates: Estimates
    how: str = BY_NUMPY

    @property
    def kind(self) -> str:
        """What it is, in words."""
        if self.how.startswith("by "):
            return self.how.replace("by ", "call of ")
        return "sort" if self.how.startswith("sort") else "loop or branch"


class Backend(NamedTuple):
    """What a device adds: how kernels are written, and, of those that are compiled on it, the machine's code and the whole."""

    renderer: Renderer
    assembly: Callable[[str], str] | None = None
    compile: Callable[[], Any] | None = None
    form_of: FormOf = no_form  # which ops are loops and branches


def renderer_of(device: str) -> Renderer:
    """What writes kernels for a device, which need not be there; raises ValueError for one that has none."""
    if device == "cpu":
        return CpuRenderer()
    if device == "cuda":
        from .render_cuda import CudaRenderer

        return CudaRenderer()
    raise ValueError(f"nothing writes kernels for {device!r}; that is done for cpu, cuda")


class Lowered(Described):
    """A graph as kernels and calls of references. `steps` has both, in the order in which they are run.

    >>> lowered = tinyfn.jit(lambda x: tnp.sum(tnp.exp(x))).lower(tnp.ones((8, 8)))
    >>> lowered.title, lowered.summary, lowered.device, len(lowered.kernels)
    ('<lambda> on cpu', '1 kernel', 'cpu', 1)
    >>> lowered.cost_analysis()["bytes accessed"] == lowered.estimates.mem
    True
    >>> lowered.on("cuda").as_text().count("__global__")
    1
    >>> lowered.compile()(tnp.zeros((8, 8)))
    Array(64., dtype=float32)
    """

    def __init__(
        self, graph: Graph, backend: Backend, names: Sequence[str] = (), interface: Interface | None = None
    ):
        self.graph = graph
        if interface is not None:
            self.interface = interface
        self._backend = backend
        self._arguments = tuple(names)

    @cached_property
    def steps(self) -> tuple[ProgramSpec | HostCall, ...]:
        """The kernels, and the calls of references between them, in the order in which they are run."""
        return tuple(steps_of(self.graph, self._backend.renderer, self._backend.form_of))

    @property
    def device(self) -> str:
        """The device that the kernels are for."""
        return self._backend.renderer.device

    def on(self, device: str) -> Lowered:
        """The same program for another device, which need not be there: to look at, not to compile."""
        interface = getattr(self, "interface", None)
        other = Lowered(
            self.graph,
            Backend(renderer_of(device), form_of=self._backend.form_of),
            self._arguments,
            interface,
        )
        other.steps  # noqa: B018 (raises for what the device can't do)
        return other

    @property
    def kernels(self) -> tuple[ProgramSpec, ...]:
        """The kernels, in the order in which they are run."""
        return tuple([step for step in self.steps if isinstance(step, ProgramSpec)])

    @property
    def estimates(self) -> Estimates:
        """The sum over all steps."""
        return sum((step.estimates for step in self.steps), Estimates())

    def cost_analysis(self) -> dict[str, Dimension]:
        """The sums over all steps, "flops" and "bytes accessed" named as in JAX.

        "bytes accessed" is of distinct memory for each kernel, "loads and stores" counts each access, "kernels" and "host calls"
        are their numbers. A loop counts as often as it has steps, once if that is not known, and a branch as its largest one.
        What else NumPy does is not known, and only its arguments and results are in the sum.

        >>> lowered = tinyfn.jit(lambda w, x: w @ x).lower(tnp.ones((64, 32)), tnp.ones(32))
        >>> costs = lowered.cost_analysis()
        >>> costs["flops"], costs["bytes accessed"]
        (4096, 8576)
        """
        total, kernels = self.estimates, len(self.kernels)
        return {
            "flops": total.ops,
            "bytes accessed": total.mem,
            "loads and stores": total.lds,
            "kernels": kernels,
            "host calls": sum(isinstance(step, HostCall) and step.how == BY_NUMPY for step in self.steps),
        }

    def compile(self) -> Any:
        """The compiled function; it takes arguments of the same structure, shapes and dtypes, without the static ones."""
        if self._backend.compile is None:
            raise ValueError(f"{self.title} is to look at; functions are compiled for the default device")
        return self._backend.compile()

    def as_text(self, stage: str = "source") -> str:
        """The program at a stage: its "graph", "nests", "ops" (scalar operations one by one), "source" or "assembly".

        Raises ValueError for a stage that there is not.

        >>> lowered = tinyfn.jit(lambda x: 2 * x + 1).lower(tnp.ones(4))
        >>> print(lowered.as_text("nests"))
        # 0: mul_add_4(x: float32[4], add_2: float32[4])
        parallel for i0 in 4:
            add_2[i0] = 2.0*x[i0] + 1.0
        """
        if stage not in STAGES:
            raise ValueError(f"there is no stage {stage!r}; the stages are {', '.join(STAGES)}")
        if stage == "graph":
            return str(self.graph)
        assembly = self._backend.assembly
        if stage == "assembly" and assembly is None:
            raise ValueError(f"there is no assembly of {self.title}; the source is its last stage")
        names = self._names()
        sections = []
        for place, step in enumerate(self.steps):
            if isinstance(step, HostCall) or stage in ("nests", "ops"):
                text = listing(step.ast, names, one_by_one=stage == "ops")
            else:
                text = assembly(step.src) if stage == "assembly" and assembly else step.src
            sections.append(f"# {place}: {step.name}{_arguments(step, names)}\n{text}")
        return "\n".join(sections)

    def _names(self) -> Names:
        return Names(zip(self.graph.inputs, self._arguments, strict=False))

    @property
    def title(self) -> str:
        """The function's name and the device."""
        return f"{self.graph.name} on {self.device}"

    @property
    def summary(self) -> str:
        """How many kernels, loops and branches, and calls of libraries there are."""
        kinds = Counter("kernel" if isinstance(step, ProgramSpec) else step.kind for step in self.steps)
        counts = [(kinds[what], what) for what in _PLURALS]
        found = [f"{n} {what if n == 1 else _PLURALS[what]}" for n, what in counts if n or what == "kernel"]
        return ", ".join(found)

    def __str__(self) -> str:
        return "\n".join([f"{self.title}: {self.summary}", *table(self.steps)])

    def __repr__(self) -> str:
        return f"<Lowered {self.title}: {self.summary}>"


def steps_of(graph: Graph, renderer: Renderer, form_of: FormOf = no_form) -> list[ProgramSpec | HostCall]:
    """What is run to compute a graph's outputs on a device, in order."""
    steps: list[ProgramSpec | HostCall] = []
    for step in group(graph):
        if isinstance(step, Kernel):
            steps.append(renderer.program(step))
        elif isinstance(step, Host) and not step.is_result:
            form = form_of(step.node)
            name = form.routine if isinstance(form, Foreign) else _name_of(step.node).removeprefix("native_")
            how = BY_NUMPY if form is None else how_it_runs(form)
            steps.append(HostCall(name, step, estimate_flow(step, form_of), how))
    return steps


def _name_of(node: UOp) -> str:
    """The name of an op that runs by its reference: of the function that is called, where it is such a call."""
    return str(node.params["function"].name if node.op.name == "extern" else node.op.name)


def _arguments(step: ProgramSpec | HostCall, names: Names) -> str:
    if isinstance(step, HostCall):
        return ""
    return "(" + ", ".join(f"{names[node]}: {described(node)}" for node in step.arguments) + ")"


def table(steps: Sequence[ProgramSpec | HostCall]) -> list[str]:
    """The lines of a table of the steps of a program, one to a line, and their sum."""
    rows = [("", "kernel", "loops", "flops", "loads+stores", "memory", "flops/byte", "opts")]
    for place, step in enumerate(steps):
        opts = loops = ""
        if isinstance(step, ProgramSpec):
            loops = loops_of(step.ast)
            opts = opts_of(step)
        else:
            loops = step.how
        rows.append((str(place), step.name, loops, *_numbers(step.estimates), opts))
    if len(steps) > 1:
        total = sum((step.estimates for step in steps), Estimates())
        rows.append(("", "all", "", *_numbers(total), ""))
    return aligned(rows, left=(1, 2, 7))


def opts_of(step: ProgramSpec) -> str:
    """The schedules of a kernel: `UPCAST:1:16` is an opt, what it does to, and how much."""
    parts = []
    for opts in filter(None, dict.fromkeys(step.applied_opts or ())):
        parts.append(
            " ".join(":".join(str(v) for v in (o.op.name, o.axis, o.arg) if v is not None) for o in opts)
        )
    return " | ".join(parts)


def _numbers(e: Estimates) -> tuple[str, str, str, str]:
    known = isinstance(e.ops, int) and isinstance(e.mem, int)
    ratio = f"{e.ops / e.mem:.2f}" if known and e.mem else "-"
    return number(e.ops), number(e.lds, "B"), number(e.mem, "B"), ratio
