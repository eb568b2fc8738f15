"""The op of custom_linear_solve: it holds the graphs of a linear equation and of its solvers.

The solution of A(c) x = b has the derivative dx = A⁻¹ (db - (dA) x), and the cotangents A⁻ᵀ ct of b and -(A⁻ᵀ ct)ᵀ (dA/dc) x
of c."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace.errors import user_line
from ..trace.graph import Graph
from ..trace.prim import Sample, broadcast_to_batch, instantiate
from ..trace.uop import UOp, input_node
from .jvp import jvp_graph
from .structured import BatchAxis, Prepare, Structured, check_arguments, cotangents_or_zeros
from .vjp import reverse
from .vmap import batch_graph


class LinearSolve(Structured):
    """The x for which `matvec` gives b, as `solve` finds it, which may give more beside it.

    All graphs take `constants` arrays first. The other arguments are b's arrays, and as many are x's. `vecmat` is the
    transpose of `matvec`, which `transpose_solve` solves; both are None where reverse mode is not defined."""

    params = ("matvec", "solve", "vecmat", "transpose_solve", "constants")

    def contents(self, *, solve: Graph, **params: Any) -> Graph | None:
        return solve

    def out(self, *args: Any, matvec: Graph, solve: Graph, constants: int, **params: Any) -> Any:
        check_arguments("custom_linear_solve's matvec", matvec, args)
        return check_arguments("custom_linear_solve's solve", solve, args)

    def execute(self, prepare: Prepare, args: Sequence[Any], *, solve: Graph, **params: Any) -> list[Any]:
        return prepare(solve)(list(args))

    def _solved(
        self, solve: Graph, constants: Sequence[UOp], right: Sequence[UOp], params: dict[str, Any]
    ) -> list[UOp]:
        """The x for another right-hand side, alone."""
        count = len(right)
        alone = solve.derive(
            ("solution alone", count), lambda: Graph(solve.inputs, solve.outputs[:count], name=solve.name)
        )
        return self.apply(*constants, *right, solve=alone, **params)

    def jvp_results(
        self, args: Sequence[UOp], tangents: Sequence[UOp | None], *, solve: Graph, **params: Any
    ) -> tuple[list[UOp], list[UOp | None]]:
        count = params["constants"]
        constants, right = args[:count], args[count:]
        results = self.apply(*args, solve=solve, **params)
        solution = results[: len(right)]
        total = list(tangents[count:])
        if any(t is not None for t in tangents[:count]):
            flags = (*[t is not None for t in tangents[:count]], *[False] * len(right))
            derived, nonzero = jvp_graph(params["matvec"], flags)
            given = [t for t in tangents[:count] if t is not None]
            found = iter(derived.inline([*constants, *solution, *given])[len(right) :])
            for i, is_nonzero in enumerate(nonzero):
                if is_nonzero:
                    term, before = next(found), total[i]
                    total[i] = -term if before is None else before - term
        if all(t is None for t in total):
            return results, [None] * len(results)
        dense = [instantiate(t, b) for t, b in zip(total, right, strict=True)]
        directions = self._solved(solve, constants, dense, params)
        return results, [*directions, *[None] * (len(results) - len(directions))]

    def vjp_forward(self, args: Sequence[UOp], needs: Sequence[bool], **params: Any) -> Any:
        results = self.apply(*args, **params)
        return results, results[: len(args) - params["constants"]]

    def vjp_backward(
        self,
        args: Sequence[UOp],
        kept: Any,
        cts: Sequence[UOp | None],
        needs: Sequence[bool],
        *,
        matvec: Graph,
        solve: Graph,
        vecmat: Graph | None,
        transpose_solve: Graph | None,
        constants: int,
    ) -> list[UOp | None]:
        count = len(args) - constants
        if all(ct is None for ct in cts[:count]):
            return [None] * len(args)
        if vecmat is None or transpose_solve is None:
            raise TypeError(
                "reverse mode of custom_linear_solve needs a solver of the transposed equation; "
                f"at {user_line()}: give it transpose_solve, or symmetric=True if the matrix is symmetric"
            )
        fixed = args[:constants]
        turned = {"matvec": vecmat, "vecmat": matvec, "transpose_solve": solve, "constants": constants}
        ct_of_right = self._solved(transpose_solve, fixed, cotangents_or_zeros(cts[:count], kept), turned)
        of_constants: list[UOp | None] = [None] * constants
        if any(needs[:constants]):
            derived = reverse(matvec, (*needs[:constants], *[False] * count))
            residuals = derived.forward.inline([*fixed, *kept])[count:]
            found = iter(derived.backward.inline([*residuals, *[-ct for ct in ct_of_right]]))
            of_constants = [next(found) if gives else None for gives in derived.gives[:constants]]
        return [*of_constants, *ct_of_right]

    def batch_results(
        self, axis: BatchAxis, args: Sequence[UOp], batched: Sequence[bool], **params: Any
    ) -> Any:
        constants, graphs = params["constants"], {n: g for n, g in params.items() if isinstance(g, Graph)}
        flags, moving = tuple(batched), tuple(batched[constants:])
        # A part of b or x has the axis if one of the functions gives it with the axis, since others then take it.
        while True:
            found = {name: batch_graph(graph, axis, flags)[1] for name, graph in graphs.items()}
            moving = tuple([any(each) for each in zip(moving, *found.values(), strict=False)])
            if moving == flags[constants:]:
                break
            flags = (*batched[:constants], *moving)
        wide = [
            a if has or not need else broadcast_to_batch(a, axis.size)
            for a, has, need in zip(args, batched, flags, strict=True)
        ]
        derived = {name: _over_batch(graph, axis, flags, moving) for name, graph in graphs.items()}
        results = self.apply(*wide, **{**params, **derived})
        return results, [*moving, *found["solve"][len(moving) :]]

    def samples(self) -> Iterator[Sample]:
        # A diagonal matrix.
        d, x, b = (input_node(dtypes.float32, (3,)) for _ in range(3))
        matvec, solve = Graph([d, x], [d * x], name="matvec"), Graph([d, b], [b / d], name="solve")
        params = {
            "matvec": matvec,
            "solve": solve,
            "vecmat": matvec,
            "transpose_solve": solve,
            "constants": 1,
        }
        yield Sample((np.array([2.0, -1.0, 0.5], np.float32), np.array([1.0, 2.0, 3.0], np.float32)), params)


def _over_batch(graph: Graph, axis: BatchAxis, flags: tuple[bool, ...], needs: tuple[bool, ...]) -> Graph:
    """The graph over a batch axis of the inputs marked in `flags`, which those first results have that are marked in `needs`."""
    derived, has_axis = batch_graph(graph, axis, flags)
    lacking = [need and not has for need, has in zip(needs, has_axis, strict=False)]
    if not any(lacking):
        return derived
    outputs = [
        broadcast_to_batch(out, axis.size) if i < len(lacking) and lacking[i] else out
        for i, out in enumerate(derived.outputs)
    ]
    return Graph(derived.inputs, outputs, name=derived.name)


linear_solve = LinearSolve()
