"""Donated arguments are updated in place where that changes no result, and only where nobody else sees their memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import jit, optax_like
from tinyfn.devices import default_device, set_default_device
from tinyfn.trace.array import Array


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    before = default_device()
    set_default_device("cpu")
    yield
    set_default_device(before)


def numbers(*shape: int, seed: int = 0) -> Array:
    return tnp.asarray(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def fresh(array: Array) -> Array:
    """The same values in memory of its own, as a program's result is."""
    return jit(lambda x: x + 0.0)(array)


def where(array: Array) -> int:
    return np.asarray(array).ctypes.data


def run(function: Callable[..., Any], *args: Array, donate: Any = 0) -> tuple[Any, Any, list[int]]:
    """What a function gives without donation and with it, and the addresses that the arguments had."""
    wanted = jit(function)(*args)
    given = [fresh(a) for a in args]
    places = [where(a) for a in given]
    return wanted, jit(function, donate_argnums=donate)(*given), places


def leaves(tree: Any) -> list[Array]:
    return tinyfn.tree.leaves(tree)


SHAPES = [(48, 48), (101, 101), (300, 300)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1.0,
        lambda x: tnp.tanh(x) * x - x / 2.0,
        lambda x: x - x.max(-1, keepdims=True),
        lambda x: tinyfn.nn.softmax(x),
        lambda x: (x - x.mean(-1, keepdims=True)) * (x.var(-1, keepdims=True) + 1e-5),
        lambda x: x.view("int32") + 1,
    ],
)
def test_an_update_of_its_own_elements_is_in_place(
    function: Callable[..., Any], shape: tuple[int, int]
) -> None:
    wanted, got, places = run(function, numbers(*shape))
    assert where(got) == places[0]
    np.testing.assert_array_equal(np.asarray(got), np.asarray(wanted))
    with pytest.raises(ValueError):
        np.asarray(got)[...] = 0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + x.T,
        lambda x: x.T * 1.5,
        lambda x: x.reshape(-1) * 2.0,
        lambda x: x + x[::-1],
        lambda x: x + x[:, ::-1],
        lambda x: x + x[0],
        lambda x: x + x[:, :1],
        lambda x: x * x[3, 5],
        lambda x: x + tnp.roll(x, 1, 0),
        lambda x: x - x.mean(0),
        lambda x: x - x.mean(),
        lambda x: (x + 1.0, x.T + x),
        lambda x: (x + 1.0, x[::-1] * 2.0),
        lambda x: (x + 1.0, x.sum(0)),
        lambda x: (x.sum(0), x + 1.0),
        lambda x: (x + 1.0, x),
        lambda x: (x, x * 2.0),
        lambda x: (x + 1.0, x + 2.0),
        lambda x: (x + 1.0, x + 1.0),
        lambda x: x @ x,
        lambda x: x @ x + x,
        lambda x: tnp.sort(x, 0) + x,
        lambda x: (tnp.sort(x, 0), x.T, x + 1.0),
        lambda x: x[tnp.argsort(x[0])],
        lambda x: tnp.concatenate([x[1:], x[:1]]),
        lambda x: tnp.cumsum(x, 0) + x,
        lambda x: (tnp.where(x > 0, x.T, x), (x * x.T).sum(1)),
    ],
)
def test_reads_of_other_elements_are_right(function: Callable[..., Any], shape: tuple[int, int]) -> None:
    wanted, got, _ = run(function, numbers(*shape))
    for a, b in zip(leaves(got), leaves(wanted), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_memory_of_what_is_done_with_is_used_again() -> None:
    def f(x: Any, y: Any) -> Any:
        total = tnp.cumsum(x.reshape(-1))[:2000].sum()  # all that is wanted of x
        return y.T * total

    wanted, got, places = run(f, numbers(300, 300), numbers(300, 300, seed=1), donate=(0,))
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-6)
    assert where(got) == places[0]


def test_two_arguments_that_trade_places() -> None:
    def f(x: Any, y: Any) -> Any:
        return y + x, x - y

    wanted, got, places = run(f, numbers(300, 300), numbers(300, 300, seed=1), donate=(0, 1))
    assert {where(a) for a in got} == set(places)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


# Whoever else sees the memory keeps what it sees.


@pytest.mark.parametrize(
    "see",
    [
        lambda x: np.asarray(x),
        lambda x: np.asarray(x)[3:7],
        lambda x: memoryview(np.asarray(x)),
        lambda x: np.from_dlpack(np.asarray(x)),
        lambda x: np.asarray(x).base,
        lambda x: x.reshape(-1),  # eagerly: a view
        lambda x: x.T,
        lambda x: jit(lambda a: a)(x),
        lambda x: jit(lambda a: (a * 2.0, a))(x),
        lambda x: x.value,
        lambda x: [x.value],
    ],
)
@pytest.mark.parametrize("size", [8, 300])
def test_whoever_sees_the_memory_keeps_its_values(see: Callable[[Array], Any], size: int) -> None:
    update = jit(lambda x: x + 1.0, donate_argnums=0)
    for _ in range(3):  # the general path, then the generated one
        x = fresh(numbers(size, size))
        seen = see(x)
        before = [np.array(a) for a in (seen if isinstance(seen, (tuple, list)) else [seen])]
        values = np.array(x)
        y = update(x)
        assert x.is_deleted()
        for a, b in zip(seen if isinstance(seen, (tuple, list)) else [seen], before, strict=True):
            np.testing.assert_array_equal(np.asarray(a), b)
        np.testing.assert_array_equal(np.asarray(y), values + 1)


def test_arrays_of_numpy_are_never_written_to() -> None:
    update = jit(lambda x: x + 1.0, donate_argnums=0)
    mine = np.zeros((300, 300), np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(update(mine)), 1.0)
        np.testing.assert_array_equal(np.asarray(update(tnp.asarray(mine))), 1.0)
    assert mine.flags.writeable and not mine.any()


def test_captured_arrays_are_never_written_to() -> None:
    weights = fresh(numbers(300, 300))
    before = np.array(weights)
    scale = jit(lambda x: x * weights, donate_argnums=0)
    for _ in range(3):
        scale(fresh(numbers(300, 300)))
        np.testing.assert_array_equal(np.asarray(weights), before)
    both = jit(lambda x: x + weights, donate_argnums=0)
    np.testing.assert_array_equal(np.asarray(both(weights)), 2 * before)  # it is both, and gone after this
    with pytest.raises(tinyfn.errors.DeletedArrayError if hasattr(tinyfn, "errors") else RuntimeError):
        both(fresh(numbers(300, 300)))


def test_an_optimizer_step_allocates_nothing() -> None:
    def step(state: Any, gradients: Any) -> Any:
        params, first, second, count = state
        count = count + 1.0
        first = tinyfn.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = tinyfn.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
        params = tinyfn.tree.map(
            lambda p, m, v: p - 1e-3 * (m / (1 - 0.9**count)) / (tnp.sqrt(v / (1 - 0.999**count)) + 1e-8),
            params,
            first,
            second,
        )
        return params, first, second, count

    shapes = [(300, 300), (300,), (300, 77), (77,), (5000,)]

    def made() -> Any:
        params = [fresh(numbers(*shape, seed=i)) for i, shape in enumerate(shapes)]
        zeros = [fresh(tnp.zeros(shape)) for shape in shapes]
        return params, zeros, [fresh(z) for z in zeros], fresh(tnp.zeros(()))

    gradients = [numbers(*shape, seed=i + 50) for i, shape in enumerate(shapes)]
    plain, donating = jit(step), jit(step, donate_argnums=0)
    expected, state = made(), made()
    places = {where(a) for a in leaves(state)}
    for _ in range(4):
        expected, state = plain(expected, gradients), donating(state, gradients)
        assert {where(a) for a in leaves(state)} == places
    for a, b in zip(leaves(state), leaves(expected), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


# Products, in whose stores donated arrays are updated.

PRODUCTS = [
    (48, 48, 48),
    (101, 37, 300),
    (3, 70, 900),
    (70, 1, 33),
    (1, 129, 600),
    (40, 24, 5000),
    (260, 130, 17),
]


def adam(p: Any, m: Any, v: Any, g: Any) -> tuple[Any, Any, Any]:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (tnp.sqrt(v) + 1e-8), m, v


UPDATES = {
    "a @ b": lambda p, m, v, a, b: adam(p, m, v, a @ b),
    "a.T @ b": lambda p, m, v, a, b: adam(p, m, v, a.T.reshape(a.shape[::-1]).T @ b),
    "the update first": lambda p, m, v, a, b: adam(p, m, v, a @ b)[::-1],
    "traded": lambda p, m, v, a, b: (m + a @ b, v - a @ b, p * (a @ b)),
    "a mask": lambda p, m, v, a, b: adam(p, m, v, tnp.where(a > 0, a, 0.0) @ b),
    "a position": lambda p, m, v, a, b: adam(
        p, m, v, tnp.where(tnp.arange(b.shape[1]) < tnp.arange(a.shape[0])[:, None], a @ b, 0.0)
    ),
}


@pytest.mark.parametrize("shape", PRODUCTS, ids=str)
@pytest.mark.parametrize("name", UPDATES)
def test_updates_in_the_store_of_a_product_are_in_place(name: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    arguments = [abs(numbers(m, n, seed=i)) for i in range(3)] + [numbers(m, k), numbers(k, n)]
    wanted, got, places = run(UPDATES[name], *arguments, donate=(0, 1, 2))
    assert {where(a) for a in got} == set(places[:3])
    for a, b in zip(got, wanted, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_a_training_step_updates_its_state_in_place() -> None:
    def loss(params: Any, x: Any, y: Any) -> Any:
        for w, b in params[:-1]:
            x = tinyfn.nn.relu(x @ w + b)
        w, b = params[-1]
        return ((x @ w + b - y) ** 2).mean()

    def step(params: Any, first: Any, second: Any, x: Any, y: Any) -> Any:
        gradients = tinyfn.grad(loss)(params, x, y)
        made = [adam(*each) for each in zip(*map(leaves, (params, first, second, gradients)), strict=True)]
        return [
            tinyfn.tree.unflatten(tinyfn.tree.structure(params), each) for each in zip(*made, strict=True)
        ]

    sizes = [(33, 70), (70, 129), (129, 5)]

    def made() -> Any:
        params = [
            (numbers(*s, seed=i), numbers(s[1], seed=i + 9)) for i, s in enumerate(sizes)
        ]  # an own copy each
        state = [params, *[tinyfn.tree.map(lambda a: a * 0.0, params) for _ in range(2)]]
        return [tinyfn.tree.map(fresh, each) for each in state]

    x, y = numbers(300, 33), numbers(300, 5)
    plain, donating = jit(step), jit(step, donate_argnums=(0, 1, 2))
    expected, state = made(), made()
    places = {where(a) for a in leaves(state)}
    for _ in range(3):
        expected, state = plain(*expected, x, y), donating(*state, x, y)
        assert {where(a) for a in leaves(state)} == places
        for a, b in zip(leaves(state), leaves(expected), strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("shape", [*SHAPES, (7, 7)])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x + x.T @ y,
        lambda x, y: x.T + y @ y,
        lambda x, y: x[::-1] + y @ y,
        lambda x, y: x + x[:1] + y @ y,
        lambda x, y: x + tnp.tanh(x) @ y,
        lambda x, y: x + y @ tnp.where(y > 0, x, 0.0),
        lambda x, y: (x + y @ y, x @ y),
        lambda x, y: (x @ y, x + y @ y),
        lambda x, y: (x + y @ y, x.T @ y, x.sum(0)),
        lambda x, y: (x + y @ y, x - y @ y),
        lambda x, y: (x + y @ y, (y @ y)[::-1] + x),
        lambda x, y: (x * (y @ y), x.T * (y @ y)),
        lambda x, y: (y * x[:, :1]) @ x + x,
        lambda x, y: ((x @ x) @ x) + x,
        lambda x, y: tnp.tanh(x @ y) @ x + x,
        lambda x, y: x.reshape(-1)[::-1].reshape(x.shape) + y @ y + x,
        lambda x, y: (x + y @ y, x.reshape(-1)),
        lambda x, y: (x[:, 0] * (y @ y[0]), x + 1.0),
    ],
)
def test_products_beside_reads_of_other_elements_are_right(
    function: Callable[..., Any], shape: tuple[int, int]
) -> None:
    wanted, got, _ = run(function, numbers(*shape), numbers(*shape, seed=1), donate=0)
    for a, b in zip(leaves(got), leaves(wanted), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


# Random programs, in which values of one shape are read in all ways, and several of them are results.

ONE = [
    lambda x: x + 1.0,
    lambda x: tnp.tanh(x),
    lambda x: x.T,
    lambda x: x[::-1],
    lambda x: tnp.roll(x, 3, 1),
    lambda x: x - x.max(-1, keepdims=True),
    lambda x: x - x.mean(0),
    lambda x: tinyfn.nn.softmax(x),
    lambda x: tnp.sort(x, 0),
    lambda x: x.reshape(-1)[::-1].reshape(x.shape),
    lambda x: tnp.concatenate([x[5:], x[:5]]),
    lambda x: x[:1] + x * 0.5,
]
TWO = [
    lambda x, y: x + y,
    lambda x, y: x * y - x,
    lambda x, y: tnp.where(x > 0, x, y),
    lambda x, y: x + y.T,
    lambda x, y: (x @ y) / 20.0,
    lambda x, y: x @ y.T / 20.0 + x,
    lambda x, y: x + (y @ y) / 20.0,
    lambda x, y: tnp.where(x > 0, x.T @ y, y) / 20.0,
]


def random_program(seed: int) -> Callable[..., Any]:
    generator = np.random.default_rng(seed)
    plan: list[Any] = []
    count = 3
    for _ in range(int(generator.integers(2, 9))):
        function = [*ONE, *TWO, *TWO][generator.integers(0, len(ONE) + 2 * len(TWO))]
        # Mostly of late values, so that earlier ones are read for the last time on the way.
        sources = [int(max(0, count - 1 - generator.integers(0, 5))) for _ in range(2)]
        plan.append((function, sources[: 1 if function in ONE else 2]))
        count += 1
    results = sorted({int(i) for i in generator.integers(3 if seed % 3 else 0, count, 3)})

    def program(*arguments: Any) -> Any:
        values = list(arguments)
        for function, sources in plan:
            values.append(function(*[values[i] for i in sources]))
        return [values[i] for i in results]

    return program


@pytest.mark.parametrize("seed", range(40))
def test_donation_changes_no_bit_of_random_programs(seed: int) -> None:
    program = random_program(seed)
    arguments = [numbers(37, 37, seed=i) for i in range(3)]
    wanted = jit(program)(*arguments)
    for a, b in zip(
        wanted, program(*arguments), strict=True
    ):  # step by step, where every value has memory of its own
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-3, atol=1e-4)
    donating = jit(program, donate_argnums=(0, 1, 2))
    for _ in range(3):
        given = [fresh(a) for a in arguments]
        for a, b in zip(donating(*given), wanted, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_random_programs_do_write_in_place() -> None:
    written = 0
    for seed in range(40):
        arguments = [numbers(37, 37, seed=i) for i in range(3)]
        given = [fresh(a) for a in arguments]
        places = {where(a) for a in given}
        written += sum(
            where(a) in places for a in jit(random_program(seed), donate_argnums=(0, 1, 2))(*given)
        )
    assert written >= 40


@pytest.mark.parametrize("fused", [False, True])
def test_adam_updates_donated_parameters_and_state_in_place(fused: bool) -> None:
    optimizer = optax_like.adam(1e-2, fused=fused)
    shapes = [(30, 40), (40,), (40, 7), (7,), (30, 40)]
    params = [fresh(numbers(*shape, seed=i)) for i, shape in enumerate(shapes)]
    gradients = [numbers(*shape, seed=i + 50) for i, shape in enumerate(shapes)]
    donating, plain = jit(optimizer.step, donate_argnums=(0, 2)), jit(optimizer.step)
    state, expected, expected_state = (
        optimizer.init(params),
        [p + 0.0 for p in params],
        optimizer.init(params),
    )
    params, state = donating(params, gradients, state)
    expected, expected_state = plain(expected, gradients, expected_state)
    places = {where(a) for a in leaves((params, state)) if a.size > 1}
    for _ in range(3):
        params, state = donating(params, gradients, state)
        expected, expected_state = plain(expected, gradients, expected_state)
        assert {where(a) for a in leaves((params, state)) if a.size > 1} == places
    for a, b in zip(leaves((params, state)), leaves((expected, expected_state)), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
