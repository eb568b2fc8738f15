"""The canonical form of dimensions: polynomials in variables and atoms, with integer coefficients and ordered terms.

Equal polynomials are the same UOp, and one that comes out constant is an int. What a dimension means, and its arithmetic with
divisions and extremes, is in `sint`."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import dtype as dtypes
from .scalar import ADD, MUL, Interval, build
from .uop import CONST, StructuralOp, UOp, const

Dimension = int | UOp
Monomial = tuple[UOp, ...]  # atoms in order, each as often as its power
Polynomial = dict[Monomial, int]  # without zero coefficients


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


# The canonical form. Sums are memoised by node; an atom's polynomial is itself and is never stored, for a
# weak dictionary whose value holds its key would keep it alive.

_polynomials: weakref.WeakKeyDictionary[UOp, Polynomial] = weakref.WeakKeyDictionary()
_keys: weakref.WeakKeyDictionary[UOp, str] = weakref.WeakKeyDictionary()


def missing_nodes(root: UOp, memo: Mapping[UOp, Any], through: Callable[[UOp], bool]) -> Iterator[UOp]:
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


def everywhere(_: UOp) -> bool:
    return True


def _is_polynomial(node: UOp) -> bool:
    return node.op is ADD or node.op is MUL


def _shorten(key: str) -> str:
    if len(key) <= 200:
        return key
    from hashlib import blake2b

    return key[:100] + blake2b(key.encode(), digest_size=16).hexdigest()


def order_key(node: UOp) -> str:
    """A text that orders atoms the same way in every process."""
    key = _keys.get(node)
    if key is None:
        for inner in missing_nodes(node, _keys, everywhere):
            if inner.op is VARIABLE:
                size = f",{inner.arg[3]}" if len(inner.arg) > 3 else ""
                key = f"{inner.arg[0]}[{inner.arg[1]},{inner.arg[2]}{size}]"
            elif inner.op is CONST:
                key = str(inner.value)
            else:
                key = _shorten(f"{inner.op.name}({','.join(_keys[s] for s in inner.src)})")
            _keys[inner] = key
    return key  # type: ignore[return-value]


def _order(monomial: Monomial) -> tuple[int, list[str]]:
    return -len(monomial), [order_key(atom) for atom in monomial]


def polynomial_of(dimension: Dimension) -> Polynomial:
    if not isinstance(dimension, UOp):
        value = operator.index(dimension)
        return {(): value} if value else {}
    if not _is_polynomial(dimension):
        return _leaf(dimension)
    found = _polynomials.get(dimension)
    if found is None:
        for node in missing_nodes(dimension, _polynomials, _is_polynomial):
            a, b = (_polynomials[s] if _is_polynomial(s) else _leaf(s) for s in node.src)
            _polynomials[node] = found = added(a, b) if node.op is ADD else multiplied(a, b)
    return found  # type: ignore[return-value]


def _leaf(node: UOp) -> Polynomial:
    if node.op is CONST:
        value = int(node.value)
        return {(): value} if value else {}
    return {(node,): 1}


def added(a: Polynomial, b: Polynomial, factor: int = 1) -> Polynomial:
    total = dict(a)
    for monomial, coefficient in b.items():
        coefficient = total.get(monomial, 0) + factor * coefficient
        if coefficient:
            total[monomial] = coefficient
        else:
            total.pop(monomial, None)
    return total


def multiplied(a: Polynomial, b: Polynomial) -> Polynomial:
    product: Polynomial = {}
    for m, c in a.items():
        for n, d in b.items():
            monomial = tuple(sorted(m + n, key=order_key)) if m and n else m or n
            product[monomial] = product.get(monomial, 0) + c * d
    return {m: c for m, c in product.items() if c}


def dimension_of(polynomial: Polynomial) -> Dimension:
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


def node_of(dimension: Dimension) -> UOp:
    return dimension if isinstance(dimension, UOp) else const(dimension, dtypes.int64)


def divide_terms(a: Polynomial, b: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Quotient and remainder of polynomials: a = quotient*b + remainder exactly, for any values of the
    variables.

    Long division by the leading term. A coefficient is divided towards zero, so that -n // 4 stays as it is
    (its bounds are tighter than those of -n + 3*n//4), and the constant term downwards."""
    lead = min(b, key=_order)
    quotient: Polynomial = {}
    remainder: Polynomial = {}
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
            quotient = added(quotient, step)
            rest = added(rest, multiplied(step, b), -1)
        if monomial in rest:
            remainder[monomial] = rest[monomial]
            rest = {m: c for m, c in rest.items() if m != monomial}
    return quotient, remainder
