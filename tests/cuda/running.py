"""Graphs run by rendered CUDA kernels in the emulator, many of them compiled together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.cuda.emulator import ORDERS, Emulated, unwritten
from tinyfn.lower.group import group
from tinyfn.lower.nest import Host, Kernel, View
from tinyfn.lower.render_cuda import Code, render
from tinyfn.trace.execute import step
from tinyfn.trace.graph import Graph
from tinyfn.trace.uop import UOp


class Programs:
    """What graphs compute, by their kernels. All graphs are given first, so that their kernels are compiled together."""

    def __init__(self, graphs: Sequence[Graph]):
        self.steps: list[list[Code | Host | View]] = [
            [render(each) if isinstance(each, Kernel) else each for each in group(graph)] for graph in graphs
        ]
        self.emulated = Emulated([code for steps in self.steps for code in steps if isinstance(code, Code)])

    def run(
        self, number: int, graph: Graph, values: Sequence[Any], orders: Sequence[int] = ORDERS
    ) -> list[Any]:
        """The outputs of a graph; every kernel must give the same bits in all orders of its threads."""
        arrays: dict[UOp, Any] = {
            n: np.asarray(v, order="C") for n, v in zip(graph.inputs, values, strict=True)
        }
        for each in self.steps[number]:
            if isinstance(each, Code):
                launch(self.emulated, each, arrays, orders)
            elif isinstance(each, View):
                arrays[each.node] = arrays[each.source].reshape(each.node.shape)
            else:
                with np.errstate(all="ignore"):
                    result = step(each.node)(*[arrays[s] for s in each.node.src])
                arrays[each.node] = (
                    result if isinstance(result, (list, tuple)) else np.asarray(result, order="C")
                )
        return [arrays[node] for node in graph.outputs]


def launch(emulated: Emulated, code: Code, arrays: dict[UOp, Any], orders: Sequence[int] = ORDERS) -> None:
    """Run a kernel on the arrays of nodes; arrays that it makes are added."""
    made = {n: unwritten(n.shape, n.dtype) for n in code.arguments if n not in arrays}
    given = [made[n] if n in made else arrays[n] for n in code.arguments]
    results = [emulated.run(code, given, order) for order in orders]
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert a.tobytes() == b.tobytes(), "a result depends on the order of the threads"
    for node, value in zip(code.arguments, results[0], strict=True):
        arrays[node] = value


def kernels(graph: Graph) -> list[Kernel]:
    """The kernels of a graph."""
    return [each for each in group(graph) if isinstance(each, Kernel)]
