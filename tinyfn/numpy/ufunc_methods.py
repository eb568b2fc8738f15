"""The methods of functions of two elements: reductions, and those of NumPy's ufuncs. Imported when one is first used."""

from __future__ import annotations

from collections.abc import Callable
from math import prod as size_of
from typing import Any

import numpy as np

from ..lax.loops import scan
from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from ..trace.index import reshape
from ..trace.indexing import AtIndex, getitem
from ..trace.prims.movement import move_axis
from ..transforms import eval_shape
from .common import (
    ArrayLike,
    Axis,
    DTypeLike,
    at_user,
    axes_of,
    axis_of,
    bind,
    cast,
    described,
    iota,
    keep_axes,
    operand,
    permute,
)
from .cumulative import cumprod, cumsum
from .functional import vectorize
from .logic import bitwise_and, equal, greater, where
from .reductions import all, any, max, min, prod, sum
from .ufunc import make_ufunc, ufunc

# Functions whose reduction is one of the namespace's.
_REDUCTIONS: dict[str, Callable[..., Array]] = {
    "add": sum, "multiply": prod, "maximum": max, "minimum": min, "logical_and": all, "logical_or": any
}  # fmt: skip
_CUMULATIVE = {"add": cumsum, "multiply": cumprod}
_UPDATES = {"add": "add", "subtract": "subtract", "multiply": "multiply", "maximum": "max", "minimum": "min"}


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A `ufunc` of a function of `nin` scalars with `nout` results: on arrays it is applied to each element, broadcast.

    The function is traced, as by `vmap`, so that it may be differentiated. For two arguments and one result it has the methods
    of `ufunc`; `identity` is the e with func(e, x) = x.

    >>> larger = tnp.frompyfunc(lambda x, y: tnp.where(abs(x) > abs(y), x, y), 2, 1)
    >>> larger(tnp.array([1, -5]), 3)
    Array([ 3, -5], dtype=int32)
    >>> larger.reduce(tnp.array([1, -5, 3]))
    Array(-5, dtype=int32)
    """
    if nin < 1 or nout < 1:
        raise ValueError(f"frompyfunc: nin={nin} and nout={nout} must be 1 or more{at_user()}")
    made = make_ufunc(vectorize(func), nin, nout, identity)
    made.is_named = False
    return made


def _check_binary(f: ufunc, method: str) -> None:
    if (f.nin, f.nout) != (2, 1):
        raise TypeError(
            f"{f!r}.{method} needs a function of two arguments with one result; this one has {f.nin} and {f.nout}{at_user()}"
        )


def _known(f: ufunc, table: dict[str, Any]) -> Any:
    return table.get(f.__name__) if f.is_named else None  # type: ignore[attr-defined]


def _elements(f: ufunc, x: Array, dtype: DTypeLike) -> Array:
    """The array in the dtype that the function gives, in which it is carried on."""
    x = x if dtype is None else cast(x, dtype)
    one = o.broadcast_to(o.scalar(0, x.dtype), ())
    return cast(x, eval_shape(f, one, one).dtype)


def reduce(
    f: ufunc, a: ArrayLike, axis: Axis, dtype: DTypeLike, keepdims: bool, initial: Any, mask: Any
) -> Array:
    """See `ufunc.reduce`."""
    _check_binary(f, "reduce")
    x = operand(a, "reduce")
    known = _known(f, _REDUCTIONS)
    if known is not None:
        options = {"keepdims": keepdims}
        if mask is not None:
            options["where"] = mask
        if known in (sum, prod):
            options["dtype"] = dtype
        elif dtype is not None:
            x = cast(x, dtype)
        if known in (all, any):
            if initial is not None:
                return f(initial, known(x, axis, **options))
        else:
            options["initial"] = initial
        reduced: Array = known(x, axis, **options)
        return reduced
    axes = axes_of(axis, x.ndim, "reduce")
    elements = _elements(f, x, dtype)
    holds = None if mask is None else o.broadcast_to(cast(operand(mask, "reduce"), dtypes.bool_), x.shape)
    # The reduced axes in front, as one.
    order = (*axes, *[i for i in range(x.ndim) if i not in axes])

    def in_front(y: Array) -> Array:
        turned = permute(y, order)
        return reshape(turned, (size_of([x.shape[i] for i in axes]), *turned.shape[len(axes) :]))

    elements, holds = in_front(elements), None if holds is None else in_front(holds)
    rest = elements.shape[1:]
    # As an array, so that -1, all bits set, may go into unsigned integers.
    first = initial if initial is not None or f.identity is None else np.asarray(f.identity)
    if initial is None and elements.shape[0] and holds is None:
        start, elements = getitem(elements, 0), getitem(elements, slice(1, None))
    elif first is None:
        raise ValueError(
            f"{f!r}.reduce of {described(x)}: with no elements or a mask it needs `initial`, as it has no identity{at_user()}"
        )
    else:
        start = o.broadcast_to(cast(first, elements.dtype), rest)

    def step(carry: Array, x: Any) -> tuple[Array, None]:
        element, counts = x
        made = f(carry, element)
        return (made if counts is None else where(counts, made, carry)), None

    result: Array = scan(step, start, (elements, holds))[0] if elements.shape[0] else start
    return keep_axes(result, x.shape, axes, keepdims)


def accumulate(f: ufunc, a: ArrayLike, axis: int, dtype: DTypeLike) -> Array:
    """See `ufunc.accumulate`."""
    _check_binary(f, "accumulate")
    x = operand(a, "accumulate")
    known = _known(f, _CUMULATIVE)
    if known is not None:
        return known(x, axis, dtype)  # type: ignore[no-any-return]
    place = axis_of(axis, x.ndim, "accumulate")
    elements = move_axis(_elements(f, x, dtype), place, 0)
    if not elements.shape[0]:
        return move_axis(elements, 0, place)

    def step(carry: Array, element: Array) -> tuple[Array, Array]:
        made = f(carry, element)
        return made, made

    first = getitem(elements, 0)
    _, rest = scan(step, first, getitem(elements, slice(1, None)))
    whole = bind(prims.concatenate, (reshape(first, (1, *first.shape)), rest), {"axis": 0})
    return move_axis(whole, 0, place)


def reduceat(f: ufunc, a: ArrayLike, indices: ArrayLike, axis: int, dtype: DTypeLike) -> Array:
    """See `ufunc.reduceat`."""
    _check_binary(f, "reduceat")
    x = operand(a, "reduceat")
    begin = operand(np.asarray(indices) if isinstance(indices, (list, tuple)) else indices, "reduceat")
    if begin.ndim != 1 or not dtypes.is_integer(begin.dtype):
        raise TypeError(f"reduceat: indices must be a vector of integers, not {described(begin)}{at_user()}")
    place = axis_of(axis, x.ndim, "reduceat")
    elements = move_axis(_elements(f, x, dtype), place, 0)
    n, count = elements.shape[0], begin.shape[0]
    if type(begin) is Array and not np.all((begin.value >= 0) & (begin.value < n)):
        raise IndexError(f"reduceat of {described(x)}: an index is not in 0 .. {n - 1}{at_user()}")
    begin = cast(begin, dtypes.int32)
    end = bind(prims.concatenate, (begin[1:], o.broadcast_to(o.scalar(n, dtypes.int32), (1,))), {"axis": 0})
    column = (count, *(1,) * (elements.ndim - 1))
    begin, end = reshape(begin, column), reshape(end, column)

    def step(carry: Array, x: Any) -> tuple[Array, None]:
        element, number = x
        element = o.broadcast_to(element, carry.shape)
        carry = where(bitwise_and(greater(number, begin), greater(end, number)), f(carry, element), carry)
        return where(equal(number, begin), element, carry), None

    start = o.broadcast_to(o.scalar(0, elements.dtype), (count, *elements.shape[1:]))
    result: Array = scan(step, start, (elements, iota(dtypes.int32, (n,), 0)))[0]
    return move_axis(result, 0, place)


def outer(f: ufunc, a: ArrayLike, b: ArrayLike) -> Array:
    """See `ufunc.outer`."""
    _check_binary(f, "outer")
    x, y = operand(a, "outer"), operand(b, "outer")
    return f(reshape(x, (*x.shape, *(1,) * y.ndim)), y)


def at(f: ufunc, a: ArrayLike, indices: Any, b: ArrayLike | None, inplace: bool) -> Array:
    """See `ufunc.at`."""
    if inplace:
        raise ValueError(
            f"{f!r}.at needs inplace=False: arrays do not change, the result is a new one{at_user()}"
        )
    if f.nout != 1 or f.nin != (1 if b is None else 2):
        raise TypeError(f"{f!r}.at: it takes {f.nin} arguments, and has {f.nout} results{at_user()}")
    x = operand(a, "at")
    indices = np.asarray(indices) if isinstance(indices, list) else indices
    known = _known(f, _UPDATES)
    if known is not None:
        return getattr(AtIndex(x, indices), known)(b)  # type: ignore[no-any-return]
    # The positions of the elements that are named, in order; then one after another, since they may repeat.
    flat = reshape(x, (x.size,))
    places = getitem(reshape(iota(dtypes.int32, (x.size,), 0), x.shape), indices)
    shape = places.shape
    places = reshape(places, (places.size,))
    values = None if b is None else reshape(o.broadcast_to(operand(b, "at"), shape), places.shape)

    def step(carry: Array, given: Any) -> tuple[Array, None]:
        place, value = given
        element = getitem(carry, place)
        made = f(element) if value is None else f(element, value)
        return AtIndex(carry, place).set(cast(made, carry.dtype)), None

    result: Array = scan(step, flat, (places, values))[0]
    return reshape(result, x.shape)


__all__ = ["frompyfunc"]
