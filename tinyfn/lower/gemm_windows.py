"""Windows of a convolution that are read where they overlap: what lies under them is copied once, with its padding.

A factor has windows if its elements depend on an outer range and a range of the sum only through their sum, `place + step * tap`,
as in a convolution of stride 1. Packing the windows would copy each element once for every tap. Instead whole images are copied
(an image is what there is at one setting of the outer ranges before the places), rows that include the padding one after another,
and a vector of a tile is a load that begins anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ..trace import sint
from ..trace.elements import as_node
from ..trace.uop import UOp
from .gemm_axes import Axis, Values
from .gemm_functions import Functions
from .gemm_matrix import Builder, Place, Windows, digits
from .gemm_values import loads
from .gemm_writer import Index
from .linear import linear, replaced
from .nest import size_of


def windows(value: UOp, batch: Axis, outer: Axis, summed: Axis, arrays: Mapping[UOp, int]) -> Windows | None:
    """The windows of a factor: its last outer ranges and its last ranges of the sum, as far as they go in pairs.

    None if there are not more places than elements of a window."""
    places: list[UOp] = []
    taps: list[UOp] = []
    steps: list[int] = []
    padded: list[UOp] = []
    for place, tap in zip(reversed(outer.groups), reversed(summed.groups), strict=False):
        found = _pair(value, place[-1], tap[-1]) if len(place) == len(tap) == 1 else None
        if found is None:
            break
        value, step, under = found
        for into, each in ((places, place[0]), (taps, tap[0]), (padded, under)):
            into.insert(0, each)
        steps.insert(0, step)
    # In the gradient by a convolution's window the places are few, and rows of them no vectors.
    if prod(map(size_of, places)) <= prod(map(size_of, taps)):
        return None
    count = len(places)
    images, channels = outer.groups[:-count], summed.groups[:-count]
    rows = Axis((*images, *channels, *[(each,) for each in padded[:-1]]))
    return Windows(
        prod(Axis(channels).sizes),
        tuple(map(size_of, places)),
        tuple(map(size_of, taps)),
        tuple(steps),
        Values(value, (batch, rows, Axis(((padded[-1],),))), arrays),
    )


def _pair(value: UOp, place: UOp, tap: UOp) -> tuple[UOp, int, UOp] | None:
    """The value with `place + step * tap` as one range, the step, and that range."""
    found = {(form.steps.get(place, 0), form.steps.get(tap, 0)) for form in map(linear, loads(value))} - {
        (0, 0)
    }
    if len(found) > 1:
        return None
    ((one, other),) = found or {(1, 1)}  # of a dilated image, the positions are quotients of the sum
    if one <= 0 or other <= 0 or other % one:
        return None
    step = other // one
    if step >= size_of(place) > 1:  # they do not overlap, as in a matrix, whose rows are so far apart
        return None
    under = sint.Variable(f"{place.arg[0]}.padded", 0, size_of(place) - 1 + step * (size_of(tap) - 1))
    value = replaced(value, {place: as_node(sint.sub(under, sint.mul(step, tap)))})
    return None if {place, tap} & set(sint.variables([value])) else (value, step, under)


def pack_images(g: Functions, w: Windows) -> str:
    """The images to which columns from `first` to `last` belong, a row with its padding after the other."""
    name, lanes, dtype = f"{g.name}.pack_images", g.plan.lanes, g.accumulator
    b, (batch, first, last, *_), (to,) = g.function(name, "batch first last k k_end", "to")
    width, pixels = w.padded[-1], prod(w.places)
    rows = w.image // width
    begin = b.scale(b.binary("udiv", first, pixels), rows)
    end = b.scale(b.binary("udiv", last + (pixels - 1), pixels), rows)
    with b.loop(begin, end, 1) as loop:
        row = b.address(to, b.scale(b.binary("sub", loop.index, begin), width), dtype)
        for at in range(0, width, lanes):
            # The lanes past the row's end are overwritten by the next row.
            mask = g.mask(b, width - at)
            value = w.elements(b, Place(batch, loop.index, Index(None, at), 1, lanes, mask, lanes))
            b.store(value, b.address(row, at, dtype), dtype)
    g.functions[name] = b.text()
    return name


def at_column(b: Builder, w: Windows, column: Index) -> Index:
    """Where in the images the first element of a column is, if they are all there."""
    image, *place = digits(b, column, (1, *w.places))
    return _sum(b, [(image, w.image), *zip(place, w.strides, strict=True)])


def at_tap(b: Builder, w: Windows, tap: Sequence[Index]) -> Index:
    """How much further the element of a channel and a tap is."""
    strides = [step * stride for step, stride in zip(w.steps, w.strides, strict=True)]
    return _sum(b, list(zip(tap, (prod(w.padded), *strides), strict=True)))


def _sum(b: Builder, terms: Sequence[tuple[Index, int]]) -> Index:
    total = Index(None, 0)
    for index, stride in terms:
        total = b.add(total, b.scale(index, stride))
    return total
