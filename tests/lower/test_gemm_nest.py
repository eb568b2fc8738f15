"""Nests that are contractions: compiled, with whatever precedes and follows them, they give what NumPy gives in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lcm
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.lax as lax
import tinyfn.numpy as tnp
from tinyfn.lower.contraction import CONTRACTIONS, Factor, factors, summed
from tinyfn.lower.gemm_form import match
from tinyfn.lower.group import group
from tinyfn.lower.index import Elements, load
from tinyfn.lower.nest import Kernel, Nest, Store, only_ranges, result
from tinyfn.lower.opts import Opt, OptError, OptOps
from tinyfn.lower.target import host_target
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import prims as p
from tinyfn.trace import scalar as s
from tinyfn.trace import sint
from tinyfn.trace.elements import Index, as_node, position
from tinyfn.trace.formulas import cast
from tinyfn.trace.prim import Sample
from tinyfn.trace.uop import INPUT, UOp, const, input_node

from .compiled import run_kernel
from .contractions import contraction_nest


def ranges(prefix: str, shape: Sequence[int]) -> tuple[Any, ...]:
    return tuple([0 if n == 1 else sint.Variable(f"{prefix}{i}", 0, n - 1) for i, n in enumerate(shape)])


def factor_value(operand: UOp, factor: Factor, wide: Any) -> UOp:
    def read(node: UOp, index: Index, condition: UOp | None) -> UOp | None:
        return load(node, index, factor.condition) if node.op is INPUT else None

    value = Elements(read).at(operand, factor.at)
    if factor.condition is not None and operand.op is not INPUT:
        value = s.build(s.WHERE, factor.condition, value, const(0, value.dtype))
    return cast(value, wide)


Finish = Callable[[UOp, Index], list[tuple[UOp, UOp]]]


def nest_of(node: UOp, finish: Finish | None = None) -> Nest:
    """The nest of a dot_general or conv_general; `finish` gives arrays and their elements from the sum and its index."""
    index, inner = ranges("o", node.shape), ranges("i", summed(node))
    wide = dtypes.accumulator(node.dtype)
    left, right = [
        factor_value(n, f, wide) for n, f in zip(node.src, factors(node, index, inner), strict=True)
    ]
    at = as_node(position(node.shape, index))
    stores = [Store(node, at, result(node))]
    if finish is not None:
        stores = [Store(array, at, value) for array, value in finish(result(node), index)]
    return contraction_nest(only_ranges(index), only_ranges(inner), node, left, right, stores)


def run(
    nest: Nest, arrays: dict[UOp, np.ndarray], pieces: int = 1, vector_bytes: int = 64
) -> dict[UOp, np.ndarray]:
    assert match(nest) is not None
    made = {k: np.ascontiguousarray(v) for k, v in arrays.items()}
    run_kernel(Kernel((nest,)), made, pieces, vector_bytes=vector_bytes)
    return made


def close(actual: np.ndarray, expected: Any, k: int, scale: Any = 1.0) -> None:
    """Within the rounding of the sums and of the result's dtype."""
    if actual.dtype.kind in "iub" and actual.dtype.name != "bfloat16":
        np.testing.assert_array_equal(actual, expected)
        return
    eps = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-22, "float64": 2.0**-51}[
        actual.dtype.name
    ]
    got, want = actual.astype(np.float64), np.asarray(expected, np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    sums = 2.0**-22 if actual.dtype.itemsize < 8 else 2.0**-51
    with np.errstate(invalid="ignore"):
        bound = (k + 4) * sums * np.asarray(scale) + eps * np.abs(want)
        right = (got == want) | (np.abs(got - want) <= bound) | np.isnan(want)
    assert np.all(right), np.max(np.where(right, 0, np.abs(got - want)))


def normal(shape: Sequence[int], dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng([seed, *shape]).standard_normal(shape)
    return (values * 4 if np.dtype(dtype).kind in "iu" else values).astype(dtype)


def cases() -> list[tuple[Any, Sample]]:
    samples = [(op, sample) for op in CONTRACTIONS for sample in op.samples()]
    return [
        (op, sample) for op, sample in samples
        if np.asarray(sample.args[0]).dtype.kind != "c" and all(np.asarray(a).size for a in sample.args)
    ]  # fmt: skip


@pytest.mark.parametrize("vector_bytes", [64, 16])
@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case[0].name}")
def test_every_sample_compiles(case: tuple[Any, Sample], vector_bytes: int) -> None:
    op, sample = case
    values = [np.asarray(a) for a in sample.args]
    node = op(*[input_node(a.dtype, a.shape) for a in values], **sample.params)
    if 0 in node.shape:
        return
    with np.errstate(all="ignore"):
        reference = np.asarray(op.reference(*values, **sample.params))
    nest = nest_of(node)
    if match(nest) is None:  # a single sum, which is no matrix
        assert node.ndim == 0 or all(
            r in sint.variables(nest.passes[0].reductions[0].value.src) for r in nest.outer
        )
        return
    made = run(nest, dict(zip(node.src, values, strict=True)), 3, vector_bytes)
    scale = np.abs(np.nan_to_num(reference.astype(np.float64), posinf=0, neginf=0)).max(initial=1)
    close(made[node], reference, 16, 8 * scale)


CONVOLUTIONS = [
    ((2, 3, 9, 11), (5, 3, 3, 3), {"low": (1, 1), "high": (1, 1)}),
    ((2, 16, 14, 14), (8, 16, 3, 3), {"low": (1, 1), "high": (1, 1)}),
    ((1, 4, 32, 32), (8, 4, 3, 3), {"low": (1, 1), "high": (1, 1)}),
    ((3, 4, 7, 7), (4, 4, 3, 3), {"low": (1, 1), "high": (1, 1)}),
    ((2, 4, 20, 3), (4, 4, 3, 2), {"low": (1, 1), "high": (1, 0), "strides": (2, 1)}),
    ((2, 4, 33, 17), (40, 4, 2, 2), {"strides": (2, 2), "low": (0, -1), "high": (1, 1)}),
    ((2, 4, 10, 9), (4, 4, 3, 3), {"lhs_dilation": (2, 2), "low": (2, 1), "high": (1, 1)}),
    ((2, 8, 12, 12), (16, 4, 3, 3), {"feature_groups": 2, "low": (1, 1), "high": (1, 1)}),
    ((8, 4, 12, 12), (16, 4, 3, 3), {"batch_groups": 4, "low": (1, 1), "high": (1, 1)}),
    ((2, 8, 16, 16), (8, 1, 3, 3), {"feature_groups": 8, "low": (1, 1), "high": (1, 1)}),
    ((8, 2, 18, 18), (6, 2, 16, 16), {}),
    ((2, 40, 5, 5), (30, 40, 1, 1), {}),
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_convolutions(case: Any, dtype: str) -> None:
    shape, window, given = case
    count = len(shape) - 2
    neutral = {n: (1,) * count for n in ("strides", "lhs_dilation", "rhs_dilation")} | {
        n: (0,) * count for n in ("low", "high")
    }
    params = {**neutral, "feature_groups": 1, "batch_groups": 1, **given}
    x, w = normal(shape, dtype), normal(window, dtype, 1)
    node = p.conv_general(input_node(x.dtype, shape), input_node(w.dtype, window), **params)
    wide = [a.astype(np.float64) for a in (x, w)]
    expected = p.conv_general.reference(*wide, **params)
    scale = p.conv_general.reference(*[np.abs(a) for a in wide], **params)
    nest = nest_of(node)
    whole = run(nest, dict(zip(node.src, (x, w), strict=True)))[node]
    close(whole, expected, int(np.prod(window[1:])), scale)
    for pieces, vector_bytes in ((7, 64), (1, 32)):
        again = run(nest, dict(zip(node.src, (x, w), strict=True)), pieces, vector_bytes)[node]
        np.testing.assert_array_equal(again, whole)
    rows, blocks = Opt(OptOps.UNROLL, 0, 3), Opt(OptOps.GROUP, 2, 2 * lcm(4, window[-1]))
    lists: list[tuple[Opt, ...]] = [
        (),
        (Opt(OptOps.UPCAST, 1, 4), rows, Opt(OptOps.LOCAL, 1), blocks),
        (Opt(OptOps.SWAP, 0, 1), Opt(OptOps.UPCAST, 0, 4), blocks),
        (rows, Opt(OptOps.LOCAL, 0), Opt(OptOps.GROUPTOP, 0, 3)),
    ]
    made = []
    for opts in lists:
        arrays = dict(zip(node.src, (x, w), strict=True))
        assert run_kernel(Kernel((nest,)), arrays, 2, (opts,)).opts == (opts,)
        made.append(arrays[node])
        np.testing.assert_array_equal(made[-1], made[0], err_msg=str(opts))
    close(made[0], expected, int(np.prod(window[1:])), scale)


# Images that are copied with their padding, and not their windows.
IMAGES = [
    ((3, 5, 9, 16), (7, 5, 3, 3), {"low": (1, 1), "high": (1, 1)}),
    ((2, 3, 6, 32), (4, 3, 3, 5), {"low": (2, 3), "high": (-1, 1), "rhs_dilation": (2, 1)}),
    ((2, 4, 5, 16), (8, 4, 1, 3), {"low": (0, 0), "high": (0, 2)}),
    ((2, 4, 8, 9), (8, 4, 3, 3), {"low": (2, 1), "high": (1, 0), "lhs_dilation": (1, 2)}),
    ((2, 8, 7, 16), (12, 4, 3, 3), {"low": (1, 1), "high": (1, 1), "feature_groups": 2}),
    ((6, 4, 7, 16), (12, 4, 3, 3), {"low": (1, 1), "high": (1, 1), "batch_groups": 3}),
    ((1, 6, 3, 5, 16), (9, 6, 2, 3, 3), {"low": (1, 1, 1), "high": (1, 1, 1)}),
    ((4, 6, 32), (9, 6, 7), {"low": (3,), "high": (3,)}),
    ((1, 6, 48), (9, 6, 4), {"low": (3,), "high": (0,)}),
]


@pytest.mark.parametrize("case", IMAGES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("caches", [{}, {"l2_bytes": 1 << 14, "l3_bytes": 1 << 15}], ids=["", "small caches"])
def test_windows_read_where_they_overlap(case: Any, dtype: str, caches: dict[str, int]) -> None:
    shape, window, given = case
    count = len(shape) - 2
    neutral = {n: (1,) * count for n in ("strides", "lhs_dilation", "rhs_dilation")} | {
        n: (0,) * count for n in ("low", "high")
    }
    params = {**neutral, "feature_groups": 1, "batch_groups": 1, **given}
    kind = dtypes.canonical(dtype)
    x, w, scale = normal(shape, kind), normal(window, kind, 1), normal(shape[1:2], kind, 2)
    if kind.kind == "f":
        x[0, 0, ..., 1], w[1, 0, ..., 0] = np.nan, np.inf
    inputs = [input_node(a.dtype, a.shape) for a in (x, w, scale)]
    factor = p.broadcast(inputs[2], shape=shape, axes=(1,))
    node = p.conv_general(p.mul(inputs[0], factor), inputs[1], **params)
    scaled = x * scale.reshape(-1, *[1] * count)
    with np.errstate(all="ignore"):
        expected = p.conv_general.reference(scaled.astype(np.float64), w.astype(np.float64), **params)
        sizes = p.conv_general.reference(
            *[np.abs(np.nan_to_num(a.astype(np.float64), posinf=0)) for a in (scaled, w)], **params
        )
    if kind.kind != "f" and dtype != "bfloat16":
        expected = p.conv_general.reference(scaled, w, **params)
    nest = nest_of(node)
    bits = []
    for opts in (None, ()):
        arrays = dict(zip(inputs, (x, w, scale), strict=True))
        code = run_kernel(Kernel((nest,)), arrays, 3, None if opts is None else (opts,), **caches)
        if opts is None and not caches:
            assert any(opt.arg == "windows" for opt in code.opts[0]), code.opts
        with np.errstate(invalid="ignore"):
            close(arrays[node], expected, int(np.prod(window[1:])), sizes)
        bits.append(arrays[node])
    np.testing.assert_array_equal(*bits)
    narrow = dict(zip(inputs, (x, w, scale), strict=True))
    lists = (
        (Opt(OptOps.SWAP, 0, 1), Opt(OptOps.UPCAST, 0, 4), Opt(OptOps.UNROLL, 0, 3), Opt(OptOps.LOCAL, 0, "windows"),
         Opt(OptOps.GROUP, 0, 24), Opt(OptOps.GROUPTOP, 0, 12)),
        (Opt(OptOps.SWAP, 0, 1), Opt(OptOps.UPCAST, 0, 2), Opt(OptOps.UNROLL, 1, 3), Opt(OptOps.LOCAL, 0, "windows"),
         Opt(OptOps.GROUPTOP, 1, 3)),
    )  # fmt: skip
    for opts in lists:
        run_kernel(Kernel((nest,)), narrow, 2, (opts,))
        np.testing.assert_array_equal(narrow[node], bits[0], err_msg=str(opts))


def test_a_convolution_and_both_gradients_choose_what_is_copied() -> None:
    def conv(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (1, 1), [(1, 1)] * 2)

    x, w, g = normal((8, 16, 32, 32)), normal((32, 16, 3, 3)), normal((8, 32, 32, 32))
    chosen = {}
    for name, function in {
        "forward": lambda x, w, g: conv(x, w),
        "image": lambda x, w, g: tinyfn.vjp(lambda x: conv(x, w), x)[1](g),
        "window": lambda x, w, g: tinyfn.vjp(lambda w: conv(x, w), w)[1](g),
    }.items():
        steps = tinyfn.jit(function).lower(x, w, g).steps
        chosen[name] = next(step.applied_opts[0] for step in steps if "conv" in step.name)
    target = host_target()
    if target.vector_bytes <= 128 and target.l2_bytes >= 1 << 19:
        assert Opt(OptOps.LOCAL, 0, "windows") in chosen["forward"]
        assert Opt(OptOps.LOCAL, 0, "windows") in chosen["image"]
    # The gradient by the window sums over the images: the smaller factor is the one that is transposed.
    assert {Opt(OptOps.LOCAL, 0), Opt(OptOps.LOCAL, 1)} <= set(chosen["window"])
    assert Opt(OptOps.SWAP, 0, 1) not in chosen["window"]


def test_images_are_copied_only_where_columns_are_windows_of_them() -> None:
    nest = nest_of(
        p.dot_general(input_node(dtypes.float32, (4, 5)), input_node(dtypes.float32, (5, 4)), **MATRIX)
    )
    with pytest.raises(OptError, match="images are packed where columns are their windows"):
        run_kernel(Kernel((nest,)), {}, 1, ((Opt(OptOps.LOCAL, 1, "windows"),),))


MATRIX = {"contract": ((1,), (0,)), "batch_axes": ((), ())}
SIZES = [1, 3, 17, 129]


@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("transposed", ["", "x", "y", "xy"])
def test_matrices_of_odd_sizes_transposed_on_either_side(m: int, n: int, transposed: str) -> None:
    if m == n == 1:
        return
    for k in (1, 3, 40):
        x, y = normal((m, k)), normal((k, n), seed=1)
        left = input_node(dtypes.float32, (k, m) if "x" in transposed else (m, k))
        right = input_node(dtypes.float32, (n, k) if "y" in transposed else (k, n))
        arrays = {left: x.T if "x" in transposed else x, right: y.T if "y" in transposed else y}
        sides = [
            p.transpose(node, permutation=(1, 0)) if name in transposed else node
            for node, name in ((left, "x"), (right, "y"))
        ]
        node = p.dot_general(*sides, **MATRIX)
        whole = run(nest_of(node), arrays)[node]
        close(whole, x.astype(np.float64) @ y, k, np.abs(x) @ np.abs(y))
        np.testing.assert_array_equal(run(nest_of(node), arrays, 5)[node], whole)


def gelu_like(x: UOp) -> UOp:
    """x * x / (1 + x * x), which needs a division."""
    square = s.build(s.MUL, x, x)
    return s.build(s.DIV, square, s.build(s.ADD, square, const(1, x.dtype)))


@pytest.mark.parametrize(
    "shape", [(5, 40, 30), (1, 70, 64), (64, 9, 1), (33, 50, 129), (130, 700, 65)], ids=str
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_bias_activation_residual_and_several_results(shape: tuple[int, int, int], dtype: str) -> None:
    m, k, n = shape
    kind = dtypes.canonical(dtype)
    x, y, bias, residual = (normal(size, kind, i) for i, size in enumerate([(m, k), (k, n), (n,), (m, n)]))
    nodes = [input_node(a.dtype, a.shape) for a in (x, y, bias, residual)]
    node = p.dot_general(nodes[0], nodes[1], **MATRIX)
    single = dtypes.float32
    outs = [input_node(d, (m, n)) for d in (kind, single, dtypes.bool_)]

    def finish(total: UOp, index: Index) -> list[tuple[UOp, UOp]]:
        shifted = s.build(s.ADD, cast(total, dtypes.float64), cast(load(nodes[2], index[1:]), dtypes.float64))
        active = gelu_like(shifted)
        final = s.build(s.ADD, active, cast(load(nodes[3], index), dtypes.float64))
        positive = s.build(s.LT, const(0, dtypes.float64), shifted)
        return [(outs[0], cast(final, kind)), (outs[1], cast(shifted, single)), (outs[2], positive)]

    nest = nest_of(node, finish)
    arrays = dict(zip(nodes, (x, y, bias, residual), strict=True))
    made = run(nest, arrays)
    plain = run(nest_of(node), arrays)[node].astype(np.float64)  # rounded to the product's dtype
    shifted = plain + bias.astype(np.float64)
    close(made[outs[1]], shifted, 0)
    np.testing.assert_array_equal(made[outs[2]], shifted > 0)
    close(made[outs[0]], shifted**2 / (shifted**2 + 1) + residual.astype(np.float64), 0)
    again = run(nest, arrays, 4)
    for out in outs:
        np.testing.assert_array_equal(again[out], made[out])


@pytest.mark.parametrize(
    "shape", [(5, 40, 30), (2, 70, 64), (70, 9, 3), (33, 50, 129), (130, 600, 65)], ids=str
)
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_mask_in_a_producer(shape: tuple[int, int, int], side: int, transposed: bool) -> None:
    m, k, n = shape
    sizes = [(m, k), (k, n)]
    values = [normal(sizes[i], np.float32, i) for i in (0, 1)]
    hidden = normal(sizes[side], np.float32, 7)
    stored = [v.T if transposed else v for v in (*values, hidden)]
    inputs = [input_node(dtypes.float32, a.shape) for a in stored]
    x, y, h = (p.transpose(i, permutation=(1, 0)) if transposed else i for i in inputs)
    zero = p.broadcast(const(0, dtypes.float32), shape=sizes[side], axes=())
    sides = [x, y]
    sides[side] = p.where(p.lt(zero, h), sides[side], zero)
    node = p.dot_general(*sides, **MATRIX)
    values[side] = np.where(hidden > 0, values[side], 0)
    made = run(nest_of(node), dict(zip(inputs, stored, strict=True)))
    close(made[node], values[0].astype(np.float64) @ values[1], k, np.abs(values[0]) @ np.abs(values[1]))


def test_batches_reshapes_and_heads() -> None:
    # Attention: [B, T, H*D] split into heads, scores and a store with heads beside features again.
    b, t, h, d = 2, 19, 3, 8
    q, k = normal((b, t, h * d)), normal((b, t, h * d), seed=1)
    inputs = [input_node(dtypes.float32, q.shape) for _ in (q, k)]
    heads = [p.reshape(i, shape=(b, t, h, d)) for i in inputs]
    scores = p.dot_general(*heads, contract=((3,), (3,)), batch_axes=((0, 2), (0, 2)))
    made = run(nest_of(scores), dict(zip(inputs, (q, k), strict=True)))
    qs, ks = (a.reshape(b, t, h, d).astype(np.float64) for a in (q, k))
    close(made[scores], np.einsum("bthd,bshd->bhts", qs, ks), d, 8.0)
    # Sums over two axes that do not merge, rows and columns of several axes that do not merge either.
    x, y = normal((4, 5, 6, 7)), normal((7, 3, 5, 2), seed=1)
    left, right = input_node(dtypes.float32, x.shape), input_node(dtypes.float32, y.shape)
    node = p.dot_general(left, right, contract=((1, 3), (2, 0)), batch_axes=((), ()))
    made = run(nest_of(node), {left: x, right: y})
    close(made[node], np.einsum("abcd,debf->acef", x.astype(np.float64), y), 35, 40.0)
    # A reshape that divides indices.
    flat = input_node(dtypes.float32, (6 * 35,))
    reversed_ = p.flip(p.reshape(flat, shape=(15, 14)), axes=(1,))
    moved = p.reshape(p.transpose(reversed_, permutation=(1, 0)), shape=(6, 35))
    other = input_node(dtypes.float32, (35, 20))
    node = p.dot_general(moved, other, **MATRIX)
    x, y = normal((210,)), normal((35, 20), seed=1)
    expected = x.reshape(15, 14)[:, ::-1].T.reshape(6, 35).astype(np.float64) @ y
    close(run(nest_of(node), {flat: x, other: y})[node], expected, 35, 40.0)


def test_an_index_that_is_computed_with_and_a_gather() -> None:
    # A causal mask in the epilogue, an embedding's rows as the left factor.
    table, ids, w = normal((50, 24)), np.array([3, 49, 0, 7, 3], np.int32), normal((24, 33), seed=1)
    inputs = [input_node(np.dtype(a.dtype), a.shape) for a in (table, ids, w)]
    o0, o1, i0 = (*ranges("o", (5, 33)), *ranges("i", (24,)))
    at = cast(load(inputs[1], (o0,)), dtypes.int64)
    left = load(inputs[0], (sint.minimum(sint.maximum(at, 0), 49), i0))
    node = input_node(dtypes.float32, (5, 33))
    kept = s.build(
        s.WHERE, s.build(s.LT, as_node(o1), as_node(sint.add(o0, 1))), result(node), const(-1, dtypes.float32)
    )
    counted = s.build(s.ADD, kept, s.build(s.CAST, as_node(o1), arg=dtypes.float32))
    out = input_node(dtypes.float32, (5, 33))
    store = Store(out, as_node(position((5, 33), (o0, o1))), counted)
    nest = contraction_nest((o0, o1), (i0,), node, left, load(inputs[2], (i0, o1)), [store])
    made = run(nest, dict(zip(inputs, (table, ids, w), strict=True)))
    product = table[ids].astype(np.float64) @ w
    rows, columns = np.indices((5, 33))
    close(made[out], np.where(columns < rows + 1, product, -1) + columns, 24, 40.0)


def test_what_is_no_contraction_is_left_alone() -> None:
    x = input_node(dtypes.float32, (4, 5))
    both = p.dot_general(x, x, contract=((1,), (1,)), batch_axes=((0,), (0,)))
    assert match(nest_of(both)) is None
    nest = nest_of(p.dot_general(x, input_node(dtypes.float32, (5, 4)), **MATRIX))
    assert match(nest) is not None
    assert match(nest._replace(local=frozenset((x,)))) is None
    assert match(nest._replace(passes=nest.passes[1:])) is None


def test_the_gradient_of_a_network_of_convolutions_compiles_whole() -> None:
    def conv(x: Any, w: Any, stride: int, groups: int = 1) -> Any:
        return lax.conv_general_dilated(x, w, (stride, stride), [(1, 1)] * 2, feature_group_count=groups)

    def network(weights: list[Any], x: Any) -> Any:
        x = tnp.maximum(conv(x, weights[0], 1) + weights[1][None, :, None, None], 0)
        x = conv(tnp.maximum(conv(x, weights[2], 2), 0), weights[3], 1, 4)
        return (x.mean((2, 3)) @ weights[4]).sum() + (x**2).mean()

    shapes = [(16, 3, 3, 3), (16,), (32, 16, 3, 3), (16, 8, 3, 3), (16, 10)]
    weights = [tnp.asarray(normal(shape, seed=i) * 0.1) for i, shape in enumerate(shapes)]
    x = tnp.asarray(normal((2, 3, 14, 14)))
    graph = tinyfn.jit(tinyfn.value_and_grad(network)).graph(weights, x)
    steps = group(graph)
    assert all(isinstance(step, Kernel) for step in steps)
    arrays = {n: np.ascontiguousarray(v) for n, v in zip(graph.inputs, [*weights, x], strict=True)}
    for step in steps:
        run_kernel(step, arrays, 3)
    wide = graph.run([np.asarray(v) for v in (*weights, x)])
    for node, expected in zip(graph.outputs, wide, strict=True):
        scale = float(np.max(np.abs(expected)))
        np.testing.assert_allclose(arrays[node], np.asarray(expected), rtol=1e-4, atol=1e-5 * scale)


def test_a_factor_at_a_place_that_data_chooses() -> None:
    """The position of such a factor is not linear, though it depends on no range."""
    x, table = np.random.default_rng(0).normal(size=(2, 7)).astype(np.float32)
    row = np.array([5], np.int32)

    def f(x: Any, table: Any, row: Any) -> Any:
        return lax.dot_general(x, table[row], (((), ()), ((), ())))

    for place in (0, 5, 6):
        got = tinyfn.jit(f)(*map(tnp.asarray, (x, table, row * 0 + place)))
        np.testing.assert_allclose(np.asarray(got), np.outer(x, table[[place]]), rtol=1e-6)
