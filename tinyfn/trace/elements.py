"""Elements: what a primitive's class says of an element of its result with: positions, conditions, and requests for elements.

A movement op's `source_index` says which element of its source an element is. Another op's `element` is a generator, which
asks for elements of its sources, gets them as scalar expressions, and returns the expression of the element."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence

from . import dtype as dtypes
from . import scalar, sint
from .sint import Dimension
from .uop import UOp, const

Index = tuple[Dimension, ...]
# An element that is asked for: of which array, where, and under which condition (None: always).
Request = tuple[UOp, Index, UOp | None]
Rule = Generator[list[Request], list[UOp], UOp]


def as_node(dimension: Dimension) -> UOp:
    """A dimension as a scalar node of int64."""
    return dimension if isinstance(dimension, UOp) else const(dimension, dtypes.int64)


def position(shape: Sequence[Dimension], index: Index) -> Dimension:
    """The row-major position of an index in an array of this shape."""
    total: Dimension = 0
    for n, i in zip(shape, index, strict=True):
        total = sint.add(sint.mul(total, n), i)
    return total


def unravel(shape: Sequence[Dimension], flat: Dimension) -> Index:
    """The index of a row-major position in an array of this shape."""
    index: list[Dimension] = []
    for axis, n in reversed(list(enumerate(shape))):
        # The first axis needs no remainder: the position is within the array.
        index.append(sint.mod(flat, n) if axis and n != 1 else 0 if n == 1 else flat)
        flat = sint.floordiv(flat, n)
    return tuple(reversed(index))


def at_most(a: Dimension, b: Dimension) -> UOp | bool:
    """Whether a <= b, if that is known, or the expression that tells."""
    known = sint.always_less_equal(a, b)
    return known if known is not None else scalar.build(scalar.LT, as_node(a), as_node(sint.add(b, 1)))


def equal(a: Dimension, b: Dimension) -> UOp | bool:
    """Whether a == b, if that is known, or the expression that tells."""
    known = sint.always_equal(a, b)
    return known if known is not None else scalar.build(scalar.EQ, as_node(a), as_node(b))


def both(a: UOp | None, b: UOp | bool) -> UOp | None:
    """The condition that both hold; None and True always do."""
    if b is True:
        return a
    b = condition_node(b)
    return b if a is None or a is b else scalar.build(scalar.AND, a, b)


def conjunction(conditions: Iterable[UOp | bool]) -> UOp | bool:
    """Whether all conditions hold."""
    result: UOp | bool = True
    for condition in conditions:
        if condition is False:
            return False
        if condition is not True:
            result = (
                condition if result is True else scalar.build(scalar.AND, condition_node(result), condition)
            )
    return result


def condition_node(condition: UOp | bool) -> UOp:
    """A condition as an expression."""
    return condition if isinstance(condition, UOp) else const(condition, dtypes.bool_)
