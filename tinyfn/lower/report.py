"""What debug levels print: programs as they are compiled, and kernels as they are run. `trace.debug` lists the levels."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..trace import events, finite
from ..trace.debug import StageTimes
from ..trace.text import aligned, number, time_of
from ..trace.uop import toposort
from .lowered import HostCall, Lowered, opts_of
from .program import ProgramSpec, loops_of

# The stages that a level adds, with a title.
_SHOWN = ((3, "nests"), (4, "source"), (5, "ops"), (6, "assembly"))


def emit(text: str) -> None:
    """Print to stderr, and at once."""
    print(text, file=sys.stderr, flush=True)


def compiled(lowered: Lowered, times: StageTimes, level: int) -> None:
    """Tell of a program that was compiled: a line, and from level 3 on its opts and the stages that the level asks for."""
    milliseconds = times.total * 1e3
    emit(f"compiled {lowered.title}: {lowered.summary} in {milliseconds:.1f} ms ({times.line()})")
    if level >= 3:
        for place, step in enumerate(lowered.steps):
            if isinstance(step, ProgramSpec) and step.applied_opts:
                emit(f"opts of {place}: {step.name}: {opts_of(step)}")
    for least, stage in _SHOWN:
        if level >= least:
            emit(lowered.as_text(stage))


def run(lowered: Lowered, seconds: Sequence[float]) -> str:
    """A table of a run's steps: how long each took, and what that is in operations and bytes per second."""
    rows: list[tuple[str, ...]] = [("", "kernel", "loops", "flops", "memory", "time", "GFLOP/s", "GB/s")]
    for place, (step, time) in enumerate(zip(lowered.steps, seconds, strict=True)):
        rows.append((str(place), step.name, _loops(step), *_rates(step.estimates, time)))
    if len(seconds) != 1:
        rows.append(("", "all", "", *_rates(lowered.estimates, sum(seconds))))
    return "\n".join([f"ran {lowered.title}", *aligned(rows, left=(1, 2))])


def _loops(step: ProgramSpec | HostCall) -> str:
    return loops_of(step.ast) if isinstance(step, ProgramSpec) else step.how


def _rates(estimates: Sequence[object], seconds: float) -> tuple[str, ...]:
    ops, _, mem = estimates
    rates = [f"{n / seconds / 1e9:.2f}" if isinstance(n, int) and n and seconds else "-" for n in (ops, mem)]
    return number(ops), number(mem, "B"), time_of(seconds), *rates  # type: ignore[arg-type]


def record(lowered: Lowered, spans: Sequence[tuple[float, float]]) -> None:
    """Note the kernels and calls of a run, each with when it began and how long it took, for the profile that is recorded."""
    for step, (begin, seconds) in zip(lowered.steps, spans, strict=True):
        ops, _, mem = step.estimates
        category = "kernel" if isinstance(step, ProgramSpec) else "host call"
        known = isinstance(ops, int) and (category == "kernel" or ops)
        details = {"flops": ops if known else None, "bytes": mem if isinstance(mem, int) else None}
        events.record(
            step.name, category, begin, seconds, program=lowered.graph.name, lines=_lines_of(step), **details
        )


def _lines_of(step: ProgramSpec | HostCall) -> list[str]:
    """The user's lines on which the operations of a step were traced, as far as they are known."""
    if isinstance(step, HostCall):
        nodes = [step.ast.node]
    else:
        nests = (*step.ast.parts, *step.ast.finish)
        stored = [node for nest in nests for node in nest.stored]
        loaded = {node for nest in nests for node in nest.loaded}.difference(stored)
        nodes = toposort(stored, stop=loaded)
    return list(dict.fromkeys(line for node in nodes if (line := finite.line_of(node)) is not None))
