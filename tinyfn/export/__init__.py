"""Functions as files: traced, written as data, and called in another process without their Python source.

>>> exported = tinyfn.export.export(tnp.sum)(tinyfn.ShapeDtypeStruct((8, 784), "float32"))
>>> blob = exported.serialize()  # or exported.save("sum.safetensors"), which `load` reads
>>> tinyfn.export.deserialize(blob).call(tnp.ones((8, 784)))  # elsewhere; also within grad, vmap and jit
Array(6272., dtype=float32)

`docs/export.md` describes the format.
"""

from __future__ import annotations

from ..trace.errors import entry_points
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

entry_points(globals())
