"""Rebase: nests that work on different places of their arrays made alike.

An optimizer whose state is one vector updates it piece by piece, each from an element on that is a constant of its code. With
these constants taken out of the code, pieces of one size have the same code, and get other addresses.
"""

from __future__ import annotations

from collections.abc import Callable

from ..trace import sint
from ..trace.elements import as_node
from ..trace.uop import UOp, make, rebuild, toposort
from .index import LOAD
from .nest import Nest, Pass, Reduce, Store


def rebase(nest: Nest) -> tuple[Nest, dict[UOp, int]]:
    """The nest with the positions of each array counted from the first element that it uses, as far as that is a constant,
    and these elements' positions."""
    first: dict[UOp, int] = {}

    def seen(array: UOp, position: UOp) -> None:
        constant = sint.constant_term(position)
        first[array] = min(constant, first.get(array, constant))

    for each in nest.every():
        for node in toposort(each.values):
            if node.op is LOAD:
                seen(node.arg, node.src[0])
        for store in each.stores:
            seen(store.node, store.position)
    origins = {array: begin for array, begin in first.items() if begin > 0 and array not in nest.local}
    if not origins:
        return nest, {}
    new: dict[UOp, UOp] = {}

    def moved(array: UOp, position: UOp) -> UOp:
        return as_node(sint.sub(position, origins[array])) if array in origins else position

    def rewritten(expression: UOp) -> UOp:
        for node in toposort([expression], stop=new):
            sources = tuple([new[s] for s in node.src])
            if node.op is LOAD:
                place = (moved(node.arg, sources[0]), *sources[1:])
                new[node] = make(LOAD, place, node.arg, node.dtype, ())
            else:
                new[node] = node if sources == node.src else rebuild(node, sources)
        return new[expression]

    return Nest(
        nest.outer, tuple([_changed(each, rewritten, moved) for each in nest.passes]), nest.local
    ), origins


def _changed(each: Pass, value: Callable[[UOp], UOp], position: Callable[[UOp, UOp], UOp]) -> Pass:
    return Pass(
        each.inner,
        tuple([Reduce(r.node, r.op, value(r.value)) for r in each.reductions]),
        tuple([Store(s.node, position(s.node, value(s.position)), value(s.value)) for s in each.stores]),
        tuple([_changed(inside, value, position) for inside in each.passes]),
        tuple([running.changed(value) for running in each.running]),
    )
