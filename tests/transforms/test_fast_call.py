"""The generated call path does what the general one does, and is left where a call is not as it was."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import jit
from tinyfn.devices import default_device, set_default_device
from tinyfn.trace import pytree
from tinyfn.trace.array import Array
from tinyfn.trace.pytree_source import Names, put_together, take_apart
from tinyfn.transforms import fast_call


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    before = default_device()
    set_default_device("cpu")
    yield
    set_default_device(before)


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass
class Layer:
    w: Any
    size: int = tinyfn.tree.static(default=3)


def same(a: Any, b: Any) -> None:
    assert pytree.structure(a) == pytree.structure(b)
    for x, y in zip(pytree.leaves(a), pytree.leaves(b), strict=True):
        assert type(x) is Array and x.dtype is y.dtype and x.shape == y.shape and x.weak_type == y.weak_type
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
        assert not np.asarray(x).flags.writeable


def calls(function: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """The results of the general path, of the one that makes the generated path, and of that twice."""
    results = [function(*args, **kwargs) for _ in range(2)]
    path = function._fast
    assert path is not None
    taken = [path(args, kwargs), path(args, kwargs)]
    assert fast_call.MISS not in [t if t is fast_call.MISS else None for t in taken]
    return results + taken


X, Y = tnp.asarray(np.arange(6.0, dtype=np.float32)), tnp.asarray(np.arange(6, dtype=np.int32))

TREES = [
    X,
    (X,),
    [X, (Y, [X], ())],
    {"b": X, "a": Y},
    {"a": {"c": X, "b": [Y]}, "z": None},
    {3: X, 1: Y},
    {("a", 1): X, ("a", 0): Y},
    OrderedDict([("z", X), ("a", Y)]),
    defaultdict(list, {"z": X, "a": Y}),
    Point(X, Point(Y, X)),
    Layer(X, 7),
    [Layer(X), {"p": Point(Layer(Y, 1), None)}],
    (),
    None,
    {},
]


@pytest.mark.parametrize("tree", TREES, ids=range(len(TREES)))
def test_any_tree_in_and_out(tree: Any) -> None:
    f = jit(lambda t: (tinyfn.tree.map(lambda x: x + 1, t), t, 2.5))
    results = calls(f, tree)
    for other in results[1:]:
        same(other, results[0])
        assert list(map(str, pytree.leaves_with_path(other))) == list(
            map(str, pytree.leaves_with_path(results[0]))
        )
    if isinstance(tree, dict):
        assert [list(r[0]) for r in results] == [list(tree)] * 4  # in the order in which it was filled


keys = st.one_of(st.text("ab'\"\\\n", max_size=3), st.integers(-3, 3))
trees = st.recursive(
    st.just(0) | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
        | st.dictionaries(keys, inner, max_size=2).map(lambda d: defaultdict(int, d))
        | st.dictionaries(keys, inner, max_size=2).map(OrderedDict)
        | st.tuples(inner, inner).map(lambda p: Point(*p))
        | inner.map(lambda x: Layer(x, 2))
    ),
    max_leaves=12,
)


def generated(tree: Any) -> tuple[Callable[[Any], Any], Callable[[list[Any]], Any]]:
    structure = pytree.structure((tree,))
    names = Names()
    lines, leaves = take_apart(structure, ("tree",), names, "return None")
    source = ["def flatten(tree):", *lines, f"return [{', '.join(leaves)}]"]
    out = [f"leaves[{i}]" for i in range(structure.num_leaves)]
    made, whole = put_together(structure, out, names)
    exec("\n    ".join(source), names.constants)
    exec("\n    ".join(["def unflatten(leaves):", *made, f"return {whole}"]), names.constants)
    return names.constants["flatten"], names.constants["unflatten"]


@given(trees, trees)
def test_generated_source_does_what_pytrees_do(tree: Any, other: Any) -> None:
    flatten, unflatten = generated(tree)
    leaves, structure = pytree.flatten((tree,))
    numbered = pytree.unflatten(structure, range(len(leaves)))
    assert flatten(numbered[0]) == list(range(len(leaves)))
    assert repr(unflatten(list(range(len(leaves))))) == repr(numbered)
    try:
        found = flatten(other)
    except KeyError:
        found = None
    if found is not None and any(type(leaf) is not int for leaf in found):
        found = None  # a container in the place of a leaf, which is for the call to see
    assert (found is not None) == (pytree.structure(other) == pytree.structure(tree))
    if found is not None:
        assert found == pytree.leaves(other)


OTHERS: list[Any] = [
    tnp.arange(7.0),
    tnp.arange(6.0).reshape(2, 3),
    tnp.arange(6.0).reshape(1, 6),
    tnp.asarray(np.arange(6, dtype=np.float64)),
    tnp.asarray(np.arange(6, dtype=np.int32)),
    tnp.asarray(np.arange(6).astype(ml_dtypes.bfloat16)),
    2.0,
    3,
    True,
    np.float32(1.5),
    np.arange(6, dtype=np.float32),
    np.arange(12, dtype=np.float32)[::2],
    np.arange(6, dtype=">f4"),
    np.arange(6, dtype=np.float64),
    [X],
    (X, X),
    {"x": X},
    None,
]


@pytest.mark.parametrize("other", OTHERS, ids=map(repr, map(type, OTHERS)))
def test_another_kind_of_argument_takes_the_general_path(other: Any) -> None:
    def f(x: Any) -> Any:
        return tinyfn.tree.map(lambda a: a * 2 + 1, x)

    g = jit(f)
    for _ in range(3):
        same(g(X), jit(f)(X))
        same(g(other), jit(f)(other))
    again = g.cache_info()
    for _ in range(3):
        g(other)
        g(X)
    assert g.cache_info().misses == again.misses <= 2 and g.cache_info().hits == again.hits + 6


def test_strided_values_are_read_right() -> None:
    f = jit(lambda x: x + 1.0)
    x = tnp.arange(12.0).reshape(3, 4)
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(f(x.T + 0.0)), np.arange(12.0).reshape(3, 4).T + 1)
        np.testing.assert_array_equal(np.asarray(f(x.T)), np.arange(12.0).reshape(3, 4).T + 1)


def test_arrays_of_numpy_are_read_and_never_kept() -> None:
    f = jit(lambda x, y: (x + 1.0, x, y * 2.0))
    mine = np.zeros(5, np.float32)
    for i in range(4):
        mine[:] = i
        a, b, c = f(mine, 3.0)
        mine[:] = 100
        assert np.asarray(a).tolist() == [i + 1.0] * 5 and np.asarray(b).tolist() == [float(i)] * 5
        assert float(c) == 6.0
    assert mine.flags.writeable
    plus = jit(lambda x: x + 1.0)
    results = []
    for i in range(4):
        mine[:] = i
        results.append(plus(mine))
    assert [float(r[0]) for r in results] == [1.0, 2.0, 3.0, 4.0] and mine.flags.writeable


def test_static_arguments() -> None:
    f = jit(
        lambda x, n, mode="a": x * n + (1 if mode == "a" else 2), static_argnums=1, static_argnames="mode"
    )
    x = tnp.ones(3)
    for _ in range(3):
        for n in (2, 2.0, 5, True):
            for mode in ("a", "b"):
                want = np.full(3, 1.0 * n + (1 if mode == "a" else 2))
                np.testing.assert_array_equal(np.asarray(f(x, n, mode=mode)), want)
                np.testing.assert_array_equal(np.asarray(f(x, n, mode=mode)), want)
    assert f.cache_info().size == 8

    class Mutable:
        factor = 2.0

        def __hash__(self) -> int:
            return hash(self.factor)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Mutable) and self.factor == other.factor

    g = jit(lambda x, c: x * c.factor, static_argnums=1)
    config = Mutable()
    for factor in (2.0, 3.0, 2.0):
        config.factor = factor
        for _ in range(3):
            assert float(g(x, config)[0]) == factor


def test_keywords_in_any_order() -> None:
    f = jit(lambda a, *, b, c: a + 10.0 * b + 100.0 * c)
    one, two, three = tnp.ones(()), tnp.ones(()) * 2, tnp.ones(()) * 3
    for _ in range(3):
        assert float(f(one, b=two, c=three)) == float(f(one, c=three, b=two)) == 321.0
    assert f.cache_info().misses == 1


def test_within_a_trace_and_after_it() -> None:
    f = jit(lambda x: x * x)
    x = tnp.asarray(3.0)
    for _ in range(3):
        assert float(f(x)) == 9.0
        assert float(tinyfn.grad(f)(x)) == 6.0
        assert float(tinyfn.grad(lambda y: f(y) * f(x))(x)) == 54.0
        assert np.asarray(tinyfn.vmap(f)(tnp.arange(3.0))).tolist() == [0.0, 1.0, 4.0]


def test_donated_arrays_are_gone_and_say_so() -> None:
    f = jit(lambda state, x: ([s + x for s in state], x), donate_argnums=0)
    x = tnp.ones(3)
    state = [tnp.zeros(3) + i for i in range(3)]
    for i in range(5):
        old, (state, _) = state, f(state, x)
        assert all(s.is_deleted() for s in old) and not x.is_deleted()
        assert [float(s[0]) for s in state] == [i + 1.0, i + 2.0, i + 3.0]
        with pytest.raises(RuntimeError, match="donated"):
            f(old, x)
        with pytest.raises(ValueError, match="passed twice"):
            f([state[0], state[0], state[1]], x)
        with pytest.raises(ValueError, match="passed twice"):
            f(state, state[0])
    assert not any(s.is_deleted() for s in state)


def test_captured_arrays() -> None:
    w = tnp.ones(3)
    f = jit(lambda x: x + w)
    for _ in range(3):
        assert float(f(w)[0]) == 2.0
    jit(lambda x: x + 1.0, donate_argnums=0)(w)
    with pytest.raises(RuntimeError, match="donated"):
        f(tnp.ones(3))


def test_errors_name_the_users_line() -> None:
    f = jit(lambda x: x + 1)
    for _ in range(3):
        f(X)
    for bad in ("text", object(), [X, "text"]):
        with pytest.raises(TypeError, match=f"argument `x.*{os.path.basename(__file__)}"):
            f(bad)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        f()
    g = jit(lambda x: x + 1)
    for _ in range(3):
        g(1)
    with pytest.raises(OverflowError, match=f"does not fit.*{os.path.basename(__file__)}"):
        g(1 << 40)


def test_clearing_the_cache_forgets_the_path() -> None:
    offset = [1.0]
    f = jit(lambda x: x + offset[0])
    for _ in range(3):
        assert float(f(X)[0]) == 1.0
    offset[0] = 5.0
    assert float(f(X)[0]) == 1.0
    f.clear_cache()
    assert float(f(X)[0]) == 5.0


def test_results_with_several_uses_of_one_value() -> None:
    f = jit(lambda x: (y := x * 2.0, y, x, {"z": y}, y.astype("int32")))
    for result in calls(f, X):
        a, b, c, d, e = result
        same([a, b, d["z"]], [X * 2.0] * 3)
        same(c, X)
        assert e.dtype == np.int32
    donating = jit(lambda a: a + 1.0, donate_argnums=0)
    a, b, *_ = f(X)
    donating(a)
    same(b, X * 2.0)  # which shared its memory


def test_several_threads_and_signatures_at_once() -> None:
    f = jit(lambda tree: tinyfn.tree.map(lambda x: x * 2.0 + 1.0, tree))
    wrong: list[Any] = []

    def work(seed: int) -> None:
        generator = np.random.default_rng(seed)
        for _ in range(300):
            shape = (int(generator.integers(1, 5)), 3)
            value = generator.normal(size=shape).astype(np.float32)
            tree = {"a": tnp.asarray(value), "b": [tnp.asarray(value[0])]}
            got = f(tree)
            if not np.array_equal(np.asarray(got["a"]), value * np.float32(2) + np.float32(1)):
                wrong.append(shape)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    info = f.cache_info()
    assert info.size == 4 and info.hits + info.misses == 8 * 300
