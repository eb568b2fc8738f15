"""What all optimizers share: the state, tied leaves, leaves without a gradient, and fusion.

An optimizer is a pair of pure functions on pytrees of arrays: `state = optimizer.init(params)` and then, for
each step, `params, state = optimizer.step(params, grads, state)`. They run eagerly, under `jit` and `vmap`,
and can be differentiated.

The state is a dict. `state["lr"]` is the learning rate, an array of shape (1,): change it with
`set_learning_rate`, which retraces nothing. Every other hyperparameter is fixed when the optimizer is made.
What is remembered of each parameter (`b`, or `m` and `v`: tinygrad's names) is a tree like params, or with
`fused` one flat vector for each dtype among the parameters.

- A leaf whose gradient is None is a buffer: it and its state are passed through. So is a leaf that is no
  float.
- The same array at several places of params is one parameter: it gets one update, from the sum of the
  gradients at those places (one gradient object at several of them counts once), and all places get the
  result. In a function that is traced with params as its argument (`jit`, `vmap`, `grad`) each place is an
  argument of its own, and so a parameter of its own: to tie weights there, let params hold the array once.
- Arithmetic is in float32 at least, and in float64 for float64 parameters or state. What is stored is cast to
  the type that it had before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators, prims, pytree
from ..trace.array import Array, as_array
from ..trace.dtype import DType
from ..trace.errors import entry_methods, user_line
from .flat import Numbers, Parts, Segments, merge, ravel, select
from .parameters import Parameters, is_trainable
from .settings import flag, number, state_dtype

State = dict[str, Any]
Scalars = Callable[[DType], tuple[Numbers, ...]]


class Optimizer:
    """A pair of pure functions, `init` and `step`; made by `sgd`, `adam`, `group` and the like.

    >>> optimizer = optax_like.sgd(lr=0.5)
    >>> params = {"w": tnp.array([1.0, 2.0])}
    >>> state = optimizer.init(params)
    >>> @tinyfn.jit
    ... def train(params, state, x):
    ...     loss, grads = tinyfn.value_and_grad(lambda p: tnp.sum((p["w"] - x) ** 2))(params)
    ...     params, state = optimizer.step(params, grads, state)
    ...     return params, state, loss
    >>> params, state, loss = train(params, state, 0.0)
    >>> params, loss
    ({'w': Array([0., 0.], dtype=float32)}, Array(5., dtype=float32))
    """

    name = "optimizer"

    def init(self, params: Any) -> State:
        """The state before the first step; raises ValueError if params has no leaf to train."""
        raise NotImplementedError

    def step(self, params: Any, grads: Any, state: State) -> tuple[Any, State]:
        """The parameters and the state after one step against `grads`, a tree like params with None for
        buffers.

        Raises ValueError or TypeError, naming the leaf, before anything is computed: if the trees differ in
        structure, a gradient has another shape or a dtype that is no narrower, or no leaf has a gradient."""
        raise NotImplementedError


class Rule(Optimizer):
    """An optimizer that treats all parameters alike; a subclass gives the formula in `delta`."""

    slots: tuple[str, ...] = ()  # the names in the state of what is remembered of each parameter

    def __init__(
        self, name: str, lr: float, fused: bool | None, dtype: Any, const_lr: bool | None, **options: Any
    ):
        self.name = name
        self.lr = number(name, "lr", lr)
        self.fused = flag("FUSE_OPTIM") if fused is None else bool(fused)
        self.const_lr = flag("CONST_LR") if const_lr is None else bool(const_lr)
        self.state_dtype = state_dtype(name, dtype)
        self.options = {"lr": self.lr, **options}
        for option, default in (("fused", False), ("const_lr", False), ("state_dtype", None)):
            if getattr(self, option) != default:
                self.options[option] = str(getattr(self, option))

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value}' for key, value in self.options.items())})"

    # What a subclass gives

    def shared_state(self, dtype: DType) -> State:
        """The part of the state that all parameters share, besides the learning rate."""
        return {}

    def advance(self, shared: State) -> State:
        """The shared part of the state in the next step."""
        return shared

    def scalars(self, rate: Numbers, shared: State) -> tuple[Numbers, ...]:
        """What `delta` needs that is the same for all parameters: 0-d arrays of the learning rate's dtype."""
        return (rate,)

    def delta(
        self, t: Numbers, g: Numbers, slots: Sequence[Numbers], scalars: Sequence[Numbers], parts: Parts
    ) -> tuple[Numbers, tuple[Numbers, ...]]:
        """What is subtracted from the parameter t with gradient g, and the slots after this step.

        All are of the dtype in which is computed, but for the slots, which are as stored."""
        raise NotImplementedError

    def refusal(self, shape: tuple[Any, ...]) -> str | None:
        """Why a parameter of this shape can't be trained, if so."""
        return None

    # The two functions

    def init(self, params: Any) -> State:
        parameters = Parameters(f"{self.name}.init", params)
        trainable = [array for array in parameters.arrays if is_trainable(array.dtype)]
        if not trainable:
            raise ValueError(
                f"{parameters.what}: params has no leaf of a float dtype, so there is nothing to train; "
                f"at {user_line()}"
            )
        is_double = any(array.dtype is dtypes.float64 for array in trainable)
        dtype = dtypes.float64 if is_double else dtypes.float32
        state: State = {} if self.const_lr else {"lr": operators.full(self.lr, dtype, (1,))}
        state.update(self.shared_state(dtype))
        for slot in self.slots:
            if self.fused:
                state[slot] = {
                    parameter.name: operators.full(0, self._slot_dtype(parameter), (sum(sizes),))
                    for parameter, sizes in _sizes_by_dtype(parameters.arrays).items()
                }
            else:
                zeros = [
                    operators.full(0, self._slot_dtype(a.dtype), a.shape) if is_trainable(a.dtype) else None
                    for a in parameters.arrays
                ]
                state[slot] = pytree.unflatten(parameters.tree, zeros)
        return state

    def step(self, params: Any, grads: Any, state: State) -> tuple[Any, State]:
        parameters = Parameters(f"{self.name}.step", params)
        gradients = parameters.gradients(grads)
        self._check_shapes(parameters, gradients)
        rate, shared = self._shared(parameters.what, state)
        slots = [
            self._fused_slot(parameters, state, name) if self.fused else self._slot(parameters, state, name)
            for name in self.slots
        ]
        shared = self.advance(shared)
        made: dict[DType, tuple[Numbers, ...]] = {}

        def scalars(dtype: DType) -> tuple[Numbers, ...]:
            if dtype not in made:
                mine = operators.scalar(self.lr, dtype) if rate is None else _scalar(rate, dtype)
                made[dtype] = self.scalars(mine, {key: _scalar(x, dtype) for key, x in shared.items()})
            return made[dtype]

        gradients = parameters.tied(grads, gradients)
        update = self._fused_update if self.fused else self._update
        arrays = update(parameters, gradients, slots, scalars)
        if not self.fused:
            slots = [pytree.unflatten(parameters.tree, column) for column in slots]
        kept = {} if rate is None else {"lr": rate}
        new_state = {**state, **kept, **shared, **dict(zip(self.slots, slots, strict=True))}
        return pytree.unflatten(parameters.tree, arrays), new_state

    # The checks of the state

    def _check_shapes(self, parameters: Parameters, gradients: Sequence[Array | None]) -> None:
        for i, gradient in enumerate(gradients):
            reason = None if gradient is None else self.refusal(gradient.shape)
            if reason is not None:
                raise ValueError(f"{parameters.what}: {parameters.where(i)} {reason}; at {user_line()}")

    def _slot_dtype(self, parameter: DType) -> DType:
        return self.state_dtype or (dtypes.float64 if parameter is dtypes.float64 else dtypes.float32)

    def _shared(self, what: str, state: Any) -> tuple[Array | None, State]:
        """The learning rate, if it is in the state, and the rest of what the parameters share."""
        single = [*([] if self.const_lr else ["lr"]), *self.shared_state(dtypes.float32)]
        expected = {*single, *self.slots}
        if not isinstance(state, dict) or set(state) != expected:
            found = sorted(map(str, state)) if isinstance(state, dict) else type(state).__name__
            raise ValueError(
                f"{what}: the state should be a dict with the keys {sorted(expected)}, not {found}; "
                f"at {user_line()}: make it with the init of the same optimizer, {self!r}"
            )
        shared = {key: as_array(state[key]) for key in single}
        for key, array in shared.items():
            if array.size != 1:
                raise ValueError(
                    f"{what}: state[{key!r}] should have one element, not shape {array.shape}; "
                    f"at {user_line()}: a stack of states needs tinyfn.vmap"
                )
        return shared.pop("lr", None), shared

    def _slot(self, parameters: Parameters, state: State, name: str) -> Any:
        """What the state has under a name, a list like the leaves of params."""
        column = parameters.up_to(state[name], f"state[{name!r}]")
        for i, array in enumerate(parameters.arrays):
            slot = column[i]
            if is_trainable(array.dtype) and not (isinstance(slot, Array) and slot.shape == array.shape):
                column[i] = parameters.slot(slot, array.shape, f"state[{name!r}]{parameters.path(i)}")
        return column

    def _fused_slot(self, parameters: Parameters, state: State, name: str) -> Any:
        """What the state has under a name, a vector for each dtype of the parameters."""
        sizes = {dtype.name: sum(sizes) for dtype, sizes in _sizes_by_dtype(parameters.arrays).items()}
        flat = state[name]
        if not isinstance(flat, dict) or set(flat) != set(sizes):
            found = sorted(map(str, flat)) if isinstance(flat, dict) else type(flat).__name__
            raise ValueError(
                f"{parameters.what}: the fused state[{name!r}] should be a dict with the dtypes of the "
                f"parameters as keys, {sorted(sizes)}, not {found}; at {user_line()}: make it with init"
            )
        return {k: parameters.slot(flat[k], (n,), f"state[{name!r}][{k!r}]") for k, n in sizes.items()}

    # The update: new arrays are returned, new slots put into `slots`

    def _apply(
        self, parameter: Array, gradient: Array, slots: list[Array], scalars: Scalars, parts: Parts
    ) -> tuple[Array, tuple[Array, ...]]:
        """The new parameter and slots, which may be those of several leaves, as flat vectors."""
        dtype = _compute_dtype(parameter.dtype, *[slot.dtype for slot in slots])
        t, g = operators.to_dtype(parameter, dtype), operators.to_dtype(gradient, dtype)
        delta, changed = self.delta(t, g, slots, scalars(dtype), parts)
        return operators.to_dtype(operators.subtract(t, delta), parameter.dtype), changed

    def _update(
        self, parameters: Parameters, gradients: list[Array | None], slots: list[Any], scalars: Scalars
    ) -> list[Array]:
        arrays, whole = list(parameters.arrays), Parts()
        for i, gradient in enumerate(gradients):
            first = parameters.first[i]
            if gradient is None:
                continue
            if first != i:
                arrays[i] = arrays[first]
                changed: Sequence[Array] = [column[first] for column in slots]
            else:
                mine = [column[i] for column in slots]
                arrays[i], changed = self._apply(arrays[i], gradient, mine, scalars, whole)
            for column, slot in zip(slots, changed, strict=True):
                column[i] = slot
        return arrays

    def _fused_update(
        self, parameters: Parameters, gradients: list[Array | None], slots: list[Any], scalars: Scalars
    ) -> list[Array]:
        arrays = list(parameters.arrays)
        for dtype, sizes in _sizes_by_dtype(arrays).items():
            members = [i for i, array in enumerate(arrays) if array.dtype is dtype]
            kept = [gradients[i] is not None for i in members]
            active = [i for i, keep in zip(members, kept, strict=True) if keep]
            if not active:
                continue
            parts = Segments([arrays[i].size for i in active])
            t = ravel([arrays[i] for i in active])
            g = ravel([operators.to_dtype(g, dtype) for g in (gradients[i] for i in active) if g is not None])
            old = [flat[dtype.name] for flat in slots]
            t, changed = self._apply(t, g, [select(x, sizes, kept) for x in old], scalars, parts)
            for flat, before, after in zip(slots, old, changed, strict=True):
                flat[dtype.name] = merge(before, after, sizes, kept)
            for i, piece in zip(active, parts.split(t), strict=True):
                first = parameters.first[i]
                arrays[i] = arrays[first] if first != i else prims.reshape(piece, shape=arrays[i].shape)
        return arrays


def set_learning_rate(state: State, lr: Any) -> State:
    """The state with another learning rate, a number or an array, in the shape and dtype that it has there.

    For a group's state a number goes to every optimizer, and a dict by label to those that it names. A stack
    of states (of `vmap`) takes one number for all, or an array with one for each. Raises ValueError for a
    number below 0, and for a state without a learning rate (`const_lr`).

    >>> state = optax_like.sgd(lr=0.5).init(tnp.ones(2))
    >>> optax_like.set_learning_rate(state, 0.25)["lr"]
    Array([0.25], dtype=float32)
    """
    if not isinstance(state, dict):
        raise TypeError(
            f"set_learning_rate: state must be an optimizer's state, a dict, not {type(state).__name__}; "
            f"at {user_line()}"
        )
    if state and all(isinstance(part, dict) for part in state.values()):
        unknown = sorted(map(str, set(lr) - set(state))) if isinstance(lr, dict) else []
        if unknown:
            raise ValueError(f"set_learning_rate: the state has no labels {unknown}; at {user_line()}")
        rates = lr if isinstance(lr, dict) else {label: lr for label, part in state.items() if part}
        return {
            label: set_learning_rate(part, rates[label]) if label in rates else part
            for label, part in state.items()
        }
    if "lr" not in state:
        raise ValueError(
            "set_learning_rate: the state has no 'lr', as its optimizer has const_lr (or CONST_LR=1); "
            f"at {user_line()}: make it with const_lr=False"
        )
    old = as_array(state["lr"])
    if isinstance(lr, (Array, np.ndarray)):
        rate = operators.astype(lr, old.dtype)
    else:
        rate = operators.scalar(number("set_learning_rate", "lr", lr), old.dtype)
    if rate.size not in (1, old.size):
        raise ValueError(
            f"set_learning_rate: lr of shape {rate.shape} does not fit state['lr'] of shape {old.shape}; "
            f"at {user_line()}"
        )
    if rate.size != old.size:
        rate = operators.broadcast_to(prims.reshape(rate, shape=()), old.shape)
    return {**state, "lr": prims.reshape(rate, shape=old.shape)}


# Arrays


def stored(x: Numbers, like: Numbers) -> tuple[Numbers, Numbers]:
    """x as it is stored in the place of `like`, and what that is worth in x's own dtype."""
    kept = operators.to_dtype(x, like.dtype)
    return kept, operators.to_dtype(kept, x.dtype)


def _scalar(x: Array, dtype: DType) -> Array:
    return operators.to_dtype(prims.reshape(x, shape=()), dtype)


@lru_cache(maxsize=256)
def _compute_dtype(parameter: DType, *slots: DType) -> DType:
    dtype = dtypes.accumulator(parameter)
    for slot in slots:
        dtype = dtypes.promote_pair(dtype, False, slot, False)[0]
    return dtype


def _sizes_by_dtype(arrays: Sequence[Array]) -> dict[DType, list[Any]]:
    sizes: dict[DType, list[Any]] = {}
    for array in arrays:
        if is_trainable(array.dtype):
            sizes.setdefault(array.dtype, []).append(array.size)
    return sizes


entry_methods(Rule, "init", "step")
