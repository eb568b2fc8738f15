"""The cube root's first guess and steps."""

from __future__ import annotations

from .. import dtype as dtypes
from .basic import FORMATS

# The bits of a**(-1/3) are near to this minus a third of the bits of a: 4/3 of the bits of 1.0, less 0.066 of an exponent, which
# makes the greatest error (0.035) least.
CBRT_START = {
    d: (4 / 3 * FORMATS[d].bias - 0.066) * 2.0 ** FORMATS[d].mantissa
    for d in (dtypes.float32, dtypes.float64)
}
# (1 + h)**(-1/3) = 1 - h/3 + 2h²/9 - 14h³/81 + ..., for the first step and the second.
CBRT_STEPS: dict[dtypes.DType, tuple[tuple[float, ...], ...]] = {
    dtypes.float32: ((-1 / 3, 2 / 9, -14 / 81), (-1 / 3,)),
    dtypes.float64: ((-1 / 3, 2 / 9, -14 / 81), (-1 / 3, 2 / 9, -14 / 81)),
}
