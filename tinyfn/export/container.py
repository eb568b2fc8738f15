"""The file: safetensors, whose metadata hold the program as JSON, its checksum and the version of the format.

So any reader of safetensors shows what is in it. The arrays are those that the function closed over, and constants."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..checkpoint.safetensors import SafetensorsError, open_bytes, open_file, safe_save, to_bytes
from ..trace import dtype as dtypes
from ..trace.array import Array
from .errors import ExportError

VERSION = 1
_VERSION_KEY = "tinyfn.export"
Path = str | os.PathLike[str]


def _metadata(program: Any) -> dict[str, str]:
    text = json.dumps(program, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return {_VERSION_KEY: str(VERSION), "sha256": checksum, "program": text}


def _stored(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _as_parts(array) for name, array in arrays.items()}


def _as_parts(array: Any) -> Any:
    """An array of a type that safetensors has: for complex128 the two parts along a new last axis."""
    value = array.value if isinstance(array, Array) else array
    if value.dtype != dtypes.complex128:
        return value
    return np.ascontiguousarray(value).view(np.float64).reshape(*value.shape, 2)


def write(path: Path, program: Any, arrays: Mapping[str, Any]) -> None:
    """Write a file, which appears whole or not at all; the arrays are not copied."""
    safe_save(_stored(arrays), path, _metadata(program))


def dump(program: Any, arrays: Mapping[str, Any]) -> bytes:
    """The file's bytes."""
    return to_bytes(_stored(arrays), _metadata(program))


def read(source: Path | bytes) -> tuple[Any, dict[str, np.ndarray]]:
    """The program and the arrays of a file, which is mapped into memory, or of its bytes; raises ExportError.

    The arrays are read-only views of it."""
    try:
        header, arrays = open_bytes(source) if isinstance(source, bytes) else open_file(source)
    except SafetensorsError as error:
        raise ExportError(f"not an exported function: {error}") from None
    metadata = header.metadata or {}
    version = metadata.get(_VERSION_KEY)
    if version is None:
        raise ExportError("not an exported function: a safetensors file without a program")
    if version != str(VERSION):
        raise ExportError(
            f"the file has version {version[:20]} of the format, and this tinyfn reads version {VERSION}"
        )
    text = metadata.get("program", "")
    if hashlib.sha256(text.encode()).hexdigest() != metadata.get("sha256"):
        raise ExportError("the program in the file is damaged: it is not what its checksum is of")
    try:
        program = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ExportError(f"the program in the file is not JSON: {error}") from None
    return program, {name: array.value for name, array in arrays.items()}


def restored(value: np.ndarray, dtype: dtypes.DType) -> np.ndarray:
    """An array of a file as one of its dtype: for complex128 of its parts."""
    if dtype is not dtypes.complex128 or value.dtype != np.float64 or value.shape[-1:] != (2,):
        return value
    return np.ascontiguousarray(value).view(np.complex128).reshape(value.shape[:-1])
