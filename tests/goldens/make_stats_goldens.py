"""Writes stats.json: what SciPy's distributions give. Needs SciPy (1.17 made it)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats  # type: ignore[import-not-found]

random = np.random.default_rng(0)
x, q = random.normal(size=12) * 3, np.array([0.0, 1e-12, 0.02, 0.3, 0.5, 0.8, 0.999, 1.0])
far = np.concatenate([x, [-40.0, 12.0, 0.0, 1.0]])
positive, inside, whole = np.abs(far), random.uniform(-0.2, 1.2, 12), np.array([-1.0, 0, 1, 2, 3, 7, 2.5, 40])
CALLS: list[tuple[str, tuple[str, ...], Any, dict[str, Any]]] = [
    *[(name, ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf"), far, {"loc": 0.3, "scale": 1.7})
      for name in ("norm", "uniform", "expon", "laplace", "logistic", "cauchy")],
    *[(name, ("ppf", "isf"), q, {"loc": 0.3, "scale": 1.7})
      for name in ("norm", "uniform", "expon", "laplace", "logistic", "cauchy")],
    *[("gamma", ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf"), positive, {"a": a, "scale": 2.0}) for a in (0.7, 1.0, 5.0)],
    ("chi2", ("logpdf", "pdf", "cdf", "sf"), positive, {"df": 3.0, "loc": -0.1}),
    ("beta", ("logpdf", "pdf", "cdf", "sf"), inside, {"a": 2.0, "b": 0.7}),
    ("t", ("logpdf", "pdf", "cdf", "sf"), far, {"df": 4.5, "loc": 0.3, "scale": 1.7}),
    ("poisson", ("logpmf", "pmf", "cdf"), whole, {"mu": 2.5}),
    ("poisson", ("logpmf", "cdf"), whole, {"mu": 4.0, "loc": 1}),
    ("bernoulli", ("logpmf", "pmf", "cdf"), whole, {"p": 0.3}),
    ("binom", ("logpmf", "pmf"), whole, {"n": 7, "p": 0.3}),
    ("geom", ("logpmf", "pmf"), whole, {"p": 0.3}),
]  # fmt: skip

if __name__ == "__main__":
    lines = []
    for name, methods, points, options in CALLS:
        for method in methods:
            values = getattr(getattr(scipy.stats, name), method)(points, **options)
            lines.append(json.dumps([name, method, points.tolist(), options, values.tolist()]))
    Path(__file__).with_name("stats.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
