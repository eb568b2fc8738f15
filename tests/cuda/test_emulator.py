"""The emulator notices what a GPU would not forgive."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.emulator import Emulated
from tinyfn.lower.render_cuda import Code

HEAD = "struct Arguments { void *address[2]; };\n"
KERNEL = 'extern "C" __global__ void kernel(const __grid_constant__ Arguments given) {\n  int *a = (int *)given.address[0];\n'


def code(body: str, block: int = 64, shared: int = 0) -> Code:
    return Code(f"{HEAD}{KERNEL}{body}\n}}\n", (), 2, block, shared)


REVERSE = code("""
  __shared__ int values[64];
  values[threadIdx.x] = a[64 * blockIdx.x + threadIdx.x];
  __syncthreads();
  a[64 * blockIdx.x + threadIdx.x] = values[63 - threadIdx.x];""")
SUM = code("""
  int x = a[64 * blockIdx.x + threadIdx.x];
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
  a[64 * blockIdx.x + threadIdx.x] = x;""")
FORGOTTEN = code("""
  __shared__ int values[64];
  values[threadIdx.x] = a[64 * blockIdx.x + threadIdx.x];
  __syncwarp();
  a[64 * blockIdx.x + threadIdx.x] = values[63 - threadIdx.x];""")
WRONG = {
    "a barrier for some threads": (code("if (threadIdx.x < 40) __syncthreads();"), "returned|do not come"),
    "two barriers": (code("if (threadIdx.x < 32) __syncthreads();\n else __syncthreads();"), "divergent"),
    "a shuffle for some threads": (code("if (threadIdx.x < 7) a[0] = __shfl_xor_sync(0xffffffffu, 1, 1);"), "do not come"),
    "two shuffles": (
        code("if (threadIdx.x < 7) __syncwarp();\n else a[0] = __shfl_xor_sync(0xffffffffu, 1, 1);"),
        "divergent",
    ),
    "a shuffle of part of a warp": (code("a[0] = __shfl_xor_sync(0xffu, 1, 1);"), "part of a warp"),
    "a read after the end": (code("a[threadIdx.x] = a[128 + threadIdx.x];"), "out of bounds"),
    "a write long before the start": (code("a[-9000] = 1;"), "out of bounds"),
    "a write just before the start": (code("a[-1] = 1;"), "beside an array"),
    "a write after shared memory": (code("((int *)shared_memory())[threadIdx.x] = 1;", shared=128), "out of bounds"),
}  # fmt: skip


@pytest.fixture(scope="module")
def emulated() -> Emulated:
    return Emulated([REVERSE, SUM, FORGOTTEN, *[wrong for wrong, _ in WRONG.values()]])


@pytest.mark.parametrize("order", range(5))
def test_threads_wait_for_each_other(emulated: Emulated, order: int) -> None:
    x = np.arange(128, dtype=np.int32)
    (y,) = emulated.run(REVERSE, [x], order)
    np.testing.assert_array_equal(y.reshape(2, 64), x.reshape(2, 64)[:, ::-1])
    (y,) = emulated.run(SUM, [x], order)
    np.testing.assert_array_equal(y.reshape(4, 32), np.repeat(x.reshape(4, 32).sum(1)[:, None], 32, 1))


def test_a_forgotten_barrier_shows_in_some_order(emulated: Emulated) -> None:
    x = np.arange(128, dtype=np.int32)
    results = [emulated.run(FORGOTTEN, [x], order)[0].tobytes() for order in range(5)]
    assert len(set(results)) > 1


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_noticed(emulated: Emulated, name: str) -> None:
    wrong, message = WRONG[name]
    with pytest.raises(AssertionError, match=message):
        emulated.run(wrong, [np.zeros(128, np.int32)])
