"""Kernels as text for people: their loops, with the scalar expressions inside.

    parallel for o0 in 4096:
        reduce_max: float32 = -inf
        for i0 in 4096:
            reduce_max = max(reduce_max, x[4096*o0 + i0])

Arrays are called by the names of arguments, or by the primitive that makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import scalar, sint
from ..trace.uop import CONST, INPUT, UOp, toposort
from .index import LOAD, RESULT
from .nest import Host, Nest, Pass, Step, View, first_of
from .structure import structure

INDENT = "    "
# Expressions with more operations than this are cut into several lines.
LINE = 10


class Names:
    """Names of arrays and reductions: each has one, and no two the same."""

    def __init__(self, given: Iterable[tuple[UOp, str]] = ()):
        self._names: dict[UOp, str] = {}
        self._taken: dict[str, int] = dict.fromkeys(scalar.SCALAR_OPS, 1)  # which expressions call by name
        for node, name in given:
            self._names[node] = self._free(name)

    def __getitem__(self, node: UOp) -> str:
        if node not in self._names:
            bare = node.arg.name or "input" if node.op is INPUT else node.op.name.rstrip("_")
            self._names[node] = self._free(bare)
        return self._names[node]

    def _free(self, name: str) -> str:
        count = self._taken[name] = self._taken.get(name, 0) + 1
        return name if count == 1 else self._free(f"{name}_{count}")


def listing(step: Step | Nest, names: Names | None = None, one_by_one: bool = False) -> str:
    """The loops of a kernel or nest; with `one_by_one` each operation stands on a line of its own."""
    names = Names() if names is None else names
    limit = 0 if one_by_one else LINE
    if isinstance(step, Host):
        operands = ", ".join(_operand(source, names) for source in step.node.src)
        return f"{names[step.node]} = {step.node.op.name}({operands})  # by its reference\n"
    if isinstance(step, View):
        return f"{names[step.node]} = {names[step.source]}  # in another shape\n"
    if isinstance(step, Nest):
        return "\n".join(_nest(step, names, limit)) + "\n"
    lines: list[str] = []
    first: dict[Any, int] = {}  # parts that differ in their arrays only are shown once
    several = len(step.parts) > 1 or step.finish
    for number, part in enumerate(step.parts, 1):
        if several:
            key, arrays = structure(part)
            if key in first:
                lines.append(
                    f"part {number}: as part {first[key]}, on {', '.join(names[node] for node in arrays)}"
                )
                continue
            first[key] = number
            lines.append(f"part {number}, on {', '.join(names[node] for node in arrays)}:")
        lines += [f"{INDENT if several else ''}{line}" for line in _nest(part, names, limit)]
    for nest in step.finish:
        lines.append("then, by one thread:")
        lines += [INDENT + line for line in _nest(nest, names, limit)]
    return "\n".join(lines) + "\n"


def _operand(node: UOp, names: Names) -> str:
    return _constant(node) if node.op is CONST else names[node]


def _nest(nest: Nest, names: Names, limit: int) -> Iterator[str]:
    indent = ""
    for r in nest.outer:
        yield f"{indent}parallel for {r.arg[0]} in {sint.extent(r)!r}:"
        indent += INDENT
    for array in dict.fromkeys(store.node for each in nest.every() for store in each.stores):
        if array in nest.local:
            shape = array.shape[array.ndim - _inner_axes(nest, array) :]
            yield f"{indent}local {names[array]}: {dtypes.describe(array.dtype, shape)}"
    for each in nest.passes:
        yield from _pass(each, nest, names, limit, indent)


def _inner_axes(nest: Nest, array: UOp) -> int:
    """How many axes of a local array one point has: those behind the outer ones."""
    size: sint.Dimension = 1
    points: sint.Dimension = 1
    for each in nest.every():
        if any(store.node is array for store in each.stores):
            points = sint.prod(map(sint.extent, each.inner))
    for axes in range(array.ndim + 1):
        if size == points:
            return axes
        size = sint.mul(size, array.shape[array.ndim - 1 - axes] if axes < array.ndim else 1)
    return array.ndim


def _pass(each: Pass, nest: Nest, names: Names, limit: int, indent: str) -> Iterator[str]:
    for r in each.reductions:
        assert r.op.identity is not None
        first = np.asarray(r.op.identity(r.value.dtype), r.value.dtype)[()]
        yield f"{indent}{names[r.node]}: {r.value.dtype.name} = {first.item()!r}"
    for running in each.running:
        dtype = running.value.dtype
        yield f"{indent}{names[running.node]}: {dtype.name} = {first_of(running).item()!r}"
    for i in each.inner:
        yield f"{indent}for {i.arg[0]} in {sint.extent(i)!r}:"
        indent += INDENT
    for inside in each.passes:
        yield from _pass(inside, nest, names, limit, indent)
    texts = _Texts(names, limit)
    if each.running:
        terms = [term for running in each.running for term in running.terms]
        yield from (indent + line for line in texts.define([], terms))
        for running in each.running:
            name, value = names[running.node], texts[running.value]
            before = name if running.factor is None else f"{texts[running.factor]} * {name}"
            total = running.op.python.format(before, f"({value})")
            if running.factor is not None:
                total = f"{value} if {each.inner[0].arg[0]} == 0 else {total}"
            yield f"{indent}{name} = {total}"
    values = [store.value for store in each.stores] + [r.value for r in each.reductions]
    for line in texts.define([store.position for store in each.stores], values):
        yield indent + line
    for store in each.stores:
        yield f"{indent}{names[store.node]}[{texts[store.position]}] = {texts[store.value]}"
    for r in each.reductions:
        name, value = names[r.node], texts[r.value]
        if r.op.python.startswith("{0} "):
            sign = r.op.python.removeprefix("{0}").removesuffix("{1}").strip()
            yield f"{indent}{name} {sign}= {value}"
        elif r.op is scalar.MUL:
            yield f"{indent}{name} *= {value}"
        else:
            yield f"{indent}{name} = {r.op.python.format(name, value)}"


class _Texts:
    """The texts of expressions; those that are long, or used more than once, get a name of their own first."""

    def __init__(self, names: Names, limit: int):
        self._names, self._limit = names, limit
        self._text: dict[UOp, tuple[str, int]] = {}

    def __getitem__(self, node: UOp) -> str:
        return self._text[node][0]

    def define(self, positions: Sequence[UOp], values: Sequence[UOp]) -> Iterator[str]:
        """The lines that name what needs a name."""
        order = toposort([*positions, *values])
        uses: dict[UOp, int] = {}
        for node in order:
            for source in node.src:
                uses[source] = uses.get(source, 0) + 1
        for node in values:
            uses[node] = uses.get(node, 0) + 1
        index = set(toposort(positions))  # what positions are made of is never cut into lines
        for node in order:
            if node.op is LOAD:
                index.update(toposort(node.src))
        size: dict[UOp, int] = {}
        count = 0
        for node in order:
            text, precedence = self._of(node)
            size[node] = 1 + sum(size[s] for s in node.src if s not in index)
            if isinstance(node.op, scalar.ScalarOp) and node not in index and node.dtype is not None:
                if uses[node] > 1 or size[node] > self._limit:
                    name = f"t{count}"
                    count += 1
                    yield (
                        f"{name}: {dtypes.name(node.dtype)} = {text}"
                        if self._limit == 0
                        else f"{name} = {text}"
                    )
                    text, precedence, size[node] = name, 100, 1
            self._text[node] = text, precedence

    def _of(self, node: UOp) -> tuple[str, int]:
        op = node.op
        if op is CONST:
            return _constant(node), 100
        if op is LOAD:
            element = f"{self._names[node.arg]}[{self[node.src[0]]}]"
            return (
                (element, 100) if len(node.src) == 1 else (f"({element} if {self[node.src[1]]} else 0)", 100)
            )
        if op is RESULT:
            return self._names[node.arg], 100
        if not isinstance(op, scalar.ScalarOp):
            return repr(node), 100
        operands = []
        src = node.src
        if op is scalar.MUL and src[1].op is CONST:
            if src[1].value == -1:
                text, precedence = self._text[src[0]]
                return f"-{text}" if precedence >= op.precedence and text[
                    0
                ] != "-" else f"-({text})", op.precedence
            src = src[::-1]
        for i, source in enumerate(src):
            text, precedence = self._text[source]
            regroups = source.op is op and op.associative and not dtypes.is_float(node.dtype)
            # Python reads a < b == c as two comparisons of b.
            chained = precedence == op.precedence and not op.comparison and (i == 0 or regroups)
            operands.append(
                f"({text})" if op.precedence < 100 and precedence <= op.precedence and not chained else text
            )
        if op is scalar.ADD and operands[1].startswith("-") and operands[1] != "-inf":
            return f"{operands[0]} - {operands[1][1:]}", op.precedence
        return op.python.format(*operands, dtype=dtypes.name(node.dtype)), op.precedence


def _constant(node: UOp) -> str:
    value: Any = node.value
    return repr(value.item()) if node.dtype not in (dtypes.bfloat16, dtypes.float16) else repr(float(value))
