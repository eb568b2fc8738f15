"""Continuous and geometric distributions that are closed formulas of uniform and normal numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import lax
from ..lax.arguments import ArrayLike, as_shape
from ..trace import dtype as dtypes
from ..trace import operators
from ..trace.array import Array
from ..trace.errors import user_line
from .distributions import exponential, float_dtype, normal, parameter, rademacher, unit_uniform
from .keys import Shape, key_pair
from .reuse import uses_key


def result_shape(shape: Shape | None, *parameters: ArrayLike) -> tuple[Any, ...]:
    """The shape asked for, or if it is None the one that the parameters broadcast to."""
    if shape is not None:
        return as_shape(shape)
    return operators.broadcast_shapes(*[operators.operand(p).shape for p in parameters])


@uses_key
def lognormal(
    key: ArrayLike, sigma: ArrayLike = 1.0, shape: Shape | None = None, dtype: Any = dtypes.float32
) -> Array:
    """Floats whose logarithm is normal with mean 0 and standard deviation sigma, of a shape (sigma's if it is None).

    >>> drawn = random.lognormal(random.key(0), tnp.array([0.0, 1.0]), (10000, 2))
    >>> tnp.log(drawn).std(0).round(1)
    Array([0., 1.], dtype=float32)
    """
    dtype, shape = float_dtype("lognormal", dtype), result_shape(shape, sigma)
    return lax.exp(normal(key, shape, dtype) * parameter("lognormal", sigma, dtype, shape))


@uses_key
def pareto(key: ArrayLike, b: ArrayLike, shape: Shape | None = None, dtype: Any = dtypes.float32) -> Array:
    """Floats from the Pareto distribution of exponent b on [1, inf): exp(e / b) of an exponential e.

    Of a shape (b's if it is None).

    >>> drawn = random.pareto(random.key(0), 2.0, (10000,))
    >>> drawn.min().round(2), (drawn > 2.0).mean().round(2)  # of which 2^-b are above 2
    (Array(1., dtype=float32), Array(0.25, dtype=float32))
    """
    dtype, shape = float_dtype("pareto", dtype), result_shape(shape, b)
    return lax.exp(exponential(key, shape, dtype) / parameter("pareto", b, dtype, shape))


@uses_key
def rayleigh(
    key: ArrayLike, scale: ArrayLike, shape: Shape | None = None, dtype: Any = dtypes.float32
) -> Array:
    """Floats from the Rayleigh distribution, scale · sqrt(-2 log(u)) of a uniform u in [0, 1).

    Of a shape (the scale's if it is None).

    >>> drawn = random.rayleigh(random.key(0), 3.0, (10000,))
    >>> tnp.sqrt((drawn**2).mean() / 2).round(1)  # the scale
    Array(3., dtype=float32)
    """
    dtype, shape = float_dtype("rayleigh", dtype), result_shape(shape, scale)
    drawn = unit_uniform("rayleigh", key, shape, dtype)
    return parameter("rayleigh", scale, dtype, shape) * lax.sqrt(lax.log(drawn) * -2.0)


@uses_key
def weibull_min(
    key: ArrayLike,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: Shape | None = None,
    dtype: Any = dtypes.float32,
) -> Array:
    """Floats from the Weibull distribution, scale · (-log(1 - u))^(1 / concentration) of a uniform u in [0, 1).

    Of a shape (if it is None that of the parameters).

    >>> drawn = random.weibull_min(random.key(0), 5.0, 2.0, (10000,))
    >>> (drawn < 5.0).mean().round(2)  # below the scale are 1 - 1/e, whatever the concentration
    Array(0.63, dtype=float32)
    """
    dtype, shape = float_dtype("weibull_min", dtype), result_shape(shape, scale, concentration)
    power = 1.0 / parameter("weibull_min", concentration, dtype, shape)
    return lax.pow(exponential(key, shape, dtype), power) * parameter("weibull_min", scale, dtype, shape)


@uses_key
def triangular(
    key: ArrayLike,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: Shape | None = None,
    dtype: Any = dtypes.float32,
) -> Array:
    """Floats between left and right whose density is a triangle with its tip at mode, by inversion.

    Of a shape (if it is None that of the parameters).

    >>> drawn = random.triangular(random.key(0), 0.0, 1.0, 5.0, (10000,))
    >>> drawn.mean().round(1)  # (left + mode + right) / 3
    Array(2., dtype=float32)
    """
    dtype, shape = float_dtype("triangular", dtype), result_shape(shape, left, mode, right)
    low, tip, high = (parameter("triangular", x, dtype, shape) for x in (left, mode, right))
    drawn = unit_uniform("triangular", key, shape, dtype)
    rising = low + lax.sqrt(drawn * (high - low) * (tip - low))
    falling = high - lax.sqrt((1.0 - drawn) * (high - low) * (high - tip))
    return lax.select(drawn < (tip - low) / (high - low), rising, falling)


@uses_key
def maxwell(key: ArrayLike, shape: Shape = (), dtype: Any = dtypes.float32) -> Array:
    """Floats of a shape from the Maxwell distribution of scale 1: the length of a vector of three normal numbers.

    >>> drawn = random.maxwell(random.key(0), (10000,))
    >>> (drawn**2).mean().round(1)
    Array(3., dtype=float32)
    """
    shape = as_shape(shape)
    vector = normal(key, (*shape, 3), float_dtype("maxwell", dtype))
    return lax.sqrt(lax.reduce_sum(vector * vector, (len(shape),)))


@uses_key
def double_sided_maxwell(
    key: ArrayLike, loc: ArrayLike, scale: ArrayLike, shape: Shape = (), dtype: Any = dtypes.float32
) -> Array:
    """Floats loc ± scale · (a Maxwell number), either sign with equal probability.

    As in JAX the result has the axes of `shape` (if that is () those of the parameters) and then those of loc and scale.

    >>> random.double_sided_maxwell(random.key(0), 0.0, tnp.ones(2), (3,)).shape
    (3, 2)
    >>> random.double_sided_maxwell(random.key(0), 0.0, tnp.ones(2)).shape
    (2, 2)
    """
    dtype, own = float_dtype("double_sided_maxwell", dtype), result_shape(None, loc, scale)
    shape = (*(as_shape(shape) or own), *own)
    for_length, for_sign = key_pair(key)
    drawn = rademacher(for_sign, shape, dtype) * maxwell(for_length, shape, dtype)
    scaled = drawn * parameter("double_sided_maxwell", scale, dtype, shape)
    return scaled + parameter("double_sided_maxwell", loc, dtype, shape)


@uses_key
def wald(key: ArrayLike, mean: ArrayLike, shape: Shape | None = None, dtype: Any = dtypes.float32) -> Array:
    """Floats from the Wald (inverse Gaussian) distribution of scale 1 with a mean, of a shape (the mean's if it is None).

    Michael, Schucany and Haas, "Generating random variates using transformations with multiple roots", The American
    Statistician 30 (1976).

    >>> drawn = random.wald(random.key(0), tnp.array([0.5, 1.0]), (10000, 2))
    >>> drawn.mean(0).round(1), drawn.var(0).round(1)  # the variance is the mean's cube
    (Array([0.5, 1. ], dtype=float32), Array([0.1, 1. ], dtype=float32))
    """
    dtype, shape = float_dtype("wald", dtype), result_shape(shape, mean)
    for_normal, for_uniform = key_pair(key)
    center = parameter("wald", mean, dtype, shape)
    v, chosen = normal(for_normal, shape, dtype), unit_uniform("wald", for_uniform, shape, dtype)
    y, squared = v * v, center * center
    root = lax.sqrt(4.0 * center * y + squared * (y * y))
    smaller = center + squared * y / 2.0 - center / 2.0 * root
    return lax.select(chosen <= center / (center + smaller), smaller, squared / smaller)


@uses_key
def geometric(key: ArrayLike, p: ArrayLike, shape: Shape | None = None, dtype: Any = dtypes.int32) -> Array:
    """How many trials of success probability p it takes until the first success: integers from 1 on.

    Of a shape (p's if it is None), by inversion: floor(log(u) / log(1 - p)) + 1 of a uniform u in (0, 1].
    Raises TypeError for a dtype that is not an integer's.

    >>> random.geometric(random.key(0), 0.5, (8,))
    Array([1, 1, 2, 2, 1, 3, 2, 1], dtype=int32)
    """
    dtype = dtypes.canonical(dtype)
    if not dtypes.is_integer(dtype):
        raise TypeError(f"random.geometric gives integers, not {dtype.name}; at {user_line()}")
    shape = result_shape(shape, p)
    working = operators.operand(p).dtype
    working = working if dtypes.is_float(working) else np.dtype(dtypes.float32)
    chance = parameter("geometric", p, working, shape)
    drawn = unit_uniform("geometric", key, shape, working)
    drawn = lax.select(drawn == 0.0, lax.full(shape, 1, working), drawn)
    return lax.convert_element_type(lax.floor(lax.log(drawn) / lax.log1p(-chance)) + 1.0, dtype)
