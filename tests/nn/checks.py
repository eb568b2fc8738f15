"""What tests of tinyfn.nn share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinyfn.transforms import grad


def check_gradient(loss: Callable[[Any], Any], x: np.ndarray) -> None:
    """The gradient along random directions against central differences, in float64."""
    gradient = np.asarray(grad(loss)(x))
    assert np.isfinite(gradient).all()
    generator = np.random.default_rng(7)
    for _ in range(3):
        direction = generator.normal(size=x.shape)
        h = 1e-4
        slope = (
            8 * (float(loss(x + h * direction)) - float(loss(x - h * direction)))
            - (float(loss(x + 2 * h * direction)) - float(loss(x - 2 * h * direction)))
        ) / (12 * h)
        np.testing.assert_allclose(np.sum(gradient * direction), slope, rtol=1e-7, atol=1e-8)
