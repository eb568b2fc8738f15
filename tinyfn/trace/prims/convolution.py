"""conv_general: correlation of images with windows, strided, padded, dilated and in groups, on any axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..dtype import DType
from ..prim import Aval, Multilinear, Sample, full, spell, zeros_like
from ..sint import maximum
from ..uop import UOp
from .movement import flip, move_axis, reshape, transpose

Sizes = tuple[int, ...]

# Bytes of windows that the reference copies at a time, so that they are in the cache when multiplied.
_BLOCK = 2 << 20
# The largest window over whose elements the reference loops in Python.
_TAPS = 128


class ConvGeneral(Multilinear):
    """Each window of lhs [N, C, *spatial] times each of the O windows in rhs [O, C/feature_groups, *window].

    The result is [N/batch_groups, O, *places]. Per spatial axis, lhs gets `lhs_dilation - 1` zeros between
    its elements, then `low` and `high` zeros at its ends (a negative number takes elements away); a window's
    elements are `rhs_dilation` apart, and the windows begin every `strides` elements. With groups, O is split
    into as many equal parts, and part i sees only part i of the channels (`feature_groups`) or of the batch
    (`batch_groups`); only one of both may be above 1. Half precision is accumulated in float32, small integers
    in 32 bits."""

    family = "contraction"
    params = ("strides", "low", "high", "lhs_dilation", "rhs_dilation", "feature_groups", "batch_groups")

    def out(
        self,
        lhs: Any,
        rhs: Any,
        *,
        strides: Sizes,
        low: Sizes,
        high: Sizes,
        lhs_dilation: Sizes,
        rhs_dilation: Sizes,
        feature_groups: int,
        batch_groups: int,
    ) -> tuple[DType, tuple[Any, ...]]:
        what = f"conv_general of {spell([lhs, rhs])}"
        dtype = lhs.dtype
        if dtype is not rhs.dtype or dtypes.kind(dtype) in ("bool", "key") or dtype in dtypes.NARROW_FLOATS:
            raise TypeError(f"{what}: it needs two numeric arrays of one dtype")
        if lhs.ndim != rhs.ndim or lhs.ndim < 2:
            needed = "lhs [N, C, *spatial] and rhs [O, C/feature_groups, *window] with as many axes"
            raise ValueError(f"{what}: it needs {needed}")
        count = lhs.ndim - 2
        for name, numbers in zip(self.params, (strides, low, high, lhs_dilation, rhs_dilation), strict=False):
            if len(numbers) != count:
                raise ValueError(
                    f"{what}: {name}={numbers} needs a number for each of the {count} spatial axes"
                )
            if name not in ("low", "high") and any(n < 1 for n in numbers):
                raise ValueError(f"{what}: {name}={numbers} must be 1 or more")
        if feature_groups < 1 or batch_groups < 1 or (feature_groups > 1 and batch_groups > 1):
            given = f"feature_groups={feature_groups} and batch_groups={batch_groups}"
            raise ValueError(f"{what}: {given} must be 1 or more, and not both above 1")
        (images, channels), (features, depth) = lhs.shape[:2], rhs.shape[:2]
        if channels != depth * feature_groups:
            needed = (
                f"rhs with {depth} in each of {feature_groups} feature groups needs {depth * feature_groups}"
            )
            raise ValueError(f"{what}: lhs has {channels} channels, where {needed}")
        if feature_groups > 1 and features % feature_groups:
            counts = f"the {features} windows of rhs"
            raise ValueError(f"{what}: {counts} must be a multiple of feature_groups={feature_groups}")
        if batch_groups > 1 and (images % batch_groups or features % batch_groups):
            counts = f"the batch of {images} and the {features} windows of rhs"
            raise ValueError(f"{what}: {counts} must be multiples of batch_groups={batch_groups}")
        if any(n == 0 for n in rhs.shape[2:]):
            raise ValueError(f"{what}: the windows of rhs have no elements")
        places = [
            _places(n, k, *numbers)
            for n, k, *numbers in zip(
                lhs.shape[2:], rhs.shape[2:], strides, low, high, lhs_dilation, rhs_dilation, strict=True
            )
        ]
        return dtype, (images // batch_groups if batch_groups > 1 else images, features, *places)

    def reference(self, lhs: Any, rhs: Any, **params: Any) -> Any:
        lhs, rhs = np.asarray(lhs), np.asarray(rhs)
        dtype, wide = lhs.dtype, dtypes.accumulator(lhs.dtype)
        _, shape = self.out(Aval(dtype, lhs.shape), Aval(dtype, rhs.shape), **params)
        if 0 in shape or lhs.size == 0 or rhs.size == 0:
            return np.zeros(shape, dtype)
        groups = params["feature_groups"] * params["batch_groups"]
        depth, window, places = rhs.shape[1], rhs.shape[2:], shape[2:]
        weights = rhs.astype(wide, copy=False).reshape(groups, shape[1] // groups, -1)
        spreads = _spreads(lhs.shape[2:], weights.shape[1], depth, window, places, params["strides"])
        # A zero of the padding times an infinite weight is NaN, which `_spread` would not see.
        if spreads and np.isfinite(weights).all():
            by_batch = params["batch_groups"] > 1
            split = (groups, shape[0]) if by_batch else (shape[0], groups)
            parts = lhs.astype(wide, copy=False).reshape(*split, depth, *lhs.shape[2:])
            result = _spread(parts.swapaxes(0, 1) if by_batch else parts, weights, window, places, **params)
            return result.astype(dtype, copy=False).reshape(shape)
        padded = _padded(lhs, wide, params["low"], params["high"], params["lhs_dilation"])
        step_image, step_channel, *steps = padded.strides
        step_group = shape[0] * step_image if params["batch_groups"] > 1 else depth * step_channel
        step_window = [step * n for step, n in zip(steps, params["rhs_dilation"], strict=True)]
        step_place = [step * n for step, n in zip(steps, params["strides"], strict=True)]
        if not places:
            window, places, step_window, step_place = (1,), (1,), [0], [0]
        windows = np.lib.stride_tricks.as_strided(
            padded,
            (shape[0], groups, depth, *window, *places),
            (step_image, step_group, step_channel, *step_window, *step_place),
            writeable=False,
        )
        correlate = _rows if window[-1] > places[-1] else _columns
        result = correlate(windows, weights, len(window))
        return result.astype(dtype, copy=False).reshape(shape)

    def transpose(self, ct: UOp, args: Sequence[UOp], index: int, **params: Any) -> UOp:
        if any(n == 0 for n in (*ct.shape, *args[0].shape, *args[1].shape)):
            return zeros_like(args[index])
        return (self._transpose_rhs if index else self._transpose_lhs)(ct, *args, **params)

    def _transpose_lhs(self, ct: UOp, lhs: UOp, rhs: UOp, **params: Any) -> UOp:
        """The cotangent, spread out by the strides, under the windows in reverse with O and C exchanged."""
        groups = params["feature_groups"] * params["batch_groups"]
        features, depth, *window = rhs.shape
        weights = rhs
        if groups > 1:
            weights = reshape(weights, shape=(groups, features // groups, depth, *window))
            weights = transpose(weights, permutation=(0, 2, 1, *range(3, weights.ndim)))
            weights = reshape(weights, shape=(groups * depth, features // groups, *window))
        else:
            weights = _exchange(weights)
        if window:
            weights = flip(weights, axes=tuple(range(2, rhs.ndim)))
        strides, lhs_dilation = params["strides"], params["lhs_dilation"]
        low, high = [], []
        for i, (n, k, m) in enumerate(zip(lhs.shape[2:], window, ct.shape[2:], strict=True)):
            reach = (k - 1) * params["rhs_dilation"][i]
            low.append(reach - params["low"][i])
            high.append((n - 1) * lhs_dilation[i] + reach - (m - 1) * strides[i] - low[-1])
        result = conv_general(
            ct,
            weights,
            strides=lhs_dilation,
            low=tuple(low),
            high=tuple(high),
            lhs_dilation=strides,
            rhs_dilation=params["rhs_dilation"],
            feature_groups=groups,
            batch_groups=1,
        )
        if params["batch_groups"] > 1:
            # Its channels are groups of channels; each group is a part of the batch.
            split = (ct.shape[0], groups, depth, *lhs.shape[2:])
            moved = transpose(reshape(result, shape=split), permutation=(1, 0, *range(2, lhs.ndim + 1)))
            result = reshape(moved, shape=lhs.shape)
        return result

    def _transpose_rhs(self, ct: UOp, lhs: UOp, rhs: UOp, **params: Any) -> UOp:
        """lhs under windows that are the cotangent, N and C exchanged in both, and so the kinds of groups too."""
        strides, rhs_dilation = params["strides"], params["rhs_dilation"]
        high = []
        for i, (n, k, m) in enumerate(zip(lhs.shape[2:], rhs.shape[2:], ct.shape[2:], strict=True)):
            length = (m - 1) * strides[i] + (k - 1) * rhs_dilation[i]
            high.append(length - (n - 1) * params["lhs_dilation"][i] - params["low"][i])
        result = conv_general(
            _exchange(lhs),
            _exchange(ct),
            strides=rhs_dilation,
            low=params["low"],
            high=tuple(high),
            lhs_dilation=params["lhs_dilation"],
            rhs_dilation=strides,
            feature_groups=params["batch_groups"],
            batch_groups=params["feature_groups"],
        )
        return _exchange(result)

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any) -> UOp:
        """The batch axis becomes a part of N, of O, or (if both arguments have it) of the groups."""
        lhs, rhs = args
        feature_groups, batch_groups = params["feature_groups"], params["batch_groups"]
        if isinstance(size, int) and size == 0:
            lanes = [Aval(a.dtype, a.shape[1:]) if b else a for a, b in zip(args, batched, strict=True)]
            dtype, shape = self.out(*lanes, **params)
            return full(0, dtype, (0, *shape))
        if all(batched):
            if not isinstance(size, int):
                both = f"vmap of conv_general over both of {spell(args)}"
                raise ValueError(f"{both} needs a fixed batch size, not {size!r}")
            rhs = _merge(rhs, 0)
            if batch_groups > 1:
                lhs, params["batch_groups"] = _merge(lhs, 0), size * batch_groups
            else:
                lhs, params["feature_groups"] = _merge(move_axis(lhs, 0, 1), 1), size * feature_groups
            return move_axis(_split(conv_general(lhs, rhs, **params), 1, size), 1, 0)
        if batched[0]:
            # Within each group of the batch, so that the groups stay together.
            lhs = _merge(_merge(move_axis(_split(lhs, 1, batch_groups), 1, 0), 1), 0)
            return _split(conv_general(lhs, rhs, **params), 0, size)
        groups = feature_groups * batch_groups
        rhs = _merge(_merge(move_axis(_split(rhs, 1, groups), 1, 0), 1), 0)
        result = _split(_split(conv_general(lhs, rhs, **params), 1, groups), 2, size)
        return _merge(move_axis(result, 2, 0), 2)

    def samples(self) -> Iterator[Sample]:
        generator = np.random.default_rng(0)
        lhs: Any
        rhs: Any
        cases: tuple[tuple[Sizes, Sizes, dict[str, Any]], ...] = (
            ((2, 3, 4, 5), (2, 3, 3, 2), {}),
            ((1, 2, 5, 4), (2, 2, 2, 3), {"strides": (2, 1), "low": (1, 2), "high": (0, 1)}),
            ((2, 2, 5, 4), (1, 2, 2, 2), {"rhs_dilation": (2, 3), "low": (0, 1), "high": (1, 0)}),
            ((1, 2, 3, 4), (2, 2, 2, 3), {"lhs_dilation": (2, 3), "strides": (1, 2), "low": (1, 0)}),
            (
                (2, 1, 7),
                (2, 1, 3),
                {"lhs_dilation": (3,), "rhs_dilation": (2,), "strides": (4,), "high": (3,)},
            ),
            ((1, 2, 6, 5), (2, 2, 2, 2), {"low": (-1, 2), "high": (-2, -1)}),
            ((2, 1, 6), (1, 1, 2), {"lhs_dilation": (3,), "low": (-2,), "high": (-4,)}),
            ((2, 4, 4), (6, 2, 3), {"feature_groups": 2, "low": (1,), "high": (1,)}),
            ((1, 3, 4, 4), (3, 1, 3, 3), {"feature_groups": 3, "strides": (2, 2), "low": (1, 1)}),
            ((4, 2, 5), (4, 2, 2), {"batch_groups": 2, "strides": (2,), "high": (1,)}),
            ((3, 2, 3, 3), (3, 2, 2, 2), {"batch_groups": 3, "rhs_dilation": (2, 1)}),
            ((2, 2, 4), (3, 2, 1), {}),
            ((2, 3), (4, 3), {}),
            ((4, 4), (4, 2), {"feature_groups": 2}),
            ((1, 2, 3, 2, 4), (2, 2, 2, 1, 3), {"low": (0, 1, 1), "strides": (1, 2, 1)}),
            ((0, 2, 4), (3, 2, 2), {}),
            ((2, 0, 4), (3, 0, 2), {}),
            ((2, 2, 4), (0, 2, 2), {}),
            ((2, 2, 0), (3, 2, 2), {"low": (1,), "high": (2,)}),
            ((2, 2, 2), (3, 2, 4), {}),
        )
        for shape_lhs, shape_rhs, given in cases:
            lhs, rhs = generator.normal(size=shape_lhs), generator.normal(size=shape_rhs)
            params = _parameters(len(shape_lhs) - 2, **given)
            yield Sample((lhs.astype(np.float32), rhs.astype(np.float32)), params)
        for dtype in (*dtypes.INTEGERS, *dtypes.FLOATS, *dtypes.COMPLEX):
            lhs, rhs = generator.integers(0, 5, (2, 2, 5)), generator.integers(0, 4, (3, 2, 2))
            yield Sample((lhs.astype(dtype), rhs.astype(dtype)), _parameters(1, strides=(2,), low=(1,)))
        special = np.array([[[1.0, np.nan, 2.0, np.inf, 0.5, -np.inf]]], np.float32)
        yield Sample((special, np.ones((1, 1, 2), np.float32)), _parameters(1), differentiable=False)


def _parameters(count: int, **given: Any) -> dict[str, Any]:
    """All parameters for `count` spatial axes, those that are not given being neutral."""
    ones, zeros = (1,) * count, (0,) * count
    neutral = {"strides": ones, "low": zeros, "high": zeros, "lhs_dilation": ones, "rhs_dilation": ones}
    return {**neutral, "feature_groups": 1, "batch_groups": 1, **given}


def _places(n: Any, k: Any, stride: int, low: int, high: int, lhs_dilation: int, rhs_dilation: int) -> Any:
    """In how many places along an axis of n elements a window of k fits."""
    length = (0 if isinstance(n, int) and n == 0 else (n - 1) * lhs_dilation + 1) + low + high
    return maximum((length - (k - 1) * rhs_dilation - 1) // stride + 1, 0)


def _padded(x: np.ndarray, dtype: DType, low: Sizes, high: Sizes, dilation: Sizes) -> np.ndarray:
    """x in the given dtype with its zeros: a view where there are none."""
    shape, source, target = list(x.shape[:2]), [np.s_[:], np.s_[:]], [np.s_[:], np.s_[:]]
    for n, before, after, spread in zip(x.shape[2:], low, high, dilation, strict=True):
        length = (n - 1) * spread + 1 + before + after
        inside, outside = _inside(n, before, spread, length)
        shape.append(length)
        source.append(inside)
        target.append(outside)
    x = x[tuple(source)]
    if list(x.shape) == shape:
        return x.astype(dtype, copy=False)
    result = np.zeros(shape, dtype)
    result[tuple(target)] = x
    return result


def _spreads(spatial: Sizes, features: int, depth: int, window: Sizes, places: Sizes, strides: Sizes) -> bool:
    """Whether `_spread` is expected to be the fastest: from the numbers that it and the others write and read."""
    fits = prod(window) <= _TAPS and all(n == 1 for n in strides)
    return fits and 2 * features * prod(spatial) < depth * prod(places)


def _columns(windows: np.ndarray, weights: np.ndarray, rank: int) -> np.ndarray:
    """[N, groups, depth, *window, *places] by [groups, O, depth·window] to [N, groups, O, places].

    The windows are copied, some at a time, as columns of a matrix, in which the places are the inner axis."""
    images, groups = windows.shape[:2]
    features, inner = weights.shape[1:]
    places = windows.shape[3 + rank :]
    result = np.empty((images, groups, features, prod(places)), windows.dtype)
    if windows.flags.c_contiguous:
        return np.matmul(weights, windows.reshape(images, groups, inner, -1), out=result)
    row = prod(places[1:])
    size = groups * inner * row * windows.itemsize
    rows = min(places[0], max(1, _BLOCK // size))
    some = min(images, max(1, _BLOCK // (size * rows)))
    # With few places in an image a product for each would read the weights too often.
    merged = some > 1 and prod(places) < 128
    if merged:
        windows = np.moveaxis(windows, 0, 2 + rank)
    block = np.empty(groups * inner * row * rows * some, windows.dtype)
    for image in range(0, images, some):
        which = np.s_[image : min(image + some, images)]
        for begin in range(0, places[0], rows):
            where = np.s_[begin * row : min(begin + rows, places[0]) * row]
            if merged:
                part = windows[(*[np.s_[:]] * (2 + rank), which, np.s_[begin : begin + rows])]
            else:
                part = windows[(which, *[np.s_[:]] * (2 + rank), np.s_[begin : begin + rows])]
            matrix = block[: part.size].reshape(part.shape)
            np.copyto(matrix, part)
            if merged:
                product: np.ndarray = np.matmul(weights, matrix.reshape(groups, inner, -1))
                product = product.reshape(groups, features, part.shape[2 + rank], -1)
                result[which, :, :, where] = product.transpose(2, 0, 1, 3)
            else:
                target = result[which, :, :, where]
                np.matmul(weights, matrix.reshape(len(part), groups, inner, -1), out=target)
    return result


def _rows(windows: np.ndarray, weights: np.ndarray, rank: int) -> np.ndarray:
    """The same for long windows and few places: the window is the inner axis, and what the blocks divide."""
    images, groups, depth = windows.shape[:3]
    features = weights.shape[1]
    window, places = windows.shape[3 : 3 + rank], windows.shape[3 + rank :]
    row = prod(window[1:])
    some = min(images, max(1, _BLOCK // (groups * prod(places) * row * windows.itemsize)))
    size = groups * prod(places) * row * some * windows.itemsize
    rows = min(window[0], max(1, _BLOCK // size))
    deep = min(depth, max(1, _BLOCK // (size * rows))) if rows == window[0] else 1
    windows = windows.transpose(1, 0, *range(3 + rank, windows.ndim), 2, *range(3, 3 + rank))
    weights = weights.reshape(groups, features, depth, window[0], row)
    result = np.zeros((groups, images * prod(places), features), windows.dtype)
    block = np.empty(groups * prod(places) * row * some * rows * deep, windows.dtype)
    for image in range(0, images, some):
        total = result[:, image * prod(places) : min(image + some, images) * prod(places)]
        for level in range(0, depth, deep):
            for begin in range(0, window[0], rows):
                inside = np.s_[level : level + deep], np.s_[begin : begin + rows]
                part = windows[(np.s_[:], np.s_[image : image + some], *[np.s_[:]] * rank, *inside)]
                matrix = block[: part.size].reshape(part.shape)
                np.copyto(matrix, part)
                factor = weights[(np.s_[:], np.s_[:], *inside)].reshape(groups, features, -1)
                total += np.matmul(matrix.reshape(groups, -1, factor.shape[2]), factor.swapaxes(1, 2))
    return result.reshape(groups, images, prod(places), features).transpose(1, 0, 3, 2)


def _spread(lhs: np.ndarray, weights: np.ndarray, window: Sizes, places: Sizes, **params: Any) -> np.ndarray:
    """[N, groups, depth, *spatial] by [groups, O, depth·window] to [N, groups, O, *places], strides being 1.

    Each element is multiplied by all weights first, and the products are then added to where they belong. So
    zeros between the elements cost nothing, and few features (of many channels) are few numbers to move."""
    images, groups, depth, *spatial = lhs.shape
    features, taps = weights.shape[1], prod(window)
    result = np.zeros((images, groups, features, *places), lhs.dtype)
    factor: np.ndarray = np.moveaxis(weights.reshape(groups, features, depth, taps), 3, 1)
    factor = factor.reshape(groups, taps * features, depth)
    some = max(1, _BLOCK // (groups * taps * features * prod(spatial) * lhs.itemsize))
    for image in range(0, images, some):
        part = lhs[image : image + some].reshape(-1, groups, depth, prod(spatial))
        products = np.matmul(factor, part).reshape(len(part), groups, taps, features, *spatial)
        total = result[image : image + some]
        for tap, index in enumerate(np.ndindex(*window)):
            source: list[slice] = []
            target: list[slice] = []
            for i, k in enumerate(index):
                spread, begin = params["lhs_dilation"][i], params["low"][i] - k * params["rhs_dilation"][i]
                inside, outside = _inside(spatial[i], begin, spread, places[i])
                source.append(inside)
                target.append(outside)
            total[(np.s_[:], np.s_[:], np.s_[:], *target)] += products[
                (np.s_[:], np.s_[:], tap, np.s_[:], *source)
            ]
    return result


def _inside(n: int, begin: int, spread: int, length: int) -> tuple[slice, slice]:
    """Which of n elements are in 0 .. length - 1 if element i goes to begin + i * spread, and where."""
    first = max(0, -(begin // spread))
    stop = max(first, min(n, (length - 1 - begin) // spread + 1))
    if stop == first:
        return np.s_[:0], np.s_[:0]
    return np.s_[first:stop], np.s_[begin + first * spread : begin + (stop - 1) * spread + 1 : spread]


def _exchange(x: UOp) -> UOp:
    """x with its first two axes exchanged."""
    return transpose(x, permutation=(1, 0, *range(2, x.ndim)))


def _merge(x: UOp, axis: int) -> UOp:
    """x with `axis` and the next one made one."""
    return reshape(x, shape=(*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2 :]))


def _split(x: UOp, axis: int, count: Any) -> UOp:
    """x with `axis` split into `count` parts."""
    return reshape(x, shape=(*x.shape[:axis], count, x.shape[axis] // count, *x.shape[axis + 1 :]))


conv_general = ConvGeneral()
