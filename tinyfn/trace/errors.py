"""Errors that say what was attempted, where in the user's code, which argument is to blame, and what to do instead."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar, cast

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def user_line() -> str:
    """`file.py:12 (in loss)`: the innermost line that is not in this package."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return "an unknown line"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} (in {frame.f_code.co_name})"


def add_line(error: Exception) -> None:
    """Add the user's line to the message of an error that was raised where it is not known, by an op's rule."""
    if len(error.args) == 1 and isinstance(error.args[0], str) and "; at " not in error.args[0]:
        error.args = (f"{error.args[0]}; at {user_line()}",)


_Function = TypeVar("_Function", bound=Callable[..., Any])
_LEFT_OUT = "(tinyfn's own lines are left out of this traceback: set TINYFN_TRACEBACK=full to see them)"


def shorten_traceback(error: BaseException) -> None:
    """Take the lines of this package out of the traceback of an error, so that the user's are left, and say so in a note.

    To be called where it is caught, before a bare `raise`. TINYFN_TRACEBACK=full keeps everything."""
    if os.environ.get("TINYFN_TRACEBACK") == "full":
        return
    kept = []
    traceback, has_own = error.__traceback__, False
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            has_own = True
        else:
            kept.append(traceback)
        traceback = traceback.tb_next
    if not has_own:
        return
    shortened = None
    for part in reversed(kept):
        shortened = TracebackType(shortened, part.tb_frame, part.tb_lasti, part.tb_lineno)
    error.__traceback__ = shortened
    if _LEFT_OUT not in getattr(error, "__notes__", ()):
        error.add_note(_LEFT_OUT)


def entry_point(function: _Function) -> _Function:
    """A function that users call, and that runs functions of theirs: errors pass it with their own lines alone."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            shorten_traceback(error)
            raise

    return cast("_Function", call)


class TracerError(TypeError):
    """A traced value was asked for something that only a known value has."""


class TracerBoolConversionError(TracerError):
    """A traced value was used as a condition."""


class TracerArrayConversionError(TracerError):
    """A traced value was passed to NumPy."""


class TracerIntegerConversionError(TracerError):
    """A traced value was used as an index, a length or a count of Python's."""


class ConcretizationError(TracerError):
    """A traced value was asked for its number."""


class UnexpectedTracerError(TracerError):
    """A traced value was used after the function that it belongs to had been traced."""


class UnboundAxisError(NameError):
    """A collective named an axis that no enclosing vmap has."""


class DeletedArrayError(RuntimeError):
    """An array was used after it had been donated."""


class TypePromotionError(TypeError):
    """Operands have dtypes that do not promote to a common one."""
