"""Every combination of the transforms to depth 3, against exact derivatives of polynomials.

Each transform here makes a scalar function of a scalar into another one, of which it is known how often it differentiates.
With `closing`, each level also multiplies by a function of the outer variable that the transformed function closes over:
a constant for that level's derivative, but not for those outside. So the oracle is arithmetic on polynomials alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.polynomial import Polynomial

import tinyfn
from tests.transforms.programs import array, close
from tinyfn.trace import prims
from tinyfn.trace.array import as_array

Scalar = Callable[[Any], Any]

POLYNOMIAL = Polynomial([0.5, -1.0, 0.25, 2.0, -0.75, 0.5, 1.5, -0.25])
FACTOR = Polynomial([1.0, 0.0, 0.5])  # what each level closes over
POINT = 0.7


def horner(x: Any) -> Any:
    """The polynomial on scalars."""
    result: Any = 0.0
    for coefficient in reversed(POLYNOMIAL.coef):
        result = result * x + float(coefficient)
    return result


def with_arrays(x: Any) -> Any:
    """The polynomial as a product of its coefficients with powers, gathered from a dict of arrays and back."""
    count = len(POLYNOMIAL.coef)
    repeated = prims.broadcast(x, shape=(count - 1,), axes=())
    powers = {
        "low": array([1.0]),
        "high": prims.exp(prims.cumsum(prims.log(repeated), axis=0, reverse=False)),
    }
    shuffled = prims.concatenate(powers["high"], powers["low"], axis=0)
    index = as_array(np.array([[count - 1], *[[i] for i in range(count - 1)]], np.int32))
    ordered = prims.gather(shuffled, index, axes=(0,), sizes=(1,), batch_dims=0, mode="clip")
    product = prims.dot_general(
        ordered, array(POLYNOMIAL.coef[:, None]), contract=((0,), (0,)), batch_axes=((1,), (1,))
    )
    return prims.reduce_sum(product, axes=(0,))


def through_vmap(f: Scalar) -> Scalar:
    def mapped(x: Any) -> Any:
        lanes = prims.concatenate(*[prims.reshape(v, shape=(1,)) for v in (x * 0.5, x)], axis=0)
        results = tinyfn.vmap(f)(lanes)
        return prims.reshape(prims.slice_(results, start=(1,), limit=(2,), step=(1,)), shape=())

    return mapped


def through_custom_jvp(f: Scalar) -> Scalar:
    @tinyfn.custom_jvp
    def custom(x: Any) -> Any:
        return f(x)

    @custom.defjvp
    def _rule(primals: Any, tangents: Any) -> Any:
        tangent = tinyfn.jvp(f, primals, tangents)[1]
        return custom(*primals), tangent

    return custom


def through_custom_vjp(f: Scalar) -> Scalar:
    @tinyfn.custom_vjp
    def custom(x: Any) -> Any:
        return f(x)

    custom.defvjp(lambda x: (f(x), {"x": x}), lambda residuals, ct: (ct * tinyfn.grad(f)(residuals["x"]),))
    return custom


class Transform(NamedTuple):
    apply: Callable[[Scalar], Scalar]
    order: int  # how often it differentiates
    mode: str = ""  # "forward" or "reverse": the mode in which it first passes through the function


TRANSFORMS: dict[str, Transform] = {
    "grad": Transform(tinyfn.grad, 1, "reverse"),
    "jvp": Transform(lambda f: lambda x: tinyfn.jvp(f, (x,), (array(1.0),))[1], 1, "forward"),
    "vjp": Transform(lambda f: lambda x: tinyfn.vjp(f, x)[1](array(1.0))[0], 1, "reverse"),
    "linearize": Transform(lambda f: lambda x: tinyfn.linearize(f, x)[1](array(1.0)), 1, "forward"),
    "vmap": Transform(through_vmap, 0),
    "jit": Transform(tinyfn.jit, 0),
    "remat": Transform(tinyfn.remat, 0),
    "custom_jvp": Transform(through_custom_jvp, 0, "forward"),
    "custom_vjp": Transform(through_custom_vjp, 0),
    "jacfwd": Transform(tinyfn.jacfwd, 1, "forward"),
    "jacrev": Transform(tinyfn.jacrev, 1, "reverse"),
    "hessian": Transform(tinyfn.hessian, 2, "reverse"),
}


def forward_meets_custom_vjp(names: tuple[str, ...], closing: bool) -> bool:
    """Whether a forward mode passes through a custom_vjp function, from the innermost transform outwards."""
    depth = 0  # of custom_vjp functions within each other
    for name in names:
        mode = TRANSFORMS[name].mode
        if name == "custom_vjp":
            depth += 1
        elif mode == "forward" and depth:
            return True
        elif mode == "reverse":
            # The rules take the function's place, and call the one within; that is gone too, if only for derivatives.
            depth = max(depth - 1, 0) if closing else 0
            if name == "hessian" and depth:
                return True
    return False


def composed(names: tuple[str, ...], f: Scalar, closing: bool) -> tuple[Scalar, Polynomial]:
    """The transforms applied one after the other, the first innermost, and the polynomial that should come out."""
    expected = POLYNOMIAL
    for name in names:
        transform = TRANSFORMS[name]
        expected = expected.deriv(transform.order) if transform.order else expected
        if closing:
            expected, f = expected * FACTOR, closing_over(transform.apply, f)
        else:
            f = transform.apply(f)
    return f, expected


def closing_over(transform: Callable[[Scalar], Scalar], f: Scalar) -> Scalar:
    def outer(x: Any) -> Any:
        factor = 1.0 + 0.5 * x * x
        return (
            transform(lambda y: f(y) * 1.0)(x) * factor
            if is_custom(transform)
            else transform(lambda y: f(y) * factor)(x)
        )

    return outer


def is_custom(transform: Callable[[Scalar], Scalar]) -> bool:
    """Custom rules give no derivative for what they close over, so the factor stays outside of them."""
    return transform in (through_custom_jvp, through_custom_vjp)


def check(names: tuple[str, ...], f: Scalar, closing: bool, tolerance: float) -> None:
    function, expected = composed(names, f, closing)
    if forward_meets_custom_vjp(names, closing):
        with pytest.raises(TypeError, match=r"forward mode .* of the custom_vjp function"):
            tinyfn.jit(function)(
                array(POINT)
            )  # in a trace: the rules of custom functions are not used outside
    else:
        close(function(array(POINT)), expected(POINT), tolerance)


@pytest.mark.parametrize("outermost", TRANSFORMS)
def test_all_combinations_of_three(outermost: str) -> None:
    for inner in itertools.product(TRANSFORMS, repeat=2):
        check((*inner, outermost), horner, closing=False, tolerance=1e-11)


@pytest.mark.parametrize("outermost", TRANSFORMS)
def test_all_combinations_of_three_that_close_over_outer_variables(outermost: str) -> None:
    for inner in itertools.product(TRANSFORMS, repeat=2):
        check((*inner, outermost), horner, closing=True, tolerance=1e-11)


@pytest.mark.parametrize("outermost", TRANSFORMS)
@pytest.mark.parametrize("closing", [False, True])
def test_all_combinations_of_two_on_arrays(outermost: str, closing: bool) -> None:
    for inner in TRANSFORMS:
        check((inner, outermost), with_arrays, closing, tolerance=1e-9)


@pytest.mark.parametrize("outermost", TRANSFORMS)
def test_all_combinations_of_two_give_sound_graphs(outermost: str) -> None:
    for inner in TRANSFORMS:
        if not forward_meets_custom_vjp((inner, outermost), closing=True):
            function, expected = composed((inner, outermost), horner, closing=True)
            graph = tinyfn.make_graph(function)(array(POINT)).check()
            (value,) = graph.run([np.asarray(POINT), *[a.value for a in graph.captured]])
            close(value, expected(POINT), 1e-11)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_one_transform_five_times(name: str) -> None:
    names = (name,) * (2 if name == "hessian" else 5)
    check(names, horner, closing=False, tolerance=1e-9)


def test_custom_rules_may_not_be_differentiated_by_what_they_close_over() -> None:
    for transform in (through_custom_jvp, through_custom_vjp):
        with pytest.raises(TypeError, match="an array that the function closes over"):
            tinyfn.grad(lambda x, t=transform: t(lambda y: horner(y) * x)(x))(array(POINT))


def test_a_training_step_of_everything() -> None:
    """vmap of the gradient of a remat of a jit over examples, in a jit, with a closed-over regulariser: against NumPy."""
    generator = np.random.default_rng(0)
    w, xs, ys = generator.normal(size=(3,)), generator.normal(size=(5, 3)), generator.normal(size=(5,))
    strength = array(0.1)

    @tinyfn.remat
    @tinyfn.jit
    def predict(w: Any, x: Any) -> Any:
        return prims.tanh(prims.dot_general(w, x, contract=((0,), (0,)), batch_axes=((), ())))

    def loss(w: Any, x: Any, y: Any) -> Any:
        return (predict(w, x) - y) ** 2 + strength * prims.reduce_sum(w * w, axes=(0,))

    per_example = tinyfn.jit(tinyfn.vmap(tinyfn.grad(loss), in_axes=(None, 0, 0)))
    prediction = np.tanh(xs @ w)
    expected = (2 * (prediction - ys) * (1 - prediction**2))[:, None] * xs + 0.2 * w
    close(per_example(w, xs, ys), expected)
