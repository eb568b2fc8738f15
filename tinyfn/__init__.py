"""tinyfn: transformations of pure Python functions on arrays.

    import tinyfn
    import tinyfn.numpy as tnp

    def loss(w, x, y):
        return tnp.mean((tnp.tanh(x @ w) - y) ** 2)

    step = tinyfn.jit(tinyfn.grad(loss))
"""

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

__version__ = "0.1.0"

__all__ = [
    "Array", "ConcretizationError", "DeletedArrayError", "Graph", "NonConcreteBooleanIndexError", "ShapeDtypeStruct", "TracerArrayConversionError",
    "TracerBoolConversionError", "TracerError", "TracerIntegerConversionError", "UnexpectedTracerError", "Variable",
    "checkpoint", "custom_jvp", "custom_vjp", "eval_shape", "grad", "hessian", "jacfwd", "jacrev", "jit", "jvp", "lax",
    "linalg", "linearize", "make_graph", "nn", "numpy", "optax_like", "random", "remat", "tree", "value_and_grad", "vjp", "vmap",
]  # fmt: skip
