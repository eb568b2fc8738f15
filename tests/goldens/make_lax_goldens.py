"""Writes lax.json: what JAX gives for the calls in lax_cases.py, and their derivatives. Needs JAX (0.10.2 made it)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax  # type: ignore[import-not-found]
import numpy as np
from jax import lax, nn
from lax_cases import CASES


def listed(x: Any) -> Any:
    """An array as lists, floats by few digits more than they have."""
    x = np.asarray(x)
    return [float(f"{v:.9g}") for v in x.ravel()] if x.dtype.kind == "f" else x.ravel().tolist()


def main() -> None:
    """Computes all of them."""
    goldens: dict[str, Any] = {}
    for name, case in CASES.items():
        arrays = [jax.numpy.asarray(a) for a in case.arrays]

        def function(*xs: Any, case: Any = case) -> Any:
            return case.function(lax, nn, *xs)

        results = jax.tree.leaves(function(*arrays))
        goldens[name] = {
            "dtypes": [str(r.dtype) for r in results],
            "shapes": [r.shape for r in results],
            "values": [listed(r) for r in results],
        }
        if case.differentiable:
            (result,) = results
            weights = np.cos(np.arange(result.size, dtype=np.float32)).reshape(result.shape)
            slopes = jax.vjp(function, *arrays)[1](jax.numpy.asarray(weights))
            goldens[name]["slopes"] = [listed(s) for s in slopes]
    text = ",\n".join(f'"{name}": {json.dumps(golden)}' for name, golden in goldens.items())
    Path(__file__).with_name("lax.json").write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    main()
