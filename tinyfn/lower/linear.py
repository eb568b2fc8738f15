"""How a position moves with the ranges: the steps along those that it is linear in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..trace import scalar as s
from ..trace import sint
from ..trace.uop import CONST, UOp, toposort


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
