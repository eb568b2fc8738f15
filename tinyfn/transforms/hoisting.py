"""Work taken out of the steps of scans, for when no more derivatives are taken.

What the constants alone determine is computed once. Products that a step makes of few rows use a machine badly: they read a
matrix for each of these. Two kinds of them can be made for several steps at a time:

- a product of xs and a constant, as the input projections of a recurrent network: before those steps;
- a product that is added up over the steps, as the gradient of a weight: one product over all of those steps after them. That is
  another order of the sum, which is free where it says so (`accumulate`): for sums of cotangents.

So the scan becomes a scan over blocks of steps, with a scan over the steps of a block in it. What a block needs in memory does
not depend on the number of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from ..trace import prims
from ..trace.graph import Graph
from ..trace.uop import CONST, INPUT, OUTPUT, UOp, depends_on, input_node, substitute
from .loop_bodies import Parts, chosen
from .loops import scan
from .structured import BatchAxis, with_contents
from .vmap import batch_graph

# Rows, and terms of each sum, that are enough for a product to be fast.
ROWS = 32
TERMS = 128
# A product of fewer multiplications in each step is left where it is, as are loops that may become one native function.
LEAST = 1 << 12
MOST_STEPS = 64  # of a block
MOST_BYTES = 1 << 24  # that a block needs for what it computes before its steps, or keeps for after them


class _Product(NamedTuple):
    """A product of each step that can be made for a block of them: its node, and how many steps make enough rows."""

    node: UOp
    steps: int


class _Sum(NamedTuple):
    """A carry that only adds up products: its number, the product, what is done to it before it is added, and the values of
    the step that its factors are views of."""

    carry: int
    product: UOp
    added: UOp
    factors: tuple[UOp, UOp]
    steps: int


def hoist(graph: Graph, simplified: Callable[[Graph], Graph]) -> Graph:
    """The graph with work taken out of the steps of its scans, whose bodies are simplified first."""

    def contents(node: UOp) -> Graph | None:
        if node.op is not scan or node.op.has_effects(node.params):
            return None
        if any(not isinstance(n, int) for source in node.src for n in source.shape):
            return None
        body = simplified(node.params["graph"])
        params = {key: value for key, value in node.params.items() if key != "graph"}
        found = body.derive(("hoisted", *params.items()), lambda: [_hoisted(body, **params)])
        return found[0]

    if not any(node.op is scan for node in graph.nodes()):
        return graph
    outputs = with_contents(graph.outputs, contents)
    if all(a is b for a, b in zip(outputs, graph.outputs, strict=True)):
        return graph
    return Graph(graph.inputs, outputs, graph.captured, graph.name)


def _hoisted(body: Graph, length: int, constants: int, carries: int, reverse: bool) -> Graph | None:
    parts = Parts(constants, carries)
    once = _invariant(body, parts) if length > 1 else []
    if once:
        return _with_invariants(body, parts, once, length, reverse)
    blocks = _Blocks.of(body, parts, length)
    return None if blocks is None else blocks.graph(reverse)


def _terms(node: UOp) -> int:
    """How many terms the sums of a node have together; 0 if it is no reduction or product."""
    terms: int = prod(node.src[0].shape) if node.op.family == "reduction" else _multiplications(node)
    return terms


def _multiplications(node: UOp) -> int:
    """How many multiplications a product takes; 0 for what is none."""
    if node.op is not prims.dot_general:
        return 0
    x = node.src[0]
    count: int = prod(node.shape) * prod([x.shape[axis] for axis in node.params["contract"][0]])
    return count


def _is_movement(node: UOp) -> bool:
    return node.op not in (INPUT, CONST, OUTPUT) and node.op.family == "movement"


# What the constants alone determine


def _invariant(body: Graph, parts: Parts) -> list[UOp]:
    """Values that are reductions or products, or made of such, of constants alone, and read by what is not."""
    order = body.nodes()
    _, carries, xs = parts.of(body.inputs)
    varying = depends_on(order, [*carries, *xs])
    made: set[UOp] = set()  # of constants, with a reduction or product within
    for node in order:
        if node in varying or node.op in (INPUT, CONST) or isinstance(node.dtype, tuple):
            continue
        if node.op is OUTPUT or any(isinstance(s.dtype, tuple) for s in node.src):
            continue
        if _terms(node) >= LEAST or not made.isdisjoint(node.src):
            made.add(node)
    needed: dict[UOp, None] = {}
    for reader in [*[n for n in order if n not in made], *body.outputs]:
        for source in (reader,) if reader in made else reader.src:
            while source in made and _is_movement(source) and len(source.src) == 1:
                (source,) = source.src
            if source in made:
                needed[source] = None
    return list(needed)


def _with_invariants(body: Graph, parts: Parts, once: Sequence[UOp], length: int, reverse: bool) -> Graph:
    fixed, carries, xs = parts.of(body.inputs)
    given = [input_node(node.dtype, node.shape) for node in once]
    step = Graph(
        [*fixed, *given, *carries, *xs],
        substitute(body.outputs, dict(zip(once, given, strict=True))),
        name=body.name,
    )
    inputs = [*_like(fixed), *_like(carries), *_like(xs, length)]
    made = substitute(once, dict(zip(fixed, inputs, strict=False)))
    results = scan.apply(
        *inputs[: len(fixed)],
        *made,
        *inputs[len(fixed) :],
        graph=step,
        length=length,
        constants=len(fixed) + len(once),
        carries=len(carries),
        reverse=reverse,
    )
    return Graph(inputs, results, name="hoisted")


def _like(nodes: Sequence[UOp], *leading: int) -> list[UOp]:
    return [input_node(node.dtype, (*leading, *node.shape)) for node in nodes]


# Blocks of steps


class _Blocks:
    """A scan over blocks of `steps` steps, with `products` before the steps of a block, and `sums` after them."""

    def __init__(
        self,
        body: Graph,
        parts: Parts,
        length: int,
        products: Sequence[_Product],
        sums: Sequence[_Sum],
        steps: int,
    ):
        self.body, self.parts, self.length, self.steps = body, parts, length, steps
        self.products, self.sums = products, sums

    @classmethod
    def of(cls, body: Graph, parts: Parts, length: int) -> _Blocks | None:
        """The blocks of a scan, or None if they would be of no use."""
        order = body.nodes()
        _, carries, xs = parts.of(body.inputs)
        # What loops and branches in the body give stays there too.
        within = [node for node in order if isinstance(node.dtype, tuple)]
        stepped, carried = depends_on(order, [*carries, *xs]), depends_on(order, [*carries, *within])
        products = [
            _Product(node, -(-ROWS // rows))
            for node in order
            if _multiplications(node) >= LEAST
            and node in stepped
            and node not in carried
            and (rows := _rows(node, stepped)) is not None
            and rows < ROWS
        ]
        sums = [found for i in range(parts.carries) if (found := _sum(body, parts, i, stepped)) is not None]
        wanted = max([*[each.steps for each in products], *[each.steps for each in sums]], default=0)
        steps = _divisor(length, min(wanted, MOST_STEPS)) if wanted else 0
        if steps < 2:
            return None
        blocks = cls(body, parts, length, products, sums, steps)
        return blocks if steps * blocks.bytes() <= MOST_BYTES else None

    def bytes(self) -> int:
        """What is kept for a step while its block runs."""
        kept = [each.node for each in self.products] + [n for each in self.sums for n in each.factors]
        return sum(prod(n.shape) * n.dtype.itemsize for n in dict.fromkeys(kept) if n.op is not INPUT)

    def graph(self, reverse: bool) -> Graph:
        """The whole loop, from the arguments of the scan to its results."""
        fixed, carries, xs = self.parts.of(self.body.inputs)
        blocks = self.length // self.steps
        inputs = [*_like(fixed), *_like(carries), *_like(xs, self.length)]
        begin = len(fixed) + len(carries)
        results = scan.apply(
            *inputs[:begin],
            *[prims.reshape(x, shape=(blocks, self.steps, *x.shape[1:])) for x in inputs[begin:]],
            graph=self._block(reverse),
            length=blocks,
            constants=len(fixed),
            carries=len(carries),
            reverse=reverse,
        )
        ys = [prims.reshape(y, shape=(self.length, *y.shape[2:])) for y in results[len(carries) :]]
        return Graph(inputs, [*results[: len(carries)], *ys], name="blocks")

    def _block(self, reverse: bool) -> Graph:
        """The body of the outer scan."""
        body, steps = self.body, self.steps
        fixed, carries, xs = self.parts.of(body.inputs)
        ys = body.outputs[len(carries) :]
        inputs = [*_like(fixed), *_like(carries), *_like(xs, steps)]
        given_fixed, given_carries, given_xs = self.parts.of(inputs)
        # Before the steps.
        made = [each.node for each in self.products]
        before = self._over_steps(Graph([*fixed, *xs], made, name="before"), [*given_fixed, *given_xs])
        # The steps, which also give the factors of what is added up, if these are not there anyway.
        summed = {each.carry for each in self.sums}
        left = [i not in summed for i in range(len(carries))]
        factors = dict.fromkeys(node for each in self.sums for node in each.factors)
        extra = [node for node in factors if node not in xs and node not in ys]
        handed = [input_node(node.dtype, node.shape) for node in made]
        outputs = [*chosen(body.outputs[: len(carries)], left), *ys, *extra]
        inner_inputs = [*fixed, *chosen(carries, left), *xs, *handed]
        step = Graph(inner_inputs, substitute(outputs, dict(zip(made, handed, strict=True))), name=body.name)
        count = sum(left)
        found = scan.apply(
            *given_fixed,
            *chosen(given_carries, left),
            *given_xs,
            *before,
            graph=step,
            length=steps,
            constants=len(fixed),
            carries=count,
            reverse=reverse,
        )
        stacked = dict(zip([*xs, *ys, *extra], [*given_xs, *found[count:]], strict=True))
        # After the steps.
        totals = {each.carry: self._total(each, given_carries[each.carry], stacked) for each in self.sums}
        following = iter(found[:count])
        carried = [totals[i] if i in totals else next(following) for i in range(len(carries))]
        return Graph(inputs, [*carried, *found[count : count + len(ys)]], name=body.name)

    def _over_steps(self, graph: Graph, arguments: Sequence[UOp]) -> list[UOp]:
        """The outputs of a graph for each step of a block, given those of its arguments that have a leading axis for these."""
        flags = tuple([a.shape != node.shape for a, node in zip(arguments, graph.inputs, strict=True)])
        derived, has_axis = batch_graph(graph, BatchAxis(self.steps), flags)
        assert all(has_axis)
        return derived.inline(arguments)

    def _total(self, each: _Sum, before: UOp, stacked: dict[UOp, UOp]) -> UOp:
        """A sum with what the steps of a block add to it."""
        product = each.product
        names = [input_node(node.dtype, node.shape) for node in each.factors]
        x, y = [
            self._over_steps(
                Graph([name], substitute([operand], {factor: name}), name="factor"), [stacked[factor]]
            )[0]
            for name, operand, factor in zip(names, product.src, each.factors, strict=True)
        ]
        contract = product.params["contract"]
        both = tuple([(0, *[axis + 1 for axis in axes]) for axes in contract])
        whole = prims.dot_general(x, y, contract=both, batch_axes=((), ()))
        (added,) = substitute([each.added], {product: whole})
        total: UOp = prims.accumulate(before, added)
        return total


def _rows(node: UOp, stepped: set[UOp]) -> int | None:
    """How many rows a product has in a step if one factor is the same in all steps, else None."""
    sides = [source in stepped for source in node.src]
    if all(sides) or any(node.params["batch_axes"]):
        return None
    side = sides.index(True)
    mine = node.src[side]
    rows: int = prod([n for axis, n in enumerate(mine.shape) if axis not in node.params["contract"][side]])
    return rows


def _sum(body: Graph, parts: Parts, i: int, stepped: set[UOp]) -> _Sum | None:
    """The carry as one that adds up products, if it is one."""
    carry, following = body.inputs[parts.constants + i], body.outputs[i]
    if following.op is not prims.accumulate or following.src[0] is not carry:
        return None
    if sum(node.src.count(carry) for node in body.nodes()) != 1 or body.outputs.count(following) != 1:
        return None
    if carry in body.outputs or any(following in node.src for node in body.nodes()):
        return None
    added = following.src[1]
    product = added
    while _is_movement(product) and len(product.src) == 1:
        (product,) = product.src
    if _multiplications(product) < LEAST or any(product.params["batch_axes"]):
        return None
    terms = prod([product.src[0].shape[axis] for axis in product.params["contract"][0]])
    factors = (_viewed(product.src[0]), _viewed(product.src[1]))
    if terms >= TERMS or any(factor not in stepped for factor in factors):
        return None
    return _Sum(i, product, added, factors, -(-TERMS // terms))


def _viewed(node: UOp) -> UOp:
    """The value that a node has elements of, in another order."""
    while node.op in (prims.transpose, prims.reshape):
        (node,) = node.src
    return node


def _divisor(length: int, wanted: int) -> int:
    """The least divisor of a length that is at least so large, but no more than twice; else the greatest below."""
    above = [n for n in range(wanted, min(2 * wanted, length) + 1) if length % n == 0]
    below = [n for n in range(min(wanted, length), 0, -1) if length % n == 0]
    return min(above) if above else max(below, default=0)
