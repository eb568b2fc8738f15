"""Distributions of whole numbers."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as tnp
from .. import special
from .families import Cumulated, Discrete, where


def _binomial(k: Any, n: Any, p: Any) -> Any:
    choices: Any = -special.betaln(1 + n - k, 1 + k) - tnp.log1p(n)
    return choices + special.xlogy(k, p) + special.xlog1py(n - k, -p)


poisson = Cumulated(
    "poisson", ("mu",), lambda k, mu: special.xlogy(k, mu) - special.gammaln(k + 1) - mu, lambda mu: math.inf,
    cumulated=lambda k, mu: special.gammaincc(k + 1, mu),
    wide=True,
    text="""The Poisson distribution of rate `mu`: exp(-mu) mu^k / k!, k = 0, 1, ...

>>> from tinyfn.scipy import stats
>>> stats.poisson.pmf(tnp.array([0, 1, 2]), 2.0).round(4)
Array([0.1353, 0.2707, 0.2707], dtype=float32)
""",
)  # fmt: skip
bernoulli = Cumulated(
    "bernoulli", ("p",), lambda k, p: special.xlogy(k, p) + special.xlog1py(1 - k, -p), lambda p: 1,
    cumulated=lambda k, p: where(k < 1, 1 - p, 1.0),
    text="""The Bernoulli distribution: 1 with probability `p`, else 0.

>>> from tinyfn.scipy import stats
>>> stats.bernoulli.pmf(tnp.array([0, 1, 2]), 0.25).round(4)
Array([0.75, 0.25, 0.  ], dtype=float32)
""",
)  # fmt: skip
binom = Discrete(
    "binom",
    ("n", "p"),
    _binomial,
    lambda n, p: n,
    wide=True,
    text="""The binomial distribution: the successes among `n` trials of probability `p`.

>>> from tinyfn.scipy import stats
>>> stats.binom.pmf(tnp.array([0, 1, 2, 3]), 3, 0.5).round(4)
Array([0.125, 0.375, 0.375, 0.125], dtype=float32)
""",
)
geom = Discrete(
    "geom",
    ("p",),
    lambda k, p: special.xlog1py(k - 1, -p) + tnp.log(p),
    lambda p: math.inf,
    least=1,
    text="""The geometric distribution: the trials of probability `p` up to the first success, k = 1, 2, ...

>>> from tinyfn.scipy import stats
>>> stats.geom.pmf(tnp.array([0, 1, 2]), 0.5)
Array([0.  , 0.5 , 0.25], dtype=float32)
""",
)
