"""What runs natively within programs besides kernels: loops and branches whose graphs consist of kernels, sorts, and calls of
libraries.

What a loop or branch is, is said by who knows its op (`transforms/executable.py`), as a `Loop` or a `Branch`. A program that can
run it has a `Flow` in the place of the op and of those that take its results apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from ..trace import sint
from ..trace.dtype import DType
from ..trace.graph import Graph
from ..trace.uop import UOp, output
from .estimates import Estimates, estimate, estimate_host
from .group import group
from .nest import Flow, Host, Kernel, ProgramStep, Step, View


class Loop(NamedTuple):
    """A loop over `body`, a graph from constants, carries and xs to carries and ys, of `length` steps; `reverse`: from the last.

    With a `test`, a graph from constants and carries to a bool, it ends before the first step where that does not hold; then
    `length` is the most steps that there may be, None for any number, and there are neither xs nor ys."""

    body: Graph
    test: Graph | None
    length: int | None
    constants: int
    carries: int
    reverse: bool


class Branch(NamedTuple):
    """One of several graphs on the same arguments, chosen by an int32 before these; or, if it is not `indexed`, the only one."""

    branches: tuple[Graph, ...]
    indexed: bool


class Foreign(NamedTuple):
    """The call of a library's routine for each of so many matrices (`times`).

    `arguments` has for each of the routine's the bytes of a constant, or a pair: the number of an array, of the sources, the
    results and the memory to work in, and an offset in it. `strides` are the bytes from matrix to matrix of each array.
    `copies` are (result, source, bytes): what a result is before the first call. One call is about so much `work`, in scalar
    operations."""

    library: str
    routine: str
    address: int
    arguments: tuple[bytes | tuple[int, int], ...]
    strides: tuple[int, ...]
    copies: tuple[tuple[int, int, int], ...]
    sources: int
    times: int
    workspace: int
    work: int


class Order(NamedTuple):
    """The positions of the first `wanted` of `length` elements in order, for each of so many rows."""

    dtype: DType
    rows: int
    length: int
    wanted: int
    descending: bool


Form = Loop | Branch | Foreign | Order


def with_test(loop: Loop) -> Graph:
    """The body of a loop, which also gives whether the loop goes on with the carry that it gives."""
    body, test = loop.body, loop.test
    if test is None:
        return body

    def make() -> Graph:
        goes_on = test.inline([*body.inputs[: loop.constants], *body.outputs])
        return Graph(body.inputs, [*body.outputs, *goes_on], name=body.name)

    return body.derive(("with test", test), make)


class Native(Protocol):
    """What runs a loop or branch: it needs so many bytes to work in, and writes a result over a source if it is so told; these
    are pairs of their numbers."""

    @property
    def workspace(self) -> int: ...
    @property
    def over(self) -> Sequence[tuple[int, int]]: ...


N = TypeVar("N", bound=Native)


def with_flow(
    steps: Sequence[Step], outputs: Sequence[UOp], native: Callable[[UOp], N | None]
) -> tuple[list[ProgramStep], dict[UOp, N]]:
    """The steps with a `Flow` for each op for which `native` gives what runs it, and what it gave; views that nobody needs any
    more are left out."""
    found = {
        step.node: what
        for step in steps
        if isinstance(step, Host) and (what := native(step.node)) is not None
    }
    if not found:
        return list(steps), found
    source_of = {step.node: step.source for step in steps if isinstance(step, View)}
    made: list[ProgramStep] = []
    for step in steps:
        if isinstance(step, Host) and step.node in found:
            node = step.node
            sources = tuple([in_memory(s, source_of) for s in node.src])
            results = tuple([output(node, i) for i in range(len(node.shape))])
            over = {
                results[result]: [sources[source]]
                for result, source in found[node].over
                if sources.count(sources[source]) == 1
            }
            made.append(Flow(node, sources, results, found[node].workspace, over))
        elif not (isinstance(step, Host) and step.is_result and step.node.src[0] in found):
            made.append(step)
    needed = {*outputs}
    for each in made:
        if isinstance(each, Host):
            needed.update(each.node.src)
    return [each for each in made if not isinstance(each, View) or each.node in needed], found


def in_memory(node: UOp, source_of: dict[UOp, UOp]) -> UOp:
    """The array of which a node is a view, or the node itself."""
    while node in source_of:
        node = source_of[node]
    return node


FormOf = Callable[[UOp], Form | None]


def no_form(node: UOp) -> None:
    """Every op that holds graphs runs by its reference."""


def how_it_runs(form: Form) -> str:
    """A few words for tables: `10 steps`, `any number of steps`, `2 branches`, `by LAPACK`, `sort: 8 of 4000`."""
    if isinstance(form, Foreign):
        return f"by {form.library}"
    if isinstance(form, Order):
        return f"sort: {form.wanted} of {form.length}"
    if isinstance(form, Branch):
        return f"{len(form.branches)} branches" if form.indexed else "at once"
    if form.length is None:
        return "any number of steps"
    return f"{form.length} steps" if form.test is None else f"at most {form.length} steps"


def estimate_flow(step: Host, form_of: FormOf) -> Estimates:
    """What an op that is no kernel does: a loop its steps, as many as are known, else one; a branch what the largest one does."""
    form = form_of(step.node)
    if form is None or isinstance(form, (Foreign, Order)):
        return estimate_host(step)
    if isinstance(form, Branch):
        return max((_total(branch, form_of) for branch in form.branches), key=_most)
    one = _total(form.body, form_of) + (_total(form.test, form_of) if form.test else Estimates())
    times = form.length if form.test is None and form.length is not None else 1
    return Estimates(*[sint.mul(times, n) for n in one])


def _total(graph: Graph, form_of: FormOf) -> Estimates:
    def make() -> Estimates:
        found = [
            estimate(step) if isinstance(step, Kernel) else estimate_flow(step, form_of)
            for step in group(graph)
            if isinstance(step, (Kernel, Host))
        ]
        return sum(found, Estimates())

    return graph.derive(("estimates", form_of), make)


def _most(estimates: Estimates) -> int:
    return sint.bounds(estimates.ops)[1]
