"""Indices: how a position moves with the ranges, the steps along those that it is linear in; other ranges in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..trace import dtype as dtypes
from ..trace import scalar as s
from ..trace import sint
from ..trace.elements import as_node
from ..trace.uop import CONST, UOp, make, rebuild, toposort
from .index import LOAD


class Linear(NamedTuple):
    """A position's steps along ranges, the ranges on which it depends in another way, and its constant term.

    `is_all`: these steps and the constant are all of it; it is not, for one, the position of an element that data chooses."""

    steps: Mapping[UOp, int]
    other: frozenset[UOp]
    constant: int
    is_all: bool

    def along(self, r: UOp) -> int | None:
        """By how much the position grows when the range does by one, or None if that is not the same everywhere."""
        return None if r in self.other else self.steps.get(r, 0)


def linear(position: UOp) -> Linear:
    """The linear form of a position in canonical form (`trace.sint`), a sum of terms."""
    steps: dict[UOp, int] = {}
    other: set[UOp] = set()
    terms, constant, is_all = [position], 0, True
    while terms:
        term = terms.pop()
        if term.op is s.ADD:
            terms += term.src
            continue
        factor = 1
        if term.op is s.MUL and term.src[1].op is CONST:
            term, factor = term.src[0], int(term.src[1].value)
        if term.op is sint.VARIABLE:
            steps[term] = steps.get(term, 0) + factor
        elif term.op is CONST:
            constant += factor * int(term.value)
        else:
            is_all = False
            other.update(n for n in toposort([term]) if n.op is sint.VARIABLE)
    return Linear(steps, frozenset(other), constant, is_all)


def is_index(node: UOp) -> bool:
    """Whether a node is of a kind that is made of ranges and integers alone (its sources have to be, too)."""
    return node.dtype is dtypes.int64 and (node.op is CONST or node.op in sint.INDEX_OPS)


def replaced(expression: UOp, mapping: dict[UOp, UOp]) -> UOp:
    """An expression with ranges replaced by indices."""
    new: dict[UOp, UOp] = dict(mapping)
    pure: set[UOp] = set()

    def changed(node: UOp) -> UOp:
        # An index is changed as a whole where it is used, and not step by step.
        if node not in new:
            new[node] = as_node(sint.substitute(node, mapping))
        return new[node]

    for node in toposort([expression]):
        if node in mapping:
            pure.add(node)
        elif is_index(node) and pure.issuperset(node.src):
            pure.add(node)
        elif is_index(node) and all(is_index(n) for n in node.src):
            changed(node)
        else:
            sources = tuple([changed(n) for n in node.src])
            new[node] = (
                make(LOAD, sources, node.arg, node.dtype, ()) if node.op is LOAD else rebuild(node, sources)
            )
    return changed(expression)
