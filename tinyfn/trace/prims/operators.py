"""Python's operators on UOps, so that rules read as formulas: on arrays they build primitives, on dimensions sums."""

from __future__ import annotations

from typing import Any

from ..prim import Primitive, full_like
from ..sint import index_operators
from ..uop import UOp
from . import arithmetic, bits, comparison

_ARRAY: dict[str, Primitive] = {
    "add": arithmetic.add, "sub": arithmetic.sub, "mul": arithmetic.mul, "truediv": arithmetic.div,
    "and": bits.bitwise_and, "or": bits.bitwise_or,
    "lt": comparison.lt, "le": comparison.le, "gt": comparison.gt, "ge": comparison.ge,
}  # fmt: skip


def _install() -> None:
    index = index_operators()

    def operator(name: str, primitive: Primitive | None, swapped: bool) -> Any:
        on_index = index.get(name)

        def apply(self: UOp, other: Any) -> Any:
            if self.op.is_scalar:
                return NotImplemented if on_index is None else on_index(self, other)
            if primitive is None:
                return NotImplemented
            if not isinstance(other, UOp):
                if not isinstance(other, (bool, int, float, complex)):
                    return NotImplemented
                other = full_like(self, other)
            return primitive.node(other, self) if swapped else primitive.node(self, other)

        apply.__name__ = name
        return apply

    for name, primitive in _ARRAY.items():
        setattr(UOp, f"__{name}__", operator(f"__{name}__", primitive, False))
        if name not in ("lt", "le", "gt", "ge"):
            setattr(UOp, f"__r{name}__", operator(f"__r{name}__", primitive, True))
    for name in index:
        if name not in UOp.__dict__ and name != "__neg__":
            setattr(UOp, name, operator(name, None, False))

    def negative(self: UOp) -> UOp:
        return index["__neg__"](self) if self.op.is_scalar else arithmetic.neg.node(self)

    setattr(UOp, "__neg__", negative)  # noqa: B010 (it is read-only to a type checker)


_install()
