"""Nests as CUDA kernels, run on the CPU: they compute what they mean, in any order of the threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.cuda.emulator import Emulated, unwritten
from tests.cuda.running import Programs, kernels, launch
from tests.lower import pointwise
from tests.lower.test_nests import FUNCTIONS, agree, lowered
from tests.lower.test_render_nests import CASES, Case, add, array, at, clamped, mul, ranges, values
from tests.lower.test_render_parts import LEAVES, one_kernel, partial_sums
from tinyfn.devices.nvrtc import compile_cuda
from tinyfn.lower import cuda_schedule, render_cuda
from tinyfn.lower.index import load
from tinyfn.lower.interpret import run_nest
from tinyfn.lower.nest import Kernel, Nest, Pass, Reduce, Store, result
from tinyfn.lower.opts import Opt, OptError, OptOps
from tinyfn.lower.render_cuda import Code, render
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import prims as p
from tinyfn.trace import scalar as s
from tinyfn.trace import sint
from tinyfn.trace.uop import UOp, const

SHAPES = [(1, 1), (4, 5), (33, 65), (3, 200), (128, 40), (2, 1500)]


def test_nests_of_functions() -> None:
    cases = [(name, shape) for name in FUNCTIONS for shape in SHAPES]
    graphs = []
    for name, shape in cases:
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        graphs.append(lowered(FUNCTIONS[name], x))
    programs = Programs([graph for graph, _ in graphs])
    for number, ((name, shape), (graph, given)) in enumerate(zip(cases, graphs, strict=True)):
        try:
            agree(programs.run(number, graph, given), graph.run(given))
        except AssertionError as error:
            raise AssertionError(f"{name} of {shape}: {error}") from error


def row_of(size: int, reads: Callable[[UOp], UOp]) -> Case:
    """Each row doubled and kept, and what was kept elsewhere in the row, plus the row's sum."""
    x, out, total = array(3, size), array(3, size), array(3)
    buffer = array(size)
    o, k = sint.Variable("o0", 0, 2), sint.Variable("i0", 0, size - 1)
    doubled = mul(load(x, (o, k)), const(2, dtypes.float32))
    first = Pass((k,), (Reduce(total, s.ADD, doubled),), (Store(buffer, at(k), doubled),))
    second = Pass((k,), (), (Store(out, at((o, size), k), add(load(buffer, (reads(k),)), result(total))),))
    return Nest((o,), (first, second), frozenset((buffer,))), values(x)


def columns_and_rows() -> Case:
    """Two sums of one pass, of which one is stored and read again by all threads of the point."""
    x, out, kept, high, total = array(5, 300), array(5, 300), array(5), array(5), array(5)
    (o,), (k,) = ranges("o", 5), ranges("i", 300)
    element = load(x, (o, k))
    first = Pass((k,), (Reduce(total, s.ADD, element), Reduce(high, s.MAX, element)), ())
    second = Pass((), (), (Store(kept, at(o), add(result(total), result(high))),))
    third = Pass((k,), (), (Store(out, at((o, 300), k), add(load(kept, (o,)), element)),))
    return Nest((o,), (first, second, third), frozenset()), values(x)


def row_written_again() -> Case:
    """A row whose elements are written at several points of a pass: the last one counts."""
    x, out = array(3, 5, 40), array(3, 5, 40)
    (o,), (i, k), buffer = ranges("o", 3), ranges("i", 5, 40), array(40)
    first = Pass((i, k), (), (Store(out, at((o, 200), (i, 40), k), load(x, (o, i, k))),))
    keep = Pass((k,), (), (Store(buffer, at(k), load(x, (o, 4, k))),))
    again = Pass(
        (i, k), (), (Store(out, at((o, 200), (i, 40), k), add(load(buffer, (k,)), load(x, (o, i, k)))),)
    )
    return Nest((o,), (first, keep, again), frozenset((buffer,))), values(x)


def row_read_by_data() -> Case:
    """A row that is read where another array says, only if a condition on the row itself holds."""
    x, where, out = array(3, 90), array(90, dtype=dtypes.int32), array(3, 90)
    (o,), (k,), buffer = ranges("o", 3), ranges("i", 90), array(90)
    keep = Pass((k,), (), (Store(buffer, at(k), load(x, (o, k))),))
    positive = s.build(s.LT, const(0, dtypes.float32), load(buffer, (k,)))
    picked = load(buffer, (clamped(load(where, (k,)), 90),), positive)
    return Nest((o,), (keep, Pass((k,), (), (Store(out, at((o, 90), k), picked),))), frozenset((buffer,))), {
        **values(x),
        **values(where, low=-10, high=120),
    }


NESTS: dict[str, Callable[[], Case]] = {
    **CASES,
    "columns_and_rows": columns_and_rows,
    "row_written_again": row_written_again,
    "row_read_by_data": row_read_by_data,
    "row in registers": lambda: row_of(100, lambda k: k),
    "row in shared memory": lambda: row_of(100, lambda k: sint.sub(99, k)),
    "row in the shared memory of a block": lambda: row_of(5000, lambda k: sint.sub(4999, k)),
    "long row in registers": lambda: row_of(5000, lambda k: k),
    "row in scratch memory": lambda: row_of(20_000, lambda k: sint.sub(19_999, k)),
    "long row of which threads read their own": lambda: row_of(20_000, lambda k: k),
}


@pytest.mark.parametrize("group", [None, 1, 32, 256])
def test_nests_by_hand(group: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every nest with each number of threads to a point."""
    if group is not None:
        monkeypatch.setattr(
            cuda_schedule, "_group", lambda nest: group if any(e.inner for e in nest.every()) else 1
        )
    made = [(name, *case()) for name, case in NESTS.items()]
    codes = [render(Kernel((nest,))) for _, nest, _ in made]
    emulated = Emulated(codes)
    for (name, nest, given), code in zip(made, codes, strict=True):
        want, got = dict(given), dict(given)
        if sum(a.size for a in given.values()) < 3000:
            pointwise.run(nest, want)
        else:
            run_nest(nest, want)
        try:
            launch(emulated, code, got)
            for node in nest.stored:
                np.testing.assert_array_equal(got[node], want[node])
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


def test_where_a_row_is_kept() -> None:
    def plan(name: str) -> cuda_schedule.Mapping:
        return cuda_schedule.apply(nest := NESTS[name]()[0], cuda_schedule.choose(nest))

    assert plan("row in registers").registers and plan("long row in registers").registers
    assert plan("row in shared memory").group == 32 and plan("row in shared memory").row_bytes == 400
    assert plan("row in the shared memory of a block").row_bytes == 20_000
    assert plan("row in scratch memory").in_workspace


def test_neighbouring_points_are_loaded_and_stored_as_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_schedule, "ENOUGH_THREADS", 1)
    functions: dict[str, tuple[Callable[..., Any], int]] = {
        "flat": (lambda x: x * 2 + 1, 4),
        "narrow": (lambda x: x.astype("bfloat16") * x.astype("bfloat16"), 4),
        "row": (lambda x: x * x[0] + x[:, :1], 4),
        "transposed": (lambda x: (x.T + 1)[:, :, None] * tnp.arange(8.0), 4),
        "transposed only": (lambda x: x.T + 1, 4),
        "shifted": (lambda x: x[:, 1:61] + x[:, 4:], 4),
        "bytes": (lambda x: (x > 0) & (x < 1), 4),
        "wide": (lambda x: x.astype("float64") * 2, 2),
        "iota": (lambda x: x + tnp.arange(64), 4),
    }
    x = np.random.default_rng(0).normal(size=(36, 64)).astype(np.float32)
    graphs = {name: lowered(function, x) for name, (function, _) in functions.items()}
    programs = Programs([graph for graph, _ in graphs.values()])
    for number, (name, (graph, given)) in enumerate(graphs.items()):
        codes = [each for each in programs.steps[number] if isinstance(each, Code)]
        assert f", {functions[name][1]}> vector" in codes[0].source, name
        agree(programs.run(number, graph, given), graph.run(given))
    odd, given = lowered(lambda x: x * 2, x[:3, :3])
    assert "Vector" not in render(kernels(odd)[0]).source


def test_long_columns_are_divided_among_threads() -> None:
    functions: dict[str, Callable[..., Any]] = {
        "sum": lambda x: x.sum(0),
        "several": lambda x: (x.max(0), (x * x).sum(0), x.mean(0)),
        "centered": lambda x: x - x.mean(0),
        "middle": lambda x: x.reshape(2, -1, x.shape[1]).sum(1),
        "weighted": lambda x: (x * x[:, :1] * (x[:, -1:] + 1)).sum(0),
    }
    graphs = []
    for name, function in functions.items():
        for shape in [(200, 1), (200, 45), (130, 5000), (1000, 64)]:
            x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
            graphs.append((name, shape, *lowered(function, x)))
    programs = Programs([graph for *_, graph, _ in graphs])
    for number, (name, shape, graph, given) in enumerate(graphs):
        used = "".join(each.source for each in programs.steps[number] if isinstance(each, Code))
        assert shape[1] == 1 or f"column_reduce<{32 if shape[1] > 4224 else 8}>" in used, (name, shape)
        try:
            agree(programs.run(number, graph, given, (0, 1)), graph.run(given))
        except AssertionError as error:
            raise AssertionError(f"{name} of {shape}: {error}") from error


def test_schedules_replay() -> None:
    nest, given = NESTS["row in shared memory"]()
    codes = [
        render(Kernel((nest,)), ((opt,),)) for opt in (Opt(OptOps.GROUP, 1, 32), Opt(OptOps.GROUP, 1, 256))
    ]
    assert render(Kernel((nest,)), codes[0].opts) == codes[0] == render(Kernel((nest,)))
    emulated = Emulated(codes)
    results = []
    for code in codes:
        arrays = dict(given)
        launch(emulated, code, arrays)
        results.append(arrays)
    for node in nest.stored:
        np.testing.assert_array_equal(results[0][node], results[1][node])
    for wrong in (
        (Opt(OptOps.GROUP, 0, 32),),
        (Opt(OptOps.GROUP, 1, 64),),
        (Opt(OptOps.UPCAST, 0, 4),),
        (Opt(OptOps.SWAP, 0, 1),),
    ):
        with pytest.raises(OptError):
            render(Kernel((nest,)), (wrong,))


def run_kernel(kernel: Kernel, given: dict[UOp, np.ndarray]) -> Code:
    """Run a kernel, and compare all that it stores with what its nests mean."""
    want, got = dict(given), dict(given)
    for nest in (*kernel.parts, *kernel.finish):
        run_nest(nest, want)
    code = render(kernel)
    launch(Emulated([code]), code, got)
    for nest in (*kernel.parts, *kernel.finish):
        for node in nest.stored:
            np.testing.assert_allclose(got[node], want[node], rtol=1e-5, atol=1e-5)
    assert compile_cuda(code.source, "sm_90")[:4] == b"\x7fELF"
    return code


def test_equal_parts_share_their_function() -> None:
    kernel, given = one_kernel(lambda *xs: [tnp.exp(x) + x for x in xs], *[(4, 9), (30,)] * 100)
    code = run_kernel(kernel, given)
    assert code.source.count("__forceinline__ void part") == 2 and code.grid == 200
    kernel, given = one_kernel(lambda *xs: [x * 2 + 1 for x in xs], *LEAVES)
    run_kernel(kernel, given)


def test_more_arguments_than_a_launch_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_cuda, "MOST_ARGUMENTS", 10)
    kernel, given = one_kernel(lambda *xs: [x * 2 + 1 for x in xs], *LEAVES)
    assert run_kernel(kernel, given).indirect


def test_parts_of_different_kinds() -> None:
    def function(x: Any, y: Any, z: Any) -> Any:
        shifted = x - x.max(-1, keepdims=True)
        return shifted / shifted.sum(-1, keepdims=True), y.sum(0), z * 2, (x.T + 1), y.sum(1)

    run_kernel(*one_kernel(function, (33, 17), (65, 3000), (3, 5)))


@pytest.mark.parametrize("parts", [1, 2])
def test_finish_runs_after_all_parts(parts: int) -> None:
    code = run_kernel(*partial_sums(parts))
    assert code.scratch and "is_last_block" in code.source


def partial_columns(rows: int, columns: int, pieces: int) -> tuple[Kernel, dict[UOp, np.ndarray]]:
    """Sums of columns by pieces of the rows, and a finish that adds up the pieces and then squares the sums."""
    x = array(pieces, rows, columns)
    partial, total, square = array(pieces, columns), array(columns), array(columns)
    o, c = sint.Variable("o0", 0, pieces - 1), sint.Variable("o1", 0, columns - 1)
    i, k = sint.Variable("i0", 0, rows - 1), sint.Variable("i0", 0, pieces - 1)
    sums = Pass((i,), (Reduce(partial, s.ADD, load(x, (o, i, c))),), ())
    part = Nest(
        (o, c), (sums, Pass((), (), (Store(partial, at((o, columns), c), result(partial)),))), frozenset()
    )
    whole = p.reduce_sum(partial, axes=(0,))
    last = Nest(
        (c,),
        (
            Pass((k,), (Reduce(whole, s.ADD, load(partial, (k, c))),), ()),
            Pass((), (), (Store(total, at(c), result(whole)),)),
        ),
        frozenset(),
    )
    squares = Nest(
        (c,), (Pass((), (), (Store(square, at(c), mul(load(total, (c,)), load(total, (c,)))),)),), frozenset()
    )
    return Kernel((part,), (last, squares)), values(x)


def test_a_finish_of_many_points_can_be_launched_again() -> None:
    for rows, columns, pieces in [(5, 700, 6), (3, 1, 2000), (40, 90, 9)]:
        kernel, given = partial_columns(rows, columns, pieces)
        code = run_kernel(kernel, given)
        # The count of blocks is zero again after a launch: the scratch memory of one serves the next.
        scratch = np.zeros(code.scratch, np.uint8)
        made = given | {n: unwritten(n.shape, n.dtype) for n in code.arguments if n not in given}
        arrays = [made[n] for n in code.arguments]
        emulated = Emulated([code])
        *_, after = emulated.run(code._replace(scratch=0), [*arrays, scratch])
        assert not after[:4].any()


def test_kernels_compile_for_a_gpu() -> None:
    nests = [case()[0] for case in NESTS.values()]
    assert compile_cuda(render(Kernel(tuple(nests))).source, "sm_90")[:4] == b"\x7fELF"


def test_whole_functions() -> None:
    """Rows of several passes, losses and their gradients, attention, gathers, padding and concatenation."""
    rng = np.random.default_rng(0)
    x, w, b, ids = (
        rng.normal(size=(37, 70)).astype(np.float32),
        rng.normal(size=(70, 33)).astype(np.float32),
        rng.normal(size=33).astype(np.float32),
        rng.integers(0, 33, 37).astype(np.int32),
    )
    heads = rng.normal(size=(2, 9, 3, 8)).astype(np.float32)

    def loss(w: Any, b: Any, x: Any) -> Any:
        picked = tinyfn.nn.log_softmax(x @ w + b)
        return -tnp.take_along_axis(picked, tnp.asarray(ids)[:, None], 1).mean()

    def attention(q: Any) -> Any:
        scores = tnp.einsum("bthd,bshd->bhts", q, q * 2) / 8
        return tnp.einsum("bhts,bshd->bthd", tinyfn.nn.softmax(scores), q)

    functions: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (lambda x: tinyfn.nn.softmax(x), (x,)),
        (lambda x: tinyfn.nn.log_softmax(x, 0), (x,)),
        (loss, (w, b, x)),
        (tinyfn.grad(loss, (0, 1, 2)), (w, b, x)),
        (attention, (heads,)),
        (lambda x, i: x[i] * 2, (w, ids)),
        (lambda x: tnp.pad(x, 3) + 1, (x,)),
        (lambda x: tnp.concatenate([x, x * 2, x[:, :3]], 1), (x,)),
        (lambda x: (x.T @ x, x.sum(0), (x * x).sum()), (x,)),
    ]
    graphs = []
    for function, args in functions:
        graph = tinyfn.jit(function).graph(*map(tnp.asarray, args))
        graphs.append((graph, [*args, *[array.value for array in graph.captured]]))
    programs = Programs([graph for graph, _ in graphs])
    for number, (graph, given) in enumerate(graphs):
        for got, want in zip(programs.run(number, graph, given), graph.run(given), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=f"function {number}")
