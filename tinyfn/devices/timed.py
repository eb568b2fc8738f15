"""Programs whose kernels run one by one, to time each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .program import Program, _Segment


class TimedProgram(Program):
    """A program that tells after each run when each kernel and each call of a reference began, and how many seconds it took.

    The time of a kernel has that of a foreign call in it, and of making the arrays that it writes."""

    def __init__(
        self,
        graph: Any,
        host_step: Callable[[Any], Callable[..., Any]],
        donated: Iterable[int],
        report: Callable[[Sequence[tuple[float, float]]], None],
    ):
        super().__init__(graph, host_step, donated)
        self._report = report

    def _add_kernel(self, *args: Any) -> None:
        self._segments.append(_Segment())
        super()._add_kernel(*args)

    def run(self, slots: list[Any]) -> list[np.ndarray]:
        """The outputs' values, given a list of the inputs' contiguous arrays, which is the program's from now on."""
        slots += [None] * (self._size - len(slots))
        spans = []
        with np.errstate(all="ignore"):
            for segment in self._segments:
                begin = time.perf_counter()
                segment.run(slots)
                if segment.is_work:
                    spans.append((begin, time.perf_counter() - begin))
        self._report(spans)
        return [slots[i] for i in self._outputs]
