"""What a profile records: named events, with when they began, how long they took, and in which thread.

`tinyfn.profiler` turns them into a table and a file. While nobody records, an event costs a look at one variable."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from . import switches


class Event(NamedTuple):
    """Something that took `seconds` from `begin` on, by `time.perf_counter`."""

    name: str
    category: str  # kernel, host call, program, compile, trace, eager, annotation
    begin: float
    seconds: float
    thread: int
    details: dict[str, Any]


recording: list[Event] | None = None  # the events so far, while someone records


def record(name: str, category: str, begin: float, seconds: float, **details: Any) -> None:
    """Note an event of this thread; details that are None or empty are left out."""
    events = recording
    if events is not None:
        kept = {key: value for key, value in details.items() if value is not None and value != []}
        events.append(Event(name, category, begin, seconds, threading.get_native_id(), kept))


@contextmanager
def timed(name: str, category: str, **details: Any) -> Iterator[None]:
    """Note an event that is the time in this block, also if it ends with an exception."""
    begin = time.perf_counter()
    try:
        yield
    finally:
        record(name, category, begin, time.perf_counter() - begin, **details)


@contextmanager
def recorded() -> Iterator[list[Event]]:
    """Record the events of all threads in this block, while nodes keep their lines; raises RuntimeError within such a block."""
    global recording
    if recording is not None:
        raise RuntimeError("a profile is being recorded already, and there can be one at a time")
    events: list[Event] = []
    with switches.keep_lines():
        recording = events
        try:
            yield events
        finally:
            recording = None
