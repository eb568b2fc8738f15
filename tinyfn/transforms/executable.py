"""Graphs that run on the default device: where the transforms meet the compiler and the devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..devices import default_device
from ..trace.execute import step
from ..trace.graph import Graph
from .structured import replace_calls


class Executable:
    """A graph, simplified, and the program that is made of it when it is first run.

    `donated` are indices of inputs whose memory the program may use for its results."""

    __slots__ = ("_run", "compiled", "donated", "native", "overwrites")

    def __init__(self, graph: Graph, donated: Sequence[int] = ()):
        from ..trace.simplify import simplify  # the rewrite engine, which eager use does without

        self.compiled = simplify(replace_calls(graph))
        self.donated = tuple(donated)
        self.native: Any = None  # a devices.program.Native, where there is one
        self.overwrites = False  # whether the program may write to donated inputs
        self._run: Callable[[list[Any]], list[Any]] | None = None

    @property
    def is_prepared(self) -> bool:
        """Whether the program has been made."""
        return self._run is not None

    def prepare(self) -> None:
        """Make the program, unless that has been done."""
        if self._run is not None:
            return
        if default_device() == "numpy":
            self._run = self.compiled.run
            return
        from ..devices.program import Program  # loads the compiler

        program = Program(self.compiled, step, self.donated)
        self.native, self.overwrites = program.native(), program.overwrites
        self._run = program.run

    def run(self, values: list[Any]) -> list[Any]:
        """The outputs' values, once the program is made, given a list of the inputs' values, which is its own from then on."""
        assert self._run is not None
        values[:] = [np.asarray(value, order="C") for value in values]
        return self._run(values)


def run_compiled(graph: Graph, values: Sequence[Any]) -> list[Any]:
    """The outputs of a graph by its program, which is kept with the graph."""
    executable = graph.derive(("executable", default_device()), lambda: Executable(graph))
    executable.prepare()
    return executable.run(list(values))
