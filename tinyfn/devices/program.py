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

from ..lower.nest import Host, Nest, group, size_of
from ..lower.render_llvm import arguments, chunks, render
from ..lower.target import Target, host_target
from .buffers import BUFFERS
from .cpu import compile_ir
from .threads import DECLARATION, SYMBOL, symbols

# Elements that a thread should have at least, for it to be worth waking.
GRAIN = 1 << 15

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


class Program:
    """A graph as native kernels and host ops in order. Call it with the values of the graph's inputs."""

    def __init__(self, graph: Any, host_step: Callable[[Any], Callable[..., Any]]):
        target = host_target()
        self._run = _runner(target)
        self._modules = []
        self.texts: list[str] = []
        slots: dict[Any, int] = {node: i for i, node in enumerate(graph.inputs)}
        self.makes: list[tuple[int, Callable[[], tuple[np.ndarray, int]]]] = []  # slots that kernels write
        self.segments: list[Any] = []
        self.table: list[int] = []
        records: list[int] = []

        def slot(node: Any) -> int:
            return slots.setdefault(node, len(slots))

        def close() -> None:
            if records:
                self.segments.append((array("q", records), len(records) // 4, None, None))
                records.clear()

        for step in group(graph):
            if isinstance(step, Host):
                close()
                sources, function = [slot(s) for s in step.node.src], host_step(step.node)
                self.segments.append((None, 0, function, (sources, slot(step.node))))
                continue
            text, plan = render(step, "kernel", target.vector_bytes)
            module = compile_ir(text, target)
            self._modules.append(module)
            self.texts.append(text)
            points = chunks(step, plan)
            grain = max(1, -(-GRAIN * points // max(1, _work(step))))
            records += [module.function("kernel"), len(self.table), points, grain]
            for node in arguments(step):
                if node not in slots:
                    self.makes.append((slot(node), BUFFERS.maker(node.shape, node.dtype)))
                self.table.append(slot(node))
        close()
        self.size = len(slots)
        self.inputs = len(graph.inputs)
        self.outputs = [slot(node) for node in graph.outputs]

    def __call__(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs' values."""
        slots: list[Any] = [None] * self.size
        for i, value in enumerate(values):
            slots[i] = np.asarray(value, order="C")
        addresses: list[int | None] = [None] * self.size
        for index, maker in self.makes:
            slots[index], addresses[index] = maker()
        for records, count, function, places in self.segments:
            if records is None:
                sources, target = places
                with np.errstate(all="ignore"):
                    result = function(*[slots[i] for i in sources])
                slots[target] = result if isinstance(result, (list, tuple)) else np.asarray(result, order="C")
                continue
            # What later segments compute has no address yet, and no kernel of this one reads it.
            for i in self.table:
                if addresses[i] is None and slots[i] is not None:
                    addresses[i] = slots[i].ctypes.data
            table = array("q", [addresses[i] or 0 for i in self.table])
            self._run(records.buffer_info()[0], count, table.buffer_info()[0])
        return [slots[i] for i in self.outputs]


def _work(nest: Nest) -> int:
    """About how many elements a nest visits."""
    outer = 1
    for o in nest.outer:
        outer *= size_of(o)
    inner = 0
    for each in nest.passes:
        size = 1
        for i in each.inner:
            size *= size_of(i)
        inner += size
    return outer * inner
