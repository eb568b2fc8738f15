"""Errors that say what was attempted, where in the user's code, which argument is to blame, and what to do instead."""

from __future__ import annotations

import os
import sys

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def user_line() -> str:
    """`file.py:12 (in loss)`: the innermost line that is not in this package."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return "an unknown line"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} (in {frame.f_code.co_name})"


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
