"""Printed loops mean what the nest means: they are run as Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.agreement import by_numpy
from tinyfn.lower.group import group
from tinyfn.lower.listing import Names, listing
from tinyfn.lower.nest import Host, Kernel, View
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import scalar

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: tinyfn.nn.softmax(x),
    "layer_norm": lambda x: (x - x.mean(-1, keepdims=True)) / tnp.sqrt(x.var(-1, keepdims=True) + 1e-5),
    "transposed": lambda x: x.T * 2 - x.T,
    "slices": lambda x: x[::-1, 1::2] + 1,
    "columns": lambda x: (x.max(0), x.sum(0), -x),
    "casts": lambda x: ((x * 10).astype("int32") % 7, (x > 0) & (x < 1), (x * 4).astype("int16") // 3),
    "iota": lambda x: tnp.where(tnp.arange(x.shape[0])[:, None] >= tnp.arange(x.shape[1]), x, 0.0),
    "regroup": lambda x: x.reshape(-1).reshape(x.shape[1], x.shape[0]).sum(1),
    "nested": lambda x: (x - (x - 1)) - (x / (x / 3)) * (x * (x * 2)),
    "loss": lambda x: -(tinyfn.nn.log_softmax(x) * x).sum(-1).mean(),
    "pad": lambda x: tnp.pad(x, 1) * 2,
    "concatenate": lambda x: tnp.concatenate([x, x * 2, x[:1] - 1]),
    "gather": lambda x: x[tnp.asarray([2, 0, 1, 1])] + 1,
    "product": lambda x: tnp.tanh(x @ x.T + 1),
    "convolution": lambda x: tinyfn.lax.conv_general_dilated(
        x[None, None], x[None, None, :2, :2], (1, 1), "SAME"
    ),
    "parts": lambda x: (x.sum() * 2, x[:, 0] + 1, tnp.sqrt(abs(x)).reshape(-1)),
    "bits": lambda x: (x * 100).astype("int32") ^ ((x * 9).astype("int32") << 2),
}


def environment() -> dict[str, Any]:
    """The names that printed expressions use, by the scalar operations' own references."""
    names: dict[str, Any] = {"inf": np.inf, "nan": np.nan}
    for op in scalar.SCALAR_OPS.values():
        if op.python.startswith(op.name + "("):
            names[op.name] = op.reference
    for dtype in (dtypes.bool_, *dtypes.INTEGERS, *dtypes.FLOATS):
        names[dtype.name] = lambda x, dtype=dtype: scalar.CAST.reference(x, dtype)[()]
    names["where"] = lambda condition, a, b: (
        a if condition else b
    )  # NumPy's would make float64 of two Python floats
    names["bitcast"] = lambda x, dtype: scalar.BITCAST.reference(x, np.dtype(dtype.__defaults__[0]))[()]
    return names


def run(text: str, arrays: dict[str, np.ndarray]) -> None:
    """Run printed loops."""
    lines = []
    for line in text.split("\n"):
        line = re.sub(r"^(part \d+, on .*|then, by one thread):", "if True:", line)
        line = re.sub(r"(?:parallel )?for (\w+) in (\d+):", r"for \1 in range(\2):", line)
        if found := re.match(r"( *)local (\w+): (\w+)\[([\d,]*)\]", line):
            indent, name, dtype, shape = found.groups()
            line = f"{indent}{name} = zeros({shape.replace(',', '*')}, '{dtype}')"
        elif found := re.match(r"( *)(\w+): (\w+) = (.*)", line):
            indent, name, dtype, value = found.groups()
            line = f"{indent}{name} = {dtype}({value})"
        lines.append(line)
    # Stored reductions share the name of their result.
    text = re.sub(r"(\w+)\[(.*)\] = \1$", r"stored_\1[\2] = \1", "\n".join(lines), flags=re.MULTILINE)
    with np.errstate(all="ignore"):
        exec(
            text,
            {**environment(), "zeros": np.zeros, **arrays, **{f"stored_{n}": a for n, a in arrays.items()}},
        )


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_printed_loops_compute_what_the_graph_computes(name: str, one_by_one: bool) -> None:
    x = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    graph = tinyfn.jit(FUNCTIONS[name]).graph(tnp.asarray(x))
    values = [x, *[a.value for a in graph.captured]]
    names = Names()
    arrays = {
        names[node]: np.array(value).reshape(-1) for node, value in zip(graph.inputs, values, strict=True)
    }
    for step in group(graph):
        if isinstance(step, View):
            arrays[names[step.node]] = arrays[names[step.source]]
            continue
        assert isinstance(step, Kernel)
        for nest in (*step.parts, *step.finish):
            for node in nest.stored:
                arrays.setdefault(names[node], np.zeros(int(np.prod(node.shape)), node.dtype))
            run(listing(nest, names, one_by_one), arrays)
    for node, expected in zip(graph.outputs, graph.run(values), strict=True):
        found = arrays[names[node]].reshape(node.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_row_kernel_reads_like_its_formula() -> None:
    (step,) = group(tinyfn.jit(lambda x: x - x.mean(-1, keepdims=True)).graph(tnp.ones((4, 8))))
    assert listing(step, Names(zip(step.parts[0].loaded, ["x"], strict=False))) == (  # type: ignore[union-attr]
        "parallel for o0 in 4:\n"
        "    reduce_sum: float32 = -0.0\n"
        "    for i0 in 8:\n"
        "        reduce_sum += x[i0 + 8*o0]\n"
        "    for i0 in 8:\n"
        "        sub[i0 + 8*o0] = x[i0 + 8*o0] - reduce_sum/8.0\n"
    )


def test_equal_parts_are_printed_once() -> None:
    def part(size: int) -> Any:
        ((kernel),) = group(tinyfn.jit(lambda x: x * 2 + 1).graph(tnp.ones(size)))
        assert isinstance(kernel, Kernel)
        return kernel.parts[0]

    text = listing(Kernel((part(10), part(10), part(11))))
    assert text.count("parallel for") == 2
    assert "part 2: as part 1, on input_2, add_3" in text and "part 3, on input_3, add_4:" in text


def test_names_are_distinct() -> None:
    (first, second) = (tinyfn.make_graph(lambda x: x * 2)(tnp.ones(3)).inputs[0] for _ in range(2))
    names = Names([(first, "x"), (second, "x")])
    assert names[first] == "x" and names[second] == "x_2"


def test_a_call_of_a_reference_is_one_line() -> None:
    graph = tinyfn.jit(lambda x: by_numpy(x)).graph(tnp.ones(5))
    (step,) = [s for s in group(graph) if isinstance(s, Host)]
    assert listing(step) == f"{step.node.op.name} = {step.node.op.name}(input)  # by its reference\n"
