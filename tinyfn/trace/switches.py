"""Switches for finding mistakes: `disable_jit`, `no_tracing`, `no_execution`, `log_compiles`, `explain_cache_misses`,
`debug_nans`, `debug_infs`; and what promotion and broadcasting are allowed: `numpy_dtype_promotion`, `numpy_rank_promotion`.

Each is set by a call, `debug_nans()` or `debug_nans(False)`, or for a while, `with debug_nans():`; or from the start by an
environment variable, `TINYFN_DEBUG_NANS=1`. They hold for all threads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .errors import entry_methods, user_line

# Whether a jitted function may not take the shortest path to its program: for call paths that can't ask for more.
general_path = False
_timed = False
_lines = 0  # how many blocks of keep_lines there are


class _Switch:
    """A switch; on or off since the last that was made, until the end of its block if it has one."""

    is_on = False

    def __init_subclass__(cls) -> None:
        cls.is_on = os.environ.get(f"TINYFN_{cls.__name__.upper()}", "0") not in ("", "0")

    def __init__(self, value: bool = True):
        if not isinstance(value, bool):
            raise TypeError(f"{type(self).__name__} takes True or False, not {value!r}; at {user_line()}")
        self._before = type(self).is_on
        type(self).is_on = value
        _update()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        type(self).is_on = self._before
        _update()


class disable_jit(_Switch):
    """Call jitted functions as they are, one operation at a time, so that values can be printed and looked at in a debugger.

    Loops and branches run in Python too; in functions under `grad` and `vmap` values stay traced.

    >>> @tinyfn.jit
    ... def f(x):
    ...     print(x)
    ...     return 2 * x
    >>> with tinyfn.disable_jit():
    ...     f(3.0)
    3.0
    6.0
    """


class no_tracing(_Switch):
    """Raise RuntimeError, which says why, where a jitted function would be traced once more.

    >>> f = tinyfn.jit(lambda x: 2 * x)
    >>> _ = f(tnp.ones(3))
    >>> with tinyfn.no_tracing():
    ...     _ = f(tnp.zeros(3))  # traced before
    ...     try:
    ...         f(tnp.ones(4))
    ...     except RuntimeError as error:
    ...         print(str(error).split(";")[0])
    within no_tracing a jitted function would be traced: <lambda>: argument `x`: float32[3] → float32[4]
    """


class no_execution(_Switch):
    """Raise RuntimeError where an operation, a derivative or a jitted function would be computed, rather than traced or shown.

    >>> with tinyfn.no_execution():
    ...     tinyfn.eval_shape(tnp.sum, tinyfn.ShapeDtypeStruct((3,), "float32"))
    ...     try:
    ...         tnp.add(1, 2)
    ...     except RuntimeError as error:
    ...         print(str(error).split(";")[0])
    ShapeDtypeStruct(shape=(), dtype=float32)
    within no_execution add would be computed
    """


class log_compiles(_Switch):
    """Print a line to stderr whenever a jitted function is traced, with the reason why what it had did not do.

    >>> from contextlib import redirect_stderr
    >>> from io import StringIO
    >>> with redirect_stderr(StringIO()) as said, tinyfn.log_compiles():
    ...     _ = tinyfn.jit(lambda x: 2 * x)(tnp.zeros(3))
    >>> print(said.getvalue().split(";")[0])
    tinyfn: tracing <lambda>: the first call
    """


class explain_cache_misses(_Switch):
    """As `log_compiles`, but silent about the first call of each function: only what is traced again is told, and why.

    >>> from contextlib import redirect_stderr
    >>> from io import StringIO
    >>> f = tinyfn.jit(lambda x: 2 * x)
    >>> with redirect_stderr(StringIO()) as said, tinyfn.explain_cache_misses():
    ...     _ = f(tnp.zeros(3))
    ...     _ = f(tnp.zeros(4))
    >>> print(said.getvalue().split(";")[0])
    tinyfn: tracing <lambda>: argument `x`: float32[3] → float32[4]
    """


class debug_nans(_Switch):
    """Raise FloatingPointError for the first operation that makes a NaN; it names the operation, shapes and your line.

    A transformed function (by jit, grad, vmap, ...) or a loop whose results have one is looked into for the operation that made
    it; a jitted function is traced and run again for this. A NaN that no result shows, as in the branch that `where` does not
    take, is an error only where a single operation outside of all those makes it.

    >>> try:
    ...     with tinyfn.debug_nans():
    ...         tinyfn.jit(lambda x: tnp.log(x) + 1)(-1.0)
    ... except FloatingPointError as error:
    ...     print(str(error).split("): ")[1].split(". ")[0])
    log of float32[] made NaN in 1 of 1 elements of its result float32[]
    """


class debug_infs(_Switch):
    """As `debug_nans`, for infinities.

    >>> try:
    ...     with tinyfn.debug_infs():
    ...         tnp.log(0.0)
    ... except FloatingPointError as error:
    ...     print(str(error).split("): ")[1].split(". ")[0])
    log of float32[] made infinity in 1 of 1 elements of its result float32[]
    """


class _Choice:
    """A setting with one of several values; the last that was made, until the end of its block if it has one."""

    choices: tuple[str, ...] = ()  # the first is the default
    chosen = ""

    def __init_subclass__(cls) -> None:
        variable = f"TINYFN_{cls.__name__.upper()}"
        cls.chosen = os.environ.get(variable, "") or cls.choices[0]
        if cls.chosen not in cls.choices:
            raise ValueError(f"{variable} is {cls.chosen!r}, but it must be one of {', '.join(cls.choices)}")

    def __init__(self, value: str):
        if value not in self.choices:
            raise ValueError(
                f"{type(self).__name__} takes one of {', '.join(self.choices)}, not {value!r}; at {user_line()}"
            )
        self._before = type(self).chosen
        type(self).chosen = value
        _update()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        type(self).chosen = self._before
        _update()


class numpy_dtype_promotion(_Choice):
    """With "strict", operands of different dtypes are an error, but for Python numbers beside arrays that can hold them.

    What was traced before is not looked at again.

    >>> with tinyfn.numpy_dtype_promotion("strict"):
    ...     print(tnp.ones(2) * 2)
    ...     try:
    ...         tnp.ones(2) * tnp.arange(2)
    ...     except TypeError as error:
    ...         print(str(error).split(";")[0])
    [2. 2.]
    int32 and float32 are different types, and numpy_dtype_promotion is 'strict'
    """

    choices = ("standard", "strict")


class numpy_rank_promotion(_Choice):
    """With "warn" or "raise", operands with different numbers of axes, none of them scalars, are a warning or an error.

    What was traced before is not looked at again.

    >>> with tinyfn.numpy_rank_promotion("raise"):
    ...     try:
    ...         tnp.ones((2, 3)) + tnp.ones(3)
    ...     except ValueError as error:
    ...         print(str(error).split(";")[0])
    add of shapes [2,3], [3]: they have different numbers of axes, and numpy_rank_promotion is 'raise'
    """

    choices = ("allow", "warn", "raise")


def set_timed(timed: bool) -> None:
    """Whether kernels run one by one, to be timed."""
    global _timed
    _timed = timed
    _update()


@contextmanager
def keep_lines() -> Iterator[None]:
    """Within, nodes keep the user's lines on which they are traced."""
    global _lines
    _lines += 1
    _update()
    try:
        yield
    finally:
        _lines -= 1
        _update()


def keeps_lines() -> bool:
    """Whether nodes keep the user's lines on which they are traced."""
    return _lines > 0 or checks_values()


def checks_values() -> bool:
    """Whether results are looked at."""
    return debug_nans.is_on or debug_infs.is_on


def _update() -> None:
    global general_path
    general_path = (
        _timed
        or disable_jit.is_on
        or no_execution.is_on
        or keeps_lines()
        or numpy_dtype_promotion.chosen != "standard"
        or numpy_rank_promotion.chosen != "allow"
    )
    if keeps_lines() or "tinyfn.trace.finite" in sys.modules:
        from . import finite, uop

        uop.on_rebuild = finite.inherit_line if keeps_lines() else None


entry_methods(_Switch, "__init__")
entry_methods(_Choice, "__init__")
_update()
