"""Loops outside of `jit`: compiled where that is less work than to run them step by step.

Each call of `scan` traces its body again, so programs are kept by the structure of the graphs. Whether a loop is compiled depends
on nothing but the loop itself and its arguments, so that a call gives the same bits each time."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..trace import switches
from ..trace.graph import Graph, structure
from ..trace.prim import Primitive
from ..trace.uop import CONST, INPUT, input_node

# Operations of NumPy, each about a microsecond, that are done before a loop is compiled, which takes some tens of milliseconds
# (less, when the code is found on disk).
WORTH_IT = 2000
# Elements of an array that NumPy works on in about as long as it takes to call it.
_ELEMENTS = 1000
MOST_KEPT = 128

_kept: dict[Any, Any] = {}


def work(*graphs: Graph) -> int:
    """About how many operations of NumPy on small arrays it is to run these graphs once."""
    nodes = [node for graph in graphs for node in graph.nodes() if node.op not in (CONST, INPUT)]
    shapes = [s for node in nodes for s in (node.shape if isinstance(node.dtype, tuple) else (node.shape,))]
    return len(nodes) + sum(prod(shape) for shape in shapes) // _ELEMENTS


def is_compiled(op: Primitive, params: dict[str, Any]) -> bool:
    """Whether an op that holds graphs may be compiled here."""
    from .executable import is_compiled_for_cpu

    if not is_compiled_for_cpu() or switches.disable_jit.is_on or switches.checks_values():
        return False
    return not op.has_effects(params)


def run_compiled(op: Any, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The results of an op that holds graphs, by a program."""
    from .executable import Executable

    key = op, structure(tuple(params.values())), tuple([(a.dtype, a.shape) for a in args])
    executable = _kept.pop(key, None)
    if executable is None:
        inputs = [input_node(a.dtype, a.shape) for a in args]
        executable = Executable(Graph(inputs, op.apply(*inputs, **params), name=op.name))
        executable.prepare()
        if len(_kept) >= MOST_KEPT:
            _kept.pop(next(iter(_kept)), None)
    _kept[key] = executable
    found: list[Any] = executable.run(list(args))
    return found
