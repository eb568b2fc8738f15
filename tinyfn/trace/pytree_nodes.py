"""What the nodes of a pytree are: key paths' entries, the built-in containers, and the registration of classes."""

from __future__ import annotations

import functools
import threading
from builtins import map as _builtin_map
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
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
    """The step into a dict: `['name']`.

    >>> tree.leaves_with_path({"name": 1})
    [((DictKey(key='name'),), 1)]
    >>> str(tree.DictKey("name"))
    "['name']"
    """

    __slots__ = ("key",)
    key: Any


class SequenceKey(_KeyEntry):
    """The step into a list or tuple: `[3]`.

    >>> tree.leaves_with_path([1])
    [((SequenceKey(idx=0),), 1)]
    >>> str(tree.SequenceKey(3))
    '[3]'
    """

    __slots__ = ("idx",)
    idx: int


class GetAttrKey(_KeyEntry):
    """The step into an attribute of a NamedTuple, dataclass or registered class: `.name`.

    >>> from typing import NamedTuple
    >>> class Point(NamedTuple):
    ...     x: float
    ...     y: float
    >>> tree.leaves_with_path(Point(1.0, 2.0))
    [((GetAttrKey(name='x'),), 1.0), ((GetAttrKey(name='y'),), 2.0)]
    >>> str(tree.GetAttrKey("x"))
    '.x'
    """

    __slots__ = ("name",)
    _format = ".{}"
    name: str


class FlattenedIndexKey(_KeyEntry):
    """The step into a child of a class registered without keys: `[<flat index 3>]`.

    >>> str(tree.FlattenedIndexKey(3))
    '[<flat index 3>]'
    """

    __slots__ = ("key",)
    _format = "[<flat index {}>]"
    key: int


def keystr(keys: KeyPath, simple: bool = False, separator: str = "") -> str:
    """Format a key path, as `['a'][0].x`, or with `simple` and a separator such as `.` as `a.0.x`.

    >>> path = (tree.DictKey("a"), tree.SequenceKey(0), tree.GetAttrKey("x"))
    >>> tree.keystr(path), tree.keystr(path, simple=True, separator="/")
    ("['a'][0].x", 'a/0/x')
    """
    if simple:
        keys = tuple(entry._value() if isinstance(entry, _KeyEntry) else entry for entry in keys)
    return separator.join([str(entry) for entry in keys])


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
_AUTOMATIC: set[type] = set()  # dataclasses that became nodes when they were first met


def _kind_of(cls: type) -> _Kind | None:
    """The kind of node that `cls` is; None where its instances are leaves, which the next walk then knows."""
    kind = _KINDS.get(cls)
    if kind is not None:
        return kind
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _NAMED_TUPLE
    if "__dataclass_fields__" in vars(cls):
        return _dataclass_kind(cls)
    if len(_LEAF_TYPES) < _MAX_LEAF_TYPES:
        with _REGISTRY_LOCK:
            if cls not in _KINDS:
                _LEAF_TYPES.add(cls)
    return None


def _dataclass_kind(cls: type) -> _Kind:
    """Register a dataclass by its field declarations; an explicit registration may replace that later."""
    try:
        register_dataclass(cls)
        _AUTOMATIC.add(cls)
    except ValueError:  # another thread was faster
        pass
    return _KINDS[cls]


def is_plain_dataclass(value: Any) -> bool:
    """Whether a value is of a dataclass that nobody registered, so that its own fields say what it is."""
    cls = type(value)
    return "__dataclass_fields__" in vars(cls) and (cls not in _KINDS or cls in _AUTOMATIC)


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
        if cls in _KINDS and cls not in _AUTOMATIC:
            raise ValueError(f"{cls.__module__}.{cls.__qualname__} is already registered as a pytree node")
        _KINDS[cls] = kind
        _AUTOMATIC.discard(cls)
        _LEAF_TYPES.discard(cls)


def _split(cls: type, result: Any) -> tuple[tuple[Any, ...], Any]:
    """Check and split what a user's flatten function gave."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"{cls.__name__}'s flatten function must return (children, metadata), not {result!r}")
    return tuple(result[0]), result[1]


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Hashable]],
    unflatten_func: Callable[[Any, tuple[Any, ...]], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Hashable]] | None = None,
) -> None:
    """Make `nodetype` a node that `flatten_func` turns into (children, metadata), and `unflatten_func` back.

    Without `flatten_with_keys_func`, which gives (key, child) pairs, children are numbered in key paths. Raises ValueError for a
    type that is a node already.

    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> tree.register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda _, children: Pair(*children))
    >>> tree.leaves_with_path(Pair(1, 2))
    [((FlattenedIndexKey(key=0),), 1), ((FlattenedIndexKey(key=1),), 2)]
    >>> tree.map(lambda x: 10 * x, Pair(1, 2)).b
    20
    """
    if flatten_with_keys_func is not None:
        register_pytree_with_keys(nodetype, flatten_with_keys_func, unflatten_func, flatten_func)
        return
    _register(
        nodetype,
        _Kind(
            lambda value: _split(nodetype, flatten_func(value)),
            lambda _, metadata, children: unflatten_func(metadata, tuple(children)),
            _numbered(FlattenedIndexKey),
            _show_custom,
        ),
    )


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Hashable]],
    unflatten_func: Callable[[Any, tuple[Any, ...]], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Hashable]] | None = None,
) -> None:
    """Make `nodetype` a node that `flatten_with_keys` turns into ((key, child) pairs, metadata).

    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> def flatten(p):
    ...     return [(tree.GetAttrKey("a"), p.a), (tree.GetAttrKey("b"), p.b)], None
    >>> tree.register_pytree_with_keys(Pair, flatten, lambda _, children: Pair(*children))
    >>> [tree.keystr(path) for path, _ in tree.leaves_with_path(Pair(1, 2))]
    ['.a', '.b']
    """
    numbered = _numbered(FlattenedIndexKey)

    def flatten_node(value: Any) -> tuple[Sequence[Any], Any]:
        if flatten_func is not None:
            return _split(nodetype, flatten_func(value))
        pairs, metadata = _split(nodetype, flatten_with_keys(value))
        return tuple(child for _, child in pairs), metadata

    def keys(node: Node, value: Any) -> Sequence[Any]:
        return numbered(node, None) if value is None else [key for key, _ in flatten_with_keys(value)[0]]

    def unflatten_node(_: type, metadata: Any, children: list[Any]) -> Any:
        return unflatten_func(metadata, tuple(children))

    _register(nodetype, _Kind(flatten_node, unflatten_node, keys, _show_custom))


def register_pytree_node_class(cls: Any) -> Any:
    """Make a class with `tree_flatten()` and the classmethod `tree_unflatten(metadata, children)` a node.

    >>> @tree.register_pytree_node_class
    ... class Scaled:
    ...     def __init__(self, values, unit):
    ...         self.values, self.unit = values, unit
    ...     def tree_flatten(self):
    ...         return (self.values,), self.unit
    ...     @classmethod
    ...     def tree_unflatten(cls, unit, children):
    ...         return cls(*children, unit)
    >>> tree.map(lambda x: 2 * x, Scaled([1, 2], "m")).values
    [2, 4]
    >>> tree.structure(Scaled(1, "m")) == tree.structure(Scaled(1, "kg"))
    False
    """
    register_pytree_node(cls, lambda value: value.tree_flatten(), cls.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: Any) -> Any:
    """Make a class with `tree_flatten_with_keys()` and the classmethod `tree_unflatten` a node.

    >>> @tree.register_pytree_with_keys_class
    ... class Box:
    ...     def __init__(self, content):
    ...         self.content = content
    ...     def tree_flatten_with_keys(self):
    ...         return [(tree.GetAttrKey("content"), self.content)], None
    ...     @classmethod
    ...     def tree_unflatten(cls, _, children):
    ...         return cls(*children)
    >>> [tree.keystr(path) for path, _ in tree.leaves_with_path(Box([1, 2]))]
    ['.content[0]', '.content[1]']
    """
    plain = (lambda value: value.tree_flatten()) if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(cls, lambda value: value.tree_flatten_with_keys(), cls.tree_unflatten, plain)
    return cls


def register_static(cls: Any) -> Any:
    """Make a hashable class a node without leaves: an instance is its own metadata.

    >>> @tree.register_static
    ... class Mode(str):
    ...     pass
    >>> tree.leaves([Mode("train"), 1.0])
    [1.0]
    >>> tinyfn.jit(lambda mode, x: 2 * x if mode == "train" else x)(Mode("train"), 3.0)
    Array(6., dtype=float32)
    """
    register_pytree_node(cls, lambda value: ((), value), lambda metadata, _: metadata)
    return cls


def register_dataclass(
    nodetype: Any = None,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Any:
    """Make a dataclass a node, with `data_fields` as children and `meta_fields` (hashable) as metadata.

    If one of the two is omitted, it holds the init fields that the other does not name; if both are, the
    fields declared with `static()` are metadata and the others data. Usable as a decorator, with or without
    arguments. `unflatten` calls the class, so `__post_init__` runs, and `drop_fields` get their defaults. Raises TypeError for a
    class that is no dataclass.

    >>> from dataclasses import dataclass
    >>> @tree.register_dataclass
    ... @dataclass
    ... class Layer:
    ...     w: tnp.ndarray
    ...     b: tnp.ndarray
    ...     activation: str = tree.static(default="relu")
    >>> tree.map(lambda x: 2 * x, Layer(1.0, 2.0))
    Layer(w=2.0, b=4.0, activation='relu')
    >>> tinyfn.grad(lambda layer: layer.w * layer.b)(Layer(3.0, 5.0)).w
    Array(5., dtype=float32)
    """
    if nodetype is None:
        return lambda actual: register_dataclass(actual, data_fields, meta_fields, drop_fields)
    import dataclasses  # here, to keep the module's import cheap

    if not (isinstance(nodetype, type) and dataclasses.is_dataclass(nodetype)):
        raise TypeError(
            f"register_dataclass needs a dataclass, not {nodetype!r}; else use register_pytree_node"
        )
    fields = [field for field in dataclasses.fields(nodetype) if field.init and field.name not in drop_fields]
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
            f"register_dataclass({nodetype.__name__}): data_fields {list(data)} and meta_fields {list(meta)} must "
            f"name each init field once; those are {names}"
        )

    def flatten_node(node: Any) -> tuple[Sequence[Any], Any]:
        return [getattr(node, name) for name in data], tuple([getattr(node, name) for name in meta])

    _register(
        nodetype,
        _Kind(
            flatten_node,
            lambda _, metadata, children: nodetype(
                **dict(zip(data, children, strict=True)), **dict(zip(meta, metadata, strict=True))
            ),
            lambda *_: [GetAttrKey(name) for name in data],
            lambda _, values, parts: _show_fields(
                nodetype, data + meta, [*parts, *_builtin_map(repr, values)]
            ),
        ),
    )
    return nodetype


def static(**kwargs: Any) -> Any:
    """Declare a dataclass field (as `dataclasses.field` does) that `register_dataclass` makes metadata.

    >>> from dataclasses import dataclass
    >>> @tree.register_dataclass
    ... @dataclass
    ... class Power:
    ...     base: float
    ...     exponent: int = tree.static(default=2)
    >>> tree.leaves(Power(3.0)), tree.map(lambda x: x + 1, Power(3.0))
    ([3.0], Power(base=4.0, exponent=2))
    """
    import dataclasses

    return dataclasses.field(metadata={**(kwargs.pop("metadata", None) or {}), "static": True}, **kwargs)


class _Opaque(NamedTuple):
    """A functools.partial that a Partial round it does not absorb, so that it stays metadata."""

    func: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)


class Partial(functools.partial):
    """A functools.partial that is a pytree: the bound arguments are children, the function is metadata.

    >>> scale = tree.Partial(lambda factor, x: factor * x, tnp.array(2.0))
    >>> scale(3.0), tree.leaves(scale)
    (Array(6., dtype=float32), [Array(2., dtype=float32)])
    >>> tinyfn.jit(lambda f, x: f(x))(scale, 5.0)
    Array(10., dtype=float32)
    """

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
