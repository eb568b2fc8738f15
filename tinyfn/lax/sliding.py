"""Windows of an array as axes of their own, and the padding that names stand for."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from ..trace import operators
from ..trace.array import Array
from ..trace.errors import user_line
from ..trace.prims.movement import move_axis
from ..trace.prims.sliding import places, windows
from .arguments import applied
from .movement import broadcast_in_dim, pad, reshape, slice_in_dim


def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int], padding: str
) -> list[tuple[int, int]]:
    """The zeros before and after each axis that "VALID" (none), "SAME" or "SAME_LOWER" means.

    With "SAME" there are size / stride places, rounded up; an odd zero goes to the end, with "SAME_LOWER" to
    the start.

    >>> lax.padtype_to_pads(in_shape=(8, 9), window_shape=(3, 3), window_strides=(2, 2), padding="SAME")
    [(0, 1), (1, 1)]
    >>> lax.padtype_to_pads((8, 9), (3, 3), (2, 2), "SAME_LOWER")
    [(1, 0), (1, 1)]
    """
    kind = padding.upper()
    if kind == "VALID":
        return [(0, 0)] * len(in_shape)
    if kind not in ("SAME", "SAME_LOWER"):
        raise ValueError(
            f'padding {padding!r} must be "VALID", "SAME", "SAME_LOWER" or pairs of numbers; at {user_line()}'
        )
    pairs = []
    for size, window, stride in zip(in_shape, window_shape, window_strides, strict=True):
        total = builtins.max((-(-size // stride) - 1) * stride + window - size, 0)
        less, more = total // 2, total - total // 2
        pairs.append((less, more) if kind == "SAME" else (more, less))
    return pairs


def windowed(x: Array, sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Array:
    """Windows of an array: each axis becomes one of places; for each axis along which they have several elements one follows."""
    overlapping: list[tuple[int, int, int, int]] = []
    for axis, (size, stride, dilation) in enumerate(zip(sizes, strides, dilations, strict=True)):
        count = places(x.shape[axis], size, stride, dilation)
        nowhere = isinstance(count, int) and count == 0
        if size == 1 or nowhere:
            x = slice_in_dim(x, 0, 0 if nowhere else (count - 1) * stride + 1, stride, axis)
            x = x if size == 1 else _repeated(x, size)
        elif (size - 1) * dilation < stride:
            x = _cut(x, axis, size, stride, dilation, count)
        else:
            overlapping.append((axis, x.ndim, stride, dilation))
            x = _repeated(x, size)
    if overlapping:
        names = ("axes", "inner", "strides", "dilations")
        x = applied(windows, x, **dict(zip(names, zip(*overlapping, strict=True), strict=True)))
    return x


def _repeated(x: Array, size: int) -> Array:
    return broadcast_in_dim(x, (*x.shape, size), tuple(range(x.ndim)))


def _cut(x: Array, axis: int, size: int, stride: int, dilation: int, count: Any) -> Array:
    """Windows that do not overlap are an axis split in two; so its derivatives have no sum over windows."""
    # The last window need not reach to where the next one would begin.
    missing = count * stride - x.shape[axis]
    zero = operators.scalar(0, x.dtype)
    x = pad(x, zero, [(0, missing if i == axis else 0, 0) for i in range(x.ndim)])
    x = reshape(x, (*x.shape[:axis], count, stride, *x.shape[axis + 1 :]))
    x = slice_in_dim(x, 0, (size - 1) * dilation + 1, dilation, axis + 1)
    return move_axis(x, axis + 1, x.ndim - 1)
