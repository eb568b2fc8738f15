"""CUDA C compiled to machine code by NVRTC, NVIDIA's compiler as a library. It needs no GPU and no driver.

The library comes with `pip install tinyfn[cuda]` (package nvidia-cuda-nvrtc) or a CUDA toolkit.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

# Every operation is rounded on its own, as on other devices: fma only where an expression says so.
OPTIONS = ("--std=c++17", "--fmad=false")


class CudaError(RuntimeError):
    """Something that CUDA could not do; says what and why."""


def _candidates() -> Iterator[str]:
    """Where the library may be: in the packages of this Python, then where the system looks for libraries."""
    for folder in sys.path:
        packages = Path(folder, "nvidia")
        if packages.is_dir():
            for pattern in ("cu*/lib/libnvrtc.so.*", "cuda_nvrtc/lib/libnvrtc.so.*"):
                found = [
                    path
                    for path in packages.glob(pattern)
                    if path.name.removeprefix("libnvrtc.so.").isdigit()
                ]
                yield from map(str, sorted(found, reverse=True))
    yield from ("libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll")


@cache
def _library() -> ctypes.CDLL:
    for name in _candidates():
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        return library
    raise CudaError(
        "no CUDA compiler: the library libnvrtc is neither in an installed package nor where the system looks for libraries; "
        "`pip install tinyfn[cuda]` brings it"
    )


def compiler_version() -> str:
    """The compiler's version: what it makes may differ between versions."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def compile_cuda(source: str, architecture: str) -> bytes:
    """The machine code (a cubin) of CUDA C for an architecture such as "sm_90"; raises CudaError with the compiler's words."""
    library = _library()
    program = ctypes.c_void_p()

    def check(code: int, doing: str, log: str = "") -> None:
        if code:
            reason = library.nvrtcGetErrorString(code).decode()
            raise CudaError(f"NVRTC, {doing}: {reason}{log}")

    check(
        library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None),
        "taking the source",
    )
    try:
        options = [f"--gpu-architecture={architecture}", *OPTIONS]
        table = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        failed = library.nvrtcCompileProgram(program, len(options), table)
        size = ctypes.c_size_t()
        if failed:
            library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            library.nvrtcGetProgramLog(program, log)
            check(failed, f"compiling for {architecture}", f"\n{log.value.decode()}")
        check(library.nvrtcGetCUBINSize(program, ctypes.byref(size)), "giving the code's size")
        code = ctypes.create_string_buffer(size.value)
        check(library.nvrtcGetCUBIN(program, code), "giving the code")
        return code.raw
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
