"""Looking into functions while they run, under every transform: `print`, `callback`, `breakpoint`.

They happen once for each run of the program, in the order of the calls; in each step of a loop, and for each lane under vmap, or
once if no argument is mapped. Derivatives do not repeat them."""

from __future__ import annotations

import builtins
import string
from collections.abc import Callable
from typing import Any

from .trace import pytree
from .trace.array import Array, is_scalar
from .trace.errors import entry_points, user_frame, user_line
from .trace.tracing import bind, describe_function
from .transforms.effects import Called, effect_callback

__all__ = ["breakpoint", "callback", "print"]


def _effect(label: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Call the function with the values of the arrays among the arguments, when the program comes to it."""
    leaves, tree = pytree.flatten((args, kwargs))
    arrays = [leaf for leaf in leaves if isinstance(leaf, Array) or hasattr(leaf, "__array__")]

    def call(*values: Any) -> list[Any]:
        found = iter(values)
        filled = [
            next(found) if isinstance(leaf, Array) or hasattr(leaf, "__array__") else leaf for leaf in leaves
        ]
        positional, named = pytree.unflatten(tree, filled)
        function(*positional, **named)
        return []

    bind(
        effect_callback,
        tuple(arrays),
        {"called": Called(call, label, user_line()), "dtypes": (), "shapes": (), "mapped": ()},
    )


def callback(callback: Callable[..., Any], *args: Any, ordered: bool = True, **kwargs: Any) -> None:
    """Call callback(*args, **kwargs) with the values of traced arrays; what it returns is ignored.

    >>> tinyfn.jit(lambda x: tinyfn.debug.callback(lambda v: print(v.shape), x))(tnp.ones(3))
    (3,)
    """
    if not callable(callback):
        raise TypeError(f"debug.callback takes a function, not {type(callback).__name__}; at {user_line()}")
    _effect(f"debug.callback of {describe_function(callback)}", callback, args, kwargs)


def print(fmt: str, *args: Any, ordered: bool = True, **kwargs: Any) -> None:
    """Print `fmt.format(*args, **kwargs)` with the values of traced arrays: `debug.print("x = {x}", x=x)`.

    Raises ValueError if the fields of the format and the arguments do not match.

    >>> @tinyfn.jit
    ... def f(x):
    ...     tinyfn.debug.print("x = {x}, its sum {:.1f}", x.sum(), x=x)
    ...     return x + 1
    >>> f(tnp.array([1.0, 2.0]))
    x = [1. 2.], its sum 3.0
    Array([2., 3.], dtype=float32)
    """
    check_format("debug.print", fmt, args, kwargs)
    _effect(
        "debug.print",
        lambda *args, **kwargs: builtins.print(fmt.format(*args, **kwargs), flush=True),
        args,
        kwargs,
    )


def check_format(what: str, fmt: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise TypeError or ValueError if fields of a format string have no argument, or arguments have no field."""
    if not isinstance(fmt, str):
        raise TypeError(
            f"{what} takes a format string first, such as 'x = {{}}', not {type(fmt).__name__}; at {user_line()}"
        )
    if "Tracer(" in fmt:
        raise ValueError(
            f"{what} is given a string with a traced array in it, probably an f-string; at {user_line()}: write a plain "
            "string with fields, and the arrays after it, as in 'x = {}', x"
        )
    used: set[Any] = set()
    automatic = 0

    def visit(text: str) -> None:
        nonlocal automatic
        for _, field, spec, _ in string.Formatter().parse(text):
            if field is None:
                continue
            name = field.split(".")[0].split("[")[0]
            if name == "":
                used.add(automatic)
                automatic += 1
            else:
                used.add(int(name) if name.isdigit() else name)
            visit(spec or "")

    try:
        visit(fmt)
    except ValueError as error:
        raise ValueError(f"{what}: {fmt!r} is no format string: {error}; at {user_line()}") from None
    given = {*range(len(args)), *kwargs}
    if missing := sorted(map(str, used - given)):
        raise ValueError(
            f"{what}: {fmt!r} has fields without an argument: {', '.join(missing)}; at {user_line()}: pass them after the "
            "string, or write {{ and }} for braces"
        )
    if unused := sorted(map(str, given - used)):
        raise ValueError(
            f"{what}: {fmt!r} has no field for the arguments {', '.join(unused)}; at {user_line()}: write {{}} or {{name}} "
            "where they are to go"
        )


def _debugger(values: dict[str, Any]) -> None:
    import pdb

    debugger = pdb.Pdb(nosigint=True)  # or "continue" would leave Ctrl-C to the debugger
    debugger.message(f"tinyfn.debug.breakpoint: there are {', '.join(values) or 'no values'}")
    # In a frame of its own, whose variables the values are.
    exec(
        compile("_debugger.set_trace()\n'c to go on'", "<breakpoint>", "exec"),
        {**values, "_debugger": debugger},
    )


# What a breakpoint calls with the values by name; set it to use another debugger.
hook: Callable[[dict[str, Any]], None] = _debugger


def breakpoint(*, ordered: bool = True, **values: Any) -> None:
    """Stop in pdb when the program comes here, with the values of the calling function's variables, and of those given by name.

    Variables that are arrays, numbers or trees of those are there under their names. What is called is `tinyfn.debug.hook`.

    >>> from unittest.mock import patch
    >>> def f(x):
    ...     y = 2 * x
    ...     tinyfn.debug.breakpoint()
    ...     return y
    >>> with patch("tinyfn.debug.hook", print):  # instead of pdb
    ...     f(3.0)
    {'x': 3.0, 'y': 6.0}
    6.0
    """
    frame = user_frame()
    around = {} if frame is None else frame.f_locals
    seen = {name: value for name, value in around.items() if _is_data(value)}
    _effect("debug.breakpoint", lambda found: hook(found), ({**seen, **values},), {})


def _is_data(value: Any) -> bool:
    try:
        leaves = pytree.leaves(value)
    except (TypeError, ValueError):
        return False
    return builtins.all(
        isinstance(x, (Array, str)) or is_scalar(x) or hasattr(x, "__array__") for x in leaves
    )


entry_points(globals())
