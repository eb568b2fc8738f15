"""The names of this namespace's dtypes, which make arrays too: `float32(0.5)`."""

from __future__ import annotations

from typing import Any

from ..trace import dtype as dtypes
from ..trace.array import Array
from ..trace.errors import entry_methods
from .conversion import asarray


class ScalarType:
    """A dtype by its name, `tinyfn.numpy.float32`: equal to the dtype, taken wherever one is, and called as a cast.

    `float32(0.5)` is an array without axes, and `float32(x)` of an array is `x.astype("float32")`.

    >>> tnp.float32(1)
    Array(1., dtype=float32)
    >>> tnp.ones(2, tnp.int8).dtype == tnp.int8
    True
    >>> tnp.bfloat16, tnp.bfloat16.dtype, tnp.bfloat16.itemsize
    (tinyfn.numpy.bfloat16, dtype(bfloat16), 2)
    """

    __slots__ = ("__name__", "dtype", "itemsize", "kind", "name", "type")

    def __init__(self, dtype: dtypes.DType):
        self.dtype = dtype
        self.name, self.type, self.kind, self.itemsize = dtype.name, dtype.type, dtype.kind, dtype.itemsize
        self.__name__ = "bool_" if dtype is dtypes.bool_ else dtype.name

    def __call__(self, x: Any) -> Array:
        return asarray(x, self.dtype)

    def __eq__(self, other: object) -> bool:
        if type(other) is ScalarType:
            return self.dtype is other.dtype
        return other is not None and self.dtype == other  # None is float64 to NumPy

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"tinyfn.numpy.{self.__name__}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return self.__name__


bool_ = ScalarType(dtypes.bool_)
int8, int16, int32, int64 = map(ScalarType, dtypes.SIGNED)
uint8, uint16, uint32, uint64 = map(ScalarType, dtypes.UNSIGNED)
bfloat16, float16, float32, float64 = map(ScalarType, dtypes.FLOATS)
(
    float8_e4m3fn,
    float8_e5m2,
    float8_e4m3fnuz,
    float8_e5m2fnuz,
    float8_e4m3,
    float8_e3m4,
    float8_e4m3b11fnuz,
    float8_e8m0fnu,
    float6_e2m3fn,
    float6_e3m2fn,
    float4_e2m1fn,
) = map(ScalarType, dtypes.NARROW_FLOATS)
complex64, complex128 = ScalarType(dtypes.complex64), ScalarType(dtypes.complex128)


entry_methods(ScalarType, "__call__")
