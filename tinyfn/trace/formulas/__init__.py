"""What the scalar formulas of elementwise primitives are made of: `from .. import formulas as f`, then `f.fma(x, y, 1.0)`.

A primitive's formula is in its class (`scalar`). What it builds is exact arithmetic, `fma`, `div`, `sqrt`, bit operations
and selections: a renderer that implements these as `trace/scalar.py` says gives the bits that `scalar.evaluate` gives. A
renderer must not contract `mul` and `add` into `fma` or reorder sums here: rounding errors are recovered by formulas that
would break.

There are no branches: every range of an argument is computed and `where` picks. Subnormals are treated as numbers, and
zeros' signs, infinities and NaN come out as in NumPy. float16 and bfloat16 go through float32 and are rounded once more
at the end.

Methods: arguments are reduced as in Cody and Waite, "Software Manual for the Elementary Functions" (1980), with the fused
multiply-add in place of short constants, and large angles as in Payne and Hanek, "Radian Reduction for Trigonometric
Functions" (1983); sums of two floats follow Dekker (1971) and Knuth. All polynomials are our own minimax fits (Remez
exchange in 60 digits for float64; Lawson's weighted least squares for float32, rounding one coefficient after the other
and fitting the rest anew), weighted for the relative error of the function's value.

The modules are loaded when the first formula is asked for: eager execution needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .angle import *  # noqa: F403
    from .basic import *  # noqa: F403
    from .error_function import *  # noqa: F403
    from .exponential import *  # noqa: F403
    from .integrals import *  # noqa: F403
    from .logarithm import *  # noqa: F403
    from .powers import *  # noqa: F403
    from .roots import *  # noqa: F403
    from .special import *  # noqa: F403
else:
    _MODULES = (
        "angle",
        "basic",
        "error_function",
        "exponential",
        "integrals",
        "logarithm",
        "powers",
        "roots",
        "special",
    )

    def __getattr__(name: str) -> Any:
        if name.startswith("__") or name in _MODULES:
            raise AttributeError(name)
        from importlib import import_module

        for module in _MODULES:
            for key, value in vars(import_module(f"{__name__}.{module}")).items():
                if not key.startswith("_"):
                    globals().setdefault(key, value)
        if name not in globals():
            raise AttributeError(f"there is no formula {name!r}")
        return globals()[name]
