"""Jacobians and Hessians: derivatives along all unit vectors at once, by vmap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import prims, pytree
from ..trace.array import Array, wrap
from ..trace.errors import entry_point_of, user_line
from ..trace.operators import full
from ..trace.tracing import current_trace, describe_function, tracer
from .arguments import (
    Arguments,
    as_tuple,
    check_differentiable,
    check_function,
    float0_zeros,
    normalize_positions,
)
from .linear import linearize, vjp
from .vmap import vmap


def _basis(array: Any) -> Array:
    """The unit vectors of an array's space, along a new leading axis."""
    size = int(np.prod(array.shape))
    value = wrap(np.eye(size, dtype=array.dtype).reshape(size, *array.shape))
    trace = current_trace()
    return value if trace is None else tracer(trace, trace.lift(value))


def _jacobian(
    function: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    forward: bool,
    name: str,
    holomorphic: bool,
    allow_int: bool = False,
) -> Callable[..., Any]:
    check_function(name, function)

    @entry_point_of(name, function)
    @wraps(function)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        positions = normalize_positions("argnums", function, as_tuple(argnums), len(args))

        def partial(*chosen: Any) -> Any:
            everything = list(args)
            for position, arg in zip(positions, chosen, strict=True):
                everything[position] = arg
            return function(*everything, **kwargs)

        partial.__name__ = describe_function(function)
        chosen = tuple([args[position] for position in positions])
        given = Arguments(name, function, chosen, {}, positions)
        check_differentiable(name, function, given, allow_int, forward and not holomorphic, holomorphic)
        single = not isinstance(argnums, (tuple, list))
        if forward:
            value, linear, *aux = linearize(partial, *chosen, has_aux=has_aux)
            _check_results(name, function, value, holomorphic)
            in_leaves = given.arrays
            # One column for each element of each argument, the other arguments' tangents being zero.
            columns = [
                vmap(lambda t, i=i: linear(*_one_hot_tangents(given, i, t)), out_axes=-1)(_basis(x))
                for i, x in enumerate(in_leaves)
            ]
            out_leaves, out_tree = pytree.flatten(value)
            rows = []
            for j, out in enumerate(out_leaves):
                parts = [
                    prims.reshape(pytree.leaves(column)[j], shape=out.shape + x.shape)
                    for column, x in zip(columns, in_leaves, strict=True)
                ]
                tree = given.rebuild(parts)[0]
                rows.append(tree[0] if single else tree)
            result = pytree.unflatten(out_tree, rows)
        else:
            value, pulled, *aux = vjp(partial, *chosen, has_aux=has_aux)
            _check_results(name, function, value, holomorphic)
            out_leaves, out_tree = pytree.flatten(value)
            rows = []
            for j, out in enumerate(out_leaves):
                rows_j = vmap(lambda ct, j=j: pulled(_one_hot_cotangent(out_tree, out_leaves, j, ct)))(
                    _basis(out)
                )
                parts = [
                    prims.reshape(leaf, shape=out.shape + x.shape)
                    if dtypes.is_inexact(x.dtype)
                    else float0_zeros(out.shape + x.shape)
                    for leaf, x in zip(pytree.leaves(rows_j), given.arrays, strict=True)
                ]
                tree = given.rebuild(parts)[0]
                rows.append(tree[0] if single else tree)
            result = pytree.unflatten(out_tree, rows)
        return (result, aux[0]) if has_aux else result

    return jacobian


def _check_results(transform: str, function: Callable[..., Any], value: Any, holomorphic: bool) -> None:
    """Raise TypeError unless all results are of floats, or of complex numbers if `holomorphic`."""
    wanted = "complex" if holomorphic else "float"
    for path, leaf in pytree.leaves_with_path(value):
        if dtypes.kind(leaf.dtype) != wanted:
            described = dtypes.describe(leaf.dtype, leaf.shape)
            what = (
                "holomorphic=True is for complex results"
                if holomorphic
                else "set holomorphic=True if the function is complex differentiable, else use vjp or jvp"
                if dtypes.is_inexact(leaf.dtype)
                else "it has no derivative: return it through has_aux=True"
            )
            raise TypeError(
                f"{transform} of {describe_function(function)}: the result{pytree.keystr(path)} is {described}; "
                f"at {user_line()}: {what}"
            )


def _one_hot_tangents(given: Arguments, index: int, tangent: Any) -> tuple[Any, ...]:
    return given.rebuild(
        [tangent if i == index else full(0, x.dtype, x.shape) for i, x in enumerate(given.arrays)]
    )[0]


def _one_hot_cotangent(tree: Any, leaves: Sequence[Any], index: int, cotangent: Any) -> Any:
    return pytree.unflatten(
        tree, [cotangent if i == index else full(0, x.dtype, x.shape) for i, x in enumerate(leaves)]
    )


def jacfwd(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of `function`, computed column by column in forward mode: best for few inputs and many outputs.

    For each result leaf of shape s and argument leaf of shape t, an array of shape s + t. Arguments and results are real, or
    all complex with `holomorphic`.

    >>> tinyfn.jacfwd(lambda x: tnp.stack([x[0] * x[1], x[0], x[1]]))(tnp.array([2.0, 3.0]))
    Array([[3., 2.],
           [1., 0.],
           [0., 1.]], dtype=float32)
    """
    return _jacobian(function, argnums, has_aux, True, "jacfwd", holomorphic)


def jacrev(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of `function`, computed row by row in reverse mode: best for many inputs and few outputs.

    For each result leaf of shape s and argument leaf of shape t, an array of shape s + t; of float0 for an argument of integers,
    which `allow_int` permits. Results are real, or arguments and results complex with `holomorphic`.

    >>> tinyfn.jacobian(lambda x: x**2)(tnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)

    For an argument with several leaves there is one of each:

    >>> blocks = tinyfn.jacobian(lambda p: p["w"] @ p["x"])({"w": tnp.ones((2, 3)), "x": tnp.ones(3)})
    >>> tree.map(tnp.shape, blocks)
    {'w': (2, 2, 3), 'x': (2, 3)}
    """
    return _jacobian(function, argnums, has_aux, False, "jacrev", holomorphic, allow_int)


def hessian(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The second derivatives of `function`: forward mode over reverse mode.

    For a scalar function of an array of shape s, an array of shape s + s; for several arguments, or one with several leaves, a
    tree of them within a tree. Options and errors are those of `jacobian`.

    >>> tinyfn.hessian(lambda x: x[0] ** 2 * x[1])(tnp.array([1.0, 2.0]))
    Array([[4., 2.],
           [2., 0.]], dtype=float32)
    """
    return jacfwd(jacrev(function, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)


jacobian = jacrev
