"""Sinks: the values of a graph that have to exist.

These are outputs, operands of ops that do not compile, reductions, contractions, and expensive elementwise values that are used
more than once. All else is inlined into what uses it. A reshape of a value in memory is another view of it, and no work.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ..trace import dtype as dtypes
from ..trace import prims as p
from ..trace import sint
from ..trace.graph import Graph
from ..trace.prim import Reduction
from ..trace.uop import CONST, INPUT, UOp, input_node, make, toposort
from .contraction import CONTRACTIONS
from .index import PIECE, has_rule, is_elementwise, is_movement, is_ordered

# Elementwise values that take more than this many scalar ops are kept for their second use rather than computed again.
RECOMPUTE_LIMIT = 12
# An elementwise value that takes more than this is kept for its reader in any case: no nest shall have many more.
LONG = 500
# One that takes more than this is not computed in the tiles of a contraction that reads it.
PRODUCER_LIMIT = 4


def compiles(node: UOp) -> bool:
    """Whether a node can be part of a nest: it has a rule, dtypes that are computed with, and elements."""
    if node.op is CONST:
        return node.dtype in _COMPUTED
    if not (has_rule(node) or is_reduction(node) or node.op in CONTRACTIONS or is_ordered(node)):
        return False
    if node.op in CONTRACTIONS and node.dtype not in _MULTIPLIED:
        return False
    for each in (node, *node.src):
        if isinstance(each.dtype, tuple) or each.dtype not in _COMPUTED or 0 in each.shape:
            return False
    return True


_MULTIPLIED = frozenset((*dtypes.INTEGERS, *dtypes.FLOATS))
_COMPUTED = _MULTIPLIED | {dtypes.bool_, dtypes.key}


_NONE: frozenset[UOp] = frozenset()
_MANY = 8


def home(node: UOp) -> UOp:
    """The value whose memory a node has: reshapes of it are views."""
    while node.op is p.reshape and all(n != 0 for n in node.shape):
        node = node.src[0]
    return node


def is_reduction(node: UOp) -> bool:
    """Whether a node combines the elements of its source along some axes."""
    return isinstance(node.op, Reduction)


def reduces(node: UOp) -> bool:
    """Whether a node is a reduction or a contraction."""
    return is_reduction(node) or node.op in CONTRACTIONS


class Sinks:
    """The values that have to exist, in topological order, and about how many scalar ops each takes from the others on.

    `pieces` has for each concatenation among them its pieces, which take its place; `views` the reshapes of values in memory
    that somebody outside of the kernels reads. Those `computed_again` are single numbers, which kernels compute again, whoever
    else wants them in memory."""

    def __init__(self, graph: Graph):
        self._order = graph.nodes()
        self._compiles = {node: compiles(node) for node in self._order}
        self.outputs = set(map(home, graph.outputs))
        self.views = dict.fromkeys(node for node in graph.outputs if home(node) is not node)
        self._users: dict[UOp, list[UOp]] = {}
        wanted = set(self.outputs)
        for node in self._order:
            for source in dict.fromkeys(node.src):
                self._users.setdefault(source, []).append(node)
            if not self._compiles[node] and node.op is not INPUT and home(node) is node:
                wanted.add(node)
                wanted.update(map(home, node.src))
                self.views |= dict.fromkeys(s for s in node.src if home(s) is not s)
        self._wanted = wanted
        self._arrays: dict[UOp, frozenset[UOp]] = {}
        self.weight: dict[UOp, int] = {}
        for node in self._order:
            if node.op is INPUT or node.op is CONST or not self._compiles[node]:
                self.weight[node] = 0
            else:
                self._consider(node)
        self.pieces: dict[UOp, list[UOp]] = {}
        self.cost: dict[UOp, int] = {}
        for node in self._order:
            if node not in wanted or node.op is INPUT:
                continue
            if node.op is p.concatenate and self._compiles[node]:
                self.pieces[node] = _pieces(node)
                self.cost |= {piece: self.weight[piece.src[0]] for piece in self.pieces[node]}
            else:
                self.cost[node] = self.weight[node]
        self.computed_again = {
            node
            for node, weight in self.cost.items()
            if weight <= LONG
            and self.compiles(node)
            and not reduces(node)
            and not is_ordered(node)
            and all(n == 1 for n in node.shape)
        }

    def compiles(self, sink: UOp) -> bool:
        """Whether a sink is part of a nest, and does not run by its reference."""
        return sink.op is PIECE or self._compiles[sink]

    def _consider(self, node: UOp) -> None:
        """How much work a node is, and whether it has to exist."""
        wanted, users = self._wanted, self._users.get(node, ())
        weight = _cost(node) + sum(self.weight[s] for s in dict.fromkeys(node.src) if s not in wanted)
        self.weight[node] = weight
        if is_ordered(node):
            wanted.add(node)
            return
        if reduces(node):
            wanted.add(node)
            # What is made of one number is computed again by whoever needs it.
            if node.op in CONTRACTIONS and any(n != 1 for n in node.shape):
                wanted.add(self._last(node))
            return
        self._arrays[node] = arrays = self._arrays_of(node)
        if weight > LONG:
            wanted.add(node)
        # One number is computed again by whoever needs it, once for the whole kernel.
        elif any(n != 1 for n in node.shape):
            costly, size = weight > RECOMPUTE_LIMIT, sint.prod(node.shape)
            repeated = costly and any(u.op is p.broadcast and sint.prod(u.shape) != size for u in users)
            made = is_elementwise(node) or (node.op is p.concatenate and costly)
            shared = made and (costly or len(arrays) > 1) and self._is_shared(node)
            producer = weight > PRODUCER_LIMIT and any(u.op in CONTRACTIONS for u in map(self._reader, users))
            if repeated or shared or producer:
                wanted.add(node)

    def _is_shared(self, node: UOp) -> bool:
        """Whether several nodes use a value, or a view of it."""
        users = self._users.get(node, [])
        while len(users) == 1 and users[0].op is p.reshape and users[0] not in self.outputs:
            users = self._users.get(users[0], [])
        return len(users) > 1

    def _arrays_of(self, node: UOp) -> frozenset[UOp]:
        """The arrays of about its size that a node is computed from; to read several again may take longer than to keep it."""
        read: set[UOp] = set()
        for source in node.src:
            read |= (
                {source} if source.op is INPUT or source in self._wanted else self._arrays.get(source, _NONE)
            )
        if len(read) > _MANY:
            return frozenset(list(read)[:_MANY])
        size = sint.prod(node.shape)
        return frozenset([a for a in read if sint.always_less_equal(size, sint.mul(sint.prod(a.shape), 2))])

    def _last(self, node: UOp) -> UOp:
        """The last elementwise value through which everything that uses a node goes, without many scalar ops on the way."""
        cost = 0
        while node not in self.outputs and len(users := self._users.get(node, [])) == 1:
            (user,) = users
            cost += _cost(user)
            if (
                not is_elementwise(user)
                or user.shape != node.shape
                or cost > RECOMPUTE_LIMIT
                or not self._compiles[user]
            ):
                break
            node = user
        return node

    def _reader(self, node: UOp) -> UOp:
        """Who reads a value in the end, if movement ops with one user each lie between."""
        while is_movement(node) and len(users := self._users.get(node, [])) == 1:
            (node,) = users
        return node

    @cached_property
    def reads(self) -> dict[UOp, set[UOp]]:
        """For each sink the sinks and inputs that it reads, directly or through what is inlined."""
        through: dict[UOp, set[UOp]] = {}
        found: dict[UOp, set[UOp]] = {}
        for node in self._order:
            by_reference = not self._compiles[node]
            sources = [self._as_read(s, through, by_reference) for s in node.src]
            if node in self.pieces:
                for piece, read in zip(self.pieces[node], sources, strict=True):
                    found[piece] = read
            reads: set[UOp] = {node} if node.op is INPUT else set().union(*sources)
            if node in self.cost:
                found[node] = reads
            through[node] = reads
        return found

    def _as_read(self, source: UOp, through: dict[UOp, set[UOp]], by_reference: bool) -> set[UOp]:
        if by_reference:
            source = home(source)
        if source in self.pieces:
            return set(self.pieces[source])
        in_memory = source in self.cost and (by_reference or source not in self.computed_again)
        return {source} if in_memory else through[source]


def _pieces(node: UOp) -> list[UOp]:
    """The sources of a concatenation as sinks of their own."""
    made, begin = [], 0
    for source in node.src:
        made.append(make(PIECE, (source,), (node, begin), source.dtype, source.shape))
        begin += source.shape[node.params["axis"]]
    return made


def _cost(node: UOp) -> int:
    """About how many scalar ops the formula of an op takes."""
    if not is_elementwise(node):
        return getattr(node.op, "work", 0)
    key = (node.op, node.arg, node.dtype, tuple([s.dtype for s in node.src]))
    if key not in _COSTS:
        elements = [input_node(s.dtype, ()) for s in node.src]
        _COSTS[key] = sum(
            n.op not in (CONST, INPUT) for n in toposort([node.op.scalar(*elements, **node.params)])
        )
    return _COSTS[key]


_COSTS: dict[Any, int] = {}
