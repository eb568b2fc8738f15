"""Compiled kernels on NumPy arrays, for tests of what makes them."""

from __future__ import annotations

import ctypes
from itertools import pairwise
from typing import Any

import numpy as np

from tinyfn.devices.cpu import compile_ir
from tinyfn.lower import codegen
from tinyfn.lower.nest import Kernel
from tinyfn.lower.target import host_target
from tinyfn.trace.uop import UOp


def run_kernel(
    kernel: Kernel,
    arrays: dict[UOp, np.ndarray],
    pieces: int = 1,
    opts: codegen.Opts | None = None,
    **facts: int,
) -> codegen.Code:
    """Compute what a kernel stores from what it loads, its points in so many pieces; arrays that are not there become zeros.

    `facts` are those of the target that differ from this machine's."""
    target = host_target()
    code = codegen.generate(kernel, target._replace(**({"vector_bytes": 64} | facts)), opts)
    module = compile_ir(code.ir, target)
    for array in code.arguments:
        if array not in arrays:
            arrays[array] = np.zeros(array.shape, array.dtype)
    addresses = [arrays[a].ctypes.data + code.origin(i) for i, a in enumerate(code.arguments)]
    table = (ctypes.c_void_p * len(addresses))(*addresses)
    call: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        module.function("kernel")
    )
    for begin, end in pairwise([code.points * i // pieces for i in range(pieces + 1)]):
        if begin < end:
            call(ctypes.addressof(table), begin, end)
    if code.finishes:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(module.function("finish"))(ctypes.addressof(table))
    return code
