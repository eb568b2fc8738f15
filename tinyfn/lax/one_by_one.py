"""Loops and branches as Python's own, for `disable_jit`: values are there to be printed, and a debugger steps through bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..trace import pytree, switches
from ..trace.array import Array
from ..trace.tracing import current_trace
from .movement import concatenate, expand_dims


def is_wanted() -> bool:
    """Whether jit is disabled here. What a transform traces has to stay one op, which has a derivative."""
    return switches.disable_jit.is_on and current_trace() is None


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
) -> Any:
    """The value when the condition no longer holds."""
    taken = 0
    while (max_steps is None or taken < max_steps) and condition(value):
        value = step(value)
        taken += 1
    return value


def branch(index: Array, functions: Sequence[Callable[..., Any]], operands: Sequence[Any]) -> Any:
    """The result of the branch that the index chooses."""
    return functions[min(max(int(index), 0), len(functions) - 1)](*operands)
