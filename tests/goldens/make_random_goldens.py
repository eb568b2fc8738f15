"""Writes ``random.json``: what ``jax.random`` gives for a few keys, to hold tinyfn's generator to it.

Run in an environment with jax 0.10.2 (CPU)::

    python tests/goldens/make_random_goldens.py

The generator is JAX's default, ``threefry2x32`` with ``jax_threefry_partitionable=True``. The format::

    {"version": "0.10.2", "implementation": "threefry2x32", "partitionable": true,
     "entries": [{"function": "uniform", "seed": 42, "x64": false,
                  "arguments": {"shape": [5], "dtype": "float32"}, "dtype": "float32",
                  "shape": [5], "values": ["0x1.2p-1", ...]}, ...]}

``arguments`` are the keyword arguments of ``jax.random.<function>(jax.random.key(seed), ...)``; an array
argument is ``{"array": [...], "dtype": "float32"}``. ``key_data``, ``split`` and ``fold_in`` store the keys'
words: uint32 with a last axis of 2. ``x64`` tells whether ``jax_enable_x64`` was on: it decides the words of
seeds outside 32 bits (off: the high word is 0; on: it is the seed's, sign included), the default dtypes, and
so the draws that use them (``choice`` without weights, ``bernoulli`` with a Python number). Values are
flattened in C order: floats as ``float.hex()`` (exact for every width), integers and Booleans as themselves.

Key words, bits, integer samples, permutations and uniform samples on [0, 1) are exact on every machine.
Uniform samples on another interval may differ by one ulp (a multiply and an add, fused or not). Samples that
go through ``log``, ``erf_inv``, ``tan`` or a loop of rejections are XLA's approximations on the CPU: compare
those with a tolerance of a few ulp.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np

TARGET = Path(__file__).with_name("random.json")
SEEDS = (0, 42, 2**33 + 7)
EDGE_SEEDS = (1, -1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, -(2**63))
SHAPES: tuple[list[int], ...] = ([], [5], [2, 3])
THROUGH_LOG = ("gumbel", "exponential", "laplace", "logistic", "cauchy")
Case = tuple[str, dict[str, Any]]


def array(values: Any, dtype: str) -> dict[str, Any]:
    """Returns the JSON form of an array argument."""
    return {"array": values, "dtype": dtype}


# With jax_enable_x64 off, and once more (for the 64-bit dtypes, and to show what does not change) with it on.
KEY_CASES: list[Case] = [
    ("key_data", {}),
    ("split", {}),
    ("split", {"num": 1}),
    ("split", {"num": 3}),
    ("split", {"num": [2, 3]}),
    *(("fold_in", {"data": data}) for data in (0, 1, 7, 2**31 - 1, 2**31, 2**32 - 1)),
]
LOGITS = [[0.0, 1.0, -1.0, 2.5], [3.0, 3.0, -2.0, 0.5]]
WEIGHTS = [0.1, 0.2, 0.3, 0.15, 0.25]
CASES: list[Case] = [
    *(("bits", {"shape": shape, "dtype": "uint8"}) for shape in SHAPES),
    *(("bits", {"shape": shape, "dtype": "uint16"}) for shape in SHAPES),
    *(("bits", {"shape": shape, "dtype": "uint32"}) for shape in SHAPES),
    ("bits", {"shape": [0], "dtype": "uint32"}),
    *(("uniform", {"shape": shape, "dtype": "float32"}) for shape in SHAPES),
    ("uniform", {"shape": [5], "dtype": "float32", "minval": -2.5, "maxval": 7.0}),
    ("uniform", {"shape": [5], "dtype": "float32", "minval": 1.0, "maxval": 1.0000001}),
    ("uniform", {"shape": [5], "dtype": "float16"}),
    ("uniform", {"shape": [5], "dtype": "bfloat16"}),
    *(("normal", {"shape": shape, "dtype": "float32"}) for shape in SHAPES),
    ("normal", {"shape": [5], "dtype": "float16"}),
    ("normal", {"shape": [5], "dtype": "bfloat16"}),
    *(
        ("randint", {"shape": [5], "minval": low, "maxval": high, "dtype": dtype})
        for low, high, dtype in (
            (0, 10, "int32"),
            (-5, 6, "int32"),
            (0, 1, "int32"),
            (3, 3, "int32"),
            (0, 1_000_000_007, "int32"),
            (-(2**31), 2**31 - 1, "int32"),
            (0, 7, "uint8"),
            (0, 256, "uint8"),
            (-128, 127, "int8"),
            (0, 1000, "uint16"),
            (array(0, "uint32"), array(2**32 - 1, "uint32"), "uint32"),
        )
    ),
    ("randint", {"shape": [2, 3], "minval": 0, "maxval": 10, "dtype": "int32"}),
    ("randint", {"shape": [], "minval": 0, "maxval": 10, "dtype": "int32"}),
    (
        "randint",
        {
            "shape": [3],
            "minval": array([0, 10, -4], "int32"),
            "maxval": array([5, 1000, 0], "int32"),
            "dtype": "int32",
        },
    ),
    ("bernoulli", {}),
    ("bernoulli", {"p": 0.3, "shape": [2, 3]}),
    ("bernoulli", {"p": array([0.0, 0.1, 0.5, 0.9, 1.0], "float32")}),
    ("permutation", {"x": 10}),
    ("permutation", {"x": 1}),
    ("permutation", {"x": array([3, 1, 4, 1, 5, 9, 2], "int32")}),
    ("permutation", {"x": array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]], "int32")}),
    ("permutation", {"x": array([[0, 1, 2], [3, 4, 5]], "int32"), "axis": 1}),
    ("permutation", {"x": array([[0, 1, 2], [3, 4, 5]], "int32"), "axis": 1, "independent": True}),
    ("choice", {"a": 10, "shape": [5]}),
    ("choice", {"a": 10}),
    ("choice", {"a": 10, "shape": [2, 3], "replace": False}),
    ("choice", {"a": array([1.5, 2.5, 3.5, 4.5, 5.5], "float32"), "shape": [5]}),
    ("choice", {"a": 5, "shape": [5], "p": array(WEIGHTS, "float32")}),
    ("choice", {"a": 5, "shape": [3], "replace": False, "p": array(WEIGHTS, "float32")}),
    ("choice", {"a": array([[0, 1], [2, 3], [4, 5]], "int32"), "shape": [4]}),
    ("categorical", {"logits": array(LOGITS[0], "float32")}),
    ("categorical", {"logits": array(LOGITS, "float32")}),
    ("categorical", {"logits": array(LOGITS, "float32"), "axis": 0}),
    ("categorical", {"logits": array(LOGITS[0], "float32"), "shape": [2, 3]}),
    ("categorical", {"logits": array(LOGITS[0], "float32"), "shape": [3], "replace": False}),
    ("truncated_normal", {"lower": -2.0, "upper": 2.0, "shape": [5], "dtype": "float32"}),
    ("truncated_normal", {"lower": 0.5, "upper": 1.0, "shape": [2, 3], "dtype": "float32"}),
    *((name, {"shape": [5], "dtype": "float32"}) for name in THROUGH_LOG),
    ("gumbel", {"shape": [5], "dtype": "bfloat16"}),
    ("gumbel", {"shape": [5], "dtype": "float32", "mode": "high"}),
    ("exponential", {"shape": [5], "dtype": "float16"}),
    ("rademacher", {"shape": [5], "dtype": "int32"}),
    ("gamma", {"a": array([0.05, 0.5, 1.0, 2.5, 40.0], "float32")}),
    ("gamma", {"a": 3.0, "shape": [2, 3]}),
    ("loggamma", {"a": array([0.01, 0.5, 1.0, 2.5, 40.0], "float32")}),
    ("beta", {"a": 0.5, "b": array([0.5, 2.0, 9.0], "float32")}),
    ("dirichlet", {"alpha": array([0.3, 1.0, 4.0], "float32"), "shape": [2]}),
    ("chisquare", {"df": 3.0, "shape": [5]}),
    ("f", {"dfnum": 3.0, "dfden": 5.0, "shape": [5]}),
    ("t", {"df": 4.0, "shape": [5]}),
    ("generalized_normal", {"p": 1.5, "shape": [5]}),
    ("ball", {"d": 3, "p": 1.5, "shape": [2]}),
    ("poisson", {"lam": array([0.0, 0.3, 4.0, 9.5, 10.0, 25.0, 1000.0], "float32")}),
    ("poisson", {"lam": 3.0, "shape": [2, 3]}),
    (
        "binomial",
        {
            "n": array([0.0, 5.0, 40.0, 100.0, 1000.0, 7.0, 9.0], "float32"),
            "p": array([0.5, 0.3, 0.2, 0.7, 0.4, 0.0, 1.0], "float32"),
        },
    ),
    ("binomial", {"n": 12.0, "p": 0.25, "shape": [2, 3]}),
    ("multinomial", {"n": array(100.0, "float32"), "p": array([0.2, 0.3, 0.1, 0.4], "float32")}),
    ("geometric", {"p": array([0.05, 0.3, 0.5, 0.9, 1.0], "float32")}),
    ("lognormal", {"sigma": 0.5, "shape": [5]}),
    ("pareto", {"b": array([0.5, 2.0, 7.0], "float32")}),
    ("rayleigh", {"scale": 2.0, "shape": [5]}),
    ("weibull_min", {"scale": 2.0, "concentration": 1.5, "shape": [5]}),
    ("triangular", {"left": -1.0, "mode": 0.5, "right": 3.0, "shape": [5]}),
    ("maxwell", {"shape": [5]}),
    ("double_sided_maxwell", {"loc": 1.0, "scale": 2.0, "shape": [5]}),
    ("double_sided_maxwell", {"loc": array([0.0, 5.0], "float32"), "scale": 2.0}),
    ("wald", {"mean": array([0.5, 1.0, 4.0], "float32")}),
    (
        "multivariate_normal",
        {
            "mean": array([1.0, -2.0], "float32"),
            "cov": array([[2.0, 0.5], [0.5, 1.0]], "float32"),
            "shape": [3],
        },
    ),
    ("orthogonal", {"n": 3}),
    ("orthogonal", {"n": 2, "shape": [2], "m": 3}),
]
X64_CASES: list[Case] = [
    *(("bits", {"shape": shape, "dtype": "uint64"}) for shape in SHAPES),
    ("bits", {"shape": [5], "dtype": "uint8"}),
    ("bits", {"shape": [5], "dtype": "uint32"}),
    *(("uniform", {"shape": shape, "dtype": "float64"}) for shape in SHAPES),
    ("uniform", {"shape": [5], "dtype": "float64", "minval": -2.5, "maxval": 7.0}),
    ("uniform", {"shape": [5], "dtype": "float32"}),
    *(("normal", {"shape": shape, "dtype": "float64"}) for shape in SHAPES),
    ("normal", {"shape": [5], "dtype": "float32"}),
    ("randint", {"shape": [5], "minval": 0, "maxval": 10, "dtype": "int64"}),
    ("randint", {"shape": [5], "minval": -(2**63), "maxval": 2**63 - 1, "dtype": "int64"}),
    ("randint", {"shape": [5], "minval": 0, "maxval": 10**15, "dtype": "uint64"}),
    ("randint", {"shape": [5], "minval": 0, "maxval": 10, "dtype": "int32"}),
    ("bernoulli", {"p": 0.3, "shape": [2, 3]}),
    ("bernoulli", {"p": array([0.0, 0.1, 0.5, 0.9, 1.0], "float32")}),
    ("permutation", {"x": 10}),
    ("choice", {"a": 10, "shape": [5]}),
    ("choice", {"a": 5, "shape": [5], "p": array(WEIGHTS, "float64")}),
    ("categorical", {"logits": array(LOGITS, "float32")}),
    ("categorical", {"logits": array(LOGITS, "float64")}),
    *((name, {"shape": [5], "dtype": "float64"}) for name in THROUGH_LOG),
    ("truncated_normal", {"lower": -2.0, "upper": 2.0, "shape": [5], "dtype": "float64"}),
    ("gamma", {"a": array([0.05, 0.5, 1.0, 2.5, 40.0], "float64"), "dtype": "float64"}),
    ("loggamma", {"a": array([0.01, 2.5], "float64"), "dtype": "float64"}),
    ("beta", {"a": 0.5, "b": array([0.5, 2.0, 9.0], "float64"), "dtype": "float64"}),
    ("wald", {"mean": array([0.5, 1.0, 4.0], "float64"), "dtype": "float64"}),
    ("lognormal", {"sigma": 0.5, "shape": [5], "dtype": "float64"}),
]


def decode(name: str, value: Any) -> Any:
    """Turns a JSON argument into what the function takes: arrays, and tuples for shapes."""
    if isinstance(value, dict):
        return jax.numpy.asarray(value["array"], value["dtype"])
    if name == "data":
        return np.uint32(value)
    return tuple(value) if isinstance(value, list) else value


def encode(result: np.ndarray) -> list[Any]:
    """Flattens a result into JSON values that lose nothing."""
    flat = result.ravel()
    if result.dtype.kind in "biu":
        return flat.tolist()
    return [float(value).hex() for value in flat]


def entry(function: str, arguments: dict[str, Any], seed: int, x64: bool) -> dict[str, Any]:
    """Runs one function for one seed and returns its entry."""
    with jax.enable_x64(x64):
        key = jax.random.key(seed)
        keywords = {name: decode(name, value) for name, value in arguments.items()}
        output = getattr(jax.random, function)(key, **keywords)
        if jax.dtypes.issubdtype(output.dtype, jax.dtypes.prng_key):
            output = jax.random.key_data(output)
        result = np.asarray(output)
    case = {"function": function, "seed": seed, "x64": x64, "arguments": arguments}
    return {**case, "dtype": result.dtype.name, "shape": list(result.shape), "values": encode(result)}


def main() -> None:
    """Writes the JSON file, one entry a line."""
    assert jax.config.jax_threefry_partitionable and jax.config.jax_default_prng_impl == "threefry2x32"
    entries = [entry("key_data", {}, seed, x64) for x64 in (False, True) for seed in EDGE_SEEDS]
    for seed in SEEDS:
        entries += [entry(*case, seed, False) for case in [*KEY_CASES, *CASES]]
        entries += [entry(*case, seed, True) for case in [*KEY_CASES, *X64_CASES]]
    compact = {"separators": (",", ":")}
    source = {"version": jax.__version__, "implementation": "threefry2x32", "partitionable": True}
    head = json.dumps(source, **compact)
    lines = ",\n".join(json.dumps(item, **compact) for item in entries)
    TARGET.write_text(f'{head[:-1]},"entries":[\n{lines}\n]}}\n')
    print(f"{TARGET.name}: {len(entries)} entries, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
