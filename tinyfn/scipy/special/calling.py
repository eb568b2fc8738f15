"""How special functions are called: arguments are promoted to one float dtype and broadcast, as in `tinyfn.numpy`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ...numpy.common import ArrayLike, floats
from ...trace import dtype as dtypes
from ...trace import operators
from ...trace.array import Array
from ...trace.prim import Primitive

where = operators.elementwise_where


def applied(primitive: Primitive, *args: ArrayLike) -> Array:
    """An elementwise primitive of arguments promoted and broadcast; integers and bools become float32."""
    return operators.elementwise(primitive, *args, inexact=True)


Composed = TypeVar("Composed", bound=Callable[..., Array])


def composed(function: Composed) -> Composed:
    """The function of positional arguments promoted to one float dtype and broadcast; half precision is worked out in float32."""

    @functools.wraps(function)
    def apply(*args: ArrayLike, **options: Any) -> Array:
        arrays = floats(function.__name__, *args)
        dtype = arrays[0].dtype
        shape = operators.broadcast_shapes(*[a.shape for a in arrays])
        wide = [operators.to_dtype(a, dtypes.accumulator(dtype)) for a in arrays]
        return operators.to_dtype(
            function(*[operators.broadcast_to(a, shape) for a in wide], **options), dtype
        )

    return cast(Composed, apply)
