"""Collectives: operations along the named axis of a vmap, on what its lanes have.

A node names the axes in `axes`, and keeps that meaning through all transforms until the vmap with the name resolves it: to
reductions, movements and gathers along the batch axis, also where all lanes share the argument. Work on several devices would
resolve it to communication in the same place. Within the function of a vmap the lanes' derivatives are taken together: the
cotangent of a lane's argument is the sum of what all lanes' results make of it. So `psum` is its own transpose, `all_gather`
and `psum_scatter` are each other's, `ppermute`'s is that by the inverse permutation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..dtype import DType
from ..prim import Linear, Primitive, Reduction, Sample, _refusal, broadcast_to_batch, full_like, zeros_like
from ..uop import UOp
from .arithmetic import eq
from .extern import HostFunction, extern
from .indexing import gather
from .movement import broadcast, dimension_size, iota, move_axis, reshape
from .reduction import reduce_max, reduce_min, reduce_sum
from .selection import convert, where
from .slicing import concatenate, slice_

Axes = tuple[Any, ...]


class Collective(Primitive):
    """One argument in each lane of the named axes `axes`, and a result in each."""

    family = "collective"
    params: tuple[str, ...] = ("axes",)

    def axis_names(self, params: dict[str, Any]) -> frozenset[Any]:
        return frozenset(params["axes"])

    def resolve(
        self, size: Any, name: Any, args: Sequence[UOp], batched: Sequence[bool], *, axes: Axes, **params: Any
    ) -> tuple[UOp, bool]:
        """The result for all lanes of the axis of this name, and whether it has a leading axis for them, as the argument may."""
        raise NotImplementedError(f"collective {self.name} can't be computed along an axis")

    def reference(self, *args: Any, axes: Axes, **params: Any) -> Any:
        raise NameError(f"{self.name} over {axes}: there is no vmap of that name around it")

    def samples(self) -> Iterator[Sample]:
        # Alone it has no value: tests/transforms/test_named_axes.py has its tests.
        return iter(())


class Reduced(Collective):
    """An elementwise reduction over the lanes of all the axes, which leaves every lane the same: `along` an axis of an array."""

    along: Reduction

    def out(self, x: Any, *, axes: Axes) -> tuple[DType, tuple[Any, ...]]:
        _check_dtype(self, x, self.along)
        return x.dtype, x.shape

    def shared(self, x: UOp, size: Any) -> UOp:
        """The reduction of what all lanes share."""
        return x

    def resolve(
        self, size: Any, name: Any, args: Sequence[UOp], batched: Sequence[bool], *, axes: Axes, **params: Any
    ) -> tuple[UOp, bool]:
        result = self.along(args[0], axes=(0,)) if batched[0] else self.shared(args[0], size)
        others = tuple([axis for axis in axes if axis != name])
        return (self.node(result, axes=others) if others else result), False

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any) -> UOp:
        return self.node(*args, **params)


class Psum(Reduced, Linear):
    """The sum over the lanes."""

    along = reduce_sum

    def shared(self, x: UOp, size: Any) -> UOp:
        return _times(x, size)

    def transpose(self, ct: UOp, args: Sequence[UOp], index: int, *, axes: Axes) -> UOp:
        return psum(ct, axes=axes)


class Pmax(Reduced):
    """The greatest of the lanes, NaN if there is one; those with it share the derivative equally."""

    along = reduce_max

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], *, axes: Axes) -> UOp | None:
        (tangent,) = tangents
        assert tangent is not None
        chosen = eq(args[0], out)
        count = psum(convert(chosen, dtype=out.dtype), axes=axes)
        share = psum(where(chosen, tangent, zeros_like(tangent)), axes=axes)
        # Not 0 / 0 where the result is a NaN, which equals nothing.
        return share / where(eq(count, zeros_like(count)), full_like(count, 1), count)


class Pmin(Pmax):
    """The least of the lanes, NaN if there is one; those with it share the derivative equally."""

    along = reduce_min


class AllGather(Collective, Linear):
    """What all lanes have, stacked along a new axis `axis` of `count` elements, the same in each lane."""

    params = ("axes", "axis", "count")

    def out(self, x: Any, *, axes: Axes, axis: int, count: Any) -> tuple[DType, tuple[Any, ...]]:
        return x.dtype, (*x.shape[:axis], count, *x.shape[axis:])

    def resolve(
        self, size: Any, name: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any
    ) -> tuple[UOp, bool]:
        stacked = args[0] if batched[0] else broadcast_to_batch(args[0], size)
        return move_axis(stacked, 0, params["axis"]), False

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any) -> UOp:
        return self.node(*args, **{**params, "axis": params["axis"] + 1})

    def transpose(
        self, ct: UOp, args: Sequence[UOp], index: int, *, axes: Axes, axis: int, count: Any
    ) -> UOp:
        return psum_scatter(ct, axes=axes, axis=axis)


class PsumScatter(Collective, Linear):
    """The sum over the lanes, of which each has its own element along `axis`."""

    params = ("axes", "axis")

    def out(self, x: Any, *, axes: Axes, axis: int) -> tuple[DType, tuple[Any, ...]]:
        _check_dtype(self, x, reduce_sum)
        return x.dtype, (*x.shape[:axis], *x.shape[axis + 1 :])

    def resolve(
        self, size: Any, name: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any
    ) -> tuple[UOp, bool]:
        total = reduce_sum(args[0], axes=(0,)) if batched[0] else _times(args[0], size)
        return move_axis(total, params["axis"], 0), True

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any) -> UOp:
        return self.node(*args, **{**params, "axis": params["axis"] + 1})

    def transpose(self, ct: UOp, args: Sequence[UOp], index: int, *, axes: Axes, axis: int) -> UOp:
        return all_gather(ct, axes=axes, axis=axis, count=args[0].shape[axis])


class AllToAll(Collective, Linear):
    """In lane j, stacked along a new axis `concat`, element j along `split` of what each lane has.

    `concat` is counted in the shape without the axis `split`."""

    params = ("axes", "split", "concat")

    def out(self, x: Any, *, axes: Axes, split: int, concat: int) -> tuple[DType, tuple[Any, ...]]:
        rest = (*x.shape[:split], *x.shape[split + 1 :])
        return x.dtype, (*rest[:concat], x.shape[split], *rest[concat:])

    def resolve(
        self, size: Any, name: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any
    ) -> tuple[UOp, bool]:
        x = args[0] if batched[0] else broadcast_to_batch(args[0], size)
        # The axis for the lanes that receive, that for those that send, and the rest.
        return move_axis(move_axis(x, params["split"] + 1, 0), 1, params["concat"] + 1), True

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any) -> UOp:
        moved = {"split": params["split"] + 1, "concat": params["concat"] + 1}
        return self.node(*args, **{**params, **moved})

    def transpose(
        self, ct: UOp, args: Sequence[UOp], index: int, *, axes: Axes, split: int, concat: int
    ) -> UOp:
        return all_to_all(ct, axes=axes, split=concat, concat=split)


class Ppermute(Collective, Linear):
    """In each lane what `perm`, pairs (from, to), sends to it from another one; zeros where nothing is sent to."""

    params = ("axes", "perm")

    def out(self, x: Any, *, axes: Axes, perm: Any) -> tuple[DType, tuple[Any, ...]]:
        return x.dtype, x.shape

    def resolve(
        self, size: Any, name: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any
    ) -> tuple[UOp, bool]:
        (x,), perm = args, params["perm"]
        sources = dict([(to, origin) for origin, to in perm])
        if not batched[0] and len(sources) == size:
            return x, False
        lanes = x if batched[0] else broadcast_to_batch(x, size)
        return _taken(lanes, [sources.get(lane) for lane in range(size)]), True

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any) -> UOp:
        return self.node(*args, **params)

    def transpose(self, ct: UOp, args: Sequence[UOp], index: int, *, axes: Axes, perm: Any) -> UOp:
        return ppermute(ct, axes=axes, perm=tuple([(to, origin) for origin, to in perm]))


class AxisIndex(Collective):
    """The number of the lane: an int32 scalar."""

    def out(self, *, axes: Axes) -> tuple[DType, tuple[Any, ...]]:
        return dtypes.int32, ()

    def resolve(
        self, size: Any, name: Any, args: Sequence[UOp], batched: Sequence[bool], *, axes: Axes, **params: Any
    ) -> tuple[UOp, bool]:
        return iota.node(dtype=dtypes.int32, shape=(size,), axis=0), True


def _check_dtype(collective: Collective, x: Any, reduction: Reduction) -> None:
    """Raise TypeError for a dtype that the reduction does not take."""
    if dtypes.kind(x.dtype) not in reduction.kinds or x.dtype in dtypes.NARROW_FLOATS:
        raise TypeError(_refusal(collective.name, [x], reduction.kinds))


def _times(x: UOp, size: Any) -> UOp:
    """The sum of so many times x."""
    if isinstance(size, int):
        return x * full_like(x, size)
    count = convert(dimension_size.node(size=size, dtype=dtypes.DEFAULT_INT), dtype=x.dtype)
    return x * broadcast(count, shape=x.shape, axes=())


# So many ranges of neighbouring lanes are put together by slices; more are gathered.
_MOST_RANGES = 16


def _taken(lanes: UOp, sources: Sequence[int | None]) -> UOp:
    """An array's elements along its first axis in another order, with zeros where there is None."""
    ranges: list[list[int | None]] = []
    for source in sources:
        last = ranges[-1][-1] if ranges else None
        if ranges and (source is None) == (last is None) and (last is None or source == last + 1):
            ranges[-1].append(source)
        else:
            ranges.append([source])
    rest = lanes.shape[1:]
    if len(ranges) > _MOST_RANGES:
        rows = np.array([-1 if s is None else s for s in sources], np.int32)[:, None]
        described = rows.dtype, rows.shape
        index = extern.node(function=HostFunction("permutation", lambda: rows, lambda: described))
        # A window outside of the operand reads zeros.
        taken = gather(lanes, index, axes=(0,), sizes=(1, *rest), batch_dims=0, mode="fill")
        return reshape(taken, shape=lanes.shape)
    parts = []
    for found in ranges:
        first, count = found[0] or 0, len(found)
        start, limit = (first, *(0,) * len(rest)), (first + count, *rest)
        part = slice_(lanes, start=start, limit=limit, step=(1,) * lanes.ndim)
        parts.append(zeros_like(part) if found[0] is None else part)
    return parts[0] if len(parts) == 1 else concatenate(*parts, axis=0)


psum, pmax, pmin = Psum(), Pmax(), Pmin()
all_gather, psum_scatter, all_to_all = AllGather(), PsumScatter(), AllToAll()
ppermute, axis_index = Ppermute(), AxisIndex()

__all__ = ["all_gather", "all_to_all", "axis_index", "pmax", "pmin", "ppermute", "psum", "psum_scatter"]
