"""How the functions of `lax` read their arguments."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators
from ..trace.array import Array, as_array, is_scalar
from ..trace.dtype import DType
from ..trace.errors import TracerError, summary, user_line
from ..trace.operators import broadcast_shapes
from ..trace.prim import Primitive
from ..trace.uop import UOp

ArrayLike: TypeAlias = Array | np.ndarray[Any, Any] | np.generic | bool | int | float | complex
Sizes: TypeAlias = Sequence[Any]


def described(xs: Sequence[Any]) -> str:
    """`float32[3], 2.0`: arguments in error messages."""
    return ", ".join(dtypes.describe(x.dtype, x.shape) if isinstance(x, Array) else repr(x) for x in xs)


def _kind(x: Any) -> tuple[DType, bool]:
    """The dtype that an array or a Python number has, and whether it is weak."""
    if isinstance(x, Array):
        return x.dtype, x.weak_type
    kind: Any = type(x)
    return dtypes.canonical(kind), kind is not bool


def of_one_dtype(name: str, *xs: ArrayLike) -> list[Array]:
    """The arguments as arrays of the one dtype that all but the weak ones have."""
    given = [x if isinstance(x, Array) or is_scalar(x) else as_array(x) for x in xs]
    found = [_kind(x) for x in given]
    strong = [dtype for dtype, weak in found if not weak]
    arrays = [x.dtype for x in given if isinstance(x, Array)]
    target = (strong or arrays or [found[0][0]])[0]
    for (dtype, weak), x in zip(found, given, strict=True):
        yields = weak and (strong or (arrays and not isinstance(x, Array)))
        if dtype is not target and not (
            yields and dtypes.promote_pair(target, False, dtype, True)[0] is target
        ):
            raise TypeError(
                f"lax.{name} needs arguments of one dtype, not {described(given)}; at {user_line()}: cast "
                "them with lax.convert_element_type, or use the function of tinyfn.numpy, which promotes"
            )
    return [
        operators.to_dtype(x, target) if isinstance(x, Array) else operators.scalar(x, target, weak=weak)
        for x, (_, weak) in zip(given, found, strict=True)
    ]


def of_one_shape(name: str, arrays: Sequence[Array]) -> list[Array]:
    """The arrays broadcast to one shape: scalars, and axes of size 1 among equally many."""
    shapes = [a.shape for a in arrays if a.shape]
    if not shapes or builtins.all(a.shape == shapes[0] for a in arrays):
        return list(arrays)
    if len({len(shape) for shape in shapes}) > 1:
        raise TypeError(
            f"lax.{name} needs arguments with equally many axes, not {described(arrays)}; at {user_line()}: "
            "add axes with lax.broadcast_in_dim, or use the function of tinyfn.numpy, which broadcasts"
        )
    shape = broadcast_shapes(*shapes)
    return [operators.broadcast_to(a, shape) for a in arrays]


def one_axis(name: str, axis: int, ndim: int) -> int:
    """An axis counted from the start; raises ValueError if there is none such."""
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise ValueError(
            f"{name}: axis {axis} is out of range for an array with {ndim} axes; at {user_line()}"
        )
    return axis % ndim


def distinct_axes(name: str, axes: Sequence[int] | int, ndim: int) -> tuple[int, ...]:
    """Axes counted from the start; raises ValueError if two are the same."""
    found = tuple([one_axis(name, axis, ndim) for axis in ((axes,) if isinstance(axes, int) else axes)])
    if len(set(found)) != len(found):
        raise ValueError(f"{name}: the axes {tuple(found)} are not distinct; at {user_line()}")
    return found


def as_shape(shape: Sizes | int) -> tuple[Any, ...]:
    """A shape as a tuple of ints and symbolic dimensions."""
    if isinstance(shape, (int, np.integer)):
        return (int(shape),)
    try:
        return tuple([n if isinstance(n, UOp) else operator.index(n) for n in shape])
    except TracerError:
        raise
    except TypeError:
        raise TypeError(f"shapes and sizes are made of integers, not {summary(shape)}") from None


def all_axes(x: Array) -> tuple[int, ...]:
    """All axes in order."""
    return tuple(range(x.ndim))


def applied(primitive: Primitive, *xs: Array, **params: Any) -> Array:
    """A primitive's result on arrays."""
    result: Array = primitive(*xs, **params)
    return result
