"""The structures of arguments and results as data, and back: nodes in preorder, and a number for a run of leaves.

    ["dict", ["b", "w"]], 2        a dict with the keys b and w, two leaves: {"b": *, "w": *}

Dicts in the order of their sorted keys, followed by the order in which they had been filled where that is another one. Classes
are written by the name under which both the writing and the reading program registered them."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from ..trace.pytree import TreeDef
from ..trace.pytree_nodes import _kind_of, _sorted_keys
from .errors import ExportError

_SEQUENCES: dict[str, type] = {"list": list, "tuple": tuple}
_NAMES: dict[type, str] = {cls: name for name, cls in _SEQUENCES.items()}


class _Registered(NamedTuple):
    """A class in files: its name there, and how its metadata becomes bytes."""

    cls: type
    name: str
    serialize: Callable[[Any], bytes]
    deserialize: Callable[[bytes], Any]


_BY_CLASS: dict[type, _Registered] = {}
_BY_NAME: dict[str, _Registered] = {}


def register_pytree_node_serialization(
    nodetype: Any,
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes] | None = None,
    deserialize_auxdata: Callable[[bytes], Any] | None = None,
) -> Any:
    """Let exported functions take and give a class of pytree nodes, by a name for it; the reading program does this as well.

    The two functions turn its metadata (the static fields of a dataclass, for example) into bytes and back. Without them it must
    be made of None, bools, integers, texts and tuples. Raises ValueError for a class or name that is registered already, and for
    a class that is no pytree node.

    >>> from dataclasses import dataclass
    >>> @tree.register_dataclass
    ... @dataclass
    ... class Layer:
    ...     w: tnp.ndarray
    ...     power: int = tree.static(default=2)
    >>> _ = tinyfn.export.register_pytree_node_serialization(Layer, serialized_name="example.Layer")
    >>> exported = tinyfn.export.export(lambda layer: layer.w**layer.power)(Layer(3.0))
    >>> tinyfn.export.deserialize(exported.serialize()).call(Layer(5.0))
    Array(25., dtype=float32)
    """
    if not isinstance(nodetype, type) or _kind_of(nodetype) is None:
        raise ValueError(
            f"{nodetype!r} is no class of pytree nodes; register it with tree.register_pytree_node first"
        )
    if nodetype in _BY_CLASS or serialized_name in _BY_NAME:
        found = _BY_CLASS.get(nodetype) or _BY_NAME[serialized_name]
        raise ValueError(f"{found.cls.__qualname__} is already registered for files, as {found.name!r}")
    if (serialize_auxdata is None) != (deserialize_auxdata is None):
        raise ValueError("serialize_auxdata and deserialize_auxdata belong together")
    entry = _Registered(
        nodetype, serialized_name, serialize_auxdata or _to_bytes, deserialize_auxdata or _from_bytes
    )
    _BY_CLASS[nodetype] = _BY_NAME[serialized_name] = entry
    return nodetype


def register_namedtuple_serialization(nodetype: Any, *, serialized_name: str) -> Any:
    """Let exported functions take and give a NamedTuple, by a name for it; the reading program does this as well.

    The names of its fields are in the file, and must be the same there.

    >>> from typing import NamedTuple
    >>> class Moments(NamedTuple):
    ...     mean: tnp.ndarray
    ...     square: tnp.ndarray
    >>> _ = tinyfn.export.register_namedtuple_serialization(Moments, serialized_name="example.Moments")
    >>> exported = tinyfn.export.export(lambda x: Moments(x.mean(), (x * x).mean()))(tnp.ones(4))
    >>> tinyfn.export.deserialize(exported.serialize()).call(tnp.ones(4))
    Moments(mean=Array(1., dtype=float32), square=Array(1., dtype=float32))
    """
    if not (isinstance(nodetype, type) and issubclass(nodetype, tuple) and hasattr(nodetype, "_fields")):
        raise ValueError(f"{nodetype!r} is no NamedTuple; use register_pytree_node_serialization")
    names = list(nodetype._fields)

    def deserialize(data: bytes) -> None:
        if json.loads(data) != names:
            raise ExportError(
                f"the NamedTuple {serialized_name!r} has the fields {data.decode()} in the file, but {names} here"
            )

    return register_pytree_node_serialization(
        nodetype,
        serialized_name=serialized_name,
        serialize_auxdata=lambda _: json.dumps(names).encode(),
        deserialize_auxdata=deserialize,
    )


def _to_bytes(metadata: Any) -> bytes:
    return json.dumps(_key(metadata)).encode()


def _from_bytes(data: bytes) -> Any:
    return _of_key(json.loads(data))


def _key(key: Any) -> Any:
    if key is None or type(key) in (bool, int, str):
        return key
    if type(key) is tuple:
        return [_key(each) for each in key]
    raise ExportError(
        f"{key!r} is a {type(key).__name__}, and only None, bools, integers, texts and tuples can be in a file"
    )


def _of_key(data: Any) -> Any:
    if data is None or type(data) in (bool, int, str):
        return data
    if isinstance(data, list):
        return tuple([_of_key(each) for each in data])
    raise ExportError(f"{str(data)[:40]} is not a key")


def encode_tree(tree: TreeDef, what: str) -> list[Any]:
    """A structure as data; raises ExportError that names a class that can't be in a file."""
    result: list[Any] = []
    for index, node in enumerate(tree._nodes):
        if type(node) is int:
            result.append(node)
            continue
        cls, count, metadata = node
        try:
            if cls in _NAMES:
                result.append([_NAMES[cls], count])
            elif cls is type(None):
                result.append(["none"])
            elif cls is dict:
                order = (tree._orders or {}).get(index)
                result.append(
                    ["dict", [_key(k) for k in metadata], *([[_key(k) for k in order]] if order else [])]
                )
            elif cls is OrderedDict:
                result.append(["ordered", [_key(k) for k in metadata]])
            elif cls in _BY_CLASS:
                entry = _BY_CLASS[cls]
                result.append(["class", entry.name, count, bytes(entry.serialize(metadata)).hex()])
            else:
                register = "namedtuple" if issubclass(cls, tuple) else "pytree_node"
                raise ExportError(
                    f"the class {cls.__module__}.{cls.__qualname__} has no name for files: give it one with "
                    f"tinyfn.export.register_{register}_serialization"
                )
        except ExportError as error:
            raise ExportError(f"export: in the structure of the {what}, {tree}: {error}") from None
    return result


def decode_tree(data: Any, what: str, num_leaves: int) -> TreeDef:
    """The structure of data, with this number of leaves; raises ExportError."""
    nodes: list[Any] = []
    orders: dict[int, list[Any]] = {}
    missing, leaves = 1, 0  # subtrees that are still to come
    for entry in data if isinstance(data, list) else ["no list"]:
        if type(entry) is int:
            count, node = 0, entry
            missing, leaves = missing - entry, leaves + entry
            if entry < 1 or (nodes and type(nodes[-1]) is int):
                raise ExportError(f"the structure of the {what} has a run of {entry} leaves")
        else:
            try:
                node, order = _node(entry)
            except ExportError:
                raise
            except (
                Exception
            ) as error:  # of the user's functions too, and of what has the wrong length or type
                raise ExportError(
                    f"the structure of the {what} has the part {str(entry)[:60]}: {error}"
                ) from None
            count = node[1]
            missing += count - 1
            if order is not None:
                orders[len(nodes)] = order
        if missing < 0 or count < 0:
            raise ExportError(f"the structure of the {what} has parts that belong nowhere")
        nodes.append(node)
    if missing or leaves != num_leaves:
        raise ExportError(f"the structure of the {what} has {leaves} leaves, where there are {num_leaves}")
    return TreeDef(tuple(nodes), leaves, orders or None)


def _node(entry: Any) -> tuple[Any, list[Any] | None]:
    kind, *rest = entry
    if kind in _SEQUENCES:
        (count,) = rest
        if type(count) is int:
            return (_SEQUENCES[kind], count, None), None
    elif kind == "none" and not rest:
        return (type(None), 0, None), None
    elif kind == "dict" and len(rest) in (1, 2):
        keys, *order = [[_of_key(k) for k in each] for each in rest]
        if len(set(keys)) == len(keys) and keys == _sorted_keys(dict.fromkeys(keys)):
            if not order or (len(order[0]) == len(keys) and set(order[0]) == set(keys)):
                return (dict, len(keys), tuple(keys)), order[0] if order else None
    elif kind == "ordered":
        keys = [_of_key(k) for k in rest[0]]
        if len(set(keys)) == len(keys) and len(rest) == 1:
            return (OrderedDict, len(keys), tuple(keys)), None
    elif kind == "class":
        name, count, metadata = rest
        if name not in _BY_NAME:
            raise ExportError(
                f"the file has a class of the name {str(name)[:60]!r}, which this program has not registered with "
                "tinyfn.export.register_pytree_node_serialization (or register_namedtuple_serialization)"
            )
        found = _BY_NAME[name]
        if type(count) is int:
            fields = getattr(found.cls, "_fields", None) if issubclass(found.cls, tuple) else None
            if fields is None or len(fields) == count:
                return (found.cls, count, found.deserialize(bytes.fromhex(metadata))), None
    raise ExportError(f"{str(entry)[:60]} is not a part of a structure")
