"""Python source that takes trees of one structure apart, and puts them together.

It does what `pytree.flatten` and `unflatten` do for a structure that is known: statements without loops, run several times as
fast. All names are made here, so the statements may be part of a larger function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .pytree import TreeDef
from .pytree_nodes import _known_kind


class Names:
    """Names of constants and variables of a piece of source; `constants` are the globals to run it with."""

    def __init__(self) -> None:
        self.constants: dict[str, Any] = {}
        self._variables = 0

    def constant(self, value: Any) -> str:
        """A name for a value."""
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def key(self, value: Any) -> str:
        """A key of a dict: strings and ints stand for themselves."""
        return repr(value) if type(value) is str or type(value) is int else self.constant(value)

    def variables(self, count: int) -> list[str]:
        """Names of new variables."""
        self._variables += count
        return [f"v{i}" for i in range(self._variables - count, self._variables)]


def take_apart(
    tree: TreeDef, children: Sequence[str], names: Names, otherwise: str
) -> tuple[list[str], list[str]]:
    """Statements that take apart a tree given by the names of its root's children, and the names of its leaves.

    Where it has another structure they do what `otherwise` says (`return None`), or raise KeyError."""
    lines: list[str] = []
    leaves: list[str] = []
    stack = list(reversed(children))

    def check(wrong: str) -> None:
        lines.append(f"if {wrong}: {otherwise}")

    for node in tree._nodes[1:]:
        if type(node) is int:
            leaves += stack[: -node - 1 : -1]
            del stack[-node:]
            continue
        cls, count, metadata = node
        value = stack.pop()
        children = names.variables(count)
        if cls is type(None):
            check(f"{value} is not None")
        elif cls is tuple or cls is list:
            check(f"type({value}) is not {cls.__name__} or len({value}) != {count}")
            if children:
                lines.append(f"{', '.join(children)}, = {value}")
        elif cls is dict:
            check(f"type({value}) is not dict or len({value}) != {count}")
            lines += [f"{c} = {value}[{names.key(key)}]" for c, key in zip(children, metadata, strict=True)]
        else:
            check(f"type({value}) is not {names.constant(cls)}")
            parts, found = names.variables(2)
            lines.append(f"{parts}, {found} = {names.constant(_known_kind(cls).flatten)}({value})")
            check(f"{found} != {names.constant(metadata)} or len({parts}) != {count}")
            if children:
                lines.append(f"{', '.join(children)}, = {parts}")
        stack += reversed(children)
    return lines, leaves


def put_together(tree: TreeDef, leaves: Sequence[str], names: Names) -> tuple[list[str], str]:
    """Statements that make the tree of these leaves, and the expression that is the tree after them."""
    lines: list[str] = []
    pending = list(reversed(leaves))
    used = 0
    stack: list[str] = []
    orders = tree._orders or {}
    for index in range(len(tree._nodes) - 1, -1, -1):
        node = tree._nodes[index]
        if type(node) is int:
            stack += pending[used : used + node]
            used += node
            continue
        cls, count, metadata = node
        children = stack[: -count - 1 : -1] if count else []
        del stack[len(stack) - count :]
        if cls is type(None):
            stack.append("None")
            continue
        if cls is tuple:
            made = f"({', '.join(children)}{',' if count == 1 else ''})"
        elif cls is list:
            made = f"[{', '.join(children)}]"
        elif cls is dict:
            by_key = dict(zip(metadata, children, strict=True))
            keys = orders.get(index, metadata)
            made = f"{{{', '.join(f'{names.key(key)}: {by_key[key]}' for key in keys)}}}"
        else:
            if index in orders:  # a defaultdict
                by_key = dict(zip(metadata[1], children, strict=True))
                children = [by_key[key] for key in orders[index]]
                metadata = (metadata[0], tuple(orders[index]))
            unflatten = names.constant(_known_kind(cls).unflatten)
            made = f"{unflatten}({names.constant(cls)}, {names.constant(metadata)}, [{', '.join(children)}])"
        (name,) = names.variables(1)
        lines.append(f"{name} = {made}")
        stack.append(name)
    return lines, stack[0]
