"""Rebase: pieces of one vector have one structure."""

from __future__ import annotations

import numpy as np

import tinyfn
import tinyfn.numpy as tnp
from tinyfn.lower import interpret
from tinyfn.lower.group import group
from tinyfn.lower.nest import Kernel, View
from tinyfn.lower.rebase import rebase
from tinyfn.lower.structure import structure


def test_pieces_of_one_size_have_one_structure_and_other_origins() -> None:
    def update(flat, pieces):  # type: ignore[no-untyped-def]
        return flat + tnp.concatenate([piece.reshape(-1) for piece in pieces]) * 2

    pieces = [tnp.ones((3, 4)) * i for i in range(5)]
    flat = tnp.arange(60.0)
    graph = tinyfn.jit(update).graph(flat, pieces)
    kernel, view = group(graph)
    assert isinstance(kernel, Kernel) and isinstance(view, View) and len(kernel.parts) == 5
    made = [rebase(part) for part in kernel.parts]
    assert len({structure(nest).key for nest, _ in made}) == 1
    whole = view.source
    assert [origins.get(whole, 0) for _, origins in made] == [0, 12, 24, 36, 48]
    assert [origins.get(graph.inputs[0], 0) for _, origins in made] == [0, 12, 24, 36, 48]


def test_a_rebased_nest_computes_the_same_at_its_origins() -> None:
    graph = tinyfn.jit(lambda x: x[2:] * 2 + x[1:-1] - x[-1]).graph(tnp.arange(9.0))
    (kernel,) = group(graph)
    assert isinstance(kernel, Kernel)
    (part,) = kernel.parts
    x = np.arange(9, dtype=np.float32)
    whole = {graph.inputs[0]: x}
    interpret.run_nest(part, whole)
    nest, origins = rebase(part)
    assert origins == {graph.inputs[0]: 1}
    moved = {graph.inputs[0]: x[1:].copy()}
    interpret.run_nest(nest, moved)
    (output,) = graph.outputs
    np.testing.assert_array_equal(whole[output], moved[output])
    np.testing.assert_array_equal(whole[output], x[2:] * 2 + x[1:-1] - x[-1])


def test_positions_with_padding_stay() -> None:
    graph = tinyfn.jit(lambda x: tnp.pad(x, 2) * 2).graph(tnp.arange(9.0))
    (kernel,) = group(graph)
    assert isinstance(kernel, Kernel)
    assert rebase(kernel.parts[0]) == (kernel.parts[0], {})
