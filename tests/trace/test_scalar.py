"""Scalar operations: each one's types, meaning at the edges, and printed form; the interpreter."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tinyfn.trace import dtype as dtypes
from tinyfn.trace import scalar
from tinyfn.trace.scalar import SCALAR_OPS, build, evaluate
from tinyfn.trace.uop import const, input_node


def run(op, *operands, arg=None):
    arrays = [np.asarray(operand) for operand in operands]
    nodes = [input_node(dtypes.canonical(a.dtype), a.shape) for a in arrays]
    return evaluate([build(op, *nodes, arg=arg)], dict(zip(nodes, arrays, strict=True)))[0]


def sample(dtype):
    if dtype is dtypes.bool_:
        return np.asarray([False, True, True])
    if dtypes.is_integer(dtype):
        info = np.iinfo(dtype)
        return np.asarray([info.min, 0, 1, 2, 3, info.max], dtype)
    return np.asarray([-math.inf, -2.5, -0.0, 0.0, 1.0, 3.0, math.inf, math.nan]).astype(dtype)


@pytest.mark.parametrize("op", SCALAR_OPS.values(), ids=str)
def test_every_operation_on_every_dtype(op):
    for dtype in dtypes.ALL:
        node = input_node(dtype, sample(dtype).shape, "x")
        mask = input_node(dtypes.bool_, node.shape, "mask")
        src = (mask, node, node) if op is scalar.WHERE else (node,) * op.arity
        arg = dtype if op.takes_dtype else None
        if dtype not in op.accepts:
            with pytest.raises(TypeError, match=f"{op.name}.*{dtype.name}.* is not defined"):
                build(op, *src, arg=arg)
            continue
        built = build(op, *src, arg=arg)
        assert built is build(op, *src, arg=arg) and built.op.is_scalar
        assert built.dtype is (dtypes.bool_ if op.comparison else dtype) and built.shape == node.shape
        (value,) = evaluate([built], {node: sample(dtype), mask: sample(dtype) == sample(dtype)})
        assert value.dtype == built.dtype and value.shape == node.shape
        if op.commutative and len(src) == 2:
            other = sample(dtype)[::-1].copy()
            one_way, other_way = run(op, sample(dtype), other), run(op, other, sample(dtype))
            np.testing.assert_array_equal(one_way.astype(np.float64), other_way.astype(np.float64))
        for unit, expected in ((op.identity, sample(dtype)), (op.absorbing, None)):
            if unit is not None and unit(dtype) is not None:
                with np.errstate(all="ignore"):
                    right = np.full(node.shape, unit(dtype)).astype(dtype)
                result = run(op, sample(dtype), right)
                assert result.tobytes() == (right if expected is None else expected).tobytes()


def test_type_errors_name_the_operation_and_its_operands():
    x, i = input_node(dtypes.float32, (), "x"), input_node(dtypes.int32, (), "i")
    with pytest.raises(
        TypeError, match=r"add\(float32\[\], int32\[\]\) is not defined: .* among integers, floats"
    ):
        build(scalar.ADD, x, i)
    with pytest.raises(TypeError, match=r"bitcast\(float32\[\]\) to float64"):
        build(scalar.BITCAST, x, arg=dtypes.float64)
    with pytest.raises(TypeError, match=r"where\(int32"):
        build(scalar.WHERE, i, x, x)
    with pytest.raises(TypeError, match="one shape"):
        build(scalar.ADD, x, input_node(dtypes.float32, (4,)))
    with pytest.raises(TypeError, match="takes 2 operands, got 1"):
        build(scalar.ADD, x)
    with pytest.raises(TypeError, match="has no value"):
        evaluate([x], {})


def test_integer_division_floors_and_never_traps():
    x = np.asarray([7, -7, 7, -7, 5, -(2**31)], np.int32)
    y = np.asarray([2, 2, -2, -2, 0, -1], np.int32)
    assert run(scalar.IDIV, x, y).tolist() == [3, -4, -4, 3, 0, -(2**31)]
    assert run(scalar.MOD, x, y).tolist() == [1, 1, -1, -1, 0, 0]


def test_shifts_out_of_range():
    x = np.asarray([-8, 8, -8, 8, -8, -8], np.int32)
    amount = np.asarray([1, 1, 32, 100, -1, 31], np.int32)
    assert run(scalar.SHL, x, amount).tolist() == [-16, 16, 0, 0, 0, 0]
    assert run(scalar.SHR, x, amount).tolist() == [-4, 4, -1, 0, -1, -1]
    assert run(scalar.SHR, np.uint8([200, 200]), np.uint8([3, 8])).tolist() == [25, 0]


def test_casts():
    x = np.asarray([math.nan, 3e9, -3e9, -1.9, 300.5, math.inf], np.float32)
    assert run(scalar.CAST, x, arg=dtypes.int32).tolist() == [0, 2**31 - 1, -(2**31), -1, 300, 2**31 - 1]
    assert run(scalar.CAST, x, arg=dtypes.uint8).tolist() == [0, 255, 0, 0, 255, 255]
    assert run(scalar.CAST, x, arg=dtypes.int64).tolist() == [0, 3 * 10**9, -3 * 10**9, -1, 300, 2**63 - 1]
    assert run(scalar.CAST, np.float64([2.0**64, 2.0**63]), arg=dtypes.uint64).tolist() == [2**64 - 1, 2**63]
    assert run(scalar.CAST, x, arg=dtypes.bool_).tolist() == [True] * 6
    assert run(scalar.CAST, np.int32([300, -1]), arg=dtypes.uint8).tolist() == [44, 255]
    assert run(scalar.CAST, np.bool_([True, False]), arg=dtypes.bfloat16).tolist() == [1.0, 0.0]
    assert run(scalar.BITCAST, np.float32(1.0), arg=dtypes.int32) == 0x3F800000


def test_comparisons_and_extremes_of_nan():
    nan, one = np.float32(math.nan), np.float32(1)
    assert not run(scalar.LT, nan, one) and not run(scalar.LT, one, nan) and not run(scalar.EQ, nan, nan)
    assert run(scalar.EQ, np.float32(0.0), np.float32(-0.0))
    assert math.isnan(run(scalar.MAX, nan, one)) and math.isnan(run(scalar.MIN, one, nan))


def test_fma_rounds_once():
    a = np.float32(1 + 2**-23)
    assert run(scalar.FMA, a, a, np.float32(-1 - 2**-22)) == np.float32(2**-46)
    # In float64 the sum is a tie for float32, and only what float64 lost says which way to go.
    b, c = np.float32(2**-60), np.float32(1 + 2**-23)
    tie = np.float32(2**-24)
    assert run(scalar.FMA, c, np.float32(1), tie) == np.float32(1 + 2**-22)
    assert run(scalar.FMA, np.float32(2**-30), b, np.float32(1)) == np.float32(1)
    x = np.float64(1 + 2**-52)
    assert run(scalar.FMA, x, x, np.float64(-1 - 2**-51)) == 2.0**-104
    rng = np.random.default_rng(0)
    from fractions import Fraction

    a, b, c = (
        rng.normal(size=300).astype(np.float32) * s for s in (np.float32(1), np.float32(1), np.float32(1e-3))
    )
    exact = [
        Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r)) for p, q, r in zip(a, b, c, strict=True)
    ]
    got = run(scalar.FMA, a, b, c)
    for value, wanted in zip(got, exact, strict=True):
        nearby = [np.nextafter(value, np.float32(s * math.inf)) for s in (-1, 1)]
        assert all(abs(Fraction(float(value)) - wanted) <= abs(Fraction(float(n)) - wanted) for n in nearby)
    assert math.isnan(run(scalar.FMA, np.float64(math.inf), np.float64(0), np.float64(1)))
    assert run(scalar.FMA, np.float64(1e308), np.float64(10), np.float64(1)) == math.inf


def test_printed_form():
    x, y = input_node(dtypes.float32, (), "x"), input_node(dtypes.float32, (), "y")
    i = input_node(dtypes.int32, (), "i")

    def f(value):
        return const(value, dtypes.float32)

    cases = {
        "x*y + 2.0": build(scalar.ADD, build(scalar.MUL, x, y), f(2)),
        "x*(y + 2.0)": build(scalar.MUL, x, build(scalar.ADD, y, f(2))),
        "x + (y + x)": build(scalar.ADD, x, build(scalar.ADD, y, x)),
        "x - 1.5": build(scalar.ADD, x, f(-1.5)),
        "where(x < y, x, exp2(y))": build(scalar.WHERE, build(scalar.LT, x, y), x, build(scalar.EXP2, y)),
        "int32(x) & 255": build(
            scalar.AND, build(scalar.CAST, x, arg=dtypes.int32), const(255, dtypes.int32)
        ),
        "i//(2*i)": build(scalar.IDIV, i, build(scalar.MUL, i, const(2, dtypes.int32))),
        "-(i//i)": build(scalar.MUL, build(scalar.IDIV, i, i), const(-1, dtypes.int32)),
    }
    assert {repr(node): node for node in cases.values()} == cases
    for _ in range(100):
        x = build(scalar.MUL, x, x)
    assert len(repr(x)) < 1000 and "..." in repr(x)


def test_evaluate_is_iterative_and_works_on_arrays():
    x = input_node(dtypes.int32, (), "x")
    total = x
    for _ in range(20000):
        total = build(scalar.ADD, total, x)
    assert evaluate([total], {x: 2}) == [40002]
    assert evaluate([total, x], {x: np.arange(3)})[0].tolist() == [0, 20001, 40002]
