"""Looking at results for `debug_nans` and `debug_infs`: which operation made the first NaN, of what, on which line."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from . import dtype as dtypes
from . import switches
from .errors import user_line
from .uop import UOp, toposort

# The user's lines on which nodes were traced, and the named scopes there, while these are kept.
_lines: WeakKeyDictionary[Any, tuple[str, str]] = WeakKeyDictionary()


def remember_line(node: UOp, scope: str = "") -> None:
    """Keep the user's line on which a node is traced, and the named scope."""
    if node not in _lines:
        _lines[node] = user_line(), scope


def line_of(node: UOp) -> str | None:
    """The user's line on which a node was traced, and the named scope, if they were kept."""
    line, scope = _lines.get(node, (None, ""))
    return f"{line}, in {scope}" if scope else line


def scope_of(node: UOp) -> str:
    """The named scope in which a node was traced, such as `encoder/attention`, or an empty text."""
    return _lines.get(node, ("", ""))[1]


def inherit_line(node: UOp, made: Iterable[UOp | None]) -> None:
    """What a transform made of a node is from the node's line, as far as it is new."""
    line = _lines.get(node)
    if line is not None:
        for new in toposort([n for n in made if n is not None], stop=_lines):
            _lines[new] = line


class _Local(threading.local):
    quiet = False


_local = _Local()


def is_quiet() -> bool:
    """Whether results are not looked at, since those of what they are a part of will be."""
    return _local.quiet


@contextmanager
def quietly() -> Iterator[None]:
    """Within, results are not looked at in this thread."""
    before, _local.quiet = _local.quiet, True
    try:
        yield
    finally:
        _local.quiet = before


def found_in(value: Any) -> str | None:
    """`NaN` or `infinity`, if an array has one that the switches ask for."""
    value = np.asarray(value)
    if not dtypes.is_inexact(value.dtype):
        return None
    if switches.debug_nans.is_on and np.isnan(value).any():
        return "NaN"
    return "infinity" if switches.debug_infs.is_on and np.isinf(value).any() else None


def check(name: str, args: Sequence[Any], results: Any, node: UOp | None = None) -> None:
    """Raise FloatingPointError if results of an operation on these arguments have a NaN or infinity that is asked for."""
    for result in results if isinstance(results, list) else [results]:
        what = found_in(result)
        if what is None:
            continue
        if node is None:
            where = f"at {user_line()}"
        elif node in _lines:
            where = f"at {line_of(node)}"
        else:
            where = f"in what was computed at {user_line()}"
        given = [np.asarray(a) for a in args]
        described = ", ".join(dtypes.describe(a.dtype, a.shape) for a in given) or "nothing"
        count = int((np.isnan if what == "NaN" else np.isinf)(result).sum())
        already = "; an argument has one already" if any(found_in(a) for a in given) else ""
        shape = dtypes.describe(np.asarray(result).dtype, np.shape(result))
        raise FloatingPointError(
            f"{where}: {name} of {described} made {what} in {count} of {np.size(result)} elements of its result {shape}"
            f"{already}. Print its arguments, or choose what is given to it with tinyfn.numpy.where"
        )
