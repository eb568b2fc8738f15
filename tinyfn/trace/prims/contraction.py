"""dot_general: every product of arrays that sums over paired axes (matmul, einsum, outer and inner products)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..prim import Multilinear, Sample, spell
from ..uop import UOp
from .movement import move_axis, transpose

Axes = tuple[int, ...]


class DotGeneral(Multilinear):
    """The sum of products over the paired axes `contract`, for each index of the paired axes `batch`.

    `contract` and `batch` are pairs (axes of the left, axes of the right argument). The result has the batch axes, then
    the other axes of the left, then those of the right argument. Half precision is accumulated in float32, small integers
    in 32 bits."""

    family = "contraction"
    params = ("contract", "batch_axes")

    def out(self, x: Any, y: Any, *, contract: tuple[Axes, Axes], batch_axes: tuple[Axes, Axes]) -> Any:
        if (
            x.dtype is not y.dtype
            or dtypes.kind(x.dtype) in ("bool", "key")
            or x.dtype in dtypes.NARROW_FLOATS
        ):
            raise TypeError(f"dot_general needs two numeric arrays of one dtype, not {spell([x, y])}")
        (contract_x, contract_y), (batch_x, batch_y) = contract, batch_axes
        for a, axes in ((x, (*contract_x, *batch_x)), (y, (*contract_y, *batch_y))):
            if len(set(axes)) != len(axes) or any(not 0 <= axis < a.ndim for axis in axes):
                raise ValueError(
                    f"dot_general of {spell([x, y])}: {axes} are not distinct axes of {spell([a])}, in 0..{a.ndim - 1}"
                )
        for what, xs, ys in (("contracting", contract_x, contract_y), ("batch", batch_x, batch_y)):
            sizes_x, sizes_y = [x.shape[a] for a in xs], [y.shape[a] for a in ys]
            if sizes_x != sizes_y:
                raise ValueError(
                    f"dot_general of {spell([x, y])}: {what} axes {xs} and {ys} have sizes {sizes_x} and {sizes_y}"
                )
        free_x = [n for a, n in enumerate(x.shape) if a not in contract_x and a not in batch_x]
        free_y = [n for a, n in enumerate(y.shape) if a not in contract_y and a not in batch_y]
        return x.dtype, (*[x.shape[a] for a in batch_x], *free_x, *free_y)

    def reference(self, x: Any, y: Any, *, contract: tuple[Axes, Axes], batch_axes: tuple[Axes, Axes]) -> Any:
        x, y = np.asarray(x), np.asarray(y)
        dtype, wide = x.dtype, dtypes.accumulator(x.dtype)
        (contract_x, contract_y), (batch_x, batch_y) = contract, batch_axes
        free_x, free_y = _free(x.ndim, contract_x, batch_x), _free(y.ndim, contract_y, batch_y)
        batch = [x.shape[a] for a in batch_x]
        rows, columns = [x.shape[a] for a in free_x], [y.shape[a] for a in free_y]
        inner = prod([x.shape[a] for a in contract_x])
        if wide is not dtype:
            x, y = x.astype(wide), y.astype(wide)
        x = x.transpose((*batch_x, *free_x, *contract_x)).reshape((*batch, prod(rows), inner))
        y = y.transpose((*batch_y, *contract_y, *free_y)).reshape((*batch, inner, prod(columns)))
        return np.matmul(x, y).reshape((*batch, *rows, *columns)).astype(dtype, copy=False)

    def transpose(self, ct: UOp, args: Sequence[UOp], index: int, *, contract: Any, batch_axes: Any) -> UOp:
        """A product of the cotangent with the other argument over that one's free axes, its axes then put in order."""
        mine, other = args[index], args[1 - index]
        contract_mine, contract_other = contract[index], contract[1 - index]
        batch_mine, batch_other = batch_axes[index], batch_axes[1 - index]
        free_mine = _free(mine.ndim, contract_mine, batch_mine)
        free_other = _free(other.ndim, contract_other, batch_other)
        count = len(batch_mine)
        begin = count + (len(free_mine) if index == 0 else 0)
        ct_free_other = tuple(range(begin, begin + len(free_other)))
        # The axes of the product: batch, free axes of mine, contracting axes in the other's order; or these two exchanged.
        ordered = sorted(range(len(contract_other)), key=lambda i: contract_other[i])
        summed = tuple([contract_mine[i] for i in ordered])
        contract, batch = (ct_free_other, free_other), (tuple(range(count)), batch_other)
        have = (*batch_mine, *summed, *free_mine)
        if have == tuple(range(mine.ndim)) and summed and free_mine:
            return dot_general(other, ct, contract=contract[::-1], batch_axes=batch[::-1])
        result = dot_general(ct, other, contract=contract, batch_axes=batch)
        have = (*batch_mine, *free_mine, *summed)
        permutation = tuple([have.index(axis) for axis in range(mine.ndim)])
        return (
            result if permutation == tuple(range(mine.ndim)) else transpose(result, permutation=permutation)
        )

    def batch(
        self, size: Any, args: Sequence[UOp], batched: Sequence[bool], *, contract: Any, batch_axes: Any
    ) -> UOp:
        x, y = args
        shifted = [
            [
                tuple([a + 1 for a in axes]) if is_batched else axes
                for axes, is_batched in zip(pair, batched, strict=True)
            ]
            for pair in (contract, batch_axes)
        ]
        (contract_x, contract_y), (batch_x, batch_y) = shifted
        if all(batched):
            pairs = ((0, *batch_x), (0, *batch_y))
            return dot_general(x, y, contract=(contract_x, contract_y), batch_axes=pairs)
        result = dot_general(x, y, contract=(contract_x, contract_y), batch_axes=(batch_x, batch_y))
        # The batch axis became the first free axis of the argument that has it.
        position = len(batch_x)
        if batched[1]:
            position += len(_free(x.ndim, contract_x, batch_x))
        return move_axis(result, position, 0)

    def samples(self) -> Iterator[Sample]:
        generator = np.random.default_rng(0)
        matrix = {"contract": ((1,), (0,)), "batch_axes": ((), ())}
        cases = (
            ((2, 3), (3, 4), matrix),
            ((3,), (3,), {"contract": ((0,), (0,)), "batch_axes": ((), ())}),
            ((2,), (3,), {"contract": ((), ()), "batch_axes": ((), ())}),
            ((2, 3, 4), (4, 2, 5), {"contract": ((2,), (0,)), "batch_axes": ((0,), (1,))}),
            ((2, 3, 4), (3, 4, 2), {"contract": ((1, 2), (0, 1)), "batch_axes": ((0,), (2,))}),
            ((3, 4, 2), (4, 3), {"contract": ((0, 1), (1, 0)), "batch_axes": ((), ())}),
            ((2, 0), (0, 3), matrix),
            ((0, 2), (2, 3), matrix),
            ((), (3,), {"contract": ((), ()), "batch_axes": ((), ())}),
        )
        for shape_x, shape_y, params in cases:
            yield Sample(
                (
                    generator.normal(size=shape_x).astype(np.float32),
                    generator.normal(size=shape_y).astype(np.float32),
                ),
                params,
            )
        for dtype in (*dtypes.INTEGERS, *dtypes.FLOATS):
            x, y = (
                generator.integers(0, 5, (2, 3)).astype(dtype),
                generator.integers(0, 5, (3, 4)).astype(dtype),
            )
            yield Sample((x, y), matrix)
        for dtype in dtypes.COMPLEX:
            x, y = (
                (generator.normal(size=shape) + 1j * generator.normal(size=shape)).astype(dtype)
                for shape in ((2, 3), (3, 4))
            )
            yield Sample((x, y), matrix)


def _free(ndim: int, *used: Axes) -> Axes:
    taken = {axis for axes in used for axis in axes}
    return tuple([axis for axis in range(ndim) if axis not in taken])


dot_general = DotGeneral()
