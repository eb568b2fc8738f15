"""Random keys in safetensors files, which have no dtype for them: a file has their words, uint32[..., 2], and its metadata says
which of its tensors are keys, as JSON from their names to the name of the keys' dtype."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace.array import Array

ENTRY = "tinyfn.keys"


def words_and_metadata(
    tensors: Mapping[str, Any], metadata: Mapping[str, str] | None
) -> tuple[Mapping[str, Any], Mapping[str, str] | None]:
    """What a file has for these tensors and metadata; raises ValueError for metadata that would hide which ones are keys."""
    words = {name: _words(x) for name, x in tensors.items() if getattr(x, "dtype", None) == dtypes.key}
    if not words:
        return tensors, metadata
    if metadata is not None and ENTRY in metadata:
        raise ValueError(f"no metadata can be named {ENTRY!r}: it says which tensors are random keys")
    entry = json.dumps(dict.fromkeys(words, dtypes.KEY_NAME), ensure_ascii=False, separators=(",", ":"))
    return {**tensors, **words}, {**(metadata or {}), ENTRY: entry}


def _words(keys: Any) -> np.ndarray[Any, Any]:
    value = np.ascontiguousarray(keys.value if isinstance(keys, Array) else keys)
    return value.view(np.uint32).reshape(*keys.shape, 2)


def key_names(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None) -> list[str]:
    """Which of a file's tensors are keys; raises ValueError with the reason if its metadata can't be right."""
    entry = (metadata or {}).get(ENTRY)
    if entry is None:
        return []
    try:
        names = json.loads(entry)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its metadata {ENTRY!r} is no JSON: {error}") from None
    if not isinstance(names, dict) or any(name != dtypes.KEY_NAME for name in names.values()):
        raise ValueError(f"its metadata {ENTRY!r} is not from names to {dtypes.KEY_NAME!r}, but {entry}")
    for name in names:
        info = tensors.get(name)
        if info is None or info.dtype != "U32" or info.shape[-1:] != (2,):
            found = "missing" if info is None else f"{info.dtype} of shape {list(info.shape)}"
            raise ValueError(
                f"tensor {name!r} has the words of keys, but is {found}, not U32 of shape [..., 2]"
            )
    return list(names)


def keys_of(words: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Keys of their words; a copy, since a file's tensor may lie anywhere."""
    return np.array(words, np.uint32).view(dtypes.key).reshape(words.shape[:-1])
