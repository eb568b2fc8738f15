"""threefry2x32 in scalar operations."""

from __future__ import annotations

from ..trace import dtype as dtypes
from ..trace.prims.random import PARITY, ROTATIONS
from ..trace.scalar import ADD, OR, SHL, SHR, XOR, build
from ..trace.uop import UOp, const


def threefry(key0: UOp, key1: UOp, count0: UOp, count1: UOp) -> tuple[UOp, UOp]:
    """The two output words for one counter under one key; see `trace.prims.random`."""
    keys = (key0, key1, build(XOR, build(XOR, key0, key1), _word(int(PARITY))))
    x0, x1 = build(ADD, count0, keys[0]), build(ADD, count1, keys[1])
    for block in range(5):
        for rotation in ROTATIONS[block % 2]:
            x0 = build(ADD, x0, x1)
            rotated = build(OR, build(SHL, x1, _word(rotation)), build(SHR, x1, _word(32 - rotation)))
            x1 = build(XOR, rotated, x0)
        x0 = build(ADD, x0, keys[(block + 1) % 3])
        x1 = build(ADD, build(ADD, x1, keys[(block + 2) % 3]), _word(block + 1))
    return x0, x1


def _word(value: int) -> UOp:
    return const(value, dtypes.uint32)
