// CUDA C on a CPU: what a rendered kernel needs of CUDA, for g++. Included before the kernels (see emulator.py).
//
// One thread of the operating system runs all threads of a block, as fibres that switch at barriers and shuffles, so those are
// real: a thread that does not come is noticed. Only what the renderer writes is here.
#pragma once
#include <cstdint>
#include <cstring>
#include <math.h>

#define __global__
#define __device__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static  // blocks run one after another

struct Emulated3 { unsigned x, y, z; };

// A thread of the block that is running.
struct EmulatedThread {
  Emulated3 index;
  int number;            // within the block
  void *stack;           // where its fibre was left
  int state, line;       // what it waits for, and the line of the source at which it does
  unsigned exchanges;    // how many exchanges of its warp it has taken part in
};

extern "C" {
struct Emulator {
  EmulatedThread *thread;
  Emulated3 block, blocks, threads;
  char *shared;
};
extern Emulator emulator;
void emulator_block_barrier(int line);
// Gives every thread of the warp what each of them brought: `bytes` at 64*lane.
char *emulator_exchange(const void *value, unsigned bytes, int line);
void emulator_fail(const char *message);
}

#define threadIdx (emulator.thread->index)
#define blockIdx (emulator.block)
#define blockDim (emulator.threads)
#define gridDim (emulator.blocks)

#define __syncthreads() emulator_block_barrier(__LINE__)
#define __syncwarp() ((void)emulator_exchange(nullptr, 0, __LINE__))
#define __threadfence() ((void)0)

static inline char *shared_memory() { return emulator.shared; }

template <class T> static inline T emulated_shuffle(unsigned mask, T value, int distance, int line) {
  if (mask != 0xffffffffu) emulator_fail("a shuffle of part of a warp");
  const char *all = emulator_exchange(&value, sizeof(T), line);
  T other;
  memcpy(&other, all + 64 * ((emulator.thread->number & 31) ^ distance), sizeof(T));
  return other;
}
#define __shfl_xor_sync(mask, value, distance) emulated_shuffle(mask, value, distance, __LINE__)

static inline unsigned atomicAdd(unsigned *address, unsigned value) {
  const unsigned old = *address;
  *address = old + value;
  return old;
}

template <class T, class S> static inline T emulated_cast(S x) {
  T y;
  memcpy(&y, &x, sizeof(T));
  return y;
}
static inline float __int_as_float(unsigned bits) { return emulated_cast<float>(bits); }
static inline double __longlong_as_double(unsigned long long bits) { return emulated_cast<double>(bits); }

// 16-bit floats.

static inline float half_to_float(uint16_t x) { return emulated_cast<_Float16>(x); }
static inline uint16_t half_from_float(float x) { return emulated_cast<uint16_t>((_Float16)x); }

// A double as a float from which rounding to fewer digits gives what rounding the double would: where the float is not exact, its
// last bit is set after rounding towards zero.
static inline float emulated_round_to_odd(double x) {
  const float nearest = (float)x;
  if (nearest == x || x != x) return nearest;
  uint32_t bits = emulated_cast<uint32_t>(nearest);
  if (fabs((double)nearest) > fabs(x)) bits--;
  return emulated_cast<float>(bits | 1);
}
static inline uint16_t half_from_double(double x) { return half_from_float(emulated_round_to_odd(x)); }

// a*b + c rounded once: the product is exact in a double, and so is the error of its sum with c, which says how to round.
static inline double emulated_exact_fma(float a, float b, float c) {
  const double product = (double)a * b, sum = product + c;
  const double part = sum - product, error = (product - (sum - part)) + (c - part);
  uint64_t bits = emulated_cast<uint64_t>(sum);
  if (error == error && error != 0 && sum - sum == 0 && !(bits & 1)) {
    if ((error > 0) == (sum > 0)) bits |= 1;
    else bits--;
  }
  return emulated_cast<double>(bits);
}
static inline uint16_t half_fma(uint16_t a, uint16_t b, uint16_t c) {
  return half_from_double(emulated_exact_fma(half_to_float(a), half_to_float(b), half_to_float(c)));
}
static inline float emulated_bfloat(uint16_t x) { return emulated_cast<float>((uint32_t)x << 16); }
static inline uint16_t bfloat_fma(uint16_t a, uint16_t b, uint16_t c) {
  const float x = emulated_round_to_odd(emulated_exact_fma(emulated_bfloat(a), emulated_bfloat(b), emulated_bfloat(c)));
  const uint32_t bits = emulated_cast<uint32_t>(x);
  return x != x ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// d += a @ b by a warp: see "Matrix Fragments for mma.m16n8k16" in the PTX ISA. Register r of a holds row group + 8*(r % 2), columns
// 2*t + 8*(r / 2) and the next; register r of b rows 2*t + 8*r and the next of column group.
template <float widen(uint16_t)>
static inline void emulated_matrix_multiply(float *d, const unsigned *a, const unsigned *b, int line) {
  unsigned mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  const char *all = emulator_exchange(mine, sizeof mine, line);
  const int lane = emulator.thread->number & 31, group = lane >> 2, t = lane & 3;
  for (int i = 0; i < 4; i++) {
    const int lower = i / 2, column = 2 * t + i % 2;
    for (int k = 0; k < 16; k++) {
      uint16_t x, y;
      const int owner = k % 8 / 2, high = k / 8;
      memcpy(&x, all + 64 * (4 * group + owner) + 4 * (lower + 2 * high) + 2 * (k % 2), 2);
      memcpy(&y, all + 64 * (4 * column + owner) + 4 * (4 + high) + 2 * (k % 2), 2);
      d[i] += widen(x) * widen(y);
    }
  }
}
#define matrix_multiply_half(d, a, b) emulated_matrix_multiply<half_to_float>(d, a, b, __LINE__)
#define matrix_multiply_bfloat(d, a, b) emulated_matrix_multiply<emulated_bfloat>(d, a, b, __LINE__)
