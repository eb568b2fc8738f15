"""Elementwise primitives whose one algorithm is both their NumPy reference and their scalar formula, in float64.

Special functions are long, so each is written once, on the operations that `formulas` and `Numpy` both have. What they give
is rounded once to the argument's dtype: in float32 and half precision they are right but for rare last bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtype as dtypes
from .. import formulas as f
from ..uop import UOp
from .arithmetic import pow as power
from .exponential import exp, log
from .functions import Function
from .trigonometric import cos, sin


class Numpy:
    """The operations on float64 arrays."""

    add, mul, div, minimum = np.add, np.multiply, np.divide, np.minimum
    less, equal, where, trunc, magnitude = np.less, np.equal, np.where, np.trunc, np.abs
    sqrt, exp, log, pow = np.sqrt, np.exp, np.log, np.power
    sin, cos = np.sin, np.cos

    @staticmethod
    def fma(x: Any, y: Any, z: Any) -> Any:
        """x * y + z, rounded twice."""
        return x * y + z

    @staticmethod
    def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
        """By Horner's rule, lowest first."""
        result: Any = coefficients[-1]
        for coefficient in coefficients[-2::-1]:
            result = result * x + coefficient
        return result


class Scalars:
    """The operations on scalar nodes of float64."""

    def __getattr__(self, name: str) -> Any:
        return getattr(f, name)

    @staticmethod
    def where(condition: UOp, x: Any, y: Any) -> UOp:
        """x where the condition holds, y elsewhere."""
        return f.where(condition, x, y, dtypes.float64)

    exp: Callable[..., UOp] = staticmethod(exp.formula)
    log: Callable[..., UOp] = staticmethod(log.formula)

    sin: Callable[..., UOp] = staticmethod(sin.scalar)
    cos: Callable[..., UOp] = staticmethod(cos.scalar)

    @staticmethod
    def pow(x: UOp, y: UOp) -> UOp:
        """x to the power y."""
        assert power.scalar is not None
        return power.scalar(x, y)


class WideFunction(Function):
    """A function of a float that is worked out in float64 by `algorithm`."""

    def algorithm(self, m: Any, x: Any) -> Any:
        """The value for float64, by the operations of `m`."""
        raise NotImplementedError

    def reference(self, x: Any) -> Any:
        x = np.asarray(x)
        with np.errstate(all="ignore"):
            return np.asarray(self.algorithm(Numpy, x.astype(np.float64))).astype(x.dtype)

    def scalar(self, x: UOp) -> UOp:
        return f.cast(self.algorithm(Scalars(), f.cast(x, dtypes.float64)), x.dtype)
