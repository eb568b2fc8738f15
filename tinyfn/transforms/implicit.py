"""custom_linear_solve and custom_root: derivatives of solutions, by the equations that they solve and not by the solvers' steps.

A solution x of f(x, c) = 0 has the derivative dx = -(df/dx)⁻¹ (df/dc) dc (the implicit function theorem): a linear equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..trace import dtype as dtypes
from ..trace import pytree
from ..trace.array import as_array
from ..trace.errors import entry_point, user_line
from ..trace.operators import full
from ..trace.tracing import Traced, current_trace, describe_function, trace_function, tracer
from .arguments import Arguments
from .closures import converted, union, with_closure
from .custom_jvp import custom_jvp
from .linear import jvp, linear_transpose
from .linear_solve import linear_solve


def _check_like(what: str, value: Any, like_what: str, like: Any) -> None:
    """Raise TypeError unless two trees have one structure, dtypes and shapes."""
    found, found_tree = pytree.flatten_with_path(value)
    wanted, tree = pytree.flatten_with_path(like)
    if found_tree != tree:
        raise TypeError(
            f"{what} has the structure {pytree.spelled(found_tree)}, but {like_what} has {pytree.spelled(tree)}; at {user_line()}"
        )
    for (path, leaf), (_, b) in zip(found, wanted, strict=True):
        a = leaf if hasattr(leaf, "dtype") else as_array(leaf)
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            given, expected = (dtypes.describe(x.dtype, x.shape) for x in (a, b))
            raise TypeError(
                f"{what}{pytree.keystr(path)} is {given}, but {like_what} is {expected}; at {user_line()}"
            )


def _pair(what: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(
            f"{what} with has_aux=True must return a pair (solution, auxiliary data), not {type(result).__name__}; "
            f"at {user_line()}"
        )
    return result


def _check_functions(what: str, **functions: Any) -> None:
    for name, function in functions.items():
        if not callable(function):
            raise TypeError(
                f"{what} takes a function as `{name}`, not {type(function).__name__}; at {user_line()}"
            )


@entry_point
def custom_linear_solve(
    matvec: Callable[..., Any],
    b: Any,
    solve: Callable[..., Any],
    transpose_solve: Callable[..., Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The x for which `matvec(x)` is `b`, as `solve(matvec, b)` finds it, with the derivatives of the equation.

    `matvec` is a linear function from a pytree like `b` to another; both may close over arrays, by which the solution has
    derivatives. Reverse mode calls `transpose_solve(vecmat, ct)`, where `vecmat` is the transpose of `matvec`, or `solve`
    itself if the matrix is `symmetric`. With `has_aux` the solvers return (solution, auxiliary data), and so does this.
    Raises TypeError if `matvec` or the solution is not like `b`.

    >>> def by_inverse(matvec, b):
    ...     return b / matvec(tnp.ones_like(b))
    >>> def solution(a, b):
    ...     return lax.custom_linear_solve(lambda x: a * x, b, by_inverse, symmetric=True)
    >>> a, b = tnp.array([2.0, 4.0]), tnp.array([2.0, 8.0])
    >>> solution(a, b)
    Array([1., 2.], dtype=float32)
    >>> tinyfn.grad(lambda a: solution(a, b).sum())(a)  # of b / a
    Array([-0.5, -0.5], dtype=float32)
    """
    _check_functions("custom_linear_solve", matvec=matvec, solve=solve)
    given = Arguments("custom_linear_solve", matvec, (b,), {})
    if not all(dtypes.is_inexact(a.dtype) for a in given.arrays):
        raise TypeError(
            f"custom_linear_solve: b must be of floats, not {', '.join(a.dtype.name for a in given.arrays)}; at {user_line()}"
        )
    (b,), _ = given.rebuild(list(given.arrays))
    trace = current_trace()
    if trace is None:
        result = solve(matvec, b)
        _check_like("custom_linear_solve: the solution", _pair("solve", result, has_aux)[0], "b", b)
        return result

    def traced(function: Callable[..., Any], name: str, known: bool) -> Traced:
        function.__name__ = name
        values = given.arrays if known else None
        return trace_function(
            function, "custom_linear_solve", given.arrays, given.rebuild, given.name, values
        )

    def applied(x: Any) -> Any:
        result = matvec(x)
        _check_like("custom_linear_solve: what matvec gives", result, "b", b)
        return result

    def solved(solver: Any, equation: Any, what: str, right: Any) -> Any:
        solution, aux = _pair(what, solver(equation, right), has_aux)
        _check_like(f"custom_linear_solve: the solution of {what}", solution, "b", b)
        return solution, aux

    graphs = {
        "matvec": traced(lambda x: applied(x), "matvec", False),
        "solve": traced(lambda right: solved(solve, matvec, "solve", right), "solve", True),
    }
    if transpose_solve is not None and not symmetric:

        def vecmat(ct: Any) -> Any:
            return linear_transpose(matvec, b)(ct)[0]

        graphs["vecmat"] = traced(lambda ct: vecmat(ct), "vecmat", False)
        graphs["transpose_solve"] = traced(
            lambda ct: solved(transpose_solve, vecmat, "transpose_solve", ct), "transpose_solve", False
        )
    closure = union([], *[t.graph.captured for t in graphs.values()])
    params: dict[str, Any] = {"vecmat": None, "transpose_solve": None}
    params |= {name: with_closure(t, closure, first=True) for name, t in graphs.items()}
    if symmetric:
        params |= {"vecmat": params["matvec"], "transpose_solve": params["solve"]}
    arrays = [*[c.array for c in closure if c.array is not None], *given.arrays]
    nodes = linear_solve.apply(*[trace.lift(a) for a in arrays], constants=len(closure), **params)
    found = graphs["solve"]
    leaves = [tracer(trace, node, weak) for node, weak in zip(nodes, found.weak, strict=True)]
    solution, aux = pytree.unflatten(found.out_tree, leaves)
    return (solution, aux) if has_aux else solution


@entry_point
def custom_root(
    f: Callable[..., Any],
    initial_guess: Any,
    solve: Callable[..., Any],
    tangent_solve: Callable[..., Any],
    has_aux: bool = False,
) -> Any:
    """The x for which `f(x)` is zero, as `solve(f, initial_guess)` finds it, with the derivatives of the equation.

    `f` gives a pytree like its argument, and may close over arrays, by which the root has derivatives; by the initial guess
    it has none, nor by what the solvers close over. `tangent_solve(g, y)` solves g(x) = y for a linear function g, the
    derivative of `f` at the root; reverse mode calls it for the transpose of g too. With `has_aux`, `solve` returns (root,
    auxiliary data), and so does this. Raises TypeError if `f(x)` or the root is not like the initial guess.

    >>> def newton(f, x):
    ...     for _ in range(10):
    ...         x = x - f(x) / tinyfn.grad(f)(x)
    ...     return x
    >>> def square_root(a):
    ...     return lax.custom_root(lambda x: x**2 - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> square_root(4.0), tinyfn.grad(square_root)(4.0)
    (Array(2., dtype=float32), Array(0.25, dtype=float32))
    """
    _check_functions("custom_root", f=f, solve=solve, tangent_solve=tangent_solve)
    given = Arguments("custom_root", f, (initial_guess,), {})
    (guess,), _ = given.rebuild(list(given.arrays))
    if current_trace() is None:
        result = solve(f, guess)
        _check_like("custom_root: the root", _pair("solve", result, has_aux)[0], "the initial guess", guess)
        return result
    function, constants, traced = converted(f, (guess,), lambda a: dtypes.is_inexact(a.dtype))
    value = pytree.unflatten(traced.out_tree, list(traced.graph.outputs))
    _check_like(f"custom_root: what {describe_function(f)} gives", value, "the initial guess", guess)

    def root(guess: Any, constants: Any) -> Any:
        result = solve(lambda x: function(x, *constants), guess)
        _check_like("custom_root: the root", _pair("solve", result, has_aux)[0], "the initial guess", guess)
        return result

    def rule(primals: Any, tangents: Any) -> Any:
        guess, constants = primals
        result = rooted(guess, constants)
        solution, aux = _pair("solve", result, has_aux)
        _, change = jvp(lambda c: function(solution, *c), (constants,), (tangents[1],))

        def derivative(t: Any) -> Any:
            return jvp(lambda x: function(x, *constants), (solution,), (t,))[1]

        right = pytree.map(lambda c: -c, change)
        tangent = custom_linear_solve(derivative, right, tangent_solve, tangent_solve)
        arrays = pytree.map(as_array, aux)
        none = pytree.map(lambda a: full(0, a.dtype, a.shape), arrays)
        return result, (tangent, none) if has_aux else tangent

    rooted = custom_jvp(root)
    rooted.closure_is_constant = True
    rooted.defjvp(rule)
    return rooted(guess, constants)
