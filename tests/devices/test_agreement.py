"""Random programs of all kinds of operations and dtypes: compiled and step by step agree, within what the primitives state.

python -m pytest tests/devices/test_agreement.py --hypothesis-profile thorough
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tinyfn
import tinyfn.numpy as tnp
from tests.agreement import assert_within, error_bounds
from tinyfn import lax
from tinyfn.devices.program import Program
from tinyfn.devices.threads import num_threads, set_num_threads
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import prims
from tinyfn.trace.array import as_array
from tinyfn.trace.execute import step as reference
from tinyfn.trace.prim import REGISTRY, Aval, Elementwise, Primitive

SHAPES = ((), (1,), (3,), (17,), (2, 3), (4, 1, 5), (0, 2), (33, 20), (5, 130), (3, 4, 2, 2), (1500,))
DTYPES = (dtypes.float32, dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int32, dtypes.int8,
          dtypes.uint8, dtypes.uint32, dtypes.int64, dtypes.bool_)  # fmt: skip
LARGEST = 6000  # elements


class Step(NamedTuple):
    """An operation on earlier values."""

    primitive: Primitive
    sources: tuple[int, ...]
    params: dict[str, Any]


class Example(NamedTuple):
    """A function of arrays: the last of its steps' values, and one before."""

    inputs: tuple[Aval, ...]
    steps: tuple[Step, ...]
    also: int
    seed: int

    def __call__(self, *arguments: Any) -> Any:
        values = list(arguments)
        for step in self.steps:
            values.append(step.primitive(*[values[i] for i in step.sources], **step.params))
        return values[-1], values[self.also]

    @property
    def __name__(self) -> str:
        return "example"

    def points(self) -> list[Any]:
        """Arrays of the inputs' dtypes and shapes."""
        generator = np.random.default_rng(self.seed)
        return [as_array(values(generator, aval)) for aval in self.inputs]


def values(generator: np.random.Generator, aval: Aval) -> np.ndarray:
    """Normally distributed floats with some zeros, whole numbers of a wide range, or bools."""
    if aval.dtype is dtypes.bool_:
        return generator.integers(0, 2, aval.shape).astype(bool)
    if dtypes.is_float(aval.dtype):
        x = np.asarray(generator.normal(size=aval.shape))
        return np.where(generator.random(aval.shape) < 0.05, 0.0, x).astype(aval.dtype)
    return generator.integers(0 if aval.dtype in dtypes.UNSIGNED else -100, 101, aval.shape).astype(
        aval.dtype
    )


# What a step may be: given how to draw, the values so far and which of them to work on, an operation, its other sources, and
# its parameters; None where there is none of that kind.

Made = tuple[Primitive, Sequence[int], dict[str, Any]] | None
Maker = Callable[[st.DrawFn, list[Aval], int], Made]


def alike(draw: st.DrawFn, avals: list[Aval], like: Aval) -> int:
    """One of the values of a dtype and shape."""
    return draw(st.sampled_from([i for i, a in enumerate(avals) if a == like]))


# Complex numbers, which run by NumPy, have tests of their own.
ELEMENTWISE = [
    p
    for p in vars(prims).values()
    if isinstance(p, Elementwise) and not p.params and p not in (prims.where, prims.complex_)
]


def elementwise(draw: st.DrawFn, avals: list[Aval], at: int) -> Made:
    x = avals[at]
    accepting = [p for p in ELEMENTWISE if dtypes.kind(x.dtype) in p.kinds]
    primitive: Any = draw(st.sampled_from(sorted(accepting, key=lambda p: p.name)))
    return primitive, (at, *[alike(draw, avals, x) for _ in range(primitive.arity - 1)]), {}


def arithmetic(draw: st.DrawFn, avals: list[Aval], at: int) -> Made:
    if avals[at].dtype is dtypes.bool_:
        return None
    primitive = draw(st.sampled_from([prims.add, prims.sub, prims.mul, prims.max, prims.min]))
    return primitive, (at, alike(draw, avals, avals[at])), {}


def power(draw: st.DrawFn, avals: list[Aval], at: int) -> Made:
    is_float = dtypes.is_float(avals[at].dtype)
    if avals[at].dtype is dtypes.bool_:
        return None
    return prims.integer_pow, (at,), {"exponent": draw(st.integers(-2 if is_float else 0, 4))}


def where(draw: st.DrawFn, avals: list[Aval], at: int) -> Made:
    conditions = [i for i, a in enumerate(avals) if a == Aval(dtypes.bool_, avals[at].shape)]
    if not conditions:
        return None
    return prims.where, (draw(st.sampled_from(conditions)), at, alike(draw, avals, avals[at])), {}


def cast(draw: st.DrawFn, avals: list[Aval], at: int) -> Made:
    return prims.convert, (at,), {"dtype": draw(st.sampled_from(DTYPES))}


def reduction(draw: st.DrawFn, avals: list[Aval], at: int) -> Made:
    x = avals[at]
    names = (
        ("reduce_and", "reduce_or", "reduce_max")
        if x.dtype is dtypes.bool_
        else ("reduce_sum", "reduce_max", "reduce_min")
    )
    primitive = REGISTRY[draw(st.sampled_from(names))]
    axes = tuple(draw(st.lists(st.sampled_from(range(x.ndim)), unique=True))) if x.ndim else ()
    if 0 in [x.shape[a] for a in axes] and primitive in (prims.reduce_max, prims.reduce_min):
        return None
    return primitive, (at,), {"axes": axes}


def product(draw: st.DrawFn, avals: list[Aval], at: int) -> Made:
    x = avals[at]
    small = [a for a in range(x.ndim) if 0 < x.shape[a] <= 5]
    if x.dtype is dtypes.bool_ or not small:
        return None
    return prims.reduce_prod, (at,), {"axes": (draw(st.sampled_from(small)),)}


def cumulative(draw: st.DrawFn, avals: list[Aval], at: int) -> Made:
    if not avals[at].ndim or avals[at].dtype is dtypes.bool_:
        return None
    axis = draw(st.integers(0, avals[at].ndim - 1))
    return prims.cumsum, (at,), {"axis": axis, "reverse": draw(st.booleans())}


def transpose(draw: st.DrawFn, avals: list[Aval], at: int) -> Made:
    return prims.transpose, (at,), {"permutation": tuple(draw(st.permutations(range(avals[at].ndim))))}


def reshape(draw: st.DrawFn, avals: list[Aval], at: int) -> Made:
    size, shape = prod(avals[at].shape), []
    while draw(st.booleans()) and len(shape) < 3:
        factor = draw(st.sampled_from([n for n in range(1, 34) if size % n == 0]))
        shape.append(factor)
        size //= factor
    at_end = draw(st.booleans())
    return prims.reshape, (at,), {"shape": (*shape, size) if at_end else (size, *shape)}


def broadcast(draw: st.DrawFn, avals: list[Aval], at: int) -> Made:
    x = avals[at]
    if prod(x.shape) * 3 > LARGEST or x.ndim > 3:
        return None
    new = draw(st.integers(0, x.ndim))
    shape = [n if n != 1 else draw(st.integers(1, 2)) for n in x.shape]
    shape.insert(new, draw(st.integers(1, 3)))
    return (
        prims.broadcast,
        (at,),
        {"shape": tuple(shape), "axes": tuple(a + (a >= new) for a in range(x.ndim))},
    )


def slice_(draw: st.DrawFn, avals: list[Aval], at: int) -> Made:
    start = tuple(draw(st.integers(0, min(n, 3))) for n in avals[at].shape)
    limit = tuple(
        n - draw(st.integers(0, min(n - b, 3))) for n, b in zip(avals[at].shape, start, strict=True)
    )
    return (
        prims.slice_,
        (at,),
        {"start": start, "limit": limit, "step": tuple(draw(st.integers(1, 3)) for _ in start)},
    )


def flip(draw: st.DrawFn, avals: list[Aval], at: int) -> Made:
    ndim = avals[at].ndim
    axes = draw(st.lists(st.sampled_from(range(ndim)), unique=True)) if ndim else ()
    return prims.flip, (at,), {"axes": tuple(sorted(axes))}


def pad(draw: st.DrawFn, avals: list[Aval], at: int) -> Made:
    x = avals[at]
    scalars = [i for i, a in enumerate(avals) if a == Aval(x.dtype, ())]
    if not scalars or prod(x.shape) > LARGEST // 8:
        return None
    low, high, interior = (tuple(draw(st.integers(0, 2)) for _ in x.shape) for _ in range(3))
    return prims.pad, (at, draw(st.sampled_from(scalars))), {"low": low, "high": high, "interior": interior}


def concatenate(draw: st.DrawFn, avals: list[Aval], at: int) -> Made:
    x = avals[at]
    if not x.ndim or prod(x.shape) > LARGEST // 3:
        return None
    axis = draw(st.integers(0, x.ndim - 1))

    def rest(a: Aval) -> Any:
        return a.dtype, a.ndim, a.shape[:axis], a.shape[axis + 1 :]

    others = [i for i, a in enumerate(avals) if rest(a) == rest(x) and prod(a.shape) <= LARGEST // 3]
    return (
        prims.concatenate,
        (at, *draw(st.lists(st.sampled_from(others), min_size=1, max_size=2))),
        {"axis": axis},
    )


def indexed(draw: st.DrawFn, avals: list[Aval], at: int) -> tuple[int, dict[str, Any]] | None:
    x = avals[at]
    positions = [
        i
        for i, a in enumerate(avals)
        if dtypes.kind(a.dtype) in ("signed", "unsigned") and a.shape[-1:] == (1,)
    ]
    if not x.ndim or x.shape[0] == 0 or not positions:
        return None
    mode = draw(st.sampled_from(["clip", "fill"]))
    return draw(st.sampled_from(positions)), {
        "axes": (0,),
        "sizes": (1, *x.shape[1:]),
        "batch_dims": 0,
        "mode": mode,
    }


def gather(draw: st.DrawFn, avals: list[Aval], at: int) -> Made:
    found = indexed(draw, avals, at)
    if found is None or prod(avals[found[0]].shape) * prod(avals[at].shape[1:]) > LARGEST:
        return None
    return prims.gather, (at, found[0]), found[1]


def scatter(draw: st.DrawFn, avals: list[Aval], at: int) -> Made:
    found = indexed(draw, avals, at)
    if found is None or avals[at].dtype is dtypes.bool_:
        return None
    indices, params = found
    updates = Aval(avals[at].dtype, (*avals[indices].shape[:-1], *params["sizes"]))
    if updates not in avals:
        return None
    kind = draw(st.sampled_from(["set", "add"]))
    return prims.scatter, (at, indices, alike(draw, avals, updates)), {**params, "kind": kind}


def contraction(draw: st.DrawFn, avals: list[Aval], at: int) -> Made:
    x = avals[at]
    others = [i for i, a in enumerate(avals) if a.dtype is x.dtype]
    if x.dtype is dtypes.bool_:
        return None
    other = draw(st.sampled_from(others))
    y = avals[other]
    pairs = [(i, j) for i in range(x.ndim) for j in range(y.ndim) if x.shape[i] == y.shape[j]]
    contract = [draw(st.sampled_from(pairs))] if pairs and draw(st.integers(0, 4)) else []
    rest = [(i, j) for i, j in pairs if not any(i == a or j == b for a, b in contract)]
    batch = [draw(st.sampled_from(rest))] if rest and draw(st.booleans()) else []
    columns = [tuple(p[k] for p in pair) for pair in (contract, batch) for k in (0, 1)]
    shared = prod(x.shape[i] for i, _ in contract + batch) * prod(x.shape[i] for i, _ in contract)
    if prod(x.shape) * prod(y.shape) > LARGEST * max(shared, 1):
        return None
    return prims.dot_general, (at, other), {"contract": tuple(columns[:2]), "batch_axes": tuple(columns[2:])}


MAKERS: tuple[Maker, ...] = (
    elementwise, elementwise, elementwise, arithmetic, arithmetic, power, where, where, cast, cast, reduction, reduction,
    product, cumulative, transpose, reshape, broadcast, slice_, flip, pad, concatenate, gather, gather, scatter, contraction,
    contraction,
)  # fmt: skip


@st.composite
def examples(draw: st.DrawFn) -> Example:
    """Functions of two to four arrays, one of them of positions, of up to twelve operations, mostly on the latest values."""
    inputs = [
        Aval(draw(st.sampled_from(DTYPES)), draw(st.sampled_from(SHAPES)))
        for _ in range(draw(st.integers(1, 3)))
    ]
    inputs.append(
        Aval(
            draw(st.sampled_from([dtypes.int32, dtypes.int64, dtypes.uint8])),
            draw(st.sampled_from([(1,), (7, 1)])),
        )
    )
    avals, steps = list(inputs), []
    for _ in range(draw(st.integers(1, 12))):
        at = draw(st.integers(max(0, len(avals) - 3), len(avals) - 1) | st.integers(0, len(avals) - 1))
        made = draw(st.sampled_from(MAKERS))(draw, avals, at)
        if made is not None:
            primitive, sources, params = made
            steps.append(Step(primitive, tuple(sources), params))
            avals.append(Aval(*primitive.out(*[avals[i] for i in sources], **params)))
    return Example(
        tuple(inputs), tuple(steps), draw(st.integers(0, len(avals) - 1)), draw(st.integers(0, 999))
    )


def check(example: Example) -> None:
    """Compiled against step by step; and the same bits with one and two threads."""
    points = example.points()
    graph = tinyfn.jit(example).graph(*points)
    inputs = [a.value for a in (*points, *graph.captured)]
    program = Program(graph, reference)
    before = num_threads()
    try:
        set_num_threads(1)
        found = [np.array(x) for x in program(inputs)]
        set_num_threads(2)
        again = program(inputs)
    finally:
        set_num_threads(before)
    for got, other, (want, bound) in zip(found, again, error_bounds(graph, inputs), strict=True):
        assert_within(got, want, bound)
        assert got.tobytes() == np.asarray(other).tobytes()


@settings(suppress_health_check=list(HealthCheck))
@given(examples())
def test_compiled_agrees_with_step_by_step(example: Example) -> None:
    check(example)


@pytest.mark.parametrize("shape", [(40, 300, 50), (3, 20, 200), (7, 1, 7), (1, 300, 1)])
@pytest.mark.parametrize(
    "source, target",
    [
        ("float32", "float64"), ("float16", "float64"), ("float64", "float32"), ("int32", "int64"), ("int8", "int64"),
        ("int16", "int64"), ("uint32", "uint64"), ("int64", "int32"), ("int32", "uint32"),
    ],
)  # fmt: skip
def test_products_of_casts_are_added_up_in_the_dtype_of_the_casts(
    source: str, target: str, shape: tuple[int, int, int]
) -> None:
    """Found by the test above: a cast of what is in memory is part of the product, and says what it is made in."""
    rng, (m, k, n) = np.random.default_rng(0), shape
    sizes = (m, k), (k, n)
    if source.startswith("float"):
        a, b = (rng.normal(size=size).astype(source) for size in sizes)
    else:
        info = np.iinfo(source)
        a, b = (rng.integers(info.min, info.max, size).astype(source) for size in sizes)
    f = tinyfn.jit(lambda a, b: a.astype(target) @ b.astype(target))
    want, got = a.astype(target) @ b.astype(target), np.asarray(f(tnp.asarray(a), tnp.asarray(b)))
    if source.startswith("float"):
        np.testing.assert_allclose(got, want, rtol=0, atol=k * 8 * np.finfo(target).eps)
    else:
        np.testing.assert_array_equal(got, want)


def test_what_is_made_of_one_number_that_is_a_product() -> None:
    """Found by the test above: a cast, cheap, and something costly of a product of one element."""
    outer = (((), ()), ((), ()))
    for x in (np.array([2], np.int32), np.array([0.5], np.float32)):
        f = tinyfn.jit(lambda x: tnp.arccos(abs(lax.dot_general(x, x, outer).astype("float32") / 9.0)))
        np.testing.assert_allclose(np.asarray(f(tnp.asarray(x))).ravel(), np.arccos(x * x / 9.0), rtol=1e-6)
        g = tinyfn.jit(lambda x: tnp.arccos(lax.dot_general(x, x, outer).astype("float32")))
        np.testing.assert_allclose(
            np.asarray(g(tnp.asarray(x))).ravel(),
            np.arccos(np.float32(x * x), where=x < 1, out=np.full(1, np.nan)),
            rtol=1e-6,
        )
