"""Loops as operations: traced once, differentiated, batched and compiled as a whole."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from typing import Any

from ..trace import dtype as dtypes
from ..trace import operators, prims, pytree
from ..trace.array import Array
from ..trace.errors import TracerError, entry_point, summary, user_line
from ..trace.tracing import describe_function, trace_function
from ..transforms.arguments import Arguments, check_function, positional_name
from ..transforms.loops import scan as scan_op
from ..transforms.vmap import vmap
from ..transforms.while_loops import while_loop as while_op
from . import one_by_one
from .bodies import Carry, Seen, apply, joined, seen, trace_loop
from .movement import concatenate, reshape, slice_in_dim

Pair = tuple[Any, Any]
_SHOWN = 5  # so many of the xs that have another size are named


@entry_point
def scan(
    f: Callable[[Any, Any], Pair],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> Pair:
    """The last carry, and the stacked results, of calling `carry, y = f(carry, x)` for each x along the leading axes of xs.

    Carry, xs and ys are pytrees; the carry keeps its structure, dtypes and shapes from step to step. Without xs the body is
    called `length` times with None. With `reverse` the last x comes first, and ys are in the order of the xs. `unroll` is a hint
    that changes nothing about the results. The body is traced once (or again where a Python number as carry takes the dtype
    that the body gives it). Derivatives of both modes; what the reverse mode keeps grows with the number of steps, unless `f` is
    wrapped in `checkpoint`. Raises TypeError if the body changes the carry, ValueError if the sizes of the xs differ.

    >>> def step(total, x):
    ...     total = total + x
    ...     return total, 2 * total
    >>> total, ys = lax.scan(step, 0.0, tnp.array([1.0, 2.0, 3.0]))
    >>> total, ys
    (Array(6., dtype=float32), Array([ 2.,  6., 12.], dtype=float32))
    >>> lax.scan(lambda c, _: (c * 2, c), 1, length=4)
    (Array(16, dtype=int32), Array([1, 2, 4, 8], dtype=int32))

    A recurrent network over 7 inputs of size 3, without ys, and the gradient of the sum of its last state:

    >>> def last(w, xs):
    ...     return lax.scan(lambda h, x: (tnp.tanh(w @ h + x), None), tnp.zeros(3), xs)[0].sum()
    >>> tinyfn.grad(last)(tnp.eye(3), tnp.ones((7, 3))).shape
    (3, 3)
    """
    return _scan("scan", f, init, xs, length, reverse)


def _scan(
    what: str,
    f: Callable[..., Any],
    init: Any,
    xs: Any,
    length: Any,
    reverse: bool,
    call: Callable[[Any, Any], Any] | None = None,
    weak_xs: bool = False,
) -> Pair:
    """`scan`, with a function of carry and x that calls f (f itself if None), whose errors name f."""
    function = describe_function(f)
    carry = Carry(what, f, init, 0 if call is None else 1)
    given = Arguments(what, f, (xs,), {}, (1 if call is None else 0,), operators.operand)
    length = _length(what, f, given, length)

    def step(carry: Any, leaves: list[Any]) -> Pair:
        ((x,), _) = given.rebuild(leaves)
        result = f(carry, x) if call is None else call(carry, x)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise TypeError(
                f"{what} of {function}: the body must return a pair (carry, y), not {summary(result)}; at "
                f"{user_line()}: return (carry, None) if there is nothing to stack"
            )
        return result[0], result[1]

    if type(length) is int and length and one_by_one.is_wanted():
        return one_by_one.scan(
            step, pytree.unflatten(carry.tree, carry.arrays), given.arrays, length, bool(reverse)
        )
    lanes = [Seen(a.dtype, a.shape[1:], a.weak_type or weak_xs) for a in given.arrays]
    traced, y_tree = trace_loop(what, f, carry, lanes, step, given.names)
    closed_over, (graph,) = joined([traced])
    count = len(carry.arrays)
    weak = [flag and (i >= count or carry.arrays[i].weak_type) for i, flag in enumerate(traced.weak)]
    results = apply(
        scan_op,
        [*closed_over, *carry.arrays, *given.arrays],
        weak,
        graph=graph,
        length=length,
        constants=len(closed_over),
        carries=count,
        reverse=bool(reverse),
    )
    return pytree.unflatten(carry.tree, results[:count]), pytree.unflatten(
        y_tree, results[count : count + y_tree.num_leaves]
    )


def _length(what: str, f: Callable[..., Any], given: Arguments, length: Any) -> Any:
    """The number of steps, which all xs agree on."""
    function = describe_function(f)
    for i, array in enumerate(given.arrays):
        if not array.shape:
            raise ValueError(
                f"{what} of {function}: `{given.name(i)}` is {dtypes.describe(array.dtype, ())}, which has no leading axis to "
                f"step along; at {user_line()}"
            )
    sizes = [array.shape[0] for array in given.arrays]
    if length is None:
        if not sizes:
            raise ValueError(f"{what} of {function}: there are no xs, so it needs a length; at {user_line()}")
        length = sizes[0]
    elif type(length) is not int and not any(length is n for n in sizes):
        length = operator.index(length)
    if isinstance(length, int) and length < 0:
        raise ValueError(f"{what} of {function}: the length {length} is negative; at {user_line()}")
    if any(n != length for n in sizes):
        names = given.names()
        others = [f"`{names[i]}` has {n}" for i, n in enumerate(sizes) if n != length]
        alike = [f"`{names[i]}` has {n}" for i, n in enumerate(sizes) if n == length]
        more = [f"and {len(others) - _SHOWN} more are different"] if len(others) > _SHOWN else []
        found = "; ".join([*alike[:1], *others[:_SHOWN], *more])
        raise ValueError(
            f"{what} of {function}: the leading axes of the xs must all have {length} elements: {found}; at {user_line()}"
        )
    return length


@entry_point
def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    *,
    max_steps: int | None = None,
) -> Any:
    """The first of init_val, body_fun(init_val), body_fun(body_fun(init_val)), ... for which cond_fun does not hold.

    The value is a pytree that keeps its structure, dtypes and shapes; cond_fun gives a bool scalar. Forward-mode derivatives and
    vmap work as they are; mapped over a batch it runs until all lanes are done, and each keeps its own last value. Reverse mode
    needs `max_steps`: the loop then ends after that many steps at the latest, whether or not the condition still holds.
    Its memory grows with the logarithm of max_steps, its time with the steps that are really taken. Raises TypeError if the body
    changes the value's structure, dtypes or shapes.

    >>> lax.while_loop(lambda x: x < 100, lambda x: 2 * x, 3)
    Array(192, dtype=int32)
    >>> lax.while_loop(lambda v: v[0] < 5, lambda v: (v[0] + 1, v[1] * v[0]), (1, 1.0))
    (Array(5, dtype=int32), Array(24., dtype=float32))

    The square root by Newton's steps, mapped over a batch, and its gradient, for which `max_steps` bounds the loop:

    >>> def root(a):
    ...     return lax.while_loop(lambda x: abs(x * x - a) > 1e-3, lambda x: (x + a / x) / 2, a, max_steps=20)
    >>> tinyfn.vmap(root)(tnp.array([4.0, 9.0, 16.0])).round(2)
    Array([2., 3., 4.], dtype=float32)
    >>> tinyfn.grad(root)(4.0).round(2)
    Array(0.25, dtype=float32)
    """
    check_function("while_loop", cond_fun, " as its condition")
    if max_steps is not None:
        max_steps = operator.index(max_steps)
        if max_steps < 0:
            raise ValueError(f"while_loop: max_steps {max_steps} is negative; at {user_line()}")
    carry = Carry("while_loop", body_fun, init_val)
    return _while("while_loop", cond_fun, body_fun, carry, lambda value: body_fun(value), max_steps)


def _while(
    what: str,
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[..., Any],
    carry: Carry,
    step: Callable[[Any], Any],
    max_steps: int | None,
) -> Any:
    """`while_loop`, with a step that calls body_fun, which errors name."""
    if one_by_one.is_wanted():
        value = pytree.unflatten(carry.tree, carry.arrays)
        value, taken, done = one_by_one.while_loop(cond_fun, step, value, max_steps)
        if done:
            return value
        names, carry = carry.names, Carry(what, body_fun, value)
        carry.names = names
        max_steps = None if max_steps is None else max_steps - taken
    body, _ = trace_loop(what, body_fun, carry, (), lambda value, _: (step(value), None))
    condition = trace_function(
        cond_fun,
        what,
        [seen(a) for a in carry.arrays],
        lambda tracers: ((pytree.unflatten(carry.tree, tracers),), {}),
        lambda i: carry.names()[i],
    )
    found = condition.graph.outputs
    if len(found) != 1 or found[0].dtype is not dtypes.bool_ or found[0].shape:
        described = ", ".join(dtypes.describe(n.dtype, n.shape) for n in found) or "nothing"
        raise TypeError(
            f"{what}: the condition {describe_function(cond_fun)} must return one bool, not {described}; at {user_line()}: "
            "compare (x != 0), and reduce with .any() or .all()"
        )
    closed_over, (test, graph) = joined([condition, body])
    weak = [a.weak_type and flag for a, flag in zip(carry.arrays, body.weak, strict=True)]
    results = apply(
        while_op,
        [*closed_over, *carry.arrays],
        weak,
        condition=test,
        body=graph,
        constants=len(closed_over),
        max_steps=max_steps,
    )
    return pytree.unflatten(carry.tree, results)


@entry_point
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """The value after `value = body_fun(i, value)` for i from lower up to, not including, upper; init_val if there is no such i.

    With bounds that are known it is a scan, and has derivatives of both modes. With traced bounds it is a while loop, without
    reverse mode. `unroll` is a hint that changes nothing about the results. Raises TypeError if the body changes the value's
    structure, dtypes or shapes.

    >>> lax.fori_loop(0, 5, lambda i, total: total + i, 0)
    Array(10, dtype=int32)
    >>> squares = lax.fori_loop(0, 4, lambda i, a: a.at[i].set(i * i), tnp.zeros(4))
    >>> squares
    Array([0., 1., 4., 9.], dtype=float32)
    >>> tinyfn.jit(lambda n: lax.fori_loop(0, n, lambda i, x: 2 * x, 1.0))(10)
    Array(1024., dtype=float32)
    """
    name = describe_function(body_fun)
    bounds, weak = operators.promote(lower, upper)
    low, high = bounds
    if not dtypes.is_integer(low.dtype) or low.shape or high.shape:
        raise TypeError(
            f"fori_loop of {name}: the bounds must be integers, not {operators.described(low, high)}; at {user_line()}"
        )
    try:
        first, last = operator.index(lower), operator.index(upper)
    except TracerError:
        return _traced_fori(body_fun, low, high, init_val)
    length = builtins.max(last - first, 0)
    steps = prims.iota(dtype=low.dtype, shape=(length,), axis=0)
    numbers = steps + operators.scalar(first, low.dtype) if first else steps
    result, _ = _scan(
        "fori_loop",
        body_fun,
        init_val,
        numbers,
        length,
        False,
        lambda value, i: (body_fun(i, value), None),
        weak,
    )
    return result


def _traced_fori(body_fun: Callable[[Any, Any], Any], low: Array, high: Array, init_val: Any) -> Any:
    def step(carry: Any) -> Any:
        i, value = carry
        return i + operators.scalar(1, low.dtype, i.weak_type), body_fun(i, value)

    carry = Carry("fori_loop", body_fun, (low, init_val), 1)
    value_names = Carry("fori_loop", body_fun, init_val, 1).names
    carry.names = lambda: [positional_name(body_fun, 0), *value_names()]
    _, result = _while("fori_loop", lambda carry: carry[0] < high, body_fun, carry, step, None)
    return result


@entry_point
def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """The stacked results of f(x) for each x along the leading axes of xs, one after another.

    With `batch_size` so many are done at a time, by vmap, and what is left over at last. Raises ValueError if the sizes of the
    xs differ.

    >>> lax.map(lambda x: x.sum(), tnp.ones((4, 3)))
    Array([3., 3., 3., 3.], dtype=float32)
    >>> lax.map(lambda pair: pair[0] * pair[1], (tnp.arange(5), tnp.arange(5)), batch_size=2)
    Array([ 0,  1,  4,  9, 16], dtype=int32)
    """
    given = Arguments("map", f, (xs,), {}, (0,), operators.operand)
    length = _length("map", f, given, None)

    def over(leaves: list[Array], function: Callable[[Any], Any]) -> Any:
        ((stacked,), _) = given.rebuild(leaves)
        return _scan("map", f, (), stacked, None, False, lambda _, x: ((), function(x)))[1]

    if batch_size is None:
        return over(list(given.arrays), f)
    batch_size = operator.index(batch_size)
    if batch_size < 1:
        raise ValueError(
            f"map of {describe_function(f)}: batch_size {batch_size} is not positive; at {user_line()}"
        )
    batches = length // batch_size
    whole = batches * batch_size
    parts = []
    if batches or not length:
        blocks = [
            reshape(slice_in_dim(a, 0, whole, axis=0), (batches, batch_size, *a.shape[1:]))
            for a in given.arrays
        ]
        done = over(blocks, vmap(f))
        parts.append(pytree.map(lambda y: reshape(y, (whole, *y.shape[2:])), done))
    if whole < length:
        ((rest,), _) = given.rebuild([slice_in_dim(a, whole, length, axis=0) for a in given.arrays])
        parts.append(vmap(f)(rest))
    return parts[0] if len(parts) == 1 else pytree.map(lambda *ys: concatenate(ys, 0), *parts)
