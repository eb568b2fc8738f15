"""gather and scatter: reading and writing windows of an array at positions that are themselves data.

Both have leading `batch_dims` axes in common between operand, indices and updates. The last axis of the indices lists
one position for each of the operand's `axes`; the other axes of the indices enumerate windows. A window extends over
all axes of the operand that are not batch axes, by `sizes`:

    operand  batch + axes of the operand (window `sizes` fit within)
    indices  batch + windows + (len(axes),)
    result of gather, updates of scatter:   batch + windows + sizes

The transpose of gather is scatter-add, that of scatter-add in its updates is gather, and mapping either over a batch
gives one of the same kind: so these two close the set. A window that is not within the operand is moved within it in mode
"clip"; in mode "fill" gather reads zeros for all of it and scatter drops it. Windows are written in order, the last wins.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from .. import dtype as dtypes
from .. import elements as e
from .. import scalar, sint
from ..prim import (
    Sample,
    add_tangents,
    broadcast_to_batch,
    full,
    full_like,
    instantiate,
    spell,
    zeros_like,
)
from ..uop import UOp, const
from .arithmetic import mul
from .comparison import eq, ge
from .movement import iota, move_axis, reshape
from .selection import convert, where
from .windows import MODES, _cases, _numbers, _Windows


class Gather(_Windows):
    """The windows of the operand at the indices' positions; see the module's docstring."""

    params = ("axes", "sizes", "batch_dims", "mode")
    work = 4

    def out(self, operand: Any, indices: Any, *, axes: Any, sizes: Any, batch_dims: int, mode: str) -> Any:
        self._check(operand, indices, axes, sizes, batch_dims, mode)
        return operand.dtype, (*indices.shape[:-1], *sizes)

    def element(self, node: UOp, index: e.Index, condition: UOp | None) -> e.Rule:
        count = node.src[1].ndim - 1
        starts, inside = yield from self._windows(node, index[:count], condition)
        moved = tuple([sint.add(start, i) for start, i in zip(starts, index[count:], strict=True)])
        (value,) = yield [(node.src[0], (*index[: node.params["batch_dims"]], *moved), condition)]
        if node.params["mode"] == "clip" or inside is True:
            return value
        return scalar.build(scalar.WHERE, e.condition_node(inside), value, const(0, node.dtype))

    def reference(
        self, operand: Any, indices: Any, *, axes: Any, sizes: Any, batch_dims: int, mode: str
    ) -> Any:
        operand, indices = np.asarray(operand), np.asarray(indices)
        if (
            len(axes) == 1
            and batch_dims == 0
            and sizes[axes[0]] == 1
            and sizes[: axes[0]] == operand.shape[: axes[0]] == ()
        ):
            if sizes[1:] == operand.shape[1:] and operand.shape[0] > 0:
                return self._take_rows(operand, indices[..., 0], mode)
        flat, inside = self._elements(operand.shape, indices, axes, sizes, batch_dims, mode)
        if operand.size == 0:
            return np.zeros(flat.shape, operand.dtype)
        values = operand.reshape(-1)[flat]
        return values if mode == "clip" else np.where(inside, values, np.zeros((), operand.dtype))

    def _take_rows(self, operand: Any, rows: Any, mode: str) -> Any:
        """Whole rows, as an embedding reads them, without computing the position of each element."""
        values = np.take(operand, rows, axis=0, mode="clip")[(slice(None),) * rows.ndim + (None,)]
        inside = (rows >= 0) & (rows < operand.shape[0])
        if mode == "clip" or inside.all():
            return values
        return np.where(
            inside.reshape((*rows.shape, *[1] * operand.ndim)), values, np.zeros((), operand.dtype)
        )

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], **params: Any) -> UOp | None:
        return None if tangents[0] is None else gather(tangents[0], args[1], **params)

    def vjp(
        self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool], **params: Any
    ) -> list[UOp | None]:
        operand, indices = args
        return [scatter(zeros_like(operand), indices, ct, kind="add", **params), None]

    def batch(
        self,
        size: Any,
        args: Sequence[UOp],
        batched: Sequence[bool],
        *,
        axes: Any,
        sizes: Any,
        batch_dims: int,
        mode: str,
    ) -> UOp:
        operand, indices = args
        if batched[0] and batched[1]:
            axes = tuple([axis + 1 for axis in axes])
            return gather(operand, indices, axes=axes, sizes=sizes, batch_dims=batch_dims + 1, mode=mode)
        if batched[0]:
            # The batch axis becomes one more axis of the window, after the axes that operand and indices share.
            operand = move_axis(operand, 0, batch_dims)
            axes, sizes = tuple([axis + 1 for axis in axes]), (size, *sizes)
            result = gather(operand, indices, axes=axes, sizes=sizes, batch_dims=batch_dims, mode=mode)
            return move_axis(result, indices.ndim - 1, 0)
        # The batch axis becomes one more axis that enumerates windows.
        indices = move_axis(indices, 0, batch_dims)
        result = gather(operand, indices, axes=axes, sizes=sizes, batch_dims=batch_dims, mode=mode)
        return move_axis(result, batch_dims, 0)

    def samples(self) -> Iterator[Sample]:
        for shape, index, params in _cases():
            for mode in MODES:
                yield Sample((_numbers(shape, np.float32), index), {**params, "mode": mode})
        shape, index, params = next(iter(_cases()))
        for dtype in dtypes.MOVED:
            yield Sample((_numbers(shape, dtype), index), {**params, "mode": "clip"})
        for dtype in dtypes.INTEGERS:
            yield Sample(
                (_numbers(shape, np.float32), np.abs(index).astype(dtype)), {**params, "mode": "fill"}
            )


_NEUTRAL = {"set": None, "add": 0, "mul": 1, "min": None, "max": None}


class Scatter(_Windows):
    """The operand with windows set to the updates, or combined with them ("add", "mul", "min", "max"), in order."""

    params = ("axes", "sizes", "batch_dims", "mode", "kind")
    work = 8

    def out(
        self,
        operand: Any,
        indices: Any,
        updates: Any,
        *,
        axes: Any,
        sizes: Any,
        batch_dims: int,
        mode: str,
        kind: str,
    ) -> Any:
        self._check(operand, indices, axes, sizes, batch_dims, mode)
        if kind not in _NEUTRAL:
            raise ValueError(f"scatter of kind {kind!r}: choose one of {tuple(_NEUTRAL)}")
        if kind != "set" and operand.dtype is dtypes.key:
            raise TypeError(f"scatter of kind {kind!r} does not accept {spell([operand])}")
        if updates.dtype is not operand.dtype or updates.shape != (*indices.shape[:-1], *sizes):
            needed = dtypes.describe(operand.dtype, (*indices.shape[:-1], *sizes))
            raise TypeError(
                f"scatter into {spell([operand, indices])} needs updates {needed}, not {spell([updates])}"
            )
        return operand.dtype, operand.shape

    def element(self, node: UOp, index: e.Index, condition: UOp | None) -> e.Rule:
        """Of a single window: each element of the operand is within it or not."""
        operand, indices, updates = node.src
        batch_dims, sizes, kind = (node.params[name] for name in ("batch_dims", "sizes", "kind"))
        window = (*index[:batch_dims], *[0] * (indices.ndim - 1 - batch_dims))
        starts, inside = yield from self._windows(node, window, condition)
        offsets = [sint.sub(i, start) for start, i in zip(starts, index[batch_dims:], strict=True)]
        conditions = [
            c for at, n in zip(offsets, sizes, strict=True) for c in (e.at_most(0, at), e.at_most(at, n - 1))
        ]
        within = e.conjunction(conditions if node.params["mode"] == "clip" else [*conditions, inside])
        if within is False:
            (value,) = yield [(operand, index, condition)]
            return value
        mask = e.condition_node(within)
        value, update = yield [
            (operand, index, condition),
            (updates, (*window, *offsets), condition if within is True else e.both(condition, mask)),
        ]
        combine = {"add": scalar.ADD, "mul": scalar.MUL, "min": scalar.MIN, "max": scalar.MAX}.get(kind)
        changed = update if combine is None else scalar.build(combine, value, update)
        return scalar.build(scalar.WHERE, mask, changed, value)

    def step(
        self, node: UOp, window: e.Index, offsets: e.Index
    ) -> Generator[list[e.Request], list[UOp], tuple[e.Index, UOp]]:
        """Of many windows, one after another: which element of the result the window's element at these offsets changes, and what
        it becomes, by what it was and the update. A window that is dropped leaves elements as they are."""
        updates, batch_dims, kind = node.src[2], node.params["batch_dims"], node.params["kind"]
        starts, inside = yield from self._windows(node, window, None)
        moved = [sint.add(start, i) for start, i in zip(starts, offsets, strict=True)]
        at = (*window[:batch_dims], *moved)
        before, update = yield [(node, at, None), (updates, (*window, *offsets), None)]
        combine = {"add": scalar.ADD, "mul": scalar.MUL, "min": scalar.MIN, "max": scalar.MAX}.get(kind)
        changed = update if combine is None else scalar.build(combine, before, update)
        if node.params["mode"] == "clip" or inside is True:
            return at, changed
        return at, scalar.build(scalar.WHERE, e.condition_node(inside), changed, before)

    def decomposition(self, operand: UOp, indices: UOp, updates: UOp, **params: Any) -> UOp | None:
        """Half precision is combined in float32 and rounded once; bools are set as bytes."""
        is_set, wide = params["kind"] == "set", operand.dtype
        if dtypes.is_float(wide) and not is_set:
            wide = dtypes.accumulator(wide)
        if wide is dtypes.bool_ and is_set:
            wide = dtypes.uint8
        if wide is operand.dtype or self.has_element(self.node(operand, indices, updates, **params)):
            return None
        found = scatter(convert(operand, dtype=wide), indices, convert(updates, dtype=wide), **params)
        return convert(found, dtype=operand.dtype)

    def has_element(self, node: UOp) -> bool:
        indices, batch_dims = node.src[1], node.params["batch_dims"]
        return all(n == 1 for n in indices.shape[batch_dims:-1]) and node.dtype is not dtypes.bool_

    def reference(
        self,
        operand: Any,
        indices: Any,
        updates: Any,
        *,
        axes: Any,
        sizes: Any,
        batch_dims: int,
        mode: str,
        kind: str,
    ) -> Any:
        operand, indices, updates = np.asarray(operand), np.asarray(indices), np.asarray(updates)
        values = updates.reshape(-1)
        if operand.ndim == 1 and sizes == (1,) and len(axes) == 1 and indices.dtype != np.uint64:
            # Single elements of a vector, as in a histogram: the indices are the positions.
            positions = indices.reshape(-1)
            outside = bool(positions.size) and not (0 <= positions.min() and positions.max() < operand.size)
            if outside and mode == "clip":
                positions = np.clip(positions.astype(np.int64), 0, operand.size - 1)
            elif outside:
                inside = (positions >= 0) & (positions < operand.size)
                positions, values = positions[inside], values[inside]
        else:
            flat, within = self._elements(operand.shape, indices, axes, sizes, batch_dims, mode)
            positions = flat.reshape(-1)
            if mode == "fill":
                keep = within.reshape(-1)
                positions, values = positions[keep], values[keep]
        if operand.size == 0 or positions.size == 0:
            return operand.copy()
        dtype = operand.dtype
        # Half precision sums are accumulated in float32; ml_dtypes' types lack some of the in-place ufuncs as well.
        wide = dtypes.accumulator(dtype) if dtypes.is_float(dtype) else dtype
        result = np.array(operand, wide).reshape(-1)
        if kind == "set":
            result[positions] = values
        else:
            ufunc = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[kind]
            ufunc.at(result, positions, values.astype(wide))
        return result.reshape(operand.shape).astype(dtype)

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], **params: Any) -> UOp | None:
        operand, indices, updates = args
        t_operand, _, t_updates = tangents
        kind = params["kind"]
        if kind == "add":
            return scatter(
                instantiate(t_operand, operand), indices, instantiate(t_updates, updates), **params
            )
        where_at = {name: params[name] for name in ("axes", "sizes", "batch_dims", "mode")}
        keeps, wins = self._shares(out, args, **params)
        terms: list[UOp | None] = []
        if t_operand is not None:
            terms.append(mul(t_operand, keeps))
        if t_updates is not None:
            terms.append(scatter(zeros_like(operand), indices, mul(t_updates, wins), kind="add", **where_at))
        return add_tangents(terms)

    def vjp(
        self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool], **params: Any
    ) -> list[UOp | None]:
        indices = args[1]
        where_at = {name: params[name] for name in ("axes", "sizes", "batch_dims", "mode")}
        if params["kind"] == "add":
            return [ct, None, gather(ct, indices, **where_at) if needs[2] else None]
        keeps, wins = self._shares(out, args, **params)
        return [
            mul(ct, keeps) if needs[0] else None,
            None,
            mul(gather(ct, indices, **where_at), wins) if needs[2] else None,
        ]

    def _shares(
        self, out: UOp, args: Sequence[UOp], *, axes: Any, sizes: Any, batch_dims: int, mode: str, kind: str
    ) -> tuple[UOp, UOp]:
        """The derivatives of each element of the result in the operand's element there, and in each update."""
        operand, indices, updates = args
        at = {"axes": axes, "sizes": sizes, "batch_dims": batch_dims, "mode": mode}
        if kind == "set":
            # Number the update elements from 1; the number that is left in the result is that of the one that won.
            count = prod(updates.shape)
            numbers = (
                reshape(iota.node(dtype=dtypes.int32, shape=(count,), axis=0), shape=updates.shape)
                if count
                else full(0, dtypes.int32, updates.shape)
            )
            numbers = numbers + full_like(numbers, 1)
            winner = scatter(full(0, dtypes.int32, operand.shape), indices, numbers, kind="set", **at)
            keeps = convert(eq(winner, zeros_like(winner)), dtype=operand.dtype)
            wins = convert(eq(gather(winner, indices, **at), numbers), dtype=operand.dtype)
            return keeps, wins
        if kind == "mul":
            # The product of all others: of the factors that are not zero, over mine; zero if another factor is zero.
            one_operand, one_updates = full_like(operand, 1), full_like(updates, 1)
            zero_operand, zero_updates = eq(operand, zeros_like(operand)), eq(updates, zeros_like(updates))
            mine_operand = where(zero_operand, one_operand, operand)
            mine_updates = where(zero_updates, one_updates, updates)
            product = scatter(mine_operand, indices, mine_updates, kind="mul", **at)
            zeros = scatter(_count(zero_operand), indices, _count(zero_updates), kind="add", **at)
            keeps = where(eq(zeros, _count(zero_operand)), product / mine_operand, zeros_like(operand))
            zeros_at, product_at = gather(zeros, indices, **at), gather(product, indices, **at)
            wins = where(eq(zeros_at, _count(zero_updates)), product_at / mine_updates, zeros_like(updates))
            return keeps, wins
        # min and max: those equal to the result share the derivative equally.
        ties_operand = convert(eq(operand, out), dtype=operand.dtype)
        ties_updates = convert(eq(updates, gather(out, indices, **at)), dtype=operand.dtype)
        count_ties = scatter(ties_operand, indices, ties_updates, kind="add", **at)
        count_ties = where(ge(count_ties, full_like(count_ties, 1)), count_ties, full_like(count_ties, 1))
        return ties_operand / count_ties, ties_updates / gather(count_ties, indices, **{**at, "mode": "clip"})

    def batch(
        self,
        size: Any,
        args: Sequence[UOp],
        batched: Sequence[bool],
        *,
        axes: Any,
        sizes: Any,
        batch_dims: int,
        mode: str,
        kind: str,
    ) -> UOp:
        operand, indices, updates = (
            a if is_batched else broadcast_to_batch(a, size)
            for a, is_batched in zip(args, batched, strict=True)
        )
        axes = tuple([axis + 1 for axis in axes])
        return scatter(
            operand, indices, updates, axes=axes, sizes=sizes, batch_dims=batch_dims + 1, mode=mode, kind=kind
        )

    def samples(self) -> Iterator[Sample]:
        for shape, index, params in _cases():
            updates = 0.3 + _numbers((*index.shape[:-1], *params["sizes"]), np.float32)
            for kind in _NEUTRAL:
                for mode in MODES:
                    yield Sample(
                        (_numbers(shape, np.float32) + 1, index, updates),
                        {**params, "mode": mode, "kind": kind},
                    )
        shape, index, params = next(iter(_cases()))
        for dtype in (*dtypes.INTEGERS, *dtypes.FLOATS):
            for kind in _NEUTRAL:
                updates = _numbers((*index.shape[:-1], *params["sizes"]), dtype)
                yield Sample(
                    (_numbers(shape, dtype), index, updates), {**params, "mode": "fill", "kind": kind}, False
                )


def _count(condition: UOp) -> UOp:
    return convert(condition, dtype=dtypes.int32)


gather, scatter = Gather(), Scatter()
