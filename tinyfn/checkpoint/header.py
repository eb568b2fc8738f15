"""The header of a safetensors file: its dtypes, and parsing it as strictly as the format says."""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections import Counter
from typing import Any, BinaryIO, NamedTuple, NoReturn

import ml_dtypes
import numpy as np

MAX_HEADER_SIZE = 100_000_000
METADATA_KEY = "__metadata__"
_MAX_U64 = 2**64 - 1
_MAX_JSON_DEPTH = 127

# In the reference's order, which is the writer's sort key: ascending here, descending in a file.
NUMPY_DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype("?"), "U8": np.dtype("u1"), "I8": np.dtype("i1"),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2), "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu), "F8_E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "F8_E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "I16": np.dtype("<i2"), "U16": np.dtype("<u2"),
    "F16": np.dtype("<f2"), "BF16": np.dtype(ml_dtypes.bfloat16),
    "I32": np.dtype("<i4"), "U32": np.dtype("<u4"), "F32": np.dtype("<f4"), "C64": np.dtype("<c8"),
    "F64": np.dtype("<f8"), "I64": np.dtype("<i8"), "U64": np.dtype("<u8"),
}  # fmt: skip
# Several elements share bytes, which NumPy cannot view: such tensors are described, never loaded.
_PACKED_BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
_BITS = {code: 8 * dtype.itemsize for code, dtype in NUMPY_DTYPES.items()} | _PACKED_BITS
CODES = {dtype.name: code for code, dtype in NUMPY_DTYPES.items()}
RANK = {code: rank for rank, code in enumerate(NUMPY_DTYPES)}

# A valid surrogate pair, a lone surrogate (the group), or any other escape.
_ESCAPES = re.compile(r"(?i)\\ud[89ab]..\\ud[c-f]..|(\\ud[89a-f]..)|\\.")


class Malformed(Exception):
    """The reason why a header is refused, before the file's name is known."""


class TensorInfo(NamedTuple):
    """One tensor's entry in a header: format dtype code, shape, and byte offsets relative to `data_start`.

    >>> info = tinyfn.checkpoint.TensorInfo(dtype="BF16", shape=(2, 3), data_offsets=(0, 12))
    >>> info.nbytes
    12
    """

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]

    @property
    def nbytes(self) -> int:
        """The number of bytes that the tensor occupies in the file."""
        return self.data_offsets[1] - self.data_offsets[0]


class Header(NamedTuple):
    """A validated header: `tensors` in file order, `metadata` (None if absent), sizes in bytes.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     tinyfn.checkpoint.save(path, {"w": tnp.ones((2, 3))}, metadata={"epoch": "3"})
    ...     header = tinyfn.checkpoint.safe_load_metadata(path)
    >>> header.metadata
    {'epoch': '3'}
    >>> header.tensors
    {'w': TensorInfo(dtype='F32', shape=(2, 3), data_offsets=(0, 24))}
    """

    tensors: dict[str, TensorInfo]
    metadata: dict[str, str] | None
    data_start: int
    file_size: int


def parse_header(file: BinaryIO, file_size: int) -> Header:
    """Parse and validate the header of an open file of this size; raises Malformed."""
    if file_size < 8:
        raise Malformed(f"header too small: the file has {file_size} bytes, the header length takes 8")
    length = int.from_bytes(file.read(8), "little")
    if length > MAX_HEADER_SIZE:
        raise Malformed(f"header too large: {length} bytes, the limit is {MAX_HEADER_SIZE}")
    if 8 + length > file_size:
        raise Malformed(f"truncated: the header ends at byte {8 + length}, the file has {file_size}")
    entries = _parse_json(file.read(length))
    metadata = _parse_metadata(entries.pop(METADATA_KEY, None))
    tensors = {name: _parse_tensor(name, entry) for name, entry in entries.items()}
    _check_layout(tensors, file_size - 8 - length)
    return Header(tensors, metadata, 8 + length, file_size)


def _parse_json(raw: bytes) -> dict[str, Any]:
    """Parse JSON as strictly as serde_json does, with no duplicate keys; raises Malformed."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            duplicate = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise Malformed(f"duplicate key {duplicate!r} in the header")
        return result

    def real(text: str) -> float:
        value = float(text)
        if math.isinf(value):
            raise Malformed("header is not JSON: a number is out of range")
        return value

    def integer(text: str) -> int | float:
        # serde_json reads what fits neither u64 nor i64, and minus zero, as a float: no size, no offset.
        value = int(text) if len(text) <= 20 and text != "-0" else None
        return value if value is not None and -(2**63) <= value <= _MAX_U64 else real(text)

    def constant(text: str) -> NoReturn:
        raise Malformed(f"header is not JSON: {text} is not a JSON value")

    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"header is not UTF-8: {error.reason} at byte {error.start}") from None
    if not text.startswith("{"):
        raise Malformed("header does not start with '{'")
    try:
        entries: dict[str, Any] = json.loads(
            text, object_pairs_hook=unique, parse_float=real, parse_int=integer, parse_constant=constant
        )
    except json.JSONDecodeError as error:
        raise Malformed(f"header is not JSON: {error}") from None
    except RecursionError:
        raise Malformed("header is not JSON: nested too deeply") from None
    if "\\u" in text and any(match[1] for match in _ESCAPES.finditer(text)):
        raise Malformed("header is not JSON: a string holds a lone surrogate")
    return entries


def _parse_metadata(value: Any) -> dict[str, str] | None:
    """Check that the metadata maps strings to strings; raises Malformed."""
    if not isinstance(value, dict | None):
        raise Malformed(f"{METADATA_KEY} is not a JSON object")
    for key, text in (value or {}).items():
        if not isinstance(text, str):
            raise Malformed(f"the {METADATA_KEY} value of {key!r} is not a string")
    return value


def _parse_tensor(name: str, entry: Any) -> TensorInfo:
    """Check the types of one tensor's entry; unknown fields are ignored; raises Malformed."""
    if not isinstance(entry, dict):
        raise Malformed(f"the entry of tensor {name!r} is not a JSON object")
    try:
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    except KeyError as error:
        raise Malformed(f"tensor {name!r} has no {error.args[0]}") from None
    if not isinstance(dtype, str) or dtype not in _BITS:
        raise Malformed(f"tensor {name!r} has the unknown dtype {reprlib.repr(dtype)}")
    if not _is_sizes(shape):
        raise Malformed(f"tensor {name!r} has the bad shape {reprlib.repr(shape)}: not unsigned integers")
    if not _is_sizes(offsets) or len(offsets) != 2:
        raise Malformed(f"tensor {name!r} has the bad data_offsets {reprlib.repr(offsets)}")
    if len(entry) > 3 and not _is_shallow(entry, _MAX_JSON_DEPTH - 1):
        raise Malformed(f"header is not JSON: the entry of tensor {name!r} is nested too deeply")
    return TensorInfo(dtype, tuple(shape), (offsets[0], offsets[1]))


def _is_sizes(value: Any) -> bool:
    """Say whether a JSON value is a list of unsigned 64-bit integers (a bool is none)."""
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _is_shallow(value: Any, limit: int) -> bool:
    """Say whether a JSON value nests at most `limit` arrays and objects."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return items is None or (limit > 0 and all(_is_shallow(item, limit - 1) for item in items))


def _check_layout(tensors: dict[str, TensorInfo], data_size: int) -> None:
    """Check that the tensors tile the data exactly and have their shapes' sizes; raises Malformed."""
    position, previous = 0, ""
    for name, info in sorted(tensors.items(), key=lambda item: item[1].data_offsets):
        start, end = info.data_offsets
        if end < start:
            raise Malformed(f"tensor {name!r} ends at {end}, before its start {start}")
        if start < position:
            raise Malformed(f"tensor {name!r} overlaps tensor {previous!r} at data byte {start}")
        if start > position:
            raise Malformed(f"hole in the data before tensor {name!r}, at data byte {position}")
        bits = _BITS[info.dtype]
        elements = 1
        for size in info.shape:
            elements *= size
            if elements > _MAX_U64:
                break
        if elements * bits > _MAX_U64:
            raise Malformed(f"the size of tensor {name!r} overflows")
        if elements * bits % 8:
            raise Malformed(f"tensor {name!r} does not fill whole bytes: {elements} of {info.dtype}")
        if end - start != elements * bits // 8:
            needed = f"{info.dtype} of shape {reprlib.repr(list(info.shape))} needs {elements * bits // 8}"
            raise Malformed(f"tensor {name!r} has {end - start} bytes, but {needed}")
        position, previous = end, name
    if position > data_size:
        raise Malformed(f"truncated: the tensors need {position} bytes, the data has {data_size}")
    if position < data_size:
        raise Malformed(f"{data_size - position} trailing bytes after the last tensor")
