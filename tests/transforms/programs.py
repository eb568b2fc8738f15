"""What the tests of the transforms share: short names, oracles by differences, and random programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import tinyfn
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import prims
from tinyfn.trace.array import Array, as_array

Function = Callable[..., Any]


def array(value: Any, dtype: Any = "float64") -> Array:
    """An array of a dtype, float64 if none is given."""
    return as_array(np.array(value, dtype))


def total(x: Any) -> Any:
    """The sum of all elements."""
    return prims.reduce_sum(x, axes=tuple(range(x.ndim)))


def close(found: Any, expected: Any, tolerance: float = 1e-12) -> None:
    """Check equality up to a tolerance, and equal dtypes if both are arrays."""
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


def same(found: Any, expected: Any) -> None:
    """Check that dtypes, shapes and bits are equal, where any NaN equals any other."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    nan = (
        np.isnan(expected.astype(np.float64))
        if dtypes.is_float(expected.dtype)
        else np.zeros(expected.shape, bool)
    )
    if dtypes.is_float(expected.dtype):
        np.testing.assert_array_equal(np.isnan(found.astype(np.float64)), nan)
    assert found[~nan].tobytes() == expected[~nan].tobytes()


def normal(seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Normally distributed float64 values of these shapes."""
    generator = np.random.default_rng(seed)
    return [np.asarray(generator.normal(size=shape)) for shape in shapes]


def directional(
    function: Function, points: Sequence[np.ndarray], directions: Sequence[np.ndarray], step: float = 1e-4
) -> np.ndarray:
    """The derivative along a direction by differences of fourth order."""

    def at(offset: float) -> np.ndarray:
        moved = [array(x + offset * t) for x, t in zip(points, directions, strict=True)]
        return np.asarray(function(*moved))

    return np.asarray((8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step))


def gradient_by_differences(function: Function, point: Any, step: float = 1e-4) -> np.ndarray:
    """The gradient of a scalar function of one array, element by element."""
    point = np.asarray(point, np.float64)
    basis = np.eye(point.size).reshape(point.size, *point.shape)
    return np.array([directional(function, [point], [t], step) for t in basis]).reshape(point.shape)


# Random programs: each step maps values of moderate size to values of moderate size.


@tinyfn.custom_jvp
def soft_sign(x: Any) -> Any:
    """x / sqrt(1 + x²), whose rule calls it."""
    return x / prims.sqrt(1.0 + x * x)


@soft_sign.defjvp
def _soft_sign_rule(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    y = soft_sign(x)
    return y, t * (1.0 - y * y) * prims.rsqrt(1.0 + x * x)


_jitted = tinyfn.jit(lambda x: prims.sin(x) * 0.5 + x)
_rematerialized = tinyfn.remat(lambda x: prims.tanh(x) * x)


def _reduced(x: Any) -> Any:
    return prims.sin(prims.reduce_sum(x, axes=(0,)))


def _gather(x: Any) -> Any:
    index = as_array(np.array([[0], [-1], [0]], np.int32))
    return prims.gather(x, index, axes=(0,), sizes=(1, *x.shape[1:]), batch_dims=0, mode="clip")


_ANY_RANK: dict[str, Function] = {
    "sin": prims.sin,
    "tanh": prims.tanh,
    "logistic": prims.logistic,
    "negative": lambda x: -x,
    "bell": lambda x: prims.exp(-(x * x)),
    "root": lambda x: prims.sqrt(x * x + 1.0),
    "leaky": lambda x: prims.where(x > 0, x, x * 0.1),
    "power": lambda x: prims.sin(x) ** 3,
    "jit": _jitted,
    "remat": _rematerialized,
    "custom_jvp": soft_sign,
    "narrow": lambda x: prims.convert(prims.convert(x, dtype=dtypes.float64), dtype=x.dtype),
    "spread": lambda x: prims.broadcast(x, shape=(2, *x.shape), axes=tuple(range(1, x.ndim + 1))),
    "flatten": lambda x: prims.reshape(x, shape=(x.size,)),
}
_ARRAYS: dict[str, Function] = {
    "sum": _reduced,
    "max": lambda x: prims.reduce_max(x, axes=(x.ndim - 1,)),
    "transpose": lambda x: prims.transpose(x, permutation=tuple(reversed(range(x.ndim)))),
    "flip": lambda x: prims.flip(x, axes=(0,)),
    "cumsum": lambda x: prims.sin(prims.cumsum(x, axis=0, reverse=False)),
    "first": lambda x: prims.slice_(x, start=(0,) * x.ndim, limit=(1, *x.shape[1:]), step=(1,) * x.ndim),
    "gather": _gather,
}
_PAIRS: dict[str, Function] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: prims.sin(x * y),
    "divide": lambda x, y: x / (y * y + 1.0),
}
_FLAT_PAIRS: dict[str, Function] = {
    "concatenate": lambda x, y: prims.concatenate(x, y, axis=0),
    "outer": lambda x, y: prims.tanh(prims.dot_general(x, y, contract=((), ()), batch_axes=((), ()))),
}
_LARGEST = 48


class Step(NamedTuple):
    """One operation on earlier values of a program."""

    name: str
    sources: tuple[int, ...]

    def __call__(self, values: Sequence[Any]) -> Any:
        table = {**_ANY_RANK, **_ARRAYS, **_PAIRS, **_FLAT_PAIRS}
        return table[self.name](*[values[i] for i in self.sources])


class Program(NamedTuple):
    """A function of arrays of given shapes: the last of its steps' values."""

    shapes: tuple[tuple[int, ...], ...]
    steps: tuple[Step, ...]
    seed: int

    def __call__(self, *arguments: Any) -> Any:
        values = list(arguments)
        for step in self.steps:
            values.append(step(values))
        return values[-1]

    @property
    def __name__(self) -> str:
        return "program"

    def scalar(self, *arguments: Any) -> Any:
        """The sum of its result's elements, weighted by their position."""
        result = prims.reshape(self(*arguments), shape=(self.size(),))
        weights = as_array(np.cos(np.arange(self.size())))
        return total(result * weights)

    def size(self) -> int:
        """The number of elements of the result."""
        return int(np.prod(tinyfn.eval_shape(self, *self.points()).shape))

    def points(self) -> list[np.ndarray]:
        """Where to evaluate it."""
        return normal(self.seed, *self.shapes)

    def directions(self, salt: int = 1) -> list[np.ndarray]:
        """Directions in the space of its arguments."""
        return normal(self.seed + 1000 * salt, *self.shapes)


@st.composite
def programs(draw: st.DrawFn, most_steps: int = 6) -> Program:
    """Programs of one to three arguments and up to `most_steps` steps, mostly on the latest values."""
    shapes = draw(st.lists(st.sampled_from([(), (3,), (2, 3), (1, 2)]), min_size=1, max_size=3))
    seed = draw(st.integers(0, 999))
    values: list[Any] = [array(x) for x in normal(seed, *shapes)]
    steps = []
    for _ in range(draw(st.integers(1, most_steps))):
        first = draw(st.integers(max(0, len(values) - 3), len(values) - 1))
        second = draw(st.integers(0, len(values) - 1))
        x, y = values[first], values[second]
        names = list(_ANY_RANK) if x.size <= _LARGEST // 2 else [n for n in _ANY_RANK if n != "spread"]
        names += list(_ARRAYS) if x.ndim else []
        if x.shape == y.shape or not x.ndim or not y.ndim:
            names += list(_PAIRS)
        if x.ndim == y.ndim == 1 and x.size * y.size <= _LARGEST:
            names += list(_FLAT_PAIRS)
        name = draw(st.sampled_from(names))
        step = Step(name, (first, second) if name in _PAIRS or name in _FLAT_PAIRS else (first,))
        steps.append(step)
        values.append(step(values))
    return Program(tuple(shapes), tuple(steps), seed)
