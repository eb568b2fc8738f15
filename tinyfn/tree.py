"""Work on pytrees (nested containers of arrays), with the names of `jax.tree`."""

from __future__ import annotations

from tinyfn.trace.pytree import (
    all,
    broadcast,
    flatten,
    flatten_with_path,
    leaves,
    leaves_with_path,
    map,
    map_with_path,
    reduce,
    static,
    structure,
    transpose,
    unflatten,
)

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
