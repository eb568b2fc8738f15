"""The order of the elements of rows as a step of a program: native code (`lower/sorting.py`), compiled once for each dtype, and
its numbers. Rows are divided among threads."""

from __future__ import annotations

from array import array
from functools import cache
from typing import Any, NamedTuple

from ..lower.flow import Order
from ..lower.function import GRAIN
from ..lower.memory import ALIGNMENT
from ..lower.sorting import row_function, workspace
from ..lower.target import host_target
from .cpu import Module, compile_ir
from .loops import NativeFlow
from .threads import DECLARATION, SYMBOL, symbols

# Up to so many elements of a row are found by a search. To insert one takes time for each that is greater; to sort digit by digit
# takes as much as this for 256 counts of each digit.
_FEW = 64
_RUNS = 64  # of rows, at most: each needs memory of its own
_MEMORY = 1 << 26  # bytes that they have together, unless they are few
_FEWEST = 8


class SortNumbers(NamedTuple):
    """What the native code reads, in this order: for each of `rows` rows of `length` elements the numbers of the first
    `wanted` in order. Threads take `grain` rows at a time, and work in `workspace` bytes for each such run."""

    rows: int
    length: int
    wanted: int
    grain: int
    workspace: int
    itemsize: int


# The rows, by threads. `@row` puts the numbers of one in order.
_ROWS = f"""
{DECLARATION}

define void @sort(ptr %numbers, ptr %arguments, ptr %context) {{
  %both = alloca [2 x ptr], align 16
  store ptr %numbers, ptr %both, align 8
  %both.second = getelementptr inbounds ptr, ptr %both, i64 1
  store ptr %arguments, ptr %both.second, align 8
  %rows = load i64, ptr %numbers, align 8
  %grain.at = getelementptr inbounds i64, ptr %numbers, i64 3
  %grain = load i64, ptr %grain.at, align 8
  call void @{SYMBOL}(ptr @rows, ptr %both, i64 %rows, i64 %grain)
  ret void
}}

define internal void @rows(ptr %both, i64 %begin, i64 %end) {{
entry:
  %numbers = load ptr, ptr %both, align 8
  %both.second = getelementptr inbounds ptr, ptr %both, i64 1
  %arguments = load ptr, ptr %both.second, align 8
  %length.at = getelementptr inbounds i64, ptr %numbers, i64 1
  %length = load i64, ptr %length.at, align 8
  %count.at = getelementptr inbounds i64, ptr %numbers, i64 2
  %count = load i64, ptr %count.at, align 8
  %grain.at = getelementptr inbounds i64, ptr %numbers, i64 3
  %grain = load i64, ptr %grain.at, align 8
  %workspace.at = getelementptr inbounds i64, ptr %numbers, i64 4
  %workspace = load i64, ptr %workspace.at, align 8
  %size.at = getelementptr inbounds i64, ptr %numbers, i64 5
  %size = load i64, ptr %size.at, align 8
  %elements = load ptr, ptr %arguments, align 8
  %results.at = getelementptr inbounds ptr, ptr %arguments, i64 1
  %results = load ptr, ptr %results.at, align 8
  %memory.at = getelementptr inbounds ptr, ptr %arguments, i64 2
  %memory = load ptr, ptr %memory.at, align 8
  %run = udiv i64 %begin, %grain
  %run.offset = mul i64 %run, %workspace
  %work = getelementptr inbounds i8, ptr %memory, i64 %run.offset
  %row.bytes = mul i64 %length, %size
  br label %loop
loop:
  %row = phi i64 [ %begin, %entry ], [ %row.next, %loop ]
  %x.offset = mul i64 %row, %row.bytes
  %x = getelementptr inbounds i8, ptr %elements, i64 %x.offset
  %out.offset = mul i64 %row, %count
  %out = getelementptr inbounds i32, ptr %results, i64 %out.offset
  call void @row(ptr %x, ptr %out, ptr %work, i64 %length, i64 %count)
  %row.next = add nuw nsw i64 %row, 1
  %more = icmp slt i64 %row.next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


def sort_rows(form: Order) -> NativeFlow:
    """What runs it: its arguments are the elements, the result, and the memory to work in."""
    searches = form.wanted <= _FEW
    if searches:
        each = form.length + 64 * form.wanted
    else:
        each = (16 * form.length + 4 * 256) * form.dtype.itemsize
    space = -(-workspace(form.dtype, form.length, form.wanted, searches) // ALIGNMENT) * ALIGNMENT
    runs = min(form.rows, _RUNS, max(_FEWEST, _MEMORY // space))
    grain = max(GRAIN // each, -(-form.rows // runs))
    runs = -(-form.rows // grain)
    numbers = SortNumbers(form.rows, form.length, form.wanted, grain, space, form.dtype.itemsize)
    module, memory = _module(form.dtype, form.descending, searches), array("q", numbers)
    return NativeFlow(
        module.function("sort"),
        memory.buffer_info()[0],
        runs * space,
        (),
        module.size,
        (module, memory),
        form.rows * each,
    )


@cache
def _module(dtype: Any, descending: bool, searches: bool) -> Module:
    return compile_ir(_ROWS + row_function(dtype, descending, searches), host_target(), symbols=symbols())
