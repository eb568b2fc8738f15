"""Checks of users on values: `check(predicate, message, **values)`, under every transform."""

from __future__ import annotations

from typing import Any

import numpy as np

from .debug import _effect, check_format
from .trace import dtype as dtypes
from .trace import operators
from .trace.errors import entry_point, entry_points, user_line

__all__ = ["CheckError", "check"]


class CheckError(ValueError):
    """A check did not hold."""


@entry_point
def check(predicate: Any, message: str, *args: Any, **values: Any) -> None:
    """Raise CheckError with `message.format(*args, **values)` unless all of the predicate's elements hold.

    Under jit the run of the program raises it, when it comes to the check; under vmap the first lane for which it does not hold
    does. Results of that run are lost, and donated arguments are gone. Raises TypeError if the predicate is not of bools.

    >>> @tinyfn.jit
    ... def root(x):
    ...     tinyfn.checks.check(x >= 0, "root of {}", x)
    ...     return tnp.sqrt(x)
    >>> root(4.0)
    Array(2., dtype=float32)
    >>> try:
    ...     root(-1.0)
    ... except tinyfn.checks.CheckError as error:
    ...     print(str(error).split(";")[0])
    root of -1.0
    """
    flag = operators.operand(predicate)
    if flag.dtype is not dtypes.bool_:
        raise TypeError(
            f"check takes a bool, not {dtypes.describe(flag.dtype, flag.shape)}; at {user_line()}: compare, as in x > 0"
        )
    check_format("check", message, args, values)
    line = user_line()

    def verify(flag: Any, args: tuple[Any, ...], values: dict[str, Any]) -> None:
        holds = np.asarray(flag)
        if not holds.all():
            where = ""
            if holds.ndim:
                first = tuple(map(int, np.argwhere(~holds)[0]))
                count = int((~holds).sum())
                where = f" ({count} of {holds.size} elements, the first at index {first})"
            raise CheckError(f"{message.format(*args, **values)}{where}; the check is at {line}")

    _effect("check", verify, (flag, args, values), {})


entry_points(globals())
