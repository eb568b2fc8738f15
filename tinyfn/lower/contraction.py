"""dot_general as a contraction kernel: its axes as rows, columns and sums of batched matrices with strides."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from ..trace import dtype as dtypes
from ..trace import prims as p
from ..trace.uop import UOp
from .gemm import Contraction, Matrix


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
