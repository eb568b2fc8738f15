"""Contractions (`gemm_form`) as work for the generator of matrix products.

A factor that is an element in memory, at a position with one stride along rows and one along
the sum, is read where it is. Any other is a producer: an expression that is evaluated where the factor is packed. Likewise what
is stored is an epilogue, evaluated where a tile of sums is finished, unless it is the sums alone at such a position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..trace import dtype as dtypes
from ..trace import scalar as s
from ..trace import sint
from ..trace.dtype import DType
from ..trace.sint import Dimension
from ..trace.uop import UOp, toposort
from .function import GRAIN, Function
from .gemm import generate as generate_kernel
from .gemm_axes import Axis, Values, at_place, group_ranges, indices, run_time
from .gemm_form import Form
from .gemm_matrix import Builder, Contraction, Matrix, Place, Producer, TransposedProducer
from .gemm_plan import CALL_PRODUCTS, Plan
from .gemm_values import APART
from .gemm_windows import windows
from .gemm_writer import TYPES, Index, Value
from .index import LOAD
from .linear import Linear, linear
from .nest import is_symbolic, result, size_of
from .opts import Opt
from .target import Target


class _Factor(NamedTuple):
    """A factor with its two axes: outer (rows or columns) and summed."""

    value: UOp
    outer: Axis
    summed: Axis
    uses: list[Linear]


def contraction(form: Form, arrays: Sequence[UOp]) -> Contraction:
    """The work of a form, on these arguments."""
    slots = {array: i for i, array in enumerate(arrays)}
    wide = _accumulator(form)
    left, right = (
        _Factor(value, group_ranges(outer, uses), group_ranges(form.summed, uses), uses)
        for value, outer in ((form.left, form.rows), (form.right, form.columns))
        for uses in [[linear(i) for i in indices([value])]]
    )
    stored = [linear(i) for i in indices([e for store in form.stores for e in (store.value, store.position)])]
    stored += [linear(store.position) for store in form.stores]
    batch = group_ranges(form.batch, [*left.uses, *right.uses, *stored])
    rows, columns = group_ranges(form.rows, stored), group_ranges(form.columns, stored)
    a, produce_a = _operand(left, batch, slots, wide, form.node)
    b, produce_b = _operand(right, batch, slots, wide, form.node)
    c = _target(form, batch, rows, columns, slots)
    m, n, k = (_extent(ranges) for ranges in (form.rows, form.columns, form.summed))
    # The factors may be casts of what is in memory, to a dtype that is wider than its sums would be.
    work = Contraction(m, n, k, a, b.transposed, c, batch.sizes, producer_a=produce_a, sums=wide)
    if any(map(is_symbolic, form.rows)):
        work = work._replace(open_rows=_Extent(form.rows, slots))
    if any(map(is_symbolic, form.summed)):
        work = work._replace(open_sum=_Extent(form.summed, slots))
    if produce_b is not None:
        work = work._replace(producer_b=TransposedProducer(produce_b))
    if _is_plain(form, c, rows, columns):
        if work.open_rows is None:
            return work
        # What finishes a tile may be of fewer rows, which a plain store is not.
        return work._replace(epilogue=lambda builder, place, value: value, scratch=True)
    known = result(form.node)

    def finish(builder: Builder, place: Place, value: Value) -> None:
        value = builder.convert(value, wide, form.node.dtype, place.lanes)
        axes = batch, rows, columns
        at_place(builder, slots, axes, place, {known: value}, lambda e: e.store(form.stores))

    return work._replace(epilogue=finish, scratch=True)


class _Extent:
    """The number of points of ranges, at run time."""

    def __init__(self, ranges: Sequence[UOp], slots: Mapping[UOp, int]) -> None:
        self._size, self._slots = sint.prod(map(sint.extent, ranges)), slots

    def __call__(self, builder: Builder) -> Index:
        return run_time(builder, self._slots, self._size)


def _accumulator(form: Form) -> DType:
    return form.left.dtype


def _extent(ranges: Sequence[UOp]) -> int:
    total = 1
    for r in ranges:
        total *= size_of(r)
    return total


def _step(form: Linear, axis: Axis) -> int:
    """The step along an axis of at most one group."""
    return form.steps.get(axis.groups[-1][-1], 0) if axis.groups else 0


def _operand(
    factor: _Factor, batch: Axis, slots: dict[UOp, int], wide: DType, node: UOp
) -> tuple[Matrix, Producer | None]:
    """A factor as a matrix of its outer axis by the summed one, and a producer unless it is read as it is in memory."""
    value = factor.value
    load = value.src[0] if value.op is s.CAST else value
    if (
        load.op is LOAD
        and len(load.src) == 1
        and len(factor.outer.groups) <= 1
        and len(factor.summed.groups) <= 1
    ):
        at = linear(load.src[0])
        plain = load.dtype in TYPES and dtypes.is_float(load.dtype) == dtypes.is_float(wide)
        if plain and at.is_all:
            strides = tuple([at.steps.get(group[-1], 0) for group in batch.groups])
            steps = _step(at, factor.outer), _step(at, factor.summed)
            return Matrix(slots[load.arg], load.dtype, *steps, strides, at.constant), None
    axes = (batch, factor.outer, factor.summed)
    symbolic = any(is_symbolic(r) for axis in axes for group in axis.groups for r in group)
    producer = Values(value, axes, slots, None if symbolic else windows(value, *axes, slots))
    return Matrix(0, wide, *_hint(factor), ()), producer


def _hint(factor: _Factor) -> tuple[int, int]:
    """Strides that say along which axis vectors of a producer are best made: where the longest runs of near elements are."""
    best = (0.0, 2, 1)
    for load in toposort([factor.value]):
        if load.op is LOAD:
            at = linear(load.src[0])
            runs = [_run(at, axis) for axis in (factor.outer, factor.summed)]
            if max(runs) > best[0]:
                best = (max(runs), 1, 2) if runs[0] > runs[1] else (max(runs), 2, 1)
    return best[1:]


def _run(at: Linear, axis: Axis) -> float:
    """How many elements follow each other along an axis, counting those that are a few apart for less."""
    step = abs(at.steps.get(axis.groups[-1][-1], 0)) if axis.groups else 0
    return axis.sizes[-1] / step if 0 < step <= APART else 0


def _target(form: Form, batch: Axis, rows: Axis, columns: Axis, slots: dict[UOp, int]) -> Matrix:
    """Where the first of the stores writes; the strides are those of the fastest ranges."""
    store = form.stores[0]
    at = linear(store.position)
    strides = tuple([at.steps.get(group[-1], 0) for group in batch.groups])
    dtype = form.node.dtype if store.value.op is not s.CAST else store.node.dtype
    dtype = dtype if dtype in TYPES else _accumulator(form)
    return Matrix(slots[store.node], dtype, _step(at, rows), _step(at, columns), strides, at.constant)


def _is_plain(form: Form, c: Matrix, rows: Axis, columns: Axis) -> bool:
    """Whether the sums alone are stored, in a matrix."""
    if len(form.stores) != 1 or form.stores[0].value is not result(form.node):
        return False
    return (
        linear(form.stores[0].position).is_all
        and len(rows.groups) <= 1
        and len(columns.groups) <= 1
        and c.dtype is form.stores[0].node.dtype
    )


def generate(
    form: Form, arrays: Sequence[UOp], target: Target, opts: Sequence[Opt] | None = None
) -> Function:
    """The code of a contraction; by the heuristic's opts unless others are given."""
    kernel = generate_kernel("kernel", contraction(form, arrays), target, opts)
    # A call packs for all its points, so that calls are few: their number is the plan's and not that of the work.
    work = GRAIN * kernel.plan.chunks // kernel.plan.grain
    return Function(kernel.ir, *_amount(form, kernel.plan, work), kernel.opts)


def _amount(form: Form, plan: Plan, work: int) -> tuple[Dimension, Dimension]:
    """The points of a kernel and its work, which for symbolic sizes follow the rules of the plan."""
    outer = (*form.batch, *form.rows)
    if not any(map(is_symbolic, (*outer, *form.summed))):
        return plan.chunks, work
    pieces: Dimension = plan.pieces
    if any(map(is_symbolic, form.rows)):
        rows = sint.prod(map(sint.extent, form.rows))
        pieces = sint.floordiv(sint.add(rows, plan.piece - 1), plan.piece)
    products = sint.prod(map(sint.extent, (*outer, *form.columns, *form.summed)))
    calls = sint.minimum(plan.calls, sint.floordiv(products, CALL_PRODUCTS))
    points = sint.mul(sint.prod(map(sint.extent, form.batch)), pieces)
    return points, sint.mul(GRAIN, sint.maximum(1, calls))
