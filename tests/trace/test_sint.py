"""Symbolic dimensions: canonical form, exact division, bounds, and what Python sees of them."""

from __future__ import annotations

import gc
import operator
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyfn.trace import sint
from tinyfn.trace.sint import Variable, add, floordiv, maximum, minimum, mod, mul, sub
from tinyfn.trace.uop import UOp

N, M, K = Variable("n", 1, 128), Variable("m", 0, 3), Variable("k", -5, 7)
OPERATIONS = {
    "add": (add, operator.add),
    "sub": (sub, operator.sub),
    "mul": (mul, operator.mul),
    "floordiv": (floordiv, operator.floordiv),
    "mod": (mod, operator.mod),
    "maximum": (maximum, max),
    "minimum": (minimum, min),
}

leaves = st.one_of(st.sampled_from([N, M, K]), st.integers(-9, 9))
expressions = st.recursive(
    leaves, lambda inner: st.tuples(st.sampled_from(sorted(OPERATIONS)), inner, inner), max_leaves=10
)
polynomials = st.recursive(
    leaves, lambda inner: st.tuples(st.sampled_from(["add", "sub", "mul"]), inner, inner), max_leaves=8
)
values = st.fixed_dictionaries({N: st.integers(1, 128), M: st.integers(0, 3), K: st.integers(-5, 7)})


def symbolic(tree):
    if not isinstance(tree, tuple):
        return tree
    return OPERATIONS[tree[0]][0](*map(symbolic, tree[1:]))


def plain(tree, bindings):
    if not isinstance(tree, tuple):
        return bindings.get(tree, tree) if isinstance(tree, UOp) else tree
    return OPERATIONS[tree[0]][1](*(plain(branch, bindings) for branch in tree[1:]))


@given(expressions, values)
@settings(max_examples=400, deadline=None)
def test_expressions_have_the_values_of_plain_ints(tree, bindings):
    try:
        dimension = symbolic(tree)
    except ZeroDivisionError:
        return
    expected = plain(tree, bindings)
    low, high = sint.bounds(dimension)
    assert low <= expected <= high
    assert sint.evaluate(dimension, bindings) == expected
    assert sint.substitute(dimension, bindings) == expected
    text = repr(dimension)
    if "..." not in text:
        assert eval(text, {"n": bindings[N], "m": bindings[M], "k": bindings[K]}) == expected


@given(expressions, st.sampled_from([N, M, K]))
@settings(max_examples=100, deadline=None)
def test_substituting_a_variable_for_itself_changes_nothing(tree, variable):
    try:
        dimension = symbolic(tree)
    except ZeroDivisionError:
        return
    assert sint.substitute(dimension, {variable: variable}) is dimension or isinstance(dimension, int)


@given(polynomials, polynomials, polynomials)
@settings(max_examples=100, deadline=None)
def test_equal_polynomials_are_the_same_node(a, b, c):
    a, b, c = symbolic(a), symbolic(b), symbolic(c)
    for left, right in (
        (add(a, b), add(b, a)),
        (mul(a, b), mul(b, a)),
        (add(add(a, b), c), add(a, add(b, c))),
        (mul(a, add(b, c)), add(mul(a, b), mul(a, c))),
        (sub(add(a, b), b), a),
        (sub(a, b), add(a, mul(-1, b))),
    ):
        assert left is right or (isinstance(left, int) and left == right)


def test_canonical_form():
    assert mul(add(N, 1), 2) is add(mul(2, N), 2)
    assert repr(mul(add(N, 1), 2)) == "2*n + 2"
    assert repr(sub(mul(N, M), add(N, 3))) == "m*n - n - 3"
    assert sub(N, N) == 0 and type(sub(add(N, 2), N)) is int
    assert repr(sub(0, floordiv(N, 4))) == "-(n//4)"
    assert repr(sub(1, floordiv(sub(0, N), 4))) == "-(-n//4) + 1"
    assert Variable("n", 1, 128) is N and Variable("n", 1, 64) is not N
    assert sint.prod((N, 4, 2)) is mul(8, N) and sint.prod(()) == 1 and sint.prod((2, 3)) == 6


def test_exact_division():
    assert floordiv(mul(4, N), 4) is N
    assert floordiv(add(mul(4, N), 2), 4) is N
    assert floordiv(add(mul(4, N), M), 4) is N
    assert mod(add(mul(4, N), M), 4) is M
    assert mod(mul(4, N), 4) == 0
    assert floordiv(mul(N, M), N) is M
    assert floordiv(add(mul(N, M), M), add(N, 1)) is M
    assert floordiv(N, 129) == 0 and mod(N, 129) is N
    assert floordiv(add(mul(2, N), 1), 4) is floordiv(N, 2)
    assert floordiv(floordiv(N, 2), 3) is floordiv(N, 6)
    assert mod(mod(N, 12), 4) is mod(N, 4)
    assert sint.always_equal(add(mul(4, floordiv(N, 4)), mod(N, 4)), N)
    assert mod(add(mul(4, N), 6), 8) is add(mul(4, mod(add(N, 1), 2)), 2)
    with pytest.raises(ZeroDivisionError, match=r"n is divided by m, which may be 0: it is in \[0, 3\]"):
        floordiv(N, M)


def test_bounds_and_comparisons():
    assert sint.bounds(add(mul(2, N), 1)) == (3, 257)
    assert sint.bounds(sub(0, floordiv(sub(0, N), 4))) == (1, 32)  # ceil(n/4)
    assert sint.bounds(mod(N, 4)) == (0, 3)
    assert sint.always_equal(N, N) is True
    assert sint.always_equal(N, 129) is False
    assert sint.always_equal(N, 5) is None
    assert sint.always_less_equal(M, add(N, 2)) is True
    assert sint.always_less_equal(add(N, 3), M) is False
    assert sint.always_less_equal(N, 4) is None
    assert maximum(N, 0) is N and minimum(N, 0) == 0
    assert maximum(N, maximum(K, 4)) is maximum(maximum(4, N), K)
    assert sint.variables([add(N, M), 3, N]) == [M, N]
    assert sint.is_symbolic(N) and not sint.is_symbolic(3)


def test_python_operators():
    table = sint.index_operators()
    assert table["__rsub__"](N, 1) is sub(1, N)
    assert table["__neg__"](N) is mul(-1, N)
    assert table["__add__"](N, 1.5) is NotImplemented
    assert table["__lt__"](M, 4) is True and table["__gt__"](M, 4) is False
    assert table["__ge__"](N, 1) is True and table["__le__"](N, 128) is True
    with pytest.raises(
        sint.InconclusiveError, match=r"n <= 4 depends on the value of variable n in \[1, 128\]"
    ):
        table["__le__"](N, 4)
    with pytest.raises(TypeError, match=r"2\*n is a symbolic dimension"):
        table["__index__"](mul(2, N))


def test_evaluate_names_what_is_wrong():
    with pytest.raises(ValueError, match=r"variable n is in \[1, 128\], got 200"):
        sint.evaluate(N, {N: 200})
    with pytest.raises(ValueError, match="n \\+ 1 needs a value of variable n"):
        sint.evaluate(add(N, 1), {})


def test_the_memos_keep_no_node_alive():
    variable = Variable("short_lived", 0, 1000)
    dimension = add(floordiv(add(mul(variable, variable), variable), 7), maximum(variable, 5))
    sint.bounds(dimension)
    watched = [weakref.ref(variable), weakref.ref(dimension)]
    del variable, dimension
    gc.collect()
    assert [reference() for reference in watched] == [None, None]


def test_deep_expressions_need_no_recursion():
    dimension = N
    for _ in range(3000):
        dimension = floordiv(add(dimension, N), 2)
    low, high = sint.bounds(dimension)
    assert low <= sint.evaluate(dimension, {N: 7}) <= high
    assert len(repr(dimension)) < 2000
