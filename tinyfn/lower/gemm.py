"""Contractions: C[batch, m, n] = sum over k of A[batch, m, k] * B[batch, k, n], as LLVM IR in explicit vectors.

The method is that of K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication" (ACM TOMS 34, 2008), and
F. Van Zee and R. van de Geijn, "BLIS" (ACM TOMS 41, 2015): five loops round a tile of C that stays in registers, with blocks of
A and B copied ("packed") so that the tile reads them in order. Small and thin problems read the operands where they are, with
the same tiles. Shapes and strides are constants of the code, so edges are tiles of their own size.

Every element of C is one chain of fused multiply-adds in the order of k, whatever the blocks, the tiles, the packing and the
threads; only the "dots" plan, for a vector times rows that are contiguous in k, sums in `lanes` interleaved chains, a number
that depends on the shape alone.

What precedes and follows the contraction fuses into it. A producer gives elements of an operand, in the packing or, where
nothing is packed, in the tile; an epilogue changes finished elements before their store. Both write into the `Builder`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np

from ..trace import dtype as dtypes
from ..trace.dtype import DType

TYPES = {
    dtypes.float16: "half", dtypes.bfloat16: "bfloat", dtypes.float32: "float", dtypes.float64: "double",
    **{t: f"i{8 * t.itemsize}" for t in dtypes.INTEGERS},
}  # fmt: skip


class Facts(Protocol):
    """What the plan reads of a target: sizes in bytes, `registers` counts vector registers."""

    @property
    def vector_bytes(self) -> int: ...
    @property
    def registers(self) -> int: ...
    @property
    def l1_bytes(self) -> int: ...
    @property
    def l2_bytes(self) -> int: ...
    @property
    def l3_bytes(self) -> int: ...
    @property
    def cores(self) -> int: ...
    @property
    def fma(self) -> bool: ...


class Value(NamedTuple):
    """A typed value of the IR, such as `<16 x float> %v7`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


class Index(NamedTuple):
    """A 64-bit index `value + constant`: constants fold and end up in the displacements of addresses."""

    value: Value | None
    constant: int

    def __add__(self, other: object) -> Index:
        if not isinstance(other, int):
            return NotImplemented
        return Index(self.value, self.constant + other)


class Place(NamedTuple):
    """Where elements are: `lanes` of them along an axis (0 down a column, 1 along a row); `mask` chooses among them."""

    batch: Index
    row: Index
    column: Index
    axis: int = 1
    lanes: int = 1
    mask: Value | None = None

    @property
    def transposed(self) -> Place:
        """The same elements in the transposed matrix."""
        return self._replace(row=self.column, column=self.row, axis=1 - self.axis)


Producer = Callable[["Builder", Place], Value]
Epilogue = Callable[["Builder", Place, Value], Value]


class Matrix(NamedTuple):
    """A batched matrix in memory: which pointer of the arguments, and strides in elements (0 broadcasts)."""

    argument: int
    dtype: DType
    row: int
    column: int
    batch: tuple[int, ...] = ()

    @property
    def transposed(self) -> Matrix:
        """The same memory with rows and columns exchanged."""
        return self._replace(row=self.column, column=self.row)


class Contraction(NamedTuple):
    """What to compute. With `accumulate`, the product is added to C.

    A custom producer replaces the load of an operand, whose strides are then only a hint of which axis is contiguous. Its
    values, and the epilogue's argument, have the accumulator's dtype: float32 for halves, int32 for narrow integers. C may
    share memory with an array that the epilogue reads only if `Plan.k_blocks` is 1.
    """

    m: int
    n: int
    k: int
    a: Matrix
    b: Matrix
    c: Matrix
    batch: tuple[int, ...] = ()
    accumulate: bool = False
    producer_a: Producer | None = None
    producer_b: Producer | None = None
    epilogue: Epilogue | None = None

    @property
    def accumulator(self) -> DType:
        """The dtype of the sums."""
        return np.result_type(*(dtypes.accumulator(x.dtype) for x in (self.a, self.b)))

    @property
    def transposed(self) -> Contraction:
        """The same work as the transposed product, B.T @ A.T."""
        a, b, finish = self.producer_a, self.producer_b, self.epilogue
        return self._replace(
            m=self.n, n=self.m, a=self.b.transposed, b=self.a.transposed, c=self.c.transposed,
            producer_a=None if b is None else lambda builder, place: b(builder, place.transposed),
            producer_b=None if a is None else lambda builder, place: a(builder, place.transposed),
            epilogue=None if finish is None else lambda builder, place, value: finish(builder, place.transposed, value),
        )  # fmt: skip


class Plan(NamedTuple):
    """How to compute it. Sizes are in elements; chunks are pieces of the rows or of the columns of one matrix of the batch."""

    dots: bool  # vectors along k rather than along n
    lanes: int  # of a vector
    rows: int  # of a tile, MR
    columns: int  # of a tile, NR
    row_block: int  # MC
    k_block: int  # KC
    column_block: int  # NC
    pack_a: bool
    pack_b: bool
    split_rows: bool
    piece: int  # rows or columns of a chunk
    pieces: int
    k_blocks: int
    chunks: int


class Kernel(NamedTuple):
    """`void name(ptr arguments, i64 begin, i64 end)` runs the chunks from begin to end; any split gives the same bits.

    A call packs for all its chunks together: give each thread one range. Scratch comes from `malloc`."""

    name: str
    ir: str
    plan: Plan


def generate(name: str, contraction: Contraction, facts: Facts, plan: Plan | None = None) -> Kernel:
    """The kernel of a contraction, by the heuristic's plan unless another is given."""
    contraction = oriented(contraction)
    plan = plan or make_plan(contraction, facts)
    return Kernel(name, _Generator(name, contraction, facts, plan).module(), plan)


def vector_type(dtype: DType, lanes: int) -> str:
    """The IR's type of so many elements; one is a scalar."""
    return TYPES[dtype] if lanes == 1 else f"<{lanes} x {TYPES[dtype]}>"


class Loop:
    """A loop being written: its index, and the values it carries from one iteration to the next."""

    def __init__(self, index: Value, step: Value | int, carried: list[Value]) -> None:
        self.index, self.step, self.carried = Index(index, 0), step, carried


class Builder:
    """Writes one function, in basic blocks; equal pure instructions of the blocks one is in are written once."""

    def __init__(self, signature: str, batch: tuple[int, ...] = (), fma: bool = True) -> None:
        self.signature, self.batch, self.fma = signature, batch, fma
        self.prologue: list[str] = []
        self.lines: list[str] = []
        self.block = "body"
        self._names = 0
        self._known: dict[str, Value] = {}

    def text(self) -> str:
        """The finished function."""
        lines = ["entry:", *self.prologue, "  br label %body", "body:", *self.lines, "  ret void"]
        return f"define {self.signature} {{\n" + "\n".join(lines) + "\n}\n"

    def _name(self, prefix: str = "v") -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def statement(self, text: str) -> None:
        """An instruction with no result."""
        self.lines.append("  " + text)

    def instruction(self, type: str, text: str) -> Value:
        """An instruction with a result of this type."""
        value = Value(type, "%" + self._name())
        self.lines.append(f"  {value.name} = {text}")
        return value

    def pure(self, type: str, text: str) -> Value:
        """An instruction that depends on its operands alone, perhaps the one that was written before."""
        if text not in self._known:
            self._known[text] = self.instruction(type, text)
        return self._known[text]

    def _start(self, block: str) -> None:
        self.lines.append(f"{block}:")
        self.block = block

    @contextmanager
    def _scope(self) -> Iterator[None]:
        known, self._known = self._known, self._known.copy()
        yield
        self._known = known

    # Indices

    def number(self, index: Index | int) -> Value:
        """An index as a value."""
        if isinstance(index, int):
            return Value("i64", str(index))
        if index.value is None:
            return Value("i64", str(index.constant))
        return (
            self.pure("i64", f"add i64 {index.value.name}, {index.constant}")
            if index.constant
            else index.value
        )

    def add(self, x: Index, y: Index) -> Index:
        """The sum of two indices."""
        values = [v for v in (x.value, y.value) if v is not None]
        total = values[0] if values else None
        if len(values) == 2:
            total = self.pure("i64", f"add i64 {values[0].name}, {values[1].name}")
        return Index(total, x.constant + y.constant)

    def scale(self, x: Index, factor: int) -> Index:
        """An index times a constant."""
        if x.value is None or factor == 0:
            return Index(None, x.constant * factor)
        value = x.value if factor == 1 else self.pure("i64", f"mul i64 {x.value.name}, {factor}")
        return Index(value, x.constant * factor)

    def binary(self, operation: str, x: Index | int, y: Index | int) -> Index:
        """An instruction on two indices, such as `sub`, or `umin` for the intrinsic."""
        left, right = self.number(x), self.number(y)
        if operation in ("umin", "umax"):
            return Index(self.pure("i64", f"call i64 @llvm.{operation}.i64({left}, {right})"), 0)
        return Index(self.pure("i64", f"{operation} {left}, {right.name}"), 0)

    def compare(self, condition: str, x: Index | int, y: Index | int) -> Value:
        """A comparison of two indices, such as `ult`."""
        return self.pure("i1", f"icmp {condition} {self.number(x)}, {self.number(y).name}")

    # Control flow

    @contextmanager
    def loop(
        self,
        start: Index | int,
        stop: Index | int,
        step: int,
        carried: Sequence[Value] = (),
        nonempty: bool = False,
    ) -> Iterator[Loop]:
        """A loop from start to stop; the body may replace `step` and `carried`, whose last values stay there after it."""
        first, last, before = self.number(start), self.number(stop), self.block
        head, body, end = self._name("head"), self._name("loop"), self._name("end")
        if nonempty:
            body = head
        self.statement(f"br label %{head}")
        self._start(head)
        at = len(self.lines)
        loop = Loop(
            Value("i64", "%" + self._name()), step, [Value(v.type, "%" + self._name()) for v in carried]
        )
        phis, index = list(loop.carried), self.number(loop.index)
        if not nonempty:
            test = self._name()
            self.statement(f"%{test} = icmp ult {index}, {last.name}")
            self.statement(f"br i1 %{test}, label %{body}, label %{end}")
            self._start(body)
        with self._scope():
            yield loop
            amount = loop.step if isinstance(loop.step, Value) else Value("i64", str(loop.step))
            following = self.instruction("i64", f"add nuw {index}, {amount.name}")
            latch = self.block
            if nonempty:
                test = self._name()
                self.statement(f"%{test} = icmp ult {following}, {last.name}")
                self.statement(f"br i1 %{test}, label %{head}, label %{end}")
            else:
                self.statement(f"br label %{head}")
        entries = [(index, first, following), *zip(phis, carried, loop.carried, strict=True)]
        self.lines[at:at] = [
            f"  {phi.name} = phi {phi.type} [{x.name}, %{before}], [{y.name}, %{latch}]"
            for phi, x, y in entries
        ]
        self._start(end)
        if not nonempty:
            loop.carried = phis

    def choose(
        self,
        condition: Value,
        then: Callable[[], Sequence[Value]],
        otherwise: Callable[[], Sequence[Value]] = tuple,
    ) -> list[Value]:
        """The values of one of two branches."""
        blocks, end = [self._name("then"), self._name("else")], self._name("join")
        self.statement(f"br {condition}, label %{blocks[0]}, label %{blocks[1]}")
        values, last = [], []
        for block, branch in zip(blocks, (then, otherwise), strict=True):
            self._start(block)
            with self._scope():
                values.append(branch())
            last.append(self.block)
            self.statement(f"br label %{end}")
        self._start(end)
        return [
            self.instruction(x.type, f"phi {x.type} [{x.name}, %{last[0]}], [{y.name}, %{last[1]}]")
            for x, y in zip(*values, strict=True)
        ]

    # Values

    def constant(self, value: float | int, dtype: DType, lanes: int) -> Value:
        """A constant, the same in each lane."""
        type = TYPES[dtype]
        if dtypes.is_float(dtype):  # exact, as the bits of the double
            number = f"0x{np.float64(value).view(np.uint64):016X}"
            if type == "half":
                number = f"0xH{np.float16(value).view(np.uint16):04X}"
            elif type == "bfloat":
                number = f"0xR{np.asarray(value, dtype).view(np.uint16):04X}"
            elif type == "float":
                number = f"0x{np.float64(np.float32(value)).view(np.uint64):016X}"
        else:
            number = str(value)
        return self.splat(Value(type, number), lanes)

    def splat(self, scalar: Value, lanes: int) -> Value:
        """A scalar in each lane."""
        if lanes == 1:
            return scalar
        type = f"<{lanes} x {scalar.type}>"
        if not scalar.name.startswith("%"):
            return Value(type, f"splat ({scalar})")
        single = self.pure(type, f"insertelement {type} poison, {scalar}, i32 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.pure(type, f"shufflevector {single}, {type} poison, {zeros}")

    def shuffle(self, x: Value, y: Value, lanes: Sequence[int]) -> Value:
        """The lanes of two vectors laid end to end, by number."""
        chosen = ", ".join(f"i32 {lane}" for lane in lanes)
        element = x.type.split(" x ")[1].rstrip(">")
        return self.instruction(
            f"<{len(lanes)} x {element}>", f"shufflevector {x}, {y}, <{len(lanes)} x i32> <{chosen}>"
        )

    def convert(self, value: Value, source: DType, target: DType, lanes: int = 1) -> Value:
        """Values of one dtype as another, rounded to nearest."""
        if source == target:
            return value
        grows = target.itemsize > source.itemsize
        if dtypes.is_float(source) != dtypes.is_float(target):
            signed = "s" if "signed" in (dtypes.kind(source), dtypes.kind(target)) else "u"
            operation = f"{signed}itofp" if dtypes.is_float(target) else f"fpto{signed}i"
        elif dtypes.is_float(source):
            operation = "fpext" if grows else "fptrunc"
        elif target.itemsize == source.itemsize:
            return value
        else:
            operation = ("sext" if dtypes.kind(source) == "signed" else "zext") if grows else "trunc"
        type = vector_type(target, lanes)
        return self.pure(type, f"{operation} {value} to {type}")

    def multiply_add(self, x: Value, y: Value, z: Value, dtype: DType) -> Value:
        """x * y + z, fused where the target can."""
        if not dtypes.is_float(dtype):
            product = self.instruction(z.type, f"mul {x}, {y.name}")
            return self.instruction(z.type, f"add {product}, {z.name}")
        if self.fma:
            return self.instruction(z.type, f"call {z.type} @llvm.fma.{suffix(z.type)}({x}, {y}, {z})")
        product = self.instruction(z.type, f"fmul {x}, {y.name}")
        return self.instruction(z.type, f"fadd {product}, {z.name}")

    def sum(self, x: Value, y: Value, dtype: DType) -> Value:
        """x + y."""
        return self.instruction(x.type, f"{'fadd' if dtypes.is_float(dtype) else 'add'} {x}, {y.name}")

    # Memory

    def argument(self, position: int) -> Value:
        """A pointer of the kernel's arguments."""
        key = f"argument {position}"
        if key not in self._known:
            name = f"%argument{position}"
            line = f"  {name} = load ptr, ptr {name}.at"
            if line not in self.prologue:
                self.prologue += [f"  {name}.at = getelementptr ptr, ptr %arguments, i64 {position}", line]
            self._known[key] = Value("ptr", name)
        return self._known[key]

    def local(self, dtype: DType, count: int) -> Value:
        """An array on the stack."""
        name = "%" + self._name("local")
        self.prologue.append(f"  {name} = alloca [{count} x {TYPES[dtype]}], align 64")
        return Value("ptr", name)

    def address(self, pointer: Value, offset: Index | int, dtype: DType) -> Value:
        """A pointer so many elements further."""
        at = Index(None, offset) if isinstance(offset, int) else offset
        if at.value is not None:
            pointer = self.pure("ptr", f"getelementptr {TYPES[dtype]}, {pointer}, {at.value}")
        if at.constant:
            pointer = self.pure("ptr", f"getelementptr {TYPES[dtype]}, {pointer}, i64 {at.constant}")
        return pointer

    def load(self, pointer: Value, dtype: DType, lanes: int = 1, mask: Value | None = None) -> Value:
        """Consecutive elements; those that the mask excludes are not read, and zero."""
        type = vector_type(dtype, lanes)
        if mask is None:
            return self.instruction(type, f"load {type}, {pointer}, align {dtype.itemsize}")
        operands = f"ptr align {dtype.itemsize} {pointer.name}, {mask}, {type} zeroinitializer"
        return self.instruction(type, f"call {type} @llvm.masked.load.{suffix(type)}.p0({operands})")

    def store(self, value: Value, pointer: Value, dtype: DType, mask: Value | None = None) -> None:
        """Write consecutive elements, those of the mask."""
        if mask is None:
            self.statement(f"store {value}, {pointer}, align {dtype.itemsize}")
        else:
            operands = f"{value}, ptr align {dtype.itemsize} {pointer.name}, {mask}"
            self.statement(f"call void @llvm.masked.store.{suffix(value.type)}.p0({operands})")

    def first_lanes(self, count: Index | int, lanes: int) -> Value:
        """The mask of the first lanes, so many of them."""
        type = f"<{lanes} x i1>"
        if isinstance(count, int):
            return Value(type, "<" + ", ".join(f"i1 {int(lane < count)}" for lane in range(lanes)) + ">")
        return self.pure(
            type, f"call {type} @llvm.get.active.lane.mask.v{lanes}i1.i64(i64 0, {self.number(count)})"
        )

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
        return self.address(self.argument(matrix.argument), offset, matrix.dtype)

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


def suffix(type: str) -> str:
    """How an intrinsic's name spells a type: v16f32."""
    short = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
    if not type.startswith("<"):
        return short.get(type, type)
    lanes, element = type[1:-1].split(" x ")
    return f"v{lanes}{short.get(element, element)}"


def oriented(contraction: Contraction) -> Contraction:
    """The contraction or its transpose, such that rows of C are contiguous, or else that A is the thin operand."""
    c = contraction
    column_vector = c.n == 1 and c.m > 1
    thin = c.n <= THIN < c.m and c.a.column == 1
    columns_contiguous = c.c.row == 1 and c.c.column != 1 and c.n > 1
    return c.transposed if column_vector or thin or columns_contiguous else c


THIN = 4  # rows that are computed as dot products where the other operand is contiguous in k


def make_plan(c: Contraction, facts: Facts) -> Plan:
    """The heuristic's plan for an oriented contraction."""
    size = c.accumulator.itemsize
    lanes = max(1, facts.vector_bytes // size)
    plain_a = c.producer_a is None and c.a.dtype == c.accumulator
    plain_b = c.producer_b is None and c.b.dtype == c.accumulator
    dots = c.m <= THIN and c.b.row == 1 and (c.b.column != 1 or c.n == 1)
    if dots:
        rows, columns = max(c.m, 1), max(1, min(c.n, 8 // max(c.m, 1)))
        lanes = 64 // size * max(1, 8 // (rows * columns))
        k_block, row_block, column_block = max(c.k, 1), rows, max(c.n, 1)
        pack_a, pack_b = False, False
    else:
        rows, vectors = tile_shape(c.m, -(-c.n // lanes), facts.registers)
        columns = vectors * lanes
        pack_b = c.m > rows and (not plain_b or c.b.column != 1 or c.k * c.n * size > facts.l2_bytes // 4)
        pack_b = pack_b or c.b.column != 1
        pack_a = c.n > columns and (not plain_a or pack_b)
        k_block = round_up(facts.l1_bytes * 2 // 3 // (columns * size), lanes)
        if not pack_b and c.m <= THIN:
            k_block = 16
        k_block = even_blocks(c.k, k_block, lanes)
        row_block = max(rows, facts.l2_bytes // 2 // (k_block * size) // rows * rows)
        column_block = max(columns, min(4096, facts.l3_bytes // 4 // (k_block * size)) // columns * columns)
    split_rows = c.m >= c.n
    extent, unit = (c.m, rows) if split_rows else (c.n, columns)
    batch = int(np.prod(c.batch, dtype=np.int64))
    wanted = -(-4 * facts.cores // max(batch, 1))
    wanted = max(1, min(wanted, c.m * c.n * c.k >> 15)) if batch < 4 * facts.cores else 1
    piece = max(unit, round_up(-(-extent // wanted), unit))
    pieces = -(-extent // piece)
    chunks = batch * pieces if c.m and c.n else 0
    k_blocks = max(1, -(-c.k // k_block))
    return Plan(
        dots, lanes, rows, columns, row_block, k_block, column_block, pack_a, pack_b, split_rows, piece, pieces,
        k_blocks, chunks,
    )  # fmt: skip


def round_up(size: int, unit: int) -> int:
    """The next multiple of unit."""
    return -(-size // unit) * unit


def even_blocks(extent: int, block: int, unit: int) -> int:
    """A block size, a multiple of unit, near `block`, that leaves no small last block."""
    count = max(1, round(extent / block))
    return max(unit, round_up(-(-extent // count), unit))


def tile_shape(m: int, vectors: int, registers: int) -> tuple[int, int]:
    """Rows and vectors of the register tile that takes the fewest cycles for m rows of so many vectors.

    Model: two FMAs and two loads a cycle, four cycles of latency; accumulators, a row of B and an element of A in registers.
    """

    def cycles(r: int, v: int) -> float:
        return max(r * v / 2, (r + v) / 2, 4) + 0.25 if r and v else 0

    def cost(shape: tuple[int, int]) -> tuple[float, int]:
        r, v = shape
        whole, rest = m // r, m % r
        total = 0.0
        for count, width in ((vectors // v, v), (1, vectors % v)):
            total += count * (whole * cycles(r, width) + cycles(rest, width))
        return total * (1 + 0.01 * bool(rest) + 0.01 * bool(vectors % v)), -r * v

    shapes = [
        (r, v)
        for v in range(1, max(1, min(vectors, registers // 2)) + 1)
        for r in range(1, max(1, min(m, registers)) + 1)
        if r * v + v + 1 <= registers or r == v == 1
    ]
    return min(shapes, key=cost)


class _Generator:
    """Writes the functions of one kernel."""

    def __init__(self, name: str, contraction: Contraction, facts: Facts, plan: Plan) -> None:
        self.name, self.contraction, self.plan, self.fma = name, contraction, plan, facts.fma
        self.functions: dict[str, str] = {}
        c = contraction
        self.accumulator = c.accumulator
        # A is packed along the axis in which it is contiguous, so that packing never has to transpose it.
        self.a_by_rows = c.a.column == 1 or c.a.row != 1
        self.a_stride = plan.k_block + (64 // c.accumulator.itemsize if self.a_by_rows else 0)
        self.partial = plan.k_blocks > 1 and c.c.dtype != self.accumulator

    def module(self) -> str:
        """All functions, as text."""
        self._entry()
        attributes = (
            'attributes #0 = { nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" }\n'
        )
        return "\n".join(self.functions.values()) + "\n" + attributes

    def _function(
        self, name: str, parameters: Sequence[str], linkage: str = "internal "
    ) -> tuple[Builder, list[Value]]:
        values = [Value(p.split()[0], p.split()[1]) for p in parameters]
        noinline = "noinline " if linkage else ""
        signature = f"{linkage}void @{name}({', '.join(['ptr %arguments', *parameters])}) {noinline}#0"
        return Builder(signature, self.contraction.batch, self.fma), values

    def _produce_a(self, b: Builder, place: Place) -> Value:
        return self._produce(b, place, self.contraction.a, self.contraction.producer_a)

    def _produce_b(self, b: Builder, place: Place) -> Value:
        return self._produce(b, place, self.contraction.b, self.contraction.producer_b)

    def _produce(self, b: Builder, place: Place, matrix: Matrix, producer: Producer | None) -> Value:
        if producer is None:
            return b.convert(b.read(matrix, place), matrix.dtype, self.accumulator, place.lanes)
        value = producer(b, place)
        if place.mask is None:
            return value
        return b.instruction(value.type, f"select {place.mask}, {value}, {value.type} zeroinitializer")

    def _sweep(
        self,
        b: Builder,
        start: Index,
        stop: Index,
        step: int,
        extent: int,
        body: Callable[[Index, int], None],
    ) -> None:
        """Steps of a fixed size, and a smaller one at the end of the whole extent."""
        rest, end = extent % step, start
        if extent >= step:
            count = b.binary("sub", stop, start)
            whole = b.binary("sub", count, b.binary("urem", count, step))
            end = b.add(start, whole)
            with b.loop(start, end, step) as loop:
                body(loop.index, step)
        if rest and extent < step:
            body(end, rest)
        elif rest:

            def tail() -> tuple[()]:
                body(end, rest)
                return ()

            b.choose(b.compare("ult", end, stop), tail)

    def _mask(self, b: Builder, count: int) -> Value | None:
        return b.first_lanes(count, self.plan.lanes) if count < self.plan.lanes else None

    # Packing

    def _pack_a(self) -> str:
        """Rows of A: each in a row of its own, or, if A is contiguous down its columns, in panels of [k][rows of a tile]."""
        name, plan, dtype = f"{self.name}.pack_a", self.plan, self.accumulator
        b, values = self._function(
            name, ("i64 %batch", "i64 %first", "i64 %last", "i64 %k", "i64 %k_end", "ptr %to")
        )
        (batch, first, last, k_start, k_end), to = [Index(v, 0) for v in values[:5]], values[5]

        def row_vector(row: Index, target: Value, k: Index, count: int) -> None:
            value = self._produce_a(b, Place(batch, row, k, 1, plan.lanes, self._mask(b, count)))
            b.store(value, b.address(target, b.binary("sub", k, k_start), dtype), dtype)

        def row(row: Index, _: int) -> None:
            target = b.address(to, b.scale(b.binary("sub", row, first), self.a_stride), dtype)
            self._sweep(
                b, k_start, k_end, plan.lanes, self.contraction.k, lambda k, n: row_vector(row, target, k, n)
            )

        def panel(row: Index, rows: int) -> None:
            target = b.address(to, b.scale(b.binary("sub", row, first), plan.k_block), dtype)
            with b.loop(k_start, k_end, 1) as loop:
                column = b.address(target, b.scale(b.binary("sub", loop.index, k_start), plan.rows), dtype)
                for at in range(0, rows, plan.lanes):
                    place = Place(batch, row + at, loop.index, 0, plan.lanes, self._mask(b, rows - at))
                    # The lanes past the tile's rows are overwritten by the next store.
                    b.store(self._produce_a(b, place), b.address(column, at, dtype), dtype)

        if self.a_by_rows:
            self._sweep(b, first, last, 1, self.contraction.m, row)
        else:
            self._sweep(b, first, last, plan.rows, self.contraction.m, panel)
        self.functions[name] = b.text()
        return name

    def _pack_b(self) -> str:
        """Columns of B in panels of [k][columns of a tile]."""
        name, plan, c, dtype = f"{self.name}.pack_b", self.plan, self.contraction, self.accumulator
        b, values = self._function(
            name, ("i64 %batch", "i64 %first", "i64 %last", "i64 %k", "i64 %k_end", "ptr %to")
        )
        (batch, first, last, k_start, k_end), to = [Index(v, 0) for v in values[:5]], values[5]
        lanes = plan.lanes

        def panel(column: Index, columns: int) -> None:
            target = b.address(to, b.scale(b.binary("sub", column, first), plan.k_block), dtype)
            with b.loop(k_start, k_end, 1) as loop:
                row = b.address(target, b.scale(b.binary("sub", loop.index, k_start), plan.columns), dtype)
                for at in range(0, columns, lanes):
                    place = Place(batch, loop.index, column + at, 1, lanes, self._mask(b, columns - at))
                    b.store(self._produce_b(b, place), b.address(row, at, dtype), dtype)

        # Squares of at most 8 by 8: shuffles of wider vectors take LLVM four times as long. A square at an edge reads its
        # last column again instead of the missing ones, and writes rows past the last k, which the panel has room for.
        side = min(lanes, 8)

        def square(column: Index, target: Value, k: Index) -> None:
            mask = b.first_lanes(b.binary("sub", c.k, k), side) if c.k % side else None
            vectors = []
            for i in range(side):
                at = b.binary("umin", column + i, c.n - 1) if c.n % side else column + i
                vectors.append(self._produce_b(b, Place(batch, k, at, 0, side, mask)))
            row = b.address(target, b.scale(b.binary("sub", k, k_start), plan.columns), dtype)
            for i, vector in enumerate(transpose(b, vectors)):
                b.store(vector, b.address(row, i * plan.columns, dtype), dtype)

        def squares() -> None:
            with b.loop(first, last, side) as columns:
                offset = b.binary("sub", columns.index, first)
                within = b.binary("urem", offset, plan.columns)
                target = b.address(to, b.scale(b.binary("sub", offset, within), plan.k_block), dtype)
                target = b.address(target, within, dtype)
                with b.loop(k_start, k_end, side) as loop:
                    square(columns.index, target, loop.index)

        if c.b.row == 1 and c.b.column != 1:
            squares()
        else:
            self._sweep(b, first, last, plan.columns, c.n, panel)
        self.functions[name] = b.text()
        return name

    # Tiles

    def _tile(self, rows: int, columns: int) -> str:
        """A tile of C, for a block of k: in registers from its first product to its last."""
        name = f"{self.name}.tile.{rows}x{columns}"
        if name in self.functions:
            return name
        parameters = (
            "i64 %batch",
            "i64 %row",
            "i64 %column",
            "i64 %k",
            "i64 %k_end",
            "ptr %a",
            "ptr %b",
            "ptr %partial",
        )
        b, values = self._function(name, parameters)
        (self._dots_body if self.plan.dots else self._tile_body)(b, values, rows, columns)
        self.functions[name] = b.text()
        return name

    def _tile_body(self, b: Builder, values: list[Value], rows: int, columns: int) -> None:
        plan, c, dtype, lanes = self.plan, self.contraction, self.accumulator, self.plan.lanes
        (batch, row, column, k_start, k_end), (packed_a, packed_b, partial) = (
            [Index(v, 0) for v in values[:5]],
            values[5:],
        )
        starts = range(0, columns, lanes)
        masks = [self._mask(b, columns - at) for at in starts]
        places = [
            Place(batch, row + i, column + at, 1, lanes, mask)
            for i in range(rows)
            for at, mask in zip(starts, masks, strict=True)
        ]

        def read_c() -> list[Value]:
            return [b.convert(b.read(c.c, place), c.c.dtype, dtype, lanes) for place in places]

        def begin() -> list[Value]:
            return read_c() if c.accumulate else [b.constant(0, dtype, lanes)] * len(places)

        def partial_at(number: int) -> Value:
            i, v = divmod(number, len(starts))
            return b.address(partial, i * plan.column_block + v * lanes, dtype)

        def resume() -> list[Value]:
            if not self.partial:
                return read_c()
            return [b.load(partial_at(i), dtype, lanes) for i in range(len(places))]

        def interrupt() -> tuple[()]:
            for i, value in enumerate(sums):
                if self.partial:
                    b.store(value, partial_at(i), dtype)
                else:
                    b.write(c.c, places[i], value)
            return ()

        sums = begin() if plan.k_blocks == 1 else b.choose(b.compare("eq", k_start, 0), begin, resume)
        if c.k:
            with b.loop(Index(None, 0), b.binary("sub", k_end, k_start), 1, sums, nonempty=True) as loop:
                k = b.add(k_start, loop.index)
                b_row = [
                    b.load(b.address(packed_b, b.scale(loop.index, plan.columns) + at, dtype), dtype, lanes)
                    if plan.pack_b
                    else self._produce_b(b, Place(batch, k, column + at, 1, lanes, mask))
                    for at, mask in zip(starts, masks, strict=True)
                ]
                for i in range(rows):
                    if plan.pack_a:
                        steps = (1, self.a_stride) if self.a_by_rows else (plan.rows, 1)
                        at = b.scale(loop.index, steps[0]) + i * steps[1]
                        element = b.load(b.address(packed_a, at, dtype), dtype)
                    else:
                        element = self._produce_a(b, Place(batch, row + i, k))
                    element = b.splat(element, lanes)
                    for v, vector in enumerate(b_row):
                        number = i * len(b_row) + v
                        loop.carried[number] = b.multiply_add(element, vector, loop.carried[number], dtype)
            sums = loop.carried

        def finish() -> tuple[()]:
            self._finish(b, sums, places, len(starts))
            return ()

        if plan.k_blocks == 1 or (c.epilogue is None and not self.partial):
            finish()
        else:
            b.choose(b.compare("eq", k_end, c.k), finish, interrupt)

    def _dots_body(self, b: Builder, values: list[Value], rows: int, columns: int) -> None:
        c, dtype, lanes = self.contraction, self.accumulator, self.plan.lanes
        batch, row, column = (Index(v, 0) for v in values[:3])
        sums = [b.constant(0, dtype, lanes)] * (rows * columns)

        def step(k: Index, count: int, sums: list[Value]) -> list[Value]:
            mask = self._mask(b, count)
            a_rows = [self._produce_a(b, Place(batch, row + i, k, 1, lanes, mask)) for i in range(rows)]
            for j in range(columns):
                vector = self._produce_b(b, Place(batch, k, column + j, 0, lanes, mask))
                for i in range(rows):
                    sums[i * columns + j] = b.multiply_add(a_rows[i], vector, sums[i * columns + j], dtype)
            return sums

        whole = c.k - c.k % lanes
        if whole:
            with b.loop(0, whole, lanes, sums, nonempty=True) as loop:
                loop.carried = step(loop.index, lanes, loop.carried)
            sums = loop.carried
        if c.k % lanes:
            sums = step(Index(None, whole), c.k % lanes, sums)
        places = [Place(batch, row + i, column + j) for i in range(rows) for j in range(columns)]
        totals = [reduce_lanes(b, value, dtype, lanes) for value in sums]
        if c.accumulate:
            totals = [
                b.sum(b.convert(b.read(c.c, place), c.c.dtype, dtype), total, dtype)
                for place, total in zip(places, totals, strict=True)
            ]
        self._finish(b, totals, places, columns)

    def _finish(self, b: Builder, sums: Sequence[Value], places: Sequence[Place], columns: int) -> None:
        """The epilogue, row by row in a loop so that its code is short, and the store."""
        c, dtype, lanes = self.contraction, self.accumulator, places[0].lanes
        if c.epilogue is None:
            for place, value in zip(places, sums, strict=True):
                b.write(c.c, place, b.convert(value, dtype, c.c.dtype, lanes))
            return
        kept = b.local(dtype, len(sums) * lanes)
        for i, value in enumerate(sums):
            b.store(value, b.address(kept, i * lanes, dtype), dtype)
        with b.loop(0, len(sums) // columns, 1, nonempty=True) as loop:
            for v in range(columns):
                place = places[v]._replace(row=b.add(places[0].row, loop.index))
                at = b.scale(loop.index, columns * lanes) + v * lanes
                value = c.epilogue(b, place, b.load(b.address(kept, at, dtype), dtype, lanes))
                if value.type == vector_type(dtype, lanes):
                    value = b.convert(value, dtype, c.c.dtype, lanes)
                b.write(c.c, place, value)

    # The loops round the tiles

    def _region(self) -> str:
        """Rows and columns of one matrix of the batch: the blocks, and the tiles of each."""
        name, plan, c, dtype = f"{self.name}.region", self.plan, self.contraction, self.accumulator
        parameters = ("i64 %batch", "i64 %row", "i64 %row_end", "i64 %column", "i64 %column_end",
                      "ptr %a", "ptr %b", "ptr %partial")  # fmt: skip
        b, values = self._function(name, parameters)
        (batch, row, row_end, column, column_end), (to_a, to_b, partial) = (
            [Index(v, 0) for v in values[:5]],
            values[5:],
        )

        def call(function: str, *operands: Index | Value) -> None:
            texts = [str(x if isinstance(x, Value) else b.number(x)) for x in operands]
            b.statement(f"call void @{function}({', '.join(['ptr %arguments', *texts])})")

        with b.loop(column, column_end, plan.column_block) as columns:
            j = columns.index
            j_end = b.binary("umin", j + plan.column_block, column_end)
            with b.loop(0, max(c.k, 1), plan.k_block, nonempty=True) as depth:
                k, k_end = depth.index, b.binary("umin", depth.index + plan.k_block, c.k)
                if plan.pack_b:
                    call(self._pack_b(), batch, j, j_end, k, k_end, to_b)
                with b.loop(row, row_end, plan.row_block) as rows:
                    i, i_end = rows.index, b.binary("umin", rows.index + plan.row_block, row_end)
                    if plan.pack_a:
                        call(self._pack_a(), batch, i, i_end, k, k_end, to_a)

                    def strip(at_column: Index, width: int) -> None:
                        offset = b.binary("sub", at_column, j)  # noqa: B023
                        b_panel = (
                            b.address(to_b, b.scale(offset, plan.k_block), dtype) if plan.pack_b else to_b
                        )

                        def tile(at_row: Index, height: int) -> None:
                            a_panel, sums = to_a, partial
                            if plan.pack_a:
                                a_panel = b.address(
                                    a_panel, b.scale(b.binary("sub", at_row, i), self.a_stride), dtype
                                )
                            if self.partial:
                                position = b.add(
                                    b.scale(b.binary("sub", at_row, row), plan.column_block), offset
                                )
                                sums = b.address(sums, position, dtype)
                            call(
                                self._tile(height, width),
                                batch,
                                at_row,
                                at_column,
                                k,
                                k_end,
                                a_panel,
                                b_panel,
                                sums,
                            )

                        self._sweep(b, i, i_end, plan.rows, c.m, tile)

                    self._sweep(b, j, j_end, plan.columns, c.n, strip)
        self.functions[name] = b.text()
        return name

    def _entry(self) -> None:
        """The kernel: scratch, and the chunks, those of neighbouring rows or columns as one region."""
        plan, c = self.plan, self.contraction
        b, (begin, end) = self._function(self.name, ("i64 %begin", "i64 %end"), linkage="")
        if plan.chunks:
            self._chunks(b, Index(begin, 0), Index(end, 0))
        self.functions[self.name] = b.text()

    def _chunks(self, b: Builder, begin: Index, end: Index) -> None:
        plan, c, size = self.plan, self.contraction, self.accumulator.itemsize
        slack = 64 // size + 2 * plan.lanes
        a_size = round_up(plan.row_block * self.a_stride + slack, 64) if plan.pack_a else 0
        b_size = (
            round_up(min(plan.column_block, round_up(c.n, plan.columns)) * plan.k_block, 64)
            if plan.pack_b
            else 0
        )
        buffers = [Value("ptr", "null")] * 3
        scratch = None
        if a_size or b_size or self.partial:
            total = Index(None, (a_size + b_size) * size + 64)
            if self.partial:
                pieces = b.binary("umin", b.binary("sub", end, begin), plan.pieces)
                rows = b.scale(pieces, plan.piece) if plan.split_rows else Index(None, c.m)
                total = b.add(b.scale(rows, plan.column_block * size), total)
            scratch = b.instruction("ptr", f"call ptr @malloc({b.number(total)})")
            aligned = b.pure("ptr", f"getelementptr i8, {scratch}, i64 63")
            aligned = b.pure("ptr", f"call ptr @llvm.ptrmask.p0.i64({aligned}, i64 -64)")
            buffers = [b.address(aligned, at, self.accumulator) for at in (0, a_size, a_size + b_size)]
            self.functions["malloc"] = "declare ptr @malloc(i64)\ndeclare void @free(ptr)\n"
        region = self._region()
        with b.loop(begin, end, 1) as loop:
            batch, piece = (b.binary(op, loop.index, plan.pieces) for op in ("udiv", "urem"))
            count = b.binary("umin", b.binary("sub", end, loop.index), b.binary("sub", plan.pieces, piece))
            loop.step = b.number(count)
            first = b.scale(piece, plan.piece)
            extent = c.m if plan.split_rows else c.n
            last = b.binary("umin", b.add(first, b.scale(count, plan.piece)), extent)
            ranges = [(first, last), (Index(None, 0), Index(None, c.n if plan.split_rows else c.m))]
            rows, columns = ranges if plan.split_rows else reversed(ranges)
            operands = [b.number(x) for x in (batch, *rows, *columns)] + buffers
            b.statement(f"call void @{region}({', '.join(['ptr %arguments', *map(str, operands)])})")
        if scratch is not None:
            b.statement(f"call void @free({scratch})")


def transpose(b: Builder, vectors: list[Value]) -> list[Value]:
    """As many vectors as they have lanes, a power of two, transposed by swapping blocks of half the size in each round."""
    lanes, half = len(vectors), len(vectors) // 2
    while half:
        following = list(vectors)
        for i in range(lanes):
            if not i & half:
                low = [lane if not lane & half else lanes + lane - half for lane in range(lanes)]
                high = [lane + half if not lane & half else lanes + lane for lane in range(lanes)]
                pair = vectors[i], vectors[i + half]
                following[i], following[i + half] = b.shuffle(*pair, low), b.shuffle(*pair, high)
        vectors, half = following, half // 2
    return vectors


def reduce_lanes(b: Builder, value: Value, dtype: DType, lanes: int) -> Value:
    """The sum of a vector's lanes, halves first."""
    while lanes > 1:
        lanes //= 2
        halves = [b.shuffle(value, value, range(at, at + lanes)) for at in (0, lanes)]
        value = b.sum(*halves, dtype)
    return b.instruction(TYPES[dtype], f"extractelement {value}, i32 0")
