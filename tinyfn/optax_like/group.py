"""Several optimizers for the parts of one params tree."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from ..trace import pytree
from ..trace.errors import entry_methods, user_line
from .base import Optimizer, State
from .parameters import Parameters

Label = Hashable


class Group(Optimizer):
    """An optimizer for each label; `group[label]`, or `group[i]` if i is no label, gives one of them.

    >>> group = optax_like.group({"w": "w", "b": "b"}, {"w": optax_like.sgd(0.5), "b": optax_like.adam(0.25)})
    >>> group["b"] is group[1]
    True
    >>> params, grads = {"w": tnp.ones(2), "b": tnp.zeros(1)}, {"w": tnp.ones(2), "b": None}
    >>> params, state = group.step(params, grads, group.init(params))
    >>> params, sorted(state)
    ({'w': Array([0.5, 0.5], dtype=float32), 'b': Array([0.], dtype=float32)}, ['b', 'w'])
    """

    name = "group"

    def __init__(self, label_fn: Any, optimizers: Mapping[Any, Optimizer]):
        self.label_fn = label_fn
        self.optimizers = dict(optimizers)
        self._last: tuple[pytree.TreeDef, list[Label]] | None = None

    def __repr__(self) -> str:
        return f"group({self.label_fn!r}, {self.optimizers!r})"

    def __len__(self) -> int:
        return len(self.optimizers)

    def __iter__(self) -> Iterator[Label]:
        return iter(self.optimizers)

    def __getitem__(self, label: Label) -> Optimizer:
        if label not in self.optimizers and isinstance(label, int):
            found: Optimizer = list(self.optimizers.values())[label]
            return found
        found = self.optimizers[label]
        return found

    def init(self, params: Any) -> State:
        parameters = Parameters("group.init", params)
        labels = self._labels(parameters)
        # A label that no parameter has is no error: a model without biases has none for theirs.
        state: State = {}
        for label, optimizer in self.optimizers.items():
            mine = _only(label, labels, parameters, parameters.leaves)
            state[label] = optimizer.init(mine) if label in labels else {}
        return state

    def step(self, params: Any, grads: Any, state: State) -> tuple[Any, State]:
        parameters = Parameters("group.step", params)
        gradients = parameters.gradients(grads)
        labels = self._labels(parameters)
        if not isinstance(state, dict) or set(state) != set(self.optimizers):
            found = sorted(map(str, state)) if isinstance(state, dict) else type(state).__name__
            raise ValueError(
                f"group.step: the state should be a dict with the labels {self._named()}, not {found}; "
                f"at {user_line()}: make it with this group's init"
            )
        given = parameters.up_to(grads, "grads")
        arrays, new_state = list(parameters.arrays), dict(state)
        for label, optimizer in self.optimizers.items():
            mine = [i for i, other in enumerate(labels) if other == label]
            if all(gradients[i] is None for i in mine):
                continue
            stepped, new_state[label] = optimizer.step(
                _only(label, labels, parameters, parameters.leaves),
                _only(label, labels, parameters, given),
                state[label],
            )
            changed = parameters.tree.flatten_up_to(stepped)
            for i in mine:
                arrays[i] = changed[i]
        return pytree.unflatten(parameters.tree, arrays), new_state

    def _labels(self, parameters: Parameters) -> list[Label]:
        last = self._last
        if last is not None and last[0] == parameters.tree:
            labels = last[1]
        else:
            labels = self._find_labels(parameters)
            self._last = parameters.tree, labels
        for i, first in enumerate(parameters.first):
            if labels[i] != labels[first]:
                raise ValueError(
                    f"{parameters.what}: {parameters.where(i)} and params{parameters.path(first)} are the "
                    f"same array, but have the labels {labels[i]!r} and {labels[first]!r}; "
                    f"at {user_line()}: give a parameter one optimizer"
                )
        return labels

    def _find_labels(self, parameters: Parameters) -> list[Label]:
        if callable(self.label_fn):
            labels = [self.label_fn(path) for path, _ in pytree.flatten_with_path(parameters.params)[0]]
        else:
            labels = pytree.broadcast_prefix(self.label_fn, parameters.params)
        for i, label in enumerate(labels):
            if label not in self.optimizers:
                raise ValueError(
                    f"{parameters.what}: {parameters.where(i)} has the label {label!r}, but there are "
                    f"optimizers for {self._named()} only; at {user_line()}"
                )
        return labels

    def _named(self) -> str:
        return ", ".join(map(repr, self.optimizers))


def _only(label: Label, labels: list[Label], parameters: Parameters, leaves: list[Any]) -> Any:
    """The tree with None for the leaves that have another label."""
    kept = [leaf if mine == label else None for leaf, mine in zip(leaves, labels, strict=True)]
    return pytree.unflatten(parameters.tree, kept)


def group(label_fn: Callable[[pytree.KeyPath], Label] | Any, optimizers: Mapping[Any, Optimizer]) -> Group:
    """One optimizer for each label, each training the parameters that have it; the state is a dict by label.

    `label_fn` is a pytree of labels, in which one label may stand for a whole subtree of params, or a
    function of a leaf's key path that gives its label (and always the same one). Optimizers may be groups
    themselves. One none of whose parameters has a gradient does not step. Raises TypeError if an optimizer is
    none; `init` and `step` raise ValueError for a label without an optimizer and, outside of traces, for one
    array with two labels.

    >>> optimizers = {"fast": optax_like.sgd(1.0), "slow": optax_like.sgd(0.5)}
    >>> optimizer = optax_like.group({"w": "fast", "b": "slow"}, optimizers)
    >>> params = {"w": tnp.array([4.0]), "b": tnp.array([4.0])}
    >>> grads = {"w": tnp.array([2.0]), "b": tnp.array([2.0])}
    >>> optimizer.step(params, grads, optimizer.init(params))[0]
    {'w': Array([2.], dtype=float32), 'b': Array([3.], dtype=float32)}

    Labels by the names of parameters:

    >>> label = lambda path: "slow" if path[-1].key == "b" else "fast"
    >>> optimizer = optax_like.group(label, optimizers)
    >>> optimizer.step(params, grads, optimizer.init(params))[0]
    {'w': Array([2.], dtype=float32), 'b': Array([3.], dtype=float32)}
    """
    is_mapping = isinstance(optimizers, Mapping) and len(optimizers) > 0
    if not is_mapping or not all(isinstance(o, Optimizer) for o in optimizers.values()):
        raise TypeError(f"group needs a dict from labels to optimizers, not {optimizers!r}; at {user_line()}")
    return Group(label_fn, optimizers)


entry_methods(Group, "init", "step")
