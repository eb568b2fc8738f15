"""Simplifying graphs of arrays: rules that never change a result's bits, NaNs and signed zeros included.

So there is no x * 0 -> 0 and no x - x -> 0 on floats, and x + 0 -> x only for a zero that leaves -0 alone. Equal
subgraphs need no rule: hash-consing has merged them already.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from . import dtype as dtypes
from . import finite, uop
from . import prims as p
from .debug import stage
from .graph import Graph
from .pattern import Pattern, anything, constant, repeated
from .prim import REGISTRY, Elementwise
from .rewrite import Rule, RuleSet, rewrite
from .uop import UOp, const

x, y = anything("x"), anything("y")


def _everywhere(value: float) -> tuple[Pattern, ...]:
    """Patterns of an array that has one value everywhere."""
    return constant(value), Pattern(p.broadcast, (constant(value),))


def _same_sign_bit(value: UOp) -> bool:
    return bool(np.signbit(value.value))


# A sum with a zero keeps x's bits if that zero is -0.0 (0.0 would turn -0.0 into 0.0); a difference, if it is 0.0.
def _drop_zero(node: UOp, x: UOp, c: UOp) -> UOp | None:
    if c.value != 0:
        return None
    if dtypes.kind(c.dtype) == "complex":
        return None
    if dtypes.is_float(c.dtype) and _same_sign_bit(c) != (node.op is p.add):
        return None
    return x


def _spread_constant(name: str) -> tuple[Pattern, ...]:
    return constant(None, name), Pattern(p.broadcast, (constant(None, name),))


def _plain_product(node: UOp, x: UOp, c: UOp) -> UOp | None:
    real = dtypes.kind(c.dtype) != "complex"
    return p.mul.node(*node.src) if real and np.isfinite(c.value) and c.value > 0 else None


def _nonzero_product(node: UOp, x: UOp, c: UOp) -> UOp | None:
    return p.mul.node(*node.src) if c.value != 0 else None


def _is_identity(node: UOp, x: UOp) -> UOp | None:
    return x if node.shape == x.shape else None


def _is_whole(node: UOp, x: UOp) -> UOp | None:
    return x if node.shape == x.shape and all(s == 1 for s in node.params["step"]) else None


def _is_unpadded(node: UOp, x: UOp) -> UOp | None:
    return x if node.shape == x.shape and not any(node.params["interior"]) else None


def _merge_transposes(node: UOp, inner: UOp, x: UOp) -> UOp:
    first, second = inner.params["permutation"], node.params["permutation"]
    return p.transpose.node(x, permutation=tuple([first[axis] for axis in second]))


def _merge_broadcasts(node: UOp, inner: UOp, x: UOp) -> UOp:
    axes = node.params["axes"]
    return p.broadcast.node(x, shape=node.shape, axes=tuple([axes[axis] for axis in inner.params["axes"]]))


def _unit_transpose(node: UOp, x: UOp) -> UOp | None:
    """A transpose that moves only axes of size 1 is a reshape, which moves nothing."""
    order = [
        axis
        for axis in node.params["permutation"]
        if not (isinstance(x.shape[axis], int) and x.shape[axis] == 1)
    ]
    return p.reshape.node(x, shape=node.shape) if order == sorted(order) else None


def _cast_of_cast(node: UOp, inner: UOp, x: UOp) -> UOp | None:
    """A widening cast that keeps every value may be left out."""
    narrow, wide = x.dtype, inner.dtype
    exact = {
        (dtypes.float16, dtypes.float32), (dtypes.bfloat16, dtypes.float32), (dtypes.float16, dtypes.float64),
        (dtypes.bfloat16, dtypes.float64), (dtypes.float32, dtypes.float64),
    }  # fmt: skip
    return (
        p.convert.node(x, dtype=node.dtype)
        if (narrow, wide) in exact and dtypes.is_float(node.dtype)
        else None
    )


def _fold(node: UOp) -> UOp | None:
    """An elementwise op on constants is a constant, by its reference."""
    if node.shape != ():
        return None
    with np.errstate(all="ignore"):
        return const(node.op.executor(node.arg)(*[np.asarray(s.value) for s in node.src]), node.dtype)


def _compute_before_broadcast(node: UOp) -> UOp | None:
    """An elementwise op on arrays that were all broadcast alike is done before, on fewer elements."""
    first = node.src[0]
    inner = first.src[0]
    for source in node.src:
        if source.op is not p.broadcast or source.arg != first.arg or source.src[0].shape != inner.shape:
            return None
    if inner.shape == first.shape:
        return None
    small = node.op.node(*[s.src[0] for s in node.src], **node.params)
    return p.broadcast.node(small, **first.params)


def _small_power(node: UOp, x: UOp) -> UOp | None:
    exponent = node.params["exponent"]
    return {1: x, 2: p.mul.node(x, x)}.get(exponent)


def _elementwise() -> tuple[Any, ...]:
    return tuple([op for op in REGISTRY.values() if isinstance(op, Elementwise)])


def _build() -> RuleSet:
    rules: list[Rule] = []

    def rule(name: str, pattern: Pattern, function: Any) -> None:
        rules.append(Rule(name, pattern, function))

    for one in _everywhere(1.0):
        rule("x * 1", Pattern(p.mul, (x, one), any_order=True), lambda x: x)
        rule("x / 1", Pattern(p.div, (x, one)), lambda x: x)
    for zero in _spread_constant("c"):
        rule("x + 0", Pattern(p.add, (x, zero), name="node", any_order=True), _drop_zero)
        rule("x - 0", Pattern(p.sub, (x, zero), name="node"), _drop_zero)
        # mul_zero(0, y) is that zero; so is its product with a positive number, sign included.
        rule("mul_zero by a positive", Pattern(p.mul_zero, (x, zero), name="node"), _plain_product)
        rule("mul_zero of a number", Pattern(p.mul_zero, (zero, x), name="node"), _nonzero_product)
    negative_x, negative_y = Pattern(p.neg, (x,)), Pattern(p.neg, (y,))
    rule("-(-x)", Pattern(p.neg, (negative_x,)), lambda x: x)
    rule("x + -y", Pattern(p.add, (x, negative_y), any_order=True), lambda x, y: p.sub.node(x, y))
    rule("x - -y", Pattern(p.sub, (x, negative_y)), lambda x, y: p.add.node(x, y))
    rule("-x * -y", Pattern(p.mul, (negative_x, negative_y)), lambda x, y: p.mul.node(x, y))
    rule("not not x", Pattern(p.bitwise_not, (Pattern(p.bitwise_not, (x,)),)), lambda x: x)
    rule("x ** 1, x ** 2", Pattern(p.integer_pow, (x,), name="node"), _small_power)
    rule("stop_gradient", Pattern(p.stop_gradient, (x,)), lambda x: x)
    rule("checkpoint_name", Pattern(p.checkpoint_name, (x,)), lambda x: x)
    for chosen in _spread_constant("c"):
        rule("where of a constant", Pattern(p.where, (chosen, x, y)), lambda c, x, y: x if c.value else y)
    rule("where of equals", Pattern(p.where, (y, x, x)), lambda x, y: x)
    rule(
        "cast to itself",
        Pattern(p.convert, (x,), name="node"),
        lambda node, x: x if node.dtype is x.dtype else None,
    )
    rule(
        "cast of cast",
        Pattern(p.convert, (Pattern(p.convert, (x,), name="inner"),), name="node"),
        _cast_of_cast,
    )
    for movement in (p.reshape, p.broadcast):
        rule(f"{movement.name} to the same shape", Pattern(movement, (x,), name="node"), _is_identity)
    rule("reshape of reshape", Pattern(p.reshape, (Pattern(p.reshape, (x,)),), name="node"),
         lambda node, x: p.reshape.node(x, shape=node.shape))  # fmt: skip
    rule(
        "transpose of transpose",
        Pattern(p.transpose, (Pattern(p.transpose, (x,), name="inner"),), name="node"),
        _merge_transposes,
    )
    rule("transpose that moves nothing", Pattern(p.transpose, (x,), name="node"),
         lambda node, x: x if node.params["permutation"] == tuple(range(x.ndim)) else None)  # fmt: skip
    rule("transpose of axes of size 1", Pattern(p.transpose, (x,), name="node"), _unit_transpose)
    rule(
        "broadcast of broadcast",
        Pattern(p.broadcast, (Pattern(p.broadcast, (x,), name="inner"),), name="node"),
        _merge_broadcasts,
    )
    rule("slice of everything", Pattern(p.slice_, (x,), name="node"), _is_whole)
    rule("pad by nothing", Pattern(p.pad, (x, y), name="node"), lambda node, x, y: _is_unpadded(node, x))
    rule("concatenate of one", Pattern(p.concatenate, (x,)), lambda x: x)
    rule("flip of flip", Pattern(p.flip, (Pattern(p.flip, (x,), name="inner"),), name="node"),
         lambda node, inner, x: x if node.arg == inner.arg else None)  # fmt: skip
    for op in (p.reduce_sum, p.reduce_max, p.reduce_min, p.reduce_prod, p.reduce_and, p.reduce_or):
        rule(
            "reduce over nothing",
            Pattern(op, (x,), name="node"),
            lambda node, x: x if not node.params["axes"] else None,
        )
    elementwise = _elementwise()
    rule("fold constants", Pattern(elementwise, repeated(constant()), name="node"), _fold)
    rule(
        "compute before broadcast",
        Pattern(elementwise, repeated(Pattern(p.broadcast)), name="node"),
        _compute_before_broadcast,
    )
    return RuleSet(rules)


@cache
def rules() -> RuleSet:
    """The rules; they are made at the first use, over all elementwise primitives that there are then."""
    return _build()


@stage("simplify")
def simplify(graph: Graph) -> Graph:
    """The graph, simplified: the same inputs, and outputs with the same bits."""
    hook = None if uop.on_rebuild is None else _keep_line
    return Graph(graph.inputs, rewrite(graph.outputs, rules(), hook=hook), graph.captured, graph.name)


def _keep_line(rule: Rule, before: UOp, after: UOp) -> None:
    """What a rule makes of a node is from its line, while a profile asks for lines."""
    finite.inherit_line(before, [after])
