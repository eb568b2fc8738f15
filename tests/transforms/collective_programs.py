"""Functions with collectives and custom batching rules, written for any library that has the names of JAX.

`m` is the library: tinyfn here, jax where `tests/goldens/make_collective_goldens.py` computes the values to compare with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

XS = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
WS = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
CUBE = np.random.default_rng(2).normal(size=(3, 3, 2)).astype(np.float32)
WIDE = np.random.default_rng(3).normal(size=(3, 6, 2)).astype(np.float32)
GRID = np.random.default_rng(4).normal(size=(2, 3, 6)).astype(np.float32)
WHOLE = np.array([[3, -1], [2, 7], [0, 5]], np.int32)
SHIFT = [(0, 1), (1, 2), (2, 0)]

# What JAX 0.10.2 can't do: it transposes an all_to_all to a wrong shape, and has no derivatives of pmax and of some pbroadcasts.
NOT_IN_JAX = {
    "derivatives_of_all_to_all",
    "derivatives_of_pbroadcast",
    "derivatives_outside_of_greatest_and_least",
}
PROGRAMS: dict[str, Callable[[Any], Any]] = {}


def program(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS[function.__name__] = function
    return function


def over_i(m: Any, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return m.vmap(function, axis_name="i", **options)(*args)


def over_grid(m: Any, function: Callable[..., Any], *args: Any) -> Any:
    return m.vmap(m.vmap(function, axis_name="j"), axis_name="i")(*args)


# What each collective gives.


@program
def reductions(m: Any) -> Any:
    return over_i(m, lambda x: [f(x, "i") for f in (m.lax.psum, m.lax.pmean, m.lax.pmax, m.lax.pmin)], XS)


@program
def reductions_of_integers(m: Any) -> Any:
    return over_i(m, lambda x: [f(x, "i") for f in (m.lax.psum, m.lax.pmean, m.lax.pmax, m.lax.pmin)], WHOLE)


@program
def sum_of_bools(m: Any) -> Any:
    return over_i(m, lambda x: m.lax.psum(x > 1, "i"), WHOLE)


@program
def reductions_over_two_axes(m: Any) -> Any:
    def f(x: Any) -> Any:
        return [m.lax.psum(x, ("i", "j")), m.lax.pmean(x, ("j", "i")), m.lax.pmax(x, "i"), m.lax.pmin(x, "j")]

    return over_grid(m, f, GRID)


@program
def sums_over_axes_of_the_array_too(m: Any) -> Any:
    return over_i(m, lambda x: [m.lax.psum(x, ("i", 0)), m.lax.psum(x, 1), m.lax.pmax(x, (0, "i", 1))], CUBE)


@program
def gathers(m: Any) -> Any:
    def f(x: Any) -> Any:
        plain = [m.lax.all_gather(x, "i", axis=axis) for axis in (0, 1, 2)]
        return plain + [m.lax.all_gather(x, "i", axis=axis, tiled=True) for axis in (0, 1)]

    return over_i(m, f, CUBE)


@program
def scattered_sums(m: Any) -> Any:
    def f(x: Any, wide: Any) -> Any:
        return [
            m.lax.psum_scatter(x, "i"),
            m.lax.psum_scatter(m.numpy.transpose(x), "i", scatter_dimension=1),
            m.lax.psum_scatter(wide, "i", tiled=True),
            m.lax.psum_scatter(wide.T, "i", scatter_dimension=1, tiled=True),
        ]

    return over_i(m, f, CUBE, WIDE)


@program
def exchanges(m: Any) -> Any:
    def f(x: Any, wide: Any) -> Any:
        return [
            m.lax.all_to_all(x, "i", 0, 0),
            m.lax.all_to_all(x, "i", 0, 1),
            m.lax.all_to_all(x.T, "i", 1, 0),
            m.lax.all_to_all(wide, "i", 0, 0, tiled=True),
            m.lax.all_to_all(wide, "i", 0, 1, tiled=True),
            m.lax.all_to_all(wide.T, "i", 1, 0, tiled=True),
            m.lax.pswapaxes(x, "i", 0),
        ]

    return over_i(m, f, CUBE, WIDE)


@program
def exchanges_over_two_axes(m: Any) -> Any:
    def f(x: Any) -> Any:
        wide = x[:, None] * m.numpy.arange(1.0, 3.0)
        return [
            m.lax.all_to_all(x, ("i", "j"), 0, 0),
            m.lax.all_to_all(x, ("i", "j"), 0, 0, tiled=True),
            m.lax.all_to_all(wide, ("i", "j"), 0, 1, tiled=True),
            m.lax.all_to_all(wide, "j", 0, 1, tiled=True),
        ]

    return over_grid(m, f, GRID)


@program
def permutations(m: Any) -> Any:
    def f(x: Any) -> Any:
        return [m.lax.ppermute(x, "i", SHIFT), m.lax.pshuffle(x, "i", [2, 0, 1]), m.lax.pbroadcast(x, "i", 1)]

    return over_i(m, f, XS)


@program
def numbers_of_lanes(m: Any) -> Any:
    def f(x: Any) -> Any:
        both = ("i", "j")
        return [
            m.lax.axis_index("i"),
            m.lax.axis_index("j"),
            m.lax.axis_index(both),
            m.lax.axis_index(both[::-1]),
            m.lax.axis_size("i") + 10 * m.lax.axis_size("j") + 100 * m.lax.axis_size(both),
            m.lax.psum(1, "j") * x,
            m.lax.psum(2.5, both) * x,
        ]

    return over_grid(m, f, GRID)


@program
def shared_arguments(m: Any) -> Any:
    def f(shared: Any, x: Any) -> Any:
        return [
            m.lax.psum(shared, "i"),
            m.lax.pmean(shared, "i"),
            m.lax.pmax(shared, "i"),
            m.lax.all_gather(shared, "i", axis=1),
            m.lax.psum_scatter(shared, "i"),
            m.lax.ppermute(shared, "i", SHIFT),
            m.lax.pbroadcast(shared, "i", 2),
            m.lax.axis_index("i") * x,
        ]

    return over_i(m, f, CUBE[0], XS, in_axes=(None, 0))


@program
def trees(m: Any) -> Any:
    return over_i(
        m, lambda t: m.lax.psum({"a": t["a"], "b": [t["b"], t["a"] > 0]}, "i"), {"a": XS, "b": CUBE}
    )


@program
def one_name_within_the_other(m: Any) -> Any:
    def f(x: Any) -> Any:
        total = m.lax.psum(x, "i")
        inner = m.vmap(lambda y: y * m.lax.psum(y, "i") + total.sum() + m.lax.axis_index("i"), axis_name="i")
        return inner(x) + m.lax.axis_index("i")

    return over_i(m, f, XS)


@program
def axes_that_are_not_in_front(m: Any) -> Any:
    f = lambda x: m.lax.psum(x, "i") - x
    return [over_i(m, f, CUBE, in_axes=axis, out_axes=out) for axis in (1, -1) for out in (0, 1, -1)]


# Within what holds functions.


@program
def in_jitted_functions(m: Any) -> Any:
    inner = m.jit(lambda x: x - m.lax.pmean(x, "i") + m.lax.axis_index("i"))
    return over_i(m, lambda x: inner(x) * inner(2 * x), XS)


@program
def in_scans(m: Any) -> Any:
    def f(x: Any) -> Any:
        def step(carry: Any, y: Any) -> Any:
            new = carry + m.lax.psum(y * carry, "i")
            return new, m.lax.ppermute(new, "i", SHIFT)

        return m.lax.scan(step, x[0], x)

    return over_i(m, f, XS)


@program
def in_scans_over_what_lanes_share(m: Any) -> Any:
    def f(x: Any, shared: Any) -> Any:
        def step(carry: Any, y: Any) -> Any:
            return carry * 0.5 + m.lax.axis_index("i"), m.lax.psum(y, "i")

        return m.lax.scan(step, 0.0 * shared[0], shared), x

    return over_i(m, f, XS, XS[0], in_axes=(0, None))


@program
def in_while_loops(m: Any) -> Any:
    def f(x: Any) -> Any:
        def goes_on(carry: Any) -> Any:
            return m.lax.pmax(carry[0].sum(), "i") < 20.0

        return m.lax.while_loop(goes_on, lambda c: (c[0] + m.lax.psum(abs(c[0]), "i"), c[1] + 1), (x, 0))

    return over_i(m, f, XS)


@program
def in_while_loops_of_different_lengths(m: Any) -> Any:
    def f(x: Any, limit: Any) -> Any:
        return m.lax.while_loop(
            lambda c: c[0] < limit, lambda c: (c[0] + 1, c[1] + m.lax.psum(c[1], "i")), (0, x)
        )

    return over_i(m, f, XS, np.array([1, 3, 2], np.int32))


@program
def in_branches(m: Any) -> Any:
    def f(x: Any, shared: Any) -> Any:
        branches = (lambda y: m.lax.psum(y, "i"), lambda y: m.lax.pmax(y, "i") + y)
        chosen = m.lax.axis_index("i") > 0
        return [m.lax.cond(shared, *branches, x), m.lax.cond(chosen, *branches, x)]

    return over_i(m, f, XS, True, in_axes=(0, None))


@program
def in_checkpoints(m: Any) -> Any:
    def f(x: Any) -> Any:
        return m.checkpoint(lambda y: m.numpy.sin(m.lax.psum(y * y, "i")))(x).sum()

    return over_i(m, lambda x: (f(x), m.grad(f)(x)), XS)


@program
def in_rules_of_custom_jvp(m: Any) -> Any:
    @m.custom_jvp
    def f(x: Any) -> Any:
        return m.lax.psum(x * x, "i")

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return f(x), m.lax.psum(3.0 * x * t, "i") + 0.0 * m.lax.axis_index("i") * t

    return over_i(m, lambda x: (m.jvp(f, (x,), (x,)), m.grad(lambda x: f(x).sum())(x)), XS)


@program
def in_rules_of_custom_vjp(m: Any) -> Any:
    @m.custom_vjp
    def f(x: Any) -> Any:
        return x * x

    # The collectives are in the rules alone.
    f.defvjp(lambda x: (x * x, m.lax.psum(x, "i")), lambda s, ct: (ct * s + m.lax.axis_index("i"),))
    inside = over_i(m, m.grad(lambda x: f(x).sum()), XS)
    return inside, m.grad(lambda xs: over_i(m, f, xs).sum())(XS)


# Derivatives.

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "psum": lambda m, x: m.lax.psum(x, "i"),
    "pmean": lambda m, x: m.lax.pmean(x, "i"),
    "all_gather": lambda m, x: m.lax.all_gather(x, "i", axis=1),
    "all_gather_tiled": lambda m, x: m.lax.all_gather(x, "i", axis=1, tiled=True),
    "psum_scatter": lambda m, x: m.lax.psum_scatter(x, "i"),
    "psum_scatter_tiled": lambda m, x: m.lax.psum_scatter(x, "i", tiled=True),
    "all_to_all": lambda m, x: m.lax.all_to_all(x, "i", 0, 1),
    "all_to_all_tiled": lambda m, x: m.lax.all_to_all(x, "i", 0, 1, tiled=True),
    "pswapaxes": lambda m, x: m.lax.pswapaxes(x, "i", 0),
    "ppermute": lambda m, x: m.lax.ppermute(x, "i", SHIFT),
    "pshuffle": lambda m, x: m.lax.pshuffle(x, "i", [1, 2, 0]),
    "pbroadcast": lambda m, x: m.lax.pbroadcast(x, "i", 1),
    "axis_index": lambda m, x: x * m.lax.axis_index("i"),
}


def loss_with(m: Any, operation: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A scalar of one lane, in which lanes count differently."""

    def loss(x: Any, w: Any) -> Any:
        out = operation(m, m.numpy.sin(x) * w)
        weights = m.numpy.arange(1.0, out.size + 1.0).reshape(out.shape)
        return (m.numpy.tanh(out) * weights).sum() * (1.0 + m.lax.axis_index("i"))

    return loss


def _derivatives(operation: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def derivatives(m: Any) -> Any:
        loss = loss_with(m, operation)
        cube = m.numpy.asarray(CUBE)
        shared = cube[1]
        return [
            over_i(m, m.grad(loss, (0, 1)), cube, shared, in_axes=(0, None)),
            over_i(m, m.grad(loss, (0, 1)), shared, cube, in_axes=(None, 0)),
            over_i(m, lambda x, w: m.jvp(loss, (x, w), (w, x)), cube, cube[::-1]),
            m.grad(lambda x, w: over_i(m, loss, x, w, in_axes=(0, None)).sum(), (0, 1))(cube, shared),
            over_i(m, lambda x, w: m.linearize(loss, x, w)[1](w, x), cube, cube[::-1]),
        ]

    return derivatives


for _name, _operation in OPERATIONS.items():
    PROGRAMS[f"derivatives_of_{_name}"] = _derivatives(_operation)


@program
def second_derivatives(m: Any) -> Any:
    def loss(x: Any) -> Any:
        return (m.numpy.sin(m.lax.psum(x * x, "i")) * x).sum()

    def gradient(x: Any) -> Any:
        return m.grad(lambda x: (m.grad(loss)(x) * x).sum())(x)

    return over_i(m, gradient, XS), m.grad(lambda xs: (over_i(m, m.grad(loss), xs) * XS).sum())(XS)


@program
def derivatives_outside_of_greatest_and_least(m: Any) -> Any:
    return m.grad(lambda xs: over_i(m, lambda x: m.lax.pmax(x, "i") * m.lax.pmin(x, "i") * x, xs).sum())(XS)


@program
def derivatives_of_scans(m: Any) -> Any:
    def f(x: Any) -> Any:
        def step(carry: Any, y: Any) -> Any:
            return m.numpy.tanh(carry + m.lax.pmean(y * carry, "i")), carry

        last, ys = m.lax.scan(step, x[0], x)
        return last + ys.sum()

    return over_i(m, m.grad(f), XS), m.grad(lambda xs: over_i(m, f, xs).sum())(XS)


@program
def derivatives_of_branches(m: Any) -> Any:
    def f(x: Any) -> Any:
        chosen = m.lax.axis_index("i") > 0
        return m.lax.cond(chosen, lambda y: m.lax.psum(y * y, "i"), lambda y: m.numpy.sin(y), x).sum()

    # Not outside of the vmap, where JAX leaves out what the lanes contribute that do not take the branch.
    return over_i(m, m.grad(f), XS)


@program
def a_training_step_with_the_mean_of_gradients(m: Any) -> Any:
    def loss(w: Any, x: Any, y: Any) -> Any:
        return ((x @ w - y) ** 2).mean()

    def step(w: Any, x: Any, y: Any) -> Any:
        return w - 0.1 * m.lax.pmean(m.grad(loss)(w, x, y), "i")

    return m.jit(m.vmap(step, (None, 0, 0), None, axis_name="i"))(CUBE[0, 0], CUBE, XS[:, :3])
