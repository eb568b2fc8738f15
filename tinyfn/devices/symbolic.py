"""Programs of graphs with symbolic dimensions: compiled once, laid out for each set of sizes.

The kernels' code gets the sizes at run time. All else that depends on them (how much memory is needed, what is where in it, how
many points there are) is a layout, a `Program` of the same code; the last ones are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..lower.flow import FormOf, no_form
from ..lower.sizes import Sizes
from .parts import Parts
from .program import MemoryUse, Program

MOST_LAYOUTS = 64


class SymbolicProgram:
    """A graph with symbolic dimensions, compiled. Call it with the values of its inputs, of any sizes within bounds."""

    def __init__(
        self,
        graph: Any,
        host_step: Callable[[Any], Callable[..., Any]],
        donated: Iterable[int] = (),
        form_of: FormOf = no_form,
    ):
        self.graph, self._host_step, self._donated = graph, host_step, tuple(donated)
        self.parts = Parts(graph, form_of)
        for code in self.parts.codes:
            if code is not None:
                self.parts.module(code.ir)
        self._layouts: dict[tuple[int, ...], Any] = {}

    @property
    def texts(self) -> list[str]:
        """The LLVM IR of the kernels, each text once."""
        return list(self.parts.modules)

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """The outputs' values; raises ValueError for sizes that are out of bounds or contradict each other."""
        return self.run([np.asarray(value, order="C") for value in values])

    def memory_use(self, sizes: dict[Any, int]) -> MemoryUse:
        """How much memory a call with these sizes takes."""
        code = sum(module.size for module in self.parts.modules.values())
        if Sizes(sizes).leave_empty(self.graph):
            return MemoryUse(0, 0, code)
        return Program(self.parts, self._host_step, self._donated, Sizes(sizes)).memory_use()

    def run(self, slots: list[Any]) -> list[Any]:
        """The outputs' values, given a list of the inputs' contiguous arrays, which is the program's from now on."""
        sizes = self.graph.sizes(slots)
        key = tuple(sizes.values())
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._layout(sizes)
            if len(self._layouts) >= MOST_LAYOUTS:
                self._layouts.pop(next(iter(self._layouts)), None)
            self._layouts[key] = layout
        return layout.run(slots)

    @property
    def overwrites(self) -> bool:
        """Whether a call may overwrite donated inputs."""
        return bool(self._donated)

    def _layout(self, sizes: dict[Any, int]) -> Any:
        if Sizes(sizes).leave_empty(self.graph):
            return self.graph.bind(sizes)  # loops over nothing are not in the code: step by step
        return Program(self.parts, self._host_step, self._donated, Sizes(sizes))
