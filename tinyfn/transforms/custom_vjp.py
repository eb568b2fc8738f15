"""custom_vjp and custom_gradient: functions that bring their own reverse mode."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..trace import dtype as dtypes
from ..trace import prims, pytree
from ..trace.array import as_array
from ..trace.errors import entry_methods, entry_point, user_line
from ..trace.operators import full
from ..trace.prim import Aval
from ..trace.pytree_nodes import Partial
from ..trace.tracing import Traced, current_trace, describe_function, trace_function
from .arguments import Arguments, check_function, tree_names
from .closures import converted, with_closure
from .custom import Custom, SymbolicZero, matching, one_at_a_time, results_of, with_zeros
from .custom_ops import NO_ZEROS, custom_vjp_call


class CustomVJPPrimal:
    """What a forward rule with `symbolic_zeros` gets for each array: its `value`, and whether it is `perturbed`, that is
    differentiated. It is a leaf of trees.

    >>> @tinyfn.custom_vjp
    ... def product(x, y):
    ...     return x * y
    >>> def forward(x, y):  # keeps what the derivatives that are asked for need
    ...     kept = (y.value if x.perturbed else None), (x.value if y.perturbed else None)
    ...     return x.value * y.value, kept
    >>> def backward(kept, ct):
    ...     return tuple(None if other is None else ct * other for other in kept)
    >>> product.defvjp(forward, backward, symbolic_zeros=True)
    >>> tinyfn.grad(product)(2.0, 3.0)
    Array(3., dtype=float32)
    """

    __slots__ = ("perturbed", "value")

    def __init__(self, value: Any, perturbed: bool):
        self.value, self.perturbed = value, perturbed

    def __repr__(self) -> str:
        return f"CustomVJPPrimal({self.value!r}, perturbed={self.perturbed})"


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """A tree of CustomVJPPrimal objects with the value of each in its place.

    >>> from tinyfn.custom_derivatives import CustomVJPPrimal, custom_vjp_primal_tree_values
    >>> custom_vjp_primal_tree_values({"w": CustomVJPPrimal(2.0, True)})
    {'w': 2.0}
    """
    return pytree.map(lambda leaf: leaf.value if isinstance(leaf, CustomVJPPrimal) else leaf, tree)


class custom_vjp(Custom):
    """A function with a reverse mode of its own: decorate it, then give the rules with `defvjp(forward, backward)`.

    forward(*args) returns (value, residuals); backward(residuals, cotangent), preceded by the arguments listed in
    `nondiff_argnums`, returns a tuple with the cotangent of each differentiated argument (None for zero).

    >>> @tinyfn.custom_vjp
    ... def clipped(x, limit):
    ...     return x
    >>> def forward(x, limit):
    ...     return x, limit
    >>> def backward(limit, ct):
    ...     return tnp.clip(ct, -limit, limit), None
    >>> clipped.defvjp(forward, backward)
    >>> tinyfn.grad(lambda x: 5 * clipped(x, 1.0))(2.0)
    Array(1., dtype=float32)
    """

    kind = "custom_vjp"
    _rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def defvjp(
        self,
        forward: Callable[..., Any],
        backward: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the rules. `optimize_remat` changes nothing: a checkpoint computes of a rule's graph what is needed in any case.

        With `symbolic_zeros` the forward rule gets, in the place of each array, an object with its `value` and whether it is
        `perturbed`: differentiated, that is. The backward rule gets SymbolicZero objects in the place of those cotangents
        that are zero for certain. The rules are then traced for each choice of them."""
        check_function("defvjp", forward, " as the forward rule")
        check_function("defvjp", backward, " as the backward rule")
        self._rules, self.symbolic_zeros = (forward, backward), symbolic_zeros

    @entry_point
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        trace = current_trace()
        if trace is None or self._stays_plain():
            return self.function(*args, **kwargs)
        if self._rules is None:
            raise TypeError(
                f"custom_vjp function {self.__name__} has no rules yet: give them with {self.__name__}.defvjp; at {user_line()}"
            )
        forward, backward = self._rules
        args, positions = self._resolve(args, kwargs)
        nondiff = {i: args[i] for i in positions}
        given = Arguments(
            "custom_vjp", self.function, [a for i, a in enumerate(args) if i not in nondiff], {}
        )

        def call(*diff: Any) -> Any:
            return self.function(*self._merge(nondiff, diff))

        def call_forward(*diff: Any) -> Any:
            pair = forward(*self._merge(nondiff, diff))
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(
                    f"the forward rule of {self.__name__} must return a pair (value, residuals), not "
                    f"{type(pair).__name__}; at {user_line()}"
                )
            value = matching(
                f"the forward rule of {self.__name__} returned a value",
                primal.out_tree,
                primal.graph.outputs,
                pair[0],
                every=True,
            )
            leaves, tree[0] = pytree.flatten(pair[1])
            return value, leaves

        tree: list[Any] = [None]
        call.__name__, call_forward.__name__ = self.__name__, f"forward_{self.__name__}"
        call.__wrapped__, call_forward.__wrapped__ = self.function, forward  # type: ignore[attr-defined]
        primal = trace_function(call, "custom_vjp", given.arrays, given.rebuild, given.name, given.arrays)
        if not self._has_derivative(given, primal):
            return self.function(*args)
        inexact = [node for node in primal.graph.outputs if dtypes.is_inexact(node.dtype)]

        def call_backward(residual: Any, cotangent: Any) -> Any:
            cts = backward(*nondiff.values(), residual, cotangent)
            if isinstance(cts, list):
                cts = tuple(cts)
            return self._checked_cotangents(given, cts)

        call_backward.__name__ = f"backward_{self.__name__}"
        call_backward.__wrapped__ = backward  # type: ignore[attr-defined]

        def trace_rules(calls: Any, zeros: Any) -> list[Traced]:
            needs, cts_given = zeros if isinstance(zeros, tuple) else (zeros, zeros)

            def rebuild_forward(leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
                args, kwargs = given.rebuild(leaves)
                if self.symbolic_zeros:
                    flags = iter(_perturbed(given, needs))
                    args = pytree.map(lambda leaf: CustomVJPPrimal(leaf, next(flags)), args)
                return args, kwargs

            traced_forward = self._trace_rule(
                call_forward, given.arrays, rebuild_forward, calls, given.name, given.arrays
            )
            residuals = traced_forward.graph.outputs[len(primal.graph.outputs) :]

            def rebuild(leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
                cts = with_zeros(
                    leaves[len(residuals) :], primal.graph.outputs, cts_given, self.symbolic_zeros
                )
                return (
                    pytree.unflatten(tree[0], leaves[: len(residuals)]),
                    pytree.unflatten(primal.out_tree, cts),
                ), {}

            def name(index: int) -> str:
                if index < len(residuals):
                    return tree_names(backward, len(nondiff), tree[0])[index]
                cts = zip(
                    tree_names(backward, len(nondiff) + 1, primal.out_tree), primal.graph.outputs, strict=True
                )
                return [ct for ct, node in cts if dtypes.is_inexact(node.dtype)][index - len(residuals)]

            avals = [Aval(node.dtype, node.shape) for node in (*residuals, *inexact)]
            return [traced_forward, self._trace_rule(call_backward, avals, rebuild, calls, name)]

        outputs = primal.graph.outputs
        choices = [
            NO_ZEROS,
            *[(needs, (True,) * len(outputs)) for needs in one_at_a_time(given.arrays)],
            *[((True,) * len(given.arrays), cts) for cts in one_at_a_time(outputs)],
        ]
        closure, rules = self._close(primal, list(nondiff.values()), trace_rules, choices)
        nodes = custom_vjp_call.apply(
            *self._lifted(given.arrays, closure),
            graph=with_closure(primal, closure), rules=rules, count=len(given.arrays), label=self.__name__,
        )  # fmt: skip
        return results_of(primal, nodes)

    def _checked_cotangents(self, given: Arguments, cts: Any) -> list[Any]:
        """One cotangent for each inexact leaf of the arguments; None stands for zeros of a whole argument."""
        what = f"the backward rule of {self.__name__}"
        args, _ = given.rebuild(list(given.arrays))
        if not isinstance(cts, tuple) or len(cts) != len(args):
            found = f"{len(cts)} results" if isinstance(cts, tuple) else type(cts).__name__
            raise TypeError(
                f"{what} must return a tuple with one cotangent for each of its {len(args)} differentiated arguments, "
                f"not {found}; at {user_line()}"
            )
        result = []
        for position, (arg, ct) in enumerate(zip(args, cts, strict=True)):
            leaves, tree = pytree.flatten(arg, is_leaf=lambda x: x is None)
            found_leaves, found_tree = pytree.flatten(ct, is_leaf=lambda x: x is None)
            if ct is None:
                found_leaves, found_tree = [None] * len(leaves), tree
            if found_tree != tree:
                raise TypeError(
                    f"{what}: the cotangent of argument {position} has the structure "
                    f"{pytree.spelled(pytree.structure(ct))}, but the argument has "
                    f"{pytree.spelled(pytree.structure(arg))}; at {user_line()}"
                )
            for leaf, found in zip(leaves, found_leaves, strict=True):
                if leaf is None or not dtypes.is_inexact(leaf.dtype):
                    continue
                if found is None or isinstance(found, SymbolicZero):
                    result.append(full(0, leaf.dtype, leaf.shape))
                    continue
                array = as_array(found)
                if array.shape != leaf.shape:
                    given_as, expected = (dtypes.describe(a.dtype, a.shape) for a in (array, leaf))
                    raise TypeError(
                        f"{what}: the cotangent of argument {position} is {given_as}, but the argument is {expected}; "
                        f"at {user_line()}"
                    )
                result.append(array if array.dtype is leaf.dtype else prims.convert(array, dtype=leaf.dtype))
        return result


def _perturbed(given: Arguments, needs: Any) -> list[bool]:
    """Which of the arguments' arrays are differentiated."""
    return [
        dtypes.is_inexact(a.dtype) and (needs == NO_ZEROS or needs[i]) for i, a in enumerate(given.arrays)
    ]


def custom_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with a reverse mode of its own, which it returns: (value, rule), where rule(cotangent) gives the cotangents
    of the positional arguments, as a tuple if there are several.

    The rule may close over what the function computes. `custom_vjp` says the same with two functions.

    >>> @tinyfn.custom_gradient
    ... def clipped(x):
    ...     return x, lambda ct: tnp.clip(ct, -1, 1)
    >>> tinyfn.grad(lambda x: 5 * clipped(x))(2.0)
    Array(1., dtype=float32)
    """

    def pair(args: Any, kwargs: Any) -> tuple[Any, Any]:
        result = function(*args, **kwargs)
        if not isinstance(result, tuple) or len(result) != 2 or not callable(result[1]):
            raise TypeError(
                f"custom_gradient of {describe_function(function)}: it must return a pair (value, rule); at {user_line()}"
            )
        return result

    def value(args: Any, kwargs: Any) -> Any:
        return pair(args, kwargs)[0]

    def forward(args: Any, kwargs: Any) -> Any:
        trace = current_trace()
        result, rule = pair(args, kwargs)
        # The tracers of this trace are not there any more when the rule runs.
        call, kept, _ = converted(rule, (result,), lambda a: a.context is trace)
        return result, Partial(lambda *found: call(found[-1], *found[:-1]), *kept)

    def backward(rule: Any, cotangent: Any) -> Any:
        cts = rule(cotangent)
        return cts if isinstance(cts, tuple) else (cts,), None

    check_function("custom_gradient", function)
    value.__name__ = describe_function(function)
    custom = custom_vjp(value)
    custom.defvjp(forward, backward)

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return custom(args, kwargs)

    return wrapped


entry_methods(custom_vjp, "defvjp")
