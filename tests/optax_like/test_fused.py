"""Fused steps are the same as unfused ones, and what goes wrong elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.optax_like.running import (
    MAKERS,
    bfloat16,
    distance,
    every_fusable_kind,
    every_kind,
    lane,
    mixed,
    run,
    same_bits,
    values,
    widened,
)
from tinyfn import optax_like as ox
from tinyfn.trace import pytree
from tinyfn.transforms import jit, make_graph, vmap


@every_fusable_kind
def test_fused_equals_unfused(name: str, options: dict[str, Any], elementwise: bool) -> None:
    params, gradients = mixed(0), [mixed(i) for i in (1, 2, 3)]
    # A buffer in between: its neighbours' pieces must be found.
    gradients[1]["a"]["w"] = None
    gradients[1]["d"] = None
    plain, fused = MAKERS[name](**options), MAKERS[name](**options, fused=True)
    expected, state = run(plain, params, gradients)
    found, fused_state = run(fused, params, gradients)
    joined = {key: state[key] for key in state if key in ("b", "m", "v")}
    for key, tree in joined.items():
        by_dtype: dict[str, list[Any]] = {}
        for t, slot in zip(pytree.leaves(params), pytree.leaves(tree), strict=True):
            by_dtype.setdefault(t.dtype.name, []).append(np.asarray(slot).ravel())
        joined[key] = {dtype: np.concatenate(slots) for dtype, slots in by_dtype.items()}
    assert pytree.structure(fused_state) == pytree.structure({**state, **joined})
    if elementwise:
        assert same_bits(found, expected) and same_bits(fused_state, {**state, **joined})
    else:

        def wide(tree: Any) -> Any:
            return [x for x in pytree.leaves(tree) if x.dtype.itemsize >= 4]

        assert distance(wide(found), wide(expected)) < 1e-6
        assert distance(found, expected) < 1e-2  # one step of bfloat16
        assert distance(fused_state, {**state, **joined}) < 1e-6


@every_fusable_kind
def test_fused_under_jit_and_vmap(name: str, options: dict[str, Any], elementwise: bool) -> None:
    optimizer = MAKERS[name](**options, fused=True)
    stack = [dict(zip("ab", values(i, (3, 2, 2), (3, 4)), strict=True)) for i in range(3)]
    params, gradients = stack[0], stack[1:]
    expected = [run(optimizer, lane(params, i), [lane(g, i) for g in gradients]) for i in range(3)]
    mapped, state = params, vmap(optimizer.init)(params)
    step = jit(vmap(optimizer.step))
    for g in gradients:
        mapped, state = step(mapped, g, state)
    for i in range(3):
        assert distance((lane(mapped, i), lane(state, i)), expected[i]) < 1e-6


# What tinygrad 0.11.0 gets wrong


@pytest.mark.parametrize(("name", "options"), [("lars", {"lr": 0.1, "tcoef": 0.5}), ("lamb", {"lr": 0.1})])
def test_x1_fused_trust_ratios_are_per_parameter(name: str, options: dict[str, Any]) -> None:
    large, small, *gradients = values(0, (4, 5), (3,), (4, 5), (3,))
    params, grads = [np.asarray(large) * 100, small], gradients
    fused, _ = run(MAKERS[name](**options, fused=True), params, [grads] * 3)
    plain, _ = run(MAKERS[name](**options), params, [grads] * 3)
    assert distance(fused, plain) < 1e-6
    joined = np.concatenate([np.asarray(x).ravel() for x in params])
    joined_grads = np.concatenate([np.asarray(x).ravel() for x in grads])
    one_ratio, _ = run(MAKERS[name](**options), joined, [joined_grads] * 3)
    assert np.abs(np.asarray(one_ratio)[20:] - np.asarray(fused[1])).max() > 1e-2


@pytest.mark.parametrize(
    ("dtype", "state_dtype"),
    [(np.float64, None), (np.float64, "float32"), (np.float32, "float16"), (np.float16, None)],
)
@every_kind
def test_x2_state_is_cast_to_its_dtype(
    name: str, options: dict[str, Any], elementwise: bool, dtype: Any, state_dtype: Any
) -> None:
    t, *gradients = values(0, (3, 4), (3, 4), (3, 4), dtype=dtype)
    params, state = run(MAKERS[name](**options, state_dtype=state_dtype), t, gradients)
    assert params.dtype == dtype
    expected = np.dtype(state_dtype or ("float64" if dtype is np.float64 else "float32"))
    for slot in ("b", "m", "v"):
        if slot in state:
            assert state[slot].dtype == expected
    wide = [np.asarray(x, np.float64) for x in (t, *gradients)]
    exact, _ = run(MAKERS[name](**options), wide[0], wide[1:])
    narrowest = min((np.dtype(dtype), expected), key=lambda d: d.itemsize)
    assert distance(params, exact) < {8: 1e-9, 4: 1e-4, 2: 2e-2}[narrowest.itemsize]


def test_double_state_of_single_parameters_is_computed_in_double() -> None:
    t, *gradients = values(0, (3, 4), (3, 4), (3, 4))
    for fused in (False, True):
        _, state = run(ox.adam(0.0, state_dtype="float64", fused=fused), t, gradients)
        wide = [np.asarray(x, np.float64) for x in (t, *gradients)]
        _, exact = run(ox.adam(0.0), wide[0], wide[1:])
        found = state["v"]["float32"] if fused else state["v"]
        assert np.array_equal(np.asarray(found).ravel(), np.asarray(exact["v"]).ravel())


@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
def test_x3_muon_with_weight_decay_on_half(dtype: Any) -> None:
    t, *gradients = values(0, (3, 4), (3, 4), (3, 4), dtype=dtype)
    params, state = run(ox.muon(0.1, weight_decay=0.1), t, gradients)
    exact, _ = run(ox.muon(0.1, weight_decay=0.1), *widened(t, gradients))
    assert params.dtype == dtype and state["b"].dtype == np.float32
    assert distance(params, exact) < (1e-2 if dtype == bfloat16 else 1e-3)


@every_fusable_kind
def test_x4_fused_with_mixed_dtypes(name: str, options: dict[str, Any], elementwise: bool) -> None:
    params, state = run(MAKERS[name](**options, fused=True), mixed(0), [mixed(1)])
    assert [x.dtype for x in pytree.leaves(params)] == [x.dtype for x in pytree.leaves(mixed(0))]
    for slot in ("b", "m", "v"):
        if slot in state:
            assert {key: (x.dtype, x.shape) for key, x in state[slot].items()} == {
                "float16": (np.float32, (11,)), "float32": (np.float32, (13,)),
                "bfloat16": (np.float32, (4,)), "float64": (np.float64, (14,)),
            }  # fmt: skip


@pytest.mark.parametrize("fused", [False, True])
def test_x5_norms_of_half_parameters_are_float32(fused: bool) -> None:
    # The squares of the one overflow float16 (300² is above 65504), those of the other underflow.
    params = {"large": np.full(1000, 300, np.float16), "small": np.full(1000, 2e-4, np.float16)}
    grads = {"large": np.full(1000, 500, np.float16), "small": np.full(1000, 1e-4, np.float16)}
    for optimizer in (ox.lars(0.1, 0.0, tcoef=0.5, weight_decay=0.0, fused=fused), ox.lamb(0.1, fused=fused)):
        found, _ = optimizer.step(params, grads, optimizer.init(params))
        for key in params:
            # The step is along t, and as long as t times tcoef (of lars) and the rate.
            factor = 0.05 if optimizer.name == "lars" else 0.1
            expected = np.asarray(params[key], np.float64) * (1 - factor)
            np.testing.assert_allclose(np.asarray(found[key], np.float64), expected, rtol=2e-3)


# Many leaves


@every_kind
def test_a_hundred_leaves_cost_a_fixed_number_of_operations_each(
    name: str, options: dict[str, Any], elementwise: bool
) -> None:
    optimizer = MAKERS[name](**{**options, "ns_steps": 1} if name == "muon" else options)

    def operations(count: int) -> int:
        params = {f"w{i}": values(i, (2, 3))[0] for i in range(count)}
        graph = make_graph(optimizer.step)(params, params, optimizer.init(params))
        return len([node for node in graph.nodes() if getattr(node.op, "family", "") not in ("", "movement")])

    each = operations(2) - operations(1)
    assert each <= {"sgd": 9, "adam": 13, "adamw": 15, "lars": 21, "lamb": 27, "muon": 21}[name]
    assert operations(100) == operations(1) + 99 * each


@pytest.mark.parametrize("fused", [False, True])
def test_a_hundred_leaves(fused: bool) -> None:
    params = {f"w{i}": values(i, (i % 5, 3))[0] for i in range(100)}
    gradients = [{f"w{i}": values(i + seed, (i % 5, 3))[0] for i in range(100)} for seed in (1, 2)]
    for name, options in (("adam", {}), ("lamb", {}), ("lars", {})):
        optimizer = MAKERS[name](**options, fused=fused)
        expected, _ = run(optimizer, params, gradients)
        found, _ = run(optimizer, params, gradients, jit(optimizer.step))
        assert distance(found, expected) < 1e-6
        for key in ("w1", "w99"):
            alone, _ = run(MAKERS[name](**options), params[key], [g[key] for g in gradients])
            assert distance(expected[key], alone) < 1e-6
