"""The scalar formula of each elementwise primitive: `FORMULAS[op](node, *elements of its sources)` is its element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..trace.dtype import DType
from ..trace.prim import REGISTRY
from ..trace.scalar import CAST, build
from ..trace.uop import UOp
from .decompositions import DECOMPOSITIONS

Formula = Callable[..., UOp]


def _of_node(decomposition: Callable[..., UOp]) -> Formula:
    def formula(node: UOp, *elements: UOp) -> UOp:
        return decomposition(*elements, **node.params)

    return formula


FORMULAS: dict[Any, Formula] = {REGISTRY[name]: _of_node(d) for name, d in DECOMPOSITIONS.items()}


def cast(x: UOp, dtype: DType) -> UOp:
    """x cast, or x itself if it has that dtype."""
    return x if x.dtype is dtype else build(CAST, x, arg=dtype)
