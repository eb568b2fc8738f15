"""What an operation's rule for its result does not ask of graphs that are for its derivatives: files may have any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..trace import dtype as dtypes
from ..trace.graph import Graph
from ..trace.uop import UOp
from ..transforms.batching_rules import custom_vmap_call
from ..transforms.custom_ops import Rules, custom_jvp_call, custom_vjp_call
from ..transforms.linear_solve import linear_solve
from ..transforms.structured import checkpoint_call
from .errors import ExportError
from .values import MissingRules


def _types(nodes: Sequence[Any]) -> list[Any]:
    return [(node.dtype, node.shape) for node in nodes]


def _inexact(nodes: Sequence[Any]) -> list[Any]:
    return [(n.dtype, n.shape) for n in nodes if dtypes.is_inexact(n.dtype)]


def _is_call(args: Sequence[UOp], label: Any, count: Any) -> bool:
    return isinstance(label, str) and type(count) is int and 0 <= count <= len(args)


def _custom_jvp(args: Sequence[UOp], *, graph: Graph, rules: Rules, count: int, label: str) -> bool:
    if not _is_call(args, label, count):
        return False
    if isinstance(rules, MissingRules):
        return True
    (rule,) = rules.graphs
    inputs = [*_types(args[:count]), *_inexact(args[:count]), *_types(args[count:])]
    return _types(rule.inputs) == inputs and _types(rule.outputs) == _inexact(graph.outputs)


def _custom_vjp(args: Sequence[UOp], *, graph: Graph, rules: Rules, count: int, label: str) -> bool:
    if not _is_call(args, label, count):
        return False
    if isinstance(rules, MissingRules):
        return True
    forward, backward = rules.graphs
    results = len(graph.outputs)
    residuals = _types(forward.outputs[results:])
    return (
        _types(forward.inputs) == _types(args)
        and _types(forward.outputs[:results]) == _types(graph.outputs)
        and _types(backward.inputs) == [*residuals, *_inexact(graph.outputs), *_types(args[count:])]
        and _types(backward.outputs) == _inexact(args[:count])
    )


def _checkpoint(args: Sequence[UOp], *, graph: Graph, policy: Any, prevent_cse: Any) -> bool:
    return policy is None and type(prevent_cse) is bool


def _linear_solve(
    args: Sequence[UOp], *, matvec: Graph, solve: Graph, vecmat: Any, transpose_solve: Any, constants: Any
) -> bool:
    if type(constants) is not int or not 0 <= constants <= len(args):
        return False
    right = _types(args[constants:])
    solved = _types(solve.outputs[: len(right)]) == _types(matvec.outputs) == right
    if vecmat is None and transpose_solve is None:
        return solved
    return (
        solved
        and isinstance(vecmat, Graph)
        and isinstance(transpose_solve, Graph)
        and _types(vecmat.inputs) == _types(transpose_solve.inputs) == _types(args)
        and _types(vecmat.outputs) == _types(transpose_solve.outputs[: len(right)]) == right
    )


def _custom_vmap(args: Sequence[UOp], *, graph: Graph, rule: Any, label: Any) -> bool:
    return rule is None and isinstance(label, str)


_CHECKS: dict[Any, Callable[..., bool]] = {
    custom_jvp_call: _custom_jvp,
    custom_vjp_call: _custom_vjp,
    checkpoint_call: _checkpoint,
    custom_vmap_call: _custom_vmap,
    linear_solve: _linear_solve,
}


def check_node(node: UOp) -> None:
    """Raise ExportError if what a node holds for its derivatives does not fit it."""
    check = _CHECKS.get(node.op)
    if check is not None and not check(node.src, **node.params):
        raise ExportError("what it holds for its derivatives does not fit it")
