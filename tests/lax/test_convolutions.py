"""tinyfn.lax: convolutions against sums one place and one tap at a time."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from tests.lax.checks import GENERATOR, everywhere, floats, padded, same
from tinyfn import lax
from tinyfn.transforms import grad, vjp


def correlate(
    x: Any, w: Any, strides: Any, pads: Any, spread: Any, apart: Any, groups: int = 1
) -> np.ndarray:
    """[N, C, H, W] with [O, C/groups, h, w], one place and one tap at a time."""
    x = padded(x, 0, [(0, 0, 0)] * 2 + [(0, 0, n - 1) for n in spread])
    x = padded(x, 0, [(0, 0, 0)] * 2 + [(*pair, 0) for pair in pads])
    size = [
        max((n - (k - 1) * d - 1) // s + 1, 0)
        for n, k, d, s in zip(x.shape[2:], w.shape[2:], apart, strides, strict=True)
    ]
    result = np.zeros((x.shape[0], w.shape[0], *size))
    for place in itertools.product(*map(range, size)):
        for tap in itertools.product(*map(range, w.shape[2:])):
            at = [p * s + t * d for p, s, t, d in zip(place, strides, tap, apart, strict=True)]
            for o in range(w.shape[0]):
                group = o // (w.shape[0] // groups)
                channels = slice(group * w.shape[1], (group + 1) * w.shape[1])
                result[(slice(None), o, *place)] += (
                    x[(slice(None), channels, *at)] @ w[(o, slice(None), *tap)]
                )
    return result


@pytest.mark.parametrize(
    "specs",
    [
        ("NHWC", "HWIO", "NHWC"),
        ("NCHW", "OIHW", "NCHW"),
        ("CHWN", "IHWO", "NWHC"),
        ("NWHC", "WIOH", "CNHW"),
        None,
    ],
)
def test_convolution_dimension_numbers(specs: Any) -> None:
    x, w = GENERATOR.normal(size=(2, 4, 7, 6)), GENERATOR.normal(size=(6, 2, 3, 2))
    strides, pads, spread, apart = (2, 1), [(1, 2), (-1, 3)], (1, 2), (2, 1)
    expected = correlate(x, w, strides, pads, spread, apart, 2)
    names = specs or ("NCHW", "OIHW", "NCHW")
    # Strides, pads and dilations are in the order of the window's axes.
    if names[1].index("W") < names[1].index("H"):
        strides, pads, spread, apart = strides[::-1], pads[::-1], spread[::-1], apart[::-1]
    lhs = np.einsum(f"NCHW->{names[0]}", x)
    rhs = np.einsum(f"OIHW->{names[1]}", w)
    everywhere(
        lambda a, b: lax.conv_general_dilated(
            a, b, strides, pads, spread, apart, specs, feature_group_count=2
        ),
        np.einsum(f"NCHW->{names[2]}", expected),
        lhs,
        rhs,
        rtol=1e-12,
    )
    numbers = lax.conv_dimension_numbers(lhs.shape, rhs.shape, specs)
    assert isinstance(numbers, lax.ConvDimensionNumbers)
    same(
        lax.conv_general_dilated(lhs, rhs, strides, pads, spread, apart, numbers, feature_group_count=2),
        np.einsum(f"NCHW->{names[2]}", expected),
        rtol=1e-12,
    )


def test_convolution_padding_names() -> None:
    for size, window, stride, dilation in itertools.product((4, 7, 8), (1, 2, 3), (1, 2, 3), (1, 2)):
        x, w = GENERATOR.normal(size=(1, 1, size, 5)), GENERATOR.normal(size=(1, 1, window, 2))
        reach = (window - 1) * dilation + 1
        total = max((math.ceil(size / stride) - 1) * stride + reach - size, 0)
        for name, low in (("SAME", total // 2), ("SAME_LOWER", -(-total // 2)), ("same", total // 2)):
            pads = [(low, total - low), (0, 1) if name != "SAME_LOWER" else (1, 0)]
            found = lax.conv_general_dilated(x, w, (stride, 1), name, rhs_dilation=(dilation, 1))
            same(found, correlate(x, w, (stride, 1), pads, (1, 1), (dilation, 1)), rtol=1e-12)
            assert found.shape[2] == math.ceil(size / stride)
        if reach <= size:
            same(
                lax.conv(x, w, (stride, 1), "VALID"),
                correlate(x, w, (stride, 1), [(0, 0)] * 2, (1, 1), (1, 1)),
                rtol=1e-12,
            )
    x, w = GENERATOR.normal(size=(4, 2, 5, 5)), GENERATOR.normal(size=(4, 2, 2, 2))
    halves = [
        correlate(x[i * 2 : i * 2 + 2], w[i * 2 : i * 2 + 2], (1, 1), [(0, 0)] * 2, (1, 1), (1, 1))
        for i in (0, 1)
    ]
    same(
        lax.conv_general_dilated(x, w, (1, 1), "VALID", batch_group_count=2),
        np.concatenate(halves, 1),
        rtol=1e-12,
    )
    found = lax.conv_with_general_padding(x, w, (2, 1), [(0, 1), (2, 0)], (1, 2), (2, 1))
    same(found, correlate(x, w, (2, 1), [(0, 1), (2, 0)], (1, 2), (2, 1)), rtol=1e-12)


def test_convolution_element_type() -> None:
    x, w = np.full((1, 1, 300), 20, np.float16), np.full((1, 1, 300), 20, np.float16)
    assert lax.conv(x, w, (1,), "VALID", preferred_element_type=np.float32).tolist() == [[[120000.0]]]
    i = np.full((1, 1, 3), 100, np.int8)
    assert lax.conv(i, i, (1,), "VALID", preferred_element_type=np.int32).tolist() == [[[30000]]]


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_transposed_convolution_is_the_derivative(padding: str) -> None:
    specs = ("NHWC", "HWIO", "NHWC")
    for strides in ((1, 1), (2, 3), (3, 1)):
        for window in ((3, 2), (1, 1), (2, 4)):
            # 12 is a multiple of every stride, so that the sizes of "SAME" agree.
            image, w = np.zeros((2, 12, 12, 3)), GENERATOR.normal(size=(*window, 3, 5))
            forward = lambda v: lax.conv_general_dilated(v, w, strides, padding, dimension_numbers=specs)
            ct = GENERATOR.normal(size=forward(image).shape)
            expected = grad(lambda v: lax.reduce_sum(lax.mul(forward(v), ct), (0, 1, 2, 3)))(image)
            found = lax.conv_transpose(ct, w, strides, padding, transpose_kernel=True)
            # With "SAME" and a stride above the window the sizes agree, but the places may be others.
            if padding == "VALID":
                sizes = [
                    (m - 1) * s + max(k, s) for m, s, k in zip(ct.shape[1:3], strides, window, strict=True)
                ]
                assert found.shape == (2, *sizes, 3)
                rows, columns = (min(a, 12) for a in sizes)
                same(
                    lax.slice(found, (0, 0, 0, 0), (2, rows, columns, 3)),
                    np.asarray(expected)[:, :rows, :columns],
                    rtol=1e-12,
                )
            else:
                assert found.shape == image.shape
                if all(k >= s for k, s in zip(window, strides, strict=True)):
                    same(found, expected, rtol=1e-12)


@pytest.mark.parametrize("apart", [1, 2])
def test_pairs_may_be_the_padding_of_the_convolution_that_is_transposed(apart: int) -> None:
    w, pads = GENERATOR.normal(size=(3, 3, 5)), [(2, 1)]
    forward = lambda v: lax.conv_general_dilated(v, w, (1,), pads, None, (apart,), ("NHC", "HIO", "NHC"))
    image = np.zeros((2, 9, 3))
    ct = GENERATOR.normal(size=forward(image).shape)
    (expected,) = vjp(forward, image)[1](ct)
    found = lax.conv_transpose(
        ct, w, (1,), pads, (apart,), transpose_kernel=True, use_consistent_padding=True
    )
    same(found, expected, rtol=1e-12)
    # Without it, pairs are of the spread array itself; names mean the same.
    transposed = lambda padding, **options: lax.conv_transpose(
        ct, w, (1,), padding, (apart,), transpose_kernel=True, **options
    )
    same(transposed([(2 * apart - low, 2 * apart - high) for low, high in pads]), found)
    for padding in ("SAME", "VALID"):
        same(transposed(padding, use_consistent_padding=True), transposed(padding))


def test_convolution_shapes_and_permutations() -> None:
    specs = ("NHWC", "HWIO", "NHWC")
    assert lax.conv_general_permutations(specs) == ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    assert lax.conv_general_shape_tuple((2, 9, 8, 3), (3, 2, 3, 4), (2, 1), "SAME", specs) == (2, 5, 8, 4)
    assert lax.conv_shape_tuple((4, 3, 9), (6, 3, 2), (2,), [(1, 0)], 2) == (2, 6, 5)
    assert lax.conv_transpose_shape_tuple((2, 5, 3), (4, 3, 6), (2,), "SAME", ("NWC", "WIO", "NWC")) == (
        2,
        10,
        6,
    )


def test_convolution_errors() -> None:
    x, w = floats(1, 2, 5), floats(3, 2, 2)
    for call in (
        lambda: lax.conv(x, w, (1,), "FULL"),
        lambda: lax.conv(x, w, (1, 1), "SAME"),
        lambda: lax.conv(x, w, (1,), [(0, 0)] * 2),
        lambda: lax.conv_general_dilated(x, w, (1,), "SAME", lhs_dilation=(2,)),
        lambda: lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NCH", "OIW", "NCH")),
        lambda: lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NC", "OI", "NC")),
        lambda: lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NCH", "OIH")),
        lambda: lax.conv(x, floats(3, 2, 2, 2), (1,), "SAME"),
        lambda: lax.conv(x, floats(3, 3, 2), (1,), "SAME"),
        lambda: lax.conv_transpose(x, w, (1,), "FULL"),
    ):
        with pytest.raises(ValueError):
            call()
