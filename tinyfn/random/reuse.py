"""A checker that every key is used once: two uses of one key give numbers that are not independent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from ..trace import dtype as dtypes
from ..trace.array import Array, as_array
from ..trace.errors import user_line
from ..trace.switches import disable_jit
from ..trace.tracing import Trace, Tracer, current_trace
from ..transforms.lanes import outside

Function = TypeVar("Function", bound=Callable[..., Any])


_LOOPS = ("scan", "while_loop", "fori_loop", "map")
# Only one branch is taken, and a function is traced several times for its rules: a use counts in its own trace only.
_TRACED_APART = ("cond", "switch", "custom_jvp", "custom_vjp")


class KeyReuseError(RuntimeError):
    """A key was used a second time, within `check_key_reuse`: the message has the lines of both uses."""


class _Local(threading.local):
    """What this thread checks: the uses so far by key, or None; and whether a function of this package is using one."""

    uses: dict[Any, str] | None = None
    within = False


_local = _Local()


def _identities(key: Any) -> list[tuple[Any, str]]:
    """What the key is known by, and how a message calls it: its words (of a key in vmap, those in all lanes) if they are known,
    else its node in its trace."""
    array = as_array(key)
    while isinstance(array, Tracer):
        around = outside(array)
        if around is None:
            return [((array.context, array.uop), f"a key traced in {array.context.transform}")]
        array = around
    value = array.value
    if value.dtype == dtypes.key:
        value = np.ascontiguousarray(value).view(np.uint32).reshape(*value.shape, 2)
    if value.dtype != dtypes.uint32 or value.shape[-1:] != (2,):
        return []  # not keys: the function that is given it says so
    words = [(int(high), int(low)) for high, low in value.reshape(-1, 2)]
    return [(pair, f"the key with the words {pair[0]}, {pair[1]}") for pair in words]


def _traces_within(owner: Any) -> list[Trace]:
    """The active traces, from the innermost one out, up to but without the key's own (None: all)."""
    found, trace = [], current_trace()
    while trace is not None and trace is not owner:
        found.append(trace)
        trace = trace.parent
    return found


class check_key_reuse:
    """Raise KeyReuseError, with the lines of both uses, where a key is used twice within the block: `with check_key_reuse():`.

    A use is to draw numbers from a key or to split it; `fold_in` is none, since its other argument makes new keys. Keys are
    told apart by their words, so that `key(0)` made twice is one key, as are copies. `clone` allows one more use. Jitted
    functions, loops and branches run one operation at a time within the block (see `tinyfn.disable_jit`), which is slow but
    sees every use in every step. Under `vmap` the keys of all lanes are used at once. In a loop under `vmap`
    or `grad`, whose body is traced once, keys that the body gets are followed within one step only.

    >>> key = random.key(0)
    >>> with random.check_key_reuse():
    ...     first, second = random.split(key)
    ...     noise = random.normal(first, (3,)) + random.normal(second, (3,))
    >>> try:
    ...     with random.check_key_reuse():
    ...         noise = random.normal(key, (3,)) + random.uniform(key, (3,))
    ... except random.KeyReuseError as error:
    ...     print("uniform uses the key that normal used:", "random.normal" in str(error))
    uniform uses the key that normal used: True
    """

    def __enter__(self) -> None:
        self._before, _local.uses = _local.uses, {}
        self._jit = disable_jit()

    def __exit__(self, *_: Any) -> None:
        self._jit.__exit__()
        _local.uses = self._before


def _use(name: str, key: Any) -> None:
    uses = _local.uses
    assert uses is not None
    line = user_line()
    advice = "Split the key (`key, own = random.split(key)`) and use each part once; if it is on purpose, use random.clone(key)"
    for identity, described in _identities(key):
        traces = _traces_within(identity[0] if isinstance(identity[0], Trace) else None)
        loop = next((trace.transform for trace in traces if trace.transform in _LOOPS), None)
        if loop is not None:
            raise KeyReuseError(
                f"random.{name} at {line} uses {described} in every step of a {loop}, so that all steps draw the same numbers. "
                "Use random.fold_in(key, i), or carry the key and split it"
            )
        place = next((trace for trace in traces if trace.transform in _TRACED_APART), None)
        found = uses.get((identity, None)) or uses.get((identity, place))
        if found is not None:
            raise KeyReuseError(
                f"random.{name} at {line} uses {described} again: {found} used it before, and the numbers of both are not "
                f"independent. {advice}"
            )
        uses[identity, place] = f"random.{name} at {line}"


def uses_key(function: Function) -> Function:
    """Count a call of the function as a use of its first argument, the key, and what it calls in turn as part of that."""
    name = function.__name__

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if _local.uses is None or _local.within:
            return function(*args, **kwargs)
        key = args[0] if args else kwargs.get("key")
        if isinstance(key, Array) or hasattr(key, "__array__"):
            _use(name, key)
        _local.within = True
        try:
            return function(*args, **kwargs)
        finally:
            _local.within = False

    return cast("Function", checked)


def forget(key: Any) -> None:
    """Allow one more use of a key."""
    if _local.uses is not None:
        for identity, _ in _identities(key):
            for use in [use for use in _local.uses if use[0] == identity]:
                del _local.uses[use]
