"""Contractions: which elements of the operands of dot_general and conv_general are multiplied for an element of the result."""

from __future__ import annotations

from typing import NamedTuple

from ..trace import dtype as dtypes
from ..trace import prims as p
from ..trace import scalar, sint
from ..trace.sint import Dimension
from ..trace.uop import UOp, const

Index = tuple[Dimension, ...]

CONTRACTIONS = (p.dot_general, p.conv_general)


class Factor(NamedTuple):
    """An operand's part of a product: the element at an index if the condition (a scalar bool, None for true) holds, else 0.

    Where the condition does not hold, the index may be outside of the operand."""

    at: Index
    condition: UOp | None = None


def summed(node: UOp) -> tuple[Dimension, ...]:
    """The sizes of the ranges over which dot_general or conv_general sums, outermost first."""
    if node.op is p.dot_general:
        return tuple([node.src[0].shape[axis] for axis, _ in _pairs(node)])
    return tuple(node.src[1].shape[1:])


def factors(node: UOp, index: Index, inner: Index) -> tuple[Factor, Factor]:
    """The elements of the left and right operand that are multiplied, for an index of the result and one of `summed(node)`.

    With r the ranges of `inner`, an element of the result is

        sum over r of  value(node.src[0], left) * value(node.src[1], right)    where left, right = factors(node, index, r)

    with both values cast to `dtypes.accumulator(node.dtype)`, and the sum to `node.dtype`; `value` is
    `WHERE(condition, Elements.at(operand, factor.at), 0)`, in which a LOAD takes the condition as its second source, so that
    nothing is read where it does not hold. As of any range, an axis of size 1 may have the index 0. The conditions are
    comparisons of int64 expressions of the ranges; those that always hold are left out."""
    return (_dot_factors if node.op is p.dot_general else _conv_factors)(node, index, inner)


def _pairs(node: UOp) -> list[tuple[int, int]]:
    """The contracted axes of a dot_general, in the order of the left operand's memory: that of a sum is free."""
    return sorted(zip(*node.params["contract"], strict=True))


def _dot_factors(node: UOp, index: Index, inner: Index) -> tuple[Factor, Factor]:
    batch_axes = node.params["batch_axes"]
    batch = index[: len(batch_axes[0])]
    free = iter(index[len(batch) :])
    made = []
    for side, operand in enumerate(node.src):
        at: dict[int, Dimension] = dict(zip(batch_axes[side], batch, strict=True))
        at |= {pair[side]: k for pair, k in zip(_pairs(node), inner, strict=True)}
        made.append(Factor(tuple([at[axis] if axis in at else next(free) for axis in range(operand.ndim)])))
    return made[0], made[1]


def _conv_factors(node: UOp, index: Index, inner: Index) -> tuple[Factor, Factor]:
    lhs, rhs = node.src
    params = node.params
    image, feature, *place = index
    channel, *tap = inner
    groups = params["feature_groups"] * params["batch_groups"]
    if groups > 1:
        group = sint.floordiv(feature, sint.floordiv(rhs.shape[0], groups))
        if params["feature_groups"] > 1:
            channel = sint.add(sint.mul(group, rhs.shape[1]), channel)
        else:
            image = sint.add(sint.mul(group, node.shape[0]), image)
    spatial: list[Dimension] = []
    conditions: list[UOp] = []
    for axis, (at, k) in enumerate(zip(place, tap, strict=True)):
        stride, low, lhs_dilation, rhs_dilation = (
            params[name][axis] for name in ("strides", "low", "lhs_dilation", "rhs_dilation")
        )
        # Where in the padded and dilated operand, counted from its first element.
        where = sint.sub(sint.add(sint.mul(at, stride), sint.mul(k, rhs_dilation)), low)
        element = sint.floordiv(where, lhs_dilation)
        conditions += _between(element, lhs.shape[2 + axis])
        conditions += _is_zero(sint.mod(where, lhs_dilation))
        spatial.append(element)
    condition: UOp | None = None
    for each in conditions:
        condition = each if condition is None else scalar.build(scalar.AND, condition, each)
    return Factor((image, channel, *spatial), condition), Factor((feature, *inner))


def _between(i: Dimension, n: Dimension) -> list[UOp]:
    """The conditions of 0 <= i < n that do not always hold."""
    made = []
    if not sint.always_less_equal(0, i):
        made.append(_less(-1, i))
    if not sint.always_less_equal(sint.add(i, 1), n):
        made.append(_less(i, n))
    return made


def _is_zero(i: Dimension) -> list[UOp]:
    """The condition of i == 0 if it does not always hold."""
    return [] if i == 0 else [scalar.build(scalar.EQ, _node(i), _node(0))]


def _less(a: Dimension, b: Dimension) -> UOp:
    return scalar.build(scalar.LT, _node(a), _node(b))


def _node(dimension: Dimension) -> UOp:
    return dimension if isinstance(dimension, UOp) else const(dimension, dtypes.int64)
