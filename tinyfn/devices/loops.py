"""Loops that run as one foreign call: as one native function, or as a native loop round the kernels of a body's program."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np

from ..lower.target import host_target
from .buffers import result_maker
from .cpu import compile_ir
from .program import Program
from .runner import loop_runner

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


class KernelLoop:
    """A scan as a native loop round the kernels of its body. Call it with the arrays of constants, first carries and xs.

    The body's program finds its arrays by a table of addresses. Those of xs and ys move from step to step; those of a carry and
    of the next one change places, unless the next one is written over it. What is not written to where it belongs, since it
    belongs to several places or is no result of a kernel, is copied there."""

    def __init__(self, program: Program, body: Any, length: int, constants: int, carries: int, reverse: bool):
        kernels = program.kernels()
        assert kernels is not None
        self._program, self._kernels = program, kernels
        self._length, self._constants, self._carries = length, constants, carries
        layout = program.layout()
        self._makes = {slot: make for slot, make in layout.makes.items() if slot not in layout.outputs}
        shapes = [n.shape if i < carries else (length, *n.shape) for i, n in enumerate(body.outputs)]
        self._results = [result_maker(shape, n.dtype) for shape, n in zip(shapes, body.outputs, strict=True)]
        sizes = [_bytes(node) for node in body.outputs]
        first, count = constants, layout.size
        owned: set[int] = set()
        copies: list[int] = []
        swaps: list[int] = []
        self._targets: list[
            int | None
        ] = []  # the slot of each output's memory; None: it is over its own carry
        for i, slot in enumerate(layout.outputs):
            is_carry = i < carries
            if is_carry and (slot == first + i or layout.in_place.get(slot) == first + i):
                self._targets.append(None)
                owned.add(slot)
                continue
            target = slot
            if slot in owned or slot not in layout.makes:
                target, count = count, count + 1
                copies += [target, slot, sizes[i]]
            owned.add(slot)
            self._targets.append(target)
            if is_carry:
                swaps += [first + i, target]
        self._over = layout.in_place
        strides = [0] * count
        self._begin = [0] * count  # how far from the beginning of their arrays the first step is
        moving = [
            (constants + carries + i, _bytes(n)) for i, n in enumerate(body.inputs[constants + carries :])
        ]
        stacked = zip(self._targets[carries:], sizes[carries:], strict=True)
        moving += [(target, size) for target, size in stacked if target is not None]
        for slot, size in moving:
            strides[slot] = -size if reverse else size
            self._begin[slot] = size * (length - 1) if reverse else 0
        self._count = count
        self._strides, self._copies, self._swaps = (array("q", v or [0]) for v in (strides, copies, swaps))
        self._numbers = len(copies) // 3, len(swaps) // 2
        self._run = loop_runner()

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """The last carries and the stacked ys."""
        constants, carries, length = self._constants, self._carries, self._length
        table = array("q", [0]) * self._count
        held: list[Any] = []

        def put(slot: int, value: np.ndarray) -> np.ndarray:
            held.append(value)
            table[slot] = _address(value) + self._begin[slot]
            return value

        carried = []
        for i, given in enumerate(arrays):
            if constants <= i < constants + carries:
                carried.append(put(i, self._results[i - constants]()))
                np.copyto(carried[-1], given)
            else:
                put(i, np.asarray(given, order="C"))
        for slot, make in self._makes.items():
            put(slot, make())
        memory = [
            None if t is None else put(t, make())
            for t, make in zip(self._targets, self._results, strict=True)
        ]
        for slot, donor in self._over.items():
            table[slot] = table[donor]
        places = [a.buffer_info()[0] for a in (table, self._strides, self._copies, self._swaps)]
        done = 0
        while done < length:
            steps = min(length - done, _STEPS)
            self._run(
                self._kernels.address, places[0], places[1], self._count, places[2], self._numbers[0], places[3],
                self._numbers[1], steps,
            )  # fmt: skip
            done += steps
        results = [
            value if other is None or table[constants + i] == _address(value) else other
            for i, (value, other) in enumerate(zip(carried, memory, strict=False))
        ]
        return [*results, *[stack for stack in memory[carries:] if stack is not None]]


_STEPS = 1 << 12  # after which Python is asked whether somebody wants to stop the loop


def _address(value: np.ndarray) -> int:
    address: int = value.__array_interface__["data"][0]
    return address


def _bytes(node: Any) -> int:
    size: int = node.dtype.itemsize
    for n in node.shape:
        size *= n
    return size


def kernel_loop(
    body: Any,
    host_step: Callable[[Any], Callable[..., Any]],
    length: int,
    constants: int,
    carries: int,
    reverse: bool,
) -> KernelLoop | None:
    """The scan as a native loop round kernels, or None if its body has ops that are no kernels."""
    program = Program(body, host_step, range(constants, constants + carries))
    layout = program.layout()
    own = {slot: constants + i for i, slot in enumerate(layout.outputs[:carries])}
    if any(own.get(slot) != donor for slot, donor in layout.in_place.items()):
        program = Program(body, host_step)  # something else would be written over a carry
    return (
        None if program.kernels() is None else KernelLoop(program, body, length, constants, carries, reverse)
    )
