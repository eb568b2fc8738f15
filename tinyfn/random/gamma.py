"""The gamma distribution, with its derivative, and the distributions that are made of it."""

from __future__ import annotations

from math import prod
from typing import Any

from .. import lax
from ..lax.arguments import ArrayLike, as_shape
from ..trace import dtype as dtypes
from ..trace import operators
from ..trace.array import Array
from ..trace.dtype import DType
from ..trace.errors import user_line
from ..transforms import vmap
from .distributions import exponential, float_dtype, normal, parameter, rademacher, unit_uniform
from .gamma_derivative import with_derivative
from .keys import Shape, key_pair, split, typed, words_of
from .reuse import uses_key
from .transformed import result_shape


def _rejection(key: Array, alpha: Array) -> tuple[Array, Array, Array]:
    """For one alpha >= 1 two numbers whose product is gamma distributed, and an unused key.

    Two loops in one, so that of many lanes each can be where it is: a proposal takes a key for its uniform number, and one from
    which normal numbers x are drawn until 1 + c x is positive."""
    dtype = alpha.dtype
    d = alpha - 1.0 / 3.0
    c = 1.0 / 3.0 / lax.sqrt(d)

    def step(state: Any) -> Any:
        key, for_normals, for_uniform, v, _ = state
        following, *others = (lax.index_in_dim(split(key, 3), i, keepdims=False) for i in range(3))
        fresh = v > 0.0
        key = lax.select(fresh, following, key)
        for_normals, for_uniform = (
            lax.select(fresh, new, old) for new, old in zip(others, (for_normals, for_uniform), strict=True)
        )
        for_normals, own = key_pair(for_normals)
        x = normal(own, (), dtype)
        v = 1.0 + x * c
        u, squared, cubed = unit_uniform("gamma", for_uniform, (), dtype), x * x, v * v * v
        rejected = (u >= 1.0 - 0.0331 * (squared * squared)) & (
            lax.log(u) >= squared * 0.5 + d * ((1.0 - cubed) + lax.log(cubed))
        )
        return key, for_normals, for_uniform, v, (v <= 0.0) | rejected

    first, for_boost = key_pair(key)
    start = (first, first, first, lax.full((), 1, dtype), lax.full((), True, dtypes.bool_))
    v = lax.while_loop(lambda state: state[4], step, start)[3]
    return d, v * v * v, for_boost


def _one(key: Array, alpha: Array, logarithm: bool) -> Array:
    """One gamma number, or its logarithm.

    Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000); for alpha < 1 the number for
    alpha + 1 times u^(1 / alpha)."""
    large = alpha >= 1.0
    d, v, for_boost = _rejection(key, lax.select(large, alpha, alpha + 1.0))
    if logarithm:
        log_u = -exponential(for_boost, (), alpha.dtype)
        boost = lax.select(large | (log_u == 0.0), lax.full((), 0, alpha.dtype), log_u * (1.0 / alpha))
        return lax.log(d) + lax.log(v) + boost
    u = 1.0 - unit_uniform("gamma", for_boost, (), alpha.dtype)
    return d * v * lax.select(large, lax.full((), 1, alpha.dtype), lax.pow(u, 1.0 / alpha))


def _gamma(
    name: str, key: ArrayLike, a: ArrayLike, shape: Shape | None, dtype: Any, logarithm: bool
) -> Array:
    found: DType = float_dtype(name, dtype)
    sizes = result_shape(shape, a)
    alpha = parameter(name, a, found, sizes)
    count = prod(sizes)
    words_of(name, key)
    keys = split(typed(key), count)
    flat = lax.reshape(lax.stop_gradient(alpha), (count,))
    drawn = vmap(lambda own, one: _one(own, one, logarithm))(keys, flat)
    return with_derivative(alpha, lax.reshape(drawn, sizes), logarithm)


@uses_key
def gamma(key: ArrayLike, a: ArrayLike, shape: Shape | None = None, dtype: Any = dtypes.float32) -> Array:
    """Floats from the gamma distribution of shape parameter a > 0 and scale 1, of a shape (a's if it is None).

    For a small a many are too small for the dtype and so 0: see `loggamma`. The derivative in a is the implicit one.

    >>> (random.gamma(random.key(0), 3.0, (1000,)) * 2.0).mean().round()  # of scale 2
    Array(6., dtype=float32)
    >>> tinyfn.grad(lambda a: random.gamma(random.key(0), a, (1000,)).mean())(3.0).round(1)  # the mean is a
    Array(1., dtype=float32)
    """
    return _gamma("gamma", key, a, shape, dtype, False)


@uses_key
def loggamma(key: ArrayLike, a: ArrayLike, shape: Shape | None = None, dtype: Any = dtypes.float32) -> Array:
    """Logarithms of gamma distributed floats (see `gamma`), also where those are too small for the dtype.

    >>> small = tnp.float32(0.001)
    >>> random.gamma(random.key(0), small), random.loggamma(random.key(0), small).round()
    (Array(0., dtype=float32), Array(-111., dtype=float32))
    """
    return _gamma("loggamma", key, a, shape, dtype, True)


@uses_key
def beta(
    key: ArrayLike, a: ArrayLike, b: ArrayLike, shape: Shape | None = None, dtype: Any = dtypes.float32
) -> Array:
    """Floats in [0, 1] from the beta distribution of parameters a, b > 0: g / (g + h) of gamma numbers for a and for b.

    Of a shape (if it is None that of a and b).

    >>> random.beta(random.key(0), 3.0, 1.0, (1000,)).mean().round(2)  # a / (a + b)
    Array(0.75, dtype=float32)
    """
    dtype, shape = float_dtype("beta", dtype), result_shape(shape, a, b)
    first, second = key_pair(key)
    log_g = loggamma(first, parameter("beta", a, dtype, shape), shape, dtype)
    log_h = loggamma(second, parameter("beta", b, dtype, shape), shape, dtype)
    most = lax.max(log_g, log_h)
    g, h = lax.exp(log_g - most), lax.exp(log_h - most)
    return g / (g + h)


@uses_key
def dirichlet(
    key: ArrayLike, alpha: ArrayLike, shape: Shape | None = None, dtype: Any = dtypes.float32
) -> Array:
    """Vectors of positive floats that add up to 1, from the Dirichlet distribution with the parameters alpha[..., n].

    The result has `shape` (None: alpha's leading axes) and then n: gamma numbers divided by their sum.

    >>> drawn = random.dirichlet(random.key(0), tnp.array([1.0, 2.0, 5.0]), (1000,))
    >>> drawn.shape, drawn.sum(-1).round(4).min(), drawn.mean(0).round(1)
    ((1000, 3), Array(1., dtype=float32), Array([0.1, 0.3, 0.6], dtype=float32))
    """
    array = operators.operand(alpha)
    if not array.ndim:
        raise ValueError(f"random.dirichlet needs a vector alpha, not {array.dtype.name}[]; at {user_line()}")
    dtype = float_dtype("dirichlet", dtype)
    shape = (*(array.shape[:-1] if shape is None else as_shape(shape)), array.shape[-1])
    log_g = loggamma(key, array, shape, dtype)
    axis = log_g.ndim - 1
    g = lax.exp(log_g - lax.stop_gradient(lax.expand_dims(lax.reduce_max(log_g, (axis,)), (axis,))))
    return g / lax.expand_dims(lax.reduce_sum(g, (axis,)), (axis,))


@uses_key
def chisquare(
    key: ArrayLike, df: ArrayLike, shape: Shape | None = None, dtype: Any = dtypes.float32
) -> Array:
    """Floats from the chi-squared distribution with df > 0 degrees of freedom: 2 · gamma(df / 2).

    Of a shape (df's if it is None).

    >>> random.chisquare(random.key(0), 4.0, (1000,)).mean().round()  # df
    Array(4., dtype=float32)
    """
    dtype, shape = float_dtype("chisquare", dtype), result_shape(shape, df)
    return lax.exp(loggamma(key, parameter("chisquare", df, dtype, shape) / 2.0, shape, dtype)) * 2.0


@uses_key
def f(
    key: ArrayLike,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: Shape | None = None,
    dtype: Any = dtypes.float32,
) -> Array:
    """Floats from Fisher's F distribution: the quotient of two chi-squared numbers, each over its degrees of freedom.

    Of a shape (if it is None that of dfnum and dfden).

    >>> drawn = random.f(random.key(0), 10.0, 12.0, (1000,))
    >>> tnp.median(drawn).round(1)
    Array(1., dtype=float32)
    """
    dtype, shape = float_dtype("f", dtype), result_shape(shape, dfnum, dfden)
    above, below = parameter("f", dfnum, dtype, shape), parameter("f", dfden, dtype, shape)
    for_below, for_above = key_pair(key)
    numerator = chisquare(for_above, above, shape, dtype) / above
    return numerator / (chisquare(for_below, below, shape, dtype) / below)


@uses_key
def t(key: ArrayLike, df: ArrayLike, shape: Shape | None = None, dtype: Any = dtypes.float32) -> Array:
    """Floats from Student's t distribution with df > 0 degrees of freedom: normal · sqrt(df / 2 / gamma(df / 2)).

    Of a shape (df's if it is None).

    >>> random.t(random.key(0), tnp.array([1.0, 10.0, 100.0])).shape
    (3,)
    >>> random.t(random.key(0), 10.0, (1000,)).var().round(1)  # df / (df - 2)
    Array(1.3, dtype=float32)
    """
    dtype, shape = float_dtype("t", dtype), result_shape(shape, df)
    for_normal, for_gamma = key_pair(key)
    half = parameter("t", df, dtype, shape) / 2.0
    return normal(for_normal, shape, dtype) * lax.sqrt(half / gamma(for_gamma, half, shape, dtype))


@uses_key
def generalized_normal(key: ArrayLike, p: ArrayLike, shape: Shape = (), dtype: Any = dtypes.float32) -> Array:
    """Floats of a shape, of a density proportional to exp(-|x|^p): a random sign times gamma(1 / p)^(1 / p).

    >>> random.generalized_normal(random.key(0), 2.0, (1000,)).var().round(1)  # p = 2: normal, of variance 1/2
    Array(0.5, dtype=float32)
    """
    dtype, shape = float_dtype("generalized_normal", dtype), as_shape(shape)
    for_gamma, for_sign = key_pair(key)
    power = 1.0 / parameter("generalized_normal", p, dtype, shape)
    return rademacher(for_sign, shape, dtype) * lax.pow(gamma(for_gamma, power, shape, dtype), power)


@uses_key
def ball(key: ArrayLike, d: int, p: ArrayLike = 2, shape: Shape = (), dtype: Any = dtypes.float32) -> Array:
    """Points [*shape, d], uniform in the unit ball of the p-norm in d dimensions.

    Barthe, Guédon, Mendelson and Naor, "A probabilistic approach to the geometry of the l_p^n ball", Annals of Probability 33
    (2005).

    >>> points = random.ball(random.key(0), 3, shape=(1000,))
    >>> points.shape, bool((linalg.norm(points, axis=-1) <= 1.0).all())
    ((1000, 3), True)
    """
    dtype, shape = float_dtype("ball", dtype), as_shape(shape)
    for_direction, for_length = key_pair(key)
    g = generalized_normal(for_direction, p, (*shape, d), dtype)
    power = parameter("ball", p, dtype, ())
    total = lax.reduce_sum(lax.pow(lax.abs(g), operators.broadcast_to(power, g.shape)), (len(shape),))
    length = lax.pow(
        total + exponential(for_length, shape, dtype), operators.broadcast_to(1.0 / power, shape)
    )
    return g / operators.broadcast_to(lax.expand_dims(length, (len(shape),)), g.shape)
