"""What `devices`, which import nothing of `trace`, use of its measurements."""

from ..trace.debug import debug_level, level, measuring, stage, stage_times

__all__ = ["debug_level", "level", "measuring", "stage", "stage_times"]
