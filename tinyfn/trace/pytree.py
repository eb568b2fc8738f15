"""Pytrees: nested containers of leaves, taken apart into a list and a `TreeDef`, and put together again.

Nodes are `dict`, `OrderedDict`, `defaultdict`, `list`, `tuple`, NamedTuples, dataclasses (their init fields, of
which those declared with `static()` are metadata), `None` (a subtree without leaves) and every class
registered here. Anything else is a leaf, other subclasses of these included.

Dicts: leaves come in the order of the sorted keys (keys that cannot be compared: by type name, then repr),
so dicts with the same keys line up however they were filled. `unflatten` gives back the insertion order of
the dict that was flattened; that order is no part of a TreeDef's equality or hash. An OrderedDict is never
sorted, and its order is part of the structure.

A TreeDef holds its nodes in preorder in one flat tuple: `(class, number of children, metadata)` for a node,
an int for a run of leaves, as long as possible. So comparing, hashing and pickling it never recurse, and
the walks are loops: trees may be nested as deep as memory allows.
"""

from __future__ import annotations

import functools
import sys
from builtins import all as _builtin_all
from builtins import map as _builtin_map
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .pytree_nodes import (
    _LEAF_TYPES,
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    IsLeaf,
    KeyPath,
    Partial,
    SequenceKey,
    _kind_of,
    _known_kind,
    _sorted_keys,
    keystr,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    static,
)
from .pytree_paths import (
    _asked_with_path,
    _leaf_paths,
    _raise_leaf_count,
    _raise_mismatch,
    _reject_cycles,
    _take,
    difference,
    spelled,
)

__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "IsLeaf", "KeyPath", "Partial", "SequenceKey", "TreeDef",
    "all", "broadcast", "broadcast_prefix", "difference", "flatten", "flatten_with_path", "keystr", "leaves",
    "leaves_with_path", "map", "map_with_path", "reduce", "reduce_associative", "register_dataclass", "register_pytree_node",
    "register_pytree_node_class", "register_pytree_with_keys", "register_pytree_with_keys_class",
    "register_static", "spelled", "static", "structure", "transpose", "unflatten",
]  # fmt: skip

# Structures

Orders = dict[int, list[Any]]  # insertion order of each dict whose keys were not sorted, by its node's index


class TreeDef:
    """The structure of a pytree, made by `flatten`: node types, keys and metadata, but no leaves.

    >>> structure = tree.structure({"w": [1, 2], "b": 3})
    >>> structure, structure.num_leaves, structure.num_nodes
    (PyTreeDef({'b': *, 'w': [*, *]}), 3, 5)
    >>> structure.unflatten("abc")
    {'w': ['b', 'c'], 'b': 'a'}
    >>> structure == tree.structure({"b": 0, "w": [0, 0]})
    True
    """

    __slots__ = ("__weakref__", "_hash", "_nodes", "_num_leaves", "_orders")

    def __init__(self, nodes: tuple[Any, ...], num_leaves: int, orders: Orders | None = None) -> None:
        self._nodes = nodes
        self._num_leaves = num_leaves
        self._orders = orders
        self._hash: int | None = None

    @property
    def num_leaves(self) -> int:
        """The number of leaves."""
        return self._num_leaves

    @property
    def num_nodes(self) -> int:
        """The number of nodes, leaves included."""
        return sum(node if type(node) is int else 1 for node in self._nodes)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Rebuild a tree of this structure from its leaves; raises ValueError if they are too few or too many."""
        return unflatten(self, leaves)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """List the subtrees of `tree` at this structure's leaves; ValueError if it differs above them.

        >>> tree.structure({"a": 0, "b": 0}).flatten_up_to({"a": [1, 2], "b": 3})
        [[1, 2], 3]
        """
        return _flatten_up_to(self, tree, "structure mismatch")

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is TreeDef and self._nodes == other._nodes)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self._nodes)
        return self._hash

    def __repr__(self) -> str:
        stack: list[str] = []
        for node in reversed(self._nodes):
            if type(node) is int:
                stack += ["*"] * node
            else:
                cls, arity, metadata = node
                stack.append(_known_kind(cls).show(cls, metadata, _take(stack, arity)))
        return f"PyTreeDef({stack[0]})"

    def __reduce__(self) -> tuple[Any, ...]:
        return TreeDef, (self._nodes, self._num_leaves, self._orders)


_CYCLE_CHECK_AT = 100_000  # nodes: a tree with a cycle gets there at once, few others do


def _walk(
    tree: Any, is_leaf: IsLeaf | None = None, node_keys: list[Sequence[Any]] | None = None
) -> tuple[list[Any], TreeDef]:
    """Flatten `tree`, and add each node's keys to `node_keys` where that is given."""
    leaf_types = _LEAF_TYPES
    found: list[Any] = []
    nodes: list[Any] = []
    orders: Orders | None = None
    stack = [tree]
    cycle_check_at = _CYCLE_CHECK_AT
    listed = 0  # how many of the leaves found are in `nodes` already
    children: Sequence[Any]
    while stack:
        value = stack.pop()
        cls = type(value)
        if cls in leaf_types or (is_leaf is not None and is_leaf(value)):
            found.append(value)
            continue
        metadata: Any = None
        order: list[Any] | None = None
        if cls is tuple or cls is list:
            children = value
        elif cls is dict:
            order = [*value]
            keys = _sorted_keys(value)
            metadata = tuple(keys)
            if order == keys:
                order = None
                children = [*value.values()]
            else:
                children = [value[key] for key in keys]
        else:
            kind = _kind_of(cls)
            if kind is None:
                found.append(value)
                continue
            children, metadata = kind.flatten(value)
            if cls is defaultdict and tuple(value) != metadata[1]:
                order = [*value]
        count = len(found)
        if count != listed:
            nodes.append(count - listed)
            listed = count
        if order is not None:
            if orders is None:
                orders = {}
            orders[len(nodes)] = order
        nodes.append((cls, len(children), metadata))
        if node_keys is not None:
            node_keys.append(_known_kind(cls).keys(nodes[-1], value))
        if is_leaf is None and leaf_types.issuperset(_builtin_map(type, children)):
            found += children
        else:
            stack += children[::-1]
            if len(nodes) > cycle_check_at:
                cycle_check_at = sys.maxsize
                _reject_cycles(tree, is_leaf)
    if len(found) != listed:
        nodes.append(len(found) - listed)
    return found, TreeDef(tuple(nodes), len(found), orders)


# Flattening and rebuilding


def flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], TreeDef]:
    """Take a tree apart into the list of its leaves and its structure.

    >>> leaves, structure = tree.flatten({"b": [1, 2], "a": (3, None)})
    >>> leaves, structure  # a dict's items are in the order of its keys; None has no leaves
    ([3, 1, 2], PyTreeDef({'a': (*, None), 'b': [*, *]}))
    >>> tree.unflatten(structure, ["x", "y", "z"])
    {'b': ['y', 'z'], 'a': ('x', None)}
    """
    return _walk(tree, is_leaf)


def leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """List the leaves of a tree.

    >>> tree.leaves({"b": [1, 2], "a": (3, None)})
    [3, 1, 2]
    >>> tree.leaves([None, 1], is_leaf=lambda x: x is None)
    [None, 1]
    """
    return _walk(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf | None = None) -> TreeDef:
    """Give the structure of a tree.

    >>> tree.structure({"w": [1, 2], "b": None})
    PyTreeDef({'b': None, 'w': [*, *]})
    """
    return _walk(tree, is_leaf)[1]


def flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], TreeDef]:
    """Take a tree apart into the list of its (key path, leaf) pairs and its structure.

    With `is_leaf_takes_path`, here and in what follows, is_leaf gets a key path and the value there.

    >>> pairs, structure = tree.flatten_with_path({"w": [1, 2]})
    >>> [(tree.keystr(path), leaf) for path, leaf in pairs]
    [("['w'][0]", 1), ("['w'][1]", 2)]
    """
    node_keys: list[Sequence[Any]] = []
    if is_leaf is not None and is_leaf_takes_path:
        is_leaf = _asked_with_path(is_leaf)
    found, treedef = _walk(tree, is_leaf, node_keys)
    return list(zip(_leaf_paths(treedef, node_keys), found, strict=True)), treedef


def leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """List the (key path, leaf) pairs of a tree.

    >>> tree.leaves_with_path({"w": [1, 2]})
    [((DictKey(key='w'), SequenceKey(idx=0)), 1), ((DictKey(key='w'), SequenceKey(idx=1)), 2)]
    """
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """Rebuild a tree of the given structure from its leaves; raises ValueError if they are too few or too many.

    >>> tree.unflatten(tree.structure({"w": [0, 0]}), ["a", "b"])
    {'w': ['a', 'b']}
    """
    pending = list(leaves)
    if len(pending) != treedef._num_leaves:
        _raise_leaf_count(treedef, len(pending))
    pending.reverse()
    nodes, orders = treedef._nodes, treedef._orders
    stack: list[Any] = []  # subtrees not yet in a parent, the leftmost on top
    used = 0
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        if type(node) is int:
            stack += pending[used : used + node]
            used += node
            continue
        cls, arity, metadata = node
        if arity:
            children = stack[: -arity - 1 : -1]
            del stack[-arity:]
        else:
            children = []
        if cls is tuple:
            stack.append(tuple(children))
        elif cls is list:
            stack.append(children)
        elif orders is not None and index in orders:
            ordered: dict[Any, Any] = dict.fromkeys(orders[index])
            keys = metadata if cls is dict else metadata[1]
            ordered.update(zip(keys, children))  # noqa: B905 (naming strict costs 0.15 us)
            stack.append(ordered if cls is dict else defaultdict(metadata[0], ordered))
        elif cls is dict:
            stack.append(dict(zip(metadata, children)))  # noqa: B905 (as above)
        else:
            stack.append(_known_kind(cls).unflatten(cls, metadata, children))
    return stack[0]


def _flatten_up_to(treedef: TreeDef, tree: Any, what: str, prefix: KeyPath = ()) -> list[Any]:
    found: list[Any] = []
    stack = [tree]
    children: Sequence[Any]
    for node in treedef._nodes:
        if type(node) is int:
            if node == 1:
                found.append(stack.pop())
            else:
                found += stack[: -node - 1 : -1]
                del stack[-node:]
            continue
        cls, arity, metadata = node
        value = stack.pop()
        if type(value) is not cls:
            _raise_mismatch(treedef, tree, what, prefix)
        if cls is tuple or cls is list:
            children = value
        elif cls is dict:
            try:
                children = [value[key] for key in metadata]
            except KeyError:
                _raise_mismatch(treedef, tree, what, prefix)
            arity = arity if len(value) == arity else -1
        else:
            children, other = _known_kind(cls).flatten(value)
            if other is not metadata and other != metadata:
                _raise_mismatch(treedef, tree, what, prefix)
        if len(children) != arity:
            _raise_mismatch(treedef, tree, what, prefix)
        stack += children[::-1]
    return found


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Apply `f` to each leaf of `tree` and what the other trees hold there; rebuild it from the results.

    Raises ValueError, which names the place, where another tree differs above the leaves of `tree`.

    >>> tree.map(lambda w, g: w - g, {"w": 3, "b": [1, 2]}, {"w": 1, "b": [1, 1]})
    {'w': 2, 'b': [0, 1]}
    >>> tree.map(type, {"a": (1, 2)}, is_leaf=lambda x: isinstance(x, tuple))
    {'a': <class 'tuple'>}
    """
    found, treedef = _walk(tree, is_leaf)
    if not rest:
        return unflatten(treedef, [f(leaf) for leaf in found])
    columns = _columns(treedef, rest, "tree.map")
    return unflatten(treedef, [f(*items) for items in zip(found, *columns, strict=False)])


def map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Like `map`, where `f` gets the leaf's key path as its first argument.

    >>> tree.map_with_path(lambda path, x: f"{tree.keystr(path)} is {x}", {"w": [1, 2]})
    {'w': ["['w'][0] is 1", "['w'][1] is 2"]}
    """
    pairs, treedef = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns = _columns(treedef, rest, "tree.map_with_path")
    return unflatten(
        treedef, [f(path, leaf, *others) for (path, leaf), *others in zip(pairs, *columns, strict=True)]
    )


def _columns(treedef: TreeDef, rest: tuple[Any, ...], name: str) -> list[list[Any]]:
    return [
        _flatten_up_to(treedef, other, f"{name}: tree {number} does not match the first tree")
        for number, other in enumerate(rest, 2)
    ]


_MISSING = object()


def reduce(
    function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _MISSING, is_leaf: IsLeaf | None = None
) -> Any:
    """Combine the leaves of a tree from the left with a function of two arguments, after `initializer` if there is one.

    Raises TypeError if there are neither leaves nor an initializer.

    >>> tree.reduce(lambda total, x: total + x, {"a": 1, "b": [2, 3]}, 10)
    16
    """
    start = () if initializer is _MISSING else (initializer,)
    return functools.reduce(function, leaves(tree, is_leaf), *start)


def reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _MISSING,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """Combine the leaves of a tree in pairs, then the pairs, ...: with an associative function the same as `reduce`.

    Sums of many leaves have less error than in a row. Without leaves the result is `identity`; TypeError if there is none.

    >>> tree.reduce_associative(lambda x, y: f"({x}{y})", ["a", "b", "c", "d"])
    '((ab)(cd))'
    """
    found = leaves(tree, is_leaf)
    if not found:
        if identity is _MISSING:
            raise TypeError("tree.reduce_associative of a tree without leaves needs `identity`")
        return identity
    while len(found) > 1:
        odd = found[len(found) & ~1 :]
        found = [operation(a, b) for a, b in zip(found[0::2], found[1::2], strict=False)] + odd
    return found[0]


def all(tree: Any, is_leaf: IsLeaf | None = None) -> bool:
    """Tell whether every leaf of a tree is true.

    >>> tree.all({"a": True, "b": [1, 0]})
    False
    """
    return _builtin_all(leaves(tree, is_leaf))


def transpose(outer_treedef: TreeDef, inner_treedef: TreeDef | None, pytree_to_transpose: Any) -> Any:
    """Turn a tree of structure (outer, inner) into (inner, outer); where inner is None it is looked up.

    Raises ValueError, which names the place, if the tree has another structure.

    >>> rows = [{"x": 1, "y": 2}, {"x": 3, "y": 4}]
    >>> tree.transpose(tree.structure([0, 0]), tree.structure({"x": 0, "y": 0}), rows)
    {'x': [1, 3], 'y': [2, 4]}
    """
    subtrees = _flatten_up_to(
        outer_treedef, pytree_to_transpose, "tree.transpose: no match for the outer structure"
    )
    if inner_treedef is None:
        if not subtrees:
            raise ValueError("tree.transpose: the outer structure has no leaf to find the inner one at")
        inner_treedef = structure(subtrees[0])
    what = "tree.transpose: no match for the inner structure"
    paths = _leaf_paths(outer_treedef)
    rows = [
        _flatten_up_to(inner_treedef, subtree, what, path)
        for subtree, path in zip(subtrees, paths, strict=True)
    ]
    columns = [[row[index] for row in rows] for index in range(inner_treedef._num_leaves)]
    return unflatten(inner_treedef, [unflatten(outer_treedef, column) for column in columns])


def broadcast_prefix(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """List one leaf of `prefix_tree` (to which `is_leaf` applies) for each leaf of `full_tree`."""
    prefixes, treedef = _walk(prefix_tree, is_leaf)
    result: list[Any] = []
    subtrees = _flatten_up_to(treedef, full_tree, "the tree does not match its prefix")
    for prefix, subtree in zip(prefixes, subtrees, strict=True):
        result += [prefix] * (1 if type(subtree) in _LEAF_TYPES else len(leaves(subtree)))
    return result


def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Give a tree with `full_tree`'s structure, holding the leaf of `prefix_tree` above each place.

    Raises ValueError, which names the place, where `full_tree` differs above these leaves.

    >>> tree.broadcast({"a": 0, "b": 1}, {"a": [10, 20], "b": 30})
    {'a': [0, 0], 'b': 1}
    """
    return unflatten(structure(full_tree), broadcast_prefix(prefix_tree, full_tree, is_leaf))
