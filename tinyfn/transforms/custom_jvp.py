"""custom_jvp: functions that bring their own forward mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..trace import dtype as dtypes
from ..trace import pytree
from ..trace.errors import entry_methods, entry_point, user_line
from ..trace.prim import Aval
from ..trace.tracing import Traced, current_trace, trace_function
from .arguments import Arguments, check_function, tree_names
from .closures import with_closure
from .custom import Custom, matching, one_at_a_time, results_of, with_zeros
from .custom_ops import NO_ZEROS, custom_jvp_call


class custom_jvp(Custom):
    """A function with a derivative of its own: decorate it, then give the rule with `defjvp`.

    The rule takes (primals, tangents), preceded by the arguments listed in `nondiff_argnums`, and returns (value,
    tangent of the value). It must be linear in the tangents; reverse mode follows from it. Rules of single arguments
    can be given with `defjvps`.

    >>> @tinyfn.custom_jvp
    ... def softplus(x):
    ...     return tnp.log(1 + tnp.exp(x))
    >>> @softplus.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return softplus(x), t * nn.sigmoid(x)
    >>> tinyfn.grad(softplus)(0.0), tinyfn.grad(softplus)(1000.0)
    (Array(0.5, dtype=float32), Array(1., dtype=float32))
    """

    kind = "custom_jvp"
    _rule: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule; can be used as a decorator.

        With `symbolic_zeros` those tangents that are zero for certain are SymbolicZero objects instead of arrays of zeros, so
        that the rule can leave out their part; it may return such objects too. It is then traced for each choice of them.

        >>> @tinyfn.custom_jvp
        ... def product(x, y):
        ...     return x * y
        >>> @product.defjvp
        ... def rule(primals, tangents):
        ...     (x, y), (tx, ty) = primals, tangents
        ...     return x * y, tx * y + x * ty
        >>> tinyfn.jvp(product, (2.0, 3.0), (1.0, 0.0))
        (Array(6., dtype=float32), Array(3., dtype=float32))
        """
        check_function("defjvp", rule)
        self._rule, self.symbolic_zeros = rule, symbolic_zeros
        return rule

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """Set one rule for each argument: rule(tangent, value, *primals) -> tangent, or None for zero.

        >>> @tinyfn.custom_jvp
        ... def f(x, y):
        ...     return x * y
        >>> f.defjvps(lambda t, out, x, y: t * y, None)
        >>> tinyfn.grad(f, argnums=(0, 1))(2.0, 3.0)
        (Array(3., dtype=float32), Array(0., dtype=float32))
        """

        def rule(*args: Any) -> Any:
            *nondiff, primals, tangents = args
            if len(rules) != len(primals):
                raise ValueError(
                    f"defjvps of {self.__name__} has {len(rules)} rules, but there are {len(primals)} differentiated "
                    f"arguments; at {user_line()}: give one for each, None for a derivative of zero"
                )
            positions = self._nondiff_positions(len(nondiff) + len(primals))
            value = self(*self._merge(dict(zip(positions, nondiff, strict=True)), primals))
            terms = [r(t, value, *primals) for r, t in zip(rules, tangents, strict=True) if r is not None]
            if not terms:
                return value, value * 0
            total = terms[0]
            for term in terms[1:]:
                total = pytree.map(lambda a, b: a + b, total, term)
            return value, total

        self._rule, self.symbolic_zeros = rule, False

    @entry_point
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        trace = current_trace()
        if trace is None or self._stays_plain():
            return self.function(*args, **kwargs)
        if self._rule is None:
            raise TypeError(
                f"custom_jvp function {self.__name__} has no rule yet: give it one with {self.__name__}.defjvp; at {user_line()}"
            )
        args, positions = self._resolve(args, kwargs)
        nondiff = {i: args[i] for i in positions}
        given = Arguments(
            "custom_jvp", self.function, [a for i, a in enumerate(args) if i not in nondiff], {}
        )

        def call(*diff: Any) -> Any:
            return self.function(*self._merge(nondiff, diff))

        call.__name__, call.__wrapped__ = self.__name__, self.function  # type: ignore[attr-defined]
        primal = trace_function(call, "custom_jvp", given.arrays, given.rebuild, given.name, given.arrays)
        if not self._has_derivative(given, primal):
            return self.function(*args)
        tangents = [Aval(a.dtype, a.shape) for a in given.arrays if dtypes.is_inexact(a.dtype)]

        def rule(primals: tuple[Any, ...], directions: tuple[Any, ...]) -> Any:
            assert self._rule is not None
            pair = self._rule(*nondiff.values(), primals, directions)
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(
                    f"the jvp rule of {self.__name__} must return a pair (value, tangent), not {type(pair).__name__}; "
                    f"at {user_line()}"
                )
            return self._checked_tangents(primal, pair[1])

        rule.__name__, rule.__wrapped__ = f"jvp_rule_{self.__name__}", self._rule  # type: ignore[attr-defined]
        known = [*given.arrays, *[None] * len(tangents)]

        def trace_rules(calls: Any, zeros: Any) -> list[Traced]:
            def rebuild(leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
                count = len(given.arrays)
                directions = with_zeros(leaves[count:], given.arrays, zeros, self.symbolic_zeros)
                return (given.rebuild(leaves[:count])[0], pytree.unflatten(given.tree, directions)[0]), {}

            def name(index: int) -> str:
                assert self._rule is not None
                tree = pytree.structure(given.rebuild(list(given.arrays))[0])
                primals, directions = [tree_names(self._rule, len(nondiff) + k, tree) for k in (0, 1)]
                inexact = [
                    n for n, a in zip(directions, given.arrays, strict=True) if dtypes.is_inexact(a.dtype)
                ]
                return [*primals, *inexact][index]

            return [self._trace_rule(rule, [*given.arrays, *tangents], rebuild, calls, name, known)]

        choices = [NO_ZEROS, *one_at_a_time(given.arrays)]
        closure, rules = self._close(primal, list(nondiff.values()), trace_rules, choices)
        nodes = custom_jvp_call.apply(
            *self._lifted(given.arrays, closure),
            graph=with_closure(primal, closure), rules=rules, count=len(given.arrays), label=self.__name__,
        )  # fmt: skip
        return results_of(primal, nodes)

    def _checked_tangents(self, primal: Traced, tangent: Any) -> list[Any]:
        return matching(
            f"the jvp rule of {self.__name__} returned a tangent",
            primal.out_tree,
            primal.graph.outputs,
            tangent,
        )


entry_methods(custom_jvp, "defjvp", "defjvps")
