"""The leaves of a params tree, which of them are one array, and the checks of the trees that go with it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators, pytree
from ..trace.array import Array, as_array
from ..trace.dtype import DType
from ..trace.errors import kind_of, user_line


class Parameters:
    """The leaves of params as arrays; raises TypeError for one that is none. Messages begin with `what`."""

    def __init__(self, what: str, params: Any):
        self.what = what
        self.params = params
        self.leaves, self.tree = pytree.flatten(params)
        self.arrays = [self._array(leaf, i) for i, leaf in enumerate(self.leaves)]
        self.first: list[int] = []  # for each leaf the first one that is the same array
        seen: dict[int, int] = {}
        for i, leaf in enumerate(self.leaves):
            # Python may keep equal numbers as one object, which ties nothing.
            self.first.append(seen.setdefault(id(leaf), i) if isinstance(leaf, (Array, np.ndarray)) else i)

    def _array(self, leaf: Any, index: int) -> Array:
        try:
            array = leaf if isinstance(leaf, Array) else as_array(leaf)
        except TypeError:
            raise TypeError(
                f"{self.what}: params{self.path(index)} is a {type(leaf).__name__}, "
                f"not an array or a number; at {user_line()}: keep settings out of params"
            ) from None
        return operators.strong(array) if array.weak_type else array

    def path(self, index: int) -> str:
        """Where in the tree a leaf is, as `['layer'][0]`."""
        return pytree.keystr(pytree.flatten_with_path(self.params)[0][index][0])

    def where(self, index: int) -> str:
        """A leaf in messages, as `params['layer'][0] (float32[3])`."""
        array = self.arrays[index]
        return f"params{self.path(index)} ({dtypes.describe(array.dtype, array.shape)})"

    def up_to(self, tree: Any, called: str) -> list[Any]:
        """What another tree has at each leaf of params; raises ValueError where it differs."""
        try:
            return self.tree.flatten_up_to(tree)
        except ValueError as error:
            reason = str(error).removeprefix("structure mismatch ")
        raise ValueError(
            f"{self.what}: {called} does not have the structure of params: {reason}; at {user_line()}: call it as "
            f"{'step(params, grads, state)' if self.what.endswith('step') else 'init(params)'}"
        )

    def slot(self, slot: Any, shape: tuple[Any, ...], called: str) -> Array:
        """An array of the state; raises ValueError unless it is one of floats, of this shape."""
        array = None if slot is None else as_array(slot)
        if array is None or array.shape != shape or not is_trainable(array.dtype):
            found = "None" if array is None else dtypes.describe(array.dtype, array.shape)
            raise ValueError(
                f"{self.what}: {called} should have floats of shape [{','.join(map(str, shape))}], as the "
                f"parameter has, not {found}; at {user_line()}: make the state with init of the same params"
            )
        return array

    def gradients(self, grads: Any) -> list[Array | None]:
        """The gradient of each leaf or None; raises if structure, shape or dtype differ, or all are None."""
        try:
            given = self.tree.flatten_up_to(grads)
        except ValueError:
            given = None
        if given is None:  # not within the handler, which would be shown as another error
            self._explain(grads)
        gradients = [None if g is None else self._gradient(g, i) for i, g in enumerate(given)]
        if all(g is None for g in gradients):
            raise ValueError(
                f"{self.what}: every gradient is None, so there is nothing to train; at {user_line()}"
            )
        return gradients

    def _explain(self, grads: Any) -> NoReturn:
        given = {path for path, _ in pytree.flatten_with_path(grads, lambda x: x is None)[0]}
        wanted = [path for path, _ in pytree.flatten_with_path(self.params)[0]]
        missing = [f"params{pytree.keystr(path)}" for path in wanted if path not in given]
        if missing and given.issubset(wanted):
            raise ValueError(
                f"{self.what}: grads has no gradient for {', '.join(missing)}; at {user_line()}: "
                "give None for a leaf that is not trained"
            )
        self.up_to(grads, "grads")
        raise AssertionError("flatten_up_to has just refused this tree")

    def _gradient(self, given: Any, index: int) -> Array | None:
        parameter = self.arrays[index]
        if getattr(given, "dtype", None) == dtypes.float0:
            return None
        try:
            gradient = given if isinstance(given, Array) else as_array(given)
        except TypeError:
            raise TypeError(
                f"{self.what}: the gradient of {self.where(index)} is {kind_of(given)}, "
                f"not an array or None; at {user_line()}"
            ) from None
        if not is_trainable(parameter.dtype):
            raise TypeError(
                f"{self.what}: {self.where(index)} has a gradient, but only parameters of dtype "
                f"{', '.join(d.name for d in dtypes.FLOATS)} can be trained; at {user_line()}: "
                "give None for it"
            )
        described = dtypes.describe(gradient.dtype, gradient.shape)
        if gradient.shape != parameter.shape:
            raise ValueError(
                f"{self.what}: the gradient of {self.where(index)} has another shape: {described}; "
                f"at {user_line()}"
            )
        if not _fits(gradient.dtype, gradient.weak_type, parameter.dtype):
            raise TypeError(
                f"{self.what}: the gradient of {self.where(index)} has a dtype that does not fit: "
                f"{described}; at {user_line()}: cast it with .astype({parameter.dtype.name!r})"
            )
        return gradient

    def tied(self, grads: Any, gradients: list[Array | None]) -> list[Array | None]:
        """The gradients of grads, those of leaves that are one array added up, at all of their places."""
        if all(i == first for i, first in enumerate(self.first)):
            return gradients
        total: dict[int, Array | None] = {}
        counted: dict[int, set[int]] = {}
        for first, given, gradient in zip(self.first, self.up_to(grads, "grads"), gradients, strict=True):
            known = counted.setdefault(first, set())
            if gradient is not None and id(given) not in known:
                before = total.get(first)
                total[first] = gradient if before is None else operators.add(before, gradient)
                known.add(id(given))
        return [total.get(first) for first in self.first]


def is_trainable(dtype: DType) -> bool:
    """Whether arrays of this dtype are parameters; others are passed through."""
    return dtype in dtypes.FLOATS


@lru_cache(maxsize=256)
def _fits(gradient: DType, is_weak: bool, parameter: DType) -> bool:
    """Whether a gradient can be widened to the parameter's dtype without loss."""
    if not is_trainable(gradient):
        return False
    return is_weak or dtypes.promote_pair(gradient, False, parameter, False)[0] is parameter
