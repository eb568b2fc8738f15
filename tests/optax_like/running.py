"""What the tests of optimizers share: one of each kind, runs over gradients, comparison of bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tinyfn import optax_like as ox
from tinyfn.trace import pytree
from tinyfn.trace.array import Array, as_array

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


def lane(tree: Any, index: int) -> Any:
    return pytree.map(lambda x: np.asarray(x)[index], tree)


def widened(t: Any, gradients: Any) -> tuple[np.ndarray, list[np.ndarray]]:
    return np.asarray(t, np.float32), [np.asarray(g, np.float32) for g in gradients]


def optimizer_copy(tree: Any) -> Any:
    return pytree.map(lambda x: as_array(np.array(x)), tree)
