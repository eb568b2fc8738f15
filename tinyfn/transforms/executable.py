"""Graphs that run on the default device: where the transforms meet the compiler and the devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..devices import default_device
from ..trace.execute import step
from ..trace.graph import Graph
from ..trace.uop import UOp
from .structured import Structured, replace_calls


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
        if default_device() == "cuda":
            from ..devices.cuda import CudaProgram

            self._run = CudaProgram(self.compiled, _host_step)
            return
        from ..devices.program import Program  # loads the compiler

        program = Program(self.compiled, _host_step, self.donated)
        self.native, self.overwrites = program.native(), program.overwrites
        self._run = program.run

    def run(self, values: list[Any]) -> list[Any]:
        """The outputs' values, once the program is made, given a list of the inputs' values, which is its own from then on."""
        assert self._run is not None
        values[:] = [np.asarray(value, order="C") for value in values]
        return self._run(values)


def _host_step(node: UOp) -> Callable[..., Any]:
    """What computes a node that is no part of a kernel: a program of its own if it holds a graph, else its reference."""
    if isinstance(node.op, Structured):
        graph = node.params["graph"]
        return lambda *args: run_compiled(graph, args)
    return step(node)


def run_compiled(graph: Graph, values: Sequence[Any]) -> list[Any]:
    """The outputs of a graph by its program, which is kept with the graph; step by step where graphs are not compiled."""
    if default_device() == "numpy" or any(
        not isinstance(n, int) for node in graph.inputs for n in node.shape
    ):
        return graph.run(values)
    executable = graph.derive(("executable", default_device()), lambda: Executable(graph))
    executable.prepare()
    return executable.run(list(values))
