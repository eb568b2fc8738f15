"""What becomes of positions out of bounds, by name."""

from __future__ import annotations

import enum
from typing import TypeAlias

from .errors import user_line

MODES = ("clip", "drop", "fill", "promise_in_bounds")


class GatherScatterMode(enum.Enum):
    """What becomes of a window that is not within the operand.

    CLIP moves it within; FILL_OR_DROP reads a fill value for all of it, and does not write it; PROMISE_IN_BOUNDS says that
    there is none (if there is, it is moved within)."""

    CLIP = 1
    FILL_OR_DROP = 2
    PROMISE_IN_BOUNDS = 3

    @classmethod
    def from_any(cls, mode: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode of a name ("clip", "fill", "drop" or "promise_in_bounds"); FILL_OR_DROP for None.

        >>> lax.GatherScatterMode.from_any("clip")
        <GatherScatterMode.CLIP: 1>
        """
        if isinstance(mode, cls):
            return mode
        named = {None: "FILL_OR_DROP", "clip": "CLIP", "fill": "FILL_OR_DROP", "drop": "FILL_OR_DROP",
                 "promise_in_bounds": "PROMISE_IN_BOUNDS"}  # fmt: skip
        if mode not in named:
            raise ValueError(f"mode {mode!r}: choose one of {list(MODES)}; at {user_line()}")
        return cls[named[mode]]


Mode: TypeAlias = str | GatherScatterMode | None
_NAMES = {
    GatherScatterMode.CLIP: "clip",
    GatherScatterMode.FILL_OR_DROP: "fill",
    GatherScatterMode.PROMISE_IN_BOUNDS: "promise_in_bounds",
}


def mode_name(mode: Mode) -> str | None:
    """The name of a mode that may be a `GatherScatterMode`."""
    return _NAMES[mode] if isinstance(mode, GatherScatterMode) else mode
