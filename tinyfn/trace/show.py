"""Printing a graph as Python source that can be run: one line for each operation, calling the primitive by name."""

from __future__ import annotations

from keyword import iskeyword
from typing import Any

import numpy as np

from . import dtype as dtypes
from . import finite
from .graph import Graph
from .prim import REGISTRY, Aval
from .uop import CONST, INPUT, OUTPUT, UOp


def source(graph: Graph) -> str:
    """The graph as a Python function of the same name; the graphs that it holds come first, as functions of their own.

    `run_source` (or exec with the names of `namespace()`) makes the function again."""
    definitions: dict[Graph, str] = {}
    lines: list[str] = []
    _define(graph, definitions, lines, graph)
    return "\n".join(lines)


def namespace() -> dict[str, Any]:
    """The names that printed graphs use: `dtype(name)`, `const(value, dtype)`, `@graph` and the primitives."""
    from .operators import scalar
    from .prims.extern import ARGSORT
    from .tracing import trace_function

    def graph(function: Any) -> Graph:
        """The graph of a function whose parameters are annotated with their dtypes and shapes."""
        avals = []
        for described in function.__annotations__.values():
            name, _, sizes = described.rstrip("]").partition("[")
            avals.append(Aval(dtypes.canonical(name), tuple([int(n) for n in sizes.split(",") if n])))
        return trace_function(function, "make_graph", avals, lambda tracers: (tuple(tracers), {})).graph

    def const(text: str, dtype: str) -> Any:
        parsed = np.asarray(
            complex(text) if dtype.startswith("complex") else float(text) if "float" in dtype else int(text)
        )
        return scalar(parsed.astype(dtypes.canonical(dtype)).reshape(()), dtypes.canonical(dtype))

    named = {_name(primitive.name): primitive for primitive in REGISTRY.values()}
    return {**named, "dtype": dtypes.canonical, "const": const, "argsort_function": ARGSORT, "graph": graph}


def run_source(text: str, name: str) -> Any:
    """The function `name` that printed source defines."""
    scope = namespace()
    exec(compile(text, f"<graph {name}>", "exec", dont_inherit=True), scope)
    return scope[name]


def _name(name: str) -> str:
    """Primitives with the name of a Python builtin or keyword get an underscore, so that the source can be read alone."""
    return f"{name}_" if name in ("slice", "max", "min", "abs", "pow", "round", "complex") else name


def _identifier(name: str, taken: set[str]) -> str:
    base = "".join(c if c.isalnum() or c == "_" else "_" for c in name).strip("_") or "x"
    base = f"_{base}" if base[0].isdigit() or iskeyword(base) else base
    candidate, count = base, 1
    while candidate in taken:
        count += 1
        candidate = f"{base}_{count}"
    taken.add(candidate)
    return candidate


def _define(graph: Graph, definitions: dict[Graph, str], lines: list[str], outermost: Graph) -> str:
    if graph in definitions:
        return definitions[graph]
    scope = namespace()
    order = graph.nodes()
    inner = {}
    for node in order:
        if node.op not in (INPUT, CONST, OUTPUT):
            for value in node.params.values():
                for held in value if isinstance(value, tuple) else (value,):
                    if isinstance(held, Graph):
                        inner[held] = _define(held, definitions, lines, outermost)
    name = _identifier(graph.name, set(definitions.values()) | set(scope))
    definitions[graph] = name
    taken = {*scope, *definitions.values()}
    names: dict[UOp, str] = {}
    hidden = len(graph.inputs) - len(graph.captured)
    for i, node in enumerate(graph.inputs):
        fallback = f"x{i}" if i < hidden else f"captured{i - hidden}"
        names[node] = _identifier(node.arg.name or fallback, taken)
    arguments = ", ".join(f'{names[n]}: "{dtypes.describe(n.dtype, n.shape)}"' for n in graph.inputs)
    if outermost is not graph:
        lines.append("@graph")
    lines.append(f"def {name}({arguments}):")
    for node in order:
        if node.op is INPUT:
            continue
        if node.op is CONST:
            names[node] = f'const("{_literal(node)}", "{dtypes.name(node.dtype)}")'
            continue
        if node.op is OUTPUT:
            names[node] = f"{names[node.src[0]]}[{node.arg}]"
            continue
        names[node] = _identifier(f"v{len(names)}", taken)
        parts = [names[s] for s in node.src] + [f"{k}={_parameter(v, inner)}" for k, v in node.params.items()]
        described = "" if isinstance(node.dtype, tuple) else f"  # {dtypes.describe(node.dtype, node.shape)}"
        if within := finite.scope_of(node):
            described = f"{described}, in {within}" if described else f"  # in {within}"
        lines.append(f"    {names[node]} = {_name(node.op.name)}({', '.join(parts)}){described}")
    results = "".join(f"{names[node]}, " for node in graph.outputs)
    lines.append(f"    return ({results.rstrip(' ') if len(graph.outputs) == 1 else results.rstrip(', ')})")
    lines.append("")
    return name


def _literal(node: UOp) -> str:
    value = node.value
    if node.dtype is dtypes.key:
        return str(value.item()[0])
    if node.dtype.kind == "b":
        return str(int(value))
    return repr(float(value)) if "float" in node.dtype.name else str(value)


def _parameter(value: Any, inner: dict[Graph, str]) -> str:
    if isinstance(value, Graph):
        return inner[value]
    if hasattr(value, "call") and hasattr(value, "name"):  # a host function, which is a tuple too
        return f"{value.name}_function"
    if isinstance(value, tuple):
        return f"({', '.join([_parameter(v, inner) for v in value])}{',' if len(value) == 1 else ''})"
    if isinstance(value, np.dtype):
        return f'dtype("{dtypes.name(value)}")'
    return repr(value)
