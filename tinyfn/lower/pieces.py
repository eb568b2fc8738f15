"""Concatenations taken apart: elementwise work on a concatenation becomes work on each of its pieces.

An optimizer that keeps its state in one vector concatenates the gradients, computes, and cuts the result into parameters. Piece
by piece there is neither a concatenation nor a cut. This is done where all that depends on a value is written to memory or cut
again; a reduction or a contraction of a concatenation reads it through conditions instead.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from weakref import WeakKeyDictionary

from ..trace import prims as p
from ..trace.graph import Graph
from ..trace.uop import CONST, INPUT, UOp, rebuild
from .index import is_elementwise, is_movement


def distribute(graph: Graph) -> Graph:
    """The graph with elementwise work on concatenations done piece by piece."""
    order = graph.nodes()
    if not any(node.op is p.concatenate for node in order):
        return graph
    written = _written(graph, order)
    new: dict[UOp, UOp] = {}
    for node in order:
        sources = tuple([new[s] for s in node.src])
        made = None
        if node.op is p.slice_ and sources[0].op is p.concatenate:
            made = _cut(sources[0], node)
        elif node.op is p.concatenate:
            made = p.concatenate.node(*_flat(sources, node.params["axis"]), **node.params)
        elif is_elementwise(node) and node in written:
            made = _by_piece(node, sources)
        if made is None:
            made = node if sources == node.src else rebuild(node, sources)
        new[node] = made
    inputs = {node for node in order if node.op is INPUT}
    assert all(new[node] is node for node in inputs)
    return Graph(graph.inputs, [new[node] for node in graph.outputs], graph.captured, graph.name)


def _written(graph: Graph, order: list[UOp]) -> set[UOp]:
    """The nodes of which all that is made elementwise ends in memory or is cut."""
    unwritten: set[UOp] = set()
    for node in reversed(order):
        elementwise = is_elementwise(node) or is_movement(node) or node.op is p.concatenate
        if not elementwise or (node in unwritten and node.op is not p.slice_):
            unwritten.update(node.src)
    return set(order) - unwritten


def _flat(sources: tuple[UOp, ...], axis: int) -> list[UOp]:
    """The sources of a concatenation, those of its concatenations in their place."""
    flat: list[UOp] = []
    for source in sources:
        nested = source.op is p.concatenate and source.params["axis"] == axis
        flat += source.src if nested else (source,)
    return flat


# Asked for once for each piece; weak, so that no graph is kept alive.
_known: WeakKeyDictionary[UOp, list[int]] = WeakKeyDictionary()


def _bounds(whole: UOp) -> list[int]:
    """Where the pieces of a concatenation begin, and where the last one ends."""
    found = _known.get(whole)
    if found is None:
        found = _known[whole] = _sums(whole)
    return found


def _sums(whole: UOp) -> list[int]:
    axis, bounds = whole.params["axis"], [0]
    for source in whole.src:
        bounds.append(bounds[-1] + source.shape[axis])
    return bounds


def _by_piece(node: UOp, sources: tuple[UOp, ...]) -> UOp | None:
    """An elementwise op on a concatenation as a concatenation."""
    whole = next((s for s in sources if s.op is p.concatenate and s.shape == node.shape), None)
    if whole is None:
        return None
    axis, bounds = whole.params["axis"], _bounds(whole)
    pieces = []
    for begin, end in pairwise(bounds):
        if begin == end:
            continue
        parts = [
            _part(source, axis, begin, end) if source.shape == node.shape else source for source in sources
        ]
        pieces.append(node.op.node(*parts, **node.params))
    return p.concatenate.node(*pieces, axis=axis) if len(pieces) > 1 else None


def _part(source: UOp, axis: int, begin: int, end: int) -> UOp:
    """The elements of a source from `begin` to `end` along an axis."""
    if source.op is CONST:
        return source
    if source.op is p.concatenate and source.params["axis"] == axis:
        bounds = _bounds(source)
        at = bisect_left(bounds, begin)
        while bounds[at : at + 2] == [begin, begin]:  # pieces without elements
            at += 1
        if bounds[at : at + 2] == [begin, end]:
            return source.src[at]
    start = tuple([begin if a == axis else 0 for a in range(source.ndim)])
    limit = tuple([end if a == axis else n for a, n in enumerate(source.shape)])
    return p.slice_.node(source, start=start, limit=limit, step=(1,) * source.ndim)


def _cut(whole: UOp, node: UOp) -> UOp | None:
    """A slice of a concatenation as one of a piece, if it lies within one."""
    axis, bounds = whole.params["axis"], _bounds(whole)
    start, limit = node.params["start"], node.params["limit"]
    for source, begin, end in zip(whole.src, bounds[:-1], bounds[1:], strict=True):
        if begin <= start[axis] and limit[axis] <= end and begin < end:
            moved_start = tuple([a - begin if i == axis else a for i, a in enumerate(start)])
            moved_limit = tuple([a - begin if i == axis else a for i, a in enumerate(limit)])
            if (
                node.params["step"] == (1,) * node.ndim
                and not any(moved_start)
                and moved_limit == source.shape
            ):
                return source
            return p.slice_.node(source, start=moved_start, limit=moved_limit, step=node.params["step"])
    return None
