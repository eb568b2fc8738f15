"""lax.reduce, lax.reduce_window and pooling against loops in NumPy over every window, in float64."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.against_numpy import check_derivatives
from tests.agreement import assert_jit_agrees
from tinyfn import grad, jit, jvp, lax, nn, vjp, vmap
from tinyfn import numpy as tnp
from tinyfn.transforms import make_graph

GENERATOR = np.random.default_rng(0)
FUNCTIONS: dict[str, tuple[Any, Any, Any]] = {
    "add": (lax.add, np.add, 0.0),
    "mul": (lax.mul, np.multiply, 1.0),
    "max": (lax.max, np.maximum, -np.inf),
    "min": (lax.min, np.minimum, np.inf),
    "hypot": (lambda a, b: lax.sqrt(a * a + b * b), np.hypot, 0.0),
}
# shape, window, strides, padding, base dilation, window dilation
CASES: tuple[tuple[Any, ...], ...] = (
    ((7,), (3,), None, "VALID", None, None),
    ((7,), (3,), (2,), "SAME", None, None),
    ((8,), (3,), (2,), "SAME_LOWER", None, None),
    ((6, 5), (2, 2), (2, 2), "VALID", None, None),
    ((6, 5), (2, 2), (3, 3), "SAME", None, None),
    ((2, 6, 7, 3), (1, 3, 2, 1), (1, 2, 1, 1), "SAME", None, None),
    ((2, 6, 7, 3), (1, 3, 2, 2), (2, 1, 3, 1), [(0, 0), (2, 1), (0, 3), (1, 0)], None, None),
    ((5, 6), (2, 3), (2, 1), [(1, 2), (0, 1)], (2, 3), (2, 2)),
    ((9,), (2,), (4,), "VALID", None, (3,)),
    ((9,), (3,), (1,), [(-2, -1)], None, (2,)),
    ((4,), (1,), (3,), [(0, 1)], (2,), None),
    ((2,), (3,), None, "VALID", None, None),
    ((0, 3), (1, 2), None, "VALID", None, None),
    ((), (), None, "VALID", None, None),
)


def each_window(x: np.ndarray, combine: Any, init: Any, case: tuple[Any, ...]) -> np.ndarray:
    """reduce_window by its definition, one window after another."""
    _, window, strides, padding, spread, apart = case
    ones = (1,) * x.ndim
    strides, spread, apart = strides or ones, spread or ones, apart or ones
    extents = [(k - 1) * d + 1 for k, d in zip(window, apart, strict=True)]
    if isinstance(padding, str):
        padding = lax.padtype_to_pads(x.shape, extents, strides, padding)
    dilated = np.full(
        [max((n - 1) * d + 1, 0) if n else 0 for n, d in zip(x.shape, spread, strict=True)], init
    )
    dilated[tuple([np.s_[::d] for d in spread])] = x
    pads = [(max(a, 0), max(b, 0)) for a, b in padding]
    padded = np.pad(dilated, pads, constant_values=init) if pads else dilated
    padded = padded[
        tuple([slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(padding, padded.shape, strict=True)])
    ]
    places = [max((n - e) // s + 1, 0) for n, e, s in zip(padded.shape, extents, strides, strict=True)]
    result = np.full(places, init)
    for place in product(*map(range, places)):
        begin = [p * s for p, s in zip(place, strides, strict=True)]
        for tap in product(*map(range, window)):
            at = tuple([b + k * d for b, k, d in zip(begin, tap, apart, strict=True)])
            result[place] = combine(result[place], padded[at])
    return result


def ours(name: str, case: tuple[Any, ...], init: Any = None) -> Callable[[Any], Any]:
    function, _, neutral = FUNCTIONS[name]
    value = neutral if init is None else init
    return lambda x: lax.reduce_window(x, value, function, *case[1:])


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("case", CASES)
def test_windows(name: str, case: tuple[Any, ...]) -> None:
    x = GENERATOR.normal(size=case[0]) + 1.5
    function, init = ours(name, case), FUNCTIONS[name][2]
    wanted = each_window(x, FUNCTIONS[name][1], init, case)
    found = function(x)
    assert found.dtype == np.float64 and found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-13)
    np.testing.assert_allclose(jit(function)(x), wanted, rtol=1e-13)
    np.testing.assert_allclose(jit(vmap(function))(np.stack([x, 2 * x]))[0], wanted, rtol=1e-13)
    ones, spread = (1,) * x.ndim, case[4] or (1,) * x.ndim
    extents = [(k - 1) * d + 1 for k, d in zip(case[1], case[5] or ones, strict=True)]
    pads = (
        lax.padtype_to_pads(x.shape, extents, case[2] or ones, case[3])
        if isinstance(case[3], str)
        else case[3]
    )
    shape = lax.reduce_window_shape_tuple(x.shape, case[1], case[2] or ones, pads, spread, case[5])
    assert shape == wanted.shape


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("case", [c for c in CASES if c[0] and 0 not in c[0] and c[0] != (2,)])
def test_derivatives_of_windows(name: str, case: tuple[Any, ...]) -> None:
    x = GENERATOR.permutation(int(np.prod(case[0]))).reshape(case[0]) * 0.1 + 1.0
    # Where only padding is in a window, infinities come out, which have no differences.
    function = ours(name, case, 0.5 if name in ("max", "min", "hypot") else None)
    check_derivatives(function, x)
    ct = GENERATOR.normal(size=function(x).shape)
    eager = vjp(function, x)[1](ct)[0]
    np.testing.assert_allclose(jit(lambda x: vjp(function, x)[1](ct)[0])(x), eager, rtol=1e-12)
    batch = jit(vmap(lambda x: vjp(function, x)[1](ct)[0]))(np.stack([x, x]))
    np.testing.assert_allclose(batch[1], eager, rtol=1e-12)


@pytest.mark.parametrize("name, best", [("max", np.argmax), ("min", np.argmin)])
@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (2, 2), (3, 3)])
def test_the_derivative_goes_to_the_first_of_equals(name: str, best: Any, strides: tuple[int, int]) -> None:
    x = GENERATOR.integers(0, 3, (6, 7)).astype(np.float32)
    function = ours(name, ((6, 7), (2, 3), strides, "VALID", None, None))
    places = function(x).shape
    ct = GENERATOR.integers(1, 9, places).astype(np.float32)
    wanted = np.zeros_like(x)
    for p in product(*map(range, places)):
        i, j = p[0] * strides[0], p[1] * strides[1]
        k = np.unravel_index(best(x[i : i + 2, j : j + 3]), (2, 3))
        wanted[i + k[0], j + k[1]] += ct[p]
    pull = jit(lambda x, ct: vjp(function, x)[1](ct)[0])
    np.testing.assert_array_equal(pull(x, ct), wanted)
    np.testing.assert_array_equal(vjp(function, x)[1](ct)[0], wanted)
    # Forward mode is its transpose.
    t = GENERATOR.integers(-4, 4, x.shape).astype(np.float32)
    assert float(tnp.vdot(jvp(function, (x,), (t,))[1], ct)) == (wanted * t).sum()


def test_special_values() -> None:
    x = np.array([1.0, np.nan, 2.0, -np.inf, np.inf, 3.0], np.float32)
    for name in ("max", "min", "add"):
        function = ours(name, ((6,), (2,), None, "VALID", None, None))
        with np.errstate(invalid="ignore"):
            wanted = FUNCTIONS[name][1](x[:-1], x[1:])
        np.testing.assert_array_equal(function(x), wanted)
        np.testing.assert_array_equal(jit(function)(x), wanted)
    infinite = jit(grad(lambda x: nn.max_pool(x[:, None], (2,)).sum()))(x)
    np.testing.assert_array_equal(infinite, [0, 0, 1, 0, 2, 0])


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "bfloat16", "float32", "bool"])
def test_dtypes(dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = GENERATOR.integers(0, 2 if dtype == "bool" else 9, (4, 6)).astype(kind)
    pooled = nn.max_pool(x[..., None], (2, 2), (2, 2))
    assert pooled.dtype == kind
    np.testing.assert_array_equal(
        np.asarray(pooled)[..., 0], x.reshape(2, 2, 3, 2).transpose(0, 2, 1, 3).max((2, 3))
    )
    if dtype == "bool":
        either = lax.reduce_window(x, False, lax.bitwise_or, (1, 2))
        np.testing.assert_array_equal(either, x[:, :-1] | x[:, 1:])
        both = lax.reduce_window(x, True, lambda a, b: a & b, (1, 2))
        np.testing.assert_array_equal(both, x[:, :-1] & x[:, 1:])
    else:
        total = lax.reduce_window(x, 0, lax.add, (1, 6), padding="SAME")
        assert total.dtype == kind
        np.testing.assert_array_equal(np.asarray(total)[:, 2], x.sum(1, dtype=np.float64).astype(kind))
    if kind.kind in "iu":
        bits = lax.reduce_window(x, 0, lax.bitwise_or, (1, 2))
        np.testing.assert_array_equal(bits, x[:, :-1] | x[:, 1:])


def test_an_initial_value_that_is_not_neutral_counts_for_each_window_and_pads() -> None:
    x = np.array([3.0, -1.0, 2.0], np.float32)
    for init in (1.0, np.float32(1.0), tnp.array(1.0)):
        found = lax.reduce_window(x, init, lax.add, (2,), padding=[(1, 0)])
        np.testing.assert_array_equal(found, [5, 3, 2])
    np.testing.assert_array_equal(lax.reduce_window(x, 0.5, lax.max, (1,)), [3, 0.5, 2])
    # Also one that is known only when the function runs.
    function = jit(lambda x, init: lax.reduce_window(x, init, lax.add, (2,), padding=[(1, 0)]))
    np.testing.assert_array_equal(function(x, 1.0), [5, 3, 2])


def greatest_with_position(a: Any, b: Any) -> Any:
    first = a[0] >= b[0]
    return lax.select(first, a[0], b[0]), lax.select(first, a[1], b[1])


def test_trees_of_operands() -> None:
    x = GENERATOR.normal(size=(5, 7)).astype(np.float32)
    places = np.broadcast_to(np.arange(7, dtype=np.int32), x.shape)
    init = (-np.inf, np.int32(-1))

    def windows(x: Any) -> Any:
        return lax.reduce_window((x, places), init, greatest_with_position, (1, 3))

    value, position = windows(x)
    wanted = np.stack([x[:, i : i + 3].argmax(1) + i for i in range(5)], 1)
    np.testing.assert_array_equal(position, wanted)
    np.testing.assert_array_equal(value, np.take_along_axis(x, wanted, 1))
    assert_jit_agrees(windows, x)
    value, position = lax.reduce({"x": (x, places)}["x"], init, greatest_with_position, (1,))
    np.testing.assert_array_equal(position, x.argmax(1))
    slope = grad(lambda x: windows(x)[0].sum())(x)
    np.testing.assert_array_equal(slope.sum(1), np.full(5, 5, np.float32))


def test_reduce() -> None:
    x = GENERATOR.normal(size=(3, 4, 5))
    for axes in ((0,), (2, 0), (0, 1, 2), (), (-1,)):
        np.testing.assert_allclose(lax.reduce(x, 0.0, lax.add, axes), x.sum(axes), rtol=1e-14)
        np.testing.assert_allclose(lax.reduce(x, -np.inf, tnp.maximum, axes), x.max(axes))
        norm = lax.reduce(x, 0.0, FUNCTIONS["hypot"][0], axes)
        np.testing.assert_allclose(norm, np.sqrt((x * x).sum(axes)), rtol=1e-14)
    np.testing.assert_array_equal(
        lax.reduce(x[:0], 2.5, lambda a, b: a * b + a + b, (0,)), np.full((4, 5), 2.5)
    )
    # Neighbours stay in their order, as an associative function that does not commute needs.
    last = lax.reduce(x, 0.0, lambda a, b: b, (1,))
    np.testing.assert_array_equal(last, x[:, -1])
    check_derivatives(lambda x: lax.reduce(x, 0.0, FUNCTIONS["hypot"][0], (1,)), x)
    i = GENERATOR.integers(0, 100, (6, 5))
    np.testing.assert_array_equal(lax.reduce_xor(i, (0,)), np.bitwise_xor.reduce(i, 0))
    np.testing.assert_array_equal(
        jit(lambda i: lax.reduce_xor(i, (0, 1)))(i), np.bitwise_xor.reduce(i.ravel())
    )
    np.testing.assert_array_equal(lax.reduce_xor(i > 50, 1), np.logical_xor.reduce(i > 50, 1))


def test_any_way_to_write_a_known_computation_is_that_reduction() -> None:
    x = tnp.ones((2, 4))
    for computation, init in (
        (lambda a, b: b + a, 0.0),
        (tnp.maximum, -np.inf),
        (lax.min, np.inf),
        (lambda a, b: tnp.multiply(a, b), 1.0),
    ):
        graph = make_graph(lambda x, f=computation, i=init: lax.reduce(x, i, f, (1,)))(x)
        assert graph.nodes()[-1].op.name.startswith("reduce_")


def test_one_elementwise_operation_is_done_on_whole_arrays() -> None:
    x = GENERATOR.normal(size=(7, 3)).astype(np.float32)
    for single, general in (
        (lax.sub, lambda a, b: lax.add(a, lax.neg(b))),
        (lambda a, b: lax.sub(b, a), lambda a, b: lax.add(b, lax.neg(a))),
        (lax.atan2, lambda a, b: lax.mul(1.0, lax.atan2(a, b))),
    ):
        found = lax.reduce(x, np.float32(0.5), single, (0,))
        np.testing.assert_array_equal(found, lax.reduce(x, np.float32(0.5), general, (0,)))


def test_a_computation_may_close_over_traced_values() -> None:
    x = GENERATOR.normal(size=(6,))

    def function(x: Any, scale: Any) -> Any:
        return lax.reduce_window(x, 0.0, lambda a, b: a + scale * b, (2,)).sum()

    scale = 0.5
    wanted = sum([x[i] + scale * x[i + 1] for i in range(5)]) * scale
    np.testing.assert_allclose(function(x, scale), wanted)
    np.testing.assert_allclose(jit(grad(function, 1))(x, scale), grad(function, 1)(x, scale))


def test_pooling() -> None:
    x = GENERATOR.normal(size=(2, 6, 8, 3))
    blocks = x.reshape(2, 3, 2, 4, 2, 3)
    np.testing.assert_array_equal(nn.max_pool(x, (2, 2), (2, 2)), blocks.max((2, 4)))
    np.testing.assert_array_equal(nn.min_pool(x, (2, 2), (2, 2)), blocks.min((2, 4)))
    np.testing.assert_allclose(nn.avg_pool(x, (2, 2), (2, 2)), blocks.mean((2, 4)))
    assert nn.max_pool(x, (3, 3)).shape == (2, 4, 6, 3) and nn.max_pool(x[0], (3, 3)).shape == (4, 6, 3)
    ones = np.ones((1, 3, 3, 1))
    np.testing.assert_array_equal(nn.avg_pool(ones, (3, 3), padding="SAME", count_include_pad=False), ones)
    with_zeros = nn.avg_pool(ones, (3, 3), padding="SAME")
    np.testing.assert_allclose(with_zeros[0, :, :, 0] * 9, [[4, 6, 4], [6, 9, 6], [4, 6, 4]])
    explicit = nn.max_pool(x, (2,), (3,), [(1, 2)])
    assert explicit.shape == (2, 6, 4, 3)
    check_derivatives(lambda x: nn.avg_pool(x, (3, 2), (2, 1), "SAME"), x)


def test_errors() -> None:
    x = tnp.ones((4, 6))
    for match, call in (
        ("window_dimensions .* each axis", lambda: lax.reduce_window(x, 0.0, lax.add, (2,))),
        ("window_strides .* 1 or more", lambda: lax.reduce_window(x, 0.0, lax.add, (2, 2), (0, 1))),
        ("padding .* pair", lambda: lax.reduce_window(x, 0.0, lax.add, (2, 2), padding=[(0, 0)])),
        ("nn.pool .* window_shape", lambda: nn.max_pool(x, (2, 2))),
        ("out of range", lambda: lax.reduce(x, 0.0, lax.add, (2,))),
    ):
        with pytest.raises(ValueError, match=match):
            call()
    for match, call in (
        (
            "must give scalars .*float32\\[\\].*not int32",
            lambda: lax.reduce(x, 0.0, lambda a, b: tnp.array(1), (0,)),
        ),
        ("structure", lambda: lax.reduce((x, x), 0.0, lax.add, (0,))),
        ("one shape and scalars", lambda: lax.reduce_window(x, x, lax.add, (1, 1))),
        ("one dtype", lambda: lax.reduce(x, np.int32(0), lax.add, (0,))),
        ("floats", lambda: nn.avg_pool(tnp.ones((3, 1), "int32"), (2,))),
    ):
        with pytest.raises(TypeError, match=match):
            call()
