"""Ops that hold graphs: the call of a function that is compiled as a whole, and `checkpoint`.

They have several results: the node's dtype and shape are tuples, and OUTPUT nodes take the results apart. In place of
`jvp`, `vjp` and `batch` they have members that treat all results at once, and that call the transforms on their graphs.
Loops and branches, in `loops.py`, `while_loop.py` and `branches.py`, are ops of this kind too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..trace import dtype as dtypes
from ..trace import switches
from ..trace.graph import Graph
from ..trace.prim import Primitive, Sample, hooks, instantiate, spell
from ..trace.uop import OUTPUT, UOp, input_node, output, rebuild, substitute, toposort

if TYPE_CHECKING:
    from .saving import Policy

# Makes of a graph what runs it: the function from its inputs' values to its outputs'.
Prepare = Callable[[Graph], Callable[[list[Any]], list[Any]]]


def step_by_step(graph: Graph) -> Callable[[Sequence[Any]], list[Any]]:
    """What runs a graph one primitive at a time."""
    return graph.run


def number_of_results(node: UOp) -> int:
    """How many results a node of a Structured op has."""
    dtype: Any = node.dtype
    return len(dtype)


class BatchAxis(NamedTuple):
    """The axis that a vmap adds in front: its size, and the name by which collectives mean it, None if it has none."""

    size: Any
    name: Any = None

    def within(self, graph: Graph) -> BatchAxis:
        """The axis as a graph sees it: without the name if the graph does not use it."""
        return self if self.name is None or self.name in graph.axis_names else BatchAxis(self.size)


class Structured(Primitive):
    """An op that holds graphs and has several results."""

    family = "structured"

    def execute(self, prepare: Prepare, args: Sequence[Any], **params: Any) -> list[Any]:
        """The results' values, where `prepare` makes of each graph what runs it."""
        return prepare(params["graph"])(list(args))

    # Whether a program has the contents of the op's graph in its place, once no more derivatives are taken.
    is_inlined = True

    def contents(self, **params: Any) -> Graph | None:
        """What a program has in the place of a node, once no more derivatives are taken; None if the node stays."""
        return params["graph"] if self.is_inlined else None

    def reference(self, *args: Any, **params: Any) -> list[Any]:
        return self.execute(step_by_step, args, **params)

    def has_effects(self, params: dict[str, Any]) -> bool:
        """Whether a graph that it holds has effects."""
        return any(
            isinstance(graph, Graph) and graph.has_effects
            for value in params.values()
            for graph in (value if isinstance(value, tuple) else (value,))
        )

    def holds_graphs(self, params: dict[str, Any]) -> bool:
        values = [v for value in params.values() for v in (value if isinstance(value, tuple) else (value,))]
        return any(isinstance(v, Graph) for v in values) and not self.has_effects(params)

    def axis_names(self, params: dict[str, Any]) -> frozenset[Any]:
        """The named axes that the graphs and rules which it holds are about."""
        found: frozenset[Any] = frozenset()
        for value in params.values():
            for held in value if type(value) is tuple else (value,):
                found |= getattr(held, "axis_names", frozenset())
        return found

    @staticmethod
    def results(node: UOp) -> list[UOp]:
        """The node's results, one by one."""
        return [output(node, i) for i in range(number_of_results(node))]

    def apply(self, *args: UOp, **params: Any) -> list[UOp]:
        """The results of the op on UOps."""
        return self.results(self.node(*args, **params))

    def jvp_results(
        self, args: Sequence[UOp], tangents: Sequence[UOp | None], **params: Any
    ) -> tuple[list[UOp], list[UOp | None]]:
        """The results and their tangents, None for zero."""
        raise NotImplementedError

    def vjp_forward(self, args: Sequence[UOp], needs: Sequence[bool], **params: Any) -> tuple[list[UOp], Any]:
        """The results, and what `vjp_backward` needs of this run."""
        raise NotImplementedError

    def vjp_backward(
        self, args: Sequence[UOp], kept: Any, cts: Sequence[UOp | None], needs: Sequence[bool], **params: Any
    ) -> list[UOp | None]:
        """The cotangents of the arguments."""
        raise NotImplementedError

    def batch_results(
        self, axis: BatchAxis, args: Sequence[UOp], batched: Sequence[bool], **params: Any
    ) -> tuple[list[UOp], list[bool]]:
        """The results over a leading batch axis, and which of them have it.

        No argument has it where it is the axis' name alone that the graphs use."""
        raise NotImplementedError

    def keep(
        self, by: Policy, before: Sequence[UOp], again: Sequence[UOp], **params: Any
    ) -> tuple[list[UOp], list[UOp], list[tuple[UOp, UOp]]]:
        """The results in a checkpoint's forward pass, those in its second pass, and the values within that are kept, as the
        policy says, each with its stand-in in the second pass."""
        results = self.apply(*before, **params)
        if not by.keeps(self, before, params):
            return results, self.apply(*again, **params), []
        stand_ins = [input_node(r.dtype, r.shape) for r in results]
        return results, stand_ins, list(zip(results, stand_ins, strict=True))


def check_arguments(name: str, graph: Graph, args: Sequence[Any]) -> tuple[Any, Any]:
    """The dtypes and shapes of a graph's results, after checking that the arguments fit its inputs."""
    if [(a.dtype, a.shape) for a in args] != [(node.dtype, node.shape) for node in graph.inputs]:
        raise TypeError(f"{name} of {graph!r} is given {spell(args)}, which its inputs are not")
    return tuple([node.dtype for node in graph.outputs]), tuple([node.shape for node in graph.outputs])


def cotangents_or_zeros(cts: Sequence[UOp | None], like: Sequence[UOp]) -> list[UOp]:
    """The cotangents of results of a float type, with zeros in place of None."""
    return [
        instantiate(ct, node) for ct, node in zip(cts, like, strict=True) if dtypes.is_inexact(node.dtype)
    ]


class Call(Structured):
    """The results of a graph on the arguments, computed by one program of its own where graphs are compiled."""

    params: tuple[str, ...] = ("graph",)

    def out(self, *args: Any, graph: Graph) -> Any:
        return check_arguments(self.name, graph, args)

    def reference(self, *args: Any, graph: Graph) -> Any:
        from .executable import compiled

        return self.execute(step_by_step if switches.checks_values() else compiled, args, graph=graph)

    def jvp_results(self, args: Sequence[UOp], tangents: Sequence[UOp | None], *, graph: Graph) -> Any:
        from .jvp import linearized

        # Two calls, so that linearize can compute the first, which does not depend on the tangents, once.
        derived = linearized(graph, tuple([t is not None for t in tangents]))
        results = self.apply(*args, graph=derived.known)
        count = len(graph.outputs)
        found = iter(
            self.apply(*results[count:], *[t for t in tangents if t is not None], graph=derived.linear)
        )
        return results[:count], [next(found) if is_nonzero else None for is_nonzero in derived.nonzero]

    def vjp_forward(self, args: Sequence[UOp], needs: Sequence[bool], *, graph: Graph) -> Any:
        from .vjp import reverse

        results = self.apply(*args, graph=reverse(graph, tuple(needs)).forward)
        count = len(graph.outputs)
        return results[:count], results[count:]

    def vjp_backward(
        self,
        args: Sequence[UOp],
        kept: Any,
        cts: Sequence[UOp | None],
        needs: Sequence[bool],
        *,
        graph: Graph,
    ) -> Any:
        from .vjp import reverse

        derived = reverse(graph, tuple(needs))
        results = iter(self.apply(*kept, *cotangents_or_zeros(cts, graph.outputs), graph=derived.backward))
        return [next(results) if gives else None for gives in derived.gives]

    def batch_results(
        self, axis: BatchAxis, args: Sequence[UOp], batched: Sequence[bool], *, graph: Graph, **params: Any
    ) -> Any:
        from .vmap import batch_graph

        derived, out_batched = batch_graph(graph, axis, tuple(batched))
        return self.apply(*args, graph=derived, **params), list(out_batched)

    def keep(
        self, by: Policy, before: Sequence[UOp], again: Sequence[UOp], *, graph: Graph, **params: Any
    ) -> Any:
        from .saving import keep_within, kept_graph

        return keep_within(self, kept_graph(graph, by), before, again, params)

    def samples(self) -> Iterator[Sample]:
        x = input_node(dtypes.float32, (3,))
        y = input_node(dtypes.float32, (3,))
        graph = Graph([x, y], [x * y, -x])
        yield Sample(
            (np.array([1.0, 2.0, 3.0], np.float32), np.array([0.5, -1.0, 2.0], np.float32)), {"graph": graph}
        )


class Checkpoint(Call):
    """The results of a graph, of which the reverse pass is given the arguments and what a policy keeps: it runs again there.

    Unless `prevent_cse`, a program may have the graph in its place, where what is computed again may be merged with what was
    computed before."""

    params = ("graph", "policy", "prevent_cse")

    def contents(self, *, graph: Graph, policy: Any, prevent_cse: bool) -> Graph | None:
        return None if prevent_cse else graph

    def out(self, *args: Any, graph: Graph, policy: Any, prevent_cse: bool) -> Any:
        return check_arguments(self.name, graph, args)

    def reference(self, *args: Any, graph: Graph, **params: Any) -> Any:
        # Outside of jit the graph is a new one each time.
        return self.execute(step_by_step, args, graph=graph)

    def jvp_results(
        self, args: Sequence[UOp], tangents: Sequence[UOp | None], *, graph: Graph, **params: Any
    ) -> Any:
        from .jvp import jvp_graph
        from .saving import forward_again

        flags, given = tuple([t is not None for t in tangents]), [t for t in tangents if t is not None]
        count = len(graph.outputs)
        if params["policy"] is None:
            # One call, as forward mode computes nothing again.
            derived, nonzero = jvp_graph(graph, flags)
            results = self.apply(*args, *given, graph=derived, **params)
            found = iter(results[count:])
        else:
            parts = forward_again(graph, flags, params["policy"])
            results, nonzero = self.apply(*args, graph=parts.before, **params), parts.gives
            read = [args[i] for i in parts.inputs]
            found = iter(self.apply(*read, *results[count:], *given, graph=parts.after, **params))
        return results[:count], [next(found) if is_nonzero else None for is_nonzero in nonzero]

    def vjp_forward(self, args: Sequence[UOp], needs: Sequence[bool], *, graph: Graph, **params: Any) -> Any:
        from .saving import reverse_again

        results = self.apply(
            *args, graph=reverse_again(graph, tuple(needs), params["policy"]).before, **params
        )
        count = len(graph.outputs)
        return results[:count], results[count:]

    def vjp_backward(
        self,
        args: Sequence[UOp],
        kept: Any,
        cts: Sequence[UOp | None],
        needs: Sequence[bool],
        *,
        graph: Graph,
        **params: Any,
    ) -> Any:
        from .saving import reverse_again

        derived = reverse_again(graph, tuple(needs), params["policy"])
        read, dense = [args[i] for i in derived.inputs], cotangents_or_zeros(cts, graph.outputs)
        results = iter(self.apply(*read, *kept, *dense, graph=derived.after, **params))
        return [next(results) if gives else None for gives in derived.gives]

    def samples(self) -> Iterator[Sample]:
        for sample in super().samples():
            yield sample._replace(params={**sample.params, "policy": None, "prevent_cse": True})


call, checkpoint_call = Call("call"), Checkpoint("checkpoint")


def inline_in_order(graph: Graph, args: Sequence[UOp], token: UOp | None = None) -> list[UOp]:
    """The graph's outputs on these arguments; its effects come after the token, or after what the first argument waits for."""
    if not graph.has_effects or (token is None and not args):
        return graph.inline(args)
    first = hooks.join(args[:1]) if token is None else token
    return substitute(graph.outputs, {**dict(zip(graph.inputs, args, strict=True)), hooks.start(): first})


def with_contents(outputs: Sequence[UOp], contents: Callable[[UOp], Graph | None]) -> list[UOp]:
    """The outputs, with the results of a graph in the place of those of each node for which `contents` gives one."""
    new: dict[Any, UOp] = {}
    for node in toposort(outputs):
        args = tuple([new[s] for s in node.src])
        graph = contents(node)
        if graph is not None:
            for i, result in enumerate(inline_in_order(graph, args)):
                new[node, i] = result
            new[node] = node
        elif node.op is OUTPUT and (node.src[0], node.arg) in new:
            new[node] = new[node.src[0], node.arg]
        else:
            new[node] = node if args == node.src else rebuild(node, args)
    return [new[node] for node in outputs]


def replace_calls(graph: Graph) -> Graph:
    """The graph with the contents of the graphs that it holds in their place, for when no more derivatives are taken.

    Those of loops, large branches and `checkpoint` stay."""

    def contents(node: UOp) -> Graph | None:
        found = node.op.contents(**node.params) if isinstance(node.op, Structured) else None
        return None if found is None else replace_calls(found)

    if not any(isinstance(node.op, Structured) for node in graph.nodes()):
        return graph
    outputs = with_contents(graph.outputs, contents)
    return Graph(graph.inputs, outputs, graph.captured, graph.name)
