"""Writes special.json: values of special functions, by mpmath in 60 digits or by SciPy. Needs both; tinyfn needs neither."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mpmath as m  # type: ignore[import-not-found]
import numpy as np
import scipy.special as scipy  # type: ignore[import-not-found]

m.mp.dps = 60
random = np.random.default_rng(0)
goldens: dict[str, Any] = {}


def exact(name: str, function: Any, *arguments: Any) -> None:
    points = [list(map(float, a)) for a in arguments]
    values = [float(function(*[m.mpf(x) for x in point])) for point in zip(*points, strict=True)]
    goldens[name] = {"arguments": points, "values": values}


def by_scipy(name: str, *arguments: Any) -> None:
    values = getattr(scipy, name)(*arguments)
    goldens[name] = {
        "arguments": [np.asarray(a, float).tolist() for a in arguments],
        "values": values.tolist(),
    }


def ndtri(p: Any) -> Any:
    tail = min(p, 1 - p)
    x = m.mpf(float(scipy.ndtri(float(tail))))
    for _ in range(8):
        value = m.ncdf(x)
        x -= (m.log(value) - m.log(tail)) * value / m.npdf(x)
    return x if p <= 0.5 else -x


def normal_logarithm(x: Any) -> Any:
    return m.log(m.erfc(-x / m.sqrt(2)) / 2)


def derivative_in_a(a: Any, x: Any) -> Any:
    step = m.mpf(10) ** -20
    above, below = (m.gammainc(b, 0, x, regularized=True) for b in (a + step, a - step))
    return (above - below) / (2 * step)


def powers(low: float, high: float, count: int) -> Any:
    return 10 ** random.uniform(low, high, count)


near = [1, 2, 3, 4, 1.5, 0.5, 1.4616321449683622, 1.0000001, 1.9999999, 2.0000001]
positive = np.concatenate([powers(-8, 2.2, 25), random.uniform(0, 10, 25), near])
negative = np.concatenate([-random.uniform(0, 20, 20), [-1e-10, -0.5, -0.25, -1.5, -30.25, -100.5]])
exact("gammaln", lambda x: m.log(abs(m.gamma(x))), np.concatenate([positive, powers(2, 300, 10), negative]))
exact("digamma", m.digamma, np.concatenate([positive, powers(2, 300, 10), negative]))
exact("gamma", m.gamma, np.concatenate([positive, [170.3, 171.5], negative]))
around = np.concatenate([random.uniform(-12, 12, 30), powers(-8, 6, 20), [0, 8, 8.0001, -8, 1e-20]])
exact("i0e", lambda x: m.besseli(0, x) * m.exp(-abs(x)), around)
exact("i1e", lambda x: m.besseli(1, x) * m.exp(-abs(x)), around)
by_scipy("i0", random.uniform(-20, 20, 20))
by_scipy("i1", random.uniform(-20, 20, 20))
chances = np.concatenate([random.uniform(0, 1, 30), powers(-300, -1, 30), [0.1, 0.9, 0.5, 1 - 2**-53]])
exact("ndtri", ndtri, chances)
exact("log_ndtr", normal_logarithm, np.concatenate([random.uniform(-15, 8, 40), -powers(1, 5, 10), [-10, 0]]))
exact("ndtr", lambda x: m.erfc(-x / m.sqrt(2)) / 2, random.uniform(-30, 8, 30))
exact("logit", lambda x: m.log(x / (1 - x)), np.concatenate([random.uniform(0, 1, 20), powers(-20, -1, 10)]))
exact("zeta", m.zeta, random.uniform(1.01, 20, 40), powers(-3, 3, 40))
by_scipy("polygamma", np.repeat(np.arange(6.0), 8), np.tile(powers(-1, 2, 8), 6))
shapes = powers(-3, 4, 50)
ends = shapes * random.uniform(0.3, 2, 50)
shapes = np.append(shapes, [1e5, 1e5, 0.01, 0.5, 1e-8, 50])
ends = np.append(ends, [1e5, 1.01e5, 0.5, 0.9, 0.1, 1e-3])
exact("gammainc", lambda a, x: m.gammainc(a, 0, x, regularized=True), shapes, ends)
exact("gammaincc", lambda a, x: m.gammainc(a, x, m.inf, regularized=True), shapes, ends)
exact("igamma_grad_a", derivative_in_a, shapes[shapes < 300], ends[shapes < 300])
a, b, x = powers(-2, 3, 50), powers(-2, 3, 50), random.uniform(0, 1, 50)
x = np.where(x < 0.5, np.clip(2 * x * a / (a + b) + 0.001, 0.001, 0.999), x)
exact("betainc", lambda a, b, x: m.betainc(a, b, 0, x, regularized=True), a, b, x)
p, q = random.uniform(0, 3, 20), random.uniform(0, 3, 20)
for name in ("beta", "betaln", "xlogy", "xlog1py", "rel_entr", "kl_div", "boxcox", "boxcox1p", "poch"):
    by_scipy(name, p, q)
by_scipy("entr", p)
by_scipy("gammasgn", negative)
by_scipy("factorial", np.arange(-2.0, 20.0))
by_scipy("comb", np.repeat(np.arange(8.0), 9), np.tile(np.arange(-1.0, 8.0), 8))
spread = np.concatenate(
    [random.uniform(-8, 12, 30), powers(-8, 5, 20), -powers(-8, 0, 10), [0, 1, 3, 8, 2.5, 5]]
)
exact("erfcx", lambda x: m.exp(x * x) * m.erfc(x), spread)
exact(
    "dawsn",
    lambda x: m.sqrt(m.pi) / 2 * m.exp(-x * x) * m.erfi(x),
    np.concatenate([spread, -powers(0, 5, 10)]),
)
above = np.concatenate([random.uniform(0, 12, 30), powers(-10, 2.7, 20), [1, 3, 8, 700]])
exact("exp1", m.e1, above)
exact("expi", m.ei, np.concatenate([above, -above, [6, 12, 25, 709.9]]))
exact(
    "spence",
    lambda x: m.polylog(2, 1 - x).real,
    np.concatenate([above, powers(2, 100, 5), [0.5, 1.5, 1 + 1e-9, 0.999]]),
)
exact("sici_0", m.si, np.concatenate([spread, powers(0, 8, 20), -powers(0, 5, 5)]))
exact("sici_1", m.ci, np.concatenate([above, powers(0, 8, 20)]))

if __name__ == "__main__":
    text = ",\n".join(f'"{name}": {json.dumps(golden)}' for name, golden in sorted(goldens.items()))
    Path(__file__).with_name("special.json").write_text("{\n" + text + "\n}\n")
