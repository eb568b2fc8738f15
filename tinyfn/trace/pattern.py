"""Patterns: what a node, and some of what is below it, must be for a rewrite rule to apply.

A pattern is compiled to straight Python source, which `.source` shows. Rules, and the walks that apply them, are in
`rewrite`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import dtype as dtypes
from .dtype import DType
from .uop import CONST, UOp, const


class Pattern:
    """What a node must be for a rule to apply.

    `op` is one op, several, or None for any. `sources` is a sequence of patterns (in any order where every op
    given is commutative, or as `any_order` says), `repeated(pattern)` for any number of sources that all
    match, or None for any. `dtype` is a dtype, several, or a predicate on dtypes; `arg` is a value or a
    predicate on the node's arg. `name` binds the node for the rule; a name that occurs twice must be the same
    node both times."""

    __slots__ = ("_matcher", "all_sources", "any_order", "arg", "dtypes", "name", "ops", "sources", "value")

    def __init__(
        self,
        op: Any = None,
        sources: Sequence[Pattern] | _Repeated | None = None,
        *,
        name: str | None = None,
        dtype: Any = None,
        arg: Any = None,
        any_order: bool | None = None,
    ):
        if op is not None and not isinstance(op, (tuple, list, set, frozenset)):
            op = (op,)
        self.ops: tuple[Any, ...] | None = None if op is None else tuple(op)
        self.all_sources = sources.pattern if isinstance(sources, _Repeated) else None
        self.sources = None if sources is None or isinstance(sources, _Repeated) else tuple(sources)
        self.name = name
        self.dtypes: frozenset[Any] | None = None if dtype is None else frozenset(_members(dtype))
        self.arg = arg
        self.value: Any = None
        if any_order is None:
            any_order = bool(self.ops) and all(getattr(o, "commutative", False) for o in self.ops or ())
        self.any_order = any_order
        self._matcher: Compiled | None = None

    def __repr__(self) -> str:
        if self.value is not None:
            described = repr(self.value)
        elif self.ops is None:
            described = "_"
        else:
            described = "|".join(o.name for o in self.ops)
        if self.sources is not None:
            described += f"({', '.join(map(repr, self.sources))})"
        elif self.all_sources is not None:
            described += f"({self.all_sources!r}...)"
        return f"{self.name}:{described}" if self.name and described != "_" else self.name or described

    @property
    def source(self) -> str:
        """The Python that the pattern is compiled to."""
        return _matcher(self).source


class _Repeated(NamedTuple):
    pattern: Pattern


def _members(dtype: Any) -> Iterable[DType]:
    if isinstance(dtype, np.dtype):
        return (dtype,)
    return [d for d in dtypes.ALL if dtype(d)] if callable(dtype) else dtype


def anything(name: str | None = None, **conditions: Any) -> Pattern:
    """A pattern that any node matches, if it meets the conditions (`dtype`, `arg`)."""
    return Pattern(name=name, **conditions)


def constant(value: Any = None, name: str | None = None, *, dtype: Any = None) -> Pattern:
    """A constant; of this value if one is given, bit for bit (0.0 is not -0.0).

    An int stands for that integer modulo the width of an integer dtype (-1: all ones) and for that number in
    a float dtype; a float only for a float, a bool only for a bool."""
    pattern = Pattern(CONST, name=name, dtype=dtype)
    pattern.value = value
    return pattern


def repeated(pattern: Pattern) -> _Repeated:
    """Any number of sources, each of which matches the pattern (which can bind no names)."""
    return _Repeated(pattern)


def match(pattern: Pattern, node: UOp) -> dict[str, UOp] | None:
    """The nodes that the pattern's names stand for in this node, or None if it doesn't match."""
    return _matcher(pattern).run(node)


# Compilation of patterns. The work still to do is a list of (pattern, variable); each alternative order of
# the sources gets its own copy of the code for the rest, so that a match which fails later, or a rule that
# returns None, goes on with the next order.


class Compiled(NamedTuple):
    """What a pattern was compiled to, and the Python source of it."""

    run: Callable[[UOp], Any]
    source: str


def _matcher(pattern: Pattern) -> Compiled:
    if pattern._matcher is None:
        pattern._matcher = compile_pattern(pattern, dict)
    return pattern._matcher


def compile_pattern(pattern: Pattern, function: Callable[..., Any]) -> Compiled:
    """From a node to what `function` gives for the nodes that the pattern names in it, or None; order after order is tried."""
    scope: dict[str, Any] = {"function": function}
    lines = ["def run(n):"]
    _emit([(pattern, "n")], {}, 1, lines, scope)
    source = "\n".join(lines) + "\n"
    exec(compile(source, f"<pattern {pattern!r}>", "exec"), scope)
    return Compiled(scope["run"], source)


def _emit(
    todo: list[tuple[Pattern, str]],
    bound: dict[str, str],
    depth: int,
    lines: list[str],
    scope: dict[str, Any],
) -> None:
    indent = "    " * depth

    def shared(kind: str, value: Any) -> str:
        name = f"{kind}{len(scope)}"
        scope[name] = value
        return name

    if not todo:
        keywords = ", ".join(f"{name}={variable}" for name, variable in bound.items())
        lines.append(f"{indent}result = function({keywords})")
        lines.append(f"{indent}if result is not None: return result")
        return
    (pattern, variable), todo = todo[0], todo[1:]
    tests = []
    if pattern.ops is not None and len(pattern.ops) == 1:
        tests.append(f"{variable}.op is {shared(_identifier(pattern.ops[0]), pattern.ops[0])}")
    elif pattern.ops is not None:
        tests.append(f"{variable}.op in {shared('ops', frozenset(pattern.ops))}")
    if pattern.dtypes is not None:
        tests.append(f"{variable}.dtype in {shared('dtypes', pattern.dtypes)}")
    if pattern.value is not None:
        tests.append(f"{variable} is {shared('value', _constant_of(pattern.value))}({variable}.dtype)")
    if pattern.arg is not None:
        argument = shared("arg", pattern.arg)
        tests.append(
            f"{argument}({variable}.arg)" if callable(pattern.arg) else f"{variable}.arg == {argument}"
        )
    if pattern.all_sources is not None:
        inner = _matcher(pattern.all_sources).run
        tests.append(f"all([{shared('each', inner)}(s) is not None for s in {variable}.src])")
    if pattern.sources is not None:
        tests.append(f"len({variable}.src) == {len(pattern.sources)}")
    if pattern.name is not None:
        if pattern.name in bound:
            tests.append(f"{variable} is {bound[pattern.name]}")
        bound = {pattern.name: variable, **bound}
    if tests:
        lines.append(f"{indent}if {' and '.join(tests)}:")
        depth, indent = depth + 1, indent + "    "
    if not pattern.sources:
        _emit(todo, bound, depth, lines, scope)
        return
    names = [f"{variable}_{i}" for i in range(len(pattern.sources))]
    lines.append(f"{indent}{', '.join(names)}, = {variable}.src")
    for order in _orders(pattern):
        _emit([*zip(order, names, strict=True), *todo], bound, depth, lines, scope)


def _orders(pattern: Pattern) -> list[tuple[Pattern, ...]]:
    """The orders in which the patterns may meet the sources, without repeats of equal ones."""
    assert pattern.sources is not None
    if not pattern.any_order:
        return [pattern.sources]
    return list(dict.fromkeys(itertools.permutations(pattern.sources)))


def _identifier(op: Any) -> str:
    return "".join(c if c.isalnum() else "_" for c in f"op_{op.name}_")


def _constant_of(value: Any) -> Callable[[DType], UOp | None]:
    """From a dtype to the constant node of this value, or None where the value is of another kind."""
    nodes: dict[DType, UOp | None] = {}

    def constant_of(dtype: DType) -> UOp | None:
        if dtype not in nodes:
            kind = dtypes.kind(dtype)
            if type(value) is bool or kind == "bool":
                fits = type(value) is bool and kind == "bool"
            else:
                fits = kind in ("float", "complex") or type(value) is int
            wrap = value % (1 << 8 * dtype.itemsize) if fits and kind == "unsigned" else value
            nodes[dtype] = const(wrap, dtype) if fits else None
        return nodes[dtype]

    return constant_of


def may_match(pattern: Pattern, op: Any, source_ops: Sequence[Any] | None) -> bool:
    """Whether a node of this op, and sources of these ops (None: not known), can match as far as ops tell."""
    if pattern.ops is not None and op not in pattern.ops:
        return False
    if source_ops is None:
        return True
    if pattern.all_sources is not None and pattern.all_sources.ops is not None:
        return all(o in pattern.all_sources.ops for o in source_ops)
    if pattern.sources is None:
        return True
    return len(pattern.sources) == len(source_ops) and any(
        all(p.ops is None or o in p.ops for p, o in zip(order, source_ops, strict=True))
        for order in _orders(pattern)
    )
