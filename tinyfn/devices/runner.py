"""The native code that runs the kernels of a program, one after another, by one foreign call.

`Kernels` is the list of what to run, as numbers in one piece of memory that native code reads:

    most arguments of one kernel, number of kernels,
    for each kernel: address, address of its finish (or 0), points, grain, number of arguments,
                     for each argument: index of an array in the list that a call hands over, offset in bytes

A call hands over the list itself; native code reads the arrays' addresses from it (`layout.py`), or, on a Python whose lists and
arrays look different, a table of addresses made for it. What a call changes is on its own stack, so calls may run at once."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..lower.target import host_target
from . import layout
from .cpu import compile_ir
from .threads import DECLARATION, SYMBOL, symbols

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

define internal void @run(ptr %kernels, ptr %items) {{
entry:
  %most = load i64, ptr %kernels, align 8
  %count.address = getelementptr inbounds i64, ptr %kernels, i64 1
  %count = load i64, ptr %count.address, align 8
  %first = getelementptr inbounds i64, ptr %kernels, i64 2
  %table = alloca ptr, i64 %most, align 16
  br label %loop
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

define void @tinyfn_run(ptr %kernels, ptr %argument) {{
ITEMS
  call void @run(ptr %kernels, ptr %items)
  ret void
}}
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

; 1 and all kernels have run if it does; after them, the `outputs` arrays that follow in the list are read-only.
define i64 @tinyfn_run_matching(ptr %expected, ptr %kernels, ptr %list, i64 %outputs) {{
entry:
  %items.address = getelementptr inbounds i8, ptr %list, i64 {layout.ITEMS}
  %items = load ptr, ptr %items.address, align 8
  %right = call i1 @matches(ptr %expected, ptr %items)
  br i1 %right, label %go, label %no
go:
  call void @run(ptr %kernels, ptr %items)
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
  ret i64 1
no:
  ret i64 0
}}
"""


# Kernels again and again, on arrays that are found by a table of addresses. After each step: copies (to and from which entry of
# the table, bytes), swaps of entries, and each entry goes on by its stride.
_LOOP = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @tinyfn_loop(ptr %kernels, ptr %table, ptr %strides, i64 %entries,
                         ptr %copies, i64 %copied, ptr %swaps, i64 %swapped, i64 %steps) {
entry:
  br label %head
head:
  %step = phi i64 [ 0, %entry ], [ %step.next, %after ]
  %step.more = icmp slt i64 %step, %steps
  br i1 %step.more, label %body, label %done
body:
  call void @run(ptr %kernels, ptr %table)
  br label %copy
copy:
  %c = phi i64 [ 0, %body ], [ %c.next, %copy.body ]
  %c.more = icmp slt i64 %c, %copied
  br i1 %c.more, label %copy.body, label %swap
copy.body:
  %record = getelementptr inbounds [3 x i64], ptr %copies, i64 %c
  %to = load i64, ptr %record, align 8
  %from.address = getelementptr inbounds i64, ptr %record, i64 1
  %from = load i64, ptr %from.address, align 8
  %bytes.address = getelementptr inbounds i64, ptr %record, i64 2
  %bytes = load i64, ptr %bytes.address, align 8
  %target.address = getelementptr inbounds ptr, ptr %table, i64 %to
  %target = load ptr, ptr %target.address, align 8
  %source.address = getelementptr inbounds ptr, ptr %table, i64 %from
  %source = load ptr, ptr %source.address, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  %c.next = add nuw nsw i64 %c, 1
  br label %copy
swap:
  %s = phi i64 [ 0, %copy ], [ %s.next, %swap.body ]
  %s.more = icmp slt i64 %s, %swapped
  br i1 %s.more, label %swap.body, label %advance
swap.body:
  %pair = getelementptr inbounds [2 x i64], ptr %swaps, i64 %s
  %one = load i64, ptr %pair, align 8
  %other.address = getelementptr inbounds i64, ptr %pair, i64 1
  %other = load i64, ptr %other.address, align 8
  %one.place = getelementptr inbounds ptr, ptr %table, i64 %one
  %other.place = getelementptr inbounds ptr, ptr %table, i64 %other
  %one.value = load ptr, ptr %one.place, align 8
  %other.value = load ptr, ptr %other.place, align 8
  store ptr %other.value, ptr %one.place, align 8
  store ptr %one.value, ptr %other.place, align 8
  %s.next = add nuw nsw i64 %s, 1
  br label %swap
advance:
  %e = phi i64 [ 0, %swap ], [ %e.next, %advance.body ]
  %e.more = icmp slt i64 %e, %entries
  br i1 %e.more, label %advance.body, label %after
advance.body:
  %stride.address = getelementptr inbounds i64, ptr %strides, i64 %e
  %stride = load i64, ptr %stride.address, align 8
  %place = getelementptr inbounds i64, ptr %table, i64 %e
  %value = load i64, ptr %place, align 8
  %moved = add i64 %value, %stride
  store i64 %moved, ptr %place, align 8
  %e.next = add nuw nsw i64 %e, 1
  br label %advance
after:
  %step.next = add nuw nsw i64 %step, 1
  br label %head
done:
  ret void
}
"""


@cache
def loop_runner() -> Callable[..., None]:
    """`tinyfn_loop`: called with addresses of kernels, table and strides, the number of entries of these, the addresses and
    numbers of copies and swaps, and the number of steps."""
    text = _RUN.replace("BASE", _FROM_TABLE).replace("ITEMS", _TABLE_ITEMS) + _LOOP
    module = compile_ir(text, host_target(), symbols=symbols())
    module.keep_forever()
    address, number = ctypes.c_void_p, ctypes.c_int64
    kinds = (address, address, address, number, address, number, address, number, number)
    return ctypes.CFUNCTYPE(None, *kinds)(module.function("tinyfn_loop"))


class Runner(NamedTuple):
    """The native functions, called with addresses; the last two are None where the layout of objects is not known."""

    run: Callable[[int, list[Any]], None]
    matches: Callable[[int, int], int] | None
    run_matching: Callable[[int, int, int, int], int] | None


@cache
def runner() -> Runner:
    """The native functions, compiled the first time."""
    known = layout.is_known()
    text = _RUN.replace("BASE", _FROM_LIST if known else _FROM_TABLE)
    text = text.replace("ITEMS", _LIST_ITEMS if known else _TABLE_ITEMS)
    if known:
        text += _MATCHES
    module = compile_ir(text, host_target(), symbols=symbols())
    module.keep_forever()
    native = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(module.function("tinyfn_run"))
    if not known:

        def run(kernels: int, arrays: list[Any]) -> None:
            table = array("q", [v.ctypes.data if isinstance(v, np.ndarray) else 0 for v in arrays])
            native(kernels, table.buffer_info()[0])

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
    """Kernels to run one after another, on arrays in a list."""

    def __init__(self) -> None:
        self._records: list[int] = []
        self._most = 1
        self.count = 0
        self.memory = array("q")
        self.address = 0

    def add(
        self, kernel: int, finish: int, points: int, grain: int, arguments: Sequence[tuple[int, int]]
    ) -> None:
        """One more kernel; its arguments are indices in the list, and offsets."""
        assert arguments, "a kernel writes something"
        self._records += [kernel, finish, points, grain, len(arguments)]
        for index, offset in arguments:
            self._records += [index, offset]
        self._most = max(self._most, len(arguments))
        self.count += 1

    def complete(self) -> None:
        """No more kernels."""
        self.memory = array("q", [self._most, self.count, *self._records])
        self.address = self.memory.buffer_info()[0]


def expectation(avals: Sequence[Any]) -> array[int]:
    """What `matches` compares the first arrays of a list with: arrays of these dtypes and shapes."""
    numbers = [len(avals), id(np.ndarray)]
    for aval in avals:
        numbers += [id(aval.dtype), len(aval.shape), *aval.shape]
    return array("q", numbers)
