"""How exactly products are to be computed, as JAX says it.

Products here are never computed in less than the dtype of their operands, and summed in float32 at least, so that every one of
these is honoured, and none changes anything. A lower precision is had by casts of the operands."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple, TypeAlias

from ..trace.errors import user_line


class Precision(enum.Enum):
    """The least precision of a product, in the terms of TPUs."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


class DotAlgorithm(NamedTuple):
    """The dtypes in which a product multiplies and adds, at least.

    >>> algorithm = lax.DotAlgorithm("float16", "float16", "float32")
    >>> lax.dot(tnp.ones(3), tnp.ones(3), precision=algorithm)
    Array(3., dtype=float32)
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Named algorithms: the dtypes of both operands, and that of the sum."""

    DEFAULT = enum.auto()
    ANY_F8_ANY_F8_F32 = enum.auto()
    ANY_F8_ANY_F8_F32_FAST_ACCUM = enum.auto()
    ANY_F8_ANY_F8_ANY = enum.auto()
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = enum.auto()
    F16_F16_F16 = enum.auto()
    F16_F16_F32 = enum.auto()
    BF16_BF16_BF16 = enum.auto()
    BF16_BF16_F32 = enum.auto()
    BF16_BF16_F32_X3 = enum.auto()
    BF16_BF16_F32_X6 = enum.auto()
    BF16_BF16_F32_X9 = enum.auto()
    TF32_TF32_F32 = enum.auto()
    TF32_TF32_F32_X3 = enum.auto()
    F32_F32_F32 = enum.auto()
    F64_F64_F64 = enum.auto()


PrecisionLike: TypeAlias = (
    str | Precision | DotAlgorithm | DotAlgorithmPreset | tuple[str, str] | tuple[Precision, Precision] | None
)
_NAMES = {
    "default", "fastest", "high", "bfloat16_3x", "tensorfloat32", "highest", "float32", "bfloat16",
    *DotAlgorithmPreset.__members__,
}  # fmt: skip


def check_precision(name: str, precision: Any) -> None:
    """Raises ValueError for what is no precision."""
    each = precision if type(precision) is tuple and len(precision) == 2 else (precision,)
    for one in each:
        known = one is None or isinstance(one, (Precision, DotAlgorithm, DotAlgorithmPreset))
        if not known and not (isinstance(one, str) and one in _NAMES):
            raise ValueError(
                f"lax.{name}: {precision!r} is no precision; at {user_line()}: it may be None, a lax.Precision, a "
                "lax.DotAlgorithmPreset, their names, or a pair of such"
            )
