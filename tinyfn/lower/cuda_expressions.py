"""Scalar expressions as CUDA C: one statement to an operation, each made once where it is visible.

Integers wrap around, so they are added and multiplied as unsigned. Positions in arrays are int64 expressions of ranges; one whose
bounds are within 32 bits is computed in an `int`, which is what a GPU is fast at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import scalar as s
from ..trace import sint
from ..trace.dtype import DType
from ..trace.uop import CONST, UOp
from .index import LOAD, RESULT
from .nest import elements_of

TYPES = {
    dtypes.bool_: "bool",
    dtypes.int8: "signed char", dtypes.int16: "short", dtypes.int32: "int", dtypes.int64: "long long",
    dtypes.uint8: "unsigned char", dtypes.uint16: "unsigned short", dtypes.uint32: "unsigned",
    dtypes.uint64: "unsigned long long", dtypes.key: "unsigned long long",
    dtypes.float16: "half_bits", dtypes.bfloat16: "bfloat_bits", dtypes.float32: "float", dtypes.float64: "double",
}  # fmt: skip
# 16-bit floats: how their helpers are called.
BITS = {dtypes.float16: "half", dtypes.bfloat16: "bfloat"}
INT_BOUNDS = (-(2**31), 2**31 - 1)


class Scope:
    """The values made so far that are visible at a place of the code: the C expression of each node."""

    def __init__(self, parent: Scope | None = None):
        self.parent = parent
        self.values: dict[UOp, str] = {}

    def find(self, node: UOp) -> str | None:
        """The value of a node, if it is visible here."""
        scope: Scope | None = self
        while scope is not None:
            if node in scope.values:
                return scope.values[node]
            scope = scope.parent
        return None


class Writer:
    """Lines of C, the names that they use up, and the helpers that they call."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.used: dict[str, None] = {}
        self.depth = 1
        self._names: dict[str, int] = {}

    def line(self, text: str) -> None:
        """One line, indented."""
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A statement with a block."""
        self.line(f"{head} {{".lstrip())
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def name(self, stem: str, numbered: bool = True) -> str:
        """A name that is not in use."""
        stem = stem.replace(".", "_")
        count = self._names[stem] = self._names.get(stem, -1) + 1
        return f"{stem}{count}" if numbered else f"{stem}_{count}" if count else stem

    def call(self, helper: str, *arguments: str, types: str = "") -> str:
        """A call of a helper."""
        self.used[helper] = None
        return f"{helper}{types}({', '.join(arguments)})"


class Expressions:
    """Writes scalar expressions.

    `arrays` has the C name of each array. `at` has those of elements in registers, by array and position, or None for any."""

    def __init__(self, writer: Writer, arrays: Mapping[UOp, str]):
        self.writer, self.arrays = writer, arrays
        self.at: dict[tuple[UOp, UOp | None], str] = {}

    def value(self, expression: UOp, scope: Scope) -> str:
        """The C expression of a value: a name or a literal."""
        if expression.op is not CONST and scope.find(expression) is None:
            for node in elements_of(expression):
                if node.op is not CONST and scope.find(node) is None:
                    self._make(node, scope)
        return self._operand(expression, scope)

    def ranges(self, ranges: Sequence[UOp], flat: str, scope: Scope) -> None:
        """Define the values of ranges at a point, which counts them in row-major order."""
        for i, r in reversed(list(enumerate(ranges))):
            size = sint.bounds(r)[1] + 1
            name = scope.values[r] = self.writer.name(str(r.arg[0]), numbered=False)
            self.writer.line(f"const {type_of(r)} {name} = {f'{flat} % {size}' if i else flat};")
            if i:
                rest = self.writer.name("rest")
                self.writer.line(f"const auto {rest} = {flat} / {size};")
                flat = rest

    def element(self, array: UOp, position: UOp, scope: Scope) -> str:
        """The C expression of an element of an array in memory."""
        for key in ((array, position), (array, None)):
            if key in self.at:
                return self.at[key]
        return f"{self.arrays[array]}[{self.value(position, scope)}]"

    def define(self, node: UOp, text: str, scope: Scope, kind: str | None = None) -> None:
        """A variable with a node's value."""
        name = self.writer.name("v")
        self.writer.line(f"const {kind or type_of(node)} {name} = {text};")
        scope.values[node] = name

    def _operand(self, node: UOp, scope: Scope) -> str:
        if node.op is CONST:
            return literal(node.value, node.dtype, type_of(node))
        found = scope.find(node)
        assert found is not None, f"{node!r} is not visible here"
        return found

    def _make(self, node: UOp, scope: Scope) -> None:
        assert node.op is not RESULT and node.op is not sint.VARIABLE, f"{node!r} is not visible here"
        if node.op is LOAD:
            self._load(node, scope)
            return
        operands = [self._operand(n, scope) for n in node.src]
        if _is_index(node):
            self.define(node, self._index(node, operands), scope)
        else:
            self.define(node, self.scalar_op(node, operands), scope)

    def _load(self, node: UOp, scope: Scope) -> None:
        array, position = node.arg, node.src[0]
        if len(node.src) == 1:
            self.define(node, self.element(array, position, scope), scope)
            return
        condition = self.value(node.src[1], scope)
        if any(n.op is LOAD for n in elements_of(position)):
            # What the position reads may be outside of its array too.
            name = scope.values[node] = self.writer.name("v")
            self.writer.line(f"{type_of(node)} {name} = 0;")
            with self.writer.block(f"if ({condition})"):
                self.writer.line(f"{name} = {self.element(array, position, Scope(scope))};")
            return
        self.define(
            node, f"{condition} ? {self.element(array, position, scope)} : {_typed_zero(node.dtype)}", scope
        )

    def _index(self, node: UOp, names: Sequence[str]) -> str:
        """An operation whose result is known not to overflow."""
        # C widens an int beside a long long; two ints with a large result have to be told.
        if type_of(node) == "long long" and all(type_of(n) == "int" for n in node.src):
            names = [f"(long long){names[0]}", *names[1:]]
        a, b = names
        if node.op is s.MAX or node.op is s.MIN:
            kind = (
                "long long" if "long long" in (type_of(node.src[0]), type_of(node.src[1])) else type_of(node)
            )
            return self.writer.call("maximum" if node.op is s.MAX else "minimum", a, b, types=f"<{kind}>")
        if node.op is s.ADD or node.op is s.MUL:
            return f"{a} {'+' if node.op is s.ADD else '*'} {b}"
        if sint.bounds(node.src[0])[0] >= 0 and sint.bounds(node.src[1])[0] > 0:
            return f"{a} {'/' if node.op is s.IDIV else '%'} {b}"
        return self.writer.call(_INTEGER_CALLS[node.op], a, b, types="<long long>")

    def scalar_op(self, node: UOp, names: Sequence[str]) -> str:
        """The C expression of an operation on values."""
        op, dtype = node.op, node.src[0].dtype
        if op is s.WHERE:
            return f"{names[0]} ? {names[1]} : {names[2]}"
        if op is s.CAST:
            return self.cast(names[0], dtype, node.dtype)
        if op is s.BITCAST:
            return self.writer.call("bit_cast", f"({TYPES[dtype]}){names[0]}", types=f"<{TYPES[node.dtype]}>")
        return self.on_values(op, dtype, names)

    def on_values(self, op: Any, dtype: DType, names: Sequence[str]) -> str:
        """The C expression of an operation on values of one dtype."""
        if dtype in BITS:
            if op is s.FMA:
                return self.writer.call(f"{BITS[dtype]}_fma", *names)
            result = self.on_values(op, dtypes.float32, [self._widened(n, dtype) for n in names])
            return (
                result if op is s.LT or op is s.EQ else self.writer.call(f"{BITS[dtype]}_from_float", result)
            )
        if op in _COMPARISONS:
            return f"{names[0]} {_COMPARISONS[op]} {names[1]}"
        if op is s.MAX or op is s.MIN:
            return self.writer.call(
                "maximum" if op is s.MAX else "minimum", *names, types=f"<{TYPES[dtype]}>"
            )
        if dtypes.is_float(dtype):
            if op in _FLOAT_OPERATORS:
                return f"{names[0]} {_FLOAT_OPERATORS[op]} {names[1]}"
            if op is s.RECIP:
                return f"{literal(1, dtype)} / {names[0]}"
            return f"{_FLOAT_CALLS[op]}{'f' if dtype is dtypes.float32 else ''}({', '.join(names)})"
        kind = TYPES[dtype]
        if op in _BITWISE:
            return f"({kind})({names[0]} {_BITWISE[op]} {names[1]})"
        if op in _INTEGER_CALLS:
            return self.writer.call(_INTEGER_CALLS[op], *names, types=f"<{kind}>")
        wide = "unsigned long long" if dtype.itemsize == 8 else "unsigned"
        return f"({kind})(({wide}){names[0]} {_FLOAT_OPERATORS[op]} ({wide}){names[1]})"

    def cast(self, value: str, source: DType, target: DType) -> str:
        """A conversion: floats to integers saturate, NaN gives 0."""
        if source is target:
            return value
        if source is dtypes.float64 and target is dtypes.float16:
            return self.writer.call("half_from_double", value)
        if source in BITS:
            if target is dtypes.float32:
                return self._widened(value, source)
            return self.cast(self._widened(value, source), dtypes.float32, target)
        if target in BITS:
            return self.writer.call(f"{BITS[target]}_from_float", self.cast(value, source, dtypes.float32))
        if target is dtypes.bool_:
            return f"{value} != 0"
        if dtypes.is_float(source) and not dtypes.is_float(target):
            return self.writer.call("saturated", value, types=f"<{TYPES[target]}>")
        return f"({TYPES[target]}){value}"

    def _widened(self, value: str, dtype: DType) -> str:
        return self.writer.call(f"{BITS[dtype]}_to_float", value)


_COMPARISONS = {s.LT: "<", s.EQ: "=="}
_FLOAT_OPERATORS = {s.ADD: "+", s.MUL: "*", s.DIV: "/"}
_BITWISE = {s.AND: "&", s.OR: "|", s.XOR: "^"}
_FLOAT_CALLS = {s.FMA: "fma", s.SQRT: "sqrt", s.TRUNC: "trunc"}
_INTEGER_CALLS = {s.IDIV: "floor_divide", s.MOD: "floor_remainder", s.SHL: "shift_left", s.SHR: "shift_right"}
_INDEX_OPS = frozenset((s.ADD, s.MUL, s.IDIV, s.MOD, s.MAX, s.MIN))
# Every operation that is written as it is; exp2, log2 and sin are made of them (`trace.formulas`).
SUPPORTED = {
    **_COMPARISONS, **_FLOAT_OPERATORS, **_BITWISE, **_FLOAT_CALLS, **_INTEGER_CALLS, s.MAX: "maximum", s.MIN: "minimum",
    s.RECIP: "1 /", s.WHERE: "?:", s.CAST: "()", s.BITCAST: "bit_cast",
}  # fmt: skip


def _is_index(node: UOp) -> bool:
    """Whether a node is arithmetic of positions: of int64, and with bounds that it keeps to."""
    return node.dtype is dtypes.int64 and node.op in _INDEX_OPS and sint.bounds(node) != (-(2**63), 2**63 - 1)


def type_of(node: UOp) -> str:
    """The C type of a node's value."""
    if node.dtype is dtypes.int64 and (_is_index(node) or node.op is CONST or node.op is sint.VARIABLE):
        low, high = sint.bounds(node)
        return "int" if INT_BOUNDS[0] <= low and high <= INT_BOUNDS[1] else "long long"
    return TYPES[node.dtype]


def _typed_zero(dtype: DType) -> str:
    return "false" if dtype is dtypes.bool_ else f"({TYPES[dtype]})0"


def literal(value: Any, dtype: DType, kind: str | None = None) -> str:
    """A constant as C writes it."""
    if dtype is dtypes.bool_:
        return "true" if value else "false"
    if dtype in BITS:
        return f"({TYPES[dtype]})0x{int(np.asarray(value, dtype).view(np.uint16)[()]):04x}"
    if dtype is dtypes.float32 or dtype is dtypes.float64:
        return _float_literal(np.asarray(value, dtype))
    if dtype is dtypes.key:
        value = np.asarray(value, dtype).view(np.uint64)[()]
    return _integer_literal(int(value), kind or TYPES[dtype])


def _float_literal(value: np.ndarray) -> str:
    """The shortest decimal that gives the number again; NaN and infinities by their bits."""
    single = value.dtype.itemsize == 4
    if not np.isfinite(value):
        bits = int(value.view(np.uint32 if single else np.uint64)[()])
        return f"__int_as_float(0x{bits:08x})" if single else f"__longlong_as_double(0x{bits:016x}ll)"
    number: Any = value[()]
    plain = number == 0 or 1e-4 <= abs(number) < 1e16
    write: Any = np.format_float_positional if plain else np.format_float_scientific
    text = f"{write(number, unique=True, trim='0')}{'f' if single else ''}"
    return f"({text})" if text.startswith("-") else text


def _integer_literal(value: int, kind: str) -> str:
    suffix = {"unsigned": "u", "long long": "ll", "unsigned long long": "ull"}.get(kind, "")
    lowest = {"int": -(2**31), "long long": -(2**63)}.get(kind)
    if value == lowest:  # C has no literal for it
        return f"({value + 1}{suffix} - 1)"
    text = f"({value}{suffix})" if value < 0 else f"{value}{suffix}"
    return text if suffix or kind == "int" else f"({kind}){text}"
