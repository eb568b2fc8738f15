"""Properties of pytrees, on random ones."""

from __future__ import annotations

import pickle
from collections import OrderedDict, defaultdict
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trace.test_pytree_registration import add
from tests.trace.trees import Box, Config, Keyed, Layer, Pair, Point
from tinyfn.trace import pytree
from tinyfn.trace.pytree import Partial

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
