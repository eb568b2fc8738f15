"""The learning rate as a value, and steps under jit, vmap and grad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.optax_like.running import (
    MAKERS,
    distance,
    every_kind,
    lane,
    optimizer_copy,
    run,
    same_bits,
    values,
)
from tinyfn import optax_like as ox
from tinyfn.trace import pytree
from tinyfn.trace.array import as_array
from tinyfn.trace.prims import reduce_sum
from tinyfn.transforms import grad, jit, vmap

# The learning rate


def test_learning_rate_changes_without_a_retrace() -> None:
    for optimizer in (ox.sgd(0.1, momentum=0.9), ox.lars(0.1), ox.adam(0.1), ox.lamb(0.1, fused=True)):
        t, g = values(0, (3, 4), (3, 4))
        step = jit(optimizer.step)
        state, other = optimizer.init(t), optimizer.init(t)
        params = expected = t
        for lr in (0.1, 0.01, 0.5):
            state, other = ox.set_learning_rate(state, lr), ox.set_learning_rate(other, lr)
            params, state = step(params, g, state)
            expected, other = optimizer.step(expected, g, other)
        assert step.cache_info().misses == 1
        assert distance(params, expected) < 1e-6 and float(state["lr"]) == 0.5


def test_learning_rate_sweep_is_one_trace() -> None:
    t, g = values(0, (3, 4), (3, 4))
    traces = []

    def train(lr: Any, t: Any, g: Any) -> Any:
        traces.append(1)
        optimizer = ox.adam()
        state = ox.set_learning_rate(optimizer.init(t), lr)
        for _ in range(2):
            t, state = optimizer.step(t, g, state)
        return t

    sweep = np.float32([0.1, 0.01, 1.0])
    swept = vmap(train, in_axes=(0, None, None))(sweep, t, g)
    assert len(traces) == 1 and swept.shape == (3, 3, 4)
    compiled = jit(train)
    for lr, found in zip(sweep, np.asarray(swept), strict=True):
        expected, _ = run(ox.adam(float(lr)), t, [g, g])
        assert distance(found, expected) < 1e-6
        assert distance(compiled(lr, t, g), expected) < 1e-6
    assert compiled.cache_info().misses == 1


def test_set_learning_rate() -> None:
    state = ox.adam(0.1).init(np.ones(2, np.float64))
    changed = ox.set_learning_rate(state, 1 / 3)
    assert changed["lr"].dtype == np.float64 and float(changed["lr"]) == 1 / 3 and float(state["lr"]) == 0.1
    assert changed["m"] is state["m"]
    for lr in (np.float32(0.5), np.array([0.5]), as_array(np.float32(0.5)), np.array(0.5, np.float16)):
        changed = ox.set_learning_rate(state, lr)
        assert (
            changed["lr"].shape == (1,) and changed["lr"].dtype == np.float64 and float(changed["lr"]) == 0.5
        )
    stack = vmap(ox.sgd(0.1).init)(np.ones((3, 2), np.float32))
    assert np.asarray(ox.set_learning_rate(stack, 0.5)["lr"]).tolist() == [[0.5]] * 3
    assert np.asarray(ox.set_learning_rate(stack, np.float32([1, 2, 3]))["lr"]).tolist() == [[1], [2], [3]]
    with pytest.raises(ValueError, match=r"lr of shape \(2,\) does not fit state\['lr'\] of shape \(3, 1\)"):
        ox.set_learning_rate(stack, np.float32([1, 2]))
    with pytest.raises(ValueError, match="lr must be at least 0, not -1"):
        ox.set_learning_rate(state, -1)
    with pytest.raises(TypeError, match="lr must be a number, not str"):
        ox.set_learning_rate(state, "0.1")
    with pytest.raises(TypeError, match="must be an optimizer's state, a dict, not list"):
        ox.set_learning_rate([state], 0.1)  # type: ignore[arg-type]


def test_constant_learning_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    t, g = values(0, (3,), (3,))
    monkeypatch.setenv("CONST_LR", "1")
    optimizer = ox.sgd(0.1, momentum=0.9)
    monkeypatch.delenv("CONST_LR")  # it is read once, when the optimizer is made
    params, state = run(optimizer, t, [g, g])
    assert set(state) == {"b"}
    assert distance(params, run(ox.sgd(0.1, momentum=0.9), t, [g, g])[0]) < 1e-6
    assert same_bits(run(optimizer, t, [g]), run(ox.sgd(0.1, momentum=0.9, const_lr=True), t, [g]))
    with pytest.raises(ValueError, match="no 'lr', as its optimizer has const_lr"):
        ox.set_learning_rate(state, 0.1)


# jit, vmap, grad


@every_kind
def test_jit_with_donation_equals_eager(name: str, options: dict[str, Any], elementwise: bool) -> None:
    optimizer = MAKERS[name](**options)
    params = {"a": values(0, (3, 4))[0], "b": [values(1, (5,))[0]], "n": as_array(np.int32(2))}
    gradients = [{"a": values(i, (3, 4))[0], "b": [values(i, (5,))[0]], "n": None} for i in (2, 3, 4)]
    expected, expected_state = run(optimizer, params, gradients)
    step = jit(optimizer.step, donate_argnums=(0, 2))
    found, state = optimizer_copy(params), optimizer.init(params)
    for grads in gradients:
        before = found, state
        found, state = step(found, grads, state)
        assert all(leaf.is_deleted() for leaf in pytree.leaves(before))
    assert distance(found, expected) < 1e-5 and distance(state, expected_state) < 1e-5
    assert step.cache_info().misses == 1


@every_kind
def test_vmap_over_a_stack_of_parameter_sets(name: str, options: dict[str, Any], elementwise: bool) -> None:
    optimizer = MAKERS[name](**options)
    stacks = [dict(zip("ab", values(i, (3, 2, 4), (3, 5)), strict=True)) for i in range(3)]
    params, state = stacks[0], vmap(optimizer.init)(stacks[0])
    for grads in stacks[1:]:
        params, state = vmap(optimizer.step)(params, grads, state)
    for i in range(3):
        expected = run(optimizer, lane(stacks[0], i), [lane(g, i) for g in stacks[1:]])
        assert distance((lane(params, i), lane(state, i)), expected) < 1e-6


def test_a_step_can_be_differentiated() -> None:
    t, g = values(0, (3,), (3,))

    def after(lr: Any) -> Any:
        optimizer = ox.sgd(momentum=0.9)
        found, _ = optimizer.step(t, g, ox.set_learning_rate(optimizer.init(t), lr))
        return reduce_sum(found, axes=(0,))

    np.testing.assert_allclose(np.asarray(grad(after)(np.float32(0.1))), -np.asarray(g).sum(), rtol=1e-6)
    for optimizer in (ox.lamb(0.1), ox.lars(0.1), ox.adam(0.1)):

        def moved(t: Any, g: Any, optimizer: Any = optimizer) -> Any:
            found, _ = optimizer.step(t, g, optimizer.init(t))
            return reduce_sum(found, axes=(0,))

        assert np.isfinite(np.asarray(grad(moved)(t, g))).all()


@every_kind
def test_training(name: str, options: dict[str, Any], elementwise: bool) -> None:
    target = values(5, (4, 3))[0]

    def loss(w: Any) -> Any:
        difference = w - target
        return reduce_sum(difference * difference, axes=(0, 1))

    options = {**options, "lr": 0.05, "weight_decay": 0.0} if name not in ("sgd", "adam") else {"lr": 0.05}
    if name == "lars":
        options.update(lr=0.5, tcoef=0.02)
    optimizer, w = MAKERS[name](**options), values(6, (4, 3))[0]
    state, first = optimizer.init(w), float(loss(w))

    @jit
    def step(w: Any, state: Any) -> Any:
        return optimizer.step(w, grad(loss)(w), state)

    for _ in range(60):
        w, state = step(w, state)
    assert float(loss(w)) < 0.2 * first
