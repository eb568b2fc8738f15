"""Writes derivatives.json: values of special functions and their first derivatives on a grid, by JAX in double precision.

Needs JAX (0.10.2 made the file); tinyfn does not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

os.environ["JAX_ENABLE_X64"] = "1"

import jax
import numpy as np
from jax import lax
from jax.scipy import special

random = np.random.default_rng(0)
OPEN, POSITIVE, ABOVE_ONE, REAL = (0.05, 0.95), (0.2, 5.0), (1.2, 6.0), (-3.0, 3.0)
# name: the domains of the arguments, those that are differentiated, and arguments before them that stay fixed
FUNCTIONS: dict[str, tuple[list[tuple[float, float]], list[int], list[Any]]] = {
    "beta": ([POSITIVE, POSITIVE], [0, 1], []), "betainc": ([POSITIVE, POSITIVE, OPEN], [2], []),
    "betaln": ([POSITIVE, POSITIVE], [0, 1], []), "digamma": ([POSITIVE], [0], []), "entr": ([POSITIVE], [0], []),
    "erf": ([REAL], [0], []), "erfc": ([REAL], [0], []), "erfinv": ([OPEN], [0], []), "expit": ([REAL], [0], []),
    "factorial": ([POSITIVE], [0], []), "gamma": ([POSITIVE], [0], []), "gammainc": ([POSITIVE, POSITIVE], [0, 1], []),
    "gammaincc": ([POSITIVE, POSITIVE], [0, 1], []), "gammaln": ([POSITIVE], [0], []), "i0": ([REAL], [0], []),
    "i0e": ([REAL], [0], []), "i1": ([REAL], [0], []), "i1e": ([REAL], [0], []),
    "kl_div": ([POSITIVE, POSITIVE], [0, 1], []), "log_ndtr": ([REAL], [0], []), "log_softmax": ([REAL], [0], []),
    "logit": ([OPEN], [0], []), "ndtr": ([REAL], [0], []), "ndtri": ([OPEN], [0], []),
    "poch": ([POSITIVE, POSITIVE], [0, 1], []), "polygamma": ([POSITIVE], [0], [1]),
    "rel_entr": ([POSITIVE, POSITIVE], [0, 1], []), "softmax": ([REAL], [0], []),
    "xlogy": ([POSITIVE, POSITIVE], [0, 1], []), "xlog1py": ([POSITIVE, POSITIVE], [0, 1], []),
    "zeta": ([ABOVE_ONE, POSITIVE], [1], []), "gammasgn": ([(-3.9, 3.9)], [], []), "logsumexp": ([REAL], [0], []),
    "lax.bessel_i0e": ([REAL], [0], []), "lax.bessel_i1e": ([REAL], [0], []), "lax.digamma": ([POSITIVE], [0], []),
    "lax.erf_inv": ([OPEN], [0], []), "lax.igamma": ([POSITIVE, POSITIVE], [0, 1], []),
    "lax.igammac": ([POSITIVE, POSITIVE], [0, 1], []), "lax.zeta": ([ABOVE_ONE, POSITIVE], [1], []),
    "lax.betainc": ([POSITIVE, POSITIVE, OPEN], [2], []), "lax.lgamma": ([POSITIVE], [0], []),
}  # fmt: skip
# What JAX does not differentiate.
CLOSED: dict[str, Any] = {
    "zeta": lambda s, q: -s * special.zeta(s + 1, q), "lax.zeta": lambda s, q: -s * lax.zeta(s + 1, q),
    "polygamma": lambda x: special.polygamma(2, x),
}  # fmt: skip


def golden(name: str) -> dict[str, Any]:
    """Twelve points, the values there, and the derivative along each argument at all points at once."""
    domains, differentiated, fixed = FUNCTIONS[name]
    function = getattr(lax if name.startswith("lax.") else special, name.split(".")[-1])
    points = [random.uniform(*domain, 12) for domain in domains]
    slopes = {}
    for i in differentiated:
        if name in CLOSED:
            slopes[str(i)] = np.asarray(CLOSED[name](*points)).tolist()
            continue
        before, after = points[:i], points[i + 1 :]
        _, slope = jax.jvp(
            lambda x, before=before, after=after: function(*fixed, *before, x, *after),
            (points[i],),
            (np.ones(12),),
        )
        slopes[str(i)] = np.asarray(slope).tolist()
    values = np.asarray(function(*fixed, *points)).tolist()
    return {"fixed": fixed, "points": [p.tolist() for p in points], "values": values, "slopes": slopes}


if __name__ == "__main__":
    text = ",\n".join(f'"{name}": {json.dumps(golden(name))}' for name in sorted(FUNCTIONS))
    Path(__file__).with_name("derivatives.json").write_text(
        f'{{"made by": "JAX {jax.__version__}", "functions": {{\n{text}\n}}}}\n'
    )
