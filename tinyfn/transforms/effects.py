"""Effects: calls of Python functions in programs, and the order in which they happen.

An effect takes a token and gives a token, which is an ordinary value without contents. A trace hands the token of the last effect
to the next one, and at its end every result waits for the last token: it is `after(result, token)`. So effects are what results
depend on, and no walk over the graph needs to know of them to keep them, and keep them in order. An op that holds a graph with
effects waits for the token too (its first argument does), and what it gives makes the next token (`join`).

What a transform computes a second time, such as the forward pass in `checkpoint`, is to have no effects again: `without_effects`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace.array import own
from ..trace.graph import Graph
from ..trace.prim import Primitive, Sample, broadcast_to_batch, hooks
from ..trace.tracing import outside_of_traces
from ..trace.uop import OUTPUT, UOp, input_node, output, rebuild, substitute, toposort
from .structured import BatchAxis, Structured

NOTHING = np.zeros((), np.bool_)  # a token's value


class Start(Primitive):
    """The token before the first effect of a graph."""

    family = "token"

    def out(self) -> Any:
        return dtypes.bool_, ()

    def reference(self) -> Any:
        return NOTHING

    def samples(self) -> Iterator[Sample]:
        yield Sample((), differentiable=False)


class After(Structured):
    """The first argument, once the others are there."""

    is_inlined = False

    def out(self, x: Any, *tokens: Any) -> Any:
        return (x.dtype,), (x.shape,)

    def execute(self, prepare: Any, args: Sequence[Any], **params: Any) -> list[Any]:
        return [np.array(args[0])]

    def jvp_results(self, args: Sequence[UOp], tangents: Sequence[UOp | None], **params: Any) -> Any:
        return self.apply(*args), [tangents[0]]

    def vjp_forward(self, args: Sequence[UOp], needs: Sequence[bool], **params: Any) -> Any:
        return self.apply(*args), None

    def vjp_backward(
        self, args: Sequence[UOp], kept: Any, cts: Sequence[UOp | None], needs: Sequence[bool], **params: Any
    ) -> list[UOp | None]:
        return [cts[0], *[None] * (len(args) - 1)]

    def batch_results(
        self, axis: BatchAxis, args: Sequence[UOp], batched: Sequence[bool], **params: Any
    ) -> Any:
        return self.apply(*args), [batched[0]]

    def samples(self) -> Iterator[Sample]:
        yield Sample((np.array([1.0, 2.0], np.float32), np.zeros((), np.bool_)))


class Join(Structured):
    """A token for when all arguments are there."""

    is_inlined = False

    def out(self, *args: Any) -> Any:
        return (dtypes.bool_,), ((),)

    def execute(self, prepare: Any, args: Sequence[Any], **params: Any) -> list[Any]:
        return [NOTHING]

    def jvp_results(self, args: Sequence[UOp], tangents: Sequence[UOp | None], **params: Any) -> Any:
        return self.apply(*args), [None]

    def vjp_forward(self, args: Sequence[UOp], needs: Sequence[bool], **params: Any) -> Any:
        return self.apply(*args), None

    def vjp_backward(self, args: Sequence[UOp], *_: Any, **params: Any) -> list[UOp | None]:
        return [None] * len(args)

    def batch_results(
        self, axis: BatchAxis, args: Sequence[UOp], batched: Sequence[bool], **params: Any
    ) -> Any:
        return self.apply(*args), [False]

    def samples(self) -> Iterator[Sample]:
        yield Sample((np.array([1.0, 2.0], np.float32), np.zeros((), np.bool_)), differentiable=False)


class Called:
    """A Python function that a graph calls: from arrays to a list of NumPy arrays of the dtypes and shapes that are said to come.

    Each call of `pure_callback` and the like makes its own, so that no two of them are ever one."""

    __slots__ = ("function", "label", "lanes", "line")

    def __init__(
        self, function: Callable[..., list[np.ndarray]], label: str, line: str, lanes: str = "sequential"
    ):
        self.function, self.label, self.line, self.lanes = function, label, line, lanes

    def __repr__(self) -> str:
        return f"<{self.label}>"

    def __call__(self, arguments: Sequence[Any]) -> list[np.ndarray]:
        # Copies, which the function may keep: the program uses the memory for other things.
        with outside_of_traces():
            return self.function(*[own(np.array(a)) for a in arguments])


class Callback(Structured):
    """What a Python function gives for the arguments: arrays of the stated dtypes and shapes, once for each lane.

    `mapped` has for each batch axis, the outermost first, its size, and which of the arguments have it."""

    params = ("called", "dtypes", "shapes", "mapped")
    is_inlined = False
    first = 0  # where the arguments proper begin

    def out(self, *args: Any, **params: Any) -> Any:
        sizes = tuple([size for size, _ in params["mapped"]])
        return params["dtypes"], tuple([(*sizes, *shape) for shape in params["shapes"]])

    def execute(self, prepare: Any, args: Sequence[Any], **params: Any) -> list[Any]:
        return _lane_by_lane(list(args), params["mapped"], params)

    def _no_derivative(self, called: Called) -> TypeError:
        return TypeError(
            f"{called.label}, called at {called.line}, has no derivative, because what it computes is not traced: define one "
            "by calling it in a function with custom_jvp or custom_vjp, or give it stop_gradient of its arguments"
        )

    def jvp_results(self, args: Sequence[UOp], tangents: Sequence[UOp | None], **params: Any) -> Any:
        if any(dtypes.is_inexact(d) for d in params["dtypes"]):
            raise self._no_derivative(params["called"])
        results = self.apply(*args, **params)
        return results, [None] * len(results)

    def vjp_forward(self, args: Sequence[UOp], needs: Sequence[bool], **params: Any) -> Any:
        return self.apply(*args, **params), None

    def vjp_backward(
        self, args: Sequence[UOp], kept: Any, cts: Sequence[UOp | None], needs: Sequence[bool], **params: Any
    ) -> list[UOp | None]:
        if any(ct is not None and dtypes.is_inexact(ct.dtype) for ct in cts):
            raise self._no_derivative(params["called"])
        return [None] * len(args)

    def batch_results(
        self, axis: BatchAxis, args: Sequence[UOp], batched: Sequence[bool], **params: Any
    ) -> Any:
        mapped, size = params.pop("mapped"), axis.size
        called: Called = params["called"]
        if not isinstance(size, int):
            raise ValueError(
                f"vmap of {called.label} needs a fixed batch size, not {size!r}; at {called.line}"
            )
        if called.lanes == "none":
            raise NotImplementedError(
                f"vmap of {called.label}: it does not say how it is mapped; at {called.line}: give it "
                "vmap_method='sequential' to be called once for each lane, or 'expand_dims' or 'broadcast_all' to be called "
                "once, with arguments that have the batch axis first"
            )
        if called.lanes == "sequential":
            results = self.apply(*args, mapped=((size, tuple(batched)), *mapped), **params)
            return results, [i >= self.first for i in range(len(results))]
        wide = [
            a if flag else broadcast_to_batch(a, size if called.lanes == "broadcast_all" else 1)
            for a, flag in zip(args, batched, strict=True)
        ]
        shapes = tuple([(size, *shape) for shape in params.pop("shapes")])
        results = self.apply(*wide, mapped=mapped, shapes=shapes, **params)
        return results, [True] * len(results)

    def samples(self) -> Iterator[Sample]:
        def function(x: Any) -> list[np.ndarray]:
            return [np.asarray(x) * 2, np.asarray(x).sum(dtype=np.int32)]

        x = np.arange(3, dtype=np.int32)
        params = {"dtypes": (dtypes.int32, dtypes.int32), "shapes": ((3,), ()), "mapped": ()}
        yield Sample(
            (x,),
            {"called": Called(function, "pure_callback of twice", "sample"), **params},
            differentiable=False,
        )


class EffectCallback(Callback):
    """The same for a function with effects: the first argument is the token before the call, the first result that after it."""

    name = "io_callback"
    first = 1
    takes_token = True

    def out(self, *args: Any, **params: Any) -> Any:
        found, shapes = super().out(*args[1:], **params)
        return (dtypes.bool_, *found), ((), *shapes)

    def has_effects(self, params: Any) -> bool:
        return True

    def execute(self, prepare: Any, args: Sequence[Any], **params: Any) -> list[Any]:
        mapped = [(size, flags[1:]) for size, flags in params["mapped"]]
        return [NOTHING, *_lane_by_lane(list(args[1:]), mapped, params)]


def _lane_by_lane(args: list[Any], mapped: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    if not mapped:
        results = params["called"](args)
        return [np.asarray(r, dtype) for r, dtype in zip(results, params["dtypes"], strict=True)]
    (size, flags), inner = mapped[0], mapped[1:]
    lanes = []
    for lane in range(size):
        chosen = [np.asarray(a)[lane] if flag else a for a, flag in zip(args, flags, strict=True)]
        lanes.append(_lane_by_lane(chosen, inner, params))
    if not lanes:
        sizes = [n for n, _ in mapped]
        return [
            np.zeros((*sizes, *shape), dtype)
            for shape, dtype in zip(params["shapes"], params["dtypes"], strict=True)
        ]
    return [np.stack(each) for each in zip(*lanes, strict=True)]


start, after, join = Start(), After(), Join()
pure_callback, effect_callback = Callback("pure_callback"), EffectCallback()


def _start() -> UOp:
    return start.node()


def _after(x: UOp, token: UOp) -> UOp:
    return after.apply(x, token)[0]


def _join(values: Sequence[UOp]) -> UOp:
    return join.apply(*values)[0]


hooks.start, hooks.after, hooks.join = _start, _after, _join


def with_token(graph: Graph) -> Graph:
    """The graph with the token before its first effect as one more input, the last."""

    def make() -> Graph:
        token = input_node(dtypes.bool_, ())
        inputs = [input_node(node.dtype, node.shape, node.arg.name) for node in graph.inputs]
        mapping = {**dict(zip(graph.inputs, inputs, strict=True)), start.node(): token}
        return Graph([*inputs, token], substitute(graph.outputs, mapping), name=graph.name)

    return graph.derive("token", make)


def without_effects(outputs: Sequence[UOp]) -> list[UOp]:
    """The outputs without their effects, for what is computed a second time; raises TypeError if they use what effects give."""
    order = toposort(outputs)
    if not any(node.op is after or _is_effect(node) for node in order):
        return list(outputs)
    new: dict[UOp, UOp] = {}
    lost: dict[UOp, UOp] = {}
    for node in order:
        op, src = node.op, node.src
        if op is OUTPUT and src[0].op is after:
            new[node] = new[src[0].src[0]]
        elif op is OUTPUT and src[0].op is effect_callback:
            if node.arg:
                lost[node] = src[0]
            new[node] = _start() if not node.arg else node
        elif op is after or op is effect_callback:
            new[node] = node
        elif _is_effect(node):
            params = {name: _bare(value) for name, value in node.params.items()}
            new[node] = op.node(*[new[s] for s in src], **params)
        elif op is OUTPUT:
            new[node] = output(new[src[0]], node.arg)
        else:
            args = tuple([new[s] for s in src])
            new[node] = node if args == src else rebuild(node, args)
    result = [new[node] for node in outputs]
    if lost and (used := [n for n in toposort(result) if n in lost]):
        called = lost[used[0]].params["called"]
        raise TypeError(
            f"{called.label}: its result would be computed again for a derivative, in checkpoint, in a loop under linearize, "
            f"or in a while_loop with max_steps, but an effect happens once; at {called.line}: call it outside and pass in "
            "what it gives"
        )
    return result


def settled(
    outputs: Sequence[UOp], memo: Mapping[UOp, Any], capture: Callable[[np.ndarray], UOp]
) -> list[UOp]:
    """The outputs without those effects that have happened, since a value was asked for while the function was traced.

    What they gave, which `memo` has, is captured."""
    order = toposort(outputs)
    if not any(node in memo and _is_effect(node) for node in order):
        return list(outputs)
    new: dict[UOp, UOp] = {}
    for node in order:
        op, src = node.op, node.src
        if op is OUTPUT and src[0].op is effect_callback and src[0] in memo:
            new[node] = capture(memo[src[0]][node.arg]) if node.arg else _start()
        elif op is effect_callback and node in memo:
            new[node] = node
        elif op is OUTPUT:
            new[node] = output(new[src[0]], node.arg)
        elif node in memo and _is_effect(node):
            params = {name: _bare(value) for name, value in node.params.items()}
            new[node] = op.node(*[new[s] for s in src], **params)
        else:
            args = tuple([new[s] for s in src])
            new[node] = node if args == src else rebuild(node, args)
    return [new[node] for node in outputs]


def _is_effect(node: UOp) -> bool:
    return isinstance(node.op, Structured) and node.op.has_effects(node.params)


def _bare(value: Any) -> Any:
    if isinstance(value, Graph):
        return value.derive(
            "without effects",
            lambda: Graph(value.inputs, without_effects(value.outputs), value.captured, value.name),
        )
    return tuple([_bare(v) for v in value]) if isinstance(value, tuple) else value


hooks.settled = settled
