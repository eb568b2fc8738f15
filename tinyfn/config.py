"""Settings by name, for code that sets them as JAX's do: `tinyfn.config.update("jax_debug_nans", True)`.

Each is a name at the top as well, which says what it does: `tinyfn.debug_nans`. The prefix `jax_` may be left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .trace import switches
from .trace.errors import entry_methods, entry_points, user_line

__all__ = ["default_matmul_precision", "enable_x64", "read", "update"]

PRECISIONS = (
    "default", "high", "highest", "fastest", "bfloat16", "bfloat16_3x", "tensorfloat32", "float32",
)  # fmt: skip


class enable_x64:
    """Refuses to make 64-bit types the default, and accepts to leave them as they are.

    There is nothing to enable: a 64-bit dtype that is named is always honoured (`tnp.zeros(3, "float64")`), which JAX does
    after this call alone. It would make float64 the type of what has no dtype; here that is float32, whatever is set, so that
    a function means the same everywhere.

    >>> tnp.zeros(2).dtype, tnp.zeros(2, "float64").dtype
    (dtype('float32'), dtype('float64'))
    """

    def __init__(self, value: bool = True):
        if value:
            raise ValueError(
                f"enable_x64: there is nothing to enable, as 64-bit dtypes are always honoured where they are named; what has no "
                f"dtype stays float32 or int32; at {user_line()}: name the dtype, as in tnp.arange(3, dtype='float64'), or "
                "convert inputs with .astype('float64')"
            )

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        pass


@contextmanager
def default_matmul_precision(precision: str | None) -> Iterator[None]:
    """Within, products of matrices are at least as precise as this, which they always are: float32 means float32 here.

    Raises ValueError for what is no precision.

    >>> with tinyfn.default_matmul_precision("float32"):
    ...     print(tnp.ones((2, 3)) @ tnp.ones(3))
    [3. 3.]
    """
    _check_precision(precision)
    yield


def _check_precision(precision: str | None) -> None:
    if precision is not None and precision not in PRECISIONS:
        raise ValueError(
            f"{precision!r} is no precision of products; at {user_line()}: it is one of {', '.join(PRECISIONS)}"
        )


def _key_reuse(value: bool) -> Any:
    raise ValueError(
        f"the check of key reuse is for a function or a block, not for the whole program; at {user_line()}: use "
        "`with tinyfn.debug_key_reuse():`"
    )


_SETTINGS: dict[str, Callable[[Any], Any]] = {
    "debug_nans": switches.debug_nans,
    "debug_infs": switches.debug_infs,
    "disable_jit": switches.disable_jit,
    "log_compiles": switches.log_compiles,
    "explain_cache_misses": switches.explain_cache_misses,
    "no_tracing": switches.no_tracing,
    "no_execution": switches.no_execution,
    "numpy_dtype_promotion": switches.numpy_dtype_promotion,
    "numpy_rank_promotion": switches.numpy_rank_promotion,
    "enable_x64": enable_x64,
    "default_matmul_precision": _check_precision,
    "debug_key_reuse": _key_reuse,
}
# What those give that are no switches.
_FIXED = {"enable_x64": False, "default_matmul_precision": "highest", "debug_key_reuse": False}


def _known(name: str) -> str:
    short = name.removeprefix("jax_")
    if short not in _SETTINGS:
        raise AttributeError(
            f"there is no setting {name!r}; at {user_line()}: those that there are: {', '.join(_SETTINGS)}"
        )
    return short


def update(name: str, value: Any) -> None:
    """Set one of the settings; raises AttributeError if there is none of that name.

    >>> tinyfn.config.update("debug_nans", True)
    >>> tinyfn.config.debug_nans
    True
    >>> tinyfn.config.update("debug_nans", False)
    """
    _SETTINGS[_known(name)](value)


def read(name: str) -> Any:
    """The value of one of the settings; raises AttributeError if there is none of that name. `config.debug_nans` says the
    same.

    >>> tinyfn.config.read("debug_nans"), tinyfn.config.debug_nans
    (False, False)
    """
    short = _known(name)
    if short in _FIXED:
        return _FIXED[short]
    setting: Any = _SETTINGS[short]
    return setting.is_on if hasattr(setting, "is_on") else setting.chosen


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return read(name)


entry_methods(enable_x64, "__init__")
entry_points(globals())
