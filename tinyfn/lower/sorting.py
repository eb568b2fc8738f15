"""The native code that puts the elements of a row in order, as LLVM IR (`devices/sorting.py` runs it).

Elements become *records*, unsigned integers: above, bits that order as the elements do (the *key*), below, the element's number
in its row. No two records are equal, so that any way to sort them gives the one stable order."""

from __future__ import annotations

from ..trace import dtype as dtypes
from ..trace.dtype import DType

_VECTOR = 64  # bytes that the search for the least records looks at together


def workspace(dtype: DType, length: int, count: int, searches: bool) -> int:
    """The bytes that a row needs: for the least records, or for all of them twice and the counts of digits."""
    record = 8 if dtype.itemsize < 8 else 16
    return record * count if searches else 2 * record * length + 256 * 8 * dtype.itemsize


def row_function(dtype: DType, descending: bool, searches: bool) -> str:
    """`void @row(elements, results, memory to work in, length, count)`: the numbers of the first `count` elements, as int32.

    It `searches` for the least records by going through them once, and inserts what is less than the greatest so far among the
    least; else they are sorted digit by digit of the keys, from the last one."""
    return (_search if searches else _by_digits)(dtype, descending)


def _key(name: str, value: str, dtype: DType, descending: bool, lanes: int = 1) -> str:
    """Statements for `%name.key`, of the bits of an element, or of several.

    NaNs are greatest and equal, as -0 and 0 are."""
    bits, kind = 8 * dtype.itemsize, dtypes.kind(dtype)
    sign, ones = 1 << (bits - 1), (1 << bits) - 1
    of = f"i{bits}" if lanes == 1 else f"<{lanes} x i{bits}>"
    flag = "i1" if lanes == 1 else f"<{lanes} x i1>"

    def every(number: int) -> str:
        """A constant, for all lanes."""
        return str(number) if lanes == 1 else f"<{', '.join([f'i{bits} {number}'] * lanes)}>"

    lines = []
    if kind == "float":
        infinity = int.from_bytes(dtype.type(float("inf")).tobytes(), "little")
        lines += [
            f"%{name}.size = and {of} {value}, {every(sign - 1)}",
            f"%{name}.zero = icmp eq {of} %{name}.size, {every(0)}",
            f"%{name}.nan = icmp ugt {of} %{name}.size, {every(infinity)}",
            f"%{name}.bits = select {flag} %{name}.zero, {of} {every(0)}, {of} {value}",
            f"%{name}.signs = ashr {of} %{name}.bits, {every(bits - 1)}",
            f"%{name}.mask = or {of} %{name}.signs, {every(sign)}",
            f"%{name}.number = xor {of} %{name}.bits, %{name}.mask",
            f"%{name}.rising = select {flag} %{name}.nan, {of} {every(ones)}, {of} %{name}.number",
        ]
    else:
        lines.append(f"%{name}.rising = xor {of} {value}, {every(sign if kind == 'signed' else 0)}")
    lines.append(f"%{name}.key = xor {of} %{name}.rising, {every(ones if descending else 0)}")
    return "\n".join(f"  {line}" for line in lines)


def _record(name: str, index: str, dtype: DType, descending: bool) -> str:
    """Statements for `%name.record` of the element at an index."""
    bits, record = 8 * dtype.itemsize, _record_type(dtype)
    return f"""
  %{name}.at = getelementptr inbounds i{bits}, ptr %x, i64 {index}
  %{name}.value = load i{bits}, ptr %{name}.at, align {dtype.itemsize}
{_key(name, f"%{name}.value", dtype, descending)}
  %{name}.wide = zext i{bits} %{name}.key to {record}
  %{name}.high = shl {record} %{name}.wide, {_shift(dtype)}
  %{name}.low = {_as("i64", index, record)}
  %{name}.record = or {record} %{name}.high, %{name}.low"""


def _as(kind: str, value: str, wider: str) -> str:
    """An unsigned number in a type that may be wider."""
    return f"or {kind} {value}, 0" if kind == wider else f"zext {kind} {value} to {wider}"


def _record_type(dtype: DType) -> str:
    return "i64" if dtype.itemsize < 8 else "i128"


def _shift(dtype: DType) -> int:
    return 32 if dtype.itemsize < 8 else 64


def _write(dtype: DType, records: str, before: str) -> str:
    """The numbers in the first `count` records, and the end of the function."""
    record = _record_type(dtype)
    return f"""
write:
  %w = phi i64 [ 0, %{before} ], [ %w.next, %write ]
  %w.at = getelementptr inbounds {record}, ptr {records}, i64 %w
  %w.record = load {record}, ptr %w.at, align 8
  %w.number = trunc {record} %w.record to i32
  %w.to = getelementptr inbounds i32, ptr %out, i64 %w
  store i32 %w.number, ptr %w.to, align 4
  %w.next = add nuw nsw i64 %w, 1
  %w.more = icmp slt i64 %w.next, %count
  br i1 %w.more, label %write, label %done
done:
  ret void
}}
"""


def _search(dtype: DType, descending: bool) -> str:
    bits, record, shift = 8 * dtype.itemsize, _record_type(dtype), _shift(dtype)
    lanes = _VECTOR // dtype.itemsize
    vector = f"<{lanes} x i{bits}>"
    return f"""
; Put a record where it belongs among the first ones, which are in order and of which the one at %last is lost.
define internal void @insert(ptr %least, i64 %last, {record} %new) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ %last, %entry ], [ %before, %move ]
  %to = getelementptr inbounds {record}, ptr %least, i64 %i
  %first = icmp eq i64 %i, 0
  br i1 %first, label %place, label %compare
compare:
  %before = sub i64 %i, 1
  %from = getelementptr inbounds {record}, ptr %least, i64 %before
  %old = load {record}, ptr %from, align 8
  %greater = icmp ugt {record} %old, %new
  br i1 %greater, label %move, label %place
move:
  store {record} %old, ptr %to, align 8
  br label %loop
place:
  store {record} %new, ptr %to, align 8
  ret void
}}

define internal void @row(ptr %x, ptr %out, ptr %work, i64 %length, i64 %count) {{
entry:
  %last = sub i64 %count, 1
  %worst.at = getelementptr inbounds {record}, ptr %work, i64 %last
  br label %fill
fill:
  %f = phi i64 [ 0, %entry ], [ %f.next, %fill ]
{_record("f", "%f", dtype, descending)}
  call void @insert(ptr %work, i64 %f, {record} %f.record)
  %f.next = add nuw nsw i64 %f, 1
  %f.more = icmp slt i64 %f.next, %count
  br i1 %f.more, label %fill, label %vectors
vectors:
  %v = phi i64 [ %count, %fill ], [ %v.next, %following ]
  %v.next = add nuw nsw i64 %v, {lanes}
  %v.fits = icmp sle i64 %v.next, %length
  br i1 %v.fits, label %look, label %single
look:
  %worst = load {record}, ptr %worst.at, align 8
  %worst.high = lshr {record} %worst, {shift}
  %worst.key = trunc {record} %worst.high to i{bits}
  %worst.one = insertelement {vector} poison, i{bits} %worst.key, i64 0
  %worst.all = shufflevector {vector} %worst.one, {vector} poison, <{lanes} x i32> zeroinitializer
  %v.at = getelementptr inbounds i{bits}, ptr %x, i64 %v
  %v.values = load {vector}, ptr %v.at, align {dtype.itemsize}
{_key("v", "%v.values", dtype, descending, lanes)}
  %v.less = icmp ult {vector} %v.key, %worst.all
  %v.hits = bitcast <{lanes} x i1> %v.less to i{lanes}
  %v.some = icmp ne i{lanes} %v.hits, 0
  br i1 %v.some, label %found, label %following
found:
  %mask = phi i{lanes} [ %v.hits, %look ], [ %mask.next, %found.end ]
  %lane = call i{lanes} @llvm.cttz.i{lanes}(i{lanes} %mask, i1 true)
  %lane.wide = {_as(f"i{lanes}", "%lane", "i64")}
  %c.index = add nuw nsw i64 %v, %lane.wide
{_record("c", "%c.index", dtype, descending)}
  %c.worst = load {record}, ptr %worst.at, align 8
  %c.less = icmp ult {record} %c.record, %c.worst
  br i1 %c.less, label %found.insert, label %found.end
found.insert:
  call void @insert(ptr %work, i64 %last, {record} %c.record)
  br label %found.end
found.end:
  %mask.less = sub i{lanes} %mask, 1
  %mask.next = and i{lanes} %mask, %mask.less
  %mask.some = icmp ne i{lanes} %mask.next, 0
  br i1 %mask.some, label %found, label %following
following:
  br label %vectors
single:
  %s = phi i64 [ %v, %vectors ], [ %s.next, %single.end ]
  %s.more = icmp slt i64 %s, %length
  br i1 %s.more, label %single.look, label %write
single.look:
{_record("s", "%s", dtype, descending)}
  %s.worst = load {record}, ptr %worst.at, align 8
  %s.less = icmp ult {record} %s.record, %s.worst
  br i1 %s.less, label %single.insert, label %single.end
single.insert:
  call void @insert(ptr %work, i64 %last, {record} %s.record)
  br label %single.end
single.end:
  %s.next = add nuw nsw i64 %s, 1
  br label %single
{_write(dtype, "%work", "single")}
declare i{lanes} @llvm.cttz.i{lanes}(i{lanes}, i1)
"""


def _by_digits(dtype: DType, descending: bool) -> str:
    record, shift, digits = _record_type(dtype), _shift(dtype), dtype.itemsize
    counted = []
    for d in range(digits):
        counted.append(f"""
  %n{d}.moved = lshr i{8 * digits} %e.key, {8 * d}
  %n{d}.digit = and i{8 * digits} %n{d}.moved, 255
  %n{d}.wide = {_as(f"i{8 * digits}", f"%n{d}.digit", "i64")}
  %n{d}.number = add nuw nsw i64 %n{d}.wide, {256 * d}
  %n{d}.at = getelementptr inbounds i64, ptr %counts, i64 %n{d}.number
  %n{d}.old = load i64, ptr %n{d}.at, align 8
  %n{d}.new = add nuw nsw i64 %n{d}.old, 1
  store i64 %n{d}.new, ptr %n{d}.at, align 8""")
    return f"""
define internal void @row(ptr %x, ptr %out, ptr %work, i64 %length, i64 %count) {{
entry:
  %counts.offset = mul nuw nsw i64 %length, {2 * shift // 4}
  %counts = getelementptr inbounds i8, ptr %work, i64 %counts.offset
  %other.offset = mul nuw nsw i64 %length, {shift // 4}
  %other = getelementptr inbounds i8, ptr %work, i64 %other.offset
  call void @llvm.memset.p0.i64(ptr %counts, i8 0, i64 {256 * 8 * digits}, i1 false)
  br label %encode
encode:
  %e = phi i64 [ 0, %entry ], [ %e.next, %encode ]
{_record("e", "%e", dtype, descending)}
  %e.to = getelementptr inbounds {record}, ptr %work, i64 %e
  store {record} %e.record, ptr %e.to, align 8
{"".join(counted)}
  %e.next = add nuw nsw i64 %e, 1
  %e.more = icmp slt i64 %e.next, %length
  br i1 %e.more, label %encode, label %digit
digit:
  %d = phi i64 [ 0, %encode ], [ %d.next, %digit.end ]
  %from = phi ptr [ %work, %encode ], [ %from.next, %digit.end ]
  %to = phi ptr [ %other, %encode ], [ %to.next, %digit.end ]
  %d.place = add nuw nsw i64 %d, {shift // 8}
  %d.counts.number = shl nuw nsw i64 %d, 8
  %d.counts = getelementptr inbounds i64, ptr %counts, i64 %d.counts.number
  %first.at = getelementptr inbounds i8, ptr %from, i64 %d.place
  %first = load i8, ptr %first.at
  %first.wide = zext i8 %first to i64
  %first.counts = getelementptr inbounds i64, ptr %d.counts, i64 %first.wide
  %first.count = load i64, ptr %first.counts, align 8
  %same = icmp eq i64 %first.count, %length
  br i1 %same, label %digit.end, label %sums
sums:
  %b = phi i64 [ 0, %digit ], [ %b.next, %sums ]
  %sum = phi i64 [ 0, %digit ], [ %sum.next, %sums ]
  %b.at = getelementptr inbounds i64, ptr %d.counts, i64 %b
  %b.count = load i64, ptr %b.at, align 8
  store i64 %sum, ptr %b.at, align 8
  %sum.next = add nuw nsw i64 %sum, %b.count
  %b.next = add nuw nsw i64 %b, 1
  %b.more = icmp slt i64 %b.next, 256
  br i1 %b.more, label %sums, label %move
move:
  %m = phi i64 [ 0, %sums ], [ %m.next, %move ]
  %m.at = getelementptr inbounds {record}, ptr %from, i64 %m
  %m.record = load {record}, ptr %m.at, align 8
  %m.digit.at = getelementptr inbounds i8, ptr %m.at, i64 %d.place
  %m.digit = load i8, ptr %m.digit.at
  %m.wide = zext i8 %m.digit to i64
  %m.place.at = getelementptr inbounds i64, ptr %d.counts, i64 %m.wide
  %m.place = load i64, ptr %m.place.at, align 8
  %m.to = getelementptr inbounds {record}, ptr %to, i64 %m.place
  store {record} %m.record, ptr %m.to, align 8
  %m.place.next = add nuw nsw i64 %m.place, 1
  store i64 %m.place.next, ptr %m.place.at, align 8
  %m.next = add nuw nsw i64 %m, 1
  %m.more = icmp slt i64 %m.next, %length
  br i1 %m.more, label %move, label %digit.end
digit.end:
  %from.next = phi ptr [ %from, %digit ], [ %to, %move ]
  %to.next = phi ptr [ %to, %digit ], [ %from, %move ]
  %d.next = add nuw nsw i64 %d, 1
  %d.more = icmp slt i64 %d.next, {digits}
  br i1 %d.more, label %digit, label %write
{_write(dtype, "%from.next", "digit.end")}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
