"""Contractions: which elements of the operands of dot_general and conv_general are multiplied for an element of the result."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

from ..trace import dtype as dtypes
from ..trace import prims as p
from ..trace import scalar, sint
from ..trace.sint import Dimension
from ..trace.uop import UOp, const
from .gemm_matrix import Contraction, Matrix

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


def contraction(node: UOp) -> Contraction | None:
    """The contraction that a node is, with the operands in row-major order, or None if it is not one of matrices.

    The kernel's arguments are the two operands and the result."""
    if node.op is not p.dot_general or node.dtype not in (*dtypes.FLOATS, *dtypes.INTEGERS):
        return None
    x, y = node.src
    if not all(isinstance(n, int) and n > 0 for n in (*x.shape, *y.shape)):
        return None
    (contract_x, contract_y), (batch_x, batch_y) = node.params["contract"], node.params["batch_axes"]
    # The order in which a sum runs over its axes is free: that of the left operand's memory.
    order = sorted(range(len(contract_x)), key=lambda i: contract_x[i])
    contract_x, contract_y = [contract_x[i] for i in order], [contract_y[i] for i in order]
    free_x = [a for a in range(x.ndim) if a not in contract_x and a not in batch_x]
    free_y = [a for a in range(y.ndim) if a not in contract_y and a not in batch_y]
    steps = [
        _stride(v.shape, axes) for v, axes in ((x, free_x), (x, contract_x), (y, contract_y), (y, free_y))
    ]
    if None in steps:
        return None
    rows, along_x, along_y, columns = (step or 0 for step in steps)
    m, n = prod(x.shape[a] for a in free_x), prod(y.shape[a] for a in free_y)
    batch = tuple([x.shape[a] for a in batch_x])
    strides_x, strides_y = _row_major(x.shape), _row_major(y.shape)
    return Contraction(
        m,
        n,
        prod(x.shape[a] for a in contract_x),
        Matrix(0, x.dtype, rows, along_x, tuple([strides_x[a] for a in batch_x])),
        Matrix(1, y.dtype, along_y, columns, tuple([strides_y[a] for a in batch_y])),
        Matrix(2, node.dtype, n, 1, tuple([stride * m * n for stride in _row_major(batch)])),
        batch,
    )


def _row_major(shape: Sequence[int]) -> list[int]:
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _stride(shape: Sequence[int], axes: Sequence[int]) -> int | None:
    """The step through axes taken as one, the last of them fastest, or None if there is no single one."""
    strides = _row_major(shape)
    moving = [axis for axis in axes if shape[axis] != 1]
    for slow, fast in pairwise(moving):
        if strides[slow] != shape[fast] * strides[fast]:
            return None
    return strides[moving[-1]] if moving else 0
