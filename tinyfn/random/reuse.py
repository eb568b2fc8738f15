"""A checker that every key is used once: two uses of one key give numbers that are not independent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from ..lax.one_by_one import in_traces, outermost, running
from ..trace import dtype as dtypes
from ..trace import operators, prims
from ..trace.array import Array, as_array
from ..trace.errors import user_line
from ..trace.switches import disable_jit
from ..trace.tracing import Trace, Tracer, current_trace

Function = TypeVar("Function", bound=Callable[..., Any])


_LOOPS = ("scan", "while_loop", "fori_loop", "map")
# Only one branch is taken, and a function is traced several times for its rules: a use counts in its own trace only.
_TRACED_APART = ("cond", "switch", "custom_jvp", "custom_vjp")


# The words of a key in a lane that is done.
_UNUSED = (0xFFFFFFFF, 0xFFFFFFFF)


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
    found = outermost(array)
    if isinstance(found, Tracer):
        return [((found.context, found.uop), f"a key traced in {found.context.transform}")]
    words = _words(found)
    if len(words) > 1:
        # Lanes of a mapped loop that have come to its end use no key, though they take part in the step.
        for test in running():
            array = _used_where(test, array)
        masked = outermost(array)
        kept = words if isinstance(masked, Tracer) else _words(masked)
        words = [pair for pair in kept if pair != _UNUSED] if len(kept) == len(words) else words
    return [(pair, f"the key with the words {pair[0]}, {pair[1]}") for pair in words]


def _words(keys: Array) -> list[tuple[int, int]]:
    value = keys.value
    if value.dtype == dtypes.key:
        value = np.ascontiguousarray(value).view(np.uint32).reshape(*value.shape, 2)
    if value.dtype != dtypes.uint32 or value.shape[-1:] != (2,):
        return []  # not keys: the function that is given it says so
    return [(int(first), int(second)) for first, second in value.reshape(-1, 2)]


def _used_where(test: Array, keys: Array) -> Array:
    """Keys where a number is true, else ones that are not used."""
    unused = np.array(_UNUSED, np.uint32)
    unused = unused.view(dtypes.key)[0] if keys.dtype is dtypes.key else unused
    return cast("Array", prims.where(operators.broadcast_to(test, keys.shape), keys, as_array(unused)))


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
    sees every use in every step, also under `grad` and `vmap`, where loops are unrolled. Under `vmap` the keys of all lanes are
    used at once. In a while loop whose condition is not known when it is traced, as in a checkpointed function, keys are
    followed within one step only.

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
        self._loops = ExitStack()
        self._loops.enter_context(disable_jit())
        self._loops.enter_context(in_traces())

    def __exit__(self, *_: Any) -> None:
        self._loops.close()
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
