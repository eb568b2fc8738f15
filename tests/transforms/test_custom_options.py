"""Options of custom rules: symbolic zeros, arguments without derivative by position and name, defjvps, closures;
custom_gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.transforms.programs import array, close
from tinyfn import lax
from tinyfn.custom_derivatives import (
    CustomVJPPrimal,
    SymbolicZero,
    closure_convert,
    custom_gradient,
    custom_vjp_primal_tree_values,
)
from tinyfn.trace import dtype as dtypes

grad, jit, vmap, jvp, vjp = tinyfn.grad, tinyfn.jit, tinyfn.vmap, tinyfn.jvp, tinyfn.vjp


def product(seen: list[Any]) -> Any:
    """x * y, with ten times its derivative, by a rule that leaves out what is zero and says what it was given."""

    @tinyfn.custom_jvp
    def f(x: Any, y: Any, n: Any) -> Any:
        return x * y

    def rule(primals: Any, tangents: Any) -> Any:
        x, y, _ = primals
        seen.append(tuple([type(t) is SymbolicZero for t in tangents]))
        terms = [10.0 * t * o for t, o in zip(tangents, (y, x), strict=False) if type(t) is not SymbolicZero]
        out = f(*primals)
        return out, sum(terms[1:], terms[0]) if terms else SymbolicZero(out.dtype, out.shape)

    f.defjvp(rule, symbolic_zeros=True)
    return f


def test_a_jvp_rule_is_told_which_tangents_are_zero() -> None:
    x, y, n = array(2.0), array(3.0), array(1, "int32")
    for derivative, expected, zeros in (
        (lambda f: grad(f)(x, y, n), 30.0, (False, True, True)),
        (lambda f: grad(f, 1)(x, y, n), 20.0, (True, False, True)),
        (lambda f: jvp(lambda y: f(x, y, n), (y,), (array(1.0),))[1], 20.0, (True, False, True)),
        (lambda f: jvp(lambda x, y: f(x, y, n), (x, y), (x, y))[1], 120.0, (False, False, True)),
        (lambda f: jit(grad(f, 1))(x, y, n), 20.0, (True, False, True)),
        (lambda f: grad(jit(f), 1)(x, y, n), 20.0, (True, False, True)),
        (
            lambda f: vmap(grad(f, 1), in_axes=(0, None, None))(array([2.0, 4.0]), y, n),
            [20, 40],
            (True, False, True),
        ),
        (lambda f: grad(tinyfn.checkpoint(f), 1)(x, y, n), 20.0, (True, False, True)),
        (lambda f: tinyfn.linearize(lambda y: f(x, y, n), y)[1](array(1.0)), 20.0, (True, False, True)),
        (lambda f: jvp(lambda n: f(x, y, n), (n,), (n,))[1], 0.0, None),
    ):
        seen: list[Any] = []
        f = product(seen)
        close(derivative(f), expected)
        assert zeros is None or seen[-1] == zeros
        assert all(flags[2] for flags in seen)
    # Further derivatives pass through the rule, which calls the function.
    close(grad(grad(product([])))(x, y, n), 0.0)
    close(grad(grad(product([])), 1)(x, y, n), 10.0)
    close(tinyfn.hessian(product([]), (0, 1))(x, y, n), [[0.0, 10.0], [10.0, 0.0]])


def test_a_vjp_rule_is_told_what_is_differentiated_and_which_cotangents_are_zero() -> None:
    seen: list[Any] = []

    @tinyfn.custom_vjp
    def f(x: Any, p: Any) -> Any:
        return x * p["y"], x + 1.0, p["n"]

    def forward(x: Any, p: Any) -> Any:
        assert isinstance(x, CustomVJPPrimal)
        seen.append((x.perturbed, p["y"].perturbed, p["n"].perturbed))
        assert set(custom_vjp_primal_tree_values(p)) == {"y", "n"}
        assert custom_vjp_primal_tree_values(p)["n"] is p["n"].value
        kept = {"x": x.value if p["y"].perturbed else None, "y": p["y"].value if x.perturbed else None}
        return (x.value * p["y"].value, x.value + 1.0, p["n"].value), kept

    def backward(kept: Any, cts: Any) -> Any:
        seen.append(tuple([type(ct) is SymbolicZero for ct in cts]))
        product, shifted, _ = cts
        of_x = of_y = None
        if kept["y"] is not None:
            of_x = sum([c * 10.0 for c in (kept["y"] * product if type(product) is not SymbolicZero else None, shifted if
                        type(shifted) is not SymbolicZero else None) if c is not None])  # fmt: skip
        if kept["x"] is not None and type(product) is not SymbolicZero:
            of_y = 10.0 * kept["x"] * product
        return of_x, {"y": of_y, "n": None}

    f.defvjp(forward, backward, symbolic_zeros=True)
    x, y, n = array(2.0), array(3.0), array(1, "int32")
    for derivative, expected, last in (
        (
            lambda: grad(lambda x: f(x, {"y": y, "n": n})[0])(x),
            30.0,
            [(True, False, False), (False, True, True)],
        ),
        (
            lambda: grad(lambda x: f(x, {"y": y, "n": n})[1])(x),
            10.0,
            [(True, False, False), (True, False, True)],
        ),
        (
            lambda: grad(lambda y: f(x, {"y": y, "n": n})[0])(y),
            20.0,
            [(False, True, False), (False, True, True)],
        ),
        (
            lambda: jit(grad(lambda y: f(x, {"y": y, "n": n})[0]))(y),
            20.0,
            [(False, True, False), (False, True, True)],
        ),
        (
            lambda: grad(lambda x, y: sum(f(x, {"y": y, "n": n})[:2]), (0, 1))(x, y),
            (40.0, 20.0),
            [(True, True, False), (False, False, True)],
        ),
        (
            lambda: vmap(grad(lambda x: f(x, {"y": y, "n": n})[0]))(array([1.0, 2.0])),
            [30.0, 30.0],
            [(True, False, False), (False, True, True)],
        ),
    ):
        seen.clear()
        close(derivative(), expected)
        assert seen[-2:] == last


def test_closures_of_rules_with_symbolic_zeros() -> None:
    """What a rule closes over where a tangent is zero, and nowhere else, is found too; and is no constant."""

    def g(scale: Any, x: Any, y: Any) -> Any:
        @tinyfn.custom_jvp
        def f(x: Any, y: Any) -> Any:
            return x * y

        def rule(primals: Any, tangents: Any) -> Any:
            t, u = tangents
            if type(u) is SymbolicZero:
                return f(*primals), lax.stop_gradient(scale) * t
            return f(*primals), t + u

        f.defjvp(rule, symbolic_zeros=True)
        return f(x, y)

    for transform in (lambda f: f, jit):
        close(transform(grad(g, 1))(array(7.0), array(2.0), array(3.0)), 7.0)
        close(transform(grad(g, (1, 2)))(array(7.0), array(2.0), array(3.0)), (1.0, 1.0))
    found = vmap(grad(g, 1), in_axes=(0, None, None))(array([7.0, 8.0]), array(2.0), array(3.0))
    close(found, [7.0, 8.0])


def test_a_rule_may_refuse_what_it_can_not_differentiate() -> None:
    @tinyfn.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    def rule(primals: Any, tangents: Any) -> Any:
        if type(tangents[1]) is not SymbolicZero:
            raise NotImplementedError("no derivative by y")
        return f(*primals), primals[1] * tangents[0]

    f.defjvp(rule, symbolic_zeros=True)
    for transform in (lambda f: f, jit):
        close(transform(grad(f))(array(2.0), array(3.0)), 3.0)
        close(transform(f)(array(2.0), array(3.0)), 6.0)
    with pytest.raises(NotImplementedError, match="no derivative by y"):
        grad(f, 1)(array(2.0), array(3.0))


def test_symbolic_zeros_have_a_dtype_and_a_shape() -> None:
    zero = SymbolicZero(dtypes.float32, (2, 3))
    assert (zero.dtype, zero.shape, zero.ndim) == (np.float32, (2, 3), 2)
    assert repr(zero) == "SymbolicZero(float32[2,3])"
    assert SymbolicZero(dtypes.int32, ()).dtype == dtypes.float0


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_arguments_without_derivative_by_position_and_by_name(kind: str) -> None:
    def make(**options: Any) -> Any:
        def f(power: Any, x: Any, scale: Any = 2.0, *, mode: str = "plain") -> Any:
            return scale * x**power

        def f2(power: Any, x: Any, scale: Any = 2.0, mode: str = "plain") -> Any:
            return scale * x**power

        del f
        if kind == "jvp":
            custom = tinyfn.custom_jvp(f2, **options)
            custom.defjvp(
                lambda power, mode, p, t: (
                    custom(power, *p, mode=mode),
                    100.0 * power * t[0] + (0 if mode == "plain" else 1) * t[1],
                )
            )
        else:
            custom = tinyfn.custom_vjp(f2, **options)
            custom.defvjp(
                lambda power, x, scale, mode: (custom(power, x, scale, mode), None),
                lambda power, mode, _, ct: (100.0 * power * ct, (0 if mode == "plain" else 1) * ct),
            )
        return custom

    for options in (
        {"nondiff_argnums": (0, 3)},
        {"nondiff_argnames": ("power", "mode")},
        {"nondiff_argnums": 0, "nondiff_argnames": "mode"},
        {"nondiff_argnums": (-4, -1)},
    ):
        f = make(**options)
        for transform in (lambda f: f, jit):
            close(transform(grad(lambda x: f(3, x)))(array(2.0)), 300.0)
            found = transform(grad(lambda x, s: f(3, x, scale=s, mode="other"), (0, 1)))(
                array(2.0), array(5.0)
            )
            close(found, (300.0, 1.0))
    with pytest.raises(ValueError, match="nondiff_argnames of f2 has 'wrong'"):
        grad(lambda x: make(nondiff_argnames="wrong")(3, x))(array(2.0))


def test_defjvps() -> None:
    @tinyfn.custom_jvp
    def f(x: Any, y: Any, n: Any) -> Any:
        return {"sum": x + y, "n": n}

    f.defjvps(
        lambda t, out, x, y, n: {"sum": 2.0 * t, "n": None},
        None,
        None,
    )

    @tinyfn.custom_jvp
    def g(x: Any, y: Any) -> Any:
        return tnp.sin(x) * y

    g.defjvps(lambda t, out, x, y: 10.0 * t * y, lambda t, out, x, y: 100.0 * t * out)
    x, y = array(0.5), array(3.0)
    value = np.sin(0.5) * 3
    close(grad(g, (0, 1))(x, y), (30.0, 100 * value))
    close(jvp(g, (x, y), (x, y))[1], 15 + 300 * value)
    close(vmap(grad(g), in_axes=(None, 0))(x, array([1.0, 2.0])), [10.0, 20.0])
    only = tinyfn.custom_jvp(lambda x, y: x * y)
    only.defjvps(None, lambda t, out, x, y: 5.0 * t)
    close(grad(only, (0, 1))(x, y), (0.0, 5.0))
    none = tinyfn.custom_jvp(lambda x: x * x)
    none.defjvps(None)
    close(grad(none)(x), 0.0)
    with pytest.raises(ValueError, match="defjvps of g has 1 rules, but there are 2"):
        g.defjvps(None)
        grad(g)(x, y)


def test_custom_gradient() -> None:
    @custom_gradient
    def clipped(x: Any, y: Any = 2.0) -> Any:
        """Five times."""
        kept = tnp.cos(x)
        return x * y, lambda ct: (5.0 * ct * kept, tnp.clip(ct, -1, 1) * kept)

    x, y = array(0.5), array(3.0)
    expected = (5 * np.cos(0.5), np.cos(0.5))
    close(clipped(x, y), 1.5)
    for transform in (lambda f: f, jit):
        close(transform(grad(clipped, (0, 1)))(x, y), expected)
    close(vmap(grad(clipped, (0, 1)), in_axes=(0, None))(array([0.5, 0.5]), y), np.stack([expected] * 2, 1))
    close(grad(lambda x: vmap(clipped, in_axes=(0, None))(x, y).sum())(array([0.5, 0.5])), [expected[0]] * 2)
    # The rule has derivatives of its own.
    close(grad(grad(clipped))(x, y), -5 * np.sin(0.5))
    assert clipped.__name__ == "clipped" and clipped.__doc__ == "Five times."

    @custom_gradient
    def single(p: Any, *, scale: float = 2.0) -> Any:
        return {"z": p["a"] * scale}, lambda ct: {"a": 7.0 * ct["z"]}

    close(grad(lambda p: single(p, scale=3.0)["z"])({"a": array(1.0)})["a"], 7.0)
    # A closed-over tracer stays a constant of the rule; loops and branches may be around.
    close(
        lax.scan(lambda c, t: (c, grad(lambda x: clipped(x, t))(c)), x, array([1.0, 2.0]))[1],
        [expected[0]] * 2,
    )
    with pytest.raises(TypeError, match=r"must return a pair \(value, rule\)"):
        grad(custom_gradient(lambda x: x))(x)


def test_closure_convert() -> None:
    def minimize(f: Any, x: Any) -> Any:
        """A solver with the derivative of the implicit function theorem, for a function that closes over anything."""
        converted, constants = closure_convert(f, x)
        return _minimize(converted, x, *constants)

    def steps(f: Any, x: Any, *constants: Any) -> Any:
        return lax.fori_loop(0, 200, lambda _, x: x - 0.1 * grad(f)(x, *constants), x)

    _minimize = tinyfn.custom_vjp(steps, nondiff_argnums=(0,))

    def forward(f: Any, x: Any, *constants: Any) -> Any:
        found = steps(f, x, *constants)
        return found, (found, constants)

    def backward(f: Any, kept: Any, ct: Any) -> Any:
        found, constants = kept
        curvature = grad(grad(f))(found, *constants)
        of_slope = vjp(lambda *c: grad(f)(found, *c), *constants)[1](-ct / curvature)
        return (tnp.zeros_like(found), *of_slope)

    _minimize.defvjp(forward, backward)

    def solution(a: Any, n: Any) -> Any:
        return minimize(lambda x: (x - a * a) ** 2 * n, array(0.0))

    close(solution(array(1.5), array(2, "int32")), 2.25)
    for transform in (lambda f: f, jit):
        close(transform(grad(solution))(array(1.5), array(2, "int32")), 3.0)
    # Outside of any transform there is nothing to convert.
    scale = array(3.0)
    converted, constants = closure_convert(lambda x: x * scale, array(2.0))
    assert constants == [] and float(converted(array(2.0))) == 6.0
    with pytest.raises(TypeError, match="takes arguments like those that it was converted for"):
        converted(array([2.0, 3.0]))
