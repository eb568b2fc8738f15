"""Several arrays as one flat vector: joined, cut apart again, and scaled piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..trace import operators, prims
from ..trace.array import Array

# An Array in a formula: its operators are installed at run time, where mypy does not see them.
Numbers = Any


class Parts:
    """One parameter, and the norm that a trust ratio takes of it."""

    def norm(self, x: Numbers) -> Numbers:
        """The Euclidean norm of x, a 0-d array."""
        return prims.sqrt(prims.reduce_sum(x * x, axes=tuple(range(x.ndim))))

    def spread(self, factor: Numbers) -> Numbers:
        """What to multiply with, to scale the parameter by the factor."""
        return factor


class Segments(Parts):
    """Several parameters in one flat vector: a norm of each."""

    def __init__(self, sizes: Sequence[Any]):
        self.sizes = sizes

    def split(self, x: Numbers) -> list[Numbers]:
        """The parameters' vectors."""
        return cut(x, self.sizes)

    def norm(self, x: Numbers) -> Numbers:
        """The Euclidean norms, a vector with one element for each parameter."""
        sums = [prims.reduce_sum(piece, axes=(0,)) for piece in self.split(x * x)]
        return prims.sqrt(ravel(sums))

    def spread(self, factor: Numbers) -> Numbers:
        """The factors, each repeated for the elements of its parameter."""
        factors = cut(factor, [1] * len(self.sizes))
        return ravel([operators.broadcast_to(f, (n,)) for f, n in zip(factors, self.sizes, strict=True)])


def ravel(xs: Sequence[Any]) -> Array:
    """The elements of all arrays in one vector."""
    flat = [x if x.ndim == 1 else prims.reshape(x, shape=(x.size,)) for x in xs]
    joined: Array = prims.concatenate(*flat, axis=0) if len(flat) > 1 else flat[0]
    return joined


def cut(x: Array, sizes: Sequence[Any]) -> list[Array]:
    """A vector cut into pieces of these sizes."""
    if len(sizes) == 1:
        return [x]
    pieces, begin = [], 0
    for size in sizes:
        pieces.append(prims.slice_(x, start=(begin,), limit=(begin + size,), step=(1,)))
        begin += size
    return pieces


def select(x: Array, sizes: Sequence[Any], kept: Sequence[bool]) -> Array:
    """The pieces of a vector that are kept, joined."""
    if all(kept):
        return x
    return ravel([piece for piece, keep in zip(cut(x, sizes), kept, strict=True) if keep])


def merge(before: Array, after: Array, sizes: Sequence[Any], kept: Sequence[bool]) -> Array:
    """`before` with the pieces that are kept replaced by those of `after`, which has only them."""
    if all(kept):
        return after
    new = iter(cut(after, [size for size, keep in zip(sizes, kept, strict=True) if keep]))
    return ravel([next(new) if keep else piece for piece, keep in zip(cut(before, sizes), kept, strict=True)])
