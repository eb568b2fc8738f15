"""Runs rendered CUDA C on the CPU: compiles it with g++, and runs the threads of each block as fibres (see cuda_on_cpu.h).

Many kernels are compiled together, since most of g++'s time is its start. A run notices divergent barriers and accesses out of
bounds, and what was not written keeps a pattern that tests don't expect.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from tinyfn.lower.render_cuda import Code

HERE = Path(__file__).parent
COMPILE = [
    "g++", "-std=c++17", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-mf16c", "-mfma", "-fPIC", "-shared", "-w",
]  # fmt: skip
# Orders in which a kernel's threads are run. Its results must be the same in all of them.
ORDERS = (0, 1, 3)


def library_of(source: str, options: Sequence[str], name: str) -> Path:
    """A library compiled from source; what was compiled before is used again."""
    key = hashlib.sha256("\0".join([source, *options]).encode()).hexdigest()[:24]
    folder = Path(tempfile.gettempdir()) / f"tinyfn-cuda-on-cpu-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{name}-{key}.so"
    if not path.exists():
        made = folder / f"{name}-{key}.{os.getpid()}.so"
        command = [*COMPILE, *options, "-x", "c++", "-", "-o", str(made)]
        done = subprocess.run(command, input=source, text=True, capture_output=True)
        if done.returncode:
            raise AssertionError(f"g++ does not compile it:\n{done.stderr[:4000]}")
        made.replace(path)  # another process may have made it meanwhile
    return path


@cache
def _runtime() -> ctypes.CDLL:
    header = (HERE / "cuda_on_cpu.h").read_text()
    source = (HERE / "cuda_on_cpu.cpp").read_text().replace('#include "cuda_on_cpu.h"', "")
    path = library_of(header.replace("#pragma once", "") + source, ["-O2"], "runtime")
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    library.emulator_launch.restype = ctypes.c_char_p
    library.emulator_launch.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_uint,
        ctypes.c_uint,
        ctypes.c_size_t,
    ]
    library.emulator_launch.argtypes += [ctypes.c_int, ctypes.c_int]
    library.emulator_allocate.restype = ctypes.c_void_p
    library.emulator_allocate.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
    library.emulator_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


def _translation_unit(sources: Sequence[str]) -> str:
    """Kernels as C++ with an entry for each, `enter_0`, `enter_1`, ..."""
    parts = [(HERE / "cuda_on_cpu.h").read_text().replace("#pragma once", "")]
    for number, source in enumerate(sources):
        parts.append(
            f"namespace kernel_{number} {{\n#define kernel kernel_{number}_entry\n{source}\n#undef kernel\n"
            f'extern "C" void enter_{number}(const void *given) {{ kernel_{number}_entry(*(const Arguments *)given); }}\n}}\n'
        )
    return "".join(parts)


def compile_for_fake(source: str, architecture: str) -> bytes:
    """What the fake driver takes for machine code."""
    return library_of(_translation_unit([source]), ["-O0"], "kernel").read_bytes()


@cache
def fake_driver() -> Path:
    """The library of a driver whose GPU is the emulator; loads the emulator."""
    _runtime()
    return library_of((HERE / "fake_driver.cpp").read_text(), ["-O1"], "driver")


class Emulated:
    """Kernels that were compiled together; their number says which one is run."""

    def __init__(self, codes: Sequence[Code]):
        _runtime()
        self._numbers = {source: i for i, source in enumerate(dict.fromkeys(code.source for code in codes))}
        path = library_of(_translation_unit(list(self._numbers)), ["-O0"], "kernels")
        self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL)

    def run(self, code: Code, arrays: Sequence[np.ndarray], order: int = 0) -> list[np.ndarray]:
        """The arguments as they are after a launch (arguments that are one array share their memory).

        Raises AssertionError if the kernel does something that a GPU would not forgive."""
        runtime = _runtime()
        values = [*arrays, np.zeros(code.scratch, np.uint8)] if code.scratch else list(arrays)
        memory: dict[int, tuple[int, np.ndarray]] = {}
        for value in values:
            if id(value) not in memory:
                address = runtime.emulator_allocate(value.nbytes, 16)  # as vectors need it
                memory[id(value)] = address, value
                ctypes.memmove(address, np.ascontiguousarray(value).ctypes.data, value.nbytes)
        table = (ctypes.c_void_p * max(1, len(values)))(*[memory[id(value)][0] for value in values])
        given = (ctypes.c_void_p * 1)(ctypes.addressof(table)) if code.indirect else table
        entry = ctypes.cast(self._library[f"enter_{self._numbers[code.source]}"], ctypes.c_void_p)
        waits = "__sync" in code.source or "__shfl" in code.source or "matrix_multiply" in code.source
        message = runtime.emulator_launch(entry, given, code.grid, code.block, code.shared, waits, order)
        results, beside = {}, 0
        for key, (address, value) in memory.items():
            results[key] = np.empty(value.shape, value.dtype)
            ctypes.memmove(results[key].ctypes.data, address, value.nbytes)
            beside += runtime.emulator_free(address, value.nbytes)
        assert not message, message.decode()
        assert not beside, "something was written beside an array"
        return [results[id(value)] for value in arrays]


def unwritten(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """An array as it is before anything was written."""
    size = int(np.prod(shape)) * dtype.itemsize
    return np.full(size, 0xCB, np.uint8).view(dtype).reshape(tuple(shape))
