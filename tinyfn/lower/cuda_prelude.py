"""What rendered CUDA C calls: small functions, each written to the source of a kernel that uses it.

Functions in `HARDWARE` are the machine's own instructions. They are compiled by CUDA alone: another compiler, such as that of the
tests, which run kernels on a CPU, brings its own. Everything else is plain C++ and is compiled by both.

float16 and bfloat16 are 16 bits (`half_bits`, `bfloat_bits`) in memory and in registers. They are computed with as float, and
every operation rounds; for all but fma that is the same as rounding once, since a float has more than twice as many digits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Helper(NamedTuple):
    """The text of a function, and the helpers that it calls itself."""

    text: str
    needs: tuple[str, ...] = ()


TYPES = """\
typedef unsigned short half_bits;
typedef unsigned short bfloat_bits;
"""

HARDWARE = {
    "shared_memory": """\
static __device__ __forceinline__ char *shared_memory() {
  extern __shared__ __align__(16) char memory[];
  return memory;
}""",
    "half_to_float": """\
static __device__ __forceinline__ float half_to_float(half_bits x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}""",
    "half_from_float": """\
static __device__ __forceinline__ half_bits half_from_float(float x) {
  half_bits y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}""",
    "half_from_double": """\
static __device__ __forceinline__ half_bits half_from_double(double x) {
  half_bits y;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y) : "d"(x));
  return y;
}""",
    "half_fma": """\
static __device__ __forceinline__ half_bits half_fma(half_bits a, half_bits b, half_bits c) {
  half_bits y;
  asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(y) : "h"(a), "h"(b), "h"(c));
  return y;
}""",
    "bfloat_fma": """\
static __device__ __forceinline__ bfloat_bits bfloat_fma(bfloat_bits a, bfloat_bits b, bfloat_bits c) {
  bfloat_bits y;
  asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(y) : "h"(a), "h"(b), "h"(c));
  return y;
}""",
    # d += a @ b of a warp: a is 16×16, b 16×8, d 16×8. Thread 4*g + t holds of d rows g and g + 8, columns 2*t and 2*t + 1.
    **{
        f"matrix_multiply_{name}": f"""\
static __device__ __forceinline__ void matrix_multiply_{name}(float *d, const unsigned *a, const unsigned *b) {{
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.{ptx}.{ptx}.f32 {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, "
               "{{%0, %1, %2, %3}};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}}"""
        for name, ptx in (("half", "f16"), ("bfloat", "bf16"))
    },
}

PORTABLE = {
    # Elements that are loaded and stored as one.
    "Vector": Helper("""\
template <class T, int N>
struct alignas(N * sizeof(T)) Vector {
  T at[N];
};"""),
    "bit_cast": Helper("""\
template <class T, class S>
static __device__ __forceinline__ T bit_cast(S x) {
  T y;
  memcpy(&y, &x, sizeof(T));
  return y;
}"""),
    "bfloat_to_float": Helper(
        """\
static __device__ __forceinline__ float bfloat_to_float(bfloat_bits x) { return bit_cast<float>((unsigned)x << 16); }""",
        ("bit_cast",),
    ),
    # Rounded to nearest even in integers, subnormals too; a NaN stays one.
    "bfloat_from_float": Helper(
        """\
static __device__ __forceinline__ bfloat_bits bfloat_from_float(float x) {
  const unsigned bits = bit_cast<unsigned>(x);
  return x != x ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}""",
        ("bit_cast",),
    ),
    # NaN if either is.
    "maximum": Helper("""\
template <class T>
static __device__ __forceinline__ T maximum(T a, T b) {
  return a > b || a != a ? a : b;
}"""),
    "minimum": Helper("""\
template <class T>
static __device__ __forceinline__ T minimum(T a, T b) {
  return a < b || a != a ? a : b;
}"""),
    # Rounded down; division by zero gives 0, and the least number by -1 itself.
    "floor_divide": Helper("""\
template <class T>
static __device__ __forceinline__ T floor_divide(T a, T b) {
  if (b == 0) return 0;
  if (T(-1) < T(0)) {
    if (b == T(-1)) return T(0 - (unsigned long long)a);
    const T quotient = a / b, rest = a % b;
    return rest != 0 && T(rest ^ b) < T(0) ? quotient - 1 : quotient;
  }
  return a / b;
}"""),
    "floor_remainder": Helper("""\
template <class T>
static __device__ __forceinline__ T floor_remainder(T a, T b) {
  if (b == 0) return 0;
  if (T(-1) < T(0)) {
    if (b == T(-1)) return 0;
    const T rest = a % b;
    return rest != 0 && T(rest ^ b) < T(0) ? rest + b : rest;
  }
  return a % b;
}"""),
    # Amounts are unsigned; what is shifted out entirely is 0, or the sign.
    "shift_left": Helper("""\
template <class T>
static __device__ __forceinline__ T shift_left(T a, T b) {
  if ((unsigned long long)b >= 8 * sizeof(T)) return 0;
  return sizeof(T) <= 4 ? T((unsigned)a << (unsigned)b) : T((unsigned long long)a << (unsigned)b);
}"""),
    "shift_right": Helper("""\
template <class T>
static __device__ __forceinline__ T shift_right(T a, T b) {
  const bool all = (unsigned long long)b >= 8 * sizeof(T);
  if (T(-1) < T(0)) return a >> (all ? 8 * sizeof(T) - 1 : (unsigned)b);
  return all ? T(0) : T(a >> (unsigned)b);
}"""),
    # A float truncated to an integer type; what does not fit gives the nearest number that does, NaN gives 0.
    "saturated": Helper("""\
template <class T, class F>
static __device__ __forceinline__ T saturated(F x) {
  const bool is_signed = T(-1) < T(0);
  const F top = F(2) * F(1ull << (8 * sizeof(T) - 1 - is_signed));
  const T highest = T(~0ull >> (64 - 8 * sizeof(T) + is_signed));
  if (x != x) return 0;
  if (x >= top) return highest;
  if (is_signed) return x < -top ? T(-highest - 1) : T(x);
  return x <= F(0) ? T(0) : T(x);
}"""),
    # Reductions over the threads of a warp or a block, in an order that is always the same; every thread gets the result.
    "warp_reduce": Helper("""\
template <class T, class Op>
static __device__ __forceinline__ T warp_reduce(T x, Op op) {
  for (int distance = 16; distance > 0; distance /= 2) x = op(x, (T)__shfl_xor_sync(0xffffffffu, x, distance));
  return x;
}"""),
    # One for all reductions of a kernel: variables in a template would be as many as it has instances.
    "reduction_memory": Helper("""\
static __device__ __forceinline__ void *reduction_memory() {
  __shared__ double memory[THREADS];
  return memory;
}"""),
    "block_reduce": Helper(
        """\
template <class T, class Op>
static __device__ __forceinline__ T block_reduce(T x, Op op) {
  T *of_warp = (T *)reduction_memory();
  x = warp_reduce(x, op);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
  __syncthreads();
  x = of_warp[0];
  for (int i = 1; i < THREADS / 32; i++) x = op(x, of_warp[i]);
  __syncthreads();
  return x;
}""",
        ("warp_reduce", "reduction_memory"),
    ),
    # Over the threads at the same place of each run of POINTS.
    "column_reduce": Helper(
        """\
template <int POINTS, class T, class Op>
static __device__ __forceinline__ T column_reduce(T x, Op op) {
  T *of_thread = (T *)reduction_memory();
  of_thread[threadIdx.x] = x;
  __syncthreads();
  x = of_thread[threadIdx.x % POINTS];
  for (int i = POINTS; i < THREADS; i += POINTS) x = op(x, of_thread[i + threadIdx.x % POINTS]);
  __syncthreads();
  return x;
}""",
        ("reduction_memory",),
    ),
    # Whether this block is the last of a launch to come here: it then sees all that the others wrote before.
    # The counter is 0 again afterwards, for the next launch.
    "is_last_block": Helper("""\
static __device__ __forceinline__ bool is_last_block(unsigned *counter) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(counter, 1u) == gridDim.x - 1;
    if (is_last) *counter = 0;
    __threadfence();
  }
  __syncthreads();
  return is_last;
}"""),
}


def prelude(used: Iterable[str], threads: int) -> str:
    """The text of the helpers that are used, each after those that it needs."""
    names: dict[str, None] = {}

    def add(name: str) -> None:
        if name in PORTABLE:
            for needed in PORTABLE[name].needs:
                add(needed)
        names[name] = None

    for name in used:
        add(name)
    hardware = [HARDWARE[name] for name in HARDWARE if name in names]
    portable = [PORTABLE[name].text for name in PORTABLE if name in names]
    text = f"#define THREADS {threads}\n{TYPES}"
    if hardware:
        text += "#ifdef __CUDACC__\n" + "\n".join(hardware) + "\n#endif\n"
    return text + "".join(f"{part}\n" for part in portable)
