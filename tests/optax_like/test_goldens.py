"""Optimizers against the numbers that tinygrad and PyTorch computed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.goldens.make_optimizer_goldens import inputs_digest, optimizer_inputs
from tests.optax_like.running import MAKERS
from tinyfn import optax_like as ox
from tinyfn.trace.array import as_array

GOLDENS = json.loads((Path(__file__).parents[1] / "goldens" / "optimizers.json").read_text())


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
