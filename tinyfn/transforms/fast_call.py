"""The generated call path: for one signature of a jitted function, a Python function that does nothing but what a call needs.

It takes the arguments apart by statements made from their structure, fills one list with the arrays and the memory of the
results, makes one foreign call, which also checks dtypes and shapes, and puts the results together. Whatever is not as it was
when the function was made (another structure, dtype or shape, a traced array, a donated one) makes it return MISS, and nothing
has happened: the general path then does what there is to do, or says what is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ..trace import dtype as dtypes
from ..trace.array import Array, as_array, own
from ..trace.pytree import TreeDef
from ..trace.pytree_source import Names, put_together, take_apart

MISS = object()
# More arrays than this are not worth a function of their own: it would take longer to compile than many calls save.
MOST_ARRAYS = 2000
_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "<generated call>")
# Static arguments of these classes can't change, so the same object is the same argument.
_UNCHANGING = (type(None), bool, int, float, complex, str, bytes, type, FunctionType)


class Signature(NamedTuple):
    """What a call looks like: the tree of its traced arguments, which of its leaves are weak and which are donated, the static
    arguments (by position or name), and the tree of the results and which of these are weak."""

    tree: TreeDef
    weak: Sequence[bool]
    donated: Sequence[int]
    static: Sequence[tuple[int | str, Any]]
    out_tree: TreeDef
    out_weak: Sequence[bool]


def fast_call(
    signature: Signature, captured: Sequence[Array], native: Any
) -> Callable[[Any, Any], Any] | None:
    """A function of a call's args and kwargs that gives the call's result, or MISS; None if there is none for this signature.

    `native` is a `devices.program.Native`."""
    count = len(signature.weak)
    if count + len(captured) + len(signature.out_weak) > MOST_ARRAYS:
        return None
    if not all(type(value) in _UNCHANGING for _, value in signature.static):
        return None
    names = Names()
    miss, cls, new = names.constant(MISS), names.constant(Array), names.constant(object.__new__)
    otherwise = f"return {miss}"
    lines, dynamic, named = _separate(signature, names, otherwise)
    taken, leaves = take_apart(signature.tree, (dynamic, named), names, otherwise)
    direct = native.run_matching is not None
    names.constant(native)  # which holds what native code reads
    # A result may be, or be a view of, an argument: then NumPy's arrays, which may change later, have to be copied.
    convert = names.constant(_borrow if direct and all(i >= count for i in native.outputs) else _copy)
    for i, leaf in enumerate(leaves):
        how = names.constant(_copy) if i in signature.donated else convert
        taken.append(f"if type({leaf}) is not {cls}: {leaf} = {how}({leaf})")
    weak = [
        f"{'not ' if is_weak else ''}{leaf}.weak_type"
        for leaf, is_weak in zip(leaves, signature.weak, strict=True)
    ]
    if weak:
        taken.append(f"if {' or '.join(weak)}: {otherwise}")
    if signature.donated:
        # None of them may be passed twice.
        taken.append(f"if len({{{', '.join(f'id({leaf})' for leaf in leaves)}}}) != {count}: {otherwise}")
    lines += ["try:", *[f"    {line}" for line in taken], f"except KeyError: {otherwise}"]
    inputs = [f"{leaf}._value" for leaf in leaves] + [f"{names.constant(array)}._value" for array in captured]
    gone = [f"{leaves[i]}._value = None" for i in signature.donated]
    (arrays,) = names.variables(1)
    if direct:
        made = names.variables(len(native.makes))
        lines += [f"{name} = {names.constant(make)}()" for name, make in zip(made, native.makes, strict=True)]
        lines.append(f"{arrays} = [{', '.join([*inputs, *made])}]")
        lines.append(
            f"if not {names.constant(native.run_matching)}(id({arrays}), {native.results}): {otherwise}"
        )
        lines += gone
        first = len(inputs)
        results = []
        for i, is_weak in zip(native.outputs, signature.out_weak, strict=True):
            (result,) = names.variables(1)
            results.append(result)
            if first <= i < first + native.results:
                lines.append(f"{result} = {new}({cls})")
                lines.append(f"{result}._value = {made[i - first]}")
                lines.append(f"{result}.weak_type = {is_weak}")
            else:
                lines.append(f"{result} = {names.constant(own)}({arrays}[{i}], {is_weak})")
    else:
        lines.append(f"{arrays} = [{', '.join(inputs)}]")
        lines.append(f"if not {names.constant(native.matches)}(id({arrays})): {otherwise}")
        lines += gone if native.overwrites else []
        lines.append(f"{arrays} = {names.constant(native.run)}({arrays})")
        lines += [] if native.overwrites else gone
        results = [
            f"{names.constant(own)}({arrays}[{i}], {is_weak})" for i, is_weak in enumerate(signature.out_weak)
        ]
    rebuilt, tree = put_together(signature.out_tree, results, names)
    lines += [*rebuilt, f"return {tree}"]
    source = "\n    ".join(["def call(args, kwargs):", *lines])
    exec(compile(source, _FILE, "exec"), names.constants)
    call: Callable[[Any, Any], Any] = names.constants["call"]
    return call


def _separate(signature: Signature, names: Names, otherwise: str) -> tuple[list[str], str, str]:
    """Statements that check the static arguments, and the names of the others, by position and by name."""
    lines: list[str] = []
    positional = [(key, value) for key, value in signature.static if isinstance(key, int)]
    by_name = [(key, value) for key, value in signature.static if isinstance(key, str)]
    dynamic, named = "args", "kwargs"
    if positional:
        root: Any = signature.tree._nodes[1]
        size = root[1] + len(positional)
        lines.append(f"if len(args) != {size}: {otherwise}")
        lines += [f"if args[{i}] is not {names.constant(value)}: {otherwise}" for i, value in positional]
        fixed = {i for i, _ in positional}
        dynamic = "dynamic"
        lines.append(f"dynamic = ({''.join(f'args[{i}], ' for i in range(size) if i not in fixed)})")
    if by_name:
        named = "named"
        missing = names.constant(MISS)
        lines.append("named = dict(kwargs)")
        for key, value in by_name:
            lines.append(f"if named.pop({key!r}, {missing}) is not {names.constant(value)}: {otherwise}")
    return lines, dynamic, named


_NOTHING = object.__new__(Array)
_NOTHING._value = None
_NOTHING.weak_type = False


def _copy(x: Any) -> Array:
    """A Python number or NumPy array as an array of its own; what is neither becomes an array that no program takes."""
    if type(x) in dtypes.PYTHON_TYPES or type(x) is np.ndarray or isinstance(x, np.generic):
        return as_array(x)
    return _NOTHING


def _borrow(x: Any) -> Array:
    """The same for a call that only reads it."""
    if type(x) is not np.ndarray:
        return _copy(x)
    array: Array = object.__new__(Array)
    array._value = x
    array.weak_type = False
    return array
