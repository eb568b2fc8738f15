"""Sizes of symbolic dimensions, and what they make of shapes and ops."""

from __future__ import annotations

from collections.abc import Mapping

from ..trace import sint
from ..trace.graph import Graph, fixed, with_fixed_sizes
from ..trace.prim import Primitive
from ..trace.sint import Dimension
from ..trace.uop import CONST, UOp, input_node


class Sizes:
    """A size for each symbolic dimension; none for what has no such dimensions."""

    def __init__(self, sizes: Mapping[UOp, int] | None = None):
        self.given: Mapping[UOp, int] = sizes or {}
        self.dimensions = list(self.given)

    def number(self, dimension: Dimension) -> int:
        """The value of a dimension."""
        return sint.evaluate(dimension, self.given) if isinstance(dimension, UOp) else dimension

    def shape(self, shape: tuple[Dimension, ...]) -> tuple[int, ...]:
        """A shape with numbers for dimensions."""
        return tuple(map(self.number, shape))

    def elements(self, node: UOp) -> int:
        """The number of elements of an array."""
        return self.number(sint.prod(node.shape))

    def node(self, node: UOp) -> UOp:
        """A node for arrays of these sizes, on sources that only have the right dtypes and shapes."""
        if not self.given or not isinstance(node.op, Primitive):
            return node
        sources = [s if s.op is CONST else input_node(s.dtype, fixed(s.shape, self.given)) for s in node.src]
        return with_fixed_sizes(node, sources, self.given)

    def leave_empty(self, graph: Graph) -> bool:
        """Whether some array of a graph has no elements."""
        nodes = [*graph.inputs, *graph.nodes()]
        shapes = [shape for n in nodes for shape in (n.shape if isinstance(n.dtype, tuple) else (n.shape,))]
        return any(self.number(n) == 0 for shape in shapes for n in shape)


NO_SIZES = Sizes()
