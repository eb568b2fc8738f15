"""Stage specs: all that is lowered keeps them, and each rule can fail."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import tinyfn
import tinyfn.numpy as tnp
from tests import test_transformer as transformer
from tests.agreement import by_numpy
from tests.test_primitives import CASES, outputs
from tests.transforms.programs import Program, programs
from tinyfn import nn, optax_like, random
from tinyfn.lower.codegen import generate
from tinyfn.lower.group import group
from tinyfn.lower.index import LOAD, load
from tinyfn.lower.nest import Host, Kernel, Nest, Pass, Reduce, Store, result
from tinyfn.lower.spec import SpecError, verify_code, verify_graph, verify_kernel, verify_nest, verify_steps
from tinyfn.lower.target import host_target
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import prims, scalar, sint
from tinyfn.trace.array import as_array
from tinyfn.trace.graph import Graph
from tinyfn.trace.prim import Primitive, Sample
from tinyfn.trace.uop import UOp, const, input_node, make, rebuild


def verify(graph: Graph) -> None:
    """Check all stages of a simplified graph."""
    verify_graph(graph)
    steps = group(graph)
    verify_steps(graph, steps)
    for step in steps:
        if isinstance(step, Kernel):
            code = generate(step, host_target())
            verify_code(step, code.ir, code.arguments, code.points, code.finishes)


@pytest.mark.parametrize("primitive, sample", CASES)
def test_primitives(primitive: Primitive, sample: Sample) -> None:
    verify(tinyfn.jit(outputs(primitive, sample)).graph(*[as_array(a) for a in sample.args]))


@settings(max_examples=60, database=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs_and_their_gradients(program: Program) -> None:
    points = [as_array(p) for p in program.points()]
    verify(tinyfn.jit(program).graph(*points))
    verify(tinyfn.jit(tinyfn.value_and_grad(program.scalar)).graph(*points))


def test_a_network_with_its_optimizer() -> None:
    optimizer = optax_like.adam(1e-3)
    sizes = (20, 16, 10)
    params = [{"w": tnp.ones(pair) * 0.1, "b": tnp.zeros(pair[1])} for pair in pairwise(sizes)]

    def loss(params: Any, x: Any, y: Any) -> Any:
        for p in params[:-1]:
            x = nn.relu(x @ p["w"] + p["b"])
        return -(nn.log_softmax(x @ params[-1]["w"] + params[-1]["b"]) * y).sum(-1).mean()

    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        value, gradient = tinyfn.value_and_grad(loss)(params, x, y)
        return value, *optimizer.step(params, gradient, state)

    verify(tinyfn.jit(step).graph(params, optimizer.init(params), tnp.ones((8, 20)), tnp.ones((8, 10)) / 10))


def test_a_transformer_with_its_gradient() -> None:
    params = transformer.init(random.key(0))
    verify(tinyfn.jit(tinyfn.value_and_grad(transformer.loss)).graph(params, transformer.sequences(0, 3)))


# Each rule can fail: a nest that keeps the spec, and what breaks it.

F32 = dtypes.float32
X, ROW, TOTAL, OUT = (input_node(F32, shape) for shape in ((4, 6), (4, 6), (4,), (4, 6)))
ROW, TOTAL, OUT = (prims.neg.node(input_node(F32, node.shape)) for node in (ROW, TOTAL, OUT))
O, I = sint.Variable("o0", 0, 3), sint.Variable("i0", 0, 5)
OTHER = sint.Variable("i9", 0, 5)


def index(value: Any) -> UOp:
    return value if isinstance(value, UOp) else const(value, dtypes.int64)


def at(o: Any = O, i: Any = I) -> UOp:
    return index(sint.add(sint.mul(o, 6), i))


def local(i: Any = I) -> UOp:
    return make(LOAD, (index(i),), ROW, F32, ())


def element(o: Any = O, i: Any = I, condition: UOp | None = None) -> UOp:
    return load(X, (o, i), condition)


def one() -> UOp:
    return const(1.0, F32)


def rows(
    reduced: UOp | None = None,
    kept: UOp | None = None,
    kept_at: Any = I,
    out: UOp | None = None,
    out_at: UOp | None = None,
    op: Any = scalar.ADD,
    outer: tuple[UOp, ...] = (O,),
    inner: tuple[UOp, ...] = (I,),
    more: tuple[Store, ...] = (),
    last: UOp = OUT,
    locals_: frozenset[UOp] = frozenset((ROW,)),
) -> Nest:
    """For each row: the sum of a row that is kept, and then the row divided by it."""
    reduced = element() if reduced is None else reduced
    kept = element() if kept is None else kept
    out = scalar.build(scalar.DIV, local(), result(TOTAL)) if out is None else out
    first = Pass(inner, (Reduce(TOTAL, op, reduced),), (Store(ROW, index(kept_at), kept),))
    second = Pass(inner, (), (Store(last, at() if out_at is None else out_at, out), *more))
    return Nest(outer, (first, second), locals_)


def test_the_nest_that_the_others_break_is_right() -> None:
    verify_nest(rows())
    verify_kernel(Kernel((rows(),)))


def double(x: UOp) -> UOp:
    return scalar.build(scalar.CAST, x, arg=dtypes.float64)


BROKEN: dict[str, tuple[Callable[[], Nest], str]] = {
    "a range of no loop": (lambda: rows(out_at=at(i=OTHER)), "the range i9 of no loop"),
    "a range that starts at 1": (lambda: rows(outer=(sint.Variable("o0", 1, 3),)), "is no range from 0"),
    "a range of two loops": (lambda: rows(outer=(O, I)), "that of two loops"),
    "a load out of bounds": (lambda: rows(kept=element(i=sint.add(I, 1))), r"in \[1, 24\], which has 24"),
    "a load below 0": (lambda: rows(reduced=element(i=sint.sub(I, 1))), r"in \[-1, 22\]"),
    "a local load out of bounds": (lambda: rows(out=local(sint.mul(I, 2))), r"in \[0, 10\], which has 6"),
    "a local array read before it is written": (lambda: rows(reduced=local()), "before it is written"),
    "a local array that nothing writes": (
        lambda: rows(locals_=frozenset((ROW, prims.exp.node(X)))), "nothing writes its local array",
    ),
    "a local array written by two passes": (
        lambda: rows(more=(Store(ROW, I, one()),)), "two passes write the local array",
    ),
    "a result before its reduction": (lambda: rows(kept=result(TOTAL)), "which is not there yet"),
    "a result of another dtype": (
        lambda: rows(out=scalar.build(scalar.CAST, claims(result(TOTAL), dtypes.float64), arg=F32)), "as float64",
    ),
    "a store of another dtype": (lambda: rows(out=double(one())), "a float64 is stored"),
    "a store out of bounds": (lambda: rows(out_at=at(o=sint.add(O, 1))), r"is stored at .* which has 24 elements"),
    "a store at one position by many": (lambda: rows(out_at=at(i=0)), "at the same position"),
    "an accumulator that is too narrow": (
        lambda: rows(reduced=scalar.build(scalar.CAST, element(), arg=dtypes.float16)), "kept as float16, not as float32",
    ),
    "a reduction by what has no order": (lambda: rows(op=scalar.DIV), "does not combine"),
    "an op on arrays": (lambda: rows(out=prims.exp.node(input_node(F32, ()))), "the op (input|exp) is illegal in an expression"),
    "an op on operands of two dtypes": (
        lambda: rows(out=make(scalar.ADD, (one(), double(one())), None, F32, ())), "is not defined",
    ),
    "a dtype that is not computed with": (
        lambda: rows(out=scalar.build(
            scalar.CAST, scalar.build(scalar.CAST, one(), arg=dtypes.NARROW_FLOATS[0]), arg=F32,
        )), "cast|" + dtypes.NARROW_FLOATS[0].name,
    ),
    "a condition that is no bool": (lambda: rows(kept=element(condition=one())), "on a condition of float32"),
    "a position that is no int64": (
        lambda: rows(out=make(LOAD, (scalar.build(scalar.CAST, at(), arg=dtypes.int32),), X, F32, ())), "no position of int64",
    ),
    "a store to an argument": (lambda: rows(last=X), "it writes the argument"),
    "an element that is written twice": (
        lambda: rows(more=(Store(OUT, at(), one()),)), "writes element 0 of .* twice",
    ),
    "an element that another point writes": (
        lambda: rows(more=(Store(ROW2, at(), load(OUT, (O, I))),)), "which the point has not written",
    ),
}  # fmt: skip
ROW2 = prims.exp.node(input_node(F32, (4, 6)))


def claims(node: UOp, dtype: Any) -> UOp:
    """The node with another dtype than its op gives it."""
    other = prims.neg.node(input_node(F32, (4,)))
    return make(node.op, (), other, dtype, ())


@pytest.mark.parametrize("name", BROKEN)
def test_each_rule_of_nests_can_fail(name: str) -> None:
    build, message = BROKEN[name]
    with pytest.raises(SpecError, match=message):
        verify_nest(build())


def test_a_load_under_a_condition_may_be_out_of_bounds() -> None:
    inside = scalar.build(scalar.LT, I, index(5))
    verify_nest(rows(kept=element(i=sint.add(I, 1), condition=inside)))


def test_what_a_point_has_written_it_may_read_again() -> None:
    again = Pass((I,), (), (Store(ROW2, at(), load(OUT, (O, I))),))
    nest = rows()
    verify_nest(nest._replace(passes=(*nest.passes, again)))
    backwards = Pass((I,), (), (Store(ROW2, at(), load(OUT, (sint.sub(3, O), I))),))
    with pytest.raises(SpecError, match="which the point has not written"):
        verify_nest(nest._replace(passes=(*nest.passes, backwards)))


def test_results_of_passes_inside_belong_to_one_point() -> None:
    inside = prims.reduce_sum.node(X, axes=(1,))
    within = Pass((I,), (Reduce(inside, scalar.ADD, element()),), ())
    total = prims.reduce_sum.node(input_node(F32, (4,)), axes=(0,))
    loop = Pass((O,), (Reduce(total, scalar.ADD, result(inside)),), (), (within,))
    end = Pass((), (), (Store(total, index(0), result(total)),))
    verify_nest(Nest((), (loop, end), frozenset()))
    with pytest.raises(SpecError, match="which is not there yet"):
        verify_nest(
            Nest((), (loop, end._replace(stores=(Store(total, index(0), result(inside)),))), frozenset())
        )


def simple(target: UOp, size: int, begin: int = 0, value: UOp | None = None) -> Nest:
    o = sint.Variable("o0", 0, size - 1)
    return Nest(
        (o,), (Pass((), (), (Store(target, index(sint.add(o, begin)), value or one()),)),), frozenset()
    )


def test_parts_are_independent() -> None:
    a, b = (prims.neg.node(input_node(F32, (6,))) for _ in range(2))
    o = sint.Variable("o0", 0, 5)
    verify_kernel(Kernel((simple(a, 6), simple(b, 6))))
    with pytest.raises(SpecError, match=r"part 1 reads .* which another part writes"):
        verify_kernel(Kernel((simple(a, 6), simple(b, 6, value=load(a, (o,))))))
    with pytest.raises(SpecError, match="it has no parts"):
        verify_kernel(Kernel(()))
    # Pieces of one array.
    verify_kernel(Kernel((simple(a, 2), simple(a, 4, begin=2))))
    with pytest.raises(SpecError, match="part 1 and part 0 write the same elements"):
        verify_kernel(Kernel((simple(a, 3), simple(a, 4, begin=2))))
    # What is run at the end may read it all.
    verify_kernel(Kernel((simple(a, 6),), (simple(b, 6, value=load(a, (o,))),)))


def test_steps_make_what_others_read() -> None:
    graph = tinyfn.jit(lambda x: by_numpy(x * 2) + 1).graph(tnp.ones(5))
    steps = group(graph)
    assert [type(step) for step in steps] == [Kernel, Host, Kernel]
    verify_steps(graph, steps)
    with pytest.raises(SpecError, match=r"step 0 reads .* which no step before it makes"):
        verify_steps(graph, steps[1:])
    with pytest.raises(SpecError, match=r"step 2 reads .* which no step before it makes"):
        verify_steps(graph, steps[:2])
    with pytest.raises(SpecError, match=r"step 1 makes .* which step 0 has made"):
        verify_steps(graph, [steps[0], *steps])


def test_graphs_and_code_are_checked() -> None:
    graph = tinyfn.jit(lambda x: x * 2).graph(tnp.ones(5))
    verify_graph(graph)
    with pytest.raises(SpecError, match="is used but is not one of the graph's inputs"):
        verify_graph(Graph((), graph.outputs))
    inner = tinyfn.jit(lambda x: x * 2)
    with pytest.raises(SpecError, match="is a call, which should have been inlined"):
        verify_graph(tinyfn.make_graph(lambda x: inner(x))(tnp.ones(5)))
    with pytest.raises(SpecError, match="does not belong into a graph"):
        n = sint.Variable("n", 0, 3)
        verify_graph(Graph((), (rebuild(scalar.build(scalar.ADD, n, n), (index(1), index(2))),)))
    (kernel,) = group(graph)
    assert isinstance(kernel, Kernel)
    code = generate(kernel, host_target())
    with pytest.raises(SpecError, match="its arguments are"):
        verify_code(kernel, code.ir, code.arguments[:1], code.points, False)
    with pytest.raises(SpecError, match="it defines"):
        verify_code(kernel, code.ir.replace("@kernel", "@colonel"), code.arguments, code.points, False)
    with pytest.raises(SpecError, match="0 points"):
        verify_code(kernel, code.ir, code.arguments, 0, False)
