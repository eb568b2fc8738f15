"""Tracing: running a Python function on stand-ins for arrays, and keeping what it does as a Graph.

While a trace is active every operation goes into it, also one on known arrays alone; arrays that the function closes
over, tracers of an enclosing trace included, become hidden inputs. A tracer that is asked for its value evaluates its
part of the graph on the values of the inputs, where those are known (`grad` of a function that is not jitted knows them),
and remembers what it computed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from . import dtype as dtypes
from . import errors, events, execute, finite, pytree, switches
from .array import Array, as_array, is_scalar, own
from .graph import Graph
from .prim import Aval, Primitive, full, hooks
from .uop import INPUT, UOp, const, input_node, output, substitute, toposort


class BoundAxis(NamedTuple):
    """A named axis within the function of a vmap: its size, that function's name, and the trace of it."""

    size: Any
    function_name: str
    trace: Trace


_NO_AXES: Mapping[Any, BoundAxis] = MappingProxyType({})


class _State(threading.local):
    trace: Trace | None = None
    evaluates_now = False  # within ensure_compile_time_eval
    scope = ""  # the names of the active blocks of named_scope, joined by slashes
    # The functions whose own derivative rules are being traced: see `transforms.custom`. Replaced, never changed.
    rules: Mapping[Any, Any] = MappingProxyType({})


_state = _State()
_new = object.__new__


def current_trace() -> Trace | None:
    """The innermost active trace of this thread, if there is one."""
    return _state.trace


def bound_axes() -> Mapping[Any, BoundAxis]:
    """The named axes of the vmaps that are being traced."""
    return _NO_AXES if _state.trace is None else _state.trace.axes


def axis_size(name: Any) -> Any:
    """The size of a named axis, or None if there is none of that name.

    The traces within the vmap that has it remember that what they traced depends on it."""
    found = bound_axes().get(name)
    size = None if found is None else found.size
    trace = _state.trace
    while trace is not None and (found is None or trace is not found.trace):
        trace.axes_used[name] = size
        trace = trace.parent
    return size


def traced_rules() -> Mapping[Any, Any]:
    """The functions whose own derivative rules this thread is tracing, each with what `tracing_rules` was given."""
    return _state.rules


@contextmanager
def tracing_rules(rules: Mapping[Any, Any]) -> Iterator[None]:
    """Within, these are the functions whose own derivative rules are being traced."""
    before, _state.rules = _state.rules, rules
    try:
        yield
    finally:
        _state.rules = before


@contextmanager
def within_trace(trace: Trace | None) -> Iterator[None]:
    """Within, operations go into a trace that is not closed, or if it is None are done at once."""
    before, _state.trace = _state.trace, trace
    try:
        yield
    finally:
        _state.trace = before


def outside_of_traces() -> AbstractContextManager[None]:
    """Within, operations are done at once."""
    return within_trace(None)


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Within, operations in a traced function are done at once, on arrays that are known; on traced ones they raise TracerError.

    What they give is then a constant of the function, and Python may look at it:

    >>> lengths = tnp.array([2, 1])
    >>> @tinyfn.jit
    ... def f(x):
    ...     with tinyfn.ensure_compile_time_eval():
    ...         longest = int(tnp.max(lengths))
    ...     return x[:longest]
    >>> f(tnp.array([1.0, 2.0, 3.0]))
    Array([1., 2.], dtype=float32)
    """
    before, evaluated = _state.trace, _state.evaluates_now
    _state.trace, _state.evaluates_now = None, True
    try:
        yield
    finally:
        _state.trace, _state.evaluates_now = before, evaluated


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Within, operations that are traced get a name, which printed graphs, `saved_residuals` and `debug_nans` show beside them.

    Scopes within scopes are `outer/inner`. It decorates functions too. Raises TypeError for what is no name.

    >>> @tinyfn.named_scope("attention")
    ... def scores(q, k):
    ...     return q @ k.T
    >>> print(tinyfn.make_graph(scores)(tnp.ones((2, 3)), tnp.ones((2, 3))))
    def scores(q: "float32[2,3]", k: "float32[2,3]"):
        v2 = transpose(k, permutation=(1, 0))  # float32[3,2], in attention
        v3 = dot_general(q, v2, contract=((1,), (0,)), batch_axes=((), ()))  # float32[2,2], in attention
        return (v3,)
    """
    if not isinstance(name, str):
        raise TypeError(f"named_scope takes a str, not {name!r}; at {errors.user_line()}")
    before = _state.scope
    _state.scope = f"{before}/{name}" if before else name
    try:
        with switches.keep_lines():
            yield
    finally:
        _state.scope = before


class Tracer(Array):
    """An array of a function that is being traced."""

    __slots__ = ("context", "uop")
    context: Trace  # not `trace`, which is a method of arrays
    uop: UOp

    @property
    def value(self) -> np.ndarray:
        """The value, if it is known."""
        if _state.evaluates_now and _state.trace is None and not self.context.closed:
            raise errors.ConcretizationError(
                f"at {errors.user_line()}: within ensure_compile_time_eval operations take known arrays, but one of them is a "
                f"traced {dtypes.describe(self.dtype, self.shape)} in {self.context}: do what depends on it outside of that block"
            )
        return self._concrete("take its value", errors.ConcretizationError)

    @property
    def dtype(self) -> dtypes.DType:
        """The type of the elements."""
        return self.uop.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """The size along each axis."""
        return self.uop.shape

    def _concrete(self, attempt: str, error: type[Exception]) -> np.ndarray:
        """The value, computed now, if the values of the inputs it depends on are known."""
        if self.context.closed:
            raise self.leaked()
        unknown: list[UOp] = []
        value = self.context.value_of(self.uop, unknown)
        if value is None:
            raise error(self.context.explain(self, attempt, error, unknown))
        return value

    def leaked(self) -> errors.UnexpectedTracerError:
        """The error of using it after its function has ended."""
        return errors.UnexpectedTracerError(
            f"at {errors.user_line()}: a traced {dtypes.describe(self.dtype, self.shape)} in {self.context} is used after that "
            "function had ended. It was kept in a global, an attribute or a list; return it from the function instead"
        )

    def is_deleted(self) -> bool:
        """A traced array can't have been donated."""
        return False

    def __repr__(self) -> str:
        described = dtypes.describe(self.dtype, self.shape)
        return f"Tracer({described} in {self.context.transform} of {self.context.function_name})"

    __str__ = __repr__

    def __reduce__(self) -> Any:
        raise errors.ConcretizationError(f"can't pickle {self!r}; at {errors.user_line()}")


def identity(x: Array) -> Any:
    """What says that two arrays which a function closes over are one; x must be kept alive as long as it is used."""
    return x.uop if isinstance(x, Tracer) else id(x)


def tracer(trace: Trace, uop: UOp, weak_type: bool = False) -> Tracer:
    """A tracer for a node of the trace."""
    new = _new(Tracer)
    new.context = trace
    new.uop = uop
    new.weak_type = weak_type
    new._value = None
    return new


_REASONS = {
    "jit": "its value is known only when the compiled function runs",
    "vmap": "under vmap the value may differ from lane to lane",
    "scan": "the body is traced once, for all steps",
    "fori_loop": "the body is traced once, for all steps",
    "while_loop": "condition and body are traced once, for all steps",
    "map": "the function is traced once, for all elements",
    "cond": "branches are traced before one of them is chosen",
    "switch": "branches are traced before one of them is chosen",
    "custom_jvp": "the rule is traced when the function is called, before there are tangents",
    "custom_vjp": "the rule is traced when the function is called, before there are cotangents",
    "custom_vmap": "the rule is traced for all lanes at once",
}
_FIXES: dict[type[Exception], str] = {
    errors.TracerBoolConversionError: (
        "choose with tinyfn.numpy.where or tinyfn.lax.cond, loop with tinyfn.lax.while_loop, take tinyfn.numpy.minimum, "
        "maximum or sort instead of Python's min, max or sorted, x.any() or x.all() instead of any or all, "
        "tinyfn.checks.check instead of assert"
    ),
    errors.TracerArrayConversionError: (
        "use tinyfn.numpy instead of NumPy in the function, or call NumPy through tinyfn.pure_callback"
    ),
    errors.TracerIntegerConversionError: (
        "loop with tinyfn.lax.fori_loop instead of range, index tinyfn.numpy.array(...) instead of a list, take a part of "
        "fixed size with tinyfn.lax.dynamic_slice"
    ),
    errors.ConcretizationError: (
        "compute with tinyfn.numpy instead of Python's float and math, print with tinyfn.debug.print, or return it from the "
        "function and look at it outside"
    ),
}
_HAVE_AUX = ("grad", "value_and_grad", "jvp", "vjp", "linearize", "jacfwd", "jacrev")
_SHOWN = 5  # so many of the arguments that are to blame are named


def _alternative(owner: Trace, names: Sequence[str], nodes: Sequence[UOp]) -> str:
    """What else can be done, by the transform for which the value is not known, and the arguments that it depends on."""
    if owner.transform == "vmap":
        return "do not map the argument (None in in_axes) if all lanes share it"
    if owner.transform == "jit" and names and not any(node.shape for node in nodes):
        if all(name.isidentifier() for name in names) and len(names) <= _SHOWN:
            return f"jit it with static_argnames={list(names)!r}, if that is a setting rather than data"
        return (
            "if that is a setting rather than data, make it static: by static_argnames or static_argnums of jit, or in a "
            "dataclass by tinyfn.tree.static()"
        )
    return "compute it outside and pass it in"


class Trace:
    """One run of a function on tracers: its inputs, the arrays it closed over, and the values computed so far."""

    __slots__ = (
        "_memo",
        "arguments",
        "axes",
        "axes_used",
        "captured",
        "closed",
        "code",
        "function_name",
        "inputs",
        "known",
        "namer",
        "parent",
        "runs_later",
        "token",
        "transform",
    )

    def __init__(self, transform: str, function: Callable[..., Any], runs_later: bool):
        self.transform = transform
        self.function_name = describe_function(function)
        self.code = errors.code_of(function)
        # Whether it is traced for other values than those that are there now, so that an effect must not happen now.
        self.runs_later: bool = runs_later or (_state.trace is not None and _state.trace.runs_later)
        self.parent = parent = _state.trace
        # The named axes that can be used in it, and those outside of it that were looked for (None: not found).
        self.axes: Mapping[Any, BoundAxis] = _NO_AXES if parent is None else parent.axes
        self.axes_used: dict[Any, Any] = {}
        self.inputs: list[UOp] = []
        # What it was made for: for each input the array, or what has its dtype and shape. Gone when the trace is closed.
        self.arguments: Sequence[Any] = ()
        self.known: dict[UOp, Array] = {}
        # By identity; the array is None for a stand-in for a tracer of a closed trace.
        self.captured: dict[Any, tuple[UOp, Array | None]] = {}
        self.closed = False
        # What the last effect gave, for the next one.
        self.token: UOp | None = None
        # The name of the i-th argument, worked out only when it is needed.
        self.namer: Callable[[int], str] | None = None
        self._memo: dict[UOp, Any] = {}

    def __str__(self) -> str:
        """`jit of loss (file.py:12)`, for messages."""
        file = "" if self.code is None else f" ({self.code.co_filename}:{self.code.co_firstlineno})"
        return f"{self.transform} of {self.function_name}{file}"

    def new_input(
        self, dtype: dtypes.DType, shape: tuple[Any, ...], weak: bool, known: Array | None
    ) -> Tracer:
        """A tracer for one more argument, with its value if that is known."""
        node = input_node(dtype, shape)
        self.inputs.append(node)
        if known is not None:
            self.known[node] = known
        return tracer(self, node, weak)

    def lift(self, x: Array) -> UOp:
        """The node of this trace for an array or a tracer, which is captured if it belongs to the outside."""
        if isinstance(x, Tracer) and x.context is self:
            return x.uop
        key = identity(x)
        found = self.captured.get(key)
        if found is None:
            if isinstance(x, Tracer) and x.context.closed and not self._is_captured_outside(key):
                raise x.leaked()
            found = self.captured[key] = (input_node(x.dtype, x.shape, None), x)
            self.known[found[0]] = x
        return found[0]

    def capture_value(self, value: np.ndarray) -> UOp:
        """A hidden input for a value that is known."""
        array = own(value)
        return self.captured.setdefault(id(array), (input_node(array.dtype, array.shape), array))[0]

    def stand_in(self, key: Any, aval: Aval, array: Array | None) -> None:
        """Let the array or tracer with this identity be captured from the start, also if its own trace is closed."""
        node = input_node(aval.dtype, aval.shape)
        self.captured[key] = node, array
        if array is not None:
            self.known[node] = array

    def _is_captured_outside(self, key: Any) -> bool:
        outer = self.parent
        while outer is not None and key not in outer.captured:
            outer = outer.parent
        return outer is not None

    def value_of(self, node: UOp, unknown: list[UOp]) -> np.ndarray | None:
        """The node's value, or None and the inputs (in `unknown`) without which it can't be computed."""
        memo = self._memo
        if node not in memo:
            for source in toposort([node], stop=memo):
                if source.op is not INPUT:
                    if isinstance(source.op, Primitive) and self._is_for_later(source.op, source):
                        unknown.append(source)
                else:
                    array = self.known.get(source)
                    value: Any = None
                    if isinstance(array, Tracer):
                        value = array.context.value_of(array.uop, unknown)
                    elif array is not None:
                        value = array.value
                    elif source not in unknown:
                        unknown.append(source)
                    if value is not None:
                        memo[source] = value
            if unknown:
                return None
            execute.evaluate([node], memo)
        return np.asarray(memo[node])

    def _is_for_later(self, op: Primitive, node: UOp) -> bool:
        """Whether it can't be computed now: what lanes compute together, and effects that happen whenever a function runs."""
        if op.family == "structured":
            return self.runs_later and op.has_effects(node.params)
        return op.family == "collective"

    def perform(self, primitive: Primitive, args: Sequence[UOp], params: dict[str, Any]) -> list[UOp]:
        """The results of an op with effects, which come after those before."""
        token = self.token or hooks.start()
        if primitive.takes_token:
            first, *results = _results(primitive.node(token, *args, **params))
            self.token = first
            return results
        waiting = [hooks.after(args[0], token), *args[1:]] if args else []
        results = _results(primitive.node(*waiting, **params))
        self.token = hooks.join(results if args else [token, *results])
        return results

    def close(self) -> dict[UOp, Any]:
        """End the trace; gives the values that were computed because they were asked for.

        They do not stay with the trace, since a node may hold on to it (through what its rules close over)."""
        memo, self._memo = self._memo, {}
        self.arguments, self.closed = (), True
        self.axes = _NO_AXES  # among which its own holds the trace
        return memo

    def remember(self, values: Mapping[UOp, Any]) -> None:
        """Take over values that were computed in a trace within this one."""
        for node, value in values.items():
            self._memo.setdefault(node, value)

    def explain(self, x: Tracer, attempt: str, error: type[Exception], unknown: Sequence[UOp]) -> str:
        """Why the value of x is not known: what was attempted, where, on which arguments it depends, and the fix."""
        owner: Trace = self
        while not any(node in owner.inputs for node in unknown) and owner.parent is not None:
            owner = owner.parent
        places = sorted([owner.inputs.index(n) for n in unknown if owner.namer and n in owner.inputs])
        arguments = [owner.namer(place) for place in places] if owner.namer else []
        names = []
        if arguments:
            shown = ", ".join([f"`{name}`" for name in arguments[:_SHOWN]])
            rest = f" and {len(arguments) - _SHOWN} more" if len(arguments) > _SHOWN else ""
            names.append(f"argument{'s' if len(arguments) > 1 else ''} {shown}{rest}")
        names += [_described_later(n) for n in unknown if n.op is not INPUT]
        blamed = f"it depends on {', '.join(names)}" if names else "it depends on traced values"
        reason = _REASONS.get(owner.transform, "its value is not known while the function is traced")
        alternative = _alternative(owner, arguments, [owner.inputs[place] for place in places])
        return (
            f"at {errors.user_line()}: can't {attempt}: it is a traced {dtypes.describe(x.dtype, x.shape)} in {owner}, and "
            f"{blamed}; {reason}.\nInstead: {_FIXES[error]}; or {alternative}."
        )


def _described_later(node: UOp) -> str:
    """What a value depends on that is no argument."""
    op: Any = node.op
    if op.family == "collective":
        return f"a {op.name} over {_described_axes(node)}"
    return f"what {getattr(node.params.get('called'), 'label', op.name)} gives"


def _described_axes(node: UOp) -> str:
    return " and ".join([f"the axis {name!r}" for name in sorted(node.op.axis_names(node.params), key=repr)])


def _results(node: UOp) -> list[UOp]:
    dtype: Any = node.dtype
    return [output(node, i) for i in range(len(dtype))]


def not_executed(what: str) -> RuntimeError:
    """The error of computing something within `no_execution`."""
    return RuntimeError(
        f"within no_execution {what} would be computed; at {errors.user_line()}: trace it, with make_graph or "
        "jit(f).lower, or leave no_execution first"
    )


_KEEPS_WEAK = frozenset(("elementwise", "movement", "reduction", "contraction"))


def bind(primitive: Primitive, args: tuple[Array, ...], params: dict[str, Any]) -> Any:
    """Apply a primitive to arrays: at once, or as a node of the active trace. The result is an array, or a list of several."""
    trace = _state.trace
    weak = bool(args) and primitive.family in _KEEPS_WEAK
    for a in args:
        if not isinstance(a, Array):
            return bind(primitive, tuple([as_array(a) for a in args]), params)
        if not a.weak_type:
            weak = False
    if trace is not None:
        nodes = [trace.lift(a) for a in args]
        if primitive.family == "structured" and primitive.has_effects(params):
            return [tracer(trace, result) for result in trace.perform(primitive, nodes, params)]
        try:
            node = primitive.node(*nodes, **params)
        except (TypeError, ValueError) as error:
            errors.add_line(error)
            raise
        if switches.general_path and switches.keeps_lines():
            finite.remember_line(node, _state.scope)
        dtype: Any = node.dtype
        if type(dtype) is tuple:
            return [tracer(trace, output(node, i)) for i in range(len(dtype))]
        return tracer(trace, node, weak and node.dtype in dtypes.WEAK_DTYPES)
    if switches.general_path and switches.no_execution.is_on:
        raise not_executed(primitive.name)
    values = [a.value for a in args]
    if primitive.takes_token:
        return [own(r) for r in primitive.reference(None, *values, **params)[1:]]
    try:
        primitive.checked(values, params)
    except (TypeError, ValueError) as error:
        errors.add_line(error)
        raise
    begin = time.perf_counter() if events.recording is not None else 0.0
    looks = switches.general_path and switches.checks_values() and not finite.is_quiet()
    with np.errstate(all="ignore"), finite.quietly() if looks else _NOTHING:
        result = primitive.reference(*values, **params)
    if events.recording is not None:
        events.record(primitive.name, "eager", begin, time.perf_counter() - begin, line=errors.user_line())
    if looks:
        if primitive.holds_graphs(params) and any(map(finite.found_in, result)):
            primitive.reference(*values, **params)  # which raises for the operation within that made it
        finite.check(primitive.name, values, result)
    if type(result) is list:
        return [own(r) for r in result]
    array = own(result)
    array.weak_type = weak and array.dtype in dtypes.WEAK_DTYPES
    return array


_NOTHING = nullcontext()
hooks.bind = bind


class Closed(NamedTuple):
    """Something that a function closed over: its identity, what it is, and the array itself unless it is a tracer."""

    key: Any
    aval: Aval
    array: Array | None


def with_tokens(traces: Sequence[Traced]) -> list[Traced]:
    """Functions of which one is to be chosen: if some have effects and no arrays as results, all have a token as result."""
    trees = [t.out_tree for t in traces]
    found = [t for t in trees if t.num_leaves and t == tree_of_nothing(_without_token(t))]
    return [
        Traced(
            Graph(t.graph.inputs, [hooks.start()], t.graph.captured, t.graph.name),
            tree_of_nothing(t.out_tree),
            (False,),
            t.trace,
            t.memo,
        )
        if found and not t.out_tree.num_leaves
        else t
        for t in traces
    ]


def _without_token(tree: Any) -> Any:
    return pytree.structure(pytree.unflatten(tree, [0] * tree.num_leaves))


class Traced:
    """A function's graph, with the structure of its results and the trace that it came from.

    `memo` has the values that were computed because the function asked for them: the final run takes them from there."""

    __slots__ = ("graph", "memo", "out_tree", "trace", "weak")

    def __init__(
        self, graph: Graph, out_tree: Any, weak: tuple[bool, ...], trace: Trace, memo: dict[UOp, Any]
    ):
        self.graph = graph
        self.out_tree = out_tree
        self.weak = weak
        self.trace = trace
        self.memo = memo


def describe_function(function: Callable[..., Any]) -> str:
    """The name of a function for messages."""
    return getattr(function, "__name__", None) or type(function).__name__


def trace_function(
    function: Callable[..., Any],
    transform: str,
    arguments: Sequence[Any],
    rebuild: Callable[[list[Tracer]], tuple[tuple[Any, ...], dict[str, Any]]],
    namer: Callable[[int], str] | None = None,
    known: Sequence[Array | None] | None = None,
    closure: Sequence[Closed] = (),
    axes: Mapping[Any, Any] | None = None,
) -> Traced:
    """The graph of `function`, called on what `rebuild` makes of one tracer for each argument (of its dtype and shape).

    The function may look at the values of those arguments that have one in `known`. What is in `closure` counts as
    closed over from the start, in that order. `axes` are the sizes of further named axes that it can use."""
    trace = Trace(transform, function, known is None)
    if axes:
        bound = {name: BoundAxis(size, trace.function_name, trace) for name, size in axes.items()}
        trace.axes = {**trace.axes, **bound}
    trace.namer, trace.arguments = namer, arguments
    for closed in closure:
        trace.stand_in(*closed)
    tracers = [
        trace.new_input(a.dtype, a.shape, getattr(a, "weak_type", False), None if known is None else known[i])
        for i, a in enumerate(arguments)
    ]
    _state.trace = trace
    try:
        args, kwargs = rebuild(tracers)
        result = function(*args, **kwargs)
        leaves, out_tree = pytree.flatten(result)
        if any(is_float0(leaf) for leaf in leaves):
            leaves, out_tree = pytree.flatten(pytree.map(lambda x: _Void.of(x, trace), result))
        outputs, weak = [], []
        for i, leaf in enumerate(leaves):
            array = result_array(leaf, partial(_result_path, result, i), function, transform)
            outputs.append(trace.lift(array))
            weak.append(array.weak_type)
        if trace.token is not None:
            if outputs:
                outputs = [hooks.after(node, trace.token) for node in outputs]
            else:
                outputs, weak, out_tree = [trace.token], [False], tree_of_nothing(out_tree)
    finally:
        _state.trace = trace.parent
        memo = trace.close()
    if memo and trace.token is not None:
        outputs = hooks.settled(outputs, memo, trace.capture_value)
    captured = list(trace.captured.values())
    inputs = [*trace.inputs, *[uop for uop, _ in captured]]
    graph = Graph(inputs, outputs, [array for _, array in captured], trace.function_name)
    return Traced(graph, out_tree, tuple(weak), trace, memo)


def is_float0(leaf: Any) -> bool:
    """Whether it is an array without values: the (co)tangent of something that has none."""
    return type(leaf) is np.ndarray and leaf.dtype == dtypes.float0


class _Void:
    """In place of a result of float0: an array of bools of its shape, so that transforms may change that."""

    def __init__(self, stand_in: Any):
        self.stand_in = stand_in

    @classmethod
    def of(cls, leaf: Any, trace: Trace) -> Any:
        """The leaf itself, unless it is of float0."""
        return cls(tracer(trace, full(False, dtypes.bool_, leaf.shape))) if is_float0(leaf) else leaf


pytree.register_pytree_node(
    _Void,
    lambda x: ((x.stand_in,), None),
    # Not of a number that stands for a leaf in a tree of something else.
    lambda _, found: (
        np.zeros(found[0].shape, dtypes.float0) if hasattr(found[0], "shape") else _Void(found[0])
    ),
)


class _Nothing:
    """In place of a result without arrays: the token of its effects, which somebody has to ask for."""

    def __init__(self, tree: Any, token: Any):
        self.tree, self.token = tree, token


pytree.register_pytree_node(
    _Nothing, lambda x: ((x.token,), x.tree), lambda tree, _: pytree.unflatten(tree, ())
)


def tree_of_nothing(tree: Any) -> Any:
    """The structure of one array, a token, that unflattens to what this structure without arrays does."""
    return pytree.structure(_Nothing(tree, 0))


def result_array(
    leaf: Any, path: Callable[[], str], function: Callable[..., Any], transform: str = ""
) -> Array:
    """A leaf of a function's result as an array; raises TypeError naming where in the result it is."""
    if isinstance(leaf, Array):
        return leaf
    if is_scalar(leaf):
        trace = _state.trace
        array = as_array(leaf)
        return array if trace is None else tracer(trace, const(array.value, array.dtype), array.weak_type)
    try:
        return as_array(leaf)
    except TypeError:
        with_aux = (
            "return it through has_aux=True" if transform in _HAVE_AUX else "keep it outside of the function"
        )
        raise TypeError(
            f"{transform}{' of ' if transform else ''}{describe_function(function)}: it returned {errors.kind_of(leaf)}{path()}, "
            f"which is neither an array, a number nor a container of those; at {errors.user_line()}: {with_aux}, or register its "
            "class as a pytree"
        ) from None


def _result_path(result: Any, index: int) -> str:
    path = pytree.keystr(pytree.flatten_with_path(result)[0][index][0])
    return f" at result{path}" if path else ""


def apply(
    graph: Graph,
    arguments: Sequence[Array],
    memo: dict[UOp, Any] | None = None,
    weak: Sequence[bool] | None = None,
) -> list[Array]:
    """The graph's outputs for these arguments (its captured arrays are added): inlined into the active trace, or run.

    `memo` has values of nodes that are known already."""
    everything = [*arguments, *graph.captured]
    trace = _state.trace
    flags = weak or [False] * len(graph.outputs)
    if trace is not None:
        lifted = dict(zip(graph.inputs, [trace.lift(a) for a in everything], strict=True))
        if graph.has_effects and trace.token is not None:
            lifted[hooks.start()] = trace.token
        nodes = substitute([*graph.outputs, *(memo or ())], lifted)
        count = len(graph.outputs)
        if graph.has_effects:
            trace.token = hooks.join(nodes[:count])
        if memo:
            trace.remember(dict(zip(nodes[count:], memo.values(), strict=True)))
        return [tracer(trace, node, flag) for node, flag in zip(nodes[:count], flags, strict=True)]
    if switches.general_path and switches.no_execution.is_on:
        raise not_executed(graph.name)
    values: dict[UOp, Any] = dict(memo) if memo else {}
    for node, array in zip(graph.inputs, everything, strict=True):
        values[node] = array.value
    return [
        own(value, flag) for value, flag in zip(execute.run_once(graph.outputs, values), flags, strict=True)
    ]
