"""Dtypes and shapes of leaves, tied leaves and buffers, the state."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.optax_like.running import (
    MAKERS,
    bfloat16,
    distance,
    every_kind,
    mixed,
    run,
    same_bits,
    values,
    widened,
)
from tinyfn import checkpoint
from tinyfn import optax_like as ox
from tinyfn.trace import pytree
from tinyfn.trace.array import as_array
from tinyfn.transforms import jit

# Dtypes and shapes of leaves


@every_kind
def test_half_is_updated_in_float32_and_rounded_once(
    name: str, options: dict[str, Any], elementwise: bool
) -> None:
    for dtype in (np.float16, bfloat16):
        t, g = values(0, (3, 4), (3, 4), dtype=dtype)
        found, _ = run(MAKERS[name](**options), t, [g])
        wide, _ = run(MAKERS[name](**options), *widened(t, [g]))
        assert np.array_equal(np.asarray(found), np.asarray(wide).astype(dtype))


def test_a_high_rate_on_half_does_not_overflow_in_between() -> None:
    t, g = np.float16([1, 2]), np.float16([1e-3, 0])
    found, _ = run(ox.sgd(1e6), t, [g])
    np.testing.assert_allclose(np.asarray(found), [-1000.0, 2.0], rtol=1e-3)


@every_kind
def test_scalar_and_empty_leaves(name: str, options: dict[str, Any], elementwise: bool) -> None:
    optimizer = MAKERS[name](**options)
    empty = {"e": np.zeros((0, 3), np.float32), "w": np.ones((2, 2), np.float32)}
    params, _ = run(optimizer, empty, [empty])
    assert params["e"].shape == (0, 3) and not np.array_equal(np.asarray(params["w"]), empty["w"])
    if name == "muon":
        with pytest.raises(
            ValueError, match=r"muon.step: params\['s'\] \(float32\[\]\) is a scalar.*use group"
        ):
            run(optimizer, {"s": np.float32(1)}, [{"s": np.float32(1)}])
        return
    scalar, state = run(optimizer, np.float32(1.5), [np.float32(0.5), 0.25])
    vector, _ = run(optimizer, np.float32([1.5]), [np.float32([0.5]), np.float32([0.25])])
    assert scalar.shape == () and np.asarray(scalar) == np.asarray(vector)[0]
    assert not scalar.weak_type and all(not leaf.weak_type for leaf in pytree.leaves(state))


def test_python_numbers_and_numpy_arrays_are_parameters() -> None:
    params = {"a": 1.0, "b": 1.0, "c": np.ones(2, np.float32)}
    found, _ = run(ox.sgd(0.5), params, [{"a": 1.0, "b": 0.0, "c": np.ones(2, np.float32)}])
    assert (
        float(found["a"]) == 0.5
        and float(found["b"]) == 1.0
        and np.asarray(found["c"]).tolist() == [0.5, 0.5]
    )
    assert params["c"].tolist() == [1, 1] and not found["a"].weak_type  # type: ignore[attr-defined]


def test_leaves_that_are_no_floats_are_passed_through() -> None:
    params = {"w": np.ones(2, np.float32), "n": np.int32(3), "mask": np.array([True])}
    for optimizer in (ox.adam(), ox.adam(fused=True), ox.sgd(momentum=0.9)):
        found, state = run(optimizer, params, [{"w": np.ones(2, np.float32), "n": None, "mask": None}])
        assert int(found["n"]) == 3 and found["n"].dtype == np.int32 and found["mask"].dtype == bool
        for slot in set(state) & {"m", "b"}:
            assert state[slot].get("n") is None
    no_gradient = np.zeros((), [("float0", np.void, 0)])
    found, _ = run(ox.adam(), params, [{"w": np.ones(2, np.float32), "n": no_gradient, "mask": None}])
    assert int(found["n"]) == 3


# The state


def test_state_names_shapes_and_dtypes() -> None:
    params = {"w": np.ones((2, 3), np.float32), "h": np.ones(2, np.float16)}
    assert set(ox.sgd().init(params)) == {"lr"}
    state = ox.sgd(0.25, momentum=0.9).init(params)
    assert set(state) == {"lr", "b"} and state["lr"].shape == (1,) and state["lr"].dtype == np.float32
    assert (
        float(state["lr"]) == 0.25 and state["b"]["w"].shape == (2, 3) and state["b"]["h"].dtype == np.float32
    )
    state = ox.adam().init(params)
    assert set(state) == {"lr", "b1_t", "b2_t", "m", "v"} and state["b1_t"].shape == (1,)
    state = ox.adam().init({"w": np.ones(1, np.float64), "h": np.ones(2, np.float16)})
    assert state["lr"].dtype == state["b1_t"].dtype == state["m"]["w"].dtype == np.float64
    assert state["m"]["h"].dtype == np.float32
    leaves = pytree.leaves(state)
    assert len(set(map(id, leaves))) == len(leaves)  # so that it can be donated
    _, state = run(ox.adam(), params, [params] * 3)
    np.testing.assert_allclose(np.asarray(state["b1_t"]), [0.729], rtol=1e-6)


def test_init_is_the_same_when_traced() -> None:
    params = mixed(0)
    for optimizer in (ox.adam(), ox.lars(), ox.adam(fused=True)):
        assert same_bits(jit(optimizer.init)(params), optimizer.init(params))


@every_kind
def test_state_round_trips(name: str, options: dict[str, Any], elementwise: bool, tmp_path: Path) -> None:
    params, gradients = dict(zip("ab", values(0, (2, 3), (4,)), strict=True)), []
    for seed in (1, 2, 3):
        gradients.append(dict(zip("ab", values(seed, (2, 3), (4,)), strict=True)))
    for fused in {False, name != "muon"}:
        optimizer = MAKERS[name](**options, fused=fused)
        expected = run(optimizer, params, gradients)
        half = run(optimizer, params, gradients[:2])
        pickled = pickle.loads(pickle.dumps(half))
        assert same_bits(optimizer.step(pickled[0], gradients[2], pickled[1]), expected)
        checkpoint.save(tmp_path / "state.safetensors", {"params": half[0], "state": half[1]})
        restored = checkpoint.restore(tmp_path / "state.safetensors", {"params": half[0], "state": half[1]})
        assert same_bits(optimizer.step(restored["params"], gradients[2], restored["state"]), expected)
    names = checkpoint.get_state_dict(ox.adam().init(params))
    assert {"lr", "b1_t", "b2_t", "m.a", "m.b", "v.a", "v.b"} == set(names)


def test_inputs_are_not_changed() -> None:
    t, g = np.ones(3, np.float32), np.ones(3, np.float32)
    optimizer = ox.adam(0.1)
    state = optimizer.init(t)
    before = pickle.dumps((t, g, state))
    optimizer.step(t, g, state)
    assert pickle.dumps((t, g, state)) == before


# Tied leaves and buffers


@every_kind
@pytest.mark.parametrize("fused", [False, True])
def test_the_same_array_twice_is_one_parameter(
    name: str, options: dict[str, Any], elementwise: bool, fused: bool
) -> None:
    optimizer = MAKERS[name](**options, fused=fused and name != "muon")
    w, u, g, h = values(0, (3, 4), (3, 4), (3, 4), (3, 4))
    once, _ = run(optimizer, [w, u], [[g, h], [h, g]])
    twice, _ = run(optimizer, [w, u, w], [[g, h, g], [h, g, h]])
    assert same_bits(twice, [*once, once[0]]) and twice[0] is twice[2]
    split, _ = run(optimizer, [w, u, w], [[g, h, None], [None, g, h]])
    assert same_bits(split, twice)
    # Gradients of a function of both places come apart, and add up.
    total = as_array(np.asarray(g) + np.asarray(h))
    assert same_bits(run(optimizer, [w, w], [[g, h]])[0][1], run(optimizer, w, [total])[0])


def test_tied_numpy_arrays() -> None:
    w = np.ones(2, np.float32)
    found, state = run(ox.sgd(0.5, momentum=0.9), [w, w], [[w, w]])
    assert found[0] is found[1] and np.asarray(found[0]).tolist() == [0.5, 0.5]
    assert state["b"][0] is state["b"][1]


def test_in_a_trace_places_are_parameters_of_their_own() -> None:
    w, g, h = values(0, (3,), (3,), (3,))
    optimizer = ox.sgd(0.1, momentum=0.9)
    found, _ = jit(optimizer.step)([w, w], [g, h], optimizer.init([w, w]))
    expected, _ = run(optimizer, [w, as_array(np.array(w))], [[g, h]])
    assert distance(found, expected) < 1e-6 and not np.array_equal(np.asarray(found[0]), np.asarray(found[1]))


@every_kind
@pytest.mark.parametrize("compiled", [False, True])
def test_buffers_and_their_state_are_passed_through(
    name: str, options: dict[str, Any], elementwise: bool, compiled: bool
) -> None:
    for fused in {False, name != "muon"}:
        optimizer = MAKERS[name](**options, fused=fused)
        params = dict(zip("abc", values(0, (3, 4), (4,), (2, 2)), strict=True))
        grads = dict(zip("abc", values(1, (3, 4), (4,), (2, 2)), strict=True))
        params, state = run(optimizer, params, [grads])
        step = jit(optimizer.step) if compiled else optimizer.step
        found, new_state = step(params, {**grads, "b": None}, state)
        assert same_bits(found["b"], params["b"]) and not same_bits(found["a"], params["a"])
        for slot in set(state) & {"b", "m", "v"}:
            if fused:
                before, after = (np.asarray(s[slot]["float32"])[12:16] for s in (state, new_state))
                assert np.array_equal(before, after)
            else:
                assert same_bits(new_state[slot]["b"], state[slot]["b"])
                assert not same_bits(new_state[slot]["a"], state[slot]["a"])
