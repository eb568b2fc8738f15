"""Pytrees: flattening, structures, key paths, errors, registration."""

from __future__ import annotations

import copy
import functools
import pickle
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyfn import tree as public
from tinyfn import tree_util
from tinyfn.trace import pytree
from tinyfn.trace.pytree import DictKey, FlattenedIndexKey, GetAttrKey, Partial, SequenceKey, keystr


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


# Flattening and rebuilding


@pytest.mark.parametrize(
    ("tree", "expected", "text"),
    [
        (1, [1], "*"),
        (None, [], "None"),
        ([], [], "[]"),
        ((), [], "()"),
        ({}, [], "{}"),
        ((1,), [1], "(*,)"),
        ([1, (2, [3, None])], [1, 2, 3], "[*, (*, [*, None])]"),
        ({"b": (1, None), "a": 2}, [2, 1], "{'a': *, 'b': (*, None)}"),
        (OrderedDict([("b", 1), ("a", 2)]), [1, 2], "OrderedDict({'b': *, 'a': *})"),
        (defaultdict(list, {"b": 1, "a": 2}), [2, 1], "defaultdict(list, {'a': *, 'b': *})"),
        (defaultdict(None, {"b": 1}), [1], "defaultdict(None, {'b': *})"),
        (Point(1, {"a": 2}), [1, 2], "Point(x=*, y={'a': *})"),
        (Box((1, 2), "tag"), [1, 2], "Box['tag'](*, *)"),
        (Pair(1, [2]), [1, 2], "Pair(*, [*])"),
        (Keyed(u=1, v=2), [1, 2], "Keyed[('u', 'v')](*, *)"),
        (Layer(1, 2), [1, 2], "Layer(weight=*, bias=*, activation='relu', size=3)"),
        (Config(3), [], "Config[Config(depth=3)]()"),
        ("text", ["text"], "*"),
        (Plain(1), [1], "Plain(x=*)"),
        ({1, 2}, [{1, 2}], "*"),
    ],
)
def test_flatten_and_unflatten(tree: Any, expected: list[Any], text: str) -> None:
    found, treedef = pytree.flatten(tree)
    assert found == expected == pytree.leaves(tree)
    assert repr(treedef) == f"PyTreeDef({text})"
    assert treedef.num_leaves == len(expected)
    assert treedef == pytree.structure(tree)
    rebuilt = pytree.unflatten(treedef, iter(found))
    assert rebuilt == tree and type(rebuilt) is type(tree)
    assert treedef.unflatten(found) == tree


def test_subclasses_of_containers_are_leaves() -> None:
    class MyDict(dict[str, int]):
        pass

    class MyTuple(tuple[int, ...]):
        __slots__ = ()

    for value in (MyDict(a=1), MyTuple((1, 2))):
        assert pytree.leaves([value])[0] is value


def test_unflatten_copies_containers_and_keeps_leaves() -> None:
    tree = {"a": [object(), object()]}
    again = pytree.map(lambda leaf: leaf, tree)
    assert again["a"] is not tree["a"] and again["a"][0] is tree["a"][0]


def test_named_tuples_are_rebuilt_without_their_constructor() -> None:
    marker = object()
    assert pytree.map(lambda _: marker, Validated(1)).x is marker


def test_is_leaf() -> None:
    assert pytree.leaves([1, None, (2, 3)], is_leaf=is_none) == [1, None, 2, 3]
    assert pytree.leaves([1, (2, 3)], is_leaf=lambda x: isinstance(x, tuple)) == [1, (2, 3)]
    assert (
        pytree.structure([1, None], is_leaf=is_none)
        == pytree.structure([1, 2])
        != pytree.structure([1, None])
    )
    assert pytree.map(lambda x: x is None, [None, 1], is_leaf=is_none) == [True, False]


# Dict order


def test_dicts_line_up_whatever_their_insertion_order() -> None:
    one, two = {"b": 1, "a": 2}, {"a": 20, "b": 10}
    assert pytree.structure(one) == pytree.structure(two)
    assert hash(pytree.structure(one)) == hash(pytree.structure(two))
    total = pytree.map(lambda x, y: x + y, one, two)
    assert total == {"a": 22, "b": 11} and list(total) == ["b", "a"]


def test_unflatten_keeps_the_insertion_order() -> None:
    tree = [{"z": 1, "y": {"b": 2, "a": 3}}, {"a": 4, "b": 5}, defaultdict(int, {"d": 6, "c": 7})]
    for treedef in (pytree.structure(tree), pickle.loads(pickle.dumps(pytree.structure(tree)))):
        again = treedef.unflatten(pytree.leaves(tree))
        assert again == tree
        assert [list(node) for node in again] == [["z", "y"], ["a", "b"], ["d", "c"]]
        assert list(again[0]["y"]) == ["b", "a"] and again[2].default_factory is int


def test_ordered_dict_order_is_structure() -> None:
    one, two = OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)
    assert pytree.structure(one) != pytree.structure(two)
    with pytest.raises(ValueError, match=r"metadata \('a', 'b'\), found metadata \('b', 'a'\)"):
        pytree.structure(one).flatten_up_to(two)


def test_keys_that_cannot_be_compared() -> None:
    tree = {"b": 1, 3: 2, "a": 3, (1, 2): 4, None: 5, 1: 6}
    assert pytree.leaves(tree) == [5, 6, 2, 3, 1, 4]
    reverse = dict(reversed(tree.items()))
    assert pytree.structure(tree) == pytree.structure(reverse)
    assert list(pytree.map(str, reverse)) == list(reverse)


# TreeDef


def test_treedef_equality_and_hash() -> None:
    distinct = [
        0, None, [], (), {}, [0], (0,), {"a": 0}, {"b": 0}, [[0]], [0, 0], ([0], 0), (0, [0]), ([0, 0],),
        [[], 0], [0, []], OrderedDict(a=0), defaultdict(int, a=0), defaultdict(list, a=0), Point(0, 0),
        Box((0,)), Box((0,), 1), Layer(0, 0), Layer(0, 0, "tanh"), Config(1), Config(2),
    ]  # fmt: skip
    treedefs = [pytree.structure(tree) for tree in distinct]
    assert len(set(treedefs)) == len(distinct)
    for index, treedef in enumerate(treedefs):
        assert [treedef == other for other in treedefs].count(True) == 1
        assert treedef == pytree.structure(copy.deepcopy(distinct[index])) and treedef != distinct[index]


def test_treedef_counts_pickles_and_is_usable_as_a_key() -> None:
    tree = {"a": [1, 2, None], "b": (Point(1, 2), Layer(1, 2), OrderedDict(c=3))}
    treedef = pytree.structure(tree)
    assert (treedef.num_leaves, treedef.num_nodes) == (7, 7 + 7)
    assert (pytree.structure(0).num_nodes, pytree.structure(None).num_nodes) == (1, 1)
    for again in (pickle.loads(pickle.dumps(treedef)), copy.copy(treedef), copy.deepcopy(treedef)):
        assert again == treedef and hash(again) == hash(treedef) and {treedef: 1}[again] == 1


def test_unhashable_metadata() -> None:
    treedef = pytree.structure(Box((1,), ["list"]))
    assert treedef == pytree.structure(Box((2,), ["list"]))
    with pytest.raises(TypeError, match="unhashable"):
        hash(treedef)


def test_deep_trees_do_not_recurse() -> None:
    tree: Any = 1
    for level in range(6_000):
        tree = [tree] if level % 2 else {"a": tree, "b": None}
    found, treedef = pytree.flatten(tree)
    assert found == [1] and treedef.num_nodes == 9_001
    again = treedef.unflatten([2])
    assert pytree.leaves(again) == [2] and treedef.flatten_up_to(again) == [2]
    assert treedef == pytree.structure(again) and hash(treedef) == hash(pytree.structure(again))
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    assert repr(treedef).count("*") == 1
    [(path, leaf)] = pytree.leaves_with_path(tree)
    assert len(path) == 6_000 and leaf == 1


@pytest.mark.parametrize("width", [0, 1, 2])
def test_cycles_raise(width: int) -> None:
    cycle: list[Any] = [[1]] * width
    cycle.append({"inner": (cycle, 2)})
    with pytest.raises(ValueError, match="contains itself"):
        pytree.flatten(cycle)


def test_large_trees_with_shared_parts_are_no_cycles() -> None:
    shared = [[], {}]
    assert pytree.structure([shared] * 60_000).num_nodes == 180_001


# map and its relatives


def test_map() -> None:
    assert pytree.map(lambda x: x + 1, {"a": 1, "b": [2, None]}) == {"a": 2, "b": [3, None]}
    assert pytree.map(lambda x, y, z: (x, y, z), [1], [[2]], [None]) == [(1, [2], None)]
    assert pytree.map(lambda x, y: (x, y), Layer(1, 2), Layer(3, [4])) == Layer((1, 3), (2, [4]))
    arrays = pytree.map(np.add, {"a": np.ones(2)}, {"a": np.ones(2)})
    np.testing.assert_array_equal(arrays["a"], [2.0, 2.0])


def test_map_passes_on_what_the_function_raises() -> None:
    def stop(_: Any) -> None:
        raise StopIteration

    with pytest.raises(StopIteration):
        pytree.map(stop, [1, 2])


def test_map_with_path() -> None:
    tree = {"a": [1, 2], "b": Point(3, None)}
    names = pytree.map_with_path(lambda path, x, y: f"{keystr(path)}={x + y}", tree, tree)
    assert names == {"a": ["['a'][0]=2", "['a'][1]=4"], "b": Point("['b'].x=6", None)}


def test_reduce_and_all() -> None:
    assert pytree.reduce(lambda x, y: x * 10 + y, {"b": 3, "a": [1, 2]}) == 123
    assert pytree.reduce(lambda x, y: x + y, [], 5) == 5
    assert pytree.reduce(lambda x, y: x + [y], [1, None], [], is_leaf=is_none) == [1, None]
    with pytest.raises(TypeError):
        pytree.reduce(lambda x, y: x + y, [])
    assert (
        pytree.all({"a": True, "b": [1]}) is True
        and pytree.all([1, [0]]) is False
        and pytree.all(None) is True
    )
    assert pytree.all([1, None], is_leaf=is_none) is False


def test_reduce_associative() -> None:
    values = [str(i) for i in range(7)]
    for count in range(8):
        tree = {"a": values[: count // 2], "b": [values[count // 2 : count], None]}
        assert pytree.reduce_associative(lambda a, b: a + b, tree, identity="") == "".join(values[:count])
    assert pytree.reduce_associative(lambda a, b: f"({a}{b})", values) == "(((01)(23))((45)6))"
    is_list = lambda x: isinstance(x, list) and x != [[1], [2]]
    assert pytree.reduce_associative(lambda a, b: a + b, [[1], [2]], is_leaf=is_list) == [1, 2]
    with pytest.raises(TypeError, match="needs `identity`"):
        pytree.reduce_associative(lambda a, b: a, [None])


def test_the_names_of_tree_util() -> None:
    for name in pytree.__all__:
        if hasattr(tree_util, f"tree_{name}"):
            assert getattr(tree_util, f"tree_{name}") is getattr(pytree, name)
    assert {"tree_map", "tree_flatten", "tree_reduce_associative"} <= set(tree_util.__all__)
    tree = {"a": [1, (2, None)], "b": Point(3, [])}
    treedef = pytree.structure(tree)
    assert tree_util.treedef_children(treedef) == [pytree.structure(tree["a"]), pytree.structure(tree["b"])]
    assert tree_util.treedef_tuple([treedef, pytree.structure(0)]) == pytree.structure((tree, 0))
    assert tree_util.treedef_is_leaf(pytree.structure(5)) and not tree_util.treedef_is_leaf(
        pytree.structure([5])
    )
    assert (
        tree_util.treedef_children(pytree.structure(5))
        == tree_util.treedef_children(pytree.structure(None))
        == []
    )
    assert tree_util.all_leaves([1, "a"]) and not tree_util.all_leaves([1, [2]])
    assert tree_util.all_leaves([[2]], is_leaf=lambda x: isinstance(x, list))


def test_transpose() -> None:
    outer, inner = pytree.structure([0, 0, 0]), pytree.structure({"a": 0, "b": (0,)})
    tree = [{"a": i, "b": (i * 10,)} for i in range(3)]
    expected = {"a": [0, 1, 2], "b": ([0, 10, 20],)}
    assert pytree.transpose(outer, inner, tree) == expected
    assert pytree.transpose(outer, None, tree) == expected
    assert pytree.transpose(inner, outer, expected) == tree
    with pytest.raises(ValueError, match=r"inner structure at \[1\]: .*missing keys \['b'\]"):
        pytree.transpose(outer, inner, [tree[0], {"a": 1}, tree[2]])
    with pytest.raises(
        ValueError, match="outer structure at the root: expected list of length 3, found length 2"
    ):
        pytree.transpose(outer, inner, tree[:2])
    with pytest.raises(ValueError, match="no leaf to find the inner one"):
        pytree.transpose(pytree.structure([]), None, [])


def test_broadcast_prefix() -> None:
    full = ({"a": 1, "b": [2, 3]}, 4, None)
    assert pytree.broadcast_prefix(0, full) == [0, 0, 0, 0]
    assert pytree.broadcast_prefix((0, 1, 2), full) == [0, 0, 0, 1]
    assert pytree.broadcast_prefix(({"a": 7, "b": 8}, 9, None), full) == [7, 8, 8, 9]
    assert pytree.broadcast_prefix((None, 1, 2), full, is_leaf=is_none) == [None, None, None, 1]
    assert pytree.broadcast_prefix(({"a": None, "b": 0}, None, None), full, is_none) == [None, 0, 0, None]
    assert pytree.broadcast((5, 6, 7), full) == ({"a": 5, "b": [5, 5]}, 6, None)
    with pytest.raises(
        ValueError, match=r"prefix at \[0\]: expected None .*, found dict with keys \['a', 'b'\]"
    ):
        pytree.broadcast_prefix((None, 1, 2), full)
    with pytest.raises(ValueError, match="prefix at the root: expected tuple of length 2, found length 3"):
        pytree.broadcast_prefix((0, 1), full)


# Errors


@pytest.mark.parametrize(
    ("one", "two", "message"),
    [
        ({"a": [1, 2]}, {"a": (1, 2)}, "at ['a']: expected list of length 2, found tuple of length 2"),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, "at ['a']: expected list of length 2, found length 3"),
        ({"a": [1, 2]}, {"a": 1.5}, "at ['a']: expected list of length 2, found a leaf of type float"),
        ((1, {"a": 1, "b": 2}), (1, {"a": 1, "c": 2}),
         "at [1]: expected dict with keys ['a', 'b'], found missing keys ['b'] and extra keys ['c']"),
        ({"a": 1}, {"a": 1, "c": 2}, "at the root: expected dict with keys ['a'], found extra keys ['c']"),
        (defaultdict(int, a=1), defaultdict(int), "found missing keys ['a']"),
        (defaultdict(int, a=1), defaultdict(list, a=1), "expected defaultdict with metadata"),
        ({"a": 1}, OrderedDict(a=1), "expected dict with keys ['a'], found OrderedDict with keys ['a']"),
        ([1, None], [1, 2], "at [1]: expected None (an empty subtree; is_leaf=lambda x: x is None makes it "),
        ([1, (2,)], [1, None], "at [1]: expected tuple of length 1, found None (an empty subtree"),
        (Point(1, [2]), Point(1, (2,)), "at .y: expected list of length 1, found tuple of length 1"),
        (Point(1, 2), (1, 2), "expected Point, found tuple of length 2"),
        (Layer([1], 2), Layer((1,), 2), "at .weight: expected list"),
        (Layer(1, 2), Layer(1, 2, "tanh"),
         "expected Layer with metadata ('relu', 3), found metadata ('tanh', 3)"),
        (Box((1, [2])), Box((1, 2)), "at [<flat index 1>]: expected list"),
        (Box((1, 2)), Box((1,)), "expected Box of length 2, found length 1"),
        (Keyed(u=1, v=[2]), Keyed(u=1, v=2), "at .v: expected list"),
        ([[1], [2, {"k": (3,)}]], [[1], [2, {"k": 3}]], "at [1][1]['k']: expected tuple of length 1"),
    ],
)  # fmt: skip
def test_mismatch_names_the_path(one: Any, two: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        pytree.map(lambda x, y: x, one, two)
    assert message in str(caught.value) and "tree.map: tree 2 does not match the first tree" in str(
        caught.value
    )
    with pytest.raises(ValueError) as caught:
        pytree.structure(one).flatten_up_to(two)
    assert str(caught.value).startswith("structure mismatch") and message in str(caught.value)
    with pytest.raises(ValueError, match=r"tree\.map_with_path: tree 3"):
        pytree.map_with_path(lambda path, *xs: xs, one, one, two)


def test_unflatten_with_the_wrong_number_of_leaves() -> None:
    treedef = pytree.structure({"a": 1, "b": [2, 3]})
    with pytest.raises(
        ValueError, match=r"expected 3 leaves, found 2; the first leaf without a value is at \['b'\]\[1\]"
    ):
        treedef.unflatten([1, 2])
    with pytest.raises(
        ValueError, match=r"expected 3 leaves, found 4; the last leaf is at \['b'\]\[1\] of PyTreeDef"
    ):
        treedef.unflatten(range(4))
    with pytest.raises(ValueError, match="found 1; the structure has no leaves"):
        pytree.structure(None).unflatten([1])
    with pytest.raises(ValueError, match="without a value is at the root"):
        pytree.structure(0).unflatten([])


def test_long_keys_and_metadata_are_cut() -> None:
    with pytest.raises(ValueError) as caught:
        pytree.map(lambda x, y: x, {f"key{i}": i for i in range(1000)}, {"other": 0})
    assert len(str(caught.value)) < 1000


# Key paths


def test_flatten_with_path() -> None:
    tree = {
        "a": [0, Point(1, None)],
        "b": Box((2, (3,))),
        "c": Keyed(u=4),
        "d": Layer(5, {"e": 6}),
        7: Pair(8, 9),
    }
    pairs, treedef = pytree.flatten_with_path(tree)
    assert treedef == pytree.structure(tree)
    assert [leaf for _, leaf in pairs] == pytree.leaves(tree)
    assert {keystr(path): leaf for path, leaf in pytree.leaves_with_path(tree)} == {
        "['a'][0]": 0, "['a'][1].x": 1, "['b'][<flat index 0>]": 2, "['b'][<flat index 1>][0]": 3,
        "['c'].u": 4, "['d'].weight": 5, "['d'].bias['e']": 6, "[7][<flat index 0>]": 8,
        "[7][<flat index 1>]": 9,
    }  # fmt: skip
    assert pytree.leaves_with_path(5) == [((), 5)]
    assert pytree.leaves_with_path([None], is_leaf=is_none) == [((SequenceKey(0),), None)]


def test_keystr() -> None:
    path = (DictKey("a"), SequenceKey(0), GetAttrKey("x"), FlattenedIndexKey(3))
    assert keystr(path) == "['a'][0].x[<flat index 3>]"
    assert keystr(path, simple=True, separator=".") == "a.0.x.3"
    assert keystr(path, simple=True, separator="/") == "a/0/x/3"
    assert keystr(path, separator=" ") == "['a'] [0] .x [<flat index 3>]"
    assert keystr(()) == "" and keystr(("own", 1), simple=True, separator=".") == "own.1"


def test_key_entries_are_values() -> None:
    entries = [DictKey("a"), DictKey(0), SequenceKey(0), FlattenedIndexKey(0), GetAttrKey("a")]
    assert len({*entries, *copy.deepcopy(entries), *pickle.loads(pickle.dumps(entries))}) == 5
    assert [repr(entry) for entry in entries] == [
        "DictKey(key='a')", "DictKey(key=0)", "SequenceKey(idx=0)", "FlattenedIndexKey(key=0)",
        "GetAttrKey(name='a')",
    ]  # fmt: skip
    assert (DictKey("a").key, SequenceKey(1).idx, GetAttrKey("x").name, FlattenedIndexKey(2).key) == (
        "a",
        1,
        "x",
        2,
    )
    assert DictKey("{}") != "{}" and str(DictKey("{}")) == "['{}']"
    with pytest.raises(AttributeError, match="immutable"):
        DictKey("a").key = "b"


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
        assert getattr(public, name) is getattr(pytree, name) and getattr(public, name).__doc__
    walks = (
        "map leaves flatten unflatten structure reduce all transpose broadcast map_with_path "
        "leaves_with_path flatten_with_path static"
    )
    assert set(walks.split()) <= set(public.__all__)
    assert {name for name in pytree.__all__ if name.startswith("register")} <= set(public.__all__)


# Random trees

leaf = st.one_of(st.integers(), st.floats(allow_nan=False), st.text(max_size=3), st.booleans())
key = st.one_of(st.text(max_size=2), st.integers(-3, 3), st.tuples(st.integers(0, 2)))


def containers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    items = st.lists(children, max_size=4)
    pairs = st.dictionaries(key, children, max_size=4)
    return st.one_of(
        items,
        items.map(tuple),
        pairs,
        pairs.map(OrderedDict),
        pairs.map(lambda d: defaultdict(list, d)),
        st.builds(Point, children, children),
        st.builds(lambda xs, tag: Box(tuple(xs), tag), items, st.integers(0, 1)),
        st.builds(Pair, children, children),
        st.dictionaries(st.sampled_from("abc"), children).map(lambda d: Keyed(**d)),
        st.builds(Layer, children, children, st.sampled_from(["relu", "tanh"])),
        st.builds(Config, st.integers(0, 1)),
        st.builds(
            lambda xs, d: Partial(add, *xs, **d), items, st.dictionaries(st.sampled_from("ab"), children)
        ),
        st.none(),
    )


trees = st.recursive(leaf, containers, max_leaves=15)


def orders(tree: Any) -> list[list[Any]]:
    """The key order of every dict in a tree, in a fixed order of the dicts."""
    found: list[list[Any]] = []
    pytree.leaves(tree, is_leaf=lambda x: isinstance(x, dict) and found.append(list(x)))  # type: ignore[func-returns-value]
    return found


@settings(max_examples=150, deadline=None)
@given(trees)
def test_round_trip(tree: Any) -> None:
    found, treedef = pytree.flatten(tree)
    again = treedef.unflatten(found)
    found_again, treedef_again = pytree.flatten(again)
    assert treedef_again == treedef and hash(treedef_again) == hash(treedef)
    assert len(found_again) == len(found) == treedef.num_leaves
    assert all(one is two for one, two in zip(found_again, found, strict=True))
    assert orders(again) == orders(tree)
    assert repr(treedef_again) == repr(treedef)
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    # A walk with is_leaf takes another way through the code.
    assert pytree.flatten(tree, lambda _: False) == (found, treedef)
    assert treedef.flatten_up_to(tree) == found


@settings(max_examples=150, deadline=None)
@given(trees)
def test_paths_are_unique_and_complete(tree: Any) -> None:
    pairs, treedef = pytree.flatten_with_path(tree)
    assert treedef == pytree.structure(tree)
    assert [item for _, item in pairs] == pytree.leaves(tree)
    assert len({path for path, _ in pairs}) == len(pairs)


@settings(max_examples=150, deadline=None)
@given(trees, trees)
def test_equality_agrees_with_flatten_up_to(one: Any, two: Any) -> None:
    treedef, other = pytree.structure(one), pytree.structure(two)
    try:
        subtrees = treedef.flatten_up_to(two)
    except ValueError as error:
        assert treedef != other and str(error).startswith("structure mismatch at ")
        assert "from one time to the next" not in str(error)
    else:
        assert [item for subtree in subtrees for item in pytree.leaves(subtree)] == pytree.leaves(two)
        assert (treedef == other) == all(
            pytree.structure(subtree) == pytree.structure(0) for subtree in subtrees
        )


@settings(max_examples=100, deadline=None)
@given(trees, st.integers(0, 10**9))
def test_prefixes(tree: Any, seed: int) -> None:
    nodes = np.random.default_rng(seed)
    # Not inside a Partial: it cannot hold a label in place of its tuple of arguments.
    cut = lambda value: isinstance(value, Partial) or bool(nodes.integers(2))
    prefix_leaves, prefix = pytree.flatten(tree, is_leaf=cut)
    labels = list(range(len(prefix_leaves)))
    expected = [label for label, sub in zip(labels, prefix_leaves, strict=True) for _ in pytree.leaves(sub)]
    assert pytree.broadcast_prefix(prefix.unflatten(labels), tree) == expected
    assert pytree.leaves(pytree.broadcast(prefix.unflatten(labels), tree)) == expected
