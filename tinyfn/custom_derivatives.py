"""Names that users of JAX look for in `jax.custom_derivatives`."""

from .trace.errors import entry_points
from .transforms.closures import closure_convert
from .transforms.custom import SymbolicZero
from .transforms.custom_jvp import custom_jvp
from .transforms.custom_vjp import CustomVJPPrimal, custom_gradient, custom_vjp, custom_vjp_primal_tree_values

__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "custom_vjp_primal_tree_values",
]


entry_points(globals())
