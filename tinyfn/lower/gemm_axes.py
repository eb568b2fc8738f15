"""Axes of a contraction: flat indices over ranges, of which the last is the fastest, and the values of these at a place.

Ranges that every position steps through as one stay one. A vector that crosses from one value of a slower range to the next is
done in segments, each under a mask of its lanes, or, where these would be many, with values of its own for every lane."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..trace import sint
from ..trace.elements import as_node
from ..trace.sint import Dimension
from ..trace.uop import CONST, UOp, toposort
from .gemm_matrix import Builder, Place, Windows, digits
from .gemm_values import Evaluation
from .gemm_writer import Index, Value
from .index import LOAD
from .linear import Linear, is_index
from .nest import is_symbolic, size_of

# A vector is done in so many segments at most; each costs about what a load does, and a gather as much as a load for each lane.
SEGMENTS = 4
_NARROW = 1 << 31


class Axis(NamedTuple):
    """A flat index over groups of ranges; those of a group are stepped through as one, the last of them standing for it.

    Of the ranges only the first may be of symbolic size."""

    groups: tuple[tuple[UOp, ...], ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the groups, the most of what is symbolic."""
        sizes = []
        for group in self.groups:
            size = 1
            for r in group:
                size *= size_of(r)
            sizes.append(size)
        return tuple(sizes)


def indices(expressions: Sequence[UOp]) -> list[UOp]:
    """The positions of the loads of expressions, and the other indices that they compute with, as large as they are."""
    found: dict[UOp, None] = {}
    pure: set[UOp] = set()
    for node in toposort(expressions):
        if is_index(node) and all(source in pure for source in node.src):
            pure.add(node)
            continue
        if node.op is LOAD:
            found[node.src[0]] = None
        for source in node.src:
            if source in pure and source.op is not CONST:
                found[source] = None
    for expression in expressions:
        if expression in pure and expression.op is not CONST:
            found[expression] = None
    return list(found)


def group_ranges(ranges: Sequence[UOp], uses: Sequence[Linear]) -> Axis:
    """The axis over ranges, those made one group that all these indices step through as one."""
    groups: list[tuple[UOp, ...]] = []
    for r in ranges:
        if groups and all(_continues(groups[-1][-1], r, use) for use in uses):
            groups[-1] = (*groups[-1], r)
        else:
            groups.append((r,))
    return Axis(tuple(groups))


def _continues(slow: UOp, fast: UOp, use: Linear) -> bool:
    if slow in use.other or fast in use.other or is_symbolic(fast):
        return False
    return use.steps.get(slow, 0) == size_of(fast) * use.steps.get(fast, 0)


def sizes(b: Builder, arrays: Mapping[UOp, int]) -> dict[UOp, Index]:
    """The symbolic dimensions among the arguments."""
    return {node: b.size(slot) for node, slot in arrays.items() if node.op is sint.VARIABLE}


def run_time(b: Builder, arrays: Mapping[UOp, int], dimension: Dimension) -> Index:
    """The value of a dimension at run time."""
    return Evaluation(b, arrays, 1, None, sizes(b, arrays)).index(as_node(dimension))


Body = Callable[[Evaluation], Value | None]


def at_place(
    b: Builder,
    arrays: Mapping[UOp, int],
    axes: Sequence[Axis],
    place: Place,
    known: Mapping[UOp, Value],
    body: Body,
) -> Value | None:
    """What `body` gives at a place, whose batch, row and column are indices along these axes.

    It may be called several times, for some of the lanes each; its values are put together."""
    scalars = sizes(b, arrays)
    lanes, moving = place.lanes, place.axis + 1
    for number, (axis, index) in enumerate(zip(axes, (place.batch, place.row, place.column), strict=True)):
        if number != moving or lanes == 1:
            _bind(b, axis, index, scalars, place.digits if number == 2 and moving != 2 else ())
    if lanes == 1:
        return body(Evaluation(b, arrays, 1, None, scalars, known=known))
    axis, index = axes[moving], (place.row, place.column)[place.axis]
    if not axis.groups:
        return body(Evaluation(b, arrays, lanes, place.mask, scalars, known=known))
    size, lane = axis.sizes[-1], axis.groups[-1][-1]
    if len(axis.groups) == 1 or (size % lanes == 0 and place.unit % lanes == 0):
        _bind(b, axis, index, scalars)
        return body(Evaluation(b, arrays, lanes, place.mask, scalars, lane, known=known))
    segments = 1 + -(-(lanes - 1) // size)
    if segments <= SEGMENTS:
        return _in_segments(b, arrays, axis, place, index, segments, scalars, known, body)
    return body(
        Evaluation(b, arrays, lanes, place.mask, scalars, None, _vectors(b, axis, index, lanes), known=known)
    )


def _bind(
    b: Builder, axis: Axis, index: Index, scalars: dict[UOp, Index], at_hand: Sequence[Index] = ()
) -> None:
    """The values of an axis's ranges at an index."""
    for group, digit in zip(axis.groups, at_hand or digits(b, index, axis.sizes), strict=True):
        for r in group[:-1]:
            scalars[r] = Index(None, 0)
        scalars[group[-1]] = digit


def _in_segments(
    b: Builder,
    arrays: Mapping[UOp, int],
    axis: Axis,
    place: Place,
    index: Index,
    segments: int,
    scalars: dict[UOp, Index],
    known: Mapping[UOp, Value],
    body: Body,
) -> Value | None:
    """The lanes with one value of the slower ranges after those with the one before."""
    lanes, size, extent = place.lanes, axis.sizes[-1], 1
    for n in axis.sizes:
        extent *= n
    slower, lane = Axis(axis.groups[:-1]), axis.groups[-1][-1]
    within, outer = b.binary("urem", index, size), b.binary("udiv", index, size)
    end: Index | int = extent // size - 1
    if is_symbolic(axis.groups[0][0]):
        end = run_time(b, arrays, sint.prod(sint.extent(r) for group in slower.groups for r in group)) + -1
    result: Value | None = None
    for t in range(segments):
        here = dict(scalars)
        # A segment past the end has no lanes, but its ranges have to have values.
        _bind(b, slower, b.binary("umin", outer + t, end) if t else outer, here)
        for r in axis.groups[-1][:-1]:
            here[r] = Index(None, 0)
        first = here[lane] = b.add(within, Index(None, -t * size))
        low, high = (b.pure("i32", f"trunc {b.number(edge)} to i32") for edge in (first, first + (-size)))
        mask = place.mask
        for predicate, edge in (("sge", low), ("slt", high)):
            if (predicate == "sge" and t == 0) or (predicate == "slt" and t == segments - 1):
                continue
            steps = ", ".join(f"i32 {-each}" for each in range(lanes))
            side = b.pure(f"<{lanes} x i1>", f"icmp {predicate} {b.splat(edge, lanes)}, <{steps}>")
            mask = side if mask is None else b.pure(side.type, f"and {mask}, {side.name}")
        value = body(Evaluation(b, arrays, lanes, mask, here, lane, known=known))
        if value is None:
            continue
        if not value.type.startswith("<"):
            value = b.splat(value, lanes)
        result = value if result is None else b.instruction(value.type, f"select {mask}, {value}, {result}")
    return result


def _vectors(b: Builder, axis: Axis, index: Index, lanes: int) -> dict[UOp, Value]:
    """The values of an axis's ranges in every lane, by divisions in 32 bits if they fit."""
    extent = 1
    for n in axis.sizes:
        extent *= n
    kind = "i32" if extent + lanes < _NARROW else "i64"
    start = b.number(index)
    if kind == "i32":
        start = b.pure("i32", f"trunc {start} to i32")
    steps = ", ".join(f"{kind} {lane}" for lane in range(lanes))
    flat = b.pure(f"<{lanes} x {kind}>", f"add {b.splat(start, lanes)}, <{steps}>")
    wide = f"<{lanes} x i64>"
    values: dict[UOp, Value] = {}
    for position, (group, size) in reversed(list(enumerate(zip(axis.groups, axis.sizes, strict=True)))):
        rest = b.pure(flat.type, f"urem {flat}, splat ({kind} {size})") if position else flat
        values[group[-1]] = b.pure(wide, f"zext {rest} to {wide}") if kind == "i32" else rest
        for r in group[:-1]:
            values[r] = Value(wide, "zeroinitializer")
        if position:
            flat = b.pure(flat.type, f"udiv {flat}, splat ({kind} {size})")
    return values


class Values:
    """A producer of the values of an expression, by batch, outer and summed axis; with the windows that they are, if so."""

    def __init__(
        self,
        value: UOp,
        axes: tuple[Axis, Axis, Axis],
        arrays: Mapping[UOp, int],
        windows: Windows | None = None,
    ) -> None:
        self._value, self._axes, self._arrays = value, axes, arrays
        groups = axes[2].groups
        self.summed = () if len(groups) == 1 and is_symbolic(groups[0][0]) else axes[2].sizes
        self.windows = windows

    def __call__(self, builder: Builder, place: Place) -> Value:
        made = at_place(
            builder, self._arrays, self._axes, place, {}, lambda evaluation: evaluation.vector(self._value)
        )
        assert made is not None
        return made
