"""The windows of a convolution as features, and convolutions with weights of their own at each place."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..trace import operators
from ..trace.array import Array
from ..trace.errors import user_line
from ..trace.prims.movement import move_axis
from .arguments import ArrayLike, as_shape, described, of_one_dtype
from .convolutions import ConvGeneralDilatedDimensionNumbers, Padding, conv_dimension_numbers
from .movement import pad, reshape, transpose
from .precision import PrecisionLike
from .products import dot_general
from .sliding import padtype_to_pads, windowed


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Array:
    """The windows that `conv_general_dilated` would multiply, as features: prod(filter_shape) for each channel in turn.

    `filter_shape` is that of a window along the spatial axes, in the order of the weights; the axes of the result are those of
    a convolution's.

    >>> x = tnp.array([[[1, 2, 3, 4], [5, 6, 7, 8]]])
    >>> lax.conv_general_dilated_patches(x, filter_shape=(2,), window_strides=(1,), padding="VALID")
    Array([[[1, 2, 3],
            [2, 3, 4],
            [5, 6, 7],
            [6, 7, 8]]], dtype=int32)
    """
    x = operators.operand(lhs)
    window = as_shape(filter_shape)
    numbers = conv_dimension_numbers(x.shape, (1, 1, *window), dimension_numbers)
    x = transpose(x, numbers.lhs_spec)
    count = x.ndim - 2
    ones = (1,) * count
    spread, apart = (
        ones if lhs_dilation is None else lhs_dilation,
        ones if rhs_dilation is None else rhs_dilation,
    )
    if isinstance(padding, str):
        extents = [(k - 1) * n + 1 for k, n in zip(window, apart, strict=True)]
        padding = padtype_to_pads(x.shape[2:], extents, window_strides, padding)
    config = [(low, high, n - 1) for (low, high), n in zip(padding, spread, strict=True)]
    padded = pad(x, operators.scalar(0, x.dtype), [(0, 0, 0), (0, 0, 0), *config])
    made = windowed(padded, (1, 1, *window), (1, 1, *window_strides), (1, 1, *apart))
    images, channels, *places = made.shape[: x.ndim]
    # The window's elements come after the channels.
    order = (0, 1, *range(x.ndim, made.ndim), *range(2, x.ndim))
    result = reshape(transpose(made, order), (images, channels * prod(window), *places))
    inverse = [numbers.out_spec.index(axis) for axis in range(result.ndim)]
    result = transpose(result, inverse)
    return result if preferred_element_type is None else operators.astype(result, preferred_element_type)


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Padding,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
) -> Array:
    """`conv_general_dilated` with weights of their own at each place: rhs is [O, C · prod(filter_shape), *places], its axes in
    the order that the dimension numbers give for weights.

    >>> x, w = tnp.array([[[1.0, 2.0, 3.0]]]), tnp.array([[[1.0, 100.0], [10.0, 1000.0]]])
    >>> lax.conv_general_dilated_local(x, w, window_strides=(1,), padding="VALID", filter_shape=(2,))
    Array([[[  21., 3200.]]], dtype=float32)
    """
    x, y = of_one_dtype("conv_general_dilated_local", lhs, rhs)
    patches = conv_general_dilated_patches(
        x, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers
    )
    numbers = conv_dimension_numbers(x.shape, y.shape, dimension_numbers)
    patches, y = transpose(patches, numbers.out_spec), transpose(y, numbers.rhs_spec)
    places = tuple(range(2, x.ndim))
    if y.shape[1:] != patches.shape[1:]:
        raise ValueError(
            f"lax.conv_general_dilated_local of {described([lhs])} needs weights of the shape "
            f"{tuple(patches.shape[1:])} for each feature, not {described([rhs])}; at {user_line()}"
        )
    result = dot_general(patches, y, (((1,), (1,)), (places, places)), precision)  # [*places, N, O]
    result = move_axis(move_axis(result, result.ndim - 2, 0), result.ndim - 1, 1)
    return transpose(result, [numbers.out_spec.index(axis) for axis in range(result.ndim)])
