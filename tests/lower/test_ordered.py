"""Ordered passes, as compiled: scatters of many windows with the reference's bits, and cumulative ops, in one kernel each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.lower.test_kernel_counts import kernels, numbers
from tinyfn import lax, nn, ops
from tinyfn.lower import interpret
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import prims
from tinyfn.trace.array import as_array
from tinyfn.trace.prims.cumulative import recurrence
from tinyfn.trace.prims.windows import MODES

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    # operand, indices, parameters
    "rows": ((9, 37), (50, 1), {"axes": (0,), "sizes": (1, 37), "batch_dims": 0}),
    "columns": ((37, 9), (50, 1), {"axes": (1,), "sizes": (37, 1), "batch_dims": 0}),
    "single elements": ((11,), (5, 8, 1), {"axes": (0,), "sizes": (1,), "batch_dims": 0}),
    "two axes": ((6, 7, 5), (40, 2), {"axes": (2, 0), "sizes": (1, 7, 1), "batch_dims": 0}),
    "wide windows": ((12, 7), (9, 1), {"axes": (0,), "sizes": (3, 2), "batch_dims": 0}),
    "batched": ((4, 8, 6), (4, 10, 1), {"axes": (1,), "sizes": (1, 6), "batch_dims": 1}),
    "batched elements": ((3, 5, 8), (3, 5, 4, 1), {"axes": (2,), "sizes": (1,), "batch_dims": 2}),
}


def arguments(name: str, dtype: Any) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Operand, indices of which many are equal and some outside, updates; and the parameters."""
    shape, windows, params = CASES[name]
    generator = np.random.default_rng(len(name))

    def values(of: tuple[int, ...]) -> np.ndarray:
        if dtype is dtypes.bool_:
            return generator.integers(0, 2, of).astype(bool)
        if dtypes.is_integer(dtype):
            return generator.integers(0, 100, of).astype(dtype)
        return generator.standard_normal(of).astype(dtype)

    indices = generator.integers(-1, 9, windows).astype(np.int32)
    return [values(shape), indices, values((*windows[:-1], *params["sizes"]))], params


@pytest.mark.parametrize("kind", ["set", "add", "mul", "min", "max"])
@pytest.mark.parametrize("name", CASES)
def test_a_scatter_of_many_windows_is_one_kernel_with_the_references_bits(name: str, kind: str) -> None:
    args, params = arguments(name, dtypes.float32)
    for mode in MODES:
        every = {**params, "kind": kind, "mode": mode}

        def function(*args: Any, every: Any = every) -> Any:
            return prims.scatter(*args, **every)

        given = [as_array(a) for a in args]
        assert len(kernels(function, *given)) == 1
        want = prims.scatter.reference(*args, **every)
        np.testing.assert_array_equal(tinyfn.jit(function)(*given), want)
        np.testing.assert_array_equal(interpret.run(tinyfn.jit(function).graph(*given), args)[0], want)


@pytest.mark.parametrize("dtype", [d for d in dtypes.MOVED if dtypes.kind(d) != "complex"], ids=dtypes.name)
def test_scatters_of_every_dtype(dtype: Any) -> None:
    for name in ("rows", "single elements"):
        if dtype is dtypes.key:
            continue
        args, params = arguments(name, dtype)
        for kind in ("set",) if dtype in (dtypes.bool_, *dtypes.NARROW_FLOATS) else ("set", "add", "max"):
            every = {**params, "kind": kind, "mode": "clip"}
            got = tinyfn.jit(lambda *args, every=every: prims.scatter(*args, **every))(*map(as_array, args))
            assert np.asarray(got).tobytes() == prims.scatter.reference(*args, **every).tobytes()


def test_sums_of_segments_and_gradients_of_embeddings_are_kernels() -> None:
    x, at = numbers(200, 24), tnp.arange(200) % 7
    assert len(kernels(lambda x, at: ops.segment_sum(x, at, num_segments=7), x, at)) == 1
    table = numbers(30, 24)

    def loss(table: Any, at: Any) -> Any:
        return (nn.gelu(table[at]) ** 2).sum()

    assert 1 <= len(kernels(tinyfn.grad(loss), table, at)) <= 2
    np.testing.assert_allclose(
        tinyfn.jit(tinyfn.grad(loss))(table, at), tinyfn.grad(loss)(table, at), rtol=1e-4, atol=1e-5
    )


def test_what_is_donated_is_not_written_while_it_is_read() -> None:
    x, at = numbers(40, 8), tnp.arange(90) % 40
    want = np.asarray(x).copy()
    np.add.at(want, np.asarray(at), np.asarray(x)[np.asarray(at)])
    got = tinyfn.jit(lambda x, at: x.at[at].add(x[at]), donate_argnums=0)(x + 0, at)
    np.testing.assert_allclose(got, want, rtol=1e-6)


# Cumulative ops

SHAPES = [((5, 100), 1), ((100, 5), 0), ((3, 40, 2), 1), ((1000,), 0), ((2, 1), 1), ((33, 16), 1)]


def numpys(name: str, x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    """The same by NumPy, in float64."""
    ufunc = {
        "cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum,
        "cumlogsumexp": np.logaddexp,
    }[name]  # fmt: skip
    with np.errstate(all="ignore"):
        found = ufunc.accumulate(np.flip(x, axis) if reverse else x, axis)
    return np.flip(found, axis) if reverse else found


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"])
def test_cumulative_ops_of_floats(name: str, reverse: bool) -> None:
    generator = np.random.default_rng(0)
    for shape, axis in SHAPES:
        x = generator.uniform(0.9, 1.1, shape) if name == "cumprod" else generator.standard_normal(shape)
        x = x.astype(np.float32)

        def function(x: Any, axis: int = axis) -> Any:
            return getattr(lax, name)(x, axis=axis, reverse=reverse)

        assert len(kernels(function, tnp.asarray(x))) <= (3 if name == "cumlogsumexp" else 1)
        got, want = tinyfn.jit(function)(tnp.asarray(x)), numpys(name, x.astype(np.float64), axis, reverse)
        largest = numpys("cumsum", np.abs(x), axis, reverse) if name == "cumsum" else 1 + np.abs(want)
        assert np.all(np.abs(got - want) <= 1e-6 * largest)


@pytest.mark.parametrize("dtype", dtypes.INTEGERS, ids=dtypes.name)
def test_cumulative_ops_of_integers_are_exact_and_wrap_around(dtype: Any) -> None:
    info = np.iinfo(dtype)
    for shape, axis in SHAPES:
        x = np.random.default_rng(1).integers(info.min, info.max, shape, endpoint=True, dtype=dtype)
        for name, ufunc in (("cumsum", np.add), ("cumprod", np.multiply), ("cummin", np.minimum)):
            got = tinyfn.jit(lambda x, name=name, axis=axis: getattr(lax, name)(x, axis=axis))(tnp.asarray(x))
            np.testing.assert_array_equal(got, ufunc.accumulate(x, axis, dtype=dtype))


def test_cumulative_ops_of_what_is_not_finite() -> None:
    special = np.array([1.0, -0.0, np.inf, 2.0, -np.inf, 1.0, np.nan, 3.0], np.float32)
    for x in (
        special,
        special[1:3],
        special[4:6],
        np.zeros(20, np.float32) - 0.0,
        np.full(20, -np.inf, np.float32),
    ):
        for rows in (x[None], np.stack([x, x[::-1]])):
            for name in ("cumsum", "cumprod", "cummax", "cumlogsumexp"):
                got = tinyfn.jit(lambda x, name=name: getattr(lax, name)(x, axis=1))(tnp.asarray(rows))
                np.testing.assert_allclose(got, numpys(name, rows, 1, False), rtol=1e-6)
    assert np.signbit(tinyfn.jit(tnp.cumsum)(tnp.full(20, -0.0))).all()


def test_bools_and_recurrences() -> None:
    x = numbers(3, 50) > 1.5
    np.testing.assert_array_equal(
        tinyfn.jit(lambda x: lax.cummax(x, axis=1))(x), np.logical_or.accumulate(np.asarray(x), 1)
    )
    a, b = np.array(numbers(4, 50)), np.array(numbers(50, 4)).T
    a[:, 0] = np.inf  # nothing is before the first
    want = b.astype(np.float64)
    for i in range(1, 50):
        want[:, i] += a[:, i].astype(np.float64) * want[:, i - 1]
    for axis, turn in ((1, np.asarray), (0, np.transpose)):
        for reverse in (False, True):
            given = [np.flip(turn(v), axis) if reverse else turn(v) for v in (a, b)]
            run = tinyfn.jit(lambda a, b, axis=axis, r=reverse: recurrence(a, b, axis=axis, reverse=r))
            got = run(*map(tnp.asarray, given))
            np.testing.assert_allclose(
                turn(np.flip(got, axis) if reverse else got), want, rtol=1e-4, atol=1e-4
            )


def test_cumulative_ops_in_native_loops() -> None:
    def step(c: Any, x: Any) -> Any:
        c = (
            lax.cumsum(c, axis=0, reverse=True) * 0.5
            + lax.cumprod(x, axis=0)
            + recurrence(x, c, axis=0, reverse=False)
        )
        return c, tnp.prod(x)

    x = numbers(6, 4)
    run = tinyfn.jit(lambda x: lax.scan(step, x[0], x))
    assert "NumPy" not in str(run.lower(x))
    for got, want in zip(run(x), lax.scan(step, x[0], x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_gradients_of_cumulative_ops_are_kernels() -> None:
    x = numbers(6, 40) + 3
    for name in ("cumsum", "cumprod", "cumlogsumexp", "cummax"):
        gradient = tinyfn.grad(lambda x, name=name: (getattr(lax, name)(x, axis=1) ** 2).sum())
        kernels(gradient, x)  # and no calls of NumPy
        np.testing.assert_allclose(tinyfn.jit(gradient)(x), gradient(x), rtol=1e-4)
