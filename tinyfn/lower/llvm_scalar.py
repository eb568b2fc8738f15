"""Scalar ops as LLVM IR, on registers that hold one value or a vector of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import scalar as s
from ..trace.dtype import DType
from ..trace.uop import CONST, UOp, const

_REGISTER = {
    dtypes.bool_: "i1", dtypes.float16: "half", dtypes.bfloat16: "i16", dtypes.float32: "float", dtypes.float64: "double",
    **{t: f"i{8 * t.itemsize}" for t in dtypes.INTEGERS},
}  # fmt: skip
_MEMORY = {**_REGISTER, dtypes.bool_: "i8"}


def register_type(dtype: DType) -> str:
    """The type of a scalar while it is computed with (bfloat16 is never computed with: it is 16 bits)."""
    return _REGISTER.get(dtype) or f"i{8 * dtype.itemsize}"


def memory_type(dtype: DType) -> str:
    """The type of a scalar in memory."""
    return _MEMORY.get(dtype) or f"i{8 * dtype.itemsize}"


_SUFFIX = {dtypes.float16: "f16", dtypes.float32: "f32", dtypes.float64: "f64"}


def suffix_of(dtype: DType) -> str:
    """What the name of an intrinsic on registers of this dtype ends with."""
    return _SUFFIX.get(dtype) or register_type(dtype)


def memory_suffix(kind: str) -> str:
    """What the name of an intrinsic on memory of this type ends with."""
    return {"half": "f16", "float": "f32", "double": "f64"}.get(kind, kind)


def literal(value: Any, dtype: DType) -> str:
    """A constant as LLVM writes it: floats by their bits, so that every value is exact."""
    return _literal(np.asarray(value, dtype).tobytes(), dtype)


@lru_cache(1024)
def _literal(value: bytes, dtype: DType) -> str:
    number = np.frombuffer(value, dtypes.uint64 if dtype is dtypes.key else dtype)[0]
    if dtype is dtypes.bool_:
        return "true" if number else "false"
    if dtype is dtypes.float32 or dtype is dtypes.float64:
        bits = np.asarray(number, np.float64).view(np.uint64)[()]
        return "0x7FF8000000000000" if np.isnan(number) else f"0x{bits:016X}"
    if dtype is dtypes.float16:
        return f"0xH{np.asarray(number).view(np.uint16)[()]:04X}"
    if dtype is dtypes.bfloat16:
        return str(int(np.asarray(number).view(np.uint16)[()]))
    return str(int(number))


def constant(node: UOp) -> str:
    """The literal of a constant node."""
    return _literal(*node.arg)


# Instructions that mean what an op does, by op and dtype.
_SIMPLE = {
    **{
        (op, t): name
        for t in dtypes.FLOATS
        for op, name in ((s.ADD, "fadd"), (s.MUL, "fmul"), (s.DIV, "fdiv"))
    },
    **{
        (op, t): name
        for t in (dtypes.bool_, *dtypes.INTEGERS)
        for op, name in ((s.ADD, "add"), (s.MUL, "mul"), (s.AND, "and"), (s.OR, "or"), (s.XOR, "xor"))
    },
}
_BY_CONSTANT = frozenset((s.SHL, s.SHR, s.IDIV, s.MOD))


class ScalarCode(ABC):
    """Writes scalar ops; a vector has `lanes` elements. Who derives from it says where instructions go."""

    def __init__(self, lanes: int):
        self.lanes = lanes
        self.declared: dict[str, None] = {}  # the declarations of the intrinsics that were called

    @abstractmethod
    def op(self, text: str) -> str:
        """Write an instruction and give its result a name."""

    def call(self, result: str, function: str, *arguments: tuple[str, str]) -> str:
        """Call an intrinsic, which is declared."""
        types = ", ".join(t for t, _ in arguments)
        self.declared[f"declare {result} @{function}({types})"] = None
        return self.op(f"call {result} @{function}({', '.join(f'{t} {v}' for t, v in arguments)})")

    def vector(self, kind: str, width: int | None = None) -> str:
        """The type of a vector of this kind of element."""
        return f"<{width or self.lanes} x {kind}>"

    def splat(self, value: str, kind: str) -> str:
        """A vector with one value in all lanes."""
        if not value.startswith("%"):
            return f"splat ({kind} {value})"
        kinds = self.vector(kind)
        first = self.op(f"insertelement {kinds} poison, {kind} {value}, i64 0")
        return self.op(f"shufflevector {kinds} {first}, {kinds} poison, {self.vector('i32')} zeroinitializer")

    def steps(self, kind: str, width: int | None = None) -> str:
        """The numbers of the lanes."""
        return "<" + ", ".join(f"{kind} {i}" for i in range(width or self.lanes)) + ">"

    def scalar_op(self, node: UOp, names: Sequence[str], vector: bool) -> str:
        """One scalar op on registers."""
        op, dtype = node.op, node.src[0].dtype
        if dtype is dtypes.bfloat16 and op not in (s.CAST, s.BITCAST, s.WHERE):
            # Not a type that is computed with: in float32, and rounded once.
            stand_in = s.build(op, *[const(0, dtypes.float32) for _ in names])
            result = self.scalar_op(stand_in, [self._from_bfloat16(n, vector) for n in names], vector)
            return self._to_bfloat16(result, vector) if stand_in.dtype is dtypes.float32 else result
        kind = register_type(dtype)
        kinds = f"<{self.lanes} x {kind}>" if vector else kind
        simple = _SIMPLE.get((op, dtype))
        if simple is not None:
            return self.op(f"{simple} {kinds} {names[0]}, {names[1]}")
        if op is s.WHERE:
            choice = register_type(node.dtype)
            choices = self.vector(choice) if vector else choice
            condition = self.vector("i1") if vector else "i1"
            return self.op(f"select {condition} {names[0]}, {choices} {names[1]}, {choices} {names[2]}")
        if op is s.CAST:
            return self.cast(names[0], dtype, node.dtype, vector)
        if op is s.BITCAST:
            target = register_type(node.dtype)
            return (
                names[0]
                if target == kind
                else self.op(f"bitcast {kinds} {names[0]} to {self.vector(target) if vector else target}")
            )
        if op is s.LT or op is s.EQ:
            if dtypes.is_float(dtype):
                return self.op(f"fcmp {'olt' if op is s.LT else 'oeq'} {kinds} {names[0]}, {names[1]}")
            signed = dtypes.kind(dtype) == "signed"
            return self.op(
                f"icmp {'eq' if op is s.EQ else 'slt' if signed else 'ult'} {kinds} {names[0]}, {names[1]}"
            )
        if op is s.FMA or op is s.SQRT or op is s.TRUNC:
            function = f"llvm.{op.name}.{self._suffix(dtype, vector)}"
            return self.call(kinds, function, *[(kinds, n) for n in names])
        if op is s.RECIP:
            one = literal(np.asarray(1, dtype)[()], dtype)
            return self.op(f"fdiv {kinds} {self.splat(one, kind) if vector else one}, {names[0]}")
        if op in _BY_CONSTANT and node.src[1].op is CONST:
            made = self._by_constant(op, dtype, names, int(node.src[1].value), vector)
            if made is not None:
                return made
        return self.binary(op, dtype, names[0], names[1], vector)

    def _suffix(self, dtype: DType, vector: bool, width: int | None = None) -> str:
        """What the name of an intrinsic on such registers ends with."""
        return f"v{width or self.lanes}{suffix_of(dtype)}" if vector else suffix_of(dtype)

    def _by_constant(
        self, op: s.ScalarOp, dtype: DType, names: Sequence[str], amount: int, vector: bool
    ) -> str | None:
        """A shift by what is less than the width, or a floor division by a power of two: one instruction."""
        kind = register_type(dtype)
        kinds, right = (self.vector(kind) if vector else kind), names[1]
        if op is s.IDIV or op is s.MOD:
            if amount <= 0 or amount & (amount - 1):
                return None
            number = amount - 1 if op is s.MOD else amount.bit_length() - 1
            right = self.splat(str(number), kind) if vector else str(number)
        elif not 0 <= amount < 8 * dtype.itemsize:
            return None
        down = "ashr" if dtypes.kind(dtype) == "signed" else "lshr"
        name = {s.SHL: "shl", s.SHR: down, s.IDIV: down, s.MOD: "and"}[op]
        return self.op(f"{name} {kinds} {names[0]}, {right}")

    def binary(
        self, op: s.ScalarOp, dtype: DType, a: str, b: str, vector: bool, width: int | None = None
    ) -> str:
        """An op on two registers of one dtype."""
        kind = register_type(dtype)
        kinds = self.vector(kind, width) if vector else kind
        simple = _SIMPLE.get((op, dtype))
        if simple is not None:
            return self.op(f"{simple} {kinds} {a}, {b}")
        if dtypes.is_float(dtype):
            # Of two zeros of different sign it may be either.
            name = f"llvm.{'maximum' if op is s.MAX else 'minimum'}.{self._suffix(dtype, vector, width)}"
            self.declared[f"declare {kinds} @{name}({kinds}, {kinds})"] = None
            return self.op(f"call nsz {kinds} @{name}({kinds} {a}, {kinds} {b})")
        if op is s.MAX or op is s.MIN:
            sign = "s" if dtypes.kind(dtype) == "signed" else "u"
            function = f"llvm.{sign}{op.name}.{self._suffix(dtype, vector, width)}"
            return self.call(kinds, function, (kinds, a), (kinds, b))
        return self._guarded(op, dtype, a, b, vector)

    def _guarded(self, op: s.ScalarOp, dtype: DType, a: str, b: str, vector: bool) -> str:
        """Divisions and shifts of integers, which the machine does not define for every operand."""
        kind = register_type(dtype)
        kinds, bools = (self.vector(kind), self.vector("i1")) if vector else (kind, "i1")
        signed = dtypes.kind(dtype) == "signed"

        def constant(value: int) -> str:
            return self.splat(str(value), kind) if vector else str(value)

        bits = 8 * dtype.itemsize
        if op is s.SHL or op is s.SHR:
            inside = self.op(f"icmp ult {kinds} {b}, {constant(bits)}")
            amount = self.op(f"select {bools} {inside}, {kinds} {b}, {kinds} {constant(bits - 1)}")
            name = "shl" if op is s.SHL else "ashr" if signed else "lshr"
            shifted = self.op(f"{name} {kinds} {a}, {amount}")
            if op is s.SHR and signed:
                return shifted
            return self.op(f"select {bools} {inside}, {kinds} {shifted}, {kinds} {constant(0)}")
        # Floor division; by zero it gives 0, and the least number by -1 wraps to itself.
        zero = self.op(f"icmp eq {kinds} {b}, {constant(0)}")
        if not signed:
            divisor = self.op(f"select {bools} {zero}, {kinds} {constant(1)}, {kinds} {b}")
            result = self.op(f"{'udiv' if op is s.IDIV else 'urem'} {kinds} {a}, {divisor}")
            return self.op(f"select {bools} {zero}, {kinds} {constant(0)}, {kinds} {result}")
        minus = self.op(f"icmp eq {kinds} {b}, {constant(-1)}")
        unsafe = self.op(f"or {bools} {zero}, {minus}")
        divisor = self.op(f"select {bools} {unsafe}, {kinds} {constant(1)}, {kinds} {b}")
        quotient = self.op(f"sdiv {kinds} {a}, {divisor}")
        rest = self.op(f"srem {kinds} {a}, {divisor}")
        differ = self.op(f"icmp slt {kinds} {self.op(f'xor {kinds} {a}, {divisor}')}, {constant(0)}")
        below = self.op(f"and {bools} {differ}, {self.op(f'icmp ne {kinds} {rest}, {constant(0)}')}")
        if op is s.IDIV:
            floor = self.op(f"add {kinds} {quotient}, {self.op(f'sext {bools} {below} to {kinds}')}")
            negated = self.op(f"sub {kinds} {constant(0)}, {a}")
            result = self.op(f"select {bools} {minus}, {kinds} {negated}, {kinds} {floor}")
        else:
            shifted = self.op(f"add {kinds} {rest}, {divisor}")
            result = self.op(f"select {bools} {below}, {kinds} {shifted}, {kinds} {rest}")
            result = self.op(f"select {bools} {minus}, {kinds} {constant(0)}, {kinds} {result}")
        return self.op(f"select {bools} {zero}, {kinds} {constant(0)}, {kinds} {result}")

    def cast(self, name: str, source: DType, target: DType, vector: bool) -> str:
        """A conversion of a register: floats to integers saturate, NaN gives 0."""
        if source is target:
            return name
        if target is dtypes.bfloat16:
            return self._to_bfloat16(self.cast(name, source, dtypes.float32, vector), vector)
        if source is dtypes.bfloat16:
            return self.cast(self._from_bfloat16(name, vector), dtypes.float32, target, vector)
        if source is dtypes.float64 and target is dtypes.float16:
            return self.cast(self._rounded_to_odd(name, vector), dtypes.float32, target, vector)
        kinds = [self.vector(register_type(d)) if vector else register_type(d) for d in (source, target)]
        from_float, to_float = dtypes.is_float(source), dtypes.is_float(target)
        if target is dtypes.bool_:
            zero = literal(np.asarray(0, source)[()], source)
            other = self.splat(zero, register_type(source)) if vector else zero
            return self.op(f"{'fcmp une' if from_float else 'icmp ne'} {kinds[0]} {name}, {other}")
        if from_float and to_float:
            name_of = "fpext" if source.itemsize < target.itemsize else "fptrunc"
        elif to_float:
            name_of = "sitofp" if dtypes.kind(source) == "signed" else "uitofp"
        elif from_float:
            width = f"v{self.lanes}" if vector else ""
            sign = "s" if dtypes.kind(target) == "signed" else "u"
            function = f"llvm.fpto{sign}i.sat.{width}i{8 * target.itemsize}.{width}{suffix_of(source)}"
            return self.call(kinds[1], function, (kinds[0], name))
        elif source.itemsize > target.itemsize and source is not dtypes.bool_:
            name_of = "trunc"
        elif source.itemsize == target.itemsize and source is not dtypes.bool_:
            return name
        else:
            name_of = "sext" if dtypes.kind(source) == "signed" else "zext"
        return self.op(f"{name_of} {kinds[0]} {name} to {kinds[1]}")

    def _integer(self, value: int, vector: bool) -> str:
        return self.splat(str(value), "i32") if vector else str(value)

    def _from_bfloat16(self, name: str, vector: bool) -> str:
        half, word, single = (self.vector(k) if vector else k for k in ("i16", "i32", "float"))
        wide = self.op(f"zext {half} {name} to {word}")
        return self.op(
            f"bitcast {word} {self.op(f'shl {word} {wide}, {self._integer(16, vector)}')} to {single}"
        )

    def _to_bfloat16(self, name: str, vector: bool) -> str:
        """Rounded to nearest even in integers: the machine's own conversion takes subnormals for zeros."""
        half, word, single, bools = (self.vector(k) if vector else k for k in ("i16", "i32", "float", "i1"))
        bits = self.op(f"bitcast {single} {name} to {word}")
        top = self.op(f"lshr {word} {bits}, {self._integer(16, vector)}")
        odd = self.op(f"and {word} {top}, {self._integer(1, vector)}")
        rounding = self.op(f"add {word} {odd}, {self._integer(0x7FFF, vector)}")
        rounded = self.op(
            f"lshr {word} {self.op(f'add {word} {bits}, {rounding}')}, {self._integer(16, vector)}"
        )
        quiet = self.op(f"or {word} {top}, {self._integer(0x40, vector)}")
        is_nan = self.op(f"fcmp uno {single} {name}, {name}")
        chosen = self.op(f"select {bools} {is_nan}, {word} {quiet}, {word} {rounded}")
        return self.op(f"trunc {word} {chosen} to {half}")

    def _rounded_to_odd(self, name: str, vector: bool) -> str:
        """A double as a float from which rounding to half gives what rounding the double would.

        Where the float is not exact its last bit is set, after rounding towards zero, so that no tie can arise."""
        double, word, single, bools = (
            self.vector(k) if vector else k for k in ("double", "i32", "float", "i1")
        )
        near = self.op(f"fptrunc {double} {name} to {single}")
        back = self.op(f"fpext {single} {near} to {double}")
        size, size_back = (
            self.call(double, f"llvm.fabs.{f'v{self.lanes}' if vector else ''}f64", (double, v))
            for v in (name, back)
        )
        above = self.op(f"fcmp ogt {double} {size_back}, {size}")
        inexact = self.op(f"fcmp one {double} {back}, {name}")
        bits = self.op(f"bitcast {single} {near} to {word}")
        below = self.op(f"sub {word} {bits}, {self.op(f'zext {bools} {above} to {word}')}")
        odd = self.op(f"or {word} {below}, {self.op(f'zext {bools} {inexact} to {word}')}")
        return self.op(f"bitcast {word} {odd} to {single}")
