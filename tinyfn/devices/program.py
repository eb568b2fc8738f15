"""Programs: a graph compiled for the CPU, whose kernels between two host ops run by one foreign call.

Kernels that are the same up to the names of their arrays have the same text, so they are compiled once. What a call needs is
made once: a record for each kernel (address, where its arguments begin, points, points per chunk) and the list of the arrays
that are its arguments. A call fills one table with the arrays' addresses and hands over records and table.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..lower import codegen, gemm
from ..lower.contraction import contraction
from ..lower.group import group
from ..lower.nest import Host
from ..lower.target import Target, host_target
from .buffers import BUFFERS
from .cpu import compile_ir
from .threads import DECLARATION, SYMBOL, symbols

_RUN = f"""
{DECLARATION}

define void @tinyfn_run(ptr %records, i64 %count, ptr %table) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %record = getelementptr inbounds [4 x i64], ptr %records, i64 %i
  %kernel = load ptr, ptr %record, align 8
  %offset.address = getelementptr inbounds i64, ptr %record, i64 1
  %offset = load i64, ptr %offset.address, align 8
  %n.address = getelementptr inbounds i64, ptr %record, i64 2
  %n = load i64, ptr %n.address, align 8
  %grain.address = getelementptr inbounds i64, ptr %record, i64 3
  %grain = load i64, ptr %grain.address, align 8
  %arguments = getelementptr inbounds ptr, ptr %table, i64 %offset
  call void @{SYMBOL}(ptr %kernel, ptr %arguments, i64 %n, i64 %grain)
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


def _runner(target: Target) -> Callable[..., None]:
    module = compile_ir(_RUN, target, symbols=symbols())
    module.keep_forever()
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(
        module.function("tinyfn_run")
    )


class _Kernels:
    """Kernels that run one after another by one foreign call; `table` lists the slots of their arguments."""

    def __init__(self, run: Callable[..., None]):
        self._run = run
        self._records = array("q")
        self.table: list[int] = []

    def add(self, address: int, arguments: Sequence[int], points: int, grain: int) -> None:
        """One more kernel, on the arrays in these slots."""
        self._records.extend([address, len(self.table), points, grain])
        self.table += arguments

    def run(self, slots: list[Any], addresses: list[int | None]) -> None:
        """Run them."""
        for i in self.table:
            if addresses[i] is None:
                addresses[i] = slots[i].ctypes.data
        table = array("q", [addresses[i] or 0 for i in self.table])
        self._run(self._records.buffer_info()[0], len(self._records) // 4, table.buffer_info()[0])


class _HostCall:
    """An op that runs by its reference."""

    def __init__(self, function: Callable[..., Any], sources: Sequence[int], target: int):
        self._function, self._sources, self._target = function, sources, target

    def run(self, slots: list[Any], addresses: list[int | None]) -> None:
        """Run it."""
        with np.errstate(all="ignore"):
            result = self._function(*[slots[i] for i in self._sources])
        slots[self._target] = result if isinstance(result, (list, tuple)) else np.asarray(result, order="C")


class Program:
    """A graph as native kernels and host ops in order. Call it with the values of the graph's inputs."""

    def __init__(self, graph: Any, host_step: Callable[[Any], Callable[..., Any]]):
        target = host_target()
        run = _runner(target)
        slots: dict[Any, int] = {node: i for i, node in enumerate(graph.inputs)}
        self.texts: list[str] = []
        self._modules: list[Any] = []  # hold the kernels' code
        self._makes: list[
            tuple[int, Callable[[], tuple[np.ndarray, int]]]
        ] = []  # the slots that kernels write
        self._segments: list[_Kernels | _HostCall] = []
        kernels: _Kernels | None = None

        def slot(node: Any) -> int:
            return slots.setdefault(node, len(slots))

        for step in group(graph):
            if isinstance(step, Host):
                product = contraction(step.node)
                if product is None:
                    kernels = None
                    sources = [slot(s) for s in step.node.src]
                    self._segments.append(_HostCall(host_step(step.node), sources, slot(step.node)))
                    continue
                kernel = gemm.generate("kernel", product, target)
                text, used = kernel.ir, (*step.node.src, step.node)
                points, grain = kernel.plan.chunks, kernel.plan.grain
            else:
                text, used, points, grain, *_ = codegen.generate(step, target)
            if kernels is None:
                kernels = _Kernels(run)
                self._segments.append(kernels)
            module = compile_ir(text, target)
            self._modules.append(module)
            self.texts.append(text)
            for node in used:
                if node not in slots:
                    self._makes.append((slot(node), BUFFERS.maker(node.shape, node.dtype)))
            kernels.add(module.function("kernel"), [slot(node) for node in used], points, grain)
        self._outputs = [slot(node) for node in graph.outputs]
        self._size = len(slots)

    def __call__(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs' values."""
        slots: list[Any] = [None] * self._size
        addresses: list[int | None] = [None] * self._size
        for i, value in enumerate(values):
            slots[i] = np.asarray(value, order="C")
        for i, maker in self._makes:
            slots[i], addresses[i] = maker()
        for segment in self._segments:
            segment.run(slots, addresses)
        return [slots[i] for i in self._outputs]
