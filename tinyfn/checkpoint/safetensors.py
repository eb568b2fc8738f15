"""Read and write safetensors files: strict as the format says, memory-mapped, and replaced atomically.

A file is 8 bytes of little-endian header length N, N bytes of UTF-8 JSON padded with spaces, then the
tensors' bytes back to back in C order. The reader accepts what the reference crate (safetensors 0.8) accepts,
except where the format's own text is stricter than that crate: duplicate keys, whitespace before the `{`, and
tensor entries or dtypes written as anything but an object and a string are refused. The writer's files are
byte-equal to the reference's; several metadata entries keep their order (the reference's is random).

The format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import re
import reprlib
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple, NoReturn

import ml_dtypes
import numpy as np

from ..trace.array import wrap
from .keys import key_names, keys_of, words_and_metadata

MAX_HEADER_SIZE = 100_000_000
_METADATA_KEY = "__metadata__"
_MAX_U64 = 2**64 - 1
_BLOCK_ELEMENTS = 1 << 18
_MAX_JSON_DEPTH = 127

# In the reference's order, which is the writer's sort key: ascending here, descending in a file.
_NUMPY_DTYPES: dict[str, np.dtype[Any]] = {
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
_BITS = {code: 8 * dtype.itemsize for code, dtype in _NUMPY_DTYPES.items()} | _PACKED_BITS
_CODES = {dtype.name: code for code, dtype in _NUMPY_DTYPES.items()}
_RANK = {code: rank for rank, code in enumerate(_NUMPY_DTYPES)}

# A valid surrogate pair, a lone surrogate (the group), or any other escape.
_ESCAPES = re.compile(r"(?i)\\ud[89ab]..\\ud[c-f]..|(\\ud[89a-f]..)|\\.")

Path = str | os.PathLike[str]


class SafetensorsError(ValueError):
    """A file is not valid safetensors: `path` names the file, `reason` says what is wrong with it."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = os.fsdecode(path)
        self.reason = reason
        super().__init__(f"cannot read the safetensors file {self.path!r}: {reason}")

    def __reduce__(self) -> tuple[type[SafetensorsError], tuple[str, str]]:
        return type(self), (self.path, self.reason)


class _Malformed(Exception):
    """The reason why a header is refused, before the file's name is known."""


class TensorInfo(NamedTuple):
    """One tensor's entry in a header: format dtype code, shape, and byte offsets relative to `data_start`."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]

    @property
    def nbytes(self) -> int:
        """The number of bytes that the tensor occupies in the file."""
        return self.data_offsets[1] - self.data_offsets[0]


_Plan = list[tuple[str, TensorInfo]]


class Header(NamedTuple):
    """A validated header: `tensors` in file order, `metadata` (None if absent), sizes in bytes."""

    tensors: dict[str, TensorInfo]
    metadata: dict[str, str] | None
    data_start: int
    file_size: int


def safe_load_metadata(path: Path) -> Header:
    """Read and validate a file's header without reading its data; raises SafetensorsError or OSError."""
    with open(path, "rb") as file:
        return _read_header(file, path)


def safe_load(path: Path) -> dict[str, Any]:
    """Map a file into memory and return its tensors in header order, read-only and read when first touched.

    Raises SafetensorsError for a malformed file and for a tensor that NumPy cannot represent (packed 4- and
    6-bit floats, more than 64 dimensions), OSError if the file cannot be opened.
    """
    with open(path, "rb") as file:
        header = _read_header(file, path)
        mapping = mmap.mmap(file.fileno(), header.file_size, access=mmap.ACCESS_READ)
    arrays = {name: _view(path, mapping, header, name) for name in header.tensors}
    try:
        arrays |= {name: keys_of(arrays[name]) for name in key_names(header.tensors, header.metadata)}
    except ValueError as error:
        raise SafetensorsError(path, str(error)) from None
    return {name: wrap(array) for name, array in arrays.items()}


def safe_save(tensors: Mapping[str, Any], path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays (anything with `__array__`, and random keys) to a file that appears whole or not at all.

    The data goes to a temporary file in the same folder, tensor by tensor, is flushed to the disk, and then
    replaces `path` (a symbolic link's target), whose mode is kept. A failure leaves the old file as it was,
    and saving over a file that `safe_load` has mapped is safe.

    Raises TypeError naming a tensor that is no array or whose dtype the format lacks, TypeError or ValueError
    for a bad name or bad metadata (all before any file is touched), and OSError if writing fails.
    """
    tensors, metadata = words_and_metadata(tensors, metadata)
    plan = sorted(_describe(tensors), key=lambda entry: (-_RANK[entry[1].dtype], entry[0]))
    header = _encode_header(plan, metadata)
    _replace_file(path, _file_blocks(header, plan, tensors))


# Reading


def _read_header(file: BinaryIO, path: Path) -> Header:
    """Parse and validate the header of an open file; raises SafetensorsError."""
    file_size = os.fstat(file.fileno()).st_size
    try:
        if file_size < 8:
            raise _Malformed(f"header too small: the file has {file_size} bytes, the header length takes 8")
        length = int.from_bytes(file.read(8), "little")
        if length > MAX_HEADER_SIZE:
            raise _Malformed(f"header too large: {length} bytes, the limit is {MAX_HEADER_SIZE}")
        if 8 + length > file_size:
            raise _Malformed(f"truncated: the header ends at byte {8 + length}, the file has {file_size}")
        entries = _parse_json(file.read(length))
        metadata = _parse_metadata(entries.pop(_METADATA_KEY, None))
        tensors = {name: _parse_tensor(name, entry) for name, entry in entries.items()}
        _check_layout(tensors, file_size - 8 - length)
    except _Malformed as error:
        raise SafetensorsError(path, str(error)) from None
    return Header(tensors, metadata, 8 + length, file_size)


def _parse_json(raw: bytes) -> dict[str, Any]:
    """Parse JSON as strictly as serde_json does, with no duplicate keys; raises _Malformed."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            duplicate = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise _Malformed(f"duplicate key {duplicate!r} in the header")
        return result

    def real(text: str) -> float:
        value = float(text)
        if math.isinf(value):
            raise _Malformed("header is not JSON: a number is out of range")
        return value

    def integer(text: str) -> int | float:
        # serde_json reads what fits neither u64 nor i64, and minus zero, as a float: no size, no offset.
        value = int(text) if len(text) <= 20 and text != "-0" else None
        return value if value is not None and -(2**63) <= value <= _MAX_U64 else real(text)

    def constant(text: str) -> NoReturn:
        raise _Malformed(f"header is not JSON: {text} is not a JSON value")

    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Malformed(f"header is not UTF-8: {error.reason} at byte {error.start}") from None
    if not text.startswith("{"):
        raise _Malformed("header does not start with '{'")
    try:
        entries: dict[str, Any] = json.loads(
            text, object_pairs_hook=unique, parse_float=real, parse_int=integer, parse_constant=constant
        )
    except json.JSONDecodeError as error:
        raise _Malformed(f"header is not JSON: {error}") from None
    except RecursionError:
        raise _Malformed("header is not JSON: nested too deeply") from None
    if "\\u" in text and any(match[1] for match in _ESCAPES.finditer(text)):
        raise _Malformed("header is not JSON: a string holds a lone surrogate")
    return entries


def _parse_metadata(value: Any) -> dict[str, str] | None:
    """Check that the metadata maps strings to strings; raises _Malformed."""
    if not isinstance(value, dict | None):
        raise _Malformed(f"{_METADATA_KEY} is not a JSON object")
    for key, text in (value or {}).items():
        if not isinstance(text, str):
            raise _Malformed(f"the {_METADATA_KEY} value of {key!r} is not a string")
    return value


def _parse_tensor(name: str, entry: Any) -> TensorInfo:
    """Check the types of one tensor's entry; unknown fields are ignored; raises _Malformed."""
    if not isinstance(entry, dict):
        raise _Malformed(f"the entry of tensor {name!r} is not a JSON object")
    try:
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    except KeyError as error:
        raise _Malformed(f"tensor {name!r} has no {error.args[0]}") from None
    if not isinstance(dtype, str) or dtype not in _BITS:
        raise _Malformed(f"tensor {name!r} has the unknown dtype {reprlib.repr(dtype)}")
    if not _is_sizes(shape):
        raise _Malformed(f"tensor {name!r} has the bad shape {reprlib.repr(shape)}: not unsigned integers")
    if not _is_sizes(offsets) or len(offsets) != 2:
        raise _Malformed(f"tensor {name!r} has the bad data_offsets {reprlib.repr(offsets)}")
    if len(entry) > 3 and not _is_shallow(entry, _MAX_JSON_DEPTH - 1):
        raise _Malformed(f"header is not JSON: the entry of tensor {name!r} is nested too deeply")
    return TensorInfo(dtype, tuple(shape), (offsets[0], offsets[1]))


def _is_sizes(value: Any) -> bool:
    """Say whether a JSON value is a list of unsigned 64-bit integers (a bool is none)."""
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _is_shallow(value: Any, limit: int) -> bool:
    """Say whether a JSON value nests at most `limit` arrays and objects."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return items is None or (limit > 0 and all(_is_shallow(item, limit - 1) for item in items))


def _check_layout(tensors: dict[str, TensorInfo], data_size: int) -> None:
    """Check that the tensors tile the data exactly and have their shapes' sizes; raises _Malformed."""
    position, previous = 0, ""
    for name, info in sorted(tensors.items(), key=lambda item: item[1].data_offsets):
        start, end = info.data_offsets
        if end < start:
            raise _Malformed(f"tensor {name!r} ends at {end}, before its start {start}")
        if start < position:
            raise _Malformed(f"tensor {name!r} overlaps tensor {previous!r} at data byte {start}")
        if start > position:
            raise _Malformed(f"hole in the data before tensor {name!r}, at data byte {position}")
        bits = _BITS[info.dtype]
        elements = 1
        for size in info.shape:
            elements *= size
            if elements > _MAX_U64:
                break
        if elements * bits > _MAX_U64:
            raise _Malformed(f"the size of tensor {name!r} overflows")
        if elements * bits % 8:
            raise _Malformed(f"tensor {name!r} does not fill whole bytes: {elements} of {info.dtype}")
        if end - start != elements * bits // 8:
            needed = f"{info.dtype} of shape {reprlib.repr(list(info.shape))} needs {elements * bits // 8}"
            raise _Malformed(f"tensor {name!r} has {end - start} bytes, but {needed}")
        position, previous = end, name
    if position > data_size:
        raise _Malformed(f"truncated: the tensors need {position} bytes, the data has {data_size}")
    if position < data_size:
        raise _Malformed(f"{data_size - position} trailing bytes after the last tensor")


def _view(path: Path, mapping: mmap.mmap, header: Header, name: str) -> np.ndarray[Any, Any]:
    """Make an array over one tensor's bytes in the mapped file; raises SafetensorsError."""
    info = header.tensors[name]
    if info.dtype not in _NUMPY_DTYPES:
        raise SafetensorsError(path, f"tensor {name!r} has the packed dtype {info.dtype}, which NumPy lacks")
    try:
        offset = header.data_start + info.data_offsets[0]
        return np.ndarray(info.shape, _NUMPY_DTYPES[info.dtype], mapping, offset)
    except (ValueError, OverflowError) as error:
        raise SafetensorsError(path, f"tensor {name!r} has a bad shape for NumPy: {error}") from None


# Writing


def _describe(tensors: Mapping[str, Any]) -> Iterator[tuple[str, TensorInfo]]:
    """Yield each tensor's name and entry, with offsets from 0; raises TypeError or ValueError."""
    for name, value in tensors.items():
        _check_text(name, "tensor name")
        if name == _METADATA_KEY:
            raise ValueError(f"no tensor can be named {_METADATA_KEY!r}: the format keeps that for metadata")
        if not hasattr(value, "__array__") or isinstance(value, type):
            raise TypeError(f"tensor {name!r} is a {type(value).__name__}, not an array")
        dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
        if not isinstance(dtype, np.dtype) or shape is None:
            try:
                array = np.asarray(value)
            except Exception as error:
                raise TypeError(f"tensor {name!r} cannot be turned into a NumPy array: {error}") from error
            dtype, shape = array.dtype, array.shape
        code = _CODES.get(dtype.name)
        if code is None:
            raise TypeError(f"tensor {name!r} has dtype {dtype}, safetensors has only {', '.join(_CODES)}")
        yield name, TensorInfo(code, tuple(shape), (0, math.prod(shape) * dtype.itemsize))


def _check_text(value: Any, what: str) -> None:
    """Check that a value is a string that UTF-8 can hold; raises TypeError or ValueError."""
    if not isinstance(value, str):
        raise TypeError(f"{what} {value!r} is a {type(value).__name__}, not a string")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"{what} {value!r} holds a lone surrogate, which UTF-8 cannot encode") from None


def _encode_header(plan: _Plan, metadata: Mapping[str, str] | None) -> bytes:
    """Encode the header of tensors laid out back to back, with its length; raises TypeError or ValueError."""
    entries: dict[str, Any] = {}
    if metadata is not None:
        for key, text in metadata.items():
            _check_text(key, "metadata key")
            _check_text(text, f"metadata value of {key!r}:")
        entries[_METADATA_KEY] = dict(metadata)
    offset = 0
    for name, info in plan:
        end = offset + info.nbytes
        entries[name] = {"dtype": info.dtype, "shape": info.shape, "data_offsets": (offset, end)}
        offset = end
    raw = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    raw += b" " * (-len(raw) % 8)
    if len(raw) > MAX_HEADER_SIZE:
        raise ValueError(f"the header would have {len(raw)} bytes, readers accept at most {MAX_HEADER_SIZE}")
    return len(raw).to_bytes(8, "little") + raw


def _file_blocks(header: bytes, plan: _Plan, tensors: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the file's bytes in blocks, most of them views; raises RuntimeError if a tensor changed."""
    yield header
    for name, info in plan:
        array = np.asarray(tensors[name])
        if array.shape != info.shape or _CODES.get(array.dtype.name) != info.dtype:
            raise RuntimeError(f"tensor {name!r} changed its shape or dtype while it was being saved")
        yield from _array_blocks(array, _NUMPY_DTYPES[info.dtype])


def _array_blocks(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Yield an array's little-endian C-order bytes: one view if it lies so, else small copies."""
    if array.size == 0:
        return
    if array.flags.c_contiguous and array.dtype == dtype:
        yield array.reshape(-1).view(np.uint8)
        return
    blocks = np.nditer(
        array, ["external_loop", "buffered"], ["readonly"], dtype, "C", "equiv", buffersize=_BLOCK_ELEMENTS
    )
    for block in blocks:
        yield np.ascontiguousarray(block).view(np.uint8)


def _replace_file(path: Path, blocks: Iterator[Any]) -> None:
    """Write blocks to a temporary file beside `path`, then rename it over `path`; raises OSError."""
    target = os.path.realpath(os.fsdecode(path))
    folder = os.path.dirname(target)
    mode = os.stat(target).st_mode if os.path.exists(target) else None
    if mode is not None and not stat.S_ISREG(mode):
        raise OSError(f"cannot save over {target!r}: it is not a regular file")
    temporary = os.path.join(folder, f".{os.urandom(8).hex()}.safetensors.tmp")
    try:
        # The old file may be private: its mode must hold before the first byte is written.
        first_mode = 0o666 if mode is None else 0o600
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, first_mode)) as file:
            if mode is not None:
                os.chmod(temporary, stat.S_IMODE(mode))
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
