"""Programs with symbolic dimensions: compiled once, run at any size, with the results of programs of that size."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import nn
from tinyfn.devices import cpu, default_device, program, set_default_device
from tinyfn.devices.program import Program
from tinyfn.devices.symbolic import MOST_LAYOUTS, SymbolicProgram
from tinyfn.devices.threads import num_threads, set_num_threads
from tinyfn.trace.execute import step
from tinyfn.trace.simplify import simplify
from tinyfn.transforms.structured import replace_calls

n = tinyfn.Variable("n", 1, 67)
SIZES = (1, 2, 3, 16, 17, 64, 67)
SHAPE = tinyfn.ShapeDtypeStruct


def layer_norm(x: Any) -> Any:
    return (x - x.mean(1, keepdims=True)) / tnp.sqrt(x.var(1, keepdims=True) + 1e-5)


def picked_loss(x: Any) -> Any:
    return -(nn.log_softmax(x) * tnp.arange(9.0)).sum(1).mean()


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: tnp.exp(x) * 2 + x,
    "a bias": lambda x: x + tnp.arange(9.0),
    "a broadcast of a column": lambda x: x * x[:, :1],
    "rows summed": lambda x: x.sum(1),
    "columns summed": lambda x: x.sum(0),
    "everything summed": lambda x: (x * x).sum(),
    "the mean of columns, then used": lambda x: x.mean(0) * x,
    "variance": lambda x: x.var(0),
    "any": lambda x: (x > 2).any(0),
    "maximum": lambda x: x.max(),
    "softmax": nn.softmax,
    "softmax along n": lambda x: nn.softmax(x, axis=0),
    "softmax of the transpose": lambda x: nn.softmax(x.T),
    "layer norm": layer_norm,
    "a loss": picked_loss,
    "its gradient": tinyfn.grad(picked_loss),
    "transpose": lambda x: x.T * 2,
    "the transpose summed": lambda x: (x.T * 2).sum(0),
    "reshape": lambda x: x.reshape(-1) + 1,
    "concatenation": lambda x: tnp.concatenate([x, 2 * x], 0) + 1,
    "padding": lambda x: tnp.pad(x, ((1, 1), (0, 2))),
    "half precision": lambda x: (x.astype("float16") * 3).sum(0),
    "bytes": lambda x: (x * 10).astype("int8") + 1,
    "several outputs": lambda x: (x + 1, x.sum(0), x.max(1)),
    "an op by its reference": lambda x: tnp.cumsum(x * 2, 0) + x,
    "n itself": lambda x: x * x.shape[0] + x.shape[0],
    "matmul": lambda x: x @ tnp.arange(63.0).reshape(9, 7),
    "matmul, bias, activation": lambda x: tnp.maximum(
        x @ tnp.arange(63.0).reshape(9, 7) / 9 + tnp.arange(7.0), 0
    ),
    "matmul of an expression": lambda x: tnp.exp(x) @ tnp.arange(63.0).reshape(9, 7),
    "a vector": lambda x: x @ tnp.arange(9.0),
    "a sum of products over n": lambda x: x.T @ tnp.exp(x),
    "products of rows": lambda x: x @ x.T,
    "matmul from the left": lambda x: tnp.arange(63.0).reshape(7, 9) @ x.T,
    "a batch of matmuls": lambda x: x.reshape(-1, 3, 3) @ tnp.arange(6.0).reshape(3, 2),
}


def values(size: int, columns: int = 9) -> np.ndarray:
    return np.random.default_rng(size).normal(size=(size, columns)).astype(np.float32)


def symbolic(function: Callable[..., Any], *shapes: Any) -> tuple[SymbolicProgram, list[np.ndarray]]:
    """The program of a function of float32 arrays, and what it captured."""
    traced = tinyfn.make_graph(function)(*[SHAPE(shape, np.float32) for shape in shapes])
    graph = simplify(replace_calls(traced))
    return SymbolicProgram(graph, step), [np.asarray(a) for a in traced.captured]


def looked_for() -> int:
    """How often somebody wanted machine code, that of this process's cache included."""
    return cpu.counts["memory"] + cpu.counts["disk"] + cpu.counts["emit"]


def close(got: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    """The dtype and shape are right, and differences are less than some epsilons of the largest element."""
    assert got.dtype == want.dtype and got.shape == want.shape
    wide = want.astype(np.float64)
    largest = max(1.0, float(np.abs(wide).max()))
    epsilon = tnp.finfo(want.dtype).eps if want.dtype.kind == "f" else 0
    np.testing.assert_allclose(
        got.astype(np.float64), wide, rtol=0, atol=tolerance * float(epsilon) * largest
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_the_program_of_that_size(name: str) -> None:
    compiled, captured = symbolic(FUNCTIONS[name], (n, 9))
    for size in SIZES:
        x = values(size)
        want = Program(compiled.graph.bind({n: size}), step)([x, *captured])
        before = looked_for()
        got = compiled([x, *captured])
        assert looked_for() == before, "it was compiled again"
        for a, b in zip(got, want, strict=True):
            close(a, b, 16)


def mlp_loss(parameters: Any, x: Any, y: Any) -> Any:
    hidden = nn.gelu(x @ parameters["w"] + parameters["b"])
    return -(nn.log_softmax(hidden @ parameters["v"] + parameters["c"]) * y).sum(1).mean()


def mlp(size: int) -> tuple[Any, Any, Any]:
    generator = np.random.default_rng(size)

    def normal(*shape: int) -> Any:
        return tnp.asarray((generator.normal(size=shape) / 8).astype(np.float32))

    parameters = {"w": normal(50, 70), "b": normal(70), "v": normal(70, 10), "c": normal(10)}
    labels = np.eye(10, dtype=np.float32)[generator.integers(0, 10, size)]
    return parameters, normal(size, 50), tnp.asarray(labels)


def lowered_mlp() -> Any:
    parameters, _, _ = mlp(1)
    shapes = tinyfn.tree.map(lambda leaf: SHAPE(leaf.shape, leaf.dtype), parameters)
    step_function = tinyfn.jit(tinyfn.value_and_grad(mlp_loss))
    return step_function.lower(shapes, SHAPE((n, 50), np.float32), SHAPE((n, 10), np.float32))


@pytest.fixture
def compiling() -> Iterator[None]:
    before = default_device()
    set_default_device("cpu")
    yield
    set_default_device(before)


@pytest.mark.usefixtures("compiling")
def test_a_loss_and_its_gradient_are_compiled_once_for_all_sizes() -> None:
    run = lowered_mlp().compile()
    reference = tinyfn.value_and_grad(mlp_loss)  # op by op
    tinyfn.jit(lambda x: x + 1)(tnp.ones(3))  # what runs kernels is compiled as well, by the first call
    before = num_threads()
    before_any = looked_for()
    try:
        for size in SIZES:
            arguments = mlp(size)
            set_num_threads(1)
            one = tinyfn.tree.leaves(run(*arguments))
            set_num_threads(2)
            two = tinyfn.tree.leaves(run(*arguments))
            assert looked_for() == before_any
            want = tinyfn.tree.leaves(reference(*arguments))
            for a, b, c in zip(one, two, want, strict=True):
                assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
                close(np.asarray(a), np.asarray(c), 16)
    finally:
        set_num_threads(before)


@pytest.mark.usefixtures("compiling")
def test_training_steps_of_any_size_update_donated_parameters_in_place() -> None:
    def step_of(parameters: Any, momentum: Any, x: Any, y: Any) -> Any:
        gradient = tinyfn.grad(mlp_loss)(parameters, x, y)
        momentum = tinyfn.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
        return tinyfn.tree.map(lambda p, m: p - 0.1 * m, parameters, momentum), momentum

    parameters, _, _ = mlp(1)
    momentum = tinyfn.tree.map(tnp.zeros_like, parameters)
    shapes = tinyfn.tree.map(lambda leaf: SHAPE(leaf.shape, leaf.dtype), parameters)
    jitted = tinyfn.jit(step_of, donate_argnums=(0, 1))
    run = jitted.lower(shapes, shapes, SHAPE((n, 50), np.float32), SHAPE((n, 10), np.float32)).compile()
    wanted = tinyfn.tree.map(lambda a: a, (parameters, momentum))
    state = tinyfn.tree.map(lambda a: a + 0, (parameters, momentum))
    for size in (16, 16, 3, 67, 16):
        _, x, y = mlp(size)
        wanted = tinyfn.jit(step_of)(*wanted, x, y)
        before = {leaf.value.ctypes.data for leaf in tinyfn.tree.leaves(state)}
        state = run(*state, x, y)
        after = [leaf.value.ctypes.data for leaf in tinyfn.tree.leaves(state)]
        assert before.intersection(after), "nothing was written in place"
        for a, b in zip(tinyfn.tree.leaves(state), tinyfn.tree.leaves(wanted), strict=True):
            close(np.asarray(a), np.asarray(b), 64)


@pytest.mark.usefixtures("compiling")
def test_sizes_that_do_not_fit_are_named() -> None:
    run = lowered_mlp().compile()
    parameters, x, y = mlp(68)
    with pytest.raises(ValueError, match=r"dimension n is 68 in argument `x`, but it must be in \[1, 67\]"):
        run(parameters, x, y)
    with pytest.raises(ValueError, match=r"dimension n is 5 in argument `y`, but it is 6 elsewhere"):
        run(parameters, x[:6], y[:5])
    with pytest.raises(
        TypeError, match=r"argument `x` is float32\[6,49\], but it was compiled for float32\[n,50\]"
    ):
        run(parameters, x[:6, :49], y[:6])
    with pytest.raises(TypeError, match="argument `x` is float32"):
        run(parameters, x[:6, :, None], y[:6])


@pytest.mark.usefixtures("compiling")
def test_a_compiled_function_of_any_size_within_a_trace() -> None:
    run = tinyfn.jit(picked_loss).lower(SHAPE((n, 9), np.float32)).compile()
    x = tnp.asarray(values(5))
    np.testing.assert_allclose(tinyfn.grad(run)(x), tinyfn.grad(picked_loss)(x), rtol=1e-5, atol=1e-6)


def test_estimates_are_expressions() -> None:
    lowered = lowered_mlp()
    assert sum(kernel.variables == (n,) for kernel in lowered.kernels) >= 5
    for size in (3, 67):
        parameters, x, y = mlp(size)
        fixed = tinyfn.jit(tinyfn.value_and_grad(mlp_loss)).lower(parameters, x, y)
        ops = lowered.estimates.at({n: size}).ops
        assert 0.9 * fixed.estimates.ops <= ops <= 1.1 * fixed.estimates.ops
    assert "2500*n" in str(tinyfn.jit(lambda x: x * 3 + 1).lower(SHAPE((n, 1250), np.float32)))


def test_layouts_are_bounded() -> None:
    m = tinyfn.Variable("m", 0, 1000)
    compiled, _ = symbolic(lambda x: x * 2, (m,))
    for size in range(2 * MOST_LAYOUTS):
        (got,) = compiled([np.arange(size, dtype=np.float32)])  # empty arrays as well
        np.testing.assert_array_equal(got, 2 * np.arange(size, dtype=np.float32))
    assert len(compiled._layouts) == MOST_LAYOUTS


def test_two_dimensions() -> None:
    m = tinyfn.Variable("m", 1, 40)
    compiled, _ = symbolic(lambda x, y: (nn.softmax(x @ y), (x.T @ x).sum(0)), (n, m), (m, n))
    for sizes in ((1, 1), (5, 40), (67, 3), (17, 16)):
        x, y = values(*sizes), values(sizes[1], sizes[0])
        want = Program(compiled.graph.bind({n: sizes[0], m: sizes[1]}), step)([x, y])
        for a, b in zip(compiled([x, y]), want, strict=True):
            close(a, b, 32)


def test_a_large_bound_costs_nothing() -> None:
    large = tinyfn.Variable("n", 1, 1 << 30)
    compiled, _ = symbolic(lambda x: (nn.softmax(x), x.sum(0)), (large, 1000))
    x = values(300, 1000)
    got = compiled([x])
    want = Program(compiled.graph.bind({large: 300}), step)([x])
    for a, b in zip(got, want, strict=True):
        close(a, b, 16)


wide = tinyfn.Variable("n", 1, 3000)
CONTRACTIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[Any, ...], ...]]] = {
    "rows": (lambda x, w: x @ w, ((wide, 70), (70, 50))),
    "many blocks": (lambda x, w: x @ w, ((wide, 600), (600, 700))),
    "rows of an expression": (lambda x, w: tnp.tanh(x) @ w + 1, ((wide, 70), (70, 50))),
    "rows times a transpose": (lambda x, w: tnp.maximum(x @ w.T, 0), ((wide, 300), (50, 300))),
    "long sums": (lambda x, y: x.T @ y, ((wide, 30), (wide, 40))),
    "long sums of expressions": (lambda x, y: tnp.tanh(x).T @ tnp.exp(y), ((wide, 30), (wide, 40))),
    "long sums along rows": (lambda x, y: x @ y, ((20, wide), (wide, 40))),
    "a batch": (lambda x, w: nn.softmax(x @ w), ((wide, 6, 20), (wide, 20, 5))),
    "rows of a batch": (lambda x, w: x @ w, ((wide, 6, 20), (20, 5))),
    "attention": (
        lambda q, k: nn.softmax(tnp.einsum("bthd,bshd->bhts", q, k)),
        ((wide, 5, 2, 8), (wide, 5, 2, 8)),
    ),
    "a batch of images": (
        lambda x, w: nn.relu(tinyfn.lax.conv(x, w, (1, 1), "SAME")),
        ((wide, 3, 7, 7), (5, 3, 3, 3)),
    ),
}


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_contractions_of_any_number_of_rows_or_products(name: str) -> None:
    function, shapes = CONTRACTIONS[name]
    compiled, _ = symbolic(function, *shapes)
    before = num_threads()
    try:
        for size in (1, 5, 63, 300, 1111):
            generator = np.random.default_rng(size)
            arrays = [
                generator.normal(size=[size if d is wide else d for d in shape]).astype(np.float32)
                for shape in shapes
            ]
            set_num_threads(1)
            (got,) = compiled(arrays)
            set_num_threads(2)
            assert compiled(arrays)[0].tobytes() == got.tobytes()
            (want,) = compiled.graph.bind({wide: size}).run(arrays)
            close(got, np.asarray(want), 64)
    finally:
        set_num_threads(before)


# Memory


def _guarded(shape: tuple[int, ...], dtype: Any, at_end: bool) -> np.ndarray:
    """An array that ends where memory begins that nobody may touch, or begins where such memory ends."""
    page, size = mmap.PAGESIZE, prod(shape) * np.dtype(dtype).itemsize
    inner = max(1, -(-size // page)) * page
    memory = mmap.mmap(-1, inner + 2 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    for begin in (address, address + page + inner):
        assert libc.mprotect(ctypes.c_void_p(begin), ctypes.c_size_t(page), 0) == 0
    offset = page + (inner - size if at_end else 0)
    return np.frombuffer(memory, dtype, prod(shape), offset).reshape(shape)


EVERY = {name: (function, ((n, 9),), SIZES) for name, function in FUNCTIONS.items()}
EVERY |= {f"{name}, long": (*case, (1, 67, 700)) for name, case in CONTRACTIONS.items()}


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("name", EVERY)
def test_nothing_outside_of_arrays_is_touched(name: str, at_end: bool, monkeypatch: Any) -> None:
    def guarded(shape: tuple[int, ...], dtype: Any) -> Callable[[], np.ndarray]:
        return lambda: _guarded(shape, dtype, at_end)

    monkeypatch.setattr(program, "result_maker", guarded)
    monkeypatch.setattr(type(program.BUFFERS), "maker", lambda self, shape, dtype: guarded(shape, dtype))
    function, shapes, sizes = EVERY[name]
    compiled, captured = symbolic(function, *shapes)
    for size in sizes:
        arrays = [
            _guarded(tuple([d if isinstance(d, int) else size for d in s]), np.float32, at_end)
            for s in shapes
        ]
        for number, array in enumerate(arrays):
            array[...] = np.random.default_rng(number).normal(size=array.shape)
        arrays += captured
        bound = compiled.graph.bind(compiled.graph.sizes(arrays))
        for a, b in zip(compiled(arrays), bound.run(arrays), strict=True):
            close(a, np.asarray(b), 64)
