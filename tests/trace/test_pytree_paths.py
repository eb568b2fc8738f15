"""Key paths of pytrees, and the errors that name them."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict, defaultdict
from typing import Any

import pytest

from tests.trace.trees import Box, Keyed, Layer, Pair, Point, is_none
from tinyfn.trace import pytree
from tinyfn.trace.pytree import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey, keystr

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


def test_is_leaf_may_be_asked_with_the_path() -> None:
    tree = {"a": [1, (2, None)], "b": Point((3, 4), {"c": [5]}), "d": (), "e": Keyed(one=[6], two={"x": 7})}
    seen: list[str] = []

    def is_leaf(path: Any, value: Any) -> bool:
        seen.append(pytree.keystr(path))
        return pytree.keystr(path) in ("['a'][1]", "['b'].y['c']")

    pairs, treedef = pytree.flatten_with_path(tree, is_leaf, is_leaf_takes_path=True)
    plain = pytree.flatten_with_path(tree, lambda v: v in ((2, None), [5]))
    assert pairs == plain[0] and treedef == plain[1]
    assert pytree.leaves_with_path(tree, is_leaf, True) == pairs
    # Once each, with the path that key paths spell, and not for what is a leaf in any case.
    every = {pytree.keystr(path[:n]) for path, _ in pytree.leaves_with_path(tree) for n in range(len(path))}
    assert (
        len(set(seen)) == len(seen) // 2
        and set(seen) >= {"", "['a']", "['b'].x", "['e']"}
        and set(seen) - {"['d']"} <= every
    )
    doubled = pytree.map_with_path(
        lambda path, v: len(path), tree, is_leaf=lambda path, v: len(path) == 1, is_leaf_takes_path=True
    )
    assert doubled == {"a": 1, "b": 1, "d": 1, "e": 1}
