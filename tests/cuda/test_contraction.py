"""Contractions as CUDA kernels: whatever precedes and follows the product, they give what NumPy gives in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.cuda.emulator import Emulated
from tests.cuda.running import launch
from tests.lower.contractions import contraction_nest
from tests.lower.test_gemm_nest import CONVOLUTIONS, MATRIX, cases, close, nest_of, normal
from tinyfn.devices.nvrtc import compile_cuda
from tinyfn.lower import cuda_contraction
from tinyfn.lower.index import load
from tinyfn.lower.nest import Kernel, Nest, Store, result
from tinyfn.lower.opts import Opt, OptError, OptOps
from tinyfn.lower.render_cuda import Code, render
from tinyfn.lower.tensor_cores import cuda_tensor_cores
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import prims as p
from tinyfn.trace import scalar, sint
from tinyfn.trace.elements import Index, as_node, position
from tinyfn.trace.formulas import cast
from tinyfn.trace.uop import UOp, const, input_node

Arrays = dict[UOp, np.ndarray]


def run(nests: Sequence[tuple[Nest, Arrays]], orders: Sequence[int] = (0, 1)) -> list[tuple[Arrays, Code]]:
    """What nests make of arrays, all compiled together."""
    codes = [render(Kernel((nest,))) for nest, _ in nests]
    emulated = Emulated(codes)
    made = []
    for code, (_, given) in zip(codes, nests, strict=True):
        arrays = dict(given)
        launch(emulated, code, arrays, orders)
        made.append((arrays, code))
    return made


def is_tiled(code: Code) -> bool:
    return "first_left" in code.source


def product(m: int, k: int, n: int, dtype: Any = np.float32, flipped: str = "") -> tuple[UOp, Arrays]:
    """A matrix product, with operands that are transposed in memory where `flipped` says so."""
    x, y = normal((m, k), dtype), normal((k, n), dtype, seed=1)
    stored = [a.T if name in flipped else a for name, a in (("x", x), ("y", y))]
    inputs = [input_node(a.dtype, a.shape) for a in stored]
    sides = [
        p.transpose(node, permutation=(1, 0)) if name in flipped else node
        for name, node in zip("xy", inputs, strict=True)
    ]
    return p.dot_general(*sides, **MATRIX), dict(zip(inputs, map(np.ascontiguousarray, stored), strict=True))


SHAPES = [(8, 1, 8), (33, 17, 40), (64, 64, 64), (70, 5, 131), (9, 100, 65)]


def test_matrices_of_odd_sizes_transposed_on_either_side() -> None:
    made = [product(*shape, flipped=flipped) for shape in SHAPES for flipped in ("", "x", "y", "xy")]
    for (node, given), (arrays, code) in zip(
        made, run([(nest_of(node), given) for node, given in made]), strict=True
    ):
        x, y = (a.astype(np.float64) for a in given.values())
        x, y = (a.T if n.op is p.transpose else a for n, a in zip(node.src, (x, y), strict=True))
        assert is_tiled(code)
        close(arrays[node], x @ y, x.shape[1], np.abs(x) @ np.abs(y))


@pytest.mark.parametrize("tile", range(3))
def test_every_tile_and_dtype(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_contraction, "TILES", cuda_contraction.TILES[tile : tile + 1])
    monkeypatch.setattr(cuda_contraction, "TENSOR_TILES", cuda_contraction.TENSOR_TILES[tile : tile + 1])
    kinds = ("float32", "float16", "bfloat16", "float64", "int32", "int64", "uint32", "int8")
    shape = (65, 40, 130) if tile else (130, 20, 129)
    made = [product(*shape, dtype=dtypes.canonical(kind)) for kind in kinds]
    # Sizes that allow vectors, transposed on either side.
    for kind in ("float32", "float16", "float64"):
        for flipped in ("", "x", "y", "xy"):
            made.append(product(72, 40, 136, dtypes.canonical(kind), flipped))
    kinds += ("float32",) * 4 + ("float16",) * 4 + ("float64",) * 4
    for kind, (node, given), (arrays, code) in zip(
        kinds, made, run([(nest_of(node), given) for node, given in made], (1,)), strict=True
    ):
        assert is_tiled(code) and ("matrix_multiply" in code.source) == (kind in ("float16", "bfloat16"))
        wide = np.float64 if dtypes.is_float(dtypes.canonical(kind)) else np.int64
        x, y = (a.astype(wide) for a in given.values())
        x, y = (a.T if n.op is p.transpose else a for n, a in zip(node.src, (x, y), strict=True))
        if x.shape == (72, 40):
            assert code.source.count("> next_left[") == code.source.count("> next_right[") == 1
        close(
            arrays[node],
            (x @ y).astype(arrays[node].dtype) if wide is np.int64 else x @ y,
            x.shape[1],
            np.abs(x) @ np.abs(y),
        )


def test_schedules_replay() -> None:
    node, given = product(70, 40, 65, dtypes.float16)
    kernel = Kernel((nest_of(node),))
    chosen = render(kernel)
    assert [opt.op.name for opt in chosen.opts[0]] == ["TC", "LOCAL", "LOCAL", "UNROLL"]
    assert render(kernel, chosen.opts) == chosen
    # Other tiles, without tensor cores, and loops with a warp to a sum.
    others = [(chosen.opts[0][0], *with_sizes(chosen, (64, 64, 32)))]
    others += [with_sizes(chosen, (64, 64, 16)), (Opt(OptOps.GROUP, 2, 32),)]
    codes = [render(kernel, (opts,)) for opts in others]
    assert [is_tiled(code) for code in codes] == [True, True, False]
    x, y = (a.astype(np.float64) for a in given.values())
    emulated = Emulated(codes)
    for code in codes:
        arrays = dict(given)
        launch(emulated, code, arrays)
        close(arrays[node], x @ y, 40, np.abs(x) @ np.abs(y))
    with pytest.raises(OptError, match="no such tile"):
        render(kernel, (with_sizes(chosen, (100, 64, 16)),))


def with_sizes(code: Code, sizes: tuple[int, int, int]) -> tuple[Opt, ...]:
    tiles = [opt for opt in code.opts[0] if opt.op is not OptOps.TC]
    return tuple([opt._replace(arg=size) for opt, size in zip(tiles, sizes, strict=True)])


def test_every_sample() -> None:
    made = []
    for op, sample in cases():
        values = [np.asarray(a) for a in sample.args]
        node = op(*[input_node(a.dtype, a.shape) for a in values], **sample.params)
        if 0 not in node.shape:
            made.append((node, dict(zip(node.src, values, strict=True))))
    for (node, given), (arrays, _) in zip(
        made, run([(nest_of(node), given) for node, given in made]), strict=True
    ):
        with np.errstate(all="ignore"):
            reference = np.asarray(node.op.reference(*given.values(), **node.params))
        scale = np.abs(np.nan_to_num(reference.astype(np.float64), posinf=0, neginf=0)).max(initial=1)
        close(arrays[node], reference, 16, 8 * scale)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_convolutions(dtype: str) -> None:
    made = []
    for shape, window, given in CONVOLUTIONS:
        count = len(shape) - 2
        params = {n: (1,) * count for n in ("strides", "lhs_dilation", "rhs_dilation")}
        params |= {n: (0,) * count for n in ("low", "high")}
        params |= {"feature_groups": 1, "batch_groups": 1, **given}
        x, w = normal(shape, dtype), normal(window, dtype, 1)
        node = p.conv_general(input_node(x.dtype, shape), input_node(w.dtype, window), **params)
        made.append((node, dict(zip(node.src, (x, w), strict=True))))
    tiled = 0
    for (node, given), (arrays, code) in zip(
        made, run([(nest_of(node), given) for node, given in made], (0,)), strict=True
    ):
        x, w = (a.astype(np.float64) for a in given.values())
        expected = p.conv_general.reference(x, w, **node.params)
        scale = p.conv_general.reference(np.abs(x), np.abs(w), **node.params)
        close(arrays[node], expected, int(np.prod(w.shape[1:])), scale)
        tiled += is_tiled(code)
    assert tiled >= 4


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_bias_activation_residual_and_several_results(dtype: str) -> None:
    kind = dtypes.canonical(dtype)
    made = []
    for m, k, n in [(9, 40, 30), (33, 50, 129), (64, 32, 64)]:
        x, y, bias, residual = (
            normal(size, kind, i) for i, size in enumerate([(m, k), (k, n), (n,), (m, n)])
        )
        nodes = [input_node(a.dtype, a.shape) for a in (x, y, bias, residual)]
        node = p.dot_general(nodes[0], nodes[1], **MATRIX)
        outs = [input_node(d, (m, n)) for d in (kind, dtypes.float32, dtypes.bool_)]

        def finish(total: UOp, index: Index, nodes: Any = nodes, outs: Any = outs) -> list[tuple[UOp, UOp]]:
            build, single, zero = scalar.build, dtypes.float32, const(0, dtypes.float32)
            shifted = build(scalar.ADD, cast(total, single), cast(load(nodes[2], index[1:]), single))
            active = build(scalar.MAX, shifted, zero)
            final = build(scalar.ADD, active, cast(load(nodes[3], index), single))
            return [
                (outs[0], cast(final, kind)),
                (outs[1], shifted),
                (outs[2], build(scalar.LT, zero, shifted)),
            ]

        made.append(
            (
                nest_of(node, finish),
                nest_of(node),
                node,
                outs,
                dict(zip(nodes, (x, y, bias, residual), strict=True)),
            )
        )
    results = run([(nest, given) for nest, _, _, _, given in made])
    plain = run([(nest, given) for _, nest, _, _, given in made])
    for (_, _, node, outs, given), (arrays, _), (products, _) in zip(made, results, plain, strict=True):
        _, _, bias, residual = given.values()
        shifted = products[node].astype(np.float32) + bias.astype(np.float32)
        np.testing.assert_array_equal(arrays[outs[1]], shifted)
        np.testing.assert_array_equal(arrays[outs[2]], shifted > 0)
        want = (np.maximum(shifted, 0) + residual.astype(np.float32)).astype(kind)
        np.testing.assert_array_equal(arrays[outs[0]], want)


def test_heads_masks_and_gathers() -> None:
    b, t, h, d = 2, 19, 3, 8
    q, k = normal((b, t, h * d)), normal((b, t, h * d), seed=1)
    inputs = [input_node(dtypes.float32, q.shape) for _ in (q, k)]
    heads = [p.reshape(i, shape=(b, t, h, d)) for i in inputs]
    scores = p.dot_general(*heads, contract=((3,), (3,)), batch_axes=((0, 2), (0, 2)))
    # Rows of a table by their numbers, one of them beyond its end, and a causal mask in what is stored.
    table, ids, w = (
        normal((50, 24)),
        np.array([3, 49, 0, 7, 3, 70, 1, 2, 3], np.int32),
        normal((24, 33), seed=1),
    )
    nodes = [input_node(np.dtype(a.dtype), a.shape) for a in (table, ids, w)]
    o0, o1, i0 = sint.Variable("o0", 0, 8), sint.Variable("o1", 0, 32), sint.Variable("i0", 0, 23)
    at = sint.minimum(sint.maximum(cast(load(nodes[1], (o0,)), dtypes.int64), 0), 49)
    node, out = input_node(dtypes.float32, (9, 33)), input_node(dtypes.float32, (9, 33))
    kept = scalar.build(
        scalar.WHERE,
        scalar.build(scalar.LT, as_node(o1), as_node(sint.add(o0, 1))),
        result(node),
        const(-1, dtypes.float32),
    )
    store = Store(out, as_node(position((9, 33), (o0, o1))), kept)
    gathered = contraction_nest(
        (o0, o1), (i0,), node, load(nodes[0], (at, i0)), load(nodes[2], (i0, o1)), [store]
    )
    (first, one), (second, two) = run(
        [
            (nest_of(scores), dict(zip(inputs, (q, k), strict=True))),
            (gathered, dict(zip(nodes, (table, ids, w), strict=True))),
        ]
    )
    assert is_tiled(one) and is_tiled(two)
    qs, ks = (a.reshape(b, t, h, d).astype(np.float64) for a in (q, k))
    close(first[scores], np.einsum("bthd,bshd->bhts", qs, ks), d, 8.0)
    rows, columns = np.indices((9, 33))
    whole = table[np.minimum(ids, 49)].astype(np.float64) @ w
    close(second[out], np.where(columns < rows + 1, whole, -1), 24, 40.0)


def test_fragments_lie_as_the_tensor_core_says() -> None:
    core = cuda_tensor_cores(90)[0]
    assert core.dims == (
        cuda_contraction.CORE.columns,
        cuda_contraction.CORE.rows,
        cuda_contraction.CORE.depth,
    )
    for lane in range(32):
        group, member = divmod(lane, 4)
        for r in range(4):
            for half in range(2):
                place = core.a.position(lane, 2 * r + half)
                assert (place["m"], place["k"]) == (group + 8 * (r % 2), 2 * member + 8 * (r // 2) + half)
                if r < 2:
                    place = core.b.position(lane, 2 * r + half)
                    assert (place["n"], place["k"]) == (group, 2 * member + 8 * r + half)
            place = core.c.position(lane, r)
            assert (place["m"], place["n"]) == (group + 8 * (r // 2), 2 * member + r % 2)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int32"])
def test_it_compiles_for_a_gpu(dtype: str) -> None:
    for size in (64, 2048):
        x, y = (input_node(dtypes.canonical(dtype), shape) for shape in ((size, 100), (100, size + 1)))
        code = render(Kernel((nest_of(p.dot_general(x, y, **MATRIX)),)))
        assert is_tiled(code) and compile_cuda(code.source, "sm_90")[:4] == b"\x7fELF"
