"""The transforms: graph in, graph out."""

from .custom import custom_jvp, custom_vjp
from .derivatives import grad, jvp, linearize, value_and_grad, vjp
from .inspection import ShapeDtypeStruct, eval_shape, make_graph
from .jacobians import hessian, jacfwd, jacrev
from .jit import jit
from .remat import remat
from .vmap import vmap

__all__ = [
    "ShapeDtypeStruct",
    "custom_jvp",
    "custom_vjp",
    "eval_shape",
    "grad",
    "hessian",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "linearize",
    "make_graph",
    "remat",
    "value_and_grad",
    "vjp",
    "vmap",
]
