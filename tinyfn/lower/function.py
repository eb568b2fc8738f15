"""The code of one nest, as the generators of code give it."""

from __future__ import annotations

from typing import NamedTuple

from ..trace.sint import Dimension
from .opts import Opt

# What a thread should have to do at least, for it to be worth waking, in instructions on elements: 5 to 10 microseconds.
GRAIN = 1 << 18


class Function(NamedTuple):
    """The code of a nest: it defines `void @kernel(ptr arguments, i64 begin, i64 end)`, for `points` points.

    `work` is about how many instructions on elements all points take, `opts` is the schedule."""

    ir: str
    points: Dimension
    work: Dimension
    opts: tuple[Opt, ...] = ()
