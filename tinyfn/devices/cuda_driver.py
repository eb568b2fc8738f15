"""The NVIDIA driver, called through ctypes: memory, machine code and launches on one stream of the first GPU.

libcuda comes with the driver, so nothing needs to be built or installed for this. Everything happens in the GPU's primary
context, which other libraries of the process (pycuda, PyTorch, CuPy) use too. Memory comes from the driver's own pool, in the
order of the stream: memory that is freed is used again by what is launched later.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import threading
import weakref
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ..lower.render_cuda import Code
from .cache import DiskCache, default_folder
from .nvrtc import OPTIONS, CudaError, compile_cuda, compiler_version

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
# The oldest compute capability that the kernels run on (they use bfloat16), times ten.
OLDEST = 80
# Attributes of a device, and the one of a memory pool that says how many bytes it keeps: from cuda.h.
CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76
POOL_RELEASE_THRESHOLD = 4

Address = ctypes.c_uint64
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (ctypes.c_uint,),
    "cuDeviceGetCount": (ctypes.POINTER(ctypes.c_int),),
    "cuDeviceGet": (ctypes.POINTER(ctypes.c_int), ctypes.c_int),
    "cuDeviceGetName": (ctypes.c_char_p, ctypes.c_int, ctypes.c_int),
    "cuDeviceGetAttribute": (ctypes.POINTER(ctypes.c_int), ctypes.c_int, ctypes.c_int),
    "cuDevicePrimaryCtxRetain": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_int),
    "cuCtxPushCurrent_v2": (ctypes.c_void_p,),
    "cuCtxPopCurrent_v2": (ctypes.POINTER(ctypes.c_void_p),),
    "cuStreamCreate": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint),
    "cuStreamSynchronize": (ctypes.c_void_p,),
    "cuDeviceGetDefaultMemPool": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_int),
    "cuMemPoolSetAttribute": (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p),
    "cuMemAllocAsync": (ctypes.POINTER(Address), ctypes.c_size_t, ctypes.c_void_p),
    "cuMemFreeAsync": (Address, ctypes.c_void_p),
    "cuMemsetD8Async": (Address, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p),
    "cuMemcpyHtoDAsync_v2": (Address, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p),
    "cuMemcpyDtoHAsync_v2": (ctypes.c_void_p, Address, ctypes.c_size_t, ctypes.c_void_p),
    "cuModuleLoadData": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p),
    "cuModuleGetFunction": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_char_p),
    "cuLaunchKernel": (
        ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
    ),
    "cuGetErrorString": (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
}  # fmt: skip


class Memory:
    """Memory on the GPU, freed when this object is."""

    def __init__(self, device: CudaDevice, address: int):
        self.address = address
        self._free = weakref.finalize(self, device.free, address)
        self._free.atexit = False  # the process's end frees all


class Kernel:
    """Machine code of a kernel, and the memory of its own."""

    def __init__(self, device: CudaDevice, code: Code):
        self._device, self._code = device, code
        self._function = device.function(code.source)
        self._scratch: Memory | None = None
        if code.scratch:
            self._scratch = device.allocate(code.scratch)
            device.call("cuMemsetD8Async", self._scratch.address, 0, code.scratch, device.stream)

    def launch(self, addresses: Sequence[int]) -> None:
        """Launch it on arrays at these addresses, in the order of the code's arguments."""
        code = self._code
        scratch = [] if self._scratch is None else [self._scratch.address]
        table = np.asarray([*addresses, *scratch], np.uint64)
        held = None
        if code.indirect:
            held = self._device.upload(table)
            table = np.asarray([held.address], np.uint64)
        parameters = (ctypes.c_void_p * 1)(table.ctypes.data)
        self._device.call(
            "cuLaunchKernel", self._function, code.grid, 1, 1, code.block, 1, 1, code.shared, self._device.stream,
            ctypes.addressof(parameters), None,
        )  # fmt: skip


class CudaDevice:
    """The first GPU. While it is entered (`with device:`), its context is this thread's."""

    def __init__(self) -> None:
        try:
            library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise CudaError(
                f"the device cuda needs an NVIDIA GPU and its driver, but {LIBRARY} can't be loaded ({error}); "
                "choose another device with TINYFN_DEVICE or set_default_device"
            ) from None
        self._functions = {name: getattr(library, name) for name in SIGNATURES}
        for name, types in SIGNATURES.items():
            self._functions[name].argtypes = types
        self._process = os.getpid()
        self.call("cuInit", 0)
        count, ordinal = ctypes.c_int(), ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        if not count.value:
            raise CudaError("the device cuda needs an NVIDIA GPU, but the driver finds none")
        self.call("cuDeviceGet", ctypes.byref(ordinal), 0)
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, len(text), ordinal)
        self.name = text.value.decode()
        version = [ctypes.c_int(), ctypes.c_int()]
        for value, attribute in zip(version, (CAPABILITY_MAJOR, CAPABILITY_MINOR), strict=True):
            self.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, ordinal)
        capability = 10 * version[0].value + version[1].value
        if capability < OLDEST:
            raise CudaError(
                f"the device cuda needs a GPU of compute capability {OLDEST / 10} or newer, "
                f"but the {self.name} has {capability / 10}"
            )
        self.architecture = f"sm_{capability}"
        self._context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), ordinal)
        self._loaded: dict[str, ctypes.c_void_p] = {}
        self._lock = threading.Lock()
        self._cache = DiskCache(default_folder())
        with self:
            self.call("cuStreamCreate", ctypes.byref(self.stream), 0)
            # The pool keeps what is freed: asking the system again costs more than most kernels.
            pool, everything = ctypes.c_void_p(), ctypes.c_uint64(2**64 - 1)
            self.call("cuDeviceGetDefaultMemPool", ctypes.byref(pool), ordinal)
            self.call("cuMemPoolSetAttribute", pool, POOL_RELEASE_THRESHOLD, ctypes.addressof(everything))

    def __enter__(self) -> CudaDevice:
        if os.getpid() != self._process:
            raise CudaError(
                "a GPU that a process has opened can't be used by its forks; start processes with spawn"
            )
        self.call("cuCtxPushCurrent_v2", self._context)
        return self

    def __exit__(self, *_: object) -> None:
        self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver; raises CudaError with the driver's words."""
        code = self._functions[name](*arguments)
        if code:
            text = ctypes.c_char_p()
            self._functions["cuGetErrorString"](code, ctypes.byref(text))
            raise CudaError(f"CUDA, {name}: {(text.value or b'unknown error').decode()} (error {code})")

    def allocate(self, size: int) -> Memory:
        """So many bytes (at least one)."""
        address = Address()
        self.call("cuMemAllocAsync", ctypes.byref(address), max(1, size), self.stream)
        return Memory(self, address.value)

    def free(self, address: int) -> None:
        """Give memory back, once what is launched by now is done with it."""
        if os.getpid() == self._process:
            with self:
                self.call("cuMemFreeAsync", address, self.stream)

    def upload(self, array: np.ndarray) -> Memory:
        """A copy of an array that lies in row-major order."""
        memory = self.allocate(array.nbytes)
        self.call("cuMemcpyHtoDAsync_v2", memory.address, array.ctypes.data, array.nbytes, self.stream)
        return memory

    def download(self, memory: Memory, shape: Sequence[int], dtype: Any) -> np.ndarray:
        """A copy of memory as an array, when all that was launched before is done."""
        array = np.empty(shape, dtype)
        self.call("cuMemcpyDtoHAsync_v2", array.ctypes.data, memory.address, array.nbytes, self.stream)
        self.call("cuStreamSynchronize", self.stream)
        return array

    def function(self, source: str) -> ctypes.c_void_p:
        """The function `kernel` of CUDA C, compiled for this GPU: once in a process, and once on a machine."""
        with self, self._lock:
            if source not in self._loaded:
                parts = ["cuda", self.architecture, compiler_version(), *OPTIONS, source]
                key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
                binary = self._cache.load(key)
                if binary is None:
                    binary = compile_cuda(source, self.architecture)
                    self._cache.store(key, binary)
                module, function = ctypes.c_void_p(), ctypes.c_void_p()
                self.call("cuModuleLoadData", ctypes.byref(module), binary)
                self.call("cuModuleGetFunction", ctypes.byref(function), module, b"kernel")
                self._loaded[source] = function
            return self._loaded[source]

    def kernel(self, code: Code) -> Kernel:
        """A kernel that can be launched."""
        with self:
            return Kernel(self, code)


_opening = threading.Lock()


@cache
def _opened() -> CudaDevice:
    return CudaDevice()


def cuda_device() -> CudaDevice:
    """The first GPU, opened once; raises CudaError in plain words where there is none."""
    with _opening:
        return _opened()
