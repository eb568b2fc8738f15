"""Elementwise primitives: arithmetic, functions of floats, comparisons, bits, selection and casts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..dtype import DType
from ..prim import (
    _ANY,
    _BITS,
    _INEXACT,
    _INTEGER,
    Binary,
    Comparison,
    Elementwise,
    Linear,
    Sample,
    Unary,
    add_tangents,
    full_like,
    zeros_like,
)
from ..uop import UOp
from .special import erf_inv_reference, erf_reference, erfc_reference

# Arithmetic


class Neg(Unary):
    """-x"""

    def reference(self, x: Any) -> Any:
        return np.negative(x)

    def partial(self, index: int, out: UOp, x: UOp) -> int:
        return -1


class Add(Binary):
    """x + y"""

    reference = np.add

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> int:
        return 1


class Sub(Binary):
    """x - y"""

    reference = np.subtract

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> int:
        return -1 if index else 1


class Mul(Binary):
    """x * y"""

    reference = np.multiply

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> UOp:
        return x if index else y


class MulZero(Binary):
    """x * y, but 0 wherever x is 0, whatever y is.

    The product of a (co)tangent x and a derivative y that may be infinite or NaN where the function is not used."""

    kinds = _INEXACT

    def reference(self, x: Any, y: Any) -> Any:
        return np.where(x == 0, x, x * y)

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> UOp | None:
        (x, y), (tx, ty) = args, tangents
        return add_tangents(
            [None if tx is None else mul_zero(tx, y), None if ty is None else mul_zero(x, ty)]
        )

    def vjp(self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool]) -> list[UOp | None]:
        x, y = args
        return [mul_zero(ct, y) if needs[0] else None, mul_zero(x, ct) if needs[1] else None]


class Div(Binary):
    """x / y; integers round towards zero, and give 0 for a division by zero."""

    singular = True

    def reference(self, x: Any, y: Any) -> Any:
        if np.asarray(x).dtype.kind in "iu":
            quotient = np.floor_divide(x, y)
            inexact = (quotient * y != x) & ((x < 0) != (y < 0)) & (y != 0)
            return quotient + inexact.astype(quotient.dtype)
        return np.divide(x, y)

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> UOp:
        return -(out / y) if index else 1.0 / y

    def values(self, dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray:
        values = super().values(dtype, shape, seed)
        return np.where(np.abs(values) < 0.25, np.asarray(1, dtype), values) if seed else values


class Rem(Binary):
    """The remainder of x / y with the sign of x (C's fmod); 0 for an integer division by zero."""

    domain = (1.0, 7.0)
    reference = np.fmod

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> UOp | int:
        return -trunc(x / y) if index else 1

    def values(self, dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray:
        values = super().values(dtype, shape, seed)
        return values if seed == 0 or not dtypes.is_float(dtype) else np.full_like(values, 7.3)


class Pow(Binary):
    """x to the power y, of floats; NaN for a negative x with a y that is not whole."""

    kinds = _INEXACT
    singular = True
    domain = (0.25, 3.0)
    reference = np.power

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> UOp:
        if index == 0:
            return y * pow(x, y - 1.0)
        # 0 ** y is 0 for every y > 0, so its derivative in y is 0, and not 0 * log(0).
        return where(eq(x, zeros_like(x)), zeros_like(x), out * log(x))


class IntegerPow(Unary):
    """x to a power that is a fixed integer."""

    params = ("exponent",)
    domain = (0.5, 2.0)

    def is_singular(self, *, exponent: int) -> bool:
        return exponent < 0

    def reference(self, x: Any, *, exponent: int) -> Any:
        if exponent >= 0:
            return np.power(
                x, np.asarray(exponent, np.asarray(x).dtype) if np.asarray(x).dtype.kind in "iu" else exponent
            )
        return np.reciprocal(np.power(x, -exponent))

    def out(self, x: Any, *, exponent: int) -> Any:
        if exponent < 0 and not dtypes.is_float(x.dtype):
            raise TypeError(
                f"{x.dtype.name} to the negative power {exponent} is not an integer; cast to a float first"
            )
        return super().out(x)

    def partial(self, index: int, out: UOp, x: UOp, *, exponent: int) -> UOp | int | None:
        if exponent == 0:
            return None
        return 1 if exponent == 1 else float(exponent) * integer_pow(x, exponent=exponent - 1)

    def sample_params(self) -> dict[str, Any]:
        return {"exponent": 3}


class Abs(Unary):
    """|x|; the derivative at 0 is 0."""

    reference = np.abs

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return sign(x)


class Sign(Unary):
    """-1, 0 or 1 as x is negative, zero or positive; NaN for NaN."""

    reference = np.sign

    def partial(self, index: int, out: UOp, x: UOp) -> None:
        return None


class Max(Binary):
    """The greater of x and y, NaN if either is; a tie shares the derivative equally."""

    kinds = _ANY
    reference: Callable[..., Any] = np.maximum

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> UOp:
        mine, other = (y, x) if index else (x, y)
        return where(
            eq(mine, other),
            full_like(x, 0.5),
            where(_wins(self, mine, other), full_like(x, 1), zeros_like(x)),
        )


class Min(Max):
    """The lesser of x and y, NaN if either is; a tie shares the derivative equally."""

    reference = np.minimum


def _wins(primitive: Any, mine: UOp, other: UOp) -> UOp:
    return gt(mine, other) if primitive is max else lt(mine, other)


# Functions of floats


class _Function(Unary):
    """A function of a float."""

    kinds = _INEXACT


class Exp(_Function):
    """e to the power x."""

    ulp = 2
    reference = np.exp

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return out


class Exp2(_Function):
    """2 to the power x."""

    ulp = 2
    reference = np.exp2

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return out * float(np.log(2))


class Expm1(_Function):
    """exp(x) - 1, exact near 0."""

    ulp = 2
    reference = np.expm1

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return exp(x)


class Log(_Function):
    """The natural logarithm; NaN below 0."""

    ulp = 2
    singular = True
    domain = (0.1, 4.0)
    reference: Callable[..., Any] = np.log

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 1.0 / x


class Log2(Log):
    """The logarithm to base 2; NaN below 0."""

    reference = np.log2

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return float(1 / np.log(2)) / x


class Log1p(Log):
    """log(1 + x), exact near 0."""

    domain = (-0.8, 3.0)
    reference = np.log1p

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 1.0 / (1.0 + x)


class Sin(_Function):
    """The sine of x (radians)."""

    ulp = 2
    reference = np.sin

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return cos(x)


class Cos(_Function):
    """The cosine of x (radians)."""

    ulp = 2
    reference = np.cos

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return -sin(x)


class Tan(_Function):
    """The tangent of x (radians)."""

    ulp = 4
    domain = (-1.3, 1.3)
    reference = np.tan

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 1.0 + out * out


class Asin(_Function):
    """The arc sine, in [-pi/2, pi/2]; NaN outside [-1, 1]."""

    ulp = 4
    singular = True
    domain = (-0.9, 0.9)
    reference: Callable[..., Any] = np.arcsin

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return rsqrt((1.0 - x) * (1.0 + x))


class Acos(Asin):
    """The arc cosine, in [0, pi]; NaN outside [-1, 1]."""

    reference = np.arccos

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return -rsqrt((1.0 - x) * (1.0 + x))


class Atan(_Function):
    """The arc tangent, in [-pi/2, pi/2]."""

    ulp = 4
    reference = np.arctan

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 1.0 / (1.0 + x * x)


class Atan2(Binary):
    """The angle in [-pi, pi] of the point (y, x); its arguments come in that order."""

    kinds = _INEXACT
    ulp = 4
    singular = True
    domain = (0.2, 3.0)
    reference = np.arctan2

    def partial(self, index: int, out: UOp, y: UOp, x: UOp) -> UOp:
        squared = x * x + y * y
        return -(y / squared) if index else x / squared


class Sinh(_Function):
    """The hyperbolic sine."""

    ulp = 4
    reference = np.sinh

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return cosh(x)


class Cosh(_Function):
    """The hyperbolic cosine."""

    ulp = 4
    reference = np.cosh

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return sinh(x)


class Tanh(_Function):
    """The hyperbolic tangent."""

    ulp = 4
    reference = np.tanh

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 1.0 - out * out


class Asinh(_Function):
    """The inverse hyperbolic sine."""

    ulp = 4
    reference = np.arcsinh

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return rsqrt(x * x + 1.0)


class Acosh(_Function):
    """The inverse hyperbolic cosine; NaN below 1."""

    ulp = 4
    singular = True
    domain = (1.2, 4.0)
    reference = np.arccosh

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return rsqrt((x - 1.0) * (x + 1.0))


class Atanh(_Function):
    """The inverse hyperbolic tangent; infinite at -1 and 1, NaN outside."""

    ulp = 4
    singular = True
    domain = (-0.9, 0.9)
    reference = np.arctanh

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 1.0 / ((1.0 - x) * (1.0 + x))


class Sqrt(_Function):
    """The square root; NaN below 0."""

    singular = True
    domain = (0.1, 4.0)
    reference = np.sqrt

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return 0.5 / out


class Rsqrt(Sqrt):
    """1 / sqrt(x); infinite at 0, NaN below."""

    ulp = 2

    def reference(self, x: Any) -> Any:
        return np.reciprocal(np.sqrt(x))

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return -0.5 * (out / x)


class Cbrt(_Function):
    """The cube root, negative for negative x."""

    ulp = 4
    singular = True
    domain = (0.1, 4.0)
    reference = np.cbrt

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return (1.0 / 3.0) / (out * out)


class Logistic(_Function):
    """1 / (1 + exp(-x)), the sigmoid."""

    ulp = 4

    def reference(self, x: Any) -> Any:
        # Through exp(-|x|), which does not overflow.
        decay = np.exp(-np.abs(x))
        return np.where(x >= 0, 1 / (1 + decay), decay / (1 + decay)).astype(np.asarray(x).dtype)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return out * (1.0 - out)


class Erf(_Function):
    """The error function, 2/sqrt(pi) times the integral of exp(-t²) from 0 to x."""

    ulp = 4

    def reference(self, x: Any) -> Any:
        return erf_reference(x)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return float(2 / np.sqrt(np.pi)) * exp(-(x * x))


class Erfc(_Function):
    """1 - erf(x), exact for large x."""

    ulp = 8

    def reference(self, x: Any) -> Any:
        return erfc_reference(x)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return float(-2 / np.sqrt(np.pi)) * exp(-(x * x))


class ErfInv(_Function):
    """The inverse of the error function; infinite at -1 and 1, NaN outside."""

    ulp = 8
    singular = True
    domain = (-0.9, 0.9)

    def reference(self, x: Any) -> Any:
        return erf_inv_reference(x)

    def partial(self, index: int, out: UOp, x: UOp) -> UOp:
        return float(np.sqrt(np.pi) / 2) * exp(out * out)


class _Step(_Function):
    """A function that is constant between its jumps, so that its derivative is zero."""

    def partial(self, index: int, out: UOp, x: UOp) -> None:
        return None


class Floor(_Step):
    """The greatest whole number that is not above x."""

    reference = np.floor


class Ceil(_Step):
    """The least whole number that is not below x."""

    reference = np.ceil


class Round(_Step):
    """The nearest whole number, the even one of two that are equally near."""

    reference = np.rint


class Trunc(_Step):
    """The whole number next to x towards zero."""

    reference = np.trunc


class IsFinite(Unary):
    """Whether x is neither infinite nor NaN."""

    kinds = _INEXACT
    result = dtypes.bool_
    reference: Callable[..., Any] = np.isfinite


class IsNan(IsFinite):
    """Whether x is NaN."""

    reference = np.isnan


class IsInf(IsFinite):
    """Whether x is infinite."""

    reference = np.isinf


class Nextafter(Binary):
    """The float next to x towards y."""

    kinds = _INEXACT
    reference = np.nextafter

    def partial(self, index: int, out: UOp, x: UOp, y: UOp) -> int | None:
        return None if index else 1


# Comparisons


class Eq(Comparison):
    """x == y"""

    reference = np.equal


class Ne(Comparison):
    """x != y"""

    reference = np.not_equal


class Lt(Comparison):
    """x < y"""

    reference = np.less


class Le(Comparison):
    """x <= y"""

    reference = np.less_equal


class Gt(Comparison):
    """x > y"""

    reference = np.greater


class Ge(Comparison):
    """x >= y"""

    reference = np.greater_equal


# Bits


class BitwiseNot(Unary):
    """Every bit inverted; the logical not of a bool."""

    kinds = _BITS
    reference = np.invert


class BitwiseAnd(Binary):
    """Bits set in both; the logical and of bools."""

    kinds = _BITS
    reference = np.bitwise_and


class BitwiseOr(Binary):
    """Bits set in either; the logical or of bools."""

    kinds = _BITS
    reference = np.bitwise_or


class BitwiseXor(Binary):
    """Bits set in one but not in both."""

    kinds = _BITS
    reference = np.bitwise_xor


class ShiftLeft(Binary):
    """x with its bits moved up by y; 0 if y is not in 0 .. bits - 1."""

    kinds = _INTEGER
    domain = (0.0, 5.0)

    def reference(self, x: Any, y: Any) -> Any:
        return np.where(_shift_in_range(x, y), np.left_shift(x, _clamp_shift(x, y)), np.zeros_like(x))


class ShiftRightArithmetic(ShiftLeft):
    """x with its bits moved down by y, the sign filling in; all sign if y is not in 0 .. bits - 1."""

    def reference(self, x: Any, y: Any) -> Any:
        shift = np.where(
            _shift_in_range(x, y), y, np.asarray(8 * np.asarray(x).itemsize - 1).astype(np.asarray(y).dtype)
        )
        return np.right_shift(x, shift)


class ShiftRightLogical(ShiftLeft):
    """x with its bits moved down by y, zeros filling in; 0 if y is not in 0 .. bits - 1."""

    def reference(self, x: Any, y: Any) -> Any:
        x = np.asarray(x)
        unsigned = np.dtype(f"u{x.itemsize}")
        shifted = np.right_shift(x.view(unsigned), _clamp_shift(x, y).astype(unsigned)).view(x.dtype)
        return np.where(_shift_in_range(x, y), shifted, np.zeros_like(x))


def _shift_in_range(x: Any, y: Any) -> Any:
    return (y >= 0) & (y < 8 * np.asarray(x).itemsize)


def _clamp_shift(x: Any, y: Any) -> Any:
    return np.where(_shift_in_range(x, y), y, np.zeros_like(y))


class PopulationCount(Unary):
    """The number of bits that are set."""

    kinds = _INTEGER

    def reference(self, x: Any) -> Any:
        x = np.asarray(x)
        return np.bitwise_count(x.view(np.dtype(f"u{x.itemsize}"))).astype(x.dtype)


# Selection and casts


class Where(Elementwise):
    """x where the condition holds, y elsewhere."""

    arity = 3
    kinds = _ANY

    def out(self, condition: Any, x: Any, y: Any) -> Any:
        if (
            condition.dtype is not dtypes.bool_
            or x.dtype is not y.dtype
            or not condition.shape == x.shape == y.shape
        ):
            described = ", ".join(dtypes.describe(a.dtype, a.shape) for a in (condition, x, y))
            raise TypeError(
                f"where needs a bool condition and two arrays of one dtype, all of one shape, not {described}"
            )
        return x.dtype, x.shape

    reference = staticmethod(np.where)

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> UOp | None:
        condition, x, y = args
        _, tx, ty = tangents
        return where(condition, zeros_like(x) if tx is None else tx, zeros_like(y) if ty is None else ty)

    def vjp(self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool]) -> list[UOp | None]:
        condition, zero = args[0], zeros_like(ct)
        return [
            None,
            where(condition, ct, zero) if needs[1] else None,
            where(condition, zero, ct) if needs[2] else None,
        ]

    def samples(self) -> Iterator[Sample]:
        generator = np.random.default_rng(0)
        for dtype in dtypes.ALL:
            if dtypes.kind(dtype) in self.kinds and dtype not in dtypes.NARROW_FLOATS:
                for shape in ((2, 3), (), (0,)) if dtype is dtypes.float32 else ((2, 3),):
                    yield Sample(
                        (
                            generator.integers(0, 2, shape).astype(bool),
                            *(self.values(dtype, shape, s) for s in (0, 1)),
                        )
                    )
        yield Sample(
            (
                np.array([True, False]),
                np.array([1.0, np.nan], np.float32),
                np.array([np.inf, 2.0], np.float32),
            ),
            differentiable=False,
        )


class Clamp(Elementwise):
    """min(max(x, low), high), with the arguments in the order low, x, high; NaN stays NaN."""

    arity = 3

    def reference(self, low: Any, x: Any, high: Any) -> Any:
        return np.minimum(np.maximum(x, low), high)

    def partial(self, index: int, out: UOp, low: UOp, x: UOp, high: UOp) -> UOp:
        one, zero = full_like(x, 1), zeros_like(x)
        if index == 0:
            return where((low > x) & (low < high), one, zero)
        if index == 1:
            return where((x > low) & (x < high), one, zero)
        return where(high < max(x, low), one, zero)

    def values(self, dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray:
        values = super().values(dtype, shape, seed)
        return values if seed == 1 else np.full_like(values, 1 if seed == 0 else 2)


class Convert(Elementwise):
    """A cast. Floats to integers round towards zero and saturate, NaN gives 0; integers wrap; anything to bool is x != 0."""

    params = ("dtype",)
    kinds = (*_ANY, "complex")

    def out(self, x: Any, *, dtype: DType) -> Any:
        return dtype, x.shape

    def reference(self, x: Any, *, dtype: DType) -> Any:
        x = np.asarray(x)
        if dtype.kind in "iu" and dtypes.is_float(x.dtype):
            return _saturating_cast(x, dtype)
        if dtype.kind == "b":
            return x != 0
        if dtype in dtypes.NARROW_FLOATS and x.dtype in dtypes.NARROW_FLOATS:
            x = x.astype(np.float32)  # exact; ml_dtypes lacks some casts between them
        return x.astype(dtype)

    def jvp(
        self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], *, dtype: DType
    ) -> UOp | None:
        tangent = tangents[0]
        return None if tangent is None or not dtypes.is_inexact(dtype) else convert(tangent, dtype=dtype)

    def vjp(
        self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool], *, dtype: DType
    ) -> list[UOp | None]:
        return [convert(ct, dtype=args[0].dtype)]

    def samples(self) -> Iterator[Sample]:
        plain = [d for d in dtypes.ALL if dtypes.kind(d) != "complex"]
        for source in plain:
            for target in plain:
                # Differences of rounded values say nothing about the derivative.
                yield Sample(
                    (self.values(source, (2, 3), 0),),
                    {"dtype": target},
                    differentiable=target is dtypes.float64,
                )
        wild = np.array(
            [np.nan, np.inf, -np.inf, 1e30, -1e30, 3.99, -3.99, 255.5, -0.0, 2.0**31, -(2.0**63)], np.float32
        )
        for target in (*dtypes.INTEGERS, dtypes.bool_, dtypes.float64):
            yield Sample((wild,), {"dtype": target}, differentiable=False)
        for shape in ((), (0,), (1,)):
            yield Sample((np.ones(shape, np.float32),), {"dtype": dtypes.float64})


def _saturating_cast(x: np.ndarray, dtype: DType) -> np.ndarray:
    info = np.iinfo(dtype)
    wide = x.astype(np.float64)
    result = np.where(np.isfinite(wide) & (np.abs(wide) < 2.0**62), wide, 0.0).astype(np.int64)
    if dtype is dtypes.uint64:
        large = (wide >= 2.0**62) & (wide < 2.0**64)
        unsigned = np.where(large, wide, 0.0).astype(np.uint64) + np.clip(result, 0, None).astype(np.uint64)
        return np.where(wide >= 2.0**64, np.uint64(info.max), unsigned)
    if dtype is dtypes.int64:
        large = (np.abs(wide) >= 2.0**62) & (np.abs(wide) < 2.0**63)
        result = np.where(large, np.where(large, wide, 0.0).astype(np.int64), result)
    result = np.where(wide > info.max if dtype.itemsize < 8 else wide >= 2.0**63, info.max, result)
    result = np.where(wide < info.min, info.min, result)
    return result.astype(dtype)


class Bitcast(Elementwise):
    """The same bits read as another type of the same width."""

    params = ("dtype",)
    kinds = _ANY

    def out(self, x: Any, *, dtype: DType) -> Any:
        if dtype.itemsize != x.dtype.itemsize or (dtype is dtypes.bool_) != (x.dtype is dtypes.bool_):
            raise TypeError(
                f"bitcast of {x.dtype.name} to {dtype.name}: their widths differ; use astype to convert values"
            )
        return dtype, x.shape

    def reference(self, x: Any, *, dtype: DType) -> Any:
        return np.asarray(x).view(dtype)

    def partial(self, index: int, out: UOp, x: UOp, *, dtype: DType) -> None:
        return None

    def samples(self) -> Iterator[Sample]:
        for source, target in (("float32", "int32"), ("int32", "float32"), ("float16", "uint16"), ("bfloat16", "int16"),
                               ("float64", "uint64"), ("int8", "uint8"), ("uint64", "float64")):  # fmt: skip
            values = self.values(dtypes.canonical(source), (2, 3), 0)
            yield Sample((values,), {"dtype": dtypes.canonical(target)}, differentiable=False)


class StopGradient(Linear):
    """x, as something that does not depend on what is differentiated."""

    family = "elementwise"

    def out(self, x: Any) -> Any:
        return x.dtype, x.shape

    def reference(self, x: Any) -> Any:
        return x

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None]) -> None:
        return None

    def vjp(self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool]) -> list[None]:
        return [None]

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool]) -> UOp:
        return self.node(args[0])

    def samples(self) -> Iterator[Sample]:
        for dtype in (dtypes.float32, dtypes.int32, dtypes.bool_):
            yield Sample((np.ones((2, 3), dtype),), differentiable=False)


neg, add, sub, mul, mul_zero, div, rem = Neg(), Add(), Sub(), Mul(), MulZero(), Div(), Rem()
pow, integer_pow, abs, sign, max, min = Pow(), IntegerPow(), Abs(), Sign(), Max(), Min()
exp, exp2, expm1, log, log2, log1p = Exp(), Exp2(), Expm1(), Log(), Log2(), Log1p()
sin, cos, tan, asin, acos, atan, atan2 = Sin(), Cos(), Tan(), Asin(), Acos(), Atan(), Atan2()
sinh, cosh, tanh, asinh, acosh, atanh = Sinh(), Cosh(), Tanh(), Asinh(), Acosh(), Atanh()
sqrt, rsqrt, cbrt, logistic, erf, erfc, erf_inv = Sqrt(), Rsqrt(), Cbrt(), Logistic(), Erf(), Erfc(), ErfInv()
floor, ceil, round, trunc, nextafter = Floor(), Ceil(), Round(), Trunc(), Nextafter()
is_finite, is_nan, is_inf = IsFinite(), IsNan(), IsInf()
eq, ne, lt, le, gt, ge = Eq(), Ne(), Lt(), Le(), Gt(), Ge()
bitwise_not, bitwise_and, bitwise_or, bitwise_xor = BitwiseNot(), BitwiseAnd(), BitwiseOr(), BitwiseXor()
shift_left, shift_right_logical, shift_right_arithmetic = (
    ShiftLeft(),
    ShiftRightLogical(),
    ShiftRightArithmetic(),
)
population_count = PopulationCount()
where, clamp, convert, bitcast, stop_gradient = Where(), Clamp(), Convert(), Bitcast(), StopGradient()
