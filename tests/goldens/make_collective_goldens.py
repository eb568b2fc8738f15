"""Writes collectives.json: what JAX gives for `tests/transforms/collective_programs.py`. Needs jax; tinyfn does not."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import jax  # type: ignore[import-not-found]
import numpy as np

HERE = Path(__file__).parent
spec = importlib.util.spec_from_file_location(
    "programs", HERE.parent / "transforms" / "collective_programs.py"
)
assert spec is not None and spec.loader is not None
programs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(programs)


def described(x: Any) -> dict[str, Any]:
    x = np.asarray(x)
    return {"dtype": x.dtype.name, "shape": x.shape, "values": x.reshape(-1).tolist()}


values = {
    name: [described(leaf) for leaf in jax.tree.leaves(function(jax))]
    for name, function in programs.PROGRAMS.items()
    if name not in programs.NOT_IN_JAX
}
found = {"made by": f"jax {jax.__version__}", "values": values}
(HERE / "collectives.json").write_text(json.dumps(found) + "\n")
