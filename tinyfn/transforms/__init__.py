"""The transforms: graph in, graph out."""

from ..trace.errors import entry_points
from .closures import closure_convert
from .custom_jvp import custom_jvp
from .custom_vjp import custom_gradient, custom_vjp
from .derivatives import grad, value_and_grad
from .inspection import ShapeDtypeStruct, eval_shape, make_graph, make_jaxpr, named_call
from .jacobians import hessian, jacfwd, jacobian, jacrev
from .jit import clear_caches, jit
from .linear import fwd_and_bwd, jvp, linear_transpose, linearize, vjp
from .remat import remat
from .vmap import vmap

__all__ = [
    "ShapeDtypeStruct",
    "clear_caches",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "eval_shape",
    "fwd_and_bwd",
    "grad",
    "hessian",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "linear_transpose",
    "linearize",
    "make_graph",
    "make_jaxpr",
    "named_call",
    "remat",
    "value_and_grad",
    "vjp",
    "vmap",
]

entry_points(globals())
