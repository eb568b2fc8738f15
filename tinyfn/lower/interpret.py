"""Running nests with NumPy: the meaning of a nest, against which compiled kernels are checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..trace import scalar, sint
from ..trace.execute import step
from ..trace.graph import Graph
from ..trace.uop import UOp, toposort
from .group import group
from .index import LOAD, RESULT
from .nest import Kernel, Nest

_COMBINE = {
    scalar.ADD: np.add, scalar.MUL: np.multiply, scalar.MAX: np.maximum, scalar.MIN: np.minimum,
    scalar.AND: np.logical_and, scalar.OR: np.logical_or,
}  # fmt: skip


def run_nest(nest: Nest, arrays: dict[UOp, np.ndarray]) -> None:
    """Compute what a nest stores from what it loads; all points of the outer ranges at once."""
    sizes = {r: sint.bounds(r)[1] + 1 for each in nest.passes for r in (*nest.outer, *each.inner)}
    points = [sizes[o] for o in nest.outer]
    outer = dict(zip(nest.outer, np.meshgrid(*map(np.arange, points), indexing="ij"), strict=True))
    rows = int(np.prod(points))
    results: dict[UOp, np.ndarray] = {}
    local: dict[UOp, np.ndarray] = {}
    for each in nest.passes:
        inner = [sizes[i] for i in each.inner]
        grid = dict(zip(each.inner, np.meshgrid(*map(np.arange, inner), indexing="ij"), strict=True))
        shape = (rows, int(np.prod(inner)))
        bindings: dict[UOp, Any] = {o: np.repeat(v.reshape(-1, 1), shape[1], 1) for o, v in outer.items()}
        bindings |= {i: np.repeat(v.reshape(1, -1), rows, 0) for i, v in grid.items()}

        def value(
            expression: UOp, shape: tuple[int, int] = shape, bindings: dict[UOp, Any] = bindings
        ) -> np.ndarray:
            for node in toposort([expression], stop=bindings):
                if node.op is LOAD:
                    (at,) = scalar.evaluate([node.src[0]], bindings)
                    at = np.broadcast_to(at, shape)
                    if node.arg in local:
                        bindings[node] = np.take_along_axis(local[node.arg], at, 1)
                    else:
                        bindings[node] = arrays[node.arg].reshape(-1)[at]
                elif node.op is RESULT:
                    bindings[node] = results[node.arg][:, None]
            return np.broadcast_to(np.asarray(scalar.evaluate([expression], bindings)[0]), shape)

        for store in each.stores:
            made, at = value(store.value), value(store.position)
            if store.node in nest.local:
                size = int(np.prod(inner))
                target = local.setdefault(store.node, np.zeros((rows, size), store.node.dtype))
                np.put_along_axis(target, at, made, 1)
            else:
                if store.node not in arrays:
                    arrays[store.node] = np.zeros(store.node.shape, store.node.dtype)
                arrays[store.node].reshape(-1)[at] = made
        for reduction in each.reductions:
            elements = value(reduction.value)
            total = _COMBINE[reduction.op].reduce(elements, 1)
            results[reduction.node] = np.asarray(total).astype(reduction.node.dtype)


def run(graph: Graph, values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The graph's outputs through its nests."""
    arrays: dict[UOp, Any] = {n: np.asarray(v, order="C") for n, v in zip(graph.inputs, values, strict=True)}
    with np.errstate(all="ignore"):
        for each in group(graph):
            if isinstance(each, Kernel):
                for nest in (*each.parts, *each.finish):
                    run_nest(nest, arrays)
            else:
                node = each.node
                result = step(node)(*[arrays[s] for s in node.src])
                arrays[node] = result if isinstance(result, (list, tuple)) else np.asarray(result, order="C")
    return [arrays[node] for node in graph.outputs]
