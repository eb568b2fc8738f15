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
import errno
import io
import json
import math
import mmap
import os
import stat
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np

from ..trace.array import wrap
from .header import (
    CODES,
    MAX_HEADER_SIZE,
    METADATA_KEY,
    NUMPY_DTYPES,
    RANK,
    Header,
    Malformed,
    TensorInfo,
    parse_header,
)
from .keys import key_names, keys_of, words_and_metadata

_BLOCK_ELEMENTS = 1 << 18

Path = str | os.PathLike[str]


class SafetensorsError(ValueError):
    """A file is not valid safetensors: `path` names the file, `reason` says what is wrong with it."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = os.fsdecode(path)
        self.reason = reason
        super().__init__(f"cannot read the safetensors file {self.path!r}: {reason}")

    def __reduce__(self) -> tuple[type[SafetensorsError], tuple[str, str]]:
        return type(self), (self.path, self.reason)


_Plan = list[tuple[str, TensorInfo]]


def safe_load_metadata(path: Path) -> Header:
    """Read and validate a file's header without reading its data; raises SafetensorsError or OSError.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     tinyfn.checkpoint.safe_save({"w": tnp.ones((2, 3))}, path)
    ...     print(tinyfn.checkpoint.safe_load_metadata(path).tensors["w"])
    TensorInfo(dtype='F32', shape=(2, 3), data_offsets=(0, 24))
    """
    with open(path, "rb") as file:
        return _read_header(file, os.fstat(file.fileno()).st_size, path)


def safe_load(path: Path) -> dict[str, Any]:
    """Map a file into memory and return its tensors in header order, read-only and read when first touched.

    Raises SafetensorsError for a malformed file and for a tensor that NumPy cannot represent (packed 4- and
    6-bit floats, more than 64 dimensions), OSError if the file cannot be opened.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     tinyfn.checkpoint.safe_save({"w": np.ones(2, "float16")}, path)
    ...     tensors = tinyfn.checkpoint.safe_load(path)
    ...     print({name: np.asarray(x) for name, x in tensors.items()})
    {'w': array([1., 1.], dtype=float16)}
    """
    return open_file(path)[1]


def open_file(path: Path) -> tuple[Header, dict[str, Any]]:
    """A file's header and, as `safe_load` gives them, its tensors; raises what that does."""
    with open(path, "rb") as file:
        header = _read_header(file, os.fstat(file.fileno()).st_size, path)
        mapping = mmap.mmap(file.fileno(), header.file_size, access=mmap.ACCESS_READ)
    return header, _arrays(path, mapping, header)


def open_bytes(data: bytes) -> tuple[Header, dict[str, Any]]:
    """The same of a file's bytes, of which the tensors are views."""
    header = _read_header(io.BytesIO(data), len(data), "<bytes>")
    return header, _arrays("<bytes>", data, header)


def to_bytes(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of the file that `safe_save` would write; raises TypeError or ValueError as that does."""
    tensors, metadata = words_and_metadata(tensors, metadata)
    plan = _plan(tensors)
    return b"".join(_file_blocks(_encode_header(plan, metadata), plan, tensors))


def safe_save(tensors: Mapping[str, Any], path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays (anything with `__array__`, and random keys) to a file that appears whole or not at all.

    The data goes to a temporary file in the same folder, tensor by tensor, is flushed to the disk, and then
    replaces `path` (a symbolic link's target), whose mode is kept. A failure leaves the old file as it was,
    and saving over a file that `safe_load` has mapped is safe.

    Raises TypeError naming a tensor that is no array or whose dtype the format lacks, TypeError or ValueError
    for a bad name or bad metadata (all before any file is touched), and OSError if writing fails.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     tinyfn.checkpoint.safe_save({"w": tnp.ones((2, 3))}, path, metadata={"epoch": "3"})
    ...     print(os.listdir(folder))
    ['model.safetensors']
    """
    tensors, metadata = words_and_metadata(tensors, metadata)
    plan = _plan(tensors)
    header = _encode_header(plan, metadata)
    _replace_file(path, _file_blocks(header, plan, tensors))


# Reading


def _read_header(file: BinaryIO, size: int, path: Path) -> Header:
    """Parse and validate the header of an open file of this size; raises SafetensorsError."""
    try:
        return parse_header(file, size)
    except Malformed as error:
        raise SafetensorsError(path, str(error)) from None


def _arrays(path: Path, mapping: mmap.mmap | bytes, header: Header) -> dict[str, Any]:
    """The tensors of a file; raises SafetensorsError."""
    arrays = {name: _view(path, mapping, header, name) for name in header.tensors}
    try:
        arrays |= {name: keys_of(arrays[name]) for name in key_names(header.tensors, header.metadata)}
    except ValueError as error:
        raise SafetensorsError(path, str(error)) from None
    return {name: wrap(array) for name, array in arrays.items()}


def _view(path: Path, mapping: mmap.mmap | bytes, header: Header, name: str) -> np.ndarray[Any, Any]:
    """Make an array over one tensor's bytes in the mapped file; raises SafetensorsError."""
    info = header.tensors[name]
    if info.dtype not in NUMPY_DTYPES:
        raise SafetensorsError(path, f"tensor {name!r} has the packed dtype {info.dtype}, which NumPy lacks")
    try:
        offset = header.data_start + info.data_offsets[0]
        return np.ndarray(info.shape, NUMPY_DTYPES[info.dtype], mapping, offset)
    except (ValueError, OverflowError) as error:
        raise SafetensorsError(path, f"tensor {name!r} has a bad shape for NumPy: {error}") from None


# Writing


def _plan(tensors: Mapping[str, Any]) -> _Plan:
    """The entries in the order of the file."""
    return sorted(_describe(tensors), key=lambda entry: (-RANK[entry[1].dtype], entry[0]))


def _describe(tensors: Mapping[str, Any]) -> Iterator[tuple[str, TensorInfo]]:
    """Yield each tensor's name and entry, with offsets from 0; raises TypeError or ValueError."""
    for name, value in tensors.items():
        _check_text(name, "tensor name")
        if name == METADATA_KEY:
            raise ValueError(f"no tensor can be named {METADATA_KEY!r}: the format keeps that for metadata")
        if not hasattr(value, "__array__") or isinstance(value, type):
            raise TypeError(f"tensor {name!r} is a {type(value).__name__}, not an array")
        dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
        if not isinstance(dtype, np.dtype) or shape is None:
            try:
                array = np.asarray(value)
            except Exception as error:
                raise TypeError(f"tensor {name!r} cannot be turned into a NumPy array: {error}") from error
            dtype, shape = array.dtype, array.shape
        code = CODES.get(dtype.name)
        if code is None:
            raise TypeError(f"tensor {name!r} has dtype {dtype}, safetensors has only {', '.join(CODES)}")
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
        entries[METADATA_KEY] = dict(metadata)
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
        if array.shape != info.shape or CODES.get(array.dtype.name) != info.dtype:
            raise RuntimeError(f"tensor {name!r} changed its shape or dtype while it was being saved")
        yield from _array_blocks(array, NUMPY_DTYPES[info.dtype])


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
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "the folder to save into does not exist; make it first", folder)
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
