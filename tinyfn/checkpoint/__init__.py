"""Checkpoints: safetensors files, and pytrees saved to and restored from them by key path."""

from .safetensors import (
    Header,
    SafetensorsError,
    TensorInfo,
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
