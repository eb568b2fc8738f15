"""Programs for NVIDIA GPUs: a graph's kernels launched one after another on one stream, its host ops by their references.

Arrays go to the GPU when a kernel needs them and come back when a host op or the caller does. What a program returns stays on the
GPU as well, as long as the returned array lives: a step that is fed its own results copies nothing to the GPU.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..lower.group import group
from ..lower.nest import Host, View
from ..lower.render_cuda import Code, render
from .cuda_driver import CudaDevice, Memory, cuda_device


class _Resident:
    """The memory on the GPU of arrays that nobody writes to, while they live."""

    def __init__(self) -> None:
        self._memory: dict[int, tuple[weakref.ref[Any], Memory]] = {}

    def find(self, array: np.ndarray) -> Memory | None:
        """The memory of this array, if it is there."""
        found = self._memory.get(id(array))
        return found[1] if found is not None and found[0]() is array else None

    def keep(self, array: np.ndarray, memory: Memory) -> None:
        """Remember where an array's elements are."""
        key = id(array)
        self._memory[key] = weakref.ref(array, lambda _: self._memory.pop(key, None)), memory


RESIDENT = _Resident()


class _Values:
    """The arrays of one call, by slot: on the host, on the GPU or both."""

    def __init__(self, device: CudaDevice, avals: Sequence[Any], values: Sequence[np.ndarray]):
        self.device, self.avals = device, avals
        self.host: list[Any] = [*values, *[None] * (len(avals) - len(values))]
        self.memory: list[Memory | None] = [None] * len(avals)

    def on_gpu(self, slot: int) -> Memory:
        """Where an array is on the GPU; memory of its size if it has not been made yet."""
        memory = self.memory[slot]
        if memory is None:
            value = self.host[slot]
            if value is None:
                node = self.avals[slot]
                memory = self.device.allocate(int(np.prod(node.shape)) * node.dtype.itemsize)
            else:
                memory = RESIDENT.find(value) or self.device.upload(np.asarray(value, order="C"))
                if not value.flags.writeable:
                    RESIDENT.keep(value, memory)
            self.memory[slot] = memory
        return memory

    def on_host(self, slot: int) -> Any:
        """An array's elements, or what a host op gave."""
        if self.host[slot] is None:
            memory, node = self.memory[slot], self.avals[slot]
            assert memory is not None, "a value is made before it is used"
            value = self.device.download(memory, node.shape, node.dtype)
            value.flags.writeable = False
            RESIDENT.keep(value, memory)
            self.host[slot] = value
        return self.host[slot]


class _Launch:
    """A kernel on the arrays of these slots."""

    def __init__(self, device: CudaDevice, code: Code, slots: Sequence[int]):
        self._kernel, self._slots = device.kernel(code), slots

    def run(self, values: _Values) -> None:
        """Launch it."""
        self._kernel.launch([values.on_gpu(i).address for i in self._slots])


class _HostCall:
    """An op that runs by its reference."""

    def __init__(self, function: Callable[..., Any], sources: Sequence[int], target: int):
        self._function, self._sources, self._target = function, sources, target

    def run(self, values: _Values) -> None:
        """Run it."""
        with np.errstate(all="ignore"):
            result = self._function(*[values.on_host(i) for i in self._sources])
        values.host[self._target] = result if isinstance(result, (list, tuple)) else np.asarray(result)


class _View:
    """A value that is another one's memory in another shape."""

    def __init__(self, source: int, target: int, shape: tuple[int, ...]):
        self._source, self._target, self._shape = source, target, shape

    def run(self, values: _Values) -> None:
        """Make it, on whichever side the value is."""
        value = values.host[self._source]
        values.memory[self._target] = values.memory[self._source]
        values.host[self._target] = None if value is None else value.reshape(self._shape)


class CudaProgram:
    """A graph as kernels on the GPU and host ops in order. Call it with the values of the graph's inputs.

    Raises CudaError, which says what is missing, where there is no GPU that it can run on."""

    def __init__(self, graph: Any, host_step: Callable[[Any], Callable[..., Any]]):
        self._device = cuda_device()
        slots: dict[Any, int] = {node: i for i, node in enumerate(graph.inputs)}
        self.texts: list[str] = []
        self._steps: list[_Launch | _HostCall | _View] = []
        last: dict[int, int] = {}  # the last step that uses a slot

        def use(nodes: Sequence[Any]) -> list[int]:
            found = [slots.setdefault(node, len(slots)) for node in nodes]
            last.update(dict.fromkeys(found, len(self._steps)))
            return found

        for step in group(graph):
            if isinstance(step, Host):
                *sources, target = use([*step.node.src, step.node])
                self._steps.append(_HostCall(host_step(step.node), sources, target))
            elif isinstance(step, View):
                source, target = use([step.source, step.node])
                self._steps.append(_View(source, target, step.node.shape))
            else:
                code = render(step)
                self.texts.append(code.source)
                self._steps.append(_Launch(self._device, code, use(code.arguments)))
        self._outputs = use(graph.outputs)
        self._done: list[list[int]] = [[] for _ in range(len(self._steps) + 1)]
        for slot, at in last.items():
            self._done[at].append(slot)
        self._avals = list(slots)

    def __call__(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs' values."""
        with self._device:
            call = _Values(self._device, self._avals, values)
            for step, done in zip(self._steps, self._done, strict=False):
                step.run(call)
                for slot in done:
                    call.memory[slot] = call.host[slot] = None
            return [call.on_host(i) for i in self._outputs]
