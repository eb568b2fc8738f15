"""Graph: a closed function of arrays, as UOps from its inputs to its outputs.

`inputs` are the arguments, followed by one hidden input for each array that the function closed over; `captured` holds
those arrays. A graph is immutable. Transforms take a graph and give a graph; `run` executes it step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from . import dtype as dtypes
from . import sint, switches
from .execute import Plan, run_once
from .prim import Aval, Primitive
from .uop import CONST, INPUT, OUTPUT, UOp, input_node, output, substitute, toposort

T = TypeVar("T")
# How much a graph keeps of what transforms made of it: one entry for each batch size, for example.
MOST_DERIVED = 128


class Graph:
    """A closed function of arrays: `inputs` and `outputs` are nodes, each with its dtype and shape. `print` shows it as Python.

    The inputs are the `arguments` and, after them, one for each array that the function closed over: these are `captured`.

    >>> graph = tinyfn.make_graph(lambda x: 2 * tnp.sin(x))(tnp.zeros(2))
    >>> print(graph.check())
    def _lambda(x: "float32[2]"):
        v2 = broadcast(const("2.0", "float32"), shape=(2,), axes=())  # float32[2]
        v3 = sin(x)  # float32[2]
        v4 = mul(v2, v3)  # float32[2]
        return (v4,)
    >>> graph.arguments, graph.avals(), graph.nodes()[-1]
    ((<input float32[2]>,), (Aval(dtype=dtype('float32'), shape=(2,)),), <mul float32[2]>)
    >>> graph.run([np.zeros(2, "float32")])
    [array([0., 0.], dtype=float32)]
    >>> graph.has_effects, graph.is_symbolic, graph.axis_names
    (False, False, frozenset())
    """

    __slots__ = ("_axis_names", "_derived", "_has_effects", "_plan", "captured", "inputs", "name", "outputs")

    def __init__(
        self, inputs: Iterable[UOp], outputs: Iterable[UOp], captured: Iterable[Any] = (), name: str = "graph"
    ):
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.captured = tuple(captured)
        self.name = name
        self._plan: Plan | None = None
        self._derived: dict[Any, Any] = {}
        self._has_effects: bool | None = None
        self._axis_names: frozenset[Any] | None = None

    @property
    def has_effects(self) -> bool:
        """Whether running it does more than to give its outputs."""
        if self._has_effects is None:
            self._has_effects = any(
                isinstance(node.op, Primitive)
                and node.op.family == "structured"
                and node.op.has_effects(node.params)
                for node in self.nodes()
            )
        return self._has_effects

    @property
    def is_symbolic(self) -> bool:
        """Whether a dimension of an input is symbolic."""
        return any(not isinstance(n, int) for node in self.inputs for n in node.shape)

    @property
    def axis_names(self) -> frozenset[Any]:
        """The named axes that its collectives are about: it can run only once a vmap for each has been applied to it."""
        if self._axis_names is None:
            self._axis_names = frozenset().union(
                *[
                    node.op.axis_names(node.params)
                    for node in self.nodes()
                    if isinstance(node.op, Primitive) and node.op.family in ("collective", "structured")
                ]
            )
        return self._axis_names

    @property
    def arguments(self) -> tuple[UOp, ...]:
        """The inputs that are not hidden."""
        return self.inputs[: len(self.inputs) - len(self.captured)]

    def nodes(self) -> list[UOp]:
        """All nodes, each after its sources."""
        return toposort(self.outputs)

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs for NumPy values of all inputs, one primitive at a time.

        Symbolic dimensions take their sizes from the values; raises ValueError if these contradict each other.

        >>> graph = tinyfn.make_graph(lambda x: (x + 1, x * 2))(tnp.zeros(2))
        >>> graph.run([np.array([1, 2], "float32")])
        [array([2., 3.], dtype=float32), array([2., 4.], dtype=float32)]
        """
        if self._plan is None:
            dimensions = [n for node in self.inputs for n in node.shape if not isinstance(n, int)]
            if dimensions:
                return self.bind(self.sizes(values)).run(values)
            self._plan = Plan(self.inputs, self.outputs)
        if switches.general_path and switches.checks_values():
            return run_once(self.outputs, dict(zip(self.inputs, values, strict=True)))
        return self._plan(values)

    def sizes(self, values: Sequence[Any]) -> dict[UOp, int]:
        """The size of each symbolic dimension, read off the values' shapes; raises ValueError if they contradict each other or
        the dimensions' bounds.

        >>> n = tinyfn.Variable("n", 1, 8)
        >>> graph = tinyfn.make_graph(tnp.sum)(tinyfn.ShapeDtypeStruct((n, 3), "float32"))
        >>> graph.sizes([np.zeros((5, 3), "float32")])
        {n: 5}
        """
        sizes: dict[UOp, int] = {}
        pairs = []
        for number, (node, v) in enumerate(zip(self.inputs, values, strict=True)):
            name = node.arg.name or f"argument {number}"
            if len(node.shape) != len(v.shape):
                raise ValueError(f"{self.name}: {name} has {len(v.shape)} axes, not {len(node.shape)}")
            pairs += [(name, *pair) for pair in zip(node.shape, v.shape, strict=True)]
        for name, dimension, size in pairs:
            if not isinstance(dimension, int) and dimension.op is sint.VARIABLE:
                low, high = sint.bounds(dimension)
                if not low <= size <= high or sizes.setdefault(dimension, size) != size:
                    wanted = (
                        f"is {sizes[dimension]} elsewhere"
                        if dimension in sizes
                        else f"must be in [{low}, {high}]"
                    )
                    raise ValueError(
                        f"{self.name}: dimension {dimension!r} is {size} in {name}, but it {wanted}"
                    )
        for name, dimension, size in pairs:
            expected = dimension if isinstance(dimension, int) else sint.evaluate(dimension, sizes)
            if expected != size:
                raise ValueError(
                    f"{self.name}: {name} has size {size} where the graph has {dimension!r} = {expected}"
                )
        return sizes

    def bind(self, sizes: Mapping[UOp, int]) -> Graph:
        """The same function with fixed sizes in the place of symbolic dimensions.

        >>> n = tinyfn.Variable("n", 1, 8)
        >>> graph = tinyfn.make_graph(tnp.sum)(tinyfn.ShapeDtypeStruct((n, 3), "float32"))
        >>> graph, graph.bind({n: 5})
        (<Graph sum(float32[n,3]) -> (float32[])>, <Graph sum(float32[5,3]) -> (float32[])>)
        """
        return self.derive(("bind", tuple(sizes.items())), lambda: self._bound(sizes))

    def _bound(self, sizes: Mapping[UOp, int]) -> Graph:
        new: dict[UOp, UOp] = {}
        for node in [*self.inputs, *self.nodes()]:
            if node.op is INPUT:
                new[node] = new.get(node) or input_node(node.dtype, fixed(node.shape, sizes), node.arg.name)
            elif isinstance(node.op, Primitive):
                new[node] = with_fixed_sizes(node, [new[s] for s in node.src], sizes)
            else:
                new[node] = output(new[node.src[0]], node.arg) if node.op is OUTPUT else node
        return Graph([new[n] for n in self.inputs], [new[n] for n in self.outputs], self.captured, self.name)

    def derive(self, key: Any, make: Callable[[], T]) -> T:
        """What `make` makes of this graph, made once and kept under the key; the least recently used is dropped first.

        >>> graph = tinyfn.make_graph(lambda x: x + 1)(1.0)
        >>> graph.derive("length", lambda: len(graph.nodes())), graph.derive("length", lambda: 0)
        (3, 3)
        """
        found: T | None = self._derived.pop(key, None)
        if found is None:
            found = make()
            if len(self._derived) >= MOST_DERIVED:
                self._derived.pop(next(iter(self._derived)), None)
        self._derived[key] = found
        return found

    def inline(self, arguments: Sequence[UOp]) -> list[UOp]:
        """The outputs with the inputs replaced by other nodes of the same dtypes and shapes.

        >>> graph = tinyfn.make_graph(lambda x: x + 1)(1.0)
        >>> outer = tinyfn.make_graph(lambda x: 2 * x)(1.0)
        >>> graph.inline(outer.outputs)
        [<add float32[]>]
        """
        return substitute(self.outputs, dict(zip(self.inputs, arguments, strict=True)))

    def avals(self) -> tuple[Aval, ...]:
        """The dtypes and shapes of the inputs."""
        return tuple([Aval(node.dtype, node.shape) for node in self.inputs])

    def check(self) -> Graph:
        """The graph itself, after checking each node's dtype and shape against its op's rule; raises TypeError."""
        known = set(self.inputs)
        if len(known) != len(self.inputs) or any(node.op is not INPUT for node in self.inputs):
            raise TypeError("a graph's inputs must be distinct input nodes")
        if len(self.captured) > len(self.inputs):
            raise TypeError("a graph can't have captured more arrays than it has inputs")
        for node in self.nodes():
            if node.op is INPUT:
                if node not in known:
                    raise TypeError(
                        f"{node!r} named {node.arg!r} is used but is not one of the graph's inputs"
                    )
            elif isinstance(node.op, Primitive):
                found = (node.dtype, node.shape)
                expected = node.op._infer(node.src, node.arg)
                if tuple(expected) != found:
                    raise TypeError(
                        f"{node!r} has dtype and shape {found}, but its op's rule gives {expected}"
                    )
            elif node.op is OUTPUT:
                source = node.src[0]
                if (source.dtype[node.arg], source.shape[node.arg]) != (node.dtype, node.shape):
                    raise TypeError(f"{node!r} is not result {node.arg} of {source!r}")
            elif node.op is not CONST:
                raise TypeError(f"{node!r} does not belong into a graph of arrays")
        return self

    def __str__(self) -> str:
        from .show import source

        return source(self)

    def __repr__(self) -> str:
        arguments = ", ".join(dtypes.describe(node.dtype, node.shape) for node in self.inputs)
        results = ", ".join(dtypes.describe(node.dtype, node.shape) for node in self.outputs)
        return f"<Graph {self.name}({arguments}) -> ({results})>"


def structure(value: Any) -> Any:
    """What compares equal for graphs that are the same but for their inputs, and for tuples with such graphs; else the value."""
    if isinstance(value, tuple):
        return tuple(map(structure, value))
    if not isinstance(value, Graph):
        return value
    number = {node: i for i, node in enumerate(value.inputs)}
    nodes: list[Any] = [(node.dtype, node.shape) for node in value.inputs]
    for node in value.nodes():
        if node not in number:
            number[node] = len(number)
            sources = tuple([number[s] for s in node.src])
            nodes.append((node.op, structure(node.arg), node.dtype, node.shape, sources))
    return Graph, tuple(nodes), tuple([number[node] for node in value.outputs])


def fixed(value: Any, sizes: Mapping[UOp, int]) -> Any:
    """A shape, or an op's parameter, with numbers in the place of symbolic dimensions."""
    if isinstance(value, tuple):
        return tuple([fixed(v, sizes) for v in value])
    if isinstance(value, Graph):
        return value.bind(sizes)
    return sint.substitute(value, sizes) if isinstance(value, UOp) else value


def with_fixed_sizes(node: UOp, sources: Sequence[UOp], sizes: Mapping[UOp, int]) -> UOp:
    """A primitive's node on other sources, with numbers in the place of symbolic dimensions."""
    params = {name: fixed(value, sizes) for name, value in node.params.items()}
    made: UOp = node.op.node(*sources, **params)
    return made


def split(outputs: Sequence[UOp], unknown: Sequence[UOp]) -> list[UOp]:
    """The residuals: the nodes that do not depend on `unknown` and that nodes which do, or the outputs, read directly.

    Constants, and broadcasts of them, are not residuals: they are cheaper to make again than to keep."""
    order = toposort(outputs)
    dependent = set(unknown)
    residuals: dict[UOp, None] = {}
    for node in order:
        if not dependent.isdisjoint(node.src):
            dependent.add(node)
    cheap: set[UOp] = set()
    for node in order:
        if node not in dependent and node.op is not INPUT and all(s in cheap for s in node.src):
            if node.op is CONST or node.op.family == "movement":
                cheap.add(node)
    for node in order:
        if node in dependent:
            for source in node.src:
                if source not in dependent and source not in cheap:
                    # A result of a node with several is kept on its own.
                    residuals[source] = None
    for node in outputs:
        if node not in dependent and node not in cheap:
            residuals[node] = None
    return list(residuals)
