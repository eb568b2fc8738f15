"""Convolutions: products of windows of images with other windows, summed."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..trace import operators, prims
from ..trace.array import Array
from ..trace.errors import user_line
from ..transforms.inspection import ShapeDtypeStruct, eval_shape
from .arguments import ArrayLike, Sizes, applied, as_shape, of_one_dtype
from .movement import rev, transpose
from .precision import PrecisionLike
from .products import accumulated
from .sliding import padtype_to_pads

Padding: TypeAlias = str | Sequence[tuple[int, int]]


class ConvDimensionNumbers(NamedTuple):
    """The axes of the arguments and the result of a convolution, in the order batch, feature, *spatial.

    For rhs, the windows: output feature, input feature, *spatial.

    >>> lax.conv_dimension_numbers((1, 8, 8, 3), (5, 5, 3, 16), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


ConvGeneralDilatedDimensionNumbers: TypeAlias = ConvDimensionNumbers | Sequence[str] | None


def conv_dimension_numbers(
    lhs_shape: Sizes, rhs_shape: Sizes, dimension_numbers: ConvDimensionNumbers | Sequence[str] | None
) -> ConvDimensionNumbers:
    """The axes that three strings name, as ("NHWC", "HWIO", "NHWC"); None means ("NC...", "OI...",
    "NC...").

    >>> lax.conv_dimension_numbers((1, 8, 8, 3), (5, 5, 3, 16), ("NHWC", "HWIO", "NHWC")).rhs_spec
    (3, 2, 0, 1)
    >>> lax.conv_dimension_numbers((1, 3, 8), (16, 3, 5), None).lhs_spec
    (0, 1, 2)
    """
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
    element type are as in `dot_general`.

    >>> x, w = tnp.array([[[1.0, 2.0, 3.0, 4.0]]]), tnp.array([[[1.0, 10.0]]])
    >>> lax.conv_general_dilated(x, w, window_strides=(1,), padding="VALID")
    Array([[[21., 32., 43.]]], dtype=float32)
    >>> lax.conv_general_dilated(x, w, (2,), [(1, 1)])
    Array([[[10., 32.,  4.]]], dtype=float32)
    >>> lax.conv_general_dilated(x, w, (1,), "VALID", rhs_dilation=(2,))
    Array([[[31., 42.]]], dtype=float32)

    Images with channels last, and a convolution of each of 3 channels with 2 windows of its own:

    >>> numbers = ("NHWC", "HWIO", "NHWC")
    >>> images, weights = tnp.ones((8, 32, 32, 3)), tnp.ones((5, 5, 3, 16))
    >>> lax.conv_general_dilated(images, weights, (2, 2), "SAME", dimension_numbers=numbers).shape
    (8, 16, 16, 16)
    >>> each = tnp.ones((5, 5, 1, 6))
    >>> lax.conv_general_dilated(
    ...     images, each, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=3
    ... ).shape
    (8, 32, 32, 6)
    """
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
        if builtins.any(isinstance(n, int) and n < 1 for n in values):
            raise ValueError(f"lax.conv_general_dilated: {name} {values} must be 1 or more; at {user_line()}")
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
    """`conv_general_dilated` of lhs [N, C, *spatial] with rhs [O, C, *window].

    >>> x, w = tnp.array([[[1.0, 2.0, 3.0]]]), tnp.array([[[1.0, 10.0]]])
    >>> lax.conv_with_general_padding(x, w, (1,), [(0, 1)], lhs_dilation=(2,), rhs_dilation=(1,))
    Array([[[ 1., 20.,  2., 30.,  3.]]], dtype=float32)
    """
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
    """`conv_general_dilated` of lhs [N, C, *spatial] with rhs [O, C, *window], without dilation.

    >>> lax.conv(tnp.ones((8, 3, 32, 32)), tnp.ones((16, 3, 5, 5)), (1, 1), "SAME").shape
    (8, 16, 32, 32)
    >>> lax.conv(tnp.array([[[1.0, 2.0, 3.0]]]), tnp.array([[[1.0, 10.0]]]), (1,), "VALID")
    Array([[[21., 32.]]], dtype=float32)
    """
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
    use_consistent_padding: bool = False,
) -> Array:
    """The convolution that goes from places back to images: lhs spread out by the strides, then correlated
    with rhs.

    "VALID" gives size · stride + max(window - stride, 0) elements per axis, "SAME" size · stride; pairs are
    what is added to the spread lhs or, with `use_consistent_padding`, the padding of the convolution of which this is the
    derivative. With `transpose_kernel` rhs is flipped and its features exchanged, which
    makes this the derivative of a convolution. None as `dimension_numbers` means channels last, as ("NHWC",
    "HWIO", "NHWC").

    >>> x, w = tnp.array([[[1.0], [2.0]]]), tnp.array([[[1.0]], [[10.0]]])
    >>> lax.conv_transpose(x, w, strides=(2,), padding="VALID").ravel()
    Array([10.,  1., 20.,  2.], dtype=float32)
    >>> lax.conv_transpose(x, w, (2,), "VALID", transpose_kernel=True).ravel()
    Array([ 1., 10.,  2., 20.], dtype=float32)
    >>> lax.conv_transpose(tnp.ones((8, 16, 16, 3)), tnp.ones((4, 4, 3, 5)), (2, 2), "SAME").shape
    (8, 32, 32, 5)
    """
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
    elif use_consistent_padding:
        ends = [(k - 1) * n for k, n in zip(windows, apart, strict=True)]
        padding = [(end - low, end - high) for end, (low, high) in zip(ends, padding, strict=True)]
    if transpose_kernel:
        spec = numbers.rhs_spec
        rhs = rev(y, spec[2:])
        numbers = numbers._replace(rhs_spec=(spec[1], spec[0], *spec[2:]))
    ones = (1,) * len(windows)
    return conv_general_dilated(
        lhs, rhs, ones, padding, strides, apart, numbers, 1, 1, precision, preferred_element_type
    )


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """What puts the axes of lhs, rhs and the result into the order of their batch, feature and spatial axes (in the order of
    rhs), from strings as for `conv_dimension_numbers`; the axes of lhs and the result begin with N and C, those of rhs with O and
    I.

    >>> lax.conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
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
    """The shape of the convolution of [N, C, *spatial] with [O, C, *window].

    >>> lax.conv_shape_tuple((8, 3, 32, 32), (16, 3, 5, 5), (1, 1), [(0, 0), (2, 2)])
    (8, 16, 28, 32)
    """
    return _shape_of(
        lambda x, y: conv_general_dilated(x, y, strides, pads, batch_group_count=batch_group_count),
        lhs_shape,
        rhs_shape,
    )


def _shape_tuple(name: str, function: Callable[..., Array], doc: str) -> Callable[..., tuple[Any, ...]]:
    def apply(
        lhs_shape: Sizes,
        rhs_shape: Sizes,
        window_strides: Sequence[int],
        padding: Padding,
        dimension_numbers: ConvGeneralDilatedDimensionNumbers,
    ) -> tuple[Any, ...]:
        return _shape_of(
            lambda x, y: function(x, y, window_strides, padding, dimension_numbers=dimension_numbers),
            lhs_shape,
            rhs_shape,
        )

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = doc
    return apply


conv_general_shape_tuple = _shape_tuple(
    "conv_general_shape_tuple",
    conv_general_dilated,
    """The shape of the result of `conv_general_dilated`.

    >>> lax.conv_general_shape_tuple((8, 32, 32, 3), (5, 5, 3, 16), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC"))
    (8, 16, 16, 16)
    """,
)
conv_transpose_shape_tuple = _shape_tuple(
    "conv_transpose_shape_tuple",
    conv_transpose,
    """The shape of the result of `conv_transpose`.

    >>> lax.conv_transpose_shape_tuple((8, 16, 16, 3), (4, 4, 3, 5), (2, 2), "VALID", ("NHWC", "HWIO", "NHWC"))
    (8, 34, 34, 5)
    """,
)
