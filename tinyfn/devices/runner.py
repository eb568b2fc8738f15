"""The native code that runs the kernels of a program, one after another, by one foreign call.

`Kernels` is the list of what to run, as numbers in one piece of memory that native code reads:

    most arguments of one kernel, number of kernels,
    for each kernel: address, address of its finish (or 0), points, grain, number of arguments,
                     for each argument: index of an array in the list that a call hands over, offset in bytes

Loops and branches are among them: for these points are -1, and the grain is the address of numbers (`flow_runner.py`).

A call hands over the list itself; native code reads the arrays' addresses from it (`layout.py`), or, on a Python whose lists and
arrays look different, a table of addresses made for it. What a call changes is on its own stack, so calls may run at once."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..lower.function import GRAIN
from ..lower.target import host_target
from . import layout
from .cpu import compile_ir
from .threads import DECLARATION, SYMBOL, symbols

if TYPE_CHECKING:
    from .loops import NativeFlow

_FROM_LIST = f"""
  %object.address = getelementptr inbounds ptr, ptr %items, i64 %index
  %object = load ptr, ptr %object.address, align 8
  %base.address = getelementptr inbounds i8, ptr %object, i64 {layout.DATA}
  %base = load ptr, ptr %base.address, align 8
"""
_FROM_TABLE = """
  %base.address = getelementptr inbounds ptr, ptr %items, i64 %index
  %base = load ptr, ptr %base.address, align 8
"""

_RUN = f"""
{DECLARATION}

define internal void @run(ptr %kernels, ptr %items, ptr %context) {{
entry:
  %most = load i64, ptr %kernels, align 8
  %count.address = getelementptr inbounds i64, ptr %kernels, i64 1
  %count = load i64, ptr %count.address, align 8
  %first = getelementptr inbounds i64, ptr %kernels, i64 2
  %table = alloca ptr, i64 %most, align 16
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %loop, label %done
loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %after ]
  %record = phi ptr [ %first, %entry ], [ %record.next, %after ]
  %kernel = load ptr, ptr %record, align 8
  %finish.address = getelementptr inbounds i64, ptr %record, i64 1
  %finish = load ptr, ptr %finish.address, align 8
  %points.address = getelementptr inbounds i64, ptr %record, i64 2
  %points = load i64, ptr %points.address, align 8
  %grain.address = getelementptr inbounds i64, ptr %record, i64 3
  %grain = load i64, ptr %grain.address, align 8
  %arguments.address = getelementptr inbounds i64, ptr %record, i64 4
  %arguments = load i64, ptr %arguments.address, align 8
  %pairs = getelementptr inbounds i64, ptr %record, i64 5
  br label %fill
fill:
  %a = phi i64 [ 0, %loop ], [ %a.next, %fill ]
  %pair = getelementptr inbounds [2 x i64], ptr %pairs, i64 %a
  %index = load i64, ptr %pair, align 8
  %offset.address = getelementptr inbounds i64, ptr %pair, i64 1
  %offset = load i64, ptr %offset.address, align 8
BASE
  %argument = getelementptr inbounds i8, ptr %base, i64 %offset
  %slot = getelementptr inbounds ptr, ptr %table, i64 %a
  store ptr %argument, ptr %slot, align 8
  %a.next = add nuw nsw i64 %a, 1
  %a.more = icmp slt i64 %a.next, %arguments
  br i1 %a.more, label %fill, label %call
call:
  %flows = icmp slt i64 %points, 0
  br i1 %flows, label %flow, label %parallel
flow:
  %numbers = load ptr, ptr %grain.address, align 8
  call void %kernel(ptr %numbers, ptr %table, ptr %context)
  %stopped.address = getelementptr inbounds i64, ptr %context, i64 1
  %stopped = load i64, ptr %stopped.address, align 8
  %stops = icmp ne i64 %stopped, 0
  br i1 %stops, label %done, label %after
parallel:
  call void @{SYMBOL}(ptr %kernel, ptr %table, i64 %points, i64 %grain)
  %finishes = icmp ne ptr %finish, null
  br i1 %finishes, label %last, label %after
last:
  call void %finish(ptr %table)
  br label %after
after:
  %record.next = getelementptr inbounds [2 x i64], ptr %pairs, i64 %arguments
  %k.next = add nuw nsw i64 %k, 1
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
# The same for other native code, which finds arrays by a table of addresses.
RUN_TABLE = _RUN.replace("BASE", _FROM_TABLE)

# 1 if it was stopped, else 0. The context of a call: how much work was done since signals were looked at, whether to stop.
_ENTRY = """
define i64 @tinyfn_run(ptr %kernels, ptr %argument) {
  %context = alloca [2 x i64], align 16
  store [2 x i64] zeroinitializer, ptr %context, align 16
ITEMS
  call void @run(ptr %kernels, ptr %items, ptr %context)
  %stopped.address = getelementptr inbounds i64, ptr %context, i64 1
  %stopped = load i64, ptr %stopped.address, align 8
  ret i64 %stopped
}
"""
_LIST_ITEMS = f"""
  %items.address = getelementptr inbounds i8, ptr %argument, i64 {layout.ITEMS}
  %items = load ptr, ptr %items.address, align 8
"""
_TABLE_ITEMS = """
  %items = getelementptr inbounds i8, ptr %argument, i64 0
"""

# Whether the first arrays of a list are as expected: of class ndarray, contiguous, and of this dtype and shape. `expected` is
# the number of arrays, the class's address, and for each array its dtype's address, the number of its axes, and their sizes.
_MATCHES = f"""
define internal i1 @matches(ptr %expected, ptr %items) {{
entry:
  %count = load i64, ptr %expected, align 8
  %array.address = getelementptr inbounds i64, ptr %expected, i64 1
  %array = load i64, ptr %array.address, align 8
  %first = getelementptr inbounds i64, ptr %expected, i64 2
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %loop, label %yes
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %record = phi ptr [ %first, %entry ], [ %record.next, %next ]
  %object.address = getelementptr inbounds ptr, ptr %items, i64 %i
  %object = load ptr, ptr %object.address, align 8
  %class.address = getelementptr inbounds i8, ptr %object, i64 {layout.TYPE}
  %class = load i64, ptr %class.address, align 8
  %class.right = icmp eq i64 %class, %array
  br i1 %class.right, label %facts, label %no
facts:
  %dtype.address = getelementptr inbounds i8, ptr %object, i64 {layout.DTYPE}
  %dtype = load i64, ptr %dtype.address, align 8
  %dtype.expected = load i64, ptr %record, align 8
  %dtype.right = icmp eq i64 %dtype, %dtype.expected
  %ndim.address = getelementptr inbounds i8, ptr %object, i64 {layout.NDIM}
  %ndim.short = load i32, ptr %ndim.address, align 4
  %ndim = sext i32 %ndim.short to i64
  %ndim.expected.address = getelementptr inbounds i64, ptr %record, i64 1
  %ndim.expected = load i64, ptr %ndim.expected.address, align 8
  %ndim.right = icmp eq i64 %ndim, %ndim.expected
  %flags.address = getelementptr inbounds i8, ptr %object, i64 {layout.FLAGS}
  %flags = load i32, ptr %flags.address, align 4
  %flags.kept = and i32 %flags, {layout.CONTIGUOUS_AND_ALIGNED}
  %flags.right = icmp eq i32 %flags.kept, {layout.CONTIGUOUS_AND_ALIGNED}
  %both = and i1 %dtype.right, %ndim.right
  %all = and i1 %both, %flags.right
  br i1 %all, label %shape, label %no
shape:
  %sizes.address = getelementptr inbounds i8, ptr %object, i64 {layout.SHAPE}
  %sizes = load ptr, ptr %sizes.address, align 8
  %sizes.expected = getelementptr inbounds i64, ptr %record, i64 2
  br label %axes
axes:
  %axis = phi i64 [ 0, %shape ], [ %axis.next, %axis.body ]
  %axis.more = icmp slt i64 %axis, %ndim
  br i1 %axis.more, label %axis.body, label %next
axis.body:
  %size.address = getelementptr inbounds i64, ptr %sizes, i64 %axis
  %size = load i64, ptr %size.address, align 8
  %size.expected.address = getelementptr inbounds i64, ptr %sizes.expected, i64 %axis
  %size.expected = load i64, ptr %size.expected.address, align 8
  %axis.next = add nuw nsw i64 %axis, 1
  %size.right = icmp eq i64 %size, %size.expected
  br i1 %size.right, label %axes, label %no
next:
  %record.next = getelementptr inbounds i64, ptr %sizes.expected, i64 %ndim
  %i.next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %i.next, %count
  br i1 %more, label %loop, label %yes
yes:
  ret i1 true
no:
  ret i1 false
}}

; 1 if the list begins with what is expected.
define i64 @tinyfn_matches(ptr %expected, ptr %list) {{
  %items.address = getelementptr inbounds i8, ptr %list, i64 {layout.ITEMS}
  %items = load ptr, ptr %items.address, align 8
  %right = call i1 @matches(ptr %expected, ptr %items)
  %result = zext i1 %right to i64
  ret i64 %result
}}

; 1 and all kernels have run if it does, 2 if they were stopped; after them, the `outputs` arrays that follow in the list are
; read-only.
define i64 @tinyfn_run_matching(ptr %expected, ptr %kernels, ptr %list, i64 %outputs) {{
entry:
  %items.address = getelementptr inbounds i8, ptr %list, i64 {layout.ITEMS}
  %items = load ptr, ptr %items.address, align 8
  %right = call i1 @matches(ptr %expected, ptr %items)
  br i1 %right, label %go, label %no
go:
  %context = alloca [2 x i64], align 16
  store [2 x i64] zeroinitializer, ptr %context, align 16
  call void @run(ptr %kernels, ptr %items, ptr %context)
  %inputs = load i64, ptr %expected, align 8
  %end = add i64 %inputs, %outputs
  br label %seal
seal:
  %i = phi i64 [ %inputs, %go ], [ %i.next, %seal.body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %seal.body, label %yes
seal.body:
  %object.address = getelementptr inbounds ptr, ptr %items, i64 %i
  %object = load ptr, ptr %object.address, align 8
  %flags.address = getelementptr inbounds i8, ptr %object, i64 {layout.FLAGS}
  %flags = load i32, ptr %flags.address, align 4
  %sealed = and i32 %flags, {~layout.WRITEABLE}
  store i32 %sealed, ptr %flags.address, align 4
  %i.next = add nuw nsw i64 %i, 1
  br label %seal
yes:
  %stopped.address = getelementptr inbounds i64, ptr %context, i64 1
  %stopped = load i64, ptr %stopped.address, align 8
  %result = add i64 %stopped, 1
  ret i64 %result
no:
  ret i64 0
}}
"""


class Runner(NamedTuple):
    """The native functions, called with addresses; the last two are None where the layout of objects is not known."""

    run: Callable[[int, list[Any]], int]
    matches: Callable[[int, int], int] | None
    run_matching: Callable[[int, int, int, int], int] | None


@cache
def runner() -> Runner:
    """The native functions, compiled the first time."""
    known = layout.is_known()
    text = _RUN.replace("BASE", _FROM_LIST if known else _FROM_TABLE)
    text += _ENTRY.replace("ITEMS", _LIST_ITEMS if known else _TABLE_ITEMS)
    if known:
        text += _MATCHES
    module = compile_ir(text, host_target(), symbols=symbols())
    module.keep_forever()
    native = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(module.function("tinyfn_run"))
    if not known:

        def run(kernels: int, arrays: list[Any]) -> int:
            table = array("q", [v.ctypes.data if isinstance(v, np.ndarray) else 0 for v in arrays])
            stopped: int = native(kernels, table.buffer_info()[0])
            return stopped

        return Runner(run, None, None)
    matches = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    matching = ctypes.CFUNCTYPE(
        ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
    )
    return Runner(
        lambda kernels, arrays: native(kernels, id(arrays)),
        matches(module.function("tinyfn_matches")),
        matching(module.function("tinyfn_run_matching")),
    )


class Kernels:
    """Kernels to run one after another, on arrays in a list. `work` is about what they do, without loops and branches."""

    def __init__(self) -> None:
        self._records: list[int] = []
        self._most = 1
        self._held: list[Any] = []
        self.count = 0
        self.work = 0
        self.memory = array("q")
        self.address = 0

    def add(
        self, kernel: int, finish: int, points: int, grain: int, arguments: Sequence[tuple[int, int]]
    ) -> None:
        """One more kernel; its arguments are indices in the list, and offsets."""
        assert arguments, "a kernel writes something"
        self._add((kernel, finish, points, grain), arguments)
        self.work += LEAST + GRAIN * points // grain

    def add_flow(self, flow: NativeFlow, arguments: Sequence[tuple[int, int]]) -> None:
        """A loop, branch or call of a library."""
        self._add((flow.function, 0, -1, flow.numbers), arguments)
        self._held.append(flow)
        self.work += LEAST + flow.work

    def _add(self, head: Sequence[int], arguments: Sequence[tuple[int, int]]) -> None:
        self._records += [*head, len(arguments)]
        for index, offset in arguments:
            self._records += [index, offset]
        self._most = max(self._most, len(arguments))
        self.count += 1

    @property
    def flows(self) -> bool:
        """Whether there are loops or branches among them, which may be stopped."""
        return bool(self._held)

    def complete(self) -> None:
        """No more kernels."""
        self.memory = array("q", [self._most, self.count, *self._records])
        self.address = self.memory.buffer_info()[0]


LEAST = 1 << 10  # the work that it is to call a kernel


def expectation(avals: Sequence[Any]) -> array[int]:
    """What `matches` compares the first arrays of a list with: arrays of these dtypes and shapes."""
    numbers = [len(avals), id(np.ndarray)]
    for aval in avals:
        numbers += [id(aval.dtype), len(aval.shape), *aval.shape]
    return array("q", numbers)
