"""Ordered passes: loops in which an element depends on what the same loop has written before.

A scatter of many windows is one: first the operand's elements are stored, then window after window what its updates make of
them. At a point of the outer ranges, which are the axes that the windows span wholly, one thread goes through all windows in
order: so the last one wins, sums have one order, and threads share the points. A cumulative sum is another, with a running value.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from ..trace import dtype as dtypes
from ..trace import sint
from ..trace.elements import Index, Request, as_node, position
from ..trace.formulas import cast
from ..trace.uop import UOp
from .index import Elements, load
from .nest import Nest, Pass, Running, Store, only_ranges, result
from .spaces import ranges_of

if TYPE_CHECKING:
    from .build import Builder


def nest(builder: Builder, node: UOp) -> Nest:
    """The nest of an op that is done step after step."""
    return _run(builder, node) if node.op.running is not None else _scatter(builder, node)


def _run(builder: Builder, node: UOp) -> Nest:
    """The nest of an op that keeps a value running along an axis: all other axes are outer."""
    axis, reverse = node.params["axis"], node.params["reverse"]
    points = ranges_of("o", [1 if i == axis else n for i, n in enumerate(node.shape)])
    along = sint.Range("r", node.shape[axis])
    here = sint.sub(node.shape[axis] - 1, along) if reverse else along
    at = (*points[:axis], here, *points[axis + 1 :])
    elements, wide = Elements(builder.outside), dtypes.accumulator(node.dtype)
    terms = [cast(elements.at(source, at), wide) for source in reversed(node.src)]
    running = Running(node, node.op.running(node.dtype), *terms)
    store = Store(node, as_node(position(node.shape, at)), result(node))
    return Nest(only_ranges(points), (Pass((along,), (), (store,), (), (running,)),), frozenset())


def _scatter(builder: Builder, node: UOp) -> Nest:
    """The nest of a scatter."""
    operand, indices, _ = node.src
    axes, sizes, batch = (node.params[name] for name in ("axes", "sizes", "batch_dims"))
    whole = [
        axis < batch or (axis not in axes and sizes[axis - batch] == n) for axis, n in enumerate(node.shape)
    ]
    points = ranges_of("o", [n if w else 1 for n, w in zip(node.shape, whole, strict=True)])

    def read(current: UOp, at: Index, condition: UOp | None) -> UOp | None:
        return load(node, at, condition) if current is node else builder.outside(current, at, condition)

    elements = Elements(read)
    copied = ranges_of("c", [1 if w else n for n, w in zip(node.shape, whole, strict=True)])
    at = tuple([o if w else c for o, c, w in zip(points, copied, whole, strict=True)])
    first = Store(node, as_node(position(node.shape, at)), elements.at(operand, at))
    windows = ranges_of("w", indices.shape[batch:-1])
    within = ranges_of("u", [1 if w else n for n, w in zip(sizes, whole[batch:], strict=True)])
    offsets = tuple([o if w else u for o, u, w in zip(points[batch:], within, whole[batch:], strict=True)])
    at, value = _done(elements, node.op.step(node, (*points[:batch], *windows), offsets))
    then = Store(node, as_node(position(node.shape, at)), value)
    return Nest(
        only_ranges(points),
        (Pass(only_ranges(copied), (), (first,)), Pass(only_ranges((*windows, *within)), (), (then,))),
        frozenset(),
    )


def _done(elements: Elements, rule: Generator[list[Request], list[UOp], Any]) -> Any:
    """What a rule gives when it has got all elements that it asks for."""
    wanted = next(rule)
    while True:
        try:
            wanted = rule.send([elements.at(*request) for request in wanted])
        except StopIteration as finished:
            return finished.value
