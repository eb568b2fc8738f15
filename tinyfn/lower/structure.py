"""What two nests have in common that differ only in their arrays: they have one structure, and so one machine code."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

from ..trace.uop import UOp, toposort
from .index import LOAD, RESULT
from .nest import Nest, Pass, dimensions_of


class Structure(NamedTuple):
    """A nest up to its arrays: `key` compares, and `arrays` are those in memory, in the order in which they appear, and then the
    symbolic dimensions on which the nest depends."""

    key: tuple[Any, ...]
    arrays: tuple[UOp, ...]


def structure(nest: Nest) -> Structure:
    """The structure of a nest, in one walk."""
    arrays: dict[UOp, int] = {}
    results: dict[UOp, int] = {}
    numbers: dict[UOp, int] = {}
    nodes: list[Any] = []
    for node in toposort(_roots(nest.passes)):
        arg = node.arg
        if node.op is LOAD:
            arg = arrays.setdefault(arg, len(arrays))
        elif node.op is RESULT:
            arg = results.setdefault(arg, len(results))
        numbers[node] = len(numbers)
        nodes.append((node.op, arg, node.dtype, *map(numbers.__getitem__, node.src)))

    def of(each: Pass) -> tuple[Any, ...]:
        return (
            tuple([r.arg for r in each.inner]),
            tuple(
                [
                    (results.setdefault(r.node, len(results)), r.op, r.node.dtype, numbers[r.value])
                    for r in each.reductions
                ]
            ),
            tuple(
                [
                    (arrays.setdefault(s.node, len(arrays)), numbers[s.position], numbers[s.value])
                    for s in each.stores
                ]
            ),
            tuple([of(inside) for inside in each.passes]),
            tuple(
                [
                    (results.setdefault(r.node, len(results)), r.op, *[numbers[term] for term in r.terms])
                    for r in each.running
                ]
            ),
        )

    passes = tuple([of(each) for each in nest.passes])
    kinds = tuple([(array.dtype, prod(array.shape), array in nest.local) for array in arrays])
    key = (tuple([r.arg for r in nest.outer]), passes, tuple(nodes), kinds)
    return Structure(
        key, (*[array for array in arrays if array not in nest.local], *dimensions_of(nest, numbers))
    )


def _roots(passes: tuple[Pass, ...]) -> Iterator[UOp]:
    for each in passes:
        yield from _roots(each.passes)
        yield from each.values
        for store in each.stores:
            yield store.position
