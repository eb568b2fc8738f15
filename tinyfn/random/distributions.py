"""Random numbers of a distribution: uniform ones from random bits, and all others from those."""

from __future__ import annotations

import builtins
from typing import Any

import ml_dtypes
import numpy as np

from .. import lax
from ..lax.arguments import ArrayLike, as_shape
from ..trace import dtype as dtypes
from ..trace import operators
from ..trace.array import Array
from ..trace.dtype import DType
from ..trace.errors import user_line
from .keys import UNSIGNED, Shape, bits_of_width, split
from .reuse import uses_key


def float_dtype(name: str, dtype: Any) -> DType:
    """The float dtype meant; raises TypeError for another kind."""
    found: DType = dtypes.canonical(dtype)
    if found not in dtypes.FLOATS:
        raise TypeError(f"random.{name} gives floats, not {found.name}; at {user_line()}")
    return found


def float_info(dtype: DType) -> Any:
    """What NumPy's finfo knows of a float dtype."""
    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def fits(shape: tuple[Any, ...], target: tuple[Any, ...]) -> bool:
    """Whether a shape broadcasts to another."""
    return len(shape) <= len(target) and builtins.all(
        n in (1, m) for n, m in zip(reversed(shape), reversed(target), strict=False)
    )


def parameter(name: str, value: ArrayLike, dtype: DType, shape: tuple[Any, ...]) -> Array:
    """A parameter in a dtype, repeated to the shape of the result."""
    array = operators.scalar(value, dtype) if isinstance(value, (int, float)) else operators.operand(value)
    array = lax.convert_element_type(array, dtype)
    if not fits(array.shape, shape):
        found = dtypes.describe(array.dtype, array.shape)
        raise ValueError(
            f"random.{name}: a parameter {found} does not broadcast to the shape {shape}; at {user_line()}"
        )
    return operators.broadcast_to(array, shape)


def unit_uniform(name: str, key: ArrayLike, shape: tuple[Any, ...], dtype: DType) -> Array:
    """Floats in [0, 1): random bits as the mantissa of a number in [1, 2), less 1."""
    width, mantissa = 8 * dtype.itemsize, int(float_info(dtype).nmant)
    drawn = 8 if mantissa < 8 else width
    words = lax.convert_element_type(bits_of_width(name, key, drawn, shape), UNSIGNED[width])
    one = int(np.ones((), dtype).view(UNSIGNED[width]))
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
    unit = unit_uniform(name, key, shape, dtype)
    if type(minval) in (int, float) and type(maxval) in (int, float) and minval == 0 and maxval == 1:
        return unit
    low, high = parameter(name, minval, dtype, shape), parameter(name, maxval, dtype, shape)
    # Rounding may go below the least value, but it must not.
    return lax.max(low, lax.add(lax.mul(unit, lax.sub(high, low)), low))


@uses_key
def uniform(
    key: ArrayLike,
    shape: Shape = (),
    dtype: Any = dtypes.float32,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> Array:
    """Floats of a shape and dtype, uniform in [minval, maxval): multiples of 2^-23 (float32) of the interval.

    The bounds may be arrays. Raises TypeError for a dtype that is not a float's, ValueError for bounds that do not broadcast to
    the shape.

    >>> random.uniform(random.key(0), (2, 3)).shape
    (2, 3)
    >>> low, high = tnp.array([0.0, 10.0]), tnp.array([1.0, 20.0])
    >>> drawn = random.uniform(random.key(0), (100, 2), minval=low, maxval=high)
    >>> bool((low <= drawn).all() and (drawn < high).all())
    True
    """
    return _uniform("uniform", key, as_shape(shape), float_dtype("uniform", dtype), minval, maxval)


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
    return parameter(name, array, dtype, shape), operators.broadcast_to(above, shape)


@uses_key
def randint(
    key: ArrayLike, shape: Shape, minval: ArrayLike, maxval: ArrayLike, dtype: Any = dtypes.int32
) -> Array:
    """Integers of a shape in [minval, maxval), all (almost) equally likely; minval where there are none. Bounds may be arrays.

    Bounds beyond the dtype are clipped to it; a maxval of one more than its greatest value includes that one. Raises
    TypeError for a dtype that is not an integer's.

    >>> random.randint(random.key(0), (5,), 0, 10)
    Array([9, 0, 2, 3, 1], dtype=int32)
    >>> random.randint(random.key(0), (4,), 0, 256, tnp.uint8)
    Array([101,  80, 200,  61], dtype=uint8)
    """
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
    unsigned = UNSIGNED[width]
    low, _ = _bound("randint", minval, wide, shape)
    high, above = _bound("randint", maxval, wide, shape)
    keys = split(key)
    higher, lower = (
        bits_of_width("randint", lax.index_in_dim(keys, i, keepdims=False), width, shape) for i in (0, 1)
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


@uses_key
def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: Shape | None = None, mode: str = "low") -> Array:
    """Bools that are true with probability p (a float, or an array of floats), of a shape (p's if it is None).

    A p below 2^-23 (float32) needs mode "high", which draws two numbers for each. Raises TypeError for a p of integers.

    >>> random.bernoulli(random.key(0), tnp.array([0.0, 0.5, 1.0]))
    Array([False, False,  True], dtype=bool)
    >>> random.bernoulli(random.key(0), 0.25, (1000,)).sum()
    Array(239, dtype=int32)
    """
    chance = operators.operand(p)
    if not dtypes.is_float(chance.dtype):
        found = dtypes.describe(chance.dtype, chance.shape)
        raise TypeError(f"random.bernoulli needs a float p, not {found}; at {user_line()}")
    if mode not in ("low", "high"):
        raise ValueError(f'random.bernoulli has the modes "low" and "high", not {mode!r}; at {user_line()}')
    dtype, shape = chance.dtype, chance.shape if shape is None else as_shape(shape)
    chance = parameter("bernoulli", chance, dtype, shape)
    if mode == "low":
        return lax.lt(unit_uniform("bernoulli", key, shape, dtype), chance)
    coarse, fine = _two_units("bernoulli", key, shape, dtype)
    return lax.lt(lax.mul(fine, 2.0 ** -int(float_info(dtype).nmant)), lax.sub(chance, coarse))


def _two_units(name: str, key: ArrayLike, shape: tuple[Any, ...], dtype: DType) -> tuple[Array, Array]:
    both = unit_uniform(name, key, (2, *shape), dtype)
    return lax.index_in_dim(both, 0, keepdims=False), lax.index_in_dim(both, 1, keepdims=False)


@uses_key
def rademacher(key: ArrayLike, shape: Shape = (), dtype: Any = dtypes.int32) -> Array:
    """-1 or 1 with equal probability, of a shape and a dtype of numbers.

    >>> random.rademacher(random.key(0), (4,))
    Array([-1, -1,  1,  1], dtype=int32)
    """
    dtype = dtypes.canonical(dtype)
    drawn = lax.convert_element_type(bernoulli(key, 0.5, shape), dtype)
    return lax.sub(lax.mul(2, drawn), 1)


@uses_key
def normal(key: ArrayLike, shape: Shape = (), dtype: Any = dtypes.float32) -> Array:
    """Floats of a shape and dtype from the standard normal distribution: sqrt(2) · erf_inv(u) of a uniform u in (-1, 1).

    Raises TypeError for a dtype that is not a float's.

    >>> drawn = 5.0 + 2.0 * random.normal(random.key(0), (100, 100))  # of mean 5 and standard deviation 2
    >>> drawn.shape, drawn.mean().round(1), drawn.std().round(1)
    ((100, 100), Array(5., dtype=float32), Array(2., dtype=float32))
    """
    dtype = float_dtype("normal", dtype)
    least = np.nextafter(np.array(-1, dtype), np.array(0, dtype))
    drawn = _uniform("normal", key, as_shape(shape), dtype, float(least), 1.0)
    return lax.mul(float(np.sqrt(2)), lax.erf_inv(drawn))


@uses_key
def truncated_normal(
    key: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: Shape | None = None,
    dtype: Any = dtypes.float32,
) -> Array:
    """Floats from the standard normal distribution between lower and upper, of a shape (if it is None that of the bounds).

    The bounds may be arrays; an inverse of the distribution function, so of one uniform number each.

    >>> drawn = random.truncated_normal(random.key(0), -1.0, tnp.array([1.0, 2.0]), (1000, 2))
    >>> drawn.min(0).round(1), drawn.max(0).round(1)
    (Array([-1., -1.], dtype=float32), Array([1., 2.], dtype=float32))
    """
    dtype = float_dtype("truncated_normal", dtype)
    if shape is None:
        shape = operators.broadcast_shapes(operators.operand(lower).shape, operators.operand(upper).shape)
    shape = as_shape(shape)
    low, high = (parameter("truncated_normal", bound, dtype, shape) for bound in (lower, upper))
    root = float(np.sqrt(2))
    least, most = (lax.erf(lax.div(bound, root)) for bound in (low, high))
    drawn = _uniform("truncated_normal", key, shape, dtype, least, most)
    value = lax.mul(root, lax.erf_inv(drawn))
    first = lax.nextafter(lax.stop_gradient(low), float("inf"))
    last = lax.nextafter(lax.stop_gradient(high), float("-inf"))
    return lax.clamp(first, value, last)


@uses_key
def gumbel(key: ArrayLike, shape: Shape = (), dtype: Any = dtypes.float32, mode: str | None = None) -> Array:
    """Floats of a shape from the standard Gumbel distribution, -log(-log(u)) of a uniform u in (0, 1).

    Mode "low" (the default) draws one number for each; "high" draws two, which makes large values finer.

    >>> logits = tnp.log(tnp.array([0.5, 0.25, 0.25]))
    >>> chosen = (logits + random.gumbel(random.key(0), (1000, 3))).argmax(-1)  # what `categorical` does
    >>> tnp.bincount(chosen)
    Array([488, 241, 271], dtype=int32)
    """
    dtype, shape = float_dtype("gumbel", dtype), as_shape(shape)
    tiny = float(float_info(dtype).tiny)
    if mode in (None, "low"):
        return lax.neg(lax.log(lax.neg(lax.log(_uniform("gumbel", key, shape, dtype, tiny, 1.0)))))
    if mode != "high":
        raise ValueError(f'random.gumbel has the modes "low" and "high", not {mode!r}; at {user_line()}')
    coarse, fine = _two_units("gumbel", key, shape, dtype)
    fine = lax.mul(fine, 2.0 ** -int(float_info(dtype).nmant))
    drawn = lax.select(lax.ge(coarse, 0.5), coarse, lax.add(lax.add(coarse, fine), tiny))
    return lax.neg(lax.log(lax.neg(lax.log1p(lax.neg(drawn)))))


@uses_key
def exponential(key: ArrayLike, shape: Shape = (), dtype: Any = dtypes.float32) -> Array:
    """Floats of a shape from the exponential distribution of mean 1, -log(1 - u) of a uniform u in [0, 1).

    >>> rate = 4.0
    >>> (random.exponential(random.key(0), (10000,)) / rate).mean().round(2)
    Array(0.25, dtype=float32)
    """
    drawn = unit_uniform("exponential", key, as_shape(shape), float_dtype("exponential", dtype))
    return lax.neg(lax.log1p(lax.neg(drawn)))


@uses_key
def laplace(key: ArrayLike, shape: Shape = (), dtype: Any = dtypes.float32) -> Array:
    """Floats of a shape from the Laplace distribution of scale 1, sign(u) · log(1 - |u|) of a uniform u in (-1, 1).

    >>> drawn = random.laplace(random.key(0), (10000,))
    >>> tnp.abs(drawn).mean().round(1)  # the scale
    Array(1., dtype=float32)
    """
    dtype = float_dtype("laplace", dtype)
    least = -1.0 + float(float_info(dtype).epsneg)
    drawn = _uniform("laplace", key, as_shape(shape), dtype, least, 1.0)
    return lax.mul(lax.sign(drawn), lax.log1p(lax.neg(lax.abs(drawn))))


@uses_key
def logistic(key: ArrayLike, shape: Shape = (), dtype: Any = dtypes.float32) -> Array:
    """Floats of a shape from the logistic distribution, log(u / (1 - u)) of a uniform u in (0, 1).

    >>> drawn = random.logistic(random.key(0), (10000,))
    >>> (drawn > 1.0).mean().round(2), nn.sigmoid(-1.0).round(2)
    (Array(0.27, dtype=float32), Array(0.27, dtype=float32))
    """
    dtype = float_dtype("logistic", dtype)
    drawn = _uniform("logistic", key, as_shape(shape), dtype, float(float_info(dtype).tiny), 1.0)
    return lax.sub(lax.log(drawn), lax.log1p(lax.neg(drawn)))


@uses_key
def cauchy(key: ArrayLike, shape: Shape = (), dtype: Any = dtypes.float32) -> Array:
    """Floats of a shape from the Cauchy distribution, tan(pi · (u - 1/2)) of a uniform u in (0, 1).

    >>> drawn = random.cauchy(random.key(0), (10000,))
    >>> tnp.median(tnp.abs(drawn)).round(1)  # half of them are from -1 to 1; there is no mean
    Array(1., dtype=float32)
    """
    dtype = float_dtype("cauchy", dtype)
    drawn = _uniform("cauchy", key, as_shape(shape), dtype, float(float_info(dtype).eps), 1.0)
    return lax.tan(lax.mul(float(np.pi), lax.sub(drawn, 0.5)))
