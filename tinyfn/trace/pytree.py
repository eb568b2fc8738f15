"""Pytrees: nested containers of leaves, taken apart into a list and a `TreeDef`, and put together again.

Nodes are `dict`, `OrderedDict`, `defaultdict`, `list`, `tuple`, NamedTuples, `None` (a subtree without
leaves) and every class registered here. Anything else is a leaf, their other subclasses and plain
dataclasses included.

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
import threading
from builtins import all as _builtin_all
from builtins import map as _builtin_map
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

IsLeaf = Callable[[Any], bool]
KeyPath = tuple[Any, ...]


class _KeyEntry:
    """One step of a key path; the subclass names its one attribute in `__slots__`."""

    __slots__: tuple[str, ...] = ()
    _format = "[{!r}]"

    def __init__(self, value: Any) -> None:
        object.__setattr__(self, self.__slots__[0], value)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def _value(self) -> Any:
        return getattr(self, self.__slots__[0])

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._value() == other._value()

    def __hash__(self) -> int:
        return hash((type(self), self._value()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__slots__[0]}={self._value()!r})"

    def __str__(self) -> str:
        return self._format.format(self._value())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._value(),)


class DictKey(_KeyEntry):
    """The step into a dict: `['name']`."""

    __slots__ = ("key",)
    key: Any


class SequenceKey(_KeyEntry):
    """The step into a list or tuple: `[3]`."""

    __slots__ = ("idx",)
    idx: int


class GetAttrKey(_KeyEntry):
    """The step into an attribute of a NamedTuple, dataclass or registered class: `.name`."""

    __slots__ = ("name",)
    _format = ".{}"
    name: str


class FlattenedIndexKey(_KeyEntry):
    """The step into a child of a class registered without keys: `[<flat index 3>]`."""

    __slots__ = ("key",)
    _format = "[<flat index {}>]"
    key: int


def keystr(path: KeyPath, simple: bool = False, separator: str = "") -> str:
    """Format a key path, as `['a'][0].x`, or with `simple` and a separator such as `.` as `a.0.x`."""
    if simple:
        path = tuple(entry._value() if isinstance(entry, _KeyEntry) else entry for entry in path)
    return separator.join([str(entry) for entry in path])


# Kinds of nodes

Node = tuple[type, int, Any]  # class, number of children, metadata


class _Kind(NamedTuple):
    """How one class of node is taken apart, rebuilt, addressed (the value may be missing) and shown."""

    flatten: Callable[[Any], tuple[Sequence[Any], Any]]
    unflatten: Callable[[type, Any, list[Any]], Any]
    keys: Callable[[Node, Any], Sequence[Any]]
    show: Callable[[type, Any, list[str]], str]


def _sorted_keys(node: dict[Any, Any]) -> list[Any]:
    try:
        return sorted(node)
    except TypeError:
        return sorted(node, key=lambda key: (type(key).__name__, repr(key)))


def _flatten_dict(node: dict[Any, Any]) -> tuple[Sequence[Any], Any]:
    keys = _sorted_keys(node)
    return [node[key] for key in keys], tuple(keys)


def _flatten_defaultdict(node: defaultdict[Any, Any]) -> tuple[Sequence[Any], Any]:
    children, keys = _flatten_dict(node)
    return children, (node.default_factory, keys)


def _show_items(keys: Sequence[Any], parts: list[str]) -> str:
    return "{" + ", ".join(f"{key!r}: {part}" for key, part in zip(keys, parts, strict=True)) + "}"


def _show_defaultdict(cls: type, metadata: Any, parts: list[str]) -> str:
    factory, keys = metadata
    return f"defaultdict({getattr(factory, '__name__', factory)}, {_show_items(keys, parts)})"


def _show_fields(cls: type, names: Sequence[str], parts: Iterable[str]) -> str:
    return f"{cls.__name__}({', '.join(f'{name}={part}' for name, part in zip(names, parts, strict=True))})"


def _show_custom(cls: type, metadata: Any, parts: list[str]) -> str:
    return f"{cls.__name__}{'' if metadata is None else f'[{metadata!r}]'}({', '.join(parts)})"


def _numbered(entry: Callable[[int], Any]) -> Callable[[Node, Any], Sequence[Any]]:
    return lambda node, value: [entry(index) for index in range(node[1])]


def _dict_keys(node: Node, value: Any) -> Sequence[Any]:
    return [DictKey(key) for key in (node[2][1] if node[0] is defaultdict else node[2])]


_NAMED_TUPLE = _Kind(
    lambda node: (node, None),
    lambda cls, _, children: cls._make(children),  # type: ignore[attr-defined]
    lambda node, _: [GetAttrKey(name) for name in node[0]._fields],  # type: ignore[attr-defined]
    lambda cls, _, parts: _show_fields(cls, cls._fields, parts),  # type: ignore[attr-defined]
)
_KINDS: dict[type, _Kind] = {
    type(None): _Kind(lambda _: ((), None), lambda *_: None, lambda *_: (), lambda *_: "None"),
    list: _Kind(
        lambda node: (node, None),
        lambda cls, _, children: children,
        _numbered(SequenceKey),
        lambda cls, _, parts: f"[{', '.join(parts)}]",
    ),
    tuple: _Kind(
        lambda node: (node, None),
        lambda cls, _, children: tuple(children),
        _numbered(SequenceKey),
        lambda cls, _, parts: f"({', '.join(parts)}{',' if len(parts) == 1 else ''})",
    ),
    dict: _Kind(
        _flatten_dict,
        lambda cls, keys, children: dict(zip(keys, children, strict=True)),
        _dict_keys,
        lambda cls, keys, parts: _show_items(keys, parts),
    ),
    OrderedDict: _Kind(
        lambda node: (list(node.values()), tuple(node)),
        lambda cls, keys, children: OrderedDict(zip(keys, children, strict=True)),
        _dict_keys,
        lambda cls, keys, parts: f"OrderedDict({_show_items(keys, parts)})",
    ),
    defaultdict: _Kind(
        _flatten_defaultdict,
        lambda cls, metadata, children: defaultdict(metadata[0], zip(metadata[1], children, strict=True)),
        _dict_keys,
        _show_defaultdict,
    ),
}
# Types known to be leaves: one set lookup, not the NamedTuple test. Bounded, as it keeps the types alive.
_LEAF_TYPES: set[type] = {bool, int, float, complex, str, bytes}
_MAX_LEAF_TYPES = 1024
_REGISTRY_LOCK = threading.Lock()


def _kind_of(cls: type) -> _Kind | None:
    """The kind of node that `cls` is; None where its instances are leaves, which the next walk then knows."""
    kind = _KINDS.get(cls)
    if kind is not None:
        return kind
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _NAMED_TUPLE
    if len(_LEAF_TYPES) < _MAX_LEAF_TYPES:
        with _REGISTRY_LOCK:
            if cls not in _KINDS:
                _LEAF_TYPES.add(cls)
    return None


def _known_kind(cls: type) -> _Kind:
    kind = _kind_of(cls)
    if kind is None:
        raise ValueError(f"{cls.__module__}.{cls.__qualname__} is not registered as a pytree node here")
    return kind


# Registration


def _register(cls: type, kind: _Kind) -> None:
    if not isinstance(cls, type):
        raise TypeError(f"a class is needed to register a pytree node, not {cls!r}")
    with _REGISTRY_LOCK:
        if cls in _KINDS:
            raise ValueError(f"{cls.__module__}.{cls.__qualname__} is already registered as a pytree node")
        _KINDS[cls] = kind
        _LEAF_TYPES.discard(cls)


def _split(cls: type, result: Any) -> tuple[tuple[Any, ...], Any]:
    """Check and split what a user's flatten function gave."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"{cls.__name__}'s flatten function must return (children, metadata), not {result!r}")
    return tuple(result[0]), result[1]


def register_pytree_node(
    cls: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Hashable]],
    unflatten_func: Callable[[Any, tuple[Any, ...]], Any],
) -> None:
    """Make `cls` a node that `flatten_func` turns into (children, metadata), and `unflatten_func` back."""
    _register(
        cls,
        _Kind(
            lambda value: _split(cls, flatten_func(value)),
            lambda _, metadata, children: unflatten_func(metadata, tuple(children)),
            _numbered(FlattenedIndexKey),
            _show_custom,
        ),
    )


def register_pytree_with_keys(
    cls: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Hashable]],
    unflatten_func: Callable[[Any, tuple[Any, ...]], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Hashable]] | None = None,
) -> None:
    """Make `cls` a node that `flatten_with_keys` turns into ((key, child) pairs, metadata)."""
    numbered = _numbered(FlattenedIndexKey)

    def flatten_node(value: Any) -> tuple[Sequence[Any], Any]:
        if flatten_func is not None:
            return _split(cls, flatten_func(value))
        pairs, metadata = _split(cls, flatten_with_keys(value))
        return tuple(child for _, child in pairs), metadata

    def keys(node: Node, value: Any) -> Sequence[Any]:
        return numbered(node, None) if value is None else [key for key, _ in flatten_with_keys(value)[0]]

    def unflatten_node(_: type, metadata: Any, children: list[Any]) -> Any:
        return unflatten_func(metadata, tuple(children))

    _register(cls, _Kind(flatten_node, unflatten_node, keys, _show_custom))


def register_pytree_node_class(cls: Any) -> Any:
    """Make a class with `tree_flatten()` and the classmethod `tree_unflatten(metadata, children)` a node."""
    register_pytree_node(cls, lambda value: value.tree_flatten(), cls.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: Any) -> Any:
    """Make a class with `tree_flatten_with_keys()` and the classmethod `tree_unflatten` a node."""
    plain = (lambda value: value.tree_flatten()) if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(cls, lambda value: value.tree_flatten_with_keys(), cls.tree_unflatten, plain)
    return cls


def register_static(cls: Any) -> Any:
    """Make a hashable class a node without leaves: an instance is its own metadata."""
    register_pytree_node(cls, lambda value: ((), value), lambda metadata, _: metadata)
    return cls


def register_dataclass(
    cls: Any = None, data_fields: Sequence[str] | None = None, meta_fields: Sequence[str] | None = None
) -> Any:
    """Make a dataclass a node, with `data_fields` as children and `meta_fields` (hashable) as metadata.

    If one of the two is omitted, it holds the init fields that the other does not name; if both are, the
    fields declared with `static()` are metadata and the others data. Usable as a decorator, with or without
    arguments. `unflatten` calls the class, so `__post_init__` runs.
    """
    if cls is None:
        return lambda actual: register_dataclass(actual, data_fields, meta_fields)
    import dataclasses  # here, to keep the module's import cheap

    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise TypeError(f"register_dataclass needs a dataclass, not {cls!r}; else use register_pytree_node")
    fields = [field for field in dataclasses.fields(cls) if field.init]
    names = [field.name for field in fields]
    if meta_fields is not None:
        meta = tuple(meta_fields)
    elif data_fields is not None:
        meta = tuple([name for name in names if name not in data_fields])
    else:
        meta = tuple([field.name for field in fields if field.metadata.get("static")])
    data = tuple([name for name in names if name not in meta] if data_fields is None else data_fields)
    if sorted(data + meta) != sorted(names):
        raise ValueError(
            f"register_dataclass({cls.__name__}): data_fields {list(data)} and meta_fields {list(meta)} must "
            f"name each init field once; those are {names}"
        )

    def flatten_node(node: Any) -> tuple[Sequence[Any], Any]:
        return [getattr(node, name) for name in data], tuple([getattr(node, name) for name in meta])

    _register(
        cls,
        _Kind(
            flatten_node,
            lambda _, metadata, children: cls(
                **dict(zip(data, children, strict=True)), **dict(zip(meta, metadata, strict=True))
            ),
            lambda *_: [GetAttrKey(name) for name in data],
            lambda _, values, parts: _show_fields(cls, data + meta, [*parts, *_builtin_map(repr, values)]),
        ),
    )
    return cls


def static(**kwargs: Any) -> Any:
    """Declare a dataclass field (as `dataclasses.field` does) that `register_dataclass` makes metadata."""
    import dataclasses

    return dataclasses.field(metadata={**(kwargs.pop("metadata", None) or {}), "static": True}, **kwargs)


class _Opaque(NamedTuple):
    """A functools.partial that a Partial round it does not absorb, so that it stays metadata."""

    func: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)


class Partial(functools.partial):
    """A functools.partial that is a pytree: the bound arguments are children, the function is metadata."""

    def __new__(cls, func: Callable[..., Any], /, *args: Any, **keywords: Any) -> Partial:
        """Bind arguments to `func`."""
        if isinstance(func, functools.partial) and not isinstance(func, Partial):
            return super().__new__(cls, _Opaque(func), *args, **keywords)  # type: ignore[arg-type]
        return super().__new__(cls, func, *args, **keywords)


register_pytree_with_keys(
    Partial,
    lambda value: (((GetAttrKey("args"), value.args), (GetAttrKey("keywords"), value.keywords)), value.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
)


# Structures

Orders = dict[int, list[Any]]  # insertion order of each dict whose keys were not sorted, by its node's index


class TreeDef:
    """The structure of a pytree, made by `flatten`: node types, keys and metadata, but no leaves."""

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
        """Rebuild a tree of this structure from its leaves."""
        return unflatten(self, leaves)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """List the subtrees of `tree` at this structure's leaves; ValueError if it differs above them."""
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


def _take(stack: list[Any], count: int) -> list[Any]:
    """Pop the top `count` entries, topmost first."""
    if not count:
        return []
    taken = stack[: -count - 1 : -1]
    del stack[-count:]
    return taken


_CYCLE_CHECK_AT = 100_000  # nodes: a tree with a cycle gets there at once, few others do


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


# Flattening and rebuilding


def flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], TreeDef]:
    """Take a tree apart into the list of its leaves and its structure."""
    return _walk(tree, is_leaf)


def leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """List the leaves of a tree."""
    return _walk(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf | None = None) -> TreeDef:
    """Give the structure of a tree."""
    return _walk(tree, is_leaf)[1]


def flatten_with_path(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[tuple[KeyPath, Any]], TreeDef]:
    """Take a tree apart into the list of its (key path, leaf) pairs and its structure."""
    node_keys: list[Sequence[Any]] = []
    found, treedef = _walk(tree, is_leaf, node_keys)
    return list(zip(_leaf_paths(treedef, node_keys), found, strict=True)), treedef


def leaves_with_path(tree: Any, is_leaf: IsLeaf | None = None) -> list[tuple[KeyPath, Any]]:
    """List the (key path, leaf) pairs of a tree."""
    return flatten_with_path(tree, is_leaf)[0]


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """Rebuild a tree of the given structure from its leaves."""
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
    """Apply `f` to each leaf of `tree` and what the other trees hold there; rebuild it from the results."""
    found, treedef = _walk(tree, is_leaf)
    if not rest:
        return unflatten(treedef, [f(leaf) for leaf in found])
    columns = _columns(treedef, rest, "tree.map")
    return unflatten(treedef, [f(*items) for items in zip(found, *columns, strict=False)])


def map_with_path(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Like `map`, where `f` gets the leaf's key path as its first argument."""
    pairs, treedef = flatten_with_path(tree, is_leaf)
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
    """Combine the leaves of a tree from the left with a function of two arguments."""
    start = () if initializer is _MISSING else (initializer,)
    return functools.reduce(function, leaves(tree, is_leaf), *start)


def all(tree: Any, is_leaf: IsLeaf | None = None) -> bool:
    """Tell whether every leaf of a tree is true."""
    return _builtin_all(leaves(tree, is_leaf))


def transpose(outer_treedef: TreeDef, inner_treedef: TreeDef | None, tree: Any) -> Any:
    """Turn a tree of structure (outer, inner) into (inner, outer); where inner is None it is looked up."""
    subtrees = _flatten_up_to(outer_treedef, tree, "tree.transpose: no match for the outer structure")
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
    """Give a tree with `full_tree`'s structure, holding the leaf of `prefix_tree` above each place."""
    return unflatten(structure(full_tree), broadcast_prefix(prefix_tree, full_tree, is_leaf))


# Errors


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:297] + "..."


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
