"""tinyfn: transformations of pure Python functions on arrays.

import tinyfn
import tinyfn.numpy as tnp

def loss(w, x, y):
    return tnp.mean((tnp.tanh(x @ w) - y) ** 2)

step = tinyfn.jit(tinyfn.grad(loss))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import numpy, tree
from .trace.array import Array
from .trace.debug import debug_level, stage_times
from .trace.errors import (
    ConcretizationError,
    DeletedArrayError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerError,
    TracerIntegerConversionError,
    UnboundAxisError,
    UnexpectedTracerError,
)
from .trace.graph import Graph
from .trace.indexing import NonConcreteBooleanIndexError
from .trace.sint import Variable
from .trace.switches import debug_infs, debug_nans, disable_jit, log_compiles, no_tracing
from .transforms import (
    ShapeDtypeStruct,
    closure_convert,
    custom_gradient,
    custom_jvp,
    custom_vjp,
    eval_shape,
    fwd_and_bwd,
    grad,
    hessian,
    jacfwd,
    jacobian,
    jacrev,
    jit,
    jvp,
    linear_transpose,
    linearize,
    make_graph,
    remat,
    value_and_grad,
    vjp,
    vmap,
)

if TYPE_CHECKING:
    from . import (
        ad_checkpoint,
        checkpoint,
        checkpoint_policies,
        checks,
        custom_batching,
        custom_derivatives,
        debug,
        dtypes,
        experimental,
        export,
        fft,
        flatten_util,
        lax,
        linalg,
        nn,
        ops,
        optax_like,
        random,
        scipy,
        tree_util,
    )
    from .callbacks import io_callback, pure_callback
    from .lax import stop_gradient
    from .random import check_key_reuse as debug_key_reuse

__version__ = "0.1.0"

__all__ = [
    "Array",
    "ConcretizationError",
    "DeletedArrayError",
    "Graph",
    "NonConcreteBooleanIndexError",
    "ShapeDtypeStruct",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerError",
    "TracerIntegerConversionError",
    "UnboundAxisError",
    "UnexpectedTracerError",
    "Variable",
    "ad_checkpoint",
    "checkpoint",
    "checkpoint_policies",
    "checks",
    "closure_convert",
    "custom_batching",
    "custom_derivatives",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "debug_infs",
    "debug_key_reuse",
    "debug_level",
    "debug_nans",
    "disable_jit",
    "dtypes",
    "eval_shape",
    "experimental",
    "export",
    "fft",
    "flatten_util",
    "fwd_and_bwd",
    "grad",
    "hessian",
    "io_callback",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "lax",
    "linalg",
    "linear_transpose",
    "linearize",
    "log_compiles",
    "make_graph",
    "nn",
    "no_tracing",
    "numpy",
    "ops",
    "optax_like",
    "pure_callback",
    "random",
    "remat",
    "scipy",
    "stage_times",
    "stop_gradient",
    "tree",
    "tree_util",
    "value_and_grad",
    "vjp",
    "vmap",
]


# Imported when they are first used, so that `import tinyfn` stays quick.
_ON_DEMAND = frozenset(
    (
        "ad_checkpoint",
        "checkpoint",
        "checkpoint_policies",
        "checks",
        "custom_batching",
        "custom_derivatives",
        "debug",
        "dtypes",
        "experimental",
        "export",
        "fft",
        "flatten_util",
        "lax",
        "linalg",
        "nn",
        "ops",
        "optax_like",
        "random",
        "scipy",
        "tree_util",
    )
)


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return import_module(f".{name}", __name__)
    if name in ("io_callback", "pure_callback"):
        return getattr(import_module(".callbacks", __name__), name)
    if name == "debug_key_reuse":
        return import_module(".random", __name__).check_key_reuse
    if name == "stop_gradient":
        return import_module(".lax", __name__).stop_gradient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
