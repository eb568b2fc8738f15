"""What the tests of safetensors share: arrays of every dtype, and files built by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import tinyfn.checkpoint.safetensors as module

DTYPES: dict[str, Any] = {
    "BOOL": np.bool_,
    "U8": np.uint8,
    "I8": np.int8,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "I16": np.int16,
    "U16": np.uint16,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I32": np.int32,
    "U32": np.uint32,
    "F32": np.float32,
    "C64": np.complex64,
    "F64": np.float64,
    "I64": np.int64,
    "U64": np.uint64,
}
SHAPES: list[tuple[int, ...]] = [(), (1,), (7,), (0,), (2, 0, 3), (3, 5), (2, 1, 4)]
PACKAGE_ROOT = Path(module.__file__).parents[2]


def make(dtype: Any, shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    """An array of random bytes (NaNs of all kinds included), of 0 and 1 for bool."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.random.default_rng(seed).integers(0, 2 if dtype is np.bool_ else 256, count, np.uint8)
    return raw.view(dtype).reshape(shape)


def raw_bytes(array: Any) -> bytes:
    return np.asarray(array).tobytes()


def assert_same(left: Any, right: Any) -> None:
    assert left.dtype == right.dtype
    assert left.shape == right.shape
    assert raw_bytes(left) == raw_bytes(right)


def build(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A file's bytes from a header given as an object, a string or bytes."""
    if not isinstance(header, str | bytes):
        header = json.dumps(header)
    if isinstance(header, str):
        header = header.encode()
    return (len(header) if length is None else length).to_bytes(8, "little") + header + data


def entry(dtype: str = "F32", shape: Any = (), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def no_leftovers(folder: Path) -> bool:
    return not [name for name in os.listdir(folder) if name.endswith(".tmp")]


def run_python(code: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(PACKAGE_ROOT)}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


class Lazy:
    """Anything with `__array__`, counting how often it is asked."""

    def __init__(self, array: Any, described: bool) -> None:
        self.array, self.calls = array, 0
        if described:
            self.dtype, self.shape = array.dtype, array.shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self.calls += 1
        return self.array
