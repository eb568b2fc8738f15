"""tinyfn: transformations of pure Python functions on arrays.

import tinyfn
import tinyfn.numpy as tnp

def loss(w, x, y):
    return tnp.mean((tnp.tanh(x @ w) - y) ** 2)

step = tinyfn.jit(tinyfn.grad(loss))
"""

from collections.abc import Callable
from typing import Any

from . import checkpoint, lax, linalg, nn, numpy, optax_like, random, tree
from .trace.array import Array
from .trace.errors import (
    ConcretizationError,
    DeletedArrayError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
from .trace.graph import Graph
from .trace.indexing import NonConcreteBooleanIndexError
from .trace.sint import Variable
from .transforms import (
    ShapeDtypeStruct,
    custom_jvp,
    custom_vjp,
    eval_shape,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jit,
    jvp,
    linearize,
    make_graph,
    remat,
    value_and_grad,
    vjp,
    vmap,
)

stop_gradient = lax.stop_gradient

__version__ = "0.1.0"

__all__ = [
    "Array", "ConcretizationError", "DeletedArrayError", "Graph", "NonConcreteBooleanIndexError",
    "ShapeDtypeStruct", "TracerArrayConversionError", "TracerBoolConversionError", "TracerError",
    "TracerIntegerConversionError", "UnexpectedTracerError", "Variable", "checkpoint", "custom_jvp",
    "custom_vjp", "eval_shape", "grad", "hessian", "jacfwd", "jacrev", "jit", "jvp", "lax", "linalg",
    "linearize", "make_graph", "nn", "numpy", "optax_like", "random", "remat", "stop_gradient", "tree",
    "value_and_grad", "vjp", "vmap",
]  # fmt: skip


class _Checkpoint(type(checkpoint)):  # type: ignore[misc]
    """`tinyfn.checkpoint` is the module that saves and restores pytrees; called, it is the transform `remat`.

    Both are what users of other libraries look for under this name."""

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return remat(function)


checkpoint.__class__ = _Checkpoint
