"""Python functions that compiled programs call: `pure_callback` for their results, `io_callback` for what else they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .trace import dtype as dtypes
from .trace import operators, pytree
from .trace.array import Array
from .trace.errors import entry_point, entry_points, summary, user_line
from .trace.tracing import bind, describe_function
from .transforms.arguments import Arguments
from .transforms.effects import Called, effect_callback
from .transforms.effects import pure_callback as pure_op
from .transforms.inspection import described

_LANES = {
    None: "none",
    "sequential": "sequential",
    "expand_dims": "expand_dims",
    "broadcast_all": "broadcast_all",
}


@entry_point
def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """What callback(*args, **kwargs) gives, called when the program runs.

    The callback is given arrays whose values are known (copies, which it may keep) and gives arrays of the dtypes and shapes in
    `result_shape_dtypes`, a pytree of ShapeDtypeStructs or of arrays. It must have no effects: it may be called more than once or
    not at all. Under vmap it is called for each lane ("sequential"), or once with a leading batch axis on its arguments and
    results, of size 1 for arguments that all lanes share ("expand_dims") or not ("broadcast_all"). It has no derivative
    unless it is called in a function with custom_jvp or custom_vjp. Raises TypeError or ValueError when it runs if the results
    are others than was said.

    >>> result = tinyfn.ShapeDtypeStruct((3,), "float32")
    >>> tinyfn.jit(lambda x: 2 * tinyfn.pure_callback(np.sort, result, x))(tnp.array([3.0, 1.0, 2.0]))
    Array([2., 4., 6.], dtype=float32)

    A function of NumPy that works on whole arrays takes a batch in one call:

    >>> f = lambda x: tinyfn.pure_callback(np.sqrt, tinyfn.ShapeDtypeStruct((), "float32"), x, vmap_method="expand_dims")
    >>> tinyfn.vmap(f)(tnp.array([1.0, 4.0, 9.0]))
    Array([1., 2., 3.], dtype=float32)
    """
    if vmap_method not in _LANES:
        raise ValueError(
            f"pure_callback: vmap_method must be None, 'sequential', 'expand_dims' or 'broadcast_all', not {vmap_method!r}; at "
            f"{user_line()}"
        )
    return _callback(
        pure_op, "pure_callback", callback, result_shape_dtypes, args, kwargs, _LANES[vmap_method]
    )


@entry_point
def io_callback(
    callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, ordered: bool = True, **kwargs: Any
) -> Any:
    """What callback(*args, **kwargs) gives, called once whenever the program comes to it, whether or not the result is used.

    As `pure_callback`, for functions with effects. These happen in the order of the calls, whether or not they are
    `ordered`; under vmap for each lane, or once if no argument is mapped.

    >>> log = []
    >>> def record(x):
    ...     log.append(float(x))
    ...     return np.float32(len(log))
    >>> result = tinyfn.ShapeDtypeStruct((), "float32")
    >>> tinyfn.jit(lambda x: tinyfn.io_callback(record, result, x))(5.0)
    Array(1., dtype=float32)
    >>> log
    [5.0]
    """
    return _callback(effect_callback, "io_callback", callback, result_shape_dtypes, args, kwargs)


def _callback(
    op: Any,
    what: str,
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    lanes: str = "sequential",
) -> Any:
    if not callable(callback):
        raise TypeError(f"{what} takes a function, not {type(callback).__name__}; at {user_line()}")
    label = f"{what} of {describe_function(callback)}"
    expected, tree = pytree.flatten(result_shape_dtypes)
    paths = [pytree.keystr(path) for path, _ in pytree.flatten_with_path(result_shape_dtypes)[0]]
    try:
        expected = [described(leaf) for leaf in expected]
    except TypeError:
        raise TypeError(
            f"{label}: result_shape_dtypes must be a tree of things with a shape and a dtype, such as "
            f"tinyfn.ShapeDtypeStruct((3,), 'float32'), not {result_shape_dtypes!r}; at {user_line()}"
        ) from None
    given = Arguments(what, callback, args, kwargs, None, operators.operand)
    line = user_line()

    def call(*arrays: Any) -> list[np.ndarray]:
        positional, named = given.rebuild(list(arrays))
        return _checked(label, line, callback(*positional, **named), expected, tree, paths, batch)

    batch = lanes in ("expand_dims", "broadcast_all")
    params = {
        "called": Called(call, label, line, lanes),
        "dtypes": tuple([leaf.dtype for leaf in expected]),
        "shapes": tuple([tuple(leaf.shape) for leaf in expected]),
        "mapped": (),
    }
    results: list[Array] = bind(op, tuple(given.arrays), params)
    return pytree.unflatten(tree, results)


def _checked(
    label: str, line: str, result: Any, expected: list[Any], tree: Any, paths: list[str], may_be_batched: bool
) -> list[np.ndarray]:
    """The leaves of what a callback returned, which must be what it was said to return."""
    leaves, found = pytree.flatten(result)
    if found != tree:
        raise TypeError(
            f"{label}, called at {line}, returned {summary(result)}, but result_shape_dtypes has the structure "
            f"{pytree.spelled(tree)}: return that"
        )
    arrays = []
    for leaf, like, path in zip(leaves, expected, paths, strict=True):
        array = np.asarray(leaf)
        if type(leaf) in dtypes.PYTHON_TYPES:
            array = array.astype(like.dtype)
        shape = array.shape[max(array.ndim - len(like.shape), 0) :] if may_be_batched else array.shape
        wanted = dtypes.describe(like.dtype, like.shape)
        where = f"result{path}"
        if array.dtype != like.dtype:
            raise TypeError(
                f"{label}, called at {line}, returned {dtypes.describe(array.dtype, array.shape)} for {where}, but "
                f"result_shape_dtypes says {wanted}: return it .astype('{like.dtype.name}'), or say {array.dtype.name}"
            )
        if shape != tuple(like.shape):
            raise ValueError(
                f"{label}, called at {line}, returned {dtypes.describe(array.dtype, array.shape)} for {where}, but "
                f"result_shape_dtypes says {wanted}: return an array of that shape"
            )
        arrays.append(array)
    return arrays


entry_points(globals())
