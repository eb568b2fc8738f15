"""The checks of hyperparameters, and the environment variables that give defaults to some of them."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Sequence
from typing import Any

from ..trace import dtype as dtypes
from ..trace.dtype import DType
from ..trace.errors import user_line

# tinygrad's names, besides NumPy's.
_DTYPE_NAMES = {"half": "float16", "float": "float32", "double": "float64"}


def real(what: str, name: str, value: Any) -> float:
    """A setting that must be a finite number; raises TypeError or ValueError."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        hint = ": change or trace it with set_learning_rate(state, lr)" if name == "lr" else ""
        found = type(value).__name__
        raise TypeError(f"{what}: {name} must be a number, not {found}; at {user_line()}{hint}")
    if not math.isfinite(value):
        raise ValueError(f"{what}: {name} must be finite, not {value}; at {user_line()}")
    return float(value)


def number(what: str, name: str, value: Any, below: float = math.inf) -> float:
    """A setting that must be a number, at least 0 and less than `below`. Raises TypeError or ValueError."""
    checked = real(what, name, value)
    if not 0 <= checked < below:
        limit = "" if below == math.inf else f" and below {below:g}"
        raise ValueError(f"{what}: {name} must be at least 0{limit}, not {value}; at {user_line()}")
    return checked


def newton_schulz_settings(what: str, steps: Any, params: Sequence[float]) -> tuple[int, tuple[float, ...]]:
    """The number of steps and the coefficients, checked; raises TypeError or ValueError."""
    if not isinstance(steps, int) or isinstance(steps, bool):
        raise TypeError(f"{what}: ns_steps must be an int, not {type(steps).__name__}; at {user_line()}")
    if steps < 0:
        raise ValueError(f"{what}: ns_steps must be at least 0, not {steps}; at {user_line()}")
    return steps, tuple([real(what, "each of ns_params", p) for p in params])


def flag(variable: str) -> bool:
    """Whether an environment variable is an integer other than 0, the default; raises ValueError for text."""
    text = os.environ.get(variable, "").strip()
    try:
        return bool(int(text or "0"))
    except ValueError:
        raise ValueError(f"the environment variable {variable} should be 0 or 1, not {text!r}") from None


def state_dtype(what: str, given: Any) -> DType | None:
    """The dtype of an optimizer's state, or None; the default is OPTIM_DTYPE. Raises ValueError."""
    called = "state_dtype"
    if given is None:
        given, called = os.environ.get("OPTIM_DTYPE", "").strip(), "the environment variable OPTIM_DTYPE"
        if not given:
            return None
    try:
        dtype = dtypes.canonical(_DTYPE_NAMES.get(given, given) if isinstance(given, str) else given)
    except TypeError:
        dtype = dtypes.bool_
    if dtype not in dtypes.FLOATS:
        names = ", ".join(d.name for d in dtypes.FLOATS)
        raise ValueError(f"{what}: {called} should be one of {names}, not {given!r}; at {user_line()}")
    return dtype
