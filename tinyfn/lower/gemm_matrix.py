"""What is multiplied: batched matrices in memory or made by producers, and the places of their elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..trace import dtype as dtypes
from ..trace.dtype import DType
from .gemm_writer import TYPES, Index, Value, Writer, suffix, vector_type

# A digit with so many values at most is written out.
UNROLLED = 8


class Place(NamedTuple):
    """Where elements are: `lanes` of them along an axis (0 down a column, 1 along a row); `mask` chooses among them."""

    batch: Index
    row: Index
    column: Index
    axis: int = 1
    lanes: int = 1
    mask: Value | None = None
    unit: int = 1  # the first lane's index along the axis is a multiple of it
    digits: tuple[Index, ...] = ()  # of the index along the sum, if they are at hand

    @property
    def transposed(self) -> Place:
        """The same elements in the transposed matrix."""
        return self._replace(row=self.column, column=self.row, axis=1 - self.axis)


Producer = Callable[["Builder", Place], Value]
Extent = Callable[["Builder"], Index]  # a size that is known at run time
Epilogue = Callable[["Builder", Place, Value], Value | None]


class TransposedProducer:
    """Gives the elements that another gives for the transposed matrix."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.summed = digits_of(producer)
        self.windows = windows_of(producer)

    def __call__(self, b: Builder, place: Place) -> Value:
        return self._producer(b, place.transposed)


def digits_of(producer: Producer) -> tuple[int, ...]:
    """The sizes of the digits into which a producer takes apart the index along the sum; () if it does not."""
    return getattr(producer, "summed", ())


class Windows(NamedTuple):
    """An operand whose elements are those of images, at `places + steps * taps` of each channel: see `gemm_windows`.

    `elements` gives an image's elements, with their padding, by batch, row (of all images, channels and all but the last of the
    places) and place in the row."""

    channels: int
    places: tuple[int, ...]
    taps: tuple[int, ...]
    steps: tuple[int, ...]
    elements: Producer

    @property
    def padded(self) -> tuple[int, ...]:
        """The sizes of an image's axes after the channel's."""
        return tuple([n + d * (t - 1) for n, t, d in zip(self.places, self.taps, self.steps, strict=True)])

    @property
    def strides(self) -> tuple[int, ...]:
        """How far neighbours along these axes are from each other."""
        return tuple([prod(self.padded[i + 1 :]) for i in range(len(self.padded))])

    @property
    def image(self) -> int:
        """How many elements an image has."""
        return self.channels * prod(self.padded)


def windows_of(producer: Producer | None) -> Windows | None:
    """The windows that a producer's elements are, if they are such."""
    found: Windows | None = getattr(producer, "windows", None)
    return found


class Matrix(NamedTuple):
    """A batched matrix in memory: which pointer of the arguments, strides in elements (0 broadcasts), and where it begins."""

    argument: int
    dtype: DType
    row: int
    column: int
    batch: tuple[int, ...] = ()
    offset: int = 0

    @property
    def transposed(self) -> Matrix:
        """The same memory with rows and columns exchanged."""
        return self._replace(row=self.column, column=self.row)


class Contraction(NamedTuple):
    """What to compute: C = A @ B, for each matrix of a batch.

    A custom producer replaces the load of an operand, whose strides are then only a hint of which axis is contiguous. Its
    values, and the epilogue's argument, have the accumulator's dtype: float32 for halves, int32 for narrow integers. C may
    share memory with an array that the epilogue reads only if `Plan.k_blocks` is 1, or with `scratch`: sums between blocks of k
    are then kept elsewhere. An epilogue that gives None has stored what there is to store, and `c` only says which axis is
    contiguous.
    """

    m: int
    n: int
    k: int
    a: Matrix
    b: Matrix
    c: Matrix
    batch: tuple[int, ...] = ()
    scratch: bool = False
    producer_a: Producer | None = None
    producer_b: Producer | None = None
    epilogue: Epilogue | None = None
    # Where the rows, or the sum, are of symbolic size: how many there are; `m` and `k` are then the most that there can be.
    open_rows: Extent | None = None
    open_sum: Extent | None = None
    sums: DType | None = None  # if it is not what the factors' own dtypes are added up in

    @property
    def accumulator(self) -> DType:
        """The dtype of the sums."""
        return self.sums or np.result_type(*(dtypes.accumulator(x.dtype) for x in (self.a, self.b)))

    @property
    def transposed(self) -> Contraction:
        """The same work as the transposed product, B.T @ A.T."""
        assert self.open_rows is None, (
            "columns of symbolic size are not written: exchange the factors instead"
        )
        a, b, finish = self.producer_a, self.producer_b, self.epilogue
        return self._replace(
            m=self.n, n=self.m, a=self.b.transposed, b=self.a.transposed, c=self.c.transposed,
            producer_a=b and TransposedProducer(b), producer_b=a and TransposedProducer(a),
            epilogue=None if finish is None else lambda builder, place, value: finish(builder, place.transposed, value),
        )  # fmt: skip


class Builder(Writer):
    """Writes a function that works on batched matrices, `batch` being the sizes of the batch."""

    def __init__(self, signature: str, batch: tuple[int, ...] = (), fma: bool = True) -> None:
        super().__init__(signature, fma)
        self.batch = batch

    def locate(self, matrix: Matrix, place: Place) -> Value:
        """The address of a place's first element."""
        offset = self.add(self.scale(place.row, matrix.row), self.scale(place.column, matrix.column))
        rest, sizes = place.batch, self.batch
        for position in reversed(range(len(sizes))):
            stride = matrix.batch[position] if matrix.batch else 0
            if stride and sizes[position] > 1:
                outermost = all(size == 1 for size in sizes[:position])
                digit = rest if outermost else self.binary("urem", rest, sizes[position])
                offset = self.add(offset, self.scale(digit, stride))
            if sizes[position] > 1 and any(size > 1 for size in sizes[:position]):
                rest = self.binary("udiv", rest, sizes[position])
        return self.address(self.argument(matrix.argument), offset + matrix.offset, matrix.dtype)

    def _pointers(self, pointer: Value, stride: int, dtype: DType, lanes: int) -> Value:
        offsets = ", ".join(f"i64 {lane * stride}" for lane in range(lanes))
        text = f"getelementptr {TYPES[dtype]}, {pointer}, <{lanes} x i64> <{offsets}>"
        return self.pure(f"<{lanes} x ptr>", text)

    def read(self, matrix: Matrix, place: Place) -> Value:
        """The elements at a place, in the matrix's dtype: a load, a splat, or a gather, by the stride."""
        stride, lanes, dtype = (matrix.row, matrix.column)[place.axis], place.lanes, matrix.dtype
        pointer = self.locate(matrix, place)
        if lanes == 1 or stride == 0:
            return self.splat(self.load(pointer, dtype), lanes)
        if stride == 1:
            return self.load(pointer, dtype, lanes, place.mask)
        type = vector_type(dtype, lanes)
        mask = place.mask or Value(f"<{lanes} x i1>", "splat (i1 true)")
        pointers = self._pointers(pointer, stride, dtype, lanes)
        operands = f"<{lanes} x ptr> align {dtype.itemsize} {pointers.name}, {mask}, {type} zeroinitializer"
        return self.instruction(
            type, f"call {type} @llvm.masked.gather.{suffix(type)}.v{lanes}p0({operands})"
        )

    def write(self, matrix: Matrix, place: Place, value: Value) -> None:
        """Store elements, in the matrix's dtype, at a place."""
        stride, lanes, dtype = (matrix.row, matrix.column)[place.axis], place.lanes, matrix.dtype
        pointer = self.locate(matrix, place)
        if lanes == 1 or stride == 1:
            self.store(value, pointer, dtype, place.mask)
            return
        mask = place.mask or Value(f"<{lanes} x i1>", "splat (i1 true)")
        pointers = self._pointers(pointer, stride, dtype, lanes)
        operands = f"{value}, <{lanes} x ptr> align {dtype.itemsize} {pointers.name}, {mask}"
        self.statement(f"call void @llvm.masked.scatter.{suffix(value.type)}.v{lanes}p0({operands})")


def digits(b: Builder, index: Index, sizes: Sequence[int]) -> tuple[Index, ...]:
    """The digits of an index in the mixed base of these sizes, the most significant first."""
    made: list[Index] = []
    for size in reversed(sizes[1:]):
        made.append(b.binary("urem", index, size))
        index = b.binary("udiv", index, size)
    return (index, *reversed(made)) if sizes else ()


def unrolled(sizes: Sequence[int]) -> int:
    """How many values of the last of these digits are written out one by one; 1 for a loop over all of them."""
    return sizes[-1] if sizes and sizes[-1] <= UNROLLED else 1


def following(b: Builder, before: Sequence[Index], sizes: Sequence[int]) -> tuple[Index, ...]:
    """The digits of the index that comes next."""
    made: list[Index] = []
    carry: Value | None = None
    for digit, size in reversed(list(zip(before, sizes, strict=True))):
        step = b.number(digit + 1)
        if carry is not None:
            step = b.pure("i64", f"select {carry}, {step}, {b.number(digit)}")
        if len(made) + 1 < len(sizes):
            wraps = b.compare("eq", Index(step, 0), size)
            step = b.pure("i64", f"select {wraps}, i64 0, {step}")
            carry = wraps
        made.append(Index(step, 0))
    return tuple(reversed(made))
