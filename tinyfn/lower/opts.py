"""Opts: the decisions of a schedule as data, which can be printed, compared and applied again.

The axes of a nest are numbered: its outer ranges first, then the inner ranges of its passes, those of passes within a pass
before its own.
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Any, NamedTuple


class OptOps(IntEnum):
    """What an opt does; their order is that in which they are tried.

    On a CPU: UPCAST runs an axis along the lanes of a vector, as many as its argument says. UNROLL works on so many vectors of an
    axis side by side. LOCAL makes tiles of so many elements of an axis, which are kept close while others work on them.
    SWAP exchanges two outer axes. What contractions make of them, and of GROUP and GROUPTOP, is in `gemm_plan`. The others are
    for GPUs."""

    TC = auto()
    UPCAST = auto()
    UNROLL = auto()
    LOCAL = auto()
    GROUP = auto()
    GROUPTOP = auto()
    NOLOCALS = auto()
    PADTO = auto()
    SWAP = auto()

    def __repr__(self) -> str:
        return f"OptOps.{self.name}"


class Opt(NamedTuple):
    """One decision: what, to which axis, and how much (for SWAP: the other axis)."""

    op: OptOps
    axis: int | None = None
    arg: Any = None


class OptError(ValueError):
    """An opt that does not fit the nest, or not what was decided before it; the message says why."""
