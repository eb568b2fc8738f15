"""Threads for generated code: one native function that runs the chunks of a kernel on several cores.

    void tinyfn_parallel_for(void (*kernel)(void *arguments, int64 begin, int64 end), void *arguments, int64 n, int64 grain)

calls `kernel` for each chunk `[0, grain), [grain, 2 * grain), ...` of `[0, n)`. The chunks depend on `n` and `grain`
alone, never on the number of threads, so a kernel that keeps one partial result per chunk gives the same bits on any
number. Runs of neighbouring chunks (blocks) go to threads; with one chunk, one thread, or while another Python
thread or an outer kernel uses the pool, the caller runs all of them.

**The pool** is written in LLVM IR below and consists of native threads that never enter Python. They are started by
the first call that can use them, look for work for a millisecond or two after their last, then sleep. The caller
works too and takes whatever block nobody has begun, so a short call never waits for a sleeping thread to wake, only
for blocks that were begun. After a fork the child has a pool of its own, started when it needs one. (OpenMP's libgomp
has a call of the same cost, but a forked child that uses it hangs, idle threads spin for milliseconds, and many
container images lack it.)

The number of threads is `TINYFN_NUM_THREADS`, else `OMP_NUM_THREADS`, else the cores that the process may use;
`set_num_threads` changes it at any time."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import NamedTuple

from ..lower.target import Target, host_target, usable_cores
from .cpu import compile_ir

SYMBOL = "tinyfn_parallel_for"
DECLARATION = f"declare void @{SYMBOL}(ptr, ptr, i64, i64)"
MOST_THREADS = 1024
# More blocks than threads, so that a thread which the machine holds up delays a part of its share only.
BLOCKS_PER_THREAD = 2
# How often an idle worker looks for work before it sleeps, of some 20 to 40 ns each: 1 to 2 ms. Waking a sleeping
# thread costs 5 to 50 microseconds, and Python needs less than a millisecond between the calls of a training loop.
SPINS = 50_000

_PAUSE = {
    "x86_64": ("call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"),
    "aarch64": ("call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)"),
}

# The ticket says all there is to know about work to be had: generation << 32 | next block << 16 | blocks. It is changed by
# compare-and-swap only, so who raises `next block` owns that block, and as long as a block is not done the caller
# waits and the job can't change. The generation makes a ticket differ from all earlier ones.
_POOL = """
@ticket = internal global i64 0, align 128
@done = internal global i64 0, align 128
@job = internal global [4 x i64] zeroinitializer, align 128
@busy = internal global i64 0, align 128
@started = internal global i64 0
@wanted = global i64 1, align 128
@sleepers = internal global i64 0, align 128
@mutex = internal global [128 x i8] zeroinitializer, align 128
@condition = internal global [128 x i8] zeroinitializer, align 128

define internal void @chunks(ptr %kernel, ptr %arguments, i64 %n, i64 %grain, i64 %first, i64 %last) {
entry:
  br label %loop
loop:
  %chunk = phi i64 [ %first, %entry ], [ %next, %body ]
  %more = icmp slt i64 %chunk, %last
  br i1 %more, label %body, label %exit
body:
  %begin = mul i64 %chunk, %grain
  %left = sub i64 %n, %begin
  %size = call i64 @llvm.smin.i64(i64 %left, i64 %grain)
  %end = add i64 %begin, %size
  call void %kernel(ptr %arguments, i64 %begin, i64 %end)
  %next = add i64 %chunk, 1
  br label %loop
exit:
  ret void
}

; Take blocks until there are none left.
define internal void @work() {
entry:
  br label %loop
loop:
  %ticket = load atomic i64, ptr @ticket seq_cst, align 8
  %high = lshr i64 %ticket, 16
  %block = and i64 %high, 65535
  %blocks = and i64 %ticket, 65535
  %some = icmp ult i64 %block, %blocks
  br i1 %some, label %take, label %exit
take:
  %raised = add i64 %ticket, 65536
  %swap = cmpxchg ptr @ticket, i64 %ticket, i64 %raised seq_cst seq_cst
  %taken = extractvalue { i64, i1 } %swap, 1
  br i1 %taken, label %run, label %loop
run:
  %kernel = load ptr, ptr @job
  %arguments = load ptr, ptr getelementptr (i8, ptr @job, i64 8)
  %n = load i64, ptr getelementptr (i8, ptr @job, i64 16)
  %grain = load i64, ptr getelementptr (i8, ptr @job, i64 24)
  %chunks = call i64 @count(i64 %n, i64 %grain)
  %first = call i64 @edge(i64 %block, i64 %chunks, i64 %blocks)
  %following = add i64 %block, 1
  %last = call i64 @edge(i64 %following, i64 %chunks, i64 %blocks)
  call void @chunks(ptr %kernel, ptr %arguments, i64 %n, i64 %grain, i64 %first, i64 %last)
  %before = atomicrmw add ptr @done, i64 1 seq_cst
  br label %loop
exit:
  ret void
}

; The first chunk of a block: block * chunks / blocks, without overflow.
define internal i64 @edge(i64 %block, i64 %chunks, i64 %blocks) {
  %each = udiv i64 %chunks, %blocks
  %rest = urem i64 %chunks, %blocks
  %whole = mul i64 %block, %each
  %part = mul i64 %block, %rest
  %extra = udiv i64 %part, %blocks
  %edge = add i64 %whole, %extra
  ret i64 %edge
}

define internal i64 @count(i64 %n, i64 %grain) {
  %less = sub i64 %n, 1
  %full = udiv i64 %less, %grain
  %chunks = add i64 %full, 1
  ret i64 %chunks
}

; Whether a worker, by its number, has something to do.
define internal i1 @ready(i64 %number) {
  %ticket = load atomic i64, ptr @ticket seq_cst, align 8
  %high = lshr i64 %ticket, 16
  %block = and i64 %high, 65535
  %blocks = and i64 %ticket, 65535
  %some = icmp ult i64 %block, %blocks
  %wanted = load atomic i64, ptr @wanted monotonic, align 8
  %needed = icmp slt i64 %number, %wanted
  %ready = and i1 %some, %needed
  ret i1 %ready
}

define internal ptr @worker(ptr %argument) {
entry:
  %number = ptrtoint ptr %argument to i64
  call void @move()
  br label %look
look:
  %spin = phi i64 [ 0, %entry ], [ 0, %go ], [ %spun, %pause ], [ %spun, %yield ], [ 0, %woken ]
  %ready = call i1 @ready(i64 %number)
  br i1 %ready, label %go, label %pause
go:
  call void @work()
  br label %look
pause:
  PAUSE
  %spun = add i64 %spin, 1
  %low = and i64 %spun, 127
  %often = icmp eq i64 %low, 0
  br i1 %often, label %yield, label %look
yield:
  %yielded = call i32 @sched_yield()
  %tired = icmp ugt i64 %spun, SPINS
  br i1 %tired, label %sleep, label %look
sleep:
  %locked = call i32 @pthread_mutex_lock(ptr @mutex)
  %more = atomicrmw add ptr @sleepers, i64 1 seq_cst
  br label %check
check:
  %now = call i1 @ready(i64 %number)
  br i1 %now, label %woken, label %wait
wait:
  %waited = call i32 @pthread_cond_wait(ptr @condition, ptr @mutex)
  br label %check
woken:
  %fewer = atomicrmw sub ptr @sleepers, i64 1 seq_cst
  %unlocked = call i32 @pthread_mutex_unlock(ptr @mutex)
  call void @move()
  br label %look
}

; Start the workers that are wanted and not there; where that fails, want fewer.
define internal void @start() {
entry:
  %thread = alloca ptr
  br label %loop
loop:
  %started = load i64, ptr @started
  %number = add i64 %started, 1
  %wanted = load atomic i64, ptr @wanted monotonic, align 8
  %more = icmp slt i64 %number, %wanted
  br i1 %more, label %create, label %exit
create:
  call void @mark()
  %argument = getelementptr i8, ptr null, i64 %number
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %argument)
  %fine = icmp eq i32 %failed, 0
  br i1 %fine, label %detach, label %fewer
detach:
  %handle = load ptr, ptr %thread
  %detached = call i32 @pthread_detach(ptr %handle)
  store i64 %number, ptr @started
  %yielded = call i32 @sched_yield()
  br label %loop
fewer:
  store atomic i64 %number, ptr @wanted monotonic, align 8
  br label %exit
exit:
  ret void
}

define void @tinyfn_parallel_for(ptr %kernel, ptr %arguments, i64 %n, i64 %grain) {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %split, label %exit
split:
  %chunks = call i64 @count(i64 %n, i64 %grain)
  %threads = load atomic i64, ptr @wanted monotonic, align 8
  %least = call i64 @llvm.smin.i64(i64 %threads, i64 %chunks)
  %several = icmp sgt i64 %least, 1
  br i1 %several, label %reserve, label %serial
reserve:
  %swap = cmpxchg ptr @busy, i64 0, i64 1 seq_cst seq_cst
  %reserved = extractvalue { i64, i1 } %swap, 1
  br i1 %reserved, label %parallel, label %serial
parallel:
  call void @start()
  %most = mul i64 %threads, BLOCKS
  %blocks = call i64 @llvm.smin.i64(i64 %most, i64 %chunks)
  store ptr %kernel, ptr @job
  store ptr %arguments, ptr getelementptr (i8, ptr @job, i64 8)
  store i64 %n, ptr getelementptr (i8, ptr @job, i64 16)
  store i64 %grain, ptr getelementptr (i8, ptr @job, i64 24)
  store atomic i64 0, ptr @done seq_cst, align 8
  %old = load atomic i64, ptr @ticket seq_cst, align 8
  %age = lshr i64 %old, 32
  %older = add i64 %age, 1
  %generation = shl i64 %older, 32
  %ticket = or i64 %generation, %blocks
  store atomic i64 %ticket, ptr @ticket seq_cst, align 8
  %sleepers = load atomic i64, ptr @sleepers seq_cst, align 8
  %asleep = icmp sgt i64 %sleepers, 0
  br i1 %asleep, label %wake, label %go
wake:
  call void @mark()
  %locked = call i32 @pthread_mutex_lock(ptr @mutex)
  %woken = call i32 @pthread_cond_broadcast(ptr @condition)
  %unlocked = call i32 @pthread_mutex_unlock(ptr @mutex)
  %yielded.to.woken = call i32 @sched_yield()
  br label %go
go:
  call void @work()
  br label %wait
wait:
  %spin = phi i64 [ 0, %go ], [ %spun, %pause ], [ %spun, %yield ]
  %done = load atomic i64, ptr @done seq_cst, align 8
  %all = icmp eq i64 %done, %blocks
  br i1 %all, label %free, label %pause
pause:
  PAUSE
  %spun = add i64 %spin, 1
  %long = icmp ugt i64 %spun, 256
  br i1 %long, label %yield, label %wait
yield:
  %yielded = call i32 @sched_yield()
  br label %wait
free:
  store atomic i64 0, ptr @busy seq_cst, align 8
  br label %exit
serial:
  call void @chunks(ptr %kernel, ptr %arguments, i64 %n, i64 %grain, i64 0, i64 %chunks)
  br label %exit
exit:
  ret void
}

; Nothing is done and nobody works here: at the start, and in the child after a fork.
define void @tinyfn_pool_reset() {
  store atomic i64 0, ptr @ticket seq_cst, align 8
  store atomic i64 0, ptr @done seq_cst, align 8
  store atomic i64 0, ptr @sleepers seq_cst, align 8
  store i64 0, ptr @started
  %mutex = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %condition = call i32 @pthread_cond_init(ptr @condition, ptr null)
  store atomic i64 0, ptr @busy seq_cst, align 8
  ret void
}

define ptr @tinyfn_pool_wanted() {
  ret ptr @wanted
}

declare i64 @llvm.smin.i64(i64, i64)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()
"""

# A woken thread often starts on the core of the thread that woke it, which is busy, and in virtual machines, whose
# idle cores look taken to Linux, it stays there for milliseconds. So it moves: forbids itself that core for a moment.
_MOVE = """
@caller = internal global i32 -1, align 128

define internal void @mark() {
  %cpu = call i32 @sched_getcpu()
  store atomic i32 %cpu, ptr @caller monotonic, align 4
  ret void
}

define internal void @move() {
entry:
  %allowed = alloca i1024
  %others = alloca i1024
  %here = call i32 @sched_getcpu()
  %caller = load atomic i32, ptr @caller monotonic, align 4
  %same = icmp eq i32 %here, %caller
  %known = icmp ult i32 %here, 1024
  %crowded = and i1 %same, %known
  br i1 %crowded, label %ask, label %exit
ask:
  store i1024 0, ptr %allowed
  %failed = call i32 @sched_getaffinity(i32 0, i64 128, ptr %allowed)
  %mask = load i1024, ptr %allowed
  %index = zext i32 %here to i1024
  %bit = shl i1024 1, %index
  %without = xor i1024 %mask, %bit
  %none = icmp eq i1024 %without, 0
  %lost = icmp slt i32 %failed, 0
  %stay = or i1 %none, %lost
  br i1 %stay, label %exit, label %leave
leave:
  store i1024 %without, ptr %others
  %moved = call i32 @sched_setaffinity(i32 0, i64 128, ptr %others)
  %back = call i32 @sched_setaffinity(i32 0, i64 128, ptr %allowed)
  br label %exit
exit:
  ret void
}

declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
"""
_STAY = """
define internal void @mark() {
  ret void
}

define internal void @move() {
  ret void
}
"""


class _Pool(NamedTuple):
    parallel_for: int  # an address
    wanted: ctypes.c_int64  # the number of threads, where the native code reads it


_lock = threading.RLock()
_pool: _Pool | None = None
_threads = 0  # 0: not asked for yet


def num_threads() -> int:
    """The number of threads that kernels run on."""
    global _threads
    with _lock:
        if not _threads:
            _threads = _default_threads()
        return _threads


def set_num_threads(number: int) -> None:
    """Run kernels on this many threads from now on; results do not depend on it, to the bit."""
    global _threads
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST_THREADS:
        raise ValueError(f"the number of threads should be an int from 1 to {MOST_THREADS}, not {number!r}")
    with _lock:
        _threads = number
        if _pool is not None:
            _pool.wanted.value = number


def symbols() -> dict[str, int]:
    """What a module that calls `tinyfn_parallel_for` is linked with: `compile_ir(..., symbols=symbols())`."""
    return {SYMBOL: _the_pool().parallel_for}


def parallel_for(kernel: int, arguments: int, n: int, grain: int) -> None:
    """Call the kernel at an address for the chunks of `[0, n)`; `arguments` is the address it gets."""
    if grain < 1:
        raise ValueError(f"a chunk should hold at least one item, not {grain}")
    _ENTRY(_the_pool().parallel_for)(kernel, arguments, n, grain)


_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def pool_text(target: Target) -> str:
    """The pool's LLVM IR for a machine."""
    pause, declaration = _PAUSE.get(target.name, ("", ""))
    text = _POOL.replace("PAUSE", pause).replace("SPINS", str(SPINS))
    text = text.replace("BLOCKS", str(BLOCKS_PER_THREAD))
    return text + (_MOVE if "linux" in target.triple else _STAY) + declaration


def _the_pool() -> _Pool:
    """The pool, compiled the first time; that starts no thread yet."""
    global _pool
    with _lock:
        if _pool is None:
            target = host_target()
            module = compile_ir(pool_text(target), target)
            module.keep_forever()
            reset = ctypes.CFUNCTYPE(None)(module.function("tinyfn_pool_reset"))
            where = ctypes.CFUNCTYPE(ctypes.c_void_p)(module.function("tinyfn_pool_wanted"))()
            reset()
            wanted = ctypes.c_int64.from_address(where)
            wanted.value = num_threads()
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=reset)
            _pool = _Pool(module.function(SYMBOL), wanted)
        return _pool


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def _default_threads() -> int:
    for variable in ("TINYFN_NUM_THREADS", "OMP_NUM_THREADS"):
        # OpenMP allows a list, one number for each level of nesting.
        text = os.environ.get(variable, "").split(",")[0].strip()
        if not text:
            continue
        if not text.isdecimal() or not 1 <= int(text) <= MOST_THREADS:
            raise ValueError(f"{variable} should be a number from 1 to {MOST_THREADS}, not {text!r}")
        return int(text)
    return min(usable_cores(), MOST_THREADS)
