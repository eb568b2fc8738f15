"""Products that sum over axes, and convolutions."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from ..trace import dtype as dtypes
from ..trace import operators, prims
from ..trace.array import Array
from ..trace.dtype import DType
from ..trace.errors import user_line
from .arguments import ArrayLike, Sizes, applied, as_shape, described, distinct_axes, of_one_dtype
from .movement import rev, transpose

DotDimensionNumbers: TypeAlias = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]


def _accumulated(arrays: list[Array], preferred: Any) -> tuple[list[Array], DType]:
    """The factors in a type in which a product can be summed that is asked for in `preferred`, and that
    type."""
    dtype = arrays[0].dtype
    target = dtype if preferred is None else dtypes.canonical(preferred)
    if dtypes.promote_types(dtype, target) is not dtype:
        arrays = [operators.to_dtype(a, dtypes.promote_types(dtype, target)) for a in arrays]
    return arrays, target


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Sums of products over paired axes: `dimension_numbers` is ((lhs, rhs) contracting axes, (lhs, rhs)
    batch axes).

    The result has the batch axes, then the other axes of lhs, then those of rhs, and the dtype
    `preferred_element_type`, in which it is accumulated. Half precision is accumulated in float32 in any
    case, and float32 is never computed in less: `precision` is accepted and ignored."""
    (x, y), dtype = _accumulated(of_one_dtype("dot_general", lhs, rhs), preferred_element_type)
    pairs = [
        tuple([distinct_axes("dot_general", axes, a.ndim) for axes, a in zip(pair, (x, y), strict=True)])
        for pair in dimension_numbers
    ]
    return operators.to_dtype(applied(prims.dot_general, x, y, contract=pairs[0], batch_axes=pairs[1]), dtype)


def dot(lhs: ArrayLike, rhs: ArrayLike, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """The product of vectors and matrices: over the last axis of lhs and the first of rhs."""
    x, y = operators.operand(lhs), operators.operand(rhs)
    if not 1 <= x.ndim <= 2 or not 1 <= y.ndim <= 2:
        raise TypeError(
            f"lax.dot multiplies vectors and matrices, not {described([x, y])}; at {user_line()}: use "
            "dot_general"
        )
    return dot_general(lhs, rhs, (((x.ndim - 1,), (0,)), ((), ())), precision, preferred_element_type)


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: Any = None) -> Array:
    """The matrix products over the last two axes, for each index of the other axes, which both have."""
    x, y = operators.operand(lhs), operators.operand(rhs)
    if x.ndim < 2 or x.ndim != y.ndim:
        raise ValueError(
            f"lax.batch_matmul needs two arrays with equally many axes, 2 or more, not {described([x, y])}; "
            f"at {user_line()}"
        )
    batch = tuple(range(x.ndim - 2))
    return dot_general(lhs, rhs, (((x.ndim - 1,), (x.ndim - 2,)), (batch, batch)), precision)


class ConvDimensionNumbers(NamedTuple):
    """The axes of the arguments and the result of a convolution, in the order batch, feature, *spatial.

    For rhs, the windows: output feature, input feature, *spatial."""

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


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


def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int], padding: str
) -> list[tuple[int, int]]:
    """The zeros before and after each axis that "VALID" (none), "SAME" or "SAME_LOWER" means.

    With "SAME" there are size / stride places, rounded up; an odd zero goes to the end, with "SAME_LOWER" to
    the start."""
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


def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvDimensionNumbers | Sequence[str] | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The correlation of images (lhs) with windows (rhs), strided, padded, dilated and in groups.

    `dimension_numbers` says which axis is which (see `conv_dimension_numbers`), `padding` is a name (see
    `padtype_to_pads`) or a pair (low, high) per spatial axis, negative numbers taking elements away. lhs gets
    lhs_dilation - 1 zeros between its elements; a window's elements are rhs_dilation apart. Precision and
    element type are as in `dot_general`."""
    (x, y), dtype = _accumulated(of_one_dtype("conv_general_dilated", lhs, rhs), preferred_element_type)
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
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
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
    padding: str | Sequence[tuple[int, int]],
    precision: Any = None,
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
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvDimensionNumbers | Sequence[str] | None = None,
    transpose_kernel: bool = False,
    precision: Any = None,
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
