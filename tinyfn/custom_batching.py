"""Functions that say themselves how they are mapped over a batch: `custom_vmap`, and `sequential_vmap`, by a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .lax.loops import map as map_in_order
from .trace import pytree
from .trace.errors import entry_points
from .transforms.custom_vmap import custom_vmap


def sequential_vmap(function: Callable[..., Any]) -> custom_vmap:
    """The function, which vmap calls for one lane after another, in a loop: for what can't be done for all lanes at once,
    or would take too much memory: `vmap(sequential_vmap(f))(xs)` is `lax.map(f, xs)`.

    >>> f = tinyfn.custom_batching.sequential_vmap(lambda x: x.sum())
    >>> tinyfn.vmap(f)(tnp.ones((3, 4)))
    Array([4., 4., 4.], dtype=float32)
    """
    result = custom_vmap(function)

    @result.def_vmap
    def rule(axis_size: int, in_batched: Any, *args: Any) -> Any:
        leaves, tree = pytree.flatten(args)
        flags = pytree.leaves(in_batched)

        def lane(mapped: list[Any]) -> Any:
            found = iter(mapped)
            return result(
                *pytree.unflatten(tree, [next(found) if f else x for f, x in zip(flags, leaves, strict=True)])
            )

        return map_in_order(lane, [x for x, flag in zip(leaves, flags, strict=True) if flag]), True

    return result


__all__ = ["custom_vmap", "sequential_vmap"]


entry_points(globals())
