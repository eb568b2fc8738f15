"""Nests built by hand, compiled under every schedule that fits: passes within passes, gathers, conditions, row buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.lower import pointwise
from tests.lower.compiled import run_kernel
from tinyfn.lower import codegen
from tinyfn.lower.codegen import generate
from tinyfn.lower.group import group
from tinyfn.lower.index import LOAD, load
from tinyfn.lower.nest import Kernel, Nest, Pass, Reduce, Store, result
from tinyfn.lower.target import host_target
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import scalar as s
from tinyfn.trace import sint
from tinyfn.trace.dtype import canonical
from tinyfn.trace.elements import as_node
from tinyfn.trace.uop import UOp, const, input_node, make

Case = tuple[Nest, dict[UOp, np.ndarray]]
CASES: dict[str, Callable[[], Case]] = {}


def case(function: Callable[[], Case]) -> Callable[[], Case]:
    CASES[function.__name__] = function
    return function


def ranges(prefix: str, *sizes: int) -> tuple[UOp, ...]:
    return tuple([sint.Variable(f"{prefix}{i}", 0, n - 1) for i, n in enumerate(sizes)])


def array(*shape: int, dtype: Any = dtypes.float32) -> UOp:
    return input_node(dtype, shape)


def values(*nodes: UOp, low: int = -3, high: int = 3) -> dict[UOp, np.ndarray]:
    rng = np.random.default_rng(0)
    return {n: rng.integers(low, high, n.shape).astype(n.dtype) for n in nodes}


def at(*terms: Any) -> UOp:
    """A position: the sum of terms, each a range or a (range, step)."""
    total: Any = 0
    for term in terms:
        r, step = term if isinstance(term, tuple) else (term, 1)
        total = sint.add(total, sint.mul(r, step))
    return as_node(total)


def add(a: UOp, b: UOp) -> UOp:
    return s.build(s.ADD, a, b)


def mul(a: UOp, b: UOp) -> UOp:
    return s.build(s.MUL, a, b)


def clamped(index: UOp, size: int) -> UOp:
    """Data as an index of an axis."""
    wide = s.build(s.CAST, index, arg=dtypes.int64)
    return sint.minimum(sint.maximum(wide, 0), size - 1)  # type: ignore[return-value]


@case
def row_totals_of_products() -> Case:
    """Passes in passes: at each row an inner sum, whose result is stored and added up over the rows."""
    x, out, total = array(4, 7, 37), array(4, 7), array(4)
    (o,), (i, k) = ranges("o", 4), ranges("i", 7, 37)
    inner = Pass((k,), (Reduce(row := array(4, 7), s.ADD, load(x, (o, i, k))),), ())
    scaled = mul(result(row), const(2, dtypes.float32))
    squares = Reduce(all_ := array(4), s.ADD, mul(result(row), result(row)))
    outer = Pass((i,), (squares,), (Store(out, at((o, 7), i), scaled),), (inner,))
    last = Pass((), (), (Store(total, at(o), result(all_)),))
    return Nest((o,), (outer, last), frozenset()), values(x)


@case
def softmax_like_rows_within_points() -> Case:
    """Two passes within a pass, with a row buffer between them, and one accumulator over all."""
    x, out, total, buffer = array(3, 5, 40), array(3, 5, 40), array(3), array(40)
    (o,), (i, k) = ranges("o", 3), ranges("i", 5, 40)
    high, sum_, all_ = array(3, 5), array(3, 5), array(3)
    element = load(x, (o, i, k))
    first = Pass((k,), (Reduce(high, s.MAX, element),), ())
    shifted = add(element, mul(result(high), const(-1, dtypes.float32)))
    second = Pass((k,), (Reduce(sum_, s.ADD, shifted),), (Store(buffer, at(k), shifted),))
    kept = make(LOAD, (at(k),), buffer, buffer.dtype, ())
    third = Pass((k,), (), (Store(out, at((o, 200), (i, 40), k), add(kept, result(sum_))),))
    rows = Pass((i,), (Reduce(all_, s.ADD, result(sum_)),), (), (first, second, third))
    return Nest(
        (o,), (rows, Pass((), (), (Store(total, at(o), result(all_)),))), frozenset((buffer,))
    ), values(x)


@case
def no_outer_ranges() -> Case:
    x, total = array(6, 33), array()
    i, k = ranges("i", 6, 33)
    row, all_ = array(6), array()
    inner = Pass((k,), (Reduce(row, s.MAX, load(x, (i, k))),), ())
    outer = Pass((i,), (Reduce(all_, s.MUL, add(result(row), const(1, dtypes.float32))),), (), (inner,))
    return Nest((), (outer, Pass((), (), (Store(total, as_node(0), result(all_)),))), frozenset()), values(x)


@case
def gather_of_rows() -> Case:
    """An embedding: which row depends on data that is the same in all lanes."""
    table, indices, out = array(11, 21), array(9, dtype=dtypes.int32), array(9, 21)
    o, k = ranges("o", 9, 21)
    row = clamped(load(indices, (o,)), 11)
    return (
        Nest((o, k), (Pass((), (), (Store(out, at((o, 21), k), load(table, (row, k))),)),), frozenset()),
        values(table) | values(indices, low=-5, high=20),
    )


@case
def gather_of_elements() -> Case:
    """Data that differs between lanes; and a second gather by what the first one found."""
    table, other, indices, out = (
        array(13),
        array(4, dtype=dtypes.int8),
        array(70, dtype=dtypes.int8),
        array(70),
    )
    (o,) = ranges("o", 70)
    first = load(other, (clamped(load(indices, (o,)), 4),))
    value = load(table, (clamped(first, 13),))
    return (
        Nest((o,), (Pass((), (), (Store(out, at(o), value),)),), frozenset()),
        values(table) | values(other, indices, low=-2, high=14),
    )


@case
def sum_of_gathered_rows() -> Case:
    table, indices, out = array(11, 37), array(9, dtype=dtypes.uint8), array(9)
    (o,), (k,) = ranges("o", 9), ranges("i", 37)
    row = clamped(load(indices, (o,)), 11)
    total = array(9)
    passes = (
        Pass((k,), (Reduce(total, s.ADD, load(table, (row, k))),), ()),
        Pass((), (), (Store(out, at(o), result(total)),)),
    )
    return Nest((o,), passes, frozenset()), values(table) | values(indices, low=0, high=14)


@case
def scatter_by_data() -> Case:
    """A permutation of rows, where they are written."""
    x, order, out = array(8, 19), array(8, dtype=dtypes.int64), array(8, 19)
    o, k = ranges("o", 8, 19)
    row = clamped(load(order, (o,)), 8)
    position = as_node(sint.add(sint.mul(row, 19), k))
    arrays = values(x) | {order: np.array([3, 0, 7, 1, 2, 6, 5, 4])}
    return Nest((o, k), (Pass((), (), (Store(out, position, load(x, (o, k))),)),), frozenset()), arrays


def inside(i: Any, low: int, high: int) -> UOp:
    """low <= i < high."""
    below = s.build(s.LT, as_node(i), const(high, dtypes.int64))
    under = s.build(s.LT, as_node(i), const(low, dtypes.int64))
    return s.build(s.AND, below, s.build(s.XOR, under, const(True, dtypes.bool_)))


@case
def padded_ends() -> Case:
    """The condition differs between lanes, and what lies outside is not in memory."""
    x, out = array(23), array(50)
    (o,) = ranges("o", 50)
    value = load(x, (sint.sub(o, 13),), inside(sint.sub(o, 13), 0, 23))
    return Nest((o,), (Pass((), (), (Store(out, at(o), value),)),), frozenset()), values(x)


@case
def padded_rows() -> Case:
    """The condition is the same in all lanes, or differs, along two axes."""
    x, out = array(5, 18), array(9, 25)
    o, k = ranges("o", 9, 25)
    i, j = sint.sub(o, 2), sint.sub(k, 4)
    value = load(x, (i, j), s.build(s.AND, inside(i, 0, 5), inside(j, 0, 18)))
    rows = load(x, (i, 3), inside(i, 0, 5))
    return Nest(
        (o, k), (Pass((), (), (Store(out, at((o, 25), k), add(value, rows)),)),), frozenset()
    ), values(x)


@case
def sums_of_windows() -> Case:
    """A sum of what lies within, of bools and of floats, with strides."""
    x, flags, out = array(40), array(40, dtype=dtypes.bool_), array(21)
    (o,), (k,) = ranges("o", 21), ranges("i", 5)
    index = sint.add(sint.mul(o, 2), sint.sub(k, 2))
    condition = inside(index, 0, 40)
    flag = s.build(s.CAST, load(flags, (index,), condition), arg=dtypes.float32)
    total = array(21)
    passes = (
        Pass((k,), (Reduce(total, s.ADD, add(load(x, (index,), condition), flag)),), ()),
        Pass((), (), (Store(out, at(o), result(total)),)),
    )
    return Nest((o,), passes, frozenset()), values(x) | values(flags, low=0, high=2)


@case
def reversed_rows() -> Case:
    x, out = array(6, 39), array(6, 39)
    o, k = ranges("o", 6, 39)
    return Nest(
        (o, k), (Pass((), (), (Store(out, at((o, 39), k), load(x, (o, sint.sub(38, k)))),)),), frozenset()
    ), values(x)


@case
def written_in_reverse() -> Case:
    x, out = array(6, 39), array(6, 39)
    o, k = ranges("o", 6, 39)
    position = as_node(sint.add(sint.mul(o, 39), sint.sub(38, k)))
    return Nest((o, k), (Pass((), (), (Store(out, position, load(x, (o, k))),)),), frozenset()), values(x)


@case
def columns_with_buffers() -> Case:
    """Points along the lanes, each with a row buffer of its own."""
    x, out, buffer = array(9, 50), array(9, 50), array(9)
    (o,), (k,) = ranges("o", 50), ranges("i", 9)
    total = array(50)
    doubled = mul(load(x, (k, o)), const(2, dtypes.float32))
    kept = make(LOAD, (at(k),), buffer, buffer.dtype, ())
    passes = (
        Pass((k,), (Reduce(total, s.ADD, doubled),), (Store(buffer, at(k), doubled),)),
        Pass((k,), (), (Store(out, at((k, 50), o), add(kept, result(total))),)),
    )
    return Nest((o,), passes, frozenset((buffer,))), values(x)


@case
def transposed_sum() -> Case:
    """A pass whose first range runs through memory, not its last."""
    x, out = array(40, 6), array()
    i, k = ranges("i", 6, 40)
    total = array()
    passes = (
        Pass((i, k), (Reduce(total, s.ADD, load(x, (k, i))),), ()),
        Pass((), (), (Store(out, as_node(0), result(total)),)),
    )
    return Nest((), passes, frozenset()), values(x)


@case
def short_rows() -> Case:
    x, bias, out = array(50, 3), array(3), array(50, 3)
    o, k = ranges("o", 50, 3)
    value = mul(load(x, (o, k)), load(bias, (k,)))
    return Nest((o, k), (Pass((), (), (Store(out, at((o, 3), k), value),)),), frozenset()), values(x, bias)


@case
def much_that_follows_sums() -> Case:
    """What is long, and computed of sums, which the vectors of a block do in a loop; one of the sums is of bools."""
    x, y, out, found = array(9, 150), array(150), array(150), array(150, dtype=dtypes.bool_)
    (o,), (k,) = ranges("o", 150), ranges("i", 9)
    total, some, element = array(150), array(150, dtype=dtypes.bool_), load(x, (k, o))
    two = const(2, dtypes.float32)
    sums = Reduce(total, s.ADD, element), Reduce(some, s.OR, s.build(s.LT, two, element))
    value = add(s.build(s.WHERE, result(some), result(total), two), load(y, (o,)))
    for _ in range(20):
        value = s.build(s.MIN, add(value, two), mul(value, const(-1, dtypes.float32)))
    passes = Pass((k,), sums, ()), Pass((), (), (Store(out, at(o), value), Store(found, at(o), result(some))))
    return Nest((o,), passes, frozenset()), values(x, y, high=4)


@case
def divisions_of_the_lane() -> Case:
    """Positions with quotients and remainders of the range along the lanes."""
    x, y, out = array(3), array(34), array(100)
    (o,) = ranges("o", 100)
    value = add(load(x, (sint.mod(o, 3),)), load(y, (sint.floordiv(o, 3),)))
    return Nest((o,), (Pass((), (), (Store(out, at(o), value),)),), frozenset()), values(x, y)


@pytest.mark.parametrize("vector_bytes", [4, 16, 64])
@pytest.mark.parametrize("name", CASES)
def test_nests_compute_what_they_mean(name: str, vector_bytes: int) -> None:
    nest, arrays = CASES[name]()
    want, got = dict(arrays), dict(arrays)
    pointwise.run(nest, want)
    for pieces in (1, 3):
        for node in nest.stored:
            got[node] = np.full(node.shape, 7, node.dtype)
        run_kernel(Kernel((nest,)), got, pieces, vector_bytes=vector_bytes)
        for node in nest.stored:
            np.testing.assert_array_equal(got[node], want[node])


def test_what_depends_on_no_range_is_computed_once() -> None:
    """Loads and expensive values of what is the same at all points are before all loops, those of a row before the row."""
    x, scale, row, out = array(40, 50), array(), array(40), array(40, 50)
    o, k = ranges("o", 40, 50)
    root = s.build(s.SQRT, load(scale, ()))
    of_row = s.build(s.RECIP, load(row, (o,)))
    value = mul(mul(load(x, (o, k)), root), of_row)
    nest = Nest((o, k), (Pass((), (), (Store(out, at((o, 50), k), value),)),), frozenset())
    ir = generate(Kernel((nest,)), host_target()).ir
    before, loops = ir.split("\nloop", 1)
    assert "llvm.sqrt.f32" in before and "llvm.sqrt.f32" not in loops.split("declare")[0]
    of_rows, of_vectors = loops.split("\nloop", 1)
    assert "fdiv" in of_rows and "fdiv" not in of_vectors


@pytest.mark.parametrize("offset", [0, 4])
@pytest.mark.parametrize("name", CASES)
def test_what_is_large_is_written_past_the_caches(
    monkeypatch: pytest.MonkeyPatch, name: str, offset: int
) -> None:
    """Aligned or not, whatever the schedule; a machine without caches takes every array for large."""
    nest, arrays = CASES[name]()
    want = dict(arrays)
    pointwise.run(nest, want)
    for node in nest.stored:
        memory = np.zeros(node.shape or 1, node.dtype).nbytes
        room = np.zeros(memory + 128, np.uint8)
        begin = -room.ctypes.data % 64 + offset
        arrays[node] = room[begin : begin + memory].view(node.dtype).reshape(node.shape)
    monkeypatch.setattr(codegen, "STREAMED", 0)
    monkeypatch.setattr(codegen, "_functions", {})
    run_kernel(Kernel((nest,)), arrays, 2, l3_bytes=0)
    for node in nest.stored:
        np.testing.assert_array_equal(arrays[node], want[node])


def test_only_what_is_large_and_can_be_aligned_is_written_past_the_caches() -> None:
    def code(columns: int, l3_bytes: int) -> str:
        x, out = array(400, columns), array(400, columns)
        o, k = ranges("o", 400, columns)
        twice = mul(load(x, (o, k)), load(array(columns), (k,)))
        nest = Nest((o, k), (Pass((), (), (Store(out, at((o, columns), k), twice),)),), frozenset())
        return generate(Kernel((nest,)), host_target()._replace(l3_bytes=l3_bytes, vector_bytes=64)).ir

    assert "!nontemporal" in code(64, 1 << 16)
    assert "!nontemporal" not in code(64, 1 << 20)
    assert "!nontemporal" not in code(65, 1 << 16)
    assert "!nontemporal" not in code(16, 0)


def test_what_is_large_may_be_written_in_place() -> None:
    x, out = array(1 << 16), array(1 << 16)
    (o,) = ranges("o", 1 << 16)
    nest = Nest((o,), (Pass((), (), (Store(out, at(o), mul(load(x, (o,)), load(x, (o,)))),)),), frozenset())
    memory = values(x)[x]
    want = memory * memory
    code = run_kernel(Kernel((nest,)), {x: memory, out: memory}, 3, l3_bytes=1)
    assert "!nontemporal" in code.ir
    np.testing.assert_array_equal(memory, want)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64"])
def test_integer_ops_by_constants(dtype: str) -> None:
    """Divisions that round down, remainders and shifts by constants, of numbers of both signs and the ends of the range."""
    kind = np.dtype(dtype)
    info = np.iinfo(kind)
    x = array(70, dtype=canonical(dtype))
    (o,) = ranges("o", 70)
    wide = np.random.default_rng(0).integers(info.min, info.max, 70, kind, endpoint=True)
    wide[:6] = [info.min, info.max, 0, 1, info.min + 1, info.max - 1]
    stores = []
    for op in (s.IDIV, s.MOD):
        for amount in (1, 2, 3, 8, 7, 64, *((-1, -2, -8) if info.min < 0 else ())):
            out = array(70, dtype=x.dtype)
            stores.append(Store(out, at(o), s.build(op, load(x, (o,)), const(amount, x.dtype))))
    for op in (s.SHL, s.SHR):
        for amount in (0, 1, info.bits - 1, info.bits, 100):
            out = array(70, dtype=x.dtype)
            stores.append(Store(out, at(o), s.build(op, load(x, (o,)), const(amount, x.dtype))))
    nest = Nest((o,), (Pass((), (), tuple(stores)),), frozenset())
    want, got = {x: wide}, {x: wide}
    pointwise.run(nest, want)
    run_kernel(Kernel((nest,)), got)
    for store in stores:
        np.testing.assert_array_equal(got[store.node], want[store.node], err_msg=str(store.value))


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("columns", [2, 3, 5, 6, 7, 8, 9])
def test_short_rows_beside_a_bias(columns: int, vector_bytes: int) -> None:
    """What is walked in order is, however short its rows; what repeats is read before the loop."""
    import tinyfn
    import tinyfn.numpy as tnp

    x = np.random.default_rng(0).integers(-9, 9, (37, columns)).astype(np.float32)
    bias, scale = x[0] + 1, x[:, :1].copy()
    for function, arguments, flat in [
        (lambda x, b: x * b + x, (x, bias), True),
        (lambda x, b: x * b + x, (x, scale), False),
        (lambda x: x * tnp.arange(columns), (x,), False),
    ]:
        graph = tinyfn.jit(function).graph(*map(tnp.asarray, arguments))  # type: ignore[operator]
        (step,) = group(graph)
        assert isinstance(step, Kernel)
        assert (len(step.parts[0].outer) == 1) == (flat and columns <= 8)
        got: dict[UOp, np.ndarray] = dict(zip(graph.inputs, arguments, strict=True))  # type: ignore[call-overload]
        run_kernel(step, got, 2, vector_bytes=vector_bytes)
        (want,) = graph.run(list(arguments))  # type: ignore[call-overload]
        np.testing.assert_array_equal(got[graph.outputs[0]], np.asarray(want))
