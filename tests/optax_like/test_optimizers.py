"""The optimizers against tinygrad's and PyTorch's numbers, a float64 reference, and their own promises."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.goldens.make_optimizer_goldens import inputs_digest, optimizer_inputs
from tinyfn import checkpoint
from tinyfn import optax_like as ox
from tinyfn.trace import pytree
from tinyfn.trace.array import Array, as_array
from tinyfn.trace.prims import reduce_sum
from tinyfn.transforms import grad, jit, make_graph, vmap

GOLDENS = json.loads((Path(__file__).parents[1] / "goldens" / "optimizers.json").read_text())
bfloat16 = np.dtype(ml_dtypes.bfloat16)
MAKERS = {
    "sgd": ox.sgd,
    "lars": ox.lars,
    "muon": ox.muon,
    "adam": ox.adam,
    "adamw": ox.adamw,
    "lamb": ox.lamb,
}
# One of each kind of formula: (name, optimizer options, whether it is elementwise)
KINDS: list[tuple[str, dict[str, Any], bool]] = [
    ("sgd", {"lr": 0.1}, True),
    ("sgd", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}, True),
    ("sgd", {"lr": 0.1, "momentum": 0.9, "classic": True}, True),
    ("lars", {"lr": 0.1}, False),
    ("lars", {"lr": 0.1, "pre_wd": False, "classic": False, "weight_decay": 0.1}, False),
    ("lars", {"lr": 0.1, "tcoef": 0, "pre_wd": False, "weight_decay": 0.1}, True),
    ("muon", {"weight_decay": 0.1}, False),
    ("adam", {"lr": 0.1}, True),
    ("adamw", {"lr": 0.1}, True),
    ("lamb", {"lr": 0.1, "weight_decay": 0.1}, False),
    ("lamb", {"lr": 0.1, "weight_decay": 0.1, "adam": True}, True),
]
every_kind = pytest.mark.parametrize(("name", "options", "elementwise"), KINDS)
FUSABLE = [kind for kind in KINDS if kind[0] != "muon"]
every_fusable_kind = pytest.mark.parametrize(("name", "options", "elementwise"), FUSABLE)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("FUSE_OPTIM", "OPTIM_DTYPE", "CONST_LR"):
        monkeypatch.delenv(variable, raising=False)


def values(seed: int, *shapes: tuple[int, ...], dtype: Any = np.float32) -> list[Array]:
    generator = np.random.default_rng(seed)
    return [as_array(np.asarray(generator.uniform(-1, 1, shape)).astype(dtype)) for shape in shapes]


def same_bits(a: Any, b: Any) -> bool:
    leaves, others = pytree.leaves(a), pytree.leaves(b)
    return pytree.structure(a) == pytree.structure(b) and all(
        x.dtype == y.dtype and x.shape == y.shape and np.asarray(x).tobytes() == np.asarray(y).tobytes()
        for x, y in zip(leaves, others, strict=True)
    )


def distance(a: Any, b: Any) -> float:
    """The greatest difference between two trees' leaves, relative to the greatest value in each."""
    assert pytree.structure(a) == pytree.structure(b)
    worst = 0.0
    for x, y in zip(pytree.leaves(a), pytree.leaves(b), strict=True):
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        assert x.shape == y.shape
        if x.size:
            worst = max(worst, float(np.abs(x - y).max() / max(np.abs(y).max(), 1e-30)))
    return worst


def run(optimizer: ox.Optimizer, params: Any, gradients: list[Any], step: Any = None) -> tuple[Any, Any]:
    state = optimizer.init(params)
    for grads in gradients:
        params, state = (step or optimizer.step)(params, grads, state)
    return params, state


# tinygrad's and PyTorch's numbers


def golden_id(entry: dict[str, Any]) -> str:
    return f"{entry['peer']}-{entry['optimizer']}-{entry['inputs']}-" + ",".join(
        f"{key}={value}" for key, value in entry["options"].items()
    )


def golden_run(entry: dict[str, Any], optimizers: list[ox.Optimizer], change: Any = None) -> float:
    """The greatest difference to the entry's numbers, relative to the parameter's greatest value."""
    start, gradients = optimizer_inputs(entry["inputs"])
    worst = 0.0
    for position, (index, optimizer) in enumerate(zip(entry["parameters"], optimizers, strict=True)):
        t: Any = as_array(start[index])
        expected = np.array([step[position] for step in entry["steps"]])
        scale = max(np.abs(expected).max(), np.abs(start[index]).max())
        state = optimizer.init(t)
        for number, step in enumerate(gradients):
            g = step[index]
            t, state = optimizer.step(t, g if change is None else change(number, np.asarray(t), g), state)
            worst = max(worst, float(np.abs(np.asarray(t).ravel() - expected[number]).max() / scale))
    return worst


def test_golden_inputs() -> None:
    assert len(GOLDENS["entries"]) == 81
    for name, described in GOLDENS["inputs"].items():
        assert inputs_digest(name) == described["sha256"]


@pytest.mark.parametrize("entry", [e for e in GOLDENS["entries"] if e["peer"] == "tinygrad"], ids=golden_id)
def test_tinygrad_golden(entry: dict[str, Any]) -> None:
    optimizer = MAKERS[entry["optimizer"]](**entry["options"])
    bound = 2e-5 if entry["optimizer"] in ("adam", "adamw", "lamb") else 2e-6
    assert golden_run(entry, [optimizer] * len(entry["parameters"])) < bound


@pytest.mark.parametrize("entry", [e for e in GOLDENS["entries"] if e["peer"] == "torch"], ids=golden_id)
def test_torch_golden(entry: dict[str, Any]) -> None:
    options, name = dict(entry["options"]), entry["optimizer"].lower()
    if "betas" in options:
        options["b1"], options["b2"] = options.pop("betas")
    change: Any = None
    bound = {"sgd": 2e-6, "muon": 0.02}.get(name, 2e-5)
    if name == "sgd" and "dampening" in options:
        undamped = 1 - options.pop("dampening")
        change = lambda step, t, g: g * np.float32(undamped if step else 1)
    if name == "adam" and "weight_decay" in options:
        decay = options.pop("weight_decay")  # coupled: Adam's moments see it
        change = lambda step, t, g: g + np.float32(decay) * t
    if options.get("amsgrad"):
        with pytest.raises(TypeError, match="amsgrad"):
            ox.adam(**options)
        return
    optimizers = []
    for index in entry["parameters"]:
        mine = dict(options)
        if name == "muon":
            mine = {"lr": 1e-3, "weight_decay": 0.1, "aspect_ratio_scale": True, **mine}
            if "ns_coefficients" in mine:
                mine["ns_params"] = mine.pop("ns_coefficients")
            if mine.pop("adjust_lr_fn", None) == "match_rms_adamw":
                # The step, but not the decay, is scaled by the rule that Moonshot gives in place of Jordan's.
                factor = 0.2 * math.sqrt(max(GOLDENS["shapes"][index]))
                mine.update(
                    lr=mine["lr"] * factor,
                    weight_decay=mine["weight_decay"] / factor,
                    aspect_ratio_scale=False,
                )
        optimizers.append(MAKERS[name](**mine))
    assert golden_run(entry, optimizers, change) < bound


# A float64 reference, written from the description of each step in tinygrad


def reference_lars(
    t: np.ndarray, gradients: list[np.ndarray], *, lr: float, momentum: float, weight_decay: float,
    nesterov: bool, classic: bool, pre_wd: bool, tcoef: float, ns_steps: int = 0,
    ns_params: tuple[float, ...] = (),
) -> np.ndarray:  # fmt: skip
    b = np.zeros_like(t)
    for g in gradients:
        r = 1.0
        if tcoef != 0:
            r1, r2 = np.sqrt((t * t).sum()), np.sqrt((g * g).sum())
            r = tcoef * r1 / (r2 + weight_decay * r1) if r1 > 0 and r2 > 0 else 1.0
        if pre_wd and weight_decay > 0:
            g = g + weight_decay * t
        if classic:
            g = g * r * lr
        if momentum:
            b = momentum * b + g
            g = g + momentum * b if nesterov else b
        if ns_params:
            g = reference_newton_schulz(g.reshape(g.shape[0], -1), ns_steps, ns_params).reshape(g.shape)
        if not pre_wd and weight_decay > 0:
            t = t * (1 - weight_decay * lr)
        if not classic:
            g = g * r * lr
        t = t - g
    return t


def reference_newton_schulz(
    g: np.ndarray, steps: int, params: tuple[float, ...], eps: float = 1e-7
) -> np.ndarray:
    g = g / (np.sqrt((g * g).sum()) + eps)
    tall = g.shape[0] > g.shape[1]
    g = g.T if tall else g
    for _ in range(steps):
        g = sum(p * np.linalg.matrix_power(g @ g.T, i) @ g for i, p in enumerate(params))
    return g.T if tall else g


def reference_lamb(
    t: np.ndarray, gradients: list[np.ndarray], *, lr: float, b1: float, b2: float, eps: float,
    weight_decay: float, adam: bool,
) -> np.ndarray:  # fmt: skip
    m, v, b1_t, b2_t = np.zeros_like(t), np.zeros_like(t), 1.0, 1.0
    for g in gradients:
        b1_t, b2_t = b1_t * b1, b2_t * b2
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        up = (m / (1 - b1_t)) / (np.sqrt(v / (1 - b2_t)) + eps) + weight_decay * t
        r1, r2 = np.sqrt((t * t).sum()), np.sqrt((up * up).sum())
        r = 1.0 if adam or r1 == 0 or r2 == 0 else r1 / r2
        t = t - lr * r * up
    return t


rates = st.sampled_from([0.0, 1e-3, 0.05, 0.5])
decays = st.sampled_from([-0.1, 0.0, 1e-4, 0.3])
shapes = st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple)
any_shape = st.one_of(shapes, st.just(()))


def drawn(
    shape: tuple[int, ...], seed: int, zeros: bool, steps: int = 3
) -> tuple[np.ndarray, list[np.ndarray]]:
    arrays = [np.asarray(x, np.float64) for x in values(seed, *[shape] * (steps + 1), dtype=np.float64)]
    return (arrays[0] * 0 if zeros else arrays[0]), arrays[1:]


def check_reference(
    optimizer: ox.Optimizer, t: np.ndarray, gradients: list[np.ndarray], expected: Any, loose: float
) -> None:
    exact, _ = run(optimizer, as_array(t), gradients)
    assert exact.dtype == np.float64 and exact.shape == t.shape
    np.testing.assert_allclose(np.asarray(exact), expected, rtol=1e-9, atol=1e-9)
    narrow, _ = run(optimizer, as_array(t.astype(np.float32)), [g.astype(np.float32) for g in gradients])
    assert narrow.dtype == np.float32
    if loose < math.inf:
        np.testing.assert_allclose(np.asarray(narrow), expected, rtol=loose, atol=loose)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    any_shape, st.integers(0, 9), st.booleans(), rates, st.sampled_from([0.0, 0.5, 0.95]), decays,
    st.booleans(), st.booleans(), st.booleans(), st.sampled_from([0.0, 1e-3, 0.5]),
)  # fmt: skip
def test_lars_reference(
    shape: Any, seed: int, zeros: bool, lr: float, momentum: float, weight_decay: float, nesterov: bool,
    classic: bool, pre_wd: bool, tcoef: float,
) -> None:  # fmt: skip
    t, gradients = drawn(shape, seed, zeros)
    options: dict[str, Any] = {
        "lr": lr,
        "momentum": momentum,
        "weight_decay": weight_decay,
        "nesterov": nesterov,
    }
    options |= {"classic": classic, "pre_wd": pre_wd, "tcoef": tcoef}
    expected = reference_lars(t, gradients, **options)
    # A negative decay may make the ratio's denominator cancel to any extent: float32 then tells nothing.
    loose = math.inf if tcoef and weight_decay < 0 else 5e-6
    check_reference(ox.lars(**options), t, gradients, expected, loose)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    shapes.filter(lambda s: 0 not in s), st.integers(0, 9), rates, st.sampled_from([0.0, 0.95]), decays,
    st.booleans(), st.integers(0, 3),
    st.sampled_from([(3.4445, -4.775, 2.0315), (1.5, -0.5), (1.0,), (2, -1.5, 0.5, 0)]),
)  # fmt: skip
def test_muon_reference(
    shape: Any,
    seed: int,
    lr: float,
    momentum: float,
    weight_decay: float,
    nesterov: bool,
    steps: int,
    params: Any,
) -> None:
    t, gradients = drawn(shape, seed, False)
    options: dict[str, Any] = {
        "lr": lr,
        "momentum": momentum,
        "weight_decay": weight_decay,
        "nesterov": nesterov,
    }
    options |= {"ns_steps": steps, "ns_params": params}
    expected = reference_lars(t, gradients, classic=False, pre_wd=False, tcoef=0.0, **options)
    check_reference(ox.muon(**options), t, gradients, expected, 2e-5)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    any_shape, st.integers(0, 9), st.booleans(), rates, st.sampled_from([0.0, 0.8, 0.9]),
    st.sampled_from([0.0, 0.9, 0.999]), st.sampled_from([1e-8, 1e-3]), decays, st.booleans(),
)  # fmt: skip
def test_lamb_reference(
    shape: Any,
    seed: int,
    zeros: bool,
    lr: float,
    b1: float,
    b2: float,
    eps: float,
    weight_decay: float,
    adam: bool,
) -> None:
    t, gradients = drawn(shape, seed, zeros)
    options: dict[str, Any] = {
        "lr": lr,
        "b1": b1,
        "b2": b2,
        "eps": eps,
        "weight_decay": weight_decay,
        "adam": adam,
    }
    expected = reference_lamb(t, gradients, **options)
    check_reference(ox.lamb(**options), t, gradients, expected, 1e-4)


def test_families_share_a_rule() -> None:
    (t, g) = values(0, (3, 4), (3, 4))
    pairs = [
        (ox.sgd(0.1, 0.9, 0.1, True), ox.lars(0.1, 0.9, 0.1, nesterov=True, classic=False, tcoef=0)),
        (ox.adam(0.1), ox.lamb(0.1, eps=1e-8, adam=True)),
        (ox.adamw(0.1), ox.lamb(0.1, eps=1e-8, weight_decay=0.01, adam=True)),
        (
            ox.muon(0.1, weight_decay=0.1),
            ox.lars(0.1, 0.95, 0.1, 5, (3.4445, -4.775, 2.0315), True, False, False, 0),
        ),
    ]
    for one, other in pairs:
        assert same_bits(run(one, t, [g, g]), run(other, t, [g, g]))


# Newton-Schulz


def test_newton_schulz_makes_singular_values_one() -> None:
    for shape in ((6, 9), (9, 6), (5, 5)):
        (g,) = values(1, shape)
        singular = np.linalg.svd(np.asarray(ox.newton_schulz(g)), compute_uv=False)
        assert singular.min() > 0.3 and singular.max() < 1.3
        cubic = np.linalg.svd(np.asarray(ox.newton_schulz(g, 30, (1.5, -0.5))), compute_uv=False)
        np.testing.assert_allclose(cubic, 1, atol=1e-5)


@pytest.mark.parametrize(
    "params", [(2.0,), (1.5, -0.5), (3.4445, -4.775, 2.0315), (2.1875, -2.1875, 1.3125, -0.3125)]
)
def test_newton_schulz_any_number_of_coefficients(params: tuple[float, ...]) -> None:
    (batch,) = values(2, (2, 3, 4, 6), dtype=np.float64)
    found = np.asarray(ox.newton_schulz(batch, 3, params, 1e-3))
    for i, j in np.ndindex(2, 3):
        expected = reference_newton_schulz(np.asarray(batch)[i, j], 3, params, 1e-3)
        np.testing.assert_allclose(found[i, j], expected, rtol=1e-12, atol=1e-14)


def test_newton_schulz_works_on_the_smaller_square() -> None:
    for shape in ((50, 2), (2, 50)):
        graph = make_graph(ox.newton_schulz)(np.ones(shape, np.float32))
        assert all(node.shape != (50, 50) for node in graph.nodes())


def test_newton_schulz_shapes_and_dtypes() -> None:
    (vector,) = values(3, (5,))
    column = np.asarray(ox.newton_schulz(np.asarray(vector).reshape(5, 1)))
    assert np.array_equal(np.asarray(ox.newton_schulz(vector)), column.ravel())
    half = ox.newton_schulz(
        np.full((40, 40), 300, np.float16)
    )  # its norm is 12,000, the sum of squares 1.4e8
    assert half.dtype == np.float16 and np.isfinite(np.asarray(half)).all()
    for shape in ((0, 3), (3, 0), (2, 0, 3), (0,)):
        assert ox.newton_schulz(np.zeros(shape, np.float32)).shape == shape
    assert not np.asarray(ox.newton_schulz(np.zeros((3, 2), np.float32))).any()
    with pytest.raises(ValueError, match="needs a matrix or a vector, not a scalar"):
        ox.newton_schulz(np.float32(1))
    with pytest.raises(TypeError, match=r"needs a matrix of floats, not int32\[2,2\]"):
        ox.newton_schulz(np.ones((2, 2), np.int32))
    with pytest.raises(ValueError, match="at least one coefficient"):
        ox.newton_schulz(vector, params=())
    with pytest.raises(TypeError, match="ns_steps must be an int"):
        ox.newton_schulz(vector, steps=2.0)  # type: ignore[arg-type]


def test_muon_takes_convolutions_vectors_and_aspect_ratios() -> None:
    t, g = values(4, (6, 2, 1, 2), (6, 2, 1, 2))
    plain, _ = run(ox.muon(0.1, ns_steps=2), t, [g])
    matrix, _ = run(ox.muon(0.1, ns_steps=2), np.asarray(t).reshape(6, 4), [np.asarray(g).reshape(6, 4)])
    assert np.array_equal(np.asarray(plain).reshape(6, 4), np.asarray(matrix))
    scaled, _ = run(ox.muon(0.1, ns_steps=2, aspect_ratio_scale=True), t, [g])
    ratio = (np.asarray(scaled) - np.asarray(t)) / (np.asarray(plain) - np.asarray(t))
    np.testing.assert_allclose(ratio, math.sqrt(1.5), rtol=1e-4)
    wide, g = np.ones((2, 3), np.float32), values(5, (2, 3))[0]
    assert same_bits(run(ox.muon(aspect_ratio_scale=True), wide, [g]), run(ox.muon(), wide, [g]))


# Fused


MIXED = {
    "a": {"w": ((3, 4), np.float32), "half": ((5,), np.float16)},
    "b": [((), np.float32), ((0, 3), np.float32), ((2, 2), bfloat16)],
    "c": ((7, 2), np.float64),
    "d": ((6,), np.float16),
}


def mixed(seed: int) -> Any:
    leaves, tree = pytree.flatten(MIXED, is_leaf=lambda x: isinstance(x, tuple))
    return pytree.unflatten(
        tree, [values(seed + 10 * i, shape, dtype=dtype)[0] for i, (shape, dtype) in enumerate(leaves)]
    )


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


def lane(tree: Any, index: int) -> Any:
    return pytree.map(lambda x: np.asarray(x)[index], tree)


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


def widened(t: Any, gradients: Any) -> tuple[np.ndarray, list[np.ndarray]]:
    return np.asarray(t, np.float32), [np.asarray(g, np.float32) for g in gradients]


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


def optimizer_copy(tree: Any) -> Any:
    return pytree.map(lambda x: as_array(np.array(x)), tree)


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


# Groups


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


# Errors


def with_params(optimizer: ox.Optimizer, grads: Any) -> Any:
    params = {"layer": {"w": np.ones((2, 3), np.float32), "b": np.ones(3, np.float16)}, "n": np.int32(1)}
    return optimizer.step(params, grads, optimizer.init(params))


W, B = np.ones((2, 3), np.float32), np.ones(3, np.float16)


@pytest.mark.parametrize(
    "optimizer", [ox.sgd(), ox.adam(), ox.adam(fused=True), ox.lars(), ox.group("x", {"x": ox.lamb()})]
)
@pytest.mark.parametrize(
    ("error", "grads", "message"),
    [
        (
            ValueError,
            {"layer": {"w": W}, "n": None},
            r"no gradient for params\['layer'\]\['b'\]; at .*give None",
        ),
        (ValueError, {"layer": {"w": W}}, r"no gradient for params\['layer'\]\['b'\], params\['n'\]"),
        (
            ValueError,
            {},
            r"no gradient for params\['layer'\]\['b'\], params\['layer'\]\['w'\], params\['n'\]",
        ),
        (ValueError, {"layer": {"w": W, "b": B, "c": B}, "n": None}, r"at \['layer'\]: .*extra keys \['c'\]"),
        (
            ValueError,
            {"layer": [W, B], "n": None},
            r"structure of params: at \['layer'\]: expected dict .* list",
        ),
        (ValueError, [W, B, None], r"grads does not have the structure of params: at the root"),
        (ValueError, None, r"grads does not have the structure of params: at the root"),
        (ValueError, {"layer": {"w": None, "b": None}, "n": None}, r"every gradient is None"),
        (
            ValueError,
            {"layer": {"w": W.T, "b": B}, "n": None},
            r"gradient of params\['layer'\]\['w'\] \(float32\[2,3\]\) has another shape: float32\[3,2\]",
        ),
        (
            ValueError,
            {"layer": {"w": np.float32(1), "b": B}, "n": None},
            r"gradient of params\['layer'\]\['w'\] \(float32\[2,3\]\) has another shape: float32\[\]",
        ),
        (
            TypeError,
            {"layer": {"w": W, "b": np.ones(3, np.float32)}, "n": None},
            r"gradient of params\['layer'\]\['b'\] \(float16\[3\]\) .*does not fit: float32\[3\].*float16",
        ),
        (TypeError, {"layer": {"w": W.astype(int), "b": B}, "n": None}, r"does not fit: int64\[2,3\]"),
        (TypeError, {"layer": {"w": W.astype(float), "b": B}, "n": None}, r"does not fit: float64\[2,3\]"),
        (
            TypeError,
            {"layer": {"w": "W", "b": B}, "n": None},
            r"params\['layer'\]\['w'\] .* is a str, not an array",
        ),
        (
            TypeError,
            {"layer": {"w": [W], "b": B}, "n": None},
            r"params\['layer'\]\['w'\] .* is a list, not an array",
        ),
        (
            TypeError,
            {"layer": {"w": W, "b": B}, "n": np.float32(1)},
            r"params\['n'\] \(int32\[\]\) has a gradient",
        ),
    ],
)
def test_gradient_errors(optimizer: ox.Optimizer, error: Any, grads: Any, message: str) -> None:
    with pytest.raises(error, match=rf"{optimizer.name}.step: .*{message}") as raised:
        with_params(optimizer, grads)
    assert "test_optimizers.py" in str(raised.value)


def test_narrower_gradients_are_widened() -> None:
    (t,) = values(0, (3,))
    (g,) = values(1, (3,), dtype=np.float16)
    for fused in (False, True):
        found, _ = run(ox.adam(0.1, fused=fused), [t, t * 1], [[g, g]])
        assert same_bits(found[0], run(ox.adam(0.1), t, [np.asarray(g, np.float32)])[0])


@pytest.mark.parametrize(
    ("error", "make", "message"),
    [
        (ValueError, lambda: ox.sgd(-0.1), "sgd: lr must be at least 0, not -0.1"),
        (ValueError, lambda: ox.adam(float("nan")), "adam: lr must be finite, not nan"),
        (TypeError, lambda: ox.adam("0.1"), r"adam: lr must be a number, not str; at .*set_learning_rate"),
        (TypeError, lambda: ox.adam(as_array(np.float32(0.1))), r"adam: lr must be a number, not Array"),
        (TypeError, lambda: ox.adam(True), r"adam: lr must be a number, not bool"),
        (ValueError, lambda: ox.sgd(momentum=-0.1), "sgd: momentum must be at least 0, not -0.1"),
        (ValueError, lambda: ox.lars(tcoef=-1), "lars: tcoef must be at least 0, not -1"),
        (TypeError, lambda: ox.lars(weight_decay=None), "lars: weight_decay must be a number, not NoneType"),
        (ValueError, lambda: ox.adam(b1=1.0), "adam: b1 must be at least 0 and below 1, not 1.0"),
        (ValueError, lambda: ox.adam(b2=-0.5), "adam: b2 must be at least 0 and below 1, not -0.5"),
        (ValueError, lambda: ox.lamb(eps=-1e-8), "lamb: eps must be at least 0"),
        (ValueError, lambda: ox.muon(ns_steps=-1), "muon: ns_steps must be at least 0, not -1"),
        (TypeError, lambda: ox.muon(ns_steps=1.5), "muon: ns_steps must be an int, not float"),
        (TypeError, lambda: ox.muon(ns_params=("a",)), "muon: each of ns_params must be a number, not str"),
        (ValueError, lambda: ox.muon(fused=True), "muon can't be fused .*pass fused=False"),
        (ValueError, lambda: ox.lars(ns_params=(1.5, -0.5), fused=True), "lars can't be fused"),
        (
            ValueError,
            lambda: ox.adam(state_dtype="int32"),
            "adam: state_dtype should be one of .*, not 'int32'",
        ),
        (ValueError, lambda: ox.adam(state_dtype="float8_e5m2"), "state_dtype should be one of"),
    ],
)
def test_option_errors(error: Any, make: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_numbers_of_numpy_are_numbers() -> None:
    assert float(ox.sgd(np.float32(0.5)).init(1.0)["lr"]) == 0.5
    assert float(ox.sgd(np.int64(2)).init(1.0)["lr"]) == 2


def test_params_and_state_errors() -> None:
    params = {"w": W}
    with pytest.raises(TypeError, match=r"adam.init: params\['name'\] is a str, not an array or a number"):
        ox.adam().init({"w": W, "name": "x"})
    with pytest.raises(ValueError, match=r"adam.init: params has no leaf of a float dtype"):
        ox.adam().init({"n": np.int32(1)})
    with pytest.raises(ValueError, match=r"adam.init: params has no leaf of a float dtype"):
        ox.adam().init({})
    state = ox.adam().init(params)
    with pytest.raises(
        ValueError, match=r"sgd.step: the state should be a dict with the keys \['b', 'lr'\], not \["
    ):
        ox.sgd(momentum=0.9).step(params, params, state)
    with pytest.raises(ValueError, match=r"the keys .*, not NoneType"):
        ox.sgd().step(params, params, None)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"state\['m'\]\['w'\] should have floats of shape \[2,3\].*not float32\[3,2\]"
    ):
        ox.adam().step(params, params, {**state, "m": {"w": W.T}})
    with pytest.raises(
        ValueError, match=r"state\['v'\]\['w'\] should have floats of shape \[2,3\].*not None"
    ):
        ox.adam().step(params, params, {**state, "v": {"w": None}})
    with pytest.raises(ValueError, match=r"state\['m'\] does not have the structure of params: at the root"):
        ox.adam().step(params, params, {**state, "m": {"x": W}})
    with pytest.raises(ValueError, match=r"state\['lr'\] should have one element, not shape \(3, 1\).*vmap"):
        ox.adam().step(params, params, {**state, "lr": np.ones((3, 1), np.float32)})
    with pytest.raises(
        ValueError, match=r"the fused state\['m'\] should be a dict .*\['float32'\], not \['w'\]"
    ):
        ox.adam(fused=True).step(params, params, state)
    with pytest.raises(
        ValueError, match=r"state\['m'\]\['float32'\] should have floats of shape \[6\].*float32\[5\]"
    ):
        fused = ox.adam(fused=True)
        fused.step(params, params, {**fused.init(params), "m": {"float32": np.ones(5, np.float32)}})


# The environment, read when an optimizer is made


def test_fuse_optim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSE_OPTIM", "1")
    optimizer = ox.adam()
    plain = ox.adam(fused=False)
    with pytest.raises(ValueError, match="muon can't be fused"):
        ox.muon()
    ox.muon(fused=False)
    monkeypatch.setenv("FUSE_OPTIM", "0")
    assert set(run(optimizer, W, [W])[1]["m"]) == {"float32"}
    assert run(plain, W, [W])[1]["m"].shape == W.shape
    assert ox.adam().init(W)["m"].shape == W.shape
    monkeypatch.setenv("FUSE_OPTIM", "yes")
    with pytest.raises(ValueError, match="FUSE_OPTIM should be 0 or 1, not 'yes'"):
        ox.adam()


def test_optim_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIM_DTYPE", "half")
    optimizer, explicit = ox.adam(), ox.adam(state_dtype="bfloat16")
    monkeypatch.setenv("OPTIM_DTYPE", "integer")
    assert optimizer.init(W)["m"].dtype == np.float16 and explicit.init(W)["m"].dtype == bfloat16
    assert optimizer.init(W)["b1_t"].dtype == np.float32
    with pytest.raises(ValueError, match=r"OPTIM_DTYPE should be one of .*, not 'integer'"):
        ox.sgd()


def test_repr_shows_the_options() -> None:
    assert (
        repr(ox.adam(0.1, fused=True))
        == "adam(lr=0.1, b1=0.9, b2=0.999, eps=1e-08, weight_decay=0.0, adam=True, fused=True)"
    )
    assert "matrix" in repr(ox.group(LABELS, {"matrix": ox.sgd(), "bias": ox.sgd()}))


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
