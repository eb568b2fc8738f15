"""Pytrees: flattening, structures, key paths, errors, registration."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections import OrderedDict, defaultdict
from typing import Any

import numpy as np
import pytest

from tests.trace.trees import Box, Config, Keyed, Layer, Pair, Plain, Point, Validated, is_none
from tinyfn import tree_util
from tinyfn.trace import pytree
from tinyfn.trace.pytree import keystr

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
            assert inspect.unwrap(getattr(tree_util, f"tree_{name}")) is getattr(pytree, name)
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
