"""The rewrite engine: matching, walks, fixed points, endless rules, counts; and the exact simplifications."""

from __future__ import annotations

import gc
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyfn.trace import dtype as dtypes
from tinyfn.trace.algebra import SIMPLIFY
from tinyfn.trace.rewrite import (
    Pattern,
    Rule,
    RuleSet,
    anything,
    constant,
    match,
    record,
    repeated,
    rewrite,
    walk,
)
from tinyfn.trace.scalar import (
    ADD,
    AND,
    BITCAST,
    CAST,
    DIV,
    EQ,
    IDIV,
    LT,
    MAX,
    MIN,
    MOD,
    MUL,
    OR,
    RECIP,
    SHL,
    SHR,
    SIN,
    SQRT,
    TRUNC,
    WHERE,
    XOR,
    build,
    evaluate,
)  # fmt: skip
from tinyfn.trace.sint import Variable, bounds
from tinyfn.trace.uop import CONST, UOp, const, input_node, make, toposort

I, J = input_node(dtypes.int32, (), "i"), input_node(dtypes.int32, (), "j")
X, Y = input_node(dtypes.float32, (), "x"), input_node(dtypes.float32, (), "y")
U, P = input_node(dtypes.uint8, (), "u"), input_node(dtypes.bool_, (), "p")
x, y = anything("x"), anything("y")


def i32(value):
    return const(value, dtypes.int32)


def f32(value):
    return const(value, dtypes.float32)


def simplify(node):
    return rewrite([node], SIMPLIFY)[0]


class Primitive:
    """An array primitive, as far as the engine is concerned: any object with a name."""

    def __init__(self, name):
        self.name = name


# Patterns.


def test_match_binds_names_and_compares_repeated_ones():
    square = Pattern(MUL, (x, x))
    assert match(square, build(MUL, X, X)) == {"x": X}
    assert match(square, build(MUL, X, Y)) is None
    assert match(Pattern((ADD, MUL), (x, y), name="node"), build(ADD, X, Y)) == {
        "node": build(ADD, X, Y), "x": X, "y": Y,
    }  # fmt: skip
    assert match(Pattern(MUL, (x, x)), X) is None


def test_commutative_sources_match_in_any_order_and_backtrack():
    fused = Pattern(ADD, (Pattern(MUL, (x, y)), anything("z")))
    product = build(MUL, X, Y)
    assert match(fused, build(ADD, product, X)) == {"x": X, "y": Y, "z": X}
    assert match(fused, build(ADD, X, product)) == {"x": X, "y": Y, "z": X}
    assert match(Pattern(ADD, (Pattern(MUL, (x, y)), x), any_order=False), build(ADD, X, product)) is None
    # The first order of the inner sources binds x to Y, and only the second fits what follows.
    shared = Pattern(ADD, (Pattern(MUL, (x, y)), x))
    assert match(shared, build(ADD, build(MUL, Y, X), X)) == {"x": X, "y": Y}


def test_constants_match_by_value_and_bits():
    assert match(constant(0), f32(0.0)) == {} and match(constant(0), f32(-0.0)) is None
    assert match(constant(-0.0), f32(-0.0)) == {} and match(constant(-0.0), i32(0)) is None
    assert match(constant(-1), const(255, dtypes.uint8)) == {} and match(constant(-1), i32(-1)) == {}
    assert (
        match(constant(True), const(True, dtypes.bool_)) == {}
        and match(constant(1), const(True, dtypes.bool_)) is None
    )
    assert match(constant(name="c"), i32(3)) == {"c": i32(3)} and match(constant(3), I) is None


def test_conditions_on_dtype_arg_and_sources():
    assert match(Pattern(ADD, dtype=dtypes.is_float), build(ADD, X, Y)) == {}
    assert match(Pattern(ADD, dtype=dtypes.is_float), build(ADD, I, J)) is None
    assert match(Pattern(CAST, arg=dtypes.int8), build(CAST, I, arg=dtypes.int8)) == {}
    assert match(Pattern(CAST, arg=lambda d: d.itemsize > 1), build(CAST, I, arg=dtypes.int8)) is None
    many = make(Primitive("many"), (f32(1), f32(2), f32(3), f32(4)), None, dtypes.float32, ())
    assert match(Pattern(many.op, repeated(constant())), many) == {}
    assert match(Pattern(many.op, (x, y)), many) is None


def test_array_primitives_are_ops_like_any_other():
    neg, exp = Primitive("neg"), Primitive("exp")
    a = input_node(dtypes.float32, (3, 4))
    node = make(
        neg,
        (make(neg, (make(exp, (a,), None, a.dtype, a.shape),), None, a.dtype, a.shape),),
        None,
        a.dtype,
        a.shape,
    )
    rules = RuleSet([Rule("neg of neg", Pattern(neg, (Pattern(neg, (x,)),)), lambda x: x)])
    assert rewrite([node], rules)[0].op is exp
    assert repr(rules.rules[0].pattern) == "neg(neg(x))"


def test_generated_source_can_be_read():
    source = Pattern(ADD, (x, constant(0))).source
    assert source.startswith("def run(n):\n") and "n_0, n_1, = n.src" in source


# Walks.


def test_products_are_rewritten_to_a_fixed_point():
    rules = RuleSet(
        [
            Rule("2x", Pattern(ADD, (x, x)), lambda x: build(MUL, x, i32(2))),
            Rule("shift", Pattern(MUL, (x, constant(2))), lambda x: build(SHL, x, i32(1))),
        ]
    )
    node = build(ADD, build(ADD, I, I), build(ADD, I, I))
    with record() as steps:
        (result,) = rewrite([node], rules)
    assert repr(result) == "i << 1 << 1"
    assert [step.rule.name for step in steps] == ["2x", "shift", "2x", "shift"]
    assert str(steps[0]) == "2x: i + i -> 2*i"
    assert [(rule.matches, rule.tries) for rule in rules.rules] == [(2, 2), (2, 2)]
    assert "2x" in rules.table() and "matches" in rules.table()


def test_walk_offers_each_node_once():
    wrap = RuleSet([Rule("wrap", Pattern(MUL, name="n"), lambda n: build(ADD, n, i32(1)))])
    node = build(MUL, build(MUL, I, J), J)
    assert repr(walk([node], wrap)[0]) == "(i*j + 1)*j + 1"
    with pytest.raises(RuntimeError, match=r"does not end.*'wrap'"):
        rewrite([node], wrap)


def test_top_down_sees_parents_first():
    square_of_sum = Pattern(MUL, (Pattern(ADD, (x, y)), Pattern(ADD, (x, y))))
    rules = RuleSet(
        [
            Rule("square", square_of_sum, lambda x, y: build(MUL, x, y)),
            Rule("sum", Pattern(ADD, (x, y)), lambda x, y: build(SHL, x, y)),
        ]
    )
    total = build(ADD, I, J)
    node = build(ADD, build(MUL, total, total), total)
    assert repr(rewrite([node], rules, bottom_up=False)[0]) == "i*j << (i << j)"
    assert repr(rewrite([node], rules)[0]) == "(i << j)*(i << j) << (i << j)"


@pytest.mark.parametrize("bottom_up", [True, False])
def test_rules_that_undo_each_other_are_named(bottom_up):
    rules = RuleSet(
        [
            Rule("there", Pattern(ADD, (x, y), any_order=False), lambda x, y: build(MUL, x, y)),
            Rule("back", Pattern(MUL, (x, y), any_order=False), lambda x, y: build(ADD, x, y)),
        ]
    )
    with pytest.raises(RuntimeError, match=r"does not end.*'there', 'back'.*i \+ j -> i\*j"):
        rewrite([build(ADD, I, J)], rules, bottom_up=bottom_up)


@pytest.mark.parametrize("bottom_up", [True, False])
def test_rules_that_grow_for_ever_are_named(bottom_up):
    def grow(x, c):
        return build(ADD, x, i32((int(c.value) + 1) % 2**31))

    rules = RuleSet([Rule("grow", Pattern(ADD, (x, constant(name="c")), any_order=False), grow)])
    with pytest.raises(RuntimeError, match=r"does not end after 1301 steps.*'grow'"):
        rewrite([build(ADD, I, i32(0))], rules, bottom_up=bottom_up)
    nest = RuleSet([Rule("nest", Pattern(SQRT, (x,)), lambda x: build(SIN, build(SQRT, build(SIN, x))))])
    with pytest.raises(RuntimeError, match="'nest'"):
        rewrite([build(SQRT, X)], nest, bottom_up=bottom_up)


def test_a_rule_may_not_rewrite():
    def nested(x):
        return rewrite([x], SIMPLIFY)[0]

    with pytest.raises(RuntimeError, match="called inside a rewrite rule"):
        rewrite([build(SQRT, X)], RuleSet([Rule("nested", Pattern(SQRT, (x,)), nested)]))
    assert simplify(X) is X  # and the error left nothing behind


def test_a_rule_must_keep_the_type():
    rules = RuleSet([Rule("wrong", Pattern(ADD, (x, y)), lambda x, y: build(LT, x, y))])
    with pytest.raises(TypeError, match=r"rule 'wrong' replaced a int32\[\] by a bool\[\]"):
        rewrite([build(ADD, I, J)], rules)


def test_sets_add_and_candidates_are_indexed_by_ops():
    never = Rule("never", Pattern(ADD, (Pattern(SIN, (x,)), y)), lambda x, y: None)
    rules = RuleSet([never]) + SIMPLIFY
    assert len(rules) == len(SIMPLIFY) + 1
    rewrite([build(ADD, I, J)], rules)
    assert never.tries == 0
    rewrite([build(ADD, X, build(SIN, Y))], rules)
    assert (never.tries, never.matches) == (1, 0)
    timed = RuleSet([never], timed=True)
    rewrite([build(ADD, X, build(SIN, Y))], timed)
    assert never.seconds > 0
    timed.reset()
    assert (never.tries, never.seconds) == (0, 0.0)


def chain(length):
    node = I
    for step in range(length):
        node = build(ADD, build(MUL, node, J), i32(step % 5)) if step % 2 else build(ADD, node, i32(0))
    return node


def push(x, y, c):
    return build(ADD, build(MUL, x, c), build(MUL, y, c))


DISTRIBUTE = RuleSet(
    [Rule("distribute", Pattern(MUL, (Pattern(ADD, (x, y)), constant(name="c")), any_order=False), push)]
)


def test_time_is_linear_in_the_length_of_a_chain():
    def seconds(length):
        node = chain(length)
        gc.collect()
        gc.disable()  # what it takes depends on all that other tests have left
        try:
            start = time.process_time()
            rewrite([node], SIMPLIFY)
            return time.process_time() - start
        finally:
            gc.enable()

    seconds(1000)
    short, long = (min(seconds(length) for _ in range(3)) for length in (10_000, 100_000))
    assert long < 30 * short  # ten times the nodes; a quadratic walk takes a hundred times as long


def test_a_product_is_pushed_down_a_deep_chain():
    node = I
    for step in range(20_000):
        node = build(ADD, node, (I, J)[step % 2])
    (result,) = rewrite([build(MUL, node, i32(3))], DISTRIBUTE)
    assert evaluate([result], {I: 2, J: 5})[0] == 3 * evaluate([node], {I: 2, J: 5})[0]
    assert DISTRIBUTE.rules[0].matches == 20_000
    (again,) = rewrite([build(MUL, node, i32(3))], DISTRIBUTE, bottom_up=False)
    assert again is result


# The exact simplifications.


def test_integers():
    for node, expected in {
        build(ADD, I, i32(0)): I,
        build(MUL, i32(1), I): I,
        build(MUL, I, i32(0)): i32(0),
        build(ADD, I, build(MUL, I, i32(-1))): i32(0),
        build(ADD, U, build(MUL, U, const(255, dtypes.uint8))): const(0, dtypes.uint8),
        build(ADD, build(ADD, I, i32(3)), i32(4)): build(ADD, I, i32(7)),
        build(MUL, i32(3), i32(4)): i32(12),
        build(AND, U, const(255, dtypes.uint8)): U,
        build(OR, P, const(True, dtypes.bool_)): const(True, dtypes.bool_),
        build(MOD, build(AND, I, i32(7)), i32(8)): build(AND, I, i32(7)),
        build(IDIV, build(AND, I, i32(7)), i32(8)): i32(0),
        build(LT, build(AND, I, i32(7)), i32(8)): const(True, dtypes.bool_),
        build(WHERE, const(False, dtypes.bool_), I, J): J,
        build(WHERE, P, I, I): I,
        build(WHERE, build(XOR, P, const(True, dtypes.bool_)), I, J): build(WHERE, P, J, I),
        build(CAST, build(CAST, I, arg=dtypes.int64), arg=dtypes.int8): build(CAST, I, arg=dtypes.int8),
        build(CAST, I, arg=dtypes.int32): I,
        build(MAX, I, i32(-(2**31))): I,
    }.items():
        assert simplify(node) is expected, node


def test_division_by_bounds_needs_operands_that_do_not_wrap():
    small = build(AND, I, i32(1023))
    scaled = build(ADD, build(MUL, small, i32(4)), build(AND, J, i32(3)))
    assert simplify(build(IDIV, scaled, i32(4))) is small
    assert simplify(build(MOD, scaled, i32(4))) is build(AND, J, i32(3))
    might_wrap = build(IDIV, build(MUL, I, i32(4)), i32(4))
    assert simplify(might_wrap) is might_wrap
    n = Variable("n", 1, 128)
    assert simplify(build(IDIV, build(MUL, n, const(4, dtypes.int64)), const(4, dtypes.int64))) is n


def test_floats_keep_nan_inf_and_the_sign_of_zero():
    minus = build(MUL, X, f32(-1))
    for node in (build(MUL, X, f32(0)), build(ADD, X, minus), build(ADD, X, f32(0.0)), build(EQ, X, X),
                 build(ADD, build(ADD, X, f32(1)), f32(2)), build(SIN, f32(1))):  # fmt: skip
        assert simplify(node) is node
    for node, expected in {
        build(MUL, X, f32(1)): X,
        build(ADD, f32(-0.0), X): X,
        build(DIV, X, f32(1)): X,
        build(MAX, X, f32(-math.inf)): X,
        build(RECIP, f32(3)): f32(np.float32(1) / np.float32(3)),
        build(CAST, build(CAST, X, arg=dtypes.float64), arg=dtypes.float16): build(
            CAST, X, arg=dtypes.float16
        ),
    }.items():
        assert simplify(node) is expected, node
    # Casts that look alike and are not: these lose values, or saturate where the direct one wraps.
    for first, second, third in (
        (dtypes.float32, dtypes.int32, dtypes.float32),
        (dtypes.int32, dtypes.float32, dtypes.int32),
        (dtypes.int32, dtypes.float64, dtypes.int8),
        (dtypes.int8, dtypes.uint8, dtypes.int32),
    ):
        node = build(CAST, build(CAST, input_node(first, ()), arg=second), arg=third)
        assert simplify(node) is node


CASTS = (dtypes.bool_, dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.int64, dtypes.float16, dtypes.float32,
         dtypes.float64)  # fmt: skip
LEAVES = {
    dtypes.int32: [I, J, *map(i32, (0, 1, -1, 2, 4, -3, 2**31 - 1))],
    dtypes.uint8: [U, *(const(v, dtypes.uint8) for v in (0, 1, 7, 255))],
    dtypes.float32: [X, Y, *map(f32, (0.0, -0.0, 1.0, -1.0, 2.5, math.inf, math.nan))],
    dtypes.bool_: [P, const(True, dtypes.bool_), const(False, dtypes.bool_)],
}
BINARY = {
    dtypes.int32: (ADD, MUL, IDIV, MOD, SHL, SHR, AND, OR, XOR, MAX, MIN),
    dtypes.uint8: (ADD, MUL, IDIV, MOD, SHL, SHR, AND, OR, XOR, MAX, MIN),
    dtypes.float32: (ADD, MUL, DIV),
    dtypes.bool_: (AND, OR, XOR),
}


@st.composite
def scalar_expressions(draw, dtype=None, depth=4):
    dtype = dtype or draw(st.sampled_from(sorted(LEAVES, key=str)))
    form = draw(st.sampled_from(("leaf", "binary", "binary", "where", "cast", "unary"))) if depth else "leaf"

    def inner(wanted):
        return draw(scalar_expressions(wanted, depth - 1))

    if form == "binary" and dtype is dtypes.bool_ and draw(st.booleans()):
        operand = draw(st.sampled_from((dtypes.int32, dtypes.uint8, dtypes.float32)))
        return build(draw(st.sampled_from((LT, EQ))), inner(operand), inner(operand))
    if form == "binary":
        return build(draw(st.sampled_from(BINARY[dtype])), inner(dtype), inner(dtype))
    if form == "where":
        return build(WHERE, inner(dtypes.bool_), inner(dtype), inner(dtype))
    if form == "cast":
        middle = draw(st.sampled_from(CASTS))
        source = inner(draw(st.sampled_from(sorted(LEAVES, key=str))))
        return build(CAST, build(CAST, source, arg=middle), arg=dtype)
    if form == "unary" and dtype is dtypes.float32:
        return build(draw(st.sampled_from((TRUNC, SQRT, RECIP))), inner(dtype))
    if form == "unary" and dtype is dtypes.int32:
        return build(BITCAST, inner(dtypes.float32), arg=dtype)
    return draw(st.sampled_from(LEAVES[dtype]))


rng = np.random.default_rng(1)
VALUES = {
    I: np.concatenate(
        [np.int32([0, 1, -1, 5, 2**31 - 1, -(2**31)]), rng.integers(-(2**31), 2**31, 10, np.int32)]
    ),
    J: np.concatenate([np.int32([3, 0, -7, 31, 32, 2]), rng.integers(-40, 40, 10, np.int32)]),
    U: rng.integers(0, 256, 16, np.uint8),
    P: rng.integers(0, 2, 16).astype(bool),
    X: np.concatenate(
        [np.float32([0.0, -0.0, np.nan, np.inf, -np.inf, 1e30]), rng.normal(size=10).astype(np.float32)]
    ),
    Y: np.float32([1, -0.0, 2, np.nan, 3e9, -5, 0, np.inf, 1e-40, 7, -1, 0.5, 1.5, 255, 256, -129]),
}


@given(scalar_expressions())
@settings(max_examples=500, deadline=None)
def test_simplified_expressions_have_the_same_bits(node):
    simplified = simplify(node)
    assert simplify(simplified) is simplified
    before, after = evaluate([node, simplified], VALUES)
    assert before.dtype == after.dtype
    before, after = np.broadcast_arrays(before, after)
    nan = np.isnan(before)
    np.testing.assert_array_equal(nan, np.isnan(after))
    # Which NaN it is may differ, but not whether it is one; everything else agrees bit for bit.
    if not _reads_nan_bits(node):
        assert before[~nan].tobytes() == after[~nan].tobytes()
    if node.dtype in (dtypes.int32, dtypes.uint8):
        low, high = bounds(node)
        assert low <= int(np.min(before)) and int(np.max(before)) <= high


def _reads_nan_bits(node: UOp) -> bool:
    return any(inner.op is BITCAST and inner.src[0].op is not CONST for inner in toposort([node]))
