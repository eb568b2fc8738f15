"""How much is printed while functions are compiled and run, and how long the stages of a compilation take.

The level is that of `debug_level`, or else of the environment variable `TINYFN_DEBUG` or `DEBUG` (which is ignored if it is no
number: it may be meant for another program):

    1  a line for each program that is compiled: kernels, and the time of each stage
    2  a line for each kernel that is run: time, GFLOP/s, GB/s; kernels then run one by one
    3  the loops of each kernel that is compiled, and the opts applied to it
    4  its source
    5  its scalar operations, one by one
    6  its assembly
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, TypeVar

from . import events, switches
from .errors import entry_methods, user_line

Function = TypeVar("Function", bound=Callable[..., Any])

_chosen: int | None = None


def level() -> int:
    """The debug level now; raises ValueError if `TINYFN_DEBUG` is no number."""
    found = _from_environment() if _chosen is None else _chosen
    switches.set_timed(found >= 2)
    return found


def _from_environment() -> int:
    if given := os.environ.get("TINYFN_DEBUG"):
        if not given.isdecimal():
            raise ValueError(f"TINYFN_DEBUG is {given!r}, but the debug level is a number from 0 to 6")
        return int(given)
    given = os.environ.get("DEBUG", "")
    return int(given) if given.isdecimal() else 0


class debug_level:
    """Set how much is printed, whatever the environment says: `debug_level(2)`, or `with debug_level(2):` for a while.

    None is what the environment says. `tinyfn.trace.debug` has the list of levels.

    >>> from contextlib import redirect_stderr
    >>> from io import StringIO
    >>> with tinyfn.debug_level(1), redirect_stderr(StringIO()) as said:
    ...     _ = tinyfn.jit(lambda x: 2 * x)(tnp.ones(3))
    >>> print(said.getvalue().split(" in ")[0])
    compiled <lambda> on cpu: 1 kernel
    """

    def __init__(self, value: int | None):
        global _chosen
        if value is not None and (not isinstance(value, int) or value < 0):
            raise ValueError(
                f"the debug level is a number from 0 to 6, or None, not {value!r}; at {user_line()}"
            )
        self._before = _chosen
        _chosen = value
        level()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        global _chosen
        _chosen = self._before
        level()


entry_methods(debug_level, "__init__")


class StageTimes:
    """Seconds by stage. The time of a stage within another counts for the inner one alone.

    >>> with tinyfn.stage_times() as times:
    ...     _ = tinyfn.jit(lambda x: 2 * x)(tnp.ones(3))
    >>> times.counts["render"], times.total == sum(times.seconds.values())
    (1, True)
    >>> times.line().split()[0]
    'trace'
    >>> both = type(times)()
    >>> both.update(times)
    >>> both.add("trace", 0.001)
    >>> both.counts["trace"]
    2
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.counts: dict[str, int] = {}

    @property
    def total(self) -> float:
        """The sum of all stages, in seconds."""
        return sum(self.seconds.values())

    def add(self, name: str, seconds: float, count: int = 1) -> None:
        """Count time for a stage."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        self.counts[name] = self.counts.get(name, 0) + count

    def update(self, other: StageTimes) -> None:
        """Count what others took."""
        for name, seconds in other.seconds.items():
            self.add(name, seconds, other.counts[name])

    def line(self) -> str:
        """The times in milliseconds, on one line."""
        return ", ".join(f"{name} {seconds * 1e3:.1f}" for name, seconds in self.seconds.items())

    def __str__(self) -> str:
        width = max([5, *map(len, self.seconds)])
        total = self.total
        rows = [f"{'stage':{width}}  {'ms':>9}  {'share':>6}  {'calls':>6}"]
        for name, seconds in self.seconds.items():
            share = seconds / total if total else 0.0
            rows.append(f"{name:{width}}  {seconds * 1e3:9.2f}  {share:6.1%}  {self.counts[name]:6}")
        return "\n".join([*rows, f"{'all':{width}}  {total * 1e3:9.2f}"])

    def __repr__(self) -> str:
        return f"<StageTimes: {self.line() or 'nothing'} ms>"


class _Local(threading.local):
    """What this thread measures: the innermost collector, and the stages that it is in, with the time of those within them."""

    times: StageTimes | None = None
    open: list[list[Any]] | None = None


_local = _Local()
_lock = threading.Lock()
_measuring = 0  # how many collectors there are in all threads


class stage_times:
    """Measure the stages of what is compiled in this block: `with stage_times() as times: f(x)`, and then `print(times)`.

    >>> with tinyfn.stage_times() as times:
    ...     _ = tinyfn.jit(lambda x: 2 * x)(tnp.ones(3))
    >>> print(str(times).splitlines()[0])
    stage               ms   share   calls
    >>> list(times.seconds)[:3]
    ['trace', 'simplify', 'group']
    """

    def __enter__(self) -> StageTimes:
        global _measuring
        with _lock:
            _measuring += 1
        self._before = _local.times, _local.open
        self._mine = _local.times = StageTimes()
        _local.open = []
        return self._mine

    def __exit__(self, *_: object) -> None:
        global _measuring
        with _lock:
            _measuring -= 1
        _local.times, _local.open = self._before
        if _local.times is not None:
            _local.times.update(self._mine)
            if _local.open:
                _local.open[-1][2] += self._mine.total


def measured() -> AbstractContextManager[StageTimes | None]:
    """What measures the stages in a block if something is printed about them, that is, from level 1 on."""
    return stage_times() if level() else nullcontext()


def measuring() -> bool:
    """Whether this thread measures how long the stages take."""
    return bool(_measuring) and _local.times is not None


class stage:
    """Something that takes time: `with stage("render"):`, or as a decorator. While nobody measures, it does nothing."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __enter__(self) -> None:
        if _measuring and _local.times is not None and _local.open is not None:
            _local.open.append([self, time.perf_counter(), 0.0])

    def __exit__(self, *_: Any) -> None:
        if not _measuring:
            return
        times, running = _local.times, _local.open
        if times is None or not running:
            return
        _, begin, inside = running.pop()
        elapsed = time.perf_counter() - begin
        times.add(self.name, elapsed - inside)
        if events.recording is not None:
            events.record(self.name, "compile", begin, elapsed)
        if running:
            running[-1][2] += elapsed

    def __call__(self, function: Function) -> Function:
        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if not _measuring:
                return function(*args, **kwargs)
            with self:
                return function(*args, **kwargs)

        return timed  # type: ignore[return-value]
