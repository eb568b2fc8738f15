"""What debug levels print: programs as they are compiled, and kernels as they are run. `trace.debug` lists the levels."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..trace.debug import StageTimes
from .lowered import HostCall, Lowered, aligned, number, opts_of
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
    return loops_of(step.ast) if isinstance(step, ProgramSpec) else "by NumPy"


def _rates(estimates: Sequence[object], seconds: float) -> tuple[str, ...]:
    ops, _, mem = estimates
    rates = [f"{n / seconds / 1e9:.2f}" if isinstance(n, int) and n and seconds else "-" for n in (ops, mem)]
    return number(ops), number(mem, "B"), time_of(seconds), *rates  # type: ignore[arg-type]


def time_of(seconds: float) -> str:
    """A time with three digits, in µs, ms or s."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds / size < 100 else f"{seconds / size:.0f} {unit}"
    return f"{seconds * 1e6:.3g} µs" if seconds < 100e-6 else f"{seconds * 1e6:.0f} µs"
