"""Initial values of parameters: functions of (key, shape, dtype), and functions that make such functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from .. import lax, random
from ..lax.arguments import ArrayLike, as_shape
from ..trace import dtype as dtypes
from ..trace import operators
from ..trace.array import Array
from ..trace.errors import entry_points, user_line

Initializer: TypeAlias = Callable[..., Array]
Axes: TypeAlias = int | Sequence[int]

# The standard deviation of the standard normal distribution cut off at -2 and 2.
_TRUNCATED = 0.87962566103423978


def _or_default(dtype: Any) -> Any:
    """The dtype, or float32 for None."""
    return dtypes.DEFAULT_FLOAT if dtype is None else dtype


def zeros(key: ArrayLike, shape: Sequence[Any], dtype: Any = dtypes.DEFAULT_FLOAT) -> Array:
    """Zeros; the key is not used.

    >>> nn.initializers.zeros(random.key(0), (2, 3), "bfloat16").dtype
    dtype(bfloat16)
    """
    return lax.full(shape, 0, _or_default(dtype))


def ones(key: ArrayLike, shape: Sequence[Any], dtype: Any = dtypes.DEFAULT_FLOAT) -> Array:
    """Ones; the key is not used.

    >>> nn.initializers.ones(random.key(0), (2,))
    Array([1., 1.], dtype=float32)
    """
    return lax.full(shape, 1, _or_default(dtype))


def constant(value: ArrayLike, dtype: Any = dtypes.DEFAULT_FLOAT) -> Initializer:
    """An initializer that gives one value, or an array of values that broadcasts, everywhere.

    >>> nn.initializers.constant(tnp.array([1.0, 2.0]))(random.key(0), (3, 2))
    Array([[1., 2.],
           [1., 2.],
           [1., 2.]], dtype=float32)
    """

    def init(key: ArrayLike, shape: Sequence[Any], dtype: Any = dtype) -> Array:
        return operators.broadcast_to(
            operators.astype(operators.operand(value), _or_default(dtype)), as_shape(shape)
        )

    return init


def uniform(scale: float = 0.01, dtype: Any = dtypes.DEFAULT_FLOAT) -> Initializer:
    """An initializer with uniform numbers in [0, scale).

    >>> w = nn.initializers.uniform(scale=0.5)(random.key(0), (1000, 10))
    >>> bool((w >= 0).all() & (w < 0.5).all()), w.mean().round(2)
    (True, Array(0.25, dtype=float32))
    """

    def init(key: ArrayLike, shape: Sequence[Any], dtype: Any = dtype) -> Array:
        return lax.mul(random.uniform(key, shape, _or_default(dtype)), scale)

    return init


def normal(stddev: float = 0.01, dtype: Any = dtypes.DEFAULT_FLOAT) -> Initializer:
    """An initializer with normal numbers of mean 0.

    >>> w = nn.initializers.normal(stddev=2.0)(random.key(0), (1000, 10))
    >>> w.dtype, w.std().round(1)
    (dtype('float32'), Array(2., dtype=float32))
    """

    def init(key: ArrayLike, shape: Sequence[Any], dtype: Any = dtype) -> Array:
        return lax.mul(random.normal(key, shape, _or_default(dtype)), stddev)

    return init


def truncated_normal(
    stddev: float = 0.01, dtype: Any = dtypes.DEFAULT_FLOAT, lower: float = -2.0, upper: float = 2.0
) -> Initializer:
    """An initializer with standard normal numbers between lower and upper, times stddev (not their own
    deviation).

    >>> w = nn.initializers.truncated_normal(stddev=0.5)(random.key(0), (1000, 10))
    >>> bool((abs(w) <= 1.0).all()), w.std().round(2)
    (True, Array(0.44, dtype=float32))
    """

    def init(key: ArrayLike, shape: Sequence[Any], dtype: Any = dtype) -> Array:
        return lax.mul(random.truncated_normal(key, lower, upper, shape, _or_default(dtype)), stddev)

    return init


def _fans(shape: tuple[Any, ...], in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> tuple[float, float]:
    """How many inputs each output sums over, and how many outputs each input goes to."""
    if len(shape) < 2 and (in_axis, out_axis) == (-2, -1):
        raise ValueError(
            f"a weight of shape {shape} has no input and output axes; at {user_line()}: give in_axis and "
            "out_axis"
        )

    def size(axes: Axes) -> int:
        return math.prod([shape[axis] for axis in ([axes] if isinstance(axes, int) else axes)])

    inputs, outputs, batch = size(in_axis), size(out_axis), size(batch_axis)
    # The other axes are a window, all of which contributes.
    window = math.prod(shape) / inputs / outputs / batch
    return inputs * window, outputs * window


def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = dtypes.DEFAULT_FLOAT,
) -> Initializer:
    """An initializer with mean 0 and variance scale / n, n being the number of inputs, of outputs, or a mean
    of both.

    `mode` is "fan_in", "fan_out", "fan_avg" or "fan_geo_avg", `distribution` "truncated_normal" (at two
    standard deviations), "normal" or "uniform". Axes that are neither input, output nor batch count as a
    window.

    >>> make = nn.initializers.variance_scaling(1.0, "fan_in", "normal")
    >>> make(random.key(0), (400, 50)).std().round(3)  # 1 / sqrt(400)
    Array(0.05, dtype=float32)
    >>> convolution = nn.initializers.variance_scaling(1.0, "fan_in", "uniform", in_axis=1, out_axis=0)
    >>> convolution(random.key(0), (50, 16, 5, 5)).std().round(3)  # 1 / sqrt(16 * 5 * 5)
    Array(0.05, dtype=float32)
    """
    if mode not in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg"):
        raise ValueError(
            f"variance_scaling has no mode {mode!r}: choose fan_in, fan_out, fan_avg or fan_geo_avg"
        )
    if distribution not in ("truncated_normal", "normal", "uniform"):
        raise ValueError(
            f"variance_scaling has no distribution {distribution!r}: choose truncated_normal, normal or "
            "uniform"
        )

    def init(key: ArrayLike, shape: Sequence[Any], dtype: Any = dtype) -> Array:
        shape, dtype = as_shape(shape), _or_default(dtype)
        if 0 in shape:
            return lax.full(shape, 0, dtype)
        inputs, outputs = _fans(shape, in_axis, out_axis, batch_axis)
        fans = {
            "fan_in": inputs,
            "fan_out": outputs,
            "fan_avg": (inputs + outputs) / 2,
            "fan_geo_avg": math.sqrt(inputs * outputs),
        }
        deviation = math.sqrt(scale / fans[mode])
        if distribution == "truncated_normal":
            return lax.mul(random.truncated_normal(key, -2.0, 2.0, shape, dtype), deviation / _TRUNCATED)
        if distribution == "normal":
            return lax.mul(random.normal(key, shape, dtype), deviation)
        return lax.mul(random.uniform(key, shape, dtype, -1.0, 1.0), math.sqrt(3) * deviation)

    return init


def orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = dtypes.DEFAULT_FLOAT) -> Initializer:
    """An initializer with matrices, of `column_axis` by all other axes, whose columns, or rows if those are fewer, are
    orthogonal and of length `scale`, uniformly distributed (Saxe et al., 2013). Raises ValueError for fewer than 2 dimensions.

    >>> q = nn.initializers.orthogonal()(random.key(0), (5, 3))
    >>> abs(q.T @ q - tnp.eye(3)).max() < 1e-5
    Array(True, dtype=bool)
    """

    def init(key: ArrayLike, shape: Sequence[Any], dtype: Any = dtype) -> Array:
        from .. import linalg
        from .. import numpy as tnp

        sizes, dtype = as_shape(shape), _or_default(dtype)
        if len(sizes) < 2:
            raise ValueError(
                f"nn.initializers.orthogonal needs at least 2 dimensions, not the shape {sizes}; at {user_line()}"
            )
        columns = sizes[column_axis]
        others = list(sizes)
        del others[column_axis]
        rows = math.prod(others)
        wide = dtypes.accumulator(dtypes.canonical(dtype))
        normals = random.normal(key, (max(rows, columns), min(rows, columns)), wide)
        q, r = linalg.qr(normals)
        # With a positive diagonal of R the factor is unique, and so Q uniform.
        q = q * tnp.where(tnp.diagonal(r) < 0, -1, 1)
        q = tnp.reshape(q.T if rows < columns else q, (*others, columns))
        return operators.astype(scale * tnp.moveaxis(q, -1, column_axis), dtype)

    return init


def delta_orthogonal(
    scale: float = 1.0, column_axis: int = -1, dtype: Any = dtypes.DEFAULT_FLOAT
) -> Initializer:
    """An initializer for convolutions with weights [*window, inputs, outputs]: an orthogonal matrix of length `scale` in the
    middle of the window, and zeros around it (Xiao et al., "Dynamical isometry and a mean field theory of CNNs", 2018).

    Raises ValueError for a window with no or more than 3 dimensions, or for more inputs than outputs.

    >>> w = nn.initializers.delta_orthogonal()(random.key(0), (3, 4, 4))
    >>> [bool(abs(part).max() > 0) for part in w]
    [False, True, False]
    """
    matrix = orthogonal(scale, column_axis, dtype)

    def init(key: ArrayLike, shape: Sequence[Any], dtype: Any = dtype) -> Array:
        sizes = as_shape(shape)
        if not 3 <= len(sizes) <= 5 or sizes[-1] < sizes[-2]:
            raise ValueError(
                "nn.initializers.delta_orthogonal needs a shape [*window, inputs, outputs] with a window of 1 to 3 dimensions "
                f"and no more inputs than outputs, not {sizes}; at {user_line()}"
            )
        around = [((k - 1) // 2, k - 1 - (k - 1) // 2, 0) for k in sizes[:-2]]
        centre = lax.reshape(matrix(key, sizes[-2:], dtype), (*(1,) * len(around), *sizes[-2:]))
        return lax.pad(centre, operators.scalar(0, centre.dtype), [*around, (0, 0, 0), (0, 0, 0)])

    return init


def _scaled(name: str, scale: float, mode: str, distribution: str, doc: str) -> Callable[..., Initializer]:
    def make(
        in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = dtypes.DEFAULT_FLOAT
    ) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = doc
    return make


glorot_uniform = _scaled(
    "glorot_uniform",
    1.0,
    "fan_avg",
    "uniform",
    """An initializer with uniform numbers of variance 2 / (inputs + outputs) (Glorot and Bengio, 2010); see `variance_scaling`.

    >>> w = nn.initializers.glorot_uniform()(random.key(0), (300, 500))
    >>> w.std().round(2)  # sqrt(2 / 800)
    Array(0.05, dtype=float32)
    """,
)
glorot_normal = _scaled(
    "glorot_normal",
    1.0,
    "fan_avg",
    "truncated_normal",
    """An initializer with truncated normal numbers of variance 2 / (inputs + outputs) (Glorot and Bengio, 2010); see
    `variance_scaling`.

    >>> w = nn.initializers.glorot_normal()(random.key(0), (300, 500))
    >>> w.std().round(2)  # sqrt(2 / 800)
    Array(0.05, dtype=float32)
    """,
)
lecun_uniform = _scaled(
    "lecun_uniform",
    1.0,
    "fan_in",
    "uniform",
    """An initializer with uniform numbers of variance 1 / inputs (LeCun et al., 1998); see `variance_scaling`.

    >>> w = nn.initializers.lecun_uniform()(random.key(0), (100, 500))
    >>> w.std().round(2)  # sqrt(1 / 100)
    Array(0.1, dtype=float32)
    """,
)
lecun_normal = _scaled(
    "lecun_normal",
    1.0,
    "fan_in",
    "truncated_normal",
    """An initializer with truncated normal numbers of variance 1 / inputs (LeCun et al., 1998); see `variance_scaling`.

    >>> w = nn.initializers.lecun_normal()(random.key(0), (100, 500))
    >>> w.std().round(2)  # sqrt(1 / 100)
    Array(0.1, dtype=float32)
    """,
)
he_uniform = _scaled(
    "he_uniform",
    2.0,
    "fan_in",
    "uniform",
    """An initializer with uniform numbers of variance 2 / inputs, for relu (He et al., 2015); see `variance_scaling`.

    >>> w = nn.initializers.he_uniform()(random.key(0), (200, 500))
    >>> w.std().round(2)  # sqrt(2 / 200)
    Array(0.1, dtype=float32)
    """,
)
he_normal = _scaled(
    "he_normal",
    2.0,
    "fan_in",
    "truncated_normal",
    """An initializer with truncated normal numbers of variance 2 / inputs, for relu (He et al., 2015); see `variance_scaling`.

    >>> w = nn.initializers.he_normal(in_axis=1, out_axis=0)(random.key(0), (500, 200))
    >>> w.std().round(2)  # sqrt(2 / 200)
    Array(0.1, dtype=float32)
    """,
)
xavier_uniform, xavier_normal, kaiming_uniform, kaiming_normal = (
    glorot_uniform,
    glorot_normal,
    he_uniform,
    he_normal,
)

entry_points(globals())
