"""Writing LLVM IR: typed values, indices whose constants fold, loops and branches, and explicit vectors.

An instruction that depends on its operands alone is written once, and before the loops in which its operands do not change: what
a value's name begins with says in which loop it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from ..trace import dtype as dtypes
from ..trace.dtype import DType
from .llvm_scalar import ScalarCode

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
        return _index((self.value, self.constant + other))


# The constructor of a named tuple is a function of Python; these are called several times for each instruction.
_value: Callable[[tuple[str, str]], Value] = partial(tuple.__new__, Value)
_index: Callable[[tuple[Value | None, int]], Index] = partial(tuple.__new__, Index)


def vector_type(dtype: DType, lanes: int) -> str:
    """The IR's type of so many elements; one is a scalar."""
    return TYPES[dtype] if lanes == 1 else f"<{lanes} x {TYPES[dtype]}>"


class Loop:
    """A loop being written: its index, and the values it carries from one iteration to the next."""

    def __init__(self, index: Value, step: Value | int, carried: list[Value]) -> None:
        self.index, self.step, self.carried = Index(index, 0), step, carried


class _Frame:
    """A block of code that is being written into: what is known in it alone, and, of a loop, the place before it.

    `mark` is what the names of its values begin with, `marks` are this and those of the loops in it that have ended: what is
    used of such a loop's values after it are its last ones, which do not change any more while this block runs."""

    def __init__(self, mark: str, before: list[str] | None) -> None:
        self.mark, self.marks, self.before = mark, [mark], before
        self.known: list[str] = []


class _Ops(ScalarCode):
    """Scalar ops written into a function."""

    def __init__(self, writer: Writer, lanes: int):
        super().__init__(lanes)
        self._writer = writer

    def op(self, text: str) -> str:
        return self._writer.raw(text)


class Writer:
    """Writes one function, in basic blocks."""

    def __init__(self, signature: str, fma: bool = True) -> None:
        self.signature, self.fma = signature, fma
        self.prologue: list[str] = []
        self.lines: list[str] = []  # what is being written, the last of the pieces of the text
        self._pieces = [self.lines]
        self.block = "body"
        self._names = 0
        self._known: dict[str, str] = {}  # the names of what was written in the blocks that are open
        self._frames: list[_Frame] = []  # of the blocks within the first
        self._mark = "%v"  # of the innermost one
        self._marks = 0
        self._ops: dict[int, ScalarCode] = {}
        self._arguments: dict[int, Value] = {}

    def text(self) -> str:
        """The finished function."""
        lines = chain.from_iterable(self._pieces)
        begin = ["entry:", *self.prologue, "  br label %body", "body:"]
        return f"define {self.signature} {{\n" + "\n".join([*begin, *lines, "  ret void"]) + "\n}\n"

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def statement(self, text: str) -> None:
        """An instruction with no result."""
        self.lines.append("  " + text)

    def instruction(self, type: str, text: str) -> Value:
        """An instruction with a result of this type."""
        self._names += 1
        name = f"{self._mark}{self._names}"
        self.lines.append(f"  {name} = {text}")
        return _value((type, name))

    def pure(self, type: str, text: str) -> Value:
        """An instruction that depends on its operands alone, perhaps one that was written before."""
        return _value((type, self._known.get(text) or self._new(text)))

    def raw(self, text: str) -> str:
        """The name of the result of such an instruction, of whatever type it is."""
        return self._known.get(text) or self._new(text)

    def _new(self, text: str) -> str:
        """Write an instruction that depends on its operands alone, before the outermost loop in which they do not change."""
        lines, frames, level = self.lines, self._frames, len(self._frames)
        for number in range(self._level(text) if level else 0, level):
            before = frames[number].before
            if before is not None:
                lines, level = before, number
                break
        self._names += 1
        name = f"{frames[level - 1].mark if level else '%v'}{self._names}"
        if level:
            frames[level - 1].known.append(text)
        self._known[text] = name
        lines.append(f"  {name} = {text}")
        return name

    def _level(self, text: str) -> int:
        """How many of the open blocks are needed for all operands of an instruction to be there."""
        level = len(self._frames)
        for frame in reversed(self._frames):
            for mark in frame.marks:
                if mark in text:
                    return level
            level -= 1
        return 0

    def ops(self, lanes: int) -> ScalarCode:
        """Scalar ops on vectors of so many lanes."""
        if lanes not in self._ops:
            self._ops[lanes] = _Ops(self, lanes)
        return self._ops[lanes]

    def zero(self) -> str:
        """The address of eight zero bytes, for loads whose condition does not hold."""
        name = "%zeros"
        if not any(line.startswith(f"  {name} ") for line in self.prologue):
            self.prologue += [f"  {name} = alloca i64, align 8", f"  store i64 0, ptr {name}, align 8"]
        return name

    def _piece(self) -> list[str]:
        """A place here where more can be written later."""
        place: list[str] = []
        self.lines = []
        self._pieces += [place, self.lines]
        return place

    def _start(self, block: str) -> None:
        self.lines.append(f"{block}:")
        self.block = block

    @contextmanager
    def _scope(self, before: list[str] | None = None) -> Iterator[None]:
        # None of these is the beginning of another one, or of another name.
        letter, more = "ABCDEFGHIJKLMNOPQRSTUVWXY"[self._marks % 25], self._marks // 25
        self._marks += 1
        around = self._mark
        self._mark = f"%{'Z' * more}{letter}"
        self._frames.append(_Frame(self._mark, before))
        yield
        ended, self._mark = self._frames.pop(), around
        for text in ended.known:
            del self._known[text]
        if before is not None and self._frames:
            self._frames[-1].marks += ended.marks

    # Indices

    def number(self, index: Index | int) -> Value:
        """An index as a value."""
        value, constant = (None, index) if isinstance(index, int) else index
        if value is None:
            return _value(("i64", str(constant)))
        return self.pure("i64", f"add i64 {value.name}, {constant}") if constant else value

    def add(self, x: Index, y: Index) -> Index:
        """The sum of two indices."""
        left, right = x.value, y.value
        if left is not None and right is not None:
            left = self.pure("i64", f"add i64 {left.name}, {right.name}")
        return _index((right if left is None else left, x.constant + y.constant))

    def scale(self, x: Index, factor: int) -> Index:
        """An index times a constant."""
        value = x.value
        if value is None or factor == 0:
            return Index(None, x.constant * factor)
        if factor == 1:
            return x
        return _index((self.pure("i64", f"mul i64 {value.name}, {factor}"), x.constant * factor))

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
        outside = self._piece()
        self.statement(f"br label %{head}")
        self._start(head)
        at_head = self._piece()
        with self._scope(outside):
            index, *phis = [
                _value((type, self._name(self._mark))) for type in ("i64", *[v.type for v in carried])
            ]
            loop = Loop(index, step, list(phis))
            if not nonempty:
                test = self._name(self._mark)
                self.statement(f"{test} = icmp slt {index}, {last.name}")
                self.statement(f"br i1 {test}, label %{body}, label %{end}")
                self._start(body)
            yield loop
            amount = loop.step if isinstance(loop.step, Value) else Value("i64", str(loop.step))
            following = self.instruction("i64", f"add nuw {index}, {amount.name}")
            latch = self.block
            if nonempty:
                test = self._name(self._mark)
                self.statement(f"{test} = icmp slt {following}, {last.name}")
                self.statement(f"br i1 {test}, label %{head}, label %{end}")
            else:
                self.statement(f"br label %{head}")
        entries = [(index, first, following), *zip(phis, carried, loop.carried, strict=True)]
        at_head += [
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
        single = self.raw(f"insertelement {type} poison, {scalar.type} {scalar.name}, i32 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.pure(type, f"shufflevector {type} {single}, {type} poison, {zeros}")

    def shuffle(self, x: Value, y: Value, lanes: Sequence[int]) -> Value:
        """The lanes of two vectors laid end to end, by number."""
        chosen = ", ".join(f"i32 {lane}" for lane in lanes)
        element = x.type.split(" x ")[1].rstrip(">")
        return self.instruction(
            f"<{len(lanes)} x {element}>", f"shufflevector {x}, {y}, <{len(lanes)} x i32> <{chosen}>"
        )

    def convert(self, value: Value, source: DType, target: DType, lanes: int = 1) -> Value:
        """A cast of values, as that of the scalar ops."""
        if source is target:
            return value
        return Value(vector_type(target, lanes), self.ops(lanes).cast(value.name, source, target, lanes > 1))

    def multiply_add(self, x: Value, y: Value, z: Value, dtype: DType) -> Value:
        """x * y + z, fused where the target can."""
        if not dtypes.is_float(dtype):
            product = self.instruction(z.type, f"mul {x}, {y.name}")
            return self.instruction(z.type, f"add {product}, {z.name}")
        if self.fma:
            type = z.type
            operands = f"{type} {x.name}, {type} {y.name}, {type} {z.name}"
            return self.instruction(type, f"call {type} @llvm.fma.{suffix(type)}({operands})")
        product = self.instruction(z.type, f"fmul {x}, {y.name}")
        return self.instruction(z.type, f"fadd {product}, {z.name}")

    def sum(self, x: Value, y: Value, dtype: DType) -> Value:
        """x + y."""
        return self.instruction(x.type, f"{'fadd' if dtypes.is_float(dtype) else 'add'} {x}, {y.name}")

    # Memory

    def argument(self, position: int) -> Value:
        """A pointer of the kernel's arguments."""
        found = self._arguments.get(position)
        if found is None:
            found = self._arguments[position] = Value("ptr", name := f"%argument{position}")
            self.prologue.append(f"  {name}.at = getelementptr ptr, ptr %arguments, i64 {position}")
            self.prologue.append(f"  {name} = load ptr, ptr {name}.at")
        return found

    def size(self, position: int) -> Index:
        """The number of which the kernel's arguments have the address."""
        pointer, name = self.argument(position), f"%size{position}"
        line = f"  {name} = load i64, {pointer}, align 8"
        if line not in self.prologue:
            self.prologue.append(line)
        return Index(Value("i64", name), 0)

    def keep(self, values: Sequence[Value], dtype: DType, lanes: int) -> Value:
        """An array on the stack that has these values, of so many elements each."""
        name, type = self._name("%local"), TYPES[dtype]
        self.prologue.append(f"  {name} = alloca [{len(values) * lanes} x {type}], align 64")
        for i, value in enumerate(values):
            at = name
            if i:
                at = self._name(self._mark)
                self.lines.append(f"  {at} = getelementptr {type}, ptr {name}, i64 {i * lanes}")
            self.lines.append(f"  store {value.type} {value.name}, ptr {at}, align {dtype.itemsize}")
        return Value("ptr", name)

    def address(self, pointer: Value, offset: Index | int, dtype: DType) -> Value:
        """A pointer so many elements further."""
        return self.elements(
            pointer, Index(None, offset) if isinstance(offset, int) else offset, TYPES[dtype]
        )

    def elements(self, pointer: Value, at: Index, type: str) -> Value:
        """A pointer so many elements of a type of the IR further."""
        if at.value is not None:
            pointer = self.pure("ptr", f"getelementptr {type}, ptr {pointer.name}, i64 {at.value.name}")
        if at.constant:
            pointer = self.pure("ptr", f"getelementptr {type}, ptr {pointer.name}, i64 {at.constant}")
        return pointer

    def load(self, pointer: Value, dtype: DType, lanes: int = 1, mask: Value | None = None) -> Value:
        """Consecutive elements; those that the mask excludes are not read, and zero."""
        type = vector_type(dtype, lanes)
        if mask is None:
            return self.instruction(type, f"load {type}, ptr {pointer.name}, align {dtype.itemsize}")
        operands = f"ptr align {dtype.itemsize} {pointer.name}, {mask}, {type} zeroinitializer"
        return self.instruction(type, f"call {type} @llvm.masked.load.{suffix(type)}.p0({operands})")

    def store(self, value: Value, pointer: Value, dtype: DType, mask: Value | None = None) -> None:
        """Write consecutive elements, those of the mask."""
        if mask is not None and mask.name.count("i1 1") == 1 and mask.name.startswith("<i1 1"):
            # LLVM 20 to 22 store a whole 32-bit word for one lane of a truncated vector.
            value, mask = self.pure(value.type.split(" x ")[1][:-1], f"extractelement {value}, i64 0"), None
        if mask is None:
            self.lines.append(
                f"  store {value.type} {value.name}, ptr {pointer.name}, align {dtype.itemsize}"
            )
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


@cache
def suffix(type: str) -> str:
    """How an intrinsic's name spells a type: v16f32."""
    short = {"half": "f16", "float": "f32", "double": "f64"}
    if not type.startswith("<"):
        return short.get(type, type)
    lanes, element = type[1:-1].split(" x ")
    return f"v{lanes}{short.get(element, element)}"
