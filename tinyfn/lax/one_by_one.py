"""Loops and branches as Python's own: for `disable_jit`, so that values are there to be printed and a debugger steps through
bodies, and for `check_key_reuse`, which follows keys from step to step also in what transforms trace."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators, prims, pytree, switches
from ..trace.array import Array
from ..trace.tracing import Tracer, current_trace
from ..transforms.lanes import Outside
from .movement import concatenate, expand_dims


class _Local(threading.local):
    """Of this thread: what knows values in traces, if loops are unrolled there; and for each mapped loop that it is in, which
    lanes are running."""

    outside: Outside | None = None
    running: tuple[Array, ...] = ()


_local = _Local()


def is_wanted() -> bool:
    """Whether jit is disabled here. What a transform traces stays one op, which has a derivative, if nobody asks for more."""
    return switches.disable_jit.is_on and (_local.outside is not None or current_trace() is None)


@contextmanager
def in_traces() -> Iterator[None]:
    """Within, `disable_jit` unrolls loops in traces too, as far as conditions are known."""
    before, _local.outside = _local.outside, Outside()
    try:
        yield
    finally:
        _local.outside = before


def outermost(x: Array) -> Array:
    """What x is outside of all traces: see `Outside`."""
    return x if _local.outside is None else _local.outside.outermost(x)


def running() -> tuple[Array, ...]:
    """Bools that say for each mapped loop that this thread is in whether this lane has not come to its end."""
    return _local.running


@contextmanager
def _running(test: Array) -> Iterator[None]:
    before, _local.running = _local.running, (*_local.running, test)
    try:
        yield
    finally:
        _local.running = before


def _in_lanes(x: Any) -> np.ndarray | None:
    """The value of a number, one for each lane of the vmaps around; None if it is not known."""
    found = outermost(x)
    return None if isinstance(found, Tracer) else np.asarray(found)


def scan(
    step: Callable[[Any, list[Any]], tuple[Any, Any]],
    carry: Any,
    xs: Sequence[Array],
    length: int,
    reverse: bool,
) -> tuple[Any, Any]:
    """The last carry and the stacked ys; there is at least one step."""
    order = range(length - 1, -1, -1) if reverse else range(length)
    ys: list[Any] = [None] * length
    for i in order:
        carry, ys[i] = step(carry, [x[i] for x in xs])
    return carry, pytree.map(lambda *each: concatenate([expand_dims(y, (0,)) for y in each], 0), *ys)


def while_loop(
    condition: Callable[[Any], Any], step: Callable[[Any], Any], value: Any, max_steps: int | None
) -> tuple[Any, int, bool]:
    """The value when the condition no longer holds, how many steps it took, and True.

    False where it is not known in a trace whether it holds: then there is more to do, from that value on."""
    taken = 0
    while max_steps is None or taken < max_steps:
        test = condition(value)
        if isinstance(test, Tracer):
            lanes = _in_lanes(test) if test.dtype is dtypes.bool_ and not test.shape else None
            if lanes is None:
                return value, taken, False
            some, every = bool(lanes.any()), bool(lanes.all())
        else:
            some = every = bool(test)
        if not some:
            break
        if every:
            value = step(value)
        else:
            with _running(test):
                value = pytree.map(lambda new, old, test=test: _chosen(test, new, old), step(value), value)
        taken += 1
    return value, taken, True


def _chosen(test: Array, new: Any, old: Any) -> Array:
    after, before = operators.operand(new), operators.operand(old)
    if after.dtype is not dtypes.key:
        return operators.elementwise_where(test, after, before)
    chosen: Array = prims.where(operators.broadcast_to(test, after.shape), after, before)
    return chosen


def branch(index: Array, functions: Sequence[Callable[..., Any]]) -> Callable[..., Any] | None:
    """The branch that the index chooses, in all lanes if it is mapped; None if it is not known which, or not one."""
    lanes = _in_lanes(index)
    chosen = set() if lanes is None else set(np.clip(lanes, 0, len(functions) - 1).ravel().tolist())
    return functions[chosen.pop()] if len(chosen) == 1 else None
