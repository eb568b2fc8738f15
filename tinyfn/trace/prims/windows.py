"""What gather and scatter share: windows of an array, at positions that are themselves data."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from math import prod
from typing import Any

import numpy as np

from .. import dtype as dtypes
from .. import elements as e
from .. import scalar, sint
from ..prim import (
    Primitive,
    spell,
)
from ..sint import Dimension
from ..uop import UOp, const

MODES = ("clip", "fill")


class _Windows(Primitive):
    """What gather and scatter share: checking the parameters and finding each element of each window."""

    family = "indexing"

    def _check(
        self,
        operand: Any,
        indices: Any,
        axes: tuple[int, ...],
        sizes: tuple[Any, ...],
        batch_dims: int,
        mode: str,
    ) -> None:
        attempt = f"{self.name} of {spell([operand, indices])} at axes {axes} with window {sizes}"
        if dtypes.kind(indices.dtype) not in ("signed", "unsigned"):
            raise TypeError(f"{attempt}: indices must be integers")
        if mode not in MODES:
            raise ValueError(f"{attempt}: mode must be one of {MODES}, not {mode!r}")
        if indices.ndim < batch_dims + 1 or indices.shape[-1] != len(axes):
            raise ValueError(f"{attempt}: the last axis of the indices must have size {len(axes)}")
        if operand.shape[:batch_dims] != indices.shape[:batch_dims]:
            raise ValueError(
                f"{attempt}: the first {batch_dims} axes are batch axes and must have equal sizes"
            )
        distinct = len(set(axes)) == len(axes) and all(batch_dims <= axis < operand.ndim for axis in axes)
        if len(sizes) != operand.ndim - batch_dims or batch_dims < 0 or not distinct:
            raise ValueError(
                f"{attempt}: the window needs one size for each axis that is not one of {batch_dims} batch axes, and the axes "
                "must be distinct ones of these"
            )
        if not all(0 <= s and s <= n for s, n in zip(sizes, operand.shape[batch_dims:], strict=True)):
            raise ValueError(f"{attempt}: the window does not fit into the operand")

    def _windows(
        self, node: UOp, window: e.Index, condition: UOp | None
    ) -> Generator[list[e.Request], list[UOp], Any]:
        """Where the window of a gather or scatter begins along each axis that is not a batch axis, and whether it is within the
        operand; `window` is the window's index, batch axes included."""
        operand, indices = node.src[:2]
        axes, sizes, batch_dims = (node.params[name] for name in ("axes", "sizes", "batch_dims"))
        starts: list[Dimension] = [0] * len(sizes)
        inside: list[UOp | bool] = []
        values = yield [(indices, (*window, i), condition) for i in range(len(axes))]
        for axis, value in zip(axes, values, strict=True):
            if dtypes.kind(value.dtype) == "unsigned" and value.dtype.itemsize == 8:
                value = scalar.build(scalar.MIN, value, const(2**62, value.dtype))
            # A cast, even of an int64, makes it an atom of the index expression.
            start: Dimension = scalar.build(scalar.CAST, value, arg=dtypes.int64)
            room = operand.shape[axis] - sizes[axis - batch_dims]
            inside += [e.at_most(0, start), e.at_most(start, room)]
            starts[axis - batch_dims] = sint.minimum(sint.maximum(start, 0), room)
        return starts, e.conjunction(inside)

    def _elements(
        self, shape: tuple[int, ...], indices: Any, axes: Any, sizes: Any, batch_dims: int, mode: str
    ) -> Any:
        """The flat positions in an operand of this shape of the windows' elements, and which windows are within it."""
        batch, windows = indices.shape[:batch_dims], indices.shape[batch_dims:-1]
        starts = np.zeros((*batch, *windows, len(sizes)), np.int64)
        # uint64 positions beyond int64 are out of bounds all the same.
        signed = (
            np.minimum(indices, np.asarray(2**62).astype(indices.dtype))
            if indices.dtype == np.uint64
            else indices
        )
        for i, axis in enumerate(axes):
            starts[..., axis - batch_dims] = signed[..., i].astype(np.int64)
        room = np.array([n - s for n, s in zip(shape[batch_dims:], sizes, strict=True)], np.int64)
        inside = ((starts >= 0) & (starts <= room)).all(-1)
        starts = np.clip(starts, 0, room)
        strides = [prod(shape[i + 1 :]) for i in range(len(shape))]
        flat = np.zeros((*batch, *windows, *[1] * len(sizes)), np.int64)
        for i, n in enumerate(batch):
            along = [1] * flat.ndim
            along[i] = n
            flat = flat + np.arange(n).reshape(along) * strides[i]
        for i, size in enumerate(sizes):
            along = [1] * flat.ndim
            along[len(batch) + len(windows) + i] = size
            offset = starts[..., i].reshape((*batch, *windows, *[1] * len(sizes))) + np.arange(size).reshape(
                along
            )
            flat = flat + offset * strides[batch_dims + i]
        full_shape = (*batch, *windows, *sizes)
        mask = inside.reshape((*batch, *windows, *[1] * len(sizes)))
        return np.broadcast_to(flat, full_shape), np.broadcast_to(mask, full_shape)


def _numbers(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return (np.arange(prod(shape)) % 50).reshape(shape).astype(dtype)


def _cases() -> Iterator[tuple[tuple[int, ...], np.ndarray, dict[str, Any]]]:
    def integers(values: Any) -> np.ndarray:
        return np.array(values, dtype=np.int32)

    yield (5, 3), integers([[0], [4], [-1], [2], [5]]), {"axes": (0,), "sizes": (1, 3), "batch_dims": 0}
    yield (
        (4, 5),
        integers([[0, 1], [3, 4], [2, 2], [0, 1]]),
        {"axes": (0, 1), "sizes": (2, 2), "batch_dims": 0},
    )
    yield (4, 5), integers([1, 2]), {"axes": (1, 0), "sizes": (1, 2), "batch_dims": 0}
    yield (2, 4, 3), integers([[[0], [3]], [[1], [1]]]), {"axes": (1,), "sizes": (1, 3), "batch_dims": 1}
    yield (
        (2, 4),
        integers([[[[0]], [[3]], [[9]]], [[[2]], [[2]], [[1]]]]),
        {"axes": (1,), "sizes": (1,), "batch_dims": 1},
    )
    yield (6,), integers([[0], [5], [-1], [0], [9], [3]]), {"axes": (0,), "sizes": (1,), "batch_dims": 0}
    yield (3, 2), np.zeros((0, 1), np.int32), {"axes": (0,), "sizes": (1, 2), "batch_dims": 0}
    yield (3,), np.zeros((2, 0), np.int32), {"axes": (), "sizes": (3,), "batch_dims": 0}
    yield (0, 2), integers([[0]]), {"axes": (0,), "sizes": (0, 2), "batch_dims": 0}
