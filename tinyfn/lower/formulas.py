"""The scalar formula of each elementwise primitive: `FORMULAS[op](node, *elements of its sources)` is its element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..trace.dtype import DType
from ..trace.prim import REGISTRY
from ..trace.scalar import CAST, build
from ..trace.uop import UOp

Formula = Callable[..., UOp]


def _formula(node: UOp, *elements: UOp) -> UOp:
    made: UOp = node.op.scalar(*elements, **node.params)
    return made


FORMULAS: dict[Any, Formula] = {p: _formula for p in REGISTRY.values() if p.scalar is not None}


def cast(x: UOp, dtype: DType) -> UOp:
    """x cast, or x itself if it has that dtype."""
    return x if x.dtype is dtype else build(CAST, x, arg=dtype)
