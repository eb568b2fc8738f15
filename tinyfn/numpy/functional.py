"""Functions of functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..trace import operators as o
from ..trace.array import Array
from ..trace.errors import entry_point, entry_point_of
from ..trace.index import reshape
from ..trace.indexing import getitem
from .common import ArrayLike, at_user, axis_of, cast, operand, permute
from .logic import where


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Any = frozenset(), signature: str | None = None
) -> Callable[..., Any]:
    """The function of scalars (or of the core axes in `signature`, as "(n),(n)->()") over all other axes, broadcast.

    `excluded` are positions and names of arguments that are passed on as they are, as None is.

    >>> step = tnp.vectorize(lambda x, low: tnp.where(x > low, 1, 0))
    >>> step(tnp.array([[1, 2, 3]]), tnp.array([[1], [2]]))
    Array([[0, 1, 1],
           [0, 0, 1]], dtype=int32)
    >>> distance = tnp.vectorize(lambda u, v: linalg.norm(u - v), signature="(n),(n)->()")
    >>> distance(tnp.zeros((5, 1, 3)), tnp.zeros((4, 3))).shape
    (5, 4)
    """
    from functools import wraps

    from ..transforms.arguments import check_function
    from ..transforms.vmap import vmap

    check_function("vectorize", pyfunc)
    cores = None
    if signature is not None:
        spelled = signature.replace(" ", "")
        inputs = spelled.partition("->")[0]
        if not re.fullmatch(r"(\([\w,]*\),?)*->(\([\w,]*\),?)+", spelled):
            raise ValueError(
                f"vectorize: a signature has the form '(n),(n)->()', not {signature!r}{at_user()}"
            )
        cores = [len([d for d in part.strip("()").split(",") if d]) for part in inputs.split("),(")]

    @entry_point_of("vectorize", pyfunc)
    @wraps(pyfunc)
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        mapped = [key for key, value in given.items() if key not in excluded and value is not None]
        if cores is not None and len(cores) != len(mapped):
            raise ValueError(
                f"vectorize: {signature!r} has {len(cores)} arguments, not {len(mapped)}{at_user()}"
            )
        arrays = [operand(given[key], "vectorize") for key in mapped]
        counts = cores or [0] * len(arrays)
        for a, count in zip(arrays, counts, strict=True):
            if a.ndim < count:
                raise ValueError(
                    f"vectorize: an argument of shape {list(a.shape)} lacks axes of {signature!r}{at_user()}"
                )
        leads = [a.shape[: a.ndim - count] for a, count in zip(arrays, counts, strict=True)]
        shape = o.broadcast_shapes(*leads) if leads else ()

        def call(*lanes: Any) -> Any:
            everything = {**given, **dict(zip(mapped, lanes, strict=True))}
            positional = [everything[i] for i in range(len(args))]
            return pyfunc(*positional, **{name: everything[name] for name in kwargs})

        function: Callable[..., Any] = call
        # The innermost map is over the last of the shared axes; an axis of size 1 that others have longer is
        # not mapped.
        plans = []
        for axis in range(-1, -len(shape) - 1, -1):
            along = [
                0 if len(lead) >= -axis and (lead[axis] is shape[axis] or lead[axis] == shape[axis]) else None
                for lead in leads
            ]
            plans.append(along)
        squeezed = [
            reshape(
                a,
                tuple([n for k, n in enumerate(lead) if plans[len(lead) - k - 1][j] == 0])
                + a.shape[len(lead) :],
            )
            for j, (a, lead) in enumerate(zip(arrays, leads, strict=True))
        ]
        for along in plans:
            function = vmap(function, in_axes=tuple(along))
        return function(*squeezed)

    return vectorized


@entry_point
def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Array:
    """The function of each 1-d slice along an axis; what it returns takes the place of that axis.

    Further arguments are handed on to the function, which is called once, on tracers, as in `vmap`.

    >>> x = tnp.array([[1, 2, 3], [4, 5, 7]])
    >>> tnp.apply_along_axis(tnp.diff, 1, x)
    Array([[1, 1],
           [1, 2]], dtype=int32)
    >>> tnp.apply_along_axis(lambda column: column[0] * column[1], 0, x)
    Array([ 4, 10, 21], dtype=int32)
    """
    from ..transforms.vmap import vmap

    x = operand(arr, "apply_along_axis")
    place = axis_of(axis, x.ndim, "apply_along_axis")
    x = permute(x, [*[i for i in range(x.ndim) if i != place], place])
    lead = x.shape[:-1]
    result: Array = vmap(lambda row: func1d(row, *args, **kwargs))(reshape(x, (prod(lead), x.shape[-1])))
    result = reshape(result, (*lead, *result.shape[1:]))
    inner = range(len(lead), result.ndim)
    return permute(result, [*range(place), *inner, *range(place, len(lead))])


@entry_point
def piecewise(x: ArrayLike, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Array:
    """For each element the function (or value) of the last condition that holds there; one more, or 0, where none does.

    The result has the dtype of x. All functions get all elements, and `args` and `kw`.

    >>> x = tnp.array([-2.0, 0.0, 3.0])
    >>> tnp.piecewise(x, [x < 0, x > 0], [lambda x: -x, 10, 7])
    Array([ 2.,  7., 10.], dtype=float32)
    """
    array = operand(x, "piecewise")
    if isinstance(condlist, (Array, np.ndarray)):
        stacked = o.operand(condlist)
        conditions = (
            [stacked]
            if stacked.shape == array.shape
            else [getitem(stacked, i) for i in range(stacked.shape[0])]
        )
    else:
        conditions = list(condlist) if isinstance(condlist, (list, tuple)) else [condlist]
    functions = list(funclist)
    if len(functions) == len(conditions):
        functions.append(0)
    if len(functions) != len(conditions) + 1:
        raise ValueError(f"piecewise: {len(functions)} functions for {len(conditions)} conditions{at_user()}")

    def value(f: Any) -> Array:
        result = cast(f(array, *args, **kw) if callable(f) else f, array.dtype)
        return o.broadcast_to(result, array.shape)

    result = value(functions[-1])
    for condition, function in zip(conditions, functions[:-1], strict=True):
        result = where(condition, value(function), result)
    return result
