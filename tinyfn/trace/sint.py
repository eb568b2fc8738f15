"""Symbolic dimensions: a dimension is a Python int, or an index UOp over bounded variables.

An expression is kept in one canonical form, a polynomial in variables (and in atoms that are no polynomials:
floor divisions, remainders, maxima and minima) with integer coefficients and ordered terms. So equal
polynomials are the same UOp, `(n + 1)*2 is 2*n + 2`, and one that comes out constant is an int. Everything is
written in ordinary scalar operations on int64; a dimension is taken to fit int64, so that arithmetic here is
exact."""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from . import dtype as dtypes
from .scalar import ADD, IDIV, MAX, MIN, MOD, MUL, Interval, ScalarOp, build
from .uop import CONST, StructuralOp, UOp, const, make, toposort
from .uop import substitute as substitute_nodes

Dimension = int | UOp
_Monomial = tuple[UOp, ...]  # atoms in order, each as often as its power
_Polynomial = dict[_Monomial, int]  # without zero coefficients


class InconclusiveError(ValueError):
    """A comparison of symbolic dimensions whose answer depends on the values of their variables."""


class _VariableOp(StructuralOp):
    __slots__ = ()
    is_scalar = True

    def format(self, node: UOp) -> str:
        return node.arg[0]

    def bounds(self, node: UOp) -> Interval:
        low, high = node.arg[1:3]
        return low, high


VARIABLE = _VariableOp(
    "variable"
)  # arg: (name, minimum, maximum), and, of a range of symbolic size, that size
INDEX_OPS = frozenset((VARIABLE, ADD, MUL, IDIV, MOD, MAX, MIN))


def Variable(name: str, minimum: int, maximum: int) -> UOp:
    """A dimension whose value is known only at the call, within `minimum` and `maximum` (both included)."""
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


# The canonical form. Sums are memoised by node; an atom's polynomial is itself and is never stored, for a
# weak dictionary whose value holds its key would keep it alive.

_polynomials: weakref.WeakKeyDictionary[UOp, _Polynomial] = weakref.WeakKeyDictionary()
_keys: weakref.WeakKeyDictionary[UOp, str] = weakref.WeakKeyDictionary()
_bounds: weakref.WeakKeyDictionary[UOp, Interval | None] = weakref.WeakKeyDictionary()


def _missing(root: UOp, memo: Mapping[UOp, Any], through: Callable[[UOp], bool]) -> Iterator[UOp]:
    """The nodes under `root` that are not in the memo, each after its sources; the caller fills the memo as
    it goes."""
    stack = [root]
    while stack:
        node = stack[-1]
        if node in memo:
            stack.pop()
            continue
        missing = [s for s in node.src if s not in memo and through(s)]
        if missing:
            stack.extend(missing)
        else:
            stack.pop()
            yield node


def _everywhere(_: UOp) -> bool:
    return True


def _is_polynomial(node: UOp) -> bool:
    return node.op is ADD or node.op is MUL


def _shorten(key: str) -> str:
    if len(key) <= 200:
        return key
    from hashlib import blake2b

    return key[:100] + blake2b(key.encode(), digest_size=16).hexdigest()


def _key(node: UOp) -> str:
    """A text that orders atoms the same way in every process."""
    key = _keys.get(node)
    if key is None:
        for inner in _missing(node, _keys, _everywhere):
            if inner.op is VARIABLE:
                size = f",{inner.arg[3]}" if len(inner.arg) > 3 else ""
                key = f"{inner.arg[0]}[{inner.arg[1]},{inner.arg[2]}{size}]"
            elif inner.op is CONST:
                key = str(inner.value)
            else:
                key = _shorten(f"{inner.op.name}({','.join(_keys[s] for s in inner.src)})")
            _keys[inner] = key
    return key  # type: ignore[return-value]


def _order(monomial: _Monomial) -> tuple[int, list[str]]:
    return -len(monomial), [_key(atom) for atom in monomial]


def _polynomial(dimension: Dimension) -> _Polynomial:
    if not isinstance(dimension, UOp):
        value = operator.index(dimension)
        return {(): value} if value else {}
    if not _is_polynomial(dimension):
        return _leaf(dimension)
    found = _polynomials.get(dimension)
    if found is None:
        for node in _missing(dimension, _polynomials, _is_polynomial):
            a, b = (_polynomials[s] if _is_polynomial(s) else _leaf(s) for s in node.src)
            _polynomials[node] = found = _plus(a, b) if node.op is ADD else _times(a, b)
    return found  # type: ignore[return-value]


def _leaf(node: UOp) -> _Polynomial:
    if node.op is CONST:
        value = int(node.value)
        return {(): value} if value else {}
    return {(node,): 1}


def _plus(a: _Polynomial, b: _Polynomial, factor: int = 1) -> _Polynomial:
    total = dict(a)
    for monomial, coefficient in b.items():
        coefficient = total.get(monomial, 0) + factor * coefficient
        if coefficient:
            total[monomial] = coefficient
        else:
            total.pop(monomial, None)
    return total


def _times(a: _Polynomial, b: _Polynomial) -> _Polynomial:
    product: _Polynomial = {}
    for m, c in a.items():
        for n, d in b.items():
            monomial = tuple(sorted(m + n, key=_key)) if m and n else m or n
            product[monomial] = product.get(monomial, 0) + c * d
    return {m: c for m, c in product.items() if c}


def _dimension(polynomial: _Polynomial) -> Dimension:
    """The one int or UOp of a polynomial."""
    if not polynomial:
        return 0
    if len(polynomial) == 1 and () in polynomial:
        return polynomial[()]
    total: UOp | None = None
    for monomial in sorted(polynomial, key=_order):
        coefficient = polynomial[monomial]
        if monomial:
            term = monomial[0]
            for atom in monomial[1:]:
                term = build(MUL, term, atom)
            if coefficient != 1:
                term = build(MUL, term, const(coefficient, dtypes.int64))
        else:
            term = const(coefficient, dtypes.int64)
        total = term if total is None else build(ADD, total, term)
    assert total is not None
    if _is_polynomial(total):
        _polynomials.setdefault(total, polynomial)
    return total


def _node(dimension: Dimension) -> UOp:
    return dimension if isinstance(dimension, UOp) else const(dimension, dtypes.int64)


def terms(dimension: Dimension) -> Mapping[tuple[UOp, ...], int]:
    """A dimension as a sum: for each product of atoms (variables, and what is no polynomial) its factor, for () the constant."""
    return _polynomial(dimension)


def from_terms(terms: Mapping[tuple[UOp, ...], int]) -> Dimension:
    """The dimension that is the sum of these terms, the factors not being 0; the inverse of `terms`."""
    return _dimension(dict(terms))


def add(a: Dimension, b: Dimension) -> Dimension:
    """a + b."""
    return (
        a + b
        if isinstance(a, int) and isinstance(b, int)
        else _dimension(_rejoined(_plus(_polynomial(a), _polynomial(b))))
    )


def _rejoined(polynomial: _Polynomial) -> _Polynomial:
    """The polynomial with b*(x // b) + x % b made x, as it comes up when an index is taken apart and put together again."""
    for monomial, factor in polynomial.items():
        if len(monomial) == 1 and monomial[0].op is MOD:
            x, divisor = monomial[0].src
            if divisor.op is CONST:
                b = int(divisor.value)
                quotient = _polynomial(floordiv(x, b))
                (whole, times), *others = quotient.items() or [((), 0)]
                if not others and times == 1 and polynomial.get(whole) == factor * b:
                    rest = {m: c for m, c in polynomial.items() if m != monomial and m != whole}
                    return _rejoined(_plus(rest, _polynomial(x), factor))
    return polynomial


def sub(a: Dimension, b: Dimension) -> Dimension:
    """a - b."""
    return (
        a - b
        if isinstance(a, int) and isinstance(b, int)
        else _dimension(_plus(_polynomial(a), _polynomial(b), -1))
    )


def mul(a: Dimension, b: Dimension) -> Dimension:
    """a * b."""
    return (
        a * b
        if isinstance(a, int) and isinstance(b, int)
        else _dimension(_times(_polynomial(a), _polynomial(b)))
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
    return _polynomial(dimension).get((), 0)


def prod(shape: Iterable[Dimension]) -> Dimension:
    """The product of the dimensions: 1 for none."""
    total: Dimension = 1
    for dimension in shape:
        total = mul(total, dimension)
    return total


def _divide_terms(a: _Polynomial, b: _Polynomial) -> tuple[_Polynomial, _Polynomial]:
    """Quotient and remainder of polynomials: a = quotient*b + remainder exactly, for any values of the
    variables.

    Long division by the leading term. A coefficient is divided towards zero, so that -n // 4 stays as it is
    (its bounds are tighter than those of -n + 3*n//4), and the constant term downwards."""
    lead = min(b, key=_order)
    quotient: _Polynomial = {}
    remainder: _Polynomial = {}
    rest = a
    while rest:
        monomial = min(rest, key=_order)
        coefficient, divisor = rest[monomial], b[lead]
        cofactor = list(monomial)
        for atom in lead:
            if atom not in cofactor:
                times = 0
                break
            cofactor.remove(atom)
        else:
            times = coefficient // divisor
            if monomial and times * divisor != coefficient and (coefficient < 0) != (divisor < 0):
                times += 1
        if times:
            step = {tuple(cofactor): times}
            quotient = _plus(quotient, step)
            rest = _plus(rest, _times(step, b), -1)
        if monomial in rest:
            remainder[monomial] = rest[monomial]
            rest = {m: c for m, c in rest.items() if m != monomial}
    return quotient, remainder


def _divmod(a: Dimension, b: Dimension) -> tuple[Dimension, Dimension]:
    lowest, highest = bounds(b)
    if lowest <= 0 <= highest:
        raise ZeroDivisionError(f"{a} is divided by {b}, which may be 0: it is in [{lowest}, {highest}]")
    if highest < 0:
        quotient, remainder = _divmod(sub(0, a), sub(0, b))
        return quotient, sub(0, remainder)
    whole, rest = _divide_terms(_polynomial(a), _polynomial(b))
    quotient, remainder = _divmod_rest(rest, b)
    return add(_dimension(whole), quotient), remainder


def _divmod_rest(rest: _Polynomial, b: Dimension) -> tuple[Dimension, Dimension]:
    """Floor division and remainder by a positive b, where no multiple of b is left to take out of `rest`."""
    dividend = _dimension(rest)
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
            large = {m: c // factor for m, c in _plus(rest, small, -1).items()}
            y = _dimension(small)
            y_low, y_high = bounds(y)
            if 0 <= y_low and y_high < factor:
                quotient, remainder = _divmod(_dimension(large), b // factor)
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
            return quotient, mod(_dimension(_plus(_plus(rest, {m: c}, -1), _polynomial(m[0].src[0]), c)), b)
    return quotient, remainder


def _atoms(a: Dimension, b: Dimension) -> tuple[UOp, UOp]:
    return build(IDIV, _node(a), _node(b)), build(MOD, _node(a), _node(b))


def _extreme(op: ScalarOp, a: Dimension, b: Dimension) -> Dimension:
    def covers(this: UOp, other: UOp) -> bool:
        return bool(always_less_equal(other, this) if op is MAX else always_less_equal(this, other))

    operands: set[UOp] = set()
    for operand in (_node(a), _node(b)):
        while operand.op is op:
            operand, last = operand.src
            operands.add(last)
        operands.add(operand)
    kept: list[UOp] = []
    for operand in sorted(operands, key=lambda node: (node.op is CONST, _key(node))):
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
        for node in _missing(dimension, _bounds, _everywhere):
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
    difference = sub(b, a)
    low, high = bounds(difference)
    if low < 0 <= high and isinstance(difference, UOp):
        low = bounds(_with_ends(difference))[0]
    return True if low >= 0 else False if high < 0 else None


def _with_ends(dimension: UOp) -> Dimension:
    """A dimension that is not larger: with the last value of each range of symbolic size that is taken from the rest."""
    found = _polynomial(dimension)
    ranges = [
        m[0] for m, c in found.items() if c < 0 and len(m) == 1 and m[0].op is VARIABLE and len(m[0].arg) > 3
    ]
    ranges = [r for r in ranges if sum(m.count(r) for m in found) == 1]
    return substitute(dimension, {r: sub(r.arg[3], 1) for r in ranges}) if ranges else dimension


def variables(dimensions: Iterable[Dimension]) -> list[UOp]:
    """The variables that the dimensions depend on, in the order of their names."""
    nodes = toposort([d for d in dimensions if isinstance(d, UOp)])
    return sorted((node for node in nodes if node.op is VARIABLE), key=_key)


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
                substitute_nodes([node], {v: _node(d) for v, d in mapping.items()})[0] if node.src else node
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


def _undecided(a: Dimension, sign: str, b: Dimension) -> InconclusiveError:
    named = [f"variable {v!r} in [{v.arg[1]}, {v.arg[2]}]" for v in variables([a, b])]
    return InconclusiveError(f"{a} {sign} {b} depends on the value of {' and '.join(named)}")


def _less_equal(a: Dimension, b: Dimension) -> bool:
    answer = always_less_equal(a, b)
    if answer is None:
        raise _undecided(a, "<=", b)
    return answer


def _less(a: Dimension, b: Dimension) -> bool:
    answer = always_less_equal(b, a)
    if answer is None:
        raise _undecided(a, "<", b)
    return not answer


def _greater_equal(a: Dimension, b: Dimension) -> bool:
    answer = always_less_equal(b, a)
    if answer is None:
        raise _undecided(a, ">=", b)
    return answer


def _greater(a: Dimension, b: Dimension) -> bool:
    answer = always_less_equal(a, b)
    if answer is None:
        raise _undecided(a, ">", b)
    return not answer


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
    comparisons = {"lt": _less, "le": _less_equal, "gt": _greater, "ge": _greater_equal}
    table: dict[str, Callable[..., Any]] = {f"__{name}__": guarded(f) for name, f in arithmetic.items()}
    table |= {f"__r{name}__": guarded(f, reflected=True) for name, f in arithmetic.items()}
    table |= {f"__{name}__": guarded(f) for name, f in comparisons.items()}
    return table | {"__neg__": lambda a: sub(0, a), "__index__": _to_int, "__int__": _to_int}
