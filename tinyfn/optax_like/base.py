"""What all optimizers share: the state, the checks, tied leaves, leaves without a gradient, and fusion.

An optimizer is a pair of pure functions on pytrees of arrays: `state = optimizer.init(params)` and then, for each
step, `params, state = optimizer.step(params, grads, state)`. They run eagerly, and under `jit`, `vmap` and `grad`.

The state is a dict. `state["lr"]` is the learning rate, an array of shape (1,): change it with `set_learning_rate`,
which retraces nothing. Every other hyperparameter is fixed when the optimizer is made. What an optimizer remembers of
each parameter (`b`, or `m` and `v`, as tinygrad names them) is a tree like params; with `fused` it is one flat vector
for each dtype among the parameters.

- A leaf whose gradient is None is a buffer: it and its state are passed through. So is every leaf that is no float.
- The same array at several places of params is one parameter: it gets one update, from the sum of the gradients at
  those places (one gradient object at all of them counts once), and all places get the result. Inside a
  function that is traced with params as its argument (`jit`, `vmap`, `grad`) each place is an argument of its own, and
  so a parameter of its own; to tie weights there, let params hold the array once.
- Arithmetic is in float32 at least, in float64 for float64 parameters or state. What is stored is cast to the type
  that it had before.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators, prims, pytree
from ..trace.array import Array, as_array, wrap
from ..trace.dtype import DType
from ..trace.errors import user_line
from ..trace.tracing import current_trace

State = dict[str, Any]
# An Array in a formula: its operators are installed at run time, where mypy does not see them.
Numbers = Any


class Optimizer:
    """A pair of pure functions, `init` and `step`; made by `sgd`, `lars`, `muon`, `adam`, `adamw`, `lamb` or `group`."""

    name = "optimizer"

    def init(self, params: Any) -> State:
        """The state before the first step; raises ValueError if params has no leaf to train."""
        raise NotImplementedError

    def step(self, params: Any, grads: Any, state: State) -> tuple[Any, State]:
        """The parameters and the state after one step against `grads`, a tree like params with None for buffers.

        Raises ValueError or TypeError, naming the leaf, before anything is computed: for trees of different structure,
        for a gradient of another shape or of a dtype that does not fit, and if no leaf has a gradient."""
        raise NotImplementedError


class Rule(Optimizer):
    """An optimizer that treats all parameters alike; a subclass gives the formula in `delta`."""

    slots: tuple[str, ...] = ()  # the names in the state of what is remembered of each parameter

    def __init__(
        self, name: str, lr: float, fused: bool | None, state_dtype: Any, const_lr: bool | None, **options: Any
    ):
        self.name = name
        self.lr = number(name, "lr", lr)
        self.fused = _flag("FUSE_OPTIM") if fused is None else bool(fused)
        self.const_lr = _flag("CONST_LR") if const_lr is None else bool(const_lr)
        self.state_dtype = _state_dtype(name, state_dtype)
        self.options = {"lr": lr, **options, "fused": self.fused, "state_dtype": self.state_dtype}

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.options.items())})"

    # What a subclass gives

    def shared_state(self, dtype: DType) -> State:
        """The part of the state that all parameters share, besides the learning rate."""
        return {}

    def advance(self, state: State) -> State:
        """The shared part of the state in this step."""
        return {}

    def scalars(self, rate: Numbers, shared: State) -> tuple[Numbers, ...]:
        """What `delta` needs that is the same for all parameters: 0-d arrays of the learning rate's dtype."""
        return (rate,)

    def delta(
        self, t: Numbers, g: Numbers, slots: Sequence[Numbers], scalars: Sequence[Numbers], parts: Parts
    ) -> tuple[Numbers, tuple[Numbers, ...]]:
        """What is subtracted from the parameter t with gradient g, and the slots after this step.

        All are of the dtype in which is computed, but for the slots, which are as stored."""
        raise NotImplementedError

    def check_shape(self, shape: tuple[Any, ...]) -> str | None:
        """Why a parameter of this shape can't be trained, if so."""
        return None

    # The two functions

    def init(self, params: Any) -> State:
        what = f"{self.name}.init"
        parameters = Parameters(what, params)
        trainable = [i for i, array in enumerate(parameters.arrays) if is_trainable(array.dtype)]
        if not trainable:
            raise ValueError(f"{what}: params has no leaf of a float dtype, so there is nothing to train; at {user_line()}")
        dtype = dtypes.float32
        if any(parameters.arrays[i].dtype is dtypes.float64 for i in trainable):
            dtype = dtypes.float64
        state: State = {} if self.const_lr else {"lr": full((1,), self.lr, dtype)}
        state.update(self.shared_state(dtype))
        for slot in self.slots:
            if self.fused:
                state[slot] = {
                    parameter_dtype.name: full((sum(sizes),), 0, self._slot_dtype(parameter_dtype))
                    for parameter_dtype, sizes in _sizes_by_dtype(parameters.arrays).items()
                }
            else:
                zeros = [
                    full(array.shape, 0, self._slot_dtype(array.dtype)) if is_trainable(array.dtype) else None
                    for array in parameters.arrays
                ]
                state[slot] = pytree.unflatten(parameters.tree, zeros)
        return state

    def step(self, params: Any, grads: Any, state: State) -> tuple[Any, State]:
        what = f"{self.name}.step"
        parameters = Parameters(what, params)
        gradients = parameters.gradients(grads)
        if all(g is None for g in gradients):
            raise ValueError(f"{what}: every gradient is None, so there is nothing to train; at {user_line()}")
        for i, gradient in enumerate(gradients):
            reason = None if gradient is None else self.check_shape(parameters.arrays[i].shape)
            if reason is not None:
                raise ValueError(f"{what}: {parameters.where(i)} {reason}; at {user_line()}")
        self._check_state(what, state)
        slots = self._fused_slots(parameters, state) if self.fused else self._slots(parameters, state)

        shared = self.advance(state)
        made: dict[DType, tuple[Numbers, ...]] = {}

        def scalars(dtype: DType) -> tuple[Numbers, ...]:
            if dtype not in made:
                rate = operators.scalar(self.lr, dtype) if self.const_lr else prims.reshape(state["lr"], shape=())
                made[dtype] = self.scalars(operators.to_dtype(rate, dtype), _cast_all(shared, dtype))
            return made[dtype]

        gradients = parameters.tied(gradients)
        update = self._fused_update if self.fused else self._update
        arrays, new_slots = update(parameters, gradients, slots, scalars)
        return pytree.unflatten(parameters.tree, arrays), {**state, **shared, **new_slots}

    def _slot_dtype(self, parameter: DType) -> DType:
        return self.state_dtype or (dtypes.float64 if parameter is dtypes.float64 else dtypes.float32)

    def _check_state(self, what: str, state: Any) -> None:
        expected = [*([] if self.const_lr else ["lr"]), *self.shared_state(dtypes.float32), *self.slots]
        if not isinstance(state, dict) or set(state) != set(expected):
            found = sorted(map(str, state)) if isinstance(state, dict) else type(state).__name__
            raise ValueError(
                f"{what}: the state should be a dict with the keys {sorted(expected)}, not {found}; at {user_line()}: "
                f"make it with the init of the same optimizer, {self!r}"
            )
        for key in expected:
            if key not in self.slots and np.size(state[key]) != 1:
                raise ValueError(
                    f"{what}: state[{key!r}] should have one element, not shape {np.shape(state[key])}; at {user_line()}: "
                    "a stack of states needs tinyfn.vmap"
                )

    def _update(
        self, parameters: Parameters, gradients: list[Array | None], slots: list[list[Any]], scalars: Scalars
    ) -> tuple[list[Array], State]:
        arrays, whole = list(parameters.arrays), Parts()
        for i, gradient in enumerate(gradients):
            first = parameters.first[i]
            if gradient is None:
                continue
            if first != i:
                arrays[i] = arrays[first]
                for column in slots:
                    column[i] = column[first]
                continue
            mine = [column[i] for column in slots]
            arrays[i], changed = self._apply(arrays[i], gradient, mine, scalars, whole)
            for column, slot in zip(slots, changed, strict=True):
                column[i] = slot
        return arrays, {
            name: pytree.unflatten(parameters.tree, column) for name, column in zip(self.slots, slots, strict=True)
        }

    def _apply(
        self, parameter: Array, gradient: Array, slots: list[Array], scalars: Scalars, parts: Parts
    ) -> tuple[Array, tuple[Array, ...]]:
        """The new parameter and slots; the parameter and the gradient may be those of several leaves, as flat vectors."""
        dtype = _compute_dtype(parameter.dtype, *[slot.dtype for slot in slots])
        t, g = operators.to_dtype(parameter, dtype), operators.to_dtype(gradient, dtype)
        delta, changed = self.delta(t, g, slots, scalars(dtype), parts)
        return operators.to_dtype(operators.subtract(t, delta), parameter.dtype), changed

    def _slots(self, parameters: Parameters, state: State) -> list[list[Any]]:
        columns = []
        for name in self.slots:
            column = parameters.up_to(state[name], f"state[{name!r}]")
            for i, (slot, array) in enumerate(zip(column, parameters.arrays, strict=True)):
                if is_trainable(array.dtype):
                    column[i] = parameters.slot(slot, array.shape, f"state[{name!r}]{parameters.path(i)}")
            columns.append(column)
        return columns

    def _fused_slots(self, parameters: Parameters, state: State) -> list[dict[str, Any]]:
        sizes = {dtype.name: sum(sizes) for dtype, sizes in _sizes_by_dtype(parameters.arrays).items()}
        flat = []
        for name in self.slots:
            vectors = state[name]
            if not isinstance(vectors, dict) or set(vectors) != set(sizes):
                found = sorted(map(str, vectors)) if isinstance(vectors, dict) else type(vectors).__name__
                raise ValueError(
                    f"{parameters.what}: the fused state[{name!r}] should be a dict with the keys {sorted(sizes)}, the dtypes "
                    f"of the parameters, not {found}; at {user_line()}: make it with the init of the same optimizer"
                )
            flat.append({
                key: parameters.slot(vectors[key], (size,), f"state[{name!r}][{key!r}]") for key, size in sizes.items()
            })
        return flat

    def _fused_update(
        self, parameters: Parameters, gradients: list[Array | None], slots: list[dict[str, Any]], scalars: Scalars
    ) -> tuple[list[Array], State]:
        arrays = list(parameters.arrays)
        for dtype, sizes in _sizes_by_dtype(arrays).items():
            members = [i for i, array in enumerate(arrays) if array.dtype is dtype]
            active = [i for i in members if gradients[i] is not None]
            if not active:
                continue
            parts = Segments([arrays[i].size for i in active])
            kept = [gradients[i] is not None for i in members]
            old = [vectors[dtype.name] for vectors in slots]
            t, g = ravel([arrays[i] for i in active]), ravel([gradients[i] for i in active])
            t, changed = self._apply(t, g, [_select(vector, sizes, kept) for vector in old], scalars, parts)
            for vectors, before, after in zip(slots, old, changed, strict=True):
                vectors[dtype.name] = _merge(before, after, sizes, kept)
            for i, piece in zip(active, parts.split(t), strict=True):
                first = parameters.first[i]
                arrays[i] = arrays[first] if first != i else prims.reshape(piece, shape=arrays[i].shape)
        return arrays, dict(zip(self.slots, slots, strict=True))


Scalars = Callable[[DType], tuple[Numbers, ...]]


class Parts:
    """One parameter, and the norm that a trust ratio takes of it."""

    def norm(self, x: Numbers) -> Numbers:
        """The Euclidean norm of x, a 0-d array."""
        return prims.sqrt(prims.reduce_sum(x * x, axes=tuple(range(x.ndim))))

    def spread(self, factor: Numbers) -> Numbers:
        """What the parameter is multiplied with to scale it by a factor for each norm."""
        return factor


class Segments(Parts):
    """Several parameters in one flat vector: a norm of each."""

    def __init__(self, sizes: Sequence[Any]):
        self.sizes = sizes

    def split(self, x: Numbers) -> list[Numbers]:
        """The parameters' vectors."""
        return _pieces(x, self.sizes)

    def norm(self, x: Numbers) -> Numbers:
        """The Euclidean norms, a vector with one element for each parameter."""
        return prims.sqrt(ravel([prims.reduce_sum(piece, axes=(0,)) for piece in self.split(x * x)]))

    def spread(self, factor: Numbers) -> Numbers:
        """The factors, each repeated for the elements of its parameter."""
        factors = _pieces(factor, [1] * len(self.sizes))
        return ravel([operators.broadcast_to(f, (n,)) for f, n in zip(factors, self.sizes, strict=True)])


class Parameters:
    """The leaves of a params tree, which of them are the same array, and the checks of trees that go with it."""

    def __init__(self, what: str, params: Any):
        self.what = what
        self.params = params
        leaves, self.tree = pytree.flatten(params)
        self.arrays = [leaf if isinstance(leaf, Array) else self._array(leaf, i) for i, leaf in enumerate(leaves)]
        self.arrays = [operators.strong(array) if array.weak_type else array for array in self.arrays]
        self.first: list[int] = []  # for each leaf the first one that is the same array
        seen: dict[int, int] = {}
        for i, leaf in enumerate(leaves):
            # Python may keep equal numbers as one object, which ties nothing.
            self.first.append(seen.setdefault(id(leaf), i) if isinstance(leaf, (Array, np.ndarray)) else i)

    def path(self, index: int) -> str:
        """Where in the tree a leaf is, as `['layer'][0]`."""
        return pytree.keystr(pytree.flatten_with_path(self.params)[0][index][0])

    def where(self, index: int) -> str:
        """A leaf in messages, as `params['layer'][0] (float32[3])`."""
        array = self.arrays[index]
        return f"params{self.path(index)} ({dtypes.describe(array.dtype, array.shape)})"

    def _array(self, leaf: Any, index: int) -> Array:
        try:
            return as_array(leaf)
        except TypeError:
            pass
        raise TypeError(
            f"{self.what}: params{self.path(index)} is a {type(leaf).__name__}, not an array or a number; at {user_line()}: "
            "keep settings out of params"
        )

    def up_to(self, tree: Any, called: str) -> list[Any]:
        """What another tree of the same structure has at each leaf; raises ValueError where it differs."""
        try:
            return self.tree.flatten_up_to(tree)
        except ValueError as error:
            reason = str(error).removeprefix("structure mismatch ")
        raise ValueError(f"{self.what}: {called} does not have the structure of params: {reason}; at {user_line()}")

    def slot(self, slot: Any, shape: tuple[Any, ...], called: str) -> Array:
        """An array of the state, after checking it."""
        array = slot if isinstance(slot, Array) else None if slot is None else as_array(slot)
        if array is None or array.shape != shape or not is_trainable(array.dtype):
            found = "None" if array is None else dtypes.describe(array.dtype, array.shape)
            raise ValueError(
                f"{self.what}: {called} should be of a float dtype and shape [{','.join(map(str, shape))}], as its "
                f"parameter, not {found}; at {user_line()}: make the state with init of the same params"
            )
        return array

    def gradients(self, grads: Any) -> list[Array | None]:
        """The gradient of each leaf or None, after checking structure, shapes and dtypes."""
        self._check_missing(grads)
        found = self.up_to(grads, "grads")
        self.raw_gradients = found
        return [None if g is None else self._gradient(g, i) for i, g in enumerate(found)]

    def _check_missing(self, grads: Any) -> None:
        def is_none(x: Any) -> bool:
            return x is None

        if pytree.structure(grads, is_none) == self.tree:
            return
        given = {path for path, _ in pytree.flatten_with_path(grads, is_none)[0]}
        wanted = [path for path, _ in pytree.flatten_with_path(self.params)[0]]
        if given and given < set(wanted):
            missing = ", ".join(f"params{pytree.keystr(path)}" for path in wanted if path not in given)
            raise ValueError(
                f"{self.what}: grads has no gradient for {missing}; at {user_line()}: give None for a leaf that is not trained"
            )

    def _gradient(self, gradient: Any, index: int) -> Array | None:
        parameter = self.arrays[index]
        if getattr(gradient, "dtype", None) == dtypes.float0:
            return None
        try:
            array = gradient if isinstance(gradient, Array) else as_array(gradient)
        except TypeError:
            array = None
        if array is None:
            raise TypeError(
                f"{self.what}: the gradient of {self.where(index)} is a {type(gradient).__name__}, not an array or None; "
                f"at {user_line()}"
            )
        if not is_trainable(parameter.dtype):
            raise TypeError(
                f"{self.what}: {self.where(index)} has a gradient, but only parameters of dtype "
                f"{', '.join(d.name for d in dtypes.FLOATS)} can be trained; at {user_line()}: give None for it"
            )
        described = dtypes.describe(array.dtype, array.shape)
        if array.shape != parameter.shape:
            raise ValueError(
                f"{self.what}: the gradient of {self.where(index)} has another shape: {described}; at {user_line()}"
            )
        if not _fits(array.dtype, array.weak_type, parameter.dtype):
            raise TypeError(
                f"{self.what}: the gradient of {self.where(index)} has a dtype that does not fit: {described}; at "
                f"{user_line()}: cast it with .astype({parameter.dtype.name!r})"
            )
        return array

    def tied(self, gradients: list[Array | None]) -> list[Array | None]:
        """The gradients with those of leaves that are the same array added up, at all of their places."""
        if all(i == first for i, first in enumerate(self.first)):
            return gradients
        total = list(gradients)
        counted: dict[int, set[int]] = {}
        for i, first in enumerate(self.first):
            gradient, known = gradients[i], counted.setdefault(first, set())
            if gradient is not None and id(self.raw_gradients[i]) not in known:
                known.add(id(self.raw_gradients[i]))
                mine = total[first]
                if i != first:
                    total[first] = gradient if mine is None else operators.add(mine, gradient)
        return [total[first] for first in self.first]


# The learning rate


def set_learning_rate(state: State, lr: Any) -> State:
    """The state with another learning rate, a number or an array, cast to the dtype that the rate has in the state.

    For a group's state a number goes to every optimizer, and a dict by label to those that it names. A stack of states
    (of `vmap`) takes one number for all, or an array with one for each."""
    if not isinstance(state, dict) or not state:
        raise TypeError(f"set_learning_rate needs an optimizer's state, a dict, not {type(state).__name__}; at {user_line()}")
    if all(isinstance(part, dict) for part in state.values()) and ("lr" not in state or isinstance(state["lr"], dict)):
        unknown = sorted(map(str, set(lr) - set(state))) if isinstance(lr, dict) else []
        if unknown:
            raise ValueError(f"set_learning_rate: there are no labels {unknown} in this state; at {user_line()}")
        rates = lr if isinstance(lr, dict) else {label: lr for label, part in state.items() if part}
        return {label: set_learning_rate(part, rates[label]) if label in rates else part for label, part in state.items()}
    if "lr" not in state:
        raise ValueError(
            f"set_learning_rate: this state has no 'lr', as its optimizer was made with const_lr (or under CONST_LR=1); "
            f"at {user_line()}: make it with const_lr=False"
        )
    old = as_array(state["lr"])
    rate = as_array(lr) if isinstance(lr, (Array, np.ndarray)) else operators.scalar(number("set_learning_rate", "lr", lr), old.dtype)
    rate = operators.astype(rate, old.dtype)
    if rate.size == 1:
        rate = operators.broadcast_to(prims.reshape(rate, shape=()), old.shape)
    elif rate.size == old.size:
        rate = prims.reshape(rate, shape=old.shape)
    else:
        raise ValueError(f"set_learning_rate: lr of shape {rate.shape} does not fit state['lr'] of shape {old.shape}; at {user_line()}")
    return {**state, "lr": rate}


# Settings


def number(what: str, name: str, value: Any, below: float = math.inf) -> float:
    """A setting that must be a number from 0 up to, not including, `below`; raises TypeError or ValueError."""
    value = real(what, name, value)
    if not 0 <= value < below:
        limit = "" if below == math.inf else f" and below {below:g}"
        raise ValueError(f"{what}: {name} must be at least 0{limit}, not {value}; at {user_line()}")
    return value


def real(what: str, name: str, value: Any) -> float:
    """A setting that must be a finite number; raises TypeError or ValueError."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        hint = ": to change it later, or to trace it, use set_learning_rate(state, lr)" if name == "lr" else ""
        raise TypeError(f"{what}: {name} must be a number, not {type(value).__name__}; at {user_line()}{hint}")
    if not math.isfinite(value):
        raise ValueError(f"{what}: {name} must be finite, not {value}; at {user_line()}")
    return float(value)


def _flag(variable: str) -> bool:
    """An environment variable that is 0, the default, or another integer."""
    text = os.environ.get(variable, "").strip()
    try:
        return bool(int(text or "0"))
    except ValueError:
        raise ValueError(f"the environment variable {variable} should be 0 or 1, not {text!r}") from None


def _state_dtype(what: str, state_dtype: Any) -> DType | None:
    called = "state_dtype"
    if state_dtype is None:
        state_dtype = os.environ.get("OPTIM_DTYPE") or None
        called = "the environment variable OPTIM_DTYPE"
        if state_dtype is None:
            return None
    try:
        dtype = dtypes.canonical({"half": "float16", "float": "float32", "double": "float64"}.get(state_dtype, state_dtype))
    except TypeError:
        dtype = dtypes.bool_
    if dtype not in dtypes.FLOATS:
        names = ", ".join(d.name for d in dtypes.FLOATS)
        raise ValueError(f"{what}: {called} should be one of {names}, not {state_dtype!r}; at {user_line()}")
    return dtype


# Arrays


def is_trainable(dtype: DType) -> bool:
    """Whether arrays of this dtype are parameters; others are passed through."""
    return dtype in dtypes.FLOATS


def full(shape: tuple[Any, ...], value: float, dtype: DType) -> Array:
    """An array of one value everywhere, and a constant in a trace."""
    if current_trace() is None:
        return wrap(np.full(shape, value, dtype) if value else np.zeros(shape, dtype))
    return operators.broadcast_to(operators.scalar(value, dtype), shape)


def ravel(xs: Sequence[Any]) -> Array:
    """The elements of all arrays in one vector."""
    flat = [x if x.ndim == 1 else prims.reshape(x, shape=(x.size,)) for x in xs]
    joined: Array = prims.concatenate(*flat, axis=0) if len(flat) > 1 else flat[0]
    return joined


def stored(x: Numbers, like: Numbers) -> tuple[Numbers, Numbers]:
    """x as it is stored in the place of `like`, and what that is worth in x's own dtype."""
    kept = operators.to_dtype(x, like.dtype)
    return kept, operators.to_dtype(kept, x.dtype)


@lru_cache(maxsize=256)
def _compute_dtype(parameter: DType, *slots: DType) -> DType:
    dtype = dtypes.accumulator(parameter)
    for slot in slots:
        dtype = dtypes.promote_types(dtype, slot)
    return dtype


@lru_cache(maxsize=256)
def _fits(gradient: DType, is_weak: bool, parameter: DType) -> bool:
    """Whether a gradient can be widened to the parameter's dtype."""
    if gradient not in dtypes.FLOATS:
        return False
    return is_weak or dtypes.promote_types(gradient, parameter) is parameter


def _cast_all(shared: State, dtype: DType) -> State:
    return {key: operators.to_dtype(prims.reshape(x, shape=()), dtype) for key, x in shared.items()}


def _sizes_by_dtype(arrays: Sequence[Array]) -> dict[DType, list[Any]]:
    sizes: dict[DType, list[Any]] = {}
    for array in arrays:
        if is_trainable(array.dtype):
            sizes.setdefault(array.dtype, []).append(array.size)
    return sizes


def _pieces(x: Array, sizes: Sequence[Any]) -> list[Array]:
    """A vector cut into pieces of these sizes."""
    if len(sizes) == 1:
        return [x]
    pieces, begin = [], 0
    for size in sizes:
        pieces.append(prims.slice_(x, start=(begin,), limit=(begin + size,), step=(1,)))
        begin += size
    return pieces


def _select(x: Array, sizes: Sequence[Any], kept: Sequence[bool]) -> Array:
    """The pieces of a vector that are kept, joined."""
    if all(kept):
        return x
    return ravel([piece for piece, keep in zip(_pieces(x, sizes), kept, strict=True) if keep])


def _merge(before: Array, after: Array, sizes: Sequence[Any], kept: Sequence[bool]) -> Array:
    """`before` with the pieces that are kept replaced by those of `after`, which has only them."""
    if all(kept):
        return after
    new = iter(_pieces(after, [size for size, keep in zip(sizes, kept, strict=True) if keep]))
    return ravel([next(new) if keep else piece for piece, keep in zip(_pieces(before, sizes), kept, strict=True)])
