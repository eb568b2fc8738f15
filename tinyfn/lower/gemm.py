"""Contractions: C[batch, m, n] = sum over k of A[batch, m, k] * B[batch, k, n], as LLVM IR in explicit vectors.

The method is that of K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication" (ACM TOMS 34, 2008), and
F. Van Zee and R. van de Geijn, "BLIS" (ACM TOMS 41, 2015): five loops round a tile of C that stays in registers, with blocks of
A and B copied ("packed") so that the tile reads them in order. Small and thin problems read the operands where they are, with
the same tiles. Shapes and strides are constants of the code, so edges are tiles of their own size.

Every element of C is one chain of fused multiply-adds in the order of k, whatever the blocks, the tiles, the packing and the
threads. Only the "dots" plan, for few rows times columns that are contiguous in k, sums in `lanes` interleaved chains; it is
chosen by shapes, strides and dtypes. So the bits are the same on all machines with fused multiply-add.

What precedes and follows the contraction fuses into it. A producer gives elements of an operand, in the packing or, where
nothing is packed, in the tile; an epilogue changes finished elements before their store. Both write into the `Builder`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import NamedTuple

import numpy as np

from ..trace import dtype as dtypes
from ..trace.dtype import DType
from .target import Target

TYPES = {
    dtypes.float16: "half", dtypes.bfloat16: "i16", dtypes.float32: "float", dtypes.float64: "double",
    **{t: f"i{8 * t.itemsize}" for t in dtypes.INTEGERS},
}  # fmt: skip


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
    unit: int = 1  # the first lane's index along the axis is a multiple of it

    @property
    def transposed(self) -> Place:
        """The same elements in the transposed matrix."""
        return self._replace(row=self.column, column=self.row, axis=1 - self.axis)


Producer = Callable[["Builder", Place], Value]
Epilogue = Callable[["Builder", Place, Value], Value | None]


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
    """What to compute. With `accumulate`, the product is added to C.

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
    accumulate: bool = False
    scratch: bool = False
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
    grain: int  # chunks that a call should have


class Kernel(NamedTuple):
    """`void name(ptr arguments, i64 begin, i64 end)` runs the chunks from begin to end; any split gives the same bits.

    A call packs for all its chunks together, so it should have `plan.grain` of them. Scratch comes from `malloc`."""

    name: str
    ir: str
    plan: Plan


def generate(name: str, contraction: Contraction, target: Target, plan: Plan | None = None) -> Kernel:
    """The kernel of a contraction, by the heuristic's plan unless another is given.

    Raises ValueError unless the three dtypes are floats of 16 to 64 bits, or integers."""
    named = {x.dtype for x in (contraction.a, contraction.b, contraction.c)}
    if not named <= TYPES.keys() or len({dtypes.is_float(x) for x in named}) > 1:
        raise ValueError(
            f"no kernel multiplies {contraction.a.dtype} by {contraction.b.dtype} into {contraction.c.dtype}"
        )
    contraction = oriented(contraction)
    plan = plan or make_plan(contraction, target)
    return Kernel(name, _Generator(name, contraction, target, plan).module(), plan)


def vector_type(dtype: DType, lanes: int) -> str:
    """The IR's type of so many elements; one is a scalar."""
    return _vector(TYPES[dtype], lanes)


def _vector(type: str, lanes: int) -> str:
    return type if lanes == 1 else f"<{lanes} x {type}>"


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
            self._known[text] = self.instruction(type, text.removeprefix("raw "))
        return self._known[text]

    def raw(self, text: str) -> str:
        """The name of the result of an instruction that depends on its operands alone, of whatever type it is."""
        return self.pure("", "raw " + text).name

    def zero(self) -> str:
        """The address of eight zero bytes, for loads whose condition does not hold."""
        name = "%zeros"
        if not any(line.startswith(f"  {name} ") for line in self.prologue):
            self.prologue += [f"  {name} = alloca i64, align 8", f"  store i64 0, ptr {name}, align 8"]
        return name

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
        if y == 1 and operation in ("udiv", "urem"):
            return Index(None, 0) if operation == "urem" else Index(self.number(x), 0)
        left, right = self.number(x), self.number(y)
        if operation in ("umin", "umax", "smin", "smax"):
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
        """A loop while index < stop, signed; the body may replace `step` and `carried`, whose last values stay there after it.

        After a loop that may be empty, `index` is where it stopped."""
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
            self.statement(f"%{test} = icmp slt {index}, {last.name}")
            self.statement(f"br i1 %{test}, label %{body}, label %{end}")
            self._start(body)
        with self._scope():
            yield loop
            amount = loop.step if isinstance(loop.step, Value) else Value("i64", str(loop.step))
            following = self.instruction("i64", f"add nuw {index}, {amount.name}")
            latch = self.block
            if nonempty:
                test = self._name()
                self.statement(f"%{test} = icmp slt {following}, {last.name}")
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
        then: Callable[[], Sequence[Value] | None],
        otherwise: Callable[[], Sequence[Value] | None] = tuple,
    ) -> list[Value]:
        """The values of one of two branches."""
        blocks, end = [self._name("then"), self._name("else")], self._name("join")
        self.statement(f"br {condition}, label %{blocks[0]}, label %{blocks[1]}")
        values, last = [], []
        for block, branch in zip(blocks, (then, otherwise), strict=True):
            self._start(block)
            with self._scope():
                values.append(branch() or ())
            last.append(self.block)
            self.statement(f"br label %{end}")
        self._start(end)
        return [
            self.instruction(x.type, f"phi {x.type} [{x.name}, %{last[0]}], [{y.name}, %{last[1]}]")
            for x, y in zip(*values, strict=True)
        ]

    # Values

    def constant(self, value: float | int, dtype: DType, lanes: int) -> Value:
        """A float32, float64 or integer constant, the same in each lane."""
        number = str(value)
        if dtypes.is_float(dtype):  # LLVM spells a float by the bits of the double
            number = f"0x{np.float64(dtype.type(value)).view(np.uint64):016X}"
        return self.splat(Value(TYPES[dtype], number), lanes)

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
        """Floats of one dtype as another, rounded to nearest even, or integers as others of their low bits."""
        if source == target:
            return value
        if source == dtypes.bfloat16:
            word = self._word(
                "shl", self.pure(_vector("i32", lanes), f"zext {value} to {_vector('i32', lanes)}"), 16
            )
            single = self.pure(_vector("float", lanes), f"bitcast {word} to {_vector('float', lanes)}")
            return self.convert(single, dtypes.float32, target, lanes)
        if target == dtypes.bfloat16:
            return self._to_bfloat16(self.convert(value, source, dtypes.float32, lanes), lanes)
        type = vector_type(target, lanes)
        if source.itemsize == target.itemsize:
            return value
        if dtypes.is_float(source):
            operation = "fpext" if target.itemsize > source.itemsize else "fptrunc"
        elif target.itemsize < source.itemsize:
            operation = "trunc"
        else:
            operation = "sext" if dtypes.kind(source) == "signed" else "zext"
        return self.pure(type, f"{operation} {value} to {type}")

    def _to_bfloat16(self, value: Value, lanes: int) -> Value:
        """In integers, as the machine's own conversion takes subnormals for zeros."""
        words, halves = _vector("i32", lanes), _vector("i16", lanes)
        bits = self.pure(words, f"bitcast {value} to {words}")
        top = self._word("lshr", bits, 16)
        rounding = self._word("add", self._word("and", top, 1), 0x7FFF)
        rounded = self._word("lshr", self.pure(words, f"add {bits}, {rounding.name}"), 16)
        is_nan = self.pure(_vector("i1", lanes), f"fcmp uno {value}, {value.name}")
        chosen = self.pure(words, f"select {is_nan}, {self._word('or', top, 0x40)}, {rounded}")
        return self.pure(halves, f"trunc {chosen} to {halves}")

    def _word(self, operation: str, x: Value, number: int) -> Value:
        constant = str(number) if x.type == "i32" else f"splat (i32 {number})"
        return self.pure(x.type, f"{operation} {x}, {constant}")

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
        return self.elements(
            pointer, Index(None, offset) if isinstance(offset, int) else offset, TYPES[dtype]
        )

    def elements(self, pointer: Value, at: Index, type: str) -> Value:
        """A pointer so many elements of a type of the IR further."""
        if at.value is not None:
            pointer = self.pure("ptr", f"getelementptr {type}, {pointer}, {at.value}")
        if at.constant:
            pointer = self.pure("ptr", f"getelementptr {type}, {pointer}, i64 {at.constant}")
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
        if mask is not None and mask.name.count("i1 1") == 1 and mask.name.startswith("<i1 1"):
            # LLVM 20 to 22 store a whole 32-bit word for one lane of a truncated vector.
            value, mask = self.pure(value.type.split(" x ")[1][:-1], f"extractelement {value}, i64 0"), None
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


def suffix(type: str) -> str:
    """How an intrinsic's name spells a type: v16f32."""
    short = {"half": "f16", "float": "f32", "double": "f64"}
    if not type.startswith("<"):
        return short.get(type, type)
    lanes, element = type[1:-1].split(" x ")
    return f"v{lanes}{short.get(element, element)}"


THIN = 4  # rows of A that do not repay a copy of B
CALL_PRODUCTS = 1 << 17  # multiplications that are worth a call on another thread


def dots_pay(m: int, n: int, k: int, a_along_k: bool) -> bool:
    """Whether to compute m rows, times columns that are contiguous in k, as dot products."""
    return m <= THIN or (m <= 32 and k >= 256 and a_along_k and m <= n)


def oriented(contraction: Contraction) -> Contraction:
    """The contraction or its transpose: so that A is the thin operand of dot products, else so that rows of C are contiguous."""
    c = contraction
    column_vector = c.n == 1 and c.m > 1
    thin = c.n < c.m and c.a.column == 1 and dots_pay(c.n, c.m, c.k, c.b.row == 1)
    columns_contiguous = c.c.row == 1 and c.c.column != 1 and c.n > 1
    return c.transposed if column_vector or thin or columns_contiguous else c


def make_plan(c: Contraction, target: Target) -> Plan:
    """The heuristic's plan for an oriented contraction."""
    size = c.accumulator.itemsize
    plain_a = c.producer_a is None and c.a.dtype == c.accumulator
    plain_b = c.producer_b is None and c.b.dtype == c.accumulator
    along_k = c.b.row == 1 and (c.b.column != 1 or c.n == 1) and (c.m <= THIN or plain_b)
    dots = along_k and dots_pay(c.m, c.n, c.k, c.a.column == 1)
    if dots:
        # One chain a lane of 64 bytes, more where there are few results: of the shape alone, as it decides about the bits.
        lanes = 64 // size * max(1, 8 // max(1, c.m * c.n))
        registers = target.vector_registers * target.vector_bytes // 64
        tiles = -(-c.m // (5 if registers >= 32 else 2))
        rows = -(-c.m // tiles) if tiles else 1
        columns = max(1, min(c.n, 8, (registers - 1 - rows) // rows))
        row_block, k_block = round_up(max(c.m, 1), rows), round_up(max(c.k, 1), lanes)
        column_block = round_up(max(c.n, 1), columns)
        pack_a, pack_b = c.n > columns and not (plain_a and c.a.column == 1), False
    else:
        lanes = max(1, target.vector_bytes // size)
        rows, vectors = tile_shape(c.m, -(-c.n // lanes), target.vector_registers)
        columns = vectors * lanes
        # Copying B pays off when enough rows of A use it, and A then too; casts and other producers run once an element.
        large = c.k * c.n * size > target.l2_bytes // 2 and c.m > 192
        pack_b = c.b.column != 1 or (c.m > rows and (large or not plain_b))
        pack_a = c.n > columns and (large or not plain_a)
        k_block = round_up(target.l2_bytes // 8 // (columns * size), lanes)
        if not pack_b and c.m <= THIN:
            k_block = 16  # streams of whole rows of B, past sums of C that stay in the first cache
        k_block = even_blocks(c.k, k_block, lanes)
        row_block = max(rows, target.l2_bytes // 2 // (k_block * size) // rows * rows)
        column_block = max(columns, min(4096, target.l3_bytes // 4 // (k_block * size)) // columns * columns)
    batch = prod(c.batch)
    split_rows = c.m >= c.n
    extent, unit = (c.m, rows) if split_rows else (c.n, columns)
    wanted = 1 if batch >= 4 * target.cores else 64 * target.cores
    piece = round_up(max(1, -(-extent // wanted)), unit)
    pieces = -(-extent // piece)
    chunks = batch * pieces if c.m and c.n else 0
    # A call a core, as each copies B for itself, or two where nothing is copied; none of less than about a microsecond.
    calls = min(target.cores if pack_b else 2 * target.cores, batch * c.m * c.n * c.k // CALL_PRODUCTS)
    grain = max(1, -(-chunks // max(1, calls)))
    return Plan(
        dots, lanes, rows, columns, row_block, k_block, column_block, pack_a, pack_b, split_rows, piece, pieces,
        max(1, -(-c.k // k_block)), chunks, grain,
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

    Model: two FMAs a cycle with four cycles of latency, and a tenth of a cycle a load (measured on a Zen 5). Registers hold the
    accumulators, a row of B and an element of A.
    """

    def cycles(r: int, v: int) -> float:
        return max(r * v / 2, 4) + (r + v) / 10 + 0.25 if r and v else 0

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


_ATTRIBUTES = 'nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512"'


class _Generator:
    """Writes the functions of one kernel."""

    def __init__(self, name: str, contraction: Contraction, target: Target, plan: Plan) -> None:
        self.name, self.contraction, self.plan, self.fma = name, contraction, plan, target.has_fma
        self.functions: dict[str, str] = {}
        c = contraction
        self.accumulator = c.accumulator
        self.a, self.b = (c.a, c.producer_a), (c.b, c.producer_b)
        # A is packed along the axis in which it is contiguous, so that packing never has to transpose it.
        self.a_by_rows = plan.dots or c.a.column == 1 or c.a.row != 1
        self.a_stride = plan.k_block + (64 // c.accumulator.itemsize if self.a_by_rows else 0)
        self.partial = plan.k_blocks > 1 and (c.scratch or c.c.dtype != self.accumulator)

    def module(self) -> str:
        """All functions, as text."""
        self._entry()
        return "\n".join(self.functions.values())

    def _function(
        self, name: str, indices: str, pointers: str = "", external: bool = False
    ) -> tuple[Builder, list[Index], list[Value]]:
        """A new function of the arguments' pointer, some indices and some pointers."""
        numbers = [Value("i64", f"%{index}") for index in indices.split()]
        places = [Value("ptr", f"%{pointer}") for pointer in pointers.split()]
        parameters = ", ".join(["ptr %arguments", *map(str, numbers + places)])
        inside = "" if external else "internal "
        signature = f"{inside}void @{name}({parameters}) {'' if external else 'noinline '}{_ATTRIBUTES}"
        return Builder(signature, self.contraction.batch, self.fma), [Index(v, 0) for v in numbers], places

    def _produce(self, b: Builder, operand: tuple[Matrix, Producer | None], place: Place) -> Value:
        """Elements of A or B, in the accumulator's dtype; zeros where the mask excludes them."""
        matrix, producer = operand
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
        rest = extent % step
        if extent < step:
            body(start, rest)
            return
        with b.loop(start, b.binary("sub", stop, step - 1), step) as loop:
            body(loop.index, step)
        if rest:
            b.choose(b.compare("slt", loop.index, stop), lambda: body(loop.index, rest))

    @contextmanager
    def _blocks(
        self, b: Builder, start: Index, stop: Index, size: int, extent: int
    ) -> Iterator[tuple[Index, Index]]:
        """The starts and ends of blocks of a size; no loop if the whole extent is one block."""
        if extent <= size:
            yield start, stop
        else:
            with b.loop(start, stop, size) as loop:
                yield loop.index, b.binary("umin", loop.index + size, stop)

    def _mask(self, b: Builder, count: int) -> Value | None:
        return b.first_lanes(count, self.plan.lanes) if count < self.plan.lanes else None

    # Packing

    def _pack_a(self) -> str:
        """Rows of A: each in a row of its own, or, if A is contiguous down its columns, in panels of [k][rows of a tile]."""
        name, plan, dtype = f"{self.name}.pack_a", self.plan, self.accumulator
        b, (batch, first, last, k_start, k_end), (to,) = self._function(
            name, "batch first last k k_end", "to"
        )

        def row_vector(row: Index, target: Value, k: Index, count: int) -> None:
            value = self._produce(
                b, self.a, Place(batch, row, k, 1, plan.lanes, self._mask(b, count), plan.lanes)
            )
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
                    b.store(self._produce(b, self.a, place), b.address(column, at, dtype), dtype)

        if self.a_by_rows:
            self._sweep(b, first, last, 1, self.contraction.m, row)
        else:
            self._sweep(b, first, last, plan.rows, self.contraction.m, panel)
        self.functions[name] = b.text()
        return name

    def _pack_b(self) -> str:
        """Columns of B in panels of [k][columns of a tile]."""
        name, plan, c, dtype = f"{self.name}.pack_b", self.plan, self.contraction, self.accumulator
        b, (batch, first, last, k_start, k_end), (to,) = self._function(
            name, "batch first last k k_end", "to"
        )
        lanes = plan.lanes

        def panel(column: Index, columns: int) -> None:
            target = b.address(to, b.scale(b.binary("sub", column, first), plan.k_block), dtype)
            with b.loop(k_start, k_end, 1) as loop:
                row = b.address(target, b.scale(b.binary("sub", loop.index, k_start), plan.columns), dtype)
                for at in range(0, columns, lanes):
                    place = Place(
                        batch, loop.index, column + at, 1, lanes, self._mask(b, columns - at), lanes
                    )
                    b.store(self._produce(b, self.b, place), b.address(row, at, dtype), dtype)

        # Squares of at most 8 by 8: shuffles of wider vectors take LLVM four times as long. A square at an edge reads its
        # last column again instead of the missing ones, and writes rows past the last k, which the panel has room for.
        side = min(lanes, 8)

        def square(column: Index, target: Value, k: Index) -> None:
            mask = b.first_lanes(b.binary("sub", c.k, k), side) if c.k % side else None
            vectors = []
            for i in range(side):
                at = b.binary("umin", column + i, c.n - 1) if c.n % side else column + i
                vectors.append(self._produce(b, self.b, Place(batch, k, at, 0, side, mask, side)))
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
        b, indices, pointers = self._function(name, "batch row column k k_end", "a b partial")
        (self._dots if self.plan.dots else self._products)(b, indices, pointers, rows, columns)
        self.functions[name] = b.text()
        return name

    def _products(
        self, b: Builder, indices: list[Index], pointers: list[Value], rows: int, columns: int
    ) -> None:
        """A tile whose vectors run along the rows of C: each element of A times a row of B, k after k."""
        plan, c, dtype, lanes = self.plan, self.contraction, self.accumulator, self.plan.lanes
        batch, row, column, k_start, k_end = indices
        packed_a, packed_b, partial = pointers
        starts = range(0, columns, lanes)
        masks = [self._mask(b, columns - at) for at in starts]
        places = [
            Place(batch, row + i, column + at, 1, lanes, mask, lanes)
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

        def interrupt() -> None:
            for i, value in enumerate(sums):
                if self.partial:
                    b.store(value, partial_at(i), dtype)
                else:
                    b.write(c.c, places[i], value)

        sums = begin() if plan.k_blocks == 1 else b.choose(b.compare("eq", k_start, 0), begin, resume)
        if c.k:
            with b.loop(Index(None, 0), b.binary("sub", k_end, k_start), 1, sums, nonempty=True) as loop:
                k = b.add(k_start, loop.index)
                b_row = [
                    b.load(b.address(packed_b, b.scale(loop.index, plan.columns) + at, dtype), dtype, lanes)
                    if plan.pack_b
                    else self._produce(b, self.b, Place(batch, k, column + at, 1, lanes, mask, lanes))
                    for at, mask in zip(starts, masks, strict=True)
                ]
                for i in range(rows):
                    if plan.pack_a:
                        steps = (1, self.a_stride) if self.a_by_rows else (plan.rows, 1)
                        at = b.scale(loop.index, steps[0]) + i * steps[1]
                        element = b.load(b.address(packed_a, at, dtype), dtype)
                    else:
                        element = self._produce(b, self.a, Place(batch, row + i, k))
                    element = b.splat(element, lanes)
                    for v, vector in enumerate(b_row):
                        number = i * len(b_row) + v
                        loop.carried[number] = b.multiply_add(element, vector, loop.carried[number], dtype)
            sums = loop.carried

        def finish() -> None:
            self._finish(b, sums, places, len(starts))

        if plan.k_blocks == 1 or (c.epilogue is None and not self.partial):
            finish()
        else:
            b.choose(b.compare("eq", k_end, c.k), finish, interrupt)

    def _dots(self, b: Builder, indices: list[Index], pointers: list[Value], rows: int, columns: int) -> None:
        """A tile of dot products, whose vectors run along k."""
        c, dtype, lanes = self.contraction, self.accumulator, self.plan.lanes
        batch, row, column = indices[:3]
        sums = [b.constant(0, dtype, lanes)] * (rows * columns)

        def a_row(i: int, k: Index, mask: Value | None) -> Value:
            if self.plan.pack_a:
                return b.load(b.address(pointers[0], k + i * self.a_stride, dtype), dtype, lanes)
            return self._produce(b, self.a, Place(batch, row + i, k, 1, lanes, mask, lanes))

        def step(k: Index, count: int, sums: list[Value]) -> list[Value]:
            mask = self._mask(b, count)
            a_rows = [a_row(i, k, mask) for i in range(rows)]
            for j in range(columns):
                vector = self._produce(b, self.b, Place(batch, k, column + j, 0, lanes, mask, lanes))
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
                made = c.epilogue(b, place, b.load(b.address(kept, at, dtype), dtype, lanes))
                if made is None:
                    continue
                if made.type == vector_type(dtype, lanes):
                    made = b.convert(made, dtype, c.c.dtype, lanes)
                b.write(c.c, place, made)

    # The loops round the tiles

    def _region(self) -> str:
        """Rows and columns of one matrix of the batch: the blocks, and the tiles of each."""
        name, plan, c, dtype = f"{self.name}.region", self.plan, self.contraction, self.accumulator
        b, indices, (to_a, to_b, partial) = self._function(
            name, "batch row row_end column column_end", "a b partial"
        )
        batch, row, row_end, column, column_end = indices
        depth = Index(None, 0), Index(None, c.k)

        def call(function: str, *operands: Index | Value) -> None:
            texts = [str(x if isinstance(x, Value) else b.number(x)) for x in operands]
            b.statement(f"call void @{function}({', '.join(['ptr %arguments', *texts])})")

        def tile(i: Index, height: int, j: Index, width: int) -> None:
            across, down = b.binary("sub", j, j_start), b.binary("sub", i, i_start)
            panel_a, panel_b, sums = to_a, to_b, partial
            if plan.pack_a:
                panel_a = b.address(to_a, b.scale(down, self.a_stride), dtype)
            if plan.pack_b:
                panel_b = b.address(to_b, b.scale(across, plan.k_block), dtype)
            if self.partial:
                position = b.add(b.scale(b.binary("sub", i, row), plan.column_block), across)
                sums = b.address(partial, position, dtype)
            call(self._tile(height, width), batch, i, j, k, k_end, panel_a, panel_b, sums)

        def strip(j: Index, width: int) -> None:
            self._sweep(b, i_start, i_end, plan.rows, c.m, lambda i, height: tile(i, height, j, width))

        with (
            self._blocks(b, column, column_end, plan.column_block, c.n) as (j_start, j_end),
            self._blocks(b, *depth, plan.k_block, c.k) as (k, k_end),
        ):
            if plan.pack_b:
                call(self._pack_b(), batch, j_start, j_end, k, k_end, to_b)
            with self._blocks(b, row, row_end, plan.row_block, c.m) as (i_start, i_end):
                if plan.pack_a:
                    call(self._pack_a(), batch, i_start, i_end, k, k_end, to_a)
                self._sweep(b, j_start, j_end, plan.columns, c.n, strip)
        self.functions[name] = b.text()
        return name

    def _entry(self) -> None:
        """The kernel: scratch, and the chunks, those of neighbouring rows or columns as one region."""
        b, (begin, end), _ = self._function(self.name, "begin end", external=True)
        if self.plan.chunks:
            self._chunks(b, begin, end)
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
            batch, piece = Index(None, 0), loop.index
            if plan.chunks != plan.pieces:
                batch, piece = (b.binary(op, loop.index, plan.pieces) for op in ("udiv", "urem"))
            count = b.binary("umin", b.binary("sub", end, loop.index), b.binary("sub", plan.pieces, piece))
            loop.step = b.number(count)
            first = b.scale(piece, plan.piece)
            extent = c.m if plan.split_rows else c.n
            last = b.binary("umin", b.add(first, b.scale(count, plan.piece)), extent)
            ends = [first, last]
            whole = [Index(None, 0), Index(None, c.n if plan.split_rows else c.m)]
            ranges = ends + whole if plan.split_rows else whole + ends
            operands = [b.number(x) for x in (batch, *ranges)] + buffers
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
        value = b.sum(halves[0], halves[1], dtype)
    return b.instruction(TYPES[dtype], f"extractelement {value}, i32 0")
