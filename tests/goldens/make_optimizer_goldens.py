"""Writes ``optimizers.json``: what tinygrad's and PyTorch's optimizers do to each parameter at each step.

Run once with tinygrad 0.11.0 installed and once with torch 2.13 (each run replaces its own entries)::

    python tests/goldens/make_optimizer_goldens.py tinygrad
    python tests/goldens/make_optimizer_goldens.py torch

tinygrad runs on its ``PYTHON`` device (an interpreter that rounds every operation to the operand's dtype and
adds sums in order) unless ``DEVICE`` names another one, so no compiler is needed and the numbers do not
depend on the machine.

Every entry starts from the same parameters and receives the same gradients, both made by `optimizer_inputs`
from a seed, so a test needs only NumPy and the JSON. The format::

    {"steps": 6, "shapes": [[3], ...],
     "inputs": {"plain": {"seed": 0, "sha256": "..."}, ...},
     "entries": [{"peer": "tinygrad", "version": "0.11.0", "device": "PYTHON", "optimizer": "sgd",
                  "options": {"lr": 0.1}, "inputs": "plain", "parameters": [0, 1, 2, 3, 4],
                  "steps": [[<parameter 0 after step 1, flattened>, ...], ...]}, ...]}

``options`` are the peer's own keyword arguments. ``parameters`` lists the indices of the parameters the
optimizer was given (torch's Muon takes matrices only). ``note`` is present where a number needs a word of
explanation. Numbers are the shortest decimals that read back as the same float32.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

SHAPES: tuple[tuple[int, ...], ...] = ((3,), (4, 5), (2, 3, 4, 4), (7, 1), (1,))
STEPS = 6
SEEDS = {"plain": 0, "zeros": 1}
TARGET = Path(__file__).with_name("optimizers.json")


def optimizer_inputs(name: str) -> tuple[list[np.ndarray], list[list[np.ndarray]]]:
    """Returns (parameters, gradients): float32 arrays of `SHAPES`, and a list of such arrays for every step.

    Values are uniform in [-1, 1) in steps of 2**-22, made from the raw output of ``PCG64(seed)`` (whose
    stream NumPy guarantees): 23 high bits a value, parameters first, then the gradients of step 1, step 2 and
    so on.

    ``"plain"``: just that. ``"zeros"``: the first parameter starts at zero, and the second one's gradient is
    zero at every step, which is where a trust ratio divides by zero unless it is guarded.
    """
    generator = np.random.PCG64(SEEDS[name])

    def draw(shape: tuple[int, ...]) -> np.ndarray:
        raw = generator.random_raw(int(np.prod(shape)))
        unit = (raw >> np.uint64(41)).astype(np.float32) * np.float32(2.0**-22)
        return (unit - np.float32(1)).reshape(shape)

    parameters = [draw(shape) for shape in SHAPES]
    gradients = [[draw(shape) for shape in SHAPES] for _ in range(STEPS)]
    if name == "zeros":
        parameters[0][...] = 0
        for step in gradients:
            step[1][...] = 0
    return parameters, gradients


def inputs_digest(name: str) -> str:
    """Returns the SHA-256 of all the bytes of `optimizer_inputs(name)`, in order."""
    parameters, gradients = optimizer_inputs(name)
    digest = hashlib.sha256()
    for array in [*parameters, *(array for step in gradients for array in step)]:
        digest.update(np.ascontiguousarray(array).astype("<f4").tobytes())
    return digest.hexdigest()


Case = tuple[str, dict[str, Any]]

# (optimizer, keyword options): run on the "plain" inputs.
TINYGRAD_CASES: list[Case] = [
    ("sgd", {}),
    ("sgd", {"lr": 0.1}),
    ("sgd", {"lr": 0.1, "weight_decay": 0.1}),
    ("sgd", {"lr": 0.1, "weight_decay": -0.1}),
    ("sgd", {"lr": 0.1, "momentum": 0.9}),
    ("sgd", {"lr": 0.1, "nesterov": True}),
    ("sgd", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("sgd", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("sgd", {"lr": 0.1, "momentum": 0.9, "classic": True}),
    ("sgd", {"lr": 0.1, "momentum": 0.9, "classic": True, "nesterov": True, "weight_decay": 0.1}),
    ("sgd", {"lr": 10.0, "momentum": 0.9, "weight_decay": 0.01}),
    ("lars", {}),
    ("lars", {"lr": 0.1, "weight_decay": 0.1}),
    ("lars", {"lr": 0.1, "weight_decay": 0.0}),
    ("lars", {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.1}),
    ("lars", {"lr": 0.1, "nesterov": True, "weight_decay": 0.1}),
    ("lars", {"lr": 0.1, "classic": False, "weight_decay": 0.1}),
    ("lars", {"lr": 0.1, "classic": False, "nesterov": True}),
    ("lars", {"lr": 0.1, "pre_wd": False, "weight_decay": 0.1}),
    ("lars", {"lr": 0.1, "pre_wd": False, "classic": False, "weight_decay": 0.1}),
    ("lars", {"lr": 0.1, "tcoef": 0.0, "weight_decay": 0.1}),
    ("lars", {"lr": 10.0, "tcoef": 0.02}),
    ("lars", {"lr": 0.1, "ns_steps": 3, "ns_params": [2.0, -1.5, 0.5], "weight_decay": 0.1}),
    ("muon", {}),
    ("muon", {"weight_decay": 0.1}),
    ("muon", {"momentum": 0.0}),
    ("muon", {"nesterov": False}),
    ("muon", {"nesterov": False, "momentum": 0.5, "weight_decay": 0.1}),
    ("muon", {"ns_steps": 0}),
    ("muon", {"ns_steps": 1}),
    ("muon", {"ns_steps": 10}),
    ("muon", {"ns_params": [2.0, -1.5, 0.5]}),
    ("muon", {"ns_params": [1.5, -0.5]}),
    ("muon", {"ns_params": [2.1875, -2.1875, 1.3125, -0.3125], "ns_steps": 3}),
    ("muon", {"lr": 10.0, "weight_decay": 0.01}),
    ("adam", {}),
    ("adam", {"lr": 0.1}),
    ("adam", {"lr": 0.1, "b1": 0.8, "b2": 0.95}),
    ("adam", {"lr": 0.1, "b1": 0.0}),
    ("adam", {"lr": 0.1, "eps": 0.01}),
    ("adam", {"lr": 10.0}),
    ("adamw", {}),
    ("adamw", {"lr": 0.1, "weight_decay": 0.1}),
    ("adamw", {"lr": 0.1, "weight_decay": -0.1}),
    ("adamw", {"lr": 0.1, "b1": 0.8, "b2": 0.95, "eps": 0.01}),
    ("adamw", {"lr": 10.0, "weight_decay": 0.01}),
    ("lamb", {}),
    ("lamb", {"lr": 0.1}),
    ("lamb", {"lr": 0.1, "weight_decay": 0.1}),
    ("lamb", {"lr": 0.1, "weight_decay": -0.1}),
    ("lamb", {"lr": 0.1, "b1": 0.8, "b2": 0.95, "eps": 0.01, "weight_decay": 0.01}),
    ("lamb", {"lr": 0.1, "adam": True, "weight_decay": 0.1}),
    ("lamb", {"lr": 10.0}),
]
TORCH_CASES: list[Case] = [
    ("SGD", {}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 10.0, "momentum": 0.9, "weight_decay": 0.01}),
    ("Adam", {}),
    ("Adam", {"lr": 0.1, "betas": [0.8, 0.95], "eps": 0.01}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1, "amsgrad": True}),
    ("Adam", {"lr": 10.0}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.1, "betas": [0.8, 0.95], "eps": 0.01}),
    ("AdamW", {"lr": 10.0}),
    ("Muon", {}),
    ("Muon", {"lr": 0.1, "weight_decay": 0.0}),
    ("Muon", {"lr": 0.1, "nesterov": False, "momentum": 0.5}),
    ("Muon", {"lr": 0.1, "ns_steps": 3, "ns_coefficients": [2.0, -1.5, 0.5]}),
    ("Muon", {"lr": 0.1, "adjust_lr_fn": "match_rms_adamw"}),
]
# The same, run on the "zeros" inputs.
TINYGRAD_ZERO_CASES: list[Case] = [
    ("sgd", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    ("lars", {"lr": 0.1, "weight_decay": 0.1}),
    ("muon", {}),
    ("adam", {"lr": 0.1}),
    ("lamb", {"lr": 0.1}),
    ("lamb", {"lr": 0.1, "weight_decay": 0.1}),
]
TORCH_ZERO_CASES: list[Case] = [("Adam", {"lr": 0.1})]
TORCH_MUON_NOTE = "matrices only; Newton-Schulz runs in bfloat16, so about two digits are meaningful"


def shortest(array: np.ndarray) -> list[float]:
    """Returns the flattened float32 array as Python floats with the fewest digits that read back exactly."""
    flat = np.ascontiguousarray(array, dtype=np.float32).ravel()
    if not np.isfinite(flat).all():
        raise ValueError("a parameter became NaN or infinite: choose a smaller learning rate")
    numbers = [float(str(value)) for value in flat]
    assert np.array_equal(np.array(numbers).astype(np.float32), flat)
    return numbers


def tinygrad_entries() -> list[dict[str, Any]]:
    """Runs tinygrad's optimizers (unfused) and returns one entry a case."""
    device = os.environ.setdefault("DEVICE", "PYTHON")
    os.environ[device] = "1"
    from importlib.metadata import version

    from tinygrad import Device, Tensor
    from tinygrad.nn import optim

    assert device == Device.DEFAULT, Device.DEFAULT
    Tensor.training = True
    makers = {
        "sgd": optim.SGD,
        "lars": optim.LARS,
        "muon": optim.Muon,
        "adam": optim.Adam,
        "adamw": optim.AdamW,
        "lamb": optim.LAMB,
    }
    everything = list(range(len(SHAPES)))
    entries = []
    for inputs, cases in (("plain", TINYGRAD_CASES), ("zeros", TINYGRAD_ZERO_CASES)):
        for name, options in cases:
            start, gradients = optimizer_inputs(inputs)
            tensors = [Tensor(array, requires_grad=True).contiguous().realize() for array in start]
            optimizer = makers[name](tensors, **options)
            steps = []
            for step in gradients:
                for tensor, gradient in zip(tensors, step, strict=True):
                    tensor.grad = Tensor(gradient).contiguous().realize()
                optimizer.step()
                steps.append([shortest(tensor.numpy()) for tensor in tensors])
            made_by = {"peer": "tinygrad", "version": version("tinygrad"), "device": device}
            case = {"optimizer": name, "options": options, "inputs": inputs, "parameters": everything}
            entries.append({**made_by, **case, "steps": steps})
    return entries


def torch_entries() -> list[dict[str, Any]]:
    """Runs PyTorch's optimizers (on the CPU, one tensor at a time) and returns one entry a case."""
    import torch

    torch.set_num_threads(1)
    entries = []
    for inputs, cases in (("plain", TORCH_CASES), ("zeros", TORCH_ZERO_CASES)):
        for name, options in cases:
            start, gradients = optimizer_inputs(inputs)
            chosen = [i for i, shape in enumerate(SHAPES) if name != "Muon" or len(shape) == 2]
            tensors = [torch.from_numpy(start[i].copy()).requires_grad_() for i in chosen]
            keywords = dict(options) if name == "Muon" else {"foreach": False, **options}
            optimizer = getattr(torch.optim, name)(tensors, **keywords)
            steps = []
            for step in gradients:
                for tensor, i in zip(tensors, chosen, strict=True):
                    tensor.grad = torch.from_numpy(step[i].copy())
                optimizer.step()
                steps.append([shortest(tensor.detach().numpy()) for tensor in tensors])
            made_by = {"peer": "torch", "version": torch.__version__.split("+")[0], "device": "cpu"}
            case = {"optimizer": name, "options": options, "inputs": inputs, "parameters": chosen}
            note = {"note": TORCH_MUON_NOTE} if name == "Muon" else {}
            entries.append({**made_by, **case, **note, "steps": steps})
    return entries


def main(peer: str) -> None:
    """Replaces the entries of `peer` in the JSON file, one entry a line."""
    entries = {"tinygrad": tinygrad_entries, "torch": torch_entries}[peer]()
    if TARGET.exists():
        kept = [entry for entry in json.loads(TARGET.read_text())["entries"] if entry["peer"] != peer]
        entries = sorted([*kept, *entries], key=lambda entry: entry["peer"])
    compact = {"separators": (",", ":")}
    inputs = {name: {"seed": seed, "sha256": inputs_digest(name)} for name, seed in SEEDS.items()}
    head = json.dumps({"steps": STEPS, "shapes": SHAPES, "inputs": inputs}, **compact)
    lines = ",\n".join(json.dumps(entry, **compact) for entry in entries)
    TARGET.write_text(f'{head[:-1]},"entries":[\n{lines}\n]}}\n')
    print(f"{TARGET.name}: {len(entries)} entries, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
