"""Loops that run as one native function."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..lower.target import host_target
from .buffers import result_maker
from .cpu import compile_ir

_Function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
# Steps of a loop without a known end after which Python is asked whether somebody wants to stop it: some tenths of a second.
MOST_STEPS = 1 << 24


class NativeLoop:
    """A loop as one native function. Call it with the arrays of constants, first carries and xs.

    `text` is its code (`lower.unrolled`). `length` is the number of steps, the most that there may be, or None for any number;
    `body` has the shapes of the results, of which those after the first `carries` are stacked."""

    def __init__(self, text: str, body: Any, length: int | None, constants: int, carries: int):
        self._module = compile_ir(text, host_target())
        self._function = _Function(self._module.function("kernel"))
        self._length, self._constants, self._carries = length, constants, carries
        shapes = [node.shape if i < carries else (length, *node.shape) for i, node in enumerate(body.outputs)]
        self._makes = [
            result_maker(shape, node.dtype) for shape, node in zip(shapes, body.outputs, strict=True)
        ]
        self._table = ctypes.c_void_p * (len(body.inputs) + len(shapes))

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """The last carries and the stacked ys."""
        results = [make() for make in self._makes]
        given = [np.asarray(array, order="C") for array in arrays]
        table = self._table(*[array.__array_interface__["data"][0] for array in (*given, *results)])
        address = ctypes.addressof(table)
        if self._length is not None:
            self._function(address, self._length)
            return results
        while self._function(address, MOST_STEPS) == MOST_STEPS:
            # On from where it is: what the results have are now the first carries.
            for i in range(self._carries):
                table[self._constants + i] = table[len(given) + i]
        return results
