"""What native code does for loops and branches, as LLVM IR, and the numbers that it reads (`flow_runner.py`)."""

from __future__ import annotations

from typing import NamedTuple

# How much work there is between two looks at signals, in the units of `Code`'s work: about a tenth of a second.
BUDGET = 1 << 31


class LoopNumbers(NamedTuple):
    """What the native loop reads, in this order. Each pair of an address and a count is a list of records.

    The body's kernels find their arrays by a table of `entries` addresses. `inits` has for each of them an argument, or -1 for
    none, and an offset in bytes. Then `starts` (entry, argument, bytes) copy arguments to where the first carries belong. `test`
    are kernels to run before the first step, if any. The loop ends after `length` steps, or before a step at which the byte
    that the entry `flag` points to is 0 (-1: there is none). After the kernels of a step `copies` (to and from which
    entry, bytes), `swaps` of two entries, and `moves` (entry, bytes) of entries. At last `ends` (argument, entry, bytes)
    copy what is not where it belongs. A step does `work`, without what its inner loops do."""

    entries: int
    inits: int
    starts: int
    starts_count: int
    test: int
    body: int
    length: int
    flag: int
    copies: int
    copies_count: int
    swaps: int
    swaps_count: int
    moves: int
    moves_count: int
    ends: int
    ends_count: int
    work: int


class FunctionNumbers(NamedTuple):
    """What runs a loop that is one native function, `i64 (arguments, begin, end, length)`, which gives the number of steps done.

    It is called for at most `most` steps at a time; a step does `work`. The loop's `carries` are the arguments from `first` on;
    its last ones, those from `last` on."""

    function: int
    length: int
    most: int
    work: int
    first: int
    last: int
    carries: int


def _fields(numbers: type[NamedTuple]) -> str:
    """Statements that read all of a record's numbers."""
    lines = []
    for i, name in enumerate(numbers._fields):
        lines.append(f"  %{name}.field = getelementptr inbounds i64, ptr %numbers, i64 {i}")
        lines.append(f"  %{name} = load i64, ptr %{name}.field, align 8")
    return "\n".join(lines)


def _for_each(name: str, before: str, width: int, body: str, after: str) -> str:
    """A loop over the records, of `width` numbers %a, %b, ..., of the list `name`; it begins as a block of that name."""
    reads = []
    for i in range(width):
        letter = "abc"[i]
        reads.append(f"  %{name}.{letter}.at = getelementptr inbounds i64, ptr %{name}.record, i64 {i}")
        reads.append(f"  %{name}.{letter} = load i64, ptr %{name}.{letter}.at, align 8")
    return f"""
{name}.begin:
  %{name}.list = inttoptr i64 %{name} to ptr
  br label %{name}.head
{name}.head:
  %{name}.i = phi i64 [ 0, %{name}.begin ], [ %{name}.next, %{name}.end ]
  %{name}.more = icmp slt i64 %{name}.i, %{before}
  br i1 %{name}.more, label %{name}.body, label %{after}
{name}.body:
  %{name}.record = getelementptr inbounds [{width} x i64], ptr %{name}.list, i64 %{name}.i
{_NEWLINE.join(reads)}
{body}
  br label %{name}.end
{name}.end:
  %{name}.next = add nuw nsw i64 %{name}.i, 1
  br label %{name}.head
"""


_NEWLINE = "\n"


def _copy(name: str, to: str, source: str) -> str:
    """A copy of %c bytes from one address to another, unless they are the same."""
    return f"""
  %{name}.to = load ptr, ptr {to}, align 8
  %{name}.from = load ptr, ptr {source}, align 8
  %{name}.same = icmp eq ptr %{name}.to, %{name}.from
  br i1 %{name}.same, label %{name}.end, label %{name}.copy
{name}.copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %{name}.to, ptr %{name}.from, i64 %{name}.c, i1 false)"""


def _place(name: str, letter: str, table: str) -> str:
    return f"  %{name}.{letter}.place = getelementptr inbounds ptr, ptr %{table}, i64 %{name}.{letter}"


_LOOP = f"""
define internal void @loop(ptr %numbers, ptr %arguments, ptr %context) {{
entry:
{_fields(LoopNumbers)}
  %table = alloca ptr, i64 %entries, align 16
  %test.kernels = inttoptr i64 %test to ptr
  %body.kernels = inttoptr i64 %body to ptr
  br label %inits.begin
{
    _for_each(
        "inits",
        "entries",
        2,
        f'''
{_place("inits", "a", "arguments")}
  %inits.none = icmp slt i64 %inits.a, 0
  br i1 %inits.none, label %inits.end, label %inits.some
inits.some:
  %inits.base = load ptr, ptr %inits.a.place, align 8
  %inits.address = getelementptr inbounds i8, ptr %inits.base, i64 %inits.b
  %inits.place = getelementptr inbounds ptr, ptr %table, i64 %inits.i
  store ptr %inits.address, ptr %inits.place, align 8''',
        "starts.begin",
    )
}
{
    _for_each(
        "starts",
        "starts_count",
        3,
        _place("starts", "a", "table")
        + _NEWLINE
        + _place("starts", "b", "arguments")
        + _copy("starts", "%starts.a.place", "%starts.b.place"),
        "begin",
    )
}
begin:
  %tests = icmp ne ptr %test.kernels, null
  br i1 %tests, label %test.run, label %head
test.run:
  call void @run(ptr %test.kernels, ptr %table, ptr %context)
  br label %head
head:
  %step = phi i64 [ 0, %begin ], [ 0, %test.run ], [ %step.next, %after ]
  %step.more = icmp ult i64 %step, %length
  br i1 %step.more, label %condition, label %ends.begin
condition:
  %flagged = icmp sge i64 %flag, 0
  br i1 %flagged, label %flag.read, label %step.run
flag.read:
  %flag.place = getelementptr inbounds ptr, ptr %table, i64 %flag
  %flag.address = load ptr, ptr %flag.place, align 8
  %flag.value = load i8, ptr %flag.address
  %flag.holds = icmp ne i8 %flag.value, 0
  br i1 %flag.holds, label %step.run, label %ends.begin
step.run:
  call void @run(ptr %body.kernels, ptr %table, ptr %context)
  %is.over = call i1 @worked(ptr %context, i64 %work)
  br i1 %is.over, label %done, label %copies.begin
{
    _for_each(
        "copies",
        "copies_count",
        3,
        _place("copies", "a", "table")
        + _NEWLINE
        + _place("copies", "b", "table")
        + _copy("copies", "%copies.a.place", "%copies.b.place"),
        "swaps.begin",
    )
}
{
    _for_each(
        "swaps",
        "swaps_count",
        2,
        f'''
{_place("swaps", "a", "table")}
{_place("swaps", "b", "table")}
  %swaps.a.value = load ptr, ptr %swaps.a.place, align 8
  %swaps.b.value = load ptr, ptr %swaps.b.place, align 8
  store ptr %swaps.b.value, ptr %swaps.a.place, align 8
  store ptr %swaps.a.value, ptr %swaps.b.place, align 8''',
        "moves.begin",
    )
}
{
    _for_each(
        "moves",
        "moves_count",
        2,
        f'''
{_place("moves", "a", "table")}
  %moves.value = load ptr, ptr %moves.a.place, align 8
  %moves.moved = getelementptr i8, ptr %moves.value, i64 %moves.b
  store ptr %moves.moved, ptr %moves.a.place, align 8''',
        "after",
    )
}
after:
  %step.next = add nuw i64 %step, 1
  br label %head
{
    _for_each(
        "ends",
        "ends_count",
        3,
        _place("ends", "a", "arguments")
        + _NEWLINE
        + _place("ends", "b", "table")
        + _copy("ends", "%ends.a.place", "%ends.b.place"),
        "done",
    )
}
done:
  ret void
}}

define void @tinyfn_loop(ptr %numbers, ptr %arguments, ptr %context) {{
  call void @loop(ptr %numbers, ptr %arguments, ptr %context)
  ret void
}}
"""

# The numbers: how many branches, which argument has the index (-1: none), and for each branch the address of a loop's numbers.
_BRANCH = """
define void @tinyfn_branch(ptr %numbers, ptr %arguments, ptr %context) {
entry:
  %count = load i64, ptr %numbers, align 8
  %index.field = getelementptr inbounds i64, ptr %numbers, i64 1
  %index = load i64, ptr %index.field, align 8
  %first = getelementptr inbounds i64, ptr %numbers, i64 2
  %only = icmp slt i64 %index, 0
  br i1 %only, label %chosen, label %choose
choose:
  %index.place = getelementptr inbounds ptr, ptr %arguments, i64 %index
  %index.address = load ptr, ptr %index.place, align 8
  %short = load i32, ptr %index.address, align 4
  %wanted = sext i32 %short to i64
  %positive = call i64 @llvm.smax.i64(i64 %wanted, i64 0)
  %last = sub i64 %count, 1
  %within = call i64 @llvm.smin.i64(i64 %positive, i64 %last)
  br label %chosen
chosen:
  %which = phi i64 [ 0, %entry ], [ %within, %choose ]
  %branch.place = getelementptr inbounds ptr, ptr %first, i64 %which
  %branch = load ptr, ptr %branch.place, align 8
  call void @loop(ptr %branch, ptr %arguments, ptr %context)
  ret void
}
"""

_FUNCTION = f"""
define void @tinyfn_function(ptr %numbers, ptr %arguments, ptr %context) {{
entry:
{_fields(FunctionNumbers)}
  %code = inttoptr i64 %function to ptr
  br label %again
again:
  %done = phi i64 [ 0, %entry ], [ %got, %carries.head ]
  %left = sub i64 %length, %done
  %steps = call i64 @llvm.umin.i64(i64 %left, i64 %most)
  %end = add i64 %done, %steps
  %got = call i64 %code(ptr %arguments, i64 %done, i64 %end, i64 %length)
  %taken = sub i64 %got, %done
  %amount = mul i64 %taken, %work
  %is.over = call i1 @worked(ptr %context, i64 %amount)
  %stopped.early = icmp ult i64 %got, %end
  %complete = icmp uge i64 %got, %length
  %finished = or i1 %stopped.early, %complete
  %leave = or i1 %finished, %is.over
  br i1 %leave, label %exit, label %carries.begin
carries.begin:
  br label %carries.head
carries.head:
  %i = phi i64 [ 0, %carries.begin ], [ %i.next, %carries.body ]
  %more = icmp slt i64 %i, %carries
  br i1 %more, label %carries.body, label %again
carries.body:
  %from.index = add i64 %last, %i
  %to.index = add i64 %first, %i
  %from = getelementptr inbounds ptr, ptr %arguments, i64 %from.index
  %to = getelementptr inbounds ptr, ptr %arguments, i64 %to.index
  %address = load ptr, ptr %from, align 8
  store ptr %address, ptr %to, align 8
  %i.next = add nuw nsw i64 %i, 1
  br label %carries.head
exit:
  ret void
}}
"""

# Whether all is to be stopped, after so much work. `@state` has the main thread, and what a handler of a signal raised.
_WORKED = f"""
@state = internal global [4 x i64] zeroinitializer, align 64

define ptr @tinyfn_flow_state() {{
  ret ptr @state
}}

define internal i1 @worked(ptr %context, i64 %amount) {{
entry:
  %before = load i64, ptr %context, align 8
  %spent = add i64 %before, %amount
  store i64 %spent, ptr %context, align 8
  %looks = icmp sgt i64 %spent, {BUDGET}
  br i1 %looks, label %look, label %exit
look:
  store i64 0, ptr %context, align 8
  %thread = call i64 @PyThread_get_thread_ident()
  %main = load i64, ptr @state, align 8
  %is.main = icmp eq i64 %thread, %main
  br i1 %is.main, label %ask, label %exit
ask:
  %held = call i32 @PyGILState_Ensure()
  %raised = call i32 @PyErr_CheckSignals()
  %some = icmp ne i32 %raised, 0
  br i1 %some, label %keep, label %release
keep:
  %type = getelementptr inbounds i8, ptr @state, i64 8
  %value = getelementptr inbounds i8, ptr @state, i64 16
  %traceback = getelementptr inbounds i8, ptr @state, i64 24
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %traceback)
  %flag = getelementptr inbounds i64, ptr %context, i64 1
  store i64 1, ptr %flag, align 8
  br label %release
release:
  call void @PyGILState_Release(i32 %held)
  br label %exit
exit:
  %stopped.flag = getelementptr inbounds i64, ptr %context, i64 1
  %stopped = load i64, ptr %stopped.flag, align 8
  %is.stopped = icmp ne i64 %stopped, 0
  ret i1 %is.stopped
}}

declare i64 @PyThread_get_thread_ident()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
"""
PYTHON = (
    "PyThread_get_thread_ident",
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyErr_CheckSignals",
    "PyErr_Fetch",
)

TEXT = _LOOP + _BRANCH + _FUNCTION + _WORKED
