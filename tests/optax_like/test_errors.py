"""Errors of optimizers, options, and the environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.optax_like.running import bfloat16, run, same_bits, values
from tests.optax_like.test_group import LABELS
from tinyfn import optax_like as ox
from tinyfn.trace.array import as_array

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
    assert "test_errors.py" in str(raised.value)


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
