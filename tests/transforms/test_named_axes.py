"""Named axes and collectives: against NumPy on the stacked arrays, JAX's values, and differences; caches and errors."""

from __future__ import annotations

import gc
import json
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.lax
import tinyfn.numpy as tnp
from tests.transforms.collective_programs import (
    CUBE,
    NOT_IN_JAX,
    OPERATIONS,
    PROGRAMS,
    WIDE,
    XS,
    loss_with,
)
from tests.transforms.flow import device  # noqa: F401  (a fixture)
from tests.transforms.programs import array, close, directional, normal, same
from tinyfn import lax, random
from tinyfn.trace.errors import ConcretizationError, TracerBoolConversionError
from tinyfn.trace.tracing import Trace

vmap, grad, jit = tinyfn.vmap, tinyfn.grad, tinyfn.jit
GOLDENS = json.loads((Path(__file__).parents[1] / "goldens" / "collectives.json").read_text())["values"]
LIBRARY = types.SimpleNamespace(
    **{n: getattr(tinyfn, n) for n in "lax numpy vmap grad jvp jit linearize custom_jvp custom_vjp".split()},
    checkpoint=tinyfn.remat,
)


def over_i(function: Any, *args: Any, **options: Any) -> Any:
    return vmap(function, axis_name="i", **options)(*args)


def check_goldens(name: str, found: Any) -> None:
    leaves = tinyfn.tree.leaves(found)
    assert len(leaves) == len(GOLDENS[name])
    for leaf, golden in zip(leaves, GOLDENS[name], strict=True):
        leaf = np.asarray(leaf)
        assert (leaf.dtype.name, list(leaf.shape)) == (golden["dtype"], golden["shape"])
        expected = np.array(golden["values"]).reshape(golden["shape"])
        np.testing.assert_allclose(leaf, expected, rtol=3e-5, atol=3e-5)


def test_there_is_a_golden_for_each_program() -> None:
    assert set(GOLDENS) == set(PROGRAMS) - NOT_IN_JAX and len(GOLDENS) > 35


@pytest.mark.parametrize("name", GOLDENS)
def test_values_of_jax(name: str) -> None:
    check_goldens(name, PROGRAMS[name](LIBRARY))


@pytest.mark.parametrize("name", GOLDENS)
def test_values_of_jax_when_compiled(name: str) -> None:
    check_goldens(name, jit(lambda: PROGRAMS[name](LIBRARY))())


# On the stacked arrays, by NumPy.


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "float16", "bfloat16", "float64", "complex64"])
def test_every_dtype_through_every_collective(dtype: str) -> None:
    x = array(np.array([[[1, 0], [3, 4], [2, 2]], [[0, 6], [7, 1], [1, 0]], [[9, 2], [0, 0], [5, 1]]]), dtype)
    stacked = np.asarray(x)

    def f(x: Any) -> Any:
        moved = [
            lax.all_gather(x, "i"),
            lax.all_to_all(x, "i", 0, 0),
            lax.ppermute(x, "i", [(0, 2), (1, 0)]),
            lax.pbroadcast(x, "i", 2),
        ]
        summed = [lax.psum(x, "i"), lax.psum_scatter(x, "i")]
        return moved, summed, [] if dtype == "complex64" else [lax.pmax(x, "i"), lax.pmin(x, "i")]

    moved, summed, chosen = over_i(f, x)
    same(moved[0], np.stack([stacked] * 3))
    same(moved[1], stacked.transpose(1, 0, 2))
    same(moved[2], np.stack([stacked[1], np.zeros_like(stacked[0]), stacked[0]]))
    same(moved[3], np.stack([stacked[2]] * 3))
    wide = stacked.astype(np.int32) if dtype == "bool" else stacked
    total = wide.sum(0).astype(wide.dtype)
    same(summed[0], np.stack([total] * 3))
    same(summed[1], total)
    if chosen:
        same(chosen[0], np.stack([stacked.max(0)] * 3))
        same(chosen[1], np.stack([stacked.min(0)] * 3))


def test_one_lane_and_scalars() -> None:
    (x,) = normal(0, (1,))
    found = over_i(
        lambda x: [lax.psum(x, "i"), lax.pmean(x, "i"), lax.all_gather(x, "i"), lax.axis_index("i")], x
    )
    same(found[0], x)
    same(found[1], x)
    same(found[2], x[None])
    same(found[3], np.zeros(1, np.int32))


def test_no_lanes() -> None:
    found = over_i(
        lambda x: (lax.psum(x, "i"), lax.all_gather(x, "i"), lax.axis_index("i")), np.zeros((0, 2))
    )
    assert [x.shape for x in found] == [(0, 2), (0, 0, 2), (0,)]
    shared = over_i(lambda x: lax.psum(x, "i"), np.zeros((0, 2)), out_axes=None)
    same(shared, np.zeros(2))


def test_nan_stays_where_it_is_and_reaches_sums() -> None:
    x = np.array([1.0, np.nan, 3.0])
    found = over_i(lambda x: [lax.pmax(x, "i"), lax.psum(x, "i"), lax.pbroadcast(x, "i", 2)], x, out_axes=0)
    assert np.isnan(np.asarray(found[0])).all() and np.isnan(np.asarray(found[1])).all()
    same(found[2], np.full(3, 3.0))


def test_lanes_that_agree_need_no_axis_in_the_result() -> None:
    x, _ = normal(1, (3, 2), (1,))
    total, gathered = over_i(lambda x: (lax.psum(x, "i"), lax.all_gather(x, "i")), x, out_axes=None)
    close(total, x.sum(0))
    same(gathered, x)
    with pytest.raises(ValueError, match="needs an axis"):
        over_i(lambda x: lax.axis_index("i"), x, out_axes=None)


@pytest.mark.parametrize("count", [3, 40])
def test_permutations_of_few_and_of_many_lanes(count: int, device: str) -> None:  # noqa: F811
    (x,) = normal(2, (count, 2))
    order = np.random.default_rng(0).permutation(count)
    same(jit(lambda x: over_i(lambda x: lax.pshuffle(x, "i", order), x))(x), x[order])
    pairs = [(int(order[i]), i) for i in range(1, count)]
    expected = np.where(np.arange(count)[:, None] == 0, 0, x[order])
    same(jit(lambda x: over_i(lambda x: lax.ppermute(x, "i", pairs), x))(x), expected)
    gradient = jit(grad(lambda x, w: (over_i(lambda x: lax.ppermute(x, "i", pairs), x) * w).sum()))(x, x)
    expected = np.zeros_like(x)
    expected[order[1:]] = x[1:]
    same(gradient, expected)


def test_python_numbers_are_counted_at_once() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.extend([lax.psum(1, "i"), lax.psum(0.5, "i"), lax.axis_size("i"), lax.psum(True, "i")])
        return x.reshape((lax.axis_size("i"), -1))

    assert over_i(f, np.zeros((2, 6))).shape == (2, 2, 3)
    assert seen == [2, 1.0, 2, 2] and [type(x) for x in seen] == [int, float, int, int]


def test_names_may_be_any_hashable_value() -> None:
    name = frozenset(("data", 1))
    same(vmap(lambda x: lax.psum(x, name), axis_name=name)(np.arange(3.0)), np.full(3, 3.0))


def test_options_of_vmap_with_a_name() -> None:
    x = np.arange(6.0).reshape(2, 3)
    same(vmap(lambda x: lax.psum(x, "i"), 1, 0, "i", 3)(x), np.tile(x.sum(1), (3, 1)))
    same(vmap(lambda: lax.axis_index("i"), axis_name="i", axis_size=3)(), np.arange(3, dtype=np.int32))
    same(vmap(lambda x: lax.psum(x, "i"), axis_name="i", spmd_axis_name="devices")(x)[0], x.sum(0))
    for wrong in (0, ("i", "j"), ["i"]):
        with pytest.raises(TypeError, match="axis_name must be a string"):
            vmap(lambda x: x, axis_name=wrong)


def test_symbolic_sizes() -> None:
    n = tinyfn.Variable("n", 1, 100)

    def f(xs: Any) -> Any:
        return over_i(lambda x: (x - lax.pmean(x, "i")) * lax.axis_index("i") + lax.psum(2.0, "i"), xs)

    compiled = jit(f).lower(tinyfn.ShapeDtypeStruct((n, 4), "float32")).compile()
    for size in (1, 3, 17):
        x = np.random.default_rng(size).normal(size=(size, 4)).astype(np.float32)
        close(compiled(x), (x - x.mean(0)) * np.arange(size)[:, None] + 2 * size, 1e-5)
    with pytest.raises(ValueError, match="fixed size"):
        jit(lambda xs: over_i(lambda x: lax.ppermute(x, "i", []), xs)).lower(
            tinyfn.ShapeDtypeStruct((n,), "float32")
        )


def test_random_keys_in_lanes() -> None:
    key = random.key(3)
    keys = random.split(key, 3)
    found = over_i(
        lambda x: random.normal(random.fold_in(key, lax.axis_index("i")), (2,)) + x, np.zeros(3, np.float32)
    )
    same(found, np.stack([np.asarray(random.normal(random.fold_in(key, i), (2,))) for i in range(3)]))
    moved = over_i(
        lambda k: [lax.ppermute(k, "i", [(0, 1), (1, 2), (2, 0)]), lax.pbroadcast(k, "i", 2)], keys
    )
    same(random.key_data(moved[0]), np.roll(np.asarray(random.key_data(keys)), 1, 0))
    same(random.key_data(moved[1]), np.stack([np.asarray(random.key_data(keys))[2]] * 3))
    assert "keys can't be computed with" in error(TypeError, lambda k: lax.psum(k, "i"), keys)


# Derivatives.


@pytest.mark.parametrize("name", OPERATIONS)
def test_gradients_of_lanes_are_those_of_all_lanes_together(name: str) -> None:
    cube, wide, w = (array(x) for x in (CUBE, WIDE, WIDE[0]))
    xs, w = (wide, w) if name.endswith("tiled") and "gather" not in name else (cube, cube[0])
    loss = loss_with(LIBRARY, OPERATIONS[name])
    inside = over_i(grad(loss), xs, w, in_axes=(0, None))
    together = lambda xs: over_i(lambda x: loss(x, w), xs).sum()
    close(inside, grad(together)(xs), 1e-10)
    t = np.random.default_rng(7).normal(size=xs.shape)
    forward = tinyfn.jvp(together, (xs,), (array(t),))[1]
    close(forward, directional(together, [np.asarray(xs)], [t]), 1e-6)
    close((grad(together)(xs) * t).sum(), forward, 1e-9)


def test_greatest_and_least_share_their_derivative() -> None:
    x = np.array([[1.0, 5.0, 2.0], [4.0, 5.0, 0.0], [4.0, 1.0, 7.0]])
    share = np.array([[0, 0.5, 0], [0.5, 0.5, 0], [0.5, 0, 1.0]])
    close(grad(lambda x: over_i(lambda x: lax.pmax(x, "i"), x, out_axes=None).sum())(x), share)
    # Each lane's result counts.
    close(over_i(grad(lambda x: lax.pmax(x, "i").sum()), x), 3 * share)
    close(over_i(grad(lambda x: -lax.pmin(-x, "i").sum()), x), 3 * share)
    close(over_i(lambda x: tinyfn.jvp(lambda x: lax.pmax(x, "i"), (x,), (x,))[1], x)[0], [4.0, 5.0, 7.0])
    assert not np.isnan(np.asarray(over_i(grad(lambda x: lax.pmax(x, "i")), np.array([np.nan, 1.0])))).any()
    x, t = normal(3, (4, 3), (4, 3))
    f = lambda xs: over_i(lambda x: lax.pmax(x, "i") * lax.pmin(x, "i") * x, xs)
    close((grad(lambda x: f(x).sum())(x) * t).sum(), directional(lambda x: f(x).sum(), [x], [t]), 1e-6)


def test_per_lane_gradients_of_shared_parameters_and_their_mean(device: str) -> None:  # noqa: F811
    w, xs = normal(4, (3,), (5, 3))

    def loss(w: Any, x: Any) -> Any:
        return tnp.sin(x @ w)

    step = jit(vmap(lambda w, x: lax.pmean(grad(loss)(w, x), "i"), (None, 0), None, axis_name="i"))
    close(step(array(w), array(xs)), (np.cos(xs @ w)[:, None] * xs).mean(0))


def test_normalisation_over_the_batch_and_its_gradient(device: str) -> None:  # noqa: F811
    (x,) = normal(5, (6, 4))

    def normalised(x: Any) -> Any:
        mean = lax.pmean(x, "batch")
        return (x - mean) / tnp.sqrt(lax.pmean((x - mean) ** 2, "batch") + 1e-3)

    def named(x: Any) -> Any:
        return (vmap(normalised, axis_name="batch")(x) ** 3).sum()

    def plain(x: Any) -> Any:
        return (((x - x.mean(0)) / tnp.sqrt(((x - x.mean(0)) ** 2).mean(0) + 1e-3)) ** 3).sum()

    value, gradient = jit(tinyfn.value_and_grad(named))(array(x))
    expected = tinyfn.value_and_grad(plain)(array(x))
    close(value, expected[0])
    close(gradient, expected[1])


def test_jacobians_within_named_lanes() -> None:
    (x,) = normal(6, (3, 2))

    def f(x: Any) -> Any:
        return tnp.sin(x) * lax.psum(x, "i")

    # Along a unit vector all lanes move together; a row sums up what the lane contributes to that result of all lanes.
    diagonal, unit = np.cos(x) * x.sum(0), np.eye(2)
    close(over_i(tinyfn.jacfwd(f), x), (diagonal + 3 * np.sin(x))[:, :, None] * unit)
    close(over_i(tinyfn.jacrev(f), x), (diagonal + np.sin(x).sum(0))[:, :, None] * unit)


def test_branches_of_some_lanes_count_what_all_lanes_contribute(device: str) -> None:  # noqa: F811
    x, t = normal(8, (3, 4), (3, 4))

    def f(x: Any) -> Any:
        return lax.cond(
            lax.axis_index("i") > 0, lambda y: lax.psum(y * y, "i"), lambda y: tnp.sin(y), x
        ).sum()

    together = lambda xs: over_i(f, xs).sum()
    close((jit(grad(together))(array(x)) * t).sum(), directional(together, [x], [t]), 1e-6)


# Within what holds graphs, and what is kept of it.


def test_a_jitted_function_is_traced_for_each_size_of_an_axis_that_it_uses() -> None:
    traces = []

    @jit
    def f(x: Any) -> Any:
        traces.append("f")
        return x / lax.psum(1, "i")

    @jit
    def plain(x: Any) -> Any:
        traces.append("plain")
        return x * 2

    @jit
    def outer(x: Any) -> Any:
        traces.append("outer")
        return f(x) + plain(x)

    for size in (2, 3, 2, 3, 2):
        x = np.arange(float(size))
        close(vmap(outer, axis_name="i")(x), x / size + 2 * x)
    # A jitted function that uses none does not depend on those around it.
    assert sorted(traces) == ["f", "f", "outer", "outer", "plain"]
    assert "the size of the axis 'i': 2 → 3" in f.cache_info().last_miss
    with pytest.raises(NameError, match="no vmap"):
        outer(1.0)
    close(vmap(outer, axis_name="i")(np.ones(3)), np.full(3, 1 / 3 + 2))


def test_a_jitted_function_that_does_without_the_axis_if_it_is_not_there() -> None:
    @jit
    def f(x: Any) -> Any:
        try:
            return lax.psum(x, "i")
        except NameError:
            return x

    for _ in range(2):
        same(f(np.arange(3.0)), np.arange(3.0))
        same(over_i(f, np.arange(3.0)), np.full(3, 3.0))
        same(over_i(f, np.arange(2.0)), np.ones(2))


def test_a_vmap_within_a_jitted_function_is_no_axis_around_it() -> None:
    traces = []

    @jit
    def f(x: Any) -> Any:
        traces.append(None)
        return over_i(lambda y: y * lax.psum(1, "i"), x)

    same(f(np.ones(3)), np.full(3, 3.0))
    same(vmap(f, axis_name="i")(np.ones((4, 3))), np.full((4, 3), 3.0))
    assert len(traces) == 1


def test_derivatives_of_jitted_functions_with_collectives(device: str) -> None:  # noqa: F811
    x = array(XS)
    inner = jit(lambda x: tnp.sin(lax.psum(x * x, "i")).sum() * (1 + lax.axis_index("i")))
    plain = lambda x: tnp.sin(lax.psum(x * x, "i")).sum() * (1 + lax.axis_index("i"))
    for f in (inner, jit(inner)):
        close(over_i(grad(f), x), over_i(grad(plain), x))
        close(jit(grad(lambda x: over_i(f, x).sum()))(x), grad(lambda x: over_i(plain, x).sum())(x))


def test_rules_that_call_their_own_function_know_the_axes() -> None:
    @tinyfn.custom_jvp
    def f(x: Any) -> Any:
        return tnp.sin(lax.psum(x, "i"))

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        ((x,), (t,)) = primals, tangents
        return f(x), tnp.sqrt(1 - f(x) ** 2) * lax.psum(t, "i")

    x = np.array([0.1, 0.2, 0.3])
    f_twice = lambda x: tinyfn.jvp(lambda x: tinyfn.jvp(f, (x,), (1.0,))[1], (x,), (1.0,))[1]
    close(over_i(f_twice, x), np.full(3, -9 * np.sin(0.6)))
    close(grad(lambda x: over_i(f, x).sum())(x), np.full(3, 3 * np.cos(0.6)))


def test_an_equation_of_which_each_lane_has_a_part(device: str) -> None:  # noqa: F811
    """Conjugate gradients for the sum over the lanes of their matrices."""
    parts, b = normal(9, (3, 4, 4), (4,))
    parts = np.einsum("kij,kil->kjl", parts, parts) + np.eye(4)

    def solve(matvec: Any, b: Any) -> Any:
        def step(carry: Any) -> Any:
            x, r, p, rr, n = carry
            moved = matvec(p)
            rate = rr / (p @ moved)
            r_new = r - rate * moved
            return x + rate * p, r_new, r_new + (r_new @ r_new) / rr * p, r_new @ r_new, n + 1

        goes_on = lambda carry: (carry[3] > 1e-26) & (carry[4] < 20)
        return lax.while_loop(goes_on, step, (b * 0, b, b, b @ b, 0))[0]

    def lane(part: Any, b: Any) -> Any:
        return lax.custom_linear_solve(lambda v: lax.psum(part @ v, "i"), b, solve, symmetric=True)

    def solution(parts: Any, b: Any) -> Any:
        return vmap(lane, (0, None), None, axis_name="i")(parts, b)  # one for all lanes

    x = np.linalg.solve(parts.sum(0), b)
    close(jit(solution)(array(parts), array(b)), x, 1e-9)
    of_parts, of_b = jit(grad(lambda parts, b: (solution(parts, b) ** 2).sum(), (0, 1)))(
        array(parts), array(b)
    )
    expected = np.linalg.solve(parts.sum(0), 2 * x)
    close(of_b, expected, 1e-8)
    close(of_parts, np.broadcast_to(-np.outer(expected, x), (3, 4, 4)), 1e-8)


def test_custom_functions_whose_results_all_lanes_share() -> None:
    @tinyfn.custom_vjp
    def f(x: Any) -> Any:
        return lax.psum(x, "i"), x

    f.defvjp(lambda x: (f(x), None), lambda _, cts: (2.0 * lax.psum(cts[0], "i") + cts[1],))

    @tinyfn.custom_jvp
    def g(x: Any) -> Any:
        return lax.pmean(x, "i")

    g.defjvp(lambda primals, tangents: (g(*primals), 3.0 * lax.pmean(tangents[0], "i")))
    (x,) = normal(10, (3,))
    total, own = over_i(f, x, out_axes=(None, 0))
    close(total, x.sum())
    close(own, x)
    close(grad(lambda x: over_i(f, x, out_axes=(None, 0))[0] * 5.0)(x), np.full(3, 10.0))
    close(over_i(g, x, out_axes=None), x.mean())
    close(grad(lambda x: over_i(g, x, out_axes=None))(x), np.ones(3))


def test_in_nested_loops_of_one_another(device: str) -> None:  # noqa: F811
    x = array(XS)

    def f(x: Any) -> Any:
        def outer(carry: Any, _: Any) -> Any:
            def inner(i: Any, value: Any) -> Any:
                return lax.cond(i > 1, lambda v: lax.pmean(v, "i"), lambda v: v * 1.5, value) + 0.1

            return lax.fori_loop(0, 3, inner, carry), lax.psum(carry, "i")

        return lax.scan(outer, x, None, length=2)

    def expected(x: Any) -> Any:
        ys = []
        for _ in range(2):
            ys.append(np.broadcast_to(x.sum(0), x.shape))
            for i in range(3):
                x = (np.broadcast_to(x.mean(0), x.shape) if i > 1 else x * 1.5) + 0.1
        return x, np.stack(ys, 1)

    found, ys = jit(lambda x: over_i(f, x))(x)
    close(found, expected(np.asarray(x))[0])
    close(ys, expected(np.asarray(x))[1])
    together = lambda x: over_i(f, x)[0].sum() + (over_i(f, x)[1] ** 2).sum()
    t = np.random.default_rng(0).normal(size=x.shape)
    close((jit(grad(together))(x) * t).sum(), directional(together, [np.asarray(x)], [t]), 1e-6)


def test_traces_are_let_go_of_at_once() -> None:
    def traces() -> int:
        return sum(isinstance(x, Trace) for x in gc.get_objects())

    f = lambda x: over_i(grad(jit(lambda x: lax.psum(x * x, "i"))), x)
    f(np.ones(3))
    gc.collect()
    before = traces()
    gc.disable()
    try:
        f(np.ones(3))
        assert traces() == before
    finally:
        gc.enable()


def test_a_printed_graph_shows_the_axis_and_has_it_resolved() -> None:
    inside = []

    def f(x: Any) -> Any:
        inside.append(tinyfn.make_graph(lambda x: lax.psum(x, "i"))(x))
        return lax.psum(x, "i")

    graph = tinyfn.make_graph(vmap(f, axis_name="i"))(np.ones(3))
    assert "psum(x, axes=('i',))" in str(inside[0]) and inside[0].axis_names == {"i"}
    assert "psum" not in str(graph) and not graph.axis_names


def test_a_nan_that_lanes_make_together_is_found(device: str) -> None:  # noqa: F811
    f = lambda x: over_i(lambda x: lax.psum(x, "i"), x)
    with tinyfn.debug_nans():
        for function in (f, jit(f)):
            with pytest.raises(
                FloatingPointError, match=r"test_named_axes.py.*reduce_sum of float64\[2\] made NaN"
            ):
                function(np.array([np.inf, -np.inf]))


# Errors.


def error(kind: type[Exception], function: Any, *args: Any, **options: Any) -> str:
    with pytest.raises(kind) as found:
        over_i(function, *args, **options)
    message = str(found.value)
    assert "test_named_axes.py" in message
    return message


def test_a_name_that_is_not_bound() -> None:
    for call in (
        lambda x: lax.psum(x, "rows"),
        lambda x: lax.all_gather(x, ("i", "rows")),
        lambda x: lax.axis_index("rows"),
        lambda x: lax.ppermute(x, "rows", []),
        lambda x: lax.psum(1, "rows"),
    ):
        message = error(tinyfn.UnboundAxisError, call, np.ones(3))
        assert "axis 'rows'" in message and "vmap(..., axis_name='rows')" in message
        assert "'i' (size 3, of vmap of <lambda>)" in message
    with pytest.raises(
        NameError, match=r"psum over the axis 'i': there is no vmap .* and no axis has a name there"
    ):
        lax.psum(np.ones(3), "i")
    with pytest.raises(NameError, match="axis_name='i'"):
        jit(vmap(lambda x: lax.pmean(x, "i")))(np.ones(3))


def test_sizes_that_do_not_fit() -> None:
    x = np.ones((3, 4, 2))
    assert "3 lanes: axis 0 of float64[4,2] needs as many (or tiled=True)" in error(
        ValueError, lambda x: lax.psum_scatter(x, "i"), x
    )
    assert "axis 0 of float64[4,2] needs a multiple" in error(
        ValueError, lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True), x
    )
    assert "axis 5 is out of range" in error(ValueError, lambda x: lax.all_gather(x, "i", axis=5), x)
    assert "not distinct" in error(ValueError, lambda x: lax.psum(x, ("i", "i")), x)


def test_dtypes_that_are_not_reduced() -> None:
    x = np.ones(3, np.complex64)
    assert "pmax does not accept complex64" in error(TypeError, lambda x: lax.pmax(x, "i"), x)
    narrow = array(np.ones((3, 3)), "float8_e5m2")
    for f, name in (
        (lax.psum, "psum"),
        (lax.pmean, "psum"),
        (lax.psum_scatter, "psum_scatter"),
        (lax.pmin, "pmin"),
    ):
        found = error(TypeError, lambda x, f=f: f(x, "i"), narrow)
        assert f"{name} does not accept float8_e5m2" in found and "float32" in found


def test_permutations_that_are_none() -> None:
    x = np.ones(3)
    assert "lane 0 sends twice" in error(ValueError, lambda x: lax.ppermute(x, "i", [(0, 1), (0, 2)]), x)
    assert "lane 1 receives twice" in error(ValueError, lambda x: lax.ppermute(x, "i", [(0, 1), (2, 1)]), x)
    assert "there is no lane 3" in error(ValueError, lambda x: lax.ppermute(x, "i", [(3, 1)]), x)
    assert "0 to 2 once" in error(ValueError, lambda x: lax.pshuffle(x, "i", [0, 0, 1]), x)
    assert "there is no lane 7" in error(ValueError, lambda x: lax.pbroadcast(x, "i", 7), x)


def test_what_is_not_there() -> None:
    x = np.ones(4)
    groups = [[0, 1], [2, 3]]
    assert "axis_index_groups" in error(
        NotImplementedError, lambda x: lax.psum(x, "i", axis_index_groups=groups), x
    )
    f = lambda x: vmap(lambda y: lax.ppermute(y, ("i", "j"), []), axis_name="j")(x)
    assert "takes one axis name" in error(NotImplementedError, f, np.ones((2, 3)))


def test_the_value_of_a_collective_is_not_known_while_tracing() -> None:
    def f(x: Any, shared: Any) -> Any:
        return x if lax.psum(shared, "i") > 0 else -x

    message = error(TracerBoolConversionError, f, np.ones(3), 1.0, in_axes=(0, None))
    assert "a psum over the axis 'i'" in message
    assert issubclass(ConcretizationError, TypeError)
    # A Python number's is.
    same(over_i(lambda x: x if lax.psum(1, "i") > 2 else -x, np.ones(3)), np.ones(3))
