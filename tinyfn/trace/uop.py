"""UOp, the only node type: from traced array code, through every transform, down to machine operations.

A UOp is immutable and hash-consed: building the same operation on the same sources twice gives the same object, so
equality is `is`, and memo tables key on the node. `op` says what the node does: a Primitive (arrays, an open set), a
ScalarOp (machine operations, a closed set) or one of the few structural ops below. Inputs carry an identity of their
own and are never merged. All walks are iterative, so a graph may be as deep as memory allows.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import dtype as dtypes
from .dtype import DType

if TYPE_CHECKING:
    Shape = tuple[Any, ...]  # of int or of an index UOp (a symbolic dimension)


class StructuralOp:
    """A kind of node that no transform has a rule for: inputs, constants and projections of a result of several."""

    __slots__ = ("name",)
    is_scalar = False

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return self.name


INPUT = StructuralOp("input")  # arg: an InputIdentity
CONST = StructuralOp("const")  # a scalar; arg: its bytes (0.0, -0.0 and NaNs stay apart) and its dtype
OUTPUT = StructuralOp("output")  # one result of a node with several; arg: which


class InputIdentity:
    """What makes one input differ from every other, and the name that messages and printed graphs give it."""

    __slots__ = ("name", "serial")
    _serials = itertools.count()

    def __init__(self, name: str | None = None):
        self.serial = next(self._serials)
        self.name = name

    def __repr__(self) -> str:
        return self.name or f"input{self.serial}"


class UOp:
    """One operation: what (`op`, `arg`), on what (`src`), and the dtype and shape of its result."""

    __slots__ = ("__weakref__", "arg", "dtype", "op", "shape", "src")
    op: Any
    src: tuple[UOp, ...]
    arg: Any
    dtype: DType
    shape: Shape

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a UOp is immutable")

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def value(self) -> Any:
        """The NumPy scalar of a constant."""
        assert self.op is CONST
        return np.frombuffer(self.arg[0], self.dtype)[0]

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of a primitive's node by name."""
        return dict(zip(self.op.params, self.arg, strict=True)) if self.arg is not None else {}

    def __repr__(self) -> str:
        if self.dtype is not None and self.op is not INPUT and getattr(self.op, "is_scalar", False):
            return self.op.format(self)
        several = self.dtype is None or isinstance(self.dtype, tuple)
        described = "several" if several else dtypes.describe(self.dtype, self.shape)
        return f"<{self.op.name} {described}>"

    def __reduce__(self) -> Any:
        raise TypeError("a UOp can't be pickled; pickle the function and trace it again")

    if TYPE_CHECKING:  # what `prims.operators` puts on the class

        def __neg__(self) -> UOp: ...
        def __add__(self, other: Any, /) -> UOp: ...
        def __radd__(self, other: Any, /) -> UOp: ...
        def __sub__(self, other: Any, /) -> UOp: ...
        def __rsub__(self, other: Any, /) -> UOp: ...
        def __mul__(self, other: Any, /) -> UOp: ...
        def __rmul__(self, other: Any, /) -> UOp: ...
        def __truediv__(self, other: Any, /) -> UOp: ...
        def __rtruediv__(self, other: Any, /) -> UOp: ...
        def __and__(self, other: Any, /) -> UOp: ...
        def __rand__(self, other: Any, /) -> UOp: ...
        def __or__(self, other: Any, /) -> UOp: ...
        def __ror__(self, other: Any, /) -> UOp: ...
        def __floordiv__(self, other: Any, /) -> UOp: ...
        def __rfloordiv__(self, other: Any, /) -> UOp: ...
        def __mod__(self, other: Any, /) -> UOp: ...
        def __rmod__(self, other: Any, /) -> UOp: ...
        def __lt__(self, other: Any, /) -> UOp: ...
        def __le__(self, other: Any, /) -> UOp: ...
        def __gt__(self, other: Any, /) -> UOp: ...
        def __ge__(self, other: Any, /) -> UOp: ...


_set = {name: getattr(UOp, name).__set__ for name in ("op", "src", "arg", "dtype", "shape")}
_set_op, _set_src, _set_arg, _set_dtype, _set_shape = _set.values()
_new = object.__new__


class _Reference(weakref.ref):
    """A weak reference that knows under which key its node is interned."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


_interned: dict[tuple[Any, ...], _Reference] = {}


def _forget(reference: _Reference) -> None:
    if _interned.get(reference.key) is reference:
        _interned.pop(reference.key, None)  # another thread may have been faster


def make(
    op: Any,
    src: tuple[UOp, ...],
    arg: Any = None,
    dtype: DType | None = None,
    shape: Shape | None = None,
    infer: Callable[[tuple[UOp, ...], Any], tuple[DType, Shape]] | None = None,
) -> UOp:
    """The one node of this op, sources and argument; dtype and shape follow from those, through `infer` if not given."""
    key = (op, src, arg)
    reference = _interned.get(key)
    if reference is not None:
        node = reference()
        if node is not None:
            return node
    if infer is not None:
        dtype, shape = infer(src, arg)
    node = _new(UOp)
    _set_op(node, op)
    _set_src(node, src)
    _set_arg(node, arg)
    _set_dtype(node, dtype)
    _set_shape(node, shape)
    reference = _Reference(node, _forget)
    reference.key = key
    # setdefault is atomic: of two threads that build the same node at once, both get the first one's.
    while (winner := _interned.setdefault(key, reference)) is not reference:
        other = winner()
        if other is not None:
            return other
        _forget(winner)
    return node


def input_node(dtype: DType, shape: Shape, name: str | None = None) -> UOp:
    """A new input, different from every other."""
    return make(INPUT, (), InputIdentity(name), dtype, shape)


def const(value: Any, dtype: DType) -> UOp:
    """A scalar constant of the given dtype."""
    return make(CONST, (), (np.asarray(value, dtype).tobytes(), dtype), dtype, ())


def output(node: UOp, index: int) -> UOp:
    """One result of a node that has several."""
    return make(OUTPUT, (node,), index, node.dtype[index], node.shape[index])


def toposort(outputs: Iterable[UOp], stop: Any = ()) -> list[UOp]:
    """The nodes that the outputs depend on, each after its sources; nodes in `stop` are not walked into or listed."""
    if not isinstance(stop, (dict, set, frozenset)):
        stop = frozenset(stop)
    order: list[UOp] = []
    done: set[UOp] = set()
    stack = list(outputs)
    stack.reverse()
    while stack:
        node = stack[-1]
        if node in done or node in stop:
            stack.pop()
            continue
        ready = True
        for source in reversed(node.src):
            if source not in done and source not in stop:
                stack.append(source)
                ready = False
        if ready:
            done.add(node)
            order.append(node)
            stack.pop()
    return order


def rebuild(node: UOp, src: tuple[UOp, ...]) -> UOp:
    """The same operation on other sources of the same dtypes and shapes."""
    new = make(node.op, src, node.arg, node.dtype, node.shape)
    if on_rebuild is not None:
        on_rebuild(node, (new,))
    return new


# Told of each node that is rebuilt, and the node that it became, while nodes keep their lines; see `switches`.
on_rebuild: Callable[[UOp, tuple[UOp, ...]], None] | None = None


def substitute(outputs: Iterable[UOp], mapping: Mapping[UOp, UOp]) -> list[UOp]:
    """The outputs with nodes replaced, where each replacement has the dtype and shape of what it replaces."""
    outputs = list(outputs)
    new = dict(mapping)
    for node in toposort(outputs, stop=mapping):
        src = node.src
        for source in src:
            if new[source] is not source:
                new[node] = rebuild(node, tuple([new[s] for s in src]))
                break
        else:
            new[node] = node
    return [new[node] for node in outputs]


def depends_on(order: Iterable[UOp], sources: Iterable[UOp]) -> set[UOp]:
    """Those of the nodes (given in topological order) that depend on any of `sources`, these included."""
    dependent = set(sources)
    for node in order:
        if not dependent.isdisjoint(node.src):
            dependent.add(node)
    return dependent
