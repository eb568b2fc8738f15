"""tinyfn: transformations of pure Python functions on arrays.

The examples in docstrings begin with these lines:

>>> import numpy as np
>>> import tinyfn
>>> import tinyfn.numpy as tnp
>>> from tinyfn import fft, lax, linalg, nn, ops, optax_like, random, tree

>>> def loss(w, x, y):
...     return tnp.mean((tnp.tanh(x @ w) - y) ** 2)
>>> step = tinyfn.jit(tinyfn.grad(loss))
>>> step(tnp.zeros(3), tnp.ones((8, 3)), tnp.ones(8))
Array([-2., -2., -2.], dtype=float32)
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import numpy, tree
from .trace.array import Array
from .trace.debug import debug_level, stage_times
from .trace.dtype import float0
from .trace.errors import (
    ConcretizationError,
    DeletedArrayError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerError,
    TracerIntegerConversionError,
    UnboundAxisError,
    UnexpectedTracerError,
    entry_points,
)
from .trace.graph import Graph
from .trace.indexing import NonConcreteBooleanIndexError
from .trace.sint import Variable
from .trace.switches import (
    debug_infs,
    debug_nans,
    disable_jit,
    explain_cache_misses,
    log_compiles,
    no_execution,
    no_tracing,
    numpy_dtype_promotion,
    numpy_rank_promotion,
)
from .trace.tracing import ensure_compile_time_eval, named_scope
from .transforms import (
    ShapeDtypeStruct,
    clear_caches,
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
    make_jaxpr,
    named_call,
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
        config,
        custom_batching,
        custom_derivatives,
        debug,
        dtypes,
        errors,
        experimental,
        export,
        fft,
        flatten_util,
        lax,
        linalg,
        nn,
        ops,
        optax_like,
        profiler,
        random,
        scipy,
        tree_util,
    )
    from .callbacks import io_callback, pure_callback
    from .config import default_matmul_precision, enable_x64
    from .lax import stop_gradient
    from .placement import (
        block_until_ready,
        copy_to_host_async,
        default_backend,
        device_get,
        device_put,
        effects_barrier,
        typeof,
    )
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
    "block_until_ready",
    "checkpoint",
    "checkpoint_policies",
    "checks",
    "clear_caches",
    "closure_convert",
    "config",
    "copy_to_host_async",
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
    "default_backend",
    "default_matmul_precision",
    "device_get",
    "device_put",
    "disable_jit",
    "dtypes",
    "effects_barrier",
    "enable_x64",
    "ensure_compile_time_eval",
    "errors",
    "eval_shape",
    "experimental",
    "explain_cache_misses",
    "export",
    "fft",
    "flatten_util",
    "float0",
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
    "make_jaxpr",
    "named_call",
    "named_scope",
    "nn",
    "no_execution",
    "no_tracing",
    "numpy",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "ops",
    "optax_like",
    "profiler",
    "pure_callback",
    "random",
    "remat",
    "scipy",
    "stage_times",
    "stop_gradient",
    "tree",
    "tree_util",
    "typeof",
    "value_and_grad",
    "vjp",
    "vmap",
]


# Imported when they are first used, so that `import tinyfn` stays quick: modules, and names of modules.
_ON_DEMAND = frozenset(
    (
        "ad_checkpoint",
        "checkpoint",
        "checkpoint_policies",
        "checks",
        "config",
        "custom_batching",
        "custom_derivatives",
        "debug",
        "dtypes",
        "errors",
        "experimental",
        "export",
        "fft",
        "flatten_util",
        "lax",
        "linalg",
        "nn",
        "ops",
        "optax_like",
        "profiler",
        "random",
        "scipy",
        "tree_util",
    )
)
_NAMES = {
    "block_until_ready": "placement",
    "copy_to_host_async": "placement",
    "debug_key_reuse": "random",
    "default_backend": "placement",
    "default_matmul_precision": "config",
    "device_get": "placement",
    "device_put": "placement",
    "effects_barrier": "placement",
    "enable_x64": "config",
    "io_callback": "callbacks",
    "pure_callback": "callbacks",
    "stop_gradient": "lax",
    "typeof": "placement",
}


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return import_module(f".{name}", __name__)
    if name in _NAMES:
        found = "check_key_reuse" if name == "debug_key_reuse" else name
        return getattr(import_module(f".{_NAMES[name]}", __name__), found)
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__]
    )


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


entry_points(globals())
