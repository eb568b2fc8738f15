"""Tensor cores: machine instructions by which the threads of a warp multiply small matrices together.

`D = A·B + C`, where A is M×K, B is K×N, and C and D are M×N. Each thread holds some elements of each matrix. Sizes, threads and
elements per thread are powers of two, so which element a thread holds is said bit by bit: a `Layout` names, for each bit of
the lane's number and of the number of the element within the thread, lowest bit first, the bit of an index that it is. "m0" is
the lowest bit of the row of A, C and D, "k2" the third lowest of the index that is summed over.
"""

from __future__ import annotations

from typing import NamedTuple

from ..trace import dtype as dtypes
from ..trace.dtype import DType


class Layout(NamedTuple):
    """Which index bit each bit of the lane's and of the element's number is, lowest bit first."""

    lane: tuple[str, ...]
    element: tuple[str, ...]

    def position(self, lane: int, element: int) -> dict[str, int]:
        """The index that an element of a lane has along each axis."""
        found: dict[str, int] = {}
        for bits, number in ((self.lane, lane), (self.element, element)):
            for i, bit in enumerate(bits):
                axis, place = bit[0], int(bit[1:])
                found[axis] = found.get(axis, 0) | (number >> i & 1) << place
        return found


class TensorCore:
    """An instruction that multiplies small matrices: sizes (N, M, K), threads, dtypes, and who holds which element.

    Raises ValueError for layouts that do not give each thread its share of each element."""

    __slots__ = ("a", "b", "c", "dims", "dtype_in", "dtype_out", "threads")

    def __init__(
        self,
        dims: tuple[int, int, int],
        threads: int,
        dtype_in: DType,
        dtype_out: DType,
        a: Layout,
        b: Layout,
        c: Layout,
    ):
        self.dims, self.threads = dims, threads
        self.dtype_in, self.dtype_out = dtype_in, dtype_out
        self.a, self.b, self.c = a, b, c
        for size in (*dims, threads):
            if size < 1 or size & (size - 1):
                raise ValueError(f"{self}: {size} is no power of two")
        bits = {axis: _bits(axis, size) for axis, size in zip("nmk", dims, strict=True)}
        for name, layout, axes in (("A", a, "mk"), ("B", b, "kn"), ("C", c, "mn")):
            wanted = sorted(bit for axis in axes for bit in bits[axis])
            if sorted(layout.lane + layout.element) != wanted:
                raise ValueError(
                    f"{self}: the bits of {name} are {', '.join(wanted)}, each once; "
                    f"its layout has {', '.join(layout.lane + layout.element)}"
                )
            if 1 << len(layout.lane) != threads:
                raise ValueError(
                    f"{self}: the layout of {name} is for {1 << len(layout.lane)} threads, not {threads}"
                )

    @property
    def elements_per_thread(self) -> tuple[int, int, int]:
        """How many elements of A, B and C a thread holds."""
        a, b, c = (1 << len(layout.element) for layout in (self.a, self.b, self.c))
        return a, b, c

    @property
    def opts(self) -> tuple[str, ...]:
        """How the result's columns (0) and rows (1) are split by two, lowest bit first: "u" within a thread, "l" over lanes."""
        return tuple(
            f"{'u' if bit in self.c.element else 'l'}{number}"
            for number, (axis, size) in enumerate(zip("nm", self.dims[:2], strict=True))
            for bit in _bits(axis, size)
        )

    def __str__(self) -> str:
        n, m, k = self.dims
        return f"WMMA_{n}_{m}_{k}_{self.dtype_in.name}_{self.dtype_out.name}"

    def __repr__(self) -> str:
        return f"<TensorCore {self}>"


def _bits(axis: str, size: int) -> list[str]:
    return [f"{axis}{i}" for i in range(size.bit_length() - 1)]


# The fragments of mma.sync, from the PTX ISA, section "Matrix Fragments for mma": lane = 4*group + number in the group.
_GROUP_N, _GROUP_M = ("n0", "n1", "n2"), ("m0", "m1", "m2")
_RESULT = Layout(("n1", "n2", *_GROUP_M), ("n0", "m3"))


def _half(dtype_in: DType, dtype_out: DType, k: int) -> TensorCore:
    """m16n8k8 and m16n8k16 of 16-bit floats: two neighbours along k to a register."""
    far = ("k3",) if k == 16 else ()
    a = Layout(("k1", "k2", *_GROUP_M), ("k0", "m3", *far))
    b = Layout(("k1", "k2", *_GROUP_N), ("k0", *far))
    return TensorCore((8, 16, k), 32, dtype_in, dtype_out, a, b, _RESULT)


_TF32 = TensorCore(
    (8, 16, 8), 32, dtypes.float32, dtypes.float32,
    Layout(("k0", "k1", *_GROUP_M), ("m3", "k2")), Layout(("k0", "k1", *_GROUP_N), ("k2",)), _RESULT,
)  # fmt: skip

_TURING = (
    _half(dtypes.float16, dtypes.float32, 8),
    _half(dtypes.float16, dtypes.float16, 8),
)
_AMPERE = (
    _half(dtypes.float16, dtypes.float32, 16),
    _half(dtypes.bfloat16, dtypes.float32, 16),
    _half(dtypes.float16, dtypes.float16, 16),
    *_TURING,
)


def cuda_tensor_cores(capability: int, allow_tf32: bool = False) -> tuple[TensorCore, ...]:
    """The tensor cores of an NVIDIA GPU of a compute capability (75 for 7.5), the largest first.

    With `allow_tf32` also those that round float32 to 10 bits of mantissa: float32 means float32 unless a user says otherwise."""
    if capability < 75:
        return ()
    if capability < 80:
        return _TURING
    return (*_AMPERE, *((_TF32,) if allow_tf32 else ()))
