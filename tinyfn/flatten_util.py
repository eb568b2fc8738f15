"""A pytree as one vector, and back."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from .numpy.common import at_user, described, operand, promoted
from .numpy.joining import concatenate
from .numpy.shapes import ravel, reshape
from .trace import dtype as dtypes
from .trace import operators as o
from .trace import pytree
from .trace.array import Array
from .trace.errors import entry_points


def ravel_pytree(tree: Any) -> tuple[Array, Callable[[Any], Any]]:
    """The elements of all leaves in one vector of their common dtype, and the function that makes such a tree of such a vector.

    That function gives each leaf its shape and dtype back, and raises ValueError for a vector of another size.

    vector, unravel = ravel_pytree(params)
    hessian = tinyfn.hessian(lambda v: loss(unravel(v)))(vector)

    >>> from tinyfn.flatten_util import ravel_pytree
    >>> vector, unravel = ravel_pytree({"b": tnp.array([1.0, 2.0]), "w": tnp.zeros((1, 3))})
    >>> vector
    Array([1., 2., 0., 0., 0.], dtype=float32)
    >>> unravel(10 * vector)
    {'b': Array([10., 20.], dtype=float32), 'w': Array([[0., 0., 0.]], dtype=float32)}
    """
    leaves, treedef = pytree.flatten(tree)
    arrays = [operand(leaf, "ravel_pytree") for leaf in leaves]
    if not arrays:
        return o.broadcast_to(o.scalar(0, dtypes.DEFAULT_FLOAT), (0,)), lambda vector: treedef.unflatten([])
    vector = concatenate([ravel(a) for a in promoted(*arrays)])
    kinds = [(a.shape, a.dtype) for a in arrays]

    def unravel(vector: Any) -> Any:
        flat = operand(vector, "unravel")
        sizes = [prod(shape) for shape, _ in kinds]
        if flat.shape != (sum(sizes),):
            raise ValueError(
                f"unravel takes a vector of {sum(sizes)} elements, not {described(flat)}{at_user()}"
            )
        rebuilt, begin = [], 0
        for (shape, dtype), size in zip(kinds, sizes, strict=True):
            rebuilt.append(o.to_dtype(reshape(flat[begin : begin + size], shape), dtype))
            begin += size
        return treedef.unflatten(rebuilt)

    return vector, unravel


__all__ = ["ravel_pytree"]

entry_points(globals())
