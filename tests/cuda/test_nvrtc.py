"""Rendered CUDA C compiles for a GPU: every scalar operation of every dtype, and every form of nest."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.running import kernels
from tests.lower.test_nests import FUNCTIONS, lowered
from tinyfn.devices.nvrtc import CudaError, compile_cuda
from tinyfn.lower.cuda_expressions import SUPPORTED
from tinyfn.lower.index import load
from tinyfn.lower.nest import Kernel, Nest, Pass, Store
from tinyfn.lower.render_cuda import render
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import scalar, sint
from tinyfn.trace.dtype import DType
from tinyfn.trace.elements import as_node, position
from tinyfn.trace.uop import UOp, input_node

SIZE = 64
COMPUTED = (dtypes.bool_, *dtypes.INTEGERS, *dtypes.FLOATS)


def every_operation(dtype: DType) -> Kernel:
    """A kernel of all operations on this dtype, each stored in an array of its own."""
    o = sint.Variable("o0", 0, SIZE - 1)
    x, y, z = [load(input_node(dtype, (SIZE,)), (o,)) for _ in range(3)]
    choice = load(input_node(dtypes.bool_, (SIZE,)), (o,))
    values: list[UOp] = []
    for op in SUPPORTED:
        if op is scalar.WHERE:
            values.append(scalar.build(op, choice, x, y))
        elif op.takes_dtype:
            for target in COMPUTED:
                if op is scalar.CAST or (op.result(op, (x,), target) is not None):
                    values.append(scalar.build(op, x, arg=target))
        elif dtype in op.accepts:
            values.append(scalar.build(op, *(x, y, z)[: op.arity]))
    stores = [Store(input_node(value.dtype, (SIZE,)), as_node(o), value) for value in values]
    return Kernel((Nest((o,), (Pass((), (), tuple(stores)),), frozenset()),))


@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_every_operation_compiles(dtype: DType) -> None:
    assert compile_cuda(render(every_operation(dtype)).source, "sm_90")[:4] == b"\x7fELF"


def test_operations_that_are_not_written_have_formulas() -> None:
    assert set(scalar.SCALAR_OPS.values()) - set(SUPPORTED) == {scalar.EXP2, scalar.LOG2, scalar.SIN}


@pytest.mark.parametrize("shape", [(33, 65), (3, 200), (2, 1500)], ids=str)
def test_nests_compile(shape: tuple[int, int]) -> None:
    nests = []
    for function in FUNCTIONS.values():
        graph, _ = lowered(function, np.ones(shape, np.float32))
        nests += [part for kernel in kernels(graph) for part in kernel.parts]
    assert compile_cuda(render(Kernel(tuple(nests))).source, "sm_90")[:4] == b"\x7fELF"


def test_an_error_has_the_words_of_the_compiler() -> None:
    with pytest.raises(CudaError, match=r"compiling for sm_90(.|\n)*expected"):
        compile_cuda("this is no C", "sm_90")


def test_many_different_reductions_share_their_memory() -> None:
    graph, _ = lowered(
        lambda x: [(x * i).sum(0) for i in range(2, 20)] + [(x[:i] + i).max(0) for i in range(70, 90)],
        np.ones((200, 40), np.float32),
    )
    parts = [part for kernel in kernels(graph) for part in kernel.parts]
    code = render(Kernel(tuple(parts)))
    assert code.source.count("column_reduce<8>") > 30
    assert compile_cuda(code.source, "sm_90")[:4] == b"\x7fELF"


def test_arrays_of_more_than_two_to_the_31_elements() -> None:
    o = sint.Variable("o0", 0, 3_500_000_000 - 1)
    x, y = input_node(dtypes.float32, (3_500_000_000,)), input_node(dtypes.float32, (3_500_000_000,))
    value = scalar.build(scalar.ADD, load(x, (o,)), load(x, (sint.floordiv(o, 2),)))
    code = render(Kernel((Nest((o,), (Pass((), (), (Store(y, as_node(o), value),)),), frozenset()),)))
    assert "const long long o0" in code.source and "int first" not in code.source
    assert compile_cuda(code.source, "sm_90")[:4] == b"\x7fELF"
    rows, k = sint.Variable("o0", 0, 69_999), sint.Variable("i0", 0, 49_999)
    at = as_node(position((70_000, 50_000), (rows, k)))
    scaled = Store(y, at, load(x, (at,)))
    source = render(Kernel((Nest((rows,), (Pass((k,), (), (scaled,)),), frozenset()),))).source
    assert "const long long" in source and "const int o0" in source
    assert compile_cuda(source, "sm_90")[:4] == b"\x7fELF"
