"""Random numbers from keys, with JAX's bits: the same function of the same key gives what `jax.random` gives.

A key is an array uint32[2] (typed keys may come later). Every function takes one key and is a pure function
of it: use a key once, and `split` it or `fold_in` a number to get new ones. Many keys at once go through
`tinyfn.vmap`. The bits are threefry2x32's with `jax_threefry_partitionable=True`, JAX's default: element i of
an array depends on the key and on i alone. Unlike in JAX without x64, all 64 bits of a seed count, and dtypes
with 64 bits are honoured."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from math import ceil, log, prod
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from . import lax
from .lax.arguments import ArrayLike, as_shape
from .trace import dtype as dtypes
from .trace import operators, prims
from .trace.array import Array, as_array
from .trace.dtype import DType
from .trace.errors import user_line

Shape: TypeAlias = Sequence[Any]

_UNSIGNED = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}
_WORD = 1 << 32

# Keys


def PRNGKey(seed: ArrayLike) -> Array:
    """The key uint32[2] of an integer: its high and its low 32 bits, of which the high ones are 0 for 32-bit
    arrays.

    A Python integer is one of 64 bits, in two's complement. Raises OverflowError if it needs more, TypeError
    for anything but an integer scalar."""
    if isinstance(seed, int) and not isinstance(seed, bool):
        if not -(1 << 63) <= seed < 1 << 64:
            raise OverflowError(f"the seed {seed} does not fit into 64 bits; at {user_line()}")
        words = np.array([seed >> 32 & _WORD - 1, seed & _WORD - 1], np.uint32)
        return lax.concatenate([lax.full((1,), int(word), dtypes.uint32) for word in words], 0)
    array = operators.operand(seed)
    if not dtypes.is_integer(array.dtype) or array.shape:
        found = dtypes.describe(array.dtype, array.shape)
        raise TypeError(
            f"a seed is an integer scalar, not {found}; at {user_line()}: use vmap for several seeds"
        )
    if array.dtype.itemsize == 8:
        high = lax.convert_element_type(lax.shift_right_logical(array, 32), dtypes.uint32)
        low = lax.convert_element_type(
            lax.bitwise_and(array, operators.scalar(_WORD - 1, array.dtype)), dtypes.uint32
        )
    else:
        high, low = lax.full((), 0, dtypes.uint32), lax.convert_element_type(array, dtypes.uint32)
    return lax.concatenate([lax.reshape(high, (1,)), lax.reshape(low, (1,))], 0)


def key(seed: ArrayLike) -> Array:
    """The same as `PRNGKey`: the raw key uint32[2] of a seed."""
    return PRNGKey(seed)


def key_data(keys: ArrayLike) -> Array:
    """The words of keys, uint32[..., 2]: keys are their words, so this is the argument itself."""
    array = as_array(keys)
    if array.dtype is not dtypes.uint32 or array.shape[-1:] != (2,):
        raise TypeError(
            f"keys are uint32[..., 2], not {dtypes.describe(array.dtype, array.shape)}; at {user_line()}"
        )
    return array


def wrap_key_data(key_bits_array: ArrayLike) -> Array:
    """Keys from their words, uint32[..., 2]."""
    return key_data(key_bits_array)


def _words(name: str, key: ArrayLike) -> tuple[Array, Array]:
    """The two words of one key."""
    array = key if isinstance(key, Array) else as_array(key)
    if array.dtype is not dtypes.uint32 or array.shape != (2,):
        found = dtypes.describe(array.dtype, array.shape)
        advice = (
            "use vmap for several keys"
            if array.shape[-1:] == (2,)
            else "make one with tinyfn.random.key(seed)"
        )
        raise TypeError(f"random.{name} takes one key, uint32[2], not {found}; at {user_line()}: {advice}")
    return lax.index_in_dim(array, 0, keepdims=False), lax.index_in_dim(array, 1, keepdims=False)


def _hash(name: str, key: ArrayLike, shape: tuple[Any, ...]) -> Array:
    """Two random words for each element of a shape, [*shape, 2]: the hash of the element's number under the
    key."""
    first, second = _words(name, key)
    size = prod(shape)
    if shape and size:
        if size > _WORD:
            numbers = lax.iota(dtypes.uint64, size)
            high = lax.convert_element_type(lax.shift_right_logical(numbers, 32), dtypes.uint32)
            low = lax.convert_element_type(numbers, dtypes.uint32)
        else:
            high, low = lax.full((size,), 0, dtypes.uint32), lax.iota(dtypes.uint32, size)
        high, low = lax.reshape(high, shape), lax.reshape(low, shape)
    else:
        high = low = lax.full(shape, 0, dtypes.uint32)
    words: Array = prims.threefry2x32(
        operators.broadcast_to(first, shape), operators.broadcast_to(second, shape), high, low
    )
    return words


def split(key: ArrayLike, num: int | Shape = 2) -> Array:
    """New keys made of one: uint32[num, 2], or uint32[*num, 2] if `num` is a shape."""
    return _hash("split", key, as_shape(num))


def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """A new key made of a key and an integer, of which the low 32 bits count."""
    first, second = _words("fold_in", key)
    if isinstance(data, int):
        number = operators.scalar(data, dtypes.uint32)
    else:
        number = operators.operand(data)
        if number.shape or not dtypes.is_integer(number.dtype):
            found = dtypes.describe(number.dtype, number.shape)
            raise TypeError(
                f"random.fold_in takes an integer scalar, not {found}; at {user_line()}: use vmap for several"
            )
        number = lax.convert_element_type(number, dtypes.uint32)
    folded: Array = prims.threefry2x32(first, second, lax.full((), 0, dtypes.uint32), number)
    return folded


# Bits and uniform numbers


def _bits(name: str, key: ArrayLike, width: int, shape: tuple[Any, ...]) -> Array:
    words = _hash(name, key, shape)
    last = len(shape)
    high = lax.index_in_dim(words, 0, last, keepdims=False)
    low = lax.index_in_dim(words, 1, last, keepdims=False)
    if width == 64:
        high, low = (
            lax.convert_element_type(high, dtypes.uint64),
            lax.convert_element_type(low, dtypes.uint64),
        )
        return lax.bitwise_or(lax.shift_left(high, 32), low)
    return lax.convert_element_type(lax.bitwise_xor(high, low), _UNSIGNED[width])


def bits(key: ArrayLike, shape: Shape = (), dtype: Any = dtypes.uint32) -> Array:
    """Random bits as unsigned integers of a dtype."""
    dtype = dtypes.canonical(dtype)
    if dtypes.kind(dtype) != "unsigned":
        raise TypeError(f"random.bits gives unsigned integers, not {dtype.name}; at {user_line()}")
    return _bits("bits", key, 8 * dtype.itemsize, as_shape(shape))


def _float_dtype(name: str, dtype: Any) -> DType:
    found: DType = dtypes.canonical(dtype)
    if found not in dtypes.FLOATS:
        raise TypeError(f"random.{name} gives floats, not {found.name}; at {user_line()}")
    return found


def _info(dtype: DType) -> Any:
    """What NumPy's finfo knows of a float dtype."""
    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def _fits(shape: tuple[Any, ...], target: tuple[Any, ...]) -> bool:
    """Whether a shape broadcasts to another."""
    return len(shape) <= len(target) and builtins.all(
        n in (1, m) for n, m in zip(reversed(shape), reversed(target), strict=False)
    )


def _parameter(name: str, value: ArrayLike, dtype: DType, shape: tuple[Any, ...]) -> Array:
    """A parameter in a dtype, repeated to the shape of the result."""
    array = operators.scalar(value, dtype) if isinstance(value, (int, float)) else operators.operand(value)
    array = lax.convert_element_type(array, dtype)
    if not _fits(array.shape, shape):
        found = dtypes.describe(array.dtype, array.shape)
        raise ValueError(
            f"random.{name}: a parameter {found} does not broadcast to the shape {shape}; at {user_line()}"
        )
    return operators.broadcast_to(array, shape)


def _unit(name: str, key: ArrayLike, shape: tuple[Any, ...], dtype: DType) -> Array:
    """Floats in [0, 1): random bits as the mantissa of a number in [1, 2), less 1."""
    width, mantissa = 8 * dtype.itemsize, int(_info(dtype).nmant)
    drawn = 8 if mantissa < 8 else width
    words = lax.convert_element_type(_bits(name, key, drawn, shape), _UNSIGNED[width])
    one = int(np.ones((), dtype).view(_UNSIGNED[width]))
    words = lax.bitwise_or(lax.shift_right_logical(words, drawn - mantissa), one)
    return lax.sub(lax.bitcast_convert_type(words, dtype), 1.0)


def _uniform(
    name: str,
    key: ArrayLike,
    shape: tuple[Any, ...],
    dtype: DType,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> Array:
    unit = _unit(name, key, shape, dtype)
    if type(minval) in (int, float) and type(maxval) in (int, float) and minval == 0 and maxval == 1:
        return unit
    low, high = _parameter(name, minval, dtype, shape), _parameter(name, maxval, dtype, shape)
    # Rounding may go below the least value, but it must not.
    return lax.max(low, lax.add(lax.mul(unit, lax.sub(high, low)), low))


def uniform(
    key: ArrayLike,
    shape: Shape = (),
    dtype: Any = dtypes.float32,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> Array:
    """Uniform floats in [minval, maxval), multiples of 2^-23 (float32) of the interval; bounds may be
    arrays."""
    return _uniform("uniform", key, as_shape(shape), _float_dtype("uniform", dtype), minval, maxval)


def _bound(name: str, value: ArrayLike, dtype: DType, shape: tuple[Any, ...]) -> tuple[Array, Array]:
    """A bound clipped to a dtype and repeated to the shape, and whether it was beyond the greatest value."""
    info = np.iinfo(dtype)
    if isinstance(value, int):
        array = operators.scalar(builtins.min(builtins.max(value, int(info.min)), int(info.max)), dtype)
        above = operators.scalar(value > info.max, dtypes.bool_)
    else:
        array = operators.operand(value)
        if not dtypes.is_integer(array.dtype):
            array = lax.convert_element_type(array, dtypes.DEFAULT_INT)
        own = np.iinfo(array.dtype)
        least, most = builtins.max(int(info.min), int(own.min)), builtins.min(int(info.max), int(own.max))
        most_array = operators.scalar(most, array.dtype)
        above = lax.gt(array, most_array)
        array = lax.convert_element_type(
            lax.clamp(operators.scalar(least, array.dtype), array, most_array), dtype
        )
    return _parameter(name, array, dtype, shape), operators.broadcast_to(above, shape)


def randint(
    key: ArrayLike, shape: Shape, minval: ArrayLike, maxval: ArrayLike, dtype: Any = dtypes.int32
) -> Array:
    """Integers in [minval, maxval), all (almost) equally likely; minval where there are none. Bounds may be
    arrays.

    Bounds beyond the dtype are clipped to it; a maxval of one more than its greatest value includes that
    one."""
    dtype, shape = dtypes.canonical(dtype), as_shape(shape)
    if not dtypes.is_integer(dtype):
        raise TypeError(f"random.randint gives integers, not {dtype.name}; at {user_line()}")
    narrow = dtype if dtype.itemsize < 4 else None
    wide = dtypes.int32 if narrow else dtype
    if narrow:
        info = np.iinfo(narrow)
        minval = _clipped(minval, int(info.min), int(info.max))
        maxval = _clipped(maxval, int(info.min), int(info.max) + 1)
    width = 8 * wide.itemsize
    unsigned = _UNSIGNED[width]
    low, _ = _bound("randint", minval, wide, shape)
    high, above = _bound("randint", maxval, wide, shape)
    keys = split(key)
    higher, lower = (
        _bits("randint", lax.index_in_dim(keys, i, keepdims=False), width, shape) for i in (0, 1)
    )
    one = lax.full(shape, 1, unsigned)
    span = lax.convert_element_type(lax.sub(high, low), unsigned)
    empty = lax.le(high, low)
    span = lax.select(empty, one, span)
    span = lax.select(lax.bitwise_and(above, lax.bitwise_not(empty)), lax.add(span, one), span)

    def modulo(x: Array) -> Array:
        # A span of 0 stands for all values of the dtype, so that every number is its own remainder.
        return lax.select(lax.eq(span, 0), x, lax.rem(x, span))

    # (higher · 2^width + lower) modulo span, in unsigned arithmetic of that width.
    factor = modulo(lax.full(shape, 1 << width // 2, unsigned))
    factor = modulo(lax.mul(factor, factor))
    offset = modulo(lax.add(lax.mul(modulo(higher), factor), modulo(lower)))
    return lax.convert_element_type(lax.add(low, lax.convert_element_type(offset, wide)), dtype)


def _clipped(value: ArrayLike, least: int, most: int) -> ArrayLike:
    """A bound as int32 within a narrower dtype's range."""
    if isinstance(value, int):
        return builtins.min(builtins.max(value, least), most)
    return lax.clamp(least, lax.convert_element_type(value, dtypes.int32), most)


def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: Shape | None = None, mode: str = "low") -> Array:
    """Bools that are true with probability p (a float, or an array of floats), of a shape (p's if it is
    None).

    A p below 2^-23 (float32) needs mode "high", which draws two numbers for each."""
    chance = operators.operand(p)
    if not dtypes.is_float(chance.dtype):
        found = dtypes.describe(chance.dtype, chance.shape)
        raise TypeError(f"random.bernoulli needs a float p, not {found}; at {user_line()}")
    if mode not in ("low", "high"):
        raise ValueError(f'random.bernoulli has the modes "low" and "high", not {mode!r}; at {user_line()}')
    dtype, shape = chance.dtype, chance.shape if shape is None else as_shape(shape)
    chance = _parameter("bernoulli", chance, dtype, shape)
    if mode == "low":
        return lax.lt(_unit("bernoulli", key, shape, dtype), chance)
    coarse, fine = _two_units("bernoulli", key, shape, dtype)
    return lax.lt(lax.mul(fine, 2.0 ** -int(_info(dtype).nmant)), lax.sub(chance, coarse))


def _two_units(name: str, key: ArrayLike, shape: tuple[Any, ...], dtype: DType) -> tuple[Array, Array]:
    both = _unit(name, key, (2, *shape), dtype)
    return lax.index_in_dim(both, 0, keepdims=False), lax.index_in_dim(both, 1, keepdims=False)


def rademacher(key: ArrayLike, shape: Shape = (), dtype: Any = dtypes.int32) -> Array:
    """-1 or 1 with equal probability."""
    dtype = dtypes.canonical(dtype)
    drawn = lax.convert_element_type(bernoulli(key, 0.5, shape), dtype)
    return lax.sub(lax.mul(2, drawn), 1)


# Continuous distributions


def normal(key: ArrayLike, shape: Shape = (), dtype: Any = dtypes.float32) -> Array:
    """Floats from the standard normal distribution, sqrt(2) · erf_inv(u) of a uniform u in (-1, 1)."""
    dtype = _float_dtype("normal", dtype)
    least = np.nextafter(np.array(-1, dtype), np.array(0, dtype))
    drawn = _uniform("normal", key, as_shape(shape), dtype, float(least), 1.0)
    return lax.mul(float(np.sqrt(2)), lax.erf_inv(drawn))


def truncated_normal(
    key: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: Shape | None = None,
    dtype: Any = dtypes.float32,
) -> Array:
    """Floats from the standard normal distribution between lower and upper (which may be arrays)."""
    dtype = _float_dtype("truncated_normal", dtype)
    if shape is None:
        shape = operators.broadcast_shapes(operators.operand(lower).shape, operators.operand(upper).shape)
    shape = as_shape(shape)
    low, high = (_parameter("truncated_normal", bound, dtype, shape) for bound in (lower, upper))
    root = float(np.sqrt(2))
    least, most = (lax.erf(lax.div(bound, root)) for bound in (low, high))
    drawn = _uniform("truncated_normal", key, shape, dtype, least, most)
    value = lax.mul(root, lax.erf_inv(drawn))
    first = lax.nextafter(lax.stop_gradient(low), float("inf"))
    last = lax.nextafter(lax.stop_gradient(high), float("-inf"))
    return lax.clamp(first, value, last)


def gumbel(key: ArrayLike, shape: Shape = (), dtype: Any = dtypes.float32, mode: str | None = None) -> Array:
    """Floats from the standard Gumbel distribution, -log(-log(u)) of a uniform u in (0, 1).

    Mode "low" (the default) draws one number for each; "high" draws two, which makes large values finer."""
    dtype, shape = _float_dtype("gumbel", dtype), as_shape(shape)
    tiny = float(_info(dtype).tiny)
    if mode in (None, "low"):
        return lax.neg(lax.log(lax.neg(lax.log(_uniform("gumbel", key, shape, dtype, tiny, 1.0)))))
    if mode != "high":
        raise ValueError(f'random.gumbel has the modes "low" and "high", not {mode!r}; at {user_line()}')
    coarse, fine = _two_units("gumbel", key, shape, dtype)
    fine = lax.mul(fine, 2.0 ** -int(_info(dtype).nmant))
    drawn = lax.select(lax.ge(coarse, 0.5), coarse, lax.add(lax.add(coarse, fine), tiny))
    return lax.neg(lax.log(lax.neg(lax.log1p(lax.neg(drawn)))))


def exponential(key: ArrayLike, shape: Shape = (), dtype: Any = dtypes.float32) -> Array:
    """Floats from the exponential distribution of mean 1, -log(1 - u) of a uniform u in [0, 1)."""
    drawn = _unit("exponential", key, as_shape(shape), _float_dtype("exponential", dtype))
    return lax.neg(lax.log1p(lax.neg(drawn)))


def laplace(key: ArrayLike, shape: Shape = (), dtype: Any = dtypes.float32) -> Array:
    """Floats from the Laplace distribution of scale 1, sign(u) · log(1 - |u|) of a uniform u in (-1, 1)."""
    dtype = _float_dtype("laplace", dtype)
    least = -1.0 + float(_info(dtype).epsneg)
    drawn = _uniform("laplace", key, as_shape(shape), dtype, least, 1.0)
    return lax.mul(lax.sign(drawn), lax.log1p(lax.neg(lax.abs(drawn))))


def logistic(key: ArrayLike, shape: Shape = (), dtype: Any = dtypes.float32) -> Array:
    """Floats from the logistic distribution, log(u / (1 - u)) of a uniform u in (0, 1)."""
    dtype = _float_dtype("logistic", dtype)
    drawn = _uniform("logistic", key, as_shape(shape), dtype, float(_info(dtype).tiny), 1.0)
    return lax.sub(lax.log(drawn), lax.log1p(lax.neg(drawn)))


def cauchy(key: ArrayLike, shape: Shape = (), dtype: Any = dtypes.float32) -> Array:
    """Floats from the Cauchy distribution, tan(pi · (u - 1/2)) of a uniform u in (0, 1)."""
    dtype = _float_dtype("cauchy", dtype)
    drawn = _uniform("cauchy", key, as_shape(shape), dtype, float(_info(dtype).eps), 1.0)
    return lax.tan(lax.mul(float(np.pi), lax.sub(drawn, 0.5)))


# Choosing among elements


def _take(x: Array, at: Array, axis: int) -> Array:
    """x at the positions `at` along an axis, in whose place the axes of `at` come; positions are within x."""
    sizes = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    picked = lax.gather(x, lax.expand_dims(at, (at.ndim,)), axes=(axis,), sizes=sizes)
    order = [*range(at.ndim, at.ndim + axis), *range(at.ndim), *range(at.ndim + axis, picked.ndim)]
    shape = (*x.shape[:axis], *at.shape, *x.shape[axis + 1 :])
    return lax.reshape(lax.transpose(picked, order), shape)


def _shuffle(key: ArrayLike, x: Array, axis: int) -> Array:
    """x with its elements shuffled along an axis: sorted by random words, again and again if there may be
    ties."""
    rounds = ceil(3 * log(builtins.max(1, x.size)) / log(_WORD - 1))
    _words("permutation", key)
    for _ in range(rounds):
        keys = split(key)
        key, own = (lax.index_in_dim(keys, i, keepdims=False) for i in (0, 1))
        _, x = lax.sort_key_val(_bits("permutation", own, 32, x.shape), x, axis)
    return x


def _count(name: str, x: Any) -> int | None:
    """The integer that stands for that many positions, or None for an array."""
    if isinstance(x, (Array, np.ndarray)) and x.ndim:
        return None
    try:
        return operator.index(x)
    except TypeError as error:
        if isinstance(x, Array) and dtypes.is_integer(x.dtype):
            raise
        raise TypeError(f"random.{name} takes an integer or an array, not {x!r}; at {user_line()}") from error


def _one_axis(name: str, axis: int, x: Array) -> int:
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(
            f"random.{name}: {dtypes.describe(x.dtype, x.shape)} has no axis {axis}; at {user_line()}"
        )
    return axis % x.ndim


def permutation(key: ArrayLike, x: ArrayLike, axis: int = 0, independent: bool = False) -> Array:
    """The slices of an array along an axis (or 0, 1, ..., x - 1) in random order.

    With `independent`, each line of elements along the axis is shuffled on its own."""
    count = _count("permutation", x)
    if count is not None:
        return _shuffle(key, lax.iota(dtypes.int32, count), 0)
    array = operators.operand(x)
    axis = _one_axis("permutation", axis, array)
    if independent or array.ndim == 1:
        return _shuffle(key, array, axis)
    return _take(array, _shuffle(key, lax.iota(dtypes.int32, array.shape[axis]), 0), axis)


def _first_at_least(rising: Array, values: Array) -> Array:
    """For each value the first position in a rising vector that is not below it: a binary search,
    unrolled."""
    size = rising.shape[0]
    low, high = lax.full(values.shape, 0, dtypes.int32), lax.full(values.shape, size, dtypes.int32)
    for _ in range(int(size).bit_length()):
        middle = lax.shift_right_logical(lax.add(low, high), 1)
        below = lax.bitwise_and(lax.lt(_take(rising, middle, 0), values), lax.lt(low, high))
        open_ = lax.lt(low, high)
        low = lax.select(below, lax.add(middle, 1), low)
        high = lax.select(lax.bitwise_and(open_, lax.bitwise_not(below)), middle, high)
    return low


def choice(
    key: ArrayLike,
    a: ArrayLike,
    shape: Shape = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Slices of an array along an axis (or of 0, 1, ..., a - 1), chosen with the probabilities p (None: all
    equal).

    The axes of `shape` come in place of the axis. Without `replace` no slice is chosen twice; raises
    ValueError if there are too few. The weights p, one per slice, need not add up to 1."""
    count, shape = _count("choice", a), as_shape(shape)
    array = None if count is not None else operators.operand(a)
    if array is not None:
        axis = _one_axis("choice", axis, array)
        inputs = array.shape[axis]
        result_shape = (*array.shape[:axis], *shape, *array.shape[axis + 1 :])
    else:
        assert count is not None
        inputs, result_shape = count, shape
    draws = prod(shape)
    if draws == 0:
        return lax.full(result_shape, 0, dtypes.int32 if array is None else array.dtype)
    if inputs <= 0:
        raise ValueError(f"random.choice can't choose among {inputs} elements; at {user_line()}")
    if not replace and draws > inputs:
        raise ValueError(
            f"random.choice can't choose {draws} of {inputs} without replacement; at {user_line()}"
        )
    if p is None:
        if replace:
            at = randint(key, shape, 0, inputs)
        else:
            at = lax.slice_in_dim(_shuffle(key, lax.iota(dtypes.int32, inputs), 0), 0, draws)
    else:
        weights = operators.operand(p)
        if not dtypes.is_float(weights.dtype):
            weights = lax.convert_element_type(weights, dtypes.float32)
        if weights.shape != (inputs,):
            found = dtypes.describe(weights.dtype, weights.shape)
            raise ValueError(
                f"random.choice needs one weight for each of {inputs} elements, not {found}; at {user_line()}"
            )
        if replace:
            total = lax.cumsum(weights)
            whole = lax.index_in_dim(total, -1, keepdims=False)
            drawn = lax.mul(whole, lax.sub(1.0, _unit("choice", key, shape, weights.dtype)))
            at = _first_at_least(total, drawn)
        else:
            drawn = lax.add(gumbel(key, (inputs,), weights.dtype, mode), lax.log(weights))
            at = lax.top_k(drawn, draws)[1]
    at = lax.reshape(at, shape)
    return at if array is None else _take(array, at, axis)


def categorical(
    key: ArrayLike,
    logits: ArrayLike,
    axis: int = -1,
    shape: Shape | None = None,
    replace: bool = True,
    mode: str | None = None,
) -> Array:
    """Positions (int32) along an axis of the logits, chosen with the probabilities softmax(logits) by the
    Gumbel trick.

    `shape` must end with the logits' other axes, and is those if it is None. Without `replace` no position is
    chosen twice along the leading axes of `shape`; raises ValueError if there are too few."""
    array = operators.operand(logits)
    dtype = _float_dtype("categorical with logits of this dtype", array.dtype)
    axis = _one_axis("categorical", axis, array)
    others = (*array.shape[:axis], *array.shape[axis + 1 :])
    shape = others if shape is None else as_shape(shape)
    lead = len(shape) - len(others)
    if not _fits(others, shape):
        raise ValueError(
            f"random.categorical: the shape {shape} does not end with the axes {others}; at {user_line()}"
        )
    prefix = shape[:lead]
    if replace:
        rest = shape[lead:]
        drawn_shape = (*prefix, *rest[:axis], array.shape[axis], *rest[axis:])
        noise = gumbel(key, drawn_shape, dtype, mode)
        return lax.argmax(lax.add(noise, operators.broadcast_to(array, drawn_shape)), lead + axis)
    draws = prod(prefix)
    if draws > array.shape[axis]:
        raise ValueError(
            f"random.categorical can't choose {draws} of {array.shape[axis]} without replacement; at "
            f"{user_line()}"
        )
    _, at = lax.top_k(lax.add(array, gumbel(key, array.shape, dtype, mode)), draws, axis=axis)
    order = [axis, *[i for i in range(at.ndim) if i != axis]]
    return lax.reshape(lax.transpose(at, order), shape)


__all__ = [
    "PRNGKey", "bernoulli", "bits", "categorical", "cauchy", "choice", "exponential", "fold_in", "gumbel",
    "key", "key_data", "laplace", "logistic", "normal", "permutation", "rademacher", "randint", "split",
    "truncated_normal", "uniform", "wrap_key_data",
]  # fmt: skip
