"""The arguments of a transformed function: flattened to arrays, with a name for each to use in messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import update_wrapper, wraps
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import pytree
from ..trace.array import Array, as_array, wrap
from ..trace.errors import kind_of, summary, user_line
from ..trace.tracing import describe_function, is_float0


def positional_name(function: Callable[..., Any], index: int) -> str:
    """The name of the function's index-th positional parameter."""
    import inspect  # only where a message needs a name: it takes as long to import as half of this package

    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return f"argument {index}"
    for position, parameter in enumerate(parameters):
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return f"{parameter.name}[{index - position}]"
        if position == index and parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            return parameter.name
    return f"argument {index}"


def argument_names(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    indices: Sequence[int] | None = None,
) -> list[str]:
    """A name such as `params['w']` for each leaf of the arguments; `indices` are the args' positions in the call."""
    names = []
    for position, arg in enumerate(args):
        root = positional_name(function, indices[position] if indices is not None else position)
        names += [root + pytree.keystr(path) for path, _ in pytree.flatten_with_path(arg)[0]]
    for keyword in sorted(kwargs):
        names += [keyword + pytree.keystr(path) for path, _ in pytree.flatten_with_path(kwargs[keyword])[0]]
    return names


def stand_in(wrapper: Any, function: Callable[..., Any]) -> None:
    """Give an object that is called in a function's place its name, docstring and attributes, except where they would hide
    what the object's own class has (as an attribute `lower` of a callable object would)."""
    own = type(wrapper)
    for name, value in getattr(function, "__dict__", {}).items():
        if not hasattr(own, name):
            setattr(wrapper, name, value)
    update_wrapper(wrapper, function, updated=())


def tree_names(function: Callable[..., Any], position: int, tree: Any) -> list[str]:
    """The same for one positional argument of this structure."""
    root = positional_name(function, position)
    paths = pytree.flatten_with_path(pytree.unflatten(tree, range(tree.num_leaves)))[0]
    return [root + pytree.keystr(path) for path, _ in paths]


def check_function(transform: str, function: Any, role: str = "") -> None:
    """Raise TypeError for what can't be called."""
    if not callable(function):
        raise TypeError(
            f"{transform} takes a function{role}, not {type(function).__name__}; at {user_line()}"
        )


class Arguments:
    """The leaves of a call's arguments as arrays, and how to put them together again."""

    __slots__ = ("arrays", "names", "tree", "voids")

    def __init__(
        self,
        transform: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        indices: Sequence[int] | None = None,
        convert: Callable[[Any], Any] = as_array,
    ):
        check_function(transform, function)
        leaves, self.tree = pytree.flatten((tuple(args), kwargs))
        # Where there are zeros of float0: for transforms they are bools, which have no derivative either.
        self.voids = [i for i, leaf in enumerate(leaves) if is_float0(leaf)]
        for i in self.voids:
            leaves[i] = wrap(np.zeros(leaves[i].shape, np.bool_))
        self.names: Callable[[], list[str]] = lambda: argument_names(function, args, kwargs, indices)
        self.arrays: list[Array] = [
            leaf if isinstance(leaf, Array) else self._array(transform, function, leaf, i, convert)
            for i, leaf in enumerate(leaves)
        ]

    def _array(
        self,
        transform: str,
        function: Callable[..., Any],
        leaf: Any,
        index: int,
        convert: Callable[[Any], Any],
    ) -> Any:
        try:
            return convert(leaf)
        except TypeError:
            pass
        if isinstance(leaf, np.ndarray):
            found, hint = f"an array of {leaf.dtype}, and arrays hold numbers and bools", ""
        else:
            found = f"{kind_of(leaf)}, not an array, a number or a container of those"
            advice = []
            if type(leaf).__module__ != "builtins":
                advice.append(
                    "register its class as a pytree (tinyfn.tree.register_dataclass) if it holds arrays"
                )
            if transform == "jit":
                advice.append("pass it as a static argument (static_argnames)")
            hint = f": {', or '.join(advice)}" if advice else ""
        raise TypeError(
            f"{transform} of {describe_function(function)}: argument `{self.names()[index]}` is {found}; at {user_line()}{hint}"
        )

    def signature(self) -> tuple[Any, ...]:
        """Shape, dtype and weakness of each leaf."""
        found = [(a.shape, a.dtype, a.weak_type) for a in self.arrays]
        for i in self.voids:
            found[i] = (found[i][0], dtypes.float0, False)
        return tuple(found)

    def name(self, index: int) -> str:
        """The name of the index-th leaf."""
        return self.names()[index]

    def rebuild(self, leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments with other leaves."""
        if self.voids:
            leaves = [float0_zeros(leaf.shape) if i in self.voids else leaf for i, leaf in enumerate(leaves)]
        args, kwargs = pytree.unflatten(self.tree, leaves)
        return args, kwargs


def as_tuple(value: Any) -> tuple[Any, ...]:
    """The value itself if it is a tuple or list, else a tuple of it alone."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def normalize_positions(
    what: str, function: Callable[..., Any], positions: Sequence[int], count: int
) -> tuple[int, ...]:
    """Positions of arguments with negative ones counted from the end; raises ValueError if one is out of range."""
    result = []
    for position in positions:
        if isinstance(position, bool) or not hasattr(position, "__index__"):
            raise TypeError(
                f"{what} of {describe_function(function)} must be integers, not {position!r}; at {user_line()}"
            )
        if not -count <= position < count:
            raise ValueError(
                f"{what} of {describe_function(function)} includes {position}, but it is called with {count} positional "
                f"argument{'' if count == 1 else 's'}; at {user_line()}: positions count from 0, and what is passed by name "
                "has none"
            )
        result.append(int(position) % count)
    if len(set(result)) != len(result):
        raise ValueError(
            f"{what} of {describe_function(function)} lists a position twice: {tuple(positions)}; at {user_line()}"
        )
    return tuple(result)


def marked_arguments(
    transform: str,
    what: str,
    function: Callable[..., Any],
    numbers: int | Sequence[int] | None,
    names: str | Sequence[str] | None,
) -> tuple[frozenset[int], frozenset[str]]:
    """Positions and names of the arguments meant, each completed from the other by the function's signature.

    `what` is the option's name without `_argnums` and `_argnames`. Raises ValueError for a parameter that is not there."""
    positions = [] if numbers is None else [numbers] if isinstance(numbers, int) else list(numbers)
    if wrong := [p for p in positions if not hasattr(p, "__index__")]:
        raise TypeError(
            f"{transform} of {describe_function(function)}: {what}_argnums are integers, not {summary(wrong[0])}; at "
            f"{user_line()}: names go into {what}_argnames"
        )
    keywords = [] if names is None else [names] if isinstance(names, str) else list(names)
    if not positions and not keywords:
        return frozenset(), frozenset()
    import inspect

    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return frozenset(positions), frozenset(keywords)
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    any_position = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    any_name = any(p.kind is p.VAR_KEYWORD for p in parameters)
    found_positions, found_names = set(), set(keywords)
    for position in positions:
        actual = position + len(by_position) if position < 0 else position
        if not 0 <= actual < len(by_position) and not any_position:
            raise ValueError(
                f"{transform} of {describe_function(function)}: {what}_argnums has {position}, but it has {len(by_position)} "
                f"positional parameters; at {user_line()}"
            )
        found_positions.add(actual)
        if actual < len(by_position) and by_position[actual].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            found_names.add(by_position[actual].name)
    for keyword in keywords:
        known = [p.name for p in parameters]
        if keyword not in known and not any_name:
            raise ValueError(
                f"{transform} of {describe_function(function)}: {what}_argnames has {keyword!r}, but its parameters are "
                f"{', '.join(known)}; at {user_line()}"
            )
        found_positions.update(i for i, p in enumerate(by_position) if p.name == keyword)
    return frozenset(found_positions), frozenset(found_names)


def check_differentiable(
    transform: str,
    function: Callable[..., Any],
    given: Arguments,
    allow_int: bool = False,
    real: bool = False,
    holomorphic: bool = False,
) -> None:
    """Raise TypeError for an argument that has no derivative, unless `allow_int`; with `real`, for a complex one too; with
    `holomorphic`, for one that is not complex."""
    for i, array in enumerate(given.arrays):
        if holomorphic and dtypes.kind(array.dtype) != "complex":
            described = dtypes.describe(array.dtype, array.shape)
            raise TypeError(
                f"{transform} of {describe_function(function)} with holomorphic=True: argument `{given.name(i)}` is {described}, "
                f"not complex; at {user_line()}: pass x.astype('complex64'), or leave holomorphic out"
            )
        if real and dtypes.kind(array.dtype) == "complex":
            described = dtypes.describe(array.dtype, array.shape)
            raise TypeError(
                f"{transform} of {describe_function(function)}: argument `{given.name(i)}` is {described}, and takes real "
                f"ones only; at {user_line()}: use jacrev, or jvp along the directions that you need, or holomorphic=True if the "
                "function is complex differentiable"
            )
        if not dtypes.is_inexact(array.dtype):
            described = dtypes.describe(array.dtype, array.shape)
            if not allow_int:
                floats = (
                    "" if array.dtype is dtypes.key else "pass floats (for example x.astype('float32')), "
                )
                raise TypeError(
                    f"{transform} of {describe_function(function)}: argument `{given.name(i)}` is {described}, which has no "
                    f"derivative; at {user_line()}: {floats}differentiate other arguments through argnums, or set "
                    "allow_int=True to get zeros for it"
                )


def float0_zeros(shape: tuple[Any, ...]) -> np.ndarray:
    """The gradient of integers: an array of a type without values."""
    return np.zeros(shape, dtypes.float0)


def with_float0(found: Iterable[Any], likes: Sequence[Any]) -> list[Any]:
    """For each of `likes` the next of the (co)tangents that were found if it is inexact, else zeros of float0."""
    rest = iter(found)
    return [next(rest) if dtypes.is_inexact(like.dtype) else float0_zeros(like.shape) for like in likes]


def with_aux(function: Callable[..., Any], transform: str) -> tuple[Callable[..., Any], list[Any]]:
    """The function with its second result's arrays put beside the first, and a list that receives how to undo that."""
    memory: list[Any] = []

    @wraps(function)
    def flat(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(
                f"{transform} of {describe_function(function)} with has_aux=True: the function must return a pair "
                f"(value, auxiliary data), not {summary(result)}; at {user_line()}"
            )
        value, aux = result
        leaves, tree = pytree.flatten(aux)
        arrays = []
        template: list[Any] = []
        for leaf in leaves:
            try:
                arrays.append(as_array(leaf))
                template.append(None)
            except TypeError:
                template.append([leaf])  # not an array: handed through as it is
        memory[:] = [tree, template]
        return value, arrays

    return flat, memory


def restore_aux(memory: list[Any], arrays: Sequence[Any]) -> Any:
    """The auxiliary data that `with_aux` took apart, with other arrays."""
    tree, template = memory
    found = iter(arrays)
    return pytree.unflatten(tree, [next(found) if entry is None else entry[0] for entry in template])


__all__ = [
    "Arguments", "argument_names", "as_tuple", "check_differentiable", "check_function", "float0_zeros", "marked_arguments",
    "normalize_positions", "positional_name", "restore_aux", "tree_names", "with_aux", "with_float0",
]  # fmt: skip
