"""custom_vmap: a function that brings its own batching rule.

A call in a trace leaves a node with the function's graph and the rule (see `batching_rules`). The rule is traced when a vmap
meets the node, since only then it is known how many lanes there are, and which arguments differ from lane to lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import pytree
from ..trace.array import Array, as_array
from ..trace.errors import entry_methods, entry_point, user_line
from ..trace.graph import Graph
from ..trace.prim import Aval
from ..trace.tracing import Closed, Tracer, current_trace, identity, trace_function
from .arguments import Arguments, argument_names, check_function
from .batching_rules import Flags, Rule, custom_vmap_call
from .closures import with_closure
from .custom import Custom
from .structured import BatchAxis


class UserRule(Rule):
    """The rule that was given to a function, for one call of it."""

    def __init__(
        self,
        rule: Callable[..., Any],
        label: str,
        given: Arguments,
        graph: Graph,
        out_tree: Any,
        captured: Sequence[Array],
    ):
        count = len(given.arrays)
        super().__init__((False,) * count + (True,) * len(captured))
        # Without the arguments themselves: a tracer holds its trace, and with it all that was computed there.
        self._rule, self._label, self._tree = rule, label, given.tree
        self._arguments = [Aval(a.dtype, a.shape) for a in given.arrays]
        self._results = [Aval(node.dtype, node.shape) for node in graph.outputs]
        self._out_tree = out_tree
        self._closure = [
            Closed(identity(a), Aval(a.dtype, a.shape), None if isinstance(a, Tracer) else a)
            for a in captured
        ]

    def _make(self, axis: BatchAxis, batched: Flags) -> tuple[Graph, Flags]:
        what = f"the vmap rule of {self._label}"
        flags = list(batched[: len(self._arguments)])
        if any(batched[len(flags) :]):
            raise TypeError(
                f"vmap of the custom_vmap function {self._label}: it closes over an array that differs from lane to lane, of "
                f"which its rule does not know; at {user_line()}: pass the array as an argument"
            )
        avals = [
            Aval(a.dtype, (axis.size, *a.shape) if flag else a.shape)
            for a, flag in zip(self._arguments, flags, strict=True)
        ]
        out_flags: list[bool] = []

        def name(index: int) -> str:
            args = pytree.unflatten(self._tree, range(len(flags)))[0]
            return argument_names(self._rule, args, {}, range(2, 2 + len(args)))[index]

        def run(*args: Any) -> Any:
            in_batched = list(pytree.unflatten(self._tree, flags)[0])
            pair = self._rule(axis.size, in_batched, *args)
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(
                    f"{what} must return a pair (results, which of them are batched), not {type(pair).__name__}; at {user_line()}"
                )
            leaves, tree = pytree.flatten(pair[0])
            if tree != self._out_tree:
                raise TypeError(
                    f"{what} returned {pytree.spelled(tree)}, but the function returns {pytree.spelled(self._out_tree)}; "
                    f"at {user_line()}"
                )
            try:
                out_flags[:] = pytree.broadcast_prefix(pair[1], pair[0])
            except ValueError as error:
                raise TypeError(
                    f"{what}: which results are batched does not fit the results: {error}; at {user_line()}"
                ) from None
            return self._checked(what, axis, leaves, out_flags)

        run.__name__, run.__wrapped__ = getattr(self._rule, "__name__", "rule"), self._rule  # type: ignore[attr-defined]
        traced = trace_function(
            run,
            "custom_vmap",
            avals,
            lambda tracers: pytree.unflatten(self._tree, tracers),
            name,
            closure=self._closure,
        )
        known = {c.key for c in self._closure}
        if any(isinstance(a, Tracer) and key not in known for key, (_, a) in traced.trace.captured.items()):
            raise TypeError(
                f"{what} closes over a traced array which the function itself does not use; at {user_line()}: pass the array "
                "as an argument of the function"
            )
        return with_closure(traced, self._closure), tuple(out_flags)

    def _checked(
        self, what: str, axis: BatchAxis, leaves: Sequence[Any], flags: Sequence[Any]
    ) -> list[Array]:
        results = []
        for i, (leaf, flag, aval) in enumerate(zip(leaves, flags, self._results, strict=True)):
            if not isinstance(flag, (bool, np.bool_)):
                raise TypeError(
                    f"{what} must say of each result by True or False whether it is batched, not by {flag!r}; at {user_line()}"
                )
            array = as_array(leaf)
            shape = (axis.size, *aval.shape) if flag else aval.shape
            if array.shape != shape or array.dtype is not aval.dtype:
                found, expected = (
                    dtypes.describe(array.dtype, array.shape),
                    dtypes.describe(aval.dtype, shape),
                )
                raise TypeError(
                    f"{what}: result {i} is {found}, but {'batched' if flag else 'not batched'} it must be {expected}, as the "
                    f"function gives {dtypes.describe(aval.dtype, aval.shape)}; at {user_line()}"
                )
            results.append(array)
        return results


class custom_vmap(Custom):
    """A function with a batching rule of its own: decorate it, then give the rule with `def_vmap`.

    The rule takes the number of lanes; a list with a bool for each argument, or a tree of bools for one that is a tree, that say
    which have a leading axis for the lanes; and the arguments. It returns the results, and of each (a tree, or one bool for all)
    whether it has the axis. Derivatives under vmap, in both modes, are those of what the rule computes.

    >>> @tinyfn.custom_batching.custom_vmap
    ... def f(x, w):
    ...     return x * w
    >>> @f.def_vmap
    ... def rule(axis_size, in_batched, x, w):
    ...     print(axis_size, in_batched)
    ...     return x * w, True
    >>> tinyfn.vmap(f, in_axes=(0, None))(tnp.array([1.0, 2.0]), 3.0)
    2 [True, False]
    Array([3., 6.], dtype=float32)
    """

    kind = "custom_vmap"
    _rule: Callable[..., Any] | None = None

    def __init__(self, function: Callable[..., Any]):
        super().__init__(function)

    def def_vmap(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule; can be used as a decorator."""
        check_function("def_vmap", rule)
        self._rule = rule
        return rule

    @entry_point
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if current_trace() is None:
            return self.function(*args, **kwargs)
        if self._rule is None:
            raise TypeError(
                f"custom_vmap function {self.__name__} has no rule yet: give it one with {self.__name__}.def_vmap; "
                f"at {user_line()}"
            )
        args, _ = self._resolve(args, kwargs)
        given = Arguments("custom_vmap", self.function, args, {})
        primal = trace_function(
            self.function, "custom_vmap", given.arrays, given.rebuild, given.name, given.arrays
        )
        captured = primal.graph.captured
        graph = Graph(primal.graph.inputs, primal.graph.outputs, name=primal.graph.name)
        rule = UserRule(self._rule, self.__name__, given, graph, primal.out_tree, captured)
        results = custom_vmap_call(*given.arrays, *captured, graph=graph, rule=rule, label=self.__name__)
        for array, weak in zip(results, primal.weak, strict=True):
            array.weak_type = weak
        return pytree.unflatten(primal.out_tree, results)


entry_methods(custom_vmap, "__init__", "def_vmap")
