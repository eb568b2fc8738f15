"""What this machine can do at most: bytes a second from and to memory, and float32 operations a second.

    python -m benchmarks.limits THREADS

Measured by kernels in LLVM IR, on tinyfn's own threads: whoever computes a workload in less time than these allow is wrong."""

from __future__ import annotations

import ctypes
import json
import sys
import time
from typing import Any

from .worker import bind

# Elements of an array: 128 MB, more than caches hold.
LENGTH = 1 << 25
ROUNDS = 15
# As many multiply-adds in flight as two units with a latency of 4 to 5 cycles need, in the registers of any machine.
ACCUMULATORS = 12
STEPS = 1 << 14


def multiply_add(lanes: int) -> str:
    """A kernel whose points are STEPS steps of ACCUMULATORS multiply-adds of vectors, in registers."""
    vector = f"<{lanes} x float>"
    every = range(ACCUMULATORS)
    phis = "\n".join(f"  %a{i} = phi {vector} [ %start, %entry ], [ %b{i}, %loop ]" for i in every)
    work = "\n".join(
        f"  %b{i} = call {vector} @llvm.fma.v{lanes}f32({vector} %a{i}, {vector} %factor, {vector} %start)"
        for i in every
    )
    sums = "\n".join(f"  %s{i} = fadd {vector} {f'%s{i - 1}' if i else '%start'}, %b{i}" for i in every)
    return f"""
declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})

define void @kernel(ptr %arguments, i64 %begin, i64 %end) {{
entry:
  %data = load ptr, ptr %arguments, align 8
  %start = load {vector}, ptr %data, align 4
  %at = getelementptr float, ptr %data, i64 {lanes}
  %factor = load {vector}, ptr %at, align 4
  %points = sub i64 %end, %begin
  %count = mul i64 %points, {STEPS}
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
{work}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
{sums}
  %never = fcmp uno float %first, 0.0
  br i1 %never, label %keep, label %out
keep:
  store {vector} %s{ACCUMULATORS - 1}, ptr %data, align 4
  br label %out
out:
  ret void
}}
""".replace("  %never =", f"  %first = extractelement {vector} %s{ACCUMULATORS - 1}, i32 0\n  %never =")


def stream(lanes: int, reads: int, bypass: bool) -> str:
    """A kernel that writes the sum of `reads` arrays, past the caches or through them."""
    vector, size = f"<{lanes} x float>", 4 * lanes
    hint = ", !nontemporal !0" if bypass else ""
    pointers = "\n".join(
        f"  %p{i} = getelementptr ptr, ptr %arguments, i64 {i}\n  %a{i} = load ptr, ptr %p{i}, align 8"
        for i in range(reads + 1)
    )
    loads = "\n".join(
        f"  %q{i} = getelementptr {vector}, ptr %a{i}, i64 %i\n  %x{i} = load {vector}, ptr %q{i}, align {size}"
        for i in range(1, reads + 1)
    )
    total = (
        f"  %sum = fadd {vector} %x1, %x2" if reads == 2 else f"  %sum = fadd {vector} %x1, zeroinitializer"
    )
    return f"""
define void @kernel(ptr %arguments, i64 %begin, i64 %end) {{
entry:
{pointers}
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
{loads}
{total}
  %q0 = getelementptr {vector}, ptr %a0, i64 %i
  store {vector} %sum, ptr %q0, align {size}{hint}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}}
!0 = !{{i32 1}}
"""


def read(lanes: int) -> str:
    """A kernel that reads an array, in four sums."""
    vector, size = f"<{lanes} x float>", 4 * lanes
    phis = "\n".join(
        f"  %s{k} = phi {vector} [ zeroinitializer, %entry ], [ %t{k}, %loop ]" for k in range(4)
    )
    work = "\n".join(
        f"  %i{k} = add i64 %i, {k}\n  %q{k} = getelementptr {vector}, ptr %data, i64 %i{k}\n"
        f"  %x{k} = load {vector}, ptr %q{k}, align {size}\n  %t{k} = fadd {vector} %s{k}, %x{k}"
        for k in range(4)
    )
    return f"""
define void @kernel(ptr %arguments, i64 %begin, i64 %end) {{
entry:
  %data = load ptr, ptr %arguments, align 8
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
{phis}
{work}
  %next = add i64 %i, 4
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  %u0 = fadd {vector} %t0, %t1
  %u1 = fadd {vector} %t2, %t3
  %u = fadd {vector} %u0, %u1
  %first = extractelement {vector} %u, i32 0
  %never = fcmp uno float %first, 0.0
  br i1 %never, label %keep, label %out
keep:
  store {vector} %u, ptr %data, align {size}
  br label %out
out:
  ret void
}}
"""


def measure() -> dict[str, float]:
    """The best of several rounds of each kernel."""
    import numpy as np

    from tinyfn.devices.cpu import compile_ir
    from tinyfn.devices.threads import num_threads, parallel_for
    from tinyfn.lower.target import host_target

    target = host_target()
    lanes = target.lanes(4)
    arrays = []
    for i in range(3):
        buffer = np.zeros(LENGTH + 64, np.float32)
        skip = -buffer.ctypes.data % 256 // 4
        arrays.append(buffer[skip : skip + LENGTH])
        arrays[i][:] = 0.5
    table = (ctypes.c_void_p * 3)(*[array.ctypes.data for array in arrays])

    def best(text: str, points: int, grain: int) -> float:
        module: Any = compile_ir(text, target)
        kernel, least = module.function("kernel"), float("inf")
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            parallel_for(kernel, ctypes.addressof(table), points, grain)
            least = min(least, time.perf_counter() - begin)
        return least

    vectors = LENGTH // lanes
    moved = {
        "read": 4 * LENGTH / best(read(lanes), vectors, vectors >> 6),
        **{
            name: 4 * LENGTH * (reads + 1) / best(stream(lanes, reads, bypass), vectors, vectors >> 6)
            for name, reads, bypass in (
                ("copy", 1, False), ("copy past caches", 1, True), ("add", 2, False), ("add past caches", 2, True),
            )
        },
    }  # fmt: skip
    points = 16 * num_threads()
    flops = 2.0 * lanes * ACCUMULATORS * STEPS * points / best(multiply_add(lanes), points, 1)
    return {"bytes": max(moved.values()), "flops": flops, **moved}


if __name__ == "__main__":
    bind(int(sys.argv[1]))
    print(json.dumps(measure()))
