"""Where the leaves of pytrees are, and the errors that name it."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from .pytree_nodes import (
    _LEAF_TYPES,
    IsLeaf,
    KeyPath,
    Node,
    _kind_of,
    _known_kind,
    keystr,
)

if TYPE_CHECKING:
    from .pytree import TreeDef


def _take(stack: list[Any], count: int) -> list[Any]:
    """Pop the top `count` entries, topmost first."""
    if not count:
        return []
    taken = stack[: -count - 1 : -1]
    del stack[-count:]
    return taken


def _leaf_paths(treedef: TreeDef, node_keys: Iterable[Sequence[Any]] | None = None) -> Iterator[KeyPath]:
    """The key path of each leaf; `node_keys` is needed for the keys that a registered class computes."""
    keys_of = iter(node_keys) if node_keys is not None else None
    stack: list[KeyPath] = [()]
    for node in treedef._nodes:
        if type(node) is int:
            yield from _take(stack, node)
        else:
            base = stack.pop()
            keys = next(keys_of) if keys_of is not None else _known_kind(node[0]).keys(node, None)
            stack += [(*base, key) for key in reversed(keys)]


def _asked_with_path(is_leaf: Callable[[KeyPath, Any], bool]) -> IsLeaf:
    """The function of a value that a walk asks, of one of a key path and a value, for one walk.

    It relies on what the walk asks: in preorder, of every value that is no leaf by its type."""
    waiting: list[KeyPath] = [()]

    def ask(value: Any) -> bool:
        path = waiting.pop()
        if is_leaf(path, value):
            return True
        kind = _kind_of(type(value))
        if kind is not None:
            children, metadata = kind.flatten(value)
            keys = kind.keys((type(value), len(children), metadata), value)
            below = zip(keys, children, strict=True)
            waiting.extend([(*path, key) for key, child in below if type(child) not in _LEAF_TYPES][::-1])
        return False

    return ask


def _reject_cycles(tree: Any, is_leaf: IsLeaf | None) -> None:
    """Raise ValueError where a container holds itself."""
    open_ids: set[int] = set()
    stack: list[tuple[Any, bool]] = [(tree, False)]
    while stack:
        value, done = stack.pop()
        if done:
            open_ids.discard(id(value))
            continue
        kind = None if is_leaf is not None and is_leaf(value) else _kind_of(type(value))
        if kind is None:
            continue
        children = kind.flatten(value)[0]
        if not children:
            continue
        if id(value) in open_ids:
            raise ValueError(f"a {type(value).__name__} in the pytree contains itself")
        open_ids.add(id(value))
        stack.append((value, True))
        stack += [(child, False) for child in children]


# Errors


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:297] + "..."


def spelled(treedef: TreeDef) -> str:
    """A structure in a message."""
    text = repr(treedef).removeprefix("PyTreeDef(")[:-1]
    if text in ("*", "None"):
        return {"*": "an array", "None": "None"}[text]
    return f"{text if len(text) <= 200 else text[:197] + '...'} (where * is an array)"


def difference(expected: TreeDef, found: TreeDef, root: str = "") -> str:
    """Where another structure of arrays, which may have a name, differs from what was expected, and how."""
    from .pytree import structure, unflatten

    text = "at the root: other metadata"
    try:
        subtrees = expected.flatten_up_to(unflatten(found, [0] * found.num_leaves))
    except ValueError as error:
        text = str(error).removeprefix("structure mismatch ").replace("a leaf of type int", "an array")
    else:
        leaf = structure(0)
        for path, subtree in zip(_leaf_paths(expected), subtrees, strict=True):
            if structure(subtree) != leaf:
                text = f"{_where(path)}: expected an array, found {spelled(structure(subtree))}"
                break
    where, _, what = text.removeprefix("at ").partition(": ")
    return f"at `{root}{'' if where == 'the root' else where}`: {what}" if root else text


def _where(path: KeyPath) -> str:
    return f"at {keystr(path)}" if path else "at the root"


def _describe(cls: type, arity: int, metadata: Any) -> str:
    if cls is type(None):
        return "None (an empty subtree; is_leaf=lambda x: x is None makes it a leaf)"
    if cls is dict or cls is OrderedDict:
        return f"{cls.__name__} with keys {_short(list(metadata))}"
    return f"{cls.__name__} of length {arity}" if cls is list or cls is tuple else cls.__name__


def _difference(node: Node, value: Any) -> str | None:
    """What keeps `value` from being that node, or None."""
    cls, arity, metadata = node
    kind = _kind_of(type(value))
    if kind is None:
        return f"expected {_describe(*node)}, found a leaf of type {type(value).__name__}"
    children, found = kind.flatten(value)
    if type(value) is not cls:
        return f"expected {_describe(*node)}, found {_describe(type(value), len(children), found)}"
    if cls is dict or cls is OrderedDict or cls is defaultdict:
        expected_keys = metadata[1] if cls is defaultdict else metadata
        found_keys = found[1] if cls is defaultdict else found
        expected_set, found_set = set(expected_keys), set(found_keys)
        missing = [key for key in expected_keys if key not in found_set]
        extra = [key for key in found_keys if key not in expected_set]
        named = (("missing", missing), ("extra", extra))
        parts = [f"{name} keys {_short(keys)}" for name, keys in named if keys]
        if parts:
            return f"expected {_describe(cls, arity, expected_keys)}, found {' and '.join(parts)}"
    if found is not metadata and found != metadata:
        return f"expected {cls.__name__} with metadata {_short(metadata)}, found metadata {_short(found)}"
    if len(children) != arity:
        return f"expected {cls.__name__} of length {arity}, found length {len(children)}"
    return None


def _raise_mismatch(treedef: TreeDef, tree: Any, what: str, prefix: KeyPath) -> NoReturn:
    """Walk again, with paths, to the first place where `tree` differs."""
    stack: list[tuple[KeyPath, Any]] = [(prefix, tree)]
    for node in treedef._nodes:
        if type(node) is int:
            del stack[-node:]
            continue
        path, value = stack.pop()
        difference = _difference(node, value)
        if difference is not None:
            raise ValueError(f"{what} {_where(path)}: {difference}")
        kind = _known_kind(node[0])
        children = kind.flatten(value)[0]
        stack += [((*path, key), child) for key, child in zip(kind.keys(node, value), children, strict=True)][
            ::-1
        ]
    raise ValueError(f"{what}: the tree's nodes do not compare equal from one time to the next")


def _raise_leaf_count(treedef: TreeDef, count: int) -> NoReturn:
    paths = list(_leaf_paths(treedef))
    if count < len(paths):
        detail = f"the first leaf without a value is {_where(paths[count])}"
    else:
        detail = f"the last leaf is {_where(paths[-1])}" if paths else "the structure has no leaves"
    raise ValueError(f"unflatten: expected {len(paths)} leaves, found {count}; {detail} of {_short(treedef)}")
