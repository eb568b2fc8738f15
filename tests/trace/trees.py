"""Classes of which the tests of pytrees make trees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tinyfn.trace import pytree
from tinyfn.trace.pytree import GetAttrKey


class Point(NamedTuple):
    x: Any
    y: Any


class Validated(NamedTuple("Validated", [("x", Any)])):
    """A NamedTuple whose constructor would refuse a placeholder leaf."""

    def __new__(cls, x: Any) -> Validated:
        return super().__new__(cls, float(x))


class Box:
    """Registered without keys."""

    def __init__(self, items: tuple[Any, ...], tag: Any = None) -> None:
        self.items, self.tag = items, tag

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and (self.items, self.tag) == (other.items, other.tag)

    __hash__ = None  # type: ignore[assignment]


pytree.register_pytree_node(Box, lambda box: (iter(box.items), box.tag), lambda tag, items: Box(items, tag))


@pytree.register_pytree_node_class
class Pair:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    def tree_flatten(self) -> tuple[Any, None]:
        return (self.a, self.b), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> Pair:
        assert type(children) is tuple
        return cls(*children)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pair) and (self.a, self.b) == (other.a, other.b)

    __hash__ = None  # type: ignore[assignment]


@pytree.register_pytree_with_keys_class
class Keyed:
    def __init__(self, **items: Any) -> None:
        self.items = items

    def tree_flatten_with_keys(self) -> tuple[Any, tuple[str, ...]]:
        return [(GetAttrKey(name), item) for name, item in self.items.items()], tuple(self.items)

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], children: Any) -> Keyed:
        return cls(**dict(zip(names, children, strict=True)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyed) and self.items == other.items

    __hash__ = None  # type: ignore[assignment]


@pytree.register_dataclass
@dataclass(frozen=True)
class Layer:
    weight: Any
    bias: Any
    activation: str = pytree.static(default="relu")
    size: int = field(default=3, metadata={"static": True, "unit": "cells"})


@pytree.register_static
@dataclass(frozen=True)
class Config:
    depth: int


@dataclass
class Plain:
    x: int


def is_none(value: Any) -> bool:
    return value is None
