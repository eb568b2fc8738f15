"""Checkpoints: safetensors files, and pytrees saved to and restored from them by key path.

The module itself can be called: `tinyfn.checkpoint(function)` is the transform `tinyfn.remat`, which users of other
libraries look for under this name.
"""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..trace.errors import entry_methods, entry_points
from .header import Header, TensorInfo
from .safetensors import (
    SafetensorsError,
    safe_load,
    safe_load_metadata,
    safe_save,
)
from .tree import (
    StateDictError,
    get_parameters,
    get_state_dict,
    load_state_dict,
    restore,
    save,
)

__all__ = [
    "Header",
    "SafetensorsError",
    "StateDictError",
    "TensorInfo",
    "get_parameters",
    "get_state_dict",
    "load_state_dict",
    "restore",
    "safe_load",
    "safe_load_metadata",
    "safe_save",
    "save",
]


class _Module(ModuleType):
    def __call__(self, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        from ..transforms.remat import remat

        return remat(function, **options)


entry_methods(_Module, "__call__")


sys.modules[__name__].__class__ = _Module

entry_points(globals())
