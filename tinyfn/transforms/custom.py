"""custom_jvp and custom_vjp: functions that bring their own derivative.

When such a function is called in a trace, the function and its rules are traced at once, so that whatever they close over
becomes an argument of the node (see `custom_ops`).

A rule may call the function itself (`y = f(x); return y, t * (1 - y * y)`). Tracing the rules of that call at once would
never end, so they are traced when a further derivative first asks for them. What they close over must be known before:
it is what the outer call closes over, found by tracing the rules a first time with the plain function in such calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

from ..trace import dtype as dtypes
from ..trace import prims, pytree
from ..trace.array import Array, as_array
from ..trace.errors import entry_methods, user_line
from ..trace.graph import Graph
from ..trace.operators import full
from ..trace.tracing import (
    Closed,
    Traced,
    Tracer,
    bound_axes,
    current_trace,
    describe_function,
    trace_function,
    traced_rules,
    tracer,
    tracing_rules,
)
from ..trace.uop import UOp
from .arguments import Arguments, as_tuple, check_function, normalize_positions, stand_in, with_float0
from .closures import union, with_closure
from .custom_ops import NO_ZEROS, Rules, RulesByZeros


class Custom:
    """What custom_jvp and custom_vjp share: arguments, and those that are not differentiated."""

    kind = ""
    symbolic_zeros = False  # whether the rules are told which (co)tangents are zero
    closure_is_constant = (
        False  # whether what is closed over has no derivative, rather than being forbidden to have one
    )

    def __init__(
        self,
        function: Callable[..., Any],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ):
        check_function(self.kind, function)
        stand_in(self, function)
        self.function = function
        self.nondiff_argnums = as_tuple(nondiff_argnums)
        self.nondiff_argnames = as_tuple(nondiff_argnames)
        self.__name__ = describe_function(function)

    def _resolve(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """All arguments by position, with defaults filled in, and the positions that are not differentiated."""
        import inspect  # here, because it takes as long to import as half of this package

        signature = inspect.signature(self.function)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                f"{self.kind} function {self.__name__} can't have keyword-only arguments: "
                f"{', '.join(bound.kwargs)}; at {user_line()}"
            )
        return bound.args, self._nondiff_positions(len(bound.args))

    def _nondiff_positions(self, count: int) -> tuple[int, ...]:
        """The positions among `count` arguments that are not differentiated, in the order in which they were listed."""
        import inspect

        parameters = list(inspect.signature(self.function).parameters)
        unknown = [name for name in self.nondiff_argnames if name not in parameters]
        if unknown:
            raise ValueError(
                f"nondiff_argnames of {self.__name__} has {', '.join(map(repr, unknown))}, but its parameters are "
                f"{', '.join(parameters)}; at {user_line()}"
            )
        named = tuple([parameters.index(name) for name in self.nondiff_argnames])
        return normalize_positions("nondiff_argnums", self.function, (*self.nondiff_argnums, *named), count)

    def _merge(self, nondiff: dict[int, Any], diff: Sequence[Any]) -> list[Any]:
        """All arguments by position, of those that are not differentiated, by their positions, and the others in order."""
        rest = iter(diff)
        return [nondiff[i] if i in nondiff else next(rest) for i in range(len(nondiff) + len(diff))]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return partial(cast("Callable[..., Any]", self), instance)

    def _stays_plain(self) -> bool:
        """Whether this is a call from the function's own rules in their first run."""
        found = traced_rules().get(self)
        if isinstance(found, _FirstRun):
            found.called = True
        return isinstance(found, _FirstRun)

    def _has_derivative(self, given: Arguments, primal: Traced) -> bool:
        """Whether there are floats that the function depends on: else its rules, which may not fit integers, say nothing."""
        return any(dtypes.is_inexact(a.dtype) for a in (*given.arrays, *primal.graph.captured))

    def _trace_rule(
        self,
        rule: Callable[..., Any],
        arguments: Sequence[Any],
        rebuild: Any,
        calls: Any,
        namer: Callable[[int], str],
        known: Any = None,
    ) -> Traced:
        """The graph of a rule, in which calls of the function itself are treated as `calls` says.

        That is a _FirstRun, or what such calls close over; with _Late it is traced after the function that called it."""
        late = isinstance(calls, _Late)

        def run(*args: Any) -> Any:
            trace = current_trace()
            assert trace is not None
            own = (
                [
                    c._replace(array=tracer(trace, trace.captured[c.key][0])) if c.array is None else c
                    for c in calls
                ]
                if late
                else calls
            )
            with tracing_rules({**({} if late else traced_rules()), self: own}):
                return rule(*args)

        run.__name__, run.__wrapped__ = rule.__name__, rule  # type: ignore[attr-defined]
        return trace_function(
            run, self.kind, arguments, rebuild, namer, None if late else known, calls if late else (),
            calls.axes if late else None,
        )  # fmt: skip

    def _close(
        self,
        primal: Traced,
        nondiff: Sequence[Any],
        trace_rules: Callable[[Any, Any], Sequence[Traced]],
        choices: Sequence[Any],
    ) -> tuple[list[Closed], Rules]:
        """What function and rules close over, and the rules, which take that after their other inputs.

        `trace_rules(calls, zeros)` traces the rules; `zeros` says which (co)tangents are zero (see `Rules`). `choices` are some
        such, in which each (co)tangent is not zero once."""
        captured = primal.graph.captured
        own = traced_rules().get(self)
        if own is not None:  # a call from the function's own rules
            arrays = [x for x in pytree.leaves(list(nondiff)) if isinstance(x, Array)]
            closure = union(own, captured, arrays)
            return closure, self._late_rules(closure, trace_rules, is_late=True)
        first = _FirstRun()
        if self.symbolic_zeros:
            # What they close over may depend on which are zero: this is what they do where one alone is not, or none is.
            # A rule may refuse some of these; it is asked again for those that are needed.
            found: list[Traced] = []
            for zeros in choices:
                with suppress(Exception):
                    found += trace_rules(first, zeros)
            closure = union([], captured, *[t.graph.captured for t in found])
            return closure, self._late_rules(closure, trace_rules)
        traced = trace_rules(first, NO_ZEROS)
        if first.called:
            traced = trace_rules(union([], captured, *[t.graph.captured for t in traced]), NO_ZEROS)
        closure = union([], captured, *[t.graph.captured for t in traced])
        graphs = tuple([with_closure(t, closure) for t in traced])
        names = frozenset().union(*[graph.axis_names for graph in graphs])
        return closure, Rules(lambda: graphs, axis_names=names)

    def _late_rules(
        self,
        closure: Sequence[Closed],
        trace_rules: Callable[[Any, Any], Sequence[Traced]],
        is_late: bool = False,
    ) -> Rules:
        """Rules that are traced after what called them: without the tracers that are closed over, since these hold their traces,
        and with them all that was computed there."""
        late = _Late([c._replace(array=None) if isinstance(c.array, Tracer) else c for c in closure])

        def make(zeros: Any = NO_ZEROS) -> tuple[Graph, ...]:
            return tuple([with_closure(traced, late) for traced in trace_rules(late, zeros)])

        return (RulesByZeros if self.symbolic_zeros else Rules)(make, is_late, frozenset(late.axes))

    def _lifted(self, arrays: Sequence[Any], closure: Sequence[Closed]) -> list[UOp]:
        """The nodes of a call's arguments, and of what is closed over, in the active trace."""
        trace = current_trace()
        assert trace is not None
        nodes = [trace.lift(c.array) for c in closure if c.array is not None]
        if self.closure_is_constant:
            nodes = [prims.stop_gradient.node(node) for node in nodes]
        return [*[trace.lift(a) for a in arrays], *nodes]


class _FirstRun:
    """The first run of a function's rules, in which calls of the function itself are the plain function's."""

    called = False


class _Late(list[Closed]):
    """What rules close over that are traced when the function which called them has ended, and the named axes there."""

    def __init__(self, closure: Sequence[Closed]):
        super().__init__(closure)
        self.axes = {name: axis.size for name, axis in bound_axes().items()}


def results_of(traced: Traced, nodes: Sequence[UOp]) -> Any:
    """The function's result, made of the nodes that a node of the active trace gives in its place."""
    trace = current_trace()
    assert trace is not None
    return pytree.unflatten(
        traced.out_tree, [tracer(trace, node, weak) for node, weak in zip(nodes, traced.weak, strict=True)]
    )


def one_at_a_time(likes: Sequence[Any]) -> list[tuple[bool, ...]]:
    """For each of `likes` that is inexact, the choice of zeros in which it alone is not zero."""
    return [
        tuple([i == j for j in range(len(likes))])
        for i, like in enumerate(likes)
        if dtypes.is_inexact(like.dtype)
    ]


class SymbolicZero:
    """A (co)tangent that is zero, of the shape and dtype of what it belongs to: for rules with `symbolic_zeros`.

    >>> from tinyfn.custom_derivatives import SymbolicZero
    >>> @tinyfn.custom_jvp
    ... def product(x, y):
    ...     return x * y
    >>> def rule(primals, tangents):
    ...     (x, y), (tx, ty) = primals, tangents
    ...     terms = [t * other for t, other in ((tx, y), (ty, x)) if not isinstance(t, SymbolicZero)]
    ...     return x * y, sum(terms)
    >>> _ = product.defjvp(rule, symbolic_zeros=True)
    >>> tinyfn.grad(product)(2.0, 3.0)
    Array(3., dtype=float32)
    >>> SymbolicZero("float32", (2, 3)).ndim
    2
    """

    __slots__ = ("dtype", "shape")

    def __init__(self, dtype: Any, shape: tuple[Any, ...]):
        self.dtype = dtype if dtypes.is_inexact(dtype) else dtypes.float0
        self.shape = shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"SymbolicZero({dtypes.describe(self.dtype, self.shape)})"


def with_zeros(found: Sequence[Any], likes: Sequence[Any], zeros: Any, symbolic: bool) -> list[Any]:
    """For each of `likes` a (co)tangent for a rule: those found, in the order of the inexact ones, or a symbolic zero.

    `zeros` has for each of `likes` whether it is not zero; or it is NO_ZEROS."""
    if not symbolic:
        return with_float0(found, likes)
    rest = iter(found)
    result = []
    for i, like in enumerate(likes):
        inexact = dtypes.is_inexact(like.dtype)
        given = next(rest) if inexact else None
        is_zero = not inexact or (zeros != NO_ZEROS and not zeros[i])
        result.append(SymbolicZero(like.dtype, like.shape) if is_zero else given)
    return result


def matching(what: str, tree: Any, nodes: Sequence[UOp], value: Any, every: bool = False) -> list[Any]:
    """The leaves of a rule's result, which must match the function's own; only the inexact ones unless `every`."""
    leaves, found_tree = pytree.flatten(value)
    if found_tree != tree:
        raise TypeError(
            f"{what} with the structure {pytree.spelled(found_tree)}, but the function's value has "
            f"{pytree.spelled(tree)}; at {user_line()}"
        )
    result = []
    for leaf, node in zip(leaves, nodes, strict=True):
        if not every and not dtypes.is_inexact(node.dtype):
            continue
        if isinstance(leaf, SymbolicZero):
            result.append(full(0, node.dtype, node.shape))
            continue
        array = as_array(leaf)
        if array.shape != node.shape:
            found, expected = (
                dtypes.describe(array.dtype, array.shape),
                dtypes.describe(node.dtype, node.shape),
            )
            raise TypeError(f"{what} {found}, but the function's value is {expected}; at {user_line()}")
        result.append(array if array.dtype is node.dtype else prims.convert(array, dtype=node.dtype))
    return result


entry_methods(Custom, "__init__")
