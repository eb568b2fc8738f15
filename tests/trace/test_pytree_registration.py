"""Pytree nodes of all kinds: registered classes, dataclasses, static ones, partial functions."""

from __future__ import annotations

import functools
import inspect
import pickle
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from tests.trace.trees import Box, Config, Pair
from tinyfn import tree as public
from tinyfn.trace import pytree
from tinyfn.trace.pytree import DictKey, GetAttrKey, Partial, keystr

# Registration


def test_registering_twice_or_no_class() -> None:
    with pytest.raises(ValueError, match="Box is already registered"):
        pytree.register_pytree_node(Box, lambda box: ((), None), lambda metadata, children: None)
    with pytest.raises(ValueError, match=r"builtins\.dict is already registered"):
        pytree.register_static(dict)
    with pytest.raises(TypeError, match="a class is needed"):
        pytree.register_static(3)


def test_a_class_may_be_registered_after_it_was_a_leaf() -> None:
    class Late:
        pass

    late = Late()
    assert pytree.leaves([late, late]) == [late, late]
    pytree.register_pytree_node(Late, lambda _: ((1, 2), None), lambda metadata, children: Late())
    assert pytree.leaves([late]) == [1, 2]


def test_a_registered_named_tuple_follows_its_registration() -> None:
    class Tagged(NamedTuple):
        value: int
        tag: str

    pytree.register_pytree_node(Tagged, lambda t: ((t.value,), t.tag), lambda tag, c: Tagged(c[0], tag))
    assert pytree.map(lambda x: x + 1, Tagged(1, "t")) == Tagged(2, "t")


def test_a_registered_dict_subclass_has_its_own_metadata() -> None:
    class Table(dict[str, Any]):
        pass

    pytree.register_pytree_node(Table, lambda t: (t.values(), len(t)), lambda n, c: Table(enumerate(c)))
    with pytest.raises(ValueError, match="expected Table with metadata 1, found metadata 2"):
        pytree.structure(Table(a=1)).flatten_up_to(Table(a=1, b=2))


def test_bad_flatten_result() -> None:
    class Bad:
        pass

    pytree.register_pytree_node(Bad, lambda _: [1], lambda metadata, children: Bad())  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"Bad's flatten function must return \(children, metadata\), not \[1\]"
    ):
        pytree.flatten(Bad())


def test_with_keys_uses_the_plain_function_where_paths_are_not_asked_for() -> None:
    calls = []

    class Both:
        def tree_flatten_with_keys(self) -> Any:
            calls.append("keys")
            return ((DictKey("k"), 1),), None

        def tree_flatten(self) -> Any:
            calls.append("plain")
            return (1,), None

        @classmethod
        def tree_unflatten(cls, metadata: None, children: Any) -> Both:
            return cls()

    pytree.register_pytree_with_keys_class(Both)
    assert pytree.leaves(Both()) == [1] and calls == ["plain"]
    assert pytree.leaves_with_path(Both()) == [((DictKey("k"),), 1)] and calls[-1] == "keys"


def test_register_dataclass_fields() -> None:
    @dataclass
    class Explicit:
        a: Any
        b: Any
        c: Any = field(init=False, default=0)

    with pytest.raises(
        ValueError, match=r"Explicit\): data_fields \['a'\] and meta_fields \[\] must name each init"
    ):
        pytree.register_dataclass(Explicit, data_fields=["a"], meta_fields=[])
    for data_fields, meta_fields in ((["a", "c"], None), (["a", "b"], ["b"]), (None, ["missing"])):
        with pytest.raises(ValueError, match=r"must name each init field once; those are \['a', 'b'\]"):
            pytree.register_dataclass(Explicit, data_fields, meta_fields)
    assert pytree.register_dataclass(meta_fields=["b"])(Explicit) is Explicit
    assert pytree.flatten(Explicit(1, 2))[0] == [1]
    assert pytree.map(lambda x: x + 1, Explicit(1, 2)) == Explicit(2, 2)

    @functools.partial(pytree.register_dataclass, data_fields=["b"])
    @dataclass
    class Rest:
        a: Any
        b: Any

    assert pytree.leaves_with_path(Rest(1, 2)) == [((GetAttrKey("b"),), 2)]
    with pytest.raises(TypeError, match="needs a dataclass"):
        pytree.register_dataclass(Pair)


def test_dataclasses_are_nodes_without_registration() -> None:
    @dataclass
    class Model:
        weights: Any
        name: str = pytree.static(default="m")

    model = Model({"a": 1, "b": [2, 3]})
    assert [keystr(path) for path, _ in pytree.leaves_with_path(model)] == [
        ".weights['a']", ".weights['b'][0]", ".weights['b'][1]",
    ]  # fmt: skip
    assert pytree.map(lambda x: x * 2, model) == Model({"a": 2, "b": [4, 6]})
    # An explicit registration may still say otherwise.
    pytree.register_dataclass(Model, data_fields=[], meta_fields=["weights", "name"])
    assert pytree.leaves(model) == []


def test_register_static() -> None:
    assert pytree.map(lambda x: x + 1, [1, Config(2)]) == [2, Config(2)]
    assert pytree.structure(Config(1)) != pytree.structure(Config(2)) == pytree.structure(Config(2))


def add(*args: Any, **keywords: Any) -> Any:
    return sum(args) + sum(keywords.values())


def test_partial() -> None:
    partial = Partial(add, 1, [2][0], z=3)
    assert partial(4) == 10 and isinstance(partial, functools.partial)
    assert [(keystr(path), leaf) for path, leaf in pytree.leaves_with_path(partial)] == [
        (".args[0]", 1), (".args[1]", 2), (".keywords['z']", 3),
    ]  # fmt: skip
    doubled = pytree.map(lambda x: 2 * x, partial)
    assert type(doubled) is Partial and doubled(4) == 16 and doubled.func is add
    assert pytree.structure(partial) == pytree.structure(doubled) != pytree.structure(Partial(max, 1, 2, z=3))
    assert pickle.loads(pickle.dumps(partial))(4) == 10


def test_partial_of_partials() -> None:
    inner = functools.partial(add, 1)
    outer = Partial(inner, 2)
    assert pytree.leaves(outer) == [2] and outer(3) == 6
    assert pytree.structure(outer) == pytree.structure(Partial(inner, 5))
    assert pytree.map(lambda x: x * 10, outer)(3) == 24
    assert pytree.leaves(Partial(Partial(add, 1), 2)) == [1, 2]


# The public surface and the import


def test_public_surface() -> None:
    for name in public.__all__:
        assert inspect.unwrap(getattr(public, name)) is getattr(pytree, name)
        assert getattr(public, name).__doc__
    walks = (
        "map leaves flatten unflatten structure reduce all transpose broadcast map_with_path "
        "leaves_with_path flatten_with_path static"
    )
    assert set(walks.split()) <= set(public.__all__)
    assert {name for name in pytree.__all__ if name.startswith("register")} <= set(public.__all__)


def test_keys_beside_a_plain_registration_and_fields_left_out() -> None:
    class Two:
        def __init__(self, one: Any, two: Any):
            self.one, self.two = one, two

    pytree.register_pytree_node(
        Two, lambda v: ((v.one, v.two), None), lambda _, children: Two(*children),
        flatten_with_keys_func=lambda v: (((GetAttrKey("one"), v.one), (GetAttrKey("two"), v.two)), None),
    )  # fmt: skip
    assert [pytree.keystr(path) for path, _ in pytree.leaves_with_path(Two(1, [2]))] == [".one", ".two[0]"]
    assert pytree.map(lambda v: v + 1, Two(1, 2)).two == 3

    @dataclass
    class Cached:
        value: Any
        cache: Any = None

    pytree.register_dataclass(Cached, ["value"], [], drop_fields=["cache"])
    again = pytree.map(lambda v: v * 2, Cached(3, {"big": 1}))
    assert (again.value, again.cache) == (6, None) and pytree.leaves(Cached(1, 2)) == [1]
