"""Groups of parameters with optimizers of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.optax_like.running import distance, run, same_bits, values
from tinyfn import optax_like as ox
from tinyfn.trace import pytree
from tinyfn.transforms import jit


def model(seed: int) -> dict[str, Any]:
    names = [("body", "w", (3, 4)), ("body", "bias", (4,)), ("head", "w", (4, 2)), ("head", "bias", (2,))]
    tree: dict[str, Any] = {"body": {}, "head": {}}
    for part, name, shape in names:
        tree[part][name] = values(seed + len(shape) + shape[0], shape)[0]
    return tree


def by_name(path: Any) -> str:
    return "bias" if str(path[-1]) == "['bias']" else "matrix"


LABELS = {"body": {"w": "matrix", "bias": "bias"}, "head": {"w": "matrix", "bias": "bias"}}


@pytest.mark.parametrize("labels", [by_name, LABELS], ids=["function", "tree"])
@pytest.mark.parametrize("compiled", [False, True])
def test_group_equals_separate_optimizers(labels: Any, compiled: bool) -> None:
    matrix, bias = ox.muon(0.1, weight_decay=0.1), ox.adamw(0.01)
    optimizer = ox.group(labels, {"matrix": matrix, "bias": bias})
    params, gradients = model(0), [model(1), model(2)]
    step = jit(optimizer.step, donate_argnums=(2,)) if compiled else optimizer.step
    found, state = run(optimizer, params, gradients, step)
    assert set(state) == {"matrix", "bias"} and set(state["bias"]) == {"lr", "b1_t", "b2_t", "m", "v"}
    for name, alone, label in (("w", matrix, "matrix"), ("bias", bias, "bias")):
        only = [{part: tree[part][name] for part in tree} for tree in (params, *gradients)]
        expected, expected_state = run(alone, only[0], only[1:])
        mine = {part: found[part][name] for part in found}
        slot = {"matrix": "b", "bias": "m"}[label]
        own = {part: state[label][slot][part][name] for part in found}
        if compiled:
            assert distance(mine, expected) < 1e-5 and distance(own, expected_state[slot]) < 1e-5
        else:
            assert same_bits(mine, expected) and same_bits(own, expected_state[slot])
    assert state["bias"]["m"]["body"]["w"] is None


def test_group_prefix_labels_nesting_and_indexing() -> None:
    inner = ox.group(by_name, {"matrix": ox.sgd(0.1, momentum=0.9), "bias": ox.sgd(1.0)})
    outer = ox.group({"body": "rest", "head": "head"}, {"rest": inner, "head": ox.sgd(0.0)})
    params, gradients = model(0), [model(1), model(2)]
    found, state = run(outer, params, gradients)
    assert same_bits(found["head"], params["head"])
    flat = ox.group(
        {"body": {"w": 0, "bias": 1}, "head": 2},
        {0: ox.sgd(0.1, momentum=0.9), 1: ox.sgd(1.0), 2: ox.sgd(0.0)},
    )
    assert same_bits(found, run(flat, params, gradients)[0])
    assert same_bits(
        state["rest"]["matrix"]["b"]["body"],
        {"w": run(flat, params, gradients)[1][0]["b"]["body"]["w"], "bias": None},
    )
    assert outer["rest"] is inner and outer[0] is inner and outer[-1].name == "sgd" and flat[2].name == "sgd"
    assert len(outer) == 2 and list(outer) == ["rest", "head"]
    with pytest.raises(KeyError):
        outer["tail"]
    changed = ox.set_learning_rate(state, 0.5)
    assert float(changed["head"]["lr"]) == float(changed["rest"]["bias"]["lr"]) == 0.5
    changed = ox.set_learning_rate(state, {"head": 0.25})
    assert float(changed["head"]["lr"]) == 0.25 and float(changed["rest"]["bias"]["lr"]) == 1.0
    with pytest.raises(ValueError, match=r"no labels \['tail'\]"):
        ox.set_learning_rate(state, {"tail": 0.1})


def test_group_labels_without_parameters_or_gradients() -> None:
    optimizer = ox.group(by_name, {"matrix": ox.adam(0.1), "bias": ox.adam(0.1), "unused": ox.adam(0.1)})
    params, grads = model(0), model(1)
    state = optimizer.init(params)
    assert state["unused"] == {}
    for part in grads:
        grads[part]["bias"] = None
    found, new_state = optimizer.step(params, grads, state)
    assert same_bits(new_state["bias"], state["bias"]) and float(new_state["matrix"]["b1_t"]) < 1
    assert found["body"]["bias"] is params["body"]["bias"]
    assert set(ox.set_learning_rate(state, 0.5)) == {"matrix", "bias", "unused"}
    with pytest.raises(ValueError, match=r"group.step: every gradient is None"):
        optimizer.step(params, pytree.map(lambda _: None, params), state)


def test_group_errors() -> None:
    w = np.ones(2, np.float32)
    with pytest.raises(TypeError, match="dict from labels to optimizers"):
        ox.group({"a": "x"}, {"x": 0.1})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="dict from labels to optimizers"):
        ox.group({"a": "x"}, {})
    optimizer = ox.group({"a": "x", "b": "y"}, {"x": ox.sgd(), "y": ox.sgd()})
    with pytest.raises(
        ValueError, match=r"params\['b'\] \(float32\[2\]\) and params\['a'\] are the same array.*'y' and 'x'"
    ):
        optimizer.init({"a": w, "b": w})
    with pytest.raises(ValueError, match=r"params\['b'\] \(float32\[2\]\) has the label 'z'.*'x', 'y' only"):
        ox.group({"a": "x", "b": "z"}, {"x": ox.sgd(), "y": ox.sgd()}).init({"a": w, "b": w + 1})
    params = {"a": w, "b": w + 1}
    with pytest.raises(ValueError, match=r"a dict with the labels 'x', 'y', not \['lr'\]"):
        optimizer.step(params, params, ox.sgd().init(params))
    with pytest.raises(
        ValueError, match=r"sgd.step: the state should be a dict with the keys \['lr'\], not \['b1_t'"
    ):
        optimizer.step(params, params, {"x": ox.sgd().init(params), "y": ox.adam().init(params)})
