"""The scalar machine operations: a closed set, one table, that every renderer implements or decomposes.

The table below gives each operation's types, its meaning (`reference`, on NumPy values), how it prints as
Python, and its algebra. Operands of one operation have one dtype and one shape (a mask or predicate is a
bool); nothing promotes. Complex numbers are lowered to pairs, 8-bit floats are only stored, cast and
selected, and random keys are only selected and read as other bits.

Every operation is total, so that no input traps or gives different bits on another device:

- Integers wrap around, in two's complement.
- `idiv` and `mod` FLOOR, as index algebra needs (`x == (x idiv y)*y + x mod y`, `mod` has the divisor's sign,
  and a power of two is a shift and a mask for negative x too). Division by zero gives 0, and so does `mod`.
- `shl`, `shr` read the amount as unsigned; one of at least the width gives 0 (`shr` of a negative number:
  -1). `shr` copies the sign of a signed integer and fills an unsigned one with zeros.
- `max`, `min` give NaN if either operand is; of two zeros of different sign, either.
- `lt`, `eq` are false if an operand is NaN; `eq(0.0, -0.0)` is true.
- `cast`: integer to integer wraps; to float rounds to nearest even; float to integer truncates and SATURATES,
  NaN is 0; to bool is `x != 0` (NaN is true).
- `fma` rounds once. `div`, `recip`, `sqrt` are correctly rounded: `x*recip(y)` is not `div(x, y)`.
- `exp2`, `log2`, `sin` may differ from the reference by the renderers' stated ulp, the others not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from . import dtype as dtypes
from .dtype import DType
from .uop import CONST, INPUT, UOp, make, toposort

Interval = tuple[int, int]

_INTEGERS = frozenset(dtypes.INTEGERS)
_FLOATS = frozenset(dtypes.FLOATS)
_NUMBERS = _INTEGERS | _FLOATS
_BITS = _INTEGERS | {dtypes.bool_}
_STORED = _NUMBERS | frozenset(dtypes.NARROW_FLOATS)
_ANY = _STORED | {dtypes.bool_}
_KEY = frozenset((dtypes.key,))


class ScalarOp:
    """A machine operation: its types, its meaning on NumPy values, how it prints, and its algebra."""

    __slots__ = (
        "absorbing",
        "accepts",
        "arity",
        "associative",
        "commutative",
        "comparison",
        "exact",
        "identity",
        "interval",
        "name",
        "precedence",
        "python",
        "reference",
        "result",
        "takes_dtype",
    )  # fmt: skip
    is_scalar = True

    def __init__(
        self,
        name: str,
        arity: int,
        accepts: frozenset[DType],
        reference: Callable[..., Any],
        python: str,
        precedence: int = 100,
        *,
        result: Callable[[ScalarOp, tuple[UOp, ...], Any], DType | None] | None = None,
        commutative: bool = False,
        associative: bool = False,
        comparison: bool = False,
        takes_dtype: bool = False,
        exact: bool = True,
        identity: Callable[[DType], Any] | None = None,
        absorbing: Callable[[DType], Any] | None = None,
        interval: Callable[..., Interval | None] | None = None,
    ):
        self.name = name
        self.arity = arity
        self.accepts = accepts  # the dtypes of the operands
        self.result = (
            result or _same
        )  # the dtype rule: (op, sources, arg) -> dtype, or None if they don't fit
        self.reference = reference  # on NumPy values; a cast's also takes the dtype
        self.python = python  # a template over operands {0}, {1}, ... and {dtype}
        self.precedence = precedence  # of the printed form; 100 is a call or a name
        self.commutative = commutative
        self.associative = associative  # on integers and booleans; of the floats only max and min are
        self.comparison = comparison  # gives bool
        self.takes_dtype = takes_dtype  # arg is the result's dtype
        self.exact = exact  # every device gives the reference's bits
        self.identity = identity  # the right operand that changes nothing, by dtype, or None
        self.absorbing = (
            absorbing  # the right operand that is the result whatever the left one, by dtype, or None
        )
        self.interval = (
            interval  # bounds of the result of integers, from the operands' (lowest, highest) pairs
        )

    def __repr__(self) -> str:
        return self.name

    def format(self, node: UOp) -> str:
        """The node as a Python expression, cut short where it is large."""
        return _format(node, [100])[0]

    def infer(self, src: tuple[UOp, ...], arg: Any) -> tuple[DType, tuple[Any, ...]]:
        """The dtype and shape of the result; raises TypeError for operands that the operation doesn't
        take."""
        if len(src) != self.arity:
            raise TypeError(f"{self.name} takes {self.arity} operands, got {len(src)}")
        found = self.result(self, src, arg)
        if found is None or (arg is not None) != self.takes_dtype:
            operands = ", ".join(dtypes.describe(s.dtype, s.shape) for s in src)
            into = f" to {arg}" if arg is not None else ""
            raise TypeError(
                f"{self.name}({operands}){into} is not defined: "
                f"{_EXPLAIN[self.result]} {_names(self.accepts)}"
            )
        shape = src[0].shape
        for source in src:
            if source.shape != shape:
                operands = ", ".join(dtypes.describe(s.dtype, s.shape) for s in src)
                raise TypeError(f"{self.name}({operands}): the operands of a scalar operation have one shape")
        return found, shape


def _same(op: ScalarOp, src: tuple[UOp, ...], arg: Any) -> DType | None:
    dtype = src[0].dtype
    return dtype if dtype in op.accepts and all(s.dtype is dtype for s in src) else None


def _compare(op: ScalarOp, src: tuple[UOp, ...], arg: Any) -> DType | None:
    return dtypes.bool_ if _same(op, src, arg) is not None else None


def _select(op: ScalarOp, src: tuple[UOp, ...], arg: Any) -> DType | None:
    return _same(op, src[1:], arg) if src[0].dtype is dtypes.bool_ else None


def _convert(op: ScalarOp, src: tuple[UOp, ...], arg: Any) -> DType | None:
    return arg if src[0].dtype in op.accepts and arg in op.accepts else None


def _reinterpret(op: ScalarOp, src: tuple[UOp, ...], arg: Any) -> DType | None:
    return arg if _convert(op, src, arg) is not None and arg.itemsize == src[0].dtype.itemsize else None


_EXPLAIN: dict[Any, str] = {
    _same: "the operands have one dtype among",
    _compare: "the operands have one dtype among",
    _select: "the operands are a bool and two of one dtype among",
    _convert: "arg is a dtype; it and the operand's are among",
    _reinterpret: "arg is a dtype of the operand's size; it and the operand's are among",
}


_GROUPS = {
    "bool": (dtypes.bool_,),
    "integers": dtypes.INTEGERS,
    "floats": dtypes.FLOATS,
    "8-bit floats": dtypes.NARROW_FLOATS,
    "keys": (dtypes.key,),
}


def _names(accepted: frozenset[DType]) -> str:
    return ", ".join(name for name, members in _GROUPS.items() if accepted.issuperset(members))


# References: where NumPy's own function does not mean what the table promises.


def _fma64(a: float, b: float, c: float) -> float:
    from fractions import Fraction

    rounded = a * b + c
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        return rounded
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(exact) if exact else rounded
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


_fma64_elementwise = np.frompyfunc(_fma64, 3, 1)


def _fma(a: Any, b: Any, c: Any) -> Any:
    dtype = np.asarray(a).dtype
    if dtype == dtypes.float64:
        return np.asarray(_fma64_elementwise(a, b, c), dtype)
    # The product of two float32 is exact in float64. Rounding the sum to odd there (Boldo and Melquiond,
    # 2008) makes the second rounding, to float32, right.
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
    addend = np.asarray(c, np.float64)
    total = np.asarray(product + addend)
    virtual = total - product
    error = (product - (total - virtual)) + (addend - virtual)
    adjust = np.isfinite(total) & np.isfinite(error) & (error != 0) & (total.view(np.int64) & 1 == 0)
    return np.where(adjust, np.nextafter(total, np.copysign(np.inf, error)), total).astype(dtype)


def _cast(a: Any, dtype: DType) -> Any:
    a = np.asarray(a)
    if a.dtype not in _STORED or dtype not in _INTEGERS or a.dtype in _INTEGERS:
        return (a != 0) if dtype is dtypes.bool_ else a.astype(dtype)
    wide = np.trunc(a.astype(np.float64))
    info = np.iinfo(dtype)
    above, below = wide >= float(info.max) + (info.bits < 64), wide < float(info.min)
    inside = np.where(np.isnan(wide) | above | below, 0.0, wide).astype(dtype)
    return np.where(above, dtype.type(info.max), np.where(below, dtype.type(info.min), inside))


def _bitcast(a: Any, dtype: DType) -> Any:
    return np.asarray(a).view(dtype)


def _equal(a: Any, b: Any) -> Any:
    # NumPy has no ufunc for structured types, as that of keys is.
    return np.asarray(a) == np.asarray(b) if np.asarray(a).dtype == dtypes.key else np.equal(a, b)


def _reciprocal(a: Any) -> Any:
    return np.divide(np.ones_like(a), a)


# Intervals: each operand is (lowest, highest). A result that may not fit the dtype is widened by the caller.


def _corners(function: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval]:
    def interval(a: Interval, b: Interval) -> Interval:
        values = [function(x, y) for x in a for y in b]
        return min(values), max(values)

    return interval


_divide_corners = _corners(lambda x, y: x // y)


def _idiv_interval(a: Interval, b: Interval) -> Interval:
    if b[0] > 0 or b[1] < 0:
        return _divide_corners(a, b)
    most = max(abs(a[0]), abs(a[1]))
    return -most, most


def _mod_interval(a: Interval, b: Interval) -> Interval:
    if b[0] == b[1] != 0 and a[0] // b[0] == a[1] // b[0]:
        base = a[0] // b[0] * b[0]
        return a[0] - base, a[1] - base
    if b[0] > 0 and a[0] >= 0:
        return (a[0] if a[1] < b[0] else 0), min(a[1], b[1] - 1)
    return min(b[0] + 1, 0), max(b[1] - 1, 0)


def _shl_interval(a: Interval, b: Interval) -> Interval | None:
    return _corners(lambda x, y: x << y)(a, b) if 0 <= b[0] and b[1] < 64 else None


def _shr_interval(a: Interval, b: Interval) -> Interval | None:
    return (
        _corners(lambda x, y: x >> y)(a, b) if 0 <= b[0] and b[1] < 64 else (min(a[0], 0), max(a[1], 0, -1))
    )


def _and_interval(a: Interval, b: Interval) -> Interval | None:
    highest = [x[1] for x in (a, b) if x[0] >= 0]
    return (0, min(highest)) if highest else None


def _or_interval(a: Interval, b: Interval) -> Interval | None:
    return (0, (1 << max(a[1], b[1]).bit_length()) - 1) if a[0] >= 0 and b[0] >= 0 else None


def _where_interval(_: Interval, a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), max(a[1], b[1])


def _lowest(dtype: DType) -> Any:
    return np.iinfo(dtype).min if dtype in _INTEGERS else -np.inf


def _highest(dtype: DType) -> Any:
    return np.iinfo(dtype).max if dtype in _INTEGERS else np.inf


def _zero_of_bits(dtype: DType) -> Any:
    return 0 if dtype in _BITS else None


def _zero(dtype: DType) -> Any:
    # x + 0.0 turns -0.0 into 0.0, so that the identity of a float sum is -0.0.
    return 0 if dtype in _INTEGERS else -0.0


def _one(dtype: DType) -> Any:
    return 1


def _all_ones(dtype: DType) -> Any:
    return True if dtype is dtypes.bool_ else np.iinfo(dtype).max if dtype in dtypes.UNSIGNED else -1


ADD = ScalarOp("add", 2, _NUMBERS, np.add, "{0} + {1}", 60, commutative=True, associative=True,
               identity=_zero, interval=lambda a, b: (a[0] + b[0], a[1] + b[1]))  # fmt: skip
MUL = ScalarOp("mul", 2, _NUMBERS, np.multiply, "{0}*{1}", 70, commutative=True, associative=True,
               identity=_one, absorbing=_zero_of_bits, interval=_corners(lambda x, y: x * y))  # fmt: skip
FMA = ScalarOp("fma", 3, _FLOATS, _fma, "fma({0}, {1}, {2})")
DIV = ScalarOp("div", 2, _FLOATS, np.divide, "{0}/{1}", 70, identity=_one)
RECIP = ScalarOp("recip", 1, _FLOATS, _reciprocal, "recip({0})")
IDIV = ScalarOp("idiv", 2, _INTEGERS, np.floor_divide, "{0}//{1}", 70, identity=_one, absorbing=_zero_of_bits,
                interval=_idiv_interval)  # fmt: skip
MOD = ScalarOp(
    "mod", 2, _INTEGERS, np.remainder, "{0} % {1}", 70, absorbing=_zero_of_bits, interval=_mod_interval
)
SHL = ScalarOp("shl", 2, _INTEGERS, np.left_shift, "{0} << {1}", 50, identity=_zero, interval=_shl_interval)
SHR = ScalarOp("shr", 2, _INTEGERS, np.right_shift, "{0} >> {1}", 50, identity=_zero, interval=_shr_interval)
AND = ScalarOp("and", 2, _BITS, np.bitwise_and, "{0} & {1}", 40, commutative=True, associative=True,
               identity=_all_ones, absorbing=_zero_of_bits, interval=_and_interval)  # fmt: skip
XOR = ScalarOp("xor", 2, _BITS, np.bitwise_xor, "{0} ^ {1}", 30, commutative=True, associative=True,
               identity=_zero_of_bits, interval=_or_interval)  # fmt: skip
OR = ScalarOp("or", 2, _BITS, np.bitwise_or, "{0} | {1}", 20, commutative=True, associative=True,
              identity=_zero_of_bits, absorbing=_all_ones, interval=_or_interval)  # fmt: skip
MAX = ScalarOp("max", 2, _NUMBERS, np.maximum, "max({0}, {1})", commutative=True, associative=True,
               identity=_lowest, interval=lambda a, b: (max(a[0], b[0]), max(a[1], b[1])))  # fmt: skip
MIN = ScalarOp("min", 2, _NUMBERS, np.minimum, "min({0}, {1})", commutative=True, associative=True,
               identity=_highest, interval=lambda a, b: (min(a[0], b[0]), min(a[1], b[1])))  # fmt: skip
LT = ScalarOp("lt", 2, _NUMBERS | {dtypes.bool_}, np.less, "{0} < {1}", 10, result=_compare, comparison=True)
EQ = ScalarOp("eq", 2, _NUMBERS | {dtypes.bool_} | _KEY, _equal, "{0} == {1}", 10, result=_compare,
            comparison=True, commutative=True)  # fmt: skip
WHERE = ScalarOp(
    "where", 3, _ANY | _KEY, np.where, "where({0}, {1}, {2})", result=_select, interval=_where_interval
)
CAST = ScalarOp(
    "cast", 1, _ANY, _cast, "{dtype}({0})", result=_convert, takes_dtype=True, interval=lambda a: a
)
BITCAST = ScalarOp(
    "bitcast", 1, _STORED | _KEY, _bitcast, "bitcast({0}, {dtype})", result=_reinterpret, takes_dtype=True
)
TRUNC = ScalarOp("trunc", 1, _FLOATS, np.trunc, "trunc({0})")
SQRT = ScalarOp("sqrt", 1, _FLOATS, np.sqrt, "sqrt({0})")
EXP2 = ScalarOp("exp2", 1, _FLOATS, np.exp2, "exp2({0})", exact=False)
LOG2 = ScalarOp("log2", 1, _FLOATS, np.log2, "log2({0})", exact=False)
SIN = ScalarOp("sin", 1, _FLOATS, np.sin, "sin({0})", exact=False)

SCALAR_OPS: dict[str, ScalarOp] = {
    op.name: op
    for op in (
        ADD, MUL, FMA, DIV, RECIP, IDIV, MOD, SHL, SHR, AND, XOR, OR, MAX, MIN, LT, EQ, WHERE, CAST, BITCAST,
        TRUNC, SQRT, EXP2, LOG2, SIN,
    )
}  # fmt: skip


def build(op: ScalarOp, *src: UOp, arg: Any = None) -> UOp:
    """The node for one machine operation; raises TypeError for operands that it doesn't take."""
    return make(op, src, arg, infer=op.infer)


def evaluate(outputs: Iterable[UOp], bindings: Mapping[UOp, Any]) -> list[Any]:
    """The outputs' NumPy values, given the leaves' (scalars, or arrays that are worked through elementwise).

    Any node may be bound, and then its sources are not asked for. This is the oracle for the renderers."""
    outputs = list(outputs)
    values = {node: np.asarray(value, node.dtype)[()] for node, value in bindings.items()}
    with np.errstate(all="ignore"):
        for node in toposort(outputs, stop=bindings):
            op = node.op
            if op is CONST:
                values[node] = node.value
            elif isinstance(op, ScalarOp):
                operands = [values[s] for s in node.src]
                result = op.reference(*operands, node.arg) if op.takes_dtype else op.reference(*operands)
                values[node] = np.asarray(result, node.dtype)[()]
            else:
                raise TypeError(
                    f"{node!r} has no value: it is not among the bindings and is no scalar operation"
                )
    return [values[node] for node in outputs]


def _format(node: UOp, budget: list[int]) -> tuple[str, int]:
    """The text of a node and its precedence. The budget of nodes also bounds the depth of the recursion."""
    op = node.op
    if op is CONST:
        return (f"{node.value.item()!r}", 100)
    if op is INPUT:
        return (repr(node.arg), 100)
    if not isinstance(op, ScalarOp):
        return (repr(node), 100)
    budget[0] -= 1
    if budget[0] < 0:
        return ("...", 100)
    src = node.src
    if op is MUL and src[1].op is CONST:
        if node.dtype in _INTEGERS and src[1].value == -1:
            text, precedence = _format(src[0], budget)
            bare = (precedence > op.precedence or src[0].op is MUL) and not text.startswith("-")
            return (f"-{text}" if bare else f"-({text})"), op.precedence
        src = src[::-1]
    operands = []
    for i, source in enumerate(src):
        text, precedence = _format(source, budget)
        # Python groups to the left. A division on the left of a product gets its parentheses nevertheless,
        # since the product may come to stand behind another factor: 2*(n//4)*n.
        # Comparisons do not chain: Python reads a < b == c as two comparisons of b.
        if i == 0:
            chained = not op.comparison and (op is not MUL or source.op is MUL)
        else:
            chained = source.op is op and op.associative and node.dtype not in _FLOATS
        if op.precedence < 100 and (
            precedence < op.precedence or (precedence == op.precedence and not chained)
        ):
            text = f"({text})"
        operands.append(text)
    if op is ADD and operands[1].startswith("-") and (src[1].op is CONST or src[1].op is MUL):
        return f"{operands[0]} - {operands[1][1:]}", op.precedence
    return op.python.format(*operands, dtype=dtypes.name(node.dtype)), op.precedence
