"""Symbolic dimensions: a dimension is a Python int, or an index UOp over bounded variables.

An expression is kept in one canonical form, a polynomial in variables (and in atoms that are no polynomials:
floor divisions, remainders, maxima and minima) with integer coefficients and ordered terms. So equal
polynomials are the same UOp, `(n + 1)*2 is 2*n + 2`, and one that comes out constant is an int. Everything is
written in ordinary scalar operations on int64; a dimension is taken to fit int64, so that arithmetic here is
exact."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from . import dtype as dtypes
from .polynomial import VARIABLE as VARIABLE
from .polynomial import Dimension as Dimension
from .polynomial import (
    Polynomial,
    added,
    dimension_of,
    divide_terms,
    everywhere,
    missing_nodes,
    multiplied,
    node_of,
    order_key,
    polynomial_of,
)
from .scalar import ADD, IDIV, MAX, MIN, MOD, MUL, Interval, ScalarOp, build
from .uop import CONST, UOp, make, toposort
from .uop import substitute as substitute_nodes


class InconclusiveError(ValueError):
    """A comparison of symbolic dimensions whose answer depends on the values of their variables."""


INDEX_OPS = frozenset((VARIABLE, ADD, MUL, IDIV, MOD, MAX, MIN))


def Variable(name: str, minimum: int, maximum: int) -> UOp:
    """A dimension whose value is known only at the call, within `minimum` and `maximum` (both included).

    >>> n = tinyfn.Variable("n", 1, 1024)
    >>> tinyfn.eval_shape(tnp.ravel, tinyfn.ShapeDtypeStruct((n, 3), "float32"))
    ShapeDtypeStruct(shape=(3*n,), dtype=float32)
    >>> program = tinyfn.jit(tnp.sum).lower(tinyfn.ShapeDtypeStruct((n,), "float32")).compile()
    >>> program(tnp.ones(3)), program(tnp.ones(1000))
    (Array(3., dtype=float32), Array(1000., dtype=float32))
    """
    if minimum > maximum:
        raise ValueError(f"variable {name} has no values: minimum {minimum} is above maximum {maximum}")
    return make(VARIABLE, (), (name, int(minimum), int(maximum)), dtypes.int64, ())


def Range(name: str, size: Dimension) -> UOp:
    """A variable whose values are 0, 1, ..., size - 1. It knows a symbolic size; its bounds are those of the largest one."""
    if not isinstance(size, UOp):
        return Variable(name, 0, size - 1)
    return make(VARIABLE, (), (name, 0, bounds(size)[1] - 1, size), dtypes.int64, ())


def extent(r: UOp) -> Dimension:
    """The number of values of a range."""
    size: Dimension = r.arg[3] if len(r.arg) > 3 else r.arg[2] + 1
    return size


def is_symbolic(dimension: Any) -> bool:
    """Whether this is an index expression that depends on variables (and no int)."""
    return isinstance(dimension, UOp) and dimension.op in INDEX_OPS and dimension.dtype is dtypes.int64


_bounds: weakref.WeakKeyDictionary[UOp, Interval | None] = weakref.WeakKeyDictionary()


def terms(dimension: Dimension) -> Mapping[tuple[UOp, ...], int]:
    """A dimension as a sum: for each product of atoms (variables, and what is no polynomial) its factor, for () the constant."""
    return polynomial_of(dimension)


def from_terms(terms: Mapping[tuple[UOp, ...], int]) -> Dimension:
    """The dimension that is the sum of these terms, the factors not being 0; the inverse of `terms`."""
    return dimension_of(dict(terms))


def add(a: Dimension, b: Dimension) -> Dimension:
    """a + b."""
    return (
        a + b
        if isinstance(a, int) and isinstance(b, int)
        else dimension_of(_rejoined(added(polynomial_of(a), polynomial_of(b))))
    )


def _rejoined(polynomial: Polynomial) -> Polynomial:
    """The polynomial with b*(x // b) + x % b made x, as it comes up when an index is taken apart and put together again."""
    for monomial, factor in polynomial.items():
        if len(monomial) == 1 and monomial[0].op is MOD:
            x, divisor = monomial[0].src
            if divisor.op is CONST:
                b = int(divisor.value)
                quotient = polynomial_of(floordiv(x, b))
                (whole, times), *others = quotient.items() or [((), 0)]
                if not others and times == 1 and polynomial.get(whole) == factor * b:
                    rest = {m: c for m, c in polynomial.items() if m != monomial and m != whole}
                    return _rejoined(added(rest, polynomial_of(x), factor))
    return polynomial


def sub(a: Dimension, b: Dimension) -> Dimension:
    """a - b."""
    return (
        a - b
        if isinstance(a, int) and isinstance(b, int)
        else dimension_of(added(polynomial_of(a), polynomial_of(b), -1))
    )


def mul(a: Dimension, b: Dimension) -> Dimension:
    """a * b."""
    return (
        a * b
        if isinstance(a, int) and isinstance(b, int)
        else dimension_of(multiplied(polynomial_of(a), polynomial_of(b)))
    )


def floordiv(a: Dimension, b: Dimension) -> Dimension:
    """a // b, rounded down; raises ZeroDivisionError where b may be 0."""
    return a // b if isinstance(a, int) and isinstance(b, int) else _divmod(a, b)[0]


def mod(a: Dimension, b: Dimension) -> Dimension:
    """a % b, with the sign of b; raises ZeroDivisionError where b may be 0."""
    return a % b if isinstance(a, int) and isinstance(b, int) else _divmod(a, b)[1]


def maximum(a: Dimension, b: Dimension) -> Dimension:
    """The larger of the two."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else _extreme(MAX, a, b)


def minimum(a: Dimension, b: Dimension) -> Dimension:
    """The smaller of the two."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else _extreme(MIN, a, b)


def constant_term(dimension: Dimension) -> int:
    """The constant that a dimension adds to its other terms."""
    return polynomial_of(dimension).get((), 0)


def prod(shape: Iterable[Dimension]) -> Dimension:
    """The product of the dimensions: 1 for none."""
    total: Dimension = 1
    for n in shape:
        total = total * n if isinstance(n, int) and isinstance(total, int) else mul(total, n)
    return total


def _divmod(a: Dimension, b: Dimension) -> tuple[Dimension, Dimension]:
    lowest, highest = bounds(b)
    if lowest <= 0 <= highest:
        raise ZeroDivisionError(f"{a} is divided by {b}, which may be 0: it is in [{lowest}, {highest}]")
    if highest < 0:
        quotient, remainder = _divmod(sub(0, a), sub(0, b))
        return quotient, sub(0, remainder)
    whole, rest = divide_terms(polynomial_of(a), polynomial_of(b))
    quotient, remainder = _divmod_rest(rest, b)
    return add(dimension_of(whole), quotient), remainder


def _divmod_rest(rest: Polynomial, b: Dimension) -> tuple[Dimension, Dimension]:
    """Floor division and remainder by a positive b, where no multiple of b is left to take out of `rest`."""
    dividend = dimension_of(rest)
    low, high = bounds(dividend)
    if isinstance(b, UOp):
        if low >= 0 and always_less_equal(add(dividend, 1), b):
            return 0, dividend
        return _atoms(dividend, b)
    if low // b == high // b:
        return low // b, sub(dividend, low // b * b)
    # Where a factor g of b divides some terms and the others lie in [0, g), these don't change the quotient:
    # (g*x + y) // (g*d) is x // d, and (g*x + y) % (g*d) is g*(x % d) + y.
    for factor in sorted({math.gcd(c, b) for m, c in rest.items() if m}, reverse=True):
        if factor > 1:
            small = {m: c % factor if not m else c for m, c in rest.items() if c % factor}
            large = {m: c // factor for m, c in added(rest, small, -1).items()}
            y = dimension_of(small)
            y_low, y_high = bounds(y)
            if 0 <= y_low and y_high < factor:
                quotient, remainder = _divmod(dimension_of(large), b // factor)
                return quotient, add(mul(remainder, factor), y)
    quotient, remainder = _atoms(dividend, b)
    # (x // a + c) // b is (x + c*a) // (a*b); a multiple of b inside x % (a*b) doesn't change the remainder.
    inner = [m[0] for m, c in rest.items() if m and c == 1 and len(m) == 1 and m[0].op is IDIV]
    if inner and len(rest) - (() in rest) == 1:
        x, a = inner[0].src
        if a.op is CONST:
            divisor = int(a.value)
            quotient = floordiv(add(x, rest.get((), 0) * divisor), divisor * b)
    for m, c in rest.items():
        if len(m) == 1 and m[0].op is MOD and m[0].src[1].op is CONST and c * int(m[0].src[1].value) % b == 0:
            return quotient, mod(
                dimension_of(added(added(rest, {m: c}, -1), polynomial_of(m[0].src[0]), c)), b
            )
    return quotient, remainder


def _atoms(a: Dimension, b: Dimension) -> tuple[UOp, UOp]:
    return build(IDIV, node_of(a), node_of(b)), build(MOD, node_of(a), node_of(b))


def _extreme(op: ScalarOp, a: Dimension, b: Dimension) -> Dimension:
    def covers(this: UOp, other: UOp) -> bool:
        return bool(always_less_equal(other, this) if op is MAX else always_less_equal(this, other))

    operands: set[UOp] = set()
    for operand in (node_of(a), node_of(b)):
        while operand.op is op:
            operand, last = operand.src
            operands.add(last)
        operands.add(operand)
    kept: list[UOp] = []
    for operand in sorted(operands, key=lambda node: (node.op is CONST, order_key(node))):
        if not any(covers(other, operand) for other in kept):
            kept = [*(other for other in kept if not covers(operand, other)), operand]
    if kept[0].op is CONST:
        return int(kept[0].value)
    result = kept[0]
    for operand in kept[1:]:
        result = build(op, result, operand)
    return result


_LIMITS: dict[Any, Interval] = {dtypes.bool_: (0, 1)}
for _dtype in dtypes.INTEGERS:
    _info = np.iinfo(_dtype.name)
    _LIMITS[_dtype] = int(_info.min), int(_info.max)


def bounds(dimension: Dimension) -> Interval:
    """The lowest and highest value that an integer can have: of a dimension or of any integer scalar UOp.

    A leaf's come from its op's `bounds(node)` if it has that, else from its dtype. A result that may not fit
    its dtype may wrap around, so that its bounds are the dtype's."""
    if not isinstance(dimension, UOp):
        return dimension, dimension
    found = _bounds.get(dimension)
    if found is None:
        for node in missing_nodes(dimension, _bounds, everywhere):
            limits = _LIMITS.get(node.dtype)
            _bounds[node] = found = limits and _node_bounds(node, limits)
        if found is None:
            raise TypeError(f"{dimension!r} is no integer: it has no bounds")
    return found


def _node_bounds(node: UOp, limits: Interval) -> Interval:
    op = node.op
    if op is CONST:
        return (int(node.value),) * 2
    if isinstance(op, ScalarOp):
        operands = [_bounds[s] for s in node.src]
        if op.interval is None or None in operands:
            return limits
        found = op.interval(*operands)
        return found if found and limits[0] <= found[0] and found[1] <= limits[1] else limits
    rule = getattr(op, "bounds", None)
    return rule(node) if rule is not None else limits


def always_equal(a: Dimension, b: Dimension) -> bool | None:
    """Whether a == b for all values of the variables (True), for none (False), or as they happen to be
    (None)."""
    difference = sub(a, b)
    if isinstance(difference, int):
        return difference == 0
    low, high = bounds(difference)
    if low > 0 or high < 0:
        return False
    # x % b is x - b*(x // b): this decides that the index (i // 4)*4 + i % 4 is i.
    return True if _replay(difference, {}, _WITHOUT_MOD) == 0 else None


def always_less_equal(a: Dimension, b: Dimension) -> bool | None:
    """Whether a <= b for all values of the variables (True), for none (False), or as they happen to be
    (None)."""
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    difference = sub(b, a)
    low, high = bounds(difference)
    if low < 0 <= high and isinstance(difference, UOp):
        low = bounds(_with_ends(difference))[0]
    return True if low >= 0 else False if high < 0 else None


def _with_ends(dimension: UOp) -> Dimension:
    """A dimension that is not larger: with the last value of each range of symbolic size that is taken from the rest."""
    found = polynomial_of(dimension)
    ranges = [
        m[0] for m, c in found.items() if c < 0 and len(m) == 1 and m[0].op is VARIABLE and len(m[0].arg) > 3
    ]
    ranges = [r for r in ranges if sum(m.count(r) for m in found) == 1]
    return substitute(dimension, {r: sub(r.arg[3], 1) for r in ranges}) if ranges else dimension


def variables(dimensions: Iterable[Dimension]) -> list[UOp]:
    """The variables that the dimensions depend on, in the order of their names."""
    nodes = toposort([d for d in dimensions if isinstance(d, UOp)])
    return sorted((node for node in nodes if node.op is VARIABLE), key=order_key)


_RULES: dict[Any, Callable[[Any, Any], Any]] = {
    ADD: add, MUL: mul, IDIV: floordiv, MOD: mod, MAX: maximum, MIN: minimum
}  # fmt: skip
_WITHOUT_MOD = _RULES | {MOD: lambda a, b: sub(a, mul(b, floordiv(a, b)))}


def substitute(dimension: Dimension, mapping: Mapping[UOp, Dimension]) -> Dimension:
    """The dimension with nodes (most often variables) replaced, in canonical form."""
    return _replay(dimension, mapping, _RULES) if isinstance(dimension, UOp) else dimension


def _replay(
    dimension: UOp, mapping: Mapping[UOp, Dimension], rules: Mapping[Any, Callable[..., Any]]
) -> Dimension:
    new: dict[UOp, Dimension] = dict(mapping)
    stack = [dimension]
    while stack:
        node = stack[-1]
        if node in new:
            stack.pop()
        elif node.op is CONST:
            new[node] = int(node.value)
        elif node.op not in rules:
            # An atom that is no index expression itself, such as an element that is loaded at an index.
            new[node] = (
                substitute_nodes([node], {v: node_of(d) for v, d in mapping.items()})[0] if node.src else node
            )
        elif missing := [s for s in node.src if s not in new]:
            stack += missing
        else:
            new[node] = rules[node.op](*[new[s] for s in node.src])
    return new[dimension]


def evaluate(dimension: Dimension, bindings: Mapping[UOp, int]) -> int:
    """The value of a dimension for values of its variables; raises ValueError for one missing or out of its
    bounds."""
    for variable in variables([dimension]):
        low, high = bounds(variable)
        value = bindings.get(variable)
        if value is None:
            raise ValueError(f"{dimension!r} needs a value of variable {variable!r}")
        if not low <= value <= high:
            raise ValueError(f"variable {variable!r} is in [{low}, {high}], got {value}")
    result = substitute(dimension, {variable: int(v) for variable, v in bindings.items()})
    if isinstance(result, UOp):
        raise TypeError(f"{result!r} is not made of variables: it has no value")
    return result


def _comparison(sign: str, swapped: bool, negated: bool) -> Callable[[Dimension, Dimension], bool]:
    """a <= b (with the two swapped, or negated) as a bool; raises InconclusiveError where that depends on variables."""

    def compare(a: Dimension, b: Dimension) -> bool:
        answer = always_less_equal(b, a) if swapped else always_less_equal(a, b)
        if answer is None:
            named = [f"variable {v!r} in [{v.arg[1]}, {v.arg[2]}]" for v in variables([a, b])]
            raise InconclusiveError(f"{a} {sign} {b} depends on the value of {' and '.join(named)}")
        return answer != negated

    return compare


_COMPARISONS = {
    "lt": _comparison("<", swapped=True, negated=True),
    "le": _comparison("<=", swapped=False, negated=False),
    "gt": _comparison(">", swapped=False, negated=True),
    "ge": _comparison(">=", swapped=True, negated=False),
}


def _to_int(a: UOp) -> int:
    named = " and ".join(f"variable {v!r} in [{v.arg[1]}, {v.arg[2]}]" for v in variables([a]))
    raise TypeError(f"{a} is a symbolic dimension: its value depends on {named}, so it is no int")


def index_operators() -> dict[str, Callable[..., Any]]:
    """Python's operators for index expressions by method name, for UOp to dispatch to."""

    def guarded(function: Callable[[Any, Any], Any], reflected: bool = False) -> Callable[[Any, Any], Any]:
        def method(a: Any, b: Any) -> Any:
            if isinstance(b, np.integer):
                b = int(b)
            if not (type(b) is int or is_symbolic(b)):
                return NotImplemented
            return function(b, a) if reflected else function(a, b)

        return method

    arithmetic = {"add": add, "sub": sub, "mul": mul, "floordiv": floordiv, "mod": mod}
    table: dict[str, Callable[..., Any]] = {f"__{name}__": guarded(f) for name, f in arithmetic.items()}
    table |= {f"__r{name}__": guarded(f, reflected=True) for name, f in arithmetic.items()}
    table |= {f"__{name}__": guarded(f) for name, f in _COMPARISONS.items()}
    return table | {"__neg__": lambda a: sub(0, a), "__index__": _to_int, "__int__": _to_int}
