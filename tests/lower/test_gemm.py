"""Contractions: every plan on every layout gives what float64 NumPy gives, and the same bits however it is divided."""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Sequence
from itertools import pairwise
from math import lcm
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyfn.devices import cpu
from tinyfn.lower import gemm, gemm_heuristic
from tinyfn.lower.gemm import Kernel
from tinyfn.lower.gemm_matrix import Builder, Contraction, Matrix, Place
from tinyfn.lower.gemm_writer import Value, suffix
from tinyfn.lower.opts import Opt, OptError, OptOps
from tinyfn.lower.target import Target, host_target
from tinyfn.trace import dtype as dtypes

HOST = host_target()
# The host; a narrower one; one whose caches are so small that all blocks are; one that can't fuse.
SMALL_CACHES = HOST._replace(l1_bytes=512, l2_bytes=8192, l3_bytes=16384)
TARGETS = [
    HOST,
    HOST._replace(vector_bytes=16, vector_registers=16),
    HOST._replace(vector_bytes=32, vector_registers=16, l2_bytes=8192, l3_bytes=16384, cores=3),
    SMALL_CACHES,
    HOST._replace(has_fma=False),
]
LAYOUTS = ["rows", "columns", "padded", "every other", "broadcast", "swapped"]
Call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def matrix(argument: int, array: np.ndarray) -> Matrix:
    *batch, row, column = (stride // array.itemsize for stride in array.strides)
    return Matrix(argument, array.dtype, row, column, tuple(batch))


def lay_out(array: np.ndarray, layout: str) -> np.ndarray:
    """The same values (of the first matrix, if broadcast) with other strides."""
    *batch, rows, columns = array.shape
    if layout == "columns":
        return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)
    if layout == "broadcast":
        return np.broadcast_to(array[(0,) * len(batch)], array.shape) if array.size else array
    if layout == "swapped":
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 0, -2)), -2, 0)
    if layout in ("padded", "every other"):
        step = 2 if layout == "every other" else 1
        larger = np.full((*batch, rows + 1, step * columns + 3), 99).astype(array.dtype)
        view = larger[..., :rows, : step * columns : step]
        view[...] = array
        return view
    return array


def contraction(a: np.ndarray, b: np.ndarray, c: np.ndarray, **more: Any) -> Contraction:
    m, n, k = a.shape[-2], b.shape[-1], a.shape[-1]
    return Contraction(m, n, k, matrix(0, a), matrix(1, b), matrix(2, c), a.shape[:-2], **more)


def launch(kernel: Kernel, arrays: Sequence[np.ndarray], target: Target, cuts: Sequence[int] = ()) -> None:
    """Run the kernel, cut into ranges at these chunks."""
    module = cpu.compile_ir(kernel.ir, target)
    call = Call(module.function(kernel.name))
    pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    edges = [0, *sorted(cut % (kernel.plan.chunks + 1) for cut in cuts), kernel.plan.chunks]
    for begin, end in pairwise(edges):
        call(pointers, begin, end)


def multiply(a: np.ndarray, b: np.ndarray, target: Target = HOST, cuts: Sequence[int] = ()) -> np.ndarray:
    """The product, whose memory is all NaN before."""
    dtype = dtypes.accumulator(a.dtype)
    c = np.full((*a.shape[:-1], b.shape[-1]), np.nan if dtypes.is_float(dtype) else 77, dtype)
    launch(gemm.generate("product", contraction(a, b, c), target), [a, b, c], target, cuts)
    return c


def check(actual: np.ndarray, a: np.ndarray, b: np.ndarray, rounding: float = 0) -> None:
    """Within the bound for sums in any order, k * eps * |a| @ |b|; `rounding` is the relative error of the last cast."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    eps = 2.0**-52 if actual.dtype == np.float64 else 2.0**-23
    bound = (a.shape[-1] + 1) * eps * (np.abs(a) @ np.abs(b)) + rounding * np.abs(a @ b)
    assert np.all(np.abs(actual.astype(np.float64) - a @ b) <= bound)


def normal(shape: Sequence[int], dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng([seed, *shape]).standard_normal(shape)
    return (values * 4 if dtypes.is_integer(np.dtype(dtype)) else values).astype(dtype)


@settings(max_examples=250, deadline=None, derandomize=True)
@given(
    sizes=st.tuples(*[st.integers(1, 70)] * 3),
    batch=st.one_of(
        st.just(()), st.tuples(st.integers(0, 3)), st.tuples(st.integers(1, 2), st.integers(1, 3))
    ),
    layouts=st.tuples(st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS)),
    dtype=st.sampled_from([np.float32, np.float32, np.float64]),
    target=st.sampled_from(TARGETS),
    cuts=st.lists(st.integers(0, 1000), max_size=3),
)
def test_a_product_of_any_shape_and_layout(
    sizes: tuple[int, int, int], batch: tuple[int, ...], layouts: tuple[str, str], dtype: Any, target: Target,
    cuts: list[int],
) -> None:  # fmt: skip
    m, n, k = sizes
    a = lay_out(normal((*batch, m, k), dtype), layouts[0])
    b = lay_out(normal((*batch, k, n), dtype, 1), layouts[1])
    check(multiply(a, b, target, cuts), a, b)


THIN = [
    (1, 1, 1),
    (1, 1, 300),
    (1, 70, 5),
    (70, 1, 33),
    (3, 65, 300),
    (65, 4, 40),
    (5, 9, 300),
    (40, 6, 260),
    (60, 60, 1),
]
LARGE = [(200, 130, 260), (7, 300, 600)]


@pytest.mark.parametrize("sizes", THIN + LARGE, ids=str)
@pytest.mark.parametrize("layout_a", ["rows", "columns"])
@pytest.mark.parametrize("layout_b", ["rows", "columns"])
def test_thin_and_large_products(sizes: tuple[int, int, int], layout_a: str, layout_b: str) -> None:
    m, n, k = sizes
    a, b = lay_out(normal((m, k)), layout_a), lay_out(normal((k, n), seed=1), layout_b)
    whole = multiply(a, b)
    check(whole, a, b)
    # The same bits on a machine with other vectors, registers and caches, chunk by chunk.
    if HOST.has_fma:
        for target in TARGETS[1:4]:
            np.testing.assert_array_equal(multiply(a, b, target, range(200)), whole)


@pytest.mark.parametrize("target", TARGETS[:4], ids=range(4))
def test_the_bits_do_not_depend_on_how_the_chunks_are_divided(target: Target) -> None:
    for batch, layout in (((), "rows"), ((2, 2), "columns")):
        a, b = normal((*batch, 50, 70)), lay_out(normal((*batch, 70, 64), seed=1), layout)
        whole = multiply(a, b, target)
        for cuts in (range(1000), [1], [7, 3], [5, 5, 2]):
            np.testing.assert_array_equal(multiply(a, b, target, cuts), whole)


@pytest.mark.parametrize("sizes", [(3, 40, 20), (33, 20, 70), (1, 8, 30)], ids=str)
@pytest.mark.parametrize(
    "name", ["float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
def test_narrow_floats_accumulate_in_float32_and_integers_are_exact(
    name: str, sizes: tuple[int, ...]
) -> None:
    m, n, k = sizes
    dtype = dtypes.canonical(name)
    for layout, target in (("rows", HOST), ("columns", SMALL_CACHES)):
        a, b = lay_out(abs(normal((m, k), dtype)), layout), lay_out(normal((k, n), dtype, 1), layout)
        product = multiply(a, b, target)
        if dtypes.is_float(dtype):
            check(product, a, b)
            # Into the operands' own dtype: partial sums over blocks of k are not rounded.
            c = np.zeros((m, n), dtype)
            launch(gemm.generate("half", contraction(a, b, c), target), [a, b, c], target)
            np.testing.assert_array_equal(c, product.astype(dtype))
        else:
            np.testing.assert_array_equal(product, a.astype(product.dtype) @ b.astype(product.dtype))


def test_conversion_to_bfloat16_is_that_of_ml_dtypes_on_subnormals_and_nans_too() -> None:
    bits = np.append(
        np.arange(0, 2**32, 65521, np.uint32), [1, 0x7FFF, 0x8000, 0x18000, 0x7F7FFFFF, 0x7F800001]
    )
    a, b = bits.astype(np.uint32).view(np.float32)[:, None], np.ones((1, 1), np.float32)
    c = np.zeros(a.shape, ml_dtypes.bfloat16)
    launch(gemm.generate("round", contraction(a, b, c), HOST), [a, b, c], HOST)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(c.astype(np.float32), a.astype(ml_dtypes.bfloat16).astype(np.float32))


@pytest.mark.parametrize(
    "shape", [(0, 5, 3), (5, 0, 3), (0, 0, 0), (5, 3, 0), (1, 1, 0), (20, 40, 0)], ids=str
)
def test_empty_products(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    for target in (HOST, SMALL_CACHES):
        product = multiply(normal((m, k)), normal((k, n)), target)
        np.testing.assert_array_equal(product, np.zeros((m, n)))


@pytest.mark.parametrize("sizes", [(9, 20, 33), (1, 20, 33), (40, 33, 70)], ids=str)
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_nan_and_inf_propagate(sizes: tuple[int, int, int], layout: str) -> None:
    m, n, k = sizes
    a, b = normal((m, k)), normal((k, n), seed=1)
    a[0, 2], b[1, 3], b[k - 1, n - 1], a[m - 1, k - 1] = np.nan, np.inf, -np.inf, 0
    b[2, 5] = 0  # NaN * 0
    with np.errstate(invalid="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64)
    for target in (HOST, SMALL_CACHES):
        product = multiply(a, lay_out(b, layout), target)
        assert not np.isfinite(product).all()
        np.testing.assert_array_equal(np.isnan(product), np.isnan(expected))
        infinite = np.isinf(expected)
        np.testing.assert_array_equal(product[infinite], expected[infinite])


def test_an_element_is_one_fused_chain_in_the_order_of_k() -> None:
    a, b = normal((6, 50)), normal((50, 20), seed=1)
    expected = np.zeros((6, 20), np.float32)
    for i in range(
        50
    ):  # a product of two float32 is exact in float64; the sum is rounded twice, which shows very rarely
        product = a[:, i : i + 1].astype(np.float64) * b[i].astype(np.float64)
        expected = (
            (product + expected).astype(np.float32) if HOST.has_fma else a[:, i : i + 1] * b[i] + expected
        )
    np.testing.assert_array_equal(multiply(a, b), expected)


# Shapes and a target for each way to compute: dots, unpacked, packed, several blocks of k, transposed, A or B down k.
WAYS = [
    (2, 40, 30, "columns", HOST), (1, 40, 30, "rows", HOST), (50, 1, 40, "rows", HOST), (33, 70, 21, "rows", HOST),
    (33, 70, 90, "columns", SMALL_CACHES), (3, 70, 40, "rows", SMALL_CACHES), (70, 3, 300, "columns", HOST),
    (260, 40, 50, "rows", SMALL_CACHES),
]  # fmt: skip
ways = pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0]}x{way[1]}x{way[2]}-{way[3]}")


@ways
def test_an_epilogue_adds_bias_and_residual_and_takes_relu(way: tuple[int, int, int, str, Target]) -> None:
    m, n, k, layout, target = way
    a, b, bias = normal((2, m, k)), lay_out(normal((2, k, n), seed=1), layout), normal((n,), seed=2)
    residual, c = normal((2, m, n), np.float64, 3), np.full((2, m, n), np.nan, np.float32)
    before = np.full((2, m, n), np.nan, np.float32)

    def epilogue(builder: Builder, place: Place, value: Value) -> Value:
        added = builder.read(Matrix(3, bias.dtype, row=0, column=1), place)
        value = builder.sum(value, added, dtypes.float32)
        builder.write(matrix(5, before), place, value)  # a second result
        wide = builder.convert(value, dtypes.float32, dtypes.float64, place.lanes)
        wide = builder.sum(wide, builder.read(matrix(4, residual), place), dtypes.float64)
        value = builder.convert(wide, dtypes.float64, dtypes.float32, place.lanes)
        zero = builder.constant(0, dtypes.float32, place.lanes)
        maximum = f"@llvm.maximum.{suffix(value.type)}"
        return builder.instruction(value.type, f"call {value.type} {maximum}({value}, {zero})")

    kernel = gemm.generate("fused", contraction(a, b, c, epilogue=epilogue), target)
    launch(kernel, [a, b, c, bias, residual, before], target, [1, 3])
    plain = multiply(a, b, target)
    np.testing.assert_array_equal(before, plain + bias)
    np.testing.assert_array_equal(c, np.maximum(((plain + bias) + residual).astype(np.float32), 0))


@ways
def test_producers_replace_the_loads(way: tuple[int, int, int, str, Target]) -> None:
    m, n, k, layout, target = way
    a, b = normal((2, m, k)), lay_out(normal((2, k, n), ml_dtypes.bfloat16, 1), layout)
    hidden, c = normal((2, m, k), np.float32, 3), np.zeros((2, m, n), np.float32)

    def positive_or_one(builder: Builder, place: Place) -> Value:
        value, kept = (builder.read(matrix(i, x), place) for i, x in ((0, a), (3, hidden)))
        zero, one = (builder.constant(i, dtypes.float32, place.lanes) for i in (0, 1))
        positive = builder.instruction(
            "i1" if place.lanes == 1 else f"<{place.lanes} x i1>", f"fcmp ogt {kept}, {zero.name}"
        )
        return builder.instruction(value.type, f"select {positive}, {value}, {one}")

    def plus_one(builder: Builder, place: Place) -> Value:
        value = builder.convert(
            builder.read(matrix(1, b), place), dtypes.bfloat16, dtypes.float32, place.lanes
        )
        return builder.sum(value, builder.constant(1, dtypes.float32, place.lanes), dtypes.float32)

    # Both are 1 of lanes past the end of k, where the sum has to see zeros.
    for left, right in ((positive_or_one, plus_one), (None, plus_one), (positive_or_one, None)):
        work = contraction(a, b, c, producer_a=left, producer_b=right)
        launch(gemm.generate("fused", work, target), [a, b, c, hidden], target)
        actual_a = np.where(hidden > 0, a, 1) if left else a
        actual_b = b.astype(np.float32) + 1 if right else b
        check(c, actual_a, actual_b)


@ways
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_product_in_strided_memory_leaves_the_rest_alone(way: Any, dtype: Any) -> None:
    m, n, k, layout, target = way
    a, b = normal((m, k), dtype), lay_out(normal((k, n), dtype, 1), layout)
    for layout_c in ("rows", "columns", "padded", "every other"):
        c = lay_out(normal((m, n), dtype, 2), layout_c)
        memory = c.base if c.base is not None else c
        before, start = memory.copy(), c.copy()
        launch(gemm.generate("product", contraction(a, b, c), target), [a, b, c], target)
        check(c, a.astype(np.float64), b.astype(np.float64), 2.0**-10 if dtype is np.float16 else 0)
        c[...] = start
        np.testing.assert_array_equal(memory, before)


def at_a_page_end(array: np.ndarray) -> np.ndarray:
    """A copy whose last byte is the last one that may be read: the page after it is out of bounds."""
    size = -(-max(array.nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    whole = np.frombuffer(memory, np.uint8)
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    assert protect(whole.ctypes.data + size, mmap.PAGESIZE, 0) == 0
    copy = whole[size - array.nbytes : size].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (3, 5, 17), (7, 19, 23), (40, 33, 9), (1, 37, 70), (33, 1, 19)], ids=str
)
@pytest.mark.parametrize("transposed", [False, True])
def test_nothing_is_read_past_the_end_of_an_operand(sizes: tuple[int, int, int], transposed: bool) -> None:
    m, n, k = sizes
    for dtype in (np.float32, np.float16):
        a, b = (
            normal((k, m) if transposed else (m, k), dtype),
            normal((n, k) if transposed else (k, n), dtype, 1),
        )
        a, b = at_a_page_end(a), at_a_page_end(b)
        a, b = (a.T, b.T) if transposed else (a, b)
        for target in TARGETS[:4]:
            c = at_a_page_end(np.zeros((m, n), np.float32))
            launch(gemm.generate("product", contraction(a, b, c), target), [a, b, c], target)
            check(c, a, b)


def test_tiles_fit_the_registers_and_few_rows_are_left_over() -> None:
    for registers in (16, 32):
        for m in range(1, 100):
            for vectors in (1, 2, 3, 4, 7, 64):
                rows, columns = gemm_heuristic.tile_shape(m, vectors, registers)
                assert 1 <= rows <= m and 1 <= columns <= vectors
                assert rows * columns + columns + 1 <= registers
    assert gemm_heuristic.tile_shape(1024, 64, 32) == (6, 4)


@pytest.mark.parametrize("sizes", [(64, 64, 64), (1024, 1024, 1024), (70, 70, 70), (1, 4096, 4096)], ids=str)
def test_code_is_short_and_keeps_its_tiles_in_registers(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    for b in (Matrix(1, dtypes.float32, n, 1), Matrix(1, dtypes.float32, 1, k)):
        work = Contraction(m, n, k, Matrix(0, dtypes.float32, k, 1), b, Matrix(2, dtypes.float32, n, 1))
        kernel = gemm.generate("product", work, HOST)
        assert len(kernel.ir) < 60_000
        tiles = re.findall(
            r"^\W*product\.tile\..*?func_end", cpu.assembly(kernel.ir, HOST), re.MULTILINE | re.DOTALL
        )
        # No vector goes through the stack in the loop over k, where all the work is.
        blocks = [
            block
            for tile in tiles
            for block in re.split(r"\n\.L\w+:", tile)
            if re.search(r"fmadd|fmla", block)
        ]
        assert blocks or not HOST.has_fma
        for line in "\n".join(blocks).split("\n"):
            assert not (re.search(r"mm\d|\bq\d", line) and re.search(r"\(%rsp|\(%rbp|\[sp", line)), line


SWAP = Opt(OptOps.SWAP, 0, 1)


def schedules(seed: int, depth: int, many: bool) -> list[Opt]:
    """Random opts: tiles, blocks and runs of any size, packed or not; `depth` is what blocks of the sum are multiples of."""
    generator = np.random.default_rng([seed, depth])

    def pick(*choices: Any) -> Any:
        return choices[generator.integers(len(choices))]

    swapped, lanes = pick(False, True), pick(1, 2, 4, 16)
    rows, columns = (1, 0) if swapped else (0, 1)
    height, width = pick(1, 2, 5, 9), pick(1, 2, 3)
    opts = [SWAP] if swapped else []
    opts += [Opt(OptOps.UPCAST, columns, lanes)] if lanes > 1 else []
    opts += [Opt(OptOps.UNROLL, rows, height), Opt(OptOps.UNROLL, columns, width)]
    opts += [Opt(OptOps.LOCAL, axis) for axis in (0, 1) if pick(False, True)]
    units = {rows: height, columns: width * lanes, 2: lcm(lanes, depth)}
    opts += [
        Opt(OptOps.GROUP, axis, unit * pick(1, 2, 4)) for axis, unit in units.items() if pick(False, True)
    ]
    top = pick(None, rows, columns)
    opts += [Opt(OptOps.GROUPTOP, top, units[top] * pick(1, 3))] if top is not None else []
    return opts if many else opts[:4]


@pytest.mark.parametrize("seed", range(60))
def test_every_schedule_gives_the_same_bits(seed: int) -> None:
    m, n, k = [(33, 40, 50), (7, 65, 33), (70, 5, 16), (1, 30, 20), (19, 1, 40), (6, 6, 0)][seed % 6]
    batch = () if seed % 2 else (2,)
    a = lay_out(normal((*batch, m, k)), LAYOUTS[seed % 5])
    b = lay_out(normal((*batch, k, n), seed=1), LAYOUTS[seed // 5 % 5])
    c, bias = np.full((*batch, m, n), np.nan, np.float32), normal((n,), seed=2)

    def plus_bias(builder: Builder, place: Place, value: Value) -> Value:
        added = builder.read(Matrix(3, bias.dtype, row=0, column=1), place)
        return builder.sum(value, added, dtypes.float32)

    fused = {"epilogue": plus_bias, "scratch": True} if seed % 3 == 0 else {}
    work = contraction(a, b, c, **fused)
    one = gemm.generate("product", work, HOST, [])  # an element at a time, in the order of the sum
    launch(one, [a, b, c, bias], HOST)
    check(c - bias if fused else c, a, b, 1e-4 if fused else 0)
    want = c.copy()
    for opts in (schedules(seed, 1, True), schedules(seed + 100, 1, True), schedules(seed, 1, False)):
        kernel = gemm.generate("product", work, HOST, opts)
        assert kernel.opts == tuple(opts)
        c[...] = np.nan
        launch(kernel, [a, b, c, bias], HOST, [seed, 3 * seed])
        np.testing.assert_array_equal(c, want, err_msg=str(opts))


@pytest.mark.parametrize("rest", range(12))
@pytest.mark.parametrize("kind", ["plain", "fused"])
def test_many_packed_columns_end_with_any_number_of_them(rest: int, kind: str) -> None:
    m, n, k = 5, 9 * 12 + rest, 40
    a, b, bias = at_a_page_end(normal((m, k))), normal((k, n), seed=1), at_a_page_end(normal((n,), seed=2))

    def plus_bias(builder: Builder, place: Place, value: Value) -> Value:
        added = builder.read(Matrix(3, bias.dtype, row=0, column=1), place)
        return builder.sum(value, added, dtypes.float32)

    more = {"plain": {}, "fused": {"epilogue": plus_bias, "scratch": True}}[kind]
    tile = [
        Opt(OptOps.UPCAST, 1, 4),
        Opt(OptOps.UNROLL, 1, 3),
        Opt(OptOps.UNROLL, 0, 2),
        Opt(OptOps.LOCAL, 1),
    ]
    made = []
    for opts in ([], tile, [*tile, Opt(OptOps.GROUP, 2, 16)]):
        c = at_a_page_end(np.ones((m, n), np.float32))
        launch(gemm.generate("product", contraction(a, b, c, **more), HOST, opts), [a, b, c, bias], HOST)
        made.append(c)
    for c in made[1:]:
        np.testing.assert_array_equal(c, made[0])


def test_what_the_heuristic_chose_can_be_replayed() -> None:
    for sizes in [*THIN, *LARGE]:
        m, n, k = sizes
        for layouts in (("rows", "rows"), ("rows", "columns"), ("columns", "rows")):
            a, b = lay_out(normal((m, k)), layouts[0]), lay_out(normal((k, n), seed=1), layouts[1])
            work = contraction(a, b, np.zeros((m, n), np.float32))
            kernel = gemm.generate("product", work, HOST)
            again = eval(repr(kernel.opts), {"Opt": Opt, "OptOps": OptOps})
            assert gemm.generate("product", work, HOST, again) == kernel
            if kernel.plan.chunks > 1 and m * n > 1000:
                assert kernel.plan.chunks >= HOST.cores and 1 <= kernel.plan.grain <= kernel.plan.chunks


def test_the_lanes_of_dot_products_are_the_one_opt_that_decides_about_bits() -> None:
    a, b = normal((3, 700)), lay_out(normal((700, 40), seed=1), "columns")
    c, found = np.zeros((3, 40), np.float32), []
    for opts in ([(OptOps.UPCAST, 2, 16)], [(OptOps.UPCAST, 2, 16), (OptOps.UNROLL, 0, 3), (OptOps.LOCAL, 0, None),
                 (OptOps.UNROLL, 1, 5), (OptOps.GROUP, 0, 3), (OptOps.GROUPTOP, 1, 10)], [(OptOps.UPCAST, 2, 8)],
                 [(OptOps.SWAP, 0, 1), (OptOps.UPCAST, 2, 8), (OptOps.UNROLL, 1, 2), (OptOps.GROUP, 0, 4)]):  # fmt: skip
        launch(
            gemm.generate("dots", contraction(a, b, c), HOST, [Opt(*opt) for opt in opts]), [a, b, c], HOST
        )
        check(c, a, b)
        found.append(c.tobytes())
    assert found[0] == found[1] != found[2] == found[3]


@pytest.mark.parametrize(
    "opts, message",
    [
        ([Opt(OptOps.UPCAST, 3, 4)], "the axes of a contraction"),
        ([Opt(OptOps.UPCAST, 0, 4)], "vectors run along the columns"),
        ([SWAP, Opt(OptOps.UPCAST, 1, 4)], "vectors run along the columns"),
        ([Opt(OptOps.UPCAST, 1, 6)], "power of two"),
        ([Opt(OptOps.UPCAST, 1, 4), Opt(OptOps.UPCAST, 2, 4)], "vectors run along"),
        ([Opt(OptOps.UNROLL, 2, 4)], "the sum is not unrolled"),
        ([Opt(OptOps.GROUPTOP, 2, 4)], "not divided among threads"),
        ([Opt(OptOps.UPCAST, 2, 4), Opt(OptOps.LOCAL, 1)], "read the columns where they are"),
        ([Opt(OptOps.UPCAST, 2, 4), Opt(OptOps.GROUP, 2, 8)], "in one block"),
        ([Opt(OptOps.UNROLL, 0, 4), Opt(OptOps.GROUP, 0, 6)], "GROUP:0:6: not a multiple of 4"),
        ([Opt(OptOps.GROUPTOP, 0, 4), Opt(OptOps.GROUPTOP, 1, 4)], "rows or columns"),
        ([Opt(OptOps.LOCAL, 0, 8)], "in the blocks of GROUP"),
        ([Opt(OptOps.SWAP, 0, 2)], "rows and columns can be exchanged"),
        ([Opt(OptOps.UNROLL, 0, 0)], "needs a positive number"),
        ([Opt(OptOps.UNROLL, 0, 2), Opt(OptOps.UNROLL, 0, 3)], "to be there once"),
        ([Opt(OptOps.TC, 0, 2)], "is for GPUs"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_opts_that_do_not_fit_say_why(opts: list[Opt], message: str) -> None:
    a, b, c = normal((8, 8)), normal((8, 8)), normal((8, 8))
    with pytest.raises(OptError, match=message):
        gemm.generate("product", contraction(a, b, c), HOST, opts)


def test_other_dtypes_are_refused_by_name() -> None:
    for a, b in (("complex64", "complex64"), ("float32", "int32"), ("bool", "float32")):
        arrays = np.ones((2, 2), a), np.ones((2, 2), b), np.ones((2, 2), np.float32)
        with pytest.raises(ValueError, match=f"no kernel multiplies {a} by {b} into float32"):
            gemm.generate("product", contraction(*arrays), HOST)
