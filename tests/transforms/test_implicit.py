"""custom_linear_solve and custom_root: solutions and derivatives against NumPy's solve, closed forms and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.transforms.programs import array, close, normal
from tinyfn import lax

grad, jit, vmap, jvp, vjp = tinyfn.grad, tinyfn.jit, tinyfn.vmap, tinyfn.jvp, tinyfn.vjp

A, B, DA, DB = normal(0, (3, 3), (3,), (3, 3), (3,))
A = A + 4 * np.eye(3)
SYMMETRIC = A + A.T


def dense(matvec: Callable[..., Any], b: Any) -> Any:
    """A solver that knows nothing but the function: it makes the matrix, and solves by Gaussian elimination without pivots."""
    columns = [matvec(array(np.eye(3)[i])) for i in range(3)]
    rows = [[columns[j][i] for j in range(3)] + [b[i]] for i in range(3)]
    for i in range(3):
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in range(3):
            if j != i:
                rows[j] = [v - rows[j][i] * p for v, p in zip(rows[j], rows[i], strict=True)]
    return tnp.stack([row[3] for row in rows])


def conjugate_gradients(matvec: Callable[..., Any], b: Any) -> Any:
    def step(state: Any) -> Any:
        x, r, p, n = state
        q = matvec(p)
        alpha = (r @ r) / (p @ q)
        new = r - alpha * q
        return x + alpha * p, new, new + (new @ new) / (r @ r) * p, n + 1

    start = (tnp.zeros_like(b), b, b, array(0, "int32"))
    return lax.while_loop(lambda s: (s[1] @ s[1] > 1e-24) & (s[3] < 20), step, start)[0]


def solved(a: Any, b: Any) -> Any:
    return lax.custom_linear_solve(lambda v: a @ v, b, dense, transpose_solve=dense)


def solved_symmetric(a: Any, b: Any) -> Any:
    return lax.custom_linear_solve(lambda v: (a + a.T) @ v, b, conjugate_gradients, symmetric=True)


both = pytest.mark.parametrize(
    ("solve", "matrix"), [(solved, lambda a: a), (solved_symmetric, lambda a: a + a.T)], ids=["dense", "cg"]
)


@both
def test_the_solution_and_its_derivatives(solve: Any, matrix: Any) -> None:
    m, dm = matrix(A), matrix(DA)
    x = np.linalg.solve(m, B)
    dx = np.linalg.solve(m, DB - dm @ x)
    ct = np.array([1.0, -2.0, 0.5])
    bar = np.linalg.solve(m.T, ct)
    a, b = array(A), array(B)
    for transform in (lambda f: f, jit):
        close(transform(solve)(a, b), x, 1e-9)
        value, tangent = transform(lambda *args: jvp(solve, args[:2], args[2:]))(a, b, array(DA), array(DB))
        close(value, x, 1e-9)
        close(tangent, dx, 1e-9)
        of_a, of_b = transform(lambda a, b: vjp(solve, a, b)[1](array(ct)))(a, b)
        close(of_b, bar, 1e-9)
        expected = -np.outer(bar, x)
        close(of_a, expected if solve is solved else expected + expected.T, 1e-9)
    close(tinyfn.jacfwd(solve, 1)(a, b), np.linalg.inv(m), 1e-9)
    close(tinyfn.jacrev(solve, 1)(a, b), np.linalg.inv(m), 1e-9)


@both
def test_second_derivatives_against_finite_differences(solve: Any, matrix: Any) -> None:
    def f(a: Any) -> Any:
        return tnp.sum(tnp.sin(solve(a, array(B))))

    step = 1e-6
    first = grad(f)
    found = tinyfn.hessian(f)(array(A))
    turned = tinyfn.jacrev(tinyfn.jacfwd(f))(array(A))
    for i, j in ((0, 0), (1, 2), (2, 1)):
        h = np.zeros((3, 3))
        h[i, j] = step
        difference = (np.asarray(first(array(A + h))) - np.asarray(first(array(A - h)))) / (2 * step)
        close(found[:, :, i, j], difference, 1e-6)
        close(turned[:, :, i, j], difference, 1e-6)


@both
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_vmap(solve: Any, matrix: Any, axes: Any) -> None:
    many_a, many_b = np.stack([A, A + np.eye(3), 2 * A]), np.stack([B, 2 * B, -B])
    args = [many if axis == 0 else many[0] for many, axis in zip((many_a, many_b), axes, strict=True)]
    each = [
        (args[0][i] if axes[0] == 0 else args[0], args[1][i] if axes[1] == 0 else args[1]) for i in range(3)
    ]
    expected = [np.linalg.solve(matrix(a), b) for a, b in each]
    close(vmap(solve, in_axes=axes)(*map(array, args)), expected, 1e-9)
    close(jit(vmap(solve, in_axes=axes))(*map(array, args)), expected, 1e-9)
    one = grad(lambda a, b: tnp.sum(solve(a, b) ** 2), (0, 1))
    found = vmap(one, in_axes=axes)(*map(array, args))
    for i, (a, b) in enumerate(each):
        for lane, alone in zip(found, one(array(a), array(b)), strict=True):
            close(lane[i], alone, 1e-9)


def test_trees_and_auxiliary_data() -> None:
    def solve(matvec: Any, b: Any) -> Any:
        return {"u": b["u"] / 2.0, "v": b["v"] / 4.0}, {"steps": array(7, "int32"), "norm": tnp.sum(b["u"])}

    def f(b: Any) -> Any:
        return lax.custom_linear_solve(
            lambda x: {"u": 2.0 * x["u"], "v": 4.0 * x["v"]}, b, solve, symmetric=True, has_aux=True
        )

    b = {"u": array([1.0, 2.0]), "v": array(3.0)}
    for transform in (lambda f: f, jit):
        x, aux = transform(f)(b)
        close(x["u"], [0.5, 1.0])
        close(x["v"], 0.75)
        assert int(aux["steps"]) == 7 and float(aux["norm"]) == 3.0
    found = grad(lambda b: f(b)[0]["u"].sum() * f(b)[0]["v"])(b)
    close(found["u"], [0.375, 0.375])
    close(found["v"], 1.5 / 4)
    # Auxiliary data have no derivative.
    close(grad(lambda b: f(b)[1]["norm"])(b)["u"], [0.0, 0.0])
    close(jvp(lambda b: f(b)[1]["norm"], (b,), (b,))[1], 0.0)


def test_complex_equations() -> None:
    def as_complex(x: Any) -> Any:
        return array(x, "complex128")

    m = A + 1j * DA
    b = B + 1j * DB

    def f(b: Any) -> Any:
        solve = lambda _, right: tinyfn.linalg.solve(as_complex(m), right)
        turned = lambda _, right: tinyfn.linalg.solve(as_complex(m.T), right)
        return lax.custom_linear_solve(lambda v: as_complex(m) @ v, b, solve, turned)

    ct = DB + 2j * B
    close(jit(f)(as_complex(b)), np.linalg.solve(m, b), 1e-9)
    close(vjp(f, as_complex(b))[1](as_complex(ct))[0], np.linalg.solve(m.T, ct), 1e-9)


def test_forward_mode_needs_no_transpose() -> None:
    def f(a: Any, b: Any) -> Any:
        return lax.custom_linear_solve(lambda v: a @ v, b, dense)

    x = np.linalg.solve(A, B)
    args = (array(A), array(B))
    close(jvp(f, args, (array(DA), array(DB)))[1], np.linalg.solve(A, DB - DA @ x), 1e-9)
    with pytest.raises(TypeError, match=r"test_implicit.py:\d+.*give it transpose_solve, or symmetric=True"):
        grad(lambda a, b: f(a, b).sum())(*args)


def test_solvers_that_look_at_values() -> None:
    def iterate(matvec: Any, b: Any) -> Any:
        x = b
        while float(tnp.abs(matvec(x) - b).max()) > 1e-12:  # under grad the values are known
            x = x - (matvec(x) - b) / 10.0
        return x

    def f(s: Any) -> Any:
        return lax.custom_linear_solve(lambda v: s * v, array(B), iterate, iterate).sum()

    close(f(array(4.0)), B.sum() / 4, 1e-9)
    with pytest.raises(tinyfn.TracerError, match="jit of f"):
        jit(f)(array(4.0))


def test_wrong_equations() -> None:
    b = array(B)
    solve = lambda _, right: right
    for matvec, message in (
        (lambda v: v[:2], r"what matvec gives is float64\[2\], but b is float64\[3\]"),
        (lambda v: (v, v), "what matvec gives has the structure"),
    ):
        with pytest.raises(TypeError, match=message):
            jit(lambda b: lax.custom_linear_solve(matvec, b, solve))(b)
    for transform in (lambda f: f, jit):
        with pytest.raises(TypeError, match=r"solution.* is float64\[2\], but b is float64\[3\]"):
            transform(lambda b: lax.custom_linear_solve(lambda v: v, b, lambda _, right: right[:2]))(b)
        with pytest.raises(TypeError, match=r"must return a pair \(solution, auxiliary data\)"):
            transform(lambda b: lax.custom_linear_solve(lambda v: v, b, solve, has_aux=True))(b)
        with pytest.raises(TypeError, match="b must be of floats, not int32"):
            transform(lambda b: lax.custom_linear_solve(lambda v: v, b, solve))(array([1, 2], "int32"))
    with pytest.raises(TypeError, match=r"linear_transpose of <lambda>: it is not linear"):
        jit(lambda b: lax.custom_linear_solve(lambda v: v * v, b, solve, lambda f, c: f(c)))(b)


def newton(f: Callable[..., Any], guess: Any) -> Any:
    def step(state: Any) -> Any:
        x, n = state
        value, slope = jvp(f, (x,), (tnp.ones_like(x),))
        return x - value / slope, n + 1

    return lax.while_loop(
        lambda s: (tnp.abs(f(s[0])) > 1e-13) & (s[1] < 50), step, (guess, array(0, "int32"))
    )[0]


def divide(g: Callable[..., Any], y: Any) -> Any:
    return y / g(tnp.ones_like(y))


def cube_root(a: Any) -> Any:
    return lax.custom_root(lambda x: x**3 - a, tnp.ones_like(a), newton, divide)


def test_a_root_and_its_derivatives() -> None:
    a = 2.5
    expected = [a ** (1 / 3), a ** (-2 / 3) / 3, -2 / 9 * a ** (-5 / 3), 10 / 27 * a ** (-8 / 3)]
    derivative: Callable[..., Any] = cube_root
    for value in expected:
        close(derivative(array(a)), value, 1e-9)
        close(jit(derivative)(array(a)), value, 1e-9)
        derivative = grad(derivative)
    close(jvp(cube_root, (array(a),), (array(2.0),))[1], 2 * expected[1], 1e-9)
    close(tinyfn.hessian(cube_root)(array(a)), expected[2], 1e-9)
    close(tinyfn.jacfwd(tinyfn.jacfwd(cube_root))(array(a)), expected[2], 1e-9)
    many = np.array([0.5, 1.0, 8.0])
    close(vmap(cube_root)(array(many)), many ** (1 / 3), 1e-9)
    close(vmap(grad(cube_root))(array(many)), many ** (-2 / 3) / 3, 1e-9)
    close(jit(vmap(grad(cube_root)))(array(many)), many ** (-2 / 3) / 3, 1e-9)


def test_a_root_of_several_equations() -> None:
    """The fixed point of tanh(w x + b), against finite differences of its iteration in NumPy."""
    w = 0.3 * DA

    def fixed_point(w: np.ndarray, b: np.ndarray) -> np.ndarray:
        x = np.zeros(3)
        for _ in range(200):
            x = np.tanh(w @ x + b)
        return x

    def iterate(f: Any, guess: Any) -> Any:
        return lax.fori_loop(0, 200, lambda _, x: x + f(x), guess), array(200, "int32")

    def root(w: Any, b: Any) -> Any:
        x, steps = lax.custom_root(
            lambda x: tnp.tanh(w @ x + b) - x, tnp.zeros(3, "float64"), iterate, dense, has_aux=True
        )
        return x * (steps > 0)

    close(root(array(w), array(B)), fixed_point(w, B), 1e-9)
    step = 1e-6
    difference = (fixed_point(w + step * DA, B + step * DB) - fixed_point(w - step * DA, B - step * DB)) / (
        2 * step
    )
    for transform in (lambda f: f, jit):
        found = transform(lambda *args: jvp(root, args[:2], args[2:])[1])(*map(array, (w, B, DA, DB)))
        close(found, difference, 1e-7)
        ct = np.array([1.0, -2.0, 0.5])
        of_w, of_b = transform(lambda w, b: vjp(root, w, b)[1](array(ct)))(array(w), array(B))
        close((of_w * array(DA)).sum() + (of_b * array(DB)).sum(), ct @ difference, 1e-7)


def test_what_a_root_has_no_derivative_by() -> None:
    def root(guess: Any, scale: Any, a: Any) -> Any:
        def solve(f: Any, guess: Any) -> Any:
            return newton(lambda x: f(x) * scale, guess)  # the solver closes over what is differentiated

        return lax.custom_root(lambda x: x * x - a, guess, solve, divide)

    found = grad(root, (0, 1, 2))(array(1.0), array(3.0), array(4.0))
    close(found[0], 0.0)
    close(found[1], 0.0)
    close(found[2], 0.25, 1e-9)


def test_numbers_as_guesses_and_auxiliary_data() -> None:
    def root(a: Any) -> Any:
        x, steps = lax.custom_root(
            lambda x: x**3 - a,
            tnp.ones_like(a),
            lambda f, x: (newton(f, x), {"steps": 3, "rate": 0.5}),
            divide,
            has_aux=True,
        )
        return x * steps["rate"] * steps["steps"]

    for transform in (lambda f: f, jit):
        close(transform(root)(array(8.0)), 3.0, 1e-9)
        close(transform(grad(root))(array(8.0)), 1.5 / 12, 1e-9)
    f = lambda b: lax.custom_linear_solve(lambda v: 4.0 * v, b, lambda _, right: right / 4.0, symmetric=True)
    assert f(2.0) == 0.5
    close(jit(grad(f))(2.0), 0.25)


def test_wrong_roots() -> None:
    with pytest.raises(
        TypeError, match=r"what <lambda> gives is float64\[3\], but the initial guess is float64\[\]"
    ):
        jit(lambda a: lax.custom_root(lambda x: x - a, array(1.0), newton, divide))(array(B))
    with pytest.raises(TypeError, match=r"the root is float64\[3\], but the initial guess is float64\[\]"):
        lax.custom_root(lambda x: x - 1.0, array(1.0), lambda f, x: array(B), divide)


def test_solutions_are_exported_with_their_derivatives() -> None:
    from tinyfn import export

    stored = export.deserialize(export.export(jit(solved))(array(A), array(B)).serialize())
    close(stored.call(array(A), array(B)), np.linalg.solve(A, B), 1e-9)
    of_a, of_b = grad(lambda a, b: stored.call(a, b).sum(), (0, 1))(array(A), array(B))
    expected = np.linalg.solve(A.T, np.ones(3))
    close(of_b, expected, 1e-9)
    close(of_a, -np.outer(expected, np.linalg.solve(A, B)), 1e-9)
