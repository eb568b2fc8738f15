"""Questions about dtypes: which are of a kind, which an operation gives, what may be cast, and limits."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from ..trace import dtype as dtypes
from ..trace.array import is_scalar
from .common import DTypeLike, at_user


def dtype_of(x: Any) -> dtypes.DType:
    """The dtype of an array or a number, or the one that is named."""
    found = getattr(x, "dtype", None)
    named: Any = type(x) if is_scalar(x) else x if found is None or isinstance(x, type) else found
    return dtypes.canonical(named)


_ABSTRACT = (
    np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact, np.floating,
    np.complexfloating, dtypes.extended, dtypes.prng_key,
)  # fmt: skip
_CLASS_OF_KIND: dict[str, Any] = {
    "bool": np.bool_, "signed": np.signedinteger, "unsigned": np.unsignedinteger, "float": np.floating,
    "complex": np.complexfloating, "key": dtypes.prng_key,
}  # fmt: skip


def issubdtype(arg1: DTypeLike, arg2: DTypeLike) -> bool:
    """Whether a dtype is another or belongs to an abstract one: `generic`, `number`, `integer`, `floating`, ...; of random keys
    `tinyfn.dtypes.prng_key`.

    >>> tnp.issubdtype(tnp.bfloat16, tnp.floating), tnp.issubdtype(tnp.int32, tnp.int64)
    (True, False)
    """
    abstract = any(arg1 is c for c in _ABSTRACT)
    if any(arg2 is c for c in _ABSTRACT):
        return issubclass(arg1 if abstract else _CLASS_OF_KIND[dtypes.kind(dtype_of(arg1))], arg2)
    return not abstract and dtype_of(arg1) is dtypes.canonical(arg2)


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Whether a dtype is of a kind: "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex
    floating", "numeric", a dtype, or one of a tuple of those.

    >>> tnp.isdtype(tnp.uint8, "integral"), tnp.isdtype(tnp.uint8, ("bool", tnp.float32))
    (True, False)
    """
    target = dtypes.canonical(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(target, k) for k in kind)
    kinds = {
        "bool": ("bool",), "signed integer": ("signed",), "unsigned integer": ("unsigned",),
        "integral": ("signed", "unsigned"), "real floating": ("float",), "complex floating": ("complex",),
        "numeric": ("signed", "unsigned", "float", "complex"),
    }  # fmt: skip
    if isinstance(kind, str):
        if kind in kinds:
            return dtypes.kind(target) in kinds[kind]
        if kind not in [d.name for d in dtypes.ALL]:
            raise ValueError(
                f"isdtype: {kind!r} is neither a kind ({', '.join(kinds)}) nor a dtype{at_user()}"
            )
    return target is dtypes.canonical(kind)


def result_type(*args: Any) -> dtypes.DType:
    """The dtype that an operation on these arrays, numbers and dtypes gives; Python numbers are weak.

    >>> tnp.result_type(tnp.int32, tnp.float16), tnp.result_type(tnp.zeros(2, tnp.int8), 1.5)
    (dtype('float16'), dtype('float32'))
    """
    if not args:
        raise ValueError(f"result_type needs an argument{at_user()}")
    found: dtypes.DType | None = None
    found_weak = True
    for x in args:
        dtype = dtype_of(x)
        weak = (
            bool(getattr(x, "weak_type", False))
            or (is_scalar(x) and type(x) is not bool)
            or _is_number_type(x)
        )
        found, found_weak = (
            (dtype, weak) if found is None else dtypes.promote_pair(found, found_weak, dtype, weak)
        )
    assert found is not None
    return found


def _is_number_type(x: Any) -> bool:
    # By identity: NumPy's dtype int64 is equal to `int`.
    return x is int or x is float or x is complex


def promote_types(a: DTypeLike, b: DTypeLike) -> dtypes.DType:
    """The dtype that an operation on arrays of two dtypes gives; `int`, `float` and `complex` are weak.

    >>> tnp.promote_types(tnp.int64, tnp.float16), tnp.promote_types(tnp.uint8, tnp.int8), tnp.promote_types(tnp.int8, int)
    (dtype('float16'), dtype('int16'), dtype('int8'))
    """
    weak = _is_number_type(a), _is_number_type(b)
    return dtypes.promote_pair(dtypes.canonical(a), weak[0], dtypes.canonical(b), weak[1])[0]


def can_cast(from_: DTypeLike, to: DTypeLike, casting: str = "safe") -> bool:
    """Whether a cast is allowed: "safe" ones keep every value, "same_kind" ones the kind, and "unsafe" are all.

    >>> tnp.can_cast(tnp.int8, tnp.int32), tnp.can_cast(tnp.int32, tnp.float32)
    (True, False)
    >>> tnp.can_cast(tnp.int32, tnp.float32, "same_kind"), tnp.can_cast(tnp.float32, tnp.int32, "same_kind")
    (True, False)
    """
    if casting not in ("no", "equiv", "safe", "same_kind", "unsafe"):
        raise ValueError(
            f"can_cast: casting must be 'no', 'equiv', 'safe', 'same_kind' or 'unsafe', not {casting!r}{at_user()}"
        )
    first, second = dtype_of(from_), dtypes.canonical(to)
    if first is second or (casting == "unsafe" and dtypes.key not in (first, second)):
        return True
    if casting in ("no", "equiv"):
        return False
    if dtypes.key in (first, second):
        return False
    order = ("bool", "unsigned", "signed", "float", "complex")
    if casting == "same_kind" and order.index(dtypes.kind(first)) <= order.index(dtypes.kind(second)):
        return True
    if dtypes.bfloat16 in (first, second) or {first, second} & set(dtypes.NARROW_FLOATS):
        if dtypes.kind(first) == "float":
            a, b = finfo(first), finfo(second) if dtypes.is_float(second) else None
            return (b is not None and a.nmant <= b.nmant and float(a.max) <= float(b.max)) or dtypes.kind(
                second
            ) == "complex"
        return first is dtypes.bool_ or (first.itemsize == 1 and second is dtypes.bfloat16)
    return bool(np.can_cast(first, second, "safe"))


class FloatInfo:
    """Limits of a float dtype, as Python's floats and integers; what `finfo` gives.

    >>> tnp.finfo(tnp.float16)
    finfo(dtype=float16, min=-65504.0, max=65504.0, eps=0.0009765625, tiny=6.103515625e-05)
    """

    def __init__(self, dtype: dtypes.DType):
        found = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        self.dtype = dtypes.canonical(found.dtype)
        self.bits, self.nmant, self.nexp = int(found.bits), int(found.nmant), int(found.nexp)
        self.minexp, self.maxexp = int(found.minexp), int(found.maxexp)
        self.precision, self.resolution = int(found.precision), float(found.resolution)
        self.eps, self.epsneg = float(found.eps), float(found.epsneg)
        self.max, self.min = float(found.max), float(found.min)
        self.tiny = self.smallest_normal = float(found.smallest_normal)
        self.smallest_subnormal = float(found.smallest_subnormal)

    def __repr__(self) -> str:
        return f"finfo(dtype={self.dtype.name}, min={self.min}, max={self.max}, eps={self.eps}, tiny={self.tiny})"


@cache
def _float_info(dtype: dtypes.DType) -> FloatInfo:
    return FloatInfo(dtype)


def finfo(dtype: Any) -> FloatInfo:
    """Limits of a float dtype (of a complex one's parts): max, min, tiny, eps, bits, nmant, ... as Python's numbers.

    >>> tnp.finfo(tnp.float32).eps == 2**-23, tnp.finfo(tnp.bfloat16).max, tnp.finfo(tnp.complex64).bits
    (True, 3.3895313892515355e+38, 32)
    """
    found = dtype_of(dtype)
    if not dtypes.is_inexact(found):
        raise ValueError(f"finfo takes a dtype of floats, not {found.name}{at_user()}: use iinfo")
    return _float_info(found)


def iinfo(dtype: Any) -> Any:
    """Limits of an integer dtype: max, min, bits.

    >>> tnp.iinfo(tnp.int8).min, tnp.iinfo(tnp.int8).max, tnp.iinfo(tnp.uint16).bits
    (-128, 127, 16)
    """
    found = dtype_of(dtype)
    if not dtypes.is_integer(found):
        raise ValueError(
            f"iinfo takes a dtype of integers, not {found.name}{at_user()}: use finfo for floats"
        )
    return ml_dtypes.iinfo(found)  # type: ignore[no-untyped-call]
