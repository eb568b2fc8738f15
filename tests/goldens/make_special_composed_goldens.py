"""Writes special_composed.json: values of special functions by mpmath. Needs it; tinyfn does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mpmath as m  # type: ignore[import-not-found]
import numpy as np

m.mp.dps = 50
random = np.random.default_rng(1)
goldens: dict[str, Any] = {}


def exact(name: str, function: Any, *arguments: Any) -> None:
    points = [list(map(float, a)) for a in np.broadcast_arrays(*arguments)]
    values = [float(function(*[m.mpf(x) for x in point])) for point in zip(*points, strict=True)]
    goldens[name] = {"arguments": points, "values": values}


def powers(low: float, high: float, count: int) -> Any:
    return 10 ** random.uniform(low, high, count)


def signs(count: int) -> Any:
    return random.choice([-1.0, 1.0], count)


def faddeeva(x: Any, y: Any) -> Any:
    z = m.mpc(x, y)
    if abs(z) < 30:
        with m.workdps(500):
            return m.exp(-z * z) * m.erfc(-1j * z)
    return 1j / (m.sqrt(m.pi) * z) * sum(m.fac2(2 * k - 1) / (2 * z * z) ** k for k in range(40))


def exponential_integral(n: Any, x: Any) -> Any:
    with m.workdps(400):
        return m.expint(n, x)


def owens(h: Any, a: Any) -> Any:
    end = min(a, 12 / h)
    points = [end * i / 24 for i in range(25)]
    return m.quad(lambda t: m.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), points) / (2 * m.pi)


def harmonic(n: Any, order: Any, theta: Any, phi: Any) -> Any:
    # By Rodrigues's formula's sum for the Legendre function, free of conventions but for the sign (-1)^m.
    size = abs(int(order))
    c = m.cos(theta)
    polynomial = m.taylor(lambda x: m.legendre(int(n), x), c, size)[size] * m.factorial(size)
    legendre = (-1) ** size * m.sin(theta) ** size * polynomial
    value = m.sqrt((2 * n + 1) / (4 * m.pi) * m.factorial(n - size) / m.factorial(n + size)) * legendre
    return ((-1) ** size if order < 0 else 1) * value * m.expj(order * phi)


x = np.concatenate(
    [powers(-3, 1.2, 50) * signs(50), random.uniform(0, 6, 30), [0, 0, 1, 0.2558, 0.5117, 100, 1e3]]
)
y = np.concatenate([powers(-3, 1.2, 50), powers(-10, 0, 30), [0, 2, 0, 1e-5, 1e-5, 1e-3, 0]])
y[40:50] = -powers(-1, 0.5, 10)
exact("wofz_real", lambda x, y: faddeeva(x, y).real, x, y)
exact("wofz_imag", lambda x, y: faddeeva(x, y).imag, x, y)
x = np.concatenate(
    [powers(-4, 0.4, 40) * signs(40), powers(0, 4, 30), [0, 1.59999, 1.6, 1.60001, 36.5, 1e6 + 1 / 3]]
)
exact("fresnel_0", m.fresnels, x)
exact("fresnel_1", m.fresnelc, x)
orders = np.concatenate([random.integers(0, 12, 60), random.integers(12, 100, 20), [0, 1, 2, 1, 1, 5]])
x = np.concatenate([powers(-6, 2, 60), powers(-3, 1.5, 20), [2, 2, 2, 1.99999, 2.00001, 600]])
exact("expn", exponential_integral, orders, x)
h = np.concatenate([powers(-3, 1.3, 60) * signs(60), random.uniform(0, 5, 20)])
a = np.concatenate([powers(-3, 3, 60), random.uniform(0.5, 2, 20)])
exact("owens_t", lambda h, a: owens(abs(h), a), h, a)
x = np.concatenate(
    [powers(-4, 1.5, 30), powers(1.3, 4, 20), [24.9999, 25, 25.0001, 40, 39.9, 40.1, 2.404825557695773]]
)
for order in (0, 1, 5, 40):
    exact(f"bessel_jn_{order}", lambda x, k=order: m.besselj(k, x), x)
n = random.integers(0, 13, 40)
order = np.array([random.integers(-k, k + 1) for k in n])
angles = random.uniform(0.05, 3.1, 40), random.uniform(0, 7, 40)
exact("sph_harm_y_real", lambda *args: harmonic(*args).real, n, order, *angles)
exact("sph_harm_y_imag", lambda *args: harmonic(*args).imag, n, order, *angles)
a = np.concatenate([powers(-1, 1.2, 40), random.uniform(-5, 5, 20), -np.arange(6.0), [1, 2.5, 0.5]])
b = np.concatenate([powers(-1, 1.2, 40), random.uniform(5, 9, 20), np.arange(1.0, 7.0), [2, 3.5, 1.5]])
x = np.concatenate(
    [powers(-2, 2.5, 40), random.uniform(-60, 20, 20), -powers(-1, 1.5, 6), [-1000, -1e5, 300]]
)
exact("hyp1f1", m.hyp1f1, a, b, x)
a, b, c = random.uniform(-1, 4, 80), random.uniform(0, 4, 80), random.uniform(0.3, 9, 80)
a[20:40], b[20:40], c[20:40] = (random.integers(1, k, 20) for k in (5, 5, 9))
x = np.concatenate([random.uniform(0, 1, 40), 1 - powers(-9, -1, 20), -powers(-2, 2, 20)])
exact("hyp2f1", m.hyp2f1, a, b, c, x)

if __name__ == "__main__":
    text = ",\n".join(f'"{name}": {json.dumps(golden)}' for name, golden in sorted(goldens.items()))
    Path(__file__).with_name("special_composed.json").write_text("{\n" + text + "\n}\n")
