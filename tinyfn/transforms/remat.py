"""checkpoint (remat): trade computation for memory in the reverse pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..trace import pytree
from ..trace.graph import Graph
from ..trace.tracing import current_trace, trace_function, tracer
from .arguments import Arguments
from .structured import checkpoint_call


def remat(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, of which the reverse pass keeps only the arguments and computes everything else again.

    Also available as `checkpoint`. Values and derivatives do not change."""

    @wraps(function)
    def rematerialized(*args: Any, **kwargs: Any) -> Any:
        trace = current_trace()
        if trace is None:
            return function(*args, **kwargs)
        given = Arguments("checkpoint", function, args, kwargs)
        traced = trace_function(function, "checkpoint", given.arrays, given.rebuild, given.name, given.arrays)
        graph = traced.graph
        nodes = checkpoint_call.apply(
            *[trace.lift(a) for a in (*given.arrays, *graph.captured)],
            graph=Graph(graph.inputs, graph.outputs, name=graph.name),
        )
        return pytree.unflatten(
            traced.out_tree, [tracer(trace, n, weak) for n, weak in zip(nodes, traced.weak, strict=True)]
        )

    return rematerialized
