"""NumPy references of special functions that NumPy itself lacks, vectorised and accurate to double precision.

The rational approximations of erf and erfc are those of fdlibm's s_erf.c (Sun Microsystems, 1993), which state an error
below 1 ulp; the first guess of the inverse is M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np

_SMALL = (
    (1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02, -5.77027029648944159157e-03,
     -2.37630166566501626084e-05),
    (1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03, 1.32494738004321644526e-04,
     -3.96022827877536812320e-06),
)  # fmt: skip
_NEAR_ONE = (
    (-2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01, 3.18346619901161753674e-01,
     -1.10894694282396677476e-01, 3.54783043256182359371e-02, -2.16637559486879084300e-03),
    (1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02, 1.26171219808761642112e-01,
     1.36370839120290507362e-02, 1.19844998467991074170e-02),
)  # fmt: skip
_MIDDLE = (
    (-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e01, -6.23753324503260060396e01,
     -1.62396669462573470355e02, -1.84605092906711035994e02, -8.12874355063065934246e01, -9.81432934416914548592e00),
    (1.0, 1.96512716674392571292e01, 1.37657754143519042600e02, 4.34565877475229228821e02, 6.45387271733267880336e02,
     4.29008140027567833386e02, 1.08635005541779435134e02, 6.57024977031928170135e00, -6.04244152148580987438e-02),
)  # fmt: skip
_LARGE = (
    (-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e01, -1.60636384855821916062e02,
     -6.37566443368389627722e02, -1.02509513161107724954e03, -4.83519191608651397019e02),
    (1.0, 3.03380607434824582924e01, 3.25792512996573918826e02, 1.53672958608443695994e03, 3.19985821950859553908e03,
     2.55305040643316442583e03, 4.74528541206955367215e02, -2.24409524465858183362e01),
)  # fmt: skip
_ERF_ONE = 8.45062911510467529297e-01


def _rational(x: Any, coefficients: tuple[tuple[float, ...], tuple[float, ...]]) -> Any:
    numerator, denominator = coefficients
    return np.polynomial.polynomial.polyval(x, numerator) / np.polynomial.polynomial.polyval(x, denominator)


def _erfc_tail(x: Any) -> Any:
    """erfc for x >= 1.25. exp(-x²) is split so that the rounding of x² does not enter the exponent."""
    x = np.minimum(x, 28.0)
    inverse = 1 / (x * x)
    ratio = np.where(x < 1 / 0.35, _rational(inverse, _MIDDLE), _rational(inverse, _LARGE))
    head = x.astype(np.float32).astype(np.float64)
    return np.exp(-head * head - 0.5625) * np.exp((head - x) * (head + x) + ratio) / x


def _erf_pieces(x: Any) -> tuple[Any, Any]:
    """erf and erfc of x >= 0 in float64."""
    small = x + x * _rational(np.where(x < 0.84375, x * x, 0.0), _SMALL)
    near = _rational(np.where((x >= 0.84375) & (x < 1.25), x - 1, 0.0), _NEAR_ONE)
    tail = _erfc_tail(np.maximum(x, 1.25))
    is_small, is_near = x < 0.84375, x < 1.25
    erf = np.where(is_small, small, np.where(is_near, _ERF_ONE + near, 1 - tail))
    erfc = np.where(is_small, 1 - small, np.where(is_near, (1 - _ERF_ONE) - near, tail))
    return erf, erfc


def erf_reference(x: Any) -> Any:
    """The error function, in the argument's dtype."""
    x = np.asarray(x)
    wide = x.astype(np.float64)
    value, _ = _erf_pieces(np.abs(wide))
    return np.where(np.isnan(wide), wide, np.copysign(value, wide)).astype(x.dtype)


def erfc_reference(x: Any) -> Any:
    """1 - erf(x), in the argument's dtype."""
    x = np.asarray(x)
    wide = x.astype(np.float64)
    erf, erfc = _erf_pieces(np.abs(wide))
    erfc = np.where(np.abs(wide) >= 28, 0.0, erfc)
    return np.where(np.isnan(wide), wide, np.where(wide >= 0, erfc, 1 + erf)).astype(x.dtype)


_GILES_CENTRE = np.array((2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
                 -0.00417768164, 0.246640727, 1.50140941), np.float32)  # fmt: skip
_GILES_TAIL = np.array((-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
               0.00943887047, 1.00167406, 2.83297682), np.float32)  # fmt: skip


def _giles(magnitude: Any) -> Any:
    """The inverse of erf on [0, 1) to a few units in float32's last place."""
    w = -np.log((1 - magnitude) * (1 + magnitude))
    centre = np.polyval(_GILES_CENTRE, w - w.dtype.type(2.5))
    tail = np.polyval(_GILES_TAIL, np.sqrt(np.maximum(w, 5)) - 3)
    return magnitude * np.where(w < 5, centre, tail)


def erf_inv_reference(x: Any) -> Any:
    """The inverse of the error function, in the argument's dtype."""
    x = np.asarray(x)
    if x.dtype != np.float64:
        wide = x.astype(np.float32)
        inside = np.abs(wide) < 1
        value = _giles(np.where(inside, np.abs(wide), np.float32(0.5)))
    else:
        wide = x
        inside = np.abs(wide) < 1
        magnitude = np.where(inside, np.abs(wide), 0.5)
        value = _giles(magnitude)
        for _ in range(6):  # the first guess is poor where erf is within 2^-44 of 1
            erf, erfc = _erf_pieces(value)
            # Near 1 the difference of the complements keeps the digits that the difference of the values would lose.
            error = np.where(magnitude < 0.5, erf - magnitude, (1 - magnitude) - erfc)
            step = error / (2 / np.sqrt(np.pi) * np.exp(-value * value))
            value = value - step / (1 + value * step)  # Halley's correction to Newton's step
    outside = np.where(np.abs(wide) == 1, np.copysign(np.inf, wide), np.nan)
    result = np.where(inside, np.copysign(value, wide), outside)
    return np.where(wide == 0, wide, result).astype(x.dtype)
