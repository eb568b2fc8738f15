"""Running nests with NumPy: the meaning of a nest, against which compiled kernels are checked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..trace import scalar
from ..trace.execute import step
from ..trace.graph import Graph
from ..trace.uop import CONST, UOp, toposort
from .group import group
from .index import LOAD, RESULT
from .nest import Host, Kernel, Nest, Pass, View, first_of, size_of

_COMBINE = {
    scalar.ADD: np.add, scalar.MUL: np.multiply, scalar.MAX: np.maximum, scalar.MIN: np.minimum,
    scalar.AND: np.logical_and, scalar.OR: np.logical_or,
}  # fmt: skip


class _Run:
    """A nest at work: all points of the outer ranges at once, as rows; the inner ranges of a pass as columns."""

    def __init__(self, nest: Nest, arrays: dict[UOp, np.ndarray]):
        self.nest, self.arrays = nest, arrays
        points = [size_of(o) for o in nest.outer]
        grid = np.meshgrid(*map(np.arange, points), indexing="ij")
        self.rows = prod(points)
        self.bindings: dict[UOp, Any] = {o: v.reshape(-1, 1) for o, v in zip(nest.outer, grid, strict=True)}
        self.results: dict[UOp, np.ndarray] = {}
        self.local: dict[UOp, np.ndarray] = {}
        for each in nest.passes:
            self.run(each, {})

    def run(self, each: Pass, around: dict[UOp, Any]) -> None:
        """A pass within loops whose ranges have the values `around`."""
        inner = [size_of(i) for i in each.inner]
        if each.running:
            self._running(each, around)
        elif each.passes or each.is_ordered:
            for place in product(*map(range, inner)):
                here = around | {i: np.full((1, 1), at) for i, at in zip(each.inner, place, strict=True)}
                for within in each.passes:
                    self.run(within, here)
                self._stores(each, here, 1)
                for reduction in each.reductions:
                    element = self._value(reduction.value, here, 1)
                    total = self.results.get(reduction.node) if any(place) else None
                    combined = element if total is None else _COMBINE[reduction.op](total, element)
                    self.results[reduction.node] = combined
        else:
            grid = np.meshgrid(*map(np.arange, inner), indexing="ij")
            here = around | {i: v.reshape(1, -1) for i, v in zip(each.inner, grid, strict=True)}
            self._stores(each, here, prod(inner))
            for reduction in each.reductions:
                elements = self._value(reduction.value, here, prod(inner))
                self.results[reduction.node] = _COMBINE[reduction.op].reduce(elements, 1)[:, None]
        for reduction in each.reductions:
            self.results[reduction.node] = np.asarray(self.results[reduction.node]).astype(
                reduction.node.dtype
            )

    def _running(self, each: Pass, around: dict[UOp, Any]) -> None:
        """An ordered pass with running values, point by point."""
        totals: dict[UOp, Any] = {r.node: first_of(r) for r in each.running}
        for place in product(*[range(size_of(i)) for i in each.inner]):
            here = around | {i: np.full((1, 1), at) for i, at in zip(each.inner, place, strict=True)}
            terms = [[self._value(term, here, 1) for term in r.terms] for r in each.running]
            for r, (element, *factor) in zip(each.running, terms, strict=True):
                before = totals[r.node] * factor[0] if factor else totals[r.node]
                is_first = factor and not any(place)
                totals[r.node] = element if is_first else _COMBINE[r.op](before, element)
                self.results[r.node] = totals[r.node].astype(r.node.dtype)
            self._stores(each, here, 1)

    def _stores(self, each: Pass, here: dict[UOp, Any], columns: int) -> None:
        for store in each.stores:
            made, at = self._value(store.value, here, columns), self._value(store.position, here, columns)
            if store.node in self.nest.local:
                size = self.local.get(store.node)
                if size is None:
                    self.local[store.node] = np.zeros((self.rows, int(at.max()) + 1), store.node.dtype)
                np.put_along_axis(self.local[store.node], at, made, 1)
            else:
                if store.node not in self.arrays:
                    self.arrays[store.node] = np.zeros(store.node.shape, store.node.dtype)
                self.arrays[store.node].reshape(-1)[at] = made

    def _value(self, expression: UOp, here: dict[UOp, Any], columns: int) -> np.ndarray:
        values: dict[UOp, Any] = self.bindings | here
        for node in toposort([expression], stop=values):
            if node.op is LOAD:
                values[node] = self._load(node, values, columns)
            elif node.op is RESULT:
                values[node] = self.results[node.arg]
            elif node.op is CONST:
                values[node] = np.asarray(node.value)
            else:
                sources = {s: values[s] for s in node.src}
                values[node] = scalar.evaluate([node], sources)[0]
        return np.broadcast_to(np.asarray(values[expression]), (self.rows, columns))

    def _load(self, node: UOp, values: dict[UOp, Any], columns: int) -> Any:
        at = np.broadcast_to(values[node.src[0]], (self.rows, columns))
        holds = None
        if len(node.src) == 2:
            holds = np.broadcast_to(values[node.src[1]], at.shape)
            at = np.where(holds, at, 0)
        array = node.arg
        if array in self.nest.local:
            found = np.take_along_axis(self.local[array], at, 1)
        else:
            found = self.arrays[array].reshape(-1)[at]
        return found if holds is None else np.where(holds, found, np.zeros((), found.dtype))


def run_nest(nest: Nest, arrays: dict[UOp, np.ndarray]) -> None:
    """Compute what a nest stores from what it loads."""
    _Run(nest, arrays)


def run(graph: Graph, values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The graph's outputs through its nests."""
    arrays: dict[UOp, Any] = {n: np.asarray(v, order="C") for n, v in zip(graph.inputs, values, strict=True)}
    with np.errstate(all="ignore"):
        for each in group(graph):
            if isinstance(each, Kernel):
                for nest in (*each.parts, *each.finish):
                    run_nest(nest, arrays)
            elif isinstance(each, View):
                arrays[each.node] = arrays[each.source].reshape(each.node.shape)
            else:
                assert isinstance(each, Host)
                node = each.node
                result = step(node)(*[arrays[s] for s in node.src])
                arrays[node] = result if isinstance(result, (list, tuple)) else np.asarray(result, order="C")
    return [arrays[node] for node in graph.outputs]
