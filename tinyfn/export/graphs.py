"""Graphs as data, and back. A graph is its inputs, its operations in order, and which of these are its outputs:

    {"name": "f", "inputs": [["float32", ["n", 4], "x"]], "outputs": [2],
     "nodes": [["const", 2.0, "float32[]"], ["mul", [0, 1], "float32[n,4]", {...parameters}]]}

Inputs and nodes are numbered in one row. Graphs that operations hold come before those operations' graphs in the file's list, so
that nothing in it can refer to itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import sint
from ..trace.graph import Graph
from ..trace.prim import REGISTRY, Primitive
from ..trace.uop import CONST, INPUT, OUTPUT, UOp, input_node, output
from ..transforms.custom_ops import Rules
from .checks import check_node
from .errors import ExportError
from .values import (
    MOST_LATE,
    MissingRules,
    Reader,
    Writer,
    check_shape,
    decode_constant,
    decode_parameter,
    encode_constant,
    encode_parameter,
)

MOST_NESTED = 64  # graphs within graphs
MOST_NODES = 10_000_000  # with the contents of graphs in the place of each operation that holds them


def held_graphs(node: UOp) -> list[Graph]:
    """The graphs that a node's parameters hold."""
    held = []
    for value in node.arg or ():
        if isinstance(value, Rules):
            value = () if isinstance(value, MissingRules) else value.graphs
        held += [each for each in (value if type(value) is tuple else (value,)) if isinstance(each, Graph)]
    return held


class GraphWriter:
    """Encodes a graph and those that it holds, each once."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.variables: dict[str, UOp] = {}
        self.versions: dict[str, int] = {}
        self._index: dict[Graph, int] = {}
        self._depth = self._late = 0
        self._writer = Writer(self._rules, self.add, self._array, self.dimension)

    def add(self, graph: Graph) -> int:
        """The number of a graph in the file; raises ExportError for one that can't be written."""
        found = self._index.get(graph)
        if found is not None:
            return found
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise ExportError(f"graphs are nested more than {MOST_NESTED} deep in {graph.name}")
        numbers = {node: i for i, node in enumerate(graph.inputs)}
        inputs = [
            [dtypes.name(n.dtype), [self._size(d) for d in n.shape], *([n.arg.name] if n.arg.name else [])]
            for n in graph.inputs
        ]
        nodes = []
        for node in graph.nodes():
            if node.op is not INPUT:
                nodes.append(self._node(graph, node, numbers))
                numbers[node] = len(numbers)
        self._depth -= 1
        data = {"name": graph.name, "inputs": inputs, "nodes": nodes}
        self.graphs.append({**data, "outputs": [numbers[node] for node in graph.outputs]})
        self._index[graph] = len(self.graphs) - 1
        return self._index[graph]

    def _node(self, graph: Graph, node: UOp, numbers: Mapping[UOp, int]) -> list[Any]:
        if node.op is CONST:
            return ["const", encode_constant(node), type_text(node)]
        sources = [numbers[s] for s in node.src]
        if node.op is OUTPUT:
            return ["output", [*sources, node.arg], type_text(node)]
        name = node.op.name
        for dimension in _dimensions(node):
            self.dimension(dimension)
        if name == "extern" and not node.src:  # a constant by another name
            parameters: Any = {"function": {"array": self._array(node.op.executor(node.arg)())}}
        else:
            try:
                parameters = {k: encode_parameter(v, self._writer) for k, v in node.params.items()}
            except ExportError as error:
                if str(error).startswith("export of "):
                    raise
                raise ExportError(
                    f"export of {graph.name}: the operation {name} can't be written: {error}"
                ) from None
        self.versions[name] = node.op.version
        return [name, sources, type_text(node), *([parameters] if parameters else [])]

    def _rules(self, rules: Rules) -> list[int] | None:
        """The numbers of a custom function's rules; None for those of calls in its own rules, from some depth on."""
        if isinstance(rules, MissingRules) or (rules.is_late and self._late == MOST_LATE):
            return None
        self._late += rules.is_late
        numbers = [self.add(graph) for graph in rules.graphs]
        self._late -= rules.is_late
        return numbers

    def _array(self, value: np.ndarray) -> str:
        name = f"constant{len(self.arrays)}"
        self.arrays[name] = np.asarray(value)
        return name

    def _size(self, dimension: Any) -> int | str:
        return dimension if isinstance(dimension, int) else self.dimension(dimension)

    def dimension(self, dimension: UOp) -> str:
        """The text of a symbolic dimension, whose variables are then in the file."""
        for variable in sint.variables([dimension]):
            name = variable.arg[0]
            if not name.isidentifier() or self.variables.setdefault(name, variable) is not variable:
                raise ExportError(
                    f"the symbolic dimension {name!r} needs a name that is an identifier, and the same bounds everywhere"
                )
        return repr(dimension)


def _dimensions(node: UOp) -> list[UOp]:
    shapes: Sequence[Any] = node.shape if isinstance(node.dtype, tuple) else (node.shape,)
    return [n for shape in shapes for n in shape if not isinstance(n, int)]


def type_text(node: UOp) -> Any:
    """A node's dtype and shape as text, or a list of them for one of several results."""
    if isinstance(node.dtype, tuple):
        return [dtypes.describe(d, s) for d, s in zip(node.dtype, node.shape, strict=True)]
    return dtypes.describe(node.dtype, node.shape)


class GraphReader:
    """Decodes the graphs of a file, in order. Every dtype and shape is worked out anew by the operations' own rules."""

    def __init__(
        self, versions: Mapping[str, Any], arrays: Mapping[str, np.ndarray], variables: Mapping[str, UOp]
    ):
        self._reader = Reader([], arrays, variables)
        self.array = self._reader.array
        self._primitives = {name: _primitive(name, version) for name, version in versions.items()}
        self._sizes: dict[Graph, tuple[int, int]] = {}  # nodes with those of held graphs, and the nesting

    def add(self, data: Any) -> Graph:
        """The next graph of the file; raises ExportError that names the node at fault."""
        number = len(self._reader.graphs)
        name, inputs, nodes, outputs = fields(
            data, f"graph {number}", {"name": str, "inputs": list, "nodes": list, "outputs": list}
        )
        row = [self._input(each, f"input {i} of graph {number}") for i, each in enumerate(inputs)]
        count = len(row)
        expanded, nesting = len(nodes), 0
        for i, each in enumerate(nodes):
            where = f"node {count + i} of graph {number} ({name[:40]!r})"
            try:
                node = self._node(each, row)
            except Exception as error:  # whatever a rule does with what it is not made for
                said = str(error) or type(error).__name__
                raise ExportError(f"{where}, {str(each)[:80]}: {said}") from None
            row.append(node)
            for graph in held_graphs(node) if isinstance(node.op, Primitive) else ():
                size, depth = self._sizes[graph]
                expanded, nesting = expanded + size, max(nesting, depth + 1)
        if expanded > MOST_NODES or nesting > MOST_NESTED:
            raise ExportError(
                f"graph {number} has {expanded} operations, nested {nesting} deep, which is too much"
            )
        found = [number_in(row, each, f"outputs of graph {number}") for each in outputs]
        if any(isinstance(node.dtype, tuple) for node in found):
            raise ExportError(f"graph {number} has an output that is several results")
        graph = Graph(row[:count], found, name=name)
        self._sizes[graph] = expanded, nesting
        self._reader.graphs.append(graph)
        return graph

    def _input(self, data: Any, where: str) -> UOp:
        if not isinstance(data, list) or len(data) not in (2, 3) or not isinstance(data[1], list):
            raise ExportError(f"{where} is not a dtype, a shape and a name")
        dtype, shape = self._reader.dtype(data[0]), tuple([self._reader.dimension(n) for n in data[1]])
        check_shape(dtype, shape)
        name = data[2] if len(data) == 3 else None
        if name is not None and not isinstance(name, str):
            raise ExportError(f"{where} has a name that is no text")
        return input_node(dtype, shape, name)

    def _node(self, data: Any, row: Sequence[UOp]) -> UOp:
        if not isinstance(data, list) or len(data) not in (3, 4) or not isinstance(data[0], str):
            raise ExportError("it is not a list of an operation, its arguments, its type and its parameters")
        name, sources, described, *rest = data
        parameters = rest[0] if rest else {}
        if name == "const":
            dtype_name, _, shape = str(described).partition("[")
            node = decode_constant(sources, self._reader.dtype(dtype_name))
            if shape != "]" or parameters:
                raise ExportError("a constant is a single number")
            return node
        if not isinstance(sources, list):
            raise ExportError("its arguments are not a list of numbers")
        if name == "output":
            node = _result(sources, row)
        else:
            if name not in self._primitives:
                raise ExportError(f"the operation {name!r} is not in the file's list of primitives")
            op, args = self._primitives[name], [number_in(row, each, "its arguments") for each in sources]
            if any(isinstance(arg.dtype, tuple) for arg in args):
                raise ExportError("an argument is several results")
            if not isinstance(parameters, dict) or sorted(parameters) != sorted(op.params):
                raise ExportError(f"its parameters are not {', '.join(op.params) or 'none'}")
            node = op.node(*args, **{k: decode_parameter(v, self._reader) for k, v in parameters.items()})
            check_node(node)
        several: Any = node.dtype
        types = (
            zip(several, node.shape, strict=True) if isinstance(several, tuple) else [(several, node.shape)]
        )
        for dtype, size in types:
            check_shape(self._reader.dtype(dtypes.name(dtype)), size)
        if type_text(node) != described:
            raise ExportError(f"it is said to be {described}, but is {type_text(node)}")
        return node


def _result(sources: list[Any], row: Sequence[UOp]) -> UOp:
    if len(sources) != 2 or type(sources[1]) is not int:
        raise ExportError("an output is of an operation, and has a number")
    node = number_in(row, sources[0], "its arguments")
    if not isinstance(node.dtype, tuple) or not 0 <= sources[1] < len(node.dtype):
        raise ExportError(f"there is no result {sources[1]} of {node!r}")
    return output(node, sources[1])


def number_in(row: Sequence[UOp], data: Any, what: str) -> UOp:
    """The node of a number; raises ExportError if it is not one of those before."""
    if type(data) is not int or not 0 <= data < len(row):
        raise ExportError(f"{what}: {str(data)[:40]} is not the number of a node before it")
    return row[data]


def fields(data: Any, what: str, kinds: Mapping[str, type]) -> list[Any]:
    """The values of an object that has these fields, each of its type, and no others; raises ExportError."""
    if not isinstance(data, dict) or data.keys() != kinds.keys():
        raise ExportError(f"{what} needs the fields {', '.join(kinds)}")
    for name, kind in kinds.items():
        if type(data[name]) is not kind:
            raise ExportError(f"{what}: {name} is not of type {kind.__name__}")
    return [data[name] for name in kinds]


def _primitive(name: str, version: Any) -> Primitive:
    if name not in REGISTRY:
        _load_all()
    op = REGISTRY.get(name)
    if op is None:
        raise ExportError(
            f"the operation {name!r} is not known here: a newer tinyfn, or a library, made the file"
        )
    if op.family == "collective":
        raise ExportError(
            f"the operation {name!r} is about the lanes of a vmap, and a file is a whole function"
        )
    if version != op.version:
        raise ExportError(
            f"version {str(version)[:40]} of the operation {name!r} is not known here, but {op.version}"
        )
    return op


def _load_all() -> None:
    """Import the modules of primitives that are imported only where they are used."""
    from importlib import import_module
    from pkgutil import iter_modules

    from ..trace import prims

    for module in iter_modules(prims.__path__):
        import_module(f"{prims.__name__}.{module.name}")
