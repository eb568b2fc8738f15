"""Branches as operations: both are traced, and one runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators, pytree
from ..trace.array import Array
from ..trace.errors import entry_point, user_line
from ..trace.graph import Graph
from ..trace.prims import convert
from ..trace.tracing import Traced, describe_function, with_tokens
from ..transforms.arguments import Arguments
from ..transforms.branches import cond as cond_op
from . import one_by_one
from .bodies import apply, joined, trace_branch
from .elementwise import clamp, convert_element_type, ne

Function = Callable[..., Any]
_NONE: Any = object()  # in the place of an operand: there is none (it may be None)


@entry_point
def cond(pred: Any, true_fun: Function, false_fun: Function, *operands: Any, operand: Any = _NONE) -> Any:
    """true_fun(*operands) if the scalar pred holds, else false_fun(*operands).

    Both are traced, and return pytrees of the same structure, dtypes and shapes; one runs. They may close over anything, traced
    arrays included. Mapped over a batch of predicates both run and each lane selects (`lax.map` runs one for each lane instead);
    nothing of the branch that a lane does not take gets into its derivatives. A single operand may be given by keyword. Raises
    TypeError if the results differ.

    >>> def magnitude(x):
    ...     return lax.cond(x < 0, lambda x: -x, lambda x: x, x)
    >>> magnitude(-2.0), tinyfn.grad(magnitude)(-2.0)
    (Array(2., dtype=float32), Array(-1., dtype=float32))
    >>> lax.cond(True, lambda: (1, 2.0), lambda: (3, 4.0))
    (Array(1, dtype=int32), Array(2., dtype=float32))
    >>> tinyfn.vmap(magnitude)(tnp.array([-1.0, 0.0, 1.0]))
    Array([1., 0., 1.], dtype=float32)
    """
    flag = operators.operand(pred)
    if flag.shape:
        raise TypeError(
            f"cond needs a scalar predicate, not {dtypes.describe(flag.dtype, flag.shape)}; at {user_line()}: reduce it with "
            ".any() or .all(), map cond over it with vmap, or choose elements with tinyfn.numpy.where"
        )
    if flag.dtype is not dtypes.bool_:
        flag = ne(flag, operators.scalar(0, flag.dtype))
    given = _operands("cond", operands, operand)
    return _branch("cond", convert_element_type(flag, dtypes.int32), [false_fun, true_fun], given)


@entry_point
def switch(index: Any, branches: Sequence[Function], *operands: Any, operand: Any = _NONE) -> Any:
    """branches[index](*operands), where an integer scalar index that is out of range is moved into it.

    As `cond`, with any number of branches. Raises ValueError if there are none.

    >>> branches = [lambda x: x, lambda x: 10 * x, lambda x: x * x]
    >>> lax.switch(1, branches, 3)
    Array(30, dtype=int32)
    >>> tinyfn.vmap(lambda i: lax.switch(i, branches, 3))(tnp.arange(-1, 5))
    Array([ 3,  3, 30,  9,  9,  9], dtype=int32)
    """
    functions = list(branches)
    if not functions:
        raise ValueError(f"switch needs at least one branch; at {user_line()}")
    at = operators.operand(index)
    if at.shape or not dtypes.is_integer(at.dtype):
        raise TypeError(
            f"switch needs an integer scalar as its index, not {dtypes.describe(at.dtype, at.shape)}; at {user_line()}: "
            f"{'use cond for a bool' if at.dtype is dtypes.bool_ else 'vmap it over several' if at.shape else 'cast it'}"
        )
    if at.dtype is not dtypes.int32:
        last = min(len(functions) - 1, int(np.iinfo(at.dtype).max))
        at = clamp(operators.scalar(0, at.dtype), at, operators.scalar(last, at.dtype))
        at = convert_element_type(at, dtypes.int32)
    return _branch("switch", at, functions, _operands("switch", operands, operand))


def _operands(what: str, operands: Sequence[Any], operand: Any) -> Sequence[Any]:
    if operand is _NONE:
        return operands
    if operands:
        raise TypeError(f"{what}: give operands by position, or one as `operand`, not both; at {user_line()}")
    return (operand,)


def _branch(what: str, index: Array, functions: Sequence[Function], operands: Sequence[Any]) -> Any:
    for function in functions:
        if not callable(function):
            raise TypeError(
                f"{what} takes functions as branches, not a {type(function).__name__}; at {user_line()}: operands come after them"
            )
    if one_by_one.is_wanted():
        chosen = one_by_one.branch(index, functions)
        if chosen is not None:
            return chosen(*operands)
        # What the branches close over is known outside of their traces, as operands are not.
        functions, operands = [_closed_over(function, operands) for function in functions], ()
    given = Arguments(what, functions[0], operands, {}, None, operators.operand)
    traces = with_tokens([trace_branch(what, function, given, operands) for function in functions])
    _check_structures(what, functions, traces)
    closed_over, graphs = joined(traces)
    weak = tuple([all(flags) for flags in zip(*[t.weak for t in traces], strict=True)])
    graphs = _of_one_dtype(what, functions, traces, graphs)
    results = apply(
        cond_op, [index, *closed_over, *given.arrays], weak, branches=tuple(graphs), any_lane=False
    )
    return pytree.unflatten(traces[0].out_tree, results)


def _closed_over(function: Function, operands: Sequence[Any]) -> Function:
    @wraps(function)
    def closed() -> Any:
        return function(*operands)

    return closed


def _name(what: str, functions: Sequence[Function], i: int) -> str:
    role = ("false_fun", "true_fun")[i] if what == "cond" else f"branch {i}"
    return f"{role} `{describe_function(functions[i])}`"


def _check_structures(what: str, functions: Sequence[Function], traces: Sequence[Traced]) -> None:
    first = traces[0].out_tree
    for i, traced in enumerate(traces):
        if traced.out_tree == first:
            continue
        raise TypeError(
            f"{what}: the branches must return the same structure, but {_name(what, functions, 0)} and "
            f"{_name(what, functions, i)} differ {pytree.difference(first, traced.out_tree, 'result')}; at {user_line()}"
        )


def _of_one_dtype(
    what: str, functions: Sequence[Function], traces: Sequence[Traced], graphs: Sequence[Graph]
) -> list[Graph]:
    """The branches, whose weak results take the dtypes that the others' have; raises TypeError if they still differ."""
    outputs = [list(graph.outputs) for graph in graphs]
    tree = traces[0].out_tree
    paths = pytree.flatten_with_path(pytree.unflatten(tree, [0] * tree.num_leaves))[0]
    for k, (path, _) in enumerate(paths):
        nodes = [o[k] for o in outputs]
        flags = [t.weak[k] for t in traces]
        dtype, weak = nodes[0].dtype, flags[0]
        for node, flag in zip(nodes, flags, strict=True):
            if node.dtype is not dtype:
                dtype, weak = dtypes.promote_pair(dtype, weak, node.dtype, flag)
        for i, (node, flag) in enumerate(zip(nodes, flags, strict=True)):
            if node.dtype is not dtype and flag:
                outputs[i][k] = convert(node, dtype=dtype)
        differing = [(o[k].dtype, o[k].shape) for o in outputs]
        for i, other in enumerate(differing):
            if other != differing[0]:
                where = f"result{pytree.keystr(path)}"
                same_dtype = other[0] is differing[0][0]
                fix = (
                    "give both the same shape"
                    if same_dtype
                    else f"cast one of them with .astype('{dtype.name}')"
                )
                raise TypeError(
                    f"{what}: the branches must return the same dtypes and shapes, but {where} is "
                    f"{dtypes.describe(*differing[0])} in {_name(what, functions, 0)} and {dtypes.describe(*other)} in "
                    f"{_name(what, functions, i)}; at {user_line()}: {fix}"
                )
    return [Graph(g.inputs, o, name=g.name) for g, o in zip(graphs, outputs, strict=True)]
