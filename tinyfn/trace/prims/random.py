"""Random bits: the counter-based generator threefry2x32, the same on every device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import dtype as dtypes
from .. import elements as e
from .. import formulas as f
from .. import scalar
from ..prim import Primitive, Sample, instantiate_batch, spell
from ..uop import UOp

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)


class Threefry2x32(Primitive):
    """The two output words for each counter (count0, count1) under each key (key0, key1), along a new last axis.

    Threefry with 20 rounds on two 32-bit words: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
    1, 2, 3" (SC 2011)."""

    family = "random"
    work = 120

    def out(self, *args: Any) -> Any:
        if len(args) != 4 or any(a.dtype is not dtypes.uint32 or a.shape != args[0].shape for a in args):
            raise TypeError(f"threefry2x32 needs four uint32 arrays of one shape, not {spell(args)}")
        return dtypes.uint32, (*args[0].shape, 2)

    def element(self, node: UOp, index: e.Index, condition: UOp | None) -> e.Rule:
        words = yield [(source, index[:-1], condition) for source in node.src]
        first, second = _words(*words)
        last = index[-1]
        if isinstance(last, int):
            return second if last else first
        return scalar.build(scalar.WHERE, e.condition_node(e.equal(last, 0)), first, second)

    def reference(self, key0: Any, key1: Any, count0: Any, count1: Any) -> Any:
        keys = (key0, key1, key0 ^ key1 ^ PARITY)
        x0, x1 = count0 + keys[0], count1 + keys[1]
        for block in range(5):
            for rotation in ROTATIONS[block % 2]:
                x0 = x0 + x1
                x1 = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
                x1 = x1 ^ x0
            x0 = x0 + keys[(block + 1) % 3]
            x1 = x1 + keys[(block + 2) % 3] + np.uint32(block + 1)
        return np.stack([x0, x1], -1)

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool]) -> UOp:
        return self.node(*instantiate_batch(size, args, batched))

    def samples(self) -> Iterator[Sample]:
        for shape in ((), (3,), (2, 3), (0,)):
            words = np.random.default_rng(0).integers(0, 2**32, (4, *shape), dtype=np.uint32)
            yield Sample(tuple(words), differentiable=False)


def _words(key0: UOp, key1: UOp, count0: UOp, count1: UOp) -> tuple[UOp, UOp]:
    """The two output words for one counter under one key."""
    keys = (key0, key1, f.xor(f.xor(key0, key1), int(PARITY)))
    x0, x1 = f.add(count0, keys[0]), f.add(count1, keys[1])
    for block in range(5):
        for rotation in ROTATIONS[block % 2]:
            x0 = f.add(x0, x1)
            x1 = f.xor(f.or_(f.shift_left(x1, rotation), f.shift_right(x1, 32 - rotation)), x0)
        x0 = f.add(x0, keys[(block + 1) % 3])
        x1 = f.add(f.add(x1, keys[(block + 2) % 3]), block + 1)
    return x0, x1


threefry2x32 = Threefry2x32()
