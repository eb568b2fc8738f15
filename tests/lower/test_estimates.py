"""Estimates against counts by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.agreement import by_numpy
from tests.test_primitives import CASES, outputs
from tinyfn.lower.estimates import Estimates, estimate, estimate_host, loops
from tinyfn.lower.group import group
from tinyfn.lower.index import LOAD, load
from tinyfn.lower.nest import Host, Kernel, Nest, Pass, Reduce, Store, result
from tinyfn.lower.program import kernel_name
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import prims, scalar, sint
from tinyfn.trace.array import as_array
from tinyfn.trace.uop import UOp, const, input_node, toposort

F32 = dtypes.float32


def kernels(function: Callable[..., Any], *args: Any) -> list[Kernel]:
    return [step for step in group(tinyfn.jit(function).graph(*args)) if isinstance(step, Kernel)]


def only(function: Callable[..., Any], *args: Any) -> Estimates:
    (kernel,) = kernels(function, *args)
    return estimate(kernel)


def ones(*shape: int, dtype: str = "float32") -> Any:
    return tnp.ones(shape, dtype)


def test_sums_and_symbolic_values() -> None:
    assert Estimates() == (0, 0, 0)
    assert Estimates(1, 2, 3) + Estimates(10, 20, 30) == Estimates(11, 22, 33)
    n = sint.Variable("n", 1, 8)
    both = Estimates(n, 4, sint.mul(n, 2)) + Estimates(n, 0, 1)
    assert both.ops is sint.mul(n, 2) and both.lds == 4
    assert both.simplify() == both
    assert both.at({n: 5}) == Estimates(10, 4, 11)
    with pytest.raises(AttributeError):
        both.ops = 3  # type: ignore[misc]


# What tinygrad's test_uops_stats counts: reads and writes of N elements, once for each array and direction.
@pytest.mark.parametrize(
    "function, args, ops, accesses, distinct",
    [
        (lambda x, y: x + y, (ones(20, 30), ones(20, 30)), 600, 1800, 1800),
        (lambda x: x + 3, (ones(20, 30),), 600, 1200, 1200),
        (lambda x, y: x * y + y, (ones(20, 30), ones(20, 30)), 1200, 1800, 1800),
        (lambda x: x + x, (ones(20, 30),), 600, 1200, 1200),
        (lambda x: x + x.T, (ones(30, 30),), 900, 2700, 1800),
        (lambda x, y: x + y, (ones(20, 30), ones(30)), 600, 1800, 1230),
        (lambda x: tnp.broadcast_to(x, (20, 30)) * 2, (ones(30),), 600, 1200, 630),
        (lambda x: x.T + 1, (ones(20, 30),), 600, 1200, 1200),
        (lambda x: x[:, 3:10] + 1, (ones(20, 30),), 140, 280, 280),
        (lambda x: x[::2, ::3] + 1, (ones(20, 30),), 100, 200, 200),
        (lambda x: x[::-1] + x, (ones(20, 30),), 600, 1800, 1200),
        (lambda x: tnp.where(x > 0, x, 1.0), (ones(20, 30),), 1200, 1200, 1200),
        (lambda x: x.max(1), (ones(20, 30),), 600, 620, 620),
        (lambda x: x.sum(0), (ones(20, 30),), 600, 630, 630),
        # Rows: the mean's division is done once for a row.
        (lambda x: x - x.mean(1, keepdims=True), (ones(20, 30),), 600 + 20 + 600, 1800, 1200),
        # Two sums of one loop.
        (lambda x: (x.sum(1), (x * x).sum(1)), (ones(20, 30),), 600 + 1200, 640, 640),
    ],
    ids=lambda value: "" if callable(value) or isinstance(value, tuple) else str(value),
)
def test_counts_by_hand(
    function: Callable[..., Any], args: tuple[Any, ...], ops: int, accesses: int, distinct: int
) -> None:
    assert only(function, *args) == Estimates(ops, 4 * accesses, 4 * distinct)


def test_dtypes_count_by_their_size_and_casts_are_free() -> None:
    assert only(lambda x: x.astype("float64"), ones(50, dtype="float16")) == Estimates(0, 500, 500)
    # Half adds up in float32; the result is rounded when it is stored.
    assert only(lambda x: x.sum(1), ones(10, 20, dtype="float16")) == Estimates(200, 420, 420)


def test_softmax() -> None:
    rows, columns = 6, 50
    (kernel,) = kernels(lambda x: tinyfn.nn.softmax(x), ones(rows, columns))
    exp = sum(
        2 if node.op is scalar.FMA else node.op not in (scalar.CAST, scalar.BITCAST)
        for node in formula_of_exp()
        if isinstance(node.op, scalar.ScalarOp)
    )
    n = rows * columns
    # max; subtraction, exp, addition; division.
    ops = n + n * (1 + exp + 1) + n
    # Loads of x for max and exp, store and load of the row of exps, store of the result.
    assert estimate(kernel) == Estimates(ops, 4 * 5 * n, 4 * 2 * n)


def formula_of_exp() -> list[UOp]:
    from tinyfn.trace.uop import toposort

    x = input_node(F32, ())
    return toposort([prims.exp.scalar(x)])


def ranges(**sizes: int) -> list[UOp]:
    return [sint.Variable(name, 0, size - 1) for name, size in sizes.items()]


def contraction(m: int, n: int, k: int, before: Callable[[UOp], UOp], after: Callable[[UOp], UOp]) -> Kernel:
    x, y = input_node(F32, (m, k)), input_node(F32, (k, n))
    total = prims.dot_general.node(x, y, contract=((1,), (0,)), batch_axes=((), ()))
    i, j, h = ranges(o0=m, o1=n, i0=k)
    product = scalar.build(scalar.MUL, before(load(x, (i, h))), load(y, (h, j)))
    position = sint.add(sint.mul(i, n), j)
    assert isinstance(position, UOp)
    passes = (
        Pass((h,), (Reduce(total, scalar.ADD, product),), ()),
        Pass((), (), (Store(total, position, after(result(total))),)),
    )
    return Kernel((Nest((i, j), passes, frozenset()),))


def test_a_product_of_matrices() -> None:
    m, n, k = 5, 7, 11
    found = estimate(contraction(m, n, k, lambda e: e, lambda e: e))
    assert found == Estimates(2 * m * n * k, 4 * (2 * m * n * k + m * n), 4 * (m * k + k * n + m * n))


def test_the_name_of_a_product_has_the_sizes_of_its_loops() -> None:
    assert kernel_name(contraction(5, 7, 11, lambda e: e, lambda e: e)) == "dot_5x7x11"


def test_producers_of_a_product_are_computed_once_for_each_element() -> None:
    m, n, k = 5, 7, 11
    fused = contraction(
        m, n, k,
        lambda e: scalar.build(scalar.FMA, e, e, e),
        lambda e: scalar.build(scalar.MAX, e, const(0.0, F32)),
    )  # fmt: skip
    assert estimate(fused).ops == 2 * m * n * k + 2 * m * k + m * n


def masked(size: int, offset: int, total: int) -> Kernel:
    """`size` elements from `offset` on of an array of `total`, zeros elsewhere."""
    x = input_node(F32, (size,))
    (o,) = ranges(o0=total)
    at = sint.sub(o, offset)
    inside = scalar.build(scalar.LT, const(offset - 1, dtypes.int64), o)
    inside = scalar.build(scalar.AND, inside, scalar.build(scalar.LT, o, const(offset + size, dtypes.int64)))
    stored = input_node(F32, (total,))
    return Kernel((Nest((o,), (Pass((), (), (Store(stored, o, load(x, (at,), inside)),)),), frozenset()),))


def test_masked_loads_count_where_they_read() -> None:
    assert estimate(masked(10, 3, 16)) == Estimates(0, 4 * (10 + 16), 4 * (10 + 16))
    assert estimate(masked(10, 0, 10)) == Estimates(0, 4 * 20, 4 * 20)


def window(size: int, width: int) -> Kernel:
    """Sums of `width` neighbours."""
    x, total = input_node(F32, (size,)), input_node(F32, (size - width + 1,))
    o, i = ranges(o0=size - width + 1, i0=width)
    passes = (
        Pass((i,), (Reduce(total, scalar.ADD, load(x, (sint.add(o, i),))),), ()),
        Pass((), (), (Store(total, o, result(total)),)),
    )
    return Kernel((Nest((o,), passes, frozenset()),))


def test_windows_that_overlap_touch_each_element_once() -> None:
    assert estimate(window(20, 3)) == Estimates(54, 4 * (54 + 18), 4 * (20 + 18))


def test_a_gather_reads_its_indices() -> None:
    table, numbers, out = input_node(F32, (1000, 8)), input_node(dtypes.int32, (3,)), input_node(F32, (3, 8))
    o, i = ranges(o0=3, i0=8)
    row = scalar.build(scalar.CAST, load(numbers, (o,)), arg=dtypes.int64)
    row = scalar.build(
        scalar.MIN, scalar.build(scalar.MAX, row, const(0, dtypes.int64)), const(999, dtypes.int64)
    )
    position = sint.add(sint.mul(o, 8), i)
    assert isinstance(position, UOp)
    passes = (Pass((i,), (), (Store(out, position, load(table, (row, i))),)),)
    # Rows by row: the index is read once for a row; no operation is counted, for all of it is index arithmetic.
    assert estimate(Kernel((Nest((o,), passes, frozenset()),))) == Estimates(
        0, 4 * (3 + 24 + 24), 4 * (3 + 24 + 24)
    )


def test_parts_add_up_and_an_array_that_all_read_counts_once() -> None:
    rate = input_node(F32, ())
    parts = []
    for size in (10, 20):
        x, out = input_node(F32, (size,)), input_node(F32, (size,))
        (o,) = ranges(o0=size)
        value = scalar.build(scalar.MUL, load(x, (o,)), load(rate, ()))
        parts.append(Nest((o,), (Pass((), (), (Store(out, o, value),)),), frozenset()))
    found = estimate(Kernel(tuple(parts)))
    # In each part the scalar is loaded once, before the loop; it is one array in memory.
    assert found == Estimates(30, 4 * (30 + 2 + 30), 4 * (30 + 1 + 30))


def test_what_is_run_at_the_end_counts() -> None:
    x, partial, total = input_node(F32, (4, 25)), input_node(F32, (4,)), input_node(F32, ())
    o, i = ranges(o0=4, i0=25)
    (j,) = ranges(i0=4)
    part = Nest(
        (o,),
        (
            Pass((i,), (Reduce(partial, scalar.ADD, load(x, (o, i))),), ()),
            Pass((), (), (Store(partial, o, result(partial)),)),
        ),
        frozenset(),
    )
    zero = const(0, dtypes.int64)
    finish = Nest(
        (),
        (
            Pass((j,), (Reduce(total, scalar.ADD, load(partial, (j,))),), ()),
            Pass((), (), (Store(total, zero, result(total)),)),
        ),
        frozenset(),
    )
    assert estimate(Kernel((part,), (finish,))) == Estimates(
        104, 4 * (100 + 4 + 4 + 1), 4 * (100 + 4 + 4 + 1)
    )


def test_passes_within_passes_are_run_at_each_point() -> None:
    x, inside, outside = input_node(F32, (3, 4, 5)), input_node(F32, (3, 4)), input_node(F32, (3,))
    o, i, j = ranges(o0=3, i0=4, j0=5)
    within = Pass((j,), (Reduce(inside, scalar.ADD, load(x, (o, i, j))),), ())
    square = scalar.build(scalar.MUL, result(inside), result(inside))
    passes = (
        Pass((i,), (Reduce(outside, scalar.ADD, square),), (), (within,)),
        Pass((), (), (Store(outside, o, result(outside)),)),
    )
    assert estimate(Kernel((Nest((o,), passes, frozenset()),))) == Estimates(60 + 12 + 12, 4 * 63, 4 * 63)


def test_calls_of_references_count_their_operands_and_results() -> None:
    (step,) = [s for s in group(tinyfn.jit(lambda x: by_numpy(x)).graph(ones(100))) if isinstance(s, Host)]
    assert estimate_host(step) == Estimates(0, 800, 800)


def elements_touched(kernel: Kernel) -> int | None:
    """Bytes of the elements that a kernel reads, and of those that it writes, one by one; None if that depends on data."""
    touched: dict[tuple[UOp, str], set[int]] = {}
    for nest in (*kernel.parts, *kernel.finish):
        for around, each in loops(nest):
            sizes = [sint.bounds(r)[1] + 1 for r in around]
            points = dict(
                zip(around, np.indices(sizes).reshape(len(sizes), int(np.prod(sizes))), strict=True)
            )

            def every(node: UOp, points: Any = points, count: int = int(np.prod(sizes))) -> np.ndarray:
                return np.broadcast_to(scalar.evaluate([node], points)[0], (count,))

            values = each.values
            accesses = [(n.arg, "read", n.src) for n in toposort(values) if n.op is LOAD]
            accesses += [(s.node, "written", (s.position,)) for s in each.stores]
            for array, direction, (position, *condition) in accesses:
                if array in nest.local:
                    continue
                if any(n.op is LOAD for n in toposort([position, *condition])):
                    return None
                found = every(position)[every(condition[0]).astype(bool)] if condition else every(position)
                touched.setdefault((array, direction), set()).update(found.tolist())
    return sum(len(found) * array.dtype.itemsize for (array, _), found in touched.items())


@pytest.mark.parametrize("name", sorted({case.values[0].name for case in CASES}))
def test_distinct_memory_of_every_primitive(name: str) -> None:
    """It is never more than estimated, and where nothing is skipped by a step or a condition it is what is estimated."""
    for case in CASES:
        primitive, sample = case.values
        if primitive.name != name:
            continue
        graph = tinyfn.jit(outputs(primitive, sample)).graph(*[as_array(a) for a in sample.args])
        for kernel in [step for step in group(graph) if isinstance(step, Kernel)]:
            exact, estimated = elements_touched(kernel), estimate(kernel).mem
            if exact is not None:
                assert exact <= estimated, case.id
                assert exact == estimated or name == "conv_general", case.id
