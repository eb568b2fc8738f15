"""Trees saved and restored by key path: names, strictness, Python scalars, objects, atomic checks."""

from __future__ import annotations

import enum
import logging
import pickle
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyfn.checkpoint import (
    StateDictError,
    get_parameters,
    get_state_dict,
    load_state_dict,
    restore,
    safe_load,
    safe_load_metadata,
    safe_save,
    save,
)
from tinyfn.trace import pytree


class AdamState(NamedTuple):
    step: Any
    mean: Any
    extra: Any = None


@dataclass
class Block:
    weight: Any
    steps: int = 3
    note: str = "configuration"
    parts: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Frozen:
    weight: Any
    scale: float = 0.5


class Linear:
    def __init__(self, inputs: int, outputs: int, fill: float = 0.0) -> None:
        self.weight = np.full((outputs, inputs), fill, np.float32)
        self.bias = np.full((outputs,), fill, np.float32)
        self.inputs = inputs
        self.activation = np.tanh


class Model:
    def __init__(self, fill: float = 0.0) -> None:
        self.layers = [Linear(2, 3, fill), np.tanh, Linear(3, 4, fill)]
        self.heads = {"a": Linear(4, 1, fill), "b": (Linear(4, 2, fill),)}
        self.norm = AdamState(np.full(2, fill), None)
        self.epsilon = 1e-5
        self.name = "model"
        self.config = {"depth": 2, "sizes": {1, 2}}
        self.nothing = None


class Aval:
    """A shape and a dtype is all that a template needs."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)


def tree() -> dict[str, Any]:
    return {
        "layers": [
            {"w": np.arange(6, dtype=np.float32).reshape(2, 3)},
            {"w": np.ones(2, ml_dtypes.bfloat16)},
        ],
        "opt": AdamState(7, (np.float32(0.5), np.zeros((0, 2)))),
        "flags": {"on": True, "lr": 1e-3, "none": None, "empty": {}},
        5: OrderedDict(b=np.int8(1), a=np.array([True, False])),
    }


NAMES = [
    "5.a",
    "5.b",
    "flags.lr",
    "flags.on",
    "layers.0.w",
    "layers.1.w",
    "opt.mean.0",
    "opt.mean.1",
    "opt.step",
]


def assert_same_tree(left: Any, right: Any) -> None:
    pairs_left, structure_left = pytree.flatten_with_path(left)
    pairs_right, structure_right = pytree.flatten_with_path(right)
    assert structure_left == structure_right
    for (_, a), (_, b) in zip(pairs_left, pairs_right, strict=True):
        if type(a) in (bool, int, float):
            assert type(a) is type(b)
            assert a == b
        else:
            assert np.asarray(a).dtype == np.asarray(b).dtype
            assert np.asarray(a).shape == np.asarray(b).shape
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


# Names


def test_names_are_key_paths_joined_by_dots() -> None:
    state = get_state_dict(tree())
    assert sorted(state) == NAMES
    assert state["layers.0.w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert state["opt.step"].dtype == np.int64
    assert state["flags.lr"].dtype == np.float64
    assert state["flags.on"].dtype == np.bool_
    assert state["flags.on"].shape == ()


def test_arrays_are_not_copied() -> None:
    value = tree()
    assert get_state_dict(value)["layers.0.w"] is value["layers"][0]["w"]


@pytest.mark.parametrize("prefix", ["m", "m.", ".m"])
def test_prefix(prefix: str) -> None:
    assert list(get_state_dict({"w": np.ones(1)}, prefix)) == ["m.w"]
    assert list(get_state_dict(np.ones(1), prefix)) == ["m"]


def test_a_bare_leaf_has_the_empty_name(tmp_path: Path) -> None:
    assert list(get_state_dict(np.ones(1))) == [""]
    save(tmp_path / "f", np.arange(3))
    assert restore(tmp_path / "f", np.zeros(3, np.int64)).tolist() == [0, 1, 2]


def test_objects_follow_tinygrad() -> None:
    names = list(get_state_dict(Model()))
    assert names == [
        "layers.0.weight",
        "layers.0.bias",
        "layers.2.weight",
        "layers.2.bias",
        "heads.a.weight",
        "heads.a.bias",
        "heads.b.0.weight",
        "heads.b.0.bias",
        "norm.step",
    ]
    assert list(get_state_dict({"m": Linear(1, 1)}, "top")) == ["top.m.weight", "top.m.bias"]


def test_dataclass_fields() -> None:
    value = Block(np.ones(2), parts=[np.zeros(1), Frozen(np.ones(3))])
    assert list(get_state_dict(value)) == ["weight", "steps", "parts.0", "parts.1.weight", "parts.1.scale"]


def test_none_and_empty_contribute_nothing() -> None:
    assert get_state_dict(None) == {}
    assert get_state_dict([None, {}, (), [None]]) == {}


def test_shared_arrays_appear_once_per_path() -> None:
    shared = np.ones(2)
    assert list(get_state_dict({"a": shared, "b": [shared]})) == ["a", "b.0"]
    parameters = get_parameters({"a": shared, "b": [shared], "step": 3})
    assert len(parameters) == 2
    assert parameters[0] is parameters[1] is shared


def test_get_parameters_of_an_object() -> None:
    model = Model()
    parameters = get_parameters(model)
    assert len(parameters) == 9
    assert parameters[0] is model.layers[0].weight  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ({"a.b": np.ones(1), "a": {"b": np.ones(1)}}, ["['a']['b']", "['a.b']"]),
        ({1: np.ones(1), "1": np.ones(1)}, ["[1]", "['1']"]),
        ({"a": [np.ones(1)], "a.0": np.ones(1)}, ["['a'][0]", "['a.0']"]),
    ],
)
def test_colliding_names_are_an_error_naming_both_paths(value: Any, paths: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        get_state_dict(value)
    for path in paths:
        assert path in str(caught.value)


class Color(enum.IntEnum):
    RED = 1


class OwnDict(dict[str, Any]):
    pass


@pytest.mark.parametrize(
    ("leaf", "kind"),
    [
        ("text", "str"),
        (b"bytes", "bytes"),
        (1j, "complex"),
        ({1, 2}, "set"),
        (np.tanh, "ufunc"),
        (len, "builtin_function_or_method"),
        (lambda: 0, "function"),
        (int, "type"),
        (np.float32, "type"),
        (Color.RED, "Color"),
        (OwnDict(a=np.ones(1)), "OwnDict"),
    ],
)
def test_leaves_that_cannot_be_state_are_named(tmp_path: Path, leaf: Any, kind: str) -> None:
    value = {"a": [np.ones(1), leaf]}
    for call in (get_state_dict, get_parameters, lambda tree: save(tmp_path / "f", tree)):
        with pytest.raises(TypeError) as caught:
            call(value)
        assert f"['a'][1] is a {kind}" in str(caught.value)
    with pytest.raises(TypeError):
        load_state_dict(value, {"a.0": np.ones(1)})
    assert list(tmp_path.iterdir()) == []


def test_a_container_subclass_below_an_object_is_not_lost_silently() -> None:
    model = Linear(1, 1)
    model.extra = OwnDict(a=np.ones(1))  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"\.extra is a OwnDict, a container that is no pytree node"):
        get_state_dict(model)


def test_integers_beyond_64_bits_are_refused_by_name() -> None:
    with pytest.raises(OverflowError, match=r"\['n'\] = 18446744073709551616 does not fit"):
        get_state_dict({"n": 2**64})


def test_an_array_dtype_that_the_format_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"'a\.0' has dtype complex128"):
        save(tmp_path / "f", {"a": [np.ones(1, np.complex128)]})
    with pytest.raises(TypeError, match=r"'a' is a Aval, not an array"):
        save(tmp_path / "f", {"a": Aval((1,), np.float32)})


# Cycles


class Node:
    def __init__(self, fill: float) -> None:
        self.weight = np.full(2, fill)
        self.children: list[Any] = []
        self.parent: Any = None
        self.helper: Any = None


class Helper:
    def __init__(self, owner: Any) -> None:
        self.owner = owner


def cyclic(fill: float) -> Node:
    root, child = Node(fill), Node(fill)
    root.children.append(child)
    child.parent = root
    root.helper = Helper(root)
    root.log = logging.getLogger("tinyfn.checkpoint.test")  # type: ignore[attr-defined]
    return root


def test_cycles_add_no_names_and_are_rebuilt() -> None:
    template = cyclic(0.0)
    state = get_state_dict(template)
    assert list(state) == ["weight", "children.0.weight"]
    result = load_state_dict(template, {name: np.ones(2) for name in state})
    assert result is not template
    assert result.children[0] is not template.children[0]
    assert result.children[0].parent is result
    assert result.helper.owner is result
    assert result.log is template.log  # type: ignore[attr-defined]
    assert result.children[0].weight.tolist() == [1, 1]
    assert template.weight.tolist() == [0, 0]
    assert template.helper.owner is template
    assert template.children[0].parent is template


# Round trips


def test_save_and_restore(tmp_path: Path) -> None:
    value = tree()
    save(tmp_path / "f", value, {"step": "7"})
    assert safe_load_metadata(tmp_path / "f").metadata == {"step": "7"}
    assert_same_tree(restore(tmp_path / "f", like=value), value)
    template = pytree.map(
        lambda leaf: type(leaf)(0) if type(leaf) in (bool, int, float) else np.zeros_like(leaf), value
    )
    restored = restore(tmp_path / "f", like=template)
    assert_same_tree(restored, value)
    assert type(restored["opt"]) is AdamState
    assert restored["opt"].extra is None
    assert list(restored) == list(value)
    assert type(restored[5]) is OrderedDict


def test_files_are_the_references(tmp_path: Path) -> None:
    value = {"a": {"w": np.ones((2, 3), np.float32)}, "b": [np.arange(4)]}
    save(tmp_path / "f", value)
    expected = {"a.w": value["a"]["w"], "b.0": value["b"][0]}  # type: ignore[call-overload,index]
    assert (tmp_path / "f").read_bytes() == safetensors.numpy.save(expected)


def test_restore_is_lazy_and_read_only(tmp_path: Path) -> None:
    save(tmp_path / "f", {"w": np.ones(3)})
    restored = restore(tmp_path / "f", {"w": np.zeros(3)})
    assert not np.asarray(restored["w"]).flags.writeable
    assert not np.asarray(restored["w"]).flags.owndata


def test_restore_into_shape_and_dtype_structs(tmp_path: Path) -> None:
    save(tmp_path / "f", {"w": np.ones((2, 3), np.float16), "n": 4})
    restored = restore(tmp_path / "f", {"w": Aval((2, 3), np.float16), "n": 0})
    assert restored["w"].dtype == np.float16
    assert restored["n"] == 4
    with pytest.raises(StateDictError, match=r"expected \(3, 2\), found \(2, 3\)"):
        restore(tmp_path / "f", {"w": Aval((3, 2), np.float16), "n": 0})


def test_restore_without_a_template_gives_nested_dicts(tmp_path: Path) -> None:
    save(tmp_path / "f", tree())
    nested = restore(tmp_path / "f")
    assert set(nested) == {"5", "flags", "layers", "opt"}
    assert nested["layers"]["0"]["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert nested["opt"]["step"] == 7
    assert sorted(get_state_dict(nested)) == NAMES


@pytest.mark.parametrize("names", [("a", "a.b"), ("a.b", "a"), ("x.a.b.c", "x.a")])
def test_a_name_that_is_tensor_and_dict_is_an_error(tmp_path: Path, names: tuple[str, str]) -> None:
    # The dtypes decide the order in the file.
    safe_save({names[0]: np.ones(1), names[1]: np.ones(1, np.int8)}, tmp_path / "f")
    with pytest.raises(ValueError) as caught:
        restore(tmp_path / "f")
    assert all(repr(name) in str(caught.value) for name in names)


def test_objects_are_rebuilt_and_the_template_stays(tmp_path: Path) -> None:
    save(tmp_path / "f", Model(2.0))
    template = Model()
    first: Any = template.layers[0]
    restored = restore(tmp_path / "f", template)
    assert type(restored) is Model
    assert restored is not template
    assert restored.layers[0].weight.tolist() == [[2, 2]] * 3
    assert restored.layers[1] is np.tanh
    assert restored.layers[0].activation is np.tanh
    assert restored.heads["b"][0].bias.tolist() == [2, 2]
    assert restored.epsilon == 1e-5
    assert restored.config is template.config
    assert template.layers[0] is first
    assert first.weight.tolist() == [[0, 0]] * 3


def test_dataclasses_are_rebuilt(tmp_path: Path) -> None:
    value = {"b": Block(np.ones(2), 9, "mine", [Frozen(np.full(3, 2.0), 0.25)])}
    save(tmp_path / "f", value)
    template = {"b": Block(np.zeros(2), 0, "template", [Frozen(np.zeros(3), 0.0)])}
    restored = restore(tmp_path / "f", template)["b"]
    assert (restored.steps, restored.note, restored.parts[0].scale) == (9, "template", 0.25)
    assert restored.parts[0].weight.tolist() == [2, 2, 2]
    assert template["b"].steps == 0
    assert template["b"].parts[0].scale == 0.0


LEAVES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.none(),
    st.builds(
        lambda dtype, shape: np.arange(int(np.prod(shape))).reshape(shape).astype(dtype),
        st.sampled_from([np.float32, ml_dtypes.bfloat16, np.int8, np.complex64, ml_dtypes.float8_e5m2]),
        st.lists(st.integers(0, 3), max_size=3).map(tuple),
    ),
)
KEYS = st.text("abc", min_size=1, max_size=2)
TREES = st.recursive(
    LEAVES,
    lambda child: st.one_of(
        st.lists(child, max_size=3),
        st.lists(child, max_size=3).map(tuple),
        st.dictionaries(KEYS, child, max_size=3),
        st.builds(AdamState, child, child, st.none()),
    ),
    max_leaves=10,
)


@settings(max_examples=100, deadline=None)
@given(value=TREES)
def test_random_trees_round_trip(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "tree"
    save(path, value)
    # With None for `like` there is no template: a tree that is None has nothing to restore.
    if value is not None:
        assert_same_tree(restore(path, like=value), value)
    assert_same_tree(load_state_dict(value, get_state_dict(value)), value)


# Strictness


def template() -> dict[str, Any]:
    return {
        "a": np.zeros(2, np.float32),
        "b": [np.zeros((2, 2)), np.zeros(3, np.int32)],
        "n": 0,
        "missing": {"w": np.zeros(1), "x": 1.5},
    }


def flat() -> dict[str, Any]:
    return {
        "a": np.ones(2, np.float16),
        "b.0": np.ones((4, 4)),
        "b.1": np.ones(3, np.float64),
        "n": np.float32(2.0),
        "extra": np.ones(1),
        "b.2": np.ones(1),
    }


def test_every_problem_is_listed_by_path_in_one_error() -> None:
    value, state = template(), flat()
    with pytest.raises(StateDictError) as caught:
        load_state_dict(value, state, consume=True)
    error = caught.value
    assert sorted(error.missing) == ["missing.w", "missing.x"]
    assert sorted(error.unexpected) == ["b.2", "extra"]
    assert error.shapes == ["b.0"]
    assert sorted(error.dtypes) == ["a", "b.1", "n"]
    text = str(error)
    assert "missing: 'missing.w' at ['missing']['w']" in text
    assert "unexpected: 'extra'" in text
    assert "shape: 'b.0': expected (2, 2), found (4, 4)" in text
    assert "dtype: 'a': expected float32, found float16" in text
    assert "dtype: 'n': expected a Python int, found float32" in text
    # Nothing was loaded, consumed or changed.
    assert set(state) == set(flat())
    assert value["a"].tolist() == [0, 0]
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.shapes) == (text, ["b.0"])


def test_a_file_is_named_in_the_error(tmp_path: Path) -> None:
    save(tmp_path / "f", {"a": np.ones(1)})
    with pytest.raises(StateDictError) as caught:
        restore(tmp_path / "f", {"b": np.ones(1)})
    assert str(tmp_path / "f") in str(caught.value)
    assert "strict=False" in str(caught.value)


def test_a_deeper_model_is_not_loaded_from_a_shallower_file(tmp_path: Path) -> None:
    save(tmp_path / "f", {"layers": [np.full(2, float(i)) for i in range(12)]})
    deeper = {"layers": [np.zeros(2) for _ in range(16)]}
    with pytest.raises(StateDictError) as caught:
        restore(tmp_path / "f", deeper)
    assert sorted(caught.value.missing) == ["layers.12", "layers.13", "layers.14", "layers.15"]
    loaded = restore(tmp_path / "f", deeper, strict=False)
    assert [layer[0] for layer in loaded["layers"]] == [*range(12), 0, 0, 0, 0]
    assert loaded["layers"][15] is deeper["layers"][15]


def test_not_strict() -> None:
    value, state = template(), flat()
    with pytest.raises(StateDictError) as caught:
        load_state_dict(value, state, strict=False)
    assert caught.value.shapes == ["b.0"]
    assert caught.value.missing == caught.value.unexpected == caught.value.dtypes == []

    state["b.0"] = np.full((2, 2), 3.0)
    result = load_state_dict(value, state, strict=False)
    assert result["a"].dtype == np.float32
    assert result["a"].tolist() == [1, 1]
    assert result["b"][0] is state["b.0"]
    assert result["b"][1].dtype == np.int32
    assert result["n"] == 2
    assert type(result["n"]) is int
    assert result["missing"]["w"] is value["missing"]["w"]
    assert result["missing"]["x"] == 1.5
    assert value["a"].tolist() == [0, 0]


@pytest.mark.parametrize("strict", [False, True])
def test_complex_is_never_cast_to_real(strict: bool) -> None:
    state = {"a": np.ones(1, np.complex64), "n": np.complex64(1)}
    with pytest.raises(StateDictError) as caught:
        load_state_dict({"a": np.zeros(1, np.float32), "n": 1.0}, state, strict=strict)
    assert sorted(caught.value.dtypes) == ["a", "n"]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_an_int_cannot_hold_is_found_before_loading(value: float) -> None:
    state = {"a": np.ones(1), "n": np.float64(value)}
    with pytest.raises(StateDictError) as caught:
        load_state_dict({"a": np.zeros(1), "n": 1}, state, strict=False, consume=True)
    assert caught.value.dtypes == ["n"]
    assert set(state) == {"a", "n"}


@pytest.mark.parametrize(
    ("template", "stored", "accepted"),
    [
        (1, np.int64(5), True),
        (1, np.uint8(5), True),
        (1, np.bool_(True), False),
        (1, np.float64(5), False),
        (1.0, np.float16(0.5), True),
        (1.0, np.int64(5), False),
        (True, np.bool_(False), True),
        (True, np.int64(1), False),
        (1, 5, True),
        (1.0, 2.5, True),
        (1, True, False),
    ],
)
def test_python_scalars(template: Any, stored: Any, accepted: bool) -> None:
    if not accepted:
        with pytest.raises(StateDictError):
            load_state_dict({"x": template}, {"x": stored})
    for strict in {False, not accepted}:
        if accepted or not strict:
            result = load_state_dict({"x": template}, {"x": stored}, strict=strict and accepted)["x"]
            assert type(result) is type(template)
            assert result == type(template)(stored)


def test_python_scalars_need_0d_arrays() -> None:
    with pytest.raises(StateDictError, match=r"expected \(\), found \(1,\)"):
        load_state_dict({"x": 1}, {"x": np.ones(1, np.int64)}, strict=False)


def test_values_that_are_no_arrays_are_refused() -> None:
    with pytest.raises(TypeError, match="has a list at 'x', not an array"):
        load_state_dict({"x": np.zeros(1)}, {"x": [1.0]})


def test_byte_order_is_no_dtype_mismatch(tmp_path: Path) -> None:
    value = {"x": np.arange(3, dtype=">f4")}
    save(tmp_path / "f", value)
    assert restore(tmp_path / "f", value)["x"].tolist() == [0, 1, 2]


def test_consume_removes_what_was_loaded() -> None:
    state = {"a": np.ones(1), "b": np.ones(1), "extra": np.ones(1)}
    result = load_state_dict({"a": np.zeros(1), "b": np.zeros(1)}, state, strict=False, consume=True)
    assert result["a"].tolist() == [1]
    assert list(state) == ["extra"]


def test_new_containers_are_built() -> None:
    value = {"a": [np.ones(1)]}
    result = load_state_dict(value, get_state_dict(value))
    assert result is not value
    assert result["a"] is not value["a"]
    assert result["a"][0] is value["a"][0]


def test_verbose_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"a": np.ones((1000, 1000)), "n": 3}
    load_state_dict(value, get_state_dict(value))
    assert capsys.readouterr() == ("", "")
    load_state_dict(value, get_state_dict(value), verbose=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("loaded 2 tensors in ")
    assert "0.008 GB at" in err
    assert "GB/s" in err


def test_restored_tree_can_be_saved_over_its_own_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    value = {"w": np.arange(10_000.0), "n": 1}
    save(path, value)
    restored = restore(path, value)
    save(path, {"w": restored["w"][::-1], "n": 2})
    assert restored["w"].tolist() == value["w"].tolist()  # type: ignore[attr-defined]
    assert safe_load(path)["w"][0] == 9999


def test_deep_containers(tmp_path: Path) -> None:
    value: Any = np.ones(2)
    for _ in range(3000):
        value = [value]
    save(tmp_path / "f", value)
    restored = restore(tmp_path / "f", value)
    for _ in range(3000):
        (restored,) = restored
    assert restored.tolist() == [1, 1]
