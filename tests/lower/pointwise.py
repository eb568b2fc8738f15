"""What nests mean, one point and one scalar at a time: slow, and simple enough to be an oracle."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from tinyfn.lower.index import LOAD, RESULT
from tinyfn.lower.nest import Nest, Pass, first_of, size_of
from tinyfn.trace import scalar
from tinyfn.trace.uop import UOp, toposort


def run(nest: Nest, arrays: dict[UOp, np.ndarray]) -> None:
    """Compute what a nest stores from what it loads; arrays that are not there become zeros."""
    for node in nest.stored:
        arrays.setdefault(node, np.zeros(node.shape, node.dtype))
    for point in _points(nest.outer):
        local: dict[UOp, dict[int, Any]] = {node: {} for node in nest.local}
        results: dict[UOp, Any] = {}
        for each in nest.passes:
            _run(each, point, arrays, local, results)


def _points(ranges: Sequence[UOp]) -> Any:
    return (dict(zip(ranges, at, strict=True)) for at in product(*[range(size_of(r)) for r in ranges]))


def _run(each: Pass, point: dict[UOp, int], arrays: Any, local: Any, results: dict[UOp, Any]) -> None:
    totals: dict[UOp, Any] = {}
    for inner in _points(each.inner):
        here = point | inner
        for inside in each.passes:
            _run(inside, here, arrays, local, results)
        for running in each.running:
            terms = [_value(term, here, arrays, local, results) for term in running.terms]
            before = totals.get(running.node, first_of(running))
            before = before * terms[1] if len(terms) > 1 else before
            first = len(terms) > 1 and not any(inner.values())
            totals[running.node] = terms[0] if first else running.op.reference(before, terms[0])  # type: ignore[misc]
        for running in each.running:
            results[running.node] = np.asarray(totals[running.node]).astype(running.node.dtype)
        for store in each.stores:
            value, position = (_value(e, here, arrays, local, results) for e in (store.value, store.position))
            if store.node in local:
                local[store.node][int(position)] = value
            else:
                arrays[store.node].reshape(-1)[int(position)] = value
        for r in each.reductions:
            value = _value(r.value, here, arrays, local, results)
            total = totals.get(r.node, np.asarray(r.op.identity(value.dtype), value.dtype))  # type: ignore[misc]
            totals[r.node] = r.op.reference(total, value)
    for r in each.reductions:
        results[r.node] = np.asarray(totals[r.node]).astype(r.node.dtype)


def _value(expression: UOp, point: dict[UOp, int], arrays: Any, local: Any, results: dict[UOp, Any]) -> Any:
    known: dict[UOp, Any] = dict(point)
    for node in toposort([expression], stop=point):
        if node.op is LOAD:
            parts = scalar.evaluate(list(node.src), known)
            if len(parts) > 1 and not parts[1]:
                known[node] = node.dtype.type(0)
            elif node.arg in local:
                known[node] = local[node.arg][int(parts[0])]
            else:
                known[node] = arrays[node.arg].reshape(-1)[int(parts[0])]
        elif node.op is RESULT:
            known[node] = results[node.arg]
    return scalar.evaluate([expression], known)[0]
