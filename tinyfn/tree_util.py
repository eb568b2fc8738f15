"""Work on pytrees with the names of `jax.tree_util`; the shorter ones are in `tinyfn.tree`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .trace.errors import entry_points
from .trace.pytree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    IsLeaf,
    KeyPath,
    Partial,
    SequenceKey,
    TreeDef,
    keystr,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
)
from .trace.pytree import all as tree_all
from .trace.pytree import broadcast as tree_broadcast
from .trace.pytree import flatten as tree_flatten
from .trace.pytree import flatten_with_path as tree_flatten_with_path
from .trace.pytree import leaves as tree_leaves
from .trace.pytree import leaves_with_path as tree_leaves_with_path
from .trace.pytree import map as tree_map
from .trace.pytree import map_with_path as tree_map_with_path
from .trace.pytree import reduce as tree_reduce
from .trace.pytree import reduce_associative as tree_reduce_associative
from .trace.pytree import structure as tree_structure
from .trace.pytree import transpose as tree_transpose
from .trace.pytree import unflatten as tree_unflatten

PyTreeDef = TreeDef
KeyEntry = Any


def treedef_is_leaf(treedef: TreeDef) -> bool:
    """Whether a structure is that of a leaf alone.

    >>> from tinyfn.tree_util import tree_structure, treedef_is_leaf
    >>> treedef_is_leaf(tree_structure(1)), treedef_is_leaf(tree_structure([1]))
    (True, False)
    """
    return treedef == tree_structure(0)


def treedef_tuple(treedefs: Iterable[TreeDef]) -> TreeDef:
    """The structure of a tuple of trees of these structures.

    >>> from tinyfn.tree_util import tree_structure, treedef_tuple
    >>> treedef_tuple([tree_structure(1), tree_structure([1, 2])])
    PyTreeDef((*, [*, *]))
    """
    return tree_structure(tuple([treedef.unflatten([0] * treedef.num_leaves) for treedef in treedefs]))


def treedef_children(treedef: TreeDef) -> list[TreeDef]:
    """The structures of the subtrees directly below the root.

    >>> from tinyfn.tree_util import tree_structure, treedef_children
    >>> treedef_children(tree_structure({"a": [1, 2], "b": 3}))
    [PyTreeDef([*, *]), PyTreeDef(*)]
    """
    tree = treedef.unflatten([0] * treedef.num_leaves)
    children = tree_leaves(tree, is_leaf=lambda value: value is not tree)
    return [] if treedef_is_leaf(treedef) else [tree_structure(child) for child in children]


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf | None = None) -> bool:
    """Whether every element of an iterable is a leaf.

    >>> from tinyfn.tree_util import all_leaves
    >>> all_leaves([1, 2.0]), all_leaves([1, [2]])
    (True, False)
    """
    return all(treedef_is_leaf(tree_structure(value, is_leaf)) for value in iterable)


__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]

entry_points(globals())
