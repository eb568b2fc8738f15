"""Functions as files: traced, written as data, and called in another process without their Python source.

    exported = export(tinyfn.jit(f))(ShapeDtypeStruct((8, 784), "float32"))
    exported.save("f.safetensors")                # or exported.serialize(), as bytes

    load("f.safetensors").call(x)                 # elsewhere; also within grad, vmap and jit

`docs/export.md` describes the format."""

from __future__ import annotations

from .errors import ExportError
from .exported import Exported, deserialize, export, load
from .symbolic import SymbolicScope, symbolic_args_specs, symbolic_shape
from .trees import register_namedtuple_serialization, register_pytree_node_serialization

__all__ = [
    "ExportError",
    "Exported",
    "SymbolicScope",
    "deserialize",
    "export",
    "load",
    "register_namedtuple_serialization",
    "register_pytree_node_serialization",
    "symbolic_args_specs",
    "symbolic_shape",
]
