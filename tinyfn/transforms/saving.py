"""What a checkpointed function keeps for its derivative, as its policy says, and how it computes the rest again.

There are two passes over the nodes that do not depend on tangents or cotangents: the forward pass, which also gives the values
that are kept, and the second pass, in which *stand-ins* take the place of these. `keep` makes both in one walk. Ops that hold
graphs do the same within (`Structured.keep`): so a policy reaches into jitted functions, and a loop's kept values are stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..trace import prims
from ..trace.errors import user_line
from ..trace.graph import Graph
from ..trace.prim import Aval
from ..trace.uop import CONST, INPUT, OUTPUT, UOp, depends_on, input_node, output, rebuild, toposort
from .effects import without_effects
from .jvp import push_forward
from .partial import separated
from .structured import Structured, number_of_results
from .vjp import pulled_back


class Policy:
    """Says which values are kept: a function of an op, its arguments' dtypes and shapes, and its parameters.

    Its attribute `excluded`, if it has one, are names of values that are not kept whatever makes them."""

    __slots__ = ("excluded", "function")

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self.excluded: frozenset[str] = getattr(function, "excluded", frozenset())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return "None"  # a printed graph computes values; its derivatives were taken before it was printed

    def keeps(self, op: Any, args: Sequence[UOp], params: dict[str, Any]) -> bool:
        """Whether what the op gives is kept; raises TypeError if the function does not answer with a bool."""
        answer = self.function(op, *[Aval(a.dtype, a.shape) for a in args], **params)
        if answer is not True and answer is not False:
            name = getattr(self.function, "__name__", repr(self.function))
            raise TypeError(
                f"the policy {name} of checkpoint must return True or False, but for {op.name} it returned {answer!r}; "
                f"at {user_line()}"
            )
        return answer


class Kept(NamedTuple):
    """Nodes in the forward pass (`before`), others in the second (`again`), and what is kept: each value with its stand-in."""

    before: list[UOp]
    again: list[UOp]
    pairs: list[tuple[UOp, UOp]]


def keep(
    before: Sequence[UOp],
    again: Sequence[UOp],
    policy: Policy | None,
    unknown: Iterable[UOp] = (),
    among: Callable[[UOp], bool] | None = None,
) -> Kept:
    """The nodes `before` in the forward pass and the nodes `again` in the second pass; only what that reads is kept.

    Nothing is kept that depends on `unknown`, nor, if that is given, anything for which `among` is false."""
    if policy is None:
        return Kept(list(before), list(again), [])
    order = toposort([*before, *again])
    dependent = depends_on(order, unknown)
    first: dict[Any, UOp] = {}
    second: dict[Any, UOp] = {}
    pairs: list[tuple[UOp, UOp]] = []
    chosen = _chosen(order, dependent, policy, among)
    for node in order:
        op, src = node.op, node.src
        if not src and node not in chosen:
            first[node] = second[node] = node
            continue
        if op is OUTPUT:
            result = src[0], node.arg
            first[node] = first[result] if result in first else output(first[src[0]], node.arg)
            second[node] = second[result] if result in second else output(second[src[0]], node.arg)
        elif isinstance(op, Structured) and node not in dependent and (among is None or among(node)):
            args = [first[s] for s in src], [second[s] for s in src]
            results, repeated, more = op.keep(policy, *args, **node.params)
            pairs += more
            first[node] = second[node] = node
            for i in range(number_of_results(node)):
                first[node, i], second[node, i] = results[i], repeated[i]
        else:
            first[node] = _on(node, tuple([first[s] for s in src]))
            second[node] = _on(node, tuple([second[s] for s in src]))
        if node in chosen:
            stand_in = input_node(node.dtype, node.shape)
            pairs.append((first[node], stand_in))
            second[node] = stand_in
    results = [second[node] for node in again]
    read = set(toposort(results))
    return Kept([first[node] for node in before], results, [pair for pair in pairs if pair[1] in read])


def _on(node: UOp, args: tuple[UOp, ...]) -> UOp:
    return node if args == node.src else rebuild(node, args)


def _chosen(
    order: Sequence[UOp], dependent: set[UOp], policy: Policy, among: Callable[[UOp], bool] | None
) -> set[UOp]:
    """The nodes of ops with one result that the policy keeps. Of a name it is what has the name, since that is the same value."""
    found: set[UOp] = set()
    excluded: set[UOp] = set()
    cheap: set[UOp] = set()
    for node in order:
        op = node.op
        if op is CONST or (
            node.src and op is not OUTPUT and op.family == "movement" and cheap.issuperset(node.src)
        ):
            cheap.add(node)  # quicker to make again than to read
            continue
        if op is INPUT or op is OUTPUT or isinstance(op, Structured) or node in dependent:
            continue
        source = node.src[0] if op is prims.checkpoint_name else node
        if op is prims.checkpoint_name and node.params["name"] in policy.excluded:
            excluded.update((node, source))
        elif policy.keeps(op, node.src, node.params):
            if source.op is not INPUT and source not in cheap and (among is None or among(source)):
                found.add(source)
    return found - excluded


class KeptGraph(NamedTuple):
    """A graph in two passes: `before` gives the outputs and what is kept; `again` takes the inputs and those kept values that are
    `taken` (by number), and gives the outputs that are not kept.

    `places` says for each kept value which of the outputs of `before` it is; `direct` for each output which kept value it is, if
    it is one."""

    before: Graph
    again: Graph
    places: tuple[int, ...]
    taken: tuple[int, ...]
    direct: tuple[int | None, ...]


def kept_graph(graph: Graph, policy: Policy, own: int = 0, constants: int | None = None) -> KeptGraph:
    """The graph in two passes. Its outputs from number `own` on are not given a second time if they are kept.

    With `constants` nothing is kept that depends on that many first inputs alone."""

    def make() -> KeptGraph:
        varying = None if constants is None else depends_on(graph.nodes(), graph.inputs[constants:])
        among = None if varying is None else varying.__contains__
        kept = keep(graph.outputs, graph.outputs, policy, among=among)
        outputs = list(kept.before)
        places = []
        for value, _ in kept.pairs:
            if value not in outputs[own:]:
                outputs.append(value)
            places.append(outputs.index(value, own))
        stand_ins = [stand_in for _, stand_in in kept.pairs]
        direct = [
            stand_ins.index(node) if i >= own and node in stand_ins else None
            for i, node in enumerate(kept.again)
        ]
        rest = [node for node, number in zip(kept.again, direct, strict=True) if number is None]
        read = set(toposort(rest))
        taken = [i for i, stand_in in enumerate(stand_ins) if stand_in in read]
        return KeptGraph(
            Graph(graph.inputs, outputs, name=graph.name),
            Graph([*graph.inputs, *[stand_ins[i] for i in taken]], rest, name=f"{graph.name}_again"),
            tuple(places),
            tuple(taken),
            tuple(direct),
        )

    return graph.derive(("kept", policy, own, constants), make)


def keep_within(
    op: Structured, kept: KeptGraph, before: Sequence[UOp], again: Sequence[UOp], params: dict[str, Any]
) -> tuple[list[UOp], list[UOp], list[tuple[UOp, UOp]]]:
    """`Structured.keep` of an op of which `kept` is the graph, which takes what is kept after its other arguments."""
    results = op.apply(*before, graph=kept.before, **params)
    values = [results[i] for i in kept.places]
    stand_ins = [input_node(v.dtype, v.shape) for v in values]
    rest = iter(op.apply(*again, *[stand_ins[i] for i in kept.taken], graph=kept.again, **params))
    found = [next(rest) if i is None else stand_ins[i] for i in kept.direct]
    return results[: len(found)], found, list(zip(values, stand_ins, strict=True))


class Recomputed(NamedTuple):
    """A derivative of a checkpointed graph: `before` gives outputs and what is kept; `after` takes those `inputs` that it reads
    (by number), what is kept, and (co)tangents. `gives` says which of its possible results it has."""

    before: Graph
    after: Graph
    inputs: tuple[int, ...]
    gives: tuple[bool, ...]


def recomputed(
    graph: Graph,
    outputs: Sequence[UOp],
    derived: Sequence[UOp | None],
    unknown: Sequence[UOp],
    policy: Policy | None,
    name: str,
) -> Recomputed:
    """The outputs of a graph, and from what is kept, and `unknown`, those of `derived` that are not None."""
    kept = keep(outputs, [node for node in derived if node is not None], policy, unknown)
    again = without_effects(kept.again)
    read = set(toposort(again))
    inputs = tuple([i for i, node in enumerate(graph.inputs) if node in read])
    taken = [graph.inputs[i] for i in inputs]
    return Recomputed(
        Graph(graph.inputs, [*kept.before, *[value for value, _ in kept.pairs]], name=graph.name),
        Graph(
            [*taken, *[stand_in for _, stand_in in kept.pairs], *unknown], again, name=f"{name}_{graph.name}"
        ),
        inputs,
        tuple([node is not None for node in derived]),
    )


def reverse_again(graph: Graph, needs: tuple[bool, ...], policy: Policy | None) -> Recomputed:
    """The reverse mode of a checkpointed graph with respect to the inputs marked in `needs`."""

    def make() -> Recomputed:
        outputs, cts, in_cts = pulled_back(graph, needs)
        return recomputed(graph, outputs, in_cts, cts, policy, "backward")

    return graph.derive(("vjp again", needs, policy), make)


def forward_again(graph: Graph, given: tuple[bool, ...], policy: Policy | None) -> Recomputed:
    """The forward mode of a checkpointed graph for tangents of the inputs that are `given`."""

    def make() -> Recomputed:
        tangents = {
            node: input_node(node.dtype, node.shape)
            for node, is_given in zip(graph.inputs, given, strict=True)
            if is_given
        }
        pushed, out_tangents = push_forward(graph.outputs, tangents)
        unknown = list(tangents.values())
        apart = separated([*pushed, *[t for t in out_tangents if t is not None]], unknown)
        # Those computed together with tangents (by an op that holds a graph) are taken as they were, free of them.
        with_tangents = depends_on(toposort(apart), unknown)
        outputs = [b if p in with_tangents else p for b, p in zip(graph.outputs, apart, strict=False)]
        found = iter(apart[len(pushed) :])
        derived = [None if t is None else next(found) for t in out_tangents]
        return recomputed(graph, outputs, derived, unknown, policy, "linear")

    return graph.derive(("jvp again", given, policy), make)
