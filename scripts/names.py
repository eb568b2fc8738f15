"""The table of public names in docs/names.md, made by running each of them: `python scripts/names.py` writes it anew.

Modules are found from `tinyfn.__all__` on. What functions are called with is in name_arguments.py, what is run in
name_rows.py."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import tinyfn
from scripts.name_arguments import ARGUMENTS, NOT_RUN
from scripts.name_rows import Row
from tinyfn.numpy.scalar_types import ScalarType

TYPES = (type, np.dtype, ScalarType)
PATH = Path(__file__).parents[1] / "docs" / "names.md"
HEAD = """# Public names, and what was run of each

Made by `python scripts/names.py`, which runs every function.

- **jit**: ✓: compiled it gave what it gave eagerly.
- **grad**: ✓: in float64 the gradient, eager and compiled, is the limit of differences along a random direction; *of the
  distribution*: a sampler that rejects, whose gradient is finite, and that of its distribution (tests/test_random_samplers.py).
- **vmap**: ✓: each of two lanes that differ is what the function gives for it.
- **dtypes**: what the first floats (or integers) among the arguments may be: the result is the same under jit, and as
accurate as
  the dtype. Tried were bool; int8, uint32, int64 (*ints*); float16, bfloat16, float32, float64 (*floats*); complex64,
  complex128.
- **devices**: *cpu, cuda*: kernels alone, written for both. Else what runs beside kernels on the CPU.

*known*: needs values that are known to Python. Empty: has no meaning, since there are no arrays or no floats.
"""


def modules() -> dict[str, ModuleType]:
    """The public modules by name: those in `tinyfn.__all__`, and what these have of such in turn."""
    found: dict[str, ModuleType] = {"tinyfn": tinyfn}
    waiting: list[ModuleType] = [tinyfn]
    while waiting:
        module = waiting.pop()
        for name in public(module):
            value = getattr(module, name)
            if isinstance(value, ModuleType) and value not in found.values():
                found[value.__name__] = value
                waiting.append(value)
    order = ["tinyfn", "tinyfn.numpy", "tinyfn.lax", "tinyfn.nn"]
    return {name: found[name] for name in sorted(found, key=lambda n: (n not in order, n))}


def public(module: ModuleType) -> list[str]:
    """A module's names: its `__all__`, or what is defined in it."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    own = [n for n, v in vars(module).items() if getattr(v, "__module__", None) == module.__name__]
    return sorted(n for n in own if not n.startswith("_"))


def is_function(value: Any) -> bool:
    return (
        callable(value) and not isinstance(value, (*TYPES, ModuleType)) and not hasattr(value, "__origin__")
    )


def rows(title: str, module: ModuleType) -> list[tuple[str, Callable[..., Any]]]:
    """The module's functions that are run."""
    found = [(name, getattr(module, name)) for name in public(module)]
    given = ARGUMENTS.get(title, {})
    return [
        (name, value)
        for name, value in found
        if (is_function(value) or name in given) and f"{title}.{name}" not in NOT_RUN
    ]


def line(title: str, name: str, function: Callable[..., Any], every_dtype_compiled: bool = True) -> str:
    """A function's line of the table."""
    with warnings.catch_warnings(), np.errstate(all="ignore"), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        return f"| {name} | {' | '.join(Row(title, name, function).cells(every_dtype_compiled))} |"


def section(title: str, module: ModuleType, lines: Collection[str]) -> str:
    """A module's part of the table, given the lines of its functions."""
    parts = [f"## {title}"]
    if lines:
        parts.append(
            "\n".join(
                ["| name | jit | grad | vmap | dtypes | devices |", "|---|---|---|---|---|---|", *lines]
            )
        )
    shown = {name for name, _ in rows(title, module)}
    others = [name for name in public(module) if name not in shown]
    types = [
        n
        for n in others
        if isinstance(getattr(module, n), TYPES) or hasattr(getattr(module, n), "__origin__")
    ]
    files = [n for n in others if f"{title}.{n}" in NOT_RUN]
    inner = [n for n in others if isinstance(getattr(module, n), ModuleType)]
    rest = [n for n in others if n not in {*types, *files, *inner}]
    for what, names in (("Types", types), ("Constants", rest), ("Modules", inner), ("Not run here", files)):
        if names:
            tested = (
                " (" + ", ".join(sorted({NOT_RUN[f"{title}.{n}"] for n in names})) + ")"
                if names is files
                else ""
            )
            parts.append(f"{what}{tested}: {', '.join(sorted(names))}.")
    return "\n\n".join(parts)


def table() -> str:
    """The text of docs/names.md."""
    sections = [
        section(title, module, [line(title, name, function) for name, function in rows(title, module)])
        for title, module in modules().items()
    ]
    return "\n".join([HEAD, *[text + "\n" for text in sections]])


if __name__ == "__main__":
    PATH.write_text(table())
    sys.exit(0)
