"""Convolutions: products of windows of images with other windows, or with weights of their own at each place."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple, TypeAlias

from ..trace import operators, prims
from ..trace.array import Array
from ..trace.errors import user_line
from ..trace.prims.movement import move_axis
from ..transforms.inspection import ShapeDtypeStruct, eval_shape
from .arguments import ArrayLike, Sizes, applied, as_shape, described, of_one_dtype
from .movement import pad, reshape, rev, transpose
from .precision import PrecisionLike
from .products import accumulated, dot_general
from .sliding import padtype_to_pads, windowed

Padding: TypeAlias = str | Sequence[tuple[int, int]]


class ConvDimensionNumbers(NamedTuple):
    """The axes of the arguments and the result of a convolution, in the order batch, feature, *spatial.

    For rhs, the windows: output feature, input feature, *spatial."""

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


ConvGeneralDilatedDimensionNumbers: TypeAlias = ConvDimensionNumbers | Sequence[str] | None


def conv_dimension_numbers(
    lhs_shape: Sizes, rhs_shape: Sizes, dimension_numbers: ConvDimensionNumbers | Sequence[str] | None
) -> ConvDimensionNumbers:
    """The axes that three strings name, as ("NHWC", "HWIO", "NHWC"); None means ("NC...", "OI...",
    "NC...")."""
    ndim = len(lhs_shape)
    if ndim != len(rhs_shape) or ndim < 2:
        raise ValueError(
            f"a convolution needs as many axes, 2 or more, in shapes {tuple(lhs_shape)} and "
            f"{tuple(rhs_shape)}; at {user_line()}"
        )
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if dimension_numbers is None:
        plain = tuple(range(ndim))
        return ConvDimensionNumbers(plain, plain, plain)
    specs = tuple(dimension_numbers)
    spatial = {
        frozenset(spec) - frozenset(pair) for spec, pair in zip(specs, ("NC", "OI", "NC"), strict=False)
    }
    if (
        len(specs) != 3
        or builtins.any(len(spec) != ndim or len(set(spec)) != ndim for spec in specs)
        or builtins.any(
            not set(pair) <= set(spec) for spec, pair in zip(specs, ("NC", "OI", "NC"), strict=True)
        )
        or len(spatial) != 1
    ):
        raise ValueError(
            f"dimension_numbers {specs} for arrays with {ndim} axes must be three strings of as many "
            'letters: N and C, O and I, N and C, and the same ones for the spatial axes, as ("NHWC", '
            '"HWIO", "NHWC"); '
            f"at {user_line()}"
        )
    letters = [letter for letter in specs[1] if letter not in "OI"]
    lhs, rhs, out = (
        tuple([spec.index(letter) for letter in (*pair, *letters)])
        for spec, pair in zip(specs, ("NC", "OI", "NC"), strict=True)
    )
    return ConvDimensionNumbers(lhs, rhs, out)


def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Array:
    """The correlation of images (lhs) with windows (rhs), strided, padded, dilated and in groups.

    `dimension_numbers` says which axis is which (see `conv_dimension_numbers`), `padding` is a name (see
    `padtype_to_pads`) or a pair (low, high) per spatial axis, negative numbers taking elements away. lhs gets
    lhs_dilation - 1 zeros between its elements; a window's elements are rhs_dilation apart. Precision and
    element type are as in `dot_general`."""
    (x, y), dtype = accumulated(
        "conv_general_dilated",
        of_one_dtype("conv_general_dilated", lhs, rhs),
        preferred_element_type,
        precision,
    )
    numbers = conv_dimension_numbers(x.shape, y.shape, dimension_numbers)
    x, y = transpose(x, numbers.lhs_spec), transpose(y, numbers.rhs_spec)
    count = x.ndim - 2
    strides, spread = (
        as_shape(window_strides),
        (1,) * count if lhs_dilation is None else as_shape(lhs_dilation),
    )
    apart = (1,) * count if rhs_dilation is None else as_shape(rhs_dilation)
    for name, values in (("window_strides", strides), ("lhs_dilation", spread), ("rhs_dilation", apart)):
        if len(values) != count:
            raise ValueError(
                f"lax.conv_general_dilated: {name} {values} needs a number for each of {count} spatial axes; "
                f"at {user_line()}"
            )
    if isinstance(padding, str):
        if builtins.any(n != 1 for n in spread):
            raise ValueError(
                f"lax.conv_general_dilated with lhs_dilation needs padding as pairs, not {padding!r}; at "
                f"{user_line()}"
            )
        windows = [(k - 1) * n + 1 for k, n in zip(y.shape[2:], apart, strict=True)]
        padding = padtype_to_pads(x.shape[2:], windows, strides, padding)
    if len(padding) != count or builtins.any(len(pair) != 2 for pair in padding):
        raise ValueError(
            f"lax.conv_general_dilated: padding {padding} needs a pair for each of {count} spatial axes; at "
            f"{user_line()}"
        )
    result = applied(
        prims.conv_general,
        x,
        y,
        strides=strides,
        low=as_shape([pair[0] for pair in padding]),
        high=as_shape([pair[1] for pair in padding]),
        lhs_dilation=spread,
        rhs_dilation=apart,
        feature_groups=operator.index(feature_group_count),
        batch_groups=operator.index(batch_group_count),
    )
    inverse = [numbers.out_spec.index(axis) for axis in range(result.ndim)]
    return operators.to_dtype(transpose(result, inverse), dtype)


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Array:
    """`conv_general_dilated` of lhs [N, C, *spatial] with rhs [O, C, *window]."""
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        None,
        1,
        1,
        precision,
        preferred_element_type,
    )


def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Padding,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Array:
    """`conv_general_dilated` of lhs [N, C, *spatial] with rhs [O, C, *window], without dilation."""
    return conv_with_general_padding(
        lhs, rhs, window_strides, padding, None, None, precision, preferred_element_type
    )


def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[int],
    padding: Padding,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    transpose_kernel: bool = False,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Array:
    """The convolution that goes from places back to images: lhs spread out by the strides, then correlated
    with rhs.

    "VALID" gives size · stride + max(window - stride, 0) elements per axis, "SAME" size · stride; pairs are
    what is added to the spread lhs. With `transpose_kernel` rhs is flipped and its features exchanged, which
    makes this the derivative of a convolution. None as `dimension_numbers` means channels last, as ("NHWC",
    "HWIO", "NHWC")."""
    x, y = operators.operand(lhs), operators.operand(rhs)
    if dimension_numbers is None:
        letters = "".join(chr(ord("0") + i) for i in range(x.ndim - 2))
        dimension_numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    numbers = conv_dimension_numbers(x.shape, y.shape, dimension_numbers)
    windows = [y.shape[axis] for axis in numbers.rhs_spec[2:]]
    apart = (1,) * len(windows) if rhs_dilation is None else as_shape(rhs_dilation)
    if isinstance(padding, str):
        pairs = []
        for k, n, stride in zip(windows, apart, strides, strict=True):
            window = (k - 1) * n + 1
            if padding.upper() == "VALID":
                total, low = window + stride - 2 + builtins.max(window - stride, 0), window - 1
            elif padding.upper() == "SAME":
                total = window + stride - 2
                low = window - 1 if stride > window - 1 else -(-total // 2)
            else:
                raise ValueError(
                    f'lax.conv_transpose: padding {padding!r} must be "VALID", "SAME" or pairs; at '
                    f"{user_line()}"
                )
            pairs.append((low, total - low))
        padding = pairs
    if transpose_kernel:
        spec = numbers.rhs_spec
        rhs = rev(y, spec[2:])
        numbers = numbers._replace(rhs_spec=(spec[1], spec[0], *spec[2:]))
    ones = (1,) * len(windows)
    return conv_general_dilated(
        lhs, rhs, ones, padding, strides, apart, numbers, 1, 1, precision, preferred_element_type
    )


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
    a convolution's."""
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
    the order that the dimension numbers give for weights."""
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


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """What puts the axes of lhs, rhs and the result into the order of their batch, feature and spatial axes (in the order of
    rhs), from strings as for `conv_dimension_numbers`; the axes of lhs and the result begin with N and C, those of rhs with O and
    I."""
    ndim = len(dimension_numbers[0])
    numbers = conv_dimension_numbers((1,) * ndim, (1,) * ndim, dimension_numbers)
    return numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec


def _shape_of(function: Any, lhs_shape: Sizes, rhs_shape: Sizes) -> tuple[Any, ...]:
    shapes = [ShapeDtypeStruct(tuple(shape), "float32") for shape in (lhs_shape, rhs_shape)]
    result: tuple[Any, ...] = eval_shape(function, *shapes).shape
    return result


def conv_shape_tuple(
    lhs_shape: Sizes, rhs_shape: Sizes, strides: Sequence[int], pads: Padding, batch_group_count: int = 1
) -> tuple[Any, ...]:
    """The shape of the convolution of [N, C, *spatial] with [O, C, *window]."""
    return _shape_of(
        lambda x, y: conv_general_dilated(x, y, strides, pads, batch_group_count=batch_group_count),
        lhs_shape,
        rhs_shape,
    )


def conv_general_shape_tuple(
    lhs_shape: Sizes,
    rhs_shape: Sizes,
    window_strides: Sequence[int],
    padding: Padding,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers,
) -> tuple[Any, ...]:
    """The shape of the result of `conv_general_dilated`."""
    return _shape_of(
        lambda x, y: conv_general_dilated(x, y, window_strides, padding, dimension_numbers=dimension_numbers),
        lhs_shape,
        rhs_shape,
    )


def conv_transpose_shape_tuple(
    lhs_shape: Sizes,
    rhs_shape: Sizes,
    window_strides: Sequence[int],
    padding: Padding,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers,
) -> tuple[Any, ...]:
    """The shape of the result of `conv_transpose`."""
    return _shape_of(
        lambda x, y: conv_transpose(x, y, window_strides, padding, dimension_numbers=dimension_numbers),
        lhs_shape,
        rhs_shape,
    )
