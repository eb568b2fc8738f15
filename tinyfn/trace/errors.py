"""Errors that say what was attempted, where in the user's code, which argument is to blame, and what to do instead."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NOT_USERS = (_PACKAGE, contextlib.__file__)
_NUMPY = os.path.dirname(np.__file__) + os.sep
_STANDARD = os.path.dirname(os.__file__) + os.sep  # where Python's own modules are


def user_frame() -> FrameType | None:
    """The innermost frame that is not in this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_USERS):
        frame = frame.f_back
    return frame


def user_line() -> str:
    """`file.py:12 (in loss)`: the innermost line that is not in this package."""
    frame = user_frame()
    if frame is None:
        return "an unknown line"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} (in {frame.f_code.co_name})"


def code_of(function: Any) -> CodeType | None:
    """The code of the function that was written by whoever made this one, or None for one that is not made of Python."""
    while (inner := getattr(function, "__wrapped__", None) or getattr(function, "func", None)) is not None:
        function = inner
    found = getattr(function, "__code__", None)
    return None if found is None or found.co_filename.startswith(_PACKAGE) else found


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
        if traceback.tb_frame.f_code.co_filename.startswith(_NOT_USERS):
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


_PLAIN = (bool, int, float, complex, type(None))
_HAS_LINE = re.compile(r"\bat .+:\d+ \(in ")


def summary(x: Any, depth: int = 0) -> str:
    """An argument in messages: dtype and shape of an array, and never its contents."""
    if isinstance(x, _PLAIN):
        return repr(x)
    if isinstance(x, str):
        return repr(x if len(x) <= 24 else x[:21] + "...")
    if hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, type):
        from .dtype import describe

        return describe(x.dtype, x.shape)
    if isinstance(x, np.dtype):
        return x.name
    if isinstance(x, slice):
        return f"slice({summary(x.start)}, {summary(x.stop)}, {summary(x.step)})"
    if type(x) in (tuple, list) and depth < 2:
        inside = ", ".join([summary(value, depth + 1) for value in x[:4]] + ["..."] * (len(x) > 4))
        return f"[{inside}]" if type(x) is list else f"({inside}{',' * (len(x) == 1)})"
    if type(x) is dict and depth < 2:
        shown = [f"{key!r}: {summary(x[key], depth + 1)}" for key in list(x)[:4]] + ["..."] * (len(x) > 4)
        return f"{{{', '.join(shown)}}}"
    return getattr(x, "__name__", None) or kind_of(x)


def kind_of(x: Any) -> str:
    """`a str`, `an int`, `None`: what something is that is no array."""
    if x is None:
        return "None"
    name = type(x).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _is_a_users(error: BaseException) -> bool:
    """Whether a function that was handed to this package, or is its caller, is on the way to where the error was raised."""
    part = error.__traceback__
    while part is not None:
        file = part.tb_frame.f_code.co_filename
        standard = file.startswith((_STANDARD, "<frozen ")) and "-packages" + os.sep not in file
        if not standard and not file.startswith((*_NOT_USERS, _NUMPY)):
            return True
        part = part.tb_next
    return False


def hand_on(error: BaseException, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Make an error ready for users, where it leaves a function that they called, before a bare `raise`.

    One that was raised without the user's line, by a rule, by Python or by NumPy, gets that and what was called on what.
    Where the caller is this package nothing is done: the error will pass here again."""
    if sys._getframe(2).f_code.co_filename.startswith(_PACKAGE):
        return
    part = error.__traceback__
    # Python's own error of too many or too few arguments names the function, and was raised at the user's line.
    own = part is not None and (part.tb_next is not None or part.tb_frame.f_code is not _CALL)
    if (
        own
        and isinstance(error, Exception)
        and not _is_a_users(error)
        and not _HAS_LINE.search(text := str(error))
    ):
        given = [summary(a) for a in args] + [f"{key}={summary(value)}" for key, value in kwargs.items()]
        called = f"{name}({', '.join(given)})"
        if error.args != (text,) or "\n" in text:
            error.add_note(f"(in {called}, at {user_line()})")
        elif re.match(rf"([\w.]+\.)?{re.escape(name.rpartition('.')[2])}\b", text):
            error.args = (f"{text}; at {user_line()}",)
        else:
            error.args = (f"{called}: {text}; at {user_line()}",)
    shorten_traceback(error)


def entry_point(function: _Function, name: str | None = None) -> _Function:
    """A function that users call: errors leave it with their lines alone, and say where it was called."""
    title = name or function.__name__

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as error:  # Ctrl-C too
            hand_on(error, title, args, kwargs)
            raise

    return cast("_Function", call)


def entry_point_of(transform: str, function: Callable[..., Any]) -> Callable[[_Function], _Function]:
    """Make what a transform made of a function an entry point."""
    name = getattr(function, "__name__", None) or type(function).__name__
    return lambda made: entry_point(made, f"{transform} of {name}")


_entry_points: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def entry_points(namespace: dict[str, Any]) -> None:
    """Make the public functions of a module entry points: to be called at its end, with `globals()`.

    They are replaced in the module of its package that defines them too, so that each is one object for users (and pickle finds
    it). What this package's own modules have imported from there before stays what it was, and costs nothing more."""
    package = namespace["__name__"]
    nameless = package.startswith(("tinyfn.numpy", "tinyfn.transforms"))
    title = "" if nameless else package.removeprefix("tinyfn.") + "."
    defined = [name for name, value in namespace.items() if getattr(value, "__module__", None) == package]
    for name in namespace.get("__all__") or [name for name in defined if not name.startswith("_")]:
        function = namespace.get(name)
        if not isinstance(function, FunctionType) or not function.__code__.co_filename.startswith(_PACKAGE):
            continue
        if function.__code__ is _CALL:
            continue
        made: Any = _entry_points.get(function)
        if made is None:
            made = _entry_points[function] = entry_point(function, title + name)
            home, own_name = vars(sys.modules[function.__module__]), function.__name__
            if function.__module__.startswith(package) and home.get(own_name) is function:
                home[own_name] = made
            else:
                made.__module__, made.__qualname__ = package, name
        namespace[name] = made


def entry_methods(cls: type, *names: str) -> None:
    """Make these methods of a class entry points; without names, all public ones."""
    for name in names or [name for name in vars(cls) if not name.startswith("_")]:
        setattr(cls, name, as_entry_point(vars(cls)[name], name))


def is_entry_point(function: _Function) -> _Function:
    """Say of a function that it calls `hand_on` itself."""
    function.is_entry_point = True  # type: ignore[attr-defined]
    return function


def as_entry_point(member: Any, name: str) -> Any:
    """A method or property that is an entry point; what is neither is handed back."""
    if isinstance(member, property) and member.fget is not None:
        return property(entry_point(member.fget, name), doc=member.__doc__)
    if (
        type(member) is FunctionType
        and member.__code__ is not _CALL
        and not hasattr(member, "is_entry_point")
    ):
        return entry_point(member, name.strip("_"))
    return member


_CALL = cast("FunctionType", entry_point(summary)).__code__


class AxisError(np.exceptions.AxisError):
    """An axis that an array does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


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
