// The emulator that runs the kernels of cuda_on_cpu.h: blocks one after another, threads of a block as fibres.
#include "cuda_on_cpu.h"
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum State { READY, AT_BLOCK_BARRIER, AT_EXCHANGE, DONE };

static const int MOST_THREADS = 1024;
static const size_t STACK = 256 * 1024, PAGE = 4096, GUARD = 16 * PAGE;
static const unsigned char UNWRITTEN = 0xcb;  // what memory is filled with, so that reading it before it is written shows

Emulator emulator;
static EmulatedThread threads[MOST_THREADS];
static char *stacks;
static void *scheduler_stack;
static int count, alive, at_barrier;
static char message[256];
static struct Warp { int arrived, line; char values[2][32 * 64]; } warps[MOST_THREADS / 32];
static void (*kernel)(const void *);
static const void *arguments;
static sigjmp_buf escape;

// Saves the registers that a function must preserve, and continues at another stack.
extern "C" void emulator_switch(void **save, void *to);
asm(R"(
.text
.globl emulator_switch
.type emulator_switch, @function
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

static void yield() { emulator_switch(&emulator.thread->stack, scheduler_stack); }

extern "C" void emulator_fail(const char *text) {
  if (!message[0]) snprintf(message, sizeof message, "%s (thread %d of block %u)", text, emulator.thread->number, emulator.block.x);
}

// Lets the threads go on if all that are left have come.
static void pass_block_barrier() {
  if (!at_barrier || at_barrier < alive) return;
  if (alive < count) emulator_fail("__syncthreads after a thread has returned");
  int line = -1;
  for (int i = 0; i < count; i++) {
    if (threads[i].state != AT_BLOCK_BARRIER) continue;
    if (line >= 0 && threads[i].line != line) emulator_fail("divergent __syncthreads: threads wait at different lines");
    line = threads[i].line;
    threads[i].state = READY;
  }
  at_barrier = 0;
}

extern "C" void emulator_block_barrier(int line) {
  emulator.thread->state = AT_BLOCK_BARRIER;
  emulator.thread->line = line;
  at_barrier++;
  pass_block_barrier();
  yield();
}

extern "C" char *emulator_exchange(const void *value, unsigned bytes, int line) {
  EmulatedThread *self = emulator.thread;
  Warp &warp = warps[self->number / 32];
  // Two sets of values in turn: a thread may come to its next exchange before others have read this one's.
  char *values = warp.values[self->exchanges++ % 2];
  if (bytes) memcpy(values + 64 * (self->number % 32), value, bytes);
  if (warp.arrived && warp.line != line) emulator_fail("divergent exchange: threads of a warp wait at different lines");
  warp.line = line;
  self->state = AT_EXCHANGE;
  self->line = line;
  if (++warp.arrived == 32) {
    const int first = self->number / 32 * 32;
    for (int i = first; i < first + 32; i++) threads[i].state = READY;
    warp.arrived = 0;
  }
  yield();
  return values;
}

static void run_thread() {
  kernel(arguments);
  emulator.thread->state = DONE;
  alive--;
  pass_block_barrier();
  yield();
  abort();
}

static void on_fault(int, siginfo_t *info, void *) {
  snprintf(message, sizeof message, "an access out of bounds, at %p (thread %d of block %u)", info->si_addr,
           emulator.thread->number, emulator.block.x);
  siglongjmp(escape, 1);
}

// Memory that ends where pages begin that must not be touched, and is preceded by such: what is out of bounds is noticed.
// Up to `alignment` bytes after the end, and what is left of a page before the start, are checked by emulator_free.
extern "C" char *emulator_allocate(size_t bytes, size_t alignment) {
  const size_t body = (bytes + PAGE) / PAGE * PAGE;
  char *base = (char *)mmap(0, body + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(base + GUARD, body, PROT_READ | PROT_WRITE);
  memset(base + GUARD, UNWRITTEN, body);
  return base + GUARD + (body - bytes) / alignment * alignment;
}

// 1 if something was written beside the memory.
extern "C" int emulator_free(char *memory, size_t bytes) {
  const size_t body = (bytes + PAGE) / PAGE * PAGE;
  char *base = (char *)((uintptr_t)memory / PAGE * PAGE);
  char *end = (char *)(((uintptr_t)memory + bytes + PAGE - 1) / PAGE * PAGE);
  if (end - body < base) base = end - body;
  int overwritten = 0;
  for (char *p = base; p < end; p++)
    if ((p < memory || p >= memory + bytes) && (unsigned char)*p != UNWRITTEN) overwritten = 1;
  munmap(base - GUARD, body + 2 * GUARD);
  return overwritten;
}

static void start_fibre(int i) {
  void **top = (void **)(stacks + STACK * (i + 1) - 64);
  *--top = nullptr;                // what would be its caller: keeps the stack aligned
  *--top = (void *)run_thread;
  for (int k = 0; k < 6; k++) *--top = nullptr;
  threads[i].stack = top;
}

// The thread that is asked in turn k of a round: in ascending order, descending, or every fifth, seventh, ... from somewhere.
// Counts of threads are powers of two, so that every thread has its turn.
static int in_turn(int k, int order, int round) {
  if (order == 0) return k;
  if (order == 1) return count - 1 - k;
  return (k * (2 * order + 1) + 7 * round) % count;
}

static bool resume(int i) {
  if (threads[i].state != READY) return false;
  emulator.thread = &threads[i];
  emulator_switch(&scheduler_stack, threads[i].stack);
  return true;
}

static bool run_block(int order) {
  alive = count;
  at_barrier = 0;
  for (Warp &warp : warps) warp.arrived = 0;
  for (int i = 0; i < count; i++) start_fibre(i);
  for (int round = 0; alive; round++) {
    bool progress = false;
    for (int k = 0; k < count; k++) {
      const int i = in_turn(k, order, round);
      progress |= resume(i);
      // In odd orders a warp goes on as far as it can before the others have a turn.
      for (bool more = order % 2; more;) {
        more = false;
        for (int j = i / 32 * 32; j < i / 32 * 32 + 32; j++) more |= resume(j);
      }
    }
    if (!progress) {
      emulator_fail("threads wait for others that do not come: a divergent barrier");
      return false;
    }
    if (message[0]) return false;
  }
  return !message[0];
}

// Runs a kernel; gives what went wrong, or an empty text. `order` (0 to 5) says in which order blocks and threads run.
// Without fibres (for kernels in which no thread waits), threads run to their end one after another.
extern "C" const char *emulator_launch(void (*entry)(const void *), const void *given, unsigned blocks, unsigned block_threads,
                                       size_t shared_bytes, int fibres, int order) {
  message[0] = 0;
  kernel = entry;
  arguments = given;
  count = block_threads;
  if (count > MOST_THREADS || count < 32 || (count & (count - 1))) return "a block has 32, 64, ... or 1024 threads";
  if (!stacks) {
    stacks = (char *)mmap(0, STACK * MOST_THREADS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  emulator.blocks = {blocks, 1, 1};
  emulator.threads = {block_threads, 1, 1};
  emulator.shared = emulator_allocate(shared_bytes, 16);
  static char *signal_stack = (char *)malloc(64 * 1024);
  stack_t stack = {signal_stack, 0, 64 * 1024}, old_stack;
  struct sigaction action = {}, old_segv, old_bus;
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaltstack(&stack, &old_stack);
  sigaction(SIGSEGV, &action, &old_segv);
  sigaction(SIGBUS, &action, &old_bus);
  if (!sigsetjmp(escape, 1)) {
    for (unsigned n = 0; n < blocks; n++) {
      emulator.block = {order % 2 ? blocks - 1 - n : n, 0, 0};
      memset(emulator.shared, UNWRITTEN, shared_bytes);
      for (int i = 0; i < count; i++) threads[i] = {{(unsigned)i, 0, 0}, i, nullptr, READY, 0, 0};
      if (fibres) {
        if (!run_block(order)) break;
      } else {
        for (int k = 0; k < count; k++) {
          emulator.thread = &threads[in_turn(k, order % 2, 0)];
          entry(given);
        }
      }
    }
  }
  sigaction(SIGSEGV, &old_segv, nullptr);
  sigaction(SIGBUS, &old_bus, nullptr);
  sigaltstack(&old_stack, nullptr);
  if (emulator_free(emulator.shared, shared_bytes) && !message[0]) snprintf(message, sizeof message, "a write beside shared memory");
  return message;
}
