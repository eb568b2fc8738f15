"""What a function was traced to for one signature: a graph and the structure of its results, called through a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..trace import pytree, switches
from ..trace.array import Array, own
from ..trace.errors import user_line
from ..trace.graph import Graph
from ..trace.prim import hooks
from ..trace.tracing import current_trace, not_executed, tracer
from .arguments import Arguments
from .effects import with_token
from .executable import Executable
from .fast_call import Signature, fast_call
from .structured import call

_NOT_MADE = object()


class TracedProgram(Executable):
    """A traced function: its graph, which has captured arrays, the tree of its results, and which of these are weak.

    `donated` are the indices of those of its arguments whose memory the results may take; `axis_names` those axes of vmaps around
    it whose size it depends on, or that it looked for in vain."""

    __slots__ = ("_fast", "axis_names", "graph", "out_tree", "weak")

    def __init__(
        self,
        graph: Graph,
        out_tree: Any,
        weak: tuple[bool, ...],
        donated: tuple[int, ...],
        axis_names: tuple[Any, ...] = (),
    ):
        super().__init__(graph, donated)
        self.graph, self.out_tree, self.weak, self.axis_names = graph, out_tree, weak, axis_names
        self._fast: Any = _NOT_MADE

    def fast(self, given: Arguments, static: Sequence[tuple[int | str, Any]] = ()) -> Any:
        """The generated call path for calls with arguments like these, made once; None if there is none."""
        if self._fast is _NOT_MADE and self.is_prepared:
            self._fast = None
            if self.native is not None and not given.voids:
                signature = Signature(
                    given.tree,
                    [array.weak_type for array in given.arrays],
                    self.donated,
                    [(key, each.value) for key, each in static],
                    self.out_tree,
                    self.weak,
                )
                self._fast = fast_call(signature, self.graph.captured, self.native)
        return None if self._fast is _NOT_MADE else self._fast

    def results(self, arrays: Sequence[Array], donated: Sequence[Array] = ()) -> list[Array]:
        """The results for these arguments, as tracers within a trace; the donated arrays can't be used afterwards."""
        return self._in_trace(arrays) if current_trace() is not None else self._now(arrays, donated)

    def donated_arrays(self, arrays: Sequence[Any]) -> list[Array]:
        """Those of a call's arguments that it gives away; raises ValueError if one of them is also passed elsewhere."""
        if not self.donated:
            return []
        given = [id(arrays[i]) for i in self.donated if type(arrays[i]) is Array]
        kept = {id(array) for i, array in enumerate(arrays) if i not in self.donated}
        if len(set(given)) != len(given) or not kept.isdisjoint(given):
            raise ValueError(
                f"{self.graph.name}: an array that is donated is passed twice in one call; at {user_line()}: pass a copy, or do "
                "not donate the argument"
            )
        return [] if current_trace() is not None else [arrays[i] for i in self.donated]

    def unflatten(self, results: Sequence[Array]) -> Any:
        """What the function returns."""
        return pytree.unflatten(self.out_tree, results)

    def _in_trace(self, arguments: Sequence[Array]) -> list[Array]:
        trace, graph = current_trace(), self.graph
        assert trace is not None
        if graph.is_symbolic:
            graph = self._of_sizes([*arguments, *graph.captured])
        arrays = [trace.lift(a) for a in (*arguments, *graph.captured)]
        if graph.has_effects:
            token = trace.token or hooks.start()
            nodes = call.apply(*arrays, token, graph=with_token(graph))
            trace.token = hooks.join(nodes)
        else:
            nodes = call.apply(*arrays, graph=opened(graph))
        return [tracer(trace, node, weak) for node, weak in zip(nodes, self.weak, strict=True)]

    def _of_sizes(self, arrays: Sequence[Any]) -> Graph:
        """The graph for arrays of these shapes, which need not be numbers."""
        if [a.shape for a in arrays] == [node.shape for node in self.graph.inputs]:
            return self.graph
        return self.graph.bind(self.graph.sizes(arrays))

    def _now(self, arguments: Sequence[Array], donated: Sequence[Array]) -> list[Array]:
        if switches.no_execution.is_on:
            raise not_executed(self.graph.name)
        self.prepare()
        values = [a.value for a in (*arguments, *self.graph.captured)]
        if self.overwrites and switches.checks_values():
            values = [value.copy() for value in values]  # so that it can run again
        elif self.overwrites:
            # From here on only `values` has them, so that their memory may be written to.
            for array in donated:
                array._value = None
        results = self.run(values)
        if not switches.checks_values():
            for array in donated:
                array._value = None
        return [own(value, weak) for value, weak in zip(results, self.weak, strict=True)]


def opened(graph: Graph) -> Graph:
    """The graph with what it captured as plain inputs, made once."""
    if not graph.captured:
        return graph
    return graph.derive("open", lambda: Graph(graph.inputs, graph.outputs, name=graph.name))
