"""Which nests are contractions: a sum of products of two factors, neither of which depends on all outer ranges.

The outer ranges that both factors depend on count matrices of a batch, those of the left factor alone rows, the others columns;
the inner ranges are summed over. What makes code of that (`gemm_nest`) is loaded for the first such nest."""

from __future__ import annotations

from typing import NamedTuple

from ..trace import dtype as dtypes
from ..trace import scalar as s
from ..trace import sint
from ..trace.elements import as_node
from ..trace.uop import UOp, toposort
from .linear import replaced
from .nest import Nest, Store, is_symbolic, size_of


class Form(NamedTuple):
    """A contraction: ranges by what they count, the two factors, and what is stored of their sums of products."""

    batch: tuple[UOp, ...]
    rows: tuple[UOp, ...]
    columns: tuple[UOp, ...]
    summed: tuple[UOp, ...]
    left: UOp
    right: UOp
    node: UOp  # the reduction
    stores: tuple[Store, ...]


_MULTIPLIED = frozenset(t for t in (*dtypes.FLOATS, *dtypes.INTEGERS) if t.itemsize >= 4)


def match(nest: Nest) -> Form | None:
    """The nest as a contraction, or None if it is not one for this generator.

    It is one if it adds up products, in a dtype of 32 or 64 bits, whose factors do not both depend on all outer ranges."""
    if len(nest.passes) != 2 or nest.local:
        return None
    first, last = nest.passes
    if (
        first.stores
        or first.passes
        or last.inner
        or last.reductions
        or last.passes
        or len(first.reductions) != 1
    ):
        return None
    ((node, op, value),) = first.reductions
    if op is not s.ADD or value.op is not s.MUL or value.dtype not in _MULTIPLIED:
        return None
    outer, stores = nest.outer, last.stores
    left, right = value.src
    nodes = [toposort([factor]) for factor in (left, right)]
    divided = {n.src[0] for each in nodes for n in each if n.op is s.IDIV}
    for r in outer:
        parts = _split(r, left, right) if r in divided and not is_symbolic(r) else None
        if parts is not None:
            outer = tuple([each for o in outer for each in (parts[1] if o is r else (o,))])
            left, right = (replaced(factor, parts[0]) for factor in (left, right))
            nodes = [toposort([factor]) for factor in (left, right)]
            stores = tuple([Store(n, *[replaced(e, parts[0]) for e in (at, v)]) for n, at, v in stores])
    in_left, in_right = map(set, nodes)
    batch = tuple([r for r in outer if r in in_left and r in in_right])
    columns = tuple([r for r in outer if r in in_right and r not in in_left])
    rows = tuple([r for r in outer if r not in in_right])
    if not rows and not columns:
        return None
    return Form(batch, rows, columns, first.inner, left, right, node, stores)


def _split(r: UOp, left: UOp, right: UOp) -> tuple[dict[UOp, UOp], tuple[UOp, UOp]] | None:
    """Two ranges for one that counts members of groups, if a factor depends only on the group."""
    uses = [[n for n in toposort([factor]) if r in n.src] for factor in (left, right)]
    if not all(uses):
        return None
    for users in uses:
        divisors = {n.src[1] for n in users if n.op is s.IDIV and n.src[0] is r}
        if len(divisors) == 1 and all(n.op is s.IDIV for n in users):
            size = sint.bounds(divisors.pop())[0]
            if 1 < size < size_of(r) and size_of(r) % size == 0:
                high = sint.Variable(f"{r.arg[0]}.group", 0, size_of(r) // size - 1)
                low = sint.Variable(f"{r.arg[0]}.member", 0, size - 1)
                return {r: as_node(sint.add(sint.mul(high, size), low))}, (high, low)
    return None


def oriented(form: Form) -> Form | None:
    """The form with symbolic sizes where they can be: those of the slowest batch, row and summed ranges, and of no columns."""
    ranges = (*form.batch, *form.rows, *form.columns, *form.summed)
    if not any(map(is_symbolic, ranges)):
        return form
    if any(map(is_symbolic, form.columns)):
        form = form._replace(rows=form.columns, columns=form.rows, left=form.right, right=form.left)
    form = form._replace(
        batch=tuple(sorted(form.batch, key=lambda r: not is_symbolic(r))),
        rows=tuple(sorted(form.rows, key=lambda r: not is_symbolic(r))),
    )
    fixed = (*form.batch[1:], *form.rows[1:], *form.columns, *form.summed[1:])
    return None if any(map(is_symbolic, fixed)) else form
