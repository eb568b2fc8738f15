"""How special functions are called: arguments are promoted to one float dtype and broadcast, as in `tinyfn.numpy`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ...numpy.common import ArrayLike, check_real, floats
from ...trace import dtype as dtypes
from ...trace import operators
from ...trace.array import Array
from ...trace.prim import Primitive

where = operators.elementwise_where


def applied(primitive: Primitive, *args: ArrayLike) -> Array:
    """An elementwise primitive of arguments promoted and broadcast; integers and bools become float32."""
    return operators.elementwise(primitive, *args, inexact=True)


Composed = TypeVar("Composed", bound=Callable[..., Any])


def composed(function: Composed) -> Composed:
    """The function of positional arguments promoted to one float dtype and broadcast; half precision is worked out in float32."""
    return _worked_out_in(dtypes.accumulator, function)


def wide(function: Composed) -> Composed:
    """The function of positional arguments promoted to one float dtype and broadcast, worked out in float64 and rounded once."""

    @functools.wraps(function)
    def of_reals(*args: ArrayLike, **options: Any) -> Any:
        check_real(f"special.{function.__name__}", *floats(function.__name__, *args))
        return _worked_out_in(lambda dtype: dtypes.float64, function)(*args, **options)

    return cast(Composed, of_reals)


def _worked_out_in(working: Callable[[dtypes.DType], dtypes.DType], function: Composed) -> Composed:
    @functools.wraps(function)
    def apply(*args: ArrayLike, **options: Any) -> Any:
        arrays = floats(function.__name__, *args)
        dtype = arrays[0].dtype
        shape = operators.broadcast_shapes(*[a.shape for a in arrays])
        same = [operators.broadcast_to(operators.to_dtype(a, working(dtype)), shape) for a in arrays]
        found = function(*same, **options)
        if isinstance(found, tuple):
            return tuple([operators.to_dtype(part, dtype) for part in found])
        return operators.to_dtype(found, dtype)

    return cast(Composed, apply)
