"""How far two ways of running a graph may be apart: a bound for each element, from what the primitives state.

Step by step and compiled, every operation is within `ulp` units in the last place of the same operation on the same arguments,
and reductions and products may add up their terms in another order. `error_bounds` carries these differences through a graph:
a bound for each element of each value, by evaluating each operation where its arguments are as far off as they may be. What only
takes exact operations (integers, bools, movement, + - * / and sqrt of floats, random bits) has the bound 0: there the
bits have to be equal. What can't be bounded (an integer that may have been rounded otherwise) has the bound infinity."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

import tinyfn
from tinyfn.lower.decompose import decompose
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import prims
from tinyfn.trace.array import Array, as_array
from tinyfn.trace.execute import step
from tinyfn.trace.graph import Graph
from tinyfn.trace.prims import cumulative
from tinyfn.trace.prims.extern import HostFunction
from tinyfn.trace.prims.sorting import native_argsort
from tinyfn.trace.uop import CONST, OUTPUT, UOp
from tinyfn.transforms.branches import cond
from tinyfn.transforms.loops import scan
from tinyfn.transforms.while_loops import while_loop

Bound = np.ndarray
_REVERSED = HostFunction("reversed", lambda x: x[..., ::-1].copy(), lambda x: (x.dtype, x.shape))


def by_numpy(x: Any) -> Any:
    """The elements in reverse along the last axis: by an op that programs leave to NumPy."""
    return prims.extern(x, function=_REVERSED)


def wide(x: Any) -> np.ndarray:
    """The values in float64 (integers and bools as they are)."""
    x = np.asarray(x)
    return x.astype(np.float64) if dtypes.is_float(dtypes.canonical(x.dtype)) else x


def unit(magnitude: Any, dtype: Any) -> np.ndarray:
    """The distance between neighbouring numbers of a float type at this magnitude; 0 for other types."""
    if not dtypes.is_float(dtype):
        return np.zeros(np.shape(magnitude))
    info = ml_dtypes.finfo(dtype)
    magnitude = np.clip(np.nan_to_num(magnitude, posinf=float(info.max)), float(info.tiny), float(info.max))
    return np.exp2(np.floor(np.log2(magnitude)) - info.nmant)


def error_bounds(graph: Graph, values: Sequence[Any]) -> list[tuple[np.ndarray, Bound]]:
    """The outputs' values, step by step, and by how much other ways of running the graph may differ from them."""
    given = [np.asarray(v) for v in values]
    return _run(graph, [(v, np.zeros(v.shape)) for v in given])


def _run(graph: Graph, arguments: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    graph = decompose(graph)  # as programs do
    known: dict[UOp, tuple[Any, Any]] = dict(zip(graph.inputs, arguments, strict=True))
    with np.errstate(all="ignore"):
        for node in graph.nodes():
            if node in known:
                continue
            operands = [known[s][0] for s in node.src]
            errors = [known[s][1] for s in node.src]
            if node.op is CONST:
                known[node] = np.asarray(node.value), np.zeros(())
            elif node.op is OUTPUT:
                known[node] = operands[0][node.arg], errors[0][node.arg]
            elif node.op is native_argsort:
                (order,) = step(node)(*operands)
                known[node] = (order,), (_argsort(node, order, operands, errors)[0],)
            elif node.op.family == "foreign":  # the same routine
                results = step(node)(*operands)
                off = np.inf if any(e.any() for e in errors) else 0.0
                known[node] = results, [np.full(r.shape, off) for r in results]
            elif node.op.family == "structured":
                pairs = list(zip(operands, errors, strict=True))
                rule = _STRUCTURED.get(node.op) or (
                    _whole if "graph" in node.params else partial(_handed_on, node)
                )
                results = rule(pairs, **node.params)
                known[node] = [r[0] for r in results], [r[1] for r in results]
            else:
                out = np.asarray(step(node)(*operands))
                known[node] = out, _bound(node, out, operands, errors)
    return [known[node] for node in graph.outputs]


Pairs = list[tuple[Any, Any]]


def _whole(pairs: Pairs, *, graph: Graph, **params: Any) -> Pairs:
    return _run(graph, pairs)


def _handed_on(node: UOp, pairs: Pairs, **params: Any) -> Pairs:
    """Of an op that calls a Python function, or that hands its arguments on: they must be exact."""
    assert not any(np.any(error) for _, error in pairs), (
        f"how far {node.op} is off for arguments that are off"
    )
    results = node.op.reference(*[value for value, _ in pairs], **params)
    return [(np.asarray(r), np.zeros(np.shape(r))) for r in results]


def _scan(pairs: Pairs, *, graph: Graph, length: int, constants: int, carries: int, reverse: bool) -> Pairs:
    fixed, carry, xs = pairs[:constants], pairs[constants : constants + carries], pairs[constants + carries :]
    steps = []
    for i in reversed(range(length)) if reverse else range(length):
        results = _run(graph, [*fixed, *carry, *[(x[i], np.broadcast_to(e, x.shape)[i]) for x, e in xs]])
        carry = results[:carries]
        steps.append(results[carries:])
    if reverse:
        steps.reverse()
    ys = graph.outputs[carries:]
    stacked = [
        tuple(
            np.array([np.broadcast_to(step[k][part], y.shape) for step in steps], dtype).reshape(
                length, *y.shape
            )
            for part, dtype in enumerate((y.dtype, np.float64))
        )
        for k, y in enumerate(ys)
    ]
    return [*carry, *stacked]  # type: ignore[list-item]


def _cond(pairs: Pairs, *, branches: tuple[Graph, ...], any_lane: bool) -> Pairs:
    (index, error), *operands = pairs
    assert not error.any(), "another branch may have been taken"
    return _run(branches[min(max(int(index), 0), len(branches) - 1)], operands)


def _while(pairs: Pairs, *, condition: Graph, body: Graph, constants: int, max_steps: int | None) -> Pairs:
    fixed, carry, steps = pairs[:constants], pairs[constants:], 0
    while steps != max_steps:
        ((goes_on, error),) = _run(condition, [*fixed, *carry])
        assert not error.any(), "the loop may have ended at another step"
        if not goes_on:
            break
        carry = _run(body, [*fixed, *carry])
        steps += 1
    return carry


_STRUCTURED: dict[Any, Callable[..., Pairs]] = {scan: _scan, cond: _cond, while_loop: _while}


def _bound(node: UOp, out: np.ndarray, operands: list[np.ndarray], errors: list[Bound]) -> Bound:
    changed = any(e.any() for e in errors)
    rule = _RULES.get(node.op) or _FAMILIES.get(node.op.family)
    if rule is None:
        if changed:
            raise NotImplementedError(f"how far {node.op} is off for arguments that are off")
        return np.zeros(out.shape)
    carried, units = rule(node, out, operands, errors)
    carried = np.broadcast_to(carried, out.shape).astype(np.float64)
    carried = np.where(np.isnan(carried), np.inf, carried)
    if not dtypes.is_float(node.dtype):
        return carried
    # Two roundings of values that are not the same are a unit apart, even if the operation is exact.
    units = units + (carried > 0)
    return carried + np.where(
        np.isfinite(wide(out)), units * unit(np.abs(wide(out)) + carried, node.dtype), 0.0
    )


# By rule: how far the errors of the arguments carry, and how many units in the last place the operation adds.
Rule = Callable[[UOp, np.ndarray, list[np.ndarray], list[Bound]], tuple[Any, Any]]


def _elementwise(
    node: UOp, out: np.ndarray, operands: list[np.ndarray], errors: list[Bound]
) -> tuple[Any, Any]:
    """The greatest difference over the corners of where the arguments may be: what lies between is no further off where the
    function is monotone, or smooth."""
    carried = np.zeros(out.shape)
    off = [i for i, e in enumerate(errors) if e.any()]
    if off:
        middle = [wide(x) for x in operands]
        here = np.asarray(node.op.executor(node.arg)(*middle) if _keeps_type(node) else wide(out))
        for signs in itertools.product((-1, 0, 1), repeat=len(off)):
            corner = list(middle)
            for sign, i in zip(signs, off, strict=True):
                if middle[i].dtype == bool:
                    corner[i] = middle[i] ^ ((errors[i] > 0) & (sign > 0))
                else:
                    corner[i] = (middle[i] + sign * errors[i]).astype(middle[i].dtype)
            there = np.asarray(node.op.executor(node.arg)(*corner))
            carried = np.maximum(carried, _difference(there, here))
            if here.dtype.kind == "f" and dtypes.is_float(node.dtype):
                # A zero may get the other sign; the least bound that is not 0 says so.
                other_sign = (there == 0) & (here == 0) & (np.signbit(there) != np.signbit(here))
                least = float(ml_dtypes.finfo(node.dtype).smallest_subnormal)
                carried = np.where(other_sign, np.maximum(carried, least), carried)
    return carried, _units(node)


# NumPy promises that its functions of floats are within 4 units in the last place.
NUMPYS_ULP = 4.0


def _units(node: UOp) -> float:
    """By how many units in the last place the two results of an operation may differ, each being off as it says."""
    single, double = node.op.ulp
    if not single:
        return 0.0
    if node.dtype in (dtypes.float16, dtypes.bfloat16):
        return 1.0  # both are rounded from float32
    return (double if node.dtype is dtypes.float64 else single) + NUMPYS_ULP


def _difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How far values are apart, infinity where only one is a number."""
    if a.dtype == bool:
        return (a != b).astype(np.float64)
    a, b = a.astype(np.float64), b.astype(np.float64)
    difference = np.abs(a - b)
    return np.where(
        (a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.where(np.isnan(difference), np.inf, difference)
    )


def _keeps_type(node: UOp) -> bool:
    return "dtype" not in node.params


def _convert(node: UOp, out: np.ndarray, operands: list[np.ndarray], errors: list[Bound]) -> tuple[Any, Any]:
    if dtypes.is_float(node.dtype):
        return errors[0], 0
    return _elementwise(node, out, operands, errors)


def _moved(node: UOp, out: np.ndarray, operands: list[np.ndarray], errors: list[Bound]) -> tuple[Any, Any]:
    """Errors move with the elements."""
    if not any(e.any() for e in errors):
        return 0.0, 0
    return step(node)(*[np.broadcast_to(e, x.shape) for x, e in zip(operands, errors, strict=True)]), 0


def _gather(node: UOp, out: np.ndarray, operands: list[np.ndarray], errors: list[Bound]) -> tuple[Any, Any]:
    if errors[1].any():
        return np.inf, 0
    return step(node)(np.broadcast_to(errors[0], operands[0].shape), operands[1]), 0


def _extreme(node: UOp, out: np.ndarray, operands: list[np.ndarray], errors: list[Bound]) -> tuple[Any, Any]:
    carried = np.max(errors[0], axis=node.params["axes"]) if errors[0].size else np.zeros(out.shape)
    return _either_zero(out, carried, lambda mask: np.any(mask, axis=node.params["axes"]), operands)


def _any_of(node: UOp, out: np.ndarray, operands: list[np.ndarray], errors: list[Bound]) -> tuple[Any, Any]:
    return np.any(np.broadcast_to(errors[0], operands[0].shape) > 0, axis=node.params["axes"]), 0


def _larger(node: UOp, out: np.ndarray, operands: list[np.ndarray], errors: list[Bound]) -> tuple[Any, Any]:
    return _either_zero(out, _elementwise(node, out, operands, errors)[0], lambda mask: mask, operands)


def _either_zero(
    out: np.ndarray, carried: Any, seen: Callable[[Any], Any], operands: list[np.ndarray]
) -> tuple[Any, Any]:
    """The greater and the lesser of 0.0 and -0.0 may be either: the least bound that is not 0 says so."""
    if not dtypes.is_float(dtypes.canonical(out.dtype)):
        return carried, 0
    values = [wide(x) for x in operands]
    negative = np.logical_or.reduce([seen((x == 0) & np.signbit(x)) for x in values])
    positive = np.logical_or.reduce([seen((x == 0) & ~np.signbit(x)) for x in values])
    least = float(ml_dtypes.finfo(out.dtype).smallest_subnormal)
    return np.where(negative & positive, np.maximum(carried, least), carried), 0


def _argmax(node: UOp, out: np.ndarray, operands: list[np.ndarray], errors: list[Bound]) -> tuple[Any, Any]:
    """1 where another element may be the greatest, or for argmin the least."""
    axis = node.params["axis"]
    if not dtypes.is_float(node.src[0].dtype):
        return _anything_if_changed(errors)
    x = wide(operands[0]) * (1 if node.op is prims.argmax else -1)
    below, above = x - errors[0], x + errors[0]
    rivals = (above >= np.max(below, axis, keepdims=True)) & (errors[0] > 0)
    return np.count_nonzero(rivals, axis) > 1, 0


def _argsort(node: UOp, out: np.ndarray, operands: list[np.ndarray], errors: list[Bound]) -> tuple[Any, Any]:
    """1 where a neighbour in the order may come first."""
    if not errors[0].any():
        return np.zeros(out.shape), 0
    params = {"count": operands[0].shape[-1], "descending": node.params["descending"]}
    order = prims.argsort.reference(operands[0], **params)
    x, e = (np.take_along_axis(v, order, -1) for v in (wide(operands[0]), errors[0]))
    close = abs(np.diff(x, axis=-1)) <= e[..., 1:] + e[..., :-1]
    none = np.zeros((*close.shape[:-1], 1), bool)
    return (np.concatenate([none, close], -1) | np.concatenate([close, none], -1))[..., : out.shape[-1]], 0


def _extern(node: UOp, out: np.ndarray, operands: list[np.ndarray], errors: list[Bound]) -> tuple[Any, Any]:
    if node.params["function"] is _REVERSED:
        return _REVERSED.call(errors[0]), 0
    return _same_if_exact(node, out, operands, errors)


def _same_if_exact(
    node: UOp, out: np.ndarray, operands: list[np.ndarray], errors: list[Bound]
) -> tuple[Any, Any]:
    if any(e.any() for e in errors):
        raise NotImplementedError(f"{node.op} of values that are not exact")
    return 0.0, 0


def _anything_if_changed(errors: list[Bound]) -> tuple[Any, Any]:
    """Of integers and bools that may have come out otherwise."""
    return np.inf if any(e.any() for e in errors) else 0.0, 0


def _order(terms: int) -> float:
    """By how many units of the sum of magnitudes two orders of adding up so many terms may differ.

    Each is off by half a unit for every addition at most, and by about the root of their number for errors that are independent
    (N. Higham and T. Mary, "A new approach to probabilistic rounding error analysis", 2019, with their lambda of 8)."""
    return min(max(terms - 1, 0), 8 * terms**0.5)


def _summed(terms: Callable[[UOp], int]) -> Rule:
    """Sums of terms, and of products: errors carry as magnitudes do, and the terms may be added in another order.

    A sum that is zero may have either sign, as 0.0 or -0.0 is what they are added to."""

    def rule(node: UOp, out: np.ndarray, operands: list[np.ndarray], errors: list[Bound]) -> tuple[Any, Any]:
        if not dtypes.is_float(node.dtype):
            return _anything_if_changed(errors)
        apply = step(node)
        magnitudes = [np.nan_to_num(np.abs(wide(x)), posinf=0.0) for x in operands]
        largest = apply(*[m + e for m, e in zip(magnitudes, errors, strict=True)])
        exact = apply(*magnitudes)
        accumulator = dtypes.accumulator(node.dtype)
        added = _order(terms(node)) * float(ml_dtypes.finfo(accumulator).eps) * largest
        least = float(ml_dtypes.finfo(node.dtype).smallest_subnormal)
        carried = largest - exact + added if any(e.any() for e in errors) else added
        return np.where(wide(out) == 0, np.maximum(carried, least), carried), 0

    return rule


def _reduced(node: UOp) -> int:
    return prod([node.src[0].shape[a] for a in node.params["axes"]])


def _product(node: UOp, out: np.ndarray, operands: list[np.ndarray], errors: list[Bound]) -> tuple[Any, Any]:
    if not dtypes.is_float(node.dtype):
        return _anything_if_changed(errors)
    magnitude = np.abs(wide(operands[0]))
    largest = step(node)(magnitude + errors[0])
    eps = float(ml_dtypes.finfo(dtypes.accumulator(node.dtype)).eps)
    return largest - step(node)(magnitude) + _order(_reduced(node)) * eps * largest, 0


def _run_product(
    node: UOp, out: np.ndarray, operands: list[np.ndarray], errors: list[Bound]
) -> tuple[Any, Any]:
    if not dtypes.is_float(node.dtype):
        return _anything_if_changed(errors)
    magnitude = np.abs(wide(operands[0]))
    largest = step(node)(magnitude + errors[0])
    eps = float(ml_dtypes.finfo(dtypes.accumulator(node.dtype)).eps)
    return largest - step(node)(magnitude) + _order(_along(node)) * eps * largest, 0


def _run_extreme(
    node: UOp, out: np.ndarray, operands: list[np.ndarray], errors: list[Bound]
) -> tuple[Any, Any]:
    def so_far(values: np.ndarray) -> Any:
        axis, back = node.params["axis"], node.params["reverse"]
        found = np.maximum.accumulate(np.flip(values, axis) if back else values, axis)
        return np.flip(found, axis) if back else found

    return _either_zero(out, so_far(np.broadcast_to(errors[0], out.shape)), so_far, operands)


def _along(node: UOp) -> int:
    size: int = node.shape[node.params["axis"]]
    return size


def _contracted(node: UOp) -> int:
    return prod([node.src[0].shape[a] for a in node.params["contract"][0]])


def _scatter(node: UOp, out: np.ndarray, operands: list[np.ndarray], errors: list[Bound]) -> tuple[Any, Any]:
    operand, indices, updates = operands
    if errors[1].any():
        return np.inf, 0
    if not errors[0].any() and not errors[2].any():
        return 0.0, 0  # in order, on every device
    if node.params["kind"] not in ("set", "add"):
        raise NotImplementedError(f"scatter of kind {node.params['kind']} into values that are not exact")
    carried = step(node)(
        np.broadcast_to(errors[0], operand.shape), indices, np.broadcast_to(errors[2], updates.shape)
    )
    return carried, _contributions(node, indices) if node.params["kind"] == "add" else 0


def _contributions(node: UOp, indices: np.ndarray) -> np.ndarray:
    operand, _, updates = node.src
    return np.asarray(step(node)(np.zeros(operand.shape), indices, np.ones(updates.shape)))


_FAMILIES: dict[str, Rule] = {"elementwise": _elementwise, "movement": _moved}
_RULES: dict[Any, Rule] = {
    prims.convert: _convert,
    prims.bitcast: _same_if_exact,
    prims.argmax: _argmax,
    prims.argmin: _argmax,
    prims.argsort: _argsort,
    prims.extern: _extern,
    prims.max: _larger,
    prims.min: _larger,
    prims.clamp: _larger,
    prims.gather: _gather,
    prims.scatter: _scatter,
    prims.reduce_and: _any_of,
    prims.reduce_or: _any_of,
    prims.reduce_max: _extreme,
    prims.reduce_min: _extreme,
    prims.reduce_sum: _summed(_reduced),
    cumulative.cumsum: _summed(_along),
    cumulative.recurrence: _summed(lambda node: 2 * _along(node)),
    cumulative.cumprod: _run_product,
    cumulative.cummax: _run_extreme,
    cumulative.cummin: _run_extreme,
    prims.reduce_prod: _product,
    prims.dot_general: _summed(_contracted),
    prims.conv_general: _summed(lambda node: prod(node.src[1].shape[1:])),
}


def assert_within(found: Any, wanted: Any, bound: Bound) -> None:
    """Check that an array has the dtype and shape of another, and its elements to within a bound for each.

    Where the bound is 0 the bits must be equal (any NaN equals any other); where it is infinite, anything goes."""
    found, wanted = as_array(found).value, as_array(wanted).value
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    bound = np.broadcast_to(bound, wanted.shape)
    if wanted.dtype.kind == "c":  # part by part
        found, wanted = (np.stack([v.real, v.imag], -1) for v in (found, wanted))
        bound = np.broadcast_to(bound[..., None], wanted.shape)
    a, b = wide(found), wide(wanted)
    if a.dtype.kind != "f":
        wrong = (a != b) & (bound == 0)
    else:
        exact = (bound == 0) | np.isinf(b)
        with np.errstate(invalid="ignore"):
            far = np.where(exact, (a != b) | (np.signbit(a) != np.signbit(b)), np.abs(a - b) > bound)
        wrong = np.where(np.isnan(b), ~np.isnan(a), far | np.isnan(a)) & (bound < np.inf)
    if wrong.any():
        got, want, bounds = found[wrong][:5], wanted[wrong][:5], bound[wrong][:5]
        raise AssertionError(f"{wrong.sum()} of {wrong.size}: {got} for {want}, which may be off by {bounds}")


def assert_jit_agrees(function: Callable[..., Any], *args: Any) -> Any:
    """Check a function under jit, and its graph step by step, against eager execution; gives the eager result."""
    args = tuple(tinyfn.tree.map(as_array, args))
    jitted = tinyfn.jit(function)
    graph = jitted.graph(*args)
    eager, found = function(*args), tinyfn.tree.leaves(jitted(*args))
    inputs = [*tinyfn.tree.leaves(args), *graph.captured]
    bounds = error_bounds(graph, [as_array(a).value for a in inputs])
    wanted = tinyfn.tree.leaves(eager)
    assert len(wanted) == len(found) == len(bounds)
    for want, got, (value, bound) in zip(wanted, found, bounds, strict=True):
        assert_within(value, want, bound)
        assert isinstance(got, Array)
        assert_within(got, want, bound)
    return eager
