"""jit: a function is traced once for each signature of its arguments, simplified, and from then on run as a program.

The cache of one jitted function is keyed by the structure of the arguments, their dtypes and shapes, and the values of
the static ones. It is filled only after a trace has succeeded, and bounded: the least recently used entry goes first.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from ..trace import dtype as dtypes
from ..trace import events, finite, pytree, switches
from ..trace.array import Array, as_array
from ..trace.debug import measured, stage
from ..trace.errors import code_of, entry_point, hand_on, kind_of, summary, user_line
from ..trace.tracing import (
    Tracer,
    axis_size,
    bound_axes,
    current_trace,
    describe_function,
    trace_function,
    traced_rules,
)
from .arguments import Arguments, argument_names, check_function, marked_arguments, positional_name, stand_in
from .fast_call import MISS

if TYPE_CHECKING:
    from ..lower.lowered import Lowered
    from ..trace.graph import Graph
    from .ahead import Traced
    from .traced import TracedProgram

DEFAULT_CACHE_SIZE = 4096
_jitted: WeakSet[Jitted] = WeakSet()
_COMPARED = (
    64  # with how many of the latest signatures a new one is compared, to explain why it was not in the cache
)


# Of all jitted functions: they hold it for a moment only, and a fork must not find it held.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class CacheInfo(NamedTuple):
    """What the cache of a jitted function did, and in one line why it last had to trace again.

    >>> f = tinyfn.jit(lambda x: 2 * x)
    >>> f.cache_info()
    CacheInfo(hits=0, misses=0, size=0, maxsize=4096, last_miss='not called yet')
    """

    hits: int
    misses: int
    size: int
    maxsize: int
    last_miss: str


class Jitted:
    """A function that is traced once for each signature. Made by `jit`.

    >>> f = tinyfn.jit(lambda x: 2 * x)
    >>> f.graph(tnp.ones(3))
    <Graph <lambda>(float32[3]) -> (float32[3])>
    >>> f.eval_shape(tnp.ones(3))
    ShapeDtypeStruct(shape=(3,), dtype=float32)
    >>> f(tnp.ones(3)), f(tnp.zeros(3)), f(tnp.ones(4))
    (Array([2., 2., 2.], dtype=float32), Array([0., 0., 0.], dtype=float32), Array([2., 2., 2., 2.], dtype=float32))
    >>> f.cache_info()
    CacheInfo(hits=3, misses=2, size=2, maxsize=4096, last_miss='<lambda>: argument `x`: float32[3] → float32[4]')
    >>> f.clear_cache()
    """

    def __init__(
        self,
        function: Callable[..., Any],
        static: tuple[frozenset[int], frozenset[str]],
        donate: tuple[frozenset[int], frozenset[str]],
        cache_size: int,
    ):
        stand_in(self, function)
        self.function = function
        self.static_argnums, self.static_argnames = static
        self._donate_argnums, self._donate_argnames = donate
        self._cache: OrderedDict[Any, TracedProgram] = OrderedDict()
        self._most = cache_size
        self._hits = self._misses = 0
        # The named axes of enclosing vmaps that any trace has looked for: their sizes belong to the signature.
        self._axis_names: tuple[Any, ...] = ()
        self._last_miss = "not called yet"
        self._fast: Callable[[Any, Any], Any] | None = (
            None  # the call path of the signature that was hit last
        )
        _jitted.add(self)

    def __repr__(self) -> str:
        return f"<jit of {describe_function(self.function)}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        from functools import partial

        return partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            fast = self._fast
            if fast is not None and not switches.general_path and current_trace() is None:
                result = fast(args, kwargs)
                if result is not MISS:
                    self._hits += 1
                    return result
            if switches.general_path and (
                switches.disable_jit.is_on or (switches.checks_values() and current_trace() is not None)
            ):
                return self.function(*args, **kwargs)
            given, static = self._arguments(args, kwargs)
            return self._run(self._program(given, static, args, kwargs), given, args, kwargs)
        except BaseException as error:
            hand_on(error, f"jit of {describe_function(self.function)}", args, kwargs)
            raise

    def _run(
        self, program: TracedProgram, given: Arguments, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The result of a program that was made for arguments like these."""
        outputs = program.results(given.arrays, program.donated_arrays(given.arrays))
        if switches.general_path and switches.checks_values() and current_trace() is None:
            self._look_for_the_cause(program, outputs, given, args, kwargs)
        return program.unflatten(outputs)

    @entry_point
    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The simplified graph that a call with these arguments runs."""
        given, static = self._arguments(args, kwargs)
        return self._program(given, static, args, kwargs).compiled

    @entry_point
    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """What a call with these arguments is traced to: its graph, and the trees and types of arguments and results.

        The arguments may be arrays or anything with a shape and a dtype. `lower()` of the result is the next step.

        >>> traced = tinyfn.jit(lambda x: {"y": 2 * x}).trace(tinyfn.ShapeDtypeStruct((3,), "float32"))
        >>> traced.out_info
        {'y': ShapeDtypeStruct(shape=(3,), dtype=float32)}
        """
        from .ahead import trace

        return trace(self, args, kwargs)

    @entry_point
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The result of a call with these arguments, with a shape and dtype in the place of each array; nothing is computed."""
        return self.trace(*args, **kwargs).out_info

    @entry_point
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """What a call with these arguments runs: kernels with their code and estimates, printed as a table.

        The arguments may be arrays or anything with a shape and a dtype; `compile()` of the result compiles ahead of time. On
        the numpy device, which compiles nothing, this is what the cpu would run.

        >>> lowered = tinyfn.jit(lambda x: tnp.sum(2 * x)).lower(tinyfn.ShapeDtypeStruct((3,), "float32"))
        >>> lowered.compile()(tnp.array([1.0, 2.0, 3.0]))
        Array(12., dtype=float32)
        """
        return self.trace(*args, **kwargs).lower()

    def cache_info(self) -> CacheInfo:
        """Hits, misses, size and bound of the cache, and why the last miss was one.

        >>> f = tinyfn.jit(lambda x: 2 * x)
        >>> _ = f(tnp.ones(3)), f(tnp.ones(3)), f(tnp.ones(4))
        >>> info = f.cache_info()
        >>> info.hits, info.misses, info.size
        (1, 2, 2)
        >>> info.last_miss
        '<lambda>: argument `x`: float32[3] → float32[4]'
        """
        return CacheInfo(self._hits, self._misses, len(self._cache), self._most, self._last_miss)

    def _cache_size(self) -> int:
        """The number of traces in the cache, by the name that users of JAX look for."""
        return len(self._cache)

    def clear_cache(self) -> None:
        """Forget all traces."""
        with _lock:
            self._cache.clear()
            self._fast = None

    def _arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], convert: Callable[[Any], Any] = as_array
    ) -> tuple[Arguments, tuple[Any, ...]]:
        """The arguments of a call that are traced, and the static ones."""
        dynamic, named, static = self._separate(args, kwargs)
        positions = [i for i in range(len(args)) if i not in self.static_argnums]
        return Arguments("jit", self.function, dynamic, named, positions, convert), static

    def _separate(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any], tuple[Any, ...]]:
        """The arguments that are traced, by position and by name, and the static ones."""
        if not self.static_argnums and not self.static_argnames:
            return list(args), kwargs, ()
        chosen: list[tuple[Any, Any]] = [(i, arg) for i, arg in enumerate(args) if i in self.static_argnums]
        chosen += [(name, kwargs[name]) for name in sorted(kwargs) if name in self.static_argnames]
        static = []
        for key, value in chosen:
            try:
                static.append((key, _Static(value)))
            except TypeError:
                name = positional_name(self.function, key) if isinstance(key, int) else key
                advice = (
                    "arrays are no settings, so do not make it static"
                    if isinstance(value, (Array, np.ndarray))
                    else "pass a tuple or another immutable value, or do not make it static"
                )
                raise TypeError(
                    f"jit of {describe_function(self.function)}: the static argument `{name}` is "
                    f"{summary(value) if isinstance(value, (Array, np.ndarray)) else kind_of(value)}, "
                    f"which can't be hashed; at {user_line()}: {advice}"
                ) from None
        dynamic = [arg for i, arg in enumerate(args) if i not in self.static_argnums]
        named = {name: value for name, value in kwargs.items() if name not in self.static_argnames}
        return dynamic, named, tuple(static)

    def _program(
        self, given: Arguments, static: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> TracedProgram:
        """What was traced for arguments like these."""
        key = (given.tree, given.signature(), static, self._axis_sizes())
        program = self._cache.get(key)
        if program is not None:
            for name in program.axis_names:
                axis_size(name)  # on which what is being traced now depends too
            with _lock:
                self._hits += 1
                if key in self._cache:  # unless another thread has just dropped it
                    self._cache.move_to_end(key)
                    self._fast = program.fast(given, static)
            return program
        with _lock:
            reason = self._explain(key, given)
        if switches.no_tracing.is_on:
            raise RuntimeError(
                f"within no_tracing a jitted function would be traced: {reason}; at {user_line()}: call it once with arguments "
                "like these before, or make them like those that it has been traced for"
            )
        if switches.log_compiles.is_on or (switches.explain_cache_misses.is_on and self._misses):
            print(f"tinyfn: tracing {reason}; at {user_line()}", file=sys.stderr)
        # Not under the lock: the function may call others, and two threads may then wait for each other.
        name = f"trace {describe_function(self.function)}"
        with measured() as times, events.timed(name, "trace", reason=reason, line=user_line()):
            program, reusable = self._trace(given, args, kwargs)
        if times is not None:
            program.times = times
            for node, name in zip(program.compiled.inputs, given.names(), strict=False):
                node.arg.name = node.arg.name or name  # for what is printed
        with _lock:
            self._misses += 1
            self._last_miss = reason
            if reusable:
                more = [name for name in program.axis_names if name not in self._axis_names]
                if more:
                    self._axis_names = (*self._axis_names, *more)
                    key = (*key[:3], self._axis_sizes())
                self._cache[key] = program
                if len(self._cache) > self._most:
                    self._cache.popitem(last=False)
        return program

    def _axis_sizes(self) -> tuple[Any, ...]:
        """The sizes of the named axes on which traces have depended, as they are here; None for one that is not bound."""
        if not self._axis_names:
            return ()
        bound = bound_axes()
        return tuple([bound[name].size if name in bound else None for name in self._axis_names])

    def _trace(
        self, given: Arguments, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[TracedProgram, bool]:
        def rebuild(tracers: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            dynamic, named = given.rebuild(tracers)
            rest = iter(dynamic)
            positional = tuple(
                [arg if i in self.static_argnums else next(rest) for i, arg in enumerate(args)]
            )
            return positional, {**{k: v for k, v in kwargs.items() if k in self.static_argnames}, **named}

        with stage("trace"):
            traced = trace_function(self.function, "jit", given.arrays, rebuild, given.name)
        # A graph that closed over an outer function's tracers is good for this call only, and so is one that was traced
        # within the rules of a custom function, where that function is not what it is elsewhere.
        reusable = not traced_rules() and not any(
            isinstance(array, Tracer) for array in traced.graph.captured
        )
        donated = self._donated_leaves(args, kwargs)
        axis_names = tuple(traced.trace.axes_used)
        from .traced import TracedProgram  # with loops and all that a program needs

        return TracedProgram(traced.graph, traced.out_tree, traced.weak, donated, axis_names), reusable

    def _donated_leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
        """Which of the leaves of the traced arguments are donated."""
        if not self._donate_argnums and not self._donate_argnames:
            return ()
        each = [
            (i in self._donate_argnums, arg) for i, arg in enumerate(args) if i not in self.static_argnums
        ]
        each += [
            (name in self._donate_argnames, kwargs[name])
            for name in sorted(kwargs)
            if name not in self.static_argnames
        ]
        gives = [donate for donate, arg in each for _ in pytree.leaves(arg)]
        return tuple([i for i, donate in enumerate(gives) if donate])

    def _look_for_the_cause(
        self,
        program: TracedProgram,
        outputs: Sequence[Array],
        given: Arguments,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """If results have a NaN, trace the function again and run it one operation at a time, which raises where it is made."""
        found = {i: what for i, output in enumerate(outputs) if (what := finite.found_in(output.value))}
        if not found:
            return
        again = self._trace(given, args, kwargs)[0].graph  # whose nodes have their lines
        again.run([a.value for a in (*given.arrays, *again.captured)])
        name, (first, *_) = describe_function(self.function), found
        handed_on = {node: i for i, node in enumerate(again.arguments)}.get(again.outputs[first])
        if handed_on is not None:
            raise FloatingPointError(
                f"jit of {name}: the argument `{given.name(handed_on)}` has {found[first]}, and is a result as it is; "
                f"at {user_line()}: look where it was made"
            )
        tree = program.out_tree
        paths = pytree.flatten_with_path(pytree.unflatten(tree, range(tree.num_leaves)))[0]
        named = ", ".join(f"{what} in result{pytree.keystr(paths[i][0])}" for i, what in found.items())
        raise FloatingPointError(
            f"jit of {name} gave {named}, but none of its operations did so one by one; at {user_line()}"
        )

    def _explain(self, key: Any, given: Arguments) -> str:
        """The difference between a new signature and the one in the cache that is most like it."""
        name = describe_function(self.function)
        if not self._cache:
            return f"{name}: the first call{'' if self._misses else _again(self.function)}"
        tree, signature, static, axes = key

        def distance(other: Any) -> int:
            pairs = [*itertools.zip_longest(static, other[2]), *itertools.zip_longest(axes, other[3])]
            if other[0] == tree:
                pairs += zip(signature, other[1], strict=True)
                return sum([bool(a != b) for a, b in pairs])
            mine, others = Counter(signature), Counter(other[1])
            return (
                (mine - others).total() + (others - mine).total() + sum([bool(a != b) for a, b in pairs]) + 1
            )

        # Among the latest only, so that a miss costs the same however many there were.
        latest = list(itertools.islice(reversed(self._cache), _COMPARED))
        other_tree, other_signature, other_static, other_axes = min(latest, key=distance)
        if other_tree == tree:
            differences = [
                f"argument `{given.name(i)}`: {_described(b)} → {_described(a)}"
                f"{' (* is weak, as Python numbers are)' if a[:2] == b[:2] else ''}"
                for i, (a, b) in enumerate(zip(signature, other_signature, strict=True))
                if a != b
            ]
        else:
            differences = self._of_structures(other_tree, other_signature, tree, signature)
        before, after = self._by_name(other_static), self._by_name(static)
        for argument in [*before, *[name for name in after if name not in before]]:
            old, new = before.get(argument, _ABSENT), after.get(argument, _ABSENT)
            if old is _ABSENT or new is _ABSENT or old != new:
                differences.append(
                    f"static argument `{argument}`: {_spelled(old, new)} → {_spelled(new, old)}"
                )
        differences += [
            f"the size of the axis {axis!r}: {'not there' if b is None else b} → {'not there' if a is None else a}"
            for axis, a, b in itertools.zip_longest(self._axis_names, axes, other_axes)
            if a != b
        ]
        more = f"; and {len(differences) - _MOST_SHOWN} more" if len(differences) > _MOST_SHOWN else ""
        how = (
            "; ".join(differences[:_MOST_SHOWN])
            or "a static argument is passed by position and not by name, or the reverse"
        )
        return f"{name}: {how}{more}"

    def _by_name(self, static: Sequence[tuple[int | str, _Static]]) -> dict[str, _Static]:
        names = [positional_name(self.function, key) if isinstance(key, int) else key for key, _ in static]
        return dict(zip(names, [value for _, value in static], strict=True))

    def _of_structures(
        self, old_tree: Any, old: Sequence[Any], new_tree: Any, new: Sequence[Any]
    ) -> list[str]:
        """How arguments of another structure differ from earlier ones: which have gone, which are new, and what has changed."""
        names: list[dict[str, Any]] = []
        roots: list[dict[str, Any]] = []
        for tree, avals in ((old_tree, old), (new_tree, new)):
            args, kwargs = pytree.unflatten(tree, range(tree.num_leaves))
            positions = list(
                itertools.islice((i for i in itertools.count() if i not in self.static_argnums), len(args))
            )
            names.append(
                dict(zip(argument_names(self.function, args, kwargs, positions), avals, strict=True))
            )
            by_name = {
                positional_name(self.function, i): arg for i, arg in zip(positions, args, strict=True)
            } | kwargs
            roots.append({key: pytree.structure(value) for key, value in by_name.items()})
        before, after = names
        differences = []
        for argument in dict.fromkeys([*before, *after]):
            a, b = before.get(argument), after.get(argument)
            if a != b:
                differences.append(f"argument `{argument}`: {_described(a)} → {_described(b)}")
        for root, a in roots[0].items():
            b = roots[1].get(root, a)
            if a != b and not any(f"`{root}" in difference for difference in differences):
                differences.append(f"argument `{root}`: {pytree.spelled(a)} → {pytree.spelled(b)}")
        return differences or [
            f"how arguments are passed: {pytree.spelled(old_tree)} → {pytree.spelled(new_tree)}"
        ]


_MOST_SHOWN = 5
_ABSENT: Any = object()


def _described(aval: Any) -> str:
    """An entry of a signature, or None for none."""
    return "not there" if aval is None else dtypes.describe(aval[1], aval[0], aval[2])


def _spelled(static: Any, other: Any) -> str:
    """A static argument's value in a reason; functions are told apart by where they are defined."""
    if static is _ABSENT:
        return "not given"
    value = static.value
    code = getattr(value, "__code__", None)
    if code is not None:
        same = getattr(getattr(other, "value", None), "__code__", None) is code
        again = "another one of " if same and static is not other else ""
        return f"{again}{value.__name__} ({code.co_filename}:{code.co_firstlineno})"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# How many functions were jitted from each definition.
_definitions: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def _again(function: Callable[..., Any]) -> str:
    """What to say of a function that is called for the first time, while others of the same definition were called before."""
    code = code_of(function)
    if code is None:
        return ""
    before = _definitions.get(code, 0)
    _definitions[code] = before + 1
    if not before:
        return ""
    return (
        f" of a new function, of the definition at {code.co_filename}:{code.co_firstlineno} that was traced {before} time"
        f"{'' if before == 1 else 's'} before: make and jit the function once, outside of the loop or function that makes it"
    )


class _Static:
    """A static argument in a key, with the hash that it had: an object that was changed since is another argument."""

    __slots__ = ("exact", "hash", "value")

    def __init__(self, value: Any):
        self.hash = hash(value)
        self.value = value
        self.exact = _exactly(value)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Static)
            and (self.hash, self.exact) == (other.hash, other.exact)
            and bool(self.value == other.value)
        )

    def __repr__(self) -> str:
        return repr(self.value)


def _exactly(value: Any) -> Any:
    """What tells apart static values that are equal but that a function may treat differently: 1, 1.0 and True, 0.0 and -0.0."""
    if isinstance(value, tuple):
        return type(value), tuple([_exactly(v) for v in value])
    return type(value), str(value) if isinstance(value, (float, complex)) else None


def clear_caches() -> None:
    """Forget all that jitted functions were traced to, so that they are traced again when they are called next.

    >>> f = tinyfn.jit(lambda x: x + 1)
    >>> f(1.0)
    Array(2., dtype=float32)
    >>> f.cache_info().size
    1
    >>> tinyfn.clear_caches()
    >>> f.cache_info().size
    0
    """
    for jitted in list(_jitted):
        jitted.clear_cache()


def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    inline: bool = False,
    device: str | None = None,
    backend: str | None = None,
    compiler_options: Mapping[str, Any] | None = None,
    cache_size: int = DEFAULT_CACHE_SIZE,
) -> Any:
    """The function, traced once for each signature of its arguments; also a decorator, with or without options.

    Static arguments are Python values, which must be hashable: the function is traced for each. Donated arguments can't
    be used after the call, which may reuse their memory. Positions and names each imply the other. Raises ValueError for those
    that the function has not.

    These options of other libraries change nothing here: `keep_unused`, since arguments that are not used cost nothing; and
    `inline`, since jitted functions that another one calls are inlined in its program. `device` and `backend` may be "cpu", where
    functions run (`devices.set_default_device` chooses another for all of them). Compiler options are refused: there are none.

    >>> @tinyfn.jit
    ... def normalized(x):
    ...     return x / tnp.sum(x)
    >>> normalized(tnp.array([1.0, 3.0]))
    Array([0.25, 0.75], dtype=float32)

    A Python value that the code branches on is static, and traced for each value:

    >>> @tinyfn.jit(static_argnames="power")
    ... def scaled(x, power=1):
    ...     return x**power if power > 1 else x
    >>> scaled(tnp.array([1.0, 2.0]), power=2)
    Array([1., 4.], dtype=float32)

    A donated array is gone:

    >>> x = tnp.zeros(3)
    >>> tinyfn.jit(lambda x: x + 1, donate_argnums=0)(x), x.is_deleted()
    (Array([1., 1., 1.], dtype=float32), True)
    """
    for what, place in (("device", device), ("backend", backend)):
        if place not in (None, "cpu"):
            raise ValueError(
                f"jit: there is no {what} {place!r} to choose for one function; at {user_line()}: choose for all of them with "
                "tinyfn.devices.set_default_device or TINYFN_DEVICE"
            )
    if compiler_options:
        raise ValueError(
            f"jit: there are no compiler options {', '.join(map(repr, compiler_options))}; at {user_line()}: leave "
            "compiler_options out"
        )
    if function is None:
        return entry_point(
            lambda f: jit(
                f,
                static_argnums=static_argnums,
                static_argnames=static_argnames,
                donate_argnums=donate_argnums,
                donate_argnames=donate_argnames,
                cache_size=cache_size,
            ),
            "jit",
        )
    check_function("jit", function)
    static = marked_arguments("jit", "static", function, static_argnums, static_argnames)
    donate = marked_arguments("jit", "donate", function, donate_argnums, donate_argnames)
    if static[0] & donate[0] or static[1] & donate[1]:
        raise ValueError(
            f"jit of {describe_function(function)}: an argument can't be both static and donated; at {user_line()}"
        )
    return Jitted(function, static, donate, cache_size)
