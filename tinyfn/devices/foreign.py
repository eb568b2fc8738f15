"""Calls of a library's routines (of LAPACK) as steps of a program, for each matrix of a batch: native code, and its numbers.

The code depends on which of a routine's arguments are constants; it is compiled once for each such pattern. It reads

    the routine's address, how many matrices, how many copies, for each: to and from which array, bytes,
    for each of the routine's arguments: address of the constant, or an array's number, an offset, the bytes to the next matrix"""

from __future__ import annotations

import ctypes
from array import array
from functools import cache

from ..lower.flow import Foreign
from ..lower.target import host_target
from .cpu import Module, compile_ir
from .loops import NativeFlow

_LEAST = 1 << 14  # the work that it is to call a routine, in the units of `Code`'s work


def foreign_call(form: Foreign) -> NativeFlow:
    """What runs a call: its arguments are the sources, the results and, if it needs one, the memory to work in."""
    constants = [ctypes.create_string_buffer(a, len(a)) for a in form.arguments if isinstance(a, bytes)]
    addresses = iter([ctypes.addressof(constant) for constant in constants])
    numbers = [form.address, form.times, len(form.copies)]
    for to, source, size in form.copies:
        numbers += [to, source, size]
    for argument in form.arguments:
        if isinstance(argument, bytes):
            numbers.append(next(addresses))
        else:
            number, offset = argument
            numbers += [number, offset, form.strides[number]]
    memory = array("q", numbers)
    module = _module("".join("c" if isinstance(a, bytes) else "a" for a in form.arguments))
    over = tuple([(to - form.sources, source) for to, source, _ in form.copies])
    work = form.times * (_LEAST + form.work)
    return NativeFlow(
        module.function("foreign"),
        memory.buffer_info()[0],
        form.workspace,
        over,
        module.size,
        (module, memory, constants),
        work,
    )


@cache
def _module(pattern: str) -> Module:
    return compile_ir(_text(pattern), host_target())


def _text(pattern: str) -> str:
    """`void (numbers, arguments, context)` for a routine of which the arguments are constants (c) and arrays (a)."""
    before, each, given = [], [], []
    at = 0
    for i, kind in enumerate(pattern):
        names = ("constant",) if kind == "c" else ("number", "offset", "stride")
        for name in names:
            before.append(f"  %{name}.{i}.at = getelementptr inbounds i64, ptr %values, i64 {at}")
            before.append(f"  %{name}.{i} = load i64, ptr %{name}.{i}.at, align 8")
            at += 1
        if kind == "c":
            before.append(f"  %given.{i} = inttoptr i64 %constant.{i} to ptr")
        else:
            before.append(f"  %place.{i} = getelementptr inbounds ptr, ptr %arguments, i64 %number.{i}")
            before.append(f"  %array.{i} = load ptr, ptr %place.{i}, align 8")
            before.append(f"  %first.{i} = getelementptr inbounds i8, ptr %array.{i}, i64 %offset.{i}")
            each.append(f"  %moved.{i} = mul i64 %matrix, %stride.{i}")
            each.append(f"  %given.{i} = getelementptr inbounds i8, ptr %first.{i}, i64 %moved.{i}")
        given.append(f"ptr %given.{i}")
    return f"""
define void @foreign(ptr %numbers, ptr %arguments, ptr %context) {{
entry:
  %routine = load ptr, ptr %numbers, align 8
  %count.at = getelementptr inbounds i64, ptr %numbers, i64 1
  %count = load i64, ptr %count.at, align 8
  %copies.at = getelementptr inbounds i64, ptr %numbers, i64 2
  %copies = load i64, ptr %copies.at, align 8
  %records = getelementptr inbounds i64, ptr %numbers, i64 3
  br label %copy.head
copy.head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %copy.end ]
  %record = getelementptr inbounds [3 x i64], ptr %records, i64 %i
  %more = icmp slt i64 %i, %copies
  br i1 %more, label %copy, label %begin
copy:
  %to = load i64, ptr %record, align 8
  %from.at = getelementptr inbounds i64, ptr %record, i64 1
  %from = load i64, ptr %from.at, align 8
  %bytes.at = getelementptr inbounds i64, ptr %record, i64 2
  %bytes = load i64, ptr %bytes.at, align 8
  %to.place = getelementptr inbounds ptr, ptr %arguments, i64 %to
  %target = load ptr, ptr %to.place, align 8
  %from.place = getelementptr inbounds ptr, ptr %arguments, i64 %from
  %source = load ptr, ptr %from.place, align 8
  %same = icmp eq ptr %target, %source
  br i1 %same, label %copy.end, label %copy.do
copy.do:
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  br label %copy.end
copy.end:
  %i.next = add nuw nsw i64 %i, 1
  br label %copy.head
begin:
  %values = getelementptr inbounds i8, ptr %record, i64 0
{chr(10).join(before)}
  br label %call
call:
  %matrix = phi i64 [ 0, %begin ], [ %matrix.next, %call ]
{chr(10).join(each)}
  call void %routine({", ".join(given)})
  %matrix.next = add nuw nsw i64 %matrix, 1
  %again = icmp slt i64 %matrix.next, %count
  br i1 %again, label %call, label %done
done:
  ret void
}}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
