"""Profiles: what kernels, calls of NumPy, traces and compilations take, as a table and as a file that Perfetto shows.

>>> step = tinyfn.jit(lambda w, x: w @ x)
>>> with tinyfn.profiler.trace() as profile:  # trace("step.json") writes a file as well
...     _ = step(tnp.ones((100, 10)), tnp.ones(10))
>>> print(str(profile).splitlines()[0])  # a row for each kernel
name        by      calls  time   share   each  flops  bytes  GFLOP/s  GB/s

The file is in Chrome's trace format, for https://ui.perfetto.dev or chrome://tracing. While a profile is recorded kernels run one
by one, so that a program takes a little longer, by some microseconds for each of its kernels; functions that are traced then tell
on which of your lines, and in which `annotate` blocks, a kernel's operations are."""

from __future__ import annotations

import errno
import functools
import gzip
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from .trace import events
from .trace.debug import stage_times
from .trace.errors import entry_points, user_line
from .trace.events import Event
from .trace.text import aligned, number, time_of
from .trace.tracing import current_trace, named_scope

__all__ = [
    "Profile",
    "StepTraceAnnotation",
    "TraceAnnotation",
    "annotate",
    "annotate_function",
    "start_trace",
    "stop_trace",
    "trace",
]

Path = str | os.PathLike[str]
_ON_DEVICE = ("kernel", "host call", "eager")


class Profile:
    """The events that were recorded; printed, a table of kernels, calls of NumPy and operations that were done one by one.

    >>> step = tinyfn.jit(lambda x: tnp.sum(x * x))
    >>> with tinyfn.profiler.trace() as profile:
    ...     _ = step(tnp.ones(100))
    >>> print(profile.table().splitlines()[0])
    name     by      calls   time   share   each  flops  bytes  GFLOP/s  GB/s
    >>> [event.name for event in profile.events if event.category == "kernel"]
    ['sum_100']
    """

    def __init__(self, events: Sequence[Event]):
        self.events = events

    def table(self) -> str:
        """Time, bytes and operations of each kernel, the longest first, and below the time of tracing and compiling.

        The time of a loop whose steps Python runs is without that of what is in it."""
        groups: dict[tuple[str, str], list[Event]] = {}
        for event in _without_inner(self.events):
            groups.setdefault((event.category, event.name), []).append(event)
        total = sum(event.seconds for found in groups.values() for event in found)
        rows: list[tuple[str, ...]] = [
            ("name", "by", "calls", "time", "share", "each", "flops", "bytes", "GFLOP/s", "GB/s")
        ]
        longest = sorted(groups.items(), key=lambda item: -sum(event.seconds for event in item[1]))
        for (category, name), found in longest:
            seconds = sum(event.seconds for event in found)
            flops, size = (sum(event.details.get(key, 0) for event in found) for key in ("flops", "bytes"))
            rows.append((
                name, {"kernel": "kernel", "host call": "NumPy", "eager": "NumPy, eager"}[category], str(len(found)),
                time_of(seconds), f"{seconds / total:.1%}" if total else "-", time_of(seconds / len(found)),
                *[number(n // len(found), unit) if n else "-" for n, unit in ((flops, ""), (size, "B"))],
                *[f"{n / seconds / 1e9:.2f}" if n and seconds else "-" for n in (flops, size)],
            ))  # fmt: skip
        rows.append(("all", "", str(sum(map(len, groups.values()))), time_of(total), "", "", "", "", "", ""))
        lines = aligned(rows, left=(0, 1))
        for category, what in (("trace", "traced"), ("compile", "compiled")):
            found = [
                event
                for event in self.events
                if event.category == category and event.name.startswith(f"{category} ")
            ]
            lines += [
                f"{what} {e.name.removeprefix(category).strip()} in {time_of(e.seconds)}"
                + (f": {e.details['reason'].partition(': ')[2]}" if "reason" in e.details else "")
                for e in found
            ]
        return "\n".join(lines)

    def save(self, path: Path) -> None:
        """Write the events in Chrome's trace format, compressed if the name ends in `.gz`.

        A folder, or a path without a suffix, which then becomes one, gets a file `tinyfn.trace.json`.

        >>> import json, os, tempfile
        >>> from pathlib import Path
        >>> with tinyfn.profiler.trace() as profile:
        ...     _ = tnp.ones(3) + 1
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     profile.save(os.path.join(folder, "step.json"))
        ...     print(*json.loads(Path(folder, "step.json").read_text()))
        traceEvents displayTimeUnit
        """
        path = os.fspath(path)
        if os.path.isdir(path) or not os.path.splitext(path)[1]:
            os.makedirs(path, exist_ok=True)
            path = os.path.join(path, "tinyfn.trace.json")
        data = json.dumps({"traceEvents": list(self._chrome()), "displayTimeUnit": "ns"}).encode()
        with open(path, "wb") as file:
            file.write(gzip.compress(data) if path.endswith(".gz") else data)

    def _chrome(self) -> Iterator[dict[str, Any]]:
        begin = min((event.begin for event in self.events), default=0.0)
        process = os.getpid()
        for event in sorted(self.events, key=lambda e: (e.begin, -e.seconds)):
            details = dict(event.details)
            for key, rate in (("flops", "GFLOP/s"), ("bytes", "GB/s")):
                if details.get(key) and event.seconds:
                    details[rate] = round(details[key] / event.seconds / 1e9, 3)
            yield {
                "name": event.name, "cat": event.category, "ph": "X", "ts": round((event.begin - begin) * 1e6, 3),
                "dur": round(event.seconds * 1e6, 3), "pid": process, "tid": event.thread, "args": details,
            }  # fmt: skip

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<Profile of {len(self.events)} events>"


def _without_inner(found: Sequence[Event]) -> list[Event]:
    """What ran, each without the time of what ran, or was traced or compiled, within it."""
    inner = [event for event in found if event.category in (*_ON_DEVICE, "compile", "trace")]
    inner.sort(key=lambda e: (e.thread, e.begin, -e.seconds))
    own = [event.seconds for event in inner]
    around: list[int] = []  # those that have not ended
    for i, event in enumerate(inner):
        while around and not _within(event, inner[around[-1]]):
            around.pop()
        if around:
            own[around[-1]] -= event.seconds
        around.append(i)
    pairs = zip(inner, own, strict=True)
    return [e._replace(seconds=max(seconds, 0.0)) for e, seconds in pairs if e.category in _ON_DEVICE]


def _within(event: Event, outer: Event) -> bool:
    return event.thread == outer.thread and event.begin < outer.begin + outer.seconds


@contextmanager
def trace(path: Path | None = None) -> Iterator[Profile]:
    """Record what happens in this block, in all threads; at its end, the events are written to `path` if there is one.

    Raises RuntimeError within another such block. The stages of compilations are those of this thread.

    >>> x = tnp.ones(3)
    >>> with tinyfn.profiler.trace() as profile:
    ...     _ = tnp.sin(x) * x
    >>> [event.name for event in profile.events]
    ['sin', 'mul']
    """
    folder = os.path.dirname(os.fspath(path or ""))
    if folder and path is not None and os.path.splitext(path)[1] and not os.path.isdir(folder):
        raise FileNotFoundError(
            errno.ENOENT, f"the folder of the profile is not there (at {user_line()})", folder
        )
    with events.recorded() as found, stage_times():
        profile = Profile(found)
        try:
            yield profile
        finally:
            if path is not None:
                profile.save(path)


_open: list[tuple[Any, Profile]] = []


def start_trace(path: Path) -> None:
    """Begin to record, until `stop_trace`, which is to be called by the same thread.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tinyfn.profiler.start_trace(folder)
    ...     _ = tnp.ones(3) + 1
    ...     profile = tinyfn.profiler.stop_trace()
    ...     print(os.listdir(folder))
    ['tinyfn.trace.json']
    """
    block = trace(path)
    _open.append((block, block.__enter__()))


def stop_trace() -> Profile:
    """End what `start_trace` began, write the file, and give the profile; raises RuntimeError if nothing is recorded.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tinyfn.profiler.start_trace(folder)
    ...     _ = tnp.ones(3) + 1
    ...     print("add" in str(tinyfn.profiler.stop_trace()))
    True
    """
    if not _open:
        raise RuntimeError("no profile is being recorded: call start_trace first")
    block, profile = _open.pop()
    block.__exit__(None, None, None)
    return profile


@contextmanager
def annotate(name: str, **details: Any) -> Iterator[None]:
    """Name a block of code, or a function as its decorator: an event of its own in profiles.

    It is a `named_scope` as well: kernels whose operations are traced in it tell its name.

    >>> with tinyfn.profiler.trace() as profile:
    ...     with tinyfn.profiler.annotate("warm-up"):
    ...         _ = tnp.ones(3) + 1
    >>> [event.name for event in profile.events if event.category == "annotation"]
    ['warm-up']
    """
    # Outside of traces, and while nobody records, a name is of no use, and would only keep calls from their short path.
    named = (
        named_scope(name) if events.recording is not None or current_trace() is not None else nullcontext()
    )
    with named, events.timed(name, "annotation", **details):
        yield


TraceAnnotation = annotate


def StepTraceAnnotation(name: str, *, step_num: int | None = None, **details: Any) -> Any:
    """An event in profiles for a step of a training loop, by its number: `with StepTraceAnnotation("step", step_num=i):`.

    >>> with tinyfn.profiler.trace() as profile:
    ...     for i in range(2):
    ...         with tinyfn.profiler.StepTraceAnnotation("step", step_num=i):
    ...             _ = tnp.ones(3) + i
    >>> [event.details for event in profile.events if event.name == "step"]
    [{'step_num': 0}, {'step_num': 1}]
    """
    return events.timed(name, "annotation", step_num=step_num, **details)


def annotate_function(function: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
    """The function, whose calls are annotated with its name, or another one.

    >>> evaluate = tinyfn.profiler.annotate_function(lambda x: x + 1, name="evaluate")
    >>> with tinyfn.profiler.trace() as profile:
    ...     _ = evaluate(tnp.ones(3))
    >>> [event.name for event in profile.events if event.category == "annotation"]
    ['evaluate']
    """

    chosen = name or str(getattr(function, "__name__", "function"))

    @functools.wraps(function)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        with annotate(chosen):
            return function(*args, **kwargs)

    return annotated


entry_points(globals())
