"""Memory plans: temporaries that are alive at once have memory of their own, and nothing is written over what is still read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyfn
import tinyfn.numpy as tnp
from tinyfn.devices.parts import Parts
from tinyfn.lower.gemm_form import match
from tinyfn.lower.index import load
from tinyfn.lower.memory import ALIGNMENT, _Arena, _replaceable, plan, reads_and_writes
from tinyfn.lower.nest import Flow, Kernel, Nest, Pass, Reduce, Store, result
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import scalar, sint
from tinyfn.trace.elements import as_node
from tinyfn.trace.uop import UOp, const, input_node
from tinyfn.transforms.executable import form_of


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 20)), max_size=60))
def test_an_arena_hands_out_memory_once(steps: list[tuple[int, int]]) -> None:
    arena = _Arena()
    held: list[tuple[int, int]] = []
    for size, which in steps:
        if which < len(held):
            arena.give_back(*held.pop(which))
        else:
            offset = arena.take(size)
            assert offset % ALIGNMENT == 0 and offset + size <= arena.size
            for other, length in held:
                assert offset + max(size, 1) <= other or other + max(length, 1) <= offset
            held.append((offset, size))
    for offset, size in held:
        arena.give_back(offset, size)
    assert len(arena._by_size) == (arena.size > 0)  # one gap: all of it
    assert arena.size <= sum(-(-max(size, 1) // ALIGNMENT) * ALIGNMENT for size, _ in steps)


def mlp(params: Any, x: Any) -> Any:
    for w in params:
        x = tnp.tanh(x @ w)
        x = x / (1.0 + tnp.abs(x).sum(-1, keepdims=True))
    return (x**2).sum()


def bytes_of(node: UOp) -> int:
    total = node.dtype.itemsize
    for n in node.shape:
        total *= n
    return total


def padded(x: Any) -> Any:
    """Some pieces of concatenations are written before a sort, which works in memory of its own, and some after it."""
    return tnp.pad(x, 1, "median")


@pytest.mark.parametrize(
    ("function", "shapes"), [(tinyfn.grad(mlp), None), (padded, (3, 4)), (padded, (9, 5))]
)
def test_temporaries_that_live_at_once_do_not_overlap(function: Any, shapes: Any) -> None:
    args = (tnp.ones(shapes),) if shapes else ([tnp.ones((32, 32)) for _ in range(6)], tnp.ones((16, 32)))
    graph = tinyfn.jit(function).graph(*args)
    steps = Parts(graph, form_of).steps
    memory = plan(graph.inputs, graph.outputs, steps)
    sizes, begins, last = {}, {}, dict(memory.last)
    for i, step in enumerate(steps):
        if isinstance(step, Flow) and step.workspace:
            sizes[step.node], begins[step.node], last[step.node] = step.workspace, i, i
        for node in reads_and_writes(step)[1]:
            begins.setdefault(node, i)  # several steps may write it
    sizes |= {node: bytes_of(node) for node in memory.places if node not in sizes}
    places = list(memory.places.items())
    assert len(places) > 3 and memory.arena < sum(
        -(-size // ALIGNMENT) * ALIGNMENT for size in sizes.values()
    )
    assert set(memory.places).isdisjoint(graph.outputs)
    for node, offset in places:
        assert 0 <= offset and offset + sizes[node] <= memory.arena
        for other, there in places:
            if node is other or offset + sizes[node] <= there or there + sizes[other] <= offset:
                continue
            first, second = sorted((node, other), key=lambda n: begins[n])
            # The same memory: one begins when the other is done, or takes it over in the step that reads it last.
            same = (offset, sizes[node]) == (there, sizes[other])
            assert last[first] < begins[second] or (last[first] == begins[second] and same)


# What a kernel may be written over x.

N = 8
ROW, COLUMN = sint.Variable("o0", 0, N - 1), sint.Variable("i0", 0, N - 1)
X, Y, A, B = (input_node(dtypes.float32, (N, N), name) for name in "xyab")
K = input_node(dtypes.int64, (N, N), "k")
S = input_node(dtypes.float32, (N,), "s")
OWN = as_node(sint.add(sint.mul(ROW, N), COLUMN))
OWN_X, OWN_Y, OWN_B = (load(array, (ROW, COLUMN)) for array in (X, Y, B))
OWN_INDEX = load(K, (ROW, COLUMN))

OTHER = {
    "transposed": load(X, (COLUMN, ROW)),
    "shifted": load(X, (ROW, sint.mod(sint.add(COLUMN, 1), N))),
    "flipped": load(X, (ROW, sint.sub(N - 1, COLUMN))),
    "a column": load(X, (ROW, 0)),
    "a row": load(X, (0, COLUMN)),
    "one element": load(X, (0, 0)),
    "guarded": load(
        X, (ROW, sint.sub(COLUMN, 1)), scalar.build(scalar.LT, const(0, dtypes.int64), as_node(COLUMN))
    ),
    "gathered": load(X, (ROW, OWN_INDEX)),
}


def plus(a: UOp, b: UOp | int) -> UOp:
    return scalar.build(scalar.ADD, a, b if isinstance(b, UOp) else const(b, a.dtype))


def each(*stores: tuple[UOp, UOp], sums: tuple[UOp, ...] = ()) -> Pass:
    """A pass over the columns that stores values at their own position, and adds up others."""
    reductions = tuple([Reduce(S, scalar.ADD, value) for value in sums])
    return Pass((COLUMN,), reductions, tuple([Store(array, OWN, value) for array, value in stores]))


def rows(*passes: Pass) -> Nest:
    return Nest((ROW,), passes, frozenset())


def over(*parts: Nest, finish: tuple[Nest, ...] = ()) -> bool:
    """Whether A may be written over X."""
    return X in _replaceable(Kernel(parts, finish)).get(A, [])


def test_what_is_read_at_its_own_element_may_be_overwritten() -> None:
    assert over(rows(each((A, plus(OWN_X, 1)))))
    assert over(rows(each((A, scalar.build(scalar.MUL, OWN_X, plus(OWN_X, OWN_Y))))))
    # By another value of the same point, too: all values of a point are made before one is stored.
    assert over(rows(each((A, plus(OWN_Y, 1)), (B, plus(OWN_X, 1)))))
    assert over(rows(each((A, OWN_X), sums=(OWN_X,))))
    # A row that is reduced first.
    assert over(rows(each(sums=(OWN_X,)), each((A, plus(OWN_X, result(S))))))
    # Other parts that do not read it.
    assert over(rows(each((A, OWN_X))), rows(each((B, OTHER["transposed"].src and load(Y, (COLUMN, ROW))))))
    guard = scalar.build(scalar.LT, as_node(COLUMN), const(3, dtypes.int64))
    assert over(rows(each((A, load(X, (ROW, COLUMN), guard)))))


@pytest.mark.parametrize("name", OTHER)
def test_what_is_read_elsewhere_may_not(name: str) -> None:
    other = OTHER[name]
    assert not over(rows(each((A, other))))
    assert not over(rows(each((A, plus(OWN_X, other)))))
    assert not over(rows(each((A, OWN_X), (B, other))))
    assert not over(rows(each((A, OWN_X), sums=(other,))))
    assert not over(rows(each(sums=(other,)), each((A, OWN_X))))
    assert not over(rows(each((A, OWN_X)), each((B, other))))
    assert not over(rows(each((A, OWN_X))), rows(each((B, other))))
    assert not over(rows(each((B, other))), rows(each((A, OWN_X))))


def test_nor_what_is_read_later_or_by_another_part() -> None:
    assert not over(rows(each((A, OWN_X)), each((B, OWN_X))))
    assert not over(rows(each((A, OWN_X))), rows(each((B, plus(OWN_X, 2)))))


def test_nor_by_a_store_that_does_not_write_each_element_once() -> None:
    by_data = Pass((COLUMN,), (), (Store(A, plus(OWN_INDEX, 0), load(X, (0, plus(OWN_INDEX, 0)))),))
    assert not over(rows(by_data))
    again = Pass((COLUMN, sint.Variable("i1", 0, 3)), (), (Store(A, OWN, OWN_X),))
    assert not over(rows(again))
    assert not over(rows(each((A, OWN_X)), each((A, OWN_Y))))


def test_nor_what_the_kernel_writes_itself() -> None:
    assert not over(rows(each((X, OWN_Y)), each((A, OWN_X))))


def test_finish_may_overwrite_what_the_parts_read() -> None:
    reads = rows(each((B, OTHER["transposed"])))
    assert over(reads, finish=(rows(each((A, OWN_B))),))
    assert over(reads, finish=(rows(each((A, plus(OWN_X, OWN_B)))),))
    assert over(reads, finish=(rows(each((Y, OTHER["transposed"]))), rows(each((A, OWN_B)))))
    assert not over(reads, finish=(rows(each((A, plus(OTHER["transposed"], OWN_B)))),))
    assert not over(reads, finish=(rows(each((A, OWN_B))), rows(each((Y, OWN_X)))))


K = sint.Variable("i1", 0, N - 1)


LEFT, RIGHT = load(Y, (ROW, K)), load(Y, (K, COLUMN))


def contraction(*stores: tuple[UOp, UOp], left: UOp = LEFT, right: UOp = RIGHT) -> Nest:
    product = scalar.build(scalar.MUL, left, right)
    epilogue = Pass((), (), tuple([Store(array, OWN, value) for array, value in stores]))
    nest = Nest((ROW, COLUMN), (Pass((K,), (Reduce(S, scalar.ADD, product),), ()), epilogue), frozenset())
    assert match(nest) is not None
    return nest


def test_contractions_overwrite_what_their_epilogues_read() -> None:
    assert over(contraction((A, plus(OWN_X, result(S)))))
    assert over(contraction((B, plus(OWN_X, result(S))), (A, result(S))))
    assert over(contraction((A, plus(OWN_X, result(S)))), rows(each((B, OWN_Y))))
    assert over(rows(each((B, OWN_X))), finish=(contraction((A, result(S))),))
    for name, other in OTHER.items():
        assert not over(contraction((A, plus(other, result(S))))), name
        assert not over(contraction((A, plus(OWN_X, result(S))), (B, other))), name


def test_and_never_what_their_factors_read() -> None:
    for factors in (
        {"left": load(X, (ROW, K))},
        {"right": load(X, (K, COLUMN))},
        {"left": scalar.build(scalar.MUL, load(Y, (ROW, K)), load(X, (ROW, 0)))},
    ):
        assert not over(contraction((A, result(S)), **factors))
        assert not over(contraction((A, plus(OWN_X, result(S))), **factors))
        assert not over(contraction((A, plus(OWN_Y, result(S))), **factors))
    # A column: the factor reads the very element that is stored, and others of the row read it later.
    only = sint.Variable("o0", 0, N * N - 1)
    own = load(X, (sint.floordiv(only, N), sint.mod(only, N)))
    product = scalar.build(scalar.MUL, own, load(Y, (0, K)))
    store = Store(A, as_node(only), result(S))
    passes = (Pass((K,), (Reduce(S, scalar.ADD, product),), ()), Pass((), (), (store,)))
    nest = Nest((only,), passes, frozenset())
    assert match(nest) is not None and not over(nest)
    assert not over(contraction((A, plus(OWN_X, result(S)))), rows(each((B, OWN_X))))
    assert not over(
        contraction((A, plus(OWN_X, result(S)))), contraction((B, result(S)), left=load(X, (ROW, K)))
    )
