"""What a caller sees of a traced function: the trees of its arguments and results, and their shapes and dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from . import dtype as dtypes
from . import pytree
from .errors import entry_methods, user_line
from .graph import Graph
from .pytree import TreeDef
from .sint import prod


class ShapeDtypeStruct:
    """A shape and a dtype: stands for an array where only these matter.

    >>> tinyfn.ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    >>> tinyfn.eval_shape(tnp.transpose, tinyfn.ShapeDtypeStruct((2, 3), "float32"))
    ShapeDtypeStruct(shape=(3, 2), dtype=float32)
    """

    __slots__ = ("dtype", "shape")
    weak_type = False

    def __init__(self, shape: tuple[Any, ...], dtype: Any):
        self.shape = tuple(shape)
        self.dtype = dtypes.canonical(dtype)

    @property
    def ndim(self) -> int:
        """The number of axes.

        >>> tinyfn.ShapeDtypeStruct((2, 3), "float32").ndim
        2
        """
        return len(self.shape)

    @property
    def size(self) -> Any:
        """The number of elements.

        >>> tinyfn.ShapeDtypeStruct((2, 3), "float32").size
        6
        """
        return prod(self.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={dtypes.name(self.dtype)})"


entry_methods(ShapeDtypeStruct, "__init__")


class Interface(NamedTuple):
    """The trees of (args, kwargs) and of the result, and what their leaves are. Static arguments are not among them."""

    name: str
    in_tree: TreeDef
    in_avals: tuple[ShapeDtypeStruct, ...]
    out_tree: TreeDef
    out_avals: tuple[ShapeDtypeStruct, ...]
    names: tuple[str, ...]  # of the arguments' leaves

    @staticmethod
    def of(graph: Graph, in_tree: TreeDef, out_tree: TreeDef, names: Sequence[str]) -> Interface:
        """That of a traced function."""
        avals = [
            tuple([ShapeDtypeStruct(node.shape, node.dtype) for node in nodes])
            for nodes in (graph.arguments, graph.outputs)
        ]
        return Interface(graph.name, in_tree, avals[0], out_tree, avals[1], tuple(names))

    def check(self, made: str, tree: TreeDef, arrays: Sequence[Any]) -> None:
        """Raise TypeError for arguments of another structure, dtype or shape than the function was compiled for (or as `made`
        says), sizes of symbolic dimensions aside.

        Whether they are weak, as Python's numbers are, does not matter: it took part in the choice of dtypes."""
        if tree != self.in_tree:
            raise TypeError(
                f"the {made} {self.name} is called with arguments of another structure at {user_line()}: "
                f"{pytree.spelled(tree)}, but it was {made} for {pytree.spelled(self.in_tree)}"
            )
        differences = [
            f"argument `{name}` is {dtypes.describe(a.dtype, a.shape)}, but it was {made} for "
            f"{dtypes.describe(b.dtype, b.shape)}"
            for name, a, b in zip(self.names, arrays, self.in_avals, strict=True)
            if a.dtype is not b.dtype or not _fits(a.shape, b.shape)
        ]
        if differences:
            raise TypeError(
                f"the {made} {self.name} is called at {user_line()} with other arguments: {'; '.join(differences)}. It is not "
                "traced again for these: cast or reshape them, or call the jitted function itself"
            )


def _fits(given: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Whether a shape is the one that is expected, as far as that is known."""
    pairs = zip(given, expected, strict=False)
    return len(given) == len(expected) and all(n == m for n, m in pairs if isinstance(m, int))


class Described:
    """What the stages of compiling ahead of time, and exported functions, tell of themselves."""

    interface: Interface

    @property
    def in_tree(self) -> TreeDef:
        """The structure of (args, kwargs), without static arguments."""
        return self.interface.in_tree

    @property
    def in_avals(self) -> tuple[ShapeDtypeStruct, ...]:
        """Shape and dtype of each leaf of the arguments."""
        return self.interface.in_avals

    @property
    def args_info(self) -> Any:
        """(args, kwargs) with shapes and dtypes for arrays."""
        return pytree.unflatten(self.in_tree, self.in_avals)

    @property
    def out_tree(self) -> TreeDef:
        """The structure of the result."""
        return self.interface.out_tree

    @property
    def out_avals(self) -> tuple[ShapeDtypeStruct, ...]:
        """Shape and dtype of each leaf of the result."""
        return self.interface.out_avals

    @property
    def out_info(self) -> Any:
        """The result with shapes and dtypes for arrays."""
        return pytree.unflatten(self.out_tree, self.out_avals)
